#include "kernels/list.h"

#include <stdio.h>
#include <string.h>

#include "kernels/kernel.h"

/* Lines that differ in one place. */
typedef struct kernel_set {
  const char *types;  /* f float32, h float16, d float64, i int32, l int64, u uint8, c int8, b bool */
  const char *line;   /* in which each '$' is one of `values` */
  const char *values; /* with '|' between them */
} kernel_set;

/* Around the widths of vectors (4), of workgroups and warps (32, 64), and of two of them. */
#define CHANNELS "1|3|4|5|8|31|32|33|63|64|65|66|127|128|129|130"
#define FEW_CHANNELS "1|3|4|5|33|64|66"
#define SIZES "1|2|3|4|31|32|33|63|64|65|129"
#define DEPTHS "1|3|4|31|32|33|63|64|65|127|129|257|1023|1025|4096|8191"
#define LENGTHS "1|31|33|64|65|257|1000|4097"
#define AXES "0|1|2|-1|0,1|1,2|0,2|0,1,2"
#define BROADCASTS(sign)                                                                                                    \
  "5x33 " sign "5x33|5x33 " sign "33|5x33 " sign "5x1|5x1 " sign "1x33|33 " sign "5x33|2x3x5x7 " sign "3x1x7|2x1x5x1 " sign \
  "1x3x1x7|5x33 " sign ".|. " sign "5x33|7 " sign "1|65 " sign "65|0x3 " sign "0x3|0x3 " sign "1x3|3x0x2 " sign "1"
#define SMOOTH \
  "Sigmoid|Tanh|Erf|Gelu|Exp|Elu|Selu|Softplus|Softsign|LeakyRelu|HardSigmoid|HardSwish|Sin|Cos|Atan|Relu|Floor|Ceil|Round"
#define OF_POSITIVE "Sqrt|Log|Reciprocal"
#define WHOLE_TOO "Abs|Neg|Sign"
#define REDUCED "ReduceMean|ReduceL1|ReduceL2|ReduceSumSquare|ReduceLogSumExp"
#define REDUCED_WHOLE "ReduceSum|ReduceMax|ReduceMin"

static const kernel_set sets[] = {
    {"fh", "Conv 1x$x20 *8x$x3 pads=[1,1]", CHANNELS},
    {"fh", "Conv 2x33x20 *$x33x3 *$", SIZES},
    {"fh", "Conv 1x$x20 *$x1x3 group=$", FEW_CHANNELS},
    {"fh", "Conv 2x6x33 *4x6x3 *4 $",
     "strides=[2]|strides=[2] pads=[1,1]|pads=[0,2]|dilations=[2]|dilations=[3] strides=[2] pads=[3,3]|auto_pad=SAME_UPPER strides=[2]"},
    {"fh", "Conv 1x$x9x9 *8x$x3x3 pads=[1,1,1,1]", CHANNELS},
    {"fh", "Conv 1x$x7x7 *16x$x1x1 *16", CHANNELS},
    {"fh", "Conv 1x33x9x9 *$x33x3x3 *$", SIZES},
    {"fh", "Conv 1x$x9x9 *$x1x3x3 *$ group=$", FEW_CHANNELS},
    {"fh", "Conv 1x12x9x9 $ pads=[1,1,1,1]", "*24x1x3x3 group=12|*8x6x3x3 group=2|*6x4x3x3 group=3|*12x3x3x3 group=4"},
    {"fh", "Conv 2x8x17x19 *8x8x3x3 *8 $",
     "strides=[2,2]|strides=[2,1] pads=[1,1,1,1]|pads=[0,1,2,1]|dilations=[2,2]|dilations=[2,3] pads=[2,3,2,3]|strides=[3,2] dilations=[2,1] pads=[1,1,1,1]|"
     "auto_pad=SAME_UPPER strides=[2,2]|auto_pad=SAME_LOWER strides=[2,2]"},
    {"fh", "Conv 1x4x16x16 *4x4x$", "1x3|3x1|2x2|5x5|7x7|1x7"},
    {"fh", "Conv $x3x8x8 *4x3x3x3", "0|1|3"},
    {"fh", "Conv 1x$x5x6x7 *4x$x3x3x3 pads=[1,1,1,1,1,1]", "1|3|4|33"},
    {"fh", "ConvTranspose 1x$x9 *$x5x3", FEW_CHANNELS},
    {"fh", "ConvTranspose 1x$x5x5 *$x5x3x3 strides=[2,2]", FEW_CHANNELS},
    {"fh", "ConvTranspose 1x4x5x6 *4x3x3x3 *3 $",
     "pads=[1,1,1,1]|strides=[2,2] pads=[1,0,1,0]|strides=[2,2] output_padding=[1,1]|dilations=[2,2]|strides=[3,2] pads=[1,1,0,1]"},
    {"fh", "ConvTranspose 1x4x5x6 *4x2x3x3 group=2", NULL},
    {"fhdil", "MatMul 5x$ *$x7", DEPTHS},
    {"fhil", "MatMul 3x$ $x5", DEPTHS},
    {"fhil", "MatMul 3x20 *20x$", SIZES},
    {"fhil", "MatMul $x20 *20x8", SIZES},
    {"fhil", "MatMul $",
     "33 33|33 33x5|5x33 33|2x3x5x7 7x9|2x1x5x7 1x3x7x9|3x5x33 3x33x4|5x33 3x33x4|2x3x5x33 *33x4|0x5 5x3|3x0 0x5|2x0x5 5x3"},
    {"fhd", "Gemm 5x$ *$x7", DEPTHS},
    {"fhd", "Gemm $x33 *33x17 *17", SIZES},
    {"fhd", "Gemm 5x33 *33x7 *$ alpha=0.5 beta=2.0", "7|1x7|5x1|5x7|1"},
    {"fhd", "Gemm $", "33x5 *33x7 transA=1|5x33 *7x33 *7 transB=1|33x5 *7x33 *7 transA=1 transB=1|0x33 *33x7 *7"},
    {"u", "MatMulInteger 5x$ *$x7", "1|3|4|33|64|65|1025"},
    {"u", "ConvInteger 1x$x9x9 *4x$x3x3", FEW_CHANNELS},
    {"fh", "MaxPool 1x$x9x9 kernel_shape=[3,3]", FEW_CHANNELS},
    {"fh", "MaxPool 2x3x11x12 kernel_shape=[3,2] $",
     "strides=[2,2]|strides=[2,2] pads=[1,1,1,0]|strides=[2,2] ceil_mode=1|dilations=[2,2]|auto_pad=SAME_UPPER strides=[2,3]|strides=[3,2] >2"},
    {"fh", "MaxPool 1x3x$ kernel_shape=[3] strides=[2]", "5|33|64"},
    {"fh", "AveragePool 1x$x9x9 kernel_shape=[3,3]", FEW_CHANNELS},
    {"fh", "AveragePool 2x3x11x12 kernel_shape=[3,2] $",
     "strides=[2,2]|strides=[2,2] pads=[1,1,1,0]|strides=[2,2] pads=[1,1,1,0] count_include_pad=1|strides=[2,2] ceil_mode=1|auto_pad=SAME_UPPER strides=[2,3]"},
    {"fh", "GlobalAveragePool 2x$x7x9", FEW_CHANNELS},
    {"fh", "GlobalMaxPool 2x$x7x9", FEW_CHANNELS},
    {"fhil", "$ 3x5x33", REDUCED_WHOLE},
    {"fhil", "ReduceSum 3x5x33 i[$]", AXES},
    {"fhil", "ReduceSum $",
     "3x5x33 i[1] keepdims=0|3x5 i[] noop_with_empty_axes=1|3x0x5 i[1]|0x5 i[1]|3x0x5 i[0,2]|3x5 i[0,1] keepdims=0"},
    {"fhil", "ReduceMax 3x5x33 i[$]", AXES},
    {"fhil", "ReduceMin 3x5x33 i[$]", AXES},
    {"fh", "ReduceMean 3x5x33 i[$]", AXES},
    {"fh", "ReduceL2 3x5x33 i[$]", AXES},
    {"fh", "ReduceProd ~3x2x5 i[$]", AXES},
    {"fhil", "$ 2x3x65x66 i[2,3]", REDUCED_WHOLE},
    {"fhil", "$ 2x3x65x66 i[0,3]", REDUCED_WHOLE},
    {"fh", "$ 2x3x65x66 i[2,3]", REDUCED},
    {"fh", "$ 2x3x65x66 i[1] keepdims=0", REDUCED},
    {"fhil", "ReduceSum $ i[0]", LENGTHS},
    {"fhil", "ReduceMax $ i[0]", LENGTHS},
    {"fh", "ReduceMean 2x$ i[1]", LENGTHS},
    {"fhil", "ArgMax 3x5x33 axis=$", "0|1|2|-1|1 keepdims=0|2 select_last_index=1"},
    {"fhil", "ArgMin 3x5x33 axis=$", "0|1|2|-1|1 keepdims=0|2 select_last_index=1"},
    {"fh", "Softmax ~3x5x33 axis=$", "0|1|2|-1"},
    {"fh", "Softmax ~2x$", LENGTHS},
    {"fh", "Softmax ~2x3x5x65 axis=$", "0|1|2|3"},
    {"fh", "LogSoftmax ~3x5x33 axis=$", "0|1|2|-1"},
    {"fh", "LayerNormalization ~4x$ *+$ *$", "3|4|5|31|32|33|64|65|257|1025"},
    {"fh", "LayerNormalization ~2x5x33 *+33 *33 axis=$", "2|-1"},
    {"fh", "LayerNormalization ~2x5x33 *+5x33 *5x33 axis=1", NULL},
    {"fh", "InstanceNormalization ~2x$x7x9 *+$ *$", FEW_CHANNELS},
    {"fh", "BatchNormalization ~2x$x7x9 *+$ *$ *$ *+$", FEW_CHANNELS},
    {"f", "LSTM ~4x2x$ *~1x32x$ *~1x32x8 *~1x64 hidden_size=8 >3", "3|8|33"},
    {"f", "GRU ~4x2x$ *~1x24x$ *~1x24x8 *~1x48 hidden_size=8 >2", "3|8|33"},
    {"f", "RNN ~4x2x$ *~1x8x$ *~1x8x8 *~1x16 hidden_size=8 >2", "3|8|33"},
    {"fh", "$ ~7", SMOOTH},
    {"fh", "$ ~5x33", SMOOTH},
    {"fh", "$ ~2x3x65", SMOOTH},
    {"fh", "$ +5x33", OF_POSITIVE},
    {"fhil", "$ 7", WHOLE_TOO},
    {"fhil", "$ 5x33", WHOLE_TOO},
    {"fh", "Relu $", ".|0x4|2x0x3"},
    {"fh", "Clip ~5x33 $", "t(-1) t(1)|t(-1)|- t(1)|t(2) t(1)"},
    {"fhil", "Add $", BROADCASTS("")},
    {"fhil", "Sub $", BROADCASTS("")},
    {"fhil", "Mul $", BROADCASTS("")},
    {"fhil", "Div $", BROADCASTS("+")},
    {"fh", "Pow $", BROADCASTS("+")},
    {"fhil", "Max $", "5x33 5x33|5x33 33|5x1 1x33|5x33 5x33 5x33|5x33 33 .|65"},
    {"fhil", "Min $", "5x33 5x33|5x33 33|5x1 1x33|5x33 5x33 5x33|5x33 33 .|65"},
    {"fhil", "Equal $", BROADCASTS("")},
    {"fhil", "Less $", BROADCASTS("")},
    {"fhil", "Greater $", "5x33 33|5x1 1x33|65 65"},
    {"il", "Mod $", "5x33 +33|5x1 +1x33|65 +65"},
    {"fh", "PRelu $", "5x33 *33|5x33 *1|2x3x5x7 *3x1x1|2x33x5 *33x1"},
    {"b", "$ b:5x33 b:33", "And|Or|Xor"},
    {"b", "Not b:$", "33|5x33"},
    {"fhil", "Where $", "b:5x33 5x33 5x33|b:5x1 1x33 .|b:33 5x33 5x1|b:. 5x33 33|b:0x3 0x3 3"},
    {"hdilu", "Cast 5x33 to=1", NULL},
    {"fdil", "Cast ~5x33 to=10", NULL},
    {"fhdl", "Cast ~5x33 to=6", NULL},
    {"fhdi", "Cast ~5x33 to=7", NULL},
    {"fhil", "Cast ~5x33 to=9", NULL},
    {"fhilu", "Transpose 2x3x5 perm=[$]", "0,2,1|1,0,2|1,2,0|2,0,1|2,1,0"},
    {"fhilu", "Transpose 2x5x33x7 perm=[$]", "0,2,3,1|0,3,1,2|3,2,1,0|0,1,3,2|1,0,2,3"},
    {"fhilu", "Transpose $ perm=[1,0]", "33x65|64x32|1x5|0x3"},
    {"fh", "Transpose 2x3x2x5x7 perm=[$]", "0,4,1,2,3|4,3,2,1,0|0,2,1,4,3"},
    {"fhil", "Concat 2x3x5 2x3x5 axis=$", "0|1|2|-1"},
    {"fhil", "Concat $ axis=1", "2x33 2x1 2x5|2x0 2x3|5x33x7 5x1x7|2x3 2x3 2x3 2x3 2x3"},
    {"fhil", "Split $",
     "6x33 axis=0 num_outputs=3 >3|5x33 i[1,4] axis=0 >2|5x33 i[16,17] axis=1 >2|3x7x5 axis=1 num_outputs=2 >2"},
    {"fhil", "Slice 5x33 $",
     "i[1] i[4] i[0]|i[2] i[30] i[1] i[3]|i[-1] i[-34] i[1] i[-1]|i[0,1] i[5,-1] i[0,1] i[2,2]|i[3] i[3] i[0]|i[-3] i[1000] i[1]"},
    {"fhil", "Pad 3x5 $", "i[1,2,0,3]|i[1,2,0,3] t(2)|i[0,-1,1,-2]|i[1,2,1,2] - mode=reflect|i[1,2,0,3] - mode=edge"},
    {"fh", "Pad 1x33x5x7 $", "i[0,0,1,1,0,0,1,1]|i[0,0,2,1,0,0,0,3] - mode=reflect|i[0,0,2,1,0,0,0,3] - mode=edge"},
    {"fhil", "Gather $",
     "5x33 i5:7 axis=0|5x33 i33:2x3 axis=1|5x33 i[-1,0,-5] axis=0|5x33 i(2) axis=0|3x5x7 i5:2 axis=1|5x33 i5:0 axis=0"},
    {"fhil", "GatherElements 5x33 $", "i5:3x33 axis=0|i33:5x7 axis=1"},
    {"fhil", "GatherND $", "5x33 i5:4x1|5x7x3 i3:4x3"},
    {"fhil", "ScatterElements 5x33 $", "i5:1x33 1x33 axis=0|i33:5x1 5x1 axis=1"},
    {"fhil", "ScatterND 5x33 $", "i5:1x1 1x33|i5:1x2 1"},
    {"fhil", "Expand $", "5x1 i[5,33]|1 i[2,3,4]|. i[3,5]|3x1 i[1,4]|1x33 i[0,33]"},
    {"fhil", "Tile $", "2x3 i[2,3]|5x33 i[3,1]|3 i[0]|2x1x5 i[1,3,2]"},
    {"fhil", "Reshape 2x3x5 i[$]", "6,5|0,-1|30|5,1,6"},
    {"fhil", "Unsqueeze 5x3 i[$]", "0|1|-1|0,3"},
    {"fh", "Resize 1x3x8x9 - f[1,1,2,2] $",
     "mode=nearest|mode=linear|mode=cubic|mode=linear coordinate_transformation_mode=align_corners|mode=linear coordinate_transformation_mode=asymmetric|"
     "mode=nearest nearest_mode=floor coordinate_transformation_mode=asymmetric"},
    {"fh", "Resize 1x3x8x9 $",
     "- f[1,1,0.5,0.5] mode=linear|- f[1,1,1.5,2.5] mode=nearest|- - i[1,3,5,7] mode=linear|- - i[1,3,16,5] mode=nearest"},
    {"fh", "DepthToSpace 1x$ blocksize=2", "8x3x5|12x3x5 mode=CRD|132x4x4"},
    {"fh", "SpaceToDepth 1x$ blocksize=2", "3x6x4|33x4x4"},
    {"fil", "CumSum 5x33 $", "i(0)|i(1)|i(-1)|i(1) exclusive=1|i(1) reverse=1"},
    {"fl", "TopK ~5x33 $ >2", "i[1]|i[4] axis=0|i[7] largest=0|i[33]"},
    {"fl", "OneHot i5:7 i(5) t[0,1] axis=$", "-1|0"},
    {"fil", "Trilu 5x7 $", "i(0)|i(1)|i(-2) upper=0"},
    {"fh", "Einsum $",
     "5x33 33x7 equation=ij,jk->ik|2x5x33 2x33x7 equation=bij,bjk->bik|5x33 equation=ij->ji|5x33 33 equation=ij,j->i"},
    {"f", "QuantizeLinear ~5x33 f(0.25) u(128)", NULL},
    {"uc", "DequantizeLinear 5x33 f(0.25) t(2)", NULL},
    {"f", "DynamicQuantizeLinear ~5x$ >3", "1|33"},
};

static int32_t dtype_of(char letter) {
  switch (letter) {
    case 'f': return IOBIND_DTYPE_FLOAT32;
    case 'h': return IOBIND_DTYPE_FLOAT16;
    case 'd': return IOBIND_DTYPE_FLOAT64;
    case 'i': return IOBIND_DTYPE_INT32;
    case 'l': return IOBIND_DTYPE_INT64;
    case 'u': return IOBIND_DTYPE_UINT8;
    case 'c': return IOBIND_DTYPE_INT8;
    default: return IOBIND_DTYPE_BOOL;
  }
}

static void fill(const char *line, const char *value, size_t length, char *text) {
  size_t end = 0;
  text[0] = 0;
  for (; *line != 0 && end < KERNEL_TEXT; line++) {
    int added = *line == '$' ? snprintf(text + end, KERNEL_TEXT - end, "%.*s", (int)length, value)
                             : snprintf(text + end, KERNEL_TEXT - end, "%c", *line);
    end += (size_t)added;
  }
}

bool kernel_list_next(kernel_cursor *cursor, char *text, int32_t *dtype) {
  if (cursor->set == sizeof sets / sizeof sets[0]) return false;
  const kernel_set *set = &sets[cursor->set];
  const char *values = set->values == NULL ? "" : set->values;
  const size_t length = strcspn(values + cursor->value, "|");
  fill(set->line, values + cursor->value, length, text);
  *dtype = dtype_of(set->types[cursor->type]);
  cursor->value += length + 1;
  if (cursor->value <= strlen(values)) return true;
  cursor->value = 0;
  cursor->type++;
  if (set->types[cursor->type] != 0) return true;
  cursor->type = 0;
  cursor->set++;
  return true;
}
