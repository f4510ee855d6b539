/** @file outputs.h
 *  Names of the files that outputs are written to. */
#ifndef IOBIND_TOOL_OUTPUTS_H
#define IOBIND_TOOL_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

/** One file name for each output, without its folder: the output's name, with `_` for what cannot stand in a file name, and
 *  ".npy". Names that would be the same file, also if letter case does not count, get "_2", "_3" and so on.
 *  @param files  receives `count` malloc'ed names; false: no memory, and they are all NULL */
bool outputs_name_files(const char *const *names, size_t count, char **files);

#endif
