#include "commands/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/number.h"
#include "shared/tool.h"

/* How long one way runs before the next one takes over: long enough for its caches to settle, short enough that a disturbance
 * of some tenths of a second hits all three. */
#define TURN_NS 30e6
enum { TURN_MOST_RUNS = 64 };

/* Ratios between these two are noise, however many runs show them: a machine is never quite the same from turn to turn. */
#define NOISE_LOW 0.9
#define NOISE_HIGH 1.1

typedef struct transfer {
  uint64_t upload, download;
} transfer;

/* The state of one way. */
typedef struct lane {
  iobind_binding *binding;  /* NULL for TRIAL_UNBOUND */
  iobind_tensor **resident; /* tensors of the inputs, where the session wants them */
  void *host;               /* what TRIAL_READ reads outputs into; grows to the largest one */
  size_t host_bytes;
  bool *written; /* for each input: written before each run */
  uint64_t runs; /* the devices whose counters `moved` sums up */
  transfer moved;
  int64_t launches;
  size_t capacity;
} lane;

typedef struct work {
  iobind_runtime *runtime;
  iobind_session *session;
  iobind_tensor *const *inputs;
  const void **data; /* of the host tensors; NULL for strings */
  size_t *bytes;
  iobind_tensor **outputs;
  size_t input_count, output_count, device_count;
  const trial_plan *plan;
  lane lanes[TRIAL_WAYS];
  trial *trial;
} work;

static iobind_status out_of_memory(iobind_error *error) {
  if (error != NULL) {
    error->status = IOBIND_ERROR_OUT_OF_MEMORY;
    error->ort_code = 0;
    strcpy(error->message, "out of memory");
  }
  return IOBIND_ERROR_OUT_OF_MEMORY;
}

/* Do bytes from the host to this memory location cross a link? */
static bool behind_link(const iobind_value_info *value) {
  if (value->device == NULL || value->memory != IOBIND_MEMORY_DEFAULT) return false;
  return !tool_is_host(value->device);
}

/* What iobind has moved on all devices so far: an input may be on another device than the one of --device. */
static iobind_status read_counters(const work *w, transfer *sum, iobind_error *error) {
  *sum = (transfer){0, 0};
  for (size_t i = 0; i < w->device_count; i++) {
    iobind_device *device = iobind_runtime_get_device(w->runtime, i);
    if (tool_is_host(device)) continue;
    iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
    iobind_status status = iobind_device_get_counters(device, &counters, error);
    if (status != IOBIND_OK) return status;
    sum->upload += counters.upload_bytes;
    sum->download += counters.download_bytes;
  }
  return IOBIND_OK;
}

static iobind_status run_unbound(work *w, uint64_t *ns, iobind_error *error) {
  uint64_t start = clock_now(&w->plan->clock);
  iobind_status status = tool_run(w->session, w->inputs, w->input_count, w->outputs, w->output_count, error);
  if (status != IOBIND_OK) return status;
  for (size_t i = 0; i < w->output_count; i++) iobind_tensor_release(w->outputs[i]);
  *ns = clock_now(&w->plan->clock) - start;
  return IOBIND_OK;
}

/* Read one output into host memory, unless it is there already. */
static iobind_status read_output(work *w, lane *l, size_t index, iobind_error *error) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_status status = iobind_session_get_output(w->session, index, &value, error);
  if (status != IOBIND_OK || !behind_link(&value) || value.kind != IOBIND_VALUE_TENSOR) return status;
  iobind_tensor *output = NULL;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  status = iobind_binding_get_output(l->binding, index, NULL, &output, error);
  if (status == IOBIND_OK && output != NULL) status = iobind_tensor_get_info(output, &info, error);
  if (status != IOBIND_OK || info.bytes == 0) return status;
  if (info.bytes > l->host_bytes) {
    void *grown = realloc(l->host, info.bytes);
    if (grown == NULL) return out_of_memory(error);
    l->host = grown;
    l->host_bytes = info.bytes;
  }
  return iobind_tensor_read(output, 0, l->host, info.bytes, NULL, error);
}

static iobind_status run_bound(work *w, lane *l, bool reads, uint64_t *ns, iobind_error *error) {
  uint64_t start = clock_now(&w->plan->clock);
  for (size_t i = 0; i < w->input_count; i++) {
    if (!l->written[i]) continue;
    iobind_status status = iobind_binding_write_input(l->binding, i, w->data[i], w->bytes[i], NULL, error);
    if (status != IOBIND_OK) return status;
  }
  iobind_status status = iobind_binding_run(l->binding, NULL, error);
  for (size_t i = 0; reads && status == IOBIND_OK && i < w->output_count; i++) status = read_output(w, l, i, error);
  *ns = clock_now(&w->plan->clock) - start;
  return status;
}

static iobind_status run_once(work *w, trial_way_index way, uint64_t *ns, iobind_error *error) {
  lane *l = &w->lanes[way];
  return l->binding == NULL ? run_unbound(w, ns, error) : run_bound(w, l, way == TRIAL_READ, ns, error);
}

/* An unbound run's copies are ORT's and not counted. They follow from where the session reads its inputs and leaves its
 * outputs. `w->outputs` holds the outputs of a run. */
static iobind_status add_up_unbound(const work *w, trial_way *result, iobind_error *error) {
  for (size_t i = 0; i < w->input_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_status status = iobind_session_get_input(w->session, i, &value, error);
    if (status != IOBIND_OK) return status;
    if (behind_link(&value)) result->upload_bytes += w->bytes[i];
  }
  for (size_t i = 0; i < w->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_status status = iobind_session_get_output(w->session, i, &value, error);
    if (status != IOBIND_OK) return status;
    if (w->outputs[i] == NULL || !behind_link(&value)) continue;
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    status = iobind_tensor_get_info(w->outputs[i], &info, error);
    if (status != IOBIND_OK) return status;
    result->download_bytes += info.bytes;
  }
  return IOBIND_OK;
}

static iobind_status first_unbound(work *w, iobind_error *error) {
  trial_way *result = &w->trial->ways[TRIAL_UNBOUND];
  uint64_t start = clock_now(&w->plan->clock);
  iobind_status status = tool_run(w->session, w->inputs, w->input_count, w->outputs, w->output_count, error);
  if (status != IOBIND_OK) return status;
  result->first_ns = clock_now(&w->plan->clock) - start;
  status = add_up_unbound(w, result, error);
  for (size_t i = 0; i < w->output_count; i++) {
    iobind_tensor_release(w->outputs[i]);
    w->outputs[i] = NULL;
  }
  return status;
}

/* Copy one input to where the session wants it and bind it there. Strings stay in their host tensor. */
static iobind_status place_input(work *w, lane *l, size_t index, iobind_error *error) {
  if (w->data[index] == NULL && w->bytes[index] == 0) {
    return iobind_binding_set_input(l->binding, index, IOBIND_INPUT_LIVE, w->inputs[index], NULL, error);
  }
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_status status = iobind_session_get_input(w->session, index, &value, error);
  if (status != IOBIND_OK) return status;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  status = iobind_tensor_get_info(w->inputs[index], &info, error);
  if (status != IOBIND_OK) return status;
  status = iobind_tensor_create(value.device, (iobind_memory)value.memory, (iobind_dtype)info.dtype, info.dims, info.rank,
                                &l->resident[index], error);
  if (status != IOBIND_OK) return status;
  status = iobind_tensor_write(l->resident[index], 0, w->data[index], w->bytes[index], NULL, error);
  if (status != IOBIND_OK) return status;
  return iobind_binding_set_input(l->binding, index, IOBIND_INPUT_RESIDENT, l->resident[index], NULL, error);
}

static iobind_status reuse_outputs(work *w, lane *l, iobind_error *error) {
  for (size_t i = 0; i < w->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_status status = iobind_session_get_output(w->session, i, &value, error);
    if (status != IOBIND_OK) return status;
    if (value.kind != IOBIND_VALUE_TENSOR || value.dtype == IOBIND_DTYPE_STRING) continue;
    status = iobind_binding_place_output(l->binding, i, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, error);
    if (status != IOBIND_OK) return status;
  }
  return IOBIND_OK;
}

static iobind_status bind(work *w, trial_way_index way, iobind_error *error) {
  lane *l = &w->lanes[way];
  trial_way *result = &w->trial->ways[way];
  l->resident = calloc(w->input_count + 1, sizeof *l->resident);
  l->written = calloc(w->input_count + 1, sizeof *l->written);
  if (l->resident == NULL || l->written == NULL) return out_of_memory(error);
  transfer before, after;
  iobind_status status = read_counters(w, &before, error);
  if (status != IOBIND_OK) return status;
  uint64_t start = clock_now(&w->plan->clock);
  status = iobind_binding_create(w->session, &l->binding, error);
  for (size_t i = 0; status == IOBIND_OK && i < w->input_count; i++) {
    status = place_input(w, l, i, error);
    l->written[i] = way != TRIAL_RESIDENT && !w->plan->kept[i] && l->resident[i] != NULL && w->bytes[i] > 0;
  }
  if (status == IOBIND_OK) status = wish_configure(w->plan->run_configs, l->binding, error);
  if (status == IOBIND_OK && way == TRIAL_RESIDENT) status = reuse_outputs(w, l, error);
  result->set_up_ns = clock_now(&w->plan->clock) - start;
  if (status != IOBIND_OK) return status;
  status = read_counters(w, &after, error);
  if (status != IOBIND_OK) return status;
  result->set_up_bytes = after.upload - before.upload;
  return run_once(w, way, &result->first_ns, error);
}

static bool append(trial_way *result, lane *l, uint64_t ns) {
  if (result->sample_count == l->capacity) {
    size_t capacity = l->capacity == 0 ? 256 : l->capacity * 2;
    uint64_t *grown = realloc(result->samples, capacity * sizeof *grown);
    if (grown == NULL) return false;
    result->samples = grown;
    l->capacity = capacity;
  }
  result->samples[result->sample_count++] = ns;
  return true;
}

/* One turn of a way: `runs` runs that count. */
static iobind_status take_turn(work *w, trial_way_index way, size_t runs, iobind_error *error) {
  lane *l = &w->lanes[way];
  transfer before, after;
  iobind_status status = read_counters(w, &before, error);
  if (status != IOBIND_OK) return status;
  int64_t launched = launches_now(&w->plan->launches);
  for (size_t i = 0; i < runs; i++) {
    uint64_t ns = 0;
    status = run_once(w, way, &ns, error);
    if (status != IOBIND_OK) return status;
    if (!append(&w->trial->ways[way], l, ns)) return out_of_memory(error);
  }
  status = read_counters(w, &after, error);
  if (status != IOBIND_OK) return status;
  l->runs += runs;
  l->launches += launches_now(&w->plan->launches) - launched;
  l->moved.upload += after.upload - before.upload;
  l->moved.download += after.download - before.download;
  return IOBIND_OK;
}

/* Run each way `warmup` times and at least once; the time of the last run determines how many runs a turn has. */
static iobind_status warm_up(work *w, size_t *turn, iobind_error *error) {
  uint64_t slowest = 1;
  size_t runs = w->plan->warmup > 0 ? w->plan->warmup : 1;
  for (int way = 0; way < TRIAL_WAYS; way++) {
    uint64_t ns = 0, passed = 0;
    for (size_t i = 0; i < runs; i++) {
      uint64_t start = number_now();
      iobind_status status = run_once(w, (trial_way_index)way, &ns, error);
      if (status != IOBIND_OK) return status;
      passed = number_now() - start;
    }
    if (passed > slowest) slowest = passed;
  }
  double fitting = TURN_NS / (double)slowest;
  *turn = fitting < 1 ? 1 : fitting > TURN_MOST_RUNS ? TURN_MOST_RUNS : (size_t)fitting;
  return IOBIND_OK;
}

static iobind_status take_turns(work *w, size_t turn, iobind_error *error) {
  uint64_t start = number_now();
  size_t done = 0;
  for (size_t round = 0; done < w->plan->iterations; round++) {
    double seconds = (double)(number_now() - start) / 1e9;
    if (w->plan->seconds > 0 && seconds >= w->plan->seconds && done >= TRIAL_LEAST_RUNS) break;
    progress_say("%s: %zu runs of each way", w->plan->title, done);
    size_t runs = turn < w->plan->iterations - done ? turn : w->plan->iterations - done;
    for (size_t i = 0; i < TRIAL_WAYS; i++) {
      /* Each round begins with another way, so that none always follows the same one. */
      iobind_status status = take_turn(w, (trial_way_index)((i + round) % TRIAL_WAYS), runs, error);
      if (status != IOBIND_OK) return status;
    }
    done += runs;
  }
  return IOBIND_OK;
}

static iobind_status summarise(work *w, iobind_error *error) {
  for (int way = 0; way < TRIAL_WAYS; way++) {
    trial_way *result = &w->trial->ways[way];
    const lane *l = &w->lanes[way];
    uint64_t *sorted = malloc((result->sample_count + 1) * sizeof *sorted);
    if (sorted == NULL) return out_of_memory(error);
    memcpy(sorted, result->samples, result->sample_count * sizeof *sorted);
    result->time = statistic_of(sorted, result->sample_count);
    free(sorted);
    result->launches = w->plan->launches.read == NULL || l->runs == 0 ? -1 : (double)l->launches / (double)l->runs;
    if (way == TRIAL_UNBOUND || l->runs == 0) continue;
    result->upload_bytes = l->moved.upload / l->runs;
    result->download_bytes = l->moved.download / l->runs;
  }
  return IOBIND_OK;
}

static iobind_status describe_inputs(work *w, iobind_error *error) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_status status = iobind_session_get_info(w->session, &info, error);
  if (status != IOBIND_OK) return status;
  iobind_runtime_info runtime = IOBIND_RUNTIME_INFO_INIT;
  status = iobind_runtime_get_info(w->runtime, &runtime, error);
  if (status != IOBIND_OK) return status;
  w->input_count = info.input_count;
  w->output_count = info.output_count;
  w->device_count = runtime.device_count;
  w->data = calloc(w->input_count + 1, sizeof *w->data);
  w->bytes = calloc(w->input_count + 1, sizeof *w->bytes);
  w->outputs = calloc(w->output_count + 1, sizeof *w->outputs);
  if (w->data == NULL || w->bytes == NULL || w->outputs == NULL) return out_of_memory(error);
  for (size_t i = 0; i < w->input_count; i++) {
    iobind_tensor_info tensor = IOBIND_TENSOR_INFO_INIT;
    status = iobind_tensor_get_info(w->inputs[i], &tensor, error);
    if (status != IOBIND_OK) return status;
    w->bytes[i] = tensor.bytes;
    w->data[i] = tensor.dtype == IOBIND_DTYPE_STRING ? NULL : iobind_tensor_get_address(w->inputs[i]);
  }
  return IOBIND_OK;
}

static void release(work *w) {
  for (int way = 0; way < TRIAL_WAYS; way++) {
    lane *l = &w->lanes[way];
    iobind_binding_destroy(l->binding);
    for (size_t i = 0; l->resident != NULL && i < w->input_count; i++) iobind_tensor_release(l->resident[i]);
    free(l->resident);
    free(l->written);
    free(l->host);
  }
  free(w->data);
  free(w->bytes);
  free(w->outputs);
}

iobind_status trial_run(iobind_runtime *runtime, iobind_session *session, iobind_tensor *const *inputs, const trial_plan *plan,
                        trial *t, iobind_error *error) {
  memset(t, 0, sizeof *t);
  work w = {.runtime = runtime, .session = session, .inputs = inputs, .plan = plan, .trial = t};
  size_t turn = 1;
  progress_say("%s: first runs", plan->title);
  iobind_status status = describe_inputs(&w, error);
  if (status == IOBIND_OK) status = first_unbound(&w, error);
  for (int way = TRIAL_UNBOUND + 1; status == IOBIND_OK && way < TRIAL_WAYS; way++) {
    status = bind(&w, (trial_way_index)way, error);
  }
  if (status == IOBIND_OK) status = warm_up(&w, &turn, error);
  if (status == IOBIND_OK) status = take_turns(&w, turn, error);
  if (status == IOBIND_OK) status = summarise(&w, error);
  release(&w);
  if (status != IOBIND_OK) trial_free(t);
  return status;
}

void trial_free(trial *t) {
  for (int way = 0; way < TRIAL_WAYS; way++) free(t->ways[way].samples);
  memset(t, 0, sizeof *t);
}

double trial_ratio(const trial *t, trial_way_index way) {
  double median = t->ways[way].time.median, unbound = t->ways[TRIAL_UNBOUND].time.median;
  if (median > 0) return unbound / median;
  return unbound > 0 ? (double)INFINITY : 0;
}

int trial_compare(const trial *t, trial_way_index way) {
  const statistic *bound = &t->ways[way].time, *unbound = &t->ways[TRIAL_UNBOUND].time;
  double ratio = trial_ratio(t, way);
  if (ratio > NOISE_HIGH && bound->median_high < unbound->median_low) return 1;
  if (ratio < NOISE_LOW && bound->median_low > unbound->median_high) return -1;
  return 0;
}

uint64_t trial_paid_after(const trial *t, trial_way_index way) {
  if (way == TRIAL_UNBOUND || trial_compare(t, way) <= 0) return 0;
  double saved = t->ways[TRIAL_UNBOUND].time.median - t->ways[way].time.median;
  double runs = ceil((double)t->ways[way].set_up_ns / saved);
  return runs < 1 ? 1 : (uint64_t)runs;
}
