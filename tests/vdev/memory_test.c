#include "rig.h"

#include <signal.h>
#include <string.h>

enum { COUNT = 1000, BYTES = COUNT * 4 };

static void test_host_cannot_touch(void **state) {
  (void)state;
  OrtValue *device = rig_device_tensor(0, COUNT);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  assert_int_equal(rig_signal_of_touch(rig_data(device), false), SIGSEGV);
  assert_int_equal(rig_signal_of_touch(rig_data(device), true), SIGSEGV);
  assert_int_equal(rig_signal_of_touch(rig_data(pinned), true), 0);
  rig.api->ReleaseValue(device);
  rig.api->ReleaseValue(pinned);
}

static void test_round_trip(void **state) {
  (void)state;
  float in[COUNT];
  float out[COUNT] = {0};
  for (int i = 0; i < COUNT; i++) {
    in[i] = (float)i;
  }
  OrtValue *source = rig_host_tensor(in, COUNT);
  OrtValue *target = rig_host_tensor(out, COUNT);
  OrtValue *first = rig_device_tensor(0, COUNT);
  OrtValue *second = rig_device_tensor(0, COUNT);
  assert_int_equal(vdev_reset(0), 0);
  ok(rig_copy(source, first, NULL));
  ok(rig_copy(first, second, NULL));
  ok(rig_copy(second, target, NULL));
  assert_memory_equal(in, out, sizeof in);
  assert_int_equal(rig_get("h2d_bytes"), BYTES);
  assert_int_equal(rig_get("h2d_count"), 1);
  assert_int_equal(rig_get("d2d_bytes"), BYTES);
  assert_int_equal(rig_get("d2d_count"), 1);
  assert_int_equal(rig_get("d2h_bytes"), BYTES);
  assert_int_equal(rig_get("d2h_count"), 1);
  assert_int_equal(rig_get("peer_count"), 0);
  OrtValue *values[] = {source, target, first, second};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
}

static void test_new_memory_is_poisoned(void **state) {
  (void)state;
  float out[COUNT] = {0};
  unsigned char poison[BYTES];
  memset(poison, 0xCD, sizeof poison);
  OrtValue *on_host = rig_host_tensor(out, COUNT);
  for (int i = 0; i < 2; i++) { /* the second lies where the first, written over, lay */
    OrtValue *on_device = rig_device_tensor(0, COUNT);
    ok(rig_copy(on_device, on_host, NULL));
    assert_memory_equal(out, poison, sizeof poison);
    memset(out, 0, sizeof out);
    ok(rig_copy(on_host, on_device, NULL));
    rig.api->ReleaseValue(on_device);
  }
  rig.api->ReleaseValue(on_host);
}

static void test_wrong_addresses(void **state) {
  (void)state;
  float data[COUNT + 1] = {0};
  OrtValue *host = rig_host_tensor(data, COUNT);
  OrtValue *longer = rig_host_tensor(data, COUNT + 1);
  OrtValue *device = rig_device_tensor(0, COUNT);
  unsigned char *address = rig_data(device);
  OrtValue *overrun = rig_view(0, address, COUNT + 1);
  OrtValue *shifted = rig_view(0, address + 4, COUNT);
  OrtValue *stray = rig_view(0, address + (1 << 30), COUNT);
  refused("4004 bytes at offset 0 passes the end of a block of 4000 bytes", rig_copy(longer, overrun, NULL));
  refused("4000 bytes at offset 4 passes the end of a block of 4000 bytes", rig_copy(host, shifted, NULL));
  refused("copy source at", rig_copy(stray, host, NULL));
  OrtValue *mistaken = rig_view(0, data, COUNT); /* memory of the host that says it is the device's */
  refused("is not device memory, though its tensor says so", rig_copy(mistaken, host, NULL));
  refused("is not device memory, though its tensor says so", rig_copy(device, mistaken, NULL));
  rig.api->ReleaseValue(mistaken);
  rig.api->ReleaseValue(device);
  OrtValue *stale = rig_view(0, address, COUNT);
  refused("never allocated, or freed", rig_copy(host, stale, NULL));
  OrtValue *values[] = {host, longer, overrun, shifted, stray, stale};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
}

/* A kernel that gets memory of another device, or freed memory. */
static void test_kernels_are_checked(void **state) {
  (void)state;
  OrtSession *session = rig_session("scale", 0);
  OrtValue *output = rig_device_tensor(0, COUNT);
  OrtValue *input = rig_device_tensor(0, COUNT);
  void *address = rig_data(input);
  rig.api->ReleaseValue(input);
  OrtValue *stale = rig_view(0, address, COUNT);
  OrtIoBinding *binding = rig_binding(session, stale, "y", output);
  refused("kernel input at", rig_run(session, binding, NULL));
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(stale);
  OrtValue *other = rig_device_tensor(1, COUNT);
  OrtValue *foreign = rig_view(0, rig_data(other), COUNT); /* the right device by name, the other's by address */
  binding = rig_binding(session, foreign, "y", output);
  refused("is memory of vdev:1", rig_run(session, binding, NULL));
  rig.api->ReleaseIoBinding(binding);
  float data[COUNT] = {0};
  OrtValue *mistaken = rig_view(0, data, COUNT); /* the device by name, the host's by address */
  binding = rig_binding(session, mistaken, "y", output);
  refused("is not device memory", rig_run(session, binding, NULL));
  rig.api->ReleaseValue(mistaken);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(foreign);
  rig.api->ReleaseValue(other);
  rig.api->ReleaseValue(output);
  rig.api->ReleaseSession(session);
}

static void test_limit_and_counters(void **state) {
  (void)state;
  OrtAllocator *allocator = rig_allocator(0, false);
  int64_t live = rig_get("live_bytes");
  assert_int_equal(vdev_reset(0), 0);
  rig_set("mem_limit", "10000", NULL);
  void *first = allocator->Alloc(allocator, 6000);
  void *second = allocator->Alloc(allocator, 4000);
  assert_non_null(first);
  assert_non_null(second);
  assert_null(allocator->Alloc(allocator, 1));
  assert_non_null(strstr(vdev_last_error(), "1 bytes wanted, 10000 in use, limit 10000"));
  assert_int_equal(rig_get("live_bytes"), live + 10000);
  assert_int_equal(rig_get("allocations"), 2);
  allocator->Free(allocator, first);
  first = allocator->Alloc(allocator, 100);
  assert_non_null(first);
  assert_int_equal(rig_get("live_bytes"), live + 4100);
  assert_int_equal(rig_get("peak_bytes"), live + 10000);
  allocator->Free(allocator, first);
  allocator->Free(allocator, second);
  assert_int_equal(rig_get("live_bytes"), live);
  int64_t errors = rig_get("errors");
  allocator->Free(allocator, second);
  assert_int_equal(rig_get("errors"), errors + 1); /* freed twice */
  rig_set("mem_limit", "0", NULL);
}

static void test_pinned(void **state) {
  (void)state;
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  OrtValue *device = rig_device_tensor(0, COUNT);
  assert_int_equal(rig_get("pinned_bytes"), BYTES);
  float *data = rig_data(pinned);
  for (int i = 0; i < COUNT; i++) {
    data[i] = (float)i;
  }
  ok(rig_copy(pinned, device, NULL));
  memset(data, 0, BYTES);
  ok(rig_copy(device, pinned, NULL));
  assert_true(data[COUNT - 1] == COUNT - 1);
  OrtValue *overrun = rig_host_tensor(data + 1, COUNT);
  refused("4000 bytes at offset 4 passes the end of pinned memory of 4000 bytes", rig_copy(overrun, device, NULL));
  refused("passes the end of pinned memory", rig_copy(device, overrun, NULL));
  rig.api->ReleaseValue(overrun);
  rig.api->ReleaseValue(pinned);
  rig.api->ReleaseValue(device);
  assert_int_equal(rig_get("pinned_bytes"), 0);
}

static void test_peers(void **state) {
  (void)state;
  assert_int_equal(vdev_device_count(), 2);
  float in[COUNT] = {0};
  float out[COUNT] = {0};
  in[7] = 7;
  OrtValue *source = rig_host_tensor(in, COUNT);
  OrtValue *target = rig_host_tensor(out, COUNT);
  OrtValue *first = rig_device_tensor(0, COUNT);
  OrtValue *second = rig_device_tensor(1, COUNT);
  assert_int_equal(vdev_reset(0) + vdev_reset(1), 0);
  ok(rig_copy(source, first, NULL));
  ok(rig_copy(first, second, NULL));
  ok(rig_copy(second, target, NULL));
  assert_memory_equal(in, out, sizeof in);
  assert_int_equal(vdev_get(0, "h2d_bytes"), BYTES);
  assert_int_equal(vdev_get(1, "h2d_bytes"), 0);
  assert_int_equal(vdev_get(1, "peer_bytes"), BYTES);
  assert_int_equal(vdev_get(1, "peer_count"), 1);
  assert_int_equal(vdev_get(0, "peer_count"), 0);
  assert_int_equal(vdev_get(0, "d2h_bytes"), 0);
  assert_int_equal(vdev_get(1, "d2h_bytes"), BYTES);
  OrtValue *values[] = {source, target, first, second};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
}

/* Memory that is freed while a stream still uses it is not allocated again before that. */
static void test_free_waits_for_streams(void **state) {
  (void)state;
  rig_set("h2d_gbps", "0.0001", NULL); /* 40 ms for one of ours */
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  OrtValue *device = rig_device_tensor(0, COUNT);
  void *address = rig_data(device);
  ok(rig_copy(pinned, device, stream));
  vdev_event *event = vdev_event_create(0);
  assert_int_equal(vdev_event_record(event, rig_native(stream)), 0);
  rig.api->ReleaseValue(device);
  OrtValue *next = rig_device_tensor(0, COUNT);
  if (vdev_event_query(event) == 0) {
    assert_ptr_not_equal(rig_data(next), address);
  }
  OrtValue *stale = rig_view(0, address, COUNT);
  if (rig_data(next) != address) { /* the copy may be over by now, and the block in use again */
    refused("freed", rig_copy(pinned, stale, NULL));
  }
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  rig.api->ReleaseValue(stale);
  rig.api->ReleaseValue(next);
  rig.api->ReleaseValue(pinned);
  vdev_event_destroy(event);
  rig.api->ReleaseSyncStream(stream);
  rig_set("h2d_gbps", "0", NULL);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_host_cannot_touch),  cmocka_unit_test(test_round_trip), cmocka_unit_test(test_new_memory_is_poisoned),
    cmocka_unit_test(test_wrong_addresses),    cmocka_unit_test(test_pinned),     cmocka_unit_test(test_kernels_are_checked),
    cmocka_unit_test(test_limit_and_counters), cmocka_unit_test(test_peers),      cmocka_unit_test(test_free_waits_for_streams),
};
RIG_MAIN(cases);
