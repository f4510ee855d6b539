/* Ranges of addresses against a plain map of them, and how flat their tree is. */
#include "span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST = 3, END = 500, RANGES = 64 };

static struct {
  vdev_spans spans;
  vdev_span ranges[RANGES];
  bool is_in[RANGES];
  int owner[END]; /* of each address: a range's index, or -1 */
} map;

static size_t lowest_fit(size_t room) {
  for (size_t start = FIRST; start + room <= END; start++) {
    size_t free_bytes = 0;
    while (free_bytes < room && map.owner[start + free_bytes] < 0) {
      free_bytes++;
    }
    if (free_bytes == room) {
      return start;
    }
  }
  return END;
}

static void own(int index, int owner) {
  for (size_t i = 0; i < map.ranges[index].room; i++) {
    map.owner[map.ranges[index].start + i] = owner;
  }
  map.is_in[index] = owner >= 0;
}

static void expect_neighbours(size_t address) {
  const vdev_span *before = NULL;
  const vdev_span *behind = NULL;
  for (int i = 0; i < RANGES; i++) {
    const vdev_span *range = &map.ranges[i];
    if (map.is_in[i] && range->start <= address && (before == NULL || range->start > before->start)) {
      before = range;
    }
    if (map.is_in[i] && range->start >= address && (behind == NULL || range->start < behind->start)) {
      behind = range;
    }
  }
  assert_ptr_equal(vdev_spans_before(&map.spans, address), before);
  assert_ptr_equal(vdev_spans_behind(&map.spans, address), behind);
}

static void test_against_a_map(void **state) {
  (void)state;
  uint32_t random = 1;
  memset(&map, 0, sizeof map);
  memset(map.owner, -1, sizeof map.owner);
  vdev_spans_init(&map.spans, FIRST, END);
  for (int step = 0; step < 100000; step++) {
    random = random * 1664525 + 1013904223;
    int index = (int)(random >> 26);
    vdev_span *range = &map.ranges[index];
    if (map.is_in[index]) {
      vdev_spans_remove(&map.spans, range);
      own(index, -1);
    } else {
      range->room = 1 + (random >> 16) % 24;
      size_t expected = lowest_fit(range->room);
      assert_int_equal(vdev_spans_place(&map.spans, range), expected < END);
      if (expected < END) {
        assert_int_equal(range->start, expected);
        own(index, index);
      }
    }
    expect_neighbours((random >> 8) % END);
  }
}

static size_t height(const vdev_span *tree) {
  if (tree == NULL) {
    return 0;
  }
  size_t left = height(tree->left);
  size_t right = height(tree->right);
  return 1 + (left > right ? left : right);
}

/* What a step of any of the functions costs is bounded by the height, in whatever order ranges come and go. */
static void test_height(void **state) {
  (void)state;
  enum { MANY = 100000 };
  vdev_spans spans;
  vdev_span *ranges = calloc(MANY, sizeof *ranges);
  assert_non_null(ranges);
  vdev_spans_init(&spans, 0, SIZE_MAX);
  for (size_t i = 0; i < MANY; i++) {
    ranges[i].room = 256;
    assert_true(vdev_spans_place(&spans, &ranges[i]));
    assert_int_equal(ranges[i].start, 256 * i);
  }
  assert_true(height(spans.root) < 60); /* 17 is the least */
  for (size_t i = 0; i < MANY; i += 2) {
    vdev_spans_remove(&spans, &ranges[i]);
  }
  assert_true(height(spans.root) < 60);
  free(ranges);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_against_a_map),
    cmocka_unit_test(test_height),
};

int main(void) {
  return cmocka_run_group_tests(cases, NULL, NULL);
}
