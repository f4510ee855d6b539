/* A model on its devices. */
#ifndef IOBIND_SESSION_SESSION_H
#define IOBIND_SESSION_SESSION_H

#include "memory/driver.h"
#include "session/model.h"
#include "session/registry.h"
#include "tensor/tensor.h"

/* An input or output as the model declares it. */
typedef struct iobind__value {
  char *name;
  char *label; /* the name as messages have it, shortened; `name` itself if that is short */
  iobind_value_kind kind;
  iobind_dtype dtype;
  bool has_shape;
  size_t rank;
  int64_t *dims;        /* -1: open */
  const char **symbols; /* one for each dim; "" if it has none; the session owns the strings */
  int *symbol_ids;      /* the same name has the same number in the whole session; -1: none */
  bool repeats_symbol;  /* two dims have the same name */
  iobind__place *place; /* where the session wants it or leaves it */
  int handed_on; /* an output: the input that ORT hands on as it, the one of the same name; -1: a node makes it, or a constant is it */
} iobind__value;

/* What a model says of itself by a key of its own. */
typedef struct iobind__entry {
  char *key;
  char *value;
} iobind__entry;

/* Where runs compute, and how a run can be on a stream of a device. */
typedef enum iobind__compute_way {
  IOBIND__COMPUTE_IN_CALL,   /* a run is on no stream: its work is done when ORT's call returns */
  IOBIND__COMPUTE_BY_RUN,    /* each run gives the EP its stream */
  IOBIND__COMPUTE_BY_OPTION, /* the EP was given a stream by an option, and all runs compute there */
  IOBIND__COMPUTE_ON_QUEUE   /* on the one queue of the device, whose streams are entered and left around a run */
} iobind__compute_way;

typedef struct iobind__compute {
  iobind__compute_way way;
  iobind_stream *stream; /* that all runs compute on, of which the session is an owner; NULL: the run's, or one of ORT's */
} iobind__compute;

struct iobind_session {
  iobind__ref ref;
  iobind_runtime *runtime; /* a reference is held */
  OrtSession *session;
  bool wrapped; /* other code's session: passed to `deleter` at the end, never released */
  iobind_deleter deleter;
  void *deleter_context;
  iobind__model *model; /* what it was loaded from; NULL: not known */
  bool profiling;
  char *profile;          /* the file of a profile that has ended; ORT owns the string */
  char *texts[4];         /* producer, graph name, domain, description */
  iobind__entry *entries; /* sorted by key */
  size_t entry_count;
  int64_t model_version;
  int64_t opset;
  iobind__value *inputs;
  size_t input_count;
  iobind__value *outputs;
  size_t output_count;
  const char **input_names;  /* as ORT's run takes them */
  const char **output_names; /* of the outputs that are tensors */
  size_t tensor_output_count;
  OrtRunOptions *run_options; /* default options for runs without a binding: if given none, ORT allocates them in each run */
  char **symbols;             /* the distinct ones */
  size_t symbol_count;
  iobind_device **devices; /* those that may hold its tensors; always includes the CPU */
  size_t device_count;
  iobind_device *queued;          /* a device whose runs return before their work is done; NULL: none */
  size_t queued_count;            /* if there are several, a run waits for all of them, with a stream or without */
  iobind__attachment *attachment; /* to the device whose driver must know the session; NULL: none */
  iobind__compute compute;
  const iobind__guard *guard;  /* around its runs, and what may not meet one; NULL: nothing is needed */
  const iobind__guard *inside; /* around other calls that reach its EPs: the same without a turn */
  iobind__guard guards[2];     /* these two */
  iobind__place *places;       /* the session's own: memory that no device of the runtime has */
  size_t place_count;
  pthread_mutex_t places_mutex; /* a run may meet memory that the signature did not show */
  iobind_node_info *nodes;
  size_t node_count;
  size_t device_node_count; /* those of them that ORT's CPU EP does not run */
  bool outputs_guessed;     /* some output comes from no node, and ORT does not say which */
  iobind__registry graphs;  /* that its bindings have captured */
  iobind__turn turn;        /* see iobind__session_enter */
};

/* Would ORT capture a graph, or replay one, in a run that names none? In other sessions the number would only cost time. */
static inline bool iobind__session_may_capture(const iobind_session *session) {
  return session->graphs.limit > 0 || session->wrapped;
}

/* Does the session capture graphs, and has the EP that captures them this quirk? */
static inline bool iobind__session_graphs_have(const iobind_session *session, iobind__quirk_bit quirk) {
  return session->graphs.device != NULL && iobind__device_has(session->graphs.device, quirk);
}

/* The run config entry that says which graph a run captures or replays, and its value for none. */
#define IOBIND__GRAPH_ID "gpu_graph_id"
#define IOBIND__NO_GRAPH "-1"

/* ---- options.c ---- */

iobind_status iobind__session_options_check(iobind_runtime *runtime, const iobind_session_options *options,
                                            iobind_error *error);
/* With a device besides the CPU: its EP may take no node, silently. Not if it captures graphs, which nodes on the CPU stand in the way of: the
 * record costs each run some instructions of ORT's. */
bool iobind__session_lists_nodes(const iobind_session_options *options);
/* Translate our options, which were checked, into ORT's. */
iobind_status iobind__session_options_build(iobind_runtime *runtime, const iobind_session_options *options,
                                            OrtSessionOptions **out, iobind_error *error);

/* ---- session.c ---- */

/* A session of nothing yet; NULL: out of memory. */
iobind_session *iobind__session_allocate(iobind_runtime *runtime);

/* ---- devices.c ---- */

/* Which devices may hold the session's tensors: those that it was given, or that ORT chose, by its inputs and outputs. */
iobind_status iobind__session_collect_devices(iobind_session *session, const iobind_session_options *options,
                                              iobind_error *error);
void iobind__session_add_devices(iobind_session *session);

/* What a call into its EPs must hold: by the devices that it was given, or, if others choose its EPs (a policy, or the program that has made a
 * wrapped session), by all. */
void iobind__session_guard(iobind_session *session, const iobind_session_options *options);
void iobind__session_guard_all(iobind_session *session);

/* To a device whose driver must know the session. Only a session that iobind has made computes on the queue of such a device: another one's work
 * would not be in the order of its streams. */
iobind_status iobind__session_attach(iobind_session *session, const iobind_session_options *options, iobind_error *error);

/* ---- nodes.c ---- */

iobind_status iobind__session_read_nodes(iobind_session *session, iobind_error *error);
bool iobind__node_is_on_cpu(const iobind_node_info *node);

/* A line in the log if no node runs on the first device. */
void iobind__session_warn_of_idle_device(const iobind_session *session, const iobind_session_options *options);

/* ---- compute.c ---- */

/* The caller's stream, or one for an EP that needs it; NULL: neither. The session is an owner of it. */
iobind_status iobind__session_open_stream(const iobind_session_options *options, iobind_stream **stream, iobind_error *error);

/* A stream among the options of an EP that takes whatever it is given: one of another GPU would fail in the first run. */
iobind_status iobind__session_check_user_streams(const iobind_session_options *options, iobind_error *error);

/* `stream` is the session's, or NULL. */
void iobind__compute_open(iobind_session *session, iobind_stream *stream);

/* By the session's inputs and devices. */
void iobind__compute_choose(iobind_session *session);

static inline bool iobind__compute_takes_stream(const iobind_session *session) {
  return session->compute.way != IOBIND__COMPUTE_IN_CALL;
}

/* What a run on `stream` computes on. */
static inline iobind_stream *iobind__compute_target(const iobind_session *session, iobind_stream *stream) {
  return session->compute.stream != NULL ? session->compute.stream : stream;
}

/* The session's stream, if the EP must be given it with each run; NULL otherwise. */
static inline iobind_stream *iobind__compute_given(const iobind_session *session) {
  return session->compute.way == IOBIND__COMPUTE_BY_RUN ? session->compute.stream : NULL;
}

/* Before a run that is on no stream: order it after all work submitted to the session's. */
iobind_status iobind__compute_await(const iobind_session *session, iobind_error *error);

/* Around what ORT submits for a run on `stream`: order it after all work submitted to the stream, and before the stream's later work. `computed`
 * is what is submitted to the stream that the run computes on, and `status` is the run's. */
iobind_status iobind__compute_begin(const iobind_session *session, iobind_stream *stream, OrtRunOptions *options,
                                    iobind_error *error);
iobind_status iobind__compute_end(const iobind_session *session, iobind_stream *stream, const iobind__submission *computed,
                                  iobind_status status, iobind_error *error);

/* ---- ep_options.c ---- */

/* The devices' EPs, each with its options, into ORT's session options. */
iobind_status iobind__session_append_eps(iobind_runtime *runtime, const iobind_session_options *options, OrtSessionOptions *out,
                                         iobind_error *error);

/* ---- dims.c ---- */

/* NOT_FOUND if an override names a dim that the model does not have, which ORT would ignore. */
iobind_status iobind__session_check_dims(const iobind_session_options *options, const char *path, const void *model,
                                         size_t bytes, iobind_error *error);

/* ---- graph.c ---- */

/* Can this session capture graphs? *device gets the one that does, NULL if none is asked for. */
iobind_status iobind__session_check_graph(const iobind_runtime *runtime, const iobind_session_options *options,
                                          const char *path, const void *bytes, size_t size, iobind_device **device,
                                          iobind_error *error);

/* The same when the session is made: what its outputs tell. */
iobind_status iobind__session_check_graph_outputs(const iobind_session *session, iobind_error *error);

/* Graphs that iobind does not know of would be replayed whatever is bound: their keys are refused. `what` says whose key it is. */
iobind_status iobind__session_check_graph_key(const char *what, const char *key, iobind_error *error);

/* ---- capturable.c ---- */

/* NOT_SUPPORTED if the model has something that a replay does not repeat. */
iobind_status iobind__model_check_capturable(const char *path, const void *bytes, size_t size, iobind_error *error);

/* ---- the turn of a session ---- */

static inline bool iobind__session_runs_alone(const iobind_session *session) {
  return session->graphs.limit > 0 || session->compute.stream != NULL;
}

/* One run at a time of a session that captures graphs, or that computes on a stream of its own: CUDA's EP has one cuBLAS handle for that.
 * Nothing for any other session. What is done in a turn enters `inside`; `guard` does both. */
static inline void iobind__session_enter(iobind_session *session) {
  if (iobind__session_runs_alone(session)) {
    iobind__turn_take(&session->turn);
  }
}

/* The same without waiting; false: another run has the turn. */
static inline bool iobind__session_try_enter(iobind_session *session) {
  return !iobind__session_runs_alone(session) || iobind__turn_try(&session->turn);
}

static inline void iobind__session_leave(iobind_session *session) {
  if (iobind__session_runs_alone(session)) {
    iobind__turn_give(&session->turn);
  }
}

/* ---- run_options.c: of runs with a binding and without. `what` names the call ---- */

/* ORT's run config entry that makes a run return before its work is done. */
#define IOBIND__UNSYNCHRONIZED "disable_synchronize_execution_providers"

bool iobind__run_options_want_no_graph(const iobind_run_options *options);
iobind_status iobind__run_options_read(const iobind_session *session, const iobind_run_options *given, const char *what,
                                       iobind_run_options *out, iobind_error *error);
/* `graph`: the number of a graph; NULL: none. */
iobind_status iobind__run_options_translate(const OrtApi *api, const iobind_run_options *options, const char *graph,
                                            const char *what, OrtRunOptions **out, iobind_error *error);

/* ---- metadata.c: what the model says of itself ---- */

/* A copy of a text that ORT has allocated, which ORT gets back. `what` is for the message. */
iobind_status iobind__session_take_text(const iobind_session *session, char *text, char **out, const char *what,
                                        iobind_error *error);
iobind_status iobind__session_read_metadata(iobind_session *session, iobind_error *error);
void iobind__session_free_metadata(iobind_session *session);

/* ---- signature.c: names, types, shapes and places of inputs and outputs ---- */

iobind_status iobind__session_read_signature(iobind_session *session, iobind_error *error);
void iobind__session_free_signature(iobind_session *session);

/* ---- place.c ---- */

/* The place of a memory info of this session: a device's, or, if no device has that memory, one that the session
 * lends. */
iobind_status iobind__session_find_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                         iobind_error *error);

/* A place over the session's own allocator. */
iobind_status iobind__session_lend_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                         iobind_error *error);
void iobind__session_free_places(iobind_session *session);

/* Can the session read the tensor as this input where it is? Host memory it can read wherever that is. */
bool iobind__session_reads(const iobind_session *session, const iobind__value *input, const iobind_tensor *tensor);

/* WRONG_DEVICE: an input's tensor is neither on the host nor where the session reads it. */
iobind_status iobind__refuse_elsewhere(const iobind_session *session, size_t input, const iobind_tensor *tensor,
                                       const char *what, iobind_error *error);

/* The iobind_placement of an output; NONE for what is not a tensor. `placements` may be NULL: all to the host. */
static inline int32_t iobind__placement_of(const iobind_session *session, const int32_t *placements, size_t output) {
  bool is_tensor = session->outputs[output].kind == IOBIND_VALUE_TENSOR;
  return !is_tensor ? IOBIND_PLACE_NONE : placements == NULL ? IOBIND_PLACE_HOST : placements[output];
}
iobind_status iobind__placements_check(const iobind_session *session, const int32_t *placements, const char *what,
                                       iobind_error *error);

bool iobind__session_has_device(const iobind_session *session, const iobind_device *device);

/* ---- signature.c: does a tensor fit? ---- */

/* Are dims of the tensor with the same name equal? */
bool iobind__value_symbols_agree(const iobind__value *value, const iobind_tensor *tensor);
iobind_status iobind__value_refuse(const iobind__value *value, const iobind_tensor *tensor, const char *what,
                                   iobind_error *error);

/* Does a tensor fit an input or output? The message begins with `what` and the value's name. */
static inline iobind_status iobind__value_accepts(const iobind__value *value, const iobind_tensor *tensor, const char *what,
                                                  iobind_error *error) {
  bool fits =
      value->kind == IOBIND_VALUE_TENSOR && tensor->dtype == value->dtype && (!value->has_shape || tensor->rank == value->rank);
  for (size_t i = 0; fits && i < value->rank; i++) {
    fits = value->dims[i] < 0 || value->dims[i] == tensor->dims[i];
  }
  fits = fits && (!value->repeats_symbol || iobind__value_symbols_agree(value, tensor));
  return fits ? IOBIND_OK : iobind__value_refuse(value, tensor, what, error);
}

/* ---- run.c ---- */

/* Run without a binding: all inputs, as many as the session has, and all outputs on the host. */
iobind_status iobind__session_run(iobind_session *session, iobind_tensor *const *inputs, iobind_tensor **outputs,
                                  iobind_error *error);

#endif
