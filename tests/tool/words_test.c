#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/fault.h"
#include "shared/nearest.h"
#include "shared/number.h"
#include "shared/outputs.h"
#include "shared/pairing.h"
#include "shared/quote.h"

static void takes_whole_numbers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {{"0", 0}, {"007", 7}, {"-5", -5}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}};
  static const char *const bad[] = {
      "",    "-",   "+1",  " 1", "1 ", "1x", "0x10", "1e3", "1.0", "--1", "9223372036854775808", "-9223372036854775809",
      "1,0", "one", "\t1", "1\n"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    int64_t value = 42;
    assert_true(number_parse_integer(good[i].text, INT64_MIN, INT64_MAX, &value));
    assert_true(value == good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    int64_t value = 42;
    if (number_parse_integer(bad[i], INT64_MIN, INT64_MAX, &value)) fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(value, 42);
  }
  int64_t value = 0;
  assert_false(number_parse_integer("11", 0, 10, &value));
  assert_false(number_parse_integer("-1", 0, 10, &value));
  assert_true(number_parse_integer("10", 0, 10, &value));
}

static void takes_real_numbers(void **state) {
  (void)state;
  static const char *const good[] = {"0", "1.5", "-2", "1e3", ".5", "2.", "1E-3"};
  static const double values[] = {0, 1.5, -2, 1000, 0.5, 2, 0.001};
  static const char *const bad[] = {"",      "nan", "inf", "-inf", "0x1p3", " 1", "1 ",
                                    "1e999", "1,5", "e",   ".",    "--1",   "1e", "1..2"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    double value = 42;
    assert_true(number_parse_real(good[i], -1e9, 1e9, &value));
    assert_true(fabs(value - values[i]) < 1e-12);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    double value = 42;
    if (number_parse_real(bad[i], -1e308, 1e308, &value)) fail_msg("'%s' was taken", bad[i]);
  }
  double value = 0;
  assert_false(number_parse_real("1.5", 0, 1, &value));
}

static void writes_numbers(void **state) {
  (void)state;
  char text[NUMBER_TEXT];
  assert_string_equal(number_format_bytes(0, text), "0 B");
  assert_string_equal(number_format_bytes(1023, text), "1023 B");
  assert_string_equal(number_format_bytes(1024, text), "1.0 KiB");
  assert_string_equal(number_format_bytes(1048575, text), "1.0 MiB");
  assert_string_equal(number_format_bytes(16u << 20, text), "16.0 MiB");
  assert_string_equal(number_format_bytes(UINT64_MAX, text), "16.0 EiB");
  assert_string_equal(number_format_time(0, text), "0 ns");
  assert_string_equal(number_format_time(999, text), "999 ns");
  assert_string_equal(number_format_time(999.6, text), "1.00 us");
  assert_string_equal(number_format_time(12345, text), "12.3 us");
  assert_string_equal(number_format_time(123456789, text), "123 ms");
  assert_string_equal(number_format_time(9.999e9, text), "10.0 s");
  assert_string_equal(number_format_time(12345e9, text), "12345 s");
  assert_string_equal(number_format_time((double)NAN, text), "-");
}

static void the_clock_goes_on(void **state) {
  (void)state;
  uint64_t first = number_now();
  assert_true(number_now() >= first);
}

static const char *nearest(const char *word) {
  static const char *const names[] = {"doctor", "devices", "inspect", "run", "bench"};
  const char *best = NULL;
  for (size_t i = 0; i < 5; i++) best = nearest_of(word, best, names[i]);
  return best;
}

static void finds_what_was_meant(void **state) {
  (void)state;
  assert_string_equal(nearest("docter"), "doctor");
  assert_string_equal(nearest("device"), "devices");
  assert_string_equal(nearest("dev"), "devices");
  assert_string_equal(nearest("inspcet"), "inspect");
  assert_string_equal(nearest("rnu"), "run");
  assert_string_equal(nearest("bnech"), "bench");
  assert_null(nearest("frobnicate"));
  assert_null(nearest(""));
  char large[200];
  memset(large, 'd', sizeof large - 1);
  large[sizeof large - 1] = 0;
  assert_null(nearest(large));
}

static void names_files(void **state) {
  (void)state;
  char large[301];
  memset(large, 'x', 300);
  large[300] = 0;
  memcpy(large + 199, "\xE2\x82\xAC", 3);
  const char *const names[] = {"y", "Y", "a/b", "a:b", "a_b", "", ".", "..", "\xC3\xA4", "nul\x01", large, "y_2"};
  static const char *const expected[] = {"y.npy",   "Y_2.npy", "a_b.npy",      "a_b_2.npy", "a_b_3.npy", "_.npy",
                                         "__2.npy", "_..npy",  "\xC3\xA4.npy", "nul_.npy",  NULL,        "y_2_2.npy"};
  enum { COUNT = sizeof names / sizeof names[0] };
  char *files[COUNT];
  assert_true(outputs_name_files(names, COUNT, files));
  for (size_t i = 0; i < COUNT; i++) {
    if (expected[i] != NULL) assert_string_equal(files[i], expected[i]);
    for (size_t j = 0; j < i; j++) assert_string_not_equal(files[i], files[j]);
  }
  assert_int_equal(strlen(files[10]), 199 + 4);
  for (size_t i = 0; i < COUNT; i++) free(files[i]);
}

/* Names that differ only behind what is kept: each number is tried once, so that many names take no time. */
static void names_many_files(void **state) {
  (void)state;
  enum { COUNT = 20000, LENGTH = 240 };
  char *texts = malloc((size_t)COUNT * (LENGTH + 1));
  const char **names = calloc(COUNT, sizeof *names);
  char **files = calloc(COUNT, sizeof *files);
  assert_true(texts != NULL && names != NULL && files != NULL);
  for (int i = 0; i < COUNT; i++) {
    char *text = texts + (size_t)i * (LENGTH + 1);
    snprintf(text, LENGTH + 1, "%0*d", LENGTH, i);
    names[i] = text;
  }
  assert_true(outputs_name_files(names, COUNT, files));
  char expected[LENGTH];
  snprintf(expected, sizeof expected, "%0200d_%d.npy", 0, COUNT);
  assert_string_equal(files[COUNT - 1], expected);
  for (int i = 0; i < COUNT; i++) free(files[i]);
  free(files);
  free(names);
  free(texts);
}

/* Of a name with code points that steer a terminal, or turn its direction, nothing is left that does. */
/* NOLINTBEGIN(misc-misleading-bidirectional): that is what is tested */
static void leaves_out_what_steers_a_terminal(void **state) {
  (void)state;
  const char *const names[] = {
      "-rf", "a\xC2\x9B\x33m", "b\xE2\x80\xAEgnp", "c\x9B\x33m", "d\xE2\x81\xA6", "e\xC2\xA0\xE2\x82\xAC", "\x7F"};
  static const char *const expected[] = {"_rf.npy", "a_3m.npy", "b_gnp.npy", "c_3m.npy", "d_.npy", "e\xC2\xA0\xE2\x82\xAC.npy",
                                         "_.npy"};
  enum { COUNT = sizeof names / sizeof names[0] };
  char *files[COUNT];
  assert_true(outputs_name_files(names, COUNT, files));
  for (size_t i = 0; i < COUNT; i++) {
    assert_string_equal(files[i], expected[i]);
    free(files[i]);
  }
  tool_fault fault;
  assert_false(fault_set(&fault, "%s", "x\ny\xC2\x9B\x33m\xE2\x80\xAE \xC3\xA4 \xE2\x82\xAC \xFF\x1B"));
  assert_string_equal(fault.text, "x y?3m? \xC3\xA4 \xE2\x82\xAC ??");
}

/* NOLINTEND(misc-misleading-bidirectional) */

static void quotes_words(void **state) {
  (void)state;
  static const char *const words[][2] = {{"", "''"}, {"n=1", "'n=1'"}, {"a'$(reboot)'", "'a'\\''$(reboot)'\\'''"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    char *quoted = quote_word(words[i][0]);
    assert_string_equal(quoted, words[i][1]);
    free(quoted);
  }
}

static void pairs_states_by_name(void **state) {
  (void)state;
  static const char *const good[][2] = {{"present.0.key", "past_key_values.0.key"},
                                        {"stateN", "state"},
                                        {"hn", "h"},
                                        {"r1o", "r1i"},
                                        {"new_h", "h"},
                                        {"h_out", "h_in"},
                                        {"new_cached_key_0", "cached_key_0"},
                                        {"Next.State", "state"},
                                        {"h", "h"}};
  static const char *const bad[][2] = {{"present.0.key", "past_key_values.1.key"},
                                       {"present.0.key", "past_key_values.0.value"},
                                       {"present.10.key", "past_key_values.0.key"},
                                       {"output", "input"},
                                       {"y", "x"},
                                       {"hn", "c"},
                                       {"", ""},
                                       {"logits", "input_ids"}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    if (!pairing_matches(good[i][0], good[i][1])) fail_msg("'%s' is not '%s'", good[i][0], good[i][1]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (pairing_matches(bad[i][0], bad[i][1])) fail_msg("'%s' is '%s'", bad[i][0], bad[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_states_by_name),
      cmocka_unit_test(takes_whole_numbers),
      cmocka_unit_test(takes_real_numbers),
      cmocka_unit_test(writes_numbers),
      cmocka_unit_test(the_clock_goes_on),
      cmocka_unit_test(finds_what_was_meant),
      cmocka_unit_test(names_files),
      cmocka_unit_test(names_many_files),
      cmocka_unit_test(leaves_out_what_steers_a_terminal),
      cmocka_unit_test(quotes_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
