#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/tile.h"
#include "pictures/picture.h"
#include "shared/number.h"

/* ---- what the model takes ---- */

/* Of four dims two are rows and columns. The channels are the second or the last one: whichever is fixed and smaller. */
static const char *guess_layout(const iobind_value_info *value) {
  if (!value->has_shape || value->rank != MOSAIC_AXES) return NULL;
  int64_t second = value->dims[1], last = value->dims[3];
  if (second > 0 && (last < 0 || second < last)) return "NCHW";
  return last > 0 && (second < 0 || last < second) ? "NHWC" : NULL;
}

static int fail_value(const tile_job *job, const iobind_value_info *value, const char *what) {
  char *described = tool_describe_value(value);
  int code = tool_fail(job->tool, "input '%s' is %s: %s [SHAPE]", value->name, described == NULL ? "?" : described, what);
  free(described);
  return code;
}

static int find_layout(tile_job *job, const iobind_value_info *value) {
  const char *text = job->wish->layout != NULL ? job->wish->layout : guess_layout(value);
  if (text == NULL) return fail_value(job, value, "its dims for rows and columns cannot be inferred; give --layout");
  if (!mosaic_read_layout(text, &job->layout)) {
    return tool_misuse(job->tool, "--layout: expected letters of N, C, H and W such as NCHW, HWC or HW, got '%s'", text);
  }
  if (!value->has_shape || value->rank == job->layout.rank) return TOOL_GO;
  return fail_value(job, value, "--layout has another number of dims");
}

/* A dim of the item: the wish, or else the dim that the model fixes, or else `otherwise`. */
static int choose_dim(const tile_job *job, const iobind_value_info *value, int axis, int64_t wished, int64_t otherwise,
                      int64_t *dim) {
  int place = job->layout.place[axis];
  int64_t fixed = place < 0 ? 1 : value->has_shape ? value->dims[place] : -1;
  if (axis == MOSAIC_C && place < 0) fixed = -1;
  *dim = wished > 0 ? wished : fixed >= 0 ? fixed : otherwise;
  if (*dim <= 0) return fail_value(job, value, "it leaves the tile's size open; give --tile HxW");
  if (fixed < 0 || fixed == *dim) return TOOL_GO;
  char what[96];
  snprintf(what, sizeof what, "expected %s %" PRId64 ", got %" PRId64,
           axis == MOSAIC_N   ? "--batch"
           : axis == MOSAIC_H ? "a tile's height of"
                              : "a tile's width of",
           fixed, *dim);
  return fail_value(job, value, what);
}

bool tile_find_kind(int32_t dtype, mosaic_kind *kind) {
  switch (dtype) {
    case IOBIND_DTYPE_UINT8: *kind = MOSAIC_BYTES; return true;
    case IOBIND_DTYPE_FLOAT16: *kind = MOSAIC_HALVES; return true;
    case IOBIND_DTYPE_FLOAT32: *kind = MOSAIC_FLOATS; return true;
    default: return false;
  }
}

int tile_inspect_input(tile_job *job, int64_t dims[MOSAIC_AXES]) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_get_info(job->session, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  job->output_count = info.output_count;
  if (info.input_count != 1) {
    return tool_fail(job->tool, "%s has %zu inputs: expected one, the picture [NOT_SUPPORTED]", job->tool->arguments[0],
                     info.input_count);
  }
  if (iobind_session_get_input(job->session, 0, &value, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  if (value.kind != IOBIND_VALUE_TENSOR || !tile_find_kind(value.dtype, &job->item_kind)) {
    char *described = tool_describe_value(&value);
    int code = tool_fail(job->tool, "input '%s' is %s: expected float32, float16 or uint8 [NOT_SUPPORTED]", value.name,
                         described == NULL ? "?" : described);
    free(described);
    return code;
  }
  int64_t fixed[IOBIND_MAX_RANK];
  int code = tool_resolve_dims(job->tool, &value, fixed);
  if (code != TOOL_GO) return code;
  value.dims = fixed;
  code = find_layout(job, &value);
  if (code == TOOL_GO) code = choose_dim(job, &value, MOSAIC_N, job->wish->batch, 1, &dims[MOSAIC_N]);
  if (code == TOOL_GO) code = choose_dim(job, &value, MOSAIC_H, job->wish->tile[0], 0, &dims[MOSAIC_H]);
  if (code == TOOL_GO) code = choose_dim(job, &value, MOSAIC_W, job->wish->tile[1], 0, &dims[MOSAIC_W]);
  int place = job->layout.place[MOSAIC_C];
  dims[MOSAIC_C] = code != TOOL_GO || place < 0 ? 1 : value.has_shape ? value.dims[place] : -1; /* -1: the picture's */
  return code;
}

/* ---- the pictures ---- */

static int read_pixels(tile_job *job, int64_t channels) {
  tool_fault fault;
  mosaic_layout layout;
  if (channels < 0) channels = 3;
  if (channels != 1 && channels != 3 && channels != 4) {
    return tool_fail(job->tool, "the model takes %" PRId64 " channels: a PNG has 1, 3 or 4; take a .npy file [SHAPE]",
                     channels);
  }
  if (!picture_read(job->wish->input, channels, &job->source, &fault)) return tool_fail(job->tool, "--input %s", fault.text);
  (void)mosaic_read_layout("HWC", &layout);
  job->pictures = mosaic_look(job->source.data, MOSAIC_BYTES, job->source.dims, &layout);
  return TOOL_GO;
}

static int read_array(tile_job *job, int64_t channels) {
  tool_fault fault;
  char type[24];
  const npy_array *source = &job->source;
  if (!npy_read(job->wish->input, &job->source, &fault)) return tool_fail(job->tool, "--input %s", fault.text);
  mosaic_kind kind = source->kind == 'u' ? MOSAIC_BYTES : source->item_bytes == 2 ? MOSAIC_HALVES : MOSAIC_FLOATS;
  bool bytes = source->kind == 'u' && source->item_bytes == 1;
  bool floats = source->kind == 'f' && (source->item_bytes == 4 || source->item_bytes == 2);
  bool takes_bytes = job->item_kind == MOSAIC_BYTES;
  if (!bytes && (takes_bytes || !floats)) {
    return tool_fail(job->tool, "--input %s: expected %s, got an array of type %s [DTYPE]", job->wish->input,
                     takes_bytes ? "uint8" : "float32, float16 or uint8", npy_type(source, type));
  }
  if (source->rank == job->layout.rank) {
    job->pictures = mosaic_look(source->data, kind, source->dims, &job->layout);
    if (channels < 0 || job->pictures.dims[MOSAIC_C] == channels) return TOOL_GO;
  }
  char *dims = tool_describe_dims(source->dims, source->rank);
  char wanted[64] = "";
  if (channels >= 0 && job->layout.place[MOSAIC_C] >= 0) snprintf(wanted, sizeof wanted, " with C = %" PRId64, channels);
  int code = tool_fail(job->tool, "--input %s: expected whole pictures as the model's input, %s%s, got dims %s [SHAPE]",
                       job->wish->input, job->layout.letters, wanted, dims == NULL ? "?" : dims);
  free(dims);
  return code;
}

static int read_source(tile_job *job, int64_t channels) {
  progress_say("reading %s", job->wish->input);
  int code = picture_is_png(job->wish->input) ? read_pixels(job, channels) : read_array(job, channels);
  for (int axis = 0; code == TOOL_GO && axis < MOSAIC_AXES; axis++) {
    if (job->pictures.dims[axis] < 1 || job->pictures.dims[axis] > INT32_MAX) {
      code = tool_fail(job->tool, "--input %s: the picture is empty or too large [SHAPE]", job->wish->input);
    }
  }
  return code;
}

/* One number, or one for each channel. */
static int read_levels(const tile_job *job, const char *option, const char *text, float *levels) {
  int64_t channels = job->pictures.dims[MOSAIC_C], count = 0;
  const char *at = text;
  while (at != NULL && count < channels) {
    char word[64];
    double value;
    const char *comma = strchr(at, ',');
    snprintf(word, sizeof word, "%.*s", (int)(comma == NULL ? strlen(at) : (size_t)(comma - at)), at);
    if (!number_parse_real(word, -1e30, 1e30, &value)) {
      return tool_misuse(job->tool, "%s: expected numbers with commas between them, got '%s'", option, text);
    }
    levels[count++] = (float)value;
    at = comma == NULL ? NULL : comma + 1;
  }
  if (at != NULL || (count != 1 && count != channels)) {
    return tool_misuse(job->tool, "%s: expected one number or %" PRId64 ", one for each channel, got '%s'", option, channels,
                       text);
  }
  for (int64_t i = count; i < channels; i++) levels[i] = levels[0];
  return TOOL_GO;
}

/* Pixels of a PNG become 0 to 1 unless the options say otherwise; numbers of an array stay as they are. */
static int make_levels(tile_job *job) {
  int64_t channels = job->pictures.dims[MOSAIC_C];
  if (job->item_kind == MOSAIC_BYTES && (job->wish->mean != NULL || job->wish->deviation != NULL)) {
    return tool_misuse(job->tool, "--mean and --std: the model takes uint8, which are the pixels themselves");
  }
  job->levels = malloc(2 * (size_t)channels * sizeof *job->levels);
  if (job->levels == NULL) return tool_fail(job->tool, "out of memory");
  const char *deviation = picture_is_png(job->wish->input) && job->item_kind != MOSAIC_BYTES ? "255" : "1";
  int code = read_levels(job, "--mean", job->wish->mean == NULL ? "0" : job->wish->mean, job->levels);
  if (code == TOOL_GO) {
    code = read_levels(job, "--std", job->wish->deviation == NULL ? deviation : job->wish->deviation, job->levels + channels);
  }
  for (int64_t i = 0; code == TOOL_GO && i < channels; i++) {
    if (!(job->levels[channels + i] > 0)) code = tool_misuse(job->tool, "--std: expected numbers above 0");
  }
  return code;
}

int tile_read_pictures(tile_job *job, int64_t channels) {
  int code = read_source(job, channels);
  return code == TOOL_GO ? make_levels(job) : code;
}
