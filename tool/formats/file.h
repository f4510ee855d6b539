/** @file file.h
 *  Whole files: read with a check of their real size, written whole or not at all. */
#ifndef IOBIND_TOOL_FILE_H
#define IOBIND_TOOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"

/** Open a regular file for reading and tell its size; any other kind of file is refused.
 *  @return a descriptor for close(), or -1 */
int file_open(const char *path, uint64_t *size, tool_fault *fault);

/** Read exactly `bytes` bytes; fewer in the file is a fault. */
bool file_read(int descriptor, const char *path, void *data, size_t bytes, tool_fault *fault);

typedef struct file_part {
  const void *data;
  size_t bytes;
} file_part;

/** Write the parts one after the other into a new file that then replaces `path` in one step: a temporary file in the same
 *  folder, renamed when it is complete. After a failure `path` is as it was. */
bool file_write(const char *path, const file_part *parts, size_t count, tool_fault *fault);

/** Fill the file `temporary`, which exists and is empty, and close it; `path` is for the fault. */
typedef bool file_filler(void *context, const char *temporary, const char *path, tool_fault *fault);

/** As file_write, with a function that writes. */
bool file_produce(const char *path, file_filler *fill, void *context, tool_fault *fault);

/** From here on a signal that would end the process is only remembered, so that a temporary file can be removed first; a second
 *  one ends it. Can be nested. The last release raises the signal that came. */
void file_hold_signals(void);
void file_release_signals(void);

/** Whether a signal that ends the process has come: a filler should stop as soon as it can. */
bool file_is_stopped(void);

#ifndef FILE_SEPARATORS
#define FILE_SEPARATORS "/" /**< separates the parts of a path */
#endif

/** The last part of a path, within the path. */
const char *file_name(const char *path);

/** "FOLDER/FILE", malloc'ed; NULL: no memory. */
char *file_join(const char *folder, const char *file);

/** Make a folder and the folders above it; one that exists is fine. */
bool file_make_folder(const char *path, tool_fault *fault);

#endif
