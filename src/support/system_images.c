/* The part of system.h that reads the libraries of the process. On systems without ELF files it finds nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, dlinfo, RTLD_DEFAULT */
#endif
#include "support/system.h"

#if defined(__ELF__)
#include <dlfcn.h>
#include <link.h>

/* Sanitizers put guard bytes between a library's variables, and watch them. This function reads across all of them. */
#define UNWATCHED __attribute__((no_sanitize("address", "thread")))

/* The range of addresses of a library. */
typedef struct span {
  uintptr_t start;
  uintptr_t end;
} span;

enum { MOST_LIBRARIES = 1024 }; /* libraries loaded after so many are not searched */

typedef struct search {
  uintptr_t library; /* its load address */
  size_t least;
  const void **tables;
  size_t most;
  size_t count;
  span own; /* of the library */
  span all; /* around all others */
  span others[MOST_LIBRARIES];
  size_t other_count;
} search;

/* The loaded part of a library that contains an address. */
typedef struct segment {
  uintptr_t address;
  uintptr_t library;
  uintptr_t end;
  uint32_t flags; /* PF_R, PF_W, PF_X; 0: the address is in none */
} segment;

static uintptr_t start_of(const struct dl_phdr_info *info, size_t i) {
  return (uintptr_t)info->dlpi_addr + (uintptr_t)info->dlpi_phdr[i].p_vaddr;
}

static int add_span(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  search *self = context;
  span whole = {UINTPTR_MAX, 0};
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t start = start_of(info, i);
    uintptr_t end = start + (uintptr_t)info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD) {
      whole.start = start < whole.start ? start : whole.start;
      whole.end = end > whole.end ? end : whole.end;
    }
  }
  if (info->dlpi_addr == self->library) {
    self->own = whole;
  } else if (whole.end > 0 && self->other_count < MOST_LIBRARIES) {
    self->others[self->other_count++] = whole;
    self->all.start = whole.start < self->all.start ? whole.start : self->all.start;
    self->all.end = whole.end > self->all.end ? whole.end : self->all.end;
  }
  return 0;
}

static bool is_in(span range, uintptr_t address) {
  return address >= range.start && address < range.end;
}

/* Called for each word of a library: most are numbers, or addresses in the library itself, which are excluded first. */
static bool is_in_another(const search *self, uintptr_t address) {
  if (!is_in(self->all, address) || is_in(self->own, address)) {
    return false;
  }
  for (size_t i = 0; i < self->other_count; i++) {
    if (is_in(self->others[i], address)) {
      return true;
    }
  }
  return false;
}

static int match_segment(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  segment *self = context;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t start = start_of(info, i);
    uintptr_t end = start + (uintptr_t)info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && self->address >= start && self->address < end) {
      self->library = (uintptr_t)info->dlpi_addr;
      self->end = end;
      self->flags = info->dlpi_phdr[i].p_flags;
      return 1;
    }
  }
  return 0;
}

static segment segment_of(uintptr_t address) {
  segment found = {.address = address};
  dl_iterate_phdr(match_segment, &found);
  return found;
}

/* Are there at least `least` functions' addresses here, all of functions of one library? */
UNWATCHED static bool is_table(const search *self, uintptr_t address) {
  if (address % sizeof(uintptr_t) != 0) {
    return false;
  }
  segment holder = segment_of(address);
  if ((holder.flags & PF_R) == 0 || (holder.end - address) / sizeof(uintptr_t) < self->least) {
    return false;
  }
  const uintptr_t *functions = (const uintptr_t *)address;
  segment code = segment_of(functions[0]);
  bool same = (code.flags & PF_X) != 0 && code.library == holder.library;
  for (size_t i = 1; i < self->least && same; i++) {
    segment next = functions[i] > functions[0] && functions[i] < code.end ? code : segment_of(functions[i]);
    same = (next.flags & PF_X) != 0 && next.library == holder.library;
  }
  return same;
}

static bool is_found_already(const search *self, uintptr_t word) {
  for (size_t i = 0; i < self->count; i++) {
    if ((uintptr_t)self->tables[i] == word) {
      return true;
    }
  }
  return false;
}

UNWATCHED static void look_through(search *self, uintptr_t start, uintptr_t end) {
  const uintptr_t *words = (const uintptr_t *)((start + sizeof(uintptr_t) - 1) / sizeof(uintptr_t) * sizeof(uintptr_t));
  for (; (uintptr_t)(words + 1) <= end && self->count < self->most; words++) {
    if (is_in_another(self, *words) && !is_found_already(self, *words) && is_table(self, *words)) {
      self->tables[self->count++] = (const void *)*words;
    }
  }
}

/* Called by dl_iterate_phdr, during which no library can be unloaded. */
static int look(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  search *self = context;
  if (info->dlpi_addr != self->library) {
    return 0;
  }
  dl_iterate_phdr(add_span, self);
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const uint32_t both = PF_R | PF_W;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & both) == both) {
      uintptr_t start = start_of(info, i);
      look_through(self, start, start + (uintptr_t)info->dlpi_phdr[i].p_memsz);
    }
  }
  return 1;
}

size_t iobind__library_tables(const char *path, size_t least, const void **tables, size_t most) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  struct link_map *map = NULL;
  search self = {.least = least, .tables = tables, .most = most, .all = {UINTPTR_MAX, 0}};
  if (library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
    self.library = (uintptr_t)map->l_addr;
    dl_iterate_phdr(look, &self);
  }
  if (library != NULL) {
    dlclose(library); /* drop the reference that RTLD_NOLOAD added */
  }
  return self.count;
}

void *iobind__symbol_of_any(const char *name) {
  return dlsym(RTLD_DEFAULT, name);
}

#else
size_t iobind__library_tables(const char *path, size_t least, const void **tables, size_t most) {
  (void)path;
  (void)least;
  (void)tables;
  (void)most;
  return 0;
}

void *iobind__symbol_of_any(const char *name) {
  (void)name;
  return NULL;
}
#endif
