#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "models.h"

typedef struct call {
  const char *spec;
  const value *inputs;
  value *outputs;
} call;

static double get(const value *v, size_t index) {
  return element_get(value_element(v), value_data(v), index);
}

static void set(const value *v, size_t index, double number) {
  element_set(value_element(v), value_data(v), index, number);
}

static long long parameter(const call *c, const char *key, const char *fallback) {
  char text[TEST_MODEL_TEXT];
  test_model_get(c->spec, key, fallback, text);
  return strtoll(text, NULL, 10);
}

static int32_t dtype_by_name(const char *name) {
  int32_t dtype = 1;
  while (dtype < 64 && strcmp(iobind_dtype_get_name(dtype), name) != 0) dtype++;
  return dtype;
}

/* Output `index` with the type of `like`. */
static value *make(const call *c, size_t index, int32_t dtype, const int64_t *dims, size_t rank) {
  value *output = &c->outputs[index];
  memset(output, 0, sizeof *output);
  output->dtype = dtype;
  output->rank = rank;
  for (size_t i = 0; i < rank; i++) output->dims[i] = dims[i];
  return value_allocate(output) ? output : NULL;
}

static value *make_like(const call *c, size_t index, const value *like) {
  return make(c, index, like->dtype, like->dims, like->rank);
}

static int same(const call *c, size_t index, const value *x) {
  value *y = make_like(c, index, x);
  if (y == NULL) return 0;
  memcpy(value_data(y), value_data(x), value_bytes(x));
  return 1;
}

/* y = a x + b x x + c: all that the elementwise models need. */
static int polynomial(const call *c, size_t index, const value *x, double linear, double square, double constant) {
  value *y = make_like(c, index, x);
  for (size_t i = 0; y != NULL && i < value_count(x); i++) {
    double element = get(x, i);
    set(y, i, linear * element + square * element * element + constant);
  }
  return y != NULL;
}

static size_t identity(const call *c) {
  return (size_t)same(c, 0, &c->inputs[0]);
}

static size_t add(const call *c) {
  const value *x = &c->inputs[0], *y = &c->inputs[1];
  value *z = make_like(c, 0, x);
  for (size_t i = 0; z != NULL && i < value_count(x); i++) set(z, i, get(x, i) + get(y, i));
  return z != NULL;
}

static size_t scale(const call *c) {
  return (size_t)polynomial(c, 0, &c->inputs[0], (double)parameter(c, "factor", "2"), 0, 0);
}

static size_t doubled(const call *c) {
  return (size_t)polynomial(c, 0, &c->inputs[0], 2, 0, 0);
}

static size_t multi(const call *c) {
  const value *x = &c->inputs[0];
  return polynomial(c, 0, x, 2, 0, 0) && polynomial(c, 1, x, 0, 1, 0) && same(c, 2, x) ? 3 : 0;
}

static size_t passthrough(const call *c) {
  return same(c, 0, &c->inputs[0]) && polynomial(c, 1, &c->inputs[0], 2, 0, 0) ? 2 : 0;
}

static size_t condition(const call *c) {
  int taken = get(&c->inputs[0], 0) != 0;
  return (size_t)polynomial(c, 0, &c->inputs[1], taken ? 2 : 0, taken ? 0 : 1, 0);
}

static size_t loop(const call *c) {
  return (size_t)polynomial(c, 0, &c->inputs[1], 1, 0, get(&c->inputs[0], 0));
}

static size_t cast(const call *c) {
  char to[TEST_MODEL_TEXT];
  const value *x = &c->inputs[0];
  test_model_get(c->spec, "to", "float16", to);
  value *y = make(c, 0, dtype_by_name(to), x->dims, x->rank);
  if (y == NULL) return 0;
  memset(value_data(y), 0, value_bytes(y));
  for (size_t i = 0; i < value_count(x); i++) set(y, i, get(x, i));
  return 1;
}

static size_t matmul(const call *c) {
  const value *x = &c->inputs[0], *y = &c->inputs[1];
  int64_t dims[] = {x->dims[0], y->dims[1]};
  value *z = make(c, 0, x->dtype, dims, 2);
  size_t inner = (size_t)x->dims[1], columns = (size_t)dims[1];
  for (size_t i = 0; z != NULL && i < value_count(z); i++) {
    double sum = 0;
    for (size_t k = 0; k < inner; k++) sum += get(x, i / columns * inner + k) * get(y, k * columns + i % columns);
    set(z, i, sum);
  }
  return z != NULL;
}

static size_t outer(const call *c) {
  const value *x = &c->inputs[0], *y = &c->inputs[1];
  int64_t dims[] = {x->dims[0], y->dims[1]};
  value *z = make(c, 0, x->dtype, dims, 2);
  for (size_t i = 0; z != NULL && i < value_count(z); i++) {
    set(z, i, get(x, i / (size_t)dims[1]) * get(y, i % (size_t)dims[1]));
  }
  return z != NULL;
}

/* Elements behind one step of an axis. */
static size_t stride(const value *v, size_t axis) {
  size_t elements = 1;
  for (size_t i = axis + 1; i < v->rank; i++) elements *= (size_t)v->dims[i];
  return elements;
}

static size_t reduce(const call *c) {
  const value *x = &c->inputs[0];
  size_t axis = (size_t)parameter(c, "axis", "0"), inner = stride(x, axis), steps = (size_t)x->dims[axis];
  int64_t dims[VALUE_MAX_RANK];
  for (size_t i = 0; i + 1 < x->rank; i++) dims[i] = x->dims[i < axis ? i : i + 1];
  value *y = make(c, 0, x->dtype, dims, x->rank - 1);
  for (size_t i = 0; y != NULL && i < value_count(y); i++) {
    double sum = 0;
    for (size_t k = 0; k < steps; k++) sum += get(x, (i / inner * steps + k) * inner + i % inner);
    set(y, i, sum);
  }
  return y != NULL;
}

static size_t transpose(const call *c) {
  char text[TEST_MODEL_TEXT];
  test_shape order;
  const value *x = &c->inputs[0];
  int64_t dims[VALUE_MAX_RANK];
  test_model_get(c->spec, "order", "1,0", text);
  test_shape_parse(text, &order);
  for (size_t i = 0; i < x->rank; i++) dims[i] = x->dims[order.dims[i]];
  value *y = make(c, 0, x->dtype, dims, x->rank);
  if (y == NULL) return 0;
  memset(value_data(y), 0, value_bytes(y));
  for (size_t i = 0; i < value_count(y); i++) {
    size_t from = 0, rest = i;
    for (size_t k = 0; k < x->rank; k++) {
      size_t step = stride(y, k);
      from += rest / step * stride(x, (size_t)order.dims[k]);
      rest %= step;
    }
    set(y, i, get(x, from));
  }
  return 1;
}

static int join(const call *c, size_t index, const value *first, const value *second, size_t axis) {
  int64_t dims[VALUE_MAX_RANK];
  memcpy(dims, first->dims, sizeof dims);
  dims[axis] += second->dims[axis];
  value *joined = make(c, index, first->dtype, dims, first->rank);
  size_t inner = stride(first, axis), split = (size_t)first->dims[axis], steps = (size_t)dims[axis];
  for (size_t i = 0; joined != NULL && i < value_count(joined); i++) {
    size_t row = i / inner / steps, step = i / inner % steps, column = i % inner;
    size_t from =
        step < split ? (row * split + step) * inner + column : (row * (steps - split) + step - split) * inner + column;
    set(joined, i, get(step < split ? first : second, from));
  }
  return joined != NULL;
}

static size_t concat(const call *c) {
  return (size_t)join(c, 0, &c->inputs[0], &c->inputs[1], (size_t)parameter(c, "axis", "0"));
}

static size_t grow(const call *c) {
  const value *row = &c->inputs[2];
  value turned = {.dtype = row->dtype, .rank = 2, .dims = {row->dims[1], row->dims[0]}};
  if (!value_allocate(&turned)) return 0;
  for (size_t i = 0; i < value_count(row); i++) {
    set(&turned, i % 3 * (size_t)row->dims[0] + i / 3, get(row, i));
  }
  int made = join(c, 0, &c->inputs[0], row, 0) && join(c, 1, &c->inputs[1], &turned, 1);
  value_release(&turned);
  return made ? 2 : 0;
}

static size_t lookup(const call *c) {
  const value *index = &c->inputs[0];
  size_t columns = (size_t)parameter(c, "columns", "4");
  int64_t dims[] = {index->dims[0], (int64_t)columns};
  value *found = make(c, 0, IOBIND_DTYPE_FLOAT32, dims, 2);
  for (size_t i = 0; found != NULL && i < value_count(found); i++) {
    size_t at = (size_t)get(index, i / columns) * columns + i % columns;
    set(found, i, (double)(at % 8191));
  }
  return found != NULL;
}

static size_t nonzero(const call *c) {
  const value *x = &c->inputs[0];
  int64_t dims[] = {(int64_t)x->rank, 0};
  for (size_t i = 0; i < value_count(x); i++) dims[1] += get(x, i) != 0;
  value *y = make(c, 0, IOBIND_DTYPE_INT64, dims, 2);
  size_t seen = 0;
  for (size_t i = 0; y != NULL && i < value_count(x); i++) {
    if (get(x, i) == 0) continue;
    for (size_t k = 0; k < x->rank; k++) {
      set(y, k * (size_t)dims[1] + seen, (double)(i / stride(x, k) % (size_t)x->dims[k]));
    }
    seen++;
  }
  return y != NULL;
}

static void read_dims(const value *shape, int64_t dims[VALUE_MAX_RANK]) {
  for (size_t i = 0; i < value_count(shape); i++) dims[i] = (int64_t)get(shape, i);
}

static size_t reshape(const call *c) {
  const value *x = &c->inputs[0], *shape = &c->inputs[1];
  int64_t dims[VALUE_MAX_RANK] = {0};
  read_dims(shape, dims);
  value *y = make(c, 0, x->dtype, dims, value_count(shape));
  if (y == NULL || value_bytes(y) != value_bytes(x)) return 0;
  memcpy(value_data(y), value_data(x), value_bytes(x));
  return 1;
}

static size_t expand(const call *c) {
  const value *x = &c->inputs[0], *shape = &c->inputs[1];
  int64_t dims[VALUE_MAX_RANK] = {0};
  read_dims(shape, dims);
  value *y = make(c, 0, x->dtype, dims, value_count(shape));
  for (size_t i = 0; y != NULL && i < value_count(y); i++) set(y, i, get(x, i % value_count(x)));
  return y != NULL;
}

static size_t shape_of(const call *c) {
  const value *x = &c->inputs[0];
  int64_t dims[] = {(int64_t)x->rank};
  value *y = make(c, 0, IOBIND_DTYPE_INT64, dims, 1);
  for (size_t i = 0; y != NULL && i < x->rank; i++) set(y, i, (double)x->dims[i]);
  return y != NULL;
}

static size_t constant(const call *c) {
  char dims[TEST_MODEL_TEXT], dtype[TEST_MODEL_TEXT];
  test_shape shape;
  test_model_get(c->spec, "dims", "2,3", dims);
  test_model_get(c->spec, "dtype", "float32", dtype);
  test_shape_parse(dims, &shape);
  value *y = make(c, 0, dtype_by_name(dtype), shape.dims, shape.rank);
  for (size_t i = 0; y != NULL && i < value_count(y); i++) set(y, i, (double)(i + 1));
  return y != NULL;
}

/* The decoder's table, and behind it what its last product takes: numbers of eighths (tests/models/stateful.c). */
static double table(size_t token, size_t column) {
  return ((double)((token * 7 + column * 5) % 13) - 6) / 8;
}

/* `past` and a row for each new token: the table's, times `factor`. */
static value *append(const call *c, size_t index, const value *past, double factor) {
  const value *tokens = &c->inputs[0];
  size_t width = (size_t)past->dims[1], before = value_count(past);
  int64_t dims[] = {past->dims[0] + tokens->dims[0], past->dims[1]};
  value *all = make(c, index, past->dtype, dims, 2);
  for (size_t i = 0; all != NULL && i < value_count(all); i++) {
    double row = i < before ? 0 : factor * table((size_t)get(tokens, (i - before) / width), i % width);
    set(all, i, i < before ? get(past, i) : row);
  }
  return all;
}

/* Without the softmax every number is exact. */
static size_t decoder(const call *c) {
  const value *tokens = &c->inputs[0];
  value *keys = append(c, 1, &c->inputs[1], 1), *values = append(c, 2, &c->inputs[2], 0.5);
  int64_t vocab = parameter(c, "vocab", "16"), count = tokens->dims[0];
  if (keys == NULL || values == NULL || parameter(c, "softmax", "1") != 0) return 0;
  size_t width = (size_t)keys->dims[1], total = (size_t)keys->dims[0];
  int64_t dims[] = {count, vocab}, pairs[] = {count, keys->dims[0]};
  value *logits = make(c, 0, keys->dtype, dims, 2), *weights = make(c, 3, keys->dtype, pairs, 2);
  if (logits == NULL || weights == NULL) return 0;
  for (size_t i = 0; i < value_count(weights); i++) {
    double sum = 0;
    for (size_t k = 0; k < width; k++) sum += table((size_t)get(tokens, i / total), k) * get(keys, i % total * width + k);
    set(weights, i, sum);
  }
  for (size_t i = 0; i < value_count(logits); i++) {
    double sum = 0;
    for (size_t k = 0; k < width * total; k++) {
      double weight = get(weights, i / (size_t)vocab * total + k / width);
      sum += weight * get(values, k) * table(i % (size_t)vocab + 1, k % width);
    }
    set(logits, i, sum);
  }
  return 4;
}

static const struct {
  const char *model;
  size_t (*run)(const call *c);
} references[] = {
    {"identity", identity},   {"add", add},           {"scale", scale},
    {"outer", outer},         {"cast", cast},         {"multi", multi},
    {"unused", doubled},      {"matmul", matmul},     {"reduce", reduce},
    {"transpose", transpose}, {"concat", concat},     {"lookup", lookup},
    {"nonzero", nonzero},     {"reshape", reshape},   {"expand", expand},
    {"shape", shape_of},      {"constant", constant}, {"passthrough", passthrough},
    {"if", condition},        {"loop", loop},         {"decoder", decoder},
    {"grow", grow},
};

size_t reference_run(const char *spec, const value *inputs, value *outputs) {
  call c = {spec, inputs, outputs};
  size_t length = strcspn(spec, " ");
  for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
    if (strlen(references[i].model) == length && strncmp(references[i].model, spec, length) == 0) return references[i].run(&c);
  }
  return 0;
}
