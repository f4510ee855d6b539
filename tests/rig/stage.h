/* The stage of most tests with cmocka: a runtime with the software devices, the processor, and the device of the running test. */
#ifndef TESTS_RIG_STAGE_H
#define TESTS_RIG_STAGE_H

#include "fixture.h"

extern iobind_runtime *runtime;
extern iobind_device *cpu;
extern iobind_device *device;
extern const char *device_spec; /* of the running test, such as "vdev"; NULL: the test looks for a device itself */

/* Set-up and teardown of a test or a group. The state of a test is the spec of its device. */
int stage_open(void **state);
int stage_close(void **state);

/* The set-up over an ORT of the test's own, an OrtApiBase. */
int stage_open_over(void **state, const void *ort_api_base);

/* Does the test run on this device? */
bool is_device(const char *spec);

/* A session without a device, whose only input and output have these names: output = -input, four float32. */
iobind_session *stage_named_session(const char *input, const char *output);

/* A binding of the model "voices width=2": one row, whose inputs are zeros on the device. The state STAGE_VOICES_COUNT goes up by 1 in each
 * run; the index of a state is that of its input and of its output. */
enum { STAGE_VOICES_B = 3, STAGE_VOICES_COUNT = 4 };
iobind_binding *stage_bind_voices(iobind_session *session);

#endif
