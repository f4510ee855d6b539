/* Verified runs together with each other feature: a wrong kernel is found, and a right run is right. */
#define _GNU_SOURCE /* setenv */
#include "verified.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "../rig/calls.h"
#include "../batch/voices.h"

enum { RUNS = 2 };

/* y = 2 x */
static iobind_session *session;
static iobind_binding *binding;
static iobind_tensor *x;

static iobind_binding *bind(iobind_session *of) {
  iobind_binding *made;
  expect_ok(iobind_binding_create(of, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return made;
}

static int start(void **state) {
  setenv("VDEV_DEVICES", "2", 1);
  (void)stage_open(state);
  set_device("race", "fail");
  session = verified_session("scale", RUNS, 0);
  x = make_filled(3);
  binding = bind(session);
  return 0;
}

static int stop(void **state) {
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  return stage_close(state);
}

/* One that is wrong, then one that is right. */
static void expect_found(iobind_binding *of, iobind_stream *stream) {
  set_wrong("every:1");
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(of, stream, &fault));
  set_wrong("0");
  expect_ok(iobind_binding_run(of, stream, &fault));
}

static void output_modes(void **state) {
  (void)state;
  static const iobind_output_mode modes[2] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE};
  for (int i = 0; i < 2; i++) {
    for (int is_on_host = 0; is_on_host < 2; is_on_host++) {
      iobind_binding *made = bind(session);
      expect_ok(iobind_binding_place_output(made, 0, modes[i], is_on_host ? cpu : NULL, IOBIND_MEMORY_DEFAULT, &fault));
      expect_found(made, NULL);
      expect_output(made, 6);
      iobind_binding_destroy(made);
    }
  }
  iobind_tensor *y = make_filled(0);
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  expect_found(binding, NULL);
  expect_all(y, 6);
  iobind_tensor_release(y);
}

/* The output in which an element is wrong, the kernel's first one, is not bound, and so not compared. */
static void unbound_output(void **state) {
  (void)state;
  enum { SAME = 2 };
  iobind_session *multi = verified_session("multi", RUNS, 0);
  iobind_binding *made = bind(multi);
  expect_ok(iobind_binding_place_output(made, SAME, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  set_wrong("every:1");
  expect_ok(iobind_binding_run(made, NULL, &fault));
  expect_ok(iobind_binding_place_output(made, SAME, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(made, NULL, &fault));
  set_wrong("0");
  iobind_binding_destroy(made);
  iobind_session_destroy(multi);
}

static void host_read_input(void **state) {
  (void)state;
  static const int64_t rank = 2;
  static const int64_t dims[2] = {4, 3};
  iobind_session *expand = verified_session("expand dims=1", RUNS, 0);
  static const float one = 2;
  iobind_tensor *shape;
  iobind_tensor *single = fixture_floats(device, &one, 1);
  iobind_binding *made;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &rank, 1, &shape, &fault));
  expect_ok(iobind_tensor_write(shape, 0, dims, sizeof dims, NULL, &fault));
  expect_ok(iobind_binding_create(expand, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, single, NULL, &fault));
  expect_ok(iobind_binding_set_input(made, 1, IOBIND_INPUT_SNAPSHOT, shape, NULL, &fault));
  expect_found(made, NULL);
  iobind_binding_destroy(made);
  iobind_tensor_release(shape);
  iobind_tensor_release(single);
  iobind_session_destroy(expand);
}

static void pinned(void **state) {
  (void)state;
  static const int64_t dims[1] = {N};
  iobind_tensor *y;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &y, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  expect_found(binding, NULL);
  expect_all(y, 6);
  iobind_tensor_release(y);
}

static iobind_tensor *make_text(const char *text) {
  static const int64_t one = 1;
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &made, &fault));
  expect_ok(iobind_tensor_set_string(made, 0, text, &fault));
  return made;
}

/* No device takes them, so that nothing of them is wrong. */
static void strings(void **state) {
  (void)state;
  iobind_session *join = verified_session("join", RUNS, 0);
  iobind_tensor *parts[2] = {make_text("left"), make_text("right")};
  iobind_tensor *joined;
  iobind_binding *made;
  char text[16] = "";
  size_t length;
  expect_ok(iobind_binding_create(join, &made, &fault));
  for (size_t i = 0; i < 2; i++) {
    expect_ok(iobind_binding_set_input(made, i, IOBIND_INPUT_RESIDENT, parts[i], NULL, &fault));
  }
  for (int i = 0; i <= RUNS; i++) {
    expect_ok(iobind_binding_run(made, NULL, &fault));
    expect_ok(iobind_binding_get_output(made, 0, NULL, &joined, &fault));
    expect_ok(iobind_tensor_get_string(joined, 0, text, sizeof text, &length, &fault));
    assert_string_equal(text, "leftright");
  }
  iobind_binding_destroy(made);
  iobind_tensor_release(parts[0]);
  iobind_tensor_release(parts[1]);
  iobind_session_destroy(join);
}

/* The source is what the run reads, also after it has changed. */
static void live_input(void **state) {
  (void)state;
  static const float values[N] = {1, 1, 1, 1, 1, 1, 1, 1};
  iobind_tensor *source = fixture_floats(cpu, values, N);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, source, NULL, &fault));
  expect_found(binding, NULL);
  expect_output(binding, 2);
  fill(source, 5);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, 10);
  iobind_tensor_release(source);
}

enum { MANY = 1 << 16 };
static _Atomic float live[MANY];
static atomic_bool is_over;

static void *write_live(void *context) {
  for (int value = 1; !atomic_load(&is_over); value++) {
    for (size_t i = 0; i < MANY; i++) atomic_store_explicit(&live[i], (float)value, memory_order_relaxed);
  }
  return context;
}

/* The CPU and the device read the same: one copy of what the tensor held, whatever comes into it meanwhile. */
static void live_input_of_another_thread(void **state) {
  (void)state;
  enum { VERIFIED = 100 };
  static const int64_t dims[1] = {MANY};
  iobind_session *many = verified_session("scale", VERIFIED, 0);
  iobind_binding *made;
  iobind_tensor *source;
  pthread_t writer;
  expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, (void *)(uintptr_t)live, sizeof live,
                             NULL, NULL, &source, &fault));
  expect_ok(iobind_binding_create(many, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_LIVE, source, NULL, &fault));
  atomic_store(&is_over, false);
  assert_int_equal(pthread_create(&writer, NULL, write_live, NULL), 0);
  for (int i = 0; i < VERIFIED; i++) expect_ok(iobind_binding_run(made, NULL, &fault));
  atomic_store(&is_over, true);
  assert_int_equal(pthread_join(writer, NULL), 0);
  iobind_binding_destroy(made);
  iobind_tensor_release(source);
  iobind_session_destroy(many);
}

static void lent_output(void **state) {
  (void)state;
  iobind_stream *stream;
  iobind_tensor *y;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_found(binding, stream);
  expect_ok(iobind_binding_get_output(binding, 0, stream, &y, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_all(y, 6);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_output(binding, 6);
  iobind_stream_destroy(stream);
}

/* An input that is still on its way when the run is submitted, on another stream or on its own: the CPU reads it when it is there. */
static void producer_in_flight(void **state) {
  (void)state;
  float values[N];
  iobind_stream *streams[2];
  iobind_event *event;
  for (int i = 0; i < N; i++) {
    values[i] = 7;
  }
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_stream_create(device, NULL, &streams[i], &fault));
  }
  expect_ok(iobind_event_create(device, &event, &fault));
  set_device("delay_copy", "1,us:20000");
  expect_ok(iobind_tensor_write(x, 0, values, sizeof values, streams[0], &fault));
  expect_ok(iobind_event_record(event, streams[0], &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, event, &fault));
  expect_ok(iobind_binding_run(binding, streams[1], &fault));
  expect_ok(iobind_stream_synchronize(streams[1], &fault));
  expect_output(binding, 14);
  set_device("delay_copy", "1,us:20000");
  values[0] = 8;
  expect_ok(iobind_binding_write_input(binding, 0, values, sizeof values, streams[1], &fault));
  expect_ok(iobind_binding_run(binding, streams[1], &fault));
  expect_ok(iobind_stream_synchronize(streams[1], &fault));
  set_device("delay_copy", "0");
  iobind_event_destroy(event);
  iobind_stream_destroy(streams[0]);
  iobind_stream_destroy(streams[1]);
}

static void taken_output(void **state) {
  (void)state;
  iobind_tensor *taken[RUNS + 1];
  for (int i = 0; i <= RUNS; i++) {
    fill(x, (float)i);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_take_output(binding, 0, &taken[i], &fault));
  }
  for (int i = 0; i <= RUNS; i++) {
    expect_all(taken[i], 2 * (float)i);
    iobind_tensor_release(taken[i]);
  }
}

static void dlpack_input(void **state) {
  (void)state;
  void *managed = NULL;
  iobind_tensor *shared;
  expect_ok(iobind_tensor_to_dlpack(x, 0, &managed, &fault));
  expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &shared, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, shared, NULL, &fault));
  expect_found(binding, NULL);
  expect_output(binding, 6);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(shared);
}

/* A run that fails by itself does not count, and leaves nothing. */
static void failing_run(void **state) {
  (void)state;
  set_device("fail_compute", "1");
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  for (int i = 0; i < RUNS; i++) {
    expect_found(binding, NULL);
  }
  expect_output(binding, 6);
}

static void save_and_restore(void **state) {
  (void)state;
  iobind_session *add = verified_session("add", 4, 0);
  iobind_tensor *step = make_filled(2);
  iobind_state *saved;
  iobind_binding *made = bind(add);
  expect_ok(iobind_binding_carry(made, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_input(made, 1, IOBIND_INPUT_RESIDENT, step, NULL, &fault));
  expect_ok(iobind_binding_run(made, NULL, &fault));
  expect_ok(iobind_binding_save_state(made, &saved, &fault));
  expect_ok(iobind_binding_run(made, NULL, &fault));
  expect_output(made, 7);
  expect_ok(iobind_binding_restore_state(made, saved, &fault));
  expect_found(made, NULL);
  expect_output(made, 7);
  iobind_state_release(saved);
  iobind_binding_destroy(made);
  iobind_tensor_release(step);
  iobind_session_destroy(add);
}

/* A state that grows, saved behind runs on a stream, each of which the host has waited for. */
static void save_of_queued_runs(void **state) {
  (void)state;
  enum { TIMES = 3 };
  static const int64_t dims[2] = {1, 3};
  static const float row[3] = {1, 2, 3};
  iobind_session *grows = verified_session("concat", 2 * TIMES, 0);
  iobind_binding *made;
  iobind_stream *stream;
  iobind_tensor *next;
  iobind_state *saved[TIMES];
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &next, &fault));
  expect_ok(iobind_tensor_write(next, 0, row, sizeof row, NULL, &fault));
  expect_ok(iobind_binding_create(grows, &made, &fault));
  expect_ok(iobind_binding_carry(made, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, next, NULL, &fault));
  expect_ok(iobind_binding_set_input(made, 1, IOBIND_INPUT_RESIDENT, next, NULL, &fault));
  for (int i = 0; i < TIMES; i++) {
    expect_ok(iobind_binding_run(made, stream, &fault));
    expect_ok(iobind_binding_save_state(made, &saved[i], &fault));
  }
  for (int i = 0; i < TIMES; i++) {
    float came[3 * (TIMES + 1)];
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    expect_ok(iobind_state_get_pair(saved[i], 0, &pair, &fault));
    expect_ok(iobind_tensor_read(pair.tensor, 0, came, sizeof row * (size_t)(i + 2), NULL, &fault));
    for (int k = 0; k < 3 * (i + 2); k++) assert_true(came[k] == row[k % 3]);
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_binding_restore_state(made, saved[0], &fault));
  set_wrong("every:1");
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(made, stream, &fault));
  set_wrong("0");
  (void)!iobind_stream_synchronize(stream, NULL);
  expect_ok(iobind_binding_restore_state(made, saved[TIMES - 1], &fault));
  expect_ok(iobind_binding_run(made, stream, &fault)); /* verified, too */
  for (int i = 0; i < TIMES; i++) iobind_state_release(saved[i]);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  iobind_binding_destroy(made);
  iobind_tensor_release(next);
  iobind_stream_destroy(stream);
  iobind_session_destroy(grows);
}

/* ---- threads ---- */

enum { THREADS = 4 };

static void *run_in_thread(void *context) {
  iobind_status *status = context;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_binding *made = NULL;
  *status = iobind_binding_create(session, &made, &error);
  if (*status == IOBIND_OK) {
    *status = iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error);
  }
  if (*status == IOBIND_OK) {
    *status = iobind_binding_run(made, NULL, &error);
  }
  iobind_binding_destroy(made);
  return NULL;
}

static void bindings_of_threads(void **state) {
  (void)state;
  for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
    pthread_t threads[THREADS];
    iobind_status statuses[THREADS];
    set_wrong(is_wrong ? "every:1" : "0");
    for (int i = 0; i < THREADS; i++) {
      assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &statuses[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
      assert_int_equal(pthread_join(threads[i], NULL), 0);
      assert_int_equal(statuses[i], is_wrong ? IOBIND_ERROR_RESULT : IOBIND_OK);
    }
  }
  set_wrong("0");
}

/* ---- batches ---- */

/* A step that fails leaves its rows as they were, also those that a later run would have been right for. */
static void batch_rows(void **state) {
  (void)state;
  enum { ROWS = 2, STEPS = 4 };
  iobind_session *voices = verified_session("voices", STEPS, 0);
  iobind_batch *batch = voice_batch(voices, ROWS, 0);
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 0; step < STEPS; step++) {
    voice_results results[ROWS];
    float values[WIDTH];
    if (step > 0) {
      set_wrong("every:1");
      for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < WIDTH; k++) {
          values[k] = (float)(step + i + k);
        }
        voice_bring(batch, slots[i], values);
      }
      expect(IOBIND_ERROR_RESULT, iobind_batch_run(batch, slots, ROWS, NULL, &fault));
      set_wrong("0");
      for (int i = 0; i < ROWS; i++) {
        voice_expect_state(batch, slots[i], &rows[i]);
      }
    }
    for (int i = 0; i < ROWS; i++) {
      for (int k = 0; k < WIDTH; k++) {
        values[k] = (float)(step * 3 + i + k);
      }
      voice_bring(batch, slots[i], values);
      results[i] = voice_step(&rows[i], values);
    }
    expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
    for (int i = 0; i < ROWS; i++) {
      voice_expect_results(batch, slots[i], &results[i]);
    }
  }
  iobind_batch_destroy(batch);
  iobind_session_destroy(voices);
}

/* ---- a cache that an operator writes where it reads it, of a model in memory that is not identified ---- */

enum { CACHE_ROWS = 16, CACHE_HEADS = 2, CACHE_WIDTH = 16, CACHE_TOKENS = 3, TOKEN_WIDTH = CACHE_HEADS * CACHE_WIDTH };
enum { TOKENS, KEY, VALUE, LAST_ROW, TOTAL, CACHE_INPUTS };
enum { SEEN, NEXT_KEY, NEXT_VALUE };

static iobind_tensor *make_cache(float value) {
  static const int64_t dims[] = {1, CACHE_HEADS, CACHE_ROWS, CACHE_WIDTH};
  enum { CACHE_COUNT = CACHE_HEADS * CACHE_ROWS * CACHE_WIDTH };
  float values[CACHE_COUNT];
  iobind_tensor *made;
  for (int i = 0; i < CACHE_COUNT; i++) {
    values[i] = value;
  }
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, values, sizeof values, NULL, &fault));
  return made;
}

static iobind_tensor *make_number(iobind_session *of, size_t input, int32_t number) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  iobind_tensor *made;
  expect_ok(iobind_session_get_input(of, input, &info, &fault));
  expect_ok(
      iobind_tensor_create(info.device, (iobind_memory)info.memory, IOBIND_DTYPE_INT32, info.dims, info.rank, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, &number, sizeof number, NULL, &fault));
  return made;
}

static iobind_tensor *make_tokens(void) {
  static const int64_t dims[] = {1, 1, TOKEN_WIDTH};
  static const float values[TOKEN_WIDTH] = {1, 2, 3};
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, values, sizeof values, NULL, &fault));
  return made;
}

/* Rows that are not in use keep their values: those are no difference. */
static void bind_cache(iobind_binding *of, iobind_tensor *const *inputs, bool is_carried) {
  for (size_t i = 0; i < 2; i++) {
    if (is_carried) {
      expect_ok(iobind_binding_carry(of, NEXT_KEY + i, KEY + i, IOBIND_CARRY_IN_PLACE, &fault));
    }
  }
  for (size_t i = 0; i < CACHE_INPUTS; i++) {
    expect_ok(iobind_binding_set_input(of, i, IOBIND_INPUT_RESIDENT, inputs[i], NULL, &fault));
  }
  for (size_t i = 0; i < 2 && !is_carried; i++) {
    expect_ok(iobind_binding_set_output(of, NEXT_KEY + i, inputs[KEY + i], IOBIND_OUTPUT_IN_PLACE, &fault));
  }
}

static void play_cache(bool is_carried) {
  iobind_session *attends = verified_session("shared", RUNS, 0);
  iobind_tensor *inputs[CACHE_INPUTS] = {make_tokens(), make_cache(5), make_cache(6),
                                         make_number(attends, LAST_ROW, CACHE_TOKENS),
                                         make_number(attends, TOTAL, CACHE_TOKENS + 1)};
  iobind_binding *made;
  expect_ok(iobind_binding_create(attends, &made, &fault));
  bind_cache(made, inputs, is_carried);
  expect_ok(iobind_binding_run(made, NULL, &fault));
  set_wrong("every:1");
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(made, NULL, &fault));
  set_wrong("0");
  iobind_binding_destroy(made);
  for (size_t i = 0; i < CACHE_INPUTS; i++) {
    iobind_tensor_release(inputs[i]);
  }
  iobind_session_destroy(attends);
}

static void cache_carried_in_place(void **state) {
  (void)state;
  play_cache(true);
}

static void cache_bound_in_place(void **state) {
  (void)state;
  play_cache(false);
}

/* ---- two devices ---- */

static void second_device(void **state) {
  (void)state;
  iobind_device *first = device;
  device = fixture_device(runtime, "vdev:1");
  iobind_session *second = verified_session("scale", RUNS, 0);
  iobind_tensor *input = make_filled(4);
  iobind_binding *made;
  expect_ok(iobind_binding_create(second, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, input, NULL, &fault));
  set_wrong("every:1"); /* the first device's */
  expect_ok(iobind_binding_run(made, NULL, &fault));
  expect_output(made, 8);
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  set_wrong("0");
  iobind_binding_destroy(made);
  iobind_tensor_release(input);
  iobind_session_destroy(second);
  device = first;
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(output_modes),
    ON_VDEV(unbound_output),
    ON_GPUS(host_read_input),
    ON_GPUS(pinned),
    ON_GPUS(strings),
    ON_GPUS(live_input),
    ON_VDEV(live_input_of_another_thread),
    ON_GPUS(lent_output),
    ON_GPUS(producer_in_flight),
    ON_GPUS(taken_output),
    ON_GPUS(dlpack_input),
    ON_GPUS(failing_run),
    ON_GPUS(save_and_restore),
    ON_GPUS(save_of_queued_runs),
    ON_GPUS(bindings_of_threads),
    ON_GPUS(batch_rows),
    ON_VDEV(cache_carried_in_place),
    ON_VDEV(cache_bound_in_place),
    ON_VDEV(second_device),
};

FIXTURE_MAIN(tests, NULL, NULL);
