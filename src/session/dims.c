/* Free dimension overrides: does the model have an open dim of that name? ORT ignores an override of any other name. */
#define _POSIX_C_SOURCE 200809L /* fseeko */
#define _FILE_OFFSET_BITS 64
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"
#include "support/system.h"

/* The bytes of a model, in memory or in a file. */
typedef struct source {
  const unsigned char *bytes; /* NULL: in the file */
  FILE *file;
  uint64_t size;
} source;

static bool read_at(const source *model, uint64_t offset, void *out, size_t size) {
  if (offset > model->size || size > model->size - offset) {
    return false;
  }
  if (model->bytes != NULL) {
    memcpy(out, model->bytes + offset, size);
    return true;
  }
  return fseeko(model->file, (off_t)offset, SEEK_SET) == 0 && fread(out, 1, size, model->file) == size;
}

/* A number of protobuf's variable length. */
static bool read_varint(const source *model, uint64_t *offset, uint64_t *number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    unsigned char byte;
    if (!read_at(model, *offset, &byte, 1)) {
      return false;
    }
    (*offset)++;
    *number |= (uint64_t)(byte & 0x7Fu) << shift;
    if ((byte & 0x80u) == 0) {
      return true;
    }
  }
  return false;
}

/* The path from the model to the names of its inputs' dims: graph, input, type, tensor type, shape, dim, dim_param. */
static const uint64_t dim_path[] = {7, 11, 2, 1, 2, 1, 2};
enum { DIM_DEPTH = sizeof dim_path / sizeof dim_path[0] };

/* Look for the name along the path, in the message between two offsets. *sound: everything read so far is valid protobuf. */
static bool find_name(const source *model, uint64_t offset, uint64_t end, int depth, const char *name, bool *sound) {
  while (*sound && offset < end) {
    uint64_t tag;
    uint64_t value = 0;
    *sound = read_varint(model, &offset, &tag);
    unsigned wire = (unsigned)(tag & 7u);
    if (wire == 0 || wire == 2) {
      *sound = *sound && read_varint(model, &offset, &value);
    }
    uint64_t length = wire == 2 ? value : wire == 1 ? 8 : wire == 5 ? 4 : 0;
    *sound = *sound && (wire <= 2 || wire == 5) && length <= end - offset;
    if (*sound && wire == 2 && tag >> 3 == dim_path[depth]) {
      char found[256];
      if (depth + 1 < DIM_DEPTH) {
        if (find_name(model, offset, offset + length, depth + 1, name, sound)) {
          return true;
        }
      } else if (length == strlen(name) && length <= sizeof found && read_at(model, offset, found, (size_t)length) &&
                 memcmp(found, name, (size_t)length) == 0) {
        return true;
      }
    }
    offset += length;
  }
  return false;
}

static bool open_source(const char *path, const void *bytes, size_t size, source *model) {
  *model = (source){.bytes = bytes, .size = size};
  if (path == NULL) {
    return true;
  }
  model->file = iobind__file_open(path);
  off_t end = -1;
  if (model->file != NULL && fseeko(model->file, 0, SEEK_END) == 0) {
    end = ftello(model->file);
  }
  model->size = end < 0 ? 0 : (uint64_t)end;
  return end >= 0;
}

/* ORT's own format is not protobuf: its names are not checked. */
static bool is_ort_format(const source *model) {
  char mark[4];
  return read_at(model, 4, mark, sizeof mark) && memcmp(mark, "ORTM", sizeof mark) == 0;
}

iobind_status iobind__session_check_dims(const iobind_session_options *options, const char *path, const void *model,
                                         size_t bytes, iobind_error *error) {
  if (options->dim_count == 0 || options->dim_names == NULL) {
    return IOBIND_OK;
  }
  source from;
  iobind_status status = IOBIND_OK;
  if (!open_source(path, model, bytes, &from)) {
    status = iobind__fail(error, IOBIND_IO, "session_create: '%s' cannot be read", path);
  } else if (!is_ort_format(&from)) {
    for (size_t i = 0; i < options->dim_count && status == IOBIND_OK; i++) {
      const char *name = options->dim_names[i]; /* check_lists reports a NULL */
      bool sound = true;
      /* ORT reports a file that is not a model */
      if (name != NULL && !find_name(&from, 0, from.size, 0, name, &sound) && sound) {
        status = iobind__fail(error, IOBIND_NOT_FOUND,
                              "session_create: dim '%s': no input of the model has an open dim of that name", name);
      }
    }
  }
  if (from.file != NULL) {
    fclose(from.file);
  }
  return status;
}
