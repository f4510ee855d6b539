/* Test models, made once: a model remains until the program ends, so that no test frees it and many sessions can be created from it. */
#ifndef TESTS_RIG_MODEL_H
#define TESTS_RIG_MODEL_H

#include <stddef.h>

#include "models.h"

/* The bytes of a model by its spec (models.h); NULL, and the reason in `text`, if there is none. For one thread at a time. */
const void *test_model(const char *spec, size_t *bytes, char text[TEST_MODEL_TEXT]);

#endif
