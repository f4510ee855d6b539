/* A hash of 128 bits that detects other data, and accidental changes. It does not protect against forged data. */
#ifndef IOBIND_SUPPORT_HASH_H
#define IOBIND_SUPPORT_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { IOBIND__HASH_COLUMNS = 8, IOBIND__HASH_BLOCK = 8 * IOBIND__HASH_COLUMNS };

typedef struct iobind__hash {
  uint64_t words[2];
} iobind__hash;

typedef struct iobind__hasher {
  uint64_t columns[IOBIND__HASH_COLUMNS];
  uint64_t bytes;
  size_t held; /* bytes of a block that is not full */
  unsigned char block[IOBIND__HASH_BLOCK];
} iobind__hasher;

void iobind__hash_begin(iobind__hasher *self);
void iobind__hash_add(iobind__hasher *self, const void *data, size_t bytes);
iobind__hash iobind__hash_end(iobind__hasher *self);

/* The hash of contiguous bytes. */
iobind__hash iobind__hash_of(const void *data, size_t bytes);

#endif
