#include "callback.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One atomic step decides and counts. With a look at a flag before the call, the JVM could end between the two. */
static bool is_let_through(const iobind_java_callback *callback) {
  return (atomic_fetch_add((atomic_uint_least64_t *)callback->calls, 2) & IOBIND_JAVA_ENDED) == 0;
}

void iobind_java_log(void *context, int32_t level, const char *message) {
  const iobind_java_callback *callback = context;
  if (is_let_through(callback)) {
    callback->log(callback->context, level, message);
  }
}

void iobind_java_delete(void *context, void *data) {
  const iobind_java_callback *callback = context;
  if (is_let_through(callback)) {
    callback->deleter(callback->context, data);
  }
}
