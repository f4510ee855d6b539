/** @file everything.h
 *  One model with all that the writer can express: the checker reads it back, and the writer's own tests fail it. */
#ifndef TESTS_MODELS_EVERYTHING_H
#define TESTS_MODELS_EVERYTHING_H

#include "onnx.h"

/** Write the model; returns the status of the last call. */
onnx_status everything_write(onnx_writer *writer);

#endif
