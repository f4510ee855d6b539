/* cuFFT of the virtual GPU: transforms of each kind, type and length, compared with the definition. */
#include <complex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cufft.h"
#include "host.h"
#include "number.h"

enum { LONGEST = 40, ROOM = LONGEST * LONGEST };

typedef double complex number;

static const struct {
  vcuda_type type;
  int real, wide; /* cudaDataType_t of real and complex numbers */
  double error;   /* of the type, relative to the largest number */
} types[] = {{VCUDA_FLOAT32, 0, 4, 1e-6}, {VCUDA_FLOAT64, 1, 5, 1e-13}, {VCUDA_FLOAT16, 2, 6, 2e-3}};

typedef enum kind { WIDE, FROM_REAL, TO_REAL } kind;

/* The definition of the transform of rows * columns numbers, unscaled. */
static void define(const number *in, int rows, int columns, int direction, number *out) {
  for (int p = 0; p < rows * columns; p++) {
    out[p] = 0;
    for (int q = 0; q < rows * columns; q++) {
      int down = p / columns * (q / columns), across = p % columns * (q % columns);
      double turns = (double)down / rows + (double)across / columns;
      out[p] += in[q] * cexp(2 * 3.14159265358979323846 * direction * turns * I);
    }
  }
}

static double random_number(void) {
  static uint32_t state = 1;
  state = state * 1664525 + 1013904223;
  return (double)(state >> 16) / 32768 - 1;
}

/* Choose numbers that the type holds. If the output is real, their transform must be real. */
static void choose(int which, kind k, int rows, int columns, number *in) {
  static number spectrum[ROOM];
  for (int i = 0; i < rows * columns; i++) spectrum[i] = k == WIDE ? random_number() + random_number() * I : random_number();
  if (k == TO_REAL) {
    define(spectrum, rows, columns, -1, in);
  } else {
    memcpy(in, spectrum, sizeof(number) * (size_t)(rows * columns));
  }
  for (int i = 0; i < rows * columns; i++) {
    char room[16];
    vcuda_store_real(types[which].type, room, 0, creal(in[i]));
    vcuda_store_real(types[which].type, room, 1, cimag(in[i]));
    in[i] = vcuda_load_real(types[which].type, room, 0) + vcuda_load_real(types[which].type, room, 1) * I;
  }
}

/* Put the numbers in the layout of a call: real, complex, or complex with half of the columns. */
static void *pack(int which, const number *numbers, int rows, int columns, bool real, bool half) {
  static char data[ROOM * 16];
  int width = half ? columns / 2 + 1 : columns, count = 0;
  for (int row = 0; row < rows; row++) {
    for (int column = 0; column < width; column++) {
      vcuda_store_real(types[which].type, data, count++, creal(numbers[row * columns + column]));
      if (!real) vcuda_store_real(types[which].type, data, count++, cimag(numbers[row * columns + column]));
    }
  }
  return host_copy(data, (size_t)count * vcuda_type_size(types[which].type));
}

static void compare(int which, const void *got, const void *expected, int count) {
  double largest = 0, error = 0;
  for (int i = 0; i < count; i++) {
    double x = vcuda_load_real(types[which].type, expected, i), d = vcuda_load_real(types[which].type, got, i) - x;
    largest = x > largest ? x : -x > largest ? -x : largest;
    error = d > error ? d : -d > error ? -d : error;
  }
  assert_true(error <= types[which].error * (largest + 1));
}

static int make_plan(int which, kind k, int rank, int rows, int columns, int batches) {
  int plan = 0;
  size_t workspace = 1;
  const long long lengths[] = {rank == 1 ? columns : rows, columns};
  int in = k == FROM_REAL ? types[which].real : types[which].wide, out = k == TO_REAL ? types[which].real : types[which].wide;
  assert_int_equal(cufftCreate(&plan), 0);
  assert_int_equal(
      cufftXtMakePlanMany(plan, rank, lengths, NULL, 1, 1, in, NULL, 1, 1, out, batches, &workspace, types[which].wide), 0);
  assert_int_equal(workspace, 0);
  return plan;
}

static void check(int which, kind k, int rank, int rows, int columns, int direction) {
  static number in[ROOM], out[ROOM];
  choose(which, k, rows, columns, in);
  define(in, rows, columns, direction, out);
  void *data = pack(which, in, rows, columns, k == FROM_REAL, k == TO_REAL);
  void *expected = pack(which, out, rows, columns, k == TO_REAL, k == FROM_REAL);
  int count = rows * (k == FROM_REAL ? columns / 2 + 1 : columns) * (k == TO_REAL ? 1 : 2);
  void *got = host_memory((size_t)count * vcuda_type_size(types[which].type));
  int plan = make_plan(which, k, rank, rows, columns, 1);
  assert_int_equal(cufftXtExec(plan, data, got, direction), 0);
  assert_int_equal(host_error(), 0);
  compare(which, got, expected, count);
  if (k == WIDE) { /* in place */
    assert_int_equal(cufftXtExec(plan, data, data, direction), 0);
    assert_memory_equal(data, got, (size_t)count * vcuda_type_size(types[which].type));
  }
  assert_int_equal(cufftDestroy(plan), 0);
  host_reset(NULL);
}

static void all_lengths(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    for (int columns = 1; columns <= LONGEST; columns++) {
      check(which, WIDE, 1, 1, columns, FFT_FORWARD);
      check(which, WIDE, 1, 1, columns, FFT_INVERSE);
      check(which, FROM_REAL, 1, 1, columns, FFT_FORWARD);
      check(which, TO_REAL, 1, 1, columns, FFT_INVERSE);
    }
  }
}

static void two_dimensions(void **state) {
  (void)state;
  static const int shapes[][2] = {{1, 4}, {4, 1}, {3, 8}, {8, 5}, {6, 6}, {12, 10}, {7, 9}};
  for (int which = 0; which < 3; which++) {
    for (int i = 0; i < 7; i++) {
      check(which, WIDE, 2, shapes[i][0], shapes[i][1], FFT_FORWARD);
      check(which, WIDE, 2, shapes[i][0], shapes[i][1], FFT_INVERSE);
      check(which, FROM_REAL, 2, shapes[i][0], shapes[i][1], FFT_FORWARD);
      check(which, TO_REAL, 2, shapes[i][0], shapes[i][1], FFT_INVERSE);
    }
  }
}

/* Each batch is transformed separately. A transform of real numbers ignores the direction. */
static void batches(void **state) {
  (void)state;
  const float in[] = {1, 2, 3, 5}, spectrum[] = {3, 0, -1, 0, 8, 0, -2, 0}, back[] = {2, 4, 6, 10};
  float *x = host_copy(in, sizeof in), *y = host_memory(sizeof spectrum), *z = host_memory(sizeof in);
  int there = make_plan(0, FROM_REAL, 1, 1, 2, 2), home = make_plan(0, TO_REAL, 1, 1, 2, 2);
  assert_int_not_equal(there, home);
  assert_int_equal(cufftXtExec(there, x, y, FFT_INVERSE), 0);
  assert_memory_equal(y, spectrum, sizeof spectrum);
  assert_int_equal(cufftXtExec(home, y, z, FFT_FORWARD), 0);
  assert_memory_equal(z, back, sizeof back);
  assert_int_equal(cufftDestroy(there), 0);
  assert_int_equal(cufftDestroy(home), 0);
}

static void refusals(void **state) {
  (void)state;
  int plan = 0;
  const long long lengths[] = {4, 4, 4}, none[] = {0};
  float *x = host_memory(32);
#define MAKE(rank, lengths, embed, in, out, batches, compute) \
  cufftXtMakePlanMany(plan, rank, lengths, embed, 1, 1, in, NULL, 1, 1, out, batches, NULL, compute)
  assert_int_equal(MAKE(1, lengths, NULL, 4, 4, 1, 4), FFT_INVALID_PLAN);
  assert_int_equal(cufftXtExec(plan, x, x, 1), FFT_INVALID_PLAN);
  assert_int_equal(cufftSetStream(plan, NULL), FFT_INVALID_PLAN);
  assert_int_equal(cufftDestroy(plan), FFT_INVALID_PLAN);
  assert_int_equal(cufftCreate(NULL), FFT_INVALID_VALUE);
  assert_int_equal(cufftCreate(&plan), 0);
  assert_int_equal(cufftXtExec(plan, x, x, 1), FFT_INVALID_PLAN); /* no plan was made */
  assert_int_equal(MAKE(3, lengths, NULL, 4, 4, 1, 4), FFT_NOT_SUPPORTED);
  assert_int_equal(MAKE(1, lengths, lengths, 4, 4, 1, 4), FFT_NOT_SUPPORTED);
  assert_int_equal(MAKE(1, lengths, NULL, 0, 0, 1, 4), FFT_INVALID_TYPE);
  assert_int_equal(MAKE(1, lengths, NULL, 4, 5, 1, 4), FFT_INVALID_TYPE);
  assert_int_equal(MAKE(1, lengths, NULL, 15, 15, 1, 15), FFT_INVALID_TYPE);
  assert_int_equal(host_logs(), 5);
  assert_int_equal(MAKE(1, none, NULL, 4, 4, 1, 4), FFT_INVALID_VALUE);
  assert_int_equal(MAKE(1, NULL, NULL, 4, 4, 1, 4), FFT_INVALID_VALUE);
  assert_int_equal(MAKE(1, lengths, NULL, 4, 4, 1, 4), 0);
  assert_int_equal(cufftXtExec(plan, x, x, 0), FFT_INVALID_VALUE);
  assert_int_equal(cufftXtExec(plan, x, x + 1, 1), 0);
  assert_int_equal(host_error(), 700);
  host_forget_error();
  host_set_device(1);
  assert_int_equal(cufftXtExec(plan, x, x, 1), FFT_EXEC_FAILED);
  assert_int_equal(cufftDestroy(plan), 0);
  assert_int_equal(cufftDestroy(plan), FFT_INVALID_PLAN);
}

/* ---- each allocation fails once ---- */

static int fails;

void *__real_malloc(size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  return fails ? NULL : __real_malloc(bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
  return fails ? NULL : __real_realloc(old, bytes);
}

static void failed_allocations(void **state) {
  (void)state;
  int plans[64], count = 0, status = 0;
  float *x = host_memory(32);
  fails = 1;
  while (count < 64 && (status = cufftCreate(&plans[count])) == 0) count++; /* handles that other tests have freed */
  fails = 0;
  assert_int_equal(status, FFT_ALLOC_FAILED);
  for (int i = 0; i < count; i++) assert_int_equal(cufftDestroy(plans[i]), 0);
  int plan = make_plan(0, WIDE, 1, 1, 4, 1);
  fails = 1;
  assert_int_equal(cufftXtExec(plan, x, x, 1), 0);
  fails = 0;
  assert_int_equal(host_error(), 2);
  assert_int_equal(cufftDestroy(plan), 0);
}

int main(void) {
#define TEST(function) cmocka_unit_test_teardown(function, host_reset)
  const struct CMUnitTest tests[] = {
      TEST(all_lengths), TEST(two_dimensions), TEST(batches), TEST(refusals), TEST(failed_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
