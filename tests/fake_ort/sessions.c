/* Sessions: made, described, run without a binding. */
#define _POSIX_C_SOURCE 200809L /* mkdir, readdir */
#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "iobind/interop.h"
#include "ort.h"
#include "scenario.h"
#include "../rig/calls.h"

static const char multi[] = "multi"; /* sum = x + x, product = x * x, same = x */
static const char passthrough[] = "passthrough";
static const char strings[] = "passthrough dtype=string";
static const char growing[] = "concat dims=past dims2=new"; /* joined = first and second */

/* ---- made ---- */

/* Files lie in the working directory: runs of this program beside each other each have one of their own. */
static void write_model(const char *spec, const char *path) {
  size_t bytes;
  const void *model = rig_model(spec, &bytes);
  FILE *file = fopen(path, "wb");
  NEED_TRUE(file != NULL && fwrite(model, 1, bytes, file) == bytes && fclose(file) == 0);
}

/* The model in a file, written once. */
static const char *model_file(void) {
  static const char path[] = "fail_each.onnx";
  static bool is_written;
  if (!is_written) {
    write_model(multi, path);
    is_written = true;
  }
  return path;
}

/* The models are made before the call whose allocations are counted. */
static void warm(struct rig *rig) {
  static const char *const models[] = {multi, passthrough, "sequence", growing};
  size_t bytes;
  (void)rig;
  (void)model_file();
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    (void)rig_model(models[i], &bytes);
  }
}

static iobind_status create(struct rig *rig) {
  return iobind_session_create(rig->runtime, model_file(), NULL, &rig->session, &rig->error);
}

static iobind_status create_from_memory(struct rig *rig, const char *model, const iobind_session_options *options) {
  size_t bytes;
  const void *data = rig_model(model, &bytes);
  return iobind_session_create_from_memory(rig->runtime, data, bytes, options, &rig->session, &rig->error);
}

static iobind_status create_on_device(struct rig *rig, const char *model) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &rig->device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  return create_from_memory(rig, model, &options);
}

static iobind_status create_multi(struct rig *rig) {
  return create_on_device(rig, multi);
}

static iobind_status create_passthrough(struct rig *rig) {
  return create_on_device(rig, passthrough);
}

static iobind_status create_sequence(struct rig *rig) {
  return create_on_device(rig, "sequence");
}

static iobind_status create_with_options(struct rig *rig) {
  static const char *const keys[1] = {"session.use_env_allocators"};
  static const char *const values[1] = {"1"};
  static const char *const ep_keys[2] = {"vdev.race", "name_of_none"};
  static const char *const ep_values[2] = {"off", ""};
  static const char *const dims[1] = {"n"};
  static const int64_t dim_values[1] = {RIG_VALUES};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_STRICT | IOBIND_SESSION_PLACEMENT | IOBIND_SESSION_NO_MEMORY_REUSE;
  options.devices = &rig->device;
  options.device_count = 1;
  options.optimization = 1;
  options.intra_op_threads = 1;
  options.inter_op_threads = 1;
  options.config_keys = keys;
  options.config_values = values;
  options.config_count = 1;
  options.ep_keys = ep_keys;
  options.ep_values = ep_values;
  options.ep_option_count = rig->place == ON_VDEV ? 1 : 0;
  options.dim_names = dims;
  options.dim_values = dim_values;
  options.dim_count = 1;
  return create_from_memory(rig, multi, &options);
}

/* `path` NULL: from memory. */
static iobind_status create_verified_of(struct rig *rig, const char *path) {
  static const char *const keys[2] = {"session.use_env_allocators", "session.disable_cpu_ep_fallback"};
  static const char *const values[2] = {"0", "0"};
  static const char *const dims[1] = {"n"};
  static const int64_t dim_values[1] = {RIG_VALUES};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &rig->device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.config_keys = keys;
  options.config_values = values;
  options.config_count = 2;
  options.dim_names = dims;
  options.dim_values = dim_values;
  options.dim_count = 1;
  options.verify.runs = 2;
  return path == NULL ? create_from_memory(rig, multi, &options)
                      : iobind_session_create(rig->runtime, path, &options, &rig->session, &rig->error);
}

static iobind_status create_verified(struct rig *rig) {
  return create_verified_of(rig, NULL);
}

static iobind_status create_verified_file(struct rig *rig) {
  return create_verified_of(rig, model_file());
}

static iobind_status create_by_policy(struct rig *rig) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.policy = IOBIND_POLICY_PREFER_CPU;
  options.intra_op_threads = 1;
  return create_from_memory(rig, multi, &options);
}

static void run_once(struct rig *rig) {
  iobind_tensor *x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
  NEED(rig, call_session_run(rig->session, &x, rig->many, &rig->error));
  iobind_tensor_release(x);
}

static void session_works(struct rig *rig) {
  run_once(rig);
  rig_expect(rig, rig->many[0], rig_twos, RIG_VALUES);
}

static void passthrough_works(struct rig *rig) {
  run_once(rig);
  rig_expect(rig, rig->many[0], rig_ones, RIG_VALUES);
  rig_expect(rig, rig->many[1], rig_twos, RIG_VALUES);
}

/* ---- with a profile, whose file ORT writes at the latest when the session goes ---- */

static const char profiles[] = "profiles";

static void remove_profiles(struct rig *rig) {
  iobind_session_destroy(rig->session);
  rig->session = NULL;
  DIR *directory = opendir(profiles);
  NEED_TRUE(directory != NULL);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char file[300];
    snprintf(file, sizeof file, "%s/%s", profiles, entry->d_name);
    (void)remove(file);
  }
  closedir(directory);
}

static void expect_profile(struct rig *rig) {
  warm(rig);
  (void)mkdir(profiles, 0777);
  rig->end = remove_profiles;
}

static iobind_status create_with_profile(struct rig *rig) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.intra_op_threads = 1;
  options.profile = "profiles/of";
  return create_from_memory(rig, multi, &options);
}

static void make_profile(struct rig *rig) {
  expect_profile(rig);
  NEED(rig, create_with_profile(rig));
}

static iobind_status create_tensor(struct rig *rig) {
  return iobind_session_create_tensor(rig->session, rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, rig_dims, 1,
                                      &rig->result, &rig->error);
}

static void created_tensor_works(struct rig *rig) {
  NEED(rig, iobind_tensor_write(rig->result, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  rig_expect(rig, rig->result, rig_twos, RIG_VALUES);
}

static iobind_status end_profile(struct rig *rig) {
  return iobind_session_end_profile(rig->session, &rig->text, &rig->error);
}

static void profile_is_written(struct rig *rig) {
  FILE *file = fopen(rig->text, "r");
  NEED_TRUE(file != NULL && fclose(file) == 0);
}

/* ---- of other code that uses the same ORT ---- */

const OrtApiBase *OrtGetApiBase(void); /* the fake's */

static struct {
  const OrtApi *api;
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtSession *session;
  size_t deleted;
} foreign;

static void release_foreign(struct rig *rig) {
  iobind_tensor_release(rig->x);
  for (size_t i = 0; i < RIG_TENSORS; i++) {
    iobind_tensor_release(rig->many[i]);
    rig->many[i] = NULL;
  }
  bool was_wrapped = rig->session != NULL;
  iobind_session_destroy(rig->session);
  rig->x = NULL;
  rig->session = NULL;
  foreign.api->ReleaseSession(foreign.session);
  foreign.api->ReleaseSessionOptions(foreign.options);
  foreign.api->ReleaseEnv(foreign.env);
  NEED_TRUE(foreign.deleted == was_wrapped);
}

static void make_foreign(struct rig *rig) {
  size_t bytes;
  const void *model = rig_model(multi, &bytes);
  foreign.api = OrtGetApiBase()->GetApi(ORT_API_OLDEST);
  foreign.deleted = 0;
  NEED_TRUE(foreign.api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "foreign", &foreign.env) == NULL);
  NEED_TRUE(foreign.api->CreateSessionOptions(&foreign.options) == NULL);
  NEED_TRUE(foreign.api->SetIntraOpNumThreads(foreign.options, 1) == NULL);
  NEED_TRUE(foreign.api->CreateSessionFromArray(foreign.env, model, bytes, foreign.options, &foreign.session) == NULL);
  rig->end = release_foreign;
}

static void count_deletion(void *context, void *data) {
  NEED_TRUE(data == foreign.session);
  ++*(size_t *)context;
}

static iobind_status wrap(struct rig *rig) {
  iobind_status status =
      iobind_session_wrap(rig->runtime, foreign.session, count_deletion, &foreign.deleted, &rig->session, &rig->error);
  NEED_TRUE(foreign.deleted == 0);
  return status;
}

/* ---- described ---- */

static void make_multi(struct rig *rig) {
  rig_session(rig, multi);
}

static iobind_status destroy(struct rig *rig) {
  iobind_session_destroy(rig->session);
  rig->session = NULL;
  return IOBIND_OK;
}

static iobind_status get_ort(struct rig *rig) {
  return iobind_session_get_ort(rig->session) != NULL ? IOBIND_OK : IOBIND_ERROR_INTERNAL;
}

static iobind_status get_info(struct rig *rig) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  return iobind_session_get_info(rig->session, &info, &rig->error);
}

static void make_labelled(struct rig *rig) {
  rig_session(rig, "identity labels=cat,dog");
}

static iobind_status get_metadata(struct rig *rig) {
  return iobind_session_get_metadata(rig->session, 0, &rig->text, &rig->text_value, &rig->error);
}

static iobind_status get_input(struct rig *rig) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  return iobind_session_get_input(rig->session, 0, &info, &rig->error);
}

static iobind_status get_output(struct rig *rig) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  return iobind_session_get_output(rig->session, 1, &info, &rig->error);
}

static iobind_status find_input(struct rig *rig) {
  return iobind_session_find_input(rig->session, "x", &rig->number, &rig->error);
}

static iobind_status find_output(struct rig *rig) {
  return iobind_session_find_output(rig->session, "product", &rig->number, &rig->error);
}

static void make_placed(struct rig *rig) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_PLACEMENT;
  options.optimization = 1;
  NEED(rig, create_from_memory(rig, multi, &options));
}

static iobind_status get_node(struct rig *rig) {
  iobind_node_info info = IOBIND_NODE_INFO_INIT;
  return iobind_session_get_node(rig->session, 0, &info, &rig->error);
}

/* ---- run ---- */

static iobind_status run(struct rig *rig) {
  /* after a failure there is nothing to release in them, which the next run would overwrite */
  iobind_status status = call_session_run(rig->session, &rig->x, rig->many, &rig->error);
  for (size_t i = 0; i < 2; i++) {
    NEED_TRUE((rig->many[i] != NULL) == (status == IOBIND_OK));
  }
  return status;
}

/* One output stays on the device, one is not wanted, one is the caller's tensor. */
static iobind_status run_request(struct rig *rig) {
  static const int32_t places[3] = {IOBIND_PLACE_DEVICE, IOBIND_PLACE_NONE, IOBIND_PLACE_HOST};
  iobind_tensor *const targets[3] = {NULL, NULL, rig->y};
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  options.tag = "once";
  request.inputs = &rig->x;
  request.targets = targets;
  request.placements = places;
  request.options = &options;
  for (size_t i = 0; i < 3; i++) {
    iobind_tensor_release(rig->many[i]);
  }
  iobind_status status = call_session_request(rig->session, &request, rig->many, &rig->error);
  for (size_t i = 0; i < 3; i++) {
    NEED_TRUE((rig->many[i] != NULL) == (status == IOBIND_OK && i != 1));
  }
  return status;
}

static void make_multi_and_target(struct rig *rig) {
  make_multi(rig);
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
  rig->y = rig_floats(rig, rig->cpu, rig_twos, RIG_VALUES);
}

static void make_multi_and_x(struct rig *rig) {
  make_multi(rig);
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
}

static void make_verified_and_x(struct rig *rig) {
  NEED(rig, create_verified(rig));
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
}

static void make_verified_file_and_x(struct rig *rig) {
  NEED(rig, create_verified_file(rig));
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
}

static void multi_is_right(struct rig *rig) {
  rig_expect(rig, rig->many[0], rig_twos, RIG_VALUES);
  rig_expect(rig, rig->many[2], rig_ones, RIG_VALUES);
}

static void make_passthrough_and_x(struct rig *rig) {
  rig_session(rig, passthrough);
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
}

/* The result is a copy: it keeps its values while the input changes. */
static void passthrough_is_right(struct rig *rig) {
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  rig_expect(rig, rig->many[0], rig_ones, RIG_VALUES);
}

static void make_strings(struct rig *rig) {
  rig_session(rig, strings);
  rig->x = rig_strings(rig, "first", "second");
}

static void strings_are_right(struct rig *rig) {
  NEED(rig, iobind_tensor_set_string(rig->x, 0, "changed", &rig->error));
  rig_expect_strings(rig, rig->many[0], "first", "second");
}

/* ---- the kinds of its states ---- */

static iobind_status create_identified(struct rig *rig) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.intra_op_threads = 1;
  return create_from_memory(rig, growing, &options);
}

/* From a file that is read by the call. */
static void make_growing(struct rig *rig) {
  static const char path[] = "fail_each_growing.onnx";
  static bool is_written;
  if (!is_written) {
    write_model(growing, path);
    is_written = true;
  }
  NEED(rig, iobind_session_create(rig->runtime, path, NULL, &rig->session, &rig->error));
}

static iobind_status get_state_kind(struct rig *rig) {
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_status status = iobind_session_get_state_kind(rig->session, 0, 0, &info, &rig->error);
  rig->number = (size_t)info.kind;
  return status;
}

static void kind_is_growing(struct rig *rig) {
  NEED(rig, get_state_kind(rig));
  NEED_TRUE(rig->number == IOBIND_STATE_GROWING);
}

#define MAKES(name, of, where, calls, checks)                                                                      \
  {                                                                                                                \
    .function = (name), .variant = (of), .places = (where), .prepare = warm, .call = (calls), .out = OUT(session), \
    .right = (checks)                                                                                              \
  }
#define LOOKS(name, where, prepares, calls) \
  { .function = (name), .variant = "", .places = (where), .prepare = (prepares), .call = (calls) }
#define RUNS(of, where, prepares, checks)                                                                     \
  {                                                                                                           \
    .function = "iobind_session_run", .variant = (of), .places = (where), .prepare = (prepares), .call = run, \
    .right = (checks)                                                                                         \
  }

const struct scenario session_scenarios[] = {
    MAKES("iobind_session_create", "", ON_CPU, create, session_works),
    MAKES("iobind_session_create_from_memory", "", ON_ALL, create_multi, session_works),
    MAKES("iobind_session_create_from_memory", "with options", ON_ALL, create_with_options, session_works),
    MAKES("iobind_session_create_from_memory", "verified", ON_VDEV | ON_STRANGE, create_verified, session_works),
    MAKES("iobind_session_create", "verified", ON_VDEV | ON_STRANGE, create_verified_file, session_works),
    MAKES("iobind_session_create_from_memory", "by policy", ON_CPU, create_by_policy, session_works),
    MAKES("iobind_session_create_from_memory", "passed through", ON_VDEV, create_passthrough, passthrough_works),
    MAKES("iobind_session_create_from_memory", "of a sequence", ON_CPU, create_sequence, NULL),
    MAKES("iobind_session_create_from_memory", "identified", ON_CPU, create_identified, kind_is_growing),
    {.function = "iobind_session_create_from_memory",
     .variant = "with a profile",
     .places = ON_CPU,
     .prepare = expect_profile,
     .call = create_with_profile,
     .out = OUT(session),
     .right = session_works},
    {.function = "iobind_session_end_profile",
     .variant = "",
     .places = ON_CPU,
     .prepare = make_profile,
     .call = end_profile,
     .out = OUT(text),
     .right = profile_is_written},
    {.function = "iobind_session_create_tensor",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_multi,
     .call = create_tensor,
     .out = OUT(result),
     .right = created_tensor_works},
    {.function = "iobind_session_wrap",
     .variant = "",
     .places = ON_CPU,
     .prepare = make_foreign,
     .call = wrap,
     .out = OUT(session),
     .right = session_works},
    {.function = "iobind_session_destroy",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_multi,
     .call = destroy,
     .last = true},
    LOOKS("iobind_session_get_info", ON_CPU, make_multi, get_info),
    LOOKS("iobind_session_get_metadata", ON_CPU, make_labelled, get_metadata),
    LOOKS("iobind_session_get_ort", ON_CPU, make_multi, get_ort),
    LOOKS("iobind_session_get_input", ON_ALL, make_multi, get_input),
    LOOKS("iobind_session_get_output", ON_ALL, make_multi, get_output),
    LOOKS("iobind_session_find_input", ON_CPU, make_multi, find_input),
    LOOKS("iobind_session_find_output", ON_CPU, make_multi, find_output),
    LOOKS("iobind_session_get_node", ON_CPU, make_placed, get_node),
    {.function = "iobind_session_get_state_kind",
     .variant = "",
     .places = ON_CPU,
     .prepare = make_growing,
     .call = get_state_kind,
     .right = kind_is_growing},
    RUNS("", ON_ALL, make_multi_and_x, multi_is_right),
    {.function = "iobind_session_run",
     .variant = "with a target",
     .places = ON_ALL,
     .prepare = make_multi_and_target,
     .call = run_request,
     .right = multi_is_right},
    RUNS("verified", ON_VDEV | ON_STRANGE, make_verified_and_x, multi_is_right),
    RUNS("verified, of a file", ON_VDEV | ON_STRANGE, make_verified_file_and_x, multi_is_right),
    RUNS("passed through", ON_ALL, make_passthrough_and_x, passthrough_is_right),
    RUNS("of strings", ON_CPU, make_strings, strings_are_right),
    {.function = NULL},
};
