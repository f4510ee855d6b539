/* A claimed group of nodes: a CPU session of its own, run over the device's memory. */
#ifndef VDEV_KERNEL_H
#define VDEV_KERNEL_H

#include "device.h"
#include "status.h"

enum { VDEV_KERNEL_RANK = 64 }; /* of an output whose shape is known before the run, at most */

/* How a dim of an output is known before the run: a number, or a dim of an input. */
typedef struct vdev_dim_rule {
  int64_t value; /* -1: see the rest */
  size_t input;
  size_t axis;
} vdev_dim_rule;

typedef struct vdev_port {
  char *name;
  size_t index; /* of the fused node's input or output */
  size_t rank;
  vdev_dim_rule *rules; /* outputs whose shape is known before the run; NULL: not known */
} vdev_port;

typedef struct vdev_kernel {
  OrtNodeComputeInfo info; /* first: ORT's view */
  vdev_device *device;
  const void *owner; /* whose it is: the EP's of one session */
  OrtSession *session;
  OrtRunOptions *run_options; /* the same for all runs: ORT makes some for each run that has none */
  OrtMemoryInfo *host;
  char what[48];
  vdev_port *inputs;
  size_t input_count;
  vdev_port *outputs;
  size_t output_count;
  const char **names; /* of inputs, then of outputs */
  struct vdev_constant *constants;
  size_t constant_count;
  bool shapes_known;
  char **labels; /* what a fault may call it: operators, nodes and tensors */
  size_t label_count;
  struct vdev_launch *idle; /* launches that are not in flight, for the next run */
  size_t in_flight;         /* launches that are */
} vdev_kernel;

/* Make the kernel of a group; its failures are `owner`'s. `env` must outlive it. */
OrtStatus *vdev_kernel_create(vdev_device *device, const void *owner, OrtEnv *env, const OrtGraph *graph,
                              const OrtNode *fused_node, OrtNodeComputeInfo **out);

/* Waits for what is in flight. */
void vdev_kernel_release(OrtNodeComputeInfo *info);

#endif
