#include "memory/driver.h"

#include "memory/allocator.h"
#include "memory/kind.h"

const iobind__driver iobind__ort_driver = {IOBIND__DRIVEN_BY_ORT};

static const iobind__driver *const drivers[] = {
    [IOBIND__DRIVER_ORT] = &iobind__ort_driver,
    [IOBIND__DRIVER_CUDA] = &iobind__cuda_driver,
    [IOBIND__DRIVER_DIRECT3D] = &iobind__direct3d_driver,
    [IOBIND__DRIVER_LIBRARY] = &iobind__library_driver,
};

const iobind__driver *iobind__driver_of(const iobind_device *device) {
  return drivers[device->driver];
}

iobind__native iobind__native_of(const iobind_device *device) {
  return device->ep == NULL ? (iobind__native){0} : device->ep->native;
}

/* ---- waits for devices with the quirk QUEUES, whose calls return before the work is complete: a copy of four bytes to the host is ordered after
 * all previously submitted work ---- */

static iobind_status get_fence(iobind_device *device, OrtValue **fence, iobind_error *error) {
  *fence = atomic_load_explicit(&device->fence, memory_order_acquire);
  if (*fence != NULL) {
    return IOBIND_OK;
  }
  static const int64_t one = 1;
  void *data;
  const iobind__form form = {IOBIND_DTYPE_FLOAT32, &one, 1};
  IOBIND__TRY(iobind__place_allocate(&device->places[IOBIND_MEMORY_DEFAULT], form, sizeof(float), fence, &data, error));
  OrtValue *expected = NULL;
  if (!atomic_compare_exchange_strong(&device->fence, &expected, *fence)) {
    iobind__value_release(device->runtime, device->guard, *fence); /* another thread was first */
    *fence = expected;
  }
  return IOBIND_OK;
}

iobind_status iobind__device_wait(iobind_device *device, iobind_error *error) {
  return iobind__device_has(device, IOBIND__QUIRK_QUEUES) ? iobind__driver_of(device)->wait(device, error) : IOBIND_OK;
}

iobind_status iobind__ort_wait(iobind_device *device, iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  OrtValue *fence;
  IOBIND__TRY(get_fence(device, &fence, error));
  static const int64_t one = 1;
  float sink = 0;
  OrtValue *target = NULL;
  IOBIND__ORT_TRY(api,
                  api->CreateTensorWithDataAsOrtValue(device->runtime->cpu_info, &sink, sizeof sink, &one, 1,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &target),
                  error, "wait for '%s'", device->spec);
  const OrtValue *source = fence;
  iobind__scope scope;
  iobind_status entered = iobind__guard_enter(device->guard, &scope, error);
  OrtStatus *status = entered == IOBIND_OK ? api->CopyTensors(device->runtime->env, &source, &target, NULL, 1) : NULL;
  iobind__guard_leave(&scope);
  api->ReleaseValue(target);
  return status == NULL ? entered : iobind__ort_fail(api, status, error, "wait for '%s'", device->spec);
}
