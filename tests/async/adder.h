/* A pipeline that computes on a stream of the caller's: each item is added to a constant. */
#ifndef TESTS_ASYNC_ADDER_H
#define TESTS_ASYNC_ADDER_H

#include "gate.h"

typedef struct adder {
  iobind_session *session;
  iobind_pipeline *pipeline;
  iobind_tensor *item;
} adder;

static void adder_submit(const adder *self) {
  iobind_tensor *items[2] = {self->item, NULL};
  expect_ok(call_pipeline_submit(self->pipeline, items, sizeof items / sizeof *items, &fault));
}

static void adder_expect(const adder *self, const float *sum, size_t count) {
  iobind_tensor *result = NULL;
  expect_ok(iobind_pipeline_next(self->pipeline, IOBIND_NO_TIMEOUT, &result, 1, NULL, &fault));
  fixture_expect_floats(result, sum, count);
}

/* The first item is complete, so that all memory is allocated. Its sum is expected. */
static adder adder_open(iobind_stream *stream, iobind_tensor *constant, const float *item, const float *sum, size_t count) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_pipeline_options wanted = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_tensor *constants[2] = {NULL, constant};
  adder self = {.item = fixture_floats(cpu, item, count)};
  options.devices = &device;
  options.device_count = 1;
  options.stream = stream;
  wanted.constants = constants;
  expect_ok(test_session_with(runtime, "add", &options, &self.session, &fault));
  expect_ok(call_pipeline_create(self.session, &wanted, &self.pipeline, &fault));
  adder_submit(&self);
  adder_expect(&self, sum, count);
  return self;
}

static void adder_close(const adder *self) {
  iobind_pipeline_destroy(self->pipeline);
  iobind_session_destroy(self->session);
  iobind_tensor_release(self->item);
}

#endif
