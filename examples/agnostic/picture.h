/* A PNG as the numbers that a model wants. */
#ifndef EXAMPLE_PICTURE_H
#define EXAMPLE_PICTURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct picture {
  float *values;  /* [3,height,width], for free() */
  int64_t height; /* padded up to a multiple of what was asked for */
  int64_t width;
} picture;

/* Read a PNG of any kind as blue, green and red planes of -1 .. 1, as PP-OCR's models were trained. They want sizes that are
 * multiples of `multiple`: what is missing on the right and at the bottom is filled with grey (0).
 * Returns NULL, or what is wrong: text that stays valid until the next call. */
const char *picture_read(const char *path, int64_t multiple, picture *p);

#endif
