/* The part of ONNX Runtime's plugin interface that an execution provider in this tree uses, in our own declarations; see
 * ort.h. ORT reads the members of what a plugin implements up to the version that `ort_version_supported` gives. */
#ifndef IOBIND_ABI_ORT_EP_H
#define IOBIND_ABI_ORT_EP_H

#include "ort.h"

typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtDataType OrtDataType;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtExternalResourceImporterImpl OrtExternalResourceImporterImpl;
typedef struct OrtKernelDef OrtKernelDef;
typedef struct OrtKernelDefBuilder OrtKernelDefBuilder;
typedef struct OrtKernelImpl OrtKernelImpl;
typedef struct OrtKernelRegistry OrtKernelRegistry;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
typedef struct OrtSyncNotificationImpl OrtSyncNotificationImpl;
typedef struct OrtSyncStreamImpl OrtSyncStreamImpl;

/* What a session with graph capture lets an EP leave to the CPU. */
typedef enum OrtGraphCaptureNodeAssignmentPolicy {
  OrtGraphCaptureNodeAssignmentPolicy_ALL_NODES_ON_EP = 0,
  OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES = 1
} OrtGraphCaptureNodeAssignmentPolicy;

typedef enum OrtMemType { OrtMemTypeCPUInput = -2, OrtMemTypeCPU = -1, OrtMemTypeDefault = 0 } OrtMemType;

typedef struct OrtNodeFusionOptions {
  uint32_t ort_version_supported;
  bool drop_constant_initializers;
} OrtNodeFusionOptions;

typedef OrtStatus *(ORT_CALL *OrtKernelCreateFunc)(void *state, const OrtKernelInfo *info, OrtKernelImpl **kernel_out);

struct OrtEpApi {
  OrtStatus *(ORT_CALL *CreateEpDevice)(OrtEpFactory *ep_factory, const OrtHardwareDevice *hardware_device,
                                        const OrtKeyValuePairs *ep_metadata, const OrtKeyValuePairs *ep_options,
                                        OrtEpDevice **ep_device); /* 0 */
  void(ORT_CALL *ReleaseEpDevice)(OrtEpDevice *input);            /* 1 */
  OrtStatus *(ORT_CALL *EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *graph_support_info,
                                                           const OrtNode *const *nodes, size_t num_nodes,
                                                           const OrtNodeFusionOptions *node_fusion_options); /* 2 */
  ort_slot slots_3[2];
  OrtStatus *(ORT_CALL *EpDevice_AddAllocatorInfo)(OrtEpDevice *ep_device, const OrtMemoryInfo *allocator_memory_info); /* 5 */
  const OrtMemoryDevice *(ORT_CALL *MemoryInfo_GetMemoryDevice)(const OrtMemoryInfo *memory_info);                      /* 6 */
  const OrtMemoryDevice *(ORT_CALL *Value_GetMemoryDevice)(const OrtValue *value);                                      /* 7 */
  ort_slot slots_8[1];
  OrtMemoryInfoDeviceType(ORT_CALL *MemoryDevice_GetDeviceType)(const OrtMemoryDevice *memory_device); /* 9 */
  OrtDeviceMemoryType(ORT_CALL *MemoryDevice_GetMemoryType)(const OrtMemoryDevice *memory_device);     /* 10 */
  uint32_t(ORT_CALL *MemoryDevice_GetVendorId)(const OrtMemoryDevice *memory_device);                  /* 11 */
  uint32_t(ORT_CALL *MemoryDevice_GetDeviceId)(const OrtMemoryDevice *memory_device);                  /* 12 */
  const OrtSyncStreamImpl *(ORT_CALL *SyncStream_GetImpl)(const OrtSyncStream *stream);                /* 13 */
  ort_slot slots_14[2];
  OrtStatus *(ORT_CALL *CreateHardwareDevice)(OrtHardwareDeviceType type, uint32_t vendor_id, uint32_t device_id,
                                              const char *vendor_name, const OrtKeyValuePairs *metadata,
                                              OrtHardwareDevice **hardware_device); /* 16 */
  void(ORT_CALL *ReleaseHardwareDevice)(OrtHardwareDevice *input);                  /* 17 */
  OrtStatus *(ORT_CALL *CreateKernelRegistry)(OrtKernelRegistry **kernel_registry); /* 18 */
  void(ORT_CALL *ReleaseKernelRegistry)(OrtKernelRegistry *input);                  /* 19 */
  OrtStatus *(ORT_CALL *KernelRegistry_AddKernel)(OrtKernelRegistry *kernel_registry, const OrtKernelDef *kernel_def,
                                                  OrtKernelCreateFunc kernel_create_func,
                                                  void *kernel_create_func_state);             /* 20 */
  OrtStatus *(ORT_CALL *CreateKernelDefBuilder)(OrtKernelDefBuilder **kernel_def_builder_out); /* 21 */
  void(ORT_CALL *ReleaseKernelDefBuilder)(OrtKernelDefBuilder *input);                         /* 22 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder *kernel_def_builder,
                                                          const char *op_type);                                   /* 23 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_SetDomain)(OrtKernelDefBuilder *kernel_def_builder, const char *domain); /* 24 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_SetSinceVersion)(OrtKernelDefBuilder *kernel_def_builder, int since_version_start,
                                                          int since_version_end); /* 25 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_SetExecutionProvider)(OrtKernelDefBuilder *kernel_def_builder,
                                                               const char *ep_name); /* 26 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_SetInputMemType)(OrtKernelDefBuilder *kernel_def_builder, size_t input_index,
                                                          OrtMemType mem_type); /* 27 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_SetOutputMemType)(OrtKernelDefBuilder *kernel_def_builder, size_t output_index,
                                                           OrtMemType mem_type); /* 28 */
  OrtStatus *(ORT_CALL *KernelDefBuilder_AddTypeConstraint)(OrtKernelDefBuilder *kernel_def_builder, const char *arg_name,
                                                            const OrtDataType *const *types, size_t num_types); /* 29 */
  ort_slot slots_30[2];
  OrtStatus *(ORT_CALL *KernelDefBuilder_Build)(OrtKernelDefBuilder *kernel_def_builder,
                                                OrtKernelDef **kernel_def_out); /* 32 */
  void(ORT_CALL *ReleaseKernelDef)(OrtKernelDef *input);                        /* 33 */
  ort_slot slots_34[6];
  OrtStatus *(ORT_CALL *GetTensorDataType)(ONNXTensorElementDataType elem_type, const OrtDataType **out); /* 40 */
  ort_slot slots_41[8];
  OrtStatus *(ORT_CALL *GetEnvConfigEntries)(OrtKeyValuePairs **config_entries); /* 49 */
};

struct OrtEpFactory {
  uint32_t ort_version_supported;
  const char *(ORT_CALL *GetName)(const OrtEpFactory *self);   /* 1 */
  const char *(ORT_CALL *GetVendor)(const OrtEpFactory *self); /* 2 */
  OrtStatus *(ORT_CALL *GetSupportedDevices)(OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t num_devices,
                                             OrtEpDevice **ep_devices, size_t max_ep_devices, size_t *num_ep_devices); /* 3 */
  OrtStatus *(ORT_CALL *CreateEp)(OrtEpFactory *self, const OrtHardwareDevice *const *devices,
                                  const OrtKeyValuePairs *const *ep_metadata_pairs, size_t num_devices,
                                  const OrtSessionOptions *session_options, const OrtLogger *logger, OrtEp **ep); /* 4 */
  void(ORT_CALL *ReleaseEp)(OrtEpFactory *self, OrtEp *ep);                                                       /* 5 */
  uint32_t(ORT_CALL *GetVendorId)(const OrtEpFactory *self);                                                      /* 6 */
  const char *(ORT_CALL *GetVersion)(const OrtEpFactory *self);                                                   /* 7 */
  ort_slot slots_8[1];
  OrtStatus *(ORT_CALL *CreateAllocator)(OrtEpFactory *self, const OrtMemoryInfo *memory_info,
                                         const OrtKeyValuePairs *allocator_options, OrtAllocator **allocator); /* 9 */
  void(ORT_CALL *ReleaseAllocator)(OrtEpFactory *self, OrtAllocator *allocator);                               /* 10 */
  OrtStatus *(ORT_CALL *CreateDataTransfer)(OrtEpFactory *self, OrtDataTransferImpl **data_transfer);          /* 11 */
  bool(ORT_CALL *IsStreamAware)(const OrtEpFactory *self);                                                     /* 12 */
  OrtStatus *(ORT_CALL *CreateSyncStreamForDevice)(OrtEpFactory *self, const OrtMemoryDevice *memory_device,
                                                   const OrtKeyValuePairs *stream_options, OrtSyncStreamImpl **stream); /* 13 */
  ort_slot slots_14[1];
  OrtStatus *(ORT_CALL *CreateExternalResourceImporterForDevice)(OrtEpFactory *self, const OrtEpDevice *ep_device,
                                                                 OrtExternalResourceImporterImpl **out_importer); /* 15 */
  ort_slot slots_16[5];
};

struct OrtEp {
  uint32_t ort_version_supported;
  const char *(ORT_CALL *GetName)(const OrtEp *self);                                                                  /* 1 */
  OrtStatus *(ORT_CALL *GetCapability)(OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *graph_support_info); /* 2 */
  OrtStatus *(ORT_CALL *Compile)(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                                 OrtNodeComputeInfo **node_compute_infos, OrtNode **ep_context_nodes); /* 3 */
  void(ORT_CALL *ReleaseNodeComputeInfos)(OrtEp *self, OrtNodeComputeInfo **node_compute_infos,
                                          size_t num_node_compute_infos); /* 4 */
  ort_slot slots_5[2];
  OrtStatus *(ORT_CALL *SetDynamicOptions)(OrtEp *self, const char *const *option_keys, const char *const *option_values,
                                           size_t num_options);                                                    /* 7 */
  OrtStatus *(ORT_CALL *OnRunStart)(OrtEp *self, const OrtRunOptions *run_options);                                /* 8 */
  OrtStatus *(ORT_CALL *OnRunEnd)(OrtEp *self, const OrtRunOptions *run_options, bool sync_stream);                /* 9 */
  OrtStatus *(ORT_CALL *CreateAllocator)(OrtEp *self, const OrtMemoryInfo *memory_info, OrtAllocator **allocator); /* 10 */
  OrtStatus *(ORT_CALL *CreateSyncStreamForDevice)(OrtEp *self, const OrtMemoryDevice *memory_device,
                                                   OrtSyncStreamImpl **stream); /* 11 */
  ort_slot slots_12[1];
  OrtStatus *(ORT_CALL *GetKernelRegistry)(OrtEp *self, const OrtKernelRegistry **kernel_registry); /* 13 */
  OrtStatus *(ORT_CALL *IsConcurrentRunSupported)(OrtEp *self, bool *is_supported);                 /* 14 */
  OrtStatus *(ORT_CALL *Sync)(OrtEp *self);                                                         /* 15, since 1.25 */
  ort_slot slots_16[1];
  bool(ORT_CALL *IsGraphCaptureEnabled)(const OrtEp *self);                                              /* 17, since 1.26 */
  bool(ORT_CALL *IsGraphCaptured)(const OrtEp *self, int graph_annotation_id);                           /* 18, since 1.26 */
  OrtStatus *(ORT_CALL *ReplayGraph)(OrtEp *self, int graph_annotation_id);                              /* 19, since 1.26 */
  OrtGraphCaptureNodeAssignmentPolicy(ORT_CALL *GetGraphCaptureNodeAssignmentPolicy)(const OrtEp *self); /* 20, since 1.26 */
  ort_slot slots_21[3];
  OrtStatus *(ORT_CALL *ReleaseCapturedGraph)(OrtEp *self, int graph_annotation_id); /* 24, since 1.27 */
  ort_slot slots_25[1];
};

struct OrtNodeComputeInfo {
  uint32_t ort_version_supported;
  OrtStatus *(ORT_CALL *CreateState)(OrtNodeComputeInfo *self, OrtNodeComputeContext *compute_context,
                                     void **compute_state);                                                        /* 1 */
  OrtStatus *(ORT_CALL *Compute)(OrtNodeComputeInfo *self, void *compute_state, OrtKernelContext *kernel_context); /* 2 */
  void(ORT_CALL *ReleaseState)(OrtNodeComputeInfo *self, void *compute_state);                                     /* 3 */
};

struct OrtKernelImpl {
  uint32_t ort_version_supported;
  uint32_t flags;
  OrtStatus *(ORT_CALL *Compute)(OrtKernelImpl *self, OrtKernelContext *context); /* 2 */
  void(ORT_CALL *Release)(OrtKernelImpl *self);                                   /* 3 */
  ort_slot slots_4[2];
};

struct OrtDataTransferImpl {
  uint32_t ort_version_supported;
  void(ORT_CALL *Release)(OrtDataTransferImpl *self); /* 1 */
  bool(ORT_CALL *CanCopy)(const OrtDataTransferImpl *self, const OrtMemoryDevice *src_memory_device,
                          const OrtMemoryDevice *dst_memory_device); /* 2 */
  OrtStatus *(ORT_CALL *CopyTensors)(OrtDataTransferImpl *self, const OrtValue **src_tensors, OrtValue **dst_tensors,
                                     OrtSyncStream **streams, size_t num_tensors); /* 3 */
};

struct OrtSyncStreamImpl {
  uint32_t ort_version_supported;
  void(ORT_CALL *Release)(OrtSyncStreamImpl *self);                                                           /* 1 */
  void *(ORT_CALL *GetHandle)(OrtSyncStreamImpl *self);                                                       /* 2 */
  OrtStatus *(ORT_CALL *CreateNotification)(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **notification); /* 3 */
  OrtStatus *(ORT_CALL *Flush)(OrtSyncStreamImpl *self);                                                      /* 4 */
  OrtStatus *(ORT_CALL *OnSessionRunEnd)(OrtSyncStreamImpl *self);                                            /* 5 */
};

struct OrtSyncNotificationImpl {
  uint32_t ort_version_supported;
  void(ORT_CALL *Release)(OrtSyncNotificationImpl *self);                                             /* 1 */
  OrtStatus *(ORT_CALL *Activate)(OrtSyncNotificationImpl *self);                                     /* 2 */
  OrtStatus *(ORT_CALL *WaitOnDevice)(OrtSyncNotificationImpl *self, OrtSyncStream *consumer_stream); /* 3 */
  OrtStatus *(ORT_CALL *WaitOnHost)(OrtSyncNotificationImpl *self);                                   /* 4 */
};

/* What an EP makes of an imported handle begins with one of these. */
struct OrtExternalMemoryHandle {
  uint32_t version;
  const OrtEpDevice *ep_device;
  OrtExternalMemoryDescriptor descriptor;
  void(ORT_CALL *Release)(OrtExternalMemoryHandle *self); /* 3 */
};

struct OrtExternalSemaphoreHandle {
  uint32_t version;
  const OrtEpDevice *ep_device;
  OrtExternalSemaphoreDescriptor descriptor;
  void(ORT_CALL *Release)(OrtExternalSemaphoreHandle *self); /* 3 */
};

struct OrtExternalResourceImporterImpl {
  uint32_t ort_version_supported;
  bool(ORT_CALL *CanImportMemory)(const OrtExternalResourceImporterImpl *self, OrtExternalMemoryHandleType handle_type); /* 1 */
  OrtStatus *(ORT_CALL *ImportMemory)(OrtExternalResourceImporterImpl *self, const OrtExternalMemoryDescriptor *desc,
                                      OrtExternalMemoryHandle **out_handle);                             /* 2 */
  void(ORT_CALL *ReleaseMemory)(OrtExternalResourceImporterImpl *self, OrtExternalMemoryHandle *handle); /* 3 */
  OrtStatus *(ORT_CALL *CreateTensorFromMemory)(OrtExternalResourceImporterImpl *self, const OrtExternalMemoryHandle *mem_handle,
                                                const OrtExternalTensorDescriptor *tensor_desc, OrtValue **out_tensor); /* 4 */
  bool(ORT_CALL *CanImportSemaphore)(const OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreType type);       /* 5 */
  OrtStatus *(ORT_CALL *ImportSemaphore)(OrtExternalResourceImporterImpl *self, const OrtExternalSemaphoreDescriptor *desc,
                                         OrtExternalSemaphoreHandle **out_handle);                             /* 6 */
  void(ORT_CALL *ReleaseSemaphore)(OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreHandle *handle); /* 7 */
  OrtStatus *(ORT_CALL *WaitSemaphore)(OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreHandle *handle,
                                       OrtSyncStream *stream, uint64_t value); /* 8 */
  OrtStatus *(ORT_CALL *SignalSemaphore)(OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreHandle *handle,
                                         OrtSyncStream *stream, uint64_t value); /* 9 */
  void(ORT_CALL *Release)(OrtExternalResourceImporterImpl *self);                /* 10 */
};

#endif
