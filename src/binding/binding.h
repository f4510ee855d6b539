/* A session's inputs and outputs, bound to memory. The modules below use only these functions, no fields. */
#ifndef IOBIND_BINDING_BINDING_H
#define IOBIND_BINDING_BINDING_H

#include "binding/marks.h"
#include "binding/used.h"
#include "session/session.h"

enum { IOBIND__NOT_CARRIED = -1 };

/* What is bound to an input. */
typedef struct iobind__input_view {
  iobind_input_mode mode;
  const iobind_tensor *tensor; /* what the session reads; NULL: not bound */
  const iobind_tensor *source; /* LIVE: the tensor that is copied there before each run; NULL: none */
  int64_t carried_from;        /* the output that becomes this input, or IOBIND__NOT_CARRIED */
} iobind__input_view;

/* The modes of an output: those that allocate one are the caller's iobind_output_mode, the others are bound to a tensor. */
typedef enum iobind__output_mode {
  IOBIND__OUTPUT_FRESH = IOBIND_OUTPUT_FRESH,
  IOBIND__OUTPUT_REUSE = IOBIND_OUTPUT_REUSE,
  IOBIND__OUTPUT_NONE = IOBIND_OUTPUT_NONE,
  IOBIND__OUTPUT_FIXED,
  IOBIND__OUTPUT_IN_PLACE
} iobind__output_mode;

/* What is bound to an output. */
typedef struct iobind__output_view {
  iobind__output_mode mode;
  const iobind__place *place; /* its memory location */
  bool is_passthrough;        /* the model passes an input through, which iobind copies after each run */
} iobind__output_view;

iobind_session *iobind__binding_session(const iobind_binding *binding);

iobind__input_view iobind__binding_view_input(const iobind_binding *binding, size_t index);
iobind__output_view iobind__binding_view_output(const iobind_binding *binding, size_t index);

/* An output that becomes an input. */
typedef struct iobind__pair {
  size_t output;
  size_t input;
} iobind__pair;

size_t iobind__binding_count_carries(const iobind_binding *binding);
iobind__pair iobind__binding_view_carry(const iobind_binding *binding, size_t index);

/* A state that is a cache of fixed capacity, of which the first rows are in use: its tensor has at least these. */
typedef struct iobind__prefix {
  bool is_used; /* false: all of the tensor is the state, as for any other kind */
  size_t axis;
  int64_t length;
  int64_t capacity;
} iobind__prefix;

/* A tensor that is such a state of an input. */
typedef struct iobind__cache {
  iobind_session *session;
  size_t input;
  iobind_tensor *tensor;
  const iobind__prefix *prefix;
} iobind__cache;

/* The content of all carried inputs at one time: a state for each carry, in their order. */
typedef struct iobind__states {
  iobind_tensor **tensors;
  iobind__prefix *prefixes; /* NULL: all of each tensor is the state */
  iobind_event *made;       /* signaled when they are written; NULL: they are complete */
  bool are_shared;          /* none was copied: no run writes what the binding reads */
} iobind__states;

/* Fill in the arrays, with references for the caller to tensors that no run writes, and an event that the caller destroys. */
iobind_status iobind__binding_save(iobind_binding *binding, iobind__states *out, iobind_error *error);

iobind__marks *iobind__binding_marks(iobind_binding *binding);

/* What the next run reads as the input of a carry; borrowed. No run is in flight. */
iobind_status iobind__binding_peek_state(iobind_binding *binding, size_t index, const char *what, iobind_tensor **state,
                                         iobind_error *error);

/* The next run reads these states, which are of the types of its inputs. The first `marks` marks remain valid. No run is in flight. */
iobind_status iobind__binding_restore(iobind_binding *binding, iobind__states *from, size_t marks, iobind_error *error);

/* The lengths of the carried caches of fixed capacity, which the binding holds. */
iobind__used iobind__binding_get_used(const iobind_binding *binding);
void iobind__binding_set_used(iobind_binding *binding, iobind__used used);

/* Return to a shorter length, which is known; rows of the batch that are shorter remain so. No run is in flight. */
iobind_status iobind__binding_rewind_length(iobind_binding *binding, int64_t length, const char *name, iobind_error *error);

/* Bytes of an output: of its given tensor, of the last run, or by its dims if all are fixed. */
iobind_status iobind__binding_output_bytes(iobind_binding *binding, size_t index, uint64_t *bytes, bool *known,
                                           iobind_error *error);

/* INVALID_STATE while a run is in flight: on another thread, or on a stream whose completion the host has not seen. */
iobind_status iobind__binding_check_idle(iobind_binding *binding, const char *what, iobind_error *error);

/* As iobind_binding_check, once after each change. `what` names the call. */
iobind_status iobind__binding_check_once(iobind_binding *binding, const char *what, iobind_error *error);

/* The number of the binding's captured graphs, which use bound memory at its present addresses. */
size_t iobind__graphs_count(const iobind_binding *binding);

/* Drop the graphs that read or write memory of the tensor. */
void iobind__graphs_forget_memory(iobind_binding *binding, const iobind_tensor *tensor);

/* Who uses the binding's captured graphs. A trial's graphs are not tried themselves. A pipeline's slot runs without a graph where a caller's binding is
 * refused one, because no caller can call iobind_binding_reset_graphs for it. */
typedef enum iobind__graphs_user {
  IOBIND__GRAPHS_OF_CALLER,
  IOBIND__GRAPHS_OF_SLOT,
  IOBIND__GRAPHS_OF_TRIAL
} iobind__graphs_user;

void iobind__graphs_serve(iobind_binding *binding, iobind__graphs_user user);

/* Borrow an output of a run that may still be in flight on an EP's stream: for work that is ordered after it. */
iobind_status iobind__binding_peek(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error);

/* A run whose turn has come. With NULL, the thread that executes a stream's work makes it at once, without any other wait. */
iobind_status iobind__binding_run_in_turn(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* How many references the binding holds to a tensor that an output of it has been written into. */
size_t iobind__output_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor);

/* A REUSE output gets new memory in the next run. */
void iobind__output_renew(iobind_binding *binding, size_t index);

/* The same, and no graph that writes the tensor, which another owner keeps, is replayed again. */
void iobind__output_leave(iobind_binding *binding, size_t index, const iobind_tensor *tensor);

/* The options of all later runs, checked already. `what` names the call. */
iobind_status iobind__run_options_replace(iobind_binding *binding, const iobind_run_options *options, const char *what,
                                          iobind_error *error);

/* Later runs do not use the input's tensor: neither the table nor ORT retains it. Another one must be bound
 * before the next run; if it has the same dims, REUSE outputs keep their memory. */
void iobind__input_let_go(iobind_binding *binding, size_t index);

/* Create a tensor with the dims of `like` where the session wants an input. */
iobind_status iobind__input_make(iobind_session *session, size_t index, const iobind_tensor *like, iobind_tensor **tensor,
                                 iobind_error *error);

/* The same as iobind__input_make for a cache of so many rows. */
iobind_status iobind__input_make_cache(const iobind__cache *like, int64_t rows, iobind_tensor **tensor, iobind_error *error);

/* Make, with the content of `from`, on a stream or, for NULL, at once; no strings. */
iobind_status iobind__input_copy(iobind_session *session, size_t index, const iobind_tensor *from, iobind_stream *stream,
                                 iobind_tensor **copy, iobind_error *error);

#endif
