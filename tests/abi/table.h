/* What public.py's table of functions is made of. */
#ifndef ABI_TABLE_H
#define ABI_TABLE_H

#include <stddef.h>

typedef void (*function)(void);
typedef struct entry {
  const char *name;
  function address;
} entry;

extern const entry abi_functions[]; /* up to a NULL name */

#endif
