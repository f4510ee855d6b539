/* The inputs that have the lengths of the carried caches of fixed capacity: named by the caller, or found in the model's graph. */
#include "binding/table.h"
#include "support/process.h"

static const char naming[] = "binding_name_length";
static const char what[] = "binding_write_lengths";

/* ---- named by the caller ---- */

static bool is_value(iobind_length_role role) {
  return role >= IOBIND_LENGTH_BEFORE && role <= IOBIND_LENGTH_POSITIONS;
}

static bool takes(iobind_length_role role, int32_t dtype) {
  bool is_flag = dtype == IOBIND_DTYPE_BOOL || dtype == IOBIND_DTYPE_FLOAT16 || dtype == IOBIND_DTYPE_FLOAT32;
  return iobind__length_has_type(dtype) || (role == IOBIND_LENGTH_MASK && is_flag);
}

static iobind_status check_value(const iobind__value *value, iobind_length_role role, iobind_error *error) {
  if (!takes(role, value->dtype)) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: '%s': expected %s, got %s", naming, value->label,
                        role == IOBIND_LENGTH_MASK ? "bool, int32, int64, float16 or float32" : "int32 or int64",
                        iobind_dtype_get_name((int32_t)value->dtype));
  }
  return iobind__length_is_wide(role) && value->has_shape && value->rank == 0
             ? iobind__fail(error, IOBIND_ERROR_SHAPE,
                            "%s: '%s': expected 1 dim or more, for a value of each row, got a scalar", naming, value->label)
             : IOBIND_OK;
}

static iobind_status check_axis(const iobind__value *value, iobind__length_name name, iobind_error *error) {
  size_t count = name.role != IOBIND_LENGTH_CACHE ? 1 : value->has_shape ? value->rank : IOBIND_MAX_RANK;
  return name.axis < count ? IOBIND_OK
                           : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s': expected an axis below %zu, got %zu",
                                          naming, value->label, count, name.axis);
}

static iobind_status check_name(const iobind__value *value, iobind__length_name name, iobind_error *error) {
  if (name.role < IOBIND_LENGTH_UNNAMED || name.role > IOBIND_LENGTH_CACHE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s': expected role 0 .. %d, got %d", naming, value->label,
                        IOBIND_LENGTH_CACHE, (int)name.role);
  }
  bool is_any = name.role == IOBIND_LENGTH_UNNAMED || name.role == IOBIND_LENGTH_OTHER;
  if (!is_any && (value->kind != IOBIND_VALUE_TENSOR || value->dtype == IOBIND_DTYPE_STRING)) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s': expected a tensor of numbers", naming, value->label);
  }
  IOBIND__TRY(check_axis(value, name, error));
  return is_value(name.role) ? check_value(value, name.role, error) : IOBIND_OK;
}

iobind_status iobind_binding_name_length(iobind_binding *binding, size_t input, iobind_length_role role, size_t axis,
                                         iobind_error *error) {
  const iobind__length_name name = {role, axis};
  IOBIND__TRY(iobind__null_check(binding, "binding", naming, error));
  IOBIND__TRY(iobind__process_check(naming, error));
  if (input >= binding->session->input_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an index below %zu, got %zu", naming,
                        binding->session->input_count, input);
  }
  IOBIND__TRY(iobind__binding_check_idle(binding, naming, error));
  IOBIND__TRY(check_name(&binding->session->inputs[input], name, error));
  binding->inputs[input].name = name;
  iobind__lengths_forget(binding);
  return IOBIND_OK;
}

/* ---- the kind of a carry ---- */

static iobind_status refuse_cache(const iobind_session *session, const iobind__kind *kind, size_t input, size_t axis,
                                  iobind_error *error) {
  const char *name = session->inputs[input].label;
  return kind->kind == IOBIND_STATE_CAPACITY
             ? iobind__fail(
                   error, IOBIND_ERROR_NOT_SUPPORTED,
                   "'%s' was named as a cache whose rows are on axis %zu, but in the model's graph they are on axis %zu", name,
                   axis, kind->axis)
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                            "'%s' was named as a cache of fixed capacity, but in the model's graph its kind is %s", name,
                            iobind__kind_word(kind->kind));
}

iobind_status iobind__binding_find_kind(iobind_binding *binding, iobind__pair pair, iobind__kind *out, iobind_error *error) {
  const iobind__length_name *name = &binding->inputs[pair.input].name;
  IOBIND__TRY(iobind__session_find_kind(binding->session, pair.output, pair.input, out, error));
  if (name->role != IOBIND_LENGTH_CACHE || (out->kind == IOBIND_STATE_CAPACITY && out->axis == name->axis)) {
    return IOBIND_OK;
  }
  bool is_open = out->kind == IOBIND_STATE_UNKNOWN || (out->kind == IOBIND_STATE_CAPACITY && out->axis == SIZE_MAX);
  if (!is_open) {
    return refuse_cache(binding->session, out, pair.input, name->axis, error);
  }
  out->kind = IOBIND_STATE_CAPACITY;
  out->axis = name->axis;
  out->rows = name->axis == 0 ? SIZE_MAX : 0;
  return IOBIND_OK;
}

/* ---- named or found ---- */

static iobind_status refuse_kind(const iobind_binding *binding, iobind_error *error) {
  return iobind__fail(
      error, IOBIND_ERROR_NOT_SUPPORTED, "%s: expected a carried cache of fixed capacity, got none%s", what,
      binding->session->model == NULL
          ? ": the session's model is unknown: create the session from a file, or with IOBIND_SESSION_IDENTIFY; or "
            "name the cache (iobind_binding_name_length)"
          : ": the model's graph shows no such cache: name it (iobind_binding_name_length), or write the lengths "
            "yourself");
}

static iobind_status refuse_input(const iobind_binding *binding, size_t index, const char *why, iobind_error *error) {
  return iobind__fail(
      error, IOBIND_ERROR_NOT_SUPPORTED,
      "%s: '%s': %s: name the inputs that have a length (iobind_binding_name_length), or write the lengths yourself", what,
      binding->session->inputs[index].label, why);
}

enum { NO_ROOM = -1 }; /* no cache was found yet that has its lengths in the input */

/* What the caller has named. *any: is there a name, also of an input that the caller writes? */
static iobind_status note_names(iobind_binding *binding, bool *any, iobind_error *error) {
  *any = false;
  for (size_t i = 0; i < binding->session->input_count; i++) {
    iobind__input *input = &binding->inputs[i];
    bool is_written = is_value(input->name.role);
    input->role = is_written ? input->name.role : IOBIND_LENGTH_UNNAMED;
    input->room = NO_ROOM;
    *any = *any || is_written || input->name.role == IOBIND_LENGTH_OTHER;
    if (is_written && input->carry != 0) {
      return refuse_input(binding, i, "it is carried, so the model counts by itself", error);
    }
  }
  return IOBIND_OK;
}

static iobind_status note_role(iobind_binding *binding, size_t index, iobind_length_role role, iobind_error *error) {
  iobind__input *input = &binding->inputs[index];
  if (input->name.role == IOBIND_LENGTH_OTHER) {
    return IOBIND_OK;
  }
  if (role == IOBIND_LENGTH_UNNAMED) {
    return input->role != IOBIND_LENGTH_UNNAMED ? IOBIND_OK
                                                : refuse_input(binding, index, "the model computes lengths from it", error);
  }
  if (input->carry != 0) {
    return refuse_input(binding, index, "it is carried, so the model counts by itself", error);
  }
  if (input->role != IOBIND_LENGTH_UNNAMED && input->role != role) {
    return refuse_input(binding, index, "operators read different lengths from it, or another one than it was named for",
                        error);
  }
  input->role = role;
  return IOBIND_OK;
}

/* The roles that the graph shows. What it does not show may be named. */
static iobind_status note_roles(iobind_binding *binding, const iobind__kind *kind, size_t state, bool is_named,
                                iobind_error *error) {
  if (kind->axis == SIZE_MAX || (kind->length_count == 0 && !is_named)) {
    return refuse_input(binding, state, "the graph does not show where its length comes from", error);
  }
  if (kind->doubt != NULL && !is_named) {
    return refuse_input(binding, state, kind->doubt, error);
  }
  for (size_t i = 0; i < kind->length_count; i++) {
    IOBIND__TRY(note_role(binding, kind->lengths[i], kind->roles[i], error));
  }
  return IOBIND_OK;
}

/* How many rows a run can write into a cache. GroupQueryAttention makes a longer one in new memory, and other operators that the graph does
 * not show may do so. */
static int64_t room_of(const iobind_binding *binding, const iobind__carry *carry, const iobind__kind *kind) {
  bool is_fixed =
      carry->mode != IOBIND_CARRY_MOVE || (!kind->is_grouped && binding->inputs[carry->input].name.role != IOBIND_LENGTH_CACHE);
  return is_fixed ? binding->inputs[carry->input].bound->dims[kind->axis] : INT64_MAX;
}

/* An input with the lengths of several caches has those of the smallest one, too. */
static void note_room(iobind_binding *binding, const iobind__kind *kind, int64_t room) {
  for (size_t i = 0; i < kind->length_count; i++) {
    int64_t *least = &binding->inputs[kind->lengths[i]].room;
    *least = *least == NO_ROOM || room < *least ? room : *least;
  }
}

/* Which caches have their lengths in an input that only the caller has named, is not known: the largest one is the limit. */
static void note_largest(iobind_binding *binding, int64_t largest) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    int64_t *room = &binding->inputs[i].room;
    *room = *room == NO_ROOM ? largest : *room;
  }
}

static void note_tokens(const iobind__kind *kind, iobind__lengths *found) {
  if (found->tokens == SIZE_MAX) {
    found->tokens = kind->tokens;
    found->tokens_axis = kind->tokens_axis;
  }
  found->tokens_differ = found->tokens_differ || kind->tokens != found->tokens ||
                         (found->tokens != SIZE_MAX && kind->tokens_axis != found->tokens_axis);
}

/* The tensor that the next run reads as a cache: the last run may have left another capacity than it has read. NULL: none. */
static iobind_status find_cache(iobind_binding *binding, const iobind__carry *carry, const iobind_tensor **cache,
                                iobind_error *error) {
  bool is_result = iobind__carry_is_due(binding, carry) && carry->mode == IOBIND_CARRY_MOVE;
  IOBIND__TRY(is_result ? iobind__result_make(binding, carry->output, error) : IOBIND_OK);
  *cache = is_result ? binding->outputs[carry->output].result : binding->inputs[carry->input].bound;
  return IOBIND_OK;
}

static iobind_status note_cache(iobind_binding *binding, const iobind__carry *carry, const iobind__kind *kind,
                                iobind__lengths *found, iobind_error *error) {
  const char *label = binding->session->inputs[carry->input].label;
  const iobind_tensor *cache = NULL;
  IOBIND__TRY(find_cache(binding, carry, &cache, error));
  if (cache == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound: bind the first state", what, label);
  }
  if (kind->axis >= cache->rank) { /* of a cache that the caller has named, and whose dims the model leaves open */
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: '%s': expected a tensor with axis %zu, got %zu dims", what, label,
                        kind->axis, cache->rank);
  }
  int64_t rows = kind->rows == SIZE_MAX ? 1 : cache->dims[kind->rows];
  int64_t capacity = cache->dims[kind->axis];
  found->rows_differ = found->rows_differ || (found->capacity >= 0 && rows != found->rows);
  if (found->capacity < 0 || capacity < found->capacity) {
    found->capacity = capacity;
    found->rows = rows;
  }
  note_tokens(kind, found);
  return IOBIND_OK;
}

iobind_status iobind__roles_find(iobind_binding *binding, iobind__lengths *found, iobind_error *error) {
  bool is_named;
  int64_t largest = 0;
  found->capacity = -1;
  found->rows_differ = false;
  found->tokens = SIZE_MAX;
  found->tokens_differ = false;
  IOBIND__TRY(note_names(binding, &is_named, error));
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__pair pair = iobind__binding_view_carry(binding, i);
    iobind__kind kind;
    IOBIND__TRY(iobind__binding_find_kind(binding, pair, &kind, error));
    if (kind.kind == IOBIND_STATE_CAPACITY) {
      IOBIND__TRY(note_roles(binding, &kind, pair.input, is_named, error));
      IOBIND__TRY(note_cache(binding, &binding->carries[i], &kind, found, error));
      int64_t room = room_of(binding, &binding->carries[i], &kind);
      note_room(binding, &kind, room);
      largest = room > largest ? room : largest;
    }
  }
  note_largest(binding, largest);
  return found->capacity < 0 ? refuse_kind(binding, error) : IOBIND_OK;
}
