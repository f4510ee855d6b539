/** @file outputs.h
 *  Names of the files that outputs are written to. */
#ifndef IOBIND_TOOL_OUTPUTS_H
#define IOBIND_TOOL_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

/** One file name for each output, without its directory: the output's name, with `_` for characters that cannot be in a file name,
 *  and ".npy". Names that would be the same file, with letter case ignored, get "_2", "_3" and so on.
 *  @param files  receives `count` malloc'ed names; false: out of memory, and they are all NULL */
bool outputs_name_files(const char *const *names, size_t count, char **files);

#endif
