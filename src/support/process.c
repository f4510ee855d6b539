#include "support/process.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

atomic_bool iobind__process_forked;
IOBIND__OF_THREAD uint64_t iobind__thread = UINT64_MAX;

uint64_t iobind__thread_number(void) {
  static atomic_uint_least64_t threads;
  if (iobind__thread == UINT64_MAX) {
    iobind__thread = atomic_fetch_add(&threads, IOBIND__THREADS_APART) + IOBIND__THREADS_APART;
  }
  return iobind__thread;
}

iobind_status iobind__process_refuse(const char *what, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                      "%s: this process was forked from one that had a runtime, and nothing of it works here: fork before the "
                      "first runtime is created",
                      what);
}

#if defined(_WIN32)
void iobind__process_watch(bool (*had_runtimes)(void)) {
  (void)had_runtimes; /* Windows has no fork */
}
#else
typedef bool (*question)(void);
static _Atomic(question) asked;

static void begin_child(void) {
  if (atomic_load(&asked)()) {
    atomic_store(&iobind__process_forked, true);
    iobind__thread = UINT64_MAX; /* this thread must make the checks that the parent's thread may omit */
  }
}

static void watch(void) {
  (void)pthread_atfork(NULL, NULL, begin_child); /* it can only fail for lack of memory; then a child is not recognised */
}

void iobind__process_watch(bool (*had_runtimes)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  atomic_store(&asked, had_runtimes);
  pthread_once(&once, watch);
}
#endif
