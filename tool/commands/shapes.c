#include "commands/shapes.h"

#include <stdlib.h>
#include <string.h>

static const char ep_name[] = "CUDAExecutionProvider";
static const char option[] = "cudnn_conv_algo_search";
static const char preset[] = "EXHAUSTIVE";

/* Releases are N of ONNX Runtime 1.N: the first and the last in which it was observed. */
typedef struct shape_fact {
  const char *op_type;
  const char *search; /* the option's value; NULL: each of them */
  unsigned first, last;
  const char *does;
} shape_fact;

static const shape_fact facts[SHAPE_FACTS] = {
    {"Conv", NULL, 24, 31, "creates plans after each change of shape, also back to an earlier one"},
    {"ConvTranspose", NULL, 24, 31, "creates plans after each change of shape, also back to an earlier one"},
    {"FusedConv", "EXHAUSTIVE", 24, 31, "runs all algorithms once for each new shape"},
    {"FusedConv", "HEURISTIC", 24, 31, "asks cuDNN once for each new shape, and runs none to choose"},
    {"FusedConv", "DEFAULT", 24, 31, "uses one algorithm for every shape"},
};

static bool is_seen(const shape_fact *fact, const char *version) {
  unsigned release = strncmp(version, "1.", 2) == 0 ? (unsigned)strtoul(version + 2, NULL, 10) : 0;
  return fact->first <= release && release <= fact->last;
}

static bool is_of_ep(const iobind_device *device) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  return iobind_device_get_info(device, &info, NULL) == IOBIND_OK && strcmp(info.ep_name, ep_name) == 0;
}

static bool has_device(const tool_state *tool) {
  const iobind_device *device = NULL;
  bool has = false;
  for (size_t i = 0; !has && (device = iobind_runtime_get_device(tool->runtime, i)) != NULL; i++) has = is_of_ep(device);
  return has;
}

void shapes_report(const tool_state *tool, tool_report *report) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  if (!has_device(tool) || iobind_runtime_get_info(tool->runtime, &info, NULL) != IOBIND_OK) return;
  report_table *table =
      report_add_table(report, "shape_changes", "cuda: what a convolution does when its input's shape changes");
  report_column(table, "operator", "OPERATOR", REPORT_LEFT);
  report_column(table, "search", "CUDNN_CONV_ALGO_SEARCH", REPORT_LEFT);
  report_column(table, "does", "DOES", REPORT_LEFT);
  report_column(table, "seen", NULL, REPORT_LEFT);
  for (size_t i = 0; i < SHAPE_FACTS; i++) {
    report_row(table);
    report_cell(table, json_string(facts[i].op_type), NULL);
    report_cell(table, report_string(facts[i].search), "%s", facts[i].search == NULL ? "any" : facts[i].search);
    report_cell(table, json_string(facts[i].does), NULL);
    report_cell(table, json_boolean(is_seen(&facts[i], info.ort_version)), NULL);
  }
  if (!is_seen(&facts[0], info.ort_version)) {
    report_note(report, "observed with ONNX Runtime 1.%u to 1.%u; %s may differ", facts[0].first, facts[0].last,
                info.ort_version);
  }
}

/* ---- of a model -------------------------------------------------------------------------------------------------- */

uint32_t shapes_flags(const iobind_device *device) {
  return device == NULL || is_of_ep(device) ? IOBIND_SESSION_PLACEMENT : 0;
}

static bool has_open_dims(const iobind_session *session) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  bool has = false;
  for (size_t i = 0; iobind_session_get_input(session, i, &value, NULL) == IOBIND_OK; i++) {
    has = has || value.has_shape == 0;
    for (size_t axis = 0; axis < value.rank; axis++) has = has || value.dims[axis] < 0;
  }
  return has;
}

/* The value that the command line gives the option, by its name alone, or after the EP's. */
static const char *find_search(const tool_state *tool) {
  const wish_pairs *given = &tool->wish.ep_options;
  const char *found = preset;
  for (size_t i = 0; i < given->count; i++) {
    const char *dot = strchr(given->keys[i], '.');
    if (strcmp(dot == NULL ? given->keys[i] : dot + 1, option) == 0) found = given->values[i];
  }
  return found;
}

/* The line that is about a node; SHAPE_FACTS: none. */
static size_t find_fact(const char *op_type, const char *search) {
  size_t found = 0;
  while (found < SHAPE_FACTS && (strcmp(facts[found].op_type, op_type) != 0 ||
                                 (facts[found].search != NULL && strcmp(facts[found].search, search) != 0))) {
    found++;
  }
  return found;
}

shape_counts shapes_count(const tool_state *tool, const iobind_session *session) {
  iobind_node_info node = IOBIND_NODE_INFO_INIT;
  const char *search = find_search(tool);
  shape_counts counts = {{0}};
  if (!has_open_dims(session)) return counts;
  for (size_t i = 0; iobind_session_get_node(session, i, &node, NULL) == IOBIND_OK; i++) {
    size_t fact = strcmp(node.ep_name, ep_name) == 0 ? find_fact(node.op_type, search) : SHAPE_FACTS;
    if (fact < SHAPE_FACTS) counts.nodes[fact]++;
  }
  return counts;
}

void shapes_note(const tool_state *tool, tool_report *report, const shape_counts *counts, const char *model,
                 const char *device) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  if (iobind_runtime_get_info(tool->runtime, &info, NULL) != IOBIND_OK) return;
  for (size_t i = 0; i < SHAPE_FACTS; i++) {
    if (counts->nodes[i] == 0) continue;
    report_note(report, "%s on %s: the times are for one shape: each of %zu %s %s (%s=%s).", model, device, counts->nodes[i],
                facts[i].op_type, facts[i].does, option, find_search(tool));
    if (!is_seen(&facts[i], info.ort_version)) {
      report_note(report, "  observed with ONNX Runtime 1.%u to 1.%u; %s may differ.", facts[i].first, facts[i].last,
                  info.ort_version);
    }
  }
}
