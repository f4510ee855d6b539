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

/* The frame of a public function outside CUDA's runtime. Between the two calls the trace records only this function, even if it calls
 * other public functions. The function returns through vcuda_close, which writes the result (a cudaError, or a status of cuBLAS or
 * cuDNN) to the trace and returns it unchanged. `stream` is the cudaStream_t of the call; NULL: the NULL stream or none. */
typedef struct vcuda_call {
  const char *name;
  const void *stream;
  int64_t start; /* 0: the trace was off */
} vcuda_call;
VCUDA_SHARED void vcuda_open(vcuda_call *call, const char *name, void *stream);
VCUDA_SHARED int vcuda_close(const vcuda_call *call, int result);

/* A host function must not call CUDA: inside one this returns 800 and logs the name of the called function, otherwise 0. Functions that are
 * allowed everywhere, such as one that sets a descriptor's attribute, do not check this. */
VCUDA_SHARED int vcuda_refuses(const vcuda_call *call);

/* Must this call fail because of the current device's setting fail_call? Then it has no effect. Functions that free or destroy do not check
 * this. */
VCUDA_SHARED bool vcuda_fails(const char *call);

/* The number of the calling thread's current device. */
VCUDA_SHARED int vcuda_current_device(void);

/* The version of cuDNN by the setting. */
VCUDA_SHARED int64_t vcuda_cudnn_version(void);

/* Write the call to the trace, for a function that returns neither an error nor a status. */
VCUDA_SHARED void vcuda_note(const char *call, void *stream);

#define VCUDA_OPEN(stream) \
  vcuda_call call;         \
  vcuda_open(&call, __func__, stream)

/* Queue work on a cudaStream_t; NULL is the NULL stream of the current device. `bytes` bytes of `arguments` are copied now. `name`
 * identifies the work in messages, faults and the trace. It must remain valid as long as the library (a literal, or a kernel's name).
 * A stream that captures records the work instead, and each replay runs it. `run` is called on the stream's own thread, in the order
 * of the stream. It may access the copied arguments, and device memory through the functions below. It must not call other functions
 * of vcuda or CUDA. */
VCUDA_SHARED int vcuda_submit(void *stream, const char *name, void (*run)(void *arguments), const void *arguments,
                              size_t bytes);

/* Only while `run` runs: a host pointer to the bytes at an address of device or pinned memory. The whole range must lie inside one live
 * allocation. The race detector records the access. NULL: the work has failed with cudaErrorIllegalAddress (700), and `run` must return at
 * once; the log names the work and the memory. For 0 bytes any address is valid; the result is not NULL, and must not be accessed.
 * Pass the range that is accessed: with padding between rows (a leading dimension), from the first byte to the last. For memory that is
 * both read and written call both functions, or only vcuda_writes. */
VCUDA_SHARED const void *vcuda_reads(const void *address, size_t bytes);
VCUDA_SHARED void *vcuda_writes(void *address, size_t bytes);

/* Only while `run` runs: fail the work with this error, which is sticky as on hardware (719 is cudaErrorLaunchFailure). The text goes
 * to the log. */
VCUDA_SHARED void vcuda_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write a line to the log: standard error unless VCUDA_LOG names a file. For calls that are refused at once, such as one with an unknown
 * type. */
VCUDA_SHARED void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the registry of kernels: kernel*.c; only libcudart.so.13 calls it ---------------------------------------------------- */

typedef struct vcuda_kernel vcuda_kernel;

/* The kernel of this mangled name; NULL: unknown. The result remains valid as long as the library is loaded. Any thread
 * may call it. */
const vcuda_kernel *vcuda_kernel_find(const char *mangled_name);

/* The kernel's name in messages: the function's name without its template arguments, such as "_UnaryElementWise". */
const char *vcuda_kernel_name(const vcuda_kernel *kernel);

/* Copy the arguments out of the array (their number and sizes follow from the name) and queue the work with vcuda_submit.
 * `shared` is the dynamic shared memory in bytes. Returns what vcuda_submit returns; cudaErrorInvalidValue (1) or
 * cudaErrorInvalidConfiguration (9) for an invalid launch. */
int vcuda_kernel_launch(const vcuda_kernel *kernel, const unsigned grid[3], const unsigned block[3], size_t shared,
                        void *stream, void **arguments);

#ifdef __cplusplus
}
#endif

#endif
