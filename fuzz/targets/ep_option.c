/* Keys of EP options: keys that are similar to known ones are refused. A plain computation of the edit distance is the reference. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bytes.h"
#include "ep/ep.h"

enum { LONGEST = 48 };

/* The edit distance of two keys, by the full table. */
static size_t edits(const char *a, const char *b) {
  static size_t table[LONGEST + 1][LONGEST + 1];
  size_t rows = strlen(a);
  size_t columns = strlen(b);
  if (rows > columns + 2 || columns > rows + 2) return LONGEST; /* more than the limit */
  for (size_t i = 0; i <= rows; i++) {
    for (size_t j = 0; j <= columns; j++) {
      size_t least = i == 0 ? j : i;
      if (i > 0 && j > 0) {
        least = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
        if (table[i - 1][j] + 1 < least) least = table[i - 1][j] + 1;
        if (table[i][j - 1] + 1 < least) least = table[i][j - 1] + 1;
      }
      table[i][j] = least;
    }
  }
  return table[rows][columns];
}

/* Properties of any value: a preset is accepted, a value equals itself, and an accepted number is a number. */
static void check_value(const iobind__option_table *table, const iobind__option *option, bytes *source) {
  char range[IOBIND__OPTION_RANGE];
  char *value = take_text(source, LONGEST);
  iobind__option_range(table, option, range);
  CHECK(range[0] != '\0' && strlen(range) < sizeof range - 1);
  if (option->preset != NULL) CHECK(iobind__option_takes(table, option, option->preset));
  CHECK(iobind__option_same(option, value, value));
  if (iobind__option_takes(table, option, value) && option->kind == IOBIND__OPTION_WHOLE) {
    CHECK(value[0] == '-' ? strtoll(value, NULL, 10) >= option->lowest : strtoull(value, NULL, 10) <= option->highest);
  }
  free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"cuda", "webgpu", "cpu", "vdev", "tensorrt"};
  bytes source = {data, size};
  const char *name = names[take_byte(&source) % 5];
  char *key = take_text(&source, LONGEST);
  const iobind__ep *ep = iobind__ep_by_name(name, strlen(name));
  CHECK(ep != NULL);
  const iobind__option_table *table = ep->options;
  bool exact = table == NULL; /* its options are unknown: each is accepted */
  bool same_letters = false;
  bool near = false;
  for (size_t i = 0; table != NULL && i < table->count; i++) {
    const char *other = table->options[i].key;
    CHECK(strlen(other) <= LONGEST);
    exact = exact || strcmp(other, key) == 0;
    same_letters = same_letters || strcasecmp(other, key) == 0;
    near = near || edits(key, other) <= 2;
    check_value(table, &table->options[i], &source);
  }
  bool known = false;
  const char *meant = NULL;
  iobind_error error = armed();
  iobind_status status = iobind__ep_option_check(ep, key, &known, &meant, &error);
  check_call(status, &error, is_utf8(key));
  CHECK(known == exact);
  CHECK((status == IOBIND_OK) == (exact || !same_letters));
  if (!exact) CHECK((meant != NULL) == (same_letters || near));
  free(key);
  return 0;
}
