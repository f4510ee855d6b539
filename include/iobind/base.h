/** @file base.h
 *  Status, error and version, and the rules that apply to every function of iobind.
 *
 *  Calls
 *  - A function that can fail returns an iobind_status. Its last argument is an `iobind_error *`, owned by the caller, or NULL.
 *  - On failure every out pointer is set to NULL. Nothing else has changed, except as documented.
 *  - A call without a stream completes its work before it returns. A call with a stream submits its work to that stream.
 *  - A call that uses a device may return DEVICE_LOST, also if its comment does not list it.
 *  - No function prints, aborts or stores an error per thread.
 *
 *  Arguments
 *  - Strings are NUL-terminated UTF-8. Argument strings are copied; returned strings are borrowed.
 *  - Options, requests and infos are structs that begin with `struct_size`. The _INIT macro sets it and zeroes all other fields.
 *    Zero selects a field's default; a NULL options pointer selects all defaults.
 *  - Every array is passed with its length. If the session determines that length, any other one is INVALID_ARGUMENT.
 *  - Sizes are in bytes (size_t), dims in elements (int64_t), and times in nanoseconds (uint64_t).
 *
 *  Lifetime
 *  - `create` pairs with `destroy`, and `retain` with `release`. `destroy` and `release` ignore NULL.
 *  - An object keeps its parents alive. Objects may be destroyed in any order.
 *  - `get` returns a borrowed reference, except as documented. `take` transfers ownership, `wrap` borrows the caller's memory.
 *
 *  Threads: each function's comment has one of the first three tags.
 *  - `@threads any`: may be called from any thread at any time.
 *  - `@threads shared-read`: may be called concurrently while no thread changes the object.
 *  - `@threads serial`: externally synchronized: the caller must not call concurrently on the same object.
 *  - Some EPs crash if two threads use them at the same time, such as WebGPU. An internal lock serializes calls into them.
 *  - After a fork the child cannot use its parent's objects: calls return INVALID_STATE, and `destroy` is a no-op. */
#ifndef IOBIND_BASE_H
#define IOBIND_BASE_H

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
#define IOBIND_CHECK __attribute__((warn_unused_result)) /* the caller must check the status */
#else
#define IOBIND_CHECK
#endif

typedef struct iobind_runtime iobind_runtime;   /**< one loaded ORT: its environment, EP libraries and devices */
typedef struct iobind_device iobind_device;     /**< a device of an EP; owned by the runtime, never destroyed by a caller */
typedef struct iobind_stream iobind_stream;     /**< an ordered queue of work on a device */
typedef struct iobind_event iobind_event;       /**< a point in a stream that can be waited for */
typedef struct iobind_tensor iobind_tensor;     /**< typed, shaped memory on a device or on the host */
typedef struct iobind_session iobind_session;   /**< a loaded model on its devices */
typedef struct iobind_binding iobind_binding;   /**< inputs and outputs of a session, bound to memory */
typedef struct iobind_state iobind_state;       /**< the saved content of a binding's carried inputs */
typedef struct iobind_batch iobind_batch;       /**< independent sequences of one model as rows of its runs */
typedef struct iobind_audit iobind_audit;       /**< the bytes that a run of a binding moves, and why */
typedef struct iobind_pipeline iobind_pipeline; /**< pipelined runs of one session; copies overlap compute */

/** Every status except IOBIND_OK, which is 0: name, value, meaning. */
#define IOBIND_STATUS_MAP(XX)                                                              \
  XX(INVALID_ARGUMENT, 1, "an argument is invalid")                                        \
  XX(INVALID_STATE, 2, "the object is in the wrong state for this call")                   \
  XX(NOT_FOUND, 3, "no such file, name, index or device")                                  \
  XX(NOT_SUPPORTED, 4, "the device, the EP or this version does not support it")           \
  XX(OUT_OF_MEMORY, 5, "host or device memory is exhausted")                               \
  XX(IO, 6, "a file could not be read or written")                                         \
  XX(VERSION, 7, "ONNX Runtime or a library is too old or too new")                        \
  XX(RUNTIME, 8, "ONNX Runtime failed; ort_code and the message have its reason")          \
  XX(WRONG_DEVICE, 9, "memory or work is on a different device than expected")             \
  XX(SHAPE, 10, "rank or dims do not match")                                               \
  XX(DTYPE, 11, "the element type does not match")                                         \
  XX(TIMEOUT, 12, "timed out")                                                             \
  XX(CANCELLED, 13, "the run was cancelled")                                               \
  XX(INTERNAL, 14, "a defect of iobind: please report it")                                 \
  XX(DEVICE_LOST, 15, "the device is lost to this process; all work in flight on it failed") \
  XX(RESULT, 16, "the device's result differs from the CPU's; see iobind_verify")

typedef enum iobind_status {
  IOBIND_OK = 0,
#define IOBIND_STATUS_VALUE(name, value, text) IOBIND_ERROR_##name = value,
  IOBIND_STATUS_MAP(IOBIND_STATUS_VALUE)
#undef IOBIND_STATUS_VALUE
  IOBIND_STATUS_FORCE32 = 0x7FFFFFFF
} iobind_status;

/** Details of a failed call: 512 bytes, owned by the caller, with nothing to release. A successful call leaves it unchanged. */
typedef struct iobind_error {
  uint32_t struct_size; /**< IOBIND_ERROR_INIT sets it */
  int32_t status;       /**< the iobind_status that the call returned */
  int32_t ort_code;     /**< ORT's OrtErrorCode if ORT failed, otherwise 0 */
  uint32_t reserved;    /**< 0 */
  char message[496];    /**< one line, UTF-8: what failed, what was expected, what it got, what to do */
} iobind_error;
#define IOBIND_ERROR_INIT {sizeof(iobind_error), 0, 0, 0, {0}}

/** For `timeout_ns` of iobind_event_wait and iobind_pipeline_next: no time limit. */
#define IOBIND_NO_TIMEOUT UINT64_MAX

/** Called once, when iobind no longer uses the wrapped object (memory, a session, a stream). It is called on any thread and must
 *  not call iobind. It is never called if the call that received it failed. */
typedef void (*iobind_deleter)(void *context, void *data);

/** The version of the loaded library, in the format of IOBIND_VERSION_NUMBER.
 *  @threads any   @since 1.0 */
IOBIND_API uint32_t iobind_get_version(void);

/** The version of the loaded library as text, such as "1.0.0". Static lifetime.
 *  @threads any   @since 1.0 */
IOBIND_API const char *iobind_get_version_string(void);

/** The name of a status, such as "OUT_OF_MEMORY"; "UNKNOWN" for any other number. Static lifetime.
 *  @threads any   @since 1.0 */
IOBIND_API const char *iobind_status_get_name(int32_t status);

#ifdef __cplusplus
}
#endif

#endif
