/** @file interop.h
 *  iobind beside other libraries: their streams and events, tensors by DLPack, the ORT of a host program. The rules of iobind.h
 *  hold here. */
#ifndef IOBIND_INTEROP_H
#define IOBIND_INTEROP_H

/* clang-format off: laid out by hand, as a page to read */

#include "iobind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams and events of other libraries ------------------------------------------------------------------------ */

/** Whose handle it is. */
typedef enum iobind_native_kind {
  IOBIND_NATIVE_CUDA = 1,  /**< a cudaStream_t or CUstream; a cudaEvent_t or CUevent */
  IOBIND_NATIVE_D3D12 = 2, /**< not supported yet */
  IOBIND_NATIVE_VDEV = 3,  /**< a vdev_stream *, a vdev_event * */
  IOBIND_NATIVE_KIND_FORCE32 = 0x7FFFFFFF
} iobind_native_kind;

/** A handle of another library. */
typedef struct iobind_native {
  uint32_t struct_size;
  int32_t kind;   /**< iobind_native_kind */
  void *handle;
  uint64_t value; /**< of a fence; 0 for what has no values */
} iobind_native;
#define IOBIND_NATIVE_INIT {sizeof(iobind_native), 0, NULL, 0}

/** Make a stream of another library's: PyTorch's, CuPy's, a decoder's. What is submitted to it here comes behind what the other library
 *  has submitted by then, and what that library submits later comes behind it, by events on the device; the host does not wait. It is a
 *  stream as any other: for copies, runs and events, and `stream` in a session's options.
 *  @param native    its stream, of this device. On CUDA NULL is the legacy default stream
 *  @param deleter   called with the handle as its data, on any thread, when the stream has been destroyed and no session computes on it
 *                   any more; it must not call iobind. NULL: the caller keeps the handle alive for so long. If the call does
 *                   not return OK, it is not called
 *  @return OK; NOT_SUPPORTED the device takes no handles of that kind, or cudaStreamPerThread; INVALID_STATE the stream is being captured;
 *          DEVICE it is another device's; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME. Calls on the stream fail with INVALID_STATE
 *          while it is being captured
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wrap(iobind_device *device, const iobind_native *native,
                                                         iobind_deleter deleter, void *context, iobind_stream **stream,
                                                         iobind_error *error);

/** Order all later work of an EP's stream behind an event of another library, without stopping the host.
 *  @param native  the event, recorded already; it may be destroyed when the call returns, as its library allows
 *  @return OK; NOT_SUPPORTED the device takes no handles of that kind; INVALID_ARGUMENT; RUNTIME
 *  @threads serial for the stream   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait_native(iobind_stream *stream, const iobind_native *native,
                                                                iobind_error *error);

/** Record an event of another library at the present end of an EP's stream. As iobind_stream_wait_native.
 *  @threads serial for the stream   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_signal_native(iobind_stream *stream, const iobind_native *native,
                                                                  iobind_error *error);

/* ---- DLPack ------------------------------------------------------------------------------------------------------- */

enum {
  IOBIND_DLPACK_LEGACY = 1u << 0, /**< a `DLManagedTensor`, as before DLPack 1.0; otherwise a `DLManagedTensorVersioned` */
  IOBIND_DLPACK_COPY_STRIDED = 1u << 1 /**< import: host memory that is not dense and row-major is copied, not refused */
};

/** Give a tensor to another library as a struct of DLPack 1.1, without a copy. Its device type tells the memory: kDLCPU,
 *  kDLCUDA, kDLCUDAHost, kDLROCM, kDLROCMHost, kDLWebGPU (`data` is a WGPUBuffer) or, for the virtual accelerator,
 *  kDLExtDev. The struct holds a reference to the tensor, which its deleter releases, on any thread. The caller must order work on
 *  streams that writes the tensor before the consumer's work: by an event, or by waiting.
 *  @param flags    IOBIND_DLPACK_LEGACY or 0
 *  @param managed  receives the struct. The caller owns it, and calls its deleter or passes it on
 *  @return OK; NOT_SUPPORTED DLPack has no name for this memory or (strings) for this type, an unknown flag, or a LEGACY struct of
 *          a read-only tensor, or of a type that it lacks (of less than 8 bits, and floats of 8); INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_to_dlpack(iobind_tensor *tensor, uint32_t flags, void **managed,
                                                              iobind_error *error);

/** Take over a tensor of another library, without a copy: a struct of DLPack 1.x, or a LEGACY one. The caller must order the
 *  producer's work on streams before the tensor's first use: by an event, or by waiting. Memory with the read-only flag becomes a
 *  tensor that is refused wherever it would be written.
 *  @param managed  the struct. If the call returns OK, the tensor owns it and calls its deleter, on any thread, when nothing uses
 *                  the memory any more (before the call returns if it was copied). Otherwise the caller still owns it
 *  @param flags    IOBIND_DLPACK_*
 *  @return OK; VERSION the struct is of DLPack 2 or newer; DEVICE no device of the runtime has this memory; DTYPE no such element
 *          type; SHAPE, also strides that are not dense, without COPY_STRIDED; NOT_SUPPORTED strides on a device, or packed
 *          elements that lie apart; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_from_dlpack(iobind_runtime *runtime, void *managed, uint32_t flags,
                                                                iobind_tensor **tensor, iobind_error *error);

/* ---- the ORT of a host program ------------------------------------------------------------------------------------ */

/** The `const OrtApiBase *` of the ORT that last registered libiobind itself as an EP library; NULL if none did. Some ORTs
 *  give their table only to EP libraries (Python's does). Then a program registers libiobind's file, which has no devices, and
 *  attaches to the result (`ort_api_base` of iobind_runtime_options): both use one ORT, with its EPs and memory. Lives as long as
 *  that ORT.
 *  @threads any   @since 0.2 */
IOBIND_API const void *iobind_host_api_base(void);

/** Make a tensor over an OrtValue of the same loaded ORT, in whatever memory it is: the OrtValue is used as it is, neither copied nor
 *  released. Its element type, dims and device are read from it. Strings are allowed.
 *  @param ort_value  an `OrtValue *` that holds a tensor. While the tensor lives, nothing may be put into it
 *  @param deleter    called once, with `ort_value` as its data, when iobind does not use it any more; on any thread; it must not call
 *                    iobind. It may call ORT's ReleaseValue. NULL: the caller keeps the OrtValue alive until the tensor, and every run
 *                    that uses it, is gone. If the call does not return OK, it is not called
 *  @return OK; NOT_SUPPORTED it holds a sequence, a map, a sparse tensor, or nothing; DEVICE no device of the runtime has this memory;
 *          DTYPE; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_wrap_ort(iobind_runtime *runtime, void *ort_value, iobind_deleter deleter,
                                                             void *context, iobind_tensor **tensor, iobind_error *error);

/** Make an OrtValue over a tensor's memory, without a copy (strings are copied: ORT would free them as its own). It holds a reference to
 *  the tensor, which ORT gives back when the last OrtValue of that memory goes, on any thread. The caller must order work on streams
 *  that writes the tensor before what is done with the OrtValue: by an event, or by waiting.
 *  @param ort_value  receives an `OrtValue *`, which the caller releases by ORT's ReleaseValue
 *  @return OK; NOT_SUPPORTED the tensor is read-only, which an OrtValue cannot say; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_to_ort(iobind_tensor *tensor, void **ort_value, iobind_error *error);

/** The ORT that a runtime uses. */
typedef struct iobind_ort {
  uint32_t struct_size;
  uint32_t api_version;  /**< of `api`: members that are newer than this version of ORT's interface must not be used */
  const void *api;       /**< `const OrtApi *` */
  void *env;             /**< `OrtEnv *`; not to be released */
} iobind_ort;
#define IOBIND_ORT_INIT {sizeof(iobind_ort), 0, NULL, NULL}

/** ORT's own table of functions and its environment, for programs that call ORT beside iobind. Both live as long as the runtime.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 0.2 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_ort(const iobind_runtime *runtime, iobind_ort *ort, iobind_error *error);

/** The `OrtSession *` of a session; not to be released; lives as long as the session. ORT's own runs of it may not overlap iobind's if
 *  the session captures graphs or has a stream, for iobind's wait for each other and do not know of them.
 *  @return NULL for NULL
 *  @threads any   @since 0.2 */
IOBIND_API void *iobind_session_get_ort(const iobind_session *session);

#ifdef __cplusplus
}
#endif

#endif
