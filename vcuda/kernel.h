/* Kernels of ORT's CUDA EP, recognised by their names. A form is a template, such as _UnaryElementWise. A kernel is an instance of a
 * form, with types parsed from its name. A launch is a call of a kernel with arguments. Each family of forms has its own file. */
#ifndef VCUDA_KERNEL_H
#define VCUDA_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "number.h"
#include "work.h"

enum { VCUDA_MAX_ARGUMENTS = 32, VCUDA_MAX_TYPES = 16 };

typedef struct vcuda_launch vcuda_launch;

typedef struct vcuda_form {
  const char *name; /* the function's name, after its last "::" */
  /* A letter for each parameter: p pointer or reference, n whole number or bool, v number of any type, d DivMod<int>, a array
   * passed by value (TArray), o object. A kernel with other parameters does not match; it may be of another release. */
  const char *parameters;
  void (*run)(const vcuda_launch *launch);
  bool (*accepts)(vcuda_kernel *kernel); /* NULL: every instance is accepted; the function may set `detail` */
} vcuda_form;

/* The families; each ends with an entry without a name. */
extern const vcuda_form vcuda_elementwise_forms[], vcuda_move_forms[], vcuda_pad_forms[], vcuda_index_forms[],
    vcuda_reduce_forms[], vcuda_norm_forms[], vcuda_scan_forms[], vcuda_make_forms[], vcuda_top_forms[], vcuda_resize_forms[],
    vcuda_quantize_forms[], vcuda_rotary_forms[], vcuda_gqa_forms[], vcuda_flash_forms[], vcuda_nbits_forms[],
    vcuda_efficient_forms[], vcuda_heads_forms[], vcuda_masks_forms[], vcuda_scores_forms[], vcuda_embed_forms[],
    vcuda_pool_forms[], vcuda_sequence_forms[], vcuda_sample_forms[], vcuda_antialias_forms[], vcuda_sort_forms[],
    vcuda_suppress_forms[], vcuda_deform_forms[], vcuda_random_forms[];

/* A parameter, or an argument of the template. `type` is that of a number, of a pointer's elements or of an array's items. */
typedef struct vcuda_part {
  char kind;       /* as in `parameters`; of a template's argument: t a type, n a number, o anything else */
  vcuda_type type; /* VCUDA_NO_TYPE: not a number's */
  bool pointers;   /* the items of an array are pointers */
  size_t size;     /* in bytes; of the element that a pointer points to, if that has no type */
  int64_t value;   /* a number's, or the first of an object's numbers */
  char *text;      /* as written in the name, without `const` after a type */
} vcuda_part;

struct vcuda_kernel {
  char *mangled, *name, *text;
  const vcuda_form *form;
  const void *detail; /* result of `accepts` */
  int type_count, argument_count;
  vcuda_part types[VCUDA_MAX_TYPES], arguments[VCUDA_MAX_ARGUMENTS];
  size_t offsets[VCUDA_MAX_ARGUMENTS]; /* of the arguments among the copied bytes */
  size_t bytes;
  vcuda_kernel *next;
};

struct vcuda_launch {
  const vcuda_kernel *kernel;
  unsigned grid[3], block[3];
  _Alignas(16) char arguments[]; /* vcuda_kernel.bytes of them */
};

/* ---- how a form's `run` reads its arguments; `i` counts from 0 ---- */

const void *vcuda_argument(const vcuda_launch *launch, int i);
int64_t vcuda_integer(const vcuda_launch *launch, int i);      /* n, and the divisor of a d */
vcuda_number vcuda_scalar(const vcuda_launch *launch, int i);  /* n and v */
double vcuda_real(const vcuda_launch *launch, int i);          /* the same as a double */
void *vcuda_address(const vcuda_launch *launch, int i);        /* p */
int vcuda_items(const vcuda_launch *launch, int i);            /* a: how many are in use */
int64_t vcuda_item(const vcuda_launch *launch, int i, int at); /* a of numbers or of DivMod */
void *vcuda_item_address(const vcuda_launch *launch, int i, int at);
vcuda_type vcuda_type_of(const vcuda_launch *launch, int i);
size_t vcuda_size_of(const vcuda_launch *launch, int i); /* p: of an element */

/* The first `count` elements that a pointer points to. NULL: they are not accessible, and the work has failed. */
const void *vcuda_input(const vcuda_launch *launch, int i, int64_t count);
void *vcuda_output(const vcuda_launch *launch, int i, int64_t count);

/* The offset in a strided tensor for an element of an output without gaps. The output element's coordinates, computed by an array of
 * DivMod (the output's strides), are multiplied by the tensor's strides. An empty array means the output's own order. */
typedef struct vcuda_strides {
  int rank;
  int64_t divisors[8], strides[8];
} vcuda_strides;

vcuda_strides vcuda_read_strides(const vcuda_launch *launch, int strides, int divisors);
int64_t vcuda_offset(const vcuda_strides *strides, int64_t id);
int64_t vcuda_extent(const vcuda_strides *strides, int64_t count); /* one more than the largest offset of `count` elements */

/* An argument of the template. */
bool vcuda_flag(const vcuda_kernel *kernel, int i);
bool vcuda_names(const vcuda_kernel *kernel, int i, const char *word); /* its text contains the word */

#endif
