/* vcuda/work.h over host memory, for tests of computations: work runs at once, and each access is checked. */
#ifndef TEST_VCUDA_HOST_H
#define TEST_VCUDA_HOST_H

#include <stddef.h>

/* Device memory: exactly these bytes, set to 0xA5; freed by host_reset. */
void *host_memory(size_t bytes);
void *host_copy(const void *data, size_t bytes);

/* The error of work since the last host_reset; 0: none; 700: access outside of the memory. */
int host_error(void);
const char *host_message(void);
void host_forget_error(void);
void host_set_device(int device); /* set the current device; host_reset sets 0 */
int host_logs(void);              /* number of logged lines */

/* A cmocka teardown: frees the memory and clears the error. */
int host_reset(void **state);

#endif
