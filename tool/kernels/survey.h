/** @file survey.h
 *  The kernels of the list, tried on a device by separate processes: a kernel that ends its process is a finding, and the others are
 *  still tried. */
#ifndef IOBIND_TOOL_KERNEL_SURVEY_H
#define IOBIND_TOOL_KERNEL_SURVEY_H

#include "kernels/trial.h"

enum { SURVEY_JOBS = 64 };

typedef struct survey_wish {
  char *const *operators; /**< a list that ends in NULL; NULL: all */
  size_t jobs;            /**< processes at a time, up to SURVEY_JOBS; 0: one for each core, at most 4 */
} survey_wish;

/** One kernel. */
typedef struct survey_entry {
  char text[KERNEL_TEXT];
  int32_t dtype;
  size_t rank;
  kernel_finding found;
} survey_entry;

typedef struct survey survey;

/** To be called before the process has a runtime or a second thread, which a forked process must not have. survey_end frees it, also
 *  after a failure.
 *  @return TOOL_GO, or the exit code after the error is printed: an operator of which the list has no kernel, no memory */
int survey_begin(tool_state *tool, const survey_wish *wish, survey **made);

/** Try all kernels on the device of a spec such as "webgpu:0", with the command line's options of EPs. The entries of the previous device
 *  are overwritten. */
int survey_run(survey *self, const char *spec);

size_t survey_count(const survey *self);
const survey_entry *survey_get(const survey *self, size_t index);

void survey_end(survey *self);

#endif
