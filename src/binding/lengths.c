/* The length of the carried caches of fixed capacity: written into the inputs that the model takes it from, and counted by the runs that
 * succeed. */
#include <string.h>

#include "binding/table.h"

static const char what[] = "binding_write_lengths";

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

/* The values for an input: one for all rows of the batch, one for each, or for each row or position of each. */
typedef struct shape {
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
  size_t width; /* values of one row of the batch */
  size_t count; /* rows of the batch */
} shape;

/* The value at an index along the last axis. */
static int64_t value_of(const iobind_binding *binding, iobind_length_role role, const growth *by, size_t row, size_t at) {
  int64_t length = iobind__used_at(&by->from, row);
  int64_t values[] = {[IOBIND_LENGTH_BEFORE] = length,
                      [IOBIND_LENGTH_LAST] = length + by->added - 1,
                      [IOBIND_LENGTH_AFTER] = length + by->added,
                      /* an EP may read it on the host, where each value would need another captured graph */
                      [IOBIND_LENGTH_EXTENT] =
                          binding->session->graphs.limit > 0 ? binding->lengths.capacity : by->from.longest + by->added,
                      [IOBIND_LENGTH_MASK] = (int64_t)at < length + by->added,
                      [IOBIND_LENGTH_POSITIONS] = length + (int64_t)at};
  return values[role];
}

/* The extent of a dim that the model leaves open, and the caller, too; -1: it is not known. */
static int64_t open_dim(const iobind_binding *binding, size_t index, const growth *by, size_t axis) {
  iobind_length_role role = binding->inputs[index].role;
  if (iobind__length_is_wide(role) && axis + 1 == binding->session->inputs[index].rank) {
    return role == IOBIND_LENGTH_MASK ? binding->lengths.capacity : by->added;
  }
  return axis == 0 ? binding->lengths.rows : -1;
}

static iobind_status choose_dims(const iobind_binding *binding, size_t index, const growth *by, shape *out,
                                 iobind_error *error) {
  const iobind__value *value = &binding->session->inputs[index];
  bool is_known = value->has_shape;
  out->rank = value->rank;
  for (size_t i = 0; i < value->rank && is_known; i++) {
    out->dims[i] = value->dims[i] >= 0 ? value->dims[i] : open_dim(binding, index, by, i);
    is_known = out->dims[i] >= 0;
  }
  return is_known ? IOBIND_OK
                  : iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound, and its dims are open: bind it",
                                 what, value->label);
}

/* The shape that the caller has bound, or that the model and the cache require. */
static iobind_status find_shape(const iobind_binding *binding, size_t index, const growth *by, shape *out,
                                iobind_error *error) {
  const iobind__input *input = &binding->inputs[index];
  const iobind_tensor *bound = input->is_made ? NULL : input->source != NULL ? input->source : input->bound;
  if (bound == NULL) {
    IOBIND__TRY(choose_dims(binding, index, by, out, error));
  } else {
    out->rank = bound->rank;
    memcpy(out->dims, bound->dims, bound->rank * sizeof bound->dims[0]);
  }
  size_t outer = iobind__length_is_wide(input->role) && out->rank > 0 ? out->rank - 1 : out->rank;
  out->width = outer < out->rank ? (size_t)out->dims[outer] : 1;
  out->count = 1;
  for (size_t i = 0; i < outer; i++) {
    out->count *= (size_t)out->dims[i];
  }
  return IOBIND_OK;
}

/* ---- checks ---- */

/* The differences of the rows' values. NULL: one value for the whole batch, because all lengths are equal, or the input has the
 * longest one. */
static const iobind__skew *skew_of(iobind_length_role role, const growth *by) {
  return role == IOBIND_LENGTH_EXTENT ? NULL : by->from.skew;
}

/* An input with one length for all rows cannot represent lengths that differ. */
static iobind_status check_skew(const iobind_binding *binding, size_t index, const shape *of, const growth *by,
                                iobind_error *error) {
  const iobind__skew *skew = skew_of(binding->inputs[index].role, by);
  return skew == NULL || of->count == skew->count
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                            "%s: '%s' has %zu elements, and the batch %zu rows of different lengths: expected an element for "
                            "each row",
                            what, binding->session->inputs[index].label, of->count, skew->count);
}

/* A mask has an element for each row that will be in use, positions have one for each new row. */
static iobind_status check_width(const iobind_binding *binding, size_t index, const shape *of, const growth *by,
                                 iobind_error *error) {
  iobind_length_role role = binding->inputs[index].role;
  size_t least = (size_t)(role == IOBIND_LENGTH_MASK ? by->from.longest + by->added : by->added);
  bool fits = of->rank > 0 && (role == IOBIND_LENGTH_MASK ? of->width >= least : of->width == least);
  return !iobind__length_is_wide(role) || fits
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: '%s': expected %zu%s on the last axis, got %zu", what,
                            binding->session->inputs[index].label, least, role == IOBIND_LENGTH_MASK ? " or more" : "",
                            of->rank == 0 ? 0 : of->width);
}

/* Need nothing be bound? */
static bool is_bound_with(const iobind__input *input, const shape *of) {
  const iobind_tensor *bound = input->bound;
  return bound != NULL &&
         (!input->is_made || (bound->rank == of->rank && memcmp(bound->dims, of->dims, of->rank * sizeof of->dims[0]) == 0));
}

static iobind_status check_input(iobind_binding *binding, size_t index, const growth *by, const iobind_stream *stream,
                                 iobind_error *error) {
  const iobind__value *value = &binding->session->inputs[index];
  shape of;
  if (value->dtype != IOBIND_DTYPE_INT32 && value->dtype != IOBIND_DTYPE_INT64 &&
      binding->inputs[index].role != IOBIND_LENGTH_MASK) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s': expected int32 or int64: write the lengths yourself",
                        what, value->label);
  }
  IOBIND__TRY(iobind__input_check_write(binding, index, stream, what, error));
  IOBIND__TRY(find_shape(binding, index, by, &of, error));
  IOBIND__TRY(check_width(binding, index, &of, by, error));
  IOBIND__TRY(check_skew(binding, index, &of, by, error));
  return is_bound_with(&binding->inputs[index], &of) ? IOBIND_OK : iobind__binding_check_idle(binding, what, error);
}

/* ---- write ---- */

static void set_value(iobind_tensor *values, size_t index, int64_t value) {
  enum { HALF_ONE = 0x3C00 };
  switch (values->dtype) {
    case IOBIND_DTYPE_INT32: ((int32_t *)values->data)[index] = (int32_t)value; break;
    case IOBIND_DTYPE_BOOL: ((uint8_t *)values->data)[index] = (uint8_t)value; break;
    case IOBIND_DTYPE_FLOAT16: ((uint16_t *)values->data)[index] = value != 0 ? HALF_ONE : 0; break;
    case IOBIND_DTYPE_FLOAT32: ((float *)values->data)[index] = (float)value; break;
    default: ((int64_t *)values->data)[index] = value; break;
  }
}

static iobind_status make_values(const iobind_binding *binding, size_t index, const growth *by, iobind_tensor **out,
                                 iobind_error *error) {
  iobind_length_role role = binding->inputs[index].role;
  iobind_tensor *values;
  shape of;
  IOBIND__TRY(find_shape(binding, index, by, &of, error));
  iobind_dtype dtype = (iobind_dtype)binding->session->inputs[index].dtype;
  IOBIND__TRY(
      iobind_tensor_create(binding->session->runtime->cpu, IOBIND_MEMORY_DEFAULT, dtype, of.dims, of.rank, &values, error));
  for (size_t i = 0; i < of.count * of.width; i++) {
    size_t row = skew_of(role, by) == NULL ? 0 : i / of.width;
    set_value(values, i, value_of(binding, role, by, row, i % of.width));
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
    if (binding->inputs[i].role != IOBIND_LENGTH_UNNAMED) {
      IOBIND__TRY(write_input(binding, i, by, stream, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status check_all(iobind_binding *binding, const growth *by, const iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    if (binding->inputs[i].role != IOBIND_LENGTH_UNNAMED) {
      IOBIND__TRY(check_input(binding, i, by, stream, error));
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

/* May the caches have another capacity than when they were found? A run that iobind has not counted may have made them longer. While such
 * runs are in flight, a stream's thread may be advancing the states: then the caches that were found before them are used. */
static bool may_be_longer(const iobind_binding *binding) {
  const iobind_stream *busy = binding->flight.stream;
  return binding->lengths.now.longest == IOBIND__LENGTH_UNKNOWN && (busy == NULL || iobind__stream_orders_calls(busy));
}

static iobind_status find_caches(iobind_binding *binding, iobind_error *error) {
  iobind__lengths found = binding->lengths;
  if (found.capacity >= 0 && !may_be_longer(binding)) {
    return IOBIND_OK;
  }
  IOBIND__TRY(found.capacity >= 0 ? IOBIND_OK : iobind__binding_check_idle(binding, what, error));
  IOBIND__TRY(iobind__roles_find(binding, &found, error));
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
  IOBIND__TRY(check_all(binding, by, stream, error));
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
    if (binding->inputs[carry->input].next == IOBIND__NEXT_LOST) {
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
    iobind__input *input = &binding->inputs[binding->carries[i].input];
    if (input->next == IOBIND__NEXT_TORN) { /* the table was changed when it became so */
      input->next = IOBIND__NEXT_BOUND;
    }
  }
  if (binding->results.state == IOBIND__RESULTS_FAILED) {
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
  /* the next run looks for the lengths that it must check; and even if nothing is rebound, the content of inputs on the host determines
   * the graph */
  iobind__table_changed(binding);
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
