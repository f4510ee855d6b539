/* Work on the virtual GPU: how kernels and cuBLAS queue what they compute, and how that reaches device memory.
 *
 * libcudart.so.13 has these functions, under the symbol version VCUDA. The sources of the kernels are part of libcudart.so.13;
 * libcublas.so.13 and libcublasLt.so.13 link to it. An `int` that a function returns is a cudaError: 0 is success. */
#ifndef VCUDA_WORK_H
#define VCUDA_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VCUDA_SHARED __attribute__((visibility("default")))

/* The frame of a public function outside CUDA's runtime. Between the two calls the trace has only this function, by its own name, also if
 * it calls other public ones. What the function returns (a cudaError, or a status of cuBLAS or cuDNN) goes through vcuda_close, which
 * writes it to the trace and returns it as it is. `stream` is the cudaStream_t that the call is about, NULL for the NULL stream or for
 * none. */
typedef struct vcuda_call {
  const char *name;
  const void *stream;
  int64_t start; /* 0: the trace was off */
} vcuda_call;
VCUDA_SHARED void vcuda_open(vcuda_call *call, const char *name, void *stream);
VCUDA_SHARED int vcuda_close(const vcuda_call *call, int result);

/* Inside a host function nothing of CUDA may be called: 800, and the log has the function's name. Otherwise 0. Functions that are allowed
 * everywhere, such as one that sets a descriptor's attribute, do not ask. */
VCUDA_SHARED int vcuda_refuses(const vcuda_call *call);

/* Does the setting fail_call of the current device want this call to fail? Then it does nothing. Functions that free or destroy never ask. */
VCUDA_SHARED bool vcuda_fails(const char *call);

/* The number of the calling thread's current device. */
VCUDA_SHARED int vcuda_current_device(void);

/* The version of cuDNN that the setting asks for. */
VCUDA_SHARED int64_t vcuda_cudnn_version(void);

/* Only writes the call to the trace: for a function that returns neither an error nor a status. */
VCUDA_SHARED void vcuda_note(const char *call, void *stream);

#define VCUDA_OPEN(stream) \
  vcuda_call call;         \
  vcuda_open(&call, __func__, stream)

/* Queue work on a cudaStream_t; NULL is the NULL stream of the current device. `bytes` bytes of `arguments` are copied now.
 * `name` says what it is, for messages, faults and the trace; it must outlive the library (a literal, or a kernel's name).
 * A stream that captures records the work instead, and each replay runs it.
 * `run` is called on the stream's own thread, in the order of the stream. It may touch the copied arguments, and device memory
 * through the functions below. It calls no other function of vcuda or CUDA. */
VCUDA_SHARED int vcuda_submit(void *stream, const char *name, void (*run)(void *arguments), const void *arguments,
                              size_t bytes);

/* Only while `run` runs: the bytes behind an address of device or pinned memory, which the caller may then touch. The whole range
 * must lie inside one live allocation. The race detector records the access. Otherwise NULL, and the work has failed with
 * cudaErrorIllegalAddress (700): return at once; the log says which work touched what. 0 bytes: any address is good, and the
 * result, never NULL then, must not be touched.
 * Say what is really touched: with padding between rows (a leading dimension), the range from the first byte to the last. Memory
 * that is read and written is asked for twice, or only with vcuda_writes. */
VCUDA_SHARED const void *vcuda_reads(const void *address, size_t bytes);
VCUDA_SHARED void *vcuda_writes(void *address, size_t bytes);

/* Only while `run` runs: it fails with this error, which is sticky as on hardware: 719 is cudaErrorLaunchFailure. The text,
 * which says what is wrong, goes to the log. */
VCUDA_SHARED void vcuda_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of the log: standard error unless VCUDA_LOG names a file. For what is refused at the call, such as a type that cuBLAS
 * here does not know. */
VCUDA_SHARED void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the registry of kernels: kernel*.c; only libcudart.so.13 calls it ---------------------------------------------------- */

typedef struct vcuda_kernel vcuda_kernel;

/* The kernel of this mangled name, NULL if there is none here. The result remains valid as long as the library is loaded. Any thread may call it. */
const vcuda_kernel *vcuda_kernel_find(const char *mangled_name);

/* What a launch is called in messages: the function's name without its template arguments, such as "_UnaryElementWise". */
const char *vcuda_kernel_name(const vcuda_kernel *kernel);

/* Copy the arguments out of the array (their number and sizes follow from the name) and queue the work with vcuda_submit.
 * `shared` is the dynamic shared memory in bytes. Returns what vcuda_submit returns; cudaErrorInvalidValue (1) or
 * cudaErrorInvalidConfiguration (9) for a launch that cannot be. */
int vcuda_kernel_launch(const vcuda_kernel *kernel, const unsigned grid[3], const unsigned block[3], size_t shared,
                        void *stream, void **arguments);

#ifdef __cplusplus
}
#endif

#endif
