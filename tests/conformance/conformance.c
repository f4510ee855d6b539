#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"
#include "objects.h"
#include "script.h"
#include "world.h"

/* conformance --device SPEC [--only TEXT] [--except NAME,...] [--at-least N] [--all-wrong] [--no-binary]
 *             [--sessions N] [--verbose] CASES
 *
 * Runs the rows of a file of cases on one device. Exits 0 where all passed (--all-wrong: where all failed), 1 where one failed,
 * 2 where the usage is wrong, and 77 where the device is not there; that is 1 where the environment variable IOBIND_REQUIRE, a
 * list such as "cpu,webgpu", names it. */

enum { EXIT_ABSENT = 77, EXIT_USAGE = 2 };

typedef struct options {
  const char *device;
  const char *only;
  const char *except; /* with commas between: a row, or several that begin with this and a slash */
  const char *cases;
  size_t at_least;
  size_t sessions; /* that stay open for later rows; 0: all */
  int all_wrong;
  int no_binary;
  int verbose;
} options;

/* ---- the name of the row, whatever ends the process ---- */

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { FATAL_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };
static struct sigaction previous[FATAL_SIGNALS];
static const char *running_row;
static char running_step[WORLD_TEXT];

/* The sanitizers end the process without a signal; this is their way to say so. Absent without them. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void write_text(const char *text) {
  size_t length = strlen(text);
  while (length > 0) {
    ssize_t written = write(STDERR_FILENO, text, length);
    if (written <= 0) return;
    text += written;
    length -= (size_t)written;
  }
}

static void name_row(void) {
  if (running_row == NULL) return;
  write_text("CRASH ");
  write_text(running_row);
  write_text(": ");
  write_text(running_step);
  write_text("\n");
  running_row = NULL;
}

/* Names the row and goes back to whatever handled the signal before: the fault comes again, and is reported there. */
static void on_fatal_signal(int number) {
  name_row();
  for (size_t i = 0; i < FATAL_SIGNALS; i++) {
    if (fatal_signals[i] == number) sigaction(number, &previous[i], NULL);
  }
}

static void watch_for_crashes(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_fatal_signal;
  for (size_t i = 0; i < FATAL_SIGNALS; i++) sigaction(fatal_signals[i], &action, &previous[i]);
  if (__sanitizer_set_death_callback != NULL) __sanitizer_set_death_callback(name_row);
}

/* ---- the device ---- */

static int absent(const char *spec, const char *why) {
  int required = test_requires(spec);
  printf("%s: %s: %s\n", required ? "FAIL" : "skip", spec, why);
  return required ? EXIT_FAILURE : EXIT_ABSENT;
}

/* Finds the device. Returns 0, or the exit status where it is not there. */
static int open_world(world *w, const char *spec) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  iobind_device_info device = IOBIND_DEVICE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (test_runtime(IOBIND_RUNTIME_SOFTWARE_DEVICES, spec, &w->runtime, &w->device, &error) != IOBIND_OK) {
    return absent(spec, error.message);
  }
  const iobind_status works = iobind_device_check(w->device, &error);
  if (works != IOBIND_OK && works != IOBIND_ERROR_RESULT) { /* the suite has none of the kernels that it computes wrong */
    return absent(spec, error.message);
  }
  if (iobind_runtime_get_info(w->runtime, &info, &error) != IOBIND_OK ||
      iobind_device_get_info(w->device, &device, &error) != IOBIND_OK) {
    printf("FAIL: %s: %s\n", spec, error.message);
    return EXIT_FAILURE;
  }
  w->host = iobind_runtime_get_device(w->runtime, 0);
  w->info = device;
  if (strncmp(info.ort_version, "1.", 2) == 0) w->ort_minor = (uint32_t)strtoul(info.ort_version + 2, NULL, 10);
  printf("%s: %s, memory %s, ORT %s\n", device.spec, device.ep_name, device.memory_name, info.ort_version);
  return 0;
}

/* ---- rows ---- */

typedef struct counts {
  size_t passed, failed, skipped;
} counts;

static uint64_t allocated_bytes(world *w) {
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  return world_must(w, iobind_device_get_counters(w->device, &counters, world_error(w))) ? counters.allocated_bytes : 0;
}

/* Runs a row's script. Returns 0 where the device lacks something, which is written to `missing`. */
static int play(world *w, const case_row *row, char missing[64]) {
  session *s = NULL;
  if (!world_runs(w, row->model, row->steps, missing) || !world_has(w, row->needs, NULL, missing)) return 0;
  if (row->model[0] != '\0') s = world_cached_session(w, row->model);
  if (w->failure[0] == '\0' && !world_has(w, row->needs, s, missing)) return 0;
  if (s != NULL) world_bind(w, "main", s, 0);
  if (w->failure[0] == '\0') script_run(w, row->steps, running_step);
  return 1;
}

static void run_row(world *w, const case_row *row, const options *o, counts *total) {
  char missing[64] = "", failure[sizeof w->failure], step_text[WORLD_TEXT];
  running_step[0] = '\0';
  running_row = row->name;
  if (o->verbose) printf("%s\n", row->name);
  fflush(stdout);
  if (o->sessions != 0 && w->cached >= o->sessions) world_drop_cache(w);
  uint64_t before = allocated_bytes(w);
  int played = play(w, row, missing);
  snprintf(step_text, sizeof step_text, "%s", running_step);
  memcpy(failure, w->failure, sizeof failure);
  snprintf(running_step, sizeof running_step, "the end of the row");
  script_forget_faults(w);
  world_clear(w);
  uint64_t after = allocated_bytes(w);
  if (after > before) { /* memory that a session keeps for its next runs goes with it */
    world_drop_cache(w);
    uint64_t rest = allocated_bytes(w);
    after = rest < before ? before : rest;
  }
  if (failure[0] == '\0' && after != before) {
    snprintf(failure, sizeof failure, "%lld bytes of device memory are left behind", (long long)(after - before));
  }
  running_row = NULL;
  if (failure[0] != '\0') {
    printf("FAIL %s (line %zu): %s: %s\n", row->name, row->line, step_text, failure);
    total->failed++;
  } else if (!played) {
    printf("skip %s: the device has not: %s\n", row->name, missing);
    total->skipped++;
  } else {
    total->passed++;
  }
}

static int is_wanted(const options *o, const char *name) {
  for (const char *at = o->except; at != NULL && *at != '\0'; at += *at == ',') {
    size_t length = strcspn(at, ",");
    if (length > 0 && strncmp(name, at, length) == 0 && (name[length] == '\0' || name[length] == '/')) return 0;
    at += length;
  }
  return o->only == NULL || strstr(name, o->only) != NULL;
}

static int run_all(world *w, const case_list *list, const options *o) {
  counts total = {0, 0, 0};
  for (size_t i = 0; i < list->count; i++) {
    if (is_wanted(o, list->rows[i].name)) run_row(w, &list->rows[i], o, &total);
  }
  printf("%zu passed, %zu failed, %zu skipped\n", total.passed, total.failed, total.skipped);
  if (total.passed + total.failed < o->at_least) {
    printf("FAIL: %zu rows at least are to run\n", o->at_least);
    return EXIT_FAILURE;
  }
  return (o->all_wrong ? total.passed : total.failed) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int read_options(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    int has_value = i + 1 < argc;
    if (strcmp(argv[i], "--device") == 0 && has_value) {
      o->device = argv[++i];
    } else if (strcmp(argv[i], "--only") == 0 && has_value) {
      o->only = argv[++i];
    } else if (strcmp(argv[i], "--except") == 0 && has_value) {
      o->except = argv[++i];
    } else if (strcmp(argv[i], "--at-least") == 0 && has_value) {
      o->at_least = (size_t)strtoul(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--sessions") == 0 && has_value) {
      o->sessions = (size_t)strtoul(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--all-wrong") == 0) {
      o->all_wrong = 1;
    } else if (strcmp(argv[i], "--no-binary") == 0) {
      o->no_binary = 1;
    } else if (strcmp(argv[i], "--verbose") == 0) {
      o->verbose = 1;
    } else if (argv[i][0] != '-' && o->cases == NULL) {
      o->cases = argv[i];
    } else {
      return 0;
    }
  }
  return o->device != NULL && o->cases != NULL;
}

int main(int argc, char **argv) {
  static world w;
  options o = {0};
  case_list list;
  if (!read_options(argc, argv, &o)) {
    fputs("usage: conformance --device SPEC [--only TEXT] [--except NAME,...] [--at-least N] [--all-wrong] [--no-binary] "
          "[--sessions N] [--verbose] CASES\n",
          stderr);
    return EXIT_USAGE;
  }
  if (!cases_read(o.cases, &list)) {
    fprintf(stderr, "%s: %s\n", o.cases, list.error);
    return EXIT_USAGE;
  }
  watch_for_crashes();
  w.no_binary = o.no_binary;
  int status = open_world(&w, o.device);
  if (status == 0) status = run_all(&w, &list, &o);
  world_end(&w);
  iobind_runtime_destroy(w.runtime);
  cases_release(&list);
  return status;
}
