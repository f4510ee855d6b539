/* A pipeline, its slots, and the stages that the item of a slot goes through. Only this module includes this header. */
#ifndef IOBIND_FLOW_SLOT_H
#define IOBIND_FLOW_SLOT_H

#include "binding/binding.h"

enum { IOBIND__UPLOAD, IOBIND__RUN, IOBIND__DOWNLOAD, IOBIND__STAGES };

typedef struct iobind__slot {
  iobind_pipeline *pipeline;
  iobind_binding *binding;
  iobind_tensor **inputs;  /* the slot's memory; NULL: a constant, or not allocated */
  iobind_tensor **staging; /* host memory that is uploaded into it; NULL: the input is on the host itself */
  iobind_tensor **outputs; /* what the caller gets; NULL: not made yet, or not wanted */
  iobind_event *events[IOBIND__STAGES];
  bool reached[IOBIND__STAGES]; /* the event is recorded for this item */
  bool is_fresh;                /* each run makes memory for its outputs */
  uint64_t index;
  uint64_t submitted;
  uint64_t ends[IOBIND__STAGES];
  iobind_tensor **given;   /* the caller's tensors that the item reads where they are; references are held; NULL: the slot's */
  iobind__point **points;  /* of their producers, for which the run waits; references are held */
  iobind__flight flight;   /* the items whose run a worker has yet to make: the binding's own flight begins in that thread */
  iobind__holder *holders; /* by that flight, of the inputs that are not the slot's memory */
  void *tag;
  /* the item's; written by one stage after the other */
  iobind_status status;
  iobind_error error;
} iobind__slot;

struct iobind_pipeline {
  iobind_session *session; /* a reference is held */
  iobind_stream *streams[IOBIND__STAGES];
  bool *streamed;      /* inputs that each item brings */
  int32_t *placements; /* of the outputs: iobind_placement, NONE for what is not a tensor */
  iobind__slot *slots;
  size_t slot_count;
  uint32_t flags;
  uint64_t submitted;
  uint64_t pulled;
  atomic_uint_least64_t failed; /* the first item that failed; UINT64_MAX: none */
  pthread_mutex_t mutex;        /* guards `stamps` */
  pthread_cond_t stamped;
  size_t stamps; /* threads that will still write an item's time */
};

static inline bool iobind__pipeline_wants(const iobind_pipeline *pipeline, size_t output) {
  return pipeline->placements[output] != IOBIND_PLACE_NONE;
}

/* ---- slot.c: the memory of an item ---- */

/* The slot is all zero. After a failure it can be freed. */
iobind_status iobind__slot_make(iobind_pipeline *pipeline, iobind__slot *self, const iobind_pipeline_options *options,
                                const iobind_run_options *run_options, iobind_device *device, iobind_error *error);
void iobind__slot_free(iobind__slot *self);

/* Memory for the item and its data in it. A tensor that is where the session reads it, and not on the host, is not copied. */
iobind_status iobind__slot_bring(iobind__slot *self, const iobind_pipeline_request *of, const char *what, iobind_error *error);

/* A worker is to make the item's run: other runs of the same memory look. */
void iobind__slot_meet(const iobind__slot *self);

/* The caller's tensors are the caller's again. */
void iobind__slot_let_go(iobind__slot *self);

/* Tensors that the caller has kept of the slot's last item must not change: allocate others. */
void iobind__slot_leave_kept(iobind__slot *self);

/* The tensor that the caller gets for an output of this item, and the one that is copied into it; NULL: it is the run's own. */
iobind_status iobind__slot_find_output(iobind__slot *self, size_t index, const iobind_tensor **source, iobind_error *error);

/* ---- stage.c: what happens to it ---- */

/* Start the item's stages. What fails is the item's failure. */
void iobind__stages_start(iobind__slot *self);

/* Wait until the item has passed all of its stages. False: it has not, or cannot be waited for so; then all is as before. */
bool iobind__stages_await(iobind__slot *self, uint64_t until, iobind_error *error);

#endif
