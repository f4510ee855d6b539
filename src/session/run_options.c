/* The options of a run, checked and translated into ORT's. */
#include <string.h>

#include "session/session.h"
#include "support/options.h"

static iobind_status fill_run_options(const OrtApi *api, const iobind_run_options *options, const char *graph,
                                      OrtRunOptions *out, const char *what, iobind_error *error) {
  if (graph != NULL) {
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(out, IOBIND__GRAPH_ID, graph), error, "%s", what);
  }
  if (options->log_level != IOBIND_LOG_DEFAULT) {
    IOBIND__ORT_TRY(api, api->RunOptionsSetRunLogSeverityLevel(out, (int)iobind__log_ort_level(options->log_level)), error,
                    "%s", what);
  }
  if (options->tag != NULL) {
    IOBIND__ORT_TRY(api, api->RunOptionsSetRunTag(out, options->tag), error, "%s", what);
  }
  for (size_t i = 0; i < options->config_count; i++) {
    if (strcmp(options->config_keys[i], IOBIND__GRAPH_ID) == 0) {
      continue; /* `graph` sets it */
    }
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(out, options->config_keys[i], options->config_values[i]), error,
                    "%s: config entry '%s'", what, options->config_keys[i]);
  }
  return IOBIND_OK;
}

static iobind_status check(const iobind_session *session, const iobind_run_options *options, const char *what,
                           iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags, 0, what, error));
  if (options->log_level < IOBIND_LOG_DEFAULT || options->log_level > IOBIND_LOG_ERROR) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: log_level: expected 0 .. %d, got %d", what, IOBIND_LOG_ERROR,
                        options->log_level);
  }
  bool lists = options->config_keys != NULL && options->config_values != NULL;
  for (size_t i = 0; i < options->config_count; i++) {
    if (!lists || options->config_keys[i] == NULL || options->config_values[i] == NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: config key or value %zu is NULL", what, i);
    }
    if (strcmp(options->config_keys[i], IOBIND__UNSYNCHRONIZED) == 0) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "%s: config entry '%s' is refused: a run without a stream is complete when it "
                          "returns; run on a stream instead",
                          what, IOBIND__UNSYNCHRONIZED);
    }
    if (strcmp(options->config_keys[i], IOBIND__GRAPH_ID) == 0 && strcmp(options->config_values[i], IOBIND__NO_GRAPH) != 0) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "%s: config entry '" IOBIND__GRAPH_ID "': expected " IOBIND__NO_GRAPH
                          " (no graph), got '%.32s': iobind numbers graphs itself; create the session with graph_limit",
                          what, options->config_values[i]);
    }
    if (session->graphs.limit > 0 && strcmp(options->config_keys[i], "memory.enable_memory_arena_shrinkage") == 0) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "%s: config entry '%s' is refused: the session captures graphs, which still use the memory that would be released",
          what, options->config_keys[i]);
    }
  }
  return IOBIND_OK;
}

bool iobind__run_options_want_no_graph(const iobind_run_options *options) {
  bool found = false;
  for (size_t i = 0; i < options->config_count; i++) {
    found = found || strcmp(options->config_keys[i], IOBIND__GRAPH_ID) == 0;
  }
  return found;
}

iobind_status iobind__run_options_read(const iobind_session *session, const iobind_run_options *given, const char *what,
                                       iobind_run_options *out, iobind_error *error) {
  IOBIND__TRY(IOBIND__OPTIONS_READ(out, given, what, error));
  return check(session, out, what, error);
}

iobind_status iobind__run_options_translate(const OrtApi *api, const iobind_run_options *options, const char *graph,
                                            const char *what, OrtRunOptions **out, iobind_error *error) {
  IOBIND__ORT_TRY(api, api->CreateRunOptions(out), error, "%s", what);
  iobind_status status = fill_run_options(api, options, graph, *out, what, error);
  if (status != IOBIND_OK) {
    api->ReleaseRunOptions(*out);
    *out = NULL;
  }
  return status;
}
