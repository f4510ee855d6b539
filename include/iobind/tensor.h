/** @file tensor.h
 *  Tensors: typed, shaped memory at a memory location; reads, writes and copies. */
#ifndef IOBIND_TENSOR_H
#define IOBIND_TENSOR_H

/* clang-format off: laid out by hand, as a page to read */

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  IOBIND_DTYPE_STRING = 8, /**< in host memory only; its elements have no byte size */
  IOBIND_DTYPE_BOOL = 9,
  IOBIND_DTYPE_FLOAT16 = 10,
  IOBIND_DTYPE_FLOAT64 = 11,
  IOBIND_DTYPE_UINT32 = 12,
  IOBIND_DTYPE_UINT64 = 13,
  IOBIND_DTYPE_COMPLEX64 = 14,  /**< has a name and a size; ORT has no tensors of this type */
  IOBIND_DTYPE_COMPLEX128 = 15, /**< as COMPLEX64 */
  IOBIND_DTYPE_BFLOAT16 = 16,
  IOBIND_DTYPE_FLOAT8E4M3FN = 17,
  IOBIND_DTYPE_FLOAT8E4M3FNUZ = 18,
  IOBIND_DTYPE_FLOAT8E5M2 = 19,
  IOBIND_DTYPE_FLOAT8E5M2FNUZ = 20,
  IOBIND_DTYPE_UINT4 = 21,      /**< packed, two to a byte, the first in the low bits */
  IOBIND_DTYPE_INT4 = 22,       /**< packed */
  IOBIND_DTYPE_FLOAT4E2M1 = 23, /**< packed */
  IOBIND_DTYPE_UINT2 = 24,      /**< packed, four to a byte; ORT 1.27 and older have no tensors of this type and the next two */
  IOBIND_DTYPE_INT2 = 25,       /**< packed */
  IOBIND_DTYPE_FLOAT8E8M0 = 26,
  IOBIND_DTYPE_FORCE32 = 0x7FFFFFFF
} iobind_dtype;

/** The maximum rank of a tensor. */
#define IOBIND_MAX_RANK 16

/** The name of an element type, such as "float32"; "unknown" for any other number. Static lifetime.
 *  @threads any   @since 1.0 */
IOBIND_API const char *iobind_dtype_get_name(int32_t dtype);

/** Bits of one element: 2, 4, 8 .. 128; 0 for STRING and for numbers that are not element types.
 *  @threads any   @since 1.0 */
IOBIND_API uint32_t iobind_dtype_get_bits(int32_t dtype);

/** Bytes of a dense tensor: ceil(elements * bits / 8); 0 if a dim is 0.
 *  @param dims  `rank` dims of 0 or more; may be NULL if rank is 0 (a scalar: one element)
 *  @return OK; SHAPE a negative dim, a rank above IOBIND_MAX_RANK, or a product that overflows; DTYPE no such type, or STRING;
 *          INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_dtype_get_bytes(iobind_dtype dtype, const int64_t *dims, size_t rank,
                                                             size_t *bytes, iobind_error *error);

/** Create a tensor. Its content is undefined. Strings are empty.
 *
 *  Device memory is allocated by ORT's allocator of the device; on CUDA that calls cudaMalloc and cudaFree. With
 *  IOBIND_RUNTIME_POOLS a pool of iobind's allocates it on CUDA, one for each device:
 *  - Creating or releasing a tensor does not wait for the device's work.
 *  - If another library may use the memory (iobind_tensor_get_address, iobind_tensor_to_dlpack, iobind_tensor_to_ort), its release
 *    waits for the device, as cudaFree does.
 *  - Freed memory stays in the pool for later tensors, until iobind_device_trim is called, or the runtime and all its tensors are
 *    destroyed.
 *  @param memory  DEFAULT, or HOST_ACCESSIBLE if the device has it. A host tensor is in the CPU's default memory
 *  @param dims    `rank` dims of 0 or more
 *  @return OK; OUT_OF_MEMORY, also if the device returns a buffer without memory behind it; SHAPE; DTYPE; INVALID_ARGUMENT; RUNTIME;
 *          NOT_SUPPORTED the device has no such memory, or cannot hold that type (strings)
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_create(iobind_device *device, iobind_memory memory, iobind_dtype dtype,
                                                           const int64_t *dims, size_t rank, iobind_tensor **tensor,
                                                           iobind_error *error);

/** Memory of the caller that holds a dense, row-major tensor. */
typedef struct iobind_buffer {
  uint32_t struct_size;
  int32_t memory;         /**< iobind_memory of the device */
  int32_t dtype;          /**< iobind_dtype */
  uint32_t reserved;      /**< 0 */
  const int64_t *dims;    /**< `rank` dims of 0 or more */
  size_t rank;
  void *data;             /**< the first element; NULL only for 0 bytes. On a device without IOBIND_DEVICE_ADDRESSABLE the EP's
                               handle (a WGPUBuffer) */
  size_t bytes;           /**< size of the memory; at least the tensor's bytes */
  iobind_deleter deleter; /**< called with `data`; NULL: the memory must outlive the tensor and every run that uses it */
  void *context;          /**< passed to `deleter` */
} iobind_buffer;
#define IOBIND_BUFFER_INIT {sizeof(iobind_buffer), 0, 0, 0, NULL, 0, NULL, 0, NULL, NULL}

/** Make a tensor over the caller's memory, without a copy. On CUDA the driver is asked whether the address is in that memory of the
 *  device.
 *  @return OK; INVALID_ARGUMENT NULL data, or too few bytes; WRONG_DEVICE an address in other memory; SHAPE; DTYPE strings;
 *          NOT_SUPPORTED no such memory; RUNTIME; OUT_OF_MEMORY
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_wrap(iobind_device *device, const iobind_buffer *buffer,
                                                         iobind_tensor **tensor, iobind_error *error);

/** Make a tensor over a part of another tensor, in the same memory, without a copy. The view keeps the other tensor alive.
 *  @param offset  in bytes from the start. Without IOBIND_DEVICE_ADDRESSABLE it must be 0, and the view must have a multiple of 4
 *                 bytes or all bytes of the tensor
 *  @return OK; INVALID_ARGUMENT the part is not inside the tensor; NOT_SUPPORTED the device cannot address the part
 *          (iobind_tensor_read and iobind_tensor_write can access it), or a tensor of strings; SHAPE; DTYPE
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_view(iobind_tensor *tensor, size_t offset, iobind_dtype dtype,
                                                         const int64_t *dims, size_t rank, iobind_tensor **view,
                                                         iobind_error *error);

/** Make a view of `count` entries of the first axis, beginning with `start`: dims {count, d1, d2, ...}.
 *  @return as iobind_tensor_view; SHAPE a scalar, or a part outside the axis; NOT_SUPPORTED also if a part of a packed type does not
 *          begin at a byte boundary
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_slice(iobind_tensor *tensor, int64_t start, int64_t count,
                                                          iobind_tensor **view, iobind_error *error);

/** Retain a reference; returns the tensor.
 *  @threads any   @since 1.0 */
IOBIND_API iobind_tensor *iobind_tensor_retain(iobind_tensor *tensor);

/** Release a reference. The last release frees the memory or calls the deleter.
 *  @threads any   @since 1.0 */
IOBIND_API void iobind_tensor_release(iobind_tensor *tensor);

typedef struct iobind_tensor_info {
  uint32_t struct_size;
  int32_t dtype;         /**< iobind_dtype */
  const int64_t *dims;   /**< `rank` dims; valid as long as the tensor */
  size_t rank;
  size_t bytes;          /**< 0 for strings */
  iobind_device *device;
  int32_t memory;        /**< iobind_memory */
  int32_t host_readable; /**< 1: iobind_tensor_map works */
  int32_t read_only;     /**< 1: the tensor is refused as a target: a read-only import by DLPack (interop.h), or a saved state
                              (states.h) */
  uint32_t reserved;
} iobind_tensor_info;
#define IOBIND_TENSOR_INFO_INIT {sizeof(iobind_tensor_info), 0, NULL, 0, 0, NULL, 0, 0, 0, 0}

/** Describe a tensor.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_info(const iobind_tensor *tensor, iobind_tensor_info *info,
                                                             iobind_error *error);

/** The address of the data on any device, for other libraries that work there (a CUDA kernel). The host must not access device memory
 *  through it. It is NULL for 0 bytes and for strings. It remains valid as long as the tensor.
 *  @threads any   @since 1.0 */
IOBIND_API void *iobind_tensor_get_address(const iobind_tensor *tensor);

/* ---- access by the host ---------------------------------------------------------------------------------------------- */
/* Access without a stream waits for iobind's work in flight on that memory, on any stream or thread: a read waits for writers, a
 * write for readers and writers. A read returns the failure of work that should have written the memory. Views and DLPack share the
 * memory. Do not access a tensor in a callback of a run. */

/** The access for which memory is mapped. */
typedef enum iobind_access {
  IOBIND_ACCESS_READ = 0,
  IOBIND_ACCESS_WRITE = 1, /**< read and write */
  IOBIND_ACCESS_FORCE32 = 0x7FFFFFFF
} iobind_access;

/** Get the address of data in host memory. Accesses are ordered only until the next call that uses the tensor; then map it again.
 *  @param dtype   the element type that the caller expects
 *  @param access  WRITE also waits for work in flight that reads the tensor
 *  @param data    receives the address; NULL if the tensor has 0 bytes; valid as long as the tensor
 *  @return OK; WRONG_DEVICE the tensor is in device memory (iobind_tensor_read copies it); DTYPE it has another type, or strings;
 *          INVALID_ARGUMENT WRITE of a read-only tensor; for READ, the failure of work that should have written it
 *  @threads any   @blocks if work in flight uses it   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_map(iobind_tensor *tensor, iobind_dtype dtype, iobind_access access,
                                                        void **data, iobind_error *error);

/** Write host memory into a tensor or a part of it. Without IOBIND_DEVICE_ADDRESSABLE a part is staged (one download and one upload,
 *  counted and logged) in two cases:
 *  - It does not begin at 0.
 *  - It ends neither at a multiple of 4 bytes nor with the tensor.
 *  @param offset  in the tensor, in bytes
 *  @param data    `bytes` bytes; with a stream they must remain valid and unchanged until the copy is complete
 *  @param stream  NULL: complete on return. Otherwise a stream of the tensor's device
 *  @return OK; INVALID_ARGUMENT the part is not inside the tensor, or the tensor is read-only; DTYPE strings; WRONG_DEVICE a stream of
 *          another device; RUNTIME
 *  @threads serial for each tensor   @blocks if stream is NULL, or if the part is staged   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_write(iobind_tensor *tensor, size_t offset, const void *data, size_t bytes,
                                                          iobind_stream *stream, iobind_error *error);

/** Read a tensor or a part of it into host memory. Parameters and errors as iobind_tensor_write. Without IOBIND_DEVICE_ADDRESSABLE a
 *  part that does not begin at 0 is staged: one download of offset + bytes. With a stream the data are valid when
 *  iobind_stream_synchronize, or a wait for a later event or a query of it, has reported completion. They are not written if the
 *  stream has failed.
 *  @threads shared-read   @blocks if stream is NULL, or if the part is staged   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_read(const iobind_tensor *tensor, size_t offset, void *data, size_t bytes,
                                                         iobind_stream *stream, iobind_error *error);

/** Copy tensors, pair by pair, between any two memory locations. The tensors of a pair must have the same element type and dims, and
 *  must not overlap.
 *  - A pair reads data that earlier pairs have written. Independent pairs of the same two devices are copied in one call of the EP.
 *  - Between devices of unrelated EPs the data pass through the host: one download and one upload.
 *  @param sources, targets  `count` tensors each
 *  @param stream            NULL: complete on return. Otherwise a stream of one of the devices; data in pageable memory become valid
 *                           as with iobind_tensor_read
 *  @return OK; DTYPE, SHAPE a pair differs (the message has its index); INVALID_ARGUMENT overlap, or a read-only target; NOT_SUPPORTED
 *          strings; WRONG_DEVICE another runtime, or a stream of another device; RUNTIME. After a failure the content of the targets is
 *          undefined
 *  @threads serial for the targets   @blocks if stream is NULL   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets,
                                                         size_t count, iobind_stream *stream, iobind_error *error);

/** Read one element of a tensor of strings.
 *  @param buffer    receives up to `capacity` bytes, not NUL-terminated; may be NULL if capacity is 0
 *  @param needed    receives the number of bytes of the element
 *  @return OK, also if the buffer is too small: compare `needed`; DTYPE not strings; INVALID_ARGUMENT index out of range
 *  @threads shared-read   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_get_string(const iobind_tensor *tensor, size_t index, char *buffer,
                                                               size_t capacity, size_t *needed, iobind_error *error);

/** Write one element of a tensor of strings.
 *  @param text  UTF-8, NUL-terminated, copied
 *  @return OK; DTYPE not strings; INVALID_ARGUMENT index out of range; OUT_OF_MEMORY
 *  @threads serial   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_set_string(iobind_tensor *tensor, size_t index, const char *text,
                                                               iobind_error *error);

/** The permitted difference of an element: `absolute` + `relative` * |the right element|. */
typedef struct iobind_tolerance {
  double absolute;
  double relative;
} iobind_tolerance;

typedef struct iobind_difference {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t beyond;      /**< elements that differ by more than the tolerance */
  uint64_t first;       /**< the index of the first of them, in the order of memory; 0 if there are none */
  double absolute;      /**< the largest difference; infinity if NaN or an infinity differs from the other side; 0 for strings, packed
                             and complex elements, and floats of 8 bits and less */
  double relative;      /**< the largest |difference| / |right element| */
} iobind_difference;
#define IOBIND_DIFFERENCE_INIT {sizeof(iobind_difference), 0, 0, 0, 0, 0}

/** Compare two tensors in host memory, of the same type and dims.
 *
 *  NaN equals NaN, and an infinity equals one of the same sign. Tolerances apply to floating-point types of 16 bits and more;
 *  elements of other types must be equal.
 *  @param right      the reference
 *  @param tolerance  NULL: by the type. float32, float64: 0.0001 + 0.001; float16: 0.01 + 0.01; bfloat16: 0.08 + 0.08. For the last
 *                    two that is some ten times the type's resolution
 *  @return OK, also if they differ; SHAPE, DTYPE their dims or types differ; WRONG_DEVICE one of them is not in host memory;
 *          INVALID_ARGUMENT, also a tolerance outside 0 .. 1e30; the failure of work that should have written one of them;
 *          OUT_OF_MEMORY; RUNTIME
 *  @threads shared-read   @blocks if work in flight writes them   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_tensor_compare(const iobind_tensor *tensor, const iobind_tensor *right,
                                                            const iobind_tolerance *tolerance, iobind_difference *difference,
                                                            iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
