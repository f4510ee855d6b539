/* Tensors from numbers: a value repeated, a range, ones on a diagonal, one-hot vectors. */
#include "kernel.h"

#include <string.h>

static void fill(const vcuda_launch *launch, const void *value, int64_t count) {
  size_t size = vcuda_size_of(launch, 0);
  char *out = vcuda_output(launch, 0, count);
  for (int64_t i = 0; value != NULL && out != NULL && i < count; i++) memcpy(out + (size_t)i * size, value, size);
}

/* (out, value, N) */
static void run_fill(const vcuda_launch *launch) {
  fill(launch, vcuda_argument(launch, 1), vcuda_integer(launch, 2));
}

static void run_fill_from_pointer(const vcuda_launch *launch) {
  fill(launch, vcuda_input(launch, 1, 1), vcuda_integer(launch, 2));
}

/* (start, delta, N, out) */
static void run_range(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 3);
  int64_t count = vcuda_integer(launch, 2);
  vcuda_number start = vcuda_scalar(launch, 0), delta = vcuda_scalar(launch, 1);
  void *out = vcuda_output(launch, 3, count);
  for (int64_t i = 0; out != NULL && i < count; i++) {
    vcuda_number value;
    if (vcuda_type_is_float(type)) {
      value.real = start.real + delta.real * (double)i;
    } else {
      value.whole = (int64_t)((uint64_t)start.whole + (uint64_t)delta.whole * (uint64_t)i);
    }
    vcuda_store(type, out, i, value);
  }
}

/* (start of the diagonal, step of the diagonal, out, N): the caller has cleared the other elements. */
static void run_diagonal(const vcuda_launch *launch) {
  int64_t start = vcuda_integer(launch, 0), step = vcuda_integer(launch, 1), count = vcuda_integer(launch, 3);
  char *address = vcuda_address(launch, 2);
  size_t size = vcuda_size_of(launch, 2);
  for (int64_t i = 0; i < count; i++) {
    void *out = vcuda_writes(address + (size_t)(start + i * step) * size, size);
    if (out == NULL) return;
    vcuda_store_real(vcuda_type_of(launch, 2), out, 0, 1);
  }
}

/* (indices, depth * inner size, inner size, depth, on, off, out, N) */
static void run_one_hot(const vcuda_launch *launch) {
  int64_t block = vcuda_integer(launch, 1), inner = vcuda_integer(launch, 2), depth = vcuda_integer(launch, 3),
          count = vcuda_integer(launch, 7);
  size_t size = vcuda_size_of(launch, 6);
  const void *indices = vcuda_input(launch, 0, count == 0 ? 0 : count / block * inner);
  char *out = vcuda_output(launch, 6, count);
  for (int64_t i = 0; indices != NULL && out != NULL && i < count; i++) {
    int64_t index = (int64_t)vcuda_load_real(vcuda_type_of(launch, 0), indices, i / block * inner + i % inner);
    index += index < 0 ? depth : 0;
    memcpy(out + (size_t)i * size, vcuda_argument(launch, index == i % block / inner ? 4 : 5), size);
  }
}

/* (indices, inner size, depth, on, out, N of the indices): the caller has cleared the other elements. */
static void run_one_hot_ones(const vcuda_launch *launch) {
  int64_t inner = vcuda_integer(launch, 1), depth = vcuda_integer(launch, 2), count = vcuda_integer(launch, 5);
  size_t size = vcuda_size_of(launch, 4);
  const void *indices = vcuda_input(launch, 0, count);
  char *out = vcuda_output(launch, 4, count * depth);
  for (int64_t i = 0; indices != NULL && out != NULL && i < count; i++) {
    int64_t index = (int64_t)vcuda_load_real(vcuda_type_of(launch, 0), indices, i);
    index += index < 0 ? depth : 0;
    if (index < 0 || index >= depth) continue;
    memcpy(out + (size_t)((i / inner * depth + index) * inner + i % inner) * size, vcuda_argument(launch, 3), size);
  }
}

const vcuda_form vcuda_make_forms[] = {
    {"_Fill", "pvn", run_fill, NULL},
    {"_FillFromDataPtrKernel", "ppn", run_fill_from_pointer, NULL},
    {"RangeKernel", "vvnp", run_range, NULL},
    {"_EyeLikeKernel", "nnpn", run_diagonal, NULL},
    {"_OneHotImpl", "pddnvvpn", run_one_hot, NULL},
    {"_OneHotWithZeroOffValueImpl", "pdnvpn", run_one_hot_ones, NULL},
    {.name = NULL},
};
