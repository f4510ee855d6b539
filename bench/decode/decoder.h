/* A language model of one sequence with random weights, in the form in which exporters write them: a file, with external data beside it. */
#ifndef IOBIND_BENCH_DECODER_H
#define IOBIND_BENCH_DECODER_H

#include <stdbool.h>

/* The width of a hidden row is heads * DECODER_HEAD. */
enum { DECODER_HEAD = 64 };

typedef struct decoder_size {
  int layers, heads, vocabulary, most_tokens;
} decoder_size;

/* Inputs: input_ids[1,new] and attention_mask[1,total], int64, and then for each layer past_key_values.LAYER.key and .value,
 * float32[1,heads,past,DECODER_HEAD]. Outputs: logits[1,1,vocabulary] of the token after them, and then present.LAYER.key and .value,
 * float32[1,heads,total,DECODER_HEAD]: what was before with the new tokens behind it.
 *
 * `data` is the name of the file with the weights in the directory of `model`, and `data_path` its path. Returns whether all was written. */
bool decoder_write(const decoder_size *size, const char *model, const char *data, const char *data_path);

#endif
