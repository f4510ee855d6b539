/* Bindings: inputs, outputs, carries. */
#include "operations.h"
#include "../../tests/rig/calls.h"

#define W the_world

bound *take_binding(const step *from) {
  static const unsigned char chosen[8] = {0, 0, 4, 1, 2, 2, 2, 3};
  return world_binding(chosen[from->x[0] % 8]);
}

int binding_index(const bound *of) {
  return (int)(of - W->bindings);
}

slot *take_tensor(uint8_t chosen, const port *to, bool at_home) {
  if (chosen >= 240) return world_tensor(chosen % TENSORS);
  for (size_t i = 0; i < TENSORS; i++) {
    size_t index = (chosen + i) % TENSORS;
    if (world_may_fit(index, to, at_home)) return world_tensor(index);
  }
  return NULL;
}

static void expect_fit(const slot *of, const port *to, expectation *expected) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(of->tensor, &info, NULL) == IOBIND_OK);
  if (info.dtype != IOBIND_DTYPE_FLOAT32) expected->must |= STATUS(DTYPE);
  if (info.rank != 1 || (to->dim == NULL && info.dims[0] != (int64_t)to->count)) expected->must |= STATUS(SHAPE);
}

/* Except for `grow`, a sum with an empty input is not defined. */
static bool is_empty_for(const slot *of, const bound *one) {
  return of->is_plain && of->at.count == 0 && one->shadow.model != &models[1];
}

static const char *const input_modes[] = {"RESIDENT", "SNAPSHOT", "LIVE", "3"};

void set_input(bound *one, size_t index, iobind_input_mode mode, slot *tensor, int event) {
  const port *to = &one->shadow.model->inputs[index];
  bool elsewhere = mode == IOBIND_INPUT_LIVE && !world_is_home(tensor, to);
  expectation expected = {0};
  expect_fit(tensor, to, &expected);
  if (expected.must == 0) expect_input(&one->shadow, index, mode, tensor->at, elsewhere, &expected);
  if (mode == IOBIND_INPUT_RESIDENT && !world_is_home(tensor, to)) expected.must |= STATUS(WRONG_DEVICE);
  if (mode > IOBIND_INPUT_LIVE) expected.must |= STATUS(INVALID_ARGUMENT);
  const point *ready = event >= 0 ? world_point((size_t)event) : NULL;
  if (mode == IOBIND_INPUT_SNAPSHOT && fault_is_set()) world_host_uses(tensor->at.block, false, NULL);
  expect_idle(one, &expected, false);
  const input_shadow *old = &one->shadow.inputs[index];
  bool follows = one->ran_at == call_count && mode == IOBIND_INPUT_RESIDENT && old->mode == mode && old->read.block != NULL &&
                 old->read.count == tensor->at.count && event < 0 && old->event < 0;
  bool reshapes = old->read.block != NULL && old->read.count != tensor->at.count;
  begin_call("set_input(b%d, %s, %s, t%d%s)", binding_index(one), to->name, input_modes[mode], world_index(tensor),
             ready != NULL ? ", event" : "");
  iobind_status status = end_call(
      iobind_binding_set_input(one->handle, index, mode, tensor->tensor, ready != NULL ? ready->handle : NULL, &the_error));
  if (!require(expected, status)) return;
  has_passed(one);
  if (mode == IOBIND_INPUT_SNAPSHOT) world_host_used(tensor->at.block, false);
  for (size_t i = 0; i < STREAMS && ready != NULL && mode == IOBIND_INPUT_SNAPSHOT; i++) {
    if (ready->stream == (int)i) world_waited(i, ready->stamps[i]);
    world_seen(i, ready->stamps[i]);
  }
  shadow_set_input(&one->shadow, index, mode, tensor->at, elsewhere, mode == IOBIND_INPUT_SNAPSHOT ? -1 : event);
  one->reshaped = one->reshaped || reshapes;
  if (mode == IOBIND_INPUT_SNAPSHOT && to->is_host && !W->at_host) one->shadow.inputs[index].read.block->where = PLACE_HOST;
  if (follows) note_replaced(one, REPLACED_INPUT);
}

void do_set_input(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  iobind_input_mode mode = (iobind_input_mode)(from->x[1] >= 252 ? 3 : from->x[1] % 3);
  size_t index = from->x[2] % one->shadow.model->input_count;
  slot *tensor = take_tensor(from->x[3], &one->shadow.model->inputs[index], mode == IOBIND_INPUT_RESIDENT);
  if (tensor == NULL || is_empty_for(tensor, one)) return;
  int event = from->x[4] >= 224 ? from->x[4] % EVENTS : -1;
  set_input(one, index, mode, tensor, event);
}

slot *find_slot(view at) {
  for (size_t i = 0; i < TENSORS; i++) {
    if (W->slots[i].tensor != NULL && views_equal(W->slots[i].at, at)) return &W->slots[i];
  }
  return NULL;
}

slot *bind_other_dims(bound *one, size_t index) {
  const input_shadow *input = &one->shadow.inputs[index];
  const port *to = &one->shadow.model->inputs[index];
  const port other = {"", NULL, input->read.count == 2 ? 3 : 2, to->is_host};
  slot *old = input->read.block != NULL && input->mode == IOBIND_INPUT_RESIDENT ? find_slot(input->read) : NULL;
  slot *tensor = old != NULL && to->dim != NULL ? take_tensor(0, &other, true) : NULL;
  if (tensor == NULL) return NULL;
  set_input(one, index, IOBIND_INPUT_RESIDENT, tensor, -1);
  return old;
}

void bind_again(bound *one, size_t index, slot *old) {
  if (old->tensor != NULL) set_input(one, index, IOBIND_INPUT_RESIDENT, old, -1);
}

/* ---- outputs ---- */

/* The tensor of an input whose memory the output may overwrite. */
static slot *find_place(const bound *one, size_t output) {
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    if ((one->shadow.model->may_overwrite[output] & 1u << i) == 0) continue;
    view read = shadow_next_input(&one->shadow, i);
    for (size_t t = 0; t < TENSORS && read.block != NULL; t++) {
      slot *at = &W->slots[t];
      if (at->tensor != NULL && at->is_plain && views_equal(at->at, read)) return at;
    }
  }
  return NULL;
}

static const char *name_of_output_mode(int mode) {
  static const char *const made[] = {"FRESH", "REUSE", "NONE"};
  if (mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE) return mode == OUTPUT_FIXED ? "FIXED" : "IN_PLACE";
  return mode <= IOBIND_OUTPUT_NONE ? made[mode] : "5";
}

static void set_given(bound *one, size_t index, int mode, uint8_t chosen) {
  const port *to = &one->shadow.model->outputs[index];
  slot *tensor = mode == OUTPUT_IN_PLACE ? find_place(one, index) : NULL;
  if (tensor == NULL) tensor = take_tensor(chosen, to, false);
  if (tensor == NULL || is_empty_for(tensor, one)) return;
  expectation expected = {0};
  expect_fit(tensor, to, &expected);
  if (expected.must == 0) expect_output(&one->shadow, index, mode, tensor->at, &expected);
  expect_idle(one, &expected, false);
  const output_shadow *old = &one->shadow.outputs[index];
  bool follows = one->ran_at == call_count && mode == OUTPUT_FIXED && old->mode == mode && old->target.block != NULL &&
                 old->target.count == tensor->at.count;
  begin_call("set_output(b%d, %s, %s, t%d)", binding_index(one), to->name, name_of_output_mode(mode), world_index(tensor));
  iobind_status status =
      end_call(call_binding_set_output(one->handle, index, mode, NULL, IOBIND_MEMORY_DEFAULT, tensor->tensor, &the_error));
  if (!require(expected, status)) {
    if (fault_was_set()) shadow_forget_results(&one->shadow, RESULT_MAYBE);
    return;
  }
  has_passed(one);
  shadow_set_output(&one->shadow, index, mode, tensor->at);
  if (follows) note_replaced(one, REPLACED_OUTPUT);
}

void give_one(bound *one, const step *from) {
  enum { APART = 7 }; /* another tensor than the one that replaces it */
  set_given(one, from->x[5] % one->shadow.model->output_count, OUTPUT_FIXED, (uint8_t)((from->x[6] + APART) % 240));
}

void replace_one(bound *one, const step *from) {
  size_t index = from->x[5] % one->shadow.model->input_count;
  const input_shadow *input = &one->shadow.inputs[index];
  const port like = {"", NULL, input->read.count, one->shadow.model->inputs[index].is_host};
  if (from->x[4] % 2 == 0) {
    slot *tensor = input->read.block != NULL ? take_tensor(from->x[6] % 240, &like, true) : NULL;
    if (tensor != NULL && !is_empty_for(tensor, one)) set_input(one, index, IOBIND_INPUT_RESIDENT, tensor, -1);
  } else {
    set_given(one, from->x[5] % one->shadow.model->output_count, OUTPUT_FIXED, from->x[6] % 240);
  }
}

static void set_made(bound *one, size_t index, int mode, uint8_t chosen) {
  const port *to = &one->shadow.model->outputs[index];
  iobind_device *devices[4] = {NULL, W->home, W->host, W->home};
  iobind_memory memory = chosen % 4 == 3 ? IOBIND_MEMORY_HOST_ACCESSIBLE : IOBIND_MEMORY_DEFAULT;
  static const char *const names[4] = {"anywhere", "home", "host", "pinned"};
  expectation expected = {0};
  if (mode > IOBIND_OUTPUT_NONE) expected.must |= STATUS(INVALID_ARGUMENT);
  if (mode < IOBIND_OUTPUT_NONE && chosen % 4 == 3 && !W->has_pinned) expected.must |= STATUS(NOT_SUPPORTED);
  expect_idle(one, &expected, false);
  begin_call("set_output(b%d, %s, %s, %s)", binding_index(one), to->name, name_of_output_mode(mode), names[chosen % 4]);
  if (!require(expected,
               end_call(call_binding_set_output(one->handle, index, mode, devices[chosen % 4], memory, NULL, &the_error)))) {
    if (fault_was_set()) shadow_forget_results(&one->shadow, RESULT_MAYBE);
    return;
  }
  has_passed(one);
  shadow_set_output(&one->shadow, index, mode, (view){0});
  one->where[index] = chosen % 4 == 2 ? PLACE_HOST : chosen % 4 == 3 ? PLACE_PINNED : PLACE_HOME;
}

/* Bind the inputs that are not bound. `all`: bind all inputs, those with an open dim with `count` elements. */
static void fill_inputs(bound *one, bool all, size_t count, const step *from) {
  for (size_t i = 0; i < one->shadow.model->input_count; i++) {
    const port *to = &one->shadow.model->inputs[i];
    if (one->shadow.inputs[i].read.block != NULL && (!all || to->dim == NULL)) continue;
    iobind_input_mode mode = (iobind_input_mode)((from->x[1] >> (i % 4 * 2)) % 3);
    const port like = {"", NULL, to->dim == NULL ? to->count : count, to->is_host};
    slot *tensor = take_tensor((uint8_t)((from->x[2] + i) % OWN_TENSORS), &like, mode == IOBIND_INPUT_RESIDENT);
    if (tensor != NULL) set_input(one, i, mode, tensor, -1);
  }
}

void do_fill(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  bool all = from->x[3] >= 160;
  fill_inputs(one, all, all && from->x[3] % 2 == 0 ? 2 : 3, from);
  for (size_t i = 0; i < one->shadow.model->output_count && from->x[4] >= 128; i++) {
    switch (from->x[5] >> i % 4 * 2 & 3) {
      case 1: set_made(one, i, IOBIND_OUTPUT_REUSE, 0); break;
      case 2: set_given(one, i, OUTPUT_FIXED, (uint8_t)((from->x[6] + 3 * i) % OWN_TENSORS)); break;
      default: break;
    }
  }
}

void do_set_output(const step *from) {
  static const int modes[16] = {[2] = IOBIND_OUTPUT_REUSE,
                                IOBIND_OUTPUT_REUSE,
                                IOBIND_OUTPUT_REUSE,
                                IOBIND_OUTPUT_REUSE,
                                OUTPUT_FIXED,
                                OUTPUT_FIXED,
                                OUTPUT_FIXED,
                                OUTPUT_FIXED,
                                OUTPUT_FIXED,
                                OUTPUT_IN_PLACE,
                                OUTPUT_IN_PLACE,
                                OUTPUT_IN_PLACE,
                                IOBIND_OUTPUT_NONE,
                                IOBIND_OUTPUT_REUSE};
  bound *one = take_binding(from);
  if (one == NULL) return;
  size_t index = from->x[1] % one->shadow.model->output_count;
  int mode = from->x[2] >= 254 ? 5 : modes[from->x[2] % 16];
  if (mode == OUTPUT_IN_PLACE && without_in_place) mode = OUTPUT_FIXED;
  if (mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE) {
    set_given(one, index, mode, from->x[3]);
  } else {
    set_made(one, index, mode, from->x[4] >= 128 ? from->x[4] : 0);
  }
}

/* ---- carries ---- */

static const char *const carry_modes[] = {"DEFAULT", "MOVE", "SWAP", "IN_PLACE", "4"};
static const iobind_carry_mode wrong_carry_mode = (iobind_carry_mode)(IOBIND_CARRY_IN_PLACE + 1);

void set_carry(bound *one, size_t output, size_t input, iobind_carry_mode mode) {
  expectation expected = {0};
  iobind_carry_mode chosen = mode == IOBIND_CARRY_DEFAULT ? IOBIND_CARRY_MOVE : mode; /* no model here has a cache */
  if (mode == wrong_carry_mode) expected.must |= STATUS(INVALID_ARGUMENT);
  expect_carry(&one->shadow, output, input, chosen, &expected);
  expect_idle(one, &expected, false);
  begin_call("carry(b%d, %s, %s, %s)", binding_index(one), one->shadow.model->outputs[output].name,
             one->shadow.model->inputs[input].name, carry_modes[mode]);
  if (!require(expected, end_call(iobind_binding_carry(one->handle, output, input, mode, &the_error)))) {
    if (fault_was_set()) shadow_forget_results(&one->shadow, RESULT_MAYBE);
    return;
  }
  has_passed(one);
  shadow_carry(&one->shadow, output, input, chosen);
  one->where[output] = PLACE_HOME;
}

void do_carry(const step *from) {
  static const unsigned char likely[MODELS][8] = {{1, 2, 3, 1, 2, 0, 4, 1}, {0, 0, 1, 0, 0, 1, 0, 0}, {0, 0, 0, 1, 1, 0, 1, 0}};
  static const unsigned char likely_input[MODELS][8] = {
      {1, 2, 3, 1, 2, 0, 4, 2}, {0, 0, 0, 1, 0, 1, 0, 0}, {1, 1, 1, 0, 1, 0, 1, 1}};
  bound *one = take_binding(from);
  if (one == NULL) return;
  bool any = from->x[1] >= 192;
  size_t which = (size_t)(one->shadow.model - models);
  size_t output = any ? from->x[2] % one->shadow.model->output_count : likely[which][from->x[2] % 8];
  size_t input = any ? from->x[3] % one->shadow.model->input_count : likely_input[which][from->x[2] % 8];
  if (one->shadow.model->inputs[input].is_host) return; /* its states would be made on the host */
  if ((int)input == model_judge(one->shadow.model)) return;
  iobind_carry_mode mode = (iobind_carry_mode)(IOBIND_CARRY_MOVE + from->x[4] % 3);
  if (from->x[4] >= 250) mode = from->x[4] >= 254 ? wrong_carry_mode : IOBIND_CARRY_DEFAULT;
  if (mode == IOBIND_CARRY_IN_PLACE && (one->shadow.model->may_overwrite[output] & 1u << input) == 0) mode = IOBIND_CARRY_SWAP;
  if (mode == IOBIND_CARRY_SWAP && without_swap) mode = IOBIND_CARRY_MOVE;
  if (mode == IOBIND_CARRY_IN_PLACE && without_in_place) mode = IOBIND_CARRY_MOVE;
  set_carry(one, output, input, mode);
}

/* ---- writes into bound inputs ---- */

static void updated(bound *one, size_t index, const float *values, bool was_due) {
  shadow *of = &one->shadow;
  if (was_due) {
    shadow_advance(of);
    shadow_forget_results(of, RESULT_NONE);
  } else if (shadow_carry_of_input(of, index) != NULL) {
    shadow_forget_results(of, RESULT_MAYBE);
  }
  input_shadow *input = &of->inputs[index];
  if (values == NULL) {
    view_forget(input->read);
    return;
  }
  view_write(input->read, values);
  if (input->read.block->partly_for == of->number) input->read.block->partly_for = 0;
  input->torn = input->lost = false;
}

/* Does anything besides this input and the output carried to it use the memory? */
static bool is_shared(const bound *one, size_t input, const block *memory) {
  size_t others = memory->refs;
  const shadow *shadows[] = {&one->shadow, &one->before};
  for (size_t s = 0; s < sizeof shadows / sizeof shadows[0]; s++) {
    others -= shadows[s]->inputs[input].read.block == memory;
    for (size_t i = 0; i < shadows[s]->model->output_count; i++) {
      const carry_shadow *carry = &shadows[s]->carries[i];
      bool is_own = carry->is_on && carry->input == input;
      others -= is_own && shadows[s]->results[i].at.block == memory;
    }
  }
  return others > 0;
}

void update_input(bound *one, size_t index, int stream, const step *from, bool spoils) {
  view to = shadow_next_input(&one->shadow, index);
  if (view_is_anothers(to, one->shadow.number)) return;
  if (to.block != NULL && to.block->is_frozen && is_shared(one, index, to.block))
    return; /* the other owners' values must not change */
  const carry_shadow *carry = shadow_carry_of_input(&one->shadow, index);
  bool was_due = carry != NULL && carry->is_due;
  size_t size = to.count * sizeof(float) + (from->x[3] >= 248 ? 4 : 0);
  expectation expected = {0};
  if (to.block == NULL) expected.must |= STATUS(INVALID_STATE);
  if (to.block != NULL && to.block->is_frozen && carry == NULL) expected.may |= STATUS(INVALID_ARGUMENT);
  if (size != to.count * sizeof(float)) expected.must |= STATUS(INVALID_ARGUMENT);
  if (one->shadow.inputs[index].torn) expected.may |= STATUS(INVALID_ARGUMENT); /* the size of a lost state is unknown too */
  /* the host writes host memory, after the stream's work */
  bool by_host = stream >= 0 && to.block != NULL && to.block->where == PLACE_HOST && !W->at_host;
  float *values = world_memory(to.count + 1);
  world_new_values(values, to.count + 1);
  if (spoils) values[0] = BAD;
  if (stream < 0) {
    world_host_uses(to.block, true, NULL);
  } else if (by_host) {
    if (world_stream((size_t)stream) == NULL) return;
    world_host_uses(to.block, true, NULL);
  } else if (world_stream((size_t)stream) != NULL) {
    world_stream_uses((size_t)stream, to.block, true, NULL, from->x[4] % 2 == 0);
  } else {
    return;
  }
  bool queued = one->flight.stream >= 0 && one->flight.stream == stream;
  expect_idle(one, &expected, queued);
  begin_call("update_input(b%d, %s, {%g ...}%s%.0d)", binding_index(one), one->shadow.model->inputs[index].name,
             (double)values[0], on_stream(stream), 0);
  iobind_status status = end_call(
      iobind_binding_write_input(one->handle, index, values, size, stream < 0 ? NULL : W->lanes[stream].handle, &the_error));
  if (!require(expected, status)) {
    if (fault_was_set() && status != IOBIND_ERROR_INVALID_STATE) updated(one, index, NULL, was_due);
    if (was_due && status != IOBIND_ERROR_INVALID_STATE) shadow_forget_results(&one->shadow, RESULT_MAYBE);
  } else {
    if (by_host) world_waited((size_t)stream, W->lanes[stream].submitted);
    if (!queued || by_host) has_passed(one);
    if (queued && !by_host) one->flight.runs++; /* counted, because the state after a failure would be unknown */
    reached_if(FEATURE_UPDATED_BETWEEN, queued && !by_host);
    updated(one, index, values, was_due);
    if (stream >= 0 && !by_host) {
      world_submit((size_t)stream);
      world_stamp((size_t)stream, to.block, true);
    }
  }
  if (fault_was_set() && stream >= 0) settle((size_t)stream);
}

void do_update_input(const step *from) {
  bound *one = take_binding(from);
  if (one != NULL) {
    update_input(one, from->x[1] % one->shadow.model->input_count, from->x[2] >= 160 ? from->x[2] % STREAMS : -1, from, false);
  }
}

void do_clear(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  expectation expected = {0};
  expect_idle(one, &expected, false);
  begin_call("clear(b%d)", binding_index(one));
  if (!require(expected, end_call(iobind_binding_clear(one->handle, &the_error)))) return;
  has_passed(one);
  shadow_clear(&one->shadow);
  for (size_t i = 0; i < MOST_PORTS; i++) one->where[i] = PLACE_HOME;
}

void do_check(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  expectation expected = {0};
  expect_check(&one->shadow, &expected);
  expected.may |= STATUS(INVALID_ARGUMENT); /* overlaps, which the run must refuse */
  expect_idle(one, &expected, true);
  begin_call("check(b%d)", binding_index(one));
  (void)require(expected, end_call(iobind_binding_check(one->handle, &the_error)));
}

/* ---- wrong arguments ---- */

void do_wrong(const step *from) {
  bound *one = take_binding(from);
  slot *tensor = world_tensor(0);
  if (one == NULL || tensor == NULL) return;
  static const unsigned char far[4] = {5, 9, 64, 255};
  size_t index = far[from->x[1] % 4];
  iobind_tensor *got = tensor->tensor;
  expectation wrong = {.must = STATUS(INVALID_ARGUMENT)};
  expectation missing = {.must = STATUS(NOT_FOUND)};
  iobind_binding *binding = one->handle;
  size_t output = from->x[1] % one->shadow.model->output_count;
  expect_idle(one, &wrong, true);
  expect_idle(one, &missing, true);
  begin_call("wrong arguments(b%d, %d)", binding_index(one), from->x[2] % 12);
  switch (from->x[2] % 12) {
    case 0: (void)require(wrong, end_call(iobind_binding_set_input(NULL, 0, 0, tensor->tensor, NULL, &the_error))); break;
    case 1: (void)require(wrong, end_call(iobind_binding_set_input(binding, 0, 0, NULL, NULL, &the_error))); break;
    case 2:
      (void)require(missing, end_call(iobind_binding_set_input(binding, index, 0, tensor->tensor, NULL, &the_error)));
      break;
    case 3: (void)require(wrong, end_call(iobind_binding_set_output(binding, output, NULL, 0, &the_error))); break;
    case 4:
      (void)require(wrong, end_call(iobind_binding_place_output(binding, output, IOBIND_OUTPUT_REUSE, NULL, (iobind_memory)9,
                                                                &the_error)));
      break;
    case 5: (void)require(missing, end_call(call_binding_set_output(binding, index, 0, NULL, 0, NULL, &the_error))); break;
    case 6: (void)require(missing, end_call(iobind_binding_carry(binding, index, 0, 0, &the_error))); break;
    case 7: (void)require(missing, end_call(iobind_binding_carry(binding, 0, index, 0, &the_error))); break;
    case 8: (void)require(missing, end_call(iobind_binding_write_input(binding, index, &got, 4, NULL, &the_error))); break;
    case 9: (void)require(missing, end_call(iobind_binding_get_output(binding, index, NULL, &got, &the_error))); break;
    case 10: (void)require(missing, end_call(iobind_binding_take_output(binding, index, &got, &the_error))); break;
    default: (void)require(wrong, end_call(iobind_binding_get_output(binding, output, NULL, NULL, &the_error))); break;
  }
  if (from->x[2] % 12 == 9 || from->x[2] % 12 == 10) CHECK(got == NULL);
}
