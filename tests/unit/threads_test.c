/* Several threads at once, by the rules of the header. Only on the CPU, so that ThreadSanitizer can watch all of it. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "binding/table.h"
#include "../rig/calls.h"

enum { THREADS = 4, ROUNDS = 50 };

static iobind_runtime *runtime;
static iobind_device *cpu;

static int start(void **state) {
  (void)state;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  if (iobind_runtime_create(&options, &runtime, NULL) != IOBIND_OK) {
    return -1;
  }
  cpu = iobind_runtime_get_device(runtime, 0);
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

/* cmocka's checks are for the main thread: a thread returns whether all went well. */
typedef struct work {
  pthread_t thread;
  pthread_barrier_t *barrier;
  void *shared;
  size_t number;
  bool good;
} work;

static void in_threads(void *(*function)(void *), void *shared) {
  work all[THREADS];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++) {
    all[i] = (work){.barrier = &barrier, .shared = shared, .number = i, .good = false};
    assert_int_equal(pthread_create(&all[i].thread, NULL, function, &all[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(all[i].thread, NULL), 0);
  }
  pthread_barrier_destroy(&barrier);
  for (size_t i = 0; i < THREADS; i++) {
    assert_true(all[i].good);
  }
}

/* The doubles of three numbers, through a binding of the thread's own. */
static bool run_bound(iobind_session *session, float first) {
  static const int64_t count = 3;
  const float values[] = {first, first + 1, first + 2};
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  iobind_binding *binding = NULL;
  float got[3] = {0};
  bool good = iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &x, NULL) == IOBIND_OK &&
              iobind_tensor_write(x, 0, values, sizeof values, NULL, NULL) == IOBIND_OK &&
              iobind_binding_create(session, &binding, NULL) == IOBIND_OK &&
              iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, NULL) == IOBIND_OK &&
              iobind_binding_run(binding, NULL, NULL) == IOBIND_OK &&
              iobind_binding_take_output(binding, 0, &y, NULL) == IOBIND_OK;
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  good = good && iobind_tensor_read(y, 0, got, sizeof got, NULL, NULL) == IOBIND_OK;
  iobind_tensor_release(y);
  return good && got[0] == 2 * values[0] && got[1] == 2 * values[1] && got[2] == 2 * values[2];
}

static void *run_own_bindings(void *argument) {
  work *mine = argument;
  pthread_barrier_wait(mine->barrier);
  mine->good = true;
  for (size_t i = 0; i < ROUNDS; i++) {
    mine->good = run_bound(mine->shared, (float)(mine->number * ROUNDS + i)) && mine->good;
  }
  return NULL;
}

static void own_bindings_on_one_session(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  in_threads(run_own_bindings, session);
  iobind_session_destroy(session);
}

static void *run_unbound(void *argument) {
  work *mine = argument;
  static const int64_t count = 1;
  pthread_barrier_wait(mine->barrier);
  mine->good = true;
  for (size_t i = 0; i < ROUNDS; i++) {
    float value = (float)(mine->number + i);
    float got = -1;
    iobind_tensor *x = NULL;
    iobind_tensor *y = NULL;
    mine->good = call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &value, sizeof value, NULL, NULL,
                                  &x, NULL) == IOBIND_OK &&
                 call_session_run(mine->shared, &x, &y, NULL) == IOBIND_OK &&
                 iobind_tensor_read(y, 0, &got, sizeof got, NULL, NULL) == IOBIND_OK && got == 2 * value && mine->good;
    iobind_tensor_release(x);
    iobind_tensor_release(y);
  }
  return NULL;
}

static void unbound_runs_on_one_session(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  in_threads(run_unbound, session);
  iobind_session_destroy(session);
}

/* A binding over a loop that runs until it is cancelled. */
static iobind_binding *bind_loop(iobind_session **session, int64_t trips, iobind_tensor **trips_tensor) {
  static const int64_t one = 1;
  static const float zero = 0;
  *session = fixture_session(runtime, NULL, "loop");
  iobind_tensor *x = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, NULL, 0, trips_tensor, &fault));
  expect_ok(iobind_tensor_write(*trips_tensor, 0, &trips, sizeof trips, NULL, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &one, 1, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, &zero, sizeof zero, NULL, &fault));
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(*session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, *trips_tensor, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(x);
  return binding;
}

typedef struct long_run {
  iobind_binding *binding;
  iobind_status status;
  iobind_error error;
} long_run;

static void *run_long(void *argument) {
  long_run *run = argument;
  run->error = (iobind_error)IOBIND_ERROR_INIT;
  run->status = iobind_binding_run(run->binding, NULL, &run->error);
  return NULL;
}

/* While a run is in flight the binding takes nothing; cancelled, it runs again. */
static void busy_and_cancelled(void **state) {
  (void)state;
  iobind_session *session = NULL;
  iobind_tensor *trips = NULL;
  iobind_binding *binding = bind_loop(&session, INT64_MAX, &trips);
  expect_ok(iobind_binding_cancel(binding, &fault)); /* without a run it does nothing, now and later */
  for (int round = 0; round < 3; round++) {
    static const int64_t endless = INT64_MAX;
    expect_ok(iobind_tensor_write(trips, 0, &endless, sizeof endless, NULL, &fault));
    long_run run = {.binding = binding, .status = IOBIND_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_long, &run), 0);
    while (!iobind__flight_runs(&binding->flight)) {
      sched_yield();
    }
    iobind_tensor *output = trips;
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_check(binding, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_clear(binding, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_set_run_options(binding, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, trips, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_write_input(binding, 0, &endless, sizeof endless, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE,
           iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, NULL, &output, &fault));
    assert_null(output);
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_take_output(binding, 0, &output, &fault));
    expect_ok(iobind_binding_cancel(binding, &fault));
    expect_ok(iobind_binding_cancel(binding, &fault));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(run.status, IOBIND_ERROR_CANCELLED);
    assert_int_equal(run.error.status, IOBIND_ERROR_CANCELLED);
    static const int64_t few = 5;
    static const float five = 5;
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, NULL, &output, &fault));
    expect_ok(iobind_tensor_write(trips, 0, &few, sizeof few, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
    fixture_expect_floats(output, &five, 1);
  }
  iobind_tensor_release(trips);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ---- announced ---- */

typedef struct doubled {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
} doubled;

static const float old_values[] = {1, 2};
static const float new_values[] = {8, 9};

static doubled bind_doubled(void) {
  static const int64_t count = 2;
  doubled all = {.session = fixture_session(runtime, NULL, "scale")};
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &all.x, &fault));
  expect_ok(iobind_tensor_write(all.x, 0, old_values, sizeof old_values, NULL, &fault));
  expect_ok(iobind_binding_create(all.session, &all.binding, &fault));
  expect_ok(iobind_binding_set_input(all.binding, 0, IOBIND_INPUT_RESIDENT, all.x, NULL, &fault));
  return all;
}

static void end_doubled(doubled *all) {
  iobind_tensor_release(all->x);
  iobind_binding_destroy(all->binding);
  iobind_session_destroy(all->session);
}

static void expect_doubled(const doubled *all, const float *values) {
  const float twice[] = {2 * values[0], 2 * values[1]};
  iobind_tensor *output = NULL;
  expect_ok(iobind_binding_get_output(all->binding, 0, NULL, &output, &fault));
  fixture_expect_floats(output, twice, 2);
}

static void *write_new(void *argument) {
  doubled *all = argument;
  return iobind_tensor_write(all->x, 0, new_values, sizeof new_values, NULL, NULL) == IOBIND_OK ? all : NULL;
}

/* A write that comes after the announcement and before the run waits for the run. */
static void announced_run_reads_before_a_write(void **state) {
  (void)state;
  doubled all = bind_doubled();
  for (int round = 0; round < 3; round++) {
    void *good = NULL;
    pthread_t thread;
    expect_ok(iobind_binding_announce_run(all.binding, 1, &fault));
    assert_int_equal(pthread_create(&thread, NULL, write_new, &all), 0);
    iobind__clock_sleep(20000000); /* a write that does not wait has returned by then */
    expect_ok(iobind_binding_run(all.binding, NULL, &fault));
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_ptr_equal(good, &all);
    expect_doubled(&all, old_values);
    expect_ok(iobind_binding_run(all.binding, NULL, &fault));
    expect_doubled(&all, new_values);
    expect_ok(iobind_tensor_write(all.x, 0, old_values, sizeof old_values, NULL, &fault));
  }
  end_doubled(&all);
}

static void announced_run_is_in_flight(void **state) {
  (void)state;
  doubled all = bind_doubled();
  iobind_stream *stream = NULL;
  expect_ok(iobind_stream_create(cpu, NULL, &stream, &fault));
  for (int round = 0; round < 3; round++) {
    expect_ok(iobind_binding_announce_run(all.binding, 1, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_announce_run(all.binding, 1, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(all.binding, stream, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_set_input(all.binding, 0, IOBIND_INPUT_RESIDENT, all.x, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_clear(all.binding, &fault));
    expect_ok(iobind_binding_announce_run(all.binding, 0, &fault));
    expect_ok(iobind_binding_announce_run(all.binding, 0, &fault)); /* nothing is announced */
    expect_ok(iobind_binding_run(all.binding, stream, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_announce_run(all.binding, 1, &fault)); /* that run is in flight */
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_doubled(&all, old_values);
    expect_ok(iobind_binding_announce_run(all.binding, 1, &fault));
    expect_ok(iobind_binding_run(all.binding, NULL, &fault));
    expect_doubled(&all, old_values);
  }
  iobind_stream_destroy(stream);
  end_doubled(&all);
}

static void announced_run_is_cancelled(void **state) {
  (void)state;
  doubled all = bind_doubled();
  for (int round = 0; round < 3; round++) {
    expect_ok(iobind_binding_announce_run(all.binding, 1, &fault));
    expect_ok(iobind_binding_cancel(all.binding, &fault));
    expect(IOBIND_ERROR_CANCELLED, iobind_binding_run(all.binding, NULL, &fault));
    expect_ok(iobind_binding_run(all.binding, NULL, &fault)); /* the cancel was that run's */
    expect_doubled(&all, old_values);
    expect_ok(iobind_binding_announce_run(all.binding, 1, &fault));
    expect_ok(iobind_binding_cancel(all.binding, &fault));
    expect_ok(iobind_binding_announce_run(all.binding, 0, &fault));
    expect_ok(iobind_binding_run(all.binding, NULL, &fault));
    expect_doubled(&all, old_values);
  }
  end_doubled(&all);
}

/* ---- cancelled ---- */

typedef struct storm {
  iobind_binding *binding;
  atomic_bool over;
} storm;

static void *cancel_often(void *argument) {
  storm *all = argument;
  bool good = true;
  while (!atomic_load(&all->over)) {
    good = iobind_binding_cancel(all->binding, NULL) == IOBIND_OK && good;
    sched_yield();
  }
  return good ? all : NULL;
}

/* However a cancel falls between the steps of a run: the run is done or cancelled, and the next one is not its victim. */
static void cancels_at_any_time(void **state) {
  (void)state;
  iobind_session *session = NULL;
  iobind_tensor *trips = NULL;
  iobind_binding *binding = bind_loop(&session, 3, &trips);
  storm all = {.binding = binding};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, cancel_often, &all), 0);
  size_t other = 0;
  for (size_t i = 0; i < 300; i++) {
    iobind_status status = iobind_binding_run(binding, NULL, NULL);
    other += status != IOBIND_OK && status != IOBIND_ERROR_CANCELLED;
  }
  atomic_store(&all.over, true);
  void *good = NULL;
  assert_int_equal(pthread_join(thread, &good), 0);
  assert_non_null(good);
  assert_int_equal(other, 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor_release(trips);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void *make_runtimes(void *argument) {
  work *mine = argument;
  static const int64_t count = 3;
  pthread_barrier_wait(mine->barrier);
  mine->good = true;
  for (size_t i = 0; i < 20; i++) {
    iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
    options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
    iobind_runtime *own = NULL;
    iobind_tensor *tensor = NULL;
    mine->good = iobind_runtime_create(&options, &own, NULL) == IOBIND_OK &&
                 iobind_tensor_create(iobind_runtime_get_device(own, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1,
                                      &tensor, NULL) == IOBIND_OK &&
                 mine->good;
    iobind_runtime_destroy(own);
    iobind_tensor_release(tensor);
  }
  return NULL;
}

/* The last reference is released in one thread while another asks for the runtime: it gets that one or a new one, never a destroyed one. */
static void runtimes_come_and_go(void **state) {
  iobind_runtime_destroy(runtime); /* or this reference would keep it alive all the time */
  in_threads(make_runtimes, NULL);
  assert_int_equal(start(state), 0);
}

static void *find_devices(void *argument) {
  work *mine = argument;
  pthread_barrier_wait(mine->barrier);
  mine->good = true;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_device *device = NULL;
    mine->good = iobind_runtime_find_device(mine->shared, i % 2 == 0 ? "cpu" : "dml,cpu", &device, NULL, NULL) == IOBIND_OK &&
                 device == iobind_runtime_get_device(mine->shared, 0) && mine->good;
  }
  return NULL;
}

static void devices_are_found_at_once(void **state) {
  (void)state;
  in_threads(find_devices, runtime);
}

static void *share_tensor(void *argument) {
  work *mine = argument;
  iobind_tensor *tensor = mine->shared;
  pthread_barrier_wait(mine->barrier);
  mine->good = true;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_tensor *view = NULL;
    float value = 0;
    mine->good = iobind_tensor_retain(tensor) == tensor && iobind_tensor_slice(tensor, 1, 1, &view, NULL) == IOBIND_OK &&
                 iobind_tensor_read(view, 0, &value, sizeof value, NULL, NULL) == IOBIND_OK && value == 2 && mine->good;
    iobind_tensor_release(view);
    iobind_tensor_release(tensor);
  }
  iobind_tensor_release(tensor); /* the thread's own, given to it before it began */
  return NULL;
}

static void last_reference_in_any_thread(void **state) {
  (void)state;
  float values[] = {1, 2, 3};
  static const int64_t count = 3;
  fixture_deleted deleted = {0, NULL};
  iobind_tensor *tensor = NULL;
  expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, values, sizeof values,
                             fixture_deleter, &deleted, &tensor, &fault));
  for (size_t i = 1; i < THREADS; i++) {
    iobind_tensor_retain(tensor);
  }
  in_threads(share_tensor, tensor);
  assert_int_equal(deleted.count, 1);
  assert_ptr_equal(deleted.data, values);
}

static void *wait_for_event(void *argument) {
  work *mine = argument;
  pthread_barrier_wait(mine->barrier);
  mine->good = true;
  for (size_t i = 0; i < ROUNDS; i++) {
    int32_t done = 0;
    mine->good = iobind_event_wait(mine->shared, IOBIND_NO_TIMEOUT, NULL) == IOBIND_OK &&
                 iobind_event_query(mine->shared, &done, NULL) == IOBIND_OK && done == 1 && mine->good;
  }
  return NULL;
}

static void event_is_waited_for_by_all(void **state) {
  (void)state;
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  expect_ok(iobind_stream_create(cpu, NULL, &stream, &fault));
  expect_ok(iobind_event_create(cpu, &event, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  in_threads(wait_for_event, event);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
}

typedef struct growth {
  iobind_runtime *runtime;
  const char *library;
  atomic_bool over;
} growth;

static void *register_libraries(void *argument) {
  growth *all = argument;
  bool good = iobind_runtime_register_ep(all->runtime, "first", all->library, NULL) == IOBIND_OK;
  atomic_store(&all->over, true);
  return good ? all : NULL;
}

/* An EP library is registered while other threads work with the devices that were there before. */
static void devices_grow_during_work(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH | IOBIND_RUNTIME_SOFTWARE_DEVICES;
  growth all = {.runtime = NULL, .library = fixture_path("lib/iobind/ep/webgpu/libonnxruntime_providers_webgpu.so")};
  expect_ok(iobind_runtime_create(&options, &all.runtime, &fault));
  cpu = iobind_runtime_get_device(all.runtime, 0);
  runtime = all.runtime;
  iobind_session *session = fixture_session(all.runtime, NULL, "scale");
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, register_libraries, &all), 0);
  bool good = true;
  do {
    good = run_bound(session, 1) && good;
  } while (!atomic_load(&all.over));
  void *registered = NULL;
  assert_int_equal(pthread_join(thread, &registered), 0);
  iobind_session_destroy(session);
  assert_true(good);
  if (registered == NULL) {
    print_message("the WebGPU EP library cannot be registered\n");
    skip();
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(own_bindings_on_one_session),
    cmocka_unit_test(unbound_runs_on_one_session),
    cmocka_unit_test(busy_and_cancelled),
    cmocka_unit_test(cancels_at_any_time),
    cmocka_unit_test(announced_run_reads_before_a_write),
    cmocka_unit_test(announced_run_is_in_flight),
    cmocka_unit_test(announced_run_is_cancelled),
    cmocka_unit_test(runtimes_come_and_go),
    cmocka_unit_test(devices_are_found_at_once),
    cmocka_unit_test(last_reference_in_any_thread),
    cmocka_unit_test(event_is_waited_for_by_all),
    cmocka_unit_test(devices_grow_during_work),
};

FIXTURE_MAIN(tests, start, stop);
