/* Checks a session's options, and translates them into ORT's. */
#include <stdlib.h>
#include <string.h>

#include "session/create.h"
#include "session/protobuf.h"
#include "support/system.h"

/* As many as the largest machines have hardware threads. ORT creates them one by one, and each is busy from then on: with two
 * cores this many take some 20 seconds, and with a much larger number, set by mistake, ORT never returns. */
enum { MOST_THREADS = 1024 };

/* Is the CPU one of the requested devices? It is if none was requested. */
static bool names_cpu(const iobind_session_options *options) {
  bool named = options->device_count == 0 && options->policy == IOBIND_POLICY_NONE;
  for (size_t i = 0; i < options->device_count; i++) {
    named = named || options->devices[i] == options->devices[i]->runtime->cpu;
  }
  return named;
}

bool iobind__session_lists_nodes(const iobind_session_options *options) {
  bool lists = (options->flags & IOBIND_SESSION_PLACEMENT) != 0;
  for (size_t i = 0; options->graph_limit == 0 && i < options->device_count; i++) {
    const iobind_device *device = options->devices[i];
    lists = lists || (device != device->runtime->cpu && !iobind__device_has(device, IOBIND__QUIRK_HIDES_NODES));
  }
  return lists;
}

static iobind_status set_profile(const OrtApi *api, const char *profile, OrtSessionOptions *out, iobind_error *error) {
  iobind__path_char *native = iobind__path_native(profile);
  OrtStatus *enabled = native == NULL ? NULL : api->EnableProfiling(out, native);
  free(native);
  if (native == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  IOBIND__ORT_TRY(api, enabled, error, "session_create: profile");
  return IOBIND_OK;
}

static iobind_status set_lists(const OrtApi *api, const iobind_session_options *options, OrtSessionOptions *out,
                               iobind_error *error) {
  for (size_t i = 0; i < options->config_count; i++) {
    IOBIND__ORT_TRY(api, api->AddSessionConfigEntry(out, options->config_keys[i], options->config_values[i]), error,
                    "session_create: config entry '%s'", options->config_keys[i]);
  }
  for (size_t i = 0; i < options->dim_count; i++) {
    IOBIND__ORT_TRY(api, api->AddFreeDimensionOverrideByName(out, options->dim_names[i], options->dim_values[i]), error,
                    "session_create: dim '%s'", options->dim_names[i]);
  }
  return IOBIND_OK;
}

static iobind_status set_plain(const OrtApi *api, const iobind_session_options *options, OrtSessionOptions *out,
                               iobind_error *error) {
  static const GraphOptimizationLevel levels[] = {ORT_ENABLE_ALL, ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED,
                                                  ORT_ENABLE_LAYOUT};
  IOBIND__ORT_TRY(api, api->SetSessionGraphOptimizationLevel(out, levels[options->optimization]), error, "session_create");
  if (options->intra_op_threads > 0) {
    IOBIND__ORT_TRY(api, api->SetIntraOpNumThreads(out, options->intra_op_threads), error, "session_create");
  }
  if (options->inter_op_threads > 0) {
    IOBIND__ORT_TRY(api, api->SetInterOpNumThreads(out, options->inter_op_threads), error, "session_create");
  }
  IOBIND__TRY(options->profile != NULL ? set_profile(api, options->profile, out, error) : IOBIND_OK);
  if ((options->flags & IOBIND_SESSION_NO_MEMORY_REUSE) != 0) {
    IOBIND__ORT_TRY(api, api->AddSessionConfigEntry(out, "session.enable_mem_reuse", "0"), error, "session_create");
    IOBIND__ORT_TRY(api, api->DisableMemPattern(out), error, "session_create");
  }
  if ((options->flags & IOBIND_SESSION_STRICT) != 0 && !names_cpu(options)) {
    IOBIND__ORT_TRY(api, api->AddSessionConfigEntry(out, "session.disable_cpu_ep_fallback", "1"), error, "session_create");
  }
  if (iobind__session_lists_nodes(options)) {
    IOBIND__ORT_TRY(api, api->AddSessionConfigEntry(out, "session.record_ep_graph_assignment_info", "1"), error,
                    "session_create");
  }
  IOBIND__TRY(set_lists(api, options, out, error));
  if (options->policy != IOBIND_POLICY_NONE) {
    /* ours is ORT's plus one, because 0 means none */
    IOBIND__ORT_TRY(api, api->SessionOptionsSetEpSelectionPolicy(out, (OrtExecutionProviderDevicePolicy)(options->policy - 1)),
                    error, "session_create: policy");
  }
  return IOBIND_OK;
}

/* ORT passes each entry "ep.cuda.KEY" to CUDA's EP as an option, even those that only its kernels read, and the EP ends the process
 * over a key or value that it does not accept. */
static iobind_status check_config_key(const char *key, iobind_error *error) {
  static const char prefix[] = "ep.";
  IOBIND__TRY(iobind__session_check_graph_key("config entry", key, error));
  const char *name = strncmp(key, prefix, strlen(prefix)) == 0 ? key + strlen(prefix) : "";
  const char *rest;
  const iobind__ep *ep = iobind__ep_of_option(name, &rest);
  if (ep == NULL || !ep->bridged) {
    return IOBIND_OK;
  }
  if (iobind__option_find(ep->options, rest) != NULL) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_ARGUMENT,
        "session_create: config entry '%s': expected the EP option '%s', which iobind checks before ONNX Runtime "
        "sees it",
        key, name);
  }
  return iobind__fail(
      error, IOBIND_ERROR_INVALID_ARGUMENT,
      "session_create: config entry '%s': ONNX Runtime would pass it to the EP as an option, which iobind does not know and "
      "because of which the EP may end the process: leave it out",
      key);
}

static iobind_status check_lists(const iobind_session_options *options, iobind_error *error) {
  const struct {
    const char *name;
    const char *const *keys;
    bool has_values;
    size_t count;
  } lists[] = {{"ep", options->ep_keys, options->ep_values != NULL, options->ep_option_count},
               {"config", options->config_keys, options->config_values != NULL, options->config_count},
               {"dim", options->dim_names, options->dim_values != NULL, options->dim_count}};
  for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
    if (lists[l].count > 0 && (lists[l].keys == NULL || !lists[l].has_values)) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "session_create: %s keys or values are NULL, their count is %zu", lists[l].name, lists[l].count);
    }
    for (size_t i = 0; i < lists[l].count; i++) {
      if (lists[l].keys[i] == NULL || (l == 0 && options->ep_values[i] == NULL) ||
          (l == 1 && options->config_values[i] == NULL)) {
        return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "session_create: %s key or value %zu: expected a string, got NULL", lists[l].name, i);
      }
    }
  }
  for (size_t i = 0; i < options->config_count; i++) {
    IOBIND__TRY(check_config_key(options->config_keys[i], error));
  }
  for (size_t i = 0; i < options->dim_count; i++) {
    if (options->dim_values[i] < 0) {
      return iobind__fail(error, IOBIND_ERROR_SHAPE, "session_create: dim '%s': expected 0 or more, got %lld",
                          options->dim_names[i], (long long)options->dim_values[i]);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__session_options_check(iobind_runtime *runtime, const iobind_session_options *options,
                                            iobind_error *error) {
  IOBIND__TRY(check_lists(options, error));
  IOBIND__TRY(iobind__verify_check(&options->verify, error));
  if (options->optimization < 0 || options->optimization > 4 || options->policy < IOBIND_POLICY_NONE ||
      options->policy > IOBIND_POLICY_MIN_POWER) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: expected optimization 0 .. 4 and policy 0 .. %d, got %d and %d",
                        IOBIND_POLICY_MIN_POWER, options->optimization, options->policy);
  }
  if (options->intra_op_threads < 0 || options->intra_op_threads > MOST_THREADS || options->inter_op_threads < 0 ||
      options->inter_op_threads > MOST_THREADS) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: expected intra_op_threads and inter_op_threads of 0 .. %d, got %d and %d",
                        MOST_THREADS, options->intra_op_threads, options->inter_op_threads);
  }
  if (options->device_count > 0 && (options->devices == NULL || options->policy != IOBIND_POLICY_NONE)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: %s",
                        options->devices == NULL ? "devices is NULL, device_count is not 0"
                                                 : "expected devices or a policy, got both");
  }
  for (size_t i = 0; i < options->device_count; i++) {
    if (options->devices[i] == NULL || options->devices[i]->runtime != runtime) {
      return options->devices[i] == NULL
                 ? iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: devices[%zu] is NULL", i)
                 : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "session_create: device '%s' is of another runtime",
                                options->devices[i]->spec);
    }
    for (size_t j = 0; j < i; j++) {
      if (options->devices[j] == options->devices[i]) {
        return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: device '%s' is passed twice",
                            options->devices[i]->spec);
      }
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__session_options_build(iobind_runtime *runtime, const iobind_session_options *options,
                                            OrtSessionOptions **out, iobind_error *error) {
  const OrtApi *api = IOBIND__API(runtime);
  IOBIND__ORT_TRY(api, api->CreateSessionOptions(out), error, "session_create");
  iobind_status status = set_plain(api, options, *out, error);
  if (status == IOBIND_OK) {
    status = iobind__session_append_eps(runtime, options, *out, error);
  }
  if (status == IOBIND_OK) {
    status = iobind__session_check_user_streams(options, error);
  }
  if (status != IOBIND_OK) {
    api->ReleaseSessionOptions(*out);
    *out = NULL;
  }
  return status;
}

/* ---- free dimension overrides: does the model have an open dim of that name? ORT ignores an override of any other name ---- */

/* The path from the model to the names of its inputs' dims: graph, input, type, tensor type, shape, dim, dim_param. */
static const uint64_t dim_path[] = {7, 11, 2, 1, 2, 1, 2};
enum { DIM_DEPTH = sizeof dim_path / sizeof dim_path[0] };

/* Look for the name along the path, in the message between two offsets. */
static bool find_name(iobind__model_bytes *model, uint64_t offset, uint64_t end, int depth, const char *name) {
  iobind__field field;
  while (iobind__model_next(model, &offset, end, &field)) {
    if (!field.is_message || field.number != dim_path[depth]) {
      continue;
    }
    char found[256];
    bool is_here = depth + 1 < DIM_DEPTH ? find_name(model, field.offset, field.offset + field.length, depth + 1, name)
                                         : iobind__model_text(model, &field, found, sizeof found) && strcmp(found, name) == 0;
    if (is_here) {
      return true;
    }
  }
  return false;
}

iobind_status iobind__session_check_dims(const iobind_session_options *options, const iobind__source *from,
                                         iobind_error *error) {
  if (options->dim_count == 0 || options->dim_names == NULL) {
    return IOBIND_OK;
  }
  iobind__model_bytes model;
  iobind_status status = IOBIND_OK;
  IOBIND__TRY(iobind__model_open(&model, from, error));
  for (size_t i = 0; i < options->dim_count && status == IOBIND_OK && !iobind__model_is_ort_format(&model); i++) {
    const char *name = options->dim_names[i]; /* the check of the lists refuses NULL */
    model.sound = true;
    /* ORT refuses what is not a model */
    if (name != NULL && !find_name(&model, 0, model.size, 0, name) && model.sound) {
      status = iobind__fail(error, IOBIND_ERROR_NOT_FOUND,
                            "session_create: dim '%s': no input of the model has an open dim of that name", name);
    }
  }
  iobind__model_close(&model);
  return status;
}
