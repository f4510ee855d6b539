/* The objects of libiobind that most tests need, and the rules for errors that all its calls must keep. */
#ifndef TESTS_RIG_OBJECTS_H
#define TESTS_RIG_OBJECTS_H

#include "iobind/iobind.h"
#include "place.h"

/* Fill an error before a call, and check it afterwards: NULL, or the rule that is broken. On success the error must be untouched; on
 * failure it must have the status that was returned, and a message of one line of UTF-8. */
void test_error_arm(iobind_error *error);
const char *test_error_wrong(const iobind_error *error, iobind_status status);
bool test_is_utf8(const char *text);

/* Does the message of a public function begin with a function's name, and have that only once? */
bool test_is_named(const char *message);

/* A runtime with IOBIND_RUNTIME_* flags, and the device of a spec (NULL: none is looked for). If the device does not work, there is no
 * runtime either. */
iobind_status test_runtime(uint32_t flags, const char *spec, iobind_runtime **runtime, iobind_device **device,
                           iobind_error *error);

/* A session of a test model by its spec, with one thread: on a device or (NULL) without one, or with options. INVALID_ARGUMENT if the
 * spec is wrong. */
iobind_status test_session(iobind_runtime *runtime, iobind_device *device, const char *model, iobind_session **session,
                           iobind_error *error);
iobind_status test_session_with(iobind_runtime *runtime, const char *model, const iobind_session_options *wanted,
                                iobind_session **session, iobind_error *error);

/* A tensor of float32 with one dim, on a device; `values` NULL: not written. */
iobind_status test_floats(iobind_device *device, const float *values, size_t count, iobind_tensor **tensor,
                          iobind_error *error);

/* Does a tensor hold exactly these float32? NULL, or `text` with what it holds instead. */
const char *test_floats_wrong(const iobind_tensor *tensor, const float *values, size_t count, char text[TEST_WHY]);

#endif
