/* system.h on POSIX systems. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "support/system.h"

#if !defined(_WIN32)
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void *iobind__library_open(const char *name, iobind__text *reason) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *text = dlerror();
    iobind__text_add(reason, "%s", text == NULL ? "unknown reason" : text);
  }
  return library;
}

void *iobind__library_loaded(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

void *iobind__library_symbol(void *library, const char *name) {
  return dlsym(library, name);
}

char *iobind__library_of(const void *address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
    return NULL;
  }
  return realpath(info.dli_fname, NULL);
}

void iobind__library_stay(void) {
  static const char here = 0;
  Dl_info info;
  if (dladdr(&here, &info) != 0 && info.dli_fname != NULL) {
    /* This fails if libiobind is linked into the program, which stays loaded anyway. */
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

bool iobind__library_same(const void *a, const void *b) {
  Dl_info of_a;
  Dl_info of_b;
  return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}

char *iobind__file_resolve(const char *path) {
  return realpath(path, NULL);
}

char *iobind__path_absolute(const char *path) {
  char *directory = path[0] == '/' ? NULL : getcwd(NULL, 0);
  if (directory == NULL) {
    return iobind__string_copy(path); /* it is absolute already, or there is no current directory */
  }
  iobind__text absolute = {0};
  iobind__text_add(&absolute, "%s/%s", directory, path);
  free(directory);
  if (absolute.failed) {
    iobind__text_free(&absolute);
  }
  return absolute.data;
}

bool iobind__path_has_directory(const char *path) {
  return strchr(path, '/') != NULL;
}

bool iobind__file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool iobind__path_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

bool iobind__directory_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

const char *iobind__path_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

FILE *iobind__file_open(const char *path) {
  return fopen(path, "rb");
}

bool iobind__file_stamp_get(const char *path, iobind__file_stamp *stamp) {
  struct stat status;
  if (stat(path, &status) != 0) {
    return false;
  }
#if defined(__APPLE__)
  const struct timespec written = status.st_mtimespec;
  const struct timespec changed = status.st_ctimespec;
#else
  const struct timespec written = status.st_mtim;
  const struct timespec changed = status.st_ctim;
#endif
  *stamp = (iobind__file_stamp){.bytes = (uint64_t)status.st_size,
                                .number = (uint64_t)status.st_ino,
                                .written = (int64_t)written.tv_sec * 1000000000 + written.tv_nsec,
                                .changed = (int64_t)changed.tv_sec * 1000000000 + changed.tv_nsec};
  return true;
}

FILE *iobind__file_create(const char *path) {
  int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
  if (descriptor >= 0 && file == NULL) {
    close(descriptor);
    unlink(path);
  }
  return file;
}

bool iobind__file_finish(FILE *file) {
  bool written = fflush(file) == 0 && fsync(fileno(file)) == 0;
  return fclose(file) == 0 && written;
}

bool iobind__file_replace(const char *from, const char *to) {
  return rename(from, to) == 0;
}

int iobind__descriptor_duplicate(int descriptor) {
  return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

void iobind__descriptor_close(int descriptor) {
  (void)close(descriptor);
}

void iobind__file_remove(const char *path) {
  unlink(path);
}

bool iobind__directory_list(const char *directory, char ***names) {
  struct dirent **entries = NULL;
  int count = scandir(directory, &entries, NULL, alphasort);
  *names = count < 0 ? NULL : calloc((size_t)count + 1, sizeof **names);
  bool whole = count < 0 ? errno != ENOMEM : *names != NULL;
  for (int i = 0; i < count; i++) {
    if (whole) {
      (*names)[i] = iobind__string_copy(entries[i]->d_name);
      whole = (*names)[i] != NULL;
    }
    free(entries[i]);
  }
  free(entries);
  if (!whole) {
    iobind__directory_free(*names);
    *names = NULL;
  }
  return whole;
}

iobind__path_char *iobind__path_native(const char *path) {
  return iobind__string_copy(path);
}

uint64_t iobind__clock_ns(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int64_t iobind__clock_of_day(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void iobind__clock_sleep(uint64_t ns) {
  const struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ns};
  (void)nanosleep(&time, NULL); /* a signal may end it early, which is harmless to all callers */
}

void iobind__condition_init(pthread_cond_t *condition) {
#if defined(__APPLE__)
  pthread_cond_init(condition, NULL); /* it accepts no other clock, but a duration */
#else
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
#endif
}

bool iobind__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until) {
  if (until == UINT64_MAX) {
    return pthread_cond_wait(condition, mutex) == 0;
  }
  const uint64_t now = iobind__clock_ns();
  if (until <= now) { /* the system would sleep for its timer's resolution, 50 us or more */
    return false;
  }
#if defined(__APPLE__)
  const uint64_t rest = until - now;
  struct timespec time = {.tv_sec = (time_t)(rest / 1000000000), .tv_nsec = (long)(rest % 1000000000)};
  return pthread_cond_timedwait_relative_np(condition, mutex, &time) != ETIMEDOUT;
#else
  struct timespec time = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
  return pthread_cond_timedwait(condition, mutex, &time) != ETIMEDOUT;
#endif
}

bool iobind__environment_get(const char *name, char **value) {
#if defined(__linux__)
  const char *set = secure_getenv(name);
#else
  const char *set = issetugid() ? NULL : getenv(name);
#endif
  *value = set == NULL ? NULL : iobind__string_copy(set);
  return set == NULL || *value != NULL;
}

bool iobind__environment_has(const char *name) {
  return getenv(name) != NULL;
}

void iobind__environment_default(const char *name, const char *value) {
  setenv(name, value, 0);
}

#endif
