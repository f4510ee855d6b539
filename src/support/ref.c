#include "support/ref.h"

void iobind__ref_init(iobind__ref *ref, void (*destroy)(iobind__ref *ref)) {
  atomic_init(&ref->count, 1);
  ref->destroy = destroy;
}

void iobind__ref_retain(iobind__ref *ref) {
  atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed);
}

void iobind__ref_release(iobind__ref *ref) {
  /* acquire: what other threads did with the object happens before it is destroyed */
  if (ref != NULL && atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel) == 1) {
    ref->destroy(ref);
  }
}

bool iobind__ref_try_retain(iobind__ref *ref) {
  size_t count = atomic_load_explicit(&ref->count, memory_order_relaxed);
  while (count > 0) {
    if (atomic_compare_exchange_weak_explicit(&ref->count, &count, count + 1, memory_order_relaxed, memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}
