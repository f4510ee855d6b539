/** @file needed.h
 *  The libraries that a library needs, read from its file without loading it. */
#ifndef IOBIND_TOOL_NEEDED_H
#define IOBIND_TOOL_NEEDED_H

/** The names in the file's order, as a list that ends in NULL; needed_free frees it. ELF and PE of 64 bits are read.
 *  @return NULL: the file cannot be read, is damaged or of neither kind, or there is no memory */
char **needed_read(const char *path);

void needed_free(char **names);

#endif
