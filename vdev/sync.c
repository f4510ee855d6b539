/* Streams and events as ORT sees them. */
#include <stdlib.h>

#include "capture.h"
#include "ep.h"
#include "stream.h"

typedef struct sync_stream {
  OrtSyncStreamImpl impl; /* first: ORT's view */
  vdev_stream *stream;
} sync_stream;

typedef struct notification {
  OrtSyncNotificationImpl impl; /* first: ORT's view */
  vdev_stream *stream;
  vdev_event event;
} notification;

static void ORT_CALL release_notification(OrtSyncNotificationImpl *self) {
  free(self);
}

static OrtStatus *ORT_CALL activate(OrtSyncNotificationImpl *self) {
  notification *one = (notification *)self;
  vdev_lock();
  bool good = vdev_stream_exists(one->stream);
  if (good) {
    vdev_event_mark(&one->event, one->stream);
  }
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_INVALID_ARGUMENT, "vdev: an event is recorded on a stream that was released");
}

static OrtStatus *ORT_CALL wait_on_device(OrtSyncNotificationImpl *self, OrtSyncStream *consumer) {
  notification *one = (notification *)self;
  char reason[VDEV_TEXT] = "";
  vdev_stream *stream = VDEV_API_TABLE->SyncStream_GetHandle(consumer);
  vdev_lock();
  /* a stream of another EP does not know our events: the host waits instead of it */
  bool good =
      vdev_stream_exists(stream) ? vdev_event_order(&one->event, stream, reason) : vdev_event_await(&one->event, reason);
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

static OrtStatus *ORT_CALL wait_on_host(OrtSyncNotificationImpl *self) {
  notification *one = (notification *)self;
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = vdev_capture_permits(one->event.device, "a wait for an event", reason) && vdev_event_await(&one->event, reason) &&
              !vdev_event_has_failed(&one->event, reason); /* several may wait */
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

static OrtStatus *ORT_CALL create_notification(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **out) {
  notification *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  one->impl = (OrtSyncNotificationImpl){vdev_ort_global.version, release_notification, activate, wait_on_device, wait_on_host};
  one->stream = ((sync_stream *)self)->stream;
  one->event.device = one->stream->device;
  *out = &one->impl;
  return NULL;
}

static void ORT_CALL release_stream(OrtSyncStreamImpl *self) {
  sync_stream *one = (sync_stream *)self;
  vdev_stream_destroy(one->stream);
  free(one);
}

static void *ORT_CALL get_handle(OrtSyncStreamImpl *self) {
  return ((sync_stream *)self)->stream;
}

/* ORT ignores this status: a failure is kept for a wait whose status is returned. */
static OrtStatus *ORT_CALL flush(OrtSyncStreamImpl *self) {
  vdev_stream *stream = ((sync_stream *)self)->stream;
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = vdev_capture_records(stream->device); /* nothing was launched yet: the end of the run launches it, and waits */
  if (!good && vdev_capture_permits(stream->device, "a wait for a stream", reason)) {
    vdev_stream_await(stream);
    good = true;
  }
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

/* ORT calls this before Flush, only for a run that waits, and returns its status from the run. */
static OrtStatus *ORT_CALL on_session_run_end(OrtSyncStreamImpl *self) {
  vdev_stream *stream = ((sync_stream *)self)->stream;
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = vdev_capture_records(stream->device);
  good = good || (vdev_capture_permits(stream->device, "a wait for a stream", reason) && vdev_stream_drain(stream, reason));
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

OrtStatus *vdev_sync_stream_create(vdev_device *device, OrtSyncStreamImpl **out) {
  char reason[VDEV_TEXT] = "vdev: out of host memory";
  sync_stream *one = calloc(1, sizeof *one);
  if (one != NULL) {
    vdev_lock();
    one->stream = vdev_stream_open(device, reason);
    vdev_unlock();
  }
  if (one == NULL || one->stream == NULL) {
    free(one);
    return vdev_fail(ORT_FAIL, reason);
  }
  one->impl =
      (OrtSyncStreamImpl){vdev_ort_global.version, release_stream, get_handle, create_notification, flush, on_session_run_end};
  *out = &one->impl;
  return NULL;
}
