#define _GNU_SOURCE /* memfd_create, syscall */

#include "semaphore.h"

#include <stdio.h>

#include "device.h"
#include "system.h"

#if defined(__linux__)

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What the file holds. An eventfd would not do: who reads its count takes it away from the others. */
typedef struct shared {
  char mark[8];
  atomic_uint_least64_t value;
  atomic_uint changes; /* what waiting threads sleep on: the kernel compares 32 bits */
} shared;

static const char mark[8] = "vdevsem";

struct vdev_semaphore {
  atomic_int references;
  shared *shared;
};

bool vdev_semaphore_is_supported(void) {
  return true;
}

vdev_semaphore *vdev_semaphore_open(int file, char *reason) {
  struct stat status;
  void *mapped = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size >= (off_t)sizeof(shared)) {
    mapped = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped != MAP_FAILED && memcmp(((shared *)mapped)->mark, mark, sizeof mark) != 0) {
    munmap(mapped, sizeof(shared));
    mapped = MAP_FAILED;
  }
  if (mapped == MAP_FAILED) {
    snprintf(reason, VDEV_TEXT, "file descriptor %d is not a semaphore that vdev_semaphore_create has made", file);
    return NULL;
  }
  vdev_semaphore *semaphore = malloc(sizeof *semaphore);
  if (semaphore == NULL) {
    munmap(mapped, sizeof(shared));
    snprintf(reason, VDEV_TEXT, "out of host memory");
    return NULL;
  }
  atomic_init(&semaphore->references, 1);
  semaphore->shared = mapped;
  return semaphore;
}

vdev_semaphore *vdev_semaphore_retain(vdev_semaphore *semaphore) {
  atomic_fetch_add(&semaphore->references, 1);
  return semaphore;
}

void vdev_semaphore_release(vdev_semaphore *semaphore) {
  if (atomic_fetch_sub(&semaphore->references, 1) == 1) {
    munmap(semaphore->shared, sizeof(shared));
    free(semaphore);
  }
}

bool vdev_semaphore_raise(vdev_semaphore *semaphore, uint64_t value, char *reason) {
  shared *at = semaphore->shared;
  uint64_t now = atomic_load(&at->value);
  do {
    if (value <= now) {
      snprintf(reason, VDEV_TEXT, "a semaphore at %llu cannot be signalled with %llu: its value only grows",
               (unsigned long long)now, (unsigned long long)value);
      return false;
    }
  } while (!atomic_compare_exchange_weak(&at->value, &now, value));
  atomic_fetch_add(&at->changes, 1);
  syscall(SYS_futex, &at->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  return true;
}

bool vdev_semaphore_await(const vdev_semaphore *semaphore, uint64_t value, int64_t timeout_ns) {
  shared *at = semaphore->shared;
  int64_t end = timeout_ns < 0 ? INT64_MAX : vdev_later(vdev_system_time(), timeout_ns);
  for (;;) {
    unsigned changes = atomic_load(&at->changes);
    if (atomic_load(&at->value) >= value) {
      return true;
    }
    int64_t left = end - vdev_system_time();
    if (left <= 0) {
      return false;
    }
    struct timespec rest = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    syscall(SYS_futex, &at->changes, FUTEX_WAIT, changes, timeout_ns < 0 ? NULL : &rest, NULL, 0);
  }
}

static int make_file(uint64_t value) {
  int file = memfd_create("vdev semaphore", MFD_CLOEXEC);
  void *mapped = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof(shared)) == 0) {
    mapped = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped == MAP_FAILED) {
    vdev_set_error("a semaphore cannot be made: %s", strerror(errno));
    if (file >= 0) {
      close(file);
    }
    return -1;
  }
  shared *made = mapped;
  memcpy(made->mark, mark, sizeof mark);
  atomic_init(&made->value, value);
  munmap(mapped, sizeof(shared));
  return file;
}

#else /* no futexes */

struct vdev_semaphore {
  int nothing;
};

bool vdev_semaphore_is_supported(void) {
  return false;
}

vdev_semaphore *vdev_semaphore_open(int file, char *reason) {
  (void)file;
  snprintf(reason, VDEV_TEXT, "there are semaphores of several processes on Linux only");
  return NULL;
}

vdev_semaphore *vdev_semaphore_retain(vdev_semaphore *semaphore) {
  return semaphore;
}

void vdev_semaphore_release(vdev_semaphore *semaphore) {
  (void)semaphore;
}

bool vdev_semaphore_raise(vdev_semaphore *semaphore, uint64_t value, char *reason) {
  (void)semaphore;
  (void)value;
  (void)reason;
  return false;
}

bool vdev_semaphore_await(const vdev_semaphore *semaphore, uint64_t value, int64_t timeout_ns) {
  (void)semaphore;
  (void)value;
  (void)timeout_ns;
  return false;
}

static int make_file(uint64_t value) {
  (void)value;
  vdev_set_error("there are semaphores of several processes on Linux only");
  return -1;
}

#endif

/* ---- the functions of vdev.h ---- */

int vdev_semaphore_create(uint64_t value) {
  return make_file(value);
}

int vdev_semaphore_signal(int file, uint64_t value) {
  char reason[VDEV_TEXT] = "";
  vdev_semaphore *semaphore = vdev_semaphore_open(file, reason);
  bool good = semaphore != NULL && vdev_semaphore_raise(semaphore, value, reason);
  if (semaphore != NULL) {
    vdev_semaphore_release(semaphore);
  }
  if (!good) {
    vdev_set_error("%s", reason);
  }
  return good ? 0 : -1;
}

int vdev_semaphore_wait(int file, uint64_t value, int64_t timeout_ns) {
  char reason[VDEV_TEXT] = "";
  vdev_semaphore *semaphore = vdev_semaphore_open(file, reason);
  if (semaphore == NULL) {
    vdev_set_error("%s", reason);
    return -1;
  }
  bool reached = vdev_semaphore_await(semaphore, value, timeout_ns);
  vdev_semaphore_release(semaphore);
  return reached;
}
