/* The options of a binding's runs: checked, translated into ORT's, and created once, so that a run only passes them on. */
#include <stdlib.h>
#include <string.h>

#include "binding/table.h"
#include "support/options.h"

/* ---- checked, and translated into ORT's ---- */

/* ORT's run config entry that makes a run return before its work is complete. */
static const char unsynchronized[] = "disable_synchronize_execution_providers";

/* On an EP's stream (`is_queued`) ORT must not wait at the end of a run. */
static iobind_status fill(const OrtApi *api, const iobind_run_options *options, const char *graph, bool is_queued,
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
  if (is_queued) {
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(out, unsynchronized, "1"), error, "%s", what);
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
    if (strcmp(options->config_keys[i], unsynchronized) == 0) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "%s: config entry '%s' is refused: a run without a stream is complete when it "
                          "returns; run on a stream instead",
                          what, unsynchronized);
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

static iobind_status translate(const OrtApi *api, const iobind_run_options *options, const char *graph, bool is_queued,
                               const char *what, OrtRunOptions **out, iobind_error *error) {
  IOBIND__ORT_TRY(api, api->CreateRunOptions(out), error, "%s", what);
  iobind_status status = fill(api, options, graph, is_queued, *out, what, error);
  if (status != IOBIND_OK) {
    api->ReleaseRunOptions(*out);
    *out = NULL;
  }
  return status;
}

/* ---- copies of the caller's options, for runs with the number of a graph ---- */

static void free_words(iobind__run_words *words) {
  for (size_t i = 0; words->texts != NULL && i < words->count; i++) {
    free(words->texts[i]);
  }
  free(words->texts);
  *words = (iobind__run_words){0};
}

static iobind_status copy_words(const iobind_run_options *options, iobind__run_words *out, iobind_error *error) {
  size_t count = options->config_count;
  iobind__run_words words = {.options = *options, .texts = calloc(2 * count + 1, sizeof(char *)), .count = 2 * count + 1};
  bool whole = words.texts != NULL;
  for (size_t i = 0; whole && i < words.count; i++) {
    const char *text = i == 2 * count ? options->tag : i < count ? options->config_keys[i] : options->config_values[i - count];
    words.texts[i] = text == NULL ? NULL : iobind__string_copy(text);
    whole = text == NULL || words.texts[i] != NULL;
  }
  if (!whole) {
    free_words(&words);
    return iobind__out_of_memory(error, "binding_set_run_options");
  }
  words.options.tag = words.texts[2 * count];
  words.options.config_keys = (const char *const *)words.texts;
  words.options.config_values = (const char *const *)words.texts + count;
  *out = words;
  return IOBIND_OK;
}

void iobind__ort_options_release(const iobind_session *session, iobind__ort_options *self) {
  const OrtApi *api = IOBIND__API(session->runtime);
  if (self->now != NULL) {
    api->ReleaseRunOptions(self->now);
  }
  if (self->queued != NULL) {
    api->ReleaseRunOptions(self->queued);
  }
  *self = (iobind__ort_options){NULL, NULL};
}

iobind_status iobind__ort_options_make(const iobind_session *session, const iobind_run_options *options, const char *graph,
                                       const char *what, iobind__ort_options *out, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind__ort_options made = {NULL, NULL};
  IOBIND__TRY(translate(api, options, graph, false, what, &made.now, error));
  iobind_status status = iobind__compute_takes_stream(&session->compute)
                             ? translate(api, options, graph, true, what, &made.queued, error)
                             : IOBIND_OK;
  if (status != IOBIND_OK) {
    iobind__ort_options_release(session, &made);
    return status;
  }
  *out = made;
  return IOBIND_OK;
}

void iobind__run_options_free(iobind_binding *binding) {
  iobind__ort_options_release(binding->session, &binding->settings.ort);
  free_words(&binding->settings.words);
}

/* Replace the copy, from which the options for graphs are created. */
static iobind_status replace_words(iobind_binding *binding, const iobind_run_options *options, iobind_error *error) {
  iobind__run_words words = {0};
  if (binding->graphs == NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(copy_words(options, &words, error));
  free_words(&binding->settings.words);
  binding->settings.words = words;
  iobind__graphs_drop_options(binding);
  return IOBIND_OK;
}

iobind_status iobind__run_options_replace(iobind_binding *binding, const iobind_run_options *options, const char *what,
                                          iobind_error *error) {
  const iobind_session *session = binding->session;
  iobind__ort_options made;
  const char *graph = iobind__session_may_capture(session) ? IOBIND__NO_GRAPH : NULL;
  IOBIND__TRY(iobind__ort_options_make(session, options, graph, what, &made, error));
  iobind_status status = replace_words(binding, options, error);
  if (status != IOBIND_OK) {
    iobind__ort_options_release(session, &made);
    return status;
  }
  iobind__ort_options_release(session, &binding->settings.ort);
  binding->settings.ort = made;
  iobind__binding_disarm(binding);
  return IOBIND_OK;
}

iobind_status iobind_binding_set_run_options(iobind_binding *binding, const iobind_run_options *given, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_set_run_options", error));
  iobind_run_options options;
  IOBIND__TRY(iobind__run_options_read(binding->session, given, "binding_set_run_options", &options, error));
  IOBIND__TRY(iobind__process_check("binding_set_run_options", error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_set_run_options", error));
  return iobind__run_options_replace(binding, &options, "binding_set_run_options", error);
}
