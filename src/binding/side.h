/* A side: one of ORT's bindings, with a mirror that records what it was given. Some runs use arrays of values instead. */
#ifndef IOBIND_BINDING_SIDE_H
#define IOBIND_BINDING_SIDE_H

#include "tensor/tensor.h"

/* The serial number of an output whose memory each run chooses again. No object has it. */
#define IOBIND__MADE_ANEW UINT64_MAX

/* What an input or output of ORT's binding was given. */
typedef struct iobind__given {
  uint64_t serial;     /* of the value or of the memory, or IOBIND__MADE_ANEW; 0: nothing that the next run may use */
  iobind_tensor *kept; /* a reference, if ORT does not retain the memory; otherwise NULL */
} iobind__given;

typedef struct iobind__side {
  OrtIoBinding *binding;       /* NULL: not open */
  bool is_empty;               /* neither ORT's binding nor the mirror has anything */
  uint64_t generation;         /* of the table at the last comparison with the mirror; 0: must be compared */
  struct iobind__graph *graph; /* the graph of exactly what ORT's binding has; NULL: unknown */
  iobind__given *inputs;
  iobind__given *outputs;
} iobind__side;

iobind_status iobind__side_open(iobind_binding *binding, iobind__side *side, const char *what, iobind_error *error);
void iobind__side_close(iobind_binding *binding, iobind__side *side);

/* Clear ORT's binding, unless it is empty. */
void iobind__side_clear(iobind_binding *binding, iobind__side *side);

/* ORT's bindings hold no input any more: the next run binds all of them again. */
void iobind__sides_forget_inputs(iobind_binding *binding);

/* What ORT's binding has for the outputs is unknown: the next run binds all of them again. */
void iobind__side_forget_outputs(iobind_binding *binding, iobind__side *side);

/* Only the tensor of an input, or of a FIXED output, has changed in the table. If ORT's only binding was in line with the
 * table, bind the tensor there at once, so that it remains in line. */
iobind_status iobind__side_replace_input(iobind_binding *binding, size_t index, const char *what, iobind_error *error);
iobind_status iobind__side_replace_output(iobind_binding *binding, size_t index, const char *what, iobind_error *error);

/* Bind in ORT's binding what the mirror lacks. */
iobind_status iobind__side_compare(iobind_binding *binding, iobind__side *side, iobind_error *error);

/* Does ORT's binding have all of the table? */
bool iobind__side_holds(const iobind_binding *binding, const iobind__side *side);

/* Does ORT's binding have these two tensors? False if `output_tensor` is NULL. */
bool iobind__side_has(const iobind__side *side, size_t input, const iobind_tensor *input_tensor, size_t output,
                      const iobind_tensor *output_tensor);

/* A tensor was removed from the table. If a mirror retains it, bind the table's current tensor in ORT's binding at once, so
 * that the caller's memory is unused when the call returns. */
void iobind__sides_replace(iobind_binding *binding, const iobind_tensor *tensor);
static inline void iobind__sides_let_go(iobind_binding *binding, const iobind_tensor *tensor) {
  if (tensor != NULL && !iobind__tensor_owns_memory(tensor)) {
    iobind__sides_replace(binding, tensor);
  }
}

/* Bind the outputs that are bound again before each run: FRESH ones, and those that iobind copies. */
iobind_status iobind__side_refresh(iobind_binding *binding, iobind_error *error);

/* The call that repeats the last run, and its arguments. */
typedef struct iobind__repeat {
  OrtStatus *(ORT_CALL *run)(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding);
  OrtSession *session;
  OrtRunOptions *options;
  OrtIoBinding *binding;
  iobind_error *error; /* the caller's, for the current run */
  iobind__turn *turn;  /* of a replay */
  uint64_t thread;     /* the number of the thread that may replay it */
} iobind__repeat;

/* Arrays of values for ORT's plain run. They cost less than ORT's binding if nothing remains bound from run to run, and nothing
 * is on a device. */
typedef struct iobind__arrays {
  uint64_t generation; /* the generation of the table at the last decision whether they are used; 0: none */
  bool in_use;
  bool follow_clear; /* all was unbound since the last run, and may be again before the next one */
  size_t output_count;
  const OrtValue **inputs;
  OrtValue **outputs;
  const char **output_names;
} iobind__arrays;

/* Decide whether this run uses arrays. If so, ORT's bindings are cleared. */
iobind_status iobind__arrays_choose(iobind_binding *binding, iobind_error *error);
OrtStatus *iobind__arrays_run(iobind_binding *binding, const OrtRunOptions *options);
void iobind__arrays_free(iobind_binding *binding);

#endif
