/** @file nearest.h
 *  The name that a person may have meant. */
#ifndef IOBIND_TOOL_NEAREST_H
#define IOBIND_TOOL_NEAREST_H

#include <stddef.h>

/** The better of a name that was best so far (may be NULL) and another one, for a word that was typed; NULL if neither is
 *  near. Call it for each name there is. */
const char *nearest_of(const char *word, const char *best, const char *name);

#endif
