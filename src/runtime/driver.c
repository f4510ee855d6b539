#include "runtime/driver.h"

static iobind_status append(iobind_device *device, const iobind__appended *what, OrtSessionOptions *out, iobind_error *error) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  IOBIND__ORT_TRY(api,
                  api->SessionOptionsAppendExecutionProvider_V2(out, runtime->env, what->ep_devices, what->device_count,
                                                                what->keys, what->values, what->count),
                  error, "device '%s'", device->spec);
  return IOBIND_OK;
}

static const iobind__device_driver by_ort = {.append = append};

const iobind__device_driver *iobind__device_driver_of(const iobind_device *device) {
  return device->driver == IOBIND__DRIVER_DIRECT3D ? &iobind__direct3d_device_driver : &by_ort;
}
