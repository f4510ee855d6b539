#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/pairing.h"
#include "shared/tool.h"

enum { SHOWN_NODES = 20 };

/* ---- the model's metadata ---- */

static void add_text(tool_report *report, const char *key, const char *label, const char *text) {
  report_field(report, key, text[0] != 0 ? label : NULL, report_string(text), NULL);
}

static void report_model(tool_report *report, const char *path, const iobind_session_info *info, const iobind_device *device) {
  report_field(report, "model", "model", report_string(path), NULL);
  add_text(report, "graph_name", "graph", info->graph_name);
  add_text(report, "producer", "producer", info->producer);
  add_text(report, "domain", "domain", info->domain);
  add_text(report, "description", "description", info->description);
  /* ORT gives the largest number if the model gives none. */
  bool versioned = info->model_version != 0 && info->model_version != INT64_MAX;
  report_field(report, "model_version", versioned ? "version" : NULL,
               versioned ? json_integer(info->model_version) : json_null(), NULL);
  report_field(report, "opset", info->opset > 0 ? "opset" : NULL, info->opset > 0 ? json_integer(info->opset) : json_null(),
               NULL);
  report_field(report, "device", "device", report_string(tool_device_spec(device)), NULL);
}

/* ---- inputs and outputs ---- */

static json_t *symbols_json(const iobind_value_info *value) {
  json_t *array = json_array();
  for (size_t i = 0; i < value->rank; i++) {
    bool named = value->dims[i] < 0 && value->symbols[i][0] != 0;
    json_array_append_new(array, named ? report_string(value->symbols[i]) : json_null());
  }
  return array;
}

static const char *kind_json(int32_t kind) {
  static const char *const names[] = {"unknown", "tensor", "sequence", "map", "opaque", "sparse", "optional"};
  return kind >= 0 && kind < (int32_t)(sizeof names / sizeof names[0]) ? names[kind] : names[0];
}

static bool add_value(report_table *table, const iobind_value_info *value) {
  char *described = tool_describe_value(value);
  if (described == NULL) return false;
  bool tensor = value->kind == IOBIND_VALUE_TENSOR;
  bool shaped = tensor && value->has_shape;
  const char *place = tensor ? tool_device_spec(value->device) : "-";
  bool pinned = tensor && value->memory == IOBIND_MEMORY_HOST_ACCESSIBLE;
  report_row(table);
  report_cell(table, report_string(value->name), NULL);
  report_cell(table, json_string(kind_json(value->kind)), NULL);
  report_cell(table, tensor ? json_string(iobind_dtype_get_name(value->dtype)) : json_null(), "%s", described);
  report_cell(table, shaped ? tool_dims_json(value->dims, value->rank) : json_null(), NULL);
  report_cell(table, shaped ? symbols_json(value) : json_null(), NULL);
  report_cell(table, tensor ? report_string(place) : json_null(), "%s%s", place, pinned ? "/pinned" : "");
  report_cell(table, tensor ? json_string(pinned ? "host_accessible" : "default") : json_null(), NULL);
  report_cell(table, tensor ? report_string(value->memory_name) : json_null(), "%s", tensor ? value->memory_name : "-");
  free(described);
  return true;
}

typedef iobind_status (*get_value)(const iobind_session *session, size_t index, iobind_value_info *value, iobind_error *error);

typedef struct value_list {
  const char *key;
  const char *label;
  size_t count;
  get_value get;
} value_list;

static int report_values(tool_state *tool, tool_report *report, const iobind_session *session, value_list values) {
  report_table *table = report_add_table(report, values.key, NULL);
  report_column(table, "name", values.label, REPORT_LEFT);
  report_column(table, "kind", NULL, REPORT_LEFT);
  report_column(table, "dtype", "TYPE", REPORT_LEFT);
  report_column(table, "dims", NULL, REPORT_LEFT);
  report_column(table, "symbols", NULL, REPORT_LEFT);
  report_column(table, "device", "DEVICE", REPORT_LEFT);
  report_column(table, "memory", NULL, REPORT_LEFT);
  report_column(table, "memory_name", "MEMORY", REPORT_LEFT);
  for (size_t i = 0; i < values.count; i++) {
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (values.get(session, i, &value, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
    if (!add_value(table, &value)) return tool_fail(tool, "out of memory");
  }
  return TOOL_GO;
}

/* ---- states: outputs that may be the next run's inputs ---- */

typedef struct pairs {
  iobind_session *session;
  size_t outputs;
  size_t inputs;
  bool *likely; /* by type and name, of each output and input */
} pairs;

static bool *is_likely(const pairs *of, size_t output, size_t input) {
  return &of->likely[output * of->inputs + input];
}

static bool fits(const iobind_value_info *output, const iobind_value_info *input) {
  bool same = output->kind == IOBIND_VALUE_TENSOR && input->kind == IOBIND_VALUE_TENSOR && output->dtype == input->dtype;
  bool known = same && output->has_shape && input->has_shape;
  same = same && (!known || output->rank == input->rank);
  for (size_t i = 0; known && same && i < input->rank; i++) {
    same = output->dims[i] < 0 || input->dims[i] < 0 || output->dims[i] == input->dims[i];
  }
  return same;
}

static iobind_status find_likely(pairs *of, iobind_error *error) {
  iobind_value_info output = IOBIND_VALUE_INFO_INIT, input = IOBIND_VALUE_INFO_INIT;
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < of->outputs * of->inputs; i++) {
    status = iobind_session_get_output(of->session, i / of->inputs, &output, error);
    if (status == IOBIND_OK) status = iobind_session_get_input(of->session, i % of->inputs, &input, error);
    of->likely[i] = status == IOBIND_OK && fits(&output, &input) && pairing_matches(output.name, input.name);
  }
  return status;
}

/* Is there no other pair of this output or this input that is as likely? */
static bool is_only_one(const pairs *of, size_t output, size_t input) {
  size_t count = 0;
  for (size_t i = 0; i < of->inputs; i++) count += *is_likely(of, output, i) ? 1 : 0;
  for (size_t i = 0; i < of->outputs; i++) count += *is_likely(of, i, input) ? 1 : 0;
  return *is_likely(of, output, input) && count == 2;
}

static report_table *add_states(tool_report *report) {
  report_table *table = report_add_table(report, "states", NULL);
  report_column(table, "output", "STATE", REPORT_LEFT);
  report_column(table, "input", "CARRIED TO", REPORT_LEFT);
  report_column(table, "kind", "KIND", REPORT_LEFT);
  report_column(table, "axis", "AXIS", REPORT_RIGHT);
  return table;
}

static iobind_status add_state(tool_report *report, report_table **table, const pairs *of, size_t output, size_t input,
                               iobind_error *error) {
  static const char *const kinds[] = {"unknown", "recurrent", "growing", "window", "capacity"};
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_value_info from = IOBIND_VALUE_INFO_INIT, to = IOBIND_VALUE_INFO_INIT;
  iobind_status status = iobind_session_get_state_kind(of->session, output, input, &info, error);
  bool shown = info.kind != IOBIND_STATE_UNKNOWN || is_only_one(of, output, input);
  if (status != IOBIND_OK || !shown) return status;
  status = iobind_session_get_output(of->session, output, &from, error);
  if (status == IOBIND_OK) status = iobind_session_get_input(of->session, input, &to, error);
  if (status != IOBIND_OK) return status;
  if (*table == NULL) *table = add_states(report);
  bool known = info.axis != SIZE_MAX;
  report_row(*table);
  report_cell(*table, report_string(from.name), NULL);
  report_cell(*table, report_string(to.name), NULL);
  report_cell(*table, json_string(kinds[info.kind]), NULL);
  report_cell(*table, known ? json_integer((json_int_t)info.axis) : json_null(), known ? "%zu" : "-", info.axis);
  return IOBIND_OK;
}

static int report_states(tool_state *tool, tool_report *report, iobind_session *session, const iobind_session_info *info) {
  pairs of = {.session = session, .outputs = info->output_count, .inputs = info->input_count};
  report_table *table = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  of.likely = calloc(of.outputs * of.inputs + 1, sizeof *of.likely);
  if (of.likely == NULL) return tool_fail(tool, "out of memory");
  iobind_status status = find_likely(&of, &error);
  for (size_t i = 0; status == IOBIND_OK && i < of.outputs * of.inputs; i++) {
    status = add_state(report, &table, &of, i / of.inputs, i % of.inputs, &error);
  }
  free(of.likely);
  if (table == NULL) report_field(report, "states", NULL, json_array(), NULL);
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(tool, NULL, &error);
}

/* ---- where the nodes run ---- */

typedef struct node_count {
  const char *ep_name;
  const char *domain;
  const char *op_type;
  size_t count;
} node_count;

static int by_ep_and_count(const void *left, const void *right) {
  const node_count *a = left;
  const node_count *b = right;
  int order = strcmp(a->ep_name, b->ep_name);
  if (order != 0) return order;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  order = strcmp(a->op_type, b->op_type);
  return order != 0 ? order : strcmp(a->domain, b->domain);
}

static int by_operator(const void *left, const void *right) {
  const node_count *a = left;
  const node_count *b = right;
  int order = strcmp(a->ep_name, b->ep_name);
  if (order == 0) order = strcmp(a->domain, b->domain);
  return order != 0 ? order : strcmp(a->op_type, b->op_type);
}

/* Merge equal neighbours of a sorted list; returns how many are left. */
static size_t merge_counts(node_count *counts, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept > 0 && by_operator(&counts[kept - 1], &counts[i]) == 0) {
      counts[kept - 1].count++;
    } else {
      counts[kept++] = counts[i];
    }
  }
  return kept;
}

/* One row for each EP, from a list sorted by EP. Returns false if out of memory. */
static bool add_placement(tool_report *report, const node_count *counts, size_t count) {
  report_table *table = report_add_table(report, "placement", NULL);
  report_column(table, "ep", "EP", REPORT_LEFT);
  report_column(table, "nodes", "NODES", REPORT_RIGHT);
  report_column(table, "operators", "OPERATORS", REPORT_LEFT);
  for (size_t first = 0, next = 0; first < count; first = next) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL) return false;
    size_t nodes = 0;
    json_t *operators = json_object();
    for (next = first; next < count && strcmp(counts[next].ep_name, counts[first].ep_name) == 0; next++) {
      const node_count *entry = &counts[next];
      char name[256];
      snprintf(name, sizeof name, "%s%s%s", entry->domain, entry->domain[0] != 0 ? "." : "", entry->op_type);
      fprintf(stream, "%s%s %zu", next == first ? "" : ", ", name, entry->count);
      json_object_set_new(operators, name, json_integer((json_int_t)entry->count));
      nodes += entry->count;
    }
    bool closed = fclose(stream) == 0;
    report_row(table);
    report_cell(table, report_string(counts[first].ep_name), NULL);
    report_cell(table, json_integer((json_int_t)nodes), NULL);
    report_cell(table, operators, "%s", closed ? text : "");
    free(text);
    if (!closed) return false;
  }
  return true;
}

/* The names of the nodes that the device did not take: there data crosses the link within a run. */
static int report_fallen(tool_state *tool, tool_report *report, const iobind_session *session, size_t count,
                         const char *ep_name) {
  report_table *table = NULL;
  size_t fallen = 0;
  size_t limit = tool->json || tool->verbosity > 0 ? count : SHOWN_NODES;
  for (size_t i = 0; i < count; i++) {
    iobind_node_info node = IOBIND_NODE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    if (iobind_session_get_node(session, i, &node, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
    if (strcmp(node.ep_name, ep_name) == 0) continue;
    if (fallen++ == 0) {
      table = report_add_table(report, "fallen", NULL);
      report_column(table, "name", "NODE NOT ON THE DEVICE", REPORT_LEFT);
      report_column(table, "op_type", "OPERATOR", REPORT_LEFT);
      report_column(table, "domain", NULL, REPORT_LEFT);
      report_column(table, "ep", "EP", REPORT_LEFT);
    }
    if (fallen > limit) continue;
    report_row(table);
    report_cell(table, report_string(node.name), "%s", node.name[0] != 0 ? node.name : "(no name)");
    report_cell(table, report_string(node.op_type), NULL);
    report_cell(table, report_string(node.domain), NULL);
    report_cell(table, report_string(node.ep_name), NULL);
  }
  if (fallen > limit) report_note(report, "and %zu more; -v or --json shows all", fallen - limit);
  if (fallen == 0) {
    report_field(report, "fallen", NULL, json_array(), NULL);
    report_note(report, "every node runs on the device");
  }
  return TOOL_GO;
}

static int report_nodes(tool_state *tool, tool_report *report, const iobind_session *session, size_t count,
                        const iobind_device *device) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (iobind_device_get_info(device, &info, &error) != IOBIND_OK) return tool_fail_error(tool, NULL, &error);
  node_count *counts = calloc(count + 1, sizeof *counts);
  if (counts == NULL) return tool_fail(tool, "out of memory");
  int code = TOOL_GO;
  for (size_t i = 0; code == TOOL_GO && i < count; i++) {
    iobind_node_info node = IOBIND_NODE_INFO_INIT;
    if (iobind_session_get_node(session, i, &node, &error) != IOBIND_OK) code = tool_fail_error(tool, NULL, &error);
    counts[i] = (node_count){node.ep_name, node.domain, node.op_type, 1};
  }
  if (code == TOOL_GO) {
    qsort(counts, count, sizeof *counts, by_operator);
    size_t kinds = merge_counts(counts, count);
    qsort(counts, kinds, sizeof *counts, by_ep_and_count);
    if (!add_placement(report, counts, kinds)) code = tool_fail(tool, "out of memory");
  }
  free(counts);
  report_field(report, "node_count", NULL, json_integer((json_int_t)count), NULL);
  if (code == TOOL_GO) code = report_fallen(tool, report, session, count, info.ep_name);
  return code;
}

/* ---- the command ---- */

/* The user asked where the nodes run. */
static bool is_placed(const tool_state *tool) {
  return tool->devices != NULL || tool->wish.policy != IOBIND_POLICY_NONE;
}

static int describe(tool_state *tool, tool_report *report, const char *path, iobind_session *session,
                    const iobind_device *device) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_get_info(session, &info, &error) != IOBIND_OK) return tool_fail_error(tool, path, &error);
  report_model(report, path, &info, device);
  const value_list inputs = {"inputs", "INPUT", info.input_count, iobind_session_get_input};
  const value_list outputs = {"outputs", "OUTPUT", info.output_count, iobind_session_get_output};
  int code = report_values(tool, report, session, inputs);
  if (code == TOOL_GO) {
    code = report_values(tool, report, session, outputs);
  }
  if (code == TOOL_GO) code = report_states(tool, report, session, &info);
  if (code == TOOL_GO && is_placed(tool)) code = report_nodes(tool, report, session, info.node_count, device);
  if (code == TOOL_GO) code = tool_report_profile(tool, session, report);
  return code == TOOL_GO ? tool_print(tool, report, TOOL_DONE) : code;
}

/* Nothing is run, but entries that a run would refuse are refused. */
static int check_run_configs(tool_state *tool, iobind_session *session) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_binding *binding = NULL;
  if (tool->wish.run_configs.count == 0) return TOOL_GO;
  iobind_status status = iobind_binding_create(session, &binding, &error);
  if (status == IOBIND_OK) status = wish_configure(&tool->wish.run_configs, binding, &error);
  iobind_binding_destroy(binding);
  return status == IOBIND_OK ? TOOL_GO : tool_fail_error(tool, "--run-config", &error);
}

static int inspect(tool_state *tool) {
  const char *path = tool->arguments[0];
  for (size_t i = 0; i < tool->dim_count; i++) {
    if (tool->dims[i].axis < 0) continue;
    return tool_misuse(tool, "--dim %s: only a symbol can be fixed here; INPUT[AXIS] is for the commands that run",
                       tool->dim_texts[i]);
  }
  iobind_device *device = NULL;
  iobind_session *session = NULL;
  progress_begin(tool);
  int code = tool_open(tool);
  if (code == TOOL_GO) code = tool_first_device(tool, &device);
  if (code == TOOL_GO) code = tool_load(tool, path, &device, is_placed(tool) ? IOBIND_SESSION_PLACEMENT : 0, &session);
  if (code == TOOL_GO) code = check_run_configs(tool, session);
  if (code == TOOL_GO) {
    tool_report *report = report_create();
    code = describe(tool, report, path, session, device);
    report_destroy(report);
  }
  iobind_session_destroy(session);
  return code;
}

int command_inspect(int argc, const char **argv) {
  const tool_usage usage = {
      .command = "inspect",
      .arguments = "MODEL",
      .summary = "Show a model's inputs and outputs and, with --device, which execution provider (EP) runs which nodes.",
      .notes =
          "TYPE shows an open dim by its symbol, or as '?'. DEVICE and MEMORY are where the session reads an input or leaves\n"
          "an output: data that are already there need not be copied. STATE lists outputs that may be the next run's inputs.\n"
          "KIND is found in the model's graph; it is unknown if only names and types suggest the pair.",
      .takes = TOOL_TAKES_DEVICE | TOOL_TAKES_DIMS | TOOL_TAKES_SESSION | TOOL_TAKES_RUNS,
      .argument_count = 1,
  };
  tool_state tool;
  int code = tool_begin(&tool, &usage, argc, argv);
  if (code == TOOL_GO) code = inspect(&tool);
  return tool_end(&tool, code);
}
