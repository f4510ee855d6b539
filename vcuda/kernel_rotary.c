/* Rotary position embedding: pairs of a head's elements are rotated by an angle that grows with the position. */
#include "kernel.h"

#include <string.h>

typedef struct rotary {
  int64_t batch, sequence, heads, head, turned, rows; /* turned: rotated elements of a head; rows: of the caches */
  int format; /* of positions: 0 one first position for the whole batch, 1 one for each token; without any each token has a row */
  bool interleaved;
  int32_t in[4], out[4]; /* strides of batch, head, token, element */
  const void *data, *cosines, *sines;
  const int64_t *positions;
  void *result;
  vcuda_type type;
} rotary;

static int64_t cache_row(const rotary *r, int64_t batch, int64_t token) {
  if (r->positions == NULL) return batch * r->sequence + token;
  return r->format == 0 ? r->positions[0] + token : r->positions[batch * r->sequence + token];
}

static void turn_head(const rotary *r, int64_t row, int64_t in, int64_t out) {
  int64_t half = r->turned / 2;
  for (int64_t i = 0; i < r->head; i++) {
    double value = vcuda_load_real(r->type, r->data, in + i * r->in[3]);
    if (i < r->turned) {
      bool first = r->interleaved ? i % 2 == 0 : i < half;
      int64_t pair = r->interleaved ? i / 2 : i % half, other = r->interleaved ? i ^ 1 : (i + half) % r->turned;
      double partner = vcuda_load_real(r->type, r->data, in + other * r->in[3]);
      double cosine = vcuda_load_real(r->type, r->cosines, row * half + pair);
      double sine = vcuda_load_real(r->type, r->sines, row * half + pair);
      value = value * cosine + (first ? -partner : partner) * sine;
    }
    vcuda_store_real(r->type, r->result, out + i * r->out[3], value);
  }
}

static int64_t extent(const rotary *r, const int32_t strides[4]) {
  if (r->batch * r->heads * r->sequence * r->head == 0) return 0;
  return 1 + (r->batch - 1) * strides[0] + (r->heads - 1) * strides[1] + (r->sequence - 1) * strides[2] +
         (r->head - 1) * strides[3];
}

static void run(const vcuda_launch *launch, rotary *r) {
  int64_t tokens = r->batch * r->sequence, last = -1;
  if (vcuda_address(launch, 4) != NULL) {
    r->positions = vcuda_input(launch, 4, r->format == 0 ? 1 : tokens);
    if (r->positions == NULL) return;
  }
  for (int64_t token = 0; token < tokens; token++) {
    int64_t row = cache_row(r, token / r->sequence, token % r->sequence);
    if (row < 0 || (r->positions != NULL && row >= r->rows)) {
      vcuda_fail(719, "RotaryEmbedding: position %lld: expected less than %lld", (long long)row, (long long)r->rows);
      return;
    }
    last = row > last ? row : last;
  }
  r->data = vcuda_input(launch, 1, extent(r, r->in));
  r->cosines = vcuda_input(launch, 2, (last + 1) * (r->turned / 2));
  r->sines = vcuda_input(launch, 3, (last + 1) * (r->turned / 2));
  r->result = vcuda_output(launch, 0, extent(r, r->out));
  if (r->data == NULL || r->cosines == NULL || r->sines == NULL || r->result == NULL) return;
  for (int64_t token = 0; token < tokens; token++) {
    int64_t batch = token / r->sequence, at = token % r->sequence, row = cache_row(r, batch, at);
    for (int64_t head = 0; head < r->heads; head++) {
      turn_head(r, row, batch * r->in[0] + head * r->in[1] + at * r->in[2],
                batch * r->out[0] + head * r->out[1] + at * r->out[2]);
    }
  }
}

/* (out, in, cosines, sines, positions[, lengths], tokens, heads, head's size, turned elements, caches' rows, format, interleaved,
 * input's strides, output's strides); a block for each token, batch and head. Lengths of past tokens are not supported. */
static void run_rotary(const vcuda_launch *launch) {
  int first = launch->kernel->argument_count == 15 ? 6 : 5;
  rotary r = {.type = vcuda_type_of(launch, 0), .batch = launch->grid[1]};
  r.sequence = vcuda_integer(launch, first);
  r.heads = vcuda_integer(launch, first + 1);
  r.head = vcuda_integer(launch, first + 2);
  r.turned = vcuda_integer(launch, first + 3);
  r.rows = vcuda_integer(launch, first + 4);
  r.format = (int)vcuda_integer(launch, first + 5);
  r.interleaved = vcuda_integer(launch, first + 6) != 0;
  memcpy(r.in, vcuda_argument(launch, first + 7), sizeof r.in);
  memcpy(r.out, vcuda_argument(launch, first + 8), sizeof r.out);
  if (first == 6 && vcuda_address(launch, 5) != NULL) {
    vcuda_fail(719, "RotaryEmbedding with the lengths of past tokens: not known here");
  } else {
    run(launch, &r);
  }
}

const vcuda_form vcuda_rotary_forms[] = {
    {"RotaryEmbeddingBSNH", "pppppnnnnnnnoo", run_rotary, NULL},
    {"RotaryEmbeddingBSNH", "ppppppnnnnnnnoo", run_rotary, NULL},
    {.name = NULL},
};
