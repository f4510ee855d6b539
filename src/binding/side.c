/* Only this file binds to ORT's bindings and clears them. ORT uses what it was given until something else is bound, even while
 * the other side runs. So the mirror retains memory that ORT does not retain. */
#include "binding/side.h"

#include <stdlib.h>

#include "binding/table.h"

iobind_status iobind__side_open(iobind_binding *binding, iobind__side *side, const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind__given *given = calloc(session->input_count + session->output_count + 1, sizeof *given);
  if (given == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind__scope scope;
  iobind_status entered = iobind__named(iobind__guard_enter(session->inside, &scope, error), error, what);
  OrtStatus *status = entered == IOBIND_OK ? api->CreateIoBinding(session->session, &side->binding) : NULL;
  iobind__guard_leave(&scope);
  if (side->binding == NULL) {
    free(given);
    return status == NULL ? entered : iobind__ort_fail(api, status, error, "%s", what);
  }
  side->is_empty = true;
  side->inputs = given;
  side->outputs = given + session->input_count;
  return IOBIND_OK;
}

/* Record what ORT was given. `kept`: a tensor to be retained while ORT has it, or NULL. */
static void note(iobind__given *given, uint64_t serial, iobind_tensor *kept) {
  iobind_tensor *old = given->kept;
  given->serial = serial;
  given->kept = kept;
  if (kept != NULL) {
    iobind__ref_retain(&kept->ref);
  }
  iobind__tensor_drop(old);
}

static inline void note_tensor(iobind__given *given, iobind_tensor *tensor) {
  if (given->kept == NULL && iobind__tensor_owns_memory(tensor)) {
    given->serial = tensor->serial;
  } else {
    note(given, tensor->serial, iobind__tensor_owns_memory(tensor) ? NULL : tensor);
  }
}

/* The table and the mirror must be compared again. */
static void disarm(iobind_binding *binding, iobind__side *side) {
  side->generation = 0;
  iobind__binding_disarm(binding);
}

static void forget(iobind__given *given, size_t count) {
  for (size_t i = 0; i < count; i++) {
    iobind_tensor *old = given[i].kept;
    given[i] = (iobind__given){0};
    iobind__tensor_drop(old);
  }
}

static void clear_inputs(iobind_binding *binding, iobind__side *side) {
  if (iobind__guard_may_free(binding->session->inside)) {
    IOBIND__API(binding->session->runtime)->ClearBoundInputs(side->binding);
  }
  forget(side->inputs, binding->session->input_count);
  disarm(binding, side);
}

static void clear_outputs(iobind_binding *binding, iobind__side *side) {
  if (iobind__guard_may_free(binding->session->inside)) {
    IOBIND__API(binding->session->runtime)->ClearBoundOutputs(side->binding);
  }
  forget(side->outputs, binding->session->output_count);
  disarm(binding, side);
}

void iobind__side_clear(iobind_binding *binding, iobind__side *side) {
  if (side->binding != NULL && !side->is_empty) {
    iobind__scope scope;
    iobind__guard_enter_anyway(binding->session->inside, &scope);
    clear_inputs(binding, side);
    clear_outputs(binding, side);
    side->is_empty = true;
    iobind__guard_leave(&scope);
  }
}

void iobind__side_close(iobind_binding *binding, iobind__side *side) {
  if (side->binding != NULL) {
    iobind__side_clear(binding, side);
    iobind__scope scope;
    if (iobind__guard_enter_to_free(binding->session->inside, &scope)) {
      IOBIND__API(binding->session->runtime)->ReleaseIoBinding(side->binding);
      iobind__guard_leave(&scope);
    }
    free(side->inputs);
    *side = (iobind__side){0};
  }
}

void iobind__sides_forget_inputs(iobind_binding *binding) {
  iobind__scope scope;
  iobind__guard_enter_anyway(binding->session->inside, &scope);
  for (size_t i = 0; i < 2; i++) {
    if (binding->sides[i].binding != NULL) {
      clear_inputs(binding, &binding->sides[i]);
    }
  }
  iobind__guard_leave(&scope);
}

void iobind__side_forget_outputs(iobind_binding *binding, iobind__side *side) {
  if (side->binding != NULL) {
    clear_outputs(binding, side);
  }
}

/* Must not be called during a run: ORT may use a stream for it, and sets the stream of the session's cuBLAS handle. */
static iobind_status give_input(iobind_binding *binding, iobind__side *side, size_t index, const char *what,
                                iobind_error *error) {
  const iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind_tensor *tensor = binding->inputs[index].bound;
  OrtStatus *status = api->BindInput(side->binding, session->inputs[index].name, tensor->value);
  if (status != NULL) {
    clear_inputs(binding, side); /* after a failure ORT would refuse each later binding */
    return iobind__ort_fail(api, status, error, "%s: input '%s'", what, session->inputs[index].label);
  }
  note_tensor(&side->inputs[index], tensor);
  return IOBIND_OK;
}

static inline iobind_status give_target(const iobind_binding *binding, const iobind__side *side, size_t index, const char *what,
                                        iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  const iobind__value *output = &binding->session->outputs[index];
  iobind_tensor *target = binding->outputs[index].target;
  IOBIND__ORT_TRY(api, api->BindOutput(side->binding, output->name, target->value), error, "%s: output '%s'", what,
                  output->label);
  note_tensor(&side->outputs[index], target);
  return IOBIND_OK;
}

/* The memory location where ORT allocates the output. */
static inline const iobind__place *output_place(const iobind_binding *binding, size_t index) {
  const iobind__output *output = &binding->outputs[index];
  return output->is_copied ? iobind__output_home(binding, index) : output->place;
}

static iobind_status give_output(const iobind_binding *binding, const iobind__side *side, size_t index, const char *what,
                                 iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  const iobind__output *output = &binding->outputs[index];
  const iobind__value *value = &binding->session->outputs[index];
  if (iobind__output_is_given(output) && !output->is_copied) {
    return give_target(binding, side, index, what, error);
  }
  const iobind__place *place = output_place(binding, index);
  bool is_reused = output->mode == IOBIND__OUTPUT_REUSE && !output->is_copied;
  IOBIND__ORT_TRY(api, api->BindOutputToDevice(side->binding, value->name, place->info), error, "%s: output '%s'", what,
                  value->label);
  note(&side->outputs[index], is_reused ? output->memory : IOBIND__MADE_ANEW, NULL);
  return IOBIND_OK;
}

/* Not inlined, so that sessions without a guard have no cost. */
__attribute__((noinline)) static iobind_status give_input_inside(iobind_binding *binding, size_t index, const char *what,
                                                                 iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->guard, &scope, error));
  return iobind__guard_end(&scope, give_input(binding, &binding->sides[0], index, what, error), error);
}

iobind_status iobind__side_replace_input(iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  if (!iobind__binding_is_in_line(binding)) {
    iobind__table_changed(binding);
    return IOBIND_OK;
  }
  return binding->session->guard == NULL ? give_input(binding, &binding->sides[0], index, what, error)
                                         : give_input_inside(binding, index, what, error);
}

/* After a failure the content of ORT's binding is unknown. */
static iobind_status replace_target(iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  iobind_status status = give_target(binding, &binding->sides[0], index, what, error);
  if (status != IOBIND_OK) {
    clear_outputs(binding, &binding->sides[0]);
  }
  return status;
}

__attribute__((noinline)) static iobind_status replace_target_inside(iobind_binding *binding, size_t index, const char *what,
                                                                     iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->inside, &scope, error));
  return iobind__guard_end(&scope, replace_target(binding, index, what, error), error);
}

iobind_status iobind__side_replace_output(iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  if (!iobind__binding_is_in_line(binding)) {
    iobind__table_changed(binding);
    return IOBIND_OK;
  }
  return binding->session->inside == NULL ? replace_target(binding, index, what, error)
                                          : replace_target_inside(binding, index, what, error);
}

static uint64_t wanted_output(const iobind__output *output) {
  switch (output->mode) {
    case IOBIND__OUTPUT_FIXED:
    case IOBIND__OUTPUT_IN_PLACE: return output->target->serial;
    case IOBIND__OUTPUT_REUSE: return output->target != NULL ? output->target->serial : output->memory;
    case IOBIND__OUTPUT_NONE: return 0;
    default: return IOBIND__MADE_ANEW;
  }
}

bool iobind__side_has(const iobind__side *side, size_t input, const iobind_tensor *input_tensor, size_t output,
                      const iobind_tensor *output_tensor) {
  return side->inputs[input].serial == input_tensor->serial && output_tensor != NULL &&
         side->outputs[output].serial == output_tensor->serial;
}

/* Does ORT's binding have outputs that differ from the bound ones? ORT can only clear all outputs, and lists them in the order
 * in which they were bound. */
static bool has_other_outputs(const iobind_binding *binding, const iobind__side *side) {
  bool same = true;
  bool any = false;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    bool has = side->outputs[i].serial != 0;
    same = same && has == (binding->outputs[i].mode != IOBIND__OUTPUT_NONE);
    any = any || has;
  }
  return any && !same;
}

bool iobind__side_holds(const iobind_binding *binding, const iobind__side *side) {
  bool same = true;
  for (size_t i = 0; same && i < binding->session->input_count; i++) {
    same = binding->inputs[i].bound != NULL && side->inputs[i].serial == binding->inputs[i].bound->serial;
  }
  for (size_t i = 0; same && i < binding->session->output_count; i++) {
    same = binding->outputs[i].is_copied ? side->outputs[i].serial != 0
                                         : side->outputs[i].serial == wanted_output(&binding->outputs[i]);
  }
  return same;
}

static bool is_bound(const iobind__output *output) {
  return output->mode != IOBIND__OUTPUT_NONE && (output->target != NULL || !iobind__output_is_given(output));
}

/* If ORT cannot be given a replacement, clear the binding: the next run binds everything again. */
static void let_go(iobind_binding *binding, iobind__side *side, const iobind_tensor *tensor) {
  const bool is_lost = !iobind__guard_may_free(binding->session->inside);
  for (size_t i = 0; i < binding->session->input_count; i++) {
    if (side->inputs[i].kept == tensor &&
        (is_lost || binding->inputs[i].bound == NULL || give_input(binding, side, i, "", NULL) != IOBIND_OK)) {
      clear_inputs(binding, side);
    }
  }
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (side->outputs[i].kept == tensor &&
        (is_lost || !is_bound(&binding->outputs[i]) || give_output(binding, side, i, "", NULL) != IOBIND_OK)) {
      clear_outputs(binding, side);
    }
  }
}

void iobind__sides_replace(iobind_binding *binding, const iobind_tensor *tensor) {
  iobind__scope scope;
  iobind__session_enter(binding->session);
  iobind__guard_enter_anyway(binding->session->inside, &scope);
  for (size_t i = 0; i < 2; i++) {
    if (binding->sides[i].binding != NULL) {
      let_go(binding, &binding->sides[i], tensor);
    }
  }
  iobind__guard_leave(&scope);
  iobind__session_leave(binding->session);
}

iobind_status iobind__side_compare(iobind_binding *binding, iobind__side *side, iobind_error *error) {
  const iobind_session *session = binding->session;
  side->is_empty = false;
  for (size_t i = 0; i < session->input_count; i++) {
    if (side->inputs[i].serial != binding->inputs[i].bound->serial) {
      IOBIND__TRY(give_input(binding, side, i, "binding_run", error));
    }
  }
  if (has_other_outputs(binding, side)) {
    clear_outputs(binding, side);
  }
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (iobind__output_is_fresh(output) || side->outputs[i].serial != wanted_output(output)) {
      IOBIND__TRY(give_output(binding, side, i, "binding_run", error));
    }
  }
  side->graph = NULL;
  side->generation = binding->generation;
  return IOBIND_OK;
}

/* Part of the steady run with a FRESH output. */
iobind_status iobind__side_refresh(iobind_binding *binding, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  OrtIoBinding *bound = iobind__side_of_turn(binding)->binding;
  const iobind__fresh *end = binding->plan.fresh + binding->plan.fresh_count;
  for (const iobind__fresh *fresh = binding->plan.fresh; fresh < end; fresh++) {
    IOBIND__ORT_TRY(api, api->BindOutputToDevice(bound, fresh->value->name, fresh->memory), error, "binding_run: output '%s'",
                    fresh->value->label);
  }
  return IOBIND_OK;
}
