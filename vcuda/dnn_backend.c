/* cuDNN's graph interface: descriptors with numbered attributes. A descriptor copies the descriptors that are set as its attributes,
 * so each may be freed at any time. Each graph has one engine, which computes it as one piece of work. */
#include "dnn_backend.h"

#include <stdlib.h>
#include <string.h>

#include "dnn_descriptor.h"

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
    case PRODUCT: return "MATMUL";
    case PRODUCT_OPERATION: return "OPERATION_MATMUL";
    case REDUCTION: return "REDUCTION";
    case REDUCTION_OPERATION: return "OPERATION_REDUCTION";
    case ATTENTION_OPERATION: return "OPERATION_SDPA_FWD";
  }
  return NULL;
}

static bool is_operation(kind k) {
  return k == FORWARD || k == BACKWARD_DATA || k == POINTWISE_OPERATION || k == PRODUCT_OPERATION || k == REDUCTION_OPERATION ||
         k == ATTENTION_OPERATION;
}

int cudnnBackendCreateDescriptor(int number, descriptor **object) {
  VCUDA_DNN_BEGIN(NULL);
  if (object == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the descriptor", __func__));
  if (name_of((kind)number) == NULL)
    return vcuda_close(&call, vcuda_dnn_unknown("%s: kind %d is not known here", __func__, number));
  descriptor *made = *object = calloc(1, sizeof *made);
  if (made == NULL) return vcuda_close(&call, DNN_NO_MEMORY);
  made->kind = (kind)number;
  if (made->kind == TENSOR) made->tensor.alignment = 1;
  if (is_operation(made->kind)) {
    made->operation.kind = made->kind;
    made->operation.alpha = 1;
    made->operation.beta = made->kind == POINTWISE_OPERATION ? 1 : 0;
  }
  return vcuda_close(&call, DNN_OK);
}

int cudnnBackendDestroyDescriptor(descriptor *object) {
  VCUDA_OPEN(NULL);
  if (object != NULL && object->kind == GRAPH) free(object->graph.operations);
  free(object);
  return vcuda_close(&call, DNN_OK);
}

/* ---- setting attributes ---- */

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
  enum { BOOLEAN = 11 };
  int64_t value = 0;
  int status = set_enum(a, OF_DATA_TYPE, &value);
  if (status != DNN_OK) return status;
  *type = value == BOOLEAN ? VCUDA_BOOL : vcuda_dnn_type((int)value);
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

static int get_one(const attribute *a, kind wanted, const descriptor **found) {
  int status = check(a, OF_DESCRIPTOR, 1);
  if (status != DNN_OK) return status;
  memcpy(found, a->values, sizeof *found);
  if (*found != NULL && (*found)->kind == wanted && (*found)->is_final) return DNN_OK;
  return vcuda_dnn_bad("cudnnBackendSetAttribute: attribute %d of %s: expected a finalized %s", a->name, a->of,
                       name_of(wanted));
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
  switch (a->name) {
    case 900: return set_int64(a, &t->alignment, 1, NULL);
    case 901: return set_type(a, &t->shape.type, &t->shape.type_number);
    case 902: return set_int64(a, t->shape.dims, DNN_MAX_SPATIAL + 2, &t->shape.rank);
    case 903: return set_int64(a, t->shape.strides, DNN_MAX_SPATIAL + 2, &t->stride_count);
    case 906: return set_int64(a, &t->uid, 1, NULL);
    case 907: return set_boolean(a, &t->is_virtual);
    case 908: return set_boolean(a, &t->is_by_value);
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

static int set_pointwise(rule *r, const attribute *a) {
  switch (a->name) {
    case 0: return set_enum(a, OF_POINTWISE_MODE, &r->mode);
    case 1: return set_type(a, &r->compute, NULL);
    case 9: return set_int64(a, &r->axis, 1, NULL);
    default: return unknown(a);
  }
}

static int set_reduction(rule *r, const attribute *a) {
  bool is_deterministic = true; /* it always is */
  switch (a->name) {
    case 1600: return set_enum(a, OF_REDUCTION_OPERATOR, &r->mode);
    case 1601: return set_type(a, &r->compute, NULL);
    case 1602: return set_boolean(a, &is_deterministic);
    default: return unknown(a);
  }
}

static int set_product(rule *r, const attribute *a) {
  switch (a->name) {
    case 1500: return set_type(a, &r->compute, NULL);
    case 1503: return set_real(a, &r->padding);
    default: return unknown(a);
  }
}

static int set_window(operation *o, const attribute *a) {
  const descriptor *found = NULL;
  int status = get_one(a, CONVOLUTION, &found);
  if (status == DNN_OK) o->convolution = found->convolution;
  return status;
}

static int set_rule(operation *o, const attribute *a, kind of) {
  const descriptor *found = NULL;
  int status = get_one(a, of, &found);
  if (status == DNN_OK) o->rule = found->rule;
  return status;
}

static int set_pointwise_operation(operation *o, const attribute *a) {
  switch (a->name) {
    case 750: return set_rule(o, a, POINTWISE);
    case 751: return set_operand(a, o, 0);
    case 752: return set_operand(a, o, 1);
    case 753: return set_operand(a, o, 2);
    case 754: return set_real(a, &o->alpha);
    case 755: return set_real(a, &o->beta);
    case 758: return set_operand(a, o, 3);
    default: return unknown(a);
  }
}

static int set_matrix_operation(operation *o, const attribute *a) {
  switch (a->name) {
    case 1520: return set_operand(a, o, 0);
    case 1521: return set_operand(a, o, 1);
    case 1522: return set_operand(a, o, 2);
    case 1523: return set_rule(o, a, PRODUCT);
    case 1525: return set_operand(a, o, 3);
    case 1526: return set_operand(a, o, 4);
    case 1527: return set_operand(a, o, 5);
    default: return unknown(a);
  }
}

static int set_reduction_operation(operation *o, const attribute *a) {
  switch (a->name) {
    case 1610: return set_operand(a, o, 0);
    case 1611: return set_operand(a, o, 2);
    case 1612: return set_rule(o, a, REDUCTION);
    default: return unknown(a);
  }
}

static int set_attention(operation *o, const attribute *a) {
  switch (a->name) {
    case 2800: return set_operand(a, o, 0);
    case 2801: return set_operand(a, o, 1);
    case 2802: return set_operand(a, o, 3);
    case 2803: return set_operand(a, o, 2);
    case 2804: return set_operand(a, o, 5);
    case 2805: return set_operand(a, o, 4);
    default: return unknown(a);
  }
}

static int set_convolution_operation(operation *o, const attribute *a) {
  int name = a->name;
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

static int set_operation(operation *o, const attribute *a) {
  switch (o->kind) {
    case POINTWISE_OPERATION: return set_pointwise_operation(o, a);
    case PRODUCT_OPERATION: return set_matrix_operation(o, a);
    case REDUCTION_OPERATION: return set_reduction_operation(o, a);
    case ATTENTION_OPERATION: return set_attention(o, a);
    default: return set_convolution_operation(o, a);
  }
}

static int set_operations(graph *g, const attribute *a) {
  int status = check(a, OF_DESCRIPTOR, MAX_OPERATIONS);
  if (status != DNN_OK) return status;
  free(g->operations);
  g->count = 0;
  g->operations = calloc((size_t)a->count, sizeof *g->operations);
  if (g->operations == NULL) return DNN_NO_MEMORY;
  for (int64_t i = 0; i < a->count; i++) {
    const descriptor *found = NULL;
    memcpy(&found, (const char *)a->values + (size_t)i * sizeof(descriptor *), sizeof found);
    if (found == NULL || !is_operation(found->kind) || !found->is_final) {
      return vcuda_dnn_bad("cudnnBackendSetAttribute: attribute %d of %s: expected finalized operations", a->name, a->of);
    }
    g->operations[g->count++] = found->operation;
  }
  return DNN_OK;
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
    case POINTWISE: return set_pointwise(&d->rule, a);
    case REDUCTION: return set_reduction(&d->rule, a);
    case PRODUCT: return set_product(&d->rule, a);
    case FORWARD:
    case BACKWARD_DATA:
    case POINTWISE_OPERATION:
    case PRODUCT_OPERATION:
    case REDUCTION_OPERATION:
    case ATTENTION_OPERATION: return set_operation(&d->operation, a);
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

static int finalize_pointwise(const rule *r) {
  if (vcuda_dnn_operand_count(r->mode) > 0) return DNN_OK;
  return vcuda_dnn_unknown("cudnnBackendFinalize: pointwise mode %lld is not known here", (long long)r->mode);
}

static int finalize_reduction(const rule *r) {
  if (r->mode == REDUCE_ADD || r->mode == REDUCE_MAX) return DNN_OK;
  return vcuda_dnn_unknown("cudnnBackendFinalize: reduction operator %lld is not known here", (long long)r->mode);
}

static bool is_whole(const operation *o) {
  bool has_two = o->given[0] && o->given[2];
  switch (o->kind) {
    case POINTWISE_OPERATION: {
      int count = vcuda_dnn_operand_count(o->rule.mode);
      return has_two && o->given[1] == (count > 1) && o->given[3] == (count > 2);
    }
    case REDUCTION_OPERATION: return has_two;
    case PRODUCT_OPERATION: return has_two && o->given[1];
    case ATTENTION_OPERATION: return has_two && o->given[1] && o->given[3];
    default: return has_two && o->given[1] && o->convolution.window.spatial > 0;
  }
}

static int finalize_operation(const operation *o) {
  if (is_whole(o)) return DNN_OK;
  return vcuda_dnn_bad("cudnnBackendFinalize: %s lacks a tensor or what it is to compute, or has one too many",
                       name_of(o->kind));
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
    case POINTWISE: return finalize_pointwise(&d->rule);
    case REDUCTION: return finalize_reduction(&d->rule);
    case PRODUCT: return DNN_OK;
    case FORWARD:
    case BACKWARD_DATA:
    case POINTWISE_OPERATION:
    case PRODUCT_OPERATION:
    case REDUCTION_OPERATION:
    case ATTENTION_OPERATION: return finalize_operation(&d->operation);
    case GRAPH: return vcuda_dnn_compile(&d->graph);
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

/* ---- getting attributes ---- */

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

/* Fill a descriptor that the caller has created. */
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
  return e->mode == FALLBACK ? 0 : (int64_t)vcuda_dnn_program_workspace_bytes(&e->program);
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

/* NOLINTNEXTLINE(readability-non-const-parameter): the result is written there */
int cudnnBackendGetAttribute(const descriptor *object, int name, int type, int64_t room, int64_t *count, void *values) {
  VCUDA_DNN_BEGIN(NULL);
  if (object == NULL || !object->is_final) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: attribute %d of a descriptor that is NULL or not finalized", __func__, name));
  }
  const question q = {.of = object, .name = name, .type = type, .room = room, .count = count, .values = values};
  return vcuda_close(&call, get(&q));
}

/* ---- executing ---- */

int cudnnBackendExecute(vcuda_dnn *handle, const descriptor *plan, const descriptor *pack) {
  VCUDA_DNN_OPEN(handle);
  if (plan == NULL || pack == NULL || plan->kind != PLAN || pack->kind != VARIANT_PACK || !plan->is_final || !pack->is_final) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: expected a finalized EXECUTION_PLAN and VARIANT_PACK", __func__));
  }
  int64_t workspace = workspace_of(&plan->engine);
  if (workspace > 0 && pack->variants.workspace == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: no workspace; the plan needs %lld bytes", __func__, (long long)workspace));
  }
  void *room = workspace > 0 ? pack->variants.workspace : NULL;
  return vcuda_close(&call, vcuda_dnn_execute(handle, &plan->engine.program, &pack->variants, room));
}
