#define _POSIX_C_SOURCE 200809L /* close, strdup */

#include "formats/npz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "formats/file.h"
#include "formats/utf8.h"

/* Deflate expands one byte to at most 1032. */
enum { DEFLATE_RATIO = 1032, DEFLATE_SLACK = 64 };
/* 1 January 1980, the first day of a zip archive; numpy writes it too. */
enum { FIRST_DAY = 1 << 5 | 1 };

struct npz_archive {
  char *path;
  zip_t *zip;
  uint64_t size; /* of the file */
  size_t count;
  char **names;
  zip_uint64_t *members; /* each name's index in the archive */
};

bool npz_is_archive(const char *path) {
  size_t length = strlen(path);
  size_t ending = strlen(NPZ_ENDING);
  return length > ending && strcmp(path + length - ending, NPZ_ENDING) == 0;
}

/* ---- reading ---- */

static bool list_arrays(npz_archive *archive, tool_fault *fault) {
  zip_int64_t entries = zip_get_num_entries(archive->zip, 0);
  size_t room = entries > 0 ? (size_t)entries : 0;
  archive->names = calloc(room + 1, sizeof *archive->names);
  archive->members = calloc(room + 1, sizeof *archive->members);
  if (archive->names == NULL || archive->members == NULL) return fault_set(fault, "%s: out of memory", archive->path);
  for (size_t i = 0; i < room; i++) {
    const char *name = zip_get_name(archive->zip, i, 0);
    size_t length = name == NULL ? 0 : strlen(name);
    if (length < 4 || strcmp(name + length - 4, ".npy") != 0) continue;
    archive->names[archive->count] = strndup(name, length - 4);
    if (archive->names[archive->count] == NULL) return fault_set(fault, "%s: out of memory", archive->path);
    archive->members[archive->count++] = i;
  }
  return archive->count > 0 || fault_set(fault, "%s: holds no arrays", archive->path);
}

npz_archive *npz_open(const char *path, tool_fault *fault) {
  npz_archive *archive = calloc(1, sizeof *archive);
  if (archive == NULL || (archive->path = strdup(path)) == NULL) {
    free(archive);
    fault_set(fault, "%s: out of memory", path);
    return NULL;
  }
  int descriptor = file_open(path, &archive->size, fault);
  int code = 0;
  if (descriptor >= 0) {
    archive->zip = zip_fdopen(descriptor, 0, &code);
    if (archive->zip == NULL) {
      zip_error_t reason;
      zip_error_init_with_code(&reason, code);
      fault_set(fault, "%s: not an archive of arrays: %s", path, zip_error_strerror(&reason));
      zip_error_fini(&reason);
      close(descriptor);
    }
  }
  if (archive->zip != NULL && list_arrays(archive, fault)) return archive;
  npz_close(archive);
  return NULL;
}

void npz_close(npz_archive *archive) {
  if (archive == NULL) return;
  for (size_t i = 0; i < archive->count; i++) free(archive->names[i]);
  free(archive->names);
  free(archive->members);
  if (archive->zip != NULL) zip_discard(archive->zip);
  free(archive->path);
  free(archive);
}

size_t npz_count(const npz_archive *archive) {
  return archive->count;
}

const char *npz_name(const npz_archive *archive, size_t index) {
  return archive->names[index];
}

/* Read exactly `bytes` bytes, for npy_source. */
static bool read_member(void *context, const char *name, void *data, size_t bytes, tool_fault *fault) {
  zip_file_t *file = context;
  unsigned char *target = data;
  for (size_t done = 0; done < bytes;) {
    zip_int64_t got = zip_fread(file, target + done, bytes - done);
    if (got < 0) return fault_set(fault, "%s: cannot be read: %s", name, zip_file_strerror(file));
    if (got == 0) return fault_set(fault, "%s: ends %zu bytes too early", name, bytes - done);
    done += (size_t)got;
  }
  return true;
}

/* The checksum is compared only at the end, so one more byte is read. */
static bool finish_member(zip_file_t *file, const char *name, tool_fault *fault) {
  unsigned char more = 0;
  zip_int64_t got = zip_fread(file, &more, 1);
  if (got < 0) return fault_set(fault, "%s: its bytes are damaged: %s", name, zip_file_strerror(file));
  return got == 0 || fault_set(fault, "%s: has more bytes than the archive declares", name);
}

/* The size that an archive declares for a member may be wrong, and memory is allocated by it. */
static bool check_member(const npz_archive *archive, const zip_stat_t *member, const char *name, tool_fault *fault) {
  const zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((member->valid & wanted) != wanted) return fault_set(fault, "%s: the archive does not declare its size", name);
  if (member->encryption_method != ZIP_EM_NONE) return fault_set(fault, "%s: is encrypted", name);
  uint64_t most = member->comp_size;
  if (most > archive->size) return fault_set(fault, "%s: its declared size is larger than the archive", name);
  switch (member->comp_method) {
    case ZIP_CM_STORE: break;
    case ZIP_CM_DEFLATE:
      if (__builtin_mul_overflow(most, DEFLATE_RATIO, &most) || __builtin_add_overflow(most, DEFLATE_SLACK, &most)) {
        most = UINT64_MAX;
      }
      break;
    default:
      return fault_set(fault, "%s: is compressed with method %u; expected it stored or deflated, as numpy does", name,
                       member->comp_method);
  }
  if (member->size <= most) return true;
  return fault_set(fault, "%s: its declared size is %" PRIu64 " bytes, which %" PRIu64 " in the archive cannot hold", name,
                   member->size, member->comp_size);
}

static bool read_at(npz_archive *archive, zip_uint64_t index, const char *name, const npy_filter *filter, npy_array *array,
                    tool_fault *fault) {
  zip_stat_t member;
  zip_stat_init(&member);
  if (zip_stat_index(archive->zip, index, 0, &member) != 0) {
    return fault_set(fault, "%s: %s", name, zip_strerror(archive->zip));
  }
  if (!check_member(archive, &member, name, fault)) return false;
  zip_file_t *file = zip_fopen_index(archive->zip, index, 0);
  if (file == NULL) return fault_set(fault, "%s: cannot be read: %s", name, zip_strerror(archive->zip));
  const npy_source source = {.name = name, .size = member.size, .read = read_member, .context = file, .filter = filter};
  bool read = npy_read_from(&source, array, fault);
  if (read && !finish_member(file, name, fault)) {
    npy_free(array);
    read = false;
  }
  zip_fclose(file);
  return read;
}

static bool fail_missing(const npz_archive *archive, const char *name, tool_fault *fault) {
  char list[512] = "";
  size_t length = 0;
  for (size_t i = 0; i < archive->count && length < sizeof list; i++) {
    int added = snprintf(list + length, sizeof list - length, "%s'%s'", i == 0 ? "" : ", ", archive->names[i]);
    length += added > 0 ? (size_t)added : 0;
  }
  return fault_set(fault, "%s: holds no array '%s'; it holds %s", archive->path, name, list);
}

bool npz_read(npz_archive *archive, const char *name, const npy_filter *filter, npy_array *array, tool_fault *fault) {
  *array = (npy_array){0};
  size_t found = archive->count;
  for (size_t i = 0; i < archive->count; i++) {
    if (strcmp(archive->names[i], name) != 0) continue;
    if (found < archive->count) return fault_set(fault, "%s: holds two arrays '%s'", archive->path, name);
    found = i;
  }
  if (found == archive->count) return fail_missing(archive, name, fault);
  size_t bytes = strlen(archive->path) + strlen(name) + 2;
  char *full = malloc(bytes);
  if (full == NULL) return fault_set(fault, "%s: out of memory", archive->path);
  snprintf(full, bytes, "%s:%s", archive->path, name);
  bool read = read_at(archive, archive->members[found], full, filter, array, fault);
  free(full);
  return read;
}

/* ---- writing ---- */

bool npz_can_name(const char *name) {
  size_t left = strlen(name);
  if (left == 0 || left > UINT16_MAX - 4 || !npy_is_text(name, left)) return false;
  for (const char *part = name;; part++) {
    size_t length = strcspn(part, "/\\");
    if (length == 2 && part[0] == '.' && part[1] == '.') return false;
    part += length;
    if (*part == 0) break;
  }
  const unsigned char *at = (const unsigned char *)name;
  for (left = strlen(name); left > 0;) {
    uint32_t point = 0;
    size_t taken = utf8_decode(at, left, &point); /* not 0: npy_is_text has checked that it is UTF-8 */
    if (!utf8_is_plain(point)) return false;
    at += taken;
    left -= taken;
  }
  return true;
}

/* An archive that is being written. */
typedef struct npz_content {
  const char *const *names;
  const npy_array *arrays;
  size_t count;
  char (*headers)[NPY_HEADER_SIZE];
} npz_content;

static bool fail_zip(const char *path, zip_error_t *reason, tool_fault *fault) {
  return fault_set(fault, "%s: cannot be written: %s", path, zip_error_strerror(reason));
}

static bool add_member(zip_t *zip, const npz_content *content, size_t index, const char *path, tool_fault *fault) {
  const npy_array *array = &content->arrays[index];
  const char *name = content->names[index];
  zip_uint8_t *header = (zip_uint8_t *)content->headers[index];
  const zip_buffer_fragment_t parts[] = {{header, npy_make_header(array, content->headers[index])},
                                         {array->data, array->bytes}};
  size_t bytes = strlen(name) + sizeof ".npy";
  char *member = malloc(bytes);
  if (member == NULL) return fault_set(fault, "%s: cannot be written: out of memory", path);
  snprintf(member, bytes, "%s.npy", name);
  zip_source_t *source = zip_source_buffer_fragment(zip, parts, array->bytes > 0 ? 2 : 1, 0);
  zip_int64_t place = source == NULL ? -1 : zip_file_add(zip, member, source, ZIP_FL_ENC_UTF_8);
  free(member);
  if (place < 0) {
    zip_source_free(source);
    return fail_zip(path, zip_get_error(zip), fault);
  }
  zip_uint64_t added = (zip_uint64_t)place;
  if (zip_set_file_compression(zip, added, ZIP_CM_STORE, 0) == 0 && zip_file_set_dostime(zip, added, 0, FIRST_DAY, 0) == 0) {
    return true;
  }
  return fail_zip(path, zip_get_error(zip), fault);
}

static int is_stopped(zip_t *zip, void *context) {
  (void)zip;
  (void)context;
  return file_is_stopped();
}

static bool fill(void *context, const char *temporary, const char *path, tool_fault *fault) {
  const npz_content *content = context;
  int code = 0;
  zip_t *zip = zip_open(temporary, ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (zip == NULL) {
    zip_error_t reason;
    zip_error_init_with_code(&reason, code);
    fail_zip(path, &reason, fault);
    zip_error_fini(&reason);
    return false;
  }
  bool added = true;
  for (size_t i = 0; added && i < content->count; i++) added = add_member(zip, content, i, path, fault);
  if (added) {
    added = zip_register_cancel_callback_with_state(zip, is_stopped, NULL, NULL) == 0 && zip_close(zip) == 0;
    if (added) return true;
    fail_zip(path, zip_get_error(zip), fault);
  }
  zip_discard(zip);
  return false;
}

bool npz_write(const char *path, const char *const *names, const npy_array *arrays, size_t count, tool_fault *fault) {
  npz_content content = {.names = names, .arrays = arrays, .count = count};
  content.headers = malloc((count + 1) * sizeof *content.headers);
  if (content.headers == NULL) return fault_set(fault, "%s: cannot be written: out of memory", path);
  bool written = file_produce(path, fill, &content, fault);
  free(content.headers);
  return written;
}
