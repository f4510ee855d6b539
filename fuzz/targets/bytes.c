#define _GNU_SOURCE /* memfd_create */

#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint8_t take_byte(bytes *source) {
  if (source->left == 0) return 0;
  source->left--;
  return *source->at++;
}

uint32_t take_number(bytes *source) {
  uint32_t number = 0;
  for (int i = 0; i < 4; i++) number = number << 8 | take_byte(source);
  return number;
}

bool take_bool(bytes *source) {
  return (take_byte(source) & 1) != 0;
}

int64_t take_dim(bytes *source) {
  static const int64_t limits[] = {INT64_MAX,        INT64_MIN,        -1,      INT32_MAX,
                                   (int64_t)1 << 32, (int64_t)1 << 62, 1 << 20, INT64_MAX - 1};
  uint8_t kind = take_byte(source);
  return kind < 248 ? kind % 7 : limits[kind - 248];
}

char *take_text(bytes *source, size_t longest) {
  size_t wanted = take_byte(source);
  if (wanted > longest) wanted = longest;
  if (wanted > source->left) wanted = source->left;
  size_t length = strnlen((const char *)source->at, wanted);
  char *text = malloc(length + 1);
  if (text == NULL) abort();
  memcpy(text, source->at, length);
  text[length] = 0;
  source->at += wanted;
  source->left -= wanted;
  return text;
}

char *take_word(bytes *source, const char *const *words, size_t count, size_t longest) {
  size_t choice = take_byte(source);
  char *text = choice % 2 == 0 ? take_text(source, longest) : strdup(words[choice / 2 % count]);
  if (text == NULL) abort();
  return text;
}

void check_failed(const char *what, const char *file, int line) {
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  abort();
}

bool is_utf8(const char *text) {
  for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
    size_t more = *at < 0x80 ? 0 : *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC0 ? 1 : 4;
    if (more == 4) return false;
    for (at++; more > 0; more--, at++) {
      if ((*at & 0xC0u) != 0x80u) return false;
    }
  }
  return true;
}

static const char untouched[] = "no call has touched this";

iobind_error armed(void) {
  iobind_error error = IOBIND_ERROR_INIT;
  error.status = -1;
  memcpy(error.message, untouched, sizeof untouched);
  return error;
}

void check_call(iobind_status status, const iobind_error *error, bool clean) {
  CHECK(error->struct_size == sizeof *error);
  if (status == IOBIND_OK) {
    CHECK(error->status == -1 && strcmp(error->message, untouched) == 0);
    return;
  }
  CHECK(error->status == (int32_t)status && strcmp(iobind_status_get_name(error->status), "UNKNOWN") != 0);
  CHECK(status != IOBIND_ERROR_INTERNAL);
  CHECK(memchr(error->message, 0, sizeof error->message) != NULL);
  CHECK(error->message[0] != 0 && strcmp(error->message, untouched) != 0);
  CHECK(strpbrk(error->message, "\r\n\t") == NULL);
  CHECK(!clean || is_utf8(error->message));
}

iobind_runtime *the_runtime(void) {
  static iobind_runtime *runtime;
  if (runtime != NULL) return runtime;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  if (iobind_runtime_create(&options, &runtime, &error) == IOBIND_OK) return runtime;
  fprintf(stderr, "no ONNX Runtime: %s\n", error.message);
  exit(1);
}

iobind_device *the_cpu(void) {
  return iobind_runtime_get_device(the_runtime(), 0);
}

memory_file memory_file_make(const void *data, size_t size) {
  memory_file file = {.descriptor = memfd_create("input", MFD_CLOEXEC)};
  if (file.descriptor < 0 || (size > 0 && write(file.descriptor, data, size) != (ssize_t)size)) abort();
  snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
  return file;
}

void memory_file_close(memory_file *file) {
  close(file->descriptor);
}
