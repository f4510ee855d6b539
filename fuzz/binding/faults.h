/* Faults of virtual devices: settings of vdev, and of vcuda if its libraries are loaded. */
#ifndef FUZZ_BINDING_FAULTS_H
#define FUZZ_BINDING_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Does CUDA's EP run on vcuda? */
bool vcuda_is_here(void);

/* Change a setting of the current world's device. False: invalid name or value. */
bool device_set(const char *name, const char *value);

/* The sum of counters of vcuda's device. The list of names ends with NULL. */
int64_t vcuda_sum(const char *const *names);

/* Wait for vcuda's device, clear its error, which hardware cannot do, and return it; 0: it has not failed. */
int vcuda_take_error(void);

#endif
