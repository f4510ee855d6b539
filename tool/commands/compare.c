#define _POSIX_C_SOURCE 200809L /* strndup */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/file.h"
#include "formats/graph.h"
#include "shared/number.h"
#include "shared/tool.h"

enum { DEVICE, REFERENCE, SIDES };

/* A model on one of the devices, run once. */
typedef struct side {
  iobind_session *session;
  iobind_tensor **outputs; /* NULL if an output is not a tensor */
  size_t output_count;
} side;

typedef struct compare_job {
  tool_state *tool;
  const char *with; /* the spec of the device whose results count as right; NULL: the CPU */
  iobind_tolerance limits;
  bool by_type; /* no limits are given */
  bool nodes;   /* find the first node that differs, too */
  iobind_device *devices[SIDES];
  iobind_tensor **inputs; /* host tensors, the same for both */
  size_t input_count;
  side sides[SIDES];
  bool differs;
} compare_job;

/* ---- running ---- */

static int run_side(compare_job *job, int which) {
  side *self = &job->sides[which];
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_get_info(self->session, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  self->outputs = calloc(info.output_count + 1, sizeof *self->outputs);
  if (self->outputs == NULL) return tool_fail(job->tool, "out of memory");
  self->output_count = info.output_count;
  if (job->inputs == NULL) {
    int code = tool_make_inputs(job->tool, self->session, &job->inputs, &job->input_count);
    if (code != TOOL_GO) return code;
  }
  const char *spec = tool_device_spec(job->devices[which]);
  progress_say("running %s on %s", job->tool->arguments[0], spec);
  iobind_status status = tool_run(self->session, job->inputs, job->input_count, self->outputs, self->output_count, &error);
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(job->tool, spec, &error);
}

static void close_sides(compare_job *job) {
  for (int which = 0; which < SIDES; which++) {
    side *self = &job->sides[which];
    tool_free_tensors(self->outputs, self->output_count);
    iobind_session_destroy(self->session);
    *self = (side){NULL, NULL, 0};
  }
}

/* ---- comparing ---- */

/* How an output of the two differs. */
typedef struct difference {
  bool same_shape; /* type and dims are the same; otherwise nothing else is set */
  bool measured;   /* numbers: how far they differ is known, not only how many */
  double absolute;
  double relative;
  size_t beyond;
} difference;

/* Of the others only the bits are compared. */
static bool is_number(int32_t dtype) {
  return dtype != IOBIND_DTYPE_BOOL &&
         (iobind_dtype_get_bits(dtype) > 8 || dtype == IOBIND_DTYPE_INT8 || dtype == IOBIND_DTYPE_UINT8);
}

/* Compare an output that both sides have as a tensor. */
static int compare_output(compare_job *job, size_t index, difference *found, iobind_tensor_info *info) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_difference d = IOBIND_DIFFERENCE_INIT;
  iobind_status status = iobind_tensor_get_info(job->sides[DEVICE].outputs[index], info, &error);
  if (status == IOBIND_OK) {
    status = iobind_tensor_compare(job->sides[DEVICE].outputs[index], job->sides[REFERENCE].outputs[index],
                                   job->by_type ? NULL : &job->limits, &d, &error);
  }
  const bool is_other = status == IOBIND_ERROR_SHAPE || status == IOBIND_ERROR_DTYPE;
  *found = (difference){!is_other, is_number(info->dtype), d.absolute, d.relative, (size_t)d.beyond};
  return status == IOBIND_OK || is_other ? TOOL_GO : tool_fail_error(job->tool, NULL, &error);
}

static bool is_beyond(const difference *d) {
  return !d->same_shape || d->beyond > 0;
}

static void add_figure(report_table *table, const difference *d, double figure) {
  bool known = d->same_shape && d->measured;
  report_cell(table, known ? json_real(figure) : NULL, known ? "%.3g" : "-", figure); /* infinity is null in JSON */
}

static int add_output(compare_job *job, report_table *table, size_t index) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  difference d = {0};
  if (iobind_session_get_output(job->sides[DEVICE].session, index, &value, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  if (job->sides[DEVICE].outputs[index] == NULL) return TOOL_GO;
  int code = compare_output(job, index, &d, &info);
  if (code != TOOL_GO) return code;
  char *dims = tool_describe_dims(info.dims, info.rank);
  report_row(table);
  report_cell(table, report_string(value.name), NULL);
  report_cell(table, json_string(iobind_dtype_get_name(info.dtype)), NULL);
  report_cell(table, tool_dims_json(info.dims, info.rank), "%s", dims == NULL ? "?" : dims);
  add_figure(table, &d, d.absolute);
  add_figure(table, &d, d.relative);
  report_cell(table, d.same_shape ? json_integer((json_int_t)d.beyond) : NULL, d.same_shape ? "%zu" : "other dims", d.beyond);
  report_cell_mark(table, is_beyond(&d) ? REPORT_BAD : REPORT_GOOD);
  job->differs = job->differs || is_beyond(&d);
  free(dims);
  return TOOL_GO;
}

static int compare_outputs(compare_job *job, tool_report *report) {
  int code = TOOL_GO;
  for (int which = 0; code == TOOL_GO && which < SIDES; which++) {
    code = tool_load(job->tool, job->tool->arguments[0], &job->devices[which], 0, &job->sides[which].session);
    if (code == TOOL_GO) code = run_side(job, which);
  }
  report_table *table = report_add_table(report, "outputs", NULL);
  report_column(table, "name", "OUTPUT", REPORT_LEFT);
  report_column(table, "dtype", "TYPE", REPORT_LEFT);
  report_column(table, "dims", "DIMS", REPORT_LEFT);
  report_column(table, "absolute", "ABSOLUTE", REPORT_RIGHT);
  report_column(table, "relative", "RELATIVE", REPORT_RIGHT);
  report_column(table, "beyond", "BEYOND", REPORT_RIGHT);
  for (size_t i = 0; code == TOOL_GO && i < job->sides[DEVICE].output_count; i++) code = add_output(job, table, i);
  close_sides(job);
  return code;
}

/* ---- the first node that differs ---- */

static int read_model(const compare_job *job, unsigned char **model, size_t *bytes) {
  tool_fault fault;
  uint64_t size = 0;
  const char *path = job->tool->arguments[0];
  int descriptor = file_open(path, &size, &fault);
  if (descriptor < 0) return tool_fail(job->tool, "%s", fault.text);
  *bytes = (size_t)size;
  *model = malloc(*bytes + 1);
  bool read = *model != NULL && file_read(descriptor, path, *model, *bytes, &fault);
  close(descriptor);
  if (read) return TOOL_GO;
  return tool_fail(job->tool, "%s", *model == NULL ? "out of memory" : fault.text);
}

static void report_node(tool_report *report, const graph_value *value, const difference *d) {
  json_t *node = json_object();
  bool known = d->same_shape && d->measured;
  json_object_set_new(node, "name", report_string(value->node));
  json_object_set_new(node, "op_type", report_string(value->op_type));
  json_object_set_new(node, "output", report_string(value->name));
  json_object_set_new(node, "absolute", known && isfinite(d->absolute) ? json_real(d->absolute) : json_null());
  json_object_set_new(node, "relative", known && isfinite(d->relative) ? json_real(d->relative) : json_null());
  if (known) {
    report_field(report, "node", "first node that differs", node, "%s %s, output '%s': by %.3g, relative %.3g", value->op_type,
                 value->node[0] != 0 ? value->node : "(no name)", value->name, d->absolute, d->relative);
  } else {
    report_field(report, "node", "first node that differs", node, "%s %s, output '%s'", value->op_type,
                 value->node[0] != 0 ? value->node : "(no name)", value->name);
  }
  report_field_mark(report, REPORT_BAD);
}

/* The values in the order of the nodes, until one differs. */
static int find_node(compare_job *job, tool_report *report, const graph_value *values, size_t count) {
  size_t compared = 0;
  bool found = false;
  for (size_t i = 0; !found && i < count; i++) {
    size_t index = 0;
    difference d = {0};
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    if (iobind_session_find_output(job->sides[DEVICE].session, values[i].name, &index, NULL) != IOBIND_OK) continue;
    if (job->sides[DEVICE].outputs[index] == NULL) continue;
    int code = compare_output(job, index, &d, &info);
    if (code != TOOL_GO) return code;
    compared++;
    found = is_beyond(&d);
    if (found) report_node(report, &values[i], &d);
  }
  report_field(report, "compared_values", NULL, json_integer((json_int_t)compared), NULL);
  if (found) {
    job->differs = true;
  } else {
    report_field(report, "node", "first node that differs", NULL, "none of %zu values, compared as outputs%s", compared,
                 job->differs ? ", which keeps ONNX Runtime from fusing nodes" : "");
  }
  return TOOL_GO;
}

static int compare_edited(compare_job *job, tool_report *report, const unsigned char *model, size_t bytes) {
  graph_value *values = NULL;
  size_t count = 0;
  graph_edited edited = {0};
  tool_fault fault;
  int code = TOOL_GO;
  if (!graph_read(model, bytes, &values, &count, &fault) || !graph_add_outputs(model, bytes, values, count, &edited, &fault)) {
    code = tool_fail(job->tool, "%s: %s", job->tool->arguments[0], fault.text);
  }
  for (int which = 0; code == TOOL_GO && which < SIDES; which++) {
    code = tool_load_bytes(job->tool, job->tool->arguments[0], edited.model, edited.bytes, &job->devices[which],
                           &job->sides[which].session);
    if (code == TOOL_GO) code = run_side(job, which);
  }
  free(edited.model);
  if (code == TOOL_GO) code = find_node(job, report, values, count);
  graph_free(values, count);
  close_sides(job);
  return code;
}

static int compare_nodes(compare_job *job, tool_report *report) {
  unsigned char *model = NULL;
  size_t bytes = 0;
  int code = read_model(job, &model, &bytes);
  if (code == TOOL_GO) code = compare_edited(job, report, model, bytes);
  free(model);
  return code;
}

/* ---- the command ---- */

static int run_compare(compare_job *job, tool_report *report) {
  tool_state *tool = job->tool;
  int code = tool_open(tool);
  if (code == TOOL_GO) code = tool_first_device(tool, &job->devices[DEVICE]);
  job->devices[REFERENCE] = code == TOOL_GO ? iobind_runtime_get_device(tool->runtime, 0) : NULL;
  if (code == TOOL_GO && job->with != NULL) code = tool_find_device(tool, "--with", job->with, &job->devices[REFERENCE]);
  if (code != TOOL_GO) return code;
  report_field(report, "model", "model", report_string(tool->arguments[0]), NULL);
  report_field(report, "device", "device", report_string(tool_device_spec(job->devices[DEVICE])), NULL);
  report_field(report, "with", "compared with", report_string(tool_device_spec(job->devices[REFERENCE])), NULL);
  report_field(report, "absolute", NULL, job->by_type ? json_null() : json_real(job->limits.absolute), NULL);
  report_field(report, "relative", NULL, job->by_type ? json_null() : json_real(job->limits.relative), NULL);
  code = compare_outputs(job, report);
  if (code == TOOL_GO && job->nodes) code = compare_nodes(job, report);
  if (code != TOOL_GO) return code;
  const char *than = job->differs ? "more" : "no more";
  if (job->by_type) {
    report_field(report, "same", "outputs", json_boolean(!job->differs), "differ by %s than is usual for their types", than);
  } else {
    report_field(report, "same", "outputs", json_boolean(!job->differs), "differ by %s than %g + %g of the reference", than,
                 job->limits.absolute, job->limits.relative);
  }
  report_field_mark(report, job->differs ? REPORT_BAD : REPORT_GOOD);
  return tool_print(tool, report, job->differs ? TOOL_FAILED : TOOL_DONE);
}

int command_compare(int argc, const char **argv) {
  char **with = NULL;
  char **absolutes = NULL;
  char **relatives = NULL;
  int nodes = 0;
  const struct poptOption options[] = {
      {"with", 0, POPT_ARG_ARGV, &with, 0, "The device whose results are the reference (default cpu)", "SPEC"},
      {"absolute", 0, POPT_ARG_ARGV, &absolutes, 0,
       "The absolute limit of a difference (default: by type; with --relative, 0.0001)", "X"},
      {"relative", 0, POPT_ARG_ARGV, &relatives, 0,
       "The limit relative to the reference, which is added (with --absolute, 0.001)", "X"},
      {"nodes", 0, POPT_ARG_NONE, &nodes, 0, "Find the first node whose output differs by more", NULL},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "compare",
      .arguments = "MODEL",
      .summary = "Run a model on two devices with the same inputs, and report how far the outputs differ.",
      .notes =
          "Exit code 1: an element differs by more than is usual for its type, or than --absolute and --relative allow.\n"
          "Integers, truth values and strings must be equal. --nodes makes every value of the graph an output, so ONNX Runtime\n"
          "fuses no nodes.",
      .takes = TOOL_TAKES_DEVICE | TOOL_TAKES_DIMS | TOOL_TAKES_INPUTS,
      .argument_count = 1,
      .options = options,
  };
  tool_state tool;
  compare_job job = {.tool = &tool, .limits = {1e-4, 1e-3}};
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = tool_single(&tool, with, "--with", &job.with);
  if (code == TOOL_GO) code = tool_real(&tool, absolutes, "--absolute", 0, 1e30, &job.limits.absolute);
  if (code == TOOL_GO) code = tool_real(&tool, relatives, "--relative", 0, 1e30, &job.limits.relative);
  job.nodes = nodes != 0;
  job.by_type = absolutes == NULL && relatives == NULL;
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    progress_begin(&tool);
    code = run_compare(&job, report);
    report_destroy(report);
    close_sides(&job);
    tool_free_tensors(job.inputs, job.input_count);
  }
  code = tool_end(&tool, code);
  tool_free_list(with);
  tool_free_list(absolutes);
  tool_free_list(relatives);
  return code;
}
