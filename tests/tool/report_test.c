#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/report.h"

static char *print(const tool_report *report, bool json) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  assert_non_null(stream);
  assert_true(report_print(report, stream, json));
  assert_int_equal(fclose(stream), 0);
  return text;
}

static tool_report *make(void) {
  tool_report *report = report_create();
  assert_non_null(report);
  report_field(report, "model", "model", json_string("m.onnx"), NULL);
  report_field(report, "runs", "number of runs", json_integer(3), "%d times", 3);
  report_field_mark(report, REPORT_GOOD);
  report_field(report, "hidden", NULL, json_real(0.5), NULL);
  report_field_mark(report, REPORT_BAD);
  report_table *table = report_add_table(report, "rows", "Rows");
  report_column(table, "name", "NAME", REPORT_LEFT);
  report_column(table, "bytes", "BYTES", REPORT_RIGHT);
  report_column(table, "secret", NULL, REPORT_LEFT);
  report_column(table, "last", "LAST", REPORT_LEFT);
  report_row(table);
  report_cell(table, json_string("\xC3\xA4pfel"), NULL);
  report_cell(table, json_integer(1536), "%s", "1.5 KiB");
  report_cell(table, json_true(), NULL);
  report_cell(table, json_null(), NULL);
  report_row(table);
  report_cell(table, json_string("a"), NULL);
  report_note(report, "a note\nin one line");
  return report;
}

static void prints_text(void **state) {
  (void)state;
  tool_report *report = make();
  char *text = print(report, false);
  assert_string_equal(text, "model:          m.onnx\n"
                            "number of runs: 3 times\n"
                            "\n"
                            "Rows\n"
                            "NAME     BYTES  LAST\n"
                            "\xC3\xA4pfel  1.5 KiB  -\n"
                            "a\n"
                            "a note in one line\n");
  free(text);
  report_destroy(report);
}

static void prints_json(void **state) {
  (void)state;
  tool_report *report = make();
  char *text = print(report, true);
  json_t *read = json_loads(text, 0, NULL);
  json_t *expected =
      json_pack("{s:s, s:i, s:f, s:[{s:s, s:i, s:b, s:n}, {s:s, s:n, s:n, s:n}]}", "model", "m.onnx", "runs", 3, "hidden", 0.5,
                "rows", "name", "\xC3\xA4pfel", "bytes", 1536, "secret", 1, "last", "name", "a", "bytes", "secret", "last");
  assert_non_null(read);
  assert_true(json_equal(read, expected));
  json_decref(read);
  json_decref(expected);
  free(text);
  report_destroy(report);
}

static void shows_values_by_themselves(void **state) {
  (void)state;
  tool_report *report = report_create();
  report_field(report, "a", "a", json_integer(-5), NULL);
  report_field(report, "b", "b", json_real(0.25), NULL);
  report_field(report, "c", "c", json_true(), NULL);
  report_field(report, "d", "d", json_false(), NULL);
  report_field(report, "e", "e", json_real((double)NAN), NULL);
  report_field(report, "f", "f", json_pack("[i,i]", 1, 2), NULL);
  report_field(report, "g", "g", json_string("two\nlines \033[31m"), NULL);
  report_field(report, "h", "h", json_string(""), NULL);
  char *text = print(report, false);
  assert_string_equal(text, "a: -5\nb: 0.25\nc: yes\nd: no\ne: -\nf: [1,2]\ng: two lines ?[31m\nh:\n");
  free(text);
  report_destroy(report);
}

static void mends_text(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"plain", "plain"},
                                         {"", ""},
                                         {"\xC3\xA4", "\xC3\xA4"},
                                         {"a\xFFz", "a\xEF\xBF\xBDz"},
                                         {"\xC3", "\xEF\xBF\xBD"},
                                         {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                                         {"\xF0\x9F\x98\x80!", "\xF0\x9F\x98\x80!"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    json_t *text = report_string(cases[i][0]);
    assert_non_null(text);
    assert_string_equal(json_string_value(text), cases[i][1]);
    json_decref(text);
  }
  assert_true(json_is_null(report_string(NULL)));
}

static void a_full_disk_is_a_failure(void **state) {
  (void)state;
  tool_report *report = make();
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_false(report_print(report, full, false));
  fclose(full);
  full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_false(report_print(report, full, true));
  fclose(full);
  report_destroy(report);
}

static void misuse_is_a_failure(void **state) {
  (void)state;
  tool_report *report = report_create();
  report_table *table = report_add_table(report, "t", NULL);
  report_column(table, "a", "A", REPORT_LEFT);
  report_row(table);
  report_cell(table, json_integer(1), NULL);
  report_cell(table, json_integer(2), NULL);
  assert_false(report_print(report, stdout, false));
  report_destroy(report);
  /* Without a report, which is without memory, everything is a no-op. */
  report_field(NULL, "a", "a", json_string("x"), NULL);
  report_field_mark(NULL, REPORT_GOOD);
  report_note(NULL, "note");
  assert_null(report_add_table(NULL, "t", NULL));
  report_column(NULL, "a", "A", REPORT_LEFT);
  report_row(NULL);
  report_cell(NULL, json_string("x"), NULL);
  report_cell_mark(NULL, REPORT_BAD);
  assert_false(report_print(NULL, stdout, false));
  report_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prints_text),
      cmocka_unit_test(prints_json),
      cmocka_unit_test(shows_values_by_themselves),
      cmocka_unit_test(mends_text),
      cmocka_unit_test(a_full_disk_is_a_failure),
      cmocka_unit_test(misuse_is_a_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
