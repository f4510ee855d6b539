/* fuzz_binding: random sequences of calls, without a fuzzer. A child process runs each, so that a crash ends only the child. A sequence
 * that fails is shortened as far as it still fails, and printed as a list of calls. */
#define _GNU_SOURCE /* memfd_create */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "current.h"
#include "operations.h"

enum { FILLED = 2 };            /* the number of first steps, most of which bind inputs */
enum { FEATURES_AFTER = 2000 }; /* from this number of sequences on, all features must have been reached */
enum { MOST_STEPS = 64, SECONDS = 120, SIGNATURE = 72, FINDINGS = 32, MOST_TRIES = 600 };

static const char help[] =
    "usage: fuzz_binding [--device SPEC] [--seed S] [--from N] [--count N] [--all] [--brief] [--without WORD] [--steps HEX] [--verbose]\n"
    "  --device SPEC  cpu, vdev or webgpu (default: cpu); exit code 77: it does not exist\n"
    "  --seed S       seed of the sequences (default: 1)\n"
    "  --from N       the number of the first sequence (default: 0)\n"
    "  --count N      how many (default: 1000)\n"
    "  --all          continue after a failure, and list the kinds of failures at the end\n"
    "  --brief        do not shorten a failing sequence\n"
    "  --without WORD swap or in-place: do not use these modes, to find other failures\n"
    "  --steps HEX    run one sequence, given as a failure prints it\n"
    "  --verbose      print each call before it is made\n";

typedef struct sequence {
  size_t count;
  step steps[MOST_STEPS];
} sequence;

typedef struct asked {
  const char *device;
  uint64_t seed, from, count;
  bool all;
  bool brief;
} asked;

/* What the child reports, in shared memory. */
typedef struct told {
  uint64_t number; /* of the sequence that it runs */
  bool missing;    /* the device does not exist */
  unsigned where;  /* which features can be reached: on the host, on another device, with faults */
  uint64_t counts[FEATURE_COUNT];
} told;
static told *child_told;

static uint64_t chance;

static uint64_t draw(void) {
  uint64_t z = chance += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static void make_sequence(uint64_t seed, uint64_t number, sequence *out) {
  chance = seed * 0x9E3779B97F4A7C15u ^ (number + 1) * 0xD1B54A32D192ED03u;
  out->count = 8 + draw() % (MOST_STEPS - 7);
  for (size_t i = 0; i < out->count; i++) {
    uint64_t drawn = draw();
    memcpy(&out->steps[i], &drawn, sizeof out->steps[i]);
    if (i < FILLED && out->steps[i].x[6] >= 32) out->steps[i].operation = operation_fill();
  }
}

static void run_sequence(const sequence *of) {
  alarm(SECONDS); /* ends a deadlock */
  world_begin();
  for (size_t i = 0; i < of->count; i++) step_do(&of->steps[i]);
  world_end();
}

/* ---- children ---- */

static void be_child(const asked *what, const sequence *only, int output) {
  if (output >= 0) dup2(output, STDERR_FILENO);
  if (!world_start(what->device)) {
    child_told->missing = true;
    _exit(77);
  }
  child_told->where = the_world->at_host ? ON_HOST : the_world->is_virtual ? ON_DEVICE | ON_VIRTUAL : ON_DEVICE;
  if (world_has_other()) child_told->where |= ON_TWO;
  if (the_world->is_vcuda) child_told->where |= ON_VCUDA;
  if (current_choose(0)) child_told->where |= ON_CURRENT;
  loses_devices = true;
  static sequence made;
  for (uint64_t i = 0; i < (only != NULL ? 1 : what->count) && !world_has_lost(); i++) {
    child_told->number = what->from + i;
    if (only == NULL) make_sequence(what->seed, what->from + i, &made);
    run_sequence(only != NULL ? only : &made);
  }
  world_stop();
  exit(0);
}

/* True: no failure. `output`: a file for the child's output; -1: none. */
static bool run_child(const asked *what, const sequence *only, int output) {
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) abort();
  if (child == 0) be_child(what, only, output);
  int status = 0;
  if (waitpid(child, &status, 0) != child) abort();
  return status == 0;
}

/* The kind of a failure: the text of the first line that reports one, without numbers. */
static void read_signature(int output, char *signature) {
  static char text[1 << 16];
  ssize_t size = pread(output, text, sizeof text - 1, 0);
  text[size > 0 ? size : 0] = '\0';
  const char *words[] = {"WRONG: ", "does not hold: ", "ERROR: AddressSanitizer: ", "runtime error: ", "ERROR: "};
  const char *at = NULL;
  for (size_t i = 0; at == NULL && i < sizeof words / sizeof words[0]; i++) {
    at = strstr(text, words[i]);
    if (at != NULL) at += strlen(words[i]);
  }
  size_t length = 0;
  for (at = at != NULL ? at : "ended by a signal"; *at != '\0' && *at != '\n' && length < SIGNATURE - 1; at++) {
    if ((*at < '0' || *at > '9') && *at != '.') signature[length++] = *at;
  }
  signature[length] = '\0';
}

/* Compare two signatures without the arguments of the call. */
static bool same_kind(const char *one, const char *two) {
  const char *rest_of_one = strstr(one, "): ");
  const char *rest_of_two = strstr(two, "): ");
  if (rest_of_one == NULL || rest_of_two == NULL) return strcmp(one, two) == 0;
  return strncmp(one, two, 4) == 0 && strcmp(rest_of_one, rest_of_two) == 0;
}

static int empty_file(void) {
  static int file = -1;
  if (file < 0) file = memfd_create("output", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0) abort();
  return file;
}

/* ---- shortening a sequence that fails in the same way ---- */

static size_t tries;

static bool still_fails(const asked *what, const sequence *shorter, const char *signature) {
  char now[SIGNATURE];
  int output = empty_file();
  if (tries++ >= MOST_TRIES || run_child(what, shorter, output)) return false;
  read_signature(output, now);
  return same_kind(signature, now);
}

static bool leave_out(const asked *what, sequence *of, size_t at, size_t count, const char *signature) {
  sequence shorter = *of;
  if (at + count > of->count) return false;
  memmove(shorter.steps + at, shorter.steps + at + count, (of->count - at - count) * sizeof shorter.steps[0]);
  shorter.count -= count;
  if (!still_fails(what, &shorter, signature)) return false;
  *of = shorter;
  return true;
}

static void make_plainer(const asked *what, sequence *of, const char *signature) {
  for (size_t i = 0; i < of->count; i++) {
    for (size_t x = 0; x < sizeof of->steps[i].x; x++) {
      sequence plainer = *of;
      if (plainer.steps[i].x[x] == 0) continue;
      plainer.steps[i].x[x] = 0;
      if (still_fails(what, &plainer, signature)) *of = plainer;
    }
  }
}

static void minimise(const asked *what, sequence *of, const char *signature) {
  tries = 0;
  bool shorter = true;
  while (shorter) {
    shorter = false;
    for (size_t size = of->count / 2 + 1; size >= 1; size /= 2) {
      for (size_t at = of->count - of->count % size + size; at >= size;) {
        at -= size;
        if (leave_out(what, of, at, size, signature)) shorter = true;
      }
    }
  }
  make_plainer(what, of, signature);
}

static void print_steps(const sequence *of) {
  fputs("--steps ", stderr);
  for (size_t i = 0; i < of->count; i++) {
    const unsigned char *at = (const unsigned char *)&of->steps[i];
    for (size_t b = 0; b < sizeof of->steps[i]; b++) fprintf(stderr, "%02x", at[b]);
  }
  fputc('\n', stderr);
}

static sequence read_steps(const char *hex) {
  sequence read = {0};
  for (size_t i = 0; hex[0] != '\0' && hex[1] != '\0' && i < sizeof read.steps; i++, hex += 2) {
    const char digits[3] = {hex[0], hex[1], '\0'};
    ((unsigned char *)read.steps)[i] = (unsigned char)strtoul(digits, NULL, 16);
    read.count = i / sizeof(step) + 1;
  }
  return read;
}

/* ---- all sequences ---- */

typedef struct finding {
  char signature[SIGNATURE];
  uint64_t first;
  uint64_t count;
} finding;
static finding findings[FINDINGS];
static size_t finding_count;

static finding *note(const char *signature, uint64_t number) {
  for (size_t i = 0; i < finding_count; i++) {
    findings[i].count++;
    if (same_kind(findings[i].signature, signature)) return &findings[i];
    findings[i].count--;
  }
  if (finding_count == FINDINGS) return NULL;
  finding *one = &findings[finding_count++];
  memcpy(one->signature, signature, SIGNATURE);
  one->first = number;
  one->count = 1;
  return one;
}

static void report(const asked *what, uint64_t number, const char *signature) {
  sequence of;
  make_sequence(what->seed, number, &of);
  size_t before = of.count;
  tries = 0;
  if (what->brief) {
    fprintf(stderr, "WRONG: sequence %" PRIu64 ": %s\n", number, signature);
    return;
  }
  if (still_fails(what, &of, signature)) {
    minimise(what, &of, signature);
  } else {
    fputs("\nthe next sequence fails only after those before it, or not each time:\n", stderr);
  }
  fprintf(stderr, "\n==== %s, seed %" PRIu64 ", sequence %" PRIu64 ": %s\n==== %zu of %zu steps are left:\n", what->device,
          what->seed, number, signature, of.count, before);
  verbose = true;
  (void)run_child(what, &of, -1);
  verbose = false;
  print_steps(&of);
}

static int run_all(asked what) {
  uint64_t end = what.from + what.count;
  while (what.from < end) {
    what.count = end - what.from;
    int output = empty_file();
    if (run_child(&what, NULL, output)) { /* all sequences, or up to one that has lost a device */
      what.from = child_told->number + 1;
      continue;
    }
    if (child_told->missing) return 77;
    char signature[SIGNATURE];
    read_signature(output, signature);
    uint64_t failed = child_told->number;
    const finding *one = note(signature, failed);
    if (one != NULL && one->count == 1) report(&what, one->first, signature);
    what.from = what.all && one != NULL ? failed + 1 : end;
  }
  return finding_count > 0;
}

static void leave_out_mode(const char *word) {
  if (strcmp(word, "swap") == 0) without_swap = true;
  if (strcmp(word, "in-place") == 0) without_in_place = true;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"from", required_argument, NULL, 'f'},
                                          {"count", required_argument, NULL, 'c'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"brief", no_argument, NULL, 'b'},
                                          {"steps", required_argument, NULL, 'x'},
                                          {"without", required_argument, NULL, 'w'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  asked what = {.device = "cpu", .seed = 1, .count = 1000};
  const char *steps = NULL;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (option) {
      case 'd': what.device = optarg; break;
      case 's': what.seed = strtoull(optarg, NULL, 10); break;
      case 'f': what.from = strtoull(optarg, NULL, 10); break;
      case 'c': what.count = strtoull(optarg, NULL, 10); break;
      case 'a': what.all = true; break;
      case 'b': what.brief = true; break;
      case 'x': steps = optarg; break;
      case 'w': leave_out_mode(optarg); break;
      case 'v': verbose = true; break;
      default: fputs(help, option == 'h' ? stdout : stderr); return option == 'h' ? 0 : 2;
    }
  }
  child_told = mmap(NULL, sizeof *child_told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (child_told == MAP_FAILED) abort();
  feature_counts = child_told->counts;
  if (steps != NULL) {
    sequence only = read_steps(steps);
    return run_child(&what, &only, -1) ? 0 : child_told->missing ? 77 : 1;
  }
  uint64_t asked_count = what.count;
  int result = run_all(what);
  if (result == 77) fprintf(stderr, "%s: the device does not exist\n", what.device);
  bool reaches_all = result != 0 || features_report(child_told->where) || asked_count < FEATURES_AFTER;
  if (result == 0) printf("%s: %" PRIu64 " sequences of seed %" PRIu64 " went well\n", what.device, what.count, what.seed);
  for (size_t i = 0; i < finding_count && what.all; i++) {
    fprintf(stderr, "%6" PRIu64 " times: %s\n", findings[i].count, findings[i].signature);
  }
  return reaches_all ? result : 1;
}
