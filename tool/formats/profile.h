/** @file profile.h
 *  The copies that ORT has inserted between nodes, from its profile of a session. */
#ifndef IOBIND_TOOL_PROFILE_H
#define IOBIND_TOOL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"

/** A copy node, over all runs of the profile. */
typedef struct profile_copy {
  char *name;
  bool to_host;   /**< otherwise to the device */
  int64_t node;   /**< ORT's number of the node */
  uint64_t bytes; /**< over all runs, as the next two */
  uint64_t nanoseconds;
  uint64_t count;
} profile_copy;

/** Read a profile from its beginning.
 *  @param path    for the fault
 *  @param copies  receives a malloc'ed array in the order in which they first ran; profile_free frees it */
bool profile_read(int descriptor, const char *path, profile_copy **copies, size_t *count, tool_fault *fault);

void profile_free(profile_copy *copies, size_t count);

#endif
