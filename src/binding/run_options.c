/* The options of a binding's runs: made once, so that a run only hands them over. */
#include <string.h>

#include "binding/table.h"
#include "support/options.h"

static iobind_status fill_run_options(const OrtApi *api, const iobind_run_options *options, OrtRunOptions *out,
                                      iobind_error *error) {
  if (options->log_level != IOBIND_LOG_DEFAULT) {
    IOBIND__ORT_TRY(api, api->RunOptionsSetRunLogSeverityLevel(out, (int)iobind__log_ort_level(options->log_level)), error,
                    "binding_set_run_options");
  }
  if (options->tag != NULL) {
    IOBIND__ORT_TRY(api, api->RunOptionsSetRunTag(out, options->tag), error, "binding_set_run_options");
  }
  for (size_t i = 0; i < options->config_count; i++) {
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(out, options->config_keys[i], options->config_values[i]), error,
                    "binding_set_run_options: config entry '%s'", options->config_keys[i]);
  }
  return IOBIND_OK;
}

/* ORT's entry that makes a run return before its work is done. */
static const char unsynchronized[] = "disable_synchronize_execution_providers";

static iobind_status check_run_options(const iobind_run_options *options, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags, 0, "binding_set_run_options", error));
  if (options->log_level < IOBIND_LOG_DEFAULT || options->log_level > IOBIND_LOG_ERROR) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_run_options: log_level: expected 0 .. %d, got %d",
                        IOBIND_LOG_ERROR, options->log_level);
  }
  bool lists = options->config_keys != NULL && options->config_values != NULL;
  for (size_t i = 0; i < options->config_count; i++) {
    if (!lists || options->config_keys[i] == NULL || options->config_values[i] == NULL) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_run_options: config key or value %zu is NULL", i);
    }
    if (strcmp(options->config_keys[i], unsynchronized) == 0) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                          "binding_set_run_options: config entry '%s' is not the caller's: a run without a stream has finished "
                          "when it returns; give the run a stream",
                          unsynchronized);
    }
  }
  return IOBIND_OK;
}

static iobind_status make_run_options(const OrtApi *api, const iobind_run_options *options, OrtRunOptions **out,
                                      iobind_error *error) {
  IOBIND__ORT_TRY(api, api->CreateRunOptions(out), error, "binding_set_run_options");
  iobind_status status = fill_run_options(api, options, *out, error);
  if (status != IOBIND_OK) {
    api->ReleaseRunOptions(*out);
    *out = NULL;
  }
  return status;
}

/* On an EP's stream ORT must not wait at the end of a run. */
static iobind_status make_stream_run_options(const OrtApi *api, const iobind_run_options *options, OrtRunOptions **out,
                                             iobind_error *error) {
  IOBIND__TRY(make_run_options(api, options, out, error));
  OrtStatus *status = api->AddRunConfigEntry(*out, unsynchronized, "1");
  if (status != NULL) {
    api->ReleaseRunOptions(*out);
    *out = NULL;
    return iobind__ort_fail(api, status, error, "binding_set_run_options");
  }
  return IOBIND_OK;
}

void iobind__run_options_free(iobind_binding *binding) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  if (binding->run_options != NULL) {
    api->ReleaseRunOptions(binding->run_options);
  }
  if (binding->stream_run_options != NULL) {
    api->ReleaseRunOptions(binding->stream_run_options);
  }
}

iobind_status iobind__run_options_replace(iobind_binding *binding, const iobind_run_options *options, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  OrtRunOptions *run_options = NULL;
  OrtRunOptions *stream_run_options = NULL;
  IOBIND__TRY(make_run_options(api, options, &run_options, error));
  iobind_status status =
      binding->session->takes_stream ? make_stream_run_options(api, options, &stream_run_options, error) : IOBIND_OK;
  if (status != IOBIND_OK) {
    api->ReleaseRunOptions(run_options);
    return status;
  }
  iobind__run_options_free(binding);
  binding->run_options = run_options;
  binding->stream_run_options = stream_run_options;
  return IOBIND_OK;
}

iobind_status iobind_binding_set_run_options(iobind_binding *binding, const iobind_run_options *given, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_run_options: binding is NULL");
  }
  iobind_run_options options;
  IOBIND__TRY(iobind__options_read(&options, sizeof options, sizeof options, given, "binding_set_run_options", error));
  IOBIND__TRY(check_run_options(&options, error));
  IOBIND__TRY(iobind__process_check("binding_set_run_options", error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_set_run_options", error));
  return iobind__run_options_replace(binding, &options, error);
}
