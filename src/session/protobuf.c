#define _POSIX_C_SOURCE 200809L /* fseeko */
#define _FILE_OFFSET_BITS 64
#include "session/protobuf.h"

#include <string.h>

static bool in_window(const iobind__model_bytes *model, uint64_t offset, size_t size) {
  return offset >= model->window_at && offset - model->window_at <= model->window_size &&
         size <= model->window_size - (size_t)(offset - model->window_at);
}

/* The tags of a large model are close together, between weights that are skipped. */
static bool fill_window(iobind__model_bytes *model, uint64_t offset) {
  uint64_t left = model->size - offset;
  size_t size = left < sizeof model->window ? (size_t)left : sizeof model->window;
  model->window_at = offset;
  model->window_size = 0;
  if (fseeko(model->file, (off_t)offset, SEEK_SET) != 0 || fread(model->window, 1, size, model->file) != size) {
    return false;
  }
  model->window_size = size;
  return true;
}

static bool read_at(iobind__model_bytes *model, uint64_t offset, void *out, size_t size) {
  if (offset > model->size || size > model->size - offset || size > sizeof model->window) {
    return false;
  }
  if (model->bytes != NULL) {
    memcpy(out, model->bytes + offset, size);
    return true;
  }
  if (!in_window(model, offset, size) && !fill_window(model, offset)) {
    return false;
  }
  memcpy(out, model->window + (offset - model->window_at), size);
  return true;
}

bool iobind__model_varint(iobind__model_bytes *model, uint64_t *offset, uint64_t *number) {
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

iobind_status iobind__model_open(iobind__model_bytes *model, const iobind__source *from, iobind_error *error) {
  *model = (iobind__model_bytes){.bytes = from->model, .size = from->bytes, .sound = true};
  if (from->path == NULL) {
    return IOBIND_OK;
  }
  model->file = iobind__file_open(from->path);
  off_t end = -1;
  if (model->file != NULL && fseeko(model->file, 0, SEEK_END) == 0) {
    end = ftello(model->file);
  }
  if (end < 0) {
    iobind__model_close(model);
    return iobind__fail(error, IOBIND_ERROR_IO, "session_create: '%s' cannot be read", from->path);
  }
  model->size = (uint64_t)end;
  return IOBIND_OK;
}

void iobind__model_close(iobind__model_bytes *model) {
  if (model->file != NULL) {
    fclose(model->file);
    model->file = NULL;
  }
}

bool iobind__model_is_ort_format(iobind__model_bytes *model) {
  char mark[4];
  return read_at(model, 4, mark, sizeof mark) && memcmp(mark, "ORTM", sizeof mark) == 0;
}

bool iobind__model_next(iobind__model_bytes *model, uint64_t *offset, uint64_t end, iobind__field *field) {
  uint64_t tag = 0;
  *field = (iobind__field){0};
  if (!model->sound || *offset >= end) {
    return false;
  }
  model->sound = iobind__model_varint(model, offset, &tag);
  unsigned wire = (unsigned)(tag & 7u);
  if (wire == 0 || wire == 2) {
    model->sound = model->sound && iobind__model_varint(model, offset, &field->value);
  }
  field->number = tag >> 3;
  field->is_message = wire == 2;
  field->length = wire == 2 ? field->value : wire == 1 ? 8 : wire == 5 ? 4 : 0;
  field->offset = *offset;
  model->sound = model->sound && (wire <= 2 || wire == 5) && *offset <= end && field->length <= end - *offset;
  *offset += field->length;
  return model->sound;
}

bool iobind__model_text(iobind__model_bytes *model, const iobind__field *field, char *text, size_t size) {
  size_t length = field->length < size ? (size_t)field->length : size - 1;
  model->sound = model->sound && read_at(model, field->offset, text, length);
  text[model->sound ? length : 0] = '\0';
  return field->length == length;
}
