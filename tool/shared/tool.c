#define _POSIX_C_SOURCE 200809L /* strdup */

#include "shared/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/given.h"
#include "shared/nearest.h"
#include "shared/number.h"
#include "shared/wrap.h"

/* ---- errors ---- */

enum { LINE_TEXT = 2048 };

__attribute__((format(printf, 2, 0))) static void make_line(char line[LINE_TEXT], const char *format, va_list values) {
  progress_end();
  if (vsnprintf(line, LINE_TEXT, format, values) < 0) strcpy(line, "a message that cannot be printed");
  fault_make_line(line);
}

int tool_fail(const tool_state *tool, const char *format, ...) {
  char line[LINE_TEXT];
  va_list values;
  va_start(values, format);
  make_line(line, format, values);
  va_end(values);
  fprintf(stderr, "iobind: %s: %s\n", tool->usage->command, line);
  failure_keep(line);
  return TOOL_FAILED;
}

int tool_misuse(const tool_state *tool, const char *format, ...) {
  char text[1536];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  tool_fail(tool, "%s; see `iobind %s --help`", text, tool->usage->command);
  return TOOL_MISUSED;
}

const char *tool_reason(const iobind_error *error) {
  size_t name = strspn(error->message, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return name > 0 && strncmp(error->message + name, ": ", 2) == 0 ? error->message + name + 2 : error->message;
}

int tool_fail_error(const tool_state *tool, const char *subject, const iobind_error *error) {
  const char *status = iobind_status_get_name(error->status);
  if (subject == NULL) return tool_fail(tool, "%s [%s]", tool_reason(error), status);
  return tool_fail(tool, "%s: %s [%s]", subject, tool_reason(error), status);
}

void tool_warn(const tool_state *tool, const char *format, ...) {
  char line[LINE_TEXT];
  va_list values;
  va_start(values, format);
  make_line(line, format, values);
  va_end(values);
  fprintf(stderr, "iobind: %s: note: %s\n", tool->usage->command, line);
}

int tool_print(const tool_state *tool, const tool_report *report, int code) {
  progress_end();
  failure_answered();
  if (report_print(report, stdout, tool->json != 0)) return code;
  return tool_fail(tool, "the report cannot be written to the standard output; is its disk full, or memory exhausted?");
}

/* ---- the command line ---- */

size_t tool_list_length(char *const *list) {
  size_t length = 0;
  while (list != NULL && list[length] != NULL) length++;
  return length;
}

void tool_free_list(char **list) {
  for (size_t i = 0; list != NULL && list[i] != NULL; i++) free(list[i]);
  free(list);
}

int tool_single(const tool_state *tool, char *const *list, const char *option, const char **value) {
  *value = NULL;
  size_t length = tool_list_length(list);
  if (length > 1) return tool_misuse(tool, "%s is given %zu times: expected once", option, length);
  if (length == 1) *value = list[0];
  return TOOL_GO;
}

int tool_integer(const tool_state *tool, char *const *list, const char *option, int64_t low, int64_t high, int64_t *value) {
  const char *text = NULL;
  int code = tool_single(tool, list, option, &text);
  if (code != TOOL_GO || text == NULL || number_parse_integer(text, low, high, value)) return code;
  return tool_misuse(tool, "%s: expected a whole number of %lld to %lld, got '%s'", option, (long long)low, (long long)high,
                     text);
}

int tool_real(const tool_state *tool, char *const *list, const char *option, double low, double high, double *value) {
  const char *text = NULL;
  int code = tool_single(tool, list, option, &text);
  if (code != TOOL_GO || text == NULL || number_parse_real(text, low, high, value)) return code;
  return tool_misuse(tool, "%s: expected a number of %g to %g, got '%s'", option, low, high, text);
}

/* An option that may be repeated: its values are listed. */
static struct poptOption listed(const char *name, char letter, void *list, const char *help, const char *value) {
  return (struct poptOption){name, letter, POPT_ARG_ARGV, list, 0, help, value};
}

/* An option without a value. `result`: what parsing returns for it; 0: nothing. */
static struct poptOption flagged(const char *name, char letter, void *flag, int result, const char *help) {
  return (struct poptOption){name, letter, POPT_ARG_NONE, flag, result, help, NULL};
}

static void share(tool_state *tool, size_t *count, struct poptOption option) {
  tool->shared[(*count)++] = option;
}

static void build_tables(tool_state *tool) {
  uint32_t takes = tool->usage->takes;
  size_t count = 0;
  if (takes & TOOL_TAKES_INPUTS) {
    share(tool, &count,
          listed("input", 'i', &tool->input_texts,
                 "Read an input from a numpy file, or all arrays of an archive (FILE.npz); may be repeated", "NAME=FILE"));
    share(tool, &count, flagged("random", 'r', &tool->random, 0, "Fill all other inputs with random numbers"));
    share(tool, &count, listed("seed", 0, &tool->seed_texts, "The seed of --random (default 0)", "N"));
  }
  if (takes & TOOL_TAKES_DIMS) {
    share(tool, &count,
          listed("dim", 0, &tool->dim_texts, "Fix an open dim: a symbol, or INPUT[AXIS]; may be repeated", "SYMBOL=N"));
  }
  if (takes & (TOOL_TAKES_DEVICE | TOOL_TAKES_DEVICES)) {
    share(tool, &count,
          listed("device", 'd', &tool->devices,
                 takes & TOOL_TAKES_DEVICES ? "Where to run, such as cuda, webgpu:1 or gpu,cpu; may be repeated"
                                            : "Where to run, such as cuda, webgpu:1 or gpu,cpu",
                 "SPEC"));
  }
  if (takes & TOOL_TAKES_SESSION) {
    wish_words *words = &tool->wish.words;
    share(tool, &count,
          listed("ep-option", 0, &words->ep_options,
                 "Set an option of the device's EP, or of another: NAME.KEY; may be repeated", "KEY=VALUE"));
    share(tool, &count,
          listed("config", 0, &words->configs, "Set a session config entry of ONNX Runtime; may be repeated", "KEY=VALUE"));
    share(
        tool, &count,
        listed(
            "policy", 0, &words->policies,
            "Let ONNX Runtime choose the device: default, prefer-cpu, prefer-npu, prefer-gpu, max-performance, max-efficiency "
            "or min-power",
            "NAME"));
    share(tool, &count, flagged("strict", 0, &words->strict, 0, "Fail if a node does not run on the device"));
    share(tool, &count, listed("threads", 0, &words->threads, "Threads that a node on the CPU may use", "N"));
    share(tool, &count,
          listed("optimization", 0, &words->optimizations,
                 "How far ONNX Runtime may change the model: all (default), none, basic, extended or layout", "LEVEL"));
    share(tool, &count, listed("profile", 0, &words->profiles, "Write ONNX Runtime's profile to PREFIX_TIME.json", "PREFIX"));
  }
  if (takes & TOOL_TAKES_RUNS) {
    share(tool, &count,
          listed("run-config", 0, &tool->wish.words.run_configs,
                 "Set a run config entry of ONNX Runtime for bound runs; may be repeated", "KEY=VALUE"));
  }
  share(tool, &count, listed("ort", 0, &tool->orts, "ONNX Runtime's library, or its directory", "FILE_OR_DIR"));
  share(tool, &count,
        listed("ep-library", 0, &tool->ep_libraries, "An EP library, or a directory of them; may be repeated", "[NAME=]FILE"));
  share(tool, &count, flagged("json", 'j', &tool->json, 0, "Print JSON"));
  share(tool, &count, flagged("verbose", 'v', NULL, 'v', "Print more, and log to stderr; twice: log ORT's verbose lines"));
  share(tool, &count, flagged("help", 'h', NULL, 'h', "Show this help"));
  tool->shared[count] = (struct poptOption)POPT_TABLEEND;
  static struct poptOption none[] = {POPT_TABLEEND};
  struct poptOption *own = none;
  /* popt's tables are not const, but popt does not write to them. */
  if (tool->usage->options != NULL) memcpy(&own, &tool->usage->options, sizeof own);
  count = 0;
  if (own != none) {
    tool->tables[count++] = (struct poptOption){NULL, 0, POPT_ARG_INCLUDE_TABLE, own, 0, "Options of this command:", NULL};
  }
  tool->tables[count++] = (struct poptOption){NULL, 0, POPT_ARG_INCLUDE_TABLE, tool->shared, 0, "Options:", NULL};
  tool->tables[count] = (struct poptOption)POPT_TABLEEND;
}

static const char *nearest_option(const struct poptOption *options, const char *word, const char *best) {
  for (; options != NULL && (options->longName != NULL || options->shortName != 0 || options->arg != NULL); options++) {
    if (options->longName != NULL) best = nearest_of(word, best, options->longName);
  }
  return best;
}

static int refuse_option(tool_state *tool, int failure, int words) {
  const char *given = poptBadOption(tool->popt, POPT_BADOPTION_NOALIAS);
  while (words-- > 0 && poptGetNextOpt(tool->popt) != -1) {
  } /* --json may follow it */
  if (failure == POPT_ERROR_BADOPT) {
    char word[64];
    const char *start = given + strspn(given, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(start, "="), start);
    const char *near = nearest_option(tool->usage->options, word, NULL);
    near = nearest_option(tool->shared, word, near);
    if (near != NULL && word[1] != 0) return tool_misuse(tool, "unknown option '%s'; did you mean '--%s'?", given, near);
    return tool_misuse(tool, "unknown option '%s'", given);
  }
  if (failure == POPT_ERROR_NOARG) return tool_misuse(tool, "option '%s' needs a value", given);
  return tool_misuse(tool, "option '%s': %s", given, poptStrerror(failure));
}

static int print_help(tool_state *tool) {
  size_t limit = wrap_limit(stdout);
  wrap_print(stdout, tool->usage->summary, limit);
  putchar('\n');
  poptPrintHelp(tool->popt, stdout, 0);
  if (tool->usage->notes != NULL) {
    putchar('\n');
    wrap_print(stdout, tool->usage->notes, limit);
  }
  if (fflush(stdout) == 0 && !ferror(stdout)) return TOOL_DONE;
  return tool_fail(tool, "the help cannot be written to the standard output");
}

static int take_arguments(tool_state *tool) {
  static const char *none[] = {NULL};
  tool->arguments = poptGetArgs(tool->popt);
  if (tool->arguments == NULL) tool->arguments = none;
  size_t count = 0;
  while (tool->arguments[count] != NULL) count++;
  if (count < tool->usage->argument_count) return tool_misuse(tool, "%s is missing", tool->usage->arguments);
  size_t most = tool->usage->argument_count + tool->usage->optional_count;
  if (count > most) return tool_misuse(tool, "unexpected argument '%s'", tool->arguments[most]);
  for (size_t i = 0; i < count; i++) {
    if (tool->arguments[i][0] == 0) return tool_misuse(tool, "%s is empty", tool->usage->arguments);
  }
  return TOOL_GO;
}

/* "SYMBOL=N" or "INPUT[AXIS]=N". */
static int take_dim(const tool_state *tool, const char *text, tool_dim *dim) {
  const char *equals = strrchr(text, '=');
  if (equals == NULL || equals == text) return tool_misuse(tool, "--dim: expected SYMBOL=N, got '%s'", text);
  if (!number_parse_integer(equals + 1, 0, INT64_MAX, &dim->value)) {
    return tool_misuse(tool, "--dim %s: expected a whole number of 0 or more, got '%s'", text, equals + 1);
  }
  dim->axis = -1;
  dim->name = strndup(text, (size_t)(equals - text));
  if (dim->name == NULL) return tool_fail(tool, "out of memory");
  char *bracket = strrchr(dim->name, '[');
  size_t length = strlen(dim->name);
  if (bracket == NULL || bracket == dim->name || dim->name[length - 1] != ']') return TOOL_GO;
  dim->name[length - 1] = 0;
  if (number_parse_integer(bracket + 1, 0, IOBIND_MAX_RANK - 1, &dim->axis)) {
    *bracket = 0;
  } else {
    dim->name[length - 1] = ']';
  }
  return TOOL_GO;
}

static int take_dims(tool_state *tool) {
  size_t count = tool_list_length(tool->dim_texts);
  if (count == 0) return TOOL_GO;
  tool->dims = calloc(count, sizeof *tool->dims);
  if (tool->dims == NULL) return tool_fail(tool, "out of memory");
  for (size_t i = 0; i < count; i++) {
    tool_dim *dim = &tool->dims[tool->dim_count++];
    int code = take_dim(tool, tool->dim_texts[i], dim);
    if (code != TOOL_GO) return code;
    for (size_t j = 0; j < i; j++) {
      if (strcmp(tool->dims[j].name, dim->name) == 0 && tool->dims[j].axis == dim->axis) {
        return tool_misuse(tool, "--dim '%s' is given twice", tool->dim_texts[i]);
      }
    }
  }
  return TOOL_GO;
}

bool tool_add_dim(tool_state *tool, const char *name, int64_t axis, int64_t value) {
  for (size_t i = 0; i < tool->dim_count; i++) {
    if (tool->dims[i].axis == axis && strcmp(tool->dims[i].name, name) == 0) return true;
  }
  tool_dim *grown = realloc(tool->dims, (tool->dim_count + 1) * sizeof *grown);
  if (grown == NULL) return false;
  tool->dims = grown;
  char *copy = strdup(name);
  if (copy == NULL) return false;
  grown[tool->dim_count++] = (tool_dim){copy, axis, value};
  return true;
}

static tool_visitor *visitor;

void tool_visit_options(tool_visitor *visit) {
  visitor = visit;
}

static void visit_options(const struct poptOption *options) {
  for (; options != NULL && options->longName != NULL; options++) visitor(options);
}

int tool_begin(tool_state *tool, const tool_usage *usage, int argc, const char **argv) {
  *tool = (tool_state){.usage = usage};
  failure_begin();
  build_tables(tool);
  if (visitor != NULL) {
    visit_options(usage->options);
    visit_options(tool->shared);
    return TOOL_DONE;
  }
  snprintf(tool->name, sizeof tool->name, "iobind %s", usage->command);
  tool->words = malloc(((size_t)argc + 1) * sizeof *tool->words);
  if (tool->words == NULL) return tool_fail(tool, "out of memory");
  memcpy(tool->words, argv, (size_t)argc * sizeof *tool->words);
  tool->words[0] = tool->name;
  tool->words[argc] = NULL;
  tool->popt = poptGetContext(tool->name, argc, tool->words, tool->tables, 0);
  if (tool->popt == NULL) return tool_fail(tool, "out of memory");
  poptSetOtherOptionHelp(tool->popt, usage->arguments);
  int option = 0;
  bool help = false;
  while ((option = poptGetNextOpt(tool->popt)) >= 0) {
    if (option == 'v') tool->verbosity++;
    if (option == 'h') help = true;
  }
  if (option < -1) return refuse_option(tool, option, argc);
  if (help) return print_help(tool);
  int code = take_arguments(tool);
  const char *once = NULL;
  if (code == TOOL_GO) code = tool_single(tool, tool->orts, "--ort", &once);
  if (code == TOOL_GO && !(usage->takes & TOOL_TAKES_DEVICES)) code = tool_single(tool, tool->devices, "--device", &once);
  int64_t seed = 0;
  if (code == TOOL_GO) code = tool_integer(tool, tool->seed_texts, "--seed", 0, INT64_MAX, &seed);
  tool->seed = (uint64_t)seed;
  if (code == TOOL_GO) code = wish_read(tool);
  if (code == TOOL_GO) code = take_dims(tool);
  if (code == TOOL_GO) code = given_list(tool);
  return code;
}

int tool_end(tool_state *tool, int code) {
  progress_end();
  if (tool->json && (code == TOOL_FAILED || code == TOOL_MISUSED)) failure_answer();
  iobind_runtime_destroy(tool->runtime);
  for (size_t i = 0; i < tool->dim_count; i++) free(tool->dims[i].name);
  free(tool->dims);
  for (size_t i = 0; i < tool->member_count; i++) {
    free(tool->members[i].name);
    free(tool->members[i].file);
  }
  free(tool->members);
  wish_free(&tool->wish);
  tool_free_list(tool->devices);
  tool_free_list(tool->ep_libraries);
  tool_free_list(tool->orts);
  tool_free_list(tool->dim_texts);
  tool_free_list(tool->input_texts);
  tool_free_list(tool->seed_texts);
  if (tool->popt != NULL) poptFreeContext(tool->popt);
  free(tool->words);
  *tool = (tool_state){.usage = tool->usage};
  return code;
}
