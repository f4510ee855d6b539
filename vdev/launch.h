/* A run of a kernel: the nested session's views of what it reads and writes, and the job on the stream. */
#ifndef VDEV_LAUNCH_H
#define VDEV_LAUNCH_H

#include "kernel.h"

/* Run it on the stream of the context: on return the work is submitted if all shapes are known, otherwise done. */
OrtStatus *vdev_launch_run(vdev_kernel *self, OrtKernelContext *context);

/* Wait for launches in flight, and free those that are kept. */
void vdev_launch_end_all(vdev_kernel *self);

#endif
