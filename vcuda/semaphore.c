/* Timeline semaphores that processes share: a value in a memory file, which only grows. Streams wait for values and signal them. */
#define _GNU_SOURCE /* memfd_create */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "changes.h"
#include "state.h"
#include "vcuda.h"

typedef struct shared {
  char mark[8];
  atomic_uint_least64_t value;
  vcuda_changes changes;
} shared;

static const char mark[8] = "vcudasem";

struct vcuda_semaphore {
  int references; /* of the handle and of queued work; guarded by the lock */
  shared *shared;
};

static shared *open_file(int file) {
  struct stat status;
  void *mapped = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size >= (off_t)sizeof(shared)) {
    mapped = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped != MAP_FAILED && memcmp(((shared *)mapped)->mark, mark, sizeof mark) != 0) {
    (void)munmap(mapped, sizeof(shared));
    mapped = MAP_FAILED;
  }
  return mapped == MAP_FAILED ? NULL : mapped;
}

/* Set the value. False: the semaphore has this value or a higher one already. */
static bool raise_to(shared *at, uint64_t value) {
  uint64_t now = atomic_load(&at->value);
  do {
    if (value <= now) return false;
  } while (!atomic_compare_exchange_weak(&at->value, &now, value));
  vcuda_changes_wake(&at->changes);
  return true;
}

static void await(shared *at, uint64_t value) {
  for (;;) {
    unsigned changes = atomic_load(&at->changes);
    if (atomic_load(&at->value) >= value) return;
    vcuda_changes_sleep(&at->changes, changes);
  }
}

/* ---- CUDA's calls ---- */

int cudaImportExternalSemaphore(cuda_external_semaphore *semaphore, const cuda_external_semaphore_desc *desc) {
  VCUDA_ENTER_DEVICE(NULL);
  if (semaphore == NULL || desc == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *semaphore = NULL;
  if (desc->type != CUDA_EXTERNAL_TIMELINE_FD) {
    vcuda_log("%s: semaphores of type %d are not known here: 9, a timeline by a file descriptor, is", __func__, desc->type);
    return vcuda_end(&call, CUDA_NOT_SUPPORTED);
  }
  shared *opened = open_file(desc->handle.fd);
  if (opened == NULL) {
    vcuda_log("%s: file descriptor %d was not made by vcuda_semaphore_create", __func__, desc->handle.fd);
    return vcuda_end(&call, CUDA_INVALID_VALUE);
  }
  cuda_external_semaphore made = malloc(sizeof *made);
  if (made == NULL) {
    (void)munmap(opened, sizeof *opened);
    return vcuda_end(&call, CUDA_OUT_OF_MEMORY);
  }
  *made = (struct vcuda_semaphore){1, opened};
  (void)close(desc->handle.fd);
  *semaphore = made;
  return vcuda_end(&call, CUDA_OK);
}

/* With the lock held. */
static void drop(cuda_external_semaphore semaphore) {
  if (--semaphore->references > 0) return;
  (void)munmap(semaphore->shared, sizeof *semaphore->shared);
  free(semaphore);
}

int cudaDestroyExternalSemaphore(cuda_external_semaphore semaphore) {
  VCUDA_ENTER(NULL);
  if (semaphore == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  drop(semaphore);
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}

typedef struct step {
  cuda_external_semaphore semaphore;
  uint64_t value;
} step;

static void end(const step *self) {
  vcuda_lock();
  drop(self->semaphore);
  vcuda_unlock();
}

static void run_wait(void *arguments) {
  const step *self = arguments;
  await(self->semaphore->shared, self->value);
  end(self);
}

static void run_signal(void *arguments) {
  const step *self = arguments;
  if (!raise_to(self->semaphore->shared, self->value)) {
    vcuda_fail(CUDA_LAUNCH_FAILURE, "the semaphore is at %llu or more: its value only grows", (unsigned long long)self->value);
  }
  end(self);
}

static int queue(cuda_stream stream, const char *name, void (*run)(void *), const cuda_external_semaphore *semaphores,
                 const cuda_semaphore_params *params, unsigned count) {
  int error;
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  if (found != NULL && found->capture != NULL) error = CUDA_NOT_SUPPORTED;
  for (unsigned i = 0; i < count && error == CUDA_OK; i++) {
    const step one = {semaphores[i], params[i].value};
    const vcuda_order order = {.kind = CUDA_NODE_EMPTY, .name = name, .run = run, .arguments = &one, .bytes = sizeof one};
    one.semaphore->references++;
    error = vcuda_queue_order(found, &order);
    if (error != CUDA_OK) drop(one.semaphore);
  }
  vcuda_unlock();
  return error;
}

int cudaWaitExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                    unsigned count, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  if (semaphores == NULL || params == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  return vcuda_end(&call, queue(stream, __func__, run_wait, semaphores, params, count));
}

int cudaSignalExternalSemaphoresAsync(const cuda_external_semaphore *semaphores, const cuda_semaphore_params *params,
                                      unsigned count, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  if (semaphores == NULL || params == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  return vcuda_end(&call, queue(stream, __func__, run_signal, semaphores, params, count));
}

/* ---- vcuda.h: semaphores in place of another library's ---- */

int vcuda_semaphore_create(uint64_t value) {
  int file = memfd_create("vcuda semaphore", MFD_CLOEXEC);
  void *mapped = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof(shared)) == 0) {
    mapped = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped == MAP_FAILED) {
    if (file >= 0) (void)close(file);
    return -1;
  }
  shared *made = mapped;
  memcpy(made->mark, mark, sizeof mark);
  atomic_init(&made->value, value);
  (void)munmap(mapped, sizeof(shared));
  return file;
}

int vcuda_semaphore_signal(int file, uint64_t value) {
  shared *opened = open_file(file);
  bool good = opened != NULL && raise_to(opened, value);
  if (opened != NULL) (void)munmap(opened, sizeof *opened);
  return good ? 0 : -1;
}

int64_t vcuda_semaphore_get(int file) {
  shared *opened = open_file(file);
  int64_t value = opened == NULL ? -1 : (int64_t)atomic_load(&opened->value);
  if (opened != NULL) (void)munmap(opened, sizeof *opened);
  return value;
}
