/* Runs, with and without a stream, what they leave, and what becomes of it when something on a stream fails. */
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
  bool unseen = call_count == one->flight.calls; /* nothing at all came between */
  if (unseen && !may_queue) expected->must |= STATUS(INVALID_STATE);
  expected->may |= STATUS(INVALID_STATE);
}

void has_passed(bound *one) {
  if (one->flight.stream >= 0) world_waited((size_t)one->flight.stream, one->flight.stamp);
  one->flight = (flight){.stream = -1};
  shadow_clear(&one->before);
}

/* ---- results ---- */

static slot *slot_at(const char *address, size_t size) {
  for (size_t i = 0; i < TENSORS && W->addressable; i++) {
    slot *at = &W->slots[i];
    const char *start = at->tensor != NULL ? at->at.block->address : NULL;
    if (start != NULL && start < address + size && address < start + sizeof(float) * at->at.block->values.count) return at;
  }
  return NULL;
}

/* Memory of a result that was not seen before: new, or what this binding has used for an earlier one. */
void find_memory(bound *one, size_t output, const char *address) {
  view *at = &one->shadow.results[output].at;
  if (at->block == NULL) fail("there is a result, and no run has left one");
  if (at->block->address != NULL) {
    const char *expected = at->block->address + sizeof(float) * at->offset;
    if (W->addressable && address != expected) fail("the result lies %td bytes from where it must", address - expected);
    return;
  }
  slot *same = slot_at(address, sizeof(float) * at->count);
  if (same == NULL) {
    at->block->address = address;
    return;
  }
  block *kept = same->at.block;
  /* its own when it ran, and bound as an input since */
  bool is_given_up = kept->given_up_by == one->shadow.number && kept->given_up_after == one->shadow.runs;
  if ((kept->owner != one->shadow.number && !is_given_up) || kept->address != address)
    fail("the result lies in the memory of t%d", world_index(same));
  for (size_t i = 0; i < one->shadow.model->input_count && !is_given_up; i++) {
    if (one->shadow.inputs[i].read.block == kept && !one->shadow.inputs[i].elsewhere) {
      fail("the result lies in the memory of the input %s", one->shadow.model->inputs[i].name);
    }
  }
  elements values = view_read(*at);
  bool known = at->block->known;
  view_set(at, (view){kept, 0, values.count});
  if (kept->values.count != values.count) fail("the result has %zu elements, its memory %zu", values.count, kept->values.count);
  view_write(*at, values.at);
  kept->known = known;
}

place place_of(const iobind_tensor_info *info) {
  if (info->device == W->host) return W->at_host ? PLACE_HOME : PLACE_HOST;
  return info->memory == IOBIND_MEMORY_DEFAULT ? PLACE_HOME : PLACE_PINNED;
}

void check_result(bound *one, size_t output, iobind_tensor *tensor) {
  const view *at = &one->shadow.results[output].at;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(tensor, &info, NULL) == IOBIND_OK);
  if (info.dtype != IOBIND_DTYPE_FLOAT32 || info.rank != 1 || info.dims[0] != (int64_t)at->count) {
    fail("expected %zu elements, got %s of rank %zu, the first dim %lld", at->count, iobind_dtype_get_name(info.dtype),
         info.rank, (long long)(info.rank > 0 ? info.dims[0] : 0));
  }
  bool given = one->shadow.outputs[output].target.block != NULL;
  if (!given && !W->at_host && place_of(&info) != one->where[output]) fail("it is in the wrong place");
  if (at->count == 0) return;
  find_memory(one, output, iobind_tensor_get_address(tensor));
  if (!view_is_known(*at, one->shadow.number)) return;
  float read[MOST_ELEMENTS];
  void *data = NULL;
  if (info.host_readable) {
    CHECK(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, NULL) == IOBIND_OK);
    memcpy(read, data, info.bytes);
  } else {
    CHECK(iobind_tensor_read(tensor, 0, read, info.bytes, NULL, NULL) == IOBIND_OK);
  }
  compare(read, *at, one->shadow.model->outputs[output].name);
}

void expect_result(const bound *one, size_t output, expectation *expected) {
  if (one->shadow.outputs[output].mode == IOBIND_OUTPUT_NONE) expected->must |= STATUS(INVALID_STATE);
  switch (one->shadow.results[output].kind) {
    case RESULT_NONE: expected->must |= STATUS(INVALID_STATE) | one->failures; break;
    case RESULT_MAYBE: expected->may |= STATUS(INVALID_STATE) | one->failures; break;
    case RESULT_TAKEN: expected->must |= STATUS(INVALID_STATE); break;
    default: break;
  }
}

void keep(bound *one, size_t output, iobind_tensor *tensor, bool taken, uint8_t hint) {
  result_shadow *result = &one->shadow.results[output];
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(tensor, &info, NULL) == IOBIND_OK);
  slot *to = world_kept_slot(hint);
  bool given = one->shadow.outputs[output].target.block != NULL;
  say("  it is t%d from now on\n", world_index(to));
  *to = (slot){.tensor = taken ? tensor : iobind_tensor_retain(tensor), .where = place_of(&info), .is_plain = true};
  to->is_lent = !taken && !given;
  view_set(&to->at, result->at);
  to->at.block->where = (int)to->where;
}

static void fetch(bound *one, size_t output, bool takes, const step *from) {
  bool keeps = takes || from->x[2] % 4 == 2;
  expectation expected = {0};
  expect_result(one, output, &expected);
  bool other_dims = one->reshaped;
  if (one->shadow.results[output].at.block != NULL) world_host_uses(one->shadow.results[output].at.block, false, NULL);
  iobind_tensor *tensor = NULL;
  begin_call("%s(b%d, %s)", takes ? "take" : "get", binding_index(one), one->shadow.model->outputs[output].name);
  iobind_status status = end_call(takes ? iobind_binding_take_output(one->handle, output, &tensor, &the_error)
                                        : iobind_binding_get_output(one->handle, output, NULL, &tensor, &the_error));
  bool well = require(expected, status);
  CHECK(well == (tensor != NULL));
  if (one->flight.stream >= 0 && !fault_was_set() && one->shadow.outputs[output].mode != IOBIND_OUTPUT_NONE) has_passed(one);
  if (!well) return;
  if (one->shadow.results[output].at.block == NULL) fail("there is a result, and no run has left one");
  check_result(one, output, tensor);
  if (takes) one->shadow.results[output].at.block->owner = 0;
  reached_if(FEATURE_TAKEN, takes);
  reached_if(FEATURE_TAKEN_LATER, takes && other_dims);
  if (keeps) keep(one, output, tensor, takes, from->x[3]);
  slot *kept = keeps && from->x[6] % 4 == 0 && !fault_is_set() ? find_slot(one->shadow.results[output].at) : NULL;
  bool in_place = one->shadow.carries[output].is_on && one->shadow.carries[output].mode == IOBIND_CARRY_IN_PLACE;
  bool given = one->shadow.outputs[output].target.block != NULL || in_place;
  if (takes) one->shadow.results[output].kind = given ? RESULT_MAYBE : RESULT_TAKEN;
  size_t input = from->x[5] % one->shadow.model->input_count;
  bool fits = kept != NULL && kept->at.count > 0 && world_fits(kept, &one->shadow.model->inputs[input]);
  if (fits && world_is_home(kept, &one->shadow.model->inputs[input])) bind_again(one, input, kept);
}

void do_result(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  size_t output = from->x[1] % one->shadow.model->output_count;
  bool takes = from->x[2] % 4 == 3;
  size_t input = from->x[5] % one->shadow.model->input_count;
  bool is_idle = one->flight.stream < 0 && one->shadow.results[output].kind == RESULT_HELD;
  slot *old = takes && is_idle && from->x[4] >= 128 && !fault_is_set() ? bind_other_dims(one, input) : NULL;
  fetch(one, output, takes, from);
  if (old != NULL) bind_again(one, input, old);
}

/* ---- runs ---- */

static void use(int stream, block *memory, bool writes, const uint64_t *granted, bool by_event) {
  if (stream < 0) {
    world_host_uses(memory, writes, granted);
  } else {
    world_stream_uses((size_t)stream, memory, writes, by_event);
  }
}

/* What the events that inputs are bound with wait for. */
static const uint64_t *granted_by(const input_shadow *input) {
  return input->event >= 0 ? W->points[input->event].stamps : NULL;
}

/* All memory that a run works on, before it and after. */
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

/* An input's event orders the stream behind what it held at submission. */
static void wait_for_events(const bound *one, int stream) {
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    const uint64_t *granted = granted_by(&one->shadow.inputs[i]);
    for (size_t s = 0; s < STREAMS && granted != NULL; s++) {
      if (stream >= 0 && s != (size_t)stream && granted[s] > W->lanes[stream].after[s]) W->lanes[stream].after[s] = granted[s];
      if (stream < 0) world_seen(s, granted[s]);
    }
  }
}

static void record_point(point *at, size_t stream) {
  at->stream = (int)stream;
  memcpy(at->stamps, W->lanes[stream].after, sizeof at->stamps);
  at->stamps[stream] = W->lanes[stream].submitted;
}

/* What a run uses that went well, or was submitted. */
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
    if (carry != NULL) reached(FEATURE_MOVE + carry->mode);
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
  const bound *twin = &W->bindings[BINDINGS - 1]; /* of a session of its own */
  for (size_t i = 0; i < BINDINGS && stream >= 0; i++) {
    const bound *other = &W->bindings[i];
    bool both = other != one && other->handle != NULL && is_in_flight(other);
    reached_if(FEATURE_TWO_BINDINGS, both);
    reached_if(FEATURE_TWO_SESSIONS, both && other->shadow.model != one->shadow.model);
    reached_if(FEATURE_TWINS, both && (other == twin) != (one == twin) && other->shadow.model == one->shadow.model);
  }
}

/* Is a run ORT's call alone, as far as the caller can tell? */
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

/* A run without a stream went well, and `follows`: nothing came between it and the one before. The first run looks at its results, the
 * second may be the first that is simple. */
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

/* It ended at once. */
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
  visit_memory(one, (int)stream, true, false); /* what it reads, */
  if (!late) shadow_run(&one->shadow);
  visit_memory(one, (int)stream, true, false); /* and what it leaves */
  if (at != NULL) record_point(at, stream);
}

/* So that the call returns before the kernel fails. Not for a run without a stream: ONNX Runtime may give the failure, which the EP's Flush
 * returns to it, to nobody, and return OK. */
static void delay_kernels(bool delays) {
  if (W->is_virtual) CHECK(vdev_set(W->number, "compute_us", delays ? "100" : "0") == 0);
}

static bool too_long(const bound *one) {
  size_t sum = shadow_next_input(&one->shadow, 0).count + shadow_next_input(&one->shadow, 1).count;
  return one->shadow.model == &models[1] && sum > MOST_ELEMENTS;
}

/* True: it has finished, and was right. */
static bool run_once(bound *one, int stream, point *at, const step *from) {
  expectation expected = {0};
  bool late;
  expect_run(&one->shadow, &expected, &late);
  if (late && stream >= 0) expected = (expectation){.may = expected.must | expected.may};
  bool bold = one->flight.stream >= 0 && one->flight.stream != stream && one->flight.calls == call_count;
  if (!bold) visit_memory(one, stream, false, from->x[3] % 2 == 0);
  bool may_queue = one->flight.stream >= 0 && one->flight.stream == stream;
  expect_idle(one, &expected, may_queue);
  bool was_in_flight = is_in_flight(one);
  bool follows = one->ran_at != 0 && one->ran_at == call_count;
  if (late && stream >= 0) delay_kernels(true);
  bool faulty_kernel = strncmp(W->fault, "fail_compute", strlen("fail_compute")) == 0;
  bool was_lost = shadow_has_lost(&one->shadow);
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
    if (at != NULL) *at = (point){.handle = at->handle, .stream = -1};
  } else if (well) {
    submitted(one, (size_t)stream, late, at);
  } else {
    run_failed(one, status, late || faulty);
    if (stream < 0 && status == IOBIND_ERROR_RUNTIME && (late || faulty_kernel)) shadow_lose_states(&one->shadow, false);
    reached_if(FEATURE_STATES_LOST, was_lost && status == IOBIND_ERROR_INVALID_STATE);
    if (may_queue) one->flight.stream = -1;
  }
  if (stream >= 0 && (faulty || late)) settle((size_t)stream);
  delay_kernels(false);
  return well && stream < 0;
}

static bool can_run(const bound *one) {
  const shadow *of = one != NULL ? &one->shadow : NULL;
  return of != NULL && !too_long(one) && !shadow_is_muddled(of) && !shadow_trespasses(of) && !shadow_is_unforeseeable(of);
}

/* What an input reads on the host is brought right before the run, by its stream or by another one. */
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
        if (W->is_virtual) CHECK(vdev_set(W->number, "latency_us", "100") == 0); /* until the run has been submitted */
        copy_tensor(source, to, stream, from->x[3] % 2 == 0);
        reached_if(FEATURE_DELIVERED_BESIDE, stream != run);
        return true;
      }
    }
  }
  return false;
}

/* A value that ends the next runs, or that does not. */
static void judge(bound *one, int stream, const step *from, bool spoils) {
  int input = model_judge(one->shadow.model);
  bool is_bound = input >= 0 && one->shadow.inputs[input].read.block != NULL && !one->shadow.inputs[input].elsewhere;
  if (!is_bound || !W->judges || fault_is_set()) return;
  update_input(one, (size_t)input, stream, from, spoils);
}

/* More runs behind one that is in flight, with new data between them. */
static void queue_more(bound *one, int stream, const step *from) {
  for (int i = 0; i < from->x[4] % 4 && one->flight.stream == stream && can_run(one); i++) {
    if ((from->x[5] >> i & 1) != 0) update_input(one, from->x[5] / 8 % one->shadow.model->input_count, stream, from, false);
    if (from->x[6] % 4 == 0 && i == 1) judge(one, stream, from, true);
    if (!can_run(one)) return;
    (void)run_once(one, stream, NULL, from);
  }
}

/* The run that was submitted last has read what it was to read. */
static void check_results(bound *one, const step *from) {
  step plain = *from;
  plain.x[2] = plain.x[6] = 0;
  for (size_t i = 0; i < one->shadow.model->output_count && one->flight.stream >= 0 && !one->flight.must_fail; i++) {
    if (one->shadow.outputs[i].mode != IOBIND_OUTPUT_NONE) fetch(one, i, false, &plain);
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
  if (failed && can_run(one)) (void)run_once(one, -1, NULL, from); /* a binding whose run has failed can run again */
  if (stream < 0) world_check_all();
}

/* A state that is swapped for one run leaves two sides behind. */
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

/* One after the other, and nothing is looked at in between: what a run does that comes right behind another one. */
void do_runs(const step *from) {
  bound *one = take_binding(from);
  int runs = 2 + from->x[2] % 4;
  if (one != NULL && from->x[1] < 32) swap_once(one, from);
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

/* How did the run of a binding go? */
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
  if (well && must_fail) fail("a run that cannot have worked is handed out as done");
  for (size_t i = 0; i < one->shadow.model->output_count; i++) {
    block *at = one->shadow.results[i].at.block;
    if (well && at != NULL) at->known = at->was_known && !tainted;
  }
  if (!well) {
    bool many = one->flight.runs > 1;
    /* the host knows when a worker of its own has made the first ones, and what comes before an input that it reads */
    bool several = one->flight.made > 1 && !W->at_host && !reads_host(one);
    /* the failure came when others had been made, or from the run itself; a cancel may have come before it */
    bool is_sure = must_fail && (several || status == IOBIND_ERROR_RUNTIME);
    shadow_copy(&one->shadow, &one->before);
    shadow_fail(&one->shadow);
    for (size_t i = 0; i < one->shadow.model->input_count; i++) {
      const carry_shadow *carry = shadow_carry_of_input(&one->shadow, i);
      if (carry == NULL) continue;
      input_shadow *state = &one->shadow.inputs[i];
      if (many || carry->mode == IOBIND_CARRY_IN_PLACE) view_forget(state->read);
      if (!many || state->read.block == NULL) continue;
      /* one of several queued runs has failed: the state is to be bound again, or any of those that were */
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
  bool failed[STREAMS] = {false};
  bool tainted[STREAMS] = {false};
  bool must_fail = false;
  W->fault[0] = '\0';
  for (size_t i = 0; i < BINDINGS; i++) {
    must_fail = must_fail || (W->bindings[i].flight.stream == (int)stream && W->bindings[i].flight.must_fail);
  }
  for (size_t i = 0; i < STREAMS; i++) before[i] = W->lanes[i].seen;
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
    if (on >= 0 && one->flight.stamp > before[on] && (failed[on] || tainted[on])) ask(one, tainted[on]);
  }
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

/* ---- events ---- */

static bool is_bound_with(int event) {
  for (size_t i = 0; i < BINDINGS; i++) {
    const bound *one = &W->bindings[i];
    for (size_t j = 0; one->handle != NULL && j < MOST_PORTS; j++) {
      if (one->shadow.inputs[j].event == event || (one->flight.stream >= 0 && one->before.inputs[j].event == event))
        return true;
    }
  }
  return false;
}

static void passed(const point *at) {
  for (size_t i = 0; i < STREAMS && at->stream >= 0; i++) {
    if ((int)i == at->stream) {
      world_waited(i, at->stamps[i]);
    } else {
      world_seen(i, at->stamps[i]);
    }
  }
}

void do_event(const step *from) {
  size_t number = from->x[0] % EVENTS;
  size_t stream = from->x[1] % STREAMS;
  point *at = world_point(number);
  int32_t done = 0;
  if (at == NULL || world_stream(stream) == NULL) return;
  switch (from->x[2] % 6) {
    case 0:
      begin_call("event_wait(e%zu)", number);
      if (require_ok(end_call(iobind_event_wait(at->handle, IOBIND_NO_TIMEOUT, &the_error)))) passed(at);
      break;
    case 1:
      begin_call("event_query(e%zu)", number);
      if (require_ok(end_call(iobind_event_query(at->handle, &done, &the_error))) && done == 1) passed(at);
      break;
    case 2:
      begin_call("stream_wait(S%zu, e%zu)", stream, number);
      if (!require_ok(end_call(iobind_stream_wait(W->lanes[stream].handle, at->handle, &the_error)))) break;
      for (size_t i = 0; i < STREAMS && at->stream >= 0; i++) {
        if (i != stream && at->stamps[i] > W->lanes[stream].after[i]) W->lanes[stream].after[i] = at->stamps[i];
      }
      break;
    case 3:
      if (is_bound_with((int)number)) break;
      say("event_destroy(e%zu)\n", number);
      iobind_event_destroy(at->handle);
      *at = (point){0};
      break;
    case 4: world_synchronize(stream); break;
    default:
      begin_call("event_record(e%zu, S%zu)", number, stream);
      if (require_ok(end_call(iobind_event_record(at->handle, W->lanes[stream].handle, &the_error)))) record_point(at, stream);
      break;
  }
}
