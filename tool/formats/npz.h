/** @file npz.h
 *  numpy's .npz files: zip archives of .npy files, stored or deflated. An archive is trusted only as far as the file's size
 *  agrees. */
#ifndef IOBIND_TOOL_NPZ_H
#define IOBIND_TOOL_NPZ_H

#include <stdbool.h>
#include <stddef.h>

#include "formats/fault.h"
#include "formats/npy.h"

#define NPZ_ENDING ".npz"

typedef struct npz_archive npz_archive;

/** Whether a file is an archive, by its name. */
bool npz_is_archive(const char *path);

/** Open an archive for reading. NULL: the fault says why. */
npz_archive *npz_open(const char *path, tool_fault *fault);

/** Close it; NULL is a no-op. */
void npz_close(npz_archive *archive);

/** The number of arrays. Other members are not counted. */
size_t npz_count(const npz_archive *archive);

/** The name of an array as numpy gives it, without ".npy"; valid as long as the archive. */
const char *npz_name(const npz_archive *archive, size_t index);

/** Read the array of that name.
 *  @param filter  refuses some; NULL: none */
bool npz_read(npz_archive *archive, const char *name, const npy_filter *filter, npy_array *array, tool_fault *fault);

/** Whether an array may have this name in an archive: text, without control characters, and not a path that leaves the directory
 *  in which the archive is unpacked. */
bool npz_can_name(const char *name);

/** Write arrays as numpy.savez does, stored, whole or not at all. Equal arrays give equal bytes. */
bool npz_write(const char *path, const char *const *names, const npy_array *arrays, size_t count, tool_fault *fault);

#endif
