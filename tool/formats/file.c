#define _POSIX_C_SOURCE 200809L /* mkstemp, fchmod, sigaction */

#include "formats/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 8 << 20 };

int file_open(const char *path, uint64_t *size, tool_fault *fault) {
  /* Opening a FIFO without a writer must not block. */
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    fault_set(fault, "%s: cannot be opened: %s", path, strerror(errno));
    return -1;
  }
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    fault_set(fault, "%s: cannot be read: %s", path, strerror(errno));
  } else if (S_ISDIR(status.st_mode)) {
    fault_set(fault, "%s: expected a file, got a directory", path);
  } else if (!S_ISREG(status.st_mode)) {
    fault_set(fault, "%s: is not a regular file; save the data to a file first", path);
  } else {
    *size = (uint64_t)status.st_size;
    return descriptor;
  }
  close(descriptor);
  return -1;
}

bool file_read(int descriptor, const char *path, void *data, size_t bytes, tool_fault *fault) {
  unsigned char *target = data;
  size_t done = 0;
  while (done < bytes) {
    size_t wanted = bytes - done < CHUNK ? bytes - done : CHUNK;
    ssize_t got = read(descriptor, target + done, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fault_set(fault, "%s: cannot be read: %s", path, strerror(errno));
    if (got == 0) return fault_set(fault, "%s: ends %zu bytes too early", path, bytes - done);
    done += (size_t)got;
  }
  return true;
}

/* While a temporary file exists, a signal that would end the process is deferred: it is raised again when the file is removed.
 * A second one ends the process at once. */
static volatile sig_atomic_t caught;

static void catch (int number) {
  if (caught != 0) {
    signal(number, SIG_DFL);
    raise(number);
  }
  caught = number;
}

/* The signals that end a process by default, except those for a defect of the program. */
static const int signals[] = {
    SIGHUP,  SIGINT,  SIGTERM,
#ifndef _WIN32
    SIGQUIT, SIGPIPE, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF,
#endif
};
enum { SIGNAL_COUNT = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNAL_COUNT]; /* the signals that the outermost hold has changed */
static int holders;

void file_hold_signals(void) {
  struct sigaction action = {.sa_handler = catch};
  sigemptyset(&action.sa_mask);
  if (holders++ > 0) return;
  caught = 0;
  for (size_t i = 0; i < SIGNAL_COUNT; i++) {
    sigaction(signals[i], &action, &before[i]);
    if (before[i].sa_handler == SIG_IGN) sigaction(signals[i], &before[i], NULL);
  }
}

void file_release_signals(void) {
  if (--holders > 0) return;
  for (size_t i = 0; i < SIGNAL_COUNT; i++) sigaction(signals[i], &before[i], NULL);
  if (caught != 0) raise(caught);
}

bool file_is_stopped(void) {
  return caught != 0;
}

/* Returns 0 or an errno. */
static int put(int descriptor, const void *data, size_t bytes) {
  const unsigned char *source = data;
  for (size_t done = 0; done < bytes;) {
    if (caught != 0) return EINTR;
    size_t wanted = bytes - done < CHUNK ? bytes - done : CHUNK;
    ssize_t written = write(descriptor, source + done, wanted);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    done += (size_t)written;
  }
  return 0;
}

const char *file_name(const char *path) {
  const char *name = path;
  for (const char *c = path; (c = strpbrk(c, FILE_SEPARATORS)) != NULL;) name = ++c;
  return name;
}

char *file_join(const char *directory, const char *file) {
  size_t length = strlen(directory);
  const char *slash = length > 0 && strchr(FILE_SEPARATORS, directory[length - 1]) != NULL ? "" : "/";
  size_t bytes = length + strlen(file) + 2;
  char *path = malloc(bytes);
  if (path != NULL) snprintf(path, bytes, "%s%s%s", directory, slash, file);
  return path;
}

/* "DIRECTORY/.iobind-XXXXXX": short, so that a long file name still fits, and in the same directory, so that rename is one step. */
static char *name_temporary(const char *path) {
  static const char pattern[] = ".iobind-XXXXXX";
  size_t directory = (size_t)(file_name(path) - path);
  char *name = malloc(directory + sizeof pattern);
  if (name == NULL) return NULL;
  memcpy(name, path, directory);
  memcpy(name + directory, pattern, sizeof pattern);
  return name;
}

static bool fail_write(const char *path, int number, tool_fault *fault) {
  return fault_set(fault, "%s: cannot be written: %s", path, strerror(number));
}

/* An empty file with the permissions that the umask gives. */
static bool make_temporary(const char *path, char *temporary, tool_fault *fault) {
  int descriptor = mkstemp(temporary);
  if (descriptor < 0) return fail_write(path, errno, fault);
  mode_t mask = umask(0);
  umask(mask);
  int failure = fchmod(descriptor, 0666 & ~mask) != 0 ? errno : 0;
  if (close(descriptor) != 0 && failure == 0) failure = errno;
  if (failure == 0) return true;
  unlink(temporary);
  return fail_write(path, failure, fault);
}

static bool replace(const char *path, char *temporary, file_filler *fill, void *context, tool_fault *fault) {
  if (!make_temporary(path, temporary, fault)) return false;
  if (fill(context, temporary, path, fault)) {
    if (rename(temporary, path) == 0) return true;
    fail_write(path, errno, fault);
  }
  unlink(temporary);
  return false;
}

bool file_produce(const char *path, file_filler *fill, void *context, tool_fault *fault) {
  struct stat status;
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
    const char *what = S_ISDIR(status.st_mode) ? "a directory" : "not a regular file";
    return fault_set(fault, "%s: cannot be written: it is %s", path, what);
  }
  char *temporary = name_temporary(path);
  if (temporary == NULL) return fault_set(fault, "%s: cannot be written: out of memory", path);
  file_hold_signals();
  bool produced = replace(path, temporary, fill, context, fault);
  file_release_signals();
  free(temporary);
  return produced;
}

typedef struct part_list {
  const file_part *parts;
  size_t count;
} part_list;

static bool write_parts(void *context, const char *temporary, const char *path, tool_fault *fault) {
  const part_list *list = context;
  int descriptor = open(temporary, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return fail_write(path, errno, fault);
  int failure = 0;
  for (size_t i = 0; failure == 0 && i < list->count; i++) failure = put(descriptor, list->parts[i].data, list->parts[i].bytes);
  if (close(descriptor) != 0 && failure == 0) failure = errno;
  return failure == 0 || fail_write(path, failure, fault);
}

bool file_write(const char *path, const file_part *parts, size_t count, tool_fault *fault) {
  part_list list = {parts, count};
  return file_produce(path, write_parts, &list, fault);
}

static bool is_directory(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool file_make_directory(const char *path, tool_fault *fault) {
  if (path[0] == 0) return fault_set(fault, "'': the directory's name is empty");
  char *part = strdup(path);
  if (part == NULL) return fault_set(fault, "%s: out of memory", path);
  int failure = 0;
  for (char *end = part + 1; failure == 0; end++) {
    if (*end != 0 && strchr(FILE_SEPARATORS, *end) == NULL) continue;
    char kept = *end;
    *end = 0;
    if (!is_directory(part) && mkdir(part, 0777) != 0 && errno != EEXIST) failure = errno;
    *end = kept;
    if (kept == 0) break;
  }
  if (failure == 0 && !is_directory(path)) failure = ENOTDIR;
  free(part);
  if (failure == ENOTDIR) return fault_set(fault, "%s: cannot be a directory: there is a file of that name", path);
  if (failure != 0) return fault_set(fault, "%s: the directory cannot be created: %s", path, strerror(failure));
  return true;
}
