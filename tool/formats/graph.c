#define _POSIX_C_SOURCE 200809L /* strndup */

#include "formats/graph.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_OUTPUT = 12, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, VALUE_NAME = 1 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5, VARINT_SIZE = 10 };

typedef struct span {
  const unsigned char *at;
  const unsigned char *end;
} span;

static bool read_varint(span *from, uint64_t *number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64 && from->at < from->end; shift += 7) {
    unsigned char byte = *from->at++;
    *number |= (uint64_t)(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

/* The next field of a message; `content` is empty for a number. *field is 0 at the end. False: it is not a protobuf message. */
static bool read_field(span *from, uint64_t *field, span *content) {
  uint64_t key = 0, size = 0;
  *field = 0;
  *content = (span){from->at, from->at};
  if (from->at == from->end) return true;
  if (!read_varint(from, &key) || key >> 3 == 0) return false;
  switch (key & 7) {
    case VARINT: {
      uint64_t number;
      if (!read_varint(from, &number)) return false;
      break;
    }
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case BYTES:
      if (!read_varint(from, &size)) return false;
      break;
    default: return false;
  }
  if (size > (uint64_t)(from->end - from->at)) return false;
  if ((key & 7) == BYTES) *content = (span){from->at, from->at + size};
  from->at += size;
  *field = key >> 3;
  return true;
}

static char *copy_text(span text) {
  return strndup((const char *)text.at, (size_t)(text.end - text.at));
}

typedef struct value_list {
  graph_value *values;
  size_t count;
  size_t capacity;
} value_list;

static bool add_value(value_list *list, span output, span node, span op_type) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    graph_value *grown = realloc(list->values, capacity * sizeof *grown);
    if (grown == NULL) return false;
    list->values = grown;
    list->capacity = capacity;
  }
  graph_value *value = &list->values[list->count++];
  *value = (graph_value){copy_text(output), copy_text(node), copy_text(op_type), false};
  return value->name != NULL && value->node != NULL && value->op_type != NULL;
}

/* A node's outputs. An omitted one has an empty name. */
static bool read_node(span message, value_list *list, bool *sound) {
  uint64_t field;
  span content, node = {message.at, message.at}, op_type = node;
  for (span rest = message; (*sound = *sound && read_field(&rest, &field, &content)) && field != 0;) {
    if (field == NODE_NAME) node = content;
    if (field == NODE_OP_TYPE) op_type = content;
  }
  for (span rest = message; *sound && read_field(&rest, &field, &content) && field != 0;) {
    if (field == NODE_OUTPUT && content.at < content.end && !add_value(list, content, node, op_type)) return false;
  }
  return true;
}

static void mark_output(span message, const value_list *list) {
  uint64_t field;
  span content;
  for (span rest = message; read_field(&rest, &field, &content) && field != 0;) {
    size_t length = (size_t)(content.end - content.at);
    for (size_t i = 0; field == VALUE_NAME && i < list->count; i++) {
      graph_value *value = &list->values[i];
      if (strlen(value->name) == length && memcmp(value->name, content.at, length) == 0) value->is_output = true;
    }
  }
}

/* The graph's fields may be in any order. False: out of memory. */
static bool read_graph(span graph, value_list *list, bool *sound) {
  uint64_t field;
  span content;
  for (span rest = graph; (*sound = *sound && read_field(&rest, &field, &content)) && field != 0;) {
    if (field == GRAPH_NODE && !read_node(content, list, sound)) return false;
  }
  for (span rest = graph; *sound && read_field(&rest, &field, &content) && field != 0;) {
    if (field == GRAPH_OUTPUT) mark_output(content, list);
  }
  return true;
}

bool graph_read(const void *model, size_t bytes, graph_value **values, size_t *count, tool_fault *fault) {
  value_list list = {NULL, 0, 0};
  span rest = {model, (const unsigned char *)model + bytes};
  uint64_t field;
  span content;
  bool sound = true, fits = true;
  *values = NULL;
  *count = 0;
  while (fits && (sound = sound && read_field(&rest, &field, &content)) && field != 0) {
    if (field == MODEL_GRAPH) fits = read_graph(content, &list, &sound);
  }
  if (sound && fits && list.count > 0) {
    *values = list.values;
    *count = list.count;
    return true;
  }
  graph_free(list.values, list.count);
  return fault_set(fault, !fits ? "out of memory" : "its nodes cannot be read: it is not an ONNX model, or has none");
}

void graph_free(graph_value *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(values[i].name);
    free(values[i].node);
    free(values[i].op_type);
  }
  free(values);
}

static size_t varint_size(uint64_t number) {
  size_t size = 1;
  for (; number >= 0x80; number >>= 7) size++;
  return size;
}

static unsigned char *write_varint(unsigned char *at, uint64_t number) {
  for (; number >= 0x80; number >>= 7) *at++ = (unsigned char)(number | 0x80);
  *at++ = (unsigned char)number;
  return at;
}

static unsigned char *write_key(unsigned char *at, uint64_t field, size_t size) {
  return write_varint(write_varint(at, field << 3 | BYTES), size);
}

/* A ValueInfoProto with only a name: ONNX Runtime infers its type. */
static size_t value_size(const graph_value *value) {
  size_t length = strlen(value->name);
  return varint_size(VALUE_NAME << 3 | BYTES) + varint_size(length) + length;
}

/* In protobuf, a message field that occurs twice is merged. So a second graph at the end of the file, with only these outputs,
 * adds them to the first graph's. */
bool graph_add_outputs(const void *model, size_t bytes, const graph_value *values, size_t count, graph_edited *edited,
                       tool_fault *fault) {
  size_t graph = 0;
  for (size_t i = 0; i < count; i++) {
    size_t size = value_size(&values[i]);
    if (!values[i].is_output) graph += varint_size(GRAPH_OUTPUT << 3 | BYTES) + varint_size(size) + size;
  }
  edited->model = malloc(bytes + (size_t)2 * VARINT_SIZE + graph);
  if (edited->model == NULL) return fault_set(fault, "out of memory");
  memcpy(edited->model, model, bytes);
  unsigned char *at = write_key(edited->model + bytes, MODEL_GRAPH, graph);
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(values[i].name);
    if (values[i].is_output) continue;
    at = write_key(at, GRAPH_OUTPUT, value_size(&values[i]));
    at = write_key(at, VALUE_NAME, length);
    memcpy(at, values[i].name, length);
    at += length;
  }
  edited->bytes = (size_t)(at - edited->model);
  return true;
}
