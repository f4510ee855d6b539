#define _POSIX_C_SOURCE 200809L /* strdup, strndup, open_memstream */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/file.h"
#include "shared/tool.h"

/* ORT logs on any thread, so one fprintf writes a whole line. */
static void print_log(void *context, int32_t level, const char *message) {
  (void)context;
  static const char *const names[] = {"log", "verbose", "info", "warning", "error"};
  const char *name = level >= 0 && level <= IOBIND_LOG_ERROR ? names[level] : names[0];
  char *line = strdup(message);
  if (line == NULL) return;
  fault_make_line(line);
  fprintf(stderr, "iobind: %s: %s\n", name, line);
  free(line);
}

iobind_status tool_try_open(tool_state *tool, iobind_error *error) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.ort_library = tool->orts == NULL ? NULL : tool->orts[0];
  options.ep_libraries = (const char *const *)tool->ep_libraries;
  options.ep_library_count = tool_list_length(tool->ep_libraries);
  if (tool->verbosity > 0) {
    options.log = print_log;
    options.log_level = tool->verbosity > 1 ? IOBIND_LOG_VERBOSE : IOBIND_LOG_INFO;
  }
  progress_say("loading ONNX Runtime");
  return iobind_runtime_create(&options, &tool->runtime, error);
}

/* Is --ep-library the reason of a failure? Then ONNX Runtime opens without it. The status does not show the reason. */
static bool opens_without_ep_libraries(const tool_state *tool) {
  if (tool->ep_libraries == NULL) return false;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  options.ort_library = tool->orts == NULL ? NULL : tool->orts[0];
  iobind_runtime *runtime = NULL;
  bool opens = iobind_runtime_create(&options, &runtime, NULL) == IOBIND_OK;
  iobind_runtime_destroy(runtime);
  return opens;
}

int tool_fail_open(const tool_state *tool, const iobind_error *error) {
  const char *status = iobind_status_get_name(error->status);
  if (opens_without_ep_libraries(tool)) {
    return tool_fail(tool, "--ep-library: %s [%s]; name the library of an EP, or a directory that has some", tool_reason(error),
                     status);
  }
  bool library =
      error->status == IOBIND_ERROR_NOT_FOUND || error->status == IOBIND_ERROR_VERSION || error->status == IOBIND_ERROR_RUNTIME;
  if (!library) return tool_fail_error(tool, NULL, error);
  return tool_fail(tool, "%s [%s]; name ONNX Runtime's library, or its directory, by --ort or ORT_NATIVE_LIB_PATH",
                   tool_reason(error), status);
}

int tool_open(tool_state *tool) {
  iobind_error error = IOBIND_ERROR_INIT;
  return tool_try_open(tool, &error) == IOBIND_OK ? TOOL_GO : tool_fail_open(tool, &error);
}

/* "SPEC?KEY=VALUE&..." with the options of --ep-option; malloc'ed; NULL: no memory. */
static char *add_options(const tool_state *tool, const char *spec) {
  const wish_pairs *options = &tool->wish.ep_options;
  size_t name = strcspn(spec, ":/");
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  if (file == NULL) return NULL;
  fputs(spec, file);
  for (size_t i = 0; i < options->count; i++) {
    const char *key = options->keys[i];
    if (strncmp(key, spec, name) == 0 && key[name] == '.') key += name + 1;
    fprintf(file, "%c%s=%s", i == 0 ? '?' : '&', key, options->values[i]);
  }
  if (fclose(file) == 0) return text;
  free(text);
  return NULL;
}

/* An EP may need an option to work: a device that does not work without those of --ep-option is tried with them. */
static iobind_status find_device(tool_state *tool, const char *spec, iobind_device **device, iobind_error *error) {
  iobind_status status = iobind_runtime_find_device(tool->runtime, spec, device, NULL, error);
  if (status != IOBIND_ERROR_WRONG_DEVICE || tool->wish.ep_options.count == 0 || strpbrk(spec, "?,") != NULL) return status;
  char *longer = add_options(tool, spec);
  if (longer != NULL && iobind_runtime_find_device(tool->runtime, longer, device, NULL, NULL) == IOBIND_OK) status = IOBIND_OK;
  free(longer);
  return status;
}

int tool_find_device(tool_state *tool, const char *option, const char *spec, iobind_device **device) {
  iobind_error error = IOBIND_ERROR_INIT;
  progress_say("starting %s", spec);
  iobind_status status = find_device(tool, spec, device, &error);
  if (status == IOBIND_OK) return TOOL_GO;
  if (status == IOBIND_ERROR_INVALID_ARGUMENT) return tool_misuse(tool, "%s: %s", option, tool_reason(&error));
  return tool_fail(tool, "%s: %s [%s]; `iobind doctor` shows which devices work, and why others do not", option,
                   tool_reason(&error), iobind_status_get_name(error.status));
}

int tool_first_device(tool_state *tool, iobind_device **device) {
  if (tool->devices != NULL) return tool_find_device(tool, "--device", tool->devices[0], device);
  *device = iobind_runtime_get_device(tool->runtime, 0);
  return *device != NULL ? TOOL_GO : tool_fail(tool, "ONNX Runtime offers no device, not even the CPU");
}

/* A file that cannot be a model is reported here: ORT's message would be about protobuf. */
static int check_model(const tool_state *tool, const char *path) {
  tool_fault fault;
  uint64_t size = 0;
  int descriptor = file_open(path, &size, &fault);
  if (descriptor < 0) return tool_fail(tool, "%s", fault.text);
  close(descriptor);
  if (size == 0) return tool_fail(tool, "%s: expected an ONNX model, got an empty file", path);
  return TOOL_GO;
}

static int check_dim_names(const tool_state *tool, const iobind_session *session) {
  for (size_t i = 0; i < tool->dim_count; i++) {
    iobind_error error = IOBIND_ERROR_INIT;
    size_t unused = 0;
    if (tool->dims[i].axis < 0) continue;
    if (iobind_session_find_input(session, tool->dims[i].name, &unused, &error) != IOBIND_OK) {
      return tool_fail_error(tool, "--dim", &error);
    }
  }
  return TOOL_GO;
}

/* The device that a policy has chosen: that of the first input or output in other memory than the host's, or else the CPU. */
static iobind_device *device_of(const tool_state *tool, const iobind_session *session) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  for (size_t i = 0; iobind_session_get_input(session, i, &value, NULL) == IOBIND_OK; i++) {
    if (value.device != NULL && !tool_is_host(value.device)) return value.device;
  }
  for (size_t i = 0; iobind_session_get_output(session, i, &value, NULL) == IOBIND_OK; i++) {
    if (value.device != NULL && !tool_is_host(value.device)) return value.device;
  }
  return iobind_runtime_get_device(tool->runtime, 0);
}

/* The EP, by its name in the catalogue, whose option of --ep-option an error names. False: none, or its options are unknown. */
static bool find_ep_of_error(const tool_state *tool, const iobind_device *device, const iobind_error *error, char name[64]) {
  for (size_t i = 0; i < tool->wish.ep_options.count; i++) {
    const char *key = tool->wish.ep_options.keys[i];
    const char *dot = strchr(key, '.');
    const char *ep = dot != NULL ? key : device != NULL ? tool_device_spec(device) : "";
    char quoted[128];
    snprintf(quoted, sizeof quoted, "option '%.80s'", dot != NULL ? dot + 1 : key);
    snprintf(name, 64, "%.*s", (int)strcspn(ep, ".:"), ep);
    iobind_option_info option = IOBIND_OPTION_INFO_INIT;
    if (strstr(error->message, quoted) == NULL) continue;
    if (iobind_catalogue_get_option(name, 0, &option, NULL) == IOBIND_OK) return true;
  }
  return false;
}

static int fail_session(const tool_state *tool, const char *subject, const iobind_device *device, const iobind_error *error) {
  char ep[64];
  if (!find_ep_of_error(tool, device, error, ep)) return tool_fail_error(tool, subject, error);
  return tool_fail(tool, "%s%s%s [%s]; `iobind options %s` lists the options", subject == NULL ? "" : subject,
                   subject == NULL ? "" : ": ", tool_reason(error), iobind_status_get_name(error->status), ep);
}

typedef struct model_source {
  const char *path;
  const void *model; /* its bytes; NULL: read the file */
  size_t bytes;
} model_source;

/* `options` has what the command needs; the command line's options are added. */
static int create_session(tool_state *tool, model_source from, iobind_session_options options, iobind_device **device,
                          iobind_session **session) {
  int code = TOOL_GO;
  const char **names = calloc(tool->dim_count + 1, sizeof *names);
  int64_t *values = calloc(tool->dim_count + 1, sizeof *values);
  iobind_error error = IOBIND_ERROR_INIT;
  if (names == NULL || values == NULL) {
    code = tool_fail(tool, "out of memory");
  } else {
    for (size_t i = 0; i < tool->dim_count; i++) {
      if (tool->dims[i].axis >= 0) continue;
      names[options.dim_count] = tool->dims[i].name;
      values[options.dim_count++] = tool->dims[i].value;
    }
    wish_apply(&tool->wish, &options);
    options.verify.runs = tool->verify;
    bool chosen = options.policy != IOBIND_POLICY_NONE; /* by ONNX Runtime */
    options.devices = chosen ? NULL : device;
    options.device_count = chosen ? 0 : 1;
    options.dim_names = names;
    options.dim_values = values;
    progress_say("loading %s%s%s", from.path, chosen ? "" : " on ", chosen ? "" : tool_device_spec(*device));
    iobind_status status = from.model == NULL ? iobind_session_create(tool->runtime, from.path, &options, session, &error)
                                              : iobind_session_create_from_memory(tool->runtime, from.model, from.bytes,
                                                                                  &options, session, &error);
    if (status != IOBIND_OK) {
      code = fail_session(tool, options.graph_limit > 0 ? "--graph" : NULL, chosen ? NULL : *device, &error);
    }
    if (code == TOOL_GO && chosen) *device = device_of(tool, *session);
    if (code == TOOL_GO) tool->clock = clock_of(*device);
    if (code == TOOL_GO) tool->launches = launches_of(*device);
    if (code == TOOL_GO) code = check_dim_names(tool, *session);
  }
  free(names);
  free(values);
  return code;
}

int tool_load(tool_state *tool, const char *path, iobind_device **device, uint32_t flags, iobind_session **session) {
  *session = NULL;
  int code = check_model(tool, path);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = flags;
  options.profile = tool->profile;
  return code == TOOL_GO ? create_session(tool, (model_source){.path = path}, options, device, session) : code;
}

int tool_load_captured(tool_state *tool, const char *path, iobind_device **device, size_t limit, iobind_session **session) {
  *session = NULL;
  int code = check_model(tool, path);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.graph_limit = limit;
  return code == TOOL_GO ? create_session(tool, (model_source){.path = path}, options, device, session) : code;
}

int tool_load_bytes(tool_state *tool, const char *path, const void *model, size_t bytes, iobind_device **device,
                    iobind_session **session) {
  static const char *const key = "session.model_external_initializers_file_folder_path";
  *session = NULL;
  size_t length = (size_t)(file_name(path) - path);
  char *directory = length == 0 ? strdup(".") : strndup(path, length);
  if (directory == NULL) return tool_fail(tool, "out of memory");
  const char *value = directory;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.config_keys = &key;
  options.config_values = &value;
  options.config_count = 1;
  int code = create_session(tool, (model_source){path, model, bytes}, options, device, session);
  free(directory);
  return code;
}

iobind_status tool_run(iobind_session *session, iobind_tensor *const *inputs, size_t input_count, iobind_tensor **outputs,
                       size_t output_count, iobind_error *error) {
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = input_count == 0 ? NULL : inputs;
  request.input_count = input_count;
  return iobind_session_run(session, &request, outputs, output_count, error);
}

int tool_end_profile(const tool_state *tool, iobind_session *session, const char **path) {
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_end_profile(session, path, &error) != IOBIND_OK) return tool_fail_error(tool, "--profile", &error);
  if (access(*path, F_OK) != 0) { /* ORT reports no error if it cannot create the file */
    return tool_fail(tool, "--profile: ONNX Runtime has not written %s: can a file be created in its directory?", *path);
  }
  return TOOL_GO;
}

int tool_report_profile(const tool_state *tool, iobind_session *session, tool_report *report) {
  const char *path = NULL;
  if (tool->wish.profile == NULL) return TOOL_GO;
  int code = tool_end_profile(tool, session, &path);
  if (code == TOOL_GO) report_field(report, "profile", "profile", report_string(path), NULL);
  return code;
}

void tool_report_clock(const tool_state *tool, tool_report *report) {
  bool modelled = tool->clock.read != NULL;
  report_field(report, "clock", modelled ? "clock" : NULL, json_string(modelled ? "virtual" : "real"),
               "virtual: only the device's work takes time, which is modelled");
}

size_t tool_idle_nodes(const iobind_session *session) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  if (iobind_session_get_info(session, &info, NULL) != IOBIND_OK) return 0;
  return info.device_node_count == 0 ? info.node_count : 0;
}

const char *tool_device_spec(const iobind_device *device) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (device == NULL || iobind_device_get_info(device, &info, NULL) != IOBIND_OK) return "?";
  return info.spec;
}

bool tool_is_host(const iobind_device *device) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  return iobind_device_get_info(device, &info, NULL) == IOBIND_OK && (info.flags & IOBIND_DEVICE_HOST_MEMORY) != 0;
}
