/* The length of the carried caches of fixed capacity: written into the inputs that the model takes it from, and counted by the runs that
 * succeed. */
#include "binding/table.h"
#include "session/kind.h"

static const char what[] = "binding_write_lengths";

/* ---- what the graph says of the caches ---- */

static iobind_status refuse_kind(const iobind_binding *binding, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: expected a carried cache of fixed capacity, got none%s", what,
                      binding->session->model == NULL
                          ? ": the session's model is unknown (create the session from a file, or with IOBIND_SESSION_IDENTIFY)"
                          : ": the model's graph shows no such cache: write the lengths yourself");
}

static iobind_status refuse_input(const iobind_binding *binding, size_t index, const char *why, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s': %s: write the lengths yourself", what,
                      binding->session->inputs[index].label, why);
}

static iobind_status note_roles(iobind_binding *binding, const iobind__kind *kind, size_t state, iobind_error *error) {
  if (kind->axis == SIZE_MAX || kind->length_count == 0) {
    return refuse_input(binding, state, "the graph does not show where its length comes from", error);
  }
  if (kind->doubt != NULL) {
    return refuse_input(binding, state, kind->doubt, error);
  }
  for (size_t i = 0; i < kind->length_count; i++) {
    size_t index = kind->lengths[i];
    iobind__input *input = &binding->inputs[index];
    if (kind->roles[i] == IOBIND__LENGTH_COMPUTED) {
      return refuse_input(binding, index, "the model computes lengths from it", error);
    }
    if (input->carry != 0) {
      return refuse_input(binding, index, "it is carried, so the model counts by itself", error);
    }
    if (input->role != IOBIND__LENGTH_COMPUTED && input->role != kind->roles[i]) {
      return refuse_input(binding, index, "operators read different lengths from it", error);
    }
    input->role = kind->roles[i];
  }
  return IOBIND_OK;
}

static iobind_status note_cache(iobind_binding *binding, const iobind__kind *kind, size_t state, iobind__lengths *found,
                                iobind_error *error) {
  const iobind_tensor *bound = binding->inputs[state].bound;
  if (bound == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound: bind the first state", what,
                        binding->session->inputs[state].label);
  }
  IOBIND__TRY(note_roles(binding, kind, state, error));
  if (found->capacity < 0 || bound->dims[kind->axis] < found->capacity) {
    found->capacity = bound->dims[kind->axis];
    found->rows = bound->dims[0];
  }
  if (found->tokens == SIZE_MAX) {
    found->tokens = kind->tokens;
    found->tokens_axis = kind->tokens_axis;
  }
  return IOBIND_OK;
}

static iobind_status survey(iobind_binding *binding, iobind__lengths *found, iobind_error *error) {
  found->capacity = -1;
  found->tokens = SIZE_MAX;
  for (size_t i = 0; i < binding->session->input_count; i++) {
    binding->inputs[i].role = IOBIND__LENGTH_COMPUTED;
  }
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    iobind__kind kind;
    IOBIND__TRY(iobind__session_find_kind(binding->session, carry->output, carry->input, &kind, error));
    if (kind.kind == IOBIND_STATE_CAPACITY) {
      IOBIND__TRY(note_cache(binding, &kind, carry->input, found, error));
    }
  }
  return found->capacity < 0 ? refuse_kind(binding, error) : IOBIND_OK;
}

/* ---- written ---- */

static int64_t value_of(const iobind_binding *binding, iobind__length_role role, int64_t length, int64_t added) {
  int64_t values[] = {[IOBIND__LENGTH_BEFORE] = length,
                      [IOBIND__LENGTH_LAST] = length + added - 1,
                      [IOBIND__LENGTH_AFTER] = length + added,
                      /* an EP may read it on the host, where each value would be another captured graph */
                      [IOBIND__LENGTH_EXTENT] =
                          binding->session->graphs.limit > 0 ? binding->lengths.capacity : length + added};
  return values[role];
}

/* Of the shape that the caller has bound, or that the model and the cache ask for. */
static iobind_status make_values(const iobind_binding *binding, size_t index, iobind_tensor **values, iobind_error *error) {
  const iobind__input *input = &binding->inputs[index];
  const iobind__value *value = &binding->session->inputs[index];
  const iobind_tensor *bound = input->is_made ? NULL : input->source != NULL ? input->source : input->bound;
  int64_t dims[1] = {binding->lengths.rows};
  if (value->dtype != IOBIND_DTYPE_INT32 && value->dtype != IOBIND_DTYPE_INT64) {
    return refuse_input(binding, index, "expected int32 or int64", error);
  }
  if (bound == NULL && (!value->has_shape || value->rank > 1)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound, and its dims are open: bind it", what,
                        value->label);
  }
  if (bound == NULL && value->rank == 1 && value->dims[0] >= 0) {
    dims[0] = value->dims[0];
  }
  return iobind_tensor_create(binding->session->runtime->cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)value->dtype,
                              bound == NULL ? dims : bound->dims, bound == NULL ? value->rank : bound->rank, values, error);
}

static void fill(iobind_tensor *values, int64_t value) {
  size_t size = values->dtype == IOBIND_DTYPE_INT32 ? sizeof(int32_t) : sizeof(int64_t);
  for (size_t i = 0; i < values->bytes / size; i++) {
    if (values->dtype == IOBIND_DTYPE_INT32) {
      ((int32_t *)values->data)[i] = (int32_t)value;
    } else {
      ((int64_t *)values->data)[i] = value;
    }
  }
}

/* An input that the caller has not bound is bound here, and again if the caches have another number of rows. */
static iobind_status bind(iobind_binding *binding, size_t index, const iobind_tensor *values, iobind_error *error) {
  iobind__input *input = &binding->inputs[index];
  iobind_tensor *made;
  if (input->bound != NULL && (!input->is_made || iobind__tensor_same_dims(input->bound, values))) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__input_make(binding->session, index, values, &made, error));
  iobind__tensor_hand_to(made, IOBIND_HOLDER_BINDING);
  iobind__input_go_on(binding, index, made, NULL);
  input->is_made = true;
  return IOBIND_OK;
}

static iobind_status write_input(iobind_binding *binding, size_t index, int64_t value, iobind_stream *stream,
                                 iobind_error *error) {
  iobind_tensor *values;
  IOBIND__TRY(make_values(binding, index, &values, error));
  fill(values, value);
  iobind_status status = bind(binding, index, values, error);
  if (status == IOBIND_OK && values->bytes > 0) {
    status = iobind__input_write_from(binding, index, values, stream, error);
  }
  iobind_tensor_release(values);
  return status;
}

static iobind_status write_all(iobind_binding *binding, int64_t length, int64_t added, iobind_stream *stream,
                               iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    iobind__length_role role = binding->inputs[i].role;
    if (role != IOBIND__LENGTH_COMPUTED) {
      IOBIND__TRY(write_input(binding, i, value_of(binding, role, length, added), stream, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status check_lengths(const iobind_binding *binding, size_t added, int64_t length, iobind_error *error) {
  int64_t capacity = binding->lengths.capacity;
  if (length == IOBIND__LENGTH_UNKNOWN) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "%s: the length is unknown: no call has set it since the state was bound, or a run was made without one: pass "
        "the length, 0 for an empty cache",
        what);
  }
  if (length > capacity || added > (uint64_t)(capacity - length)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: the caches have a capacity of %lld and a length of %lld: expected at most %lld new rows, got %zu",
                        what, (long long)capacity, (long long)length, (long long)(length > capacity ? 0 : capacity - length),
                        added);
  }
  return IOBIND_OK;
}

/* While runs are in flight, a stream's thread may be exchanging the states: what was found before them holds. */
static iobind_status find_caches(iobind_binding *binding, iobind_error *error) {
  iobind__lengths found = binding->lengths;
  if (found.capacity >= 0) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__binding_check_idle(binding, what, error));
  IOBIND__TRY(survey(binding, &found, error));
  binding->lengths = found;
  return IOBIND_OK;
}

static iobind_status check_stream(iobind_binding *binding, const iobind_stream *stream, iobind_error *error) {
  iobind__flight_poll(binding);
  return binding->flight.stream != NULL && binding->flight.stream == stream ? IOBIND_OK
                                                                            : iobind__binding_check_idle(binding, what, error);
}

static iobind_status write_lengths(iobind_binding *binding, size_t added, int64_t length, iobind_stream *stream,
                                   iobind_error *error) {
  if (added == 0 || length < IOBIND__LENGTH_UNKNOWN) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected %s, got %lld", what,
                        added == 0 ? "1 new row or more" : "a length of 0 or more, or -1", added == 0 ? 0 : (long long)length);
  }
  IOBIND__TRY(check_stream(binding, stream, error));
  IOBIND__TRY(find_caches(binding, error));
  iobind__lengths *lengths = &binding->lengths;
  int64_t from = length == IOBIND__LENGTH_UNKNOWN ? lengths->now : length;
  IOBIND__TRY(check_lengths(binding, added, from, error));
  lengths->added = IOBIND__LENGTHS_LOST; /* unless all are written */
  IOBIND__TRY(write_all(binding, from, (int64_t)added, stream, error));
  lengths->now = from;
  lengths->settled = binding->flight.stream == NULL || from < lengths->settled ? from : lengths->settled;
  lengths->added = (int64_t)added;
  return IOBIND_OK;
}

iobind_status iobind_binding_write_lengths(iobind_binding *binding, size_t added, int64_t length, iobind_stream *stream,
                                           iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  return iobind__renamed(write_lengths(binding, added, length, stream, error), error, what);
}

/* ---- counted ---- */

int64_t iobind__binding_get_length(const iobind_binding *binding) {
  return binding->lengths.now;
}

void iobind__binding_set_length(iobind_binding *binding, int64_t length) {
  binding->lengths.now = length;
  binding->lengths.settled = length;
  binding->lengths.added = 0;
}

/* A failed run has written behind the length alone, if it wrote into the cache itself. */
iobind_status iobind__binding_rewind_length(iobind_binding *binding, int64_t length, const char *name, iobind_error *error) {
  if (length > binding->lengths.now) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected a length of 0 .. %lld, got %lld", name,
                        (long long)binding->lengths.now, (long long)length);
  }
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    const iobind__input *input = &binding->inputs[carry->input];
    if (input->is_spoiled && (input->is_lost || carry->mode != IOBIND_CARRY_IN_PLACE)) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_STATE,
          "%s: the state '%s' is undefined, not only beyond its length: restore a saved state, or bind it again", name,
          binding->session->inputs[carry->input].label);
    }
  }
  for (size_t i = 0; i < binding->carry_count; i++) {
    binding->inputs[binding->carries[i].input].is_spoiled = false; /* the table has changed when it became so */
  }
  if (binding->results == IOBIND__RESULTS_FAILED) {
    iobind__results_drop(binding, NULL); /* of a run behind the length: a saved state has nothing of it */
  }
  iobind__binding_set_length(binding, length);
  return IOBIND_OK;
}

void iobind__lengths_forget(iobind_binding *binding) {
  binding->lengths =
      (iobind__lengths){.now = IOBIND__LENGTH_UNKNOWN, .settled = IOBIND__LENGTH_UNKNOWN, .capacity = -1, .tokens = SIZE_MAX};
}

iobind_status iobind__lengths_begin(const iobind_binding *binding, iobind_error *error) {
  const iobind__lengths *lengths = &binding->lengths;
  if (lengths->added == IOBIND__LENGTHS_LOST) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "binding_run: the lengths were written after a run that has failed, or incompletely: call "
                        "iobind_binding_write_lengths again");
  }
  if (lengths->added == 0 || lengths->tokens == SIZE_MAX || binding->inputs[lengths->tokens].carry != 0) {
    return IOBIND_OK;
  }
  const iobind_tensor *tokens = binding->inputs[lengths->tokens].bound;
  bool is_other = tokens != NULL && tokens->dims[lengths->tokens_axis] != lengths->added;
  return !is_other
             ? IOBIND_OK
             : iobind__fail(
                   error, IOBIND_ERROR_SHAPE,
                   "binding_run: '%s' has %lld new rows on axis %zu: expected %lld, as passed to iobind_binding_write_lengths",
                   binding->session->inputs[lengths->tokens].label, (long long)tokens->dims[lengths->tokens_axis],
                   lengths->tokens_axis, (long long)lengths->added);
}

void iobind__lengths_note_run(iobind_binding *binding) {
  iobind__lengths *lengths = &binding->lengths;
  lengths->now = lengths->added == 0 ? IOBIND__LENGTH_UNKNOWN : lengths->now + lengths->added;
  lengths->added = 0;
  if (binding->flight.stream == NULL) {
    lengths->settled = lengths->now;
    binding->flight.has_uncounted = false;
  }
}

void iobind__lengths_note_failure(iobind_binding *binding) {
  if (!binding->flight.is_counted && binding->flight.has_uncounted) {
    binding->lengths.now = IOBIND__LENGTH_UNKNOWN;
    binding->lengths.settled = IOBIND__LENGTH_UNKNOWN;
    binding->flight.has_uncounted = false;
  }
}

void iobind__lengths_note_end(iobind_binding *binding, bool has_failed) {
  iobind__lengths *lengths = &binding->lengths;
  if (has_failed) {
    lengths->now = binding->flight.has_uncounted ? IOBIND__LENGTH_UNKNOWN : lengths->settled;
    lengths->added = lengths->added == 0 ? 0 : IOBIND__LENGTHS_LOST;
  }
  lengths->settled = lengths->now;
  binding->flight.has_uncounted = false;
}
