/* Allocations that fail, for programs that are linked with --wrap=malloc and --wrap=calloc. */
#ifndef TESTS_VCUDA_ALLOCATION_H
#define TESTS_VCUDA_ALLOCATION_H

#include <stddef.h>

/* The n-th allocation from now on fails; 0: none. */
extern int until_failure;

#endif
