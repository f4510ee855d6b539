/* The driver library, loaded at run time by a program that does not link to it. Foreign streams are ordered by events. */
#define _DEFAULT_SOURCE /* RTLD_NOLOAD */

#include "device.h"

#include <dlfcn.h>

static void *find(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  assert_non_null(library);
  int status = -1;
  void *function = NULL;
  int (*look_up)(const char *, void **, int, uint64_t, int *);
  *(void **)&look_up = dlsym(library, "cuGetProcAddress_v2");
  assert_non_null(look_up);
  OK(look_up(name, &function, CUDA_VERSION, 0, &status));
  assert_int_equal(status, 0);
  assert_ptr_equal(function, dlsym(library, name));
  return function;
}

#define FIND(variable, name, ...) \
  int (*variable)(__VA_ARGS__);   \
  *(void **)&variable = find(name)

static void a_foreign_stream_is_ordered_by_events(void **state) {
  (void)state;
  FIND(init, "cuInit", unsigned);
  FIND(make_event, "cuEventCreate", cuda_event *, unsigned);
  FIND(record, "cuEventRecord", cuda_event, cuda_stream);
  FIND(wait, "cuStreamWaitEvent", cuda_stream, cuda_event, unsigned);
  FIND(query, "cuStreamQuery", cuda_stream);
  FIND(destroy_event, "cuEventDestroy_v2", cuda_event);
  gate g;
  cuda_event event;
  cuda_stream foreign = make_stream(), own = make_stream();
  OK(init(0));
  OK(make_event(&event, CUDA_EVENT_NO_TIMING));
  close_gate(&g, foreign);
  OK(record(event, foreign));
  OK(wait(own, event, 0));
  FAILS(CUDA_NOT_READY, query(own));
  open_gate(&g);
  OK(cudaStreamSynchronize(own));
  OK(destroy_event(event));
  OK(cudaStreamDestroy(foreign));
  OK(cudaStreamDestroy(own));
}

static void contexts_are_devices(void **state) {
  (void)state;
  FIND(retain, "cuDevicePrimaryCtxRetain", void **, int);
  FIND(push, "cuCtxPushCurrent_v2", void *);
  FIND(pop, "cuCtxPopCurrent_v2", void **);
  FIND(stream_context, "cuStreamGetCtx", cuda_stream, void **);
  void *second, *popped, *context;
  int device;
  OK(retain(&second, 1));
  FAILS(CUDA_INVALID_DEVICE, retain(&context, 2));
  OK(push(second));
  OK(cudaGetDevice(&device));
  assert_int_equal(device, 1);
  cuda_stream stream = make_stream();
  OK(stream_context(stream, &context));
  assert_ptr_equal(context, second);
  OK(cudaStreamDestroy(stream));
  OK(pop(&popped));
  assert_ptr_equal(popped, second);
  OK(cudaGetDevice(&device));
  assert_int_equal(device, 0);
  FAILS(CUDA_INVALID_VALUE, pop(NULL));
}

static void memory_is_the_runtimes(void **state) {
  (void)state;
  FIND(allocate, "cuMemAlloc_v2", uintptr_t *, size_t);
  FIND(set, "cuMemsetD8Async", uintptr_t, unsigned char, size_t, cuda_stream);
  FIND(release, "cuMemFree_v2", uintptr_t);
  uintptr_t address;
  OK(allocate(&address, 16));
  OK(set(address, 9, 16, NULL));
  assert_int_equal(first_byte((const void *)address), 9);
  OK(release(address));
}

/* As with the runtime: memory is usable on its stream, and on another one after the host has waited for the first. */
static void memory_of_a_pool_is_the_runtimes(void **state) {
  (void)state;
  FIND(create, "cuMemPoolCreate", cuda_pool *, const cuda_pool_properties *);
  FIND(destroy, "cuMemPoolDestroy", cuda_pool);
  FIND(set, "cuMemPoolSetAttribute", cuda_pool, int, void *);
  FIND(allocate, "cuMemAllocFromPoolAsync", uintptr_t *, size_t, cuda_pool, cuda_stream);
  FIND(release, "cuMemFreeAsync", uintptr_t, cuda_stream);
  const cuda_pool_properties properties = {.type = 1, .location_type = 1};
  uint64_t all = UINT64_MAX, kept = 0;
  cuda_stream stream = make_stream(), other = make_stream();
  cuda_pool pool;
  uintptr_t address;
  OK(create(&pool, &properties));
  OK(set(pool, 4, &all));
  OK(cudaMemPoolGetAttribute(pool, 4, &kept));
  assert_true(kept == all);
  OK(allocate(&address, 16, pool, stream));
  OK(cudaStreamSynchronize(stream));
  OK(touch(other, "a write", (void *)address, 16, 9));
  OK(cudaStreamSynchronize(other));
  assert_int_equal(first_byte((const void *)address), 9);
  OK(release(address, stream));
  OK(destroy(pool));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(other));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_foreign_stream_is_ordered_by_events),
      TEST(contexts_are_devices),
      TEST(memory_is_the_runtimes),
      TEST(memory_of_a_pool_is_the_runtimes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
