/** @file world.h
 *  What a row's script works on: named tensors, sessions with their bindings, streams and events, on the device under test. */
#ifndef TESTS_CONFORMANCE_WORLD_H
#define TESTS_CONFORMANCE_WORLD_H

#include <iobind/iobind.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "value.h"

enum { WORLD_NAMES = 24, WORLD_SLOTS = 4, WORLD_CACHE = 256, WORLD_WORDS = 40, WORLD_TEXT = 512, WORLD_KEPT = 64 };
enum { WORLD_PIPELINES = 4, WORLD_ITEMS = 8 };

/** A step of the script, cut into words. */
typedef struct step {
  char text[WORLD_TEXT];
  char *words[WORLD_WORDS];
  size_t count;
} step;

/** A tensor by name. */
typedef struct tensor {
  char name[32];
  iobind_tensor *handle;
  value value;
  int borrowed;        /**< the binding's reference, not ours */
  uint64_t *deletions; /**< how often its deleter ran; valid as long as the row */
} tensor;

/** A loaded model. */
typedef struct session {
  char spec[256];
  iobind_session *handle;
  size_t input_count;
  size_t output_count;
  iobind_value_info inputs[WORLD_SLOTS];
  iobind_value_info outputs[WORLD_SLOTS];
  size_t users; /**< bindings of the row that work on it; the cache counts as one */
} session;

/** An input or output of a binding, as the script has set it. */
typedef struct slot {
  int32_t mode;
  int is_set;  /**< inputs: bound */
  int taken;   /**< outputs: the next run gives new memory */
  int carried; /**< outputs: becomes an input */
  size_t to;   /**< which one */
  int due;     /**< it is the next run's state: no other one was bound since the run */
  value value; /**< inputs, FIXED and IN_PLACE outputs: of the tensor; other outputs: of the last run */
  iobind_device *device;
  int32_t memory;
} slot;

/** A binding by name, with its session. */
typedef struct binding {
  char name[32];
  iobind_binding *handle;
  session *session;
  slot inputs[WORLD_SLOTS];
  slot outputs[WORLD_SLOTS];
} binding;

typedef struct named_stream {
  char name[32];
  iobind_stream *handle;
} named_stream;

typedef struct named_event {
  char name[32];
  iobind_event *handle;
} named_event;

/** A pipeline by name, and what its items were that are in flight. */
typedef struct named_pipeline {
  char name[32];
  iobind_pipeline *handle;
  session *session;
  int times;
  int is_constant[WORLD_SLOTS];
  value constants[WORLD_SLOTS];
  value items[WORLD_ITEMS][WORLD_SLOTS];
  uintptr_t tags[WORLD_ITEMS];
  int32_t places[WORLD_SLOTS]; /* iobind_placement of each output */
  uint64_t submitted;
  uint64_t pulled;
} named_pipeline;

/** A saved state by name, and what it holds: by input. */
typedef struct named_state {
  char name[32];
  iobind_state *handle;
  int holds[WORLD_SLOTS];
  size_t from[WORLD_SLOTS]; /**< the output that is carried */
  value values[WORLD_SLOTS];
} named_state;

typedef struct world {
  iobind_runtime *runtime;
  iobind_device *host;
  iobind_device *device; /**< the one under test */
  iobind_device_info info;
  uint32_t ort_minor; /**< N of ORT 1.N */
  int no_binary;      /**< the device runs no binary elementwise operators: models are built without, or left out */

  session *cache[WORLD_CACHE]; /**< sessions of the column `model`, shared by all rows */
  size_t cached;

  tensor tensors[WORLD_NAMES];
  size_t tensor_count;
  binding bindings[WORLD_NAMES];
  size_t binding_count;
  binding *current;
  named_stream streams[WORLD_NAMES];
  size_t stream_count;
  named_event events[WORLD_NAMES];
  size_t event_count;
  named_state states[WORLD_NAMES];
  size_t state_count;
  named_pipeline pipelines[WORLD_PIPELINES];
  size_t pipeline_count;
  void *kept[WORLD_KEPT]; /**< memory that is valid as long as the row */
  size_t kept_count;

  int running; /**< a run goes on in `runner` */
  pthread_t runner;
  atomic_int run_over;
  iobind_status run_status;
  iobind_error run_error;

  iobind_status expected; /**< of the step's call: OK unless the step says otherwise */
  char expected_text[128];
  int settled; /**< the step has made its call */
  iobind_error error;
  char failure[1024]; /**< why the row has failed; "" as long as it has not */
} world;

/** Note why the row fails; the first reason stays. */
void world_fail(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The error to hand to a call: filled so that world_settle sees whether a call that succeeds has touched it. */
iobind_error *world_error(world *w);

/** Compare a call's outcome with what the step expects.
 *  @param out  the object that the call was to make, or anything that is not NULL where it makes none
 *  @return 1 where the call has succeeded, as expected */
int world_settle(world *w, iobind_status status, const void *out);

/** As world_settle, for a call that must succeed whatever the step expects. */
int world_must(world *w, iobind_status status);

/** Word `index` of a step; "" and a failure where it has fewer. */
const char *world_word(world *w, const step *s, size_t index);

/** Word `index` as a number. */
int64_t world_number(world *w, const step *s, size_t index);

/** Read a memory location: host, device, pinned, input:N or output:N (where the current session wants that one).
 *  @return 1; 0 and a failure where it is none */
int world_place(world *w, const char *text, iobind_device **device, int32_t *memory);

/** Objects by name; NULL and a failure where there is none. */
tensor *world_tensor(world *w, const char *name);
iobind_stream *world_stream(world *w, const char *name);
iobind_event *world_event(world *w, const char *name);

/** A new, empty object of that name, or NULL and a failure; a tensor or binding of the same name is given up. */
tensor *world_add_tensor(world *w, const char *name);
binding *world_add_binding(world *w, const char *name, session *s);

/** Give a tensor up. */
void world_drop_tensor(tensor *t);

/** Give a state up. */
void world_drop_state(named_state *s);

/** Memory that lives until the row ends; NULL and a failure where there is none. */
void *world_keep(world *w, size_t bytes);

/** Give up what a binding knows; its session's last user destroys the session. */
void world_drop_binding(binding *b);
void world_drop_session(session *s);

/** Give a pipeline up, with what is in flight. */
void world_drop_pipeline(named_pipeline *p);

/** Load a model by its spec, which may start with words like "+strict"; see README.md. The caller owns one use of it.
 *  @param settle  1: this is the step's call, which may be expected to fail
 *  @return NULL where it did not load */
session *world_load(world *w, const char *spec, int settle);

/** The session of a spec, loaded once for all rows. */
session *world_cached_session(world *w, const char *spec);

/** Make a binding of the name, and the current one. */
void world_bind(world *w, const char *name, session *s, int settle);

/** Changes a setting of a virtual device: "fail_copy" ... Returns 0, or another number if there is no such setting. */
typedef int world_setter(int device, const char *name, const char *value);

/** What makes the device fail; NULL: it is none that can be asked to. */
world_setter *world_faults(const world *w);

/** Whether the device runs a row's models, those of its steps too. The first that it does not is written to `missing`. */
int world_runs(const world *w, const char *model, const char *steps, char missing[64]);

/** Whether the device has what the words of `needs` say; the first one that it has not is written to `missing`.
 *  @param s  NULL: as long as no session is there, all that is asked of one counts as had */
int world_has(world *w, const char *needs, const session *s, char missing[64]);

/** Empty the world for the next row; the cache stays. */
void world_clear(world *w);

/** Destroy the sessions of the cache, with the memory that they keep for their next runs. */
void world_drop_cache(world *w);

/** Empty the world and the cache. */
void world_end(world *w);

#endif
