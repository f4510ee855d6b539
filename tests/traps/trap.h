/* What the tests of traps stand on, besides the fixture: the virtual accelerator, and ORT's table with calls of a test's own. */
#ifndef TESTS_TRAPS_TRAP_H
#define TESTS_TRAPS_TRAP_H

#include "fixture.h"
#include "onnx.h"
#include "runtime/runtime.h"
#include "vdev.h"
#include "../rig/calls.h"

/* One for each test, which has its process to itself. */
extern iobind_runtime *runtime;
extern iobind_device *cpu;
extern iobind_device *vdev; /* the first of two */
extern const OrtApi *real;  /* ORT's own table */
extern OrtApi table;        /* the one in use: a copy, into which a test puts calls of its own */

/* A group's setup, and its end: false where the virtual accelerator finds memory left behind when it goes. */
int trap_open(void **state);
bool trap_close(void);

/* A program's main: the tests of `cases`, all of them or those that the only argument names. */
#define TRAP_MAIN(cases)                                           \
  int main(int argc, char **argv) {                                \
    if (argc > 1) {                                                \
      cmocka_set_test_filter(argv[1]);                             \
    }                                                              \
    int failed = cmocka_run_group_tests((cases), trap_open, NULL); \
    return failed + !trap_close();                                 \
  }                                                                \
  _Static_assert(sizeof(cases) / sizeof((cases)[0]) > 0, "no test")

iobind_binding *trap_bind(iobind_session *session);
void trap_set_input(iobind_binding *binding, size_t index, iobind_tensor *tensor); /* RESIDENT */
void trap_set_output(iobind_binding *binding, size_t index, int mode, iobind_device *device, iobind_tensor *tensor);
iobind_tensor *trap_take(iobind_binding *binding, size_t index);

/* A session of the model that `fill` writes into the graph. */
iobind_session *trap_written_session(void (*fill)(onnx_writer *writer));

#endif
