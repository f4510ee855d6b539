/* Ranges of addresses in order, and the gaps between them. Every operation takes as many steps as the tree is high, about three
 * times the logarithm of the number of ranges. */
#ifndef VDEV_SPAN_H
#define VDEV_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One range: the first member of the caller's struct. */
typedef struct vdev_span {
  size_t start;
  size_t room;   /* bytes that it takes up */
  size_t gap;    /* free bytes between the range before it and itself */
  size_t widest; /* the largest gap of itself and of all ranges below it */
  uint64_t rank; /* in the tree, no range is above one of a higher rank; random, so that the tree is flat */
  struct vdev_span *left;
  struct vdev_span *right;
} vdev_span;

/* The ranges within [first, end). This struct must not be moved in memory. */
typedef struct vdev_spans {
  vdev_span *root;
  vdev_span end; /* takes no bytes and is always there: the last gap is before it */
  uint64_t random;
} vdev_spans;

void vdev_spans_init(vdev_spans *spans, size_t first, size_t end);

/* Give a range of span->room bytes the lowest free place. False: no gap is wide enough. */
bool vdev_spans_place(vdev_spans *spans, vdev_span *span);

/* Add a range at span->start; it overlaps no other. */
void vdev_spans_insert(vdev_spans *spans, vdev_span *span);
void vdev_spans_remove(vdev_spans *spans, vdev_span *span);

/* The last one that starts at `address` or before it; NULL: none. */
vdev_span *vdev_spans_before(const vdev_spans *spans, size_t address);

/* The first one that starts at or after `address`; NULL: none. */
vdev_span *vdev_spans_behind(const vdev_spans *spans, size_t address);

#endif
