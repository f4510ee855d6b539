#include "allocation.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MALLOC, CALLOC, REALLOC, REALPATH, SCANDIR, THREAD, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"malloc", "calloc", "realloc", "realpath", "scandir", "pthread_create"};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the library has threads of its own */
static size_t counts[FUNCTIONS];
static bool watching;
static bool failed;
static int failing;
static size_t failing_nth;

static int find(const char *function) {
  int found = 0;
  while (found < FUNCTIONS && strcmp(names[found], function) != 0) {
    found++;
  }
  return found;
}

const char *allocation_function(size_t index) {
  return index < FUNCTIONS ? names[index] : NULL;
}

void allocation_watch(const char *function, size_t nth) {
  pthread_mutex_lock(&mutex);
  memset(counts, 0, sizeof counts);
  failing = function == NULL ? FUNCTIONS : find(function);
  failing_nth = nth;
  failed = false;
  watching = true;
  pthread_mutex_unlock(&mutex);
}

void allocation_ignore(void) {
  pthread_mutex_lock(&mutex);
  watching = false;
  pthread_mutex_unlock(&mutex);
}

size_t allocation_count(const char *function) {
  int found = find(function);
  return found < FUNCTIONS ? counts[found] : 0;
}

bool allocation_has_failed(void) {
  return failed;
}

static bool fails(int function) {
  pthread_mutex_lock(&mutex);
  bool this_one = watching && ++counts[function] == failing_nth && function == failing;
  failed = failed || this_one;
  pthread_mutex_unlock(&mutex);
  if (this_one) {
    errno = ENOMEM;
  }
  return this_one;
}

/* ---- the linker puts these in the place of the C library's, which it calls __real_ ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_realpath(const char *path, char *resolved);
int __real_scandir(const char *folder, struct dirent ***entries, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **));
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

/* visible: the linker looks for them on behalf of the shared libraries as well, which nevertheless keep their own */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_realpath(const char *path, char *resolved);
int __wrap_scandir(const char *folder, struct dirent ***entries, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **));
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
#pragma GCC visibility pop

void *__wrap_malloc(size_t size) {
  return fails(MALLOC) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  return fails(CALLOC) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
  return fails(REALLOC) ? NULL : __real_realloc(old, size);
}

char *__wrap_realpath(const char *path, char *resolved) {
  return fails(REALPATH) ? NULL : __real_realpath(path, resolved);
}

int __wrap_scandir(const char *folder, struct dirent ***entries, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **)) {
  return fails(SCANDIR) ? -1 : __real_scandir(folder, entries, filter, compare);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  return fails(THREAD) ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}
