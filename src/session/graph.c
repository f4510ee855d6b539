/* Sessions that capture graphs: which models can be replayed, and what the EP calls it. A replay launches what the capture launched, in the
 * same memory and with the same dims, and nothing that the host computed meanwhile. ORT refuses some of what cannot work, with a name
 * of no node; the rest would be wrong without an error. So the model is looked at before the session is made. */
#include <stdlib.h>
#include <string.h>

#include "session/protobuf.h"
#include "session/session.h"

enum { NAME = 64 };

typedef struct node {
  char name[NAME];
  char op[NAME];
  size_t inputs;     /* as listed, the last ones may be left out */
  bool has_training; /* Dropout's third input is there */
} node;

typedef struct rule {
  const char *op;
  const char *why;
} rule;

static const char by_data[] = "the size of its output depends on the data";
static const char by_seed[] = "a replay would repeat the numbers of the capture";
static const char by_branch[] = "control flow is not captured";
static const rule rules[] = {
    {"If", by_branch},
    {"Loop", by_branch},
    {"Scan", by_branch},
    {"SequenceMap", by_branch},
    {"BeamSearch", by_branch},
    {"GreedySearch", by_branch},
    {"Sampling", by_branch},
    {"WhisperBeamSearch", by_branch},
    {"NonZero", by_data},
    {"Unique", by_data},
    {"Compress", by_data},
    {"NonMaxSuppression", by_data},
    {"RandomNormal", by_seed},
    {"RandomNormalLike", by_seed},
    {"RandomUniform", by_seed},
    {"RandomUniformLike", by_seed},
    {"Multinomial", by_seed},
    {"Bernoulli", by_seed},
    {"BiasDropout", by_seed},
    {"BitmaskDropout", by_seed},
    {"BitmaskBiasDropout", by_seed},
    {"BiasSoftmaxDropout", by_seed},
};

static const char *why_not(const node *self) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (strcmp(self->op, rules[i].op) == 0) {
      return rules[i].why;
    }
  }
  return strcmp(self->op, "Dropout") == 0 && self->has_training ? by_seed : NULL;
}

static void read_node(iobind__model_bytes *model, const iobind__field *from, node *self) {
  uint64_t offset = from->offset;
  iobind__field field;
  *self = (node){0};
  while (iobind__model_next(model, &offset, from->offset + from->length, &field)) {
    if (field.number == 1) {
      self->inputs++;
      self->has_training = self->has_training || (self->inputs == 3 && field.length > 0);
    } else if (field.number == 3) {
      (void)iobind__model_text(model, &field, self->name, sizeof self->name);
    } else if (field.number == 4) {
      (void)iobind__model_text(model, &field, self->op, sizeof self->op);
    }
  }
}

/* Is an input or output of the graph a tensor? What has no type is left to ORT. */
static bool is_tensor(iobind__model_bytes *model, const iobind__field *value, char name[NAME]) {
  enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1 };
  uint64_t offset = value->offset;
  iobind__field field;
  bool is = true;
  while (iobind__model_next(model, &offset, value->offset + value->length, &field)) {
    uint64_t inner = field.offset;
    iobind__field type;
    if (field.number == VALUE_NAME) {
      (void)iobind__model_text(model, &field, name, NAME);
    }
    while (field.number == VALUE_TYPE && iobind__model_next(model, &inner, field.offset + field.length, &type)) {
      is = is && (!type.is_message || type.number == TYPE_TENSOR || type.number == 6); /* 6: a denotation */
    }
  }
  return is;
}

/* The nodes of a graph or of a function, whose field `nodes` they are; inputs and outputs where it is a graph. */
static iobind_status check_body(iobind__model_bytes *model, const iobind__field *body, uint64_t nodes, iobind_error *error) {
  enum { GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_NODE = 1 };
  uint64_t offset = body->offset;
  iobind__field field;
  while (iobind__model_next(model, &offset, body->offset + body->length, &field)) {
    node one;
    char name[NAME] = "";
    if (field.number == nodes) {
      read_node(model, &field, &one);
      const char *why = model->sound ? why_not(&one) : NULL;
      if (why != NULL) {
        return iobind__fail(error, IOBIND_NOT_SUPPORTED,
                            "session_create: graph_limit: node '%s' (%s) cannot be in a captured graph: %s", one.name, one.op,
                            why);
      }
    } else if (nodes == GRAPH_NODE && (field.number == GRAPH_INPUT || field.number == GRAPH_OUTPUT) &&
               !is_tensor(model, &field, name) && model->sound) {
      return iobind__fail(error, IOBIND_NOT_SUPPORTED,
                          "session_create: graph_limit: '%s' is not a tensor: a captured graph has only tensors", name);
    }
  }
  return IOBIND_OK;
}

/* What is not protobuf at all is left to ORT. */
static iobind_status check_model(iobind__model_bytes *model, iobind_error *error) {
  enum { MODEL_GRAPH = 7, MODEL_FUNCTION = 25, GRAPH_NODE = 1, FUNCTION_NODE = 7 };
  uint64_t offset = 0;
  iobind__field field;
  if (iobind__model_is_ort_format(model)) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED,
                        "session_create: graph_limit: expected an ONNX file, whose operators can be read, got one of ORT's own "
                        "format");
  }
  while (iobind__model_next(model, &offset, model->size, &field)) {
    if (field.number == MODEL_GRAPH || field.number == MODEL_FUNCTION) {
      IOBIND__TRY(check_body(model, &field, field.number == MODEL_GRAPH ? GRAPH_NODE : FUNCTION_NODE, error));
    }
  }
  return IOBIND_OK;
}

/* The one device besides the CPU, if its EP captures graphs and this ORT lets it. */
static iobind_status find_device(const iobind_runtime *runtime, const iobind_session_options *options, iobind_device **out,
                                 iobind_error *error) {
  iobind_device *device = NULL;
  size_t count = 0;
  for (size_t i = 0; options->devices != NULL && i < options->device_count; i++) {
    if (options->devices[i] != NULL && options->devices[i] != runtime->cpu) {
      device = options->devices[i];
      count++;
    }
  }
  if (count != 1) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                        "session_create: graph_limit: expected exactly one device besides the CPU, got %zu", count);
  }
  if (device->ep == NULL || device->ep->graph_option == NULL) {
    return iobind__fail(
        error, IOBIND_NOT_SUPPORTED,
        "session_create: graph_limit: '%s': expected a device of an EP that captures graphs: cuda, webgpu, vdev", device->spec);
  }
  if (runtime->ort.api_version < device->ep->graph_since) {
    return iobind__fail(
        error, IOBIND_VERSION,
        "session_create: graph_limit: '%s': expected ORT 1.%u or newer, got %s: older ones have no graph capture "
        "for EP plugins",
        device->spec, device->ep->graph_since, runtime->ort.version);
  }
  *out = device;
  return IOBIND_OK;
}

/* ORT's allocators of the environment are shared by sessions: another one would be given the scratch memory that a graph writes. */
static iobind_status check_config(const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < options->config_count; i++) {
    const char *key = options->config_keys == NULL ? NULL : options->config_keys[i];
    const char *value = options->config_values == NULL ? NULL : options->config_values[i];
    if (key != NULL && value != NULL && strcmp(key, "session.use_env_allocators") == 0 && strcmp(value, "0") != 0) {
      return iobind__fail(
          error, IOBIND_INVALID_ARGUMENT,
          "session_create: graph_limit: config entry '%s' is refused: other sessions would share the memory that a "
          "captured graph writes",
          key);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__session_check_graph_key(const char *what, const char *key, iobind_error *error) {
  return iobind__ep_is_graph_option(key)
             ? iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                            "session_create: %s '%s' is not the caller's: set graph_limit, so that iobind guards the graphs",
                            what, key)
             : IOBIND_OK;
}

iobind_status iobind__session_check_graph(const iobind_runtime *runtime, const iobind_session_options *options,
                                          const char *path, const void *bytes, size_t size, iobind_device **device,
                                          iobind_error *error) {
  *device = NULL;
  if (options->graph_limit == 0) {
    return IOBIND_OK;
  }
  iobind_device *found = NULL;
  IOBIND__TRY(find_device(runtime, options, &found, error));
  IOBIND__TRY(check_config(options, error));
  iobind__model_bytes model;
  IOBIND__TRY(iobind__model_open(&model, path, bytes, size, "session_create", error));
  iobind_status status = check_model(&model, error);
  iobind__model_close(&model);
  *device = status == IOBIND_OK ? found : NULL;
  return status;
}

iobind_status iobind__session_check_graph_outputs(const iobind_session *session, iobind_error *error) {
  if (session->outputs_guessed) {
    return iobind__fail(
        error, IOBIND_NOT_SUPPORTED,
        "session_create: graph_limit: the model has an output that no node makes, a constant or an input that is "
        "handed on: a replay does not write it");
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (session->outputs[i].place->host) {
      return iobind__fail(
          error, IOBIND_NOT_SUPPORTED,
          "session_create: graph_limit: output '%s' is left in host memory: a node on the CPU makes it, which a "
          "replay does not run",
          session->outputs[i].name);
    }
  }
  return IOBIND_OK;
}

/* ---- graphs that are given up ---- */

void iobind__session_release_graph(iobind_session *session, int id, bool is_whole) {
  iobind_runtime *runtime = session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  if (iobind__process_is_forked() || !iobind__guard_may_free(session->inside)) {
    return;
  }
  if (runtime->ort.api_version >= 27) {
    iobind__scope scope;
    iobind__guard_enter_anyway(session->inside, &scope);
    OrtStatus *status = api->SessionReleaseCapturedGraph(session->session, id);
    iobind__guard_leave(&scope);
    if (status != NULL) {
      api->ReleaseStatus(status);
    } else if (!session->graph_device->ep->graphs_stay) {
      return;
    }
  }
  if (!is_whole) {
    return;
  }
  size_t kept = atomic_fetch_add(&session->graphs_kept, 1) + 1;
  iobind__log_line(runtime->log, IOBIND_LOG_INFO,
                   "iobind: a captured graph was given up, and ORT %s keeps it until its session is destroyed: %zu by now",
                   runtime->ort.version, kept);
}

void iobind__session_abandon_graph(iobind_session *session, iobind__captured *graph) {
  graph->next = atomic_load(&session->abandoned);
  while (!atomic_compare_exchange_weak(&session->abandoned, &graph->next, graph)) {
  }
}

static void release_abandoned(iobind_session *session) {
  iobind__captured *graph = atomic_exchange(&session->abandoned, NULL);
  while (graph != NULL) {
    iobind__captured *next = graph->next;
    iobind__session_release_graph(session, graph->id, true);
    atomic_fetch_sub(&session->graphs_live, 1);
    free(graph);
    graph = next;
  }
}

void iobind__session_free_abandoned(iobind_session *session) {
  iobind__captured *graph = atomic_exchange(&session->abandoned, NULL);
  while (graph != NULL) {
    iobind__captured *next = graph->next;
    free(graph);
    graph = next;
  }
}

/* ---- an ORT that reuses what replays read ---- */

/* Concat, Split, batched MatMul and others hand their kernels addresses by a copy from pinned memory. ORT's change #32121 keeps that memory for
 * the graph; before, the next run wrote its own addresses there, and a replay read them. */
bool iobind__session_graph_recycles(const iobind_session *session) {
  const char *digit = strchr(session->runtime->ort.version, '.');
  const long before = session->graph_device->ep->graph_recycled_before;
  long minor = 0;
  while (digit != NULL && *++digit >= '0' && *digit <= '9' && minor < before) {
    minor = 10 * minor + (*digit - '0');
  }
  return before > 0 && digit != NULL && minor < before;
}

iobind_status iobind__session_check_recycling(iobind_session *session, const char *what, iobind_error *error) {
  release_abandoned(session);
  if (!session->graph_recycles || atomic_load(&session->graphs_live) == 0) {
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_INVALID_STATE,
      "%s: a graph of this session has been captured, and with ORT %s another run would change memory that it reads: "
      "expected ORT 1.%ld, or a session for each graph, or no captured graph (iobind_binding_forget_graphs)",
      what, session->runtime->ort.version, session->graph_device->ep->graph_recycled_before);
}
