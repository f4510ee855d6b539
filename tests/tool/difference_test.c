#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <iobind/iobind.h>

#include "commands/difference.h"
#include "formats/graph.h"
#include "formats/half.h"

static npy_array array_of(char kind, size_t item_bytes, int64_t count, void *data) {
  npy_array array = {.kind = kind, .item_bytes = item_bytes, .data = data};
  assert_true(npy_set_dims(&array, &count, 1));
  return array;
}

static difference between(float *one, float *other, int64_t count, double absolute, double relative) {
  const npy_array a = array_of('f', 4, count, one), b = array_of('f', 4, count, other);
  const difference_limits limits = {absolute, relative};
  return difference_of(&a, &b, IOBIND_DTYPE_FLOAT32, &limits);
}

static void floats_differ_within_limits(void **state) {
  (void)state;
  float one[] = {1, 2.5f, -4, 0}, other[] = {1, 2, -3, 0};
  difference d = between(one, other, 4, 1, 0);
  assert_true(d.same_shape && d.measured);
  assert_true(d.absolute == 1 && fabs(d.relative - 1.0 / 3) < 1e-9);
  assert_int_equal(d.beyond, 0);
  assert_int_equal(between(one, other, 4, 0.75, 0).beyond, 1);
  assert_int_equal(between(one, other, 4, 0, 0.3).beyond, 1);
  assert_int_equal(between(one, other, 4, 0.25, 0.25).beyond, 0);
  assert_int_equal(between(one, other, 4, 0, 0).beyond, 2);
  assert_true(between(one, one, 4, 0, 0).absolute == 0);
}

/* What is not a number is far from each number, whatever the limits are, and like itself. */
static void infinities_and_nan(void **state) {
  (void)state;
  float one[] = {NAN, INFINITY, -INFINITY}, same[] = {NAN, INFINITY, -INFINITY}, other[] = {1, -INFINITY, 3};
  assert_int_equal(between(one, same, 3, 0, 0).beyond, 0);
  difference d = between(one, other, 3, 1e30, 1e30);
  assert_int_equal(d.beyond, 3);
  assert_true(isinf(d.absolute) && isinf(d.relative));
  assert_int_equal(between(other, one, 3, 1e30, 1e30).beyond, 3); /* NOLINT(readability-suspicious-call-argument) */
  float zero[] = {0}, little[] = {1e-6f};
  d = between(little, zero, 1, 1e-3, 0);
  assert_true(isinf(d.relative));
  assert_int_equal(d.beyond, 0);
}

static void other_types(void **state) {
  (void)state;
  const difference_limits wide = {100, 100};
  uint16_t halves[] = {half_write(1.5f), half_write(-2)}, others[] = {half_write(1.5f), half_write(-2.5f)};
  const npy_array a = array_of('f', 2, 2, halves), b = array_of('f', 2, 2, others);
  difference d = difference_of(&a, &b, IOBIND_DTYPE_FLOAT16, &wide);
  assert_true(d.measured && d.absolute == 0.5 && d.beyond == 0);
  uint16_t bfloats[] = {0x3F80, 0x4000}, more[] = {0x3F80, 0x4080}; /* 1, 2 and 1, 4 */
  const npy_array c = array_of('u', 2, 2, bfloats), e = array_of('u', 2, 2, more);
  assert_true(difference_of(&c, &e, IOBIND_DTYPE_BFLOAT16, &wide).absolute == 2);
  int64_t whole[] = {5, 7}, wholes[] = {5, 8}; /* which may not differ at all */
  const npy_array f = array_of('i', 8, 2, whole), g = array_of('i', 8, 2, wholes);
  d = difference_of(&f, &g, IOBIND_DTYPE_INT64, &wide);
  assert_true(d.measured && d.absolute == 1 && d.beyond == 1);
  uint8_t truths[] = {1, 0, 1}, lies[] = {1, 1, 0};
  const npy_array h = array_of('b', 1, 3, truths), i = array_of('b', 1, 3, lies);
  d = difference_of(&h, &i, IOBIND_DTYPE_BOOL, &wide);
  assert_true(!d.measured && d.beyond == 2);
  const npy_array shorter = array_of('b', 1, 2, truths);
  assert_false(difference_of(&h, &shorter, IOBIND_DTYPE_BOOL, &wide).same_shape);
  assert_false(difference_of(&h, &a, IOBIND_DTYPE_BOOL, &wide).same_shape);
}

/* A model of bytes cut anywhere is refused, or read without a step beyond its end, which the sanitizers would see. */
static void damaged_models(void **state) {
  (void)state;
  /* graph { node { output: "a" name: "n" op_type: "Op" } node { output: "b" op_type: "Op" } output { name: "b" } } */
  static const unsigned char model[] = {0x3A, 24, 0x0A, 10, 0x12, 1,    'a', 0x1A, 1,   'n',  0x22, 2,    'O', 'p',
                                        0x0A, 7,  0x12, 1,  'b',  0x22, 2,   'O',  'p', 0x62, 3,    0x0A, 1,   'b'};
  graph_value *values = NULL;
  size_t count = 0;
  tool_fault fault;
  unsigned char whole[sizeof model];
  memcpy(whole, model, sizeof model);
  whole[1] = sizeof model - 2;
  assert_true(graph_read(whole, sizeof whole, &values, &count, &fault));
  assert_int_equal(count, 2);
  assert_string_equal(values[0].node, "n");
  assert_string_equal(values[1].name, "b");
  assert_true(!values[0].is_output && values[1].is_output);
  unsigned char *edited = NULL;
  size_t bytes = 0;
  assert_true(graph_add_outputs(whole, sizeof whole, values, count, &edited, &bytes, &fault));
  static const unsigned char added[] = {0x3A, 5, 0x62, 3, 0x0A, 1, 'a'};
  assert_int_equal(bytes, sizeof whole + sizeof added);
  assert_memory_equal(edited + sizeof whole, added, sizeof added);
  free(edited);
  graph_free(values, count);
  for (size_t size = 0; size < sizeof whole; size++) {
    unsigned char *cut = malloc(size + 1);
    assert_non_null(cut);
    memcpy(cut, whole, size);
    assert_false(graph_read(cut, size, &values, &count, &fault));
    free(cut);
  }
  for (size_t at = 0; at < sizeof whole; at++) {
    unsigned char *flipped = malloc(sizeof whole);
    assert_non_null(flipped);
    memcpy(flipped, whole, sizeof whole);
    flipped[at] ^= 0xFF;
    if (graph_read(flipped, sizeof whole, &values, &count, &fault)) graph_free(values, count);
    free(flipped);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(floats_differ_within_limits),
      cmocka_unit_test(infinities_and_nan),
      cmocka_unit_test(other_types),
      cmocka_unit_test(damaged_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
