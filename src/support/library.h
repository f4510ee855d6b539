/* Dynamic libraries. None is ever closed: what they started (threads, drivers) does not survive it. */
#ifndef IOBIND_SUPPORT_LIBRARY_H
#define IOBIND_SUPPORT_LIBRARY_H

#include <stdbool.h>

#include "support/text.h"

/* Open by path or by the loader's rules. NULL on failure, with the loader's reason in `reason`. */
void *iobind__library_open(const char *name, iobind__text *reason);

/* A library that the process has loaded already, by its loader name; NULL where it has not. */
void *iobind__library_loaded(const char *name);

/* Address of an exported function; NULL where it is not there. */
void *iobind__library_symbol(void *library, const char *name);

/* The file that holds an address, resolved; the caller frees it. NULL where it cannot be told. */
char *iobind__library_of(const void *address);

/* The folder that holds libiobind (or the program it is linked into); the caller frees it. */
char *iobind__library_own_folder(void);

/* A path without links and dots; the caller frees it. NULL where there is no such file. */
char *iobind__file_resolve(const char *path);

bool iobind__file_exists(const char *path); /* a regular file */
bool iobind__path_exists(const char *path); /* anything */
bool iobind__folder_exists(const char *path);

#endif
