/* Captured streams: submitted work becomes nodes of a graph. Calls that CUDA forbids during a capture break it. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

struct vcuda_capture {
  vcuda_capture *next;
  vcuda_graph *graph;
  vcuda_stream *origin;
  pthread_t thread;
  uint64_t id;
  int mode;
  bool broken;
};

static _Thread_local int thread_mode = CUDA_CAPTURE_GLOBAL;

void vcuda_capture_break(vcuda_capture *capture) {
  capture->broken = true;
}

int vcuda_capture_order(vcuda_stream *stream, const vcuda_order *order) {
  vcuda_capture *capture = stream->capture;
  size_t node = 0;
  if (capture->broken) return CUDA_CAPTURE_INVALIDATED;
  bool added;
  if (order->exec != NULL) {
    added = vcuda_graph_append(capture->graph, order->exec, &stream->frontier);
  } else {
    added = vcuda_graph_add(capture->graph, order, &stream->frontier, &node);
    if (added) {
      stream->frontier.count = 0;
      added = vcuda_nodes_add(&stream->frontier, node);
    }
  }
  if (!added) vcuda_capture_break(capture);
  return added ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

/* ---- what a capture forbids ---- */

/* Does the capture forbid unsafe calls of this thread? A global mode applies to every thread that has not chosen another mode. */
static bool forbids(const vcuda_capture *capture) {
  if (capture->mode == CUDA_CAPTURE_RELAXED || thread_mode == CUDA_CAPTURE_RELAXED) return false;
  bool own = pthread_equal(capture->thread, pthread_self()) != 0;
  return own || (capture->mode == CUDA_CAPTURE_GLOBAL && thread_mode == CUDA_CAPTURE_GLOBAL);
}

int vcuda_capture_refuses_unsafe(void) {
  int error = CUDA_OK;
  for (vcuda_capture *capture = vcuda_global.captures; capture != NULL; capture = capture->next) {
    if (!forbids(capture)) continue;
    vcuda_capture_break(capture);
    error = CUDA_CAPTURE_UNSUPPORTED;
  }
  return error;
}

static bool is_implied(const vcuda_stream *null_stream, const vcuda_stream *other) {
  return other->capture != NULL && other->device == null_stream->device && (other->flags & CUDA_STREAM_NON_BLOCKING) == 0;
}

/* The NULL stream would wait for the captured streams that wait for it. */
int vcuda_capture_refuses_legacy(const vcuda_stream *stream) {
  int error = CUDA_OK;
  if (!vcuda_stream_is_null(stream)) return error;
  for (vcuda_stream *other = vcuda_global.streams; other != NULL; other = other->next) {
    if (is_implied(stream, other)) {
      vcuda_capture_break(other->capture);
      error = CUDA_CAPTURE_IMPLICIT;
    }
  }
  return error;
}

/* A query of the NULL stream's capture state fails in the same case, but does not break the capture. */
static int ask_legacy(const vcuda_stream *stream) {
  for (const vcuda_stream *other = vcuda_global.streams; other != NULL && vcuda_stream_is_null(stream); other = other->next) {
    if (is_implied(stream, other)) return CUDA_CAPTURE_IMPLICIT;
  }
  return CUDA_OK;
}

int vcuda_capture_refuses_stream(vcuda_stream *stream) {
  if (stream->capture != NULL) {
    vcuda_capture_break(stream->capture);
    return CUDA_CAPTURE_UNSUPPORTED;
  }
  return vcuda_capture_refuses_legacy(stream);
}

int vcuda_capture_refuses_device(const vcuda_device *device) {
  int error = CUDA_OK;
  for (vcuda_stream *stream = vcuda_global.streams; stream != NULL; stream = stream->next) {
    if (stream->capture == NULL || stream->device != device) continue;
    vcuda_capture_break(stream->capture);
    error = CUDA_CAPTURE_UNSUPPORTED;
  }
  return error;
}

/* ---- events within a capture ---- */

void vcuda_capture_record(vcuda_stream *stream, vcuda_event *event) {
  event->capture = stream->capture;
  if (!vcuda_nodes_copy(&event->frontier, &stream->frontier)) vcuda_capture_break(stream->capture);
}

void vcuda_capture_forget_event(vcuda_event *event) {
  event->capture = NULL;
  event->frontier.count = 0;
}

static int refuse(vcuda_capture *capture, int error) {
  vcuda_capture_break(capture);
  return error;
}

int vcuda_capture_refuses_event(const vcuda_event *event) {
  return event->capture == NULL ? CUDA_OK : refuse(event->capture, CUDA_CAPTURED_EVENT);
}

int vcuda_capture_wait(vcuda_stream *stream, vcuda_event *event, bool external) {
  if (event->capture == NULL && stream->capture == NULL) return -1;
  if (event->capture == NULL) {
    if (event->stream == NULL) return CUDA_OK; /* never recorded: nothing to wait for */
    if (!external) return refuse(stream->capture, CUDA_CAPTURE_ISOLATION);
    const vcuda_order order = {.kind = CUDA_NODE_EMPTY, .name = "a wait for an event", .event = event};
    return vcuda_capture_order(stream, &order);
  }
  if (event->capture->broken) return CUDA_CAPTURE_INVALIDATED;
  if (vcuda_stream_is_null(stream)) return refuse(event->capture, CUDA_CAPTURE_UNSUPPORTED);
  if (stream->capture != NULL && stream->capture != event->capture) {
    (void)refuse(stream->capture, CUDA_CAPTURE_MERGE);
    return refuse(event->capture, CUDA_CAPTURE_MERGE);
  }
  if (stream->capture == NULL) { /* the stream joins the capture */
    stream->capture = event->capture;
    stream->frontier.count = 0;
  }
  for (size_t i = 0; i < event->frontier.count; i++) {
    if (!vcuda_nodes_add(&stream->frontier, event->frontier.list[i])) return refuse(stream->capture, CUDA_OUT_OF_MEMORY);
  }
  return CUDA_OK;
}

/* ---- the calls ---- */

int cudaStreamBeginCapture(cuda_stream stream, int mode) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  if (mode < CUDA_CAPTURE_GLOBAL || mode > CUDA_CAPTURE_RELAXED) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  vcuda_capture *capture = NULL;
  if (found != NULL && vcuda_stream_is_null(found)) error = CUDA_CAPTURE_UNSUPPORTED;
  if (found != NULL && found->capture != NULL) error = CUDA_ILLEGAL_STATE;
  if (found != NULL && error == CUDA_OK) {
    capture = calloc(1, sizeof *capture);
    if (capture != NULL) capture->graph = vcuda_graph_make();
    error = capture == NULL || capture->graph == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
  }
  if (found != NULL && error == CUDA_OK) {
    capture->origin = found;
    capture->thread = pthread_self();
    capture->id = ++vcuda_global.last_capture;
    capture->mode = mode;
    capture->next = vcuda_global.captures;
    vcuda_global.captures = capture;
    found->capture = capture;
    found->frontier.count = 0;
    capture->broken = vcuda_trigger_fails(&found->device->settings, VCUDA_SITE_CAPTURE, 0, "cudaStreamBeginCapture", false);
    vcuda_count(found->device, VCUDA_COUNT_captures, 1);
  } else {
    free(capture);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

/* Is all work of the capture's other streams joined to the stream on which the capture began? */
static bool is_joined(const vcuda_capture *capture) {
  for (const vcuda_stream *stream = vcuda_global.streams; stream != NULL; stream = stream->next) {
    for (size_t i = 0; stream->capture == capture && i < stream->frontier.count; i++) {
      if (!vcuda_graph_is_before(capture->graph, stream->frontier.list[i], &capture->origin->frontier)) return false;
    }
  }
  return true;
}

static void end(vcuda_capture *capture) {
  for (vcuda_stream *stream = vcuda_global.streams; stream != NULL; stream = stream->next) {
    if (stream->capture == capture) stream->capture = NULL;
  }
  for (vcuda_event *event = vcuda_global.events; event != NULL; event = event->next) {
    if (event->capture == capture) vcuda_capture_forget_event(event);
  }
  vcuda_capture **link = &vcuda_global.captures;
  while (*link != capture) link = &(*link)->next;
  *link = capture->next;
}

/* Fail by a setting, as if the capturing thread had made a forbidden call. */
static void break_end(const vcuda_capture *capture, int *error) {
  vcuda_settings *settings = &capture->origin->device->settings;
  if (vcuda_trigger_names(settings, VCUDA_SITE_CAPTURE, "cudaStreamEndCapture")) *error = CUDA_CAPTURE_UNSUPPORTED;
}

static int finish(vcuda_stream *stream, cuda_graph *graph) {
  vcuda_capture *capture = stream->capture;
  if (capture == NULL) return CUDA_ILLEGAL_STATE;
  if (capture->origin != stream) return refuse(capture, CUDA_CAPTURE_UNMATCHED);
  if (capture->mode != CUDA_CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
    return CUDA_CAPTURE_WRONG_THREAD;
  int error = capture->broken ? CUDA_CAPTURE_INVALIDATED : is_joined(capture) ? CUDA_OK : CUDA_CAPTURE_UNJOINED;
  break_end(capture, &error);
  end(capture);
  if (error == CUDA_OK) {
    *graph = capture->graph;
  } else {
    vcuda_graph_free(capture->graph);
  }
  free(capture);
  return error;
}

int cudaStreamEndCapture(cuda_stream stream, cuda_graph *graph) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  if (graph == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *graph = NULL;
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) error = finish(found, graph);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

static int status_of(const vcuda_stream *stream) {
  return stream->capture == NULL ? CUDA_CAPTURE_NONE : stream->capture->broken ? CUDA_CAPTURE_BROKEN : CUDA_CAPTURE_ACTIVE;
}

int cudaStreamIsCapturing(cuda_stream stream, int *status) {
  VCUDA_ENTER(stream);
  int error;
  vcuda_lock();
  const vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) error = vcuda_sticky(found->device, ask_legacy(found));
  if (found != NULL) *status = status_of(found);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaStreamGetCaptureInfo(cuda_stream stream, int *status, unsigned long long *id, cuda_graph *graph,
                             const cuda_node **nodes, const void **edges, size_t *count) {
  VCUDA_ENTER(stream);
  int error;
  vcuda_lock();
  const vcuda_stream *found = vcuda_stream_find(stream, &error);
  const vcuda_capture *capture = found == NULL ? NULL : found->capture;
  if (found != NULL) *status = status_of(found);
  if (id != NULL) *id = capture == NULL ? 0 : capture->id;
  if (graph != NULL) *graph = capture == NULL ? NULL : capture->graph;
  if (nodes != NULL) *nodes = capture == NULL ? NULL : vcuda_graph_handles(capture->graph);
  if (edges != NULL) *edges = NULL;
  if (count != NULL) *count = capture == NULL ? 0 : vcuda_graph_size(capture->graph);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaThreadExchangeStreamCaptureMode(int *mode) {
  VCUDA_ENTER(NULL);
  if (mode == NULL || *mode < CUDA_CAPTURE_GLOBAL || *mode > CUDA_CAPTURE_RELAXED) return vcuda_end(&call, CUDA_INVALID_VALUE);
  int before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return vcuda_end(&call, CUDA_OK);
}
