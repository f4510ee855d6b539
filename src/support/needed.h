/* Which libraries a library needs, read from its file without loading it: ELF and PE, 64 bits. */
#ifndef IOBIND_SUPPORT_NEEDED_H
#define IOBIND_SUPPORT_NEEDED_H

#include <stdbool.h>

/* The names, in the file's order; NULL ends the list, iobind__needed_free frees it. The list is NULL if the file cannot be read or is of
 * neither kind. False: out of memory. */
bool iobind__needed_list(const char *path, char ***names);
void iobind__needed_free(char **names);

#endif
