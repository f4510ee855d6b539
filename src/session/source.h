/* The model that a session is loaded from. */
#ifndef IOBIND_SESSION_SOURCE_H
#define IOBIND_SESSION_SOURCE_H

#include "support/system.h"

typedef struct iobind__source {
  const char *path; /* NULL: from memory */
  iobind__path_char *native;
  const void *model;
  size_t bytes;
} iobind__source;

#endif
