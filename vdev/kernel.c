#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "memory.h"
#include "race.h"
#include "stream.h"

/* How a dim of an output is known before the run: a number, or a dim of an input. */
typedef struct dim_rule {
  int64_t value; /* -1: see the rest */
  size_t input;
  size_t axis;
} dim_rule;

typedef struct port {
  char *name;
  size_t index; /* of the fused node's input or output */
  size_t rank;
  dim_rule *rules; /* outputs whose shape is known before the run; NULL: not known */
} port;

/* A constant that the nested session reads from our copy. */
typedef struct constant {
  char *name;
  void *data;
  OrtValue *value;
} constant;

typedef struct kernel {
  OrtNodeComputeInfo info; /* first: ORT's view */
  vdev_device *device;
  OrtSession *session;
  OrtRunOptions *run_options; /* the same for all runs: ORT makes some for each run that has none */
  OrtMemoryInfo *host;
  char what[48];
  port *inputs;
  size_t input_count;
  port *outputs;
  size_t output_count;
  const char **names; /* of inputs, then of outputs */
  constant *constants;
  size_t constant_count;
  bool shapes_known;
} kernel;

/* One run: the views that the nested session reads and writes. */
typedef struct launch {
  kernel *kernel;
  const OrtValue **inputs;
  OrtValue **outputs;
} launch;

static OrtStatus *no_memory(void) {
  return vdev_fail(ORT_FAIL, "vdev: out of host memory");
}

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy == NULL ? NULL : memcpy(copy, text, size);
}

static void release_values(OrtValue **values, size_t count) {
  for (size_t i = 0; values != NULL && i < count; i++) {
    if (values[i] != NULL) {
      VDEV_API_TABLE->ReleaseValue(values[i]);
    }
  }
  free(values);
}

static void release_launch(void *context) {
  launch *one = context;
  release_values((OrtValue **)(uintptr_t)one->inputs, one->kernel->input_count);
  release_values(one->outputs, one->kernel->output_count);
  free(one);
}

static bool run_session(void *context, char *reason) {
  launch *one = context;
  kernel *self = one->kernel;
  const OrtApi *api = VDEV_API_TABLE;
  OrtStatus *status = api->Run(self->session, self->run_options, self->names, one->inputs, self->input_count,
                               self->names + self->input_count, self->output_count, one->outputs);
  if (status != NULL) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: kernel %s: %s", self->device->index, self->what, api->GetErrorMessage(status));
    api->ReleaseStatus(status);
  }
  return status == NULL;
}

/* ---- making one ---- */

static OrtStatus *find_port(const OrtNode *fused, bool input, const char *name, size_t *index) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(input ? api->Node_GetNumInputs(fused, &count) : api->Node_GetNumOutputs(fused, &count));
  const OrtValueInfo **values = calloc(count + 1, sizeof *values);
  OrtStatus *status = values == NULL ? no_memory()
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

/* The dim of an input that has this symbol. */
static OrtStatus *find_symbol(const OrtValueInfo *const *inputs, size_t count, const char *symbol, dim_rule *rule,
                              bool *found) {
  const OrtApi *api = VDEV_API_TABLE;
  for (size_t i = 0; i < count && !*found; i++) {
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    size_t rank = 0;
    VDEV_TRY(shape_of(inputs[i], &shape));
    VDEV_TRY(api->GetDimensionsCount(shape, &rank));
    const char **symbols = calloc(rank + 1, sizeof *symbols);
    OrtStatus *status = symbols == NULL ? no_memory() : rank == 0 ? NULL : api->GetSymbolicDimensions(shape, symbols, rank);
    for (size_t d = 0; d < rank && status == NULL && !*found; d++) {
      if (strcmp(symbols[d], symbol) == 0) {
        *rule = (dim_rule){-1, i, d};
        *found = true;
      }
    }
    free(symbols);
    VDEV_TRY(status);
  }
  return NULL;
}

static OrtStatus *read_rules(const OrtValueInfo *output, const OrtValueInfo *const *inputs, size_t input_count, port *out) {
  const OrtApi *api = VDEV_API_TABLE;
  const OrtTensorTypeAndShapeInfo *shape = NULL;
  VDEV_TRY(shape_of(output, &shape));
  if (!api->TensorTypeAndShape_HasShape(shape)) {
    return NULL;
  }
  VDEV_TRY(api->GetDimensionsCount(shape, &out->rank));
  int64_t *dims = calloc(out->rank + 1, sizeof *dims);
  const char **symbols = calloc(out->rank + 1, sizeof *symbols);
  dim_rule *rules = calloc(out->rank + 1, sizeof *rules);
  OrtStatus *status = dims == NULL || symbols == NULL || rules == NULL ? no_memory() : NULL;
  if (status == NULL && out->rank > 0) {
    status = api->GetDimensions(shape, dims, out->rank);
  }
  if (status == NULL && out->rank > 0) {
    status = api->GetSymbolicDimensions(shape, symbols, out->rank);
  }
  bool known = true;
  for (size_t d = 0; d < out->rank && status == NULL && known; d++) {
    rules[d].value = dims[d];
    if (dims[d] < 0) {
      known = false;
      if (symbols[d][0] != '\0') {
        status = find_symbol(inputs, input_count, symbols[d], &rules[d], &known);
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

/* Inputs of the nested session: those of the group that are no constants. */
static OrtStatus *read_ports(kernel *self, const OrtGraph *graph, const OrtNode *fused) {
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
    status = no_memory();
  }
  status = status != NULL || inputs == 0 ? status : api->Graph_GetInputs(graph, ins, inputs);
  status = status != NULL || outputs == 0 ? status : api->Graph_GetOutputs(graph, outs, outputs);
  self->shapes_known = true;
  for (size_t i = 0; i < inputs + outputs && status == NULL; i++) {
    bool input = i < inputs;
    port *one = input ? &self->inputs[self->input_count++] : &self->outputs[self->output_count++];
    const OrtValueInfo *value = input ? ins[i] : outs[i - inputs];
    const char *name = NULL;
    status = api->GetValueInfoName(value, &name);
    if (status == NULL) {
      one->name = copy_text(name);
      self->names[i] = one->name;
      status = one->name == NULL ? no_memory() : find_port(fused, input, name, &one->index);
    }
    if (status == NULL && !input) {
      status = read_rules(value, ins, inputs, one);
      self->shapes_known = self->shapes_known && one->rules != NULL;
    }
  }
  free(ins);
  free(outs);
  return status;
}

static OrtStatus *keep_constant(kernel *self, const char *name, const OrtValue *value, OrtSessionOptions *options) {
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
  constant *list = realloc(self->constants, (self->constant_count + 1) * sizeof *list);
  if (list == NULL) {
    return no_memory();
  }
  self->constants = list;
  constant *one = &list[self->constant_count++];
  *one = (constant){copy_text(name), malloc(bytes), NULL};
  if (one->name == NULL || one->data == NULL) {
    return no_memory();
  }
  memcpy(one->data, data, bytes);
  VDEV_TRY(api->CreateTensorWithDataAsOrtValue(self->host, one->data, bytes, dims, rank, dtype, &one->value));
  const char *names[1] = {one->name};
  const OrtValue *values[1] = {one->value};
  return api->AddExternalInitializers(options, names, values, 1);
}

static OrtStatus *keep_constants(kernel *self, const OrtGraph *graph, OrtSessionOptions *options) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumInitializers(graph, &count));
  const OrtValueInfo **values = calloc(count + 1, sizeof *values);
  OrtStatus *status = values == NULL ? no_memory() : count == 0 ? NULL : api->Graph_GetInitializers(graph, values, count);
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

static void dump(const kernel *self, const void *bytes, size_t size) {
  static int number;
  if (self->device->settings.dump[0] == '\0') {
    return;
  }
  char path[320];
  snprintf(path, sizeof path, "%s/vdev-%d.onnx", self->device->settings.dump, number++);
  FILE *file = fopen(path, "wb");
  if (file != NULL) {
    fwrite(bytes, 1, size, file);
    fclose(file);
  }
}

static OrtStatus *open_session(kernel *self, OrtEnv *env, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  static const onnx_writer empty = ONNX_WRITER_INIT;
  onnx_writer *writer = malloc(sizeof *writer);
  OrtSessionOptions *options = NULL;
  if (writer == NULL) {
    return no_memory();
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
  if (status == NULL) {
    dump(self, bytes, size);
    status = api->CreateSessionFromArray(env, bytes, size, options, &self->session);
  }
  if (options != NULL) {
    api->ReleaseSessionOptions(options);
  }
  onnx_writer_release(writer);
  free(writer);
  return status;
}

static void name_kernel(kernel *self, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  const char *type = "group";
  OrtStatus *status = api->Graph_GetNumNodes(graph, &count);
  const OrtNode **nodes = calloc(count + 1, sizeof *nodes);
  if (status == NULL && nodes != NULL && count > 0) {
    status = api->Graph_GetNodes(graph, nodes, count);
    if (status == NULL) {
      status = api->Node_GetOperatorType(nodes[0], &type);
    }
  }
  if (status != NULL) {
    api->ReleaseStatus(status); /* a name is for people: a plain one will do */
  }
  snprintf(self->what, sizeof self->what, count > 1 ? "%.24s+%zu" : "%.24s", type, count - 1);
  free(nodes);
}

/* ---- running one ---- */

static OrtStatus *dims_of(const OrtValue *value, const int64_t **dims, size_t *rank, ONNXTensorElementDataType *dtype) {
  return VDEV_API_TABLE->GetTensorElementTypeAndShapeDataReference(value, dtype, dims, rank);
}

/* A host view of a tensor of the device (or of the host, for an input that ORT left there). With the lock held. */
static OrtStatus *view_of(kernel *self, vdev_stream *stream, const OrtValue *value, bool write, OrtValue **view) {
  const OrtApi *api = VDEV_API_TABLE;
  static char nothing[16]; /* an address for tensors of 0 bytes */
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  size_t bytes = 0;
  const void *data = NULL;
  VDEV_TRY(dims_of(value, &dims, &rank, &dtype));
  VDEV_TRY(api->GetTensorSizeInBytes(value, &bytes));
  VDEV_TRY(api->GetTensorData(value, &data));
  void *real = nothing;
  char reason[VDEV_TEXT] = "";
  if (bytes > 0) {
    if (data == NULL) {
      return vdev_fail(ORT_FAIL, "vdev: a kernel's tensor has no memory: its allocation failed");
    }
    vdev_device *owner = vdev_memory_owner(data);
    real = owner == NULL ? (void *)(uintptr_t)data
                         : vdev_memory_resolve(self->device, data, bytes, write ? "kernel output" : "kernel input", reason);
    if (real == NULL || !vdev_race_access(self->device, stream, data, bytes, write, self->what, reason)) {
      return vdev_fail(ORT_FAIL, reason);
    }
  }
  return api->CreateTensorWithDataAsOrtValue(self->host, real, bytes, dims, rank, dtype, view);
}

static OrtStatus *create_output(kernel *self, OrtKernelContext *context, const port *output, const OrtValue *const *inputs,
                                OrtValue **value) {
  int64_t dims[64];
  for (size_t d = 0; d < output->rank && d < 64; d++) {
    const dim_rule *rule = &output->rules[d];
    dims[d] = rule->value;
    if (rule->value < 0) {
      const int64_t *input_dims = NULL;
      size_t rank = 0;
      ONNXTensorElementDataType dtype;
      VDEV_TRY(dims_of(inputs[rule->input], &input_dims, &rank, &dtype));
      dims[d] = rule->axis < rank ? input_dims[rule->axis] : 0;
    }
  }
  (void)self;
  return VDEV_API_TABLE->KernelContext_GetOutput(context, output->index, dims, output->rank, value);
}

/* Copy what a run without known shapes gave into tensors of the device. */
static OrtStatus *store_results(kernel *self, OrtKernelContext *context, launch *one, vdev_stream *stream) {
  const OrtApi *api = VDEV_API_TABLE;
  for (size_t i = 0; i < self->output_count; i++) {
    ONNXTensorElementDataType dtype;
    const int64_t *dims = NULL;
    size_t rank = 0;
    size_t bytes = 0;
    const void *data = NULL;
    OrtValue *output = NULL;
    OrtValue *view = NULL;
    VDEV_TRY(dims_of(one->outputs[i], &dims, &rank, &dtype));
    VDEV_TRY(api->GetTensorSizeInBytes(one->outputs[i], &bytes));
    VDEV_TRY(api->GetTensorData(one->outputs[i], &data));
    VDEV_TRY(api->KernelContext_GetOutput(context, self->outputs[i].index, dims, rank, &output));
    vdev_lock();
    OrtStatus *status = view_of(self, stream, output, true, &view);
    vdev_unlock();
    VDEV_TRY(status);
    void *target = NULL;
    status = api->GetTensorMutableData(view, &target);
    if (status == NULL && bytes > 0) {
      memcpy(target, data, bytes);
    }
    api->ReleaseValue(view);
    VDEV_TRY(status);
  }
  return NULL;
}

static bool is_named(const kernel *self) {
  const char *wanted = self->device->settings.fail_name;
  return wanted[0] == '\0' || strncmp(self->what, wanted, strlen(wanted)) == 0;
}

/* *handed: the launch is the job's now, whatever becomes of it. */
static OrtStatus *submit(kernel *self, launch *one, vdev_stream *stream, bool *handed) {
  char reason[VDEV_TEXT] = "";
  if (is_named(self) && vdev_fault_hits(&self->device->settings, VDEV_FAIL_COMPUTE, 0)) {
    snprintf(reason, sizeof reason, "vdev:%d: kernel %s failed as asked (fail_compute)", self->device->index, self->what);
    return vdev_fail(ORT_FAIL, reason);
  }
  vdev_job job = {.device = self->device, .engine = VDEV_COMPUTE, .what = self->what, .work = run_session, .context = one};
  if (self->shapes_known) {
    job.release = release_launch;
    *handed = true;
  }
  return vdev_submit(stream, &job, !self->shapes_known, reason) ? NULL : vdev_fail(ORT_FAIL, reason);
}

static OrtStatus *prepare_and_submit(kernel *self, OrtKernelContext *context, launch *one, vdev_stream *stream, bool *handed) {
  const OrtApi *api = VDEV_API_TABLE;
  const OrtValue **values = calloc(self->input_count + 1, sizeof *values);
  OrtValue **outputs = calloc(self->output_count + 1, sizeof *outputs);
  OrtStatus *status = values == NULL || outputs == NULL ? no_memory() : NULL;
  for (size_t i = 0; i < self->input_count && status == NULL; i++) {
    status = api->KernelContext_GetInput(context, self->inputs[i].index, &values[i]);
  }
  /* ORT allocates the outputs: outside the lock, for it comes back to our allocator */
  for (size_t i = 0; i < self->output_count && status == NULL && self->shapes_known; i++) {
    status = create_output(self, context, &self->outputs[i], values, &outputs[i]);
  }
  vdev_lock();
  if (stream != NULL) {
    vdev_stream_advance(stream);
  }
  for (size_t i = 0; i < self->input_count && status == NULL; i++) {
    status = view_of(self, stream, values[i], false, (OrtValue **)(uintptr_t)&one->inputs[i]);
  }
  for (size_t i = 0; i < self->output_count && status == NULL && self->shapes_known; i++) {
    status = view_of(self, stream, outputs[i], true, &one->outputs[i]);
  }
  if (status == NULL) {
    status = submit(self, one, stream, handed);
  }
  vdev_unlock();
  free(values);
  free(outputs);
  return status;
}

static OrtStatus *ORT_CALL compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  (void)state;
  kernel *self = (kernel *)info;
  void *handle = NULL;
  VDEV_TRY(VDEV_API_TABLE->KernelContext_GetGPUComputeStream(context, &handle));
  launch *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return no_memory();
  }
  one->kernel = self;
  one->inputs = calloc(self->input_count + 1, sizeof *one->inputs);
  one->outputs = calloc(self->output_count + 1, sizeof *one->outputs);
  if (one->inputs == NULL || one->outputs == NULL) {
    release_launch(one);
    return no_memory();
  }
  bool handed = false;
  OrtStatus *status = prepare_and_submit(self, context, one, handle, &handed);
  if (status == NULL && !self->shapes_known) {
    status = store_results(self, context, one, handle);
  }
  if (!handed) {
    release_launch(one);
  }
  return status;
}

static OrtStatus *ORT_CALL create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context, void **state) {
  (void)context;
  *state = info; /* there is none; ORT wants something */
  return NULL;
}

static void ORT_CALL release_state(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

void vdev_kernel_release(OrtNodeComputeInfo *info) {
  kernel *self = (kernel *)info;
  const OrtApi *api = VDEV_API_TABLE;
  if (self == NULL) {
    return;
  }
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
  if (self->host != NULL) {
    api->ReleaseMemoryInfo(self->host);
  }
  free(self);
}

OrtStatus *vdev_kernel_create(vdev_device *device, OrtEnv *env, const OrtGraph *graph, const OrtNode *fused_node,
                              OrtNodeComputeInfo **out) {
  const OrtApi *api = VDEV_API_TABLE;
  kernel *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return no_memory();
  }
  self->info = (OrtNodeComputeInfo){vdev_ort_global.version, create_state, compute, release_state};
  self->device = device;
  name_kernel(self, graph);
  OrtStatus *status = api->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                               OrtDeviceAllocator, &self->host);
  status = status != NULL ? status : api->CreateRunOptions(&self->run_options);
  status = status != NULL ? status : read_ports(self, graph, fused_node);
  status = status != NULL ? status : open_session(self, env, graph);
  if (status != NULL) {
    vdev_kernel_release(&self->info);
    return status;
  }
  *out = &self->info;
  return NULL;
}
