#define _POSIX_C_SOURCE 200809L /* sysconf, open_memstream */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/given.h"
#include "shared/number.h"
#include "shared/quote.h"
#include "shared/tool.h"

/* ---- random content: the same for the same seed, input name and dims, on every machine ---- */

typedef struct generator {
  uint64_t state;
} generator;

static uint64_t next(generator *source) {
  source->state += 0x9E3779B97F4A7C15u;
  uint64_t mixed = source->state;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

/* Each input has its own sequence, so that neither the order of the inputs nor a file for one of them changes another. The
 * seed is mixed before the name is added: otherwise seeds and names that differ in the same bit would give the same sequence. */
static generator begin(uint64_t seed, const char *name) {
  generator source = {seed};
  uint64_t state = next(&source);
  for (const unsigned char *byte = (const unsigned char *)name; *byte != 0; byte++) state = (state ^ *byte) * 0x100000001B3u;
  return (generator){state};
}

static float unit(generator *source) {
  return (float)(next(source) >> 40) / 16777216.0f;
}

/* A number from 0 to 1 as the bits of a 16-bit float; truncated, which is exact enough for noise. */
static uint16_t half_bits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  uint32_t exponent = bits >> 23; /* biased by 127, where the half's is by 15 */
  return exponent <= 112 ? 0 : (uint16_t)((exponent - 112) << 10 | (bits >> 13 & 0x3FF));
}

static uint16_t bfloat_bits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void put(unsigned char *target, size_t index, const void *value, size_t bytes) {
  memcpy(target + index * bytes, value, bytes);
}

/* Floats are in [0,1). 32- and 64-bit integers are 0 or 1, because they are mostly indices, lengths or masks, and others would
 * be out of range. Narrower integers take their whole range. */
static void fill(generator *source, int32_t dtype, unsigned char *target, size_t bytes) {
  uint32_t bits = iobind_dtype_get_bits(dtype);
  size_t width = bits / 8 == 0 ? 1 : bits / 8;
  for (size_t i = 0; i < bytes / width; i++) {
    float real = unit(source);
    double wide = (double)real;
    uint64_t whole = next(source);
    uint64_t small = whole & 1;
    unsigned char byte = (unsigned char)(whole >> 8);
    uint16_t two = (uint16_t)(whole >> 8);
    switch (dtype) {
      case IOBIND_DTYPE_FLOAT32: put(target, i, &real, 4); break;
      case IOBIND_DTYPE_FLOAT64: put(target, i, &wide, 8); break;
      case IOBIND_DTYPE_FLOAT16:
        two = half_bits(real);
        put(target, i, &two, 2);
        break;
      case IOBIND_DTYPE_BFLOAT16:
        two = bfloat_bits(real);
        put(target, i, &two, 2);
        break;
      case IOBIND_DTYPE_INT32:
      case IOBIND_DTYPE_UINT32: {
        uint32_t four = (uint32_t)small;
        put(target, i, &four, 4);
        break;
      }
      case IOBIND_DTYPE_INT64:
      case IOBIND_DTYPE_UINT64: put(target, i, &small, 8); break;
      case IOBIND_DTYPE_INT16:
      case IOBIND_DTYPE_UINT16: put(target, i, &two, 2); break;
      case IOBIND_DTYPE_BOOL: target[i] = (unsigned char)small; break;
      case IOBIND_DTYPE_FLOAT8E4M3FN:
      case IOBIND_DTYPE_FLOAT8E4M3FNUZ:
      case IOBIND_DTYPE_FLOAT8E5M2:
      case IOBIND_DTYPE_FLOAT8E5M2FNUZ: target[i] = byte % 0x38; break;                 /* all of them below 1.0 */
      case IOBIND_DTYPE_FLOAT8E8M0: target[i] = (unsigned char)(120 + byte % 8); break; /* 2^-7 to 1 */
      default: target[i] = byte; break;
    }
  }
}

static bool fill_made_up(tool_state *tool, const iobind_value_info *value, bool random, iobind_tensor *tensor,
                         tool_fault *fault) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_get_info(tensor, &info, &error) != IOBIND_OK) return fault_set(fault, "%s", tool_reason(&error));
  if (info.bytes == 0) return true; /* strings stay empty */
  unsigned char *data = calloc(info.bytes, 1);
  if (data == NULL) return fault_set(fault, "out of memory: %zu bytes", info.bytes);
  generator source = begin(tool->seed, value->name);
  if (random) fill(&source, info.dtype, data, info.bytes);
  iobind_status status = iobind_tensor_write(tensor, 0, data, info.bytes, NULL, &error);
  free(data);
  return status == IOBIND_OK || fault_set(fault, "%s", tool_reason(&error));
}

/* ---- dims ---- */

/* The dims of an input, with the --dim of its axes filled in. */
static bool resolve_dims(const tool_state *tool, const iobind_value_info *value, int64_t *dims, tool_fault *fault) {
  for (size_t i = 0; i < value->rank; i++) dims[i] = value->dims[i];
  for (size_t i = 0; i < tool->dim_count; i++) {
    const tool_dim *dim = &tool->dims[i];
    if (dim->axis < 0 || strcmp(dim->name, value->name) != 0) continue;
    if (!value->has_shape || (size_t)dim->axis >= value->rank) {
      return fault_set(fault, "--dim %s[%" PRId64 "]: the input has %zu dims", dim->name, dim->axis, value->rank);
    }
    int64_t *target = &dims[dim->axis];
    if (*target >= 0 && *target != dim->value) {
      return fault_set(fault, "--dim %s[%" PRId64 "]: the model fixes it to %" PRId64 ", got %" PRId64, dim->name, dim->axis,
                       *target, dim->value);
    }
    *target = dim->value;
  }
  return true;
}

int tool_resolve_dims(const tool_state *tool, const iobind_value_info *value, int64_t *dims) {
  tool_fault fault;
  if (value->has_shape && value->rank > IOBIND_MAX_RANK) {
    return tool_fail(tool, "input '%s' has %zu dims; at most %d are supported [SHAPE]", value->name, value->rank,
                     IOBIND_MAX_RANK);
  }
  if (resolve_dims(tool, value, dims, &fault)) return TOOL_GO;
  return tool_fail(tool, "input '%s': %s [SHAPE]", value->name, fault.text);
}

/* Does an earlier dim have the same symbol? */
static bool is_named_before(const iobind_value_info *value, size_t axis) {
  for (size_t i = 0; i < axis; i++) {
    if (value->dims[i] < 0 && strcmp(value->symbols[i], value->symbols[axis]) == 0) return true;
  }
  return false;
}

/* " --dim 'SYMBOL=N'" as it can be pasted into a shell. Some exporters call every open dim "?". */
static void add_option(FILE *options, const iobind_value_info *value, size_t axis) {
  const char *symbol = value->symbols[axis];
  bool named = symbol[0] != 0 && strcmp(symbol, "?") != 0;
  if (named && is_named_before(value, axis)) return;
  size_t size = strlen(symbol) + strlen(value->name) + 32;
  char *word = malloc(size);
  if (word == NULL) return;
  int length = named ? snprintf(word, size, "%s=N", symbol) : snprintf(word, size, "%s[%zu]=N", value->name, axis);
  char *quoted = length > 0 ? quote_word(word) : NULL;
  if (quoted != NULL) fprintf(options, " --dim %s", quoted);
  free(quoted);
  free(word);
}

/* Names every option that is missing, not only the first. */
static bool check_open_dims(const iobind_value_info *value, tool_fault *fault) {
  char *text = NULL;
  size_t length = 0;
  size_t open = 0;
  FILE *options = open_memstream(&text, &length);
  for (size_t i = 0; options != NULL && i < value->rank; i++) {
    if (value->dims[i] >= 0) continue;
    open++;
    add_option(options, value, i);
  }
  bool written = options != NULL && fclose(options) == 0;
  if (!written) {
    fault_set(fault, "out of memory");
  } else if (open > 0) {
    fault_set(fault, "it has open dims; give%s", text);
  }
  free(text);
  return written && open == 0;
}

static bool check_made_up(const iobind_value_info *value, tool_fault *fault) {
  if (!value->has_shape) {
    return fault_set(fault, "the model leaves its rank open, so it cannot be random; give a file with --input");
  }
  if (!check_open_dims(value, fault)) return false;
  if (value->dtype == IOBIND_DTYPE_STRING) return true;
  size_t bytes = 0;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_dtype_get_bytes((iobind_dtype)value->dtype, value->dims, value->rank, &bytes, &error) != IOBIND_OK) {
    return fault_set(fault, "%s", tool_reason(&error));
  }
  /* malloc may return more memory than the machine has, and filling it would end the process. */
  long pages = sysconf(_SC_PHYS_PAGES);
  long page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0 || bytes / (size_t)page < (size_t)pages) return true;
  char needed[NUMBER_TEXT];
  char present[NUMBER_TEXT];
  return fault_set(fault, "it would take %s, and this machine has %s; give a smaller --dim", number_format_bytes(bytes, needed),
                   number_format_bytes((uint64_t)pages * (uint64_t)page, present));
}

/* Random content, or zeros. */
static bool make_up(tool_state *tool, iobind_device *cpu, const iobind_value_info *value, bool random, iobind_tensor **tensor,
                    tool_fault *fault) {
  if (!check_made_up(value, fault)) return false;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status =
      iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)value->dtype, value->dims, value->rank, tensor, &error);
  if (status != IOBIND_OK) return fault_set(fault, "%s [%s]", tool_reason(&error), iobind_status_get_name(error.status));
  return fill_made_up(tool, value, random, *tensor, fault);
}

/* ---- files ---- */

/* The library compares a file with the model, but does not know what --dim sets for an axis. */
static bool check_axes(const tool_state *tool, const iobind_value_info *value, const npy_array *array, tool_fault *fault) {
  for (size_t i = 0; i < tool->dim_count; i++) {
    const tool_dim *dim = &tool->dims[i];
    if (dim->axis < 0 || strcmp(dim->name, value->name) != 0 || (size_t)dim->axis >= array->rank) continue;
    if (array->dims[dim->axis] == dim->value) continue;
    return fault_set(fault, "--dim %s[%" PRId64 "]=%" PRId64 ", but the file has %" PRId64 " [SHAPE]", dim->name, dim->axis,
                     dim->value, array->dims[dim->axis]);
  }
  return true;
}

static int fail_missing(const tool_state *tool, const iobind_value_info *value, const char *described) {
  size_t size = strlen(value->name) + sizeof "=FILE.npy";
  char *word = malloc(size);
  if (word != NULL) snprintf(word, size, "%s=FILE.npy", value->name);
  char *quoted = word == NULL ? NULL : quote_word(word);
  int code = quoted == NULL
                 ? tool_fail(tool, "out of memory")
                 : tool_fail(tool, "input '%s' (%s) is missing; give --input %s, or --random", value->name, described, quoted);
  free(quoted);
  free(word);
  return code;
}

int tool_make_input(tool_state *tool, const iobind_value_info *value, const char *file, iobind_tensor **tensor) {
  tool_fault fault;
  iobind_value_info wanted = *value;
  int64_t dims[IOBIND_MAX_RANK];
  iobind_device *cpu = iobind_runtime_get_device(tool->runtime, 0);
  char *described = tool_describe_value(value);
  int code = TOOL_GO;
  if (described == NULL) {
    code = tool_fail(tool, "out of memory");
  } else if (value->kind != IOBIND_VALUE_TENSOR) {
    code = tool_fail(tool, "input '%s' is a %s; only tensors can be given [NOT_SUPPORTED]", value->name, described);
  } else if (file == NULL && !tool->random) {
    code = fail_missing(tool, value, described);
  } else if (value->has_shape && value->rank > IOBIND_MAX_RANK) {
    code =
        tool_fail(tool, "input '%s' has %zu dims; at most %d are supported [SHAPE]", value->name, value->rank, IOBIND_MAX_RANK);
  } else if (!resolve_dims(tool, value, dims, &fault)) {
    code = tool_fail(tool, "input '%s' (%s): %s [SHAPE]", value->name, described, fault.text);
  } else {
    npy_array array;
    wanted.dims = dims;
    if (file == NULL || strcmp(file, GIVEN_ZEROS) == 0) {
      if (!make_up(tool, cpu, &wanted, file == NULL, tensor, &fault)) {
        code = tool_fail(tool, "input '%s' (%s): %s", value->name, described, fault.text);
      }
    } else if (!given_read(file, &wanted, &array, &fault)) {
      code = tool_fail(tool, "input '%s': %s", value->name, fault.text);
    } else {
      bool packed = iobind_dtype_get_bits(value->dtype) > 0 && iobind_dtype_get_bits(value->dtype) < 8;
      if ((!packed && !check_axes(tool, value, &array, &fault)) ||
          !tool_tensor_from_npy(cpu, &wanted, &array, tensor, &fault)) {
        code = tool_fail(tool, "input '%s' (%s): %s: %s", value->name, described, file, fault.text);
      }
      npy_free(&array);
    }
  }
  free(described);
  return code;
}

int tool_match_inputs(tool_state *tool, const iobind_session *session, const char **files) {
  int code = given_match(tool, session, files);
  progress_say("reading the inputs");
  return code;
}

static int make_inputs(tool_state *tool, iobind_session *session, const char **files, iobind_tensor **made, size_t count) {
  int code = tool_match_inputs(tool, session, files);
  for (size_t i = 0; code == TOOL_GO && i < count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_input(session, i, &value, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
    code = tool_make_input(tool, &value, files[i], &made[i]);
  }
  return code;
}

int tool_make_inputs(tool_state *tool, iobind_session *session, iobind_tensor ***tensors, size_t *count) {
  *tensors = NULL;
  *count = 0;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_get_info(session, &info, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  const char **files = calloc(info.input_count + 1, sizeof *files);
  iobind_tensor **made = calloc(info.input_count + 1, sizeof(iobind_tensor *));
  int code = TOOL_FAILED;
  if (files == NULL || made == NULL) {
    tool_fail(tool, "out of memory");
  } else {
    code = make_inputs(tool, session, files, made, info.input_count);
  }
  free(files);
  if (code != TOOL_GO) {
    tool_free_tensors(made, info.input_count);
    return code;
  }
  *tensors = made;
  *count = info.input_count;
  return TOOL_GO;
}

void tool_free_tensors(iobind_tensor **tensors, size_t count) {
  for (size_t i = 0; tensors != NULL && i < count; i++) iobind_tensor_release(tensors[i]);
  free(tensors);
}
