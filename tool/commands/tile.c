#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/grid.h"
#include "commands/mosaic.h"
#include "formats/picture.h"
#include "formats/trace.h"
#include "shared/number.h"
#include "shared/tool.h"

/* The command line's words and numbers. */
typedef struct tile_wish {
  const char *input;
  const char *output;
  const char *trace;
  const char *layout;
  const char *mean;
  const char *deviation;
  int64_t tile[2]; /* height and width; 0: the model's own */
  int64_t overlap;
  int64_t batch; /* 0: the model's own */
  int64_t slots;
  bool reversed;
} tile_wish;

typedef struct tile_job {
  tool_state *tool;
  const tile_wish *wish;
  iobind_device *device;
  iobind_session *session;
  iobind_pipeline *pipeline;
  iobind_tensor *item; /* a batch of tiles, which each item brings */
  iobind_tensor **outputs;
  size_t output_count;
  mosaic_layout layout; /* of the input */
  int64_t item_dims[MOSAIC_AXES];
  bool item_bytes;      /* uint8 */
  npy_array source;     /* the pictures, */
  mosaic_view pictures; /* and how they are addressed */
  float *levels;        /* means, then deviations */
  mosaic_view tiles;    /* in `item` */
  size_t output;        /* which of the outputs is put together */
  const char *output_name;
  mosaic_layout output_layout;
  bool output_bytes;
  npy_array sums; /* float32, in the output's layout */
  mosaic_view result;
  int64_t scale; /* places of the output for a pixel; 1 where a place stands for `step` pixels */
  int64_t step;
  grid_axis rows;
  grid_axis columns;
  float *weights; /* of a tile's rows, then of its columns */
  size_t tile_count;
  iobind_pipeline_item *times;
  size_t item_count;
  uint64_t load_time;
  uint64_t elapsed;
} tile_job;

/* ---- what the model takes ---- */

/* Of four dims two are rows and columns: the second or the last one, whichever is fixed and smaller, holds the channels. */
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
  if (text == NULL) return fail_value(job, value, "which of its dims are rows and columns is not clear; give --layout");
  if (!mosaic_read_layout(text, &job->layout)) {
    return tool_misuse(job->tool, "--layout: expected letters of N, C, H and W such as NCHW, HWC or HW, got '%s'", text);
  }
  if (!value->has_shape || value->rank == job->layout.rank) return TOOL_GO;
  return fail_value(job, value, "--layout names another number of dims");
}

/* A dim of the item: what is wished for, or else what the model fixes it to, or else `otherwise`. */
static int settle(const tile_job *job, const iobind_value_info *value, int axis, int64_t wished, int64_t otherwise,
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

static int inspect_input(tile_job *job, int64_t dims[MOSAIC_AXES]) {
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
  if (value.kind != IOBIND_VALUE_TENSOR || (value.dtype != IOBIND_FLOAT32 && value.dtype != IOBIND_UINT8)) {
    char *described = tool_describe_value(&value);
    int code = tool_fail(job->tool, "input '%s' is %s: expected float32 or uint8 [NOT_SUPPORTED]", value.name,
                         described == NULL ? "?" : described);
    free(described);
    return code;
  }
  job->item_bytes = value.dtype == IOBIND_UINT8;
  int code = find_layout(job, &value);
  if (code == TOOL_GO) code = settle(job, &value, MOSAIC_N, job->wish->batch, 1, &dims[MOSAIC_N]);
  if (code == TOOL_GO) code = settle(job, &value, MOSAIC_H, job->wish->tile[0], 0, &dims[MOSAIC_H]);
  if (code == TOOL_GO) code = settle(job, &value, MOSAIC_W, job->wish->tile[1], 0, &dims[MOSAIC_W]);
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
  job->pictures = mosaic_look(job->source.data, true, job->source.dims, &layout);
  return TOOL_GO;
}

static int read_array(tile_job *job, int64_t channels) {
  tool_fault fault;
  char type[24];
  const npy_array *source = &job->source;
  if (!npy_read(job->wish->input, &job->source, &fault)) return tool_fail(job->tool, "--input %s", fault.text);
  bool bytes = source->kind == 'u' && source->item_bytes == 1;
  if (!bytes && (job->item_bytes || source->kind != 'f' || source->item_bytes != 4)) {
    return tool_fail(job->tool, "--input %s: expected %s, got an array of type %s [DTYPE]", job->wish->input,
                     job->item_bytes ? "uint8" : "float32 or uint8", npy_type(source, type));
  }
  if (source->rank == job->layout.rank) {
    job->pictures = mosaic_look(source->data, bytes, source->dims, &job->layout);
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

static int read_pictures(tile_job *job, int64_t channels) {
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

/* Pixels of a PNG become 0 to 1 unless it is said otherwise; numbers of an array stay as they are. */
static int make_levels(tile_job *job) {
  int64_t channels = job->pictures.dims[MOSAIC_C];
  if (job->item_bytes && (job->wish->mean != NULL || job->wish->deviation != NULL)) {
    return tool_misuse(job->tool, "--mean and --std: the model takes uint8, which are the pixels themselves");
  }
  job->levels = malloc(2 * (size_t)channels * sizeof *job->levels);
  if (job->levels == NULL) return tool_fail(job->tool, "out of memory");
  const char *deviation = picture_is_png(job->wish->input) && !job->item_bytes ? "255" : "1";
  int code = read_levels(job, "--mean", job->wish->mean == NULL ? "0" : job->wish->mean, job->levels);
  if (code == TOOL_GO) {
    code = read_levels(job, "--std", job->wish->deviation == NULL ? deviation : job->wish->deviation, job->levels + channels);
  }
  for (int64_t i = 0; code == TOOL_GO && i < channels; i++) {
    if (!(job->levels[channels + i] > 0)) code = tool_misuse(job->tool, "--std: expected numbers above 0");
  }
  return code;
}

/* ---- the pipeline ---- */

static int open_pipeline(tile_job *job, int64_t dims[MOSAIC_AXES]) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_dtype dtype = job->item_bytes ? IOBIND_UINT8 : IOBIND_FLOAT32;
  iobind_device *cpu = iobind_runtime_get_device(job->tool->runtime, 0);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  void *data = NULL;
  dims[MOSAIC_C] = job->pictures.dims[MOSAIC_C];
  for (int axis = 0; axis < MOSAIC_AXES; axis++) {
    if (job->layout.place[axis] >= 0) job->item_dims[job->layout.place[axis]] = dims[axis];
  }
  if (iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, job->item_dims, job->layout.rank, &job->item, &error) !=
          IOBIND_OK ||
      iobind_tensor_get_data(job->item, dtype, &data, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  job->tiles = mosaic_look(data, job->item_bytes, job->item_dims, &job->layout);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  if (iobind_tensor_get_info(job->item, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  memset(data, 0, info.bytes);
  options.slots = (size_t)job->wish->slots;
  options.flags = IOBIND_PIPELINE_TIMES | IOBIND_PIPELINE_STOP;
  if (iobind_pipeline_create(job->session, &options, &job->pipeline, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  job->outputs = calloc(job->output_count + 1, sizeof(iobind_tensor *));
  return job->outputs != NULL ? TOOL_GO : tool_fail(job->tool, "out of memory");
}

/* Does an output have the tile's height and width times or through one whole number? */
static bool fits(tile_job *job, const iobind_tensor_info *info) {
  char letters[MOSAIC_AXES + 1];
  size_t length = 0;
  for (size_t i = 0; i < job->layout.rank; i++) {
    bool dropped = info->rank + 1 == job->layout.rank && job->layout.letters[i] == 'C';
    if (!dropped) letters[length++] = job->layout.letters[i];
  }
  letters[length] = 0;
  if (length != info->rank || !mosaic_read_layout(letters, &job->output_layout)) return false;
  mosaic_view found = mosaic_look(NULL, false, info->dims, &job->output_layout);
  int64_t height = job->tiles.dims[MOSAIC_H], width = job->tiles.dims[MOSAIC_W];
  int64_t rows = found.dims[MOSAIC_H], columns = found.dims[MOSAIC_W];
  if (rows < 1 || columns < 1 || found.dims[MOSAIC_N] != job->tiles.dims[MOSAIC_N]) return false;
  job->scale = rows > height ? rows / height : 1;
  job->step = rows < height ? height / rows : 1;
  return rows * job->step == height * job->scale && columns * job->step == width * job->scale;
}

static int refuse_outputs(const tile_job *job, const char *name, const iobind_tensor_info *info) {
  char *dims = tool_describe_dims(info->dims, info->rank);
  int code = tool_fail(
      job->tool,
      "output '%s' of a tile of %" PRId64 " x %" PRId64 " is %s%s: expected float32 or uint8 with its height and "
      "width, times or through a whole number; what says one thing of a whole picture needs no tiles [SHAPE]",
      name, job->tiles.dims[MOSAIC_H], job->tiles.dims[MOSAIC_W], iobind_dtype_name(info->dtype), dims == NULL ? "?" : dims);
  free(dims);
  return code;
}

/* An item of zeros goes ahead: it shows the output's size, and what a device makes on its first run is made. */
static int try_out(tile_job *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  progress_say("running %s for the first time", job->tool->arguments[0]);
  if (iobind_pipeline_submit(job->pipeline, &job->item, &error) != IOBIND_OK ||
      iobind_pipeline_next(job->pipeline, job->outputs, NULL, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  for (job->output = 0; job->output < job->output_count; job->output++) {
    if (job->outputs[job->output] == NULL) continue;
    if (iobind_tensor_get_info(job->outputs[job->output], &info, &error) != IOBIND_OK ||
        iobind_session_get_output(job->session, job->output, &value, &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
    job->output_name = value.name;
    job->output_bytes = info.dtype == IOBIND_UINT8;
    if ((job->output_bytes || info.dtype == IOBIND_FLOAT32) && fits(job, &info)) break;
  }
  if (value.name == NULL) return tool_fail(job->tool, "the model has no output that is a tensor [NOT_SUPPORTED]");
  if (job->output == job->output_count) return refuse_outputs(job, value.name, &info);
  if (job->output_count > 1) tool_warn(job->tool, "of %zu outputs '%s' is put together", job->output_count, value.name);
  return TOOL_GO;
}

/* A side that is no longer than a tile has one tile, which shares nothing. */
static int plan_side(const tile_job *job, int axis, grid_axis *side) {
  int64_t length = job->pictures.dims[axis], tile = job->tiles.dims[axis];
  int64_t overlap = length > tile ? job->wish->overlap : 0;
  if ((overlap + job->step - 1) / job->step > tile / job->step / 2) {
    return tool_misuse(job->tool, "--overlap: expected at most half of a tile of %" PRId64 " x %" PRId64 ", got %" PRId64,
                       job->tiles.dims[MOSAIC_H], job->tiles.dims[MOSAIC_W], overlap);
  }
  *side = grid_plan(length, tile, overlap, job->step);
  return TOOL_GO;
}

static int plan(tile_job *job) {
  int code = plan_side(job, MOSAIC_H, &job->rows);
  if (code == TOOL_GO) code = plan_side(job, MOSAIC_W, &job->columns);
  if (code != TOOL_GO) return code;
  size_t batch = (size_t)job->tiles.dims[MOSAIC_N];
  job->tile_count = (size_t)job->pictures.dims[MOSAIC_N] * job->rows.count * job->columns.count;
  job->item_count = (job->tile_count + batch - 1) / batch;
  job->times = calloc(job->item_count, sizeof *job->times);
  job->weights = malloc((size_t)((job->rows.tile + job->columns.tile) * job->scale) * sizeof *job->weights);

  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_get_info(job->outputs[job->output], &info, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  int64_t dims[MOSAIC_AXES];
  const int64_t whole[MOSAIC_AXES] = {job->pictures.dims[MOSAIC_N], -1, job->rows.length * job->scale,
                                      job->columns.length * job->scale};
  for (int axis = 0; axis < MOSAIC_AXES; axis++) {
    int place = job->output_layout.place[axis];
    if (place >= 0) dims[place] = axis == MOSAIC_C ? info.dims[place] : whole[axis];
  }
  job->sums = (npy_array){.kind = 'f', .item_bytes = sizeof(float)};
  bool sized = npy_set_dims(&job->sums, dims, job->output_layout.rank);
  if (sized) job->sums.data = calloc(job->sums.count + 1, sizeof(float));
  if (job->times == NULL || job->weights == NULL || job->sums.data == NULL) {
    return tool_fail(job->tool, "out of memory for the whole output");
  }
  job->result = mosaic_look(job->sums.data, false, dims, &job->output_layout);
  return TOOL_GO;
}

typedef struct tile_place {
  int64_t picture;
  size_t row;
  size_t column;
} tile_place;

static tile_place place_of(const tile_job *job, size_t tile) {
  size_t each = job->rows.count * job->columns.count;
  return (tile_place){(int64_t)(tile / each), tile % each / job->columns.count, tile % job->columns.count};
}

/* The last item is as full as the others: what it lacks are the tiles that were there before. */
static int submit(tile_job *job, size_t item) {
  iobind_error error = IOBIND_ERROR_INIT;
  int64_t batch = job->tiles.dims[MOSAIC_N];
  const mosaic_levels levels = {job->levels, job->levels + job->pictures.dims[MOSAIC_C], job->wish->reversed};
  for (int64_t i = 0; i < batch && item * (size_t)batch + (size_t)i < job->tile_count; i++) {
    tile_place place = place_of(job, item * (size_t)batch + (size_t)i);
    mosaic_cut(&job->pictures, place.picture, grid_origin(&job->rows, place.row), grid_origin(&job->columns, place.column),
               &levels, &job->tiles, i);
  }
  if (iobind_pipeline_submit(job->pipeline, &job->item, &error) == IOBIND_OK) return TOOL_GO;
  return tool_fail_error(job->tool, NULL, &error);
}

static int pull(tile_job *job, size_t item) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  void *data = NULL;
  job->times[item] = (iobind_pipeline_item)IOBIND_PIPELINE_ITEM_INIT;
  if (iobind_pipeline_next(job->pipeline, job->outputs, &job->times[item], &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  iobind_tensor *output = job->outputs[job->output];
  int64_t scale = job->scale, step = job->step;
  if (iobind_tensor_get_info(output, &info, &error) != IOBIND_OK ||
      iobind_tensor_get_data(output, (iobind_dtype)info.dtype, &data, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  if (!fits(job, &info) || job->scale != scale || job->step != step) return refuse_outputs(job, job->output_name, &info);
  mosaic_view tiles = mosaic_look(data, job->output_bytes, info.dims, &job->output_layout);
  if (tiles.dims[MOSAIC_C] != job->result.dims[MOSAIC_C]) return refuse_outputs(job, job->output_name, &info);
  int64_t batch = tiles.dims[MOSAIC_N];
  float *row_weights = job->weights, *column_weights = job->weights + job->rows.tile * scale;
  for (int64_t i = 0; i < batch && item * (size_t)batch + (size_t)i < job->tile_count; i++) {
    tile_place place = place_of(job, item * (size_t)batch + (size_t)i);
    grid_weigh(&job->rows, place.row, scale, row_weights);
    grid_weigh(&job->columns, place.column, scale, column_weights);
    mosaic_add(&tiles, i, row_weights, column_weights, &job->result, place.picture,
               grid_origin(&job->rows, place.row) / step * scale, grid_origin(&job->columns, place.column) / step * scale);
  }
  if (tool_is_host(job->device)) job->times[item].download_ns = 0; /* handing it over is no stage */
  return TOOL_GO;
}

static int run_all(tile_job *job) {
  size_t slots = (size_t)job->wish->slots;
  int code = TOOL_GO;
  uint64_t start = number_now();
  for (size_t i = 0; code == TOOL_GO && i < job->item_count + slots; i++) {
    if (i >= slots && i - slots < job->item_count) {
      progress_say("item %zu of %zu", i - slots + 1, job->item_count);
      code = pull(job, i - slots);
    }
    if (code == TOOL_GO && i < job->item_count) code = submit(job, i);
  }
  job->elapsed = number_now() - start;
  return code;
}

/* ---- what came out ---- */

static int write_bytes(tile_job *job, bool png) {
  tool_fault fault;
  mosaic_layout pixels;
  (void)mosaic_read_layout("HWC", &pixels);
  const mosaic_layout *layout = png ? &pixels : &job->output_layout;
  npy_array bytes = {.kind = 'u', .item_bytes = 1};
  const int64_t dims[] = {job->result.dims[MOSAIC_H], job->result.dims[MOSAIC_W], job->result.dims[MOSAIC_C]};
  if (!npy_set_dims(&bytes, png ? dims : job->sums.dims, layout->rank) || (bytes.data = malloc(bytes.bytes + 1)) == NULL) {
    return tool_fail(job->tool, "out of memory");
  }
  const mosaic_view view = mosaic_look(bytes.data, true, bytes.dims, layout);
  mosaic_round(&job->result, png && !job->output_bytes ? 255 : 1, png && job->wish->reversed, &view);
  const char *path = job->wish->output;
  bool written = png ? picture_write(path, &bytes, &fault) : npy_write(path, &bytes, &fault);
  npy_free(&bytes);
  return written ? TOOL_GO : tool_fail(job->tool, "--output %s", fault.text);
}

/* Before the work, which may take long. */
static int check_target(const tile_job *job) {
  int64_t channels = job->result.dims[MOSAIC_C];
  if (!picture_is_png(job->wish->output)) return TOOL_GO;
  if (job->result.dims[MOSAIC_N] != 1) {
    return tool_fail(job->tool, "--output: a PNG holds one picture, not %" PRId64 "; take a .npy file",
                     job->result.dims[MOSAIC_N]);
  }
  if (channels == 1 || channels == 3 || channels == 4) return TOOL_GO;
  return tool_fail(job->tool, "--output: '%s' has %" PRId64 " channels, a PNG 1, 3 or 4; take a .npy file [SHAPE]",
                   job->output_name, channels);
}

static int write_result(tile_job *job) {
  tool_fault fault;
  progress_say("writing %s", job->wish->output);
  bool png = picture_is_png(job->wish->output);
  if (png || job->output_bytes) return write_bytes(job, png);
  if (npy_write(job->wish->output, &job->sums, &fault)) return TOOL_GO;
  return tool_fail(job->tool, "--output %s", fault.text);
}

static void add_time(tool_report *report, const char *key, const char *label, uint64_t nanoseconds) {
  char text[NUMBER_TEXT];
  report_field(report, key, label, json_integer((json_int_t)nanoseconds), "%s", number_format_time((double)nanoseconds, text));
}

static void add_stages(tool_report *report, const trace_figures *figures) {
  report_table *table = report_add_table(report, "stages", NULL);
  report_column(table, "stage", "STAGE", REPORT_LEFT);
  report_column(table, "busy_ns", "AT WORK", REPORT_RIGHT);
  for (int stage = 0; stage < TRACE_STAGES; stage++) {
    char text[NUMBER_TEXT];
    if (!figures->has[stage]) continue;
    report_row(table);
    report_cell(table, json_string(trace_stage_name(stage)), NULL);
    report_cell(table, json_integer((json_int_t)figures->stages[stage]), "%s",
                number_format_time((double)figures->stages[stage], text));
  }
  add_time(report, "sequential_ns", "one after the other", figures->sum);
  add_time(report, "pipeline_ns", "took", figures->elapsed);
  if (isnan(figures->overlap)) {
    report_field(report, "overlap", "overlap", NULL, "none: nothing crosses a link, there is one stage");
  } else {
    report_field(report, "overlap", "overlap", json_real(figures->overlap), "%.0f %% of what there is beside the longest stage",
                 100 * figures->overlap);
  }
}

static void add_tiles(const tile_job *job, tool_report *report) {
  const int64_t *picture = job->pictures.dims;
  report_field(report, "model", "model", report_string(job->tool->arguments[0]), NULL);
  report_field(report, "device", "device", report_string(tool_device_spec(job->device)), NULL);
  report_field(report, "pictures", NULL, json_integer(picture[MOSAIC_N]), NULL);
  report_field(report, "picture_dims", "picture", tool_dims_json(picture + MOSAIC_C, 3),
               "%" PRId64 " x %" PRId64 ", channels: %" PRId64 ", layout of the model: %s", picture[MOSAIC_H],
               picture[MOSAIC_W], picture[MOSAIC_C], job->layout.letters);
  report_field(report, "tile_count", "tiles", json_integer((json_int_t)job->tile_count),
               "%zu x %zu of %" PRId64 " x %" PRId64 "%s", job->rows.count, job->columns.count, job->tiles.dims[MOSAIC_H],
               job->tiles.dims[MOSAIC_W], picture[MOSAIC_N] > 1 ? " for each picture" : "");
  report_field(report, "item_count", "items", json_integer((json_int_t)job->item_count), NULL);
  char *dims = tool_describe_dims(job->sums.dims, job->sums.rank);
  report_field(report, "output", "output", report_string(job->output_name), "%s, %s", job->output_name,
               dims == NULL ? "?" : dims);
  report_field(report, "output_dims", NULL, tool_dims_json(job->sums.dims, job->sums.rank), NULL);
  report_field(report, "file", "written to", report_string(job->wish->output), NULL);
  free(dims);
}

static int report_job(tile_job *job) {
  tool_fault fault;
  trace_span *spans = calloc(job->item_count * TRACE_STAGES, sizeof *spans);
  tool_report *report = report_create();
  int code = spans == NULL ? tool_fail(job->tool, "out of memory") : TOOL_GO;
  if (code == TOOL_GO) {
    trace_make(job->times, job->item_count, spans);
    if (job->wish->trace != NULL && !trace_write(job->wish->trace, spans, job->item_count, &fault)) {
      code = tool_fail(job->tool, "--trace %s", fault.text);
    }
  }
  if (code == TOOL_GO) {
    const trace_figures figures = trace_measure(spans, job->item_count);
    add_tiles(job, report);
    add_time(report, "load_ns", "loaded in", job->load_time);
    add_time(report, "elapsed_ns", "cut, run and put together in", job->elapsed);
    add_stages(report, &figures);
    code = tool_print(job->tool, report, TOOL_DONE);
  }
  report_destroy(report);
  free(spans);
  return code;
}

/* ---- the command ---- */

static int prepare(tile_job *job) {
  tool_state *tool = job->tool;
  int64_t dims[MOSAIC_AXES] = {0};
  int code = tool_open(tool);
  if (code == TOOL_GO) code = tool_first_device(tool, &job->device);
  uint64_t mark = number_now();
  if (code == TOOL_GO) code = tool_load(tool, tool->arguments[0], job->device, 0, &job->session);
  job->load_time = number_now() - mark;
  if (code == TOOL_GO) code = inspect_input(job, dims);
  if (code == TOOL_GO) code = read_pictures(job, dims[MOSAIC_C]);
  if (code == TOOL_GO) code = make_levels(job);
  if (code == TOOL_GO) code = open_pipeline(job, dims);
  if (code == TOOL_GO) code = try_out(job);
  if (code == TOOL_GO) code = plan(job);
  return code == TOOL_GO ? check_target(job) : code;
}

static int work(tool_state *tool, const tile_wish *wish) {
  tile_job job = {.tool = tool, .wish = wish};
  progress_begin(tool);
  int code = prepare(&job);
  if (code == TOOL_GO) code = run_all(&job);
  if (code == TOOL_GO) code = write_result(&job);
  if (code == TOOL_GO) code = report_job(&job);
  iobind_pipeline_destroy(job.pipeline);
  iobind_tensor_release(job.item);
  iobind_session_destroy(job.session);
  npy_free(&job.source);
  free(job.sums.data);
  free(job.levels);
  free(job.weights);
  free(job.times);
  free(job.outputs);
  return code;
}

static int read_size(const tool_state *tool, const char *text, int64_t size[2]) {
  enum { LARGEST = 1 << 20 };
  char height[24];
  const char *x = strchr(text, 'x');
  if (x != NULL) snprintf(height, sizeof height, "%.*s", (int)(x - text), text);
  if (x != NULL && number_parse_integer(height, 1, LARGEST, &size[0]) && number_parse_integer(x + 1, 1, LARGEST, &size[1])) {
    return TOOL_GO;
  }
  return tool_misuse(tool, "--tile: expected HEIGHTxWIDTH such as 640x640, got '%s'", text);
}

static bool ends_in(const char *path, const char *end) {
  size_t length = strlen(path);
  return length > strlen(end) && strcmp(path + length - strlen(end), end) == 0;
}

static int check_files(const tool_state *tool, const tile_wish *wish) {
  if (wish->input == NULL || wish->output == NULL) {
    return tool_misuse(tool, "%s FILE is missing", wish->input == NULL ? "--input" : "--output");
  }
  if (!picture_is_png(wish->input) && !ends_in(wish->input, ".npy")) {
    return tool_misuse(tool, "--input: expected a file that ends in .png or .npy, got '%s'", wish->input);
  }
  if (!picture_is_png(wish->output) && !ends_in(wish->output, ".npy")) {
    return tool_misuse(tool, "--output: expected a file that ends in .png or .npy, got '%s'", wish->output);
  }
  if (wish->trace != NULL && strcmp(wish->trace, wish->output) == 0) {
    return tool_misuse(tool, "--trace: '%s' is where --output goes", wish->trace);
  }
  return TOOL_GO;
}

int command_tile(int argc, const char **argv) {
  enum { INPUT, OUTPUT, TILE, OVERLAP, BATCH, SLOTS, LAYOUT, MEAN, STD, TRACE, LISTS };
  char **lists[LISTS] = {NULL};
  int reversed = 0;
  const struct poptOption options[] = {
      {"input", 'i', POPT_ARG_ARGV, &lists[INPUT], 0, "The picture: a PNG, or a numpy array in the model's layout", "FILE"},
      {"output", 0, POPT_ARG_ARGV, &lists[OUTPUT], 0, "Where the whole output goes: a PNG, or a numpy array", "FILE"},
      {"tile", 0, POPT_ARG_ARGV, &lists[TILE], 0, "A tile's height and width; the model's own if not given", "HxW"},
      {"overlap", 0, POPT_ARG_ARGV, &lists[OVERLAP], 0, "Pixels that neighbours share at least (default 0)", "N"},
      {"batch", 0, POPT_ARG_ARGV, &lists[BATCH], 0, "Tiles in a run; the model's own if not given, or 1", "N"},
      {"slots", 0, POPT_ARG_ARGV, &lists[SLOTS], 0, "Runs that are under way at a time (default 3)", "N"},
      {"layout", 0, POPT_ARG_ARGV, &lists[LAYOUT], 0, "The dims of the input, such as NCHW, where they do not tell it",
       "LETTERS"},
      {"mean", 0, POPT_ARG_ARGV, &lists[MEAN], 0, "Taken off each pixel; one for each channel with commas (default 0)", "M"},
      {"std", 0, POPT_ARG_ARGV, &lists[STD], 0, "What is left is divided by it (default 255 for a PNG, otherwise 1)", "S"},
      {"bgr", 0, POPT_ARG_NONE, &reversed, 0, "The model's channels are in reverse order: blue, green, red", NULL},
      {"trace", 0, POPT_ARG_ARGV, &lists[TRACE], 0, "Write when each stage was at work, for Perfetto", "FILE.json"},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "tile",
      .arguments = "MODEL",
      .summary = "Run a model over a picture tile by tile, with copies and runs at the same time.",
      .notes = "The output must have the tile's height and width, times or through a whole number. Tiles are spread evenly; a\n"
               "picture that is smaller than one is filled up with its last row and column. Neighbours fade into one another\n"
               "in the middle of what they share, over half of --overlap. In a PNG 0 to 1 become 0 to 255.",
      .takes = TOOL_TAKES_DEVICE,
      .argument_count = 1,
      .options = options,
  };
  tool_state tool;
  tile_wish wish = {.slots = 3};
  const char *size = NULL;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = tool_single(&tool, lists[INPUT], "--input", &wish.input);
  if (code == TOOL_GO) code = tool_single(&tool, lists[OUTPUT], "--output", &wish.output);
  if (code == TOOL_GO) code = tool_single(&tool, lists[TRACE], "--trace", &wish.trace);
  if (code == TOOL_GO) code = tool_single(&tool, lists[LAYOUT], "--layout", &wish.layout);
  if (code == TOOL_GO) code = tool_single(&tool, lists[MEAN], "--mean", &wish.mean);
  if (code == TOOL_GO) code = tool_single(&tool, lists[STD], "--std", &wish.deviation);
  if (code == TOOL_GO) code = tool_single(&tool, lists[TILE], "--tile", &size);
  if (code == TOOL_GO) code = tool_integer(&tool, lists[OVERLAP], "--overlap", 0, 1 << 20, &wish.overlap);
  if (code == TOOL_GO) code = tool_integer(&tool, lists[BATCH], "--batch", 1, 1 << 16, &wish.batch);
  if (code == TOOL_GO) code = tool_integer(&tool, lists[SLOTS], "--slots", 1, 1 << 10, &wish.slots);
  wish.reversed = reversed != 0;
  if (code == TOOL_GO && size != NULL) code = read_size(&tool, size, wish.tile);
  if (code == TOOL_GO) code = check_files(&tool, &wish);
  if (code == TOOL_GO) code = work(&tool, &wish);
  code = tool_end(&tool, code);
  for (int i = 0; i < LISTS; i++) tool_free_list(lists[i]);
  return code;
}
