/* Threads of several processes that sleep until something in memory that they share has changed. */
#ifndef VCUDA_CHANGES_H
#define VCUDA_CHANGES_H

#include <stdatomic.h>

/* How often something changed: the kernel compares 32 bits. Read it, look at what it counts the changes of, and sleep if that is not there. */
typedef atomic_uint vcuda_changes;

void vcuda_changes_sleep(vcuda_changes *changes, unsigned seen); /* returns at once if there was a change since */
void vcuda_changes_wake(vcuda_changes *changes);                 /* counts one, and wakes all */

#endif
