/* cuDNN's graph interface: descriptors with numbered attributes. A descriptor keeps copies of the descriptors that it is given, so each may
 * be freed at any time. A graph is one convolution and what is added to it; its only engine computes it as one piece of work. */
#include "dnn_backend.h"

#include <stdlib.h>
#include <string.h>

#include "dnn_convolution.h"

enum { MAX_OPERATIONS = 1 + DNN_MAX_STEPS, MAX_POINTERS = 16, VIRTUAL = -1 };

/* The kinds of descriptors, and the types of attributes, by cuDNN's numbers. */
typedef enum kind {
  POINTWISE = 0,
  CONVOLUTION = 1,
  ENGINE = 2,
  CONFIG = 3,
  HEURISTICS = 4,
  PLAN = 5,
  KNOB_CHOICE = 7,
  FORWARD = 10,
  BACKWARD_DATA = 12,
  POINTWISE_OPERATION = 13,
  GRAPH = 15,
  VARIANT_PACK = 16,
  TENSOR = 17
} kind;
enum {
  OF_HANDLE = 0,
  OF_DATA_TYPE = 1,
  OF_BOOLEAN = 2,
  OF_INT64 = 3,
  OF_FLOAT = 4,
  OF_DOUBLE = 5,
  OF_POINTER = 6,
  OF_CONVOLUTION_MODE = 7,
  OF_HEURISTIC = 8,
  OF_NOTE = 11,
  OF_POINTWISE_MODE = 14,
  OF_DESCRIPTOR = 15,
  OF_BEHAVIOR = 19,
  OF_INT32 = 23
};
enum { CROSS_CORRELATION = 1, ADD = 0, FALLBACK = 2 };

static const char *name_of(kind k) {
  switch (k) {
    case POINTWISE: return "POINTWISE";
    case CONVOLUTION: return "CONVOLUTION";
    case ENGINE: return "ENGINE";
    case CONFIG: return "ENGINECFG";
    case HEURISTICS: return "ENGINEHEUR";
    case PLAN: return "EXECUTION_PLAN";
    case KNOB_CHOICE: return "KNOB_CHOICE";
    case FORWARD: return "OPERATION_CONVOLUTION_FORWARD";
    case BACKWARD_DATA: return "OPERATION_CONVOLUTION_BACKWARD_DATA";
    case POINTWISE_OPERATION: return "OPERATION_POINTWISE";
    case GRAPH: return "OPERATIONGRAPH";
    case VARIANT_PACK: return "VARIANT_PACK";
    case TENSOR: return "TENSOR";
  }
  return NULL;
}

typedef struct tensor {
  vcuda_dnn_tensor shape;
  int stride_count;
  int64_t uid, alignment;
  bool is_virtual;
} tensor;

typedef struct convolution {
  vcuda_type compute;
  int64_t mode, spatial;
  int counts[4]; /* of the arrays' elements */
  vcuda_dnn_window window;
} convolution;

typedef struct pointwise {
  int64_t mode;
  vcuda_type compute;
} pointwise;

/* x, w and y of a convolution; x, what is added, and y of a pointwise operation. `alpha` and `beta` are these operations' factors. */
typedef struct operation {
  kind kind;
  tensor tensors[3];
  bool given[3];
  convolution convolution;
  pointwise pointwise;
  double alpha, beta;
} operation;

/* A graph as it is computed. The addresses are those of the variant pack: here each tensor's uid is kept. */
typedef struct program {
  vcuda_dnn_convolution work;
  int64_t data, filter, result, operands[DNN_MAX_STEPS], alignment;
} program;

typedef struct graph {
  bool has_handle;
  int count;
  operation operations[MAX_OPERATIONS];
  program program;
} graph;

/* ENGINE, CONFIG, PLAN and HEURISTICS: a program, and how it is computed. */
typedef struct engine {
  bool given;
  int64_t mode; /* FALLBACK: without a workspace */
  program program;
} engine;

typedef struct variants {
  int uid_count, pointer_count;
  int64_t uids[MAX_POINTERS];
  void *pointers[MAX_POINTERS], *workspace;
} variants;

typedef struct vcuda_dnn_backend {
  kind kind;
  bool is_final;
  union {
    tensor tensor;
    convolution convolution;
    pointwise pointwise;
    operation operation;
    graph graph;
    engine engine;
    variants variants;
  };
} descriptor;

int cudnnBackendCreateDescriptor(int number, descriptor **object) {
  VCUDA_DNN_BEGIN(NULL);
  if (object == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the descriptor", __func__));
  if (name_of((kind)number) == NULL)
    return vcuda_close(&call, vcuda_dnn_unknown("%s: kind %d is not known here", __func__, number));
  descriptor *made = *object = calloc(1, sizeof *made);
  if (made == NULL) return vcuda_close(&call, DNN_NO_MEMORY);
  made->kind = (kind)number;
  switch (made->kind) {
    case FORWARD:
    case BACKWARD_DATA:
    case POINTWISE_OPERATION:
      made->operation.kind = made->kind;
      made->operation.alpha = 1;
      made->operation.beta = made->kind == POINTWISE_OPERATION ? 1 : 0;
      break;
    case TENSOR: made->tensor.alignment = 1; break;
    default: break;
  }
  return vcuda_close(&call, DNN_OK);
}

int cudnnBackendDestroyDescriptor(descriptor *object) {
  VCUDA_OPEN(NULL);
  free(object);
  return vcuda_close(&call, DNN_OK);
}

/* ---- attributes that are set ---- */

typedef struct attribute {
  const char *of;
  int name, type;
  int64_t count;
  const void *values;
} attribute;

static int unknown(const attribute *a) {
  return vcuda_dnn_unknown("cudnnBackendSetAttribute: attribute %d of %s is not known here", a->name, a->of);
}

static int check(const attribute *a, int type, int64_t most) {
  if (a->type == type && a->count >= 1 && a->count <= most && a->values != NULL) return DNN_OK;
  return vcuda_dnn_bad("cudnnBackendSetAttribute: attribute %d of %s: %lld values of type %d; expected 1 to %lld of type %d",
                       a->name, a->of, (long long)a->count, a->type, (long long)most, type);
}

static int set_int64(const attribute *a, int64_t *values, int most, int *count) {
  int status = check(a, OF_INT64, most);
  if (status != DNN_OK) return status;
  memcpy(values, a->values, (size_t)a->count * sizeof *values);
  if (count != NULL) *count = (int)a->count;
  return DNN_OK;
}

static int set_enum(const attribute *a, int type, int64_t *value) {
  int status = check(a, type, 1), number = 0;
  if (status != DNN_OK) return status;
  memcpy(&number, a->values, sizeof number);
  *value = number;
  return DNN_OK;
}

static int set_type(const attribute *a, vcuda_type *type, int *number) {
  int64_t value = 0;
  int status = set_enum(a, OF_DATA_TYPE, &value);
  if (status != DNN_OK) return status;
  *type = vcuda_dnn_type((int)value);
  if (number != NULL) *number = (int)value;
  if (*type != VCUDA_NO_TYPE) return DNN_OK;
  return vcuda_dnn_unknown("cudnnBackendSetAttribute: attribute %d of %s: type %d is not known here", a->name, a->of,
                           (int)value);
}

static int set_real(const attribute *a, double *value) {
  int type = a->type == OF_DOUBLE ? OF_DOUBLE : OF_FLOAT, status = check(a, type, 1);
  if (status == DNN_OK) *value = vcuda_load_real(type == OF_DOUBLE ? VCUDA_FLOAT64 : VCUDA_FLOAT32, a->values, 0);
  return status;
}

static int set_boolean(const attribute *a, bool *value) {
  int status = check(a, OF_BOOLEAN, 1);
  if (status == DNN_OK) *value = *(const char *)a->values != 0;
  return status;
}

/* The descriptor number `i` of the values: finalized, and of one of these kinds. */
static int get_descriptor(const attribute *a, int64_t i, kind one, kind other, const descriptor **found) {
  memcpy(found, (const char *)a->values + (size_t)i * sizeof(descriptor *), sizeof *found);
  if (*found != NULL && ((*found)->kind == one || (*found)->kind == other) && (*found)->is_final) return DNN_OK;
  return vcuda_dnn_bad("cudnnBackendSetAttribute: attribute %d of %s: expected a finalized %s", a->name, a->of, name_of(one));
}

static int get_one(const attribute *a, kind wanted, const descriptor **found) {
  int status = check(a, OF_DESCRIPTOR, 1);
  return status == DNN_OK ? get_descriptor(a, 0, wanted, wanted, found) : status;
}

static int set_operand(const attribute *a, operation *o, int which) {
  const descriptor *found = NULL;
  int status = get_one(a, TENSOR, &found);
  if (status != DNN_OK) return status;
  o->tensors[which] = found->tensor;
  o->given[which] = true;
  return DNN_OK;
}

static int set_tensor(tensor *t, const attribute *a) {
  bool by_value = false;
  int status = DNN_OK;
  switch (a->name) {
    case 900: return set_int64(a, &t->alignment, 1, NULL);
    case 901: return set_type(a, &t->shape.type, &t->shape.type_number);
    case 902: return set_int64(a, t->shape.dims, DNN_MAX_SPATIAL + 2, &t->shape.rank);
    case 903: return set_int64(a, t->shape.strides, DNN_MAX_SPATIAL + 2, &t->stride_count);
    case 906: return set_int64(a, &t->uid, 1, NULL);
    case 907: return set_boolean(a, &t->is_virtual);
    case 908:
      status = set_boolean(a, &by_value);
      if (status != DNN_OK || !by_value) return status;
      return vcuda_dnn_unknown("cudnnBackendSetAttribute: a tensor that is passed by value is not known here");
    default: return unknown(a);
  }
}

static int set_convolution(convolution *c, const attribute *a) {
  switch (a->name) {
    case 100: return set_type(a, &c->compute, NULL);
    case 101: return set_enum(a, OF_CONVOLUTION_MODE, &c->mode);
    case 102: return set_int64(a, c->window.dilations, DNN_MAX_SPATIAL, &c->counts[0]);
    case 103: return set_int64(a, c->window.strides, DNN_MAX_SPATIAL, &c->counts[1]);
    case 104: return set_int64(a, c->window.after, DNN_MAX_SPATIAL, &c->counts[2]);
    case 105: return set_int64(a, c->window.before, DNN_MAX_SPATIAL, &c->counts[3]);
    case 106: return set_int64(a, &c->spatial, 1, NULL);
    default: return unknown(a);
  }
}

static int set_pointwise(pointwise *p, const attribute *a) {
  switch (a->name) {
    case 0: return set_enum(a, OF_POINTWISE_MODE, &p->mode);
    case 1: return set_type(a, &p->compute, NULL);
    default: return unknown(a);
  }
}

static int set_window(operation *o, const attribute *a) {
  const descriptor *found = NULL;
  int status = get_one(a, CONVOLUTION, &found);
  if (status == DNN_OK) o->convolution = found->convolution;
  return status;
}

static int set_mode(operation *o, const attribute *a) {
  const descriptor *found = NULL;
  int status = get_one(a, POINTWISE, &found);
  if (status == DNN_OK) o->pointwise = found->pointwise;
  return status;
}

static int set_operation(operation *o, const attribute *a) {
  int name = a->name;
  if (o->kind == POINTWISE_OPERATION) {
    switch (name) {
      case 750: return set_mode(o, a);
      case 751: return set_operand(a, o, 0);
      case 752: return set_operand(a, o, 1);
      case 753: return set_operand(a, o, 2);
      case 754: return set_real(a, &o->alpha);
      case 755: return set_real(a, &o->beta);
      default: return unknown(a);
    }
  }
  if (o->kind == BACKWARD_DATA) { /* alpha, beta, window, w, dx, dy */
    if (name < 706 || name > 711) return unknown(a);
    name = (const int[]){700, 701, 702, 703, 705, 704}[name - 706];
  }
  switch (name) {
    case 700: return set_real(a, &o->alpha);
    case 701: return set_real(a, &o->beta);
    case 702: return set_window(o, a);
    case 703: return set_operand(a, o, 1);
    case 704: return set_operand(a, o, 0);
    case 705: return set_operand(a, o, 2);
    default: return unknown(a);
  }
}

static int set_operations(graph *g, const attribute *a) {
  int status = check(a, OF_DESCRIPTOR, MAX_OPERATIONS);
  g->count = 0;
  for (int64_t i = 0; status == DNN_OK && i < a->count; i++) {
    const descriptor *found = NULL;
    memcpy(&found, (const char *)a->values + (size_t)i * sizeof(descriptor *), sizeof found);
    bool adds = found != NULL && found->kind == POINTWISE_OPERATION;
    status = get_descriptor(a, i, adds ? POINTWISE_OPERATION : FORWARD, BACKWARD_DATA, &found);
    if (status == DNN_OK) g->operations[g->count++] = found->operation;
  }
  return status;
}

static int set_graph(graph *g, const attribute *a) {
  switch (a->name) {
    case 800: g->has_handle = true; return check(a, OF_HANDLE, 1);
    case 801: return set_operations(g, a);
    default: return unknown(a);
  }
}

static int set_program(engine *e, const attribute *a, kind of) {
  const descriptor *found = NULL;
  int status = get_one(a, of, &found);
  if (status != DNN_OK) return status;
  int64_t mode = of == GRAPH ? e->mode : found->engine.mode;
  *e = (engine){.given = true, .mode = mode, .program = of == GRAPH ? found->graph.program : found->engine.program};
  return DNN_OK;
}

static int set_pointers(variants *p, const attribute *a) {
  int status = check(a, OF_POINTER, MAX_POINTERS);
  if (status != DNN_OK) return status;
  memcpy(p->pointers, a->values, (size_t)a->count * sizeof *p->pointers);
  p->pointer_count = (int)a->count;
  return DNN_OK;
}

static int set_pack(variants *p, const attribute *a) {
  int status = DNN_OK;
  switch (a->name) {
    case 1000: return set_int64(a, p->uids, MAX_POINTERS, &p->uid_count);
    case 1001: return set_pointers(p, a);
    case 1003:
      status = check(a, OF_POINTER, 1);
      if (status == DNN_OK) memcpy(&p->workspace, a->values, sizeof p->workspace);
      return status;
    default: return unknown(a);
  }
}

static int set(descriptor *d, const attribute *a) {
  switch (d->kind) {
    case TENSOR: return set_tensor(&d->tensor, a);
    case CONVOLUTION: return set_convolution(&d->convolution, a);
    case POINTWISE: return set_pointwise(&d->pointwise, a);
    case FORWARD:
    case BACKWARD_DATA:
    case POINTWISE_OPERATION: return set_operation(&d->operation, a);
    case GRAPH: return set_graph(&d->graph, a);
    case HEURISTICS:
      if (a->name == 200) return set_enum(a, OF_HEURISTIC, &d->engine.mode);
      return a->name == 201 ? set_program(&d->engine, a, GRAPH) : unknown(a);
    case ENGINE: return a->name == 1300 ? set_program(&d->engine, a, GRAPH) : unknown(a);
    case CONFIG: return a->name == 300 ? set_program(&d->engine, a, ENGINE) : unknown(a);
    case PLAN:
      if (a->name == 400) return check(a, OF_HANDLE, 1);
      return a->name == 401 ? set_program(&d->engine, a, CONFIG) : unknown(a);
    case VARIANT_PACK: return set_pack(&d->variants, a);
    case KNOB_CHOICE: return unknown(a);
  }
  return unknown(a);
}

int cudnnBackendSetAttribute(descriptor *object, int name, int type, int64_t count, const void *values) {
  VCUDA_DNN_BEGIN(NULL);
  if (object == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the descriptor is NULL", __func__));
  if (object->is_final) {
    return vcuda_close(&call,
                       vcuda_dnn_bad("%s: attribute %d of %s, which is finalized", __func__, name, name_of(object->kind)));
  }
  const attribute a = {.of = name_of(object->kind), .name = name, .type = type, .count = count, .values = values};
  return vcuda_close(&call, set(object, &a));
}

/* ---- finalizing ---- */

static int finalize_tensor(const tensor *t) {
  const vcuda_dnn_tensor *s = &t->shape;
  if (s->type == VCUDA_NO_TYPE || s->rank == 0 || t->stride_count != s->rank) {
    return vcuda_dnn_bad("cudnnBackendFinalize: a TENSOR of rank %d with %d strides, type %d", s->rank, t->stride_count,
                         s->type_number);
  }
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] < 1 || s->strides[i] < 1) {
      return vcuda_dnn_bad("cudnnBackendFinalize: dim %d of a TENSOR is %lld, with stride %lld", i, (long long)s->dims[i],
                           (long long)s->strides[i]);
    }
  }
  return DNN_OK;
}

static int finalize_convolution(convolution *c) {
  c->window.spatial = (int)c->spatial;
  for (int i = 0; i < 4; i++) {
    if (c->spatial < 1 || c->counts[i] != c->spatial) {
      return vcuda_dnn_bad(
          "cudnnBackendFinalize: a CONVOLUTION of %lld spatial dims with %d dilations, %d strides, %d and %d pads",
          (long long)c->spatial, c->counts[0], c->counts[1], c->counts[3], c->counts[2]);
    }
  }
  if (c->mode != CROSS_CORRELATION) return vcuda_dnn_unknown("cudnnBackendFinalize: convolution mode %lld", (long long)c->mode);
  return DNN_OK;
}

static int finalize_pointwise(const pointwise *p) {
  if (p->mode == ADD) return DNN_OK;
  return vcuda_dnn_unknown("cudnnBackendFinalize: pointwise mode %lld is not known here", (long long)p->mode);
}

static int finalize_operation(const operation *o) {
  if (o->given[0] && o->given[1] && o->given[2] && (o->kind == POINTWISE_OPERATION || o->convolution.window.spatial > 0))
    return DNN_OK;
  return vcuda_dnn_bad("cudnnBackendFinalize: %s lacks a tensor or its convolution", name_of(o->kind));
}

/* The groups follow from the channels. */
static void start_program(program *p, const operation *o) {
  vcuda_dnn_convolution *c = &p->work;
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

/* An addition goes on with the tensor that came out of the operation before it, on either side. */
static int extend_program(program *p, const operation *o, const tensor *last) {
  vcuda_dnn_convolution *c = &p->work;
  int side = o->tensors[0].uid == last->uid ? 0 : 1;
  if (o->kind != POINTWISE_OPERATION || o->tensors[side].uid != last->uid || !last->is_virtual ||
      o->tensors[1 - side].is_virtual) {
    return vcuda_dnn_unknown(
        "cudnnBackendFinalize: a graph here is one convolution, and additions each to the result before it");
  }
  p->operands[c->step_count] = o->tensors[1 - side].uid;
  c->steps[c->step_count++] = (vcuda_dnn_step){.alpha = side == 0 ? o->alpha : o->beta,
                                               .beta = side == 0 ? o->beta : o->alpha,
                                               .operand = o->tensors[1 - side].shape,
                                               .rounded = last->shape.type};
  return DNN_OK;
}

static void note_alignment(program *p, const operation *o) {
  for (int i = 0; i < 3; i++) {
    if (o->tensors[i].alignment > p->alignment) p->alignment = o->tensors[i].alignment;
  }
}

static int finalize_graph(graph *g) {
  program *p = &g->program;
  if (!g->has_handle || g->count == 0)
    return vcuda_dnn_bad("cudnnBackendFinalize: an OPERATIONGRAPH lacks a handle or operations");
  if (g->operations[0].kind == POINTWISE_OPERATION) {
    return vcuda_dnn_unknown("cudnnBackendFinalize: a graph here begins with a convolution");
  }
  start_program(p, &g->operations[0]);
  int status = DNN_OK;
  for (int i = 0; status == DNN_OK && i < g->count; i++) {
    if (i > 0) status = extend_program(p, &g->operations[i], &g->operations[i - 1].tensors[2]);
    note_alignment(p, &g->operations[i]);
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

static int finalize_engine(const engine *e, kind of) {
  return e->given ? DNN_OK : vcuda_dnn_bad("cudnnBackendFinalize: %s has no graph", name_of(of));
}

static int finalize_pack(const variants *p) {
  if (p->uid_count == p->pointer_count) return DNN_OK;
  return vcuda_dnn_bad("cudnnBackendFinalize: a VARIANT_PACK of %d uids and %d pointers", p->uid_count, p->pointer_count);
}

static int finalize(descriptor *d) {
  switch (d->kind) {
    case TENSOR: return finalize_tensor(&d->tensor);
    case CONVOLUTION: return finalize_convolution(&d->convolution);
    case POINTWISE: return finalize_pointwise(&d->pointwise);
    case FORWARD:
    case BACKWARD_DATA:
    case POINTWISE_OPERATION: return finalize_operation(&d->operation);
    case GRAPH: return finalize_graph(&d->graph);
    case ENGINE:
    case CONFIG:
    case HEURISTICS:
    case PLAN: return finalize_engine(&d->engine, d->kind);
    case VARIANT_PACK: return finalize_pack(&d->variants);
    case KNOB_CHOICE: break;
  }
  return vcuda_dnn_unknown("cudnnBackendFinalize: %s: no engine here has knobs", name_of(d->kind));
}

int cudnnBackendFinalize(descriptor *object) {
  VCUDA_DNN_BEGIN(NULL);
  if (object == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the descriptor is NULL", __func__));
  int status = finalize(object);
  object->is_final = status == DNN_OK;
  return vcuda_close(&call, status);
}

/* ---- attributes that are asked for ---- */

typedef struct question {
  const descriptor *of;
  int name, type;
  int64_t room, *count;
  void *values;
} question;

static int answer(const question *q, int type, const void *value, size_t bytes) {
  if (q->type != type) {
    return vcuda_dnn_bad("cudnnBackendGetAttribute: attribute %d of %s has type %d, not %d", q->name, name_of(q->of->kind),
                         type, q->type);
  }
  if (q->count != NULL) *q->count = value == NULL ? 0 : 1;
  if (value != NULL && q->room > 0 && q->values != NULL) memcpy(q->values, value, bytes);
  return DNN_OK;
}

/* The caller has made the descriptor that is filled. */
static int answer_engine(const question *q, kind wanted) {
  descriptor *to = NULL;
  if (q->type != OF_DESCRIPTOR) return answer(q, OF_DESCRIPTOR, NULL, 0);
  if (q->count != NULL) *q->count = 1;
  if (q->room == 0 || q->values == NULL) return DNN_OK;
  memcpy(&to, q->values, sizeof to);
  if (to == NULL || to->kind != wanted) return vcuda_dnn_bad("cudnnBackendGetAttribute: expected %s to fill", name_of(wanted));
  to->engine = q->of->engine;
  to->is_final = true;
  return DNN_OK;
}

static int64_t workspace_of(const engine *e) {
  return e->mode == FALLBACK ? 0 : (int64_t)vcuda_dnn_workspace_bytes(&e->program.work);
}

static int get(const question *q) {
  const engine *e = &q->of->engine;
  const int64_t workspace = q->of->kind == CONFIG || q->of->kind == PLAN ? workspace_of(e) : 0,
                index = e->mode == FALLBACK ? 1 : 0;
  const int32_t shared = 0;
  switch ((int)q->of->kind << 16 | q->name) {
    case HEURISTICS << 16 | 202: return answer_engine(q, CONFIG);
    case CONFIG << 16 | 300: return answer_engine(q, ENGINE);
    case CONFIG << 16 | 302: return answer(q, OF_DESCRIPTOR, NULL, 0); /* choices of knobs */
    case CONFIG << 16 | 303: return answer(q, OF_INT64, &workspace, sizeof workspace);
    case CONFIG << 16 | 304: return answer(q, OF_INT32, &shared, sizeof shared);
    case ENGINE << 16 | 1301: return answer(q, OF_INT64, &index, sizeof index);
    case ENGINE << 16 | 1303: return answer(q, OF_NOTE, NULL, 0);
    case ENGINE << 16 | 1305: return answer(q, OF_BEHAVIOR, NULL, 0);
    case PLAN << 16 | 402: return answer(q, OF_INT64, &workspace, sizeof workspace);
    default:
      return vcuda_dnn_unknown("cudnnBackendGetAttribute: attribute %d of %s is not known here", q->name, name_of(q->of->kind));
  }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the answer is written there */
int cudnnBackendGetAttribute(const descriptor *object, int name, int type, int64_t room, int64_t *count, void *values) {
  VCUDA_DNN_BEGIN(NULL);
  if (object == NULL || !object->is_final) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: attribute %d of a descriptor that is NULL or not finalized", __func__, name));
  }
  const question q = {.of = object, .name = name, .type = type, .room = room, .count = count, .values = values};
  return vcuda_close(&call, get(&q));
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

static int bind(const program *p, const variants *pack, vcuda_dnn_convolution *c) {
  *c = p->work;
  int status = find_pointer(pack, p->data, p->alignment, &c->data_address);
  if (status == DNN_OK) status = find_pointer(pack, p->filter, p->alignment, &c->filter_address);
  if (status == DNN_OK) status = find_pointer(pack, p->result, p->alignment, &c->result_address);
  for (int i = 0; status == DNN_OK && i < c->step_count; i++) {
    status = find_pointer(pack, p->operands[i], p->alignment, &c->steps[i].address);
  }
  return status;
}

int cudnnBackendExecute(vcuda_dnn *handle, const descriptor *plan, const descriptor *pack) {
  VCUDA_DNN_OPEN(handle);
  if (plan == NULL || pack == NULL || plan->kind != PLAN || pack->kind != VARIANT_PACK || !plan->is_final || !pack->is_final) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: expected a finalized EXECUTION_PLAN and VARIANT_PACK", __func__));
  }
  vcuda_dnn_convolution c;
  int64_t workspace = workspace_of(&plan->engine);
  int status = bind(&plan->engine.program, &pack->variants, &c);
  if (status != DNN_OK) return vcuda_close(&call, status);
  if (workspace > 0 && pack->variants.workspace == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: no workspace; the plan needs %lld bytes", __func__, (long long)workspace));
  }
  c.workspace = workspace > 0 ? pack->variants.workspace : NULL;
  return vcuda_close(&call, vcuda_dnn_submit(handle, __func__, vcuda_dnn_run_convolution, &c, sizeof c));
}
