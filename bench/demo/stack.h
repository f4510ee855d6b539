/* Two SVG pictures, one below the other. */
#ifndef IOBIND_BENCH_DEMO_STACK_H
#define IOBIND_BENCH_DEMO_STACK_H

#include <stdbool.h>

/* Write a text as a file. */
bool stack_save(const char *path, const char *text);

/* Read a picture, for free(). NULL: the file cannot be read, or is no SVG. */
char *stack_load(const char *path);

/* Write a picture that has `above` and, below it, `below`. Both are as plot_write writes them: an <svg> element with a width and a
 * height in its first line. */
bool stack_pictures(const char *path, const char *above, const char *below);

#endif
