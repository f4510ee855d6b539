/* Threads of several processes sleep until something in their shared memory changes. */
#ifndef VCUDA_CHANGES_H
#define VCUDA_CHANGES_H

#include <stdatomic.h>

/* The number of changes; 32 bits, as a futex needs. Read it, check the condition, and sleep if the condition is false. */
typedef atomic_uint vcuda_changes;

void vcuda_changes_sleep(vcuda_changes *changes, unsigned seen); /* returns at once if the number is not `seen` */
void vcuda_changes_wake(vcuda_changes *changes);                 /* counts a change and wakes all threads */

#endif
