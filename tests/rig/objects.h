/* Objects of libiobind as tests need them, and the rules that every error of its calls keeps. */
#ifndef TESTS_RIG_OBJECTS_H
#define TESTS_RIG_OBJECTS_H

#include "iobind/iobind.h"
#include "place.h"

/* Fill an error before a call, and look at it after: NULL where the rules are kept, otherwise what is wrong. Untouched on success; on
 * failure the status that was returned, and a message of one line of UTF-8. */
void test_error_arm(iobind_error *error);
const char *test_error_wrong(const iobind_error *error, iobind_status status);
bool test_is_utf8(const char *text);

/* A session of a test model by its spec, on a device or (NULL) on none, with one thread. A spec that is none is INVALID_ARGUMENT. */
iobind_status test_session(iobind_runtime *runtime, iobind_device *device, const char *model, iobind_session **session,
                           iobind_error *error);

/* A tensor of float32 with one dim, on a device; `values` NULL: not written. */
iobind_status test_floats(iobind_device *device, const float *values, size_t count, iobind_tensor **tensor,
                          iobind_error *error);

#endif
