#include <string.h>

#include "commands/compute.h"
#include "commands/gpus.h"
#include "commands/libraries.h"
#include "commands/machine.h"
#include "commands/shapes.h"
#include "shared/failure.h"

static void report_runtime(tool_report *report, const iobind_runtime_info *info) {
  report_field(report, "ok", NULL, json_true(), NULL);
  report_field(report, "iobind", "iobind", report_string(iobind_get_version_string()), NULL);
  report_field(report, "ort_version", "ONNX Runtime", report_string(info->ort_version), "%s (C interface %u)",
               info->ort_version, (unsigned)info->ort_api_version);
  report_field(report, "ort_api_version", NULL, json_integer(info->ort_api_version), NULL);
  report_field(report, "ort_library", "loaded from", report_string(info->ort_library), NULL);
  report_field(report, "found_by", "found by", report_string(info->found_by), NULL);
}

static int report_eps(tool_state *tool, tool_report *report, size_t count) {
  report_table *table = report_add_table(report, "ep_libraries", NULL);
  report_column(table, "name", "EP LIBRARY", REPORT_LEFT);
  report_column(table, "loaded", "LOADED", REPORT_LEFT);
  report_column(table, "path", "FILE", REPORT_LEFT);
  report_column(table, "reason", NULL, REPORT_LEFT);
  for (size_t i = 0; i < count; i++) {
    iobind_ep_info info = IOBIND_EP_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_runtime_get_ep(tool->runtime, i, &info, &error) != IOBIND_OK) return tool_fail_error(tool, "an EP", &error);
    bool loaded = info.status == IOBIND_OK;
    report_row(table);
    report_cell(table, report_string(info.name), NULL);
    report_cell(table, json_boolean(loaded), NULL);
    report_cell_mark(table, loaded ? REPORT_GOOD : REPORT_BAD);
    report_cell(table, report_string(info.path), "%s", info.path[0] != 0 ? info.path : "(registered by the program)");
    report_cell(table, loaded ? json_null() : report_string(info.message), "%s", "");
    if (!loaded) report_note(report, "%s does not load: %s [%s]", info.name, info.message, iobind_status_get_name(info.status));
  }
  if (count == 0) report_note(report, "none found; --ep-library or IOBIND_EP_LIBRARIES names one, or its directory");
  return TOOL_GO;
}

static int examine(tool_state *tool, tool_report *report, const compute_wish *compute) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = tool_try_open(tool, &error);
  if (status != IOBIND_OK) {
    int code = tool_fail_open(tool, &error);
    if (tool->json) {
      report_field(report, "ok", NULL, json_false(), NULL);
      report_field(report, "iobind", NULL, report_string(iobind_get_version_string()), NULL);
      report_field(report, "reason", NULL, report_string(tool_reason(&error)), NULL);
      report_field(report, "status", NULL, json_string(iobind_status_get_name(error.status)), NULL);
      report_field(report, "error", NULL, failure_json(), NULL);
      code = tool_print(tool, report, code);
    }
    return code;
  }
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  if (iobind_runtime_get_info(tool->runtime, &info, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  report_runtime(report, &info);
  int code = report_eps(tool, report, info.ep_count);
  if (code == TOOL_GO) libraries_report(tool, report, tool->verbosity > 0);
  size_t working = 0;
  if (code == TOOL_GO) code = machine_report_devices(tool, report, true, tool->verbosity > 0, &working);
  if (code != TOOL_GO) return code;
  gpus_report(report);
  shapes_report(tool, report);
  report_field(report, "ok", NULL, json_boolean(working > 0), NULL);
  size_t wrong = 0;
  if (compute != NULL) code = compute_report(tool, report, compute, &wrong);
  if (code != TOOL_GO) return code;
  code = tool_print(tool, report, wrong > 0 ? TOOL_FAILED : TOOL_DONE);
  if (code != TOOL_DONE || working > 0) return code;
  return tool_fail(tool, "no device works, so no model can run; the table of devices has the reasons");
}

static int refuse_without_compute(const tool_state *tool, char *const *operators, char *const *jobs) {
  if (tool->arguments[0] != NULL) return tool_misuse(tool, "'%s': a device is allowed only with --compute", tool->arguments[0]);
  const char *option = operators != NULL                     ? "--operator"
                       : jobs != NULL                        ? "--jobs"
                       : tool->wish.words.ep_options != NULL ? "--ep-option"
                                                             : NULL;
  return option == NULL ? TOOL_GO : tool_misuse(tool, "%s is allowed only with --compute", option);
}

static int begin_survey(tool_state *tool, char *const *operators, char *const *jobs, survey **tried) {
  int64_t count = 0;
  const int code = tool_integer(tool, jobs, "--jobs", 1, SURVEY_JOBS, &count);
  const survey_wish wish = {operators, (size_t)count};
  return code == TOOL_GO ? survey_begin(tool, &wish, tried) : code;
}

int command_doctor(int argc, const char **argv) {
  int compute = 0;
  char **operators = NULL;
  char **jobs = NULL;
  survey *tried = NULL;
  tool_state tool;
  const struct poptOption options[] = {
      {"compute", 0, POPT_ARG_NONE, &compute, 0,
       "Compare the kernels of DEVICE with the CPU's (default: of every device that works)", NULL},
      {"operator", 0, POPT_ARG_ARGV, &operators, 0, "Test only the kernels of this operator, such as Conv; may be repeated",
       "NAME"},
      {"jobs", 0, POPT_ARG_ARGV, &jobs, 0, "The number of processes of --compute (default: one for each core, at most 4)", "N"},
      {"ep-option", 0, POPT_ARG_ARGV, &tool.wish.words.ep_options, 0,
       "Set an option of the device's EP for --compute; may be repeated", "KEY=VALUE"},
      POPT_TABLEEND};
  const tool_usage usage = {
      .command = "doctor",
      .arguments = "[DEVICE]",
      .summary = "Report which ONNX Runtime was found, which execution provider (EP) libraries load, and which devices work.\n"
                 "A device works if a small model ran on it.",
      .notes =
          "--compute runs models of one node, with many operators, types and shapes, on DEVICE and on the CPU, and compares the\n"
          "results: right, wrong, refused, fatal (the process ends), or on the CPU (the device does not take the node).\n"
          "Exit code 1: no device works, and the last line has the reason; or --compute has found a wrong or fatal kernel.",
      .optional_count = 1,
      .options = options,
  };
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO && !compute) code = refuse_without_compute(&tool, operators, jobs);
  if (code == TOOL_GO && compute) code = begin_survey(&tool, operators, jobs, &tried);
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    progress_begin(&tool);
    const compute_wish wish = {tool.arguments[0], tried};
    code = examine(&tool, report, compute != 0 ? &wish : NULL);
    report_destroy(report);
  }
  survey_end(tried);
  tool_free_list(operators);
  tool_free_list(jobs);
  return tool_end(&tool, code);
}
