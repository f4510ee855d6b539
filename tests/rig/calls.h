/* Calls of iobind with all that they take in one line, for tests. */
#ifndef TESTS_RIG_CALLS_H
#define TESTS_RIG_CALLS_H

#include "iobind/interop.h"
#include "iobind/iobind.h"

/* The modes of an output that is bound to a tensor, beside those that allocate one. */
enum { OUTPUT_FIXED = 100, OUTPUT_IN_PLACE = 101 };

static inline iobind_status call_set_output(iobind_binding *binding, size_t index, int mode, iobind_device *device,
                                            iobind_memory memory, iobind_tensor *tensor, iobind_error *error) {
  if (mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE) {
    return iobind_binding_set_output(binding, index, tensor, mode == OUTPUT_IN_PLACE ? IOBIND_OUTPUT_IN_PLACE : 0, error);
  }
  return iobind_binding_place_output(binding, index, (iobind_output_mode)mode, device, memory, error);
}

/* A run, and an event behind it, which may be NULL. Without a stream the event stays as it is. */
static inline iobind_status call_run(iobind_binding *binding, iobind_stream *stream, iobind_event *event, iobind_error *error) {
  iobind_status status = iobind_binding_run(binding, stream, error);
  return status == IOBIND_OK && stream != NULL && event != NULL ? iobind_event_record(event, stream, error) : status;
}

static inline iobind_status call_wrap(iobind_device *device, iobind_memory memory, iobind_dtype dtype, const int64_t *dims,
                                      size_t rank, void *data, size_t bytes, iobind_deleter deleter, void *context,
                                      iobind_tensor **tensor, iobind_error *error) {
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.memory = (int32_t)memory;
  buffer.dtype = (int32_t)dtype;
  buffer.dims = dims;
  buffer.rank = rank;
  buffer.data = data;
  buffer.bytes = bytes;
  buffer.deleter = deleter;
  buffer.context = context;
  return iobind_tensor_wrap(device, &buffer, tensor, error);
}

/* What a session of NULL has is nothing. */
static inline iobind_session_info call_counts(const iobind_session *session) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  (void)!iobind_session_get_info(session, &info, NULL);
  return info;
}

/* A request whose arrays are as long as the session wants them. */
static inline iobind_status call_session_request(iobind_session *session, const iobind_run_request *request,
                                                 iobind_tensor **outputs, iobind_error *error) {
  iobind_session_info info = call_counts(session);
  if (request == NULL) {
    return iobind_session_run(session, NULL, outputs, info.output_count, error);
  }
  iobind_run_request made = *request;
  made.input_count = made.inputs == NULL ? 0 : info.input_count;
  made.target_count = made.targets == NULL ? 0 : info.output_count;
  made.placement_count = made.placements == NULL ? 0 : info.output_count;
  return iobind_session_run(session, &made, outputs, outputs == NULL ? 0 : info.output_count, error);
}

static inline iobind_status call_session_run(iobind_session *session, iobind_tensor *const *inputs, iobind_tensor **outputs,
                                             iobind_error *error) {
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  return call_session_request(session, &request, outputs, error);
}

static inline iobind_status call_submit(iobind_pipeline *pipeline, iobind_tensor *const *inputs, size_t count,
                                        iobind_error *error) {
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = count;
  return iobind_pipeline_submit(pipeline, &request, error);
}

/* NULL: the stream is one of iobind's threads. */
static inline void *call_stream_native(const iobind_stream *stream) {
  iobind_native native = IOBIND_NATIVE_INIT;
  return iobind_stream_get_native(stream, &native, NULL) == IOBIND_OK ? native.handle : NULL;
}

#endif
