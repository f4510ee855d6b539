/* A run of a kernel: the nested session's views of what it reads and writes, and the job on the stream. */
#ifndef VDEV_LAUNCH_H
#define VDEV_LAUNCH_H

#include "kernel.h"

/* Run it on the stream of the context: on return the work is submitted where all shapes are known, else done. */
OrtStatus *vdev_launch_run(vdev_kernel *self, OrtKernelContext *context);

/* Wait for what is in flight, and free what is kept for further runs. */
void vdev_launch_end_all(vdev_kernel *self);

#endif
