/* Verified runs. First ORT's CPU EP makes the run from copies of the inputs, because the run may overwrite states. Then the
 * device makes it, and the results are compared on the host. */
#include <stdlib.h>

#include "binding/run.h"
#include "support/decimal.h"

struct iobind__verified {
  iobind__verify_counts own;
  iobind__verify_counts *counts; /* the binding's own, or that of all requests of the session */
  iobind__hash dims;             /* the dims for which the plan was compiled */
  iobind_tensor **inputs;        /* the current run's inputs, on the host; references are held, also in the next two */
  iobind_tensor **right;         /* the CPU's results */
  iobind_tensor **again;         /* the CPU's results of a second run, to find random outputs */
};

/* ---- open, close ---- */

static void forget(const iobind_binding *binding) {
  const iobind_session *session = binding->session;
  const iobind__verified *self = binding->verified;
  iobind__tensors_release(self->inputs, session->input_count);
  iobind__tensors_release(self->right, session->output_count);
}

iobind_status iobind__verified_open(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  if (session->shadow == NULL) {
    return IOBIND_OK;
  }
  iobind__verified *self = calloc(1, sizeof *self);
  iobind_tensor **tensors = calloc(session->input_count + 2 * session->output_count + 1, sizeof(iobind_tensor *));
  if (self == NULL || tensors == NULL) {
    free(self);
    free(tensors);
    return iobind__out_of_memory(error, "binding_create");
  }
  iobind__verify_counts_open(&self->own, session->shadow->verify.runs);
  self->counts = &self->own;
  self->inputs = tensors;
  self->right = tensors + session->input_count;
  self->again = self->right + session->output_count;
  binding->verified = self;
  return IOBIND_OK;
}

void iobind__verified_close(iobind_binding *binding) {
  if (binding->verified != NULL) {
    iobind__verify_counts_close(&binding->verified->own);
    free(binding->verified->inputs);
    free(binding->verified);
    binding->verified = NULL;
  }
}

void iobind__verified_serve_request(iobind_binding *binding) {
  if (binding->verified != NULL) {
    binding->verified->counts = &binding->session->shadow->requests;
  }
}

/* ---- the runs to verify ---- */

static void add_dims(iobind__hasher *hasher, const iobind_tensor *tensor) {
  iobind__hash_add(hasher, &tensor->rank, sizeof tensor->rank);
  iobind__hash_add(hasher, tensor->dims, tensor->rank * sizeof tensor->dims[0]);
}

/* Not of states: one that grows would make each run a new set of dims. */
static iobind__hash hash_dims(const iobind_binding *binding) {
  iobind__hasher hasher;
  iobind__hash_begin(&hasher);
  for (size_t i = 0; i < binding->session->input_count; i++) {
    if (binding->inputs[i].carry == 0) {
      add_dims(&hasher, binding->inputs[i].bound);
    }
  }
  return iobind__hash_end(&hasher);
}

bool iobind__verified_has_due(iobind_binding *binding) {
  iobind__verified *self = binding->verified;
  self->dims = hash_dims(binding);
  return iobind__verify_counts_is_due(self->counts, &self->dims);
}

bool iobind__verified_wants_request(iobind_session *session, iobind_tensor *const *inputs) {
  iobind__hasher hasher;
  if (session->shadow == NULL) {
    return false;
  }
  iobind__hash_begin(&hasher);
  for (size_t i = 0; i < session->input_count; i++) {
    if (inputs[i] != NULL) { /* a NULL input is refused by the run */
      add_dims(&hasher, inputs[i]);
    }
  }
  const iobind__hash dims = iobind__hash_end(&hasher);
  return iobind__verify_counts_is_due(&session->shadow->requests, &dims);
}

/* ---- the run on the CPU ---- */

/* Block until both streams are complete: the work that writes the inputs, and the run itself. */
static iobind_status await_streams(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind_stream *compute = binding->session->compute.stream;
  IOBIND__TRY(iobind__stream_drain(stream, error));
  IOBIND__TRY(compute == stream ? IOBIND_OK : iobind__stream_drain(compute, error));
  return IOBIND_OK;
}

static iobind_status copy_inputs(const iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    const iobind_tensor *read = input->source != NULL ? input->source : input->bound;
    IOBIND__TRY(iobind__session_copy_to_host(session, read, &binding->verified->inputs[i], error));
  }
  return IOBIND_OK;
}

/* Is the output a cache that an operator writes in place? Then rows that are not in use keep their content, so the CPU must
 * write in place, too; otherwise its rows would be zeros. */
static bool is_shared(const iobind_binding *binding, size_t index) {
  const iobind__output *output = &binding->outputs[index];
  const iobind__kind *kind = &binding->session->shadow->kinds[index];
  if (output->mode != IOBIND__OUTPUT_IN_PLACE || kind->kind == IOBIND_STATE_UNKNOWN || !kind->is_grouped ||
      !kind->is_shareable) {
    return false;
  }
  const iobind_tensor *read = binding->inputs[kind->input].bound;
  const iobind_tensor *written = output->target;
  return written == read || (written != NULL && written->data == read->data && read->data != NULL);
}

static bool has_shared(const iobind_binding *binding) {
  bool any = false;
  for (size_t i = 0; !any && i < binding->session->output_count; i++) {
    any = is_shared(binding, i);
  }
  return any;
}

/* A cache that is written in place gets another copy, which is also the CPU's output, so that the run's input is not changed. */
static iobind_status copy_shared(const iobind_binding *binding, iobind_tensor **outputs, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind_tensor *read = is_shared(binding, i) ? binding->verified->inputs[session->shadow->kinds[i].input] : NULL;
    IOBIND__TRY(read == NULL ? IOBIND_OK : iobind__session_copy_to_host(session, read, &outputs[i], error));
  }
  return IOBIND_OK;
}

static iobind_tensor *input_on_cpu(const iobind_binding *binding, size_t input, iobind_tensor *const *outputs) {
  iobind_tensor *read = binding->verified->inputs[input];
  for (size_t i = 0; i < binding->session->output_count; i++) {
    read = outputs[i] != NULL && binding->session->shadow->kinds[i].input == input ? outputs[i] : read;
  }
  return read;
}

static iobind_status bind_copies(const iobind_binding *binding, iobind_binding *to, iobind_tensor **outputs,
                                 iobind_error *error) {
  const iobind_session *session = binding->session;
  IOBIND__TRY(copy_shared(binding, outputs, error));
  for (size_t i = 0; i < session->input_count; i++) {
    iobind_tensor *read = input_on_cpu(binding, i, outputs);
    IOBIND__TRY(iobind_binding_set_input(to, i, IOBIND_INPUT_RESIDENT, read, NULL, error));
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (outputs[i] != NULL) {
      IOBIND__TRY(iobind_binding_set_output(to, i, outputs[i], IOBIND_OUTPUT_IN_PLACE, error));
    } else if (session->outputs[i].kind != IOBIND_VALUE_TENSOR) {
      IOBIND__TRY(iobind_binding_place_output(to, i, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status run_bound(const iobind_binding *binding, iobind_binding *by, iobind_tensor **outputs,
                               iobind_error *error) {
  const iobind_session *session = binding->session;
  IOBIND__TRY(bind_copies(binding, by, outputs, error));
  IOBIND__TRY(iobind_binding_run(by, NULL, error));
  for (size_t i = 0; i < session->output_count; i++) {
    if (outputs[i] == NULL && session->outputs[i].kind == IOBIND_VALUE_TENSOR) {
      IOBIND__TRY(iobind_binding_take_output(by, i, &outputs[i], error));
    }
  }
  return IOBIND_OK;
}

static iobind_status run_sharing(const iobind_binding *binding, iobind_tensor **outputs, iobind_error *error) {
  iobind_binding *made;
  IOBIND__TRY(iobind_binding_create(binding->session->shadow->session, &made, error));
  iobind_status status = run_bound(binding, made, outputs, error);
  iobind_binding_destroy(made);
  iobind__tensors_release(outputs, status == IOBIND_OK ? 0 : binding->session->output_count);
  return status;
}

static iobind_status run_on_cpu(const iobind_binding *binding, iobind_tensor **outputs, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status =
      has_shared(binding) ? run_sharing(binding, outputs, &reason)
                          : iobind__session_run(binding->session->shadow->session, binding->verified->inputs, outputs, &reason);
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, reason.ort_code, "binding_run: verify: the run on the CPU: %s",
                      iobind__error_text(&reason));
  }
  return status;
}

iobind_status iobind__verified_begin(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__shadow_load(binding->session, "binding_run", error));
  IOBIND__TRY(await_streams(binding, stream, error));
  IOBIND__TRY(copy_inputs(binding, error));
  IOBIND__TRY(run_on_cpu(binding, binding->verified->right, error));
  return iobind__stream_enter(stream, error); /* again, because its library may have begun a capture meanwhile */
}

const iobind_tensor *iobind__verified_source(const iobind_binding *binding, size_t input) {
  bool is_read = binding->verified != NULL && binding->verified->inputs[input] != NULL;
  return is_read ? binding->verified->inputs[input] : binding->inputs[input].source;
}

/* ---- comparison ---- */

static iobind_status find_difference(const iobind_binding *binding, size_t index, const iobind_tensor *tensor,
                                     iobind_difference *found, iobind_error *error) {
  const iobind_tolerance tolerance = iobind__shadow_tolerance(binding->session->shadow, tensor->dtype);
  return iobind__difference_find(tensor, binding->verified->right[index], &tolerance, found, error);
}

static iobind_status differs_again(const iobind_binding *binding, size_t index, bool *differs, iobind_error *error) {
  const iobind_tensor *again = binding->verified->again[index];
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  *differs = !iobind__tensor_same_dims(again, binding->verified->right[index]);
  IOBIND__TRY(*differs ? IOBIND_OK : find_difference(binding, index, again, &found, error));
  *differs = *differs || found.beyond > 0;
  return IOBIND_OK;
}

/* Does a second run on the CPU with the same inputs give another output? */
static iobind_status is_random(const iobind_binding *binding, size_t index, bool *differs, iobind_error *error) {
  enum { TIMES = 16 };
  const iobind_session *session = binding->session;
  *differs = false;
  for (int i = 0; i < TIMES && !*differs; i++) {
    IOBIND__TRY(run_on_cpu(binding, binding->verified->again, error));
    iobind_status status = differs_again(binding, index, differs, error);
    for (size_t o = 0; o < session->output_count; o++) {
      iobind_tensor_release(binding->verified->again[o]);
      binding->verified->again[o] = NULL;
    }
    IOBIND__TRY(status);
  }
  if (*differs) {
    atomic_store(&session->shadow->is_random[index], true);
    iobind__log_line(
        session->runtime->log, IOBIND_LOG_WARNING,
        "iobind: verify: output '%s' is not compared: it is random, because runs of the CPU with the same inputs differ",
        session->outputs[index].label);
  }
  return IOBIND_OK;
}

static iobind_status refuse_dims(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, const char *run,
                                 iobind_error *error) {
  const iobind_tensor *right = binding->verified->right[index];
  char made[IOBIND__SHAPE_TEXT];
  char wanted[IOBIND__SHAPE_TEXT];
  iobind__shape_text(iobind__form_of(tensor), NULL, made, sizeof made);
  iobind__shape_text(iobind__form_of(right), NULL, wanted, sizeof wanted);
  return iobind__fail(error, IOBIND_ERROR_RESULT,
                      "binding_run: output '%s': expected %s, as on the CPU, got %s from %s: `iobind compare --nodes` "
                      "names the first node that differs",
                      binding->session->outputs[index].label, wanted, made, run);
}

static iobind_status refuse_values(const iobind_binding *binding, size_t index, const iobind_tensor *tensor,
                                   const iobind_difference *found, const char *run, iobind_error *error) {
  enum { POSITION_TEXT = 64, DIGITS = 3 };
  char position[POSITION_TEXT];
  char made[IOBIND__ELEMENT_TEXT];
  char wanted[IOBIND__ELEMENT_TEXT];
  char relative[IOBIND__DECIMAL_TEXT];
  iobind__position_text(tensor, found->first, position, sizeof position);
  iobind__element_text(tensor, found->first, made);
  iobind__element_text(binding->verified->right[index], found->first, wanted);
  iobind__decimal_text(found->relative, DIGITS, relative);
  return iobind__fail(
      error, IOBIND_ERROR_RESULT,
      "binding_run: output '%s'%s: expected %s, as on the CPU, got %s from %s; elements that differ: %zu, "
      "largest relative difference: %s: `iobind compare --nodes` names the first node that differs; the session option "
      "`verify` sets the tolerances",
      binding->session->outputs[index].label, position, wanted, made, run, (size_t)found->beyond, relative);
}

/* `tensor` is on the host. */
static iobind_status compare(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, const char *run,
                             iobind_error *error) {
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  bool random = false;
  const bool same_dims = iobind__tensor_same_dims(tensor, binding->verified->right[index]);
  IOBIND__TRY(same_dims ? find_difference(binding, index, tensor, &found, error) : IOBIND_OK);
  if (same_dims && found.beyond == 0) {
    return IOBIND_OK;
  }
  IOBIND__TRY(is_random(binding, index, &random, error));
  if (random) {
    return IOBIND_OK;
  }
  return same_dims ? refuse_values(binding, index, tensor, &found, run, error)
                   : refuse_dims(binding, index, tensor, run, error);
}

static iobind_status compare_output(iobind_binding *binding, size_t index, const char *run, iobind_error *error) {
  iobind_tensor *copy = NULL;
  IOBIND__TRY(iobind__result_make(binding, index, error));
  IOBIND__TRY(iobind__session_copy_to_host(binding->session, binding->outputs[index].result, &copy, error));
  iobind_status status = compare(binding, index, copy, run, error);
  iobind_tensor_release(copy);
  return status;
}

iobind_status iobind__verified_compare(iobind_binding *binding, const char *run, iobind_error *error) {
  iobind_session *session = binding->session;
  for (size_t i = 0; binding->verified != NULL && i < session->output_count; i++) {
    const bool is_compared = binding->outputs[i].mode != IOBIND__OUTPUT_NONE && binding->verified->right[i] != NULL &&
                             !atomic_load(&session->shadow->is_random[i]);
    IOBIND__TRY(is_compared ? compare_output(binding, i, run, error) : IOBIND_OK);
  }
  return IOBIND_OK;
}

/* ---- after the run ---- */

/* *is_complete: the run is complete, so that a failure means wrong results. Such a run may have written a cache anywhere, a
 * failed one only beyond its length. */
static iobind_status finish(iobind_binding *binding, iobind_stream *stream, bool *is_complete, iobind_error *error) {
  const char *run = binding->graphs == NULL ? "the run" : "the replay of a graph";
  *is_complete = false;
  IOBIND__TRY(await_streams(binding, stream, error));
  *is_complete = true;
  IOBIND__TRY(iobind__verified_compare(binding, run, error));
  bool is_due = iobind__verify_counts_note(binding->verified->counts, &binding->verified->dims);
  binding->plan.checks = (binding->plan.checks & IOBIND__CHECK_LENGTHS) | (is_due ? IOBIND__CHECK_RESULTS : 0U);
  return iobind__stream_enter(stream, error);
}

iobind_status iobind__verified_end(iobind_binding *binding, iobind_stream *stream, iobind_status status, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  if (status == IOBIND_OK) {
    bool is_complete;
    status = finish(binding, stream, &is_complete, &reason);
    if (status != IOBIND_OK) {
      iobind__binding_fail(binding, &reason);
      (is_complete ? iobind__carry_note_wrong : iobind__carry_note_failure)(binding);
      binding->results.state = IOBIND__RESULTS_NONE; /* as after a failure of ORT's call */
      status = iobind__error_copy(error, &reason);
    }
  }
  forget(binding);
  return status;
}
