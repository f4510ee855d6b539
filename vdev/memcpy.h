/* The kernels that ORT puts between the device's nodes and the CPU's in a graph that is placed on both. */
#ifndef VDEV_MEMCPY_H
#define VDEV_MEMCPY_H

#include "status.h"

OrtStatus *vdev_memcpy_registry_create(OrtKernelRegistry **registry);

#endif
