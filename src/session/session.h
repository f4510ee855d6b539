/* A model on its devices. */
#ifndef IOBIND_SESSION_SESSION_H
#define IOBIND_SESSION_SESSION_H

#include "session/compute.h"
#include "session/model.h"
#include "session/registry.h"
#include "session/shadow.h"
#include "session/value.h"

/* A custom entry of the model's metadata. */
typedef struct iobind__entry {
  char *key;
  char *value;
} iobind__entry;

/* The owner of ORT's session. */
typedef struct iobind__lender {
  bool is_other; /* other code's: passed to the deleter at the end, never released */
  iobind_deleter deleter;
  void *context;
} iobind__lender;

/* A session of a generated model, which moves tensors of this one. */
typedef struct iobind__companion {
  struct iobind__companion *next;
  iobind_session *session;
  char key[]; /* what the model does */
} iobind__companion;

/* The model's metadata. */
typedef struct iobind__metadata {
  char *texts[4];         /* producer, graph name, domain, description */
  iobind__entry *entries; /* sorted by key */
  size_t entry_count;
  int64_t model_version;
  int64_t opset;
} iobind__metadata;

struct iobind_session {
  iobind__ref ref;            /* of the caller, bindings, states, batches, and tensors in memory of ORT's session */
  iobind_runtime *runtime;    /* a reference is held */
  OrtSession *session;        /* ORT's */
  iobind__lender lender;      /* who owns that one */
  iobind__model *model;       /* what it was loaded from; NULL: unknown */
  bool profiling;             /* ORT records a profile */
  char *profile;              /* the file of a profile that has ended; ORT owns the string */
  iobind__metadata metadata;  /* the model's */
  iobind__value *inputs;      /* the signature, with where each is read */
  size_t input_count;         /* of those */
  iobind__value *outputs;     /* the same, with where each is left */
  size_t output_count;        /* of those */
  const char **input_names;   /* for ORT's run */
  const char **output_names;  /* of the outputs that are tensors */
  size_t tensor_output_count; /* of those */
  OrtRunOptions *run_options; /* default options for runs without a binding: if given none, ORT allocates them in each run */
  char **symbols;             /* the distinct ones */
  size_t symbol_count;        /* of those */
  iobind_device **devices;    /* those that may hold its tensors; always includes the CPU */
  size_t device_count;        /* of those */
  bool is_plain;              /* inputs and outputs are in the CPU's default memory, and there is no other device */
  bool has_queue;             /* a device has the quirk QUEUES: ORT's calls return before its work is complete */
  iobind__attachment *attachment; /* to the device whose driver must know the session; NULL: none */
  iobind__compute compute;        /* where its runs compute */
  const iobind__guard *guard;     /* around its runs, and calls that must not overlap one; NULL: none is needed */
  const iobind__guard *inside;    /* around other calls that reach its EPs: the same without a turn */
  iobind__guard guards[2];        /* these two */
  iobind__place *places;          /* the session's own: memory that no device of the runtime has */
  size_t place_count;             /* of those */
  pthread_mutex_t places_mutex;   /* a run may find memory that the signature did not show */
  iobind__companion *companions;  /* the mutex of the places guards the list; none leaves it before the session ends */
  iobind_node_info *nodes;        /* which EP runs which node; NULL: not recorded */
  size_t node_count;              /* of those */
  size_t device_node_count;       /* those of them that ORT's CPU EP does not run */
  bool outputs_guessed;           /* no node makes some output, and ORT does not report which */
  iobind__registry graphs;        /* that its bindings have captured */
  iobind__shadow *shadow;         /* with which runs are verified; NULL: none are */
  iobind__turn turn;              /* see iobind__session_enter */
};

/* The name of the model's graph; "" or NULL: none. */
static inline const char *iobind__session_name(const iobind_session *session) {
  enum { GRAPH_NAME = 1 };
  return session->metadata.texts[GRAPH_NAME];
}

/* Would ORT capture or replay a graph in a run that names none? In other sessions the number would only cost time. */
static inline bool iobind__session_may_capture(const iobind_session *session) {
  return session->graphs.limit > 0 || session->lender.is_other;
}

/* Does the session capture graphs, and has the EP that captures them this quirk? */
static inline bool iobind__session_graphs_have(const iobind_session *session, iobind__quirk_bit quirk) {
  return session->graphs.device != NULL && iobind__device_has(session->graphs.device, quirk);
}

/* The run config entry for the graph that a run captures or replays, and its value for none. */
#define IOBIND__GRAPH_ID "gpu_graph_id"
#define IOBIND__NO_GRAPH "-1"

/* ---- the turn of a session ---- */

static inline bool iobind__session_runs_alone(const iobind_session *session) {
  return session->graphs.limit > 0 || session->compute.stream != NULL;
}

/* Serializes the runs of a session that captures graphs, or that computes on its own stream, for which CUDA's EP has one cuBLAS handle. A no-op
 * for other sessions. Calls made in a turn enter `inside`; `guard` does both. */
static inline void iobind__session_enter(iobind_session *session) {
  if (iobind__session_runs_alone(session)) {
    iobind__turn_take(&session->turn);
  }
}

/* The same without blocking; false: another thread has the turn. */
static inline bool iobind__session_try_enter(iobind_session *session) {
  return !iobind__session_runs_alone(session) || iobind__turn_try(&session->turn);
}

static inline void iobind__session_leave(iobind_session *session) {
  if (iobind__session_runs_alone(session)) {
    iobind__turn_give(&session->turn);
  }
}

/* ---- place.c ---- */

/* The memory location for a memory info of this session: a device's, or, if no device has that memory, one that the session
 * lends. */
iobind_status iobind__session_find_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                         iobind_error *error);

/* A memory location with the session's own allocator. */
iobind_status iobind__session_lend_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                         iobind_error *error);
void iobind__session_free_places(iobind_session *session);

/* Can the session read the tensor as this input where it is? It can read all host memory. */
bool iobind__session_reads(const iobind_session *session, const iobind__value *input, const iobind_tensor *tensor);

/* WRONG_DEVICE: an input's tensor is neither on the host nor where the session reads it. */
iobind_status iobind__refuse_elsewhere(const iobind_session *session, size_t input, const iobind_tensor *tensor,
                                       const char *what, iobind_error *error);

/* The iobind_placement of an output; NONE if it is not a tensor. `placements` may be NULL: all to the host. */
static inline int32_t iobind__placement_of(const iobind_session *session, const int32_t *placements, size_t output) {
  bool is_tensor = session->outputs[output].kind == IOBIND_VALUE_TENSOR;
  return !is_tensor ? IOBIND_PLACE_NONE : placements == NULL ? IOBIND_PLACE_HOST : placements[output];
}
iobind_status iobind__placements_check(const iobind_session *session, const int32_t *placements, const char *what,
                                       iobind_error *error);

bool iobind__session_has_device(const iobind_session *session, const iobind_device *device);

/* ---- run.c ---- */

/* Run without a binding: all inputs, as many as the session has, and all outputs on the host, or none. */
iobind_status iobind__session_run(iobind_session *session, iobind_tensor *const *inputs, iobind_tensor **outputs,
                                  iobind_error *error);

/* Copy a tensor to new host memory. */
iobind_status iobind__session_copy_to_host(const iobind_session *session, const iobind_tensor *tensor, iobind_tensor **copy,
                                           iobind_error *error);

#endif
