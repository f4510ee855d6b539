/* The memory of one item. Each slot has its own, so that items in flight never share memory. */
#include <stdlib.h>
#include <string.h>

#include "flow/slot.h"
#include "memory/allocator.h"

/* ---- memory of an item ---- */

/* The input's memory. A captured graph reads the memory of its capture. So a smaller item uses the start of the slot's memory,
 * for which a graph of its dims may exist. Memory that is too small is replaced, and its graphs are released. */
static iobind_status make_memory(iobind__slot *self, size_t index, const iobind_tensor *like, iobind_tensor **input,
                                 iobind_error *error) {
  iobind_session *session = self->pipeline->session;
  iobind_tensor *own = self->inputs[index];
  if (session->graphs.limit == 0 || own == NULL) {
    return iobind__input_make(session, index, like, input, error);
  }
  iobind_tensor *whole = own->base != NULL ? own->base : own;
  if (like->bytes <= whole->bytes) {
    return iobind_tensor_view(whole, 0, like->dtype, like->dims, like->rank, input, error);
  }
  IOBIND__TRY(iobind__input_make(session, index, like, input, error));
  iobind__graphs_forget_memory(self->binding, whole);
  return IOBIND_OK;
}

static iobind_status make_input(iobind__slot *self, size_t index, const iobind_tensor *like, iobind_error *error) {
  iobind_tensor *input = NULL;
  iobind_tensor *staging = NULL;
  IOBIND__TRY(make_memory(self, index, like, &input, error));
  iobind_status status = IOBIND_OK;
  if (!input->place->host) {
    status = iobind__tensor_create_at(iobind__place_for_staging(input->place), iobind__form_of(like), &staging, error);
  }
  if (status == IOBIND_OK) {
    status = iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, input, NULL, error);
  }
  if (status != IOBIND_OK) {
    iobind_tensor_release(staging);
    iobind_tensor_release(input);
    return status;
  }
  iobind__tensor_hand_to(input, IOBIND_HOLDER_PIPELINE);
  iobind__tensor_hand_to(staging, IOBIND_HOLDER_PIPELINE);
  iobind_tensor_release(self->inputs[index]);
  iobind_tensor_release(self->staging[index]);
  self->inputs[index] = input;
  self->staging[index] = staging;
  return IOBIND_OK;
}

static iobind_event *event_of(const iobind_pipeline_request *of, size_t index) {
  return of->events == NULL ? NULL : of->events[index];
}

/* Does the run read the caller's tensor itself? Not if it is on the host: then it is copied, so that the caller may reuse the
 * memory after the call. */
static bool is_given(const iobind_pipeline_request *of, size_t index) {
  return !of->inputs[index]->place->host;
}

static iobind_status check_input(const iobind_pipeline *pipeline, size_t index, const iobind_pipeline_request *of,
                                 const char *what, iobind_error *error) {
  const iobind_session *session = pipeline->session;
  const iobind__value *value = &session->inputs[index];
  const iobind_tensor *tensor = of->inputs[index];
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s': the tensor is NULL, and the input is not a constant",
                        what, value->label);
  }
  IOBIND__TRY(iobind__value_accepts(value, tensor, what, error));
  bool is_ours = tensor->place->device->runtime == session->runtime;
  if (is_ours && (tensor->place->host || iobind__session_reads(session, value, tensor))) {
    return IOBIND_OK;
  }
  return iobind__refuse_elsewhere(session, index, tensor, what, error);
}

void iobind__slot_meet(const iobind__slot *self) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    iobind__holder_meet(&self->holders[i]);
  }
}

void iobind__slot_let_go(iobind__slot *self) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    if (self->given[i] != NULL) {
      iobind__input_let_go(self->binding, i);
      iobind__tensor_hold(NULL, &self->holders[i]);
      iobind_tensor_release(self->given[i]);
      iobind__point_release(self->points[i]);
      self->given[i] = NULL;
      self->points[i] = NULL;
    }
  }
}

static iobind_status give(iobind__slot *self, size_t index, iobind_tensor *tensor, iobind_event *event, iobind_error *error) {
  IOBIND__TRY(iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, tensor, NULL, error));
  self->given[index] = iobind_tensor_retain(tensor);
  iobind__tensor_hold(tensor, &self->holders[index]);
  self->points[index] = event == NULL ? NULL : iobind__event_point(event);
  return IOBIND_OK;
}

/* Bind the item's input: the caller's tensor, or the slot's memory. */
static iobind_status bind(iobind__slot *self, size_t index, const iobind_pipeline_request *of, iobind_error *error) {
  iobind_tensor *tensor = of->inputs[index];
  if (is_given(of, index)) {
    return give(self, index, tensor, event_of(of, index), error);
  }
  iobind_tensor *own = self->inputs[index];
  if (own == NULL || !iobind__tensor_same_dims(own, tensor)) {
    return make_input(self, index, tensor, error);
  }
  bool is_bound = iobind__binding_view_input(self->binding, index).tensor == own;
  return is_bound ? IOBIND_OK : iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, own, NULL, error);
}

static void copy_in(const iobind__slot *self, size_t count, const iobind_pipeline_request *of) {
  for (size_t i = 0; i < count; i++) {
    const iobind_tensor *target = self->staging[i] != NULL ? self->staging[i] : self->inputs[i];
    if (self->pipeline->streamed[i] && !is_given(of, i) && target->bytes > 0) {
      memcpy(target->data, of->inputs[i]->data, target->bytes);
    }
  }
}

iobind_status iobind__slot_bring(iobind__slot *self, const iobind_pipeline_request *of, const char *what, iobind_error *error) {
  const iobind_pipeline *pipeline = self->pipeline;
  size_t count = of->inputs == NULL ? 0 : pipeline->session->input_count; /* checked: NULL only if the model has no inputs */
  for (size_t i = 0; i < count; i++) {
    if (pipeline->streamed[i]) {
      IOBIND__TRY(check_input(pipeline, i, of, what, error));
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (pipeline->streamed[i] && !is_given(of, i)) {
      IOBIND__TRY(event_of(of, i) == NULL ? IOBIND_OK : iobind__stream_order_event(NULL, event_of(of, i), error));
      IOBIND__TRY(iobind__tensor_settle(of->inputs[i], IOBIND__READ, error));
    }
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < count && status == IOBIND_OK; i++) {
    status = pipeline->streamed[i] ? bind(self, i, of, error) : IOBIND_OK;
  }
  status = status == IOBIND_OK ? iobind__binding_check_once(self->binding, what, error) : status;
  if (status != IOBIND_OK) {
    iobind__slot_let_go(self);
    return status;
  }
  copy_in(self, count, of);
  return IOBIND_OK;
}

/* The binding, too, holds references to an output that its runs write in place. */
void iobind__slot_leave_kept(iobind__slot *self) {
  for (size_t i = 0; i < self->pipeline->session->output_count; i++) {
    iobind_tensor *output = self->outputs[i];
    size_t others = output == NULL ? 0 : iobind__output_references(self->binding, i, output);
    if (output == NULL || atomic_load_explicit(&output->ref.count, memory_order_acquire) == others + 1) {
      continue;
    }
    if (others > 0) {
      iobind__output_leave(self->binding, i, output);
    }
    iobind_tensor_release(output);
    self->outputs[i] = NULL;
  }
}

iobind_status iobind__slot_find_output(iobind__slot *self, size_t index, const iobind_tensor **source, iobind_error *error) {
  iobind_tensor *output;
  iobind_tensor **handed = &self->outputs[index];
  *source = NULL;
  IOBIND__TRY(iobind__binding_peek(self->binding, index, &output, error));
  if (output->place->host || self->pipeline->placements[index] == IOBIND_PLACE_DEVICE) {
    iobind_tensor_release(*handed);
    *handed = iobind_tensor_retain(output);
    return IOBIND_OK;
  }
  if (*handed == NULL || !iobind__tensor_same_dims(*handed, output)) {
    iobind_tensor_release(*handed);
    *handed = NULL;
    IOBIND__TRY(iobind__tensor_create_at(iobind__place_for_staging(output->place), iobind__form_of(output), handed, error));
    iobind__tensor_hand_to(*handed, IOBIND_HOLDER_PIPELINE);
  }
  *source = output;
  return IOBIND_OK;
}

iobind_status iobind__slot_make(iobind_pipeline *pipeline, iobind__slot *self, const iobind_pipeline_options *options,
                                const iobind_run_options *run_options, iobind_device *device, iobind_error *error) {
  iobind_session *session = pipeline->session;
  self->pipeline = pipeline;
  self->inputs = calloc(3 * session->input_count + 1, sizeof(iobind_tensor *));
  self->points = calloc(session->input_count + 1, sizeof(iobind__point *));
  self->outputs = calloc(session->output_count + 1, sizeof(iobind_tensor *));
  self->holders = calloc(session->input_count + 1, sizeof(iobind__holder));
  iobind__flight_init(&self->flight);
  if (self->inputs == NULL || self->points == NULL || self->outputs == NULL || self->holders == NULL) {
    return iobind__out_of_memory(error, "pipeline_create");
  }
  self->staging = self->inputs + session->input_count;
  self->given = self->staging + session->input_count;
  for (size_t i = 0; i < session->input_count; i++) {
    iobind__holder_init(&self->holders[i], &self->flight, false);
  }
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    IOBIND__TRY(iobind_event_create(device, &self->events[stage], error));
  }
  IOBIND__TRY(iobind_binding_create(session, &self->binding, error));
  iobind__graphs_serve(self->binding, IOBIND__GRAPHS_OF_SLOT);
  IOBIND__TRY(iobind__run_options_replace(self->binding, run_options, "pipeline_create", error));
  for (size_t i = 0; i < session->input_count; i++) {
    if (!pipeline->streamed[i]) {
      IOBIND__TRY(iobind_binding_set_input(self->binding, i, IOBIND_INPUT_RESIDENT, options->constants[i], NULL, error));
      iobind__tensor_hold(options->constants[i], &self->holders[i]);
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    iobind_output_mode mode = iobind__pipeline_wants(pipeline, i) ? IOBIND_OUTPUT_REUSE : IOBIND_OUTPUT_NONE;
    IOBIND__TRY(iobind_binding_place_output(self->binding, i, mode, NULL, IOBIND_MEMORY_DEFAULT, error));
  }
  return IOBIND_OK;
}

void iobind__slot_free(iobind__slot *self) {
  const iobind_session *session = self->pipeline->session;
  for (size_t i = 0; self->holders != NULL && i < session->input_count;
       i++) { /* before the binding releases the memory that they hold */
    iobind__tensor_hold(NULL, &self->holders[i]);
  }
  iobind_stream *stream = iobind__flight_end(&self->flight);
  if (stream != NULL) {
    iobind__ref_release(&stream->ref);
  }
  iobind__flight_destroy(&self->flight);
  iobind_binding_destroy(self->binding);
  iobind__tensors_release(self->inputs, 3 * session->input_count); /* also staging and given */
  iobind__tensors_release(self->outputs, session->output_count);
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    iobind_event_destroy(self->events[stage]);
  }
  free(self->inputs);
  free(self->points);
  free(self->holders);
  free(self->outputs);
}
