/* Streams of a DirectML device. Each is a lane of Direct3D queues, and its tickets are values of the lane's fence. All runs of
 * a device share the queue on which sessions compute; each stream has its own queue for copies. */
#include "memory/driver_dml.h"
#include "memory/kind.h"

static iobind__lane *lane_of(const iobind_stream *stream) {
  return stream->own;
}

static iobind_status open_lane(iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__dml_open(stream->device, error));
  iobind__lane *lane = NULL;
  IOBIND__TRY(iobind__lane_open(&iobind__dml_of(stream->device)->d3d12, &lane, error));
  stream->own = lane;
  return IOBIND_OK;
}

static void close_stream(iobind_stream *stream) {
  (void)stream; /* points of the stream may still need the lane: free_lane closes it */
}

static void free_lane(iobind_stream *stream) {
  iobind__lane_close(lane_of(stream));
}

static void *native(const iobind_stream *stream) {
  return iobind__dml_of(stream->device)->d3d12.queue;
}

static iobind__ticket take_ticket(iobind_stream *stream) {
  return atomic_load(&stream->timeline.submitted);
}

static bool is_busy(const iobind_stream *stream) {
  (void)stream;
  return false;
}

iobind_status iobind__dml_stream_copy(iobind_stream *stream, const iobind__buffer_copy *copies, size_t count,
                                      iobind_error *error) {
  uint64_t value;
  IOBIND__TRY(iobind__lane_copy(lane_of(stream), copies, count, &value, error));
  (void)iobind__ticket_raise(&stream->timeline.submitted, value);
  return IOBIND_OK;
}

static iobind_status enter(const iobind_stream *stream, iobind_error *error) {
  return iobind__lane_enter_compute(lane_of(stream), error);
}

static iobind_status leave(iobind_stream *stream, iobind_error *error) {
  uint64_t value;
  IOBIND__TRY(iobind__lane_leave_compute(lane_of(stream), &value, error));
  (void)iobind__ticket_raise(&stream->timeline.submitted, value);
  return IOBIND_OK;
}

/* ---- the caller's fences ---- */

static iobind_status check_fence(const iobind_stream *stream, d3d12_fence *fence, iobind_error *error) {
  const d3d12_device *device = iobind__dml_of(stream->device)->d3d12.device;
  return iobind__d3d12_owns(device, (d3d_result(*)(void *, const d3d_guid *, void **))(d3d_slot)fence->table->GetDevice, fence)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "native.handle: the fence is of another ID3D12Device");
}

/* Direct3D does not report which values have been submitted. Known are the values that the fence has reached, and those that
 * iobind has submitted. */
static bool is_submitted(iobind__dml *dml, d3d12_fence *fence, uint64_t value) {
  bool submitted = fence->table->GetCompletedValue(fence) >= value;
  pthread_mutex_lock(&dml->mutex);
  for (size_t i = 0; i < IOBIND__DML_SIGNALS && !submitted; i++) {
    submitted = dml->signals[i].fence == fence && dml->signals[i].value >= value;
  }
  pthread_mutex_unlock(&dml->mutex);
  return submitted;
}

/* The table has a fixed size. The oldest entry is overwritten, and a wait for its fence is refused until the value is reached. */
static void note_signal(iobind__dml *dml, d3d12_fence *fence, uint64_t value) {
  d3d12_fence *old = NULL;
  pthread_mutex_lock(&dml->mutex);
  size_t at = 0;
  while (at < IOBIND__DML_SIGNALS && dml->signals[at].fence != fence) {
    at++;
  }
  if (at == IOBIND__DML_SIGNALS) {
    at = dml->next_signal++ % IOBIND__DML_SIGNALS;
    old = dml->signals[at].fence;
    iobind__com_retain(fence);
    dml->signals[at] = (iobind__dml_signal){fence, 0};
  }
  dml->signals[at].value = value > dml->signals[at].value ? value : dml->signals[at].value;
  pthread_mutex_unlock(&dml->mutex);
  iobind__com_release(old);
}

static iobind_status wait_fence(iobind_stream *stream, void *fence, uint64_t value, iobind_error *error) {
  uint64_t own;
  IOBIND__TRY(check_fence(stream, fence, error));
  if (!is_submitted(iobind__dml_of(stream->device), fence, value)) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "the fence has not reached %llu, and no submitted work is known to signal it: all runs on '%s' might wait forever",
        (unsigned long long)value, stream->device->spec);
  }
  IOBIND__TRY(iobind__lane_order(lane_of(stream), fence, value, &own, error));
  (void)iobind__ticket_raise(&stream->timeline.submitted, own);
  return IOBIND_OK;
}

static iobind_status signal_fence(iobind_stream *stream, void *fence, uint64_t value, iobind_error *error) {
  IOBIND__TRY(check_fence(stream, fence, error));
  IOBIND__TRY(iobind__lane_signal(lane_of(stream), fence, value, error));
  note_signal(iobind__dml_of(stream->device), fence, value);
  return IOBIND_OK;
}

iobind_status iobind__dml_use_fence(iobind_stream *stream, const iobind_native *fence, bool waits, iobind_error *error) {
  return waits ? wait_fence(stream, fence->handle, fence->value, error)
               : signal_fence(stream, fence->handle, fence->value, error);
}

/* ---- waiting ---- */

static iobind_status wait_for(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  iobind__ticket before = atomic_load(&stream->timeline.passed);
  iobind_error reason = IOBIND_ERROR_INIT;
  if (iobind__lane_wait(lane_of(stream), ticket, &reason) != IOBIND_OK) {
    iobind__stream_fail(stream, before, ticket, &reason);
  }
  iobind__stream_advance(stream, ticket); /* on a removed device, too, the work has ended */
  return iobind__stream_outcome(stream, ticket, error);
}

static iobind_status drain(iobind_stream *stream, iobind__ticket *ticket, iobind_error *error) {
  *ticket = take_ticket(stream);
  return wait_for(stream, *ticket, error);
}

static iobind_status mark(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  (void)error;
  point->ticket = take_ticket(stream); /* each submission has its own value */
  atomic_init(&point->queued, false);
  return IOBIND_OK;
}

static iobind_status wait_point(iobind__point *point, iobind_error *error) {
  return wait_for(point->stream, point->ticket, error);
}

static iobind_status order(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  iobind_stream *producer = point->stream;
  uint64_t value;
  if (producer->device != stream->device || iobind__stream_delivers(producer, point->ticket)) {
    return iobind__point_wait(point, error); /* the host copies what the stream delivers */
  }
  IOBIND__TRY(iobind__lane_order(lane_of(stream), iobind__lane_fence(lane_of(producer)), point->ticket, &value, error));
  (void)iobind__ticket_raise(&stream->timeline.submitted, value);
  return IOBIND_OK;
}

const iobind__stream_kind iobind__dml_stream = {
    .orders_calls = true,
    .open = open_lane,
    .close = close_stream,
    .take_ticket = take_ticket,
    .is_busy = is_busy,
    .wait = wait_for,
    .drain = drain,
    .mark = mark,
    .wait_point = wait_point,
    .order = order,
    .enter = enter,
    .leave = leave,
    .native = native,
    .free = free_lane,
    .staging_min_bytes = 1, /* copies of pageable memory block the host, whatever their size */
};
