/* A stream of vdev that does nothing until it is let go, so that a kernel's failure cannot reach the call that submits it. */
#ifndef TESTS_RIG_HOLD_H
#define TESTS_RIG_HOLD_H

#include <unistd.h>

#include "iobind/interop.h"
#include "fixture.h"
#include "vdev.h"

static inline int hold(iobind_device *of, iobind_stream *stream) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  iobind_semaphore *semaphore = NULL;
  int file = vdev_semaphore_create(0);
  assert_true(file >= 0);
  external.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  external.handle = (void *)(intptr_t)file;
  expect_ok(iobind_semaphore_import(of, &external, &semaphore, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 1, &fault));
  iobind_semaphore_destroy(semaphore); /* the stream keeps it */
  return file;
}

static inline void let_go(int file) {
  assert_int_equal(vdev_semaphore_signal(file, 1), 0);
  (void)close(file);
}

#endif
