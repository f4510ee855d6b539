/* Inputs and outputs: names, types, shapes, symbols, and where the session reads or leaves them. */
#include <stdlib.h>
#include <string.h>

#include "session/create.h"
#include "support/options.h"

static iobind_status find_symbol(iobind_session *session, const char *name, int *id, const char **text, iobind_error *error) {
  *id = -1;
  *text = "";
  /* some exporters call every open dim "?" */
  if (name == NULL || name[0] == '\0' || strcmp(name, "?") == 0) {
    return IOBIND_OK;
  }
  for (size_t i = 0; i < session->symbol_count; i++) {
    if (strcmp(session->symbols[i], name) == 0) {
      *id = (int)i;
      *text = session->symbols[i];
      return IOBIND_OK;
    }
  }
  char **list = realloc(session->symbols, (session->symbol_count + 1) * sizeof *list);
  if (list == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  session->symbols = list;
  list[session->symbol_count] = iobind__string_copy(name);
  if (list[session->symbol_count] == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  *id = (int)session->symbol_count;
  *text = list[session->symbol_count++];
  return IOBIND_OK;
}

static iobind_status read_shape(iobind_session *session, const OrtTensorTypeAndShapeInfo *info, iobind__value *value,
                                iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  ONNXTensorElementDataType type;
  IOBIND__ORT_TRY(api, api->GetTensorElementType(info, &type), error, "session_create: '%s'", value->label);
  value->dtype = (iobind_dtype)type;
  value->has_shape = api->TensorTypeAndShape_HasShape(info);
  IOBIND__ORT_TRY(api, api->GetDimensionsCount(info, &value->rank), error, "session_create: '%s'", value->label);
  if (!value->has_shape || value->rank == 0) {
    value->rank = 0;
    return IOBIND_OK;
  }
  value->dims = calloc(value->rank, sizeof *value->dims);
  value->symbols = calloc(value->rank, sizeof *value->symbols);
  value->symbol_ids = calloc(value->rank, sizeof *value->symbol_ids);
  if (value->dims == NULL || value->symbols == NULL || value->symbol_ids == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  IOBIND__ORT_TRY(api, api->GetDimensions(info, value->dims, value->rank), error, "session_create: '%s'", value->label);
  IOBIND__ORT_TRY(api, api->GetSymbolicDimensions(info, value->symbols, value->rank), error, "session_create: '%s'",
                  value->label);
  for (size_t i = 0; i < value->rank; i++) {
    const char *name = value->dims[i] < 0 ? value->symbols[i] : NULL;
    IOBIND__TRY(find_symbol(session, name, &value->symbol_ids[i], &value->symbols[i], error));
    for (size_t j = 0; value->symbol_ids[i] >= 0 && j < i; j++) {
      value->repeats_symbol = value->repeats_symbol || value->symbol_ids[j] == value->symbol_ids[i];
    }
  }
  return IOBIND_OK;
}

static iobind_status read_type(iobind_session *session, const OrtTypeInfo *type, iobind__value *value, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  IOBIND__ORT_TRY(api, api->GetOnnxTypeFromTypeInfo(type, &kind), error, "session_create: '%s'", value->label);
  value->kind = (iobind_value_kind)kind;
  if (kind != ONNX_TYPE_TENSOR) {
    return IOBIND_OK;
  }
  const OrtTensorTypeAndShapeInfo *shape = NULL;
  IOBIND__ORT_TRY(api, api->CastTypeInfoToTensorInfo(type, &shape), error, "session_create: '%s'", value->label);
  return read_shape(session, shape, value, error);
}

/* The name itself, or a shortened copy if it is long. NULL: out of memory. */
static char *make_label(char *name) {
  if (strlen(name) < IOBIND__NAME_TEXT) {
    return name;
  }
  char label[IOBIND__NAME_TEXT];
  iobind__text_shorten(name, label);
  return iobind__string_copy(label);
}

static iobind_status read_value(iobind_session *session, size_t index, bool is_input, iobind__value *value,
                                iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  char *name = NULL;
  IOBIND__ORT_TRY(api,
                  is_input ? api->SessionGetInputName(session->session, index, session->runtime->cpu_allocator, &name)
                           : api->SessionGetOutputName(session->session, index, session->runtime->cpu_allocator, &name),
                  error, "session_create");
  IOBIND__TRY(iobind__session_take_text(session, name, &value->name, "session_create", error));
  value->label = make_label(value->name);
  if (value->label == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  OrtTypeInfo *type = NULL;
  IOBIND__ORT_TRY(api,
                  is_input ? api->SessionGetInputTypeInfo(session->session, index, &type)
                           : api->SessionGetOutputTypeInfo(session->session, index, &type),
                  error, "session_create: '%s'", value->label);
  iobind_status status = read_type(session, type, value, error);
  api->ReleaseTypeInfo(type);
  return status;
}

/* The memory location of a value, by its memory and EP device. Two EPs may share one GPU's memory, so the EP device determines it. */
static iobind_status find_place(iobind_session *session, const OrtMemoryInfo *info, const OrtEpDevice *ep_device,
                                iobind__place **place, iobind_error *error) {
  iobind_runtime *runtime = session->runtime;
  iobind_device *device = ep_device == NULL ? NULL : iobind__runtime_find_ep_device(runtime, ep_device);
  for (int m = 0; device != NULL && m < 2; m++) {
    const OrtMemoryInfo *own = device->places[m].info;
    if (own != NULL && own != runtime->cpu_info && iobind__same_memory(runtime, own, info)) {
      *place = &device->places[m];
      return IOBIND_OK;
    }
  }
  return iobind__session_find_place(session, info, place, error);
}

/* ORT reports the memory of no output if one output of the model does not come from a node: an input passed through, or a constant. A
 * passed-through input is where the input is; the others are assumed to be on the session's first device. */
static void guess_output_places(iobind_session *session) {
  iobind_device *first = session->devices[session->device_count > 1 ? 1 : 0];
  for (size_t i = 0; i < session->output_count; i++) {
    iobind__value *output = &session->outputs[i];
    bool on_host = output->kind != IOBIND_VALUE_TENSOR || output->dtype == IOBIND_DTYPE_STRING;
    output->place = &(on_host ? session->devices[0] : first)->places[IOBIND_MEMORY_DEFAULT];
    if (output->passthrough_input >= 0) {
      output->place = session->inputs[output->passthrough_input].place;
    }
  }
}

/* With a policy or a wrapped session: for each value ORT names its memory and the EP device that uses it. */
static iobind_status read_places(iobind_session *session, iobind__value *values, size_t count, bool are_inputs,
                                 iobind_error *error) {
  if (count == 0) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(session->runtime);
  const OrtMemoryInfo **infos = calloc(count, sizeof *infos);
  const OrtEpDevice **ep_devices = calloc(count, sizeof *ep_devices);
  if (infos == NULL || ep_devices == NULL) {
    free(infos);
    free(ep_devices);
    return iobind__out_of_memory(error, "session_create");
  }
  OrtStatus *status = are_inputs ? api->SessionGetMemoryInfoForInputs(session->session, infos, count)
                                 : api->SessionGetMemoryInfoForOutputs(session->session, infos, count);
  if (status == NULL) {
    status = are_inputs ? api->SessionGetEpDeviceForInputs(session->session, ep_devices, count)
                        : api->SessionGetEpDeviceForOutputs(session->session, ep_devices, count);
  }
  iobind_status result = IOBIND_OK;
  if (status != NULL && are_inputs) {
    result = iobind__ort_fail(api, status, error, "session_create: devices");
  } else if (status != NULL) {
    api->ReleaseStatus(status);
    guess_output_places(session);
    session->outputs_guessed = true;
  } else {
    for (size_t i = 0; i < count && result == IOBIND_OK; i++) {
      if (values[i].kind != IOBIND_VALUE_TENSOR || infos[i] == NULL) {
        values[i].place = &session->devices[0]->places[IOBIND_MEMORY_DEFAULT];
      } else {
        result = find_place(session, infos[i], ep_devices[i], &values[i].place, error);
      }
    }
  }
  free(infos);
  free(ep_devices);
  return result;
}

static iobind_status collect_names(iobind_session *session, iobind_error *error) {
  session->input_names = calloc(session->input_count + 1, sizeof(char *));
  session->output_names = calloc(session->output_count + 1, sizeof(char *));
  if (session->input_names == NULL || session->output_names == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  for (size_t i = 0; i < session->input_count; i++) {
    session->input_names[i] = session->inputs[i].name;
  }
  size_t tensors = 0;
  for (size_t i = 0; i < session->output_count; i++) {
    if (session->outputs[i].kind == IOBIND_VALUE_TENSOR) {
      session->output_names[tensors++] = session->outputs[i].name;
    }
  }
  session->tensor_output_count = tensors;
  return IOBIND_OK;
}

/* The input of this name; -1: none. */
static int find_input(const iobind_session *session, const char *name) {
  for (size_t i = 0; i < session->input_count; i++) {
    if (strcmp(session->inputs[i].name, name) == 0) {
      return (int)i;
    }
  }
  return -1;
}

iobind_status iobind__session_read_signature(iobind_session *session, iobind_error *error) {
  session->inputs = calloc(session->input_count + 1, sizeof *session->inputs);
  session->outputs = calloc(session->output_count + 1, sizeof *session->outputs);
  if (session->inputs == NULL || session->outputs == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  for (size_t i = 0; i < session->input_count; i++) {
    IOBIND__TRY(read_value(session, i, true, &session->inputs[i], error));
  }
  for (size_t i = 0; i < session->output_count; i++) {
    IOBIND__TRY(read_value(session, i, false, &session->outputs[i], error));
    session->outputs[i].passthrough_input = find_input(session, session->outputs[i].name);
  }
  IOBIND__TRY(collect_names(session, error));
  IOBIND__TRY(read_places(session, session->inputs, session->input_count, true, error));
  return read_places(session, session->outputs, session->output_count, false, error);
}

static void free_values(iobind__value *values, size_t count) {
  for (size_t i = 0; values != NULL && i < count; i++) {
    free(values[i].label == values[i].name ? NULL : values[i].label);
    free(values[i].name);
    free(values[i].dims);
    free(values[i].symbols);
    free(values[i].symbol_ids);
  }
  free(values);
}

void iobind__session_free_signature(iobind_session *session) {
  free_values(session->inputs, session->input_count);
  free_values(session->outputs, session->output_count);
  free(session->input_names);
  free(session->output_names);
  for (size_t i = 0; i < session->symbol_count; i++) {
    free(session->symbols[i]);
  }
  free(session->symbols);
}

static iobind_status get_value(const iobind__value *values, size_t count, size_t index, iobind_value_info *info,
                               const char *what, iobind_error *error) {
  if (index >= count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an index below %zu, got %zu", what, count, index);
  }
  const iobind__value *value = &values[index];
  iobind_value_info full = {.kind = (int32_t)value->kind, .name = value->name, .device = value->place->device};
  const OrtApi *api = IOBIND__API(value->place->device->runtime);
  IOBIND__ORT_TRY(api, api->MemoryInfoGetName(value->place->info, &full.memory_name), error, "%s", what);
  full.memory = (int32_t)value->place->memory;
  if (value->kind == IOBIND_VALUE_TENSOR) {
    full.dtype = (int32_t)value->dtype;
    full.has_shape = value->has_shape;
    full.dims = value->dims;
    full.symbols = value->symbols;
    full.rank = value->rank;
  }
  return IOBIND__INFO_WRITE(info, &full, what, error);
}

iobind_status iobind_session_get_input(const iobind_session *session, size_t index, iobind_value_info *info,
                                       iobind_error *error) {
  IOBIND__TRY(iobind__null_check(session, "session", "session_get_input", error));
  return get_value(session->inputs, session->input_count, index, info, "session_get_input", error);
}

iobind_status iobind_session_get_output(const iobind_session *session, size_t index, iobind_value_info *info,
                                        iobind_error *error) {
  IOBIND__TRY(iobind__null_check(session, "session", "session_get_output", error));
  return get_value(session->outputs, session->output_count, index, info, "session_get_output", error);
}

static iobind_status find_value(const iobind__value *values, size_t count, const char *name, size_t *index, const char *what,
                                iobind_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(values[i].name, name) == 0) {
      *index = i;
      return IOBIND_OK;
    }
  }
  iobind__text names = {0};
  for (size_t i = 0; i < count; i++) {
    iobind__text_add(&names, "%s'%s'", i == 0 ? "" : ", ", values[i].name);
  }
  iobind_status status = iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: '%s': the model has %s", what, name,
                                      count == 0 ? "none" : iobind__text_get(&names));
  iobind__text_free(&names);
  return status;
}

static iobind_status check_find(const iobind_session *session, const char *name, const size_t *index, const char *what,
                                iobind_error *error) {
  IOBIND__TRY(iobind__null_check(session, "session", what, error));
  IOBIND__TRY(iobind__null_check(name, "name", what, error));
  IOBIND__TRY(iobind__null_check(index, "index", what, error));
  return IOBIND_OK;
}

iobind_status iobind_session_find_input(const iobind_session *session, const char *name, size_t *index, iobind_error *error) {
  IOBIND__TRY(check_find(session, name, index, "session_find_input", error));
  return find_value(session->inputs, session->input_count, name, index, "session_find_input", error);
}

iobind_status iobind_session_find_output(const iobind_session *session, const char *name, size_t *index, iobind_error *error) {
  IOBIND__TRY(check_find(session, name, index, "session_find_output", error));
  return find_value(session->outputs, session->output_count, name, index, "session_find_output", error);
}
