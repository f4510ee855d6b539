/** @file states.h
 *  States: the content of a binding's carried inputs, saved as an object, to go back to, to branch from, or to keep in a file. */
#ifndef IOBIND_STATES_H
#define IOBIND_STATES_H

/* clang-format off: laid out by hand, as a page to read */

#include "binding.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Save the state of a binding: the content that its next run would read from its carried inputs. A saved state never changes.
 *  - A state carried by MOVE or SWAP is kept by reference, and its tensor becomes read-only. The binding gets new memory when it
 *    needs it.
 *  - It is copied, at the same memory location, in these cases: it is carried IN_PLACE; the session captures graphs; no run was
 *    made since it was bound; another reference to its tensor exists.
 *  - Of a cache of fixed capacity whose length iobind counts (iobind_binding_write_lengths) only the rows in use are copied.
 *    Exceptions, which are copied whole: memory without addresses (IOBIND_DEVICE_ADDRESSABLE), and packed elements.
 *  - If runs are in flight on a native stream, the state is that of the last run. The call does not wait; copies are ordered on
 *    that stream. If the run fails, each use of the state returns the failure.
 *  @param state  receives a reference; iobind_state_release
 *  @return OK; INVALID_STATE nothing is carried, an input is not bound, a state is undefined after a failed run, or another thread
 *          runs the binding; the failure of the last run, if that was on a stream and is complete; OUT_OF_MEMORY; RUNTIME. After an
 *          error nothing has changed
 *  @threads serial for the binding   @blocks for copies if no run is in flight; for runs in flight on a thread of iobind
 *  @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_save_state(iobind_binding *binding, iobind_state **state,
                                                                iobind_error *error);

/** Restore a saved state, in the binding that it was saved from or in another binding of the same session: the next run reads it. A
 *  state may be restored any number of times.
 *  - If an input is carried by MOVE or SWAP, the next run reads the state's memory; nothing is copied.
 *  - If it is carried IN_PLACE, or the session captures graphs, the state is copied. If the dims are the same, the copy goes into
 *    the bound memory: no graph is lost and nothing is allocated. Otherwise it goes into new memory.
 *  - A cache with a counted length keeps the capacity of the bound tensor; if no tensor is bound, that of the saved cache. The rows
 *    in use are copied into the bound memory, or into new memory, where zeros follow them.
 *  - The results of the last run cannot be fetched afterwards.
 *  @return OK; INVALID_ARGUMENT the state is of another session, or the binding carries other inputs; SHAPE, also a cache with more
 *          rows in use than the bound tensor has; INVALID_STATE a run is in flight; the failure of the run that should have made
 *          the state; OUT_OF_MEMORY; RUNTIME. After an error nothing has changed, except that a failed copy into bound memory
 *          leaves the states of these inputs undefined
 *  @threads serial for the binding   @blocks for copies   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_restore_state(iobind_binding *binding, iobind_state *state,
                                                                   iobind_error *error);

/** Replace the rows of all carried states: the new row i is the old row `rows[i]`. Typical use: the beams with which a search
 *  continues. A generated model moves the rows on their device; 8 bytes for each row cross the link.
 *  - The results of the last run cannot be fetched afterwards. Saved states keep their rows.
 *  - The first call for an axis loads the generated model.
 *  @param axis   of each carried state; they must have the same number of rows there
 *  @param rows   `count` old rows; a row may occur several times, or not at all. `count` may differ from the present number of
 *                rows, unless the model fixes it or the session captures graphs
 *  @return OK; INVALID_ARGUMENT a row is out of range, or `count` is 0; SHAPE a state does not have the axis, or another number of
 *          rows, or the model fixes another number than `count`; NOT_SUPPORTED another number of rows in a session that captures
 *          graphs; INVALID_STATE as for iobind_binding_save_state, or a run is in flight; OUT_OF_MEMORY; RUNTIME. An error has the
 *          effects of an error of iobind_binding_restore_state
 *  @threads serial for the binding   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_reorder_state(iobind_binding *binding, size_t axis, const int64_t *rows,
                                                                   size_t count, iobind_error *error);

/** The kind of a carried input, if the model's graph shows it. In most graphs it does not: UNKNOWN is common. */
typedef enum iobind_state_kind {
  IOBIND_STATE_UNKNOWN = 0,
  IOBIND_STATE_RECURRENT = 1, /**< GRU, LSTM, RNN: each run makes a new state */
  IOBIND_STATE_GROWING = 2,   /**< each run appends to it: Concat, or ONNX's Attention */
  IOBIND_STATE_WINDOW = 3,    /**< each run appends to it and drops its oldest part: Concat and Slice, a circular TensorScatter */
  IOBIND_STATE_CAPACITY = 4,  /**< a cache of fixed capacity, with its lengths in other inputs: GroupQueryAttention, TensorScatter */
  IOBIND_STATE_KIND_FORCE32 = 0x7FFFFFFF
} iobind_state_kind;

typedef struct iobind_state_kind_info {
  uint32_t struct_size;
  int32_t kind; /**< iobind_state_kind */
  size_t axis;  /**< GROWING, WINDOW, CAPACITY: the axis of the length; SIZE_MAX: unknown, or another kind */
  int32_t mode; /**< iobind_carry_mode that IOBIND_CARRY_DEFAULT chooses for it */
  uint32_t reserved;
} iobind_state_kind_info;
#define IOBIND_STATE_KIND_INFO_INIT {sizeof(iobind_state_kind_info), 0, 0, 0, 0}

/** Get the kind of the state that an output leaves for an input, and how it is carried by default. The first call for a session reads
 *  the graph from the model's file, without the weights. The kind is UNKNOWN in these cases:
 *  - The graph does not show it, or shows that the output is not the state of that input; or the file is in ORT's own format.
 *  - The session was created by other code, or from memory without IOBIND_SESSION_IDENTIFY.
 *  @param output  index of the session's output
 *  @param input   index of the session's input
 *  @return OK; NOT_FOUND index out of range; IO the model's file cannot be read, or has changed since the session was created;
 *          INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_state_kind(iobind_session *session, size_t output, size_t input,
                                                                    iobind_state_kind_info *info, iobind_error *error);

/** What an input has to do with the lengths of caches of fixed capacity, if `length` rows are in use and a run adds `added` rows. */
typedef enum iobind_length_role {
  IOBIND_LENGTH_UNNAMED = 0,   /**< what the model's graph shows */
  IOBIND_LENGTH_BEFORE = 1,    /**< `length`: the first row that the run writes, such as TensorScatter's `write_indices` */
  IOBIND_LENGTH_LAST = 2,      /**< `length + added - 1`: the last one, such as GroupQueryAttention's `seqlens_k` */
  IOBIND_LENGTH_AFTER = 3,     /**< `length + added`, such as Attention's `nonpad_kv_seqlen` */
  IOBIND_LENGTH_EXTENT = 4,    /**< no less than `length + added` of the longest row of the batch, such as GroupQueryAttention's
                                    `total_sequence_length`: the capacity in a session that captures graphs */
  IOBIND_LENGTH_MASK = 5,      /**< along its last axis 1 for each of the first `length + added` rows, 0 for all others */
  IOBIND_LENGTH_POSITIONS = 6, /**< along its last axis `length`, `length + 1`, .. `length + added - 1` */
  IOBIND_LENGTH_OTHER = 7,     /**< nothing that iobind writes: the caller does */
  IOBIND_LENGTH_CACHE = 8,     /**< a carried cache of fixed capacity */
  IOBIND_LENGTH_ROLE_FORCE32 = 0x7FFFFFFF
} iobind_length_role;

/** Name the role of an input for iobind_binding_write_lengths, if the model's graph does not show it. Then the lengths are written,
 *  counted, checked, saved and rewound as if the graph showed them.
 *  - Typical use: a model that computes its lengths from a mask, or whose cache is written by operators that iobind does not know.
 *  - CACHE: iobind_session_get_state_kind returns UNKNOWN for the state, but it is a cache of fixed capacity. On its first axis it has
 *    the rows of the batch, unless `axis` is 0.
 *  - All roles that the graph does not show must be named: iobind_binding_write_lengths returns NOT_SUPPORTED for a role that the graph
 *    contradicts, or for an unnamed input from which the model computes lengths. The message names the input.
 *  - MASK is bool, int32, int64, float16 or float32, the other lengths are int32 or int64. An input with more than one row of values
 *    has the rows of the batch in its first axis.
 *  - The roles remain until they are named otherwise. The length becomes unknown: pass it in the next call of
 *    iobind_binding_write_lengths.
 *  @param input  index of the session's input
 *  @param role   iobind_length_role; UNNAMED: end it
 *  @param axis   CACHE: the axis of its rows; otherwise 0
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT role or axis; DTYPE, SHAPE the input cannot have that role;
 *          NOT_SUPPORTED it is not a tensor of numbers; INVALID_STATE a run is in flight
 *  @threads serial for the binding   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_name_length(iobind_binding *binding, size_t input, iobind_length_role role,
                                                                 size_t axis, iobind_error *error);

/** Write the lengths of the carried caches of fixed capacity (IOBIND_STATE_CAPACITY) into the model's inputs for them, for a run that
 *  adds `added` rows to each cache. A successful run advances the length; a failed or cancelled run does not.
 *  - GroupQueryAttention has `seqlens_k` and `total_sequence_length` (the capacity in a session that captures graphs).
 *    TensorScatter has `write_indices`, and ONNX's Attention after it `nonpad_kv_seqlen`.
 *  - Rows of a batch may have different lengths: pass one length for each row. They are counted from then on; saved states, files,
 *    reorder and rewind keep them. To shorten a row, or to begin it again, pass its length in the next call.
 *  - An unbound length input is bound, and rebound if the number of rows changes. A length input that the caller has bound is
 *    written as by iobind_binding_write_input. The caller still binds or writes masks and positions that are not named.
 *  - The length becomes unknown if ORT makes a run without this call before it, even if the run fails, and if a state is bound,
 *    written or carried again. A run that is refused does not change it. A saved state has its length; iobind_binding_rewind_state
 *    sets the length.
 *  - Other operators that read the cache may have a length input, too: Attention, GroupQueryAttention. iobind finds them also
 *    after nodes that keep the rows, such as Cast or Transpose. If the graph does not show their length input, nothing is written,
 *    unless the caller has named the inputs (iobind_binding_name_length).
 *  - If the graph shows which input has the new rows, a run with another number of new rows is refused (SHAPE).
 *  - If a run fails in flight, the length is again that before all runs in flight. Lengths that were already written for a later run
 *    must be written again: until then, runs are refused (INVALID_STATE).
 *  - If the caller writes the lengths instead, iobind_binding_run checks them: it refuses a length below 0 and one for which a cache has
 *    no room (INVALID_ARGUMENT), before ORT or a capture reads it. Exceptions, for which only the EP's kernels decide:
 *    - lengths in memory of a device, or in pinned memory that is copied to it;
 *    - masks, and lengths that the model computes from an input which has no name;
 *    - too large lengths of a cache carried by MOVE if GroupQueryAttention writes it, which makes a longer one, or if the caller has
 *      named it;
 *    - models whose kinds are UNKNOWN, see iobind_session_get_state_kind.
 *  @param added   new rows of each cache: the tokens of the next run, 1 or more
 *  @param lengths  rows in use before the run, such as 0 for an empty cache; NULL, with a `count` of 0: the lengths that iobind has
 *                  counted
 *  @param count   number of lengths: 1 for all rows of the batch, or one for each row
 *  @param stream  NULL: complete on return. Otherwise as for iobind_binding_write_input
 *  @return OK; INVALID_ARGUMENT a length and `added` exceed the capacity, or are out of range, or `count` is wrong; SHAPE a mask is
 *          too narrow, positions are not `added` in number, or a named cache does not have its axis; INVALID_STATE the length is
 *          unknown, a state or an input with open dims is not bound, or a run is in flight on another stream;
 *          NOT_SUPPORTED no such cache is carried, or the graph computes its lengths from an input (the message names it), or does
 *          not show them (the message has the reason), or takes one length for rows of different lengths; IO as for
 *          iobind_session_get_state_kind; WRONG_DEVICE; OUT_OF_MEMORY; RUNTIME. After a failed copy, runs are refused until a call
 *          succeeds. After any other error nothing has changed
 *  @threads serial for the binding   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_write_lengths(iobind_binding *binding, size_t added, const int64_t *lengths,
                                                                   size_t count, iobind_stream *stream, iobind_error *error);

/** Shorten all carried states: the first `length` rows of each remain, on the axis of its kind. Typical use: the accepted tokens of a
 *  decoder. All states must be GROWING, or all CAPACITY.
 *  - GROWING: a generated model moves the rows on their device; 8 bytes for each row cross the link. If a state of that length was
 *    saved by reference or restored, is still kept, and only runs and rewinds followed, nothing moves: the next run reads its
 *    memory.
 *  - The caller must bind other inputs that depend on the length, such as a mask.
 *  - CAPACITY: if iobind counts the length (iobind_binding_write_lengths), the call sets it, and moves no byte. In a
 *    batch with different lengths, each row keeps at most `length` rows. If the caller writes
 *    the lengths, the call has nothing to do: NOT_SUPPORTED.
 *  - CAPACITY, carried IN_PLACE: after a failed run the cache is defined again, because the run has written only beyond the length.
 *    Exception: a run whose results differ from the CPU's (iobind_verify): INVALID_STATE.
 *  - A state of another kind cannot be shortened. Save a state in advance, and restore it.
 *  - The results of the last run cannot be fetched after rows have moved. Saved states keep their rows.
 *  - If `length` is the present length, nothing changes.
 *  @param length  0 .. the present length
 *  @return OK; NOT_SUPPORTED a state is of another kind (the message names it), the length of a CAPACITY state is unknown, or a
 *          session with GROWING states captures graphs; INVALID_ARGUMENT `length` is greater than the length of a state; SHAPE the
 *          states have different lengths, or the model does not accept that length; IO as for iobind_session_get_state_kind;
 *          INVALID_STATE, OUT_OF_MEMORY, RUNTIME as for iobind_binding_reorder_state. An error has the effects of an error of
 *          iobind_binding_restore_state
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
  const char *device_spec; /**< where its session ran, such as "cuda:0": the session's first device other than the CPU, or "cpu". Of a
                           state from a file: as in the file */
  const char *ort_version; /**< the version of ORT that its session had, such as "1.31.1". Of a state from a file: as in the file */
} iobind_state_info;
#define IOBIND_STATE_INFO_INIT {sizeof(iobind_state_info), 0, 0, 0, NULL, NULL}

/** Describe a state. The strings remain valid as long as the state.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_get_info(const iobind_state *state, iobind_state_info *info,
                                                            iobind_error *error);

/** The tensor that an output left for an input. */
typedef struct iobind_state_pair {
  uint32_t struct_size;
  uint32_t reserved;
  size_t output;         /**< index of the session's output */
  size_t input;          /**< index of the session's input */
  iobind_tensor *tensor; /**< borrowed, read-only. Of a cache it may have only the rows in use. Access from the host waits for the run
                              that makes it; work on another stream does not */
} iobind_state_pair;
#define IOBIND_STATE_PAIR_INIT {sizeof(iobind_state_pair), 0, 0, 0, NULL}

/** Get one of the carried inputs of a state, in the order of the inputs.
 *  @param index  0 .. pair_count - 1
 *  @return OK; NOT_FOUND index out of range; the failure of the run that should have made the state, if it is known;
 *          INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_get_pair(const iobind_state *state, size_t index, iobind_state_pair *pair,
                                                            iobind_error *error);

/** Write a state to a file. A temporary file beside `path` is written and then renamed, so that no reader sees a partial file.
 *  - The file has checksums, the model's hash, and the names, types and dims of the tensors.
 *  - It has also the device and the version of ORT that computed the state, and of each tensor the kind and the capacity, as
 *    information: any session of the model can load it, on any device, with any version of ORT.
 *  - Of a cache of fixed capacity whose length is known it has only the rows in use.
 *  @param path  an existing file is replaced
 *  @return OK; IO the file cannot be written, or the model's file has changed since the session was created; NOT_SUPPORTED the
 *          session was created from memory without IOBIND_SESSION_IDENTIFY, or by other code; the failure of the run that should
 *          have made the state; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_save(iobind_state *state, const char *path, iobind_error *error);

/** Load a state from a file, into memory where the session reads its inputs.
 *  @param session  of the same model, on any device
 *  @param path     of a file written by iobind_state_save
 *  @return OK; IO the file cannot be read, is not a file of a state, is truncated or damaged, or is of another model (the message
 *          has the difference); VERSION it has another format; SHAPE the session fixes a dim to another value; NOT_SUPPORTED,
 *          OUT_OF_MEMORY, RUNTIME as for iobind_state_save; INVALID_ARGUMENT
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_state_load(iobind_session *session, const char *path, iobind_state **state,
                                                        iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
