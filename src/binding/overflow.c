/* Lengths that the caller writes: where the host reads them before a run anyway, one for which the caches have no room is refused. */
#include "binding/table.h"
#include "session/model.h"

/* The caller's thread compiles the plan after each change that made the lengths unknown, a stream's thread only other plans. */
bool iobind__overflow_is_checked(iobind_binding *binding) {
  iobind__lengths *lengths = &binding->lengths;
  if (lengths->capacity < 0 && !lengths->is_sought) {
    iobind__lengths found = *lengths;
    bool is_known = binding->session->model == NULL || iobind__model_has_kinds(binding->session->model);
    bool is_found = is_known && iobind__roles_find(binding, &found, NULL) == IOBIND_OK;
    *lengths = is_found ? found : *lengths;
    lengths->is_sought = true;
  }
  return lengths->capacity >= 0 && !lengths->is_open;
}

/* The greatest value that an input of this role may have; INT64_MAX: any. */
static int64_t most_of(const iobind_binding *binding, iobind_length_role role) {
  const iobind__lengths *lengths = &binding->lengths;
  const iobind_tensor *tokens = lengths->tokens == SIZE_MAX ? NULL : binding->inputs[lengths->tokens].bound;
  int64_t added = tokens == NULL ? 1 : tokens->dims[lengths->tokens_axis];
  switch (role) {
    case IOBIND_LENGTH_BEFORE: return lengths->capacity - added;
    case IOBIND_LENGTH_LAST:
    case IOBIND_LENGTH_POSITIONS: return lengths->capacity - 1;
    case IOBIND_LENGTH_AFTER:
    case IOBIND_LENGTH_EXTENT: return lengths->capacity;
    default: return INT64_MAX;
  }
}

static bool is_whole(const iobind_tensor *values) {
  return values->dtype == IOBIND_DTYPE_INT32 || values->dtype == IOBIND_DTYPE_INT64;
}

static int64_t value_at(const iobind_tensor *values, size_t index) {
  return values->dtype == IOBIND_DTYPE_INT32 ? ((const int32_t *)values->data)[index] : ((const int64_t *)values->data)[index];
}

static iobind_status check_values(const iobind_binding *binding, size_t index, const iobind_tensor *values, int64_t most,
                                  iobind_error *error) {
  size_t count = values->bytes / (values->dtype == IOBIND_DTYPE_INT32 ? sizeof(int32_t) : sizeof(int64_t));
  for (size_t i = 0; i < count; i++) {
    int64_t value = value_at(values, i);
    if (value > most) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "binding_run: '%s': element %zu: the caches have a capacity of %lld: expected at most %lld, got %lld",
                          binding->session->inputs[index].label, i, (long long)binding->lengths.capacity, (long long)most,
                          (long long)value);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__overflow_check(const iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const int64_t most = most_of(binding, binding->inputs[i].role);
    const iobind_tensor *values = most == INT64_MAX ? NULL : iobind__input_read_at_once(binding, i);
    if (values != NULL && is_whole(values) && !binding->inputs[i].is_made) {
      IOBIND__TRY(check_values(binding, i, values, most, error));
    }
  }
  return IOBIND_OK;
}
