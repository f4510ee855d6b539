/* States: saved, restored into the same binding or another one, and read. */
#include <string.h>

#include "operations.h"

#define W the_world

/* ---- saved ---- */

void state_drop(saved *of) {
  iobind_state_release(of->handle);
  for (size_t i = 0; i < MOST_PORTS; i++) view_drop(&of->values[i]);
  *of = (saved){.stream = -1};
}

/* The tensor may become read-only for all its owners. */
static void freeze(view of) {
  if (of.block != NULL) of.block->is_frozen = true;
}

static void expect_save(const bound *one, expectation *expected) {
  const shadow *of = &one->shadow;
  bool any = false;
  for (size_t i = 0; i < of->model->output_count; i++) {
    const carry_shadow *carry = &of->carries[i];
    if (!carry->is_on) continue;
    any = true;
    const input_shadow *input = &of->inputs[carry->input];
    if (shadow_next_input(of, carry->input).block == NULL) expected->must |= STATUS(INVALID_STATE);
    if (input->torn) expected->may |= STATUS(INVALID_STATE);
    if (input->lost && !carry->is_due) expected->must |= STATUS(INVALID_STATE);
    if (of->results[i].kind == RESULT_NONE) expected->may |= one->failures;
  }
  if (!any) expected->must |= STATUS(INVALID_STATE);
}

/* Note the values of the state: a copy, which no later call changes. */
static void note_saved(const bound *one, saved *to) {
  const shadow *of = &one->shadow;
  for (size_t i = 0; i < of->model->output_count; i++) {
    const carry_shadow *carry = &of->carries[i];
    if (!carry->is_on) continue;
    view next = shadow_next_input(of, carry->input);
    view copy = {block_make(next.count), 0, next.count};
    elements values = view_read(next);
    view_set(&to->values[carry->input], copy);
    view_write(copy, values.at);
    copy.block->known = view_is_known(next, of->number) && !of->inputs[carry->input].torn;
    to->outputs[carry->input] = i;
    to->holds |= 1u << carry->input;
    if (carry->is_due && carry->mode != IOBIND_CARRY_IN_PLACE) freeze(next);
  }
}

static void save(bound *one, saved *to) {
  bool in_flight = is_in_flight(one);
  if (fault_is_set() || one->flight.must_fail) return;
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    /* unknown: the outcome of the run, and the run that the state belongs to */
    bool is_torn = one->shadow.inputs[i].torn && !one->shadow.inputs[i].lost;
    if (is_torn || (in_flight && one->before.inputs[i].torn)) return;
    view next = shadow_next_input(&one->shadow, i);
    if (shadow_carry_of_input(&one->shadow, i) == NULL || next.block == NULL) continue;
    if (view_is_anothers(next, one->shadow.number)) return;
    if (in_flight && !W->at_host) { /* copies are ordered on the stream of the run */
      world_stream_uses((size_t)one->flight.stream, next.block, false, NULL, true);
    } else if (!in_flight) {
      world_host_uses(next.block, false, NULL);
    }
  }
  state_drop(to);
  expectation expected = {0};
  expect_save(one, &expected);
  begin_call("st%d = save_state(b%d)", (int)(to - W->states), binding_index(one));
  bool well = require(expected, end_call(iobind_binding_save_state(one->handle, &to->handle, &the_error)));
  CHECK(well == (to->handle != NULL));
  if (!well) return;
  to->session = one->session;
  note_saved(one, to);
  reached(FEATURE_STATE_SAVED);
  if (!in_flight || W->at_host) { /* in these cases the call blocks */
    if (one->flight.stream >= 0) has_passed(one);
    return;
  }
  reached(FEATURE_STATE_IN_FLIGHT);
  size_t stream = (size_t)one->flight.stream;
  to->stream = (int)stream;
  to->stamp = world_submit(stream);
  for (size_t i = 0; i < one->shadow.model->input_count; i++) { /* the copies of IN_PLACE states */
    view next = shadow_next_input(&one->shadow, i);
    if ((to->holds & 1u << i) != 0) world_stamp(stream, next.block, false);
  }
}

static bool is_pending(const saved *of) {
  return of->stream >= 0 && of->stamp > W->lanes[of->stream].seen;
}

/* ---- restored ---- */

static bool has_carries_of(const saved *of, const shadow *to, bool *same) {
  *same = true;
  unsigned carried = 0;
  for (size_t i = 0; i < to->model->output_count; i++) {
    const carry_shadow *carry = &to->carries[i];
    if (!carry->is_on) continue;
    carried |= 1u << carry->input;
    *same = *same && (of->holds & 1u << carry->input) != 0 && of->outputs[carry->input] == i;
  }
  *same = *same && carried == of->holds;
  return *same;
}

static bool is_written_over(const shadow *of, size_t input, size_t output, view state) {
  view bound_now = of->inputs[input].read;
  return of->carries[output].mode == IOBIND_CARRY_IN_PLACE && bound_now.block != NULL && bound_now.count == state.count;
}

static void go_on(bound *one, const saved *from, size_t input) {
  shadow *of = &one->shadow;
  size_t output = from->outputs[input];
  view state = from->values[input];
  elements values = view_read(state);
  input_shadow *to = &of->inputs[input];
  if (!is_written_over(of, input, output, state)) {
    view_set(&to->read, (view){block_make(state.count), 0, state.count});
    to->mode = IOBIND_INPUT_RESIDENT;
    to->event = -1;
    to->elsewhere = false;
  }
  if (of->carries[output].mode != IOBIND_CARRY_IN_PLACE) freeze(to->read);
  view_write(to->read, values.at);
  if (!state.block->known) view_forget(to->read);
  if (to->read.block->partly_for == of->number) to->read.block->partly_for = 0;
  to->torn = to->lost = false;
  of->carries[output].is_due = false;
}

static void restore(bound *one, saved *from) {
  bool same;
  if (from->handle == NULL || fault_is_set()) return;
  expectation expected = {0};
  if (from->session != one->session || !has_carries_of(from, &one->shadow, &same)) expected.must |= STATUS(INVALID_ARGUMENT);
  for (size_t i = 0; i < one->shadow.model->input_count && expected.must == 0; i++) {
    if ((from->holds & 1u << i) == 0) continue;
    size_t output = from->outputs[i];
    bool is_shaped = one->shadow.carries[output].mode != IOBIND_CARRY_MOVE && one->shadow.model->outputs[output].dim == NULL;
    if (is_shaped && one->shadow.model->outputs[output].count != from->values[i].count) expected.must |= STATUS(SHAPE);
    const port *input = &one->shadow.model->inputs[i];
    if (input->dim == NULL && input->count != from->values[i].count) expected.must |= STATUS(SHAPE);
    if (!is_written_over(&one->shadow, i, output, from->values[i])) continue;
    if (view_is_anothers(one->shadow.inputs[i].read, one->shadow.number)) return;
    world_host_uses(one->shadow.inputs[i].read.block, true, NULL);
  }
  expect_idle(one, &expected, false);
  bool pending = is_pending(from);
  begin_call("restore_state(b%d, st%d)", binding_index(one), (int)(from - W->states));
  if (!require(expected, end_call(iobind_binding_restore_state(one->handle, from->handle, &the_error)))) return;
  has_passed(one);
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    if ((from->holds & 1u << i) != 0) go_on(one, from, i);
  }
  shadow_forget_results(&one->shadow, RESULT_NONE);
  one->failures = 0;
  one->reshaped = true;
  if (pending) from->users |= 1u << binding_index(one);
  reached(FEATURE_STATE_RESTORED);
  reached_if(FEATURE_STATE_PENDING, pending);
  reached_if(FEATURE_STATE_BRANCHED, from->made_by != one->shadow.number);
}

/* ---- read ---- */

static void check(const saved *of) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  if (of->handle == NULL || fault_is_set()) return;
  CHECK(iobind_state_get_info(of->handle, &info, NULL) == IOBIND_OK);
  for (size_t i = 0; i < info.pair_count; i++) {
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    float there[MOST_ELEMENTS];
    CHECK(iobind_state_get_pair(of->handle, i, &pair, NULL) == IOBIND_OK);
    CHECK((of->holds & 1u << pair.input) != 0 && of->outputs[pair.input] == pair.output);
    view expected = of->values[pair.input];
    begin_call("read(st%d, %zu)", (int)(of - W->states), pair.input);
    if (!require_ok(end_call(iobind_tensor_read(pair.tensor, 0, there, sizeof(float) * expected.count, NULL, &the_error))))
      return;
    if (expected.count > 0 && view_is_known(expected, 0)) compare(there, expected, "the state");
  }
}

void states_check(void) {
  for (size_t i = 0; i < STATES; i++) check(&W->states[i]);
}

/* Work on a stream has failed: a state that was not complete then is unknown. */
void states_settle(const uint64_t *waited, const bool *failed) {
  for (size_t i = 0; i < STATES; i++) {
    saved *of = &W->states[i];
    if (of->handle == NULL || of->stream < 0 || !failed[of->stream] || of->stamp <= waited[of->stream]) continue;
    for (size_t b = 0; b < BINDINGS; b++) {
      if ((of->users & 1u << b) != 0) world_destroy_binding(b);
    }
    state_drop(of);
  }
}

static bool carries_something(const bound *one) {
  bool carries = false;
  for (size_t i = 0; one->handle != NULL && i < one->shadow.model->output_count; i++) {
    carries = carries || one->shadow.carries[i].is_on;
  }
  return carries;
}

/* Usually a binding that carries a state and has run. */
static bound *take_carrying(const step *from) {
  for (size_t i = 0; i < BINDINGS && from->x[3] < 240; i++) {
    bound *one = &W->bindings[(from->x[0] + i) % BINDINGS];
    if (carries_something(one)) return one;
  }
  bound *one = take_binding(from);
  if (one == NULL || from->x[3] >= 240) return one;
  step next = *from;
  next.x[1] = from->x[6] % 192; /* a likely pair */
  do_carry(&next);
  do_fill(&next);
  do_run(&next);
  return one->handle != NULL ? one : NULL;
}

/* Make the binding carry all pairs of the state. */
static void carry_like(bound *one, const saved *of, const step *from) {
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    const carry_shadow *carry = &one->shadow.carries[of->outputs[i]];
    bool is_missing = (of->holds & 1u << i) != 0 && !(carry->is_on && carry->input == i);
    if (is_missing) set_carry(one, of->outputs[i], i, (iobind_carry_mode)(IOBIND_CARRY_MOVE + from->x[4] % 2));
  }
}

/* Usually another binding of the state's session. */
static bound *take_other(const saved *of, const step *from) {
  for (size_t i = 0; i < BINDINGS && of->handle != NULL && from->x[3] < 240; i++) {
    bound *one = &W->bindings[(from->x[0] + i) % BINDINGS];
    bool is_other = one->handle != NULL && one->session == of->session && one->shadow.number != of->made_by;
    if (is_other) return one;
  }
  if (of->handle != NULL && from->x[3] < 224 && of->session == W->sessions[0]) return world_binding(from->x[4] % 2);
  return take_binding(from);
}

/* Save a state, after a run or not, and perhaps continue from it at once, also in another binding. */
static void save_and_go_on(saved *at, const step *from) {
  bound *one = take_carrying(from);
  if (one == NULL) return;
  if (from->x[6] >= 96) run_on_stream(one, from->x[6] % STREAMS, from);
  if (one->handle == NULL) return; /* it had continued from a failed state */
  save(one, at);
  at->made_by = one->shadow.number;
  if (at->handle == NULL || from->x[5] < 96) return;
  if (from->x[5] % 2 == 0) do_run(from);
  bound *to = from->x[5] < 160 ? one : take_other(at, from);
  if (to == NULL || to->handle == NULL || at->handle == NULL) return;
  if (from->x[3] < 224 && to->session == at->session) carry_like(to, at, from);
  restore(to, at);
}

void do_state(const step *from) {
  saved *at = &W->states[from->x[2] % STATES];
  unsigned what = from->x[1] % 8;
  if (what < 4) {
    save_and_go_on(at, from);
    return;
  }
  for (size_t i = 0; i < STATES && at->handle == NULL; i++) at = &W->states[i];
  bound *one = at->handle != NULL && from->x[3] < 128 ? take_other(at, from) : take_carrying(from);
  if (what < 6 && one != NULL) {
    if (at->handle != NULL && from->x[3] < 160 && one->session == at->session) carry_like(one, at, from);
    restore(one, at);
  } else if (what == 6) {
    check(at);
  } else {
    state_drop(at);
  }
}
