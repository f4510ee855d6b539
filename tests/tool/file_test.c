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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/file.h"

static char folder[] = "/tmp/iobind-file-XXXXXX";
static char path[96];

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL ? -1 : 0;
}

static const char *at(const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static size_t count_entries(void) {
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  size_t count = 0;
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count - 2;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(at("file"));
  rmdir(at("deep/deeper"));
  rmdir(at("deep"));
  return rmdir(folder);
}

static void expect_content(const char *name, const char *expected) {
  uint64_t size = 0;
  tool_fault fault;
  char text[64] = "";
  int descriptor = file_open(at(name), &size, &fault);
  assert_true(descriptor >= 0);
  assert_int_equal(size, strlen(expected));
  assert_true(file_read(descriptor, path, text, size, &fault));
  assert_string_equal(text, expected);
  assert_false(file_read(descriptor, path, text, 1, &fault));
  assert_non_null(strstr(fault.text, "1 bytes too early"));
  close(descriptor);
}

static void replaces_whole(void **state) {
  (void)state;
  tool_fault fault;
  const file_part parts[] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
  assert_true(file_write(at("file"), parts, 3, &fault));
  expect_content("file", "one two");
  assert_true(file_write(at("file"), parts, 1, &fault));
  expect_content("file", "one ");
  assert_true(file_write(at("file"), NULL, 0, &fault));
  expect_content("file", "");
  assert_int_equal(count_entries(), 1);
}

static void keeps_the_umask(void **state) {
  (void)state;
  tool_fault fault;
  struct stat status;
  unlink(at("file"));
  mode_t before = umask(027);
  assert_true(file_write(at("file"), NULL, 0, &fault));
  assert_int_equal(umask(before), 027);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 0777, 0640);
}

static void refuses_what_is_no_file(void **state) {
  (void)state;
  tool_fault fault;
  uint64_t size = 0;
  assert_false(file_write(folder, NULL, 0, &fault));
  assert_non_null(strstr(fault.text, "directory"));
  assert_false(file_write("/dev/null", NULL, 0, &fault));
  assert_non_null(strstr(fault.text, "regular"));
  assert_false(file_write(at("nowhere/file"), NULL, 0, &fault));
  assert_non_null(strstr(fault.text, "nowhere/file"));
  assert_false(file_write("", NULL, 0, &fault));
  assert_int_equal(file_open(at("missing"), &size, &fault), -1);
  assert_int_equal(file_open(folder, &size, &fault), -1);
  assert_int_equal(mkfifo(at("fifo"), 0600), 0);
  assert_int_equal(file_open(path, &size, &fault), -1);
  unlink(path);
}

/* A disk that is full half-way: what was there stays, and nothing else is left. */
static void leaves_no_part(void **state) {
  (void)state;
  tool_fault fault;
  const file_part old = {"old", 3};
  assert_true(file_write(at("file"), &old, 1, &fault));
  size_t entries = count_entries();
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  char *large = calloc(1, 65536);
  assert_non_null(large);
  const file_part part = {large, 65536};
  bool written = file_write(at("file"), &part, 1, &fault);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  free(large);
  assert_false(written);
  expect_content("file", "old");
  assert_int_equal(count_entries(), entries);
}

static bool fill_until_stopped(void *context, const char *temporary, const char *target, tool_fault *fault) {
  (void)temporary;
  (void)target;
  raise(*(const int *)context);
  return !file_is_stopped() || fault_set(fault, "stopped");
}

/* Whatever signal ends the process: it ends it as it would have, and leaves nothing. */
static void a_signal_leaves_nothing(void **state) {
  (void)state;
  static const int signals[] = {SIGHUP,  SIGINT,  SIGTERM, SIGQUIT,   SIGPIPE, SIGALRM,
                                SIGXCPU, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF};
  size_t entries = count_entries();
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    tool_fault fault;
    int number = signals[i];
    signal(number, SIG_DFL); /* nohup and shells in the background have programs ignore some */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      const struct rlimit none = {0, 0};
      setrlimit(RLIMIT_CORE, &none);
      file_produce(at("signalled"), fill_until_stopped, &number, &fault);
      _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
    assert_int_equal(count_entries(), entries);
    signal(number, SIG_IGN); /* one that is ignored stays so */
    assert_true(file_produce(at("signalled"), fill_until_stopped, &number, &fault));
    assert_int_equal(unlink(at("signalled")), 0);
    signal(number, SIG_DFL);
  }
}

static void makes_folders(void **state) {
  (void)state;
  tool_fault fault;
  struct stat status;
  assert_true(file_make_directory(at("deep/deeper"), &fault));
  assert_true(file_make_directory(at("deep/deeper/"), &fault));
  assert_true(file_make_directory("/", &fault));
  assert_true(file_make_directory(".", &fault));
  assert_int_equal(stat(at("deep/deeper"), &status), 0);
  assert_true(S_ISDIR(status.st_mode));
  assert_false(file_make_directory("", &fault));
  assert_true(file_write(at("file"), NULL, 0, &fault));
  assert_false(file_make_directory(at("file"), &fault));
  assert_false(file_make_directory(at("file/below"), &fault));
}

static void a_fault_is_one_line(void **state) {
  (void)state;
  tool_fault fault;
  assert_false(fault_set(&fault, "a\nb\tc%cd\x7F%s", 27, "\xC3\xA4"));
  assert_string_equal(fault.text, "a b c?d?\xC3\xA4");
  assert_false(fault_set(NULL, "nobody listens"));
  char *large = malloc(5000);
  assert_non_null(large);
  memset(large, 'x', 4999);
  large[4999] = 0;
  assert_false(fault_set(&fault, "%s", large));
  assert_int_equal(strlen(fault.text), sizeof fault.text - 1);
  free(large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replaces_whole),          cmocka_unit_test(keeps_the_umask),
      cmocka_unit_test(refuses_what_is_no_file), cmocka_unit_test(leaves_no_part),
      cmocka_unit_test(a_signal_leaves_nothing), cmocka_unit_test(makes_folders),
      cmocka_unit_test(a_fault_is_one_line),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
