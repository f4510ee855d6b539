/* A binding and the outputs of its last run, each of which knows the other. */
#ifndef IOBIND_PYTHON_BINDING_H
#define IOBIND_PYTHON_BINDING_H

#include "core.h"

struct Outputs;

struct bound {
  int32_t dtype; /* of a SNAPSHOT in host memory that new data may be copied into; 0: ask Python */
  bool on_host;
  bool is_carried; /* its dims may be others after each run */
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
  size_t bytes;
};

/* A state that an output carries, in a mode that the caller left to iobind: no result that is still referenced is overwritten. */
struct state {
  bool is_kept;      /* the output is one */
  bool is_swapped;   /* the runs write two buffers in turn, until a result is in the way */
  bool is_irregular; /* an input that was bound, or a run that failed: the next run may write the buffer of the last one */
  size_t input;
  Tensor *last; /* as the last run gave it, and the one before; NULL: nobody fetched it */
  Tensor *before;
};

typedef struct Binding {
  PyObject_HEAD
  iobind_binding *handle;
  Session *session;
  struct Outputs *outputs; /* of the last run */
  PyObject *order;         /* called before each run: orders it behind the producers of its inputs; NULL: none */
  Tensor **fixed;          /* output -> the tensor that it is written into; NULL: none */
  bool *is_fresh;          /* output -> nothing overwrites what a run gives */
  bool *on_host;           /* output -> the host reads it where it goes */
  struct state *states;    /* of the outputs */
  bool has_states;         /* any that is kept */
  Event **producers;       /* input -> the event that each run waits for; NULL: none */
  struct bound *inputs;
  int busy;
  Stream *stream; /* of the last run that was submitted to one; NULL: none was */
  bool on_stream; /* the last run was */
  Event *behind;  /* recorded behind such a run: its outputs are lent with it, and Ctrl-C ends the main thread's wait for it */
  bool is_behind; /* the last run has it */
  bool is_going;  /* no exception can be raised any more */
  bool has_producers; /* any */
  bool *is_bound;     /* output -> a run gives it */
  PyObject *names;    /* a tuple: of the outputs that a run gives */
} Binding;

typedef struct Outputs {
  PyObject_HEAD
  Binding *binding; /* NULL: another run, a change of the outputs, or the binding's own end has ended them */
  Session *session;
  PyObject *fetched; /* output's index -> Tensor */
  bool has_fetched;  /* any */
  bool is_orphan;    /* the binding's own end was it */
  PyObject *names;   /* as the binding's, from which they are while these are its own; then NULL */
} Outputs;

/* binding.c */

/* Is another thread in a call of the binding? -1 with an exception; otherwise this call is, until it sets `busy` to 0. */
int binding_enter(Binding *self);

/* A change of what the outputs are: those of the last run end only if it succeeds. Each change_begins that gives 0 needs a change_ends, or to set
 * `busy` to 0. What is freed between the two may give the GIL up; `busy` stays set until all is changed, so that another thread's call is refused
 * meanwhile. */
int change_begins(Binding *self);
PyObject *change_ends(Binding *self, iobind_status status, const iobind_error *error);

/* Wait for a run on a stream before a call of the library does, which Ctrl-C cannot end; -1 with the exception of a signal's handler. If the
 * run failed, that call reports it. */
int binding_await_run(const Binding *self);

/* Wait for a run on a stream, whatever thread this is; its failure is left to the call behind this one. -1 with the exception of a signal's
 * handler. */
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
PyObject *write_lengths(Binding *self, PyObject *arguments);

/* states.c */

int states_open(Binding *self);
void states_close(Binding *self);
int states_visit(Binding *self, visitproc visit, void *arg);

/* The output carries a state to the input from now on, in a mode that the caller left open; is_swapped: SWAP, otherwise MOVE. */
void state_begin(Binding *self, size_t output, size_t input, bool is_swapped);
void state_end(Binding *self, size_t output);

/* The output was fetched, or (NULL) taken: then no run writes its memory. */
void state_fetched(Binding *self, size_t output, Tensor *tensor);
void state_bound(Binding *self, size_t input);

/* Before a save: results that nobody references any more, which therefore need no copy. */
void states_drop_unreferenced(Binding *self);

/* Before a run: states whose next buffer has a result that is still referenced are moved from now on. -1 with an exception. */
int states_spare(Binding *self);
void states_run(Binding *self, bool succeeded);

/* Has the input a state whose results are kept? */
bool state_is_kept(const Binding *self, size_t input);
/* Is the state that the last run left for the input referenced, so that it must not be written? */
bool state_is_referenced(Binding *self, size_t input);

/* outputs.c */

PyObject *outputs_new(Binding *binding);

/* Has a caller those of the last run? */
static inline bool outputs_are_held(const Binding *self) {
  return self->outputs != NULL && Py_REFCNT((PyObject *)self->outputs) > 1;
}

/* What a caller still has of the last run is fetched before it goes, where it would stay: FRESH outputs, and all if the binding goes. Only if
 * it has them. */
void outputs_keep(Binding *self);

/* What outputs_end does where a caller has the outputs, or has fetched some. */
void outputs_drop(Binding *self);

/* The outputs of the last run are no longer the binding's. */
static inline void outputs_end(Binding *self) {
  if (self->outputs != NULL && (self->outputs->has_fetched || outputs_are_held(self))) {
    outputs_drop(self);
  }
}

/* The same, as the binding goes. */
void outputs_leave(Binding *self);

#endif
