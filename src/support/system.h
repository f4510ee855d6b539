/* What differs between systems: dynamic libraries, files and directories, the environment. Paths and values are UTF-8; returned
 * paths have '/' between their parts. */
#ifndef IOBIND_SUPPORT_SYSTEM_H
#define IOBIND_SUPPORT_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/text.h"

#if defined(_WIN32)
#include <wchar.h>
typedef wchar_t iobind__path_char; /* of a path for the system and ORT */
#define IOBIND__LIBRARY_PREFIX ""
#define IOBIND__LIBRARY_SUFFIX ".dll"
#define IOBIND__PATH_SEPARATOR ';'
#else
typedef char iobind__path_char;
#define IOBIND__LIBRARY_PREFIX "lib"
#define IOBIND__PATH_SEPARATOR ':'
#if defined(__APPLE__)
#define IOBIND__LIBRARY_SUFFIX ".dylib"
#else
#define IOBIND__LIBRARY_SUFFIX ".so"
#endif
#endif

/* ---- dynamic libraries: none is ever closed, because the threads and drivers that they started would crash ---- */

/* Open by path or by the loader's rules. NULL on failure, with the loader's reason in `reason`. */
void *iobind__library_open(const char *name, iobind__text *reason);

/* A library that the process has loaded already, by its loader name or path; NULL if it has not. */
void *iobind__library_loaded(const char *name);

/* Address of an exported function; NULL if there is none. */
void *iobind__library_symbol(void *library, const char *name);

/* An exported function of any library that was loaded with global symbols; NULL if none has it. */
void *iobind__symbol_of_any(const char *name);

/* Tables of functions that a loaded library's variables point to: `least` addresses or more, all of functions of one other
 * library. They show which ORT a plugin was given. Finds at most `most` of them; 0 if the library is not loaded. */
size_t iobind__library_tables(const char *path, size_t least, const void **tables, size_t most);

/* The file that contains an address, resolved; the caller frees it. NULL if it is not known. */
char *iobind__library_of(const void *address);

/* Are two addresses in the same library? */
bool iobind__library_same(const void *a, const void *b);

/* Keep the library that contains this code in the process, even if it is unloaded. */
void iobind__library_stay(void);

/* The directory of libiobind (or of the program that it is linked into); the caller frees it. */
char *iobind__library_own_directory(void);

/* ---- files and directories ---- */

/* A path without links and dots; the caller frees it. NULL if there is no such file. */
char *iobind__file_resolve(const char *path);

/* The path from the root, by the present current directory, with links kept. The caller frees it. NULL: out of memory. */
char *iobind__path_absolute(const char *path);
bool iobind__path_has_directory(const char *path); /* if not, the loader searches for it */

bool iobind__file_exists(const char *path); /* a regular file */
bool iobind__path_exists(const char *path); /* anything */
bool iobind__directory_exists(const char *path);
const char *iobind__path_name(const char *path); /* its last part */

FILE *iobind__file_open(const char *path); /* to read bytes; NULL if it cannot be opened */

/* Properties that change with a file. */
typedef struct iobind__file_stamp {
  uint64_t bytes;
  uint64_t number; /* of the file in its file system; 0: unknown */
  int64_t written; /* nanoseconds since 1970 */
  int64_t
      changed; /* the same, of its bytes or its name, so that replacing it by an older file shows; `written` if that is unknown */
} iobind__file_stamp;
bool iobind__file_stamp_get(const char *path, iobind__file_stamp *stamp); /* false: it cannot be read */

/* A new file to write, which must not exist yet; NULL if it cannot be created. */
FILE *iobind__file_create(const char *path);
bool iobind__file_finish(FILE *file);                        /* write all of it to the disk, and close it */
bool iobind__file_replace(const char *from, const char *to); /* in one step, an existing file too */
void iobind__file_remove(const char *path);

/* The names in a directory, sorted, because no order may depend on the disk; NULL ends the list, iobind__directory_free frees it. The
 * list is NULL if the directory cannot be read. False: out of memory. */
bool iobind__directory_list(const char *directory, char ***names);
void iobind__directory_free(char **names);

/* Of a system that has file descriptors. Negative: it is not open, or the process may open no more. */
int iobind__descriptor_duplicate(int descriptor);
void iobind__descriptor_close(int descriptor);

/* A path for the system's own functions; the caller frees it. NULL: out of memory. */
iobind__path_char *iobind__path_native(const char *path);

/* ---- time ---- */

/* Nanoseconds of a monotonic clock. */
uint64_t iobind__clock_ns(void);

/* Nanoseconds since 1970, as in the stamps of files. */
int64_t iobind__clock_of_day(void);

/* Block the calling thread for about this long, less than a second. */
void iobind__clock_sleep(uint64_t ns);

/* A condition for waits until the monotonic clock shows a time. Returns false at that time, never for UINT64_MAX; true may be a spurious
 * wake-up, as with any condition. */
void iobind__condition_init(pthread_cond_t *condition);
bool iobind__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until);

/* ---- the environment ---- */

/* A copy of a variable, NULL if it is not set; the caller frees it. False: out of memory. In a setuid program none counts as
 * set: the user could have it load any library. */
bool iobind__environment_get(const char *name, char **value);
bool iobind__environment_has(const char *name);

/* Set a variable that is not set. */
void iobind__environment_default(const char *name, const char *value);

#endif
