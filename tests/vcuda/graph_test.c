/* Capture, graphs and replay: CUDA's rules, one test for each of its error codes. */
#define _POSIX_C_SOURCE 200809L

#include "device.h"

#include <pthread.h>

static cuda_stream begin(int mode) {
  cuda_stream stream = make_stream();
  OK(cudaStreamBeginCapture(stream, mode));
  return stream;
}

/* The capture was broken: its end returns this, and the stream is no longer captured. */
static void end_broken(cuda_stream stream) {
  cuda_graph graph;
  int status = -1;
  OK(cudaStreamIsCapturing(stream, &status));
  assert_int_equal(status, CUDA_CAPTURE_BROKEN);
  FAILS(CUDA_CAPTURE_INVALIDATED, touch(stream, "more", NULL, 0, -1));
  FAILS(CUDA_CAPTURE_INVALIDATED, cudaStreamEndCapture(stream, &graph));
  assert_null(graph);
  OK(touch(stream, "free again", NULL, 0, -1));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamDestroy(stream));
}

static cuda_exec end_whole(cuda_stream stream) {
  cuda_graph graph;
  cuda_exec exec;
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph)); /* the instance does not need it */
  return exec;
}

static void captured_work_runs_at_each_launch_only(void **state) {
  (void)state;
  int status = -1;
  void *address = make_memory(8);
  OK(cudaMemset(address, 9, 8));
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL);
  OK(touch(stream, "work", address, 8, 1));
  OK(cudaStreamIsCapturing(stream, &status));
  assert_int_equal(status, CUDA_CAPTURE_ACTIVE);
  cuda_exec exec = end_whole(stream);
  assert_int_equal(first_byte(address), 9);
  int64_t before = vcuda_get(0, "graph_launches");
  int64_t live = vcuda_get(0, "live_graphs");
  for (int i = 0; i < 2; i++) {
    OK(cudaMemset(address, 9, 8));
    OK(cudaDeviceSynchronize());
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(first_byte(address), 1);
  }
  assert_int_equal(vcuda_get(0, "graph_launches") - before, 2);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphExecDestroy(exec)); /* while it may still run */
  assert_int_equal(live - vcuda_get(0, "live_graphs"), 1);
  OK(cudaStreamSynchronize(stream));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void memory_that_was_freed_faults_at_the_replay(void **state) {
  (void)state;
  void *address = make_memory(8);
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL);
  OK(touch(stream, "work", address, 8, 1));
  cuda_exec exec = end_whole(stream);
  OK(cudaFree(address));
  OK(cudaGraphLaunch(exec, stream));
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(stream));
  (void)vcuda_recover(0);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaStreamDestroy(stream));
}

static void waiting_for_a_captured_stream_is_900(void **state) {
  (void)state;
  cuda_stream stream = begin(CUDA_CAPTURE_RELAXED);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaStreamSynchronize(stream));
  end_broken(stream);
  stream = begin(CUDA_CAPTURE_RELAXED);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaStreamQuery(stream));
  end_broken(stream);
  stream = begin(CUDA_CAPTURE_RELAXED);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaDeviceSynchronize());
  end_broken(stream);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaStreamBeginCapture(NULL, CUDA_CAPTURE_GLOBAL));
}

static void unsafe_calls_depend_on_the_mode(void **state) {
  (void)state;
  void *address;
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaMalloc(&address, 8));
  end_broken(stream);
  stream = begin(CUDA_CAPTURE_THREAD_LOCAL);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaMalloc(&address, 8));
  end_broken(stream);
  stream = begin(CUDA_CAPTURE_RELAXED);
  OK(cudaMalloc(&address, 8));
  OK(cudaGraphExecDestroy(end_whole(stream)));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void *allocate(void *argument) {
  void *address = NULL;
  int *error = argument;
  int relaxed = CUDA_CAPTURE_RELAXED;
  if (*error == CUDA_CAPTURE_RELAXED) OK(cudaThreadExchangeStreamCaptureMode(&relaxed));
  *error = cudaMalloc(&address, 8);
  if (address != NULL) (void)cudaFree(address);
  return NULL;
}

static int allocate_in_a_thread(int mode) {
  pthread_t thread;
  int error = mode;
  assert_int_equal(pthread_create(&thread, NULL, allocate, &error), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return error;
}

static void a_global_capture_forbids_other_threads(void **state) {
  (void)state;
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL);
  FAILS(CUDA_CAPTURE_UNSUPPORTED, allocate_in_a_thread(CUDA_CAPTURE_GLOBAL));
  end_broken(stream);
  stream = begin(CUDA_CAPTURE_GLOBAL);
  OK(allocate_in_a_thread(CUDA_CAPTURE_RELAXED));
  OK(cudaGraphExecDestroy(end_whole(stream)));
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_THREAD_LOCAL));
  OK(allocate_in_a_thread(CUDA_CAPTURE_GLOBAL));
  OK(cudaGraphExecDestroy(end_whole(stream)));
  OK(cudaStreamDestroy(stream));
}

static void two_captures_that_meet_are_902(void **state) {
  (void)state;
  cuda_event event;
  OK(cudaEventCreate(&event));
  cuda_stream one = begin(CUDA_CAPTURE_GLOBAL), other = begin(CUDA_CAPTURE_GLOBAL);
  OK(cudaEventRecord(event, one));
  FAILS(CUDA_CAPTURE_MERGE, cudaStreamWaitEvent(other, event, 0));
  end_broken(one);
  end_broken(other);
  OK(cudaEventDestroy(event));
}

static void a_capture_ends_where_it_began_or_903(void **state) {
  (void)state;
  cuda_event event;
  cuda_graph graph;
  OK(cudaEventCreate(&event));
  cuda_stream one = begin(CUDA_CAPTURE_GLOBAL), other = make_stream();
  OK(cudaEventRecord(event, one));
  OK(cudaStreamWaitEvent(other, event, 0));
  FAILS(CUDA_CAPTURE_UNMATCHED, cudaStreamEndCapture(other, &graph));
  end_broken(one);
  FAILS(CUDA_ILLEGAL_STATE, cudaStreamEndCapture(other, &graph));
  OK(cudaStreamDestroy(other));
  OK(cudaEventDestroy(event));
}

static void a_stream_that_is_not_joined_is_904(void **state) {
  (void)state;
  cuda_event event;
  cuda_graph graph;
  OK(cudaEventCreate(&event));
  cuda_stream one = begin(CUDA_CAPTURE_GLOBAL), other = make_stream();
  OK(cudaEventRecord(event, one));
  OK(cudaStreamWaitEvent(other, event, 0));
  OK(touch(other, "lost", NULL, 0, -1));
  FAILS(CUDA_CAPTURE_UNJOINED, cudaStreamEndCapture(one, &graph));
  OK(cudaStreamSynchronize(other));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
  OK(cudaEventDestroy(event));
}

static void an_event_from_outside_is_905(void **state) {
  (void)state;
  cuda_event event;
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, NULL));
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL);
  FAILS(CUDA_CAPTURE_ISOLATION, cudaStreamWaitEvent(stream, event, 0));
  end_broken(stream);
  OK(cudaEventDestroy(event));
}

static void the_null_stream_is_906(void **state) {
  (void)state;
  cuda_stream stream;
  cuda_graph graph;
  int status;
  char host[8] = {0};
  void *address = make_memory(8);
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_RELAXED));
  FAILS(CUDA_CAPTURE_IMPLICIT, cudaStreamIsCapturing(NULL, &status)); /* the query does not break the capture */
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_RELAXED));
  FAILS(CUDA_CAPTURE_IMPLICIT, cudaMemcpy(address, host, 8, CUDA_COPY_UP));
  FAILS(CUDA_CAPTURE_INVALIDATED, cudaStreamEndCapture(stream, &graph));
  OK(cudaStreamDestroy(stream));
  stream = begin(CUDA_CAPTURE_RELAXED); /* non-blocking streams are independent of the NULL stream */
  OK(touch(NULL, "beside", address, 8, 1));
  OK(cudaGraphExecDestroy(end_whole(stream)));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(address));
}

static void a_captured_event_is_907(void **state) {
  (void)state;
  cuda_event event;
  OK(cudaEventCreate(&event));
  cuda_stream stream = begin(CUDA_CAPTURE_RELAXED);
  OK(cudaEventRecord(event, stream));
  FAILS(CUDA_CAPTURED_EVENT, cudaEventQuery(event));
  end_broken(stream);
  stream = begin(CUDA_CAPTURE_RELAXED);
  OK(cudaEventRecord(event, stream));
  FAILS(CUDA_CAPTURED_EVENT, cudaEventSynchronize(event));
  end_broken(stream);
  OK(cudaEventDestroy(event));
}

typedef struct ending {
  cuda_stream stream;
  cuda_graph graph;
  int error;
} ending;

static void *end_capture(void *argument) {
  ending *e = argument;
  e->error = cudaStreamEndCapture(e->stream, &e->graph);
  return NULL;
}

static void another_thread_ends_a_relaxed_capture_only(void **state) {
  (void)state;
  pthread_t thread;
  ending e = {.stream = begin(CUDA_CAPTURE_GLOBAL)};
  assert_int_equal(pthread_create(&thread, NULL, end_capture, &e), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(e.error, CUDA_CAPTURE_WRONG_THREAD);
  OK(cudaGraphExecDestroy(end_whole(e.stream)));
  OK(cudaStreamBeginCapture(e.stream, CUDA_CAPTURE_RELAXED));
  assert_int_equal(pthread_create(&thread, NULL, end_capture, &e), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  OK(e.error);
  OK(cudaGraphDestroy(e.graph));
  OK(cudaStreamDestroy(e.stream));
}

static void a_launch_into_a_capture_becomes_part_of_it(void **state) {
  (void)state;
  void *address = make_memory(8);
  size_t count = 0;
  cuda_graph graph;
  cuda_exec outer;
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL);
  OK(touch(stream, "a", address, 8, 1));
  OK(touch(stream, "b", address, 8, 2));
  cuda_exec inner = end_whole(stream);
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  OK(cudaGraphLaunch(inner, stream));
  OK(touch(stream, "c", address, 4, 3));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphGetNodes(graph, NULL, &count));
  assert_int_equal(count, 3);
  OK(cudaGraphInstantiate(&outer, graph, 0));
  OK(cudaGraphLaunch(outer, stream));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(first_byte(address), 3);
  assert_int_equal(first_byte((char *)address + 4), 2);
  OK(cudaGraphExecDestroy(inner));
  OK(cudaGraphExecDestroy(outer));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void launches_of_one_graph_come_after_one_another(void **state) {
  (void)state;
  gate g;
  void *address = make_memory(8);
  cuda_stream stream = begin(CUDA_CAPTURE_GLOBAL), other = make_stream();
  OK(touch(stream, "work", address, 8, 1));
  cuda_exec exec = end_whole(stream);
  close_gate(&g, stream);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphLaunch(exec, other));
  FAILS(CUDA_NOT_READY, cudaStreamQuery(other));
  open_gate(&g);
  OK(cudaStreamSynchronize(other));
  OK(cudaStreamQuery(stream));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(other));
}

static void a_capture_breaks_on_request(void **state) {
  (void)state;
  assert_int_equal(vcuda_set(0, "fail_capture", "2"), 0);
  cuda_stream whole = begin(CUDA_CAPTURE_GLOBAL);
  cuda_stream broken = begin(CUDA_CAPTURE_GLOBAL);
  end_broken(broken);
  OK(touch(whole, "work", NULL, 0, -1));
  OK(cudaGraphExecDestroy(end_whole(whole)));
  OK(cudaStreamDestroy(whole));

  cuda_graph graph = NULL;
  assert_int_equal(vcuda_set(0, "fail_capture", "1,name:cudaStreamEndCapture"), 0);
  cuda_stream refused = begin(CUDA_CAPTURE_GLOBAL);
  OK(touch(refused, "work", NULL, 0, -1));
  FAILS(CUDA_CAPTURE_UNSUPPORTED, cudaStreamEndCapture(refused, &graph));
  assert_null(graph);
  OK(touch(refused, "work", NULL, 0, -1));
  OK(cudaStreamSynchronize(refused));
  OK(cudaStreamDestroy(refused));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(captured_work_runs_at_each_launch_only),
      TEST(memory_that_was_freed_faults_at_the_replay),
      TEST(waiting_for_a_captured_stream_is_900),
      TEST(unsafe_calls_depend_on_the_mode),
      TEST(a_global_capture_forbids_other_threads),
      TEST(two_captures_that_meet_are_902),
      TEST(a_capture_ends_where_it_began_or_903),
      TEST(a_stream_that_is_not_joined_is_904),
      TEST(an_event_from_outside_is_905),
      TEST(the_null_stream_is_906),
      TEST(a_captured_event_is_907),
      TEST(another_thread_ends_a_relaxed_capture_only),
      TEST(a_launch_into_a_capture_becomes_part_of_it),
      TEST(launches_of_one_graph_come_after_one_another),
      TEST(a_capture_breaks_on_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
