/* Tensors of COUNT equal float32. */
#ifndef TESTS_ASYNC_FILLED_H
#define TESTS_ASYNC_FILLED_H

#include "fixture.h"

enum { COUNT = 8 };

static inline void set_values(float values[COUNT], float value) {
  for (int i = 0; i < COUNT; i++) {
    values[i] = value;
  }
}

static inline void fill(iobind_tensor *tensor, float value) {
  float values[COUNT];
  set_values(values, value);
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
}

static inline iobind_tensor *make_filled(iobind_device *where, iobind_memory memory, float value) {
  static const int64_t dim = COUNT;
  iobind_tensor *made = NULL;
  expect_ok(iobind_tensor_create(where, memory, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  fill(made, value);
  return made;
}

static inline void expect_all(iobind_tensor *tensor, float value) {
  float values[COUNT];
  set_values(values, value);
  fixture_expect_floats(tensor, values, COUNT);
}

#endif
