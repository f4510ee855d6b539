#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { WARM_UPS = 2 }; /* as many as CUDA's EP makes */

typedef enum capture_state { WARMING_UP, RECORDING, READY } capture_state;

/* Memory that is given back with the graph. */
typedef struct kept_memory {
  struct kept_memory *next;
  void *address;
} kept_memory;

/* The graph of one thread and number. */
struct vdev_capture {
  struct vdev_capture *next;
  uint64_t thread;
  int number;
  int runs; /* before it is recorded */
  capture_state state;
  int users; /* launches of it that are in flight */
  vdev_recorded *first;
  vdev_recorded *last;
  kept_memory *kept;
  vdev_stream *stream; /* of the first operation; its address may be reused by another */
  uint64_t stream_serial;
  char spoiled[VDEV_TEXT]; /* why it has failed; "": it has not */
};
typedef struct vdev_capture capture;

struct vdev_captures {
  vdev_device *device;
  capture *first;
  vdev_stream *stream; /* for graphs whose own stream is gone */
};

/* A number that no other thread ever has. With the lock held. */
static uint64_t this_thread(void) {
  static uint64_t threads;
  static _Thread_local uint64_t number;
  if (number == 0) {
    number = ++threads;
  }
  return number;
}

static capture *find(const vdev_captures *captures, int number) {
  uint64_t thread = this_thread();
  for (capture *one = captures->first; one != NULL; one = one->next) {
    if (one->thread == thread && one->number == number) {
      return one;
    }
  }
  return NULL;
}

static capture *find_or_add(vdev_captures *captures, int number) {
  capture *one = find(captures, number);
  if (one != NULL) {
    return one;
  }
  one = calloc(1, sizeof *one);
  if (one != NULL) {
    *one = (capture){.next = captures->first, .thread = this_thread(), .number = number};
    captures->first = one;
  }
  return one;
}

/* Take the operations out, for release_all. With the lock held, which it releases for a time: they may still be in flight. */
static vdev_recorded *take_operations(capture *one) {
  vdev_streams_wait();
  vdev_recorded *first = one->first;
  one->first = one->last = NULL;
  return first;
}

static void free_kept(vdev_device *device, capture *one) {
  while (one->kept != NULL) {
    kept_memory *kept = one->kept;
    one->kept = kept->next;
    vdev_memory_free(device, kept->address);
    free(kept);
  }
}

/* Without the lock. */
static void release_all(vdev_recorded *first) {
  while (first != NULL) {
    vdev_recorded *next = first->next;
    first->release(first);
    first = next;
  }
}

vdev_captures *vdev_captures_create(vdev_device *device) {
  vdev_captures *captures = calloc(1, sizeof *captures);
  if (captures != NULL) {
    captures->device = device;
  }
  return captures;
}

/* Forget the graphs of a number, or all of them. */
static void forget(vdev_captures *captures, bool all, int number) {
  vdev_lock();
  for (capture **at = &captures->first; *at != NULL;) {
    capture *one = *at;
    if (!all && one->number != number) {
      at = &one->next;
      continue;
    }
    if (one->users > 0) {
      pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
      at = &captures->first; /* anything may have changed meanwhile */
      continue;
    }
    *at = one->next;
    if (captures->device->capture == one) {
      captures->device->capture = NULL;
    }
    vdev_recorded *operations = take_operations(one);
    free_kept(captures->device, one);
    vdev_unlock();
    release_all(operations);
    free(one);
    vdev_lock();
    at = &captures->first;
  }
  vdev_unlock();
}

void vdev_captures_clear(vdev_captures *captures) {
  forget(captures, true, 0);
}

void vdev_captures_forget(vdev_captures *captures, int number) {
  forget(captures, false, number);
}

void vdev_captures_release(vdev_captures *captures) {
  if (captures == NULL) {
    return;
  }
  vdev_captures_clear(captures);
  vdev_stream_destroy(captures->stream);
  free(captures);
}

bool vdev_capture_records(const vdev_device *device) {
  return device->capture != NULL && device->capture->thread == this_thread();
}

void vdev_capture_add(const vdev_device *device, vdev_stream *stream, vdev_recorded *recorded) {
  capture *one = device->capture;
  recorded->next = NULL;
  if (one->first == NULL) {
    one->first = recorded;
    one->stream = stream;
    one->stream_serial = stream == NULL ? 0 : stream->serial;
  } else {
    one->last->next = recorded;
  }
  one->last = recorded;
}

static void spoil(capture *one, const char *reason) {
  if (one->spoiled[0] == '\0') {
    snprintf(one->spoiled, sizeof one->spoiled, "%s", reason);
  }
}

void vdev_capture_spoil(const vdev_device *device, const char *reason) {
  if (vdev_capture_records(device)) {
    spoil(device->capture, reason);
  }
}

void vdev_capture_warm_up(const vdev_device *device) {
  if (vdev_capture_records(device)) {
    device->capture->runs = 0;
  }
}

bool vdev_capture_keep(const vdev_device *device, void *address) {
  if (!vdev_capture_records(device)) {
    return false;
  }
  kept_memory *kept = malloc(sizeof *kept);
  if (kept == NULL) {
    spoil(device->capture, "vdev: out of host memory");
    return false;
  }
  *kept = (kept_memory){.next = device->capture->kept, .address = address};
  device->capture->kept = kept;
  return true;
}

static void break_by_thread(const vdev_device *device, const char *what) {
  char why[VDEV_TEXT];
  snprintf(why, sizeof why, "vdev:%d: the capture of a graph failed: another thread's call came into it: %s", device->index,
           what);
  spoil(device->capture, why);
}

bool vdev_capture_permits(vdev_device *device, const char *what, char *reason) {
  if (device->capture == NULL || vdev_capture_records(device)) {
    return true;
  }
  break_by_thread(device, what);
  return vdev_refuse(device, reason, "%s: not permitted while another thread captures a graph on the device", what);
}

/* The stream that launches it: that of its capture, so that it is ordered as the run was, or one of our own if that is gone. */
static vdev_stream *stream_of(vdev_captures *captures, const capture *one, char *reason) {
  if (vdev_stream_exists(one->stream) && one->stream->serial == one->stream_serial) {
    return one->stream;
  }
  if (captures->stream == NULL) {
    captures->stream = vdev_stream_open(captures->device, reason);
  }
  return captures->stream;
}

/* With the lock held. */
static bool launch_all(vdev_captures *captures, capture *one, bool wait, char *reason) {
  vdev_stream *stream = stream_of(captures, one, reason);
  bool good = stream != NULL;
  one->users++;
  captures->device->statistics.graph_replays += good;
  for (vdev_recorded *operation = one->first; operation != NULL && good; operation = operation->next) {
    good = operation->launch(operation, stream, reason);
  }
  good = good && (!wait || vdev_stream_drain(stream, reason));
  one->users--;
  pthread_cond_broadcast(&vdev_global.changed);
  return good;
}

/* Begin to record, unless another thread does. With the lock held. */
static bool start_recording(vdev_device *device, capture *one, char *reason) {
  if (!vdev_capture_permits(device, "a capture", reason)) {
    return false;
  }
  one->state = RECORDING;
  one->spoiled[0] = '\0';
  device->capture = one;
  const vdev_subject subject = {.site = VDEV_SITE_CAPTURE};
  vdev_effect none;
  if (vdev_fault_strikes(&device->settings.faults, &subject, &none)) {
    break_by_thread(device, "as asked (fail_capture)");
    device->statistics.errors++;
  }
  return true;
}

OrtStatus *vdev_captures_start_run(vdev_captures *captures, int number) {
  char reason[VDEV_TEXT] = "vdev: out of host memory";
  if (number == VDEV_NO_GRAPH) {
    return NULL;
  }
  vdev_lock();
  capture *one = find_or_add(captures, number);
  bool good = one != NULL && (one->runs < WARM_UPS || one->state == READY || start_recording(captures->device, one, reason));
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

/* What was recorded becomes ready, or is dropped. With the lock held. */
static bool finish_recording(vdev_captures *captures, capture *one, bool wait, char *reason) {
  captures->device->capture = NULL;
  if (one->first == NULL) { /* at a run's end ORT does not say that it was cancelled */
    spoil(one, "vdev: the capture of a graph failed: the run ended before it had launched anything");
  }
  if (one->spoiled[0] != '\0') {
    snprintf(reason, VDEV_TEXT, "%s", one->spoiled);
    return false;
  }
  captures->device->statistics.graph_captures++;
  return launch_all(captures, one, wait, reason);
}

OrtStatus *vdev_captures_end_run(vdev_captures *captures, int number, bool wait) {
  char reason[VDEV_TEXT] = "";
  vdev_recorded *dropped = NULL;
  bool good = true;
  vdev_lock();
  capture *one = number == VDEV_NO_GRAPH ? NULL : find(captures, number);
  if (one != NULL && one->state == RECORDING) {
    good = finish_recording(captures, one, wait, reason);
    one->state = good ? READY : WARMING_UP;
    if (!good) {
      dropped = take_operations(one);
      free_kept(captures->device, one);
    }
  } else if (one != NULL) {
    one->runs++;
  }
  vdev_unlock();
  release_all(dropped);
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

bool vdev_captures_has(const vdev_captures *captures, int number) {
  vdev_lock();
  const capture *one = find(captures, number);
  bool has = one != NULL && one->state == READY;
  vdev_unlock();
  return has;
}

OrtStatus *vdev_captures_replay(vdev_captures *captures, int number) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  capture *one = find(captures, number);
  bool good = one != NULL && one->state == READY;
  if (!good) {
    snprintf(reason, sizeof reason, "vdev:%d: this thread has no graph %d", captures->device->index, number);
  } else {
    good = vdev_capture_permits(captures->device, "a replay", reason) && launch_all(captures, one, true, reason);
  }
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}
