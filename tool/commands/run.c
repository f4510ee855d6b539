#define _POSIX_C_SOURCE 200809L /* strndup */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/file.h"
#include "formats/npz.h"
#include "shared/given.h"
#include "shared/number.h"
#include "shared/outputs.h"
#include "shared/tool.h"

/* One run and its data. */
typedef struct model_run {
  tool_state *tool;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor **inputs;
  size_t input_count;
  iobind_tensor **outputs; /* NULL if an output is not a tensor */
  size_t output_count;
  const char *directory; /* NULL: nothing is written, or into the archive */
  const char *archive;   /* NULL: as above */
  npy_array *arrays;     /* the arrays of the archive */
  const char **names;
  size_t array_count;
  bool on_host;
  uint64_t load_time;
  uint64_t bind_time;
  uint64_t run_time;
  uint64_t read_time;
  iobind_device_counters before;
} model_run;

static uint64_t since(const model_run *job, uint64_t *mark) {
  uint64_t now = clock_now(&job->tool->clock);
  uint64_t passed = now - *mark;
  *mark = now;
  return passed;
}

/* ---- running ---- */

static bool is_wide_integer(int32_t dtype) {
  return dtype == IOBIND_DTYPE_INT32 || dtype == IOBIND_DTYPE_INT64 || dtype == IOBIND_DTYPE_UINT32 ||
         dtype == IOBIND_DTYPE_UINT64;
}

/* A random integer is 0 or 1, which a model may refuse. */
static int fail_run(const model_run *job, const iobind_error *error) {
  int code = tool_fail_error(job->tool, NULL, error);
  for (size_t i = 0; i < job->input_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    if (iobind_session_get_input(job->session, i, &value, NULL) != IOBIND_OK || given_has(job->tool, value.name)) continue;
    if (!is_wide_integer(value.dtype)) continue;
    tool_warn(job->tool, "input '%s' is random: 0 or 1; --input gives other values", value.name);
  }
  return code;
}

static int run_plain(model_run *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  uint64_t mark = clock_now(&job->tool->clock);
  if (tool_run(job->session, job->inputs, job->input_count, job->outputs, job->output_count, &error) != IOBIND_OK) {
    return fail_run(job, &error);
  }
  job->run_time = since(job, &mark);
  return TOOL_GO;
}

static bool has_tensor_output(const model_run *job) {
  for (size_t i = 0; i < job->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    if (iobind_session_get_output(job->session, i, &value, NULL) == IOBIND_OK && value.kind == IOBIND_VALUE_TENSOR) return true;
  }
  return false;
}

/* Inputs are copied to where the session wants them. Outputs stay where the session leaves them, as in a new binding. */
static int run_bound(model_run *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  uint64_t mark = clock_now(&job->tool->clock);
  if (iobind_binding_create(job->session, &job->binding, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  for (size_t i = 0; i < job->input_count; i++) {
    if (iobind_binding_set_input(job->binding, i, IOBIND_INPUT_SNAPSHOT, job->inputs[i], NULL, &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
  }
  if (wish_configure(&job->tool->wish.run_configs, job->binding, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, "--run-config", &error);
  }
  job->bind_time = since(job, &mark);
  if (iobind_binding_run(job->binding, NULL, &error) != IOBIND_OK) return fail_run(job, &error);
  job->run_time = since(job, &mark);
  for (size_t i = 0; i < job->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    if (iobind_session_get_output(job->session, i, &value, &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
    if (value.kind != IOBIND_VALUE_TENSOR) continue;
    if (iobind_binding_take_output(job->binding, i, &job->outputs[i], &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
  }
  return TOOL_GO;
}

/* ---- outputs ---- */

static void add_columns(report_table *table, bool files) {
  report_column(table, "name", "OUTPUT", REPORT_LEFT);
  report_column(table, "dtype", "TYPE", REPORT_LEFT);
  report_column(table, "dims", "DIMS", REPORT_LEFT);
  report_column(table, "device", "CAME OUT ON", REPORT_LEFT);
  report_column(table, "bytes", "SIZE", REPORT_RIGHT);
  report_column(table, "file", files ? "FILE" : NULL, REPORT_LEFT);
  report_column(table, "form", NULL, REPORT_LEFT);
}

/* An archive is written when it has all of its arrays. */
static int write_output(model_run *job, const iobind_tensor *tensor, const char *name, const char *path) {
  npy_array array;
  tool_fault fault;
  if (!tool_tensor_to_npy(tensor, &array, &fault)) return tool_fail(job->tool, "output '%s': %s", name, fault.text);
  if (job->archive != NULL) {
    job->names[job->array_count] = name;
    job->arrays[job->array_count++] = array;
    return TOOL_GO;
  }
  bool written = path == NULL || npy_write(path, &array, &fault);
  npy_free(&array);
  return written ? TOOL_GO : tool_fail(job->tool, "output '%s': %s", name, fault.text);
}

static int add_output(model_run *job, tool_report *report, report_table *table, size_t index, const iobind_value_info *value,
                      const char *path) {
  const iobind_tensor *tensor = job->outputs[index];
  report_row(table);
  report_cell(table, report_string(value->name), NULL);
  if (tensor == NULL) {
    char *described = tool_describe_value(value);
    if (described == NULL) return tool_fail(job->tool, "out of memory");
    report_cell(table, report_string(described), NULL);
    report_note(report, "'%s' is a %s, not a tensor: skipped", value->name, described);
    free(described);
    return TOOL_GO;
  }
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_get_info(tensor, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, value->name, &error);
  char size[NUMBER_TEXT];
  char *dims = tool_describe_dims(info.dims, info.rank);
  const char *form = tool_raw_form(info.dtype);
  bool strings = info.dtype == IOBIND_DTYPE_STRING;
  report_cell(table, json_string(iobind_dtype_get_name(info.dtype)), NULL);
  report_cell(table, tool_dims_json(info.dims, info.rank), "%s", dims == NULL ? "?" : dims);
  report_cell(table, report_string(tool_device_spec(info.device)), NULL);
  report_cell(table, strings ? json_null() : json_integer((json_int_t)info.bytes), "%s",
              strings ? "-" : number_format_bytes(info.bytes, size));
  bool archived = job->archive != NULL;
  report_cell(table, path == NULL ? json_null() : report_string(path), archived ? "%s:%s" : "%s", path == NULL ? "-" : path,
              value->name);
  report_cell(table, form == NULL ? json_null() : json_string(form), "%s", "");
  free(dims);
  if (form != NULL && path != NULL) {
    report_note(report, "'%s' is %s: written as %s", value->name, iobind_dtype_get_name(info.dtype), form);
  }
  return write_output(job, tensor, value->name, path);
}

static char *place_of(const model_run *job, const char *file) {
  return job->archive != NULL ? strdup(job->archive) : file_join(job->directory, file);
}

static int add_outputs(model_run *job, tool_report *report, const char *const *names, char *const *files) {
  report_table *table = report_add_table(report, "outputs", NULL);
  bool kept = job->directory != NULL || job->archive != NULL;
  add_columns(table, kept);
  int code = TOOL_GO;
  for (size_t i = 0; code == TOOL_GO && i < job->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_output(job->session, i, &value, &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
    progress_say("reading %s", names[i]);
    char *path = NULL;
    if (kept && job->outputs[i] != NULL) {
      path = place_of(job, files[i]);
      if (path == NULL) return tool_fail(job->tool, "out of memory");
    }
    code = add_output(job, report, table, i, &value, path);
    free(path);
  }
  return code;
}

static int name_outputs(const model_run *job, const char **names) {
  for (size_t i = 0; i < job->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_output(job->session, i, &value, &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
    names[i] = value.name;
  }
  return TOOL_GO;
}

static int write_archive(model_run *job) {
  tool_fault fault;
  if (job->archive == NULL || npz_write(job->archive, job->names, job->arrays, job->array_count, &fault)) return TOOL_GO;
  return tool_fail(job->tool, "--output %s", fault.text);
}

static int save_outputs(model_run *job, tool_report *report) {
  const char **names = calloc(job->output_count + 1, sizeof *names);
  char **files = calloc(job->output_count + 1, sizeof *files);
  int code = TOOL_FAILED;
  if (names == NULL || files == NULL) {
    tool_fail(job->tool, "out of memory");
  } else {
    code = name_outputs(job, names);
    if (code == TOOL_GO && !outputs_name_files(names, job->output_count, files)) code = tool_fail(job->tool, "out of memory");
    if (code == TOOL_GO) code = add_outputs(job, report, names, files);
    if (code == TOOL_GO) code = write_archive(job);
    for (size_t i = 0; i < job->output_count; i++) free(files[i]);
  }
  free(files);
  free(names);
  return code;
}

/* ---- the report ---- */

static void add_time(tool_report *report, const char *key, const char *label, uint64_t nanoseconds) {
  char text[NUMBER_TEXT];
  report_field(report, key, label, json_integer((json_int_t)nanoseconds), "%s", number_format_time((double)nanoseconds, text));
}

static void add_traffic(const model_run *job, tool_report *report) {
  iobind_device_counters after = IOBIND_DEVICE_COUNTERS_INIT;
  if (tool_is_host(job->device) || iobind_device_get_counters(job->device, &after, NULL) != IOBIND_OK) return;
  uint64_t up = after.upload_bytes - job->before.upload_bytes;
  uint64_t down = after.download_bytes - job->before.download_bytes;
  char up_text[NUMBER_TEXT];
  char down_text[NUMBER_TEXT];
  bool known = !job->on_host; /* a plain run's copies are made by ORT */
  report_field(report, "upload_bytes", known ? "uploaded" : NULL, known ? json_integer((json_int_t)up) : json_null(), "%s",
               number_format_bytes(up, up_text));
  report_field(report, "download_bytes", known ? "downloaded" : NULL, known ? json_integer((json_int_t)down) : json_null(),
               "%s", number_format_bytes(down, down_text));
}

static void add_nodes(const model_run *job, tool_report *report) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  bool known = iobind_session_get_info(job->session, &info, NULL) == IOBIND_OK && info.node_count > 0;
  report_field(report, "nodes", NULL, known ? json_integer((json_int_t)info.node_count) : json_null(), NULL);
  report_field(report, "device_nodes", NULL, known ? json_integer((json_int_t)info.device_node_count) : json_null(), NULL);
  size_t idle = tool_idle_nodes(job->session);
  if (idle > 0) report_note(report, TOOL_IDLE, idle, tool_device_spec(job->device));
}

static int report_job(model_run *job, tool_report *report) {
  report_field(report, "model", "model", report_string(job->tool->arguments[0]), NULL);
  report_field(report, "device", "device", report_string(tool_device_spec(job->device)), NULL);
  tool_report_clock(job->tool, report);
  report_field(report, "bind", "bind", json_string(job->on_host ? "host" : "device"), NULL);
  uint64_t mark = clock_now(&job->tool->clock);
  int code = save_outputs(job, report);
  if (code != TOOL_GO) return code;
  job->read_time = since(job, &mark);
  add_traffic(job, report);
  add_time(report, "load_ns", "loaded in", job->load_time);
  if (!job->on_host) add_time(report, "bind_ns", "inputs bound in", job->bind_time);
  add_time(report, "run_ns", "ran in (once, the first time)", job->run_time);
  add_time(report, "read_ns",
           job->directory != NULL || job->archive != NULL ? "outputs read and written in" : "outputs read in", job->read_time);
  add_nodes(job, report);
  code = tool_report_profile(job->tool, job->session, report);
  return code == TOOL_GO ? tool_print(job->tool, report, TOOL_DONE) : code;
}

/* ---- the command ---- */

/* Called before the run, which may take long, but after all checks that can refuse it. */
static int prepare_target(model_run *job) {
  tool_fault fault;
  if (job->directory != NULL && !file_make_directory(job->directory, &fault)) {
    return tool_fail(job->tool, "--output-dir %s", fault.text);
  }
  if (job->archive == NULL) return TOOL_GO;
  for (size_t i = 0; i < job->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_output(job->session, i, &value, &error) != IOBIND_OK) {
      return tool_fail_error(job->tool, NULL, &error);
    }
    if (value.kind == IOBIND_VALUE_TENSOR && !npz_can_name(value.name)) {
      return tool_fail(job->tool, "output '%s': its name cannot be that of a file in an archive; give --output-dir",
                       value.name);
    }
  }
  job->arrays = calloc(job->output_count + 1, sizeof *job->arrays);
  job->names = calloc(job->output_count + 1, sizeof *job->names);
  const char *slash = strrchr(job->archive, '/');
  char *directory = slash == NULL ? strdup(".") : strndup(job->archive, (size_t)(slash - job->archive) + 1);
  if (job->arrays == NULL || job->names == NULL || directory == NULL) {
    free(directory);
    return tool_fail(job->tool, "out of memory");
  }
  bool made = file_make_directory(directory, &fault);
  free(directory);
  return made ? TOOL_GO : tool_fail(job->tool, "--output %s", fault.text);
}

static int open_model(model_run *job) {
  tool_state *tool = job->tool;
  iobind_error error = IOBIND_ERROR_INIT;
  int code = tool_open(tool);
  if (code == TOOL_GO) code = tool_first_device(tool, &job->device);
  uint64_t mark = number_now();
  if (code == TOOL_GO) code = tool_load(tool, tool->arguments[0], &job->device, 0, &job->session);
  job->load_time = number_now() - mark;
  if (code == TOOL_GO) code = tool_make_inputs(tool, job->session, &job->inputs, &job->input_count);
  if (code != TOOL_GO) return code;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  if (iobind_session_get_info(job->session, &info, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  job->outputs = calloc(info.output_count + 1, sizeof(iobind_tensor *));
  if (job->outputs == NULL) return tool_fail(tool, "out of memory");
  job->output_count = info.output_count;
  if (!has_tensor_output(job)) {
    return tool_fail(tool, "%s: no output is a tensor, and only tensors can be fetched [NOT_SUPPORTED]", tool->arguments[0]);
  }
  code = prepare_target(job);
  if (code != TOOL_GO) return code;
  job->before = (iobind_device_counters)IOBIND_DEVICE_COUNTERS_INIT;
  if (iobind_device_get_counters(job->device, &job->before, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  return TOOL_GO;
}

static int run_model(tool_state *tool, const char *directory, const char *archive, bool on_host) {
  model_run job = {.tool = tool, .directory = directory, .archive = archive, .on_host = on_host};
  progress_begin(tool);
  int code = open_model(&job);
  if (code == TOOL_GO) {
    progress_say("running %s on %s", tool->arguments[0], tool_device_spec(job.device));
    code = on_host ? run_plain(&job) : run_bound(&job);
  }
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    code = report_job(&job, report);
    report_destroy(report);
  }
  for (size_t i = 0; i < job.array_count; i++) npy_free(&job.arrays[i]);
  free(job.arrays);
  free(job.names);
  tool_free_tensors(job.outputs, job.output_count);
  tool_free_tensors(job.inputs, job.input_count);
  iobind_binding_destroy(job.binding);
  iobind_session_destroy(job.session);
  return code;
}

int command_run(int argc, const char **argv) {
  char **directories = NULL;
  char **archives = NULL;
  char **binds = NULL;
  int verify = 0;
  const struct poptOption options[] = {
      {"output-dir", 'o', POPT_ARG_ARGV, &directories, 0, "Write each output to DIR/NAME.npy; created if it is missing", "DIR"},
      {"output", 0, POPT_ARG_ARGV, &archives, 0, "Write all outputs into one archive of numpy arrays", "FILE.npz"},
      {"bind", 'b', POPT_ARG_ARGV, &binds, 0,
       "Bind inputs and outputs on the device (default), or make a plain run on the host", "device|host"},
      {"verify", 0, POPT_ARG_NONE, &verify, 0, "Repeat the run on the CPU, and compare the outputs", NULL},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "run",
      .arguments = "MODEL",
      .summary = "Run a model once and write its outputs as numpy files.",
      .notes =
          "Each input is given by --input, or filled by --random: floats between 0 and 1, 32- and 64-bit integers 0 or 1, the\n"
          "same for the same --seed. bfloat16 is read and written as <u2, 8-bit floats as u1, packed types as u1 in one dim,\n"
          "strings as <U. A character that is not allowed in a file name becomes '_'. A file is written whole or not at all.\n"
          "Without --output-dir and --output no output is written. With --verify the command fails and writes nothing if the\n"
          "outputs differ from the CPU's.",
      .takes = TOOL_TAKES_DEVICE | TOOL_TAKES_DIMS | TOOL_TAKES_INPUTS | TOOL_TAKES_SESSION | TOOL_TAKES_RUNS,
      .argument_count = 1,
      .options = options,
  };
  tool_state tool;
  const char *directory = NULL;
  const char *archive = NULL;
  const char *bind = NULL;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = tool_single(&tool, directories, "--output-dir", &directory);
  if (code == TOOL_GO) code = tool_single(&tool, archives, "--output", &archive);
  if (code == TOOL_GO) code = tool_single(&tool, binds, "--bind", &bind);
  if (code == TOOL_GO && directory != NULL && archive != NULL) {
    code = tool_misuse(&tool, "--output-dir and --output: expected one of them");
  }
  if (code == TOOL_GO && archive != NULL && !npz_is_archive(archive)) {
    code = tool_misuse(&tool, "--output: expected a file that ends in .npz, got '%s'", archive);
  }
  bool on_host = bind != NULL && strcmp(bind, "host") == 0;
  if (code == TOOL_GO && bind != NULL && !on_host && strcmp(bind, "device") != 0) {
    code = tool_misuse(&tool, "--bind: expected device or host, got '%s'", bind);
  }
  if (code == TOOL_GO && on_host && tool.wish.run_configs.count > 0) {
    code = tool_misuse(&tool, "--run-config: expected a bound run, got --bind host");
  }
  tool.verify = verify != 0;
  if (code == TOOL_GO) code = run_model(&tool, directory, archive, on_host);
  code = tool_end(&tool, code);
  tool_free_list(directories);
  tool_free_list(archives);
  tool_free_list(binds);
  return code;
}
