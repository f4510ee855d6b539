/* A trial of a graph before it is captured. WebGPU's EP does not record the copies that some of its nodes make instead of computing (a
 * Transpose that moves nothing, an Identity that is an output, ScatterND): a replay leaves what the capture's run copied there, and returns OK. A
 * list of operators cannot show this, because optimizations change the model. So the model is captured with the trial's own tensors. These get
 * other values, and the replay must give the results of a plain run. */
#include <stdlib.h>
#include <string.h>

#include "binding/table.h"

typedef struct trial {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor **inputs;   /* in memory that the session reads */
  iobind_tensor **hosts;    /* the same values on the host */
  iobind_tensor **expected; /* the results of a plain run */
} trial;

static void trial_free(trial *self) {
  iobind_binding_destroy(self->binding);
  iobind__tensors_release(self->inputs, self->session->input_count);
  iobind__tensors_release(self->hosts, self->session->input_count);
  iobind__tensors_release(self->expected, self->session->output_count);
  free(self->inputs);
  free(self->hosts);
  free(self->expected);
}

/* Change the values. Only floats, because integers may be indices, and an invalid one could crash the model. */
static void change(iobind_tensor *host) {
  for (size_t i = 0; host->dtype == IOBIND_DTYPE_FLOAT32 && i < host->bytes / sizeof(float); i++) {
    float *values = host->data;
    values[i] = values[i] == 0.5F + 0.25F * (float)(i % 7) ? 0.25F : 0.5F + 0.25F * (float)(i % 7);
  }
  for (size_t i = 0; host->dtype == IOBIND_DTYPE_FLOAT16 && i < host->bytes / sizeof(uint16_t); i++) {
    uint16_t *values = host->data;
    values[i] = values[i] == 0x3C00 ? 0x3800 : 0x3C00; /* 1, or 0.5 */
  }
}

static iobind_status make_inputs(trial *self, const iobind_binding *model, iobind_error *error) {
  iobind_session *session = self->session;
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind_tensor *bound = model->inputs[i].bound;
    IOBIND__TRY(iobind__input_make(session, i, bound, &self->inputs[i], error));
    IOBIND__TRY(iobind__session_copy_to_host(session, bound, &self->hosts[i], error));
    IOBIND__TRY(iobind__tensor_copy_one(self->hosts[i], self->inputs[i], NULL, error));
    IOBIND__TRY(iobind_binding_set_input(self->binding, i, IOBIND_INPUT_RESIDENT, self->inputs[i], NULL, error));
  }
  return IOBIND_OK;
}

/* Bind the outputs like those of the real binding, including IN_PLACE, where the EP makes no copy. */
static iobind_status bind_outputs(const trial *self, const iobind_binding *model, iobind_error *error) {
  for (size_t o = 0; o < self->session->output_count; o++) {
    const iobind__output *output = &model->outputs[o];
    if (output->mode == IOBIND__OUTPUT_NONE) {
      IOBIND__TRY(iobind_binding_place_output(self->binding, o, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, error));
    }
    for (size_t i = 0; output->mode == IOBIND__OUTPUT_IN_PLACE && i < self->session->input_count; i++) {
      const iobind_tensor *input = model->inputs[i].bound;
      if (output->target != NULL && output->target->data == input->data && iobind__tensor_same_dims(output->target, input)) {
        IOBIND__TRY(iobind_binding_set_output(self->binding, o, self->inputs[i], IOBIND_OUTPUT_IN_PLACE, error));
      }
    }
  }
  return IOBIND_OK;
}

static iobind_status compare(const trial *self, iobind_error *error) {
  for (size_t o = 0; o < self->session->output_count; o++) {
    iobind_tensor *came = NULL;
    iobind_tensor *copy = NULL;
    if (self->binding->outputs[o].mode == IOBIND__OUTPUT_NONE) {
      continue;
    }
    IOBIND__TRY(iobind_binding_get_output(self->binding, o, NULL, &came, error));
    IOBIND__TRY(iobind__session_copy_to_host(self->session, came, &copy, error));
    bool same = copy->bytes == self->expected[o]->bytes &&
                (copy->bytes == 0 || memcmp(copy->data, self->expected[o]->data, copy->bytes) == 0);
    iobind_tensor_release(copy);
    if (!same) {
      return iobind__fail(
          error, IOBIND_ERROR_NOT_SUPPORTED,
          "binding_run: output '%s': the result of a replay differs from that of a run: the execution provider does not "
          "capture the copies that nodes of this model make (Identity, Reshape, Transpose, ScatterND); create the session "
          "without graph_limit",
          self->session->outputs[o].name);
    }
  }
  return IOBIND_OK;
}

static iobind_status try_graph(trial *self, const iobind_binding *model, iobind_error *error) {
  IOBIND__TRY(iobind_binding_create(self->session, &self->binding, error));
  iobind__graphs_serve(self->binding, IOBIND__GRAPHS_OF_TRIAL);
  IOBIND__TRY(make_inputs(self, model, error));
  IOBIND__TRY(bind_outputs(self, model, error));
  IOBIND__TRY(iobind_binding_run(self->binding, NULL, error));
  for (size_t i = 0; i < self->session->input_count; i++) {
    change(self->hosts[i]);
    IOBIND__TRY(iobind__tensor_copy_one(self->hosts[i], self->inputs[i], NULL, error));
  }
  IOBIND__TRY(iobind__session_run(self->session, self->hosts, self->expected, error));
  IOBIND__TRY(iobind_binding_run(self->binding, NULL, error));
  return compare(self, error);
}

iobind_status iobind__graphs_try(iobind_binding *model, iobind_error *error) {
  iobind_session *session = model->session;
  trial self = {.session = session,
                .inputs = calloc(session->input_count + 1, sizeof(iobind_tensor *)),
                .hosts = calloc(session->input_count + 1, sizeof(iobind_tensor *)),
                .expected = calloc(session->output_count + 1, sizeof(iobind_tensor *))};
  bool whole = self.inputs != NULL && self.hosts != NULL && self.expected != NULL;
  iobind_status status = whole ? try_graph(&self, model, error) : iobind__out_of_memory(error, "binding_run");
  trial_free(&self);
  return status;
}
