/* The kinds of states: patterns of operators between an output and the input that it is carried to. A pair that fits no pattern is unknown. */
#include "session/kind.h"

#include <stdlib.h>
#include <string.h>

#include "session/session.h"
#include "session/spread.h"
#include "session/topology.h"
#include "support/options.h"

enum { LONGEST = 16, RANKS = 16 };

/* An operator that makes a state out of an earlier one. */
typedef struct pattern {
  iobind__op op;
  uint32_t output;
  uint32_t input;
  iobind_state_kind kind;
} pattern;

static const pattern patterns[] = {
    {IOBIND__OP_CONCAT, 0, 0, IOBIND_STATE_GROWING},
    {IOBIND__OP_ATTENTION, 1, 4, IOBIND_STATE_GROWING},
    {IOBIND__OP_ATTENTION, 2, 5, IOBIND_STATE_GROWING},
    {IOBIND__OP_GROUP_QUERY_ATTENTION, 1, 3, IOBIND_STATE_CAPACITY},
    {IOBIND__OP_GROUP_QUERY_ATTENTION, 2, 4, IOBIND_STATE_CAPACITY},
    {IOBIND__OP_TENSOR_SCATTER, 0, 0, IOBIND_STATE_CAPACITY},
    {IOBIND__OP_GRU, 1, 5, IOBIND_STATE_RECURRENT},
    {IOBIND__OP_LSTM, 1, 5, IOBIND_STATE_RECURRENT},
    {IOBIND__OP_LSTM, 2, 6, IOBIND_STATE_RECURRENT},
    {IOBIND__OP_RNN, 1, 5, IOBIND_STATE_RECURRENT},
};

/* The graph that is searched, and which of its wires are the session's inputs. */
typedef struct search {
  const iobind__topology *graph;
  const iobind_session *session;
  size_t *inputs; /* of each wire; SIZE_MAX: none */
} search;

/* Nodes that pass a state on, from the end to the beginning. */
typedef struct chain {
  uint32_t start; /* the wire at the beginning */
  size_t count;
  size_t slices;
  uint32_t nodes[LONGEST];
} chain;

/* A state between two operators. */
typedef struct pattern_match {
  const pattern *by;
  uint32_t node;
  chain before; /* from the input to the operator */
  chain behind; /* from the operator to the output */
} pattern_match;

/* ---- from the output back to the input ---- */

static bool passes_on(iobind__op op) {
  return op == IOBIND__OP_IDENTITY || op == IOBIND__OP_CAST || op == IOBIND__OP_RESHAPE || op == IOBIND__OP_SQUEEZE ||
         op == IOBIND__OP_UNSQUEEZE || op == IOBIND__OP_SLICE;
}

/* Follow nodes that only pass a value on. False: the chain is too long. */
static bool trace(const search *in, uint32_t wire, chain *found) {
  *found = (chain){.start = wire};
  for (;;) {
    uint32_t node = iobind__topology_wire(in->graph, found->start)->node;
    iobind__op op = node == IOBIND__NO_INDEX ? IOBIND__OP_OTHER : iobind__topology_node(in->graph, node)->op;
    if (!passes_on(op)) {
      return true;
    }
    if (found->count == LONGEST) {
      return false;
    }
    found->nodes[found->count++] = node;
    found->slices += op == IOBIND__OP_SLICE ? 1 : 0;
    found->start = iobind__topology_input(in->graph, node, 0);
  }
}

static const pattern *find_pattern(iobind__op op, uint32_t output) {
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    if (patterns[i].op == op && patterns[i].output == output) {
      return &patterns[i];
    }
  }
  return NULL;
}

/* Does the node append something else? */
static bool appends(const search *in, uint32_t node, uint32_t state) {
  uint32_t count = iobind__topology_node(in->graph, node)->input_count;
  for (uint32_t i = 1; i < count; i++) {
    chain other;
    if (!trace(in, iobind__topology_input(in->graph, node, i), &other) || other.start == state) {
      return false;
    }
  }
  return count > 1;
}

static bool find_match(const search *in, uint32_t output, pattern_match *found) {
  if (!trace(in, output, &found->behind)) {
    return false;
  }
  const iobind__wire *end = iobind__topology_wire(in->graph, found->behind.start);
  found->node = end->node;
  found->by = end->node == IOBIND__NO_INDEX ? NULL : find_pattern(iobind__topology_node(in->graph, end->node)->op, end->slot);
  if (found->by == NULL || !trace(in, iobind__topology_input(in->graph, end->node, found->by->input), &found->before)) {
    return false;
  }
  uint32_t state = found->before.start;
  return in->inputs[state] != SIZE_MAX && (found->by->op != IOBIND__OP_CONCAT || appends(in, end->node, state));
}

/* ---- which axis of the state is which axis of a value on the way ---- */

typedef struct axes {
  size_t rank;
  size_t of[RANKS]; /* the state's; SIZE_MAX: none */
  size_t sliced;    /* the state's; SIZE_MAX: none */
} axes;

static bool normalise(int64_t axis, size_t rank, size_t *out) {
  int64_t from_start = axis < 0 ? axis + (int64_t)rank : axis;
  *out = (size_t)from_start;
  return from_start >= 0 && from_start < (int64_t)rank;
}

/* The axes of a node are an attribute in old models, an input in others. As a set of bits. */
static bool read_axes(const search *in, uint32_t node, uint32_t slot, size_t rank, uint32_t *set) {
  iobind__few few;
  uint32_t wire = iobind__topology_input(in->graph, node, slot);
  bool is_known =
      wire != 0 ? iobind__topology_constant(in->graph, wire, &few) : iobind__topology_attribute(in->graph, node, "axes", &few);
  *set = 0;
  for (size_t i = 0; is_known && i < few.count; i++) {
    size_t axis;
    is_known = normalise(few.values[i], rank, &axis);
    *set |= is_known ? 1u << axis : 0;
  }
  return is_known && few.count > 0;
}

static bool squeeze(const search *in, uint32_t node, axes *at) {
  uint32_t set;
  size_t kept = 0;
  if (!read_axes(in, node, 1, at->rank, &set)) {
    return false;
  }
  for (size_t i = 0; i < at->rank; i++) {
    if ((set >> i & 1u) == 0) {
      at->of[kept++] = at->of[i];
    }
  }
  at->rank = kept;
  return true;
}

static bool unsqueeze(const search *in, uint32_t node, axes *at) {
  iobind__few few;
  uint32_t wire = iobind__topology_input(in->graph, node, 1);
  bool is_known =
      wire != 0 ? iobind__topology_constant(in->graph, wire, &few) : iobind__topology_attribute(in->graph, node, "axes", &few);
  axes made = {.sliced = at->sliced, .rank = at->rank + (is_known ? few.count : 0)};
  uint32_t set;
  if (!is_known || made.rank > RANKS || !read_axes(in, node, 1, made.rank, &set)) {
    return false;
  }
  size_t next = 0;
  for (size_t i = 0; i < made.rank; i++) {
    bool is_new = (set >> i & 1u) != 0;
    if (!is_new && next == at->rank) {
      return false; /* an axis was given twice */
    }
    made.of[i] = is_new ? SIZE_MAX : at->of[next++];
  }
  *at = made;
  return next == made.rank - few.count;
}

static bool slice(const search *in, uint32_t node, axes *at) {
  uint32_t set;
  if (!read_axes(in, node, 3, at->rank, &set)) {
    return false;
  }
  for (size_t i = 0; i < at->rank; i++) {
    if ((set >> i & 1u) != 0) {
      if (at->of[i] == SIZE_MAX || (at->sliced != SIZE_MAX && at->sliced != at->of[i])) {
        return false;
      }
      at->sliced = at->of[i];
    }
  }
  return true;
}

static bool follow(const search *in, const chain *along, axes *at) {
  bool is_known = true;
  for (size_t i = along->count; is_known && i > 0; i--) {
    uint32_t node = along->nodes[i - 1];
    iobind__op op = iobind__topology_node(in->graph, node)->op;
    is_known = op == IOBIND__OP_SQUEEZE     ? squeeze(in, node, at)
               : op == IOBIND__OP_UNSQUEEZE ? unsqueeze(in, node, at)
               : op == IOBIND__OP_SLICE     ? slice(in, node, at)
                                            : op != IOBIND__OP_RESHAPE;
  }
  return is_known;
}

/* Of what the operator reads; attention has [batch, heads, length, size of a head]. */
static bool read_axis(const search *in, const pattern_match *of, int64_t *axis) {
  iobind__few few = {0};
  if (of->by->op == IOBIND__OP_ATTENTION || of->by->op == IOBIND__OP_GROUP_QUERY_ATTENTION) {
    *axis = 2;
    return true;
  }
  bool is_given = iobind__topology_attribute(in->graph, of->node, "axis", &few);
  *axis = is_given ? few.values[0] : -2; /* TensorScatter's default */
  return is_given || of->by->op == IOBIND__OP_TENSOR_SCATTER;
}

/* The state's axes that its length and the rows of its batch are on, if each axis of the output is the same one of the input. */
static void find_axes(const search *in, const pattern_match *of, iobind__kind *to, size_t *sliced) {
  const iobind__value *state = &in->session->inputs[in->inputs[of->before.start]];
  axes at = {.rank = state->rank, .sliced = SIZE_MAX};
  int64_t axis;
  size_t place;
  if (!state->has_shape || state->rank > RANKS) {
    return;
  }
  for (size_t i = 0; i < at.rank; i++) {
    at.of[i] = i;
  }
  if (!follow(in, &of->before, &at) || !read_axis(in, of, &axis) || !normalise(axis, at.rank, &place)) {
    return;
  }
  const axes read = at;
  bool is_same = follow(in, &of->behind, &at) && at.rank == state->rank;
  for (size_t i = 0; is_same && i < at.rank; i++) {
    is_same = at.of[i] == i || at.of[i] == SIZE_MAX; /* squeezed out and put back: a dim of 1 */
  }
  *sliced = at.sliced;
  to->axis = is_same ? read.of[place] : SIZE_MAX;
  to->rows = is_same ? read.of[0] : SIZE_MAX;
}

/* ---- the inputs that the lengths of a cache come from ---- */

/* Wires that are to be visited. The arrays have an entry for each wire. */
typedef struct walk {
  const search *in;
  bool *seen;
  uint32_t *due;
  uint8_t *spread; /* iobind__spread */
} walk;

typedef void visit(const search *in, uint32_t wire, iobind__kind *to);

/* All that a wire comes from, through all that is computed on the way. */
static void collect(const walk *self, uint32_t from, visit *look, iobind__kind *to) {
  const search *in = self->in;
  size_t count = 0;
  if (from != 0 && !self->seen[from]) {
    self->due[count++] = from;
    self->seen[from] = true;
  }
  while (count > 0) {
    uint32_t wire = self->due[--count];
    uint32_t node = iobind__topology_wire(in->graph, wire)->node;
    look(in, wire, to);
    uint32_t inputs = node == IOBIND__NO_INDEX ? 0 : iobind__topology_node(in->graph, node)->input_count;
    for (uint32_t i = 0; i < inputs; i++) {
      uint32_t next = iobind__topology_input(in->graph, node, i);
      if (next != 0 && !self->seen[next]) {
        self->due[count++] = next;
        self->seen[next] = true;
      }
    }
  }
}

static void doubt(iobind__kind *to, const char *why) {
  to->doubt = to->doubt == NULL ? why : to->doubt;
}

/* Its index among the lengths; SIZE_MAX: the list is full. */
static size_t place_length(iobind__kind *to, size_t input) {
  size_t place = 0;
  while (place < to->length_count && to->lengths[place] != input) {
    place++;
  }
  if (place == IOBIND__LENGTH_INPUTS) {
    doubt(to, "its lengths come from too many inputs");
    return SIZE_MAX;
  }
  if (place == to->length_count) {
    to->lengths[to->length_count++] = input;
  }
  return place;
}

static void add_length(const search *in, uint32_t wire, iobind__kind *to) {
  size_t input = in->inputs[wire];
  if (input != SIZE_MAX && input != to->input) {
    (void)place_length(to, input);
  }
}

/* A wire of an operator that takes a length: an input that is passed on as it is has the role. */
static void add_role(const walk *self, uint32_t wire, iobind_length_role role, iobind__kind *to) {
  chain way;
  collect(self, wire, add_length, to);
  if (wire == 0 || !trace(self->in, wire, &way) || way.slices > 0 || self->in->inputs[way.start] == SIZE_MAX) {
    return;
  }
  size_t place = place_length(to, self->in->inputs[way.start]);
  if (place == SIZE_MAX) {
    return;
  }
  if (to->roles[place] != IOBIND_LENGTH_UNNAMED && to->roles[place] != role) {
    doubt(to, "operators read different lengths from one input");
  }
  to->roles[place] = role;
}

/* ---- other operators that read a cache, and take its length ---- */

static uint8_t spread_at(const walk *self, uint32_t node, uint32_t slot) {
  return self->spread[iobind__topology_input(self->in->graph, node, slot)];
}

/* What an operator takes for the rows of a cache at two places. */
static uint8_t spread_of_pair(const walk *self, uint32_t node, uint32_t slot) {
  uint8_t one = spread_at(self, node, slot);
  uint8_t two = spread_at(self, node, slot + 1);
  return one > two ? one : two;
}

/* ONNX's Attention takes the lengths of the caches that TensorScatter writes. */
static void add_attention(const walk *self, uint32_t node, iobind__kind *to) {
  uint32_t length = iobind__topology_input(self->in->graph, node, 6);
  uint8_t read = spread_of_pair(self, node, 1);
  if (length == 0 || read == IOBIND__SPREAD_NONE) {
    return;
  }
  add_role(self, length, IOBIND_LENGTH_AFTER, to);
  if (read == IOBIND__SPREAD_MIXED) {
    doubt(to, "an Attention with a length reads the cache through other nodes");
  }
}

static void add_grouped_lengths(const walk *self, uint32_t node, iobind__kind *to) {
  add_role(self, iobind__topology_input(self->in->graph, node, 5), IOBIND_LENGTH_LAST, to);
  add_role(self, iobind__topology_input(self->in->graph, node, 6), IOBIND_LENGTH_EXTENT, to);
}

/* Several layers may share one cache. */
static void add_grouped(const walk *self, uint32_t node, iobind__kind *to) {
  uint8_t read = spread_of_pair(self, node, 3);
  if (read == IOBIND__SPREAD_NONE) {
    return;
  }
  add_grouped_lengths(self, node, to);
  if (read == IOBIND__SPREAD_MIXED) {
    doubt(to, "a GroupQueryAttention reads the cache through other nodes");
  }
}

static void add_foreign(const walk *self, uint32_t node, uint32_t past, iobind__kind *to) {
  uint32_t count = iobind__topology_node(self->in->graph, node)->input_count;
  for (uint32_t i = 0; i < count; i++) {
    bool is_past = iobind__topology_input(self->in->graph, node, i) == past;
    if (is_past || spread_at(self, node, i) == IOBIND__SPREAD_ROWS) {
      doubt(to, "an operator of another domain than ONNX's reads the cache, and may have a length");
    }
  }
}

/* Another operator that reads the operator's input does not see the rows that this run adds. */
static void add_readers(const walk *self, const pattern_match *of, iobind__kind *to) {
  const iobind__topology *graph = self->in->graph;
  self->spread[of->before.start] = IOBIND__SPREAD_MIXED;
  self->spread[of->behind.start] = IOBIND__SPREAD_ROWS;
  iobind__spread_find(graph, self->spread);
  for (uint32_t i = 0; i < iobind__topology_node_count(graph); i++) {
    iobind__op op = iobind__topology_node(graph, i)->op;
    if (i != of->node && op == IOBIND__OP_ATTENTION) {
      add_attention(self, i, to);
    } else if (i != of->node && op == IOBIND__OP_GROUP_QUERY_ATTENTION) {
      add_grouped(self, i, to);
    } else if (op == IOBIND__OP_FOREIGN) {
      add_foreign(self, i, of->before.start, to);
    }
  }
  if (iobind__spread_is_attended_inside(graph, self->spread)) {
    doubt(to, "graphs of control flow read the cache, and may have a length");
  }
}

/* ---- the input that has what a run adds to a cache ---- */

/* Token ids are whole numbers [batch, tokens], by which rows are taken out of a table of weights. Others of that form, such as positions, must have
 * as many. */
static void add_tokens(const search *in, uint32_t wire, iobind__kind *to) {
  uint32_t node = iobind__topology_wire(in->graph, wire)->node;
  bool is_gather = node != IOBIND__NO_INDEX && iobind__topology_node(in->graph, node)->op == IOBIND__OP_GATHER;
  if (!is_gather || iobind__topology_wire(in->graph, iobind__topology_input(in->graph, node, 0))->constant.number == 0) {
    return;
  }
  size_t input = in->inputs[iobind__topology_input(in->graph, node, 1)];
  if (input == SIZE_MAX || !in->session->inputs[input].has_shape || in->session->inputs[input].rank != 2) {
    return;
  }
  const char *symbol = in->session->inputs[input].symbols[1];
  if (to->tokens == SIZE_MAX) {
    to->tokens = input;
  } else if (to->tokens != input && (symbol[0] == '\0' || strcmp(symbol, in->session->inputs[to->tokens].symbols[1]) != 0)) {
    to->tokens_axis = SIZE_MAX;
  }
}

/* The rows themselves are an input, or are computed from token ids. */
static void find_tokens(const walk *self, const pattern_match *of, iobind__kind *to) {
  bool is_scatter = of->by->op == IOBIND__OP_TENSOR_SCATTER;
  uint32_t key = iobind__topology_input(self->in->graph, of->node, 1);
  uint32_t wire = key != 0 ? key : iobind__topology_input(self->in->graph, of->node, 0);
  size_t input = self->in->inputs[wire];
  to->tokens = input;
  to->tokens_axis = is_scatter ? to->axis : 1;
  if (input == SIZE_MAX) {
    to->tokens_axis = 1;
    memset(self->seen, 0, iobind__topology_wire_count(self->in->graph) * sizeof *self->seen);
    collect(self, wire, add_tokens, to);
    to->tokens = to->tokens_axis == SIZE_MAX ? SIZE_MAX : to->tokens;
  }
}

static iobind_status find_lengths(const search *in, const pattern_match *of, iobind__kind *to, iobind_error *error) {
  size_t count = iobind__topology_wire_count(in->graph);
  const walk self = {.in = in,
                     .seen = calloc(count, sizeof *self.seen),
                     .due = calloc(count, sizeof *self.due),
                     .spread = calloc(count, sizeof *self.spread)};
  bool is_made = self.seen != NULL && self.due != NULL && self.spread != NULL;
  if (is_made && of->by->op == IOBIND__OP_GROUP_QUERY_ATTENTION) {
    add_grouped_lengths(&self, of->node, to);
  } else if (is_made) {
    add_role(&self, iobind__topology_input(in->graph, of->node, 2), IOBIND_LENGTH_BEFORE, to);
  }
  if (is_made) {
    add_readers(&self, of, to);
    find_tokens(&self, of, to);
  }
  free(self.seen);
  free(self.due);
  free(self.spread);
  return is_made ? IOBIND_OK : iobind__out_of_memory(error, "the model's graph");
}

/* ---- together ---- */

static iobind_state_kind judge(const search *in, const pattern_match *of, size_t axis, size_t sliced) {
  bool is_sliced = of->before.slices + of->behind.slices > 0;
  if (of->by->kind == IOBIND_STATE_GROWING) {
    return axis == SIZE_MAX ? IOBIND_STATE_UNKNOWN
           : !is_sliced     ? IOBIND_STATE_GROWING
           : sliced == axis ? IOBIND_STATE_WINDOW
                            : IOBIND_STATE_UNKNOWN;
  }
  bool is_ring =
      of->by->op == IOBIND__OP_TENSOR_SCATTER && iobind__topology_attribute_is(in->graph, of->node, "mode", "circular");
  return is_sliced ? IOBIND_STATE_UNKNOWN : is_ring ? IOBIND_STATE_WINDOW : of->by->kind;
}

static size_t count_readers(const iobind__bytes *edges, uint32_t wire) {
  const uint32_t *read = (const uint32_t *)(const void *)edges->data;
  size_t readers = 0;
  for (size_t i = 0; i < edges->length / sizeof *read; i++) {
    readers += read[i] == wire ? 1 : 0;
  }
  return readers;
}

/* Does the operator alone read the input, and is what it makes the output? */
static bool is_shareable(const search *in, const pattern_match *of) {
  size_t readers = count_readers(&in->graph->edges, of->before.start) + count_readers(&in->graph->inner, of->before.start);
  return readers == 1 && !in->graph->is_too_deep && of->before.count == 0 && of->behind.count == 0;
}

static iobind_status find_kind(const search *in, const char *output, iobind__kind *out, iobind_error *error) {
  uint32_t wire = iobind__topology_find(in->graph, output);
  pattern_match found;
  size_t sliced = SIZE_MAX;
  *out = (iobind__kind){.axis = SIZE_MAX, .rows = SIZE_MAX, .tokens = SIZE_MAX};
  if (wire == IOBIND__NO_INDEX || !find_match(in, wire, &found)) {
    return IOBIND_OK;
  }
  if (found.by->kind != IOBIND_STATE_RECURRENT) {
    find_axes(in, &found, out, &sliced);
  }
  out->kind = judge(in, &found, out->axis, sliced);
  out->input = in->inputs[found.before.start];
  out->is_shareable = is_shareable(in, &found);
  out->is_grouped = found.by->op == IOBIND__OP_GROUP_QUERY_ATTENTION;
  return out->kind == IOBIND_STATE_CAPACITY ? find_lengths(in, &found, out, error) : IOBIND_OK;
}

static iobind_status find_all(const search *in, iobind__kind *kinds, iobind_error *error) {
  const iobind_session *session = in->session;
  memset(in->inputs, 0xFF, iobind__topology_wire_count(in->graph) * sizeof *in->inputs);
  for (size_t i = 0; i < session->input_count; i++) {
    uint32_t wire = iobind__topology_find(in->graph, session->inputs[i].name);
    if (wire != IOBIND__NO_INDEX) {
      in->inputs[wire] = i;
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    IOBIND__TRY(find_kind(in, session->outputs[i].name, &kinds[i], error));
  }
  return IOBIND_OK;
}

iobind_status iobind__kinds_read(iobind__model_bytes *model, const iobind_session *session, iobind__kind **kinds,
                                 iobind_error *error) {
  iobind__topology graph;
  IOBIND__TRY(iobind__topology_read(model, &graph, error));
  search in = {.graph = &graph, .session = session};
  in.inputs = calloc(iobind__topology_wire_count(&graph) + 1, sizeof *in.inputs);
  iobind__kind *made = calloc(session->output_count + 1, sizeof *made);
  iobind_status status =
      in.inputs == NULL || made == NULL ? iobind__out_of_memory(error, "the model's graph") : find_all(&in, made, error);
  free(in.inputs);
  iobind__topology_free(&graph);
  if (status != IOBIND_OK) {
    free(made);
    return status;
  }
  *kinds = made;
  return IOBIND_OK;
}

/* ---- queries ---- */

const char *iobind__kind_word(iobind_state_kind kind) {
  static const char *const words[] = {"unknown", "recurrent", "growing", "window", "capacity"};
  return words[kind];
}

static bool any_device_has(const iobind_session *session, uint32_t quirk) {
  bool found = false;
  for (size_t i = 0; i < session->device_count; i++) {
    found = found || iobind__device_has(session->devices[i], quirk);
  }
  return found;
}

/* MOVE and SWAP copy the whole of a cache in each run. */
iobind_carry_mode iobind__kind_mode(const iobind__kind *self, const iobind_session *session) {
  bool is_shared = self->kind == IOBIND_STATE_CAPACITY && self->is_shareable &&
                   !(self->is_grouped && any_device_has(session, IOBIND__QUIRK_NO_SHARED_CACHE));
  return is_shared ? IOBIND_CARRY_IN_PLACE : session->graphs.limit > 0 ? IOBIND_CARRY_SWAP : IOBIND_CARRY_MOVE;
}

iobind_status iobind__session_find_kind(iobind_session *session, size_t output, size_t input, iobind__kind *out,
                                        iobind_error *error) {
  const iobind__kind *kinds = NULL;
  *out = (iobind__kind){.axis = SIZE_MAX, .rows = SIZE_MAX, .tokens = SIZE_MAX};
  if (session->model != NULL) {
    IOBIND__TRY(iobind__model_find_kinds(session->model, session, &kinds, error));
  }
  if (kinds != NULL && kinds[output].kind != IOBIND_STATE_UNKNOWN && kinds[output].input == input) {
    *out = kinds[output];
  }
  return IOBIND_OK;
}

iobind_status iobind__session_known_kind(iobind_session *session, size_t output, size_t input, iobind__kind *out,
                                         iobind_error *error) {
  iobind_error unread = IOBIND_ERROR_INIT;
  iobind_status status = iobind__session_find_kind(session, output, input, out, &unread);
  return status == IOBIND_OK || status == IOBIND_ERROR_IO ? IOBIND_OK : iobind__error_copy(error, &unread);
}

iobind_status iobind_session_get_state_kind(iobind_session *session, size_t output, size_t input, iobind_state_kind_info *info,
                                            iobind_error *error) {
  static const char what[] = "session_get_state_kind";
  iobind__kind found;
  IOBIND__TRY(iobind__null_check(session, "session", what, error));
  if (output >= session->output_count || input >= session->input_count) {
    bool bad_output = output >= session->output_count;
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: %s: expected an index below %zu, got %zu", what,
                        bad_output ? "output" : "input", bad_output ? session->output_count : session->input_count,
                        bad_output ? output : input);
  }
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(iobind__named(iobind__session_find_kind(session, output, input, &found, error), error, what));
  const iobind_state_kind_info full = {
      .struct_size = sizeof full, .kind = found.kind, .axis = found.axis, .mode = iobind__kind_mode(&found, session)};
  return IOBIND__INFO_WRITE(info, &full, what, error);
}

/* ---- lengths ---- */

bool iobind__length_has_type(int32_t dtype) {
  return dtype == IOBIND_DTYPE_INT32 || dtype == IOBIND_DTYPE_INT64;
}

bool iobind__length_find_wrong(const iobind_tensor *values, const void *data, int64_t most, iobind__length_value *found) {
  const bool is_short = values->dtype == IOBIND_DTYPE_INT32;
  for (size_t i = 0; i < values->bytes / (is_short ? sizeof(int32_t) : sizeof(int64_t)); i++) {
    const int64_t value = is_short ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
    if (value < 0 || value > most) {
      *found = (iobind__length_value){i, value};
      return true;
    }
  }
  return false;
}
