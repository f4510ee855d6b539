#include "shared/failure.h"

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shared/report.h"

static struct {
  char message[2048];
  bool answered;
} failure;

void failure_begin(void) {
  failure.message[0] = 0;
  failure.answered = false;
}

void failure_keep(const char *message) {
  if (failure.message[0] == 0) snprintf(failure.message, sizeof failure.message, "%s", message);
}

/* The status in brackets, the last one if there are several. */
static const char *status_in(const char *message) {
#define BRACKETED(name, value, text) "[" #name "]",
  static const char *const statuses[] = {IOBIND_STATUS_MAP(BRACKETED)};
#undef BRACKETED
  const char *found = NULL;
  for (const char *at = strchr(message, '['); at != NULL; at = strchr(at + 1, '[')) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
      if (strncmp(at, statuses[i], strlen(statuses[i])) == 0) found = statuses[i];
    }
  }
  return found;
}

json_t *failure_json(void) {
  if (failure.message[0] == 0) return json_null();
  const char *status = status_in(failure.message);
  json_t *name = status == NULL ? json_null() : json_stringn(status + 1, strlen(status) - 2);
  return json_pack("{s:o, s:o}", "message", report_string(failure.message), "status", name);
}

void failure_answered(void) {
  failure.answered = true;
}

void failure_answer(void) {
  if (failure.answered || failure.message[0] == 0) return;
  tool_report *report = report_create();
  report_field(report, "error", NULL, failure_json(), NULL);
  report_print(report, stdout, true);
  report_destroy(report);
  failure_answered();
}
