#include "onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5, VARINT_MAX = 10 };

/* The kinds of messages that stay open between calls. */
enum { KIND_NONE, KIND_MODEL, KIND_GRAPH, KIND_NODE, KIND_ATTRIBUTE_GRAPH, KIND_ATTRIBUTE_GRAPHS, KIND_PLAIN };

/* Field numbers of onnx.proto, by message. */
enum {
  MODEL_IR_VERSION = 1,
  MODEL_PRODUCER = 2,
  MODEL_PRODUCER_VERSION = 3,
  MODEL_DOMAIN = 4,
  MODEL_VERSION = 5,
  MODEL_DESCRIPTION = 6,
  MODEL_GRAPH = 7,
  MODEL_OPSET = 8,
  MODEL_METADATA = 14
};
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_F = 2,
  ATTRIBUTE_I = 3,
  ATTRIBUTE_S = 4,
  ATTRIBUTE_T = 5,
  ATTRIBUTE_G = 6,
  ATTRIBUTE_FLOATS = 7,
  ATTRIBUTE_INTS = 8,
  ATTRIBUTE_STRINGS = 9,
  ATTRIBUTE_TENSORS = 10,
  ATTRIBUTE_GRAPHS = 11,
  ATTRIBUTE_TP = 14,
  ATTRIBUTE_TYPE_PROTOS = 15,
  ATTRIBUTE_TYPE = 20
};
enum {
  ATTRIBUTE_TYPE_FLOAT = 1,
  ATTRIBUTE_TYPE_INT = 2,
  ATTRIBUTE_TYPE_STRING = 3,
  ATTRIBUTE_TYPE_TENSOR = 4,
  ATTRIBUTE_TYPE_GRAPH = 5,
  ATTRIBUTE_TYPE_FLOATS = 6,
  ATTRIBUTE_TYPE_INTS = 7,
  ATTRIBUTE_TYPE_STRINGS = 8,
  ATTRIBUTE_TYPE_TENSORS = 9,
  ATTRIBUTE_TYPE_GRAPHS = 10,
  ATTRIBUTE_TYPE_TYPE = 13,
  ATTRIBUTE_TYPE_TYPES = 14
};
enum { VALUE_NAME = 1, VALUE_TYPE = 2 };
enum { TYPE_TENSOR = 1, TYPE_SEQUENCE = 4, TYPE_MAP = 5, TYPE_SPARSE_TENSOR = 8, TYPE_OPTIONAL = 9 };
enum { TYPE_ELEMENT = 1, TYPE_SHAPE = 2, TYPE_MAP_KEY = 1, TYPE_MAP_VALUE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_SYMBOL = 2 };
enum {
  TENSOR_DIMS = 1,
  TENSOR_DTYPE = 2,
  TENSOR_STRINGS = 6,
  TENSOR_NAME = 8,
  TENSOR_RAW = 9,
  TENSOR_EXTERNAL = 13,
  TENSOR_LOCATION = 14
};
enum { LOCATION_EXTERNAL = 1 };

/* Bits of one element by onnx_dtype; 0 if elements have no size. */
static const unsigned char dtype_bits[] = {0,  32,  8,  8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64,
                                           64, 128, 16, 8, 8,  8,  8,  4,  4, 4, 8,  2,  2};

static onnx_status fail(onnx_writer *writer, onnx_status status) {
  if (writer->status == ONNX_OK) writer->status = status;
  return (onnx_status)writer->status;
}

/* Whether `kind` is the innermost open message; KIND_NONE: whether nothing is open. */
static int expect(onnx_writer *writer, int kind) {
  if (writer->status != ONNX_OK) return 0;
  int innermost = writer->depth == 0 ? KIND_NONE : writer->open[writer->depth - 1].kind;
  if (innermost == kind) return 1;
  fail(writer, ONNX_MISPLACED);
  return 0;
}

/* Makes room for `count` more bytes. */
static int reserve(onnx_writer *writer, size_t count) {
  if (writer->status != ONNX_OK) return 0;
  size_t limit = writer->limit != 0 ? writer->limit : (size_t)INT32_MAX;
  if (count > limit || writer->size > limit - count) {
    fail(writer, ONNX_TOO_LARGE);
    return 0;
  }
  size_t needed = writer->size + count;
  if (needed <= writer->capacity) return 1;
  size_t capacity = writer->capacity < 512 ? 1024 : writer->capacity * 2;
  if (capacity < needed) capacity = needed;
  unsigned char *bytes = realloc(writer->bytes, capacity);
  if (bytes == NULL) {
    fail(writer, ONNX_OUT_OF_MEMORY);
    return 0;
  }
  writer->bytes = bytes;
  writer->capacity = capacity;
  return 1;
}

static void put_bytes(onnx_writer *writer, const void *bytes, size_t count) {
  if (count == 0 || !reserve(writer, count)) return;
  memcpy(writer->bytes + writer->size, bytes, count);
  writer->size += count;
}

static size_t encode_varint(uint64_t value, unsigned char encoded[VARINT_MAX]) {
  size_t count = 0;
  while (value >= 0x80) {
    encoded[count++] = (unsigned char)(value | 0x80);
    value >>= 7;
  }
  encoded[count++] = (unsigned char)value;
  return count;
}

static void put_varint(onnx_writer *writer, uint64_t value) {
  unsigned char encoded[VARINT_MAX];
  put_bytes(writer, encoded, encode_varint(value, encoded));
}

static void put_tag(onnx_writer *writer, int field, int wire) {
  put_varint(writer, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_int(onnx_writer *writer, int field, int64_t value) {
  put_tag(writer, field, WIRE_VARINT);
  put_varint(writer, (uint64_t)value);
}

static void put_float(onnx_writer *writer, int field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  unsigned char encoded[4] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
                              (unsigned char)(bits >> 24)};
  put_tag(writer, field, WIRE_FIXED32);
  put_bytes(writer, encoded, sizeof encoded);
}

static void put_blob(onnx_writer *writer, int field, const void *bytes, size_t count) {
  put_tag(writer, field, WIRE_BYTES);
  put_varint(writer, count);
  put_bytes(writer, bytes, count);
}

/* Text that must not be NULL. */
static void put_text(onnx_writer *writer, int field, const char *text) {
  if (text == NULL) {
    fail(writer, ONNX_INVALID);
    return;
  }
  put_blob(writer, field, text, strlen(text));
}

static void put_optional_text(onnx_writer *writer, int field, const char *text) {
  if (text != NULL && text[0] != '\0') put_text(writer, field, text);
}

static void put_texts(onnx_writer *writer, int field, const char *const *texts, const size_t *lengths, size_t count) {
  if (texts == NULL && count != 0) fail(writer, ONNX_INVALID);
  for (size_t i = 0; i < count && writer->status == ONNX_OK; i++) {
    if (texts[i] != NULL && lengths != NULL) {
      put_blob(writer, field, texts[i], lengths[i]);
    } else {
      put_text(writer, field, texts[i]);
    }
  }
}

static void begin(onnx_writer *writer, int field, int kind) {
  if (writer->status != ONNX_OK) return;
  if (writer->depth == ONNX_MAX_DEPTH) {
    fail(writer, ONNX_TOO_LARGE);
    return;
  }
  if (field != 0) put_tag(writer, field, WIRE_BYTES);
  writer->open[writer->depth].start = writer->size;
  writer->open[writer->depth].kind = kind;
  writer->open[writer->depth].count = 0;
  writer->depth++;
}

/* A message's length comes before its content, but is known only now: the content moves up by the few bytes of the length. */
static void end(onnx_writer *writer) {
  if (writer->status != ONNX_OK) return;
  size_t start = writer->open[writer->depth - 1].start;
  size_t content = writer->size - start;
  unsigned char length[VARINT_MAX];
  size_t count = encode_varint(content, length);
  if (!reserve(writer, count)) return;
  memmove(writer->bytes + start + count, writer->bytes + start, content);
  memcpy(writer->bytes + start, length, count);
  writer->size += count;
  writer->depth--;
}

static void put_entry(onnx_writer *writer, int field, const char *key, const char *value) {
  begin(writer, field, KIND_PLAIN);
  put_text(writer, ENTRY_KEY, key);
  put_text(writer, ENTRY_VALUE, value);
  end(writer);
}

onnx_status onnx_writer_finish(onnx_writer *writer, const void **bytes, size_t *size) {
  *bytes = NULL;
  *size = 0;
  if (writer->status == ONNX_OK && (writer->depth != 0 || writer->size == 0)) fail(writer, ONNX_MISPLACED);
  if (writer->status != ONNX_OK) return (onnx_status)writer->status;
  *bytes = writer->bytes;
  *size = writer->size;
  return ONNX_OK;
}

void onnx_writer_release(onnx_writer *writer) {
  size_t limit = writer->limit;
  free(writer->bytes);
  memset(writer, 0, sizeof *writer);
  writer->limit = limit;
}

const char *onnx_status_text(int32_t status) {
  switch (status) {
    case ONNX_OK: return "success";
    case ONNX_OUT_OF_MEMORY: return "out of memory";
    case ONNX_TOO_LARGE: return "too large or too deeply nested for a model file";
    case ONNX_MISPLACED: return "a call that does not belong in the open message";
    case ONNX_INVALID: return "a wrong argument";
    default: return "unknown";
  }
}

/* ---- model and graph ---- */

onnx_status onnx_model_begin(onnx_writer *writer, const onnx_model *model) {
  static const onnx_model defaults = {0};
  if (!expect(writer, KIND_NONE)) return (onnx_status)writer->status;
  if (writer->size != 0) return fail(writer, ONNX_MISPLACED);
  if (model == NULL) model = &defaults;
  writer->open[0].kind = KIND_MODEL; /* the outermost message is the file: it has no tag and no length */
  writer->depth = 1;
  put_int(writer, MODEL_IR_VERSION, model->ir_version != 0 ? model->ir_version : 10);
  put_optional_text(writer, MODEL_PRODUCER, model->producer);
  put_optional_text(writer, MODEL_PRODUCER_VERSION, model->producer_version);
  put_optional_text(writer, MODEL_DOMAIN, model->domain);
  if (model->model_version != 0) put_int(writer, MODEL_VERSION, model->model_version);
  put_optional_text(writer, MODEL_DESCRIPTION, model->description);
  return (onnx_status)writer->status;
}

onnx_status onnx_model_end(onnx_writer *writer) {
  if (expect(writer, KIND_MODEL)) writer->depth = 0;
  return (onnx_status)writer->status;
}

onnx_status onnx_opset(onnx_writer *writer, const char *domain, int64_t version) {
  if (!expect(writer, KIND_MODEL)) return (onnx_status)writer->status;
  begin(writer, MODEL_OPSET, KIND_PLAIN);
  put_text(writer, OPSET_DOMAIN, domain);
  put_int(writer, OPSET_VERSION, version);
  end(writer);
  return (onnx_status)writer->status;
}

onnx_status onnx_metadata(onnx_writer *writer, const char *key, const char *value) {
  if (expect(writer, KIND_MODEL)) put_entry(writer, MODEL_METADATA, key, value);
  return (onnx_status)writer->status;
}

onnx_status onnx_graph_begin(onnx_writer *writer, const char *name) {
  if (writer->status != ONNX_OK) return (onnx_status)writer->status;
  if (writer->depth == 0) return fail(writer, ONNX_MISPLACED);
  int32_t around = writer->open[writer->depth - 1].kind;
  uint32_t *count = &writer->open[writer->depth - 1].count;
  int field;
  if (around == KIND_MODEL && *count == 0) {
    field = MODEL_GRAPH;
  } else if (around == KIND_ATTRIBUTE_GRAPH && *count == 0) {
    field = ATTRIBUTE_G;
  } else if (around == KIND_ATTRIBUTE_GRAPHS) {
    field = ATTRIBUTE_GRAPHS;
  } else {
    return fail(writer, ONNX_MISPLACED);
  }
  (*count)++;
  begin(writer, field, KIND_GRAPH);
  put_text(writer, GRAPH_NAME, name);
  return (onnx_status)writer->status;
}

onnx_status onnx_graph_end(onnx_writer *writer) {
  if (expect(writer, KIND_GRAPH)) end(writer);
  return (onnx_status)writer->status;
}

/* ---- values ---- */

static void put_shape(onnx_writer *writer, const onnx_type *type) {
  begin(writer, TYPE_SHAPE, KIND_PLAIN);
  for (size_t i = 0; i < type->rank && writer->status == ONNX_OK; i++) {
    begin(writer, SHAPE_DIM, KIND_PLAIN);
    if (type->dims[i] >= 0) {
      put_int(writer, DIM_VALUE, type->dims[i]);
    } else if (type->symbols != NULL) {
      put_optional_text(writer, DIM_SYMBOL, type->symbols[i]);
    }
    end(writer);
  }
  end(writer);
}

/* Writes a TypeProto into `field` of the open message. The recursion ends because begin refuses more than ONNX_MAX_DEPTH
 * messages. */
static void put_type(onnx_writer *writer, int field, const onnx_type *type) {
  static const int fields[] = {TYPE_TENSOR, TYPE_SPARSE_TENSOR, TYPE_SEQUENCE, TYPE_MAP, TYPE_OPTIONAL};
  if (writer->status != ONNX_OK) return;
  if (type == NULL || type->kind < ONNX_KIND_TENSOR || type->kind > ONNX_KIND_OPTIONAL ||
      (type->rank != 0 && type->dims == NULL)) {
    fail(writer, ONNX_INVALID);
    return;
  }
  begin(writer, field, KIND_PLAIN);
  begin(writer, fields[type->kind], KIND_PLAIN);
  switch (type->kind) {
    case ONNX_KIND_TENSOR:
    case ONNX_KIND_SPARSE_TENSOR:
      put_int(writer, TYPE_ELEMENT, type->dtype);
      if (!type->no_shape) put_shape(writer, type);
      break;
    case ONNX_KIND_MAP:
      put_int(writer, TYPE_MAP_KEY, type->dtype);
      put_type(writer, TYPE_MAP_VALUE, type->element);
      break;
    default: put_type(writer, TYPE_ELEMENT, type->element); break;
  }
  end(writer);
  end(writer);
}

static onnx_status put_value(onnx_writer *writer, int field, const char *name, const onnx_type *type) {
  if (!expect(writer, KIND_GRAPH)) return (onnx_status)writer->status;
  begin(writer, field, KIND_PLAIN);
  put_text(writer, VALUE_NAME, name);
  if (type != NULL) put_type(writer, VALUE_TYPE, type);
  end(writer);
  return (onnx_status)writer->status;
}

onnx_status onnx_input(onnx_writer *writer, const char *name, const onnx_type *type) {
  return put_value(writer, GRAPH_INPUT, name, type);
}

onnx_status onnx_output(onnx_writer *writer, const char *name, const onnx_type *type) {
  return put_value(writer, GRAPH_OUTPUT, name, type);
}

onnx_status onnx_value(onnx_writer *writer, const char *name, const onnx_type *type) {
  return put_value(writer, GRAPH_VALUE, name, type);
}

/* Elements of a tensor; 0 and *valid = 0 if the dims are invalid. */
static uint64_t count_elements(const onnx_tensor *tensor, int *valid) {
  uint64_t count = 1;
  int empty = 0;
  *valid = tensor->rank == 0 || tensor->dims != NULL;
  for (size_t i = 0; *valid && i < tensor->rank; i++) {
    if (tensor->dims[i] < 0) *valid = 0;
    empty |= tensor->dims[i] == 0;
  }
  for (size_t i = 0; *valid && !empty && i < tensor->rank; i++) {
    if (count > UINT64_MAX / 128 / (uint64_t)tensor->dims[i]) *valid = 0; /* 128: the number of bits must not overflow either */
    count *= (uint64_t)tensor->dims[i];
  }
  return *valid && !empty ? count : 0;
}

static int fits(const onnx_tensor *tensor, uint64_t count) {
  int sources = (tensor->data != NULL) + (tensor->strings != NULL) + (tensor->location != NULL);
  if (tensor->dtype <= ONNX_UNDEFINED || (size_t)tensor->dtype >= sizeof dtype_bits) return 0;
  if (tensor->location != NULL) return sources == 1 && tensor->dtype != ONNX_STRING;
  if (count == 0) return tensor->bytes == 0;
  if (tensor->dtype == ONNX_STRING) return sources == 1 && tensor->strings != NULL;
  return sources == 1 && tensor->data != NULL && tensor->bytes == (count * dtype_bits[tensor->dtype] + 7) / 8;
}

static void put_number_entry(onnx_writer *writer, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, value);
  put_entry(writer, TENSOR_EXTERNAL, key, text);
}

static void put_tensor(onnx_writer *writer, int field, const onnx_tensor *tensor) {
  if (writer->status != ONNX_OK) return;
  int valid = 0;
  uint64_t count = tensor == NULL ? 0 : count_elements(tensor, &valid);
  if (!valid || !fits(tensor, count)) {
    fail(writer, ONNX_INVALID);
    return;
  }
  begin(writer, field, KIND_PLAIN);
  for (size_t i = 0; i < tensor->rank; i++) put_int(writer, TENSOR_DIMS, tensor->dims[i]);
  put_int(writer, TENSOR_DTYPE, tensor->dtype);
  put_optional_text(writer, TENSOR_NAME, tensor->name);
  if (tensor->location != NULL) {
    put_entry(writer, TENSOR_EXTERNAL, "location", tensor->location);
    put_number_entry(writer, "offset", tensor->offset);
    if (tensor->length != 0) put_number_entry(writer, "length", tensor->length);
    put_int(writer, TENSOR_LOCATION, LOCATION_EXTERNAL);
  } else if (tensor->dtype == ONNX_STRING) {
    put_texts(writer, TENSOR_STRINGS, tensor->strings, tensor->lengths, (size_t)count);
  } else {
    put_blob(writer, TENSOR_RAW, tensor->data, count == 0 ? 0 : tensor->bytes);
  }
  end(writer);
}

onnx_status onnx_initializer(onnx_writer *writer, const onnx_tensor *tensor) {
  if (!expect(writer, KIND_GRAPH)) return (onnx_status)writer->status;
  if (tensor == NULL || tensor->name == NULL || tensor->name[0] == '\0') return fail(writer, ONNX_INVALID);
  put_tensor(writer, GRAPH_INITIALIZER, tensor);
  return (onnx_status)writer->status;
}

/* ---- nodes ---- */

onnx_status onnx_node_begin(onnx_writer *writer, const char *op_type, const char *domain, const char *name) {
  if (!expect(writer, KIND_GRAPH)) return (onnx_status)writer->status;
  begin(writer, GRAPH_NODE, KIND_NODE);
  put_text(writer, NODE_OP_TYPE, op_type);
  put_optional_text(writer, NODE_DOMAIN, domain);
  put_optional_text(writer, NODE_NAME, name);
  return (onnx_status)writer->status;
}

onnx_status onnx_node_input(onnx_writer *writer, const char *name) {
  if (expect(writer, KIND_NODE)) put_text(writer, NODE_INPUT, name);
  return (onnx_status)writer->status;
}

onnx_status onnx_node_output(onnx_writer *writer, const char *name) {
  if (expect(writer, KIND_NODE)) put_text(writer, NODE_OUTPUT, name);
  return (onnx_status)writer->status;
}

onnx_status onnx_node_end(onnx_writer *writer) {
  if (expect(writer, KIND_NODE)) end(writer);
  return (onnx_status)writer->status;
}

/* Opens an attribute of the node and writes its name and type; the caller writes the value and closes it. */
static int begin_attribute(onnx_writer *writer, const char *name, int type, int kind) {
  if (!expect(writer, KIND_NODE)) return 0;
  begin(writer, NODE_ATTRIBUTE, kind);
  put_text(writer, ATTRIBUTE_NAME, name);
  put_int(writer, ATTRIBUTE_TYPE, type);
  return writer->status == ONNX_OK;
}

static onnx_status end_attribute(onnx_writer *writer) {
  end(writer);
  return (onnx_status)writer->status;
}

onnx_status onnx_attribute_int(onnx_writer *writer, const char *name, int64_t value) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_INT, KIND_PLAIN)) put_int(writer, ATTRIBUTE_I, value);
  return end_attribute(writer);
}

onnx_status onnx_attribute_float(onnx_writer *writer, const char *name, float value) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_FLOAT, KIND_PLAIN)) put_float(writer, ATTRIBUTE_F, value);
  return end_attribute(writer);
}

onnx_status onnx_attribute_string(onnx_writer *writer, const char *name, const char *text, size_t length) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_STRING, KIND_PLAIN)) {
    if (text == NULL && length != 0) return fail(writer, ONNX_INVALID);
    put_blob(writer, ATTRIBUTE_S, text, length);
  }
  return end_attribute(writer);
}

onnx_status onnx_attribute_ints(onnx_writer *writer, const char *name, const int64_t *values, size_t count) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_INTS, KIND_PLAIN)) {
    if (values == NULL && count != 0) return fail(writer, ONNX_INVALID);
    for (size_t i = 0; i < count; i++) put_int(writer, ATTRIBUTE_INTS, values[i]);
  }
  return end_attribute(writer);
}

onnx_status onnx_attribute_floats(onnx_writer *writer, const char *name, const float *values, size_t count) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_FLOATS, KIND_PLAIN)) {
    if (values == NULL && count != 0) return fail(writer, ONNX_INVALID);
    for (size_t i = 0; i < count; i++) put_float(writer, ATTRIBUTE_FLOATS, values[i]);
  }
  return end_attribute(writer);
}

onnx_status onnx_attribute_strings(onnx_writer *writer, const char *name, const char *const *texts, const size_t *lengths,
                                   size_t count) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_STRINGS, KIND_PLAIN)) {
    put_texts(writer, ATTRIBUTE_STRINGS, texts, lengths, count);
  }
  return end_attribute(writer);
}

onnx_status onnx_attribute_tensor(onnx_writer *writer, const char *name, const onnx_tensor *tensor) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_TENSOR, KIND_PLAIN)) put_tensor(writer, ATTRIBUTE_T, tensor);
  return end_attribute(writer);
}

onnx_status onnx_attribute_tensors(onnx_writer *writer, const char *name, const onnx_tensor *tensors, size_t count) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_TENSORS, KIND_PLAIN)) {
    if (tensors == NULL && count != 0) return fail(writer, ONNX_INVALID);
    for (size_t i = 0; i < count; i++) put_tensor(writer, ATTRIBUTE_TENSORS, &tensors[i]);
  }
  return end_attribute(writer);
}

onnx_status onnx_attribute_type(onnx_writer *writer, const char *name, const onnx_type *type) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_TYPE, KIND_PLAIN)) put_type(writer, ATTRIBUTE_TP, type);
  return end_attribute(writer);
}

onnx_status onnx_attribute_types(onnx_writer *writer, const char *name, const onnx_type *types, size_t count) {
  if (begin_attribute(writer, name, ATTRIBUTE_TYPE_TYPES, KIND_PLAIN)) {
    if (types == NULL && count != 0) return fail(writer, ONNX_INVALID);
    for (size_t i = 0; i < count; i++) put_type(writer, ATTRIBUTE_TYPE_PROTOS, &types[i]);
  }
  return end_attribute(writer);
}

onnx_status onnx_attribute_graph_begin(onnx_writer *writer, const char *name) {
  begin_attribute(writer, name, ATTRIBUTE_TYPE_GRAPH, KIND_ATTRIBUTE_GRAPH);
  return (onnx_status)writer->status;
}

onnx_status onnx_attribute_graphs_begin(onnx_writer *writer, const char *name) {
  begin_attribute(writer, name, ATTRIBUTE_TYPE_GRAPHS, KIND_ATTRIBUTE_GRAPHS);
  return (onnx_status)writer->status;
}

onnx_status onnx_attribute_end(onnx_writer *writer) {
  if (writer->status != ONNX_OK) return (onnx_status)writer->status;
  if (writer->depth == 0) return fail(writer, ONNX_MISPLACED);
  int32_t kind = writer->open[writer->depth - 1].kind;
  int complete = kind == KIND_ATTRIBUTE_GRAPHS || (kind == KIND_ATTRIBUTE_GRAPH && writer->open[writer->depth - 1].count == 1);
  if (!complete) return fail(writer, ONNX_MISPLACED);
  return end_attribute(writer);
}
