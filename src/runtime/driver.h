/* What a driver does for a device before its memory is used. A driver does what ORT does not do for the devices of an EP; each EP's row names
 * one, and the files of one driver are called driver_*. See also memory/driver.h. */
#ifndef IOBIND_RUNTIME_DRIVER_H
#define IOBIND_RUNTIME_DRIVER_H

#include "runtime/runtime.h"

/* Devices of one EP that a session is to compute on, with the EP's options. */
typedef struct iobind__appended {
  const OrtEpDevice *const *ep_devices;
  size_t device_count;
  const char *const *keys;
  const char *const *values;
  size_t count;
} iobind__appended;

typedef struct iobind__device_driver {
  /* The device is added: its places are filled in, its flags are not. NULL: nothing. */
  iobind_status (*open)(iobind_device *device, iobind_error *error);
  void (*close)(iobind_device *device); /* nothing uses the device any more; NULL: nothing */
  /* Let a session compute on the device. */
  iobind_status (*append)(iobind_device *device, const iobind__appended *what, OrtSessionOptions *out, iobind_error *error);
} iobind__device_driver;

/* A session on a device whose driver must know it. */
typedef struct iobind__attachment {
  iobind_device *device;
} iobind__attachment;

const iobind__device_driver *iobind__device_driver_of(const iobind_device *device);

/* Each in a file of its own. */
extern const iobind__device_driver iobind__direct3d_device_driver;

#endif
