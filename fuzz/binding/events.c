/* Events: recorded, queried, waited for. */
#include <string.h>

#include "operations.h"

#define W the_world

void record_point(point *at, size_t stream) {
  at->stream = (int)stream;
  memcpy(at->stamps, W->lanes[stream].after, sizeof at->stamps);
  at->stamps[stream] = W->lanes[stream].submitted;
}

static bool is_bound_with(int event) {
  for (size_t i = 0; i < BINDINGS; i++) {
    const bound *one = &W->bindings[i];
    for (size_t j = 0; one->handle != NULL && j < MOST_PORTS; j++) {
      if (one->shadow.inputs[j].event == event || (one->flight.stream >= 0 && one->before.inputs[j].event == event))
        return true;
    }
  }
  return false;
}

void point_passed(const point *at) {
  for (size_t i = 0; i < STREAMS && at->stream >= 0; i++) {
    if ((int)i == at->stream) {
      world_waited(i, at->stamps[i]);
    } else {
      world_seen(i, at->stamps[i]);
    }
  }
}

void do_event(const step *from) {
  size_t number = from->x[0] % EVENTS;
  size_t stream = from->x[1] % STREAMS;
  point *at = world_point(number);
  int32_t done = 0;
  int touched = -1; /* the stream whose failure the call may have found */
  if (at == NULL || world_stream(stream) == NULL) return;
  switch (from->x[2] % 6) {
    case 0:
      touched = at->stream;
      begin_call("event_wait(e%zu)", number);
      if (require_ok(end_call(iobind_event_wait(at->handle, IOBIND_NO_TIMEOUT, &the_error)))) point_passed(at);
      break;
    case 1:
      touched = at->stream;
      begin_call("event_query(e%zu)", number);
      if (require_ok(end_call(iobind_event_query(at->handle, &done, &the_error))) && done == 1) point_passed(at);
      break;
    case 2:
      touched = (int)stream;
      begin_call("stream_wait(S%zu, e%zu)", stream, number);
      if (!require_ok(end_call(iobind_stream_wait(W->lanes[stream].handle, at->handle, &the_error)))) break;
      for (size_t i = 0; i < STREAMS && at->stream >= 0; i++) {
        if (i != stream && at->stamps[i] > W->lanes[stream].after[i]) W->lanes[stream].after[i] = at->stamps[i];
      }
      break;
    case 3:
      if (is_bound_with((int)number)) break;
      say("event_destroy(e%zu)\n", number);
      iobind_event_destroy(at->handle);
      *at = (point){0};
      break;
    case 4: (void)world_synchronize(stream); break;
    default:
      touched = (int)stream;
      begin_call("event_record(e%zu, S%zu)", number, stream);
      if (require_ok(end_call(iobind_event_record(at->handle, W->lanes[stream].handle, &the_error)))) record_point(at, stream);
      break;
  }
  if (touched >= 0 && fault_was_set()) settle((size_t)touched);
}
