#include "oracle.h"
#include "../../tests/rig/calls.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

block *all_blocks;

block *block_make(size_t count) {
  block *made = calloc(1, sizeof *made);
  if (made == NULL || count > MOST_ELEMENTS) abort();
  made->values.count = count;
  made->next = all_blocks;
  all_blocks = made;
  return made;
}

static void release(block *of) {
  if (of == NULL || --of->refs > 0) return;
  block **link = &all_blocks;
  while (*link != of) link = &(*link)->next;
  *link = of->next;
  free(of);
}

void view_set(view *to, view from) {
  if (from.block != NULL) from.block->refs++;
  release(to->block);
  *to = from;
}

void view_drop(view *of) {
  view_set(of, (view){0});
}

bool views_overlap(view one, view two) {
  return one.block != NULL && one.block == two.block && one.count > 0 && two.count > 0 && one.offset < two.offset + two.count &&
         two.offset < one.offset + one.count;
}

bool views_equal(view one, view two) {
  return one.block == two.block && one.offset == two.offset && one.count == two.count;
}

bool view_is_known(view of, unsigned binding) {
  return of.count == 0 || (of.block->known && (of.block->partly_for == 0 || of.block->partly_for == binding));
}

elements view_read(view of) {
  elements read = {.count = of.count};
  memcpy(read.at, of.block->values.at + of.offset, sizeof(float) * of.count);
  return read;
}

void view_write(view to, const float *values) {
  if (to.count == 0) return;
  memcpy(to.block->values.at + to.offset, values, sizeof(float) * to.count);
  if (to.count == to.block->values.count) {
    to.block->known = true;
    to.block->partly_for = 0;
  }
}

void view_forget(view of) {
  if (of.block != NULL && of.count > 0) of.block->known = false;
}

/* ---- a binding ---- */

void shadow_init(shadow *of, const model *from, unsigned number) {
  *of = (shadow){.model = from, .number = number};
  for (size_t i = 0; i < MOST_PORTS; i++) of->inputs[i].event = -1;
}

void shadow_clear(shadow *of) {
  for (size_t i = 0; i < MOST_PORTS; i++) {
    view_drop(&of->inputs[i].read);
    view_drop(&of->outputs[i].target);
    view_drop(&of->results[i].at);
  }
  shadow_init(of, of->model, of->number);
}

void shadow_copy(shadow *to, const shadow *from) {
  shadow_clear(to);
  *to = *from;
  for (size_t i = 0; i < MOST_PORTS; i++) {
    view *views[3] = {&to->inputs[i].read, &to->outputs[i].target, &to->results[i].at};
    for (size_t v = 0; v < 3; v++) {
      if (views[v]->block != NULL) views[v]->block->refs++;
    }
  }
}

static const carry_shadow *carry_of_input(const shadow *of, size_t input) {
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (of->carries[i].is_on && of->carries[i].input == input) return &of->carries[i];
  }
  return NULL;
}

carry_shadow *shadow_carry_of_input(shadow *of, size_t input) {
  return (carry_shadow *)(uintptr_t)carry_of_input(of, input);
}

void shadow_forget_results(shadow *of, result_kind kind) {
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (kind == RESULT_NONE) {
      view_drop(&of->results[i].at);
      of->results[i].kind = RESULT_NONE;
    } else if (of->results[i].kind == RESULT_HELD) {
      of->results[i].kind = kind;
    }
  }
}

void shadow_advance(shadow *of) {
  for (size_t i = 0; i < of->model->output_count; i++) {
    carry_shadow *carry = &of->carries[i];
    if (!carry->is_due) continue;
    input_shadow *input = &of->inputs[carry->input];
    view_set(&input->read, of->results[i].at);
    input->mode = IOBIND_INPUT_RESIDENT;
    input->event = -1;
    carry->is_due = false;
  }
}

view shadow_next_input(const shadow *of, size_t input) {
  const carry_shadow *carry = carry_of_input(of, input);
  return carry != NULL && carry->is_due ? of->results[carry - of->carries].at : of->inputs[input].read;
}

static bool is_given(int mode) {
  return mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE;
}

/* The memory of the caller or of a state that a run writes as this output. No block: the memory belongs to the binding. */
static view written_by(const shadow *of, size_t output) {
  const carry_shadow *carry = &of->carries[output];
  if (!carry->is_on) return of->outputs[output].target;
  return carry->mode == IOBIND_CARRY_IN_PLACE ? shadow_next_input(of, carry->input) : (view){0};
}

/* May a state or a REUSE output of this binding own the memory? Then binding it is refused, at once or by the run, or the binding
 * releases that memory. */
static bool is_ours(const shadow *of, view memory) {
  return memory.block != NULL && memory.count > 0 && memory.block->owner == of->number;
}

/* ---- expected statuses of calls ---- */

/* After a failed run a state may be in any of several memories, perhaps in this one. */
static void expect_torn(const shadow *of, expectation *expected) {
  for (size_t i = 0; i < of->model->input_count; i++) {
    if (of->inputs[i].torn) expected->may |= STATUS(INVALID_ARGUMENT);
  }
}

/* The number of elements that an output has in every run. False: the dim is open. */
static bool fixed_count(const shadow *of, size_t output, size_t *count) {
  *count = of->model->outputs[output].count;
  return of->model->outputs[output].dim == NULL;
}

void expect_input(const shadow *of, size_t input, iobind_input_mode mode, view read, bool elsewhere, expectation *expected) {
  const carry_shadow *own = carry_of_input(of, input);
  if (mode == IOBIND_INPUT_LIVE && own != NULL) expected->must |= STATUS(INVALID_ARGUMENT);
  size_t count;
  if (own != NULL && own->mode != IOBIND_CARRY_MOVE && fixed_count(of, (size_t)(own - of->carries), &count) &&
      count != read.count) {
    expected->may |= STATUS(SHAPE); /* no run can produce such a state; at the latest the check reports it */
  }
  if (mode == IOBIND_INPUT_SNAPSHOT) return;
  expect_torn(of, expected);
  for (size_t i = 0; i < of->model->output_count && elsewhere; i++) {
    if (views_overlap(read, written_by(of, i))) expected->may |= STATUS(INVALID_ARGUMENT);
  }
  if (elsewhere) return;
  if (is_ours(of, read)) expected->may |= STATUS(INVALID_ARGUMENT);
  if (read.block->is_frozen && own != NULL && own->mode == IOBIND_CARRY_IN_PLACE) expected->may |= STATUS(INVALID_ARGUMENT);
  for (size_t i = 0; i < of->model->input_count && own != NULL && own->mode == IOBIND_CARRY_IN_PLACE; i++) {
    bool overlaps = views_overlap(read, shadow_next_input(of, i)) || views_overlap(read, of->inputs[i].read);
    if (i != input && overlaps) expected->may |= STATUS(INVALID_ARGUMENT); /* also with the preceding state */
  }
  for (size_t i = 0; i < of->model->output_count; i++) {
    const carry_shadow *carry = &of->carries[i];
    if (carry == own || !views_overlap(read, written_by(of, i))) continue;
    if (of->outputs[i].mode == OUTPUT_FIXED) expected->must |= STATUS(INVALID_ARGUMENT);
    if (carry->is_on || (own != NULL && own->mode == IOBIND_CARRY_IN_PLACE)) expected->may |= STATUS(INVALID_ARGUMENT);
  }
}

void expect_output(const shadow *of, size_t output, int mode, view target, expectation *expected) {
  if (!is_given(mode)) return;
  expect_torn(of, expected);
  if (is_ours(of, target) || target.block->is_frozen) expected->may |= STATUS(INVALID_ARGUMENT);
  for (size_t i = 0; i < of->model->input_count && mode == OUTPUT_FIXED; i++) {
    if (views_overlap(target, shadow_next_input(of, i)) && !of->inputs[i].elsewhere) expected->must |= STATUS(INVALID_ARGUMENT);
    if (views_overlap(target, of->inputs[i].read)) expected->may |= STATUS(INVALID_ARGUMENT); /* the preceding state */
  }
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (i == output || !views_overlap(target, written_by(of, i))) continue;
    if (of->carries[i].is_on) {
      expected->may |= STATUS(INVALID_ARGUMENT); /* or the run returns it */
    } else {
      expected->must |= STATUS(INVALID_ARGUMENT);
    }
  }
}

void expect_carry(const shadow *of, size_t output, size_t input, iobind_carry_mode mode, expectation *expected) {
  const port *from = &of->model->outputs[output];
  const port *to = &of->model->inputs[input];
  if (from->dim == NULL && to->dim == NULL && from->count != to->count) expected->must |= STATUS(SHAPE);
  const carry_shadow *other = carry_of_input(of, input);
  if (other != NULL && other != &of->carries[output]) expected->must |= STATUS(INVALID_ARGUMENT);
  if (of->inputs[input].mode == IOBIND_INPUT_LIVE && of->inputs[input].read.block != NULL) {
    expected->must |= STATUS(INVALID_ARGUMENT);
  }
  view state = shadow_next_input(of, input);
  if (mode == IOBIND_CARRY_MOVE || state.block == NULL) return;
  expect_torn(of, expected);
  if (is_ours(of, state)) expected->may |= STATUS(INVALID_ARGUMENT);
  if (state.block->is_frozen && mode == IOBIND_CARRY_IN_PLACE) expected->may |= STATUS(INVALID_ARGUMENT);
  if (from->dim == NULL && from->count != state.count) expected->may |= STATUS(SHAPE);
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (i != output && views_overlap(state, written_by(of, i))) expected->may |= STATUS(INVALID_ARGUMENT);
  }
  for (size_t i = 0; i < of->model->input_count; i++) {
    bool overlaps = views_overlap(state, shadow_next_input(of, i)) || views_overlap(state, of->inputs[i].read);
    if (i != input && overlaps) expected->may |= STATUS(INVALID_ARGUMENT);
  }
}

bool shadow_counts(const shadow *of, size_t *outputs) {
  size_t inputs[MOST_PORTS] = {0};
  for (size_t i = 0; i < of->model->input_count; i++) {
    view read = shadow_next_input(of, i);
    if (read.block == NULL) return false;
    inputs[i] = read.count;
  }
  return model_counts(of->model, inputs, outputs);
}

/* The number of elements of an output's memory before a run. False: it has no memory. */
static bool held_count(const shadow *of, size_t output, size_t *count) {
  const carry_shadow *carry = &of->carries[output];
  view memory = of->outputs[output].target;
  if (carry->is_on && carry->mode != IOBIND_CARRY_MOVE) memory = shadow_next_input(of, carry->input);
  *count = memory.count;
  return memory.block != NULL;
}

static const char *dim_of(const shadow *of, size_t at, size_t *count) {
  if (at < of->model->input_count) {
    view read = shadow_next_input(of, at);
    *count = read.count;
    return read.block != NULL ? of->model->inputs[at].dim : NULL;
  }
  return held_count(of, at - of->model->input_count, count) ? of->model->outputs[at - of->model->input_count].dim : NULL;
}

/* Do dims with the same name agree for all inputs and outputs that have memory, and fixed dims with the model? */
static bool dims_agree(const shadow *of) {
  size_t one;
  size_t two;
  for (size_t i = 0; i < of->model->input_count + of->model->output_count; i++) {
    const char *name = dim_of(of, i, &one);
    for (size_t j = 0; name != NULL && j < i; j++) {
      const char *other = dim_of(of, j, &two);
      if (other != NULL && strcmp(name, other) == 0 && one != two) return false;
    }
  }
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (held_count(of, i, &one) && fixed_count(of, i, &two) && one != two) return false;
  }
  return true;
}

void expect_check(const shadow *of, expectation *expected) {
  bool any = false;
  for (size_t i = 0; i < of->model->output_count; i++) any = any || of->outputs[i].mode != IOBIND_OUTPUT_NONE;
  if (!any) expected->must |= STATUS(INVALID_STATE);
  for (size_t i = 0; i < of->model->input_count; i++) {
    if (of->inputs[i].read.block == NULL) expected->must |= STATUS(INVALID_STATE);
    if (of->inputs[i].torn) expected->may |= STATUS(INVALID_STATE);
    if (of->inputs[i].lost) expected->must |= STATUS(INVALID_STATE);
  }
  if (!dims_agree(of)) expected->must |= STATUS(SHAPE);
}

/* Overlaps that the first run finds, if no earlier call does: two outputs in one memory, an output over an input. */
static void expect_room(const shadow *of, expectation *expected) {
  expect_torn(of, expected);
  for (size_t i = 0; i < of->model->output_count; i++) {
    view written = written_by(of, i);
    for (size_t j = 0; j < i; j++) {
      if (views_overlap(written, written_by(of, j))) expected->must |= STATUS(INVALID_ARGUMENT);
    }
    if (is_ours(of, written)) expected->may |= STATUS(INVALID_ARGUMENT);
    for (size_t j = 0; j < of->model->input_count; j++) {
      if (!views_overlap(written, shadow_next_input(of, j)) || of->inputs[j].elsewhere) continue;
      if (of->outputs[i].mode == OUTPUT_FIXED) expected->must |= STATUS(INVALID_ARGUMENT);
      if (of->carries[i].is_on && of->carries[i].input != j) expected->may |= STATUS(INVALID_ARGUMENT);
    }
  }
  for (size_t i = 0; i < of->model->input_count; i++) {
    if (is_ours(of, shadow_next_input(of, i)) && !of->inputs[i].elsewhere) expected->may |= STATUS(INVALID_ARGUMENT);
  }
}

/* Memory that this binding has lent may belong to any of its states by now. Only the library knows which. */
static bool is_hidden_state(const shadow *of, view memory) {
  bool is_read = false;
  for (size_t i = 0; i < of->model->input_count; i++) is_read = is_read || views_equal(memory, shadow_next_input(of, i));
  return is_ours(of, memory) && !is_read;
}

bool shadow_is_muddled(const shadow *of) {
  for (size_t i = 0; i < of->model->output_count; i++) {
    view written = written_by(of, i);
    if (of->outputs[i].mode == OUTPUT_IN_PLACE && is_hidden_state(of, written)) return true;
    for (size_t j = 0; j < of->model->input_count; j++) {
      if (!views_overlap(written, shadow_next_input(of, j))) continue;
      if (of->inputs[j].elsewhere) continue; /* a copy of it is read, before the output is written */
      if (!views_equal(written, shadow_next_input(of, j)) || (of->model->may_overwrite[i] & 1u << j) == 0) return true;
    }
  }
  return false;
}

bool view_is_anothers(view of, unsigned binding) {
  return of.block != NULL && of.block->owner != 0 && of.block->owner != binding;
}

bool shadow_trespasses(const shadow *of) {
  bool any = false;
  for (size_t i = 0; i < of->model->output_count; i++) any = any || view_is_anothers(written_by(of, i), of->number);
  return any;
}

bool shadow_is_unforeseeable(const shadow *of) {
  int judge = model_judge(of->model);
  view value = judge >= 0 ? shadow_next_input(of, (size_t)judge) : (view){0};
  return value.block != NULL && !view_is_known(value, of->number);
}

void expect_run(const shadow *of, expectation *expected, bool *late) {
  *late = false;
  expect_check(of, expected);
  expect_room(of, expected);
  for (size_t i = 0; i < of->model->input_count; i++) { /* the state may be that of another run, with dims that do not fit */
    if (of->inputs[i].torn) expected->may |= STATUS(RUNTIME) | STATUS(SHAPE);
  }
  if (expected->must != 0) return;
  size_t counts[MOST_PORTS];
  if (!shadow_counts(of, counts)) {
    expected->must |= STATUS(RUNTIME) | STATUS(SHAPE);
    *late = true;
    return;
  }
  int judge = model_judge(of->model);
  if (judge >= 0 && view_read(shadow_next_input(of, (size_t)judge)).at[0] == BAD) {
    expected->must |= STATUS(RUNTIME);
    *late = true;
  }
  for (size_t i = 0; i < of->model->output_count; i++) {
    size_t held;
    if (!held_count(of, i, &held) || held == counts[i]) continue;
    expected->must |= STATUS(SHAPE);
    expected->may |= STATUS(RUNTIME); /* from ORT, which copies the output to other memory */
    *late = true;
  }
}

/* ---- effects of calls ---- */

void shadow_set_input(shadow *of, size_t input, iobind_input_mode mode, view read, bool elsewhere, int event) {
  carry_shadow *carry = shadow_carry_of_input(of, input);
  if (carry != NULL) carry->is_due = false;
  input_shadow *slot = &of->inputs[input];
  if (mode == IOBIND_INPUT_SNAPSHOT) {
    view copy = {block_make(read.count), 0, read.count};
    elements values = view_read(read);
    view_write(copy, values.at);
    copy.block->known = view_is_known(read, 0);
    view_set(&slot->read, copy);
  } else {
    view_set(&slot->read, read);
    if (read.block->partly_for == of->number) read.block->known = false; /* from now on it can be bound and read */
    if (!elsewhere && is_ours(of, read) && read.block->is_reused) {      /* the next run gives the output other memory */
      read.block->owner = 0;
      read.block->given_up_by = of->number;
      read.block->given_up_after = of->runs;
    }
  }
  slot->mode = mode;
  slot->elsewhere = elsewhere;
  slot->event = event;
  slot->torn = slot->lost = false;
}

void shadow_set_output(shadow *of, size_t output, int mode, view target) {
  shadow_advance(of);
  shadow_forget_results(of, RESULT_NONE);
  of->carries[output] = (carry_shadow){0};
  of->outputs[output].mode = mode;
  view_set(&of->outputs[output].target, target);
}

void shadow_carry(shadow *of, size_t output, size_t input, iobind_carry_mode mode) {
  shadow_set_output(of, output, IOBIND_OUTPUT_FRESH, (view){0});
  of->carries[output] = (carry_shadow){.is_on = true, .input = input, .mode = mode};
}

/* ---- runs ---- */

/* The run may have overwritten memory of earlier results. Memory that it reads, or that is the target of an output, is excluded. */
static void forget_own_memory(const shadow *of) {
  for (block *at = all_blocks; at != NULL; at = at->next) {
    bool kept = at->owner != of->number;
    for (size_t i = 0; i < of->model->input_count; i++) {
      kept = kept || (of->inputs[i].read.block == at && !of->inputs[i].elsewhere);
    }
    for (size_t i = 0; i < of->model->output_count; i++) kept = kept || of->outputs[i].target.block == at;
    if (!kept) at->known = false;
  }
}

static view place_result(shadow *of, size_t output, size_t count) {
  const carry_shadow *carry = &of->carries[output];
  view written = written_by(of, output);
  if (written.block != NULL) return written;
  view made = {block_make(count), 0, count};
  bool again = of->outputs[output].mode == IOBIND_OUTPUT_REUSE || (carry->is_on && carry->mode == IOBIND_CARRY_SWAP);
  made.block->owner = again ? of->number : 0;
  made.block->is_reused = again && !carry->is_on;
  return made;
}

void shadow_run(shadow *of) {
  of->runs++;
  shadow_advance(of);
  shadow_forget_results(of, RESULT_NONE);
  elements inputs[MOST_PORTS] = {0};
  static elements outputs[MOST_PORTS];
  bool known[MOST_PORTS];
  for (size_t i = 0; i < of->model->input_count; i++) inputs[i] = view_read(of->inputs[i].read);
  model_compute(of->model, inputs, outputs);
  for (size_t i = 0; i < of->model->output_count; i++) {
    known[i] = true;
    for (size_t j = 0; j < of->model->input_count; j++) {
      known[i] = known[i] && ((of->model->needs[i] & 1u << j) == 0 || view_is_known(of->inputs[j].read, of->number));
    }
  }
  forget_own_memory(of);
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (of->outputs[i].mode == IOBIND_OUTPUT_NONE) continue;
    view at = place_result(of, i, outputs[i].count);
    view_set(&of->results[i].at, at);
    view_write(at, outputs[i].at);
    if (!known[i]) view_forget(at);
    of->results[i].kind = RESULT_HELD;
    of->carries[i].is_due = of->carries[i].is_on;
  }
  for (size_t i = 0; i < of->model->input_count; i++) {
    block *read = of->inputs[i].read.block;
    if (of->inputs[i].torn && read->partly_for == of->number) read->partly_for = 0; /* it was complete, and is rewritten */
    of->inputs[i].torn = false;
  }
}

void shadow_lose_states(shadow *of, bool several) {
  for (size_t i = 0; i < of->model->output_count; i++) {
    const carry_shadow *carry = &of->carries[i];
    if (!carry->is_on || (carry->mode != IOBIND_CARRY_IN_PLACE && !several)) continue;
    of->inputs[carry->input].torn = of->inputs[carry->input].lost = true;
  }
}

void shadow_doubt_states(shadow *of) {
  for (size_t i = 0; i < of->model->output_count; i++) {
    if (of->carries[i].is_on) of->inputs[of->carries[i].input].torn = true;
  }
}

bool shadow_has_lost(const shadow *of) {
  bool any = false;
  for (size_t i = 0; i < of->model->input_count; i++) any = any || of->inputs[i].lost;
  return any;
}

void shadow_fail(shadow *of) {
  shadow_advance(of);
  shadow_forget_results(of, RESULT_NONE);
  forget_own_memory(of);
  for (size_t i = 0; i < of->model->output_count; i++) {
    view written = written_by(of, i);
    if (written.block == NULL || written.count == 0) continue;
    if (of->carries[i].is_on) {
      written.block->partly_for = of->number; /* complete, or refused */
      of->inputs[of->carries[i].input].torn = true;
    } else {
      view_forget(written);
    }
  }
}
