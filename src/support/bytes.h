/* A growing array of bytes: the content of a file, or a model for ORT. */
#ifndef IOBIND_SUPPORT_BYTES_H
#define IOBIND_SUPPORT_BYTES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct iobind__bytes {
  unsigned char *data; /* the owner frees it */
  size_t length;
  size_t room;
  bool failed; /* out of memory: bytes added since then are lost */
} iobind__bytes;

void iobind__bytes_put(iobind__bytes *self, const void *data, size_t count);

#endif
