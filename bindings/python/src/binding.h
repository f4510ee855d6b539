/* A binding and the outputs of its last run, which refer to each other. */
#ifndef IOBIND_PYTHON_BINDING_H
#define IOBIND_PYTHON_BINDING_H

#include "core.h"

struct Outputs;

struct bound {
  int32_t dtype; /* the type of a SNAPSHOT in host memory into which C code may copy new data; 0: Python does it */
  bool on_host;
  bool is_carried; /* its dims may change with each run */
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
  size_t bytes;
};

/* A state that an output carries in the default mode: no result that is still referenced is overwritten. */
struct state {
  bool is_kept;      /* the output has such a state */
  bool is_swapped;   /* SWAP, until a referenced result would be overwritten; then MOVE */
  bool is_irregular; /* an input was bound, or a run failed: the next run may write the last result's buffer */
  size_t input;
  Tensor *last; /* the results of the last run and of the one before; NULL: not fetched */
  Tensor *before;
};

typedef struct Binding {
  PyObject_HEAD
  iobind_binding *handle;
  Session *session;
  struct Outputs *outputs; /* of the last run */
  PyObject *order;         /* called before each run, to order it after the producers of its inputs; NULL: none */
  Tensor **fixed;          /* by output: the tensor that runs write; NULL: none */
  bool *is_fresh;          /* by output: no later run overwrites a result */
  bool *on_host;           /* by output: it is placed in host memory */
  struct state *states;    /* by output */
  bool has_states;         /* some output has `is_kept` */
  Event **producers;       /* by input: the event for which each run waits; NULL: none */
  struct bound *inputs;
  int busy;
  Stream *stream; /* the stream of the last run that was submitted to one; NULL: none was */
  bool on_stream; /* the last run was submitted to a stream */
  Event *
      behind; /* recorded after such a run: its outputs can be fetched before it is complete, and Ctrl-C ends the main thread's wait for it */
  bool is_behind;     /* `behind` was recorded after the last run */
  bool is_going;      /* it is being finalized: no exception can be raised */
  bool has_producers; /* any */
  bool *is_bound;     /* by output: runs return it */
  PyObject *names;    /* a tuple: the names of the outputs that runs return */
} Binding;

typedef struct Outputs {
  PyObject_HEAD
  Binding *binding; /* NULL: the outputs have ended, by another run, a change of the outputs, or the binding's end */
  Session *session;
  PyObject *fetched; /* output's index -> Tensor */
  bool has_fetched;  /* any */
  bool is_orphan;    /* they have ended with the binding */
  PyObject *names;   /* the names of outputs that have ended; NULL: the binding's names apply */
} Outputs;

/* binding.c */

/* Begin a call of the binding, which ends when it sets `busy` to 0. -1 with an exception: another thread is in a call of the
 * binding. */
int binding_enter(Binding *self);

/* Begin and end a change of the outputs. The last run's outputs end only if it succeeds. After a change_begins that returns 0,
 * call change_ends or set `busy` to 0. Freeing objects between the two may release the GIL; `busy` stays set, so that other
 * threads' calls are refused meanwhile. */
int change_begins(Binding *self);
PyObject *change_ends(Binding *self, iobind_status status, const iobind_error *error);

/* Wait for a run on a stream, before a call of the library waits in a way that Ctrl-C cannot end. -1 with the exception of a
 * signal's handler. A failure of the run is left to that call. */
int binding_await_run(const Binding *self);

/* The same on any thread. */
int binding_quiesce(const Binding *self);

/* bound_run.c, methods of bindings */
PyObject *binding_run(Binding *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names);
PyObject *binding_run_on(Binding *self, PyObject *arguments);
PyObject *binding_announce_run(Binding *self, PyObject *none);
PyObject *binding_withdraw_run(Binding *self, PyObject *none);
PyObject *binding_make_announced_run(Binding *self, PyObject *none);
PyObject *binding_cancel(Binding *self, PyObject *none);

/* saved_state.c: a method of bindings */
PyObject *reorder_states(Binding *self, PyObject *arguments);
PyObject *rewind_states(Binding *self, PyObject *number);
PyObject *name_length(Binding *self, PyObject *arguments);
PyObject *write_lengths(Binding *self, PyObject *arguments);

/* states.c */

int states_open(Binding *self);
void states_close(Binding *self);
int states_visit(Binding *self, visitproc visit, void *arg);

/* The output carries a state to the input from now on, in the default mode. is_swapped: SWAP, otherwise MOVE. */
void state_begin(Binding *self, size_t output, size_t input, bool is_swapped);
void state_end(Binding *self, size_t output);

/* The output was fetched; or taken (NULL), so that no run writes its memory. */
void state_fetched(Binding *self, size_t output, Tensor *tensor);
void state_bound(Binding *self, size_t input);

/* Before a save: drop results that are not referenced any more, so that they need no copy. */
void states_drop_unreferenced(Binding *self);

/* Before a run: change states to MOVE if their next buffer has a result that is still referenced. -1 with an exception. */
int states_spare(Binding *self);
void states_run(Binding *self, bool succeeded);

/* Does the input have a state with `is_kept`? */
bool state_is_kept(const Binding *self, size_t input);
/* Is the state that the last run left for the input referenced, so that it must not be written? */
bool state_is_referenced(Binding *self, size_t input);

/* outputs.c */

PyObject *outputs_new(Binding *binding);

/* Does a caller reference the outputs of the last run? */
static inline bool outputs_are_held(const Binding *self) {
  return self->outputs != NULL && Py_REFCNT((PyObject *)self->outputs) > 1;
}

/* If a caller references the outputs of the last run, fetch those that remain valid: FRESH ones, or all if the binding is
 * finalized. */
void outputs_keep(Binding *self);

/* outputs_end, if a caller references the outputs, or has fetched some. */
void outputs_drop(Binding *self);

/* End the outputs of the last run. */
static inline void outputs_end(Binding *self) {
  if (self->outputs != NULL && (self->outputs->has_fetched || outputs_are_held(self))) {
    outputs_drop(self);
  }
}

/* The same when the binding is finalized. */
void outputs_leave(Binding *self);

#endif
