/** @file element.h
 *  Element types by name, and single elements as numbers: what test models and the tests' reference results compute with. */
#ifndef TESTS_MODELS_ELEMENT_H
#define TESTS_MODELS_ELEMENT_H

#include <stddef.h>
#include <stdint.h>

/** ONNX's number of an element type by its name, such as "float32"; 0 where there is none of that name. */
int32_t element_find(const char *name);

/** The name of an element type; NULL for a number that is none. */
const char *element_name(int32_t dtype);

/** Bits of an element; 0 for strings and for a number that is no element type. */
unsigned element_bits(int32_t dtype);

/** Whether elements of that type are numbers that element_get and element_set know: integers, packed ones too, bool, and floats
 *  of 16 bits and more. */
int element_is_number(int32_t dtype);

/** Read element `index` of an array. */
double element_get(int32_t dtype, const void *data, size_t index);

/** Write element `index` of an array; the value must be one that the type can hold exactly. */
void element_set(int32_t dtype, void *data, size_t index, double value);

#endif
