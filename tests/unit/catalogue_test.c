/* The catalogue of EPs as a program reads it. */
#include "fixture.h"

#include <string.h>

static iobind_catalogue_info find(const char *name) {
  iobind_catalogue_info info = IOBIND_CATALOGUE_INFO_INIT;
  for (size_t i = 0; iobind_catalogue_get_ep(i, &info, &fault) == IOBIND_OK; i++) {
    if (strcmp(info.name, name) == 0) return info;
  }
  fail_msg("'%s' is not in the catalogue", name);
  return info;
}

static void every_ep_has_two_names(void **state) {
  (void)state;
  iobind_catalogue_info info = IOBIND_CATALOGUE_INFO_INIT;
  size_t count = 0;
  while (iobind_catalogue_get_ep(count, &info, &fault) == IOBIND_OK) {
    assert_true(info.name[0] != '\0' && info.ep_name[0] != '\0');
    assert_true((info.option_count > 0) == (info.source[0] != '\0'));
    count++;
  }
  expect(IOBIND_ERROR_NOT_FOUND, iobind_catalogue_get_ep(count, &info, &fault));
  assert_string_equal(find("webgpu").ep_name, "WebGpuExecutionProvider");
  assert_int_equal(find("vdev").on_demand, 1);
  assert_int_equal(find("cuda").on_demand, 0);
}

static void options_of_cuda(void **state) {
  (void)state;
  iobind_catalogue_info cuda = find("cuda");
  iobind_option_info option = IOBIND_OPTION_INFO_INIT;
  size_t found = 0;
  assert_in_range(cuda.option_count, 20, 100);
  for (size_t i = 0; i < cuda.option_count; i++) {
    expect_ok(iobind_catalogue_get_option("cuda", i, &option, &fault));
    assert_true(option.text[0] != '\0' && option.range[0] != '\0');
    if (strcmp(option.key, "arena_extend_strategy") == 0) {
      assert_int_equal(option.kind, IOBIND_OPTION_WORD);
      assert_non_null(strstr(option.range, "kSameAsRequested"));
      found++;
    } else if (strcmp(option.key, "device_id") == 0) {
      assert_int_equal(option.kind, IOBIND_OPTION_INTEGER);
      assert_string_equal(option.preset, "0");
      found++;
    }
  }
  assert_int_equal(found, 2);
  expect(IOBIND_ERROR_NOT_FOUND, iobind_catalogue_get_option("cuda", cuda.option_count, &option, &fault));
  iobind_conflict_info conflict = IOBIND_CONFLICT_INFO_INIT;
  for (size_t i = 0; i < cuda.conflict_count; i++) {
    expect_ok(iobind_catalogue_get_conflict("cuda", i, &conflict, &fault));
    assert_true(conflict.key[0] != '\0' && conflict.other[0] != '\0' && conflict.reason[0] != '\0');
  }
  expect(IOBIND_ERROR_NOT_FOUND, iobind_catalogue_get_conflict("cuda", cuda.conflict_count, &conflict, &fault));
}

static void what_is_wrong(void **state) {
  (void)state;
  iobind_option_info option = IOBIND_OPTION_INFO_INIT;
  iobind_conflict_info conflict = IOBIND_CONFLICT_INFO_INIT;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_catalogue_get_ep(0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_catalogue_get_option(NULL, 0, &option, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_catalogue_get_option("cuda", 0, NULL, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_catalogue_get_option("banana", 0, &option, &fault));
  expect_words("banana");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_catalogue_get_option("cpu", 0, &option, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_catalogue_get_conflict(NULL, 0, &conflict, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_catalogue_get_conflict("banana", 0, &conflict, &fault));
  option.struct_size = 4;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_catalogue_get_option("cuda", 0, &option, &fault));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_ep_has_two_names),
    cmocka_unit_test(options_of_cuda),
    cmocka_unit_test(what_is_wrong),
};

FIXTURE_MAIN(tests, NULL, NULL);
