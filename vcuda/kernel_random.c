/* Uniform and normal random numbers. They depend only on seed and offset, and have the right distribution, but differ from those of
 * hardware. */
#include "kernel.h"

#include <math.h>

/* The output function of splitmix64: each bit of the result depends on all bits of the number. */
static uint64_t mix(uint64_t bits) {
  bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
  return bits ^ bits >> 31;
}

/* In [0, 1), with the precision of a float. */
static double draw(const uint64_t seeds[2], uint64_t index) {
  uint64_t bits = mix(mix(mix(seeds[0]) + seeds[1]) + index * UINT64_C(0x9E3779B97F4A7C15));
  return (double)(bits >> 40) * 0x1p-24;
}

/* A normal number from two uniform ones (Box-Muller). */
static double draw_normal(const uint64_t seeds[2], uint64_t index) {
  static const double turn = 6.283185307179586;
  return sqrt(-2 * log(1 - draw(seeds, 2 * index))) * cos(turn * draw(seeds, 2 * index + 1));
}

/* <T, distribution, transformation>(N, seed and offset, distribution, transformation, factor, summand, out) */
static void run_random(const vcuda_launch *launch) {
  bool normal = vcuda_names(launch->kernel, 1, "DistFunc_RandomNormal");
  vcuda_type type = vcuda_type_of(launch, 6);
  int64_t count = vcuda_integer(launch, 0);
  const uint64_t *seeds = vcuda_argument(launch, 1);
  double factor = vcuda_real(launch, 4), summand = vcuda_real(launch, 5);
  void *out = vcuda_output(launch, 6, count);
  for (int64_t i = 0; out != NULL && i < count; i++) {
    double value = normal ? draw_normal(seeds, (uint64_t)i) : draw(seeds, (uint64_t)i);
    vcuda_store_real(type, out, i, value * factor + summand);
  }
}

const vcuda_form vcuda_random_forms[] = {
    {"RandomKernel", "noppvvp", run_random, NULL},
    {"RandomVectorizedKernel", "noppvvp", run_random, NULL},
    {.name = NULL},
};
