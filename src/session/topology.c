#include "session/topology.h"

#include <stdlib.h>
#include <string.h>

#include "support/hash.h"

/* Numbers of ONNX's fields. */
enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_INT = 3,
  ATTRIBUTE_TEXT = 4,
  ATTRIBUTE_TENSOR = 5,
  ATTRIBUTE_GRAPH = 6,
  ATTRIBUTE_INTS = 8
};
enum { ATTRIBUTE_GRAPHS = 11 };
enum { TENSOR_DIM = 1, TENSOR_DTYPE = 2, TENSOR_INT64 = 7, TENSOR_NAME = 8, TENSOR_RAW = 9, DTYPE_INT64 = 7 };
enum { NAME = 1024, WORD = 32, DEEPEST = 16 };

/* ---- values by name ---- */

static const char *name_of(const iobind__topology *self, uint32_t wire) {
  return (const char *)self->names.data + iobind__topology_wire(self, wire)->name;
}

/* The place in the table of a name, or the free one where it belongs. */
static size_t place_of(const iobind__topology *self, const char *name) {
  size_t place = (size_t)iobind__hash_of(name, strlen(name)).words[0] % self->table_size;
  while (self->table[place] != IOBIND__NO_INDEX && strcmp(name_of(self, self->table[place]), name) != 0) {
    place = (place + 1) % self->table_size;
  }
  return place;
}

/* Kept less than half full. */
static void widen_table(iobind__topology *self) {
  enum { FIRST = 256 };
  size_t count = iobind__topology_wire_count(self);
  if (2 * (count + 1) < self->table_size) {
    return;
  }
  size_t size = self->table_size == 0 ? FIRST : 2 * self->table_size;
  uint32_t *wider = malloc(size * sizeof *wider);
  if (wider == NULL) {
    self->failed = true;
    return;
  }
  memset(wider, 0xFF, size * sizeof *wider);
  free(self->table);
  self->table = wider;
  self->table_size = size;
  for (size_t i = 1; i < count; i++) {
    self->table[place_of(self, name_of(self, (uint32_t)i))] = (uint32_t)i;
  }
}

static uint32_t add_wire(iobind__topology *self, const char *name) {
  const iobind__wire made = {.name = self->names.length, .node = IOBIND__NO_INDEX};
  iobind__bytes_put(&self->names, name, strlen(name) + 1);
  iobind__bytes_put(&self->wires, &made, sizeof made);
  self->failed = self->failed || self->names.failed || self->wires.failed;
  return (uint32_t)(iobind__topology_wire_count(self) - 1);
}

/* The wire of the name that a field holds. A name that is too long to compare gets a wire without other connections. */
static uint32_t intern(iobind__topology *self, const iobind__field *field) {
  char name[NAME];
  bool is_whole = iobind__model_text(self->model, field, name, sizeof name);
  if (name[0] == '\0') {
    return 0;
  }
  widen_table(self);
  if (self->failed) {
    return 0;
  }
  size_t place = place_of(self, name);
  if (!is_whole || self->table[place] == IOBIND__NO_INDEX) {
    uint32_t made = add_wire(self, is_whole ? name : "");
    self->table[place] = is_whole && !self->failed ? made : self->table[place];
    return self->failed ? 0 : made;
  }
  return self->table[place];
}

uint32_t iobind__topology_find(const iobind__topology *self, const char *name) {
  return self->table_size == 0 ? IOBIND__NO_INDEX : self->table[place_of(self, name)];
}

/* ---- nodes ---- */

static iobind__op name_op(const char *op, const char *domain) {
  static const struct {
    const char *op;
    const char *domain;
    iobind__op is;
  } ops[] = {{"Identity", "", IOBIND__OP_IDENTITY},
             {"Cast", "", IOBIND__OP_CAST},
             {"Reshape", "", IOBIND__OP_RESHAPE},
             {"Squeeze", "", IOBIND__OP_SQUEEZE},
             {"Unsqueeze", "", IOBIND__OP_UNSQUEEZE},
             {"Slice", "", IOBIND__OP_SLICE},
             {"Transpose", "", IOBIND__OP_TRANSPOSE},
             {"Expand", "", IOBIND__OP_EXPAND},
             {"Shape", "", IOBIND__OP_SHAPE},
             {"Gather", "", IOBIND__OP_GATHER},
             {"Concat", "", IOBIND__OP_CONCAT},
             {"Attention", "", IOBIND__OP_ATTENTION},
             {"GroupQueryAttention", "com.microsoft", IOBIND__OP_GROUP_QUERY_ATTENTION},
             {"TensorScatter", "", IOBIND__OP_TENSOR_SCATTER},
             {"GRU", "", IOBIND__OP_GRU},
             {"LSTM", "", IOBIND__OP_LSTM},
             {"RNN", "", IOBIND__OP_RNN},
             {"Constant", "", IOBIND__OP_CONSTANT}};
  const char *of = strcmp(domain, "ai.onnx") == 0 ? "" : domain;
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    if (strcmp(ops[i].op, op) == 0 && strcmp(ops[i].domain, of) == 0) {
      return ops[i].is;
    }
  }
  return of[0] == '\0' ? IOBIND__OP_OTHER : IOBIND__OP_FOREIGN;
}

static bool attends(iobind__op op) {
  return op == IOBIND__OP_ATTENTION || op == IOBIND__OP_GROUP_QUERY_ATTENTION || op == IOBIND__OP_FOREIGN;
}

static void read_op(const iobind__topology *self, const iobind__field *field, char op[WORD], char domain[WORD]) {
  if (field->number == NODE_OP_TYPE) {
    (void)iobind__model_text(self->model, field, op, WORD);
  } else if (field->number == NODE_DOMAIN) {
    (void)iobind__model_text(self->model, field, domain, WORD);
  }
}

static void add_input(iobind__topology *self, iobind__vertex *node, const iobind__field *field) {
  uint32_t wire = intern(self, field);
  iobind__bytes_put(&self->edges, &wire, sizeof wire);
  self->failed = self->failed || self->edges.failed;
  node->input_count++;
}

static void add_output(iobind__topology *self, uint32_t slot, const iobind__field *field) {
  uint32_t wire = intern(self, field);
  if (wire != 0) {
    iobind__wire *made = (iobind__wire *)(void *)self->wires.data + wire;
    made->node = (uint32_t)iobind__topology_node_count(self);
    made->slot = slot;
  }
}

/* Add the values that nodes inside of this one read: control flow has graphs as attributes, which read values of the graphs around them. */
static void add_inner(iobind__topology *self, const iobind__field *attribute, size_t depth);

static void add_inner_node(iobind__topology *self, const iobind__field *node, size_t depth) {
  char op[WORD] = "";
  char domain[WORD] = "";
  uint64_t offset = node->offset;
  iobind__field field;
  while (!self->failed && iobind__model_next(self->model, &offset, node->offset + node->length, &field)) {
    if (field.number == NODE_INPUT) {
      uint32_t wire = intern(self, &field);
      iobind__bytes_put(&self->inner, &wire, sizeof wire);
      self->failed = self->failed || self->inner.failed;
    } else if (field.number == NODE_ATTRIBUTE) {
      add_inner(self, &field, depth);
    } else {
      read_op(self, &field, op, domain);
    }
  }
  self->attends_inside = self->attends_inside || attends(name_op(op, domain));
}

static void add_inner_graph(iobind__topology *self, const iobind__field *graph, size_t depth) {
  uint64_t offset = graph->offset;
  iobind__field field;
  while (!self->failed && iobind__model_next(self->model, &offset, graph->offset + graph->length, &field)) {
    if (field.number == GRAPH_NODE) {
      add_inner_node(self, &field, depth);
    }
  }
}

static void add_inner(iobind__topology *self, const iobind__field *attribute, size_t depth) {
  uint64_t offset = attribute->offset;
  iobind__field field;
  while (!self->failed && iobind__model_next(self->model, &offset, attribute->offset + attribute->length, &field)) {
    bool is_graph = field.number == ATTRIBUTE_GRAPH || field.number == ATTRIBUTE_GRAPHS;
    if (is_graph && depth < DEEPEST) {
      add_inner_graph(self, &field, depth + 1);
    }
    self->is_too_deep = self->is_too_deep || (is_graph && depth == DEEPEST);
  }
}

static void add_node(iobind__topology *self, const iobind__field *message) {
  char op[WORD] = "";
  char domain[WORD] = "";
  iobind__vertex node = {.first = (uint32_t)(self->edges.length / sizeof(uint32_t)), .message = *message};
  size_t inner = self->inner.length;
  uint64_t offset = message->offset;
  uint32_t outputs = 0;
  iobind__field field;
  while (iobind__model_next(self->model, &offset, message->offset + message->length, &field)) {
    if (field.number == NODE_INPUT) {
      add_input(self, &node, &field);
    } else if (field.number == NODE_OUTPUT) {
      add_output(self, outputs++, &field);
    } else if (field.number == NODE_ATTRIBUTE) {
      add_inner(self, &field, 0);
    } else {
      read_op(self, &field, op, domain);
    }
  }
  node.has_graphs = self->inner.length > inner || self->is_too_deep;
  node.op = name_op(op, domain);
  iobind__bytes_put(&self->nodes, &node, sizeof node);
  self->failed = self->failed || self->nodes.failed;
}

static void add_initializer(iobind__topology *self, const iobind__field *message) {
  uint64_t offset = message->offset;
  iobind__field field;
  while (iobind__model_next(self->model, &offset, message->offset + message->length, &field)) {
    uint32_t wire = field.number == TENSOR_NAME ? intern(self, &field) : 0;
    if (wire != 0) {
      ((iobind__wire *)(void *)self->wires.data + wire)->constant = *message;
    }
  }
}

static void add_graph(iobind__topology *self, const iobind__field *graph) {
  uint64_t offset = graph->offset;
  iobind__field field;
  while (!self->failed && iobind__model_next(self->model, &offset, graph->offset + graph->length, &field)) {
    if (field.number == GRAPH_NODE) {
      add_node(self, &field);
    } else if (field.number == GRAPH_INITIALIZER) {
      add_initializer(self, &field);
    }
  }
}

iobind_status iobind__topology_read(iobind__model_bytes *model, iobind__topology *self, iobind_error *error) {
  uint64_t offset = 0;
  iobind__field field;
  *self = (iobind__topology){.model = model};
  if (iobind__model_is_ort_format(model)) {
    return IOBIND_OK;
  }
  (void)add_wire(self, "");
  while (!self->failed && iobind__model_next(model, &offset, model->size, &field)) {
    if (field.number == MODEL_GRAPH) {
      add_graph(self, &field);
    }
  }
  iobind_status status = self->failed ? iobind__out_of_memory(error, "the model's graph") : IOBIND_OK;
  if (self->failed || !model->sound) {
    iobind__topology_free(self);
  }
  return status;
}

void iobind__topology_free(iobind__topology *self) {
  free(self->nodes.data);
  free(self->wires.data);
  free(self->edges.data);
  free(self->inner.data);
  free(self->names.data);
  free(self->table);
  *self = (iobind__topology){.model = self->model};
}

/* ---- attributes and constants ---- */

static bool add_few(iobind__few *to, uint64_t value) {
  if (to->count == IOBIND__FEW) {
    return false;
  }
  to->values[to->count++] = (int64_t)value;
  return true;
}

/* Numbers of protobuf's variable length, one or packed. */
static bool read_numbers(iobind__model_bytes *model, const iobind__field *field, iobind__few *out) {
  if (!field->is_message) {
    return add_few(out, field->value);
  }
  uint64_t offset = field->offset;
  uint64_t number;
  while (offset < field->offset + field->length) {
    if (!iobind__model_varint(model, &offset, &number) || !add_few(out, number)) {
      return false;
    }
  }
  return true;
}

static bool read_raw(iobind__model_bytes *model, const iobind__field *field, iobind__few *out) {
  char bytes[IOBIND__FEW * 8 + 1];
  if (!iobind__model_text(model, field, bytes, sizeof bytes) || field->length % 8 != 0) {
    return false;
  }
  for (size_t i = 0; i < field->length; i += 8) {
    uint64_t number = 0;
    for (size_t j = 0; j < 8; j++) {
      number |= (uint64_t)(unsigned char)bytes[i + j] << (8 * j);
    }
    (void)add_few(out, number);
  }
  return true;
}

/* External data are not read. */
static bool read_tensor(iobind__model_bytes *model, const iobind__field *tensor, iobind__few *out) {
  uint64_t offset = tensor->offset;
  iobind__field field;
  iobind__few dims = {0};
  bool is_read = false;
  bool is_int64 = false;
  out->count = 0;
  while (iobind__model_next(model, &offset, tensor->offset + tensor->length, &field)) {
    if (field.number == TENSOR_DIM && !read_numbers(model, &field, &dims)) {
      return false;
    }
    is_int64 = is_int64 || (field.number == TENSOR_DTYPE && field.value == DTYPE_INT64);
    if (field.number == TENSOR_INT64 || field.number == TENSOR_RAW) {
      is_read = field.number == TENSOR_RAW ? read_raw(model, &field, out) : read_numbers(model, &field, out);
      if (!is_read) {
        return false;
      }
    }
  }
  return is_read && is_int64 && dims.count <= 1;
}

/* The attribute of that name; false: the node has none. */
static bool find_attribute(const iobind__topology *self, uint32_t node, const char *name, iobind__field *found) {
  const iobind__field message = iobind__topology_node(self, node)->message;
  uint64_t offset = message.offset;
  while (iobind__model_next(self->model, &offset, message.offset + message.length, found)) {
    uint64_t inner = found->offset;
    iobind__field field;
    char text[WORD] = "";
    while (found->number == NODE_ATTRIBUTE && iobind__model_next(self->model, &inner, found->offset + found->length, &field)) {
      if (field.number == ATTRIBUTE_NAME) {
        (void)iobind__model_text(self->model, &field, text, sizeof text);
      }
    }
    if (strcmp(text, name) == 0) {
      return true;
    }
  }
  return false;
}

bool iobind__topology_attribute(const iobind__topology *self, uint32_t node, const char *name, iobind__few *out) {
  iobind__field attribute;
  iobind__field field;
  out->count = 0;
  if (!find_attribute(self, node, name, &attribute)) {
    return false;
  }
  uint64_t offset = attribute.offset;
  while (iobind__model_next(self->model, &offset, attribute.offset + attribute.length, &field)) {
    if ((field.number == ATTRIBUTE_INT || field.number == ATTRIBUTE_INTS) && !read_numbers(self->model, &field, out)) {
      return false;
    }
  }
  return out->count > 0;
}

bool iobind__topology_attribute_is(const iobind__topology *self, uint32_t node, const char *name, const char *text) {
  iobind__field attribute;
  iobind__field field;
  char got[WORD] = "";
  if (!find_attribute(self, node, name, &attribute)) {
    return false;
  }
  uint64_t offset = attribute.offset;
  while (iobind__model_next(self->model, &offset, attribute.offset + attribute.length, &field)) {
    if (field.number == ATTRIBUTE_TEXT) {
      (void)iobind__model_text(self->model, &field, got, sizeof got);
    }
  }
  return strcmp(got, text) == 0;
}

/* A Constant node has its tensor as an attribute, or some numbers. */
static bool read_constant_node(const iobind__topology *self, uint32_t node, iobind__few *out) {
  iobind__field attribute;
  iobind__field field;
  if (!find_attribute(self, node, "value", &attribute)) {
    return iobind__topology_attribute(self, node, "value_ints", out);
  }
  uint64_t offset = attribute.offset;
  while (iobind__model_next(self->model, &offset, attribute.offset + attribute.length, &field)) {
    if (field.number == ATTRIBUTE_TENSOR) {
      return read_tensor(self->model, &field, out);
    }
  }
  return false;
}

bool iobind__topology_constant(const iobind__topology *self, uint32_t wire, iobind__few *out) {
  const iobind__wire *of = iobind__topology_wire(self, wire);
  out->count = 0;
  if (of->constant.number != 0) {
    return read_tensor(self->model, &of->constant, out);
  }
  bool is_node = of->node != IOBIND__NO_INDEX && iobind__topology_node(self, of->node)->op == IOBIND__OP_CONSTANT;
  return is_node && read_constant_node(self, of->node, out);
}
