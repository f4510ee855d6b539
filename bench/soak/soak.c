/* soak: 100,000 bound runs of each kind, with flat resident memory. What a run leaves behind would show: a leak of 16 bytes a
 * run is 1.2 MiB between the two looks. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum { RUNS = 100000, SETTLED = 20000, MOST_DIMS = 8, MOST_GROWTH = 1 << 20 };

typedef struct soak {
  fixture fixture;
  iobind_binding *binding;
  iobind_tensor *tensors[MOST_DIMS][2]; /* float32[i + 1], holding i and 1 */
} soak;

static void run(soak *s) {
  iobind_error error = IOBIND_ERROR_INIT;
  fixture_check(iobind_binding_run(s->binding, NULL, &error), &error);
}

static void prepare_fixed(soak *s) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *y = fixture_tensor(&s->fixture, 1, 0);
  fixture_check(iobind_binding_set_output(s->binding, 0, y, 0, &error), &error);
  iobind_tensor_release(y);
}

static void place_output(soak *s, iobind_output_mode mode) {
  iobind_error error = IOBIND_ERROR_INIT;
  fixture_check(iobind_binding_place_output(s->binding, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, &error), &error);
}

static void prepare_fresh(soak *s) {
  place_output(s, IOBIND_OUTPUT_FRESH);
}

static void run_fixed(soak *s, long i) {
  (void)i;
  run(s);
}

/* Every fourth result is taken: the others are left to the next run. */
static void run_fresh(soak *s, long i) {
  iobind_error error = IOBIND_ERROR_INIT;
  run(s);
  if (i % 4 != 0) return;
  iobind_tensor *y = NULL;
  fixture_check(iobind_binding_take_output(s->binding, 0, &y, &error), &error);
  fixture_expect(y, 1, 3);
  iobind_tensor_release(y);
}

/* Everything is created again each time: inputs, in all three modes and of changing size, and the output. */
static void run_rebinding(soak *s, long i) {
  static const iobind_input_mode modes[] = {IOBIND_INPUT_RESIDENT, IOBIND_INPUT_SNAPSHOT, IOBIND_INPUT_LIVE};
  iobind_error error = IOBIND_ERROR_INIT;
  long size = i % MOST_DIMS;
  if (i % 16 == 0) fixture_check(iobind_binding_clear(s->binding, &error), &error);
  for (size_t input = 0; input < 2; input++) {
    iobind_tensor *tensor = s->tensors[size][input];
    fixture_check(iobind_binding_set_input(s->binding, input, modes[i % 3], tensor, NULL, &error), &error);
  }
  place_output(s, i % 2 == 0 ? IOBIND_OUTPUT_FRESH : IOBIND_OUTPUT_REUSE);
  run(s);
  iobind_tensor *y = NULL;
  fixture_check(iobind_binding_get_output(s->binding, 0, NULL, &y, &error), &error);
  fixture_expect(y, size + 1, (float)size + 1);
}

/* Returns whether the memory stayed flat. */
static int endure(soak *s, const char *name, void (*prepare)(soak *), void (*once)(soak *, long)) {
  long settled = 0;
  s->binding = fixture_bind(&s->fixture, 1);
  if (prepare != NULL) prepare(s);
  for (long i = 0; i < RUNS; i++) {
    if (i == SETTLED) settled = fixture_resident_bytes();
    once(s, i);
  }
  long growth = fixture_resident_bytes() - settled;
  iobind_binding_destroy(s->binding);
  int flat = growth < MOST_GROWTH;
  printf("%-10s %d runs, from run %d on the resident memory grew by %ld KiB%s\n", name, RUNS, SETTLED, growth / 1024,
         flat ? "" : ": TOO MUCH");
  return flat;
}

int main(void) {
  soak s;
  memset(&s, 0, sizeof s);
  fixture_open(&s.fixture);
  for (int i = 0; i < MOST_DIMS; i++) {
    s.tensors[i][0] = fixture_tensor(&s.fixture, i + 1, (float)i);
    s.tensors[i][1] = fixture_tensor(&s.fixture, i + 1, 1);
  }
  int flat = endure(&s, "fixed", prepare_fixed, run_fixed);
  flat = endure(&s, "fresh", prepare_fresh, run_fresh) && flat;
  flat = endure(&s, "rebinding", NULL, run_rebinding) && flat;
  for (int i = 0; i < MOST_DIMS; i++) {
    iobind_tensor_release(s.tensors[i][0]);
    iobind_tensor_release(s.tensors[i][1]);
  }
  fixture_close(&s.fixture);
  return flat ? 0 : 1;
}
