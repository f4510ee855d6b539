/* The results of runs: fetched, compared, kept. */
#include <string.h>

#include "operations.h"

#define W the_world

static slot *slot_at(const char *address, size_t size) {
  for (size_t i = 0; i < TENSORS && W->addressable; i++) {
    slot *at = &W->slots[i];
    const char *start = at->tensor != NULL ? at->at.block->address : NULL;
    if (start != NULL && start < address + size && address < start + sizeof(float) * at->at.block->values.count) return at;
  }
  return NULL;
}

/* Find the memory of a result at a new address: new memory, or memory that this binding has used for an earlier result. */
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
  /* owned by the binding when it ran, and bound as an input since */
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
  begin_call("look at %s of b%d", one->shadow.model->outputs[output].name, binding_index(one));
  if (info.host_readable) {
    if (!require_ok(end_call(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_READ, &data, &the_error)))) return;
    memcpy(read, data, info.bytes);
  } else if (!require_ok(end_call(iobind_tensor_read(tensor, 0, read, info.bytes, NULL, &the_error)))) {
    return;
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

void fetch_result(bound *one, size_t output, bool takes, const step *from) {
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
  fetch_result(one, output, takes, from);
  if (old != NULL) bind_again(one, input, old);
}
