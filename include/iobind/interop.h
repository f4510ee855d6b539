/** @file interop.h
 *  iobind beside other libraries: tensors by DLPack, the ORT of a host program. The rules of iobind.h hold here. */
#ifndef IOBIND_INTEROP_H
#define IOBIND_INTEROP_H

/* clang-format off: laid out by hand, as a page to read */

#include "iobind.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
