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

typedef struct Binding {
  PyObject_HEAD
  iobind_binding *handle;
  Session *session;
  struct Outputs *outputs; /* of the last run */
  PyObject *order;         /* called before each run: orders it behind the producers of its inputs; NULL: none */
  Tensor **fixed;          /* output -> the tensor that it is written into; NULL: none */
  bool *is_fresh;          /* output -> nothing overwrites what a run gives */
  bool *on_host;           /* output -> the host reads it where it goes */
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

/* Wait for a run on a stream before a call of the library does, which Ctrl-C cannot end; -1 with the exception of a signal's handler. If the
 * run failed, that call reports it. */
int binding_await_run(const Binding *self);

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
