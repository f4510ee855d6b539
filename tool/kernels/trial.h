/** @file trial.h
 *  A kernel on a device, beside ORT's CPU EP. */
#ifndef IOBIND_TOOL_KERNEL_TRIAL_H
#define IOBIND_TOOL_KERNEL_TRIAL_H

#include "kernels/kernel.h"
#include "shared/tool.h"

typedef enum kernel_outcome {
  KERNEL_RIGHT,
  KERNEL_WRONG,
  KERNEL_ON_CPU,  /**< the device does not take the node: ORT's CPU EP runs it, unless a session is strict */
  KERNEL_REFUSED, /**< an error, when the session is created or in a run */
  KERNEL_FATAL,   /**< the process ends */
  KERNEL_UNKNOWN, /**< the CPU refuses it, so there is nothing to compare with */
  KERNEL_OUTCOMES
} kernel_outcome;

typedef struct kernel_finding {
  kernel_outcome outcome;
  char reason[400];             /**< unless it is RIGHT or ON_CPU: what differs, or the error */
  iobind_difference difference; /**< WRONG */
  bool is_lost;                 /**< the device is lost to the process: no kernel runs on it any more */
} kernel_finding;

/** Where kernels are tried. An EP may initialise its device for the first session and release it with the last one, which can take longer than a
 *  kernel. So the last session is kept until the next one exists. */
typedef struct kernel_bench {
  tool_state *tool;
  iobind_device *device;
  iobind_session *kept; /**< NULL at first; kernel_leave destroys it */
} kernel_bench;

/** Make the model of a line, run it once on the CPU and twice on the device, with the command line's options of EPs.
 *  @param rank  receives that of the first operand
 *  @return false: it is not such a line, or out of memory */
bool kernel_try(kernel_bench *bench, const char *text, int32_t dtype, kernel_finding *finding, size_t *rank);
void kernel_leave(kernel_bench *bench);

#endif
