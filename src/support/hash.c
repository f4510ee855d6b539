#include "support/hash.h"

#include <string.h>

/* Odd numbers without a pattern: the first bits of the fractional parts of square roots of primes. */
static const uint64_t numbers[IOBIND__HASH_COLUMNS] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                                       0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                                       0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static inline uint64_t rotate(uint64_t word, unsigned bits) {
  return (word << bits) | (word >> (64 - bits));
}

static inline uint64_t load(const unsigned char *bytes) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
#else
  uint64_t word = 0;
  for (int i = 7; i >= 0; i--) {
    word = word << 8 | bytes[i];
  }
#endif
  return word;
}

/* Each step is a bijection of the column and of the word: a word that differs always changes the column. */
static inline uint64_t step(uint64_t column, uint64_t word, uint64_t number) {
  return rotate((column ^ word) * number, 29);
}

/* Written out, so that the columns stay in registers at any level of optimization. */
static inline void add_block(uint64_t *columns, const unsigned char *data) {
  columns[0] = step(columns[0], load(data), numbers[0]);
  columns[1] = step(columns[1], load(data + 8), numbers[1]);
  columns[2] = step(columns[2], load(data + 16), numbers[2]);
  columns[3] = step(columns[3], load(data + 24), numbers[3]);
  columns[4] = step(columns[4], load(data + 32), numbers[4]);
  columns[5] = step(columns[5], load(data + 40), numbers[5]);
  columns[6] = step(columns[6], load(data + 48), numbers[6]);
  columns[7] = step(columns[7], load(data + 56), numbers[7]);
}

static void add_blocks(iobind__hasher *self, const unsigned char *data, size_t blocks) {
  uint64_t columns[IOBIND__HASH_COLUMNS];
  memcpy(columns, self->columns, sizeof columns);
  for (size_t i = 0; i < blocks; i++) {
    add_block(columns, data + i * IOBIND__HASH_BLOCK);
  }
  memcpy(self->columns, columns, sizeof columns);
}

void iobind__hash_begin(iobind__hasher *self) {
  *self = (iobind__hasher){0};
  memcpy(self->columns, numbers, sizeof self->columns);
}

void iobind__hash_add(iobind__hasher *self, const void *data, size_t bytes) {
  const unsigned char *from = data;
  self->bytes += bytes;
  if (self->held > 0) {
    size_t room = IOBIND__HASH_BLOCK - self->held;
    size_t part = bytes < room ? bytes : room;
    memcpy(self->block + self->held, from, part);
    self->held += part;
    from += part;
    bytes -= part;
    if (self->held < IOBIND__HASH_BLOCK) {
      return;
    }
    add_blocks(self, self->block, 1);
    self->held = 0;
  }
  add_blocks(self, from, bytes / IOBIND__HASH_BLOCK);
  self->held = bytes % IOBIND__HASH_BLOCK;
  if (self->held > 0) {
    memcpy(self->block, from + (bytes - self->held), self->held);
  }
}

/* Each bit of the word affects each bit of the result. */
static uint64_t spread(uint64_t word) {
  word = (word ^ (word >> 32)) * numbers[1];
  word = (word ^ (word >> 29)) * numbers[3];
  return word ^ (word >> 32);
}

iobind__hash iobind__hash_end(iobind__hasher *self) {
  if (self->held > 0) {
    memset(self->block + self->held, 0, IOBIND__HASH_BLOCK - self->held);
    add_blocks(self, self->block, 1);
  }
  iobind__hash hash = {{spread(self->bytes ^ numbers[0]), spread(self->bytes ^ numbers[2])}};
  for (size_t k = 0; k < IOBIND__HASH_COLUMNS; k++) {
    uint64_t column = spread(self->columns[k]);
    hash.words[0] = spread(step(hash.words[0], column, numbers[4]));
    hash.words[1] = spread(step(hash.words[1], rotate(column, 32), numbers[6]));
  }
  return hash;
}

iobind__hash iobind__hash_of(const void *data, size_t bytes) {
  iobind__hasher hasher;
  iobind__hash_begin(&hasher);
  iobind__hash_add(&hasher, data, bytes);
  return iobind__hash_end(&hasher);
}
