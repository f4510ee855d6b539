/** @file iobind.h
 *  iobind keeps tensors where the model runs: I/O binding for ONNX Runtime (ORT) on any execution provider (EP).
 *
 *  The rules that hold for every function:
 *  - A function that can fail returns an iobind_status and takes a caller-owned `iobind_error *` last. It may be NULL, and
 *is untouched when the call succeeds. On failure every out pointer is NULL and nothing has changed, unless stated otherwise.
 *  - Strings passed in are NUL-terminated UTF-8 and copied. Strings handed out are borrowed; each comment says until when.
 *  - Options are structs: `struct_size` first, set by the _INIT macro; a field that is zero has its default. A NULL
 *    options pointer means all defaults. Info structs are the same: set `struct_size` with the _INIT macro before the call.
 *  - `create` pairs with `destroy`, `retain` with `release`; NULL is a no-op there. A child keeps its parents alive, so
 *    objects may be destroyed in any order. `get` borrows, `take` hands over, `wrap` borrows the caller's memory.
 *  - A call without a stream has finished when it returns. A call with a stream is ordered on it, and an event says when it is done.
 *  - Sizes are in bytes (size_t), dims in elements (int64_t), times in nanoseconds (uint64_t).
 *  - `@threads any`: from any thread at any time. `shared-read`: from several threads, while none changes the object.
 *    `serial`: one call at a time for each object. Some EPs crash if two threads use them (WebGPU): calls that reach
 *    such an EP wait for each other.
 *  - A forked child cannot use its parent's objects: calls that can fail return INVALID_STATE there,
 *    and destroying does nothing. */
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

/** Every status but IOBIND_OK, which is 0: name, value, meaning. */
#define IOBIND_STATUS_MAP(XX)                                                                      \
  XX(INVALID_ARGUMENT, 1, "an argument is wrong in itself")                                        \
  XX(INVALID_STATE, 2, "the object is not in a state for this call")                               \
  XX(NOT_FOUND, 3, "no such file, name, index or device")                                          \
  XX(NOT_SUPPORTED, 4, "the device, the EP or this version cannot do it")                          \
  XX(OUT_OF_MEMORY, 5, "host or device memory is exhausted")                                       \
  XX(IO, 6, "a file could not be read or written")                                                 \
  XX(VERSION, 7, "ONNX Runtime or a library is too old or too new")                                \
  XX(RUNTIME, 8, "ONNX Runtime refused; ort_code and the message say why")                         \
  XX(WRONG_DEVICE, 9, "the memory is, or the work would run, on the wrong device")                   \
  XX(SHAPE, 10, "rank or dims do not fit")                                                         \
  XX(DTYPE, 11, "the element type does not fit")                                                   \
  XX(TIMEOUT, 12, "the given time was not enough")                                                 \
  XX(CANCELLED, 13, "the run was cancelled")                                                       \
  XX(INTERNAL, 14, "a defect of iobind: please report it")                                         \
  XX(DEVICE_LOST, 15, "nothing works on the device any more in this process; its work has failed")

typedef enum iobind_status {
  IOBIND_OK = 0,
#define IOBIND_STATUS_VALUE(name, value, text) IOBIND_ERROR_##name = value,
  IOBIND_STATUS_MAP(IOBIND_STATUS_VALUE)
#undef IOBIND_STATUS_VALUE
  IOBIND_STATUS_FORCE32 = 0x7FFFFFFF
} iobind_status;

/** Details of a failed call; 512 bytes, the caller's, nothing in it to release. */
typedef struct iobind_error {
  uint32_t struct_size; /**< IOBIND_ERROR_INIT sets it */
  int32_t status;       /**< the iobind_status that the call returned */
  int32_t ort_code;     /**< ORT's OrtErrorCode if ORT refused, otherwise 0 */
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

/** Receives the log lines of iobind and ORT. `message` is one line without a newline, valid during the call. Called on any
 *  thread, ORT's own threads included, and possibly on several at once; it must not call iobind. */
typedef void (*iobind_log_function)(void *context, int32_t level, const char *message);

enum {
  IOBIND_RUNTIME_TELEMETRY = 1u << 0,      /**< leave ORT's telemetry as it is; otherwise iobind switches it off */
  IOBIND_RUNTIME_NO_EP_SEARCH = 1u << 1,   /**< only `ep_libraries`: neither IOBIND_EP_LIBRARIES nor the runtime folder */
  IOBIND_RUNTIME_SOFTWARE_DEVICES = 1u << 2 /**< let EPs offer software adapters on a machine without a GPU: WebGPU over a
                                                software Vulkan driver: the runtime folder's, unless the loader has one set */
};

typedef struct iobind_runtime_options {
  uint32_t struct_size;
  uint32_t flags;                    /**< IOBIND_RUNTIME_* */
  const char *ort_library;           /**< ORT's library, or its folder; NULL: search (see iobind_runtime_create) */
  const void *ort_api_base;          /**< attach to a loaded ORT: its `const OrtApiBase *` */
  const void *ort_api;               /**< attach to a loaded ORT: its `const OrtApi *`. Set at most one of the three ort_ */
  const char *const *ep_libraries;   /**< EP libraries to register: "FILE", "NAME=FILE" or a folder to look in */
  size_t ep_library_count;
  iobind_log_function log;           /**< NULL: nothing is logged, and ORT is kept off stderr */
  void *log_context;                 /**< handed to `log`; must live until the last reference and all objects are gone */
  int32_t log_level;                 /**< the least severe iobind_log_level that reaches `log` */
  uint32_t reserved;
} iobind_runtime_options;
#define IOBIND_RUNTIME_OPTIONS_INIT {sizeof(iobind_runtime_options), 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0}

/** Find and load ORT (1.24 or newer), or attach to one that is loaded, and register the EP libraries that are found.
 *
 *  Where ORT is looked for: `ort_library`; then the environment variable ORT_NATIVE_LIB_PATH (a file or a folder); a copy
 *  that the process has loaded already; the folder of libiobind; the runtime folder `iobind/` beside libiobind; the
 *  loader's own names. EP libraries: `ep_libraries`, then IOBIND_EP_LIBRARIES (the same forms, separated by ':', on Windows
 *  ';'), then those of the EP catalogue in the folder of libiobind, in `ep/` of the runtime folder and beside ORT. A file
 *  named in `ep_libraries` that does not load is an error. Any other library that does not load is reported by
 *  iobind_runtime_get_ep. An EP library that the host program has registered already is used as it is. One that another copy
 *  of ORT in the process has registered is refused. If a path is given, or set in ORT_NATIVE_LIB_PATH, nothing else is tried.
 *  Relative paths begin at the current folder. A program that runs setuid ignores both variables.
 *  There is one runtime for each loaded ORT in a process: a second call for the same ORT returns the first one's object,
 *  with one more reference. Its options are ignored, except `ep_libraries`, which are registered.
 *  ORT's telemetry is off (ORT_DISABLE_TELEMETRY=1 is put into the environment before ORT loads) unless asked for.
 *  @return OK; NOT_FOUND no ORT (the message says what was tried, in order), or a file of `ep_libraries` does not exist;
 *          VERSION ORT is older than 1.24, or the library is not ORT; NOT_SUPPORTED an unknown flag, or an EP library that
 *          another copy of ORT uses; INVALID_ARGUMENT; RUNTIME; OUT_OF_MEMORY
 *  @threads any, but no other thread may read the environment during the first call, which changes it   @since 0.1 */
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
  const char *ort_library;  /**< the file it was loaded from; "" if that of an attached ORT is not known */
  const char *found_by;     /**< which step of the search found it, such as "ORT_NATIVE_LIB_PATH" */
  size_t device_count;
  size_t ep_count;
} iobind_runtime_info;
#define IOBIND_RUNTIME_INFO_INIT {sizeof(iobind_runtime_info), 0, NULL, NULL, NULL, 0, 0}

/** What was loaded. The strings live as long as the runtime.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_info(const iobind_runtime *runtime, iobind_runtime_info *info,
                                                              iobind_error *error);

/** Register an EP library under a name of the caller's choice. Its devices come after those that are known already.
 *  @param name  registration name; NULL: the EP catalogue's name for that file, otherwise the file's name
 *  @param path  the library's file
 *  @return OK, also if it is registered already under that name; NOT_FOUND no such file; RUNTIME it does not load: the
 *          message has the loader's reason, such as a missing library; NOT_SUPPORTED another copy of ORT in it; INVALID_ARGUMENT
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
 *  @param index  0 .. ep_count - 1, in the order in which they were found
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_ep(const iobind_runtime *runtime, size_t index, iobind_ep_info *info,
                                                            iobind_error *error);

enum {
  IOBIND_PRELOAD_NO_CUDA = 1u << 0,  /**< not CUDA's runtime, cuBLAS, cuRAND, cuFFT and nvrtc */
  IOBIND_PRELOAD_NO_CUDNN = 1u << 1, /**< not cuDNN */
  IOBIND_PRELOAD_NO_MSVC = 1u << 2   /**< on Windows: not Microsoft's C++ runtime */
};

typedef struct iobind_preload_options {
  uint32_t struct_size;
  uint32_t flags;     /**< IOBIND_PRELOAD_* */
  const char *folder; /**< NULL: an installed PyTorch's libraries, NVIDIA's wheels for Python, then the loader's own search;
                           "": the wheels only; a folder with the libraries, or with Python's packages: that one only */
  uint32_t cuda;      /**< major version of CUDA, 12 or 13; 0: the newest that is found */
  uint32_t reserved;
} iobind_preload_options;
#define IOBIND_PRELOAD_OPTIONS_INIT {sizeof(iobind_preload_options), 0, NULL, 0, 0}

/** Load NVIDIA's libraries before CUDA's EP needs them, as Python's `onnxruntime.preload_dlls` does. If CUDA's EP is loaded,
 *  creating a runtime and registering an EP library do this themselves for libraries that LD_LIBRARY_PATH does not have. Call
 *  this first to choose others. Packages are looked for beside ORT's, and below VIRTUAL_ENV, CONDA_PREFIX and ~/.local.
 *  @return OK; NOT_FOUND no such folder, or libraries are missing that CUDA's EP needs (the message names them);
 *          NOT_SUPPORTED an unknown flag; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_preload(const iobind_preload_options *options, iobind_error *error);

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
  IOBIND_DEVICE_GPU_MEMORY = 1u << 2,      /**< its default memory is GPU memory, even if its hardware type is not GPU */
  IOBIND_DEVICE_NPU_MEMORY = 1u << 3,      /**< its default memory is NPU memory */
  IOBIND_DEVICE_ADDRESSABLE = 1u << 4,     /**< tensors have real addresses: views at an offset work */
  IOBIND_DEVICE_STREAMS = 1u << 5          /**< has streams of its own; on other devices a stream is one of iobind's threads */
};

typedef struct iobind_device_info {
  uint32_t struct_size;
  uint32_t flags;          /**< IOBIND_DEVICE_* */
  const char *spec;        /**< finds this device again, such as "webgpu:0" */
  const char *ep_name;     /**< such as "WebGpuExecutionProvider" */
  const char *ep_vendor;   /**< who made the EP, such as "Microsoft" */
  const char *vendor;      /**< who made the hardware; may be "" */
  const char *memory_name; /**< ORT's name of the default memory, such as "WebGPU_Buf" */
  uint32_t vendor_id;      /**< PCI vendor id of the hardware, 0 if it has none */
  uint32_t device_id;      /**< PCI device id of the hardware */
  int32_t hardware;        /**< iobind_hardware: what the hardware says it is */
  uint32_t ordinal;        /**< N of "name:N" */
  size_t metadata_count;   /**< entries of iobind_device_get_metadata */
} iobind_device_info;
#define IOBIND_DEVICE_INFO_INIT {sizeof(iobind_device_info), 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0}

/** A device by its number: 0 .. device_count - 1. Number 0 is always the CPU. It lives as long as the runtime, at the same address.
 *  @return the device, or NULL if the index is out of range
 *  @threads any   @since 0.1 */
IOBIND_API iobind_device *iobind_runtime_get_device(const iobind_runtime *runtime, size_t index);

/** Find the device of a spec. A spec is an ordered list: the first device that works is taken. A device works if a tiny
 *  session runs on it; that is tried once for each device and remembered.
 *
 *  `cpu`, `cuda[:N]`, `webgpu[:N]`, `dml[:N]`, `openvino[:N]`, `vdev[:N]` and other names of the EP catalogue; `gpu[:N]`,
 *  `npu[:N]` a device whose memory or hardware is a GPU or NPU; `ep=NAME[:N]` by ORT's EP name; `vendor=0xHHHH[:N]` by PCI
 *  vendor id, which never means the CPU. N counts from 0 among those that match. With the suffix `/pinned` a spec means the
 *  device's host-accessible memory (`cuda_pinned` is an alias of `cuda/pinned`). Example: "cuda,webgpu,cpu".
 *  @param memory  receives the kind of memory; NULL: a spec with `/pinned` is an error
 *  @return OK; NOT_FOUND there is no such device; WRONG_DEVICE there are some, but none works (each reason is in the message); INVALID_ARGUMENT
 *  @threads any   @blocks yes: the first use of a device starts its driver   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_find_device(iobind_runtime *runtime, const char *spec,
                                                                 iobind_device **device, iobind_memory *memory,
                                                                 iobind_error *error);

/** What a device is. The strings live as long as the runtime.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 0.1 */
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
 *  @return OK; WRONG_DEVICE it does not: the message says why
 *  @threads any   @blocks yes, up to seconds the first time   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_check(iobind_device *device, iobind_error *error);

/** What iobind itself has moved and allocated on a device since the runtime was created. ORT's own copies are not counted:
 *  those of a plain run, between nodes, or to an output that is bound elsewhere than the session leaves it: see iobind_audit_create. */
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
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 0.1 */
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

/** Create a stream: an ordered queue of copies and runs. If the device has IOBIND_DEVICE_STREAMS, it is the EP's own, and calls
 *  that submit work return at once. Copies between a device and pageable memory (up to 256 MiB; from pageable memory 64 KiB or
 *  more) go through four buffers of the stream's pinned memory, and wait if all are in use; whether other copies wait is up to
 *  the EP. On any other device a stream is a queue with one of iobind's threads: a copy is done at once if nothing is before
 *  it; runs, and what comes after them, are done by the thread. There a failure stays on the stream: later work is not done and
 *  reports the same error, until iobind_stream_synchronize has returned it.
 *  @return OK; NOT_SUPPORTED options for a device whose EP has no streams; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *options,
                                                           iobind_stream **stream, iobind_error *error);

/** Destroy a stream, after waiting for its work. Afterwards its events count as passed.
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API void iobind_stream_destroy(iobind_stream *stream);

/** The EP's native stream, for other libraries that submit work to it (on CUDA a cudaStream_t); NULL if the device has no
 *  streams of its own. To have ORT work on a stream of the caller's instead, give that to the session as an EP option (on CUDA
 *  `user_compute_stream`). Lives as long as the stream.
 *  @threads any   @since 0.1 */
IOBIND_API void *iobind_stream_native(const iobind_stream *stream);

/** Wait on the host until everything submitted to the stream so far has finished.
 *  @return OK; a failure of a run or copy on the stream since the last call; RUNTIME the device failed; INVALID_ARGUMENT
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error);

/** Make all later work of the stream wait for an event of any stream, without stopping the host: the device waits if both
 *  streams are of one EP, the stream's thread on a device without streams. An event that was never recorded orders nothing.
 *  @return OK; INVALID_ARGUMENT; RUNTIME; the failure of work before the event that has passed already
 *  @threads serial for the stream   @blocks if an EP's stream waits for one of another EP   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error);

/** Create an event. It is not recorded, and so counts as passed.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY   @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_create(iobind_device *device, iobind_event **event, iobind_error *error);

/** Destroy an event, even while something waits for it or is bound with it: the work before it goes on, and so do those waits.
 * @threads serial   @since 0.1 */
IOBIND_API void iobind_event_destroy(iobind_event *event);

/** Record the event at the current end of a stream of the same device. It no longer means what it was recorded for before.
 *  @return OK; WRONG_DEVICE the stream is of another device; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for the event and the stream; other threads may wait for the event   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error);

/** Wait on the host for the event.
 *  @return OK; the failure of a run or copy before it, each time until the event is recorded again; RUNTIME the device failed; INVALID_ARGUMENT
 *  @threads any   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_wait(iobind_event *event, iobind_error *error);

/** As iobind_event_wait, for a limited time. ORT has no such wait: on an EP's stream, and on WebGPU, a thread of iobind waits, as for
 *  iobind_event_query, also after the time is over. Destroying the stream still waits.
 *  @param timeout_ns  0: do not wait; UINT64_MAX: no limit
 *  @return as iobind_event_wait; TIMEOUT it has not passed, and the work goes on; OUT_OF_MEMORY
 *  @threads any   @blocks for timeout_ns at most   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_wait_for(iobind_event *event, uint64_t timeout_ns, iobind_error *error);

/** Whether the event has passed, without waiting for it. ORT cannot tell, so on an EP's stream, and on a device that queues by
 *  itself (WebGPU), one of iobind's threads waits instead, started by the first such question to a stream. If that thread
 *  cannot wait, the next call of this function waits.
 *  @param done  receives 1 or 0
 *  @return OK; as iobind_event_wait if it has passed; OUT_OF_MEMORY
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error);

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/** Element types. The values are those of ORT's C interface, which are ONNX's except for the last three. */
typedef enum iobind_dtype {
  IOBIND_DTYPE_UNDEFINED = 0,
  IOBIND_DTYPE_FLOAT32 = 1,
  IOBIND_DTYPE_UINT8 = 2,
  IOBIND_DTYPE_INT8 = 3,
  IOBIND_DTYPE_UINT16 = 4,
  IOBIND_DTYPE_INT16 = 5,
  IOBIND_DTYPE_INT32 = 6,
  IOBIND_DTYPE_INT64 = 7,
  IOBIND_DTYPE_STRING = 8, /**< host memory only; its elements have no byte size */
  IOBIND_DTYPE_BOOL = 9,
  IOBIND_DTYPE_FLOAT16 = 10,
  IOBIND_DTYPE_FLOAT64 = 11,
  IOBIND_DTYPE_UINT32 = 12,
  IOBIND_DTYPE_UINT64 = 13,
  IOBIND_DTYPE_COMPLEX64 = 14,  /**< has a name and a size; ORT has no tensors of it */
  IOBIND_DTYPE_COMPLEX128 = 15, /**< as COMPLEX64 */
  IOBIND_DTYPE_BFLOAT16 = 16,
  IOBIND_DTYPE_FLOAT8E4M3FN = 17,
  IOBIND_DTYPE_FLOAT8E4M3FNUZ = 18,
  IOBIND_DTYPE_FLOAT8E5M2 = 19,
  IOBIND_DTYPE_FLOAT8E5M2FNUZ = 20,
  IOBIND_DTYPE_UINT4 = 21,      /**< packed, two to a byte, the first in the low bits */
  IOBIND_DTYPE_INT4 = 22,       /**< packed */
  IOBIND_DTYPE_FLOAT4E2M1 = 23, /**< packed */
  IOBIND_DTYPE_UINT2 = 24,      /**< packed, four to a byte; ORT 1.27 and older make no tensors of this type and the next two */
  IOBIND_DTYPE_INT2 = 25,       /**< packed */
  IOBIND_DTYPE_FLOAT8E8M0 = 26,
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

/** Bytes of a dense tensor: ceil(elements * bits / 8), 0 if a dim is 0.
 *  @param dims  `rank` dims of 0 or more; may be NULL if rank is 0 (a scalar: one element)
 *  @return OK; SHAPE a negative dim, a rank above IOBIND_MAX_RANK, or a product that overflows; DTYPE no such type, or STRING; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_dtype_get_bytes(iobind_dtype dtype, const int64_t *dims, size_t rank,
                                                             size_t *bytes, iobind_error *error);

/** Create a tensor. Its content is undefined; strings are empty.
 *  @param memory  DEFAULT, or HOST_ACCESSIBLE if the device has it. Host tensors are tensors of the CPU's default memory
 *  @param dims    `rank` dims of 0 or more
 *  @return OK; OUT_OF_MEMORY, also if the device gives out a buffer that it cannot hold; SHAPE; DTYPE; INVALID_ARGUMENT;
 *          RUNTIME; NOT_SUPPORTED the device has no such memory, or cannot hold that type (strings)
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_create(iobind_device *device, iobind_memory memory, iobind_dtype dtype,
                                                           const int64_t *dims, size_t rank, iobind_tensor **tensor,
                                                           iobind_error *error);

/** Called once when a wrapped tensor's memory is no longer used; on any thread; must not call iobind. */
typedef void (*iobind_deleter)(void *context, void *data);

/** Make a tensor over the caller's memory: host memory on the CPU device, or device memory. Dense, row-major.
 *  @param data     the first element; NULL only if the tensor has 0 bytes. On a device without
 *                  IOBIND_DEVICE_ADDRESSABLE: the handle that its EP uses (a WGPUBuffer)
 *  @param bytes    size of that memory; the tensor's bytes or more
 *  @param deleter  may be NULL: then the memory must outlive the tensor and every run that uses it. If the call does not
 *                  return OK, the caller still owns the memory, and the deleter is not called
 *  @return OK; INVALID_ARGUMENT NULL data or too few bytes; SHAPE; DTYPE strings cannot be wrapped; NOT_SUPPORTED no such memory; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_wrap(iobind_device *device, iobind_memory memory, iobind_dtype dtype,
                                                         const int64_t *dims, size_t rank, void *data, size_t bytes,
                                                         iobind_deleter deleter, void *context, iobind_tensor **tensor,
                                                         iobind_error *error);

/** Make a tensor over a part of another one: same memory, no copy. Keeps the other one alive.
 *  @param offset  in bytes from the start. Anything but 0 needs IOBIND_DEVICE_ADDRESSABLE; on other devices the view begins
 *                 at 0, and its size is a multiple of 4 bytes, or the whole tensor
 *  @return OK; INVALID_ARGUMENT the part does not lie inside the tensor; NOT_SUPPORTED a part that the device cannot address
 *          (iobind_tensor_read and iobind_tensor_write reach it), or a tensor of strings; SHAPE; DTYPE
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_view(iobind_tensor *tensor, size_t offset, iobind_dtype dtype,
                                                         const int64_t *dims, size_t rank, iobind_tensor **view,
                                                         iobind_error *error);

/** Make a view of `count` entries of the leading axis, from `start` on: dims {count, d1, d2, ...}.
 *  @return as iobind_tensor_view; SHAPE a scalar, or a part outside the axis; NOT_SUPPORTED also if the part of a packed
 *          type does not begin on a byte
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_slice(iobind_tensor *tensor, int64_t start, int64_t count,
                                                          iobind_tensor **view, iobind_error *error);

/** Add a reference; returns the tensor.
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
  int32_t read_only;     /**< 1: refused wherever it would be written; imported by DLPack (interop.h) */
  uint32_t reserved;
} iobind_tensor_info;
#define IOBIND_TENSOR_INFO_INIT {sizeof(iobind_tensor_info), 0, NULL, 0, 0, NULL, 0, 0, 0, 0}

/** What a tensor is.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_info(const iobind_tensor *tensor, iobind_tensor_info *info,
                                                             iobind_error *error);

/** The address of the data, on any device: for other libraries that work there (a CUDA kernel). NULL if the tensor has 0
 *  bytes or holds strings. Lives as long as the tensor. The host must not touch it if it is device memory.
 *  @threads any   @since 0.1 */
IOBIND_API void *iobind_tensor_address(const iobind_tensor *tensor);

/** Look at the data from the host: only if the host can read the memory, and only as the tensor's own element type.
 *  @param dtype  the element type that the caller will read
 *  @param data   receives the address, NULL if the tensor has 0 bytes; lives as long as the tensor
 *  @return OK; WRONG_DEVICE the tensor is in device memory (iobind_tensor_read copies it); DTYPE it has another type, or strings; the
 *          failure of a run in flight that was to write it
 *  @threads any   @blocks if work in flight uses it, as iobind_tensor_write   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_data(iobind_tensor *tensor, iobind_dtype dtype, void **data,
                                                             iobind_error *error);

/** Write host memory into a tensor, the whole or a part. On a device without IOBIND_DEVICE_ADDRESSABLE a part that does not
 *  begin at 0, or ends neither on a multiple of 4 bytes nor with the tensor, is staged: one download and one upload of
 *  offset + bytes, rounded up to a multiple of 4, counted and logged.
 *  Access without a stream, by any function, is ordered after iobind's work in flight on that memory, whatever stream or thread it
 *  is on: a write after readers and writers, a read after writers. Views and DLPack are the same memory. Not in a callback of a run.
 *  @param offset  where in the tensor, in bytes
 *  @param data    `bytes` bytes, ready now; with a stream they must stay as they are until the stream has passed the copy
 *  @param stream  NULL: done on return. Otherwise a stream of the tensor's device
 *  @return OK; INVALID_ARGUMENT the part does not lie inside the tensor; DTYPE strings; WRONG_DEVICE another device's stream; RUNTIME
 *  @threads serial for each tensor   @blocks if stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_write(iobind_tensor *tensor, size_t offset, const void *data, size_t bytes,
                                                          iobind_stream *stream, iobind_error *error);

/** Read a tensor, the whole or a part, into host memory. Parameters and errors as iobind_tensor_write. On a device without
 *  IOBIND_DEVICE_ADDRESSABLE a part that does not begin at 0 is staged: one download of offset + bytes.
 *  With a stream, the bytes have arrived once the host knows that the stream has passed the copy: from iobind_event_wait or
 *  iobind_event_query of a later event, or from iobind_stream_synchronize. If the stream has failed, they do not arrive.
 *  @threads shared-read   @blocks if stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_read(const iobind_tensor *tensor, size_t offset, void *data, size_t bytes,
                                                         iobind_stream *stream, iobind_error *error);

/** Copy the content of tensors into others, pair by pair, between any two places. A pair must have the same element type and
 *  dims and must not overlap. Pairs with the same two devices go to the EP together. Between two devices whose EPs do not
 *  know each other the data pass through the host, one download and one upload.
 *  @param sources, targets  `count` tensors each
 *  @param stream            NULL: done on return. Otherwise a stream of a device that takes part; what is copied to pageable
 *                           memory arrives as with iobind_tensor_read
 *  @return OK; DTYPE, SHAPE a pair differs: the message says which; INVALID_ARGUMENT overlap; NOT_SUPPORTED strings;
 *          WRONG_DEVICE another runtime, or a stream of a device that takes no part; RUNTIME.
 *          After a failure the targets' content is undefined
 *  @threads serial for the targets   @blocks if stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets,
                                                         size_t count, iobind_stream *stream, iobind_error *error);

/** Read one element of a tensor of strings.
 *  @param buffer    receives up to `capacity` bytes, not NUL-terminated; may be NULL if capacity is 0
 *  @param needed    receives the element's bytes
 *  @return OK, also if the buffer is too small: compare `needed`; DTYPE not strings; INVALID_ARGUMENT index out of range
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

/** How ORT chooses devices by itself if a session names none. */
typedef enum iobind_policy {
  IOBIND_POLICY_NONE = 0, /**< the devices that the options name; the CPU if they name none */
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
                                              of one EP are given to it together: most EPs refuse more than one */
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
  size_t graph_limit;                    /**< most captured graphs of a binding; 0: none; since 0.2. See iobind_binding_forget_graphs */
  iobind_stream *stream;                 /**< the session computes on it and keeps it alive: runs of all its bindings follow one
                                              another there. It must be an EP's, of the only one of `devices` that has streams.
                                              NULL: ORT's choice; on CUDA one that iobind creates */
} iobind_session_options;
#define IOBIND_SESSION_OPTIONS_INIT \
  {sizeof(iobind_session_options), 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL}

/** Load a model. The values of EP options that the catalogue knows are checked (`iobind options EP` lists them); an unknown key
 *  is passed on with a log line, unless it differs from a known one only in upper and lower case, or the EP refuses it: CUDA's is
 *  asked first, by a call that returns its error. `user_compute_stream` brings the flag that it needs; `tensorrt.KEY` puts
 *  TensorRT before a CUDA device. With a policy the options are for the EPs among which it chooses.
 *  @param path  an ONNX or ORT file
 *  @return OK; NOT_FOUND no such file, or an override of a dim that the model does not have; IO the file cannot be read;
 *          INVALID_ARGUMENT; WRONG_DEVICE a device is another runtime's, or the stream is not of one of them; NOT_SUPPORTED a stream that is
 *          not an EP's, or graphs that would be wrong; VERSION ORT is too old for graphs; INVALID_STATE a stream of a CUDA device is
 *          being captured: that capture has then failed; OUT_OF_MEMORY; RUNTIME ORT refuses the model or a device
 *  @threads any   @blocks yes, up to minutes for a large model   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create(iobind_runtime *runtime, const char *path,
                                                            const iobind_session_options *options, iobind_session **session,
                                                            iobind_error *error);

/** As iobind_session_create, from a model in memory, which need not live on: `session.use_ort_model_bytes_directly` is refused.
 *  @threads any   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_create_from_memory(iobind_runtime *runtime, const void *model,
                                                                        size_t bytes, const iobind_session_options *options,
                                                                        iobind_session **session, iobind_error *error);

/** Use a session that other code has created with the same loaded ORT: another language's binding, ORT's C or C++ interface.
 *  It works like any other session. Its devices are those that its inputs and outputs are on, and the CPU.
 *  @param ort_session  an `OrtSession *`; neither copied nor released
 *  @param deleter      called once, with `ort_session` as its data, when iobind does not use it any more; on any thread; it
 *                      must not call iobind. NULL: the caller keeps the OrtSession alive until this session, its bindings and
 *                      its tensors are gone. If the call does not return OK, it is not called
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED the session was created by another copy of ORT than the runtime's:
 *          objects of two copies must not be mixed; RUNTIME; OUT_OF_MEMORY
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_wrap(iobind_runtime *runtime, void *ort_session, iobind_deleter deleter,
                                                          void *context, iobind_session **session, iobind_error *error);

/** Destroy a session. It stays alive until its bindings, and the tensors that came out of them, are gone.
 *  @threads any   @since 0.1 */
IOBIND_API void iobind_session_destroy(iobind_session *session);

typedef struct iobind_session_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t input_count;
  size_t output_count;
  size_t node_count;      /**< nodes after optimisation; 0 without IOBIND_SESSION_PLACEMENT */
  int64_t opset;          /**< of the ONNX domain; 0 if ORT does not tell */
  int64_t model_version;
  const char *producer;   /**< "" if the model does not say; so are those below */
  const char *graph_name;
  const char *domain;
  const char *description;
  size_t metadata_count;  /**< entries of iobind_session_get_metadata; since 0.2 */
  size_t graph_count;     /**< captured graphs of all bindings, which runs can replay; since 0.2 */
  size_t kept_graph_count; /**< given up, but kept by the EP: see iobind_binding_forget_graphs; since 0.2 */
  size_t device_node_count; /**< of node_count, nodes that ORT's CPU EP does not run: 0 means that the device is idle. With ORT 1.25
                                 and newer both are set for each session that names a device besides the CPU; since 0.2 */
} iobind_session_info;
#define IOBIND_SESSION_INFO_INIT {sizeof(iobind_session_info), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0}

/** What the model says of itself. The strings live as long as the session.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_info(const iobind_session *session, iobind_session_info *info,
                                                              iobind_error *error);

/** An entry of the model's own metadata (labels, a vocabulary), by index in the order of the keys. The strings live as long as the session.
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.2 */
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
  int32_t kind;               /**< iobind_value_kind; what follows the name is set only for tensors */
  const char *name;
  int32_t dtype;              /**< iobind_dtype */
  int32_t has_shape;          /**< 0: any rank is taken */
  const int64_t *dims;        /**< `rank` dims, -1 if the model leaves it open */
  const char *const *symbols; /**< `rank` names of open dims; "" for a fixed one or one without a name; "?" is not a name */
  size_t rank;
  iobind_device *device;      /**< where the session wants the input or leaves the output. If an output of the model is
                                   not made by a node, outputs are assumed to be on the first device */
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

/** The index of an input by its name: to be called once, before a loop.
 *  @return OK; NOT_FOUND (the message lists the names of the model); INVALID_ARGUMENT
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
 *  leaves out the nodes that an EP of a plugin runs.
 *  @param index  0 .. node_count - 1, grouped by EP
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_get_node(const iobind_session *session, size_t index,
                                                              iobind_node_info *info, iobind_error *error);

typedef struct iobind_run_options {
  uint32_t struct_size;
  uint32_t flags;                 /**< none yet */
  int32_t log_level;              /**< iobind_log_level of this binding's runs */
  uint32_t reserved;
  const char *tag;                /**< names the runs in ORT's log and profile; NULL: none */
  const char *const *config_keys; /**< ORT's run config entries, such as "memory.enable_memory_arena_shrinkage" */
  const char *const *config_values;
  size_t config_count;
} iobind_run_options;
#define IOBIND_RUN_OPTIONS_INIT {sizeof(iobind_run_options), 0, 0, 0, NULL, NULL, NULL, 0}

/** Where an output goes. */
typedef enum iobind_placement {
  IOBIND_PLACE_HOST = 0,   /**< downloaded */
  IOBIND_PLACE_DEVICE = 1, /**< where the session leaves it */
  IOBIND_PLACE_NONE = 2,   /**< not wanted */
  IOBIND_PLACEMENT_FORCE32 = 0x7FFFFFFF
} iobind_placement;

/** Run once without a binding. ORT copies inputs and outputs as it needs them: each run may copy all of them over the link.
 *  This is the simplest way to a result, and what a binding is compared with.
 *  @param inputs   a tensor for each input, in the session's order: on the host, or where the session reads it (and ready now)
 *  @param outputs  an array of output_count; receives new host tensors, NULL for outputs that are not tensors. The caller releases them
 *  @return OK; DTYPE, SHAPE, WRONG_DEVICE an input does not fit; NOT_SUPPORTED an input is not a tensor; RUNTIME ORT failed
 *  @threads any   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_run(iobind_session *session, iobind_tensor *const *inputs,
                                                         iobind_tensor **outputs, iobind_error *error);

/** A run with all choices. */
typedef struct iobind_run_request {
  uint32_t struct_size;
  uint32_t reserved;                 /**< 0 */
  iobind_tensor *const *inputs;      /**< input_count tensors, on the host or where the session reads the input; ready now */
  iobind_tensor *const *targets;     /**< output_count tensors that the run writes, as IOBIND_OUTPUT_FIXED; NULL, also one: a new tensor */
  const int32_t *outputs;            /**< output_count iobind_placement, for those without a target; NULL: all to the host */
  const iobind_run_options *options; /**< NULL: the defaults */
} iobind_run_request;
#define IOBIND_RUN_REQUEST_INIT {sizeof(iobind_run_request), 0, NULL, NULL, NULL, NULL}

/** As iobind_session_run, by a binding for this one run: a loop is cheaper with a binding of its own.
 *  @param outputs  as iobind_session_run, with a reference to each target; NULL for outputs that are not wanted
 *  @return as iobind_session_run; SHAPE, DTYPE, WRONG_DEVICE, INVALID_ARGUMENT also of a target; INVALID_STATE no output is wanted
 *  @threads any   @blocks yes   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_run_request(iobind_session *session, const iobind_run_request *request,
                                                                 iobind_tensor **outputs, iobind_error *error);

/** End the profile of a session made with `profile` and write its file. Runs must be over: ORT does not check. Later runs are not recorded.
 *  @param path  receives the file's path; lives as long as the session
 *  @return OK; INVALID_STATE no profile is being recorded; RUNTIME, OUT_OF_MEMORY
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_end_profile(iobind_session *session, const char **path,
                                                                 iobind_error *error);

/* ---- bindings ----------------------------------------------------------------------------------------------------- */

/** Create a binding. No input is set, and each tensor output is FRESH, on the device where the session leaves it. A session may
 *  have any number of bindings. Only one thread at a time may use a binding; several bindings may be used at the same time.
 *  @return OK; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_create(iobind_session *session, iobind_binding **binding,
                                                            iobind_error *error);

/** Destroy a binding. Tensors that were taken from it, or retained, stay valid.
 *  @threads serial   @since 0.1 */
IOBIND_API void iobind_binding_destroy(iobind_binding *binding);

/** What a bound input does. The meaning is the same on every device. */
typedef enum iobind_input_mode {
  IOBIND_INPUT_RESIDENT = 0, /**< the tensor itself is the input, where the session wants it: nothing is ever copied. The next
                                  run sees what is written into it */
  IOBIND_INPUT_SNAPSHOT = 1, /**< a copy is made now, where the session wants it; the caller may change the tensor at once */
  IOBIND_INPUT_LIVE = 2,     /**< each run sees what the tensor holds at that time: it is copied before every run to where the
                                  session wants it, unless it is there already */
  IOBIND_INPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_input_mode;

/** Bind an input. The binding keeps a reference on the tensor (not for SNAPSHOT) and on the event until the input is bound
 *  again or cleared, or the binding is destroyed. The element type, the rank and the fixed dims are checked here; whether
 *  symbolic dims agree with those of other inputs is checked by iobind_binding_check and by the run. The open dims may differ
 *  each time that the input is bound.
 *  @param index  of the input
 *  @param event  recorded by the tensor's producer: the run waits for it before it reads the tensor. NULL: the tensor is ready.
 *                Each run waits for what is recorded when the run is submitted: on the device if both streams are of one EP
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor does not fit, or the output of a SWAP or IN_PLACE carry can never have
 *          its shape (the message has both); WRONG_DEVICE a RESIDENT tensor is not where the session reads the input; NOT_SUPPORTED
 *          the input is not a tensor, or strings on a device; INVALID_ARGUMENT it overlaps a FIXED output, or the memory of a
 *          state that is carried in place; INVALID_STATE a run is under way; OUT_OF_MEMORY; RUNTIME the copy failed.
 *          After an error the input is as it was
 *  @threads serial   @blocks for the copy of a SNAPSHOT   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_input(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                               iobind_tensor *tensor, iobind_event *event, iobind_error *error);

/** Write new data into a bound input, without binding it again: into the SNAPSHOT's copy or the tensor itself. For a carried
 *  input that is the state that the last run left; after that its outputs cannot be fetched any more, even if the call fails.
 *  While runs are under way on a stream, new data may be written on that same stream, after them; not into a carried input. The
 *  producer's event, which runs wait for, is not waited for here.
 *  @param data    host memory, all bytes of the input
 *  @param stream  as iobind_tensor_write
 *  @return OK; INVALID_STATE not bound, or a run is under way; INVALID_ARGUMENT the wrong number of bytes; DTYPE strings; WRONG_DEVICE; RUNTIME
 *  @threads serial   @blocks if stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_update_input(iobind_binding *binding, size_t index, const void *data,
                                                                  size_t bytes, iobind_stream *stream, iobind_error *error);

/** What a bound output does. */
typedef enum iobind_output_mode {
  IOBIND_OUTPUT_FRESH = 0,    /**< new memory every run, on the given device or where the session leaves the output: no run
                                   overwrites what an earlier one gave */
  IOBIND_OUTPUT_REUSE = 1,    /**< memory of the first run on the given device, overwritten by the next runs, as long as no
                                   input's dims change (if a size depends on the data and changes, the run fails with
                                   SHAPE). The next run gets new memory after iobind_binding_take_output; every run does if
                                   the binding has a carried state that grows */
  IOBIND_OUTPUT_FIXED = 2,    /**< the given tensor, overwritten by every run; the output must have the tensor's shape */
  IOBIND_OUTPUT_IN_PLACE = 3, /**< FIXED, and the tensor may overlap an input: only where the model's operators allow it;
                                   ORT does not check */
  IOBIND_OUTPUT_NONE = 4,     /**< not fetched at all */
  IOBIND_OUTPUT_MODE_FORCE32 = 0x7FFFFFFF
} iobind_output_mode;

/** Bind an output.
 *  @param index   of the output
 *  @param device  FRESH, REUSE: where it goes; NULL: where the session leaves it, so that nothing is copied. A device that the
 *                 session does not use is an error, never silently a CPU tensor
 *  @param memory  of that device
 *  @param tensor  FIXED, IN_PLACE: the target, kept alive until the output is bound again; otherwise NULL
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the tensor cannot hold the output; WRONG_DEVICE the session cannot write there;
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
  IOBIND_CARRY_SWAP = 1,     /**< two buffers of the state's shape that change places: no run allocates or rebinds */
  IOBIND_CARRY_IN_PLACE = 2, /**< one buffer: the input's tensor is the output; only where the model's operators allow it, ORT
                                  does not check */
  IOBIND_CARRY_MODE_FORCE32 = 0x7FFFFFFF
} iobind_carry_mode;

/** Let an output become an input of the next run: a state that never leaves the place where the session reads it. The first
 *  state is what iobind_binding_set_input binds, RESIDENT or SNAPSHOT, before or after this call (a growing one may begin with
 *  0 elements); if it is bound later, the next run begins with it. A run that fails leaves the state as it was, with two
 *  exceptions: it may have written the tensor of IN_PLACE; and of several runs queued on an EP's stream a later one may have
 *  continued from it. Then runs are refused until the state is bound again, or written by iobind_binding_update_input.
 *  iobind_binding_get_output lends the state that a run left, until the next run. No run overwrites a MOVE state that is
 *  retained, or any that is taken (iobind_binding_update_input does: it is the input). iobind_binding_set_output and
 *  iobind_binding_clear end the carry.
 *  MOVE and SWAP read the first state's memory and never write it; IN_PLACE writes into a RESIDENT tensor itself. The output
 *  is put where the session wants the input.
 *  @param output, input  indices; each is carried once
 *  @return OK; NOT_FOUND index; DTYPE, SHAPE the output can never fit the input; NOT_SUPPORTED one of them is not a tensor,
 *          or holds strings; INVALID_ARGUMENT no such mode, the input is carried by another output or bound LIVE;
 *          INVALID_STATE a run is under way; OUT_OF_MEMORY, RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_carry(iobind_binding *binding, size_t output, size_t input,
                                                           iobind_carry_mode mode, iobind_error *error);

/** Set options for all later runs of the binding; NULL goes back to the defaults.
 *  @return OK; INVALID_STATE a run is under way; INVALID_ARGUMENT, also an entry that would let a run without a stream return
 *          before it has finished (`disable_synchronize_execution_providers`); RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_set_run_options(iobind_binding *binding, const iobind_run_options *options,
                                                                     iobind_error *error);

/** Check that the binding can run: every input bound, symbolic dims that agree among inputs and FIXED outputs, at least one
 *  output. A run checks the same, once after each change.
 *  @return OK; INVALID_STATE an input is not bound (the message names it), or no output is; SHAPE
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_check(iobind_binding *binding, iobind_error *error);

/** Run the model on what is bound.
 *  @param stream  NULL: the run has finished when the call returns. Otherwise it is ordered on this stream, of a device of the
 *                 session, and the call returns when it is submitted: to the EP's stream, or to the thread of a stream without
 *                 one. From then on the run is under way until the host knows that it has passed: from waiting for an event
 *                 recorded after it, from iobind_stream_synchronize, or from fetching an output. Until then more runs of the
 *                 binding may be queued on the same stream, with iobind_binding_update_input on that stream between them; each
 *                 reads the carried states that the run before it leaves. Anything else that changes the binding is refused
 *                 until the host knows that the last of them has passed. Tensors, binding and session may be released and
 *                 destroyed: they stay alive as long as the runs need them. What ORT does on the CPU for a run on an EP's
 *                 stream (submitting, nodes that the EP does not take, outputs of unknown size) is done by the calling thread
 *  @param event   recorded after the run; may be NULL. Without a stream it counts as passed on return
 *  @return OK; as iobind_binding_check; WRONG_DEVICE an output did not land where it was asked for, or the stream is not of a device
 *          of the session, or the event is not of its device; SHAPE an output has another shape than its FIXED tensor;
 *          INVALID_STATE a run is under way; NOT_SUPPORTED an input or output is not a tensor; CANCELLED; RUNTIME ORT
 *          failed; OUT_OF_MEMORY. What fails after the call has returned is reported by the event, the stream and
 *          iobind_binding_get_output. A run that has failed leaves no output, and the binding can run again
 *  @threads serial   @blocks if stream is NULL   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_event *event,
                                                         iobind_error *error);

/** Stop the run that is under way: it ends with CANCELLED, as soon as ORT notices. Does nothing if no run is under way, or if
 *  ORT has returned from it (on an EP's stream: when it is submitted), or if it is a graph's capture or replay.
 *  @return OK; INVALID_ARGUMENT; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error);

/** Borrow an output of the last run; waits for the run if it is under way on a stream. Valid until the next run, take, or
 *  change of an output. Retain it to keep it; a retained FRESH output is never overwritten. A REUSE output that is bound as an
 *  input gets new memory for the next run. Its content is in the memory that was asked for. Nothing is copied, except an output
 *  that ORT passes through from an input: it must not share the input's memory.
 *  @return OK; INVALID_STATE no run has finished since an output was last bound, this one is not bound, or it was taken;
 *          the failure of the last run, if that was on a stream; NOT_FOUND index; WRONG_DEVICE it did not land where it was asked
 *          for; NOT_SUPPORTED the run's output is not a tensor; RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_get_output(iobind_binding *binding, size_t index, iobind_tensor **tensor,
                                                                iobind_error *error);

/** As iobind_binding_get_output, but an output in device memory, of a run that is under way on an EP's stream, is not waited for: until the
 *  run has passed, the tensor may be used only in what is submitted to `stream`, which from now on comes behind the run. If the run
 *  fails, those who wait for its event, its stream or `stream` hear of it. Any other output is waited for.
 *  @param stream  the run's, or another one of a device of the session
 *  @return as iobind_binding_get_output; WRONG_DEVICE another device's stream; INVALID_ARGUMENT
 *  @threads serial   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_lend_output(iobind_binding *binding, size_t index, iobind_stream *stream,
                                                                 iobind_tensor **tensor, iobind_error *error);

/** As iobind_binding_get_output, and the caller owns the reference: no later run overwrites a FRESH or REUSE output that was
 *  taken. An output can be taken once for each run; a FIXED or IN_PLACE one is the caller's own tensor, with one more reference.
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor,
                                                                 iobind_error *error);

/** Unbind everything: inputs and outputs are as after iobind_binding_create. The run options stay.
 *  @return OK; INVALID_STATE a run is under way; RUNTIME
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_clear(iobind_binding *binding, iobind_error *error);

/** Give up the captured graphs of a binding; the next run captures again. For sessions created with `graph_limit`, on CUDA,
 *  WebGPU and vdev (ORT 1.26 or newer):
 *  - Their outputs are REUSE by default. Addresses that would change on each run are refused (NOT_SUPPORTED): outputs FRESH or in
 *    host memory, states carried by MOVE, inputs LIVE from elsewhere. SWAP needs a graph_limit of 2.
 *  - A run with the addresses and dims of a captured one, and the same bytes in inputs that the session reads on the host, replays it. Any
 *    other captures, which takes as long as five runs (ten on WebGPU), or beyond graph_limit is INVALID_STATE (not in a pipeline).
 *  - A graph belongs to its thread: other threads may not run the binding (INVALID_STATE) until its graphs are given up.
 *  - One run of such a session at a time: others wait. While a graph is captured, all calls that reach that EP wait.
 *  - Refused by iobind_session_create (NOT_SUPPORTED): values that are not tensors, control flow, random operators, outputs whose
 *    size the data decide or that nodes on the CPU make. If ORT refuses the model, it is loaded once more to name the nodes.
 *  No replay writes an output that was taken, or that is retained while other tensors are bound: such a graph is given up. CUDA's EP, and any
 *  EP with ORT before 1.27, keeps it until the session is destroyed. With 32 of them a session runs what is new without a graph, and logs it.
 *  @return OK, also if there are none; INVALID_STATE a run is under way; INVALID_ARGUMENT; RUNTIME
 *  @threads serial   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_binding_forget_graphs(iobind_binding *binding, iobind_error *error);

/* ---- audit: what moves on each run -------------------------------------------------------------------------------- */

typedef enum iobind_audit_kind {
  IOBIND_AUDIT_INPUT = 0,
  IOBIND_AUDIT_OUTPUT = 1,
  IOBIND_AUDIT_NODE = 2, /**< a node that runs on the CPU although the session has a device */
  IOBIND_AUDIT_KIND_FORCE32 = 0x7FFFFFFF
} iobind_audit_kind;

enum {
  IOBIND_AUDIT_CROSSES = 1u << 0, /**< `bytes` cross between host and device memory, or two devices, on each run */
  IOBIND_AUDIT_UNKNOWN = 1u << 1  /**< something moves, but how much is not known: no run has shown it, or only ORT knows */
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
  uint64_t crossing_bytes; /**< the sum over the entries with IOBIND_AUDIT_CROSSES */
  size_t crossing_count;   /**< entries that cross */
  size_t unknown_count;    /**< entries with IOBIND_AUDIT_UNKNOWN: if there are any, the sum is a lower bound */
} iobind_audit_info;
#define IOBIND_AUDIT_INFO_INIT {sizeof(iobind_audit_info), 0, 0, 0, 0, 0}

/** The totals of an audit.
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
  iobind_device *from; /**< NULL for a node, and if nothing is bound */
  iobind_device *to;
  int32_t from_memory; /**< iobind_memory */
  int32_t to_memory;
  uint64_t bytes;      /**< moved on each run, within one memory too; 0: nothing, or not known */
  const char *reason;  /**< why, one line */
  const char *advice;  /**< what to do about it; "" if there is nothing to do */
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
  IOBIND_PIPELINE_STOP = 1u << 0, /**< the first item that fails ends the pipeline; without it the others go on */
  IOBIND_PIPELINE_TIMES = 1u << 1 /**< measure when each stage of an item ends, by a thread for each stream. If a
                                       device has a virtual clock, the waits of these threads move it */
};

typedef struct iobind_pipeline_options {
  uint32_t struct_size;
  uint32_t flags;                  /**< IOBIND_PIPELINE_* */
  size_t slots;                    /**< items that can be under way, each with its own memory; 0 means 3; at most 1024 */
  iobind_tensor *const *constants; /**< input_count tensors that are the same for all items, where the session reads them; NULL
                                        for an input that each item brings. NULL: each item brings all */
  const int32_t *outputs;          /**< output_count iobind_placement, at least one of which is not NONE; NULL: all to the host */
  const iobind_run_options *run_options; /**< of all runs; NULL: the defaults; since 0.2 */
} iobind_pipeline_options;
#define IOBIND_PIPELINE_OPTIONS_INIT {sizeof(iobind_pipeline_options), 0, 0, NULL, NULL, NULL}

/** Create a pipeline: it uploads an item, runs the one before it and downloads the one before that, all at the same time. If
 *  the device has streams of its own, the caller's thread submits everything; on other devices threads of iobind do the work.
 *  Inputs that the session reads on the host are not uploaded, and outputs that it leaves there are not downloaded.
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED an unknown flag, or an input that is not a tensor or holds strings and is not
 *          among the constants; as iobind_binding_set_input for the constants, as iobind_binding_set_run_options; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_create(iobind_session *session, const iobind_pipeline_options *options,
                                                             iobind_pipeline **pipeline, iobind_error *error);

/** Destroy a pipeline, after waiting for the items that are under way.
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API void iobind_pipeline_destroy(iobind_pipeline *pipeline);

/** Submit an item. Its data are copied at once, so the caller may change the tensors when the call returns. The first item of a
 *  slot allocates its device and pinned memory; an item with other dims does so again.
 *  @param inputs  input_count host tensors; NULL for the constant ones
 *  @return OK, also if the item fails later: iobind_pipeline_next reports that; INVALID_STATE every slot holds an item
 *          that was not pulled, or an item failed and IOBIND_PIPELINE_STOP is set; DTYPE, SHAPE an input does not fit; WRONG_DEVICE
 *          an input is not on the host; INVALID_ARGUMENT; OUT_OF_MEMORY, RUNTIME memory for the item. After an error the item
 *          was not submitted
 *  @threads serial   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_submit(iobind_pipeline *pipeline, iobind_tensor *const *inputs,
                                                             iobind_error *error);

/** An item whose data may be on the device already. */
typedef struct iobind_pipeline_request {
  uint32_t struct_size;
  uint32_t reserved;            /**< 0 */
  iobind_tensor *const *inputs; /**< input_count tensors, on the host or where the session reads the input; NULL for the constants */
  iobind_event *const *events;  /**< input_count events of the tensors' producers; NULL, also for one of them: it is ready */
  void *tag;                    /**< comes back in iobind_pipeline_item */
} iobind_pipeline_request;
#define IOBIND_PIPELINE_REQUEST_INIT {sizeof(iobind_pipeline_request), 0, NULL, NULL, NULL}

/** As iobind_pipeline_submit, for tensors on the device too. Those on the host are copied as there, after a wait for their
 *  event on the host. Any other is read where it is: it is kept alive, and must not be written, until the item was pulled; the run
 *  waits for what its event holds now, on the device if both streams are of one EP.
 *  @return as iobind_pipeline_submit, but WRONG_DEVICE an input is neither on the host nor where the session reads it; the failure
 *          of work before the event of an input on the host
 *  @threads serial   @blocks for events of inputs on the host   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_submit_request(iobind_pipeline *pipeline,
                                                                     const iobind_pipeline_request *request,
                                                                     iobind_error *error);

/** An item that was pulled. Times are those of a monotonic clock; a stage's time is 0 without IOBIND_PIPELINE_TIMES, and if the
 *  item has no such stage. A stage begins when the one before it has ended and its stream is free. */
typedef struct iobind_pipeline_item {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t index;       /**< 0, 1, 2 ... in the order of submission */
  uint64_t submit_ns;   /**< when it was submitted */
  uint64_t upload_ns;   /**< when its upload ended */
  uint64_t run_ns;      /**< when its run ended */
  uint64_t download_ns; /**< when its download ended, or its outputs were handed over if nothing is downloaded */
  void *tag;            /**< of its iobind_pipeline_request; since 0.2 */
} iobind_pipeline_item;
#define IOBIND_PIPELINE_ITEM_INIT {sizeof(iobind_pipeline_item), 0, 0, 0, 0, 0, 0, NULL}

/** Wait for the oldest item that was not pulled.
 *  @param outputs  an array of output_count; receives tensors on the host, or where the session leaves the output for
 *                  IOBIND_PLACE_DEVICE; NULL for outputs that are not wanted or not tensors. Borrowed: valid until the next
 *                  item is submitted. Retain one to keep it: no later item overwrites it
 *  @param item     receives which item it is, also if it failed; may be NULL
 *  @return OK; the failure of the item: the message has its index, and the pipeline goes on unless IOBIND_PIPELINE_STOP is
 *          set (if an EP's stream failed late, items that were under way at the same time may be reported too); CANCELLED
 *          IOBIND_PIPELINE_STOP is set and an earlier item failed; NOT_FOUND no item is under way; INVALID_ARGUMENT
 *  @threads serial   @blocks yes   @since 0.1 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_next(iobind_pipeline *pipeline, iobind_tensor **outputs,
                                                           iobind_pipeline_item *item, iobind_error *error);

/** As iobind_pipeline_next, for a limited time.
 *  @param timeout_ns  as iobind_event_wait_for
 *  @return as iobind_pipeline_next; TIMEOUT the oldest item is still under way, and still the next one; OUT_OF_MEMORY
 *  @threads serial   @blocks for timeout_ns at most   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_pipeline_next_for(iobind_pipeline *pipeline, uint64_t timeout_ns,
                                                               iobind_tensor **outputs, iobind_pipeline_item *item,
                                                               iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
