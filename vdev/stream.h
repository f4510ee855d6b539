/* Streams: operations in order. The caller does an operation at once if nothing is pending and nothing takes time, otherwise
 * the stream's worker does it. */
#ifndef VDEV_STREAM_H
#define VDEV_STREAM_H

#include "device.h"

/* What an operation does when its turn and its modelled time have come. Without the lock. False: failed, with the reason in
 * `reason` (VDEV_TEXT bytes). */
typedef bool (*vdev_work)(void *context, char *reason);

typedef struct vdev_job {
  vdev_device *device;
  vdev_engine engine;
  int64_t bytes; /* of copies: the bytes that move; the model turns them into time */
  vdev_effect effect;
  const char *what;  /* for traces and messages */
  const void *owner; /* the owner of the work, for vdev_device_drain; NULL: none */
  vdev_work work;
  void (*falsify)(void *context); /* after the work, if the effect is a wrong result */
  void *context;
  void (*release)(void *context); /* after the work, or instead of it; may be NULL */
} vdev_job;

/* With the lock held, which it releases for a time. With a stream: submit; the job is done on return only if it was done at
 * once or `wait` is set. Without a stream: do it now. False: failed. */
bool vdev_submit(vdev_stream *stream, const vdev_job *job, bool wait, char *reason);

/* Add a job that takes as long as something outside does: the stream's worker does it, never the caller, and no time of the model's
 * passes. With the lock held, which it releases for a time. False: the stream has failed, or there is no memory; the job was released. */
bool vdev_stream_queue(vdev_stream *stream, const vdev_job *job, char *reason);

/* With the lock held, which it releases for a time: the host is busy for this long, on either clock. */
void vdev_host_delay(int64_t nanoseconds);

/* A new operation is about to be described to the race detector: it comes after everything that the host knows of. */
void vdev_stream_advance(vdev_stream *stream);

/* Wait until the stream has done everything. With the lock held. False: it has failed, now or before. */
bool vdev_stream_drain(vdev_stream *stream, char *reason);

/* The same; a failure is kept for the next drain. */
void vdev_stream_await(const vdev_stream *stream);

/* A run of a session begins, and ends, in this thread: what the thread submits meanwhile is the run's. With the lock held. The end
 * waits, if `wait` is set, for the run's work on all streams. False: some of that has failed, and no wait has reported it. */
void vdev_run_begin(void);
bool vdev_run_end(bool wait, char *reason);

/* Wait until all streams of a device have done everything. With the lock held. False: work of `owner` has failed; failures of
 * others are reported to those. */
bool vdev_device_drain(vdev_device *device, const void *owner, char *reason);

/* Wait until all streams have done what they have now, and ignore failures. With the lock held. The host knows no more than
 * before: this orders nothing. */
void vdev_streams_wait(void);

/* Is it one of our streams, and not destroyed? With the lock held. */
bool vdev_stream_exists(const vdev_stream *stream);

vdev_stream *vdev_stream_open(vdev_device *device, char *reason); /* with the lock held */
void vdev_stream_close(vdev_stream *stream);                      /* with the lock held; drains it */

/* Is it an event of the native interface, and not destroyed? With the lock held. */
bool vdev_event_exists(const vdev_event *event);

vdev_event *vdev_event_open(void);        /* with the lock held; NULL: out of host memory */
void vdev_event_close(vdev_event *event); /* with the lock held */

void vdev_event_mark(vdev_event *event, const vdev_stream *stream);
bool vdev_event_await(vdev_event *event, char *reason); /* on the host */
/* Has another wait reported the failure of work before it since it was recorded? */
bool vdev_event_has_failed(const vdev_event *event, char *reason);
bool vdev_event_has_passed(const vdev_event *event);                         /* if it has, that counts as a wait of the host */
bool vdev_event_order(vdev_event *event, vdev_stream *stream, char *reason); /* on the device */

#endif
