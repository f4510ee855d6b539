/* Element types: names, sizes, and the products of dims that do not fit. */
#include "fixture.h"

#include <string.h>

static const struct {
  iobind_dtype dtype;
  const char *name;
  uint32_t bits;
  size_t five; /* bytes of five elements */
} types[] = {
    {IOBIND_DTYPE_FLOAT32, "float32", 32, 20},
    {IOBIND_DTYPE_UINT8, "uint8", 8, 5},
    {IOBIND_DTYPE_INT8, "int8", 8, 5},
    {IOBIND_DTYPE_UINT16, "uint16", 16, 10},
    {IOBIND_DTYPE_INT16, "int16", 16, 10},
    {IOBIND_DTYPE_INT32, "int32", 32, 20},
    {IOBIND_DTYPE_INT64, "int64", 64, 40},
    {IOBIND_DTYPE_BOOL, "bool", 8, 5},
    {IOBIND_DTYPE_FLOAT16, "float16", 16, 10},
    {IOBIND_DTYPE_FLOAT64, "float64", 64, 40},
    {IOBIND_DTYPE_UINT32, "uint32", 32, 20},
    {IOBIND_DTYPE_UINT64, "uint64", 64, 40},
    {IOBIND_DTYPE_COMPLEX64, "complex64", 64, 40},
    {IOBIND_DTYPE_COMPLEX128, "complex128", 128, 80},
    {IOBIND_DTYPE_BFLOAT16, "bfloat16", 16, 10},
    {IOBIND_DTYPE_FLOAT8E4M3FN, "float8e4m3fn", 8, 5},
    {IOBIND_DTYPE_FLOAT8E4M3FNUZ, "float8e4m3fnuz", 8, 5},
    {IOBIND_DTYPE_FLOAT8E5M2, "float8e5m2", 8, 5},
    {IOBIND_DTYPE_FLOAT8E5M2FNUZ, "float8e5m2fnuz", 8, 5},
    {IOBIND_DTYPE_UINT4, "uint4", 4, 3},
    {IOBIND_DTYPE_INT4, "int4", 4, 3},
    {IOBIND_DTYPE_FLOAT4E2M1, "float4e2m1", 4, 3},
    {IOBIND_DTYPE_UINT2, "uint2", 2, 2},
    {IOBIND_DTYPE_INT2, "int2", 2, 2},
    {IOBIND_DTYPE_FLOAT8E8M0, "float8e8m0", 8, 5},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static size_t bytes_of(iobind_dtype dtype, const int64_t *dims, size_t rank) {
  size_t bytes = 99;
  expect_ok(iobind_dtype_get_bytes(dtype, dims, rank, &bytes, &fault));
  return bytes;
}

static void names_and_bits(void **state) {
  (void)state;
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    assert_string_equal(iobind_dtype_get_name((int32_t)types[i].dtype), types[i].name);
    assert_int_equal(iobind_dtype_get_bits((int32_t)types[i].dtype), types[i].bits);
    static const int64_t five = 5;
    assert_int_equal(bytes_of(types[i].dtype, &five, 1), types[i].five);
  }
  assert_string_equal(iobind_dtype_get_name(IOBIND_DTYPE_STRING), "string");
  assert_int_equal(iobind_dtype_get_bits(IOBIND_DTYPE_STRING), 0);
}

static void numbers_that_are_no_type(void **state) {
  (void)state;
  static const int32_t none[] = {-1, 27, 1000, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    assert_string_equal(iobind_dtype_get_name(none[i]), "unknown");
    assert_int_equal(iobind_dtype_get_bits(none[i]), 0);
    size_t bytes = 99;
    expect(IOBIND_ERROR_DTYPE, iobind_dtype_get_bytes((iobind_dtype)none[i], NULL, 0, &bytes, &fault));
    assert_int_equal(bytes, 0);
  }
  size_t bytes = 99;
  expect(IOBIND_ERROR_DTYPE, iobind_dtype_get_bytes(IOBIND_DTYPE_STRING, NULL, 0, &bytes, &fault));
  expect_words("string");
  expect(IOBIND_ERROR_DTYPE, iobind_dtype_get_bytes(IOBIND_DTYPE_UNDEFINED, NULL, 0, &bytes, &fault));
}

static void packed_types_round_up(void **state) {
  (void)state;
  static const struct {
    int64_t count;
    size_t four; /* bytes of 4-bit elements */
    size_t two;  /* bytes of 2-bit elements */
  } rows[] = {{0, 0, 0}, {1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {4, 2, 1}, {5, 3, 2}, {8, 4, 2}, {9, 5, 3}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(bytes_of(IOBIND_DTYPE_INT4, &rows[i].count, 1), rows[i].four);
    assert_int_equal(bytes_of(IOBIND_DTYPE_UINT2, &rows[i].count, 1), rows[i].two);
  }
  static const int64_t dims[] = {3, 3}; /* rounded up once, not for each row */
  assert_int_equal(bytes_of(IOBIND_DTYPE_UINT4, dims, 2), 5);
}

static void scalar_is_one_element(void **state) {
  (void)state;
  assert_int_equal(bytes_of(IOBIND_DTYPE_FLOAT64, NULL, 0), 8);
  assert_int_equal(bytes_of(IOBIND_DTYPE_INT4, NULL, 0), 1);
}

static void products_that_overflow(void **state) {
  (void)state;
  static const struct {
    iobind_dtype dtype;
    int64_t dims[3];
    size_t rank;
  } rows[] = {
      {IOBIND_DTYPE_UINT8, {(int64_t)1 << 40, (int64_t)1 << 40}, 2},
      {IOBIND_DTYPE_UINT8, {(int64_t)1 << 32, (int64_t)1 << 32}, 2}, /* 2^64: wraps to 0 */
      {IOBIND_DTYPE_UINT8, {(int64_t)1 << 31, (int64_t)1 << 32}, 2}, /* 2^63: one more than can be represented */
      {IOBIND_DTYPE_UINT8, {INT64_MAX, 2}, 2},
      {IOBIND_DTYPE_FLOAT32, {(int64_t)1 << 62}, 1}, /* the elements fit, 2^64 bytes wrap to 0 */
      {IOBIND_DTYPE_FLOAT64, {INT64_MAX}, 1},
      {IOBIND_DTYPE_COMPLEX128, {((int64_t)1 << 60) + 1}, 1},
      {IOBIND_DTYPE_INT4, {INT64_MAX, INT64_MAX}, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t bytes = 99;
    expect(IOBIND_ERROR_SHAPE, iobind_dtype_get_bytes(rows[i].dtype, rows[i].dims, rows[i].rank, &bytes, &fault));
    assert_int_equal(bytes, 0);
  }
  static const int64_t most[] = {INT64_MAX};
  assert_true(bytes_of(IOBIND_DTYPE_UINT8, most, 1) == (size_t)INT64_MAX);
  assert_true(bytes_of(IOBIND_DTYPE_INT4, most, 1) == ((size_t)1 << 62)); /* the bits alone would overflow */
  assert_true(bytes_of(IOBIND_DTYPE_INT2, most, 1) == ((size_t)1 << 61));
}

/* A dim of 0 makes the tensor empty, however large the others are, at any position. */
static void zero_wins_over_overflow(void **state) {
  (void)state;
  static const int64_t rows[][3] = {{0, INT64_MAX, INT64_MAX}, {INT64_MAX, 0, INT64_MAX}, {INT64_MAX, INT64_MAX, 0}};
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(bytes_of(IOBIND_DTYPE_FLOAT64, rows[i], 3), 0);
  }
}

static void negative_dims(void **state) {
  (void)state;
  static const int64_t rows[][3] = {{-1, 2, 3}, {2, INT64_MIN, 3}, {0, 0, -1}, {-1, -1, 1}};
  for (size_t i = 0; i < 4; i++) {
    size_t bytes = 99;
    expect(IOBIND_ERROR_SHAPE, iobind_dtype_get_bytes(IOBIND_DTYPE_UINT8, rows[i], 3, &bytes, &fault));
    assert_int_equal(bytes, 0);
  }
  expect_words("-1");
}

static void ranks(void **state) {
  (void)state;
  int64_t dims[IOBIND_MAX_RANK + 1];
  for (size_t i = 0; i < IOBIND_MAX_RANK + 1; i++) {
    dims[i] = 1;
  }
  dims[IOBIND_MAX_RANK - 1] = 3;
  assert_int_equal(bytes_of(IOBIND_DTYPE_UINT16, dims, IOBIND_MAX_RANK), 6);
  size_t bytes = 99;
  expect(IOBIND_ERROR_SHAPE, iobind_dtype_get_bytes(IOBIND_DTYPE_UINT16, dims, IOBIND_MAX_RANK + 1, &bytes, &fault));
  expect_words("17");
  expect(IOBIND_ERROR_SHAPE, iobind_dtype_get_bytes(IOBIND_DTYPE_UINT16, dims, SIZE_MAX, &bytes, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_dtype_get_bytes(IOBIND_DTYPE_UINT16, NULL, 2, &bytes, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_dtype_get_bytes(IOBIND_DTYPE_UINT16, dims, 1, NULL, &fault));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_and_bits),         cmocka_unit_test(numbers_that_are_no_type),
    cmocka_unit_test(packed_types_round_up),  cmocka_unit_test(scalar_is_one_element),
    cmocka_unit_test(products_that_overflow), cmocka_unit_test(zero_wins_over_overflow),
    cmocka_unit_test(negative_dims),          cmocka_unit_test(ranks),
};

FIXTURE_MAIN(tests, NULL, NULL);
