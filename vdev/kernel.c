#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "launch.h"
#include "system.h"

/* A constant that the nested session reads from our copy. */
typedef struct vdev_constant {
  char *name;
  void *data;
  OrtValue *value;
} vdev_constant;

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy == NULL ? NULL : memcpy(copy, text, size);
}

/* ---- inputs and outputs ---- */

static OrtStatus *find_port(const OrtNode *fused, bool input, const char *name, size_t *index) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(input ? api->Node_GetNumInputs(fused, &count) : api->Node_GetNumOutputs(fused, &count));
  const OrtValueInfo **values = calloc(count + 1, sizeof *values);
  OrtStatus *status = values == NULL ? vdev_no_memory()
                      : count == 0   ? NULL
                      : input        ? api->Node_GetInputs(fused, values, count)
                                     : api->Node_GetOutputs(fused, values, count);
  bool found = false;
  for (size_t i = 0; i < count && status == NULL && !found; i++) {
    const char *other = NULL;
    if (values[i] != NULL) {
      status = api->GetValueInfoName(values[i], &other);
    }
    if (status == NULL && other != NULL && strcmp(other, name) == 0) {
      *index = i;
      found = true;
    }
  }
  free(values);
  if (status == NULL && !found) {
    char text[VDEV_TEXT];
    snprintf(text, sizeof text, "vdev: a claimed group's %s '%s' is not the fused node's", input ? "input" : "output", name);
    status = vdev_fail(ORT_FAIL, text);
  }
  return status;
}

static OrtStatus *shape_of(const OrtValueInfo *value, const OrtTensorTypeAndShapeInfo **shape) {
  const OrtTypeInfo *type = NULL;
  VDEV_TRY(VDEV_API_TABLE->GetValueInfoTypeInfo(value, &type));
  return VDEV_API_TABLE->CastTypeInfoToTensorInfo(type, shape);
}

/* The shapes of the nested session's inputs. */
typedef struct input_shapes {
  OrtTypeInfo **types;
  const OrtTensorTypeAndShapeInfo **shapes;
  size_t count;
} input_shapes;

static void free_input_shapes(input_shapes *inputs) {
  for (size_t i = 0; inputs->types != NULL && i < inputs->count; i++) {
    if (inputs->types[i] != NULL) {
      VDEV_API_TABLE->ReleaseTypeInfo(inputs->types[i]);
    }
  }
  free(inputs->types);
  free(inputs->shapes);
}

static OrtStatus *read_input_shapes(const vdev_kernel *self, input_shapes *inputs) {
  const OrtApi *api = VDEV_API_TABLE;
  VDEV_TRY(api->SessionGetInputCount(self->session, &inputs->count));
  inputs->types = calloc(inputs->count + 1, sizeof *inputs->types);
  inputs->shapes = calloc(inputs->count + 1, sizeof *inputs->shapes);
  if (inputs->types == NULL || inputs->shapes == NULL) {
    return vdev_no_memory();
  }
  for (size_t i = 0; i < inputs->count; i++) {
    VDEV_TRY(api->SessionGetInputTypeInfo(self->session, i, &inputs->types[i]));
    VDEV_TRY(api->CastTypeInfoToTensorInfo(inputs->types[i], &inputs->shapes[i]));
  }
  return NULL;
}

static OrtStatus *add_tie(vdev_kernel *self, const vdev_dim_rule *dim, size_t input, size_t axis) {
  for (size_t i = 0; i < self->tie_count; i++) {
    if (self->ties[i].input == input && self->ties[i].axis == axis) {
      return NULL;
    }
  }
  vdev_tie *list = realloc(self->ties, (self->tie_count + 1) * sizeof *list);
  if (list == NULL) {
    return vdev_no_memory();
  }
  self->ties = list;
  list[self->tie_count++] = (vdev_tie){dim->input, dim->axis, input, axis};
  return NULL;
}

/* The dim of an input that has this symbol. If several have it, a run may still give them different sizes, and broadcast one: then the
 * symbol does not determine the output. */
static OrtStatus *find_symbol(vdev_kernel *self, const input_shapes *inputs, const char *symbol, vdev_dim_rule *rule,
                              bool *found) {
  const OrtApi *api = VDEV_API_TABLE;
  for (size_t i = 0; i < inputs->count; i++) {
    const OrtTensorTypeAndShapeInfo *shape = inputs->shapes[i];
    size_t rank = 0;
    VDEV_TRY(api->GetDimensionsCount(shape, &rank));
    const char **symbols = calloc(rank + 1, sizeof *symbols);
    OrtStatus *status = symbols == NULL ? vdev_no_memory()
                        : rank == 0     ? NULL
                                        : api->GetSymbolicDimensions(shape, symbols, rank);
    for (size_t d = 0; d < rank && status == NULL; d++) {
      if (strcmp(symbols[d], symbol) == 0) {
        status = *found ? add_tie(self, rule, i, d) : NULL;
        *rule = *found ? *rule : (vdev_dim_rule){-1, i, d};
        *found = true;
      }
    }
    free(symbols);
    VDEV_TRY(status);
  }
  return NULL;
}

static OrtStatus *read_rules(vdev_kernel *self, const OrtTensorTypeAndShapeInfo *shape, const input_shapes *inputs,
                             vdev_port *out) {
  const OrtApi *api = VDEV_API_TABLE;
  if (!api->TensorTypeAndShape_HasShape(shape)) {
    return NULL;
  }
  VDEV_TRY(api->GetDimensionsCount(shape, &out->rank));
  int64_t *dims = calloc(out->rank + 1, sizeof *dims);
  const char **symbols = calloc(out->rank + 1, sizeof *symbols);
  vdev_dim_rule *rules = calloc(out->rank + 1, sizeof *rules);
  OrtStatus *status = dims == NULL || symbols == NULL || rules == NULL ? vdev_no_memory() : NULL;
  if (status == NULL && out->rank > 0) {
    status = api->GetDimensions(shape, dims, out->rank);
  }
  if (status == NULL && out->rank > 0) {
    status = api->GetSymbolicDimensions(shape, symbols, out->rank);
  }
  bool known = out->rank <= VDEV_KERNEL_RANK;
  for (size_t d = 0; d < out->rank && status == NULL && known; d++) {
    rules[d].value = dims[d];
    if (dims[d] < 0) {
      known = false;
      if (symbols[d][0] != '\0') {
        status = find_symbol(self, inputs, symbols[d], &rules[d], &known);
      }
    }
  }
  free(dims);
  free(symbols);
  if (status == NULL && known) {
    out->rules = rules;
  } else {
    free(rules);
  }
  return status;
}

/* A shape that is known without its inputs, because the model has a number for each dim: it may know more than the nested session can infer. */
static OrtStatus *read_numbers(const OrtValueInfo *output, vdev_port *out) {
  const OrtApi *api = VDEV_API_TABLE;
  const OrtTensorTypeAndShapeInfo *shape = NULL;
  size_t rank = 0;
  int64_t dims[VDEV_KERNEL_RANK] = {0};
  VDEV_TRY(shape_of(output, &shape));
  VDEV_TRY(api->GetDimensionsCount(shape, &rank));
  bool known = api->TensorTypeAndShape_HasShape(shape) && rank <= VDEV_KERNEL_RANK;
  if (known && rank > 0) {
    VDEV_TRY(api->GetDimensions(shape, dims, rank));
  }
  for (size_t d = 0; d < rank && known; d++) {
    known = dims[d] >= 0;
  }
  if (!known) {
    return NULL;
  }
  out->rules = calloc(rank + 1, sizeof *out->rules);
  if (out->rules == NULL) {
    return vdev_no_memory();
  }
  out->rank = rank;
  for (size_t d = 0; d < rank; d++) {
    out->rules[d].value = dims[d];
  }
  return NULL;
}

/* Whole numbers may be axes or a shape, constants that the nested session gets as inputs: then it infers less than ORT has inferred for the
 * model, whose names count. */
static OrtStatus *read_names(vdev_kernel *self, const OrtValueInfo *const *ins, const OrtValueInfo *const *outs) {
  const OrtApi *api = VDEV_API_TABLE;
  input_shapes inputs = {.shapes = calloc(self->input_count + 1, sizeof *inputs.shapes), .count = self->input_count};
  OrtStatus *status = inputs.shapes == NULL ? vdev_no_memory() : NULL;
  bool has_numbers = false;
  for (size_t i = 0; i < self->input_count && status == NULL; i++) {
    ONNXTensorElementDataType dtype = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    status = shape_of(ins[i], &inputs.shapes[i]);
    status = status != NULL ? status : api->GetTensorElementType(inputs.shapes[i], &dtype);
    has_numbers = has_numbers || dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 || dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
  }
  self->shapes_known = has_numbers;
  for (size_t i = 0; i < self->output_count && status == NULL && self->shapes_known; i++) {
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    if (self->outputs[i].rules == NULL) {
      status = shape_of(outs[i], &shape);
      status = status != NULL ? status : read_rules(self, shape, &inputs, &self->outputs[i]);
    }
    self->shapes_known = self->outputs[i].rules != NULL;
  }
  free(inputs.shapes);
  return status;
}

static OrtStatus *read_names_of(vdev_kernel *self, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  const OrtValueInfo **ins = calloc(self->input_count + 1, sizeof *ins);
  const OrtValueInfo **outs = calloc(self->output_count + 1, sizeof *outs);
  OrtStatus *status = ins == NULL || outs == NULL ? vdev_no_memory() : NULL;
  status = status != NULL || self->input_count == 0 ? status : api->Graph_GetInputs(graph, ins, self->input_count);
  status = status != NULL || self->output_count == 0 ? status : api->Graph_GetOutputs(graph, outs, self->output_count);
  status = status != NULL ? status : read_names(self, ins, outs);
  free(ins);
  free(outs);
  return status;
}

/* What the nested session infers about its outputs from its inputs: it was written without what the model declares about them, whose names
 * need not be true, because ORT does not check them. */
static OrtStatus *read_shapes(vdev_kernel *self, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  input_shapes inputs = {0};
  OrtStatus *status = read_input_shapes(self, &inputs);
  self->shapes_known = status == NULL && inputs.count == self->input_count;
  for (size_t i = 0; i < self->output_count && status == NULL && self->shapes_known; i++) {
    OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    status = api->SessionGetOutputTypeInfo(self->session, i, &type);
    status = status != NULL ? status : api->CastTypeInfoToTensorInfo(type, &shape);
    if (status == NULL && self->outputs[i].rules == NULL) {
      status = read_rules(self, shape, &inputs, &self->outputs[i]);
    }
    self->shapes_known = self->outputs[i].rules != NULL;
    if (type != NULL) {
      api->ReleaseTypeInfo(type);
    }
  }
  free_input_shapes(&inputs);
  return status != NULL || self->shapes_known ? status : read_names_of(self, graph);
}

/* Inputs of the nested session: those of the group that are not constants. */
static OrtStatus *read_ports(vdev_kernel *self, const OrtGraph *graph, const OrtNode *fused) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t inputs = 0;
  size_t outputs = 0;
  VDEV_TRY(api->Graph_GetNumInputs(graph, &inputs));
  VDEV_TRY(api->Graph_GetNumOutputs(graph, &outputs));
  const OrtValueInfo **ins = calloc(inputs + 1, sizeof *ins);
  const OrtValueInfo **outs = calloc(outputs + 1, sizeof *outs);
  self->inputs = calloc(inputs + 1, sizeof *self->inputs);
  self->outputs = calloc(outputs + 1, sizeof *self->outputs);
  self->names = calloc(inputs + outputs + 1, sizeof *self->names);
  OrtStatus *status = NULL;
  if (ins == NULL || outs == NULL || self->inputs == NULL || self->outputs == NULL || self->names == NULL) {
    status = vdev_no_memory();
  }
  status = status != NULL || inputs == 0 ? status : api->Graph_GetInputs(graph, ins, inputs);
  status = status != NULL || outputs == 0 ? status : api->Graph_GetOutputs(graph, outs, outputs);
  for (size_t i = 0; i < inputs + outputs && status == NULL; i++) {
    bool input = i < inputs;
    vdev_port *one = input ? &self->inputs[self->input_count++] : &self->outputs[self->output_count++];
    const OrtValueInfo *value = input ? ins[i] : outs[i - inputs];
    const char *name = NULL;
    status = api->GetValueInfoName(value, &name);
    if (status == NULL) {
      one->name = copy_text(name);
      self->names[i] = one->name;
      status = one->name == NULL ? vdev_no_memory() : find_port(fused, input, name, &one->index);
    }
    if (status == NULL && !input) {
      status = read_numbers(value, one);
    }
  }
  free(ins);
  free(outs);
  return status;
}

static OrtStatus *keep_constant(vdev_kernel *self, const char *name, const OrtValue *value, OrtSessionOptions *options) {
  const OrtApi *api = VDEV_API_TABLE;
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  size_t bytes = 0;
  const void *data = NULL;
  VDEV_TRY(api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &dims, &rank));
  if (dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    return NULL;
  }
  VDEV_TRY(api->GetTensorSizeInBytes(value, &bytes));
  if (bytes <= VDEV_INLINE_BYTES) {
    return NULL;
  }
  VDEV_TRY(api->GetTensorData(value, &data));
  vdev_constant *list = realloc(self->constants, (self->constant_count + 1) * sizeof *list);
  if (list == NULL) {
    return vdev_no_memory();
  }
  self->constants = list;
  vdev_constant *one = &list[self->constant_count++];
  *one = (vdev_constant){copy_text(name), malloc(bytes), NULL};
  if (one->name == NULL || one->data == NULL) {
    return vdev_no_memory();
  }
  memcpy(one->data, data, bytes);
  VDEV_TRY(api->CreateTensorWithDataAsOrtValue(self->host, one->data, bytes, dims, rank, dtype, &one->value));
  const char *names[1] = {one->name};
  const OrtValue *values[1] = {one->value};
  return api->AddExternalInitializers(options, names, values, 1);
}

static OrtStatus *keep_constants(vdev_kernel *self, const OrtGraph *graph, OrtSessionOptions *options) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumInitializers(graph, &count));
  const OrtValueInfo **values = calloc(count + 1, sizeof *values);
  OrtStatus *status = values == NULL ? vdev_no_memory() : count == 0 ? NULL : api->Graph_GetInitializers(graph, values, count);
  for (size_t i = 0; i < count && status == NULL; i++) {
    const char *name = "";
    const OrtValue *value = NULL;
    status = api->GetValueInfoName(values[i], &name);
    bool is_input = false;
    for (size_t p = 0; p < self->input_count && status == NULL; p++) {
      is_input = is_input || (self->inputs[p].name != NULL && strcmp(self->inputs[p].name, name) == 0);
    }
    if (status == NULL && !is_input) {
      status = api->ValueInfo_GetInitializerValue(values[i], &value);
    }
    if (status == NULL && value != NULL) {
      status = keep_constant(self, name, value, options);
    }
  }
  free(values);
  return status;
}

static OrtStatus *dump(const vdev_kernel *self, const void *bytes, size_t size) {
  static int count;
  char directory[sizeof self->device->settings.dump];
  vdev_lock();
  int number = count;
  memcpy(directory, self->device->settings.dump, sizeof directory);
  count += directory[0] != '\0';
  vdev_unlock();
  if (directory[0] == '\0') {
    return NULL;
  }
  char path[sizeof directory + 32];
  snprintf(path, sizeof path, "%s/vdev-%d.onnx", directory, number);
  FILE *file = vdev_file_create(path);
  bool good = file != NULL && fwrite(bytes, 1, size, file) == size;
  good = file != NULL && fclose(file) == 0 && good;
  if (!good) {
    char text[VDEV_TEXT];
    snprintf(text, sizeof text, "vdev: a model cannot be dumped as '%.200s': %s", path, strerror(errno));
    return vdev_fail(ORT_FAIL, text);
  }
  return NULL;
}

static OrtStatus *open_session(vdev_kernel *self, OrtEnv *env, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  static const onnx_writer empty = ONNX_WRITER_INIT;
  onnx_writer *writer = malloc(sizeof *writer);
  OrtSessionOptions *options = NULL;
  if (writer == NULL) {
    return vdev_no_memory();
  }
  *writer = empty;
  const void *bytes = NULL;
  size_t size = 0;
  OrtStatus *status = vdev_graph_write(graph, writer);
  if (status == NULL && onnx_writer_finish(writer, &bytes, &size) != ONNX_OK) {
    status = vdev_fail(ORT_FAIL, "vdev: a group of nodes cannot be written as a model");
  }
  status = status != NULL ? status : api->CreateSessionOptions(&options);
  status = status != NULL ? status : api->SetIntraOpNumThreads(options, 1);
  status = status != NULL ? status : keep_constants(self, graph, options);
  status = status != NULL ? status : dump(self, bytes, size);
  status = status != NULL ? status : api->CreateSessionFromArray(env, bytes, size, options, &self->session);
  if (options != NULL) {
    api->ReleaseSessionOptions(options);
  }
  onnx_writer_release(writer);
  free(writer);
  return status;
}

static OrtStatus *add_label(vdev_kernel *self, const char *text) {
  if (text == NULL || text[0] == '\0') {
    return NULL;
  }
  char **list = realloc(self->labels, (self->label_count + 1) * sizeof *list);
  if (list == NULL) {
    return vdev_no_memory();
  }
  self->labels = list;
  list[self->label_count] = copy_text(text);
  return list[self->label_count++] == NULL ? vdev_no_memory() : NULL;
}

static bool is_sized_by_data(const char *type) {
  static const char *const types[] = {"NonZero", "Unique", "Compress", "NonMaxSuppression"};
  bool is = false;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    is = is || strcmp(type, types[i]) == 0;
  }
  return is;
}

static OrtStatus *label_node(vdev_kernel *self, const OrtNode *node) {
  const OrtApi *api = VDEV_API_TABLE;
  const char *text = NULL;
  size_t count = 0;
  VDEV_TRY(api->Node_GetOperatorType(node, &text));
  self->sized_by_data = self->sized_by_data || is_sized_by_data(text);
  VDEV_TRY(add_label(self, text));
  VDEV_TRY(api->Node_GetName(node, &text));
  VDEV_TRY(add_label(self, text));
  VDEV_TRY(api->Node_GetNumOutputs(node, &count));
  const OrtValueInfo **outputs = calloc(count + 1, sizeof *outputs);
  OrtStatus *status = outputs == NULL ? vdev_no_memory() : count == 0 ? NULL : api->Node_GetOutputs(node, outputs, count);
  for (size_t i = 0; i < count && status == NULL; i++) {
    text = NULL;
    if (outputs[i] != NULL) {
      status = api->GetValueInfoName(outputs[i], &text);
    }
    status = status != NULL ? status : add_label(self, text);
  }
  free(outputs);
  return status;
}

/* A name for people, after the first node, and the names by which faults find the kernel. */
static OrtStatus *name_kernel(vdev_kernel *self, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumNodes(graph, &count));
  const OrtNode **nodes = calloc(count + 1, sizeof *nodes);
  OrtStatus *status = nodes == NULL ? vdev_no_memory() : count == 0 ? NULL : api->Graph_GetNodes(graph, nodes, count);
  for (size_t i = 0; i < count && status == NULL; i++) {
    status = label_node(self, nodes[i]);
  }
  free(nodes);
  const char *first = self->label_count > 0 ? self->labels[0] : "group";
  snprintf(self->what, sizeof self->what, count > 1 ? "%.24s+%zu" : "%.24s", first, count - 1);
  for (size_t i = 0; i < self->input_count && status == NULL; i++) {
    status = add_label(self, self->inputs[i].name);
  }
  return status;
}

/* ---- ORT's view ---- */

static OrtStatus *ORT_CALL compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  (void)state;
  return vdev_launch_run((vdev_kernel *)info, context);
}

static OrtStatus *ORT_CALL create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context, void **state) {
  (void)context;
  *state = info; /* there is none, but ORT needs a result */
  return NULL;
}

static void ORT_CALL release_state(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

void vdev_kernel_release(OrtNodeComputeInfo *info) {
  vdev_kernel *self = (vdev_kernel *)info;
  const OrtApi *api = VDEV_API_TABLE;
  if (self == NULL) {
    return;
  }
  vdev_launch_end_all(self);
  if (self->session != NULL) {
    api->ReleaseSession(self->session);
  }
  if (self->run_options != NULL) {
    api->ReleaseRunOptions(self->run_options);
  }
  for (size_t i = 0; i < self->constant_count; i++) {
    if (self->constants[i].value != NULL) {
      api->ReleaseValue(self->constants[i].value);
    }
    free(self->constants[i].data);
    free(self->constants[i].name);
  }
  free(self->constants);
  for (size_t i = 0; i < self->label_count; i++) {
    free(self->labels[i]);
  }
  free(self->labels);
  for (size_t i = 0; i < self->input_count; i++) {
    free(self->inputs[i].name);
  }
  for (size_t i = 0; i < self->output_count; i++) {
    free(self->outputs[i].name);
    free(self->outputs[i].rules);
  }
  free(self->inputs);
  free(self->outputs);
  free(self->names);
  free(self->ties);
  if (self->host != NULL) {
    api->ReleaseMemoryInfo(self->host);
  }
  free(self);
}

OrtStatus *vdev_kernel_create(vdev_device *device, const void *owner, OrtEnv *env, const OrtGraph *graph,
                              const OrtNode *fused_node, OrtNodeComputeInfo **out) {
  const OrtApi *api = VDEV_API_TABLE;
  vdev_kernel *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return vdev_no_memory();
  }
  self->info = (OrtNodeComputeInfo){vdev_ort_global.version, create_state, compute, release_state};
  self->device = device;
  self->owner = owner;
  OrtStatus *status = api->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                               OrtDeviceAllocator, &self->host);
  status = status != NULL ? status : api->CreateRunOptions(&self->run_options);
  status = status != NULL ? status : read_ports(self, graph, fused_node);
  status = status != NULL ? status : name_kernel(self, graph);
  status = status != NULL ? status : open_session(self, env, graph);
  status = status != NULL ? status : read_shapes(self, graph);
  if (status != NULL) {
    vdev_kernel_release(&self->info);
    return status;
  }
  *out = &self->info;
  return NULL;
}
