#include "commands/compute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/list.h"
#include "kernels/trial.h"

/* One kernel that is not right. */
typedef struct finding {
  char text[KERNEL_TEXT];
  kernel_finding found;
} finding;

/* The kernels of an operator for a type and a rank. */
typedef struct row {
  char op_type[32];
  int32_t dtype;
  size_t rank;
  size_t counts[KERNEL_OUTCOMES];
  finding *findings;
  size_t finding_count;
} row;

/* What is found on one device. */
typedef struct table {
  const compute_wish *wish;
  row *rows;
  size_t row_count;
  size_t counts[KERNEL_OUTCOMES];
} table;

static const char *const words[KERNEL_OUTCOMES] = {[KERNEL_RIGHT] = "right",
                                                   [KERNEL_WRONG] = "wrong",
                                                   [KERNEL_ON_CPU] = "on the CPU",
                                                   [KERNEL_REFUSED] = "refused",
                                                   [KERNEL_UNKNOWN] = "unknown"};
static const char *const keys[KERNEL_OUTCOMES] = {[KERNEL_RIGHT] = "right",
                                                  [KERNEL_WRONG] = "wrong",
                                                  [KERNEL_ON_CPU] = "on_cpu",
                                                  [KERNEL_REFUSED] = "refused",
                                                  [KERNEL_UNKNOWN] = "unknown"};

/* ---- trying ---- */

/* Whether the first word of a kernel's line is this operator. */
static bool is_of(const char *text, const char *op_type) {
  const size_t length = strcspn(text, " ");
  return strlen(op_type) == length && memcmp(op_type, text, length) == 0;
}

static bool is_wanted(const compute_wish *wish, const char *text) {
  bool wanted = wish->operators == NULL;
  for (size_t i = 0; !wanted && wish->operators[i] != NULL; i++) wanted = is_of(text, wish->operators[i]);
  return wanted;
}

/* The row of a kernel; NULL: no memory. */
static row *find_row(table *all, const char *text, int32_t dtype, size_t rank) {
  for (size_t i = 0; i < all->row_count; i++) {
    row *each = &all->rows[i];
    if (each->dtype == dtype && each->rank == rank && is_of(text, each->op_type)) return each;
  }
  row *rows = realloc(all->rows, (all->row_count + 1) * sizeof *rows);
  if (rows == NULL) return NULL;
  all->rows = rows;
  row *made = &rows[all->row_count++];
  *made = (row){.dtype = dtype, .rank = rank};
  snprintf(made->op_type, sizeof made->op_type, "%.*s", (int)strcspn(text, " "), text);
  return made;
}

static bool add(row *self, const char *text, const kernel_finding *found) {
  self->counts[found->outcome]++;
  if (found->outcome == KERNEL_RIGHT) return true;
  finding *findings = realloc(self->findings, (self->finding_count + 1) * sizeof *findings);
  if (findings == NULL) return false;
  self->findings = findings;
  memcpy(findings[self->finding_count].text, text, KERNEL_TEXT);
  findings[self->finding_count++].found = *found;
  return true;
}

static int try_all(tool_state *tool, iobind_device *device, table *all) {
  kernel_cursor cursor = {0};
  char text[KERNEL_TEXT];
  int32_t dtype = 0;
  while (kernel_list_next(&cursor, text, &dtype)) {
    kernel_finding found;
    size_t rank = 0;
    if (!is_wanted(all->wish, text)) continue;
    progress_say("trying %s on %s", text, tool_device_spec(device));
    if (!kernel_try(tool, device, text, dtype, &found, &rank)) {
      return tool_fail(tool, "the kernel '%s' cannot be made; is memory exhausted?", text);
    }
    row *self = find_row(all, text, dtype, rank);
    if (self == NULL || !add(self, text, &found)) return tool_fail(tool, "out of memory");
    all->counts[found.outcome]++;
  }
  return TOOL_GO;
}

static void free_table(table *all) {
  for (size_t i = 0; i < all->row_count; i++) free(all->rows[i].findings);
  free(all->rows);
}

/* ---- reporting ---- */

static json_t *number(double value) {
  json_t *made = json_real(value); /* NULL for infinity */
  return made != NULL ? made : json_null();
}

/* The kernels of a row with one outcome. */
static json_t *list(const row *self, kernel_outcome outcome) {
  json_t *array = json_array();
  for (size_t i = 0; i < self->finding_count; i++) {
    const finding *each = &self->findings[i];
    if (each->found.outcome != outcome) continue;
    json_t *object = json_object();
    json_object_set_new(object, "kernel", report_string(each->text));
    json_object_set_new(object, "reason", outcome == KERNEL_ON_CPU ? json_null() : report_string(each->found.reason));
    if (outcome == KERNEL_WRONG) {
      json_object_set_new(object, "absolute", number(each->found.difference.absolute));
      json_object_set_new(object, "relative", number(each->found.difference.relative));
      json_object_set_new(object, "beyond", json_integer((json_int_t)each->found.difference.beyond));
    }
    json_array_append_new(array, object);
  }
  return array;
}

/* "right" if all are, and "wrong: 4, right: 12" otherwise. */
static void describe(const row *self, size_t total, char *text, size_t size) {
  size_t length = 0;
  const kernel_outcome order[] = {KERNEL_WRONG, KERNEL_REFUSED, KERNEL_ON_CPU, KERNEL_UNKNOWN, KERNEL_RIGHT};
  for (size_t i = 0; i < KERNEL_OUTCOMES; i++) {
    const size_t count = self->counts[order[i]];
    if (count == total) {
      snprintf(text, size, "%s", words[order[i]]);
    } else if (count > 0) {
      length += (size_t)snprintf(text + length, size - length, "%s%s: %zu", length == 0 ? "" : ", ", words[order[i]], count);
    }
  }
}

static void add_row(report_table *target, const row *self, const char *spec) {
  char text[96] = "";
  size_t total = 0;
  for (size_t i = 0; i < KERNEL_OUTCOMES; i++) total += self->counts[i];
  describe(self, total, text, sizeof text);
  report_row(target);
  report_cell(target, report_string(spec), NULL);
  report_cell(target, json_string(self->op_type), NULL);
  report_cell(target, json_string(iobind_dtype_get_name(self->dtype)), NULL);
  report_cell(target, json_integer((json_int_t)self->rank), NULL);
  report_cell(target, json_integer((json_int_t)total), NULL);
  report_cell(target, json_integer((json_int_t)self->counts[KERNEL_RIGHT]), "%s", text);
  report_cell_mark(target, self->counts[KERNEL_WRONG] > 0        ? REPORT_BAD
                           : self->counts[KERNEL_RIGHT] == total ? REPORT_GOOD
                                                                 : REPORT_FAINT);
  for (int i = KERNEL_WRONG; i < KERNEL_OUTCOMES; i++) report_cell(target, list(self, (kernel_outcome)i), NULL);
}

static void note(tool_report *report, const row *self, const char *spec, bool all) {
  for (size_t i = 0; i < self->finding_count; i++) {
    const finding *each = &self->findings[i];
    const kernel_outcome outcome = each->found.outcome;
    if (outcome == KERNEL_WRONG || (all && outcome != KERNEL_ON_CPU)) {
      report_note(report, "%s: %s, %s: %s: %s", spec, each->text, iobind_dtype_get_name(self->dtype), words[outcome],
                  each->found.reason);
    }
  }
}

/* The kernels that one device gets wrong come behind the tables. */
static void add_table(tool_state *tool, tool_report *report, const table *all, const char *spec, report_table *target) {
  for (size_t i = 0; i < all->row_count; i++) add_row(target, &all->rows[i], spec);
  for (size_t i = 0; i < all->row_count; i++) note(report, &all->rows[i], spec, tool->verbosity > 0);
  size_t total = 0;
  for (size_t i = 0; i < KERNEL_OUTCOMES; i++) total += all->counts[i];
  report_note(report, "%s: %zu kernels: %zu right, %zu wrong, %zu refused, %zu on the CPU, %zu unknown", spec, total,
              all->counts[KERNEL_RIGHT], all->counts[KERNEL_WRONG], all->counts[KERNEL_REFUSED], all->counts[KERNEL_ON_CPU],
              all->counts[KERNEL_UNKNOWN]);
}

static report_table *begin_table(tool_report *report) {
  report_table *target = report_add_table(report, "kernels", NULL);
  report_column(target, "device", "DEVICE", REPORT_LEFT);
  report_column(target, "op_type", "OPERATOR", REPORT_LEFT);
  report_column(target, "dtype", "TYPE", REPORT_LEFT);
  report_column(target, "rank", "RANK", REPORT_RIGHT);
  report_column(target, "count", "KERNELS", REPORT_RIGHT);
  report_column(target, "right", "RESULT", REPORT_LEFT);
  for (int i = KERNEL_WRONG; i < KERNEL_OUTCOMES; i++) report_column(target, keys[i], NULL, REPORT_LEFT);
  return target;
}

static int report_device(tool_state *tool, tool_report *report, iobind_device *device, const compute_wish *wish,
                         report_table *target, size_t *wrong) {
  table all = {.wish = wish};
  const int code = try_all(tool, device, &all);
  if (code == TOOL_GO) add_table(tool, report, &all, tool_device_spec(device), target);
  *wrong += all.counts[KERNEL_WRONG];
  free_table(&all);
  return code;
}

/* Each name must be one of the list: a table without a row would look as if all were right. */
static int check_operators(const tool_state *tool, char *const *operators) {
  for (size_t i = 0; operators != NULL && operators[i] != NULL; i++) {
    kernel_cursor cursor = {0};
    char text[KERNEL_TEXT];
    int32_t dtype = 0;
    bool known = false;
    while (!known && kernel_list_next(&cursor, text, &dtype)) known = is_of(text, operators[i]);
    if (!known) return tool_misuse(tool, "--operator: no kernel of '%s' is in the list", operators[i]);
  }
  return TOOL_GO;
}

static int report_all(tool_state *tool, tool_report *report, const compute_wish *wish, report_table *target, size_t *wrong) {
  iobind_device *device = NULL;
  size_t tried = 0;
  int code = TOOL_GO;
  for (size_t i = 1; code == TOOL_GO && (device = iobind_runtime_get_device(tool->runtime, i)) != NULL; i++) {
    const iobind_status works = iobind_device_check(device, NULL);
    if (works != IOBIND_OK && works != IOBIND_ERROR_RESULT) continue;
    code = report_device(tool, report, device, wish, target, wrong);
    tried++;
  }
  if (code == TOOL_GO && tried == 0) report_note(report, "no device besides the CPU works, so no kernel was tried");
  return code;
}

int compute_report(tool_state *tool, tool_report *report, const compute_wish *wish, size_t *wrong) {
  iobind_device *device = NULL;
  *wrong = 0;
  int code = check_operators(tool, wish->operators);
  if (code == TOOL_GO && wish->device != NULL) code = tool_find_device(tool, "--compute", wish->device, &device);
  if (code != TOOL_GO) return code;
  report_table *target = begin_table(report);
  return device != NULL ? report_device(tool, report, device, wish, target, wrong)
                        : report_all(tool, report, wish, target, wrong);
}
