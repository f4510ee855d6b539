/* The part of a driver that needs no memory module: opening a device, and appending it to session options. See
 * memory/driver.h. */
#ifndef IOBIND_RUNTIME_DRIVER_H
#define IOBIND_RUNTIME_DRIVER_H

#include "runtime/runtime.h"

/* Devices of one EP for a session, with the EP's options. */
typedef struct iobind__appended {
  const OrtEpDevice *const *ep_devices;
  size_t device_count;
  const char *const *keys;
  const char *const *values;
  size_t count;
} iobind__appended;

typedef struct iobind__device_driver {
  /* Called when the device is added: its memory locations are set, its flags are not. NULL: nothing. */
  iobind_status (*open)(iobind_device *device, iobind_error *error);
  void (*close)(iobind_device *device); /* called when nothing uses the device any more; NULL: nothing */
  /* Append the device to a session's options. */
  iobind_status (*append)(iobind_device *device, const iobind__appended *what, OrtSessionOptions *out, iobind_error *error);
} iobind__device_driver;

/* A session that is registered at its device's driver. */
typedef struct iobind__attachment {
  iobind_device *device;
} iobind__attachment;

const iobind__device_driver *iobind__device_driver_of(const iobind_device *device);

extern const iobind__device_driver iobind__direct3d_device_driver;

#endif
