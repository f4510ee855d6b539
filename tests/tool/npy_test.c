#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/npy.h"

static char folder[] = "/tmp/iobind-npy-XXXXXX";
static char path[64];

static int make_folder(void **state) {
  (void)state;
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(path, sizeof path, "%s/a.npy", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

/* A file of version `major` with this header and `bytes` of data behind it. */
static void save(unsigned char major, const char *header, const void *data, size_t bytes) {
  size_t length = strlen(header);
  unsigned char start[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', major, 0, (unsigned char)length, (unsigned char)(length >> 8),
                             0,    0};
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(start, 1, major == 1 ? 10 : 12, file), major == 1 ? 10 : 12);
  assert_int_equal(fwrite(header, 1, length, file), length);
  if (bytes > 0) assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void expect_refused(const char *part) {
  npy_array array;
  tool_fault fault = {""};
  assert_false(npy_read(path, &array, &fault));
  assert_null(array.data);
  if (strstr(fault.text, part) == NULL) fail_msg("expected \"%s\" in: %s", part, fault.text);
  assert_non_null(strstr(fault.text, path));
}

static void reads_what_numpy_writes(void **state) {
  (void)state;
  const float values[] = {1, 2, 3, 4, 5, 6};
  npy_array array;
  tool_fault fault;
  for (unsigned char major = 1; major <= 3; major++) {
    save(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n", values, sizeof values);
    assert_true(npy_read(path, &array, &fault));
    assert_int_equal(array.kind, 'f');
    assert_int_equal(array.item_bytes, 4);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.dims[0], 2);
    assert_int_equal(array.dims[1], 3);
    assert_int_equal(array.count, 6);
    assert_memory_equal(array.data, values, sizeof values);
    npy_free(&array);
    assert_null(array.data);
  }
}

static void reads_scalars_and_nothing(void **state) {
  (void)state;
  const int64_t value = 16000;
  npy_array array;
  tool_fault fault;
  save(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", &value, sizeof value);
  assert_true(npy_read(path, &array, &fault));
  assert_int_equal(array.rank, 0);
  assert_int_equal(array.count, 1);
  assert_memory_equal(array.data, &value, sizeof value);
  npy_free(&array);
  save(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 0, 8), }\n", NULL, 0);
  assert_true(npy_read(path, &array, &fault));
  assert_int_equal(array.count, 0);
  assert_null(array.data);
  npy_free(&array);
}

static void reads_other_orders(void **state) {
  (void)state;
  npy_array array;
  tool_fault fault;
  /* Two rows of three, column by column, the high byte first. */
  const unsigned char data[] = {0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 1, 6};
  const uint16_t expected[] = {1, 2, 3, 4, 5, 0x106};
  save(1, "{\"shape\": (2L, 3L), \"fortran_order\": True, \"descr\": \">u2\"}", data, sizeof data);
  assert_true(npy_read(path, &array, &fault));
  assert_int_equal(array.kind, 'u');
  assert_memory_equal(array.data, expected, sizeof expected);
  npy_free(&array);
  unsigned char cube[24];
  for (unsigned char i = 0; i < 24; i++) cube[i] = i;
  save(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", cube, sizeof cube);
  assert_true(npy_read(path, &array, &fault));
  const unsigned char *read = array.data;
  for (size_t i = 0; i < 2; i++) {
    for (size_t j = 0; j < 3; j++) {
      for (size_t k = 0; k < 4; k++) assert_int_equal(read[(i * 3 + j) * 4 + k], i + 2 * j + 6 * k);
    }
  }
  npy_free(&array);
  const unsigned char complex[] = {63, 128, 0, 0, 64, 0, 0, 0};
  const float parts[] = {1.0f, 2.0f};
  save(1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }", complex, sizeof complex);
  assert_true(npy_read(path, &array, &fault));
  assert_memory_equal(array.data, parts, sizeof parts);
  npy_free(&array);
}

static void makes_truth_of_bools(void **state) {
  (void)state;
  npy_array array;
  tool_fault fault;
  const unsigned char data[] = {0, 1, 7};
  const unsigned char expected[] = {0, 1, 1};
  save(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", data, sizeof data);
  assert_true(npy_read(path, &array, &fault));
  assert_memory_equal(array.data, expected, sizeof expected);
  npy_free(&array);
}

static void refuses_lies(void **state) {
  (void)state;
  const unsigned char data[8] = {0};
  static const struct {
    const char *header;
    const char *part;
  } cases[] = {
      {"", "not a dict"},
      {"{", "not a dict"},
      {"{}", "lacks"},
      {"[]", "not a dict"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "not a dict"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "follows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "too many"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "too many"},
      {"{'fortran_order': False, 'shape': (2,)}", "lacks"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "fortran_order"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "not a tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}", "not a tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", "not a tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "not a tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "negative"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "64 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", "more bytes than can be counted"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "more bytes than can be counted"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}", "promises 4398046511104 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "promises 12 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "the file has 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2)}",
       "more than 32 dims"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "pickle"},
      {"{'descr': '|O8', 'fortran_order': False, 'shape': (1,)}", "pickle"},
      {"{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,)}", "records"},
      {"{'descr': '<f5', 'fortran_order': False, 'shape': (1,)}", "'<f5'"},
      {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", "'<f16'"},
      {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", "'<M8[ns]'"},
      {"{'descr': '<f', 'fortran_order': False, 'shape': (1,)}", "'<f'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", "''"},
      {"{'descr': '<', 'fortran_order': False, 'shape': (1,)}", "'<'"},
      {"{'descr': '<U0', 'fortran_order': False, 'shape': (1152921504606846976,)}", "'<U0'"},
      {"{'descr': '<U99999999999999999999', 'fortran_order': False, 'shape': (1,)}", "not supported"},
      {"{'descr': 4, 'fortran_order': False, 'shape': (1,)}", "not a string"},
      {"{'descr': 'an endless string', 'fortran_order': False, 'shape': (1,)}", "not supported"},
      {"{'descr': 'a string that is much too long for a type', 'shape': (1,)}", "not a string"},
      {"{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (2,)}", "not a dict"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    save(1, cases[i].header, data, sizeof data);
    expect_refused(cases[i].part);
  }
}

static void write_raw(const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  if (bytes > 0) assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

/* Every prefix of a good file is refused, and none makes the reader touch what is not there. */
static void refuses_every_truncation(void **state) {
  (void)state;
  const uint32_t values[] = {1, 2};
  unsigned char whole[256];
  save(2, "{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }   \n", values, sizeof values);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(whole, 1, sizeof whole, file);
  fclose(file);
  assert_in_range(size, 80, 255);
  for (size_t bytes = 0; bytes < size; bytes++) {
    write_raw(whole, bytes);
    expect_refused("");
  }
  whole[size] = 0;
  write_raw(whole, size + 1);
  expect_refused("the file has 9");
}

static void refuses_other_files(void **state) {
  (void)state;
  npy_array array;
  tool_fault fault;
  write_raw("PK\x03\x04 an archive of arrays", 25);
  expect_refused("does not begin");
  write_raw("\x93NUMPY\x04\x00\x10\x00 and so on, and so on", 28);
  expect_refused("version");
  write_raw("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF", 12);
  expect_refused("longer than the file");
  write_raw("\x93NUMPY\x01\x00\x04\x00{\0}\n", 14);
  expect_refused("NUL");
  assert_false(npy_read(folder, &array, &fault));
  assert_non_null(strstr(fault.text, "directory"));
  assert_false(npy_read("/dev/null", &array, &fault));
  assert_non_null(strstr(fault.text, "regular"));
  assert_false(npy_read("/nowhere/a.npy", &array, &fault));
  assert_non_null(strstr(fault.text, "/nowhere/a.npy"));
}

static void writes_what_it_reads(void **state) {
  (void)state;
  static const struct {
    char kind;
    size_t item_bytes;
    const char *type;
  } types[] = {{'f', 2, "<f2"}, {'f', 4, "<f4"}, {'i', 1, "|i1"},   {'u', 8, "<u8"},
               {'b', 1, "|b1"}, {'c', 8, "<c8"}, {'c', 16, "<c16"}, {'U', 12, "<U3"}};
  static const struct {
    int64_t dims[4];
    size_t rank;
  } shapes[] = {{{0}, 0}, {{5}, 1}, {{2, 3}, 2}, {{2, 0, 3}, 3}, {{1, 2, 1, 2}, 4}};
  unsigned char data[256] = {1};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    for (size_t j = 0; j < sizeof shapes / sizeof shapes[0]; j++) {
      npy_array array = {.kind = types[i].kind, .item_bytes = types[i].item_bytes, .data = data};
      npy_array read;
      tool_fault fault;
      char type[24];
      assert_true(npy_set_dims(&array, shapes[j].dims, shapes[j].rank));
      assert_true(npy_write(path, &array, &fault));
      assert_true(npy_read(path, &read, &fault));
      assert_string_equal(npy_type(&read, type), types[i].type);
      assert_int_equal(read.rank, array.rank);
      assert_int_equal(read.bytes, array.bytes);
      for (size_t axis = 0; axis < read.rank; axis++) assert_int_equal(read.dims[axis], shapes[j].dims[axis]);
      if (read.bytes > 0) assert_memory_equal(read.data, data, read.bytes);
      npy_free(&read);
    }
  }
}

static void pads_its_header(void **state) {
  (void)state;
  unsigned char start[10];
  npy_array array = {.kind = 'u', .item_bytes = 1};
  tool_fault fault;
  const int64_t dim = 0;
  assert_true(npy_set_dims(&array, &dim, 1));
  assert_true(npy_write(path, &array, &fault));
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(start, 1, sizeof start, file), sizeof start);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  long size = ftell(file);
  assert_int_equal(fseek(file, -1, SEEK_END), 0);
  assert_int_equal(fgetc(file), '\n');
  fclose(file);
  assert_int_equal(size % 64, 0);
  assert_int_equal(start[8] + 256 * start[9] + 10, size);
}

static void counts_dims(void **state) {
  (void)state;
  npy_array array = {.kind = 'f', .item_bytes = 8};
  const int64_t negative[] = {2, -1};
  const int64_t large[] = {INT64_MAX, INT64_MAX, INT64_MAX};
  const int64_t nothing[] = {INT64_MAX, INT64_MAX, 0};
  assert_false(npy_set_dims(&array, negative, 2));
  assert_false(npy_set_dims(&array, large, 3));
  assert_false(npy_set_dims(&array, large, NPY_MAX_RANK + 1));
  assert_true(npy_set_dims(&array, nothing, 3));
  assert_int_equal(array.bytes, 0);
}

static void keeps_texts(void **state) {
  (void)state;
  static const char *const texts[] = {"", "plain", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "bad \xFF\xC3"};
  const size_t lengths[] = {0, 5, 9, 6};
  npy_array array = {.kind = 'U', .item_bytes = 4};
  const int64_t dim = 4;
  assert_true(npy_set_dims(&array, &dim, 1));
  assert_true(npy_set_texts(&array, texts, lengths));
  assert_int_equal(array.item_bytes, 6 * 4);
  tool_fault fault;
  assert_true(npy_write(path, &array, &fault));
  npy_free(&array);
  assert_true(npy_read(path, &array, &fault));
  static const char *const expected[] = {"", "plain", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "bad \xEF\xBF\xBD\xEF\xBF\xBD"};
  for (size_t i = 0; i < 4; i++) {
    char *text = npy_get_text(&array, i);
    assert_non_null(text);
    assert_string_equal(text, expected[i]);
    free(text);
  }
  assert_null(npy_get_text(&array, 4));
  npy_free(&array);
}

static void refuses_what_is_no_text(void **state) {
  (void)state;
  uint32_t points[][2] = {{0xD800, 0}, {0x110000, 0}, {0, 'x'}};
  for (size_t i = 0; i < 3; i++) {
    npy_array array = {.kind = 'U', .item_bytes = 8, .count = 1, .bytes = 8, .data = points[i]};
    assert_null(npy_get_text(&array, 0));
  }
  char bytes[][4] = {"\xC3(", "\xED\xA0\x80", "a\0b", "\xC0\x80"};
  for (size_t i = 0; i < 4; i++) {
    npy_array array = {.kind = 'S', .item_bytes = 4, .count = 1, .bytes = 4, .data = bytes[i]};
    assert_null(npy_get_text(&array, 0));
  }
  char good[] = {'y', 'e', 's', 0};
  npy_array array = {.kind = 'S', .item_bytes = 4, .count = 1, .bytes = 4, .data = good};
  char *text = npy_get_text(&array, 0);
  assert_string_equal(text, "yes");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_numpy_writes),
      cmocka_unit_test(reads_scalars_and_nothing),
      cmocka_unit_test(reads_other_orders),
      cmocka_unit_test(makes_truth_of_bools),
      cmocka_unit_test(refuses_lies),
      cmocka_unit_test(refuses_every_truncation),
      cmocka_unit_test(refuses_other_files),
      cmocka_unit_test(writes_what_it_reads),
      cmocka_unit_test(pads_its_header),
      cmocka_unit_test(counts_dims),
      cmocka_unit_test(keeps_texts),
      cmocka_unit_test(refuses_what_is_no_text),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
