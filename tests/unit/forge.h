/* A state's file that iobind has not written, although its hashes are right. */
#ifndef TESTS_UNIT_FORGE_H
#define TESTS_UNIT_FORGE_H

#include "fixture.h"

#include <stdio.h>

#include "support/hash.h"

static size_t number_at(const unsigned char *at, size_t bytes) {
  size_t number = 0;
  for (size_t i = 0; i < bytes; i++) number |= (size_t)at[i] << (8 * i);
  return number;
}

/* Another element type of the same size, with a header whose hash is right. */
static void forge_type(const char *path) {
  enum { HEADER_BYTES_AT = 12, NAMES_AT = 84, HASH = 16, MOST = 4096 };
  static unsigned char file[MOST];
  FILE *stream = fopen(path, "r+b");
  assert_non_null(stream);
  assert_true(fread(file, 1, MOST, stream) > NAMES_AT);
  const size_t header = number_at(file + HEADER_BYTES_AT, 4) - HASH;
  size_t at = NAMES_AT;
  for (int i = 0; i < 2; i++) at += 4 + number_at(file + at, 4);
  assert_int_equal(file[at], IOBIND_DTYPE_FLOAT32);
  file[at] = IOBIND_DTYPE_INT32;
  const iobind__hash hash = iobind__hash_of(file, header);
  for (size_t i = 0; i < HASH; i++) file[header + i] = (unsigned char)(hash.words[i / 8] >> (8 * (i % 8)));
  rewind(stream);
  assert_int_equal(fwrite(file, 1, header + HASH, stream), header + HASH);
  assert_int_equal(fclose(stream), 0);
}

#endif
