/* Every call of ORT and every allocation that each public function makes fails once.
 * usage: fail_each [-v] [cpu|vdev|strange] [FUNCTION]   only those; -v: a line for each failure
 *        fail_each --functions                  a line for each function with a scenario, and for each without one */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocation.h"
#include "fake_ort.h"
#include "objects.h"
#include "scenario.h"

enum { CODE = 11 /* ORT_EP_FAIL, which nothing here gives by itself */ };
static const char words[] = "refused by the fake ORT";

/* What fails: the n-th call of a slot of ORT's table, or of an allocation. */
typedef struct failing {
  const char *name; /* NULL: nothing fails */
  bool is_allocation;
  const char *less; /* it succeeds and returns less: NULL, or outputs without elements; NULL: it fails */
  size_t nth;
} failing;

/* Slots that may succeed and return less: a device without a shared allocator, a tensor of a device that is out of memory, the output of
 * a device that computes wrong. */
static const struct {
  const char *slot, *less;
} may_be_less[] = {{"GetSharedAllocator", "NULL"}, {"GetTensorMutableData", "NULL"}, {"Run", "EMPTY"}};

static const struct scenario *const groups[] = {runtime_scenarios, stream_scenarios, tensor_scenarios,   session_scenarios,
                                                binding_scenarios, carry_scenarios,  graph_scenarios,    busy_scenarios,
                                                audit_scenarios,   state_scenarios,  pipeline_scenarios, external_scenarios,
                                                batch_scenarios};
enum { GROUPS = sizeof groups / sizeof groups[0] };

static bool verbose;
static size_t problem_count;
static struct { size_t scenarios, slots, allocations; } tally;

__attribute__((format(printf, 1, 2))) static void problem(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%s\n  ", rig_case);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  problem_count++;
}

/* ---- the pointer that a call returns ---- */

static char untouched; /* its address stands there before the call */

static void *get_out(const struct rig *rig, const struct scenario *scenario) {
  void *value = NULL;
  if (scenario->out != 0) {
    memcpy(&value, (const char *)rig + scenario->out, sizeof value);
  }
  return value;
}

static void set_out(struct rig *rig, const struct scenario *scenario, void *value) {
  if (scenario->out != 0) {
    memcpy((char *)rig + scenario->out, &value, sizeof value);
  }
}

/* ---- one call, with nothing or something failing ---- */

/* The error is that of a later version, which is longer: its size is the caller's, and no failure that was kept may replace it. */
enum { ERROR_SIZE = sizeof(iobind_error) + 16 };

static iobind_status make_call(struct rig *rig, const struct scenario *scenario) {
  set_out(rig, scenario, &untouched);
  rig->error = (iobind_error)IOBIND_ERROR_INIT;
  rig->error.struct_size = ERROR_SIZE;
  rig->error.status = -1;
  iobind_status status = scenario->call(rig);
  void *out = get_out(rig, scenario);
  if (out == &untouched || (scenario->out != 0 && (out == NULL) != (status != IOBIND_OK))) {
    problem("the call returned %s, and what it hands out is %s", iobind_status_get_name((int32_t)status),
            out == &untouched ? "not touched"
            : out == NULL     ? "NULL"
                              : "not NULL");
    set_out(rig, scenario, out == &untouched ? NULL : out);
  }
  if (rig->error.status != (status == IOBIND_OK ? -1 : (int32_t)status)) {
    problem("the call returned %s, the error's status is %d", iobind_status_get_name((int32_t)status), rig->error.status);
  }
  if (status != IOBIND_OK && !test_is_named(rig->error.message)) {
    problem("the message does not begin with a function's name, or has it twice: %s", rig->error.message);
  }
  if (rig->error.struct_size != ERROR_SIZE) {
    problem("the error's struct_size was %d, and is %u", ERROR_SIZE, rig->error.struct_size);
  }
  return status;
}

static iobind_status call_with(struct rig *rig, const struct scenario *scenario, const failing *what) {
  fake_ort_reset();
  if (what->name != NULL && !what->is_allocation &&
      !fake_ort_fail(what->name, what->nth, what->less != NULL ? 0 : CODE, words)) {
    rig_stop(what->name, "this slot cannot fail");
  }
  allocation_watch(what->is_allocation ? what->name : NULL, what->nth);
  iobind_status status = make_call(rig, scenario);
  allocation_ignore();
  return status;
}

/* ---- what must be so afterwards ---- */

static void judge(const struct rig *rig, const failing *what, const expectation *expected, iobind_status status) {
  enum outcome outcome = expected == NULL ? OUTCOME_RULE : expected->outcome;
  if (outcome == OUTCOME_ANY || (outcome == OUTCOME_EITHER && status == expected->status)) {
    return;
  }
  bool by_rule = outcome == OUTCOME_RULE || outcome == OUTCOME_EITHER;
  iobind_status wanted = !by_rule ? expected->status : what->is_allocation ? IOBIND_ERROR_OUT_OF_MEMORY : IOBIND_ERROR_RUNTIME;
  if (status != wanted) {
    problem("expected %s, got %s: %s", iobind_status_get_name((int32_t)wanted), iobind_status_get_name((int32_t)status),
            status == IOBIND_OK ? "" : rig->error.message);
  } else if (status != IOBIND_OK) {
    bool from_ort = !what->is_allocation && what->less == NULL && fake_ort_returns_status(what->name);
    int code = from_ort && outcome != OUTCOME_REASON ? CODE : 0;
    if (rig->error.ort_code != code) {
      problem("expected ORT's code %d, got %d: %s", code, rig->error.ort_code, rig->error.message);
    }
    if (from_ort && strstr(rig->error.message, words) == NULL) {
      problem("ORT's text is not in the message: %s", rig->error.message);
    }
    if (what->is_allocation && strstr(rig->error.message, "memory") == NULL && strstr(rig->error.message, "thread") == NULL) {
      problem("the message speaks of neither memory nor a thread: %s", rig->error.message);
    }
  }
}

static void try_again(struct rig *rig, const struct scenario *scenario, bool is_dead) {
  iobind_status status = make_call(rig, scenario);
  if ((status == IOBIND_OK) == is_dead) {
    problem("the same call again: expected %s, got %s: %s", is_dead ? "a failure" : "success",
            iobind_status_get_name((int32_t)status), status == IOBIND_OK ? "" : rig->error.message);
  } else if (status == IOBIND_OK && scenario->right != NULL) {
    scenario->right(rig);
  }
}

static void expect_nothing_left(void) {
  for (size_t i = 0; fake_ort_kind(i) != NULL; i++) {
    static long reported[64];
    long left = fake_ort_alive(i);
    if (i < sizeof reported / sizeof reported[0] && left != reported[i]) {
      problem("%ld of ORT's objects '%s' were not released, or twice", left - reported[i], fake_ort_kind(i));
      reported[i] = left; /* once */
    }
  }
}

static void start(struct rig *rig, const struct scenario *scenario, rig_place place) {
  fake_ort_reset();
  memset(rig, 0, sizeof *rig);
  if (scenario->bare) {
    rig->place = place;
    rig->error = (iobind_error)IOBIND_ERROR_INIT;
  } else {
    rig_open(rig, place);
  }
  if (scenario->prepare != NULL) {
    scenario->prepare(rig);
  }
}

static const char *where(rig_place place) {
  return place == ON_CPU ? "cpu" : place == ON_VDEV ? "vdev" : "strange";
}

static void try_one(struct rig *rig, const struct scenario *scenario, rig_place place, const failing *what,
                    const expectation *expected) {
  start(rig, scenario, place);
  iobind_status status = call_with(rig, scenario, what);
  if (!(what->is_allocation ? allocation_has_failed() : fake_ort_has_failed())) {
    problem("the call that was to fail was not made");
  }
  fake_ort_reset();
  judge(rig, what, expected, status);
  bool is_whole = expected == NULL || expected->outcome == OUTCOME_IGNORED;
  if (status == IOBIND_OK && scenario->right != NULL && is_whole) {
    scenario->right(rig);
  }
  if (status != IOBIND_OK && !scenario->last) {
    try_again(rig, scenario, expected != NULL && expected->dead);
  }
}

static void fail_one(const struct scenario *scenario, rig_place place, const failing *what) {
  char name[64];
  snprintf(name, sizeof name, "%s%s%s", what->name, what->less != NULL ? "=" : "", what->less != NULL ? what->less : "");
  snprintf(rig_case, sizeof rig_case, "%s%s%s on %s, %s %zu fails", scenario->function, scenario->variant[0] != '\0' ? " " : "",
           scenario->variant, where(place), name, what->nth);
  if (verbose) {
    printf("%s\n", rig_case);
    fflush(stdout);
  }
  static struct rig rig; /* what is static does not change by the jump */
  if (setjmp(rig_left) == 0) {
    try_one(&rig, scenario, place, what, expectation_of(scenario, name, what->nth));
  } else {
    problem_count++;
  }
  fake_ort_reset();
  allocation_ignore();
  rig_close(&rig);
  expect_nothing_left();
}

/* ---- all of them ---- */

typedef struct count {
  failing what;
  size_t calls;
} count;

/* What the scenario's call makes where nothing fails. */
static size_t count_calls(struct rig *rig, const struct scenario *scenario, rig_place place, count *counts, size_t capacity) {
  snprintf(rig_case, sizeof rig_case, "%s%s%s on %s", scenario->function, scenario->variant[0] != '\0' ? " " : "",
           scenario->variant, where(place));
  const failing nothing = {0};
  start(rig, scenario, place);
  iobind_status status = call_with(rig, scenario, &nothing);
  if (status != IOBIND_OK) {
    rig_stop("the call under test, with nothing failing", rig->error.message);
  }
  size_t size = 0;
  for (size_t i = 0; fake_ort_slot(i) != NULL && size + 2 < capacity; i++) {
    const char *slot = fake_ort_slot(i);
    size_t calls = fake_ort_can_fail(slot) ? fake_ort_count(slot) : 0;
    if (calls > 0) {
      counts[size++] = (count){{.name = slot}, calls};
    }
    for (size_t e = 0; calls > 0 && e < sizeof may_be_less / sizeof may_be_less[0]; e++) {
      if (strcmp(may_be_less[e].slot, slot) == 0) {
        counts[size++] = (count){{.name = slot, .less = may_be_less[e].less}, calls};
      }
    }
  }
  for (size_t i = 0; allocation_function(i) != NULL && size < capacity; i++) {
    size_t calls = allocation_count(allocation_function(i));
    if (calls > 0) {
      counts[size++] = (count){{.name = allocation_function(i), .is_allocation = true}, calls};
    }
  }
  fake_ort_reset();
  if (scenario->right != NULL) {
    scenario->right(rig);
  }
  return size;
}

static void fail_all(const struct scenario *scenario, rig_place place) {
  static struct rig rig; /* what is static does not change by the jump, as the next two */
  static count counts[96];
  static size_t size;
  size = 0;
  if (setjmp(rig_left) == 0) {
    size = count_calls(&rig, scenario, place, counts, sizeof counts / sizeof counts[0]);
    NEED_TRUE(size < sizeof counts / sizeof counts[0]);
  } else {
    problem_count++;
  }
  rig_close(&rig);
  expect_nothing_left();
  tally.scenarios++;
  for (size_t i = 0; i < size; i++) {
    const expectation *expected = expectation_of(scenario, counts[i].what.name, 0);
    bool never = expected != NULL && expected->outcome == OUTCOME_NEVER;
    for (size_t nth = 1; !never && nth <= counts[i].calls; nth++) {
      failing what = counts[i].what;
      what.nth = nth;
      fail_one(scenario, place, &what);
      *(what.is_allocation ? &tally.allocations : &tally.slots) += 1;
    }
  }
}

/* Done before any other call: what a process allocates only for its first runtime, and keeps. */
static void fail_first(void) {
  static struct rig rig;
  static const struct scenario first = {
      .function = "iobind_runtime_create", .variant = "the first", .places = ON_CPU, .bare = true};
  static size_t nth;
  if (setjmp(rig_left) != 0) {
    problem_count++;
    return;
  }
  bool failed = true;
  for (nth = 1; failed; nth++) {
    snprintf(rig_case, sizeof rig_case, "the first iobind_runtime_create, calloc %zu fails", nth);
    start(&rig, &first, ON_CPU);
    allocation_watch("calloc", nth);
    iobind_status status = rig_runtime(&rig);
    allocation_ignore();
    failed = allocation_has_failed();
    NEED_TRUE(status == (failed ? IOBIND_ERROR_OUT_OF_MEMORY : IOBIND_OK));
    rig_close(&rig);
    expect_nothing_left();
  }
}

static void print_functions(void) {
  for (size_t g = 0; g < GROUPS; g++) {
    for (const struct scenario *one = groups[g]; one->function != NULL; one++) {
      printf("scenario %s\n", one->function);
    }
  }
  for (const without_scenario *one = without_scenarios; one->function != NULL; one++) {
    printf("without %s: %s\n", one->function, one->reason);
  }
}

/* The real ORT is the one that iobind itself would have found by its environment variable, or the runtime directory's. */
static void choose_real_ort(void) {
  const char *named = getenv("ORT_NATIVE_LIB_PATH");
  char folder[600];
  if (named == NULL || named[0] == '\0') {
    named = rig_build_path("../../lib/iobind/onnxruntime", folder, sizeof folder);
  }
  setenv("FAKE_ORT_REAL", named, 0);
}

/* ORT before 1.26 has no graph capture for EP plugins. */
static bool captures_graphs(void) {
  enum { SINCE = 26 };
  static struct rig rig;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  if (setjmp(rig_left) != 0) {
    return false;
  }
  rig_open(&rig, ON_CPU);
  NEED(&rig, iobind_runtime_get_info(rig.runtime, &info, &rig.error));
  rig_close(&rig);
  return info.ort_api_version >= SINCE;
}

int main(int argc, char **argv) {
  const char *function = NULL;
  int places = ON_ALL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--functions") == 0) {
      print_functions();
      return 0;
    }
    if (strcmp(argv[i], "-v") == 0) {
      verbose = true;
    } else if (strcmp(argv[i], "cpu") == 0 || strcmp(argv[i], "vdev") == 0 || strcmp(argv[i], "strange") == 0) {
      places = argv[i][0] == 'c' ? ON_CPU : argv[i][0] == 'v' ? ON_VDEV : ON_STRANGE;
    } else {
      function = argv[i];
    }
  }
  choose_real_ort();
  fail_first();
  bool graphs = captures_graphs();
  for (size_t g = 0; g < GROUPS; g++) {
    for (const struct scenario *one = groups[g]; one->function != NULL && (graphs || groups[g] != graph_scenarios); one++) {
      for (int place = ON_CPU; place <= ON_STRANGE; place *= 2) {
        if (((int)one->places & place & places) != 0 && (function == NULL || strcmp(function, one->function) == 0)) {
          fail_all(one, (rig_place)place);
        }
      }
    }
  }
  bool whole = places == ON_ALL && function == NULL && graphs;
  if (whole && !expectations_all_used()) {
    problem_count++;
  }
  printf("%zu scenarios: %zu failures of ONNX Runtime and %zu of allocations, %zu problems\n", tally.scenarios, tally.slots,
         tally.allocations, problem_count);
  return tally.scenarios == 0 || problem_count > 0;
}
