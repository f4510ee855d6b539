/* The functions of POSIX that the tool and the test programs use and that mingw-w64 lacks, or has with another interface.
 * Included before each of their files in a build for Windows, so that the files are the same for all systems. */
#ifndef IOBIND_TOOL_WINDOWS_POSIX_H
#define IOBIND_TOOL_WINDOWS_POSIX_H

#define _POSIX_C_SOURCE 200809L

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define FILE_SEPARATORS "/\\"
#define O_CLOEXEC 0
#define O_NONBLOCK 0

/* Ctrl-Break, and the end of the console; Windows never sends the other two. */
#define SIGHUP SIGBREAK
#define SIGBUS 10
#define SIGXFSZ 25

struct sigaction {
  void (*sa_handler)(int signal);
  int sa_mask;
};

static inline int sigemptyset(int *mask) {
  *mask = 0;
  return 0;
}

int sigaction(int signal, const struct sigaction *action, struct sigaction *before);

enum { _SC_PAGESIZE, _SC_PHYS_PAGES };
long sysconf(int name);

char *strndup(const char *text, size_t length);

/* Makes the directory `name`, whose last six characters are replaced. */
char *mkdtemp(char *name);

/* A file in the temporary directory, which fclose reads into memory and removes. */
FILE *open_memstream(char **text, size_t *length);
int posix_fclose(FILE *stream);
#define fclose posix_fclose

/* Replaces an existing file. */
int posix_rename(const char *from, const char *to);
#define rename posix_rename

/* Libraries by the loader's rules; dlerror describes the last failure. */
#define RTLD_NOW 0
#define RTLD_LOCAL 0
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
char *dlerror(void);

static inline char *realpath(const char *path, char *resolved) {
  return _fullpath(resolved, path, 0);
}

/* True for a console that understands escape sequences; this turns them on. */
int posix_isatty(int descriptor);
#define isatty posix_isatty

static inline mode_t posix_umask(int mask) {
  return (mode_t)_umask(mask);
}
#define umask posix_umask

static inline int fchmod(int descriptor, int mode) {
  (void)descriptor;
  (void)mode;
  return 0;
}

static inline int posix_mkdir(const char *path, int mode) {
  (void)mode;
  return _mkdir(path);
}
#define mkdir posix_mkdir

static inline ssize_t posix_read(int descriptor, void *data, size_t bytes) {
  return _read(descriptor, data, (unsigned)bytes);
}
#define read posix_read

static inline ssize_t posix_write(int descriptor, const void *data, size_t bytes) {
  return _write(descriptor, data, (unsigned)bytes);
}
#define write posix_write

#endif
