/* Callbacks into a JVM that ends before the process. */
#include "callback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct {
  void *context;
  int32_t level;
  const char *message;
  void *data;
  int calls;
} last;

static uint64_t calls;

static void log_line(void *context, int32_t level, const char *message) {
  last.context = context;
  last.level = level;
  last.message = message;
  last.calls++;
}

static void free_callback(void *context, void *data) {
  last.context = context;
  last.data = data;
  last.calls++;
  free(context);
}

/* A callback whose context is itself: its function may free it. */
static iobind_java_callback *new_callback(void) {
  iobind_java_callback *made = malloc(sizeof *made);
  assert_non_null(made);
  *made = (iobind_java_callback){&calls, log_line, free_callback, made};
  return made;
}

static void let_through(void **state) {
  (void)state;
  calls = 0;
  iobind_java_callback *callback = new_callback();
  char data = 0;
  last.calls = 0;
  iobind_java_log(callback, IOBIND_LOG_ERROR, "a line");
  assert_ptr_equal(last.context, callback);
  assert_int_equal(last.level, IOBIND_LOG_ERROR);
  assert_string_equal(last.message, "a line");
  iobind_java_delete(callback, &data);
  assert_ptr_equal(last.data, &data);
  assert_int_equal(last.calls, 2);
  assert_int_equal(calls, 2 * 2);
}

static void ended(void **state) {
  (void)state;
  calls = 0;
  iobind_java_callback *callback = new_callback();
  last.calls = 0;
  iobind_java_log(callback, IOBIND_LOG_ERROR, "a line");
  uint64_t before = atomic_fetch_or((atomic_uint_least64_t *)&calls, IOBIND_JAVA_ENDED);
  iobind_java_log(callback, IOBIND_LOG_ERROR, "a late line");
  iobind_java_delete(callback, NULL);
  assert_int_equal(last.calls, 1);
  assert_int_equal(before / 2, 1);
  assert_int_equal(calls & IOBIND_JAVA_ENDED, IOBIND_JAVA_ENDED); /* calls that were refused leave it */
  free(callback);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(let_through),
      cmocka_unit_test(ended),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
