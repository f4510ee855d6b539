#include "memcpy.h"

#include <stdlib.h>

#include "ep.h"
#include "transfer.h"

static OrtStatus *ORT_CALL compute(OrtKernelImpl *self, OrtKernelContext *context) {
  (void)self;
  const OrtApi *api = VDEV_API_TABLE;
  const OrtValue *input = NULL;
  OrtValue *output = NULL;
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  size_t bytes = 0;
  const void *source = NULL;
  void *target = NULL;
  void *stream = NULL;
  VDEV_TRY(api->KernelContext_GetInput(context, 0, &input));
  VDEV_TRY(api->GetTensorElementTypeAndShapeDataReference(input, &dtype, &dims, &rank));
  VDEV_TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
  VDEV_TRY(api->GetTensorSizeInBytes(input, &bytes));
  VDEV_TRY(api->GetTensorData(input, &source));
  VDEV_TRY(api->GetTensorMutableData(output, &target));
  VDEV_TRY(api->KernelContext_GetGPUComputeStream(context, &stream));
  return vdev_copy(source, target, bytes, stream);
}

static void ORT_CALL release(OrtKernelImpl *self) {
  free(self);
}

static OrtStatus *ORT_CALL create(void *state, const OrtKernelInfo *info, OrtKernelImpl **kernel) {
  (void)state;
  (void)info;
  *kernel = calloc(1, sizeof **kernel);
  if (*kernel == NULL) {
    return vdev_fail(ORT_FAIL, "vdev: out of host memory");
  }
  (*kernel)->ort_version_supported = vdev_ort_global.version;
  (*kernel)->Compute = compute;
  (*kernel)->Release = release;
  return NULL;
}

/* All element types that ORT has tensors of, but for strings. */
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
      api->ReleaseStatus(status); /* a type that this ORT does not have */
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
