/** @file stream.h
 *  Streams and events: they order work without blocking the host. */
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
  const char *const *option_keys; /**< options of the EP's stream. CUDA has one, "priority": a lower number is a higher priority */
  const char *const *option_values;
  size_t option_count;
} iobind_stream_options;
#define IOBIND_STREAM_OPTIONS_INIT {sizeof(iobind_stream_options), 0, NULL, NULL, 0}

/** Create a stream: an ordered queue of copies and runs.
 *
 *  On a device with IOBIND_DEVICE_STREAMS it is a native stream of the EP:
 *  - Calls that submit work return at once.
 *  - If the device has pinned memory, copies of up to 256 MiB between device and pageable memory go through four staging buffers
 *    there. They block if all four are in use. An upload below 64 KiB may need none.
 *  - Whether other copies block depends on the EP.
 *
 *  On any other device it is a queue with a thread of iobind:
 *  - If the queue is empty, the calling thread makes a copy at once. The stream's thread makes runs, and all work ordered after them.
 *  - After a failure later work is skipped and fails with the same error, until iobind_stream_synchronize has returned that error.
 *  @return OK; NOT_SUPPORTED the EP's streams do not have such an option, or the driver did not set the priority; INVALID_ARGUMENT,
 *          also a priority outside the device's range; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *options,
                                                           iobind_stream **stream, iobind_error *error);

/** Destroy a stream after its work is complete. Its events then count as signaled.
 *  @threads serial   @blocks yes   @since 1.0 */
IOBIND_API void iobind_stream_destroy(iobind_stream *stream);

/** Block until all previously submitted work of the stream is complete.
 *  @return OK; the failure of a run or copy on the stream since the last call; RUNTIME the device failed; INVALID_ARGUMENT
 *  @threads serial   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error);

/** Make later work on the stream wait for an event of any stream. If both streams are native streams of one EP, the device waits. If
 *  the waiting stream is a thread of iobind, that thread waits. Waiting for an unrecorded event is a no-op.
 *  @return OK; INVALID_ARGUMENT; RUNTIME; the failure of work before the event, if it is already complete
 *  @threads serial for the stream
 *  @blocks if a native stream waits for an event of another EP's stream, or for data that are read into pageable memory
 *  @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error);

/** Create an event. An unrecorded event counts as signaled.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_create(iobind_device *device, iobind_event **event, iobind_error *error);

/** Destroy an event. It may be in use: pending waits for it, and the work before it, continue.
 *  @threads serial   @since 1.0 */
IOBIND_API void iobind_event_destroy(iobind_event *event);

/** Record an event after all previously submitted work of a stream of the same device. Re-recording replaces the previous record.
 *  @return OK; WRONG_DEVICE the stream is of another device; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for the event and the stream; other threads may wait for the event   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error);

/** Block until the event is signaled, or until the timeout. ORT has no wait with a timeout: on a native stream and on WebGPU a thread
 *  of iobind waits for the caller. After a timeout this thread continues to wait.
 *  @param timeout_ns  IOBIND_NO_TIMEOUT: wait without limit; 0: do not wait
 *  @return OK; TIMEOUT the event is not signaled; the work continues; the failure of a run or copy before the event, on each call
 *          until it is re-recorded; RUNTIME the device failed; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @blocks for timeout_ns at most   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_wait(iobind_event *event, uint64_t timeout_ns, iobind_error *error);

/** Poll the event without blocking. ORT cannot poll: on a native stream, and on WebGPU, which queues work by itself, the first poll
 *  starts a thread of iobind that waits. If that thread cannot wait, the next call blocks.
 *  @param done  receives 1 if the event is signaled, otherwise 0
 *  @return OK; if the event is signaled, as iobind_event_wait; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
