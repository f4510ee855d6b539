/* Memory and semaphores of other processes on CUDA's devices: shared by two devices, ordered on streams, refused if invalid. Run with
 * race=fail. */
#include "external.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "vcuda.h"

static bool has(int file, uint64_t value) {
  return vcuda_semaphore_get(file) >= (int64_t)value;
}

const external_product product = {.get = vcuda_get,
                                  .semaphore_create = vcuda_semaphore_create,
                                  .semaphore_signal = vcuda_semaphore_signal,
                                  .semaphore_has = has,
                                  .owns_files = true,
                                  .counts_memory = true};

static int start(void **state) {
  (void)state;
  void *cuda = "cuda";
  return stage_open(&cuda);
}

static int stop(void **state) {
  assert_int_equal(vcuda_get(0, "races"), 0);
  return stage_close(state);
}

static void wrong_handles(void **state) {
  (void)state;
  int file = make_file();
  iobind_external_memory *memory;
  iobind_semaphore *semaphore;
  for (int32_t kind = IOBIND_EXTERNAL_FD_MEMORY; kind <= IOBIND_EXTERNAL_D3D12_FENCE; kind++) {
    bool is_file = kind == IOBIND_EXTERNAL_FD_MEMORY || kind == IOBIND_EXTERNAL_FD_SEMAPHORE;
    expect(is_file ? IOBIND_OK : IOBIND_ERROR_NOT_SUPPORTED, iobind_device_check_import(device, kind, &fault));
  }
  iobind_external too_small = external_of(IOBIND_EXTERNAL_FD_MEMORY, file, BYTES + 1);
  expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &too_small, &memory, &fault));
  expect_words("external_memory_import: 'cuda:0': CUDA error 1");
  assert_null(memory);
  close((int)(intptr_t)too_small.handle); /* the caller keeps what is refused */
  iobind_external no_semaphore = external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_semaphore_import(device, &no_semaphore, &semaphore, &fault));
  assert_null(semaphore);
  close((int)(intptr_t)no_semaphore.handle);
  close(file);
}

static int count_open(void) {
  DIR *directory = opendir("/proc/self/fd");
  int count = 0;
  assert_non_null(directory);
  while (readdir(directory) != NULL) count++;
  (void)closedir(directory);
  return count;
}

static bool is_open(const iobind_external *external) {
  return fcntl((int)(intptr_t)external->handle, F_GETFD) >= 0;
}

/* The import fails at each of its steps. The caller keeps the descriptor, and nothing is leaked. After a success CUDA owns the
 * descriptor. */
static void each_step_fails(void **state) {
  (void)state;
  static const char *const steps[] = {"1,name:cudaImportExternalMemory", "1,name:cudaExternalMemoryGetMappedBuffer"};
  int file = make_file();
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_MEMORY, file, BYTES);
  iobind_external_memory *memory;
  expect_ok(iobind_device_trim(device, &fault)); /* frees memory that was released before */
  const int64_t live = vcuda_get(0, "live_bytes");
  const int before = count_open();
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    assert_int_equal(vcuda_set(0, "fail_alloc", steps[i]), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &external, &memory, &fault));
    expect_words("CUDA error 2");
    assert_null(memory);
    assert_int_equal(vcuda_set(0, "fail_alloc", "0"), 0);
    assert_true(is_open(&external));
    assert_int_equal(count_open(), before);
    assert_int_equal(vcuda_get(0, "live_bytes"), live);
  }
  expect_ok(iobind_external_memory_import(device, &external, &memory, &fault));
  iobind_external_memory_destroy(memory);
  assert_false(is_open(&external));
  assert_int_equal(count_open(), before - 1);
  expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &external, &memory, &fault));
  expect_words("is not open");
  close(file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(two_processes_share_memory, start, stop),
    cmocka_unit_test_setup_teardown(wait_before_the_signal, start, stop),
    cmocka_unit_test_setup_teardown(tensors_keep_the_memory, start, stop),
    cmocka_unit_test_setup_teardown(wrong_handles, start, stop),
    cmocka_unit_test_setup_teardown(each_step_fails, start, stop),
};
static const struct CMUnitTest peer[] = {cmocka_unit_test_setup_teardown(the_peer, start, stop)};

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "the_peer") == 0) {
    return cmocka_run_group_tests(peer, NULL, NULL);
  }
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
