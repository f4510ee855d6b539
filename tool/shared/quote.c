#include "shared/quote.h"

#include <stdlib.h>
#include <string.h>

char *quote_word(const char *word) {
  static const char apostrophe[] = "'\\''"; /* ends the quotes, adds one, and begins them again */
  char *quoted = malloc(strlen(word) * strlen(apostrophe) + 3);
  if (quoted == NULL) return NULL;
  char *to = quoted;
  *to++ = '\'';
  for (; *word != 0; word++) {
    if (*word != '\'') {
      *to++ = *word;
    } else {
      memcpy(to, apostrophe, strlen(apostrophe));
      to += strlen(apostrophe);
    }
  }
  *to++ = '\'';
  *to = 0;
  return quoted;
}
