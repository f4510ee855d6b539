/* Memory of other libraries and processes: pages of a file, mapped as a block of a device. */
#define _GNU_SOURCE /* O_CLOEXEC */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"

/* ---- by a file descriptor ---- */

struct vcuda_external {
  int file; /* the library owns it, as CUDA does */
  size_t size;
};

static bool holds(int file, uint64_t bytes) {
  struct stat status;
  return fstat(file, &status) == 0 && status.st_size >= 0 && (uint64_t)status.st_size >= bytes;
}

int cudaImportExternalMemory(cuda_external_memory *memory, const cuda_external_memory_desc *desc) {
  VCUDA_ENTER_DEVICE(NULL);
  if (memory == NULL || desc == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *memory = NULL;
  if (desc->type != CUDA_EXTERNAL_MEMORY_FD) {
    vcuda_log("%s: memory by handles of type %d is not known here: 1, a file descriptor, is", __func__, desc->type);
    return vcuda_end(&call, CUDA_NOT_SUPPORTED);
  }
  if (desc->size == 0 || !holds(desc->handle.fd, desc->size)) {
    vcuda_log("%s: file descriptor %d is not a file of %llu bytes", __func__, desc->handle.fd, (unsigned long long)desc->size);
    return vcuda_end(&call, CUDA_INVALID_VALUE);
  }
  vcuda_lock();
  vcuda_device *device = vcuda_device_current();
  bool fails = vcuda_trigger_fails(&device->settings, VCUDA_SITE_ALLOC, (int64_t)desc->size, __func__, false);
  vcuda_unlock();
  cuda_external_memory made = fails ? NULL : malloc(sizeof *made);
  if (made == NULL) return vcuda_end(&call, CUDA_OUT_OF_MEMORY);
  *made = (struct vcuda_external){desc->handle.fd, desc->size};
  *memory = made;
  return vcuda_end(&call, CUDA_OK);
}

static int map(void **address, int file, size_t start, size_t bytes) {
  int error = vcuda_capture_refuses_unsafe();
  if (error != CUDA_OK) return error;
  *address = vcuda_memory_adopt(vcuda_device_current(), file, start, bytes);
  return *address == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

/* cudaFree releases the buffer. */
int cudaExternalMemoryGetMappedBuffer(void **address, cuda_external_memory memory, const cuda_external_buffer_desc *desc) {
  VCUDA_ENTER_DEVICE(NULL);
  if (address == NULL || memory == NULL || desc == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *address = NULL;
  if (desc->size == 0 || desc->offset > memory->size || desc->size > memory->size - desc->offset || desc->flags != 0) {
    vcuda_log("%s: %llu bytes at offset %llu of memory of %zu bytes, flags %u", __func__, (unsigned long long)desc->size,
              (unsigned long long)desc->offset, memory->size, desc->flags);
    return vcuda_end(&call, CUDA_INVALID_VALUE);
  }
  vcuda_lock();
  vcuda_settings *settings = &vcuda_device_current()->settings;
  int error = vcuda_trigger_fails(settings, VCUDA_SITE_ALLOC, (int64_t)desc->size, __func__, false)
                  ? CUDA_OUT_OF_MEMORY
                  : map(address, memory->file, desc->offset, desc->size);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaDestroyExternalMemory(cuda_external_memory memory) {
  VCUDA_ENTER(NULL);
  if (memory == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  (void)close(memory->file);
  free(memory);
  return vcuda_end(&call, CUDA_OK);
}

/* ---- memory of another process ---- */

/* The content of a cuda_ipc_handle: the owning process and its descriptor of the device's file. */
typedef struct shared_block {
  char mark[8];
  int64_t process;
  int32_t file;
  int32_t device;
  uint64_t start;
  uint64_t bytes;
} shared_block;

static const char mark[8] = "vcudaipc";
_Static_assert(sizeof(shared_block) <= sizeof(cuda_ipc_handle), "a handle has room for it");

/* The block that contains an address. */
static const vcuda_block *find_block(const vcuda_device *device, const void *address) {
  size_t offset = (size_t)((const unsigned char *)address - device->base);
  for (size_t i = 0; i < device->block_count; i++) {
    const vcuda_block *block = &device->blocks[i];
    if (block->offset <= offset && offset - block->offset < block->size) return block;
  }
  return NULL;
}

static int describe(cuda_ipc_handle *handle, const void *address) {
  const vcuda_device *device = vcuda_memory_owner(address);
  const vcuda_block *block = device == NULL ? NULL : find_block(device, address);
  if (block == NULL || block->foreign || block->pool != NULL) return CUDA_INVALID_VALUE; /* only memory of cudaMalloc */
  shared_block described = {
      .process = getpid(), .file = device->file, .device = device->index, .start = block->offset, .bytes = block->size};
  memcpy(described.mark, mark, sizeof mark);
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &described, sizeof described);
  return CUDA_OK;
}

int cudaIpcGetMemHandle(cuda_ipc_handle *handle, void *address) {
  VCUDA_ENTER_DEVICE(NULL);
  if (handle == NULL || address == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  int error = describe(handle, address);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

static int open_block(void **address, const shared_block *described) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)described->process, described->file);
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_INVALID_VALUE;
  vcuda_lock();
  int error = described->device == vcuda_device_current()->index ? map(address, file, described->start, described->bytes)
                                                                 : CUDA_INVALID_DEVICE;
  vcuda_unlock();
  (void)close(file);
  return error;
}

int cudaIpcOpenMemHandle(void **address, cuda_ipc_handle handle, unsigned flags) {
  VCUDA_ENTER_DEVICE(NULL);
  shared_block described;
  memcpy(&described, &handle, sizeof described);
  if (address == NULL || flags != CUDA_IPC_LAZY || memcmp(described.mark, mark, sizeof mark) != 0) {
    return vcuda_end(&call, CUDA_INVALID_VALUE);
  }
  *address = NULL;
  if (described.process == getpid()) return vcuda_end(&call, CUDA_INVALID_CONTEXT); /* as CUDA: valid only in another process */
  return vcuda_end(&call, open_block(address, &described));
}

int cudaIpcCloseMemHandle(void *address) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  vcuda_device *device = vcuda_memory_owner(address);
  vcuda_block *block = device == NULL ? NULL : vcuda_memory_block(device, address);
  int error = block == NULL || !block->foreign ? CUDA_INVALID_VALUE : CUDA_OK;
  if (error == CUDA_OK) {
    (void)vcuda_queue_wait_all(device);
    vcuda_memory_release(device, vcuda_memory_block(device, address));
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}
