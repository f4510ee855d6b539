/* Our own declarations of the part of cuFFT that ORT's CUDA EP calls. A plan is a number; types are numbers of cudaDataType_t. */
#ifndef VCUDA_CUFFT_H
#define VCUDA_CUFFT_H

#include <stddef.h>

#include "work.h"

enum {
  FFT_OK = 0,
  FFT_INVALID_PLAN = 1,
  FFT_ALLOC_FAILED = 2,
  FFT_INVALID_TYPE = 3,
  FFT_INVALID_VALUE = 4,
  FFT_EXEC_FAILED = 6,
  FFT_NOT_SUPPORTED = 16
};
enum { FFT_FORWARD = -1, FFT_INVERSE = 1 };

VCUDA_SHARED int cufftCreate(int *handle);
VCUDA_SHARED int cufftDestroy(int handle);
VCUDA_SHARED int cufftSetStream(int handle, void *stream);
VCUDA_SHARED int cufftXtMakePlanMany(int handle, int rank, const long long *lengths, const long long *in_embed,
                                     long long in_stride, long long in_distance, int in_type, const long long *out_embed,
                                     long long out_stride, long long out_distance, int out_type, long long batches,
                                     size_t *workspace, int compute_type);
VCUDA_SHARED int cufftXtExec(int handle, void *in, void *out, int direction);

#endif
