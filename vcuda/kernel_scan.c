/* CUB's prefix sums, and the operators that use them (NonZero, Compress). */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* ---- CUB's inclusive sum of int32; the state shared by its blocks is not needed ---- */

static void run_nothing(const vcuda_launch *launch) {
  (void)launch;
}

static bool sums_whole_numbers(vcuda_kernel *kernel) {
  bool casts = kernel->arguments[0].kind == 'o' && strstr(kernel->arguments[0].text, "CastToInt32, signed char const*") != NULL;
  return kernel->arguments[1].type == VCUDA_INT32 && (casts || kernel->arguments[0].type == VCUDA_INT32) &&
         strstr(kernel->arguments[4].text, "plus<") != NULL;
}

/* (in, out, state, first tile, sum, initial value, N): `in` is a pointer, or an iterator over signed char that begins with a
 * pointer. */
static void run_scan(const vcuda_launch *launch) {
  vcuda_type type = launch->kernel->arguments[0].kind == 'p' ? VCUDA_INT32 : VCUDA_INT8;
  int64_t count = vcuda_integer(launch, 6), sum = 0;
  const void *in = vcuda_reads(vcuda_address(launch, 0), (size_t)count * vcuda_type_size(type));
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    sum += vcuda_load(type, in, i).whole;
    vcuda_store(VCUDA_INT32, out, i, (vcuda_number){.whole = sum});
  }
}

/* ---- NonZero: counts for each block, their prefix sums, and the positions, for which only the last sum is needed here ---- */

static bool is_zero(vcuda_type type, const void *in, int64_t i) {
  return fpclassify(vcuda_load_real(type, in, i)) == FP_ZERO;
}

/* (in, N, counts) */
static void run_count(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  int64_t count = vcuda_integer(launch, 1), blocks = launch->grid[0], part = (count + blocks - 1) / blocks;
  const void *in = vcuda_input(launch, 0, count);
  int32_t *counts = vcuda_output(launch, 2, blocks);
  if (in == NULL || counts == NULL) return;
  memset(counts, 0, (size_t)blocks * sizeof *counts);
  for (int64_t i = 0; i < count; i++) counts[i / part] += is_zero(type, in, i) ? 0 : 1;
}

/* (in, N, rank, strides, sums, how many, out): out has a row for each dim. */
static void run_positions(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  int64_t count = vcuda_integer(launch, 1), rank = vcuda_integer(launch, 2), found = vcuda_integer(launch, 5), at = 0;
  const void *in = vcuda_input(launch, 0, count);
  int64_t *out = vcuda_output(launch, 6, rank * found);
  for (int64_t i = 0; in != NULL && out != NULL && i < count && at < found; i++) {
    if (is_zero(type, in, i)) continue;
    int64_t rest = i;
    for (int64_t dim = 0; dim < rank; dim++) {
      out[dim * found + at] = rest / vcuda_item(launch, 3, (int)dim);
      rest %= vcuda_item(launch, 3, (int)dim);
    }
    at++;
  }
}

/* ---- Compress ---- */

/* (conditions, inner size, block, output's block, running sums, condition, in, out, N): keeps the elements with a true
 * condition. */
static void run_compress(const vcuda_launch *launch) {
  int64_t conditions = vcuda_integer(launch, 0), inner = vcuda_integer(launch, 1), block = vcuda_integer(launch, 2);
  int64_t out_block = vcuda_integer(launch, 3), count = vcuda_integer(launch, 8);
  size_t size = vcuda_size_of(launch, 6);
  const int32_t *sums = vcuda_input(launch, 4, conditions);
  const char *condition = vcuda_input(launch, 5, conditions), *in = vcuda_input(launch, 6, count);
  char *out = vcuda_output(launch, 7, count == 0 ? 0 : count / block * out_block);
  if (sums == NULL || condition == NULL || in == NULL || out == NULL) return;
  for (int64_t i = 0; i < count; i++) {
    int64_t along = i % block / inner;
    if (along >= conditions || condition[along] == 0) continue;
    int64_t to = i / block * out_block + (sums[along] - 1) * inner + i % inner;
    memcpy(out + (size_t)to * size, in + (size_t)i * size, size);
  }
}

const vcuda_form vcuda_scan_forms[] = {
    {"DeviceScanInitKernel", "on", run_nothing, NULL},
    {"DeviceScanKernel", "pponoon", run_scan, sums_whole_numbers},
    {"DeviceScanKernel", "oponoon", run_scan, sums_whole_numbers},
    {"NonZeroCountEachBlockKernel", "pnp", run_count, NULL},
    {"NonZeroOutputPositionsKernel", "pnnapnp", run_positions, NULL},
    {"UnRolledNonZeroOutputPositionsKernel", "pnnapnp", run_positions, NULL},
    {"_CompressKernel", "nddnppppn", run_compress, NULL},
    {.name = NULL},
};
