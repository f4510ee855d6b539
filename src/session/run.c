/* A run without a binding. */
#include <stdlib.h>

#include "ep/ranges.h"
#include "session/session.h"

static iobind_status check_inputs(const iobind_session *session, iobind_tensor *const *inputs, const OrtValue **values,
                                  iobind_error *error) {
  for (size_t i = 0; i < session->input_count; i++) {
    if (inputs[i] == NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_run: '%s': the tensor is NULL",
                          session->inputs[i].label);
    }
    IOBIND__TRY(iobind__value_accepts(&session->inputs[i], inputs[i], "session_run", error));
    const iobind__place *place = inputs[i]->place;
    bool is_ours = place->device->runtime == session->runtime;
    if (!is_ours || !(place->host || iobind__session_reads(session, &session->inputs[i], inputs[i]))) {
      return iobind__refuse_elsewhere(session, i, inputs[i], "session_run", error);
    }
    IOBIND__TRY(iobind__tensor_settle(inputs[i], IOBIND__READ, error));
    values[i] = inputs[i]->value;
  }
  return IOBIND_OK;
}

/* The memory location of a value: nearly always host memory. */
static iobind_status find_place(iobind_session *session, const OrtValue *value, iobind__place **place, iobind_error *error) {
  const iobind_runtime *runtime = session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "session_run");
  *place = &runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  return iobind__same_memory(runtime, (*place)->info, info) ? IOBIND_OK
                                                            : iobind__session_find_place(session, info, place, error);
}

iobind_status iobind__session_copy_to_host(const iobind_session *session, const iobind_tensor *tensor, iobind_tensor **copy,
                                           iobind_error *error) {
  iobind__place *host = &session->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  iobind_tensor *made;
  IOBIND__TRY(iobind__tensor_create_at(host, iobind__form_of(tensor), &made, error));
  iobind_status status = tensor->dtype == IOBIND_DTYPE_STRING ? iobind__strings_copy(tensor, made, error)
                                                              : iobind__tensor_copy_one(tensor, made, NULL, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(made);
    return status;
  }
  *copy = made;
  return IOBIND_OK;
}

static void release_value(const iobind_session *session, OrtValue *value) {
  iobind__value_release(session->runtime, session->inside, value);
}

/* One output of the run as a host tensor. An input that ORT passed through is the caller's memory: it is copied. */
static iobind_status take_output(iobind_session *session, size_t index, iobind_tensor *const *inputs, OrtValue *value,
                                 iobind_tensor **output, iobind_error *error) {
  int passthrough_input = session->outputs[index].passthrough_input;
  if (passthrough_input >= 0 && inputs != NULL) { /* NULL only if the model has none */
    release_value(session, value);
    return iobind__session_copy_to_host(session, inputs[passthrough_input], output, error);
  }
  iobind__place *place = NULL;
  iobind_status result = find_place(session, value, &place, error);
  iobind_tensor *tensor = NULL;
  if (result == IOBIND_OK) {
    result = iobind__tensor_from_value(value, place, &session->ref, &tensor, "output", error);
  }
  if (result != IOBIND_OK) {
    release_value(session, value);
    return result;
  }
  if (place->host) {
    *output = tensor;
    return IOBIND_OK;
  }
  result = iobind__session_copy_to_host(session, tensor, output, error);
  iobind_tensor_release(tensor);
  return result;
}

static iobind_status take_outputs(iobind_session *session, iobind_tensor *const *inputs, OrtValue **values,
                                  iobind_tensor **outputs, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  size_t next = 0;
  for (size_t i = 0; i < session->output_count; i++) {
    if (session->outputs[i].kind != IOBIND_VALUE_TENSOR) {
      continue;
    }
    OrtValue *value = values[next++];
    if (status == IOBIND_OK) {
      status = take_output(session, i, inputs, value, &outputs[i], error);
    } else {
      release_value(session, value);
    }
  }
  iobind__tensors_release(outputs, status == IOBIND_OK ? 0 : session->output_count);
  return status;
}

/* With the guard entered. */
static iobind_status run_ort(iobind_session *session, const OrtValue **values, OrtValue **results, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  IOBIND__TRY(iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES)
                  ? iobind__registry_check_recycling(session, "session_run", error)
                  : IOBIND_OK);
  OrtStatus *ran = api->Run(session->session, session->run_options, session->input_names, values, session->input_count,
                            session->output_names, session->tensor_output_count, results);
  return ran == NULL ? IOBIND_OK : iobind__ort_fail(api, ran, error, "session_run");
}

iobind_status iobind__session_run(iobind_session *session, iobind_tensor *const *inputs, iobind_tensor **outputs,
                                  iobind_error *error) {
  if (session->tensor_output_count == 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "session_run: none of the model's outputs is a tensor");
  }
  enum { FEW = 16 }; /* enough for most models: nothing is allocated */
  const OrtValue *few_values[FEW];
  OrtValue *few_results[FEW] = {NULL};
  size_t wanted = session->tensor_output_count;
  const OrtValue **values = session->input_count <= FEW ? few_values : calloc(session->input_count, sizeof(OrtValue *));
  OrtValue **results = wanted <= FEW ? few_results : calloc(wanted, sizeof(OrtValue *));
  iobind_status status = values == NULL || results == NULL ? iobind__out_of_memory(error, "session_run")
                                                           : check_inputs(session, inputs, values, error);
  if (status == IOBIND_OK) {
    status = iobind__compute_await(&session->compute, error);
  }
  if (status == IOBIND_OK) {
    iobind__scope scope;
    bool begun = iobind__range_begin("run", iobind__session_name(session));
    status = iobind__guard_enter(session->guard, &scope, error);
    status = status == IOBIND_OK ? run_ort(session, values, results, error) : status;
    status = iobind__guard_end(&scope, status, error);
    iobind__range_end(begun);
  }
  if (status == IOBIND_OK) {
    status = take_outputs(session, inputs, results, outputs, error);
  }
  if (values != few_values) {
    free(values);
  }
  if (results != few_results) {
    free(results);
  }
  return status;
}
