#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "vcuda.h"

vcuda_state vcuda_global = {.mutex = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static _Thread_local int current_device;

static bool make_device(vcuda_device *device, int index, const vcuda_settings *settings) {
  device->index = index;
  device->settings = *settings;
  if (!vcuda_memory_reserve(device)) return false;
  device->null_stream = vcuda_stream_make(device, 0);
  return device->null_stream != NULL;
}

static char trace_file[4096];

/* NULL: the environment names no file, or the name is too long. */
static const char *trace_path(void) {
  const char *path = getenv("VCUDA_TRACE_FILE");
  return path != NULL && path[0] != '\0' && strlen(path) < sizeof trace_file ? path : NULL;
}

bool vcuda_trace_is_wanted(void) {
  const char *value = getenv("VCUDA_TRACE");
  vcuda_settings settings;
  vcuda_settings_default(&settings);
  bool is_set = value != NULL && vcuda_settings_set(&settings, "trace", value, true) && settings.trace != 0;
  return is_set || trace_path() != NULL;
}

static void write_trace(void) {
  if (vcuda_trace_write(trace_file) != 0) fprintf(stderr, "vcuda: the trace cannot be written to '%s'\n", trace_file);
}

static void start(void) {
  vcuda_settings settings;
  const char *path = trace_path();
  vcuda_settings_default(&settings);
  vcuda_settings_read_environment(&settings);
  if (path != NULL) {
    memcpy(trace_file, path, strlen(path) + 1);
    settings.trace = 1;
    (void)atexit(write_trace);
  }
  vcuda_lock();
  vcuda_global.agent_limit = 1; /* the host */
  while (vcuda_global.device_count < settings.devices &&
         make_device(&vcuda_global.devices[vcuda_global.device_count], vcuda_global.device_count, &settings)) {
    vcuda_global.device_count++;
  }
  vcuda_trace_follow_settings();
  vcuda_unlock();
}

void vcuda_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, start);
}

vcuda_device *vcuda_device_at(int index) {
  return index >= 0 && index < vcuda_global.device_count ? &vcuda_global.devices[index] : NULL;
}

vcuda_device *vcuda_device_current(void) {
  return vcuda_device_at(current_device);
}

int vcuda_current_device(void) {
  return current_device;
}

int64_t vcuda_cudnn_version(void) {
  vcuda_settings settings;
  vcuda_start();
  vcuda_settings_default(&settings);
  return vcuda_global.device_count > 0 ? vcuda_global.devices[0].settings.cudnn : settings.cudnn;
}

void vcuda_count_sync(vcuda_device *device, vcuda_counter counter) {
  vcuda_count(device, counter, 1);
  vcuda_count(device, VCUDA_COUNT_syncs, 1);
}

/* ---- CUDA's queries ---- */

int cudaGetDeviceCount(int *count) {
  VCUDA_ENTER(NULL);
  *count = vcuda_global.device_count;
  return vcuda_end(&call, *count > 0 ? CUDA_OK : CUDA_NO_DEVICE);
}

int cudaGetDevice(int *device) {
  VCUDA_ENTER(NULL);
  *device = current_device;
  return vcuda_end(&call, vcuda_global.device_count > 0 ? CUDA_OK : CUDA_NO_DEVICE);
}

int cudaSetDevice(int device) {
  VCUDA_ENTER(NULL);
  if (vcuda_device_at(device) == NULL) return vcuda_end(&call, CUDA_INVALID_DEVICE);
  current_device = device;
  return vcuda_end(&call, CUDA_OK);
}

/* The properties of an A100 with 80 GiB, except for the memory size and those that settings change. */
static void describe(const vcuda_device *device, cuda_properties *p) {
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "vcuda %d", device->index);
  memcpy(p->uuid, "vcuda", 5);
  p->uuid[15] = (unsigned char)device->index;
  p->total_memory = (size_t)device->settings.memory;
  p->shared_per_block = 49152;
  p->shared_per_block_optin = 166912;
  p->shared_per_processor = 167936;
  p->reserved_shared = 1024;
  p->registers_per_block = p->registers_per_processor = 65536;
  p->warp_size = 32;
  p->largest_pitch = 2147483647;
  p->threads_per_block = 1024;
  p->threads_per_processor = 2048;
  p->blocks_per_processor = 32;
  p->block[0] = p->block[1] = 1024;
  p->block[2] = 64;
  p->grid[0] = 2147483647;
  p->grid[1] = p->grid[2] = 65535;
  p->constant_memory = 65536;
  p->major = (int)device->settings.capability / 10;
  p->minor = (int)device->settings.capability % 10;
  p->processors = 108;
  p->pci_bus = device->index + 1;
  p->copy_engines = 3;
  p->l2_cache = 41943040;
  p->maps_host_memory = p->concurrent_kernels = p->unified_addressing = p->cooperative_launch = p->pools = 1;
}

int cudaGetDeviceProperties(cuda_properties *properties, int device) {
  VCUDA_ENTER(NULL);
  const vcuda_device *found = vcuda_device_at(device);
  if (found == NULL) return vcuda_end(&call, CUDA_INVALID_DEVICE);
  describe(found, properties);
  return vcuda_end(&call, CUDA_OK);
}

/* Values of cudaDeviceAttr by number. Attributes that no caller queries are 0. */
static int attribute_of(const cuda_properties *p, int attribute) {
  switch (attribute) {
    case 1: return p->threads_per_block;
    case 2:
    case 3:
    case 4: return p->block[attribute - 2];
    case 5:
    case 6:
    case 7: return p->grid[attribute - 5];
    case 8: return (int)p->shared_per_block;
    case 9: return (int)p->constant_memory;
    case 10: return p->warp_size;
    case 12: return p->registers_per_block;
    case 16: return p->processors;
    case 19: /* maps host memory, concurrent kernels, unified addressing, cooperative launches, pools */
    case 31:
    case 41:
    case 95:
    case 115: return 1;
    case 33: return p->pci_bus;
    case 38: return p->l2_cache;
    case 39: return p->threads_per_processor;
    case 40: return p->copy_engines;
    case 75: return p->major;
    case 76: return p->minor;
    case 81: return (int)p->shared_per_processor;
    case 82: return p->registers_per_processor;
    case 97: return (int)p->shared_per_block_optin;
    case 106: return p->blocks_per_processor;
    case 111: return (int)p->reserved_shared;
    default: return 0;
  }
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  VCUDA_ENTER(NULL);
  const vcuda_device *found = vcuda_device_at(device);
  cuda_properties properties;
  if (found == NULL) return vcuda_end(&call, CUDA_INVALID_DEVICE);
  describe(found, &properties);
  *value = attribute_of(&properties, attribute);
  return vcuda_end(&call, CUDA_OK);
}

int cudaDeviceGetPCIBusId(char *id, int size, int device) {
  VCUDA_ENTER(NULL);
  if (vcuda_device_at(device) == NULL) return vcuda_end(&call, CUDA_INVALID_DEVICE);
  int length = snprintf(id, (size_t)size, "0000:%02X:00.0", device + 1);
  return vcuda_end(&call, length < size ? CUDA_OK : CUDA_INVALID_VALUE);
}

int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  VCUDA_ENTER(NULL);
  if (least != NULL) *least = CUDA_LEAST_PRIORITY;
  if (greatest != NULL) *greatest = CUDA_GREATEST_PRIORITY;
  return vcuda_end(&call, CUDA_OK);
}

int cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  VCUDA_ENTER(NULL);
  bool known = vcuda_device_at(device) != NULL && vcuda_device_at(peer) != NULL;
  *can = 0; /* kernels can access only memory of their own device; copies between devices work */
  return vcuda_end(&call, known ? CUDA_OK : CUDA_INVALID_DEVICE);
}

int cudaDeviceSynchronize(void) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_lock();
  vcuda_device *device = vcuda_device_current();
  int error = vcuda_capture_refuses_device(device);
  if (error == CUDA_OK) {
    vcuda_count_sync(device, VCUDA_COUNT_sync_device);
    error = vcuda_queue_wait_all(device);
    if (error == CUDA_OK) error = vcuda_take_missed(device);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaDeviceReset(void) {
  VCUDA_ENTER(NULL);
  vcuda_device *device = vcuda_device_current();
  if (device == NULL) return vcuda_end(&call, CUDA_NO_DEVICE);
  vcuda_lock();
  vcuda_count_sync(device, VCUDA_COUNT_sync_device);
  vcuda_unlock();
  return vcuda_end(&call, vcuda_recover(current_device) < 0 ? CUDA_INVALID_DEVICE : CUDA_OK);
}

int cudaDriverGetVersion(int *version) {
  VCUDA_ENTER(NULL);
  *version = CUDA_VERSION;
  return vcuda_end(&call, CUDA_OK);
}

int cudaRuntimeGetVersion(int *version) {
  VCUDA_ENTER(NULL);
  *version = CUDA_VERSION;
  return vcuda_end(&call, CUDA_OK);
}

/* No driver function is found by this call: callers take them from libcuda.so.1. */
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                     int *status) {
  VCUDA_ENTER(NULL);
  (void)name, (void)version, (void)flags;
  *function = NULL;
  if (status != NULL) *status = 1; /* not found */
  return vcuda_end(&call, CUDA_OK);
}
