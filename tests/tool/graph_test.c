#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/graph.h"

/* A model of bytes cut anywhere is refused, or read without a step beyond its end, which the sanitizers would see. */
static void damaged_models(void **state) {
  (void)state;
  /* graph { node { output: "a" name: "n" op_type: "Op" } node { output: "b" op_type: "Op" } output { name: "b" } } */
  static const unsigned char model[] = {0x3A, 24, 0x0A, 10, 0x12, 1,    'a', 0x1A, 1,   'n',  0x22, 2,    'O', 'p',
                                        0x0A, 7,  0x12, 1,  'b',  0x22, 2,   'O',  'p', 0x62, 3,    0x0A, 1,   'b'};
  graph_value *values = NULL;
  size_t count = 0;
  tool_fault fault;
  unsigned char whole[sizeof model];
  memcpy(whole, model, sizeof model);
  whole[1] = sizeof model - 2;
  assert_true(graph_read(whole, sizeof whole, &values, &count, &fault));
  assert_int_equal(count, 2);
  assert_string_equal(values[0].node, "n");
  assert_string_equal(values[1].name, "b");
  assert_true(!values[0].is_output && values[1].is_output);
  graph_edited edited = {0};
  assert_true(graph_add_outputs(whole, sizeof whole, values, count, &edited, &fault));
  static const unsigned char added[] = {0x3A, 5, 0x62, 3, 0x0A, 1, 'a'};
  assert_int_equal(edited.bytes, sizeof whole + sizeof added);
  assert_memory_equal(edited.model + sizeof whole, added, sizeof added);
  free(edited.model);
  graph_free(values, count);
  for (size_t size = 0; size < sizeof whole; size++) {
    unsigned char *cut = malloc(size + 1);
    assert_non_null(cut);
    memcpy(cut, whole, size);
    assert_false(graph_read(cut, size, &values, &count, &fault));
    free(cut);
  }
  for (size_t at = 0; at < sizeof whole; at++) {
    unsigned char *flipped = malloc(sizeof whole);
    assert_non_null(flipped);
    memcpy(flipped, whole, sizeof whole);
    flipped[at] ^= 0xFF;
    if (graph_read(flipped, sizeof whole, &values, &count, &fault)) graph_free(values, count);
    free(flipped);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damaged_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
