/* The input coordinate of an output element of Resize, along one dim. */
#ifndef VCUDA_RESIZE_H
#define VCUDA_RESIZE_H

#include <stdint.h>

typedef struct vcuda_resize_axis {
  int64_t in, out;
  float scale, roi_start, roi_end;
} vcuda_resize_axis;

/* `rule` is the name of ORT's functor, which contains the coordinate transformation mode. */
float vcuda_resize_original(const char *rule, const vcuda_resize_axis *axis, float x);

#endif
