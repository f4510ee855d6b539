/* libcufft.so.11 and .12, for releases of ORT whose EP needs it when it is loaded: each call is refused. */
#include "work.h"

enum { CUFFT_NOT_SUPPORTED = 16 };

#define REFUSE(name)                                     \
  __attribute__((visibility("default"))) int name(void); \
  int name(void) {                                       \
    VCUDA_OPEN(NULL);                                    \
    (void)vcuda_refuses(&call);                          \
    return vcuda_close(&call, CUFFT_NOT_SUPPORTED);      \
  }
REFUSE(cufftCreate)
REFUSE(cufftDestroy)
REFUSE(cufftSetStream)
REFUSE(cufftXtExec)
REFUSE(cufftXtMakePlanMany)
