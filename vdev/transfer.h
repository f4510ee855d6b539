/* Copies for ORT. */
#ifndef VDEV_TRANSFER_H
#define VDEV_TRANSFER_H

#include "status.h"
#include "stream.h"

OrtDataTransferImpl *vdev_transfer(void); /* lives as long as the library */

/* Copy between host and device, or between devices; as ORT's CopyTensors does. */
OrtStatus *vdev_copy(const void *source, void *target, size_t bytes, vdev_stream *stream);

#endif
