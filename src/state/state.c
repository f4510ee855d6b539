#include "state/state.h"

#include <stdlib.h>

#include "binding/prefix.h"
#include "support/options.h"

/* ---- the object ---- */

static void free_state(iobind__ref *ref) {
  iobind_state *state = (iobind_state *)ref;
  for (size_t i = 0; i < state->count; i++) {
    iobind_tensor_release(state->kept[i].tensor);
  }
  iobind__weak_end(state->self);
  iobind__used_release(&state->used);
  iobind_event_destroy(state->made);
  free(state->read);
  iobind__ref_release(&state->session->ref);
  free(state);
}

/* Sessions list the CPU first, also where nothing runs there. */
static const char *device_of(const iobind_session *session) {
  return session->devices[session->device_count > 1 ? 1 : 0]->spec;
}

iobind_status iobind__state_allocate(iobind_session *session, size_t count, const char *what, iobind_state **out,
                                     iobind_error *error) {
  iobind_state *state = calloc(1, sizeof *state + count * sizeof state->kept[0]);
  iobind__weak *self = state == NULL ? NULL : iobind__weak_create(&state->ref);
  if (self == NULL) {
    free(state);
    return iobind__out_of_memory(error, what);
  }
  state->self = self;
  iobind__ref_init(&state->ref, free_state);
  iobind__ref_retain(&session->ref);
  state->session = session;
  state->device_spec = device_of(session);
  state->ort_version = session->runtime->ort.version;
  state->count = count;
  state->used = iobind__used_none();
  *out = state;
  return IOBIND_OK;
}

iobind_state *iobind_state_retain(iobind_state *state) {
  if (state != NULL) {
    iobind__ref_retain(&state->ref);
  }
  return state;
}

void iobind_state_release(iobind_state *state) {
  iobind__ref_release(state == NULL ? NULL : &state->ref);
}

/* ---- info ---- */

iobind_status iobind_state_get_info(const iobind_state *state, iobind_state_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(state, "state", "state_get_info", error));
  iobind_state_info full = {.struct_size = sizeof full,
                            .pair_count = state->count,
                            .device_spec = state->device_spec,
                            .ort_version = state->ort_version};
  for (size_t i = 0; i < state->count; i++) {
    full.bytes += state->kept[i].tensor->bytes;
  }
  return IOBIND__INFO_WRITE(info, &full, "state_get_info", error);
}

/* Returns the failure of the run that was to write the tensors, if it is known: then their content is undefined. */
static iobind_status check_made(const iobind_state *state, iobind_error *error) {
  iobind__point *point = state->made == NULL ? NULL : iobind__event_point(state->made);
  bool is_over = point != NULL && iobind__point_passed(point);
  iobind_status status = is_over ? iobind__stream_outcome(point->stream, point->ticket, error) : IOBIND_OK;
  iobind__point_release(point);
  return iobind__renamed(status, error, "state_get_pair");
}

iobind_status iobind_state_get_pair(const iobind_state *state, size_t index, iobind_state_pair *pair, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(state, "state", "state_get_pair", error));
  if (index >= state->count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "state_get_pair: expected an index below %zu, got %zu", state->count,
                        index);
  }
  IOBIND__TRY(check_made(state, error));
  const iobind__kept *kept = &state->kept[index];
  const iobind_state_pair full = {
      .struct_size = sizeof full, .output = kept->pair.output, .input = kept->pair.input, .tensor = kept->tensor};
  return IOBIND__INFO_WRITE(pair, &full, "state_get_pair", error);
}

/* ---- widen ---- */

/* The prefix with the capacity that the cache is to have. */
static iobind__prefix prefix_like(const iobind__kept *kept, const iobind_state *like) {
  iobind__prefix prefix = kept->prefix;
  const iobind__kept *same = like == NULL || !prefix.is_used ? NULL : iobind__state_find(like, kept->pair);
  if (same != NULL && iobind__prefix_fits(&prefix, kept->tensor, same->tensor)) {
    prefix.capacity = same->tensor->dims[prefix.axis];
  }
  return prefix;
}

static bool is_to_widen(const iobind__kept *kept, const iobind__prefix *prefix) {
  return prefix->is_used && kept->tensor->dims[prefix->axis] != prefix->capacity;
}

static iobind_status fill_widened(iobind_state *to, const iobind_state *from, const iobind_state *like, iobind_error *error) {
  for (size_t i = 0; i < from->count; i++) {
    const iobind__kept *kept = &from->kept[i];
    to->kept[i] = (iobind__kept){.pair = kept->pair, .prefix = prefix_like(kept, like)};
    if (is_to_widen(kept, &to->kept[i].prefix)) {
      const iobind__cache cache = {from->session, kept->pair.input, kept->tensor, &to->kept[i].prefix};
      IOBIND__TRY(iobind__prefix_widen(&cache, &to->kept[i].tensor, error));
      to->kept[i].tensor->read_only = true;
    } else {
      to->kept[i].tensor = iobind_tensor_retain(kept->tensor);
    }
  }
  iobind__used_set(&to->used, from->used);
  return IOBIND_OK;
}

iobind_status iobind__state_widen(iobind_state *state, const iobind_state *like, iobind_state **out, iobind_error *error) {
  bool any = false;
  iobind_state *made;
  for (size_t i = 0; i < state->count; i++) {
    const iobind__prefix prefix = prefix_like(&state->kept[i], like);
    any = any || is_to_widen(&state->kept[i], &prefix);
  }
  if (!any) {
    *out = iobind_state_retain(state);
    return IOBIND_OK;
  }
  IOBIND__TRY(state->made == NULL ? IOBIND_OK : iobind_event_wait(state->made, IOBIND_NO_TIMEOUT, error));
  IOBIND__TRY(iobind__state_allocate(state->session, state->count, "state", &made, error));
  iobind_status status = fill_widened(made, state, like, error);
  if (status != IOBIND_OK) {
    iobind_state_release(made);
    return status;
  }
  *out = made;
  return IOBIND_OK;
}

/* ---- save ---- */

static iobind_status open_states(iobind__states *self, size_t count, const char *what, iobind_error *error) {
  *self = (iobind__states){.tensors = calloc(count + 1, sizeof(iobind_tensor *)),
                           .prefixes = calloc(count + 1, sizeof *self->prefixes)};
  return self->tensors != NULL && self->prefixes != NULL ? IOBIND_OK : iobind__out_of_memory(error, what);
}

static void close_states(const iobind__states *self) {
  free(self->tensors);
  free(self->prefixes);
}

static int compare_inputs(const void *a, const void *b) {
  size_t left = ((const iobind__kept *)a)->pair.input;
  size_t right = ((const iobind__kept *)b)->pair.input;
  return (left > right) - (left < right);
}

/* Takes ownership of the tensors' references. */
static void fill(iobind_state *state, const iobind_binding *binding, const iobind__states *from) {
  for (size_t i = 0; i < state->count; i++) {
    state->kept[i] =
        (iobind__kept){.pair = iobind__binding_view_carry(binding, i), .tensor = from->tensors[i], .prefix = from->prefixes[i]};
  }
  qsort(state->kept, state->count, sizeof state->kept[0], compare_inputs);
}

static iobind_status save(iobind_binding *binding, iobind_state **out, iobind_error *error) {
  size_t count = iobind__binding_count_carries(binding);
  if (count == 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "binding_save_state: the binding carries nothing: carry an output to an input first");
  }
  iobind_state *state;
  IOBIND__TRY(iobind__state_allocate(iobind__binding_session(binding), count, "binding_save_state", &state, error));
  iobind__states made;
  iobind_status status = open_states(&made, count, "binding_save_state", error);
  if (status == IOBIND_OK) {
    status = iobind__marks_reserve(iobind__binding_marks(binding), "binding_save_state", error);
  }
  if (status == IOBIND_OK) {
    status = iobind__binding_save(binding, &made, error);
  }
  if (status == IOBIND_OK) {
    fill(state, binding, &made);
    state->made = made.made;
    if (made.are_shared) {
      iobind__marks_add(iobind__binding_marks(binding), state->self);
    }
    iobind__used_set(&state->used, iobind__binding_get_used(binding));
    *out = state;
  } else {
    iobind_state_release(state);
  }
  close_states(&made);
  return status;
}

iobind_status iobind_binding_save_state(iobind_binding *binding, iobind_state **state, iobind_error *error) {
  if (state != NULL) {
    *state = NULL;
  }
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_save_state", error));
  IOBIND__TRY(iobind__null_check(state, "state", "binding_save_state", error));
  IOBIND__TRY(iobind__process_check("binding_save_state", error));
  return iobind__named(save(binding, state, error), error, "binding_save_state");
}

/* ---- restore ---- */

const iobind__kept *iobind__state_find(const iobind_state *state, iobind__pair pair) {
  for (size_t i = 0; i < state->count; i++) {
    if (state->kept[i].pair.input == pair.input && state->kept[i].pair.output == pair.output) {
      return &state->kept[i];
    }
  }
  return NULL;
}

/* Set the state's tensors in the order of the binding's pairs. */
static iobind_status assign(const iobind_binding *binding, const iobind_state *state, const iobind__states *to,
                            iobind_error *error) {
  const iobind_session *session = state->session;
  size_t count = iobind__binding_count_carries(binding);
  for (size_t i = 0; i < count; i++) {
    const iobind__pair pair = iobind__binding_view_carry(binding, i);
    const iobind__kept *kept = iobind__state_find(state, pair);
    if (kept == NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "binding_restore_state: the binding carries '%s' to '%s', and the state does not have that",
                          session->outputs[pair.output].label, session->inputs[pair.input].label);
    }
    to->tensors[i] = kept->tensor;
    to->prefixes[i] = kept->prefix;
  }
  return count == state->count ? IOBIND_OK
                               : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                                              "binding_restore_state: the state has %zu carried inputs, the binding carries "
                                              "%zu: carry the same",
                                              state->count, count);
}

/* The binding's marks up to this state remain, and the state becomes a mark. */
static iobind_status restore_marked(iobind_state *state, iobind_binding *binding, iobind__states *found, iobind_error *error) {
  iobind__marks *marks = iobind__binding_marks(binding);
  IOBIND__TRY(iobind__marks_reserve(marks, "binding_restore_state", error));
  size_t kept = iobind__marks_find(marks, state->self);
  IOBIND__TRY(iobind__binding_restore(binding, found, kept, error));
  iobind__binding_set_used(binding, state->used);
  if (kept == 0 && found->are_shared) {
    iobind__marks_add(marks, state->self);
  }
  return IOBIND_OK;
}

iobind_status iobind__state_restore(iobind_state *state, iobind_binding *binding, iobind_error *error) {
  if (state->session != iobind__binding_session(binding)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "binding_restore_state: the state is of another session: save it to a file and load that for this one");
  }
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_restore_state", error));
  iobind__states found;
  iobind_status status = open_states(&found, iobind__binding_count_carries(binding), "binding_restore_state", error);
  if (status == IOBIND_OK) {
    status = assign(binding, state, &found, error);
  }
  if (status == IOBIND_OK) {
    found.made = state->made;
    status = restore_marked(state, binding, &found, error);
  }
  close_states(&found);
  return status;
}

iobind_status iobind_binding_restore_state(iobind_binding *binding, iobind_state *state, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_restore_state", error));
  IOBIND__TRY(iobind__null_check(state, "state", "binding_restore_state", error));
  IOBIND__TRY(iobind__process_check("binding_restore_state", error));
  return iobind__named(iobind__state_restore(state, binding, error), error, "binding_restore_state");
}
