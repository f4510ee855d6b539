#include "shared/pairing.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { WORDS = 24, LETTERS = 32 };

/* The words of a name, without those that say to which run it belongs. */
typedef struct words {
  char word[WORDS][LETTERS];
  size_t count;
} words;

static bool says_when(const char *word) {
  static const char *const all[] = {"past",  "present", "new",    "next",    "prev", "previous", "in",
                                    "input", "out",     "output", "current", "old",  "updated"};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (strcmp(all[i], word) == 0) return true;
  }
  return false;
}

static void add_word(words *to, const char *from, size_t length) {
  if (length == 0 || to->count == WORDS) return;
  char *word = to->word[to->count];
  size_t kept = length < LETTERS ? length : LETTERS - 1;
  for (size_t i = 0; i < kept; i++) word[i] = (char)tolower((unsigned char)from[i]);
  word[kept] = '\0';
  to->count += says_when(word) ? 0 : 1;
}

/* `hn` and `h`, `r1o` and `r1i`: a last letter may say it, too. */
static void cut_last_letter(words *of) {
  char *word = of->count == 0 ? NULL : of->word[of->count - 1];
  size_t length = word == NULL ? 0 : strlen(word);
  if (length > 1 && strchr("nio", word[length - 1]) != NULL) word[length - 1] = '\0';
}

static words split(const char *name) {
  words made = {.count = 0};
  while (*name != '\0') {
    size_t length = 0;
    while (isalnum((unsigned char)name[length])) length++;
    add_word(&made, name, length);
    name += length + (name[length] != '\0' ? 1 : 0);
  }
  cut_last_letter(&made);
  return made;
}

bool pairing_matches(const char *output, const char *input) {
  const words a = split(output), b = split(input);
  const words *longer = a.count > b.count ? &a : &b, *shorter = a.count > b.count ? &b : &a;
  bool same = shorter->count > 0;
  for (size_t i = 0; same && i < shorter->count; i++) {
    same = strcmp(shorter->word[shorter->count - 1 - i], longer->word[longer->count - 1 - i]) == 0;
  }
  return same;
}
