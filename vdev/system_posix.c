#define _GNU_SOURCE /* memfd_create, MAP_ANONYMOUS, strtod_l */

#include "system.h"

#if !defined(_WIN32)
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

size_t vdev_page_size(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

void *vdev_pages_reserve(size_t bytes, bool closed) {
  void *start =
      mmap(NULL, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? NULL : start;
}

void vdev_pages_release(void *start, size_t bytes) {
  munmap(start, bytes);
}

bool vdev_pages_use(void *start, size_t bytes) {
  (void)start, (void)bytes; /* a page comes when it is touched */
  return true;
}

bool vdev_shared_by_handle(void) {
  return false;
}

static int file_of(const void *handle) {
  return (int)(intptr_t)handle; /* how ORT's interface passes a file descriptor */
}

bool vdev_shared_size(const void *handle, size_t *bytes) {
  struct stat status;
  bool good = fstat(file_of(handle), &status) == 0;
  *bytes = good ? (size_t)status.st_size : 0;
  return good;
}

size_t vdev_shared_granularity(void) {
  return vdev_page_size();
}

void *vdev_shared_map(const void *handle, size_t offset, size_t bytes) {
  void *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_of(handle), (off_t)offset);
  return view == MAP_FAILED ? NULL : view;
}

void vdev_shared_unmap(void *view, size_t bytes) {
  munmap(view, bytes);
}

bool vdev_pages_twice(size_t bytes, void *views[2]) {
  int file = memfd_create("vdev", MFD_CLOEXEC);
  void *first = MAP_FAILED;
  void *second = MAP_FAILED;
  if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) {
    first = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    second = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  int why = errno;
  bool good = first != MAP_FAILED && second != MAP_FAILED;
  if (good) {
    views[0] = first;
    views[1] = second;
  } else if (first != MAP_FAILED) {
    munmap(first, bytes);
  }
  if (file >= 0) {
    close(file);
  }
  errno = why;
  return good;
}

void vdev_pages_untwice(size_t bytes, void *const views[2]) {
  munmap(views[0], bytes);
  munmap(views[1], bytes);
}

void vdev_pages_protect(void *start, size_t bytes, vdev_page_access access) {
  static const int modes[] = {
      [VDEV_PAGE_CLOSED] = PROT_NONE, [VDEV_PAGE_READABLE] = PROT_READ, [VDEV_PAGE_WRITABLE] = PROT_READ | PROT_WRITE};
  (void)mprotect(start, bytes, modes[access]);
}

void *vdev_aligned_allocate(size_t alignment, size_t bytes) {
  return aligned_alloc(alignment, bytes);
}

void vdev_aligned_free(void *memory) {
  free(memory);
}

int64_t vdev_system_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double vdev_decimal(const char *text, char **end) {
  locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (plain == (locale_t)0) {
    errno = ENOMEM;
    *end = (char *)(uintptr_t)text;
    return 0;
  }
  double value = strtod_l(text, end, plain);
  int why = errno;
  freelocale(plain);
  errno = why;
  return value;
}

FILE *vdev_file_create(const char *path) {
  (void)unlink(path);
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  FILE *stream = file < 0 ? NULL : fdopen(file, "wb");
  if (stream == NULL && file >= 0) {
    close(file);
  }
  return stream;
}

FILE *vdev_file_rewrite(const char *path) {
  return fopen(path, "w");
}

bool vdev_file_is_writable(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file >= 0) {
    close(file);
  }
  return file >= 0;
}

#endif
