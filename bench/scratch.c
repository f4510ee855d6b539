#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */

#include "scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char directory[SCRATCH_PATH_BYTES];

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "%s: set TMPDIR to a directory that can be written, with a shorter name\n", what);
  exit(1);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where) {
  (void)status, (void)kind, (void)where;
  return remove(path);
}

static void remove_directory(void) {
  nftw(directory, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
}

void scratch_make(void) {
  const char *parent = getenv("TMPDIR");
  snprintf(directory, sizeof directory, "%s/iobind-bench.XXXXXX", parent != NULL ? parent : "/tmp");
  if (mkdtemp(directory) == NULL) fail("no temporary directory can be made");
  atexit(remove_directory);
}

void scratch_name(char path[SCRATCH_PATH_BYTES], const char *name) {
  if (snprintf(path, SCRATCH_PATH_BYTES, "%s/%s", directory, name) >= SCRATCH_PATH_BYTES)
    fail("the path of the temporary directory is too long");
}
