/* Shared by the tests with two GPUs: objects on each GPU, and calls for them while the other GPU is the thread's current device. Every
 * public function that reaches the EP or the driver has a row, which is run for objects of both GPUs. */
#ifndef TESTS_VCUDA_CURRENT_H
#define TESTS_VCUDA_CURRENT_H

#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "iobind/interop.h"
#include "vcuda.h"

enum { COUNT = 4 };
static const int64_t square[2] = {2, 2};
static const float unit[COUNT] = {1, 0, 0, 1};
static const float values[COUNT] = {1, 2, 3, 4};
static const float others[COUNT] = {5, 6, 7, 8};

static iobind_runtime *runtime;

/* ---- the current device ---- */

static inline void make_current(int device) {
  assert_int_equal(cudaSetDevice(device), CUDA_OK);
}

/* Make the objects' own device current again. Returns the device that the call has left as current. */
static inline int come_back(int own) {
  int left = -1;
  assert_int_equal(cudaGetDevice(&left), CUDA_OK);
  make_current(own);
  return left;
}

static inline void expect_left(int own, int left, const char *call) {
  if (left != 1 - own) {
    fail_msg("%s: the caller's current device is %d afterwards, expected %d", call, left, 1 - own);
  }
}

/* A call for objects of device `own`, made while the other device is current. */
#define ELSEWHERE(own, call)                                     \
  do {                                                           \
    make_current(1 - (own));                                     \
    fixture_arm();                                               \
    iobind_status came_ = (call);                                \
    int left_ = come_back(own);                                  \
    fixture_expect(IOBIND_OK, came_, #call, __FILE__, __LINE__); \
    expect_left(own, left_, #call);                              \
  } while (0)
#define ELSEWHERE_VOID(own, call)            \
  do {                                       \
    make_current(1 - (own));                 \
    call;                                    \
    expect_left(own, come_back(own), #call); \
  } while (0)

/* ---- objects on one of the devices, made while it is current ---- */

typedef struct world {
  int own;
  iobind_device *device;
  iobind_session *session; /* z = x y, by cuBLAS */
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *y; /* the identity matrix */
  iobind_tensor *z;
  iobind_stream *stream;
  iobind_event *event;
} world;

static inline iobind_device *host(void) {
  return iobind_runtime_get_device(runtime, 0);
}

/* It does not check that the device works. */
static inline iobind_device *get_gpu(int own) {
  iobind_device *found = NULL;
  char spec[16];
  snprintf(spec, sizeof spec, "cuda:%d", own);
  for (size_t i = 0; found == NULL && iobind_runtime_get_device(runtime, i) != NULL; i++) {
    iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
    expect_ok(iobind_device_get_info(iobind_runtime_get_device(runtime, i), &info, &fault));
    found = strcmp(info.spec, spec) == 0 ? iobind_runtime_get_device(runtime, i) : NULL;
  }
  assert_non_null(found);
  return found;
}

static inline iobind_tensor *make_matrix(iobind_device *device, iobind_memory memory, const float *content) {
  iobind_tensor *made = NULL;
  expect_ok(iobind_tensor_create(device, memory, IOBIND_DTYPE_FLOAT32, square, 2, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, content, sizeof unit, NULL, &fault));
  return made;
}

static inline void expect_matrix(iobind_tensor *tensor, const float *content) {
  float read[COUNT] = {0};
  expect_ok(iobind_tensor_read(tensor, 0, read, sizeof read, NULL, &fault));
  for (int i = 0; i < COUNT; i++) {
    if (read[i] != content[i]) {
      fail_msg("element %d: expected %g, got %g", i, (double)content[i], (double)read[i]);
    }
  }
}

static inline iobind_session *make_session(iobind_device *device, const char *model, size_t graphs, iobind_stream *stream) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = graphs;
  options.stream = stream;
  expect_ok(test_session_with(runtime, model, &options, &made, &fault));
  return made;
}

static inline void bind_input(iobind_binding *binding, size_t index, iobind_tensor *tensor) {
  expect_ok(iobind_binding_set_input(binding, index, IOBIND_INPUT_RESIDENT, tensor, NULL, &fault));
}

static inline void bind_fixed(iobind_binding *binding, size_t index, iobind_tensor *tensor) {
  expect_ok(iobind_binding_set_output(binding, index, tensor, 0, &fault));
}

static inline world make_world(int own) {
  make_current(own);
  world w = {.own = own, .device = get_gpu(own)};
  w.session = make_session(w.device, "matmul", 0, NULL);
  make_current(own);
  w.x = make_matrix(w.device, IOBIND_MEMORY_DEFAULT, values);
  w.y = make_matrix(w.device, IOBIND_MEMORY_DEFAULT, unit);
  w.z = make_matrix(w.device, IOBIND_MEMORY_DEFAULT, unit);
  expect_ok(iobind_binding_create(w.session, &w.binding, &fault));
  bind_input(w.binding, 0, w.x);
  bind_input(w.binding, 1, w.y);
  bind_fixed(w.binding, 0, w.z);
  expect_ok(iobind_stream_create(w.device, NULL, &w.stream, &fault));
  expect_ok(iobind_event_create(w.device, &w.event, &fault));
  make_current(own);
  return w;
}

static inline void end_world(world *w) {
  make_current(w->own);
  iobind_binding_destroy(w->binding);
  iobind_session_destroy(w->session);
  iobind_tensor_release(w->x);
  iobind_tensor_release(w->y);
  iobind_tensor_release(w->z);
  iobind_event_destroy(w->event);
  iobind_stream_destroy(w->stream);
}

static inline void synchronize(world *w) {
  expect_ok(iobind_stream_synchronize(w->stream, &fault));
}

/* Put work in flight on the stream. */
static inline void submit(world *w) {
  expect_ok(iobind_tensor_write(w->x, 0, values, sizeof values, w->stream, &fault));
}

/* ---- rows ---- */

typedef struct row {
  void (*go)(int own);
} row;

static inline void go_both_ways(void **state) {
  const row *self = *state;
  for (int own = 1; own >= 0; own--) { /* device 1 first: a new thread's current device is 0 */
    self->go(own);
  }
}

static inline int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  return 0;
}

static inline int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

/* FUNCTION, or FUNCTION__CASE. check_current.py compares the rows with the headers. */
#define ROW(name)                              \
  {                                            \
#name, go_both_ways, start, stop, &(row) { \
      name                                     \
    }                                          \
  }

#endif
