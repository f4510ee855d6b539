#include <stdlib.h>
#include <string.h>

#include "state.h"

void vcuda_event_drop(vcuda_event *event) {
  if (--event->references > 0) return;
  vcuda_event **link = &vcuda_global.events;
  while (*link != event) link = &(*link)->next;
  *link = event->next;
  if (event->stream != NULL) vcuda_stream_drop(event->stream);
  if (event->shared != NULL) vcuda_event_shared_close(event->shared);
  free(event->frontier.list);
  free(event);
}

static vcuda_event *find(const void *handle) {
  vcuda_event *event = vcuda_global.events;
  while (event != NULL && (event != handle || event->closed)) event = event->next;
  return event;
}

/* Takes ownership of `shared`, which is NULL for an event of one process. */
static vcuda_event *add(unsigned flags, vcuda_event_shared *shared) {
  vcuda_lock();
  vcuda_device *device = vcuda_device_current();
  bool fails = vcuda_trigger_fails(&device->settings, VCUDA_SITE_EVENT, 0, "cudaEventCreate", false);
  vcuda_event *event = fails ? NULL : calloc(1, sizeof *event);
  if (event != NULL) {
    event->device = device;
    event->references = 1;
    event->flags = flags;
    event->shared = shared;
    event->next = vcuda_global.events;
    vcuda_global.events = event;
    vcuda_count(device, VCUDA_COUNT_live_events, 1);
  }
  vcuda_unlock();
  if (event == NULL && shared != NULL) vcuda_event_shared_close(shared);
  return event;
}

static int make(cuda_event *event, unsigned flags) {
  bool shares = (flags & CUDA_EVENT_SHARED) != 0;
  if (event == NULL || flags > 7 || (shares && (flags & CUDA_EVENT_NO_TIMING) == 0)) return CUDA_INVALID_VALUE;
  vcuda_event_shared *shared = shares ? vcuda_event_shared_make() : NULL;
  *event = shares && shared == NULL ? NULL : add(flags, shared);
  return *event == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

int cudaEventCreate(cuda_event *event) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, make(event, 0));
}

int cudaEventCreateWithFlags(cuda_event *event, unsigned flags) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, make(event, flags));
}

int cudaEventDestroy(cuda_event event) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  vcuda_event *found = find(event);
  int error = found == NULL ? CUDA_INVALID_HANDLE : found->device->error;
  if (found != NULL) {
    vcuda_count(found->device, VCUDA_COUNT_live_events, -1);
    vcuda_capture_forget_event(found);
    found->closed = true;
    vcuda_event_drop(found);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

static bool fails_by_name(vcuda_event *event, const char *name) {
  return event != NULL && vcuda_trigger_names(&event->device->settings, VCUDA_SITE_EVENT, name);
}

/* ---- records that processes share ---- */

/* Was the last record made by another process? Then its number determines the state, not this process's stream. */
static bool is_recorded_elsewhere(const vcuda_event *event) {
  return event->shared != NULL && vcuda_event_shared_last(event->shared) != event->number;
}

typedef struct shared_step {
  vcuda_event *event;
  uint64_t number;
} shared_step;

static void end_step(const shared_step *step) {
  vcuda_lock();
  vcuda_event_drop(step->event);
  vcuda_unlock();
}

static void run_finish(void *arguments) {
  const shared_step *step = arguments;
  vcuda_event_shared_finish(step->event->shared, step->number);
  end_step(step);
}

static void run_await(void *arguments) {
  const shared_step *step = arguments;
  vcuda_event_shared_await(step->event->shared, step->number);
  end_step(step);
}

static int queue_step(vcuda_stream *stream, const char *name, void (*run)(void *), vcuda_event *event, uint64_t number) {
  const shared_step step = {event, number};
  const vcuda_order order = {.kind = CUDA_NODE_EMPTY, .name = name, .run = run, .arguments = &step, .bytes = sizeof step};
  event->references++;
  int error = vcuda_queue_push(stream, &order);
  if (error != CUDA_OK) vcuda_event_drop(event);
  return error;
}

static int record_shared(vcuda_event *event, vcuda_stream *stream) {
  event->number = vcuda_event_shared_record(event->shared);
  return queue_step(stream, "the record of a shared event", run_finish, event, event->number);
}

/* The log takes the lock itself. */
static int refuse_captured(void) {
  vcuda_unlock();
  vcuda_log("vcuda: an event that processes share is not captured here");
  vcuda_lock();
  return CUDA_NOT_SUPPORTED;
}

/* ---- records and waits ---- */

static int record(vcuda_event *event, vcuda_stream *stream, bool external) {
  if (event->device != stream->device) return CUDA_INVALID_HANDLE;
  if (fails_by_name(event, "cudaEventRecord")) return CUDA_UNKNOWN;
  int error = vcuda_capture_refuses_legacy(stream);
  if (error != CUDA_OK) return error;
  if (stream->capture != NULL && event->shared != NULL) return refuse_captured();
  if (stream->capture != NULL && !external) {
    vcuda_capture_record(stream, event);
    return CUDA_OK;
  }
  const vcuda_order order = {.kind = CUDA_NODE_RECORD, .name = "an event's record", .event = event};
  vcuda_capture_forget_event(event);
  error = vcuda_queue_order(stream, &order);
  return error != CUDA_OK || event->shared == NULL ? error : record_shared(event, stream);
}

static int record_on(cuda_event event, cuda_stream stream, unsigned flags) {
  int error;
  vcuda_lock();
  vcuda_event *found = find(event);
  vcuda_stream *on = vcuda_stream_find(stream, &error);
  if (found == NULL) error = CUDA_INVALID_HANDLE;
  if (found != NULL && on != NULL) error = record(found, on, (flags & CUDA_EVENT_EXTERNAL) != 0);
  vcuda_unlock();
  return error;
}

int cudaEventRecordWithFlags(cuda_event event, cuda_stream stream, unsigned flags) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, record_on(event, stream, flags));
}

int cudaEventRecord(cuda_event event, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, record_on(event, stream, 0));
}

static int wait_on(vcuda_stream *stream, vcuda_event *event, bool external) {
  if (fails_by_name(event, "cudaStreamWaitEvent")) return CUDA_UNKNOWN;
  if (stream->capture != NULL && event->shared != NULL) return refuse_captured();
  int error = vcuda_capture_refuses_legacy(stream);
  if (error == CUDA_OK) error = vcuda_capture_wait(stream, event, external);
  if (error != -1) return error;
  vcuda_count(stream->device, VCUDA_COUNT_event_waits, 1);
  if (is_recorded_elsewhere(event)) {
    return queue_step(stream, "a wait for a shared event", run_await, event, vcuda_event_shared_last(event->shared));
  }
  if (event->stream == NULL) return CUDA_OK; /* never recorded: nothing to wait for */
  const vcuda_order order = {.kind = CUDA_NODE_EMPTY, .name = "a wait for an event", .event = event};
  return stream->device->error != CUDA_OK ? stream->device->error : vcuda_queue_push(stream, &order);
}

int cudaStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  vcuda_lock();
  vcuda_event *found = find(event);
  vcuda_stream *on = vcuda_stream_find(stream, &error);
  if (found == NULL) error = CUDA_INVALID_HANDLE;
  if (found != NULL && on != NULL) error = wait_on(on, found, (flags & CUDA_EVENT_EXTERNAL) != 0);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

/* Block the host. The lock is released while the event of another process is waited for. */
static int wait_here(vcuda_event *event) {
  if (!is_recorded_elsewhere(event)) {
    return event->stream == NULL ? CUDA_OK : vcuda_queue_wait_for(event->stream, event->sequence, event->clocks);
  }
  uint64_t number = vcuda_event_shared_last(event->shared);
  event->references++;
  vcuda_unlock();
  vcuda_event_shared_await(event->shared, number);
  vcuda_lock();
  int error = event->device->error;
  vcuda_event_drop(event);
  return error;
}

int cudaEventSynchronize(cuda_event event) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_lock();
  vcuda_event *found = find(event);
  int error = found == NULL ? CUDA_INVALID_HANDLE : vcuda_capture_refuses_event(found);
  if (error == CUDA_OK && fails_by_name(found, call.name)) error = CUDA_UNKNOWN;
  if (error == CUDA_OK) {
    vcuda_device *device = found->device; /* another thread may destroy the event meanwhile */
    vcuda_count_sync(device, VCUDA_COUNT_sync_event);
    error = wait_here(found);
    if (error == CUDA_OK) error = vcuda_take_missed(device);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

static bool has_passed(const vcuda_event *event) {
  if (is_recorded_elsewhere(event)) {
    return vcuda_event_shared_is_done(event->shared, vcuda_event_shared_last(event->shared));
  }
  return event->stream == NULL || event->stream->completed >= event->sequence;
}

int cudaEventQuery(cuda_event event) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_lock();
  vcuda_event *found = find(event);
  int error = found == NULL ? CUDA_INVALID_HANDLE : vcuda_capture_refuses_event(found);
  if (error == CUDA_OK && fails_by_name(found, call.name)) error = CUDA_UNKNOWN;
  if (error == CUDA_OK) error = !has_passed(found) ? CUDA_NOT_READY : found->device->error;
  if (error == CUDA_OK) vcuda_clocks_join(vcuda_global.host_clocks, found->clocks); /* the host knows now */
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaEventElapsedTime(float *milliseconds, cuda_event start, cuda_event end) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_lock();
  const vcuda_event *from = find(start), *to = find(end);
  bool timed = from != NULL && to != NULL && from->stream != NULL && to->stream != NULL &&
               ((from->flags | to->flags) & CUDA_EVENT_NO_TIMING) == 0;
  bool together = timed && from->device == to->device;
  int error = !together ? CUDA_INVALID_HANDLE : !has_passed(from) || !has_passed(to) ? CUDA_NOT_READY : CUDA_OK;
  if (error == CUDA_OK) *milliseconds = (float)(to->time - from->time) / 1e6F;
  vcuda_unlock();
  return vcuda_end(&call, error);
}

/* ---- handles for other processes ---- */

int cudaIpcGetEventHandle(cuda_ipc_handle *handle, cuda_event event) {
  VCUDA_ENTER_DEVICE(NULL);
  if (handle == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  const vcuda_event *found = find(event);
  bool shares = found != NULL && found->shared != NULL;
  if (shares) vcuda_event_shared_describe(found->shared, handle);
  vcuda_unlock();
  return vcuda_end(&call, shares ? CUDA_OK : CUDA_INVALID_HANDLE);
}

/* cudaEventDestroy releases it. */
int cudaIpcOpenEventHandle(cuda_event *event, cuda_ipc_handle handle) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_event_shared *shared = NULL;
  if (event == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *event = NULL;
  int error = vcuda_event_shared_open(&handle, &shared);
  if (error != CUDA_OK) return vcuda_end(&call, error);
  *event = add(CUDA_EVENT_SHARED | CUDA_EVENT_NO_TIMING, shared);
  return vcuda_end(&call, *event == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK);
}
