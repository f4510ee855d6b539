#define _POSIX_C_SOURCE 200809L /* strdup */

#include "kernel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names: demangled by libstdc++, which a process with ORT has loaded ---- */

typedef char *(*demangle_function)(const char *name, char *buffer, size_t *length, int *status);
static pthread_once_t demangler_once = PTHREAD_ONCE_INIT;
static demangle_function demangler;

static void find_demangler(void) {
  void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
  void *found = library == NULL ? NULL : dlsym(library, "__cxa_demangle");
  memcpy(&demangler, &found, sizeof found);
  if (found == NULL) {
    vcuda_log("vcuda: no kernel can be found: libstdc++.so.6 with __cxa_demangle, expected, is not there");
  }
}

static char *demangle(const char *mangled) {
  int status = 0;
  (void)pthread_once(&demangler_once, find_demangler);
  return demangler == NULL ? NULL : demangler(mangled, NULL, NULL, &status);
}

/* ---- parts of a name ---- */

static const struct {
  const char *name;
  vcuda_type type;
} type_names[] = {
    {"bool", VCUDA_BOOL},
    {"signed char", VCUDA_INT8},
    {"char", VCUDA_INT8},
    {"unsigned char", VCUDA_UINT8},
    {"short", VCUDA_INT16},
    {"unsigned short", VCUDA_UINT16},
    {"int", VCUDA_INT32},
    {"unsigned int", VCUDA_UINT32},
    {"long", VCUDA_INT64},
    {"unsigned long", VCUDA_UINT64},
    {"long long", VCUDA_INT64},
    {"unsigned long long", VCUDA_UINT64},
    {"float", VCUDA_FLOAT32},
    {"double", VCUDA_FLOAT64},
    {"__half", VCUDA_FLOAT16},
    {"__nv_bfloat16", VCUDA_BFLOAT16},
    {"onnxruntime::MLFloat16", VCUDA_FLOAT16},
    {"onnxruntime::BFloat16", VCUDA_BFLOAT16},
    {"onnxruntime::Float8E4M3FN", VCUDA_FLOAT8E4M3},
    {"onnxruntime::Float8E5M2", VCUDA_FLOAT8E5M2},
};

static vcuda_type type_of(const char *text) {
  for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
    if (strcmp(type_names[i].name, text) == 0) return type_names[i].type;
  }
  return VCUDA_NO_TYPE;
}

/* Sizes of objects whose types are not parsed. A functor is taken as empty unless its form's `accepts` sets another size. */
static const struct {
  const char *prefix;
  size_t size;
} objects[] = {
    {"int4", 16},
    {"float2", 8},
    {"__half2", 4},
    {"onnxruntime::cuda::DivMod<int>", 12},
    {"onnxruntime::cuda::DivMod<long>", 24},
    {"onnxruntime::cuda::OP_", 1},
    {"onnxruntime::contrib::cuda::OP_", 1},
    {"onnxruntime::cuda::_Is", 1},
    {"thrust::", 16}, /* an iterator that transforms what a pointer, its first part, points to */
    {"onnxruntime::cuda::Func", 1},
    {"onnxruntime::cuda::cast_helper_impl::Cast", 1},
    {"onnxruntime::cuda::Round", 1},
    {"onnxruntime::cuda::(anonymous namespace)::OffsetCalculatorFor2D<", 52},
    {"onnxruntime::cuda::(anonymous namespace)::OffsetCalculator<", 176},
    {"onnxruntime::cuda::ElementCountsAndInputDimsSpanOrGpu", 104},
    {"onnxruntime::cuda::detail::ReduceSumNdMetadata", 536},
    {"onnxruntime::cuda::NearestMappingInfo", 8},
    {"onnxruntime::cuda::LinearMappingInfo", 12},
    {"onnxruntime::cuda::CubicMappingInfo", 24},
    {"onnxruntime::cuda::(anonymous namespace)::Box", 16},
    {"std::pair<unsigned long, unsigned long>", 16},
    {"onnxruntime::flash::Flash_fwd_params", 400}, /* what is read of it */
    {"KVCacheList<false>", 40},
    {"AttentionKernel<", 216}, /* what is read of it */
    {"__nv_bfloat162", 4},
    {"float4", 16},
    {"onnxruntime::cuda::Half4", 8},
    {"cuda::std::", 1},
};

static size_t object_size(const char *text) {
  unsigned count;
  char item[32];
  if (sscanf(text, "onnxruntime::cuda::aligned_vector<%31[^,], %u>", item, &count) == 2) {
    return vcuda_type_size(type_of(item)) * count;
  }
  if (strncmp(text, "std::tuple<", 11) == 0) { /* all items have one type */
    const char *comma = strchr(text, ',');
    size_t items = 1;
    snprintf(item, sizeof item, "%.*s", (int)strcspn(text + 11, ",>"), text + 11);
    for (; comma != NULL; comma = strchr(comma + 1, ',')) items++;
    return items * (strchr(item, '*') != NULL ? sizeof(void *) : vcuda_type_size(type_of(item)));
  }
  if (strncmp(text, "cub::", 5) == 0) { /* a tile state is one pointer; other objects are empty */
    return strstr(text, "ScanTileState<") != NULL ? 8 : 1;
  }
  if (strstr(text, "plus<") != NULL) return 1;
  for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
    if (strncmp(objects[i].prefix, text, strlen(objects[i].prefix)) == 0) return objects[i].size;
  }
  return 0;
}

static bool ends_with(const char *text, const char *end) {
  size_t size = strlen(text), end_size = strlen(end);
  return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Remove the suffix `end`, and spaces before it. */
static bool cut(char *text, const char *end) {
  if (!ends_with(text, end)) return false;
  size_t size = strlen(text) - strlen(end);
  while (size > 0 && text[size - 1] == ' ') size--;
  text[size] = '\0';
  return true;
}

static void read_pointer(vcuda_part *part, const char *pointed) {
  part->kind = 'p';
  part->type = type_of(pointed);
  part->size = part->type != VCUDA_NO_TYPE                               ? vcuda_type_size(part->type)
               : ends_with(pointed, "*") || ends_with(pointed, "*const") ? sizeof(void *)
                                                                         : object_size(pointed);
}

/* TArray<T, N> is the number of used items as an int, then N items. */
static bool read_array(vcuda_part *part, const char *text) {
  static const char prefix[] = "onnxruntime::cuda::TArray<";
  const char *comma = strrchr(text, ',');
  if (strncmp(text, prefix, sizeof prefix - 1) != 0 || comma == NULL) return false;
  char item[128];
  int size = (int)(comma - text) - (int)(sizeof prefix - 1);
  int count = atoi(comma + 1);
  snprintf(item, sizeof item, "%.*s", size, text + sizeof prefix - 1);
  part->kind = 'a';
  part->pointers = ends_with(item, "*");
  part->type = part->pointers ? VCUDA_NO_TYPE : type_of(item);
  bool wide = part->pointers || vcuda_type_size(part->type) == 8;
  size_t item_size = part->pointers                ? sizeof(void *)
                     : part->type != VCUDA_NO_TYPE ? vcuda_type_size(part->type)
                                                   : object_size(item);
  part->size = (wide ? 8 : 4) + item_size * (size_t)count;
  return item_size != 0;
}

/* Parse a parameter from the name of its type. False: the type is unknown. */
static bool read_parameter(vcuda_part *part) {
  char *text = part->text;
  (void)cut(text, " const");
  part->type = type_of(text);
  if (part->type != VCUDA_NO_TYPE) {
    part->kind = vcuda_type_is_float(part->type) ? 'v' : 'n';
    part->size = vcuda_type_size(part->type);
    return true;
  }
  if (ends_with(text, "*") || ends_with(text, "&")) {
    char pointed[512];
    snprintf(pointed, sizeof pointed, "%.*s", (int)strlen(text) - 1, text);
    (void)cut(pointed, " const");
    (void)cut(pointed, " volatile");
    read_pointer(part, pointed);
    return true;
  }
  if (read_array(part, text)) return true;
  part->size = object_size(text);
  part->kind = strcmp(text, "onnxruntime::cuda::DivMod<int>") == 0 ? 'd' : 'o';
  return part->size != 0;
}

static bool read_type(vcuda_part *part) {
  const char *text = part->text;
  const char *digits = *text == '(' && strchr(text, ')') != NULL ? strchr(text, ')') + 1 : text; /* an enum's value: (Name)3 */
  char *end = NULL;
  part->value = strtoll(digits, &end, 10);
  part->type = type_of(text);
  part->kind = end != digits ? 'n' : part->type != VCUDA_NO_TYPE ? 't' : 'o';
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    part->kind = 'n';
    part->value = *text == 't';
  }
  return true;
}

/* Split "a, b<c, d>, e" at its outer commas. Returns the number of parts; -1: there are too many, or `read` refuses one. */
static int read_parts(char *text, vcuda_part *parts, int most, bool (*read)(vcuda_part *)) {
  int depth = 0, count = 0;
  char *start = text;
  for (char *at = text; *text != '\0'; at++) {
    if (*at == '<' || *at == '(') depth++;
    if (*at == '>' || *at == ')') depth--;
    if (*at != '\0' && (*at != ',' || depth != 0)) continue;
    bool last = *at == '\0';
    *at = '\0';
    if (count == most) return -1;
    parts[count].text = start + (*start == ' ');
    if (!read(&parts[count++])) return -1;
    if (last) break;
    start = at + 1;
  }
  return count;
}

/* The opening bracket for the closing one at `last`. */
static char *opening(const char *text, char *last, char open, char close) {
  int depth = 0;
  for (char *at = last; at >= text; at--) {
    if (*at == close) depth++;
    if (*at == open && --depth == 0) return at;
  }
  return NULL;
}

/* Split "void ns::name<types>(parameters)" in place. */
static bool split_name(vcuda_kernel *kernel, char **types, char **parameters) {
  char *text = kernel->text;
  size_t size = strlen(text);
  char *open = size != 0 && text[size - 1] == ')' ? opening(text, text + size - 1, '(', ')') : NULL;
  if (open == NULL || open == text) return false;
  text[size - 1] = '\0';
  *open = '\0';
  *parameters = open + 1;
  *types = open; /* none */
  if (open[-1] == '>') {
    char *angle = opening(text, open - 1, '<', '>');
    if (angle == NULL) return false;
    open[-1] = '\0';
    *angle = '\0';
    *types = angle + 1;
  }
  kernel->name = text;
  for (char *at = text; *at != '\0'; at++) {
    if (at[0] == ':' && at[1] == ':') kernel->name = at + 2;
    if (at[0] == ' ' && strstr(at, "::") == NULL) kernel->name = at + 1; /* the return type */
  }
  return true;
}

/* ---- kernels ---- */

static const vcuda_form *const families[] = {
    vcuda_elementwise_forms, vcuda_move_forms,     vcuda_pad_forms,    vcuda_index_forms,     vcuda_reduce_forms,
    vcuda_norm_forms,        vcuda_scan_forms,     vcuda_make_forms,   vcuda_top_forms,       vcuda_resize_forms,
    vcuda_quantize_forms,    vcuda_rotary_forms,   vcuda_gqa_forms,    vcuda_flash_forms,     vcuda_nbits_forms,
    vcuda_efficient_forms,   vcuda_heads_forms,    vcuda_masks_forms,  vcuda_scores_forms,    vcuda_embed_forms,
    vcuda_pool_forms,        vcuda_sequence_forms, vcuda_sample_forms, vcuda_antialias_forms, vcuda_sort_forms,
    vcuda_suppress_forms,    vcuda_deform_forms,   vcuda_random_forms,
};

static bool parameters_match(const vcuda_kernel *kernel, const char *letters) {
  if ((size_t)kernel->argument_count != strlen(letters)) return false;
  for (int i = 0; letters[i] != '\0'; i++) {
    char kind = kernel->arguments[i].kind;
    if (kind != letters[i] && !(letters[i] == 'v' && kind == 'n')) return false;
  }
  return true;
}

static bool find_form(vcuda_kernel *kernel) {
  for (size_t family = 0; family < sizeof families / sizeof *families; family++) {
    for (const vcuda_form *form = families[family]; form->name != NULL; form++) {
      if (strcmp(form->name, kernel->name) == 0 && parameters_match(kernel, form->parameters)) {
        kernel->form = form;
        if (form->accepts == NULL || form->accepts(kernel)) return true;
      }
    }
  }
  return false;
}

static void lay_out_arguments(vcuda_kernel *kernel) {
  size_t offset = 0;
  for (int i = 0; i < kernel->argument_count; i++) {
    kernel->offsets[i] = offset;
    offset += ((kernel->arguments[i].kind == 'p' ? sizeof(void *) : kernel->arguments[i].size) + 15) / 16 * 16;
  }
  kernel->bytes = offset;
}

static void release(vcuda_kernel *kernel) {
  free(kernel->text);
  free(kernel->mangled);
  free(kernel);
}

static vcuda_kernel *read_kernel(const char *mangled) {
  vcuda_kernel *kernel = calloc(1, sizeof *kernel);
  char *types = NULL, *parameters = NULL;
  if (kernel == NULL) return NULL;
  kernel->text = demangle(mangled);
  kernel->mangled = strdup(mangled);
  bool known = kernel->text != NULL && kernel->mangled != NULL && split_name(kernel, &types, &parameters);
  if (known) {
    kernel->type_count = read_parts(types, kernel->types, VCUDA_MAX_TYPES, read_type);
    kernel->argument_count = read_parts(parameters, kernel->arguments, VCUDA_MAX_ARGUMENTS, read_parameter);
    known = kernel->type_count >= 0 && kernel->argument_count >= 0 && find_form(kernel);
  }
  if (!known) {
    release(kernel);
    return NULL;
  }
  lay_out_arguments(kernel);
  return kernel;
}

static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
static vcuda_kernel *kernels[1024]; /* cache of the kernels found, by a hash of their names */

const vcuda_kernel *vcuda_kernel_find(const char *mangled_name) {
  unsigned hash = 5381;
  for (const char *at = mangled_name; *at != '\0'; at++) hash = hash * 33 + (unsigned char)*at;
  vcuda_kernel **bucket = &kernels[hash % (sizeof kernels / sizeof *kernels)];
  (void)pthread_mutex_lock(&kernels_lock);
  vcuda_kernel *kernel = *bucket;
  while (kernel != NULL && strcmp(kernel->mangled, mangled_name) != 0) kernel = kernel->next;
  if (kernel == NULL && (kernel = read_kernel(mangled_name)) != NULL) {
    kernel->next = *bucket;
    *bucket = kernel;
  }
  (void)pthread_mutex_unlock(&kernels_lock);
  return kernel;
}

const char *vcuda_kernel_name(const vcuda_kernel *kernel) {
  return kernel->name;
}

static void run_launch(void *arguments) {
  const vcuda_launch *launch = arguments;
  launch->kernel->form->run(launch);
}

int vcuda_kernel_launch(const vcuda_kernel *kernel, const unsigned grid[3], const unsigned block[3], size_t shared,
                        void *stream, void **arguments) {
  _Alignas(16) char bytes[8192];
  vcuda_launch *launch = (void *)bytes;
  (void)shared; /* shared memory is not needed: a launch runs as one thread */
  for (int i = 0; i < 3; i++) {
    if (grid[i] == 0 || block[i] == 0) return 9; /* cudaErrorInvalidConfiguration */
    launch->grid[i] = grid[i];
    launch->block[i] = block[i];
  }
  if (arguments == NULL || sizeof *launch + kernel->bytes > sizeof bytes) return 1; /* cudaErrorInvalidValue */
  launch->kernel = kernel;
  for (int i = 0; i < kernel->argument_count; i++) {
    const vcuda_part *part = &kernel->arguments[i];
    memcpy(launch->arguments + kernel->offsets[i], arguments[i], part->kind == 'p' ? sizeof(void *) : part->size);
  }
  return vcuda_submit(stream, kernel->name, run_launch, launch, sizeof *launch + kernel->bytes);
}

/* ---- arguments ---- */

const void *vcuda_argument(const vcuda_launch *launch, int i) {
  return launch->arguments + launch->kernel->offsets[i];
}

int64_t vcuda_integer(const vcuda_launch *launch, int i) {
  vcuda_type type = launch->kernel->arguments[i].kind == 'd' ? VCUDA_UINT32 : launch->kernel->arguments[i].type;
  return vcuda_load(type, vcuda_argument(launch, i), 0).whole;
}

vcuda_number vcuda_scalar(const vcuda_launch *launch, int i) {
  return vcuda_load(launch->kernel->arguments[i].type, vcuda_argument(launch, i), 0);
}

double vcuda_real(const vcuda_launch *launch, int i) {
  return vcuda_load_real(launch->kernel->arguments[i].type, vcuda_argument(launch, i), 0);
}

void *vcuda_address(const vcuda_launch *launch, int i) {
  void *address;
  memcpy(&address, vcuda_argument(launch, i), sizeof address);
  return address;
}

int vcuda_items(const vcuda_launch *launch, int i) {
  return (int)vcuda_load(VCUDA_INT32, vcuda_argument(launch, i), 0).whole;
}

int64_t vcuda_item(const vcuda_launch *launch, int i, int at) {
  const vcuda_part *part = &launch->kernel->arguments[i];
  const char *bytes = vcuda_argument(launch, i);
  if (part->type == VCUDA_NO_TYPE)
    return vcuda_load(VCUDA_UINT32, bytes + 4, (int64_t)at * 3).whole; /* the divisor of a DivMod */
  return vcuda_load(part->type, bytes + (vcuda_type_size(part->type) == 8 ? 8 : 4), at).whole;
}

void *vcuda_item_address(const vcuda_launch *launch, int i, int at) {
  void *address;
  memcpy(&address, (const char *)vcuda_argument(launch, i) + 8 + (size_t)at * sizeof address, sizeof address);
  return address;
}

vcuda_type vcuda_type_of(const vcuda_launch *launch, int i) {
  return launch->kernel->arguments[i].type;
}

size_t vcuda_size_of(const vcuda_launch *launch, int i) {
  return launch->kernel->arguments[i].size;
}

/* Elements of an unknown type have no size: a form that reads them is wrong, and its launch fails. */
static bool has_size(const vcuda_launch *launch, int i, int64_t count) {
  if (count == 0 || vcuda_size_of(launch, i) != 0) return true;
  vcuda_fail(719, "argument %d, a pointer to elements that are not known: %s", i, launch->kernel->arguments[i].text);
  return false;
}

const void *vcuda_input(const vcuda_launch *launch, int i, int64_t count) {
  if (!has_size(launch, i, count)) return NULL;
  return vcuda_reads(vcuda_address(launch, i), (size_t)count * vcuda_size_of(launch, i));
}

void *vcuda_output(const vcuda_launch *launch, int i, int64_t count) {
  if (!has_size(launch, i, count)) return NULL;
  return vcuda_writes(vcuda_address(launch, i), (size_t)count * vcuda_size_of(launch, i));
}

vcuda_strides vcuda_read_strides(const vcuda_launch *launch, int strides, int divisors) {
  vcuda_strides result = {.rank = vcuda_items(launch, strides)};
  if (result.rank > 8) result.rank = 8;
  for (int i = 0; i < result.rank; i++) {
    result.strides[i] = vcuda_item(launch, strides, i);
    result.divisors[i] = vcuda_item(launch, divisors, i);
  }
  return result;
}

int64_t vcuda_offset(const vcuda_strides *strides, int64_t id) {
  int64_t offset = strides->rank == 0 ? id : 0;
  for (int i = 0; i < strides->rank; i++) {
    offset += id / strides->divisors[i] * strides->strides[i];
    id %= strides->divisors[i];
  }
  return offset;
}

int64_t vcuda_extent(const vcuda_strides *strides, int64_t count) {
  int64_t last = strides->rank == 0 ? count - 1 : 0, whole = count;
  for (int i = 0; i < strides->rank; i++) {
    last += (whole / strides->divisors[i] - 1) * strides->strides[i];
    whole = strides->divisors[i];
  }
  return count == 0 ? 0 : last + 1;
}

bool vcuda_flag(const vcuda_kernel *kernel, int i) {
  return kernel->types[i].value != 0;
}

bool vcuda_names(const vcuda_kernel *kernel, int i, const char *word) {
  return strstr(kernel->types[i].text, word) != NULL;
}
