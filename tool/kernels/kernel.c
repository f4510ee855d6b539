#define _POSIX_C_SOURCE 200809L /* strtok_r */

#include "kernels/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "formats/half.h"

/* ---- the text ---- */

/* Numbers between brackets, with ',' between them; NULL: the text has something else. */
static const char *read_list(kernel_operand *operand, const char *text, char end) {
  size_t count = 0;
  while (*text != end) {
    char *rest = NULL;
    if (count == KERNEL_LISTED) return NULL;
    operand->listed[count++] = strtod(text, &rest);
    if (rest == text || (*rest != ',' && *rest != end)) return NULL;
    text = *rest == ',' ? rest + 1 : rest;
  }
  operand->values = KERNEL_LIST;
  operand->in_model = true;
  operand->rank = end == ']';
  operand->dims[0] = (int64_t)count;
  return end == ']' || count == 1 ? text + 1 : NULL;
}

static const char *read_dims(kernel_operand *operand, const char *text) {
  if (*text == '.') return text + 1;
  while (operand->rank < KERNEL_RANK) {
    char *rest = NULL;
    operand->dims[operand->rank++] = strtol(text, &rest, 10);
    if (rest == text || *rest != 'x') return rest == text ? NULL : rest;
    text = rest + 1;
  }
  return NULL;
}

/* "b:" and "i5:" before dims. */
static const char *read_other_type(kernel_operand *operand, const char *text) {
  if (text[0] == 'b' && text[1] == ':') {
    operand->dtype = IOBIND_DTYPE_BOOL;
    operand->values = KERNEL_INDEX;
    operand->limit = 2;
    return text + 2;
  }
  if (text[0] != 'i' || strchr(text, ':') == NULL) return text;
  char *rest = NULL;
  operand->dtype = IOBIND_DTYPE_INT64;
  operand->values = KERNEL_INDEX;
  operand->limit = strtol(text + 1, &rest, 10);
  return operand->limit > 0 && *rest == ':' ? rest + 1 : text;
}

static bool read_operand(kernel_operand *operand, const char *text, int32_t dtype) {
  *operand = (kernel_operand){.dtype = dtype, .left_out = strcmp(text, "-") == 0};
  if (operand->left_out) return true;
  const char *list = strpbrk(text, "[(");
  if (list != NULL && list == text + 1) {
    static const char letters[] = "ifut";
    const int32_t dtypes[] = {IOBIND_DTYPE_INT64, IOBIND_DTYPE_FLOAT32, IOBIND_DTYPE_UINT8, dtype};
    const char *letter = strchr(letters, *text);
    const char *end = read_list(operand, list + 1, *list == '[' ? ']' : ')');
    operand->dtype = letter == NULL ? dtype : dtypes[letter - letters];
    return letter != NULL && end != NULL && *end == 0;
  }
  operand->in_model = *text == '*';
  text += *text == '*';
  static const char marks[] = "~+#";
  static const kernel_values marked[] = {KERNEL_QUARTERS, KERNEL_POSITIVE, KERNEL_DISTINCT};
  const char *mark = *text == 0 ? NULL : strchr(marks, *text);
  if (mark != NULL) operand->values = marked[mark - marks];
  text += mark != NULL;
  text = read_dims(operand, read_other_type(operand, text));
  return text != NULL && *text == 0;
}

static bool read_word(kernel *self, const char *word, int32_t dtype) {
  if (*word == '>') {
    self->output_count = (size_t)strtol(word + 1, NULL, 10);
    return self->output_count > 0 && self->output_count <= KERNEL_OUTPUTS;
  }
  if (strchr(word, '=') != NULL) {
    if (self->attribute_count == KERNEL_ATTRIBUTES) return false;
    self->attributes[self->attribute_count++] = word;
    return true;
  }
  return self->operand_count < KERNEL_OPERANDS && read_operand(&self->operands[self->operand_count++], word, dtype);
}

/* ---- the data ---- */

static uint64_t next(uint64_t *state) {
  *state += 0x9E3779B97F4A7C15u;
  uint64_t mixed = *state;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

enum { STEP = 7919 }; /* a prime: a permutation of fewer elements, and of most other numbers of them */

static double value_of(const kernel_operand *operand, size_t index, size_t count, uint64_t *state) {
  uint64_t random = next(state) >> 32;
  switch (operand->values) {
    case KERNEL_WHOLE: return operand->dtype == IOBIND_DTYPE_UINT8 ? (double)(random % 7) : (double)(random % 7) - 3;
    case KERNEL_POSITIVE: return (double)(random % 4) + 1;
    case KERNEL_QUARTERS: return ((double)(random % 17) - 8) / 4;
    case KERNEL_DISTINCT: return (double)(index * STEP % count);
    case KERNEL_INDEX: return (double)(random % (uint64_t)operand->limit);
    case KERNEL_LIST: return operand->listed[index];
  }
  return 0;
}

static void put(const kernel_operand *operand, size_t index, double value) {
  const int64_t whole = (int64_t)value;
  switch (operand->dtype) {
    case IOBIND_DTYPE_FLOAT32: ((float *)operand->data)[index] = (float)value; break;
    case IOBIND_DTYPE_FLOAT64: ((double *)operand->data)[index] = value; break;
    case IOBIND_DTYPE_FLOAT16: ((uint16_t *)operand->data)[index] = half_write((float)value); break;
    case IOBIND_DTYPE_INT64: ((int64_t *)operand->data)[index] = whole; break;
    case IOBIND_DTYPE_INT32: ((int32_t *)operand->data)[index] = (int32_t)whole; break;
    default: ((unsigned char *)operand->data)[index] = (unsigned char)whole; break; /* int8, uint8, bool */
  }
}

static bool make_data(kernel_operand *operand, uint64_t seed) {
  if (operand->left_out) return true;
  const iobind_dtype dtype = (iobind_dtype)operand->dtype;
  if (iobind_dtype_get_bytes(dtype, operand->dims, operand->rank, &operand->bytes, NULL) != IOBIND_OK) return false;
  operand->data = malloc(operand->bytes + 1);
  if (operand->data == NULL) return false;
  const size_t count = operand->bytes / (iobind_dtype_get_bits(operand->dtype) / 8);
  for (size_t i = 0; i < count; i++) put(operand, i, value_of(operand, i, count, &seed));
  return true;
}

bool kernel_read(kernel *self, const char *text, int32_t dtype) {
  *self = (kernel){.output_count = 1};
  if (strlen(text) >= sizeof self->text) return false;
  memcpy(self->text, text, strlen(text) + 1);
  char *rest = NULL;
  self->op_type = strtok_r(self->text, " ", &rest);
  for (const char *word = strtok_r(NULL, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    if (!read_word(self, word, dtype)) return false;
  }
  for (size_t i = 0; i < self->operand_count; i++) {
    if (!make_data(&self->operands[i], i)) return false;
  }
  return self->op_type != NULL;
}

size_t kernel_rank(const kernel *self) {
  size_t first = 0;
  while (first + 1 < self->operand_count && self->operands[first].left_out) first++;
  return self->operand_count == 0 ? 0 : self->operands[first].rank;
}

void kernel_free(kernel *self) {
  for (size_t i = 0; i < self->operand_count; i++) free(self->operands[i].data);
  self->operand_count = 0;
}
