/* The devices of DirectML's execution provider. */
#include "runtime/driver_dml.h"

#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "support/options.h"

enum { MICROSOFT = 0x1414 };

/* ORT lists the device without memory, so iobind sets its memory locations. */
static iobind_status open_device(iobind_device *device, iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  iobind__dml *dml = calloc(1, sizeof *dml);
  if (dml == NULL) {
    return iobind__out_of_memory(error, "devices");
  }
  pthread_mutex_init(&dml->mutex, NULL);
  atomic_init(&dml->open, false);
  device->own = dml;
  OrtStatus *lacks = api->GetExecutionProviderApi("DML", device->runtime->ort.api_version, (const void **)&dml->api);
  if (lacks != NULL) {
    api->ReleaseStatus(lacks); /* iobind__dml_open reports it */
    dml->api = NULL;
  }
  /* ORT has no memory info for the device. Sessions use this one on every adapter. */
  IOBIND__ORT_TRY(api,
                  api->CreateMemoryInfo_V2("DML", OrtMemoryInfoDeviceType_GPU, MICROSOFT, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                           OrtDeviceAllocator, &dml->info),
                  error, "devices: memory of DirectML");
  for (int m = 0; m < 2; m++) {
    iobind__place *place = &device->places[m];
    place->host = m == IOBIND_MEMORY_HOST_ACCESSIBLE;
    place->info = place->host ? device->runtime->cpu_info : dml->info;
    place->addressable = place->host;
    atomic_store(&place->allocator, NULL);
  }
  return IOBIND_OK;
}

/* Nothing uses the device any more: tensors, streams and sessions retain the runtime. */
static void close_device(iobind_device *device) {
  iobind__dml *dml = iobind__dml_of(device);
  if (dml == NULL) {
    return;
  }
  if (dml->info != NULL) {
    IOBIND__API(device->runtime)->ReleaseMemoryInfo(dml->info);
  }
  for (size_t i = 0; i < IOBIND__DML_SIGNALS; i++) {
    iobind__com_release(dml->signals[i].fence);
  }
  iobind__lane_close(dml->lane);
  iobind__d3d12_drop(&dml->d3d12);
  pthread_mutex_destroy(&dml->mutex);
  free(dml);
}

/* The adapter of a device, from ORT's metadata. */
static bool read_luid(const iobind_device *device, d3d_luid *luid) {
  const OrtApi *api = IOBIND__API(device->runtime);
  const OrtKeyValuePairs *pairs = api->HardwareDevice_Metadata(api->EpDevice_Device(device->ep_device));
  const char *text = pairs == NULL ? NULL : api->GetKeyValue(pairs, "LUID");
  char *end = NULL;
  unsigned long long number = text == NULL ? 0 : strtoull(text, &end, 10);
  *luid = (d3d_luid){(uint32_t)number, (int32_t)(number >> 32)};
  return end != NULL && end != text && *end == '\0';
}

/* Takes ownership of the objects in `made` if it succeeds. With the mutex held. */
static iobind_status install(iobind__dml *dml, const iobind__d3d12 *made, iobind_error *error) {
  IOBIND__TRY(iobind__lane_open(made, &dml->lane, error));
  dml->d3d12 = *made;
  atomic_store(&dml->open, true);
  return IOBIND_OK;
}

static iobind_status open_own(const iobind_device *device, iobind_error *error) {
  iobind__d3d12 made;
  d3d_luid luid;
  bool known = read_luid(device, &luid);
  if (iobind__dml_of(device)->api == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "'%s': this ONNX Runtime has no interface for DirectML",
                        device->spec);
  }
  IOBIND__TRY(iobind__d3d12_make(known ? &luid : NULL, &made, error));
  iobind_status status = install(iobind__dml_of(device), &made, error);
  if (status != IOBIND_OK) {
    iobind__d3d12_drop(&made);
  }
  return status;
}

iobind_status iobind__dml_open(iobind_device *device, iobind_error *error) {
  iobind__dml *dml = iobind__dml_of(device);
  if (atomic_load(&dml->open)) {
    return IOBIND_OK;
  }
  pthread_mutex_lock(&dml->mutex);
  iobind_status status = atomic_load(&dml->open) ? IOBIND_OK : open_own(device, error);
  pthread_mutex_unlock(&dml->mutex);
  return status;
}

/* The EP gets the device's objects, for which it takes no options. */
static iobind_status append(iobind_device *device, const iobind__appended *what, OrtSessionOptions *out, iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  if (what->device_count > 1) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "device '%s': expected one DirectML device, got %zu", device->spec,
                        what->device_count);
  }
  if (what->count > 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "EP option '%s' of dml: the device '%s' already selects the adapter, and takes no options",
                        what->keys[0], device->spec);
  }
  IOBIND__TRY(iobind__dml_open(device, error));
  const iobind__dml *dml = iobind__dml_of(device);
  IOBIND__ORT_TRY(api, api->DisableMemPattern(out), error, "device '%s'", device->spec); /* required by the EP */
  IOBIND__ORT_TRY(api, dml->api->SessionOptionsAppendExecutionProvider_DML1(out, dml->d3d12.dml, dml->d3d12.queue), error,
                  "device '%s'", device->spec);
  return IOBIND_OK;
}

const iobind__device_driver iobind__direct3d_device_driver = {.open = open_device, .close = close_device, .append = append};

/* ---- the caller's objects ---- */

/* The device of the runtime that is on the same adapter. */
static iobind_device *find_device(const iobind_runtime *runtime, d3d12_device *given) {
  d3d_luid luid;
  given->table->GetAdapterLuid(given, &luid);
  size_t count = iobind__runtime_device_count(runtime);
  for (size_t i = 0; i < count; i++) {
    iobind_device *device = iobind_runtime_get_device(runtime, i);
    d3d_luid own;
    if (device->driver == IOBIND__DRIVER_DIRECT3D && read_luid(device, &own) && own.low == luid.low && own.high == luid.high) {
      return device;
    }
  }
  return NULL;
}

static iobind_status adopt(iobind_runtime *runtime, const iobind_native_device *native, iobind_device **out,
                           iobind_error *error) {
  iobind__d3d12 own;
  IOBIND__TRY(iobind__d3d12_adopt(native->device, native->dml_device, native->queue, &own, error));
  iobind_device *device = find_device(runtime, own.device);
  iobind_status status = IOBIND_OK;
  if (device == NULL) {
    status = iobind__fail(error, IOBIND_ERROR_NOT_FOUND,
                          "this ONNX Runtime lists no DirectML device on the adapter of native.device");
  } else if (iobind__dml_of(device)->api == NULL) {
    status =
        iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "'%s': this ONNX Runtime has no interface for DirectML", device->spec);
  } else {
    pthread_mutex_lock(&iobind__dml_of(device)->mutex);
    status = atomic_load(&iobind__dml_of(device)->open)
                 ? iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                                "'%s' is already in use: adopt its objects before it is found by a spec, checked or used",
                                device->spec)
                 : install(iobind__dml_of(device), &own, error);
    pthread_mutex_unlock(&iobind__dml_of(device)->mutex);
  }
  if (status != IOBIND_OK) {
    iobind__d3d12_drop(&own);
    return status;
  }
  *out = device;
  return IOBIND_OK;
}

iobind_status iobind_runtime_adopt_device(iobind_runtime *runtime, const iobind_native_device *given, iobind_device **device,
                                          iobind_error *error) {
  if (device != NULL) {
    *device = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "runtime_adopt_device", error));
  IOBIND__TRY(iobind__null_check(given, "native", "runtime_adopt_device", error));
  IOBIND__TRY(iobind__null_check(device, "device", "runtime_adopt_device", error));
  iobind_native_device native;
  IOBIND__TRY(iobind__process_check("runtime_adopt_device", error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&native, given, "runtime_adopt_device", error));
  if (native.kind != IOBIND_NATIVE_D3D12) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "runtime_adopt_device: native.kind: expected IOBIND_NATIVE_D3D12 (%d), got %d", IOBIND_NATIVE_D3D12,
                        native.kind);
  }
  return iobind__named(adopt(runtime, &native, device, error), error, "runtime_adopt_device");
}
