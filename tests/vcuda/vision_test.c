/* Kernels for vision and sequences by their mangled names: behaviour without a counterpart in the CPU EP, such as refusals, and
 * kernels that are launched beside cuDNN or by CUB. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel.h"
#include "launches.h"

#define NMS(name) ORT("60_GLOBAL__N__912966a6_27_non_max_suppression_impl_cu_3cb9a5f4" name)

/* The launch's work fails with this error, and a message with these words. */
static void expect_failure(const char *name, void **arguments, int error, const char *words) {
  const vcuda_kernel *kernel = vcuda_kernel_find(name);
  if (kernel == NULL) fail_msg("%s: not found", name);
  assert_int_equal(vcuda_kernel_launch(kernel, LIST(unsigned, 1, 1, 1), LIST(unsigned, 256, 1, 1), 0, NULL, arguments), 0);
  assert_int_equal(host_error(), error);
  if (strstr(host_message(), words) == NULL) fail_msg("expected '%s', got '%s'", words, host_message());
}

static const char greatest[] = ORT("22MaxPoolWithIndexKernelIfLb0EEEvllllllllllllllllllllNS0_6DivModIiEES3_S3_S3_lPKT_lPS4_Pl");
static const char greatest_last[] =
    ORT("22MaxPoolWithIndexKernelIfLb1EEEvllllllllllllllllllllNS0_6DivModIiEES3_S3_S3_lPKT_lPS4_Pl");

/* One image of `channels`, 2 by 3, in windows of 2 by 2 */
#define POOL(channels, order, in, count, out, indices)                                                                     \
  L(1), L(channels), L(2), L(3), L(1), L(1), L(2), L(1), L(2), L(2), L(1), L(1), L(1), L(1), L(0), L(0), L(0), L(1), L(1), \
      L(1), D(channels), D(1), D(2), D(1), L(order), in, L(count), out, indices

static void pools(void **state) {
  (void)state;
  float *in = TENSOR(float, 1, 5, 2, 3, 4, 6), *out = host_memory(8);
  int64_t *indices = host_memory(16), *none = NULL;
  LAUNCH(greatest, POOL(1, 0, &in, 2, &out, &indices));
  EXPECT(out, float, 5, 6);
  EXPECT(indices, int64_t, 1, 5);
  LAUNCH(greatest, POOL(1, 1, &in, 2, &out, &indices)); /* the height innermost */
  EXPECT(indices, int64_t, 2, 5);
  LAUNCH(greatest, POOL(1, 0, &in, 2, &out, &none));
  EXPECT(out, float, 5, 6);
  /* of equal elements the one in the first column counts, and within a column the upper one */
  float *ties = TENSOR(float, 0, 7, 0, 7, 7, 0);
  LAUNCH(greatest, POOL(1, 0, &ties, 2, &out, &indices));
  EXPECT(indices, int64_t, 3, 1);
  uint8_t *bytes = TENSOR(uint8_t, 1, 7, 2, 7, 7, 1), *most = host_memory(2);
  LAUNCH(ORT("22MaxPoolWithIndexKernelIhLb0EEEvllllllllllllllllllllNS0_6DivModIiEES3_S3_S3_lPKT_lPS4_Pl"),
         POOL(1, 0, &bytes, 2, &most, &indices));
  EXPECT(most, uint8_t, 7, 7);
  EXPECT(indices, int64_t, 3, 1);
  /* channels last: the indices are those of the order with channels first */
  float *two = TENSOR(float, 1, -1, 5, -5, 2, -2, 3, -3, 4, -4, 6, -6), *both = host_memory(16);
  int64_t *four = host_memory(32);
  LAUNCH(greatest_last, POOL(2, 0, &two, 4, &both, &four));
  EXPECT(both, float, 5, -1, 6, -2);
  EXPECT(four, int64_t, 1, 5, 6, 8);
}

static void pools_without_a_greatest(void **state) {
  (void)state;
  float *in = TENSOR(float, NAN, 5, 2, 3, 4, 6), *out = host_memory(8);
  int64_t *indices = host_memory(16);
  expect_failure(greatest, (void *[]){POOL(1, 0, &in, 2, &out, &indices)}, 700, "output element 0");
}

static void means(void **state) {
  (void)state;
  /* windows of 3 in a line of 3, with padding of 1 before and 2 after, which counts or not */
  static const char mean[] = ORT("24AveragePoolWithPadKernelIfLb0EEEvllllllllllllllllllllllNS0_6DivModIiEES3_S3_S3_bPKT_lPS4_");
  float *in = TENSOR(float, 2, 4, 9), *out = host_memory(16);
#define MEAN(pads)                                                                                                         \
  LAUNCH(mean, L(1), L(3), L(1), L(1), L(4), L(1), L(1), L(3), L(1), L(1), L(1), L(1), L(1), L(1), L(0), L(0), L(2), L(0), \
         L(0), L(1), L(1), L(1), D(1), D(4), D(1), D(1), pads, &in, L(4), &out)
  MEAN(FALSE);
  EXPECT(out, float, 3, 5, 6.5F, 9);
  MEAN(TRUE);
  EXPECT_NEAR(out, 2, 5, 13 / 3.0, 3);
}

static void sequences(void **state) {
  (void)state;
  /* two sequences of up to 3 steps, of 2 and 3 */
  float *in = TENSOR(float, 1, 2, 3, 4, 5, 6), *out = host_memory(24);
  int32_t *lengths = TENSOR(int32_t, 2, 3), *rows = TENSOR(int32_t, 1);
  static const char reverse[] = ORT("24_ReverseBySequenceKernelIfEEviPKiiNS0_6DivModIiEES5_PKT_PS6_i");
  LAUNCH(reverse, N(3), &lengths, N(2), D(2), D(1), &in, &out, N(6));
  EXPECT(out, float, 3, 6, 1, 4, 0, 2);
  /* a step, two sequences, two directions, one number each */
  LAUNCH(ORT("24_BidirectionalDataKernelIfEEviiiiNS0_6DivModIiEES3_PKT_PS4_i"), N(1), N(2), N(1), N(4), D(4), D(1), &in, &out,
         N(4));
  EXPECT(out, float, 1, 3, 2, 4);
  float *y = TENSOR(float, 1, 2, 3, 4), *last = TENSOR(float, 5, 6, 7, 8), *none = NULL;
  LAUNCH(ORT("18_MaskZeroSequencesIfEEviPT_S3_S3_PKii"), N(2), &y, &last, &none, &rows, N(1));
  EXPECT(y, float, 1, 2, 0, 0);
  EXPECT(last, float, 5, 6, 0, 0);
  int32_t *whole = TENSOR(int32_t, 1, 2, 3, 4, 5, 6), *turned = host_memory(24);
  int64_t *long_lengths = TENSOR(int64_t, 2, 3);
  LAUNCH(ORT("25ReverseSequenceImplKernelIiLb0EEEvPKT_PKlPS2_iiiiNS0_6DivModIiEES9_"), &whole, &long_lengths, &turned, N(2),
         N(3), N(1), N(6), D(3), D(1));
  EXPECT(turned, int32_t, 2, 1, 3, 6, 5, 4);
  LAUNCH(ORT("25ReverseSequenceImplKernelIiLb1EEEvPKT_PKlPS2_iiiiNS0_6DivModIiEES9_"), &whole, &long_lengths, &turned, N(2),
         N(3), N(1), N(6), D(2), D(1));
  EXPECT(turned, int32_t, 3, 6, 1, 4, 5, 2);
  lengths[0] = 4;
  expect_failure(reverse, (void *[]){N(3), &lengths, N(2), D(2), D(1), &in, &out, N(6)}, 700, "sequence 0 has 4 elements of 3");
}

static void beside_cudnn(void **state) {
  (void)state;
  /* two images of one channel of 2: (x - mean) / sqrt(variance * 0.5 + 1) * 2 + 10 */
  float *in = TENSOR(float, 1, 3, 5, 9), *scale = TENSOR(float, 2), *bias = TENSOR(float, 10), *out = host_memory(16);
  float *averages = TENSOR(float, 2, 7), *variances = TENSOR(float, 0, 6);
  LAUNCH(ORT("19_InstanceNormKernelIffEEvPKT_S4_S4_PKT0_S7_ddNS0_6DivModIiEES9_PS2_i"), &in, &scale, &bias, &averages,
         &variances, &(double){0.5}, &(double){1}, D(2), D(1), &out, N(4));
  EXPECT_NEAR(out, 8, 12, 8, 12);
  float *x = TENSOR(float, INFINITY, -INFINITY, 1, NAN), *raised = TENSOR(float, NAN, NAN, 0.5F, NAN);
  LAUNCH(ORT("25_FixExpForReduceLogSumExpIfEEvPKT_PS2_m"), &x, &raised, L(4));
  EXPECT(raised, float, 1, 0, 0.5F);
  assert_true(isnan(raised[3]));
  float *shrunk = host_memory(16), *values = TENSOR(float, -2, -0.5F, 0.5F, 2);
  LAUNCH(ORT("13_ShrinkKernelIfEEvPKT_ffPS2_i"), &values, F(0.25F), F(1), &shrunk, N(4));
  EXPECT(shrunk, float, -1.75F, 0, 0, 1.75F);
}

static void suppressions(void **state) {
  (void)state;
  /* the second overlaps the first; the third overlaps only the second */
  float *boxes = TENSOR(float, 0, 0, 2, 2, 3, 2, 1, 0, 2, 0, 4, 2), *sorted = host_memory(48);
  int32_t *mask = TENSOR(int32_t, 7, 7, 7), *order = TENSOR(int32_t, 2, 0, 1), *indices = host_memory(12);
  char *flags = host_memory(3);
  LAUNCH(NMS("7SetZeroIiEEviPT_"), N(3), &mask);
  LAUNCH(NMS("9NMSKernelElPKNS1_3BoxEifiPi"), L(0), &boxes, N(3), F(0.3F), N(1), &mask);
  EXPECT(mask, int32_t, 2, 4, 0);
  LAUNCH(NMS("9NMSReduceEPKiiiiPc"), &mask, N(1), N(3), N(10), &flags);
  EXPECT(flags, char, 1, 0, 1);
  LAUNCH(NMS("16IndexMultiSelectIiNS1_3BoxEJEEEviPKT_PKT0_PS7_DpT1_"), N(3), &order, &boxes, &sorted);
  EXPECT(sorted, float, 2, 0, 4, 2, 0, 0, 2, 2, 3, 2, 1, 0);
  LAUNCH(NMS("4IotaIiEEviT_PS3_"), N(3), N(5), &indices);
  EXPECT(indices, int32_t, 5, 6, 7);
  int64_t *named = host_memory(48);
  LAUNCH(NMS("15NormalizeOutputEiPKiPlll"), N(2), &order, &named, L(8), L(9));
  EXPECT(named, int64_t, 8, 9, 2, 8, 9, 0);
}

static void orders(void **state) {
  (void)state;
  /* two columns of two blocks with 16 numbers of 4 bits, all 9; the zero points are 8 */
  static const char unpack[] = "_ZN11onnxruntime7contrib4cuda28Dequantize4BitsKernelReOrderIfEEvPT_PKhPKS3_S6_PKiiiii";
  uint8_t *nines = host_memory(32), *none = NULL;
  memset(nines, 0x99, 32);
  float *scales = TENSOR(float, 1, 2, 3, 4), *out = host_memory(64 * sizeof *out);
  int32_t *blocks = host_memory(32 * sizeof *blocks);
  for (int i = 0; i < 32; i++) blocks[i] = i == 0 ? 1 : 0;
  void *arguments[] = {&out, &nines, &scales, &none, &blocks, N(16), N(2), N(16), N(4)};
  launch(unpack, LIST(unsigned, 1, 1, 1), LIST(unsigned, 256, 1, 1), arguments);
  EXPECT(out, float, 2, 1);
  EXPECT(out + 31, float, 1, 4, 3);
  blocks[31] = 2;
  expect_failure(unpack, arguments, 700, "row 31 has block 2 of 2");
}

static void deformed_windows(void **state) {
  (void)state;
  /* a window of one element, displaced to the middle of four elements, half a row up where only half is inside, and outside */
  static const char columns[] = ORT("58_GLOBAL__N__804fcc09_19_deform_conv_impl_cu_c5419e52_2825422DeformableIm2ColKernelI"
                                    "fiLi1ELi1ELb1EEEvT0_PKT_S6_S6_llllllllllllNS0_6DivModIS3_EES8_S8_S8_PS4_");
  float *in = TENSOR(float, 1, 2, 3, 6, 7, 8), *mask = TENSOR(float, 1, 2, 1, 1, 1, 0), *out = host_memory(24);
  float *offsets = TENSOR(float, 0.5F, -0.5F, -3, 0, 0, 0, 0.5F, 0, 0, 0, 0, 0);
  LAUNCH(columns, N(6), &in, &offsets, &mask, L(2), L(3), L(1), L(1), L(0), L(0), L(1), L(1), L(1), L(1), L(1), L(1), D(2),
         D(3), D(1), D(1), &out);
  EXPECT_NEAR(out, 4, 2, 0, 6, 7, 0);
  float *bias = TENSOR(float, 10, 20);
  LAUNCH_ON(ORT("58_GLOBAL__N__804fcc09_19_deform_conv_impl_cu_c5419e52_2825425DeformConvAddBias2DKernelIfiEEvPT_PKS3_T0_i"),
            LIST(unsigned, 1, 2, 1), &out, &bias, N(3), N(2));
  EXPECT_NEAR(out, 14, 12, 10, 26, 27, 20);
  LAUNCH(
      ORT("58_GLOBAL__N__804fcc09_19_deform_conv_impl_cu_c5419e52_2825423DeformConvAddBiasKernelIfiEEvPT_PKS3_NS0_6DivModIT0_EES9_S8_"),
      &out, &bias, D(3), D(2), N(6));
  EXPECT_NEAR(out, 24, 22, 20, 46, 47, 40);
}

int main(void) {
#define TEST(function) cmocka_unit_test_teardown(function, host_reset)
  const struct CMUnitTest tests[] = {
      TEST(pools),  TEST(pools_without_a_greatest), TEST(means), TEST(sequences), TEST(beside_cudnn), TEST(suppressions),
      TEST(orders), TEST(deformed_windows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
