/* Devices: what ORT lists, with the memory that each has. */
#include <stdlib.h>
#include <string.h>

#include "runtime/driver.h"
#include "runtime/runtime.h"
#include "support/options.h"
#include "support/system.h"

static bool is_cpu_memory(const OrtApi *api, const OrtMemoryInfo *info) {
  OrtMemoryInfoDeviceType type;
  api->MemoryInfoGetDeviceType(info, &type);
  return type == OrtMemoryInfoDeviceType_CPU;
}

bool iobind__same_memory(const iobind_runtime *runtime, const OrtMemoryInfo *a, const OrtMemoryInfo *b) {
  if (a == b) {
    return true;
  }
  const OrtApi *api = IOBIND__API(runtime);
  OrtMemoryInfoDeviceType type_a;
  OrtMemoryInfoDeviceType type_b;
  api->MemoryInfoGetDeviceType(a, &type_a);
  api->MemoryInfoGetDeviceType(b, &type_b);
  if (type_a != type_b || api->MemoryInfoGetDeviceMemType(a) != api->MemoryInfoGetDeviceMemType(b) ||
      api->MemoryInfoGetVendorId(a) != api->MemoryInfoGetVendorId(b)) {
    return false;
  }
  int id_a = 0;
  int id_b = 0;
  /* these calls return a status, but cannot fail if the info is not NULL */
  OrtStatus *status_a = api->MemoryInfoGetId(a, &id_a);
  OrtStatus *status_b = api->MemoryInfoGetId(b, &id_b);
  if (status_a != NULL || status_b != NULL) {
    api->ReleaseStatus(status_a);
    api->ReleaseStatus(status_b);
    return false;
  }
  return id_a == id_b;
}

static void fill_places(iobind_device *device) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  bool addressable = device->ep != NULL && device->ep->addressable;
  for (int m = 0; m < 2; m++) {
    iobind__place *place = &device->places[m];
    place->device = device;
    place->memory = (iobind_memory)m;
    place->owner = &runtime->ref;
    place->info = api->EpDevice_MemoryInfo(device->ep_device, m == IOBIND_MEMORY_DEFAULT ? OrtDeviceMemoryType_DEFAULT
                                                                                         : OrtDeviceMemoryType_HOST_ACCESSIBLE);
    if (place->info == NULL && m == IOBIND_MEMORY_DEFAULT) {
      place->info = runtime->cpu_info; /* an EP without its own memory works in the host's */
      atomic_init(&place->allocator, runtime->cpu_allocator);
    } else {
      atomic_init(&place->allocator, NULL);
    }
    place->host = place->info != NULL && (m == IOBIND_MEMORY_HOST_ACCESSIBLE || is_cpu_memory(api, place->info));
    place->addressable = place->host || addressable;
  }
}

static void fill_flags(iobind_device *device) {
  const OrtApi *api = IOBIND__API(device->runtime);
  const iobind__place *memory = &device->places[IOBIND_MEMORY_DEFAULT];
  OrtMemoryInfoDeviceType type;
  api->MemoryInfoGetDeviceType(memory->info, &type);
  device->flags = (memory->host ? IOBIND_DEVICE_HOST_MEMORY : 0u) |
                  (device->places[IOBIND_MEMORY_HOST_ACCESSIBLE].info != NULL ? IOBIND_DEVICE_HOST_ACCESSIBLE : 0u) |
                  (type == OrtMemoryInfoDeviceType_GPU ? IOBIND_DEVICE_GPU_MEMORY : 0u) |
                  (type == OrtMemoryInfoDeviceType_NPU ? IOBIND_DEVICE_NPU_MEMORY : 0u) |
                  (memory->addressable ? IOBIND_DEVICE_ADDRESSABLE : 0u) |
                  (device->ep != NULL && device->ep->streams ? IOBIND_DEVICE_STREAMS : 0u);
  device->quirks = iobind__quirks_of(device->ep, device->runtime->ort.minor, device->bridged) &
                   ~(uint32_t)(memory->host ? IOBIND__QUIRK_QUEUES : 0);
  bool is_serial = iobind__device_has(device, IOBIND__QUIRK_SERIAL);
  device->own_guard.serial = is_serial ? &device->runtime->serial_mutex : NULL;
  device->own_guard.gated = iobind__device_has(device, IOBIND__QUIRK_GATED) && !is_serial;
}

static void device_free(iobind_device *device) {
  OrtValue *fence = atomic_load(&device->fence);
  if (fence != NULL && iobind__device_is_registered(device)) {
    iobind__value_release(device->runtime, device->guard, fence);
  }
  if (iobind__device_driver_of(device)->close != NULL) {
    iobind__device_driver_of(device)->close(device);
  }
  iobind__ref_release(device->pool);
  iobind__context_close(device->context);
  iobind__loss_destroy(&device->loss);
  pthread_mutex_destroy(&device->check_mutex);
  free(device->spec);
  free(device);
}

static uint32_t count_devices_of(const iobind_runtime *runtime, const char *ep_name) {
  uint32_t count = 0;
  for (size_t i = 0; i < runtime->device_count; i++) {
    const char *other = IOBIND__API(runtime)->EpDevice_EpName(runtime->devices[i]->ep_device);
    count += strcmp(other, ep_name) == 0;
  }
  return count;
}

const char *iobind__device_library(const iobind_device *device) {
  const iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const OrtKeyValuePairs *metadata = api->EpDevice_EpMetadata(device->ep_device);
  const char *path = metadata == NULL ? NULL : api->GetKeyValue(metadata, "library_path");
  for (size_t i = 0; path == NULL && device->ep != NULL && i < runtime->ep_library_count; i++) {
    const iobind__ep_library *library = runtime->ep_libraries[i];
    if (library->status == IOBIND_OK && strcmp(library->name, device->ep->name) == 0 && library->path[0] != '\0') {
      path = library->path;
    }
  }
  return path;
}

/* Is the EP behind ORT's bridge? Only such a library exports GetProvider. CreateEpFactories does not distinguish them, because
 * CUDA's bridged library exports it, too. */
static bool is_bridged(const iobind_device *device) {
  const char *path = device->ep != NULL && device->ep->bridged ? iobind__device_library(device) : NULL;
  void *library = path == NULL ? NULL : iobind__library_loaded(path);
  return device->ep != NULL && device->ep->bridged &&
         (library == NULL || iobind__library_symbol(library, "GetProvider") != NULL);
}

/* Create the next device, without a call into its EP. NULL: out of memory. */
static iobind_device *make_device(iobind_runtime *runtime, const OrtEpDevice *ep_device) {
  const char *ep_name = IOBIND__API(runtime)->EpDevice_EpName(ep_device);
  iobind_device *device = calloc(1, sizeof *device);
  if (device == NULL) {
    return NULL;
  }
  pthread_mutex_init(&device->check_mutex, NULL);
  iobind__loss_init(&device->loss);
  atomic_init(&device->fence, NULL);
  device->runtime = runtime;
  device->ep_device = ep_device;
  device->ep = iobind__ep_by_ep_name(ep_name);
  device->driver = device->ep == NULL ? IOBIND__DRIVER_ORT : device->ep->driver;
  device->bridged = is_bridged(device);
  device->ordinal = count_devices_of(runtime, ep_name);
  iobind__text spec = {0};
  if (device->ep != NULL && runtime->device_count == 0) {
    iobind__text_add(&spec, "%s", device->ep->name);
  } else {
    iobind__text_add(&spec, "%s%s:%u", device->ep != NULL ? "" : "ep=", device->ep != NULL ? device->ep->name : ep_name,
                     device->ordinal);
  }
  device->spec = spec.data;
  if (device->spec == NULL) {
    device_free(device);
    return NULL;
  }
  fill_places(device);
  return device;
}

static iobind_status open_device(iobind_device *device, iobind_error *error) {
  const iobind__device_driver *driver = iobind__device_driver_of(device);
  IOBIND__TRY(driver->open == NULL ? IOBIND_OK : driver->open(device, error));
  fill_flags(device);
  IOBIND__TRY(iobind__context_open(device, &device->context, error));
  device->own_guard.device = device->context != NULL ? device : NULL;
  device->own_guard.context = iobind__context_is_one_of_several(device->context) ? device->context : NULL;
  device->guard = iobind__guard_is_needed(&device->own_guard) ? &device->own_guard : NULL;
  return IOBIND_OK;
}

static iobind_status add_device(iobind_runtime *runtime, const OrtEpDevice *ep_device, iobind_error *error) {
  iobind_device **list = realloc(runtime->devices, (runtime->device_count + 1) * sizeof(iobind_device *));
  runtime->devices = list == NULL ? runtime->devices : list;
  iobind_device *device = list == NULL ? NULL : make_device(runtime, ep_device);
  if (device == NULL) {
    return iobind__out_of_memory(error, "devices");
  }
  iobind_status status = open_device(device, error);
  if (status != IOBIND_OK) {
    device_free(device);
    return status;
  }
  if (runtime->device_count == 0) {
    runtime->cpu = device;
  }
  runtime->devices[runtime->device_count++] = device;
  return IOBIND_OK;
}

iobind_device *iobind__runtime_find_ep_device(const iobind_runtime *runtime, const OrtEpDevice *ep_device) {
  size_t count = iobind__runtime_device_count(runtime);
  for (size_t i = 0; i < count; i++) {
    iobind_device *device = iobind_runtime_get_device(runtime, i);
    if (device->ep_device == ep_device) {
      return device;
    }
  }
  return NULL;
}

static bool is_listed(const iobind_device *device) {
  const iobind_runtime *runtime = device->runtime;
  if (device->ours || device == runtime->cpu) {
    return true;
  }
  const OrtEpDevice *const *ep_devices = NULL;
  size_t count = 0;
  OrtStatus *status = IOBIND__API(runtime)->GetEpDevices(runtime->env, &ep_devices, &count);
  if (status != NULL) {
    IOBIND__API(runtime)->ReleaseStatus(status);
    return true;
  }
  for (size_t i = 0; i < count; i++) {
    if (ep_devices[i] == device->ep_device) {
      return true;
    }
  }
  return false;
}

iobind_status iobind__device_check_registered(const iobind_device *device, iobind_error *error) {
  if (is_listed(device)) {
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_ERROR_WRONG_DEVICE,
      "device '%s': the host program unregistered its EP library, and its memory is lost: release the tensors there",
      device->spec);
}

bool iobind__device_is_registered(const iobind_device *device) {
  if (is_listed(device)) {
    return true;
  }
  iobind__log_line(
      device->runtime->log, IOBIND_LOG_ERROR,
      "iobind: the host program unregistered the EP library of '%s' before a tensor there was released: its memory is "
      "lost",
      device->spec);
  return false;
}

static iobind_status add_new_devices(iobind_runtime *runtime, iobind_error *error) {
  const OrtApi *api = IOBIND__API(runtime);
  const OrtEpDevice *const *ep_devices = NULL;
  size_t count = 0;
  IOBIND__ORT_TRY(api, api->GetEpDevices(runtime->env, &ep_devices, &count), error, "devices");
  /* the CPU first, whatever ORT's order is */
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < count; i++) {
      bool is_cpu = strcmp(api->EpDevice_EpName(ep_devices[i]), "CPUExecutionProvider") == 0;
      bool known = false;
      for (size_t d = 0; d < runtime->device_count && !known; d++) {
        known = runtime->devices[d]->ep_device == ep_devices[i];
      }
      if (is_cpu == (pass == 0) && !known) {
        IOBIND__TRY(add_device(runtime, ep_devices[i], error));
      }
    }
  }
  if (runtime->device_count == 0) {
    return iobind__fail(error, IOBIND_ERROR_VERSION, "devices: this ONNX Runtime (%s) lists none, not even the CPU",
                        runtime->ort.path);
  }
  return IOBIND_OK;
}

static void drop_devices(iobind_runtime *runtime, size_t keep) {
  while (runtime->device_count > keep) {
    device_free(runtime->devices[--runtime->device_count]);
  }
}

iobind_status iobind__runtime_refresh_devices(iobind_runtime *runtime, iobind_error *reason) {
  size_t before = runtime->device_count;
  iobind_status status = add_new_devices(runtime, reason);
  if (status != IOBIND_OK) {
    drop_devices(runtime, before); /* all of a library's devices, or none */
  }
  return status;
}

void iobind__runtime_free_devices(iobind_runtime *runtime) {
  for (size_t i = 0; i < runtime->device_count; i++) {
    runtime->keeps_ort = runtime->keeps_ort || iobind__device_is_lost(runtime->devices[i]);
  }
  drop_devices(runtime, 0);
  free(runtime->devices);
}

size_t iobind__runtime_device_count(const iobind_runtime *runtime) {
  iobind__runtime_lock(runtime);
  size_t count = runtime->device_count;
  iobind__runtime_unlock(runtime);
  return count;
}

iobind_device *iobind_runtime_get_device(const iobind_runtime *runtime, size_t index) {
  if (runtime == NULL) {
    return NULL;
  }
  iobind__runtime_lock(runtime);
  iobind_device *device = index < runtime->device_count ? runtime->devices[index] : NULL;
  iobind__runtime_unlock(runtime);
  return device;
}

iobind__place *iobind__runtime_find_place(const iobind_runtime *runtime, const OrtMemoryInfo *info) {
  size_t count = iobind__runtime_device_count(runtime);
  for (size_t i = 0; i < count; i++) {
    iobind_device *device = iobind_runtime_get_device(runtime, i);
    for (int m = 0; m < 2; m++) {
      if (device->places[m].info != NULL && iobind__same_memory(runtime, device->places[m].info, info)) {
        return &device->places[m];
      }
    }
  }
  return NULL;
}

/* Metadata has three groups in this order: the EP's, the hardware's, the EP's default options. */
enum { METADATA_GROUPS = 3 };

static void metadata_of(const iobind_device *device, int group, const char *const **keys, const char *const **values,
                        size_t *count) {
  const OrtApi *api = IOBIND__API(device->runtime);
  const OrtKeyValuePairs *pairs = group == 0   ? api->EpDevice_EpMetadata(device->ep_device)
                                  : group == 1 ? api->HardwareDevice_Metadata(api->EpDevice_Device(device->ep_device))
                                               : api->EpDevice_EpOptions(device->ep_device);
  *count = 0;
  if (pairs != NULL) {
    api->GetKeyValuePairs(pairs, keys, values, count);
  }
}

static const char *or_empty(const char *text) {
  return text == NULL ? "" : text;
}

iobind_status iobind_device_get_info(const iobind_device *device, iobind_device_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_get_info", error));
  const OrtApi *api = IOBIND__API(device->runtime);
  const OrtHardwareDevice *hardware = api->EpDevice_Device(device->ep_device);
  const char *memory_name = NULL;
  IOBIND__ORT_TRY(api, api->MemoryInfoGetName(device->places[IOBIND_MEMORY_DEFAULT].info, &memory_name), error,
                  "device_get_info");
  iobind_device_info full = {.flags = device->flags,
                             .spec = device->spec,
                             .ep_name = api->EpDevice_EpName(device->ep_device),
                             .ep_vendor = or_empty(api->EpDevice_EpVendor(device->ep_device)),
                             .vendor = or_empty(api->HardwareDevice_Vendor(hardware)),
                             .memory_name = or_empty(memory_name),
                             .vendor_id = api->HardwareDevice_VendorId(hardware),
                             .device_id = api->HardwareDevice_DeviceId(hardware),
                             .hardware = (int32_t)api->HardwareDevice_Type(hardware),
                             .ordinal = device->ordinal};
  for (int group = 0; group < METADATA_GROUPS; group++) {
    const char *const *keys;
    const char *const *values;
    size_t count;
    metadata_of(device, group, &keys, &values, &count);
    full.metadata_count += count;
  }
  return IOBIND__INFO_WRITE(info, &full, "device_get_info", error);
}

iobind_status iobind_device_get_metadata(const iobind_device *device, size_t index, const char **key, const char **value,
                                         iobind_error *error) {
  if (key != NULL) {
    *key = NULL;
  }
  if (value != NULL) {
    *value = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "device_get_metadata", error));
  IOBIND__TRY(iobind__null_check(key, "key", "device_get_metadata", error));
  IOBIND__TRY(iobind__null_check(value, "value", "device_get_metadata", error));
  size_t total = 0;
  for (int group = 0; group < METADATA_GROUPS; group++) {
    const char *const *keys;
    const char *const *values;
    size_t count;
    metadata_of(device, group, &keys, &values, &count);
    if (index < total + count) {
      *key = keys[index - total];
      *value = values[index - total];
      return IOBIND_OK;
    }
    total += count;
  }
  return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "device_get_metadata: '%s' has %zu entries, got index %zu", device->spec,
                      total, index);
}

iobind_status iobind_device_get_counters(const iobind_device *device, iobind_device_counters *counters, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_get_counters", error));
  iobind_device_counters full = {.upload_bytes = atomic_load(&device->counters.upload_bytes),
                                 .upload_count = atomic_load(&device->counters.upload_count),
                                 .download_bytes = atomic_load(&device->counters.download_bytes),
                                 .download_count = atomic_load(&device->counters.download_count),
                                 .local_bytes = atomic_load(&device->counters.local_bytes),
                                 .local_count = atomic_load(&device->counters.local_count),
                                 .allocated_bytes = atomic_load(&device->memory[IOBIND_HOLDER_ANY].bytes),
                                 .allocation_count = atomic_load(&device->counters.allocation_count)};
  return IOBIND__INFO_WRITE(counters, &full, "device_get_counters", error);
}
