#include "support/weak.h"

#include <stdlib.h>

static void free_weak(iobind__ref *ref) {
  iobind__weak *self = (iobind__weak *)ref;
  pthread_mutex_destroy(&self->mutex);
  free(self);
}

iobind__weak *iobind__weak_create(iobind__ref *target) {
  iobind__weak *made = calloc(1, sizeof *made);
  if (made != NULL) {
    iobind__ref_init(&made->ref, free_weak);
    pthread_mutex_init(&made->mutex, NULL);
    made->target = target;
  }
  return made;
}

/* The target's memory remains valid until iobind__weak_end, which waits for the mutex. */
iobind__ref *iobind__weak_get(iobind__weak *self) {
  pthread_mutex_lock(&self->mutex);
  iobind__ref *found = self->target != NULL && iobind__ref_try_retain(self->target) ? self->target : NULL;
  pthread_mutex_unlock(&self->mutex);
  return found;
}

void iobind__weak_end(iobind__weak *self) {
  if (self != NULL) {
    pthread_mutex_lock(&self->mutex);
    self->target = NULL;
    pthread_mutex_unlock(&self->mutex);
    iobind__ref_release(&self->ref);
  }
}
