/** @file session.h
 *  A loaded model on its devices, its signature, and runs without a binding. */
#ifndef IOBIND_SESSION_H
#define IOBIND_SESSION_H

/* clang-format off: laid out by hand, as a page to read */

#include "runtime.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How ORT chooses the devices of a session that names none. */
typedef enum iobind_policy {
  IOBIND_POLICY_NONE = 0, /**< use `devices`; the CPU if there are none */
  IOBIND_POLICY_DEFAULT = 1,
  IOBIND_POLICY_PREFER_CPU = 2,
  IOBIND_POLICY_PREFER_NPU = 3,
  IOBIND_POLICY_PREFER_GPU = 4,
  IOBIND_POLICY_MAX_PERFORMANCE = 5,
  IOBIND_POLICY_MAX_EFFICIENCY = 6,
  IOBIND_POLICY_MIN_POWER = 7,
  IOBIND_POLICY_FORCE32 = 0x7FFFFFFF
} iobind_policy;

enum {
  IOBIND_SESSION_STRICT = 1u << 0,    /**< a node that none of `devices` can run is an error, not a silent fallback to the CPU */
  IOBIND_SESSION_PLACEMENT = 1u << 1, /**< record which EP runs which node, for iobind_session_get_node */
  IOBIND_SESSION_NO_MEMORY_REUSE = 1u << 2, /**< disable ORT's reuse of buffers within a run */
  IOBIND_SESSION_IDENTIFY = 1u << 3 /**< hash a model in memory and read the kinds of its states. The session's states can then be
                                         saved in files and rewound (states.h). A model file needs no flag: it is read at first
                                         need */
};

/** Verify the first runs of a session: repeat them on the CPU, with the same inputs and states, and compare the outputs.
 *
 *  - `runs` is the number for each binding and each set of dims of inputs that are not carried, up to 64 sets. All runs without a
 *    binding count as those of one binding.
 *  - A run that captures a graph is always verified: the plain run, the capture and the replay.
 *  - A run that differs fails with IOBIND_ERROR_RESULT and does not count. States that it has overwritten must be rebound.
 *  - A verified run on a stream blocks until it is complete.
 *  - NaN and infinities must be of the same kind. If the CPU's own runs differ in an output, the model is random: that output is not
 *    compared, and the log names it.
 *  - The first verified run loads the model for the CPU; iobind_session_create does if the model is in memory and has external data. If
 *    that fails the call returns the reason; IO if a file of the model has changed since the session was created. Until then a copy of a
 *    model in memory is kept.
 *  - Later verified runs read external data from its files: do not change them in place. A changed file is detected before the run (IO).
 *  - A session that computes on the CPU alone verifies nothing. A wrapped session cannot verify.
 *  - If `runs` is 0, the environment variable IOBIND_VERIFY sets it. If that is not set either, no run is verified. */
typedef struct iobind_verify {
  uint32_t runs;
  uint32_t reserved; /**< 0 */
  double absolute;   /**< 0 .. 1e30. Both 0: by type, as in iobind_tensor_compare; otherwise they apply to all floating-point types */
  double relative;
} iobind_verify;

typedef struct iobind_session_options {
  uint32_t struct_size;
  uint32_t flags;                        /**< IOBIND_SESSION_* */
  iobind_device *const *devices;         /**< in order of preference; the CPU is always the last resort (see STRICT). Several devices
                                              of one EP are passed to it together, but most EPs accept only one */
  size_t device_count;
  int32_t policy;                        /**< iobind_policy; only without `devices` */
  int32_t optimization;                  /**< 0 all, 1 none, 2 basic, 3 extended, 4 layout */
  int32_t intra_op_threads;              /**< 0: ORT's default, the number of cores; at most 1024, because ORT hangs on far more */
  int32_t inter_op_threads;              /**< 0: ORT's default; at most 1024 */
  const char *const *ep_keys;            /**< EP options: "KEY" for the first device that is not the CPU, or "NAME.KEY" with a
                                              catalogue name, such as "cuda.gpu_mem_limit" */
  const char *const *ep_values;          /**< one for each key */
  size_t ep_option_count;
  const char *const *config_keys;        /**< ORT's session config entries, such as "session.use_env_allocators" */
  const char *const *config_values;
  size_t config_count;
  const char *const *dim_names;          /**< free dimension overrides: fix the value of a symbolic dim of the model */
  const int64_t *dim_values;
  size_t dim_count;
  const char *profile;                   /**< record ORT's profile in a JSON file; the file's path begins with this (see
                                              iobind_session_end_profile). NULL: none */
  size_t graph_limit;                    /**< maximum number of captured graphs per binding; 0: none. See iobind_binding_reset_graphs */
  iobind_stream *stream;                 /**< the session computes on this stream and keeps it alive; runs of all its bindings are
                                              ordered there. It must be a native stream, and its device the only one of `devices` with
                                              streams. NULL: ORT's choice; on CUDA a stream that iobind creates */
  iobind_verify verify;                  /**< compare the first runs with the CPU's, for which the model is loaded there, too */
} iobind_session_options;
#define IOBIND_SESSION_OPTIONS_INIT                                                                                       \
  {sizeof(iobind_session_options), 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL,    \
   {0, 0, 0, 0}}

/** Load a model.
 *
 *  EP options:
 *  - The values of known options are checked (iobind_catalogue_get_option lists them).
 *  - An unknown key is passed on and logged. It is refused if the EP refuses it, or if only its case differs from a known key. CUDA's
 *    EP is asked in a way that returns an error instead of ending the process.
 *  - `user_compute_stream` also sets the flag that it needs. `tensorrt.KEY` puts TensorRT before a CUDA device.
 *  - With a policy, the options apply to the EPs that it chooses from.
 *  @param path  an ONNX or ORT file
 *  @return OK; NOT_FOUND no such file, or the model does not declare a dim of `dim_names`; IO the file cannot be read;
 *          INVALID_ARGUMENT; SHAPE a negative value of `dim_values`; WRONG_DEVICE a device of another runtime, or a stream of another
 *          device; NOT_SUPPORTED a stream that is not native, or a model whose captured graphs would be wrong; VERSION ORT is too old
 *          for graphs; INVALID_STATE a stream of a CUDA device was being captured, and the call has ended that capture; OUT_OF_MEMORY;
 *          RUNTIME ORT refuses the model or a device
 *  @threads any   @blocks yes, up to minutes for a large model   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create(iobind_runtime *runtime, const char *path,
                                                            const iobind_session_options *options, iobind_session **session,
                                                            iobind_error *error);

/** As iobind_session_create, from a model in memory. The memory may be freed after the call returns. Therefore
 *  `session.use_ort_model_bytes_directly` is refused.
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create_from_memory(iobind_runtime *runtime, const void *model,
                                                                        size_t bytes, const iobind_session_options *options,
                                                                        iobind_session **session, iobind_error *error);

/** Destroy a session. Its memory is freed when its bindings, and the tensors that they returned, are gone.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_session_destroy(iobind_session *session);

typedef struct iobind_session_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t input_count;
  size_t output_count;
  size_t node_count;       /**< nodes after optimization; 0 if they were not recorded, see device_node_count */
  int64_t opset;           /**< of the ONNX domain; 0 if unknown */
  int64_t model_version;
  const char *producer;    /**< "" if the model does not name it; likewise the next three */
  const char *graph_name;
  const char *domain;
  const char *description;
  size_t metadata_count;   /**< entries of iobind_session_get_metadata */
  size_t graph_count;      /**< captured graphs of all its bindings that can be replayed */
  size_t kept_graph_count; /**< released graphs that the EP keeps, see iobind_binding_reset_graphs */
  size_t device_node_count; /**< of node_count, nodes that ORT's CPU EP does not run; 0, if node_count is not: the device is idle.
                                 Nodes are recorded with IOBIND_SESSION_PLACEMENT. ORT 1.25 or newer also records them if `devices`
                                 names a device besides the CPU and graph_limit is 0 */
} iobind_session_info;
#define IOBIND_SESSION_INFO_INIT {sizeof(iobind_session_info), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0}

/** Describe the model. The strings remain valid as long as the session.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_info(const iobind_session *session, iobind_session_info *info,
                                                              iobind_error *error);

/** Get an entry of the model's own metadata (labels, a vocabulary), sorted by key. The strings remain valid as long as the session.
 *  @param index  0 .. metadata_count - 1
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_metadata(const iobind_session *session, size_t index, const char **key,
                                                                  const char **value, iobind_error *error);

typedef enum iobind_value_kind {
  IOBIND_VALUE_UNKNOWN = 0,
  IOBIND_VALUE_TENSOR = 1, /**< the only kind that can be bound */
  IOBIND_VALUE_SEQUENCE = 2,
  IOBIND_VALUE_MAP = 3,
  IOBIND_VALUE_OPAQUE = 4,
  IOBIND_VALUE_SPARSE = 5,
  IOBIND_VALUE_OPTIONAL = 6,
  IOBIND_VALUE_KIND_FORCE32 = 0x7FFFFFFF
} iobind_value_kind;

typedef struct iobind_value_info {
  uint32_t struct_size;
  int32_t kind;               /**< iobind_value_kind; `dtype` to `rank` are set only for tensors */
  const char *name;
  int32_t dtype;              /**< iobind_dtype */
  int32_t has_shape;          /**< 0: any rank is accepted */
  const int64_t *dims;        /**< `rank` dims, -1 for an open dim */
  const char *const *symbols; /**< `rank` names of open dims; "" for a fixed dim or one without a name; "?" does not count as a
                                   name */
  size_t rank;
  iobind_device *device;      /**< where the session reads the input or leaves the output. If any output is a constant or an input
                                   that is passed through, ORT reports no locations: other outputs are assumed to be on the first
                                   device */
  int32_t memory;             /**< iobind_memory of that device */
  uint32_t reserved;
  const char *memory_name;    /**< ORT's name of that memory */
} iobind_value_info;
#define IOBIND_VALUE_INFO_INIT {sizeof(iobind_value_info), 0, NULL, 0, 0, NULL, NULL, 0, NULL, 0, 0, NULL}

/** Describe an input of the session. The info's pointers remain valid as long as the session.
 *  @param index  0 .. input_count - 1, in the model's order
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_input(const iobind_session *session, size_t index,
                                                               iobind_value_info *info, iobind_error *error);

/** Describe an output of the session, as iobind_session_get_input.
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_output(const iobind_session *session, size_t index,
                                                                iobind_value_info *info, iobind_error *error);

/** Find the index of an input by its name. Call it once, before a loop.
 *  @return OK; NOT_FOUND (the message lists the model's names); INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_find_input(const iobind_session *session, const char *name, size_t *index,
                                                                iobind_error *error);

/** Find the index of an output by its name, as iobind_session_find_input.
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_find_output(const iobind_session *session, const char *name, size_t *index,
                                                                 iobind_error *error);

typedef struct iobind_node_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;
  const char *domain;  /**< "" is ONNX's own */
  const char *op_type; /**< such as "Conv" */
  const char *ep_name; /**< the EP that runs it */
} iobind_node_info;
#define IOBIND_NODE_INFO_INIT {sizeof(iobind_node_info), 0, NULL, NULL, NULL, NULL}

/** Get a node and the EP that runs it. The strings remain valid as long as the session. ORT 1.24 omits nodes that a plugin EP runs.
 *  @param index  0 .. node_count - 1, grouped by EP. device_node_count of iobind_session_info describes when nodes are recorded
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_node(const iobind_session *session, size_t index,
                                                              iobind_node_info *info, iobind_error *error);

/** Create a tensor by the allocator that the session's runs use. Otherwise it is a tensor like any other. It keeps the session
 *  alive.
 *  - On CUDA and on the CPU the memory is in the session's arena, which keeps released memory for later tensors and runs.
 *  - On CUDA it counts towards `gpu_mem_limit`. The driver is called only if the arena has no free memory; iobind_tensor_create calls
 *    it each time.
 *  @param device  one of the session's devices
 *  @param memory  DEFAULT, or HOST_ACCESSIBLE if the device has it
 *  @param dims    `rank` dims of 0 or more
 *  @return OK; WRONG_DEVICE not a device of the session; OUT_OF_MEMORY, also above the arena's limit; SHAPE; DTYPE; INVALID_ARGUMENT;
 *          RUNTIME; NOT_SUPPORTED the device has no such memory, ORT has no tensors of that type, the type is strings, or the EP is
 *          DirectML
 *  @threads any   @blocks if the EP's allocator does   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create_tensor(iobind_session *session, iobind_device *device,
                                                                   iobind_memory memory, iobind_dtype dtype, const int64_t *dims,
                                                                   size_t rank, iobind_tensor **tensor, iobind_error *error);

/** End the profile of a session created with `profile` and write its file. No run may be in flight; ORT does not check this. Later
 *  runs are not recorded.
 *  @param path  receives the file's path; valid as long as the session
 *  @return OK; INVALID_STATE no profile is being recorded; RUNTIME, OUT_OF_MEMORY
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_end_profile(iobind_session *session, const char **path,
                                                                 iobind_error *error);

/* ---- runs ------------------------------------------------------------------------------------------------------------ */

typedef struct iobind_run_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< none yet */
  int32_t log_level;              /**< iobind_log_level of these runs */
  uint32_t reserved;
  const char *tag;                /**< the name of the runs in ORT's log and profile; NULL: none */
  const char *const *config_keys; /**< ORT's run config entries, such as "memory.enable_memory_arena_shrinkage" */
  const char *const *config_values;
  size_t config_count;
} iobind_run_options;
#define IOBIND_RUN_OPTIONS_INIT {sizeof(iobind_run_options), 0, 0, 0, NULL, NULL, NULL, 0}

/** Where an output is placed. */
typedef enum iobind_placement {
  IOBIND_PLACE_HOST = 0,   /**< copied to host memory */
  IOBIND_PLACE_DEVICE = 1, /**< where the session leaves it */
  IOBIND_PLACE_NONE = 2,   /**< not fetched */
  IOBIND_PLACEMENT_FORCE32 = 0x7FFFFFFF
} iobind_placement;

/** A run without a binding. The count of a NULL array is 0; any other count is the session's input_count or output_count. */
typedef struct iobind_run_request {
  uint32_t struct_size;
  uint32_t reserved;                 /**< 0 */
  iobind_tensor *const *inputs;      /**< in the session's order; on the host, or where the session reads the input; their content is
                                          ready */
  size_t input_count;
  iobind_tensor *const *targets;     /**< tensors that the run writes; NULL, or a NULL entry: a new tensor */
  size_t target_count;
  const int32_t *placements;         /**< iobind_placement of outputs without a target; NULL: all on the host */
  size_t placement_count;
  const iobind_run_options *options; /**< NULL: the defaults */
} iobind_run_request;
#define IOBIND_RUN_REQUEST_INIT {sizeof(iobind_run_request), 0, NULL, 0, NULL, 0, NULL, 0, NULL}

/** Run once without a binding. This is the simplest way to a result, and the baseline for a binding: each run may copy all inputs and
 *  outputs over the link. With targets, placements or options the call uses a temporary binding; in a loop a binding is cheaper.
 *  @param outputs  receives `output_count` tensors, which the caller releases; NULL for outputs that are not tensors or not fetched.
 *                  For a target it is that tensor, with a new reference
 *  @return OK; DTYPE, SHAPE, WRONG_DEVICE an input or a target does not match; NOT_SUPPORTED an input is not a tensor;
 *          INVALID_ARGUMENT, also a wrong count; INVALID_STATE no output is fetched; RUNTIME ORT failed; OUT_OF_MEMORY
 *  @threads any   @blocks yes   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_run(iobind_session *session, const iobind_run_request *request,
                                                         iobind_tensor **outputs, size_t output_count, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
