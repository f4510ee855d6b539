/* Runtimes, devices, tensors, streams and events in several threads. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "models.h"
#include "threads.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { ROUNDS = 30, COUNT = 3 };

/* ---- runtimes and devices ---- */

static void make_runtime(member *self) {
  static const char *const specs[] = {"vdev:0", "vdev:1", "gpu", "vdev,cpu"};
  iobind_preload_options nothing = IOBIND_PRELOAD_OPTIONS_INIT;
  nothing.flags = IOBIND_PRELOAD_NO_CUDA | IOBIND_PRELOAD_NO_CUDNN | IOBIND_PRELOAD_NO_MSVC;
  WELL(self, iobind_preload(&nothing, NULL));
  for (size_t i = 0; i < 8; i++) {
    iobind_device *device = NULL;
    iobind_runtime *own = threads_runtime();
    HOLDS(self, own != NULL);
    WELL(self, iobind_runtime_find_device(own, "vdev", &device, NULL, NULL));
    WELL(self, iobind_runtime_find_device(own, specs[(self->number + i) % 4], &device, NULL, NULL));
    iobind_tensor *tensor = self->good ? threads_floats(device) : NULL;
    HOLDS(self, tensor != NULL);
    if ((self->number + i) % 2 == 0) {
      iobind_runtime_destroy(own);
      iobind_tensor_release(tensor);
    } else {
      iobind_tensor_release(tensor);
      iobind_runtime_destroy(own);
    }
  }
}

/* The EP's library comes and goes with the runtime: no thread gets a closed one, or a part of one. */
static void runtimes_come_and_go(void **state) {
  iobind_runtime_destroy(runtime);
  threads_run(make_runtime, NULL);
  assert_int_equal(threads_open(state), 0);
}

static void find_devices(member *self) {
  static const char *const specs[] = {
      "vdev", "vdev:1", "gpu:0", "cpu", "dml,vdev:1", "ep=VirtualDeviceExecutionProvider:1", "vendor=0x1def"};
  enum { SPECS = sizeof specs / sizeof specs[0] };
  iobind_runtime *shared = self->shared;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_device *device = NULL;
    iobind_memory memory = IOBIND_MEMORY_DEFAULT;
    iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
    iobind_device_info device_info = IOBIND_DEVICE_INFO_INIT;
    iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
    iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
    iobind_ep_info ep = IOBIND_EP_INFO_INIT;
    WELL(self, iobind_runtime_find_device(shared, "vdev/pinned", &device, &memory, NULL)); /* the first registers it */
    HOLDS(self, memory == IOBIND_MEMORY_HOST_ACCESSIBLE);
    WELL(self, iobind_runtime_find_device(shared, specs[(self->number + i) % SPECS], &device, NULL, NULL));
    HOLDS(self, iobind_runtime_find_device(shared, "dml", &device, NULL, NULL) == IOBIND_ERROR_NOT_FOUND);
    WELL(self, iobind_runtime_get_info(shared, &info, NULL));
    HOLDS(self, info.device_count >= 3 && info.ep_count == 1);
    WELL(self, iobind_runtime_get_ep(shared, 0, &ep, NULL));
    device = iobind_runtime_get_device(shared, i % 3);
    WELL(self, iobind_device_check(device, NULL));
    WELL(self, iobind_device_get_info(device, &device_info, NULL));
    WELL(self, iobind_device_get_counters(device, &counters, NULL));
    WELL(self, iobind_device_get_memory(device, IOBIND_HOLDER_CALLER, &usage, NULL));
    WELL(self, iobind_device_trim(device, NULL));
    for (size_t m = 0; m < device_info.metadata_count; m++) {
      const char *key = NULL;
      const char *value = NULL;
      WELL(self, iobind_device_get_metadata(device, m, &key, &value, NULL));
    }
    WELL(self, iobind_runtime_register_ep(shared, ep.name, ep.path, NULL)); /* it is already */
  }
}

static void devices_are_found_at_once(void **state) {
  iobind_runtime_destroy(runtime);
  for (int round = 0; round < 3; round++) {
    iobind_runtime *fresh = threads_runtime();
    assert_non_null(fresh);
    threads_run(find_devices, fresh);
    iobind_runtime_destroy(fresh);
  }
  assert_int_equal(threads_open(state), 0);
}

typedef struct growth {
  iobind_runtime *runtime;
  atomic_bool over;
} growth;

static void look_at_devices(member *self) {
  growth *all = self->shared;
  size_t count = 1;
  do {
    iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
    iobind_ep_info ep = IOBIND_EP_INFO_INIT;
    iobind_device_info device_info = IOBIND_DEVICE_INFO_INIT;
    WELL(self, iobind_runtime_get_info(all->runtime, &info, NULL));
    HOLDS(self, info.device_count >= count);
    count = info.device_count;
    for (size_t i = 0; i < count; i++) {
      WELL(self, iobind_device_get_info(iobind_runtime_get_device(all->runtime, i), &device_info, NULL));
    }
    iobind_status status = iobind_runtime_get_ep(all->runtime, 0, &ep, NULL);
    HOLDS(self, status == IOBIND_OK || status == IOBIND_ERROR_NOT_FOUND);
  } while (!atomic_load(&all->over));
}

static void register_meanwhile(void *shared) {
  growth *all = shared;
  iobind_device *device = NULL;
  assert_int_equal(iobind_runtime_find_device(all->runtime, "vdev", &device, NULL, NULL), IOBIND_OK);
  sched_yield();
  atomic_store(&all->over, true);
}

/* The lists of a runtime grow under those who look at them. */
static void devices_grow_while_others_look(void **state) {
  iobind_runtime_destroy(runtime);
  for (int round = 0; round < 3; round++) {
    growth all = {.runtime = threads_runtime()};
    assert_non_null(all.runtime);
    threads_run_with(look_at_devices, &all, register_meanwhile);
    iobind_runtime_destroy(all.runtime);
  }
  assert_int_equal(threads_open(state), 0);
}

static void speak(member *self) {
  for (int32_t i = -1; i < 30; i++) {
    static const int64_t dims[] = {2, 3};
    size_t bytes = 0;
    HOLDS(self, iobind_get_version() > 0 && strlen(iobind_get_version_string()) >= 5 && iobind_status_get_name(i) != NULL);
    iobind_catalogue_info ep = IOBIND_CATALOGUE_INFO_INIT;
    iobind_option_info option = IOBIND_OPTION_INFO_INIT;
    iobind_conflict_info conflict = IOBIND_CONFLICT_INFO_INIT;
    HOLDS(self, iobind_catalogue_get_ep(0, &ep, NULL) == IOBIND_OK && ep.name != NULL);
    HOLDS(self, iobind_catalogue_get_option("cuda", 0, &option, NULL) == IOBIND_OK && option.key != NULL);
    HOLDS(self, iobind_catalogue_get_conflict("cuda", 0, &conflict, NULL) == IOBIND_OK && conflict.key != NULL);
    HOLDS(self, iobind_dtype_get_name(i) != NULL && iobind_dtype_get_bits(i) <= 128);
    iobind_status status = iobind_dtype_get_bytes((iobind_dtype)i, dims, 2, &bytes, NULL);
    HOLDS(self, status == IOBIND_OK || status == IOBIND_ERROR_DTYPE);
  }
}

static void words_and_sizes(void **state) {
  (void)state;
  threads_run(speak, NULL);
}

/* ---- counters ---- */

static void move_bytes(member *self) {
  atomic_bool *over = self->shared;
  if (self->number == 0) {
    uint64_t last = 0;
    while (!atomic_load(over)) {
      iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
      WELL(self, iobind_device_get_counters(vdev, &counters, NULL));
      HOLDS(self, counters.upload_bytes >= last);
      last = counters.upload_bytes;
      sched_yield();
    }
    return;
  }
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_tensor *tensor = threads_floats(vdev);
    HOLDS(self, tensor != NULL);
    iobind_tensor_release(tensor);
  }
  atomic_store(over, true);
}

/* Counters are read while others move bytes; not one is lost. */
static void counters_while_running(void **state) {
  (void)state;
  atomic_bool over = false;
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_device_counters after = IOBIND_DEVICE_COUNTERS_INIT;
  expect_ok(iobind_device_get_counters(vdev, &before, &fault));
  threads_run(move_bytes, &over);
  expect_ok(iobind_device_get_counters(vdev, &after, &fault));
  assert_int_equal(after.upload_count - before.upload_count, (THREADS - 1) * ROUNDS);
  assert_int_equal(after.upload_bytes - before.upload_bytes, sizeof(float) * COUNT * ROUNDS * (THREADS - 1));
  assert_int_equal(after.allocation_count - before.allocation_count, (THREADS - 1) * ROUNDS);
  assert_int_equal(after.allocated_bytes, before.allocated_bytes);
}

/* ---- tensors ---- */

static void share_tensor(member *self) {
  iobind_tensor *tensor = self->shared;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_tensor *slice = NULL;
    iobind_tensor *view = NULL;
    float values[2] = {0, 0};
    static const int64_t two = 2;
    HOLDS(self, iobind_tensor_retain(tensor) == tensor);
    WELL(self, iobind_tensor_slice(tensor, 1, 2, &slice, NULL));
    WELL(self, iobind_tensor_view(tensor, 0, IOBIND_DTYPE_FLOAT32, &two, 1, &view, NULL));
    WELL(self, iobind_tensor_read(slice, 0, values, sizeof values, NULL, NULL));
    HOLDS(self, values[0] == 2 && values[1] == 3);
    iobind_tensor_release(tensor);
    iobind_tensor_release(slice);
    WELL(self, iobind_tensor_read(view, 0, values, sizeof values, NULL, NULL));
    HOLDS(self, values[0] == 1 && values[1] == 2);
    iobind_tensor_release(view);
  }
  iobind_tensor_release(tensor); /* the member's own, given to it before it began */
}

static void retain_and_release(void **state) {
  (void)state;
  iobind_tensor *tensor = threads_floats(vdev);
  assert_non_null(tensor);
  for (size_t i = 1; i < THREADS; i++) {
    iobind_tensor_retain(tensor);
  }
  threads_run(share_tensor, tensor);
}

typedef struct shelf {
  iobind_tensor *numbers; /* on the device */
  iobind_tensor *host;
  iobind_tensor *words;
} shelf;

static void read_shelf(member *self) {
  const shelf *all = self->shared;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    char text[8] = "";
    size_t needed = 0;
    void *data = NULL;
    float got[COUNT] = {0};
    WELL(self, iobind_tensor_get_info(all->numbers, &info, NULL));
    HOLDS(self, info.bytes == sizeof got && iobind_tensor_get_address(all->numbers) != NULL);
    HOLDS(self,
          iobind_tensor_map(all->numbers, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, NULL) == IOBIND_ERROR_WRONG_DEVICE);
    WELL(self, iobind_tensor_map(all->host, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, NULL));
    WELL(self, iobind_tensor_get_string(all->words, 0, text, sizeof text, &needed, NULL));
    HOLDS(self, needed == 4 && memcmp(text, "word", needed) == 0);
    iobind_difference found = IOBIND_DIFFERENCE_INIT;
    WELL(self, iobind_tensor_compare(all->words, all->words, NULL, &found, NULL));
    HOLDS(self, found.beyond == 0);
    iobind_tensor *copy = threads_floats(self->number % 2 == 0 ? cpu : vdev);
    const iobind_tensor *sources[] = {all->numbers};
    HOLDS(self, copy != NULL);
    WELL(self, iobind_tensor_copy(sources, &copy, 1, NULL, NULL)); /* one source, a target for each */
    WELL(self, iobind_tensor_read(copy, 0, got, sizeof got, NULL, NULL));
    HOLDS(self, got[0] == 1 && got[2] == 3);
    iobind_tensor_release(copy);
  }
}

/* What only reads may be done to one tensor by all at once. */
static void tensors_are_read_by_all(void **state) {
  (void)state;
  static const int64_t one = 1;
  shelf all = {threads_floats(vdev), threads_floats(cpu), NULL};
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &all.words, &fault));
  expect_ok(iobind_tensor_set_string(all.words, 0, "word", &fault));
  threads_run(read_shelf, &all);
  iobind_tensor_release(all.numbers);
  iobind_tensor_release(all.host);
  iobind_tensor_release(all.words);
}

/* ---- streams and events ---- */

typedef struct announcement {
  iobind_event *event;
  atomic_bool over;
} announcement;

static void wait_for_event(member *self) {
  announcement *all = self->shared;
  iobind_stream *own = NULL;
  WELL(self, iobind_stream_create(vdev, NULL, &own, NULL));
  HOLDS(self, call_stream_get_native(own) != NULL);
  do {
    int32_t done = 0;
    iobind_status limited = iobind_event_wait(all->event, 1000, NULL);
    HOLDS(self, limited == IOBIND_OK || limited == IOBIND_ERROR_TIMEOUT);
    WELL(self, iobind_event_wait(all->event, IOBIND_NO_TIMEOUT, NULL));
    WELL(self, iobind_event_query(all->event, &done, NULL));
    WELL(self, iobind_stream_wait(own, all->event, NULL));
    WELL(self, iobind_stream_synchronize(own, NULL));
  } while (!atomic_load(&all->over));
  iobind_stream_destroy(own);
}

static void record_again_and_again(void *shared) {
  announcement *all = shared;
  iobind_stream *stream = NULL;
  float values[COUNT] = {1, 2, 3};
  iobind_tensor *tensor = threads_floats(vdev);
  expect_ok(iobind_stream_create(vdev, NULL, &stream, &fault));
  for (int i = 0; i < ROUNDS; i++) {
    expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, stream, &fault));
    expect_ok(iobind_event_record(all->event, stream, &fault));
    sched_yield();
  }
  iobind_tensor_release(tensor);
  iobind_stream_destroy(stream); /* the event holds what it waits for */
  atomic_store(&all->over, true);
}

/* An event is recorded again while others wait for it: each of them waits for what it held then. */
static void event_is_recorded_under_those_who_wait(void **state) {
  (void)state;
  announcement all = {.event = NULL};
  expect_ok(iobind_event_create(vdev, &all.event, &fault));
  threads_run_with(wait_for_event, &all, record_again_and_again);
  iobind_event_destroy(all.event);
}

/* A chain over all members' streams: each adds its link behind the one before. */
typedef struct chain {
  iobind_stream *streams[THREADS];
  iobind_event *events[THREADS + 1];
  atomic_size_t turn;
  iobind_tensor *tensors[THREADS + 1];
} chain;

static void add_link(member *self) {
  chain *all = self->shared;
  size_t i = self->number;
  while (atomic_load(&all->turn) != i) {
    sched_yield();
  }
  const iobind_tensor *sources[] = {all->tensors[i]};
  WELL(self, iobind_stream_wait(all->streams[i], all->events[i], NULL));
  WELL(self, iobind_tensor_copy(sources, &all->tensors[i + 1], 1, all->streams[i], NULL));
  WELL(self, iobind_event_record(all->events[i + 1], all->streams[i], NULL));
  atomic_store(&all->turn, i + 1);
}

static void events_order_streams_of_threads(void **state) {
  (void)state;
  static const float values[COUNT] = {4, 5, 6};
  chain all = {.turn = 0};
  for (size_t i = 0; i <= THREADS; i++) {
    all.tensors[i] = threads_floats(vdev);
    expect_ok(iobind_event_create(vdev, &all.events[i], &fault));
    if (i < THREADS) {
      expect_ok(iobind_stream_create(vdev, NULL, &all.streams[i], &fault));
    }
  }
  expect_ok(iobind_tensor_write(all.tensors[0], 0, values, sizeof values, all.streams[0], &fault));
  expect_ok(iobind_event_record(all.events[0], all.streams[0], &fault));
  threads_run(add_link, &all);
  expect_ok(iobind_event_wait(all.events[THREADS], IOBIND_NO_TIMEOUT, &fault));
  fixture_expect_floats(all.tensors[THREADS], values, COUNT);
  for (size_t i = 0; i <= THREADS; i++) {
    iobind_tensor_release(all.tensors[i]);
    iobind_event_destroy(all.events[i]);
    if (i < THREADS) {
      iobind_stream_destroy(all.streams[i]);
    }
  }
}

/* A tensor remembers two streams that are at work on it: one more user waits for a stream that its owner destroys meanwhile. */
static void copy_on_streams_that_go(member *self) {
  const iobind_tensor *sources[] = {self->shared};
  for (int i = 0; i < ROUNDS; i++) {
    iobind_stream *stream = NULL;
    iobind_tensor *target = threads_floats(vdev);
    WELL(self, iobind_stream_create(vdev, NULL, &stream, NULL));
    WELL(self, iobind_tensor_copy(sources, &target, 1, stream, NULL));
    iobind_stream_destroy(stream);
    iobind_tensor_release(target);
  }
}

static void streams_that_share_a_tensor_come_and_go(void **state) {
  (void)state;
  iobind_tensor *shared = threads_floats(vdev);
  assert_int_equal(vdev_set(0, "d2d_gbps", "0.0001"), 0); /* so that copies are in flight */
  threads_run(copy_on_streams_that_go, shared);
  assert_int_equal(vdev_set(0, "d2d_gbps", "0"), 0);
  iobind_tensor_release(shared);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(runtimes_come_and_go),
    cmocka_unit_test(devices_are_found_at_once),
    cmocka_unit_test(devices_grow_while_others_look),
    cmocka_unit_test(words_and_sizes),
    cmocka_unit_test(counters_while_running),
    cmocka_unit_test(retain_and_release),
    cmocka_unit_test(tensors_are_read_by_all),
    cmocka_unit_test(event_is_recorded_under_those_who_wait),
    cmocka_unit_test(events_order_streams_of_threads),
    cmocka_unit_test(streams_that_share_a_tensor_come_and_go),
};

FIXTURE_MAIN(tests, threads_open, threads_close);
