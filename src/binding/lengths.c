/* The length of the carried caches of fixed capacity: written into the inputs that the model takes it from, and counted by the runs that
 * succeed. */
#include "binding/table.h"
#include "session/kind.h"

static const char what[] = "binding_write_lengths";

/* ---- the caches in the model's graph ---- */

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
  int64_t rows = kind->rows == SIZE_MAX ? 1 : bound->dims[kind->rows];
  found->rows_differ = found->rows_differ || (found->capacity >= 0 && rows != found->rows);
  if (found->capacity < 0 || bound->dims[kind->axis] < found->capacity) {
    found->capacity = bound->dims[kind->axis];
    found->rows = rows;
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

/* ---- the lengths to write ---- */

/* The caller's lengths: one for each row of the batch, or one for all. NULL: those that iobind has counted. */
typedef struct given {
  const int64_t *values;
  size_t count;
} given;

/* The lengths with which the next run begins, and the number of rows that it adds to each. */
typedef struct growth {
  iobind__used from;
  int64_t added;
} growth;

/* The shape of the values for an input. */
typedef struct shape {
  size_t rank;
  const int64_t *dims;
  int64_t own; /* the memory of `dims` if the caller has not bound the input and it has one dim */
} shape;

static int64_t value_of(const iobind_binding *binding, iobind__length_role role, const growth *by, size_t row) {
  int64_t length = iobind__used_at(&by->from, row);
  int64_t values[] = {[IOBIND__LENGTH_BEFORE] = length,
                      [IOBIND__LENGTH_LAST] = length + by->added - 1,
                      [IOBIND__LENGTH_AFTER] = length + by->added,
                      /* an EP may read it on the host, where each value would need another captured graph */
                      [IOBIND__LENGTH_EXTENT] =
                          binding->session->graphs.limit > 0 ? binding->lengths.capacity : by->from.longest + by->added};
  return values[role];
}

/* The shape that the caller has bound, or that the model and the cache require. */
static iobind_status find_shape(const iobind_binding *binding, size_t index, shape *out, iobind_error *error) {
  const iobind__input *input = &binding->inputs[index];
  const iobind__value *value = &binding->session->inputs[index];
  const iobind_tensor *bound = input->is_made ? NULL : input->source != NULL ? input->source : input->bound;
  if (value->dtype != IOBIND_DTYPE_INT32 && value->dtype != IOBIND_DTYPE_INT64) {
    return refuse_input(binding, index, "expected int32 or int64", error);
  }
  if (bound == NULL && (!value->has_shape || value->rank > 1)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound, and its dims are open: bind it", what,
                        value->label);
  }
  out->own = value->rank == 1 && value->dims[0] >= 0 ? value->dims[0] : binding->lengths.rows;
  out->rank = bound == NULL ? value->rank : bound->rank;
  out->dims = bound == NULL ? &out->own : bound->dims;
  return IOBIND_OK;
}

/* The differences of the rows' values. NULL: one value for the whole batch, because all lengths are equal, or the input has the
 * longest one. */
static const iobind__skew *skew_of(iobind__length_role role, const growth *by) {
  return role == IOBIND__LENGTH_EXTENT ? NULL : by->from.skew;
}

/* An input with one length for all rows cannot represent lengths that differ. */
static iobind_status check_input(const iobind_binding *binding, size_t index, const growth *by, iobind_error *error) {
  shape of;
  size_t count = 1;
  IOBIND__TRY(find_shape(binding, index, &of, error));
  for (size_t i = 0; i < of.rank; i++) {
    count *= (size_t)of.dims[i];
  }
  const iobind__skew *skew = skew_of(binding->inputs[index].role, by);
  return skew == NULL || count == skew->count
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                            "%s: '%s' has %zu elements, and the batch %zu rows of different lengths: expected an element for "
                            "each row",
                            what, binding->session->inputs[index].label, count, skew->count);
}

/* ---- write ---- */

static iobind_status make_values(const iobind_binding *binding, size_t index, const growth *by, iobind_tensor **out,
                                 iobind_error *error) {
  iobind__length_role role = binding->inputs[index].role;
  iobind_tensor *values;
  shape of;
  IOBIND__TRY(find_shape(binding, index, &of, error));
  iobind_dtype dtype = (iobind_dtype)binding->session->inputs[index].dtype;
  IOBIND__TRY(
      iobind_tensor_create(binding->session->runtime->cpu, IOBIND_MEMORY_DEFAULT, dtype, of.dims, of.rank, &values, error));
  size_t count = values->bytes / (dtype == IOBIND_DTYPE_INT32 ? sizeof(int32_t) : sizeof(int64_t));
  for (size_t i = 0; i < count; i++) {
    int64_t value = value_of(binding, role, by, skew_of(role, by) == NULL ? 0 : i);
    if (dtype == IOBIND_DTYPE_INT32) {
      ((int32_t *)values->data)[i] = (int32_t)value;
    } else {
      ((int64_t *)values->data)[i] = value;
    }
  }
  *out = values;
  return IOBIND_OK;
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

static iobind_status write_input(iobind_binding *binding, size_t index, const growth *by, iobind_stream *stream,
                                 iobind_error *error) {
  iobind_tensor *values;
  IOBIND__TRY(make_values(binding, index, by, &values, error));
  iobind_status status = bind(binding, index, values, error);
  if (status == IOBIND_OK && values->bytes > 0) {
    status = iobind__input_write_from(binding, index, values, stream, error);
  }
  iobind_tensor_release(values);
  return status;
}

static iobind_status write_all(iobind_binding *binding, const growth *by, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    if (binding->inputs[i].role != IOBIND__LENGTH_COMPUTED) {
      IOBIND__TRY(write_input(binding, i, by, stream, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status check_all(const iobind_binding *binding, const growth *by, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    if (binding->inputs[i].role != IOBIND__LENGTH_COMPUTED) {
      IOBIND__TRY(check_input(binding, i, by, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status check_lengths(const iobind_binding *binding, size_t added, const iobind__used *from, iobind_error *error) {
  int64_t capacity = binding->lengths.capacity;
  int64_t length = from->longest;
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

/* Check that there is one length for each row of the batch, or one for all. */
static iobind_status check_rows(const iobind__lengths *caches, size_t count, iobind_error *error) {
  if (count != 1 && caches->rows_differ) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: the carried caches are of batches of different sizes: expected 1 length for all rows, got %zu",
                        what, count);
  }
  return count == 1 || (count > 0 && count == (uint64_t)caches->rows)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "%s: the caches have a batch of %lld rows: expected 1 length for all, or one for each, got %zu",
                            what, (long long)caches->rows, count);
}

/* While runs are in flight, a stream's thread may be advancing the states. Then the caches that were found before them are
 * used. */
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

/* The settled lengths: while runs are in flight, those before these runs. If the new lengths are shorter, those count, because
 * the next run overwrites the rows beyond them. */
static iobind_status settle(const iobind_binding *binding, const iobind__used *from, iobind__used *settled,
                            iobind_error *error) {
  const iobind__used *before = &binding->lengths.settled;
  if (binding->flight.stream != NULL && before->longest != IOBIND__LENGTH_UNKNOWN) {
    return iobind__used_least(from, before, what, settled, error);
  }
  iobind__used_set(settled, binding->flight.stream == NULL ? *from : *before);
  return IOBIND_OK;
}

static iobind_status write_checked(iobind_binding *binding, const growth *by, iobind_stream *stream, iobind_error *error) {
  iobind__lengths *lengths = &binding->lengths;
  iobind__used settled = iobind__used_none();
  IOBIND__TRY(settle(binding, &by->from, &settled, error));
  lengths->added = IOBIND__LENGTHS_LOST; /* until all inputs are written */
  iobind_status status = write_all(binding, by, stream, error);
  if (status == IOBIND_OK) {
    iobind__used_set(&lengths->now, by->from);
    iobind__used_set(&lengths->settled, settled);
    lengths->added = by->added;
  }
  iobind__used_release(&settled);
  return status;
}

static iobind_status write_lengths(iobind_binding *binding, const growth *by, iobind_stream *stream, iobind_error *error) {
  const iobind__skew *skew = by->from.skew;
  IOBIND__TRY(check_lengths(binding, (size_t)by->added, &by->from, error));
  IOBIND__TRY(skew == NULL ? IOBIND_OK : check_rows(&binding->lengths, skew->count, error));
  IOBIND__TRY(check_all(binding, by, error));
  return write_checked(binding, by, stream, error);
}

static iobind_status check_given(const given *lengths, iobind_error *error) {
  for (size_t i = 0; i < lengths->count; i++) {
    if (lengths->values[i] < 0) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: row %zu: expected a length of 0 or more, got %lld", what,
                          i, (long long)lengths->values[i]);
    }
  }
  return IOBIND_OK;
}

static iobind_status write_given(iobind_binding *binding, size_t added, const given *lengths, iobind_stream *stream,
                                 iobind_error *error) {
  growth by = {.from = iobind__used_none(), .added = (int64_t)added};
  IOBIND__TRY(check_stream(binding, stream, error));
  IOBIND__TRY(find_caches(binding, error));
  if (lengths->values == NULL) {
    iobind__used_set(&by.from, binding->lengths.now);
  } else {
    IOBIND__TRY(check_rows(&binding->lengths, lengths->count, error));
    IOBIND__TRY(check_given(lengths, error));
    IOBIND__TRY(iobind__used_make(lengths->values, lengths->count, what, &by.from, error));
  }
  iobind_status status = write_lengths(binding, &by, stream, error);
  iobind__used_release(&by.from);
  return status;
}

iobind_status iobind_binding_write_lengths(iobind_binding *binding, size_t added, const int64_t *lengths, size_t count,
                                           iobind_stream *stream, iobind_error *error) {
  const given from = {lengths, count};
  IOBIND__TRY(iobind__null_check(binding, "binding", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(count == 0 ? IOBIND_OK : iobind__null_check(lengths, "lengths", what, error));
  if (added == 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected 1 new row or more, got 0", what);
  }
  return iobind__renamed(write_given(binding, added, &from, stream, error), error, what);
}

/* ---- count ---- */

iobind__used iobind__binding_get_used(const iobind_binding *binding) {
  return binding->lengths.now;
}

void iobind__binding_set_used(iobind_binding *binding, iobind__used used) {
  iobind__used_set(&binding->lengths.now, used);
  iobind__used_set(&binding->lengths.settled, used);
  binding->lengths.added = 0;
}

static iobind_status check_defined(const iobind_binding *binding, const char *name, iobind_error *error) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    if (binding->inputs[carry->input].damage == IOBIND__DAMAGE_WHOLE) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_STATE,
          "%s: the state '%s' is undefined, not only beyond its length: restore a saved state, or bind it again", name,
          binding->session->inputs[carry->input].label);
    }
  }
  return IOBIND_OK;
}

/* This also makes a state defined that a failed run has written in place, because it has written only beyond the length. */
iobind_status iobind__binding_rewind_length(iobind_binding *binding, int64_t length, const char *name, iobind_error *error) {
  iobind__used shorter;
  if (length > binding->lengths.now.longest) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected a length of 0 .. %lld, got %lld", name,
                        (long long)binding->lengths.now.longest, (long long)length);
  }
  IOBIND__TRY(check_defined(binding, name, error));
  IOBIND__TRY(iobind__used_cut(&binding->lengths.now, length, name, &shorter, error));
  for (size_t i = 0; i < binding->carry_count; i++) {
    /* the table was already changed when the state became undefined */
    binding->inputs[binding->carries[i].input].damage = IOBIND__DAMAGE_NONE;
  }
  if (binding->results == IOBIND__RESULTS_FAILED) {
    iobind__results_drop(binding, NULL); /* of runs beyond the length: a saved state must not contain them */
  }
  iobind__binding_set_used(binding, shorter);
  iobind__used_release(&shorter);
  return IOBIND_OK;
}

void iobind__lengths_open(iobind_binding *binding) {
  binding->lengths =
      (iobind__lengths){.now = iobind__used_none(), .settled = iobind__used_none(), .capacity = -1, .tokens = SIZE_MAX};
}

void iobind__lengths_close(iobind_binding *binding) {
  iobind__used_release(&binding->lengths.now);
  iobind__used_release(&binding->lengths.settled);
}

void iobind__lengths_forget(iobind_binding *binding) {
  iobind__lengths_close(binding);
  iobind__lengths_open(binding);
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
  if (lengths->added == 0) {
    iobind__used_set(&lengths->now, iobind__used_none());
  } else {
    lengths->now.longest += lengths->added; /* each row of the batch has the same number of new rows */
  }
  lengths->added = 0;
  if (binding->flight.stream == NULL) {
    iobind__used_set(&lengths->settled, lengths->now);
    binding->flight.has_uncounted = false;
  }
}

void iobind__lengths_note_failure(iobind_binding *binding) {
  if (!iobind__lengths_are_counted(binding) && binding->flight.has_uncounted) {
    iobind__used_set(&binding->lengths.now, iobind__used_none());
    iobind__used_set(&binding->lengths.settled, iobind__used_none());
    binding->flight.has_uncounted = false;
  }
}

void iobind__lengths_note_end(iobind_binding *binding, bool has_failed) {
  iobind__lengths *lengths = &binding->lengths;
  if (has_failed) {
    iobind__used_set(&lengths->now, binding->flight.has_uncounted ? iobind__used_none() : lengths->settled);
    lengths->added = lengths->added == 0 ? 0 : IOBIND__LENGTHS_LOST;
  }
  iobind__used_set(&lengths->settled, lengths->now);
  binding->flight.has_uncounted = false;
}
