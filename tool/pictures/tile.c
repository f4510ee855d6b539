#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/tile.h"
#include "pictures/picture.h"
#include "shared/number.h"

/* ---- the output ---- */

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
  const mosaic_view view = mosaic_look(bytes.data, MOSAIC_BYTES, bytes.dims, layout);
  mosaic_round(&job->result, png && job->output_kind != MOSAIC_BYTES ? 255 : 1, png && job->wish->reversed, &view);
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
  if (png || job->output_kind == MOSAIC_BYTES) return write_bytes(job, png);
  if (npy_write(job->wish->output, &job->sums, &fault)) return TOOL_GO;
  return tool_fail(job->tool, "--output %s", fault.text);
}

static void add_time(tool_report *report, const char *key, const char *label, uint64_t nanoseconds) {
  char text[NUMBER_TEXT];
  report_field(report, key, label, json_integer((json_int_t)nanoseconds), "%s", number_format_time((double)nanoseconds, text));
}

/* On a virtual clock: how long each part of the device was busy. */
static trace_figures modelled_figures(const tile_job *job) {
  trace_figures figures = {.stages = {job->work.upload, job->work.compute, job->work.download}, .elapsed = job->modelled};
  for (int stage = 0; stage < TRACE_STAGES; stage++) figures.has[stage] = figures.stages[stage] > 0;
  trace_sum(&figures);
  return figures;
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
    report_field(report, "overlap", "overlap", NULL, "none: no data cross a link, so there is one stage");
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
    bool modelled = job->tool->clock.read != NULL;
    const trace_figures figures = modelled ? modelled_figures(job) : trace_measure(spans, job->item_count);
    add_tiles(job, report);
    add_time(report, "load_ns", "loaded in", job->load_time);
    add_time(report, "elapsed_ns", "cut, run and put together in", job->elapsed);
    tool_report_clock(job->tool, report);
    add_stages(report, &figures);
    code = tool_report_profile(job->tool, job->session, report);
    if (code == TOOL_GO) code = tool_print(job->tool, report, TOOL_DONE);
  }
  report_destroy(report);
  free(spans);
  return code;
}

/* ---- the command ---- */

static int load(tile_job *job) {
  uint64_t mark = number_now();
  int code = tool_load(job->tool, job->tool->arguments[0], &job->device, 0, &job->session);
  job->load_time += number_now() - mark;
  return code;
}

/* The times of the stages are the device's there, and it keeps no list of them. */
static int check_trace(const tile_job *job) {
  if (job->wish->trace == NULL || job->tool->clock.read == NULL) return TOOL_GO;
  return tool_misuse(job->tool,
                     "--trace: '%s' has a virtual clock; its own trace shows modelled times: set VDEV_TRACE=1 and "
                     "VDEV_TRACE_FILE=%s instead",
                     tool_device_spec(job->device), job->wish->trace);
}

/* The input's dims are known now. A model loaded with them usually knows the dims of its outputs too, so that they need not be
 * waited for. */
static int fix_dims(tile_job *job) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_get_input(job->session, 0, &value, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  size_t before = job->tool->dim_count;
  for (size_t i = 0; value.has_shape && i < value.rank; i++) {
    if (value.dims[i] >= 0 || value.symbols[i][0] == 0) continue;
    if (!tool_add_dim(job->tool, value.symbols[i], -1, job->item_dims[i])) return tool_fail(job->tool, "out of memory");
  }
  if (job->tool->dim_count == before) return TOOL_GO;
  const char *profile = NULL; /* of a session that has not run */
  if (job->tool->wish.profile != NULL && iobind_session_end_profile(job->session, &profile, NULL) == IOBIND_OK) remove(profile);
  iobind_session_destroy(job->session);
  job->session = NULL;
  return load(job);
}

static int open_model(tile_job *job) {
  tool_state *tool = job->tool;
  int64_t dims[MOSAIC_AXES] = {0};
  int code = tool_open(tool);
  if (code == TOOL_GO) code = tool_first_device(tool, &job->device);
  if (code == TOOL_GO) code = load(job);
  if (code == TOOL_GO) code = check_trace(job);
  if (code == TOOL_GO) code = tile_inspect_input(job, dims);
  if (code == TOOL_GO) code = tile_read_pictures(job, dims[MOSAIC_C]);
  if (code == TOOL_GO) tile_set_item(job, dims);
  if (code == TOOL_GO) code = fix_dims(job);
  if (code == TOOL_GO) code = tile_prepare_flow(job);
  return code == TOOL_GO ? check_target(job) : code;
}

static int run_tiles(tool_state *tool, const tile_wish *wish) {
  tile_job job = {.tool = tool, .wish = wish};
  progress_begin(tool);
  int code = open_model(&job);
  if (code == TOOL_GO) code = tile_run(&job);
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
    return tool_misuse(tool, "--trace: '%s' is also the file of --output", wish->trace);
  }
  return TOOL_GO;
}

int command_tile(int argc, const char **argv) {
  enum { INPUT, OUTPUT, TILE, OVERLAP, BATCH, SLOTS, LAYOUT, MEAN, STD, TRACE, LISTS };
  char **lists[LISTS] = {NULL};
  int reversed = 0;
  const struct poptOption options[] = {
      {"input", 'i', POPT_ARG_ARGV, &lists[INPUT], 0, "The picture: a PNG, or a numpy array in the model's layout", "FILE"},
      {"output", 0, POPT_ARG_ARGV, &lists[OUTPUT], 0, "The file for the joined output: a PNG, or a numpy array", "FILE"},
      {"tile", 0, POPT_ARG_ARGV, &lists[TILE], 0, "A tile's height and width (default: the model's fixed size)", "HxW"},
      {"overlap", 0, POPT_ARG_ARGV, &lists[OVERLAP], 0, "The minimum number of pixels that neighbours share (default 0)", "N"},
      {"batch", 0, POPT_ARG_ARGV, &lists[BATCH], 0, "Tiles in a run (default: the model's fixed batch size, or 1)", "N"},
      {"slots", 0, POPT_ARG_ARGV, &lists[SLOTS], 0, "The number of runs in flight (default 3)", "N"},
      {"layout", 0, POPT_ARG_ARGV, &lists[LAYOUT], 0, "The order of the input's dims, such as NCHW, if it cannot be inferred",
       "LETTERS"},
      {"mean", 0, POPT_ARG_ARGV, &lists[MEAN], 0,
       "Subtracted from each pixel; one number, or one for each channel, separated by commas (default 0)", "M"},
      {"std", 0, POPT_ARG_ARGV, &lists[STD], 0, "The divisor after that (default 255 for a PNG, otherwise 1)", "S"},
      {"bgr", 0, POPT_ARG_NONE, &reversed, 0, "The model's channels are in reverse order: blue, green, red", NULL},
      {"trace", 0, POPT_ARG_ARGV, &lists[TRACE], 0, "Write the start and end of each stage, for Perfetto", "FILE.json"},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "tile",
      .arguments = "MODEL",
      .summary = "Run a model over a picture tile by tile; copies and runs overlap.",
      .notes =
          "The output must have the tile's height and width, multiplied or divided by a whole number. Tiles are spread evenly. A\n"
          "picture that is smaller than a tile is padded with its last row and column. Neighbours are blended in the middle of\n"
          "the region that they share, over half of --overlap. In a PNG, 0 to 1 become 0 to 255.",
      .takes = TOOL_TAKES_DEVICE | TOOL_TAKES_DIMS | TOOL_TAKES_SESSION | TOOL_TAKES_RUNS,
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
  if (code == TOOL_GO) code = run_tiles(&tool, &wish);
  code = tool_end(&tool, code);
  for (int i = 0; i < LISTS; i++) tool_free_list(lists[i]);
  return code;
}
