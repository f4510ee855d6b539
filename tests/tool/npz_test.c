#define _POSIX_C_SOURCE 200809L /* mkdtemp, kill */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/file.h"
#include "formats/npz.h"

static char folder[] = "/tmp/iobind-npz-XXXXXX";
static char path[64];

static int make_folder(void **state) {
  (void)state;
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(path, sizeof path, "%s/a.npz", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

static npy_array make(char kind, size_t item_bytes, int64_t dim, void *data) {
  npy_array array = {.kind = kind, .item_bytes = item_bytes, .data = data};
  assert_true(npy_set_dims(&array, &dim, 1));
  return array;
}

static void gives_back_what_it_took(void **state) {
  (void)state;
  float floats[] = {1, 2, 3};
  unsigned char bytes[70000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7);
  const char *const names[] = {"floats", "a/b:c=d", "nothing"};
  const npy_array arrays[] = {make('f', 4, 3, floats), make('u', 1, sizeof bytes, bytes), make('i', 8, 0, NULL)};
  tool_fault fault;
  assert_true(npz_write(path, names, arrays, 3, &fault));
  npz_archive *archive = npz_open(path, &fault);
  assert_non_null(archive);
  assert_int_equal(npz_count(archive), 3);
  for (size_t i = 3; i-- > 0;) {
    npy_array read;
    assert_string_equal(npz_name(archive, i), names[i]);
    assert_true(npz_read(archive, names[i], NULL, &read, &fault));
    assert_int_equal(read.kind, arrays[i].kind);
    assert_int_equal(read.bytes, arrays[i].bytes);
    if (read.bytes > 0) assert_memory_equal(read.data, arrays[i].data, read.bytes);
    npy_free(&read);
  }
  npy_array none;
  assert_false(npz_read(archive, "float", NULL, &none, &fault));
  assert_non_null(strstr(fault.text, "'floats', 'a/b:c=d', 'nothing'"));
  npz_close(archive);
  npz_close(NULL);
}

static void refuses_two_of_a_name(void **state) {
  (void)state;
  const char *const names[] = {"a", "a"};
  const npy_array arrays[] = {make('i', 8, 0, NULL), make('i', 8, 0, NULL)};
  tool_fault fault;
  unlink(path);
  assert_false(npz_write(path, names, arrays, 2, &fault));
  assert_non_null(strstr(fault.text, path));
  assert_int_not_equal(access(path, F_OK), 0);
}

static void knows_names(void **state) {
  (void)state;
  static const char *const good[] = {"x", "a/b", "/a/b", ".a", "..a", "a..", "a b", "\xC3\xA4", ":", "a//b", "..."};
  static const char *const bad[] = {"", "..", "../a", "a/..", "a/../b", "a\\..\\b", "a\nb", "\x7F", "\xFF", "\xED\xA0\x80"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(npz_can_name(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(npz_can_name(bad[i]));
  char *large = calloc(1, 65533);
  assert_non_null(large);
  memset(large, 'x', 65532);
  assert_false(npz_can_name(large));
  large[65531] = 0;
  assert_true(npz_can_name(large));
  free(large);
  assert_true(npz_is_archive("a.npz"));
  assert_true(npz_is_archive("./.a.npz"));
  assert_false(npz_is_archive(".npz"));
  assert_false(npz_is_archive("a.npz/"));
  assert_false(npz_is_archive("a.npy"));
}

static size_t count_entries(void) {
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  size_t count = 0;
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count - 2;
}

/* A signal that comes while an archive is written ends the process, and nothing of the archive stays. */
static void leaves_nothing_after_a_signal(void **state) {
  (void)state;
  unlink(path);
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    enum { LARGE = 256 << 20 };
    unsigned char *data = calloc(1, LARGE);
    if (data == NULL) _exit(3);
    const char *const names[] = {"large"};
    npy_array array = {.kind = 'u', .item_bytes = 1, .dims = {LARGE}, .rank = 1, .count = LARGE, .bytes = LARGE, .data = data};
    tool_fault fault;
    /* The array is written over and over, so that the signal finds it being written. */
    if (write(pipes[1], "", 1) != 1) _exit(4);
    while (npz_write(path, names, &array, 1, &fault)) unlink(path);
    _exit(5);
  }
  assert_true(child > 0);
  char begun = 0;
  assert_int_equal(read(pipes[0], &begun, 1), 1);
  const struct timespec moment = {.tv_nsec = 1000000};
  while (count_entries() == 0) nanosleep(&moment, NULL);
  assert_int_equal(kill(child, SIGTERM), 0);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGTERM);
  unlink(path);
  assert_int_equal(count_entries(), 0);
  close(pipes[0]);
  close(pipes[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_back_what_it_took),
      cmocka_unit_test(refuses_two_of_a_name),
      cmocka_unit_test(knows_names),
      cmocka_unit_test(leaves_nothing_after_a_signal),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
