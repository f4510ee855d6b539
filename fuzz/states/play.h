/* One sequence: two bindings of a session, states that were saved of them, a batch, and what all of them must hold. */
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
  UNDEFINED, /* a failed run has left it so: no run reads it */
  UNDECIDED  /* it is one of both */
} defined;

typedef struct player {
  iobind_binding *handle;
  iobind_carry_mode mode;
  value now;    /* what the next run reads */
  value result; /* of the last one */
  defined is_defined;
  bool is_told;          /* the last run has failed, which a call may return */
  bool has_wrong_length; /* so it was, for a length that the caller has written */
  used counted;          /* rows in use, as iobind counts them */
  bool is_unsure; /* they are so many, or more: the host may have known that earlier runs in flight had ended when one failed */
  used at;        /* what the input with the length holds; UNKNOWN: it is not bound */
  size_t added;   /* the numbers that came behind it, as the input for attention says */
  size_t at_width;               /* HIDDEN: for how many new numbers it is bound */
  bool owns_at;                  /* the caller has bound it */
  bool writes_mask;              /* HIDDEN: the mask was named as one that the caller writes */
  size_t mask_rows;              /* of the mask that the caller has bound; 0: none */
  iobind_tensor *news[MOST_NEW]; /* for 1 new row, for 2 */
  size_t news_rows;
  size_t bound; /* how many new rows are bound; 0: none, or not in `news` */
  int stream;   /* of runs in flight */
  size_t runs;  /* these */
  value before; /* them */
  used counted_before;
  bool is_surveyed;    /* since the state was changed a length was written: only the first time no run may be in flight */
  size_t counted_rows; /* of the batch, when a length was counted last */
} player;

typedef struct saved {
  iobind_state *handle;
  value holds;
  used counted;
  size_t from; /* the binding; BINDINGS: none */
  int stream;  /* on which it is made; IDLE: it is there */
} saved;

typedef struct kept {
  iobind_tensor *tensor;
  value holds;
} kept;

/* Where the numbers come that a run adds. */
typedef struct plan {
  size_t count;
  used from;
  bool is_counted;
  bool is_refused; /* no length is bound */
} plan;

/* The numbers in use before a run, and how many it adds to each row. */
typedef struct growth {
  const used *from;
  size_t rows;
  size_t added;
} growth;

/* Rows of a batch. */
typedef struct member {
  bool is_here;
  uint64_t slot;
  value holds;
  used counted; /* of the state that it has joined with, until its first step */
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
  float base;   /* of the next numbers, none of which comes twice */
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

/* The call gave one of them. True: OK. Its error is in `fault`, which fixture_arm has made ready. */
bool require(const play *self, iobind_status status, unsigned expected, const char *call);
#define CALL(self, expected, call) (fixture_arm(), require((self), (call), (expected), #call))

size_t count_inputs(kind of);
iobind_tensor *make_tensor(const play *self, const value *from, iobind_device *on);
void expect_tensor(const play *self, const value *holds, iobind_tensor *tensor, const char *what);

/* What attention gives for `count` numbers from `base` on, which are behind those in use. */
void expect_attention(const play *self, const value *holds, float base, size_t count, const used *valid, iobind_tensor *tensor);

/* Wait for all runs in flight on a stream. */
void synchronize(play *self, int stream);
void await_failure(play *self, int stream); /* something on it has failed, which it may report */
void make_idle(play *self, player *of);

bool has_faults(void);
bool fails_late(void); /* without the loss of the device */
bool loses_device(void);
void set_fault(const char *setting, const char *when);
int64_t count_work(const char *counter); /* of vcuda's device */
void take_error(void);                   /* of vcuda's device, which no GPU does */
iobind_session *open_session_on(kind of, iobind_device *on);

/* What a call that needs the state may return: it is defined, undefined, or the failure of the last run comes first. */
unsigned expect_state(const player *of);

/* The state is another one. */
void begin_from(player *of, const value *holds, const used *counted);

/* While a run is in flight a change is refused. Only if the host knows that it has ended, it is not. */
bool change(play *self, player *of, iobind_status status, unsigned expected, const char *call);

/* ---- lengths.c ---- */

size_t count_lengths(kind of); /* inputs, from FIRST_LENGTH on */
iobind_tensor *make_lengths(const play *self, size_t which, const growth *by, iobind_device *on);
void name_lengths(const play *self, iobind_binding *binding, bool writes_mask);

/* Decide where the next run writes, and write it. */
void plan_append(play *self, player *of, plan *to, iobind_stream *stream);

/* The same for a run that fails. False: it cannot be made so. */
bool plan_failure(play *self, player *of, plan *to, iobind_stream *stream);
void do_name(play *self, player *of);
void do_wrong_length(play *self, player *of);

/* ---- runs.c ---- */

/* Memory for what is written on streams: so much that all of it has arrived before it is used again. */
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

value player_holds(const play *self, const player *of); /* as a state that is saved now has it */

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
