/* Attention in steps: masks and lengths of sequences. */
#include "kernel.h"

/* (mask, bias, count, bias of masked keys) */
static void run_bias_of_mask(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2);
  const void *mask = vcuda_input(launch, 0, count);
  void *bias = vcuda_output(launch, 1, count);
  for (int64_t i = 0; mask != NULL && bias != NULL && i < count; i++) {
    bool seen = vcuda_load(VCUDA_BOOL, mask, i).whole != 0;
    vcuda_store_real(vcuda_type_of(launch, 1), bias, i, seen ? 0 : vcuda_real(launch, 3));
  }
}

/* (lengths as int64, lengths, count, most) */
static void run_lengths(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2), most = vcuda_integer(launch, 3);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    int64_t length = vcuda_load(VCUDA_INT64, in, i).whole;
    if (length < 0 || length > most) {
      vcuda_fail(719, "nonpad_kv_seqlen: %lld: expected 0 to %lld", (long long)length, (long long)most);
      return;
    }
    vcuda_store(VCUDA_INT32, out, i, (vcuda_number){.whole = length});
  }
}

/* (out, value, count) */
static void run_fill(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2);
  void *out = vcuda_output(launch, 0, count);
  for (int64_t i = 0; out != NULL && i < count; i++) vcuda_store(VCUDA_INT32, out, i, vcuda_scalar(launch, 1));
}

/* (out, lengths, batch, elements of a sequence): a sequence without keys becomes 0. */
static void run_clear_batches(const vcuda_launch *launch) {
  int64_t batch = vcuda_integer(launch, 2), each = vcuda_integer(launch, 3);
  const void *lengths = vcuda_input(launch, 1, batch);
  void *out = vcuda_output(launch, 0, batch * each);
  for (int64_t i = 0; lengths != NULL && out != NULL && i < batch * each; i++) {
    if (vcuda_load(VCUDA_INT32, lengths, i / each).whole == 0) vcuda_store_real(vcuda_type_of(launch, 0), out, i, 0);
  }
}

/* (keys, mask, lengths): a block for each sequence. Its length is the index of the first 0 in its mask. */
static void run_length_of_mask(const vcuda_launch *launch) {
  int64_t keys = vcuda_integer(launch, 0), batch = launch->grid[0];
  const void *mask = vcuda_input(launch, 1, batch * keys);
  void *lengths = vcuda_output(launch, 2, batch);
  for (int64_t b = 0; mask != NULL && lengths != NULL && b < batch; b++) {
    int64_t length = 0;
    while (length < keys && vcuda_load(VCUDA_INT32, mask, b * keys + length).whole != 0) length++;
    vcuda_store(VCUDA_INT32, lengths, b, (vcuda_number){.whole = length});
  }
}

/* (rows of heads, heads of rows, lengths, rows, heads, size, count): a sequence without keys becomes 0. */
static void run_turn_and_clear(const vcuda_launch *launch) {
  int64_t rows = vcuda_integer(launch, 3), heads = vcuda_integer(launch, 4), size = vcuda_integer(launch, 5),
          count = vcuda_integer(launch, 6), each = rows * heads * size;
  vcuda_type type = vcuda_type_of(launch, 0);
  if (each == 0 || count % each != 0) {
    vcuda_fail(719, "%lld elements are no sequences of %lld", (long long)count, (long long)each);
    return;
  }
  const void *in = vcuda_input(launch, 0, count), *lengths = vcuda_input(launch, 2, count / each);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && lengths != NULL && out != NULL && i < count; i++) {
    int64_t row = i / size % rows, head = i / size / rows % heads,
            from = i / each * each + (row * heads + head) * size + i % size;
    bool is_there = vcuda_load(VCUDA_INT32, lengths, i / each).whole > 0;
    vcuda_store_real(type, out, i, is_there ? vcuda_load_real(type, in, from) : 0);
  }
}

const vcuda_form vcuda_masks_forms[] = {
    {"ConvertBoolMaskToAttentionBiasKernel", "ppnv", run_bias_of_mask, NULL},
    {"ConvertNonpadKvSeqlenToFlashSeqlensKKernel", "ppnn", run_lengths, NULL},
    {"TransposeBSNHtoBNSHWithZeroMaskKernel", "pppnnnn", run_turn_and_clear, NULL},
    {"FillInt32Kernel", "pnn", run_fill, NULL},
    {"ZeroOutputForFullyMaskedBatchesKernel", "ppnn", run_clear_batches, NULL},
    {"MaskIndexKernelSmall", "npp", run_length_of_mask, NULL},
    {"MaskIndexKernel", "npp", run_length_of_mask, NULL},
    {.name = NULL},
};
