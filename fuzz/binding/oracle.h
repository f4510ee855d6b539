/* A model of a binding in plain C: what each input reads, where each output is written, the state after a run, and the values in each
 * piece of memory. It follows the public headers alone, not the library's code. */
#ifndef FUZZ_BINDING_ORACLE_H
#define FUZZ_BINDING_ORACLE_H

#include <stdint.h>

#include "iobind/iobind.h"
#include "model.h"
#include "../../tests/rig/calls.h"

enum { STREAMS = 3 };

/* A piece of memory: one that a tensor was made of, or one that a binding has made (a snapshot, a result, a state). */
typedef struct block {
  struct block *next; /* of all that there are */
  size_t refs;
  elements values;
  bool known;           /* the values are what the memory must hold; false: unknown */
  unsigned owner;       /* the binding whose next runs may write it again, by its number: REUSE, SWAP; 0: none */
  unsigned partly_for;  /* a state in place that a failed run of this binding may have written in part; 0: none */
  bool is_reused;       /* of an owner's REUSE output */
  bool is_frozen;       /* a state was saved of it: its tensor may be read-only */
  unsigned given_up_by; /* the binding that was its owner until it became an input, and after how many runs */
  size_t given_up_after;
  bool was_known;                              /* before a stream failed */
  int where;                                   /* the caller's */
  const char *address;                         /* NULL: not seen yet */
  uint64_t touched[STREAMS], written[STREAMS]; /* the last work on each stream that uses it */
} block;

/* A part of a block, counted in elements. A reference on the block is held. */
typedef struct view {
  block *block; /* NULL: nothing */
  size_t offset;
  size_t count;
} view;

block *block_make(size_t count);
void view_set(view *to, view from); /* drops what was there */
void view_drop(view *of);
bool views_overlap(view one, view two);
bool views_equal(view one, view two);
bool view_is_known(view of, unsigned binding); /* for this binding; 0: for anyone */
elements view_read(view of);
void view_write(view to, const float *values); /* known from now on, if all of the block is written or was known */
void view_forget(view of);
extern block *all_blocks;

typedef struct input_shadow {
  iobind_input_mode mode;
  view read;      /* block NULL: not bound */
  bool elsewhere; /* LIVE, and copied before each run: its own memory is never a part of the run */
  int event;      /* -1: none */
  bool torn;      /* a failed run may have written the state in part */
  bool lost;      /* it has: no run reads the state */
} input_shadow;

typedef struct output_shadow {
  int mode;
  view target; /* FIXED, IN_PLACE */
} output_shadow;

typedef enum result_kind {
  RESULT_NONE,
  RESULT_MAYBE, /* the interface does not say whether it can be fetched still; if it can it is right */
  RESULT_HELD,
  RESULT_TAKEN
} result_kind;

typedef struct result_shadow {
  result_kind kind;
  view at;
} result_shadow;

typedef struct carry_shadow {
  bool is_on;
  bool is_due; /* the output is the next state */
  size_t input;
  iobind_carry_mode mode;
} carry_shadow;

typedef struct shadow {
  const model *model;
  unsigned number; /* of the binding, never used twice */
  size_t runs;
  input_shadow inputs[MOST_PORTS];
  output_shadow outputs[MOST_PORTS];
  result_shadow results[MOST_PORTS];
  carry_shadow carries[MOST_PORTS]; /* by output */
} shadow;

/* The statuses that a call may give: one of both sets, or OK if `must` is empty. Sets of 1 << status. */
typedef struct expectation {
  unsigned must;
  unsigned may;
} expectation;
#define STATUS(name) (1u << IOBIND_ERROR_##name)

void shadow_init(shadow *of, const model *from, unsigned number);
void shadow_copy(shadow *to, const shadow *from); /* drops what was there */
void shadow_clear(shadow *of);
carry_shadow *shadow_carry_of_input(shadow *of, size_t input);

/* Carried states become inputs. Results are not touched. */
void shadow_advance(shadow *of);
void shadow_forget_results(shadow *of, result_kind kind);

/* What an input reads next: the state that is due, or what is bound. */
view shadow_next_input(const shadow *of, size_t input);

/* Would the calls be right? `fits` and the like, which depend only on the tensor, are added by the caller. */
void expect_input(const shadow *of, size_t input, iobind_input_mode mode, view read, bool elsewhere, expectation *expected);
void expect_output(const shadow *of, size_t output, int mode, view target, expectation *expected);
void expect_carry(const shadow *of, size_t output, size_t input, iobind_carry_mode mode, expectation *expected);
void expect_check(const shadow *of, expectation *expected);

/* `late`: only ORT finds what is wrong, so that a run on a stream may return OK and fail later. */
void expect_run(const shadow *of, expectation *expected, bool *late);

/* The calls, where they were right. */
void shadow_set_input(shadow *of, size_t input, iobind_input_mode mode, view read, bool elsewhere, int event);
void shadow_set_output(shadow *of, size_t output, int mode, view target);
void shadow_carry(shadow *of, size_t output, size_t input, iobind_carry_mode mode);

/* A run that was right: the results are there, and the memory that it writes holds them. */
void shadow_run(shadow *of);

/* A run that failed and may have begun. */
void shadow_fail(shadow *of);

/* A run has failed in the midst: states in place are lost, and, if it was one of `several`, all of them. */
void shadow_lose_states(shadow *of, bool several);

/* A run may have received the failure of the one before it, which is given up then. */
void shadow_doubt_states(shadow *of);
bool shadow_has_lost(const shadow *of);

/* Would the next run write over what it still has to read? Only IN_PLACE asks for that, where the caller is to know better: such a run
 * has no right result, and is not made. */
bool shadow_is_muddled(const shadow *of);

/* Would the next run write memory that another binding has lent? That binding may use it again, and what it reads then is unknown. */
bool shadow_trespasses(const shadow *of);
bool view_is_anothers(view of, unsigned binding); /* lent by another binding than this one */

/* It is unknown whether a value ends the run. */
bool shadow_is_unforeseeable(const shadow *of);

/* The elements that the next run's outputs will have; false: it cannot run. */
bool shadow_counts(const shadow *of, size_t *outputs);

#endif
