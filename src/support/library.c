#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "support/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *iobind__library_open(const char *name, iobind__text *reason) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *text = dlerror();
    iobind__text_add(reason, "%s", text == NULL ? "unknown reason" : text);
  }
  return library;
}

void *iobind__library_loaded(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

void *iobind__library_symbol(void *library, const char *name) {
  return dlsym(library, name);
}

char *iobind__library_of(const void *address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
    return NULL;
  }
  return realpath(info.dli_fname, NULL);
}

char *iobind__library_own_folder(void) {
  static const char here = 0; /* an object of this library, found by its address */
  char *path = iobind__library_of(&here);
  char *slash = path == NULL ? NULL : strrchr(path, '/');
  if (slash == NULL) {
    free(path);
    return NULL;
  }
  *slash = '\0';
  return path;
}

bool iobind__file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool iobind__folder_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *iobind__file_resolve(const char *path) {
  return realpath(path, NULL);
}

bool iobind__path_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}
