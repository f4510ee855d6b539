/* The part of system.h that is the same on all systems; the rest is in system_posix.c and system_windows.c. */
#include "support/system.h"

#include <stdlib.h>
#include <string.h>

char *iobind__library_own_directory(void) {
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

void iobind__directory_free(char **names) {
  for (char **name = names; name != NULL && *name != NULL; name++) {
    free(*name);
  }
  free(names);
}
