/** @file states.h
 *  States: what the carried inputs of a binding hold at a moment, as an object: to go back to, to branch from, and to keep in a file. */
#ifndef IOBIND_STATES_H
#define IOBIND_STATES_H

/* clang-format off: laid out by hand, as a page to read */

#include "binding.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Save the state of a binding: what its next run would read as its carried inputs. A saved state never changes.
 *  - A state that is carried by MOVE or SWAP is kept by reference, unless somebody else has a reference to its tensor. Then that tensor is
 *    read-only; the binding gets new memory when it needs it.
 *  - It is copied, where it is, if it is carried IN_PLACE, if the session captures graphs, and before the first run after it was bound.
 *  - Of a cache of fixed capacity whose length iobind counts (iobind_binding_write_lengths) only the rows in use are copied. Memory without
 *    addresses (IOBIND_DEVICE_ADDRESSABLE) is copied whole.
 *  - If runs are in flight on a native stream, the state is that of the last one. The call does not wait; copies are ordered on that
 *    stream. If the run fails, whoever uses the state receives the failure.
 *  @param state  receives a reference; iobind_state_release
 *  @return OK; INVALID_STATE nothing is carried, an input is not bound, a state is undefined after a failed run, or another thread runs
 *          the binding; the failure of the last run, if that was on a stream and is complete; OUT_OF_MEMORY; RUNTIME. After an error
 *          nothing has changed
 *  @threads serial for the binding   @blocks for copies if no run is in flight, and for runs in flight on a thread of iobind's
 *  @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_save_state(iobind_binding *binding, iobind_state **state,
                                                                iobind_error *error);

/** Go on from a saved state, in the binding that it was saved from or in another one of the same session: the next run reads it. It may be
 *  restored any number of times, into any number of bindings.
 *  - An input that is carried by MOVE or SWAP reads the state's memory; nothing is copied.
 *  - If it is carried IN_PLACE, or the session captures graphs, the state is copied into the memory that is bound, if the dims are the
 *    same: no graph is lost and nothing is allocated. Otherwise into new memory.
 *  - A cache whose length the state knows keeps the capacity of what is bound: the rows in use are copied there, or into new memory with zeros
 *    behind them. If nothing is bound, it has the capacity of the one that was saved.
 *  - The results of the last run cannot be fetched afterwards.
 *  @return OK; INVALID_ARGUMENT the state is of another session, or the binding carries other inputs; SHAPE, also a cache that has more rows
 *          in use than what is bound has room for; INVALID_STATE a run is in
 *          flight; the failure of the run that was to make the state; OUT_OF_MEMORY; RUNTIME. After an error nothing has changed, but
 *          if a copy into bound memory fails, the states of these inputs are undefined
 *  @threads serial for the binding   @blocks for copies   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_restore_state(iobind_binding *binding, iobind_state *state,
                                                                   iobind_error *error);

/** Replace the rows of all carried states: the new row i is the old row `rows[i]`, such as the beams that a search goes on with. A generated
 *  model moves them where they are; over the link go 8 bytes for each row.
 *  - The results of the last run cannot be fetched afterwards. Saved states keep their rows.
 *  - The first call for an axis loads the model.
 *  @param axis   of each carried state; they must have the same number of rows there
 *  @param rows   `count` old rows; one may be taken several times, or not at all. Another number of rows than before is possible, unless
 *                the session captures graphs
 *  @return OK; INVALID_ARGUMENT a row is out of range, or `count` is 0; SHAPE a state does not have the axis, or another number of rows;
 *          NOT_SUPPORTED another number of rows where graphs are captured; INVALID_STATE as for iobind_binding_save_state, or a run is in
 *          flight; OUT_OF_MEMORY; RUNTIME. After an error as after one of iobind_binding_restore_state
 *  @threads serial for the binding   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_reorder_state(iobind_binding *binding, size_t axis, const int64_t *rows,
                                                                   size_t count, iobind_error *error);

/** What a carried input is, as far as the model's graph shows it. Most graphs do not: UNKNOWN is common. */
typedef enum iobind_state_kind {
  IOBIND_STATE_UNKNOWN = 0,
  IOBIND_STATE_RECURRENT = 1, /**< GRU, LSTM, RNN: each run makes a new one */
  IOBIND_STATE_GROWING = 2,   /**< each run appends to it: Concat, or ONNX's Attention */
  IOBIND_STATE_WINDOW = 3,    /**< each run appends to it and drops its oldest part: Concat and Slice, a circular TensorScatter */
  IOBIND_STATE_CAPACITY = 4,  /**< a cache of fixed capacity, whose lengths are other inputs: GroupQueryAttention, TensorScatter */
  IOBIND_STATE_KIND_FORCE32 = 0x7FFFFFFF
} iobind_state_kind;

typedef struct iobind_state_kind_info {
  uint32_t struct_size;
  int32_t kind; /**< iobind_state_kind */
  size_t axis;  /**< GROWING, WINDOW, CAPACITY: of the length; SIZE_MAX: not known, or no such kind */
} iobind_state_kind_info;
#define IOBIND_STATE_KIND_INFO_INIT {sizeof(iobind_state_kind_info), 0, 0}

/** Get the kind of the state that an output leaves for an input. The first call for a session reads the graph from the model's file; weights
 *  are skipped. UNKNOWN: the graph shows nothing, the file is in ORT's own format, or the session was created by other code, or from memory
 *  without IOBIND_SESSION_IDENTIFY.
 *  @param output  index of the session's output
 *  @param input   index of the session's input
 *  @return OK; NOT_FOUND index out of range; IO the model's file cannot be read, or has changed since the session was created;
 *          INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_state_kind(iobind_session *session, size_t output, size_t input,
                                                                    iobind_state_kind_info *info, iobind_error *error);

/** Write the lengths of the carried caches of fixed capacity (IOBIND_STATE_CAPACITY) into the inputs that the model takes them from. They
 *  are those of a run that adds `added` rows to each cache. A run that succeeds advances the length; one that fails or is cancelled does not.
 *  - GroupQueryAttention: `seqlens_k` and `total_sequence_length`, which is the capacity in a session that captures graphs.
 *    TensorScatter: `write_indices`. ONNX's Attention behind it: `nonpad_kv_seqlen`.
 *  - The rows of a batch may have different lengths: pass one for each. They are counted from then on. iobind_binding_save_state,
 *    iobind_binding_restore_state, iobind_binding_reorder_state, iobind_binding_rewind_state and files keep them. A row that ended, or of which
 *    fewer tokens were right, is given its length again in the next call.
 *  - An input that is not bound is bound, and again if the batch gets other rows; one that the caller has bound is written as by
 *    iobind_binding_write_input. Masks and positions, which are the caller's, are bound or written as before.
 *  - The length becomes unknown when ORT makes a run without this call before it, also one that fails, and when a state is bound, written or
 *    carried again. A run that is refused before leaves it. A state that was saved has its length; iobind_binding_rewind_state sets it.
 *  - Other operators that read the cache may take a length, too: Attention, GroupQueryAttention. They are found through nodes that only lay
 *    the rows out in another way, such as Cast or Transpose. Where the graph does not show the length that they take, nothing is written.
 *  - If the graph shows which input has the new rows, a run of another number of them is refused (SHAPE).
 *  - If a run fails while it is in flight, the length is that before all runs in flight.
 *  @param added   new rows of each cache: the tokens of the next run, 1 or more
 *  @param lengths  rows in use before the run, such as 0 for an empty cache; NULL, with a `count` of 0: as iobind has counted
 *  @param count   of them: 1 for all rows of the batch, or one for each
 *  @param stream  NULL: complete on return. Otherwise as for iobind_binding_write_input
 *  @return OK; INVALID_ARGUMENT a length and `added` exceed the capacity, or are out of range, or `count` is another number than that of the
 *          rows; INVALID_STATE the length is not known, a state
 *          or an input with open dims is not bound, or a run is in flight elsewhere; NOT_SUPPORTED no such cache is carried, or the graph
 *          computes its lengths from an input (the message names it), or does not show them (the message has the reason), or
 *          takes one length for rows of different lengths; IO as for iobind_session_get_state_kind; WRONG_DEVICE; OUT_OF_MEMORY;
 *          RUNTIME. After an error of a copy runs are refused until a call succeeds; after any other one nothing has changed
 *  @threads serial for the binding   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_write_lengths(iobind_binding *binding, size_t added, const int64_t *lengths,
                                                                   size_t count, iobind_stream *stream, iobind_error *error);

/** Go back to a shorter length: of each carried state the first `length` rows remain, on the axis of its kind, such as the tokens of a
 *  decoder that were right. All states are GROWING, or all CAPACITY, or nothing is done.
 *  - GROWING: a generated model moves the rows where they are; over the link go 8 bytes for each row. Nothing moves if a state of that length
 *    is kept that was saved by reference or restored, and only runs and rewinds have come behind it: the next run reads its memory.
 *  - Other inputs that depend on the length, such as a mask, are the caller's to bind.
 *  - CAPACITY: if iobind knows the length (iobind_binding_write_lengths), only that is set: no byte moves. Of a batch with different lengths
 *    each row has `length` at most; the present length is the longest. A cache that is carried IN_PLACE is defined again after a failed run,
 *    which has written only behind its length. It is not after a run that a verified session has
 *    found wrong (INVALID_STATE). If the caller writes the lengths, there is nothing to do: NOT_SUPPORTED.
 *  - A state of another kind cannot be shortened: save a state earlier, and restore it.
 *  - The results of the last run cannot be fetched after rows have moved. Saved states keep their rows.
 *  - If `length` is the present length, nothing changes.
 *  @param length  0 .. the present length
 *  @return OK; NOT_SUPPORTED a state is of another kind (the message says which), the length of a CAPACITY state is not known, or a session
 *          with GROWING states captures graphs; INVALID_ARGUMENT `length` is longer than a state; SHAPE the states have different
 *          lengths, or the model does not take that length; IO as for iobind_session_get_state_kind; INVALID_STATE, OUT_OF_MEMORY, RUNTIME
 *          as for iobind_binding_reorder_state. After an error as after one of iobind_binding_restore_state
 *  @threads serial for the binding   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_rewind_state(iobind_binding *binding, size_t length, iobind_error *error);

/** Retain a reference; returns the state.
 *  @threads any   @since 1.0 */
IOBIND_API iobind_state *iobind_state_retain(iobind_state *state);

/** Release a reference. The state keeps its session alive.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_state_release(iobind_state *state);

typedef struct iobind_state_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t pair_count; /**< carried inputs: entries of iobind_state_get_pair */
  size_t bytes;      /**< of all its tensors */
} iobind_state_info;
#define IOBIND_STATE_INFO_INIT {sizeof(iobind_state_info), 0, 0, 0}

/** Describe a state.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_get_info(const iobind_state *state, iobind_state_info *info,
                                                            iobind_error *error);

/** What an output left for an input. */
typedef struct iobind_state_pair {
  uint32_t struct_size;
  uint32_t reserved;
  size_t output;         /**< index of the session's output */
  size_t input;          /**< index of the session's input */
  iobind_tensor *tensor; /**< borrowed, read-only; of a cache perhaps the rows in use alone. Access from the host waits for the run that
                              makes it; work on another stream does not */
} iobind_state_pair;
#define IOBIND_STATE_PAIR_INIT {sizeof(iobind_state_pair), 0, 0, 0, NULL}

/** Get one of the carried inputs of a state, in the order of the inputs.
 *  @param index  0 .. pair_count - 1
 *  @return OK; NOT_FOUND index out of range; the failure of the run that was to make the state, if that is known; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_get_pair(const iobind_state *state, size_t index, iobind_state_pair *pair,
                                                            iobind_error *error);

/** Write a state to a file: beside `path` at first, and then in its place, so that no reader sees half a file. The file has checksums, the
 *  model's hash, and the names, types and dims of the tensors. It does not depend on EP, device, or version of ORT. Of a cache of fixed
 *  capacity whose length is known it has the rows in use.
 *  @param path  an existing file is replaced
 *  @return OK; IO the file cannot be written, or the model's file has changed since the session was created; NOT_SUPPORTED the session
 *          was created from memory without IOBIND_SESSION_IDENTIFY, or by other code; the failure of the run that was to make
 *          the state; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_save(iobind_state *state, const char *path, iobind_error *error);

/** Load a state from a file, to where the session reads its inputs.
 *  @param session  of the same model, on any device
 *  @param path     of a file that iobind_state_save has written
 *  @return OK; IO the file cannot be read, is not the file of a state, is cut or damaged, or is of another model (the message says what
 *          differs); VERSION it is of another format; SHAPE the session fixes a dim to another value;
 *          NOT_SUPPORTED, OUT_OF_MEMORY, RUNTIME as for iobind_state_save; INVALID_ARGUMENT
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_load(iobind_session *session, const char *path, iobind_state **state,
                                                        iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
