#include "state/mover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/gather.h"

/* ---- open and close ---- */

iobind_status iobind__mover_open(iobind__mover *self, iobind_binding *binding, const char *what, iobind_error *error) {
  IOBIND__TRY(iobind__binding_check_idle(binding, what, error));
  size_t count = iobind__binding_count_carries(binding);
  if (count == 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: the binding carries nothing: carry an output to an input first",
                        what);
  }
  *self = (iobind__mover){.binding = binding,
                          .what = what,
                          .count = count,
                          .axes = calloc(count, sizeof *self->axes),
                          .from = calloc(2 * count, sizeof *self->from)};
  if (self->axes == NULL || self->from == NULL) {
    iobind__mover_close(self);
    return iobind__out_of_memory(error, what);
  }
  self->to = self->from + count;
  return IOBIND_OK;
}

void iobind__mover_close(iobind__mover *self) {
  iobind__tensors_release(self->to, self->count);
  free(self->axes);
  free(self->from);
}

iobind_status iobind__mover_peek(iobind__mover *self, iobind_error *error) {
  for (size_t i = 0; i < self->count; i++) {
    IOBIND__TRY(iobind__binding_peek_state(self->binding, i, self->what, &self->from[i], error));
  }
  return IOBIND_OK;
}

/* ---- the number of rows ---- */

const char *iobind__mover_name(const iobind__mover *self, size_t index) {
  const iobind_session *session = iobind__binding_session(self->binding);
  return session->inputs[iobind__binding_view_carry(self->binding, index).input].label;
}

static iobind_status check_extent(const iobind__mover *self, size_t index, int64_t *extent, iobind_error *error) {
  const iobind_tensor *state = self->from[index];
  size_t axis = self->axes[index];
  const char *name = iobind__mover_name(self, index);
  if (axis >= state->rank) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: '%s': expected a state with an axis %zu, its rank is %zu", self->what,
                        name, axis, state->rank);
  }
  if (*extent >= 0 && state->dims[axis] != *extent) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: '%s' has %lld rows on axis %zu, another state has %lld", self->what,
                        name, (long long)state->dims[axis], axis, (long long)*extent);
  }
  *extent = state->dims[axis];
  return IOBIND_OK;
}

iobind_status iobind__mover_measure(const iobind__mover *self, int64_t *extent, iobind_error *error) {
  *extent = -1;
  for (size_t i = 0; i < self->count; i++) {
    IOBIND__TRY(check_extent(self, i, extent, error));
  }
  return IOBIND_OK;
}

/* ---- the session of the generated model ---- */

static iobind_status load(const iobind__mover *self, const iobind__gathered *tensors, iobind_session **out,
                          iobind_error *error) {
  iobind_device *device = self->from[0]->place->device;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind__bytes model = {0};
  iobind__gather_write(tensors, self->count, &model);
  options.devices = &device;
  options.device_count = device->runtime->cpu == device ? 0 : 1;
  iobind_status status =
      model.failed
          ? iobind__out_of_memory(error, self->what)
          : iobind__renamed(iobind_session_create_from_memory(device->runtime, model.data, model.length, &options, out, error),
                            error, self->what);
  free(model.data);
  return status;
}

/* The companion session with this key; NULL: there is none. */
static iobind_session *find_companion(iobind_session *session, const char *key) {
  iobind_session *found = NULL;
  pthread_mutex_lock(&session->places_mutex);
  for (iobind__companion *one = session->companions; one != NULL && found == NULL; one = one->next) {
    found = strcmp(one->key, key) == 0 ? one->session : NULL;
  }
  pthread_mutex_unlock(&session->places_mutex);
  return found;
}

static void add_companion(iobind_session *session, iobind__companion *made) {
  pthread_mutex_lock(&session->places_mutex);
  made->next = session->companions;
  session->companions = made;
  pthread_mutex_unlock(&session->places_mutex);
}

/* The model is loaded without the lock, because that enters the EP. If two threads load the same model, both sessions are
 * kept. */
static iobind_status find_session(const iobind__mover *self, const char *key, const iobind__gathered *tensors,
                                  iobind_session **out, iobind_error *error) {
  iobind_session *session = iobind__binding_session(self->binding);
  *out = find_companion(session, key);
  if (*out != NULL) {
    return IOBIND_OK;
  }
  iobind__companion *made = calloc(1, sizeof *made + strlen(key) + 1);
  if (made == NULL) {
    return iobind__out_of_memory(error, self->what);
  }
  iobind_status status = load(self, tensors, &made->session, error);
  if (status != IOBIND_OK) {
    free(made);
    return status;
  }
  memcpy(made->key, key, strlen(key) + 1);
  *out = made->session;
  add_companion(session, made);
  return IOBIND_OK;
}

/* The returned session is valid as long as the binding's. */
static iobind_status open_session(const iobind__mover *self, iobind_session **out, iobind_error *error) {
  iobind__text key = {0};
  iobind__gathered *tensors = calloc(self->count, sizeof *tensors);
  iobind__text_add(&key, "rows on '%s':", self->from[0]->place->device->spec);
  for (size_t i = 0; tensors != NULL && i < self->count; i++) {
    tensors[i] = (iobind__gathered){self->from[i]->dtype, self->from[i]->rank, self->axes[i]};
    iobind__text_add(&key, " %d/%zu/%zu", (int)tensors[i].dtype, tensors[i].rank, tensors[i].axis);
  }
  iobind_status status = tensors == NULL || key.failed ? iobind__out_of_memory(error, self->what)
                                                       : find_session(self, key.data, tensors, out, error);
  iobind__text_free(&key);
  free(tensors);
  return status;
}

/* ---- move ---- */

static iobind_status bind_rows(iobind_binding *mover, const iobind__mover *self, const iobind__rows *by, iobind_error *error) {
  const int64_t dim = (int64_t)by->count;
  iobind_tensor *rows;
  const iobind_buffer buffer = {.struct_size = sizeof buffer,
                                .dtype = IOBIND_DTYPE_INT64,
                                .dims = &dim,
                                .rank = 1,
                                .data = (void *)(uintptr_t)by->rows,
                                .bytes = by->count * sizeof by->rows[0]};
  IOBIND__TRY(iobind_tensor_wrap(self->from[0]->place->device->runtime->cpu, &buffer, &rows, error));
  iobind_status status = iobind_binding_set_input(mover, self->count, IOBIND_INPUT_SNAPSHOT, rows, NULL, error);
  iobind_tensor_release(rows);
  return status;
}

static iobind_status bind_states(iobind_binding *mover, const iobind__mover *self, iobind_error *error) {
  const iobind_session *session = iobind__binding_session(mover);
  for (size_t i = 0; i < self->count; i++) {
    bool at_home = iobind__session_reads(session, &session->inputs[i], self->from[i]);
    IOBIND__TRY(iobind_binding_set_input(mover, i, at_home ? IOBIND_INPUT_RESIDENT : IOBIND_INPUT_SNAPSHOT, self->from[i], NULL,
                                         error));
  }
  return IOBIND_OK;
}

/* Take a result, in memory that the binding's session reads. */
static iobind_status take_moved(iobind_binding *mover, const iobind__mover *self, size_t index, iobind_error *error) {
  iobind_session *session = iobind__binding_session(self->binding);
  size_t input = iobind__binding_view_carry(self->binding, index).input;
  iobind_tensor *made;
  IOBIND__TRY(iobind_binding_take_output(mover, index, &made, error));
  if (iobind__session_reads(session, &session->inputs[input], made)) {
    self->to[index] = made;
    return IOBIND_OK;
  }
  iobind_status status = iobind__input_copy(session, input, made, NULL, &self->to[index], error);
  iobind_tensor_release(made);
  return status;
}

static iobind_status run_mover(iobind_binding *mover, const iobind__mover *self, const iobind__rows *by, iobind_error *error) {
  IOBIND__TRY(bind_states(mover, self, error));
  IOBIND__TRY(bind_rows(mover, self, by, error));
  IOBIND__TRY(iobind_binding_run(mover, NULL, error));
  for (size_t i = 0; i < self->count; i++) {
    IOBIND__TRY(take_moved(mover, self, i, error));
  }
  return IOBIND_OK;
}

iobind_status iobind__mover_move(const iobind__mover *self, const iobind__rows *rows, size_t marks, iobind_error *error) {
  iobind__states moved = {.tensors = self->to};
  iobind_session *session;
  iobind_binding *mover;
  IOBIND__TRY(open_session(self, &session, error));
  IOBIND__TRY(iobind__renamed(iobind_binding_create(session, &mover, error), error, self->what));
  iobind_status status = iobind__renamed(run_mover(mover, self, rows, error), error, self->what);
  iobind_binding_destroy(mover);
  IOBIND__TRY(status);
  return iobind__renamed(iobind__binding_restore(self->binding, &moved, marks, error), error, self->what);
}
