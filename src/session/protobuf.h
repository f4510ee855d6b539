/* The bytes of a model, in memory or in a file, read as protobuf: the fields of messages, one after the other. */
#ifndef IOBIND_SESSION_PROTOBUF_H
#define IOBIND_SESSION_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "session/source.h"
#include "support/error.h"

typedef struct iobind__model_bytes {
  const unsigned char *bytes; /* NULL: in the file */
  FILE *file;
  uint64_t size;
  bool sound; /* all bytes read until now are valid protobuf */
  uint64_t window_at;
  size_t window_size;
  unsigned char window[4096];
} iobind__model_bytes;

/* A field of a message; `number` and `length` are 0 at the end of the message. */
typedef struct iobind__field {
  uint64_t number;
  bool is_message; /* has bytes from `offset` on: a message, a string, packed numbers */
  uint64_t value;  /* of a plain number */
  uint64_t offset;
  uint64_t length;
} iobind__field;

iobind_status iobind__model_open(iobind__model_bytes *model, const iobind__source *from, iobind_error *error);
void iobind__model_close(iobind__model_bytes *model);

/* ORT's own format, which is not protobuf. */
bool iobind__model_is_ort_format(iobind__model_bytes *model);

/* A number of protobuf's variable length, at *offset. */
bool iobind__model_varint(iobind__model_bytes *model, uint64_t *offset, uint64_t *number);

/* Read the field at *offset of the message that ends at `end`. False: there is none, or the bytes are invalid. */
bool iobind__model_next(iobind__model_bytes *model, uint64_t *offset, uint64_t end, iobind__field *field);

/* The bytes of a field as a string, cut to fit. False: cut. */
bool iobind__model_text(iobind__model_bytes *model, const iobind__field *field, char *text, size_t size);

#endif
