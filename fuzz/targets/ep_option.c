/* Keys of EP options: near misses of known ones are refused, beside a plain reckoning of how near they are. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bytes.h"
#include "runtime/catalogue.h"

enum { LONGEST = 40 };

/* Edits between two keys, by the whole table. */
static size_t edits(const char *a, const char *b) {
  static size_t table[LONGEST + 1][LONGEST + 1];
  size_t rows = strlen(a);
  size_t columns = strlen(b);
  if (rows > columns + 2 || columns > rows + 2) return LONGEST; /* farther than is asked for */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"cuda", "webgpu", "cpu", "vdev", "dml"};
  bytes source = {data, size};
  const char *name = names[take_byte(&source) % 5];
  char *key = take_text(&source, LONGEST);
  const iobind__ep *ep = iobind__ep_by_name(name, strlen(name));
  CHECK(ep != NULL);
  bool exact = ep->options == NULL; /* nobody knows its options: each counts as known */
  bool same_letters = false;
  bool near = false;
  for (size_t i = 0; ep->options != NULL && ep->options[i] != NULL; i++) {
    CHECK(strlen(ep->options[i]) <= LONGEST);
    exact = exact || strcmp(ep->options[i], key) == 0;
    same_letters = same_letters || strcasecmp(ep->options[i], key) == 0;
    near = near || edits(key, ep->options[i]) <= 2;
  }
  bool known = false;
  const char *meant = NULL;
  iobind_error error = armed();
  iobind_status status = iobind__ep_option_check(ep, key, &known, &meant, &error);
  check_call(status, &error, is_utf8(key));
  CHECK(known == exact);
  CHECK((status == IOBIND_OK) == (exact || !(same_letters || ep->checks_options)));
  if (!exact) CHECK((meant != NULL) == (same_letters || near));
  free(key);
  return 0;
}
