#include "ep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "kernel.h"
#include "memcpy.h"
#include "stream.h"

typedef struct vdev_ep {
  OrtEp ep; /* first: ORT's view */
  vdev_device *device;
  OrtEnv *env; /* for the nested sessions: a reference on the process's one */
  OrtKernelRegistry *registry;
  vdev_captures *captures; /* NULL: its session does not capture graphs */
} vdev_ep;

static const char *ORT_CALL get_name(const OrtEp *self) {
  (void)self;
  return VDEV_EP_NAME;
}

/* ---- what is claimed ---- */

static bool is_denied(const char *deny, const char *type) {
  const char *at = deny;
  size_t length = strlen(type);
  while (*at != '\0') {
    size_t word = strcspn(at, ",");
    if (word == length && memcmp(at, type, word) == 0) {
      return true;
    }
    at += word + (at[word] == ',');
  }
  return false;
}

static OrtStatus *is_plain_tensor(const OrtValueInfo *value, bool *plain) {
  const OrtApi *api = VDEV_API_TABLE;
  *plain = true;
  if (value == NULL) {
    return NULL; /* an omitted optional input or output */
  }
  const OrtTypeInfo *type = NULL;
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  VDEV_TRY(api->GetValueInfoTypeInfo(value, &type));
  *plain = type != NULL;
  if (type != NULL) {
    VDEV_TRY(api->GetOnnxTypeFromTypeInfo(type, &kind));
    *plain = kind == ONNX_TYPE_TENSOR;
  }
  if (*plain) {
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    ONNXTensorElementDataType dtype;
    VDEV_TRY(api->CastTypeInfoToTensorInfo(type, &shape));
    VDEV_TRY(api->GetTensorElementType(shape, &dtype));
    *plain = dtype != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING && dtype != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  }
  return NULL;
}

typedef OrtStatus *(ORT_CALL *node_counter)(const OrtNode *, size_t *);
typedef OrtStatus *(ORT_CALL *node_getter)(const OrtNode *, const OrtValueInfo **, size_t);

/* The values of a node of one kind; the caller frees the list. */
static OrtStatus *values_of(const OrtNode *node, node_counter count_values, node_getter get, const OrtValueInfo ***values,
                            size_t *count) {
  *count = 0;
  *values = NULL;
  VDEV_TRY(count_values(node, count));
  *values = calloc(*count + 1, sizeof **values);
  if (*values == NULL) {
    return vdev_no_memory();
  }
  return *count == 0 ? NULL : get(node, *values, *count);
}

static OrtStatus *all_plain(const OrtNode *node, node_counter count_values, node_getter get, bool *plain) {
  const OrtValueInfo **values;
  size_t count;
  OrtStatus *status = values_of(node, count_values, get, &values, &count);
  for (size_t i = 0; i < count && status == NULL && *plain; i++) {
    status = is_plain_tensor(values[i], plain);
  }
  free(values);
  return status;
}

static OrtStatus *has_known_attributes(const OrtNode *node, bool *known) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Node_GetNumAttributes(node, &count));
  const OrtOpAttr **attributes = calloc(count + 1, sizeof *attributes);
  if (attributes == NULL) {
    return vdev_no_memory();
  }
  OrtStatus *status = count == 0 ? NULL : api->Node_GetAttributes(node, attributes, count);
  for (size_t i = 0; i < count && status == NULL && *known; i++) {
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    status = api->OpAttr_GetType(attributes[i], &type);
    *known = type != ORT_OP_ATTR_UNDEFINED;
  }
  free(attributes);
  return status;
}

static OrtStatus *can_write(const OrtNode *node, bool *can);

static OrtStatus *can_write_graph(const OrtGraph *graph, bool *can) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumNodes(graph, &count));
  const OrtNode **nodes = calloc(count + 1, sizeof *nodes);
  if (nodes == NULL) {
    return vdev_no_memory();
  }
  OrtStatus *status = count == 0 ? NULL : api->Graph_GetNodes(graph, nodes, count);
  for (size_t i = 0; i < count && status == NULL && *can; i++) {
    status = can_write(nodes[i], can);
  }
  free(nodes);
  return status;
}

/* Is the operator one that each ORT has? Others are functions of the model's own, which ORT replaces by their nodes where no EP claims
 * them, or of a library that the nested session does not have. */
static OrtStatus *is_common(const OrtNode *node, bool *common) {
  static const char *const domains[] = {
      "", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft"};
  const char *domain = NULL;
  VDEV_TRY(VDEV_API_TABLE->Node_GetDomain(node, &domain));
  *common = false;
  for (size_t i = 0; i < sizeof domains / sizeof domains[0] && !*common; i++) {
    *common = strcmp(domain, domains[i]) == 0;
  }
  return NULL;
}

/* Can the node be written, with everything inside its subgraphs? Strings and sequences may stay inside, because the nested session
 * has them in host memory. Only attributes count. */
static OrtStatus *can_write(const OrtNode *node, bool *can) {
  const OrtApi *api = VDEV_API_TABLE;
  VDEV_TRY(is_common(node, can));
  if (!*can) {
    return NULL;
  }
  VDEV_TRY(has_known_attributes(node, can));
  size_t count = 0;
  VDEV_TRY(api->Node_GetNumSubgraphs(node, &count));
  if (count == 0 || !*can) {
    return NULL;
  }
  const OrtGraph **graphs = calloc(2 * count, sizeof *graphs);
  if (graphs == NULL) {
    return vdev_no_memory();
  }
  const char **names = (const char **)(void *)(graphs + count); /* ORT gives both lists at once */
  OrtStatus *status = api->Node_GetSubgraphs(node, graphs, count, names);
  for (size_t g = 0; g < count && status == NULL && *can; g++) {
    status = can_write_graph(graphs[g], can);
  }
  free(graphs);
  return status;
}

static OrtStatus *is_claimable(const vdev_ep *self, const char *deny, const OrtNode *node, bool *claimable) {
  const OrtApi *api = VDEV_API_TABLE;
  const char *type = NULL;
  size_t subgraphs = 0;
  VDEV_TRY(api->Node_GetOperatorType(node, &type));
  VDEV_TRY(api->Node_GetNumSubgraphs(node, &subgraphs));
  /* ORT refuses to capture a graph with control flow that the EP does not claim */
  bool claims_subgraphs = vdev_ort_global.claims_subgraphs && self->captures == NULL;
  *claimable = !is_denied(deny, type) && (subgraphs == 0 || claims_subgraphs);
  if (*claimable) {
    VDEV_TRY(all_plain(node, api->Node_GetNumInputs, api->Node_GetInputs, claimable));
  }
  if (*claimable) {
    VDEV_TRY(all_plain(node, api->Node_GetNumOutputs, api->Node_GetOutputs, claimable));
  }
  if (*claimable) {
    VDEV_TRY(all_plain(node, api->Node_GetNumImplicitInputs, api->Node_GetImplicitInputs, claimable));
  }
  if (*claimable) {
    VDEV_TRY(can_write(node, claimable));
  }
  return NULL;
}

/* ---- how it is grouped ---- */

/* The nodes of a graph with their levels: how often claimed and unclaimed nodes alternate on the longest path to a node.
 * Claimed nodes of one level form a group: if an unclaimed node lay between two of them, their levels would differ by two. */
typedef struct plan {
  const OrtNode **nodes;
  size_t count;
  bool *claimed;
  size_t *levels;
  size_t *index_of; /* by a node's identifier; `count` if there is none */
  size_t identifiers;
} plan;

static OrtStatus *index_nodes(plan *all) {
  size_t id = 0;
  for (size_t i = 0; i < all->count; i++) {
    VDEV_TRY(VDEV_API_TABLE->Node_GetId(all->nodes[i], &id));
    all->identifiers = id >= all->identifiers ? id + 1 : all->identifiers;
  }
  all->index_of = calloc(all->identifiers, sizeof *all->index_of);
  if (all->index_of == NULL) {
    return vdev_no_memory();
  }
  for (size_t i = 0; i < all->identifiers; i++) {
    all->index_of[i] = all->count;
  }
  for (size_t i = 0; i < all->count; i++) {
    VDEV_TRY(VDEV_API_TABLE->Node_GetId(all->nodes[i], &id));
    all->index_of[id] = i;
  }
  return NULL;
}

static OrtStatus *find_node(const plan *all, const OrtNode *node, size_t *index) {
  size_t id = 0;
  VDEV_TRY(VDEV_API_TABLE->Node_GetId(node, &id));
  *index = id < all->identifiers ? all->index_of[id] : all->count;
  return NULL;
}

static OrtStatus *raise_level(plan *all, size_t index, node_counter count_values, node_getter get, bool *changed) {
  const OrtValueInfo **values;
  size_t count;
  OrtStatus *status = values_of(all->nodes[index], count_values, get, &values, &count);
  for (size_t i = 0; i < count && status == NULL; i++) {
    const OrtNode *producer = NULL;
    if (values[i] == NULL) {
      continue;
    }
    status = VDEV_API_TABLE->ValueInfo_GetValueProducer(values[i], &producer, NULL);
    size_t from = all->count;
    if (status == NULL && producer != NULL) {
      status = find_node(all, producer, &from);
    }
    if (status == NULL && from < all->count) {
      size_t level = all->levels[from] + (all->claimed[from] != all->claimed[index]);
      *changed = *changed || level > all->levels[index];
      all->levels[index] = level > all->levels[index] ? level : all->levels[index];
    }
  }
  free(values);
  return status;
}

static OrtStatus *find_levels(plan *all) {
  const OrtApi *api = VDEV_API_TABLE;
  /* nodes are in topological order, so one pass is enough; the second pass confirms it */
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < all->count; i++) {
      VDEV_TRY(raise_level(all, i, api->Node_GetNumInputs, api->Node_GetInputs, &changed));
      VDEV_TRY(raise_level(all, i, api->Node_GetNumImplicitInputs, api->Node_GetImplicitInputs, &changed));
    }
  }
  return NULL;
}

static OrtStatus *claim_groups(bool drop_weights, const plan *all, OrtEpGraphSupportInfo *support) {
  const OrtNodeFusionOptions options = {vdev_ort_global.version, drop_weights};
  const OrtNode **group = calloc(all->count + 1, sizeof *group);
  OrtStatus *status = group == NULL ? vdev_no_memory() : NULL;
  size_t highest = 0;
  for (size_t i = 0; i < all->count; i++) {
    highest = all->levels[i] > highest ? all->levels[i] : highest;
  }
  for (size_t level = 0; level <= highest && status == NULL; level++) {
    size_t size = 0;
    for (size_t i = 0; i < all->count; i++) {
      if (all->claimed[i] && all->levels[i] == level) {
        group[size++] = all->nodes[i];
      }
    }
    if (size > 0) {
      status = vdev_ort_global.ep->EpGraphSupportInfo_AddNodesToFuse(support, group, size, &options);
    }
  }
  free(group);
  return status;
}

static OrtStatus *ORT_CALL get_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  const OrtApi *api = VDEV_API_TABLE;
  const vdev_ep *self = (const vdev_ep *)ep;
  const OrtNode *parent = NULL;
  VDEV_TRY(api->Graph_GetParentNode(graph, &parent));
  if (parent != NULL) {
    return NULL; /* ORT asks for inner graphs first; the outer node is claimed whole */
  }
  plan all = {0};
  VDEV_TRY(api->Graph_GetNumNodes(graph, &all.count));
  if (all.count == 0) {
    return NULL;
  }
  char deny[sizeof self->device->settings.deny];
  vdev_lock();
  memcpy(deny, self->device->settings.deny, sizeof deny);
  bool drop_weights = self->device->settings.drop_weights != 0;
  vdev_unlock();
  all.nodes = calloc(all.count, sizeof *all.nodes);
  all.claimed = calloc(all.count, sizeof *all.claimed);
  all.levels = calloc(all.count, sizeof *all.levels);
  OrtStatus *status = all.nodes == NULL || all.claimed == NULL || all.levels == NULL
                          ? vdev_no_memory()
                          : api->Graph_GetNodes(graph, all.nodes, all.count);
  for (size_t i = 0; i < all.count && status == NULL; i++) {
    status = is_claimable(self, deny, all.nodes[i], &all.claimed[i]);
  }
  status = status != NULL ? status : index_nodes(&all);
  status = status != NULL ? status : find_levels(&all);
  status = status != NULL ? status : claim_groups(drop_weights, &all, support);
  free(all.nodes);
  free(all.claimed);
  free(all.levels);
  free(all.index_of);
  return status;
}

/* ---- the rest ---- */

static OrtStatus *ORT_CALL compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                                   OrtNodeComputeInfo **kernels, OrtNode **ep_context_nodes) {
  (void)ep_context_nodes;
  const vdev_ep *self = (const vdev_ep *)ep;
  OrtStatus *status = NULL;
  size_t made = 0;
  while (made < count && status == NULL) {
    status = vdev_kernel_create(self->device, self, self->env, graphs[made], fused_nodes[made], &kernels[made]);
    made += status == NULL;
  }
  while (status != NULL && made > 0) { /* ORT does not ask for a list of them */
    vdev_kernel_release(kernels[--made]);
    kernels[made] = NULL;
  }
  return status;
}

static void ORT_CALL release_kernels(OrtEp *ep, OrtNodeComputeInfo **kernels, size_t count) {
  vdev_ep *self = (vdev_ep *)ep;
  if (self->captures != NULL) {
    vdev_captures_clear(self->captures);
  }
  for (size_t i = 0; i < count; i++) {
    vdev_kernel_release(kernels[i]);
  }
}

static OrtStatus *ORT_CALL set_dynamic_options(OrtEp *ep, const char *const *keys, const char *const *values, size_t count) {
  const vdev_ep *self = (const vdev_ep *)ep;
  for (size_t i = 0; i < count; i++) {
    if (vdev_set(self->device->index, keys[i], values[i]) != 0) {
      return vdev_fail(ORT_INVALID_ARGUMENT, vdev_last_error());
    }
  }
  return NULL;
}

static OrtStatus *ORT_CALL create_stream(OrtEp *ep, const OrtMemoryDevice *memory, OrtSyncStreamImpl **stream) {
  (void)memory;
  return vdev_sync_stream_create(((const vdev_ep *)ep)->device, stream);
}

static OrtStatus *ORT_CALL get_kernel_registry(OrtEp *ep, const OrtKernelRegistry **registry) {
  *registry = ((const vdev_ep *)ep)->registry;
  return NULL;
}

static OrtStatus *ORT_CALL is_concurrent_run_supported(OrtEp *ep, bool *supported) {
  (void)ep;
  *supported = true;
  return NULL;
}

/* By ORT's contract this waits for the whole device: a binding calls it so that its inputs have arrived, and those may be
 * copied on any stream, also one of the program's. A failure is reported only to the session whose work it was. */
static OrtStatus *ORT_CALL sync(OrtEp *ep) {
  const vdev_ep *self = (const vdev_ep *)ep;
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good =
      vdev_capture_permits(self->device, "a wait for the device", reason) && vdev_device_drain(self->device, self, reason);
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

/* ---- graphs ---- */

/* The number of a run's graph, read in the same way as ORT reads it. */
static OrtStatus *read_graph_number(const OrtRunOptions *options, int *number) {
  const char *text = options == NULL ? NULL : VDEV_API_TABLE->GetRunConfigEntry(options, "gpu_graph_id");
  char *end = NULL;
  *number = 0;
  if (text == NULL) {
    return NULL;
  }
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < INT_MIN || value > INT_MAX) {
    char reason[VDEV_TEXT];
    snprintf(reason, sizeof reason, "vdev: gpu_graph_id '%.80s' is not a number", text);
    return vdev_fail(ORT_INVALID_ARGUMENT, reason);
  }
  *number = (int)value;
  return NULL;
}

static OrtStatus *ORT_CALL on_run_start(OrtEp *ep, const OrtRunOptions *options) {
  vdev_captures *captures = ((vdev_ep *)ep)->captures;
  int number = 0;
  vdev_lock();
  vdev_run_begin();
  vdev_unlock();
  if (captures == NULL) {
    return NULL;
  }
  VDEV_TRY(read_graph_number(options, &number));
  return vdev_captures_start_run(captures, number);
}

static OrtStatus *end_capture(vdev_captures *captures, const OrtRunOptions *options, bool wait) {
  int number = 0;
  if (captures == NULL) {
    return NULL;
  }
  VDEV_TRY(read_graph_number(options, &number));
  return vdev_captures_end_run(captures, number, wait);
}

/* ORT calls this for a run that has failed, too, whose streams it neither flushes nor ends. */
static OrtStatus *ORT_CALL on_run_end(OrtEp *ep, const OrtRunOptions *options, bool wait) {
  char reason[VDEV_TEXT] = "";
  OrtStatus *status = end_capture(((vdev_ep *)ep)->captures, options, wait);
  vdev_lock();
  bool good = vdev_run_end(wait, reason);
  vdev_unlock();
  return status != NULL || good ? status : vdev_fail(ORT_FAIL, reason);
}

static bool ORT_CALL is_graph_capture_enabled(const OrtEp *ep) {
  return ((const vdev_ep *)ep)->captures != NULL;
}

static bool ORT_CALL is_graph_captured(const OrtEp *ep, int number) {
  return vdev_captures_has(((const vdev_ep *)ep)->captures, number);
}

/* ORT does not say whether the program wants to wait, so a replay is always waited for. */
static OrtStatus *ORT_CALL replay_graph(OrtEp *ep, int number) {
  return vdev_captures_replay(((vdev_ep *)ep)->captures, number);
}

static OrtGraphCaptureNodeAssignmentPolicy ORT_CALL get_assignment_policy(const OrtEp *ep) {
  (void)ep;
  return OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES;
}

static OrtStatus *ORT_CALL release_captured_graph(OrtEp *ep, int number) {
  vdev_captures_forget(((vdev_ep *)ep)->captures, number);
  return NULL;
}

static OrtStatus *enable_graph_capture(vdev_ep *self) {
  if (vdev_ort_global.version < 26) {
    return vdev_fail(ORT_NOT_IMPLEMENTED,
                     "vdev: enable_graph_capture needs ONNX Runtime 1.26 or newer: older ones have no graph "
                     "capture for EP plugins");
  }
  self->captures = vdev_captures_create(self->device);
  if (self->captures == NULL) {
    return vdev_no_memory();
  }
  self->ep.IsGraphCaptureEnabled = is_graph_capture_enabled;
  self->ep.IsGraphCaptured = is_graph_captured;
  self->ep.ReplayGraph = replay_graph;
  self->ep.GetGraphCaptureNodeAssignmentPolicy = get_assignment_policy;
  self->ep.ReleaseCapturedGraph = release_captured_graph; /* since 1.27; an older ORT does not read it */
  return NULL;
}

void vdev_ep_release(OrtEp *ep) {
  vdev_ep *self = (vdev_ep *)ep;
  vdev_captures_release(self->captures);
  if (self->registry != NULL) {
    vdev_ort_global.ep->ReleaseKernelRegistry(self->registry);
  }
  if (self->env != NULL) {
    VDEV_API_TABLE->ReleaseEnv(self->env);
  }
  free(self);
}

OrtStatus *vdev_ep_create(vdev_device *device, bool captures, OrtEp **out) {
  const OrtApi *api = VDEV_API_TABLE;
  const vdev_subject subject = {.site = VDEV_SITE_SESSION, .what = "session creation"};
  char reason[VDEV_TEXT] = "";
  vdev_effect effect = {0};
  vdev_lock();
  bool admitted = vdev_admit(device, &subject, &effect, reason);
  vdev_host_delay(effect.delay_ns);
  vdev_unlock();
  if (!admitted) {
    return vdev_fail(ORT_EP_FAIL, reason);
  }
  vdev_ep *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return vdev_no_memory();
  }
  self->device = device;
  self->ep = (OrtEp){.ort_version_supported = vdev_ort_global.version,
                     .GetName = get_name,
                     .GetCapability = get_capability,
                     .Compile = compile,
                     .ReleaseNodeComputeInfos = release_kernels,
                     .SetDynamicOptions = set_dynamic_options,
                     .CreateSyncStreamForDevice = create_stream,
                     .GetKernelRegistry = get_kernel_registry,
                     .OnRunStart = on_run_start,
                     .OnRunEnd = on_run_end,
                     .IsConcurrentRunSupported = is_concurrent_run_supported,
                     .Sync = sync};
  OrtStatus *status = captures ? enable_graph_capture(self) : NULL;
  status = status != NULL ? status : api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "vdev", &self->env);
  status = status != NULL ? status : vdev_memcpy_registry_create(&self->registry);
  if (status != NULL) {
    vdev_ep_release(&self->ep);
    return status;
  }
  *out = &self->ep;
  return NULL;
}
