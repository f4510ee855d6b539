/* Where a test finds what it needs, and whether it may go without it. */
#ifndef TESTS_RIG_PLACE_H
#define TESTS_RIG_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "ort.h"

/* A path below the build tree that the program lies in, such as "lib/libiobind_vdev.so". False: it does not fit. */
bool test_path(const char *below, char *path, size_t size);

/* Does IOBIND_REQUIRE, a list such as "cpu,webgpu", name the device of a spec such as "webgpu:0"? Then a test fails without it. */
bool test_requires(const char *spec);

/* ORT without libiobind: the project's, or the one whose folder ORT_NATIVE_LIB_PATH names. NULL, and why in `text`, without it. */
enum { TEST_WHY = 1024 };
const OrtApiBase *test_ort(char text[TEST_WHY]);

#endif
