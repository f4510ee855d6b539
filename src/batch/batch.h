/* A live batch. Its states have two sides: a step reads one and writes the other, so a failed step changes nothing. Only this
 * module includes this header.
 *
 * One thread at a time has the batch's turn: it makes a step, waits for the one in flight, tests the model, or moves rows. The
 * mutex protects the tables, and is held only briefly: no thread waits for a device while holding it. A thread with the turn
 * may lock the mutex; a thread with the mutex must not wait for the turn while holding it. */
#ifndef IOBIND_BATCH_BATCH_H
#define IOBIND_BATCH_BATCH_H

#include <string.h>

#include "state/state.h"

enum { IOBIND__MOST_ROWS = 65536, IOBIND__WIDTHS = 17, IOBIND__SIDES = 2 };

/* The layout of rows in a value. The value is [lead, rows, rest], row-major, with the batch axis in the middle. */
typedef struct iobind__layout {
  int32_t axis; /* IOBIND_BATCH_NO_AXIS: all rows share the value */
  size_t lead;  /* pieces of a row */
  size_t piece; /* bytes of a piece */
} iobind__layout;

/* A state: an output, and the input to which it is carried. */
typedef struct iobind__column {
  size_t output;
  size_t input;
  iobind__layout layout;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK]; /* of one row */
} iobind__column;

/* Rows of all states: one tensor for each column. The rows are [lead, width, rest], and begin after `offset` rows of the
 * tensor. */
typedef struct iobind__rows_of {
  iobind_tensor **tensors;
  size_t width;
  size_t offset;
} iobind__rows_of;

/* Adjacent rows of a side, which one run computes. */
typedef struct iobind__block {
  size_t offset;
  size_t width;
} iobind__block;

/* The blocks of a step, which do not overlap. */
typedef struct iobind__blocks {
  iobind__block of[IOBIND__WIDTHS];
  size_t count;
  size_t rows; /* of all blocks */
} iobind__blocks;

/* The move of a row. */
typedef struct iobind__move {
  size_t from;
  size_t to;
} iobind__move;

/* An input of which each row has its own part. */
typedef struct iobind__feed {
  size_t input;
  int32_t axis;
  iobind_tensor *staging; /* host memory for `room` rows; NULL: the dims of a row are not known yet */
  iobind_tensor *target;  /* device memory that the session reads; NULL: it reads `staging` */
  iobind__layout layout;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK]; /* of one row */
  bool is_limited;               /* it has lengths of caches, at most `longest` */
  int64_t longest;
} iobind__feed;

/* A row's part of an input. */
typedef struct iobind__brought {
  bool is_set; /* false: only the memory is kept, to be reused */
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
  void *data;
  size_t bytes;
  iobind_tensor *held; /* a copy in memory that the session reads; NULL: the data are in `data` */
} iobind__brought;

/* The outputs of a step for the rows of a block. */
typedef struct iobind__outcome {
  iobind__ref ref;
  size_t width;
  size_t count;
  iobind_tensor *outputs[]; /* NULL: a state */
} iobind__outcome;

/* Where a row's state is. */
typedef enum iobind__where {
  IOBIND__GONE,   /* the seat has no row */
  IOBIND__SAVED,  /* in the saved state with which the row joined: it has made no step */
  IOBIND__DENSE,  /* in the side that the next step reads */
  IOBIND__STORED, /* in the store, in the row with the seat's number */
} iobind__where;

typedef enum iobind__turnout {
  IOBIND__UNASKED,
  IOBIND__SUBMITTED, /* its step has not ended */
  IOBIND__STEPPED,   /* its step has ended, and was not awaited */
} iobind__turnout;

/* A seat holds a row. The mutex protects it. Only the thread with the turn changes where the row is and whether it is in a
 * step; that thread may read these without the mutex. A row joins a seat that is GONE, which that thread does not read. */
typedef struct iobind__seat {
  uint64_t serial; /* of the row, never reused in any batch */
  iobind__where where;
  size_t dense;             /* DENSE: the row's number in the side */
  iobind_state *state;      /* SAVED; a reference is held */
  bool in_step;             /* of the step that is being made, or is in flight */
  iobind__brought *brought; /* its inputs for the next step, by feed */
  iobind__brought *taken;   /* its inputs for the step that it is in, which belong to the turn */
  iobind__outcome *outcome; /* of its last step; a reference is held; NULL: none */
  size_t row;               /* the row's number in the outcome */
  iobind__turnout turnout;
  uint64_t submitted;     /* the time of its submission */
  iobind_status ended;    /* the outcome of its step, if that was submitted or has failed in flight */
  iobind_error *failure;  /* with its message; NULL: none */
  pthread_cond_t changed; /* for threads that await the row: its step has ended, it has left, or the batch was stopped */
} iobind__seat;

/* What an input of floats has in the test for mixed rows. */
typedef enum iobind__test_data {
  IOBIND__RANDOM,        /* random numbers */
  IOBIND__GIVEN,         /* the data of the step's rows, or of the first state: with random numbers the model's run fails */
  IOBIND__PERHAPS_GIVEN, /* while that is found out */
} iobind__test_data;

enum { IOBIND__NOBODY = -1 };
#define IOBIND__NO_LEADER SIZE_MAX

/* A binding that reads one side and writes the other. */
typedef struct iobind__reader {
  iobind_binding *binding;
  size_t bound; /* the width for which it is bound; 0: it must be bound again */
  bool has_run; /* since it was bound: with graphs, all later runs are replays */
} iobind__reader;

/* The shortest measured time of a run of each width, and of the move of a row. 0: never measured. */
typedef struct iobind__costs {
  uint64_t *runs; /* by width */
  uint64_t move;
} iobind__costs;

struct iobind_batch {
  iobind_session *session; /* a reference is held */
  uint32_t flags;
  double tolerance;
  size_t most;
  /* The session captures graphs: each width is a power of two, and has its own bindings, whose addresses never change. */
  bool captures;
  bool splits; /* a step may be several replays: each power of two has its own block */
  size_t room; /* the greatest width */
  iobind__column *columns;
  size_t column_count;
  iobind__feed *feeds;
  size_t feed_count;
  iobind_tensor **shared; /* by input; NULL: it is not shared, or not set */
  int32_t *input_axes;
  int32_t *output_axes;
  iobind_state *first; /* a reference is held */

  pthread_mutex_t mutex;
  pthread_cond_t submitted; /* for threads that wait to make a step: see iobind__batch_wake */
  size_t enough;            /* the number of submitted rows at which one of them must wake up; SIZE_MAX: none waits */
  pthread_cond_t turned;    /* the turn was released */
  uint64_t tickets;         /* the number of requests for the turn */
  uint64_t served;          /* the number of requests that have released it */
  bool is_stopped;
  iobind__seat *seats;
  size_t row_count;
  uint64_t steps;
  uint64_t moved;

  /* The fields below belong to the turn. Those that iobind_batch_get_info reads change only with the mutex held, too. */
  iobind__rows_of sides[IOBIND__SIDES];
  iobind__rows_of store; /* tensors NULL: no row was ever put aside */
  int side;              /* the side that the next step reads */
  int64_t *dense;        /* the seat of each row of that side, or IOBIND__NOBODY */
  iobind__blocks blocks; /* of the last step */
  size_t leader; /* the seat of the step's row whose inputs all rows get that run without being asked for; IOBIND__NO_LEADER */
  bool *repeats; /* of each row of that side: it is unused, and has the state of the leader's row */
  iobind__reader readers[IOBIND__WIDTHS]
                        [IOBIND__SIDES]; /* with graphs, by the width's power of two; otherwise [0] serves all widths */
  bool *tried;                           /* by width: it was tested */
  iobind__test_data *sources;            /* by input */
  iobind__costs costs;
  bool is_strict; /* a run with rows that were not asked for has failed: such rows do not run along any more */

  iobind_event *flight; /* the end of the step in flight; NULL: none */
  size_t *asked;        /* the seats of the step */
  size_t asked_count;
  size_t *stepped; /* a copy of `asked`, to which iobind_batch_step reports */

  iobind_session *mover; /* the session that moves rows; NULL: not created yet */
  iobind_binding *moving;
};

/* ---- axes.c ---- */

/* Set the axes of all inputs and outputs: the caller's, or those that are found. */
iobind_status iobind__axes_find(iobind_batch *batch, const iobind_batch_options *options, iobind_error *error);

/* The layout of rows in a tensor of these dims. */
iobind__layout iobind__layout_of(iobind_dtype dtype, const int64_t *dims, size_t rank, int32_t axis);

/* ---- memory.c: rows and their tensors ---- */

/* Create tensors for `width` rows of all states, in memory that the session reads. */
iobind_status iobind__rows_make(iobind_batch *batch, size_t width, iobind__rows_of *out, iobind_error *error);
void iobind__rows_free(const iobind_batch *batch, iobind__rows_of *self);

/* A view of a tensor's block. */
iobind_status iobind__rows_view(iobind_tensor *tensor, const iobind__column *column, const iobind__block *block,
                                iobind_tensor **view, iobind_error *error);

/* Make a state of 1 row. On success it takes ownership of the tensors. */
iobind_status iobind__rows_to_state(iobind_batch *batch, iobind__rows_of *rows, iobind_state **out, iobind_error *error);
/* Borrowed tensors of a state, in the order of the columns. */
void iobind__rows_of_state(const iobind_batch *batch, const iobind_state *state, iobind_tensor **tensors);
/* Is a state of the batch's session and pairs? */
iobind_status iobind__batch_check_pairs(const iobind_batch *batch, const iobind_state *state, const char *what,
                                        iobind_error *error);
/* Has a state of these pairs the dims of one row? */
iobind_status iobind__batch_check_dims(const iobind_batch *batch, const iobind_state *state, const char *what,
                                       iobind_error *error);

/* ---- mover.c ---- */

/* Move rows of all states: the host moves them in host memory, and a generated model on a device. `from` and `to` may be the
 * same tensors if no row that is read is written. Complete on return. The mutex is not held. */
iobind_status iobind__rows_move(iobind_batch *batch, const iobind__rows_of *from, const iobind__rows_of *to,
                                const iobind__move *moves, size_t count, iobind_error *error);

/* ---- order.c: which rows a step runs ---- */

size_t iobind__order_width(const iobind_batch *batch, size_t rows); /* the width of a run of exactly these rows */

/* The fastest blocks for the rows that are asked for. */
typedef struct iobind__choice {
  iobind__blocks blocks;
  bool stays; /* rows that are not asked for run along */
} iobind__choice;
iobind__choice iobind__order_choose(const iobind_batch *batch);

/* Move the rows that are asked for into these blocks of the side that the step reads. Unused rows of the blocks get the state of the
 * leader's row, and so repeat it: a state that no row has any more, or that began long ago, may be one that the model cannot take. After an
 * error each seat still has the right location of its row. The mutex is not held. */
iobind_status iobind__order_arrange(iobind_batch *batch, const iobind__choice *choice, iobind_error *error);
/* The rows of the side's block that contains *row; *row becomes the number in that block. */
iobind__rows_of iobind__order_rows(const iobind_batch *batch, int side, const iobind__blocks *blocks, size_t *row);

/* Restore the states of rows that ran along: copy them from before the step into the side that it has written. */
iobind_status iobind__order_put_back(iobind_batch *batch, iobind_error *error);
void iobind__order_leave(iobind_batch *batch, iobind__seat *seat);

/* ---- feed.c ---- */

void iobind__brought_free(iobind__brought *brought);

/* Take the inputs of the step's rows, so that their next inputs can be set. The mutex is held. */
iobind_status iobind__feed_take(iobind_batch *batch, const char *what, iobind_error *error);
/* Copy the rows' inputs, in the order of the side, into memory that the session reads. */
iobind_status iobind__feed_bring(iobind_batch *batch, iobind_stream *stream, iobind_error *error);
/* A view of a block's part of `of`. */
iobind_status iobind__feed_view(const iobind__feed *feed, iobind_tensor *of, const iobind__block *block, iobind_tensor **view,
                                iobind_error *error);
/* Find the inputs that have lengths of caches in the model's graph. */
void iobind__batch_find_lengths(iobind_batch *batch);
/* Are the lengths in a row's data, if it has any, within the capacity of the caches? */
iobind_status iobind__feed_check_lengths(const iobind_batch *batch, const iobind__feed *feed, const iobind_tensor *row,
                                         const void *data, iobind_error *error);
/* The step has failed, possibly in a copy: consume that failure, so that the next step does not return it again. The mutex is
 * not held. */
void iobind__feed_settle(iobind_batch *batch);
/* The step has ended. If it has failed, its inputs stay set for the next step. The mutex is held. */
void iobind__feed_end(iobind_batch *batch, bool has_failed);

/* ---- trial.c ---- */

/* Test that the model does not mix rows at this width, unless that was done before. The mutex is not held. */
iobind_status iobind__batch_try(iobind_batch *batch, size_t width, iobind_error *error);

/* ---- step.c ---- */

/* Make a step of the rows in batch->asked. The turn and the mutex are held; the mutex is released during the step. */
iobind_status iobind__batch_make_step(iobind_batch *batch, iobind_stream *stream, const char *what, iobind_error *error);
/* Block until the step in flight has ended, and return its failure. The turn and the mutex are held; the mutex is released
 * during the wait. */
iobind_status iobind__batch_settle(iobind_batch *batch, iobind_error *error);
/* The seat of a slot, after the step that it is in has ended. The mutex is held, and released during the wait. */
iobind_status iobind__batch_find_idle(iobind_batch *batch, uint64_t slot, const char *what, iobind__seat **seat,
                                      iobind_error *error);
void iobind__outcome_drop(iobind__outcome *outcome);
/* The turn is held, and the mutex is not. */
iobind_status iobind__batch_save_row(iobind_batch *batch, const iobind__seat *seat, iobind_state **state, iobind_error *error);

/* ---- batch.c ---- */

/* The seat of a slot. The mutex is held. */
iobind_status iobind__batch_find(iobind_batch *batch, uint64_t slot, const char *what, iobind__seat **seat,
                                 iobind_error *error);
/* Record the outcome of a row's step for later calls. */
void iobind__seat_end(iobind__seat *seat, iobind_status status, const iobind_error *failure);
iobind_status iobind__seat_get_end(const iobind__seat *seat, const char *what, iobind_error *error);

/* Wake the threads that wait to make a step. Only the first submitted row, enough of them, a smaller number of rows, or a stop can
 * let one go on: a row later than the first does not change the time until which they wait. The mutex is held. */
void iobind__batch_wake(iobind_batch *batch);

/* All readers must be bound again. */
void iobind__batch_rebind(iobind_batch *batch);
/* Threads get the turn in the order of their requests. The mutex is held, and released during the wait. */
void iobind__batch_take_turn(iobind_batch *batch);
void iobind__batch_give_turn(iobind_batch *batch);

static inline size_t iobind__seat_index(const iobind_batch *batch, const iobind__seat *seat) {
  return (size_t)(seat - batch->seats);
}

/* Is the input a state? */
static inline bool iobind__batch_carries(const iobind_batch *batch, size_t input) {
  bool carries = false;
  for (size_t i = 0; i < batch->column_count; i++) {
    carries = carries || batch->columns[i].input == input;
  }
  return carries;
}

/* Is the seat's row in the step? False for IOBIND__NOBODY. */
static inline bool iobind__batch_asks(const iobind_batch *batch, int64_t who) {
  return who != IOBIND__NOBODY && batch->seats[who].in_step;
}

/* Can rows with these inputs make one step? */
static inline bool iobind__brought_alike(const iobind__brought *a, const iobind__brought *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* A slot consists of its row's serial number and its seat's number. */
enum { IOBIND__SEAT_BITS = 17 };
static inline uint64_t iobind__seat_slot(const iobind_batch *batch, const iobind__seat *seat) {
  return seat->serial << IOBIND__SEAT_BITS | iobind__seat_index(batch, seat);
}

#endif
