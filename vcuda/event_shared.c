/* Events that processes share. A memory file holds which of their records are complete. An event's handle names this file and the
 * process that created it. */
#define _GNU_SOURCE /* memfd_create, O_CLOEXEC */

#include "event_shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "changes.h"
#include "state.h"

enum { RECORDS = 256 }; /* of one event in flight at the same time */

typedef struct records {
  vcuda_changes changes;
  atomic_uint_least64_t last;          /* the number of the last record; they count from 1 */
  atomic_uint_least64_t done[RECORDS]; /* the number of the record, or of a later one, when it is complete */
} records;

struct vcuda_event_shared {
  int file; /* -1: opened from another process */
  records *records;
};

typedef struct shared_event {
  char mark[8];
  int64_t process;
  int32_t file;
} shared_event;

static const char mark[8] = "vcudaevt";
_Static_assert(sizeof(shared_event) <= sizeof(cuda_ipc_handle), "a handle has room for it");

static vcuda_event_shared *map(int file, bool own) {
  void *mapped = mmap(NULL, sizeof(records), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  vcuda_event_shared *made = mapped == MAP_FAILED ? NULL : malloc(sizeof *made);
  if (made == NULL && mapped != MAP_FAILED) (void)munmap(mapped, sizeof(records));
  if (made != NULL) *made = (vcuda_event_shared){own ? file : -1, mapped};
  return made;
}

vcuda_event_shared *vcuda_event_shared_make(void) {
  int file = memfd_create("vcuda event", MFD_CLOEXEC);
  vcuda_event_shared *made = file >= 0 && ftruncate(file, sizeof(records)) == 0 ? map(file, true) : NULL;
  if (made == NULL && file >= 0) (void)close(file);
  return made;
}

void vcuda_event_shared_describe(const vcuda_event_shared *event, cuda_ipc_handle *handle) {
  shared_event described = {.process = getpid(), .file = event->file};
  memcpy(described.mark, mark, sizeof mark);
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &described, sizeof described);
}

int vcuda_event_shared_open(const cuda_ipc_handle *handle, vcuda_event_shared **event) {
  shared_event described;
  char path[64];
  memcpy(&described, handle, sizeof described);
  if (memcmp(described.mark, mark, sizeof mark) != 0) return CUDA_INVALID_VALUE;
  if (described.process == getpid()) return CUDA_INVALID_CONTEXT; /* as CUDA: valid only in another process */
  snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)described.process, described.file);
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_INVALID_VALUE;
  *event = map(file, false);
  (void)close(file);
  return *event == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

void vcuda_event_shared_close(vcuda_event_shared *event) {
  (void)munmap(event->records, sizeof(records));
  if (event->file >= 0) (void)close(event->file);
  free(event);
}

uint64_t vcuda_event_shared_record(vcuda_event_shared *event) {
  return atomic_fetch_add(&event->records->last, 1) + 1;
}

uint64_t vcuda_event_shared_last(const vcuda_event_shared *event) {
  return atomic_load(&event->records->last);
}

void vcuda_event_shared_finish(vcuda_event_shared *event, uint64_t number) {
  atomic_uint_least64_t *done = &event->records->done[number % RECORDS];
  uint64_t now = atomic_load(done);
  while (now < number && !atomic_compare_exchange_weak(done, &now, number)) continue;
  vcuda_changes_wake(&event->records->changes);
}

bool vcuda_event_shared_is_done(const vcuda_event_shared *event, uint64_t number) {
  return number == 0 || atomic_load(&event->records->done[number % RECORDS]) >= number;
}

void vcuda_event_shared_await(vcuda_event_shared *event, uint64_t number) {
  for (;;) {
    unsigned seen = atomic_load(&event->records->changes);
    if (vcuda_event_shared_is_done(event, number)) return;
    vcuda_changes_sleep(&event->records->changes, seen);
  }
}
