/* Words of the tool's command line: numbers, suggested names, file names. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bytes.h"
#include "formats/npz.h"
#include "shared/nearest.h"
#include "shared/number.h"
#include "shared/outputs.h"

static void check_numbers(const char *text) {
  int64_t whole = -7;
  double real = -7;
  if (number_parse_integer(text, 0, 1000, &whole)) {
    CHECK(whole >= 0 && whole <= 1000 && strspn(text, "-0123456789") == strlen(text) && strtoll(text, NULL, 10) == whole);
  } else {
    CHECK(whole == -7);
  }
  if (number_parse_integer(text, INT64_MIN, INT64_MAX, &whole)) CHECK(strtoll(text, NULL, 10) == whole);
  if (number_parse_real(text, 0.5, 1e6, &real)) {
    CHECK(real >= 0.5 && real <= 1e6 && strtod(text, NULL) == real);
  } else {
    CHECK(real == -7);
  }
}

static void check_files(char *const *names, size_t count) {
  char *files[8] = {NULL};
  CHECK(outputs_name_files((const char *const *)names, count, files));
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(files[i]);
    CHECK(length > 4 && length <= 255 && strcmp(files[i] + length - 4, ".npy") == 0);
    CHECK(strpbrk(files[i], "/\\:\n") == NULL && files[i][0] != '.');
    CHECK(!is_utf8(names[i]) || is_utf8(files[i]));
    for (size_t j = 0; j < i; j++) CHECK(strcasecmp(files[i], files[j]) != 0);
  }
  for (size_t i = 0; i < count; i++) free(files[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  char *names[8];
  size_t count = take_byte(&source) % 9;
  char text[NUMBER_TEXT];
  for (size_t i = 0; i < count; i++) {
    names[i] = take_text(&source, 255);
    check_numbers(names[i]);
    const char *near = nearest_of(names[i], NULL, "output-dir");
    near = nearest_of(names[i], near, i == 0 ? "" : names[i - 1]);
    CHECK(near == NULL || strcmp(near, "output-dir") == 0 || i == 0 || near == names[i - 1]);
    if (npz_can_name(names[i])) CHECK(is_utf8(names[i]) && names[i][0] != 0 && strcmp(names[i], "..") != 0);
  }
  check_files(names, count);
  uint64_t wide = (uint64_t)take_number(&source) << 32 | take_number(&source);
  CHECK(strlen(number_format_bytes(wide, text)) < NUMBER_TEXT);
  CHECK(strlen(number_format_time((double)wide, text)) < NUMBER_TEXT);
  for (size_t i = 0; i < count; i++) free(names[i]);
  return 0;
}
