/* A claimed group of nodes: a CPU session of its own, run over the device's memory. */
#ifndef VDEV_KERNEL_H
#define VDEV_KERNEL_H

#include "device.h"
#include "status.h"

enum { VDEV_KERNEL_RANK = 64 }; /* at most, for an output whose shape is known before the run */

/* How a dim of an output is known before the run: a number, or a dim of an input. */
typedef struct vdev_dim_rule {
  int64_t value; /* -1: see the rest */
  size_t input;
  size_t axis;
} vdev_dim_rule;

/* Two dims of inputs that have one name. */
typedef struct vdev_tie {
  size_t input;
  size_t axis;
  size_t other_input;
  size_t other_axis;
} vdev_tie;

typedef struct vdev_port {
  char *name;
  size_t index; /* of the fused node's input or output */
  size_t rank;
  vdev_dim_rule *rules; /* outputs whose shape is known before the run; NULL: none */
} vdev_port;

typedef struct vdev_kernel {
  OrtNodeComputeInfo info; /* first: ORT's view */
  vdev_device *device;
  const void *owner; /* whose work it is: the EP's of one session */
  OrtSession *session;
  OrtRunOptions *run_options; /* the same for all runs: without it ORT makes new ones for each run */
  OrtMemoryInfo *host;
  char what[48];
  vdev_port *inputs;
  size_t input_count;
  vdev_port *outputs;
  size_t output_count;
  const char **names; /* of inputs, then of outputs */
  struct vdev_constant *constants;
  size_t constant_count;
  bool shapes_known; /* of all outputs, before a run, if `ties` hold */
  vdev_tie *ties;    /* dims that must be equal for that */
  size_t tie_count;
  bool sized_by_data; /* how long the output of some node is, its data decide */
  char **labels;      /* the names that a fault may use: operators, nodes and tensors */
  size_t label_count;
  struct vdev_launch *idle; /* launches that are not in flight, kept for the next run */
  size_t in_flight;         /* launches that are */
} vdev_kernel;

/* Create the kernel of a group; its failures are reported to `owner`. `env` must outlive it. */
OrtStatus *vdev_kernel_create(vdev_device *device, const void *owner, OrtEnv *env, const OrtGraph *graph,
                              const OrtNode *fused_node, OrtNodeComputeInfo **out);

/* Waits for launches in flight. */
void vdev_kernel_release(OrtNodeComputeInfo *info);

#endif
