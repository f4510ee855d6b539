#include "memory/allocator.h"

static iobind_status find_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error) {
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
      (void)iobind__ort_fail(api, refused, error, "allocator of '%s'", place->device->spec);
      return IOBIND_NOT_SUPPORTED; /* a session may still lend one */
    }
  }
  if (*allocator == NULL) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "allocator of '%s': its execution provider shares none",
                        place->device->spec);
  }
  return IOBIND_OK;
}

iobind_status iobind__place_get_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error) {
  *allocator = atomic_load_explicit(&place->allocator, memory_order_acquire);
  if (*allocator != NULL) {
    return IOBIND_OK;
  }
  if (place->info == NULL) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "device '%s' has no host-accessible memory", place->device->spec);
  }
  iobind_runtime *runtime = place->device->runtime;
  pthread_mutex_lock(&runtime->mutex);
  iobind_status status = IOBIND_OK;
  *allocator = atomic_load_explicit(&place->allocator, memory_order_acquire);
  if (*allocator == NULL) {
    status = find_allocator(place, allocator, error);
    if (status == IOBIND_OK) {
      atomic_store_explicit(&place->allocator, *allocator, memory_order_release);
    }
  }
  pthread_mutex_unlock(&runtime->mutex);
  return status;
}

static iobind_status allocate(iobind__place *place, ONNXTensorElementDataType dtype, const int64_t *dims, size_t rank,
                              size_t bytes, OrtValue **value, void **data, iobind_error *error) {
  const OrtApi *api = IOBIND__API(place->device->runtime);
  OrtAllocator *allocator;
  IOBIND__TRY(iobind__place_get_allocator(place, &allocator, error));
  IOBIND__ORT_TRY(api, api->CreateTensorAsOrtValue(allocator, dims, rank, dtype, value), error, "allocate %zu bytes on '%s'",
                  bytes, place->device->spec);
  *data = NULL;
  if (dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    return IOBIND_OK; /* its data are C++ objects: nobody may look at them */
  }
  OrtStatus *status = api->GetTensorMutableData(*value, data);
  if (status == NULL && (*data != NULL || bytes == 0)) {
    return IOBIND_OK;
  }
  api->ReleaseValue(*value);
  *value = NULL;
  if (status != NULL) {
    return iobind__ort_fail(api, status, error, "allocate %zu bytes on '%s'", bytes, place->device->spec);
  }
  return iobind__fail(error, IOBIND_OUT_OF_MEMORY, "allocate %zu bytes on '%s': out of device memory", bytes,
                      place->device->spec);
}

iobind_status iobind__place_allocate(iobind__place *place, ONNXTensorElementDataType dtype, const int64_t *dims, size_t rank,
                                     size_t bytes, OrtValue **value, void **data, iobind_error *error) {
  iobind__device_enter(place->device);
  iobind_status status = allocate(place, dtype, dims, rank, bytes, value, data, error);
  iobind__device_leave(place->device);
  return status;
}
