/* Device memory: an address range that the host cannot touch, and a second range with the bytes. All with the lock held. */
#ifndef VDEV_MEMORY_H
#define VDEV_MEMORY_H

#include "device.h"

bool vdev_memory_reserve(vdev_device *device);
void vdev_memory_unreserve(vdev_device *device);

/* NULL: failed, with the reason in `reason` (VDEV_TEXT bytes). */
void *vdev_memory_allocate(vdev_device *device, size_t bytes, char *reason);

/* A block whose bytes are those of shared memory from `offset` on (see vdev_shared_map), which other processes and libraries may map as
 * well. The device's limit does not count it, and it is never poisoned. The handle may be closed afterwards. NULL: failed. */
void *vdev_memory_import(vdev_device *device, const void *handle, size_t offset, size_t bytes, char *reason);

/* Free a block; it is kept until the streams that may still use it have passed. An address that is not a block's counts as an
 * error. */
void vdev_memory_free(vdev_device *device, void *address);

/* The device that an address belongs to; NULL: none, so it is host memory. */
vdev_device *vdev_memory_owner(const void *address);

/* Refuse an operation that is given NULL as an address: say why there is no memory, if an allocation has failed. */
void vdev_memory_refuse_null(vdev_device *device, const char *what, char *reason);

/* Where the bytes of [address, address + bytes) are; NULL if they are not inside one live block of the device, with the block
 * named in `reason`. */
void *vdev_memory_resolve(vdev_device *device, const void *address, size_t bytes, const char *what, char *reason);

#endif
