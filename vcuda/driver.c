/* libcuda.so.1: the part of CUDA's driver interface that programs use together with the runtime, for example to order a foreign stream by
 * events. It is implemented on the runtime. Error numbers are the same, a CUstream is a cudaStream_t, and a CUdeviceptr is an address. */
#define _GNU_SOURCE /* dladdr */

#include <dlfcn.h>
#include <string.h>

#include "cuda.h"
#include "work.h"

typedef struct driver_context {
  int device;
} driver_context;

static driver_context contexts[] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
enum { CONTEXTS = sizeof contexts / sizeof contexts[0] };

CUDA_API int cuInit(unsigned flags);
CUDA_API int cuDriverGetVersion(int *version);
CUDA_API int cuGetErrorName(int error, const char **name);
CUDA_API int cuGetErrorString(int error, const char **text);
CUDA_API int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
CUDA_API int cuDeviceGetCount(int *count);
CUDA_API int cuDeviceGet(int *device, int ordinal);
CUDA_API int cuDeviceGetName(char *name, int length, int device);
CUDA_API int cuDeviceGetAttribute(int *value, int attribute, int device);
CUDA_API int cuDeviceTotalMem_v2(size_t *bytes, int device);
CUDA_API int cuDevicePrimaryCtxRetain(driver_context **context, int device);
CUDA_API int cuDevicePrimaryCtxRelease_v2(int device);
CUDA_API int cuCtxGetCurrent(driver_context **context);
CUDA_API int cuCtxSetCurrent(driver_context *context);
CUDA_API int cuCtxPushCurrent_v2(driver_context *context);
CUDA_API int cuCtxPopCurrent_v2(driver_context **context);
CUDA_API int cuCtxGetDevice(int *device);
CUDA_API int cuCtxSynchronize(void);
CUDA_API int cuStreamCreate(cuda_stream *stream, unsigned flags);
CUDA_API int cuStreamDestroy_v2(cuda_stream stream);
CUDA_API int cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUDA_API int cuStreamGetPriority(cuda_stream stream, int *priority);
CUDA_API int cuStreamSetAttribute(cuda_stream stream, int attribute, const cuda_stream_attribute *value);
CUDA_API int cuStreamSynchronize(cuda_stream stream);
CUDA_API int cuStreamQuery(cuda_stream stream);
CUDA_API int cuStreamGetCtx(cuda_stream stream, driver_context **context);
CUDA_API int cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags);
CUDA_API int cuStreamIsCapturing(cuda_stream stream, int *status);
CUDA_API int cuEventCreate(cuda_event *event, unsigned flags);
CUDA_API int cuEventDestroy_v2(cuda_event event);
CUDA_API int cuEventRecord(cuda_event event, cuda_stream stream);
CUDA_API int cuEventQuery(cuda_event event);
CUDA_API int cuEventSynchronize(cuda_event event);
CUDA_API int cuLaunchHostFunc(cuda_stream stream, cuda_host_function function, void *data);
CUDA_API int cuMemAlloc_v2(uintptr_t *address, size_t bytes);
CUDA_API int cuMemFree_v2(uintptr_t address);
CUDA_API int cuMemPoolCreate(cuda_pool *pool, const cuda_pool_properties *properties);
CUDA_API int cuMemPoolDestroy(cuda_pool pool);
CUDA_API int cuMemPoolSetAttribute(cuda_pool pool, int attribute, void *value);
CUDA_API int cuMemPoolTrimTo(cuda_pool pool, size_t bytes);
CUDA_API int cuMemAllocFromPoolAsync(uintptr_t *address, size_t bytes, cuda_pool pool, cuda_stream stream);
CUDA_API int cuMemFreeAsync(uintptr_t address, cuda_stream stream);
CUDA_API int cuPointerGetAttribute(void *value, int attribute, uintptr_t address);
CUDA_API int cuMemGetInfo_v2(size_t *available, size_t *total);
CUDA_API int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes);
CUDA_API int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes);
CUDA_API int cuMemcpyAsync(uintptr_t to, uintptr_t from, size_t bytes, cuda_stream stream);
CUDA_API int cuMemsetD8Async(uintptr_t address, unsigned char value, size_t bytes, cuda_stream stream);
CUDA_API int cuImportExternalMemory(cuda_external_memory *memory, const cuda_external_memory_desc *desc);
CUDA_API int cuExternalMemoryGetMappedBuffer(uintptr_t *address, cuda_external_memory memory,
                                             const cuda_external_buffer_desc *desc);
CUDA_API int cuDestroyExternalMemory(cuda_external_memory memory);
CUDA_API int cuImportExternalSemaphore(cuda_external_semaphore *semaphore, const cuda_external_semaphore_desc *desc);
CUDA_API int cuSignalExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                             unsigned count, cuda_stream stream);
CUDA_API int cuWaitExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                           unsigned count, cuda_stream stream);
CUDA_API int cuDestroyExternalSemaphore(cuda_external_semaphore semaphore);
CUDA_API int cuTensorMapEncodeTiled(void);

/* Functions that free or destroy begin with VCUDA_OPEN, except for cuMemFreeAsync, which queues work. */
#define DRIVER_OPEN(stream) \
  VCUDA_OPEN(stream);       \
  if (vcuda_fails(__func__)) return vcuda_close(&call, CUDA_UNKNOWN)

int cuInit(unsigned flags) {
  DRIVER_OPEN(NULL);
  int count = 0;
  if (flags != 0) return vcuda_close(&call, CUDA_INVALID_VALUE);
  int error = cudaGetDeviceCount(&count);
  return vcuda_close(&call, error == CUDA_OK && count == 0 ? CUDA_NO_DEVICE : error);
}

int cuDriverGetVersion(int *version) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaDriverGetVersion(version));
}

int cuGetErrorName(int error, const char **name) {
  VCUDA_OPEN(NULL);
  *name = cudaGetErrorName(error);
  return vcuda_close(&call, CUDA_OK);
}

int cuGetErrorString(int error, const char **text) {
  VCUDA_OPEN(NULL);
  *text = cudaGetErrorString(error);
  return vcuda_close(&call, CUDA_OK);
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  DRIVER_OPEN(NULL);
  (void)version, (void)flags;
  Dl_info self;
  void *library = dladdr((const void *)contexts, &self) != 0 ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  *function = library == NULL ? NULL : dlsym(library, name);
  if (library != NULL) (void)dlclose(library);
  if (status != NULL) *status = *function == NULL ? 1 : 0;
  return vcuda_close(&call, *function == NULL ? CUDA_SYMBOL_NOT_FOUND : CUDA_OK);
}

/* ---- devices and contexts ---- */

int cuDeviceGetCount(int *count) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaGetDeviceCount(count));
}

static int check_device(int device) {
  int count = 0;
  int error = cudaGetDeviceCount(&count);
  if (error != CUDA_OK) return error;
  return device < 0 || device >= count || device >= CONTEXTS ? CUDA_INVALID_DEVICE : CUDA_OK;
}

int cuDeviceGet(int *device, int ordinal) {
  DRIVER_OPEN(NULL);
  *device = ordinal;
  return vcuda_close(&call, check_device(ordinal));
}

int cuDeviceGetName(char *name, int length, int device) {
  DRIVER_OPEN(NULL);
  cuda_properties properties;
  int error = cudaGetDeviceProperties(&properties, device);
  if (error != CUDA_OK || length <= 0) return vcuda_close(&call, error != CUDA_OK ? error : CUDA_INVALID_VALUE);
  size_t most = (size_t)length - 1, own = strlen(properties.name);
  memcpy(name, properties.name, own < most ? own : most);
  name[own < most ? own : most] = '\0';
  return vcuda_close(&call, CUDA_OK);
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaDeviceGetAttribute(value, attribute, device));
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  DRIVER_OPEN(NULL);
  cuda_properties properties;
  int error = cudaGetDeviceProperties(&properties, device);
  if (error == CUDA_OK) *bytes = properties.total_memory;
  return vcuda_close(&call, error);
}

int cuDevicePrimaryCtxRetain(driver_context **context, int device) {
  DRIVER_OPEN(NULL);
  int error = check_device(device);
  *context = error == CUDA_OK ? &contexts[device] : NULL;
  return vcuda_close(&call, error);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, check_device(device));
}

int cuCtxGetDevice(int *device) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaGetDevice(device));
}

int cuCtxGetCurrent(driver_context **context) {
  DRIVER_OPEN(NULL);
  int device = 0;
  int error = cudaGetDevice(&device);
  *context = error == CUDA_OK ? &contexts[device] : NULL;
  return vcuda_close(&call, error);
}

int cuCtxSetCurrent(driver_context *context) {
  DRIVER_OPEN(NULL);
  /* every thread always has a context, as with the runtime */
  return vcuda_close(&call, context == NULL ? CUDA_OK : cudaSetDevice(context->device));
}

enum { DEEPEST = 32 };
static _Thread_local int stack[DEEPEST], depth;

int cuCtxPushCurrent_v2(driver_context *context) {
  DRIVER_OPEN(NULL);
  if (context == NULL || depth == DEEPEST) return vcuda_close(&call, CUDA_INVALID_VALUE);
  int error = cudaGetDevice(&stack[depth]);
  if (error == CUDA_OK) error = cudaSetDevice(context->device);
  if (error == CUDA_OK) depth++;
  return vcuda_close(&call, error);
}

int cuCtxPopCurrent_v2(driver_context **context) {
  VCUDA_OPEN(NULL);
  if (depth == 0) return vcuda_close(&call, CUDA_INVALID_VALUE);
  if (context != NULL) (void)cuCtxGetCurrent(context);
  return vcuda_close(&call, cudaSetDevice(stack[--depth]));
}

int cuCtxSynchronize(void) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaDeviceSynchronize());
}

/* ---- streams and events ---- */

int cuStreamCreate(cuda_stream *stream, unsigned flags) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaStreamCreateWithFlags(stream, flags));
}

int cuStreamDestroy_v2(cuda_stream stream) {
  VCUDA_OPEN(stream);
  return vcuda_close(&call, cudaStreamDestroy(stream));
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaDeviceGetStreamPriorityRange(least, greatest));
}

int cuStreamGetPriority(cuda_stream stream, int *priority) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaStreamGetPriority(stream, priority));
}

int cuStreamSetAttribute(cuda_stream stream, int attribute, const cuda_stream_attribute *value) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaStreamSetAttribute(stream, attribute, value));
}

int cuStreamSynchronize(cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaStreamSynchronize(stream));
}

int cuStreamQuery(cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaStreamQuery(stream));
}

int cuStreamGetCtx(cuda_stream stream, driver_context **context) {
  DRIVER_OPEN(stream);
  int device = 0;
  int error = cudaStreamGetDevice(stream, &device);
  *context = error == CUDA_OK ? &contexts[device] : NULL;
  return vcuda_close(&call, error);
}

int cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaStreamWaitEvent(stream, event, flags));
}

int cuStreamIsCapturing(cuda_stream stream, int *status) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaStreamIsCapturing(stream, status));
}

int cuEventCreate(cuda_event *event, unsigned flags) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaEventCreateWithFlags(event, flags));
}

int cuEventDestroy_v2(cuda_event event) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, cudaEventDestroy(event));
}

int cuEventRecord(cuda_event event, cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaEventRecord(event, stream));
}

int cuEventQuery(cuda_event event) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaEventQuery(event));
}

int cuEventSynchronize(cuda_event event) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaEventSynchronize(event));
}

int cuLaunchHostFunc(cuda_stream stream, cuda_host_function function, void *data) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaLaunchHostFunc(stream, function, data));
}

/* ---- memory ---- */

int cuMemAlloc_v2(uintptr_t *address, size_t bytes) {
  DRIVER_OPEN(NULL);
  void *made = NULL;
  int error = cudaMalloc(&made, bytes);
  *address = (uintptr_t)made;
  return vcuda_close(&call, error);
}

int cuMemFree_v2(uintptr_t address) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, cudaFree((void *)address));
}

int cuMemPoolCreate(cuda_pool *pool, const cuda_pool_properties *properties) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaMemPoolCreate(pool, properties));
}

int cuMemPoolDestroy(cuda_pool pool) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, cudaMemPoolDestroy(pool));
}

int cuMemPoolSetAttribute(cuda_pool pool, int attribute, void *value) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaMemPoolSetAttribute(pool, attribute, value));
}

int cuMemPoolTrimTo(cuda_pool pool, size_t bytes) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaMemPoolTrimTo(pool, bytes));
}

int cuMemAllocFromPoolAsync(uintptr_t *address, size_t bytes, cuda_pool pool, cuda_stream stream) {
  DRIVER_OPEN(stream);
  void *made = NULL;
  int error = cudaMallocFromPoolAsync(&made, bytes, pool, stream);
  *address = (uintptr_t)made;
  return vcuda_close(&call, error);
}

int cuMemFreeAsync(uintptr_t address, cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaFreeAsync((void *)address, stream));
}

/* Memory type, managed, and the device's number; an address that was not allocated or registered here is an error. */
int cuPointerGetAttribute(void *value, int attribute, uintptr_t address) {
  DRIVER_OPEN(NULL);
  enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9, TYPE_HOST = 1, TYPE_DEVICE = 2 };
  cuda_pointer pointer;
  int error = cudaPointerGetAttributes(&pointer, (const void *)address);
  if (error == CUDA_OK && pointer.type == CUDA_MEMORY_UNREGISTERED) error = CUDA_INVALID_VALUE;
  if (error != CUDA_OK) return vcuda_close(&call, error);
  switch (attribute) {
    case MEMORY_TYPE: *(unsigned *)value = pointer.type == CUDA_MEMORY_DEVICE ? TYPE_DEVICE : TYPE_HOST; break;
    case IS_MANAGED: *(unsigned *)value = 0; break;
    case DEVICE_ORDINAL: *(int *)value = pointer.device; break;
    default: return vcuda_close(&call, CUDA_NOT_SUPPORTED);
  }
  return vcuda_close(&call, CUDA_OK);
}

int cuMemGetInfo_v2(size_t *available, size_t *total) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaMemGetInfo(available, total));
}

int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaMemcpy((void *)to, from, bytes, CUDA_COPY_UP));
}

int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaMemcpy(to, (const void *)from, bytes, CUDA_COPY_DOWN));
}

int cuMemcpyAsync(uintptr_t to, uintptr_t from, size_t bytes, cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaMemcpyAsync((void *)to, (const void *)from, bytes, CUDA_COPY_DEFAULT, stream));
}

int cuMemsetD8Async(uintptr_t address, unsigned char value, size_t bytes, cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaMemsetAsync((void *)address, value, bytes, stream));
}

/* ---- memory and semaphores of other libraries ---- */

int cuImportExternalMemory(cuda_external_memory *memory, const cuda_external_memory_desc *desc) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaImportExternalMemory(memory, desc));
}

int cuExternalMemoryGetMappedBuffer(uintptr_t *address, cuda_external_memory memory, const cuda_external_buffer_desc *desc) {
  DRIVER_OPEN(NULL);
  void *made = NULL;
  int error = cudaExternalMemoryGetMappedBuffer(&made, memory, desc);
  *address = (uintptr_t)made;
  return vcuda_close(&call, error);
}

int cuDestroyExternalMemory(cuda_external_memory memory) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, cudaDestroyExternalMemory(memory));
}

int cuImportExternalSemaphore(cuda_external_semaphore *semaphore, const cuda_external_semaphore_desc *desc) {
  DRIVER_OPEN(NULL);
  return vcuda_close(&call, cudaImportExternalSemaphore(semaphore, desc));
}

int cuSignalExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                    unsigned count, cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaSignalExternalSemaphoresAsync(semaphores, params, count, stream));
}

int cuWaitExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                  unsigned count, cuda_stream stream) {
  DRIVER_OPEN(stream);
  return vcuda_close(&call, cudaWaitExternalSemaphoresAsync(semaphores, params, count, stream));
}

int cuDestroyExternalSemaphore(cuda_external_semaphore semaphore) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, cudaDestroyExternalSemaphore(semaphore));
}

/* It makes a descriptor for device code of compute capability 9.0, which vcuda does not run. */
int cuTensorMapEncodeTiled(void) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, CUDA_NOT_SUPPORTED);
}
