#include "support/ref.h"

#include "support/process.h"

void iobind__ref_init(iobind__ref *ref, void (*destroy)(iobind__ref *ref)) {
  atomic_init(&ref->count, 1);
  ref->destroy = destroy;
}

void iobind__ref_end(iobind__ref *ref) {
  if (!iobind__process_is_forked()) { /* in a forked child, destroying would wait for threads that only the parent has */
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
