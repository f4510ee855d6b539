#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/tool.h"

enum { DELAY = 2 };

/* The process's only progress line. A thread writes it, so that it is updated while ORT works. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  pthread_t thread;
  clockid_t clock; /* monotonic, if condition variables support that */
  struct timespec begun;
  char command[32];
  char text[256];
  bool running;
  bool ending;
  bool shown;
} line = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void print_line(void) {
  struct timespec now;
  clock_gettime(line.clock, &now);
  /* Cut, so that it stays one line of a terminal of 80 columns. */
  fprintf(stderr, "\r\033[Kiobind: %s: %.52s (%ld s)", line.command, line.text, (long)(now.tv_sec - line.begun.tv_sec));
  fflush(stderr);
  line.shown = true;
}

static void *keep_line(void *unused) {
  pthread_mutex_lock(&line.mutex);
  struct timespec next = line.begun;
  next.tv_sec += DELAY;
  while (!line.ending) {
    if (pthread_cond_timedwait(&line.wake, &line.mutex, &next) == 0) continue;
    if (line.ending) break;
    if (line.text[0] != 0) print_line();
    next.tv_sec++;
  }
  pthread_mutex_unlock(&line.mutex);
  return unused;
}

void progress_begin(const tool_state *tool) {
  /* with -v log lines show progress, and this line would break them up */
  if (line.running || tool->verbosity > 0 || !isatty(STDERR_FILENO)) return;
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return;
  line.clock = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  pthread_cond_init(&line.wake, &attributes);
  pthread_condattr_destroy(&attributes);
  snprintf(line.command, sizeof line.command, "%s", tool->usage->command);
  clock_gettime(line.clock, &line.begun);
  line.text[0] = 0;
  line.ending = line.shown = false;
  line.running = pthread_create(&line.thread, NULL, keep_line, NULL) == 0;
  if (!line.running) pthread_cond_destroy(&line.wake);
}

void progress_say(const char *format, ...) {
  if (!line.running) return;
  pthread_mutex_lock(&line.mutex);
  va_list values;
  va_start(values, format);
  vsnprintf(line.text, sizeof line.text, format, values);
  va_end(values);
  fault_make_line(line.text);
  pthread_mutex_unlock(&line.mutex);
}

void progress_end(void) {
  if (!line.running) return;
  pthread_mutex_lock(&line.mutex);
  line.ending = true;
  pthread_cond_signal(&line.wake);
  pthread_mutex_unlock(&line.mutex);
  pthread_join(line.thread, NULL);
  pthread_cond_destroy(&line.wake);
  if (line.shown) {
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
  }
  line.running = false;
}
