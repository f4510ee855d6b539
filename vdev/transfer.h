/* Copies for ORT. */
#ifndef VDEV_TRANSFER_H
#define VDEV_TRANSFER_H

#include "status.h"
#include "stream.h"

OrtStatus *vdev_transfer_create(OrtDataTransferImpl **transfer); /* one for each session that is made; ORT releases it */

/* Copy between host and device, or between devices; as ORT's CopyTensors does. */
OrtStatus *vdev_copy(const void *source, void *target, size_t bytes, vdev_stream *stream);

#endif
