#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include "kernels/survey.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if !defined(_WIN32)
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#endif

#include "kernels/list.h"
#include "shared/failure.h"

enum { USUAL_JOBS = 4, SPEC = 128, ASK_AGAIN = 200 /* ms */ };

typedef struct slot {
  survey_entry entry;
  _Atomic(size_t) worker; /* the worker that is trying it, from 1 on; 0: none */
} slot;

/* What all processes see. */
typedef struct board {
  char spec[SPEC];
  atomic_size_t next; /* the next free slot */
  size_t count;
  slot slots[];
} board;

struct survey {
  tool_state *tool;
  size_t jobs;
  size_t bytes;
  board *board;
  int process; /* that starts the others; 0: there is none, and this one does the work */
  int channel; /* to it */
};

/* ---- the list ---- */

/* Whether the first word of a kernel's line is one of these operators. */
static bool is_wanted(char *const *operators, const char *text) {
  const size_t length = strcspn(text, " ");
  bool wanted = operators == NULL;
  for (size_t i = 0; !wanted && operators[i] != NULL; i++) {
    wanted = strlen(operators[i]) == length && memcmp(operators[i], text, length) == 0;
  }
  return wanted;
}

static size_t list_kernels(char *const *operators, slot *slots) {
  kernel_cursor cursor = {0};
  char text[KERNEL_TEXT];
  int32_t dtype = 0;
  size_t count = 0;
  while (kernel_list_next(&cursor, text, &dtype)) {
    if (!is_wanted(operators, text)) continue;
    if (slots != NULL) {
      memcpy(slots[count].entry.text, text, sizeof text);
      slots[count].entry.dtype = dtype;
    }
    count++;
  }
  return count;
}

/* Each name must be one of the list: a table without a row would look like one in which all are right. */
static int check_operators(const tool_state *tool, char *const *operators) {
  for (size_t i = 0; operators != NULL && operators[i] != NULL; i++) {
    char *const one[] = {operators[i], NULL};
    if (list_kernels(one, NULL) == 0) {
      return tool_misuse(tool, "--operator: no kernel of '%s' is in the list", operators[i]);
    }
  }
  return TOOL_GO;
}

/* ---- a worker ---- */

/* @return TOOL_GO, or the exit code after the error is printed */
static int try_slots(survey *self, iobind_device *device, size_t worker) {
  board *all = self->board;
  kernel_bench bench = {.tool = self->tool, .device = device};
  size_t index;
  int code = TOOL_GO;
  while (code == TOOL_GO && (index = atomic_fetch_add(&all->next, 1)) < all->count) {
    slot *each = &all->slots[index];
    survey_entry *entry = &each->entry;
    atomic_store(&each->worker, worker);
    if (!kernel_try(&bench, entry->text, entry->dtype, &entry->found, &entry->rank)) {
      code = tool_fail(self->tool, "the kernel '%s' cannot be created; is memory exhausted?", entry->text);
    } else if (entry->found.is_lost) {
      code = TOOL_DONE; /* nothing works on the device any more, in this process */
    }
    atomic_store(&each->worker, 0);
  }
  kernel_leave(&bench);
  return code;
}

#if defined(_WIN32)

static bool share(survey *self) {
  self->board = calloc(1, self->bytes);
  return self->board != NULL;
}

static void unshare(survey *self) {
  free(self->board);
}

static int begin(survey *self) {
  (void)self;
  return TOOL_GO;
}

static int run(survey *self) {
  iobind_device *device = NULL;
  const int code = tool_find_device(self->tool, "--compute", self->board->spec, &device);
  return code == TOOL_GO ? try_slots(self, device, 1) : code;
}

static void end(const survey *self) {
  (void)self;
}

static size_t count_cores(void) {
  return 1;
}

#else

static bool share(survey *self) {
  void *memory = mmap(NULL, self->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  self->board = memory == MAP_FAILED ? NULL : memory;
  return self->board != NULL;
}

static void unshare(survey *self) {
  if (self->board != NULL) munmap(self->board, self->bytes);
}

/* A worker must not outlive the process that started it. */
static void end_with_parent(void) {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

/* A worker's exit code: one of these, or the command's after an error. MORE: another worker must continue. */
enum { ALL_TRIED = 0, MORE = 3 };

static int work(survey *self, size_t worker) {
  iobind_device *device = NULL;
  int code = tool_open(self->tool);
  if (code == TOOL_GO) code = tool_find_device(self->tool, "--compute", self->board->spec, &device);
  if (code == TOOL_GO) code = try_slots(self, device, worker);
  return code == TOOL_GO ? ALL_TRIED : code == TOOL_DONE ? MORE : code;
}

static pid_t start_worker(survey *self, size_t worker) {
  const pid_t made = fork();
  if (made != 0) return made;
  end_with_parent();
  dup2(STDERR_FILENO,
       STDOUT_FILENO);       /* an EP's own output, such as ggml's before it ends the process, does not belong to the report */
  _exit(work(self, worker)); /* without unloading the libraries of EPs, which crashes some of them */
}

/* A worker has ended during a kernel: that is the finding. False: it was not trying one. */
static bool blame(board *all, size_t worker, int status) {
  for (size_t i = 0; i < all->count; i++) {
    slot *each = &all->slots[i];
    if (atomic_load(&each->worker) != worker) continue;
    kernel_finding *found = &each->entry.found;
    found->outcome = KERNEL_FATAL;
    if (WIFSIGNALED(status)) {
      snprintf(found->reason, sizeof found->reason, "ends the process: %s", strsignal(WTERMSIG(status)));
    } else {
      snprintf(found->reason, sizeof found->reason, "ends the process with the exit code %d", WEXITSTATUS(status));
    }
    atomic_store(&each->worker, 0);
    return true;
  }
  return false;
}

/* Start workers until all kernels are tried, in the process that has no runtime and no other thread. */
static int supervise(survey *self) {
  pid_t workers[SURVEY_JOBS] = {0};
  size_t running = 0;
  int code = TOOL_DONE;
  for (size_t i = 0; i < self->jobs; i++) {
    workers[i] = start_worker(self, i + 1);
    running += workers[i] > 0;
  }
  if (running == 0) return tool_fail(self->tool, "a process cannot be started");
  while (running > 0) {
    int status = 0;
    const pid_t ended = wait(&status);
    size_t i = 0;
    while (i < self->jobs && workers[i] != ended) i++;
    if (ended < 0 || i == self->jobs) continue;
    running--;
    const bool is_fatal = blame(self->board, i + 1, status);
    const bool goes_on = is_fatal || (WIFEXITED(status) && WEXITSTATUS(status) == MORE);
    if (goes_on && atomic_load(&self->board->next) < self->board->count) {
      workers[i] = start_worker(self, i + 1);
      running += workers[i] > 0;
    } else if (!goes_on && status != 0) {
      code = TOOL_FAILED;
      if (WIFSIGNALED(status)) tool_fail(self->tool, "%s: a process ended: %s", self->board->spec, strsignal(WTERMSIG(status)));
    }
  }
  return code;
}

/* One byte requests a device, and one byte is the answer. */
static void serve(survey *self, int channel) {
  char byte;
  while (read(channel, &byte, 1) == 1) {
    byte = (char)supervise(self);
    if (write(channel, &byte, 1) != 1) return;
  }
}

static int begin(survey *self) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return tool_fail(self->tool, "a process cannot be started");
  self->process = fork();
  if (self->process == 0) {
    end_with_parent();
    close(ends[0]);
    serve(self, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  self->channel = ends[0];
  return self->process > 0 ? TOOL_GO : tool_fail(self->tool, "a process cannot be started");
}

static void say_progress(const board *all) {
  const size_t next = atomic_load(&all->next);
  if (next == 0 || next > all->count) return;
  progress_say("kernel %zu of %zu: %s on %s", next, all->count, all->slots[next - 1].entry.text, all->spec);
}

static int run(survey *self) {
  struct pollfd answer = {.fd = self->channel, .events = POLLIN};
  char code = 0;
  bool is_there = write(self->channel, &code, 1) == 1;
  while (is_there && poll(&answer, 1, ASK_AGAIN) <= 0) say_progress(self->board);
  is_there = is_there && read(self->channel, &code, 1) == 1;
  if (!is_there) return tool_fail(self->tool, "the process that tests kernels has ended");
  if (code != TOOL_DONE) failure_keep("a process that tests kernels has failed"); /* which has printed why */
  return code == TOOL_DONE ? TOOL_GO : code;
}

static void end(const survey *self) {
  if (self->process == 0) return;
  close(self->channel);
  if (self->process > 0) waitpid(self->process, NULL, 0);
}

static size_t count_cores(void) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores < 1 ? 1 : cores > USUAL_JOBS ? USUAL_JOBS : (size_t)cores;
}

#endif

/* ---- for the command ---- */

int survey_begin(tool_state *tool, const survey_wish *wish, survey **made) {
  const int code = check_operators(tool, wish->operators);
  if (code != TOOL_GO) return code;
  survey *self = calloc(1, sizeof *self);
  *made = self;
  if (self == NULL) return tool_fail(tool, "out of memory");
  const size_t count = list_kernels(wish->operators, NULL);
  self->tool = tool;
  self->jobs = wish->jobs > 0 ? wish->jobs : count_cores();
  self->bytes = sizeof *self->board + count * sizeof *self->board->slots;
  if (!share(self)) return tool_fail(tool, "out of memory");
  self->board->count = list_kernels(wish->operators, self->board->slots);
  return begin(self);
}

int survey_run(survey *self, const char *spec) {
  board *all = self->board;
  snprintf(all->spec, sizeof all->spec, "%s", spec);
  atomic_store(&all->next, 0);
  for (size_t i = 0; i < all->count; i++) {
    all->slots[i].entry.found = (kernel_finding){.outcome = KERNEL_UNKNOWN, .reason = "not tried"};
  }
  return run(self);
}

size_t survey_count(const survey *self) {
  return self->board->count;
}

const survey_entry *survey_get(const survey *self, size_t index) {
  return &self->board->slots[index].entry;
}

void survey_end(survey *self) {
  if (self == NULL) return;
  end(self);
  unshare(self);
  free(self);
}
