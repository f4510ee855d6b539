/* Semaphores of several processes: a value that only grows, in a file of memory that each of them maps. */
#ifndef VDEV_SEMAPHORE_H
#define VDEV_SEMAPHORE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct vdev_semaphore vdev_semaphore; /* this process's view of one; counted */

bool vdev_semaphore_is_supported(void); /* on this system */

/* All without the lock, and with a `reason` (VDEV_TEXT bytes) where they can fail. NULL: the file is not a semaphore. */
vdev_semaphore *vdev_semaphore_open(int file, char *reason);
vdev_semaphore *vdev_semaphore_retain(vdev_semaphore *semaphore);
void vdev_semaphore_release(vdev_semaphore *semaphore);

/* Raise it to `value`. False: it is there already, or beyond. */
bool vdev_semaphore_raise(vdev_semaphore *semaphore, uint64_t value, char *reason);

/* Wait until it is `value` or more; -1: forever. False: timed out. */
bool vdev_semaphore_await(const vdev_semaphore *semaphore, uint64_t value, int64_t timeout_ns);

#endif
