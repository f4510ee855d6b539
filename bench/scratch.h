/* A directory for files that a benchmark writes; it and what is in it are removed at the end of the program. */
#ifndef IOBIND_BENCH_SCRATCH_H
#define IOBIND_BENCH_SCRATCH_H

enum { SCRATCH_PATH_BYTES = 512 };

/* Makes the directory, in $TMPDIR or /tmp, and ends the program where that is not possible. Once in a program. */
void scratch_make(void);

/* The path of the file `name` in it; "" gives the directory itself. */
void scratch_name(char path[SCRATCH_PATH_BYTES], const char *name);

#endif
