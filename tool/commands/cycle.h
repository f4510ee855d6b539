/** @file cycle.h
 *  A model run step by step with carried states, and the same through the host. */
#ifndef IOBIND_TOOL_CYCLE_H
#define IOBIND_TOOL_CYCLE_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands/feed.h"
#include "pictures/gather.h"
#include "shared/statistic.h"
#include "shared/tool.h"

typedef struct cycle_carry {
  size_t output, input;
  iobind_carry_mode mode;
} cycle_carry;

/** A cache of fixed capacity that is carried in place. */
typedef struct cycle_cache {
  npy_array rows;   /**< what it holds beyond its length, by the loop through the host; empty: the carry is none */
  size_t row_bytes; /**< contiguous bytes of a row */
} cycle_cache;

typedef enum cycle_way {
  CYCLE_CARRIED,  /**< a binding; states are carried in their modes */
  CYCLE_CAPTURED, /**< the same with a session that captures graphs */
  CYCLE_HOST,     /**< iobind_session_run with host tensors; outputs are passed in again */
  CYCLE_WAYS
} cycle_way;

/** A way's times and results. */
typedef struct cycle_lane {
  uint64_t first_ns; /**< the first step: feed, run, read what is gathered */
  statistic time;    /**< of the later steps, in nanoseconds */
  uint64_t made;     /**< in all steps: tensors that the run asked ORT for, and iobind's own allocations */
  int64_t launches;  /**< in the later steps, a graph as one; -1: the device does not count them */
  uint64_t upload_bytes;
  uint64_t download_bytes;
  uint64_t local_bytes;
  gather *outputs; /**< one for each output; of a carried one that is not gathered its last state, without the first axis */
} cycle_lane;

typedef struct cycle {
  iobind_runtime *runtime;
  tool_clock clock;
  const wish_pairs *run_configs; /**< of the binding */
  tool_launches launches;        /**< of the device */
  iobind_session *session;
  iobind_session *captured; /**< of the same model, which captures graphs; NULL: that way is not run */
  size_t input_count, output_count;
  iobind_tensor **inputs; /**< host tensors: constants, first states, or first slices */
  iobind_tensor **first;  /**< for each input its tensor in the first step; NULL: the same as later */
  feed *fed;              /**< for each input; count 0: it gets no slices */
  cycle_carry *carries;   /**< malloc'ed */
  size_t carry_count;
  cycle_cache *caches;                /**< one for each carry; NULL: nothing has run through the host */
  iobind_state *restored[CYCLE_WAYS]; /**< the state that the way's binding begins with, of its session; NULL: the inputs */
  size_t steps;
  bool saves; /**< the state after the last step of the carried way becomes `saved` */
  iobind_state *saved;
  bool gathers;         /**< outputs that are not carried are read in each step, */
  bool *gathered;       /**< and of the carried ones these */
  iobind_error failure; /**< the failure of a run */
  cycle_lane lanes[CYCLE_WAYS];
} cycle;

/** Make room; cycle_end frees it, and what was put into it. The caller sets the fields before `failure`. */
bool cycle_begin(cycle *c, const tool_state *tool, iobind_session *session, const iobind_session_info *info);
void cycle_end(cycle *c);

/** "captured, ", for a message. */
const char *cycle_way_text(cycle_way way);

/** Run all steps one way, and report progress.
 *  @param step  receives the step at which it failed */
bool cycle_run(cycle *c, cycle_way way, size_t *step, tool_fault *fault);

/** Whether a way gave the same bytes as the one through the host; if not, an output that differs. Rows of a cache of fixed capacity
 *  in place that are beyond its length may differ. */
bool cycle_compare(const cycle *c, cycle_way way, size_t *output);

#endif
