/* Accounts of the device memory that iobind has allocated, by what holds it. */
#include "runtime/runtime.h"
#include "support/options.h"

static void add_memory(iobind_device *device, iobind_holder holder, size_t bytes) {
  uint_least64_t now = atomic_fetch_add(&device->memory[holder].bytes, bytes) + bytes;
  uint_least64_t most = atomic_load(&device->memory[holder].most_bytes);
  atomic_fetch_add(&device->memory[holder].count, 1);
  while (most < now && !atomic_compare_exchange_weak(&device->memory[holder].most_bytes, &most, now)) {
  }
}

static void subtract_memory(iobind_device *device, iobind_holder holder, size_t bytes) {
  atomic_fetch_sub(&device->memory[holder].bytes, bytes);
  atomic_fetch_sub(&device->memory[holder].count, 1);
}

void iobind__device_note_allocated(iobind_device *device, iobind_holder holder, size_t bytes) {
  add_memory(device, IOBIND_HOLDER_ANY, bytes);
  add_memory(device, holder, bytes);
  atomic_fetch_add(&device->counters.allocation_count, 1);
}

void iobind__device_note_freed(iobind_device *device, iobind_holder holder, size_t bytes) {
  subtract_memory(device, IOBIND_HOLDER_ANY, bytes);
  subtract_memory(device, holder, bytes);
}

void iobind__device_note_handed(iobind_device *device, iobind_holder from, iobind_holder to, size_t bytes) {
  subtract_memory(device, from, bytes);
  add_memory(device, to, bytes);
}

iobind_status iobind_device_get_memory(const iobind_device *device, iobind_holder holder, iobind_memory_usage *usage,
                                       iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_get_memory", error));
  if ((int)holder < 0 || (int)holder >= IOBIND__HOLDERS) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "device_get_memory: holder: expected 0 .. %d, got %d",
                        IOBIND__HOLDERS - 1, (int)holder);
  }
  iobind_memory_usage full = {.bytes = atomic_load(&device->memory[holder].bytes),
                              .count = atomic_load(&device->memory[holder].count),
                              .most_bytes = atomic_load(&device->memory[holder].most_bytes)};
  return IOBIND__INFO_WRITE(usage, &full, "device_get_memory", error);
}
