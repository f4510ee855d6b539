/* A state in plain C: a few rows of a batch, each with some numbers. */
#ifndef FUZZ_STATES_MODEL_H
#define FUZZ_STATES_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROWS = 3, CAPACITY = 8 };

/* What a run does to the state. */
typedef enum kind {
  APPEND, /* a cache of fixed capacity: new numbers are written from a given position on */
  ATTEND, /* the same, and each new number attends to those in use */
  HIDDEN, /* the same, but the model's graph does not show which inputs are lengths: the caller names them */
  GROW,   /* new numbers are appended */
  SUM     /* one number, to which another one is added */
} kind;

bool kind_is_cache(kind of);
bool kind_attends(kind of);

/* The number of positions of a cache that are in use, for each row. */
typedef struct used {
  int64_t longest;      /* -1: iobind does not count it */
  int64_t behind[ROWS]; /* how much shorter each row is */
} used;

used used_none(void);
used used_all(int64_t length);
int64_t used_at(const used *self, size_t row);
bool used_is_uneven(const used *self, size_t rows);
used used_of(const int64_t *lengths, size_t rows);
used used_cut(const used *self, size_t rows, int64_t most);
used used_least(const used *one, const used *other, size_t rows);
used used_take(const used *self, const int64_t *rows, size_t count);

typedef struct value {
  size_t rows;
  size_t length; /* of GROW; that of the others is fixed */
  float numbers[ROWS][CAPACITY];
  bool known[ROWS][CAPACITY]; /* false: the number is not checked */
} value;

/* The number that a run adds to row `row` as its new number `place`. */
float model_number(float base, size_t row, size_t place);

size_t model_length(kind of, const value *at);

value model_first(kind of, size_t rows, size_t length, float base);
void model_run(kind of, value *at, float base, size_t count, const used *from);
void model_reorder(value *at, const int64_t *rows, size_t count);

/* The numbers of each row from position `first` on become unknown. */
void model_forget(value *at, const used *first);

/* NULL, or a text with the row and position that differ. `numbers` has `length` numbers for each row. */
const char *model_differs(kind of, const value *expected, const float *numbers, size_t length);

/* The same for the output of attention for `count` new numbers, if the positions before `valid` are in use. */
const char *model_attention_differs(const value *holds, float base, size_t count, const used *valid, const float *numbers);

#endif
