#include <string.h>

#include "state.h"
#include "work.h"

/* A copy of rows. Pageable memory is accessed at its own address; other memory is located when the work runs. */
typedef struct copying {
  void *to;
  const void *from;
  size_t to_pitch, from_pitch, width, height;
  bool to_pageable, from_pageable;
  bool staged; /* the bytes follow this struct, copied when the work was queued */
} copying;

enum { STAGED = 65536 }; /* up to this size pageable memory is read before the call returns, as CUDA does */

static size_t extent(size_t pitch, size_t width, size_t height) {
  return width == 0 || height == 0 ? 0 : (height - 1) * pitch + width;
}

static void run_copy(void *arguments) {
  const copying *c = arguments;
  const unsigned char *from = c->staged ? (const unsigned char *)arguments + sizeof *c : c->from;
  unsigned char *to = c->to;
  if (!c->from_pageable) from = vcuda_reads(c->from, extent(c->from_pitch, c->width, c->height));
  if (!c->to_pageable) to = vcuda_writes(c->to, extent(c->to_pitch, c->width, c->height));
  for (size_t row = 0; from != NULL && to != NULL && row < c->height; row++) {
    memmove(to + row * c->to_pitch, from + row * c->from_pitch, c->width);
  }
}

/* The counter of the bytes; that of the operations is the next one. */
static vcuda_counter direction_of(const vcuda_place *to, const vcuda_place *from) {
  if (to->kind == VCUDA_DEVICE && from->kind == VCUDA_DEVICE) {
    return to->device == from->device ? VCUDA_COUNT_d2d_bytes : VCUDA_COUNT_peer_bytes;
  }
  if (to->kind == VCUDA_DEVICE) return VCUDA_COUNT_h2d_bytes;
  return from->kind == VCUDA_DEVICE ? VCUDA_COUNT_d2h_bytes : VCUDA_COUNT_h2h_bytes;
}

/* Check that both kinds of memory fit the direction that the caller gives. Another direction is an error, because the host cannot access
 * device memory. */
static int check_places(const vcuda_place *to, const vcuda_place *from, int kind, const copying *c) {
  if (kind < CUDA_COPY_HOST_HOST || kind > CUDA_COPY_DEFAULT) return CUDA_INVALID_DIRECTION;
  bool to_device = kind == CUDA_COPY_UP || kind == CUDA_COPY_DEVICE,
       from_device = kind == CUDA_COPY_DOWN || kind == CUDA_COPY_DEVICE;
  bool named = kind != CUDA_COPY_DEFAULT;
  /* pinned memory belongs to the device too */
  if (named && ((to_device && to->kind == VCUDA_PAGEABLE) || (!to_device && to->kind == VCUDA_DEVICE)))
    return CUDA_INVALID_VALUE;
  if (named && ((from_device && from->kind == VCUDA_PAGEABLE) || (!from_device && from->kind == VCUDA_DEVICE)))
    return CUDA_INVALID_VALUE;
  if (to->kind == VCUDA_DEVICE && to->twin == NULL) {
    vcuda_unlock();
    vcuda_log("a copy of %zu rows of %zu bytes to %p: %s", c->height, c->width, c->to, to->why);
    vcuda_lock();
    return CUDA_INVALID_VALUE;
  }
  if (from->kind == VCUDA_DEVICE && from->twin == NULL) {
    vcuda_unlock();
    vcuda_log("a copy of %zu rows of %zu bytes from %p: %s", c->height, c->width, c->from, from->why);
    vcuda_lock();
    return CUDA_INVALID_VALUE;
  }
  return CUDA_OK;
}

/* Does the call block until all work of the stream is complete? */
static bool waits(const vcuda_stream *stream, const copying *c, vcuda_counter direction, bool synchronous) {
  if (stream->capture != NULL) return false;
  if (c->to_pageable) return true;
  if (c->from_pageable) return !c->staged || (synchronous && stream->device->settings.late_copies == 0);
  return synchronous && direction != VCUDA_COUNT_d2d_bytes && direction != VCUDA_COUNT_peer_bytes;
}

/* On hardware a small copy from pageable memory on an idle stream is complete before the host can observe it. It is not a wait: the race
 * detector ignores it because CUDA does not guarantee it, and an asynchronous copy does not count it because the call does not block. */
static bool is_over_at_once(const vcuda_stream *stream, const copying *c) {
  const vcuda_stream *null_stream = stream->device->null_stream;
  return c->staged && stream->device->settings.late_copies == 0 && stream->completed == stream->submitted &&
         null_stream->completed == null_stream->submitted;
}

static int queue_copy(vcuda_stream *stream, copying *c, int kind, const char *name, bool synchronous) {
  vcuda_place to, from;
  size_t bytes = c->width * c->height;
  if (bytes == 0) return CUDA_OK; /* any addresses are valid */
  vcuda_memory_locate(c->to, extent(c->to_pitch, c->width, c->height), &to);
  vcuda_memory_locate(c->from, extent(c->from_pitch, c->width, c->height), &from);
  int error = check_places(&to, &from, kind, c);
  if (error != CUDA_OK) return error;
  c->to_pageable = to.kind == VCUDA_PAGEABLE;
  c->from_pageable = from.kind == VCUDA_PAGEABLE;
  c->staged = c->from_pageable && !c->to_pageable && c->height == 1 && stream->capture == NULL &&
              (bytes <= STAGED || stream->device->settings.late_copies != 0);
  const vcuda_order order = {.kind = CUDA_NODE_COPY,
                             .name = name,
                             .run = run_copy,
                             .arguments = c,
                             .bytes = sizeof *c,
                             .tail = c->from,
                             .tail_bytes = c->staged ? bytes : 0,
                             .moved = direction_of(&to, &from),
                             .moved_bytes = (int64_t)bytes};
  bool at_once = is_over_at_once(stream, c);
  error = vcuda_queue_order(stream, &order);
  if (error == CUDA_OK && at_once) vcuda_queue_let_pass(stream);
  if (error == CUDA_OK && (c->to_pageable || c->from_pageable)) vcuda_count(stream->device, VCUDA_COUNT_pageable_count, 1);
  if (error == CUDA_OK && waits(stream, c, order.moved, synchronous)) {
    vcuda_count_sync(stream->device, synchronous ? VCUDA_COUNT_sync_copy : VCUDA_COUNT_sync_pageable);
    error = vcuda_queue_wait_for(stream, stream->submitted, stream->clocks);
  }
  return error;
}

/* One row. */
static copying line(void *to, const void *from, size_t bytes) {
  return (copying){.to = to, .from = from, .to_pitch = bytes, .from_pitch = bytes, .width = bytes, .height = 1};
}

static int copy(copying c, int kind, cuda_stream handle, const char *name, bool synchronous) {
  if (c.height > 1 && (c.to_pitch < c.width || c.from_pitch < c.width)) return CUDA_INVALID_VALUE;
  int error;
  vcuda_lock();
  vcuda_stream *stream = vcuda_stream_find(handle, &error);
  if (stream != NULL) error = vcuda_take_missed(stream->device);
  if (stream != NULL && error == CUDA_OK && synchronous) error = vcuda_capture_refuses_legacy(stream);
  if (stream != NULL && error == CUDA_OK) error = queue_copy(stream, &c, kind, name, synchronous);
  vcuda_unlock();
  return error;
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, copy(line(to, from, bytes), kind, NULL, "cudaMemcpy", true));
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, copy(line(to, from, bytes), kind, stream, "cudaMemcpyAsync", false));
}

int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  if (vcuda_device_at(to_device) == NULL || vcuda_device_at(from_device) == NULL) return vcuda_end(&call, CUDA_INVALID_DEVICE);
  return vcuda_end(&call, copy(line(to, from, bytes), CUDA_COPY_DEVICE, stream, "cudaMemcpyPeerAsync", false));
}

int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                      cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  const copying c = {.to = to, .from = from, .to_pitch = to_pitch, .from_pitch = from_pitch, .width = width, .height = height};
  return vcuda_end(&call, copy(c, kind, stream, "cudaMemcpy2DAsync", false));
}

/* vcuda runs no device code, so its variables have no memory. Known variables are 0. */
int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind) {
  VCUDA_ENTER_DEVICE(NULL);
  (void)offset, (void)kind;
  if (vcuda_is_variable(symbol)) {
    memset(to, 0, bytes);
    return vcuda_end(&call, CUDA_OK);
  }
  vcuda_log("cudaMemcpyFromSymbol: the variable at %p: vcuda has no variables of device code", symbol);
  return vcuda_end(&call, CUDA_INVALID_SYMBOL);
}

/* ---- setting bytes ---- */

typedef struct setting {
  void *address;
  size_t bytes;
  int value;
} setting;

static void run_set(void *arguments) {
  const setting *s = arguments;
  void *to = vcuda_writes(s->address, s->bytes);
  if (to != NULL) memset(to, s->value, s->bytes);
}

static int set(void *address, int value, size_t bytes, cuda_stream handle, const char *name) {
  const setting s = {address, bytes, value};
  const vcuda_order order = {.kind = CUDA_NODE_SET,
                             .name = name,
                             .run = run_set,
                             .arguments = &s,
                             .bytes = sizeof s,
                             .moved = VCUDA_COUNT_set_bytes,
                             .moved_bytes = (int64_t)bytes};
  int error;
  vcuda_place place;
  vcuda_lock();
  vcuda_stream *stream = vcuda_stream_find(handle, &error);
  vcuda_memory_locate(address, bytes, &place);
  if (stream != NULL && bytes > 0) error = place.twin == NULL ? CUDA_INVALID_VALUE : vcuda_queue_order(stream, &order);
  vcuda_unlock();
  return error;
}

int cudaMemset(void *address, int value, size_t bytes) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, set(address, value, bytes, NULL, "cudaMemset"));
}

int cudaMemsetAsync(void *address, int value, size_t bytes, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, set(address, value, bytes, stream, "cudaMemsetAsync"));
}
