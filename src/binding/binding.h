/* A session's inputs and outputs, bound to memory. The modules below use only these functions, no fields. */
#ifndef IOBIND_BINDING_BINDING_H
#define IOBIND_BINDING_BINDING_H

#include "binding/marks.h"
#include "binding/used.h"
#include "session/kind.h"
#include "session/session.h"

enum { IOBIND__NOT_CARRIED = -1 };

/* What is bound to an input. */
typedef struct iobind__input_view {
  iobind_input_mode mode;
  const iobind_tensor *tensor; /* what the session reads; NULL: not bound */
  const iobind_tensor *source; /* LIVE: the tensor that is copied there before each run; NULL: none */
  int64_t carried_from;        /* the output that becomes this input, or IOBIND__NOT_CARRIED */
} iobind__input_view;

/* The modes of an output: those of iobind_output_mode, and two for outputs that are bound to a tensor. */
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

/* The kind of a carry, as the caller has named it or as the graph shows it. NOT_SUPPORTED: they differ. */
iobind_status iobind__binding_find_kind(iobind_binding *binding, iobind__pair pair, iobind__kind *out, iobind_error *error);

/* The rows in use of a cache of fixed capacity: its first `length` rows. A tensor of the state has at least these. */
typedef struct iobind__prefix {
  bool is_used; /* false: the whole tensor is the state */
  size_t axis;
  int64_t length;
  int64_t capacity;
} iobind__prefix;

/* A tensor that is such a state, for an input. */
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
  bool are_shared;          /* none was copied: the binding's runs only read these tensors */
} iobind__states;

/* Fill in the arrays with tensors that no run writes, with references for the caller, and an event that the caller destroys. */
iobind_status iobind__binding_save(iobind_binding *binding, iobind__states *out, iobind_error *error);

iobind__marks *iobind__binding_marks(iobind_binding *binding);

/* The tensor that the next run reads as the input of a carry; borrowed. No run is in flight. */
iobind_status iobind__binding_peek_state(iobind_binding *binding, size_t index, const char *what, iobind_tensor **state,
                                         iobind_error *error);

/* Let the next run read these states, which have the types of its inputs. The first `marks` marks remain valid. No run is in
 * flight. */
iobind_status iobind__binding_restore(iobind_binding *binding, iobind__states *from, size_t marks, iobind_error *error);

/* The lengths of the carried caches of fixed capacity, which the binding holds. */
iobind__used iobind__binding_get_used(const iobind_binding *binding);
void iobind__binding_set_used(iobind_binding *binding, iobind__used used);

/* Rewind to a shorter length; the current one is known. Rows of the batch that are already shorter keep their length. No run is
 * in flight. */
iobind_status iobind__binding_rewind_length(iobind_binding *binding, int64_t length, const char *name, iobind_error *error);

/* The size of an output: of its bound tensor, of the last run's result, or by its dims if all are fixed. */
iobind_status iobind__binding_output_bytes(iobind_binding *binding, size_t index, uint64_t *bytes, bool *known,
                                           iobind_error *error);

/* INVALID_STATE while a run is in flight: on another thread, or on a stream, unless a call has returned that it is complete. */
iobind_status iobind__binding_check_idle(iobind_binding *binding, const char *what, iobind_error *error);

/* As iobind_binding_check, once after each change. `what` names the call. */
iobind_status iobind__binding_check_once(iobind_binding *binding, const char *what, iobind_error *error);

/* The number of the binding's captured graphs. */
size_t iobind__graphs_count(const iobind_binding *binding);

/* Drop the graphs that read or write memory of the tensor. */
void iobind__graphs_forget_memory(iobind_binding *binding, const iobind_tensor *tensor);

/* The user of a binding's graphs. A trial's graphs need no trial. If a run of a caller's binding would be refused for its
 * graphs, a pipeline's slot runs without a graph instead, because no caller can call iobind_binding_reset_graphs for it. */
typedef enum iobind__graphs_user {
  IOBIND__GRAPHS_OF_CALLER,
  IOBIND__GRAPHS_OF_SLOT,
  IOBIND__GRAPHS_OF_TRIAL
} iobind__graphs_user;

void iobind__graphs_serve(iobind_binding *binding, iobind__graphs_user user);

/* Borrow an output of a run that may still be in flight on an EP's stream: for work that is ordered after it. */
iobind_status iobind__binding_peek(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error);

/* A run on a stream; or, for NULL, a run now by the thread of a stream, whose turn it is: it waits for no other work. */
iobind_status iobind__binding_run_in_turn(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* The number of references that the binding holds to an output's tensor. */
size_t iobind__output_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor);

/* A REUSE output gets new memory in the next run. */
void iobind__output_renew(iobind_binding *binding, size_t index);

/* The same, and graphs that write the tensor, which another owner retains, are not replayed again. */
void iobind__output_leave(iobind_binding *binding, size_t index, const iobind_tensor *tensor);

/* Read and check the caller's options. `what` names the call. */
iobind_status iobind__run_options_read(const iobind_session *session, const iobind_run_options *given, const char *what,
                                       iobind_run_options *out, iobind_error *error);

/* Set the options of all later runs, which have been checked. `what` names the call. */
iobind_status iobind__run_options_replace(iobind_binding *binding, const iobind_run_options *options, const char *what,
                                          iobind_error *error);

/* Unbind an input: neither the table nor ORT retains its tensor. Another one must be bound before the next run. If that has the
 * same dims, REUSE outputs keep their memory. */
void iobind__input_let_go(iobind_binding *binding, size_t index);

/* Create a tensor with the dims of `like`, in memory where the session reads the input. */
iobind_status iobind__input_make(iobind_session *session, size_t index, const iobind_tensor *like, iobind_tensor **tensor,
                                 iobind_error *error);

/* The same for a cache with this number of rows. */
iobind_status iobind__input_make_cache(const iobind__cache *like, int64_t rows, iobind_tensor **tensor, iobind_error *error);

/* The same with the content of `from`: copied on a stream, or at once for NULL. Not for strings. */
iobind_status iobind__input_copy(iobind_session *session, size_t index, const iobind_tensor *from, iobind_stream *stream,
                                 iobind_tensor **copy, iobind_error *error);

#endif
