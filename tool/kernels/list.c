#include "kernels/list.h"

#include <stdio.h>
#include <string.h>

#include "kernels/kernel.h"

/* Lines that differ at one position. */
typedef struct kernel_set {
  const char *types;  /* f float32, h float16, d float64, i int32, l int64, u uint8, c int8, b bool */
  const char *line;   /* in which each '$' is one of `values` */
  const char *values; /* with '|' between them */
} kernel_set;

/* Around the widths of vectors (4), of workgroups and warps (32, 64), and of two of them. */
#define CHANNELS "1|3|4|5|8|31|32|33|63|64|65|66|127|128|129|130"
#define FEW_CHANNELS "3|4|33|66"
#define SIZES "1|3|31|33|64|65|129"
#define FEW_SIZES "1|33|64"
#define DEPTHS "1|3|31|33|63|64|65|129|257|1025|8191"
#define FEW_DEPTHS "1|33|1025"
#define LENGTHS "1|31|33|64|65|257|4097"
#define FEW_LENGTHS "1|33|257"
#define AXES "0|1|2|-1|0,1|1,2|0,2|0,1,2"
#define FEW_AXES "0|1|2|0,2"
#define BROADCASTS \
  "5x33 5x33|5x33 33|5x33 5x1|5x1 1x33|33 5x33|2x3x5x7 3x1x7|2x1x5x1 1x3x1x7|5x33 .|. 5x33|7 1|65 65|0x3 0x3|0x3 1x3|3x0x2 1"
#define FEW_BROADCASTS "5x33 33|5x1 1x33|2x1x5x1 1x3x1x7|65 65"
#define OVER_POSITIVE "5x33 +33|5x1 +1x33|2x1x5x1 +1x3x1x7|65 +65"
#define SMOOTH \
  "Sigmoid|Tanh|Erf|Gelu|Exp|Elu|Selu|Softplus|Softsign|LeakyRelu|HardSigmoid|HardSwish|Sin|Cos|Atan|Relu|Floor|Ceil|Round"
#define WHOLE_TOO "Abs|Neg|Sign"
#define REDUCED "ReduceMean|ReduceL1|ReduceL2|ReduceSumSquare|ReduceLogSumExp"
#define REDUCED_WHOLE "ReduceSum|ReduceMax|ReduceMin"

static const kernel_set sets[] = {
    {"f", "Conv 1x$x20 *8x$x3 pads=[1,1]", CHANNELS},
    {"f", "Conv 2x33x20 *$x33x3 *$", FEW_SIZES},
    {"f", "Conv 1x$x20 *$x1x3 group=$", FEW_CHANNELS},
    {"f", "Conv 2x6x33 *4x6x3 *4 $",
     "strides=[2] pads=[1,1]|pads=[0,2]|dilations=[3] strides=[2] pads=[3,3]|auto_pad=SAME_UPPER strides=[2]"},
    {"f", "Conv 1x$x9x9 *8x$x3x3 pads=[1,1,1,1]", CHANNELS},
    {"f", "Conv 1x$x7x7 *16x$x1x1 *16", SIZES},
    {"f", "Conv 1x33x9x9 *$x33x3x3 *$", FEW_SIZES},
    {"f", "Conv 1x$x9x9 *$x1x3x3 *$ group=$", FEW_CHANNELS},
    {"f", "Conv 1x12x9x9 $ pads=[1,1,1,1]", "*24x1x3x3 group=12|*8x6x3x3 group=2|*6x4x3x3 group=3"},
    {"f", "Conv 2x8x17x19 *8x8x3x3 *8 $",
     "strides=[2,2]|strides=[2,1] pads=[1,1,1,1]|pads=[0,1,2,1]|dilations=[2,3] pads=[2,3,2,3]|strides=[3,2] dilations=[2,1] pads=[1,1,1,1]|"
     "auto_pad=SAME_UPPER strides=[2,2]|auto_pad=SAME_LOWER strides=[2,2]"},
    {"f", "Conv 1x4x16x16 *4x4x$", "1x3|3x1|2x2|5x5|7x7"},
    {"f", "Conv 0x3x8x8 *4x3x3x3", NULL},
    {"f", "Conv 1x$x5x6x7 *4x$x3x3x3 pads=[1,1,1,1,1,1]", "3|33"},
    {"h", "Conv 1x$x20 *8x$x3 pads=[1,1]", FEW_CHANNELS},
    {"h", "Conv 1x$x9x9 *8x$x3x3 *8 pads=[1,1,1,1] strides=[2,2]", FEW_CHANNELS},
    {"h", "Conv 1x$x9x9 *$x1x3x3 *$ group=$", FEW_CHANNELS},
    {"f", "ConvTranspose 1x$x9 *$x5x3", FEW_CHANNELS},
    {"fh", "ConvTranspose 1x$x5x5 *$x5x3x3 strides=[2,2]", FEW_CHANNELS},
    {"f", "ConvTranspose 1x4x5x6 *4x3x3x3 *3 $",
     "pads=[1,1,1,1]|strides=[2,2] output_padding=[1,1]|dilations=[2,2]|strides=[3,2] pads=[1,1,0,1]"},
    {"f", "ConvTranspose 1x4x5x6 *4x2x3x3 group=2", NULL},
    {"f", "MatMul 5x$ *$x7", DEPTHS},
    {"f", "MatMul $", "3x33 33x5|3x64 64x5|3x1025 1025x5"},
    {"f", "MatMul 3x20 *20x$", SIZES},
    {"f", "MatMul $x20 *20x8", SIZES},
    {"f", "MatMul $",
     "33 33|33 33x5|5x33 33|2x3x5x7 7x9|2x1x5x7 1x3x7x9|3x5x33 3x33x4|5x33 3x33x4|2x3x5x33 *33x4|0x5 5x3|3x0 0x5|2x0x5 5x3"},
    {"hdil", "MatMul 5x$ *$x7", FEW_DEPTHS},
    {"hil", "MatMul $", "3x33 33x5|2x1x5x7 1x3x7x9|5x33 33|3x0 0x5"},
    {"f", "Gemm 5x$ *$x7", DEPTHS},
    {"f", "Gemm $x33 *33x17 *17", FEW_SIZES},
    {"f", "Gemm 5x33 *33x7 *$ alpha=0.5 beta=2.0", "7|1x7|5x1|5x7|1"},
    {"f", "Gemm $", "33x5 *33x7 transA=1|5x33 *7x33 *7 transB=1|33x5 *7x33 *7 transA=1 transB=1|0x33 *33x7 *7"},
    {"hd", "Gemm 5x$ *7x$ *7 transB=1", FEW_DEPTHS},
    {"u", "MatMulInteger 5x$ *$x7", FEW_DEPTHS},
    {"u", "ConvInteger 1x$x9x9 *4x$x3x3", FEW_CHANNELS},
    {"fh", "MaxPool 1x$x9x9 kernel_shape=[3,3]", FEW_CHANNELS},
    {"f", "MaxPool #2x3x11x12 kernel_shape=[3,2] $",
     "strides=[2,2] pads=[1,1,1,0]|strides=[2,2] ceil_mode=1|dilations=[2,2]|auto_pad=SAME_UPPER strides=[2,2]|strides=[3,2] >2"},
    {"f", "MaxPool 1x3x$ kernel_shape=[3] strides=[2]", "5|64"},
    {"fh", "AveragePool 1x$x9x9 kernel_shape=[3,3]", FEW_CHANNELS},
    {"f", "AveragePool 2x3x11x12 kernel_shape=[3,2] $",
     "strides=[2,2] pads=[1,1,1,0]|strides=[2,2] pads=[1,1,1,0] count_include_pad=1|strides=[2,2] ceil_mode=1|auto_pad=SAME_UPPER strides=[2,2]"},
    {"f", "GlobalAveragePool 2x$x7x9", FEW_CHANNELS},
    {"f", "GlobalMaxPool 2x$x7x9", FEW_CHANNELS},
    {"fhil", "ReduceSum 3x5x33", NULL},
    {"f", "ReduceSum 3x5x33 i[$]", AXES},
    {"f", "ReduceMax 3x5x33 i[$]", AXES},
    {"f", "ReduceMin 3x5x33 i[$]", FEW_AXES},
    {"f", "ReduceMean 3x5x33 i[$]", AXES},
    {"f", "ReduceL2 3x5x33 i[$]", FEW_AXES},
    {"f", "ReduceProd ~3x2x5 i[$]", FEW_AXES},
    {"hil", "$ 3x5x33 i[1]", REDUCED_WHOLE},
    {"h", "$ 3x5x33 i[2]", REDUCED},
    {"f", "ReduceSum $",
     "3x5x33 i[1] keepdims=0|3x5 i[] noop_with_empty_axes=1|3x0x5 i[1]|0x5 i[1]|3x0x5 i[0,2]|3x5 i[0,1] keepdims=0"},
    {"f", "$ 2x3x65x66 i[0,3]", REDUCED_WHOLE},
    {"f", "$ 2x3x65x66 i[1] keepdims=0", REDUCED},
    {"f", "ReduceSum $ i[0]", LENGTHS},
    {"f", "ReduceMean 2x$ i[1]", FEW_LENGTHS},
    {"fi", "ArgMax 3x5x33 axis=$", "0|2|-1|1 keepdims=0|2 select_last_index=1"},
    {"f", "ArgMin 3x5x33 axis=$", "0|2|1 keepdims=0"},
    {"f", "Softmax ~3x5x33 axis=$", "0|1|2|-1"},
    {"f", "Softmax ~2x$", LENGTHS},
    {"h", "Softmax ~2x$", FEW_LENGTHS},
    {"f", "Softmax ~2x3x5x65 axis=$", "0|1|3"},
    {"f", "LogSoftmax ~3x5x33 axis=$", "0|2"},
    {"f", "LayerNormalization ~4x$ *+$ *$", "3|4|31|33|64|65|257|1025"},
    {"h", "LayerNormalization ~4x$ *+$ *$", FEW_LENGTHS},
    {"f", "LayerNormalization ~2x5x33 *+33 *33 axis=$", "2|-1"},
    {"f", "LayerNormalization ~2x5x33 *+5x33 *5x33 axis=1", NULL},
    {"f", "InstanceNormalization ~2x$x7x9 *+$ *$", FEW_CHANNELS},
    {"f", "BatchNormalization ~2x$x7x9 *+$ *$ *$ *+$", FEW_CHANNELS},
    {"f", "LSTM ~4x2x$ *~1x32x$ *~1x32x8 *~1x64 hidden_size=8 >3", "3|33"},
    {"f", "GRU ~4x2x$ *~1x24x$ *~1x24x8 *~1x48 hidden_size=8 >2", "3|33"},
    {"f", "RNN ~4x2x$ *~1x8x$ *~1x8x8 *~1x16 hidden_size=8 >2", "3|33"},
    {"fh", "$ ~5x33", SMOOTH},
    {"fh", "$ +5x33", "Sqrt|Log|Reciprocal"},
    {"fhil", "$ 5x33", WHOLE_TOO},
    {"f", "Relu $", ".|7|2x3x65|0x4|2x0x3"},
    {"fh", "Clip ~5x33 $", "t(-1) t(1)|t(-1)|- t(1)|t(2) t(1)"},
    {"f", "Add $", BROADCASTS},
    {"hil", "Add $", FEW_BROADCASTS},
    {"fi", "Sub $", FEW_BROADCASTS},
    {"fhi", "Mul $", FEW_BROADCASTS},
    {"fil", "Div $", OVER_POSITIVE},
    {"f", "Pow $", OVER_POSITIVE},
    {"fi", "Max $", "5x33 5x33|5x1 1x33|5x33 5x33 5x33|5x33 33 ."},
    {"fi", "Min $", "5x33 5x33|5x1 1x33|5x33 5x33 5x33|5x33 33 ."},
    {"fil", "Equal $", FEW_BROADCASTS},
    {"fi", "Less $", FEW_BROADCASTS},
    {"f", "Greater $", FEW_BROADCASTS},
    {"il", "Mod $", "5x33 +33|65 +65"},
    {"f", "PRelu $", "5x33 *33|5x33 *1|2x3x5x7 *3x1x1"},
    {"b", "$ b:5x33 b:33", "And|Or|Xor"},
    {"b", "Not b:5x33", NULL},
    {"fil", "Where $", "b:5x33 5x33 5x33|b:5x1 1x33 .|b:33 5x33 5x1|b:0x3 0x3 3"},
    {"hil", "Cast 5x33 to=1", NULL},
    {"fil", "Cast ~5x33 to=10", NULL},
    {"fhl", "Cast ~5x33 to=6", NULL},
    {"fi", "Cast ~5x33 to=7", NULL},
    {"fil", "Cast ~5x33 to=9", NULL},
    {"f", "Transpose 2x3x5 perm=[$]", "0,2,1|1,0,2|1,2,0|2,0,1|2,1,0"},
    {"f", "Transpose 2x5x33x7 perm=[$]", "0,2,3,1|0,3,1,2|3,2,1,0|0,1,3,2|1,0,2,3"},
    {"hil", "Transpose 2x5x33x7 perm=[$]", "0,2,3,1|3,2,1,0"},
    {"fi", "Transpose $ perm=[1,0]", "33x65|64x32|1x5|0x3"},
    {"f", "Transpose 2x3x2x5x7 perm=[$]", "0,4,1,2,3|4,3,2,1,0"},
    {"f", "Concat 2x3x5 2x3x5 axis=$", "0|1|2|-1"},
    {"fil", "Concat $ axis=1", "2x33 2x1 2x5|2x0 2x3|2x3 2x3 2x3 2x3 2x3"},
    {"fi", "Split $",
     "6x33 axis=0 num_outputs=3 >3|5x33 i[1,4] axis=0 >2|5x33 i[16,17] axis=1 >2|3x7x5 axis=1 num_outputs=2 >2"},
    {"f", "Slice 5x33 $",
     "i[1] i[4] i[0]|i[2] i[30] i[1] i[3]|i[-1] i[-34] i[1] i[-1]|i[0,1] i[5,-1] i[0,1] i[2,2]|i[3] i[3] i[0]|i[-3] i[1000] i[1]"},
    {"hil", "Slice 5x33 $", "i[2] i[30] i[1] i[3]|i[-1] i[-34] i[1] i[-1]"},
    {"f", "Pad 3x5 $", "i[1,2,0,3]|i[1,2,0,3] t(2)|i[0,-1,1,-2]|i[1,2,1,2] - mode=reflect|i[1,2,0,3] - mode=edge"},
    {"f", "Pad 1x33x5x7 $", "i[0,0,1,1,0,0,1,1]|i[0,0,2,1,0,0,0,3] - mode=reflect|i[0,0,2,1,0,0,0,3] - mode=edge"},
    {"f", "Gather $",
     "5x33 i5:7 axis=0|5x33 i33:2x3 axis=1|5x33 i[-1,0,-5] axis=0|5x33 i(2) axis=0|3x5x7 i5:2 axis=1|5x33 i5:0 axis=0"},
    {"hil", "Gather 5x33 i33:2x3 axis=1", NULL},
    {"fi", "GatherElements 5x33 $", "i5:3x33 axis=0|i33:5x7 axis=1"},
    {"fi", "GatherND $", "5x33 i5:4x1|5x7x3 i3:4x3"},
    {"fi", "ScatterElements 5x33 $", "i5:1x33 1x33 axis=0|i33:5x1 5x1 axis=1"},
    {"fi", "ScatterND 5x33 $", "i5:1x1 1x33|i5:1x2 1"},
    {"fil", "Expand $", "5x1 i[5,33]|. i[3,5]|3x1 i[1,4]|1x33 i[0,33]"},
    {"f", "Tile $", "2x3 i[2,3]|5x33 i[3,1]|3 i[0]|2x1x5 i[1,3,2]"},
    {"fi", "Reshape 2x3x5 i[$]", "0,-1|30|5,1,6"},
    {"fi", "Unsqueeze 5x3 i[$]", "1|0,3"},
    {"f", "Resize 1x3x8x9 - f[1,1,2,2] $",
     "mode=nearest|mode=linear|mode=cubic|mode=linear coordinate_transformation_mode=align_corners|mode=linear coordinate_transformation_mode=asymmetric|"
     "mode=nearest nearest_mode=floor coordinate_transformation_mode=asymmetric"},
    {"f", "Resize 1x3x8x9 $",
     "- f[1,1,0.5,0.5] mode=linear|- f[1,1,1.5,2.5] mode=nearest|- - i[1,3,5,7] mode=linear|- - i[1,3,16,5] mode=nearest"},
    {"f", "DepthToSpace 1x$ blocksize=2", "8x3x5|12x3x5 mode=CRD|132x4x4"},
    {"f", "SpaceToDepth 1x$ blocksize=2", "3x6x4|33x4x4"},
    {"fi", "CumSum 5x33 $", "i(0)|i(1)|i(1) exclusive=1|i(1) reverse=1"},
    {"fl", "TopK ~5x33 $ >2", "i[1]|i[4] axis=0|i[7] largest=0|i[33]"},
    {"f", "OneHot i5:7 i(5) t[0,1] axis=$", "-1|0"},
    {"fl", "Trilu 5x7 $", "i(0)|i(-2) upper=0"},
    {"f", "Einsum $",
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
