#include "memory/driver.h"

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
