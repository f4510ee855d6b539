#define _POSIX_C_SOURCE 200809L

#include <sched.h>
#include <stdio.h>

#include "script.h"
#include "../rig/calls.h"

/* Steps on streams and events, and on a run that goes on in a thread of its own. */

static void stream(world *w, const step *s) {
  iobind_stream *handle = (iobind_stream *)w;
  iobind_device *device = w->device;
  int32_t memory;
  if (s->count > 2 && !world_place(w, s->words[2], &device, &memory)) return;
  iobind_status status = iobind_stream_create(device, NULL, &handle, world_error(w));
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  if (!world_settle(w, status, handle)) return;
  if (w->stream_count == WORLD_NAMES) {
    world_fail(w, "script: too many streams");
    iobind_stream_destroy(handle);
    return;
  }
  named_stream *named = &w->streams[w->stream_count++];
  named->handle = handle;
  snprintf(named->name, sizeof named->name, "%s", world_word(w, s, 1));
}

static void event(world *w, const step *s) {
  iobind_event *handle = (iobind_event *)w;
  iobind_status status = iobind_event_create(w->device, &handle, world_error(w));
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  if (!world_settle(w, status, handle)) return;
  if (w->event_count == WORLD_NAMES) {
    world_fail(w, "script: too many events");
    iobind_event_destroy(handle);
    return;
  }
  named_event *named = &w->events[w->event_count++];
  named->handle = handle;
  snprintf(named->name, sizeof named->name, "%s", world_word(w, s, 1));
}

static void record(world *w, const step *s) {
  iobind_event *e = world_event(w, world_word(w, s, 1));
  iobind_stream *on = world_stream(w, world_word(w, s, 2));
  if (e != NULL && on != NULL) world_settle(w, iobind_event_record(e, on, world_error(w)), w);
}

static void await(world *w, const step *s) {
  iobind_stream *on = world_stream(w, world_word(w, s, 1));
  iobind_event *e = world_event(w, world_word(w, s, 2));
  if (e != NULL && on != NULL) world_settle(w, iobind_stream_wait(on, e, world_error(w)), w);
}

static void wait_for(world *w, const step *s) {
  iobind_event *e = world_event(w, world_word(w, s, 1));
  if (e != NULL) world_settle(w, iobind_event_wait(e, IOBIND_NO_TIMEOUT, world_error(w)), w);
}

static void query(world *w, const step *s) {
  iobind_event *e = world_event(w, world_word(w, s, 1));
  int32_t done = -1;
  if (e == NULL || !world_settle(w, iobind_event_query(e, &done, world_error(w)), w)) return;
  if (done != (int32_t)world_number(w, s, 2)) world_fail(w, "expected done %s, got %d", s->words[2], done);
}

static void sync(world *w, const step *s) {
  iobind_stream *on = world_stream(w, world_word(w, s, 1));
  if (on != NULL) world_settle(w, iobind_stream_synchronize(on, world_error(w)), w);
}

/* ---- a run in a thread ---- */

static void *run_in_thread(void *context) {
  world *w = context;
  iobind_error fresh = IOBIND_ERROR_INIT;
  w->run_error = fresh;
  w->run_status = iobind_binding_run(w->current->handle, NULL, &w->run_error);
  atomic_store(&w->run_over, 1);
  return NULL;
}

/* Starts a run and returns when it is seen to go on. It is seen by a call that could do nothing anyway: a binding is for one
 * thread at a time, and a mode that there is not is refused before anything of the binding is touched. */
static void start(world *w, const step *s) {
  enum { NO_MODE = 99 };
  iobind_status status = IOBIND_OK;
  (void)s;
  if (w->current == NULL) {
    world_fail(w, "script: there is no session");
    return;
  }
  atomic_store(&w->run_over, 0);
  if (pthread_create(&w->runner, NULL, run_in_thread, w) != 0) {
    world_fail(w, "no thread");
    return;
  }
  w->running = 1;
  while (status != IOBIND_ERROR_INVALID_STATE && !atomic_load(&w->run_over)) {
    sched_yield();
    status =
        call_binding_set_output(w->current->handle, 0, (iobind_output_mode)NO_MODE, NULL, IOBIND_MEMORY_DEFAULT, NULL, NULL);
  }
  if (status != IOBIND_ERROR_INVALID_STATE) world_fail(w, "the run was over before it was seen");
}

static void cancel(world *w, const step *s) {
  (void)s;
  if (w->current != NULL) world_settle(w, iobind_binding_cancel(w->current->handle, world_error(w)), w);
}

/* Waits for the run's end; what it returned is what the step expects. */
static void join(world *w, const step *s) {
  (void)s;
  if (!w->running) {
    world_fail(w, "script: nothing runs");
    return;
  }
  pthread_join(w->runner, NULL);
  w->running = 0;
  world_error(w);
  if (w->run_status != IOBIND_OK) w->error = w->run_error;
  world_settle(w, w->run_status, w);
}

const keyword stream_keywords[] = {
    {"stream", stream}, {"event", event}, {"record", record}, {"await", await}, {"wait", wait_for}, {"query", query},
    {"sync", sync},     {"start", start}, {"cancel", cancel}, {"join", join},   {NULL, NULL},
};
