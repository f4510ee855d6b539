#include "commands/compute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const keys[KERNEL_OUTCOMES] = {
    [KERNEL_RIGHT] = "right",     [KERNEL_WRONG] = "wrong", [KERNEL_ON_CPU] = "on_cpu",
    [KERNEL_REFUSED] = "refused", [KERNEL_FATAL] = "fatal", [KERNEL_UNKNOWN] = "unknown"};

static json_t *number(double value) {
  json_t *made = json_real(value); /* NULL for infinity */
  return made != NULL ? made : json_null();
}

/* The kernels of a row with one outcome. */
static json_t *list(const kernel_row *self, kernel_outcome outcome) {
  json_t *array = json_array();
  for (size_t i = 0; i < self->finding_count; i++) {
    const survey_entry *each = self->findings[i];
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
static void describe(const kernel_row *self, size_t total, char *text, size_t size) {
  size_t length = 0;
  const kernel_outcome order[] = {KERNEL_WRONG, KERNEL_FATAL, KERNEL_REFUSED, KERNEL_ON_CPU, KERNEL_UNKNOWN, KERNEL_RIGHT};
  for (size_t i = 0; i < KERNEL_OUTCOMES; i++) {
    const size_t count = self->counts[order[i]];
    if (count == total) {
      snprintf(text, size, "%s", kernel_words[order[i]]);
    } else if (count > 0) {
      length +=
          (size_t)snprintf(text + length, size - length, "%s%s: %zu", length == 0 ? "" : ", ", kernel_words[order[i]], count);
    }
  }
}

static void add_row(report_table *target, const kernel_row *self, const char *spec) {
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
  report_cell_mark(target, self->counts[KERNEL_WRONG] + self->counts[KERNEL_FATAL] > 0 ? REPORT_BAD
                           : self->counts[KERNEL_RIGHT] == total                       ? REPORT_GOOD
                                                                                       : REPORT_FAINT);
  for (int i = KERNEL_WRONG; i < KERNEL_OUTCOMES; i++) report_cell(target, list(self, (kernel_outcome)i), NULL);
}

static void note(tool_report *report, const kernel_row *self, const char *spec, bool all) {
  for (size_t i = 0; i < self->finding_count; i++) {
    const survey_entry *each = self->findings[i];
    const kernel_outcome outcome = each->found.outcome;
    if (outcome == KERNEL_WRONG || outcome == KERNEL_FATAL || (all && outcome != KERNEL_ON_CPU)) {
      report_note(report, "%s: %s, %s: %s: %s", spec, each->text, iobind_dtype_get_name(self->dtype), kernel_words[outcome],
                  each->found.reason);
    }
  }
}

/* The kernels that one device computes wrongly are listed after the tables. */
static void add_table(tool_state *tool, tool_report *report, const kernel_table *all, const char *spec, report_table *target) {
  for (size_t i = 0; i < all->row_count; i++) add_row(target, &all->rows[i], spec);
  for (size_t i = 0; i < all->row_count; i++) note(report, &all->rows[i], spec, tool->verbosity > 0);
  size_t total = 0;
  for (size_t i = 0; i < KERNEL_OUTCOMES; i++) total += all->counts[i];
  char text[160] = "";
  kernel_summarize(all->counts, text, sizeof text);
  report_note(report, "%s: %zu kernels: %s", spec, total, text);
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

static int report_device(tool_state *tool, tool_report *report, iobind_device *device, survey *tried, report_table *target,
                         size_t *wrong) {
  const char *spec = tool_device_spec(device);
  kernel_table all = {0};
  int code = survey_run(tried, spec);
  if (code == TOOL_GO && !kernel_collect(tried, &all)) code = tool_fail(tool, "out of memory");
  if (code == TOOL_GO) add_table(tool, report, &all, spec, target);
  *wrong += all.counts[KERNEL_WRONG] + all.counts[KERNEL_FATAL];
  kernel_free_table(&all);
  return code;
}

static int report_all(tool_state *tool, tool_report *report, survey *tried, report_table *target, size_t *wrong) {
  iobind_device *device = NULL;
  size_t found = 0;
  int code = TOOL_GO;
  for (size_t i = 1; code == TOOL_GO && (device = iobind_runtime_get_device(tool->runtime, i)) != NULL; i++) {
    const iobind_status works = iobind_device_check(device, NULL);
    if (works != IOBIND_OK && works != IOBIND_ERROR_RESULT) continue;
    code = report_device(tool, report, device, tried, target, wrong);
    found++;
  }
  if (code == TOOL_GO && found == 0) report_note(report, "no device besides the CPU works, so no kernel was tested");
  return code;
}

int compute_report(tool_state *tool, tool_report *report, const compute_wish *wish, size_t *wrong) {
  iobind_device *device = NULL;
  *wrong = 0;
  if (wish->device != NULL) {
    const int code = tool_find_device(tool, "--compute", wish->device, &device);
    if (code != TOOL_GO) return code;
  }
  report_table *target = begin_table(report);
  return device != NULL ? report_device(tool, report, device, wish->survey, target, wrong)
                        : report_all(tool, report, wish->survey, target, wrong);
}
