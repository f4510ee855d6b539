/* Streams: operations in order, each done by the caller at once where nothing is pending and nothing takes time, otherwise
 * by the stream's worker. */
#ifndef VDEV_STREAM_H
#define VDEV_STREAM_H

#include "device.h"

/* What an operation does when its turn and its modelled time have come. Without the lock. False: failed, with the reason in
 * `reason` (VDEV_TEXT bytes). */
typedef bool (*vdev_work)(void *context, char *reason);

typedef struct vdev_job {
  vdev_device *device;
  vdev_engine engine;
  int64_t bytes;    /* copies: what moves; the model makes the time of it */
  const char *what; /* for traces and messages */
  vdev_work work;
  void *context;
  void (*release)(void *context); /* after the work, or instead of it; may be NULL */
} vdev_job;

/* With the lock held; gives it up for a time. With a stream: submit, and return when the job is done only if it was done at
 * once or `wait` is set. Without one: do it now. False: failed. */
bool vdev_submit(vdev_stream *stream, const vdev_job *job, bool wait, char *reason);

/* A new operation is about to be described to the race detector: it comes after what the host knows. */
void vdev_stream_advance(vdev_stream *stream);

/* Wait until the stream has done everything. With the lock held. False: it has failed, now or before. */
bool vdev_stream_drain(vdev_stream *stream, char *reason);

vdev_stream *vdev_stream_open(vdev_device *device, char *reason); /* with the lock held */
void vdev_stream_close(vdev_stream *stream);                      /* with the lock held: drains */

void vdev_event_mark(vdev_event *event, const vdev_stream *stream);
bool vdev_event_await(vdev_event *event, char *reason);                      /* on the host */
bool vdev_event_order(vdev_event *event, vdev_stream *stream, char *reason); /* on the device */

#endif
