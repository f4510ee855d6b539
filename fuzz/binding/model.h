/* The models that are run, and the same arithmetic in plain C.
 *
 *      mix:   y = a + s      next_s = y - s/2      next_t = t/2 + y      d = k + c/2      k = k (an input that is an output too)
 *      grow:  long = g followed by x      twice = x + x
 *      plain: sum = p + q + zeros[w / 2^20]      gap = p - mean(r)
 *
 * a, s, t and y, next_s, next_t have the open dim n; c has one or three elements, k and d three; g, x and long are open.
 * p, q, r, sum and gap have the open dim n. The mean of one value is that value. No device has this operator, so r is read on the host.
 * w has one element. If it is BAD, it is an index out of range of zeros, which only the kernel finds.
 * Each operation is exact, so results must be equal. */
#ifndef FUZZ_BINDING_MODEL_H
#define FUZZ_BINDING_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum { MOST_PORTS = 5, MOST_ELEMENTS = 64, MODELS = 3 };

#define BAD 1e9F

/* An input or output. */
typedef struct port {
  const char *name;
  const char *dim; /* the name of its only dim; NULL: it is `count` */
  size_t count;
  bool is_host; /* read on the host, wherever the session computes */
} port;

/* The elements of an input or output. */
typedef struct elements {
  size_t count;
  float at[MOST_ELEMENTS];
} elements;

typedef struct model {
  const char *name;
  size_t input_count;
  size_t output_count;
  port inputs[MOST_PORTS];
  port outputs[MOST_PORTS];
  /* for each output a bit for each input: the inputs on which it depends, and the inputs whose memory it may overwrite, because each
   * element of the input is read before that element is written */
  unsigned needs[MOST_PORTS];
  unsigned may_overwrite[MOST_PORTS];
  bool is_input[MOST_PORTS]; /* the output is an unchanged input */
} model;

extern const model models[MODELS];

/* The number of elements of each output for these inputs. False: the model cannot run with them (a, s and t of different lengths, or a
 * c that cannot be added to k). */
bool model_counts(const model *of, const size_t *inputs, size_t *outputs);

/* The input whose value can end a run; -1: none. */
int model_judge(const model *of);

void model_compute(const model *of, const elements *inputs, elements *outputs);

/* The model as an ONNX file in memory; free() it. */
void *model_write(const model *of, size_t *bytes);

#endif
