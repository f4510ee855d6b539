/* Graphs of cuDNN's operations as programs: a convolution with additions, or operations on matrices. */
#include <string.h>

#include "dnn_descriptor.h"

/* ---- one convolution ---- */

/* The number of groups follows from the channels. */
static void start_program(program *p, const operation *o) {
  vcuda_dnn_convolution *c = &p->work;
  p->is_convolution = true;
  c->backward = o->kind == BACKWARD_DATA;
  c->compute = o->convolution.compute;
  c->window = o->convolution.window;
  c->data = o->tensors[0].shape;
  c->filter = o->tensors[1].shape;
  c->result = o->tensors[2].shape;
  c->alpha = o->alpha;
  c->beta = o->beta;
  const vcuda_dnn_tensor *x = c->backward ? &c->result : &c->data;
  c->groups = c->filter.dims[1] > 0 ? x->dims[1] / c->filter.dims[1] : 0;
  p->data = o->tensors[0].uid;
  p->filter = o->tensors[1].uid;
}

/* An addition has the preceding operation's result as one of its operands, on either side. */
static int extend_program(program *p, const operation *o, const tensor *last) {
  vcuda_dnn_convolution *c = &p->work;
  int side = o->tensors[0].uid == last->uid ? 0 : 1;
  if (o->kind != POINTWISE_OPERATION || o->rule.mode != DNN_ADD || c->step_count == DNN_MAX_STEPS ||
      o->tensors[side].uid != last->uid || !last->is_virtual || o->tensors[1 - side].is_virtual) {
    return vcuda_dnn_unknown(
        "cudnnBackendFinalize: a graph with a convolution is one, and up to %d additions each to the result before it",
        DNN_MAX_STEPS);
  }
  p->operands[c->step_count] = o->tensors[1 - side].uid;
  c->steps[c->step_count++] = (vcuda_dnn_step){.alpha = side == 0 ? o->alpha : o->beta,
                                               .beta = side == 0 ? o->beta : o->alpha,
                                               .operand = o->tensors[1 - side].shape,
                                               .rounded = last->shape.type};
  return DNN_OK;
}

static bool has_number(const operation *o) {
  bool has = false;
  for (int i = 0; i < MAX_TENSORS; i++) has = has || o->tensors[i].is_by_value;
  return has;
}

static int compile_convolution(const graph *g, program *p) {
  int status = DNN_OK;
  for (int i = 0; i < g->count; i++) {
    if (has_number(&g->operations[i]))
      return vcuda_dnn_unknown("cudnnBackendFinalize: a tensor that is passed by value, in a graph with a convolution");
  }
  start_program(p, &g->operations[0]);
  for (int i = 1; status == DNN_OK && i < g->count; i++) {
    status = extend_program(p, &g->operations[i], &g->operations[i - 1].tensors[2]);
  }
  if (status != DNN_OK) return status;
  const tensor *result = &g->operations[g->count - 1].tensors[2];
  if (result->is_virtual) return vcuda_dnn_bad("cudnnBackendFinalize: the result of an OPERATIONGRAPH is virtual");
  vcuda_dnn_tensor first = p->work.result;
  for (int i = 0; i < first.rank; i++) {
    if (first.rank != result->shape.rank || first.dims[i] != result->shape.dims[i]) {
      return vcuda_dnn_unknown("cudnnBackendFinalize: the result of a graph has another shape than its convolution");
    }
  }
  p->work.result = result->shape;
  p->result = result->uid;
  return vcuda_dnn_check_convolution("cudnnBackendFinalize", &p->work);
}

/* ---- operations on matrices ---- */

enum { NONE = -1, FULL = -2 };

static bool is_same(const vcuda_dnn_matrix *m, int64_t uid, const vcuda_dnn_tensor *shape) {
  const size_t bytes = DNN_MATRIX_RANK * sizeof m->shape.dims[0];
  return m->uid == uid && m->shape.type == shape->type && memcmp(m->shape.dims, shape->dims, bytes) == 0 &&
         memcmp(m->shape.strides, shape->strides, bytes) == 0;
}

/* A number passed by value may have any rank. */
static vcuda_dnn_tensor shape_of(const tensor *t) {
  vcuda_dnn_tensor made = {.type = t->shape.type, .rank = DNN_MATRIX_RANK};
  if (!t->is_by_value || vcuda_dnn_count(&t->shape) != 1) return t->shape;
  for (int i = 0; i < DNN_MATRIX_RANK; i++) made.dims[i] = made.strides[i] = 1;
  return made;
}

/* The index of this tensor, which is added to the table if needed. FULL: the table is full, or the tensor does not have four dims. A
 * tensor may have several shapes, such as attention's k, which is read both as it is and transposed. */
static int add_matrix(vcuda_dnn_matrices *m, const tensor *t) {
  const vcuda_dnn_tensor shape = shape_of(t);
  for (int i = 0; i < m->matrix_count; i++) {
    if (is_same(&m->matrices[i], t->uid, &shape)) return i;
  }
  if (m->matrix_count == DNN_MAX_MATRICES || shape.rank != DNN_MATRIX_RANK) return FULL;
  m->matrices[m->matrix_count] =
      (vcuda_dnn_matrix){.shape = shape, .uid = t->uid, .is_virtual = t->is_virtual, .is_by_value = t->is_by_value};
  return m->matrix_count++;
}

/* Add an action with the indices of the operation's tensors, in the order of the action's operands. */
static int add_action(vcuda_dnn_matrices *m, const operation *o, vcuda_dnn_action action) {
  static const int order[DNN_OPERANDS] = {0, 1, 3, 4, 5};
  bool fits = m->action_count < DNN_MAX_ACTIONS;
  for (int i = 0; i < DNN_OPERANDS; i++) {
    action.operands[i] = o->given[order[i]] ? add_matrix(m, &o->tensors[order[i]]) : NONE;
    fits = fits && action.operands[i] != FULL;
  }
  action.result = add_matrix(m, &o->tensors[2]);
  if (!fits || action.result == FULL) {
    return vcuda_dnn_unknown(
        "cudnnBackendFinalize: a graph of more than %d tensors or %d operations, or a tensor without four dims",
        DNN_MAX_MATRICES, DNN_MAX_ACTIONS);
  }
  if (m->matrices[action.result].is_by_value) return vcuda_dnn_bad("cudnnBackendFinalize: a result is passed by value");
  m->actions[m->action_count++] = action;
  return DNN_OK;
}

static int add_product(vcuda_dnn_matrices *m, const operation *o) {
  return add_action(m, o, (vcuda_dnn_action){.verb = DNN_PRODUCT, .padding = o->rule.padding});
}

static int add_reduction(vcuda_dnn_matrices *m, const operation *o) {
  return add_action(m, o, (vcuda_dnn_action){.verb = o->rule.mode == REDUCE_ADD ? DNN_SUM_OF_LINES : DNN_MAXIMUM_OF_LINES});
}

static int add_pointwise(vcuda_dnn_matrices *m, const operation *o) {
  return add_action(
      m, o, (vcuda_dnn_action){.verb = (vcuda_dnn_verb)o->rule.mode, .axis = o->rule.axis, .alpha = o->alpha, .beta = o->beta});
}

/* A virtual tensor between two operations of attention, with a uid that no caller uses. It has q's dims, but `columns` columns. */
static tensor make_between(const tensor *q, int64_t columns, int number) {
  tensor made = {.uid = INT64_MIN + number, .is_virtual = true, .alignment = 1, .stride_count = DNN_MATRIX_RANK};
  made.shape = (vcuda_dnn_tensor){.type = VCUDA_FLOAT32, .rank = DNN_MATRIX_RANK};
  int64_t stride = 1;
  for (int i = DNN_MATRIX_RANK - 1; i >= 0; i--) {
    made.shape.dims[i] = i == DNN_MATRIX_RANK - 1 ? columns : q->shape.dims[i];
    made.shape.strides[i] = stride;
    stride *= made.shape.dims[i];
  }
  return made;
}

static operation make_step(const tensor *x, const tensor *b, const tensor *y, int64_t mode) {
  operation made = {.given = {true, b != NULL, true}, .rule.mode = mode, .alpha = 1, .beta = 1};
  made.tensors[0] = *x;
  if (b != NULL) made.tensors[1] = *b;
  made.tensors[2] = *y;
  return made;
}

static tensor transpose(const tensor *of) {
  tensor made = *of;
  for (int i = 2; i < 4; i++) {
    made.shape.dims[i] = of->shape.dims[5 - i];
    made.shape.strides[i] = of->shape.strides[5 - i];
  }
  return made;
}

/* softmax(factor * q * transposed k) * v, as the operations that cuDNN's front end makes of it for older releases. */
static int add_attention(vcuda_dnn_matrices *m, const operation *o) {
  enum { SCORES, SCALED, GREATEST, SMALLER, POWERS, SUMS, WEIGHTS, LOGARITHMS, BETWEEN };
  const tensor *q = &o->tensors[0], *k = &o->tensors[1], *y = &o->tensors[2], *v = &o->tensors[3];
  const tensor turned = transpose(k);
  tensor t[BETWEEN];
  if (k->shape.rank != DNN_MATRIX_RANK || q->shape.rank != DNN_MATRIX_RANK) {
    return vcuda_dnn_unknown("cudnnBackendFinalize: attention of tensors without four dims");
  }
  for (int i = 0; i < BETWEEN; i++) {
    t[i] = make_between(q, i == GREATEST || i == SUMS || i == LOGARITHMS ? 1 : k->shape.dims[2], i);
  }
  t[WEIGHTS].shape.type = q->shape.type; /* as the second product reads them */
  const operation product = make_step(q, &turned, &t[SCORES], 0),
                  scale = make_step(&t[SCORES], o->given[4] ? &o->tensors[4] : NULL, &t[SCALED],
                                    o->given[4] ? DNN_MUL : DNN_IDENTICAL),
                  greatest = make_step(&t[SCALED], NULL, &t[GREATEST], REDUCE_MAX),
                  smaller = make_step(&t[SCALED], &t[GREATEST], &t[SMALLER], DNN_SUB),
                  powers = make_step(&t[SMALLER], NULL, &t[POWERS], DNN_EXP),
                  sums = make_step(&t[POWERS], NULL, &t[SUMS], REDUCE_ADD),
                  weights = make_step(&t[POWERS], &t[SUMS], &t[WEIGHTS], DNN_DIV), result = make_step(&t[WEIGHTS], v, y, 0),
                  logarithms = make_step(&t[SUMS], NULL, &t[LOGARITHMS], DNN_LOG),
                  statistics = make_step(&t[GREATEST], &t[LOGARITHMS], &o->tensors[5], DNN_ADD);
  const struct {
    int (*add)(vcuda_dnn_matrices *m, const operation *o);
    const operation *what;
  } steps[] = {{add_product, &product},      {add_pointwise, &scale},     {add_reduction, &greatest}, {add_pointwise, &smaller},
               {add_pointwise, &powers},     {add_reduction, &sums},      {add_pointwise, &weights},  {add_product, &result},
               {add_pointwise, &logarithms}, {add_pointwise, &statistics}};
  int status = DNN_OK, count = o->given[5] ? 10 : 8;
  for (int i = 0; status == DNN_OK && i < count; i++) status = steps[i].add(m, steps[i].what);
  return status;
}

static int compile_matrices(const graph *g, program *p) {
  int status = DNN_OK;
  for (int i = 0; status == DNN_OK && i < g->count; i++) {
    const operation *o = &g->operations[i];
    switch (o->kind) {
      case PRODUCT_OPERATION: status = add_product(&p->matrices, o); break;
      case REDUCTION_OPERATION: status = add_reduction(&p->matrices, o); break;
      case POINTWISE_OPERATION: status = add_pointwise(&p->matrices, o); break;
      case ATTENTION_OPERATION: status = add_attention(&p->matrices, o); break;
      default: return vcuda_dnn_unknown("cudnnBackendFinalize: a convolution that is not the first operation of its graph");
    }
  }
  return status == DNN_OK ? vcuda_dnn_check_matrices(&p->matrices) : status;
}

/* ---- compilation ---- */

static void note_alignment(program *p, const operation *o) {
  for (int i = 0; i < MAX_TENSORS; i++) {
    if (o->given[i] && !o->tensors[i].is_by_value && o->tensors[i].alignment > p->alignment)
      p->alignment = o->tensors[i].alignment;
  }
}

int vcuda_dnn_compile(graph *g) {
  program *p = &g->program;
  if (!g->has_handle || g->count == 0)
    return vcuda_dnn_bad("cudnnBackendFinalize: an OPERATIONGRAPH lacks a handle or operations");
  p->alignment = 1;
  for (int i = 0; i < g->count; i++) note_alignment(p, &g->operations[i]);
  kind first = g->operations[0].kind;
  return first == FORWARD || first == BACKWARD_DATA ? compile_convolution(g, p) : compile_matrices(g, p);
}

size_t vcuda_dnn_program_workspace_bytes(const program *p) {
  return p->is_convolution ? vcuda_dnn_workspace_bytes(&p->work) : vcuda_dnn_matrices_workspace_bytes(&p->matrices);
}

/* ---- executing ---- */

static int find_pointer(const variants *p, int64_t uid, int64_t alignment, void *pointer) {
  for (int i = 0; i < p->uid_count; i++) {
    if (p->uids[i] != uid) continue;
    if ((uintptr_t)p->pointers[i] % (uintptr_t)alignment != 0) {
      return vcuda_dnn_bad("cudnnBackendExecute: the tensor with uid %lld at %p: expected a multiple of %lld", (long long)uid,
                           p->pointers[i], (long long)alignment);
    }
    memcpy(pointer, &p->pointers[i], sizeof p->pointers[i]);
    return DNN_OK;
  }
  return vcuda_dnn_bad("cudnnBackendExecute: the VARIANT_PACK has no tensor with uid %lld", (long long)uid);
}

static int bind_convolution(const program *p, const variants *pack, vcuda_dnn_convolution *c) {
  *c = p->work;
  int status = find_pointer(pack, p->data, p->alignment, &c->data_address);
  if (status == DNN_OK) status = find_pointer(pack, p->filter, p->alignment, &c->filter_address);
  if (status == DNN_OK) status = find_pointer(pack, p->result, p->alignment, &c->result_address);
  for (int i = 0; status == DNN_OK && i < c->step_count; i++) {
    status = find_pointer(pack, p->operands[i], p->alignment, &c->steps[i].address);
  }
  return status;
}

/* A tensor with one number for each image, such as a length, needs only the alignment of its type. */
static int64_t alignment_of(const program *p, const vcuda_dnn_matrix *m) {
  int64_t bytes = (int64_t)vcuda_type_size(m->shape.type);
  return m->shape.dims[1] * m->shape.dims[2] * m->shape.dims[3] == 1 && bytes < p->alignment ? bytes : p->alignment;
}

/* A number passed by value is in host memory, and is read now. */
static int bind_matrix(const program *p, const variants *pack, vcuda_dnn_matrix *m) {
  void *pointer = NULL;
  if (m->is_virtual) return DNN_OK;
  int status = find_pointer(pack, m->uid, m->is_by_value ? 1 : alignment_of(p, m), &pointer);
  if (status != DNN_OK) return status;
  if (!m->is_by_value) {
    m->address = pointer;
    return DNN_OK;
  }
  if (pointer == NULL) return vcuda_dnn_bad("cudnnBackendExecute: the number with uid %lld is NULL", (long long)m->uid);
  m->number = vcuda_load_real(m->shape.type, pointer, 0);
  return DNN_OK;
}

int vcuda_dnn_execute(const vcuda_dnn *handle, const program *p, const variants *pack, void *workspace) {
  static const char name[] = "cudnnBackendExecute";
  int status = DNN_OK;
  if (p->is_convolution) {
    vcuda_dnn_convolution c;
    status = bind_convolution(p, pack, &c);
    c.workspace = workspace;
    return status != DNN_OK ? status : vcuda_dnn_submit(handle, name, vcuda_dnn_run_convolution, &c, sizeof c);
  }
  vcuda_dnn_matrices m = p->matrices;
  for (int i = 0; status == DNN_OK && i < m.matrix_count; i++) status = bind_matrix(p, pack, &m.matrices[i]);
  m.workspace = workspace;
  return status != DNN_OK ? status : vcuda_dnn_submit(handle, name, vcuda_dnn_run_matrices, &m, sizeof m);
}
