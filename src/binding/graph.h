/* The captured graphs of a binding: which runs capture one, which replay one, and which are refused. */
#ifndef IOBIND_BINDING_GRAPH_H
#define IOBIND_BINDING_GRAPH_H

#include "tensor/tensor.h"

typedef struct iobind__graphs iobind__graphs;

/* For a binding of a session that captures graphs; otherwise it has none, and is OK. */
iobind_status iobind__graphs_open(iobind_binding *binding, iobind_error *error);
void iobind__graphs_close(iobind_binding *binding, bool may_wait); /* for the session's turn */

typedef struct iobind__choice {
  iobind_status status;
  OrtRunOptions *options;
} iobind__choice;

/* With the session entered, and ORT's binding in line with the table: the options with which a run replays the graph of what is bound. If
 * there is none it is captured, which leaves the states as they were. `stream` is the session's if the run is not to wait, behind what the
 * run's own stream has got; NULL: it waits. `ordered` as in iobind__run_ort. */
iobind__choice iobind__graphs_choose(iobind_binding *binding, iobind_stream *stream, const iobind_device *ordered,
                                     iobind_error *error);

/* The call that replays a graph, and all that it takes. */
typedef struct iobind__replay {
  uint64_t thread; /* which may replay it */
  iobind__turn *turn;
  OrtStatus *(ORT_CALL *run)(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding);
  OrtSession *session;
  OrtRunOptions *options;
  OrtIoBinding *binding;
  iobind_error *error; /* the caller's, of the one that is under way */
} iobind__replay;

/* The replay of the run that has just finished, good for as long as nothing changes. False: bytes must be compared before each. */
bool iobind__graphs_repeat(const iobind_binding *binding, iobind__replay *replay);

/* Give up all of them, or those that write a tensor. */
void iobind__graphs_forget(iobind_binding *binding);
void iobind__graphs_forget_output(iobind_binding *binding, const iobind_tensor *tensor);

/* The caller's run options are others: those of the graphs follow, or nothing has changed. */
iobind_status iobind__graphs_renew_options(iobind_binding *binding, iobind_error *error);

/* trial.c: is a replay of what is bound a run? Without the session, before the capture. */
iobind_status iobind__graphs_try(iobind_binding *model, iobind_error *error);
void iobind__graphs_note_trial(iobind_binding *binding); /* the binding is a trial's, and not tried itself */

/* How many graphs write this tensor as their output, and hold a reference to it. */
size_t iobind__graphs_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor);

/* What would move an address on each run cannot be bound in a session that captures graphs. */
iobind_status iobind__graphs_check_live(const iobind_binding *binding, size_t index, iobind_error *error);
iobind_status iobind__graphs_check_output(const iobind_binding *binding, size_t index, iobind_output_mode mode,
                                          const iobind__place *place, iobind_error *error);
iobind_status iobind__graphs_check_carry(const iobind_binding *binding, size_t output, iobind_carry_mode mode,
                                         iobind_error *error);

#endif
