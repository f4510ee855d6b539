/* Structs that cross the public interface carry their size, so that programs built with older or newer headers work. */
#ifndef IOBIND_SUPPORT_OPTIONS_H
#define IOBIND_SUPPORT_OPTIONS_H

#include "support/error.h"

/* Read the caller's options into `out`, a struct of `size` bytes. Fields that a shorter struct lacks are zero; of a longer one
 * the unknown fields must be zero. NULL `options` gives all zero.
 * @param oldest  size of the struct in the first version that had it
 * @param what    names the call in messages */
iobind_status iobind__options_read(void *out, size_t size, size_t oldest, const void *options, const char *what,
                                   iobind_error *error);

/* The same for a struct that has not grown since its first version; `out` points to it. */
#define IOBIND__OPTIONS_READ(out, options, what, error) \
  iobind__options_read(out, sizeof *(out), sizeof *(out), options, what, error)

/* Check an array of the caller and its length: INVALID_ARGUMENT unless it has `expected` entries.
 * @param name  the argument or field that it is */
iobind_status iobind__array_check(const void *array, size_t count, size_t expected, const char *name, const char *what,
                                  iobind_error *error);

/* The same for an array that may be NULL, with the length 0. */
iobind_status iobind__array_check_optional(const void *array, size_t count, size_t expected, const char *name, const char *what,
                                           iobind_error *error);

/* NOT_SUPPORTED if `flags` has a bit outside `known`. */
iobind_status iobind__flags_check(uint32_t flags, uint32_t known, const char *what, iobind_error *error);

/* Fill the caller's info struct from `full` (both begin with struct_size): as many bytes as both have.
 * @param name  the argument that `info` is */
iobind_status iobind__info_write(void *info, const char *name, const void *full, size_t size, size_t oldest, const char *what,
                                 iobind_error *error);

/* The same for a struct that has not grown since its first version; `info` is the argument itself, `full` points to the struct. */
#define IOBIND__INFO_WRITE(info, full, what, error) \
  iobind__info_write(info, #info, full, sizeof *(full), sizeof *(full), what, error)

#endif
