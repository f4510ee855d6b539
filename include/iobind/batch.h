/** @file batch.h
 *  Live batches: many independent streams of one recurrent model (callers, sentences, videos) as rows of one run. Each row has its own
 *  state. Rows join and leave at any time. */
#ifndef IOBIND_BATCH_H
#define IOBIND_BATCH_H

/* clang-format off: laid out by hand, as a page to read */

#include "states.h"

#ifdef __cplusplus
extern "C" {
#endif

/** For `slot` of iobind_batch_set_input: an input without a batch axis, which all rows share. */
#define IOBIND_BATCH_ALL UINT64_MAX

/** For an axis of iobind_batch_options: the input or output has no batch axis. */
#define IOBIND_BATCH_NO_AXIS (-1)

enum {
  IOBIND_BATCH_ON_DEVICE = 1u << 0 /**< outputs stay where the session leaves them; without it they are copied to the host, all rows
                                        at once */
};

/** An output that becomes an input of the row's next step. */
typedef struct iobind_batch_pair {
  size_t output; /**< index of the session's output */
  size_t input;  /**< index of the session's input */
} iobind_batch_pair;

typedef struct iobind_batch_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< IOBIND_BATCH_* */
  size_t most_rows;               /**< rows that can be in the batch; 1 .. 65536 */
  const iobind_batch_pair *pairs; /**< the states; dims other than the batch's stay the same from step to step */
  size_t pair_count;
  const int32_t *input_axes;      /**< the batch axis of each input, or IOBIND_BATCH_NO_AXIS; NULL: the name of an open dim that every
                                       input of rank 1 or more and every output has exactly once */
  size_t input_axis_count;        /**< 0 with NULL, and otherwise the session's input_count */
  const int32_t *output_axes;     /**< likewise of the outputs; both are given, or none */
  size_t output_axis_count;
  iobind_state *first;            /**< what a row begins with: a state of the same pairs with 1 row. NULL: zeros */
  double tolerance;               /**< of the test below, as a part of the range of an output's values; 0: equal to the bit */
} iobind_batch_options;
#define IOBIND_BATCH_OPTIONS_INIT {sizeof(iobind_batch_options), 0, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0}

/** Create a batch.
 *  - A step runs exactly its rows. In a session with a graph_limit graphs are captured for powers of two: a step is one replay of the next
 *    one, or several replays of smaller ones, where those have taken less time in this batch. All steps are made by one thread.
 *  - The model must not mix rows. A number of rows is tested before its first step: the model runs with as many rows of different data,
 *    then with each row alone. Before the very first step 2, 3, 5 and 8 rows are tested. The test finds a model that mixes rows; it cannot
 *    prove that a model never does.
 *  - Only floats are random in the test. Inputs of other types have the data of the step's rows, and states of other types those of the
 *    first state. A shared input that is set later is not tested again.
 *  @return OK; INVALID_ARGUMENT; SHAPE no batch axis can be found (the message lists the candidates: give the axes), or a state does not
 *          fit; DTYPE a state's input and output differ; NOT_SUPPORTED a value is not a tensor, or has strings or a packed
 *          type, or a state grows; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_create(iobind_session *session, const iobind_batch_options *options,
                                                          iobind_batch **batch, iobind_error *error);

/** Destroy a batch after the step in flight. States and outputs of its rows remain valid. No other thread may be in a call of it.
 *  @threads serial   @blocks for the step in flight   @since 1.0 */
IOBIND_API void iobind_batch_destroy(iobind_batch *batch);

/** End all waiting for rows and for steps, before a batch is destroyed. No-op if it was stopped already, or is NULL.
 *  - iobind_batch_step returns CANCELLED, now and later. So does iobind_batch_await of a row whose step has not begun; a step that is being
 *    made ends as usual, and is awaited.
 *  - No row joins or is submitted any more: INVALID_STATE. Rows leave, their states are saved and their outputs taken as before, and
 *    iobind_batch_run makes steps.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_batch_stop(iobind_batch *batch);

typedef struct iobind_batch_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t row_count;    /**< rows that have joined and not left */
  size_t width;        /**< rows of the last step's runs, idle ones included */
  uint64_t steps;      /**< that have been made */
  uint64_t moved_rows; /**< rows whose states were moved: by joins, leaves, changes of the rows of a step, and saved states */
  size_t bytes;        /**< of the states' memory in this batch */
} iobind_batch_info;
#define IOBIND_BATCH_INFO_INIT {sizeof(iobind_batch_info), 0, 0, 0, 0, 0, 0}

/** Describe a batch.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_get_info(iobind_batch *batch, iobind_batch_info *info, iobind_error *error);

/** Let a row join. Nothing is moved before its first step.
 *  @param state  with 1 row, from iobind_batch_save_state or a binding of the session; NULL: the batch's first state. A cache of which it has
 *               the rows in use alone is copied, with zeros behind them up to the capacity that it had
 *  @param slot   receives the row's number, which no other row of any batch ever has
 *  @return OK; INVALID_STATE the batch has its most rows, or was stopped; INVALID_ARGUMENT a state of another session or of other
 *          pairs; SHAPE a state of other dims, or of more rows than 1; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_join(iobind_batch *batch, iobind_state *state, uint64_t *slot,
                                                        iobind_error *error);

/** Let a row leave, after the step in flight.
 *  @param state  receives the row's state, as iobind_batch_save_state does; NULL: it is dropped
 *  @return OK; NOT_FOUND no such slot, or it has left; as iobind_batch_save_state, and the row has then not left
 *  @threads any   @blocks for the step in flight   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_leave(iobind_batch *batch, uint64_t slot, iobind_state **state,
                                                         iobind_error *error);

/** Set an input of a row for its next step. The data are copied by this call. An input of a row holds for one step; a shared one, until
 *  it is set again. An input that is set during a step is for the next one; if the step fails, it replaces that of the step.
 *  @param slot   IOBIND_BATCH_ALL for an input without a batch axis, which must be set before the first step
 *  @param index  of the input; not a state's
 *  @param row    of the input's type and dims, with 1 on the batch axis; in host memory, or on the device where the session reads the
 *                input, if its memory has addresses (IOBIND_DEVICE_ADDRESSABLE): nothing then goes over the link
 *  @return OK; NOT_FOUND slot or index; DTYPE; SHAPE; WRONG_DEVICE the data are elsewhere; INVALID_ARGUMENT a state, or a
 *          shared input and a slot, or the reverse; OUT_OF_MEMORY; the failure of work that was to write `row`, and for a shared input
 *          that of the step in flight: it is then not set
 *  @threads any   @blocks for work in flight that writes `row`, and a shared input for the step in flight   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_set_input(iobind_batch *batch, uint64_t slot, size_t index,
                                                             iobind_tensor *row, iobind_error *error);

/** Make a step of some rows. All other rows keep their states to the bit. After a failure every row is as it was before, its inputs too.
 *  - Rows that stay the same from step to step are not moved. The states never go over the link.
 *  - A row that is not among them is put aside, or runs along and is put back: whichever has taken less time in this batch.
 *  @param slots   `count` different rows, whose inputs are set, with the same dims
 *  @param stream  NULL: complete on return. Otherwise a stream as for iobind_binding_run. The step is in flight until a call needs its end:
 *                 iobind_batch_run, step, submit, take_output, save_state, leave, or set_input of a shared input. That call also returns
 *                 its failure. So does iobind_batch_take_output of its rows, until their next step. What a stream orders:
 *                 - the uploads of the inputs, and the run: after the work submitted to `stream` before, and before its later work;
 *                 - all else is made by the calling threads, and is complete when a call returns: the test of the model, rows that move,
 *                   copies of inputs into the batch, and of outputs and states out of it. So each step may have another stream.
 *  @return OK; INVALID_ARGUMENT no row, or a row twice; NOT_FOUND a slot; INVALID_STATE an input is not set (the message names it), or a
 *          row is submitted, or was and is not awaited; SHAPE rows of different dims, or an output that does not have a row for each;
 *          NOT_SUPPORTED the model mixes rows (the message names the output); as iobind_binding_run; the failure of the step in flight
 *  @threads any; steps of one batch are made one after the other   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_run(iobind_batch *batch, const uint64_t *slots, size_t count,
                                                       iobind_stream *stream, iobind_error *error);

/** Take an output of a row's last step. No later step overwrites it. A view if the batch axis is the first and the memory has addresses;
 *  otherwise a copy. An output without a batch axis is the whole.
 *  @param index   of the output
 *  @param tensor  receives a reference; iobind_tensor_release
 *  @return OK; NOT_FOUND slot or index; INVALID_STATE the row has made no step; INVALID_ARGUMENT the output is a state:
 *          iobind_batch_save_state; the failure of the step in flight; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @blocks for the step in flight   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_take_output(iobind_batch *batch, uint64_t slot, size_t index,
                                                              iobind_tensor **tensor, iobind_error *error);

/** Save the state of a row, with 1 row: for another row, a binding of the session, or a file (states.h).
 *  @param state  receives a reference; iobind_state_release
 *  @return OK; NOT_FOUND slot; INVALID_STATE the batch has no states; the failure of the step in flight; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @blocks for the step in flight   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_save_state(iobind_batch *batch, uint64_t slot, iobind_state **state,
                                                              iobind_error *error);

/* ---- a server's loop: one thread makes steps and hands the results out; or the threads that submit rows await them -------- */

/** Submit a row for the next iobind_batch_step.
 *  @return OK; NOT_FOUND slot; INVALID_STATE an input is not set, the row is submitted already, or the batch was stopped; the failure of
 *          the step in flight
 *  @threads any   @blocks for a step of iobind_batch_run that the row is in   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_submit(iobind_batch *batch, uint64_t slot, iobind_error *error);

/** When iobind_batch_step makes a step: also as soon as every row that has joined is submitted. Each field that is 0 has its default. */
typedef struct iobind_batch_wait {
  uint32_t struct_size;
  uint32_t reserved;   /**< 0 */
  size_t rows;         /**< as soon as so many rows are submitted; 0: 16 */
  uint64_t longest_ns; /**< or as soon as one of them has waited so long; 0: 1 ms */
  uint64_t timeout_ns; /**< for the first row alone; 0: no limit; 1: only rows that are submitted now */
} iobind_batch_wait;
#define IOBIND_BATCH_WAIT_INIT {sizeof(iobind_batch_wait), 0, 0, 0, 0}

/** Make a step of the rows that are submitted. Those whose dims differ from the first one's remain for the next call.
 *  @param wait   NULL: the defaults
 *  @param slots  receives the rows' slots, also if the step fails; NULL: not wanted
 *  @param room   entries of `slots`: the batch's most_rows, or 0 with NULL
 *  @param count  receives the number of rows; may be NULL
 *  @return OK; TIMEOUT no row was submitted; CANCELLED the batch was stopped; as iobind_batch_run: each of these rows'
 *          iobind_batch_await returns the same, and they are no longer submitted
 *  @threads any   @blocks for the rows and the step   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_step(iobind_batch *batch, const iobind_batch_wait *wait, uint64_t *slots,
                                                        size_t room, size_t *count, iobind_error *error);

/** Wait for the step of a row that was submitted; its outputs are then those of that step.
 *  @return OK; TIMEOUT; CANCELLED the batch was stopped before the step; the failure of the step; NOT_FOUND slot,
 *          also if it leaves; INVALID_STATE it was not submitted since the last wait
 *  @threads any   @blocks for timeout_ns at most   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_await(iobind_batch *batch, uint64_t slot, uint64_t timeout_ns,
                                                         iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
