#define _POSIX_C_SOURCE 200809L /* mkdtemp, strdup, strndup */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/file.h"
#include "formats/profile.h"
#include "shared/number.h"
#include "shared/statistic.h"
#include "shared/tool.h"

enum { DEFAULT_RUNS = 10, MOST_RUNS = 100000, COPY_TRIALS = 5 };

/* How an input or output is bound. */
typedef enum how { HOW_DEVICE, HOW_LIVE, HOW_HOST, HOW_NONE } how;

/* A row: an entry of the audit, a copy node, or several with the same reason, shown under the first one's name. The texts
 * belong to the audit, the profile or the devices. */
typedef struct move {
  const char *kind;
  const char *name;
  const char *from; /* NULL: it goes nowhere */
  const char *to;
  uint64_t bytes;
  bool known; /* how many bytes it moves */
  bool crosses;
  double time; /* 0: unknown */
  const char *reason;
  const char *advice; /* "": none */
  size_t count;
} move;

typedef struct audit_job {
  tool_state *tool;
  int64_t runs;
  bool expect_zero;
  iobind_device *device;
  iobind_device *cpu;
  iobind_session *session;
  iobind_binding *binding;
  iobind_audit *audit;
  iobind_tensor **inputs;
  size_t input_count;
  size_t output_count;
  how *hows; /* inputs first, then outputs */
  char *directory;
  char *prefix;             /* of the profile, in the directory */
  const char *kept_profile; /* the session owns it */
  int profile;              /* open, with its name removed already; -1: none */
  profile_copy *copies;
  size_t copy_count;
  move *moves;
  size_t move_count;
  statistic time;
  uint64_t crossing;
  bool more; /* more than `crossing`: something moves, but its size is unknown */
  bool used; /* the device runs a node, or is the host */
} audit_job;

/* ---- the command line ---- */

static int find_value(const audit_job *job, const char *name, size_t length, size_t *index) {
  for (size_t i = 0; i < job->input_count + job->output_count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    bool input = i < job->input_count;
    iobind_status status = input ? iobind_session_get_input(job->session, i, &value, &error)
                                 : iobind_session_get_output(job->session, i - job->input_count, &value, &error);
    if (status != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
    if (strlen(value.name) == length && memcmp(value.name, name, length) == 0) {
      *index = i;
      return TOOL_GO;
    }
  }
  return tool_misuse(job->tool, "--bind %.*s: the model has no such input or output", (int)length, name);
}

static int read_bind(audit_job *job, const char *text) {
  const char *equals = strrchr(text, '=');
  if (equals == NULL) {
    if (strcmp(text, "device") != 0 && strcmp(text, "host") != 0) {
      return tool_misuse(job->tool, "--bind: expected device, host or NAME=HOW, got '%s'", text);
    }
    bool host = strcmp(text, "host") == 0;
    for (size_t i = 0; i < job->input_count + job->output_count; i++) {
      job->hows[i] = !host ? HOW_DEVICE : i < job->input_count ? HOW_LIVE : HOW_HOST;
    }
    return TOOL_GO;
  }
  static const struct {
    const char *word;
    how how;
    bool input;
    bool output;
  } words[] = {{"device", HOW_DEVICE, true, true},
               {"live", HOW_LIVE, true, false},
               {"host", HOW_HOST, false, true},
               {"none", HOW_NONE, false, true}};
  size_t index = 0;
  int code = find_value(job, text, (size_t)(equals - text), &index);
  if (code != TOOL_GO) return code;
  bool input = index < job->input_count;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcmp(equals + 1, words[i].word) == 0 && (input ? words[i].input : words[i].output)) {
      job->hows[index] = words[i].how;
      return TOOL_GO;
    }
  }
  return tool_misuse(job->tool, "--bind %s: expected %s", text,
                     input ? "device or live for an input" : "device, host or none for an output");
}

/* ---- running ---- */

static int make_directory(audit_job *job) {
  const char *base = getenv("TMPDIR");
  if (base == NULL || base[0] == '\0') base = "/tmp";
  size_t size = strlen(base) + sizeof "/iobind-audit-XXXXXX/profile";
  job->directory = malloc(size);
  job->prefix = malloc(size);
  if (job->directory == NULL || job->prefix == NULL) return tool_fail(job->tool, "out of memory");
  snprintf(job->directory, size, "%s/iobind-audit-XXXXXX", base);
  if (mkdtemp(job->directory) == NULL) {
    int code =
        tool_fail(job->tool, "a directory for the profile cannot be created in %s; set TMPDIR to a writable directory", base);
    free(job->directory);
    job->directory = NULL;
    return code;
  }
  snprintf(job->prefix, size, "%s/profile", job->directory);
  job->tool->profile = job->prefix;
  return TOOL_GO;
}

static int bind_all(audit_job *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = iobind_binding_create(job->session, &job->binding, &error);
  if (status == IOBIND_OK) status = wish_configure(&job->tool->wish.run_configs, job->binding, &error);
  for (size_t i = 0; status == IOBIND_OK && i < job->input_count; i++) {
    iobind_input_mode mode = job->hows[i] == HOW_LIVE ? IOBIND_INPUT_LIVE : IOBIND_INPUT_SNAPSHOT;
    status = iobind_binding_set_input(job->binding, i, mode, job->inputs[i], NULL, &error);
  }
  for (size_t i = 0; status == IOBIND_OK && i < job->output_count; i++) {
    how asked = job->hows[job->input_count + i];
    if (asked == HOW_DEVICE) continue; /* as in a new binding */
    status = iobind_binding_place_output(job->binding, i, asked == HOW_NONE ? IOBIND_OUTPUT_NONE : IOBIND_OUTPUT_FRESH,
                                         asked == HOW_NONE ? NULL : job->cpu, IOBIND_MEMORY_DEFAULT, &error);
  }
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(job->tool, NULL, &error);
}

/* One run that is not timed, then the timed ones; the profile has all of them. */
static int run_all(audit_job *job) {
  uint64_t *samples = calloc((size_t)job->runs, sizeof *samples);
  if (samples == NULL) return tool_fail(job->tool, "out of memory");
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = iobind_binding_run(job->binding, NULL, &error);
  for (int64_t i = 0; status == IOBIND_OK && i < job->runs; i++) {
    uint64_t begin = clock_now(&job->tool->clock);
    status = iobind_binding_run(job->binding, NULL, &error);
    samples[i] = clock_now(&job->tool->clock) - begin;
  }
  if (status == IOBIND_OK) job->time = statistic_of(samples, (size_t)job->runs);
  free(samples);
  if (status == IOBIND_OK) status = iobind_audit_create(job->binding, &job->audit, &error);
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(job->tool, NULL, &error);
}

static int read_profile(audit_job *job) {
  iobind_error error = IOBIND_ERROR_INIT;
  tool_fault fault;
  const char *path = NULL;
  if (job->tool->wish.profile != NULL) {
    int code = tool_end_profile(job->tool, job->session, &path);
    if (code != TOOL_GO) return code;
  } else if (iobind_session_end_profile(job->session, &path, &error) != IOBIND_OK) {
    return tool_fail_error(job->tool, NULL, &error);
  }
  job->kept_profile = path;
  if (job->profile < 0) job->profile = open(path, O_RDONLY | O_CLOEXEC); /* the file of --profile stays */
  bool read = profile_read(job->profile, path, &job->copies, &job->copy_count, &fault);
  return read ? TOOL_GO : tool_fail(job->tool, "%s", fault.text);
}

/* ---- the time of a copy ---- */

/* The median time of a copy of `bytes` bytes from one memory to the other; 0 if it cannot be made. */
static double time_copy(const tool_clock *clock, iobind_device *from, int32_t from_memory, iobind_device *to, int32_t to_memory,
                        uint64_t bytes) {
  const int64_t dims[1] = {(int64_t)bytes};
  uint64_t samples[COPY_TRIALS];
  iobind_tensor *source = NULL;
  iobind_tensor *target = NULL;
  size_t count = 0;
  if (iobind_tensor_create(from, (iobind_memory)from_memory, IOBIND_DTYPE_UINT8, dims, 1, &source, NULL) == IOBIND_OK &&
      iobind_tensor_create(to, (iobind_memory)to_memory, IOBIND_DTYPE_UINT8, dims, 1, &target, NULL) == IOBIND_OK) {
    const iobind_tensor *sources[1] = {source};
    bool good = iobind_tensor_copy(sources, &target, 1, NULL, NULL) == IOBIND_OK;
    while (good && count < COPY_TRIALS) {
      uint64_t begin = clock_now(clock);
      good = iobind_tensor_copy(sources, &target, 1, NULL, NULL) == IOBIND_OK;
      samples[count++] = clock_now(clock) - begin;
    }
    count = good ? count : 0;
  }
  iobind_tensor_release(source);
  iobind_tensor_release(target);
  return count == 0 ? 0 : statistic_of(samples, count).median;
}

/* ---- the report ---- */

static void add_columns(report_table *table) {
  report_column(table, "kind", "WHAT", REPORT_LEFT);
  report_column(table, "name", "NAME", REPORT_LEFT);
  report_column(table, "from", "FROM", REPORT_LEFT);
  report_column(table, "to", "TO", REPORT_LEFT);
  report_column(table, "bytes", "A RUN", REPORT_RIGHT);
  report_column(table, "crosses", NULL, REPORT_LEFT);
  report_column(table, "time_ns", "TIME", REPORT_RIGHT);
  report_column(table, "reason", "WHY", REPORT_LEFT);
  report_column(table, "advice", NULL, REPORT_LEFT);
}

static const char *kind_name(int32_t kind) {
  return kind == IOBIND_AUDIT_INPUT ? "input" : kind == IOBIND_AUDIT_OUTPUT ? "output" : "node";
}

static const char *spec_of(const iobind_device *device) {
  return device == NULL ? NULL : tool_device_spec(device);
}

static int collect_entries(audit_job *job, size_t count) {
  iobind_error error = IOBIND_ERROR_INIT;
  for (size_t i = 0; i < count; i++) {
    iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
    if (iobind_audit_get_entry(job->audit, i, &entry, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
    bool crosses = (entry.flags & IOBIND_AUDIT_CROSSES) != 0;
    /* the copy nodes of the profile show what a node on the CPU moves */
    bool known = (entry.flags & IOBIND_AUDIT_UNKNOWN) == 0;
    bool timed = crosses && known && entry.bytes > 0;
    double time =
        timed ? time_copy(&job->tool->clock, entry.from, entry.from_memory, entry.to, entry.to_memory, entry.bytes) : 0;
    job->moves[job->move_count++] = (move){kind_name(entry.kind),
                                           entry.name,
                                           spec_of(entry.from),
                                           spec_of(entry.to),
                                           entry.bytes,
                                           known,
                                           crosses,
                                           time,
                                           entry.reason,
                                           entry.advice,
                                           1};
    job->more = job->more || (!known && entry.kind != IOBIND_AUDIT_NODE);
  }
  return TOOL_GO;
}

static void collect_copies(audit_job *job) {
  uint64_t runs = (uint64_t)job->runs + 1;
  const char *device = tool_device_spec(job->device);
  for (size_t i = 0; i < job->copy_count; i++) {
    const profile_copy *copy = &job->copies[i];
    uint64_t bytes = (copy->bytes + runs - 1) / runs; /* what moves only in some runs still counts */
    job->moves[job->move_count++] =
        (move){"copy node",
               copy->name,
               copy->to_host ? device : "cpu",
               copy->to_host ? "cpu" : device,
               bytes,
               true,
               true,
               (double)copy->nanoseconds / (double)runs,
               "ONNX Runtime inserted it between a node on the CPU and one on the device",
               "keep neighbouring nodes on one device: use another execution provider, or another operator",
               1};
  }
}

static int collect(audit_job *job) {
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_audit_get_info(job->audit, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  job->moves = calloc(info.entry_count + job->copy_count + 1, sizeof *job->moves);
  if (job->moves == NULL) return tool_fail(job->tool, "out of memory");
  job->move_count = 0;
  int code = collect_entries(job, info.entry_count);
  collect_copies(job);
  for (size_t i = 0; i < job->move_count; i++) job->crossing += job->moves[i].crosses ? job->moves[i].bytes : 0;
  return code;
}

static bool same_text(const char *one, const char *other) {
  return one == other || (one != NULL && other != NULL && strcmp(one, other) == 0);
}

static bool is_alike(const move *one, const move *other) {
  return strcmp(one->kind, other->kind) == 0 && one->known == other->known && one->crosses == other->crosses &&
         same_text(one->from, other->from) && same_text(one->to, other->to) && strcmp(one->reason, other->reason) == 0;
}

/* A model has many nodes, but few reasons: a person is shown one row for each reason. */
static void group(audit_job *job) {
  size_t kept = 0;
  for (size_t i = 0; i < job->move_count; i++) {
    move *first = NULL;
    for (size_t j = 0; first == NULL && j < kept; j++) {
      if (is_alike(&job->moves[j], &job->moves[i])) first = &job->moves[j];
    }
    if (first == NULL) {
      job->moves[kept++] = job->moves[i];
    } else {
      first->bytes += job->moves[i].bytes;
      first->time += job->moves[i].time;
      first->count++;
    }
  }
  job->move_count = kept;
}

/* "Conv_1", or "Conv_1 and 8 more". malloc'ed; NULL: no memory. */
static char *name_of(const move *moved) {
  const char *name = moved->name[0] != '\0' ? moved->name : "(no name)";
  size_t size = strlen(name) + 32;
  char *text = malloc(size);
  if (text != NULL && moved->count == 1) snprintf(text, size, "%s", name);
  if (text != NULL && moved->count > 1) snprintf(text, size, "%s and %zu more", name, moved->count - 1);
  return text;
}

static int add_move(const audit_job *job, tool_report *report, report_table *table, const move *moved) {
  char size[NUMBER_TEXT];
  char took[NUMBER_TEXT];
  char *name = name_of(moved);
  if (name == NULL) return tool_fail(job->tool, "out of memory");
  report_row(table);
  report_cell(table, json_string(moved->kind), NULL);
  report_cell(table, report_string(moved->name), "%s", name);
  report_cell(table, report_string(moved->from), "%s", moved->from == NULL ? "-" : moved->from);
  report_cell(table, report_string(moved->to), "%s", moved->to == NULL ? "-" : moved->to);
  report_cell(table, moved->known ? json_integer((json_int_t)moved->bytes) : json_null(), "%s",
              moved->known ? number_format_bytes(moved->bytes, size) : "?");
  report_cell(table, json_boolean(moved->crosses), NULL);
  report_cell(table, moved->time > 0 ? json_integer((json_int_t)moved->time) : json_null(), "%s",
              moved->time > 0 ? number_format_time(moved->time, took) : "-");
  report_cell(table, report_string(moved->reason), NULL);
  report_cell(table, report_string(moved->advice), NULL);
  if (moved->advice[0] != '\0' && strcmp(moved->kind, "copy node") != 0) report_note(report, "%s: %s", name, moved->advice);
  free(name);
  return TOOL_GO;
}

/* If the device runs no node, nothing crosses, but that is not what was asked for. */
static int note_unused(audit_job *job, tool_report *report) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  bool used = tool_is_host(job->device) || job->copy_count > 0; /* ORT 1.24 does not list all nodes of a plugin's EP */
  if (iobind_session_get_info(job->session, &info, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
  for (size_t i = 0; i < info.node_count; i++) {
    iobind_node_info node = IOBIND_NODE_INFO_INIT;
    if (iobind_session_get_node(job->session, i, &node, &error) != IOBIND_OK) return tool_fail_error(job->tool, NULL, &error);
    used = used || strcmp(node.ep_name, "CPUExecutionProvider") != 0;
  }
  job->used = used || info.node_count == 0;
  report_field(report, "device_used", NULL, json_boolean(job->used), NULL);
  if (!job->used) {
    report_note(report, "no node runs on '%s': the model runs on the CPU", tool_device_spec(job->device));
  }
  return TOOL_GO;
}

static int report_job(audit_job *job, tool_report *report) {
  char text[NUMBER_TEXT];
  report_field(report, "model", "model", report_string(job->tool->arguments[0]), NULL);
  report_field(report, "device", "device", report_string(tool_device_spec(job->device)), NULL);
  tool_report_clock(job->tool, report);
  report_field(report, "runs", "runs", json_integer(job->runs), NULL);
  report_field(report, "run_ns", "a run takes (median)", json_integer((json_int_t)job->time.median), "%s",
               number_format_time(job->time.median, text));
  report_table *table = report_add_table(report, "moves", NULL);
  add_columns(table);
  int code = collect(job);
  if (code == TOOL_GO && !job->tool->json && job->tool->verbosity == 0) group(job);
  for (size_t i = 0; code == TOOL_GO && i < job->move_count; i++) code = add_move(job, report, table, &job->moves[i]);
  if (code != TOOL_GO) return code;
  code = note_unused(job, report);
  if (code != TOOL_GO) return code;
  bool zero = job->crossing == 0 && !job->more && job->used;
  report_field(report, "crossing_bytes", NULL, json_integer((json_int_t)job->crossing), NULL);
  report_field(report, "at_least", NULL, json_boolean(job->more), NULL);
  if (tool_is_host(job->device)) {
    report_note(report, "0 B cross a link: everything is in host memory");
  } else if (job->crossing < 1024) {
    report_note(report, "%s%s cross the link per run", job->more ? "at least " : "", number_format_bytes(job->crossing, text));
  } else {
    report_note(report, "%s%s (%" PRIu64 " B) cross the link per run", job->more ? "at least " : "",
                number_format_bytes(job->crossing, text), job->crossing);
  }
  if (job->tool->wish.profile != NULL) report_field(report, "profile", "profile", report_string(job->kept_profile), NULL);
  return tool_print(job->tool, report, job->expect_zero && !zero ? TOOL_FAILED : TOOL_DONE);
}

/* ---- the command ---- */

/* A check must not pass because a model fell back to another device: only the first entry of a list counts. */
static int find_device(audit_job *job) {
  tool_state *tool = job->tool;
  const char *list = tool->devices == NULL ? "" : tool->devices[0];
  size_t length = strcspn(list, ",");
  iobind_device *device = NULL;
  int code = tool_first_device(tool, &job->device);
  if (code != TOOL_GO || !job->expect_zero || list[length] == '\0') return code;
  char *first = strndup(list, length);
  if (first == NULL) return tool_fail(tool, "out of memory");
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_runtime_find_device(tool->runtime, first, &device, NULL, &error) != IOBIND_OK) {
    code = tool_fail(tool, "--expect-zero: expected '%s', the first of --device %s, got '%s': %s [%s]", first, list,
                     tool_device_spec(job->device), tool_reason(&error), iobind_status_get_name(error.status));
  }
  free(first);
  return code;
}

/* The profile's file exists as soon as the session does. */
static int open_profile(audit_job *job) {
  DIR *directory = opendir(job->directory);
  for (struct dirent *entry = directory == NULL ? NULL : readdir(directory); entry != NULL; entry = readdir(directory)) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", job->directory, entry->d_name);
    if (entry->d_name[0] != '.' && length < (int)sizeof path) job->profile = open(path, O_RDONLY | O_CLOEXEC);
  }
  if (directory != NULL) closedir(directory);
  return job->profile >= 0 ? TOOL_GO : tool_fail(job->tool, "%s: ONNX Runtime has written no profile there", job->directory);
}

/* With the profile in it; Windows allows that only when the file is closed. */
static void remove_directory(audit_job *job) {
  if (job->directory == NULL) return;
  DIR *directory = opendir(job->directory);
  for (struct dirent *entry = directory == NULL ? NULL : readdir(directory); entry != NULL; entry = readdir(directory)) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", job->directory, entry->d_name);
    if (entry->d_name[0] != '.' && length < (int)sizeof path) remove(path);
  }
  if (directory != NULL) closedir(directory);
  rmdir(job->directory);
}

/* Signals wait until the profile's name is removed, so that nothing is left behind however the process ends. */
static int load(audit_job *job) {
  if (job->tool->wish.profile != NULL) {
    return tool_load(job->tool, job->tool->arguments[0], &job->device, IOBIND_SESSION_PLACEMENT, &job->session);
  }
  file_hold_signals();
  int code = make_directory(job);
  const char *path = job->tool->arguments[0];
  if (code == TOOL_GO) code = tool_load(job->tool, path, &job->device, IOBIND_SESSION_PLACEMENT, &job->session);
  if (code == TOOL_GO) code = open_profile(job);
  remove_directory(job);
  file_release_signals();
  return code;
}

static int bind_model(audit_job *job, char *const *binds) {
  tool_state *tool = job->tool;
  iobind_error error = IOBIND_ERROR_INIT;
  int code = tool_open(tool);
  if (code == TOOL_GO) code = find_device(job);
  if (code == TOOL_GO) code = load(job);
  if (code == TOOL_GO) code = tool_make_inputs(tool, job->session, &job->inputs, &job->input_count);
  if (code != TOOL_GO) return code;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  if (iobind_session_get_info(job->session, &info, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  job->output_count = info.output_count;
  job->cpu = iobind_runtime_get_device(tool->runtime, 0);
  job->hows = calloc(job->input_count + job->output_count + 1, sizeof *job->hows);
  if (job->hows == NULL) return tool_fail(tool, "out of memory");
  for (size_t i = 0; code == TOOL_GO && i < tool_list_length(binds); i++) code = read_bind(job, binds[i]);
  return code == TOOL_GO ? bind_all(job) : code;
}

static int audit(tool_state *tool, char *const *binds, int64_t runs, bool expect_zero) {
  audit_job job = {.tool = tool, .profile = -1, .runs = runs, .expect_zero = expect_zero};
  progress_begin(tool);
  int code = bind_model(&job, binds);
  if (code == TOOL_GO) {
    progress_say("running %s on %s", tool->arguments[0], tool_device_spec(job.device));
    code = run_all(&job);
  }
  if (code == TOOL_GO) code = read_profile(&job);
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    code = report_job(&job, report);
    report_destroy(report);
  }
  iobind_audit_destroy(job.audit);
  iobind_binding_destroy(job.binding);
  tool_free_tensors(job.inputs, job.input_count);
  iobind_session_destroy(job.session);
  if (job.profile >= 0) close(job.profile);
  remove_directory(&job);
  profile_free(job.copies, job.copy_count);
  free(job.moves);
  free(job.hows);
  free(job.directory);
  free(job.prefix);
  return code;
}

int command_audit(int argc, const char **argv) {
  char **binds = NULL;
  char **run_texts = NULL;
  int expect_zero = 0;
  const struct poptOption options[] = {
      {"bind", 'b', POPT_ARG_ARGV, &binds, 0, "How inputs and outputs are bound, or NAME=HOW for one; may be repeated",
       "device|host"},
      {"runs", 'n', POPT_ARG_ARGV, &run_texts, 0, "The number of timed runs (default 10)", "N"},
      {"expect-zero", 0, POPT_ARG_NONE, &expect_zero, 0,
       "Exit with 1 if anything crosses the link, or no node runs on the device", NULL},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "audit",
      .arguments = "MODEL",
      .summary = "Report which bytes each run of a bound model moves, with source, target, reason, and how to avoid it.",
      .notes =
          "HOW of an input is device (default; copied once, when it is bound) or live (on the host, copied before each run).\n"
          "HOW of an output is device (default; in the session's output memory), host or none. `host` without a name binds\n"
          "everything on the host, as a plain run does. TIME is the time of one such copy, measured separately; for copy nodes\n"
          "it is from ONNX Runtime's profile.",
      .takes = TOOL_TAKES_DEVICE | TOOL_TAKES_DIMS | TOOL_TAKES_INPUTS | TOOL_TAKES_SESSION | TOOL_TAKES_RUNS,
      .argument_count = 1,
      .options = options,
  };
  tool_state tool;
  int64_t runs = DEFAULT_RUNS;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = tool_integer(&tool, run_texts, "--runs", 1, MOST_RUNS, &runs);
  if (code == TOOL_GO) code = audit(&tool, binds, runs, expect_zero != 0);
  code = tool_end(&tool, code);
  tool_free_list(binds);
  tool_free_list(run_texts);
  return code;
}
