/* The batch axis of each input and output: the axis of its rows. */
#include <string.h>

#include "batch/batch.h"
#include "support/options.h"
#include "support/text.h"

static const char what[] = "batch_create";

iobind__layout iobind__layout_of(iobind_dtype dtype, const int64_t *dims, size_t rank, int32_t axis) {
  iobind__layout layout = {.axis = axis, .lead = 1, .piece = iobind_dtype_get_bits((int32_t)dtype) / 8};
  for (size_t i = 0; i < rank; i++) {
    if (axis == IOBIND_BATCH_NO_AXIS || i > (size_t)axis) {
      layout.piece *= (size_t)dims[i];
    } else if (i < (size_t)axis) {
      layout.lead *= (size_t)dims[i];
    }
  }
  return layout;
}

/* ---- axes that the caller gives ---- */

static iobind_status check_given(const iobind__value *value, int32_t axis, iobind_error *error) {
  if (axis == IOBIND_BATCH_NO_AXIS) {
    return IOBIND_OK;
  }
  if (axis < 0 || (size_t)axis >= value->rank) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "%s: '%s': expected an axis below its rank %zu, or IOBIND_BATCH_NO_AXIS, got %d", what, value->label,
                        value->rank, (int)axis);
  }
  if (value->dims[axis] >= 0) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "%s: '%s': the model fixes axis %d to %lld: export it with an open batch dim", what, value->label,
                        (int)axis, (long long)value->dims[axis]);
  }
  return IOBIND_OK;
}

static iobind_status take_given(const iobind__value *values, const int32_t *given, size_t count, int32_t *axes,
                                iobind_error *error) {
  for (size_t i = 0; i < count; i++) {
    IOBIND__TRY(check_given(&values[i], given[i], error));
    axes[i] = given[i];
  }
  return IOBIND_OK;
}

/* ---- axes that are found by a symbol ---- */

/* The axis with a symbol. IOBIND_BATCH_NO_AXIS: none has it, or several. */
static int32_t find_symbol(const iobind__value *value, int symbol) {
  int32_t found = IOBIND_BATCH_NO_AXIS;
  for (size_t i = 0; i < value->rank; i++) {
    if (value->symbol_ids[i] == symbol) {
      if (found != IOBIND_BATCH_NO_AXIS) {
        return IOBIND_BATCH_NO_AXIS;
      }
      found = (int32_t)i;
    }
  }
  return found;
}

/* Have all inputs and outputs exactly one axis with this symbol? Inputs that are scalars need none: all rows share them. */
static bool is_candidate(const iobind_session *session, int symbol) {
  bool all = true;
  for (size_t i = 0; all && i < session->input_count; i++) {
    all = session->inputs[i].rank == 0 || find_symbol(&session->inputs[i], symbol) != IOBIND_BATCH_NO_AXIS;
  }
  for (size_t i = 0; all && i < session->output_count; i++) {
    all = find_symbol(&session->outputs[i], symbol) != IOBIND_BATCH_NO_AXIS;
  }
  return all;
}

/* `names`: the symbols of the dims, which may be empty. */
static iobind_status refuse(const char *names, bool are_several, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_SHAPE,
                      are_several
                          ? "%s: the batch axis may be any of the dims %s: give input_axes and output_axes"
                          : "%s: expected one named dim that every input of rank 1 or more and every output has exactly "
                            "once, the model's are %s: give input_axes and output_axes",
                      what, names[0] == '\0' ? "not named" : names);
}

static iobind_status find(iobind_batch *batch, iobind_error *error) {
  const iobind_session *session = batch->session;
  iobind__text candidates = {0};
  iobind__text all = {0};
  int found = -1;
  size_t count = 0;
  for (size_t s = 0; s < session->symbol_count; s++) {
    bool fits = is_candidate(session, (int)s);
    iobind__text_add(&all, "%s'%s'", all.data == NULL ? "" : ", ", session->symbols[s]);
    if (fits) {
      iobind__text_add(&candidates, "%s'%s'", candidates.data == NULL ? "" : ", ", session->symbols[s]);
      found = (int)s;
      count++;
    }
  }
  const char *names = count > 1 ? candidates.data : all.data;
  iobind_status status = candidates.failed || all.failed ? iobind__out_of_memory(error, what)
                         : count == 1                    ? IOBIND_OK
                                                         : refuse(names == NULL ? "" : names, count > 1, error);
  iobind__text_free(&candidates);
  iobind__text_free(&all);
  for (size_t i = 0; status == IOBIND_OK && i < session->input_count; i++) {
    batch->input_axes[i] = find_symbol(&session->inputs[i], found);
  }
  for (size_t i = 0; status == IOBIND_OK && i < session->output_count; i++) {
    batch->output_axes[i] = find_symbol(&session->outputs[i], found);
  }
  return status;
}

static iobind_status check_value(const iobind__value *value, iobind_error *error) {
  bool is_whole = value->kind == IOBIND_VALUE_TENSOR && value->has_shape && value->dtype != IOBIND_DTYPE_STRING &&
                  iobind_dtype_get_bits((int32_t)value->dtype) % 8 == 0;
  return is_whole
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                            "%s: '%s': expected a tensor of a declared rank, whose elements are whole bytes and no strings",
                            what, value->label);
}

iobind_status iobind__axes_find(iobind_batch *batch, const iobind_batch_options *options, iobind_error *error) {
  const iobind_session *session = batch->session;
  for (size_t i = 0; i < session->input_count + session->output_count; i++) {
    IOBIND__TRY(
        check_value(i < session->input_count ? &session->inputs[i] : &session->outputs[i - session->input_count], error));
  }
  IOBIND__TRY(iobind__array_check_optional(options->input_axes, options->input_axis_count, session->input_count, "input_axes",
                                           what, error));
  IOBIND__TRY(iobind__array_check_optional(options->output_axes, options->output_axis_count, session->output_count,
                                           "output_axes", what, error));
  if ((options->input_axes == NULL) != (options->output_axes == NULL)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected both input_axes and output_axes, or neither", what);
  }
  if (options->input_axes == NULL) {
    return find(batch, error);
  }
  IOBIND__TRY(take_given(session->inputs, options->input_axes, session->input_count, batch->input_axes, error));
  return take_given(session->outputs, options->output_axes, session->output_count, batch->output_axes, error);
}
