/* Kernels that only move elements. Each kernel is a rule that maps an index in one tensor to a position in the other tensors. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

/* One side of a move is a single tensor, the `line`, traversed in its own order. The other side is one or more tensors. */
typedef struct move {
  const vcuda_launch *launch;
  size_t size; /* of an element */
  int64_t count;
  void *line;
  bool scatter; /* true: from the line to the others; false: from the others to the line */
  int others;
  void **other;
  const int64_t *ends; /* if tables define the others: the end of each along the axis */
  const int64_t *mapping, *lengths;
  vcuda_strides strides;
  int64_t numbers[4];
} move;

typedef struct place {
  int other; /* -1: nowhere; the line gets a zero */
  int64_t index;
} place;

typedef place (*rule)(const move *m, int64_t id);

typedef struct extent {
  int64_t first, last;
  char *data;
} extent;

static bool reach(const move *m, extent *extents) {
  for (int i = 0; i < m->others; i++) {
    if (extents[i].last < extents[i].first) continue; /* no element of this tensor is moved */
    char *address = (char *)m->other[i] + extents[i].first * (int64_t)m->size;
    size_t bytes = (size_t)(extents[i].last - extents[i].first + 1) * m->size;
    const void *data = m->scatter ? vcuda_writes(address, bytes) : vcuda_reads(address, bytes);
    if (data == NULL) return false;
    memcpy(&extents[i].data, &data, sizeof data);
  }
  return true;
}

static void move_elements(const move *m, rule where, const extent *extents, char *line) {
  for (int64_t id = 0; id < m->count; id++) {
    place at = where(m, id);
    char *here = line + id * (int64_t)m->size;
    char *there = at.other < 0 ? NULL : extents[at.other].data + (at.index - extents[at.other].first) * (int64_t)m->size;
    if (there == NULL) {
      memset(here, 0, m->size);
    } else if (m->scatter) {
      memcpy(there, here, m->size);
    } else {
      memcpy(here, there, m->size);
    }
  }
}

/* The rule is evaluated twice. The first pass finds the accessed part of each tensor, so that only this part is checked and recorded. */
static void run_move(const move *m, rule where) {
  if (m->count <= 0) return;
  extent *extents = calloc((size_t)m->others, sizeof *extents);
  if (extents == NULL) {
    vcuda_fail(2, "%s: no memory on the host", vcuda_kernel_name(m->launch->kernel));
    return;
  }
  for (int i = 0; i < m->others; i++) extents[i] = (extent){.first = INT64_MAX, .last = INT64_MIN};
  bool inside = true;
  for (int64_t id = 0; id < m->count && inside; id++) {
    place at = where(m, id);
    inside = at.other < m->others;
    if (at.other < 0 || !inside) continue;
    extent *e = &extents[at.other];
    if (at.index < e->first) e->first = at.index;
    if (at.index > e->last) e->last = at.index;
  }
  size_t bytes = (size_t)m->count * m->size;
  const void *line = m->scatter ? vcuda_reads(m->line, bytes) : vcuda_writes(m->line, bytes);
  char *line_bytes;
  memcpy(&line_bytes, &line, sizeof line);
  if (!inside) {
    vcuda_fail(719, "%s: an index leads to tensor %d or beyond", vcuda_kernel_name(m->launch->kernel), m->others);
  } else if (line != NULL && reach(m, extents)) {
    move_elements(m, where, extents, line_bytes);
  }
  free(extents);
}

/* The usual move, from one tensor to the tensor of parameter `out`, whose number of elements is parameter `count`. */
static move begin(const vcuda_launch *launch, int count, int out) {
  move m = {.launch = launch, .size = vcuda_size_of(launch, out), .count = vcuda_integer(launch, count)};
  m.line = vcuda_address(launch, out);
  return m;
}

static void run_from(move *m, int in, rule where) {
  void *other = vcuda_address(m->launch, in);
  m->others = 1;
  m->other = &other;
  run_move(m, where);
  m->other = NULL;
}

/* ---- expand, transpose, slice ---- */

static place by_strides(const move *m, int64_t id) {
  return (place){0, vcuda_offset(&m->strides, id)};
}

static place by_row_and_column(const move *m, int64_t id) {
  return (place){0, id / m->numbers[0] * m->numbers[1] + id % m->numbers[0] * m->numbers[2]};
}

/* (N, in, out, columns, row stride, column stride) */
static void run_expand_2d(const vcuda_launch *launch) {
  move m = begin(launch, 0, 2);
  for (int i = 0; i < 3; i++) m.numbers[i] = vcuda_integer(launch, 3 + i);
  run_from(&m, 1, by_row_and_column);
}

/* (rank, N, in, out, output strides, input strides) */
static void run_expand(const vcuda_launch *launch) {
  move m = begin(launch, 1, 3);
  m.strides = vcuda_read_strides(launch, 5, 4);
  run_from(&m, 2, by_strides);
}

/* (rank, input strides, in, output strides, out, N) */
static void run_transpose(const vcuda_launch *launch) {
  move m = begin(launch, 5, 4);
  m.strides = vcuda_read_strides(launch, 1, 3);
  run_from(&m, 2, by_strides);
}

static place by_matrix(const move *m, int64_t id) {
  int64_t rows = m->numbers[0], columns = m->numbers[1], inside = id % (rows * columns);
  return (place){0, id - inside + inside % rows * columns + inside / rows};
}

/* (rows, columns, rows * columns, in, out): a matrix for each z of the grid */
static void run_transpose_3d(const vcuda_launch *launch) {
  move m = {.launch = launch, .size = vcuda_size_of(launch, 4), .line = vcuda_address(launch, 4)};
  for (int i = 0; i < 2; i++) m.numbers[i] = vcuda_integer(launch, i);
  m.count = m.numbers[0] * m.numbers[1] * launch->grid[2];
  run_from(&m, 3, by_matrix);
}

/* (out, in, columns, rows): float16, which cuBLAS does not transpose */
static void run_transpose_2d(const vcuda_launch *launch) {
  move m = {.launch = launch, .size = vcuda_size_of(launch, 0), .line = vcuda_address(launch, 0)};
  for (int i = 0; i < 2; i++) m.numbers[i] = vcuda_integer(launch, 3 - i);
  m.count = m.numbers[0] * m.numbers[1];
  run_from(&m, 1, by_matrix);
}

/* The other transposes of rank 4: a thread for each element, or for each 16 bytes of the last dimension. A thread moves `packed`
 * elements. The strides of the first three dims count elements. */
static void copy_4d(const vcuda_launch *launch, size_t unit, int64_t packed, int64_t rows, int64_t count) {
  char *out_data = vcuda_output(launch, 3, count * (int64_t)unit);
  const char *in_data = vcuda_input(launch, 1, count * (int64_t)unit);
  int64_t d[4];
  if (in_data == NULL || out_data == NULL) return;
  for (d[0] = 0; d[0] < launch->grid[2]; d[0]++) {
    for (d[1] = 0; d[1] < launch->grid[1]; d[1]++) {
      for (d[2] = 0; d[2] < rows; d[2]++) {
        for (d[3] = 0; d[3] < launch->block[0]; d[3]++) {
          int64_t in = 0, out = 0;
          for (int i = 0; i < 3; i++) in += d[i] * vcuda_item(launch, 0, i), out += d[i] * vcuda_item(launch, 2, i);
          in = in / packed + d[3] * vcuda_item(launch, 0, 3);
          out = out / packed + d[3] * vcuda_item(launch, 2, 3);
          if (in < count && out < count) memcpy(out_data + out * (int64_t)unit, in_data + in * (int64_t)unit, unit);
        }
      }
    }
  }
}

static int64_t rows_of(const vcuda_launch *launch, int64_t rows) {
  int64_t threads = (int64_t)launch->grid[0] * launch->block[1];
  return threads < rows ? threads : rows;
}

/* <element size>(input strides, in, output strides, out, rows, N of 16 bytes) */
static void run_transpose_4d_packed(const vcuda_launch *launch) {
  copy_4d(launch, 16, 16 / launch->kernel->types[0].value, rows_of(launch, vcuda_integer(launch, 4)), vcuda_integer(launch, 5));
}

/* (input strides, in, output strides, out, element size, rows, N) */
static void run_transpose_4d(const vcuda_launch *launch) {
  copy_4d(launch, (size_t)vcuda_integer(launch, 4), 1, rows_of(launch, vcuda_integer(launch, 5)), vcuda_integer(launch, 6));
}

static bool moves_bytes(vcuda_kernel *kernel) { /* `void *`: the copy counts in bytes */
  kernel->arguments[1].size = kernel->arguments[3].size = 1;
  return true;
}

static place by_slice(const move *m, int64_t id) {
  const vcuda_launch *launch = m->launch;
  int rank = (int)m->numbers[0];
  int64_t index = 0;
  for (int i = 0; i < rank - 1; i++) {
    index += (vcuda_item(launch, 0, i) + id / vcuda_item(launch, 3, i) * vcuda_item(launch, 1, i)) * vcuda_item(launch, 2, i);
    id %= vcuda_item(launch, 3, i);
  }
  return (place){0, index + vcuda_item(launch, 0, rank - 1) + id * vcuda_item(launch, 1, rank - 1)};
}

/* <gradient, rank, T>(starts, steps, input strides, output strides, in, out, N) */
static void run_slice(const vcuda_launch *launch) {
  move m = begin(launch, 6, 5);
  m.numbers[0] = launch->kernel->types[1].value;
  run_from(&m, 4, by_slice);
}

static bool is_forward(vcuda_kernel *kernel) {
  return !vcuda_flag(kernel, 0) && kernel->types[1].value > 0;
}

/* ---- concat and split; sizes: of a block with the axis, of a block without it, and of one tensor along the axis ---- */

static place by_equal_parts(const move *m, int64_t id) {
  int64_t outer = id / m->numbers[0], offset = id % m->numbers[0], along = offset / m->numbers[1];
  int64_t index = (outer * m->numbers[2] + along % m->numbers[2]) * m->numbers[1] + offset % m->numbers[1];
  return (place){(int)(along / m->numbers[2]), index};
}

/* Tables in device memory give the tensor of each position along the axis, and the length and end of each tensor. */
static place by_tables(const move *m, int64_t id) {
  int64_t outer = id / m->numbers[0], offset = id % m->numbers[0], along = offset / m->numbers[1];
  int64_t other = m->mapping[along];
  if (other < 0 || other >= m->others) return (place){m->others, 0};
  int64_t inside = along - (other == 0 ? 0 : m->ends[other - 1]);
  return (place){(int)other, (outer * m->lengths[other] + inside) * m->numbers[1] + offset % m->numbers[1]};
}

static place by_ends(const move *m, int64_t id) {
  int64_t outer = id / m->numbers[0], offset = id % m->numbers[0], along = offset / m->numbers[1], begin_at = 0;
  for (int other = 0; other < m->others; other++) {
    int64_t end = m->ends[other];
    if (along < end) {
      return (place){other, (outer * (end - begin_at) + along - begin_at) * m->numbers[1] + offset % m->numbers[1]};
    }
    begin_at = end;
  }
  return (place){m->others, 0};
}

/* Addresses of tensors: an array in the launch, or `count` pointers in device memory. */
static bool read_addresses(move *m, int parameter, int64_t count, void *addresses[32]) {
  if (m->launch->kernel->arguments[parameter].kind == 'a') {
    m->others = vcuda_items(m->launch, parameter);
    m->other = addresses;
    for (int i = 0; i < m->others && i < 32; i++) addresses[i] = vcuda_item_address(m->launch, parameter, i);
    return m->others > 0 && m->others <= 32;
  }
  const void *table = vcuda_reads(vcuda_address(m->launch, parameter), (size_t)count * sizeof(void *));
  memcpy(&m->other, &table, sizeof table);
  m->others = (int)count;
  return table != NULL;
}

static void run_parts(const vcuda_launch *launch, int line, int others, int count, bool scatter) {
  void *addresses[32];
  move m = begin(launch, count, line);
  m.scatter = scatter;
  for (int i = 0; i < 3; i++) m.numbers[i] = vcuda_integer(launch, i);
  if (read_addresses(&m, others, m.numbers[0] / m.numbers[1] / m.numbers[2], addresses)) run_move(&m, by_equal_parts);
}

/* (with axis, without, along, out, inputs, N) */
static void run_concat_same(const vcuda_launch *launch) {
  run_parts(launch, 3, 4, 5, false);
}

/* (with axis, without, along, outputs' number, in, outputs, N) */
static void run_split_same(const vcuda_launch *launch) {
  run_parts(launch, 4, 5, 6, true);
}

static void run_tables(const vcuda_launch *launch, int line, int others, int count, bool scatter) {
  move m = begin(launch, count, line);
  m.scatter = scatter;
  for (int i = 0; i < 2; i++) m.numbers[i] = vcuda_integer(launch, i);
  int64_t along = m.numbers[0] / m.numbers[1], tensors = 0;
  m.mapping = vcuda_input(launch, 4, along);
  if (m.mapping == NULL) return;
  for (int64_t i = 0; i < along; i++) tensors = m.mapping[i] >= tensors ? m.mapping[i] + 1 : tensors;
  m.lengths = vcuda_input(launch, 2, tensors);
  m.ends = vcuda_input(launch, 3, tensors);
  if (m.lengths != NULL && m.ends != NULL && read_addresses(&m, others, tensors, NULL)) run_move(&m, by_tables);
}

/* (with axis, without, lengths, ends, mapping, out, inputs, N) */
static void run_concat(const vcuda_launch *launch) {
  run_tables(launch, 5, 6, 7, false);
}

/* (with axis, without, lengths, ends, mapping, outputs' number, in, outputs, N) */
static void run_split(const vcuda_launch *launch) {
  run_tables(launch, 6, 7, 8, true);
}

/* (with axis, without, ends, out, inputs, N) */
static void run_concat_ends(const vcuda_launch *launch) {
  void *addresses[32];
  int64_t ends[32];
  move m = begin(launch, 5, 3);
  m.ends = ends;
  for (int i = 0; i < 2; i++) m.numbers[i] = vcuda_integer(launch, i);
  if (!read_addresses(&m, 4, 0, addresses)) return;
  for (int i = 0; i < m.others; i++) ends[i] = vcuda_item(launch, 2, i);
  run_move(&m, by_ends);
}

/* (inputs, blocks' ends, output offsets, input pitches, outer count, output pitch, out): an input is copied row by row. */
static void run_concat_rows(const vcuda_launch *launch) {
  size_t size = vcuda_size_of(launch, 6);
  int64_t rows = vcuda_integer(launch, 4), pitch = vcuda_integer(launch, 5);
  char *out = vcuda_output(launch, 6, rows * pitch);
  for (int input = 0; out != NULL && input < vcuda_items(launch, 0); input++) {
    size_t bytes = (size_t)vcuda_item(launch, 3, input) * size;
    const char *in = vcuda_reads(vcuda_item_address(launch, 0, input), bytes * (size_t)rows);
    if (in == NULL) return;
    for (int64_t row = 0; row < rows; row++) {
      memcpy(out + (row * pitch + vcuda_item(launch, 2, input)) * (int64_t)size, in + (size_t)row * bytes, bytes);
    }
  }
}

/* <T>(sizes, in, outputs, inner size, N): sizes are in bytes, and N counts elements of the size of T. */
static void run_split_inner(const vcuda_launch *launch) {
  int64_t unit = launch->kernel->types[0].value, inner = vcuda_integer(launch, 3);
  int64_t bytes = vcuda_integer(launch, 4) * unit, rows = inner == 0 ? 0 : bytes / inner, start = 0;
  const char *in = vcuda_reads(vcuda_address(launch, 1), (size_t)bytes);
  for (int output = 0; in != NULL && output < vcuda_items(launch, 0); output++) {
    int64_t size = vcuda_item(launch, 0, output);
    char *out = vcuda_writes(vcuda_item_address(launch, 2, output), (size_t)(size * rows));
    if (out == NULL) return;
    for (int64_t row = 0; row < rows; row++) memcpy(out + row * size, in + row * inner + start, (size_t)size);
    start += size;
  }
}

static bool has_unit(vcuda_kernel *kernel) {
  vcuda_part *unit = &kernel->types[0];
  unit->value = strcmp(unit->text, "int4") == 0 ? 16 : (int64_t)vcuda_type_size(unit->type);
  return unit->value != 0;
}

/* ---- tile ---- */

static place by_repetition(const move *m, int64_t id) {
  return (place){0, id % m->numbers[0]};
}

/* (in, out, input's elements, N) */
static void run_tile_from_output(const vcuda_launch *launch) {
  move m = begin(launch, 3, 1);
  m.numbers[0] = vcuda_integer(launch, 2);
  run_from(&m, 0, by_repetition);
}

/* (in, out, N of the input, repeats) */
static void run_tile_from_input(const vcuda_launch *launch) {
  move m = begin(launch, 2, 1);
  m.numbers[0] = m.count;
  m.count *= vcuda_integer(launch, 3);
  run_from(&m, 0, by_repetition);
}

static place by_batched_repetition(const move *m, int64_t id) {
  int64_t row = id / m->numbers[0] % m->numbers[2];
  return (place){0, row * m->numbers[1] + id % m->numbers[0] % m->numbers[3]};
}

/* (in, out, output's row, input's row, batch, input's row, N) */
static void run_tile_batched_from_output(const vcuda_launch *launch) {
  move m = begin(launch, 6, 1);
  for (int i = 0; i < 4; i++) m.numbers[i] = vcuda_integer(launch, 2 + i);
  run_from(&m, 0, by_batched_repetition);
}

/* (in, out, input's row, input's row, output's row, output's batch, repeats of a batch, repeats of a row, N of the input) */
static void run_tile_batched_from_input(const vcuda_launch *launch) {
  int64_t row = vcuda_integer(launch, 2), inputs = vcuda_integer(launch, 8);
  move m = {.launch = launch, .size = vcuda_size_of(launch, 1), .line = vcuda_address(launch, 1)};
  m.count = inputs * vcuda_integer(launch, 6) * vcuda_integer(launch, 7);
  m.numbers[0] = vcuda_integer(launch, 4);
  m.numbers[1] = m.numbers[3] = row;
  m.numbers[2] = row == 0 ? 0 : inputs / row;
  run_from(&m, 0, by_batched_repetition);
}

static place by_tiled_coordinates(const move *m, int64_t id) {
  int64_t index = 0;
  for (int i = 0; i < vcuda_items(m->launch, 2); i++) {
    int64_t stride = vcuda_item(m->launch, 4, i);
    index += id / stride % vcuda_item(m->launch, 1, i) * vcuda_item(m->launch, 2, i);
    id %= stride;
  }
  return (place){0, index};
}

/* (rank, input's dims, input strides, in, output strides, out, N) */
static void run_tile(const vcuda_launch *launch) {
  move m = begin(launch, 6, 5);
  run_from(&m, 3, by_tiled_coordinates);
}

/* ---- gather along an axis ---- */

static int64_t read_index(const void *indices, int64_t size, int64_t at) {
  return vcuda_load(size == 4 ? VCUDA_INT32 : VCUDA_INT64, indices, at).whole;
}

static place by_index(const move *m, int64_t id) {
  const vcuda_launch *launch = m->launch;
  int64_t rest = id % m->numbers[0], inner = m->numbers[1], most = vcuda_integer(launch, 1);
  int64_t index = read_index(m->mapping, vcuda_integer(launch, 5), rest / inner);
  index += index < 0 ? most : 0;
  if (index < 0 || index >= most) return (place){-1, 0};
  return (place){0, id / m->numbers[0] * vcuda_integer(launch, 0) + index * inner + rest % inner};
}

/* (input's block, dim of the axis, output's block, inner size, indices, index size, in, out, N) */
static void run_gather(const vcuda_launch *launch) {
  move m = begin(launch, 8, 7);
  for (int i = 0; i < 2; i++) m.numbers[i] = vcuda_integer(launch, 2 + i);
  int64_t indices = m.numbers[0] / m.numbers[1];
  m.mapping = m.count == 0 ? NULL : vcuda_reads(vcuda_address(launch, 4), (size_t)(indices * vcuda_integer(launch, 5)));
  if (m.mapping != NULL) run_from(&m, 6, by_index);
}

/* ---- a diagonal: two dims become one ---- */

static place by_diagonal(const move *m, int64_t id) {
  const vcuda_launch *launch = m->launch;
  int64_t index = 0, axis = 0;
  for (int i = 0; i < (int)m->numbers[0] - 1; i++) {
    int64_t stride = vcuda_item(launch, 6, i), at = id / stride;
    id %= stride;
    if (axis == m->numbers[2]) axis++;
    if (i == m->numbers[1]) index += at * vcuda_item(launch, 4, (int)m->numbers[2]);
    index += at * vcuda_item(launch, 4, (int)axis++);
  }
  return (place){0, index};
}

/* (in, rank, first dim, second dim, input strides, out, output strides, N) */
static void run_diagonal(const vcuda_launch *launch) {
  move m = begin(launch, 7, 5);
  for (int i = 0; i < 3; i++) m.numbers[i] = vcuda_integer(launch, 1 + i);
  run_from(&m, 0, by_diagonal);
}

/* ---- the triangle of a matrix ---- */

static place by_triangle(const move *m, int64_t id) {
  int64_t row = id % m->numbers[0] / m->numbers[1], column = id % m->numbers[1];
  bool keep = m->numbers[3] ? row + m->numbers[2] <= column : row + m->numbers[2] >= column;
  return (place){keep ? 0 : -1, id};
}

/* <T, upper>(k, in, out, N, matrix, columns) */
static void run_triangle(const vcuda_launch *launch) {
  move m = begin(launch, 3, 2);
  for (int i = 0; i < 2; i++) m.numbers[i] = vcuda_integer(launch, 4 + i);
  m.numbers[2] = vcuda_integer(launch, 0);
  m.numbers[3] = vcuda_flag(launch->kernel, 1);
  run_from(&m, 1, by_triangle);
}

const vcuda_form vcuda_move_forms[] = {
    {"ExpandKernel2D", "nppdnn", run_expand_2d, NULL},
    {"ExpandKernel", "nnppaa", run_expand, NULL},
    {"TransposeKernel", "napapn", run_transpose, NULL},
    {"Transpose3DKernel", "nnnpp", run_transpose_3d, NULL},
    {"transposeNoOverlap", "ppnn", run_transpose_2d, NULL},
    {"Transpose4DKernelParallelizeMultipleElementsPerThreadInInnermostDim", "apapnn", run_transpose_4d_packed, moves_bytes},
    {"Transpose4DKernelParallelizeOneElementPerThread", "apapnnn", run_transpose_4d, NULL},
    {"_SliceKernel", "aaaappn", run_slice, is_forward},
    {"_ConcatKernelSameConcatDim", "dddpan", run_concat_same, NULL},
    {"_ConcatKernelSameConcatDim", "dddppn", run_concat_same, NULL},
    {"_ConcatKernel", "ddpppppn", run_concat, NULL},
    {"_ConcatKernelOutputMajor", "ddapan", run_concat_ends, NULL},
    {"_ConcatKernelInputMajor", "aaaannp", run_concat_rows, NULL},
    {"_SplitKernelSameSplitDim", "dddnpan", run_split_same, NULL},
    {"_SplitKernelSameSplitDim", "dddnppn", run_split_same, NULL},
    {"_SplitKernel", "ddpppnppn", run_split, NULL},
    {"_SplitSmallInnerKernel", "apann", run_split_inner, has_unit},
    {"_TileMemcpyKernelFromOutput", "ppdn", run_tile_from_output, NULL},
    {"_TileMemcpyKernelFromInput", "ppnn", run_tile_from_input, NULL},
    {"_TileBatchedMemcpyKernelFromOutput", "ppdnddn", run_tile_batched_from_output, NULL},
    {"_TileBatchedMemcpyKernelFromInput", "ppdnnnnnn", run_tile_batched_from_input, NULL},
    {"_UnRolledTileKernel", "naapapn", run_tile, NULL},
    {"_GatherKernel", "nnddpnppn", run_gather, NULL},
    {"_DiagonalKernel", "pnnnapan", run_diagonal, NULL},
    {"TriluKernel", "nppndd", run_triangle, NULL},
    {.name = NULL},
};
