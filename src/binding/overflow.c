/* Lengths that the caller writes: where the host reads them before a run anyway, one below 0 is refused, and one for which the caches have
 * no room. */
#include "binding/table.h"

/* Without such an input, no model has lengths that can be checked. */
static bool may_have_lengths(const iobind_binding *binding) {
  bool any = false;
  for (size_t i = 0; !any && i < binding->session->input_count; i++) {
    any = iobind__length_has_type(binding->session->inputs[i].dtype) && binding->inputs[i].carry == 0;
  }
  return any;
}

/* The caller's thread compiles the plan after each change that made the lengths unknown, a stream's thread only other plans. */
bool iobind__overflow_is_checked(iobind_binding *binding) {
  iobind__lengths *lengths = &binding->lengths;
  if (lengths->capacity < 0 && !lengths->is_sought) {
    iobind__lengths found = *lengths;
    bool is_found = may_have_lengths(binding) && iobind__roles_find(binding, &found, NULL) == IOBIND_OK;
    *lengths = is_found ? found : *lengths;
    lengths->is_sought = true;
  }
  return lengths->capacity >= 0;
}

/* The rows that the run adds to each cache, as far as the graph shows it; at least 1. */
static int64_t added_by(const iobind_binding *binding) {
  const iobind__lengths *lengths = &binding->lengths;
  const iobind_tensor *tokens =
      lengths->tokens == SIZE_MAX || lengths->tokens_differ ? NULL : binding->inputs[lengths->tokens].bound;
  return tokens == NULL ? 1 : tokens->dims[lengths->tokens_axis];
}

/* Does an input of this role have lengths, or places of rows? */
static bool is_limited(iobind_length_role role) {
  return role == IOBIND_LENGTH_BEFORE || role == IOBIND_LENGTH_LAST || role == IOBIND_LENGTH_AFTER ||
         role == IOBIND_LENGTH_EXTENT || role == IOBIND_LENGTH_POSITIONS;
}

/* The greatest value that such an input may have. */
static int64_t most_of(const iobind_binding *binding, size_t index) {
  const iobind__input *input = &binding->inputs[index];
  int64_t beyond = input->role == IOBIND_LENGTH_BEFORE                                           ? added_by(binding)
                   : input->role == IOBIND_LENGTH_LAST || input->role == IOBIND_LENGTH_POSITIONS ? 1
                                                                                                 : 0;
  return input->room == INT64_MAX ? INT64_MAX : input->room - beyond;
}

static iobind_status refuse(const iobind_binding *binding, size_t index, iobind__length_value wrong, iobind_error *error) {
  const char *label = binding->session->inputs[index].label;
  long long room = binding->inputs[index].room;
  int64_t most = most_of(binding, index);
  if (wrong.value < 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "binding_run: '%s': element %zu: expected a length of 0 or more, got %lld", label, wrong.element,
                        (long long)wrong.value);
  }
  return most < 0
             ? iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "binding_run: '%s': the caches have a capacity of %lld: expected at most so many new rows, got "
                            "%lld",
                            label, room, (long long)added_by(binding))
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "binding_run: '%s': element %zu: the caches have a capacity of %lld: expected at most %lld, "
                            "got %lld",
                            label, wrong.element, room, (long long)most, (long long)wrong.value);
}

static iobind_status check_values(const iobind_binding *binding, size_t index, const iobind_tensor *values,
                                  iobind_error *error) {
  iobind__length_value wrong;
  return iobind__length_find_wrong(values, values->data, most_of(binding, index), &wrong) ? refuse(binding, index, wrong, error)
                                                                                          : IOBIND_OK;
}

iobind_status iobind__overflow_check(const iobind_binding *binding, bool is_counted, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    const iobind_tensor *values = is_limited(input->role) ? iobind__input_read_at_once(binding, i) : NULL;
    bool is_right = is_counted && input->is_made;
    if (!is_right && values != NULL && iobind__length_has_type(values->dtype)) {
      IOBIND__TRY(check_values(binding, i, values, error));
    }
  }
  return IOBIND_OK;
}
