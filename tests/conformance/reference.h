/** @file reference.h
 *  What the test models compute, in plain C: the results that runs are compared with. */
#ifndef TESTS_CONFORMANCE_REFERENCE_H
#define TESTS_CONFORMANCE_REFERENCE_H

#include "value.h"

enum { REFERENCE_MAX_VALUES = 4 };

/** Compute the outputs of a model.
 *  @param spec     as tests/models/models.h has it
 *  @param inputs   in the model's order; type and mirror are read
 *  @param outputs  receives up to REFERENCE_MAX_VALUES values with mirrors of their own, without a memory location; the caller
 *                  releases them
 *  @return the number of outputs; 0 where the model has no reference or memory is exhausted */
size_t reference_run(const char *spec, const value *inputs, value *outputs);

#endif
