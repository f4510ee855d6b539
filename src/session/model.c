#include "session/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "session/protobuf.h"
#include "support/system.h"

/* Of files with external data, beside the model's: each in the order in which it is first named. */
typedef struct names {
  char **items;
  size_t count;
  bool failed; /* out of memory */
} names;

struct iobind__model {
  char *path; /* NULL: it was in memory, and its identity is known */
  iobind__file_stamp stamp;
  int64_t noted;              /* when, in nanoseconds since 1970 */
  names watched;              /* files with external data that must stay what they are */
  iobind__file_stamp *stamps; /* theirs */
  pthread_mutex_t mutex;
  bool is_identified;
  bool has_data; /* in memory, and names files of external data: only ORT knows which */
  iobind__identity identity;
  iobind__kind *kinds; /* of the session's outputs; NULL: not read */
};

/* ---- the file ---- */

static void free_names(names *self) {
  for (size_t i = 0; i < self->count; i++) {
    free(self->items[i]);
  }
  free(self->items);
}

void iobind__model_forget(iobind__model *self) {
  if (self != NULL) {
    pthread_mutex_destroy(&self->mutex);
    free_names(&self->watched);
    free(self->stamps);
    free(self->path);
    free(self->kinds);
    free(self);
  }
}

static bool is_same(const iobind__file_stamp *a, const iobind__file_stamp *b) {
  return a->bytes == b->bytes && a->number == b->number && a->written == b->written;
}

static iobind_status refuse_changed(const char *path, iobind_error *error) {
  char shown[IOBIND__NAME_TEXT];
  iobind__text_shorten(path, shown);
  return iobind__fail(error, IOBIND_ERROR_IO,
                      "'%s' has changed since the session was created: it is not the session's model any more", shown);
}

static iobind_status refuse_unread(const char *path, iobind_error *error) {
  char shown[IOBIND__NAME_TEXT];
  iobind__text_shorten(path, shown);
  return iobind__fail(error, IOBIND_ERROR_IO, "'%s', a file of the session's model, cannot be read", shown);
}

static iobind_status hash_file(const char *path, iobind__hasher *hasher, iobind_error *error) {
  enum { PART = 1 << 20 };
  FILE *file = iobind__file_open(path);
  unsigned char *part = malloc(PART);
  size_t got = PART;
  while (file != NULL && part != NULL && got == PART) {
    got = fread(part, 1, PART, file);
    iobind__hash_add(hasher, part, got);
  }
  iobind_status status = part == NULL ? iobind__out_of_memory(error, "the model's files") : IOBIND_OK;
  if (status == IOBIND_OK && (file == NULL || ferror(file) != 0)) {
    status = refuse_unread(path, error);
  }
  free(part);
  if (file != NULL) {
    fclose(file);
  }
  return status;
}

/* ---- external data ---- */

static void add_name(names *self, const char *name) {
  for (size_t i = 0; i < self->count; i++) {
    if (strcmp(self->items[i], name) == 0) {
      return;
    }
  }
  char **longer = realloc(self->items, (self->count + 1) * sizeof *longer);
  char *copy = iobind__string_copy(name);
  self->failed = self->failed || longer == NULL || copy == NULL;
  self->items = longer == NULL ? self->items : longer;
  if (self->failed) {
    free(copy);
    return;
  }
  self->items[self->count++] = copy;
}

/* An entry of a tensor's external data: a key and its value. */
static void read_entry(iobind__model_bytes *model, const iobind__field *entry, names *found) {
  enum { KEY = 1, VALUE = 2 };
  char key[16] = "";
  char value[4096] = "";
  uint64_t offset = entry->offset;
  iobind__field field;
  while (iobind__model_next(model, &offset, entry->offset + entry->length, &field)) {
    if (field.number == KEY) {
      (void)iobind__model_text(model, &field, key, sizeof key);
    } else if (field.number == VALUE) {
      (void)iobind__model_text(model, &field, value, sizeof value);
    }
  }
  if (strcmp(key, "location") == 0) {
    add_name(found, value);
  }
}

/* The messages that can hold a tensor, and which of their fields lead to it. */
typedef enum message { MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, SPARSE, FUNCTION, NOTHING } message;

static message inside(message of, uint64_t number) {
  static const struct {
    message of;
    uint64_t number;
    message is;
  } ways[] = {{MODEL, 7, GRAPH},     {MODEL, 25, FUNCTION},   {GRAPH, 1, NODE},       {GRAPH, 5, TENSOR},
              {GRAPH, 15, SPARSE},   {FUNCTION, 7, NODE},     {NODE, 5, ATTRIBUTE},   {ATTRIBUTE, 5, TENSOR},
              {ATTRIBUTE, 6, GRAPH}, {ATTRIBUTE, 10, TENSOR}, {ATTRIBUTE, 11, GRAPH}, {SPARSE, 1, TENSOR},
              {SPARSE, 2, TENSOR}};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (ways[i].of == of && ways[i].number == number) {
      return ways[i].is;
    }
  }
  return NOTHING;
}

static void find_names(iobind__model_bytes *model, uint64_t offset, uint64_t end, message of, int depth, names *found) {
  enum { EXTERNAL_DATA = 13, DEEPEST = 64 };
  iobind__field field;
  while (depth < DEEPEST && iobind__model_next(model, &offset, end, &field)) {
    message is = field.is_message ? inside(of, field.number) : NOTHING;
    if (of == TENSOR && field.number == EXTERNAL_DATA && field.is_message) {
      read_entry(model, &field, found);
    } else if (is != NOTHING) {
      find_names(model, field.offset, field.offset + field.length, is, depth + 1, found);
    }
  }
}

/* The path of a file beside the model; the caller frees it. NULL: out of memory. */
static char *beside(const iobind__model *self, const char *name) {
  iobind__text path = {0};
  int directory = (int)(iobind__path_name(self->path) - self->path);
  iobind__text_add(&path, "%.*s%s", directory, self->path, name);
  if (path.failed) {
    iobind__text_free(&path);
  }
  return path.data;
}

/* The names of a model's files; the caller frees them. */
static iobind_status list_data(iobind__model_bytes *model, names *found, iobind_error *error) {
  if (!iobind__model_is_ort_format(model)) { /* which has no external data */
    find_names(model, 0, model->size, MODEL, 0, found);
  }
  return found->failed ? iobind__out_of_memory(error, "the model's files") : IOBIND_OK;
}

static iobind_status hash_data(const iobind__model *self, const names *found, iobind__identity *identity, iobind_error *error) {
  iobind__hasher hasher;
  iobind__hash_begin(&hasher);
  for (size_t i = 0; i < found->count; i++) {
    char *path = beside(self, found->items[i]);
    iobind__file_stamp stamp;
    iobind_status status = path == NULL ? iobind__out_of_memory(error, "the model's files") : hash_file(path, &hasher, error);
    if (status == IOBIND_OK && (!iobind__file_stamp_get(path, &stamp) || stamp.changed > self->noted)) {
      status = refuse_changed(path, error);
    }
    free(path);
    IOBIND__TRY(status);
  }
  identity->data_bytes = hasher.bytes;
  identity->data_hash = iobind__hash_end(&hasher);
  return IOBIND_OK;
}

static iobind_status list_data_of_file(const iobind__model *self, names *found, iobind_error *error) {
  iobind__model_bytes model;
  if (iobind__model_open(&model, &(iobind__source){.path = self->path}, NULL) != IOBIND_OK) {
    return refuse_unread(self->path, error);
  }
  iobind_status status = list_data(&model, found, error);
  iobind__model_close(&model);
  return status;
}

static iobind_status identify_data(const iobind__model *self, iobind__identity *identity, iobind_error *error) {
  names found = {0};
  iobind_status status = list_data_of_file(self, &found, error);
  if (status == IOBIND_OK && found.count > 0) { /* without any it is as a model in memory */
    status = hash_data(self, &found, identity, error);
  }
  free_names(&found);
  return status;
}

/* ---- watched: what was there is still there ---- */

/* ORT says what cannot be read: such a file has the stamp of none. */
static iobind_status stamp_data(const iobind__model *self, size_t index, iobind__file_stamp *stamp, iobind_error *error) {
  static const iobind__file_stamp none = {0};
  char *path = beside(self, self->watched.items[index]);
  if (path == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  if (!iobind__file_stamp_get(path, stamp)) {
    *stamp = none;
  }
  free(path);
  return IOBIND_OK;
}

iobind_status iobind__model_watch(iobind__model *self, iobind_error *error) {
  IOBIND__TRY(list_data_of_file(self, &self->watched, error));
  self->stamps = calloc(self->watched.count + 1, sizeof *self->stamps);
  if (self->stamps == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  for (size_t i = 0; i < self->watched.count; i++) {
    IOBIND__TRY(stamp_data(self, i, &self->stamps[i], error));
  }
  return IOBIND_OK;
}

/* Who has written new content and set the old time leaves only the time of the last change, and so does another name. */
static iobind_status refuse_touched(const char *path, iobind_error *error) {
  char shown[IOBIND__NAME_TEXT];
  iobind__text_shorten(path, shown);
  return iobind__fail(
      error, IOBIND_ERROR_IO,
      "'%s' was changed, renamed, linked or given other rights since the session was created: it may not be the "
      "session's model any more",
      shown);
}

static iobind_status compare(const iobind__file_stamp *now, const iobind__file_stamp *then, const char *path,
                             iobind_error *error) {
  if (!is_same(now, then)) {
    return refuse_changed(path, error);
  }
  return now->changed == then->changed ? IOBIND_OK : refuse_touched(path, error);
}

iobind_status iobind__model_check_data(const iobind__model *self, iobind_error *error) {
  iobind__file_stamp now;
  for (size_t i = 0; self != NULL && i < self->watched.count; i++) {
    IOBIND__TRY(stamp_data(self, i, &now, error));
    IOBIND__TRY(compare(&now, &self->stamps[i], self->watched.items[i], error));
  }
  return IOBIND_OK;
}

iobind_status iobind__model_check(const iobind__model *self, iobind_error *error) {
  iobind__file_stamp now;
  if (!iobind__file_stamp_get(self->path, &now)) {
    return refuse_unread(self->path, error);
  }
  IOBIND__TRY(compare(&now, &self->stamp, self->path, error));
  return iobind__model_check_data(self, error);
}

const char *iobind__model_path(const iobind__model *self) {
  return self == NULL ? NULL : self->path;
}

/* ---- both ---- */

static iobind_status identify(const iobind__model *self, iobind__identity *identity, iobind_error *error) {
  iobind__hasher hasher;
  iobind__file_stamp now;
  iobind__hash_begin(&hasher);
  IOBIND__TRY(hash_file(self->path, &hasher, error));
  identity->bytes = hasher.bytes;
  identity->hash = iobind__hash_end(&hasher);
  IOBIND__TRY(identify_data(self, identity, error));
  bool stays = iobind__file_stamp_get(self->path, &now) && is_same(&now, &self->stamp);
  return stays ? IOBIND_OK : refuse_changed(self->path, error);
}

static iobind_status note_file(iobind__model *self, const char *path, iobind_error *error) {
  self->noted = iobind__clock_of_day();
  self->path = iobind__path_absolute(path);
  if (self->path == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  return iobind__file_stamp_get(self->path, &self->stamp)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_IO, "session_create: '%s' cannot be read", path);
}

iobind_status iobind__source_has_data(const iobind__source *from, bool *has, iobind_error *error) {
  iobind__model_bytes model;
  names found = {0};
  IOBIND__TRY(iobind__model_open(&model, from, error));
  iobind_status status = list_data(&model, &found, error);
  iobind__model_close(&model);
  *has = found.count > 0;
  free_names(&found);
  return status;
}

static iobind_status note_bytes(iobind__model *self, const iobind__source *from, iobind_error *error) {
  self->identity.bytes = from->bytes;
  self->identity.hash = iobind__hash_of(from->model, from->bytes);
  self->is_identified = true;
  return iobind__source_has_data(from, &self->has_data, error);
}

iobind_status iobind__model_note(const iobind__source *from, iobind__model **out, iobind_error *error) {
  iobind__model *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  pthread_mutex_init(&self->mutex, NULL);
  iobind_status status = from->path != NULL ? note_file(self, from->path, error) : note_bytes(self, from, error);
  if (status != IOBIND_OK) {
    iobind__model_forget(self);
    return status;
  }
  *out = self;
  return IOBIND_OK;
}

iobind_status iobind__model_identify(iobind__model *self, iobind__identity *identity, iobind_error *error) {
  if (self->has_data) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "the session's model was in memory and has external data, which iobind cannot identify: create the "
                        "session from a file");
  }
  pthread_mutex_lock(&self->mutex);
  iobind__identity found = {0};
  iobind_status status = self->is_identified ? IOBIND_OK : identify(self, &found, error);
  if (status == IOBIND_OK && !self->is_identified) {
    self->identity = found;
    self->is_identified = true;
  }
  *identity = self->identity;
  pthread_mutex_unlock(&self->mutex);
  return status;
}

/* ---- the kinds of states ---- */

static iobind_status read_kinds(const iobind__model *self, const iobind_session *session, iobind__kind **kinds,
                                iobind_error *error) {
  iobind__model_bytes model;
  iobind__file_stamp now;
  if (iobind__model_open(&model, &(iobind__source){.path = self->path}, NULL) != IOBIND_OK) {
    return refuse_unread(self->path, error);
  }
  iobind_status status = iobind__kinds_read(&model, session, kinds, error);
  iobind__model_close(&model);
  IOBIND__TRY(status);
  if (!iobind__file_stamp_get(self->path, &now) || !is_same(&now, &self->stamp)) {
    free(*kinds);
    return refuse_changed(self->path, error);
  }
  return IOBIND_OK;
}

iobind_status iobind__model_find_kinds(iobind__model *self, const iobind_session *session, const iobind__kind **kinds,
                                       iobind_error *error) {
  iobind__kind *found = NULL;
  pthread_mutex_lock(&self->mutex);
  iobind_status status = self->kinds == NULL && self->path != NULL ? read_kinds(self, session, &found, error) : IOBIND_OK;
  if (status == IOBIND_OK && found != NULL) {
    self->kinds = found;
  }
  *kinds = self->kinds;
  pthread_mutex_unlock(&self->mutex);
  return status;
}

iobind_status iobind__model_note_kinds(iobind__model *self, const iobind__source *from, const iobind_session *session,
                                       iobind_error *error) {
  iobind__model_bytes model;
  IOBIND__TRY(iobind__model_open(&model, from, error));
  return iobind__kinds_read(&model, session, &self->kinds, error);
}
