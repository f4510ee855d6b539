/** @file iobind.h
 *  iobind: tensors stay where the model runs. I/O binding for ONNX Runtime (ORT) on any execution provider (EP).
 *
 *  The rules that hold for every function:
 *  - A function that can fail returns an iobind_status and takes a caller-owned `iobind_error *` last. It may be NULL, and
 *    is untouched when the call succeeds. On failure every out pointer is NULL and nothing has changed, unless said otherwise.
 *  - Strings in are NUL-terminated UTF-8 and copied. Strings out are borrowed; each comment says until when.
 *  - Options are structs: `struct_size` first, set by the _INIT macro; all other fields zero means the default. A NULL
 *    options pointer is all defaults. Info structs are filled the same way: set `struct_size` with the _INIT macro first.
 *  - `create` pairs with `destroy`, `retain` with `release`; NULL is a no-op there. A child keeps its parents alive, so
 *    objects may be destroyed in any order. `get` borrows, `take` hands over, `wrap` borrows the caller's memory.
 *  - A call without a stream has finished when it returns. A call with a stream is ordered on it, and an event says when
 *    it is done.
 *  - Sizes are in bytes (size_t), dims in elements (int64_t), times in nanoseconds (uint64_t).
 *  - `@threads any`: from any thread at any time. `shared-read`: from several threads, while none changes the object.
 *    `serial`: one call at a time for each object. An EP that crashes where two threads use it (WebGPU) is entered by one
 *    thread after the other: calls that reach it wait for each other.
 *  - A child of fork cannot go on with its parent's objects: what can fail there is INVALID_STATE, and destroying returns. */
#ifndef IOBIND_H
#define IOBIND_H

/* clang-format off: laid out by hand, as a page to read */

#include <stddef.h>
#include <stdint.h>

#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#if defined(IOBIND_BUILD)
#define IOBIND_API __declspec(dllexport)
#elif defined(IOBIND_STATIC)
#define IOBIND_API
#else
#define IOBIND_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define IOBIND_API __attribute__((visibility("default")))
#else
#define IOBIND_API
#endif

#if defined(__GNUC__)
#define IOBIND_CHECK __attribute__((warn_unused_result)) /* the status of a call must be looked at */
#else
#define IOBIND_CHECK
#endif

typedef struct iobind_runtime iobind_runtime; /**< one loaded ORT: its environment, EP libraries and devices */
typedef struct iobind_device iobind_device;   /**< a device of an EP; the runtime's, never destroyed by a caller */
typedef struct iobind_stream iobind_stream;   /**< an ordered queue of work on a device */
typedef struct iobind_event iobind_event;     /**< a point in a stream that can be waited for */
typedef struct iobind_tensor iobind_tensor;   /**< typed, shaped memory on a device or on the host */
typedef struct iobind_session iobind_session; /**< a model on its devices */
typedef struct iobind_binding iobind_binding; /**< a session's inputs and outputs, bound to memory */
typedef struct iobind_audit iobind_audit;       /**< which bytes move on a run of a binding, where and why */
typedef struct iobind_pipeline iobind_pipeline; /**< a session's runs over many items, with copies and runs overlapped */

/* ---- support: status, error, version ------------------------------------------------------------------------------ */

/** Every status: name, value, meaning. */
#define IOBIND_STATUS_MAP(XX)                                                                      \
  XX(OK, 0, "success")                                                                             \
  XX(INVALID_ARGUMENT, 1, "an argument is wrong in itself")                                        \
  XX(INVALID_STATE, 2, "the object is not in a state for this call")                               \
  XX(NOT_FOUND, 3, "no such file, name, index or device")                                          \
  XX(NOT_SUPPORTED, 4, "the device, the EP or this version cannot do it")                          \
  XX(OUT_OF_MEMORY, 5, "host or device memory is exhausted")                                       \
  XX(IO, 6, "a file could not be read or written")                                                 \
  XX(VERSION, 7, "ONNX Runtime or a library is too old or too new")                                \
  XX(RUNTIME, 8, "ONNX Runtime refused; ort_code and the message say why")                         \
  XX(DEVICE, 9, "the memory lives, or the work would run, on another device than it must")         \
  XX(SHAPE, 10, "rank or dims do not fit")                                                         \
  XX(DTYPE, 11, "the element type does not fit")                                                   \
  XX(TIMEOUT, 12, "the time given was not enough")                                                 \
  XX(CANCELLED, 13, "the run was cancelled")                                                       \
  XX(INTERNAL, 14, "a defect of iobind: please report it")

typedef enum iobind_status {
#define IOBIND_STATUS_VALUE(name, value, text) IOBIND_##name = value,
  IOBIND_STATUS_MAP(IOBIND_STATUS_VALUE)
#undef IOBIND_STATUS_VALUE
  IOBIND_STATUS_FORCE32 = 0x7FFFFFFF
} iobind_status;

/** Details of a failed call; 512 bytes, the caller's, nothing in it to release. */
typedef struct iobind_error {
  uint32_t struct_size; /**< IOBIND_ERROR_INIT sets it */
  int32_t status;       /**< the iobind_status that the call returned */
  int32_t ort_code;     /**< ORT's OrtErrorCode where ORT refused, otherwise 0 */
  uint32_t reserved;    /**< 0 */
  char message[496];    /**< one line, UTF-8: what failed, what was expected, what came */
} iobind_error;
#define IOBIND_ERROR_INIT {sizeof(iobind_error), 0, 0, 0, {0}}

/** The version of the loaded library, packed as IOBIND_VERSION_NUMBER is.
 *  @threads any   @since 0.1 */
IOBIND_API uint32_t iobind_version(void);

/** The version of the loaded library as text, such as "0.2.0"; lives forever.
 *  @threads any   @since 0.1 */
IOBIND_API const char *iobind_version_string(void);

/** The name of a status, such as "OUT_OF_MEMORY"; "UNKNOWN" for any other number. Lives forever.
 *  @threads any   @since 0.1 */
IOBIND_API const char *iobind_status_name(int32_t status);

/* ---- runtime: one loaded ORT, its EP libraries -------------------------------------------------------------------- */

typedef enum iobind_log_level {
  IOBIND_LOG_DEFAULT = 0, /**< warnings and errors */
  IOBIND_LOG_VERBOSE = 1,
  IOBIND_LOG_INFO = 2,
  IOBIND_LOG_WARNING = 3,
  IOBIND_LOG_ERROR = 4,
  IOBIND_LOG_LEVEL_FORCE32 = 0x7FFFFFFF
} iobind_log_level;

/** Receives iobind's and ORT's log lines. `message` is one line without a newline, valid during the call. Called on any
 *  thread, ORT's own included, possibly on several at once; it must not call iobind. */
typedef void (*iobind_log_function)(void *context, int32_t level, const char *message);

enum {
  IOBIND_RUNTIME_TELEMETRY = 1u << 0,      /**< leave ORT's telemetry as it is; iobind switches it off otherwise */
  IOBIND_RUNTIME_NO_EP_SEARCH = 1u << 1,   /**< only `ep_libraries`: neither IOBIND_EP_LIBRARIES nor the runtime folder */
  IOBIND_RUNTIME_SOFTWARE_DEVICES = 1u << 2 /**< let EPs offer software adapters on a machine without a GPU: WebGPU over a
                                                software Vulkan driver, the runtime folder's if the loader has none set */
};

typedef struct iobind_runtime_options {
  uint32_t struct_size;
  uint32_t flags;                    /**< IOBIND_RUNTIME_* */
  const char *ort_library;           /**< ORT's library, or its folder; NULL: search (see iobind_runtime_create) */
  const void *ort_api_base;          /**< attach to a loaded ORT: its `const OrtApiBase *` */
  const void *ort_api;               /**< attach to a loaded ORT: its `const OrtApi *`; one of the three ort_ fields at most */
  const char *const *ep_libraries;   /**< EP libraries to register: "FILE", "NAME=FILE" or a folder to look in */
  size_t ep_library_count;
  iobind_log_function log;           /**< NULL: nothing is logged, and ORT is kept off stderr */
  void *log_context;                 /**< handed to `log`; must live until the last reference and all objects are gone */
  int32_t log_level;                 /**< the least severe iobind_log_level that reaches `log` */
  uint32_t reserved;
} iobind_runtime_options;
#define IOBIND_RUNTIME_OPTIONS_INIT {sizeof(iobind_runtime_options), 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0}

/** Find and load ORT (1.24 or newer), or attach to the one handed over, and register the EP libraries that are found.
 *
 *  Where ORT is looked for: `ort_library`; then the environment variable ORT_NATIVE_LIB_PATH (a file or a folder); a copy
 *  that the process has loaded already; the folder of libiobind; the runtime folder `iobind/` beside libiobind; the
 *  loader's own names. EP libraries: `ep_libraries`, then IOBIND_EP_LIBRARIES (the same forms, separated by ':', on Windows
 *  ';'), then those of the EP catalogue in the folder of libiobind, in `ep/` of the runtime folder and beside ORT. A file
 *  named in `ep_libraries` that does not load is an error; any other, and what a folder holds, is reported by
 *  iobind_runtime_get_ep. An EP library that the host program has registered before is used as it is; one that another copy
 *  of ORT in the process has is refused. A path that is given, or set in ORT_NATIVE_LIB_PATH, is the end of the search.
 *  Relative paths begin at the current folder. A program that runs setuid ignores both variables.
 *
 *  There is one runtime for each loaded ORT in a process: a second call for the same ORT returns the first one's object,
 *  with one reference more; its other options are ignored, except `ep_libraries`, which are registered.
 *  ORT's telemetry is off (ORT_DISABLE_TELEMETRY=1 is put into the environment before ORT loads) unless asked for.
 *  @return OK; NOT_FOUND no ORT: the message says what was tried, in order, or no file of `ep_libraries`; VERSION ORT is
 *          older than 1.24, or the library is not ORT; NOT_SUPPORTED an unknown flag, or an EP library that another copy of
 *          ORT has; INVALID_ARGUMENT; RUNTIME; OUT_OF_MEMORY
 *  @threads any, but for setenv's own rule: no other thread may read the environment during the first call   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_create(const iobind_runtime_options *options, iobind_runtime **runtime,
                                                            iobind_error *error);

/** Give a reference back. With the last one, and when no tensor, session, binding, stream or event of it is left, the EP
 *  libraries that iobind registered are unregistered and the environment is released; ORT's library stays loaded.
 *  @threads any   @since 0.1 */
IOBIND_API void iobind_runtime_destroy(iobind_runtime *runtime);

typedef struct iobind_runtime_info {
  uint32_t struct_size;
  uint32_t ort_api_version; /**< the version of ORT's C interface in use, such as 29 */
  const char *ort_version;  /**< such as "1.31.1" */
  const char *ort_library;  /**< the file it was loaded from; "" where an attached one cannot be told */
  const char *found_by;     /**< which step of the search found it, such as "ORT_NATIVE_LIB_PATH" */
  size_t device_count;
  size_t ep_count;
} iobind_runtime_info;
#define IOBIND_RUNTIME_INFO_INIT {sizeof(iobind_runtime_info), 0, NULL, NULL, NULL, 0, 0}

/** What was loaded. The strings live as long as the runtime.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_info(const iobind_runtime *runtime, iobind_runtime_info *info,
                                                              iobind_error *error);

/** Register an EP library under a name of the caller's choice. Its devices follow those that are known already.
 *  @param name  registration name; NULL: the EP catalogue's name for that file, otherwise the file's name
 *  @param path  the library's file
 *  @return OK, also where it is registered already under that name; NOT_FOUND no such file; RUNTIME it does not load: the
 *          message has the loader's reason, such as a library that is missing; NOT_SUPPORTED another copy of ORT in the
 *          process has it; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_register_ep(iobind_runtime *runtime, const char *name, const char *path,
                                                                 iobind_error *error);

typedef struct iobind_ep_info {
  uint32_t struct_size;
  int32_t status;      /**< OK, or why the library is not in use */
  const char *name;    /**< registration name */
  const char *path;    /**< the library's file, absolute; "" if the host program registered it */
  const char *message; /**< "" or the reason */
} iobind_ep_info;
#define IOBIND_EP_INFO_INIT {sizeof(iobind_ep_info), 0, NULL, NULL, NULL}

/** An EP library that was found, registered or not. The strings live as long as the runtime.
 *  @param index  0 .. ep_count - 1, in the order in which they were met
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_ep(const iobind_runtime *runtime, size_t index, iobind_ep_info *info,
                                                            iobind_error *error);

/* ---- devices ------------------------------------------------------------------------------------------------------ */

/** Which memory of a device. */
typedef enum iobind_memory {
  IOBIND_MEMORY_DEFAULT = 0,         /**< where the device computes */
  IOBIND_MEMORY_HOST_ACCESSIBLE = 1, /**< host memory that the device reads and writes directly: pinned memory on CUDA */
  IOBIND_MEMORY_FORCE32 = 0x7FFFFFFF
} iobind_memory;

typedef enum iobind_hardware {
  IOBIND_HARDWARE_CPU = 0,
  IOBIND_HARDWARE_GPU = 1,
  IOBIND_HARDWARE_NPU = 2,
  IOBIND_HARDWARE_FORCE32 = 0x7FFFFFFF
} iobind_hardware;

enum {
  IOBIND_DEVICE_HOST_MEMORY = 1u << 0,     /**< its default memory is plain host memory: nothing crosses a link */
  IOBIND_DEVICE_HOST_ACCESSIBLE = 1u << 1, /**< has host-accessible memory */
  IOBIND_DEVICE_GPU_MEMORY = 1u << 2,      /**< its default memory is GPU memory, whatever the hardware type says */
  IOBIND_DEVICE_NPU_MEMORY = 1u << 3,      /**< its default memory is NPU memory */
  IOBIND_DEVICE_ADDRESSABLE = 1u << 4,     /**< an address inside a tensor is an address: views at an offset work */
  IOBIND_DEVICE_STREAMS = 1u << 5          /**< has streams of its own; elsewhere a stream is a thread of iobind's */
};

typedef struct iobind_device_info {
  uint32_t struct_size;
  uint32_t flags;          /**< IOBIND_DEVICE_* */
  const char *spec;        /**< finds this device again, such as "webgpu:0" */
  const char *ep_name;     /**< such as "WebGpuExecutionProvider" */
  const char *ep_vendor;   /**< who made the EP, such as "Microsoft" */
  const char *vendor;      /**< who made the hardware; may be "" */
  const char *memory_name; /**< ORT's name of the default memory, such as "WebGPU_Buf" */
  uint32_t vendor_id;      /**< PCI vendor id of the hardware, 0 where it has none */
  uint32_t device_id;      /**< PCI device id of the hardware */
  int32_t hardware;        /**< iobind_hardware: what the hardware says it is */
  uint32_t ordinal;        /**< N of "name:N" */
  size_t metadata_count;   /**< entries of iobind_device_get_metadata */
} iobind_device_info;
#define IOBIND_DEVICE_INFO_INIT {sizeof(iobind_device_info), 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0}

/** A device by its number: 0 .. device_count - 1. Number 0 is always the CPU. The device lives as long as the runtime; one
 *  device is always the same pointer.
 *  @return the device, or NULL where the index is out of range
 *  @threads any   @since 0.1 */
IOBIND_API iobind_device *iobind_runtime_get_device(const iobind_runtime *runtime, size_t index);

/** Resolve a device spec: an ordered list, the first that works is taken. A device works when a tiny session on it runs;
 *  that is tried once for each device and remembered.
 *
 *  `cpu`, `cuda[:N]`, `webgpu[:N]`, `dml[:N]`, `openvino[:N]`, `vdev[:N]` and other names of the EP catalogue; `gpu[:N]`,
 *  `npu[:N]` a device whose memory or hardware is a GPU or NPU; `ep=NAME[:N]` by ORT's EP name; `vendor=0xHHHH[:N]` by PCI
 *  vendor id, which never means the CPU. N counts from 0 among those that match. With the suffix `/pinned` the spec means the
 *  device's host-accessible memory (`cuda_pinned` is an alias of `cuda/pinned`). Example: "cuda,webgpu,cpu".
 *  @param memory  receives the kind of memory; NULL: a spec with `/pinned` is an error
 *  @return OK; NOT_FOUND none is there; DEVICE some are there, none works: the message has each reason;
 *          INVALID_ARGUMENT not a spec
 *  @threads any   @blocks yes: the first use of a device starts its driver   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_find_device(iobind_runtime *runtime, const char *spec,
                                                                 iobind_device **device, iobind_memory *memory,
                                                                 iobind_error *error);

/** What a device is. The strings live as long as the runtime.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_info(const iobind_device *device, iobind_device_info *info,
                                                             iobind_error *error);

/** A metadata entry of the device as ORT gives it: first those of the EP, then the hardware's, then the EP's default options.
 *  The strings live as long as the runtime.
 *  @param index  0 .. metadata_count - 1
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_metadata(const iobind_device *device, size_t index, const char **key,
                                                                 const char **value, iobind_error *error);

/** Whether the device works: runs a tiny session on it, once; later calls repeat that answer.
 *  @return OK; DEVICE it does not: the message says why
 *  @threads any   @blocks yes, up to seconds the first time   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_check(iobind_device *device, iobind_error *error);

/** What iobind itself moved and allocated on a device since the runtime was made. What ORT copies is not in it: in a plain run,
 *  between nodes, or to an output that is bound elsewhere than where the session leaves it (see iobind_audit_create). */
typedef struct iobind_device_counters {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t upload_bytes;   /**< host to device */
  uint64_t upload_count;
  uint64_t download_bytes; /**< device to host */
  uint64_t download_count;
  uint64_t local_bytes;    /**< within the device's memory */
  uint64_t local_count;
  uint64_t allocated_bytes; /**< device and host-accessible memory that tensors of this device hold now */
  uint64_t allocation_count; /**< allocations ever made */
} iobind_device_counters;
#define IOBIND_DEVICE_COUNTERS_INIT {sizeof(iobind_device_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Read a device's counters.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_counters(const iobind_device *device, iobind_device_counters *counters,
                                                                 iobind_error *error);

/* ---- memory: streams and events ----------------------------------------------------------------------------------- */

typedef struct iobind_stream_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< none yet */
  const char *const *option_keys; /**< options of the EP for its stream, passed on as they are */
  const char *const *option_values;
  size_t option_count;
} iobind_stream_options;
#define IOBIND_STREAM_OPTIONS_INIT {sizeof(iobind_stream_options), 0, NULL, NULL, 0}

/** Make a stream: an ordered queue of copies and runs. Where the device has IOBIND_DEVICE_STREAMS it is the EP's own, and what
 *  is submitted returns at once. What is written or copied from pageable memory (64 KiB to 256 MiB), and what is read or
 *  copied there (up to 256 MiB), goes through four buffers of pinned memory of the stream's, and waits where all are in use;
 *  others wait as the EP says. On any other device it is a queue with a thread of iobind's: a copy is done at
 *  once where nothing is before it; runs, and what comes behind them, are done by the thread. There a failure stays on the
 *  stream: what is behind it is not done and reports the same error, until iobind_stream_synchronize has returned it.
 *  @return OK; NOT_SUPPORTED options for a device whose EP has no streams; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME the EP
 *          gives none
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *options,
                                                           iobind_stream **stream, iobind_error *error);

/** Destroy a stream; waits for the work that is on it. Its events count as passed afterwards.
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API void iobind_stream_destroy(iobind_stream *stream);

/** The EP's native stream, for other libraries that submit work to it (on CUDA a cudaStream_t); NULL where the device has no
 *  streams of its own. To have ORT work on a stream of the caller's instead, give that to the session as an EP option (on CUDA
 *  `user_compute_stream`). Lives as long as the stream.
 *  @threads any   @since 0.1 */
IOBIND_API void *iobind_stream_native(const iobind_stream *stream);

/** Wait on the host until everything submitted to the stream so far has finished.
 *  @return OK; a failure of a run or copy on the stream since the last call; RUNTIME the device failed;
 *          INVALID_ARGUMENT
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error);

/** Order all later work of the stream behind an event of any stream, without stopping the host: by the device between two
 *  streams of one EP, by the stream's thread on a device without streams. An event that was never recorded orders nothing.
 *  @return OK; INVALID_ARGUMENT; RUNTIME; the failure of work before the event that has passed already
 *  @threads serial for the stream   @blocks where an EP's stream waits for one of another EP   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error);

/** Make an event; it is not recorded, which counts as passed.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_create(iobind_device *device, iobind_event **event, iobind_error *error);

/** Destroy an event, also while something waits for it or is bound with it: the work before it goes on, and so do those waits.
 *  @threads serial   @since 0.1 */
IOBIND_API void iobind_event_destroy(iobind_event *event);

/** Record the event at the present end of a stream of the same device; replaces what it held.
 *  @return OK; DEVICE the stream is another device's; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for the event and the stream; other threads may wait for the event   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error);

/** Wait on the host for the event.
 *  @return OK; the failure of a run or copy that was before it, each time until it is recorded again; RUNTIME the device
 *          failed; INVALID_ARGUMENT
 *  @threads any   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_wait(iobind_event *event, iobind_error *error);

/** Whether the event has passed, without waiting for it. ORT cannot be asked, so that on an EP's stream, and on a device that
 *  queues by itself (WebGPU), a thread of iobind's waits instead: started by the first such question to a stream. Where that
 *  thread could not, the next question waits itself.
 *  @param done  receives 1 or 0
 *  @return OK; as iobind_event_wait where it has passed; OUT_OF_MEMORY
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error);

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/** Element types; the values are those of ORT's C interface, which are ONNX's but for the last three. */
typedef enum iobind_dtype {
  IOBIND_UNDEFINED = 0,
  IOBIND_FLOAT32 = 1,
  IOBIND_UINT8 = 2,
  IOBIND_INT8 = 3,
  IOBIND_UINT16 = 4,
  IOBIND_INT16 = 5,
  IOBIND_INT32 = 6,
  IOBIND_INT64 = 7,
  IOBIND_STRING = 8, /**< host memory only; its elements have no byte size */
  IOBIND_BOOL = 9,
  IOBIND_FLOAT16 = 10,
  IOBIND_FLOAT64 = 11,
  IOBIND_UINT32 = 12,
  IOBIND_UINT64 = 13,
  IOBIND_COMPLEX64 = 14,  /**< known by name and size; ORT has no tensors of it */
  IOBIND_COMPLEX128 = 15, /**< as COMPLEX64 */
  IOBIND_BFLOAT16 = 16,
  IOBIND_FLOAT8E4M3FN = 17,
  IOBIND_FLOAT8E4M3FNUZ = 18,
  IOBIND_FLOAT8E5M2 = 19,
  IOBIND_FLOAT8E5M2FNUZ = 20,
  IOBIND_UINT4 = 21,      /**< packed, two to a byte, the first in the low bits */
  IOBIND_INT4 = 22,       /**< packed */
  IOBIND_FLOAT4E2M1 = 23, /**< packed */
  IOBIND_UINT2 = 24,      /**< packed, four to a byte; ORT 1.27 and older make no tensors of this type and the next two */
  IOBIND_INT2 = 25,       /**< packed */
  IOBIND_FLOAT8E8M0 = 26,
  IOBIND_DTYPE_FORCE32 = 0x7FFFFFFF
} iobind_dtype;

/** The most dims that a tensor can have. */
#define IOBIND_MAX_RANK 16

/** The name of an element type, such as "float32"; "unknown" for any other number. Lives forever.
 *  @threads any   @since 0.1 */
IOBIND_API const char *iobind_dtype_name(int32_t dtype);

/** Bits of one element: 2, 4, 8 .. 128; 0 for STRING and for a number that is not an element type.
 *  @threads any   @since 0.1 */
IOBIND_API uint32_t iobind_dtype_bits(int32_t dtype);

/** Bytes of a dense tensor: ceil(elements * bits / 8), 0 where a dim is 0.
 *  @param dims  `rank` dims of 0 or more; may be NULL where rank is 0 (a scalar: one element)
 *  @return OK; SHAPE a negative dim, a rank above IOBIND_MAX_RANK, or a product that overflows; DTYPE no such type, or
 *          STRING; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_dtype_get_bytes(iobind_dtype dtype, const int64_t *dims, size_t rank,
                                                             size_t *bytes, iobind_error *error);

/** Make a tensor. Its content is undefined, strings are empty.
 *  @param memory  DEFAULT, or HOST_ACCESSIBLE where the device has it. Host tensors are tensors of the CPU's default memory
 *  @param dims    `rank` dims of 0 or more
 *  @return OK; OUT_OF_MEMORY, also a buffer that the device gives out but cannot hold; SHAPE; DTYPE; INVALID_ARGUMENT;
 *          RUNTIME; NOT_SUPPORTED the device has no such memory, or cannot hold that type (strings)
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_create(iobind_device *device, iobind_memory memory, iobind_dtype dtype,
                                                           const int64_t *dims, size_t rank, iobind_tensor **tensor,
                                                           iobind_error *error);

/** Called once when a wrapped tensor's memory is no longer used; on any thread; must not call iobind. */
typedef void (*iobind_deleter)(void *context, void *data);

/** Make a tensor over memory of the caller's: host memory on the CPU device, or device memory. Dense, row-major.
 *  @param data     the first element; NULL only where the tensor has 0 bytes. On a device without
 *                  IOBIND_DEVICE_ADDRESSABLE: the handle that its EP uses (a WGPUBuffer)
 *  @param bytes    size of that memory; the tensor's bytes or more
 *  @param deleter  may be NULL: the memory must then outlive the tensor and every run that uses it. If the call does not
 *                  return OK, the memory stays the caller's and the deleter is not called
 *  @return OK; INVALID_ARGUMENT NULL data or too few bytes; SHAPE; DTYPE strings cannot be wrapped; NOT_SUPPORTED no such
 *          memory; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_wrap(iobind_device *device, iobind_memory memory, iobind_dtype dtype,
                                                         const int64_t *dims, size_t rank, void *data, size_t bytes,
                                                         iobind_deleter deleter, void *context, iobind_tensor **tensor,
                                                         iobind_error *error);

/** Make a tensor over a part of another one: same memory, no copy. Keeps the other one alive.
 *  @param offset  in bytes from the start. Anything but 0 needs IOBIND_DEVICE_ADDRESSABLE; elsewhere the view begins at 0
 *                 and its bytes are a multiple of 4, or all
 *  @return OK; INVALID_ARGUMENT the part does not lie inside the tensor; NOT_SUPPORTED a part that the device cannot address
 *          (iobind_tensor_read and iobind_tensor_write reach it), or a tensor of strings; SHAPE; DTYPE
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_view(iobind_tensor *tensor, size_t offset, iobind_dtype dtype,
                                                         const int64_t *dims, size_t rank, iobind_tensor **view,
                                                         iobind_error *error);

/** Make a view of `count` entries of the leading axis, from `start` on: dims {count, d1, d2, ...}.
 *  @return as iobind_tensor_view; SHAPE a scalar, or a part outside the axis; NOT_SUPPORTED also where the part of a packed
 *          type does not begin on a byte
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_slice(iobind_tensor *tensor, int64_t start, int64_t count,
                                                          iobind_tensor **view, iobind_error *error);

/** Take one reference more; returns the tensor.
 *  @threads any   @since 0.1 */
IOBIND_API iobind_tensor *iobind_tensor_retain(iobind_tensor *tensor);

/** Give a reference back; with the last one the memory is freed, or the deleter called.
 *  @threads any   @since 0.1 */
IOBIND_API void iobind_tensor_release(iobind_tensor *tensor);

typedef struct iobind_tensor_info {
  uint32_t struct_size;
  int32_t dtype;         /**< iobind_dtype */
  const int64_t *dims;   /**< `rank` dims; lives as long as the tensor */
  size_t rank;
  size_t bytes;          /**< 0 for strings */
  iobind_device *device;
  int32_t memory;        /**< iobind_memory */
  int32_t host_readable; /**< 1: iobind_tensor_get_data works */
} iobind_tensor_info;
#define IOBIND_TENSOR_INFO_INIT {sizeof(iobind_tensor_info), 0, NULL, 0, 0, NULL, 0, 0}

/** What a tensor is.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_info(const iobind_tensor *tensor, iobind_tensor_info *info,
                                                             iobind_error *error);

/** The address of the data, on whatever device: for other libraries that work there (a CUDA kernel). NULL where the tensor
 *  has 0 bytes or holds strings. Lives as long as the tensor; not to be touched by the host where the memory is a device's.
 *  @threads any   @since 0.1 */
IOBIND_API void *iobind_tensor_address(const iobind_tensor *tensor);

/** Look at the data from the host: only where the host can read the memory, and only as the type that it has.
 *  @param dtype  the element type that the caller will read
 *  @param data   receives the address, NULL where the tensor has 0 bytes; lives as long as the tensor
 *  @return OK; DEVICE the tensor is in device memory: iobind_tensor_read copies it; DTYPE another type, or strings
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_data(iobind_tensor *tensor, iobind_dtype dtype, void **data,
                                                             iobind_error *error);

/** Write host memory into a tensor, whole or a part. On a device without IOBIND_DEVICE_ADDRESSABLE a part that does not begin
 *  at 0, or ends neither on a unit of 4 bytes nor with the tensor, is staged: one download and one upload of offset + bytes,
 *  rounded up to the unit, counted and logged.
 *  @param offset  where in the tensor, in bytes
 *  @param data    `bytes` bytes, ready now; with a stream they must stay as they are until the stream has passed the copy
 *  @param stream  NULL: done on return. Otherwise a stream of the tensor's device
 *  @return OK; INVALID_ARGUMENT the part does not lie inside the tensor; DTYPE strings; DEVICE another device's stream; RUNTIME
 *  @threads serial for each tensor   @blocks where stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_write(iobind_tensor *tensor, size_t offset, const void *data, size_t bytes,
                                                          iobind_stream *stream, iobind_error *error);

/** Read a tensor, whole or a part, into host memory. Parameters and errors as iobind_tensor_write; a part that
 *  does not begin at 0 on a device without IOBIND_DEVICE_ADDRESSABLE is staged: one download of offset + bytes.
 *  With a stream the bytes are there when the host has seen the stream pass the copy: by waiting for an event behind it, by
 *  one that says 1 when asked, or by iobind_stream_synchronize. Where the stream has failed they do not come.
 *  @threads shared-read   @blocks where stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_read(const iobind_tensor *tensor, size_t offset, void *data, size_t bytes,
                                                         iobind_stream *stream, iobind_error *error);

/** Copy the content of tensors into others, pair by pair, between any two places. A pair must have the same element type and
 *  dims and must not overlap. Pairs with the same two devices go to the EP together. Between two devices whose EPs do not
 *  know each other the data pass through the host, one download and one upload.
 *  @param sources, targets  `count` tensors each
 *  @param stream            NULL: done on return. Otherwise a stream of a device that takes part; what is copied to pageable
 *                           memory is there as what iobind_tensor_read brings
 *  @return OK; DTYPE, SHAPE a pair differs: the message says which; INVALID_ARGUMENT overlap; NOT_SUPPORTED strings;
 *          DEVICE another runtime, or a stream of a device that takes no part; RUNTIME.
 *          After a failure the targets are undefined
 *  @threads serial for the targets   @blocks where stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets,
                                                         size_t count, iobind_stream *stream, iobind_error *error);

/** Read one element of a tensor of strings.
 *  @param buffer    receives up to `capacity` bytes, not NUL-terminated; may be NULL where capacity is 0
 *  @param needed    receives the element's bytes
 *  @return OK, also where the buffer is too small: compare `needed`; DTYPE not strings; INVALID_ARGUMENT index out of range
 *  @threads shared-read   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_string(const iobind_tensor *tensor, size_t index, char *buffer,
                                                               size_t capacity, size_t *needed, iobind_error *error);

/** Set one element of a tensor of strings.
 *  @param text  UTF-8, NUL-terminated, copied
 *  @return OK; DTYPE not strings; INVALID_ARGUMENT index out of range; OUT_OF_MEMORY
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_set_string(iobind_tensor *tensor, size_t index, const char *text,
                                                               iobind_error *error);

/* ---- sessions ----------------------------------------------------------------------------------------------------- */

/** How ORT chooses devices by itself where a session names none. */
typedef enum iobind_policy {
  IOBIND_POLICY_NONE = 0, /**< the devices that the options name; the CPU where they name none */
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
  IOBIND_SESSION_STRICT = 1u << 0,    /**< a node that no named device takes is an error, not a silent fall back to the CPU */
  IOBIND_SESSION_PLACEMENT = 1u << 1, /**< record which EP runs which node, for iobind_session_get_node */
  IOBIND_SESSION_NO_MEMORY_REUSE = 1u << 2 /**< switch ORT's reuse of buffers within a run off */
};

typedef struct iobind_session_options {
  uint32_t struct_size;
  uint32_t flags;                        /**< IOBIND_SESSION_* */
  iobind_device *const *devices;         /**< in order of preference; the CPU is always the last resort (see STRICT). Several
                                              of one EP are handed to it together: most EPs refuse more than one */
  size_t device_count;
  int32_t policy;                        /**< iobind_policy; only without `devices` */
  int32_t optimization;                  /**< 0 all, 1 none, 2 basic, 3 extended, 4 layout */
  int32_t intra_op_threads;              /**< 0: ORT's default, the number of cores; at most 1024: ORT hangs on far too many */
  int32_t inter_op_threads;              /**< 0: ORT's default; at most 1024 */
  const char *const *ep_keys;            /**< EP options: "KEY" for the first device that is not the CPU, or "NAME.KEY" with a
                                              catalogue name, such as "cuda.gpu_mem_limit" */
  const char *const *ep_values;          /**< one for each key */
  size_t ep_option_count;
  const char *const *config_keys;        /**< ORT's session config entries, such as "session.use_env_allocators" */
  const char *const *config_values;
  size_t config_count;
  const char *const *dim_names;          /**< free dimension overrides: a symbolic dim of the model gets a fixed value */
  const int64_t *dim_values;
  size_t dim_count;
  const char *profile;                   /**< record ORT's profile from now on, into a JSON file whose path begins with this
                                              (see iobind_session_end_profile); NULL: none */
} iobind_session_options;
#define IOBIND_SESSION_OPTIONS_INIT \
  {sizeof(iobind_session_options), 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, NULL}

/** Load a model. An EP option that the catalogue does not know passes through with a log line: a warning if it is near a known
 *  one. One that differs from a known key only by the case of its letters is refused, and on CUDA any unknown one.
 *  @param path  an ONNX or ORT file
 *  @return OK; NOT_FOUND no such file, or an override of a dim that the model does not have; IO not a readable file;
 *          INVALID_ARGUMENT; DEVICE a device is another runtime's; OUT_OF_MEMORY; RUNTIME ORT refuses the model or a device
 *  @threads any   @blocks yes, up to minutes for a large model   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create(iobind_runtime *runtime, const char *path,
                                                            const iobind_session_options *options, iobind_session **session,
                                                            iobind_error *error);

/** As iobind_session_create, from a model in memory, which need not live on.
 *  @threads any   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create_from_memory(iobind_runtime *runtime, const void *model,
                                                                        size_t bytes, const iobind_session_options *options,
                                                                        iobind_session **session, iobind_error *error);

/** Adopt a session that other code has made with the same loaded ORT: another language's binding, ORT's C or C++ interface.
 *  Everything works as on a session of one's own; it has the devices that its inputs and outputs lie on, and the CPU.
 *  @param ort_session  an `OrtSession *`; neither copied nor released
 *  @param deleter      called with `ort_session` as its data once nothing of iobind uses it any more, on any thread; it must
 *                      not call iobind. NULL: the caller keeps it alive for longer than this session, its bindings and tensors
 *                      and the process may still run it. If the call does not return OK, it is not called
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED the session is of another copy of ORT than the runtime's: their objects must
 *          not be mixed; RUNTIME; OUT_OF_MEMORY
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_wrap(iobind_runtime *runtime, void *ort_session, iobind_deleter deleter,
                                                          void *context, iobind_session **session, iobind_error *error);

/** Give the session up. It lives on until its bindings, and the tensors that came out of them, are gone.
 *  @threads any   @since 0.1 */
IOBIND_API void iobind_session_destroy(iobind_session *session);

typedef struct iobind_session_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t input_count;
  size_t output_count;
  size_t node_count;      /**< nodes after optimisation; 0 without IOBIND_SESSION_PLACEMENT */
  int64_t opset;          /**< of the ONNX domain; 0 where ORT does not tell */
  int64_t model_version;
  const char *producer;   /**< "" where the model says nothing, as below */
  const char *graph_name;
  const char *domain;
  const char *description;
} iobind_session_info;
#define IOBIND_SESSION_INFO_INIT {sizeof(iobind_session_info), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL}

/** What the model says of itself. The strings live as long as the session.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_info(const iobind_session *session, iobind_session_info *info,
                                                              iobind_error *error);

typedef enum iobind_value_kind {
  IOBIND_VALUE_UNKNOWN = 0,
  IOBIND_VALUE_TENSOR = 1, /**< the one that can be bound */
  IOBIND_VALUE_SEQUENCE = 2,
  IOBIND_VALUE_MAP = 3,
  IOBIND_VALUE_OPAQUE = 4,
  IOBIND_VALUE_SPARSE = 5,
  IOBIND_VALUE_OPTIONAL = 6,
  IOBIND_VALUE_KIND_FORCE32 = 0x7FFFFFFF
} iobind_value_kind;

typedef struct iobind_value_info {
  uint32_t struct_size;
  int32_t kind;               /**< iobind_value_kind; what follows the name is set only for tensors */
  const char *name;
  int32_t dtype;              /**< iobind_dtype */
  int32_t has_shape;          /**< 0: any rank is taken */
  const int64_t *dims;        /**< `rank` dims, -1 where the model leaves it open */
  const char *const *symbols; /**< `rank` names of open dims; "" for a fixed or nameless one; "?" is not a name */
  size_t rank;
  iobind_device *device;      /**< where the session wants the input or leaves the output; where a model has an
                                   output that no node makes, outputs are taken to be on the first device */
  int32_t memory;             /**< iobind_memory of that device */
  uint32_t reserved;
  const char *memory_name;    /**< ORT's name of that memory */
} iobind_value_info;
#define IOBIND_VALUE_INFO_INIT {sizeof(iobind_value_info), 0, NULL, 0, 0, NULL, NULL, 0, NULL, 0, 0, NULL}

/** An input of the session. What the info points to lives as long as the session.
 *  @param index  0 .. input_count - 1, in the model's order
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_input(const iobind_session *session, size_t index,
                                                               iobind_value_info *info, iobind_error *error);

/** An output of the session; as iobind_session_get_input.
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_output(const iobind_session *session, size_t index,
                                                                iobind_value_info *info, iobind_error *error);

/** The index of an input by its name: once, before a loop.
 *  @return OK; NOT_FOUND: the message lists the names that there are; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_find_input(const iobind_session *session, const char *name, size_t *index,
                                                                iobind_error *error);

/** The index of an output by its name; as iobind_session_find_input.
 *  @threads any   @since 0.1 */
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

/** Which EP runs a node, for a session made with IOBIND_SESSION_PLACEMENT. The strings live as long as the session. ORT 1.24
 *  leaves out what the EP of a plugin runs.
 *  @param index  0 .. node_count - 1, grouped by EP
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_node(const iobind_session *session, size_t index,
                                                              iobind_node_info *info, iobind_error *error);

/** Run once without a binding. Inputs go and outputs come wherever ORT wants them: each run may copy all of them over the
 *  link. The simplest way to a result, and what a binding is compared with.
 *  @param inputs   one host-readable tensor for each input, in the session's order
 *  @param outputs  an array of output_count; receives new host tensors, NULL for outputs that are no tensors. The caller
 *                  releases them
 *  @return OK; DTYPE, SHAPE, DEVICE an input does not fit; NOT_SUPPORTED an input is not a tensor; RUNTIME ORT failed
 *  @threads any   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_run(iobind_session *session, iobind_tensor *const *inputs,
                                                         iobind_tensor **outputs, iobind_error *error);

/** End the profile of a session made with `profile` and write its file. Runs must be over: ORT does not check. Later runs are
 *  not recorded.
 *  @param path  receives the file's path; lives as long as the session
 *  @return OK; INVALID_STATE no profile is being recorded; RUNTIME, OUT_OF_MEMORY
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_end_profile(iobind_session *session, const char **path,
                                                                 iobind_error *error);

/* ---- bindings ----------------------------------------------------------------------------------------------------- */

/** Make a binding: no input is set, and each tensor output is FRESH where the session leaves it. A session may have any
 *  number of bindings; each is used by one thread at a time, different ones at the same time.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_create(iobind_session *session, iobind_binding **binding,
                                                            iobind_error *error);

/** Destroy a binding; tensors that were taken out of it, or retained, live on.
 *  @threads serial   @since 0.1 */
IOBIND_API void iobind_binding_destroy(iobind_binding *binding);

/** What a bound input does. The meaning is the same on every device. */
typedef enum iobind_input_mode {
  IOBIND_INPUT_RESIDENT = 0, /**< the tensor itself is the input, where the session wants it: nothing is ever copied. What is
                                  written into it is seen by the next run */
  IOBIND_INPUT_SNAPSHOT = 1, /**< a copy is taken now, to where the session wants it; the tensor is free again at once */
  IOBIND_INPUT_LIVE = 2,     /**< each run sees what the tensor holds then: copied before every run to where the session
                                  wants it, not copied where it lives there already */
  IOBIND_INPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_input_mode;

/** Bind an input. The binding keeps a reference on the tensor (not for SNAPSHOT) and on the event until the input is bound
 *  again or cleared, or the binding destroyed. The element type, the rank and the fixed dims are checked here; symbolic dims
 *  that must agree with those of other inputs by iobind_binding_check and by the run. Binding again may change the open dims.
 *  @param index  of the input
 *  @param event  the run waits for it before it reads the tensor: recorded by the tensor's producer. NULL: it is ready. Each
 *                run waits for what the event holds when the run is submitted: on the device if both streams are of one EP
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor does not fit, or the output of a SWAP or IN_PLACE carry can never have
 *          its shape: the message has both; DEVICE a RESIDENT tensor is not where the session reads the input; NOT_SUPPORTED
 *          the input is not a tensor, or strings on a device; INVALID_ARGUMENT overlaps a FIXED output, or the memory of a
 *          state that is carried in place; INVALID_STATE a run is under way; OUT_OF_MEMORY; RUNTIME the copy failed.
 *          After an error the input is as it was
 *  @threads serial   @blocks for the copy of a SNAPSHOT   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_input(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                               iobind_tensor *tensor, iobind_event *event, iobind_error *error);

/** Write new data into a bound input, without binding it again: into the SNAPSHOT's copy or the tensor itself. For a carried
 *  input that is the state that the last run left; its outputs cannot be fetched any more then, whatever comes of the call.
 *  While runs are under way on a stream, new data may be written on that same stream, behind them; not into a carried input.
 *  @param data    host memory, all bytes of the input
 *  @param stream  as iobind_tensor_write
 *  @return OK; INVALID_STATE the input is not bound, or a run is under way; INVALID_ARGUMENT another number of bytes; DTYPE
 *          strings; DEVICE another device's stream; RUNTIME
 *  @threads serial   @blocks where stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_update_input(iobind_binding *binding, size_t index, const void *data,
                                                                  size_t bytes, iobind_stream *stream, iobind_error *error);

/** What a bound output does. */
typedef enum iobind_output_mode {
  IOBIND_OUTPUT_FRESH = 0,    /**< new memory every run, on the given device or where the session leaves the output: no run
                                   overwrites what an earlier one gave */
  IOBIND_OUTPUT_REUSE = 1,    /**< memory of the first run on the given device, overwritten by the next runs, as long as no
                                   input's dims change (a size that depends on the data must not change either: the run then
                                   fails with SHAPE); after iobind_binding_take_output the next run gets new memory; beside a
                                   carried state that grows it is new in each run */
  IOBIND_OUTPUT_FIXED = 2,    /**< the given tensor, overwritten by every run; the shape must come out as the tensor's */
  IOBIND_OUTPUT_IN_PLACE = 3, /**< FIXED, and the tensor may overlap an input: only where the model's operators allow it;
                                   ORT does not check */
  IOBIND_OUTPUT_NONE = 4,     /**< not fetched at all */
  IOBIND_OUTPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_output_mode;

/** Bind an output.
 *  @param index   of the output
 *  @param device  FRESH, REUSE: where it goes; NULL: where the session leaves it, so that nothing is copied. A device that is
 *                 not the session's is an error, never a silent CPU tensor
 *  @param memory  of that device
 *  @param tensor  FIXED, IN_PLACE: the target, kept alive until the output is bound again; otherwise NULL
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor cannot hold the output; DEVICE the session cannot write there;
 *          INVALID_ARGUMENT the tensor overlaps an input or another output; NOT_SUPPORTED the output is not a tensor,
 *          or strings on a device, or the device has no host-accessible memory; INVALID_STATE a run is under way. After an
 *          error the output is as it was
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_output(iobind_binding *binding, size_t index, iobind_output_mode mode,
                                                                iobind_device *device, iobind_memory memory,
                                                                iobind_tensor *tensor, iobind_error *error);

/** How an output becomes the next run's input. */
typedef enum iobind_carry_mode {
  IOBIND_CARRY_MOVE = 0,     /**< new memory on each run, of whatever shape comes out; it becomes the input as it is */
  IOBIND_CARRY_SWAP = 1,     /**< two buffers of the state's shape that change places: no run allocates or binds again */
  IOBIND_CARRY_IN_PLACE = 2, /**< one buffer: the input's tensor is the output; only where the model's operators allow it, ORT
                                  does not check */
  IOBIND_CARRY_MODE_FORCE32 = 0x7FFFFFFF
} iobind_carry_mode;

/** Let an output become an input of the next run: a state that never leaves the place where the session reads it. The first
 *  state is what iobind_binding_set_input binds, RESIDENT or SNAPSHOT, before or after this call (a growing one may begin with
 *  0 elements); bound later, it is the state that the next run begins with. A run that fails leaves the state as it was, but
 *  for IN_PLACE, whose tensor it may have written, and for runs that were queued on an EP's stream, where a later one has gone
 *  on from it: runs are refused then until the state is bound again, or written by iobind_binding_update_input.
 *  iobind_binding_get_output lends the state that a run left, until the next run; a MOVE one that is retained, and any that is
 *  taken, is overwritten by no run (iobind_binding_update_input writes it: it is the input). iobind_binding_set_output and
 *  iobind_binding_clear end it.
 *  MOVE and SWAP read the first state's memory and never write it, IN_PLACE writes into a RESIDENT tensor itself. The output
 *  goes to where the session wants the input.
 *  @param output, input  indices; each is carried once
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the output can never fit the input; NOT_SUPPORTED one of them is not a tensor,
 *          or holds strings; INVALID_ARGUMENT no such mode, the input is carried by another output or bound LIVE;
 *          INVALID_STATE a run is under way; OUT_OF_MEMORY, RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_carry(iobind_binding *binding, size_t output, size_t input,
                                                           iobind_carry_mode mode, iobind_error *error);

typedef struct iobind_run_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< none yet */
  int32_t log_level;              /**< iobind_log_level of this binding's runs */
  uint32_t reserved;
  const char *tag;                /**< names the runs in ORT's log and profile; NULL: none */
  const char *const *config_keys; /**< ORT's run config entries, such as "gpu_graph_id" */
  const char *const *config_values;
  size_t config_count;
} iobind_run_options;
#define IOBIND_RUN_OPTIONS_INIT {sizeof(iobind_run_options), 0, 0, 0, NULL, NULL, NULL, 0}

/** Prepare options for all later runs of the binding; NULL goes back to the defaults.
 *  @return OK; INVALID_STATE a run is under way; INVALID_ARGUMENT, also an entry that would let a run without a stream return
 *          before it has finished (`disable_synchronize_execution_providers`); RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_run_options(iobind_binding *binding, const iobind_run_options *options,
                                                                     iobind_error *error);

/** Check that the binding can run: every input bound, symbolic dims that agree among inputs and FIXED outputs, at least one
 *  output. A run checks the same, once after each change.
 *  @return OK; INVALID_STATE an input is not bound, or no output is: the message names it; SHAPE
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_check(iobind_binding *binding, iobind_error *error);

/** Run the model on what is bound.
 *  @param stream  NULL: the run has finished when the call returns. Otherwise it is ordered on this stream of a device of the
 *                 session, and the call returns when it is submitted: to the EP's stream, or to the thread of a stream without
 *                 one. From then on the run is under way until the host has seen it pass: by waiting for an event recorded
 *                 behind it, by iobind_stream_synchronize, or by fetching an output. Meanwhile more runs of the binding may be
 *                 queued on the same stream, with iobind_binding_update_input on that stream between them; each reads what the
 *                 one before it leaves in carried states. Anything else that changes the binding is refused until the host has
 *                 seen the last of them pass. Tensors, binding and session may be given up and live as long as the runs need
 *                 them. What ORT does on the CPU for an EP's stream (submitting, nodes without the EP, outputs of unknown size)
 *                 is done by the caller
 *  @param event   recorded behind the run; may be NULL. Without a stream it counts as passed on return
 *  @return OK; as iobind_binding_check; DEVICE an output did not land where it was asked for, or the stream is not of a device
 *          of the session, or the event of another than the stream; SHAPE a FIXED output's shape came out otherwise;
 *          INVALID_STATE a run is under way; NOT_SUPPORTED an input or output is not a tensor; CANCELLED; RUNTIME ORT
 *          failed; OUT_OF_MEMORY. What goes wrong after the call has returned is reported by the event, the stream and
 *          iobind_binding_get_output. After an error the outputs hold nothing that can be fetched, and the binding can run
 *          again
 *  @threads serial   @blocks where stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_event *event,
                                                         iobind_error *error);

/** Stop the run that is under way: it ends with CANCELLED as soon as ORT notices. Without a run, and where a run has been
 *  submitted to an EP's stream already, it does nothing.
 *  @return OK; INVALID_ARGUMENT; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error);

/** Borrow an output of the last run, which is waited for where it is under way on a stream: valid until the next run, take, or
 *  change of an output. Retain it to keep it; a retained FRESH output is never overwritten. A REUSE output that is bound as an
 *  input gets new memory for the next run. Its content is in the memory that was asked for; nothing is copied, but for one
 *  case: an output that ORT passes through from an input is copied, so that it never aliases the input.
 *  @return OK; INVALID_STATE no run has finished since an output was last bound, this one is not bound, or it was taken;
 *          what the last run failed with, where it was on a stream; NOT_FOUND index; DEVICE it did not land where it was asked
 *          for; NOT_SUPPORTED the run gave no tensor; RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_get_output(iobind_binding *binding, size_t index, iobind_tensor **tensor,
                                                                iobind_error *error);

/** As iobind_binding_get_output, and the reference is the caller's: no later run overwrites a FRESH or REUSE output that was
 *  taken. An output can be taken once for each run; a FIXED or IN_PLACE one is the caller's own tensor, with one reference
 *  more.
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor,
                                                                 iobind_error *error);

/** Unbind everything: inputs and outputs are as after iobind_binding_create.
 *  @return OK; INVALID_STATE a run is under way; RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_clear(iobind_binding *binding, iobind_error *error);

/* ---- audit: what moves on each run -------------------------------------------------------------------------------- */

typedef enum iobind_audit_kind {
  IOBIND_AUDIT_INPUT = 0,
  IOBIND_AUDIT_OUTPUT = 1,
  IOBIND_AUDIT_NODE = 2, /**< a node that runs on the CPU although the session has a device */
  IOBIND_AUDIT_KIND_FORCE32 = 0x7FFFFFFF
} iobind_audit_kind;

enum {
  IOBIND_AUDIT_CROSSES = 1u << 0, /**< `bytes` cross between host and device memory, or two devices, on each run */
  IOBIND_AUDIT_UNKNOWN = 1u << 1  /**< something moves, how much is not known: no run has shown it, or only ORT knows */
};

/** Look at what is bound and say what each run moves: every input and output, and for a session made with
 *  IOBIND_SESSION_PLACEMENT the nodes that run on the CPU although it has a device. Sizes of outputs are those of the last run.
 *  Copies that ORT inserts between such nodes are only in its profile (see iobind_session_end_profile); the tool reads it.
 *  @return OK; INVALID_STATE a run is under way; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for the binding   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_audit_create(iobind_binding *binding, iobind_audit **audit, iobind_error *error);

/** Destroy an audit; the binding stays as it is.
 *  @threads serial   @since 0.1 */
IOBIND_API void iobind_audit_destroy(iobind_audit *audit);

typedef struct iobind_audit_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t entry_count;
  uint64_t crossing_bytes; /**< sum over the entries with IOBIND_AUDIT_CROSSES */
  size_t crossing_count;   /**< entries that cross */
  size_t unknown_count;    /**< entries with IOBIND_AUDIT_UNKNOWN: with them the sum is a lower bound */
} iobind_audit_info;
#define IOBIND_AUDIT_INFO_INIT {sizeof(iobind_audit_info), 0, 0, 0, 0, 0}

/** The sum.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_audit_get_info(const iobind_audit *audit, iobind_audit_info *info,
                                                            iobind_error *error);

typedef struct iobind_audit_entry {
  uint32_t struct_size;
  int32_t kind;        /**< iobind_audit_kind */
  uint32_t flags;      /**< IOBIND_AUDIT_* */
  uint32_t reserved;
  const char *name;    /**< of the input, output or node */
  iobind_device *from; /**< NULL for a node, and for what is not bound */
  iobind_device *to;
  int32_t from_memory; /**< iobind_memory */
  int32_t to_memory;
  uint64_t bytes;      /**< moved on each run, within one memory too; 0: nothing, or not known */
  const char *reason;  /**< why, one line */
  const char *advice;  /**< what to do about it; "" where nothing is to be done */
} iobind_audit_entry;
#define IOBIND_AUDIT_ENTRY_INIT {sizeof(iobind_audit_entry), 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, NULL, NULL}

/** An entry: inputs in the model's order, then outputs, then nodes. The strings live as long as the audit.
 *  @param index  0 .. entry_count - 1
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_audit_get_entry(const iobind_audit *audit, size_t index, iobind_audit_entry *entry,
                                                             iobind_error *error);

/* ---- pipelines ---------------------------------------------------------------------------------------------------- */

enum {
  IOBIND_PIPELINE_STOP = 1u << 0, /**< the first item that fails ends it; without, the others go on */
  IOBIND_PIPELINE_TIMES = 1u << 1 /**< measure when each stage of an item ends: by a thread for each stream. Where
                                       a device has a virtual clock, these threads' waits move it */
};

typedef struct iobind_pipeline_options {
  uint32_t struct_size;
  uint32_t flags;                  /**< IOBIND_PIPELINE_* */
  size_t slots;                    /**< items that can be under way, each with memory of its own; 0: 3, at most 1024 */
  iobind_tensor *const *constants; /**< input_count tensors, where the session reads them, that are the same for all items; NULL
                                        for an input that each item brings. NULL: each item brings all */
} iobind_pipeline_options;
#define IOBIND_PIPELINE_OPTIONS_INIT {sizeof(iobind_pipeline_options), 0, 0, NULL}

/** Make a pipeline: the upload of an item, the run of the one before it and the download of the one before that at the same
 *  time. Where the device has streams of its own, all is submitted by the caller's thread; elsewhere threads of iobind do it.
 *  Host inputs and outputs of the session are neither uploaded nor downloaded.
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED an unknown flag, or an input that is not a tensor or holds strings and is not
 *          among the constants; as iobind_binding_set_input for the constants; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_create(iobind_session *session, const iobind_pipeline_options *options,
                                                             iobind_pipeline **pipeline, iobind_error *error);

/** Destroy a pipeline; waits for the items that are under way.
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API void iobind_pipeline_destroy(iobind_pipeline *pipeline);

/** Submit an item. Its data are copied at once, so that the tensors are the caller's again; device and pinned memory is made by
 *  the first item of a slot, and again if an item's dims differ.
 *  @param inputs  input_count host tensors; NULL for the constant ones
 *  @return OK, also where what is submitted fails later: iobind_pipeline_next says so; INVALID_STATE every slot holds an item
 *          that was not pulled, or an item failed and IOBIND_PIPELINE_STOP is set; DTYPE, SHAPE an input does not fit; DEVICE
 *          an input is not on the host; INVALID_ARGUMENT; OUT_OF_MEMORY, RUNTIME memory for the item. After an error the item
 *          was not submitted
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_submit(iobind_pipeline *pipeline, iobind_tensor *const *inputs,
                                                             iobind_error *error);

/** An item that was pulled. Times are those of a monotonic clock; the stages' are 0 without IOBIND_PIPELINE_TIMES, and where
 *  the item has no such stage. A stage begins when the one before it has ended and its stream is free. */
typedef struct iobind_pipeline_item {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t index;       /**< 0, 1, 2 ... in the order of submission */
  uint64_t submit_ns;   /**< when it was submitted */
  uint64_t upload_ns;   /**< when its upload ended */
  uint64_t run_ns;      /**< when its run ended */
  uint64_t download_ns; /**< when its download ended, or its outputs were handed over where nothing is downloaded */
} iobind_pipeline_item;
#define IOBIND_PIPELINE_ITEM_INIT {sizeof(iobind_pipeline_item), 0, 0, 0, 0, 0, 0}

/** Wait for the oldest item that was not pulled.
 *  @param outputs  an array of output_count; receives host tensors, NULL for outputs that are no tensors. Borrowed: valid until
 *                  the next call of iobind_pipeline_submit. Retain one to keep it: no later item overwrites it
 *  @param item     receives which item it is, also where it failed; may be NULL
 *  @return OK; what the item failed with: the message has its index, and the pipeline goes on unless IOBIND_PIPELINE_STOP is
 *          set (where an EP's stream failed late, items that were under way with it may be reported too); CANCELLED an item
 *          behind the one that failed where it is; NOT_FOUND no item is under way; INVALID_ARGUMENT
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_next(iobind_pipeline *pipeline, iobind_tensor **outputs,
                                                           iobind_pipeline_item *item, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
