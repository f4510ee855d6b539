#include "drawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host.h"

static int cases = 40, first_seed = 1;
static uint64_t random_state;

int draw(int least, int most) {
  random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
  return least + (int)((random_state >> 33) % (uint64_t)(most - least + 1));
}

/* ---- tensors of random strides ---- */

const drawn_type types[TYPES] = {
    {VCUDA_FLOAT32, 0, 1e-5}, {VCUDA_FLOAT64, 1, 1e-12}, {VCUDA_FLOAT16, 2, 2e-3}, {VCUDA_BFLOAT16, 9, 2e-2}};

double load(const tensor *t, int at) {
  return vcuda_load_real(types[t->type].type, t->data, at);
}

/* Choose strides: dims in a random order, some followed by gaps. */
static void lay_out(tensor *t, bool with_gaps) {
  bool done[DNN_MAX_RANK] = {false};
  t->extent = 1;
  for (int i = 0; i < t->rank; i++) {
    int dim = t->rank - 1 - i;
    if (with_gaps) {
      do {
        dim = draw(0, t->rank - 1);
      } while (done[dim]);
    }
    done[dim] = true;
    t->strides[dim] = t->extent;
    t->extent = t->extent * t->dims[dim] + (with_gaps ? draw(0, 1) : 0);
  }
  t->extent = 1;
  for (int i = 0; i < t->rank; i++) t->extent += (t->dims[i] - 1) * t->strides[i];
}

tensor draw_tensor(int type, int rank, const int *dims, bool with_gaps) {
  tensor t = {.type = type, .rank = rank};
  memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
  lay_out(&t, with_gaps);
  size_t bytes = (size_t)t.extent * vcuda_type_size(types[type].type);
  t.data = host_memory(bytes);
  bool whole = draw(0, 1); /* with zeros and equal values */
  for (int i = 0; i < t.extent; i++) {
    vcuda_store_real(types[type].type, t.data, i, whole ? draw(-2, 2) : draw(-200, 200) / 100.0);
  }
  t.before = host_copy(t.data, bytes);
  assert_int_equal(cudnnCreateTensorDescriptor(&t.descriptor), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(t.descriptor, types[type].number, rank, t.dims, t.strides), DNN_OK);
  return t;
}

void drop_tensor(tensor *t) {
  assert_int_equal(cudnnDestroyTensorDescriptor(t->descriptor), DNN_OK);
}

int count_of(const tensor *t) {
  int product = 1;
  for (int i = 0; i < t->rank; i++) product *= t->dims[i];
  return product;
}

void index_of(const tensor *t, int number, int *index) {
  for (int i = t->rank - 1; i >= 0; i--) {
    index[i] = number % t->dims[i];
    number /= t->dims[i];
  }
}

int place_of(const tensor *t, const int *index) {
  int at = 0;
  for (int i = 0; i < t->rank; i++) at += index[i] * t->strides[i];
  return at;
}

factors draw_factors(int type) {
  factors f = {.alpha = draw(0, 1) ? 1 : 0.5, .beta = draw(0, 1) ? 0 : 2};
  vcuda_type of = types[type].type == VCUDA_FLOAT64 ? VCUDA_FLOAT64 : VCUDA_FLOAT32;
  vcuda_store_real(of, f.alpha_bytes, 0, f.alpha);
  vcuda_store_real(of, f.beta_bytes, 0, f.beta);
  return f;
}

void expect_tensor(const tensor *t, const double *wanted, const factors *f, const char *what) {
  vcuda_type type = types[t->type].type;
  size_t size = vcuda_type_size(type);
  char *expected = malloc((size_t)t->extent * size);
  int index[DNN_MAX_RANK] = {0};
  assert_non_null(expected);
  memcpy(expected, t->before, (size_t)t->extent * size);
  for (int i = 0; i < count_of(t); i++) {
    index_of(t, i, index);
    int at = place_of(t, index);
    double old = f->beta == 0 ? 0 : f->beta * vcuda_load_real(type, t->before, at);
    vcuda_store_real(type, expected, at, f->alpha * wanted[i] + old);
  }
  for (int at = 0; at < t->extent; at++) {
    double one = load(t, at), other = vcuda_load_real(type, expected, at);
    bool same = memcmp((char *)t->data + (size_t)at * size, expected + (size_t)at * size, size) == 0;
    if (same || fabs(one - other) <= types[t->type].tolerance * (1 + fabs(other)) || (isnan(one) && isnan(other))) continue;
    fail_msg("%s: element %d of type %d: got %g, expected %g", what, at, types[t->type].number, one, other);
  }
  free(expected);
}

void expect_unchanged(const tensor *t) {
  assert_memory_equal(t->data, t->before, (size_t)t->extent * vcuda_type_size(types[t->type].type));
}

const factors as_it_is = {.alpha = 1, .beta = 0};

/* ---- running cases ---- */

vcuda_dnn *handle;
double values[MOST];

void run_cases(void (*run)(void)) {
  for (int i = 0; i < cases; i++) {
    random_state = (uint64_t)first_seed + (uint64_t)i;
    (void)draw(0, 1);
    run();
    if (host_error() != 0 || host_logs() != 0) fail_msg("seed %d: %s", first_seed + i, host_message());
    host_reset(NULL);
  }
}

int start(void **state) {
  (void)state;
  return cudnnCreate(&handle);
}

int stop(void **state) {
  return cudnnDestroy(handle) + host_reset(state);
}

void spoil(const tensor *t) {
  for (int i = 0; i < 3; i++) {
    if (draw(0, 1)) vcuda_store_real(types[t->type].type, t->data, draw(0, t->extent - 1), NAN);
  }
  memcpy(t->before, t->data, (size_t)t->extent * vcuda_type_size(types[t->type].type));
}

void read_options(int argc, char **argv) {
  if (argc > 1) cases = atoi(argv[1]);
  if (argc > 2) first_seed = atoi(argv[2]);
}
