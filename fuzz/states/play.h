/* One sequence: two bindings of a session, their saved states, a batch, and the expected values of each. */
#ifndef FUZZ_STATES_PLAY_H
#define FUZZ_STATES_PLAY_H

#include "stage.h"

#include "iobind/batch.h"
#include "model.h"
#include "reach.h"

enum {
  WIDTH = 2,
  FIRST_LENGTH = 2,
  MASK = 1,
  BINDINGS = 2,
  SAVED = 4,
  KEPT = 4,
  STREAMS = 2,
  MOST_NEW = 2,
  SLOTS = 3,
  IDLE = -1,
  UNKNOWN = -1
};

/* Is the state what the model has? */
typedef enum defined {
  DEFINED,
  UNDEFINED, /* after a failed run: no run may read it */
  UNDECIDED  /* either of both */
} defined;

typedef struct player {
  iobind_binding *handle;
  iobind_carry_mode mode;
  value now;    /* what the next run reads */
  value result; /* of the last run */
  defined is_defined;
  bool is_told;          /* the last run has failed; the next call may return its failure */
  bool has_wrong_length; /* it failed because of a length that the caller wrote */
  used counted;          /* positions in use, as iobind counts them */
  bool is_unsure;   /* `counted` is a lower bound: when a run failed, the host may have known that earlier runs were complete */
  used at;          /* the lengths that the inputs hold; UNKNOWN: not bound */
  size_t added;     /* new positions after `at` that are in use, according to the other length input */
  size_t at_width;  /* HIDDEN: the number of new positions for which the inputs are bound */
  bool owns_at;     /* the caller has bound it */
  bool writes_mask; /* HIDDEN: the mask was named as written by the caller */
  size_t mask_rows; /* of the mask that is bound; 0: none */
  iobind_tensor *news[MOST_NEW]; /* for 1 new row, and for 2 */
  size_t news_rows;
  size_t bound; /* the number of new rows that are bound; 0: none, or a tensor that is not in `news` */
  int stream;   /* of runs in flight */
  size_t runs;  /* in flight */
  value before; /* the state before these runs */
  used counted_before;
  bool is_surveyed; /* a length was written since the state changed; the first such write requires that no run is in flight */
  size_t counted_rows; /* rows of the batch when lengths were last written or bound */
} player;

typedef struct saved {
  iobind_state *handle;
  value holds;
  used counted;
  size_t from; /* index of its binding; BINDINGS: none */
  int stream;  /* of the run that writes it; IDLE: complete */
} saved;

typedef struct kept {
  iobind_tensor *tensor;
  value holds;
} kept;

/* Where a run writes its new numbers. */
typedef struct plan {
  size_t count;
  used from;
  bool is_counted;
  bool is_refused; /* no length is bound */
} plan;

/* The positions in use before a run, and how many the run adds to each row. */
typedef struct growth {
  const used *from;
  size_t rows;
  size_t added;
} growth;

/* A row of a batch. */
typedef struct member {
  bool is_here;
  uint64_t slot;
  value holds;
  used counted; /* of the state with which it joined; unknown after its first step */
} member;

typedef struct play {
  uint64_t number;
  uint64_t random;
  kind kind;
  bool captures;
  bool verifies;
  iobind_session *session;
  iobind_batch *batch;
  iobind_pipeline *pipeline;
  iobind_stream *streams[STREAMS];
  player players[BINDINGS];
  saved saved[SAVED];
  kept kept[KEPT];
  member members[SLOTS];
  float base;   /* of the last numbers; each draw gives another one */
  bool is_lost; /* the device is lost: the sequence ends */
} play;

/* ---- play.c ---- */

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void wrong(const play *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t draw(play *self, size_t below);
float draw_base(play *self);

/* Sets of statuses. */
#define STATUS(name) (1u << IOBIND_ERROR_##name)
#define WELL (1u << IOBIND_OK)

/* Check that a call returned one of the expected statuses. True: it returned OK. Its error is in `fault`, which fixture_arm has
 * initialized. */
bool require(const play *self, iobind_status status, unsigned expected, const char *call);
#define CALL(self, expected, call) (fixture_arm(), require((self), (call), (expected), #call))

size_t count_inputs(kind of);
iobind_tensor *make_tensor(const play *self, const value *from, iobind_device *on);
void expect_tensor(const play *self, const value *holds, iobind_tensor *tensor, const char *what);

/* Compare the output of attention for `count` new numbers from `base` on. The positions before `valid` are in use, the new ones
 * included. */
void expect_attention(const play *self, const value *holds, float base, size_t count, const used *valid, iobind_tensor *tensor);

/* Block until all runs in flight on a stream are complete. */
void synchronize(play *self, int stream);
void await_failure(play *self, int stream); /* the same, but work on the stream may have failed */
void make_idle(play *self, player *of);

bool has_faults(void);
bool fails_late(void); /* without the loss of the device */
bool loses_device(void);
void set_fault(const char *setting, const char *when);
int64_t count_work(const char *counter); /* of vcuda's device */
void take_error(void);                   /* recover vcuda's device and clear its error, which hardware cannot do */
iobind_session *open_session_on(kind of, iobind_device *on);

/* The statuses that a call which needs the state may return: OK if it is defined, a failure if it is undefined, either one if it is
 * undecided or if the failure of the last run was not returned yet. */
unsigned expect_state(const player *of);

/* The binding's state was replaced. */
void begin_from(player *of, const value *holds, const used *counted);

/* A change of the state is refused while a run is in flight, unless the host knows that the run is complete. */
bool change(play *self, player *of, iobind_status status, unsigned expected, const char *call);

/* ---- lengths.c ---- */

size_t count_lengths(kind of); /* inputs, from FIRST_LENGTH on */
iobind_tensor *make_lengths(const play *self, size_t which, const growth *by, iobind_device *on);
void name_lengths(const play *self, iobind_binding *binding, bool writes_mask);

/* Choose where the next run writes, and write the lengths. */
void plan_append(play *self, player *of, plan *to, iobind_stream *stream);

/* The same for a run that fails. False: this run cannot be made to fail. */
bool plan_failure(play *self, player *of, plan *to, iobind_stream *stream);
void do_name(play *self, player *of);
void do_wrong_length(play *self, player *of);

/* ---- runs.c ---- */

/* Source memory for writes on streams. It is so large that a write is complete before its memory is reused. */
float *memory(size_t count);

void do_run(play *self, player *of);
void do_refused_run(play *self, player *of);
void do_failed_run(play *self, player *of);
void do_wrong_run(play *self, player *of);

/* ---- moves.c ---- */

void do_save(play *self, player *of);
void do_restore(play *self, player *of);
void do_reorder(play *self, player *of);
void do_rewind(play *self, player *of);
void do_bind(play *self, player *of);
void do_file(play *self);
void do_keep(play *self, player *of);
saved *put_saved(play *self, iobind_state *handle, const value *holds, const used *counted, size_t from);
void check_all_saved(const play *self);
void check_player(play *self, player *of);

value player_holds(const play *self, const player *of); /* the value that a state saved now has */

/* ---- losses.c ---- */

void do_lose(play *self);

/* ---- items.c ---- */

void do_item(play *self);
iobind_pipeline *open_pipeline(const play *self);

/* ---- batches.c ---- */

void do_batch(play *self);
void leave_batch(play *self);
iobind_batch *open_batch(const play *self);

#endif
