#include "ep/option.h"

#include <stdio.h>
#include <string.h>

const char iobind__graph_limit_instead[] =
    "graph_limit among the session's options takes its place, so that iobind guards the graphs";
const char iobind__graphs_unguarded[] = "iobind does not guard graphs of this EP";

const iobind__option *iobind__option_find(const iobind__option_table *table, const char *key) {
  for (size_t i = 0; i < table->count; i++) {
    if (strcmp(table->options[i].key, key) == 0) {
      return &table->options[i];
    }
  }
  return NULL;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* A whole text as a number. No space, no sign, no locale: EPs differ in what else they accept. */
static bool parse_digits(const char *text, uint64_t base, uint64_t *number) {
  uint64_t value = 0;
  if (text[0] == '\0') {
    return false;
  }
  for (; *text != '\0'; text++) {
    uint64_t digit = (uint64_t)digit_of(*text);
    if (digit >= base || value > (UINT64_MAX - digit) / base) {
      return false;
    }
    value = value * base + digit;
  }
  *number = value;
  return true;
}

bool iobind__option_address(const char *value, uint64_t *address) {
  bool hexadecimal = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
  return parse_digits(hexadecimal ? value + 2 : value, hexadecimal ? 16 : 10, address);
}

int64_t iobind__option_whole(const char *value) {
  bool negative = value[0] == '-';
  uint64_t number = 0;
  (void)parse_digits(value + negative, 10, &number);
  return negative ? -(int64_t)number : (int64_t)number;
}

static bool is_whole(const iobind__option *option, const char *value) {
  bool negative = value[0] == '-';
  uint64_t number;
  if (!parse_digits(value + negative, 10, &number)) {
    return false;
  }
  if (negative) {
    return option->lowest < 0 && number <= (uint64_t) - (option->lowest + 1) + 1;
  }
  return number <= option->highest && (option->lowest <= 0 || number >= (uint64_t)option->lowest);
}

/* Digits, at most one point, an exponent. */
static bool is_decimal(const char *value) {
  size_t whole = strspn(value, "0123456789");
  value += whole;
  size_t behind = 0;
  if (*value == '.') {
    behind = strspn(++value, "0123456789");
    value += behind;
  }
  if (whole + behind == 0) {
    return false;
  }
  if (*value == 'e' || *value == 'E') {
    value++;
    value += *value == '-' || *value == '+';
    size_t exponent = strspn(value, "0123456789");
    return exponent > 0 && value[exponent] == '\0';
  }
  return *value == '\0';
}

static bool is_word(const char *words, const char *value) {
  size_t length = strlen(value);
  while (length > 0 && (strcspn(words, "|") != length || memcmp(words, value, length) != 0)) {
    const char *bar = strchr(words, '|');
    if (bar == NULL) {
      return false;
    }
    words = bar + 1;
  }
  return length > 0;
}

bool iobind__option_takes(const iobind__option_table *table, const iobind__option *option, const char *value) {
  uint64_t address;
  switch (option->kind) {
    case IOBIND__OPTION_FLAG: return is_word(table->spelled ? "0|1|true|True|false|False" : "0|1", value);
    case IOBIND__OPTION_WHOLE: return is_whole(option, value);
    case IOBIND__OPTION_DECIMAL: return is_decimal(value);
    case IOBIND__OPTION_WORD: return is_word(option->words, value);
    case IOBIND__OPTION_ADDRESS: return iobind__option_address(value, &address);
    case IOBIND__OPTION_TEXT: break;
  }
  return true;
}

static bool is_true(const char *flag) {
  return flag[0] == '1' || flag[0] == 't' || flag[0] == 'T';
}

bool iobind__option_same(const iobind__option *option, const char *a, const char *b) {
  uint64_t x;
  uint64_t y;
  if (option->kind == IOBIND__OPTION_FLAG) {
    return is_true(a) == is_true(b);
  }
  if (option->kind == IOBIND__OPTION_ADDRESS || option->kind == IOBIND__OPTION_WHOLE) {
    if (iobind__option_address(a, &x) && iobind__option_address(b, &y)) {
      return x == y;
    }
  }
  return strcmp(a, b) == 0;
}

/* "a|b|c" as "a, b or c" */
static void list_words(const char *words, char *out, size_t capacity) {
  size_t length = 0;
  out[0] = '\0';
  for (const char *word = words; word != NULL && length < capacity;) {
    const char *bar = strchr(word, '|');
    size_t size = bar == NULL ? strlen(word) : (size_t)(bar - word);
    const char *between = word == words ? "" : bar == NULL ? " or " : ", ";
    int added = snprintf(out + length, capacity - length, "%s%.*s", between, (int)size, word);
    length += added > 0 ? (size_t)added : 0;
    word = bar == NULL ? NULL : bar + 1;
  }
}

void iobind__option_range(const iobind__option_table *table, const iobind__option *option, char out[IOBIND__OPTION_RANGE]) {
  switch (option->kind) {
    case IOBIND__OPTION_FLAG:
      snprintf(out, IOBIND__OPTION_RANGE, "%s", table->spelled ? "0, 1, true or false" : "0 or 1");
      return;
    case IOBIND__OPTION_WHOLE:
      snprintf(out, IOBIND__OPTION_RANGE, "%lld .. %llu", (long long)option->lowest, (unsigned long long)option->highest);
      return;
    case IOBIND__OPTION_DECIMAL: snprintf(out, IOBIND__OPTION_RANGE, "a number of 0 or more"); return;
    case IOBIND__OPTION_WORD: list_words(option->words, out, IOBIND__OPTION_RANGE); return;
    case IOBIND__OPTION_ADDRESS: snprintf(out, IOBIND__OPTION_RANGE, "an address such as 0x7f0000001000"); return;
    case IOBIND__OPTION_TEXT: snprintf(out, IOBIND__OPTION_RANGE, "text"); return;
  }
}

/* Does a key have this value, given or preset, or (NULL) any except the preset? */
static bool has_value(const iobind__option_table *table, const char *key, const char *value, const char *const *keys,
                      const char *const *values, size_t count) {
  const iobind__option *option = iobind__option_find(table, key);
  if (option == NULL) {
    return false;
  }
  const char *has = option->preset;
  for (size_t i = 0; i < count; i++) {
    has = strcmp(keys[i], key) == 0 ? values[i] : has;
  }
  if (value == NULL) {
    return has != option->preset && (option->preset == NULL || !iobind__option_same(option, has, option->preset));
  }
  return has != NULL && iobind__option_same(option, has, value);
}

const iobind__option_pair *iobind__option_meet(const iobind__option_table *table, const char *const *keys,
                                               const char *const *values, size_t count) {
  for (size_t i = 0; i < table->pair_count; i++) {
    const iobind__option_pair *pair = &table->pairs[i];
    if (has_value(table, pair->key, pair->value, keys, values, count) &&
        has_value(table, pair->other, pair->other_value, keys, values, count)) {
      return pair;
    }
  }
  return NULL;
}
