#include "commands/cycle.h"

#include <stdlib.h>
#include <string.h>

#include "shared/number.h"
#include "shared/tool.h"

/* The state of one way. */
typedef struct work {
  cycle *c;
  cycle_lane *lane;
  iobind_session *session;
  iobind_binding *binding; /* carried */
  iobind_tensor **inputs;  /* through the host: one reference each */
  iobind_tensor **outputs; /* of the last step */
} work;

static bool say(const work *w, tool_fault *fault, const iobind_error *error) {
  w->c->failure = *error;
  return fault_set(fault, "%s [%s]", tool_reason(error), iobind_status_get_name(error->status));
}

/* -1: the output is not carried. */
static int input_of(const cycle *c, size_t output) {
  for (size_t i = 0; i < c->carry_count; i++) {
    if (c->carries[i].output == output) return (int)c->carries[i].input;
  }
  return -1;
}

/* ---- the states carried ---- */

/* If the shape of an output cannot change, it needs no new memory; iobind allocates it again only when an input's shape
 * changes. */
static bool keeps_shape(const cycle *c, const iobind_value_info *value) {
  bool fixed = value->has_shape;
  for (size_t i = 0; i < value->rank; i++) fixed = fixed && value->dims[i] >= 0;
  for (size_t i = 0; i < c->carry_count; i++) fixed = fixed && c->carries[i].mode != IOBIND_CARRY_MOVE;
  return fixed;
}

/* The tensor of an input in the first step. */
static iobind_tensor *first_of(const cycle *c, size_t input) {
  return c->first[input] != NULL ? c->first[input] : c->inputs[input];
}

/* The slice for an input. An input with its own tensor in the first step gets its first slice in the next step. */
static size_t slice_of(const cycle *c, size_t input, size_t step) {
  return step - (c->first[input] != NULL);
}

static bool bind_outputs(work *w, tool_fault *fault) {
  cycle *c = w->c;
  iobind_error error = IOBIND_ERROR_INIT;
  for (size_t i = 0; i < c->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    if (iobind_session_get_output(c->session, i, &value, &error) != IOBIND_OK) return say(w, fault, &error);
    if (value.kind != IOBIND_VALUE_TENSOR || input_of(c, i) >= 0) continue;
    if (value.dtype == IOBIND_DTYPE_STRING || !keeps_shape(c, &value)) {
      w->lane->made += c->steps;
    } else if (iobind_binding_place_output(w->binding, i, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &error) !=
               IOBIND_OK) {
      return say(w, fault, &error);
    }
  }
  return true;
}

static bool is_carried(const cycle *c, size_t input) {
  for (size_t i = 0; i < c->carry_count; i++) {
    if (c->carries[i].input == input) return true;
  }
  return false;
}

static bool bind(work *w, iobind_state *restored, tool_fault *fault) {
  cycle *c = w->c;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_binding_create(w->session, &w->binding, &error) != IOBIND_OK) return say(w, fault, &error);
  for (size_t i = 0; i < c->carry_count; i++) {
    const cycle_carry *carry = &c->carries[i];
    if (iobind_binding_carry(w->binding, carry->output, carry->input, carry->mode, &error) != IOBIND_OK) {
      return say(w, fault, &error);
    }
    if (carry->mode == IOBIND_CARRY_MOVE) w->lane->made += c->steps;
  }
  if (wish_configure(c->run_configs, w->binding, &error) != IOBIND_OK) return say(w, fault, &error);
  if (!bind_outputs(w, fault)) return false;
  for (size_t i = 0; i < c->input_count; i++) {
    if (restored != NULL && is_carried(c, i)) continue;
    if (iobind_binding_set_input(w->binding, i, IOBIND_INPUT_SNAPSHOT, first_of(c, i), NULL, &error) != IOBIND_OK) {
      return say(w, fault, &error);
    }
  }
  return restored == NULL || iobind_binding_restore_state(w->binding, restored, &error) == IOBIND_OK || say(w, fault, &error);
}

static bool feed_carried(work *w, size_t input, size_t step, tool_fault *fault) {
  const cycle *c = w->c;
  const feed *fed = &c->fed[input];
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = IOBIND_OK;
  if (c->first[input] != NULL && step <= 1) {
    if (step == 0) return true;
    /* perhaps of other dims; `inputs` has constant tensors, or the first slice */
    status = iobind_binding_set_input(w->binding, input, IOBIND_INPUT_SNAPSHOT, c->inputs[input], NULL, &error);
  } else if (fed->count > 0 && fed->slice.bytes > 0) {
    const void *slice = feed_at(fed, slice_of(c, input, step));
    status = iobind_binding_write_input(w->binding, input, slice, fed->slice.bytes, NULL, &error);
  }
  return status == IOBIND_OK || say(w, fault, &error);
}

static bool step_carried(work *w, size_t step, tool_fault *fault) {
  iobind_error error = IOBIND_ERROR_INIT;
  for (size_t i = 0; i < w->c->input_count; i++) {
    if (!feed_carried(w, i, step, fault)) return false;
  }
  if (iobind_binding_run(w->binding, NULL, &error) != IOBIND_OK) return say(w, fault, &error);
  return true;
}

/* ---- the same through the host ---- */

static bool take_host_tensors(work *w, tool_fault *fault) {
  const cycle *c = w->c;
  w->inputs = calloc(c->input_count + 1, sizeof *w->inputs);
  w->outputs = calloc(c->output_count + 1, sizeof *w->outputs);
  if (w->inputs == NULL || w->outputs == NULL) return fault_set(fault, "out of memory");
  for (size_t i = 0; i < c->input_count; i++) w->inputs[i] = iobind_tensor_retain(first_of(c, i));
  return true;
}

static bool is_linked(const iobind_value_info *value) {
  return value->device != NULL && value->memory == IOBIND_MEMORY_DEFAULT && !tool_is_host(value->device);
}

/* What ORT moves is not counted. It follows from where the session reads its inputs and leaves its outputs. */
static bool count_moves(work *w, tool_fault *fault) {
  const cycle *c = w->c;
  iobind_error error = IOBIND_ERROR_INIT;
  for (size_t i = 0; i < c->input_count + c->output_count; i++) {
    bool is_input = i < c->input_count;
    size_t index = is_input ? i : i - c->input_count;
    const iobind_tensor *tensor = is_input ? w->inputs[index] : w->outputs[index];
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    iobind_status status = is_input ? iobind_session_get_input(c->session, index, &value, &error)
                                    : iobind_session_get_output(c->session, index, &value, &error);
    if (tensor == NULL) continue;
    if (status == IOBIND_OK) status = iobind_tensor_get_info(tensor, &info, &error);
    if (status != IOBIND_OK) return say(w, fault, &error);
    if (is_linked(&value)) *(is_input ? &w->lane->upload_bytes : &w->lane->download_bytes) += info.bytes;
    w->lane->made += !is_input;
  }
  return true;
}

static bool feed_host(work *w, size_t input, size_t step, tool_fault *fault) {
  const cycle *c = w->c;
  const feed *fed = &c->fed[input];
  iobind_error error = IOBIND_ERROR_INIT;
  if (c->first[input] != NULL && step == 0) return true;
  if (c->first[input] != NULL && step == 1) {
    iobind_tensor_release(w->inputs[input]);
    w->inputs[input] = iobind_tensor_retain(c->inputs[input]);
  }
  if (fed->count == 0 || fed->slice.bytes == 0) return true;
  const void *slice = feed_at(fed, slice_of(c, input, step));
  return iobind_tensor_write(w->inputs[input], 0, slice, fed->slice.bytes, NULL, &error) == IOBIND_OK || say(w, fault, &error);
}

static bool step_host(work *w, size_t step, tool_fault *fault) {
  const cycle *c = w->c;
  iobind_error error = IOBIND_ERROR_INIT;
  for (size_t i = 0; i < c->input_count; i++) {
    if (!feed_host(w, i, step, fault)) return false;
  }
  for (size_t i = 0; i < c->output_count; i++) {
    int input = input_of(c, i);
    if (w->outputs[i] != NULL && input >= 0) {
      iobind_tensor_release(w->inputs[input]);
      w->inputs[input] = w->outputs[i];
    } else {
      iobind_tensor_release(w->outputs[i]);
    }
    w->outputs[i] = NULL;
  }
  return tool_run(c->session, w->inputs, c->input_count, w->outputs, c->output_count, &error) == IOBIND_OK ||
         say(w, fault, &error);
}

/* ---- caches of fixed capacity in place ---- */

static bool is_zero(const char *bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static bool open_cache(const work *w, const cycle_carry *carry, cycle_cache *cache, tool_fault *fault) {
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  npy_array *rows = &cache->rows;
  if (carry->mode != IOBIND_CARRY_IN_PLACE ||
      iobind_session_get_state_kind(w->c->session, carry->output, carry->input, &info, NULL) != IOBIND_OK ||
      info.kind != IOBIND_STATE_CAPACITY) {
    return true;
  }
  if (!tool_tensor_to_npy(first_of(w->c, carry->input), rows, fault)) return false;
  cache->row_bytes = rows->item_bytes;
  for (size_t i = info.axis + 1; i < rows->rank; i++) cache->row_bytes *= (size_t)rows->dims[i];
  return true;
}

static bool open_caches(work *w, tool_fault *fault) {
  cycle *c = w->c;
  bool done = true;
  c->caches = calloc(c->carry_count + 1, sizeof *c->caches);
  if (c->caches == NULL) return fault_set(fault, "out of memory");
  for (size_t i = 0; done && i < c->carry_count; i++) done = open_cache(w, &c->carries[i], &c->caches[i], fault);
  return done;
}

static void hold_rows(cycle_cache *cache, const npy_array *now) {
  const char *from = now->data;
  char *to = cache->rows.data;
  for (size_t i = 0; now->bytes == cache->rows.bytes && i < now->bytes; i += cache->row_bytes) {
    if (!is_zero(from + i, cache->row_bytes)) memcpy(to + i, from + i, cache->row_bytes);
  }
}

/* An operator that makes a new cache makes the rows beyond its length zeros; in place they remain. So what the steps have written is kept, unless
 * all steps are gathered. */
static bool keep_rows(work *w, tool_fault *fault) {
  const cycle *c = w->c;
  for (size_t i = 0; i < c->carry_count; i++) {
    size_t output = c->carries[i].output;
    npy_array now;
    if (c->caches[i].rows.bytes == 0 || (c->gathers && c->gathered[output])) continue;
    if (!tool_tensor_to_npy(w->outputs[output], &now, fault)) return false;
    hold_rows(&c->caches[i], &now);
    npy_free(&now);
  }
  return true;
}

/* ---- both ---- */

/* Fetch an output as an array; *tensor stays NULL if it cannot be one. */
static bool fetch(work *w, size_t output, iobind_tensor **tensor, tool_fault *fault) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  *tensor = NULL;
  if (iobind_session_get_output(w->c->session, output, &value, &error) != IOBIND_OK) return say(w, fault, &error);
  if (value.kind != IOBIND_VALUE_TENSOR || value.dtype == IOBIND_DTYPE_STRING) return true;
  if (w->binding == NULL) {
    *tensor = w->outputs[output];
    return true;
  }
  return iobind_binding_get_output(w->binding, output, NULL, tensor, &error) == IOBIND_OK || say(w, fault, &error);
}

static bool gather_outputs(work *w, tool_fault *fault) {
  const cycle *c = w->c;
  for (size_t i = 0; c->gathers && i < c->output_count; i++) {
    iobind_tensor *tensor = NULL;
    if (input_of(c, i) >= 0 && !c->gathered[i]) continue;
    if (!fetch(w, i, &tensor, fault)) return false;
    if (tensor != NULL && !gather_add(&w->lane->outputs[i], tensor, c->steps, fault)) return false;
  }
  return true;
}

/* The last ones, when all steps are done; a gathered output includes its last state. */
static bool read_states(work *w, tool_fault *fault) {
  for (size_t i = 0; i < w->c->carry_count; i++) {
    size_t output = w->c->carries[i].output;
    gather *all = &w->lane->outputs[output];
    iobind_tensor *tensor = NULL;
    if (all->taken > 0 && !all->uneven) continue;
    if (!fetch(w, output, &tensor, fault)) return false;
    if (!tool_tensor_to_npy(tensor, &all->array, fault)) return false;
  }
  return true;
}

static bool save_state(work *w, tool_fault *fault) {
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_binding_save_state(w->binding, &w->c->saved, &error) == IOBIND_OK || say(w, fault, &error);
}

/* What iobind has moved and allocated on all devices; what moves within the host is not counted. */
static bool add_counters(work *w, bool after, tool_fault *fault) {
  iobind_error error = IOBIND_ERROR_INIT;
  cycle_lane *lane = w->lane;
  for (size_t i = 0;; i++) {
    iobind_device_counters now = IOBIND_DEVICE_COUNTERS_INIT;
    iobind_device *device = iobind_runtime_get_device(w->c->runtime, i);
    if (device == NULL) return true;
    if (iobind_device_get_counters(device, &now, &error) != IOBIND_OK) return say(w, fault, &error);
    uint64_t sign = after ? 1 : UINT64_MAX; /* -1 */
    lane->made += sign * now.allocation_count;
    if (tool_is_host(device)) continue;
    lane->upload_bytes += sign * now.upload_bytes;
    lane->download_bytes += sign * now.download_bytes;
    lane->local_bytes += sign * now.local_bytes;
  }
}

const char *cycle_way_text(cycle_way way) {
  static const char *const texts[CYCLE_WAYS] = {"", "captured, ", "through the host, "};
  return texts[way];
}

static bool run_steps(work *w, cycle_way way, uint64_t *times, size_t *step, tool_fault *fault) {
  cycle *c = w->c;
  int64_t launched = 0;
  for (*step = 0; *step < c->steps; ++*step) {
    progress_say("%sstep %zu of %zu", cycle_way_text(way), *step + 1, c->steps);
    launched = launches_now(&c->launches);
    uint64_t start = clock_now(&c->clock);
    if (!(way == CYCLE_HOST ? step_host(w, *step, fault) : step_carried(w, *step, fault))) return false;
    if (!gather_outputs(w, fault)) return false;
    times[*step] = clock_now(&c->clock) - start;
    if (way == CYCLE_HOST && !(count_moves(w, fault) && keep_rows(w, fault))) return false;
  }
  w->lane->launches = c->launches.read == NULL ? -1 : launches_now(&c->launches) - launched;
  return true;
}

static bool measure(work *w, cycle_way way, size_t *step, tool_fault *fault) {
  cycle *c = w->c;
  uint64_t *times = malloc(c->steps * sizeof *times);
  if (times == NULL) return fault_set(fault, "out of memory");
  bool done = (way == CYCLE_HOST || add_counters(w, false, fault)) && run_steps(w, way, times, step, fault) &&
              (way == CYCLE_HOST || add_counters(w, true, fault));
  if (done) {
    w->lane->first_ns = times[0];
    w->lane->time = statistic_of(times + 1, c->steps - 1);
  }
  free(times);
  return done;
}

bool cycle_run(cycle *c, cycle_way way, size_t *step, tool_fault *fault) {
  work w = {.c = c, .lane = &c->lanes[way], .session = way == CYCLE_CAPTURED ? c->captured : c->session};
  *step = 0;
  bool done = way == CYCLE_HOST ? take_host_tensors(&w, fault) && open_caches(&w, fault) : bind(&w, c->restored[way], fault);
  done = done && measure(&w, way, step, fault);
  done = done && read_states(&w, fault);
  done = done && (way != CYCLE_CARRIED || !c->saves || save_state(&w, fault));
  for (size_t i = 0; w.inputs != NULL && i < c->input_count; i++) iobind_tensor_release(w.inputs[i]);
  for (size_t i = 0; w.outputs != NULL && i < c->output_count; i++) iobind_tensor_release(w.outputs[i]);
  free(w.inputs);
  free(w.outputs);
  iobind_binding_destroy(w.binding);
  return done;
}

/* ---- comparison ---- */

/* Where a cache in place has a row that is zeros through the host: the row as a step has written it last, or else the first one. */
static const char *row_left_in_place(const cycle_cache *of, const npy_array *host, size_t at) {
  const char *rows = host->data;
  size_t step = of->rows.bytes;
  for (size_t end = at + step; end >= step; end -= step) {
    if (!is_zero(rows + end - step, of->row_bytes)) return rows + end - step;
  }
  return (const char *)of->rows.data + at % step;
}

/* Rows beyond the length: no step reads them before one writes them. */
static bool differs_only_beyond_length(const cycle_cache *of, const npy_array *one, const npy_array *host) {
  const char *left = one->data;
  const char *right = host->data;
  bool same = of->rows.bytes > 0 && one->bytes % of->rows.bytes == 0;
  for (size_t i = 0; same && i < one->bytes; i += of->row_bytes) {
    same = memcmp(left + i, right + i, of->row_bytes) == 0 ||
           (is_zero(right + i, of->row_bytes) && memcmp(left + i, row_left_in_place(of, host, i), of->row_bytes) == 0);
  }
  return same;
}

static bool has_same_bytes(const cycle *c, size_t output, const npy_array *one, const npy_array *host) {
  bool same = one->bytes == 0 || memcmp(one->data, host->data, one->bytes) == 0;
  for (size_t i = 0; !same && c->caches != NULL && i < c->carry_count; i++) {
    same = c->carries[i].output == output && differs_only_beyond_length(&c->caches[i], one, host);
  }
  return same;
}

bool cycle_compare(const cycle *c, cycle_way way, size_t *output) {
  for (size_t i = 0; i < c->output_count; i++) {
    const npy_array *one = &c->lanes[way].outputs[i].array;
    const npy_array *other = &c->lanes[CYCLE_HOST].outputs[i].array;
    *output = i;
    if (one->rank != other->rank || one->bytes != other->bytes) return false;
    if (one->rank > 0 && memcmp(one->dims, other->dims, one->rank * sizeof one->dims[0]) != 0) return false;
    if (!has_same_bytes(c, i, one, other)) return false;
  }
  return true;
}

bool cycle_begin(cycle *c, const tool_state *tool, iobind_session *session, const iobind_session_info *info) {
  *c = (cycle){.runtime = tool->runtime,
               .clock = tool->clock,
               .launches = tool->launches,
               .run_configs = &tool->wish.run_configs,
               .session = session,
               .input_count = info->input_count,
               .output_count = info->output_count};
  c->inputs = calloc(info->input_count + 1, sizeof *c->inputs);
  c->first = calloc(info->input_count + 1, sizeof *c->first);
  c->fed = calloc(info->input_count + 1, sizeof *c->fed);
  c->gathered = calloc(info->output_count + 1, sizeof *c->gathered);
  bool made = c->inputs != NULL && c->first != NULL && c->fed != NULL && c->gathered != NULL;
  for (int way = 0; way < CYCLE_WAYS; way++) {
    c->lanes[way].outputs = calloc(info->output_count + 1, sizeof *c->lanes[way].outputs);
    made = made && c->lanes[way].outputs != NULL;
  }
  return made;
}

void cycle_end(cycle *c) {
  for (size_t i = 0; c->inputs != NULL && i < c->input_count; i++) iobind_tensor_release(c->inputs[i]);
  for (size_t i = 0; c->fed != NULL && i < c->input_count; i++) feed_free(&c->fed[i]);
  for (int way = 0; way < CYCLE_WAYS; way++) {
    for (size_t i = 0; c->lanes[way].outputs != NULL && i < c->output_count; i++) gather_free(&c->lanes[way].outputs[i]);
    free(c->lanes[way].outputs);
    iobind_state_release(c->restored[way]);
  }
  for (size_t i = 0; c->caches != NULL && i < c->carry_count; i++) npy_free(&c->caches[i].rows);
  free(c->caches);
  iobind_state_release(c->saved);
  for (size_t i = 0; c->first != NULL && i < c->input_count; i++) iobind_tensor_release(c->first[i]);
  free(c->inputs);
  free(c->first);
  free(c->gathered);
  free(c->fed);
  free(c->carries);
}
