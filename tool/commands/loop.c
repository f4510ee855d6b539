#define _POSIX_C_SOURCE 200809L /* strdup, strndup */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/cycle.h"
#include "formats/file.h"
#include "shared/given.h"
#include "shared/number.h"
#include "shared/outputs.h"
#include "shared/tool.h"

static const char *const mode_words[] = {[IOBIND_CARRY_MOVE] = "move", "swap", "in-place"};
enum { MODES = sizeof mode_words / sizeof mode_words[0] };
enum { GRAPHS = 4 }; /* swap takes two, and the first step may have inputs of other dims */

typedef struct loop {
  tool_state *tool;
  iobind_device *device;
  iobind_session *session;
  cycle cycle;
  const char *directory; /* NULL: nothing is written */
  const char **names;    /* of the outputs */
  char **files;          /* of the outputs, in the directory */
  const char *restored;  /* the file of the first state; NULL: inputs are */
  const char *saved;     /* the file of the last state; NULL: none */
  bool through_host;     /* the same loop through the host, for comparison */
  bool is_captured;      /* the same loop with captured graphs */
} loop;

/* Lists of the command line, of NAME or NAME=...; NULL if an option is not given. */
typedef struct loop_lists {
  char **carries;
  char **gathered;
  char **first;
} loop_lists;

/* ---- the command line against the model ---- */

/* ",MODE" or nothing. */
static bool parse_mode(const char *text, iobind_carry_mode *mode) {
  if (*text == 0) return true;
  for (int i = IOBIND_CARRY_MOVE; *text == ',' && i < MODES; i++) {
    if (strcmp(text + 1, mode_words[i]) != 0) continue;
    *mode = (iobind_carry_mode)i;
    return true;
  }
  return false;
}

/* Names may contain '=' and ',' themselves: the longest names that the model has are taken. */
static bool match_carry(const loop *l, const char *text, cycle_carry *carry) {
  size_t longest = 0;
  for (size_t o = 0; o < l->cycle.output_count; o++) {
    size_t length = strlen(l->names[o]);
    if (strncmp(text, l->names[o], length) != 0 || text[length] != '=') continue;
    for (size_t i = 0; i < l->cycle.input_count; i++) {
      iobind_value_info value = IOBIND_VALUE_INFO_INIT;
      iobind_carry_mode mode = IOBIND_CARRY_DEFAULT;
      if (iobind_session_get_input(l->session, i, &value, NULL) != IOBIND_OK) continue;
      size_t both = length + 1 + strlen(value.name);
      if (strncmp(text + length + 1, value.name, strlen(value.name)) != 0 || both <= longest) continue;
      if (!parse_mode(text + both, &mode)) continue;
      *carry = (cycle_carry){o, i, mode};
      longest = both;
    }
  }
  return longest > 0;
}

/* Report which part of OUT=IN,MODE is wrong. */
static int refuse_carry(const loop *l, const char *text) {
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text || equals[1] == 0) {
    return tool_misuse(l->tool, "--carry: expected OUTPUT=INPUT or OUTPUT=INPUT,MODE, got '%s'", text);
  }
  iobind_error error = IOBIND_ERROR_INIT;
  size_t index = 0;
  char *output = strndup(text, (size_t)(equals - text));
  size_t length = strcspn(equals + 1, ",");
  char *input = strndup(equals + 1, length);
  int code = TOOL_FAILED;
  if (output == NULL || input == NULL) {
    code = tool_fail(l->tool, "out of memory");
  } else if (iobind_session_find_output(l->session, output, &index, &error) != IOBIND_OK ||
             iobind_session_find_input(l->session, input, &index, &error) != IOBIND_OK) {
    code = tool_fail_error(l->tool, "--carry", &error);
  } else {
    code = tool_misuse(l->tool, "--carry %s: expected the mode move, swap or in-place, got '%s'", text, equals + 1 + length);
  }
  free(output);
  free(input);
  return code;
}

/* The captured way has the mode, too. */
static int choose_mode(const loop *l, cycle_carry *carry) {
  iobind_session *of = l->is_captured ? l->cycle.captured : l->session;
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (carry->mode != IOBIND_CARRY_DEFAULT) return TOOL_GO;
  if (iobind_session_get_state_kind(of, carry->output, carry->input, &info, &error) != IOBIND_OK) {
    return tool_fail_error(l->tool, "--carry", &error);
  }
  carry->mode = (iobind_carry_mode)info.mode;
  return TOOL_GO;
}

static int read_carries(loop *l, char *const *texts) {
  cycle *c = &l->cycle;
  size_t count = tool_list_length(texts);
  c->carries = calloc(count + 1, sizeof *c->carries);
  if (c->carries == NULL) return tool_fail(l->tool, "out of memory");
  for (size_t i = 0; i < count; i++) {
    cycle_carry *carry = &c->carries[i];
    if (!match_carry(l, texts[i], carry)) return refuse_carry(l, texts[i]);
    int code = choose_mode(l, carry);
    if (code != TOOL_GO) return code;
    for (size_t j = 0; j < i; j++) {
      if (c->carries[j].output != carry->output && c->carries[j].input != carry->input) continue;
      return tool_misuse(l->tool, "--carry %s: its %s is carried already", texts[i],
                         c->carries[j].output == carry->output ? "output" : "input");
    }
    c->carry_count++;
  }
  return TOOL_GO;
}

static bool is_carried(const cycle *c, size_t input) {
  for (size_t i = 0; i < c->carry_count; i++) {
    if (c->carries[i].input == input) return true;
  }
  return false;
}

static int read_fed(loop *l, const iobind_value_info *value, size_t index, const char *text, size_t length, int64_t axis) {
  cycle *c = &l->cycle;
  tool_fault fault;
  if (is_carried(c, index)) {
    return tool_misuse(l->tool, "--input %s=%s: the input is carried; give its first state, without an axis", value->name,
                       text);
  }
  if (value->kind != IOBIND_VALUE_TENSOR) {
    return tool_fail(l->tool, "input '%s' is not a tensor, and cannot be fed [NOT_SUPPORTED]", value->name);
  }
  char *file = strndup(text, length);
  if (file == NULL) return tool_fail(l->tool, "out of memory");
  bool read = feed_read(file, axis, value, &c->fed[index], &fault);
  free(file);
  if (!read) return tool_fail(l->tool, "input '%s': %s: %s", value->name, text, fault.text);
  iobind_device *cpu = iobind_runtime_get_device(l->tool->runtime, 0);
  if (tool_tensor_from_npy(cpu, value, &c->fed[index].slice, &c->inputs[index], &fault)) return TOOL_GO;
  return tool_fail(l->tool, "input '%s': %s: %s", value->name, text, fault.text);
}

/* The first state, from --restore-state: on the host, too, if the loop runs through it. */
static int read_restored(loop *l, const iobind_value_info *value, size_t index) {
  const iobind_state *state = l->cycle.restored[CYCLE_CARRIED];
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_device *host = iobind_runtime_get_device(l->tool->runtime, 0);
  iobind_status status = IOBIND_OK;
  size_t at = 0;
  do {
    status = iobind_state_get_pair(state, at++, &pair, &error);
  } while (status == IOBIND_OK && pair.input != index);
  if (status == IOBIND_ERROR_NOT_FOUND) {
    return tool_fail(l->tool,
                     "--restore-state %s: it has no state of '%s': expected a state that a loop with the same --carry saved",
                     l->restored, value->name);
  }
  if (status == IOBIND_OK && l->through_host) {
    const iobind_tensor *const from = pair.tensor;
    iobind_tensor **to = &l->cycle.inputs[index];
    status = iobind_tensor_get_info(from, &info, &error);
    if (status == IOBIND_OK) {
      status = iobind_tensor_create(host, IOBIND_MEMORY_DEFAULT, (iobind_dtype)info.dtype, info.dims, info.rank, to, &error);
    }
    if (status == IOBIND_OK) status = iobind_tensor_copy(&from, to, 1, NULL, &error);
  }
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(l->tool, "--restore-state", &error);
}

/* A constant input, or a first state: "zeros" makes its open dims 0. */
static int read_constant(loop *l, const iobind_value_info *value, size_t index, const char *file) {
  iobind_value_info wanted = *value;
  int64_t dims[IOBIND_MAX_RANK];
  if (file != NULL && strcmp(file, GIVEN_ZEROS) == 0 && is_carried(&l->cycle, index)) {
    int code = tool_resolve_dims(l->tool, value, dims);
    if (code != TOOL_GO) return code;
    for (size_t i = 0; i < value->rank; i++) dims[i] = dims[i] < 0 ? 0 : dims[i];
    wanted.dims = dims;
  }
  return tool_make_input(l->tool, &wanted, file, &l->cycle.inputs[index]);
}

/* Only in the first step. */
static int read_first(loop *l, const iobind_value_info *value, size_t index, const char *file) {
  if (is_carried(&l->cycle, index)) {
    return tool_misuse(l->tool, "--first %s=%s: the input is carried; --input gives its first state", value->name, file);
  }
  return tool_make_input(l->tool, value, file, &l->cycle.first[index]);
}

static int read_input(loop *l, size_t index, const char *file, const char *first) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  size_t length = 0;
  int64_t axis = 0;
  if (iobind_session_get_input(l->session, index, &value, &error) != IOBIND_OK) return tool_fail_error(l->tool, NULL, &error);
  bool fed = file != NULL && feed_split(file, &length, &axis);
  bool is_restored = l->restored != NULL && is_carried(&l->cycle, index);
  if (is_restored && file != NULL) {
    return tool_misuse(l->tool, "--input %s=%s: the input is carried, and --restore-state gives its first state", value.name,
                       file);
  }
  int code = is_restored ? read_restored(l, &value, index)
             : fed       ? read_fed(l, &value, index, file, length, axis)
                         : read_constant(l, &value, index, file);
  return code == TOOL_GO && first != NULL ? read_first(l, &value, index, first) : code;
}

static int read_inputs(loop *l, char *const *first_texts) {
  cycle *c = &l->cycle;
  const char **files = calloc(2 * c->input_count + 1, sizeof *files);
  if (files == NULL) return tool_fail(l->tool, "out of memory");
  const char **first = files + c->input_count;
  int code = tool_match_inputs(l->tool, l->session, files);
  if (code == TOOL_GO) code = given_match_list(l->tool, "--first", first_texts, l->session, first);
  for (size_t i = 0; code == TOOL_GO && i < c->input_count; i++) code = read_input(l, i, files[i], first[i]);
  free(files);
  return code;
}

/* The captured way has a session of its own, and a state is of one session. */
static int load_states(loop *l) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session *const sessions[CYCLE_HOST] = {l->session, l->cycle.captured};
  if (l->cycle.carry_count == 0 && (l->restored != NULL || l->saved != NULL)) {
    return tool_misuse(l->tool, "%s: there is no state, because nothing is carried (--carry OUTPUT=INPUT)",
                       l->restored != NULL ? "--restore-state" : "--save-state");
  }
  for (int way = 0; l->restored != NULL && way < CYCLE_HOST; way++) {
    if (sessions[way] == NULL) continue;
    progress_say("reading %s", l->restored);
    if (iobind_state_load(sessions[way], l->restored, &l->cycle.restored[way], &error) != IOBIND_OK) {
      return tool_fail_error(l->tool, "--restore-state", &error);
    }
  }
  return TOOL_GO;
}

static int write_state(const loop *l) {
  iobind_error error = IOBIND_ERROR_INIT;
  progress_say("writing %s", l->saved);
  return iobind_state_save(l->cycle.saved, l->saved, &error) == IOBIND_OK ? TOOL_GO
                                                                          : tool_fail_error(l->tool, "--save-state", &error);
}

static int read_gathered(loop *l, char *const *names) {
  if (names != NULL && l->directory == NULL) {
    return tool_misuse(l->tool, "--gather %s: expected --output-dir, the directory to which it is written", names[0]);
  }
  for (; names != NULL && *names != NULL; names++) {
    iobind_error error = IOBIND_ERROR_INIT;
    size_t index = 0;
    if (iobind_session_find_output(l->session, *names, &index, &error) != IOBIND_OK) {
      return tool_fail_error(l->tool, "--gather", &error);
    }
    l->cycle.gathered[index] = true;
  }
  return TOOL_GO;
}

/* As many as --steps says, or as the shortest array with slices has. */
static int find_steps(loop *l, int64_t asked) {
  cycle *c = &l->cycle;
  const char *shortest = NULL;
  size_t slices = 0; /* and one more for its own first step */
  for (size_t i = 0; i < c->input_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    size_t steps = c->fed[i].count + (c->first[i] != NULL);
    if (c->fed[i].count == 0 || (shortest != NULL && steps >= slices)) continue;
    if (iobind_session_get_input(l->session, i, &value, NULL) != IOBIND_OK) continue;
    shortest = value.name;
    slices = steps;
  }
  if (shortest == NULL && c->carry_count == 0) {
    return tool_misuse(l->tool,
                       "nothing is carried (--carry OUTPUT=INPUT) and nothing fed (--input NAME=FILE.npy@AXIS), so all "
                       "steps would be the same");
  }
  if (asked == 0 && shortest == NULL) {
    return tool_misuse(l->tool, "--steps is missing: no input is fed slices (FILE.npy@AXIS), which could be counted");
  }
  if (shortest != NULL && asked > 0 && (size_t)asked > slices) {
    return tool_fail(l->tool, "--steps %" PRId64 ": input '%s' is fed for %zu steps [SHAPE]", asked, shortest, slices);
  }
  c->steps = asked > 0 ? (size_t)asked : slices;
  return TOOL_GO;
}

static int name_outputs(loop *l) {
  for (size_t i = 0; i < l->cycle.output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_output(l->session, i, &value, &error) != IOBIND_OK) return tool_fail_error(l->tool, NULL, &error);
    l->names[i] = value.name;
  }
  return outputs_name_files(l->names, l->cycle.output_count, l->files) ? TOOL_GO : tool_fail(l->tool, "out of memory");
}

static int open_loop(loop *l, const loop_lists *lists, int64_t steps) {
  tool_state *tool = l->tool;
  tool_fault fault;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  int code = tool_open(tool);
  if (code == TOOL_GO) code = tool_first_device(tool, &l->device);
  if (code == TOOL_GO) code = tool_load(tool, tool->arguments[0], &l->device, 0, &l->session);
  if (code != TOOL_GO) return code;
  if (iobind_session_get_info(l->session, &info, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  l->names = calloc(info.output_count + 1, sizeof *l->names);
  l->files = calloc(info.output_count + 1, sizeof *l->files);
  if (l->names == NULL || l->files == NULL || !cycle_begin(&l->cycle, tool, l->session, &info)) {
    return tool_fail(tool, "out of memory");
  }
  l->cycle.gathers = l->directory != NULL;
  l->cycle.saves = l->saved != NULL;
  if (l->is_captured) code = tool_load_captured(tool, tool->arguments[0], &l->device, GRAPHS, &l->cycle.captured);
  if (code != TOOL_GO) return code;
  code = name_outputs(l);
  if (code == TOOL_GO) code = read_carries(l, lists->carries);
  if (code == TOOL_GO) code = load_states(l);
  if (code == TOOL_GO) code = read_gathered(l, lists->gathered);
  if (code == TOOL_GO) code = read_inputs(l, lists->first);
  if (code == TOOL_GO) code = find_steps(l, steps);
  if (code == TOOL_GO && l->directory != NULL && !file_make_directory(l->directory, &fault)) {
    code = tool_fail(tool, "--output-dir %s", fault.text);
  }
  return code;
}

/* ---- the report ---- */

static const cycle_carry *carry_of(const cycle *c, size_t output) {
  for (size_t i = 0; i < c->carry_count; i++) {
    if (c->carries[i].output == output) return &c->carries[i];
  }
  return NULL;
}

static int write_output(const loop *l, const npy_array *array, size_t index, const char *path) {
  tool_fault fault;
  if (path == NULL || npy_write(path, array, &fault)) return TOOL_GO;
  return tool_fail(l->tool, "output '%s': %s", l->names[index], fault.text);
}

static void add_notes(tool_report *report, const iobind_value_info *value, const gather *all, bool carried) {
  if (value->kind != IOBIND_VALUE_TENSOR) report_note(report, "'%s' is not a tensor: not gathered", value->name);
  if (value->dtype == IOBIND_DTYPE_STRING) report_note(report, "'%s' holds strings: not gathered", value->name);
  if (all->uneven) {
    report_note(report, "'%s' changes its dims from step to step: not gathered%s", value->name,
                carried ? "; its last state is written" : "");
  }
}

static int add_output(const loop *l, tool_report *report, report_table *table, size_t index, const iobind_value_info *value) {
  const cycle_carry *carry = carry_of(&l->cycle, index);
  const gather *all = &l->cycle.lanes[CYCLE_CARRIED].outputs[index];
  const npy_array *array = &all->array;
  iobind_value_info input = IOBIND_VALUE_INFO_INIT;
  bool had = carry != NULL || array->rank > 0;
  char *path = had && l->directory != NULL ? file_join(l->directory, l->files[index]) : NULL;
  char *dims = tool_describe_dims(array->dims, array->rank);
  int code = TOOL_FAILED;
  if (dims == NULL || (had && l->directory != NULL && path == NULL)) {
    code = tool_fail(l->tool, "out of memory");
  } else {
    if (carry != NULL && iobind_session_get_input(l->session, carry->input, &input, NULL) != IOBIND_OK) input.name = "?";
    report_row(table);
    report_cell(table, report_string(value->name), NULL);
    report_cell(table, report_string(input.name), "%s", carry == NULL ? "-" : input.name);
    report_cell(table, report_string(carry == NULL ? NULL : mode_words[carry->mode]), "%s",
                carry == NULL ? "-" : mode_words[carry->mode]);
    report_cell(table, report_string(value->kind == IOBIND_VALUE_TENSOR ? iobind_dtype_get_name(value->dtype) : NULL), "%s",
                value->kind == IOBIND_VALUE_TENSOR ? iobind_dtype_get_name(value->dtype) : "-");
    report_cell(table, had ? tool_dims_json(array->dims, array->rank) : json_null(), "%s", had ? dims : "-");
    report_cell(table, report_string(path), "%s", path == NULL ? "-" : path);
    add_notes(report, value, all, carry != NULL);
    code = write_output(l, array, index, path);
  }
  free(path);
  free(dims);
  return code;
}

static int add_outputs(loop *l, tool_report *report) {
  report_table *table = report_add_table(report, "outputs", NULL);
  report_column(table, "name", "OUTPUT", REPORT_LEFT);
  report_column(table, "carried_to", "CARRIED TO", REPORT_LEFT);
  report_column(table, "mode", "MODE", REPORT_LEFT);
  report_column(table, "dtype", "TYPE", REPORT_LEFT);
  report_column(table, "dims", "DIMS", REPORT_LEFT);
  report_column(table, "file", l->directory == NULL ? NULL : "FILE", REPORT_LEFT);
  int code = TOOL_GO;
  for (size_t i = 0; code == TOOL_GO && i < l->cycle.output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_output(l->session, i, &value, &error) != IOBIND_OK) return tool_fail_error(l->tool, NULL, &error);
    progress_say("writing %s", value.name);
    code = add_output(l, report, table, i, &value);
  }
  return code;
}

static void add_bytes(report_table *table, uint64_t bytes) {
  char text[NUMBER_TEXT];
  report_cell(table, json_integer((json_int_t)bytes), "%s", number_format_bytes(bytes, text));
}

static void add_time(report_table *table, double nanoseconds) {
  char text[NUMBER_TEXT];
  report_cell(table, json_real(nanoseconds), "%s", number_format_time(nanoseconds, text));
}

static void add_way(report_table *table, const cycle *c, cycle_way way) {
  const cycle_lane *lane = &c->lanes[way];
  double steps = (double)c->steps;
  double median = lane->time.median;
  double host = c->lanes[CYCLE_HOST].time.median;
  static const char *const keys[CYCLE_WAYS] = {"carried", "captured", "host"};
  static const char *const texts[CYCLE_WAYS] = {"carried", "carried, captured", "through the host"};
  report_row(table);
  report_cell(table, json_string(keys[way]), "%s", texts[way]);
  add_time(table, (double)lane->first_ns);
  if (c->steps > 1) {
    add_time(table, median);
    add_time(table, lane->time.p99);
  } else {
    report_cell(table, NULL, "-");
    report_cell(table, NULL, "-");
  }
  if (lane->launches < 0) {
    report_cell(table, NULL, "-");
  } else {
    report_cell(table, json_integer((json_int_t)lane->launches), "%lld", (long long)lane->launches);
  }
  report_cell(table, json_real((double)lane->made / steps), "%.3g", (double)lane->made / steps);
  add_bytes(table, lane->upload_bytes / c->steps);
  add_bytes(table, lane->download_bytes / c->steps);
  add_bytes(table, lane->local_bytes / c->steps);
  if (host > 0 && median > 0) report_cell(table, json_real(host / median), "x%.2f", host / median);
}

static void add_ways(const loop *l, tool_report *report) {
  report_table *table = report_add_table(report, "ways", NULL);
  report_column(table, "way", "STATES", REPORT_LEFT);
  report_column(table, "first_ns", "FIRST STEP", REPORT_RIGHT);
  report_column(table, "median_ns", "MEDIAN", REPORT_RIGHT);
  report_column(table, "p99_ns", "P99", REPORT_RIGHT);
  report_column(table, "launches", l->is_captured ? "LAUNCHES" : NULL, REPORT_RIGHT);
  report_column(table, "tensors", "NEW/STEP", REPORT_RIGHT);
  report_column(table, "upload_bytes", "UP/STEP", REPORT_RIGHT);
  report_column(table, "download_bytes", "DOWN/STEP", REPORT_RIGHT);
  report_column(table, "local_bytes", "WITHIN/STEP", REPORT_RIGHT);
  report_column(table, "ratio", l->through_host ? "RATIO" : NULL, REPORT_RIGHT);
  add_way(table, &l->cycle, CYCLE_CARRIED);
  if (l->is_captured) add_way(table, &l->cycle, CYCLE_CAPTURED);
  if (l->through_host) add_way(table, &l->cycle, CYCLE_HOST);
}

static void add_state(const iobind_state *state, const char *path, const char *key, const char *label, tool_report *report) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  char text[NUMBER_TEXT];
  if (path == NULL || iobind_state_get_info(state, &info, NULL) != IOBIND_OK) return;
  report_field(report, key, label, report_string(path), "%s (%s)", path, number_format_bytes(info.bytes, text));
}

/* The device and ORT that have computed a restored state, from its file. */
static void add_origin(const iobind_state *state, tool_report *report) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  if (state == NULL || iobind_state_get_info(state, &info, NULL) != IOBIND_OK) return;
  report_field(report, "restored_device", "saved on", report_string(info.device_spec), "%s, ORT %s", info.device_spec,
               info.ort_version);
  report_field(report, "restored_ort", NULL, report_string(info.ort_version), NULL);
}

static int report_loop(loop *l, tool_report *report) {
  report_field(report, "model", "model", report_string(l->tool->arguments[0]), NULL);
  report_field(report, "device", "device", report_string(tool_device_spec(l->device)), NULL);
  tool_report_clock(l->tool, report);
  report_field(report, "steps", "steps", json_integer((json_int_t)l->cycle.steps), NULL);
  add_state(l->cycle.restored[CYCLE_CARRIED], l->restored, "restored_state", "restored state", report);
  add_origin(l->cycle.restored[CYCLE_CARRIED], report);
  add_state(l->cycle.saved, l->saved, "saved_state", "saved state", report);
  int code = add_outputs(l, report);
  if (code != TOOL_GO) return code;
  add_ways(l, report);
  if (l->through_host) {
    size_t differs = 0;
    bool same = cycle_compare(&l->cycle, CYCLE_CARRIED, &differs) &&
                (!l->is_captured || cycle_compare(&l->cycle, CYCLE_CAPTURED, &differs));
    report_field(report, "same", "results", json_boolean(same),
                 same ? "the same, to the bit, as through the host" : "'%s' differs from the loop through the host",
                 same ? "" : l->names[differs]);
    report_field_mark(report, same ? REPORT_GOOD : REPORT_BAD);
  }
  code = tool_report_profile(l->tool, l->session, report);
  return code == TOOL_GO ? tool_print(l->tool, report, TOOL_DONE) : code;
}

/* ---- the command ---- */

/* A dim that --dim fixes by its symbol is fixed for all steps, so a state cannot grow. */
static const char *hint_at_dims(const loop *l, char *text, size_t size) {
  const iobind_error *failure = &l->cycle.failure;
  bool shape = failure->status == IOBIND_ERROR_SHAPE;
  size_t length = 0;
  text[0] = 0;
  for (size_t i = 0; shape && i < l->tool->dim_count && length < size; i++) {
    const tool_dim *dim = &l->tool->dims[i];
    if (dim->axis >= 0) continue;
    int added = snprintf(text + length, size - length, "%s%s=%" PRId64, length == 0 ? "; --dim " : ", ", dim->name, dim->value);
    length += added > 0 ? (size_t)added : 0;
  }
  if (length > 0 && length < size) {
    snprintf(text + length, size - length,
             " applies to all steps; --dim INPUT[AXIS]=N, or --input INPUT=%s, fixes only a first state", GIVEN_ZEROS);
  }
  return text;
}

static int run(loop *l, cycle_way way) {
  size_t step = 0;
  tool_fault fault;
  if (cycle_run(&l->cycle, way, &step, &fault)) return TOOL_GO;
  char hint[512];
  return tool_fail(l->tool, "%sstep %zu: %s%s", cycle_way_text(way), step, fault.text, hint_at_dims(l, hint, sizeof hint));
}

static int run_loop(loop *l, const loop_lists *lists, int64_t steps) {
  progress_begin(l->tool);
  int code = open_loop(l, lists, steps);
  if (code == TOOL_GO) code = run(l, CYCLE_CARRIED);
  if (code == TOOL_GO && l->is_captured) code = run(l, CYCLE_CAPTURED);
  if (code == TOOL_GO && l->through_host) code = run(l, CYCLE_HOST);
  if (code == TOOL_GO && l->saved != NULL) code = write_state(l);
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    code = report_loop(l, report);
    report_destroy(report);
  }
  for (size_t i = 0; l->files != NULL && i < l->cycle.output_count; i++) free(l->files[i]);
  free(l->files);
  free(l->names);
  iobind_session_destroy(l->cycle.captured);
  cycle_end(&l->cycle);
  iobind_session_destroy(l->session);
  return code;
}

int command_loop(int argc, const char **argv) {
  loop_lists lists = {0};
  char **counts = NULL;
  char **directories = NULL;
  char **saved = NULL;
  char **restored = NULL;
  int no_host = 0;
  int graph = 0;
  const struct poptOption options[] = {
      {"carry", 'c', POPT_ARG_ARGV, &lists.carries, 0,
       "An output that becomes an input of the next step: move (any shape), swap (two buffers) or in-place (one buffer, "
       "if the model allows it; the default for a cache of fixed capacity, otherwise move); may be repeated",
       "OUTPUT=INPUT[,MODE]"},
      {"steps", 'n', POPT_ARG_ARGV, &counts, 0, "The number of steps (default: the slices of the shortest file)", "N"},
      {"output-dir", 'o', POPT_ARG_ARGV, &directories, 0,
       "Write DIR/NAME.npy: the last state of a carried output, all steps of any other", "DIR"},
      {"first", 0, POPT_ARG_ARGV, &lists.first, 0,
       "The value of an input in the first step, such as a prompt; --input is for later steps; may be repeated", "NAME=FILE"},
      {"gather", 0, POPT_ARG_ARGV, &lists.gathered, 0,
       "Write all steps of a carried output instead of its last state; may be repeated", "OUTPUT"},
      {"save-state", 0, POPT_ARG_ARGV, &saved, 0, "Write the carried states after the last step, for --restore-state", "FILE"},
      {"restore-state", 0, POPT_ARG_ARGV, &restored, 0, "Begin with the states that --save-state wrote, on any device", "FILE"},
      {"graph", 0, POPT_ARG_NONE, &graph, 0,
       "Also run the loop with its steps captured as graphs; swap is then the default instead of move", NULL},
      {"no-host", 0, POPT_ARG_NONE, &no_host, 0, "Do not run the loop through the host", NULL},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "loop",
      .arguments = "MODEL",
      .summary = "Run a model step by step; outputs become inputs and stay on the device.",
      .notes =
          "NAME=FILE.npy@AXIS feeds an input one slice in each step. Any other input is constant, or the first state if it is carried;\n"
          "NAME=zeros is a state of zeros, in which an open dim is 0. With --output-dir, outputs that are not carried are\n"
          "gathered along a new first axis; without it they are not fetched.",
      .takes = TOOL_TAKES_DEVICE | TOOL_TAKES_DIMS | TOOL_TAKES_INPUTS | TOOL_TAKES_SESSION | TOOL_TAKES_RUNS,
      .argument_count = 1,
      .options = options,
  };
  tool_state tool;
  loop l = {.tool = &tool};
  int64_t steps = 0;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = tool_single(&tool, directories, "--output-dir", &l.directory);
  if (code == TOOL_GO) code = tool_single(&tool, saved, "--save-state", &l.saved);
  if (code == TOOL_GO) code = tool_single(&tool, restored, "--restore-state", &l.restored);
  if (code == TOOL_GO) code = tool_integer(&tool, counts, "--steps", 1, 1000000000, &steps);
  l.through_host = no_host == 0;
  l.is_captured = graph != 0;
  if (code == TOOL_GO) code = run_loop(&l, &lists, steps);
  code = tool_end(&tool, code);
  tool_free_list(lists.carries);
  tool_free_list(lists.gathered);
  tool_free_list(lists.first);
  tool_free_list(counts);
  tool_free_list(directories);
  tool_free_list(saved);
  tool_free_list(restored);
  return code;
}
