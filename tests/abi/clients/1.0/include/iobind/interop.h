/** @file interop.h
 *  iobind beside other libraries: their streams and events, tensors by DLPack, the ORT of a host program, ORT's own objects,
 *  memory and semaphores of other libraries and processes. The rules of iobind.h hold here. */
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
  IOBIND_NATIVE_D3D12 = 2, /**< an ID3D12Fence and its value; an ID3D12Resource */
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
 *          WRONG_DEVICE it is another device's; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME. Calls on the stream fail with INVALID_STATE
 *          while it is being captured
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wrap(iobind_device *device, const iobind_native *native,
                                                         iobind_deleter deleter, void *context, iobind_stream **stream,
                                                         iobind_error *error);

/** Order all later work of an EP's stream behind an event of another library, without stopping the host.
 *  @param native  the event, recorded already; it may be destroyed when the call returns, as its library allows. Direct3D lets a
 *                 queue wait for a fence's value that nobody has submitted, and all runs share a queue: so the fence must have
 *                 the value already, or get it by iobind_stream_signal_native on the same device. A program that knows that its
 *                 own signal is submitted lets the queue of runs wait itself (`ID3D12CommandQueue::Wait`)
 *  @return OK; INVALID_STATE it is not known that the fence gets the value, or the event was recorded in a capture: the stream is part of that
 *          then, and must not be used or destroyed before it has ended; NOT_SUPPORTED the device takes no handles of that kind; INVALID_ARGUMENT; RUNTIME
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait_native(iobind_stream *stream, const iobind_native *native,
                                                                iobind_error *error);

/** Record an event of another library at the present end of an EP's stream. As iobind_stream_wait_native.
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_signal_native(iobind_stream *stream, const iobind_native *native,
                                                                  iobind_error *error);

/** The native stream of a stream, for other libraries that submit work to it: on CUDA a cudaStream_t, on a DirectML device the
 *  ID3D12CommandQueue of its runs. It remains valid as long as the stream.
 *  @param native  receives kind and handle
 *  @return OK; NOT_SUPPORTED the stream is a thread of iobind; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_get_native(const iobind_stream *stream, iobind_native *native,
                                                               iobind_error *error);

/* ---- DirectML: devices and memory of Direct3D 12 ------------------------------------------------------------------- */

/** Objects of a program's own that sessions share with it. */
typedef struct iobind_native_device {
  uint32_t struct_size;
  int32_t kind;     /**< IOBIND_NATIVE_D3D12 */
  void *device;     /**< ID3D12Device */
  void *dml_device; /**< IDMLDevice of it; NULL: one is made */
  void *queue;      /**< ID3D12CommandQueue of it, DIRECT or COMPUTE: all sessions of the device compute there */
} iobind_native_device;
#define IOBIND_NATIVE_DEVICE_INIT {sizeof(iobind_native_device), 0, NULL, NULL, NULL}

/** Give a DirectML device the program's own objects, before its first use (finding it by a spec uses it). Otherwise iobind makes
 *  them. On such a device iobind_tensor_wrap takes an ID3D12Resource as its data: a buffer of the device in a default heap with
 *  the flag ALLOW_UNORDERED_ACCESS, of at least the tensor's bytes rounded up to 4. Streams copy on queues of their own, beside
 *  the one queue of runs; iobind_stream_get_native returns that queue. What the program submits to it itself comes in the order of submission.
 *  @param native  the runtime holds a reference to each object until it is destroyed
 *  @param device  receives the device of the runtime that is on the same adapter
 *  @return OK; NOT_FOUND ORT lists none on that adapter; INVALID_STATE it is in use already; INVALID_ARGUMENT, also for a COPY
 *          queue; WRONG_DEVICE the objects are of different devices; NOT_SUPPORTED another kind; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_adopt_device(iobind_runtime *runtime, const iobind_native_device *native,
                                                                  iobind_device **device, iobind_error *error);

/** The object that is a tensor's memory: on a DirectML device its ID3D12Resource.
 *  @param native  receives kind and handle, with a reference that the caller gives back (`Release`)
 *  @return OK; NOT_SUPPORTED the memory has an address instead; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_native(const iobind_tensor *tensor, iobind_native *native,
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
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_to_dlpack(iobind_tensor *tensor, uint32_t flags, void **managed,
                                                              iobind_error *error);

/** Take over a tensor of another library, without a copy: a struct of DLPack 1.x, or a LEGACY one. The caller must order the
 *  producer's work on streams before the tensor's first use: by an event, or by waiting. Memory with the read-only flag becomes a
 *  tensor that is refused wherever it would be written.
 *  @param managed  the struct. If the call returns OK, the tensor owns it and calls its deleter, on any thread, when nothing uses
 *                  the memory any more (before the call returns if it was copied). Otherwise the caller still owns it
 *  @param flags    IOBIND_DLPACK_*
 *  @return OK; VERSION the struct is of DLPack 2 or newer; WRONG_DEVICE no device of the runtime has this memory; DTYPE no such element
 *          type; SHAPE, also strides that are not dense, without COPY_STRIDED; NOT_SUPPORTED strides on a device, or packed
 *          elements that lie apart; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_from_dlpack(iobind_runtime *runtime, void *managed, uint32_t flags,
                                                                iobind_tensor **tensor, iobind_error *error);

/* ---- rows with a pitch --------------------------------------------------------------------------------------------- */

/** Rows of bytes that lie apart: a frame with a line size, a rectangle of a picture. */
typedef struct iobind_rows {
  uint32_t struct_size;
  uint32_t reserved;     /**< 0 */
  iobind_tensor *tensor;
  size_t offset;         /**< of the first row, in bytes */
  size_t pitch;          /**< from the start of one row to the start of the next, in bytes; a row's bytes or more */
} iobind_rows;
#define IOBIND_ROWS_INIT {sizeof(iobind_rows), 0, NULL, 0, 0}

/** Copy rows of one tensor into another, or into another part of the same one: a decoder's frame into a dense tensor (whose pitch is a
 *  row's bytes), a dense tensor into a frame, a rectangle. Bytes are copied: element types and dims do not matter. What lies between the
 *  rows is not touched. With IOBIND_DEVICE_ADDRESSABLE the device copies each row where it is, and the counters grow only by the rows;
 *  memory without addresses comes to the host and goes back: a source up to its last row; if the rows are not all of a target, all of the
 *  target down and up, counted and logged.
 *  @param row_bytes  of a row. The rows must lie inside both tensors
 *  @param rows       how many; of 0 rows or 0 bytes nothing is copied
 *  @param stream     NULL: done on return. Otherwise a stream of one of the two devices; both tensors stay alive until it has passed. To
 *                    host memory that is not pinned and not dense, and if memory without addresses is staged, the call waits
 *  @return OK; INVALID_ARGUMENT NULL, rows outside, a pitch below a row's bytes, a read-only target, source and target overlap (rows
 *          of one memory may lie between each other if both have the same pitch); DTYPE strings; WRONG_DEVICE another device's stream or
 *          another runtime; NOT_SUPPORTED; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for each tensor   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_copy_rows(const iobind_rows *source, const iobind_rows *target,
                                                              size_t row_bytes, size_t rows, iobind_stream *stream,
                                                              iobind_error *error);

/* ---- the ORT of a host program ------------------------------------------------------------------------------------ */

/** The `const OrtApiBase *` of the ORT that last registered libiobind itself as an EP library; NULL if none did. Some ORTs
 *  give their table only to EP libraries (Python's does). Then a program registers libiobind's file, which has no devices, and
 *  attaches to the result (`ort_api_base` of iobind_runtime_options): both use one ORT, with its EPs and memory. Lives as long as
 *  that ORT.
 *  @threads any   @since 1.0 */
IOBIND_API const void *iobind_get_host_api_base(void);

/** Make a tensor over an OrtValue of the same loaded ORT, in whatever memory it is: the OrtValue is used as it is, neither copied nor
 *  released. Its element type, dims and device are read from it. Strings are allowed.
 *  @param ort_value  an `OrtValue *` that holds a tensor. While the tensor lives, nothing may be put into it
 *  @param deleter    called once, with `ort_value` as its data, when iobind does not use it any more; on any thread; it must not call
 *                    iobind. It may call ORT's ReleaseValue. NULL: the caller keeps the OrtValue alive until the tensor, and every run
 *                    that uses it, is gone. If the call does not return OK, it is not called
 *  @return OK; NOT_SUPPORTED it holds a sequence, a map, a sparse tensor, or nothing; WRONG_DEVICE no device of the runtime has this memory;
 *          DTYPE; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_wrap_ort(iobind_runtime *runtime, void *ort_value, iobind_deleter deleter,
                                                             void *context, iobind_tensor **tensor, iobind_error *error);

/** Make an OrtValue over a tensor's memory, without a copy (strings are copied: ORT would free them as its own). It holds a reference to
 *  the tensor, which ORT gives back when the last OrtValue of that memory goes, on any thread. The caller must order work on streams
 *  that writes the tensor before what is done with the OrtValue: by an event, or by waiting.
 *  @param ort_value  receives an `OrtValue *`, which the caller releases by ORT's ReleaseValue
 *  @return OK; NOT_SUPPORTED the tensor is read-only, which an OrtValue cannot say; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads any   @since 1.0 */
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
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_get_ort(const iobind_runtime *runtime, iobind_ort *ort, iobind_error *error);

/** The `OrtSession *` of a session; not to be released; lives as long as the session. ORT's own runs of it may not overlap iobind's if
 *  the session captures graphs or has a stream, for iobind's wait for each other and do not know of them.
 *  @return NULL for NULL
 *  @threads any   @since 1.0 */
IOBIND_API void *iobind_session_get_ort(const iobind_session *session);

/** Use a session that other code created with the same loaded ORT: another language's package, or ORT's C or C++ interface. Its devices
 *  are those of its inputs and outputs, and the CPU.
 *  @param ort_session  an `OrtSession *`; neither copied nor released
 *  @param deleter      called with `ort_session`. NULL: the caller keeps the OrtSession alive until this session, its bindings and
 *                      its tensors are gone
 *  @return OK; INVALID_ARGUMENT; NOT_SUPPORTED another copy of ORT created the session; RUNTIME; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_session_wrap(iobind_runtime *runtime, void *ort_session, iobind_deleter deleter,
                                                          void *context, iobind_session **session, iobind_error *error);

/* ---- NVIDIA's libraries ---------------------------------------------------------------------------------------------- */

enum {
  IOBIND_PRELOAD_NO_CUDA = 1u << 0,  /**< not CUDA's runtime, cuBLAS, cuRAND, cuFFT and nvrtc */
  IOBIND_PRELOAD_NO_CUDNN = 1u << 1, /**< not cuDNN */
  IOBIND_PRELOAD_NO_MSVC = 1u << 2   /**< on Windows: not Microsoft's C++ runtime */
};

typedef struct iobind_preload_options {
  uint32_t struct_size;
  uint32_t flags;     /**< IOBIND_PRELOAD_* */
  const char *folder; /**< NULL: the libraries of an installed PyTorch, NVIDIA's wheels for Python, then the loader's search path;
                           "": the wheels only; otherwise only this directory, of libraries or of Python's packages */
  uint32_t cuda;      /**< major version of CUDA, 12 or 13; 0: the newest one found */
  uint32_t reserved;
} iobind_preload_options;
#define IOBIND_PRELOAD_OPTIONS_INIT {sizeof(iobind_preload_options), 0, NULL, 0, 0}

/** Load NVIDIA's libraries before CUDA's EP needs them, as Python's `onnxruntime.preload_dlls` does. Creating a runtime with CUDA's EP,
 *  and registering it, do this for libraries that LD_LIBRARY_PATH does not have. Call this first to choose others. Packages are
 *  searched for beside ORT's, and below VIRTUAL_ENV, CONDA_PREFIX and ~/.local.
 *  @return OK; NOT_FOUND no such directory, or libraries that CUDA's EP needs are missing (the message names them);
 *          NOT_SUPPORTED an unknown flag; INVALID_ARGUMENT; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_preload(const iobind_preload_options *options, iobind_error *error);

/* ---- external memory and semaphores ------------------------------------------------------------------------------- */

/** What a handle of another library or process stands for. */
typedef enum iobind_external_kind {
  IOBIND_EXTERNAL_FD_MEMORY = 1,       /**< memory of a file descriptor: Vulkan's opaque one; on the virtual accelerator a memfd */
  IOBIND_EXTERNAL_WIN32_MEMORY = 2,    /**< Vulkan's memory, by a HANDLE */
  IOBIND_EXTERNAL_D3D12_RESOURCE = 3,  /**< the shared HANDLE of an ID3D12Resource */
  IOBIND_EXTERNAL_D3D12_HEAP = 4,      /**< the shared HANDLE of an ID3D12Heap */
  IOBIND_EXTERNAL_FD_SEMAPHORE = 5,    /**< Vulkan's timeline semaphore, by an opaque file descriptor; vdev_semaphore_create's */
  IOBIND_EXTERNAL_WIN32_SEMAPHORE = 6, /**< Vulkan's timeline semaphore, by a HANDLE */
  IOBIND_EXTERNAL_D3D12_FENCE = 7,     /**< the shared HANDLE of an ID3D12Fence */
  IOBIND_EXTERNAL_KIND_FORCE32 = 0x7FFFFFFF
} iobind_external_kind;

/** A handle, and what it stands for. */
typedef struct iobind_external {
  uint32_t struct_size;
  int32_t kind;  /**< iobind_external_kind */
  void *handle;  /**< the HANDLE; a file descriptor as `(void *)(intptr_t)fd` */
  size_t bytes;  /**< of memory: all of it, as it was allocated; 0 for a semaphore */
} iobind_external;
#define IOBIND_EXTERNAL_INIT {sizeof(iobind_external), 0, NULL, 0}

typedef struct iobind_external_memory iobind_external_memory;
typedef struct iobind_semaphore iobind_semaphore;

/** Can a device import handles of a kind? ORT 1.24 and newer pass them to the EP. The virtual accelerator takes file descriptors, and on
 *  Windows the HANDLE of a file mapping for every kind of memory by a HANDLE. ORT's CUDA EP, up to 1.31, takes none: NVIDIA's driver is asked
 *  instead, which takes file descriptors on Linux and HANDLEs on Windows (CUDA 11.2 or newer).
 *  @param kind  iobind_external_kind
 *  @return OK; NOT_SUPPORTED with the reason; INVALID_ARGUMENT; RUNTIME
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_check_import(iobind_device *device, int32_t kind, iobind_error *error);

/** Import memory of another library or process: a device's memory from now on, without a copy. Who closes the handle is up to the EP: CUDA
 *  owns a file descriptor that it has imported; the virtual accelerator does not own what it imports: it may be closed when the call returns.
 *  @return OK; NOT_SUPPORTED as iobind_device_check_import; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME the EP refuses the handle
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_external_memory_import(iobind_device *device, const iobind_external *external,
                                                                    iobind_external_memory **memory, iobind_error *error);

/** Destroy imported memory. It stays until its tensors are gone. NULL is a no-op.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_external_memory_destroy(iobind_external_memory *memory);

/** Make a tensor over a part of imported memory. Nothing here sees what others do with the memory: they and the work on streams here are
 *  ordered by semaphores, or by waiting.
 *  @param offset  in bytes; what the device's kernels need of alignment is the caller's to keep
 *  @return OK; INVALID_ARGUMENT, also for a part that is not within the memory; SHAPE; DTYPE strings; WRONG_DEVICE; RUNTIME; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_external_memory_view(iobind_external_memory *memory, size_t offset,
                                                                    iobind_dtype dtype, const int64_t *dims, size_t rank,
                                                                    iobind_tensor **tensor, iobind_error *error);

/** Import a semaphore: a value that grows, and that streams of the device wait for and raise.
 *  @param external  `bytes` is 0; the handle as for iobind_external_memory_import
 *  @return as iobind_external_memory_import
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_semaphore_import(iobind_device *device, const iobind_external *external,
                                                              iobind_semaphore **semaphore, iobind_error *error);

/** Destroy an imported semaphore; streams that still use it keep it. NULL is a no-op.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_semaphore_destroy(iobind_semaphore *semaphore);

/** Order all later work of an EP's stream behind the moment at which the semaphore's value is `value` or more, without stopping the host.
 *  The value need not have been signalled yet; if it never is, the stream never goes on (iobind_event_wait has a timeout).
 *  @return OK; NOT_SUPPORTED the device has no streams of its own; WRONG_DEVICE a stream of another device; INVALID_ARGUMENT; RUNTIME
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_wait_semaphore(iobind_stream *stream, iobind_semaphore *semaphore,
                                                                   uint64_t value, iobind_error *error);

/** Raise the semaphore to `value` when the stream has done what it has got so far. As iobind_stream_wait_semaphore. Work that fails before it
 *  may leave it as it is: whoever waits elsewhere needs a limit.
 *  @param value  more than the semaphore has by then
 *  @threads serial for the stream   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_stream_signal_semaphore(iobind_stream *stream, iobind_semaphore *semaphore,
                                                                     uint64_t value, iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
