#define _GNU_SOURCE /* syscall */

#include "changes.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void vcuda_changes_sleep(vcuda_changes *changes, unsigned seen) {
  (void)syscall(SYS_futex, changes, FUTEX_WAIT, seen, NULL, NULL, 0);
}

void vcuda_changes_wake(vcuda_changes *changes) {
  atomic_fetch_add(changes, 1);
  (void)syscall(SYS_futex, changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
