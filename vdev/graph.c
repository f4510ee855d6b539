#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORT numbers the last element types differently from ONNX. */
static int32_t onnx_dtype_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2: return ONNX_UINT2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2: return ONNX_INT2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0: return ONNX_FLOAT8E8M0;
    default: return (int32_t)type;
  }
}

static OrtStatus *write_failed(const onnx_writer *writer) {
  char text[128];
  snprintf(text, sizeof text, "vdev: a group of nodes cannot be written as a model: %s", onnx_status_text(writer->status));
  return vdev_fail(ORT_FAIL, text);
}

/* ---- values ---- */

typedef OrtStatus *(*value_writer)(onnx_writer *writer, const char *name, const onnx_type *type);

static OrtStatus *write_input(onnx_writer *writer, const char *name, const onnx_type *type) {
  return onnx_input(writer, name, type) == ONNX_OK ? NULL : write_failed(writer);
}

static OrtStatus *write_output(onnx_writer *writer, const char *name, const onnx_type *type) {
  return onnx_output(writer, name, type) == ONNX_OK ? NULL : write_failed(writer);
}

/* ORT infers the shape, and may know less than the model declares, but nothing that is not true. */
static OrtStatus *write_shapeless_output(onnx_writer *writer, const char *name, const onnx_type *type) {
  const onnx_type shapeless = {.kind = type->kind, .dtype = type->dtype, .no_shape = true};
  return write_output(writer, name, &shapeless);
}

static OrtStatus *write_tensor_type(const OrtTensorTypeAndShapeInfo *info, onnx_writer *writer, const char *name,
                                    value_writer write) {
  const OrtApi *api = VDEV_API_TABLE;
  ONNXTensorElementDataType dtype;
  size_t rank = 0;
  VDEV_TRY(api->GetTensorElementType(info, &dtype));
  VDEV_TRY(api->GetDimensionsCount(info, &rank));
  int64_t *dims = calloc(rank + 1, sizeof *dims);
  const char **symbols = calloc(rank + 1, sizeof *symbols);
  OrtStatus *status = dims == NULL || symbols == NULL ? vdev_no_memory() : NULL;
  if (status == NULL && rank > 0) {
    status = api->GetDimensions(info, dims, rank);
  }
  if (status == NULL && rank > 0) {
    status = api->GetSymbolicDimensions(info, symbols, rank);
  }
  if (status == NULL) {
    onnx_type type = {.kind = ONNX_KIND_TENSOR,
                      .dtype = onnx_dtype_of(dtype),
                      .no_shape = !api->TensorTypeAndShape_HasShape(info),
                      .dims = dims,
                      .symbols = symbols,
                      .rank = rank};
    status = write(writer, name, &type);
  }
  free(dims);
  free(symbols);
  return status;
}

static OrtStatus *write_value(const OrtValueInfo *value, onnx_writer *writer, value_writer write) {
  const OrtApi *api = VDEV_API_TABLE;
  const char *name = NULL;
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *shape = NULL;
  VDEV_TRY(api->GetValueInfoName(value, &name));
  VDEV_TRY(api->GetValueInfoTypeInfo(value, &type));
  VDEV_TRY(api->CastTypeInfoToTensorInfo(type, &shape));
  return write_tensor_type(shape, writer, name, write);
}

/* ---- constants ---- */

static OrtStatus *read_strings(const OrtValue *value, size_t count, char ***texts, size_t **lengths) {
  const OrtApi *api = VDEV_API_TABLE;
  *texts = calloc(count + 1, sizeof **texts);
  *lengths = calloc(count + 1, sizeof **lengths);
  if (*texts == NULL || *lengths == NULL) {
    return vdev_no_memory();
  }
  for (size_t i = 0; i < count; i++) {
    VDEV_TRY(api->GetStringTensorElementLength(value, i, &(*lengths)[i]));
    (*texts)[i] = malloc((*lengths)[i] + 1);
    if ((*texts)[i] == NULL) {
      return vdev_no_memory();
    }
    VDEV_TRY(api->GetStringTensorElement(value, (*lengths)[i], i, (*texts)[i]));
  }
  return NULL;
}

static void free_strings(char **texts, size_t *lengths) {
  for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
    free(texts[i]);
  }
  free(texts);
  free(lengths);
}

typedef onnx_status (*tensor_writer)(onnx_writer *writer, const char *name, const onnx_tensor *tensor);

static onnx_status write_initializer(onnx_writer *writer, const char *name, const onnx_tensor *tensor) {
  (void)name; /* the string belongs to the tensor */
  return onnx_initializer(writer, tensor);
}

static OrtStatus *write_constant(const OrtValue *value, const char *name, bool may_be_external, onnx_writer *writer,
                                 tensor_writer write) {
  const OrtApi *api = VDEV_API_TABLE;
  ONNXTensorElementDataType dtype;
  onnx_tensor tensor = {.name = name};
  VDEV_TRY(api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &tensor.dims, &tensor.rank));
  tensor.dtype = onnx_dtype_of(dtype);
  size_t count = 1;
  for (size_t i = 0; i < tensor.rank; i++) {
    count *= (size_t)tensor.dims[i];
  }
  char **texts = NULL;
  size_t *lengths = NULL;
  OrtStatus *status = NULL;
  if (dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    status = read_strings(value, count, &texts, &lengths);
    tensor.strings = (const char *const *)texts;
    tensor.lengths = lengths;
  } else {
    status = api->GetTensorSizeInBytes(value, &tensor.bytes);
    if (status == NULL && tensor.bytes > 0) {
      status = api->GetTensorData(value, &tensor.data);
    }
    if (may_be_external && tensor.bytes > VDEV_INLINE_BYTES) {
      tensor.location = name;
      tensor.length = tensor.bytes;
      tensor.data = NULL;
      tensor.bytes = 0;
    }
  }
  if (status == NULL && write(writer, name, &tensor) != ONNX_OK) {
    status = write_failed(writer);
  }
  free_strings(texts, lengths);
  return status;
}

/* ---- attributes ---- */

static OrtStatus *read_data(const OrtOpAttr *attribute, OrtOpAttrType type, char **data, size_t *size) {
  const OrtApi *api = VDEV_API_TABLE;
  /* the first call fails and tells the size; for an empty list it succeeds */
  char probe;
  *size = 0;
  *data = NULL;
  OrtStatus *status = api->ReadOpAttr(attribute, type, &probe, 0, size);
  if (status != NULL) {
    if (*size == 0) {
      return status;
    }
    api->ReleaseStatus(status);
  }
  *data = malloc(*size + 1);
  return *data == NULL ? vdev_no_memory() : *size == 0 ? NULL : api->ReadOpAttr(attribute, type, *data, *size, size);
}

static onnx_status write_texts(onnx_writer *writer, const char *name, const char *data, size_t size) {
  size_t count = 0;
  for (size_t i = 0; i < size; i++) {
    count += data[i] == '\0';
  }
  const char **texts = calloc(count + 1, sizeof *texts);
  if (texts == NULL) {
    return ONNX_OUT_OF_MEMORY;
  }
  const char *at = data;
  for (size_t i = 0; i < count; i++) {
    texts[i] = at;
    at += strlen(at) + 1;
  }
  onnx_status status = onnx_attribute_strings(writer, name, texts, NULL, count);
  free(texts);
  return status;
}

static OrtStatus *write_plain_attribute(const OrtOpAttr *attribute, OrtOpAttrType type, const char *name, onnx_writer *writer) {
  char *data = NULL;
  size_t size = 0;
  OrtStatus *status = read_data(attribute, type, &data, &size);
  if (status == NULL) {
    onnx_status written = ONNX_INVALID;
    int64_t number;
    float real;
    switch (type) {
      case ORT_OP_ATTR_INT:
        memcpy(&number, data, sizeof number);
        written = onnx_attribute_int(writer, name, number);
        break;
      case ORT_OP_ATTR_FLOAT:
        memcpy(&real, data, sizeof real);
        written = onnx_attribute_float(writer, name, real);
        break;
      case ORT_OP_ATTR_INTS: written = onnx_attribute_ints(writer, name, (const int64_t *)(const void *)data, size / 8); break;
      case ORT_OP_ATTR_FLOATS:
        written = onnx_attribute_floats(writer, name, (const float *)(const void *)data, size / 4);
        break;
      case ORT_OP_ATTR_STRING: written = onnx_attribute_string(writer, name, data, size); break;
      case ORT_OP_ATTR_STRINGS: written = write_texts(writer, name, data, size); break;
      default: break;
    }
    if (written != ONNX_OK) {
      status = write_failed(writer);
    }
  }
  free(data);
  return status;
}

static OrtStatus *write_attribute(const OrtOpAttr *attribute, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  const char *name = NULL;
  OrtOpAttrType type;
  VDEV_TRY(api->OpAttr_GetName(attribute, &name));
  VDEV_TRY(api->OpAttr_GetType(attribute, &type));
  if (type == ORT_OP_ATTR_GRAPH) {
    return NULL; /* written from the node's subgraphs */
  }
  if (type != ORT_OP_ATTR_TENSOR) {
    return write_plain_attribute(attribute, type, name, writer);
  }
  OrtValue *value = NULL;
  VDEV_TRY(api->OpAttr_GetTensorAttributeAsOrtValue(attribute, &value));
  OrtStatus *status = write_constant(value, name, false, writer, onnx_attribute_tensor);
  api->ReleaseValue(value);
  return status;
}

/* ---- nodes and graphs ---- */

static OrtStatus *write_graph(const OrtGraph *graph, const char *name, bool outermost, onnx_writer *writer);

static OrtStatus *write_subgraphs(const OrtNode *node, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Node_GetNumSubgraphs(node, &count));
  if (count == 0) {
    return NULL;
  }
  const OrtGraph **graphs = calloc(count, sizeof *graphs);
  const char **names = calloc(count, sizeof *names);
  OrtStatus *status = graphs == NULL || names == NULL ? vdev_no_memory() : api->Node_GetSubgraphs(node, graphs, count, names);
  for (size_t i = 0; i < count && status == NULL; i++) {
    if (onnx_attribute_graph_begin(writer, names[i]) != ONNX_OK) {
      status = write_failed(writer);
    }
    if (status == NULL) {
      status = write_graph(graphs[i], names[i], false, writer);
    }
    if (status == NULL && onnx_attribute_end(writer) != ONNX_OK) {
      status = write_failed(writer);
    }
  }
  free(graphs);
  free(names);
  return status;
}

static OrtStatus *write_names(const OrtNode *node, bool inputs, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(inputs ? api->Node_GetNumInputs(node, &count) : api->Node_GetNumOutputs(node, &count));
  const OrtValueInfo **values = calloc(count + 1, sizeof *values);
  OrtStatus *status = values == NULL ? vdev_no_memory() : NULL;
  if (status == NULL && count > 0) {
    status = inputs ? api->Node_GetInputs(node, values, count) : api->Node_GetOutputs(node, values, count);
  }
  for (size_t i = 0; i < count && status == NULL; i++) {
    const char *name = ""; /* an omitted optional one */
    if (values[i] != NULL) {
      status = api->GetValueInfoName(values[i], &name);
    }
    if (status == NULL && (inputs ? onnx_node_input(writer, name) : onnx_node_output(writer, name)) != ONNX_OK) {
      status = write_failed(writer);
    }
  }
  free(values);
  return status;
}

static OrtStatus *write_attributes(const OrtNode *node, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Node_GetNumAttributes(node, &count));
  const OrtOpAttr **attributes = calloc(count + 1, sizeof *attributes);
  OrtStatus *status = attributes == NULL ? vdev_no_memory() : NULL;
  if (status == NULL && count > 0) {
    status = api->Node_GetAttributes(node, attributes, count);
  }
  for (size_t i = 0; i < count && status == NULL; i++) {
    status = write_attribute(attributes[i], writer);
  }
  free(attributes);
  return status;
}

static OrtStatus *write_node(const OrtNode *node, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  const char *type = NULL;
  const char *domain = NULL;
  const char *name = NULL;
  VDEV_TRY(api->Node_GetOperatorType(node, &type));
  VDEV_TRY(api->Node_GetDomain(node, &domain));
  VDEV_TRY(api->Node_GetName(node, &name));
  if (onnx_node_begin(writer, type, domain, name) != ONNX_OK) {
    return write_failed(writer);
  }
  VDEV_TRY(write_names(node, true, writer));
  VDEV_TRY(write_names(node, false, writer));
  VDEV_TRY(write_attributes(node, writer));
  VDEV_TRY(write_subgraphs(node, writer));
  return onnx_node_end(writer) == ONNX_OK ? NULL : write_failed(writer);
}

typedef OrtStatus *(*list_getter)(const OrtGraph *graph, const OrtValueInfo **values, size_t count);

static OrtStatus *get_values(const OrtGraph *graph, size_t count, list_getter get, const OrtValueInfo ***values) {
  *values = calloc(count + 1, sizeof **values);
  if (*values == NULL) {
    return vdev_no_memory();
  }
  return count == 0 ? NULL : get(graph, *values, count);
}

static bool is_among(const char *name, const OrtValueInfo *const *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *other = NULL;
    OrtStatus *status = VDEV_API_TABLE->GetValueInfoName(values[i], &other);
    if (status != NULL) {
      VDEV_API_TABLE->ReleaseStatus(status);
    } else if (strcmp(name, other) == 0) {
      return true;
    }
  }
  return false;
}

static OrtStatus *write_constants(const OrtGraph *graph, bool outermost, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  size_t input_count = 0;
  const OrtValueInfo **values = NULL;
  const OrtValueInfo **inputs = NULL;
  VDEV_TRY(api->Graph_GetNumInitializers(graph, &count));
  OrtStatus *status = get_values(graph, count, api->Graph_GetInitializers, &values);
  if (status == NULL) {
    status = api->Graph_GetNumInputs(graph, &input_count);
  }
  if (status == NULL) {
    status = get_values(graph, input_count, api->Graph_GetInputs, &inputs);
  }
  for (size_t i = 0; i < count && status == NULL; i++) {
    const char *name = NULL;
    const OrtValue *value = NULL;
    status = api->GetValueInfoName(values[i], &name);
    if (status == NULL && is_among(name, inputs, input_count)) {
      continue; /* its value is an input of each run */
    }
    if (status == NULL) {
      status = api->ValueInfo_GetInitializerValue(values[i], &value);
    }
    if (status == NULL && value != NULL) {
      status = write_constant(value, name, outermost, writer, write_initializer);
    }
  }
  free(values);
  free(inputs);
  return status;
}

static OrtStatus *write_ends(const OrtGraph *graph, bool are_inputs, bool outermost, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(are_inputs ? api->Graph_GetNumInputs(graph, &count) : api->Graph_GetNumOutputs(graph, &count));
  const OrtValueInfo **values = NULL;
  OrtStatus *status = get_values(graph, count, are_inputs ? api->Graph_GetInputs : api->Graph_GetOutputs, &values);
  for (size_t i = 0; i < count && status == NULL; i++) {
    status = write_value(values[i], writer, are_inputs ? write_input : outermost ? write_shapeless_output : write_output);
  }
  free(values);
  return status;
}

static OrtStatus *write_graph(const OrtGraph *graph, const char *name, bool outermost, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  if (onnx_graph_begin(writer, name) != ONNX_OK) {
    return write_failed(writer);
  }
  VDEV_TRY(write_ends(graph, true, outermost, writer));
  VDEV_TRY(write_ends(graph, false, outermost, writer));
  VDEV_TRY(write_constants(graph, outermost, writer));
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumNodes(graph, &count));
  const OrtNode **nodes = calloc(count + 1, sizeof *nodes);
  if (nodes == NULL) {
    return vdev_no_memory();
  }
  OrtStatus *status = count == 0 ? NULL : api->Graph_GetNodes(graph, nodes, count);
  for (size_t i = 0; i < count && status == NULL; i++) {
    status = write_node(nodes[i], writer);
  }
  free(nodes);
  VDEV_TRY(status);
  return onnx_graph_end(writer) == ONNX_OK ? NULL : write_failed(writer);
}

static OrtStatus *write_opsets(const OrtGraph *graph, onnx_writer *writer) {
  const OrtApi *api = VDEV_API_TABLE;
  size_t count = 0;
  VDEV_TRY(api->Graph_GetNumOperatorSets(graph, &count));
  const char **domains = calloc(count + 1, sizeof *domains);
  int64_t *versions = calloc(count + 1, sizeof *versions);
  OrtStatus *status =
      domains == NULL || versions == NULL ? vdev_no_memory() : api->Graph_GetOperatorSets(graph, domains, versions, count);
  for (size_t i = 0; i < count && status == NULL; i++) {
    if (onnx_opset(writer, domains[i], versions[i]) != ONNX_OK) {
      status = write_failed(writer);
    }
  }
  free(domains);
  free(versions);
  return status;
}

OrtStatus *vdev_graph_write(const OrtGraph *graph, onnx_writer *writer) {
  onnx_model model = {.producer = "vdev"};
  VDEV_TRY(VDEV_API_TABLE->Graph_GetOnnxIRVersion(graph, &model.ir_version));
  if (onnx_model_begin(writer, &model) != ONNX_OK) {
    return write_failed(writer);
  }
  VDEV_TRY(write_opsets(graph, writer));
  VDEV_TRY(write_graph(graph, "vdev", true, writer));
  return onnx_model_end(writer) == ONNX_OK ? NULL : write_failed(writer);
}
