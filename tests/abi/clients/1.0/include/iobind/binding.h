/** @file binding.h
 *  Bindings: inputs and outputs of a session, bound to memory; bound runs, carried states, captured graphs. */
#ifndef IOBIND_BINDING_H
#define IOBIND_BINDING_H

/* clang-format off: laid out by hand, as a page to read */

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Create a binding. No input is bound, and each tensor output is FRESH, where the session leaves it. A session may have any number
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
  IOBIND_INPUT_RESIDENT = 0, /**< the tensor itself, where the session reads it. Nothing is copied. A run sees its content */
  IOBIND_INPUT_SNAPSHOT = 1, /**< a copy made by this call, where the session reads it. The tensor may then be changed */
  IOBIND_INPUT_LIVE = 2,     /**< each run sees the tensor's content at that time: it is copied before every run to where the
                                  session reads it, unless it is there */
  IOBIND_INPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_input_mode;

/** Bind an input. The binding retains the tensor (except for SNAPSHOT) and the event until the input is rebound or cleared, or the
 *  binding is destroyed. Element type, rank and fixed dims are checked by this call. Whether symbolic dims agree with those of other
 *  inputs is checked by iobind_binding_check and by the run. Open dims may change on each rebind.
 *  @param index  of the input
 *  @param event  recorded by the tensor's producer; NULL: the tensor is ready. Each run waits for the record at the time of its
 *                submission: on the device if both streams are of one EP
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor does not match, or the output of a SWAP or IN_PLACE carry can never have its
 *          shape (the message has both); WRONG_DEVICE a RESIDENT tensor is not where the session reads the input; NOT_SUPPORTED
 *          the input is not a tensor, or strings on a device; INVALID_ARGUMENT it overlaps a bound output tensor, or the memory of
 *          a state that is carried in place; INVALID_STATE a run is in flight; OUT_OF_MEMORY; RUNTIME the copy failed.
 *          After an error the input is unchanged
 *  @threads serial   @blocks for the copy of a SNAPSHOT   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_input(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                               iobind_tensor *tensor, iobind_event *event, iobind_error *error);

/** Write new data into a bound input: into the copy of a SNAPSHOT, otherwise into the tensor. No rebind is needed.
 *  - A carried input is the state that the last run left. Afterwards its outputs cannot be fetched, even if the call fails.
 *  - While runs are in flight on a stream, a write on the same stream is ordered after them. A carried input is then refused.
 *  - The event of the input's producer is not waited for.
 *  @param index   of the input
 *  @param data    host memory; `bytes` must be the bytes of the input
 *  @param stream  as for iobind_tensor_write
 *  @return OK; INVALID_STATE not bound, or a run is in flight; INVALID_ARGUMENT the wrong number of bytes; DTYPE strings; WRONG_DEVICE; RUNTIME
 *  @threads serial   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_write_input(iobind_binding *binding, size_t index, const void *data,
                                                                 size_t bytes, iobind_stream *stream, iobind_error *error);

/* ---- outputs --------------------------------------------------------------------------------------------------------- */

enum {
  IOBIND_OUTPUT_IN_PLACE = 1u << 0 /**< the tensor may overlap an input: only if the model's operators allow it; ORT does not check */
};

/** Bind an output to a tensor, which every run overwrites. The binding retains it until the output is rebound or cleared.
 *  @param index   of the output
 *  @param tensor  must have the output's shape, where the session can write
 *  @param flags   IOBIND_OUTPUT_IN_PLACE or 0
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor cannot hold the output; WRONG_DEVICE the session cannot write there;
 *          INVALID_ARGUMENT the tensor overlaps an input or another output, or is read-only; NOT_SUPPORTED the output is not a
 *          tensor, an unknown flag, or strings on a device; INVALID_STATE a run is in flight. After an error the output is unchanged
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_output(iobind_binding *binding, size_t index, iobind_tensor *tensor,
                                                                uint32_t flags, iobind_error *error);

/** How an output gets its memory. */
typedef enum iobind_output_mode {
  IOBIND_OUTPUT_FRESH = 0, /**< new memory on each run: no run overwrites an earlier result */
  IOBIND_OUTPUT_REUSE = 1, /**< memory of the first run, overwritten by later ones. It is replaced when dims of an input change, and
                                after iobind_binding_take_output; on every run if a carried state grows. If a size depends on
                                the data and changes, the run fails with SHAPE */
  IOBIND_OUTPUT_NONE = 2,  /**< not fetched */
  IOBIND_OUTPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_output_mode;

/** Let each run, or the first one, allocate an output, at a memory location.
 *  @param index   of the output
 *  @param device  where; NULL: where the session leaves it, so that nothing is copied. A device that the session does not use is an
 *                 error, never silently a CPU tensor
 *  @param memory  of that device
 *  @return OK; NOT_FOUND index; WRONG_DEVICE the session cannot write there; NOT_SUPPORTED the output is not a tensor, strings on a
 *          device, or the device has no such memory; INVALID_ARGUMENT no such mode; INVALID_STATE a run is in flight. After an
 *          error the output is unchanged
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_place_output(iobind_binding *binding, size_t index, iobind_output_mode mode,
                                                                  iobind_device *device, iobind_memory memory,
                                                                  iobind_error *error);

/** Borrow an output of the last run. It is valid until the next run, take, or rebind of an output. Retain it to keep it: a retained
 *  FRESH output is never overwritten. A REUSE output that is bound as an input gets new memory for the next run. Nothing is copied,
 *  except an output that ORT passes through from an input: it must not share the input's memory.
 *  @param stream  NULL: block until the run is complete. Otherwise an output in device memory is not waited for: later work on
 *                 `stream` is ordered after the run, and until the run is complete the tensor may be used only there. If the run
 *                 fails, waits on its event, its stream or `stream` return the failure. An output elsewhere is waited for. It is
 *                 the run's stream, or another one of a device of the session
 *  @return OK; INVALID_STATE no run has completed since an output was last bound, this one is not fetched, or it was taken;
 *          the failure of the last run, if that was on a stream; NOT_FOUND index; WRONG_DEVICE it is not at the requested location,
 *          or the stream is of another device; NOT_SUPPORTED the run's output is not a tensor; RUNTIME
 *  @threads serial   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_get_output(iobind_binding *binding, size_t index, iobind_stream *stream,
                                                                iobind_tensor **tensor, iobind_error *error);

/** Take an output of the last run: as iobind_binding_get_output without a stream, and the reference becomes the caller's. No later run
 *  overwrites a FRESH or REUSE output that was taken. An output can be taken once per run. An output bound by iobind_binding_set_output
 *  is the caller's tensor, with a new reference.
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor,
                                                                 iobind_error *error);

/* ---- states that are carried from run to run ------------------------------------------------------------------------- */

/** How an output becomes the next run's input. */
typedef enum iobind_carry_mode {
  IOBIND_CARRY_MOVE = 0,     /**< new memory on each run, of any shape, which becomes the input */
  IOBIND_CARRY_SWAP = 1,     /**< two buffers of the state's shape that change places: no run allocates or rebinds */
  IOBIND_CARRY_IN_PLACE = 2, /**< one buffer: the input's tensor is the output; only if the model's operators allow it; ORT does
                                  not check */
  IOBIND_CARRY_DEFAULT = 3,  /**< IN_PLACE for a cache of fixed capacity, where its operator allows that; otherwise MOVE, or SWAP in a session
                                  that captures graphs */
  IOBIND_CARRY_MODE_FORCE32 = 0x7FFFFFFF
} iobind_carry_mode;

/** Carry an output to an input of the next run: a state that stays where the session reads it.
 *  - The first state is the tensor bound by iobind_binding_set_input, RESIDENT or SNAPSHOT, before or after this call. If it is bound
 *    later, the next run begins with it. A state that grows may begin with 0 elements.
 *  - MOVE and SWAP never write the first state's memory. IN_PLACE writes into a RESIDENT tensor.
 *  - DEFAULT chooses when it is called: IN_PLACE for GroupQueryAttention and TensorScatter, if the input goes to that operator alone and the
 *    output comes from it, without a node between. Not for GroupQueryAttention on WebGPU, which is wrong there, and not for an operator
 *    inside of control flow. If the graph cannot be read, it shows no cache.
 *  - A failed run leaves the state as it was, unless it is IN_PLACE, or later runs were queued after it. Then the carried states
 *    become undefined: runs are refused until they are rebound, or written by iobind_binding_write_input.
 *  - iobind_binding_get_output returns the state that a run left, until the next run. No run overwrites a MOVE state that is retained,
 *    or a MOVE or SWAP state that was taken. The next run overwrites an IN_PLACE state, also one that was taken.
 *  - iobind_binding_set_output, iobind_binding_place_output and iobind_binding_clear end the carry.
 *  - A carry that is refused changes nothing: neither bindings, nor results of the last run.
 *  @param output, input  indices; each can be carried once
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the output can never match the input; NOT_SUPPORTED one of them is not a tensor, or
 *          holds strings; INVALID_ARGUMENT no such mode, or the input is carried from another output, bound LIVE, or overlaps other
 *          bound memory; INVALID_STATE a run is in flight; OUT_OF_MEMORY, RUNTIME
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

/** Check that the binding can run: every input is bound, symbolic dims agree, and at least one output is fetched. A run checks the
 *  same, once after each change.
 *  @return OK; INVALID_STATE an input is not bound (the message names it), or no output is fetched; SHAPE
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_check(iobind_binding *binding, iobind_error *error);

/** Run the model on what is bound.
 *
 *  With a stream the call returns when the run is submitted. The run is in flight until a wait, a query or iobind_stream_synchronize
 *  has reported that it is complete, or an output was fetched without a stream. While it is in flight:
 *  - More runs of the binding may be queued on the same stream, with iobind_binding_write_input on that stream between them. Each
 *    reads the carried states that the previous one leaves.
 *  - Any other change of the binding is refused.
 *  - Tensors, session and binding may be released and destroyed: runs keep what they use alive.
 *  - Access to what is bound is ordered as tensor.h describes. So is a run without a stream of another binding that shares memory; on
 *    another stream it needs an event.
 *  - The calling thread does ORT's work on the CPU for a run on a native stream: submission, nodes that the EP does not take, outputs of
 *    unknown size.
 *  @param stream  NULL: the run is complete when the call returns; it waits for work on streams that writes what it reads, or uses what
 *                 it writes. Otherwise a stream of a device of the session
 *  @return OK; as iobind_binding_check; WRONG_DEVICE an output is not at the requested location, or the stream is not of a device of the
 *          session; SHAPE an output does not have the shape of its bound tensor; INVALID_STATE a run is in flight; NOT_SUPPORTED an
 *          input or output is not a tensor; CANCELLED; DEVICE_LOST; RUNTIME ORT failed; OUT_OF_MEMORY; the failure of work on a
 *          stream that was to write what a run without a stream reads. A failure after the call has
 *          returned is returned by waits on the stream or on an event recorded there, and by iobind_binding_get_output. A failed run
 *          leaves no output, and the binding can run again
 *  @threads serial   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/** Announce a run without a stream that another thread is about to make: the run is in flight from now on, as if it had begun.
 *
 *  Access to what is bound waits for the run, and a cancel reaches it. The next iobind_binding_run without a stream, on any thread,
 *  is that run. This call is for programs that hand runs to threads of their own:
 *  - Before the call returns, the thread may still access what is bound. Afterwards its access waits for the run.
 *  - A run that cannot be made must be withdrawn, or those who wait for it never return.
 *  @param comes  1: announce a run; 0: withdraw the announced run, a no-op if the run has begun or none is announced
 *  @return OK; INVALID_ARGUMENT; INVALID_STATE a run is in flight
 *  @threads serial; 0: any, but not beside the announced run   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_announce_run(iobind_binding *binding, int32_t comes, iobind_error *error);

/** Stop the run in flight: it ends with CANCELLED as soon as ORT notices. It is a no-op if no run is in flight, if ORT has returned
 *  from it (on a native stream: when it is submitted), and for the capture or replay of a graph.
 *  @return OK; INVALID_ARGUMENT; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error);

/** Unbind everything: inputs and outputs are as after iobind_binding_create. The run options are kept.
 *  @return OK; INVALID_STATE a run is in flight; RUNTIME
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_clear(iobind_binding *binding, iobind_error *error);

/** Give up the captured graphs of a binding; the next run captures again. Graphs need a session with `graph_limit`, on CUDA, WebGPU or
 *  vdev (ORT 1.26 or newer). Rules for such a session:
 *  - Outputs are REUSE by default. Addresses that would change on each run are refused (NOT_SUPPORTED): FRESH outputs, outputs in host
 *    memory, states carried by MOVE, LIVE inputs from another location. SWAP needs a graph_limit of 2.
 *  - A run replays a captured one if all addresses and dims are the same. So must be the bytes of inputs that the session reads on the host.
 *    Any other run is captured, which takes as long as five runs (ten on WebGPU). Beyond graph_limit it is INVALID_STATE (not in a
 *    pipeline).
 *  - A graph belongs to its thread: runs of the binding by another thread are INVALID_STATE until its graphs are given up.
 *  - Runs of such a session are serialized. During a capture, all calls into that EP block.
 *  - iobind_session_create refuses (NOT_SUPPORTED): values that are not tensors, control flow, random operators, outputs whose size
 *    depends on data or that nodes on the CPU make. If ORT refuses the model, it is loaded once more to name the nodes.
 *  - No replay writes an output that was taken, or that is retained while other tensors are bound: such a graph is given up.
 *  - CUDA's EP, and any EP with ORT before 1.27, keeps such a graph until the session is destroyed. With 32 of them a session makes
 *    plain runs instead of new captures, and logs it.
 *  @return OK, also if there are none; INVALID_STATE a run is in flight; INVALID_ARGUMENT; RUNTIME
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_reset_graphs(iobind_binding *binding, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
