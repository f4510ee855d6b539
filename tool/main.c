#define _POSIX_C_SOURCE 200809L /* SIGXFSZ, newlocale */

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/nearest.h"
#include "shared/tool.h"

typedef struct command {
  const char *name;
  int (*run)(int argc, const char **argv);
  const char *summary;
} command;

static const command commands[] = {
    {"doctor", command_doctor, "Check which devices of this machine can run models"},
    {"devices", command_devices, "List the devices"},
    {"options", command_options, "List the options of an execution provider"},
    {"inspect", command_inspect, "Show a model's inputs and outputs, and where its nodes run"},
    {"run", command_run, "Run a model once on numpy files"},
    {"loop", command_loop, "Run a model step by step; outputs become inputs"},
    {"bench", command_bench, "Measure unbound and bound runs"},
    {"audit", command_audit, "Report which bytes move in each run, and why"},
    {"compare", command_compare, "Report how far a model's outputs differ between two devices"},
    {"tile", command_tile, "Run a model over a picture tile by tile"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* Has everything that was printed been written? */
static int finish(FILE *stream) {
  if (fflush(stream) == 0 && !ferror(stream)) return TOOL_DONE;
  fprintf(stderr, "iobind: the standard output cannot be written; is its disk full?\n");
  return TOOL_FAILED;
}

static int print_help(FILE *stream) {
  fprintf(stream, "iobind runs ONNX models with tensors that stay on the device.\n\n"
                  "Usage: iobind COMMAND [OPTION...]\n\nCommands:\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(stream, "  %-9s %s\n", commands[i].name, commands[i].summary);
  fprintf(stream, "\n`iobind COMMAND --help` shows a command's options; `iobind --version` shows\n"
                  "the version. Exit codes: 0 success, 1 the command failed, 2 wrong command line.\n");
  return finish(stream);
}

static int print_version(void) {
  printf("iobind %d.%d.%d (libiobind %s)\n", IOBIND_VERSION_MAJOR, IOBIND_VERSION_MINOR, IOBIND_VERSION_PATCH,
         iobind_get_version_string());
  return finish(stdout);
}

/* A line for the shells' completions (tool/completions): letter, name, value and help; '-' for what the option lacks. */
static void print_option(const struct poptOption *option) {
  const char *value = option->argDescrip == NULL ? "-" : option->argDescrip;
  char letter[3] = {'-', option->shortName, 0};
  printf("%s\t--%s\t%s\t%s\n", letter, option->longName, value, option->descrip);
}

static const command *find_command(const char *name) {
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  }
  return NULL;
}

static int refuse(const char *word) {
  const char *near = NULL;
  for (size_t i = 0; i < COMMAND_COUNT; i++) near = nearest_of(word, near, commands[i].name);
  char shown[128];
  snprintf(shown, sizeof shown, "%s", word);
  fault_make_line(shown);
  const char *what = word[0] == '-' ? "option" : "command";
  if (near != NULL) {
    fprintf(stderr, "iobind: unknown %s '%s'; did you mean '%s'? see `iobind --help`\n", what, shown, near);
  } else {
    fprintf(stderr, "iobind: unknown %s '%s'; see `iobind --help`\n", what, shown);
  }
  return TOOL_MISUSED;
}

/* `iobind complete`: the commands; `iobind complete COMMAND`: its options, from the table that reads them. */
static int print_completions(int argc, const char **words) {
  if (argc == 2) {
    for (size_t i = 0; i < COMMAND_COUNT; i++) printf("%s\t%s\n", commands[i].name, commands[i].summary);
    return finish(stdout);
  }
  const command *found = find_command(words[2]);
  if (found == NULL) return refuse(words[2]);
  tool_visit_options(print_option);
  found->run(1, words + 2);
  return finish(stdout);
}

/* If a standard stream is closed, the next file that is opened gets its number, and messages would be written into that file. So
 * the number is taken by a file that is opened for reading: writes to it fail. */
static void hold_standard_streams(void) {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= 2) descriptor = open("/dev/null", O_RDONLY);
  if (descriptor > 2) close(descriptor);
}

/* An EP's library may change the process's locale, but numbers must have a decimal point. On Windows the C locale is not changed. */
static void keep_numbers(void) {
#ifndef _WIN32
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (plain != (locale_t)0) uselocale(plain); /* never freed */
#endif
}

int main(int argc, char **argv) {
  hold_standard_streams();
  keep_numbers();
  /* Then write() fails for a file that exceeds its size limit, and the temporary file is removed. */
  signal(SIGXFSZ, SIG_IGN);
  if (argc < 2) {
    print_help(stderr);
    return TOOL_MISUSED;
  }
  /* popt wants `const char **`, and C does not convert `char **` to that. */
  const char **words = NULL;
  memcpy(&words, &argv, sizeof words);
  const char *word = words[1];
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return print_version();
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) return print_help(stdout);
  if (strcmp(word, "complete") == 0) return print_completions(argc, words);
  const command *found = find_command(word);
  return found == NULL ? refuse(word) : found->run(argc - 1, words + 1);
}
