#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue.h"
#include "run.h"
#include "work.h"

/* The work that this thread is running. */
typedef struct running {
  vcuda_stream *stream;
  const vcuda_work *work;
  const vcuda_order *order; /* of the work, or of a node of the graph that it launches */
  size_t node;
  unsigned char *written; /* first memory that a kernel writes; NULL: none yet */
  size_t written_bytes;
} running;

static _Thread_local running *now;

bool vcuda_run_is_host_function(void) {
  return now != NULL && now->order->kind == CUDA_NODE_HOST;
}

/* ---- memory accesses of the work ---- */

static bool note_access(vcuda_device *device, const void *address, size_t bytes, bool write) {
  if (device->settings.race == 0) return true;
  const vcuda_work *work = now->work;
  const vcuda_access access = {.start = (uintptr_t)address,
                               .end = (uintptr_t)address + bytes,
                               .clock = work->clocks[now->stream->agent],
                               .launch = work->launch,
                               .node = now->node,
                               .what = now->order->name,
                               .agent = now->stream->agent,
                               .write = write};
  return vcuda_race_access(device, &access, work->clocks, work->order.exec);
}

static bool is_copy(void) {
  return now->order->kind == CUDA_NODE_COPY;
}

static unsigned char *touch(const void *address, size_t bytes, bool write) {
  static unsigned char nothing;
  vcuda_device *device = now->stream->device;
  vcuda_place place;
  if (bytes == 0) return &nothing;
  vcuda_lock();
  vcuda_memory_locate(address, bytes, &place);
  if (place.kind == VCUDA_DEVICE && place.device != device && !is_copy()) {
    snprintf(place.why, sizeof place.why, "it is memory of device %d", place.device->index);
    place.twin = NULL;
  }
  if (place.twin == NULL) {
    vcuda_count(device, VCUDA_COUNT_errors, 1);
    (void)vcuda_fault(device, CUDA_ILLEGAL_ADDRESS, "%s on device %d %s %zu bytes at %p: %s", now->order->name, device->index,
                      write ? "writes" : "reads", bytes, address, place.why);
  } else if (!note_access(device, address, bytes, write)) {
    (void)vcuda_fault(device, CUDA_LAUNCH_FAILURE, "%s", vcuda_global.last_race);
    place.twin = NULL;
  }
  vcuda_unlock();
  return place.twin;
}

const void *vcuda_reads(const void *address, size_t bytes) {
  return touch(address, bytes, false);
}

void *vcuda_writes(void *address, size_t bytes) {
  unsigned char *twin = touch(address, bytes, true);
  if (now->written == NULL && bytes > 0) {
    now->written = twin;
    now->written_bytes = bytes;
  }
  return twin;
}

/* Flip bits that are the top ones of a float32, of a smaller float and of an integer: for every type the first or the second element
 * is far from the right value. */
static void falsify(void) {
  enum { CHANGED = 3, BITS = 0x40 };
  size_t at = now->written_bytes > CHANGED ? CHANGED : now->written_bytes - 1;
  vcuda_lock();
  bool is_wrong = now->order->kind == CUDA_NODE_KERNEL && now->written != NULL &&
                  vcuda_trigger_falsifies(&now->stream->device->settings, now->order->moved_bytes, now->order->name);
  vcuda_unlock();
  if (is_wrong) now->written[at] ^= BITS;
}

void vcuda_run_owns(const void *address, size_t bytes) {
  vcuda_device *device = now->stream->device;
  if (!note_access(device, address, bytes, true)) (void)vcuda_fault(device, CUDA_LAUNCH_FAILURE, "%s", vcuda_global.last_race);
}

void vcuda_fail(int error, const char *format, ...) {
  char text[VCUDA_TEXT];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  vcuda_lock();
  (void)vcuda_fault(now->stream->device, error, "%s on device %d: %s", now->order->name, now->stream->device->index, text);
  vcuda_unlock();
}

/* ---- running ---- */

static void sleep_for(int64_t nanoseconds) {
  struct timespec rest = {.tv_sec = (time_t)(nanoseconds / 1000000000), .tv_nsec = (long)(nanoseconds % 1000000000)};
  while (nanoseconds > 0 && nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
}

/* Apply the delay and the fault settings of the device. False: the device has failed, and the work must not run. */
static bool prepare(vcuda_device *device, const vcuda_order *order) {
  bool copies = order->kind == CUDA_NODE_COPY || order->kind == CUDA_NODE_SET;
  vcuda_site site = copies ? VCUDA_SITE_COPY : VCUDA_SITE_COMPUTE;
  if (order->exec != NULL) site = VCUDA_SITE_GRAPH;
  if (order->run == NULL && order->exec == NULL) return true;
  vcuda_lock();
  int64_t delay = vcuda_trigger_delay(&device->settings, site, order->moved_bytes, order->name);
  vcuda_unlock();
  sleep_for(delay);
  vcuda_lock();
  bool fails =
      order->kind != CUDA_NODE_EMPTY && vcuda_trigger_fails(&device->settings, site, order->moved_bytes, order->name, true);
  if (fails) {
    (void)vcuda_fault(device, copies ? CUDA_ECC : CUDA_LAUNCH_FAILURE, "%s on device %d fails, as the settings ask for",
                      order->name, device->index);
  }
  bool runs = device->error == CUDA_OK; /* no work runs on a failed device */
  vcuda_unlock();
  return runs;
}

static void run_graph(vcuda_stream *stream, const vcuda_work *work) {
  for (size_t node = 0; node < vcuda_exec_size(work->order.exec); node++) {
    const vcuda_order *order = vcuda_exec_order(work->order.exec, node);
    size_t bytes = order->bytes + order->tail_bytes;
    unsigned char *arguments = malloc(bytes + 1); /* a copy, because a kernel may change its arguments */
    if (arguments == NULL) {
      vcuda_lock();
      (void)vcuda_fault(stream->device, CUDA_LAUNCH_FAILURE, "%s: no host memory for its arguments", order->name);
      vcuda_unlock();
      return;
    }
    if (bytes > 0) memcpy(arguments, order->arguments, bytes);
    running own = {.stream = stream, .work = work, .order = order, .node = node};
    now = &own;
    if (prepare(stream->device, order) && order->run != NULL) {
      order->run(arguments);
      falsify();
    }
    now = NULL;
    free(arguments);
  }
}

void vcuda_run_work(vcuda_stream *stream, vcuda_work *work) {
  running own = {.stream = stream, .work = work, .order = &work->order};
  int64_t start = vcuda_now();
  now = &own;
  if (prepare(stream->device, &work->order)) {
    if (work->order.exec != NULL) {
      run_graph(stream, work);
    } else if (work->order.run != NULL) {
      work->order.run((unsigned char *)work + ((const unsigned char *)work->order.arguments - (unsigned char *)work));
      falsify();
    }
  }
  now = NULL;
  if (work->order.run != NULL || work->order.exec != NULL) vcuda_trace_work(stream, work->order.name, start, vcuda_now());
}
