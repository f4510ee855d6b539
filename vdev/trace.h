/* What happened, as a Chrome trace. With the lock held. */
#ifndef VDEV_TRACE_H
#define VDEV_TRACE_H

#include "device.h"

/* Something that took time, in the row of an agent: a stream's number, or 0 for the host. */
void vdev_trace_add(vdev_device *device, int agent, const char *what, int64_t bytes, int64_t start, int64_t end);
void vdev_trace_wait(vdev_device *device, int awaited, int64_t start, int64_t end); /* the host's, for a stream */
void vdev_trace_memory(vdev_device *device, const char *what, size_t bytes);
bool vdev_trace_save(const char *path);
void vdev_trace_clear(void);

#endif
