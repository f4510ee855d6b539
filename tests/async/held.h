/* A run that a gate holds back: y = 2 x, on a stream, into memory of the caller. */
#ifndef TESTS_ASYNC_HELD_H
#define TESTS_ASYNC_HELD_H

#include "gate.h"

enum { COUNT = 8, HALF = COUNT / 2 };
static const float zeros[COUNT];
static const float threes[COUNT] = {3, 3, 3, 3, 3, 3, 3, 3};
static const float sixes[COUNT] = {6, 6, 6, 6, 6, 6, 6, 6};
static const float nines[COUNT] = {9, 9, 9, 9, 9, 9, 9, 9};

static iobind_session *session;
static iobind_stream *stream;
static iobind_binding *binding; /* from x into y */
static iobind_tensor *x;        /* threes at first */
static iobind_tensor *y;
static gate held; /* static: still valid after a test that fails with its gate closed */

static int held_open(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "scale");
  x = fixture_floats(device, threes, COUNT);
  y = fixture_floats(device, zeros, COUNT);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  return 0;
}

static int held_close(void **state) {
  iobind_stream_destroy(stream);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
  return stage_close(state);
}

/* Submit a run that cannot begin before the gate is opened. */
static void hold_a_run(void) {
  gate_close(&held, stream);
  expect_ok(iobind_binding_run(binding, stream, &fault));
}

#endif
