/* Calls of iobind with all that they take in one line, for tests. */
#ifndef TESTS_RIG_CALLS_H
#define TESTS_RIG_CALLS_H

#include "iobind/interop.h"
#include "iobind/iobind.h"

/* The modes of an output that is bound to a tensor, beside those that allocate one. */
enum { OUTPUT_FIXED = IOBIND_OUTPUT_NONE + 1, OUTPUT_IN_PLACE };

static inline iobind_status call_binding_set_output(iobind_binding *b, size_t index, int mode, iobind_device *d,
                                                    iobind_memory memory, iobind_tensor *t, iobind_error *error) {
  if (mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE) {
    return iobind_binding_set_output(b, index, t, mode == OUTPUT_IN_PLACE ? IOBIND_OUTPUT_IN_PLACE : 0, error);
  }
  return iobind_binding_place_output(b, index, (iobind_output_mode)mode, d, memory, error);
}

/* A run, and an event that is recorded after it, which may be NULL. Without a stream the event stays as it is. */
static inline iobind_status call_binding_run(iobind_binding *b, iobind_stream *stream, iobind_event *event,
                                             iobind_error *error) {
  iobind_status status = iobind_binding_run(b, stream, error);
  return status == IOBIND_OK && stream != NULL && event != NULL ? iobind_event_record(event, stream, error) : status;
}

static inline iobind_status call_tensor_wrap(iobind_device *d, iobind_memory memory, iobind_dtype dtype, const int64_t *dims,
                                             size_t rank, void *data, size_t size, iobind_deleter deleter, void *context,
                                             iobind_tensor **t, iobind_error *error) {
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.memory = (int32_t)memory;
  buffer.dtype = (int32_t)dtype;
  buffer.dims = dims;
  buffer.rank = rank;
  buffer.data = data;
  buffer.bytes = size;
  buffer.deleter = deleter;
  buffer.context = context;
  return iobind_tensor_wrap(d, &buffer, t, error);
}

/* What a session of NULL has is nothing. */
static inline iobind_session_info call_counts(const iobind_session *s) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  (void)!iobind_session_get_info(s, &info, NULL);
  return info;
}

/* A request whose arrays are as long as the session wants them. */
static inline iobind_status call_session_request(iobind_session *s, const iobind_run_request *request, iobind_tensor **outputs,
                                                 iobind_error *error) {
  iobind_session_info info = call_counts(s);
  if (request == NULL) {
    return iobind_session_run(s, NULL, outputs, info.output_count, error);
  }
  iobind_run_request made = *request;
  made.input_count = made.inputs == NULL ? 0 : info.input_count;
  made.target_count = made.targets == NULL ? 0 : info.output_count;
  made.placement_count = made.placements == NULL ? 0 : info.output_count;
  return iobind_session_run(s, &made, outputs, outputs == NULL ? 0 : info.output_count, error);
}

static inline iobind_status call_session_run(iobind_session *s, iobind_tensor *const *inputs, iobind_tensor **outputs,
                                             iobind_error *error) {
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  return call_session_request(s, &request, outputs, error);
}

/* A pipeline whose options' arrays are as long as the session wants them. */
static inline iobind_status call_pipeline_create(iobind_session *s, const iobind_pipeline_options *options, iobind_pipeline **p,
                                                 iobind_error *error) {
  iobind_session_info info = call_counts(s);
  if (options == NULL) {
    return iobind_pipeline_create(s, NULL, p, error);
  }
  iobind_pipeline_options made = *options;
  made.constant_count = made.constants == NULL ? 0 : info.input_count;
  made.placement_count = made.placements == NULL ? 0 : info.output_count;
  return iobind_pipeline_create(s, &made, p, error);
}

static inline iobind_status call_pipeline_submit(iobind_pipeline *p, iobind_tensor *const *inputs, size_t count,
                                                 iobind_error *error) {
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = count;
  return iobind_pipeline_submit(p, &request, error);
}

/* NULL: the stream is one of iobind's threads. */
static inline void *call_stream_get_native(const iobind_stream *stream) {
  iobind_native native = IOBIND_NATIVE_INIT;
  return iobind_stream_get_native(stream, &native, NULL) == IOBIND_OK ? native.handle : NULL;
}

#endif
