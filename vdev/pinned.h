/* Host-accessible memory, and keeping the host off it while streams use it. All with the lock held. */
#ifndef VDEV_PINNED_H
#define VDEV_PINNED_H

#include "device.h"

/* NULL: there is none, the reason in `reason` (VDEV_TEXT bytes). */
void *vdev_pinned_allocate(vdev_device *device, size_t bytes, char *reason);

/* Waits until no stream can use it any more, as CUDA does. */
void vdev_pinned_free(vdev_device *device, void *address);

/* The memory that [address, address + bytes) lies in; NULL: it is not pinned. */
const vdev_pinned *vdev_pinned_find(const void *address, size_t bytes);

/* Where the device finds the bytes of an address of the host, pinned or not. NULL: they pass the end of pinned memory; the reason
 * in `reason` (VDEV_TEXT bytes). */
void *vdev_pinned_device_view(vdev_device *device, const void *address, size_t bytes, const char *what, char *reason);

/* May the host touch it? Not if a stream still uses it (reads it, where the host is to write) and it is protected. */
bool vdev_pinned_is_open(const void *address, size_t bytes, bool write);

/* The library goes: no more is known of any. The memory itself stays, for programs may still use it. */
void vdev_pinned_forget(void);

/* The accesses that streams may still make have changed: keep the host off what they use, and off nothing else. */
void vdev_pinned_protect(void);

#endif
