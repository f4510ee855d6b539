/** @file half.h
 *  16-bit floats of IEEE 754, as bits. */
#ifndef IOBIND_TOOL_HALF_H
#define IOBIND_TOOL_HALF_H

#include <stdint.h>

/** Exact: float32 can represent every half. */
float half_read(uint16_t bits);

/** The nearest half; of two equally near ones the even one. Infinite if the number is too large. */
uint16_t half_write(float value);

#endif
