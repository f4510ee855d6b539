/* What the targets share: arguments out of a fuzzer's bytes, and what must hold. */
#ifndef FUZZ_BYTES_H
#define FUZZ_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iobind/iobind.h"

/* The fuzzer's bytes, taken one after the other; what is not there is 0. */
typedef struct bytes {
  const uint8_t *at;
  size_t left;
} bytes;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

uint8_t take_byte(bytes *source);
uint32_t take_number(bytes *source); /* 4 bytes */
int64_t take_dim(bytes *source);     /* mostly small, sometimes at a limit */
bool take_bool(bytes *source);

/* Up to `longest` bytes that end in NUL and hold none, the length first. malloc'ed, just as large as it is: a byte read behind
 * its end is found. */
char *take_text(bytes *source, size_t longest);

/* As take_text: one of the words, or bytes. */
char *take_word(bytes *source, const char *const *words, size_t count, size_t longest);

/* Ends the process with the place and what did not hold. */
#define CHECK(holds) ((holds) ? (void)0 : check_failed(#holds, __FILE__, __LINE__))
_Noreturn void check_failed(const char *what, const char *file, int line);

bool is_utf8(const char *text);

/* What is promised of each call: `error` is untouched where it is OK, and whole where it is not.
 *  @param clean  the message must be UTF-8, for what the caller gave was */
void check_call(iobind_status status, const iobind_error *error, bool clean);
iobind_error armed(void); /* an error that a call is to leave alone, or to fill */

/* The CPU of a runtime that is made once, of the ONNX Runtime that is fetched, without EP libraries. */
iobind_runtime *the_runtime(void);
iobind_device *the_cpu(void);

/* A file in memory that has a path. */
typedef struct memory_file {
  int descriptor;
  char path[32];
} memory_file;
memory_file memory_file_make(const void *data, size_t size);
void memory_file_close(memory_file *file);

#endif
