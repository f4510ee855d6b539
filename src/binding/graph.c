/* A graph: the memory that a run reads and writes, and ORT's number for what the run launches there. ORT replays a graph at the addresses
 * of its capture and checks nothing. So a run is given a graph only if all that it reads and writes is where it was at the capture, with the
 * same dims; what the session reads on the host must have the same bytes, because nodes on the CPU do not run in a replay. */
#include "binding/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding/table.h"

/* ---- memory ---- */

static iobind__memory_key key_of(const iobind_tensor *tensor) {
  iobind__memory_key key = {.place = NULL};
  if (tensor != NULL) {
    key.place = tensor->place;
    key.data = tensor->data;
    key.bytes = tensor->bytes;
    key.rank = tensor->rank;
    memcpy(key.dims, tensor->dims, tensor->rank * sizeof key.dims[0]);
  }
  return key;
}

static bool fits(const iobind__memory_key *key, const iobind_tensor *tensor) {
  return key->place == tensor->place && key->data == tensor->data && key->rank == tensor->rank &&
         memcmp(key->dims, tensor->dims, tensor->rank * sizeof key->dims[0]) == 0;
}

bool iobind__graph_uses(const iobind_binding *binding, const iobind__graph *self, const iobind_tensor *tensor) {
  size_t count = binding->session->input_count + binding->session->output_count;
  bool uses = false;
  for (size_t i = 0; !uses && i < count; i++) {
    const iobind__memory_key *key = &self->keys[i];
    uses = key->place != NULL &&
           iobind__memory_overlaps(key->place, key->data, key->bytes, tensor->place, tensor->data, tensor->bytes);
  }
  return uses;
}

/* ---- bytes of inputs on the host ---- */

static size_t count_bytes(const iobind_binding *binding) {
  size_t count = 0;
  for (size_t i = 0; i < binding->session->input_count; i++) {
    count += binding->inputs[i].bound->place->host ? binding->inputs[i].bound->bytes : 0;
  }
  return count;
}

static void take_bytes(const iobind_binding *binding, iobind__graph *self) {
  size_t offset = 0;
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind_tensor *tensor = binding->inputs[i].bound;
    if (tensor->place->host && tensor->bytes > 0) {
      memcpy(self->bytes + offset, tensor->data, tensor->bytes);
      offset += tensor->bytes;
    }
  }
}

bool iobind__graph_has_bytes(const iobind_binding *binding, const iobind__graph *self) {
  bool same = self->byte_count == count_bytes(binding);
  size_t offset = 0;
  for (size_t i = 0; same && i < binding->session->input_count; i++) {
    const iobind_tensor *tensor = binding->inputs[i].bound;
    if (tensor->place->host && tensor->bytes > 0) {
      same = memcmp(self->bytes + offset, tensor->data, tensor->bytes) == 0;
      offset += tensor->bytes;
    }
  }
  return same;
}

/* ---- the key ---- */

static bool output_matches(const iobind_binding *binding, const iobind__graph *self, size_t index) {
  const iobind__memory_key *key = &self->keys[binding->session->input_count + index];
  const iobind__output *output = &binding->outputs[index];
  if (output->mode == IOBIND__OUTPUT_NONE) {
    return key->place == NULL;
  }
  return output->target != NULL ? fits(key, output->target) : self->made[index] != NULL;
}

bool iobind__graph_matches(const iobind_binding *binding, const iobind__graph *self) {
  const iobind_session *session = binding->session;
  bool same = true;
  for (size_t i = 0; same && i < session->input_count; i++) {
    same = fits(&self->keys[i], binding->inputs[i].bound);
  }
  for (size_t i = 0; same && i < session->output_count; i++) {
    same = output_matches(binding, self, i);
  }
  return same && iobind__graph_has_bytes(binding, self);
}

/* ---- creation and destruction ---- */

iobind_status iobind__graph_create(const iobind_binding *binding, iobind__graph **out, iobind_error *error) {
  const iobind_session *session = binding->session;
  iobind__graph *self = calloc(1, sizeof *self + (session->input_count + session->output_count) * sizeof self->keys[0]);
  size_t bytes = count_bytes(binding);
  if (self != NULL) {
    self->byte_count = bytes;
    self->made = calloc(session->output_count + 1, sizeof(iobind_tensor *));
    self->bytes = calloc(bytes + 1, 1);
  }
  if (self == NULL || self->made == NULL || self->bytes == NULL) {
    iobind__graph_destroy(binding, self);
    return iobind__out_of_memory(error, "binding_run");
  }
  take_bytes(binding, self);
  for (size_t i = 0; i < session->input_count; i++) {
    self->keys[i] = key_of(binding->inputs[i].bound);
  }
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    self->keys[session->input_count + i] = key_of(output->target);
    if (output->mode == IOBIND__OUTPUT_REUSE && output->target != NULL) {
      self->made[i] = iobind_tensor_retain(output->target);
      iobind__tensor_hand_to(self->made[i], IOBIND_HOLDER_GRAPH);
    }
  }
  *out = self;
  return IOBIND_OK;
}

void iobind__graph_destroy(const iobind_binding *binding, iobind__graph *self) {
  if (self == NULL) {
    return;
  }
  for (size_t i = 0; self->made != NULL && i < binding->session->output_count; i++) {
    iobind__tensor_hand_to(self->made[i], IOBIND_HOLDER_CALLER); /* the caller may have retained it */
    iobind_tensor_release(self->made[i]);
  }
  iobind__ort_options_release(binding->session, &self->options);
  iobind__registry_give_up(self->captured);
  free(self->made);
  free(self->bytes);
  free(self);
}

iobind_status iobind__graph_make_options(const iobind_binding *binding, iobind__graph *self, bool is_queued,
                                         OrtRunOptions **options, iobind_error *error) {
  const iobind__ort_options *used = &self->options;
  if (self->captured == NULL || iobind__run_options_want_no_graph(&binding->settings.words.options)) {
    used = &binding->settings.ort;
  } else if (used->now == NULL) {
    char number[16];
    snprintf(number, sizeof number, "%d", self->captured->id);
    IOBIND__TRY(iobind__ort_options_make(binding->session, &binding->settings.words.options, number, "binding_run",
                                         &self->options, error));
  }
  *options = is_queued ? used->queued : used->now;
  return IOBIND_OK;
}

/* ---- what cannot be bound: anything whose address changes in each run, or that ORT would copy outside of the graph ---- */

static iobind_status refuse(const char *what, const char *name, const char *why, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s': the session captures graphs (graph_limit): %s", what, name,
                      why);
}

iobind_status iobind__graphs_check_live(const iobind_binding *binding, size_t index, iobind_error *error) {
  return binding->graphs == NULL
             ? IOBIND_OK
             : refuse("binding_set_input", binding->session->inputs[index].name,
                      "expected a tensor where the session reads it, or SNAPSHOT and iobind_binding_write_input, got LIVE from "
                      "another location",
                      error);
}

iobind_status iobind__graphs_check_output(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                          const iobind__place *place, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->outputs[index];
  if (binding->graphs == NULL || mode == IOBIND__OUTPUT_NONE) {
    return IOBIND_OK;
  }
  if (mode == IOBIND__OUTPUT_FRESH) {
    return refuse("binding_set_output", value->name,
                  "expected REUSE, FIXED or IN_PLACE, got FRESH, whose address changes in each run", error);
  }
  bool is_there = place == value->place || iobind__same_memory(session->runtime, place->info, value->place->info);
  return is_there ? IOBIND_OK
                  : refuse("binding_set_output", value->name,
                           "expected the memory where the session leaves it, got other memory, which a replay does not write",
                           error);
}

iobind_status iobind__graphs_check_carry(const iobind_binding *binding, size_t output, iobind_carry_mode mode,
                                         iobind_error *error) {
  const char *name = binding->session->outputs[output].name;
  if (binding->graphs == NULL || mode == IOBIND_CARRY_IN_PLACE) {
    return IOBIND_OK;
  }
  if (mode == IOBIND_CARRY_MOVE) {
    return refuse("binding_carry", name, "expected SWAP or IN_PLACE, got MOVE, whose address changes in each run", error);
  }
  if (iobind__session_graphs_have(binding->session, IOBIND__QUIRK_GRAPH_RECYCLES)) {
    return refuse("binding_carry", name, "SWAP needs two graphs, but with this ORT a session can have only one", error);
  }
  return binding->session->graphs.limit >= 2
             ? IOBIND_OK
             : refuse("binding_carry", name, "SWAP needs two graphs, but graph_limit is 1", error);
}
