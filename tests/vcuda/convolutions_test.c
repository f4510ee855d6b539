/* Convolutions of the virtual GPU's cuDNN, by the graph interface and by the older calls: random shapes, windows, groups, memory
 * orders, types and additions, compared with the formula; refusals; each allocation fails once.  usage: vcuda_convolutions [COUNT]
 * number of random problems (default: 150) */
#include "allocation.h"
#include "dnn_filter.h"
#include "problem.h"

static int random_count = 150;

/* ---- random problems ---- */

static void random_graphs(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  assert_int_equal(cudnnCreate(&handle), 0);
  for (int i = 0; i < random_count; i++) {
    problem p = {0};
    problem_choose(&p, (uint64_t)i);
    const char *expected = problem_solve(&p, false);
    problem_run(&p, handle);
    problem_check(&p, expected, (uint64_t)i);
    host_reset(NULL);
  }
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* ---- by the older calls ---- */

typedef struct older {
  vcuda_dnn *handle;
  vcuda_dnn_tensor *x, *w, *y, *z, *bias;
  vcuda_dnn_mover *mover;
  vcuda_dnn_activation *activation;
} older;

static vcuda_dnn_tensor *old_tensor(const tensor *t) {
  vcuda_dnn_tensor *made = NULL;
  int dims[MAX], strides[MAX];
  for (int i = 0; i < t->rank; i++) {
    dims[i] = (int)t->dims[i];
    strides[i] = (int)t->strides[i];
  }
  assert_int_equal(cudnnCreateTensorDescriptor(&made), 0);
  assert_int_equal(cudnnSetTensorNdDescriptor(made, t->number, t->rank, dims, strides), 0);
  return made;
}

/* A filter's memory has one of two orders, and no gaps. */
static vcuda_dnn_tensor *old_filter(tensor *w) {
  vcuda_dnn_tensor *made = NULL;
  int dims[MAX], format = problem_chance(2) ? 1 : 0;
  int64_t stride = format == 1 ? w->dims[1] : 1;
  for (int i = w->rank - 1; i >= 0; i--) {
    dims[i] = (int)w->dims[i];
    w->strides[i] = format == 1 && i == 1 ? 1 : stride;
    stride *= format == 1 && i == 1 ? 1 : w->dims[i];
  }
  w->bytes = (size_t)problem_count(w) * vcuda_type_size(w->type);
  problem_fill(w);
  assert_int_equal(cudnnCreateFilterDescriptor(&made), 0);
  assert_int_equal(cudnnSetFilterNdDescriptor(made, w->number, format, w->rank, dims), 0);
  return made;
}

static vcuda_dnn_mover *old_window(const problem *p) {
  vcuda_dnn_mover *made = NULL;
  int pads[3], strides[3], dilations[3];
  for (int i = 0; i < p->spatial; i++) {
    pads[i] = (int)p->before[i];
    strides[i] = (int)p->strides[i];
    dilations[i] = (int)p->dilations[i];
  }
  assert_int_equal(cudnnCreateConvolutionDescriptor(&made), 0);
  assert_int_equal(
      cudnnSetConvolutionNdDescriptor(made, p->spatial, pads, strides, dilations, 1, p->x.type == VCUDA_FLOAT64 ? 1 : 0), 0);
  if (p->groups > 1) assert_int_equal(cudnnSetConvolutionGroupCount(made, (int)p->groups), 0);
  assert_int_equal(cudnnSetConvolutionMathType(made, 3), 0);
  return made;
}

static older open_older(problem *p, vcuda_dnn *handle) {
  older o = {.handle = handle, .x = old_tensor(&p->x), .y = old_tensor(&p->y), .w = old_filter(&p->w), .mover = old_window(p)};
  assert_int_equal(cudnnCreateActivationDescriptor(&o.activation), 0);
  assert_int_equal(cudnnSetActivationDescriptor(o.activation, DNN_RELU, 1, 0), 0);
  return o;
}

static void close_older(older *o) {
  assert_int_equal(cudnnDestroyTensorDescriptor(o->x), 0);
  assert_int_equal(cudnnDestroyTensorDescriptor(o->y), 0);
  assert_int_equal(cudnnDestroyTensorDescriptor(o->z), 0);
  assert_int_equal(cudnnDestroyTensorDescriptor(o->bias), 0);
  assert_int_equal(cudnnDestroyFilterDescriptor(o->w), 0);
  assert_int_equal(cudnnDestroyConvolutionDescriptor(o->mover), 0);
  assert_int_equal(cudnnDestroyActivationDescriptor(o->activation), 0);
}

/* Find an algorithm in one of the EP's three ways, with the workspace that it needs. */
static int find_algorithm(const older *o, const problem *p, void **workspace, size_t *bytes) {
  vcuda_dnn_found found = {.algorithm = -1};
  int count = 0;
  *bytes = problem_chance(2) ? 1 << 20 : 0;
  *workspace = *bytes > 0 ? host_memory(*bytes) : NULL;
  if (problem_chance(2)) {
    assert_int_equal(cudnnFindConvolutionForwardAlgorithmEx(o->handle, o->x, p->x.data, o->w, p->w.data, o->mover, o->y,
                                                            p->y.data, 1, &count, &found, *workspace, *bytes),
                     0);
    memcpy(p->y.data, p->y.before, p->y.bytes); /* the search writes to y */
  } else {
    assert_int_equal(cudnnGetConvolutionForwardAlgorithm_v7(o->handle, o->x, o->w, o->mover, o->y, 1, &count, &found), 0);
  }
  assert_int_equal(count, 1);
  assert_int_equal(found.status, 0);
  assert_int_equal(found.math, 3);
  size_t needed = 1;
  assert_int_equal(cudnnGetConvolutionForwardWorkspaceSize(o->handle, o->x, o->w, o->mover, o->y, found.algorithm, &needed), 0);
  assert_int_equal(needed, found.memory);
  if (needed > *bytes) *workspace = host_memory(*bytes = needed);
  return found.algorithm;
}

static const void *old_factor(const problem *p, double value, double *room) {
  vcuda_store_real(p->x.type == VCUDA_FLOAT64 ? VCUDA_FLOAT64 : VCUDA_FLOAT32, room, 0, value);
  return room;
}

/* Add alpha2 * z and a bias for each channel, then apply RELU. */
static void run_activation(older *o, problem *p, int algorithm, void *workspace, size_t bytes) {
  double alpha = 0, factor = 0;
  p->beta = 0;
  p->additions = 2;
  p->between = p->x.type == VCUDA_FLOAT64 ? VCUDA_FLOAT64 : VCUDA_FLOAT32;
  p->added[0] = p->y;
  problem_choose_strides(&p->added[0]);
  problem_fill(&p->added[0]);
  p->added[1] = p->y;
  for (int i = 0; i < p->y.rank; i++) p->added[1].dims[i] = i == 1 ? p->y.dims[1] : 1;
  problem_choose_strides(&p->added[1]);
  problem_fill(&p->added[1]);
  p->factors[0][0] = p->factors[1][0] = p->factors[1][1] = 1;
  p->factors[0][1] = problem_chance(3) ? 0 : problem_choose_factor();
  o->z = old_tensor(&p->added[0]);
  o->bias = old_tensor(&p->added[1]);
  assert_int_equal(cudnnConvolutionBiasActivationForward(o->handle, old_factor(p, p->alpha, &alpha), o->x, p->x.data, o->w,
                                                         p->w.data, o->mover, algorithm, workspace, bytes,
                                                         old_factor(p, p->factors[0][1], &factor), o->z, p->added[0].data,
                                                         o->bias, p->added[1].data, o->activation, o->y, p->y.data),
                   0);
}

static void random_older_calls(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  uint64_t number = 1000000;
  assert_int_equal(cudnnCreate(&handle), 0);
  for (int i = 0; i < random_count; i++) {
    problem p = {0};
    void *workspace = NULL;
    size_t bytes = 0;
    double alpha = 0, beta = 0;
    do {
      host_reset(NULL);
      p = (problem){0};
      problem_choose(&p, number++);
    } while (p.backward || memcmp(p.before, p.after, sizeof p.before) != 0);
    p.additions = 0;
    older o = open_older(&p, handle);
    int algorithm = find_algorithm(&o, &p, &workspace, &bytes);
    bool activates = problem_chance(2);
    if (activates) {
      run_activation(&o, &p, algorithm, workspace, bytes);
    } else {
      assert_int_equal(cudnnConvolutionForward(handle, old_factor(&p, p.alpha, &alpha), o.x, p.x.data, o.w, p.w.data, o.mover,
                                               algorithm, workspace, bytes, old_factor(&p, p.beta, &beta), o.y, p.y.data),
                       0);
    }
    problem_check(&p, problem_solve(&p, activates), number - 1);
    close_older(&o);
    host_reset(NULL);
  }
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* ---- one known problem, [1, 2, 6, 6] and 3 * 3 ---- */

static void choose_known(problem *p, int64_t size, int64_t outputs) {
  problem_seed(1);
  *p = (problem){.spatial = 2, .groups = 1, .before = {1, 1}, .after = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
  p->x = (tensor){.rank = 4, .dims = {1, 2, size, size}};
  p->w = (tensor){.rank = 4, .dims = {outputs, 2, 3, 3}};
  p->y = (tensor){.rank = 4, .dims = {1, outputs, size, size}};
  tensor *all[] = {&p->x, &p->w, &p->y};
  for (int i = 0; i < 3; i++) {
    int64_t stride = 1;
    problem_choose_type(all[i], 0);
    for (int d = 3; d >= 0; d--) {
      all[i]->strides[d] = stride;
      stride *= all[i]->dims[d];
    }
    all[i]->bytes = (size_t)stride * sizeof(float);
    problem_fill(all[i]);
  }
  p->alpha = 1;
  p->mode = MODE_B;
}

/* Enough work for all cores. */
static void many_threads(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  problem p;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose_known(&p, 96, 24);
  const char *expected = problem_solve(&p, false);
  problem_run(&p, handle);
  problem_check(&p, expected, 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* A sum in floats is rounded to float; a sum in doubles is not. */
static void precision(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  assert_int_equal(cudnnCreate(&handle), 0);
  for (int type = 0; type < 2; type++) {
    problem p = {.spatial = 1, .groups = 1, .strides = {1}, .dilations = {1}, .alpha = 1, .mode = MODE_B};
    p.x = (tensor){.rank = 3, .dims = {1, 3, 1}, .strides = {3, 1, 1}};
    p.w = (tensor){.rank = 3, .dims = {1, 3, 1}, .strides = {3, 1, 1}};
    p.y = (tensor){.rank = 3, .dims = {1, 1, 1}, .strides = {1, 1, 1}};
    tensor *all[] = {&p.x, &p.w, &p.y};
    for (int i = 0; i < 3; i++) {
      problem_choose_type(all[i], type);
      all[i]->bytes = (size_t)problem_count(all[i]) * vcuda_type_size(all[i]->type);
      problem_fill(all[i]);
    }
    const double x[] = {67108864, 1, -67108864};
    for (int i = 0; i < 3; i++) {
      vcuda_store_real(p.x.type, p.x.data, i, x[i]);
      vcuda_store_real(p.w.type, p.w.data, i, 1);
    }
    problem_run(&p, handle);
    assert_true(vcuda_load_real(p.y.type, p.y.data, 0) == (type == 0 ? 0 : 1));
  }
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* All memory that a convolution reads and writes must be allocated. */
static void memory_that_is_not_there(void **state) {
  (void)state;
  for (int missing = 0; missing < 4; missing++) {
    vcuda_dnn *handle = NULL;
    problem p;
    int64_t workspace = 0;
    assert_int_equal(cudnnCreate(&handle), 0);
    choose_known(&p, 6, 3);
    vcuda_dnn_backend *plan = problem_make_plan(&p, handle, &workspace);
    tensor *all[] = {&p.x, &p.w, &p.y};
    if (missing < 3) all[missing]->data = host_memory(all[missing]->bytes - 1);
    vcuda_dnn_backend *pack = problem_make_pack(&p, host_memory((size_t)workspace - (missing == 3 ? 1 : 0)));
    assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
    assert_int_equal(host_error(), 700);
    if (missing != 2) assert_memory_equal(p.y.data, p.y.before, p.y.bytes);
    assert_int_equal(cudnnBackendDestroyDescriptor(pack), 0);
    assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
    assert_int_equal(cudnnDestroy(handle), 0);
    host_reset(NULL);
  }
}

/* ---- refusals, each with a line in the log ---- */

static void refuse(vcuda_dnn_backend *d, int name, int type, int64_t count, const void *values, int status) {
  int logs = host_logs();
  assert_int_equal(cudnnBackendSetAttribute(d, name, type, count, values), status);
  assert_int_equal(host_logs(), logs + 1);
}

static void unknown_attributes(void **state) {
  (void)state;
  const int64_t numbers[9] = {1};
  const int kinds[] = {0, 1, 2, 3, 4, 5, 7, 10, 12, 13, 15, 16, 17};
  vcuda_dnn_backend *none = NULL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    vcuda_dnn_backend *d = problem_make(kinds[i]);
    refuse(d, 9999, 3, 1, numbers, DNN_NOT_SUPPORTED);
    assert_int_equal(cudnnBackendDestroyDescriptor(d), 0);
  }
  assert_int_equal(cudnnBackendCreateDescriptor(6, &none), DNN_NOT_SUPPORTED);
  assert_null(none);
  vcuda_dnn_backend *tensors = problem_make(17);
  const int int8x4 = 5;
  refuse(tensors, 902, 3, 9, numbers, DNN_BAD_PARAM);
  refuse(tensors, 902, 4, 1, numbers, DNN_BAD_PARAM);
  refuse(tensors, 902, 3, 1, NULL, DNN_BAD_PARAM);
  refuse(tensors, 901, 1, 1, &int8x4, DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnBackendFinalize(tensors), DNN_BAD_PARAM);
  refuse(NULL, 902, 3, 1, numbers, DNN_BAD_PARAM);
  vcuda_dnn_backend *forward = problem_make(10);
  refuse(forward, 704, 15, 1, &tensors, DNN_BAD_PARAM); /* it is not finalized */
  assert_int_equal(cudnnBackendFinalize(forward), DNN_BAD_PARAM);
  assert_int_equal(cudnnBackendDestroyDescriptor(forward), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(tensors), 0);
}

static void refused_modes(void **state) {
  (void)state;
  vcuda_dnn_backend *window = problem_make(1), *pointwise = problem_make(0), *knob = problem_make(7);
  const int64_t one = 1;
  problem_set_enum(pointwise, 0, 14, 100);
  assert_int_equal(cudnnBackendFinalize(pointwise), DNN_NOT_SUPPORTED);
  problem_set_enum(window, 100, 1, 0);
  problem_set_enum(window, 101, 7, 0); /* a flipped filter */
  problem_set_number(window, 106, 1);
  for (int name = 102; name <= 105; name++) {
    assert_int_equal(cudnnBackendFinalize(window), DNN_BAD_PARAM);
    problem_set(window, name, 3, 1, &one);
  }
  assert_int_equal(cudnnBackendFinalize(window), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnBackendFinalize(knob), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnBackendDestroyDescriptor(window), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(pointwise), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(knob), 0);
}

/* The graph of the convolution `p` is refused. */
static void refuse_graph(problem *p, vcuda_dnn *handle, int status) {
  vcuda_dnn_backend *operation = problem_describe_convolution(p), *d = problem_make(15);
  problem_set(d, 801, 15, 1, &operation);
  problem_set(d, 800, 0, 1, &handle);
  assert_int_equal(cudnnBackendDestroyDescriptor(operation), 0);
  int logs = host_logs();
  assert_int_equal(cudnnBackendFinalize(d), status);
  assert_int_equal(host_logs(), logs + 1);
  assert_int_equal(cudnnBackendDestroyDescriptor(d), 0);
}

static void shapes_that_do_not_fit(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  problem p;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose_known(&p, 6, 3);
  p.y.dims[2]++;
  refuse_graph(&p, handle, DNN_BAD_PARAM);
  p.y.dims[2]--;
  p.y.dims[1]++;
  refuse_graph(&p, handle, DNN_BAD_PARAM);
  p.y.dims[1]--;
  p.x.dims[1] = 3; /* not a multiple of the filter's 2 channels */
  refuse_graph(&p, handle, DNN_BAD_PARAM);
  p.x.dims[1] = 2;
  p.strides[1] = 0;
  refuse_graph(&p, handle, DNN_BAD_PARAM);
  p.strides[1] = 1;
  p.w.number = 3; /* int8 */
  refuse_graph(&p, handle, DNN_NOT_SUPPORTED);
  p.w.number = 0;
  p.additions = 1; /* so that the result is virtual */
  refuse_graph(&p, handle, DNN_BAD_PARAM);
  assert_int_equal(cudnnDestroy(handle), 0);
}

static void refused_executions(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  problem p;
  int64_t workspace = 0;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose_known(&p, 6, 3);
  void *room = host_memory(4096);
  vcuda_dnn_backend *plan = problem_make_plan(&p, handle, &workspace), *good = problem_make_pack(&p, room),
                    *without = problem_make_pack(&p, NULL);
  vcuda_dnn_backend *empty = problem_make(16);
  assert_int_equal(cudnnBackendExecute(handle, plan, without), DNN_BAD_PARAM);
  assert_int_equal(cudnnBackendExecute(handle, plan, empty), DNN_BAD_PARAM); /* not finalized */
  assert_int_equal(cudnnBackendExecute(handle, plan, problem_finalize(empty)), DNN_BAD_PARAM);
  assert_int_equal(cudnnBackendExecute(handle, good, good), DNN_BAD_PARAM);
  assert_int_equal(cudnnBackendExecute(handle, plan, plan), DNN_BAD_PARAM);
  assert_int_equal(cudnnBackendExecute(NULL, plan, good), DNN_BAD_PARAM);
  host_set_device(1);
  assert_int_equal(cudnnBackendExecute(handle, plan, good), DNN_EXECUTION_FAILED);
  host_set_device(0);
  assert_memory_equal(p.y.data, p.y.before, p.y.bytes);
  assert_int_equal(cudnnBackendExecute(handle, plan, good), 0);
  char text[256];
  cudnnGetLastErrorString(text, sizeof text);
  assert_string_equal(text, "cudnnBackendExecute: the handle is NULL");
  assert_string_equal(cudnnGetErrorString(DNN_NOT_SUPPORTED), "CUDNN_STATUS_NOT_SUPPORTED");
  assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(good), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(without), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(empty), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* The attributes of an engine that the EP queries, with and without room for the values. */
static void questions(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  problem p;
  int64_t workspace = 0, count = -1, index = -1, asked[10];
  int32_t shared = -1;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose_known(&p, 6, 3);
  vcuda_dnn_backend *plan = problem_make_plan(&p, handle, &workspace);
  vcuda_dnn_backend *heuristics = problem_make(4), *config = problem_make(3), *engine = problem_make(2);
  problem_give(heuristics, 201, problem_describe_graph(&p, handle));
  problem_set_enum(heuristics, 200, 8, FALLBACK);
  problem_finalize(heuristics);
  assert_int_equal(cudnnBackendGetAttribute(config, 303, 3, 1, NULL, &index), DNN_BAD_PARAM); /* not filled */
  assert_int_equal(cudnnBackendGetAttribute(heuristics, 202, 15, 1, &count, &config), 0);
  assert_int_equal(cudnnBackendGetAttribute(config, 300, 15, 1, &count, &engine), 0);
  assert_int_equal(count, 1);
  assert_int_equal(cudnnBackendGetAttribute(config, 303, 3, 1, NULL, &workspace), 0);
  assert_int_equal(workspace, 0);
  assert_int_equal(cudnnBackendGetAttribute(config, 304, 23, 1, NULL, &shared), 0);
  assert_int_equal(shared, 0);
  assert_int_equal(cudnnBackendGetAttribute(config, 302, 15, 0, &count, NULL), 0);
  assert_int_equal(count, 0);
  assert_int_equal(cudnnBackendGetAttribute(engine, 1303, 11, 10, &count, asked), 0);
  assert_int_equal(count, 0);
  assert_int_equal(cudnnBackendGetAttribute(engine, 1305, 19, 4, &count, NULL), 0);
  assert_int_equal(count, 0);
  assert_int_equal(cudnnBackendGetAttribute(engine, 1301, 3, 1, &count, &index), 0);
  assert_int_equal(index, 1);
  assert_int_equal(cudnnBackendGetAttribute(engine, 1301, 4, 1, &count, &index), DNN_BAD_PARAM);
  assert_int_equal(cudnnBackendGetAttribute(engine, 1306, 3, 1, &count, &index), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnBackendGetAttribute(heuristics, 202, 15, 1, &count, &engine), DNN_BAD_PARAM); /* wrong kind */
  refuse(engine, 1300, 15, 1, &plan, DNN_BAD_PARAM);                                                  /* already finalized */
  assert_int_equal(cudnnBackendDestroyDescriptor(engine), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(config), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(heuristics), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

static void refused_older_calls(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  problem p;
  const int numbers[] = {1, 1, 1, 1};
  const float one = 1;
  size_t bytes = 0;
  int count = 0;
  vcuda_dnn_found found;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose_known(&p, 6, 3);
  older o = open_older(&p, handle);
  assert_int_equal(cudnnGetConvolutionForwardWorkspaceSize(handle, o.x, o.w, o.mover, o.y, 8, &bytes), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnGetConvolutionForwardWorkspaceSize(handle, o.x, o.w, o.mover, o.x, 1, &bytes), DNN_BAD_PARAM);
  assert_int_equal(cudnnGetConvolutionForwardAlgorithm_v7(handle, o.x, o.w, o.mover, o.y, 0, &count, &found), DNN_BAD_PARAM);
  assert_int_equal(cudnnGetConvolutionForwardWorkspaceSize(handle, o.x, o.w, o.mover, o.y, 1, &bytes), 0);
  void *workspace = host_memory(bytes);
  assert_int_equal(cudnnConvolutionForward(handle, &one, o.x, p.x.data, o.w, p.w.data, o.mover, 1, workspace, bytes - 1, NULL,
                                           o.y, p.y.data),
                   DNN_BAD_PARAM);
  assert_int_equal(cudnnSetConvolutionNdDescriptor(o.mover, 2, numbers, numbers, numbers, 0, 0), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnSetConvolutionNdDescriptor(o.mover, 2, numbers, numbers, numbers, 1, 2), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnSetConvolutionNdDescriptor(o.mover, 7, numbers, numbers, numbers, 1, 0), DNN_BAD_PARAM);
  assert_int_equal(cudnnSetConvolutionGroupCount(o.mover, 0), DNN_BAD_PARAM);
  assert_int_equal(cudnnSetConvolutionMathType(o.mover, 4), DNN_BAD_PARAM);
  assert_int_equal(cudnnSetFilterNdDescriptor(o.w, 0, 2, 4, numbers), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnSetActivationDescriptor(o.activation, 7, 0, 0), DNN_NOT_SUPPORTED);
  close_older(&o);
  assert_int_equal(cudnnDestroy(handle), 0);
}

/* ---- elementwise operations ---- */

static vcuda_dnn_tensor *plain_tensor(int type, int rank, const int *dims) {
  vcuda_dnn_tensor *made = NULL;
  int strides[8], stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= dims[i];
  }
  assert_int_equal(cudnnCreateTensorDescriptor(&made), 0);
  assert_int_equal(cudnnSetTensorNdDescriptor(made, type, rank, dims, strides), 0);
  return made;
}

#define LIST(type, ...) ((const type[]){__VA_ARGS__})
#define TENSOR(type, ...) host_copy(LIST(type, __VA_ARGS__), sizeof LIST(type, __VA_ARGS__))
#define EXPECT(tensor, type, ...) assert_memory_equal(tensor, LIST(type, __VA_ARGS__), sizeof LIST(type, __VA_ARGS__))

static void additions(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  const float two = 2, half = 0.5F;
  const double wide_two = 2, wide_half = 0.5;
  assert_int_equal(cudnnCreate(&handle), 0);
  float *bias = TENSOR(float, 1, 2), *y = TENSOR(float, 10, 20, 30, 40);
  double *wide_bias = TENSOR(double, 1, 2), *wide = TENSOR(double, 10, 20, 30, 40);
  vcuda_dnn_tensor *b = plain_tensor(0, 4, LIST(int, 1, 2, 1, 1)), *c = plain_tensor(0, 4, LIST(int, 1, 2, 1, 2));
  vcuda_dnn_tensor *wide_b = plain_tensor(1, 4, LIST(int, 1, 2, 1, 1)), *wide_c = plain_tensor(1, 4, LIST(int, 1, 2, 1, 2));
  assert_int_equal(cudnnAddTensor(handle, &two, b, bias, &half, c, y), 0);
  EXPECT(y, float, 7, 12, 19, 24);
  assert_int_equal(cudnnAddTensor(handle, &wide_two, wide_b, wide_bias, &wide_half, wide_c, wide), 0);
  EXPECT(wide, double, 7, 12, 19, 24);
  assert_int_equal(cudnnAddTensor(handle, &two, c, y, &half, b, bias), DNN_BAD_PARAM);
  assert_int_equal(host_error(), 0);
  assert_int_equal(cudnnAddTensor(handle, &two, b, bias, &half, c, y + 1), 0);
  assert_int_equal(host_error(), 700);
  vcuda_dnn_tensor *all[] = {b, c, wide_b, wide_c};
  for (int i = 0; i < 4; i++) assert_int_equal(cudnnDestroyTensorDescriptor(all[i]), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

static void activations(void **state) {
  (void)state;
  static const struct {
    int mode;
    double coefficient, x, y;
  } cases[] = {{DNN_SIGMOID, 0, 0, 0.5},
               {DNN_RELU, 0, -1, 0},
               {DNN_TANH, 0, 1, 0.76159415595576489},
               {DNN_CLIPPED, 6, 7, 6},
               {DNN_CLIPPED, 6, -1, 0},
               {DNN_ELU, 2, -1, 2 * -0.63212055882855767},
               {DNN_IDENTITY, 0, -3, -3},
               {DNN_SWISH, 1, 1, 0.73105857863000490}};
  vcuda_dnn *handle = NULL;
  vcuda_dnn_activation *activation = NULL;
  const double one = 1;
  assert_int_equal(cudnnCreate(&handle), 0);
  assert_int_equal(cudnnCreateActivationDescriptor(&activation), 0);
  vcuda_dnn_tensor *t = plain_tensor(1, 3, LIST(int, 1, 1, 1));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double *x = host_copy(&cases[i].x, sizeof(double)), *y = host_memory(sizeof(double));
    assert_int_equal(cudnnSetActivationDescriptor(activation, cases[i].mode, 0, cases[i].coefficient), 0);
    assert_int_equal(cudnnActivationForward(handle, activation, &one, t, x, NULL, t, y), 0);
    double error = *y - cases[i].y;
    assert_true(error < 1e-15 && error > -1e-15);
  }
  assert_int_equal(cudnnDestroyActivationDescriptor(activation), 0);
  assert_int_equal(cudnnDestroyTensorDescriptor(t), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

static void tensors(void **state) {
  (void)state;
  vcuda_dnn_tensor *t = plain_tensor(9, 3, LIST(int, 2, 3, 4));
  int type = 0, rank = 0, dims[2] = {0}, strides[2] = {0};
  assert_int_equal(cudnnGetTensorNdDescriptor(t, 2, &type, &rank, dims, strides), 0);
  assert_int_equal(type, 9);
  assert_int_equal(rank, 3);
  EXPECT(dims, int, 2, 3);
  EXPECT(strides, int, 12, 4);
  const int many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  assert_int_equal(cudnnSetTensorNdDescriptor(t, 0, 10, many, many), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnSetTensorNdDescriptor(t, 99, 3, many, many), DNN_NOT_SUPPORTED);
  assert_int_equal(cudnnSetTensorNdDescriptor(t, 0, 0, many, many), DNN_BAD_PARAM);
  assert_int_equal(cudnnSetTensorNdDescriptor(t, 0, 2, LIST(int, 1, 0), many), DNN_BAD_PARAM);
  assert_int_equal(cudnnSetTensorNdDescriptor(t, 0, 2, many, LIST(int, 1, 0)), DNN_BAD_PARAM);
  assert_int_equal(cudnnGetTensorNdDescriptor(t, 2, &type, &rank, dims, strides), 0);
  assert_int_equal(cudnnDestroyTensorDescriptor(t), 0);
  assert_true(cudnnGetVersion() == 90200);
}

/* ---- each allocation fails once, and each start of a thread ---- */

static int threads_fail;

int __real_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument);

int __wrap_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument) {
  return threads_fail ? 11 : __real_pthread_create(thread, attributes, start, argument);
}

static void failed_allocations(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  problem p;
  int64_t workspace = 0;
  assert_int_equal(cudnnCreate(&handle), 0);
  choose_known(&p, 6, 3);
  p.mode = FALLBACK;
  const char *expected = problem_solve(&p, false);
  vcuda_dnn_backend *plan = problem_make_plan(&p, handle, &workspace), *pack = problem_make_pack(&p, NULL);
  int failures = 0;
  do {
    memcpy(p.y.data, p.y.before, p.y.bytes);
    host_forget_error();
    until_failure = ++failures;
    assert_int_equal(cudnnBackendExecute(handle, plan, pack), 0);
    if (host_error() != 0) assert_memory_equal(p.y.data, p.y.before, p.y.bytes);
    if (host_error() != 0) assert_int_equal(host_error(), 2);
  } while (until_failure == 0);
  until_failure = 0;
  assert_int_equal(failures, 6); /* data, filter, two axes, a worker's tile; the sixth try works */
  problem_check(&p, expected, 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
  assert_int_equal(cudnnBackendDestroyDescriptor(pack), 0);
  assert_int_equal(cudnnDestroy(handle), 0);
}

static void objects_without_memory(void **state) {
  (void)state;
  vcuda_dnn *handle = NULL;
  vcuda_dnn_backend *d = NULL;
  vcuda_dnn_tensor *t = NULL;
  vcuda_dnn_mover *m = NULL;
  vcuda_dnn_activation *a = NULL;
  until_failure = 1;
  assert_int_equal(cudnnCreate(&handle), DNN_NO_MEMORY);
  until_failure = 1;
  assert_int_equal(cudnnBackendCreateDescriptor(17, &d), DNN_NO_MEMORY);
  until_failure = 1;
  assert_int_equal(cudnnCreateTensorDescriptor(&t), DNN_NO_MEMORY);
  until_failure = 1;
  assert_int_equal(cudnnCreateFilterDescriptor(&t), DNN_NO_MEMORY);
  until_failure = 1;
  assert_int_equal(cudnnCreateConvolutionDescriptor(&m), DNN_NO_MEMORY);
  until_failure = 1;
  assert_int_equal(cudnnCreateActivationDescriptor(&a), DNN_NO_MEMORY);
  assert_true(handle == NULL && d == NULL && t == NULL && m == NULL && a == NULL);
}

static void one_thread_for_all(void **state) {
  threads_fail = 1;
  many_threads(state);
  threads_fail = 0;
}

int main(int argc, char **argv) {
#define TEST(function) cmocka_unit_test_teardown(function, host_reset)
  const struct CMUnitTest tests[] = {
      TEST(random_graphs),
      TEST(random_older_calls),
      TEST(many_threads),
      TEST(precision),
      TEST(memory_that_is_not_there),
      TEST(unknown_attributes),
      TEST(refused_modes),
      TEST(shapes_that_do_not_fit),
      TEST(refused_executions),
      TEST(questions),
      TEST(refused_older_calls),
      TEST(additions),
      TEST(activations),
      TEST(tensors),
      TEST(failed_allocations),
      TEST(objects_without_memory),
      TEST(one_thread_for_all),
  };
  if (argc > 1) random_count = atoi(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
