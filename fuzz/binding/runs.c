/* Runs with and without a stream, their results, and the effect of a failure on a stream. */
#include "operations.h"
#include "../../tests/rig/calls.h"

#include <stdio.h>
#include <string.h>

#include "vdev.h"

#define W the_world

/* ---- in flight ---- */

bool is_in_flight(const bound *one) {
  return one->flight.stream >= 0 && one->flight.stamp > W->lanes[one->flight.stream].waited;
}

void expect_idle(const bound *one, expectation *expected, bool may_queue) {
  if (!is_in_flight(one)) return;
  bool unseen = call_count == one->flight.calls; /* no call came between */
  if (unseen && !may_queue) expected->must |= STATUS(INVALID_STATE);
  expected->may |= STATUS(INVALID_STATE);
}

void has_passed(bound *one) {
  if (one->flight.stream >= 0) world_waited((size_t)one->flight.stream, one->flight.stamp);
  one->flight = (flight){.stream = -1};
  shadow_clear(&one->before);
}

/* ---- runs ---- */

static void use(int stream, block *memory, bool writes, const uint64_t *granted, bool by_event) {
  if (stream >= 0) {
    world_stream_uses((size_t)stream, memory, writes, granted, by_event);
  } else if (fault_is_set()) { /* the fault is intended for the run */
    world_host_uses(memory, writes, granted);
  } else if (memory != NULL) { /* the run waits for the memory */
    world_host_used(memory, writes);
  }
}

/* The work for which the input's event waits. */
static const uint64_t *granted_by(const input_shadow *input) {
  return input->event >= 0 ? W->points[input->event].stamps : NULL;
}

/* Visit all memory that a run uses, before and after the run. */
static void visit_memory(bound *one, int stream, bool stamps, bool by_event) {
  const shadow *of = &one->shadow;
  if (!stamps) use(stream, &one->lent, true, NULL, by_event);
  for (size_t i = 0; i < of->model->input_count; i++) {
    view read = shadow_next_input(of, i);
    if (stamps) {
      world_stamp((size_t)stream, read.block, false);
    } else {
      use(stream, read.block, false, granted_by(&of->inputs[i]), by_event);
    }
  }
  for (size_t i = 0; i < of->model->output_count; i++) {
    const carry_shadow *carry = &of->carries[i];
    bool in_place = carry->is_on && carry->mode == IOBIND_CARRY_IN_PLACE;
    view written = in_place ? shadow_next_input(of, carry->input) : of->outputs[i].target;
    if (stamps) {
      world_stamp((size_t)stream, written.block, true);
      world_stamp((size_t)stream, of->results[i].at.block, true);
    } else {
      use(stream, written.block, true, NULL, by_event);
    }
  }
  for (block *at = all_blocks; at != NULL; at = at->next) {
    if (at->owner != of->number) continue;
    if (stamps) {
      world_stamp((size_t)stream, at, true);
    } else {
      use(stream, at, true, NULL, by_event);
    }
  }
}

/* An input's event orders the stream after the work that it had recorded at submission. */
static void wait_for_events(const bound *one, int stream) {
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    const uint64_t *granted = granted_by(&one->shadow.inputs[i]);
    for (size_t s = 0; s < STREAMS && granted != NULL; s++) {
      if (stream >= 0 && s != (size_t)stream && granted[s] > W->lanes[stream].after[s]) W->lanes[stream].after[s] = granted[s];
      if (stream < 0) world_seen(s, granted[s]);
    }
  }
}

/* Note the features of a successful or submitted run. */
static void note_inputs(const bound *one, int stream) {
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    const input_shadow *input = &one->shadow.inputs[i];
    const block *read = input->read.block;
    bool is_host = one->shadow.model->inputs[i].is_host;
    bool late = stream >= 0 && read->written[stream] > W->lanes[stream].seen;
    reached_if(FEATURE_RESIDENT, input->mode == IOBIND_INPUT_RESIDENT);
    reached_if(FEATURE_SNAPSHOT, input->mode == IOBIND_INPUT_SNAPSHOT);
    reached_if(FEATURE_LIVE_HERE, input->mode == IOBIND_INPUT_LIVE && !input->elsewhere);
    reached_if(FEATURE_LIVE_ELSEWHERE, input->elsewhere);
    reached_if(FEATURE_LIVE_DELIVERED, input->elsewhere && read->where == PLACE_HOST && late);
    reached_if(FEATURE_HOST_READ, is_host);
    reached_if(FEATURE_HOST_READ_BUSY, is_host && !input->elsewhere && late);
    reached_if(FEATURE_PINNED_INPUT, read->where == PLACE_PINNED && !input->elsewhere);
    reached_if(FEATURE_WITH_EVENT, input->event >= 0);
    const carry_shadow *carry = shadow_carry_of_input((shadow *)(uintptr_t)&one->shadow, i);
    if (carry != NULL) reached(FEATURE_MOVE + (carry->mode - IOBIND_CARRY_MOVE));
  }
}

static void note_run(const bound *one, int stream) {
  note_inputs(one, stream);
  for (size_t i = 0; i < one->shadow.model->output_count; i++) {
    const output_shadow *output = &one->shadow.outputs[i];
    const carry_shadow *carry = &one->shadow.carries[i];
    int where = output->target.block != NULL ? output->target.block->where : (int)one->where[i];
    bool is_made = output->mode != IOBIND_OUTPUT_NONE;
    if (!carry->is_on) reached(FEATURE_FRESH + output->mode);
    reached_if(FEATURE_PINNED_OUTPUT, is_made && where == PLACE_PINNED);
    reached_if(FEATURE_HOST_OUTPUT, is_made && where == PLACE_HOST);
  }
  reached_if(FEATURE_THIRD_STREAM, stream == 2);
  reached_if(FEATURE_SECOND_DEVICE, W->number == 1);
  if (world_has_other() && stream >= 0) {
    world_change();
    bool both = world_is_working();
    world_change();
    reached_if(FEATURE_TWO_DEVICES, both);
  }
  const bound *twin = &W->bindings[BINDINGS - 1]; /* of another session */
  for (size_t i = 0; i < BINDINGS && stream >= 0; i++) {
    const bound *other = &W->bindings[i];
    bool both = other != one && other->handle != NULL && is_in_flight(other);
    reached_if(FEATURE_TWO_BINDINGS, both);
    reached_if(FEATURE_TWO_SESSIONS, both && other->shadow.model != one->shadow.model);
    reached_if(FEATURE_TWINS, both && (other == twin) != (one == twin) && other->shadow.model == one->shadow.model);
  }
}

/* Is a run only ORT's call, as far as the caller knows? */
static bool is_simple(const bound *one) {
  bool simple = W->at_host;
  for (size_t i = 0; i < one->shadow.model->input_count; i++) simple = simple && one->shadow.inputs[i].event < 0;
  for (size_t i = 0; i < one->shadow.model->output_count; i++) {
    bool is_copied = one->shadow.model->is_input[i] && one->shadow.outputs[i].mode != IOBIND_OUTPUT_NONE;
    simple = simple && !one->shadow.carries[i].is_on && !is_copied;
  }
  return simple;
}

void note_replaced(bound *one, unsigned what) {
  one->ran_at = call_count;
  one->replaced |= what;
}

/* A run without a stream succeeded. `follows`: it came directly after another one. The first run checks its results, and the second
 * may be the first simple one. */
static void note_repeated(bound *one, bool follows) {
  enum { ARMS_AFTER = 2 };
  one->repeats = follows ? one->repeats + 1 : 0;
  bool is_armed = one->repeats >= ARMS_AFTER && is_simple(one);
  reached_if(FEATURE_REPEATED, one->repeats > 0);
  reached_if(FEATURE_ARMED, is_armed);
  reached_if(FEATURE_REPLACED_INPUT, is_armed && (one->replaced & REPLACED_INPUT) != 0);
  reached_if(FEATURE_REPLACED_OUTPUT, is_armed && (one->replaced & REPLACED_OUTPUT) != 0);
  one->replaced = 0;
  one->ran_at = call_count;
}

/* A run returned a failure. */
static void run_failed(bound *one, iobind_status status, bool begun) {
  one->failures = 1u << status;
  if (begun) {
    shadow_fail(&one->shadow);
  } else {
    shadow_advance(&one->shadow);
    shadow_forget_results(&one->shadow, RESULT_NONE);
  }
}

static void submitted(bound *one, size_t stream, bool late, point *at) {
  bool queued = is_in_flight(one);
  if (queued) CHECK(one->flight.stream == (int)stream);
  if (!queued) {
    shadow_copy(&one->before, &one->shadow);
    one->flight = (flight){.stream = (int)stream};
  }
  one->failures = 0;
  wait_for_events(one, (int)stream);
  note_run(one, (int)stream);
  reached_if(FEATURE_QUEUED, queued);
  one->flight.stamp = world_submit(stream);
  one->flight.runs++;
  one->flight.made++;
  one->flight.must_fail = late;
  one->flight.calls = call_count;
  visit_memory(one, (int)stream, true, false); /* what it reads */
  if (!late) shadow_run(&one->shadow);
  visit_memory(one, (int)stream, true, false); /* what it writes */
  if (at != NULL) record_point(at, stream);
}

/* Delay kernels, so that the call returns before the kernel fails. Not for a run without a stream: ONNX Runtime may ignore the failure
 * that the EP's Flush returns, and return OK. */
static void delay_kernels(bool delays) {
  if (W->is_virtual) CHECK(vdev_set(W->number, "compute_us", delays ? "100" : "0") == 0);
}

static bool too_long(const bound *one) {
  size_t sum = shadow_next_input(&one->shadow, 0).count + shadow_next_input(&one->shadow, 1).count;
  return one->shadow.model == &models[1] && sum > MOST_ELEMENTS;
}

/* Announce the run: it counts as in flight before it is made. Some announcements are withdrawn. */
static void announce(const bound *one, const step *from) {
  begin_call("announce_run(b%d)", binding_index(one));
  (void)require_ok(end_call(iobind_binding_announce_run(one->handle, 1, &the_error)));
  reached(FEATURE_ANNOUNCED);
  if (from->x[5] % 3 != 0) return;
  begin_call("announce_run(b%d, 0)", binding_index(one));
  (void)require_ok(end_call(iobind_binding_announce_run(one->handle, 0, &the_error)));
}

/* True: it is complete and succeeded. */
static bool run_once(bound *one, int stream, point *at, const step *from) {
  expectation expected = {0};
  bool late;
  expect_run(&one->shadow, &expected, &late);
  if (stream >= 0 && expected.must == 0 && (expected.may & STATUS(RUNTIME)) != 0)
    return false; /* the outcome would be unknown */
  bool may_queue = one->flight.stream >= 0 && one->flight.stream == stream;
  late = late ||
         (may_queue && W->at_host && (expected.must & STATUS(SHAPE)) != 0); /* a queued run checks the state when it exists */
  if (late && stream >= 0) expected = (expectation){.may = expected.must | expected.may};
  bool bold = one->flight.stream >= 0 && one->flight.stream != stream && one->flight.calls == call_count;
  if (!bold) visit_memory(one, stream, false, from->x[3] % 2 == 0);
  expect_idle(one, &expected, may_queue);
  bool was_in_flight = is_in_flight(one);
  bool follows = one->ran_at != 0 && one->ran_at == call_count;
  if (late && stream >= 0) delay_kernels(true);
  bool faulty_kernel = strncmp(W->fault, "fail_compute", strlen("fail_compute")) == 0;
  bool was_lost = shadow_has_lost(&one->shadow);
  if (stream < 0 && one->flight.stream < 0 && from->x[5] % 5 == 0) announce(one, from);
  begin_call("run(b%d%s%s)", binding_index(one), on_stream(stream), at != NULL ? ", event" : "");
  iobind_status status = end_call(
      call_binding_run(one->handle, stream < 0 ? NULL : W->lanes[stream].handle, at != NULL ? at->handle : NULL, &the_error));
  bool faulty = fault_was_set();
  bool well = require(expected, status);
  if (status == IOBIND_ERROR_INVALID_STATE && was_in_flight) return false;
  if (!may_queue && one->flight.stream >= 0) has_passed(one);
  if (well) one->reshaped = false;
  reached_if(FEATURE_FAULT, faulty && !well);
  if (well && stream < 0) {
    note_run(one, -1);
    note_repeated(one, follows);
    wait_for_events(one, -1);
    one->failures = 0;
    shadow_run(&one->shadow);
  } else if (well) {
    submitted(one, (size_t)stream, late, at);
  } else {
    run_failed(one, status, late || faulty || status == IOBIND_ERROR_DEVICE_LOST);
    bool has_begun = faulty_kernel || (late && !faulty); /* otherwise a copy before it may have failed */
    if (stream < 0 && status == IOBIND_ERROR_RUNTIME && has_begun) shadow_lose_states(&one->shadow, false);
    if (late && faulty) shadow_doubt_states(&one->shadow);
    reached_if(FEATURE_STATES_LOST, was_lost && status == IOBIND_ERROR_INVALID_STATE);
    if (may_queue && (faulty || late)) { /* earlier runs may have failed with it; if it never began, they continue */
      shadow_doubt_states(&one->shadow);
      one->flight.stream = -1;
    }
  }
  if (stream >= 0 && (faulty || late)) settle((size_t)stream);
  delay_kernels(false);
  return well && stream < 0;
}

static bool can_run(const bound *one) {
  const shadow *of = one != NULL && one->handle != NULL ? &one->shadow : NULL; /* a failure may have destroyed the binding */
  return of != NULL && !too_long(one) && !shadow_is_muddled(of) && !shadow_trespasses(of) && !shadow_is_unforeseeable(of);
}

/* Just before the run a copy, on its stream or on another one, writes memory that an input reads on the host. */
static bool deliver(const bound *one, int run, const step *from) {
  const int stream = from->x[6] % 3 == 0 ? (run + 1) % STREAMS : run;
  if (world_stream((size_t)stream) == NULL) return false;
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    const input_shadow *input = &one->shadow.inputs[i];
    bool on_host = input->read.block != NULL && input->read.block->where != PLACE_HOME;
    if (!on_host || !(input->elsewhere || one->shadow.model->inputs[i].is_host) || input->mode == IOBIND_INPUT_SNAPSHOT)
      continue;
    for (size_t t = 0; t < TENSORS; t++) {
      slot *to = &W->slots[t];
      slot *source = world_tensor(from->x[6] % OWN_TENSORS);
      bool fits = to->tensor != NULL && to->is_plain && !to->is_lent && views_equal(to->at, input->read) && source != NULL &&
                  source->is_plain && source->where == PLACE_HOME && source->at.count == to->at.count;
      if (fits && !fault_is_set()) {
        if (W->is_virtual) CHECK(vdev_set(W->number, "latency_us", "100") == 0); /* in flight until the run is submitted */
        copy_tensor(source, to, stream, from->x[3] % 2 == 0);
        reached_if(FEATURE_DELIVERED_BESIDE, stream != run);
        return true;
      }
    }
  }
  return false;
}

/* Write a value that makes the next runs fail, or one that does not. */
static void judge(bound *one, int stream, const step *from, bool spoils) {
  int input = model_judge(one->shadow.model);
  bool is_bound = input >= 0 && one->shadow.inputs[input].read.block != NULL && !one->shadow.inputs[input].elsewhere;
  if (!is_bound || !W->judges || fault_is_set()) return;
  update_input(one, (size_t)input, stream, from, spoils);
}

/* Queue more runs after one in flight, with new data between them. */
static void queue_more(bound *one, int stream, const step *from) {
  for (int i = 0; i < from->x[4] % 4 && one->flight.stream == stream && can_run(one); i++) {
    if ((from->x[5] >> i & 1) != 0) update_input(one, from->x[5] / 8 % one->shadow.model->input_count, stream, from, false);
    if (from->x[6] % 4 == 0 && i == 1) judge(one, stream, from, true);
    if (!can_run(one)) return;
    (void)run_once(one, stream, NULL, from);
  }
}

/* Check the results of the run submitted last. */
static void check_results(bound *one, const step *from) {
  step plain = *from;
  plain.x[2] = plain.x[6] = 0;
  for (size_t i = 0; i < one->shadow.model->output_count && one->flight.stream >= 0 && !one->flight.must_fail; i++) {
    if (one->shadow.outputs[i].mode != IOBIND_OUTPUT_NONE) fetch_result(one, i, false, &plain);
  }
}

/* The memory of an output is accessed as soon as the run that writes it has been submitted. */
static void look_at_target(const bound *one) {
  for (size_t i = 0; i < one->shadow.model->output_count && !one->flight.must_fail; i++) {
    view target = one->shadow.outputs[i].target;
    slot *at = target.block != NULL && target.count > 0 ? find_slot(target) : NULL;
    if (at == NULL || !(W->at_host || at->where != PLACE_HOME) || !world_is_busy(target.block, true)) continue;
    look_at(at);
    reached(FEATURE_LOOKED);
  }
}

void do_run(const step *from) {
  bound *one = take_binding(from);
  if (!can_run(one)) return;
  int stream = from->x[1] >= 128 ? from->x[1] % STREAMS : -1;
  if (stream >= 0 && world_stream((size_t)stream) == NULL) return;
  point *at = from->x[2] >= 192 ? world_point(from->x[2] % EVENTS) : NULL;
  bool delivered = stream >= 0 && !W->at_host && from->x[6] >= 64 && deliver(one, stream, from);
  if (from->x[6] < 12) judge(one, stream, from, true);
  if (!can_run(one)) return;
  (void)run_once(one, stream, at, from);
  bool failed = one->failures != 0;
  if (stream >= 0 && !failed && !fault_was_set()) look_at_target(one);
  if (delivered && !failed && !fault_is_set()) check_results(one, from);
  if (W->is_virtual) CHECK(vdev_set(W->number, "latency_us", "0") == 0);
  if (stream >= 0) queue_more(one, stream, from);
  failed = failed || one->failures != 0;
  if (failed) judge(one, -1, from, false);
  if (failed && can_run(one)) (void)run_once(one, -1, NULL, from); /* after a failure the binding can run again */
  if (stream < 0) world_check_all();
}

void run_on_stream(bound *one, int stream, const step *from) {
  if ((stream < 0 || world_stream((size_t)stream) != NULL) && can_run(one)) (void)run_once(one, stream, NULL, from);
}

/* A state that is swapped for one run leaves two buffers. */
static void swap_once(bound *one, const step *from) {
  enum { SWAPPED = 1, FIXED_AGAIN = 6 };
  step part = *from;
  part.x[1] = 0;
  part.x[4] = SWAPPED;
  do_carry(&part);
  for (size_t i = 0; i < one->shadow.model->output_count; i++) {
    if (!one->shadow.carries[i].is_on || !can_run(one)) continue;
    (void)run_once(one, -1, NULL, from);
    part.x[1] = (uint8_t)i;
    part.x[2] = FIXED_AGAIN;
    do_set_output(&part);
  }
}

/* Runs directly after one another, without checks in between. */
void do_runs(const step *from) {
  bound *one = take_binding(from);
  int runs = 2 + from->x[2] % 4;
  if (one != NULL && from->x[1] < 32) swap_once(one, from);
  if (one != NULL && from->x[1] >= 192 && from->x[4] % 2 == 1) give_one(one, from);
  while (runs > 0 && can_run(one) && run_once(one, -1, NULL, from)) {
    runs--;
    if (runs == 1 && from->x[3] % 2 == 0) replace_one(one, from);
  }
  world_check_all();
}

/* ---- failures on streams ---- */

static const unsigned late_failures = STATUS(RUNTIME) | STATUS(SHAPE) | STATUS(OUT_OF_MEMORY) | STATUS(CANCELLED) |
                                      STATUS(WRONG_DEVICE) | STATUS(INVALID_ARGUMENT);

static bool reads_host(const bound *one) {
  bool any = false;
  for (size_t i = 0; i < one->shadow.model->input_count; i++) any = any || one->shadow.model->inputs[i].is_host;
  return any;
}

/* Find the outcome of a binding's run. */
static void ask(bound *one, bool tainted) {
  size_t output = 0;
  while (one->shadow.outputs[output].mode == IOBIND_OUTPUT_NONE) output++;
  iobind_tensor *tensor = NULL;
  begin_call("get(b%d, %s)", binding_index(one), one->shadow.model->outputs[output].name);
  iobind_status status = end_call(iobind_binding_get_output(one->handle, output, NULL, &tensor, &the_error));
  bool must_fail = one->flight.must_fail;
  bool maybe = one->shadow.results[output].kind == RESULT_MAYBE || one->shadow.results[output].kind == RESULT_NONE;
  bool taken = one->shadow.results[output].kind == RESULT_TAKEN;
  expectation expected = {.may = late_failures | (maybe || taken ? STATUS(INVALID_STATE) : 0)};
  bool well = require(expected, status) || (taken && status == IOBIND_ERROR_INVALID_STATE);
  reached_if(FEATURE_LATE, !well && status != IOBIND_ERROR_INVALID_STATE);
  if (well && must_fail) fail("the result of a failed run was returned");
  for (size_t i = 0; i < one->shadow.model->output_count; i++) {
    block *at = one->shadow.results[i].at.block;
    bool wrote_last = at != NULL && at->written[one->flight.stream] <= one->flight.stamp;
    if (well && wrote_last) at->known = at->was_known && !tainted;
  }
  if (!well) {
    bool many = one->flight.runs > 1;
    /* the host knows that the first runs are complete if its own worker has made them, or if it reads an input of a later run */
    bool several = one->flight.made > 1 && !W->at_host && !reads_host(one);
    /* the failure is that of the run, or was found after others had begun; otherwise a cancel may have come first */
    bool is_sure = must_fail && (several || status == IOBIND_ERROR_RUNTIME);
    shadow_copy(&one->shadow, &one->before);
    shadow_fail(&one->shadow);
    for (size_t i = 0; i < one->shadow.model->input_count; i++) {
      const carry_shadow *carry = shadow_carry_of_input(&one->shadow, i);
      if (carry == NULL) continue;
      input_shadow *state = &one->shadow.inputs[i];
      if (many || carry->mode == IOBIND_CARRY_IN_PLACE) view_forget(state->read);
      if (!many || state->read.block == NULL) continue;
      /* one of several queued runs has failed: the state must be rebound, or it is that of any of these runs */
      state->torn = true;
      if (carry->mode != IOBIND_CARRY_IN_PLACE)
        view_set(&state->read, (view){block_make(state->read.count), 0, state->read.count});
    }
    if (is_sure) shadow_lose_states(&one->shadow, several);
    one->failures = 1u << status;
  }
  has_passed(one);
}

static bool synchronize(size_t stream, bool must_fail) {
  expectation expected = {.may = late_failures};
  begin_call("stream_synchronize(S%zu)", stream);
  bool well = require(expected, end_call(iobind_stream_synchronize(W->lanes[stream].handle, &the_error)));
  if (well && must_fail) fail("the failure of a run was lost");
  return well;
}

void settle(size_t stream) {
  uint64_t before[STREAMS];
  uint64_t waited[STREAMS]; /* what the library knows; it draws no conclusions from one stream about another */
  bool failed[STREAMS] = {false};
  bool tainted[STREAMS] = {false};
  bool must_fail = false;
  W->fault[0] = '\0';
  for (size_t i = 0; i < BINDINGS; i++) {
    must_fail = must_fail || (W->bindings[i].flight.stream == (int)stream && W->bindings[i].flight.must_fail);
  }
  for (size_t i = 0; i < STREAMS; i++) {
    before[i] = W->lanes[i].seen;
    waited[i] = W->lanes[i].waited;
  }
  for (size_t turn = 0; turn < STREAMS; turn++) {
    size_t i = turn == 0 ? stream : turn == stream ? 0 : turn;
    if (W->lanes[i].handle == NULL) continue;
    failed[i] = !synchronize(i, must_fail && i == stream);
    tainted[i] = !failed[i] && failed[stream] && W->lanes[i].after[stream] > before[stream];
    if (failed[i] || tainted[i]) world_forget_bytes(i);
    world_waited(i, W->lanes[i].submitted);
  }
  for (block *at = all_blocks; at != NULL; at = at->next) {
    at->was_known = at->known;
    for (size_t i = 0; i < STREAMS; i++) {
      if ((failed[i] || tainted[i]) && at->written[i] > before[i]) at->known = false;
    }
  }
  for (size_t i = 0; i < BINDINGS; i++) {
    bound *one = &W->bindings[i];
    int on = one->handle != NULL ? one->flight.stream : -1;
    if (on >= 0 && one->flight.stamp > waited[on] && (failed[on] || tainted[on])) ask(one, tainted[on]);
  }
  for (size_t i = 0; i < STREAMS; i++) failed[i] = failed[i] || tainted[i];
  states_settle(waited, failed);
  for (size_t i = 0; i < EVENTS; i++) {
    point *at = &W->points[i];
    if (at->handle == NULL || at->stream < 0) continue;
    begin_call("event_record(e%zu, S%d)", i, at->stream);
    (void)require_ok(end_call(iobind_event_record(at->handle, W->lanes[at->stream].handle, &the_error)));
    record_point(at, (size_t)at->stream);
  }
}

void do_cancel(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  int stream = one->flight.stream;
  reached_if(FEATURE_CANCELLED, is_in_flight(one));
  begin_call("cancel(b%d)", binding_index(one));
  (void)require_ok(end_call(iobind_binding_cancel(one->handle, &the_error)));
  if (stream >= 0) settle((size_t)stream);
}
