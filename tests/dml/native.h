/* Direct3D for the tests: the system's, or (where there is none) the mocks of stand_in.c. */
#ifndef TESTS_DML_NATIVE_H
#define TESTS_DML_NATIVE_H

#include <stdbool.h>

#include "d3d12/com.h"
#include "iobind/interop.h"

/* Options that find ORT with DirectML's EP. */
void native_options(iobind_runtime_options *options);

/* The device of the adapter; NULL and the reason in `why`: there is none. It is never released. */
d3d12_device *native_device(char why[256]);

/* Another device, that of no adapter; NULL: the system has only one. */
d3d12_device *native_other_device(void);

/* DirectML's device, of a Direct3D device, for the caller to release; NULL: iobind makes it. */
dml_device *native_dml(d3d12_device *device);

/* Do queues run by themselves, so that they can be held back by a fence? */
bool native_is_queued(void);

d3d12_queue *native_queue(d3d12_device *device, int32_t type);
d3d12_fence *native_fence(d3d12_device *device);
void native_signal(d3d12_fence *fence, uint64_t value); /* by the host */

/* The same, while another thread of the host waits, and not before. The fence lives until then. */
void native_signal_later(d3d12_fence *fence, uint64_t value);

d3d12_resource *native_buffer(d3d12_device *device, int32_t heap, int32_t flags, uint64_t bytes);
d3d12_resource *native_texture(d3d12_device *device);
unsigned native_references(void *object);
void native_release(void *object);

#endif
