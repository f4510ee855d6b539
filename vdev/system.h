/* What systems do each in their own way: pages of memory, time, files. */
#ifndef VDEV_SYSTEM_H
#define VDEV_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

size_t vdev_page_size(void);

/* A range of addresses, which takes no memory yet. A closed one can never be read or written. NULL: the system has no range
 * of that size left. */
void *vdev_pages_reserve(size_t bytes, bool closed);
void vdev_pages_release(void *start, size_t bytes);

/* Bytes of an open range are going to be read and written. False: out of memory. */
bool vdev_pages_use(void *start, size_t bytes);

/* Memory that processes share: a file of memory by its descriptor, on Windows a file mapping by its HANDLE. */
bool vdev_shared_by_handle(void); /* or by descriptor */

/* Its size, on Windows rounded up to whole pages; false, with errno: it is not shared memory. */
bool vdev_shared_size(const void *handle, size_t *bytes);

/* What a view's offset must be a multiple of: of pages, on Windows of its allocation granularity, 16 pages. */
size_t vdev_shared_granularity(void);

/* A view of a part of it, for which the handle need not stay open. NULL, with errno: failed. */
void *vdev_shared_map(const void *handle, size_t offset, size_t bytes);
void vdev_shared_unmap(void *view, size_t bytes);

/* New pages, the same at two addresses. False, with errno: failed. */
bool vdev_pages_twice(size_t bytes, void *views[2]);
void vdev_pages_untwice(size_t bytes, void *const views[2]);

typedef enum vdev_page_access { VDEV_PAGE_CLOSED, VDEV_PAGE_READABLE, VDEV_PAGE_WRITABLE } vdev_page_access;

/* What the host may do with whole pages of one view. */
void vdev_pages_protect(void *start, size_t bytes, vdev_page_access access);

/* `bytes` is a multiple of the alignment, a power of 2. NULL: out of memory. */
void *vdev_aligned_allocate(size_t alignment, size_t bytes);
void vdev_aligned_free(void *memory);

/* A clock that never goes back, in nanoseconds. */
int64_t vdev_system_time(void);

/* strtod with a decimal point, independent of the program's locale. */
double vdev_decimal(const char *text, char **end);

/* A new file, also if there is one of this name: others may write into the directory too, and a link that they put there must not be
 * followed. Paths are UTF-8. NULL, with errno: failed. */
FILE *vdev_file_create(const char *path);

/* Write a file, new or not, from its start; the same. */
FILE *vdev_file_rewrite(const char *path);

/* Can the file be written? If there is none, an empty one is created. */
bool vdev_file_is_writable(const char *path);

#endif
