/* A claimed group of nodes: a CPU session of its own, run over the device's memory. */
#ifndef VDEV_KERNEL_H
#define VDEV_KERNEL_H

#include "device.h"
#include "status.h"

/* Make the kernel of a group; its failures are `owner`'s. `env` must outlive it. */
OrtStatus *vdev_kernel_create(vdev_device *device, const void *owner, OrtEnv *env, const OrtGraph *graph,
                              const OrtNode *fused_node, OrtNodeComputeInfo **out);

/* Waits for what is under way. */
void vdev_kernel_release(OrtNodeComputeInfo *info);

#endif
