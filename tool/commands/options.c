/* The options of an EP: what the catalogue knows of them, and what the EP's devices say. */
#include <stdlib.h>
#include <string.h>

#include "commands/machine.h"
#include "shared/nearest.h"

enum { LIMIT_OF_TYPE = 2147483647 };

static const char *const kinds[] = {
    [IOBIND_OPTION_FLAG] = "flag", [IOBIND_OPTION_INTEGER] = "integer", [IOBIND_OPTION_NUMBER] = "number",
    [IOBIND_OPTION_WORD] = "word", [IOBIND_OPTION_ADDRESS] = "address", [IOBIND_OPTION_TEXT] = "text"};

static bool ep_at(size_t index, iobind_catalogue_info *ep) {
  *ep = (iobind_catalogue_info)IOBIND_CATALOGUE_INFO_INIT;
  return iobind_catalogue_get_ep(index, ep, NULL) == IOBIND_OK;
}

static void list_eps(tool_report *report) {
  report_table *table = report_add_table(report, "eps", NULL);
  report_column(table, "name", "EP", REPORT_LEFT);
  report_column(table, "ep_name", "CALLED", REPORT_LEFT);
  report_column(table, "options", "OPTIONS", REPORT_RIGHT);
  report_column(table, "source", "KNOWN BY", REPORT_LEFT);
  iobind_catalogue_info ep;
  for (size_t i = 0; ep_at(i, &ep); i++) {
    if (ep.option_count == 0) continue;
    report_row(table);
    report_cell(table, report_string(ep.name), NULL);
    report_cell(table, report_string(ep.ep_name), NULL);
    report_cell(table, json_integer((json_int_t)ep.option_count), NULL);
    report_cell(table, report_string(ep.source), NULL);
  }
  report_note(report, "`iobind options EP` lists the options; those of other EPs are unknown");
}

/* In the catalogue "" means that a text does not apply. */
static json_t *string_or_null(const char *text) {
  return text == NULL || text[0] == 0 ? json_null() : report_string(text);
}

/* The limits of a type, "0 .. 2147483647", are not what a person looks for. */
static const char *shown_range(const iobind_option_info *option) {
  const char *limit = strstr(option->range, " .. ");
  if (option->kind != IOBIND_OPTION_INTEGER || limit == NULL || strtoull(limit + 4, NULL, 10) < LIMIT_OF_TYPE) {
    return option->range;
  }
  return option->range[0] == '-' ? "a whole number" : "a whole number, 0 or more";
}

static const char *shown_preset(const char *preset) {
  if (preset == NULL) return "-";
  if (preset[0] == 0) return "none";
  return strlen(preset) > 16 ? "all" : preset; /* the largest number */
}

static void list_option(report_table *table, const iobind_option_info *option) {
  bool refused = option->refused[0] != 0;
  report_row(table);
  report_cell(table, report_string(option->key), NULL);
  report_cell(table, json_string(kinds[option->kind]), NULL);
  report_cell(table, report_string(option->range), "%s", refused ? option->preset : shown_range(option));
  report_cell(table, option->preset == NULL ? json_null() : report_string(option->preset), "%s", shown_preset(option->preset));
  report_cell(table, string_or_null(option->since), "%s", option->since[0] == 0 ? "-" : option->since);
  report_cell(table, report_string(option->text), "%s%s%s", option->text, refused ? "; refused: " : "", option->refused);
  report_cell(table, string_or_null(option->refused), NULL);
  report_cell(table, string_or_null(option->needs), NULL);
}

static void list_options(tool_report *report, const iobind_catalogue_info *ep) {
  report_table *table = report_add_table(report, "options", NULL);
  report_column(table, "key", "KEY", REPORT_LEFT);
  report_column(table, "type", NULL, REPORT_LEFT);
  report_column(table, "values", "VALUES", REPORT_LEFT);
  report_column(table, "default", "DEFAULT", REPORT_LEFT);
  report_column(table, "since", "SINCE", REPORT_LEFT);
  report_column(table, "text", "WHAT IT DOES", REPORT_LEFT);
  report_column(table, "refused", NULL, REPORT_LEFT);
  report_column(table, "needs", NULL, REPORT_LEFT);
  for (size_t i = 0; i < ep->option_count; i++) {
    iobind_option_info option = IOBIND_OPTION_INFO_INIT;
    if (iobind_catalogue_get_option(ep->name, i, &option, NULL) == IOBIND_OK) list_option(table, &option);
  }
}

static void list_conflict(report_table *table, const iobind_conflict_info *pair) {
  report_row(table);
  report_cell(table, report_string(pair->key), "%s%s%s", pair->key, pair->value == NULL ? "" : "=",
              pair->value == NULL ? "" : pair->value);
  report_cell(table, string_or_null(pair->value), "%s", "");
  report_cell(table, report_string(pair->other), "%s%s%s", pair->other, pair->other_value == NULL ? "" : "=",
              pair->other_value == NULL ? "" : pair->other_value);
  report_cell(table, string_or_null(pair->other_value), "%s", "");
  report_cell(table, report_string(pair->reason), NULL);
}

static void list_conflicts(tool_report *report, const iobind_catalogue_info *ep) {
  bool any = ep->conflict_count > 0; /* a table without rows is only for a program */
  report_table *table = report_add_table(report, "conflicts", any ? "Not together:" : NULL);
  report_column(table, "key", any ? "KEY" : NULL, REPORT_LEFT);
  report_column(table, "value", NULL, REPORT_LEFT);
  report_column(table, "other", any ? "AND" : NULL, REPORT_LEFT);
  report_column(table, "other_value", NULL, REPORT_LEFT);
  report_column(table, "reason", any ? "FOR" : NULL, REPORT_LEFT);
  for (size_t i = 0; i < ep->conflict_count; i++) {
    iobind_conflict_info pair = IOBIND_CONFLICT_INFO_INIT;
    if (iobind_catalogue_get_conflict(ep->name, i, &pair, NULL) == IOBIND_OK) list_conflict(table, &pair);
  }
}

/* The EP and the hardware may report the same. */
static bool said_before(const iobind_device *device, size_t index, const char *key, const char *value) {
  for (size_t i = 0; i < index; i++) {
    const char *other = NULL;
    const char *said = NULL;
    if (iobind_device_get_metadata(device, i, &other, &said, NULL) != IOBIND_OK) continue;
    if (strcmp(other, key) == 0 && strcmp(said, value) == 0) return true;
  }
  return false;
}

/* What the EP reports about its devices, with the options that each sets by default. */
static void list_devices(const tool_state *tool, tool_report *report, const iobind_catalogue_info *ep) {
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

/* Find an EP of the catalogue; `nearest` receives a name that may have been meant, or NULL. */
static bool find_ep(const char *name, iobind_catalogue_info *ep, const char **nearest) {
  *nearest = NULL;
  for (size_t i = 0; ep_at(i, ep); i++) {
    if (strcmp(ep->name, name) == 0) return true;
    *nearest = nearest_of(name, *nearest, ep->name);
  }
  return false;
}

static int list_of(tool_state *tool, tool_report *report, const char *name) {
  iobind_catalogue_info ep;
  const char *nearest;
  bool found = find_ep(name, &ep, &nearest);
  if (!found && nearest != NULL) return tool_misuse(tool, "no EP is named '%s'; did you mean '%s'?", name, nearest);
  if (!found) return tool_misuse(tool, "no EP is named '%s'; `iobind options` lists them", name);
  if (strcmp(name, "cpu") == 0) return tool_fail(tool, "the CPU takes no options; --config and --threads set what it does");
  if (ep.option_count == 0) {
    return tool_fail(tool, "the options of '%s' are unknown; all that are given are passed to it", name);
  }
  report_field(report, "ep", "EP", report_string(ep.ep_name), NULL);
  report_field(report, "source", "known by", report_string(ep.source), NULL);
  report_field(report, "releases", NULL, report_string(ep.releases), NULL);
  list_options(report, &ep);
  list_conflicts(report, &ep);
  iobind_error error = IOBIND_ERROR_INIT; /* the list does not depend on what is installed */
  iobind_device *device = NULL;
  if (tool_try_open(tool, &error) == IOBIND_OK && ep.on_demand) {
    (void)!iobind_runtime_find_device(tool->runtime, ep.name, &device, NULL, NULL); /* registers its library if there is one */
  }
  list_devices(tool, report, &ep);
  return TOOL_GO;
}

int command_options(int argc, const char **argv) {
  const tool_usage usage = {
      .command = "options",
      .arguments = "[EP]",
      .summary = "List the options of an execution provider (EP), such as cuda, for --ep-option of the other commands.",
      .notes = "SINCE is the first release that has the option; -: every release that iobind works with. Below the table are\n"
               "properties of the EP's devices. Without EP, the command lists the EPs whose options are known.",
      .optional_count = 1,
  };
  tool_state tool;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    const char *name = tool.arguments[0];
    if (name == NULL) list_eps(report);
    if (name != NULL) code = list_of(&tool, report, name);
    if (code == TOOL_GO) code = tool_print(&tool, report, TOOL_DONE);
    report_destroy(report);
  }
  return tool_end(&tool, code);
}
