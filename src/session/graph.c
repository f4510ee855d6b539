/* May a session capture graphs? Checked when it is created: its device, its options, its model, and where its outputs are. A
 * replay launches the work of the capture, in the same memory and with the same dims; it repeats nothing that the host computed. ORT refuses
 * some models for which this cannot work, without naming a node; others would give wrong results without an error. So the model's file is
 * checked before the session is created. */
#include <string.h>

#include "session/create.h"
#include "session/protobuf.h"

/* ---- the model ---- */

enum { NAME = 64 };

typedef struct node {
  char name[NAME];
  char op[NAME];
  size_t inputs;     /* in the node's list; the last ones may be missing */
  bool has_training; /* Dropout has its third input */
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

/* Is an input or output of the graph a tensor? ORT checks those without a type. */
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
        return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                            "session_create: graph_limit: node '%s' (%s) cannot be in a captured graph: %s", one.name, one.op,
                            why);
      }
    } else if (nodes == GRAPH_NODE && (field.number == GRAPH_INPUT || field.number == GRAPH_OUTPUT) &&
               !is_tensor(model, &field, name) && model->sound) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "session_create: graph_limit: '%s' is not a tensor: a captured graph has only tensors", name);
    }
  }
  return IOBIND_OK;
}

/* ORT refuses what is not protobuf. */
static iobind_status check_model(iobind__model_bytes *model, iobind_error *error) {
  enum { MODEL_GRAPH = 7, MODEL_FUNCTION = 25, GRAPH_NODE = 1, FUNCTION_NODE = 7 };
  uint64_t offset = 0;
  iobind__field field;
  if (iobind__model_is_ort_format(model)) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
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

/* NOT_SUPPORTED if the model has something that a replay does not repeat. */
static iobind_status check_capturable(const iobind__source *from, iobind_error *error) {
  iobind__model_bytes model;
  IOBIND__TRY(iobind__model_open(&model, from, error));
  iobind_status status = check_model(&model, error);
  iobind__model_close(&model);
  return status;
}

/* ---- the session ---- */

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
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: graph_limit: expected exactly one device besides the CPU, got %zu", count);
  }
  if (device->ep == NULL || device->ep->graph_option == NULL) {
    char names[IOBIND__EP_NAMES];
    iobind__ep_list_capturing(names);
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "session_create: graph_limit: '%s': expected a device of an EP that captures graphs: %s", device->spec,
                        names);
  }
  if (iobind__device_has(device, IOBIND__QUIRK_CAPTURES_NOTHING)) {
    return iobind__fail(
        error, IOBIND_ERROR_VERSION,
        "session_create: graph_limit: '%s': expected ORT 1.%u or newer, got %s: older ones have no graph capture "
        "for EP plugins",
        device->spec, iobind__quirk_ends(device->ep, IOBIND__QUIRK_CAPTURES_NOTHING), runtime->ort.version);
  }
  *out = device;
  return IOBIND_OK;
}

/* Sessions share the environment's allocators of ORT: another session could get the scratch memory that a graph writes. */
static iobind_status check_config(const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < options->config_count; i++) {
    const char *key = options->config_keys == NULL ? NULL : options->config_keys[i];
    const char *value = options->config_values == NULL ? NULL : options->config_values[i];
    if (key != NULL && value != NULL && strcmp(key, "session.use_env_allocators") == 0 && strcmp(value, "0") != 0) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "session_create: graph_limit: config entry '%s' is refused: other sessions would share the memory that a "
          "captured graph writes",
          key);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__session_check_graph_key(const char *what, const char *key, iobind_error *error) {
  return iobind__ep_is_graph_option(key)
             ? iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "session_create: %s '%s' is refused: set graph_limit instead: then iobind checks the graphs", what,
                            key)
             : IOBIND_OK;
}

iobind_status iobind__session_check_graph(const iobind_runtime *runtime, const iobind_session_options *options,
                                          const iobind__source *from, iobind_device **device, iobind_error *error) {
  *device = NULL;
  if (options->graph_limit == 0) {
    return IOBIND_OK;
  }
  iobind_device *found = NULL;
  IOBIND__TRY(find_device(runtime, options, &found, error));
  IOBIND__TRY(check_config(options, error));
  IOBIND__TRY(check_capturable(from, error));
  *device = found;
  return IOBIND_OK;
}

iobind_status iobind__session_check_graph_outputs(const iobind_session *session, iobind_error *error) {
  if (session->outputs_guessed) {
    return iobind__fail(
        error, IOBIND_ERROR_NOT_SUPPORTED,
        "session_create: graph_limit: the model has an output that no node makes, a constant or an input that is "
        "passed through: a replay does not write it");
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (session->outputs[i].place->host) {
      return iobind__fail(
          error, IOBIND_ERROR_NOT_SUPPORTED,
          "session_create: graph_limit: output '%s' is left in host memory: a node on the CPU makes it, which a "
          "replay does not run",
          session->outputs[i].name);
    }
  }
  return IOBIND_OK;
}
