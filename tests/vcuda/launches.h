/* Launches of kernels by their mangled names over host memory, as ORT's CUDA EP makes them. */
#ifndef VCUDA_TEST_LAUNCHES_H
#define VCUDA_TEST_LAUNCHES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host.h"
#include "kernel.h"

#define ORT(name) "_ZN11onnxruntime4cuda" name
#define LIST(type, ...) ((const type[]){__VA_ARGS__})
#define COUNT(type, ...) (sizeof LIST(type, __VA_ARGS__) / sizeof(type))
/* A tensor with these elements. */
#define TENSOR(type, ...) host_copy(LIST(type, __VA_ARGS__), sizeof LIST(type, __VA_ARGS__))
/* Check that the tensor holds these elements. */
#define EXPECT(tensor, type, ...) assert_memory_equal(tensor, LIST(type, __VA_ARGS__), sizeof LIST(type, __VA_ARGS__))
#define EXPECT_NEAR(tensor, ...) expect_near(tensor, LIST(double, __VA_ARGS__), COUNT(double, __VA_ARGS__))
/* Arguments are passed as addresses, as cudaLaunchKernel takes them. */
#define LAUNCH(name, ...) launch(name, LIST(unsigned, 1, 1, 1), LIST(unsigned, 256, 1, 1), (void *[]){__VA_ARGS__})
#define LAUNCH_ON(name, blocks, ...) launch(name, blocks, LIST(unsigned, 256, 1, 1), (void *[]){__VA_ARGS__})
#define N(value) (&(int){value})
#define L(value) (&(int64_t){value})
#define F(value) (&(float){value})
#define EMPTY (&(char){0})
#define TRUE (&(char){1})
#define FALSE (&(char){0})

/* ORT's layout. */
typedef struct divisor {
  uint32_t divisor, multiplier, shift;
} divisor;
typedef struct numbers {
  int32_t count;
  int64_t items[32];
} numbers;
typedef struct divisors {
  int32_t count;
  divisor items[32];
} divisors;
typedef struct addresses {
  int32_t count;
  void *items[32];
} addresses;
typedef struct integers {
  int32_t count, items[32];
} integers;

#define D(value) (&(divisor){.divisor = (value)})
#define NUMBERS(...) (&(numbers){COUNT(int64_t, __VA_ARGS__), {__VA_ARGS__}})
#define NO_NUMBERS (&(numbers){0})

static inline divisors *divide(divisors *result, int count, const int *values) {
  result->count = count;
  for (int i = 0; i < count; i++) result->items[i].divisor = (uint32_t)values[i];
  return result;
}

#define DIVISORS(...) divide(&(divisors){0}, COUNT(int, __VA_ARGS__), LIST(int, __VA_ARGS__))

static inline void launch(const char *name, const unsigned *grid, const unsigned *block, void **arguments) {
  const vcuda_kernel *kernel = vcuda_kernel_find(name);
  if (kernel == NULL) fail_msg("%s: not found", name);
  assert_ptr_equal(kernel, vcuda_kernel_find(name));
  assert_int_equal(vcuda_kernel_launch(kernel, grid, block, 0, NULL, arguments), 0);
  if (host_error() != 0) fail_msg("%s: error %d: %s", vcuda_kernel_name(kernel), host_error(), host_message());
}

static inline void expect_near(const float *tensor, const double *expected, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!(fabs((double)tensor[i] - expected[i]) <= 1e-5 * (1 + fabs(expected[i])))) {
      fail_msg("element %zu: expected %.9g, got %.9g", i, expected[i], (double)tensor[i]);
    }
  }
}

#endif
