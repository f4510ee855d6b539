/* The race detector: unordered accesses are found whatever the timing, and ordered ones are not reported. */
#define _POSIX_C_SOURCE 200809L

#include "device.h"

static int count_races(void **state) {
  (void)state;
  OK(cudaDeviceSynchronize());
  assert_int_equal(vcuda_reset(0), 0);
  assert_int_equal(vcuda_set(0, "race", "count"), 0);
  return 0;
}

static void expect_races(int64_t count) {
  assert_int_equal(vcuda_get(0, "races"), count);
}

static void two_streams_race(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  void *address = make_memory(64);
  OK(touch(one, "the writer", address, 64, 1));
  OK(touch(other, "the reader", address, 64, -1));
  OK(cudaStreamSynchronize(one));
  OK(cudaStreamSynchronize(other));
  expect_races(1);
  assert_non_null(strstr(vcuda_last_race(), "the writer"));
  assert_non_null(strstr(vcuda_last_race(), "the reader"));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

static void two_readers_do_not_race(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  void *address = make_memory(64);
  OK(touch(one, "a", address, 64, -1));
  OK(touch(other, "b", address, 64, -1));
  OK(touch(one, "left", address, 16, -1));
  OK(cudaDeviceSynchronize());
  expect_races(0);
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

static void an_event_orders(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  cuda_event event;
  void *address = make_memory(64);
  OK(cudaEventCreate(&event));
  OK(touch(one, "a", address, 64, 1));
  OK(cudaEventRecord(event, one));
  OK(cudaStreamWaitEvent(other, event, 0));
  OK(touch(other, "b", address, 64, 2));
  OK(touch(one, "c", address, 64, 3)); /* not ordered with work of the other stream */
  OK(cudaDeviceSynchronize());
  expect_races(1);
  OK(cudaEventDestroy(event));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

/* Another stream may use memory only after it is ordered after the allocation. The release must be ordered after that use. */
static void an_allocation_in_order_is_not_ordered_elsewhere(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  void *early, *late;
  OK(cudaMallocAsync(&early, 64, one));
  OK(touch(other, "too early", early, 64, 1));
  OK(cudaDeviceSynchronize());
  expect_races(1);
  OK(cudaMallocAsync(&late, 64, one));
  OK(cudaStreamSynchronize(one));
  OK(touch(other, "in time", late, 64, 1));
  OK(cudaDeviceSynchronize());
  expect_races(1);
  OK(cudaFreeAsync(early, one));
  OK(cudaFreeAsync(late, one));
  OK(cudaStreamSynchronize(one));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

static void a_wait_of_the_host_orders(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  cuda_event event;
  void *address = make_memory(64);
  OK(cudaEventCreate(&event));
  OK(touch(one, "a", address, 64, 1));
  OK(cudaStreamSynchronize(one));
  OK(touch(other, "b", address, 64, 2));
  OK(cudaEventRecord(event, other));
  OK(cudaEventSynchronize(event));
  OK(touch(one, "c", address, 64, 3));
  while (cudaStreamQuery(one) == CUDA_NOT_READY) { /* a query that returns OK counts as a wait */
  }
  OK(touch(other, "d", address, 64, 4));
  OK(cudaEventRecord(event, other));
  while (cudaEventQuery(event) == CUDA_NOT_READY) {
  }
  OK(touch(one, "e", address, 64, 5));
  OK(cudaDeviceSynchronize());
  expect_races(0);
  OK(cudaEventDestroy(event));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

static void the_null_stream_orders_blocking_streams_only(void **state) {
  (void)state;
  cuda_stream blocking, free_one = make_stream();
  void *address = make_memory(64);
  OK(cudaStreamCreate(&blocking));
  OK(touch(blocking, "a", address, 64, 1));
  OK(touch(NULL, "b", address, 64, 2));
  OK(touch(blocking, "c", address, 64, 3));
  OK(cudaDeviceSynchronize());
  expect_races(0);
  OK(touch(NULL, "d", address, 64, 4));
  OK(touch(free_one, "e", address, 64, 5));
  OK(cudaDeviceSynchronize());
  expect_races(1);
  assert_non_null(strstr(vcuda_last_race(), "the NULL stream"));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(blocking));
  OK(cudaStreamDestroy(free_one));
}

static void the_host_races_on_pinned_memory(void **state) {
  (void)state;
  gate g;
  cuda_stream stream = make_stream();
  void *pinned, *address = make_memory(64);
  OK(cudaMallocHost(&pinned, 64));
  close_gate(&g, stream);
  OK(cudaMemcpyAsync(address, pinned, 64, CUDA_COPY_UP, stream));
  assert_int_equal(vcuda_host_access(pinned, 64, 1), 0); /* the copy has not run: it finds the race when it runs */
  open_gate(&g);
  OK(cudaStreamSynchronize(stream));
  expect_races(1);
  assert_int_equal(vcuda_host_access(pinned, 64, 1), 0);
  OK(cudaMemcpyAsync(address, pinned, 64, CUDA_COPY_UP, stream));
  OK(cudaStreamSynchronize(stream));
  expect_races(1);
  cuda_stream other = make_stream();
  cuda_event event;
  OK(cudaEventCreate(&event));
  OK(cudaMemcpyAsync(pinned, address, 64, CUDA_COPY_DOWN, stream));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(other, event, 0));
  close_gate(&g, other);
  sem_wait(&g.reached); /* the copy is complete, but the host has not waited for it */
  assert_int_equal(vcuda_host_access(pinned, 64, 0), -1);
  open_gate(&g);
  OK(cudaStreamSynchronize(other));
  assert_int_equal(vcuda_host_access(pinned, 64, 0), 0);
  OK(cudaEventDestroy(event));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(other));
  OK(cudaStreamDestroy(stream));
}

static void a_replay_reads_pinned_memory_when_it_runs(void **state) {
  (void)state;
  gate g;
  cuda_stream stream = make_stream();
  cuda_graph graph;
  cuda_exec exec;
  void *pinned, *address = make_memory(64);
  OK(cudaMallocHost(&pinned, 64));
  memset(pinned, 1, 64);
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  OK(cudaMemcpyAsync(address, pinned, 64, CUDA_COPY_UP, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  memset(pinned, 2, 64);
  assert_int_equal(vcuda_host_access(pinned, 64, 1), 0);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(first_byte(address), 2);
  expect_races(0);
  close_gate(&g, stream);
  OK(cudaGraphLaunch(exec, stream));
  assert_int_equal(vcuda_host_access(pinned, 64, 1), 0);
  open_gate(&g);
  OK(cudaStreamSynchronize(stream));
  expect_races(1);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void branches_of_a_graph_race(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  cuda_event fork_event, join_event;
  cuda_graph graph;
  cuda_exec exec;
  void *address = make_memory(64);
  OK(cudaEventCreate(&fork_event));
  OK(cudaEventCreate(&join_event));
  OK(cudaStreamBeginCapture(one, CUDA_CAPTURE_GLOBAL));
  OK(touch(one, "root", address, 64, 1));
  OK(cudaEventRecord(fork_event, one));
  OK(cudaStreamWaitEvent(other, fork_event, 0));
  OK(touch(other, "branch", address, 64, 2));
  OK(touch(one, "trunk", address, 64, 3));
  OK(cudaEventRecord(join_event, other));
  OK(cudaStreamWaitEvent(one, join_event, 0));
  OK(touch(one, "end", address, 64, 4));
  OK(cudaStreamEndCapture(one, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, one));
  OK(cudaStreamSynchronize(one));
  expect_races(1); /* between the branch and the trunk */
  assert_non_null(strstr(vcuda_last_race(), "branch"));
  assert_non_null(strstr(vcuda_last_race(), "trunk"));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaEventDestroy(fork_event));
  OK(cudaEventDestroy(join_event));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

static void a_use_that_nothing_orders_before_the_free_races(void **state) {
  (void)state;
  gate g;
  cuda_stream owner = make_stream(), other = make_stream();
  cuda_event used;
  void *address;
  OK(cudaEventCreate(&used));
  for (int ordered = 0; ordered < 2; ordered++) {
    OK(cudaMallocAsync(&address, 64, owner));
    OK(cudaStreamSynchronize(owner));
    OK(touch(other, "the user", address, 64, -1));
    close_gate(&g, other);
    sem_wait(&g.reached); /* the use is complete before the memory is freed: it is not reported */
    OK(cudaEventRecord(used, other));
    if (ordered) OK(cudaStreamWaitEvent(owner, used, 0));
    OK(cudaFreeAsync(address, owner));
    if (!ordered) OK(cudaStreamSynchronize(owner));
    open_gate(&g);
    OK(cudaDeviceSynchronize());
    expect_races(1);
  }
  assert_non_null(strstr(vcuda_last_race(), "cudaFreeAsync"));
  assert_non_null(strstr(vcuda_last_race(), "the user"));
  OK(cudaEventDestroy(used));
  OK(cudaStreamDestroy(owner));
  OK(cudaStreamDestroy(other));
}

static void a_race_fails_if_asked_to(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream();
  void *address = make_memory(64);
  assert_int_equal(vcuda_set(0, "race", "fail"), 0);
  OK(touch(one, "a", address, 64, 1));
  OK(touch(other, "b", address, 64, 2));
  FAILS(CUDA_LAUNCH_FAILURE, cudaDeviceSynchronize());
  assert_int_equal(vcuda_recover(0), CUDA_LAUNCH_FAILURE);
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, count_races, leave)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(two_streams_race),
      TEST(two_readers_do_not_race),
      TEST(an_event_orders),
      TEST(an_allocation_in_order_is_not_ordered_elsewhere),
      TEST(a_wait_of_the_host_orders),
      TEST(the_null_stream_orders_blocking_streams_only),
      TEST(the_host_races_on_pinned_memory),
      TEST(a_replay_reads_pinned_memory_when_it_runs),
      TEST(branches_of_a_graph_race),
      TEST(a_use_that_nothing_orders_before_the_free_races),
      TEST(a_race_fails_if_asked_to),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
