/* The part of ONNX Runtime's C interface that iobind uses, in iobind's own declarations: the binary interface alone, from the facts
 * under tests/abi. Slots that are not in use are padding. ORT only appends, so a table of an older ORT is a prefix:
 * a slot newer than the ORT that is loaded must not be touched (tests/abi says since when each is there). */
#ifndef IOBIND_ABI_ORT_H
#define IOBIND_ABI_ORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ORT_CALL __stdcall
typedef wchar_t ort_char; /* paths */
#else
#define ORT_CALL
typedef char ort_char;
#endif

typedef void (*ort_slot)(void);

#define ORT_API_OLDEST 24 /* the oldest interface that iobind works with: ORT 1.24 */
#define ORT_API_NEWEST 29 /* the newest that these declarations were checked against */

typedef struct OrtEnv OrtEnv;
typedef struct OrtEpApi OrtEpApi; /* ort_ep.h */
typedef struct OrtGraph OrtGraph;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtLogger OrtLogger;
typedef struct OrtNode OrtNode;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtCUDAProviderOptionsV2 OrtCUDAProviderOptionsV2;
typedef struct OrtTensorRTProviderOptionsV2 OrtTensorRTProviderOptionsV2;
typedef struct OrtEpAssignedNode OrtEpAssignedNode;
typedef struct OrtEpAssignedSubgraph OrtEpAssignedSubgraph;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtExternalMemoryHandle OrtExternalMemoryHandle;       /* ort_ep.h */
typedef struct OrtExternalResourceImporter OrtExternalResourceImporter;
typedef struct OrtExternalSemaphoreHandle OrtExternalSemaphoreHandle; /* ort_ep.h */
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtIoBinding OrtIoBinding;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtModelMetadata OrtModelMetadata;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtThreadingOptions OrtThreadingOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtStatus OrtStatus;
typedef struct OrtSyncStream OrtSyncStream;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtValue OrtValue;

typedef enum OrtErrorCode {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NO_SUCHFILE = 3,
  ORT_NO_MODEL = 4,
  ORT_ENGINE_ERROR = 5,
  ORT_RUNTIME_EXCEPTION = 6,
  ORT_INVALID_PROTOBUF = 7,
  ORT_MODEL_LOADED = 8,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_INVALID_GRAPH = 10,
  ORT_EP_FAIL = 11,
  ORT_MODEL_LOAD_CANCELED = 12,
  ORT_MODEL_REQUIRES_COMPILATION = 13,
  ORT_NOT_FOUND = 14,
  ORT_DEVICE_RESET = 15,
} OrtErrorCode;

typedef enum OrtLoggingLevel {
  ORT_LOGGING_LEVEL_VERBOSE = 0,
  ORT_LOGGING_LEVEL_INFO = 1,
  ORT_LOGGING_LEVEL_WARNING = 2,
  ORT_LOGGING_LEVEL_ERROR = 3,
  ORT_LOGGING_LEVEL_FATAL = 4,
} OrtLoggingLevel;

typedef enum GraphOptimizationLevel {
  ORT_DISABLE_ALL = 0,
  ORT_ENABLE_BASIC = 1,
  ORT_ENABLE_EXTENDED = 2,
  ORT_ENABLE_LAYOUT = 3,
  ORT_ENABLE_ALL = 99,
} GraphOptimizationLevel;

typedef enum ONNXType {
  ONNX_TYPE_UNKNOWN = 0,
  ONNX_TYPE_TENSOR = 1,
  ONNX_TYPE_SEQUENCE = 2,
  ONNX_TYPE_MAP = 3,
  ONNX_TYPE_OPAQUE = 4,
  ONNX_TYPE_SPARSETENSOR = 5,
  ONNX_TYPE_OPTIONAL = 6,
} ONNXType;

typedef enum ONNXTensorElementDataType {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 = 14,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128 = 15,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN = 17,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ = 18,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2 = 19,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ = 20,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4 = 21,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 = 22,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1 = 23,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2 = 24,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2 = 25,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 = 26,
} ONNXTensorElementDataType;

typedef enum OrtAllocatorType {
  OrtDeviceAllocator = 0,
} OrtAllocatorType;

typedef enum OrtDeviceMemoryType {
  OrtDeviceMemoryType_DEFAULT = 0,
  OrtDeviceMemoryType_HOST_ACCESSIBLE = 5,
} OrtDeviceMemoryType;

typedef enum OrtMemoryInfoDeviceType {
  OrtMemoryInfoDeviceType_CPU = 0,
  OrtMemoryInfoDeviceType_GPU = 1,
  OrtMemoryInfoDeviceType_FPGA = 2,
  OrtMemoryInfoDeviceType_NPU = 3,
} OrtMemoryInfoDeviceType;

typedef enum OrtHardwareDeviceType {
  OrtHardwareDeviceType_CPU = 0,
  OrtHardwareDeviceType_GPU = 1,
  OrtHardwareDeviceType_NPU = 2,
} OrtHardwareDeviceType;

typedef enum OrtExecutionProviderDevicePolicy {
  OrtExecutionProviderDevicePolicy_DEFAULT = 0,
  OrtExecutionProviderDevicePolicy_PREFER_CPU = 1,
  OrtExecutionProviderDevicePolicy_PREFER_NPU = 2,
  OrtExecutionProviderDevicePolicy_PREFER_GPU = 3,
  OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE = 4,
  OrtExecutionProviderDevicePolicy_MAX_EFFICIENCY = 5,
  OrtExecutionProviderDevicePolicy_MIN_OVERALL_POWER = 6,
} OrtExecutionProviderDevicePolicy;

typedef enum OrtOpAttrType {
  ORT_OP_ATTR_UNDEFINED = 0,
  ORT_OP_ATTR_INT = 1,
  ORT_OP_ATTR_INTS = 2,
  ORT_OP_ATTR_FLOAT = 3,
  ORT_OP_ATTR_FLOATS = 4,
  ORT_OP_ATTR_STRING = 5,
  ORT_OP_ATTR_STRINGS = 6,
  ORT_OP_ATTR_GRAPH = 7,
  ORT_OP_ATTR_TENSOR = 8,
} OrtOpAttrType;

typedef void(ORT_CALL *OrtLoggingFunction)(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                                           const char *code_location, const char *message);

typedef struct OrtAllocator {
  uint32_t version; /* of the interface that the allocator was written for: later members may not be there */
  void *(ORT_CALL *Alloc)(struct OrtAllocator *self, size_t size);                          /* 1 */
  void(ORT_CALL *Free)(struct OrtAllocator *self, void *p);                                 /* 2 */
  const OrtMemoryInfo *(ORT_CALL *Info)(const struct OrtAllocator *self);                   /* 3 */
  void *(ORT_CALL *Reserve)(struct OrtAllocator *self, size_t size);                        /* 4, since 1.18 */
  OrtStatus *(ORT_CALL *GetStats)(const struct OrtAllocator *self, OrtKeyValuePairs **out); /* 5, since 1.23 */
  ort_slot slots_6[2]; /* since 1.23 and 1.25: ORT reads them by the version */
} OrtAllocator;

typedef struct OrtModelEditorApi {
  ort_slot slots_0[17];
  OrtStatus *(ORT_CALL *SessionGetOpsetForDomain)(const OrtSession *session, const char *domain, int *opset); /* 17 */
} OrtModelEditorApi;

typedef struct OrtEnvCreationOptions {
  uint32_t version;
  int32_t logging_severity_level;
  const char *log_id;
  OrtLoggingFunction custom_logging_function;
  void *custom_logging_param;
  const OrtThreadingOptions *threading_options;
  const OrtKeyValuePairs *config_entries;
} OrtEnvCreationOptions;

typedef enum OrtExternalMemoryHandleType {
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE = 0,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP = 1,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32 = 2,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD = 3,
} OrtExternalMemoryHandleType;

typedef enum OrtExternalSemaphoreType {
  ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE = 0,
  ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_WIN32 = 1,
  ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD = 2,
} OrtExternalSemaphoreType;

typedef struct OrtExternalMemoryDescriptor {
  uint32_t version;
  OrtExternalMemoryHandleType handle_type;
  void *native_handle;
  size_t size_bytes;
  size_t offset_bytes;
} OrtExternalMemoryDescriptor;

typedef struct OrtExternalSemaphoreDescriptor {
  uint32_t version;
  OrtExternalSemaphoreType type;
  void *native_handle;
} OrtExternalSemaphoreDescriptor;

typedef struct OrtExternalTensorDescriptor {
  uint32_t version;
  ONNXTensorElementDataType element_type;
  const int64_t *shape;
  size_t rank;
  size_t offset_bytes;
} OrtExternalTensorDescriptor;

typedef struct OrtInteropApi {
  OrtStatus *(ORT_CALL *CreateExternalResourceImporterForDevice)(const OrtEpDevice *ep_device, OrtExternalResourceImporter **out_importer); /* 0 */
  void (ORT_CALL *ReleaseExternalResourceImporter)(OrtExternalResourceImporter *input); /* 1 */
  OrtStatus *(ORT_CALL *CanImportMemory)(const OrtExternalResourceImporter *importer, OrtExternalMemoryHandleType handle_type, bool *out_supported); /* 2 */
  OrtStatus *(ORT_CALL *ImportMemory)(OrtExternalResourceImporter *importer, const OrtExternalMemoryDescriptor *desc, OrtExternalMemoryHandle **out_handle); /* 3 */
  void (ORT_CALL *ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle *input); /* 4 */
  OrtStatus *(ORT_CALL *CreateTensorFromMemory)(OrtExternalResourceImporter *importer, const OrtExternalMemoryHandle *mem_handle, const OrtExternalTensorDescriptor *tensor_desc, OrtValue **out_tensor); /* 5 */
  OrtStatus *(ORT_CALL *CanImportSemaphore)(const OrtExternalResourceImporter *importer, OrtExternalSemaphoreType type, bool *out_supported); /* 6 */
  OrtStatus *(ORT_CALL *ImportSemaphore)(OrtExternalResourceImporter *importer, const OrtExternalSemaphoreDescriptor *desc, OrtExternalSemaphoreHandle **out_handle); /* 7 */
  void (ORT_CALL *ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle *input); /* 8 */
  OrtStatus *(ORT_CALL *WaitSemaphore)(OrtExternalResourceImporter *importer, OrtExternalSemaphoreHandle *semaphore_handle, OrtSyncStream *stream, uint64_t value); /* 9 */
  OrtStatus *(ORT_CALL *SignalSemaphore)(OrtExternalResourceImporter *importer, OrtExternalSemaphoreHandle *semaphore_handle, OrtSyncStream *stream, uint64_t value); /* 10 */
} OrtInteropApi;

/* since 1.24 unless a line says otherwise; the number is the slot */
typedef struct OrtApi {
  OrtStatus *(ORT_CALL *CreateStatus)(OrtErrorCode code, const char *msg); /* 0 */
  OrtErrorCode (ORT_CALL *GetErrorCode)(const OrtStatus *status); /* 1 */
  const char *(ORT_CALL *GetErrorMessage)(const OrtStatus *status); /* 2 */
  OrtStatus *(ORT_CALL *CreateEnv)(OrtLoggingLevel log_severity_level, const char *logid, OrtEnv **out); /* 3 */
  OrtStatus *(ORT_CALL *CreateEnvWithCustomLogger)(OrtLoggingFunction logging_function, void *logger_param, OrtLoggingLevel log_severity_level, const char *logid, OrtEnv **out); /* 4 */
  ort_slot slots_5[2];
  OrtStatus *(ORT_CALL *CreateSession)(const OrtEnv *env, const ort_char *model_path, const OrtSessionOptions *options, OrtSession **out); /* 7 */
  OrtStatus *(ORT_CALL *CreateSessionFromArray)(const OrtEnv *env, const void *model_data, size_t model_data_length, const OrtSessionOptions *options, OrtSession **out); /* 8 */
  OrtStatus *(ORT_CALL *Run)(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names, const OrtValue *const *inputs, size_t input_len, const char *const *output_names, size_t output_names_len, OrtValue **outputs); /* 9 */
  OrtStatus *(ORT_CALL *CreateSessionOptions)(OrtSessionOptions **options); /* 10 */
  ort_slot slots_11[3];
  OrtStatus *(ORT_CALL *EnableProfiling)(OrtSessionOptions *options, const ort_char *profile_file_prefix); /* 14 */
  ort_slot slots_15[2];
  OrtStatus *(ORT_CALL *DisableMemPattern)(OrtSessionOptions *options); /* 17 */
  ort_slot slots_18[5];
  OrtStatus *(ORT_CALL *SetSessionGraphOptimizationLevel)(OrtSessionOptions *options, GraphOptimizationLevel graph_optimization_level); /* 23 */
  OrtStatus *(ORT_CALL *SetIntraOpNumThreads)(OrtSessionOptions *options, int intra_op_num_threads); /* 24 */
  OrtStatus *(ORT_CALL *SetInterOpNumThreads)(OrtSessionOptions *options, int inter_op_num_threads); /* 25 */
  ort_slot slots_26[4];
  OrtStatus *(ORT_CALL *SessionGetInputCount)(const OrtSession *session, size_t *out); /* 30 */
  OrtStatus *(ORT_CALL *SessionGetOutputCount)(const OrtSession *session, size_t *out); /* 31 */
  ort_slot slots_32[1];
  OrtStatus *(ORT_CALL *SessionGetInputTypeInfo)(const OrtSession *session, size_t index, OrtTypeInfo **type_info); /* 33 */
  OrtStatus *(ORT_CALL *SessionGetOutputTypeInfo)(const OrtSession *session, size_t index, OrtTypeInfo **type_info); /* 34 */
  ort_slot slots_35[1];
  OrtStatus *(ORT_CALL *SessionGetInputName)(const OrtSession *session, size_t index, OrtAllocator *allocator, char **value); /* 36 */
  OrtStatus *(ORT_CALL *SessionGetOutputName)(const OrtSession *session, size_t index, OrtAllocator *allocator, char **value); /* 37 */
  ort_slot slots_38[1];
  OrtStatus *(ORT_CALL *CreateRunOptions)(OrtRunOptions **out); /* 39 */
  ort_slot slots_40[1];
  OrtStatus *(ORT_CALL *RunOptionsSetRunLogSeverityLevel)(OrtRunOptions *options, int log_severity_level); /* 41 */
  OrtStatus *(ORT_CALL *RunOptionsSetRunTag)(OrtRunOptions *options, const char *run_tag); /* 42 */
  ort_slot slots_43[3];
  OrtStatus *(ORT_CALL *RunOptionsSetTerminate)(OrtRunOptions *options); /* 46 */
  OrtStatus *(ORT_CALL *RunOptionsUnsetTerminate)(OrtRunOptions *options); /* 47 */
  OrtStatus *(ORT_CALL *CreateTensorAsOrtValue)(OrtAllocator *allocator, const int64_t *shape, size_t shape_len, ONNXTensorElementDataType type, OrtValue **out); /* 48 */
  OrtStatus *(ORT_CALL *CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *info, void *p_data, size_t p_data_len, const int64_t *shape, size_t shape_len, ONNXTensorElementDataType type, OrtValue **out); /* 49 */
  OrtStatus *(ORT_CALL *IsTensor)(const OrtValue *value, int *out); /* 50 */
  OrtStatus *(ORT_CALL *GetTensorMutableData)(OrtValue *value, void **out); /* 51 */
  ort_slot slots_52[3];
  OrtStatus *(ORT_CALL *CastTypeInfoToTensorInfo)(const OrtTypeInfo *type_info, const OrtTensorTypeAndShapeInfo **out); /* 55 */
  OrtStatus *(ORT_CALL *GetOnnxTypeFromTypeInfo)(const OrtTypeInfo *type_info, ONNXType *out); /* 56 */
  ort_slot slots_57[3];
  OrtStatus *(ORT_CALL *GetTensorElementType)(const OrtTensorTypeAndShapeInfo *info, ONNXTensorElementDataType *out); /* 60 */
  OrtStatus *(ORT_CALL *GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *info, size_t *out); /* 61 */
  OrtStatus *(ORT_CALL *GetDimensions)(const OrtTensorTypeAndShapeInfo *info, int64_t *dim_values, size_t dim_values_length); /* 62 */
  OrtStatus *(ORT_CALL *GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo *info, const char *dim_params[], size_t dim_params_length); /* 63 */
  ort_slot slots_64[6];
  OrtStatus *(ORT_CALL *CompareMemoryInfo)(const OrtMemoryInfo *info1, const OrtMemoryInfo *info2, int *out); /* 70 */
  OrtStatus *(ORT_CALL *MemoryInfoGetName)(const OrtMemoryInfo *ptr, const char **out); /* 71 */
  OrtStatus *(ORT_CALL *MemoryInfoGetId)(const OrtMemoryInfo *ptr, int *out); /* 72 */
  ort_slot slots_73[3];
  OrtStatus *(ORT_CALL *AllocatorFree)(OrtAllocator *ort_allocator, void *p); /* 76 */
  ort_slot slots_77[1];
  OrtStatus *(ORT_CALL *GetAllocatorWithDefaultOptions)(OrtAllocator **out); /* 78 */
  ort_slot slots_79[3];
  OrtStatus *(ORT_CALL *CreateValue)(const OrtValue *const *in, size_t num_values, ONNXType value_type, OrtValue **out); /* 82 */
  ort_slot slots_83[5];
  OrtStatus *(ORT_CALL *KernelContext_GetInputCount)(const OrtKernelContext *context, size_t *out); /* 88 */
  OrtStatus *(ORT_CALL *KernelContext_GetOutputCount)(const OrtKernelContext *context, size_t *out); /* 89 */
  OrtStatus *(ORT_CALL *KernelContext_GetInput)(const OrtKernelContext *context, size_t index, const OrtValue **out); /* 90 */
  OrtStatus *(ORT_CALL *KernelContext_GetOutput)(OrtKernelContext *context, size_t index, const int64_t *dim_values, size_t dim_count, OrtValue **out); /* 91 */
  void (ORT_CALL *ReleaseEnv)(OrtEnv *input); /* 92 */
  void (ORT_CALL *ReleaseStatus)(OrtStatus *input); /* 93 */
  void (ORT_CALL *ReleaseMemoryInfo)(OrtMemoryInfo *input); /* 94 */
  void (ORT_CALL *ReleaseSession)(OrtSession *input); /* 95 */
  void (ORT_CALL *ReleaseValue)(OrtValue *input); /* 96 */
  void (ORT_CALL *ReleaseRunOptions)(OrtRunOptions *input); /* 97 */
  void (ORT_CALL *ReleaseTypeInfo)(OrtTypeInfo *input); /* 98 */
  ort_slot slots_99[1];
  void (ORT_CALL *ReleaseSessionOptions)(OrtSessionOptions *input); /* 100 */
  ort_slot slots_101[9];
  OrtStatus *(ORT_CALL *SessionEndProfiling)(OrtSession *session, OrtAllocator *allocator, char **out); /* 110 */
  OrtStatus *(ORT_CALL *SessionGetModelMetadata)(const OrtSession *session, OrtModelMetadata **out); /* 111 */
  OrtStatus *(ORT_CALL *ModelMetadataGetProducerName)(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char **value); /* 112 */
  OrtStatus *(ORT_CALL *ModelMetadataGetGraphName)(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char **value); /* 113 */
  OrtStatus *(ORT_CALL *ModelMetadataGetDomain)(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char **value); /* 114 */
  OrtStatus *(ORT_CALL *ModelMetadataGetDescription)(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char **value); /* 115 */
  OrtStatus *(ORT_CALL *ModelMetadataLookupCustomMetadataMap)(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, const char *key, char **value); /* 116 */
  OrtStatus *(ORT_CALL *ModelMetadataGetVersion)(const OrtModelMetadata *model_metadata, int64_t *value); /* 117 */
  void (ORT_CALL *ReleaseModelMetadata)(OrtModelMetadata *input); /* 118 */
  ort_slot slots_119[4];
  OrtStatus *(ORT_CALL *ModelMetadataGetCustomMetadataMapKeys)(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char ***keys, int64_t *num_keys); /* 123 */
  OrtStatus *(ORT_CALL *AddFreeDimensionOverrideByName)(OrtSessionOptions *options, const char *dim_name, int64_t dim_value); /* 124 */
  ort_slot slots_125[2];
  OrtStatus *(ORT_CALL *GetStringTensorElementLength)(const OrtValue *value, size_t index, size_t *out); /* 127 */
  OrtStatus *(ORT_CALL *GetStringTensorElement)(const OrtValue *value, size_t s_len, size_t index, void *s); /* 128 */
  OrtStatus *(ORT_CALL *FillStringTensorElement)(OrtValue *value, const char *s, size_t index); /* 129 */
  OrtStatus *(ORT_CALL *AddSessionConfigEntry)(OrtSessionOptions *options, const char *config_key, const char *config_value); /* 130 */
  OrtStatus *(ORT_CALL *CreateAllocator)(const OrtSession *session, const OrtMemoryInfo *mem_info, OrtAllocator **out); /* 131 */
  void (ORT_CALL *ReleaseAllocator)(OrtAllocator *input); /* 132 */
  OrtStatus *(ORT_CALL *RunWithBinding)(OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding_ptr); /* 133 */
  OrtStatus *(ORT_CALL *CreateIoBinding)(OrtSession *session, OrtIoBinding **out); /* 134 */
  void (ORT_CALL *ReleaseIoBinding)(OrtIoBinding *input); /* 135 */
  OrtStatus *(ORT_CALL *BindInput)(OrtIoBinding *binding_ptr, const char *name, const OrtValue *val_ptr); /* 136 */
  OrtStatus *(ORT_CALL *BindOutput)(OrtIoBinding *binding_ptr, const char *name, const OrtValue *val_ptr); /* 137 */
  OrtStatus *(ORT_CALL *BindOutputToDevice)(OrtIoBinding *binding_ptr, const char *name, const OrtMemoryInfo *mem_info_ptr); /* 138 */
  ort_slot slots_139[1];
  OrtStatus *(ORT_CALL *GetBoundOutputValues)(const OrtIoBinding *binding_ptr, OrtAllocator *allocator, OrtValue ***output, size_t *output_count); /* 140 */
  void (ORT_CALL *ClearBoundInputs)(OrtIoBinding *binding_ptr); /* 141 */
  void (ORT_CALL *ClearBoundOutputs)(OrtIoBinding *binding_ptr); /* 142 */
  ort_slot slots_143[22];
  OrtStatus *(ORT_CALL *AddRunConfigEntry)(OrtRunOptions *options, const char *config_key, const char *config_value); /* 165 */
  ort_slot slots_166[4];
  OrtStatus *(ORT_CALL *SessionOptionsAppendExecutionProvider_TensorRT_V2)(OrtSessionOptions *options, const OrtTensorRTProviderOptionsV2 *tensorrt_options); /* 170 */
  OrtStatus *(ORT_CALL *CreateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2 **out); /* 171 */
  OrtStatus *(ORT_CALL *UpdateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2 *tensorrt_options, const char *const *provider_options_keys, const char *const *provider_options_values, size_t num_keys); /* 172 */
  ort_slot slots_173[1];
  void (ORT_CALL *ReleaseTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2 *input); /* 174 */
  ort_slot slots_175[18];
  OrtStatus *(ORT_CALL *KernelContext_GetGPUComputeStream)(const OrtKernelContext *context, void **out); /* 193 */
  OrtStatus *(ORT_CALL *GetTensorMemoryInfo)(const OrtValue *value, const OrtMemoryInfo **mem_info); /* 194 */
  OrtStatus *(ORT_CALL *GetExecutionProviderApi)(const char *provider_name, uint32_t version, const void **provider_api); /* 195 */
  ort_slot slots_196[7];
  OrtStatus *(ORT_CALL *SynchronizeBoundOutputs)(OrtIoBinding *binding_ptr); /* 203 */
  ort_slot slots_204[1];
  OrtStatus *(ORT_CALL *CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2 **out); /* 205 */
  OrtStatus *(ORT_CALL *UpdateCUDAProviderOptions)(OrtCUDAProviderOptionsV2 *cuda_options, const char *const *provider_options_keys, const char *const *provider_options_values, size_t num_keys); /* 206 */
  ort_slot slots_207[1];
  void (ORT_CALL *ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2 *input); /* 208 */
  ort_slot slots_209[1];
  OrtStatus *(ORT_CALL *AddExternalInitializers)(OrtSessionOptions *options, const char *const *initializer_names, const OrtValue *const *initializers, size_t num_initializers); /* 210 */
  ort_slot slots_211[14];
  void (ORT_CALL *MemoryInfoGetDeviceType)(const OrtMemoryInfo *ptr, OrtMemoryInfoDeviceType *out); /* 225 */
  ort_slot slots_226[6];
  OrtStatus *(ORT_CALL *KernelInfo_GetInputName)(const OrtKernelInfo *info, size_t index, char *out, size_t *size); /* 232 */
  OrtStatus *(ORT_CALL *KernelInfo_GetOutputName)(const OrtKernelInfo *info, size_t index, char *out, size_t *size); /* 233 */
  ort_slot slots_234[13];
  OrtStatus *(ORT_CALL *Logger_LogMessage)(const OrtLogger *logger, OrtLoggingLevel log_severity_level, const char *message, const ort_char *file_path, int line_number, const char *func_name); /* 247 */
  ort_slot slots_248[4];
  OrtStatus *(ORT_CALL *GetResizedStringTensorElementBuffer)(OrtValue *value, size_t index, size_t length_in_bytes, char **buffer); /* 252 */
  ort_slot slots_253[19];
  OrtStatus *(ORT_CALL *ReadOpAttr)(const OrtOpAttr *op_attr, OrtOpAttrType type, void *data, size_t len, size_t *out); /* 272 */
  ort_slot slots_273[16];
  OrtStatus *(ORT_CALL *GetValueInfoName)(const OrtValueInfo *value_info, const char **name); /* 289 */
  OrtStatus *(ORT_CALL *GetValueInfoTypeInfo)(const OrtValueInfo *value_info, const OrtTypeInfo **type_info); /* 290 */
  const OrtModelEditorApi *(ORT_CALL *GetModelEditorApi)(void); /* 291 */
  OrtStatus *(ORT_CALL *CreateTensorWithDataAndDeleterAsOrtValue)(OrtAllocator *deleter, void *p_data, size_t p_data_len, const int64_t *shape, size_t shape_len, ONNXTensorElementDataType type, OrtValue **out); /* 292 */
  ort_slot slots_293[2];
  void (ORT_CALL *CreateKeyValuePairs)(OrtKeyValuePairs **out); /* 295 */
  void (ORT_CALL *AddKeyValuePair)(OrtKeyValuePairs *kvps, const char *key, const char *value); /* 296 */
  const char *(ORT_CALL *GetKeyValue)(const OrtKeyValuePairs *kvps, const char *key); /* 297 */
  void (ORT_CALL *GetKeyValuePairs)(const OrtKeyValuePairs *kvps, const char *const **keys, const char *const **values, size_t *num_entries); /* 298 */
  ort_slot slots_299[1];
  void (ORT_CALL *ReleaseKeyValuePairs)(OrtKeyValuePairs *input); /* 300 */
  OrtStatus *(ORT_CALL *RegisterExecutionProviderLibrary)(OrtEnv *env, const char *registration_name, const ort_char *path); /* 301 */
  OrtStatus *(ORT_CALL *UnregisterExecutionProviderLibrary)(OrtEnv *env, const char *registration_name); /* 302 */
  OrtStatus *(ORT_CALL *GetEpDevices)(const OrtEnv *env, const OrtEpDevice *const **ep_devices, size_t *num_ep_devices); /* 303 */
  OrtStatus *(ORT_CALL *SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions *session_options, OrtEnv *env, const OrtEpDevice *const *ep_devices, size_t num_ep_devices, const char *const *ep_option_keys, const char *const *ep_option_vals, size_t num_ep_options); /* 304 */
  OrtStatus *(ORT_CALL *SessionOptionsSetEpSelectionPolicy)(OrtSessionOptions *session_options, OrtExecutionProviderDevicePolicy policy); /* 305 */
  ort_slot slots_306[1];
  OrtHardwareDeviceType (ORT_CALL *HardwareDevice_Type)(const OrtHardwareDevice *device); /* 307 */
  uint32_t (ORT_CALL *HardwareDevice_VendorId)(const OrtHardwareDevice *device); /* 308 */
  const char *(ORT_CALL *HardwareDevice_Vendor)(const OrtHardwareDevice *device); /* 309 */
  uint32_t (ORT_CALL *HardwareDevice_DeviceId)(const OrtHardwareDevice *device); /* 310 */
  const OrtKeyValuePairs *(ORT_CALL *HardwareDevice_Metadata)(const OrtHardwareDevice *device); /* 311 */
  const char *(ORT_CALL *EpDevice_EpName)(const OrtEpDevice *ep_device); /* 312 */
  const char *(ORT_CALL *EpDevice_EpVendor)(const OrtEpDevice *ep_device); /* 313 */
  const OrtKeyValuePairs *(ORT_CALL *EpDevice_EpMetadata)(const OrtEpDevice *ep_device); /* 314 */
  const OrtKeyValuePairs *(ORT_CALL *EpDevice_EpOptions)(const OrtEpDevice *ep_device); /* 315 */
  const OrtHardwareDevice *(ORT_CALL *EpDevice_Device)(const OrtEpDevice *ep_device); /* 316 */
  const OrtEpApi *(ORT_CALL *GetEpApi)(void); /* 317 */
  OrtStatus *(ORT_CALL *GetTensorSizeInBytes)(const OrtValue *ort_value, size_t *size); /* 318 */
  OrtStatus *(ORT_CALL *AllocatorGetStats)(const OrtAllocator *ort_allocator, OrtKeyValuePairs **out); /* 319 */
  OrtStatus *(ORT_CALL *CreateMemoryInfo_V2)(const char *name, OrtMemoryInfoDeviceType device_type, uint32_t vendor_id, int32_t device_id, OrtDeviceMemoryType mem_type, size_t alignment, OrtAllocatorType allocator_type, OrtMemoryInfo **out); /* 320 */
  OrtDeviceMemoryType (ORT_CALL *MemoryInfoGetDeviceMemType)(const OrtMemoryInfo *ptr); /* 321 */
  uint32_t (ORT_CALL *MemoryInfoGetVendorId)(const OrtMemoryInfo *ptr); /* 322 */
  OrtStatus *(ORT_CALL *ValueInfo_GetValueProducer)(const OrtValueInfo *value_info, const OrtNode **producer_node, size_t *producer_output_index); /* 323 */
  ort_slot slots_324[2];
  OrtStatus *(ORT_CALL *ValueInfo_GetInitializerValue)(const OrtValueInfo *value_info, const OrtValue **initializer_value); /* 326 */
  ort_slot slots_327[4];
  OrtStatus *(ORT_CALL *ValueInfo_IsConstantInitializer)(const OrtValueInfo *value_info, bool *is_constant_initializer); /* 331 */
  OrtStatus *(ORT_CALL *ValueInfo_IsFromOuterScope)(const OrtValueInfo *value_info, bool *is_from_outer_scope); /* 332 */
  ort_slot slots_333[2];
  OrtStatus *(ORT_CALL *Graph_GetOnnxIRVersion)(const OrtGraph *graph, int64_t *onnx_ir_version); /* 335 */
  OrtStatus *(ORT_CALL *Graph_GetNumOperatorSets)(const OrtGraph *graph, size_t *num_operator_sets); /* 336 */
  OrtStatus *(ORT_CALL *Graph_GetOperatorSets)(const OrtGraph *graph, const char **domains, int64_t *opset_versions, size_t num_operator_sets); /* 337 */
  OrtStatus *(ORT_CALL *Graph_GetNumInputs)(const OrtGraph *graph, size_t *num_inputs); /* 338 */
  OrtStatus *(ORT_CALL *Graph_GetInputs)(const OrtGraph *graph, const OrtValueInfo **inputs, size_t num_inputs); /* 339 */
  OrtStatus *(ORT_CALL *Graph_GetNumOutputs)(const OrtGraph *graph, size_t *num_outputs); /* 340 */
  OrtStatus *(ORT_CALL *Graph_GetOutputs)(const OrtGraph *graph, const OrtValueInfo **outputs, size_t num_outputs); /* 341 */
  OrtStatus *(ORT_CALL *Graph_GetNumInitializers)(const OrtGraph *graph, size_t *num_initializers); /* 342 */
  OrtStatus *(ORT_CALL *Graph_GetInitializers)(const OrtGraph *graph, const OrtValueInfo **initializers, size_t num_initializers); /* 343 */
  OrtStatus *(ORT_CALL *Graph_GetNumNodes)(const OrtGraph *graph, size_t *num_nodes); /* 344 */
  OrtStatus *(ORT_CALL *Graph_GetNodes)(const OrtGraph *graph, const OrtNode **nodes, size_t num_nodes); /* 345 */
  OrtStatus *(ORT_CALL *Graph_GetParentNode)(const OrtGraph *graph, const OrtNode **node); /* 346 */
  ort_slot slots_347[1];
  OrtStatus *(ORT_CALL *Node_GetId)(const OrtNode *node, size_t *node_id); /* 348 */
  OrtStatus *(ORT_CALL *Node_GetName)(const OrtNode *node, const char **node_name); /* 349 */
  OrtStatus *(ORT_CALL *Node_GetOperatorType)(const OrtNode *node, const char **operator_type); /* 350 */
  OrtStatus *(ORT_CALL *Node_GetDomain)(const OrtNode *node, const char **domain_name); /* 351 */
  OrtStatus *(ORT_CALL *Node_GetSinceVersion)(const OrtNode *node, int *since_version); /* 352 */
  OrtStatus *(ORT_CALL *Node_GetNumInputs)(const OrtNode *node, size_t *num_inputs); /* 353 */
  OrtStatus *(ORT_CALL *Node_GetInputs)(const OrtNode *node, const OrtValueInfo **inputs, size_t num_inputs); /* 354 */
  OrtStatus *(ORT_CALL *Node_GetNumOutputs)(const OrtNode *node, size_t *num_outputs); /* 355 */
  OrtStatus *(ORT_CALL *Node_GetOutputs)(const OrtNode *node, const OrtValueInfo **outputs, size_t num_outputs); /* 356 */
  OrtStatus *(ORT_CALL *Node_GetNumImplicitInputs)(const OrtNode *node, size_t *num_implicit_inputs); /* 357 */
  OrtStatus *(ORT_CALL *Node_GetImplicitInputs)(const OrtNode *node, const OrtValueInfo **implicit_inputs, size_t num_implicit_inputs); /* 358 */
  OrtStatus *(ORT_CALL *Node_GetNumAttributes)(const OrtNode *node, size_t *num_attributes); /* 359 */
  OrtStatus *(ORT_CALL *Node_GetAttributes)(const OrtNode *node, const OrtOpAttr **attributes, size_t num_attributes); /* 360 */
  ort_slot slots_361[1];
  OrtStatus *(ORT_CALL *OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr *attribute, OrtValue **attr_tensor); /* 362 */
  OrtStatus *(ORT_CALL *OpAttr_GetType)(const OrtOpAttr *attribute, OrtOpAttrType *type); /* 363 */
  OrtStatus *(ORT_CALL *OpAttr_GetName)(const OrtOpAttr *attribute, const char **name); /* 364 */
  OrtStatus *(ORT_CALL *Node_GetNumSubgraphs)(const OrtNode *node, size_t *num_subgraphs); /* 365 */
  OrtStatus *(ORT_CALL *Node_GetSubgraphs)(const OrtNode *node, const OrtGraph **subgraphs, size_t num_subgraphs, const char **attribute_names); /* 366 */
  ort_slot slots_367[6];
  const char *(ORT_CALL *GetRunConfigEntry)(const OrtRunOptions *options, const char *config_key); /* 373 */
  const OrtMemoryInfo *(ORT_CALL *EpDevice_MemoryInfo)(const OrtEpDevice *ep_device, OrtDeviceMemoryType memory_type); /* 374 */
  OrtStatus *(ORT_CALL *CreateSharedAllocator)(OrtEnv *env, const OrtEpDevice *ep_device, OrtDeviceMemoryType mem_type, OrtAllocatorType allocator_type, const OrtKeyValuePairs *allocator_options, OrtAllocator **allocator); /* 375 */
  OrtStatus *(ORT_CALL *GetSharedAllocator)(OrtEnv *env, const OrtMemoryInfo *mem_info, OrtAllocator **allocator); /* 376 */
  ort_slot slots_377[1];
  OrtStatus *(ORT_CALL *GetTensorData)(const OrtValue *value, const void **out); /* 378 */
  OrtStatus *(ORT_CALL *GetSessionOptionsConfigEntries)(const OrtSessionOptions *options, OrtKeyValuePairs **out); /* 379 */
  OrtStatus *(ORT_CALL *SessionGetMemoryInfoForInputs)(const OrtSession *session, const OrtMemoryInfo **inputs_memory_info, size_t num_inputs); /* 380 */
  OrtStatus *(ORT_CALL *SessionGetMemoryInfoForOutputs)(const OrtSession *session, const OrtMemoryInfo **outputs_memory_info, size_t num_outputs); /* 381 */
  OrtStatus *(ORT_CALL *SessionGetEpDeviceForInputs)(const OrtSession *session, const OrtEpDevice **inputs_ep_devices, size_t num_inputs); /* 382 */
  OrtStatus *(ORT_CALL *CreateSyncStreamForEpDevice)(const OrtEpDevice *ep_device, const OrtKeyValuePairs *stream_options, OrtSyncStream **stream); /* 383 */
  void *(ORT_CALL *SyncStream_GetHandle)(OrtSyncStream *stream); /* 384 */
  void (ORT_CALL *ReleaseSyncStream)(OrtSyncStream *input); /* 385 */
  OrtStatus *(ORT_CALL *CopyTensors)(const OrtEnv *env, const OrtValue *const *src_tensors, OrtValue *const *dst_tensors, OrtSyncStream *stream, size_t num_tensors); /* 386 */
  ort_slot slots_387[3];
  bool (ORT_CALL *TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *info); /* 390 */
  ort_slot slots_391[4];
  const OrtInteropApi *(ORT_CALL *GetInteropApi)(void); /* 395 */
  OrtStatus *(ORT_CALL *SessionGetEpDeviceForOutputs)(const OrtSession *session, const OrtEpDevice **outputs_ep_devices, size_t num_outputs); /* 396 */
  ort_slot slots_397[9];
  OrtStatus *(ORT_CALL *CreateEnvWithOptions)(const OrtEnvCreationOptions *options, OrtEnv **out); /* 406 */
  OrtStatus *(ORT_CALL *Session_GetEpGraphAssignmentInfo)(const OrtSession *session, const OrtEpAssignedSubgraph *const **ep_subgraphs, size_t *num_ep_subgraphs); /* 407 */
  OrtStatus *(ORT_CALL *EpAssignedSubgraph_GetEpName)(const OrtEpAssignedSubgraph *ep_subgraph, const char **out); /* 408 */
  OrtStatus *(ORT_CALL *EpAssignedSubgraph_GetNodes)(const OrtEpAssignedSubgraph *ep_subgraph, const OrtEpAssignedNode *const **ep_nodes, size_t *num_ep_nodes); /* 409 */
  OrtStatus *(ORT_CALL *EpAssignedNode_GetName)(const OrtEpAssignedNode *ep_node, const char **out); /* 410 */
  OrtStatus *(ORT_CALL *EpAssignedNode_GetDomain)(const OrtEpAssignedNode *ep_node, const char **out); /* 411 */
  OrtStatus *(ORT_CALL *EpAssignedNode_GetOperatorType)(const OrtEpAssignedNode *ep_node, const char **out); /* 412 */
  void (ORT_CALL *RunOptionsSetSyncStream)(OrtRunOptions *options, OrtSyncStream *sync_stream); /* 413 */
  OrtStatus *(ORT_CALL *GetTensorElementTypeAndShapeDataReference)(const OrtValue *value, ONNXTensorElementDataType *elem_type, const int64_t **shape_data, size_t *shape_data_count); /* 414 */
  ort_slot slots_415[6];
  OrtStatus *(ORT_CALL *SessionReleaseCapturedGraph)(OrtSession *session, int graph_annotation_id); /* 421, since 1.27 */
} OrtApi;

/* The interface that GetExecutionProviderApi("DML") gives, in a build of ORT with that EP. The pointers are of Direct3D's objects. */
typedef struct OrtDmlApi {
  ort_slot slots_0[1];
  OrtStatus *(ORT_CALL *SessionOptionsAppendExecutionProvider_DML1)(OrtSessionOptions *options, void *dml_device, void *cmd_queue); /* 1 */
  OrtStatus *(ORT_CALL *CreateGPUAllocationFromD3DResource)(void *d3d_resource, void **dml_resource); /* 2 */
  OrtStatus *(ORT_CALL *FreeGPUAllocation)(void *dml_resource); /* 3 */
  OrtStatus *(ORT_CALL *GetD3D12ResourceFromAllocation)(OrtAllocator *provider, void *dml_resource, void **d3d_resource); /* 4 */
} OrtDmlApi;

typedef struct OrtApiBase {
  const OrtApi *(ORT_CALL *GetApi)(uint32_t version); /* 0 */
  const char *(ORT_CALL *GetVersionString)(void); /* 1 */
} OrtApiBase;

typedef const OrtApiBase *(ORT_CALL *OrtGetApiBaseFunction)(void); /* the one exported function: OrtGetApiBase */

#endif
