#include "memory/allocator.h"

#include "memory/driver.h"

iobind_status iobind__ort_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error) {
  iobind_runtime *runtime = place->device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  IOBIND__ORT_TRY(api, api->GetSharedAllocator(runtime->env, place->info, allocator), error, "allocator of '%s'",
                  place->device->spec);
  if (*allocator == NULL) {
    OrtDeviceMemoryType memory =
        place->memory == IOBIND_MEMORY_DEFAULT ? OrtDeviceMemoryType_DEFAULT : OrtDeviceMemoryType_HOST_ACCESSIBLE;
    OrtStatus *refused =
        api->CreateSharedAllocator(runtime->env, place->device->ep_device, memory, OrtDeviceAllocator, NULL, allocator);
    if (refused != NULL) {
      /* a session may still lend its allocator */
      return iobind__ort_fail_as(api, refused, IOBIND_ERROR_NOT_SUPPORTED, error, "allocator of '%s'", place->device->spec);
    }
  }
  if (*allocator == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "allocator of '%s': its execution provider shares none",
                        place->device->spec);
  }
  return IOBIND_OK;
}

/* The allocator of a memory location, looked up once. It is never replaced, because that would free the tensors' memory.
 * NOT_SUPPORTED: the device has no such memory, or its EP shares no allocator; then only a session can lend one. */
static iobind_status get_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error) {
  *allocator = atomic_load_explicit(&place->allocator, memory_order_acquire);
  if (*allocator != NULL) {
    return IOBIND_OK;
  }
  if (place->info == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "device '%s' has no host-accessible memory", place->device->spec);
  }
  iobind_runtime *runtime = place->device->runtime;
  pthread_mutex_lock(&runtime->mutex);
  iobind_status status = IOBIND_OK;
  *allocator = atomic_load_explicit(&place->allocator, memory_order_acquire);
  if (*allocator == NULL) {
    status = iobind__driver_of(place->device)->allocator(place, allocator, error);
    if (status == IOBIND_OK) {
      atomic_store_explicit(&place->allocator, *allocator, memory_order_release);
    }
  }
  pthread_mutex_unlock(&runtime->mutex);
  return status;
}

/* Some devices (WebGPU) allocate buffers that are larger than they can hold: writes are lost, and reads return zeros. So the
 * first bytes of a large buffer are written and read back. */
enum { SUSPECT_BYTES = 128 << 20 };

static iobind_status check_holds(iobind__place *place, void *data, size_t bytes, iobind_error *error) {
  iobind_runtime *runtime = place->device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  static const int64_t one = 1;
  float sent = 0.625f;
  float back = 0;
  float *const host[2] = {&sent, &back};
  OrtValue *values[3] = {NULL, NULL, NULL}; /* sent, read back, the device's */
  OrtStatus *status = NULL;
  for (int i = 0; i < 3 && status == NULL; i++) {
    status = api->CreateTensorWithDataAsOrtValue(i < 2 ? runtime->cpu_info : place->info, i < 2 ? host[i] : data, sizeof(float),
                                                 &one, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &values[i]);
  }
  const OrtValue *up = values[0];
  const OrtValue *down = values[2];
  status = status != NULL ? status : api->CopyTensors(runtime->env, &up, &values[2], NULL, 1);
  status = status != NULL ? status : api->CopyTensors(runtime->env, &down, &values[1], NULL, 1);
  for (int i = 0; i < 3; i++) {
    if (values[i] != NULL) {
      api->ReleaseValue(values[i]);
    }
  }
  if (status != NULL) {
    return iobind__ort_fail(api, status, error, "allocate %zu bytes on '%s'", bytes, place->device->spec);
  }
  if (back != sent) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY,
                        "allocate %zu bytes on '%s': more than a buffer of the device can hold", bytes, place->device->spec);
  }
  return IOBIND_OK;
}

static iobind_status allocate(iobind__place *place, iobind__form form, size_t bytes, OrtValue **value, void **data,
                              iobind_error *error) {
  const OrtApi *api = IOBIND__API(place->device->runtime);
  OrtAllocator *allocator;
  IOBIND__TRY(iobind__device_check_registered(place->device, error));
  IOBIND__TRY(get_allocator(place, &allocator, error));
  *data = NULL;
  OrtStatus *made = api->CreateTensorAsOrtValue(allocator, form.dims, form.rank, (ONNXTensorElementDataType)form.dtype, value);
  if (made != NULL) {
    return iobind__ort_fail(api, made, error, "allocate %zu bytes on '%s'", bytes, place->device->spec);
  }
  if (form.dtype == IOBIND_DTYPE_STRING) {
    return IOBIND_OK; /* strings are C++ objects, without an address that iobind may use */
  }
  iobind_status result = IOBIND_OK;
  OrtStatus *status = api->GetTensorMutableData(*value, data);
  if (status != NULL) {
    result = iobind__ort_fail(api, status, error, "allocate %zu bytes on '%s'", bytes, place->device->spec);
  } else if (*data == NULL && bytes > 0) {
    result = iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "allocate %zu bytes on '%s': out of device memory", bytes,
                          place->device->spec);
  } else if (!place->addressable && !iobind__driver_of(place->device)->allocates_whole && bytes >= SUSPECT_BYTES) {
    result = check_holds(place, *data, bytes, error);
  }
  if (result != IOBIND_OK) {
    api->ReleaseValue(*value);
    *value = NULL;
  }
  return result;
}

iobind_status iobind__place_allocate(iobind__place *place, iobind__form form, size_t bytes, OrtValue **value, void **data,
                                     iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(place->device->guard, &scope, error));
  iobind_status status = allocate(place, form, bytes, value, data, error);
  return iobind__guard_end(&scope, status, error);
}

iobind_status iobind_device_trim(iobind_device *device, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_trim", error));
  IOBIND__TRY(iobind__process_check("device_trim", error));
  const iobind__driver *driver = iobind__driver_of(device);
  return driver->trim == NULL ? IOBIND_OK : iobind__named(driver->trim(device, error), error, "device_trim");
}

iobind__place *iobind__place_for_staging(const iobind__place *place) {
  iobind__place *pinned = &place->device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
  return pinned->info != NULL && pinned->host ? pinned : &place->device->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
}
