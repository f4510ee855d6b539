/** @file npy.h
 *  numpy's .npy files. A header is trusted only as far as the file's size agrees. */
#ifndef IOBIND_TOOL_NPY_H
#define IOBIND_TOOL_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"

#define NPY_MAX_RANK 32
#define NPY_HEADER_SIZE 1024 /* room for 32 dims of 20 characters */

typedef struct npy_array {
  char kind;                  /**< numpy's letter: b bool, i and u integers, f floats, c complex, U text, S bytes, V raw */
  size_t item_bytes;          /**< of one element; for U four times the characters */
  int64_t dims[NPY_MAX_RANK]; /**< 0 or more each */
  size_t rank;
  size_t count; /**< elements */
  size_t bytes; /**< count * item_bytes */
  void *data;   /**< C order, this machine's byte order; NULL if there are 0 bytes */
} npy_array;

/** Read an array. Fortran order and the other byte order are converted; object arrays and records are refused. */
bool npy_read(const char *path, npy_array *array, tool_fault *fault);

/** Checks the header before memory is allocated for the data, which may be a thousand times as large as the archive. False: the
 *  fault has the reason why the array is refused. */
typedef struct npy_filter {
  bool (*accepts)(const void *context, const npy_array *header, tool_fault *fault);
  const void *context;
} npy_filter;

/** As npy_read, but an array that the filter does not accept is refused. NULL: no filter. */
bool npy_read_if(const char *path, const npy_filter *filter, npy_array *array, tool_fault *fault);

/** What an array is read from: a file, or a member of an archive. */
typedef struct npy_source {
  const char *name;                                                                           /**< for the fault */
  uint64_t size;                                                                              /**< bytes that it has */
  bool (*read)(void *context, const char *name, void *data, size_t bytes, tool_fault *fault); /**< exactly the next `bytes` */
  void *context;
  const npy_filter *filter; /**< may be NULL */
} npy_source;

/** As npy_read_if. */
bool npy_read_from(const npy_source *source, npy_array *array, tool_fault *fault);

/** Free what npy_read or npy_set_texts made, and zero the array. */
void npy_free(npy_array *array);

/** Write an array, whole or not at all. */
bool npy_write(const char *path, const npy_array *array, tool_fault *fault);

/** The header of an array's file, which precedes the data. Returns its size. */
size_t npy_make_header(const npy_array *array, char header[NPY_HEADER_SIZE]);

/** The type as numpy writes it, such as "<f4". Returns `text`. */
const char *npy_type(const npy_array *array, char text[24]);

/** Set the dims, the count and the bytes of an array whose kind and item_bytes are set. False: negative dims or too many. */
bool npy_set_dims(npy_array *array, const int64_t *dims, size_t rank);

/** One element of an array of kind U or S as UTF-8, malloc'ed. NULL: no memory, or not text. */
char *npy_get_text(const npy_array *array, size_t index);

/** Whether these bytes are UTF-8 without a NUL. */
bool npy_is_text(const char *bytes, size_t length);

/** Fill an array of kind U, whose dims are set, from `count` UTF-8 texts; bytes that are not UTF-8 become U+FFFD. */
bool npy_set_texts(npy_array *array, const char *const *texts, const size_t *lengths);

#endif
