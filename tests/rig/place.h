/* Where tests find ORT, files of the build, and what they must not skip. */
#ifndef TESTS_RIG_PLACE_H
#define TESTS_RIG_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "ort.h"

/* A path below the build tree that the program lies in, such as "lib/libiobind_vdev.so". False: the path does not fit. */
bool test_path(const char *below, char *path, size_t size);

/* Does IOBIND_REQUIRE, a list such as "cpu,webgpu", name the device of a spec such as "webgpu:0"? Then a test fails without it. */
bool test_requires(const char *spec);

/* ORT without libiobind: the project's, or the one in the directory of ORT_NATIVE_LIB_PATH. NULL, and the reason in `text`, if there is none. */
enum { TEST_WHY = 1024 };
const OrtApiBase *test_ort(char text[TEST_WHY]);

#endif
