/* How a virtual device is made to fail: vdev's settings, and vcuda's, if its libraries are loaded. */
#ifndef FUZZ_BINDING_FAULTS_H
#define FUZZ_BINDING_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* CUDA's EP runs on vcuda. */
bool vcuda_is_here(void);

/* A setting of the current world's device. False: there is none of that name, or value. */
bool device_set(const char *name, const char *value);

/* The sum of the counters of vcuda's device, whose names end with NULL. */
int64_t vcuda_sum(const char *const *names);

/* Wait for vcuda's device and take its error back, which no GPU does; 0: it has not failed. */
int vcuda_take_error(void);

#endif
