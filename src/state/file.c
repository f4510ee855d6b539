/* Saves a state to a file, and loads it. The file has a header, with the model's identity and a record of each tensor, and then
 * each tensor's bytes with their hash. All numbers are little-endian. Sizes are checked before memory is allocated for them,
 * and hashes before a state is returned. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "state/state.h"
#include "support/bytes.h"
#include "support/system.h"

/* The file begins with this mark and the number of the format, which changes with the layout. */
static const char file_mark[8] = {'i', 'o', 'b', 's', 't', 'a', 't', 'e'};
enum {
  FORMAT = 4,              /* 1 had only whole tensors, 2 one length for all rows of a batch, 3 not what computed the state */
  ALIGNMENT = 64,          /* of each tensor in the file */
  HEADER_BYTES_AT = 8 + 4, /* after mark and format */
  FILE_BYTES_AT = HEADER_BYTES_AT + 4,
  START = FILE_BYTES_AT + 8,
  LONGEST_HEADER = 64 << 20, /* a file with a longer one is damaged */
  HASH = 16
};

static size_t round_up(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- numbers and texts of a header ---- */

static void store_number(unsigned char *to, uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    to[i] = (unsigned char)(number >> (8 * i));
  }
}

static void put_number(iobind__bytes *self, uint64_t number, size_t bytes) {
  unsigned char digits[8];
  store_number(digits, number, bytes);
  iobind__bytes_put(self, digits, bytes);
}

static void put_hash(iobind__bytes *self, iobind__hash hash) {
  put_number(self, hash.words[0], 8);
  put_number(self, hash.words[1], 8);
}

/* The length, and the text with its terminating 0. */
static void put_text(iobind__bytes *self, const char *text) {
  put_number(self, strlen(text) + 1, 4);
  iobind__bytes_put(self, text, strlen(text) + 1);
}

/* A reader of bytes in memory. */
typedef struct cursor {
  const unsigned char *data;
  size_t length;
  size_t at;
  bool failed; /* there were not enough bytes */
} cursor;

static uint64_t get_number(cursor *self, size_t bytes) {
  uint64_t number = 0;
  self->failed = self->failed || bytes > self->length - self->at;
  for (size_t i = 0; !self->failed && i < bytes; i++) {
    number |= (uint64_t)self->data[self->at + i] << (8 * i);
  }
  self->at += self->failed ? 0 : bytes;
  return number;
}

static iobind__hash get_hash(cursor *self) {
  iobind__hash hash;
  hash.words[0] = get_number(self, 8);
  hash.words[1] = get_number(self, 8);
  return hash;
}

/* Valid as long as the header. NULL: failed. */
static const char *get_text(cursor *self) {
  size_t length = (size_t)get_number(self, 4);
  const char *text = (const char *)self->data + self->at;
  self->failed = self->failed || length == 0 || length > self->length - self->at || text[length - 1] != '\0';
  self->at += self->failed ? 0 : length;
  return self->failed ? NULL : text;
}

static bool are_equal(iobind__hash a, iobind__hash b) {
  return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

/* ---- the model ---- */

static iobind_status identify(const iobind_session *session, const char *what, iobind__identity *identity,
                              iobind_error *error) {
  if (session->model == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: the session's model is not known: create the session from a file, or with IOBIND_SESSION_IDENTIFY",
                        what);
  }
  return iobind__named(iobind__model_identify(session->model, identity, error), error, what);
}

/* ---- write ---- */

/* The bytes of a tensor in host memory. *copy: NULL, or a copy that the caller frees. */
static iobind_status fetch(iobind_tensor *tensor, const void **data, void **copy, iobind_error *error) {
  *copy = NULL;
  *data = tensor->data;
  IOBIND__TRY(iobind__tensor_settle(tensor, IOBIND__READ, error));
  if (tensor->place->host || tensor->bytes == 0) {
    return IOBIND_OK;
  }
  *copy = malloc(tensor->bytes);
  if (*copy == NULL) {
    return iobind__out_of_memory(error, "state_save");
  }
  *data = *copy;
  const iobind__part whole = {.tensor = tensor, .bytes = tensor->bytes};
  return iobind__tensor_read(&whole, *copy, NULL, IOBIND__IN_FLIGHT, error);
}

/* The extent of an axis in the file. */
static int64_t rows_of(const iobind__kept *kept, size_t axis) {
  const iobind_tensor *tensor = kept->tensor;
  bool is_cut = kept->prefix.is_used && kept->prefix.axis == axis && iobind_dtype_get_bits((int32_t)tensor->dtype) % 8 == 0;
  return is_cut ? kept->prefix.length : tensor->dims[axis];
}

/* The bytes of a tensor in the file. Only the rows in use of a cache are written, although the state's tensor may have all. */
static size_t bytes_of(const iobind__kept *kept) {
  const iobind_tensor *tensor = kept->tensor;
  bool is_whole = !kept->prefix.is_used || tensor->bytes == 0 || iobind_dtype_get_bits((int32_t)tensor->dtype) % 8 != 0;
  return is_whole ? tensor->bytes
                  : tensor->bytes / (size_t)tensor->dims[kept->prefix.axis] * (size_t)rows_of(kept, kept->prefix.axis);
}

static void put_prefix(iobind__bytes *header, const iobind__prefix *prefix) {
  put_number(header, prefix->is_used ? prefix->axis + 1 : 0, 4);
  put_number(header, (uint64_t)prefix->length, 8);
  put_number(header, (uint64_t)prefix->capacity, 8);
}

static iobind_status put_record(iobind__bytes *header, const iobind_state *state, const iobind__kept *kept,
                                iobind_error *error) {
  const iobind_tensor *tensor = kept->tensor;
  iobind__kind found;
  IOBIND__TRY(iobind__session_known_kind(state->session, kept->pair.output, kept->pair.input, &found, error));
  put_text(header, state->session->outputs[kept->pair.output].name);
  put_text(header, state->session->inputs[kept->pair.input].name);
  put_text(header, iobind__kind_word(found.kind));
  put_number(header, (uint64_t)tensor->dtype, 4);
  put_number(header, tensor->rank, 4);
  for (size_t i = 0; i < tensor->rank; i++) {
    put_number(header, (uint64_t)rows_of(kept, i), 8);
  }
  put_prefix(header, &kept->prefix);
  put_number(header, bytes_of(kept), 8);
  return IOBIND_OK;
}

/* The longest length, and by how much each row of the batch is shorter. No such numbers: all rows have that length. */
static void put_used(iobind__bytes *header, const iobind__used *used) {
  size_t count = used->skew == NULL ? 0 : used->skew->count;
  put_number(header, (uint64_t)used->longest, 8);
  put_number(header, count, 4);
  for (size_t i = 0; i < count; i++) {
    put_number(header, (uint64_t)used->skew->behind[i], 8);
  }
}

static iobind_status make_header(const iobind_state *state, iobind__bytes *header, iobind_error *error) {
  iobind__identity identity;
  IOBIND__TRY(identify(state->session, "state_save", &identity, error));
  iobind__bytes_put(header, file_mark, sizeof file_mark);
  put_number(header, FORMAT, 4);
  put_number(header, 0, 4); /* the sizes of the header and of the file are set at the end */
  put_number(header, 0, 8);
  put_text(header, state->device_spec);
  put_text(header, state->ort_version);
  put_number(header, identity.bytes, 8);
  put_hash(header, identity.hash);
  put_number(header, identity.data_bytes, 8);
  put_hash(header, identity.data_hash);
  put_used(header, &state->used);
  put_number(header, state->count, 4);
  uint64_t bytes = 0;
  for (size_t i = 0; i < state->count; i++) {
    IOBIND__TRY(put_record(header, state, &state->kept[i], error));
    bytes += round_up(bytes_of(&state->kept[i]) + HASH);
  }
  if (header->failed) {
    return iobind__out_of_memory(error, "state_save");
  }
  if (header->length + HASH > LONGEST_HEADER) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "state_save: the names of %zu tensors do not fit into a header of %d bytes", state->count,
                        LONGEST_HEADER);
  }
  store_number(header->data + HEADER_BYTES_AT, header->length + HASH, 4);
  store_number(header->data + FILE_BYTES_AT, round_up(header->length + HASH) + bytes, 8);
  put_hash(header, iobind__hash_of(header->data, header->length));
  return header->failed ? iobind__out_of_memory(error, "state_save") : IOBIND_OK;
}

static bool write_bytes(FILE *file, const void *data, size_t bytes) {
  return bytes == 0 || fwrite(data, 1, bytes, file) == bytes;
}

/* Write the padding after so many bytes. */
static bool write_padding(FILE *file, size_t bytes) {
  static const unsigned char zeros[ALIGNMENT] = {0};
  return write_bytes(file, zeros, round_up(bytes) - bytes);
}

static bool write_hashed(FILE *file, const void *data, size_t bytes) {
  unsigned char digits[HASH];
  iobind__bytes hash = {.data = digits, .room = HASH};
  put_hash(&hash, iobind__hash_of(data, bytes));
  return write_bytes(file, data, bytes) && write_bytes(file, digits, HASH) && write_padding(file, bytes + HASH);
}

static iobind_status refuse_write(const char *path, iobind_error *error) {
  char shown[IOBIND__NAME_TEXT];
  iobind__text_shorten(path, shown);
  return iobind__fail(error, IOBIND_ERROR_IO, "state_save: '%s' cannot be written: is there such a directory, and room?",
                      shown);
}

/* The path must not be a device or a pipe: it would be replaced by a file. */
static iobind_status check_target(const char *path, iobind_error *error) {
  if (!iobind__path_exists(path) || iobind__file_exists(path)) {
    return IOBIND_OK;
  }
  char shown[IOBIND__NAME_TEXT];
  iobind__text_shorten(path, shown);
  return iobind__fail(error, IOBIND_ERROR_IO, "state_save: '%s' is not a regular file: name a file, which may exist", shown);
}

/* Copy the rows in use of a tensor into dense memory. NULL: out of memory. */
static void *cut_out(const iobind__kept *kept, const void *data) {
  const iobind_tensor *tensor = kept->tensor;
  size_t bytes = bytes_of(kept);
  char *cut = malloc(bytes + 1);
  size_t pieces = 1;
  for (size_t i = 0; i < kept->prefix.axis; i++) {
    pieces *= (size_t)tensor->dims[i];
  }
  for (size_t i = 0; cut != NULL && i < pieces; i++) {
    memcpy(cut + i * (bytes / pieces), (const char *)data + i * (tensor->bytes / pieces), bytes / pieces);
  }
  return cut;
}

static iobind_status write_part(FILE *file, const iobind__kept *kept, const void *data, const char *path, iobind_error *error) {
  size_t bytes = bytes_of(kept);
  void *cut = bytes == kept->tensor->bytes ? NULL : cut_out(kept, data);
  if (bytes != kept->tensor->bytes && cut == NULL) {
    return iobind__out_of_memory(error, "state_save");
  }
  bool is_written = write_hashed(file, cut != NULL ? cut : data, bytes);
  free(cut);
  return is_written ? IOBIND_OK : refuse_write(path, error);
}

static iobind_status write_tensor(FILE *file, const iobind__kept *kept, const char *path, iobind_error *error) {
  const void *data;
  void *copy;
  iobind_status status = fetch(kept->tensor, &data, &copy, error);
  if (status == IOBIND_OK) {
    status = write_part(file, kept, data, path, error);
  }
  free(copy);
  return status;
}

static iobind_status write_all(const iobind_state *state, const iobind__bytes *header, FILE *file, const char *path,
                               iobind_error *error) {
  bool is_written = write_bytes(file, header->data, header->length) && write_padding(file, header->length);
  iobind_status status = is_written ? IOBIND_OK : refuse_write(path, error);
  for (size_t i = 0; i < state->count && status == IOBIND_OK; i++) {
    status = write_tensor(file, &state->kept[i], path, error);
  }
  bool finished = iobind__file_finish(file);
  return status == IOBIND_OK && !finished ? refuse_write(path, error) : status;
}

/* Write a temporary file in the same directory, which then replaces the file. */
static iobind_status write_file(const iobind_state *state, const iobind__bytes *header, const char *path, iobind_error *error) {
  iobind__text part = {0};
  iobind__text_add(&part, "%s.%016" PRIx64 ".part", path, iobind__clock_ns() ^ iobind__serial_next() << 48);
  if (part.failed) {
    iobind__text_free(&part);
    return iobind__out_of_memory(error, "state_save");
  }
  FILE *file = iobind__file_create(part.data);
  iobind_status status = file == NULL ? refuse_write(path, error) : write_all(state, header, file, path, error);
  if (status == IOBIND_OK && !iobind__file_replace(part.data, path)) {
    status = refuse_write(path, error);
  }
  if (file != NULL && status != IOBIND_OK) {
    iobind__file_remove(part.data);
  }
  iobind__text_free(&part);
  return status;
}

iobind_status iobind_state_save(iobind_state *state, const char *path, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(state, "state", "state_save", error));
  IOBIND__TRY(iobind__null_check(path, "path", "state_save", error));
  IOBIND__TRY(iobind__process_check("state_save", error));
  if (state->made != NULL) { /* the event returns a failed run to each wait, the tensors only to one */
    IOBIND__TRY(iobind__renamed(iobind_event_wait(state->made, IOBIND_NO_TIMEOUT, error), error, "state_save"));
  }
  IOBIND__TRY(check_target(path, error));
  iobind__bytes header = {0};
  iobind_status status = make_header(state, &header, error);
  if (status == IOBIND_OK) {
    status = write_file(state, &header, path, error);
  }
  free(header.data);
  return iobind__named(status, error, "state_save");
}

/* ---- read ---- */

/* A file that is being read. */
typedef struct reader {
  iobind_session *session;
  FILE *file;
  char shown[IOBIND__NAME_TEXT];
  uint64_t bytes;      /* of the file */
  unsigned char *data; /* of the header; iobind_state_load frees it */
  cursor header;
  const char *device_spec; /* in the header's bytes */
  const char *ort_version;
} reader;

static iobind_status refuse_damaged(const reader *self, const char *what, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_IO, "state_load: '%s': %s: save the state again", self->shown, what);
}

static iobind_status refuse_other(const reader *self, const char *what, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_IO,
                      "state_load: '%s' is the state of another model: %s differs from the session's (saved on %s, ORT %s)",
                      self->shown, what, self->device_spec, self->ort_version);
}

static iobind_status open_file(reader *self, const char *path, iobind_error *error) {
  iobind__file_stamp stamp;
  iobind__text_shorten(path, self->shown);
  self->file = iobind__file_open(path);
  if (self->file == NULL || !iobind__file_stamp_get(path, &stamp)) {
    return iobind__fail(error, IOBIND_ERROR_IO, "state_load: '%s' cannot be read", self->shown);
  }
  self->bytes = stamp.bytes;
  return IOBIND_OK;
}

static bool read_bytes(reader *self, void *data, size_t bytes) {
  return bytes == 0 || fread(data, 1, bytes, self->file) == bytes;
}

/* Read the padding after so many bytes, which must be zero. */
static bool read_padding(reader *self, size_t bytes) {
  static const unsigned char zeros[ALIGNMENT] = {0};
  unsigned char padding[ALIGNMENT];
  size_t rest = round_up(bytes) - bytes;
  return read_bytes(self, padding, rest) && memcmp(padding, zeros, rest) == 0;
}

/* Read the header, and check its hash. */
static iobind_status read_header(reader *self, iobind_error *error) {
  unsigned char start[START];
  cursor first = {.data = start, .length = START, .at = sizeof file_mark};
  if (!read_bytes(self, start, START) || memcmp(start, file_mark, sizeof file_mark) != 0) {
    return iobind__fail(error, IOBIND_ERROR_IO, "state_load: '%s' is not the file of a state", self->shown);
  }
  uint64_t format = get_number(&first, 4);
  size_t length = (size_t)get_number(&first, 4);
  uint64_t bytes = get_number(&first, 8);
  if (format != FORMAT) {
    return iobind__fail(error, IOBIND_ERROR_VERSION, "state_load: '%s' has format %llu, this iobind reads %d", self->shown,
                        (unsigned long long)format, FORMAT);
  }
  if (length < START + HASH || length > LONGEST_HEADER || round_up(length) > self->bytes) {
    return refuse_damaged(self, "its header is damaged, or the file is cut", error);
  }
  self->data = malloc(length);
  if (self->data == NULL) {
    return iobind__out_of_memory(error, "state_load");
  }
  memcpy(self->data, start, START);
  bool is_read = read_bytes(self, self->data + START, length - START) && read_padding(self, length);
  self->header = (cursor){.data = self->data, .length = length - HASH, .at = START};
  cursor hash = {.data = self->data, .length = length, .at = length - HASH};
  if (!is_read || !are_equal(get_hash(&hash), iobind__hash_of(self->data, length - HASH))) {
    return refuse_damaged(self, "its header is damaged", error);
  }
  return bytes == self->bytes ? IOBIND_OK : refuse_damaged(self, "the file is cut, or longer than it was written", error);
}

/* Information: neither is a reason to refuse. */
static iobind_status read_origin(reader *self, iobind_error *error) {
  self->device_spec = get_text(&self->header);
  self->ort_version = get_text(&self->header);
  return self->header.failed ? refuse_damaged(self, "where it was saved is damaged", error) : IOBIND_OK;
}

static iobind_status check_model(reader *self, iobind_error *error) {
  iobind__identity ours;
  iobind__identity theirs;
  theirs.bytes = get_number(&self->header, 8);
  theirs.hash = get_hash(&self->header);
  theirs.data_bytes = get_number(&self->header, 8);
  theirs.data_hash = get_hash(&self->header);
  IOBIND__TRY(identify(self->session, "state_load", &ours, error));
  if (theirs.bytes != ours.bytes || !are_equal(theirs.hash, ours.hash)) {
    return refuse_other(self, "its file", error);
  }
  bool same = theirs.data_bytes == ours.data_bytes && are_equal(theirs.data_hash, ours.data_hash);
  return same ? IOBIND_OK : refuse_other(self, "its external data", error);
}

/* A tensor's record in the header. */
typedef struct record {
  iobind__pair pair;
  iobind_dtype dtype;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
  iobind__prefix prefix;
  size_t bytes;
} record;

static iobind__form form_of(const record *self) {
  return (iobind__form){self->dtype, self->dims, self->rank};
}

/* The model is the same, so these names exist unless another program has written the file. */
static iobind_status find_pair(const reader *self, const char *output, const char *input, iobind__pair *pair,
                               iobind_error *error) {
  if (output == NULL || input == NULL) {
    return refuse_damaged(self, "a name is damaged", error);
  }
  IOBIND__TRY(iobind__renamed(iobind_session_find_output(self->session, output, &pair->output, error), error, "state_load"));
  return iobind__renamed(iobind_session_find_input(self->session, input, &pair->input, error), error, "state_load");
}

static iobind_status read_prefix(reader *self, record *out, iobind_error *error) {
  size_t place = (size_t)get_number(&self->header, 4);
  int64_t length = (int64_t)get_number(&self->header, 8);
  int64_t capacity = (int64_t)get_number(&self->header, 8);
  out->prefix = (iobind__prefix){0};
  if (place == 0) {
    return IOBIND_OK;
  }
  if (place > out->rank || length < 0 || length > out->dims[place - 1] || out->dims[place - 1] > capacity) {
    return refuse_damaged(self, "a length is damaged", error);
  }
  out->prefix = (iobind__prefix){.is_used = true, .axis = place - 1, .length = length, .capacity = capacity};
  return IOBIND_OK;
}

static iobind_status read_record(reader *self, record *out, iobind_error *error) {
  cursor *header = &self->header;
  const char *output = get_text(header);
  const char *input = get_text(header);
  (void)get_text(header); /* the kind: information for people */
  IOBIND__TRY(find_pair(self, output, input, &out->pair, error));
  out->dtype = (iobind_dtype)get_number(header, 4);
  out->rank = (size_t)get_number(header, 4);
  if (header->failed || out->dtype != self->session->inputs[out->pair.input].dtype) {
    return refuse_damaged(self, "a type is damaged", error);
  }
  if (out->rank > IOBIND_MAX_RANK) {
    return refuse_damaged(self, "a rank is damaged", error);
  }
  for (size_t i = 0; i < out->rank; i++) {
    out->dims[i] = (int64_t)get_number(header, 8);
  }
  IOBIND__TRY(read_prefix(self, out, error));
  uint64_t bytes = get_number(header, 8);
  IOBIND__TRY(iobind__form_bytes(form_of(out), &out->bytes, "state_load", error));
  return !header->failed && bytes == out->bytes && bytes <= self->bytes ? IOBIND_OK
                                                                        : refuse_damaged(self, "a size is damaged", error);
}

/* Read the next tensor's bytes, and check their hash. */
static iobind_status read_tensor(reader *self, const iobind_tensor *tensor, iobind_error *error) {
  unsigned char digits[HASH];
  cursor hash = {.data = digits, .length = HASH};
  bool is_read = read_bytes(self, tensor->data, tensor->bytes) && read_bytes(self, digits, HASH) &&
                 read_padding(self, tensor->bytes + HASH);
  return is_read && are_equal(get_hash(&hash), iobind__hash_of(tensor->data, tensor->bytes))
             ? IOBIND_OK
             : refuse_damaged(self, "the bytes of a tensor are damaged", error);
}

/* Copy a tensor into memory that the session reads, if it is not there. Takes ownership of the reference. Caches are not
 * checked here, but when they are restored. */
static iobind_status move_tensor(const reader *self, const record *from, iobind_tensor *tensor, iobind_tensor **out,
                                 iobind_error *error) {
  size_t input = from->pair.input;
  iobind_status status =
      from->prefix.is_used ? IOBIND_OK : iobind__value_accepts(&self->session->inputs[input], tensor, "state_load", error);
  if (status == IOBIND_OK && self->session->inputs[input].place == tensor->place) {
    *out = tensor;
    return IOBIND_OK;
  }
  if (status == IOBIND_OK) {
    status = iobind__input_copy(self->session, input, tensor, NULL, out, error);
  }
  iobind_tensor_release(tensor);
  return status;
}

static iobind_status read_kept(reader *self, iobind__kept *kept, iobind_error *error) {
  record from;
  iobind_tensor *tensor;
  iobind_device *cpu = self->session->runtime->cpu;
  IOBIND__TRY(read_record(self, &from, error));
  IOBIND__TRY(iobind__tensor_create_at(&cpu->places[IOBIND_MEMORY_DEFAULT], form_of(&from), &tensor, error));
  iobind_status status = read_tensor(self, tensor, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(tensor);
    return status;
  }
  IOBIND__TRY(move_tensor(self, &from, tensor, &kept->tensor, error));
  kept->pair = from.pair;
  kept->prefix = from.prefix;
  kept->tensor->read_only = true;
  return IOBIND_OK;
}

static iobind_status read_skewed(reader *self, int64_t longest, size_t count, iobind__used *out, iobind_error *error) {
  int64_t *lengths = calloc(count, sizeof *lengths);
  bool is_right = lengths != NULL;
  for (size_t i = 0; is_right && i < count; i++) {
    uint64_t behind = get_number(&self->header, 8);
    is_right = !self->header.failed && behind <= (uint64_t)longest;
    lengths[i] = is_right ? longest - (int64_t)behind : 0;
  }
  iobind_status status = lengths == NULL ? iobind__out_of_memory(error, "state_load")
                         : is_right      ? iobind__used_make(lengths, count, "state_load", out, error)
                                         : refuse_damaged(self, "the length of a row is damaged", error);
  free(lengths);
  return status;
}

static iobind_status read_used(reader *self, iobind__used *out, iobind_error *error) {
  int64_t longest = (int64_t)get_number(&self->header, 8);
  size_t count = (size_t)get_number(&self->header, 4);
  *out = (iobind__used){.longest = longest < 0 ? IOBIND__LENGTH_UNKNOWN : longest};
  if (count == 0) {
    return IOBIND_OK;
  }
  if (self->header.failed || longest < 0 || count > (self->header.length - self->header.at) / 8) {
    return refuse_damaged(self, "the number of its lengths is damaged", error);
  }
  return read_skewed(self, longest, count, out, error);
}

static iobind_status keep_origin(const reader *self, iobind_state *state, iobind_error *error) {
  size_t first = strlen(self->device_spec) + 1;
  size_t second = strlen(self->ort_version) + 1;
  state->read = malloc(first + second);
  if (state->read == NULL) {
    return iobind__out_of_memory(error, "state_load");
  }
  state->device_spec = memcpy(state->read, self->device_spec, first);
  state->ort_version = memcpy(state->read + first, self->ort_version, second);
  return IOBIND_OK;
}

static iobind_status read_tensors(reader *self, const iobind__used *used, iobind_state **out, iobind_error *error) {
  size_t count = (size_t)get_number(&self->header, 4);
  if (self->header.failed || count == 0 || count > self->session->input_count) {
    return refuse_damaged(self, "the number of its tensors is damaged", error);
  }
  iobind_state *state;
  IOBIND__TRY(iobind__state_allocate(self->session, count, "state_load", &state, error));
  iobind__used_set(&state->used, *used);
  iobind_status status = keep_origin(self, state, error);
  for (size_t i = 0; i < count && status == IOBIND_OK; i++) {
    status = read_kept(self, &state->kept[i], error);
  }
  if (status != IOBIND_OK) {
    iobind_state_release(state);
    return status;
  }
  *out = state;
  return IOBIND_OK;
}

static iobind_status read_state(reader *self, iobind_state **out, iobind_error *error) {
  iobind__used used;
  IOBIND__TRY(read_header(self, error));
  IOBIND__TRY(read_origin(self, error));
  IOBIND__TRY(check_model(self, error));
  IOBIND__TRY(read_used(self, &used, error));
  iobind_status status = read_tensors(self, &used, out, error);
  iobind__used_release(&used);
  return status;
}

iobind_status iobind_state_load(iobind_session *session, const char *path, iobind_state **state, iobind_error *error) {
  if (state != NULL) {
    *state = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", "state_load", error));
  IOBIND__TRY(iobind__null_check(path, "path", "state_load", error));
  IOBIND__TRY(iobind__null_check(state, "state", "state_load", error));
  IOBIND__TRY(iobind__process_check("state_load", error));
  reader self = {.session = session};
  iobind_status status = open_file(&self, path, error);
  if (status == IOBIND_OK) {
    status = read_state(&self, state, error);
  }
  if (self.file != NULL) {
    fclose(self.file);
  }
  free(self.data);
  return iobind__named(status, error, "state_load");
}
