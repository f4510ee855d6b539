/* Kernels of ORT's CUDA EP by their mangled names: the results for given arguments are compared with results computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel.h"
#include "launches.h"

/* ---- names ---- */

static void unknown_names(void **state) {
  (void)state;
  assert_null(vcuda_kernel_find(""));
  assert_null(vcuda_kernel_find("main"));
  assert_null(vcuda_kernel_find("_ZN11onnxruntime4cuda"));
  assert_null(vcuda_kernel_find(ORT("13_NobodysKernelIfEEvPKT_PS1_i")));
  /* a known name with other parameters, as in another release; with an unknown operation; with an unknown type */
  assert_null(vcuda_kernel_find(ORT("5_FillIfLi256ELi4EEEvPT_S2_ii")));
  assert_null(vcuda_kernel_find(ORT("17_UnaryElementWiseIffNS0_12OP_NoSuchFunIfEELi256ELi4EEEvPKT_PT0_T1_l")));
  assert_null(vcuda_kernel_find(ORT("5_FillINS0_5OtherELi256ELi4EEEvPT_S2_i")));
  assert_string_equal(vcuda_kernel_name(vcuda_kernel_find(ORT("5_FillIfLi256ELi4EEEvPT_S2_i"))), "_Fill");
}

static void bad_launches(void **state) {
  (void)state;
  const vcuda_kernel *fill = vcuda_kernel_find(ORT("5_FillIfLi256ELi4EEEvPT_S2_i"));
  float *out = host_memory(4 * sizeof *out);
  void *arguments[] = {&out, F(1), N(5)};
  assert_int_equal(vcuda_kernel_launch(fill, LIST(unsigned, 0, 1, 1), LIST(unsigned, 1, 1, 1), 0, NULL, arguments), 9);
  assert_int_equal(vcuda_kernel_launch(fill, LIST(unsigned, 1, 1, 1), LIST(unsigned, 1, 1, 1), 0, NULL, NULL), 1);
  /* one element too many: the work fails, and no element is written */
  assert_int_equal(vcuda_kernel_launch(fill, LIST(unsigned, 1, 1, 1), LIST(unsigned, 1, 1, 1), 0, NULL, arguments), 0);
  assert_int_equal(host_error(), 700);
  EXPECT((unsigned char *)out, unsigned char, 0xA5, 0xA5, 0xA5, 0xA5);
}

/* ---- numbers ---- */

static void small_floats(void **state) {
  (void)state;
  for (int type = VCUDA_FLOAT8E4M3; type <= VCUDA_BFLOAT16; type++) {
    int size = (int)vcuda_type_size((vcuda_type)type);
    for (unsigned bits = 0; bits < 1U << (8 * size); bits++) {
      uint16_t in = (uint16_t)bits, out = 0;
      double value = vcuda_load_real((vcuda_type)type, &in, 0);
      vcuda_store_real((vcuda_type)type, &out, 0, value);
      if (isinf(value) && type == VCUDA_FLOAT8E5M2) continue; /* saturates */
      if (isnan(value) ? !isnan(vcuda_load_real((vcuda_type)type, &out, 0)) : in != out)
        fail_msg("type %d: %x became %x", type, in, out);
    }
  }
}

static void rounding(void **state) {
  (void)state;
  static const struct {
    vcuda_type type;
    double value;
    unsigned bits;
  } cases[] = {
      {VCUDA_FLOAT16, 1, 0x3C00},
      {VCUDA_FLOAT16, 65504, 0x7BFF},
      {VCUDA_FLOAT16, 65519.99, 0x7BFF},
      {VCUDA_FLOAT16, 65520, 0x7C00},
      {VCUDA_FLOAT16, 1 + 1 / 2048.0, 0x3C00}, /* halfway: rounds to even */
      {VCUDA_FLOAT16, 1 + 3 / 2048.0, 0x3C02},
      {VCUDA_FLOAT16, 1 + 1 / 2048.0 + 1e-12, 0x3C01}, /* by way of float it would round twice */
      {VCUDA_FLOAT16, 0x1p-25, 0},
      {VCUDA_FLOAT16, 0x1.8p-25, 1},
      {VCUDA_FLOAT16, -0.0, 0x8000},
      {VCUDA_BFLOAT16, 1 + 1 / 256.0, 0x3F80},
      {VCUDA_BFLOAT16, 1 + 3 / 256.0, 0x3F82},
      {VCUDA_FLOAT8E4M3, 448, 0x7E},
      {VCUDA_FLOAT8E4M3, 1000, 0x7E},
      {VCUDA_FLOAT8E5M2, 57344, 0x7B},
      {VCUDA_FLOAT8E5M2, NAN, 0x7F},
      {VCUDA_FLOAT16, NAN, 0x7FFF},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint16_t bits = 0;
    vcuda_store_real(cases[i].type, &bits, 0, cases[i].value);
    if (bits != cases[i].bits) fail_msg("case %zu: expected %x, got %x", i, cases[i].bits, bits);
  }
  assert_int_equal(vcuda_to_float8(VCUDA_FLOAT8E4M3, 1000, false), 0x7F);
  assert_int_equal(vcuda_to_float8(VCUDA_FLOAT8E5M2, -1e6, false), 0xFC);
}

/* ---- element by element ---- */

static void two_inputs(void **state) {
  (void)state;
  float *a = TENSOR(float, 1, 2, 3, 4, 5, 6), *b = TENSOR(float, 10, 20, 30, 40, 50, 60), *out = host_memory(24);
  LAUNCH(ORT("24_BinaryElementWiseSimpleILb1ELb1EfffNS0_6OP_AddIfffEELi256ELi4EiEEvPKT2_PKT3_PT1_T4_T7_"), &a, &b, &out, EMPTY,
         N(6));
  EXPECT(out, float, 11, 22, 33, 44, 55, 66);
  uint16_t *half = TENSOR(uint16_t, 0x3E00, 0x4000), *product = host_memory(4); /* 1.5, 2 */
  LAUNCH(ORT("24_BinaryElementWiseSimpleILb1ELb1E6__halfS2_S2_NS0_6OP_MulIS2_S2_S2_EELi256ELi4EiEEvPKT2_PKT3_PT1_T4_T7_"),
         &half, &half, &product, EMPTY, N(2));
  EXPECT(product, uint16_t, 0x4080, 0x4400);
  int64_t *whole = TENSOR(int64_t, 7, -7, INT64_MIN), *two = TENSOR(int64_t, 2), *zero = TENSOR(int64_t, 0),
          *quotient = host_memory(24);
  static const char divide_by_scalar[] =
      ORT("24_BinaryElementWiseSimpleILb1ELb0ElllNS0_6OP_DivIlllEELi256ELi4EiEEvPKT2_PKT3_PT1_T4_T7_");
  LAUNCH(divide_by_scalar, &whole, &two, &quotient, EMPTY, N(3));
  EXPECT(quotient, int64_t, 3, -3, INT64_MIN / 2);
  LAUNCH(divide_by_scalar, &whole, &zero, &quotient, EMPTY, N(3));
  EXPECT(quotient, int64_t, -1, -1, -1);
  uint64_t *large = TENSOR(uint64_t, UINT64_MAX, 1), *small = TENSOR(uint64_t, 1, UINT64_MAX);
  char *less = host_memory(2);
  LAUNCH(ORT("24_BinaryElementWiseSimpleILb1ELb1EbmmNS0_7OP_LessIbmmEELi256ELi4EiEEvPKT2_PKT3_PT1_T4_T7_"), &large, &small,
         &less, EMPTY, N(2));
  EXPECT(less, char, 0, 1);
}

static void two_inputs_of_other_shapes(void **state) {
  (void)state;
  /* (2, 1, 3) - (1, 2, 1) */
  float *a = TENSOR(float, 1, 2, 3, 4, 5, 6), *b = TENSOR(float, 10, 20), *out = host_memory(48), *functor = NULL;
  static const char subtract[] = ORT(
      "18_BinaryElementWiseIfffNS0_6OP_SubIfffEELb1ELb1ELi256ELi4EiEEviNS0_6TArrayIlLi8EEEPKT0_S5_PKT1_NS4_INS0_6DivModIiEELi8EEEPT_"
      "RKT2_T7_");
  LAUNCH(subtract, N(3), NUMBERS(3, 0, 1), &a, NUMBERS(0, 1, 0), &b, DIVISORS(6, 3, 1), &out, &functor, N(12));
  EXPECT(out, float, -9, -8, -7, -19, -18, -17, -6, -5, -4, -16, -15, -14);
  /* (2, 2, 3) + (2, 1) */
  LAUNCH(ORT("37_BinaryElementWiseRhsPerChannelBatchNIfffNS0_6OP_AddIfffEELi256ELi4EiEEvPKT0_PKT1_NS0_6DivModIiEESB_PT_T2_T5_"),
         &out, &b, D(3), D(2), &out, EMPTY, N(12));
  EXPECT(out, float, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6);
  float *more = TENSOR(float, 3, 1, 2, 9, 0, 7);
  addresses inputs = {3, {a, more, b}};
  float *greatest = host_memory(8);
  LAUNCH(ORT("46VariadicElementWiseNoBroadcastInputBatchKernelIfNS0_6OP_MaxIfffEELi8ELi4EEEvT0_mNS0_6TArrayIPKT_XT1_EEEPS6_"),
         EMPTY, L(2), &inputs, &greatest);
  EXPECT(greatest, float, 10, 20);
}

static void one_input(void **state) {
  (void)state;
  float *in = TENSOR(float, -2, 0.5F, 3e9F, NAN), *out = host_memory(16);
  LAUNCH(ORT("17_UnaryElementWiseIffNS0_12OP_LeakyReluIfEELi256ELi4EEEvPKT_PT0_T1_l"), &in, &out, F(0.25F), L(3));
  EXPECT(out, float, -0.5F, 0.5F, 3e9F);
  LAUNCH(ORT("17_UnaryElementWiseIffNS0_6OP_DivIfEELi256ELi4EEEvPKT_PT0_T1_l"), &in, &out, F(4), L(2));
  EXPECT(out, float, -0.5F, 0.125F);
  LAUNCH(ORT("17_UnaryElementWiseIffNS0_6OP_ErfIfEELi256ELi4EEEvPKT_PT0_T1_l"), &in, &out, EMPTY, L(2));
  EXPECT_NEAR(out, -0.995322265, 0.520499878);
  int32_t *whole = host_memory(16);
  LAUNCH(ORT("17_UnaryElementWiseIfiNS0_7OP_CastIfiEELi256ELi4EEEvPKT_PT0_T1_l"), &in, &whole, EMPTY, L(4));
  EXPECT(whole, int32_t, -2, 0, INT32_MAX, 0);
  char *found = host_memory(4);
  LAUNCH(ORT("17_UnaryElementWiseIfbNS0_6_IsNanIfEELi256ELi4EEEvPKT_PT0_T1_l"), &in, &found, EMPTY, L(4));
  EXPECT(found, char, 0, 0, 0, 1);
  float *infinite = TENSOR(float, INFINITY, -INFINITY, 1);
  LAUNCH(ORT("17_UnaryElementWiseIfbNS0_6_IsInfIfLb1ELb0EEELi256ELi4EEEvPKT_PT0_T1_l"), &infinite, &found, EMPTY, L(3));
  EXPECT(found, char, 1, 0, 0);
  float *large = TENSOR(float, 1000, -1);
  uint8_t *eighth = host_memory(2);
  LAUNCH(ORT("17_UnaryElementWiseIfNS_12Float8E4M3FNENS0_10OP_CastSatIfS2_EELi256ELi4EEEvPKT_PT0_T1_l"), &large, &eighth, EMPTY,
         L(2));
  EXPECT(eighth, uint8_t, 0x7E, 0xB8);
  LAUNCH(ORT("17_UnaryElementWiseIfNS_12Float8E4M3FNENS0_12OP_CastNoSatIfS2_EELi256ELi4EEEvPKT_PT0_T1_l"), &large, &eighth,
         EMPTY, L(2));
  EXPECT(eighth, uint8_t, 0x7F, 0xB8);
}

static void choices(void **state) {
  (void)state;
  /* conditions (2, 1), a scalar, (2, 3) */
  char *condition = TENSOR(char, 1, 0);
  float *x = TENSOR(float, 9), *y = TENSOR(float, 1, 2, 3, 4, 5, 6), *out = host_memory(24);
  LAUNCH(
      ORT("18_TenaryElementWiseIfLNS0_18BroadcastIndexTypeE2ELS2_1ELS2_0ELi256ELi4EEEvmNS0_6TArrayIlLi8EEEPKbS4_PKT_S4_S9_NS3_INS0_"
          "6DivModIiEELi8EEEPS7_i"),
      L(2), NUMBERS(1, 0), &condition, NO_NUMBERS, &x, NO_NUMBERS, &y, DIVISORS(3, 1), &out, N(6));
  EXPECT(out, float, 9, 9, 9, 4, 5, 6);
  int64_t *in = TENSOR(int64_t, -5, 0, 5), *lowest = TENSOR(int64_t, -2), *none = NULL, *clipped = host_memory(24);
  LAUNCH(ORT("5_ClipIlEEvPKT_PS2_S4_S4_S2_S2_m"), &in, &clipped, &lowest, &none, L(INT64_MIN), L(4), L(3));
  EXPECT(clipped, int64_t, -2, 0, 4);
  float *bias = TENSOR(float, 1, 2, 3);
  LAUNCH(ORT("19BroadcastBiasKernelIfiLb1EEEvPKT_PS2_lNS0_6DivModIT0_EEiiS2_"), &bias, &out, L(6), D(3), N(0), N(1), F(2));
  EXPECT(out, float, 2, 4, 6, 2, 4, 6);
  LAUNCH("_ZN11onnxruntime7contrib4cuda10_NormalizeIfEEvPT_li", &out, L(5), N(4));
  EXPECT(out, float, 0.5F, 1, 1.5F, 0.5F, 1, 6);
}

/* ---- moves ---- */

static void reorderings(void **state) {
  (void)state;
  int32_t *in = TENSOR(int32_t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), *out = host_memory(48);
  /* (2, 2, 3) to (3, 2, 2) */
  LAUNCH(ORT("15TransposeKernelIiEEviNS0_6TArrayIlLi8EEEPKT_NS2_INS0_6DivModIiEELi8EEEPS4_i"), N(3), NUMBERS(1, 3, 6), &in,
         DIVISORS(4, 2, 1), &out, N(12));
  EXPECT(out, int32_t, 0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11);
  int16_t *shorts = TENSOR(int16_t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), *turned = host_memory(24);
  LAUNCH_ON(ORT("17Transpose3DKernelIsLj32EEEvlllPKT_PS2_"), LIST(unsigned, 1, 1, 2), L(2), L(3), L(6), &shorts, &turned);
  EXPECT(turned, int16_t, 0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11);
  /* (3, 4): rows in reverse, two columns from 1 on; the kernel accesses only the elements that it reads */
  LAUNCH(ORT("12_SliceKernelILb0ELi2EiEEvNS0_6TArrayIlLi8EEES3_S3_NS2_INS0_6DivModIiEELi8EEEPKT1_PS7_i"), NUMBERS(2, 1),
         NUMBERS(-2, 1), NUMBERS(4, 1), DIVISORS(2, 1), &in, &out, N(4));
  EXPECT(out, int32_t, 9, 10, 1, 2);
  LAUNCH(ORT("12ExpandKernelIjLi256ELi4EEEviiPKT_PS2_NS0_6TArrayINS0_6DivModIiEELi8EEENS6_IlLi8EEE"), N(2), N(6), &in, &out,
         DIVISORS(3, 1), NUMBERS(0, 1));
  EXPECT(out, int32_t, 0, 1, 2, 0, 1, 2);
  LAUNCH(ORT("11TriluKernelIiLb1EEEvlPKT_PS2_iNS0_6DivModIiEES7_"), L(1), &in, &out, N(12), D(6), D(3));
  EXPECT(out, int32_t, 0, 1, 2, 0, 0, 5, 0, 7, 8, 0, 0, 11);
  int16_t *across = host_memory(12);
  LAUNCH("_ZN45_GLOBAL__N__e1928ab6_12_fpgeneric_cu_69b3876718transposeNoOverlapEP6__halfPKS0_ii", &across, &shorts, N(3),
         N(2));
  EXPECT(across, int16_t, 0, 3, 1, 4, 2, 5);
  float *floats = TENSOR(float, 1, 2, 3, 4, 5, 6, 7, 8), *twice = host_memory(64);
  LAUNCH(ORT("26_TileMemcpyKernelFromInputINS0_14aligned_vectorIfLi4EEEEEvPKT_PS4_im"), &floats, &twice, N(2), L(2));
  EXPECT(twice, float, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8);
  /* (2, 2) repeated twice along each dim */
  LAUNCH(ORT("19_UnRolledTileKernelIfEEvmNS0_6TArrayINS0_6DivModIiEELi8EEENS2_IlLi8EEEPKT_S5_PS7_i"), L(2), DIVISORS(2, 2),
         NUMBERS(2, 1), &floats, DIVISORS(4, 1), &twice, N(16));
  EXPECT(twice, float, 1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4);
}

static void concatenations(void **state) {
  (void)state;
  int32_t *a = TENSOR(int32_t, 1, 2, 3, 4), *b = TENSOR(int32_t, 5, 6, 7, 8), *c = TENSOR(int32_t, 9, 10),
          *out = host_memory(40);
  addresses same = {2, {a, b}}, other = {2, {a, c}};
  void *pointers = host_copy(same.items, 2 * sizeof(void *)), *other_pointers = host_copy(other.items, 2 * sizeof(void *));
  /* (2, 2) and (2, 2) along the last dim */
  LAUNCH(ORT("26_ConcatKernelSameConcatDimIiNS0_6TArrayIPKvLi32EEEEEvNS0_6DivModIiEES7_S7_PT_T0_i"), D(4), D(1), D(2), &out,
         &same, N(8));
  EXPECT(out, int32_t, 1, 2, 5, 6, 3, 4, 7, 8);
  LAUNCH(ORT("26_ConcatKernelSameConcatDimIiPPKvEEvNS0_6DivModIiEES6_S6_PT_T0_i"), D(4), D(1), D(2), &out, &pointers, N(8));
  EXPECT(out, int32_t, 1, 2, 5, 6, 3, 4, 7, 8);
  /* (2, 2) and (2, 1) */
  int64_t *lengths = TENSOR(int64_t, 2, 1), *ends = TENSOR(int64_t, 2, 3), *mapping = TENSOR(int64_t, 0, 0, 1);
  LAUNCH(ORT("13_ConcatKernelIiEEvNS0_6DivModIiEES3_PKlS5_S5_PT_PPKvi"), D(3), D(1), &lengths, &ends, &mapping, &out,
         &other_pointers, N(6));
  EXPECT(out, int32_t, 1, 2, 9, 3, 4, 10);
  LAUNCH(ORT("24_ConcatKernelOutputMajorIiEEvNS0_6DivModIiEES3_NS0_6TArrayIlLi32EEEPT_NS4_IPKvLi32EEEi"), D(3), D(1),
         NUMBERS(2, 3), &out, &other, N(6));
  EXPECT(out, int32_t, 1, 2, 9, 3, 4, 10);
  integers blocks = {2, {1, 2}}, offsets = {2, {0, 2}};
  LAUNCH(ORT("23_ConcatKernelInputMajorIiEEvNS0_6TArrayIPKvLi32EEENS2_IiLi32EEES6_NS2_INS0_6DivModIiEELi32EEEiiPT_"), &other,
         &blocks, &offsets, DIVISORS(2, 1), N(2), N(3), &out);
  EXPECT(out, int32_t, 1, 2, 9, 3, 4, 10);
}

static void splits(void **state) {
  (void)state;
  int32_t *in = TENSOR(int32_t, 1, 2, 3, 4, 5, 6, 7, 8), *a = host_memory(16), *b = host_memory(16), *c = host_memory(24);
  addresses same = {2, {a, b}}, other = {2, {c, b}};
  LAUNCH(ORT("24_SplitKernelSameSplitDimIiNS0_6TArrayIPvLi32EEEEEvNS0_6DivModIiEES6_S6_iPKT_T0_i"), D(4), D(1), D(2), N(2), &in,
         &same, N(8));
  EXPECT(a, int32_t, 1, 2, 5, 6);
  EXPECT(b, int32_t, 3, 4, 7, 8);
  /* three columns and one */
  void *pointers = host_copy(other.items, 2 * sizeof(void *));
  int64_t *lengths = TENSOR(int64_t, 3, 1), *ends = TENSOR(int64_t, 3, 4), *mapping = TENSOR(int64_t, 0, 0, 0, 1);
  LAUNCH(ORT("12_SplitKernelIiEEvNS0_6DivModIiEES3_PKlS5_S5_iPKT_PPvi"), D(4), D(1), &lengths, &ends, &mapping, N(2), &in,
         &pointers, N(8));
  EXPECT(c, int32_t, 1, 2, 3, 5, 6, 7);
  EXPECT(b, int32_t, 4, 8, 7, 8);
  LAUNCH(ORT("22_SplitSmallInnerKernelIiEEvNS0_6TArrayIlLi4EEEPKvNS2_IPvLi4EEEli"), NUMBERS(12, 4), &in, &other, L(16), N(8));
  EXPECT(c, int32_t, 1, 2, 3, 5, 6, 7);
  EXPECT(b, int32_t, 4, 8);
}

static void paddings(void **state) {
  (void)state;
  float *in = TENSOR(float, 1, 2, 3, 4, 5, 6), *out = host_memory(80);
  /* (2, 3), one row above and two columns to the right, reflected */
  LAUNCH(ORT("10_PadKernelIfLi1EEEvmNS0_6TArrayIlLi8EEES3_S3_S3_S3_T_PKS4_NS2_INS0_6DivModIiEELi8EEEPS4_m"), L(2),
         NUMBERS(2, 3), NUMBERS(3, 1), NUMBERS(1, 0), NUMBERS(2, 3), NUMBERS(0, 0), F(0), &in, DIVISORS(5, 1), &out, L(15));
  EXPECT(out, float, 4, 5, 6, 5, 4, 1, 2, 3, 2, 1, 4, 5, 6, 5, 4);
  LAUNCH(ORT("40_PadNCHWInputWithPaddingAlongHAndWKernelIfLi0EEEvllllllllT_PKS2_PS2_m"), L(1), L(1), L(2), L(4), L(3), L(5),
         L(1), L(1), F(9), &in, &out, L(20));
  EXPECT(out, float, 9, 9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9, 9, 9, 9, 9);
}

/* ---- indices ---- */

static void gathers(void **state) {
  (void)state;
  int32_t *rows = TENSOR(int32_t, 1, 2, 3, 4, 5, 6), *indices = TENSOR(int32_t, 2, -3, 3), *out = host_memory(24);
  /* rows of (3, 2); an index out of range gives zeros */
  LAUNCH(ORT("13_GatherKernelIiEEvllNS0_6DivModIiEES3_PKvmPKT_PS6_i"), L(6), L(3), D(6), D(2), &indices, L(4), &rows, &out,
         N(6));
  EXPECT(out, int32_t, 5, 6, 1, 2, 0, 0);
  float *in = TENSOR(float, 1, 2, 3, 4, 5, 6), *slices = host_memory(16);
  int64_t *where = TENSOR(int64_t, -1, 0), *offsets = host_memory(16);
  LAUNCH(ORT("26_ComputeSliceOffsetsKernelIlEEvlNS0_6TArrayIlLi8EEEmmmmS3_PKT_Pl"), L(0), NUMBERS(3, 2), L(2), L(2), L(6), L(1),
         NUMBERS(2), &where, &offsets);
  EXPECT(offsets, int64_t, 4, 0);
  LAUNCH(ORT("15_GatherNDKernelIfEEvmPKT_PS2_mPKl"), L(2), &in, &slices, L(2), &offsets);
  EXPECT(slices, float, 5, 6, 1, 2);
  /* along the last axis of (2, 3) by (2, 1) */
  struct {
    divisor row;
    int32_t input_row, unused[9];
  } calculator = {{.divisor = 1}, 3, {0}};
  int64_t *columns = TENSOR(int64_t, 2, -3);
  LAUNCH(
      "_ZN11onnxruntime4cuda28_GatherScatterElementsKernelIflLb1ENS0_62_GLOBAL__N__5da1c36b_23_gather_elements_impl_cu_c5419e52_"
      "2896921OffsetCalculatorFor2DILb0ELb0EEENS0_14FuncAssignmentIfEEEEvPKT_PKT0_PS7_llT2_T3_i",
      &in, &columns, &slices, L(3), L(1), &calculator, EMPTY, N(2));
  EXPECT(slices, float, 3, 4);
}

static void scatters(void **state) {
  (void)state;
  struct {
    int64_t sizes[12];
    int64_t *more;
  } sizes = {{2, 3}, NULL}; /* a row has 2 elements; there are 3 */
  int32_t *out = TENSOR(int32_t, 0, 0, 0, 0, 0, 0), *rows = TENSOR(int32_t, 1, 2, 3, 4);
  int64_t *indices = TENSOR(int64_t, -1, 0), *equal = TENSOR(int64_t, 1, 1);
  LAUNCH(ORT("16_ScatterNDKernelIiEEvPT_mPKllNS0_34ElementCountsAndInputDimsSpanOrGpuEPKS2_m"), &out, L(2), &indices, L(1),
         &sizes, &rows, L(2));
  EXPECT(out, int32_t, 3, 4, 0, 0, 1, 2);
  float *sums = TENSOR(float, 1, 1, 1, 1, 1, 1), *more = TENSOR(float, 1, 2, 3, 4);
  LAUNCH(ORT("25_ScatterNDKernelReductionIfNS0_7FuncAddIfEEEEvPT_mPKllNS0_34ElementCountsAndInputDimsSpanOrGpuEPKS4_mT0_"),
         &sums, L(2), &equal, L(1), &sizes, &more, L(2), EMPTY);
  EXPECT(sums, float, 1, 1, 5, 7, 1, 1);
}

/* ---- many to one ---- */

static void sums(void **state) {
  (void)state;
  float *in = TENSOR(float, 1, 2, 3, 4, 5, 6), *out = TENSOR(float, 0, 0, 10);
  LAUNCH(ORT("6detail25reduce_matrix_rows_kernelIfffEEvPKT_PT0_ii"), &in, &out, N(2), N(3));
  EXPECT(out, float, 5, 7, 19); /* added to the old values */
  struct {
    int32_t outputs, reductions;
    int64_t output_sizes[16], output_strides[16], sizes[16], strides[16], output_count, count;
  } over_both_ends = {1, 2, {3}, {2}, {2, 2}, {6, 1}, 3, 4};
  int64_t *wholes = TENSOR(int64_t, 1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60), *totals = host_memory(24);
  LAUNCH(ORT("6detail20reduce_sum_nd_kernelIlLi256EEEvPKT_PS3_NS1_19ReduceSumNdMetadataE"), &wholes, &totals, &over_both_ends);
  EXPECT(totals, int64_t, 33, 77, 121);
  float *values = TENSOR(float, 1, 3, 3, 9, 0, -1);
  int64_t *places = host_memory(16);
  LAUNCH(ORT("6detail28arg_min_max_last_axis_kernelIfLb1EEEvPKT_Plii"), &values, &places, N(2), N(3));
  EXPECT(places, int64_t, 1, 0);
  /* (2, 3) along the first dim */
  float *running = host_memory(24);
  static const char running_sum[] = ORT("13_CumSumKernelIfEEvPKT_NS0_6DivModIiEES6_PS2_lbb");
  LAUNCH(running_sum, &in, D(2), D(3), &running, L(6), FALSE, FALSE);
  EXPECT(running, float, 1, 2, 3, 5, 7, 9);
  LAUNCH(running_sum, &in, D(2), D(3), &running, L(6), TRUE, TRUE);
  EXPECT(running, float, 4, 5, 6, 0, 0, 0);
}

static void normalisations(void **state) {
  (void)state;
  float *in = TENSOR(float, 1, 2, 3, 1000, 1000, 1000), *out = host_memory(24), *none = NULL;
  LAUNCH(ORT("20softmax_warp_forwardIfffLi2ELb1EEEvPT0_PKT_iii"), &out, &in, N(2), N(3), N(3));
  EXPECT_NEAR(out, -2.40760596, -1.40760596, -0.40760596, -1.09861229, -1.09861229, -1.09861229);
  float *x = TENSOR(float, 1, 2, 3, 4), *gamma = TENSOR(float, 1, 2), *beta = TENSOR(float, 0, 10), *mean = host_memory(8);
  float *deviation = host_memory(8), *y = host_memory(16), *skip = TENSOR(float, 1, -1), *sum = host_memory(16);
  static const char layer_norm[] = ORT("16cuApplyLayerNormIfffLb0EEEvPT1_PT0_S5_PKT_iiS4_PKS2_SA_iS8_S8_PS6_");
  LAUNCH(layer_norm, &y, &mean, &deviation, &x, N(2), N(2), F(0), &gamma, &beta, N(0), &none, &none, &none);
  EXPECT_NEAR(y, -1, 12, -1, 12);
  EXPECT_NEAR(mean, 1.5, 3.5);
  EXPECT_NEAR(deviation, 2, 2);
  /* root mean square of x + skip, one row of skip for both */
  LAUNCH_ON("_ZN11onnxruntime7contrib4cuda24SkipLayerNormKernelSmallIfLj96ELi8ELb1EEEvPT_S4_PKS3_S6_S6_S6_S6_fii",
            LIST(unsigned, 2, 1, 1), &y, &sum, &x, &skip, &none, &gamma, &none, F(0), N(2), N(2));
  EXPECT(sum, float, 2, 1, 4, 3);
  EXPECT_NEAR(y, 2 / sqrt(2.5), 2 / sqrt(2.5), 4 / sqrt(12.5), 6 / sqrt(12.5));
  /* lines of (2, 2) along the first axis */
  LAUNCH(ORT("12LpNormKernelIffLi1EEEvPKT_PS2_lll"), &x, &y, L(2), L(2), L(2));
  EXPECT_NEAR(y, 0.25, 2 / 6.0, 0.75, 4 / 6.0);
  LAUNCH_ON("_ZN11onnxruntime7contrib4cuda14BiasGeluKernelIfEEvlPKT_S5_PS3_", LIST(unsigned, 2, 1, 1), L(2), &x, &skip, &y);
  EXPECT_NEAR(y, 1.95449974, 0.84134475, 3.99987331, 2.99595031);
}

/* ---- counts, fills, others ---- */

static void counts(void **state) {
  (void)state;
  float *in = TENSOR(float, 0, 1, 0, -0.0F, NAN, 2);
  int32_t *blocks = host_memory(8), *sums = host_memory(8);
  int64_t *positions = host_memory(48);
  void *scratch = NULL;
  LAUNCH_ON(ORT("27NonZeroCountEachBlockKernelIfLi256EEEvPKT_lPi"), LIST(unsigned, 2, 1, 1), &in, L(6), &blocks);
  EXPECT(blocks, int32_t, 1, 2);
  static const char scan[] =
      "_ZN3cub38CUB_300001_SM_750_800_860_890_900_12006detail4scan16DeviceScanKernelINS2_10policy_hubIiiijN4cuda3std3__44plusIvEEE10Policy"
      "1000EPiSC_NS0_13ScanTileStateIiLb1EEES9_NS0_8NullTypeEjiLb0ESF_EEvT0_T1_T2_iT3_T4_T5_";
  LAUNCH(scan, &blocks, &sums, &scratch, N(0), EMPTY, EMPTY, N(2));
  EXPECT(sums, int32_t, 1, 3);
  /* (2, 3): a row of indices for each dim */
  LAUNCH(ORT("28NonZeroOutputPositionsKernelIfLi256EEEvPKT_liNS0_6TArrayINS0_6DivModIiEELi8EEEPKiiPl"), &in, L(6), N(2),
         DIVISORS(3, 1), &sums, N(3), &positions);
  EXPECT(positions, int64_t, 0, 1, 1, 1, 1, 2);
  /* columns 0 and 2 of (2, 3) */
  int32_t *rows = TENSOR(int32_t, 1, 2, 3, 4, 5, 6), *before = TENSOR(int32_t, 1, 1, 2), *out = host_memory(16);
  char *condition = TENSOR(char, 1, 0, 1);
  LAUNCH(ORT("15_CompressKernelIiEEviNS0_6DivModIiEES3_iPKiPKbPKT_PS8_i"), N(3), D(1), D(3), N(2), &before, &condition, &rows,
         &out, N(6));
  EXPECT(out, int32_t, 1, 3, 4, 6);
}

static void makers(void **state) {
  (void)state;
  float *out = host_memory(24);
  LAUNCH(ORT("5_FillIfLi256ELi4EEEvPT_S2_i"), &out, F(3), N(6));
  EXPECT(out, float, 3, 3, 3, 3, 3, 3);
  LAUNCH(ORT("14_EyeLikeKernelIfEEvmmPT_i"), L(1), L(4), &out, N(2)); /* above the diagonal of (2, 3) */
  EXPECT(out, float, 3, 1, 3, 3, 3, 1);
  int64_t *range = host_memory(24), *indices = TENSOR(int64_t, 1, -1);
  LAUNCH(ORT("11RangeKernelIlEEvT_S2_lPS2_"), L(5), L(-2), L(3), &range);
  EXPECT(range, int64_t, 5, 3, 1);
  LAUNCH(ORT("11_OneHotImplIlfEEvPKT_NS0_6DivModIiEES6_lT0_S7_PS7_i"), &indices, D(3), D(1), L(3), F(1), F(-1), &out, N(6));
  EXPECT(out, float, -1, 1, -1, -1, -1, 1);
  memset(out, 0, 24);
  LAUNCH(ORT("27_OneHotWithZeroOffValueImplIlfEEvPKT_NS0_6DivModIiEElT0_PS7_i"), &indices, D(1), L(3), F(7), &out, N(2));
  EXPECT(out, float, 0, 7, 0, 0, 0, 7);
}

static void tops(void **state) {
  (void)state;
  /* (2, 4): the two greatest elements of each row; the first one of equal elements */
  float *in = TENSOR(float, 1, 5, 5, 2, -1, -3, -2, -4), *values = host_memory(16);
  int64_t *places = host_memory(32);
  static const char top[] = ORT("11BitonicTopKIfEEvPKT_PS2_PlNS0_6TArrayIlLi8EEEmillllllS2_S2_");
  LAUNCH_ON(top, LIST(unsigned, 2, 1, 1), &in, &values, &places, NUMBERS(8, 4), L(2), N(1), L(2), L(2), L(1), L(1), L(4), L(4),
            F(0), F(0));
  EXPECT(values, float, 5, 5, -1, -2);
  EXPECT(places, int64_t, 1, 2, 0, 2);
  /* the least elements along the first axis of (4, 2), in the order of their indices */
  LAUNCH_ON(top, LIST(unsigned, 2, 1, 1), &in, &values, &places, NUMBERS(8, 2), L(2), N(0), L(2), L(2), L(0), L(0), L(4), L(4),
            F(0), F(0));
  EXPECT(values, float, -1, -3, -2, -4);
  EXPECT(places, int64_t, 2, 2, 3, 3);
}

/* Long lines: the kernels that find candidates do nothing here; the one that writes does all. */
static void tops_of_long_lines(void **state) {
  (void)state;
  float *in = TENSOR(float, 1, 5, 5, 2, -1, -3, -2, -4), *values = host_memory(16);
  int64_t *places = host_memory(32);
  void *candidates = host_memory(64), *scores = host_memory(64);
  LAUNCH(ORT("11hybrid_topk17FindPartitionTopKIfLi1792ELi128EEEvPKT_PfPiii"), &in, &scores, &candidates, N(4), N(1));
  LAUNCH(ORT("11hybrid_topk11WriteOutputIfEEvPKT_PKiPS3_Pliiii"), &in, &candidates, &values, &places, N(2), N(4), N(2), N(8));
  EXPECT(values, float, 5, 5, -1, -2);
  EXPECT(places, int64_t, 1, 2, 0, 2);
}

static void resizes(void **state) {
  (void)state;
  float *in = TENSOR(float, 1, 2, 3, 4), *out = host_memory(32);
  void *map = host_memory(48), *rule = NULL;
  /* (2, 2) to (2, 4) */
  LAUNCH(
      ORT("29_ResizeNearestMappingKernel2DIfNS0_30TransformCoordinate_HALF_PIXELENS0_31NearestPixel_ROUND_PREFER_FLOOREEEviiiiffffffbRKT0_"
          "RKT1_PNS0_18NearestMappingInfoE"),
      N(2), N(2), N(2), N(4), F(1), F(2), F(0), F(0), F(0), F(0), FALSE, &rule, &rule, &map);
  EXPECT((int32_t *)map, int32_t, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0);
  LAUNCH(ORT("22_ResizeNearestKernel2DIfLb0EEEvllliNS0_6DivModIiEES3_PKT_PS4_mS4_PKNS0_18NearestMappingInfoE"), L(2), L(4),
         L(4), N(2), D(8), D(4), &in, &out, L(8), F(0), &map);
  EXPECT(out, float, 1, 1, 2, 2, 3, 3, 4, 4);
}

static void quantised(void **state) {
  (void)state;
  float *in = TENSOR(float, 0.5F, 1.5F, -1000, 1000), *scales = TENSOR(float, 1, 10), *out = host_memory(8);
  int8_t *zeros = TENSOR(int8_t, 1, -1), *quantised = host_memory(4);
  void *none = NULL;
  LAUNCH(ORT("27QuantizeLinearKernelAxisStdILi256ELi4EafEEvPKT2_PT1_S4_PKS5_immNS0_8RoundStdIS2_S5_EE"), &in, &quantised,
         &scales, &zeros, N(4), L(1), L(2), EMPTY);
  EXPECT(quantised, int8_t, 1, 3, -101, 99);
  uint8_t *bytes = TENSOR(uint8_t, 0, 255), *middle = TENSOR(uint8_t, 128);
  static const char back[] = ORT("25DequantizeLinearKernelStdIhfLi256ELi4EEEvPKT_PT0_PKS5_S4_i");
  LAUNCH(back, &bytes, &out, &scales, &middle, N(2));
  EXPECT(out, float, -128, 127);
  LAUNCH(back, &bytes, &out, &scales, &none, N(2));
  EXPECT(out, float, 0, 255);
  /* (a - 2)(b - 3) of (2, 2) and (2, 1) is a b minus these sums, plus 2 * 2 * 3 */
  int8_t *a = TENSOR(int8_t, 1, 2, 3, 4), *b = TENSOR(int8_t, 5, -6);
  int32_t *rows = host_memory(8), *columns = host_memory(4), *offsets = host_memory(8);
  LAUNCH_ON(ORT("27ReduceRowSumOnMatrixAKernelILi256EEEvPKaPiai"), LIST(unsigned, 2, 1, 1), &a, &rows, &(int8_t){3}, N(2));
  LAUNCH_ON(ORT("27ReduceColSumOnMatrixBKernelILi256EEEvPKaPiaii"), LIST(unsigned, 1, 1, 1), &b, &columns, &(int8_t){2}, N(2),
            N(1));
  LAUNCH_ON(ORT("23ComputeOffsetOfMatrixABEPKiS2_Piii"), LIST(unsigned, 2, 1, 1), &rows, &columns, &offsets, N(12), N(1));
  EXPECT(offsets, int32_t, 12 - 9 + 2, 12 - 21 + 2);
}

static void caches(void **state) {
  (void)state;
  /* one token of two elements into each of two lines of three tokens; the first line wraps around */
  int32_t *cache = TENSOR(int32_t, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), *update = TENSOR(int32_t, 1, 2, 3, 4);
  int64_t *places = TENSOR(int64_t, 3, 1);
  LAUNCH(ORT("20_TensorScatterKernelIiLb1EEEvPT_PKS2_PKllllllm"), &cache, &update, &places, L(2), L(1), L(3), L(1), L(2), L(4));
  EXPECT(cache, int32_t, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0);
}

static void rotations(void **state) {
  (void)state;
  /* one head of four elements, two tokens; at position 1 the angles are a quarter turn and a half turn */
  float *in = TENSOR(float, 1, 2, 3, 4, 1, 2, 3, 4), *out = host_memory(32);
  float *cosines = TENSOR(float, 1, 1, 0, -1), *sines = TENSOR(float, 0, 0, 1, 0);
  int64_t *positions = TENSOR(int64_t, 0, 1);
  static const char rotary[] = ORT("19RotaryEmbeddingBSNHIfEEvPT_PKS2_S5_S5_PKliiiiiib4int4S8_");
  launch(rotary, LIST(unsigned, 2, 1, 1), LIST(unsigned, 32, 1, 1),
         (void *[]){&out, &in, &cosines, &sines, &positions, N(2), N(1), N(4), N(4), N(2), N(1), FALSE, &(int[4]){8, 8, 4, 1},
                    &(int[4]){8, 8, 4, 1}});
  EXPECT(out, float, 1, 2, 3, 4, -3, -2, 1, -4);
  launch(rotary, LIST(unsigned, 2, 1, 1), LIST(unsigned, 32, 1, 1),
         (void *[]){&out, &in, &cosines, &sines, &positions, N(2), N(1), N(4), N(4), N(2), N(1), TRUE, &(int[4]){8, 8, 4, 1},
                    &(int[4]){8, 8, 4, 1}});
  EXPECT(out, float, 1, 2, 3, 4, -2, 1, -3, -4);
}

int main(void) {
#define TEST(function) cmocka_unit_test_teardown(function, host_reset)
  const struct CMUnitTest tests[] = {
      TEST(unknown_names), TEST(bad_launches),
      TEST(small_floats),  TEST(rounding),
      TEST(two_inputs),    TEST(two_inputs_of_other_shapes),
      TEST(one_input),     TEST(choices),
      TEST(reorderings),   TEST(concatenations),
      TEST(splits),        TEST(paddings),
      TEST(gathers),       TEST(scatters),
      TEST(sums),          TEST(normalisations),
      TEST(counts),        TEST(makers),
      TEST(tops),          TEST(tops_of_long_lines),
      TEST(resizes),       TEST(quantised),
      TEST(caches),        TEST(rotations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
