/* The two functions of an EP library, without any EP. A program whose ORT cannot be found otherwise registers this library, and
 * so ORT passes its base to iobind. ORT holds locks meanwhile, so this code calls nothing. */
#include <stdatomic.h>

#include "iobind/interop.h"
#include "ort/api.h"
#include "ort_ep.h"

static _Atomic(const OrtApiBase *) host;

const void *iobind_get_host_api_base(void) {
  return atomic_load(&host);
}

IOBIND_API OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                                        OrtEpFactory **factories, size_t capacity, size_t *count);
IOBIND_API OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, OrtEpFactory **factories,
                             size_t capacity, size_t *count) {
  (void)name;
  (void)logger;
  (void)factories;
  (void)capacity;
  atomic_store(&host, base);
  *count = 0;
  return NULL;
}

/* Never called: there are no factories. */
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  (void)factory;
  return NULL;
}
