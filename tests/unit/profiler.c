/* A profiler that NVTX_INJECTION64_PATH names: it remembers the ranges of the process, and does what the environment wants of it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*function)(void);

/* NVTX's table of a program's calls. */
typedef struct callbacks {
  size_t bytes;
  int (*get_table)(int module, function ***table, unsigned *size);
} callbacks;

typedef struct version_info {
  size_t bytes;
  uint32_t version;
  uint32_t reserved;
  void (*note_version)(uint32_t version);
} version_info;

/* "[" and a name for a range that begins, "]" for its end. */
static char ranges[1 << 16];
static int depth;

EXPORT const char *profiler_ranges(void);
EXPORT int profiler_depth(void);
EXPORT int InitializeInjectionNvtx2(const void *(*get_export)(uint32_t id));

const char *profiler_ranges(void) {
  return ranges;
}

int profiler_depth(void) {
  return depth;
}

static void note(const char *before, const char *name) {
  size_t used = strlen(ranges);
  snprintf(ranges + used, sizeof ranges - used, "%s%s", before, name);
}

static int push(const char *name) {
  note("[", name);
  return depth++;
}

static int pop(void) {
  note("]", "");
  return --depth;
}

/* As profilers do: a program with a module less than NVTX has is refused. */
int InitializeInjectionNvtx2(const void *(*get_export)(uint32_t id)) {
  enum { CALLBACKS = 1, VERSION_INFO = 3, MODULES = 6, CORE = 1, CORE2 = 5, PUSH = 9, POP = 11, LAST_OF_CORE = 15 };
  const callbacks *calls = get_export(CALLBACKS);
  const version_info *info = get_export(VERSION_INFO);
  function **table = NULL;
  unsigned size = 0;
  if (getenv("PROFILER_REFUSES") != NULL || calls == NULL || info == NULL || info->version < 2 || get_export(2) != NULL) {
    return 0;
  }
  info->note_version(info->version);
  for (int module = 0; module <= MODULES + 1; module++) {
    int has = calls->get_table(module, &table, &size);
    if (has != (module >= 1 && module <= MODULES) || (module == CORE2 && size <= LAST_OF_CORE)) {
      return 0;
    }
  }
  if (calls->get_table(CORE, &table, &size) == 0 || size <= LAST_OF_CORE || table[0] != NULL || table[size] != NULL) {
    return 0;
  }
  *table[PUSH] = (function)push;
  *table[POP] = (function)pop;
  return 1;
}
