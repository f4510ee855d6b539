/* What happened, as a Chrome trace. With the lock held. */
#ifndef VDEV_TRACE_H
#define VDEV_TRACE_H

#include "stream.h"

void vdev_trace_add(vdev_device *device, const vdev_stream *stream, const vdev_job *job, int64_t start, int64_t end);
void vdev_trace_wait(const vdev_stream *stream, int64_t until);
void vdev_trace_memory(vdev_device *device, const char *what, size_t bytes);
bool vdev_trace_save(const char *path);

#endif
