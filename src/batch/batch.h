/* A live batch. Its states lie in two sides: a step reads one and writes the other, so that a step that fails has changed nothing. Only this
 * module includes this header.
 *
 * One thread at a time has the batch's turn: it makes a step, waits for the one in flight, tests the model, or moves rows. The mutex covers the
 * tables, and is held for moments: nobody waits for a device with it. A thread that has the turn may take the mutex, and not the reverse. */
#ifndef IOBIND_BATCH_BATCH_H
#define IOBIND_BATCH_BATCH_H

#include <string.h>

#include "state/state.h"

enum { IOBIND__MOST_ROWS = 65536, IOBIND__WIDTHS = 17, IOBIND__SIDES = 2 };

/* What of a value belongs to a row: the value is [lead, rows, rest], row-major, with the batch axis in the middle. */
typedef struct iobind__layout {
  int32_t axis; /* IOBIND_BATCH_NO_AXIS: all of it belongs to all rows */
  size_t lead;  /* pieces of a row */
  size_t piece; /* bytes of one */
} iobind__layout;

/* A state: an output and the input that it becomes. */
typedef struct iobind__column {
  size_t output;
  size_t input;
  iobind__layout layout;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK]; /* of one row */
} iobind__column;

/* Rows of all states: one tensor for each column, whose memory is [lead, width, rest] behind `offset` rows. */
typedef struct iobind__rows_of {
  iobind_tensor **tensors;
  size_t width;
  size_t offset;
} iobind__rows_of;

/* Rows next to each other in a side, which one run computes. */
typedef struct iobind__block {
  size_t offset;
  size_t width;
} iobind__block;

/* Those of a step: no two overlap. */
typedef struct iobind__blocks {
  iobind__block of[IOBIND__WIDTHS];
  size_t count;
  size_t rows; /* of all */
} iobind__blocks;

/* A row that moves. */
typedef struct iobind__move {
  size_t from;
  size_t to;
} iobind__move;

/* An input that each row brings. */
typedef struct iobind__feed {
  size_t input;
  int32_t axis;
  iobind_tensor *staging; /* host memory for the most rows; NULL: the dims of a row are not known */
  iobind_tensor *target;  /* where the session reads it, if that is not the staging */
  iobind__layout layout;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK]; /* of one row */
} iobind__feed;

/* What a row has brought for an input. */
typedef struct iobind__brought {
  bool is_set; /* otherwise only its memory counts */
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
  void *data;
  size_t bytes;
} iobind__brought;

/* The outputs of a step, for the rows of a block. */
typedef struct iobind__outcome {
  iobind__ref ref;
  size_t width;
  size_t count;
  iobind_tensor *outputs[]; /* NULL: a state */
} iobind__outcome;

/* Where the state of a row is. */
typedef enum iobind__where {
  IOBIND__GONE,   /* there is no row */
  IOBIND__SAVED,  /* in a saved state: the row has made no step since it joined */
  IOBIND__DENSE,  /* in the side that the next step reads */
  IOBIND__STORED, /* in the store, in the row of the seat's number */
} iobind__where;

typedef enum iobind__turnout {
  IOBIND__UNASKED,
  IOBIND__SUBMITTED, /* until its step has ended */
  IOBIND__STEPPED,   /* and not awaited */
} iobind__turnout;

/* The mutex guards it. What says where a row is, and whether it is in a step, the thread with the turn alone changes; it may look without the
 * mutex. A row joins a seat that is GONE, which that thread does not look at. */
typedef struct iobind__seat {
  uint64_t serial; /* of the row, which no row of any batch ever has again */
  iobind__where where;
  size_t dense;             /* DENSE: its row in the side */
  iobind_state *state;      /* SAVED; a reference is held */
  bool in_step;             /* of the step that is made, or is in flight */
  iobind__brought *brought; /* for the row's next step, one for each feed */
  iobind__brought *taken;   /* by the step that it is in: the turn's */
  iobind__outcome *outcome; /* of its last step; a reference is held; NULL: none */
  size_t row;               /* in it */
  iobind__turnout turnout;
  uint64_t submitted;    /* when */
  iobind_status ended;   /* how its step ended, if that was submitted, or has failed in flight */
  iobind_error *failure; /* and the words for it; NULL: none */
} iobind__seat;

enum { IOBIND__NOBODY = -1 };

/* A binding that reads a side and writes the other one. */
typedef struct iobind__reader {
  iobind_binding *binding;
  size_t bound; /* the width that it is bound for; 0: it must be bound again */
  bool has_run; /* as it is bound: of a captured width all later runs are replays */
} iobind__reader;

/* The least time of a run of a width, and of the move of a row: 0 if that was never measured. */
typedef struct iobind__costs {
  uint64_t *runs; /* one for each width */
  uint64_t move;
} iobind__costs;

struct iobind_batch {
  iobind_session *session; /* a reference is held */
  uint32_t flags;
  double tolerance;
  size_t most;
  bool captures; /* the session captures graphs: each width is a power of two, with bindings of its own, whose addresses stay */
  bool splits;   /* a step may be several replays: a power of two has a block of its own */
  size_t room;   /* the greatest width */
  iobind__column *columns;
  size_t column_count;
  iobind__feed *feeds;
  size_t feed_count;
  iobind_tensor **shared; /* one for each input; NULL: it is no shared input, or not set */
  int32_t *input_axes;
  int32_t *output_axes;
  iobind_state *first; /* a reference is held */

  pthread_mutex_t mutex;
  pthread_cond_t changed; /* a row was submitted, has made its step, or has left; or the batch was stopped */
  pthread_cond_t turned;  /* the turn was given back */
  uint64_t tickets;       /* for the turn, which were drawn */
  uint64_t served;        /* of them; the first one that is not has the turn */
  bool is_stopped;
  iobind__seat *seats;
  size_t row_count;
  uint64_t steps;
  uint64_t moved;

  /* What follows is the turn's. What iobind_batch_get_info reads of it changes with the mutex held, too. */
  iobind__rows_of sides[IOBIND__SIDES];
  iobind__rows_of store; /* no tensors: nothing was ever put aside */
  int side;              /* that the next step reads */
  int64_t *dense;        /* who has each row of it, or IOBIND__NOBODY */
  iobind__blocks blocks; /* of the last step */
  iobind__reader readers[IOBIND__WIDTHS]
                        [IOBIND__SIDES]; /* of each power of two that is captured; otherwise of all widths, the first ones */
  bool *tried;                           /* the widths that were tested */
  iobind__costs costs;
  bool is_strict; /* a run has failed with rows that were not asked for: none runs along any more */

  iobind_event *flight; /* the end of a step in flight; NULL: none */
  size_t *asked;        /* the seats of the step */
  size_t asked_count;
  size_t *stepped; /* the same, for iobind_batch_step to report to */

  iobind_session *mover; /* NULL: not needed until now */
  iobind_binding *moving;
};

/* ---- axes.c ---- */

/* The axes of all inputs and outputs, given or found. */
iobind_status iobind__axes_find(iobind_batch *batch, const iobind_batch_options *options, iobind_error *error);

/* How rows lie in a tensor of such dims. */
iobind__layout iobind__layout_of(iobind_dtype dtype, const int64_t *dims, size_t rank, int32_t axis);

/* ---- memory.c: rows and their tensors ---- */

/* Tensors for `width` rows of all states, where the session reads them. */
iobind_status iobind__rows_make(iobind_batch *batch, size_t width, iobind__rows_of *out, iobind_error *error);
void iobind__rows_free(const iobind_batch *batch, iobind__rows_of *self);

/* A view of a block of a tensor. */
iobind_status iobind__rows_view(iobind_tensor *tensor, const iobind__column *column, const iobind__block *block,
                                iobind_tensor **view, iobind_error *error);

/* A state of 1 row whose tensors are these, which are taken. */
iobind_status iobind__rows_to_state(iobind_batch *batch, iobind__rows_of *rows, iobind_state **out, iobind_error *error);
/* Borrowed tensors of a state, in the order of the columns. */
void iobind__rows_of_state(const iobind_batch *batch, const iobind_state *state, iobind_tensor **tensors);
iobind_status iobind__batch_check_state(const iobind_batch *batch, const iobind_state *state, const char *what,
                                        iobind_error *error);

/* ---- mover.c ---- */

/* Move rows of all states, the mutex not held, on the host by the host and on a device by a generated model there. `from` and `to` may be the same rows, if no row
 * that is read is written. Complete on return. */
iobind_status iobind__rows_move(iobind_batch *batch, const iobind__rows_of *from, const iobind__rows_of *to,
                                const iobind__move *moves, size_t count, iobind_error *error);

/* ---- order.c: which rows a step runs ---- */

size_t iobind__order_width(const iobind_batch *batch, size_t rows); /* of a run of so many rows and no others */

/* The cheapest blocks for the rows that are asked for. */
typedef struct iobind__choice {
  iobind__blocks blocks;
  bool stays; /* rows that are not asked for run along */
} iobind__choice;
iobind__choice iobind__order_choose(const iobind_batch *batch);

/* Bring the rows that are asked for into these blocks of the side that the step reads. After an error each row is where its seat says. The mutex is
 * not held. */
iobind_status iobind__order_arrange(iobind_batch *batch, const iobind__choice *choice, iobind_error *error);
/* The rows of a side with which this one lies, and its number among them. */
iobind__rows_of iobind__order_rows(const iobind_batch *batch, int side, const iobind__blocks *blocks, size_t *row);

/* Write the states of the rows that ran and were not asked for as they were before the step into the other side. */
iobind_status iobind__order_put_back(iobind_batch *batch, iobind_error *error);
void iobind__order_leave(iobind_batch *batch, iobind__seat *seat);

/* ---- feed.c ---- */

/* The step takes what its rows have brought, so that they may bring the next. The mutex is held. */
iobind_status iobind__feed_take(iobind_batch *batch, const char *what, iobind_error *error);
/* The inputs of the rows that are asked for, in the order of the side, where the session reads them. */
iobind_status iobind__feed_bring(iobind_batch *batch, iobind_stream *stream, iobind_error *error);
/* A tensor over the memory of a block. */
iobind_status iobind__feed_view(const iobind__feed *feed, iobind_tensor *of, const iobind__block *block, iobind_tensor **view,
                                iobind_error *error);
/* The step has failed, perhaps by a copy: nobody is told that once more. The mutex is not held. */
void iobind__feed_settle(iobind_batch *batch);
/* The step has ended: what it has taken is needed again only if it failed. The mutex is held. */
void iobind__feed_end(iobind_batch *batch, bool has_failed);

/* ---- trial.c ---- */

/* Test that rows are not mixed, for a step of this width, unless that was done. The mutex is not held. */
iobind_status iobind__batch_try(iobind_batch *batch, size_t width, iobind_error *error);

/* ---- step.c ---- */

/* A step of the rows in batch->asked. The turn and the mutex are held, this one not while the step is made. */
iobind_status iobind__batch_make_step(iobind_batch *batch, iobind_stream *stream, const char *what, iobind_error *error);
/* The end of the step in flight, and its failure. The turn and the mutex are held, this one not while it waits. */
iobind_status iobind__batch_settle(iobind_batch *batch, iobind_error *error);
/* The seat of a slot, after the step that it is in. The mutex is held, but while this waits. */
iobind_status iobind__batch_find_idle(iobind_batch *batch, uint64_t slot, const char *what, iobind__seat **seat,
                                      iobind_error *error);
void iobind__outcome_drop(iobind__outcome *outcome);
/* The turn is held, and the mutex is not. */
iobind_status iobind__batch_save_row(iobind_batch *batch, const iobind__seat *seat, iobind_state **state, iobind_error *error);

/* ---- batch.c ---- */

/* The seat of a slot. The mutex is held. */
iobind_status iobind__batch_find(iobind_batch *batch, uint64_t slot, const char *what, iobind__seat **seat,
                                 iobind_error *error);
/* The end of a row's step, for the calls that ask for it later. */
void iobind__seat_end(iobind__seat *seat, iobind_status status, const iobind_error *failure);
iobind_status iobind__seat_get_end(const iobind__seat *seat, const char *what, iobind_error *error);

/* What is bound is not what must be. */
void iobind__batch_rebind(iobind_batch *batch);
/* Threads have the turn in the order in which they ask for it. The mutex is held, but while they wait. */
void iobind__batch_take_turn(iobind_batch *batch);
void iobind__batch_give_turn(iobind_batch *batch);

static inline size_t iobind__seat_index(const iobind_batch *batch, const iobind__seat *seat) {
  return (size_t)(seat - batch->seats);
}

/* Has the input a state? */
static inline bool iobind__batch_carries(const iobind_batch *batch, size_t input) {
  bool carries = false;
  for (size_t i = 0; i < batch->column_count; i++) {
    carries = carries || batch->columns[i].input == input;
  }
  return carries;
}

/* Is the row of a seat one of the step's? IOBIND__NOBODY is not. */
static inline bool iobind__batch_asks(const iobind_batch *batch, int64_t who) {
  return who != IOBIND__NOBODY && batch->seats[who].in_step;
}

/* Can rows that have brought these make one step? */
static inline bool iobind__brought_alike(const iobind__brought *a, const iobind__brought *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* A slot is the serial number of its row, and the number of its seat. */
enum { IOBIND__SEAT_BITS = 17 };
static inline uint64_t iobind__seat_slot(const iobind_batch *batch, const iobind__seat *seat) {
  return seat->serial << IOBIND__SEAT_BITS | iobind__seat_index(batch, seat);
}

#endif
