/* Shared by the targets: arguments made of a fuzzer's bytes, and checks. */
#ifndef FUZZ_BYTES_H
#define FUZZ_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iobind/iobind.h"

/* The fuzzer's bytes, taken one after the other. Bytes after the end are 0. */
typedef struct bytes {
  const uint8_t *at;
  size_t left;
} bytes;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

uint8_t take_byte(bytes *source);
uint32_t take_number(bytes *source); /* 4 bytes */
int64_t take_dim(bytes *source);     /* usually small, sometimes near a limit */
bool take_bool(bytes *source);

/* A NUL-terminated text of up to `longest` bytes; its length is taken first. It is malloc'ed with its exact size, so that a read after
 * its end is found. */
char *take_text(bytes *source, size_t longest);

/* Like take_text: one of the words, or arbitrary bytes. */
char *take_word(bytes *source, const char *const *words, size_t count, size_t longest);

/* If the condition is false, end the process, and print the condition and its source line. */
#define CHECK(holds) ((holds) ? (void)0 : check_failed(#holds, __FILE__, __LINE__))
_Noreturn void check_failed(const char *what, const char *file, int line);

bool is_utf8(const char *text);

/* Check a call's error: it is untouched if the call returned OK, and complete otherwise.
 *  @param clean  the message must be UTF-8, because all texts of the caller were */
void check_call(iobind_status status, const iobind_error *error, bool clean);
iobind_error armed(void); /* an error with a pattern, which shows whether a call has filled it */

/* A runtime that is created once, with the fetched ONNX Runtime and without EP libraries. */
iobind_runtime *the_runtime(void);
iobind_device *the_cpu(void);

/* A memory file with a path. */
typedef struct memory_file {
  int descriptor;
  char path[32];
} memory_file;
memory_file memory_file_make(const void *data, size_t size);
void memory_file_close(memory_file *file);

#endif
