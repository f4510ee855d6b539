#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/machine.h"

static const char *const hardware_names[] = {"CPU", "GPU", "NPU"};

static const char *hardware_name(int32_t hardware) {
  bool known = hardware >= 0 && hardware < (int32_t)(sizeof hardware_names / sizeof hardware_names[0]);
  return known ? hardware_names[hardware] : "?";
}

static const char *memory_kind(uint32_t flags) {
  if (flags & IOBIND_DEVICE_HOST_MEMORY) return "host";
  if (flags & IOBIND_DEVICE_GPU_MEMORY) return "GPU";
  if (flags & IOBIND_DEVICE_NPU_MEMORY) return "NPU";
  return "device";
}

/* The capabilities as words; for a program an array, for a person a list. */
static json_t *capabilities(uint32_t flags, char *text, size_t capacity) {
  static const struct {
    uint32_t flag;
    const char *name;
  } words[] = {{IOBIND_DEVICE_HOST_ACCESSIBLE, "host-accessible"},
               {IOBIND_DEVICE_ADDRESSABLE, "addressable"},
               {IOBIND_DEVICE_STREAMS, "streams"}};
  json_t *array = json_array();
  text[0] = 0;
  size_t length = 0;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if ((flags & words[i].flag) == 0) continue;
    json_array_append_new(array, json_string(words[i].name));
    int added = snprintf(text + length, capacity - length, "%s%s", length == 0 ? "" : ", ", words[i].name);
    if (added > 0 && (size_t)added < capacity - length) length += (size_t)added;
  }
  return array;
}

static json_t *metadata(const iobind_device *device, size_t count) {
  json_t *object = json_object();
  for (size_t i = 0; i < count; i++) {
    const char *key = NULL;
    const char *value = NULL;
    if (iobind_device_get_metadata(device, i, &key, &value, NULL) != IOBIND_OK) continue;
    json_t *name = report_string(key);
    if (json_is_string(name)) json_object_set_new(object, json_string_value(name), report_string(value));
    json_decref(name);
  }
  return object;
}

static void add_columns(report_table *table, bool check, bool details) {
  report_column(table, "spec", "DEVICE", REPORT_LEFT);
  report_column(table, "works", check ? "WORKS" : NULL, REPORT_LEFT);
  report_column(table, "ep", "EP", REPORT_LEFT);
  report_column(table, "ep_vendor", details ? "EP BY" : NULL, REPORT_LEFT);
  report_column(table, "hardware", "HARDWARE", REPORT_LEFT);
  report_column(table, "vendor", "VENDOR", REPORT_LEFT);
  report_column(table, "vendor_id", "IDS", REPORT_LEFT);
  report_column(table, "device_id", NULL, REPORT_LEFT);
  report_column(table, "memory", "MEMORY", REPORT_LEFT);
  report_column(table, "memory_name", details ? "NAMED" : NULL, REPORT_LEFT);
  report_column(table, "capabilities", "CAPABILITIES", REPORT_LEFT);
  report_column(table, "reason", NULL, REPORT_LEFT);
  report_column(table, "metadata", NULL, REPORT_LEFT);
}

static void add_row(report_table *table, const iobind_device *device, const iobind_device_info *info, bool check,
                    const iobind_error *failure) {
  char text[128];
  report_row(table);
  report_cell(table, report_string(info->spec), NULL);
  bool works = failure->status == IOBIND_OK || failure->status == IOBIND_ERROR_RESULT;
  report_cell(table, check ? json_boolean(works) : json_null(), "%s", works ? "yes" : "no");
  report_cell_mark(table, works ? REPORT_GOOD : REPORT_BAD);
  report_cell(table, report_string(info->ep_name), NULL);
  report_cell(table, report_string(info->ep_vendor), NULL);
  report_cell(table, json_string(hardware_name(info->hardware)), NULL);
  report_cell(table, report_string(info->vendor), "%s", info->vendor[0] != 0 ? info->vendor : "-");
  snprintf(text, sizeof text, "0x%04" PRIx32, info->vendor_id);
  report_cell(table, json_string(text), "0x%04" PRIx32 ":0x%04" PRIx32, info->vendor_id, info->device_id);
  snprintf(text, sizeof text, "0x%04" PRIx32, info->device_id);
  report_cell(table, json_string(text), NULL);
  report_cell(table, json_string(memory_kind(info->flags)), NULL);
  report_cell(table, report_string(info->memory_name), NULL);
  json_t *words = capabilities(info->flags, text, sizeof text);
  report_cell(table, words, "%s", text[0] != 0 ? text : "-");
  report_cell(table, failure->status == IOBIND_OK ? json_null() : report_string(failure->message), "%s", "");
  report_cell(table, metadata(device, info->metadata_count), "%s", "");
}

static void note_metadata(tool_report *report, const iobind_device *device, const iobind_device_info *info) {
  for (size_t i = 0; i < info->metadata_count; i++) {
    const char *key = NULL;
    const char *value = NULL;
    if (iobind_device_get_metadata(device, i, &key, &value, NULL) != IOBIND_OK) continue;
    report_note(report, "%s: %s = %s", info->spec, key, value);
  }
}

int machine_report_devices(tool_state *tool, tool_report *report, bool check, bool details, size_t *working) {
  iobind_runtime_info runtime = IOBIND_RUNTIME_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_runtime_get_info(tool->runtime, &runtime, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  if (check) *working = 0;
  report_table *table = report_add_table(report, "devices", NULL);
  add_columns(table, check, details);
  for (size_t i = 0; i < runtime.device_count; i++) {
    iobind_device *device = iobind_runtime_get_device(tool->runtime, i);
    iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
    iobind_error failure = IOBIND_ERROR_INIT;
    if (device == NULL || iobind_device_get_info(device, &info, &error) != IOBIND_OK) {
      return tool_fail_error(tool, "a device", &error);
    }
    progress_say("trying %s", info.spec);
    const iobind_status found = check ? iobind_device_check(device, &failure) : IOBIND_OK;
    const bool works = found == IOBIND_OK || found == IOBIND_ERROR_RESULT;
    if (check) *working += works;
    add_row(table, device, &info, check, &failure);
    if (found == IOBIND_ERROR_RESULT) {
      report_note(report, "%s: `iobind doctor --compute %s` finds more", tool_reason(&failure), info.spec);
    }
    if (!works) report_note(report, "%s does not work: %s", info.spec, failure.message);
    if (details) note_metadata(report, device, &info);
  }
  return TOOL_GO;
}

static int list(tool_state *tool, bool check) {
  progress_begin(tool);
  int code = tool_open(tool);
  if (code != TOOL_GO) return code;
  tool_report *report = report_create();
  size_t working = 1;
  code = machine_report_devices(tool, report, check, tool->verbosity > 0, &working);
  if (code == TOOL_GO) code = tool_print(tool, report, working > 0 ? TOOL_DONE : TOOL_FAILED);
  report_destroy(report);
  return code;
}

int command_devices(int argc, const char **argv) {
  int check = 0;
  const struct poptOption options[] = {{"check", 'c', POPT_ARG_NONE, &check, 0, "Run a small model on each device", NULL},
                                       POPT_TABLEEND};
  const tool_usage usage = {
      .command = "devices",
      .arguments = "",
      .summary = "List the devices that ONNX Runtime and its execution providers (EPs) offer here.",
      .notes = "DEVICE is the spec for --device of the other commands. Not every listed device works: use --check.\n"
               "-v also shows the metadata.",
      .options = options,
  };
  tool_state tool;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = list(&tool, check != 0);
  return tool_end(&tool, code);
}
