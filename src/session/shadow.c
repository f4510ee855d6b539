/* What verifies a session: the options say how, and the same model on the CPU says what is right. */
#include "session/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "session/recipe.h"
#include "support/system.h"

/* ---- which runs ---- */

void iobind__verify_counts_open(iobind__verify_counts *self, uint32_t runs) {
  pthread_mutex_init(&self->mutex, NULL);
  self->runs = runs;
  self->count = 0;
}

void iobind__verify_counts_close(iobind__verify_counts *self) {
  pthread_mutex_destroy(&self->mutex);
}

/* NULL: no room for one more. */
static uint32_t *left_of(iobind__verify_counts *self, const iobind__hash *dims) {
  for (size_t i = 0; i < self->count; i++) {
    if (memcmp(&self->sets[i].dims, dims, sizeof *dims) == 0) {
      return &self->sets[i].left;
    }
  }
  if (self->count == IOBIND__DIMS_SETS) {
    return NULL;
  }
  self->sets[self->count].dims = *dims;
  self->sets[self->count].left = self->runs;
  return &self->sets[self->count++].left;
}

bool iobind__verify_counts_is_due(iobind__verify_counts *self, const iobind__hash *dims) {
  pthread_mutex_lock(&self->mutex);
  const uint32_t *left = left_of(self, dims);
  const bool is_due = left != NULL && *left > 0;
  pthread_mutex_unlock(&self->mutex);
  return is_due;
}

bool iobind__verify_counts_note(iobind__verify_counts *self, const iobind__hash *dims) {
  pthread_mutex_lock(&self->mutex);
  uint32_t *left = left_of(self, dims);
  if (left != NULL && *left > 0) {
    --*left;
  }
  const bool is_due = left != NULL && *left > 0;
  pthread_mutex_unlock(&self->mutex);
  return is_due;
}

iobind_tolerance iobind__shadow_tolerance(const iobind__shadow *self, iobind_dtype dtype) {
  const iobind_verify *verify = &self->verify;
  const bool by_type = verify->absolute == 0 && verify->relative == 0;
  return by_type ? iobind__tolerance_of(dtype) : (iobind_tolerance){verify->absolute, verify->relative};
}

/* ---- the options ---- */

iobind_status iobind__verify_check(const iobind_verify *verify, iobind_error *error) {
  const iobind_tolerance tolerance = {verify->absolute, verify->relative};
  if (verify->reserved != 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "session_create: verify: reserved is not 0");
  }
  return iobind__tolerance_check(&tolerance, "session_create: verify", error);
}

static iobind_status read_runs(const char *text, uint32_t *runs, iobind_error *error) {
  enum { MOST = 1000000 };
  uint32_t number = 0;
  bool is_number = text[0] != 0;
  for (const char *at = text; *at != 0 && is_number; at++) {
    is_number = *at >= '0' && *at <= '9' && number <= MOST;
    number = number * 10 + (uint32_t)(*at - '0');
  }
  if (!is_number || number > MOST) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: IOBIND_VERIFY: expected a number of runs, 0 .. %d, got '%.40s'", MOST, text);
  }
  *runs = number;
  return IOBIND_OK;
}

iobind_status iobind__verify_by_environment(iobind_verify *verify, iobind_error *error) {
  char *text = NULL;
  if (verify->runs != 0) {
    return IOBIND_OK;
  }
  if (!iobind__environment_get("IOBIND_VERIFY", &text)) {
    return iobind__out_of_memory(error, "session_create");
  }
  iobind_status status = text == NULL ? IOBIND_OK : read_runs(text, &verify->runs, error);
  free(text);
  return status;
}

/* ---- the session ---- */

static bool has_device(const iobind_session *session) {
  bool has = false;
  for (size_t i = 0; i < session->device_count; i++) {
    has = has || session->devices[i] != session->runtime->cpu;
  }
  return has;
}

/* The reason is ORT's or the system's; what it is about, and what to do, comes first. */
static iobind_status refuse(const iobind_session *session, const char *what, const iobind_error *reason, iobind_error *error) {
  char name[IOBIND__NAME_TEXT];
  const char *path = iobind__model_path(session->model);
  const char *given = path != NULL ? iobind__path_name(path) : iobind__session_name(session);
  iobind__text_shorten(given == NULL ? "" : given, name);
  iobind__error_set(error, reason->status, reason->ort_code,
                    "%s: verify: the session of '%s' cannot load its model for the CPU: create the session again, or without "
                    "`verify`: %s",
                    what, name, iobind__error_text(reason));
  return reason->status;
}

static iobind_status load(iobind_session *session, const char *what, iobind_error *error) {
  iobind__shadow *self = session->shadow;
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__served loaded;
  if (iobind__recipe_load(self->recipe, session, &loaded, &reason) != IOBIND_OK) {
    return refuse(session, what, &reason, error);
  }
  self->session = loaded.session;
  self->kinds = loaded.kinds;
  iobind__recipe_destroy(self->recipe);
  self->recipe = NULL;
  return IOBIND_OK;
}

iobind_status iobind__shadow_load(iobind_session *session, const char *what, iobind_error *error) {
  iobind__shadow *self = session->shadow;
  pthread_mutex_lock(&self->mutex);
  iobind_status status = self->session != NULL ? iobind__named(iobind__model_check_data(session->model, error), error, what)
                                               : load(session, what, error);
  pthread_mutex_unlock(&self->mutex);
  return status;
}

/* The files of a model in memory are in a directory that only ORT knows: iobind could not tell whether they are the same later. */
static iobind_status load_early(iobind_session *session, const iobind__source *from, iobind_error *error) {
  bool has_data = false;
  if (from->path == NULL) {
    IOBIND__TRY(iobind__source_has_data(from, &has_data, error));
  }
  return has_data ? iobind__shadow_load(session, "session_create", error) : IOBIND_OK;
}

iobind_status iobind__shadow_open(iobind_session *session, const iobind__source *from, const iobind_session_options *options,
                                  iobind_error *error) {
  if (options->verify.runs == 0 || !has_device(session)) {
    return IOBIND_OK;
  }
  iobind__shadow *self = calloc(1, sizeof *self + session->output_count * sizeof self->is_random[0]);
  if (self == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  self->verify = options->verify;
  for (size_t i = 0; i < session->output_count; i++) {
    atomic_init(&self->is_random[i], false);
  }
  pthread_mutex_init(&self->mutex, NULL);
  iobind__verify_counts_open(&self->requests, self->verify.runs);
  session->shadow = self;
  IOBIND__TRY(iobind__recipe_create(from, options, &self->recipe, error));
  return load_early(session, from, error);
}

void iobind__shadow_close(iobind__shadow *self) {
  if (self != NULL) {
    iobind_session_destroy(self->session);
    free(self->kinds);
    iobind__recipe_destroy(self->recipe);
    iobind__verify_counts_close(&self->requests);
    pthread_mutex_destroy(&self->mutex);
    free(self);
  }
}
