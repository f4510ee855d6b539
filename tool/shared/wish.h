/** @file wish.h
 *  What the command line asks for a session and its runs: options that every command with a model has. */
#ifndef IOBIND_TOOL_WISH_H
#define IOBIND_TOOL_WISH_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool_state;

/** KEY=VALUE, split. */
typedef struct wish_pairs {
  char **keys; /**< each with its value after the NUL */
  const char **values;
  size_t count;
} wish_pairs;

/** The words of the command line: NULL, or lists that end in NULL. */
typedef struct wish_words {
  char **ep_options;
  char **configs;
  char **run_configs;
  char **policies;
  char **threads;
  char **optimizations;
  char **profiles;
  int strict;
} wish_words;

typedef struct tool_wish {
  wish_words words;
  wish_pairs ep_options;
  wish_pairs configs;
  wish_pairs run_configs;
  int32_t policy;       /**< iobind_policy */
  int32_t optimization; /**< as iobind_session_options has it */
  int64_t threads;      /**< 0: not given */
  const char *profile;  /**< NULL: none */
} tool_wish;

/** Read the words. Returns TOOL_GO, or TOOL_MISUSED after the error has been printed. */
int wish_read(struct tool_state *tool);

void wish_free(tool_wish *self);

/** Put these wishes into a session's options; the texts are valid as long as the wish. */
void wish_apply(const tool_wish *self, iobind_session_options *options);

/** Put the entries of --run-config into the options of runs; the texts are valid as long as the wish. */
void wish_apply_to_runs(const wish_pairs *run_configs, iobind_run_options *options);

/** Set the entries of --run-config for the later runs of a binding. */
iobind_status wish_configure(const wish_pairs *run_configs, iobind_binding *binding, iobind_error *error);

#endif
