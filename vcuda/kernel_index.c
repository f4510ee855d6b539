/* Gather and scatter by tensors of indices. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* ---- how an update changes the old element ---- */

typedef enum update { ASSIGN, ADD, MULTIPLY, LEAST, GREATEST, NO_UPDATE } update;

static update update_of(const vcuda_kernel *kernel) {
  static const struct {
    const char *name;
    update kind;
  } updates[] = {
      {"FuncAssignment<", ASSIGN}, {"FuncAdd<", ADD}, {"FuncMul<", MULTIPLY}, {"FuncMin<", LEAST}, {"FuncMax<", GREATEST}};
  for (int i = 0; i < kernel->type_count; i++) {
    for (size_t at = 0; at < sizeof updates / sizeof *updates; at++) {
      if (vcuda_names(kernel, i, updates[at].name)) return updates[at].kind;
    }
  }
  return NO_UPDATE;
}

static bool updates(vcuda_kernel *kernel) {
  return update_of(kernel) != NO_UPDATE;
}

static double combine_reals(update how, double old, double new) {
  switch (how) {
    case ADD: return old + new;
    case MULTIPLY: return old * new;
    case LEAST: return isnan(old) || old < new ? old : new;
    case GREATEST: return isnan(old) || old > new ? old : new;
    default: return new;
  }
}

static int64_t combine_wholes(update how, bool without_sign, int64_t old, int64_t new) {
  bool less = without_sign ? (uint64_t)old < (uint64_t) new : old < new;
  switch (how) {
    case ADD: return (int64_t)((uint64_t)old + (uint64_t) new);
    case MULTIPLY: return (int64_t)((uint64_t)old * (uint64_t) new);
    case LEAST: return less ? old : new;
    case GREATEST: return less ? new : old;
    default: return new;
  }
}

static void apply(update how, vcuda_type type, size_t size, char *to, const char *from) {
  if (how == ASSIGN || type == VCUDA_NO_TYPE) {
    memcpy(to, from, size);
    return;
  }
  vcuda_number old = vcuda_load(type, to, 0), new = vcuda_load(type, from, 0);
  if (vcuda_type_is_float(type)) {
    new.real = combine_reals(how, old.real, new.real);
  } else {
    new.whole = combine_wholes(how, type == VCUDA_UINT64, old.whole, new.whole);
  }
  vcuda_store(type, to, 0, new);
}

/* ---- GatherND: one kernel computes the offsets of the slices, another one copies them ---- */

/* (batch dims, input's dims, slices, slices of a batch, batch's stride, dims of an index, elements after each dim, indices,
 * out) */
static void run_slice_offsets(const vcuda_launch *launch) {
  int64_t batch_dims = vcuda_integer(launch, 0), slices = vcuda_integer(launch, 2), dims = vcuda_integer(launch, 5);
  const void *indices = vcuda_input(launch, 7, slices * dims);
  int64_t *offsets = vcuda_output(launch, 8, slices);
  for (int64_t slice = 0; indices != NULL && offsets != NULL && slice < slices; slice++) {
    int64_t offset = slice / vcuda_integer(launch, 3) * vcuda_integer(launch, 4);
    for (int64_t i = 0; i < dims; i++) {
      int64_t index = vcuda_load(vcuda_type_of(launch, 7), indices, slice * dims + i).whole;
      index += index < 0 ? vcuda_item(launch, 1, (int)(batch_dims + i)) : 0;
      offset += index * vcuda_item(launch, 6, (int)i);
    }
    offsets[slice] = offset;
  }
}

/* (slices, in, out, slice's size, offsets) */
static void run_gather_slices(const vcuda_launch *launch) {
  int64_t slices = vcuda_integer(launch, 0), length = vcuda_integer(launch, 3), last = 0;
  size_t bytes = (size_t)length * vcuda_size_of(launch, 1);
  const int64_t *offsets = vcuda_input(launch, 4, slices);
  char *out = vcuda_output(launch, 2, slices * length);
  if (offsets == NULL || out == NULL) return;
  for (int64_t slice = 0; slice < slices; slice++) {
    if (offsets[slice] < 0) {
      vcuda_fail(700, "_GatherNDKernel: slice %lld begins %lld elements before its tensor", (long long)slice,
                 (long long)-offsets[slice]);
      return;
    }
    last = offsets[slice] > last ? offsets[slice] : last;
  }
  const char *in = vcuda_input(launch, 1, slices == 0 ? 0 : last + length);
  for (int64_t slice = 0; in != NULL && slice < slices; slice++) {
    memcpy(out + (size_t)slice * bytes, in + (size_t)offsets[slice] * vcuda_size_of(launch, 1), bytes);
  }
}

/* ---- ScatterND ---- */

/* The offset of an index of several dims: `sizes` has the number of elements for each step of a dim, then the dims. An index out of
 * range is clamped. */
static int64_t slice_offset(const int64_t *index, int64_t dims, const int64_t *sizes) {
  int64_t offset = 0;
  for (int64_t i = 0; i < dims; i++) {
    int64_t at = index[i], dim = sizes[dims + i];
    at += at < 0 ? dim : 0;
    at = at < 0 ? 0 : at >= dim ? dim - 1 : at;
    offset += at * sizes[i];
  }
  return offset;
}

/* (out, indices' number, indices, dims of an index, sizes, updates, slice's size[, functor]). The sizes are in the launch. If an index
 * has more than 6 dims, they are in the memory of the pointer at the end of that argument. */
static void run_scatter_slices(const vcuda_launch *launch) {
  update how = launch->kernel->argument_count == 7 ? ASSIGN : update_of(launch->kernel);
  int64_t slices = vcuda_integer(launch, 1), dims = vcuda_integer(launch, 3), length = vcuda_integer(launch, 6), last = 0;
  size_t size = vcuda_size_of(launch, 0);
  int64_t inside[13];
  memcpy(inside, vcuda_argument(launch, 4), sizeof inside);
  const int64_t *sizes = inside, *indices = vcuda_input(launch, 2, slices * dims);
  if (dims > 6) {
    void *table;
    memcpy(&table, &inside[12], sizeof table);
    sizes = vcuda_reads(table, (size_t)dims * 2 * sizeof *sizes);
  }
  const char *from = vcuda_input(launch, 5, slices * length);
  if (sizes == NULL || indices == NULL || from == NULL || slices == 0) return;
  for (int64_t slice = 0; slice < slices; slice++) {
    int64_t offset = slice_offset(indices + slice * dims, dims, sizes);
    last = offset > last ? offset : last;
  }
  char *out = vcuda_output(launch, 0, last + length);
  for (int64_t slice = 0; out != NULL && slice < slices; slice++) {
    char *to = out + (size_t)slice_offset(indices + slice * dims, dims, sizes) * size;
    for (int64_t i = 0; i < length; i++) {
      apply(how, vcuda_type_of(launch, 0), size, to + (size_t)i * size, from + (size_t)(slice * length + i) * size);
    }
  }
}

/* ---- GatherElements, ScatterElements ---- */

/* ORT's OffsetCalculator for the other coordinates: for any rank, or for two dims. */
typedef struct calculator {
  int32_t rank;
  int32_t divisors[25]; /* an array of DivMod: the number of items, then the items, each of which begins with its divisor */
  int32_t input_strides[9], index_strides[9];
} calculator;

typedef struct calculator_2d {
  int32_t row[3]; /* a DivMod */
  int32_t input_row;
  int32_t index_strides[9];
} calculator_2d;

typedef struct elements {
  calculator any;
  calculator_2d two;
  bool is_two, outer, strided;
} elements;

static elements read_calculator(const vcuda_launch *launch) {
  const vcuda_part *part = &launch->kernel->arguments[5];
  elements e = {.is_two = strstr(part->text, "OffsetCalculatorFor2D<") != NULL};
  if (e.is_two) {
    e.outer = strstr(part->text, "OffsetCalculatorFor2D<true") != NULL;
    e.strided = strstr(part->text, ", true>") != NULL;
    memcpy(&e.two, vcuda_argument(launch, 5), sizeof e.two);
  } else {
    e.strided = strstr(part->text, "OffsetCalculator<true>") != NULL;
    memcpy(&e.any, vcuda_argument(launch, 5), sizeof e.any);
  }
  return e;
}

static int64_t element_base(const elements *e, int64_t id, int64_t *index_at) {
  int64_t base = 0, at = 0;
  if (e->is_two) {
    int64_t row = id / e->two.row[0], column = id % e->two.row[0];
    at = row * e->two.index_strides[1] + column * e->two.index_strides[2];
    base = e->outer ? column : row * e->two.input_row;
  } else {
    int64_t rest = id;
    for (int i = 0; i < e->any.rank; i++) {
      int64_t divisor = e->any.divisors[1 + 3 * i];
      base += rest / divisor * e->any.input_strides[1 + i];
      at += rest / divisor * e->any.index_strides[1 + i];
      rest %= divisor;
    }
  }
  *index_at = e->strided ? at : id;
  return base;
}

/* -1: the index is out of range, and the element is not moved. */
static int64_t element_at(const vcuda_launch *launch, const elements *e, const char *indices, int64_t id) {
  int64_t index_at = 0, base = element_base(e, id, &index_at), dim = vcuda_integer(launch, 3);
  int64_t index = vcuda_load(vcuda_type_of(launch, 1), indices, index_at).whole;
  index += index < 0 ? dim : 0;
  return index < 0 || index >= dim ? -1 : base + index * vcuda_integer(launch, 4);
}

/* <T, index type, gathers, ...>(source, indices, out, dim of the axis, its stride, offset calculator, functor, N) */
static void run_elements(const vcuda_launch *launch) {
  update how = update_of(launch->kernel);
  vcuda_type type = vcuda_type_of(launch, 0);
  size_t size = vcuda_size_of(launch, 0);
  bool gathers = vcuda_flag(launch->kernel, 2);
  elements e = read_calculator(launch);
  int64_t count = vcuda_integer(launch, 7), index_last = -1, last = -1;
  for (int64_t id = 0; id < count; id++) {
    int64_t at = 0;
    (void)element_base(&e, id, &at);
    index_last = at > index_last ? at : index_last;
  }
  const char *indices = vcuda_input(launch, 1, index_last + 1);
  for (int64_t id = 0; indices != NULL && id < count; id++) {
    int64_t at = element_at(launch, &e, indices, id);
    last = at > last ? at : last;
  }
  const char *from = indices == NULL ? NULL : vcuda_input(launch, 0, gathers ? last + 1 : count);
  char *to = indices == NULL ? NULL : vcuda_output(launch, 2, gathers ? count : last + 1);
  for (int64_t id = 0; from != NULL && to != NULL && id < count; id++) {
    int64_t at = element_at(launch, &e, indices, id);
    if (at < 0) continue;
    apply(how, type, size, to + (size_t)(gathers ? id : at) * size, from + (size_t)(gathers ? at : id) * size);
  }
}

/* ---- TensorScatter: writes new tokens into a cache ---- */

/* <T, circular>(cache, update, first positions, lines, lines of a batch, cache's length, update's length, inner size, N) */
static void run_cache(const vcuda_launch *launch) {
  bool circular = vcuda_flag(launch->kernel, 1);
  int64_t lines = vcuda_integer(launch, 3), of_batch = vcuda_integer(launch, 4), room = vcuda_integer(launch, 5);
  int64_t length = vcuda_integer(launch, 6), inner = vcuda_integer(launch, 7), count = vcuda_integer(launch, 8);
  size_t bytes = (size_t)inner * vcuda_size_of(launch, 0);
  const int64_t *places = NULL;
  if (vcuda_address(launch, 2) != NULL && (places = vcuda_input(launch, 2, lines / of_batch)) == NULL) return;
  const char *tokens = vcuda_input(launch, 1, count);
  char *cache = vcuda_output(launch, 0, lines * room * inner);
  for (int64_t i = 0; tokens != NULL && cache != NULL && i < lines * length; i++) {
    int64_t line = i / length, place = (places == NULL ? 0 : places[line / of_batch]) + i % length;
    place = circular && room != 0 ? place % room : place;
    if (place < 0 || place >= room) {
      vcuda_fail(700, "_TensorScatterKernel: place %lld of a cache of %lld", (long long)place, (long long)room);
      return;
    }
    memcpy(cache + (size_t)(line * room + place) * bytes, tokens + (size_t)i * bytes, bytes);
  }
}

const vcuda_form vcuda_index_forms[] = {
    {"_ComputeSliceOffsetsKernel", "nannnnapp", run_slice_offsets, NULL},
    {"_GatherNDKernel", "nppnp", run_gather_slices, NULL},
    {"_ScatterNDKernel", "pnpnopn", run_scatter_slices, NULL},
    {"_ScatterNDKernelReduction", "pnpnopno", run_scatter_slices, updates},
    {"_GatherScatterElementsKernel", "pppnnoon", run_elements, updates},
    {"_TensorScatterKernel", "pppnnnnnn", run_cache, NULL},
    {.name = NULL},
};
