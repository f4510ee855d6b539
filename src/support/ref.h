/* Counted ownership: an object with children embeds an iobind__ref first, and is destroyed with the last reference. */
#ifndef IOBIND_SUPPORT_REF_H
#define IOBIND_SUPPORT_REF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct iobind__ref {
  atomic_size_t count;
  void (*destroy)(struct iobind__ref *ref);
} iobind__ref;

void iobind__ref_init(iobind__ref *ref, void (*destroy)(iobind__ref *ref));

static inline void iobind__ref_retain(iobind__ref *ref) {
  atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed);
}

/* Called after the last reference was released. */
void iobind__ref_end(iobind__ref *ref);

/* NULL is a no-op. Acquire: other threads' accesses to the object happen before it is destroyed. */
static inline void iobind__ref_release(iobind__ref *ref) {
  if (ref != NULL && atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel) == 1) {
    iobind__ref_end(ref);
  }
}

/* False if the last reference was released and the object is being destroyed. */
bool iobind__ref_try_retain(iobind__ref *ref);

#endif
