/* A model of a binding in plain C: what each input reads, where each output is written, the state after a run, and the values in each
 * piece of memory. It follows only the public headers, not the library's code. */
#ifndef FUZZ_BINDING_ORACLE_H
#define FUZZ_BINDING_ORACLE_H

#include <stdint.h>

#include "iobind/iobind.h"
#include "model.h"
#include "../../tests/rig/calls.h"

enum { STREAMS = 3 };

/* A piece of memory: that of a tensor, or memory that a binding has allocated (a snapshot, a result, a state). */
typedef struct block {
  struct block *next; /* in the list of all */
  size_t refs;
  elements values;
  bool known;           /* the memory must hold `values`; false: unknown */
  unsigned owner;       /* number of the binding whose next runs may write it again (REUSE, SWAP); 0: none */
  unsigned partly_for;  /* number of the binding of which a failed run may have partly written this IN_PLACE state; 0: none */
  bool is_reused;       /* of the owner's REUSE output */
  bool is_frozen;       /* a saved state refers to it: its tensor may be read-only */
  unsigned given_up_by; /* the binding that owned it until it became an input, and the number of runs then */
  size_t given_up_after;
  bool was_known;                              /* before a stream failed */
  int where;                                   /* a PLACE_ value */
  const char *address;                         /* NULL: not seen yet */
  uint64_t touched[STREAMS], written[STREAMS]; /* number of the last work on each stream that uses or writes it */
} block;

/* A part of a block, in elements. It holds a reference to the block. */
typedef struct view {
  block *block; /* NULL: nothing */
  size_t offset;
  size_t count;
} view;

block *block_make(size_t count);
void view_set(view *to, view from); /* drops the old view */
void view_drop(view *of);
bool views_overlap(view one, view two);
bool views_equal(view one, view two);
bool view_is_known(view of, unsigned binding); /* for this binding; 0: for all */
elements view_read(view of);
void view_write(view to, const float *values); /* the values become known if the whole block is written or was known */
void view_forget(view of);
extern block *all_blocks;

typedef struct input_shadow {
  iobind_input_mode mode;
  view read;      /* block NULL: not bound */
  bool elsewhere; /* LIVE, and copied before each run: the run does not use its own memory */
  int event;      /* -1: none */
  bool torn;      /* a failed run may have partly written the state */
  bool lost;      /* a failed run has: no run may read the state */
} input_shadow;

typedef struct output_shadow {
  int mode;
  view target; /* FIXED, IN_PLACE */
} output_shadow;

typedef enum result_kind {
  RESULT_NONE,
  RESULT_MAYBE, /* the header does not document whether it can still be fetched; if it can, it must be right */
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
  unsigned number; /* of the binding; not reused */
  size_t runs;
  input_shadow inputs[MOST_PORTS];
  output_shadow outputs[MOST_PORTS];
  result_shadow results[MOST_PORTS];
  carry_shadow carries[MOST_PORTS]; /* by output */
} shadow;

/* The statuses that a call may return: one of both sets, or OK if `must` is empty. Sets of 1 << status. */
typedef struct expectation {
  unsigned must;
  unsigned may;
} expectation;
#define STATUS(name) (1u << IOBIND_ERROR_##name)

void shadow_init(shadow *of, const model *from, unsigned number);
void shadow_copy(shadow *to, const shadow *from); /* drops the old content */
void shadow_clear(shadow *of);
carry_shadow *shadow_carry_of_input(shadow *of, size_t input);

/* Carried states become inputs. Results are unchanged. */
void shadow_advance(shadow *of);
void shadow_forget_results(shadow *of, result_kind kind);

/* What an input reads in the next run: the state that is due, or the bound memory. */
view shadow_next_input(const shadow *of, size_t input);

/* The expected statuses of calls. The caller adds those that depend only on the tensor. */
void expect_input(const shadow *of, size_t input, iobind_input_mode mode, view read, bool elsewhere, expectation *expected);
void expect_output(const shadow *of, size_t output, int mode, view target, expectation *expected);
void expect_carry(const shadow *of, size_t output, size_t input, iobind_carry_mode mode, expectation *expected);
void expect_check(const shadow *of, expectation *expected);

/* `late`: only ORT finds the error, so a run on a stream may return OK and fail later. */
void expect_run(const shadow *of, expectation *expected, bool *late);

/* The effects of successful calls. */
void shadow_set_input(shadow *of, size_t input, iobind_input_mode mode, view read, bool elsewhere, int event);
void shadow_set_output(shadow *of, size_t output, int mode, view target);
void shadow_carry(shadow *of, size_t output, size_t input, iobind_carry_mode mode);

/* A successful run: the memory that it writes holds the results. */
void shadow_run(shadow *of);

/* A failed run that may have begun. */
void shadow_fail(shadow *of);

/* A run has failed after it began: IN_PLACE states are lost; if it was one of `several` runs, all states are lost. */
void shadow_lose_states(shadow *of, bool several);

/* A run may have returned the failure of the preceding run, whose state is lost then. */
void shadow_doubt_states(shadow *of);
bool shadow_has_lost(const shadow *of);

/* Would the next run overwrite memory that it still has to read? Only IN_PLACE allows this, as the caller is responsible. Such a run
 * has an undefined result, and is not made. */
bool shadow_is_muddled(const shadow *of);

/* Would the next run write memory that another binding has lent? That binding may use it again, and would then read unknown values. */
bool shadow_trespasses(const shadow *of);
bool view_is_anothers(view of, unsigned binding); /* lent by another binding */

/* Is it unknown whether a value makes the run fail? */
bool shadow_is_unforeseeable(const shadow *of);

/* The numbers of elements of the next run's outputs. False: it cannot run. */
bool shadow_counts(const shadow *of, size_t *outputs);

#endif
