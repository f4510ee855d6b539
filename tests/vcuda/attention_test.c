/* Attention by cuDNN's graph interface, as the separate operations of the front end and as one operation, compared with the formula in
 * doubles.  usage: vcuda_attention [CASES [FIRST]] */
#include "allocation.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>

enum { TENSOR = 17, GRAPH = 15, POINTWISE = 0, POINTWISE_OPERATION = 13, PRODUCT = 18, PRODUCT_OPERATION = 19, REDUCTION = 21 };
enum { REDUCTION_OPERATION = 22, ATTENTION = 41 };
enum {
  ADD = 0,
  MUL = 1,
  SUB = 9,
  EXP = 13,
  LOG = 15,
  DIV = 6,
  GREATER_EQUAL = 303,
  LESS = 304,
  AND = 400,
  INDEX = 501,
  SELECT = 601
};
enum { FLOAT = 0, INT32 = 4, BOOLEAN = 11, MAX_STEPS = 24 };
/* uids: those below FIRST_VIRTUAL are tensors of the caller, the others are virtual tensors. */
enum { Q = 1, K, V, O, SCALE, BIAS, ROWS, COLUMNS, STATISTICS, LOWEST, FIRST_VIRTUAL = 100 };

typedef struct attention {
  int64_t images, heads, groups, rows, columns, size;
  tensor q, k, v, o, bias, lengths[2], statistics;
  float scale, lowest;
  bool has_scale, has_bias, has_lengths, is_causal, has_statistics, is_one;
  int between; /* number of virtual uids in use */
  int count;
  vcuda_dnn_backend *steps[MAX_STEPS];
} attention;

static int cases = 200, first = 1;

/* ---- random problems ---- */

static void choose_tensor(tensor *t, int type, int64_t heads, int64_t rows, int64_t columns, int64_t images) {
  *t = (tensor){.rank = 4, .dims = {images, heads, rows, columns}};
  problem_choose_type(t, type);
  problem_choose_strides(t);
  problem_fill(t);
}

static void choose_lengths(attention *a, int which, int64_t most) {
  tensor *t = &a->lengths[which];
  *t = (tensor){.type = VCUDA_INT32, .number = INT32, .rank = 4, .dims = {a->images, 1, 1, 1}, .strides = {1, 1, 1, 1}};
  t->bytes = (size_t)a->images * sizeof(int32_t);
  t->data = host_memory(t->bytes);
  for (int64_t i = 0; i < a->images; i++) vcuda_store_real(VCUDA_INT32, t->data, i, (double)problem_pick(1, most));
}

static void choose(attention *a, uint64_t number) {
  static const int kinds[] = {0, 2, 3}; /* float, half, bfloat16 */
  problem_seed(number);
  int type = kinds[problem_pick(0, 2)];
  *a = (attention){
      .images = problem_pick(1, 2), .groups = problem_pick(1, 2), .rows = problem_pick(1, 6), .columns = problem_pick(1, 7)};
  a->heads = a->groups * problem_pick(1, 2);
  a->size = problem_pick(1, 5);
  a->is_one = problem_chance(2);
  choose_tensor(&a->q, type, a->heads, a->rows, a->size, a->images);
  choose_tensor(&a->k, type, a->groups, a->columns, a->size, a->images);
  choose_tensor(&a->v, type, a->groups, a->columns, problem_pick(1, 4), a->images);
  choose_tensor(&a->o, type, a->heads, a->rows, a->v.dims[3], a->images);
  a->has_scale = problem_chance(2);
  a->scale = a->has_scale ? 0.25F : 1;
  a->lowest = -3.4028234663852886e38F;
  a->has_statistics = problem_chance(2);
  choose_tensor(&a->statistics, 0, a->heads, a->rows, 1, a->images);
  if (a->is_one) return;
  a->has_bias = problem_chance(2);
  choose_tensor(&a->bias, type, problem_chance(2) ? 1 : a->heads, a->rows, a->columns, problem_chance(2) ? 1 : a->images);
  a->is_causal = problem_chance(2);
  a->has_lengths = problem_chance(2);
  choose_lengths(a, 0, a->rows);
  choose_lengths(a, 1, a->columns);
}

/* ---- the formula ---- */

static double at(const tensor *t, int64_t image, int64_t head, int64_t row, int64_t column) {
  const int64_t index[4] = {image, head, row, column};
  int64_t offset = 0;
  for (int i = 0; i < 4; i++) offset += t->dims[i] == 1 ? 0 : index[i] * t->strides[i];
  return vcuda_load_real(t->type, t->before == NULL ? t->data : t->before, offset);
}

static bool counts(const attention *a, int64_t image, int64_t row, int64_t column) {
  if (a->is_causal && column > row) return false;
  return !a->has_lengths || column < (int64_t)at(&a->lengths[1], image, 0, 0, 0);
}

static double score(const attention *a, const int64_t *place, int64_t column) {
  double sum = 0;
  int64_t group = place[1] * a->groups / a->heads;
  for (int64_t i = 0; i < a->size; i++)
    sum += at(&a->q, place[0], place[1], place[2], i) * at(&a->k, place[0], group, column, i);
  return a->scale * sum + (a->has_bias ? at(&a->bias, place[0], place[1], place[2], column) : 0);
}

static void near(const attention *a, const char *what, double got, double expected, double tolerance) {
  if (fabs(got - expected) <= tolerance * fmax(1, fabs(expected))) return;
  fail_msg("%s: expected %g, got %g (%s, type %d)", what, expected, got, a->is_one ? "one operation" : "many", a->q.number);
}

/* Check one line of the result, and the logarithm of its sum. */
static void check_line(const attention *a, const int64_t *place) {
  double powers[8] = {0}, greatest = -INFINITY, sum = 0;
  const double tolerance = a->q.number == 0 ? 1e-5 : a->q.number == 2 ? 2e-3 : 2e-2;
  for (int64_t i = 0; i < a->columns; i++) {
    if (counts(a, place[0], place[2], i)) greatest = fmax(greatest, score(a, place, i));
  }
  for (int64_t i = 0; i < a->columns; i++) {
    powers[i] = counts(a, place[0], place[2], i) ? exp(score(a, place, i) - greatest) : 0;
    sum += powers[i];
  }
  bool is_padding = a->has_lengths && place[2] >= (int64_t)at(&a->lengths[0], place[0], 0, 0, 0);
  tensor o = a->o, statistics = a->statistics;
  o.before = statistics.before = NULL;
  for (int64_t column = 0; column < a->o.dims[3]; column++) {
    double expected = 0;
    for (int64_t i = 0; i < a->columns && !is_padding; i++) {
      expected += powers[i] / sum * at(&a->v, place[0], place[1] * a->groups / a->heads, i, column);
    }
    near(a, "result", at(&o, place[0], place[1], place[2], column), expected, tolerance);
  }
  if (a->has_statistics && a->is_one)
    near(a, "logarithm", at(&statistics, place[0], place[1], place[2], 0), greatest + log(sum), 1e-5);
}

static void check(const attention *a) {
  int64_t place[3];
  for (place[0] = 0; place[0] < a->images; place[0]++) {
    for (place[1] = 0; place[1] < a->heads; place[1]++) {
      for (place[2] = 0; place[2] < a->rows; place[2]++) check_line(a, place);
    }
  }
}

/* ---- by the graph interface ---- */

static vcuda_dnn_backend *describe(int64_t uid, int number, const int64_t *dims, const int64_t *strides, int flag) {
  vcuda_dnn_backend *d = problem_make(TENSOR);
  const char yes = 1;
  problem_set_enum(d, 901, 1, number);
  problem_set(d, 902, 3, 4, dims);
  problem_set(d, 903, 3, 4, strides);
  problem_set_number(d, 906, uid);
  problem_set_number(d, 900, 1);
  if (flag != 0) problem_set(d, flag, 2, 1, &yes);
  return problem_finalize(d);
}

static vcuda_dnn_backend *given(const tensor *t, int64_t uid) {
  return describe(uid, t->number, t->dims, t->strides, 0);
}

/* A number, with four dims or one: the front end uses both. */
static vcuda_dnn_backend *number_of(int64_t uid) {
  vcuda_dnn_backend *d = problem_make(TENSOR);
  static const int64_t ones[] = {1, 1, 1, 1};
  const char yes = 1;
  const int rank = problem_chance(2) ? 4 : 1;
  problem_set_enum(d, 901, 1, FLOAT);
  problem_set(d, 902, 3, rank, ones);
  problem_set(d, 903, 3, rank, ones);
  problem_set_number(d, 906, uid);
  problem_set(d, 908, 2, 1, &yes);
  return problem_finalize(d);
}

static vcuda_dnn_backend *between(const attention *a, int uid, int64_t columns, int number) {
  const int64_t dims[] = {a->images, a->heads, a->rows, columns};
  const int64_t strides[] = {a->heads * a->rows * columns, a->rows * columns, columns, 1};
  return describe(uid, number, dims, strides, 907);
}

/* A pointwise operation: its operands x and b, the selector t, and the result y. */
typedef struct step {
  int mode;
  vcuda_dnn_backend *x, *b, *t, *y;
  int64_t axis;
} step;

static void add_pointwise(attention *a, step s) {
  vcuda_dnn_backend *rule = problem_make(POINTWISE), *d = problem_make(POINTWISE_OPERATION);
  problem_set_enum(rule, 0, 14, s.mode);
  problem_set_enum(rule, 1, 1, FLOAT);
  if (s.mode == INDEX) problem_set_number(rule, 9, s.axis);
  problem_give(d, 750, problem_finalize(rule));
  problem_give(d, 751, s.x);
  if (s.b != NULL) problem_give(d, 752, s.b);
  if (s.t != NULL) problem_give(d, 758, s.t);
  problem_give(d, 753, s.y);
  a->steps[a->count++] = problem_finalize(d);
}

static void add_reduction(attention *a, int which, vcuda_dnn_backend *x, vcuda_dnn_backend *y) {
  vcuda_dnn_backend *rule = problem_make(REDUCTION), *d = problem_make(REDUCTION_OPERATION);
  problem_set_enum(rule, 1600, 18, which);
  problem_set_enum(rule, 1601, 1, FLOAT);
  problem_give(d, 1612, problem_finalize(rule));
  problem_give(d, 1610, x);
  problem_give(d, 1611, y);
  a->steps[a->count++] = problem_finalize(d);
}

static void add_product(attention *a, vcuda_dnn_backend *x, vcuda_dnn_backend *b, vcuda_dnn_backend *y, int last) {
  vcuda_dnn_backend *rule = problem_make(PRODUCT), *d = problem_make(PRODUCT_OPERATION);
  problem_set_enum(rule, 1500, 1, FLOAT);
  problem_give(d, 1523, problem_finalize(rule));
  problem_give(d, 1520, x);
  problem_give(d, 1521, b);
  problem_give(d, 1522, y);
  if (a->has_lengths) problem_give(d, 1525, given(&a->lengths[0], ROWS));
  if (a->has_lengths) problem_give(d, last, given(&a->lengths[1], COLUMNS));
  a->steps[a->count++] = problem_finalize(d);
}

/* Keep the scores where `mask` is true; elsewhere write the lowest number. */
static void add_select(attention *a, int mask) {
  int x = a->between++;
  add_pointwise(a, (step){SELECT, .x = between(a, x, a->columns, FLOAT), .b = number_of(LOWEST),
                          .t = between(a, mask, a->columns, BOOLEAN), .y = between(a, a->between, a->columns, FLOAT)});
}

static int add_index(attention *a, int uid, int64_t axis) {
  add_pointwise(
      a, (step){INDEX, .x = between(a, a->between, a->columns, FLOAT), .y = between(a, uid, a->columns, INT32), .axis = axis});
  return uid;
}

static void add_masks(attention *a) {
  enum { ROW = 50 + FIRST_VIRTUAL, COLUMN, CAUSAL, IN_ROWS, IN_COLUMNS, BOTH };
  if (!a->has_lengths && !a->is_causal) return;
  add_index(a, ROW, 2);
  add_index(a, COLUMN, 3);
  const int64_t n = a->columns;
  if (a->has_lengths) {
    add_pointwise(a, (step){LESS, .x = between(a, ROW, n, INT32), .b = given(&a->lengths[0], ROWS),
                            .y = between(a, IN_ROWS, n, BOOLEAN)});
    add_pointwise(a, (step){LESS, .x = between(a, COLUMN, n, INT32), .b = given(&a->lengths[1], COLUMNS),
                            .y = between(a, IN_COLUMNS, n, BOOLEAN)});
    add_pointwise(a, (step){AND, .x = between(a, IN_ROWS, n, BOOLEAN), .b = between(a, IN_COLUMNS, n, BOOLEAN),
                            .y = between(a, BOTH, n, BOOLEAN)});
    add_select(a, BOTH);
  }
  if (a->is_causal) {
    add_pointwise(a, (step){GREATER_EQUAL, .x = between(a, ROW, n, INT32), .b = between(a, COLUMN, n, INT32),
                            .y = between(a, CAUSAL, n, BOOLEAN)});
    add_select(a, CAUSAL);
  }
}

/* Combine a tensor with the scores, which have the last uid in use. */
static void add_to_scores(attention *a, int mode, vcuda_dnn_backend *b) {
  vcuda_dnn_backend *x = between(a, a->between++, a->columns, FLOAT);
  add_pointwise(a, (step){mode, .x = x, .b = b, .y = between(a, a->between, a->columns, FLOAT)});
}

static void describe_many(attention *a) {
  enum { GREATEST = 90 + FIRST_VIRTUAL, SMALLER, POWERS, SUMS, WEIGHTS };
  const int64_t dims[] = {a->images, a->groups, a->size, a->columns}, n = a->columns;
  const int64_t strides[] = {a->k.strides[0], a->k.strides[1], a->k.strides[3], a->k.strides[2]};
  a->between = FIRST_VIRTUAL;
  add_product(a, given(&a->q, Q), describe(K, a->k.number, dims, strides, 0), between(a, a->between, n, FLOAT), 1526);
  if (a->has_scale) add_to_scores(a, MUL, number_of(SCALE));
  if (a->has_bias) add_to_scores(a, ADD, given(&a->bias, BIAS));
  add_masks(a);
  add_reduction(a, 3, between(a, a->between, n, FLOAT), between(a, GREATEST, 1, FLOAT));
  add_pointwise(a, (step){SUB, .x = between(a, a->between, n, FLOAT), .b = between(a, GREATEST, 1, FLOAT),
                          .y = between(a, SMALLER, n, FLOAT)});
  add_pointwise(a, (step){EXP, .x = between(a, SMALLER, n, FLOAT), .y = between(a, POWERS, n, FLOAT)});
  add_reduction(a, 0, between(a, POWERS, n, FLOAT), between(a, SUMS, 1, FLOAT));
  add_pointwise(a, (step){DIV, .x = between(a, POWERS, n, FLOAT), .b = between(a, SUMS, 1, FLOAT),
                          .y = between(a, WEIGHTS, n, a->q.number)});
  add_product(a, between(a, WEIGHTS, n, a->q.number), given(&a->v, V), given(&a->o, O), 1527);
}

static void describe_one(attention *a) {
  vcuda_dnn_backend *d = problem_make(ATTENTION);
  problem_give(d, 2800, given(&a->q, Q));
  problem_give(d, 2801, given(&a->k, K));
  problem_give(d, 2802, given(&a->v, V));
  problem_give(d, 2803, given(&a->o, O));
  if (a->has_statistics) problem_give(d, 2804, given(&a->statistics, STATISTICS));
  if (a->has_scale) problem_give(d, 2805, number_of(SCALE));
  a->steps[a->count++] = problem_finalize(d);
}

static vcuda_dnn_backend *describe_graph(attention *a, vcuda_dnn *handle) {
  vcuda_dnn_backend *d = problem_make(GRAPH);
  problem_set(d, 801, 15, a->count, a->steps);
  problem_set(d, 800, 0, 1, &handle);
  for (int i = 0; i < a->count; i++) assert_int_equal(cudnnBackendDestroyDescriptor(a->steps[i]), 0);
  a->count = 0;
  return d;
}

static vcuda_dnn_backend *make_plan(attention *a, vcuda_dnn *handle, int64_t *workspace) {
  vcuda_dnn_backend *heuristics = problem_make(4), *config = problem_make(3), *plan = problem_make(5);
  int64_t count = 0;
  if (a->is_one) {
    describe_one(a);
  } else {
    describe_many(a);
  }
  problem_give(heuristics, 201, problem_finalize(describe_graph(a, handle)));
  problem_set_enum(heuristics, 200, 8, MODE_A);
  assert_int_equal(cudnnBackendGetAttribute(problem_finalize(heuristics), 202, 15, 1, &count, &config), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(heuristics), 0);
  problem_give(plan, 401, config);
  assert_int_equal(cudnnBackendGetAttribute(problem_finalize(plan), 402, 3, 1, NULL, workspace), 0);
  return plan;
}

static vcuda_dnn_backend *make_pack(attention *a, void *workspace) {
  const int64_t uids[] = {Q, K, V, O, SCALE, BIAS, ROWS, COLUMNS, STATISTICS, LOWEST};
  void *pointers[] = {a->q.data,    a->k.data,          a->v.data,          a->o.data,          &a->scale,
                      a->bias.data, a->lengths[0].data, a->lengths[1].data, a->statistics.data, &a->lowest};
  vcuda_dnn_backend *pack = problem_make(16);
  problem_set(pack, 1003, 6, 1, &workspace);
  problem_set(pack, 1001, 6, 10, pointers);
  problem_set(pack, 1000, 3, 10, uids);
  return problem_finalize(pack);
}

static int run(attention *a, size_t short_by) {
  vcuda_dnn *handle = NULL;
  int64_t workspace = 0;
  assert_int_equal(cudnnCreate(&handle), 0);
  vcuda_dnn_backend *plan = make_plan(a, handle, &workspace);
  assert_true(workspace > 0);
  vcuda_dnn_backend *pack = make_pack(a, host_memory((size_t)workspace - short_by));
  int status = cudnnBackendExecute(handle, plan, pack);
  assert_int_equal(cudnnBackendDestroyDescriptor(pack), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
  return status;
}

static void random_problems(void **state) {
  for (int i = first; i < first + cases; i++) {
    attention a;
    choose(&a, (uint64_t)i);
    assert_int_equal(run(&a, 0), 0);
    if (host_error() != 0) fail_msg("problem %d: %s", i, host_message());
    check(&a);
    host_reset(state);
  }
}

/* Each optional part occurs in many of the random problems. */
static void all_parts_are_drawn(void **state) {
  int found[6] = {0};
  for (int i = 1; i <= 200; i++) {
    attention a;
    choose(&a, (uint64_t)i);
    const bool has[] = {a.has_scale, a.has_bias, a.has_lengths, a.is_causal, a.is_one && a.has_statistics, a.groups < a.heads};
    for (int n = 0; n < 6; n++) found[n] += has[n];
    host_reset(state);
  }
  for (int n = 0; n < 6; n++) assert_true(found[n] >= 20);
}

/* ---- required parts, and refusals ---- */

static void memory_that_is_not_there(void **state) {
  for (int missing = 0; missing < 7; missing++) {
    attention a;
    choose(&a, 1);
    for (uint64_t i = 2; a.is_one || !a.has_bias || !a.has_lengths; i++) {
      host_reset(state);
      choose(&a, i);
    }
    tensor *all[] = {&a.q, &a.k, &a.v, &a.bias, &a.lengths[1], &a.o};
    if (missing < 6) all[missing]->data = host_memory(all[missing]->bytes - 1);
    assert_int_equal(run(&a, missing == 6), 0);
    assert_int_equal(host_error(), 700);
    if (missing != 5) assert_memory_equal(a.o.data, a.o.before, a.o.bytes);
    host_reset(state);
  }
}

static void without_memory(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  attention a;
  int64_t workspace = 0;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose(&a, 1);
  a.has_statistics = false;
  vcuda_dnn_backend *plan = make_plan(&a, handle, &workspace), *pack = make_pack(&a, host_memory((size_t)workspace)),
                    *graph = problem_make(GRAPH);
  until_failure = 1;
  assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
  assert_int_equal(host_error(), 2);
  assert_memory_equal(a.o.data, a.o.before, a.o.bytes);
  describe_one(&a);
  until_failure = 1;
  assert_int_equal(cudnnBackendSetAttribute(graph, 801, 15, 1, a.steps), DNN_NO_MEMORY);
  assert_int_equal(cudnnBackendDestroyDescriptor(a.steps[0]), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(graph), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(pack), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* The described graph is refused, with a line in the log. */
static void refuse_graph(attention *a, int status) {
  vcuda_dnn *handle = NULL;
  assert_int_equal(cudnnCreate(&handle), 0);
  vcuda_dnn_backend *d = describe_graph(a, handle);
  int logs = host_logs();
  assert_int_equal(cudnnBackendFinalize(d), status);
  assert_int_equal(host_logs(), logs + 1);
  assert_int_equal(cudnnBackendDestroyDescriptor(d), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

static void refused_graphs(void **state) {
  (void)state;
  attention a;
  choose(&a, 1);
  a.has_lengths = false;
  add_product(&a, given(&a.q, Q), given(&a.v, V), given(&a.o, O), 1526); /* k is not transposed */
  refuse_graph(&a, DNN_BAD_PARAM);
  add_pointwise(&a, (step){EXP, .x = between(&a, 100, 2, FLOAT), .y = between(&a, 101, 2, FLOAT)}); /* x was not written */
  refuse_graph(&a, DNN_NOT_SUPPORTED);
  add_pointwise(&a, (step){EXP, .x = given(&a.o, O), .y = given(&a.o, O)});
  refuse_graph(&a, DNN_NOT_SUPPORTED);
  add_pointwise(&a, (step){EXP, .x = given(&a.q, Q), .y = number_of(SCALE)});
  refuse_graph(&a, DNN_BAD_PARAM);
  for (int i = 0; i < 2; i++)
    add_pointwise(&a, (step){EXP, .x = given(&a.q, Q), .y = describe(100, FLOAT, a.q.dims, a.q.strides, 907)});
  refuse_graph(&a, DNN_BAD_PARAM); /* written twice */
  add_pointwise(&a, (step){INDEX, .x = given(&a.q, Q), .y = describe(100, FLOAT, a.q.dims, a.q.strides, 907), .axis = 4});
  refuse_graph(&a, DNN_BAD_PARAM);
  a.k.dims[1] = a.heads + 1;
  describe_one(&a);
  refuse_graph(&a, DNN_NOT_SUPPORTED);
}

static void refused_in_a_convolution(void **state) {
  (void)state;
  static const int64_t ones[] = {1, 1}, none[] = {0, 0};
  attention a;
  choose(&a, 1);
  vcuda_dnn_backend *window = problem_make(1), *d = problem_make(FORWARD);
  problem_set_enum(window, 100, 1, FLOAT);
  problem_set_enum(window, 101, 7, 1);
  problem_set_number(window, 106, 2);
  for (int name = 102; name <= 105; name++) problem_set(window, name, 3, 2, name < 104 ? ones : none);
  problem_give(d, 702, problem_finalize(window));
  problem_give(d, 704, number_of(SCALE));
  problem_give(d, 703, given(&a.k, K));
  problem_give(d, 705, given(&a.o, O));
  a.steps[a.count++] = problem_finalize(d);
  refuse_graph(&a, DNN_NOT_SUPPORTED);
}

static void refused_operations(void **state) {
  (void)state;
  attention a;
  choose(&a, 1);
  vcuda_dnn_backend *rule = problem_make(REDUCTION), *sum = problem_make(POINTWISE_OPERATION), *add = problem_make(POINTWISE),
                    *one = problem_make(ATTENTION);
  problem_set_enum(rule, 1600, 18, 1); /* reduction by product */
  assert_int_equal(cudnnBackendFinalize(rule), DNN_NOT_SUPPORTED);
  problem_give(sum, 750, problem_finalize(add));
  problem_give(sum, 751, given(&a.q, Q));
  problem_give(sum, 753, given(&a.o, O));
  assert_int_equal(cudnnBackendFinalize(sum), DNN_BAD_PARAM); /* it has only one operand */
  problem_give(one, 2800, given(&a.q, Q));
  assert_int_equal(cudnnBackendFinalize(one), DNN_BAD_PARAM);
  vcuda_dnn_backend *mask = given(&a.q, Q);
  assert_int_equal(cudnnBackendSetAttribute(one, 2806, 15, 1, &mask), DNN_NOT_SUPPORTED);
  vcuda_dnn_backend *all[] = {rule, sum, one, mask};
  for (int i = 0; i < 4; i++) assert_int_equal(cudnnBackendDestroyDescriptor(all[i]), 0);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(random_problems, host_reset),
      cmocka_unit_test_teardown(all_parts_are_drawn, host_reset),
      cmocka_unit_test_teardown(memory_that_is_not_there, host_reset),
      cmocka_unit_test_teardown(without_memory, host_reset),
      cmocka_unit_test_teardown(refused_graphs, host_reset),
      cmocka_unit_test_teardown(refused_operations, host_reset),
      cmocka_unit_test_teardown(refused_in_a_convolution, host_reset),
  };
  if (argc > 1) cases = (int)strtol(argv[1], NULL, 10);
  if (argc > 2) first = (int)strtol(argv[2], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
