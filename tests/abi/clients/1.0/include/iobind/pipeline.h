/** @file pipeline.h
 *  Pipelines: runs of one session over many items; copies overlap compute. */
#ifndef IOBIND_PIPELINE_H
#define IOBIND_PIPELINE_H

/* clang-format off: laid out by hand, as a page to read */

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  IOBIND_PIPELINE_STOP = 1u << 0, /**< the first failed item ends the pipeline; without this flag later items continue */
  IOBIND_PIPELINE_TIMES = 1u << 1 /**< measure when each stage of an item ends, by a thread for each stream. On a device with a
                                       virtual clock the waits of these threads advance the clock */
};

/** The count of a NULL array is 0; any other count is the session's input_count or output_count. */
typedef struct iobind_pipeline_options {
  uint32_t struct_size;
  uint32_t flags;                        /**< IOBIND_PIPELINE_* */
  size_t slots;                          /**< items that can be in flight, each with its own memory; 0: 3; at most 1024 */
  iobind_tensor *const *constants;       /**< tensors that all items share, where the session reads them; NULL for an input that each
                                              item has */
  size_t constant_count;
  const int32_t *placements;             /**< iobind_placement of the outputs, at least one not NONE; NULL: all on the host */
  size_t placement_count;
  const iobind_run_options *run_options; /**< of all runs; NULL: the defaults */
} iobind_pipeline_options;
#define IOBIND_PIPELINE_OPTIONS_INIT {sizeof(iobind_pipeline_options), 0, 0, NULL, 0, NULL, 0, NULL}

/** Create a pipeline. It uploads one item, runs the previous one, and downloads the one before that, concurrently.
 *  - On a device with native streams the caller's thread submits everything. On other devices threads of iobind do the work.
 *  - Inputs that the session reads on the host are not uploaded. Outputs that it leaves on the host are not downloaded.
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED an unknown flag, or an input that is not a tensor or holds strings, and is not among
 *          the constants; for the constants, as iobind_binding_set_input; for the run options, as iobind_binding_set_run_options;
 *          OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_create(iobind_session *session, const iobind_pipeline_options *options,
                                                             iobind_pipeline **pipeline, iobind_error *error);

/** Destroy a pipeline after the items in flight are complete.
 *  @threads serial   @blocks yes   @since 1.0 */
IOBIND_API void iobind_pipeline_destroy(iobind_pipeline *pipeline);

/** An item. The count of a NULL array is 0; any other count is the session's input_count. */
typedef struct iobind_pipeline_request {
  uint32_t struct_size;
  uint32_t reserved;            /**< 0 */
  iobind_tensor *const *inputs; /**< on the host, or where the session reads the input; NULL for a constant */
  size_t input_count;
  iobind_event *const *events;  /**< recorded by the tensors' producers; NULL, or a NULL entry: the tensor is ready */
  size_t event_count;
  void *tag;                    /**< returned in iobind_pipeline_item */
} iobind_pipeline_request;
#define IOBIND_PIPELINE_REQUEST_INIT {sizeof(iobind_pipeline_request), 0, NULL, 0, NULL, 0, NULL}

/** Submit an item. The first item of a slot allocates the slot's device and pinned memory. An item with other dims allocates it
 *  again.
 *  - A tensor on the host is copied before the call returns. The call blocks for its event, and for work in flight that writes the
 *    tensor. Afterwards the tensor may change.
 *  - Any other tensor is read in place. It is kept alive, and must not be written, until the item is pulled. The run waits for its
 *    event, on the device if both streams are of one EP.
 *  @return OK, also if the item fails later (iobind_pipeline_next reports it); INVALID_STATE every slot holds an item that was not
 *          pulled, or an item failed and IOBIND_PIPELINE_STOP is set; DTYPE, SHAPE an input does not match; WRONG_DEVICE an input is
 *          neither on the host nor where the session reads it; INVALID_ARGUMENT; OUT_OF_MEMORY, RUNTIME memory for the item; the
 *          failure of work that should have written an input on the host. After an error the item is not submitted
 *  @threads serial   @blocks for inputs on the host   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_submit(iobind_pipeline *pipeline, const iobind_pipeline_request *request,
                                                             iobind_error *error);

/** An item that was pulled. Times are those of a monotonic clock. A stage's time is 0 without IOBIND_PIPELINE_TIMES, or if the item
 *  has no such stage. A stage begins when the previous stage has ended and its stream is free. */
typedef struct iobind_pipeline_item {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t index;       /**< 0, 1, 2 ... in the order of submission */
  uint64_t submit_ns;   /**< when it was submitted */
  uint64_t upload_ns;   /**< when its upload ended */
  uint64_t run_ns;      /**< when its run ended */
  uint64_t download_ns; /**< when its download ended; if nothing is downloaded, when its outputs were available */
  void *tag;            /**< of its iobind_pipeline_request */
} iobind_pipeline_item;
#define IOBIND_PIPELINE_ITEM_INIT {sizeof(iobind_pipeline_item), 0, 0, 0, 0, 0, 0, NULL}

/** Wait for the oldest item that was not pulled, and pull it.
 *  @param timeout_ns  as for iobind_event_wait
 *  @param outputs     receives `output_count` tensors, on the host or, for IOBIND_PLACE_DEVICE, where the session leaves the output;
 *                     NULL for outputs that are not fetched or not tensors. They are borrowed, and valid until the next item is
 *                     submitted. No later item overwrites a retained output
 *  @param item        receives the item's index, times and tag, also if it failed; may be NULL
 *  @return OK; TIMEOUT the oldest item is in flight, and remains the next one; the failure of the item (the message has its index);
 *          CANCELLED IOBIND_PIPELINE_STOP is set and an earlier item failed; NOT_FOUND no item is in flight; INVALID_ARGUMENT, also a
 *          wrong count; OUT_OF_MEMORY. After a failed item the pipeline continues, unless IOBIND_PIPELINE_STOP is set. If a native
 *          stream fails late, other items in flight may also be reported as failed
 *  @threads serial   @blocks for timeout_ns at most   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_next(iobind_pipeline *pipeline, uint64_t timeout_ns, iobind_tensor **outputs,
                                                           size_t output_count, iobind_pipeline_item *item, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
