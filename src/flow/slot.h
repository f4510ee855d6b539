/* A pipeline, its slots, and the stages of a slot's item. Only this module includes this header. */
#ifndef IOBIND_FLOW_SLOT_H
#define IOBIND_FLOW_SLOT_H

#include "binding/binding.h"

enum { IOBIND__UPLOAD, IOBIND__RUN, IOBIND__DOWNLOAD, IOBIND__STAGES };

typedef struct iobind__slot {
  iobind_pipeline *pipeline;
  iobind_binding *binding;
  iobind_tensor **inputs;  /* the slot's memory for an input; NULL: a constant, or not allocated */
  iobind_tensor **staging; /* host memory that is uploaded into it; NULL: the input is on the host */
  iobind_tensor **outputs; /* the caller's results; NULL: not created yet, or not fetched */
  iobind_event *events[IOBIND__STAGES];
  bool reached[IOBIND__STAGES]; /* the event was recorded for this item */
  bool is_fresh;                /* each run allocates its outputs */
  uint64_t index;
  uint64_t submitted;
  uint64_t ends[IOBIND__STAGES];
  iobind_tensor **given;   /* the caller's tensors that the run reads; references are held; NULL: it reads the slot's memory */
  iobind__point **points;  /* their producers' points, for which the run waits; references are held */
  iobind__flight flight;   /* runs that a worker has yet to make: the binding's own flight begins only in that thread */
  iobind__holder *holders; /* with that flight, for inputs that are not the slot's memory */
  void *tag;
  /* the item's outcome; the stages write it one after the other */
  iobind_status status;
  iobind_error error;
} iobind__slot;

struct iobind_pipeline {
  iobind_session *session; /* a reference is held */
  iobind_stream *streams[IOBIND__STAGES];
  bool *streamed;      /* by input: each item has its own; otherwise it is a constant */
  int32_t *placements; /* by output: iobind_placement; NONE if it is not a tensor */
  iobind__slot *slots;
  size_t slot_count;
  uint32_t flags;
  uint64_t submitted;
  uint64_t pulled;
  atomic_uint_least64_t failed; /* the index of the first item that failed; UINT64_MAX: none */
  pthread_mutex_t mutex;        /* protects `stamps`, and with TIMES the slots' `ends` */
  pthread_cond_t stamped;
  size_t stamps; /* tasks that have yet to record the end of a stage */
};

static inline bool iobind__pipeline_wants(const iobind_pipeline *pipeline, size_t output) {
  return pipeline->placements[output] != IOBIND_PLACE_NONE;
}

/* ---- slot.c: the memory of an item ---- */

/* The slot must be zeroed. After a failure it must be freed. */
iobind_status iobind__slot_make(iobind_pipeline *pipeline, iobind__slot *self, const iobind_pipeline_options *options,
                                const iobind_run_options *run_options, iobind_device *device, iobind_error *error);
void iobind__slot_free(iobind__slot *self);

/* Bind the item's inputs, and copy its data into the slot. A tensor in device memory is not copied: the run reads it. */
iobind_status iobind__slot_bring(iobind__slot *self, const iobind_pipeline_request *of, const char *what, iobind_error *error);

/* A worker will make the item's run: other bindings' runs with the same memory must check. */
void iobind__slot_meet(const iobind__slot *self);

/* Release the caller's tensors. */
void iobind__slot_let_go(iobind__slot *self);

/* Give up output tensors of the slot's last item that the caller has retained, because they must not change. */
void iobind__slot_leave_kept(iobind__slot *self);

/* Set the tensor that the caller gets for an output. *source: the run's output, to be copied into it; NULL: the caller gets the
 * run's output itself. */
iobind_status iobind__slot_find_output(iobind__slot *self, size_t index, const iobind_tensor **source, iobind_error *error);

/* ---- stage.c: the stages of an item ---- */

/* Start the item's stages. A failure is recorded in the item. */
void iobind__stages_start(iobind__slot *self);

/* Block until all stages of the item have ended. False: timed out, or the wait itself failed; then nothing has changed. */
bool iobind__stages_await(iobind__slot *self, uint64_t until, iobind_error *error);

#endif
