#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "memory.h"
#include "pinned.h"
#include "race.h"
#include "stream.h"

enum { MOST_DIMS = 64 };

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

typedef struct launch launch;

typedef struct kernel {
  OrtNodeComputeInfo info; /* first: ORT's view */
  vdev_device *device;
  const void *owner; /* whose it is: the EP's of one session */
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
  char **labels; /* what a fault may call it: operators, nodes and tensors */
  size_t label_count;
  launch *idle;  /* launches that are not under way, for the next run */
  size_t flying; /* launches that are */
} kernel;

/* The memory that a view was made of. */
enum { VIEW_RANK = 6 };
typedef struct view_key {
  const void *data;
  size_t bytes;
  ONNXTensorElementDataType dtype;
  size_t rank; /* more than VIEW_RANK: the dims are not kept */
  int64_t dims[VIEW_RANK];
} view_key;

/* One run: the views that the nested session reads and writes, inputs and then outputs. They stay as they are for the next run
 * that finds the same memory there. */
struct launch {
  kernel *kernel;
  launch *next;
  int64_t bytes;           /* of all arguments */
  const OrtValue **inputs; /* ORT's, of this run */
  OrtValue **outputs;
  OrtValue **views;
  view_key *keys;
};

static OrtStatus *no_memory(void) {
  return vdev_fail(ORT_FAIL, "vdev: out of host memory");
}

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy == NULL ? NULL : memcpy(copy, text, size);
}

/* ---- launches ---- */

static void drop_view(launch *one, size_t index) {
  if (one->views[index] != NULL) {
    VDEV_API_TABLE->ReleaseValue(one->views[index]);
    one->views[index] = NULL;
  }
}

static void free_launch(launch *one) {
  size_t count = one->kernel->input_count + one->kernel->output_count;
  for (size_t i = 0; one->views != NULL && i < count; i++) {
    drop_view(one, i);
  }
  free(one->inputs);
  free(one->outputs);
  free(one->views);
  free(one->keys);
  free(one);
}

static launch *make_launch(kernel *self) {
  launch *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return NULL;
  }
  one->kernel = self;
  one->inputs = calloc(self->input_count + 1, sizeof *one->inputs);
  one->outputs = calloc(self->output_count + 1, sizeof *one->outputs);
  one->views = calloc(self->input_count + self->output_count + 1, sizeof *one->views);
  one->keys = calloc(self->input_count + self->output_count + 1, sizeof *one->keys);
  if (one->inputs == NULL || one->outputs == NULL || one->views == NULL || one->keys == NULL) {
    free_launch(one);
    return NULL;
  }
  return one;
}

static launch *take_launch(kernel *self) {
  vdev_lock();
  launch *one = self->idle;
  if (one != NULL) {
    self->idle = one->next;
  }
  self->flying++;
  vdev_unlock();
  one = one != NULL ? one : make_launch(self);
  if (one == NULL) {
    vdev_lock();
    self->flying--;
    vdev_unlock();
  }
  return one;
}

/* The run is over. */
static void return_launch(void *context) {
  launch *one = context;
  kernel *self = one->kernel;
  for (size_t i = 0; !self->shapes_known && i < self->output_count; i++) {
    drop_view(one, self->input_count + i); /* the nested session made it */
  }
  vdev_lock();
  one->next = self->idle;
  self->idle = one;
  self->flying--;
  pthread_cond_broadcast(&vdev_global.changed); /* who releases the session waits for it */
  vdev_unlock();
}

static bool run_session(void *context, char *reason) {
  launch *one = context;
  kernel *self = one->kernel;
  const OrtApi *api = VDEV_API_TABLE;
  OrtStatus *status =
      api->Run(self->session, self->run_options, self->names, (const OrtValue *const *)one->views, self->input_count,
               self->names + self->input_count, self->output_count, one->views + self->input_count);
  if (status != NULL) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: kernel %s: %.200s", self->device->index, self->what, api->GetErrorMessage(status));
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
  bool known = out->rank <= MOST_DIMS;
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

static OrtStatus *dump(const kernel *self, const void *bytes, size_t size) {
  static int count;
  char folder[sizeof self->device->settings.dump];
  vdev_lock();
  int number = count;
  memcpy(folder, self->device->settings.dump, sizeof folder);
  count += folder[0] != '\0';
  vdev_unlock();
  if (folder[0] == '\0') {
    return NULL;
  }
  char path[sizeof folder + 32];
  snprintf(path, sizeof path, "%s/vdev-%d.onnx", folder, number);
  FILE *file = fopen(path, "wb");
  bool good = file != NULL && fwrite(bytes, 1, size, file) == size;
  good = file != NULL && fclose(file) == 0 && good;
  if (!good) {
    char text[VDEV_TEXT];
    snprintf(text, sizeof text, "vdev: a model cannot be dumped as '%.200s': is the folder there?", path);
    return vdev_fail(ORT_FAIL, text);
  }
  return NULL;
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
  status = status != NULL ? status : dump(self, bytes, size);
  status = status != NULL ? status : api->CreateSessionFromArray(env, bytes, size, options, &self->session);
  if (options != NULL) {
    api->ReleaseSessionOptions(options);
  }
  onnx_writer_release(writer);
  free(writer);
  return status;
}

static OrtStatus *add_label(kernel *self, const char *text) {
  if (text == NULL || text[0] == '\0') {
    return NULL;
  }
  char **list = realloc(self->labels, (self->label_count + 1) * sizeof *list);
  if (list == NULL) {
    return no_memory();
  }
  self->labels = list;
  list[self->label_count] = copy_text(text);
  return list[self->label_count++] == NULL ? no_memory() : NULL;
}

static OrtStatus *label_node(kernel *self, const OrtNode *node) {
  const OrtApi *api = VDEV_API_TABLE;
  const char *text = NULL;
  size_t count = 0;
  VDEV_TRY(api->Node_GetOperatorType(node, &text));
  VDEV_TRY(add_label(self, text));
  VDEV_TRY(api->Node_GetName(node, &text));
  VDEV_TRY(add_label(self, text));
  VDEV_TRY(api->Node_GetNumOutputs(node, &count));
  const OrtValueInfo **outputs = calloc(count + 1, sizeof *outputs);
  OrtStatus *status = outputs == NULL ? no_memory() : count == 0 ? NULL : api->Node_GetOutputs(node, outputs, count);
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

/* Its name for people, after the first node, and the ones for faults. */
static OrtStatus *name_kernel(kernel *self, const OrtGraph *graph) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumNodes(graph, &count));
  const OrtNode **nodes = calloc(count + 1, sizeof *nodes);
  OrtStatus *status = nodes == NULL ? no_memory() : count == 0 ? NULL : api->Graph_GetNodes(graph, nodes, count);
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

/* ---- running one ---- */

static OrtStatus *dims_of(const OrtValue *value, const int64_t **dims, size_t *rank, ONNXTensorElementDataType *dtype) {
  return VDEV_API_TABLE->GetTensorElementTypeAndShapeDataReference(value, dtype, dims, rank);
}

/* Where the nested session finds the bytes of an argument. With the lock held. */
static OrtStatus *locate(const kernel *self, vdev_stream *stream, const OrtValue *value, const void *data, size_t bytes,
                         bool write, const void **out) {
  const char *what = write ? "kernel output" : "kernel input";
  char reason[VDEV_TEXT] = "";
  if (data == NULL) {
    vdev_memory_explain_null(what, reason);
    return vdev_fail(ORT_FAIL, reason);
  }
  bool is_host = vdev_memory_owner(data) == NULL;
  if (is_host && vdev_pinned_find(data, 1) == NULL) {
    const OrtMemoryInfo *info = NULL;
    OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
    VDEV_TRY(VDEV_API_TABLE->GetTensorMemoryInfo(value, &info));
    VDEV_API_TABLE->MemoryInfoGetDeviceType(info, &type);
    is_host = type == OrtMemoryInfoDeviceType_CPU; /* otherwise it is not what it says, and is refused as such */
  }
  *out = is_host ? vdev_pinned_device_view(data, bytes, what, reason)
                 : vdev_memory_resolve(self->device, data, bytes, what, reason);
  bool good = *out != NULL && vdev_race_access(self->device, stream, data, bytes, write, self->what, reason);
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

/* A host view of a tensor of the device (or of the host, for an input that ORT left there). With the lock held. */
static OrtStatus *view_of(launch *one, vdev_stream *stream, const OrtValue *value, bool write, size_t index) {
  const OrtApi *api = VDEV_API_TABLE;
  static char nothing[16]; /* an address for tensors of 0 bytes */
  view_key *key = &one->keys[index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  const void *data = NULL;
  VDEV_TRY(dims_of(value, &dims, &rank, &dtype));
  VDEV_TRY(api->GetTensorData(value, &data));
  bool same = one->views[index] != NULL && dtype == key->dtype && rank == key->rank && rank <= VIEW_RANK;
  for (size_t d = 0; same && d < rank; d++) {
    same = dims[d] == key->dims[d];
  }
  size_t bytes = key->bytes;
  if (!same) {
    VDEV_TRY(api->GetTensorSizeInBytes(value, &bytes));
  }
  const void *real = nothing;
  if (bytes > 0) {
    VDEV_TRY(locate(one->kernel, stream, value, data, bytes, write, &real));
  }
  one->bytes += (int64_t)bytes;
  if (same && real == key->data) {
    return NULL;
  }
  drop_view(one, index);
  *key = (view_key){.data = real, .bytes = bytes, .dtype = dtype, .rank = rank};
  for (size_t d = 0; d < rank && d < VIEW_RANK; d++) {
    key->dims[d] = dims[d];
  }
  return api->CreateTensorWithDataAsOrtValue(one->kernel->host, (void *)(uintptr_t)real, bytes, dims, rank, dtype,
                                             &one->views[index]);
}

static OrtStatus *create_output(OrtKernelContext *context, const port *output, launch *one, size_t index) {
  int64_t dims[MOST_DIMS];
  for (size_t d = 0; d < output->rank; d++) {
    const dim_rule *rule = &output->rules[d];
    dims[d] = rule->value;
    if (rule->value < 0) {
      const int64_t *input_dims = NULL;
      size_t rank = 0;
      ONNXTensorElementDataType dtype;
      VDEV_TRY(dims_of(one->inputs[rule->input], &input_dims, &rank, &dtype));
      dims[d] = rule->axis < rank ? input_dims[rule->axis] : 0;
    }
  }
  return VDEV_API_TABLE->KernelContext_GetOutput(context, output->index, dims, output->rank, &one->outputs[index]);
}

/* Copy what a run without known shapes gave into tensors of the device. */
static OrtStatus *store_result(OrtKernelContext *context, launch *one, vdev_stream *stream, size_t index) {
  const OrtApi *api = VDEV_API_TABLE;
  const kernel *self = one->kernel;
  const OrtValue *result = one->views[self->input_count + index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  size_t bytes = 0;
  const void *data = NULL;
  void *target = NULL;
  const void *real = NULL;
  VDEV_TRY(dims_of(result, &dims, &rank, &dtype));
  VDEV_TRY(api->GetTensorSizeInBytes(result, &bytes));
  VDEV_TRY(api->GetTensorData(result, &data));
  VDEV_TRY(api->KernelContext_GetOutput(context, self->outputs[index].index, dims, rank, &one->outputs[index]));
  VDEV_TRY(api->GetTensorMutableData(one->outputs[index], &target));
  if (bytes == 0) {
    return NULL;
  }
  vdev_lock();
  OrtStatus *status = locate(self, stream, one->outputs[index], target, bytes, true, &real);
  vdev_unlock();
  if (status == NULL) {
    memcpy((void *)(uintptr_t)real, data, bytes);
  }
  return status;
}

/* *handed: the launch is the job's now, whatever becomes of it. */
static OrtStatus *submit(launch *one, vdev_stream *stream, bool *handed) {
  const kernel *self = one->kernel;
  char reason[VDEV_TEXT] = "";
  const vdev_subject subject = {VDEV_SITE_COMPUTE, one->bytes, (const char *const *)self->labels, self->label_count};
  if (vdev_fault_fails(&self->device->settings.faults, &subject)) {
    snprintf(reason, sizeof reason, "vdev:%d: kernel %s failed as asked (fail_compute)", self->device->index, self->what);
    return vdev_fail(ORT_FAIL, reason);
  }
  vdev_job job = {.device = self->device,
                  .engine = VDEV_COMPUTE,
                  .bytes = one->bytes,
                  .delay_ns = vdev_fault_delay(&self->device->settings.faults, &subject),
                  .what = self->what,
                  .owner = self->owner,
                  .work = run_session,
                  .context = one};
  if (self->shapes_known) {
    job.release = return_launch;
    *handed = true;
  }
  return vdev_submit(stream, &job, !self->shapes_known, reason) ? NULL : vdev_fail(ORT_FAIL, reason);
}

static OrtStatus *prepare_and_submit(OrtKernelContext *context, launch *one, vdev_stream *stream, bool *handed) {
  const OrtApi *api = VDEV_API_TABLE;
  const kernel *self = one->kernel;
  for (size_t i = 0; i < self->input_count; i++) {
    VDEV_TRY(api->KernelContext_GetInput(context, self->inputs[i].index, &one->inputs[i]));
  }
  /* ORT allocates the outputs: outside the lock, for it comes back to our allocator */
  for (size_t i = 0; i < self->output_count && self->shapes_known; i++) {
    VDEV_TRY(create_output(context, &self->outputs[i], one, i));
  }
  one->bytes = 0;
  OrtStatus *status = NULL;
  vdev_lock();
  if (stream != NULL) {
    vdev_stream_advance(stream);
  }
  for (size_t i = 0; i < self->input_count && status == NULL; i++) {
    status = view_of(one, stream, one->inputs[i], false, i);
  }
  for (size_t i = 0; i < self->output_count && status == NULL && self->shapes_known; i++) {
    status = view_of(one, stream, one->outputs[i], true, self->input_count + i);
  }
  if (status == NULL) {
    status = submit(one, stream, handed);
  }
  vdev_unlock();
  return status;
}

static OrtStatus *ORT_CALL compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  (void)state;
  kernel *self = (kernel *)info;
  void *stream = NULL;
  VDEV_TRY(VDEV_API_TABLE->KernelContext_GetGPUComputeStream(context, &stream));
  launch *one = take_launch(self);
  if (one == NULL) {
    return no_memory();
  }
  bool handed = false;
  OrtStatus *status = prepare_and_submit(context, one, stream, &handed);
  for (size_t i = 0; i < self->output_count && status == NULL && !self->shapes_known; i++) {
    status = store_result(context, one, stream, i);
  }
  if (!handed) {
    return_launch(one);
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
  vdev_lock(); /* a run may have returned before its work is done */
  while (self->flying > 0) {
    pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
  }
  vdev_unlock();
  while (self->idle != NULL) {
    launch *one = self->idle;
    self->idle = one->next;
    free_launch(one);
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
  if (self->host != NULL) {
    api->ReleaseMemoryInfo(self->host);
  }
  free(self);
}

OrtStatus *vdev_kernel_create(vdev_device *device, const void *owner, OrtEnv *env, const OrtGraph *graph,
                              const OrtNode *fused_node, OrtNodeComputeInfo **out) {
  const OrtApi *api = VDEV_API_TABLE;
  kernel *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return no_memory();
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
  if (status != NULL) {
    vdev_kernel_release(&self->info);
    return status;
  }
  *out = &self->info;
  return NULL;
}
