/* libcuda.so.1: the one function that ORT's EP asks the driver for. */
#define CUDA_API __attribute__((visibility("default")))

CUDA_API int cuTensorMapEncodeTiled(void);

/* A descriptor for device code of sm 90, which there is none of here: 801 is CUDA_ERROR_NOT_SUPPORTED. */
int cuTensorMapEncodeTiled(void) {
  return 801;
}
