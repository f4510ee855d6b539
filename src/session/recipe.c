#include "session/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "session/protobuf.h"

struct iobind__recipe {
  iobind_session_options options; /* its lists are these: */
  char **keys;
  char **values;
  char **dim_names;
  int64_t *dim_values;
  void *model; /* NULL: in a file */
  size_t bytes;
};

/* ---- copied ---- */

/* With room for one more. */
static char **copy_texts(const char *const *from, size_t count) {
  char **made = calloc(count + 1, sizeof *made);
  for (size_t i = 0; made != NULL && i < count; i++) {
    made[i] = iobind__string_copy(from[i]);
    if (made[i] == NULL) {
      while (i > 0) {
        free(made[--i]);
      }
      free(made);
      made = NULL;
    }
  }
  return made;
}

static void free_texts(char **texts, size_t count) {
  for (size_t i = 0; texts != NULL && i < count; i++) {
    free(texts[i]);
  }
  free(texts);
}

static void *copy_bytes(const void *from, size_t bytes) {
  void *made = malloc(bytes + 1); /* not NULL for none */
  if (made != NULL && bytes > 0) {
    memcpy(made, from, bytes);
  }
  return made;
}

static void drop_entry(iobind__recipe *self, const char *key) {
  size_t kept = 0;
  for (size_t i = 0; i < self->options.config_count; i++) {
    if (strcmp(self->keys[i], key) == 0) {
      free(self->keys[i]);
      free(self->values[i]);
    } else {
      self->keys[kept] = self->keys[i];
      self->values[kept++] = self->values[i];
    }
  }
  self->options.config_count = kept;
}

/* There is room for one more. */
static bool add_entry(iobind__recipe *self, const char *key, const char *value) {
  const size_t last = self->options.config_count++;
  self->keys[last] = iobind__string_copy(key);
  self->values[last] = iobind__string_copy(value);
  return self->keys[last] != NULL && self->values[last] != NULL;
}

/* ORT refuses STRICT's entry for a session that runs on the CPU alone. Weights that are packed for its kernels would be a copy; without, those in
 * files of external data stay where ORT maps them. */
static bool change_entries(iobind__recipe *self) {
  static const char packing[] = "session.disable_prepacking";
  drop_entry(self, "session.disable_cpu_ep_fallback");
  drop_entry(self, packing);
  return add_entry(self, packing, "1");
}

static bool copy_lists(iobind__recipe *self, const iobind_session_options *from) {
  self->keys = copy_texts(from->config_keys, from->config_count);
  self->values = copy_texts(from->config_values, from->config_count);
  self->dim_names = copy_texts(from->dim_names, from->dim_count);
  self->dim_values = copy_bytes(from->dim_values, from->dim_count * sizeof *from->dim_values);
  self->options.config_keys = (const char *const *)self->keys;
  self->options.config_values = (const char *const *)self->values;
  self->options.config_count = from->config_count;
  self->options.dim_names = (const char *const *)self->dim_names;
  self->options.dim_values = self->dim_values;
  self->options.dim_count = from->dim_count;
  const bool whole = self->keys != NULL && self->values != NULL && self->dim_names != NULL && self->dim_values != NULL;
  return whole && change_entries(self);
}

/* What the model's results depend on stays; what is about devices goes. */
static bool copy(iobind__recipe *self, const iobind__source *from, const iobind_session_options *options) {
  self->options = (iobind_session_options)IOBIND_SESSION_OPTIONS_INIT;
  self->options.flags = options->flags & IOBIND_SESSION_NO_MEMORY_REUSE;
  self->options.optimization = options->optimization;
  self->options.intra_op_threads = options->intra_op_threads;
  self->options.inter_op_threads = options->inter_op_threads;
  self->bytes = from->bytes;
  self->model = from->path != NULL ? NULL : copy_bytes(from->model, from->bytes);
  return copy_lists(self, options) && (from->path != NULL || self->model != NULL);
}

iobind_status iobind__recipe_create(const iobind__source *from, const iobind_session_options *options, iobind__recipe **out,
                                    iobind_error *error) {
  iobind__recipe *self = calloc(1, sizeof *self);
  if (self == NULL || !copy(self, from, options)) {
    iobind__recipe_destroy(self);
    return iobind__out_of_memory(error, "session_create");
  }
  *out = self;
  return IOBIND_OK;
}

void iobind__recipe_destroy(iobind__recipe *self) {
  if (self != NULL) {
    free_texts(self->keys, self->options.config_count);
    free_texts(self->values, self->options.config_count);
    free_texts(self->dim_names, self->options.dim_count);
    free(self->dim_values);
    free(self->model);
    free(self);
  }
}

/* ---- loaded ---- */

static iobind_status read_kinds(const iobind__source *from, const iobind_session *of, iobind__kind **out, iobind_error *error) {
  iobind__model_bytes model;
  IOBIND__TRY(iobind__model_open(&model, from, error));
  iobind_status status = iobind__kinds_read(&model, of, out, error);
  iobind__model_close(&model);
  return status;
}

static iobind_status load(const iobind__recipe *self, const iobind__source *from, const iobind_session *of, iobind__served *out,
                          iobind_error *error) {
  IOBIND__TRY(read_kinds(from, of, &out->kinds, error));
  return iobind__session_load(of->runtime, from, &self->options, &out->session, error);
}

/* Not by a path that the caller gave: the directory that it begins in may be another one now. */
static iobind_status load_file(const iobind__recipe *self, const iobind_session *of, iobind__served *out, iobind_error *error) {
  const char *path = iobind__model_path(of->model);
  IOBIND__TRY(iobind__model_check(of->model, error));
  const iobind__source from = {path, iobind__path_native(path), NULL, 0};
  iobind_status status =
      from.native == NULL ? iobind__out_of_memory(error, "session_create") : load(self, &from, of, out, error);
  free(from.native);
  return status == IOBIND_OK ? iobind__model_check(of->model, error) : status; /* what was read is what was checked */
}

iobind_status iobind__recipe_load(const iobind__recipe *self, const iobind_session *of, iobind__served *out,
                                  iobind_error *error) {
  const iobind__source from = {NULL, NULL, self->model, self->bytes};
  iobind__served made = {NULL, NULL};
  iobind_status status = self->model == NULL ? load_file(self, of, &made, error) : load(self, &from, of, &made, error);
  if (status != IOBIND_OK) {
    iobind_session_destroy(made.session);
    free(made.kinds);
    return status;
  }
  *out = made;
  return IOBIND_OK;
}
