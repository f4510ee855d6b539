#define _POSIX_C_SOURCE 200809L /* strdup */

#include "shared/wish.h"

#include <stdlib.h>
#include <string.h>

#include "shared/nearest.h"
#include "shared/tool.h"

static const char *const policies[] = {[IOBIND_POLICY_DEFAULT] = "default",
                                       [IOBIND_POLICY_PREFER_CPU] = "prefer-cpu",
                                       [IOBIND_POLICY_PREFER_NPU] = "prefer-npu",
                                       [IOBIND_POLICY_PREFER_GPU] = "prefer-gpu",
                                       [IOBIND_POLICY_MAX_PERFORMANCE] = "max-performance",
                                       [IOBIND_POLICY_MAX_EFFICIENCY] = "max-efficiency",
                                       [IOBIND_POLICY_MIN_POWER] = "min-power"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

/* In the order of iobind_session_options' numbers. */
static const char *const optimizations[] = {"all", "none", "basic", "extended", "layout"};
enum { OPTIMIZATIONS = sizeof optimizations / sizeof optimizations[0], MOST_THREADS = 1024 };

/* The position of a word in a list, of which the first ones may be NULL; *number stays as it is if the option is not given. */
static int read_word(const tool_state *tool, char *const *texts, const char *option, const char *const *words, int count,
                     int32_t *number) {
  const char *text = NULL;
  const char *near = NULL;
  int code = tool_single(tool, texts, option, &text);
  if (code != TOOL_GO || text == NULL) return code;
  for (int i = 0; i < count; i++) {
    if (words[i] == NULL) continue;
    near = nearest_of(text, near, words[i]);
    if (strcmp(text, words[i]) != 0) continue;
    *number = i;
    return TOOL_GO;
  }
  char list[256] = "";
  for (int i = 0; i < count; i++) {
    if (words[i] == NULL) continue;
    if (list[0] != 0) strcat(list, i + 1 < count ? ", " : " or ");
    strcat(list, words[i]);
  }
  if (near != NULL) return tool_misuse(tool, "%s: expected %s, got '%s'; did you mean '%s'?", option, list, text, near);
  return tool_misuse(tool, "%s: expected %s, got '%s'", option, list, text);
}

static int read_pairs(const tool_state *tool, char *const *texts, const char *option, wish_pairs *pairs) {
  size_t count = tool_list_length(texts);
  if (count == 0) return TOOL_GO;
  pairs->keys = calloc(count, sizeof *pairs->keys);
  pairs->values = calloc(count, sizeof *pairs->values);
  if (pairs->keys == NULL || pairs->values == NULL) return tool_fail(tool, "out of memory");
  for (size_t i = 0; i < count; i++) {
    char *key = strdup(texts[i]);
    if (key == NULL) return tool_fail(tool, "out of memory");
    pairs->keys[pairs->count] = key;
    char *equals = strchr(key, '=');
    pairs->count++;
    if (equals == NULL || equals == key) return tool_misuse(tool, "%s: expected KEY=VALUE, got '%s'", option, texts[i]);
    *equals = 0;
    pairs->values[i] = equals + 1;
    for (size_t j = 0; j < i; j++) {
      if (strcmp(pairs->keys[j], key) == 0) return tool_misuse(tool, "%s: '%s' is given twice", option, key);
    }
  }
  return TOOL_GO;
}

int wish_read(tool_state *tool) {
  tool_wish *self = &tool->wish;
  const wish_words *words = &self->words;
  int code = read_pairs(tool, words->ep_options, "--ep-option", &self->ep_options);
  if (code == TOOL_GO) code = read_pairs(tool, words->configs, "--config", &self->configs);
  if (code == TOOL_GO) code = read_pairs(tool, words->run_configs, "--run-config", &self->run_configs);
  if (code == TOOL_GO) code = read_word(tool, words->policies, "--policy", policies, POLICIES, &self->policy);
  if (code == TOOL_GO) {
    code = read_word(tool, words->optimizations, "--optimization", optimizations, OPTIMIZATIONS, &self->optimization);
  }
  if (code == TOOL_GO) code = tool_integer(tool, words->threads, "--threads", 1, MOST_THREADS, &self->threads);
  if (code == TOOL_GO) code = tool_single(tool, words->profiles, "--profile", &self->profile);
  if (code == TOOL_GO && self->policy != IOBIND_POLICY_NONE && tool->devices != NULL) {
    code = tool_misuse(tool, "--policy %s: ONNX Runtime chooses the device then; expected no --device, got '%s'",
                       policies[self->policy], tool->devices[0]);
  }
  return code;
}

static void free_pairs(wish_pairs *pairs) {
  for (size_t i = 0; i < pairs->count; i++) free(pairs->keys[i]);
  free(pairs->keys);
  free(pairs->values);
}

void wish_free(tool_wish *self) {
  free_pairs(&self->ep_options);
  free_pairs(&self->configs);
  free_pairs(&self->run_configs);
  char **const lists[] = {self->words.ep_options, self->words.configs,       self->words.run_configs, self->words.policies,
                          self->words.threads,    self->words.optimizations, self->words.profiles};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) tool_free_list(lists[i]);
  *self = (tool_wish){0};
}

void wish_apply(const tool_wish *self, iobind_session_options *options) {
  options->ep_keys = (const char *const *)self->ep_options.keys;
  options->ep_values = self->ep_options.values;
  options->ep_option_count = self->ep_options.count;
  if (self->configs.count > 0) {
    options->config_keys = (const char *const *)self->configs.keys;
    options->config_values = self->configs.values;
    options->config_count = self->configs.count;
  }
  options->policy = self->policy;
  options->optimization = self->optimization;
  options->intra_op_threads = (int32_t)self->threads;
  if (self->words.strict != 0) options->flags |= IOBIND_SESSION_STRICT;
  if (self->profile != NULL) options->profile = self->profile;
}

void wish_apply_to_runs(const wish_pairs *run_configs, iobind_run_options *options) {
  options->config_keys = (const char *const *)run_configs->keys;
  options->config_values = run_configs->values;
  options->config_count = run_configs->count;
}

iobind_status wish_configure(const wish_pairs *run_configs, iobind_binding *binding, iobind_error *error) {
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  if (run_configs->count == 0) return IOBIND_OK;
  wish_apply_to_runs(run_configs, &options);
  return iobind_binding_set_run_options(binding, &options, error);
}
