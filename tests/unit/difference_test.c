/* How tensors on the host differ, and numbers as messages show them. */
#include "stage.h"

#include <math.h>
#include <string.h>

#include "support/decimal.h"

static iobind_tensor *of(iobind_dtype dtype, const void *data, int64_t count) {
  iobind_tensor *tensor;
  size_t bytes = 0;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, &count, 1, &tensor, &fault));
  expect_ok(iobind_dtype_get_bytes(dtype, &count, 1, &bytes, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, data, bytes, NULL, &fault));
  return tensor;
}

static iobind_difference between(iobind_dtype dtype, const void *one, const void *right, int64_t count,
                                 const iobind_tolerance *tolerance) {
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  iobind_tensor *tensors[2] = {of(dtype, one, count), of(dtype, right, count)};
  expect_ok(iobind_tensor_compare(tensors[0], tensors[1], tolerance, &found, &fault));
  iobind_tensor_release(tensors[0]);
  iobind_tensor_release(tensors[1]);
  return found;
}

static uint64_t beyond(const float *one, const float *right, int64_t count, double absolute, double relative) {
  return between(IOBIND_DTYPE_FLOAT32, one, right, count, &(iobind_tolerance){absolute, relative}).beyond;
}

static void floats_within_limits(void **state) {
  (void)state;
  static const float one[] = {1, 2.5F, -4, 0};
  static const float right[] = {1, 2, -3, 0};
  const iobind_difference d = between(IOBIND_DTYPE_FLOAT32, one, right, 4, NULL);
  assert_true(d.absolute == 1 && fabs(d.relative - 1.0 / 3) < 1e-9);
  assert_int_equal(d.beyond, 2);
  assert_int_equal(d.first, 1);
  assert_int_equal(beyond(one, right, 4, 1, 0), 0);
  assert_int_equal(beyond(one, right, 4, 0.75, 0), 1);
  assert_int_equal(beyond(one, right, 4, 0, 0.3), 1);
  assert_int_equal(beyond(one, right, 4, 0.25, 0.25), 0);
  assert_int_equal(beyond(one, right, 4, 0, 0), 2);
  assert_int_equal(beyond(one, one, 4, 0, 0), 0);
}

/* What is not a number is far from each number, whatever the limits are, and like itself. */
static void infinities_and_nan(void **state) {
  (void)state;
  static const float one[] = {NAN, INFINITY, -INFINITY};
  static const float other[] = {1, -INFINITY, 3};
  static const float zeros[] = {0, -0.0F};
  static const float little[] = {1e-6F, 0};
  static const iobind_tolerance wide = {1e30, 1e30};
  assert_int_equal(beyond(one, one, 3, 0, 0), 0);
  const iobind_difference d = between(IOBIND_DTYPE_FLOAT32, one, other, 3, &wide);
  assert_int_equal(d.beyond, 3);
  assert_true(isinf(d.absolute) && isinf(d.relative));
  assert_int_equal(between(IOBIND_DTYPE_FLOAT32, other, one, 3, &wide).beyond, 3);
  const iobind_difference small = between(IOBIND_DTYPE_FLOAT32, little, zeros, 2, NULL);
  assert_true(isinf(small.relative));
  assert_int_equal(small.beyond, 0);
}

/* 1, and what is as far from it as the type's limits allow, or a little farther. */
static void limits_of_types(void **state) {
  (void)state;
  static const uint16_t halves[] = {0x3C00, 0x3C00};      /* 1, 1 */
  static const uint16_t near_halves[] = {0x3C14, 0x3C16}; /* 1 + 20 / 1024, 1 + 22 / 1024 */
  static const uint16_t tiny_halves[] = {0x0001, 0x7C00}; /* 2^-24, infinity */
  static const uint16_t big_halves[] = {0x0000, 0x7BFF};  /* 0, 65504 */
  static const uint16_t bfloats[] = {0x3F80, 0x3F80};
  static const uint16_t near_bfloats[] = {0x3F94, 0x3F96}; /* 1 + 20 / 128, 1 + 22 / 128 */
  static const double doubles[] = {1, 1};
  static const double near_doubles[] = {1.00109, 1.00111};
  assert_int_equal(between(IOBIND_DTYPE_FLOAT16, near_halves, halves, 2, NULL).beyond, 1);
  assert_int_equal(between(IOBIND_DTYPE_FLOAT16, tiny_halves, big_halves, 2, NULL).beyond, 1);
  assert_true(between(IOBIND_DTYPE_FLOAT16, tiny_halves, big_halves, 1, NULL).absolute == 1.0 / (1 << 24));
  assert_int_equal(between(IOBIND_DTYPE_BFLOAT16, near_bfloats, bfloats, 2, NULL).beyond, 1);
  assert_int_equal(between(IOBIND_DTYPE_FLOAT64, near_doubles, doubles, 2, NULL).beyond, 1);
  assert_int_equal(between(IOBIND_DTYPE_FLOAT64, near_doubles, doubles, 2, NULL).first, 1);
}

/* Which may not differ at all. */
static void exact_types(void **state) {
  (void)state;
  static const iobind_tolerance wide = {100, 100};
  static const int64_t whole[] = {5, 7};
  static const int64_t other_whole[] = {5, 8};
  static const uint8_t truths[] = {1, 0, 1};
  static const uint8_t lies[] = {1, 1, 0};
  static const uint8_t packed[] = {0x21, 0x03};
  static const uint8_t other_packed[] = {0x21, 0xF4}; /* the last of three is another one; the rest of the byte is no element */
  static const uint8_t eighths[] = {0x38, 0x39};
  static const uint8_t other_eighths[] = {0x38, 0x3A};
  const iobind_difference d = between(IOBIND_DTYPE_INT64, whole, other_whole, 2, &wide);
  assert_true(d.absolute == 1 && d.relative == 1.0 / 8);
  assert_int_equal(d.beyond, 1);
  assert_int_equal(d.first, 1);
  assert_int_equal(between(IOBIND_DTYPE_BOOL, truths, lies, 3, &wide).beyond, 2);
  assert_int_equal(between(IOBIND_DTYPE_UINT4, packed, other_packed, 3, &wide).beyond, 1);
  assert_int_equal(between(IOBIND_DTYPE_UINT4, packed, other_packed, 3, &wide).first, 2);
  assert_int_equal(between(IOBIND_DTYPE_FLOAT8E4M3FN, eighths, other_eighths, 2, &wide).beyond, 1);
}

/* As float64 these are equal. */
static void neighbours_of_64_bits(void **state) {
  (void)state;
  static const int64_t ends[] = {INT64_MAX, INT64_MIN, -1};
  static const int64_t near_ends[] = {INT64_MAX - 1, INT64_MIN + 2, -1};
  static const int64_t other_ends[] = {INT64_MIN, INT64_MAX, -1};
  static const uint64_t large[] = {UINT64_MAX};
  static const uint64_t near_large[] = {UINT64_MAX - 3};
  iobind_difference d = between(IOBIND_DTYPE_INT64, ends, near_ends, 3, NULL);
  assert_true(d.beyond == 2 && d.absolute == 2 && d.relative > 0);
  d = between(IOBIND_DTYPE_INT64, ends, other_ends, 3, NULL);
  assert_true(d.beyond == 2 && d.absolute == (double)UINT64_MAX);
  d = between(IOBIND_DTYPE_UINT64, large, near_large, 1, NULL);
  assert_true(d.beyond == 1 && d.absolute == 3);
}

static iobind_tensor *texts(const char *first, const char *second) {
  static const int64_t two = 2;
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &two, 1, &tensor, &fault));
  expect_ok(iobind_tensor_set_string(tensor, 0, first, &fault));
  expect_ok(iobind_tensor_set_string(tensor, 1, second, &fault));
  return tensor;
}

static void strings(void **state) {
  (void)state;
  iobind_tensor *one = texts("same", "");
  iobind_tensor *right = texts("same", "a");
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  expect_ok(iobind_tensor_compare(one, right, NULL, &found, &fault));
  assert_int_equal(found.beyond, 1);
  assert_int_equal(found.first, 1);
  expect_ok(iobind_tensor_compare(one, one, NULL, &found, &fault));
  assert_int_equal(found.beyond, 0);
  iobind_tensor_release(one);
  iobind_tensor_release(right);
}

static void refused(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  static const iobind_tolerance wrong[] = {{-1, 0}, {0, -1}, {NAN, 0}, {0, INFINITY}};
  static const char *const words[] = {"absolute: expected 0 .. 1e30, got -1", "relative: expected 0 .. 1e30, got -1",
                                      "absolute: expected 0 .. 1e30, got nan", "relative: expected 0 .. 1e30, got inf"};
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  iobind_tensor *three = of(IOBIND_DTYPE_FLOAT32, values, 3);
  iobind_tensor *two = of(IOBIND_DTYPE_FLOAT32, values, 2);
  iobind_tensor *whole = of(IOBIND_DTYPE_INT32, values, 3);
  expect(IOBIND_ERROR_SHAPE, iobind_tensor_compare(three, two, NULL, &found, &fault));
  expect_words("expected float32[2], like the reference, got float32[3]");
  expect(IOBIND_ERROR_DTYPE, iobind_tensor_compare(three, whole, NULL, &found, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_compare(NULL, three, NULL, &found, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_compare(three, NULL, NULL, &found, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_compare(three, three, NULL, NULL, &fault));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_compare(three, three, &wrong[i], &found, &fault));
    expect_words(words[i]);
  }
  iobind_tensor_release(three);
  iobind_tensor_release(two);
  iobind_tensor_release(whole);
}

/* ---- numbers as texts ---- */

static void decimals(void **state) {
  (void)state;
  static const struct {
    double number;
    int digits;
    const char *text;
  } rows[] = {{0, 9, "0"},
              {-0.0, 9, "0"},
              {1, 9, "1"},
              {-12.5, 9, "-12.5"},
              {0.1, 9, "0.1"},
              {100, 9, "100"},
              {123456789, 9, "123456789"},
              {1234567890123456.0, 3, "1230000000000000"},
              {1e16, 9, "1e16"},
              {1.5e-12, 9, "1.5e-12"},
              {0.00001, 9, "0.00001"},
              {0.000001, 9, "1e-6"},
              {0.9999, 3, "1"},
              {2.0 / 3, 3, "0.667"},
              {1.7976931348623157e308, 3, "1.8e308"},
              {-4.9e-324, 1, "-5e-324"},
              {INFINITY, 9, "inf"},
              {-INFINITY, 9, "-inf"},
              {NAN, 9, "nan"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[IOBIND__DECIMAL_TEXT];
    iobind__decimal_text(rows[i].number, rows[i].digits, text);
    assert_string_equal(text, rows[i].text);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(floats_within_limits),
    cmocka_unit_test(infinities_and_nan),
    cmocka_unit_test(limits_of_types),
    cmocka_unit_test(exact_types),
    cmocka_unit_test(neighbours_of_64_bits),
    cmocka_unit_test(strings),
    cmocka_unit_test(refused),
    cmocka_unit_test(decimals),
};

FIXTURE_MAIN(tests, stage_open, stage_close);
