/* Free dimension overrides: does the model have an open dim of that name? ORT ignores an override of any other name. */
#include <string.h>

#include "session/create.h"
#include "session/protobuf.h"

/* The path from the model to the names of its inputs' dims: graph, input, type, tensor type, shape, dim, dim_param. */
static const uint64_t dim_path[] = {7, 11, 2, 1, 2, 1, 2};
enum { DIM_DEPTH = sizeof dim_path / sizeof dim_path[0] };

/* Look for the name along the path, in the message between two offsets. */
static bool find_name(iobind__model_bytes *model, uint64_t offset, uint64_t end, int depth, const char *name) {
  iobind__field field;
  while (iobind__model_next(model, &offset, end, &field)) {
    if (!field.is_message || field.number != dim_path[depth]) {
      continue;
    }
    char found[256];
    bool is_here = depth + 1 < DIM_DEPTH ? find_name(model, field.offset, field.offset + field.length, depth + 1, name)
                                         : iobind__model_text(model, &field, found, sizeof found) && strcmp(found, name) == 0;
    if (is_here) {
      return true;
    }
  }
  return false;
}

iobind_status iobind__session_check_dims(const iobind_session_options *options, const iobind__source *from,
                                         iobind_error *error) {
  if (options->dim_count == 0 || options->dim_names == NULL) {
    return IOBIND_OK;
  }
  iobind__model_bytes model;
  iobind_status status = IOBIND_OK;
  IOBIND__TRY(iobind__model_open(&model, from, error));
  for (size_t i = 0; i < options->dim_count && status == IOBIND_OK && !iobind__model_is_ort_format(&model); i++) {
    const char *name = options->dim_names[i]; /* the check of the lists refuses NULL */
    model.sound = true;
    /* ORT refuses what is not a model */
    if (name != NULL && !find_name(&model, 0, model.size, 0, name) && model.sound) {
      status = iobind__fail(error, IOBIND_ERROR_NOT_FOUND,
                            "session_create: dim '%s': no input of the model has an open dim of that name", name);
    }
  }
  iobind__model_close(&model);
  return status;
}
