/** @file runtime.h
 *  One loaded ONNX Runtime (ORT), its log, and its execution provider (EP) libraries. */
#ifndef IOBIND_RUNTIME_H
#define IOBIND_RUNTIME_H

/* clang-format off: laid out by hand, as a page to read */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iobind_log_level {
  IOBIND_LOG_DEFAULT = 0, /**< warnings and errors */
  IOBIND_LOG_VERBOSE = 1,
  IOBIND_LOG_INFO = 2,
  IOBIND_LOG_WARNING = 3,
  IOBIND_LOG_ERROR = 4,
  IOBIND_LOG_LEVEL_FORCE32 = 0x7FFFFFFF
} iobind_log_level;

/** Receives log lines of iobind and ORT. `message` is one line without a newline, valid during the call. It may be called on any
 *  thread, including ORT's own, and on several threads at once. It must not call iobind. */
typedef void (*iobind_log_function)(void *context, int32_t level, const char *message);

enum {
  IOBIND_RUNTIME_TELEMETRY = 1u << 0,       /**< leave ORT's telemetry unchanged; by default iobind disables it */
  IOBIND_RUNTIME_NO_EP_SEARCH = 1u << 1,    /**< load only `ep_libraries`; ignore IOBIND_EP_LIBRARIES and the runtime directory */
  IOBIND_RUNTIME_SOFTWARE_DEVICES = 1u << 2, /**< let EPs offer software adapters on a machine without a GPU, such as WebGPU over a
                                                 software Vulkan driver: the one set in the environment, or else the one in the
                                                 runtime directory */
  IOBIND_RUNTIME_POOLS = 1u << 3 /**< on CUDA devices, allocate tensors from a pool of NVIDIA's driver (CUDA 11.2 or newer), see
                                     iobind_tensor_create. The flag has no effect on other devices */
};

typedef struct iobind_runtime_options {
  uint32_t struct_size;
  uint32_t flags;                  /**< IOBIND_RUNTIME_* */
  const char *ort_library;         /**< ORT's library or its directory; NULL: search, see iobind_runtime_create */
  const void *ort_api_base;        /**< attach to a loaded ORT: its `const OrtApiBase *` */
  const void *ort_api;             /**< attach to a loaded ORT: its `const OrtApi *`. Set at most one of the three ort_ fields */
  const char *const *ep_libraries; /**< EP libraries to register: "FILE", "NAME=FILE", or a directory to search */
  size_t ep_library_count;
  iobind_log_function log;         /**< NULL: no log, and ORT does not write to stderr */
  void *log_context;               /**< passed to `log`; must remain valid until the runtime and all its objects are destroyed */
  int32_t log_level;               /**< the lowest iobind_log_level that reaches `log` */
  uint32_t reserved;
} iobind_runtime_options;
#define IOBIND_RUNTIME_OPTIONS_INIT {sizeof(iobind_runtime_options), 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0}

/** Find and load ORT (1.24 or newer), or attach to a loaded one. Then find EP libraries and register them.
 *
 *  ORT is searched for in this order:
 *  - `ort_library`; then the environment variable ORT_NATIVE_LIB_PATH (a file or a directory). If either is set, the search ends
 *    there.
 *  - a copy that the process has already loaded
 *  - the directory of libiobind; `onnxruntime/` in the runtime directory, which is `iobind/` beside libiobind; the system loader's
 *    search path
 *  - the file or directory set as IOBIND_ORT_LIBRARY when libiobind was built, if any
 *
 *  EP libraries are searched for in this order:
 *  - `ep_libraries`. It is an error if a file named there does not load.
 *  - IOBIND_EP_LIBRARIES (the same forms, separated by ':', on Windows ';')
 *  - the catalogue's libraries in the directory of libiobind, in `ep/` of the runtime directory, and beside ORT
 *
 *  If a library found in the other steps does not load, the call succeeds. iobind_runtime_get_ep and the log report the reason. A
 *  library that the host program has registered is used as it is. Relative paths start at the current directory. A setuid program
 *  ignores both variables.
 *
 *  A process has one runtime for each loaded ORT. A second call for the same ORT retains and returns the same object; of its
 *  options only `ep_libraries` has an effect. IOBIND_RUNTIME_POOLS must be set in the first call.
 *
 *  Unless IOBIND_RUNTIME_TELEMETRY is set, ORT_DISABLE_TELEMETRY=1 is added to the environment before ORT loads.
 *  @return OK; NOT_FOUND no ORT (the message lists what was tried), or a file of `ep_libraries` does not exist; VERSION ORT is
 *          older than 1.24, or the library is not ORT; NOT_SUPPORTED an unknown flag, or another copy of ORT in the process uses
 *          an EP library; INVALID_STATE IOBIND_RUNTIME_POOLS is set, and the runtime exists without it; INVALID_ARGUMENT;
 *          RUNTIME; OUT_OF_MEMORY
 *  @threads any. No other thread may read the environment during a call that changes it: the first call, and the first one without
 *           IOBIND_RUNTIME_TELEMETRY   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_create(const iobind_runtime_options *options, iobind_runtime **runtime,
                                                            iobind_error *error);

/** Release a reference. When the last one is released and all objects of the runtime are destroyed, iobind unregisters its EP
 *  libraries and releases ORT's environment. ORT's library stays loaded.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_runtime_destroy(iobind_runtime *runtime);

typedef struct iobind_runtime_info {
  uint32_t struct_size;
  uint32_t ort_api_version; /**< the version of ORT's C interface in use, such as 29 */
  const char *ort_version;  /**< such as "1.31.1" */
  const char *ort_library;  /**< the file it was loaded from; "" if unknown, for an attached ORT */
  const char *found_by;     /**< the search step that found it, such as "ORT_NATIVE_LIB_PATH" */
  size_t device_count;
  size_t ep_count;
} iobind_runtime_info;
#define IOBIND_RUNTIME_INFO_INIT {sizeof(iobind_runtime_info), 0, NULL, NULL, NULL, 0, 0}

/** Describe what was loaded. The strings remain valid as long as the runtime.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_info(const iobind_runtime *runtime, iobind_runtime_info *info,
                                                              iobind_error *error);

/** Register an EP library under a name. Its devices are added after the existing ones.
 *  @param name  registration name; NULL: the catalogue's name for that file, or else the file name
 *  @param path  the library's file
 *  @return OK, also if a library is already registered under that name, or this file under another; NOT_FOUND no such file; RUNTIME
 *          the library does not load (the message has the loader's reason, such as a missing library); NOT_SUPPORTED another copy of
 *          ORT uses it; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_register_ep(iobind_runtime *runtime, const char *name, const char *path,
                                                                 iobind_error *error);

typedef struct iobind_ep_info {
  uint32_t struct_size;
  int32_t status;      /**< iobind_status: OK, or why the library is not used */
  const char *name;    /**< registration name */
  const char *path;    /**< the library's file, absolute; "" if the host program registered it */
  const char *message; /**< "" or the reason */
} iobind_ep_info;
#define IOBIND_EP_INFO_INIT {sizeof(iobind_ep_info), 0, NULL, NULL, NULL}

/** Describe an EP library that was found, registered or not. The strings remain valid as long as the runtime.
 *  @param index  0 .. ep_count - 1, in the order of discovery
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_ep(const iobind_runtime *runtime, size_t index, iobind_ep_info *info,
                                                            iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
