/* Captured graphs: what one run launches is recorded, and launched again later without ORT's part of a run. CUDA's rules hold:
 * the first two runs are ordinary ones; the third records and launches nothing, and at its end the recorded work is launched.
 * Later runs launch that again, at the same addresses, whatever is bound by then. Each thread has its own graphs, by the number
 * of the run option gpu_graph_id. While a thread records, no other one may allocate, release, wait or query on the same device:
 * its call fails, and so does the capture. */
#ifndef VDEV_CAPTURE_H
#define VDEV_CAPTURE_H

#include "status.h"
#include "stream.h"

enum { VDEV_NO_GRAPH = -1 }; /* the number of runs that are never recorded */

/* A recorded operation: the first member of a struct that knows how to launch it. */
typedef struct vdev_recorded {
  struct vdev_recorded *next;
  bool (*launch)(struct vdev_recorded *self, vdev_stream *stream, char *reason); /* with the lock held */
  void (*release)(struct vdev_recorded *self);                                   /* without it */
} vdev_recorded;

typedef struct vdev_captures vdev_captures; /* the graphs of one session */

vdev_captures *vdev_captures_create(vdev_device *device); /* NULL: out of memory */
void vdev_captures_release(vdev_captures *captures);

/* Forget all graphs, before the kernels are destroyed that they launch. */
void vdev_captures_clear(vdev_captures *captures);

/* Around each run that is not a replay, with the run's number. */
OrtStatus *vdev_captures_start_run(vdev_captures *captures, int number);
OrtStatus *vdev_captures_end_run(vdev_captures *captures, int number, bool wait);

/* This thread's graphs. */
bool vdev_captures_has(const vdev_captures *captures, int number);
OrtStatus *vdev_captures_replay(vdev_captures *captures, int number); /* returns when it is done */

/* All threads' graphs of this number. */
void vdev_captures_forget(vdev_captures *captures, int number);

/* ---- for operations, with the lock held ---- */

/* Is this thread recording on the device? */
bool vdev_capture_records(const vdev_device *device);

/* Add an operation to what it records. */
void vdev_capture_add(const vdev_device *device, vdev_stream *stream, vdev_recorded *recorded);

/* The run that this thread records gives memory back. What was recorded goes on writing there, so the graph keeps it. False: no run is
 * recorded. */
bool vdev_capture_keep(const vdev_device *device, void *address);

/* A part of the run that is being recorded has failed, as `reason` says: the run's end will fail too. Does nothing if this
 * thread records no run. */
void vdev_capture_spoil(const vdev_device *device, const char *reason);

/* The run that this thread records lacks what a plain run tells: after it has failed, the graph begins with plain runs again. */
void vdev_capture_warm_up(const vdev_device *device);

/* May this thread do `what`, which touches the whole device? False: another thread is recording, and its capture fails because
 * of this. */
bool vdev_capture_permits(vdev_device *device, const char *what, char *reason);

#endif
