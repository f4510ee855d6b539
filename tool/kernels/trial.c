#include "kernels/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/half.h"

enum { RUNS = 2 }; /* a kernel that keeps state may be wrong only from its second run on */

/* A kernel's model in a session, and what its last run gave. */
typedef struct loaded {
  iobind_session *session;
  iobind_tensor *outputs[KERNEL_OUTPUTS];
} loaded;

typedef struct trial {
  tool_state *tool;
  const kernel *kernel;
  const void *model;
  size_t bytes;
  iobind_tensor *inputs[KERNEL_OPERANDS];
  size_t input_count;
  loaded cpu;
  loaded device;
} trial;

static void release_outputs(loaded *self) {
  for (size_t i = 0; i < KERNEL_OUTPUTS; i++) {
    iobind_tensor_release(self->outputs[i]);
    self->outputs[i] = NULL;
  }
}

static iobind_status make_inputs(trial *self, iobind_error *error) {
  iobind_device *cpu = iobind_runtime_get_device(self->tool->runtime, 0);
  for (size_t i = 0; i < self->kernel->operand_count; i++) {
    const kernel_operand *operand = &self->kernel->operands[i];
    if (operand->left_out || operand->in_model) continue;
    iobind_buffer buffer = IOBIND_BUFFER_INIT;
    buffer.dtype = operand->dtype;
    buffer.dims = operand->dims;
    buffer.rank = operand->rank;
    buffer.data = operand->data;
    buffer.bytes = operand->bytes;
    const iobind_status status = iobind_tensor_wrap(cpu, &buffer, &self->inputs[self->input_count], error);
    if (status != IOBIND_OK) return status;
    self->input_count++;
  }
  return IOBIND_OK;
}

/* @param device  NULL: the CPU alone
 * @param flags   IOBIND_SESSION_* */
static iobind_status load(trial *self, iobind_device *device, uint32_t flags, loaded *side, iobind_error *error) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  if (device != NULL) wish_apply(&self->tool->wish, &options);
  options.flags = flags;
  options.devices = &device;
  options.device_count = device != NULL;
  options.intra_op_threads = 1;
  return iobind_session_create_from_memory(self->tool->runtime, self->model, self->bytes, &options, &side->session, error);
}

static iobind_status run(trial *self, loaded *side, iobind_error *error) {
  release_outputs(side);
  return tool_run(side->session, self->inputs, self->input_count, side->outputs, self->kernel->output_count, error);
}

/* An element as text. */
static void print_element(const iobind_tensor *tensor, const iobind_tensor_info *info, uint64_t index, char *text,
                          size_t size) {
  const size_t width = iobind_dtype_get_bits(info->dtype) / 8;
  union {
    unsigned char bytes[16];
    float f32;
    double f64;
    uint16_t half;
    int32_t i32;
    int64_t i64;
    int8_t i8;
  } value = {{0}};
  snprintf(text, size, "?");
  if (width == 0 || iobind_tensor_read(tensor, (size_t)index * width, &value, width, NULL, NULL) != IOBIND_OK) return;
  switch (info->dtype) {
    case IOBIND_DTYPE_FLOAT32: snprintf(text, size, "%.6g", (double)value.f32); break;
    case IOBIND_DTYPE_FLOAT64: snprintf(text, size, "%.6g", value.f64); break;
    case IOBIND_DTYPE_FLOAT16: snprintf(text, size, "%.6g", (double)half_read(value.half)); break;
    case IOBIND_DTYPE_INT32: snprintf(text, size, "%d", value.i32); break;
    case IOBIND_DTYPE_INT64: snprintf(text, size, "%lld", (long long)value.i64); break;
    case IOBIND_DTYPE_INT8: snprintf(text, size, "%d", value.i8); break;
    default: snprintf(text, size, "%u", value.bytes[0]); break;
  }
}

static void describe(const trial *self, size_t output, int run, kernel_finding *finding) {
  const iobind_difference *d = &finding->difference;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  char expected[32] = "?";
  char got[32] = "?";
  uint64_t elements = 1;
  if (iobind_tensor_get_info(self->cpu.outputs[output], &info, NULL) == IOBIND_OK) {
    print_element(self->cpu.outputs[output], &info, d->first, expected, sizeof expected);
    print_element(self->device.outputs[output], &info, d->first, got, sizeof got);
  }
  for (size_t i = 0; i < info.rank; i++) elements *= (uint64_t)info.dims[i];
  int length = snprintf(
      finding->reason, sizeof finding->reason, "%llu of %llu elements differ, by %.3g; number %llu: expected %s, got %s",
      (unsigned long long)d->beyond, (unsigned long long)elements, d->absolute, (unsigned long long)d->first, expected, got);
  if (self->kernel->output_count > 1) {
    length += snprintf(finding->reason + length, sizeof finding->reason - (size_t)length, ", output %zu", output);
  }
  if (run > 0) snprintf(finding->reason + length, sizeof finding->reason - (size_t)length, ", in run %d", run + 1);
}

static kernel_outcome refused(kernel_finding *finding, kernel_outcome outcome, const iobind_error *error) {
  snprintf(finding->reason, sizeof finding->reason, "%s", tool_reason(error));
  fault_make_line(finding->reason);
  finding->is_lost = error->status == IOBIND_ERROR_DEVICE_LOST;
  return outcome;
}

/* A session without the CPU was refused. If one with the CPU is not, the reason is that the device does not take the node. */
static kernel_outcome not_taken(trial *self, iobind_device *device, kernel_finding *finding) {
  iobind_error error = IOBIND_ERROR_INIT;
  const bool loads = load(self, device, 0, &self->device, &error) == IOBIND_OK;
  return loads ? KERNEL_ON_CPU : refused(finding, KERNEL_REFUSED, &error);
}

static kernel_outcome compare(const trial *self, int run, kernel_finding *finding) {
  iobind_error error = IOBIND_ERROR_INIT;
  for (size_t i = 0; i < self->kernel->output_count; i++) {
    finding->difference = (iobind_difference)IOBIND_DIFFERENCE_INIT;
    const iobind_status status =
        iobind_tensor_compare(self->device.outputs[i], self->cpu.outputs[i], NULL, &finding->difference, &error);
    if (status == IOBIND_ERROR_SHAPE || status == IOBIND_ERROR_DTYPE) return refused(finding, KERNEL_WRONG, &error);
    if (status != IOBIND_OK) return refused(finding, KERNEL_REFUSED, &error);
    if (finding->difference.beyond > 0) {
      describe(self, i, run, finding);
      return KERNEL_WRONG;
    }
  }
  return KERNEL_RIGHT;
}

static kernel_outcome run_and_compare(trial *self, iobind_device *device, kernel_finding *finding) {
  iobind_error error = IOBIND_ERROR_INIT;
  if (make_inputs(self, &error) != IOBIND_OK || load(self, NULL, 0, &self->cpu, &error) != IOBIND_OK ||
      run(self, &self->cpu, &error) != IOBIND_OK) {
    return refused(finding, KERNEL_UNKNOWN, &error);
  }
  if (load(self, device, IOBIND_SESSION_STRICT, &self->device, &error) != IOBIND_OK) return not_taken(self, device, finding);
  kernel_outcome outcome = KERNEL_RIGHT;
  for (int i = 0; outcome == KERNEL_RIGHT && i < RUNS; i++) {
    if (run(self, &self->device, &error) != IOBIND_OK) return refused(finding, KERNEL_REFUSED, &error);
    outcome = compare(self, i, finding);
  }
  return outcome;
}

void kernel_leave(kernel_bench *bench) {
  iobind_session_destroy(bench->kept);
  bench->kept = NULL;
}

static void keep(kernel_bench *bench, iobind_session *session) {
  if (session == NULL) return;
  kernel_leave(bench);
  bench->kept = session;
}

bool kernel_try(kernel_bench *bench, const char *text, int32_t dtype, kernel_finding *finding, size_t *rank) {
  kernel made;
  trial self = {.tool = bench->tool, .kernel = &made};
  void *model = kernel_read(&made, text, dtype) ? kernel_write(&made, &self.bytes) : NULL;
  *finding = (kernel_finding){.outcome = KERNEL_UNKNOWN, .difference = IOBIND_DIFFERENCE_INIT};
  *rank = kernel_rank(&made);
  self.model = model;
  if (model != NULL) finding->outcome = run_and_compare(&self, bench->device, finding);
  release_outputs(&self.cpu);
  release_outputs(&self.device);
  iobind_session_destroy(self.cpu.session);
  keep(bench, self.device.session);
  for (size_t i = 0; i < self.input_count; i++) iobind_tensor_release(self.inputs[i]);
  kernel_free(&made);
  free(model);
  return model != NULL;
}
