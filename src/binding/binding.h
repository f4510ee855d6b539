/* A session's inputs and outputs, bound to memory. Our own table is the truth; ORT's binding is brought in line with it
 * before a run, so that a bind that ORT refuses cannot poison the next one. With double-buffered states there are two of ORT's
 * bindings, its sides, which take turns: what the one reads the other one writes, and nothing has to be bound anew. */
#ifndef IOBIND_BINDING_BINDING_H
#define IOBIND_BINDING_BINDING_H

#include "session/session.h"

/* A set of sides: those that are not in line with the table. */
typedef unsigned char iobind__sides;
enum { IOBIND__BOTH_SIDES = 3 };

typedef struct iobind__input_slot {
  iobind_input_mode mode;
  iobind_tensor *bound;  /* what ORT reads; NULL: not set. A reference is held, as on the next */
  iobind_tensor *source; /* LIVE where the tensor lives elsewhere: copied into `bound` before each run */
  iobind_event *event;   /* a reference is held */
  iobind__sides changed; /* ORT's binding does not have `bound` yet */
  bool torn;             /* a state carried in place, which a run that failed may have written in part */
} iobind__input_slot;

typedef struct iobind__output_slot {
  iobind_output_mode mode;
  iobind__place *place;  /* FRESH, REUSE: where it goes */
  iobind_tensor *tensor; /* FIXED, IN_PLACE: the target */
  OrtValue *value;       /* fetched from ORT since the last run, not yet a tensor's */
  iobind_tensor *result; /* the value as a tensor */
  bool taken;            /* the caller has it */
  iobind__sides renew;   /* REUSE: new memory for the next run */
  bool same_dims;        /* REUSE: the model fixes them, and they came out so: other dims of an input do not change them */
  bool passed_through;   /* ORT hands an input's memory out as this output: to be copied after each run */
} iobind__output_slot;

/* The run state, for the busy check and for cancelling from another thread. */
enum { IOBIND__IDLE, IOBIND__RUNNING, IOBIND__CANCELLING, IOBIND__CANCELLED };

/* A run on a stream that the host has not waited for yet. */
typedef struct iobind__flight {
  iobind_stream *stream; /* a reference is held; NULL: none */
  iobind__ticket ticket;
} iobind__flight;

/* An output that becomes an input. */
typedef struct iobind__carry {
  size_t output;
  size_t input;
  iobind_carry_mode mode;
  bool due;                  /* a run has finished since the input was bound: the output is the next state */
  iobind_tensor *buffers[2]; /* SWAP: what each side writes; references are held */
  iobind__sides settled;     /* SWAP: sides that read the other one's buffer */
} iobind__carry;

struct iobind_binding {
  iobind__ref ref;
  iobind_session *session; /* a reference is held */
  OrtIoBinding *binding;   /* the side whose turn it is */
  OrtIoBinding *sides[2];  /* the second one: NULL until it is needed */
  iobind__sides side;      /* 1 << the index of that side */
  OrtRunOptions *run_options;
  OrtRunOptions *stream_run_options; /* the same, for runs on an EP's stream */
  atomic_int state;
  iobind__flight flight;         /* the owner's thread alone looks at it */
  iobind_error failure;          /* of the last run on a worker's stream */
  bool checked;                  /* complete, and nothing changed since */
  bool verified;                 /* a run has shown where the outputs land, and none was bound anew since */
  iobind__sides inputs_changed;  /* some slot has `changed` */
  iobind__sides outputs_changed; /* ORT's list of outputs must be made anew */
  iobind__sides reshaped;        /* an input's dims changed since the last run */
  bool has_live;                 /* some input is LIVE with a source, or has an event */
  bool has_fresh;                /* some output must be bound anew before each run */
  iobind__sides renew;           /* some REUSE output must be bound anew before the next run */
  bool has_passed_through;
  bool holds_outputs; /* ORT's binding holds outputs of the last run */
  bool has_results;   /* a run has finished and its outputs can be fetched */
  bool fetched;       /* slots hold values or results */
  iobind__output_slot *outputs;
  iobind__carry *carries;
  size_t carry_count;
  size_t *order; /* outputs in the order of ORT's binding */
  size_t order_count;
  int64_t *symbol_values; /* for the check of symbolic dims */
  size_t *symbol_owners;
  iobind__input_slot inputs[];
};

/* INVALID_STATE while a run is under way: of another thread, or on a stream that the host has not seen pass. */
iobind_status iobind__binding_check_idle(iobind_binding *binding, const char *what, iobind_error *error);

/* Borrow an output of a run that may be under way on an EP's stream still: for work that is ordered behind it. */
iobind_status iobind__binding_peek(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error);

/* The last run has failed after all: nothing of it can be fetched or carried on. */
void iobind__binding_lose(iobind_binding *binding);

/* Wait for a run that is under way on a stream. */
iobind_status iobind__binding_land(iobind_binding *binding, iobind_error *error);

/* input.c: a tensor where the session wants an input. */
iobind_status iobind__input_make(const iobind_binding *binding, size_t index, const iobind_tensor *like, iobind_tensor **tensor,
                                 iobind_error *error);

/* output.c */
bool iobind__output_is_given(iobind_output_mode mode); /* FIXED or IN_PLACE */
void iobind__outputs_changed(iobind_binding *binding);
void iobind__output_reset(iobind_binding *binding, size_t index);

/* A REUSE output gets new memory for the next run. */
void iobind__output_renew(iobind_binding *binding, size_t index);

/* A tensor becomes an input: a REUSE output that holds its memory gets new memory for the next run. */
iobind_status iobind__outputs_make_room(iobind_binding *binding, const iobind_tensor *input, iobind_error *error);

/* results.c: what the last run left. */
void iobind__results_drop(iobind_binding *binding);
iobind_status iobind__results_fetch(iobind_binding *binding, iobind_error *error);
iobind_status iobind__result_overlaps(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, bool *overlaps,
                                      iobind_error *error);
/* Did all outputs land where they were asked for, and which are passed through? *settled: later runs need not be looked at; an
 * output of 0 bytes does not show where its memory is. */
iobind_status iobind__results_verify(iobind_binding *binding, bool *settled, iobind_error *error);
iobind_status iobind__results_copy_passed_through(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* carry.c */
/* The states that the last run left become the inputs of the next one. */
iobind_status iobind__carry_advance(iobind_binding *binding, iobind_error *error);
/* A run has finished: its carried outputs are the next states. */
void iobind__carry_note(iobind_binding *binding);
/* A run has failed that may have begun: what it writes in place is not to be gone on from. */
void iobind__carry_tear(iobind_binding *binding);
/* Memory for the states that the next run writes, where the mode has memory of its own. */
iobind_status iobind__carry_prepare(iobind_binding *binding, iobind_error *error);
/* The carry of an input or output; NULL: none. */
iobind__carry *iobind__carry_of_input(const iobind_binding *binding, size_t input);
iobind__carry *iobind__carry_of_output(const iobind_binding *binding, size_t output);
/* The caller has the memory of an output. */
void iobind__carry_take(iobind_binding *binding, iobind__carry *carry);
void iobind__carry_end(iobind_binding *binding, size_t output);

#endif
