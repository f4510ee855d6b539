/* A language model of one sequence, of realistic sizes, with random weights: written to a file, with external data beside it. */
#ifndef IOBIND_BENCH_DECODER_H
#define IOBIND_BENCH_DECODER_H

#include <stdbool.h>

/* Inputs: tokens[new], int64, and then past_key0, past_value0, past_key1, ..., float32[HEADS,past,HEAD]. Outputs: logits[1,VOCABULARY] of the
 * token after them, and then key0, value0, key1, ..., float32[HEADS,total,HEAD]: what was before with the new tokens behind it. */
enum {
  DECODER_LAYERS = 6,
  DECODER_HEADS = 8,
  DECODER_HEAD = 64,
  DECODER_WIDTH = DECODER_HEADS * DECODER_HEAD,
  DECODER_MLP = 2048,
  DECODER_VOCABULARY = 8192,
  DECODER_MOST_TOKENS = 8192,
  DECODER_STATES = 2 * DECODER_LAYERS
};

/* `data` is the name of the file with the weights in the directory of `model`, and `data_path` its path. Returns whether all was written. */
bool decoder_write(const char *model, const char *data, const char *data_path);

#endif
