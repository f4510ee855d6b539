/* Counted ownership: an object that has children embeds an iobind__ref first and dies with the last reference. */
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
void iobind__ref_retain(iobind__ref *ref);
void iobind__ref_release(iobind__ref *ref); /* NULL is a no-op */

/* False where the last reference is gone already and the object is being destroyed. */
bool iobind__ref_try_retain(iobind__ref *ref);

#endif
