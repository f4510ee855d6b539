#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "commands/shapes.h"
#include "commands/trial.h"
#include "formats/file.h"
#include "pictures/plot.h"
#include "shared/given.h"
#include "shared/number.h"
#include "shared/tool.h"

/* One model on one device: measured now, or read from an earlier result. */
typedef struct row {
  char *model; /* the file's name without its directory and extension */
  char *device;
  char *profile;     /* NULL: no profile was written */
  bool host;         /* the device's memory is host memory */
  bool modelled;     /* times are those of a virtual clock */
  bool software;     /* memory of its own, but it computes on the CPU: a software driver */
  size_t idle_nodes; /* those that the device left to the CPU, if it left all of them */
  bool captured;     /* bound runs are replays of captured graphs */
  shape_counts shapes;
  trial trial;
} row;

typedef struct options {
  char **iterations, **seconds, **warmup, **keep, **with, **plot;
} options;

typedef struct bench {
  tool_state tool;
  options given;
  int64_t iterations, warmup;
  double seconds;
  int graph;
  const char *plot;
  row *rows;
  size_t row_count;
  size_t given_dims; /* how many of the tool's dims --dim gave */
  json_t *inputs;    /* the inputs that the model was given */
} bench;

static const char *const way_keys[TRIAL_WAYS] = {"unbound", "read", "written", "resident"};
static const char *const way_texts[TRIAL_WAYS] = {"unbound", "bound, results read", "bound, input written",
                                                  "bound, all resident"};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The next row, which takes ownership of the texts; NULL: out of memory, and the texts are freed. */
static row *add_row(bench *b, char *model, char *device) {
  row *grown = realloc(b->rows, (b->row_count + 1) * sizeof *grown);
  if (grown != NULL) b->rows = grown;
  if (grown == NULL || model == NULL || device == NULL) {
    free(model);
    free(device);
    return NULL;
  }
  row *r = &b->rows[b->row_count++];
  memset(r, 0, sizeof *r);
  r->model = model;
  r->device = device;
  return r;
}

static void free_rows(bench *b) {
  for (size_t i = 0; i < b->row_count; i++) {
    trial_free(&b->rows[i].trial);
    free(b->rows[i].model);
    free(b->rows[i].device);
    free(b->rows[i].profile);
  }
  free(b->rows);
}

/* "models/pp-ocr-cls.onnx" -> "pp-ocr-cls". Always UTF-8, which JSON and SVG need. */
static char *model_name(const char *path) {
  const char *name = file_name(path);
  const char *dot = strrchr(name, '.');
  char *stem = strndup(name, dot == NULL || dot == name ? strlen(name) : (size_t)(dot - name));
  if (stem == NULL) return NULL;
  json_t *valid = report_string(stem);
  free(stem);
  stem = valid == NULL ? NULL : strdup(json_string_value(valid));
  json_decref(valid);
  return stem;
}

static uint64_t link_bytes(const trial_way *way) {
  return way->upload_bytes + way->download_bytes;
}

/* ---- earlier results: what --json printed, given by --with ------------------------------------------------------- */

static bool read_count(const json_t *object, const char *key, uint64_t *value) {
  const json_t *number = json_object_get(object, key);
  if (!json_is_integer(number) || json_integer_value(number) < 0) return false;
  *value = (uint64_t)json_integer_value(number);
  return true;
}

static bool read_samples(const json_t *list, trial_way *way) {
  size_t count = json_array_size(list);
  if (count == 0) return false;
  way->samples = malloc(count * sizeof *way->samples);
  uint64_t *sorted = malloc(count * sizeof *sorted);
  bool good = way->samples != NULL && sorted != NULL;
  for (size_t i = 0; good && i < count; i++) {
    const json_t *number = json_array_get(list, i);
    good = json_is_integer(number) && json_integer_value(number) >= 0;
    if (good) sorted[i] = way->samples[i] = (uint64_t)json_integer_value(number);
  }
  if (good) {
    way->sample_count = count;
    way->time = statistic_of(sorted, count);
  }
  free(sorted);
  return good;
}

static bool read_way(const json_t *object, const char *key, trial_way *way) {
  const char *name = json_string_value(json_object_get(object, "way"));
  return name != NULL && strcmp(name, key) == 0 && read_count(object, "upload_bytes", &way->upload_bytes) &&
         read_count(object, "download_bytes", &way->download_bytes) && read_count(object, "first_ns", &way->first_ns) &&
         read_count(object, "set_up_ns", &way->set_up_ns) && read_count(object, "set_up_bytes", &way->set_up_bytes) &&
         read_samples(json_object_get(object, "samples_ns"), way);
}

static bool read_row(bench *b, const json_t *list, size_t first) {
  const json_t *object = json_array_get(list, first);
  const char *model = json_string_value(json_object_get(object, "model"));
  const char *device = json_string_value(json_object_get(object, "device"));
  const json_t *host = json_object_get(object, "host_memory");
  const json_t *software = json_object_get(object, "software_driver");
  if (model == NULL || device == NULL || !json_is_boolean(host) || !json_is_boolean(software)) return false;
  row *r = add_row(b, strdup(model), strdup(device));
  if (r == NULL) return false;
  r->host = json_is_true(host);
  r->software = json_is_true(software);
  const char *clock = json_string_value(json_object_get(object, "clock")); /* results of 0.1 do not have it */
  r->modelled = clock != NULL && strcmp(clock, "virtual") == 0;
  r->captured = json_is_true(json_object_get(object, "captured")); /* results before 0.2 have neither this nor launches */
  for (size_t way = 0; way < TRIAL_WAYS; way++) {
    const json_t *launches = json_object_get(json_array_get(list, first + way), "launches");
    r->trial.ways[way].launches = json_is_number(launches) ? json_number_value(launches) : -1;
    if (!read_way(json_array_get(list, first + way), way_keys[way], &r->trial.ways[way])) return false;
  }
  return true;
}

static int read_result(bench *b, const char *path) {
  json_error_t reason;
  json_t *result = json_load_file(path, JSON_REJECT_DUPLICATES, &reason);
  if (result == NULL) {
    fault_make_line(reason.text);
    return tool_fail(&b->tool, "--with %s: %s; give a file that 'iobind bench --json' printed", path, reason.text);
  }
  const json_t *list = json_object_get(result, "ways");
  size_t count = json_array_size(list);
  bool good = count > 0 && count % TRIAL_WAYS == 0;
  for (size_t i = 0; good && i < count; i += TRIAL_WAYS) good = read_row(b, list, i);
  json_decref(result);
  if (good) return TOOL_GO;
  return tool_fail(&b->tool, "--with %s: not a result of bench; give a file that 'iobind bench --json' printed", path);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static bool is_listed(char *const *list, const char *name) {
  for (; list != NULL && *list != NULL; list++) {
    if (strcmp(*list, name) == 0) return true;
  }
  return false;
}

/* Mark the inputs that --keep names; each name must be an input. */
static int find_kept(bench *b, iobind_session *session, bool *kept) {
  iobind_error error = IOBIND_ERROR_INIT;
  for (char *const *name = b->given.keep; name != NULL && *name != NULL; name++) {
    size_t index = 0;
    if (iobind_session_find_input(session, *name, &index, &error) != IOBIND_OK) {
      return tool_fail_error(&b->tool, "--keep", &error);
    }
    kept[index] = true;
  }
  return TOOL_GO;
}

/* Dims that the model, --input and --dim leave open become 1, as if --dim said so; they come after those of --dim. */
static int close_dims(bench *b, const iobind_session *session) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  for (size_t i = 0; iobind_session_get_input(session, i, &value, NULL) == IOBIND_OK; i++) {
    for (size_t axis = 0; !given_has(&b->tool, value.name) && axis < value.rank; axis++) {
      if (value.dims[axis] >= 0) continue;
      if (!tool_add_dim(&b->tool, value.name, (int64_t)axis, 1)) return tool_fail(&b->tool, "out of memory");
    }
  }
  return TOOL_GO;
}

/* Remember the inputs, once for each model: all devices get the same. */
static int note_inputs(bench *b, iobind_session *session, iobind_tensor *const *inputs, size_t count) {
  iobind_error error = IOBIND_ERROR_INIT;
  if (b->inputs != NULL) return TOOL_GO;
  b->inputs = json_array();
  for (size_t i = 0; i < count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    if (iobind_session_get_input(session, i, &value, &error) != IOBIND_OK ||
        iobind_tensor_get_info(inputs[i], &info, &error) != IOBIND_OK) {
      return tool_fail_error(&b->tool, NULL, &error);
    }
    json_t *closed = json_array();
    for (size_t d = b->given_dims; d < b->tool.dim_count; d++) {
      const tool_dim *dim = &b->tool.dims[d];
      if (strcmp(dim->name, value.name) == 0) json_array_append_new(closed, json_integer((json_int_t)dim->axis));
    }
    json_t *dims = tool_dims_json(info.dims, info.rank);
    bool random = !given_has(&b->tool, value.name), kept = is_listed(b->given.keep, value.name);
    json_array_append_new(b->inputs, json_pack("{s:s, s:s, s:o, s:I, s:b, s:b, s:o}", "name", value.name, "dtype",
                                               iobind_dtype_get_name(info.dtype), "dims", dims, "bytes", (json_int_t)info.bytes,
                                               "random", random, "kept", kept, "axes_set_to_1", closed));
  }
  return TOOL_GO;
}

static bool is_software(const iobind_device *device) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (tool_is_host(device) || iobind_device_get_info(device, &info, NULL) != IOBIND_OK) return false;
  return info.hardware == IOBIND_HARDWARE_CPU;
}

static int measure_row(bench *b, row *r, iobind_session *session, iobind_tensor *const *inputs, const bool *kept) {
  iobind_error error = IOBIND_ERROR_INIT;
  char title[256];
  trial_plan plan = {.iterations = (size_t)b->iterations,
                     .seconds = b->seconds,
                     .title = title,
                     .warmup = (size_t)b->warmup,
                     .kept = kept,
                     .clock = b->tool.clock,
                     .launches = b->tool.launches,
                     .run_configs = &b->tool.wish.run_configs};
  snprintf(title, sizeof title, "%s on %s%s", r->model, r->device, r->captured ? ", captured" : "");
  if (trial_run(b->tool.runtime, session, inputs, &plan, &r->trial, &error) == IOBIND_OK) return TOOL_GO;
  int code = tool_fail_error(&b->tool, title, &error);
  if (b->tool.dim_count > b->given_dims) tool_warn(&b->tool, "open dims were set to 1; --dim sets other values");
  return code;
}

static int end_profile(const bench *b, row *r, iobind_session *session) {
  const char *path = NULL;
  int code = tool_end_profile(&b->tool, session, &path);
  if (code != TOOL_GO) return code;
  r->profile = strdup(path);
  return r->profile != NULL ? TOOL_GO : tool_fail(&b->tool, "out of memory");
}

static int measure_session(bench *b, iobind_session *session, iobind_device *device, const char *path, bool captured) {
  iobind_tensor **inputs = NULL;
  size_t count = 0;
  int code = close_dims(b, session);
  if (code == TOOL_GO) code = tool_make_inputs(&b->tool, session, &inputs, &count);
  if (code != TOOL_GO) return code;
  bool *kept = calloc(count + 1, sizeof *kept);
  row *r = add_row(b, model_name(path), strdup(tool_device_spec(device)));
  if (kept == NULL || r == NULL) {
    code = tool_fail(&b->tool, "out of memory");
  } else {
    r->host = tool_is_host(device);
    r->software = is_software(device);
    r->idle_nodes = tool_idle_nodes(session);
    r->modelled = b->tool.clock.read != NULL;
    r->captured = captured;
    r->shapes = shapes_count(&b->tool, session);
    code = find_kept(b, session, kept);
    if (code == TOOL_GO) code = note_inputs(b, session, inputs, count);
    if (code == TOOL_GO) code = measure_row(b, r, session, inputs, kept);
    if (code == TOOL_GO && b->tool.wish.profile != NULL && !captured) code = end_profile(b, r, session);
  }
  free(kept);
  tool_free_tensors(inputs, count);
  return code;
}

static int measure(bench *b, iobind_device *device, const char *path) {
  iobind_session *session = NULL;
  int code = tool_load(&b->tool, path, &device, shapes_flags(device), &session);
  if (code == TOOL_GO) code = measure_session(b, session, device, path, false);
  iobind_session_destroy(session);
  if (code != TOOL_GO || b->graph == 0) return code;
  code = tool_load_captured(&b->tool, path, &device, 1, &session);
  if (code == TOOL_GO) code = measure_session(b, session, device, path, true);
  iobind_session_destroy(session);
  return code;
}

/* The devices that --device names, or all that work. */
static int measure_devices(bench *b, const char *path) {
  int code = TOOL_GO;
  size_t named = tool_list_length(b->tool.devices);
  for (size_t i = 0; code == TOOL_GO && i < named; i++) {
    iobind_device *device = NULL;
    code = tool_find_device(&b->tool, "--device", b->tool.devices[i], &device);
    if (code == TOOL_GO) code = measure(b, device, path);
  }
  if (b->tool.wish.policy != IOBIND_POLICY_NONE) return measure(b, NULL, path);
  if (named > 0) return code;
  for (size_t i = 0; code == TOOL_GO; i++) {
    iobind_device *device = iobind_runtime_get_device(b->tool.runtime, i);
    if (device == NULL) break;
    const iobind_status works = iobind_device_check(device, NULL);
    if (works == IOBIND_OK || works == IOBIND_ERROR_RESULT) code = measure(b, device, path);
  }
  return code;
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

static void time_cell(report_table *table, uint64_t ns) {
  char text[NUMBER_TEXT];
  report_cell(table, json_integer((json_int_t)ns), "%s", number_format_time((double)ns, text));
}

static void bytes_cell(report_table *table, uint64_t bytes) {
  char text[NUMBER_TEXT];
  report_cell(table, json_integer((json_int_t)bytes), "%s", number_format_bytes(bytes, text));
}

static void figure_cell(report_table *table, double ns) {
  char text[NUMBER_TEXT];
  report_cell(table, json_real(ns), "%s", number_format_time(ns, text));
}

/* "0.0022", "1.82", "39": only as many digits as are meaningful. */
static const char *format_ratio(double ratio, char text[NUMBER_TEXT]) {
  snprintf(text, NUMBER_TEXT, ratio < 0.1 ? "%.2g" : ratio < 9.995 ? "%.2f" : "%.0f", ratio);
  return text;
}

static void add_columns(report_table *table, bool captured) {
  report_column(table, "model", "MODEL", REPORT_LEFT);
  report_column(table, "device", "DEVICE", REPORT_LEFT);
  report_column(table, "host_memory", NULL, REPORT_LEFT);
  report_column(table, "software_driver", NULL, REPORT_LEFT);
  report_column(table, "clock", NULL, REPORT_LEFT);
  report_column(table, "profile", NULL, REPORT_LEFT);
  report_column(table, "captured", captured ? "CAPTURED" : NULL, REPORT_LEFT);
  report_column(table, "way", "WAY", REPORT_LEFT);
  report_column(table, "launches", captured ? "LAUNCHES/RUN" : NULL, REPORT_RIGHT);
  report_column(table, "upload_bytes", "UP/RUN", REPORT_RIGHT);
  report_column(table, "download_bytes", "DOWN/RUN", REPORT_RIGHT);
  report_column(table, "first_ns", "FIRST RUN", REPORT_RIGHT);
  report_column(table, "median_ns", "MEDIAN", REPORT_RIGHT);
  report_column(table, "p90_ns", "P90", REPORT_RIGHT);
  report_column(table, "p99_ns", "P99", REPORT_RIGHT);
  report_column(table, "runs_per_second", "RUNS/S", REPORT_RIGHT);
  report_column(table, "ratio", "RATIO", REPORT_RIGHT);
  report_column(table, "set_up_ns", "ONE-TIME", REPORT_RIGHT);
  report_column(table, "paid_after_runs", "PAID AFTER", REPORT_RIGHT);
  report_column(table, "set_up_bytes", NULL, REPORT_RIGHT);
  report_column(table, "minimum_ns", NULL, REPORT_RIGHT);
  report_column(table, "median_low_ns", NULL, REPORT_RIGHT);
  report_column(table, "median_high_ns", NULL, REPORT_RIGHT);
  report_column(table, "mean_ns", NULL, REPORT_RIGHT);
  report_column(table, "runs", NULL, REPORT_RIGHT);
  report_column(table, "samples_ns", NULL, REPORT_RIGHT);
}

static json_t *samples_json(const trial_way *way) {
  json_t *list = json_array();
  for (size_t i = 0; i < way->sample_count; i++) json_array_append_new(list, json_integer((json_int_t)way->samples[i]));
  return list;
}

static void paid_cell(report_table *table, const trial *t, trial_way_index way) {
  uint64_t runs = trial_paid_after(t, way);
  if (way == TRIAL_UNBOUND) {
    report_cell(table, NULL, "%s", "");
  } else if (runs == 0) {
    report_cell(table, NULL, "never");
  } else {
    report_cell(table, json_integer((json_int_t)runs), "%llu run%s", (unsigned long long)runs, runs == 1 ? "" : "s");
  }
}

static void add_way(report_table *table, const row *r, trial_way_index index) {
  const trial_way *way = &r->trial.ways[index];
  double ratio = trial_ratio(&r->trial, index);
  char text[NUMBER_TEXT];
  report_row(table);
  report_cell(table, json_string(r->model), "%s", index == 0 ? r->model : "");
  report_cell(table, json_string(r->device), "%s", index == 0 ? r->device : "");
  report_cell(table, json_boolean(r->host), NULL);
  report_cell(table, json_boolean(r->software), NULL);
  report_cell(table, json_string(r->modelled ? "virtual" : "real"), NULL);
  report_cell(table, report_string(r->profile), NULL);
  report_cell(table, json_boolean(r->captured), "%s", index != 0 ? "" : r->captured ? "yes" : "no");
  report_cell(table, json_string(way_keys[index]), "%s", way_texts[index]);
  if (way->launches < 0) {
    report_cell(table, NULL, "-");
  } else {
    report_cell(table, json_real(way->launches), "%.4g", way->launches);
  }
  bytes_cell(table, way->upload_bytes);
  bytes_cell(table, way->download_bytes);
  time_cell(table, way->first_ns);
  figure_cell(table, way->time.median);
  figure_cell(table, way->time.p90);
  figure_cell(table, way->time.p99);
  if (way->time.median > 0) {
    report_cell(table, json_real(1e9 / way->time.median), "%.*f", way->time.median > 1e8 ? 1 : 0, 1e9 / way->time.median);
  } else {
    report_cell(table, NULL, "-");
  }
  bool finite = ratio > 0 && isfinite(ratio);
  report_cell(table, finite ? json_real(ratio) : NULL, finite ? "x%s" : "-", format_ratio(ratio, text));
  if (index == TRIAL_UNBOUND) {
    report_cell(table, json_integer(0), "%s", "");
  } else {
    time_cell(table, way->set_up_ns);
  }
  paid_cell(table, &r->trial, index);
  report_cell(table, json_integer((json_int_t)way->set_up_bytes), NULL);
  report_cell(table, json_real(way->time.minimum), NULL);
  report_cell(table, json_real(way->time.median_low), NULL);
  report_cell(table, json_real(way->time.median_high), NULL);
  report_cell(table, json_real(way->time.mean), NULL);
  report_cell(table, json_integer((json_int_t)way->sample_count), NULL);
  report_cell(table, samples_json(way), NULL);
}

/* Whether binding saves copies without changing the time. */
static bool hides_copies(const row *r) {
  const trial *t = &r->trial;
  return !r->host && link_bytes(&t->ways[TRIAL_RESIDENT]) < link_bytes(&t->ways[TRIAL_UNBOUND]) &&
         trial_compare(t, TRIAL_RESIDENT) == 0;
}

/* Sentences about what the figures of a row mean. */
static void add_words(tool_report *out, const row *r) {
  const trial *t = &r->trial;
  uint64_t unbound = link_bytes(&t->ways[TRIAL_UNBOUND]);
  uint64_t resident = link_bytes(&t->ways[TRIAL_RESIDENT]);
  char before[NUMBER_TEXT], after[NUMBER_TEXT], factor[NUMBER_TEXT];
  number_format_bytes(unbound, before);
  number_format_bytes(resident, after);
  format_ratio(trial_ratio(t, TRIAL_RESIDENT), factor);
  if (r->idle_nodes > 0) {
    report_note(out, "%s: " TOOL_IDLE, r->model, r->idle_nodes, r->device);
  } else if (r->host) {
    report_note(out, "%s on %s: the device uses host memory, so no data cross a link.", r->model, r->device);
  } else if (unbound <= resident) {
    report_note(out, "%s on %s: binding does not reduce the bytes that cross the link in a run.", r->model, r->device);
  } else if (hides_copies(r)) {
    report_note(out, "%s on %s: %s a run become %s, but the time stays the same (x%s is noise):%s", r->model, r->device, before,
                after, factor, r->software ? "" : " the copies are negligible, compared with the computation.");
    if (r->software) {
      report_note(
          out, "  a software driver computes so slowly that the copies are negligible; real models take the same time there.");
    }
  } else if (isinf(trial_ratio(t, TRIAL_RESIDENT))) {
    report_note(out, "%s on %s: %s a run become %s, and a run takes no modelled time.", r->model, r->device, before, after);
  } else {
    report_note(out, "%s on %s: %s a run become %s, and a run is %s times as fast.", r->model, r->device, before, after,
                factor);
  }
}

static void add_inputs(tool_report *out, const bench *b) {
  size_t index;
  const json_t *input;
  json_array_foreach(b->inputs, index, input) {
    char *dims = json_dumps(json_object_get(input, "dims"), JSON_COMPACT);
    const json_t *open = json_object_get(input, "axes_set_to_1");
    char axes[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(open) && used < sizeof axes - 24; i++) {
      used += (size_t)snprintf(axes + used, sizeof axes - used, "%s%lld", i == 0 ? "" : ", ",
                               (long long)json_integer_value(json_array_get(open, i)));
    }
    report_note(out, "input %s: %s%s%s%s%s%s%s", json_string_value(json_object_get(input, "name")),
                json_string_value(json_object_get(input, "dtype")), dims == NULL ? "" : dims,
                json_is_true(json_object_get(input, "random")) ? ", random" : "",
                json_is_true(json_object_get(input, "kept")) ? ", written once in each bound way" : "",
                used > 0 ? "; open and set to 1: axis " : "", axes, used > 0 ? " (--dim changes that)" : "");
    free(dims);
  }
}

static bool has_captured(const bench *b) {
  bool has = false;
  for (size_t i = 0; i < b->row_count; i++) has = has || b->rows[i].captured;
  return has;
}

/* Sentences about what a graph saves, compared with the row of plain runs. */
static void add_capture_words(tool_report *out, const row *before, const row *captured) {
  const trial_way *plain = &before->trial.ways[TRIAL_RESIDENT], *replay = &captured->trial.ways[TRIAL_RESIDENT];
  char factor[NUMBER_TEXT];
  if (plain->launches >= 0) {
    report_note(out, "%s on %s: launches in a run: %.4g, captured %.4g.", captured->model, captured->device, plain->launches,
                replay->launches);
  }
  if (plain->time.median > 0 && replay->time.median > 0) {
    report_note(out, "%s on %s: captured, with everything resident, a run is %s times as fast as without.", captured->model,
                captured->device, format_ratio(plain->time.median / replay->time.median, factor));
  }
}

static int print(bench *b, int code) {
  tool_report *out = report_create();
  report_field(out, "seed", NULL, json_integer((json_int_t)b->tool.seed), NULL);
  report_field(out, "inputs", NULL, json_incref(b->inputs), NULL);
  add_inputs(out, b);
  report_table *table = report_add_table(out, "ways", NULL);
  add_columns(table, has_captured(b));
  for (size_t i = 0; i < b->row_count; i++) {
    for (int way = 0; way < TRIAL_WAYS; way++) add_way(table, &b->rows[i], (trial_way_index)way);
  }
  report_note(out, "%s", "");
  for (size_t i = 0; i < b->row_count; i++) {
    if (!b->rows[i].captured) add_words(out, &b->rows[i]);
    shapes_note(&b->tool, out, &b->rows[i].shapes, b->rows[i].model, b->rows[i].device);
    if (b->rows[i].captured && i > 0) add_capture_words(out, &b->rows[i - 1], &b->rows[i]);
  }
  for (size_t i = 0; i < b->row_count; i++) {
    if (b->rows[i].profile != NULL) {
      report_note(out, "profile of %s on %s: %s", b->rows[i].model, b->rows[i].device, b->rows[i].profile);
    }
    if (!b->rows[i].modelled) continue;
    report_note(out, "The times on %s are those of its virtual clock: only the device's work takes time, which is modelled.",
                b->rows[i].device);
  }
  report_note(out, "Each run is complete before the clock is read; the ways alternate. Unbound leaves the outputs on the");
  report_note(out, "host, bound on the device. The first run unbound is the session's first. RATIO: times as fast as unbound.");
  if (b->plot != NULL && code == TOOL_DONE) report_field(out, "plot", "picture", json_string(b->plot), NULL);
  code = tool_print(&b->tool, out, code);
  report_destroy(out);
  return code;
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

typedef struct group_texts {
  char title[512];
  char sentence[192];
  char labels[TRIAL_WAYS][NUMBER_TEXT];
  char notes[TRIAL_WAYS][NUMBER_TEXT + 16];
} group_texts;

/* What a reader must know of the device to judge the times. */
static const char *device_remark(const row *r) {
  if (r->modelled) return " (virtual device, modelled time)";
  if (strncmp(r->device, "vdev", 4) == 0) return " (virtual device)";
  return r->software ? " (software driver)" : "";
}

static void fill_sentence(const row *r, char *sentence, size_t size) {
  char before[NUMBER_TEXT], after[NUMBER_TEXT], factor[NUMBER_TEXT];
  number_format_bytes(link_bytes(&r->trial.ways[TRIAL_UNBOUND]), before);
  number_format_bytes(link_bytes(&r->trial.ways[TRIAL_RESIDENT]), after);
  double ratio = trial_ratio(&r->trial, TRIAL_RESIDENT);
  if (r->host) {
    snprintf(sentence, size, "The device uses host memory: no data cross a link.");
  } else if (hides_copies(r)) {
    snprintf(sentence, size, "Binding saves %s a run; the copies are negligible, compared with the computation.", before);
  } else if (isinf(ratio)) {
    snprintf(sentence, size, "With everything resident, %s a run become %s, and a run takes no modelled time.", before, after);
  } else {
    snprintf(sentence, size, "With everything resident, %s a run become %s, and a run is %s times as fast.", before, after,
             format_ratio(ratio, factor));
  }
}

static void fill_group(const row *r, plot_group *group, plot_bar *bars, group_texts *texts) {
  char bytes[NUMBER_TEXT];
  snprintf(texts->title, sizeof texts->title, "%s on %s%s%s", r->model, r->device, device_remark(r),
           r->captured ? ", captured" : "");
  fill_sentence(r, texts->sentence, sizeof texts->sentence);
  *group = (plot_group){.title = texts->title, .sentence = texts->sentence, .bars = bars, .bar_count = TRIAL_WAYS};
  for (int i = 0; i < TRIAL_WAYS; i++) {
    const trial_way *way = &r->trial.ways[i];
    number_format_time(way->time.median, texts->labels[i]);
    snprintf(texts->notes[i], sizeof texts->notes[i], "%s a run", number_format_bytes(link_bytes(way), bytes));
    bars[i] = (plot_bar){way->time.median, way_texts[i], texts->labels[i], texts->notes[i]};
  }
}

static bool draw(const bench *b, FILE *stream) {
  plot_group *groups = calloc(b->row_count, sizeof *groups);
  plot_bar *bars = calloc(b->row_count * TRIAL_WAYS, sizeof *bars);
  group_texts *texts = calloc(b->row_count, sizeof *texts);
  bool good = groups != NULL && bars != NULL && texts != NULL;
  static const char *const footnotes[] = {
      "Unbound: host tensors in and out. Bound: inputs are on the device, written before each run or once; outputs stay there or are read."};
  for (size_t i = 0; good && i < b->row_count; i++) fill_group(&b->rows[i], &groups[i], &bars[i * TRIAL_WAYS], &texts[i]);
  if (good) {
    plot p = {.title = "Measured runs, unbound and bound",
              .subtitle =
                  "Median time of a run, and the bytes that cross the link in it. Linear bars; each group has its own scale.",
              .groups = groups,
              .group_count = b->row_count,
              .footnotes = footnotes,
              .footnote_count = 1};
    good = plot_write(&p, stream) == 0;
  }
  free(groups);
  free(bars);
  free(texts);
  return good;
}

static int save_plot(const bench *b) {
  char *svg = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&svg, &bytes);
  bool drawn = stream != NULL && draw(b, stream);
  if (stream != NULL) drawn = fclose(stream) == 0 && drawn;
  tool_fault why = {""};
  bool saved = drawn && file_write(b->plot, &(file_part){svg, bytes}, 1, &why);
  free(svg);
  if (!drawn) return tool_fail(&b->tool, "out of memory");
  return saved ? TOOL_GO : tool_fail(&b->tool, "--plot: %s", why.text);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int read_options(bench *b) {
  const tool_state *t = &b->tool;
  b->warmup = 1;
  b->iterations = 1000;
  b->seconds = tool_list_length(b->given.iterations) > 0 ? 0 : 5;
  int code = tool_integer(t, b->given.iterations, "--iterations", 1, 10000000, &b->iterations);
  if (code == TOOL_GO) code = tool_integer(t, b->given.warmup, "--warmup", 0, 1000000, &b->warmup);
  if (code == TOOL_GO) code = tool_real(t, b->given.seconds, "--seconds", 0.001, 86400, &b->seconds);
  if (code == TOOL_GO) code = tool_single(t, b->given.plot, "--plot", &b->plot);
  return code;
}

/* Have the allocator keep freed memory, as it does in a program that runs only one way. Here the ways take turns, and the heap
 * of one would be returned to the system while another one runs: an unbound run of 16 MiB then takes twice as long. */
static void keep_heap(void) {
#if defined(__GLIBC__)
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024); /* the largest value that glibc chooses if nothing is set */
#endif
}

static int run_bench(bench *b) {
  keep_heap();
  int code = read_options(b);
  b->given_dims = b->tool.dim_count;
  size_t results = tool_list_length(b->given.with);
  for (size_t i = 0; code == TOOL_GO && i < results; i++) code = read_result(b, b->given.with[i]);
  if (code == TOOL_GO) code = tool_open(&b->tool);
  if (code != TOOL_GO) return code;
  b->tool.random = 1; /* only the time counts, so inputs that are not given may be random */
  progress_begin(&b->tool);
  code = measure_devices(b, b->tool.arguments[0]);
  progress_end();
  if (code != TOOL_GO) return code;
  int drawn = b->plot == NULL ? TOOL_GO : save_plot(b); /* print the result even if it cannot be drawn */
  return print(b, drawn == TOOL_GO ? TOOL_DONE : drawn);
}

int command_bench(int argc, const char **argv) {
  bench b = {0};
  const struct poptOption own[] = {
      {"iterations", 0, POPT_ARG_ARGV, &b.given.iterations, 0,
       "Runs of each way (default 1000, at most those within --seconds)", "N"},
      {"seconds", 0, POPT_ARG_ARGV, &b.given.seconds, 0,
       "Time for a device (default 5); at least three runs of each way are made", "S"},
      {"warmup", 0, POPT_ARG_ARGV, &b.given.warmup, 0, "Uncounted runs of each way after the first one (default 1)", "N"},
      {"keep", 0, POPT_ARG_ARGV, &b.given.keep, 0, "An input that is written only once in all bound ways; may be repeated",
       "NAME"},
      {"graph", 0, POPT_ARG_NONE, &b.graph, 0, "Also measure runs that are captured as graphs", NULL},
      {"with", 0, POPT_ARG_ARGV, &b.given.with, 0, "Also show an earlier result of --json; may be repeated", "FILE.json"},
      {"plot", 0, POPT_ARG_ARGV, &b.given.plot, 0, "Draw the result as a picture", "FILE.svg"},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "bench",
      .arguments = "MODEL",
      .summary = "Measure a model unbound, and bound: with results read, with inputs written, with everything resident.",
      .notes = "Without --device every device that works is measured. Inputs that are not given are random.",
      .takes = TOOL_TAKES_DEVICES | TOOL_TAKES_DIMS | TOOL_TAKES_INPUTS | TOOL_TAKES_SESSION | TOOL_TAKES_RUNS,
      .argument_count = 1,
      .options = own};
  int code = tool_begin(&b.tool, &usage, argc, argv);
  if (code == TOOL_GO) code = run_bench(&b);
  free_rows(&b);
  json_decref(b.inputs);
  tool_free_list(b.given.iterations);
  tool_free_list(b.given.seconds);
  tool_free_list(b.given.warmup);
  tool_free_list(b.given.keep);
  tool_free_list(b.given.with);
  tool_free_list(b.given.plot);
  return tool_end(&b.tool, code);
}
