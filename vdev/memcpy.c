#include "memcpy.h"

#include <stdlib.h>

#include "ep.h"
#include "transfer.h"

/* Only these kernels know which tensor a copy moves. */
typedef struct memcpy_kernel {
  OrtKernelImpl impl; /* first: ORT's view */
  char names[2][128]; /* of the input and the output */
} memcpy_kernel;

static OrtStatus *ORT_CALL compute(OrtKernelImpl *self, OrtKernelContext *context) {
  const memcpy_kernel *one = (const memcpy_kernel *)self;
  const OrtApi *api = VDEV_API_TABLE;
  const OrtValue *input = NULL;
  OrtValue *output = NULL;
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  const char *const names[] = {one->names[0], one->names[1]};
  vdev_transfer_plan plan = {.names = names, .name_count = 2};
  void *stream = NULL;
  VDEV_TRY(api->KernelContext_GetInput(context, 0, &input));
  VDEV_TRY(api->GetTensorElementTypeAndShapeDataReference(input, &dtype, &dims, &rank));
  VDEV_TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
  VDEV_TRY(api->GetTensorSizeInBytes(input, &plan.bytes));
  VDEV_TRY(api->GetTensorData(input, &plan.source));
  VDEV_TRY(api->GetTensorMutableData(output, &plan.target));
  VDEV_TRY(api->KernelContext_GetGPUComputeStream(context, &stream));
  plan.stream = stream;
  return vdev_copy(&plan);
}

static void ORT_CALL release(OrtKernelImpl *self) {
  free(self);
}

typedef OrtStatus *(ORT_CALL *name_getter)(const OrtKernelInfo *info, size_t index, char *out, size_t *size);

/* A name that is too long, or that ORT does not know, is omitted: no fault can name it. */
static void read_name(const OrtKernelInfo *info, name_getter get, char *name, size_t size) {
  OrtStatus *status = get(info, 0, name, &size);
  if (status != NULL) {
    name[0] = '\0';
    VDEV_API_TABLE->ReleaseStatus(status);
  }
}

static OrtStatus *ORT_CALL create(void *state, const OrtKernelInfo *info, OrtKernelImpl **kernel) {
  (void)state;
  memcpy_kernel *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  one->impl.ort_version_supported = vdev_ort_global.version;
  one->impl.Compute = compute;
  one->impl.Release = release;
  read_name(info, VDEV_API_TABLE->KernelInfo_GetInputName, one->names[0], sizeof one->names[0]);
  read_name(info, VDEV_API_TABLE->KernelInfo_GetOutputName, one->names[1], sizeof one->names[1]);
  *kernel = &one->impl;
  return NULL;
}

/* All element types that ORT has tensors of, except strings. */
static size_t fixed_size_types(const OrtDataType **types, size_t capacity) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  for (int t = 1; t <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 && count < capacity; t++) {
    if (t == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
      continue;
    }
    OrtStatus *status = vdev_ort_global.ep->GetTensorDataType((ONNXTensorElementDataType)t, &types[count]);
    if (status == NULL) {
      count += types[count] != NULL;
    } else {
      api->ReleaseStatus(status); /* a type that this ORT does not know */
    }
  }
  return count;
}

static OrtStatus *build(OrtKernelDefBuilder *builder, const char *type, bool from_host, OrtKernelRegistry *registry) {
  const OrtEpApi *ep = vdev_ort_global.ep;
  const OrtDataType *types[32];
  size_t count = fixed_size_types(types, sizeof types / sizeof types[0]);
  OrtKernelDef *definition = NULL;
  VDEV_TRY(ep->KernelDefBuilder_SetOperatorType(builder, type));
  VDEV_TRY(ep->KernelDefBuilder_SetDomain(builder, ""));
  VDEV_TRY(ep->KernelDefBuilder_SetSinceVersion(builder, 1, 1));
  VDEV_TRY(ep->KernelDefBuilder_SetExecutionProvider(builder, VDEV_EP_NAME));
  VDEV_TRY(ep->KernelDefBuilder_AddTypeConstraint(builder, "T", types, count));
  VDEV_TRY(from_host ? ep->KernelDefBuilder_SetInputMemType(builder, 0, OrtMemTypeCPUInput)
                     : ep->KernelDefBuilder_SetOutputMemType(builder, 0, OrtMemTypeCPU));
  VDEV_TRY(ep->KernelDefBuilder_Build(builder, &definition));
  OrtStatus *status = ep->KernelRegistry_AddKernel(registry, definition, create, NULL);
  ep->ReleaseKernelDef(definition);
  return status;
}

OrtStatus *vdev_memcpy_registry_create(OrtKernelRegistry **registry) {
  const OrtEpApi *ep = vdev_ort_global.ep;
  static const struct {
    const char *type;
    bool from_host;
  } kernels[] = {{"MemcpyFromHost", true}, {"MemcpyToHost", false}};
  VDEV_TRY(ep->CreateKernelRegistry(registry));
  OrtStatus *status = NULL;
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0] && status == NULL; i++) {
    OrtKernelDefBuilder *builder = NULL;
    status = ep->CreateKernelDefBuilder(&builder);
    if (status == NULL) {
      status = build(builder, kernels[i].type, kernels[i].from_host, *registry);
      ep->ReleaseKernelDefBuilder(builder);
    }
  }
  if (status != NULL) {
    ep->ReleaseKernelRegistry(*registry);
    *registry = NULL;
  }
  return status;
}
