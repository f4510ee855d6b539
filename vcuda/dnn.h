/* Shared by all sources of libcudnn.so.9: our own declarations of the part of cuDNN that ORT's CUDA EP calls. Every enum is an int. A
 * descriptor is a pointer to our own struct. */
#ifndef VCUDA_DNN_H
#define VCUDA_DNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "number.h"
#include "work.h"

enum {
  DNN_OK = 0,
  DNN_NOT_INITIALIZED = 1001,
  DNN_BAD_PARAM = 2000,
  DNN_NOT_SUPPORTED = 3000,
  DNN_NO_MEMORY = 4003,
  DNN_EXECUTION_FAILED = 5000
};

enum { DNN_MAX_RANK = 9 }; /* the EP reduces tensors of rank 9; NVIDIA's cuDNN accepts rank 8 */

/* ---- handles: dnn.c; statuses: dnn_status.c ---- */

typedef struct vcuda_dnn { /* cudnnHandle_t */
  int device;              /* the current device when the handle was created */
  void *stream;            /* every call with the handle queues its work here */
} vcuda_dnn;

VCUDA_SHARED size_t cudnnGetVersion(void);
VCUDA_SHARED const char *cudnnGetErrorString(int status);
VCUDA_SHARED void cudnnGetLastErrorString(char *text, size_t bytes);
VCUDA_SHARED int cudnnCreate(vcuda_dnn **handle);
VCUDA_SHARED int cudnnDestroy(vcuda_dnn *handle);
VCUDA_SHARED int cudnnSetStream(vcuda_dnn *handle, void *stream);
VCUDA_SHARED int cudnnGetStream(vcuda_dnn *handle, void **stream);

/* The beginning of a function of a descriptor, and of one with a handle. A destroying function begins with VCUDA_OPEN(NULL): it never
 * fails. */
#define VCUDA_DNN_BEGIN(stream) \
  VCUDA_OPEN(stream);           \
  if (vcuda_fails(__func__)) return vcuda_close(&call, DNN_EXECUTION_FAILED)
#define VCUDA_DNN_OPEN(handle)                                                    \
  VCUDA_DNN_BEGIN((handle) == NULL ? NULL : (handle)->stream);                    \
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, DNN_EXECUTION_FAILED); \
  if ((handle) == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the handle is NULL", __func__))

/* Write a line to the log, and keep it as what cudnnGetLastErrorString returns in this thread. They return DNN_BAD_PARAM and
 * DNN_NOT_SUPPORTED. */
int vcuda_dnn_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
int vcuda_dnn_unknown(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The only way to queue work: like vcuda_submit, on the handle's stream. It fails if another device than the handle's is current. `run`
 * accesses all memory through vcuda_dnn_read and _write, or vcuda_reads and _writes. */
int vcuda_dnn_submit(const vcuda_dnn *handle, const char *name, void (*run)(void *arguments), const void *arguments,
                     size_t bytes);

/* Create a descriptor that is all zeros, and free one. */
int vcuda_dnn_make(const char *name, void **object, size_t bytes);
int vcuda_dnn_free(const char *name, void *object);
#define VCUDA_DNN_DESCRIPTOR(noun, type)                                                   \
  int cudnnCreate##noun##Descriptor(type **object) {                                       \
    void *made = NULL;                                                                     \
    int status = vcuda_dnn_make(__func__, object == NULL ? NULL : &made, sizeof **object); \
    if (object != NULL && status == DNN_OK) *object = made;                                \
    return status;                                                                         \
  }                                                                                        \
  int cudnnDestroy##noun##Descriptor(type *object) {                                       \
    return vcuda_dnn_free(__func__, object);                                               \
  }
#define VCUDA_DNN_DECLARE(noun, type)                            \
  VCUDA_SHARED int cudnnCreate##noun##Descriptor(type **object); \
  VCUDA_SHARED int cudnnDestroy##noun##Descriptor(type *object)

/* ---- tensors: dnn_tensor.c ---- */

typedef struct vcuda_dnn_tensor { /* cudnnTensorDescriptor_t */
  vcuda_type type;                /* VCUDA_NO_TYPE: not set yet */
  int type_number;                /* the number that the caller gave */
  int rank;
  int64_t dims[DNN_MAX_RANK], strides[DNN_MAX_RANK]; /* in elements */
} vcuda_dnn_tensor;

VCUDA_DNN_DECLARE(Tensor, vcuda_dnn_tensor);
VCUDA_SHARED int cudnnSetTensorNdDescriptor(vcuda_dnn_tensor *tensor, int type, int rank, const int dims[],
                                            const int strides[]);
VCUDA_SHARED int cudnnGetTensorNdDescriptor(const vcuda_dnn_tensor *tensor, int room, int *type, int *rank, int dims[],
                                            int strides[]);

/* The meaning of a cudnnDataType_t; VCUDA_NO_TYPE: not known here. */
vcuda_type vcuda_dnn_type(int number);

/* Set type, dims and the strides of a tensor without gaps, the last dimension innermost. `name` is that of the calling function. */
int vcuda_dnn_shape(const char *name, vcuda_dnn_tensor *tensor, int type, int rank, const int dims[]);

int64_t vcuda_dnn_count(const vcuda_dnn_tensor *tensor); /* of elements */
size_t vcuda_dnn_bytes(const vcuda_dnn_tensor *tensor);  /* from the first element to the last, gaps included */

/* Only while work runs: the tensor's elements at an address of device memory. The same rules as for vcuda_reads and _writes. */
const void *vcuda_dnn_read(const vcuda_dnn_tensor *tensor, const void *address);
void *vcuda_dnn_write(const vcuda_dnn_tensor *tensor, void *address);

/* The offset of element number `index`, counted with the last dimension innermost. */
int64_t vcuda_dnn_offset(const vcuda_dnn_tensor *tensor, int64_t index);

/* Read alpha or beta from host memory: a double for tensors of doubles, a float for all others. NULL means 0. */
double vcuda_dnn_factor(const vcuda_dnn_tensor *tensor, const void *number);

/* Write alpha * value + beta * old value. The old value is not read if beta is 0. */
void vcuda_dnn_blend(const vcuda_dnn_tensor *tensor, void *data, int64_t offset, double alpha, double value, double beta);

#endif
