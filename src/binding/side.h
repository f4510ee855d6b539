/* What ORT is given for a run: one of its bindings, with a mirror of what that was given, or arrays of values. */
#ifndef IOBIND_BINDING_SIDE_H
#define IOBIND_BINDING_SIDE_H

#include "tensor/tensor.h"

/* The serial number of an output whose memory each run chooses again. No object has it. */
#define IOBIND__MADE_ANEW UINT64_MAX

/* What an input or output of ORT's binding was given. */
typedef struct iobind__given {
  uint64_t
      serial; /* of the value or of the memory, or IOBIND__MADE_ANEW; 0: nothing, or something that the next run must not use */
  iobind_tensor *kept; /* a reference, if ORT's own does not keep the memory alive */
} iobind__given;

typedef struct iobind__side {
  OrtIoBinding *binding;       /* NULL: not open */
  bool is_empty;               /* neither ORT's binding nor the mirror has anything */
  uint64_t generation;         /* of the table when it was last compared with the mirror; 0: compare */
  struct iobind__graph *graph; /* of exactly what ORT's binding has, if that is known */
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
 * table, give it the tensor at once, so that it stays in line. */
iobind_status iobind__side_replace_input(iobind_binding *binding, size_t index, const char *what, iobind_error *error);
iobind_status iobind__side_replace_output(iobind_binding *binding, size_t index, const char *what, iobind_error *error);

/* Bind in ORT's binding what the mirror lacks. */
iobind_status iobind__side_compare(iobind_binding *binding, iobind__side *side, iobind_error *error);

/* Does ORT's binding have all of the table? */
bool iobind__side_holds(const iobind_binding *binding, const iobind__side *side);

/* Does ORT's binding have exactly these? `output_tensor` may be NULL, which it never has. */
bool iobind__side_has(const iobind__side *side, size_t input, const iobind_tensor *input_tensor, size_t output,
                      const iobind_tensor *output_tensor);

/* A tensor has left the table. If a mirror keeps it alive, give ORT at once what the table has instead, so that the caller's
 * memory is unused when the call returns. */
void iobind__sides_replace(iobind_binding *binding, const iobind_tensor *tensor);
static inline void iobind__sides_let_go(iobind_binding *binding, const iobind_tensor *tensor) {
  if (tensor != NULL && !iobind__tensor_owns_memory(tensor)) {
    iobind__sides_replace(binding, tensor);
  }
}

/* Bind again what is bound before each run: FRESH outputs, and those that are copied. */
iobind_status iobind__side_refresh(iobind_binding *binding, iobind_error *error);

/* The call that repeats the last run, and its arguments. */
typedef struct iobind__repeat {
  OrtStatus *(ORT_CALL *run)(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding);
  OrtSession *session;
  OrtRunOptions *options;
  OrtIoBinding *binding;
  iobind_error *error; /* the caller's, of the run that is in flight */
  iobind__turn *turn;  /* of a replay */
  uint64_t thread;     /* which may replay it */
} iobind__repeat;

/* Arrays of values are cheaper than ORT's binding if nothing stays bound from run to run, and nothing is on a device. */
typedef struct iobind__arrays {
  uint64_t generation; /* the generation of the table for which it was last decided whether they are used; 0: not yet */
  bool in_use;
  bool follow_clear; /* all was unbound since the last run, and may be before the next one */
  size_t output_count;
  const OrtValue **inputs;
  OrtValue **outputs;
  const char **output_names;
} iobind__arrays;

/* Does this run use arrays? Then ORT's bindings are emptied. */
iobind_status iobind__arrays_choose(iobind_binding *binding, iobind_error *error);
OrtStatus *iobind__arrays_run(iobind_binding *binding, const OrtRunOptions *options);
void iobind__arrays_free(iobind_binding *binding);

#endif
