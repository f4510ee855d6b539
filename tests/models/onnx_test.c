#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "everything.h"
#include "models.h"
#include "onnx.h"

/* What the writer refuses, and that it survives the lack of memory. What it writes is read back by check_models.py. */

/* realloc fails once this many calls were granted; -1: never. The linker puts this in realloc's place. */
static int reallocs_left = -1;
void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

void *__wrap_realloc(void *pointer, size_t size) {
  if (reallocs_left == 0) return NULL;
  if (reallocs_left > 0) reallocs_left--;
  return __real_realloc(pointer, size);
}

static void finish_expecting(onnx_writer *writer, onnx_status expected) {
  const void *bytes = writer;
  size_t size = 1;
  assert_int_equal(onnx_writer_finish(writer, &bytes, &size), expected);
  if (expected != ONNX_OK) assert_null(bytes);
  onnx_writer_release(writer);
}

static void a_whole_model_is_the_same_bytes_each_time(void **state) {
  (void)state;
  onnx_writer first = ONNX_WRITER_INIT, second = ONNX_WRITER_INIT;
  const void *a, *b;
  size_t a_size, b_size;
  assert_int_equal(everything_write(&first), ONNX_OK);
  assert_int_equal(everything_write(&second), ONNX_OK);
  assert_int_equal(onnx_writer_finish(&first, &a, &a_size), ONNX_OK);
  assert_int_equal(onnx_writer_finish(&second, &b, &b_size), ONNX_OK);
  assert_int_equal(a_size, b_size);
  assert_true(a_size > 20000);
  assert_memory_equal(a, b, a_size);
  onnx_writer_release(&first);
  onnx_writer_release(&second);
}

static void a_released_writer_writes_again(void **state) {
  (void)state;
  onnx_writer writer = ONNX_WRITER_INIT;
  assert_int_equal(onnx_node_end(&writer), ONNX_MISPLACED);
  onnx_writer_release(&writer);
  assert_int_equal(everything_write(&writer), ONNX_OK);
  finish_expecting(&writer, ONNX_OK);
}

static void memory_may_end_at_any_time(void **state) {
  (void)state;
  int failures = 0;
  for (int granted = 0;; granted++) {
    onnx_writer writer = ONNX_WRITER_INIT;
    reallocs_left = granted;
    onnx_status status = everything_write(&writer);
    reallocs_left = -1;
    if (status == ONNX_OK) {
      finish_expecting(&writer, ONNX_OK);
      break;
    }
    assert_int_equal(status, ONNX_OUT_OF_MEMORY);
    finish_expecting(&writer, ONNX_OUT_OF_MEMORY);
    failures++;
  }
  assert_true(failures > 2);
}

static void the_limit_is_kept(void **state) {
  (void)state;
  onnx_writer writer = ONNX_WRITER_INIT;
  const void *bytes;
  size_t size;
  assert_int_equal(everything_write(&writer), ONNX_OK);
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  onnx_writer_release(&writer);
  writer.limit = size;
  assert_int_equal(everything_write(&writer), ONNX_OK);
  onnx_writer_release(&writer);
  writer.limit = size - 1;
  assert_int_equal(everything_write(&writer), ONNX_TOO_LARGE);
  finish_expecting(&writer, ONNX_TOO_LARGE);
}

static void nesting_ends(void **state) {
  (void)state;
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_type types[ONNX_MAX_DEPTH];
  memset(types, 0, sizeof types);
  for (size_t i = 0; i + 1 < ONNX_MAX_DEPTH; i++) {
    types[i].kind = ONNX_KIND_SEQUENCE;
    types[i].element = &types[i + 1];
  }
  onnx_model_begin(&writer, NULL);
  onnx_graph_begin(&writer, "g");
  assert_int_equal(onnx_input(&writer, "x", types), ONNX_TOO_LARGE);
  finish_expecting(&writer, ONNX_TOO_LARGE);
}

static void calls_in_the_wrong_place_are_refused(void **state) {
  (void)state;
  onnx_writer writer = ONNX_WRITER_INIT;
  finish_expecting(&writer, ONNX_MISPLACED); /* nothing was written */
  assert_int_equal(onnx_graph_begin(&writer, "g"), ONNX_MISPLACED);
  onnx_writer_release(&writer);
  onnx_model_begin(&writer, NULL);
  finish_expecting(&writer, ONNX_MISPLACED); /* still open */
  onnx_model_begin(&writer, NULL);
  assert_int_equal(onnx_node_begin(&writer, "Add", "", ""), ONNX_MISPLACED);
  onnx_writer_release(&writer);
  onnx_model_begin(&writer, NULL);
  onnx_graph_begin(&writer, "g");
  assert_int_equal(onnx_graph_end(&writer), ONNX_OK);
  assert_int_equal(onnx_graph_begin(&writer, "second"), ONNX_MISPLACED);
  assert_int_equal(onnx_model_end(&writer), ONNX_MISPLACED); /* the first error stays */
  onnx_writer_release(&writer);
  onnx_model_begin(&writer, NULL);
  onnx_graph_begin(&writer, "g");
  assert_int_equal(onnx_attribute_int(&writer, "a", 1), ONNX_MISPLACED);
  onnx_writer_release(&writer);
  onnx_model_begin(&writer, NULL);
  onnx_model_end(&writer);
  assert_int_equal(onnx_model_begin(&writer, NULL), ONNX_MISPLACED);
  onnx_writer_release(&writer);
}

static void open_node(onnx_writer *writer) {
  onnx_model_begin(writer, NULL);
  onnx_graph_begin(writer, "g");
  assert_int_equal(onnx_node_begin(writer, "If", "", ""), ONNX_OK);
}

static void a_graph_attribute_holds_one_graph(void **state) {
  (void)state;
  onnx_writer writer = ONNX_WRITER_INIT;
  open_node(&writer);
  assert_int_equal(onnx_attribute_graph_begin(&writer, "then_branch"), ONNX_OK);
  assert_int_equal(onnx_attribute_end(&writer), ONNX_MISPLACED);
  onnx_writer_release(&writer);
  open_node(&writer);
  onnx_attribute_graph_begin(&writer, "then_branch");
  onnx_graph_begin(&writer, "one");
  assert_int_equal(onnx_graph_end(&writer), ONNX_OK);
  assert_int_equal(onnx_graph_begin(&writer, "two"), ONNX_MISPLACED);
  onnx_writer_release(&writer);
  open_node(&writer);
  assert_int_equal(onnx_attribute_end(&writer), ONNX_MISPLACED);
  onnx_writer_release(&writer);
}

static void expect_tensor(const onnx_tensor *tensor, onnx_status expected) {
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_model_begin(&writer, NULL);
  onnx_graph_begin(&writer, "g");
  assert_int_equal(onnx_initializer(&writer, tensor), expected);
  onnx_writer_release(&writer);
}

static void tensors_must_fit_their_dims(void **state) {
  (void)state;
  static const int64_t three[] = {3}, negative[] = {-1}, huge[] = {INT64_MAX, INT64_MAX}, empty[] = {INT64_MAX, 0, INT64_MAX};
  static const float data[] = {1, 2, 3};
  static const char *const texts[] = {"a", NULL, "c"};
  onnx_tensor good = {.name = "t", .dtype = ONNX_FLOAT32, .dims = three, .rank = 1, .data = data, .bytes = 12};
  onnx_tensor tensor = good;
  expect_tensor(&good, ONNX_OK);
  expect_tensor(NULL, ONNX_INVALID);
  tensor.bytes = 11;
  expect_tensor(&tensor, ONNX_INVALID);
  tensor = good;
  tensor.name = NULL;
  expect_tensor(&tensor, ONNX_INVALID);
  tensor = good;
  tensor.dims = negative;
  expect_tensor(&tensor, ONNX_INVALID);
  tensor.dims = NULL;
  expect_tensor(&tensor, ONNX_INVALID);
  tensor.dims = huge;
  tensor.rank = 2;
  expect_tensor(&tensor, ONNX_INVALID);
  tensor = good;
  tensor.dtype = 99;
  expect_tensor(&tensor, ONNX_INVALID);
  tensor = good;
  tensor.location = "elsewhere";
  expect_tensor(&tensor, ONNX_INVALID);
  tensor.data = NULL;
  expect_tensor(&tensor, ONNX_OK);
  onnx_tensor nothing = {.name = "t", .dtype = ONNX_FLOAT32, .dims = empty, .rank = 3};
  expect_tensor(&nothing, ONNX_OK);
  onnx_tensor strings = {.name = "t", .dtype = ONNX_STRING, .dims = three, .rank = 1, .strings = texts};
  expect_tensor(&strings, ONNX_INVALID);
}

static void text_must_be_there(void **state) {
  (void)state;
  onnx_writer writer = ONNX_WRITER_INIT;
  open_node(&writer);
  assert_int_equal(onnx_node_input(&writer, NULL), ONNX_INVALID);
  onnx_writer_release(&writer);
  open_node(&writer);
  assert_int_equal(onnx_attribute_ints(&writer, "a", NULL, 1), ONNX_INVALID);
  onnx_writer_release(&writer);
  open_node(&writer);
  assert_int_equal(onnx_attribute_type(&writer, "a", NULL), ONNX_INVALID);
  onnx_writer_release(&writer);
}

static void expect_no_model(const char *spec, const char *text) {
  void *bytes = &bytes;
  size_t size = 1;
  char error[TEST_MODEL_TEXT];
  assert_int_equal(test_model_create(spec, &bytes, &size, error), 0);
  assert_null(bytes);
  if (strstr(error, text) == NULL) fail_msg("'%s' does not say '%s'", error, text);
}

static void a_model_that_there_is_not_is_named(void **state) {
  (void)state;
  expect_no_model("no-such-model", "no such model");
  expect_no_model("add dtyp=float16", "no such parameter 'dtyp=float16'");
  expect_no_model("add dtype=float17", "no element type 'float17'");
  expect_no_model("add dims=2,,3", "no dims '2,,3'");
  expect_no_model("add dims=1,2,3,4,5,6,7,8,9", "no dims");
  expect_no_model("scale factor=two", "not a number 'two'");
  expect_no_model("scale dtype=string", "not an element type");
  expect_no_model("lookup rows=0", "out of range");
  expect_no_model("concat axis=2", "no such axis");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_whole_model_is_the_same_bytes_each_time),
      cmocka_unit_test(a_released_writer_writes_again),
      cmocka_unit_test(memory_may_end_at_any_time),
      cmocka_unit_test(the_limit_is_kept),
      cmocka_unit_test(nesting_ends),
      cmocka_unit_test(calls_in_the_wrong_place_are_refused),
      cmocka_unit_test(a_graph_attribute_holds_one_graph),
      cmocka_unit_test(tensors_must_fit_their_dims),
      cmocka_unit_test(text_must_be_there),
      cmocka_unit_test(a_model_that_there_is_not_is_named),
  };
  return cmocka_run_group_tests_name("onnx", tests, NULL, NULL);
}
