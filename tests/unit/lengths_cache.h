/* A cache of rows of numbers, of fixed capacity, whose lengths iobind writes: for the tests of lengths. */
#ifndef IOBIND_TEST_UNIT_LENGTHS_CACHE_H
#define IOBIND_TEST_UNIT_LENGTHS_CACHE_H

#include "stage.h"

enum { CAPACITY = 16, WIDTH = 4, HEADS = 2, SIZE = 16, LAST = -1 };

typedef struct cache {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *state;
  int64_t rows; /* that are bound; 0: none */
} cache;

extern uint32_t verified_runs; /* of the sessions that are created */
extern const iobind_carry_mode modes[3];
extern const char plain[]; /* the model */

iobind_session *session_of(const char *model, size_t graph_limit);
iobind_tensor *filled(const int64_t *dims, size_t rank, float value);
/* Rows of WIDTH numbers, an empty cache of -1. */
cache open_append(const char *model, iobind_carry_mode mode, size_t graph_limit);
void close_cache(cache *self);
void bind_rows(cache *self, int64_t count, float value);
/* One length for all rows of the batch; LAST: as iobind has counted. */
iobind_status write_length(iobind_binding *binding, size_t added, int64_t length, iobind_stream *stream, iobind_error *error);
void append(cache *self, int64_t count, float value, int64_t length);
int64_t rows_of(const iobind_tensor *tensor);
/* The first rows are these numbers, the others -1, or after `*` anything: as far as the state has them. */
void expect_rows(cache *self, const char *numbers);

#endif
