/* Ranges by NVTX, NVIDIA's interface between programs and profilers, without its headers: the profiler's library is loaded, and fills in the functions
 * that a program calls. The numbers are those of NVTX 3. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ep/ranges.h"
#include "support/system.h"

IOBIND__OF_LIBRARY atomic_bool iobind__ranges_taken;

#define ENTRY "InitializeInjectionNvtx2"
#define VARIABLE "NVTX_INJECTION64_PATH"

typedef void (*function)(void);
enum { MODULES = 6, CORE = 1, PUSH = 9, POP = 11, MOST = 16, VERSION = 3 };

/* How many functions a module has, with an unused one of number 0. iobind calls two; a profiler may refuse a program that lacks some. */
static const unsigned sizes[MODULES + 1] = {0, 16, 9, 15, 7, 16, 7};
static function functions[MODULES + 1][MOST];   /* filled in by the profiler */
static function *tables[MODULES + 1][MOST + 1]; /* pointers for it; NULL ends each table */

static int get_table(int module, function ***table, unsigned *size) {
  if (module < 1 || module > MODULES) {
    return 0;
  }
  if (table != NULL) {
    *table = tables[module];
  }
  if (size != NULL) {
    *size = sizes[module];
  }
  return 1;
}

static void note_version(uint32_t version) {
  (void)version; /* the profiler's: the functions that iobind calls are the same in all versions */
}

static const struct {
  size_t bytes;
  int (*get_table)(int module, function ***table, unsigned *size);
} callbacks = {sizeof callbacks, get_table};

static const struct {
  size_t bytes;
  uint32_t version;
  uint32_t reserved;
  void (*note_version)(uint32_t version);
} version_info = {sizeof version_info, VERSION, 0, note_version};

static const void *get_export(uint32_t id) {
  enum { CALLBACKS = 1, VERSION_INFO = 3 };
  return id == CALLBACKS ? (const void *)&callbacks : id == VERSION_INFO ? (const void *)&version_info : NULL;
}

typedef int (*start_function)(const void *(*get_export)(uint32_t id));

static char refused[512];

/* The profiler that the environment names; NULL: none. As NVTX does, it leaves alone a library of the process that nothing names: PyTorch loads
 * NVIDIA's CUPTI, which has this function, without any profiler. */
static start_function find_profiler(void) {
  start_function start = NULL;
  char *path = NULL;
  iobind__text reason = {0};
  if (!iobind__environment_get(VARIABLE, &path) || path == NULL) {
    return NULL;
  }
  void *library = iobind__library_open(path, &reason);
  *(void **)&start = library == NULL ? NULL : iobind__library_symbol(library, ENTRY);
  if (start == NULL) {
    snprintf(refused, sizeof refused, "%s: '%.200s': %.200s: no ranges are shown", VARIABLE, path,
             library == NULL ? iobind__text_get(&reason) : "it has no " ENTRY);
  }
  iobind__text_free(&reason);
  free(path);
  return start;
}

static void open_once(void) {
  start_function start = find_profiler();
  if (start == NULL) {
    return;
  }
  for (int module = 1; module <= MODULES; module++) {
    for (unsigned i = 1; i < sizes[module]; i++) {
      tables[module][i] = &functions[module][i];
    }
  }
  if (start(get_export) != 0) {
    atomic_store(&iobind__ranges_taken, functions[CORE][PUSH] != NULL && functions[CORE][POP] != NULL);
  } else {
    snprintf(refused, sizeof refused, "NVTX: the profiler's %s has failed: no ranges are shown", ENTRY);
  }
}

const char *iobind__ranges_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, open_once);
  return refused[0] == '\0' ? NULL : refused;
}

void iobind__range_push(const char *verb, const char *noun) {
  char name[128];
  bool has_noun = noun != NULL && noun[0] != '\0';
  snprintf(name, sizeof name, "iobind: %s%s%.96s", verb, has_noun ? " " : "", has_noun ? noun : "");
  (void)((int (*)(const char *))functions[CORE][PUSH])(name);
}

void iobind__range_pop(void) {
  (void)((int (*)(void))functions[CORE][POP])();
}
