/** @file binding.h
 *  Bindings: inputs and outputs of a session, bound to memory; bound runs, carried states, captured graphs. */
#ifndef IOBIND_BINDING_H
#define IOBIND_BINDING_H

/* clang-format off: laid out by hand, as a page to read */

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Create a binding. No input is bound yet. Each tensor output is FRESH, where the session leaves it. A session may have any number
 *  of bindings. A binding is externally synchronized; different bindings may be used concurrently.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_create(iobind_session *session, iobind_binding **binding,
                                                            iobind_error *error);

/** Destroy a binding. Tensors that were taken from it, or retained, remain valid.
 *  @threads serial   @since 1.0 */
IOBIND_API void iobind_binding_destroy(iobind_binding *binding);

/* ---- inputs ---------------------------------------------------------------------------------------------------------- */

/** How an input is bound. The meaning is the same on every device. */
typedef enum iobind_input_mode {
  IOBIND_INPUT_RESIDENT = 0, /**< the tensor itself, where the session reads the input. Nothing is copied. Each run reads its
                                  content */
  IOBIND_INPUT_SNAPSHOT = 1, /**< a copy made by this call, where the session reads the input. The tensor may then change */
  IOBIND_INPUT_LIVE = 2,     /**< each run reads the tensor's present content. The tensor is copied before the run, unless it is where
                                  the session reads the input */
  IOBIND_INPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_input_mode;

/** Bind an input. The binding retains the tensor (except for SNAPSHOT) and the event until the input is rebound or cleared, or the
 *  binding is destroyed. This call checks element type, rank and fixed dims. iobind_binding_check and the run check that symbolic
 *  dims of all inputs agree. Open dims may change on each rebind.
 *  @param index  of the input
 *  @param event  recorded by the tensor's producer; NULL: the tensor is ready. Each run waits for the last record before its
 *                submission, on the device if both streams are of one EP
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor does not match, or the output of a SWAP or IN_PLACE carry can never have this
 *          shape (the message has both); WRONG_DEVICE a RESIDENT tensor is not where the session reads the input, or it is of another
 *          runtime; NOT_SUPPORTED the input is not a tensor, or strings on a device; in a session that captures graphs, a LIVE tensor
 *          at another location; INVALID_ARGUMENT it overlaps a bound output tensor, or the memory of a state carried IN_PLACE, or a
 *          carried input is bound LIVE; INVALID_STATE a run is in flight; OUT_OF_MEMORY; RUNTIME the copy failed; for a SNAPSHOT, the
 *          failure of work that should have written the tensor. After an error the input is unchanged
 *  @threads serial   @blocks for the copy of a SNAPSHOT   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_input(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                               iobind_tensor *tensor, iobind_event *event, iobind_error *error);

/** Write new data into a bound input, without a rebind: into the copy of a SNAPSHOT, otherwise into the tensor.
 *  - A write into a carried input replaces the state that the last run left. That run's outputs cannot be fetched afterwards, even if
 *    the write fails.
 *  - While runs are in flight on a stream, a write on the same stream is ordered after them. Writes into carried inputs are then
 *    refused.
 *  - The write does not wait for the event of the input's producer.
 *  @param index   of the input
 *  @param data    host memory; `bytes` must be the bytes of the input
 *  @param stream  as for iobind_tensor_write
 *  @return OK; INVALID_STATE not bound, or a run is in flight; INVALID_ARGUMENT the wrong number of bytes; DTYPE strings; WRONG_DEVICE;
 *          RUNTIME
 *  @threads serial   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_write_input(iobind_binding *binding, size_t index, const void *data,
                                                                 size_t bytes, iobind_stream *stream, iobind_error *error);

/* ---- outputs --------------------------------------------------------------------------------------------------------- */

enum {
  IOBIND_OUTPUT_IN_PLACE = 1u << 0 /**< the tensor may overlap an input. The model's operators must allow this; ORT does not check */
};

/** Bind an output to a tensor, which every run overwrites. The binding retains it until the output is rebound or cleared.
 *  @param index   of the output
 *  @param tensor  with the output's shape, at a memory location that the session can write
 *  @param flags   IOBIND_OUTPUT_IN_PLACE or 0
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor cannot hold the output; WRONG_DEVICE the session cannot write there;
 *          INVALID_ARGUMENT the tensor overlaps an input or another output, or is read-only; NOT_SUPPORTED the output is not a
 *          tensor, an unknown flag, or strings on a device; INVALID_STATE a run is in flight. After an error the output is unchanged
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_output(iobind_binding *binding, size_t index, iobind_tensor *tensor,
                                                                uint32_t flags, iobind_error *error);

/** How an output gets its memory. */
typedef enum iobind_output_mode {
  IOBIND_OUTPUT_FRESH = 0, /**< new memory on each run; no run overwrites an earlier result */
  IOBIND_OUTPUT_REUSE = 1, /**< the memory of the first run, overwritten by later runs. New memory is allocated when the dims of an
                                input change, after iobind_binding_take_output, and on every run if a carried state grows. If the
                                output's size depends on the data and changes, the run fails with SHAPE */
  IOBIND_OUTPUT_NONE = 2,  /**< not fetched */
  IOBIND_OUTPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_output_mode;

/** Set how an output gets its memory, and where.
 *  @param index   of the output
 *  @param device  where; NULL: where the session leaves it, without a copy. A device that the session does not use is an error;
 *                 iobind never substitutes a CPU tensor
 *  @param memory  of that device
 *  @return OK; NOT_FOUND index; WRONG_DEVICE the session cannot write there; NOT_SUPPORTED the output is not a tensor, strings on a
 *          device, or the device has no such memory; INVALID_ARGUMENT no such mode; INVALID_STATE a run is in flight. After an
 *          error the output is unchanged
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_place_output(iobind_binding *binding, size_t index, iobind_output_mode mode,
                                                                  iobind_device *device, iobind_memory memory,
                                                                  iobind_error *error);

/** Borrow an output of the last run. It is valid until the next run, until it is taken, or until an output is rebound. Retain it to
 *  keep it.
 *  - A retained FRESH output is never overwritten.
 *  - A REUSE output that is bound as an input gets new memory for the next run.
 *  - Nothing is copied, except an output that ORT passes through from an input, because it must not share the input's memory.
 *  @param stream  NULL: block until the run is complete. Otherwise the run's stream, or another stream of a device of the session. If
 *                 the output is in device memory, the call then returns at once, and later work on `stream` waits for the run. Until
 *                 the run is complete the tensor may be used only there. If the run fails, waits for its event, its stream or
 *                 `stream` return the failure. For an output elsewhere the call blocks
 *  @return OK; INVALID_STATE no run has completed since an output was last bound, the output is not fetched, or it was taken; the
 *          failure of the last run, if that was on a stream; NOT_FOUND index; WRONG_DEVICE it is not at the requested location, or
 *          the stream is of another device; NOT_SUPPORTED the run's output is not a tensor; RUNTIME
 *  @threads serial   @blocks if stream is NULL or the output is not in device memory   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_get_output(iobind_binding *binding, size_t index, iobind_stream *stream,
                                                                iobind_tensor **tensor, iobind_error *error);

/** Take an output of the last run: as iobind_binding_get_output without a stream, but the caller owns the reference. No later run
 *  overwrites a FRESH or REUSE output that was taken. An output can be taken once per run. For an output bound by
 *  iobind_binding_set_output the call returns that tensor, with a new reference.
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor,
                                                                 iobind_error *error);

/* ---- states that are carried from run to run ------------------------------------------------------------------------- */

/** How an output becomes the next run's input. */
typedef enum iobind_carry_mode {
  IOBIND_CARRY_DEFAULT = 0,  /**< IN_PLACE for a cache of fixed capacity whose operator allows it; otherwise MOVE, or SWAP in a
                                  session that captures graphs */
  IOBIND_CARRY_MOVE = 1,     /**< new memory on each run, of any shape, which becomes the input */
  IOBIND_CARRY_SWAP = 2,     /**< two buffers of the state's shape, swapped after each run; no run allocates or rebinds */
  IOBIND_CARRY_IN_PLACE = 3, /**< one buffer: the input's tensor is the output. The model's operators must allow this; ORT does not
                                  check */
  IOBIND_CARRY_MODE_FORCE32 = 0x7FFFFFFF
} iobind_carry_mode;

/** Carry an output to an input of the next run. This state stays where the session reads the input.
 *  - The first state is the tensor bound by iobind_binding_set_input, RESIDENT or SNAPSHOT, before or after this call. Binding
 *    another tensor later replaces the state for the next run. A state that grows may begin with 0 elements.
 *  - MOVE and SWAP never write the first state's memory. IN_PLACE writes into a RESIDENT tensor.
 *  - DEFAULT chooses the mode in this call, from the model's graph. It is IN_PLACE for GroupQueryAttention and TensorScatter, if only
 *    that operator reads the input and it makes the output itself. Exceptions: GroupQueryAttention on WebGPU, whose results would be
 *    wrong; operators inside control flow; a graph that cannot be read.
 *  - A failed run leaves the state unchanged, unless it is IN_PLACE or later runs were queued. In these cases the carried states
 *    become undefined: runs are refused until the states are rebound, or written by iobind_binding_write_input.
 *  - iobind_binding_get_output borrows the state that a run left, until the next run. No run overwrites a retained MOVE state, or a
 *    MOVE or SWAP state that was taken. The next run overwrites an IN_PLACE state, even if it was taken.
 *  - iobind_binding_set_output, iobind_binding_place_output and iobind_binding_clear end the carry.
 *  - If the call fails, nothing has changed: neither the bound tensors nor the results of the last run.
 *  @param output, input  indices; each can be carried once
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the output can never match the input; NOT_SUPPORTED one of them is not a tensor, or
 *          holds strings; INVALID_ARGUMENT no such mode, or the input is carried from another output, is bound LIVE, or overlaps
 *          other bound memory; INVALID_STATE a run is in flight; OUT_OF_MEMORY, RUNTIME
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_carry(iobind_binding *binding, size_t output, size_t input,
                                                           iobind_carry_mode mode, iobind_error *error);

/* ---- runs ------------------------------------------------------------------------------------------------------------ */

/** Set options for all later runs of the binding. NULL restores the defaults.
 *  @return OK; INVALID_STATE a run is in flight; INVALID_ARGUMENT, also an entry that would let a run without a stream return
 *          before it is complete (`disable_synchronize_execution_providers`); RUNTIME
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_run_options(iobind_binding *binding, const iobind_run_options *options,
                                                                     iobind_error *error);

/** Check that the binding can run: every input is bound, symbolic dims agree, and at least one output is fetched. The first run after
 *  a change checks the same.
 *  @return OK; INVALID_STATE an input is not bound (the message names it), a carried state is undefined, no output is fetched, or a run
 *          is in flight; SHAPE; NOT_SUPPORTED an input is not a tensor; INVALID_ARGUMENT an output that the model passes through from
 *          an input overlaps only a part of that input, or another output overwrites that input in place
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_check(iobind_binding *binding, iobind_error *error);

/** Run the model on the bound inputs and outputs.
 *
 *  With a stream the call returns when the run is submitted. The run is in flight until a wait, a query or iobind_stream_synchronize
 *  has reported completion, or an output was fetched without a stream. While a run is in flight:
 *  - More runs of the binding may be queued on the same stream, with iobind_binding_write_input on that stream between them. Each run
 *    reads the carried states that the previous one left.
 *  - Any other change of the binding is refused.
 *  - Tensors may be released, and session and binding destroyed: a run keeps everything alive that it uses.
 *  - Access to bound tensors is ordered as tensor.h describes. Runs without a stream of other bindings that share memory are ordered,
 *    too. Runs on another stream need an event.
 *  - On a native stream the calling thread does ORT's work on the CPU: submission, nodes that the EP does not take, and waits for
 *    outputs of unknown size.
 *  @param stream  NULL: the run is complete when the call returns. It first waits for work on streams that writes its inputs or uses
 *                 its outputs' memory. Otherwise a stream of a device of the session
 *  @return OK; as iobind_binding_check; INVALID_ARGUMENT the caller has written a length below 0, or one for which the carried
 *          caches of fixed capacity have no room, into an input that the host reads (see iobind_binding_write_lengths);
 *          WRONG_DEVICE an output is not at the requested location, or the stream is not of a device of the session; SHAPE an output
 *          does not have the shape of its bound tensor; INVALID_STATE a run is in flight; NOT_SUPPORTED an input or output is not a
 *          tensor; CANCELLED; DEVICE_LOST; RUNTIME ORT failed; OUT_OF_MEMORY; RESULT, IO if the run is verified, see iobind_verify;
 *          without a stream, the failure of work on a stream that should have written an input. If the run fails after the call has
 *          returned, waits for the stream or for an event recorded there return the failure, and so does
 *          iobind_binding_get_output. A failed run leaves no output; the binding can run again
 *  @threads serial   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/** Announce a run without a stream that another thread will make. The run counts as in flight, as if it had begun.
 *
 *  Access to bound tensors waits for the run, and iobind_binding_cancel stops it. The next iobind_binding_run without a stream, on
 *  any thread, is that run. The call is for programs that make runs on their own threads:
 *  - Before the call returns, the thread may still access bound tensors. Afterwards its access waits for the run.
 *  - If the run cannot be made, withdraw it. Otherwise threads that wait for it never return.
 *  @param comes  1: announce a run; 0: withdraw the announced run, a no-op if the run has begun or none is announced
 *  @return OK; INVALID_ARGUMENT; INVALID_STATE a run is in flight
 *  @threads serial; 0: any, but not beside the announced run   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_announce_run(iobind_binding *binding, int32_t comes, iobind_error *error);

/** Stop the run in flight: it fails with CANCELLED as soon as ORT notices. The call is a no-op if no run is in flight, if ORT has
 *  returned from the run (on a native stream that is its submission), and for the capture or replay of a graph.
 *  @return OK; INVALID_ARGUMENT; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error);

/** Unbind everything: inputs and outputs are as after iobind_binding_create. The run options remain.
 *  @return OK; INVALID_STATE a run is in flight; RUNTIME
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_clear(iobind_binding *binding, iobind_error *error);

/** Release the captured graphs of a binding; the next run captures again. Graphs need a session with `graph_limit`, on CUDA, WebGPU
 *  or vdev (ORT 1.26 or newer). Rules for such a session:
 *  - Outputs are REUSE by default. Bindings whose addresses would change on each run are refused (NOT_SUPPORTED): FRESH outputs,
 *    outputs in host memory, states carried by MOVE, LIVE inputs from another location. SWAP needs a graph_limit of 2.
 *  - A run replays a graph if addresses, dims, and the bytes of inputs that the session reads on the host are those of its capture.
 *  - Any other run is captured, which takes as long as five runs (ten on WebGPU). Above graph_limit it fails with INVALID_STATE; in a
 *    pipeline it runs without a graph.
 *  - A graph belongs to its thread: runs of the binding on another thread fail with INVALID_STATE until its graphs are released.
 *  - Runs of such a session are serialized. During a capture, all calls into that EP block.
 *  - iobind_session_create refuses (NOT_SUPPORTED): values that are not tensors, control flow, random operators, outputs whose size
 *    depends on data, outputs that no node or a node on the CPU makes, and files in ORT's own format. If ORT refuses the model, it is
 *    loaded again to name the nodes.
 *  - No replay overwrites an output that was taken, or that is retained while other tensors are bound: such a graph is released.
 *  - CUDA's EP, and any EP with ORT before 1.27, keeps a released graph until the session is destroyed. With 32 of these a session
 *    makes plain runs instead of new captures, and logs a warning.
 *  @return OK, also if there are no graphs; INVALID_STATE a run is in flight; INVALID_ARGUMENT; RUNTIME
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_reset_graphs(iobind_binding *binding, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
