/* vcuda/work.h over host memory, for tests of what computes: work runs at once, and each access is checked. */
#ifndef TEST_VCUDA_HOST_H
#define TEST_VCUDA_HOST_H

#include <stddef.h>

/* Device memory: exactly these bytes, set to 0xA5; freed by host_reset. */
void *host_memory(size_t bytes);
void *host_copy(const void *data, size_t bytes);

/* The error of the work since the last host_reset, 0 if there was none; 700 is an access outside. */
int host_error(void);
const char *host_message(void);
void host_forget_error(void);
void host_set_device(int device); /* that is current; host_reset makes it 0 */
int host_logs(void);              /* how many lines were logged */

/* Frees the memory and forgets the error; as a cmocka teardown. */
int host_reset(void **state);

#endif
