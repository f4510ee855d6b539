/** @file stream.h
 *  Streams and events: order of work, without blocking the host. */
#ifndef IOBIND_STREAM_H
#define IOBIND_STREAM_H

/* clang-format off: laid out by hand, as a page to read */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iobind_stream_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< none yet */
  const char *const *option_keys; /**< options of the EP's stream. CUDA's has one: "priority", a lower number is a higher one */
  const char *const *option_values;
  size_t option_count;
} iobind_stream_options;
#define IOBIND_STREAM_OPTIONS_INIT {sizeof(iobind_stream_options), 0, NULL, NULL, 0}

/** Create a stream: an ordered queue of copies and runs.
 *
 *  On a device with IOBIND_DEVICE_STREAMS it is a native stream of the EP:
 *  - Calls that submit work return at once.
 *  - Copies between device and pageable memory go through four staging buffers of pinned memory (up to 256 MiB; from pageable
 *    memory 64 KiB or more). They block if all four are in use. Whether other copies block depends on the EP.
 *
 *  On any other device it is a queue with a thread of iobind:
 *  - A copy is done at once if the queue is empty. Runs, and what is ordered after them, are done by the thread.
 *  - After a failure, later work is skipped and fails with the same error, until iobind_stream_synchronize has returned it.
 *  @return OK; NOT_SUPPORTED options that the EP's streams do not have, or a priority that the driver does not give;
 *          INVALID_ARGUMENT also a priority outside of the device's range; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *options,
                                                           iobind_stream **stream, iobind_error *error);

/** Destroy a stream after its work is complete. Its events then count as signaled.
 *  @threads serial   @blocks yes   @since 1.0 */
IOBIND_API void iobind_stream_destroy(iobind_stream *stream);

/** Block until all previously submitted work of the stream is complete.
 *  @return OK; a failure of a run or copy on the stream since the last call; RUNTIME the device failed; INVALID_ARGUMENT
 *  @threads serial   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error);

/** Make later work of the stream wait for an event of any stream, without blocking the host. If both streams are native streams of
 *  one EP, the device waits; if the stream is a thread of iobind, the thread waits. Waiting on an unrecorded event is a no-op.
 *  @return OK; INVALID_ARGUMENT; RUNTIME; the failure of work before the event, if it is already complete
 *  @threads serial for the stream   @blocks if a native stream waits for a stream of another EP   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error);

/** Create an event. It is unrecorded, and so counts as signaled.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_create(iobind_device *device, iobind_event **event, iobind_error *error);

/** Destroy an event. It may be in use: pending waits on it, and the work before it, continue.
 *  @threads serial   @since 1.0 */
IOBIND_API void iobind_event_destroy(iobind_event *event);

/** Record an event after all previously submitted work of a stream of the same device. Re-recording replaces the previous record.
 *  @return OK; WRONG_DEVICE the stream is of another device; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for the event and the stream; other threads may wait for the event   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error);

/** Block until the event is signaled, or until the timeout. With a timeout, on a native stream and on WebGPU, a thread of iobind
 *  waits in the caller's place, because ORT has no wait with a timeout; it may outlast the call.
 *  @param timeout_ns  IOBIND_NO_TIMEOUT: wait without limit; 0: do not wait
 *  @return OK; TIMEOUT it is not signaled, and the work continues; the failure of a run or copy before it, on each call until the
 *          event is re-recorded; RUNTIME the device failed; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @blocks for timeout_ns at most   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_wait(iobind_event *event, uint64_t timeout_ns, iobind_error *error);

/** Poll the event without blocking. ORT cannot poll: on a native stream, and on a device that queues by itself (WebGPU), a thread of
 *  iobind waits, started by the first poll. If that thread cannot wait, the next call blocks.
 *  @param done  receives 1 if the event is signaled, otherwise 0
 *  @return OK; if it is signaled, as iobind_event_wait; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
