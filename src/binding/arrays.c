/* A run with arrays of values. ORT's binding looks up every name, and creates a list of memory locations for each new output; a plain run of
 * a session on the CPU does neither. So a plain run costs less if everything would be bound for one run only. But it does not show whether
 * ORT wrote into the given output. So arrays are used only after a run of ORT's binding has shown where each output lands. */
#include <stdlib.h>

#include "binding/table.h"

void iobind__arrays_free(iobind_binding *binding) {
  iobind__arrays *arrays = &binding->arrays;
  free(arrays->inputs);
  free(arrays->outputs);
  free(arrays->output_names);
  arrays->inputs = NULL;
  arrays->outputs = NULL;
  arrays->output_names = NULL;
}

/* Do arrays cost less? Only if some output is moved, or all was unbound. In a further run with the same table, ORT's binding
 * costs less. */
static bool pays(const iobind_binding *binding) {
  bool moves = false;
  for (size_t i = 0; i < binding->carry_count; i++) {
    moves = moves || binding->carries[i].mode == IOBIND_CARRY_MOVE;
  }
  return moves || (binding->arrays.follow_clear && binding->carry_count == 0);
}

/* Is everything that is bound also in the CPU's default memory? */
static bool is_plain(const iobind_binding *binding) {
  const iobind_session *session = binding->session;
  const iobind__place *memory = &session->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  bool plain = session->is_plain && binding->plan.copied_count == 0;
  for (size_t i = 0; plain && i < session->input_count; i++) {
    plain = binding->inputs[i].bound->place == memory;
  }
  for (size_t i = 0; plain && i < session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    plain =
        output->mode == IOBIND__OUTPUT_NONE || (output->mode != IOBIND__OUTPUT_REUSE && iobind__output_place(output) == memory);
  }
  return plain;
}

static iobind_status make_room(iobind_binding *binding, iobind_error *error) {
  iobind__arrays *arrays = &binding->arrays;
  const iobind_session *session = binding->session;
  if (arrays->inputs != NULL) {
    return IOBIND_OK;
  }
  arrays->inputs = calloc(session->input_count + 1, sizeof *arrays->inputs);
  arrays->outputs = calloc(session->output_count + 1, sizeof *arrays->outputs);
  arrays->output_names = calloc(session->output_count + 1, sizeof *arrays->output_names);
  if (arrays->inputs == NULL || arrays->outputs == NULL || arrays->output_names == NULL) {
    iobind__arrays_free(binding);
    return iobind__out_of_memory(error, "binding_run");
  }
  return IOBIND_OK;
}

static void list_names(iobind_binding *binding) {
  const iobind_session *session = binding->session;
  const char **names = binding->arrays.output_names;
  size_t count = 0;
  for (size_t i = 0; i < session->output_count; i++) {
    if (binding->outputs[i].mode != IOBIND__OUTPUT_NONE) {
      names[count++] = session->outputs[i].name;
    }
  }
  binding->arrays.output_count = count;
}

iobind_status iobind__arrays_choose(iobind_binding *binding, iobind_error *error) {
  iobind__arrays *arrays = &binding->arrays;
  bool repeats = arrays->generation == binding->generation;
  if (repeats && (binding->carry_count > 0 || !arrays->in_use)) {
    return IOBIND_OK;
  }
  bool in_use = binding->plan.is_seen && pays(binding) && is_plain(binding);
  if (in_use) {
    IOBIND__TRY(make_room(binding, error));
    list_names(binding);
  }
  for (size_t i = 0; in_use && !arrays->in_use && i < 2; i++) {
    iobind__side_clear(binding, &binding->sides[i]); /* it would retain an old state */
  }
  arrays->in_use = in_use;
  arrays->follow_clear = false;
  arrays->generation = binding->plan.is_seen ? binding->generation : 0;
  return IOBIND_OK;
}

/* ORT gets the values of outputs with a target, and creates the others. */
OrtStatus *iobind__arrays_run(iobind_binding *binding, const OrtRunOptions *options) {
  const iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  const iobind__arrays *arrays = &binding->arrays;
  const OrtValue **inputs = arrays->inputs;
  OrtValue **outputs = arrays->outputs;
  size_t count = 0;
  for (size_t i = 0; i < session->input_count; i++) {
    inputs[i] = binding->inputs[i].bound->value;
  }
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (output->mode != IOBIND__OUTPUT_NONE) {
      outputs[count++] = output->target != NULL ? output->target->value : NULL;
    }
  }
  OrtStatus *status = api->Run(session->session, options, session->input_names, inputs, session->input_count,
                               arrays->output_names, arrays->output_count, outputs);
  if (status != NULL) {
    return status;
  }
  count = 0;
  for (size_t i = 0; i < session->output_count; i++) {
    iobind__output *output = &binding->outputs[i];
    if (output->mode != IOBIND__OUTPUT_NONE) {
      output->value = output->target != NULL ? NULL : outputs[count];
      count++;
    }
  }
  return NULL;
}
