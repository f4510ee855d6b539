/* Memory and semaphores of other processes. */
#define _GNU_SOURCE /* memfd_create */
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scenario.h"
#include "vdev.h"

enum { BYTES = 4096 };

static iobind_external external_of(const struct rig *rig, int32_t kind) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  external.kind = kind;
  external.handle = (void *)(intptr_t)rig->file;
  external.bytes = kind == IOBIND_EXTERNAL_FD_MEMORY ? BYTES : 0;
  return external;
}

static void make_memory_file(struct rig *rig) {
  rig->file = memfd_create("shared", MFD_CLOEXEC);
  NEED_TRUE(rig->file > 0 && ftruncate(rig->file, BYTES) == 0);
}

static void make_semaphore_file(struct rig *rig) {
  rig->file = vdev_semaphore_create(1);
  NEED_TRUE(rig->file > 0);
}

static iobind_status check_import(struct rig *rig) {
  return iobind_device_check_import(rig->device, IOBIND_EXTERNAL_FD_MEMORY, &rig->error);
}

static iobind_status check_semaphore(struct rig *rig) {
  return iobind_device_check_import(rig->device, IOBIND_EXTERNAL_FD_SEMAPHORE, &rig->error);
}

static iobind_status import_memory(struct rig *rig) {
  iobind_external external = external_of(rig, IOBIND_EXTERNAL_FD_MEMORY);
  return iobind_external_memory_import(rig->device, &external, &rig->external, &rig->error);
}

static void make_memory(struct rig *rig) {
  make_memory_file(rig);
  NEED(rig, import_memory(rig));
}

static iobind_status destroy_memory(struct rig *rig) {
  iobind_external_memory_destroy(rig->external);
  rig->external = NULL;
  return IOBIND_OK;
}

static iobind_status view(struct rig *rig) {
  return iobind_external_memory_view(rig->external, 64, IOBIND_DTYPE_FLOAT32, rig_dims, 1, &rig->result, &rig->error);
}

static void view_works(struct rig *rig) {
  NEED(rig, iobind_tensor_write(rig->result, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  rig_expect(rig, rig->result, rig_twos, RIG_VALUES);
}

static void memory_works(struct rig *rig) {
  NEED(rig, view(rig));
  view_works(rig);
}

static iobind_status import_semaphore(struct rig *rig) {
  iobind_external external = external_of(rig, IOBIND_EXTERNAL_FD_SEMAPHORE);
  return iobind_semaphore_import(rig->device, &external, &rig->semaphore, &rig->error);
}

static void make_semaphore(struct rig *rig) {
  make_semaphore_file(rig);
  NEED(rig, import_semaphore(rig));
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
}

static iobind_status destroy_semaphore(struct rig *rig) {
  iobind_semaphore_destroy(rig->semaphore);
  rig->semaphore = NULL;
  return IOBIND_OK;
}

static iobind_status wait(struct rig *rig) {
  return iobind_stream_wait_semaphore(rig->stream, rig->semaphore, 1, &rig->error);
}

/* The call is made several times, and the value only grows. */
static iobind_status signal_next(struct rig *rig) {
  rig->number += rig->number == 0 ? 2 : 1;
  return iobind_stream_signal_semaphore(rig->stream, rig->semaphore, rig->number, &rig->error);
}

static void stream_goes_on(struct rig *rig) {
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
}

static void is_signalled(struct rig *rig) {
  stream_goes_on(rig);
  NEED_TRUE(vdev_semaphore_wait(rig->file, rig->number, 0) == 1);
}

#define MAKES(name, prepares, calls, field, checks)                                                                  \
  {                                                                                                                  \
    .function = (name), .variant = "", .places = ON_VDEV, .prepare = (prepares), .call = (calls), .out = OUT(field), \
    .right = (checks)                                                                                                \
  }
#define DOES(name, of, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = ON_VDEV, .prepare = (prepares), .call = (calls), .right = (checks) }

const struct scenario external_scenarios[] = {
    DOES("iobind_device_check_import", "", NULL, check_import, NULL),
    DOES("iobind_device_check_import", "of semaphores", NULL, check_semaphore, NULL),
    MAKES("iobind_external_memory_import", make_memory_file, import_memory, external, memory_works),
    {.function = "iobind_external_memory_destroy",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_memory,
     .call = destroy_memory,
     .last = true},
    MAKES("iobind_external_memory_view", make_memory, view, result, view_works),
    MAKES("iobind_semaphore_import", make_semaphore_file, import_semaphore, semaphore, NULL),
    {.function = "iobind_semaphore_destroy",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_semaphore,
     .call = destroy_semaphore,
     .last = true},
    DOES("iobind_stream_wait_semaphore", "", make_semaphore, wait, stream_goes_on),
    DOES("iobind_stream_signal_semaphore", "", make_semaphore, signal_next, is_signalled),
    {.function = NULL},
};
