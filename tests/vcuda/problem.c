#include "problem.h"

enum { LIMIT = 200000 }; /* multiplications of the formula for one random problem */

/* ---- random numbers: each problem has its own ---- */

static uint64_t random_state;

void problem_seed(uint64_t number) {
  random_state = number * 0x9E3779B97F4A7C15U + 1;
}

int64_t problem_pick(int64_t least, int64_t most) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return least + (int64_t)((random_state >> 11) % (uint64_t)(most - least + 1));
}

bool problem_chance(int of) {
  return problem_pick(1, of) == 1;
}

/* ---- tensors of a problem ---- */

int64_t problem_count(const tensor *t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) count *= t->dims[i];
  return count;
}

static bool advance(const tensor *t, int64_t *index) {
  for (int i = t->rank - 1; i >= 0; i--) {
    if (++index[i] < t->dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

static int64_t offset_of(const tensor *t, const int64_t *index) {
  int64_t offset = 0;
  for (int i = 0; i < t->rank; i++) offset += (t->dims[i] == 1 ? 0 : index[i]) * t->strides[i];
  return offset;
}

/* Channels first, channels last, or either with gaps. */
void problem_choose_strides(tensor *t) {
  int64_t stride = 1, gap = problem_chance(4) ? problem_pick(1, 3) : 0;
  bool last = problem_chance(3);
  if (last) {
    t->strides[1] = stride;
    stride *= t->dims[1];
  }
  for (int i = t->rank - 1; i >= 0; i--) {
    if (i == 1 && last) continue;
    t->strides[i] = stride;
    stride = stride * t->dims[i] + gap;
  }
  int64_t extent = 1;
  for (int i = 0; i < t->rank; i++) extent += (t->dims[i] - 1) * t->strides[i];
  t->bytes = (size_t)extent * vcuda_type_size(t->type);
}

void problem_fill(tensor *t) {
  t->data = host_memory(t->bytes);
  for (size_t i = 0; i < t->bytes / vcuda_type_size(t->type); i++) {
    vcuda_store_real(t->type, t->data, (int64_t)i, (double)problem_pick(-2, 2));
  }
  t->before = host_copy(t->data, t->bytes);
}

/* ---- the solution by the formula ---- */

static tensor *result_of(problem *p) {
  return p->backward ? &p->x : &p->y;
}

/* Find the index in x of the filter's tap for a position of y. False: it is in the padding. */
static bool meet(const problem *p, const int64_t *y, const int64_t *tap, int64_t *x) {
  for (int i = 0; i < p->spatial; i++) {
    x[i] = y[i] * p->strides[i] + tap[i] * p->dilations[i] - p->before[i];
    if (x[i] < 0 || x[i] >= p->x.dims[i + 2]) return false;
  }
  return true;
}

static void convolve(const problem *p, double *sums) {
  int64_t y[MAX] = {0};
  const tensor *result = p->backward ? &p->x : &p->y;
  tensor dense = *result;
  int64_t stride = 1;
  for (int i = dense.rank - 1; i >= 0; i--) {
    dense.strides[i] = stride;
    stride *= dense.dims[i];
  }
  do {
    int64_t w[MAX] = {0};
    tensor slice = p->w;
    slice.dims[0] = 1;
    do {
      int64_t x[MAX] = {y[0], y[1] / (p->y.dims[1] / p->groups) * p->w.dims[1] + w[1]};
      int64_t filter[MAX];
      memcpy(filter, w, sizeof filter);
      filter[0] = y[1];
      if (!meet(p, y + 2, w + 2, x + 2)) continue;
      double weight = vcuda_load_real(p->w.type, p->w.data, offset_of(&p->w, filter));
      if (p->backward) {
        sums[offset_of(&dense, x)] += weight * vcuda_load_real(p->y.type, p->y.data, offset_of(&p->y, y));
      } else {
        sums[offset_of(&dense, y)] += weight * vcuda_load_real(p->x.type, p->x.data, offset_of(&p->x, x));
      }
    } while (advance(&slice, w));
  } while (advance(&p->y, y));
}

static double rounded(vcuda_type type, double value) {
  char room[8];
  vcuda_store_real(type, room, 0, value);
  return vcuda_load_real(type, room, 0);
}

char *problem_solve(problem *p, bool rectifies) {
  tensor *result = result_of(p);
  double *sums = test_calloc((size_t)problem_count(result), sizeof *sums);
  char *expected = host_copy(result->before, result->bytes);
  int64_t index[MAX] = {0}, i = 0;
  convolve(p, sums);
  do {
    double value = p->alpha * sums[i++];
    int64_t at = offset_of(result, index);
    for (int n = 0; n < p->additions; n++) {
      const tensor *added = &p->added[n];
      double other = vcuda_load_real(added->type, added->before, offset_of(added, index));
      value = p->factors[n][0] * rounded(p->between, value) + p->factors[n][1] * other;
    }
    if (rectifies && value < 0) value = 0;
    if (p->beta != 0) value += p->beta * vcuda_load_real(result->type, result->before, at);
    vcuda_store_real(result->type, expected, at, value);
  } while (advance(result, index));
  test_free(sums);
  return expected;
}

/* ---- random problems ---- */

static const struct {
  vcuda_type type;
  int number;
} types[] = {{VCUDA_FLOAT32, 0}, {VCUDA_FLOAT64, 1}, {VCUDA_FLOAT16, 2}, {VCUDA_BFLOAT16, 9}};

void problem_choose_type(tensor *t, int which) {
  t->type = types[which].type;
  t->number = types[which].number;
}

static bool choose_shapes(problem *p) {
  p->spatial = (int)problem_pick(1, 3);
  p->groups = problem_chance(3) ? problem_pick(2, 3) : 1;
  int64_t inputs = problem_chance(6) ? problem_pick(20, 60) : problem_pick(1, 6), outputs = problem_pick(1, 9),
          batch = problem_pick(1, 3);
  p->x = (tensor){.rank = p->spatial + 2, .dims = {batch, inputs * p->groups}};
  p->w = (tensor){.rank = p->spatial + 2, .dims = {outputs * p->groups, inputs}};
  p->y = (tensor){.rank = p->spatial + 2, .dims = {batch, outputs * p->groups}};
  for (int i = 0; i < p->spatial; i++) {
    p->before[i] = problem_pick(0, 3);
    p->after[i] = problem_chance(3) ? problem_pick(0, 3) : p->before[i];
    p->strides[i] = problem_chance(2) ? 1 : problem_pick(1, 3);
    p->dilations[i] = problem_chance(2) ? 1 : problem_pick(1, 3);
    p->w.dims[i + 2] = problem_pick(1, 4);
    p->x.dims[i + 2] = problem_chance(5) ? 1 : problem_pick(1, p->spatial == 1 ? 200 : 20);
    int64_t room = p->x.dims[i + 2] + p->before[i] + p->after[i] - (p->w.dims[i + 2] - 1) * p->dilations[i] - 1;
    if (room < 0) return false;
    p->y.dims[i + 2] = room / p->strides[i] + 1;
  }
  return problem_count(&p->y) * problem_count(&p->w) / p->w.dims[0] <= LIMIT;
}

double problem_choose_factor(void) {
  return (const double[]){1, 2, -0.5, 0.25}[problem_pick(0, 3)];
}

static void choose_additions(problem *p, int which) {
  const tensor *result = result_of(p);
  p->additions = problem_chance(2) ? 0 : (int)problem_pick(1, 2);
  for (int n = 0; n < p->additions; n++) {
    tensor *t = &p->added[n];
    *t = *result;
    for (int i = 0; i < t->rank; i++) t->dims[i] = problem_chance(2) ? t->dims[i] : 1;
    problem_choose_type(t, which);
    problem_choose_strides(t);
    problem_fill(t);
    p->factors[n][0] = problem_choose_factor();
    p->factors[n][1] = problem_choose_factor();
  }
  int between = problem_chance(2) ? which : which == 1 ? 1 : 0;
  p->between = types[between].type;
  p->between_number = types[between].number;
}

void problem_choose(problem *p, uint64_t number) {
  problem_seed(number);
  while (!choose_shapes(p)) {
  }
  int which = (int)problem_pick(0, 3);
  tensor *all[] = {&p->x, &p->w, &p->y};
  for (int i = 0; i < 3; i++) {
    problem_choose_type(all[i], which);
    problem_choose_strides(all[i]);
    problem_fill(all[i]);
  }
  p->backward = problem_chance(3);
  p->mode = (const int[]){MODE_A, MODE_B, FALLBACK}[problem_pick(0, 2)];
  p->alpha = problem_choose_factor();
  choose_additions(p, which);
  p->beta = p->additions == 0 && problem_chance(3) ? problem_choose_factor() : 0;
}

/* ---- the graph interface; each descriptor is freed as soon as it is set in another one ---- */

vcuda_dnn_backend *problem_make(int kind) {
  vcuda_dnn_backend *made = NULL;
  assert_int_equal(cudnnBackendCreateDescriptor(kind, &made), 0);
  return made;
}

void problem_set(vcuda_dnn_backend *d, int name, int type, int64_t count, const void *values) {
  assert_int_equal(cudnnBackendSetAttribute(d, name, type, count, values), 0);
}

void problem_set_number(vcuda_dnn_backend *d, int name, int64_t value) {
  problem_set(d, name, 3, 1, &value);
}

void problem_set_enum(vcuda_dnn_backend *d, int name, int type, int value) {
  problem_set(d, name, type, 1, &value);
}

static void set_factor(vcuda_dnn_backend *d, int name, const problem *p, double value) {
  const float single = (float)value;
  bool wide = p->x.type == VCUDA_FLOAT64;
  problem_set(d, name, wide ? 5 : 4, 1, wide ? (const void *)&value : &single);
}

vcuda_dnn_backend *problem_finalize(vcuda_dnn_backend *d) {
  assert_int_equal(cudnnBackendFinalize(d), 0);
  return d;
}

void problem_give(vcuda_dnn_backend *d, int name, vcuda_dnn_backend *object) {
  problem_set(d, name, 15, 1, &object);
  assert_int_equal(cudnnBackendDestroyDescriptor(object), 0);
}

static vcuda_dnn_backend *describe_tensor(const tensor *t, int64_t uid, int number, bool is_virtual) {
  vcuda_dnn_backend *d = problem_make(17);
  const char yes = 1, no = 0;
  problem_set_enum(d, 901, 1, number);
  problem_set(d, 902, 3, t->rank, t->dims);
  problem_set(d, 903, 3, t->rank, t->strides);
  problem_set_number(d, 906, uid);
  problem_set_number(d, 900, 1);
  if (is_virtual) problem_set(d, 907, 2, 1, &yes);
  problem_set(d, 908, 2, 1, &no);
  return problem_finalize(d);
}

static vcuda_dnn_backend *describe_window(const problem *p) {
  vcuda_dnn_backend *d = problem_make(1);
  problem_set_enum(d, 100, 1, p->x.type == VCUDA_FLOAT64 ? 1 : 0);
  problem_set_enum(d, 101, 7, 1);
  problem_set_number(d, 106, p->spatial);
  problem_set(d, 105, 3, p->spatial, p->before);
  problem_set(d, 104, 3, p->spatial, p->after);
  problem_set(d, 102, 3, p->spatial, p->dilations);
  problem_set(d, 103, 3, p->spatial, p->strides);
  return problem_finalize(d);
}

/* uids: x 1, w 2, y 3; added tensors 10, 11; virtual tensors 20, 21. */
enum { X = 1, W = 2, Y = 3, ADDED = 10, BETWEEN = 20 };

static vcuda_dnn_backend *describe_result(problem *p, int operations_before) {
  bool last = operations_before == p->additions;
  return describe_tensor(result_of(p), last ? (p->backward ? X : Y) : BETWEEN + operations_before,
                         last ? result_of(p)->number : p->between_number, !last);
}

vcuda_dnn_backend *problem_describe_convolution(problem *p) {
  vcuda_dnn_backend *d = problem_make(p->backward ? BACKWARD : FORWARD);
  const tensor *from = p->backward ? &p->y : &p->x;
  problem_give(d, p->backward ? 711 : 704, describe_tensor(from, p->backward ? Y : X, from->number, false));
  problem_give(d, p->backward ? 709 : 703, describe_tensor(&p->w, W, p->w.number, false));
  problem_give(d, p->backward ? 710 : 705, describe_result(p, 0));
  problem_give(d, p->backward ? 708 : 702, describe_window(p));
  set_factor(d, p->backward ? 706 : 700, p, p->alpha);
  set_factor(d, p->backward ? 707 : 701, p, p->beta);
  return problem_finalize(d);
}

static vcuda_dnn_backend *describe_addition(problem *p, int n) {
  vcuda_dnn_backend *d = problem_make(13), *add = problem_make(0);
  bool swapped = problem_chance(2);
  problem_set_enum(add, 0, 14, 0);
  problem_set_enum(add, 1, 1, p->x.type == VCUDA_FLOAT64 ? 1 : 0);
  problem_give(d, 750, problem_finalize(add));
  problem_give(d, swapped ? 752 : 751, describe_result(p, n));
  problem_give(d, swapped ? 751 : 752, describe_tensor(&p->added[n], ADDED + n, p->added[n].number, false));
  problem_give(d, 753, describe_result(p, n + 1));
  set_factor(d, swapped ? 755 : 754, p, p->factors[n][0]);
  set_factor(d, swapped ? 754 : 755, p, p->factors[n][1]);
  return problem_finalize(d);
}

vcuda_dnn_backend *problem_describe_graph(problem *p, vcuda_dnn *handle) {
  vcuda_dnn_backend *operations[3] = {problem_describe_convolution(p)}, *d = problem_make(15);
  for (int n = 0; n < p->additions; n++) operations[n + 1] = describe_addition(p, n);
  problem_set(d, 801, 15, p->additions + 1, operations);
  problem_set(d, 800, 0, 1, &handle);
  for (int n = 0; n <= p->additions; n++) assert_int_equal(cudnnBackendDestroyDescriptor(operations[n]), 0);
  return problem_finalize(d);
}

/* As in the EP: query the number of engines, take the first one's configuration, and make the plan. The workspace is queried without a
 * count. */
vcuda_dnn_backend *problem_make_plan(problem *p, vcuda_dnn *handle, int64_t *workspace) {
  vcuda_dnn_backend *heuristics = problem_make(4), *config = problem_make(3), *plan = problem_make(5);
  int64_t count = 0, of_config = -1;
  problem_give(heuristics, 201, problem_describe_graph(p, handle));
  problem_set_enum(heuristics, 200, 8, p->mode);
  assert_int_equal(cudnnBackendGetAttribute(problem_finalize(heuristics), 202, 15, 0, &count, NULL), 0);
  assert_int_equal(count, 1);
  assert_int_equal(cudnnBackendGetAttribute(heuristics, 202, 15, 1, &count, &config), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(heuristics), 0);
  assert_int_equal(cudnnBackendGetAttribute(config, 303, 3, 1, NULL, &of_config), 0);
  problem_give(plan, 401, config);
  assert_int_equal(cudnnBackendGetAttribute(problem_finalize(plan), 402, 3, 1, NULL, workspace), 0);
  assert_int_equal(of_config, *workspace);
  return plan;
}

vcuda_dnn_backend *problem_make_pack(const problem *p, void *workspace) {
  vcuda_dnn_backend *pack = problem_make(16);
  const int64_t uids[] = {ADDED, X, ADDED + 1, Y, W};
  void *pointers[] = {p->added[0].data, p->x.data, p->added[1].data, p->y.data, p->w.data};
  problem_set(pack, 1003, 6, 1, &workspace);
  problem_set(pack, 1001, 6, 5, pointers);
  problem_set(pack, 1000, 3, 5, uids);
  return problem_finalize(pack);
}

void problem_run(problem *p, vcuda_dnn *handle) {
  int64_t workspace = -1;
  vcuda_dnn_backend *plan = problem_make_plan(p, handle, &workspace);
  assert_int_equal(workspace > 0, p->mode != FALLBACK);
  vcuda_dnn_backend *pack = problem_make_pack(p, workspace > 0 ? host_memory((size_t)workspace) : NULL);
  assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(pack), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
}

void problem_check(const problem *p, const char *expected, uint64_t number) {
  const tensor *result = p->backward ? &p->x : &p->y;
  assert_int_equal(host_error(), 0);
  if (memcmp(result->data, expected, result->bytes) != 0) print_error("problem %llu\n", (unsigned long long)number);
  assert_memory_equal(result->data, expected, result->bytes);
}
