/** @file feed.h
 *  An array of which an input gets one slice in each step. */
#ifndef IOBIND_TOOL_FEED_H
#define IOBIND_TOOL_FEED_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/npy.h"

typedef struct feed {
  npy_array slices; /**< the array with the axis first */
  npy_array slice;  /**< a slice; its data are the first one's, and belong to `slices` */
  size_t count;
} feed;

/** Split "FILE@AXIS": the length of FILE, and the axis. False: the text ends in no axis, and all of it is the file. */
bool feed_split(const char *text, size_t *length, int64_t *axis);

/** Read what given_read takes, to be given slice by slice along an axis. A slice lacks this axis. If the input has as
 *  many dims as the array, it has the axis, with the size 1. feed_free frees it. */
bool feed_read(const char *file, int64_t axis, const iobind_value_info *value, feed *fed, tool_fault *fault);

void feed_free(feed *fed);

/** The bytes of a slice, of which there are slice.bytes. */
const void *feed_at(const feed *fed, size_t step);

#endif
