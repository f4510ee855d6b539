#include "shared/nearest.h"

#include <stdint.h>
#include <string.h>

enum { LONGEST = 63 };

static size_t smaller(size_t left, size_t right) {
  return left < right ? left : right;
}

/* The number of letters that must be inserted, removed, changed or swapped with their neighbour. */
static size_t distance(const char *left, const char *right) {
  size_t rows[3][LONGEST + 1];
  size_t left_length = strlen(left);
  size_t right_length = strlen(right);
  if (left_length > LONGEST || right_length > LONGEST) return SIZE_MAX;
  for (size_t j = 0; j <= right_length; j++) rows[0][j] = j;
  for (size_t i = 1; i <= left_length; i++) {
    size_t *row = rows[i % 3];
    const size_t *above = rows[(i + 2) % 3];
    const size_t *second = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= right_length; j++) {
      size_t changed = above[j - 1] + (left[i - 1] != right[j - 1]);
      row[j] = smaller(changed, smaller(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        row[j] = smaller(row[j], second[j - 2] + 1);
      }
    }
  }
  return rows[left_length % 3][right_length];
}

const char *nearest_of(const char *word, const char *best, const char *name) {
  size_t limit = strlen(word) / 3 + 1;
  size_t found = distance(word, name);
  size_t prefix = strlen(word);
  if (prefix >= 3 && strncmp(word, name, prefix) == 0) found = 1;
  if (found > limit) return best;
  if (best != NULL && distance(word, best) <= found) return best;
  return name;
}
