/* Copies for ORT. */
#ifndef VDEV_TRANSFER_H
#define VDEV_TRANSFER_H

#include "status.h"
#include "stream.h"

OrtStatus *vdev_transfer_create(OrtDataTransferImpl **out); /* one for each session that is created; ORT releases it */

/* A copy between host and device, or between devices. */
typedef struct vdev_transfer_plan {
  const void *source;
  void *target;
  size_t bytes;
  vdev_stream *stream;      /* NULL: done on return */
  const char *const *names; /* the tensors' names, if they are known */
  size_t name_count;
} vdev_transfer_plan;

OrtStatus *vdev_copy(const vdev_transfer_plan *plan);

#endif
