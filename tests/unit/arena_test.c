/* Tensors in a session's own memory, such as its arena. */
#include "stage.h"

#include <dlfcn.h>
#include <string.h>

#include "../rig/calls.h"
#include "iobind/interop.h"

enum { COUNT = 8 };
static const float ones[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};
static const float doubled[COUNT] = {2, 2, 2, 2, 2, 2, 2, 2};
static const int64_t dim = COUNT;

/* On CUDA the arena has at most a megabyte. */
static iobind_session *open_session(void) {
  static const char *const keys[] = {"gpu_mem_limit", "arena_extend_strategy"};
  static const char *const limits[] = {"1048576", "kSameAsRequested"};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(device, &info, &fault));
  options.devices = &device;
  options.device_count = 1;
  options.ep_keys = keys;
  options.ep_values = limits;
  options.ep_option_count = strncmp(info.spec, "cuda", 4) == 0 ? 2 : 0;
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  return session;
}

static iobind_tensor *make(iobind_session *session, iobind_memory memory) {
  iobind_tensor *made = NULL;
  expect_ok(iobind_session_create_tensor(session, device, memory, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  return made;
}

static uint64_t held(void) {
  iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
  expect_ok(iobind_device_get_memory(device, IOBIND_HOLDER_CALLER, &usage, &fault));
  return usage.bytes;
}

/* As input and output, now and on a stream; what is left outlives the session. */
static void bound(void **state) {
  (void)state;
  iobind_session *session = open_session();
  iobind_binding *binding = NULL;
  iobind_stream *stream = NULL;
  uint64_t before = held();
  iobind_tensor *x = make(session, IOBIND_MEMORY_DEFAULT);
  iobind_tensor *y = make(session, IOBIND_MEMORY_DEFAULT);
  assert_int_equal(held() - before, 2 * sizeof ones);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_tensor_write(x, 0, ones, sizeof ones, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  iobind_session_destroy(session);
  for (int run = 0; run < 3; run++) {
    expect_ok(iobind_tensor_write(y, 0, ones, sizeof ones, NULL, &fault));
    expect_ok(iobind_binding_run(binding, run == 0 ? NULL : stream, &fault));
    fixture_expect_floats(y, doubled, COUNT);
  }
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  fixture_expect_floats(y, doubled, COUNT);
  iobind_stream_destroy(stream);
  iobind_tensor_release(y);
}

static void pinned(void **state) {
  (void)state;
  iobind_session *session = open_session();
  iobind_tensor *tensor = make(session, IOBIND_MEMORY_HOST_ACCESSIBLE);
  void *data = NULL;
  expect_ok(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault));
  memcpy(data, ones, sizeof ones);
  fixture_expect_floats(tensor, ones, COUNT);
  iobind_tensor_release(tensor);
  iobind_session_destroy(session);
}

static int64_t count_allocations(void) {
  int64_t (*get)(int, const char *) = NULL;
  void *library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(library);
  *(void **)&get = dlsym(library, "vcuda_get");
  dlclose(library);
  return get(0, "allocations");
}

/* The driver is called once; the limit counts. */
static void in_the_arena(void **state) {
  (void)state;
  static const int64_t many = 1 << 20;
  iobind_session *session = open_session();
  iobind_tensor *first = make(session, IOBIND_MEMORY_DEFAULT);
  void *address = iobind_tensor_get_address(first);
  int64_t before = count_allocations();
  for (int i = 0; i < 4; i++) {
    iobind_tensor_release(first);
    first = make(session, IOBIND_MEMORY_DEFAULT);
    assert_ptr_equal(iobind_tensor_get_address(first), address);
  }
  assert_int_equal(count_allocations(), before);
  iobind_tensor *large = first;
  expect(IOBIND_ERROR_OUT_OF_MEMORY,
         iobind_session_create_tensor(session, device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &many, 1, &large, &fault));
  assert_null(large);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

static void refused(void **state) {
  (void)state;
  iobind_session *session = open_session();
  iobind_session *other = fixture_session(runtime, NULL, "scale");
  iobind_tensor *made = NULL;
  expect(IOBIND_ERROR_NOT_SUPPORTED,
         iobind_session_create_tensor(session, cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &dim, 1, &made, &fault));
  expect_words("iobind_tensor_create");
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_session_create_tensor(session, cpu, IOBIND_MEMORY_HOST_ACCESSIBLE,
                                                                  IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_session_create_tensor(session, cpu, (iobind_memory)2, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_session_create_tensor(session, NULL, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  if (device != cpu) {
    expect(IOBIND_ERROR_WRONG_DEVICE,
           iobind_session_create_tensor(other, device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  }
  iobind_session_destroy(other);
  iobind_session_destroy(session);
}

#define ON(device, test) \
  { #device ": " #test, test, stage_open, stage_close, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_CUDA(test) ON(cuda, test)

static const struct CMUnitTest tests[] = {ON_EACH(bound), ON_GPUS(pinned), ON_CUDA(in_the_arena), ON_EACH(refused)};

FIXTURE_MAIN(tests, NULL, NULL);
