#include "state.h"

static int make(cuda_stream *stream, unsigned flags) {
  if (stream == NULL || flags > CUDA_STREAM_NON_BLOCKING) return CUDA_INVALID_VALUE;
  vcuda_lock();
  vcuda_device *device = vcuda_device_current();
  bool fails = vcuda_trigger_fails(&device->settings, VCUDA_SITE_STREAM, 0, "cudaStreamCreate", false);
  *stream = fails ? NULL : vcuda_stream_make(device, flags);
  if (*stream != NULL) vcuda_count(device, VCUDA_COUNT_live_streams, 1);
  vcuda_unlock();
  return *stream == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

int cudaStreamCreate(cuda_stream *stream) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, make(stream, 0));
}

int cudaStreamCreateWithFlags(cuda_stream *stream, unsigned flags) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, make(stream, flags));
}

/* CUDA clamps a priority to the supported range. vcuda serves all streams alike. */
static int nearest_priority(int priority) {
  return priority < CUDA_GREATEST_PRIORITY ? CUDA_GREATEST_PRIORITY
         : priority > CUDA_LEAST_PRIORITY  ? CUDA_LEAST_PRIORITY
                                           : priority;
}

int cudaStreamCreateWithPriority(cuda_stream *stream, unsigned flags, int priority) {
  VCUDA_ENTER_DEVICE(NULL);
  int error = make(stream, flags);
  if (error == CUDA_OK) (*stream)->priority = nearest_priority(priority);
  return vcuda_end(&call, error);
}

int cudaStreamGetPriority(cuda_stream stream, int *priority) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  vcuda_lock();
  const vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (priority == NULL) error = CUDA_INVALID_VALUE;
  if (found != NULL && priority != NULL) *priority = found->priority;
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaStreamSetAttribute(cuda_stream stream, int attribute, const cuda_stream_attribute *value) {
  VCUDA_ENTER_DEVICE(stream);
  if (value == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  if (attribute != CUDA_STREAM_PRIORITY) {
    vcuda_log("%s: attribute %d is not known here: 8, the priority, is", __func__, attribute);
    return vcuda_end(&call, CUDA_NOT_SUPPORTED);
  }
  int error;
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  bool fails = found != NULL && vcuda_trigger_names(&found->device->settings, VCUDA_SITE_STREAM, call.name);
  if (found != NULL && !fails) found->priority = nearest_priority(value->priority);
  vcuda_unlock();
  return vcuda_end(&call, fails ? CUDA_UNKNOWN : error);
}

/* Queued work still runs. The handle is invalid at once. */
int cudaStreamDestroy(cuda_stream stream) {
  VCUDA_ENTER(stream);
  int error;
  vcuda_lock();
  vcuda_stream *found = (uintptr_t)stream <= 2 ? NULL : vcuda_stream_find(stream, &error);
  if (found != NULL) {
    error = found->capture != NULL ? CUDA_CAPTURE_UNSUPPORTED : CUDA_OK;
    if (found->capture != NULL) vcuda_capture_break(found->capture);
    found->capture = NULL;
    found->closed = true;
    vcuda_count(found->device, VCUDA_COUNT_live_streams, -1);
    error = vcuda_sticky(found->device, error);
    pthread_cond_signal(&found->wake);
    vcuda_stream_drop(found);
  } else {
    error = CUDA_INVALID_HANDLE;
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaStreamSynchronize(cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) error = vcuda_capture_refuses_stream(found);
  if (found != NULL && vcuda_trigger_names(&found->device->settings, VCUDA_SITE_STREAM, call.name)) error = CUDA_UNKNOWN;
  if (found != NULL && error == CUDA_OK) {
    vcuda_count_sync(found->device, VCUDA_COUNT_sync_stream);
    error = vcuda_queue_wait(found);
    if (error == CUDA_OK) error = vcuda_take_missed(found->device);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaStreamQuery(cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) error = vcuda_capture_refuses_stream(found);
  if (found != NULL && error == CUDA_OK) error = found->completed < found->submitted ? CUDA_NOT_READY : found->device->error;
  if (found != NULL && error == CUDA_OK) vcuda_clocks_join(vcuda_global.host_clocks, found->clocks); /* the host knows now */
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaStreamGetFlags(cuda_stream stream, unsigned *flags) {
  VCUDA_ENTER(stream);
  int error;
  vcuda_lock();
  const vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) *flags = found->flags;
  if (found != NULL) error = found->device->error;
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaStreamGetDevice(cuda_stream stream, int *device) {
  VCUDA_ENTER(stream);
  int error;
  vcuda_lock();
  const vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) *device = found->device->index;
  vcuda_unlock();
  return vcuda_end(&call, error);
}

/* ---- host functions ---- */

typedef struct host_work {
  cuda_host_function function;
  void *data;
} host_work;

static void run_host_function(void *arguments) {
  const host_work *work = arguments;
  work->function(work->data);
}

int cudaLaunchHostFunc(cuda_stream stream, cuda_host_function function, void *data) {
  VCUDA_ENTER_DEVICE(stream);
  const host_work work = {function, data};
  const vcuda_order order = {
      .kind = CUDA_NODE_HOST, .name = "a host function", .run = run_host_function, .arguments = &work, .bytes = sizeof work};
  int error;
  if (function == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL) error = vcuda_queue_order(found, &order);
  vcuda_unlock();
  return vcuda_end(&call, error);
}
