#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "memory.h"
#include "pinned.h"
#include "race.h"
#include "stream.h"

/* The memory that a view covers. */
enum { VIEW_RANK = 6 };
typedef struct view_key {
  const void *address; /* the program's */
  const void *data;    /* the address of the bytes */
  size_t bytes;
  ONNXTensorElementDataType dtype;
  size_t rank; /* larger than VIEW_RANK: the dims are not kept */
  int64_t dims[VIEW_RANK];
} view_key;

typedef struct vdev_launch launch;

/* One run: the views that the nested session reads and writes, inputs first. They are kept for the next run that uses the same
 * memory. */
struct vdev_launch {
  vdev_kernel *kernel;
  launch *next;
  int64_t bytes;           /* of all arguments */
  const OrtValue **inputs; /* ORT's context of this run */
  OrtValue **outputs;
  OrtValue **views;
  view_key *keys;
  bool sizes_known; /* those of this run's outputs are known before it */
  bool sizes_seen;  /* a run with the dims of the inputs' keys gave those of the outputs', which the group does not tell */
};

static void drop_view(launch *one, size_t index) {
  if (one->views[index] != NULL) {
    VDEV_API_TABLE->ReleaseValue(one->views[index]);
    one->views[index] = NULL;
  }
}

static void free_launch(launch *one) {
  size_t count = one->kernel->input_count + one->kernel->output_count;
  for (size_t i = 0; one->views != NULL && i < count; i++) {
    drop_view(one, i);
  }
  free(one->inputs);
  free(one->outputs);
  free(one->views);
  free(one->keys);
  free(one);
}

static launch *make_launch(vdev_kernel *self) {
  launch *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return NULL;
  }
  one->kernel = self;
  one->inputs = calloc(self->input_count + 1, sizeof *one->inputs);
  one->outputs = calloc(self->output_count + 1, sizeof *one->outputs);
  one->views = calloc(self->input_count + self->output_count + 1, sizeof *one->views);
  one->keys = calloc(self->input_count + self->output_count + 1, sizeof *one->keys);
  if (one->inputs == NULL || one->outputs == NULL || one->views == NULL || one->keys == NULL) {
    free_launch(one);
    return NULL;
  }
  return one;
}

static launch *take_launch(vdev_kernel *self) {
  vdev_lock();
  launch *one = self->idle;
  if (one != NULL) {
    self->idle = one->next;
  }
  self->in_flight++;
  vdev_unlock();
  one = one != NULL ? one : make_launch(self);
  if (one == NULL) {
    vdev_lock();
    self->in_flight--;
    vdev_unlock();
  }
  return one;
}

/* The run has ended. */
static void return_launch(void *context) {
  launch *one = context;
  vdev_kernel *self = one->kernel;
  for (size_t i = 0; !one->sizes_known && i < self->output_count; i++) {
    drop_view(one, self->input_count + i); /* the nested session made it */
  }
  vdev_lock();
  one->next = self->idle;
  self->idle = one;
  self->in_flight--;
  pthread_cond_broadcast(&vdev_global.changed); /* a thread that releases the session waits for this */
  vdev_unlock();
}

static bool run_session(void *context, char *reason) {
  launch *one = context;
  vdev_kernel *self = one->kernel;
  const OrtApi *api = VDEV_API_TABLE;
  OrtStatus *status =
      api->Run(self->session, self->run_options, self->names, (const OrtValue *const *)one->views, self->input_count,
               self->names + self->input_count, self->output_count, one->views + self->input_count);
  if (status != NULL) {
    const char *message = api->GetErrorMessage(status);
    const char *inner = vdev_status_inner(message, VDEV_TEXT / 2);
    int length = snprintf(reason, VDEV_TEXT, "vdev:%d: kernel %s: %s%s", self->device->index, self->what,
                          inner == message ? "" : "... ", inner);
    if (length >= VDEV_TEXT) memcpy(reason + VDEV_TEXT - sizeof "...", "...", sizeof "...");
    api->ReleaseStatus(status);
  }
  return status == NULL;
}

static OrtStatus *locate_first_output(const launch *one, unsigned char **data, size_t *bytes) {
  OrtValue *output = one->views[one->kernel->input_count];
  void *found = NULL;
  VDEV_TRY(VDEV_API_TABLE->GetTensorSizeInBytes(output, bytes));
  VDEV_TRY(VDEV_API_TABLE->GetTensorMutableData(output, &found));
  *data = found;
  return NULL;
}

/* The top bits of a float32, of another float or of an integer: whatever the type is, the first element or the second is far from right. */
static void falsify(void *context) {
  enum { CHANGED = 3, BITS = 0x40 };
  unsigned char *data = NULL;
  size_t bytes = 0;
  OrtStatus *status = locate_first_output(context, &data, &bytes);
  if (status != NULL) {
    VDEV_API_TABLE->ReleaseStatus(status);
  } else if (bytes > 0) {
    data[bytes > CHANGED ? CHANGED : bytes - 1] ^= BITS;
  }
}

static OrtStatus *dims_of(const OrtValue *value, const int64_t **dims, size_t *rank, ONNXTensorElementDataType *dtype) {
  return VDEV_API_TABLE->GetTensorElementTypeAndShapeDataReference(value, dtype, dims, rank);
}

/* Where the nested session finds the bytes of an argument. With the lock held. */
static OrtStatus *locate(const vdev_kernel *self, vdev_stream *stream, const OrtValue *value, vdev_touched span,
                         const void **out) {
  const void *data = span.start;
  const char *what = span.write ? "kernel output" : "kernel input";
  char reason[VDEV_TEXT] = "";
  if (data == NULL) {
    vdev_memory_refuse_null(self->device, what, reason);
    return vdev_fail(ORT_FAIL, reason);
  }
  bool is_host = vdev_memory_owner(data) == NULL;
  if (is_host && vdev_pinned_find(data, 1) == NULL) {
    const OrtMemoryInfo *info = NULL;
    OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
    VDEV_TRY(VDEV_API_TABLE->GetTensorMemoryInfo(value, &info));
    VDEV_API_TABLE->MemoryInfoGetDeviceType(info, &type);
    is_host = type == OrtMemoryInfoDeviceType_CPU; /* otherwise its description is wrong, and it is refused below */
  }
  *out = is_host ? vdev_pinned_device_view(self->device, data, span.bytes, what, reason)
                 : vdev_memory_resolve(self->device, data, span.bytes, what, reason);
  bool good = *out != NULL; /* a launch that is only recorded accesses nothing yet */
  if (good && !vdev_capture_records(self->device)) {
    good = vdev_race_access(self->device, stream, span, self->what, reason);
  }
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

static void set_dims(view_key *key, const int64_t *dims, size_t rank) {
  key->rank = rank;
  for (size_t d = 0; d < rank && d < VIEW_RANK; d++) {
    key->dims[d] = dims[d];
  }
}

static bool has_dims(const view_key *key, const int64_t *dims, size_t rank) {
  bool same = rank == key->rank && rank <= VIEW_RANK;
  for (size_t d = 0; same && d < rank; d++) {
    same = dims[d] == key->dims[d];
  }
  return same;
}

/* A host view of a tensor of the device (or of the host, for an input that ORT left there). With the lock held. */
static OrtStatus *view_of(launch *one, vdev_stream *stream, const OrtValue *value, bool write, size_t index) {
  const OrtApi *api = VDEV_API_TABLE;
  static char nothing[16]; /* an address for tensors of 0 bytes */
  view_key *key = &one->keys[index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  const void *data = NULL;
  VDEV_TRY(dims_of(value, &dims, &rank, &dtype));
  VDEV_TRY(api->GetTensorData(value, &data));
  bool same = one->views[index] != NULL && dtype == key->dtype && has_dims(key, dims, rank);
  size_t bytes = key->bytes;
  if (!same) {
    VDEV_TRY(api->GetTensorSizeInBytes(value, &bytes));
  }
  const void *real = nothing;
  if (bytes > 0) {
    VDEV_TRY(locate(one->kernel, stream, value, (vdev_touched){data, bytes, write}, &real));
  }
  one->bytes += (int64_t)bytes;
  if (same && real == key->data) {
    return NULL;
  }
  drop_view(one, index);
  *key = (view_key){.address = data, .data = real, .bytes = bytes, .dtype = dtype};
  set_dims(key, dims, rank);
  return api->CreateTensorWithDataAsOrtValue(one->kernel->host, (void *)(uintptr_t)real, bytes, dims, rank, dtype,
                                             &one->views[index]);
}

static OrtStatus *create_output(OrtKernelContext *context, const vdev_port *output, launch *one, size_t index) {
  int64_t dims[VDEV_KERNEL_RANK];
  for (size_t d = 0; d < output->rank; d++) {
    const vdev_dim_rule *rule = &output->rules[d];
    dims[d] = rule->value;
    if (rule->value < 0) {
      const int64_t *input_dims = NULL;
      size_t rank = 0;
      ONNXTensorElementDataType dtype;
      VDEV_TRY(dims_of(one->inputs[rule->input], &input_dims, &rank, &dtype));
      dims[d] = rule->axis < rank ? input_dims[rule->axis] : 0;
    }
  }
  return VDEV_API_TABLE->KernelContext_GetOutput(context, output->index, dims, output->rank, &one->outputs[index]);
}

/* With the dims that the run before the capture gave. If the data decide about them after all, a launch of the graph that would give others
 * fails: ORT compares them with the memory that it is given. */
static OrtStatus *create_seen_output(OrtKernelContext *context, launch *one, size_t index) {
  const vdev_kernel *self = one->kernel;
  const view_key *key = &one->keys[self->input_count + index];
  return VDEV_API_TABLE->KernelContext_GetOutput(context, self->outputs[index].index, key->dims, key->rank,
                                                 &one->outputs[index]);
}

/* Have the sizes of the outputs been seen, in a run with inputs of these dims? */
static OrtStatus *has_seen_sizes(const launch *one, bool *seen) {
  const vdev_kernel *self = one->kernel;
  *seen = one->sizes_seen && !self->sized_by_data;
  for (size_t i = 0; i < self->input_count && *seen; i++) {
    ONNXTensorElementDataType dtype;
    const int64_t *dims = NULL;
    size_t rank = 0;
    VDEV_TRY(dims_of(one->inputs[i], &dims, &rank, &dtype));
    *seen = has_dims(&one->keys[i], dims, rank);
  }
  for (size_t i = 0; i < self->output_count && *seen; i++) {
    *seen = one->keys[self->input_count + i].rank <= VIEW_RANK;
  }
  return NULL;
}

static OrtStatus *refuse_size(const vdev_kernel *self) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  vdev_refuse(
      self->device, reason, "kernel %s cannot be captured: %s", self->what,
      self->sized_by_data
          ? "the size of an output depends on the data"
          : "only a run tells the size of an output, and the one before had inputs of other sizes, or more than 6 dims");
  vdev_capture_spoil(self->device, reason);
  vdev_capture_warm_up(self->device);
  vdev_unlock();
  return vdev_fail(ORT_FAIL, reason);
}

/* Are the sizes of this run's outputs known before it? */
static OrtStatus *find_sizes(launch *one) {
  const vdev_kernel *self = one->kernel;
  one->sizes_known = self->shapes_known;
  for (size_t i = 0; i < self->tie_count && one->sizes_known; i++) {
    const vdev_tie *tie = &self->ties[i];
    ONNXTensorElementDataType dtype;
    const int64_t *dims = NULL;
    const int64_t *other_dims = NULL;
    size_t rank = 0;
    size_t other_rank = 0;
    VDEV_TRY(dims_of(one->inputs[tie->input], &dims, &rank, &dtype));
    VDEV_TRY(dims_of(one->inputs[tie->other_input], &other_dims, &other_rank, &dtype));
    one->sizes_known = tie->axis < rank && tie->other_axis < other_rank && dims[tie->axis] == other_dims[tie->other_axis];
  }
  return NULL;
}

/* Outputs that exist before the run: *created. ORT allocates them: without the lock, because it calls our allocator. */
static OrtStatus *create_outputs(OrtKernelContext *context, launch *one, bool *created) {
  const vdev_kernel *self = one->kernel;
  VDEV_TRY(find_sizes(one));
  *created = one->sizes_known;
  if (!one->sizes_known) {
    vdev_lock();
    *created = vdev_capture_records(self->device);
    vdev_unlock();
  }
  if (*created && !one->sizes_known) {
    bool seen = false;
    VDEV_TRY(has_seen_sizes(one, &seen));
    if (!seen) {
      return refuse_size(self);
    }
  }
  for (size_t i = 0; i < self->output_count && *created; i++) {
    VDEV_TRY(one->sizes_known ? create_output(context, &self->outputs[i], one, i) : create_seen_output(context, one, i));
  }
  for (size_t i = 0; i < self->output_count && !*created; i++) {
    drop_view(one, self->input_count + i); /* of an earlier run: the nested session makes new ones */
  }
  return NULL;
}

/* Copy the outputs of a run whose shapes were not known into tensors of the device. */
static OrtStatus *store_result(OrtKernelContext *context, launch *one, vdev_stream *stream, size_t index) {
  const OrtApi *api = VDEV_API_TABLE;
  const vdev_kernel *self = one->kernel;
  const OrtValue *result = one->views[self->input_count + index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  size_t bytes = 0;
  const void *data = NULL;
  void *target = NULL;
  const void *real = NULL;
  VDEV_TRY(dims_of(result, &dims, &rank, &dtype));
  set_dims(&one->keys[self->input_count + index], dims, rank);
  VDEV_TRY(api->GetTensorSizeInBytes(result, &bytes));
  VDEV_TRY(api->GetTensorData(result, &data));
  VDEV_TRY(api->KernelContext_GetOutput(context, self->outputs[index].index, dims, rank, &one->outputs[index]));
  VDEV_TRY(api->GetTensorMutableData(one->outputs[index], &target));
  if (bytes == 0) {
    return NULL;
  }
  vdev_lock();
  OrtStatus *status = locate(self, stream, one->outputs[index], (vdev_touched){target, bytes, true}, &real);
  vdev_unlock();
  if (status == NULL) {
    memcpy((void *)(uintptr_t)real, data, bytes);
  }
  return status;
}

/* Submit the launch to its stream. `release` is called with it afterwards. */
static bool submit_job(launch *one, vdev_stream *stream, bool wait, void (*release)(void *), bool *handed, char *reason) {
  const vdev_kernel *self = one->kernel;
  const vdev_subject subject = {VDEV_SITE_COMPUTE, self->what, one->bytes, (const char *const *)self->labels,
                                self->label_count};
  vdev_effect effect = {0};
  if (!vdev_admit(self->device, &subject, &effect, reason)) {
    return false;
  }
  const vdev_job job = {.device = self->device,
                        .engine = VDEV_COMPUTE,
                        .bytes = one->bytes,
                        .effect = effect,
                        .what = self->what,
                        .owner = self->owner,
                        .work = run_session,
                        .falsify = falsify,
                        .context = one,
                        .release = release};
  *handed = release != NULL;
  return vdev_submit(stream, &job, wait, reason);
}

/* A launch that was recorded: its views stay as they are. */
typedef struct recorded_launch {
  vdev_recorded base; /* first member */
  launch *one;
} recorded_launch;

static bool launch_recorded(vdev_recorded *base, vdev_stream *stream, char *reason) {
  launch *one = ((recorded_launch *)base)->one;
  const vdev_kernel *self = one->kernel;
  bool handed = false;
  bool good = true;
  vdev_stream_advance(stream);
  for (size_t i = 0; i < self->input_count + self->output_count && good; i++) {
    const view_key *key = &one->keys[i];
    const vdev_touched span = {key->address, key->bytes, i >= self->input_count};
    good = vdev_race_access(self->device, stream, span, self->what, reason);
  }
  good = good && submit_job(one, stream, false, NULL, &handed, reason);
  self->device->statistics.graph_launches += good;
  return good;
}

static void release_recorded(vdev_recorded *base) {
  free_launch(((recorded_launch *)base)->one);
  free(base);
}

/* Keep the launch instead of running it: the graph owns it from now on. */
static bool record(launch *one, vdev_stream *stream, bool *handed, char *reason) {
  vdev_kernel *self = one->kernel;
  recorded_launch *kept = calloc(1, sizeof *kept);
  if (kept == NULL) {
    return vdev_refuse(self->device, reason, "out of host memory");
  }
  *kept = (recorded_launch){.base = {.launch = launch_recorded, .release = release_recorded}, .one = one};
  vdev_capture_add(self->device, stream, &kept->base);
  self->in_flight--;
  *handed = true;
  return true;
}

/* *handed: the job or a graph owns the launch now, even if it fails. */
static OrtStatus *submit(launch *one, vdev_stream *stream, bool *handed) {
  const vdev_kernel *self = one->kernel;
  char reason[VDEV_TEXT] = "";
  bool good;
  if (vdev_capture_records(self->device)) {
    good = record(one, stream, handed, reason);
  } else {
    good = submit_job(one, stream, !one->sizes_known, one->sizes_known ? return_launch : NULL, handed, reason);
  }
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

/* *created: the outputs exist before the run, and need no copy after it. */
static OrtStatus *collect_and_submit(OrtKernelContext *context, launch *one, vdev_stream *stream, bool *created, bool *handed) {
  const OrtApi *api = VDEV_API_TABLE;
  const vdev_kernel *self = one->kernel;
  for (size_t i = 0; i < self->input_count; i++) {
    VDEV_TRY(api->KernelContext_GetInput(context, self->inputs[i].index, &one->inputs[i]));
  }
  VDEV_TRY(create_outputs(context, one, created));
  one->sizes_seen = false;
  one->bytes = 0;
  OrtStatus *status = NULL;
  vdev_lock();
  if (stream != NULL) {
    vdev_stream_advance(stream);
  }
  for (size_t i = 0; i < self->input_count && status == NULL; i++) {
    status = view_of(one, stream, one->inputs[i], false, i);
  }
  for (size_t i = 0; i < self->output_count && status == NULL && *created; i++) {
    status = view_of(one, stream, one->outputs[i], true, self->input_count + i);
  }
  if (status == NULL) {
    status = submit(one, stream, handed);
  }
  if (status != NULL) {
    vdev_capture_spoil(self->device, api->GetErrorMessage(status));
  }
  vdev_unlock();
  return status;
}

OrtStatus *vdev_launch_run(vdev_kernel *self, OrtKernelContext *context) {
  void *stream = NULL;
  VDEV_TRY(VDEV_API_TABLE->KernelContext_GetGPUComputeStream(context, &stream));
  launch *one = take_launch(self);
  if (one == NULL) {
    return vdev_no_memory();
  }
  bool created = false;
  bool handed = false;
  OrtStatus *status = collect_and_submit(context, one, stream, &created, &handed);
  for (size_t i = 0; i < self->output_count && status == NULL && !created; i++) {
    status = store_result(context, one, stream, i);
  }
  if (!created) {
    one->sizes_seen = status == NULL;
  }
  if (!handed) {
    return_launch(one);
  }
  return status;
}

void vdev_launch_end_all(vdev_kernel *self) {
  vdev_lock(); /* a run may have returned before its work is done */
  while (self->in_flight > 0) {
    pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
  }
  vdev_unlock();
  while (self->idle != NULL) {
    launch *one = self->idle;
    self->idle = one->next;
    free_launch(one);
  }
}
