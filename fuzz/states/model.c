#include "model.h"

#include <math.h>
#include <stdio.h>

enum { ROWS_APART = 1000, PLACES_APART = 4000 };

bool kind_is_cache(kind of) {
  return of == APPEND || kind_attends(of);
}

bool kind_attends(kind of) {
  return of == ATTEND || of == HIDDEN;
}

used used_none(void) {
  return (used){.longest = -1};
}

used used_all(int64_t length) {
  return (used){.longest = length};
}

int64_t used_at(const used *self, size_t row) {
  return self->longest - self->behind[row];
}

bool used_is_uneven(const used *self, size_t rows) {
  bool found = false;
  for (size_t row = 0; row < rows; row++) {
    found = found || self->behind[row] != 0;
  }
  return found;
}

used used_of(const int64_t *lengths, size_t rows) {
  used made = {.longest = lengths[0]};
  for (size_t row = 0; row < rows; row++) {
    made.longest = lengths[row] > made.longest ? lengths[row] : made.longest;
  }
  for (size_t row = 0; row < rows; row++) {
    made.behind[row] = made.longest - lengths[row];
  }
  return made;
}

used used_cut(const used *self, size_t rows, int64_t most) {
  used made = {.longest = most};
  for (size_t row = 0; row < rows; row++) {
    made.behind[row] = used_at(self, row) < most ? most - used_at(self, row) : 0;
  }
  return made;
}

used used_least(const used *one, const used *other, size_t rows) {
  int64_t lengths[ROWS];
  for (size_t row = 0; row < rows; row++) {
    lengths[row] = used_at(one, row) < used_at(other, row) ? used_at(one, row) : used_at(other, row);
  }
  return used_of(lengths, rows);
}

used used_take(const used *self, const int64_t *rows, size_t count) {
  int64_t lengths[ROWS];
  for (size_t row = 0; row < count; row++) {
    lengths[row] = used_at(self, (size_t)rows[row]);
  }
  return used_of(lengths, count);
}

float model_number(float base, size_t row, size_t place) {
  return base + (float)(row * ROWS_APART + place * PLACES_APART);
}

size_t model_length(kind of, const value *at) {
  return kind_is_cache(of) ? CAPACITY : of == GROW ? at->length : 1;
}

value model_first(kind of, size_t rows, size_t length, float base) {
  value made = {.rows = rows, .length = length};
  for (size_t row = 0; row < rows; row++) {
    for (size_t i = 0; i < model_length(of, &made); i++) {
      made.numbers[row][i] = model_number(base, row, i);
      made.known[row][i] = true;
    }
  }
  return made;
}

void model_run(kind of, value *at, float base, size_t count, const used *from) {
  for (size_t row = 0; row < at->rows; row++) {
    size_t first = kind_is_cache(of) ? (size_t)used_at(from, row) : of == GROW ? at->length : 0;
    for (size_t i = 0; i < count; i++) {
      float *number = &at->numbers[row][first + i];
      *number = (of == SUM ? *number : 0) + model_number(base, row, i);
      at->known[row][first + i] = of != SUM || at->known[row][first + i];
    }
  }
  at->length += of == GROW ? count : 0;
}

void model_reorder(value *at, const int64_t *rows, size_t count) {
  const value old = *at;
  at->rows = count;
  for (size_t row = 0; row < count; row++) {
    for (size_t i = 0; i < CAPACITY; i++) {
      at->numbers[row][i] = old.numbers[rows[row]][i];
      at->known[row][i] = old.known[rows[row]][i];
    }
  }
}

void model_forget(value *at, const used *first) {
  for (size_t row = 0; row < ROWS; row++) {
    for (size_t i = (size_t)used_at(first, row); i < CAPACITY; i++) {
      at->known[row][i] = false;
    }
  }
}

const char *model_differs(kind of, const value *expected, const float *numbers, size_t length) {
  static char text[96];
  size_t own = model_length(of, expected);
  if (kind_is_cache(of) ? length > own : length != own) {
    snprintf(text, sizeof text, "expected a length of %zu, got %zu", own, length);
    return text;
  }
  for (size_t row = 0; row < expected->rows; row++) {
    for (size_t i = 0; i < length; i++) {
      float got = numbers[row * length + i];
      if (expected->known[row][i] && got != expected->numbers[row][i]) {
        snprintf(text, sizeof text, "row %zu, index %zu: expected %g, got %g", row, i, (double)expected->numbers[row][i],
                 (double)got);
        return text;
      }
    }
  }
  return NULL;
}

/* The range of the numbers to which a row attends. */
typedef struct range {
  float least;
  float second;
  float largest;
} range;

/* False: one of the numbers is unknown. */
static bool find_range(const value *holds, size_t row, size_t count, range *found) {
  bool known = true;
  *found = (range){.least = INFINITY, .second = -INFINITY, .largest = -INFINITY};
  for (size_t i = 0; i < count; i++) {
    float number = holds->numbers[row][i];
    known = known && holds->known[row][i];
    found->least = fminf(found->least, number);
    found->second = fmaxf(found->second, fminf(found->largest, number));
    found->largest = fmaxf(found->largest, number);
  }
  return known;
}

/* If the scores are far apart, all of the weight is on the largest number. */
const char *model_attention_differs(const value *holds, float base, size_t count, const used *valid, const float *numbers) {
  enum { FAR = 60 };
  static const float exact = 1e-5F;
  static char text[96];
  for (size_t row = 0; row < holds->rows; row++) {
    range in;
    if (!find_range(holds, row, (size_t)used_at(valid, row), &in)) continue;
    for (size_t i = 0; i < count; i++) {
      bool is_far = (in.largest - in.second) * model_number(base, row, i) > FAR;
      float least = is_far ? in.largest : in.least;
      float got = numbers[row * count + i];
      if (got >= least - in.largest * exact && got <= in.largest + in.largest * exact) continue;
      snprintf(text, sizeof text, "attention of row %zu: expected %g .. %g, got %g", row, (double)least, (double)in.largest,
               (double)got);
      return text;
    }
  }
  return NULL;
}
