/* The allocations that libiobind makes itself, and the threads that it starts, counted and failed on request. The program that links it wraps the functions by the
 * linker, so that those of ORT, which is a library of its own, are not touched. */
#ifndef TESTS_FAKE_ORT_ALLOCATION_H
#define TESTS_FAKE_ORT_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>

const char *allocation_function(size_t index); /* "malloc" and the like; NULL behind the last one */

/* From now on count, and fail the n-th call of one of them (0: none). */
void allocation_watch(const char *function, size_t nth);

/* Count no more. */
void allocation_ignore(void);

size_t allocation_count(const char *function);
bool allocation_has_failed(void);

#endif
