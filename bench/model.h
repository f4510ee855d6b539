/* The models that the benchmarks need, made on the spot. */
#ifndef IOBIND_BENCH_MODEL_H
#define IOBIND_BENCH_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* y[n] = a[n] + b[n], float32. Returns the model, for free(), or NULL without memory. */
void *model_add(size_t *bytes);

/* y[n] = x[n] + x[n], float32. As model_add. */
void *model_double(size_t *bytes);

/* y[n] = x[n] added to itself, and so on, by `count` nodes in a row, float32. As model_add. */
void *model_chain(int count, size_t *bytes);

/* One head of attention, float32: key[total,8] and value[total,8] are past_key[past,8] and past_value[past,8] with row[1,8] behind
 * them, and y[1,8] is what row finds there. As model_add. */
void *model_attention(size_t *bytes);

/* The same with rows of `width` elements. */
void *model_cache(int64_t width, size_t *bytes);

/* y = the largest element of x[n], float32, as a scalar. As model_add. */
void *model_largest(size_t *bytes);

/* y[1,count] = where x[n], float32, is not 0, int64: how much comes out depends on what is in x. As model_add. */
void *model_nonzero(size_t *bytes);

/* 64 states of float32[4], each doubled, state0 to next0 and so on, and behind them y[n] = mask[n] + mask[n]. As model_add. */
enum { MODEL_STATES = 64 };
void *model_states(size_t *bytes);

/* An encoder's states: MODEL_ENCODER_STATES of float32[24,rows,194], each doubled, state0 to next0 and so on, and behind them
 * y[rows,1] = x[rows,1] + x[rows,1]. As model_add. */
enum { MODEL_ENCODER_STATES = 97, MODEL_ENCODER_LEAD = 24, MODEL_ENCODER_REST = 194 };
void *model_encoder(size_t *bytes);

/* y[side,side] = x w w ... w, `count` products with w[side,side], float32. As model_add. */
void *model_products(int64_t side, int count, size_t *bytes);

/* y[n,side] = x[n,side] times a constant of side * side float32. As model_add. */
void *model_weights(int64_t side, size_t *bytes);

/* found[n,columns] = table[rows,columns] at the rows index[n], float32 and int32. The table is an input, not a constant: a
 * plain run carries all of it to the device each time, a binding leaves it there. As model_add. */
void *model_lookup(int64_t rows, int64_t columns, size_t *bytes);

#endif
