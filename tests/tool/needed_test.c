/* The libraries that a library needs, read from its file. The program's own file is the undamaged one. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#define _FILE_OFFSET_BITS 64

#include "formats/needed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "far_library.h"

static const char own_file[] = "/proc/self/exe";

static void names_of_a_sound_file(void **state) {
  (void)state;
  char **names = needed_read(own_file);
  size_t found = 0;
  assert_non_null(names);
  for (size_t i = 0; names[i] != NULL; i++) found += strncmp(names[i], "libc.so", 7) == 0;
  assert_int_equal(found, 1);
  needed_free(names);
}

static void no_file(void **state) {
  (void)state;
  assert_null(needed_read("/nowhere"));
  needed_free(NULL);
}

/* Each byte of the headers in turn is changed, or the last one of the file: nothing outside of the file is read. */
static void damaged_files(void **state) {
  (void)state;
  static unsigned char content[4096];
  char path[] = "/tmp/iobind-needed-XXXXXX";
  FILE *own = fopen(own_file, "rb");
  int file = mkstemp(path);
  assert_true(own != NULL && file >= 0);
  size_t size = fread(content, 1, sizeof content, own);
  fclose(own);
  for (size_t at = 0; at < 1024; at++) {
    unsigned char kept = content[at];
    content[at] = (unsigned char)(at % 3 == 0 ? 0xFF : kept + 1);
    size_t length = at % 2 == 0 ? at : size;
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, content, length, 0), (ssize_t)length);
    needed_free(needed_read(path));
    content[at] = kept;
  }
  close(file);
  remove(path);
}

/* A file of more than 4 GiB. */
static void far_offsets(void **state) {
  (void)state;
  char path[] = "/tmp/iobind-needed-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  bool is_written = far_library_write(file);
  char **names = needed_read(path);
  close(file);
  remove(path);
  assert_true(is_written);
  assert_non_null(names);
  assert_string_equal(names[0], FAR_NEEDED);
  assert_null(names[1]);
  needed_free(names);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_of_a_sound_file),
      cmocka_unit_test(no_file),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test(far_offsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
