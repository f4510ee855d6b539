/* Where a session computes. An EP that refuses a stream with each run gets one when the session is created, by an option of the EP. Other
 * EPs get it with each run. */
#include "session/session.h"

void iobind__compute_open(iobind__compute *self, iobind_stream *stream) {
  bool by_option = stream != NULL && iobind__device_has(stream->device, IOBIND__QUIRK_REFUSES_RUN_STREAM);
  *self = (iobind__compute){by_option ? IOBIND__COMPUTE_BY_OPTION : IOBIND__COMPUTE_IN_CALL, stream};
}

static bool gives_run_streams(const iobind_device *device) {
  return (device->flags & IOBIND_DEVICE_STREAMS) != 0 && !iobind__device_has(device, IOBIND__QUIRK_REFUSES_RUN_STREAM);
}

/* ORT takes one stream for a run: that of the only device that has streams. It crashes if no node runs on that device. From outside, only an
 * input that is read there proves that one does: an output there may be a constant. A replay is launched on the stream of its capture, so that
 * no run can give a stream to it. */
void iobind__compute_choose(iobind_session *session) {
  size_t devices = 0;
  bool reads = false;
  for (size_t i = 0; i < session->device_count; i++) {
    devices += (session->devices[i]->flags & IOBIND_DEVICE_STREAMS) != 0;
  }
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind__place *place = session->inputs[i].place;
    reads = reads || (!place->host && gives_run_streams(place->device));
  }
  bool may_be_given = devices == 1 && session->graphs.limit == 0 && session->compute.way == IOBIND__COMPUTE_IN_CALL;
  if (may_be_given && session->attachment != NULL) {
    session->compute.way = IOBIND__COMPUTE_ON_QUEUE;
  } else if (may_be_given && reads) {
    session->compute.way = IOBIND__COMPUTE_BY_RUN;
  }
}

iobind_status iobind__compute_await(const iobind__compute *self, iobind_error *error) {
  return self->way == IOBIND__COMPUTE_BY_OPTION ? iobind__stream_enter(self->stream, error)
                                                : iobind__stream_drain(self->stream, error);
}

iobind_status iobind__compute_begin(const iobind__compute *self, iobind_stream *stream, OrtRunOptions *options,
                                    iobind_error *error) {
  iobind_stream *compute = iobind__compute_target(self, stream);
  IOBIND__TRY(compute == stream ? IOBIND_OK : iobind__stream_fork(stream, compute, error));
  if (self->way == IOBIND__COMPUTE_BY_RUN) {
    IOBIND__API(compute->device->runtime)->RunOptionsSetSyncStream(options, iobind__stream_ort(compute));
  }
  return iobind__stream_enter(compute, error);
}

iobind_status iobind__compute_end(const iobind__compute *self, iobind_stream *stream, const iobind__submission *computed,
                                  iobind_status status, iobind_error *error) {
  iobind_stream *compute = iobind__compute_target(self, stream);
  iobind_status left = iobind__stream_leave(compute, status == IOBIND_OK ? error : NULL);
  status = status == IOBIND_OK ? left : status;
  if (compute == stream) {
    return status;
  }
  (void)iobind__submission_ticket(computed); /* that of the run on the stream on which it computes */
  iobind_status joined = iobind__stream_join(stream, compute, status == IOBIND_OK ? error : NULL);
  if (joined != IOBIND_OK) {
    iobind__stream_pass(compute); /* the stream has no record of the work */
  }
  return status == IOBIND_OK ? joined : status;
}
