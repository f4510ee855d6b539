/* The name of NVIDIA's driver, which the EP has loaded. iobind does not link it. */
#ifndef IOBIND_RUNTIME_DRIVER_CUDA_H
#define IOBIND_RUNTIME_DRIVER_CUDA_H

#if defined(_WIN32)
#define IOBIND__CUDA_DRIVER "nvcuda.dll"
#else
#define IOBIND__CUDA_DRIVER "libcuda.so.1"
#endif

#endif
