/* The results of a run: fetched from ORT only when the caller asks for them, and checked once to be in the requested memory. */
#include "binding/table.h"

static bool has_results(const iobind_binding *binding) {
  return binding->results.state == IOBIND__RESULTS_HELD || binding->results.state == IOBIND__RESULTS_READY;
}

static void drop(iobind_binding *binding, size_t index) {
  iobind__output *output = &binding->outputs[index];
  if (output->value != NULL && iobind__guard_may_free(binding->session->inside)) {
    IOBIND__API(binding->session->runtime)->ReleaseValue(output->value);
  }
  output->value = NULL;
  iobind__tensor_drop(output->result);
  output->result = NULL;
  output->is_taken = false;
}

/* Assign the values that ORT's binding lists to the outputs. It lists those that are bound, in the model's order. Takes
 * ownership of all values. */
static size_t hand_out(iobind_binding *binding, OrtValue **values, size_t count) {
  size_t bound = 0;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].mode != IOBIND__OUTPUT_NONE) {
      binding->outputs[i].value = bound < count ? values[bound] : NULL;
      bound++;
    }
  }
  for (size_t i = bound; i < count; i++) {
    IOBIND__API(binding->session->runtime)->ReleaseValue(values[i]);
  }
  return bound;
}

iobind_status iobind__results_fetch(iobind_binding *binding, iobind_error *error) {
  if (binding->results.state == IOBIND__RESULTS_READY) {
    return IOBIND_OK;
  }
  iobind_runtime *runtime = binding->session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  OrtValue **values = NULL;
  size_t count = 0;
  IOBIND__ORT_TRY(api,
                  api->GetBoundOutputValues(iobind__side_of_turn(binding)->binding, runtime->cpu_allocator, &values, &count),
                  error, "binding: outputs");
  size_t expected = hand_out(binding, values, count);
  if (binding->graphs != NULL) {
    iobind__binding_disarm(binding); /* an armed replay would not drop these results */
  }
  binding->results.state = IOBIND__RESULTS_READY;
  if (values != NULL) {
    IOBIND__ORT_TRY(api, api->AllocatorFree(runtime->cpu_allocator, values), error, "binding: outputs");
  }
  if (count != expected) {
    iobind__results_drop(binding, NULL);
    return iobind__fail(error, IOBIND_ERROR_INTERNAL, "binding: expected %zu outputs from ONNX Runtime, got %zu", expected,
                        count);
  }
  return IOBIND_OK;
}

/* The address of an output's value. NULL, and 0 bytes, for strings. */
static iobind_status locate(const iobind_binding *binding, size_t index, OrtValue *value, void **data, size_t *bytes,
                            iobind_error *error) {
  *data = NULL;
  *bytes = 0;
  const iobind__value *output = &binding->session->outputs[index];
  if (value == NULL || output->dtype == IOBIND_DTYPE_STRING) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &dims, &rank), error, "output '%s'",
                  output->label);
  IOBIND__TRY(iobind__form_bytes((iobind__form){(iobind_dtype)dtype, dims, rank}, bytes, "output", error));
  IOBIND__ORT_TRY(api, api->GetTensorMutableData(value, data), error, "output '%s'", output->label);
  if (*data == NULL && *bytes > 0) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "output '%s': %zu bytes: out of device memory", output->label,
                        *bytes);
  }
  return IOBIND_OK;
}

/* ---- is each output in the requested memory? This depends only on the output, its mode and its memory location, so it is not checked
 * again for another tensor of the same kind ---- */

static iobind_status verify_place(const iobind_binding *binding, size_t index, const OrtValue *value, iobind_error *error) {
  iobind_runtime *runtime = binding->session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const iobind__output *output = &binding->outputs[index];
  const char *name = binding->session->outputs[index].label;
  int is_tensor = 0;
  IOBIND__ORT_TRY(api, api->IsTensor(value, &is_tensor), error, "output '%s'", name);
  if (is_tensor == 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "output '%s': the run returned no tensor", name);
  }
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "output '%s'", name);
  const iobind__place *asked = output->is_copied ? iobind__output_home(binding, index) : iobind__output_place(output);
  if (!iobind__same_memory(runtime, info, asked->info)) {
    const char *landed = NULL;
    IOBIND__ORT_TRY(api, api->MemoryInfoGetName(info, &landed), error, "output '%s'", name);
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "output '%s': expected memory of '%s', as bound, got '%s'", name,
                        asked->device->spec, landed);
  }
  return IOBIND_OK;
}

/* Does the model fix the dims of an output, and does the value have them? */
static iobind_status check_fixed_dims(const iobind_binding *binding, size_t index, const OrtValue *value, bool *same,
                                      iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  const iobind__value *output = &binding->session->outputs[index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &dims, &rank), error, "output '%s'",
                  output->label);
  *same = output->has_shape && rank == output->rank;
  for (size_t i = 0; i < rank && *same; i++) {
    *same = dims[i] == output->dims[i];
  }
  return IOBIND_OK;
}

/* An output of 0 bytes does not show where its memory is; strings have no bytes. */
static iobind_status verify(iobind_binding *binding, size_t index, iobind_error *error) {
  iobind__output *output = &binding->outputs[index];
  void *data;
  size_t bytes;
  IOBIND__TRY(verify_place(binding, index, output->value, error));
  if (output->mode == IOBIND__OUTPUT_REUSE) {
    IOBIND__TRY(check_fixed_dims(binding, index, output->value, &output->has_fixed_dims, error));
  }
  IOBIND__TRY(locate(binding, index, output->value, &data, &bytes, error));
  if (binding->session->outputs[index].dtype == IOBIND_DTYPE_STRING || bytes > 0) {
    output->seen_mode = output->mode;
    output->seen_place = iobind__output_place(output);
  }
  return IOBIND_OK;
}

iobind_status iobind__results_verify(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  bool all = true;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (!binding->outputs[i].is_copied && !iobind__output_is_seen(binding, i)) {
      IOBIND__TRY(verify(binding, i, error));
    }
    all = all && iobind__output_is_seen(binding, i);
  }
  binding->plan.is_seen = all;
  return IOBIND_OK;
}

/* ---- a result as a tensor ---- */

iobind_status iobind__result_overlaps(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, bool *overlaps,
                                      iobind_error *error) {
  const iobind__output *output = &binding->outputs[index];
  *overlaps = false;
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    const OrtValue *value = output->result != NULL ? output->result->value : output->value;
    return value == NULL || binding->session->outputs[index].dtype != IOBIND_DTYPE_STRING
               ? IOBIND_OK
               : iobind__strings_shared(binding->session->runtime, value, tensor->value, overlaps, error);
  }
  if (output->result != NULL) {
    *overlaps = iobind__tensor_overlaps(output->result, tensor);
    return IOBIND_OK;
  }
  void *data;
  size_t bytes;
  IOBIND__TRY(locate(binding, index, output->value, &data, &bytes, error));
  *overlaps = iobind__memory_overlaps(output->place, data, bytes, tensor->place, tensor->data, tensor->bytes);
  return IOBIND_OK;
}

/* REUSE memory has one tensor for all runs: an owner of an earlier run's tensor sees what later runs write. */
static void show(iobind_binding *binding, size_t index) {
  iobind__output *output = &binding->outputs[index];
  iobind_tensor *shown = *iobind__output_shown(binding, index);
  if (shown == NULL || shown->data != output->result->data) {
    iobind__output_show(binding, index, output->result);
    return;
  }
  iobind_tensor_release(output->result);
  output->result = iobind_tensor_retain(shown);
}

/* Create a tensor from the value of an output. */
static iobind_status make_result(iobind_binding *binding, size_t index, iobind_error *error) {
  iobind__output *output = &binding->outputs[index];
  if (output->result != NULL) {
    return IOBIND_OK;
  }
  if (iobind__output_is_given(output)) {
    output->result = iobind_tensor_retain(output->target);
    return IOBIND_OK;
  }
  if (binding->graphs != NULL) {
    void *data;
    size_t bytes;
    IOBIND__TRY(locate(binding, index, output->value, &data, &bytes, error));
    output->result = iobind__graphs_find_made(binding, index, data);
    if (output->result != NULL) {
      return IOBIND_OK;
    }
  }
  IOBIND__TRY(verify_place(binding, index, output->value, error));
  IOBIND__TRY(
      iobind__tensor_from_value(output->value, output->place, &binding->session->ref, &output->result, "output", error));
  output->value = NULL;
  if (output->mode == IOBIND__OUTPUT_REUSE) {
    show(binding, index);
  }
  return IOBIND_OK;
}

iobind_status iobind__result_make(iobind_binding *binding, size_t index, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  return make_result(binding, index, error);
}

/* The source of a copied output, with a reference for the caller: an input that was passed through, or the run's value. */
static iobind_status find_source(iobind_binding *binding, size_t index, iobind_tensor **source, iobind_error *error) {
  const iobind_session *session = binding->session;
  iobind__output *output = &binding->outputs[index];
  int passthrough_input = session->outputs[index].passthrough_input;
  if (passthrough_input >= 0) {
    *source = iobind_tensor_retain(binding->inputs[passthrough_input].bound);
    return IOBIND_OK;
  }
  IOBIND__TRY(verify_place(binding, index, output->value, error));
  IOBIND__TRY(
      iobind__tensor_from_value(output->value, session->outputs[index].place, &binding->session->ref, source, "output", error));
  output->value = NULL;
  return IOBIND_OK;
}

/* The tensor for the copy: the bound one, or a new one. */
static iobind_status make_copy(iobind_binding *binding, size_t index, const iobind_tensor *source, iobind_tensor **copy,
                               iobind_error *error) {
  const iobind__output *output = &binding->outputs[index];
  iobind_tensor *shown = *iobind__output_shown(binding, index);
  if (output->mode == IOBIND__OUTPUT_REUSE && shown != NULL && iobind__tensor_same_dims(source, shown)) {
    *copy = iobind_tensor_retain(shown);
    return IOBIND_OK;
  }
  if (!iobind__output_is_given(output)) {
    return iobind__tensor_create_at(output->place, iobind__form_of(source), copy, error);
  }
  if (!iobind__tensor_same_dims(source, output->target)) {
    char came[IOBIND__SHAPE_TEXT];
    char bound[IOBIND__SHAPE_TEXT];
    iobind__shape_text(iobind__form_of(source), NULL, came, sizeof came);
    iobind__shape_text(iobind__form_of(output->target), NULL, bound, sizeof bound);
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "binding_run: output '%s': expected %s, as bound, got %s from the run",
                        binding->session->outputs[index].name, bound, came);
  }
  *copy = iobind_tensor_retain(output->target);
  return IOBIND_OK;
}

static iobind_status copy_content(const iobind_tensor *source, iobind_tensor *copy, iobind_stream *stream,
                                  iobind_error *error) {
  if (source->dtype == IOBIND_DTYPE_STRING) {
    return iobind__strings_copy(source, copy, error);
  }
  bool is_there = source->data == copy->data && source->place == copy->place; /* IN_PLACE: the output is the input's memory */
  return is_there ? IOBIND_OK : iobind__tensor_copy_one(source, copy, stream, error);
}

static iobind_status copy_output(iobind_binding *binding, size_t index, iobind_stream *stream, iobind_error *error) {
  iobind_tensor *source;
  iobind_tensor *copy = NULL;
  IOBIND__TRY(find_source(binding, index, &source, error));
  iobind_status status = make_copy(binding, index, source, &copy, error);
  const iobind__submission submission = iobind__stream_begin(stream);
  if (status == IOBIND_OK) {
    status = copy_content(source, copy, stream, error);
  }
  if (status == IOBIND_OK) {
    iobind__output *output = &binding->outputs[index];
    iobind__tensor_use(source, &submission, IOBIND__READ);
    iobind_tensor_release(output->result);
    output->result = iobind_tensor_retain(copy);
    if (output->mode == IOBIND__OUTPUT_REUSE && output->target == NULL) {
      iobind__output_show(binding, index, copy);
    }
  }
  iobind_tensor_release(source);
  iobind_tensor_release(copy);
  return status;
}

iobind_status iobind__results_copy(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].is_copied) {
      IOBIND__TRY(copy_output(binding, i, stream, error));
    }
  }
  return IOBIND_OK;
}

/* Retain the memory of a run's results until the stream has completed all previously submitted work. Readers of them receive the run's failure. */
static iobind_status retire(iobind_binding *binding, iobind_stream *stream) {
  const iobind__submission submission = iobind__stream_begin(stream);
  IOBIND__TRY(iobind__results_fetch(binding, NULL));
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (output->value == NULL && output->result == NULL) {
      continue; /* not bound, taken, or a state that has become an input */
    }
    IOBIND__TRY(make_result(binding, i, NULL));
    iobind__tensor_use_at(output->result, stream, binding->flight.ticket, IOBIND__WRITE);
    iobind__tensor_use(output->result, &submission, IOBIND__READ);
  }
  return IOBIND_OK;
}

void iobind__results_drop(iobind_binding *binding, iobind_stream *busy) {
  if (busy != NULL && has_results(binding) && retire(binding, busy) != IOBIND_OK) {
    iobind__stream_pass(busy); /* nothing else retains the memory until the stream has completed its work */
  }
  if (binding->results.state == IOBIND__RESULTS_READY) {
    iobind__scope scope;
    iobind__guard_enter_anyway(binding->session->inside, &scope);
    for (size_t i = 0; i < binding->session->output_count; i++) {
      drop(binding, i);
    }
    iobind__guard_leave(&scope);
  }
  binding->results.state = IOBIND__RESULTS_NONE;
}

/* The result of an output, created on first use; its content is complete if the run is. */
static iobind_status find_result(iobind_binding *binding, size_t index, iobind__output **out, const char *what,
                                 iobind_error *error) {
  iobind__output *output = &binding->outputs[index];
  const char *name = binding->session->outputs[index].label;
  *out = output;
  if (output->mode == IOBIND__OUTPUT_NONE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound: bind it and run first", what, name);
  }
  if (binding->results.state == IOBIND__RESULTS_FAILED) {
    return iobind__error_copy(error, &binding->results.failure);
  }
  if (binding->results.state == IOBIND__RESULTS_NONE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "%s: '%s': no run has completed since the binding changed: run it first", what, name);
  }
  if (output->is_taken) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' was already taken after the last run: run again first",
                        what, name);
  }
  IOBIND__TRY(iobind__results_fetch(binding, error));
  if (output->value == NULL && output->result == NULL && !iobind__output_is_given(output)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "%s: '%s' has become the next run's input: get an output directly after its run", what, name);
  }
  return make_result(binding, index, error);
}

static iobind_status get_result(iobind_binding *binding, size_t index, iobind__output **out, const char *what,
                                iobind_error *error) {
  IOBIND__TRY(iobind__output_check_index(binding, index, what, error));
  IOBIND__TRY(iobind__flight_wait(binding, error));
  IOBIND__TRY(iobind__binding_must_be_idle(binding, what, error));
  return find_result(binding, index, out, what, error);
}

iobind_status iobind__binding_peek(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error) {
  iobind__output *output = NULL;
  IOBIND__TRY(find_result(binding, index, &output, "binding_run", error));
  *tensor = output->result;
  return IOBIND_OK;
}

/* The result of a run that may be in flight. ORT has created the value when its call returns, but its content may be complete
 * later. So it can be used only in the order of a stream. */
static iobind_status get_ordered_result(iobind_binding *binding, size_t index, iobind_stream *stream, iobind__output **out,
                                        iobind_error *error) {
  const char *what = "binding_get_output";
  iobind__flight_poll(binding);
  iobind_stream *busy = binding->flight.stream;
  if (busy == NULL || !iobind__stream_orders_calls(busy) || index >= binding->session->output_count) {
    return get_result(binding, index, out, what, error);
  }
  IOBIND__TRY(find_result(binding, index, out, what, error));
  if ((*out)->result->place->host) {
    return get_result(binding, index, out, what, error);
  }
  if (!iobind__output_is_given(*out)) { /* a FRESH one has no holder for the run that writes it */
    iobind__tensor_use_at((*out)->result, busy, binding->flight.ticket, IOBIND__WRITE);
  }
  return stream == busy ? IOBIND_OK : iobind__stream_join(stream, busy, error);
}

static iobind_status get_output(iobind_binding *binding, size_t index, iobind_stream *stream, iobind_tensor **tensor,
                                iobind_error *error) {
  if (tensor != NULL) {
    *tensor = NULL;
  }
  if (binding == NULL || tensor == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_get_output: %s is NULL",
                        binding == NULL ? "binding" : "tensor");
  }
  IOBIND__TRY(iobind__process_check("binding_get_output", error));
  if (stream != NULL && !iobind__session_has_device(binding->session, stream->device)) {
    return iobind__fail(
        error, IOBIND_ERROR_WRONG_DEVICE,
        "binding_get_output: the stream is of '%s', which is not a device of the session: create one on a device of the "
        "session",
        stream->device->spec);
  }
  iobind__output *output = NULL;
  IOBIND__TRY(stream == NULL ? get_result(binding, index, &output, "binding_get_output", error)
                             : get_ordered_result(binding, index, stream, &output, error));
  *tensor = output->result;
  return IOBIND_OK;
}

iobind_status iobind_binding_get_output(iobind_binding *binding, size_t index, iobind_stream *stream, iobind_tensor **tensor,
                                        iobind_error *error) {
  return iobind__named(get_output(binding, index, stream, tensor, error), error, "binding_get_output");
}

static iobind_status take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error) {
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_take_output: tensor is NULL");
  }
  *tensor = NULL;
  IOBIND__TRY(iobind__process_check("binding_take_output", error));
  iobind__output *output = NULL;
  IOBIND__TRY(get_result(binding, index, &output, "binding_take_output", error));
  *tensor = output->result;
  iobind__carry *carry = iobind__carry_of_output(binding, index);
  if (carry != NULL || (output->mode != IOBIND__OUTPUT_REUSE && iobind__output_is_given(output))) {
    iobind_tensor_retain(output->result);
    iobind__carry_take(binding, carry);
    output->is_taken = carry != NULL;
    return IOBIND_OK;
  }
  output->result = NULL; /* the reference is transferred to the caller */
  output->is_taken = true;
  if (output->mode == IOBIND__OUTPUT_REUSE) {
    iobind__output_leave(binding, index, *tensor);
  }
  return IOBIND_OK;
}

iobind_status iobind_binding_take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error) {
  return iobind__named(take_output(binding, index, tensor, error), error, "binding_take_output");
}

iobind_status iobind__binding_output_bytes(iobind_binding *binding, size_t index, uint64_t *bytes, bool *known,
                                           iobind_error *error) {
  const iobind__output *output = &binding->outputs[index];
  const iobind__value *value = &binding->session->outputs[index];
  size_t size = 0;
  *known = true;
  if (output->target != NULL) {
    size = output->target->bytes;
  } else if (has_results(binding) && !output->is_taken) {
    iobind_tensor *result;
    IOBIND__TRY(iobind__binding_peek(binding, index, &result, error));
    size = result->bytes;
  } else {
    *known = value->has_shape && iobind_dtype_get_bytes(value->dtype, value->dims, value->rank, &size, NULL) == IOBIND_OK;
  }
  *bytes = size;
  return IOBIND_OK;
}
