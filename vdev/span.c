/* A treap: a search tree by address whose random ranks decide which range is above which. */
#include "span.h"

static size_t widest_of(const vdev_span *tree) {
  return tree == NULL ? 0 : tree->widest;
}

static void update_widest(vdev_span *tree) {
  size_t left = widest_of(tree->left);
  size_t right = widest_of(tree->right);
  size_t below = left > right ? left : right;
  tree->widest = tree->gap > below ? tree->gap : below;
}

/* Those that start before `address`, and the rest. */
static void split(vdev_span *tree, size_t address, vdev_span **before, vdev_span **behind) {
  if (tree == NULL) {
    *before = *behind = NULL;
    return;
  }
  if (tree->start < address) {
    split(tree->right, address, &tree->right, behind);
    *before = tree;
  } else {
    split(tree->left, address, before, &tree->left);
    *behind = tree;
  }
  update_widest(tree);
}

/* Join two trees; all of the first come before all of the second. */
static vdev_span *join(vdev_span *before, vdev_span *behind) {
  if (before == NULL || behind == NULL) {
    return before == NULL ? behind : before;
  }
  vdev_span *top = before->rank > behind->rank ? before : behind;
  if (top == before) {
    before->right = join(before->right, behind);
  } else {
    behind->left = join(before, behind->left);
  }
  update_widest(top);
  return top;
}

static void set_gap(vdev_span *tree, vdev_span *span, size_t gap) {
  if (tree == span) {
    span->gap = gap;
  } else {
    set_gap(span->start < tree->start ? tree->left : tree->right, span, gap);
  }
  update_widest(tree);
}

static uint64_t next_random(vdev_spans *spans) { /* xorshift: the same in every run */
  spans->random ^= spans->random << 13;
  spans->random ^= spans->random >> 7;
  spans->random ^= spans->random << 17;
  return spans->random;
}

void vdev_spans_init(vdev_spans *spans, size_t first, size_t end) {
  spans->random = UINT64_C(0x9E3779B97F4A7C15);
  spans->end = (vdev_span){.start = end, .gap = end - first, .widest = end - first, .rank = next_random(spans)};
  spans->root = &spans->end;
}

/* As vdev_spans_behind, but including the end. */
static vdev_span *find_behind(const vdev_spans *spans, size_t address) {
  vdev_span *found = NULL;
  for (vdev_span *at = spans->root; at != NULL;) {
    if (at->start >= address) {
      found = at;
      at = at->left;
    } else {
      at = at->right;
    }
  }
  return found;
}

void vdev_spans_insert(vdev_spans *spans, vdev_span *span) {
  vdev_span *next = find_behind(spans, span->start);
  vdev_span *before;
  vdev_span *behind;
  span->gap = span->start - (next->start - next->gap);
  span->rank = next_random(spans);
  span->left = span->right = NULL;
  update_widest(span);
  set_gap(spans->root, next, next->start - span->start - span->room);
  split(spans->root, span->start, &before, &behind);
  spans->root = join(join(before, span), behind);
}

void vdev_spans_remove(vdev_spans *spans, vdev_span *span) {
  vdev_span *before;
  vdev_span *behind;
  vdev_span *alone;
  split(spans->root, span->start, &before, &behind);
  split(behind, span->start + 1, &alone, &behind);
  spans->root = join(before, behind);
  vdev_span *next = find_behind(spans, span->start);
  set_gap(spans->root, next, next->gap + span->gap + span->room);
}

bool vdev_spans_place(vdev_spans *spans, vdev_span *span) {
  if (widest_of(spans->root) < span->room) {
    return false;
  }
  const vdev_span *at = spans->root; /* the first gap that is wide enough is before this one, or below it */
  while (widest_of(at->left) >= span->room || at->gap < span->room) {
    at = widest_of(at->left) >= span->room ? at->left : at->right;
  }
  span->start = at->start - at->gap;
  vdev_spans_insert(spans, span);
  return true;
}

vdev_span *vdev_spans_before(const vdev_spans *spans, size_t address) {
  vdev_span *found = NULL;
  for (vdev_span *at = spans->root; at != NULL;) {
    if (at->start <= address) {
      found = at;
      at = at->right;
    } else {
      at = at->left;
    }
  }
  return found == &spans->end ? NULL : found;
}

vdev_span *vdev_spans_behind(const vdev_spans *spans, size_t address) {
  vdev_span *found = find_behind(spans, address);
  return found == &spans->end ? NULL : found;
}
