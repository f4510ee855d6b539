/* Captured graphs. ORT replays a graph at the addresses of its capture and checks nothing, so a run is given a graph only if all that it
 * reads and writes is where it was when that was captured, with the same dims; what the session reads on the host must have the same bytes,
 * because nodes on the CPU do not run in a replay. Each graph has a number that no other graph of the session ever had.
 *
 * The run that captures is executed by ORT three times. What it writes into its own inputs is saved before and put back after, and then the
 * graph is replayed once: that is the run which the caller asked for. Before all of them comes a plain run. It shows the dims of the
 * outputs that iobind makes memory for (ORT would lend its scratch memory, which other runs get as well), it shows what is wrong with the
 * model or the tensors without a capture in the way, and it lets ORT allocate what it needs. */
#include "binding/graph.h"

#include <stdlib.h>
#include <string.h>

#include "binding/table.h"

/* Memory of an input or output. */
typedef struct memory_key {
  bool is_bound;
  const void *data;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
} memory_key;

/* Runs without a stream and runs on one have options of their own. */
enum { AT_ONCE, ON_STREAM, WAYS };

typedef struct graph {
  iobind__captured known;       /* its number, and the binding's next graph */
  OrtRunOptions *options[WAYS]; /* the caller's, with this number; none for a stream if the session takes none */
  OrtRunOptions *renewed[WAYS]; /* while the caller gives other ones */
  iobind_tensor **made;         /* outputs in memory of iobind's; NULL: the caller's, or not bound. References are held */
  unsigned char *bytes;         /* of the inputs that the session reads on the host, one after the other */
  size_t byte_count;
  memory_key keys[]; /* inputs, then outputs */
} graph;

struct iobind__graphs {
  iobind__captured *first;
  size_t count;
  uint64_t thread;      /* whose they are, if there are any */
  bool is_tried;        /* each new one is tried first */
  bool reads_host;      /* some input is read on the host */
  graph *last[2];       /* what each side ran last */
  uint64_t compared[2]; /* how often the side had been compared with the table by then */
};

iobind_status iobind__graphs_open(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  if (session->graph_limit == 0) {
    return IOBIND_OK;
  }
  binding->graphs = calloc(1, sizeof *binding->graphs);
  if (binding->graphs == NULL) {
    return iobind__out_of_memory(error, "binding_create");
  }
  binding->graphs->is_tried = session->graph_device->ep->graph_loses_copies;
  for (size_t i = 0; i < session->input_count; i++) {
    binding->graphs->reads_host = binding->graphs->reads_host || session->inputs[i].place->host;
  }
  return IOBIND_OK;
}

void iobind__graphs_note_trial(iobind_binding *binding) {
  binding->graphs->is_tried = false;
}

size_t iobind__graphs_count(const iobind_binding *binding) {
  return binding->graphs == NULL ? 0 : binding->graphs->count;
}

static graph *first_of(const iobind__graphs *graphs) {
  return (graph *)graphs->first;
}

static graph *next_of(const graph *self) {
  return (graph *)self->known.next;
}

size_t iobind__graphs_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor) {
  size_t count = 0;
  for (const graph *one = binding->graphs == NULL ? NULL : first_of(binding->graphs); one != NULL; one = next_of(one)) {
    count += one->made[index] == tensor;
  }
  return count;
}

/* ---- given up ---- */

static void release_options(const iobind_binding *binding, OrtRunOptions *options[WAYS]) {
  for (size_t i = 0; i < WAYS; i++) {
    if (options[i] != NULL) {
      IOBIND__API(binding->session->runtime)->ReleaseRunOptions(options[i]);
    }
    options[i] = NULL;
  }
}

static iobind_status make_options(const iobind_binding *binding, int id, OrtRunOptions *out[WAYS], iobind_error *error) {
  for (size_t way = 0; way < WAYS; way++) {
    if (way == AT_ONCE || binding->session->takes_stream) {
      IOBIND__TRY(iobind__run_options_make(binding, id, way == ON_STREAM, &out[way], error));
    }
  }
  return IOBIND_OK;
}

/* Free all but what ORT must be told. */
static void empty_graph(const iobind_binding *binding, graph *self) {
  for (size_t i = 0; self->made != NULL && i < binding->session->output_count; i++) {
    iobind_tensor_release(self->made[i]);
  }
  release_options(binding, self->options);
  free(self->made);
  free(self->bytes);
}

static void free_graph(const iobind_binding *binding, graph *self) {
  empty_graph(binding, self);
  free(self);
}

/* With the session entered, unless the graph is abandoned. */
static void remove_graph(iobind_binding *binding, graph *self, bool is_abandoned) {
  iobind__graphs *graphs = binding->graphs;
  iobind__captured **at = &graphs->first;
  iobind__binding_withdraw_replay(binding);
  while (*at != &self->known) {
    at = &(*at)->next;
  }
  *at = self->known.next;
  graphs->count--;
  for (size_t i = 0; i < 2; i++) {
    if (graphs->last[i] == self) {
      graphs->last[i] = NULL;
    }
  }
  empty_graph(binding, self);
  if (is_abandoned) {
    iobind__session_abandon_graph(binding->session, &self->known);
    return;
  }
  atomic_fetch_sub(&binding->session->graphs_live, 1);
  iobind__session_release_graph(binding->session, self->known.id, true);
  free(self);
}

/* Those that write a tensor; NULL: all. */
static void forget(iobind_binding *binding, const iobind_tensor *tensor, bool are_abandoned) {
  graph *next;
  for (graph *one = first_of(binding->graphs); one != NULL; one = next) {
    bool writes = tensor == NULL;
    next = next_of(one);
    for (size_t i = 0; !writes && i < binding->session->output_count; i++) {
      writes = one->made[i] == tensor;
    }
    if (writes) {
      remove_graph(binding, one, are_abandoned);
    }
  }
}

void iobind__graphs_forget_output(iobind_binding *binding, const iobind_tensor *tensor) {
  if (binding->graphs == NULL) {
    return;
  }
  iobind__session_enter(binding->session);
  forget(binding, tensor, false);
  iobind__session_leave(binding->session);
}

void iobind__graphs_forget(iobind_binding *binding) {
  iobind__graphs_forget_output(binding, NULL);
}

void iobind__graphs_close(iobind_binding *binding, bool may_wait) {
  iobind_session *session = binding->session;
  if (binding->graphs == NULL) {
    return;
  }
  bool has_turn = iobind__session_try_enter(session);
  if (!has_turn && may_wait && !iobind__process_is_forked()) {
    iobind__session_enter(session);
    has_turn = true;
  }
  forget(binding, NULL, !has_turn);
  if (has_turn) {
    iobind__session_leave(session);
  }
  free(binding->graphs);
  binding->graphs = NULL;
}

iobind_status iobind_binding_forget_graphs(iobind_binding *binding, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_forget_graphs: binding is NULL");
  }
  IOBIND__TRY(iobind__process_check("binding_forget_graphs", error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_forget_graphs", error));
  iobind__graphs_forget(binding);
  return IOBIND_OK;
}

iobind_status iobind__graphs_renew_options(iobind_binding *binding, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  iobind__binding_withdraw_replay(binding);
  for (graph *one = first_of(binding->graphs); one != NULL && status == IOBIND_OK; one = next_of(one)) {
    status = make_options(binding, one->known.id, one->renewed, error);
  }
  for (graph *one = first_of(binding->graphs); one != NULL; one = next_of(one)) {
    if (status == IOBIND_OK) {
      release_options(binding, one->options);
      memcpy(one->options, one->renewed, sizeof one->options);
      memset(one->renewed, 0, sizeof one->renewed);
    } else {
      release_options(binding, one->renewed);
    }
  }
  return status;
}

/* ---- what cannot be bound ---- */

static iobind_status refuse(const char *what, const char *name, const char *why, iobind_error *error) {
  return iobind__fail(error, IOBIND_NOT_SUPPORTED, "%s: '%s': the session captures graphs (graph_limit): %s", what, name, why);
}

iobind_status iobind__graphs_check_live(const iobind_binding *binding, size_t index, iobind_error *error) {
  return binding->graphs == NULL
             ? IOBIND_OK
             : refuse(
                   "binding_set_input", binding->session->inputs[index].name,
                   "expected a tensor where the session reads it, or SNAPSHOT and iobind_binding_update_input, got LIVE from "
                   "elsewhere",
                   error);
}

iobind_status iobind__graphs_check_output(const iobind_binding *binding, size_t index, iobind_output_mode mode,
                                          const iobind__place *place, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->outputs[index];
  if (binding->graphs == NULL || mode == IOBIND_OUTPUT_NONE) {
    return IOBIND_OK;
  }
  if (mode == IOBIND_OUTPUT_FRESH) {
    return refuse("binding_set_output", value->name,
                  "expected REUSE, FIXED or IN_PLACE, got FRESH, which is elsewhere in each run", error);
  }
  bool is_there = place == value->place || iobind__same_memory(session->runtime, place->info, value->place->info);
  return is_there
             ? IOBIND_OK
             : refuse("binding_set_output", value->name,
                      "expected the memory in which the session leaves it, got other memory, to which a replay copies nothing",
                      error);
}

iobind_status iobind__graphs_check_carry(const iobind_binding *binding, size_t output, iobind_carry_mode mode,
                                         iobind_error *error) {
  const char *name = binding->session->outputs[output].name;
  if (binding->graphs == NULL || mode == IOBIND_CARRY_IN_PLACE) {
    return IOBIND_OK;
  }
  if (mode == IOBIND_CARRY_MOVE) {
    return refuse("binding_carry", name, "expected SWAP or IN_PLACE, got MOVE, which is elsewhere in each run", error);
  }
  if (binding->session->graph_recycles) {
    return refuse("binding_carry", name, "SWAP takes two graphs, and with this ORT a session can have one", error);
  }
  return binding->session->graph_limit >= 2
             ? IOBIND_OK
             : refuse("binding_carry", name, "SWAP takes two graphs, and graph_limit is 1", error);
}

/* ---- keys ---- */

static memory_key key_of(const iobind_tensor *tensor) {
  memory_key key = {.is_bound = tensor != NULL};
  if (tensor != NULL) {
    key.data = tensor->data;
    key.rank = tensor->rank;
    memcpy(key.dims, tensor->dims, tensor->rank * sizeof key.dims[0]);
  }
  return key;
}

static bool fits(const memory_key *key, const iobind_tensor *tensor) {
  return key->is_bound && key->data == tensor->data && key->rank == tensor->rank &&
         memcmp(key->dims, tensor->dims, tensor->rank * sizeof key->dims[0]) == 0;
}

static size_t count_bytes(const iobind_binding *binding) {
  size_t count = 0;
  for (size_t i = 0; i < binding->session->input_count; i++) {
    count += binding->inputs[i].bound->place->host ? binding->inputs[i].bound->bytes : 0;
  }
  return count;
}

/* Are the bytes of inputs on the host those of the capture? If they are to be taken, they are by then. */
static bool same_bytes(const iobind_binding *binding, graph *self, bool take) {
  bool same = self->byte_count == count_bytes(binding);
  size_t offset = 0;
  for (size_t i = 0; same && i < binding->session->input_count; i++) {
    const iobind_tensor *tensor = binding->inputs[i].bound;
    if (!tensor->place->host || tensor->bytes == 0) {
      continue;
    }
    if (take) {
      memcpy(self->bytes + offset, tensor->data, tensor->bytes);
    } else {
      same = memcmp(self->bytes + offset, tensor->data, tensor->bytes) == 0;
    }
    offset += tensor->bytes;
  }
  return same;
}

/* Was it captured with what is bound? An output whose memory iobind is still to choose may be in the graph's. */
static bool matches(const iobind_binding *binding, graph *self) {
  const iobind_session *session = binding->session;
  bool same = true;
  for (size_t i = 0; same && i < session->input_count; i++) {
    same = fits(&self->keys[i], binding->inputs[i].bound);
  }
  for (size_t i = 0; same && i < session->output_count; i++) {
    const memory_key *key = &self->keys[session->input_count + i];
    const iobind__output *output = &binding->outputs[i];
    if (output->mode == IOBIND_OUTPUT_NONE) {
      same = !key->is_bound;
    } else {
      same = output->target != NULL ? fits(key, output->target) : self->made[i] != NULL;
    }
  }
  return same && same_bytes(binding, self, false);
}

static graph *find(const iobind_binding *binding) {
  graph *self = first_of(binding->graphs);
  while (self != NULL && !matches(binding, self)) {
    self = next_of(self);
  }
  return self;
}

/* A graph of what is bound now, not captured yet. */
static iobind_status make_graph(iobind_binding *binding, graph **out, iobind_error *error) {
  iobind_session *session = binding->session;
  size_t count = session->input_count + session->output_count;
  graph *self = calloc(1, sizeof *self + count * sizeof self->keys[0]);
  if (self == NULL) {
    return iobind__out_of_memory(error, "binding_run");
  }
  self->byte_count = count_bytes(binding);
  self->made = calloc(session->output_count + 1, sizeof(iobind_tensor *));
  self->bytes = calloc(self->byte_count + 1, 1);
  self->known.id = atomic_fetch_add(&session->graph_ids, 1) + 1;
  iobind_status status = self->made == NULL || self->bytes == NULL
                             ? iobind__out_of_memory(error, "binding_run")
                             : make_options(binding, self->known.id, self->options, error);
  if (status != IOBIND_OK) {
    free_graph(binding, self);
    return status;
  }
  (void)same_bytes(binding, self, true);
  for (size_t i = 0; i < session->input_count; i++) {
    self->keys[i] = key_of(binding->inputs[i].bound);
  }
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    self->keys[session->input_count + i] = key_of(output->target);
    self->made[i] = output->mode == IOBIND_OUTPUT_REUSE ? iobind_tensor_retain(output->target) : NULL;
  }
  *out = self;
  return IOBIND_OK;
}

/* ---- what a run writes into its own inputs ---- */

typedef struct saved {
  size_t count;
  struct {
    iobind_tensor *tensor; /* references are held */
    iobind_tensor *copy;
  } pairs[];
} saved;

static void free_saved(saved *self) {
  for (size_t i = 0; self != NULL && i < self->count; i++) {
    iobind_tensor_release(self->pairs[i].tensor);
    iobind_tensor_release(self->pairs[i].copy);
  }
  free(self);
}

static bool is_read(const iobind_binding *binding, const iobind_tensor *tensor) {
  bool read = false;
  for (size_t i = 0; !read && i < binding->session->input_count; i++) {
    read = iobind__tensor_overlaps(binding->inputs[i].bound, tensor);
  }
  return read;
}

static iobind_status save(const iobind_binding *binding, saved **out, iobind_error *error) {
  size_t outputs = binding->session->output_count;
  saved *self = calloc(1, sizeof *self + outputs * sizeof self->pairs[0]);
  iobind_status status = self == NULL ? iobind__out_of_memory(error, "binding_run") : IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < outputs; i++) {
    iobind_tensor *target = binding->outputs[i].mode == IOBIND_OUTPUT_IN_PLACE ? binding->outputs[i].target : NULL;
    if (target != NULL && is_read(binding, target)) {
      self->pairs[self->count].tensor = iobind_tensor_retain(target);
      iobind_tensor **copy = &self->pairs[self->count++].copy;
      status = iobind__tensor_create_at(target->place, target->dtype, target->dims, target->rank, copy, error);
      if (status == IOBIND_OK) {
        status = iobind__tensor_copy_one(target, *copy, NULL, error);
      }
    }
  }
  if (status != IOBIND_OK) {
    free_saved(self);
    self = NULL;
  }
  *out = self;
  return status;
}

/* The states are what they were: a run that failed has spoiled none of them, unless this fails. */
static iobind_status restore(iobind_binding *binding, const saved *self, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < self->count && status == IOBIND_OK; i++) {
    status = iobind__tensor_copy_one(self->pairs[i].copy, self->pairs[i].tensor, NULL, error);
  }
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    if (carry->mode == IOBIND_CARRY_IN_PLACE) {
      binding->inputs[carry->input].is_spoiled = status != IOBIND_OK;
      binding->is_checked = binding->is_checked && status == IOBIND_OK;
    }
  }
  return status;
}

/* ---- runs, with the session entered ---- */

/* Bring ORT's binding in line with the table, after a change that this file has made or a run that failed. */
static iobind_status bring_in_line(iobind_binding *binding, iobind_error *error) {
  iobind__side *side = iobind__side_of_turn(binding);
  if (side->generation == binding->generation) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->inside, &scope, error));
  return iobind__guard_end(&scope, iobind__side_compare(binding, side, error), error);
}

static void drop_results(iobind_binding *binding) {
  iobind__results_drop(binding, NULL);
  binding->results = IOBIND__RESULTS_NONE;
}

static iobind_status run(iobind_binding *binding, OrtRunOptions *options, const iobind_device *ordered, iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->inside, &scope, error));
  return iobind__guard_end(&scope, iobind__run_ort(binding, options, ordered, error), error);
}

/* A buffer of the state's shape that the run of this turn reads. */
static iobind_status settle_state(iobind_binding *binding, iobind__carry *carry, iobind_error *error) {
  iobind__input *input = &binding->inputs[carry->input];
  iobind_tensor **buffer = &carry->buffers[1 - binding->turn];
  if (input->bound == *buffer) {
    return IOBIND_OK;
  }
  if (*buffer == NULL || !iobind__tensor_same_dims(*buffer, input->bound)) {
    iobind_tensor *made;
    IOBIND__TRY(iobind__input_make(binding->session, carry->input, input->bound, &made, error));
    iobind_tensor_release(*buffer);
    *buffer = made;
  }
  IOBIND__TRY(iobind__tensor_copy_one(input->bound, *buffer, binding->session->stream, error));
  iobind_tensor *old = input->bound;
  input->bound = iobind_tensor_retain(*buffer);
  iobind__table_changed(binding);
  iobind__sides_replace_inside(binding, old);
  iobind_tensor_release(old);
  return IOBIND_OK;
}

/* A state that is carried by SWAP goes from one buffer to the other and back: two graphs. The first state, which the caller has bound, would
 * be a third, so it is copied into the buffer in whose place it stands. */
static iobind_status settle_states(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (binding->carries[i].mode == IOBIND_CARRY_SWAP) {
      IOBIND__TRY(settle_state(binding, &binding->carries[i], error));
    }
  }
  return bring_in_line(binding, error);
}

/* Memory for outputs that have none: the graph's, or of the dims that the plain run has shown. */
static iobind_status aim_outputs(iobind_binding *binding, const graph *from, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->output_count; i++) {
    iobind__output *output = &binding->outputs[i];
    if (output->mode != IOBIND_OUTPUT_REUSE || output->target != NULL) {
      continue;
    }
    if (from != NULL) {
      iobind__output_aim(output, from->made[i]);
    } else {
      iobind_tensor *shown = NULL;
      iobind_tensor *made = NULL;
      IOBIND__TRY(iobind__binding_peek(binding, i, &shown, error));
      IOBIND__TRY(iobind__tensor_create_at(output->place, shown->dtype, shown->dims, shown->rank, &made, error));
      iobind__output_aim(output, made);
      iobind_tensor_release(made);
    }
    iobind__table_changed(binding);
  }
  return IOBIND_OK;
}

static void run_for_nothing(iobind_binding *binding, const iobind_device *ordered) {
  if (bring_in_line(binding, NULL) == IOBIND_OK) {
    (void)run(binding, binding->run_options, ordered, NULL);
  }
}

/* ORT does not wait for what a run has submitted before it failed, but it does for the next run, which is on the same stream of ORT's. What
 * that one writes does not count, nor does a cancel, which would end it before it waits. If it fails as well, a stream of iobind's can be
 * waited for. */
static void wait_for_failed(iobind_binding *binding, const iobind_device *ordered) {
  bool cancelled = iobind__run_goes_on(binding);
  run_for_nothing(binding, ordered);
  if (!cancelled && iobind__run_goes_on(binding)) {
    run_for_nothing(binding, ordered); /* it was cancelled just now */
  }
  (void)iobind__stream_drain(binding->session->stream, NULL);
}

/* After a run whose outcome is `status`: what it has done to the states is undone, and its results are given up. */
static iobind_status put_back(iobind_binding *binding, const saved *states, const iobind_device *ordered, iobind_status status,
                              iobind_error *error) {
  if (status != IOBIND_OK && states->count > 0) {
    wait_for_failed(binding, ordered);
  }
  iobind_status restored = restore(binding, states, status == IOBIND_OK ? error : NULL);
  drop_results(binding);
  return status == IOBIND_OK ? restored : status;
}

/* Leaves the states as they were. */
static iobind_status run_plain(iobind_binding *binding, const saved *states, const iobind_device *ordered,
                               iobind_error *error) {
  IOBIND__TRY(bring_in_line(binding, error));
  iobind_status status = run(binding, binding->run_options, ordered, error);
  if (status == IOBIND_OK) {
    status = aim_outputs(binding, NULL, error);
  }
  return put_back(binding, states, ordered, status, error);
}

/* Capture what is bound, and leave the states as they were. *broken: another thread's call has ended the capture. */
static iobind_status capture(iobind_binding *binding, const saved *states, const iobind_device *ordered, bool *broken,
                             graph **out, iobind_error *error) {
  graph *self = NULL;
  *broken = false;
  IOBIND__TRY(bring_in_line(binding, error));
  IOBIND__TRY(make_graph(binding, &self, error));
  binding->is_capture_broken = false;
  iobind__scope scope;
  iobind_status status = iobind__guard_enter_alone(binding->session->graph_device->guard, &scope, error);
  if (status == IOBIND_OK) {
    status = iobind__run_ort(binding, self->options[AT_ONCE], ordered, error);
    iobind__guard_leave_alone(&scope);
  }
  bool is_whole = status == IOBIND_OK;
  *broken = !is_whole && binding->is_capture_broken;
  status = put_back(binding, states, ordered, status, error);
  if (status != IOBIND_OK) {
    iobind__session_release_graph(binding->session, self->known.id, is_whole);
    free_graph(binding, self);
    return status;
  }
  *out = self;
  return IOBIND_OK;
}

/* Calls that iobind does not make can come into a capture. Then it is tried once more, after a plain run, which leaves nothing of it. */
static iobind_status capture_twice(iobind_binding *binding, const saved *states, const iobind_device *ordered, graph **out,
                                   iobind_error *error) {
  bool broken;
  IOBIND__TRY(run_plain(binding, states, ordered, error));
  iobind_error first = IOBIND_ERROR_INIT;
  iobind_status status = capture(binding, states, ordered, &broken, out, &first);
  if (broken) {
    IOBIND__TRY(run_plain(binding, states, ordered, error));
    return capture(binding, states, ordered, &broken, out, error);
  }
  return status == IOBIND_OK ? IOBIND_OK : iobind__error_copy(error, &first);
}

static iobind_status check_room(const iobind_binding *binding, iobind_error *error) {
  const iobind__graphs *graphs = binding->graphs;
  if (graphs->count >= binding->session->graph_limit) {
    return iobind__fail(error, IOBIND_INVALID_STATE,
                        "binding_run: something is bound elsewhere, or has other dims or host bytes, than in the %zu captured "
                        "graphs, and graph_limit is %zu: write into the bound tensors, use one binding for each shape, or call "
                        "iobind_binding_forget_graphs",
                        graphs->count, binding->session->graph_limit);
  }
  return IOBIND_OK;
}

static iobind_status check_thread(const iobind_binding *binding, iobind_error *error) {
  const iobind__graphs *graphs = binding->graphs;
  return graphs->count == 0 || graphs->thread == iobind__thread_number()
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_INVALID_STATE,
                            "binding_run: the graphs of this binding were captured by another thread, and are its own: run it "
                            "there, or call iobind_binding_forget_graphs");
}

/* A trial is made of whole runs of the session, each of which enters it. */
static iobind_status try_first(iobind_binding *binding, iobind_error *error) {
  iobind__session_leave(binding->session);
  iobind_status status = iobind__graphs_try(binding, error);
  iobind__session_enter(binding->session);
  return status;
}

/* Wait for a stream of the session's device. Other runs of the session may come in meanwhile, as in a trial: one of them may bring what the
 * stream waits for. */
static iobind_status await_outside(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind__session_leave(binding->session);
  iobind_status status = iobind__stream_drain(stream, error);
  iobind__session_enter(binding->session);
  return status;
}

/* States are saved and put back by the host. So what is queued on the stream that the session computes on must have passed, behind which is
 * what the stream of this run has got so far. */
static iobind_status await_stream(iobind_binding *binding, iobind_error *error) {
  iobind_stream *stream = binding->session->stream;
  if (stream == NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(await_outside(binding, stream, error));
  return iobind__bridge_in(stream, error); /* its library may have begun a capture meanwhile */
}

static iobind_status add_graph(iobind_binding *binding, const iobind_device *ordered, graph **out, iobind_error *error) {
  iobind__graphs *graphs = binding->graphs;
  saved *states = NULL;
  IOBIND__TRY(check_room(binding, error));
  IOBIND__TRY(await_stream(binding, error));
  IOBIND__TRY(iobind__session_check_recycling(binding->session, "binding_run", error));
  IOBIND__TRY(graphs->is_tried ? try_first(binding, error) : IOBIND_OK);
  IOBIND__TRY(save(binding, &states, error));
  iobind_status status = capture_twice(binding, states, ordered, out, error);
  free_saved(states);
  if (status != IOBIND_OK) {
    return status;
  }
  (*out)->known.next = graphs->first;
  graphs->first = &(*out)->known;
  graphs->count++;
  atomic_fetch_add(&binding->session->graphs_live, 1);
  graphs->thread = iobind__thread_number();
  return IOBIND_OK;
}

/* The graph for what is bound, where the last run of this side does not tell. */
static iobind_status find_or_add(iobind_binding *binding, const iobind_device *ordered, graph **out, iobind_error *error) {
  IOBIND__TRY(check_thread(binding, error));
  IOBIND__TRY(settle_states(binding, error));
  *out = find(binding);
  if (*out == NULL && binding->graphs->reads_host) {
    iobind__outputs_reshape(binding); /* what is read on the host may decide about dims */
    *out = find(binding);
  }
  if (*out == NULL) {
    IOBIND__TRY(add_graph(binding, ordered, out, error));
  } else {
    IOBIND__TRY(aim_outputs(binding, *out, error));
  }
  return bring_in_line(binding, error);
}

/* Is what this side ran last a graph of this thread's, and has nothing been bound since? */
static bool is_bound_as_before(const iobind_binding *binding) {
  const iobind__graphs *graphs = binding->graphs;
  size_t turn = binding->turn;
  return graphs->last[turn] != NULL && graphs->compared[turn] == binding->sides[turn].compared &&
         graphs->thread == iobind__thread;
}

/* Bytes that belong to a graph are compared when the run is submitted. What is copied into pinned memory on the run's stream must have
 * arrived by then; for other memory of the host the run has waited. */
static iobind_status await_bytes(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  bool is_copied_to = false;
  for (size_t i = 0; stream != NULL && i < binding->session->input_count; i++) {
    const iobind__place *place = binding->inputs[i].bound->place;
    is_copied_to = is_copied_to || (place->host && !iobind__place_is_pageable(place));
  }
  return is_copied_to ? await_outside(binding, stream, error) : IOBIND_OK;
}

iobind__choice iobind__graphs_choose(iobind_binding *binding, iobind_stream *stream, const iobind_device *ordered,
                                     iobind_error *error) {
  iobind__graphs *graphs = binding->graphs;
  size_t turn = binding->turn;
  graph *self = graphs->last[turn];
  iobind_status arrived = graphs->reads_host ? await_bytes(binding, stream, error) : IOBIND_OK;
  if (arrived != IOBIND_OK) {
    return (iobind__choice){.status = arrived};
  }
  if (!is_bound_as_before(binding) || (graphs->reads_host && !same_bytes(binding, self, false))) {
    iobind_status status = find_or_add(binding, ordered, &self, error);
    if (status != IOBIND_OK) {
      return (iobind__choice){.status = status};
    }
    graphs->last[turn] = self;
    graphs->compared[turn] = binding->sides[turn].compared;
  }
  return (iobind__choice){IOBIND_OK, self->options[stream == NULL ? AT_ONCE : ON_STREAM]};
}

bool iobind__graphs_repeat(const iobind_binding *binding, iobind__replay *replay) {
  const iobind__graphs *graphs = binding->graphs;
  size_t turn = binding->turn;
  *replay = (iobind__replay){.thread = graphs->thread,
                             .turn = &binding->session->turn,
                             .run = IOBIND__API(binding->session->runtime)->RunWithBinding,
                             .session = binding->session->session,
                             .options = graphs->last[turn]->options[AT_ONCE],
                             .binding = binding->sides[turn].binding};
  return !graphs->reads_host;
}
