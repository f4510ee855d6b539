/** @file launches.h
 *  How many kernels, and graphs of kernels, a device was given to run. Only devices in software count them. */
#ifndef IOBIND_TOOL_LAUNCHES_H
#define IOBIND_TOOL_LAUNCHES_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tool_launches {
  int64_t (*read)(int device, const char *name); /**< the counters of the device; NULL: it has none */
  int device;                                    /**< the device's number there */
  bool is_cuda;
} tool_launches;

/** The counters of the virtual accelerator, or of CUDA without a GPU. */
tool_launches launches_of(const iobind_device *device);

/** Launches so far, a graph as one; -1: not counted. */
int64_t launches_now(const tool_launches *launches);

#endif
