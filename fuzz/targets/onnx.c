/* onnx/onnx.c: arbitrary calls in any order. A model that is returned is valid protobuf, to its last byte. */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

static bool read_varint(bytes *source, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (source->left == 0) return false;
    uint8_t byte = take_byte(source);
    *value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/* Do the bytes consist of the fields of a message? */
static bool is_message(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  while (source.left > 0) {
    uint64_t tag = 0;
    uint64_t value = 0;
    size_t skip = 0;
    if (!read_varint(&source, &tag) || tag >> 3 == 0) return false;
    switch (tag & 7) {
      case 0:
        if (!read_varint(&source, &value)) return false;
        break;
      case 1: skip = 8; break;
      case 2:
        if (!read_varint(&source, &value) || value > source.left) return false;
        skip = (size_t)value;
        break;
      case 5: skip = 4; break;
      default: return false;
    }
    if (skip > source.left) return false;
    source.at += skip;
    source.left -= skip;
  }
  return true;
}

typedef struct arguments {
  char *name;
  char *other;
  int64_t *dims;
  const char **texts;
  size_t *lengths;
  size_t count;
  onnx_type type;
  onnx_type inner;
  onnx_tensor tensor;
} arguments;

static arguments take_arguments(bytes *source) {
  arguments taken = {.name = take_text(source, 20), .other = take_text(source, 20), .count = take_byte(source) % 4};
  taken.dims = malloc(taken.count * sizeof *taken.dims + 1);
  taken.texts = malloc(taken.count * sizeof *taken.texts + 1);
  taken.lengths = malloc(taken.count * sizeof *taken.lengths + 1);
  CHECK(taken.dims != NULL && taken.texts != NULL && taken.lengths != NULL);
  for (size_t i = 0; i < taken.count; i++) {
    taken.dims[i] = take_dim(source);
    taken.texts[i] = take_bool(source) ? taken.name : "n";
    taken.lengths[i] = strlen(taken.texts[i]);
  }
  uint8_t mix = take_byte(source);
  taken.type =
      (onnx_type){.kind = mix % 7 - 1, .dtype = mix % 30, .no_shape = mix % 3 == 0, .dims = taken.dims, .rank = taken.count};
  taken.inner = taken.type;
  taken.inner.kind = ONNX_KIND_TENSOR;
  if (mix % 2 == 0) taken.type.symbols = taken.texts;
  if (mix % 5 != 0) taken.type.element = &taken.inner;
  taken.tensor = (onnx_tensor){.name = taken.name, .dtype = mix % 29, .dims = taken.dims, .rank = taken.count};
  switch (take_byte(source) % 5) {
    case 0:
      taken.tensor.data = taken.name;
      taken.tensor.bytes = strlen(taken.name);
      break;
    case 1:
      taken.tensor.strings = taken.texts;
      taken.tensor.lengths = mix % 2 == 0 ? taken.lengths : NULL;
      /* The number of texts is that of the dims, because the writer relies on it. */
      taken.tensor.rank = taken.count > 0 ? 1 : 0;
      if (taken.count > 0) taken.dims[0] = (int64_t)taken.count;
      if (taken.count == 0) taken.tensor.strings = NULL;
      break;
    case 2:
      taken.tensor.location = taken.other;
      taken.tensor.length = mix;
      break;
    default: break;
  }
  return taken;
}

static onnx_status call(onnx_writer *writer, uint8_t which, arguments *with, bytes *source) {
  onnx_model model = {.ir_version = take_dim(source), .producer = with->name, .domain = take_bool(source) ? with->other : NULL};
  with->type.element = with->type.element != NULL ? &with->inner : NULL;
  switch (which % 26) {
    case 0: return onnx_model_begin(writer, take_bool(source) ? &model : NULL);
    case 1: return onnx_model_end(writer);
    case 2: return onnx_opset(writer, with->other, take_dim(source));
    case 3: return onnx_metadata(writer, with->name, with->other);
    case 4: return onnx_graph_begin(writer, with->name);
    case 5: return onnx_graph_end(writer);
    case 6: return onnx_input(writer, with->name, &with->type);
    case 7: return onnx_output(writer, with->name, take_bool(source) ? &with->type : NULL);
    case 8: return onnx_value(writer, with->name, &with->type);
    case 9: return onnx_initializer(writer, &with->tensor);
    case 10: return onnx_node_begin(writer, with->name, with->other, with->name);
    case 11: return onnx_node_input(writer, with->name);
    case 12: return onnx_node_output(writer, with->other);
    case 13: return onnx_node_end(writer);
    case 14: return onnx_attribute_int(writer, with->name, take_dim(source));
    case 15: return onnx_attribute_float(writer, with->name, (float)take_dim(source));
    case 16: return onnx_attribute_string(writer, with->name, with->other, strlen(with->other));
    case 17: return onnx_attribute_ints(writer, with->name, with->dims, with->count);
    case 18:
      return onnx_attribute_strings(writer, with->name, with->texts, take_bool(source) ? with->lengths : NULL, with->count);
    case 19: return onnx_attribute_tensor(writer, with->name, &with->tensor);
    case 20: return onnx_attribute_tensors(writer, with->name, &with->tensor, 1);
    case 21: return onnx_attribute_type(writer, with->name, &with->type);
    case 22: return onnx_attribute_types(writer, with->name, &with->type, take_byte(source) % 2);
    case 23: return onnx_attribute_graph_begin(writer, with->name);
    case 24: return onnx_attribute_graphs_begin(writer, with->name);
    default: return onnx_attribute_end(writer);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  onnx_writer writer = ONNX_WRITER_INIT;
  writer.limit = take_bool(&source) ? take_byte(&source) : 0;
  onnx_status first = ONNX_OK;
  while (source.left > 0) {
    uint8_t which = take_byte(&source);
    arguments with = take_arguments(&source);
    onnx_status status = call(&writer, which, &with, &source);
    CHECK(first == ONNX_OK || status == first);
    first = status;
    free(with.lengths);
    free(with.texts);
    free(with.dims);
    free(with.other);
    free(with.name);
  }
  const void *model = &source;
  size_t bytes_written = 1;
  onnx_status status = onnx_writer_finish(&writer, &model, &bytes_written);
  CHECK(first == ONNX_OK || status == first);
  CHECK((model != NULL) == (status == ONNX_OK));
  if (status == ONNX_OK) {
    CHECK(is_message(model, bytes_written));
    CHECK(writer.limit == 0 || bytes_written <= writer.limit);
  }
  onnx_writer_release(&writer);
  return 0;
}
