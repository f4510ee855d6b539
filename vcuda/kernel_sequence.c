/* Sequences: reversal, and kernels that prepare data for cuDNN's recurrent networks. */
#include "kernel.h"

#include <string.h>

/* (longest, lengths, block, block, elements of a sequence in a block, in, out, N): zeros after the end of a sequence. */
static void run_reverse_rnn(const vcuda_launch *launch) {
  int64_t block = vcuda_integer(launch, 2), inner = vcuda_integer(launch, 4), count = vcuda_integer(launch, 7);
  size_t size = vcuda_size_of(launch, 5);
  if (block == 0 || inner == 0) return;
  const int32_t *lengths = vcuda_input(launch, 1, block / inner);
  const char *in = vcuda_input(launch, 5, count);
  char *out = vcuda_output(launch, 6, count);
  for (int64_t id = 0; lengths != NULL && in != NULL && out != NULL && id < count; id++) {
    int64_t offset = id % block, from = lengths[offset / inner] - id / block - 1;
    if (from >= count / block) {
      vcuda_fail(700, "_ReverseBySequenceKernel: sequence %lld has %d elements of %lld", (long long)(offset / inner),
                 (int)lengths[offset / inner], (long long)(count / block));
      return;
    }
    if (from >= 0) {
      memcpy(out + (size_t)id * size, in + (size_t)(from * block + offset) * size, size);
    } else {
      memset(out + (size_t)id * size, 0, size);
    }
  }
}

/* (length, batch, hidden size, block, block, hidden size, in, out, N): the directions alternate in each block of the input; the
 * output has all of the first direction, then all of the second. */
static void run_directions(const vcuda_launch *launch) {
  int64_t batch = vcuda_integer(launch, 1), hidden = vcuda_integer(launch, 2), block = vcuda_integer(launch, 3);
  int64_t count = vcuda_integer(launch, 8);
  size_t size = vcuda_size_of(launch, 6);
  const char *in = vcuda_input(launch, 6, count);
  char *out = vcuda_output(launch, 7, count);
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    int64_t row = id % block / hidden, from = row < batch ? 2 * row : 2 * (row - batch) + 1;
    memcpy(out + (size_t)id * size, in + (size_t)(id / block * block + from * hidden + id % hidden) * size, size);
  }
}

/* (hidden size, output, last outputs, last cells, rows, N): clears these rows in each of the tensors that is given. */
static void run_clear_rows(const vcuda_launch *launch) {
  int64_t hidden = vcuda_integer(launch, 0), count = vcuda_integer(launch, 5);
  const int32_t *rows = vcuda_input(launch, 4, count);
  for (int64_t i = 0; rows != NULL && i < count; i++) {
    for (int output = 1; output <= 3; output++) {
      char *address = vcuda_address(launch, output);
      size_t row = (size_t)hidden * vcuda_size_of(launch, output);
      void *data = address == NULL ? NULL : vcuda_writes(address + (size_t)rows[i] * row, row);
      if (address != NULL && data == NULL) return;
      if (data != NULL) memset(data, 0, row);
    }
  }
}

/* <T, time first>(in, lengths, out, batch, longest, element's size, ..): elements after the end of a sequence
 * stay in place. */
static void run_reverse(const vcuda_launch *launch) {
  bool time_first = vcuda_flag(launch->kernel, 1);
  int64_t batch = vcuda_integer(launch, 3), longest = vcuda_integer(launch, 4), inner = vcuda_integer(launch, 5);
  size_t bytes = (size_t)inner * vcuda_size_of(launch, 0);
  const int64_t *lengths = vcuda_input(launch, 1, batch);
  const char *in = vcuda_input(launch, 0, batch * longest * inner);
  char *out = vcuda_output(launch, 2, batch * longest * inner);
  for (int64_t i = 0; lengths != NULL && in != NULL && out != NULL && i < batch * longest; i++) {
    int64_t sequence = i / longest, time = i % longest, to = time < lengths[sequence] ? lengths[sequence] - 1 - time : time;
    if (to >= longest) {
      vcuda_fail(700, "ReverseSequenceImplKernel: sequence %lld has %lld elements of %lld", (long long)sequence,
                 (long long)lengths[sequence], (long long)longest);
      return;
    }
    size_t source = (size_t)(time_first ? time * batch + sequence : i);
    size_t target = (size_t)(time_first ? to * batch + sequence : sequence * longest + to);
    memcpy(out + target * bytes, in + source * bytes, bytes);
  }
}

const vcuda_form vcuda_sequence_forms[] = {
    {"_ReverseBySequenceKernel", "npnddppn", run_reverse_rnn, NULL},
    {"_BidirectionalDataKernel", "nnnnddppn", run_directions, NULL},
    {"_MaskZeroSequences", "nppppn", run_clear_rows, NULL},
    {"ReverseSequenceImplKernel", "pppnnnndd", run_reverse, NULL},
    {.name = NULL},
};
