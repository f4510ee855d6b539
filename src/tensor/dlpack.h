/* iobind's own declaration of the structs of DLPack 1.1, by which libraries exchange tensors. */
#ifndef IOBIND_TENSOR_DLPACK_H
#define IOBIND_TENSOR_DLPACK_H

#include "ep/ep.h"

enum { IOBIND__DL_MAJOR = 1, IOBIND__DL_MINOR = 1 };

/* flags of a versioned struct */
enum {
  IOBIND__DL_READ_ONLY = 1u << 0,
  IOBIND__DL_SUBBYTE_PADDED = 1u << 2, /* each element of less than a byte occupies one byte */
};

typedef struct iobind__dl_tensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t rank;
  uint8_t code; /* of the element type */
  uint8_t bits;
  uint16_t lanes;
  int64_t *dims;
  int64_t *strides; /* in elements; NULL: dense, row-major */
  uint64_t offset;  /* in bytes */
} iobind__dl_tensor;

typedef struct iobind__dl_legacy {
  iobind__dl_tensor tensor;
  void *context;
  void (*deleter)(struct iobind__dl_legacy *self); /* may be NULL */
} iobind__dl_legacy;

typedef struct iobind__dl_versioned {
  uint32_t major;
  uint32_t minor;
  void *context;
  void (*deleter)(struct iobind__dl_versioned *self); /* may be NULL */
  uint64_t flags;
  iobind__dl_tensor tensor;
} iobind__dl_versioned;

_Static_assert(sizeof(iobind__dl_tensor) == 24 + 3 * sizeof(void *), "the layout of DLPack");

#endif
