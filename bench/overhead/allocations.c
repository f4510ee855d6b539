#define _GNU_SOURCE /* dl_iterate_phdr */

/* Counts allocations between allocations_begin and allocations_end: all of them, and those whose caller lies in libiobind.
 * To be loaded before all other libraries (LD_PRELOAD). Only for glibc, whose allocator is called by its internal names. */

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t nmemb, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

__attribute__((visibility("default"))) void allocations_begin(void);
__attribute__((visibility("default"))) void allocations_end(void);
__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size);

static struct {
  bool counting; /* one thread runs the model, so nothing here needs a lock */
  uint64_t all;
  uint64_t ours;
  uintptr_t start, end; /* of libiobind in memory */
} state;

static void count(const void *caller) {
  if (!state.counting) return;
  state.all++;
  if ((uintptr_t)caller >= state.start && (uintptr_t)caller < state.end) state.ours++;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size, (void)context;
  if (strstr(info->dlpi_name, "/libiobind.so") == NULL) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD) continue;
    uintptr_t start = info->dlpi_addr + header->p_vaddr;
    if (state.start == 0 || start < state.start) state.start = start;
    if (start + header->p_memsz > state.end) state.end = start + header->p_memsz;
  }
  return 1;
}

void allocations_begin(void) {
  if (dl_iterate_phdr(find_library, NULL) == 0) {
    fputs("allocations: libiobind.so is not loaded\n", stderr);
    exit(1);
  }
  state.all = state.ours = 0;
  state.counting = true;
}

void allocations_end(void) {
  state.counting = false;
  printf("allocations %llu, of iobind %llu\n", (unsigned long long)state.all, (unsigned long long)state.ours);
}

__attribute__((visibility("default"))) void *malloc(size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t nmemb, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(nmemb, size);
}

__attribute__((visibility("default"))) void *realloc(void *ptr, size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(ptr, size);
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) int posix_memalign(void **memptr, size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  *memptr = __libc_memalign(alignment, size);
  return *memptr == NULL ? ENOMEM : 0;
}
