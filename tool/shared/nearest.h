/** @file nearest.h
 *  The name that a person probably meant. */
#ifndef IOBIND_TOOL_NEAREST_H
#define IOBIND_TOOL_NEAREST_H

#include <stddef.h>

/** Which of two names is nearer to a typed word: the nearest so far (may be NULL) or another one; NULL if neither is near. Call
 *  it for each known name. */
const char *nearest_of(const char *word, const char *best, const char *name);

#endif
