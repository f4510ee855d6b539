#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/tile.h"
#include "shared/number.h"

/* ---- the pipeline ---- */

void tile_set_item(tile_job *job, int64_t dims[MOSAIC_AXES]) {
  dims[MOSAIC_C] = job->pictures.dims[MOSAIC_C];
  for (int axis = 0; axis < MOSAIC_AXES; axis++) {
    if (job->layout.place[axis] >= 0) job->item_dims[job->layout.place[axis]] = dims[axis];
  }
}

static bool is_modelled(const tile_job *job) {
  return job->tool->clock.read != NULL;
}

static int open_pipeline(tile_job *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  static const iobind_dtype dtypes[] = {
      [MOSAIC_BYTES] = IOBIND_DTYPE_UINT8, [MOSAIC_HALVES] = IOBIND_DTYPE_FLOAT16, [MOSAIC_FLOATS] = IOBIND_DTYPE_FLOAT32};
  iobind_dtype dtype = dtypes[job->item_kind];
  iobind_device *cpu = iobind_runtime_get_device(job->tool->runtime, 0);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_run_options run_options = IOBIND_RUN_OPTIONS_INIT;
  void *data = NULL;
  if (iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, job->item_dims, job->layout.rank, &job->item, &error) !=
          IOBIND_OK ||
      iobind_tensor_map(job->item, dtype, IOBIND_ACCESS_WRITE, &data, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  job->tiles = mosaic_look(data, job->item_kind, job->item_dims, &job->layout);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  if (iobind_tensor_get_info(job->item, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  memset(data, 0, info.bytes);
  options.slots = (size_t)job->wish->slots;
  wish_apply_to_runs(&job->tool->wish.run_configs, &run_options);
  options.run_options = &run_options;
  /* Threads that measure wait for the device, which would advance a virtual clock. There the times are the device's statistics. */
  options.flags = IOBIND_PIPELINE_STOP | (is_modelled(job) ? 0 : IOBIND_PIPELINE_TIMES);
  if (iobind_pipeline_create(job->session, &options, &job->pipeline, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  job->outputs = calloc(job->output_count + 1, sizeof(iobind_tensor *));
  return job->outputs != NULL ? TOOL_GO : tool_fail(job->tool, "out of memory");
}

/* Does an output have the tile's height and width multiplied or divided by one whole number? */
static bool fits(tile_job *job, const iobind_tensor_info *info) {
  char letters[MOSAIC_AXES + 1];
  size_t length = 0;
  for (size_t i = 0; i < job->layout.rank; i++) {
    bool dropped = info->rank + 1 == job->layout.rank && job->layout.letters[i] == 'C';
    if (!dropped) letters[length++] = job->layout.letters[i];
  }
  letters[length] = 0;
  if (length != info->rank || !mosaic_read_layout(letters, &job->output_layout)) return false;
  mosaic_view found = mosaic_look(NULL, MOSAIC_FLOATS, info->dims, &job->output_layout);
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
      "output '%s' of a tile of %" PRId64 " x %" PRId64 " is %s%s: expected float32, float16 or uint8 with its height and "
      "width, multiplied or divided by a whole number; a model with one result for a whole picture needs no tiles [SHAPE]",
      name, job->tiles.dims[MOSAIC_H], job->tiles.dims[MOSAIC_W], iobind_dtype_get_name(info->dtype),
      dims == NULL ? "?" : dims);
  free(dims);
  return code;
}

static iobind_status submit_item(tile_job *job, iobind_error *error) {
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = &job->item;
  request.input_count = 1;
  return iobind_pipeline_submit(job->pipeline, &request, error);
}

static iobind_status next_item(tile_job *job, iobind_pipeline_item *item, iobind_error *error) {
  return iobind_pipeline_next(job->pipeline, IOBIND_NO_TIMEOUT, job->outputs, job->output_count, item, error);
}

/* The first item is zeros: it shows the output's size, and a device does its first-run work. */
static int try_out(tile_job *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  progress_say("running %s for the first time", job->tool->arguments[0]);
  if (submit_item(job, &error) != IOBIND_OK || next_item(job, NULL, &error) != IOBIND_OK) {
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
    if (tile_find_kind(info.dtype, &job->output_kind) && fits(job, &info)) break;
  }
  if (value.name == NULL) return tool_fail(job->tool, "no output of the model is a tensor [NOT_SUPPORTED]");
  if (job->output == job->output_count) return refuse_outputs(job, value.name, &info);
  if (job->output_count > 1) tool_warn(job->tool, "of %zu outputs '%s' is used", job->output_count, value.name);
  return TOOL_GO;
}

/* A side that is not longer than a tile has one tile, which shares nothing. */
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
  job->result = mosaic_look(job->sums.data, MOSAIC_FLOATS, dims, &job->output_layout);
  return TOOL_GO;
}

int tile_prepare_flow(tile_job *job) {
  int code = open_pipeline(job);
  if (code == TOOL_GO) code = try_out(job);
  return code == TOOL_GO ? plan(job) : code;
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

/* After an item has failed, submitting is refused; pulling that item gives the reason. */
static void find_failure(tile_job *job, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status;
  do {
    status = next_item(job, NULL, &reason);
  } while (status == IOBIND_OK);
  if (status != IOBIND_ERROR_NOT_FOUND) *error = reason;
}

/* The last item is full like the others: missing tiles are those of the item before. */
static int submit(tile_job *job, size_t item) {
  iobind_error error = IOBIND_ERROR_INIT;
  int64_t batch = job->tiles.dims[MOSAIC_N];
  const mosaic_levels levels = {job->levels, job->levels + job->pictures.dims[MOSAIC_C], job->wish->reversed};
  for (int64_t i = 0; i < batch && item * (size_t)batch + (size_t)i < job->tile_count; i++) {
    tile_place place = place_of(job, item * (size_t)batch + (size_t)i);
    const mosaic_corner from = {place.picture, grid_origin(&job->rows, place.row), grid_origin(&job->columns, place.column)};
    mosaic_cut(&job->pictures, from, &levels, &job->tiles, i);
  }
  iobind_status status = submit_item(job, &error);
  if (status == IOBIND_ERROR_INVALID_STATE) find_failure(job, &error);
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(job->tool, NULL, &error);
}

static int pull(tile_job *job, size_t item) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  void *data = NULL;
  job->times[item] = (iobind_pipeline_item)IOBIND_PIPELINE_ITEM_INIT;
  if (next_item(job, &job->times[item], &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  iobind_tensor *output = job->outputs[job->output];
  int64_t scale = job->scale, step = job->step;
  if (iobind_tensor_get_info(output, &info, &error) != IOBIND_OK ||
      iobind_tensor_map(output, (iobind_dtype)info.dtype, IOBIND_ACCESS_READ, &data, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  if (!fits(job, &info) || job->scale != scale || job->step != step) return refuse_outputs(job, job->output_name, &info);
  mosaic_view tiles = mosaic_look(data, job->output_kind, info.dims, &job->output_layout);
  if (tiles.dims[MOSAIC_C] != job->result.dims[MOSAIC_C]) return refuse_outputs(job, job->output_name, &info);
  int64_t batch = tiles.dims[MOSAIC_N];
  float *row_weights = job->weights, *column_weights = job->weights + job->rows.tile * scale;
  for (int64_t i = 0; i < batch && item * (size_t)batch + (size_t)i < job->tile_count; i++) {
    tile_place place = place_of(job, item * (size_t)batch + (size_t)i);
    grid_weigh(&job->rows, place.row, scale, row_weights);
    grid_weigh(&job->columns, place.column, scale, column_weights);
    const mosaic_corner to = {place.picture, grid_origin(&job->rows, place.row) / step * scale,
                              grid_origin(&job->columns, place.column) / step * scale};
    mosaic_add(&tiles, i, row_weights, column_weights, &job->result, to);
  }
  if (tool_is_host(job->device)) job->times[item].download_ns = 0; /* without a download there is no such stage */
  return TOOL_GO;
}

static clock_work work_between(clock_work before, clock_work after) {
  return (clock_work){after.upload - before.upload, after.compute - before.compute, after.download - before.download};
}

int tile_run(tile_job *job) {
  size_t slots = (size_t)job->wish->slots;
  int code = TOOL_GO;
  uint64_t start = number_now(), modelled = clock_now(&job->tool->clock);
  clock_work before = clock_read_work(&job->tool->clock);
  for (size_t i = 0; code == TOOL_GO && i < job->item_count + slots; i++) {
    if (i >= slots && i - slots < job->item_count) {
      progress_say("item %zu of %zu", i - slots + 1, job->item_count);
      code = pull(job, i - slots);
    }
    if (code == TOOL_GO && i < job->item_count) code = submit(job, i);
  }
  job->elapsed = number_now() - start;
  job->modelled = is_modelled(job) ? clock_now(&job->tool->clock) - modelled : 0;
  job->work = work_between(before, clock_read_work(&job->tool->clock));
  return code;
}
