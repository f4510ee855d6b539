#include "everything.h"

static const int64_t two_three[] = {2, 3};
static const float six[] = {1, 2, 3, 4, 5, 6};

static void write_node_of_all_attributes(onnx_writer *w) {
  static const int64_t ints[] = {1, -2, INT64_MAX, INT64_MIN};
  static const float floats[] = {0.5f, -1.25f};
  static const char *const texts[] = {"one", "", "dr\xC3\xA9i"};
  static const size_t lengths[] = {3, 0, 5};
  static const int64_t none[] = {0, 4};
  onnx_tensor scalar = {.name = "scalar", .dtype = ONNX_FLOAT32, .data = six, .bytes = 4};
  onnx_tensor list[] = {{.dtype = ONNX_FLOAT32, .dims = two_three, .rank = 2, .data = six, .bytes = sizeof six},
                        {.dtype = ONNX_INT64, .dims = none, .rank = 2}};
  onnx_type open = {.dtype = ONNX_FLOAT16, .no_shape = 1};
  onnx_type types[] = {{.kind = ONNX_KIND_SEQUENCE, .element = &open},
                       {.kind = ONNX_KIND_MAP, .dtype = ONNX_INT64, .element = &open},
                       {.kind = ONNX_KIND_OPTIONAL, .element = &open},
                       {.kind = ONNX_KIND_SPARSE_TENSOR, .dtype = ONNX_FLOAT32, .dims = two_three, .rank = 2}};
  onnx_node_begin(w, "Everything", "test.domain", "node of all attributes");
  onnx_node_input(w, "x");
  onnx_node_input(w, "");
  onnx_node_output(w, "y");
  onnx_attribute_int(w, "int", -7);
  onnx_attribute_float(w, "float", 0.1f);
  onnx_attribute_string(w, "string", "a\0b", 3);
  onnx_attribute_ints(w, "ints", ints, 4);
  onnx_attribute_floats(w, "floats", floats, 2);
  onnx_attribute_strings(w, "strings", texts, lengths, 3);
  onnx_attribute_tensor(w, "tensor", &scalar);
  onnx_attribute_tensors(w, "tensors", list, 2);
  onnx_attribute_type(w, "type", &types[0]);
  onnx_attribute_types(w, "types", types, 4);
  onnx_attribute_ints(w, "no_ints", NULL, 0);
  onnx_attribute_graph_begin(w, "graph");
  onnx_graph_begin(w, "inner");
  onnx_node_begin(w, "Identity", "", "");
  onnx_node_input(w, "x");
  onnx_node_output(w, "inner_y");
  onnx_node_end(w);
  onnx_output(w, "inner_y", NULL);
  onnx_graph_end(w);
  onnx_attribute_end(w);
  onnx_attribute_graphs_begin(w, "graphs");
  onnx_graph_begin(w, "first");
  onnx_graph_end(w);
  onnx_graph_begin(w, "second");
  onnx_graph_end(w);
  onnx_attribute_end(w);
  onnx_node_end(w);
}

static void write_initializers(onnx_writer *w) {
  static const int64_t five[] = {5}, large[] = {20000}, two[] = {2};
  static const unsigned char packed[] = {0x21, 0x43, 0x05};
  static const unsigned char bytes[20000] = {1, 2, 3};
  static const char *const texts[] = {"alpha", "beta"};
  onnx_tensor floats = {
      .name = "floats", .dtype = ONNX_FLOAT32, .dims = two_three, .rank = 2, .data = six, .bytes = sizeof six};
  onnx_tensor int4 = {.name = "int4", .dtype = ONNX_INT4, .dims = five, .rank = 1, .data = packed, .bytes = sizeof packed};
  onnx_tensor blob = {.name = "blob", .dtype = ONNX_UINT8, .dims = large, .rank = 1, .data = bytes, .bytes = sizeof bytes};
  onnx_tensor strings = {.name = "strings", .dtype = ONNX_STRING, .dims = two, .rank = 1, .strings = texts};
  onnx_tensor external = {.name = "external",
                          .dtype = ONNX_FLOAT32,
                          .dims = two_three,
                          .rank = 2,
                          .location = "everything.data",
                          .offset = UINT64_C(5000000000),
                          .length = 24};
  onnx_initializer(w, &floats);
  onnx_initializer(w, &int4);
  onnx_initializer(w, &blob);
  onnx_initializer(w, &strings);
  onnx_initializer(w, &external);
}

onnx_status everything_write(onnx_writer *w) {
  static const int64_t dims[] = {-1, 3, -1};
  static const char *const symbols[] = {"batch", NULL, ""};
  onnx_model model = {.ir_version = 11,
                      .model_version = 42,
                      .producer = "producer",
                      .producer_version = "1.2",
                      .domain = "test.model",
                      .description = "all that there is"};
  onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 3};
  onnx_type scalar = {.dtype = ONNX_BOOL};
  onnx_model_begin(w, &model);
  onnx_opset(w, "", 21);
  onnx_opset(w, "test.domain", 3);
  onnx_metadata(w, "key", "value");
  onnx_graph_begin(w, "outer");
  onnx_input(w, "x", &type);
  onnx_output(w, "y", &type);
  onnx_value(w, "between", &scalar);
  write_initializers(w);
  write_node_of_all_attributes(w);
  onnx_graph_end(w);
  return onnx_model_end(w);
}
