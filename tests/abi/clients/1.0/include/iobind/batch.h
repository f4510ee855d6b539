/** @file batch.h
 *  Live batches: many independent sequences (callers, sentences, videos) as rows of one run of a recurrent model. Each row has
 *  its own state. Rows join and leave at any time. */
#ifndef IOBIND_BATCH_H
#define IOBIND_BATCH_H

/* clang-format off: laid out by hand, as a page to read */

#include "states.h"

#ifdef __cplusplus
extern "C" {
#endif

/** For `slot` of iobind_batch_set_input: all rows share the input, which has no batch axis. */
#define IOBIND_BATCH_ALL UINT64_MAX

/** For an axis of iobind_batch_options: the input or output has no batch axis. */
#define IOBIND_BATCH_NO_AXIS (-1)

enum {
  IOBIND_BATCH_ON_DEVICE = 1u << 0 /**< outputs stay where the session leaves them; without this flag they are copied to the host, all
                                        rows at once */
};

/** A state of a row: an output that becomes an input of the row's next step. */
typedef struct iobind_batch_pair {
  size_t output; /**< index of the session's output */
  size_t input;  /**< index of the session's input */
} iobind_batch_pair;

typedef struct iobind_batch_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< IOBIND_BATCH_* */
  size_t most_rows;               /**< maximum number of rows in the batch; 1 .. 65536 */
  const iobind_batch_pair *pairs; /**< the states; except for the batch axis, their dims stay the same from step to step */
  size_t pair_count;
  const int32_t *input_axes;      /**< the batch axis of each input, or IOBIND_BATCH_NO_AXIS; NULL: the open dim whose name every
                                       input of rank 1 or more and every output has exactly once */
  size_t input_axis_count;        /**< 0 with NULL; otherwise the session's input_count */
  const int32_t *output_axes;     /**< likewise of the outputs; set both lists, or neither. An output that has a row for each row of a
                                       step, but no axis, is refused in the first step */
  size_t output_axis_count;
  iobind_state *first;            /**< the first state of each row: a state of the same pairs with 1 row. NULL: zeros; then the model
                                       must fix all dims of the states except the batch axis */
  double tolerance;               /**< of the test for mixed rows, as a fraction of the range of an output's values; 0: equal to the
                                       bit */
} iobind_batch_options;
#define IOBIND_BATCH_OPTIONS_INIT {sizeof(iobind_batch_options), 0, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0}

/** Create a batch.
 *  - A step runs exactly its rows. A session with a graph_limit captures graphs for powers of two of rows: a step is one replay of
 *    the next power, or several replays of smaller ones if these have taken less time in this batch. In such a session one thread
 *    must make all steps.
 *  - The model must not mix rows. Before the first step with a number of rows, this number is tested: the model runs with so many
 *    rows of different data, then with each row alone. Before the very first step 2, 3, 5 and 8 rows are tested, as far as most_rows
 *    permits. The test can show that a model mixes rows. It cannot prove that a model never does.
 *  - In the test only floats are random. Inputs of other types have the data of the step's rows; states of other types have the data
 *    of the first state. So do floats that make the model's run fail if they are random. Two NaN are equal. Setting a shared input
 *    later does not repeat the test.
 *  @return OK; INVALID_ARGUMENT; SHAPE the batch axis is not found (the message lists the candidates; set the axes), or a state does
 *          not fit; DTYPE a state's input and output differ; NOT_SUPPORTED a value is not a tensor, or holds strings or a packed
 *          type, or a state grows; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_create(iobind_session *session, const iobind_batch_options *options,
                                                          iobind_batch **batch, iobind_error *error);

/** Destroy a batch after the step in flight. States and outputs of its rows remain valid. No other thread may be in a call on the
 *  batch.
 *  @threads serial   @blocks for the step in flight   @since 1.0 */
IOBIND_API void iobind_batch_destroy(iobind_batch *batch);

/** End all waits for rows and for steps, before a batch is destroyed. The call is a no-op for NULL and for a batch that was stopped.
 *  - iobind_batch_step returns CANCELLED, now and later. So does iobind_batch_await for a row whose step has not begun. A step that
 *    has begun ends as usual, and can be awaited.
 *  - iobind_batch_join and iobind_batch_submit return INVALID_STATE from now on.
 *  - All other calls work as before: rows leave, states are saved, outputs are taken, and iobind_batch_run makes steps.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_batch_stop(iobind_batch *batch);

typedef struct iobind_batch_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t row_count;    /**< rows that have joined and not left */
  size_t width;        /**< rows of the last step's runs, including idle rows */
  uint64_t steps;      /**< number of steps made */
  uint64_t moved_rows; /**< rows whose states were moved: by joins, leaves, saved states, changes of a step's rows, and copies into
                            unused rows of a replay */
  size_t bytes;        /**< memory of the states in this batch */
} iobind_batch_info;
#define IOBIND_BATCH_INFO_INIT {sizeof(iobind_batch_info), 0, 0, 0, 0, 0, 0}

/** Describe a batch.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_get_info(iobind_batch *batch, iobind_batch_info *info, iobind_error *error);

/** Let a row join. Nothing is moved before its first step.
 *  @param state  with 1 row, from iobind_batch_save_state or a binding of the session; NULL: the batch's first state. If a saved
 *                cache has only its rows in use, or has another capacity and its length is known, the rows in use are copied, and zeros
 *                follow up to the batch's capacity
 *  @param slot   receives the row's number, which is unique in the process
 *  @return OK; INVALID_STATE the batch has most_rows rows, or was stopped; INVALID_ARGUMENT a state of another session or of other
 *          pairs; SHAPE a state of other dims, of more than 1 row, or with more rows in use than the batch's capacity; the failure
 *          of the run that should have made `state`; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @blocks if a cache with only its rows in use is copied   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_join(iobind_batch *batch, iobind_state *state, uint64_t *slot,
                                                        iobind_error *error);

/** Let a row leave, after the step in flight.
 *  @param state  receives the row's state, as iobind_batch_save_state does; NULL: it is dropped
 *  @return OK; NOT_FOUND no such slot, or the row has left; as iobind_batch_save_state. After an error the row has not left
 *  @threads any   @blocks for the step in flight   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_leave(iobind_batch *batch, uint64_t slot, iobind_state **state,
                                                         iobind_error *error);

/** Set an input of a row for its next step. The call copies the data.
 *  - An input of a row is used by one step. A shared input is used until it is set again.
 *  - An input that is set during a step is for the next step. If the step in flight fails, the new input replaces that of the step.
 *  @param slot   IOBIND_BATCH_ALL for an input without a batch axis, which must be set before the first step
 *  @param index  of the input, which must not be a state's
 *  @param row    of the input's type and dims, with 1 on the batch axis. It is in host memory, or on the device where the session
 *                reads the input if its memory has addresses (IOBIND_DEVICE_ADDRESSABLE); in that case no data cross the link
 *  @return OK; NOT_FOUND slot or index; DTYPE; SHAPE; WRONG_DEVICE the data are elsewhere; INVALID_ARGUMENT the input is a state, a
 *          shared input with a slot, or another input with IOBIND_BATCH_ALL, or it has a length for which the row's caches have no
 *          room (in host memory, and if the session's graph is known and shows the length; see states.h); OUT_OF_MEMORY; the failure of
 *          work that should have written `row`; for a shared input also the failure of the step in flight. After an error the
 *          input is unchanged
 *  @threads any   @blocks for work in flight that writes `row`; for a shared input also for the step in flight   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_set_input(iobind_batch *batch, uint64_t slot, size_t index,
                                                             iobind_tensor *row, iobind_error *error);

/** Make a step of some rows. All other rows keep their states to the bit. After a failure every row is as before, including its
 *  inputs.
 *  - Rows that take part in consecutive steps are not moved. States never cross the link.
 *  - The state of a row that is not in the step is moved out of the way, or the row runs along and its state is put back: the batch
 *    chooses what has taken less time.
 *  @param slots   `count` different rows, whose inputs are set and have the same dims
 *  @param stream  NULL: complete on return. Otherwise a stream as for iobind_binding_run. The step is in flight until a call waits
 *                 for it: iobind_batch_run, step, submit, take_output, save_state, leave, or set_input of a shared input. That call
 *                 also returns the step's failure. So does iobind_batch_take_output for its rows, until their next step. With a
 *                 stream:
 *                 - The uploads of the inputs and the run are ordered on it: they wait for work submitted before, and later work
 *                   waits for them.
 *                 - The calling threads do all other work before a call returns: the test of the model, moves of rows, and copies of
 *                   inputs, outputs and states into and out of the batch. Therefore each step may have another stream.
 *  @return OK; INVALID_ARGUMENT no row, or a row twice; NOT_FOUND a slot; INVALID_STATE an input is not set (the message names it),
 *          or a row was submitted and its step was not awaited; SHAPE rows of different dims, or an output without one row for each;
 *          NOT_SUPPORTED the model mixes rows (the message names the output); as iobind_binding_run; the failure of the step in
 *          flight
 *  @threads any; steps of one batch are serialized   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_run(iobind_batch *batch, const uint64_t *slots, size_t count,
                                                       iobind_stream *stream, iobind_error *error);

/** Take an output of a row's last step. No later step overwrites it. It is a view if the batch axis is the first one and the memory
 *  has addresses, and otherwise a copy. An output without a batch axis is returned whole.
 *  @param index   of the output
 *  @param tensor  receives a reference; iobind_tensor_release
 *  @return OK; NOT_FOUND slot or index; INVALID_STATE the row has made no step; INVALID_ARGUMENT the output is a state, see
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

/* ---- a server's loop: one thread makes steps and distributes the results, or the threads that submit rows await them -------- */

/** Submit a row for the next iobind_batch_step.
 *  @return OK; NOT_FOUND slot; INVALID_STATE an input is not set, the row is already submitted, or the batch was stopped; the failure
 *          of the step in flight
 *  @threads any   @blocks for a step of iobind_batch_run that has this row   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_submit(iobind_batch *batch, uint64_t slot, iobind_error *error);

/** The conditions on which iobind_batch_step makes a step. It also makes one as soon as every row that has joined is submitted. Zero
 *  selects a field's default. */
typedef struct iobind_batch_wait {
  uint32_t struct_size;
  uint32_t reserved;   /**< 0 */
  size_t rows;         /**< make a step when so many rows are submitted; 0: 16 */
  uint64_t longest_ns; /**< make a step when one of them has waited so long; 0: 1 ms */
  uint64_t timeout_ns; /**< time limit for the first row; 0: no limit; 1: TIMEOUT at once if no row is submitted */
} iobind_batch_wait;
#define IOBIND_BATCH_WAIT_INIT {sizeof(iobind_batch_wait), 0, 0, 0, 0}

/** Make a step of the submitted rows. Rows whose dims differ from those of the first row remain for the next call.
 *  @param wait   NULL: the defaults
 *  @param slots  receives the rows' slots, also if the step fails; may be NULL
 *  @param room   entries of `slots`: the batch's most_rows, or 0 with NULL
 *  @param count  receives the number of rows; may be NULL
 *  @return OK; TIMEOUT no row was submitted; CANCELLED the batch was stopped; as iobind_batch_run. iobind_batch_await returns the
 *          same status for each of these rows, and they are no longer submitted
 *  @threads any   @blocks for the rows and the step   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_step(iobind_batch *batch, const iobind_batch_wait *wait, uint64_t *slots,
                                                        size_t room, size_t *count, iobind_error *error);

/** Wait for the step of a submitted row. Afterwards the row's outputs are those of this step.
 *  @return OK; TIMEOUT; CANCELLED the batch was stopped before the step; the failure of the step; NOT_FOUND slot, also if the row
 *          leaves; INVALID_STATE the row was not submitted since the last wait
 *  @threads any   @blocks for timeout_ns at most   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_batch_await(iobind_batch *batch, uint64_t slot, uint64_t timeout_ns,
                                                         iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
