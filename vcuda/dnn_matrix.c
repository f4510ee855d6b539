/* Graphs of operations on matrices. */
#include "dnn_matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int vcuda_dnn_operand_count(int64_t mode) {
  switch (mode) {
    case DNN_EXP:
    case DNN_LOG:
    case DNN_IDENTICAL:
    case DNN_TANH_FORWARD:
    case DNN_NOT:
    case DNN_INDEX: return 1;
    case DNN_ADD:
    case DNN_MUL:
    case DNN_MAX:
    case DNN_DIV:
    case DNN_SUB:
    case DNN_EQUAL:
    case DNN_NOT_EQUAL:
    case DNN_GREATER:
    case DNN_GREATER_EQUAL:
    case DNN_LESS:
    case DNN_LESS_EQUAL:
    case DNN_AND:
    case DNN_OR: return 2;
    case DNN_SELECT: return 3;
    default: return 0;
  }
}

/* ---- checks ---- */

static int64_t rows_of(const vcuda_dnn_matrix *m) {
  return m->shape.dims[2];
}

static int64_t columns_of(const vcuda_dnn_matrix *m) {
  return m->shape.dims[3];
}

static const vcuda_dnn_matrix *operand(const vcuda_dnn_matrices *m, const vcuda_dnn_action *a, int i) {
  return a->operands[i] < 0 ? NULL : &m->matrices[a->operands[i]];
}

/* Is the matrix, in any shape, the result of an operation? */
static bool is_result(const vcuda_dnn_matrices *m, int i) {
  for (int n = 0; n < m->action_count; n++) {
    if (m->matrices[m->actions[n].result].uid == m->matrices[i].uid) return true;
  }
  return false;
}

static bool repeats(int64_t dim, int64_t of) {
  return dim == of || dim == 1;
}

static bool fits_product(const vcuda_dnn_matrices *m, const vcuda_dnn_action *a) {
  const vcuda_dnn_matrix *x = operand(m, a, 0), *b = operand(m, a, 1), *y = &m->matrices[a->result];
  if (x == NULL || b == NULL) return false;
  for (int i = 2; i < DNN_OPERANDS; i++) {
    const vcuda_dnn_matrix *limit = operand(m, a, i);
    if (limit != NULL && (rows_of(limit) != 1 || columns_of(limit) != 1)) return false;
  }
  return columns_of(x) == rows_of(b) && rows_of(x) == rows_of(y) && columns_of(b) == columns_of(y);
}

static bool fits(const vcuda_dnn_matrices *m, const vcuda_dnn_action *a) {
  const vcuda_dnn_matrix *y = &m->matrices[a->result];
  if (a->verb == DNN_PRODUCT) return fits_product(m, a);
  for (int i = 0; i < DNN_OPERANDS; i++) {
    const vcuda_dnn_matrix *x = operand(m, a, i);
    bool reduces = a->verb == DNN_SUM_OF_LINES || a->verb == DNN_MAXIMUM_OF_LINES;
    const vcuda_dnn_matrix *small = reduces ? y : x, *large = reduces ? x : y;
    if (x != NULL && (!repeats(rows_of(small), rows_of(large)) || !repeats(columns_of(small), columns_of(large)))) return false;
  }
  return a->verb != DNN_INDEX || (a->axis >= 0 && a->axis < DNN_MATRIX_RANK);
}

static void note_most(vcuda_dnn_matrices *m, const vcuda_dnn_matrix *of) {
  if (of->shape.dims[0] > m->images) m->images = of->shape.dims[0];
  if (of->shape.dims[1] > m->heads) m->heads = of->shape.dims[1];
}

static int check_matrix(const vcuda_dnn_matrices *m, const vcuda_dnn_matrix *of, bool is_result) {
  int64_t images = of->shape.dims[0], heads = of->shape.dims[1];
  bool whole = images == m->images && heads == m->heads;
  if (is_result ? whole : repeats(images, m->images) && m->heads % heads == 0) return DNN_OK;
  return vcuda_dnn_unknown("cudnnBackendFinalize: the tensor %lld has %lld images of %lld heads, in a graph of %lld and %lld",
                           (long long)of->uid, (long long)images, (long long)heads, (long long)m->images, (long long)m->heads);
}

int vcuda_dnn_check_matrices(vcuda_dnn_matrices *m) {
  bool made[DNN_MAX_MATRICES] = {false};
  int status = DNN_OK;
  for (int i = 0; i < m->matrix_count; i++) note_most(m, &m->matrices[i]);
  for (int i = 0; i < m->action_count; i++) {
    const vcuda_dnn_action *a = &m->actions[i];
    for (int n = 0; n < DNN_OPERANDS; n++) {
      const vcuda_dnn_matrix *x = operand(m, a, n);
      if (x != NULL && !made[a->operands[n]] && (x->is_virtual || is_result(m, a->operands[n]))) {
        return vcuda_dnn_unknown("cudnnBackendFinalize: the tensor %lld is read before it is written", (long long)x->uid);
      }
    }
    if (made[a->result]) {
      return vcuda_dnn_bad("cudnnBackendFinalize: the tensor %lld is written twice", (long long)m->matrices[a->result].uid);
    }
    if (!fits(m, a)) {
      return vcuda_dnn_bad("cudnnBackendFinalize: the tensors of operation %d do not fit each other", i);
    }
    made[a->result] = true;
  }
  for (int i = 0; status == DNN_OK && i < m->matrix_count; i++) status = check_matrix(m, &m->matrices[i], made[i]);
  return status;
}

size_t vcuda_dnn_matrices_workspace_bytes(const vcuda_dnn_matrices *m) {
  return (size_t)(m->images * m->heads) * sizeof(float);
}

/* ---- computing ---- */

/* The values of one image and head, and the addresses of the tensors. The address of a virtual tensor, and of a number, is NULL. */
typedef struct job {
  const vcuda_dnn_matrices *m;
  double *numbers[DNN_MAX_MATRICES];
  const void *sources[DNN_MAX_MATRICES];
  void *targets[DNN_MAX_MATRICES];
  int64_t image, head;
} job;

static double rounded(vcuda_type type, double value) {
  char room[8];
  if (type == VCUDA_FLOAT32) return (double)(float)value;
  vcuda_store_real(type, room, 0, value);
  return vcuda_load_real(type, room, 0);
}

/* The offset of the image and head. A tensor with fewer heads repeats each of them. */
static int64_t start_of(const job *j, const vcuda_dnn_matrix *of) {
  const vcuda_dnn_tensor *s = &of->shape;
  return (s->dims[0] == 1 ? 0 : j->image * s->strides[0]) + j->head * s->dims[1] / j->m->heads * s->strides[1];
}

static void load(const job *j, int i) {
  const vcuda_dnn_matrix *of = &j->m->matrices[i];
  double *to = j->numbers[i];
  int64_t start = start_of(j, of);
  if (of->is_by_value) {
    to[0] = of->number;
    return;
  }
  for (int64_t row = 0; row < rows_of(of); row++) {
    for (int64_t column = 0; column < columns_of(of); column++) {
      int64_t at = start + row * of->shape.strides[2] + column * of->shape.strides[3];
      *to++ = vcuda_load_real(of->shape.type, j->sources[i], at);
    }
  }
}

static void store(const job *j, int i) {
  const vcuda_dnn_matrix *of = &j->m->matrices[i];
  const double *from = j->numbers[i];
  int64_t start = start_of(j, of);
  for (int64_t row = 0; row < rows_of(of); row++) {
    for (int64_t column = 0; column < columns_of(of); column++) {
      int64_t at = start + row * of->shape.strides[2] + column * of->shape.strides[3];
      vcuda_store_real(of->shape.type, j->targets[i], at, *from++);
    }
  }
}

/* The number of valid elements of a dimension. */
static int64_t limit_of(const job *j, int i, int64_t dim) {
  return i < 0 || j->numbers[i][0] >= (double)dim ? dim : (int64_t)j->numbers[i][0];
}

static void multiply(const job *j, const vcuda_dnn_action *a) {
  const vcuda_dnn_matrix *y = &j->m->matrices[a->result], *x = &j->m->matrices[a->operands[0]];
  const double *left = j->numbers[a->operands[0]], *right = j->numbers[a->operands[1]];
  const int64_t columns = columns_of(y), inner = columns_of(x), rows = limit_of(j, a->operands[2], rows_of(y)),
                counted = limit_of(j, a->operands[3], columns), most = limit_of(j, a->operands[4], inner);
  double *to = j->numbers[a->result];
  for (int64_t row = 0; row < rows_of(y); row++) {
    for (int64_t column = 0; column < columns; column++) {
      double sum = 0;
      for (int64_t i = 0; i < most; i++) sum += left[row * inner + i] * right[i * columns + column];
      to[row * columns + column] = rounded(y->shape.type, row < rows && column < counted ? sum : a->padding);
    }
  }
}

static void reduce(const job *j, const vcuda_dnn_action *a) {
  const vcuda_dnn_matrix *y = &j->m->matrices[a->result], *x = &j->m->matrices[a->operands[0]];
  const double *from = j->numbers[a->operands[0]];
  double *to = j->numbers[a->result];
  bool adds = a->verb == DNN_SUM_OF_LINES;
  for (int64_t i = 0; i < rows_of(y) * columns_of(y); i++) to[i] = adds ? 0 : -INFINITY;
  for (int64_t row = 0; row < rows_of(x); row++) {
    for (int64_t column = 0; column < columns_of(x); column++, from++) {
      double *at = &to[(rows_of(y) == 1 ? 0 : row) * columns_of(y) + (columns_of(y) == 1 ? 0 : column)];
      *at = adds ? *at + *from : *from > *at || isnan(*from) ? *from : *at;
    }
  }
  for (int64_t i = 0; i < rows_of(y) * columns_of(y); i++) to[i] = rounded(y->shape.type, to[i]);
}

static double combine(vcuda_dnn_verb verb, double x, double b, double t) {
  switch (verb) {
    case DNN_ADD: return x + b;
    case DNN_MUL: return x * b;
    case DNN_MAX: return x > b || isnan(x) ? x : b;
    case DNN_DIV: return x / b;
    case DNN_SUB: return x - b;
    case DNN_EXP: return exp(x);
    case DNN_LOG: return log(x);
    case DNN_TANH_FORWARD: return tanh(x);
    case DNN_EQUAL: return x == b;
    case DNN_NOT_EQUAL: return x != b;
    case DNN_GREATER: return x > b;
    case DNN_GREATER_EQUAL: return x >= b;
    case DNN_LESS: return x < b;
    case DNN_LESS_EQUAL: return x <= b;
    case DNN_AND: return x != 0 && b != 0;
    case DNN_OR: return x != 0 || b != 0;
    case DNN_NOT: return x == 0;
    case DNN_SELECT: return t != 0 ? x : b;
    default: return x;
  }
}

static double number_at(const job *j, int i, int64_t row, int64_t column) {
  if (i < 0) return 0;
  const vcuda_dnn_matrix *of = &j->m->matrices[i];
  return j->numbers[i][(rows_of(of) == 1 ? 0 : row) * columns_of(of) + (columns_of(of) == 1 ? 0 : column)];
}

static void combine_elements(const job *j, const vcuda_dnn_action *a) {
  const vcuda_dnn_matrix *y = &j->m->matrices[a->result];
  double *to = j->numbers[a->result];
  for (int64_t row = 0; row < rows_of(y); row++) {
    for (int64_t column = 0; column < columns_of(y); column++) {
      const int64_t place[DNN_MATRIX_RANK] = {j->image, j->head, row, column};
      double x = a->alpha * number_at(j, a->operands[0], row, column), b = a->beta * number_at(j, a->operands[1], row, column),
             t = number_at(j, a->operands[2], row, column);
      *to++ = rounded(y->shape.type, a->verb == DNN_INDEX ? (double)place[a->axis] : combine(a->verb, x, b, t));
    }
  }
}

static void act(const job *j, const vcuda_dnn_action *a) {
  switch (a->verb) {
    case DNN_PRODUCT: multiply(j, a); break;
    case DNN_SUM_OF_LINES:
    case DNN_MAXIMUM_OF_LINES: reduce(j, a); break;
    default: combine_elements(j, a); break;
  }
}

static void compute(const job *j) {
  for (int i = 0; i < j->m->matrix_count; i++) {
    if (j->sources[i] != NULL || j->m->matrices[i].is_by_value) load(j, i);
  }
  for (int i = 0; i < j->m->action_count; i++) act(j, &j->m->actions[i]);
  for (int i = 0; i < j->m->matrix_count; i++) {
    if (j->targets[i] != NULL) store(j, i);
  }
}

static bool open_memory(job *j) {
  for (int i = 0; i < j->m->matrix_count; i++) {
    const vcuda_dnn_matrix *of = &j->m->matrices[i];
    if (of->is_virtual || of->is_by_value) continue;
    if (is_result(j->m, i)) {
      j->targets[i] = vcuda_dnn_write(&of->shape, of->address);
    } else {
      j->sources[i] = vcuda_dnn_read(&of->shape, of->address);
    }
    if (j->sources[i] == NULL && j->targets[i] == NULL) return false;
  }
  size_t bytes = vcuda_dnn_matrices_workspace_bytes(j->m);
  void *workspace = j->m->workspace == NULL ? NULL : vcuda_writes(j->m->workspace, bytes);
  if (workspace != NULL) memset(workspace, 0, bytes);
  return j->m->workspace == NULL || workspace != NULL;
}

void vcuda_dnn_run_matrices(void *matrices) {
  job j = {.m = matrices};
  int64_t count = 1; /* at least one, so that malloc does not return NULL */
  if (!open_memory(&j)) return;
  for (int i = 0; i < j.m->matrix_count; i++) count += rows_of(&j.m->matrices[i]) * columns_of(&j.m->matrices[i]);
  double *room = malloc((size_t)count * sizeof *room), *next = room;
  if (room == NULL) {
    vcuda_fail(2, "a graph of matrices: no memory on the host");
    return;
  }
  for (int i = 0; i < j.m->matrix_count; i++) {
    j.numbers[i] = next;
    next += rows_of(&j.m->matrices[i]) * columns_of(&j.m->matrices[i]);
  }
  for (j.image = 0; j.image < j.m->images; j.image++) {
    for (j.head = 0; j.head < j.m->heads; j.head++) compute(&j);
  }
  free(room);
}
