#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "pages.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "world.h"

enum { PAGES = 192 };
static char *pages;
static size_t used;
static atomic_size_t deleted;

size_t page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

void page_close(void *context, void *data) {
  (void)data;
  if (mprotect(context, page_bytes(), PROT_NONE) != 0) abort();
  atomic_fetch_add(&deleted, 1);
}

char *page_open(void) {
  if (pages == NULL) {
    pages = mmap(NULL, PAGES * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) abort();
  }
  return used < PAGES ? pages + used++ * page_bytes() : NULL;
}

void page_give_back(void) {
  used--;
}

void pages_check(void) {
  if (atomic_load(&deleted) != used) {
    fail("%zu of %zu wrapped tensors were never released", used - atomic_load(&deleted), used);
  }
  if (used > 0 && mprotect(pages, used * page_bytes(), PROT_READ | PROT_WRITE) != 0) abort();
  used = 0;
  atomic_store(&deleted, 0);
}
