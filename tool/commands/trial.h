/** @file trial.h
 *  One model on one device, run in several ways that take turns, so that disturbances of the machine affect all of them. */
#ifndef IOBIND_TOOL_TRIAL_H
#define IOBIND_TOOL_TRIAL_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/clock.h"
#include "shared/launches.h"
#include "shared/statistic.h"
#include "shared/wish.h"

typedef enum trial_way_index {
  TRIAL_UNBOUND,  /**< iobind_session_run with host tensors; its outputs are released in the same run */
  TRIAL_READ,     /**< as TRIAL_WRITTEN, and all outputs are read into host memory after each run: what an unbound run does */
  TRIAL_WRITTEN,  /**< bound to tensors where the session wants them, written before each run; fresh outputs there */
  TRIAL_RESIDENT, /**< bound to such tensors, written once; outputs stay in one memory */
  TRIAL_WAYS
} trial_way_index;

typedef struct trial_way {
  uint64_t upload_bytes; /**< bytes over the link in a run */
  uint64_t download_bytes;
  double launches;    /**< in a run, a graph as one; -1: the device does not count them */
  uint64_t set_up_ns; /**< once: create the device tensors, write and bind them; 0 for TRIAL_UNBOUND */
  uint64_t set_up_bytes;
  uint64_t first_ns; /**< the first run */
  uint64_t *samples; /**< time of each later run, in their order; trial_free frees it */
  size_t sample_count;
  statistic time; /**< of the samples, in nanoseconds */
} trial_way;

typedef struct trial {
  trial_way ways[TRIAL_WAYS];
} trial;

typedef struct trial_plan {
  size_t iterations;             /**< of each way, at most; 1 or more */
  double seconds;                /**< for all ways together, but at least TRIAL_LEAST_RUNS of each; 0: no limit */
  const char *title;             /**< of the measurement, in reports of progress */
  size_t warmup;                 /**< runs of each way that do not count, besides the first */
  const bool *kept;              /**< for each input: stays on the device in every bound way */
  tool_clock clock;              /**< the clock that times the runs */
  tool_launches launches;        /**< of the device */
  const wish_pairs *run_configs; /**< of bound runs */
} trial_plan;

enum { TRIAL_LEAST_RUNS = 3 };

/** Measure, and report progress.
 *  @param inputs  host tensors, one for each input of the session
 *  @param t  receives the figures; after an error nothing has to be freed */
iobind_status trial_run(iobind_runtime *runtime, iobind_session *session, iobind_tensor *const *inputs, const trial_plan *plan,
                        trial *t, iobind_error *error);

void trial_free(trial *t);

/** How many times as fast a way is as TRIAL_UNBOUND, by the medians. Infinite if only TRIAL_UNBOUND takes time, 0 if neither
 *  does, as on a virtual clock. */
double trial_ratio(const trial *t, trial_way_index way);

/** 1: a way is faster than TRIAL_UNBOUND, -1: slower, 0: the difference is noise: less than a tenth, or less than the runs
 *  vary. */
int trial_compare(const trial *t, trial_way_index way);

/** After how many runs a way has made up for the time of its set-up; 0: never, because a run is not faster. */
uint64_t trial_paid_after(const trial *t, trial_way_index way);

#endif
