/* A weak reference: it finds its target while other owners retain that. */
#ifndef IOBIND_SUPPORT_WEAK_H
#define IOBIND_SUPPORT_WEAK_H

#include <pthread.h>

#include "support/ref.h"

typedef struct iobind__weak {
  iobind__ref ref;
  pthread_mutex_t mutex;
  iobind__ref *target; /* NULL: it was destroyed */
} iobind__weak;

/* The target gets the first reference. NULL: out of memory. */
iobind__weak *iobind__weak_create(iobind__ref *target);

/* A reference to the target, for the caller; NULL: it was destroyed. */
iobind__ref *iobind__weak_get(iobind__weak *self);

/* The target is being destroyed: it releases its reference. NULL is a no-op. */
void iobind__weak_end(iobind__weak *self);

#endif
