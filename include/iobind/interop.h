/** @file interop.h
 *  Sharing with other libraries: their streams and events, tensors by DLPack, the ORT of a host program, ORT's own objects, and
 *  memory and semaphores of other libraries and processes. The rules of base.h apply here. */
#ifndef IOBIND_INTEROP_H
#define IOBIND_INTEROP_H

/* clang-format off: laid out by hand, as a page to read */

#include "iobind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams and events of other libraries ------------------------------------------------------------------------ */

/** The library or device that a handle belongs to. */
typedef enum iobind_native_kind {
  IOBIND_NATIVE_CUDA = 1,  /**< a cudaStream_t or CUstream; a cudaEvent_t or CUevent */
  IOBIND_NATIVE_D3D12 = 2, /**< an ID3D12Fence and its value; an ID3D12Resource */
  IOBIND_NATIVE_VDEV = 3,  /**< a vdev_stream *, a vdev_event * */
  IOBIND_NATIVE_KIND_FORCE32 = 0x7FFFFFFF
} iobind_native_kind;

/** A handle of another library. */
typedef struct iobind_native {
  uint32_t struct_size;
  int32_t kind;   /**< iobind_native_kind */
  void *handle;
  uint64_t value; /**< of a fence; 0 for handles without values */
} iobind_native;
#define IOBIND_NATIVE_INIT {sizeof(iobind_native), 0, NULL, 0}

/** Use a stream of another library, such as PyTorch, CuPy or a decoder, as a stream of iobind: for copies, runs and events, and as
 *  `stream` of a session's options.
 *  - Work submitted by iobind waits for all work that the other library has submitted before.
 *  - Later work of that library waits for iobind's work. The device makes both waits; the host does not block.
 *  - While the stream is being captured, calls on it fail with INVALID_STATE.
 *  @param native    the other library's stream, of this device. On CUDA NULL is the legacy default stream
 *  @param deleter   called with the handle as its data, when the stream is destroyed and no session computes on it any more. NULL:
 *                   the handle must remain valid until then
 *  @return OK; NOT_SUPPORTED the device accepts no handles of that kind, or cudaStreamPerThread; INVALID_STATE the stream is being
 *          captured; WRONG_DEVICE the stream is of another device; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wrap(iobind_device *device, const iobind_native *native,
                                                         iobind_deleter deleter, void *context, iobind_stream **stream,
                                                         iobind_error *error);

/** Make later work of a native stream wait for an event of another library, without blocking the host.
 *  - The event must have been recorded. It may be destroyed after the call returns, as its library allows.
 *  - A fence must have reached the value, or iobind_stream_signal_native must have submitted it on the same device. All runs share
 *    one queue, which a value that is never signaled would stop. If the program submits the signal itself, call
 *    `ID3D12CommandQueue::Wait` on the queue (see iobind_stream_get_native).
 *  - An event that was recorded in a capture makes the stream part of that capture. Neither use nor destroy the stream before the
 *    capture ends.
 *  @return OK; INVALID_STATE the fence's value is not reached and not submitted, or the event was recorded in a capture;
 *          NOT_SUPPORTED the device accepts no handles of that kind; INVALID_ARGUMENT; RUNTIME
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait_native(iobind_stream *stream, const iobind_native *native,
                                                                iobind_error *error);

/** Record an event of another library, or signal a fence, after all previously submitted work of a native stream. Errors as
 *  iobind_stream_wait_native.
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_signal_native(iobind_stream *stream, const iobind_native *native,
                                                                  iobind_error *error);

/** Get the native handle of a stream, for other libraries that submit work to it: on CUDA a cudaStream_t, on a DirectML device the
 *  ID3D12CommandQueue of its runs. It remains valid as long as the stream.
 *  @param native  receives kind and handle
 *  @return OK; NOT_SUPPORTED the stream is a thread of iobind; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_get_native(const iobind_stream *stream, iobind_native *native,
                                                               iobind_error *error);

/* ---- DirectML: devices and memory of Direct3D 12 ------------------------------------------------------------------- */

/** Objects of the program, for iobind to use. */
typedef struct iobind_native_device {
  uint32_t struct_size;
  int32_t kind;     /**< IOBIND_NATIVE_D3D12 */
  void *device;     /**< ID3D12Device */
  void *dml_device; /**< IDMLDevice of `device`; NULL: iobind creates one */
  void *queue;      /**< ID3D12CommandQueue of `device`, DIRECT or COMPUTE: all sessions of the device compute on it */
} iobind_native_device;
#define IOBIND_NATIVE_DEVICE_INIT {sizeof(iobind_native_device), 0, NULL, NULL, NULL}

/** Set the Direct3D objects that a DirectML device uses, before its first use. Finding the device by a spec is a use. Without this
 *  call iobind creates the objects.
 *  - On a DirectML device iobind_tensor_wrap takes an ID3D12Resource as its data: a buffer in a default heap, with the flag
 *    ALLOW_UNORDERED_ACCESS. Its size is at least that of the tensor, rounded up to 4 bytes.
 *  - All runs of the device are on one queue, which iobind_stream_get_native returns. Each stream copies on its own queue.
 *  - Work that the program submits to the queue of runs is ordered with the runs in the order of submission.
 *  @param native  the runtime holds a reference to each object until it is destroyed
 *  @param device  receives the runtime's device on the same adapter
 *  @return OK; NOT_FOUND ORT lists no device on that adapter; INVALID_STATE the device was already used; INVALID_ARGUMENT, also for a
 *          COPY queue; WRONG_DEVICE the objects are of different devices; NOT_SUPPORTED another kind; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_adopt_device(iobind_runtime *runtime, const iobind_native_device *native,
                                                                  iobind_device **device, iobind_error *error);

/** Get the object that is a tensor's memory: on a DirectML device its ID3D12Resource.
 *  @param native  receives kind and handle, with a reference that the caller must release (`Release`)
 *  @return OK; NOT_SUPPORTED the memory has an address and no object; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_native(const iobind_tensor *tensor, iobind_native *native,
                                                               iobind_error *error);

/* ---- DLPack ------------------------------------------------------------------------------------------------------- */

enum {
  IOBIND_DLPACK_LEGACY = 1u << 0, /**< a `DLManagedTensor`, as before DLPack 1.0; otherwise a `DLManagedTensorVersioned` */
  IOBIND_DLPACK_COPY_STRIDED = 1u << 1 /**< import: host memory that is not dense and row-major is copied, not refused */
};

/** Export a tensor as a struct of DLPack 1.1, without a copy.
 *  - The device type is that of the memory: kDLCPU, kDLCUDA, kDLCUDAHost, kDLROCM, kDLROCMHost, kDLWebGPU (`data` is a WGPUBuffer),
 *    or kDLExtDev (the virtual accelerator).
 *  - The struct holds a reference to the tensor. Its deleter releases it, on any thread.
 *  - If work on a stream writes the tensor, the caller must make the consumer's work wait for it, by an event or a wait.
 *  @param flags    IOBIND_DLPACK_LEGACY or 0
 *  @param managed  receives the struct. The caller owns it, and calls its deleter or passes it on
 *  @return OK; NOT_SUPPORTED an unknown flag; DLPack has no name for this memory or this type (strings); with LEGACY, a read-only
 *          tensor, a type of less than 8 bits, or a float of 8 bits; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_to_dlpack(iobind_tensor *tensor, uint32_t flags, void **managed,
                                                              iobind_error *error);

/** Import a struct of DLPack 1.x, or a LEGACY one, as a tensor, without a copy.
 *  - The caller must make the tensor's first use wait for the producer's work on streams, by an event or a wait.
 *  - A tensor over memory with the read-only flag is refused as a target.
 *  @param managed  the struct. If the call returns OK, the tensor owns it: the deleter is called on any thread when nothing uses the
 *                  memory any more, or before the call returns if the memory was copied. After a failure the caller still owns the
 *                  struct
 *  @param flags    IOBIND_DLPACK_*
 *  @return OK; VERSION the struct is of DLPack 2 or newer; WRONG_DEVICE no device of the runtime has this memory; DTYPE no such
 *          element type; SHAPE, also strides that are not dense, without COPY_STRIDED; NOT_SUPPORTED such strides on a device, or of
 *          packed elements; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_from_dlpack(iobind_runtime *runtime, void *managed, uint32_t flags,
                                                                iobind_tensor **tensor, iobind_error *error);

/* ---- rows with a pitch --------------------------------------------------------------------------------------------- */

/** Rows of bytes at a constant distance: a frame with a line size, a rectangle of a picture. */
typedef struct iobind_rows {
  uint32_t struct_size;
  uint32_t reserved;     /**< 0 */
  iobind_tensor *tensor;
  size_t offset;         /**< of the first row, in bytes */
  size_t pitch;          /**< bytes from the start of one row to the start of the next; at least the bytes of a row */
} iobind_rows;
#define IOBIND_ROWS_INIT {sizeof(iobind_rows), 0, NULL, 0, 0}

/** Copy rows of one tensor into another tensor, or into another part of the same one. Examples: a decoder's frame into a dense
 *  tensor, whose pitch is the bytes of a row; a dense tensor into a frame; a rectangle.
 *  - Element types and dims are ignored. Bytes between the rows are not written.
 *  - With IOBIND_DEVICE_ADDRESSABLE the device copies each row in place, and the counters count only the rows.
 *  - Memory without addresses is staged on the host, counted and logged. A source is downloaded up to its last row. A target is
 *    downloaded and uploaded whole; if the rows cover the target, it is only uploaded.
 *  @param row_bytes  bytes of a row. The rows must lie inside both tensors
 *  @param rows       number of rows; if it or `row_bytes` is 0, nothing is copied
 *  @param stream     NULL: complete on return. Otherwise a stream of one of the two devices; both tensors are kept alive until the
 *                    copy is complete. The call blocks if memory without addresses is staged, and for host memory that is neither
 *                    pinned nor dense
 *  @return OK; INVALID_ARGUMENT NULL, rows outside a tensor, a pitch below a row's bytes, a read-only target, or overlap of source
 *          and target (with equal pitches their rows may alternate in one memory); DTYPE strings; WRONG_DEVICE a stream of another
 *          device, or another runtime; NOT_SUPPORTED; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for each tensor   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_copy_rows(const iobind_rows *source, const iobind_rows *target,
                                                              size_t row_bytes, size_t rows, iobind_stream *stream,
                                                              iobind_error *error);

/* ---- the ORT of a host program ------------------------------------------------------------------------------------ */

/** Get the `const OrtApiBase *` of the ORT that last registered libiobind itself as an EP library; NULL if none did. It remains valid
 *  as long as that ORT is loaded.
 *  - Some ORTs pass their function table only to EP libraries, such as the ORT of the Python package.
 *  - With such an ORT the program registers the file of libiobind, which has no devices, and sets `ort_api_base` of
 *    iobind_runtime_options to the result. The program and iobind then use one ORT, with its EPs and memory.
 *  @threads any   @since 1.0 */
IOBIND_API const void *iobind_get_host_api_base(void);

/** Make a tensor over an OrtValue of the same loaded ORT, in any memory, without a copy. The tensor has the element type, dims and
 *  device of the OrtValue. Strings are allowed.
 *  @param ort_value  an `OrtValue *` that holds a tensor; not released. Its content must not be replaced while the tensor exists
 *  @param deleter    called with `ort_value` as its data when iobind no longer uses it; it may call ORT's ReleaseValue. NULL: the OrtValue
 *                    must remain valid until the tensor, and every run that uses it, is gone
 *  @return OK; NOT_SUPPORTED the OrtValue holds a sequence, a map, a sparse tensor, or nothing; WRONG_DEVICE no device of the runtime
 *          has this memory; DTYPE; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_wrap_ort(iobind_runtime *runtime, void *ort_value, iobind_deleter deleter,
                                                             void *context, iobind_tensor **tensor, iobind_error *error);

/** Make an OrtValue over a tensor's memory, without a copy. Strings are copied, because ORT would free them as its own.
 *  - The OrtValue retains a reference to the tensor. ORT releases it with the last OrtValue of that memory, on any thread.
 *  - If work on a stream writes the tensor, the caller must make uses of the OrtValue wait for it, by an event or a wait.
 *  @param ort_value  receives an `OrtValue *`, which the caller releases by ORT's ReleaseValue
 *  @return OK; NOT_SUPPORTED the tensor is read-only, which an OrtValue cannot express; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_to_ort(iobind_tensor *tensor, void **ort_value, iobind_error *error);

/** The ORT that a runtime uses. */
typedef struct iobind_ort {
  uint32_t struct_size;
  uint32_t api_version;  /**< of `api`: do not use members that are newer than this version of ORT's interface */
  const void *api;       /**< `const OrtApi *` */
  void *env;             /**< `OrtEnv *`; not to be released */
} iobind_ort;
#define IOBIND_ORT_INIT {sizeof(iobind_ort), 0, NULL, NULL}

/** Get ORT's function table and environment, for programs that also call ORT themselves. Both remain valid as long as the runtime.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_ort(const iobind_runtime *runtime, iobind_ort *ort, iobind_error *error);

/** Get the `OrtSession *` of a session. It remains valid as long as the session, and must not be released. If the session captures
 *  graphs or has a stream, runs by ORT's own calls must not overlap iobind's runs: iobind serializes only its own.
 *  @return NULL for NULL
 *  @threads any   @since 1.0 */
IOBIND_API void *iobind_session_get_ort(const iobind_session *session);

/** Use a session that other code created with the same loaded ORT: a package of another language, or ORT's C or C++ interface. The
 *  session's devices are those of its inputs and outputs, and the CPU.
 *  @param ort_session  an `OrtSession *`; neither copied nor released
 *  @param deleter      called with `ort_session` as its data. NULL: the OrtSession must remain valid until this session, its bindings and
 *                      its tensors are gone
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED another copy of ORT created the session; RUNTIME; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_wrap(iobind_runtime *runtime, void *ort_session, iobind_deleter deleter,
                                                          void *context, iobind_session **session, iobind_error *error);

/* ---- NVIDIA's libraries ---------------------------------------------------------------------------------------------- */

enum {
  IOBIND_PRELOAD_NO_CUDA = 1u << 0,  /**< do not load CUDA's runtime, cuBLAS, cuRAND, cuFFT and nvrtc */
  IOBIND_PRELOAD_NO_CUDNN = 1u << 1, /**< do not load cuDNN */
  IOBIND_PRELOAD_NO_MSVC = 1u << 2   /**< on Windows: do not load Microsoft's C++ runtime */
};

typedef struct iobind_preload_options {
  uint32_t struct_size;
  uint32_t flags;        /**< IOBIND_PRELOAD_* */
  const char *directory; /**< NULL: the libraries of an installed PyTorch, NVIDIA's wheels for Python, `cuda/` in the runtime
                              directory, then the loader's search path; "": only the wheels and `cuda/`; otherwise only this
                              directory, which has the libraries or Python's packages */
  uint32_t cuda;         /**< major version of CUDA, 12 or 13; 0: the newest one found */
  uint32_t reserved;
} iobind_preload_options;
#define IOBIND_PRELOAD_OPTIONS_INIT {sizeof(iobind_preload_options), 0, NULL, 0, 0}

/** Load NVIDIA's libraries before CUDA's EP needs them, as Python's `onnxruntime.preload_dlls` does.
 *  - iobind_runtime_create and iobind_runtime_register_ep do the same for CUDA's EP, for libraries that LD_LIBRARY_PATH does not
 *    have. To choose other libraries, call this function first.
 *  - Packages are searched for beside ORT's package, and below VIRTUAL_ENV, CONDA_PREFIX and ~/.local.
 *  @return OK; NOT_FOUND no such directory, or libraries that CUDA's EP needs are missing (the message names them);
 *          NOT_SUPPORTED an unknown flag; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_preload(const iobind_preload_options *options, iobind_error *error);

/* ---- external memory and semaphores ------------------------------------------------------------------------------- */

/** The type of a handle of another library or process. */
typedef enum iobind_external_kind {
  IOBIND_EXTERNAL_FD_MEMORY = 1,       /**< memory, by a file descriptor: Vulkan's opaque type; on the virtual accelerator a memfd */
  IOBIND_EXTERNAL_WIN32_MEMORY = 2,    /**< Vulkan's memory, by a HANDLE */
  IOBIND_EXTERNAL_D3D12_RESOURCE = 3,  /**< the shared HANDLE of an ID3D12Resource */
  IOBIND_EXTERNAL_D3D12_HEAP = 4,      /**< the shared HANDLE of an ID3D12Heap */
  IOBIND_EXTERNAL_FD_SEMAPHORE = 5,    /**< Vulkan's timeline semaphore, by an opaque file descriptor; on the virtual accelerator that
                                            of vdev_semaphore_create */
  IOBIND_EXTERNAL_WIN32_SEMAPHORE = 6, /**< Vulkan's timeline semaphore, by a HANDLE */
  IOBIND_EXTERNAL_D3D12_FENCE = 7,     /**< the shared HANDLE of an ID3D12Fence */
  IOBIND_EXTERNAL_KIND_FORCE32 = 0x7FFFFFFF
} iobind_external_kind;

/** A handle and its type. */
typedef struct iobind_external {
  uint32_t struct_size;
  int32_t kind;  /**< iobind_external_kind */
  void *handle;  /**< the HANDLE; a file descriptor as `(void *)(intptr_t)fd` */
  size_t bytes;  /**< size of the whole allocation; 0 for a semaphore */
} iobind_external;
#define IOBIND_EXTERNAL_INIT {sizeof(iobind_external), 0, NULL, 0}

typedef struct iobind_external_memory iobind_external_memory;
typedef struct iobind_semaphore iobind_semaphore;

/** Check whether a device can import handles of a kind. The import is made by:
 *  - CUDA: NVIDIA's driver (CUDA 11.2 or newer), because ORT's CUDA EP, up to 1.31, imports none. It accepts file descriptors on
 *    Linux and HANDLEs on Windows.
 *  - Other devices: the EP, by ORT 1.24 or newer. The virtual accelerator accepts file descriptors, and on Windows, for each kind of
 *    memory by a HANDLE, the HANDLE of a file mapping.
 *  @param kind  iobind_external_kind
 *  @return OK; NOT_SUPPORTED with the reason; INVALID_ARGUMENT; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_check_import(iobind_device *device, int32_t kind, iobind_error *error);

/** Import memory of another library or process as memory of a device, without a copy. The device decides who closes the handle:
 *  - CUDA owns the file descriptor after the call has returned OK. If the call fails, the descriptor remains the caller's, open.
 *  - The virtual accelerator does not own the handle: the caller may close it after the call returns.
 *  @return OK; NOT_SUPPORTED as iobind_device_check_import; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME the EP refuses the handle
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_external_memory_import(iobind_device *device, const iobind_external *external,
                                                                    iobind_external_memory **memory, iobind_error *error);

/** Destroy imported memory. It is freed when its tensors are gone. NULL is a no-op.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_external_memory_destroy(iobind_external_memory *memory);

/** Make a tensor over a part of imported memory. iobind does not know other users of the memory: the caller must order their work and
 *  work on streams, by semaphores or waits.
 *  @param offset  in bytes, aligned as the device's kernels need it
 *  @return OK; INVALID_ARGUMENT, also if the part is not inside the memory; SHAPE; DTYPE strings; WRONG_DEVICE; RUNTIME;
 *          OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_external_memory_view(iobind_external_memory *memory, size_t offset,
                                                                    iobind_dtype dtype, const int64_t *dims, size_t rank,
                                                                    iobind_tensor **tensor, iobind_error *error);

/** Import a timeline semaphore: a growing value that streams of the device signal and wait for.
 *  @param external  `bytes` is 0; the handle as for iobind_external_memory_import
 *  @return as iobind_external_memory_import
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_semaphore_import(iobind_device *device, const iobind_external *external,
                                                              iobind_semaphore **semaphore, iobind_error *error);

/** Destroy an imported semaphore. It is freed when the work on streams that uses it is complete. NULL is a no-op.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_semaphore_destroy(iobind_semaphore *semaphore);

/** Make later work of a native stream wait until the semaphore's value is `value` or more, without blocking the host. The value need
 *  not be submitted yet. If it is never signaled, the stream never continues: wait for the stream by iobind_event_wait, with a
 *  timeout.
 *  @return OK; NOT_SUPPORTED the device has no native streams; WRONG_DEVICE a stream of another device; INVALID_ARGUMENT; RUNTIME
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait_semaphore(iobind_stream *stream, iobind_semaphore *semaphore,
                                                                   uint64_t value, iobind_error *error);

/** Signal the semaphore with `value` after all previously submitted work of the stream. Errors as iobind_stream_wait_semaphore. If
 *  that work fails, the semaphore may not be signaled: other users should wait with a timeout.
 *  @param value  greater than the semaphore's value at the time of the signal
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_signal_semaphore(iobind_stream *stream, iobind_semaphore *semaphore,
                                                                     uint64_t value, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
