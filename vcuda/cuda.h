/* The part of CUDA's runtime interface that vcuda implements: our own declarations of the ABI of CUDA 13 on Linux x86-64. Handles are plain
 * pointers, and every enum is an int, which has the same calling convention. */
#ifndef VCUDA_CUDA_H
#define VCUDA_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_API __attribute__((visibility("default")))

enum {
  CUDA_VERSION = 13000,
  CUDA_OK = 0,
  CUDA_INVALID_VALUE = 1,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_INVALID_CONFIGURATION = 9,
  CUDA_INVALID_SYMBOL = 13,
  CUDA_INVALID_DIRECTION = 21,
  CUDA_MISSING_CONFIGURATION = 52,
  CUDA_INVALID_FUNCTION = 98,
  CUDA_NO_DEVICE = 100,
  CUDA_INVALID_DEVICE = 101,
  CUDA_INVALID_CONTEXT = 201,
  CUDA_ECC = 214,
  CUDA_INVALID_HANDLE = 400,
  CUDA_ILLEGAL_STATE = 401,
  CUDA_SYMBOL_NOT_FOUND = 500,
  CUDA_NOT_READY = 600,
  CUDA_ILLEGAL_ADDRESS = 700,
  CUDA_OUT_OF_RESOURCES = 701,
  CUDA_ALREADY_REGISTERED = 712,
  CUDA_NOT_REGISTERED = 713,
  CUDA_LAUNCH_FAILURE = 719,
  CUDA_NOT_PERMITTED = 800,
  CUDA_NOT_SUPPORTED = 801,
  CUDA_CAPTURE_UNSUPPORTED = 900,
  CUDA_CAPTURE_INVALIDATED = 901,
  CUDA_CAPTURE_MERGE = 902,
  CUDA_CAPTURE_UNMATCHED = 903,
  CUDA_CAPTURE_UNJOINED = 904,
  CUDA_CAPTURE_ISOLATION = 905,
  CUDA_CAPTURE_IMPLICIT = 906,
  CUDA_CAPTURED_EVENT = 907,
  CUDA_CAPTURE_WRONG_THREAD = 908,
  CUDA_UNKNOWN = 999,
};

enum { CUDA_COPY_HOST_HOST, CUDA_COPY_UP, CUDA_COPY_DOWN, CUDA_COPY_DEVICE, CUDA_COPY_DEFAULT }; /* cudaMemcpyKind */
enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2, CUDA_EVENT_SHARED = 4, CUDA_EVENT_EXTERNAL = 1 };
enum { CUDA_CAPTURE_GLOBAL, CUDA_CAPTURE_THREAD_LOCAL, CUDA_CAPTURE_RELAXED }; /* cudaStreamCaptureMode */
enum { CUDA_CAPTURE_NONE, CUDA_CAPTURE_ACTIVE, CUDA_CAPTURE_BROKEN };          /* cudaStreamCaptureStatus */
enum { CUDA_MEMORY_UNREGISTERED, CUDA_MEMORY_HOST, CUDA_MEMORY_DEVICE };       /* cudaMemoryType */
enum { CUDA_NODE_KERNEL, CUDA_NODE_COPY, CUDA_NODE_SET, CUDA_NODE_HOST, CUDA_NODE_EMPTY = 5, CUDA_NODE_RECORD = 7 };

typedef struct vcuda_stream *cuda_stream; /* cudaStream_t: NULL and 1 are the legacy NULL stream, 2 the calling thread's own */
typedef struct vcuda_event *cuda_event;
typedef struct vcuda_graph *cuda_graph;
typedef struct vcuda_node *cuda_node;
typedef struct vcuda_exec *cuda_exec;
typedef struct vcuda_pool *cuda_pool;
typedef struct vcuda_function *cuda_kernel; /* cudaKernel_t */
typedef struct vcuda_library *cuda_library;
typedef void (*cuda_host_function)(void *data);

typedef struct cuda_dim3 {
  unsigned x, y, z;
} cuda_dim3;

typedef struct cuda_properties { /* cudaDeviceProp */
  char name[256];
  unsigned char uuid[16];
  unsigned char luid[8];
  unsigned luid_mask;
  size_t total_memory;
  size_t shared_per_block;
  int registers_per_block;
  int warp_size;
  size_t largest_pitch;
  int threads_per_block;
  int block[3];
  int grid[3];
  size_t constant_memory;
  int major, minor;
  size_t texture_alignment;
  size_t texture_pitch_alignment;
  int processors;
  int integrated;
  int maps_host_memory;
  int textures[39];
  size_t surface_alignment;
  int concurrent_kernels;
  int ecc;
  int pci_bus, pci_device, pci_domain;
  int tcc;
  int copy_engines;
  int unified_addressing;
  int bus_width;
  int l2_cache;
  int persisting_l2_cache;
  int threads_per_processor;
  int stream_priorities;
  int l1_caches[2];
  size_t shared_per_processor;
  int registers_per_processor;
  int managed_memory;
  int board[2];
  int host_access[5]; /* native atomics, pageable access, concurrent managed access, preemption, registered pointers */
  int cooperative_launch;
  size_t shared_per_block_optin;
  int host_tables[2];
  int blocks_per_processor;
  int access_window;
  size_t reserved_shared;
  int host_register;
  int sparse_arrays;
  int host_register_read_only;
  int semaphores;
  int pools;
  int others[71];
} cuda_properties;

typedef struct cuda_pointer { /* cudaPointerAttributes */
  int type;
  int device;
  void *on_device;
  void *on_host;
  long reserved[8];
} cuda_pointer;

typedef struct cuda_function_attributes { /* cudaFuncAttributes */
  size_t shared, constant, local;
  int threads, registers, ptx, binary, cache;
  int dynamic_shared;
  int others[24];
} cuda_function_attributes;

typedef struct cuda_launch { /* cudaLaunchConfig_t */
  cuda_dim3 grid, block;
  size_t shared;
  cuda_stream stream;
  void *attributes;
  unsigned attribute_count;
} cuda_launch;

typedef struct cuda_pool_properties { /* cudaMemPoolProps */
  int type, handles;
  int location_type, location;
  void *security;
  size_t limit;
  unsigned char others[56];
} cuda_pool_properties;

_Static_assert(sizeof(cuda_properties) == 1008 && offsetof(cuda_properties, total_memory) == 288 &&
                   offsetof(cuda_properties, major) == 360 && offsetof(cuda_properties, processors) == 384 &&
                   offsetof(cuda_properties, surface_alignment) == 552 && offsetof(cuda_properties, l2_cache) == 596 &&
                   offsetof(cuda_properties, shared_per_processor) == 624 &&
                   offsetof(cuda_properties, cooperative_launch) == 668 &&
                   offsetof(cuda_properties, shared_per_block_optin) == 672 && offsetof(cuda_properties, pools) == 720,
               "cudaDeviceProp");
_Static_assert(sizeof(cuda_pointer) == 88 && sizeof(cuda_function_attributes) == 144 && sizeof(cuda_launch) == 56 &&
                   sizeof(cuda_pool_properties) == 88,
               "CUDA's structs");

/* device.c */
CUDA_API int cudaGetDeviceCount(int *count);
CUDA_API int cudaGetDevice(int *device);
CUDA_API int cudaSetDevice(int device);
CUDA_API int cudaGetDeviceProperties(cuda_properties *properties, int device);
CUDA_API int cudaDeviceGetAttribute(int *value, int attribute, int device);
CUDA_API int cudaDeviceGetPCIBusId(char *id, int size, int device);
CUDA_API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
CUDA_API int cudaDeviceCanAccessPeer(int *can, int device, int peer);
CUDA_API int cudaDeviceSynchronize(void);
CUDA_API int cudaDeviceReset(void);
CUDA_API int cudaDriverGetVersion(int *version);
CUDA_API int cudaRuntimeGetVersion(int *version);
CUDA_API int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                              int *status);

/* call.c */
CUDA_API const char *cudaGetErrorName(int error);
CUDA_API const char *cudaGetErrorString(int error);
CUDA_API int cudaGetLastError(void);
CUDA_API int cudaPeekAtLastError(void);

/* memory.c, pinned.c */
CUDA_API int cudaMalloc(void **address, size_t bytes);
CUDA_API int cudaFree(void *address);
CUDA_API int cudaMemGetInfo(size_t *available, size_t *total);
CUDA_API int cudaPointerGetAttributes(cuda_pointer *attributes, const void *address);
CUDA_API int cudaHostAlloc(void **address, size_t bytes, unsigned flags);
CUDA_API int cudaMallocHost(void **address, size_t bytes);
CUDA_API int cudaFreeHost(void *address);
CUDA_API int cudaHostGetDevicePointer(void **on_device, void *on_host, unsigned flags);
CUDA_API int cudaHostRegister(void *address, size_t bytes, unsigned flags);
CUDA_API int cudaHostUnregister(void *address);
enum { CUDA_GREATEST_PRIORITY = -5, CUDA_LEAST_PRIORITY = 0 };
enum { CUDA_STREAM_PRIORITY = 8 }; /* cudaLaunchAttributePriority */

typedef union cuda_stream_attribute { /* cudaLaunchAttributeValue */
  char bytes[64];
  int priority;
} cuda_stream_attribute;

/* ---- memory and semaphores of other libraries and processes: external.c, semaphore.c, event.c ---- */

enum { CUDA_EXTERNAL_MEMORY_FD = 1 };   /* cudaExternalMemoryHandleType */
enum { CUDA_EXTERNAL_TIMELINE_FD = 9 }; /* cudaExternalSemaphoreHandleType */
enum { CUDA_IPC_LAZY = 1 };             /* cudaIpcMemLazyEnablePeerAccess */
typedef struct vcuda_external *cuda_external_memory;
typedef struct vcuda_semaphore *cuda_external_semaphore;

typedef union cuda_external_handle {
  int fd;
  struct {
    void *handle;
    const void *name;
  } win32;
} cuda_external_handle;

typedef struct cuda_external_memory_desc { /* cudaExternalMemoryHandleDesc; the driver's has reserved members at its end */
  int type;
  cuda_external_handle handle;
  uint64_t size;
  unsigned flags;
} cuda_external_memory_desc;

typedef struct cuda_external_buffer_desc {
  uint64_t offset;
  uint64_t size;
  unsigned flags;
} cuda_external_buffer_desc;

typedef struct cuda_external_semaphore_desc {
  int type;
  cuda_external_handle handle;
  unsigned flags;
} cuda_external_semaphore_desc;

typedef struct cuda_semaphore_params { /* cudaExternalSemaphoreSignalParams, cudaExternalSemaphoreWaitParams: same size */
  uint64_t value;                      /* of a timeline semaphore, or a fence */
  unsigned char others[64];
  unsigned flags;
  unsigned reserved[16];
} cuda_semaphore_params;

typedef struct cuda_ipc_handle { /* cudaIpcMemHandle_t, cudaIpcEventHandle_t */
  char bytes[64];
} cuda_ipc_handle;

CUDA_API int cudaImportExternalMemory(cuda_external_memory *memory, const cuda_external_memory_desc *desc);
CUDA_API int cudaExternalMemoryGetMappedBuffer(void **address, cuda_external_memory memory,
                                               const cuda_external_buffer_desc *desc);
CUDA_API int cudaDestroyExternalMemory(cuda_external_memory memory);
CUDA_API int cudaImportExternalSemaphore(cuda_external_semaphore *semaphore, const cuda_external_semaphore_desc *desc);
CUDA_API int cudaSignalExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                               unsigned count, cuda_stream stream);
CUDA_API int cudaWaitExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                             unsigned count, cuda_stream stream);
CUDA_API int cudaDestroyExternalSemaphore(cuda_external_semaphore semaphore);
CUDA_API int cudaIpcGetMemHandle(cuda_ipc_handle *handle, void *address);
CUDA_API int cudaIpcOpenMemHandle(void **address, cuda_ipc_handle handle, unsigned flags);
CUDA_API int cudaIpcCloseMemHandle(void *address);
CUDA_API int cudaIpcGetEventHandle(cuda_ipc_handle *handle, cuda_event event);
CUDA_API int cudaIpcOpenEventHandle(cuda_event *event, cuda_ipc_handle handle);

/* pool.c */
CUDA_API int cudaMemPoolCreate(cuda_pool *pool, const cuda_pool_properties *properties);
CUDA_API int cudaMemPoolDestroy(cuda_pool pool);
CUDA_API int cudaMemPoolGetAttribute(cuda_pool pool, int attribute, void *value);
CUDA_API int cudaMemPoolSetAttribute(cuda_pool pool, int attribute, void *value);
CUDA_API int cudaMemPoolTrimTo(cuda_pool pool, size_t bytes);
CUDA_API int cudaDeviceGetDefaultMemPool(cuda_pool *pool, int device);
CUDA_API int cudaMallocAsync(void **address, size_t bytes, cuda_stream stream);
CUDA_API int cudaMallocFromPoolAsync(void **address, size_t bytes, cuda_pool pool, cuda_stream stream);
CUDA_API int cudaFreeAsync(void *address, cuda_stream stream);

/* copy.c */
CUDA_API int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
CUDA_API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cuda_stream stream);
CUDA_API int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cuda_stream stream);
CUDA_API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                               int kind, cuda_stream stream);
CUDA_API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind);
CUDA_API int cudaMemset(void *address, int value, size_t bytes);
CUDA_API int cudaMemsetAsync(void *address, int value, size_t bytes, cuda_stream stream);

/* stream.c; cudaStreamWaitEvent: event.c */
CUDA_API int cudaStreamCreate(cuda_stream *stream);
CUDA_API int cudaStreamCreateWithFlags(cuda_stream *stream, unsigned flags);
CUDA_API int cudaStreamCreateWithPriority(cuda_stream *stream, unsigned flags, int priority);
CUDA_API int cudaStreamDestroy(cuda_stream stream);
CUDA_API int cudaStreamSynchronize(cuda_stream stream);
CUDA_API int cudaStreamQuery(cuda_stream stream);
CUDA_API int cudaStreamGetPriority(cuda_stream stream, int *priority);
CUDA_API int cudaStreamSetAttribute(cuda_stream stream, int attribute, const cuda_stream_attribute *value);
CUDA_API int cudaStreamGetFlags(cuda_stream stream, unsigned *flags);
CUDA_API int cudaStreamGetDevice(cuda_stream stream, int *device);
CUDA_API int cudaStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags);
CUDA_API int cudaLaunchHostFunc(cuda_stream stream, cuda_host_function function, void *data);

/* event.c */
CUDA_API int cudaEventCreate(cuda_event *event);
CUDA_API int cudaEventCreateWithFlags(cuda_event *event, unsigned flags);
CUDA_API int cudaEventDestroy(cuda_event event);
CUDA_API int cudaEventRecord(cuda_event event, cuda_stream stream);
CUDA_API int cudaEventRecordWithFlags(cuda_event event, cuda_stream stream, unsigned flags);
CUDA_API int cudaEventSynchronize(cuda_event event);
CUDA_API int cudaEventQuery(cuda_event event);
CUDA_API int cudaEventElapsedTime(float *milliseconds, cuda_event start, cuda_event end);

/* capture.c */
CUDA_API int cudaStreamBeginCapture(cuda_stream stream, int mode);
CUDA_API int cudaStreamEndCapture(cuda_stream stream, cuda_graph *graph);
CUDA_API int cudaStreamIsCapturing(cuda_stream stream, int *status);
CUDA_API int cudaStreamGetCaptureInfo(cuda_stream stream, int *status, unsigned long long *id, cuda_graph *graph,
                                      const cuda_node **nodes, const void **edges, size_t *count);
CUDA_API int cudaThreadExchangeStreamCaptureMode(int *mode);

/* graph.c */
CUDA_API int cudaGraphInstantiate(cuda_exec *exec, cuda_graph graph, unsigned long long flags);
CUDA_API int cudaGraphLaunch(cuda_exec exec, cuda_stream stream);
CUDA_API int cudaGraphGetNodes(cuda_graph graph, cuda_node *nodes, size_t *count);
CUDA_API int cudaGraphNodeGetType(cuda_node node, int *type);
CUDA_API int cudaGraphDestroy(cuda_graph graph);
CUDA_API int cudaGraphExecDestroy(cuda_exec exec);

/* launch.c */
CUDA_API void **__cudaRegisterFatBinary(void *binary);
CUDA_API void __cudaRegisterFatBinaryEnd(void **handle);
CUDA_API void __cudaUnregisterFatBinary(void **handle);
CUDA_API void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name, int threads,
                                     void *thread, void *block, void *block_dim, void *grid_dim, int *warp);
CUDA_API void __cudaRegisterVar(void **handle, char *variable, char *device_address, const char *name, int external,
                                size_t bytes, int constant, int global);
CUDA_API unsigned __cudaPushCallConfiguration(cuda_dim3 grid, cuda_dim3 block, size_t shared, cuda_stream stream);
CUDA_API int __cudaPopCallConfiguration(cuda_dim3 *grid, cuda_dim3 *block, size_t *shared, void *stream);
CUDA_API int __cudaGetKernel(cuda_kernel *kernel, const void *function);
CUDA_API int __cudaLaunchKernel(cuda_kernel kernel, cuda_dim3 grid, cuda_dim3 block, void **arguments, size_t shared,
                                cuda_stream stream);
CUDA_API int cudaLaunchKernel(const void *function, cuda_dim3 grid, cuda_dim3 block, void **arguments, size_t shared,
                              cuda_stream stream);
CUDA_API int cudaLaunchCooperativeKernel(const void *function, cuda_dim3 grid, cuda_dim3 block, void **arguments, size_t shared,
                                         cuda_stream stream);
CUDA_API int cudaLaunchKernelExC(const cuda_launch *launch, const void *function, void **arguments);
CUDA_API int cudaFuncGetAttributes(cuda_function_attributes *attributes, const void *function);
CUDA_API int cudaFuncSetAttribute(const void *function, int attribute, int value);
CUDA_API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads,
                                                                    size_t shared, unsigned flags);
CUDA_API int cudaKernelSetAttributeForDevice(cuda_kernel kernel, int attribute, int value, int device);
CUDA_API int cudaLibraryLoadData(cuda_library *library, const void *code, void *jit_options, void **jit_values,
                                 unsigned jit_count, void *options, void **values, unsigned count);
CUDA_API int cudaLibraryGetKernel(cuda_kernel *kernel, cuda_library library, const char *name);
CUDA_API int cudaLibraryUnload(cuda_library library);

#endif
