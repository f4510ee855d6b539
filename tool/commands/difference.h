/** @file difference.h
 *  How far two arrays of the same model's output differ. */
#ifndef IOBIND_TOOL_DIFFERENCE_H
#define IOBIND_TOOL_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/npy.h"

/** An element may differ by absolute + relative * |the reference|; of integers, truth values and texts none may. */
typedef struct difference_limits {
  double absolute;
  double relative;
} difference_limits;

typedef struct difference {
  bool same_shape; /**< type and dims are the same; otherwise nothing else is set */
  bool measured;   /**< numbers: `largest` and `relative` are set, not only `beyond` */
  double absolute; /**< the largest; infinite if only one of two elements is finite */
  double relative; /**< the largest, to the reference; infinite if that is 0 */
  size_t beyond;   /**< elements beyond the limits */
} difference;

/** Compare. NaN equals NaN, and an infinity equals itself.
 *  @param dtype  iobind_dtype of the elements, which the array has in the raw form of tool_tensor_to_npy */
difference difference_of(const npy_array *array, const npy_array *reference, int32_t dtype, const difference_limits *limits);

#endif
