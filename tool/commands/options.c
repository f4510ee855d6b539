/* The options of an EP: what the catalogue knows of them, and what the EP's devices say. */
#include <stdio.h>
#include <string.h>

#include "commands/machine.h"
#include "ep/ep.h"
#include "shared/nearest.h"

static const char *const kinds[] = {
    [IOBIND__OPTION_FLAG] = "flag", [IOBIND__OPTION_WHOLE] = "integer",   [IOBIND__OPTION_DECIMAL] = "number",
    [IOBIND__OPTION_WORD] = "word", [IOBIND__OPTION_ADDRESS] = "address", [IOBIND__OPTION_TEXT] = "text"};

static void list_eps(tool_report *report) {
  report_table *table = report_add_table(report, "eps", NULL);
  report_column(table, "name", "EP", REPORT_LEFT);
  report_column(table, "ep_name", "CALLED", REPORT_LEFT);
  report_column(table, "options", "OPTIONS", REPORT_RIGHT);
  report_column(table, "source", "KNOWN BY", REPORT_LEFT);
  const iobind__ep *ep;
  for (size_t i = 0; (ep = iobind__ep_at(i)) != NULL; i++) {
    if (ep->options == NULL) continue;
    report_row(table);
    report_cell(table, report_string(ep->name), NULL);
    report_cell(table, report_string(ep->ep_name), NULL);
    report_cell(table, json_integer((json_int_t)ep->options->count), NULL);
    report_cell(table, report_string(ep->options->source), NULL);
  }
  report_note(report, "`iobind options EP` lists them; what is not listed here has none that are known");
}

static json_t *string_or_null(const char *text) {
  return text == NULL ? json_null() : report_string(text);
}

/* The limits of a type are not what a person looks for. */
static void show_range(const iobind__option_table *table, const iobind__option *option, char range[IOBIND__OPTION_RANGE]) {
  iobind__option_range(table, option, range);
  if (option->kind == IOBIND__OPTION_WHOLE && option->highest >= INT32_MAX) {
    snprintf(range, IOBIND__OPTION_RANGE, "%s", option->lowest < 0 ? "a whole number" : "a whole number, 0 or more");
  }
}

static void list_options(tool_report *report, const iobind__option_table *options) {
  report_table *table = report_add_table(report, "options", NULL);
  report_column(table, "key", "KEY", REPORT_LEFT);
  report_column(table, "type", NULL, REPORT_LEFT);
  report_column(table, "values", "VALUES", REPORT_LEFT);
  report_column(table, "default", "DEFAULT", REPORT_LEFT);
  report_column(table, "since", "SINCE", REPORT_LEFT);
  report_column(table, "text", "WHAT IT DOES", REPORT_LEFT);
  report_column(table, "refused", NULL, REPORT_LEFT);
  report_column(table, "needs", NULL, REPORT_LEFT);
  for (size_t i = 0; i < options->count; i++) {
    const iobind__option *option = &options->options[i];
    char range[IOBIND__OPTION_RANGE];
    char shown[IOBIND__OPTION_RANGE];
    iobind__option_range(options, option, range);
    show_range(options, option, shown);
    bool largest = option->preset != NULL && strlen(option->preset) > 16;
    report_row(table);
    report_cell(table, report_string(option->key), NULL);
    report_cell(table, json_string(kinds[option->kind]), NULL);
    report_cell(table, report_string(range), "%s", option->unused != NULL ? option->preset : shown);
    report_cell(table, string_or_null(option->preset), "%s",
                largest                     ? "all"
                : option->preset == NULL    ? "-"
                : option->preset[0] == '\0' ? "none"
                                            : option->preset);
    report_cell(table, string_or_null(option->since), "%s", option->since == NULL ? "-" : option->since);
    report_cell(table, report_string(option->text), "%s%s%s", option->text,
                option->unused == NULL ? "" : "; refused: ", option->unused == NULL ? "" : option->unused);
    report_cell(table, string_or_null(option->unused), NULL);
    report_cell(table, string_or_null(option->needs), NULL);
  }
}

static void list_pairs(tool_report *report, const iobind__option_table *options) {
  report_table *table = report_add_table(report, "conflicts", options->pair_count > 0 ? "Not together:" : NULL);
  bool any = options->pair_count > 0; /* a table without rows is only for a program */
  report_column(table, "key", any ? "KEY" : NULL, REPORT_LEFT);
  report_column(table, "value", NULL, REPORT_LEFT);
  report_column(table, "other", any ? "AND" : NULL, REPORT_LEFT);
  report_column(table, "other_value", NULL, REPORT_LEFT);
  report_column(table, "reason", any ? "FOR" : NULL, REPORT_LEFT);
  for (size_t i = 0; i < options->pair_count; i++) {
    const iobind__option_pair *pair = &options->pairs[i];
    report_row(table);
    report_cell(table, report_string(pair->key), "%s%s%s", pair->key, pair->value == NULL ? "" : "=",
                pair->value == NULL ? "" : pair->value);
    report_cell(table, string_or_null(pair->value), "%s", "");
    report_cell(table, report_string(pair->other), "%s%s%s", pair->other, pair->other_value == NULL ? "" : "=",
                pair->other_value == NULL ? "" : pair->other_value);
    report_cell(table, string_or_null(pair->other_value), "%s", "");
    report_cell(table, report_string(pair->reason), NULL);
  }
}

/* The EP and the hardware may say the same. */
static bool said_before(const iobind_device *device, size_t index, const char *key, const char *value) {
  for (size_t i = 0; i < index; i++) {
    const char *other = NULL;
    const char *said = NULL;
    if (iobind_device_get_metadata(device, i, &other, &said, NULL) != IOBIND_OK) continue;
    if (strcmp(other, key) == 0 && strcmp(said, value) == 0) return true;
  }
  return false;
}

/* What the EP says of its devices: with it are the options that each sets by itself. */
static void list_devices(const tool_state *tool, tool_report *report, const iobind__ep *ep) {
  report_table *table = report_add_table(report, "devices", NULL);
  report_column(table, "spec", "DEVICE", REPORT_LEFT);
  report_column(table, "key", "SAYS", REPORT_LEFT);
  report_column(table, "value", "VALUE", REPORT_LEFT);
  iobind_device *device;
  for (size_t i = 0; tool->runtime != NULL && (device = iobind_runtime_get_device(tool->runtime, i)) != NULL; i++) {
    iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
    if (iobind_device_get_info(device, &info, NULL) != IOBIND_OK || strcmp(info.ep_name, ep->ep_name) != 0) continue;
    for (size_t m = 0; m < info.metadata_count; m++) {
      const char *key = NULL;
      const char *value = NULL;
      if (iobind_device_get_metadata(device, m, &key, &value, NULL) != IOBIND_OK) continue;
      if (said_before(device, m, key, value)) continue;
      report_row(table);
      report_cell(table, report_string(info.spec), NULL);
      report_cell(table, report_string(key), NULL);
      report_cell(table, report_string(value), NULL);
    }
  }
}

static int list_of(tool_state *tool, tool_report *report, const char *name) {
  const iobind__ep *ep = iobind__ep_by_name(name, strlen(name));
  const char *near = NULL;
  for (size_t i = 0; iobind__ep_at(i) != NULL; i++) near = nearest_of(name, near, iobind__ep_at(i)->name);
  if (ep == NULL && near != NULL) return tool_misuse(tool, "no EP is named '%s'; did you mean '%s'?", name, near);
  if (ep == NULL) return tool_misuse(tool, "no EP is named '%s'; `iobind options` lists them", name);
  if (strcmp(name, "cpu") == 0) return tool_fail(tool, "the CPU takes no options; --config and --threads set what it does");
  if (ep->options == NULL) return tool_fail(tool, "no options of '%s' are known; what is given is passed on to it", name);
  report_field(report, "ep", "EP", report_string(ep->ep_name), NULL);
  report_field(report, "source", "known by", report_string(ep->options->source), NULL);
  report_field(report, "releases", NULL, report_string(ep->options->releases), NULL);
  list_options(report, ep->options);
  list_pairs(report, ep->options);
  iobind_error error = IOBIND_ERROR_INIT; /* the list does not depend on what is installed */
  iobind_device *device = NULL;
  if (tool_try_open(tool, &error) == IOBIND_OK && ep->on_demand) {
    (void)!iobind_runtime_find_device(tool->runtime, ep->name, &device, NULL, NULL); /* registers its library if there is one */
  }
  list_devices(tool, report, ep);
  return TOOL_GO;
}

int command_options(int argc, const char **argv) {
  const tool_usage usage = {
      .command = "options",
      .arguments = "[EP]",
      .summary = "List the options of an execution provider (EP), such as cuda: what --ep-option of the other commands takes.",
      .notes =
          "DEFAULT is what holds without the option. SINCE: the first release that has it; -: all that iobind works with.\n"
          "Below: what the EP's devices say of themselves. Without EP: which EPs have a list.",
      .optional_count = 1,
  };
  tool_state tool;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    const char *name = tool.arguments == NULL ? NULL : tool.arguments[0];
    if (name == NULL) list_eps(report);
    if (name != NULL) code = list_of(&tool, report, name);
    if (code == TOOL_GO) code = tool_print(&tool, report, TOOL_DONE);
    report_destroy(report);
  }
  return tool_end(&tool, code);
}
