/** @file file.h
 *  Whole files: read with a check of their real size, written whole or not at all. */
#ifndef IOBIND_TOOL_FILE_H
#define IOBIND_TOOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"

/** Open a regular file for reading, and get its size. Any other kind of file is refused.
 *  @return a descriptor for close(), or -1 */
int file_open(const char *path, uint64_t *size, tool_fault *fault);

/** Read exactly `bytes` bytes. It is a fault if the file has fewer. */
bool file_read(int descriptor, const char *path, void *data, size_t bytes, tool_fault *fault);

typedef struct file_part {
  const void *data;
  size_t bytes;
} file_part;

/** Write the parts one after the other into a temporary file in the same directory, which then replaces `path` in one step.
 *  After a failure `path` is unchanged. */
bool file_write(const char *path, const file_part *parts, size_t count, tool_fault *fault);

/** Fill the file `temporary`, which exists and is empty, and close it; `path` is for the fault. */
typedef bool file_filler(void *context, const char *temporary, const char *path, tool_fault *fault);

/** As file_write, but the function writes the file. */
bool file_produce(const char *path, file_filler *fill, void *context, tool_fault *fault);

/** Defer signals that would end the process until the release, so that a temporary file can be removed first. A second signal
 *  ends the process at once. Calls can be nested; the last release raises the signal. */
void file_hold_signals(void);
void file_release_signals(void);

/** Was such a signal received? Then a filler should stop as soon as possible. */
bool file_is_stopped(void);

#ifndef FILE_SEPARATORS
#define FILE_SEPARATORS "/" /**< separates the parts of a path */
#endif

/** The last part of a path, within the path. */
const char *file_name(const char *path);

/** "DIRECTORY/FILE", malloc'ed; NULL: no memory. */
char *file_join(const char *directory, const char *file);

/** Make a directory and its parents, unless they exist. */
bool file_make_directory(const char *path, tool_fault *fault);

#endif
