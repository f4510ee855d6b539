/* Chooses the graph that a run replays. The look-up uses only the binding, so it precedes the session's turn. The turn is held
 * from the begin of a capture to the end of the run that follows. */
#include <stdlib.h>

#include "binding/table.h"

struct iobind__graphs {
  iobind__graph *first;
  uint64_t thread; /* the thread that has captured them, if there are any */
  iobind__graphs_user user;
  bool reads_host; /* some input is read on the host */
};

/* ---- open, drop, close ---- */

iobind_status iobind__graphs_open(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  if (session->graphs.limit == 0) {
    return IOBIND_OK;
  }
  binding->graphs = calloc(1, sizeof *binding->graphs);
  if (binding->graphs == NULL) {
    return iobind__out_of_memory(error, "binding_create");
  }
  for (size_t i = 0; i < session->input_count; i++) {
    binding->graphs->reads_host = binding->graphs->reads_host || session->inputs[i].place->host;
  }
  return IOBIND_OK;
}

void iobind__graphs_serve(iobind_binding *binding, iobind__graphs_user user) {
  if (binding->graphs != NULL) {
    binding->graphs->user = user;
  }
  if (user == IOBIND__GRAPHS_OF_TRIAL) {
    iobind__verified_close(binding); /* a trial makes its own comparison */
  }
}

/* Remove the graph *at from the binding's list. */
static void remove_at(iobind_binding *binding, iobind__graph **at) {
  iobind__graph *self = *at;
  iobind__binding_disarm(binding);
  *at = self->next;
  for (size_t i = 0; i < 2; i++) {
    if (binding->sides[i].graph == self) {
      binding->sides[i].graph = NULL;
    }
  }
  iobind__graph_destroy(binding, self);
}

void iobind__graphs_forget(iobind_binding *binding) {
  if (binding->graphs == NULL) {
    return;
  }
  while (binding->graphs->first != NULL) {
    remove_at(binding, &binding->graphs->first);
  }
  iobind__registry_try_release_dead(binding->session);
}

void iobind__graphs_forget_memory(iobind_binding *binding, const iobind_tensor *tensor) {
  if (binding->graphs == NULL) {
    return;
  }
  iobind__graph **at = &binding->graphs->first;
  while (*at != NULL) {
    if (iobind__graph_uses(binding, *at, tensor)) {
      remove_at(binding, at);
    } else {
      at = &(*at)->next;
    }
  }
  iobind__registry_try_release_dead(binding->session);
}

void iobind__graphs_close(iobind_binding *binding) {
  iobind__graphs_forget(binding);
  free(binding->graphs);
  binding->graphs = NULL;
}

iobind_status iobind_binding_reset_graphs(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_reset_graphs", error));
  IOBIND__TRY(iobind__process_check("binding_reset_graphs", error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_reset_graphs", error));
  iobind__graphs_forget(binding);
  return IOBIND_OK;
}

void iobind__graphs_drop_options(iobind_binding *binding) {
  for (iobind__graph *one = binding->graphs->first; one != NULL; one = one->next) {
    iobind__ort_options_release(binding->session, &one->options);
  }
}

/* ---- counts ---- */

static size_t count_captured(const iobind__graphs *graphs) {
  size_t count = 0;
  for (const iobind__graph *one = graphs->first; one != NULL; one = one->next) {
    count += one->captured != NULL;
  }
  return count;
}

size_t iobind__graphs_count(const iobind_binding *binding) {
  return binding->graphs == NULL ? 0 : count_captured(binding->graphs);
}

size_t iobind__graphs_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor) {
  size_t references = 0;
  for (const iobind__graph *one = binding->graphs == NULL ? NULL : binding->graphs->first; one != NULL; one = one->next) {
    references += one->made[index] == tensor;
  }
  return references;
}

iobind_tensor *iobind__graphs_find_made(const iobind_binding *binding, size_t index, const void *data) {
  for (const iobind__graph *one = binding->graphs == NULL ? NULL : binding->graphs->first; one != NULL; one = one->next) {
    if (one->made[index] != NULL && one->made[index]->data == data && data != NULL) {
      return iobind_tensor_retain(one->made[index]);
    }
  }
  return NULL;
}

/* ---- find: without the session ---- */

/* Would a replay write memory that has another owner? If the outputs are not in the graph's memory now, because they or inputs
 * of other dims were bound in between, then other owners of the graph's results rely on their content. */
static bool writes_kept_memory(const iobind_binding *binding, const iobind__graph *self) {
  bool is_kept = false;
  for (size_t i = 0; !is_kept && i < binding->session->output_count; i++) {
    const iobind_tensor *made = binding->outputs[i].target == NULL ? self->made[i] : NULL;
    is_kept = made != NULL &&
              atomic_load_explicit(&made->ref.count, memory_order_acquire) > iobind__output_references(binding, i, made);
  }
  return is_kept;
}

static iobind__graph *look_up(iobind_binding *binding) {
  iobind__graph **at = &binding->graphs->first;
  while (*at != NULL) {
    if (!iobind__graph_matches(binding, *at)) {
      at = &(*at)->next;
    } else if (writes_kept_memory(binding, *at)) {
      remove_at(binding, at);
    } else {
      return *at;
    }
  }
  return NULL;
}

static bool wants_no_graph(const iobind_binding *binding) {
  return iobind__run_options_want_no_graph(&binding->settings.words.options);
}

static iobind_status check_thread(const iobind_binding *binding, iobind_error *error) {
  const iobind__graphs *graphs = binding->graphs;
  return wants_no_graph(binding) || graphs->thread == iobind__thread_number() || count_captured(graphs) == 0
             ? IOBIND_OK
             : iobind__fail(
                   error, IOBIND_ERROR_INVALID_STATE,
                   "binding_run: the graphs of this binding belong to another thread, which captured them: run it there, or "
                   "call iobind_binding_reset_graphs");
}

static iobind_status check_limit(const iobind_binding *binding, iobind_error *error) {
  const iobind__graphs *graphs = binding->graphs;
  size_t captured = count_captured(graphs);
  size_t limit = binding->session->graphs.limit;
  return wants_no_graph(binding) || graphs->user == IOBIND__GRAPHS_OF_SLOT || captured < limit
             ? IOBIND_OK
             : iobind__fail(
                   error, IOBIND_ERROR_INVALID_STATE,
                   "binding_run: addresses, dims or host bytes differ from those of the %zu captured graphs, and graph_limit "
                   "is %zu: write into the bound tensors, use one binding for each shape, or call "
                   "iobind_binding_reset_graphs",
                   captured, limit);
}

/* May another graph be captured? Otherwise the run is plain. A pipeline's slot captures up to graph_limit, but none if the
 * session can have only one graph, because other slots' runs would be refused. */
static bool may_capture(const iobind_binding *binding) {
  const iobind_session *session = binding->session;
  bool is_slot = binding->graphs->user == IOBIND__GRAPHS_OF_SLOT;
  bool slot_may = !iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES) &&
                  count_captured(binding->graphs) < session->graphs.limit;
  return !wants_no_graph(binding) && iobind__registry_has_room(&session->graphs) && (!is_slot || slot_may);
}

static bool is_tried(const iobind_binding *binding) {
  return iobind__session_graphs_have(binding->session, IOBIND__QUIRK_GRAPH_LOSES_COPIES) &&
         binding->graphs->user != IOBIND__GRAPHS_OF_TRIAL && may_capture(binding);
}

/* The content of inputs on the host is compared when the run is submitted. So copies into pinned memory on the run's stream
 * must be complete by then. For other host memory the run has already waited. */
static iobind_status await_bytes(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  bool is_copied_to = false;
  for (size_t i = 0; stream != NULL && i < binding->session->input_count; i++) {
    const iobind__place *place = binding->inputs[i].bound->place;
    is_copied_to = is_copied_to || (place->host && !iobind__place_is_pageable(place));
  }
  return is_copied_to ? iobind__stream_drain(stream, error) : IOBIND_OK;
}

/* Does ORT's binding have exactly this graph, which this thread has captured if it is captured? */
static bool is_last(const iobind_binding *binding, const iobind__graph *self) {
  const iobind__graphs *graphs = binding->graphs;
  return self != NULL && (graphs->thread == iobind__thread || self->captured == NULL) &&
         (!graphs->reads_host || iobind__graph_has_bytes(binding, self));
}

iobind_status iobind__graphs_find(iobind_binding *binding, iobind_stream *stream, iobind__graph **found, iobind_error *error) {
  const iobind__graphs *graphs = binding->graphs;
  *found = iobind__side_of_turn(binding)->graph;
  IOBIND__TRY(graphs->reads_host ? await_bytes(binding, stream, error) : IOBIND_OK);
  if (is_last(binding, *found)) {
    return IOBIND_OK;
  }
  IOBIND__TRY(check_thread(binding, error));
  IOBIND__TRY(iobind__carry_stage(binding, error));
  *found = look_up(binding);
  if (*found == NULL && graphs->reads_host) {
    iobind__outputs_reshape(binding); /* values that are read on the host may determine dims */
    *found = look_up(binding);
  }
  if (*found != NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(check_limit(binding, error));
  return iobind__capture_prepare(binding, is_tried(binding), error);
}

/* ---- choose: with the session entered ---- */

/* Drop plain entries: only one has memory at a time. */
static void forget_plain(iobind_binding *binding) {
  iobind__graph **at = &binding->graphs->first;
  while (*at != NULL) {
    if ((*at)->captured == NULL) {
      remove_at(binding, at);
    } else {
      at = &(*at)->next;
    }
  }
}

static iobind_status add(iobind_binding *binding, const iobind__execution *how, iobind__graph **out, iobind_error *error) {
  iobind__graphs *graphs = binding->graphs;
  bool is_plain = !may_capture(binding);
  forget_plain(binding);
  IOBIND__TRY(iobind__registry_check_recycling(binding->session, "binding_run", error));
  iobind__graph *made = NULL;
  IOBIND__TRY(iobind__capture(binding, is_plain, how, &made, error));
  made->next = graphs->first;
  graphs->first = made;
  graphs->thread = is_plain ? graphs->thread : iobind__thread_number();
  *out = made;
  return IOBIND_OK;
}

/* Outputs without memory get the graph's. */
static void aim_outputs(iobind_binding *binding, const iobind__graph *self) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind__output *output = &binding->outputs[i];
    if (output->mode == IOBIND__OUTPUT_REUSE && output->target == NULL) {
      iobind__output_aim(binding, i, self->made[i]);
      iobind__table_changed(binding);
    }
  }
}

static iobind_status change_to(iobind_binding *binding, iobind__graph **self, const iobind__execution *how,
                               iobind_error *error) {
  iobind__registry_release_dead(binding->session);
  if (*self == NULL) {
    IOBIND__TRY(add(binding, how, self, error));
  }
  aim_outputs(binding, *self);
  IOBIND__TRY(iobind__graph_bring_in_line(binding, error));
  iobind__side_of_turn(binding)->graph = *self;
  return IOBIND_OK;
}

iobind_status iobind__graphs_choose(iobind_binding *binding, iobind__graph *found, iobind__execution *how,
                                    iobind_error *error) {
  if (found == NULL || found != iobind__side_of_turn(binding)->graph) {
    iobind_status status = change_to(binding, &found, how, error);
    if (status != IOBIND_OK) {
      iobind__registry_release_dead(binding->session); /* of a failed capture */
      return status;
    }
  }
  bool is_plain = found->captured == NULL || wants_no_graph(binding);
  if (is_plain) {
    IOBIND__TRY(iobind__registry_check_recycling(binding->session, "binding_run", error));
  }
  return iobind__graph_make_options(binding, found, how->stream != NULL, &how->options, error);
}

bool iobind__graphs_repeat(const iobind_binding *binding, iobind__repeat *repeat) {
  const iobind__side *side = &binding->sides[binding->turn];
  repeat->thread = binding->graphs->thread;
  repeat->options = side->graph->options.now;
  return !binding->graphs->reads_host && !wants_no_graph(binding) && side->graph->captured != NULL;
}
