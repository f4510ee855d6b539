#include "memory/driver.h"

#include "memory/kind.h"

const iobind__driver iobind__ort_driver = {IOBIND__DRIVEN_BY_ORT};

static const iobind__driver *const drivers[] = {
    [IOBIND__DRIVER_ORT] = &iobind__ort_driver,
    [IOBIND__DRIVER_CUDA] = &iobind__cuda_driver,
    [IOBIND__DRIVER_DIRECT3D] = &iobind__direct3d_driver,
    [IOBIND__DRIVER_VDEV] = &iobind__vdev_driver,
};

const iobind__driver *iobind__driver_of(const iobind_device *device) {
  return drivers[device->driver];
}

const char *iobind__native_name(int32_t kind) {
  for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
    if (kind != 0 && (int32_t)drivers[i]->native == kind) {
      return drivers[i]->native_name;
    }
  }
  return NULL;
}
