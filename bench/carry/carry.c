/* carry RUNS MODE...: steps of a state that goes round, mode after mode, for a program that counts instructions or allocations
 * around the function `steady`. Each mode of iobind is compared with raw calls of ORT that do the same:
 *
 *      raw-grow, iobind-grow     attention over keys and values that grow by a row a step, from none: both are fetched, bound as
 *                                inputs, and all outputs rebound
 *      bare-grow                 the same lengths by a plain run of inputs that lie ready: what both have in common
 *      raw-rebind, iobind-swap   a state of fixed shape in two buffers: raw, both are rebound in each step
 *      raw-turns                 the same with two bindings that take turns: what SWAP comes down to
 *      check-MODE                no step: iobind_binding_check of 64 states that are carried by move, swap or in-place */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "raw.h"

enum { WARM_UP = 100 };

typedef struct bench {
  fixture fixture;
  iobind_binding *bound;
  raw raw;
  OrtIoBinding *other; /* raw-turns */
  OrtValue *values[3]; /* the state's buffers, and what is added */
  size_t next;         /* which buffer is written next; bare-grow: how many rows there are */
  float data[3][8];
  float *cache;     /* bare-grow: as many rows as there are steps */
  OrtValue **pasts; /* and a tensor over the first ones of them for each step */
} bench;

/* ---- one step of each kind --------------------------------------------------------------------------------------- */

static void step_iobind(bench *b) {
  iobind_status status = iobind_binding_run(b->bound, NULL, NULL);
  if (status == IOBIND_OK) return;
  fprintf(stderr, "iobind_binding_run: %s\n", iobind_status_get_name((int32_t)status));
  exit(1);
}

static void step_check(bench *b) {
  iobind_status status = iobind_binding_check(b->bound, NULL);
  if (status == IOBIND_OK) return;
  fprintf(stderr, "iobind_binding_check: %s\n", iobind_status_get_name((int32_t)status));
  exit(1);
}

static void run_raw(const raw *r, OrtIoBinding *binding) {
  raw_check(r, r->ort->RunWithBinding(r->session, r->run_options, binding));
}

static const char *const past_names[] = {"past_key", "past_value"};
static const char *const output_names[] = {"key", "value", "y"};

static void bind_outputs(const raw *r) {
  for (size_t i = 0; i < 3; i++) raw_check(r, r->ort->BindOutputToDevice(r->binding, output_names[i], r->memory));
}

static void step_raw_grow(bench *b) {
  const raw *r = &b->raw;
  OrtValue **outputs = NULL;
  size_t count = 0;
  raw_check(r, r->ort->GetBoundOutputValues(r->binding, r->allocator, &outputs, &count));
  for (size_t i = 0; i < 2; i++) raw_check(r, r->ort->BindInput(r->binding, past_names[i], outputs[i]));
  for (size_t i = 0; i < count; i++) r->ort->ReleaseValue(outputs[i]);
  raw_check(r, r->ort->AllocatorFree(r->allocator, outputs));
  bind_outputs(r);
  run_raw(r, r->binding);
}

static void step_bare_grow(bench *b) {
  static const char *const input_names[] = {"past_key", "past_value", "row"};
  const raw *r = &b->raw;
  const OrtValue *inputs[] = {b->pasts[b->next], b->pasts[b->next], b->values[2]};
  OrtValue *outputs[3] = {NULL, NULL, NULL};
  raw_check(r, r->ort->Run(r->session, r->run_options, input_names, inputs, 3, output_names, 3, outputs));
  for (size_t i = 0; i < 3; i++) r->ort->ReleaseValue(outputs[i]);
  b->next++;
}

static void step_raw_rebind(bench *b) {
  const raw *r = &b->raw;
  raw_check(r, r->ort->BindInput(r->binding, "a", b->values[1 - b->next]));
  raw_check(r, r->ort->BindOutput(r->binding, "y", b->values[b->next]));
  run_raw(r, r->binding);
  b->next = 1 - b->next;
}

static void step_raw_turns(bench *b) {
  run_raw(&b->raw, b->next == 0 ? b->raw.binding : b->other);
  b->next = 1 - b->next;
}

/* The counters look for this function by its name, so it must be one. */
__attribute__((noinline)) void steady(bench *b, void (*step)(bench *b), long runs);

void steady(bench *b, void (*step)(bench *b), long runs) {
  for (long i = 0; i < runs; i++) step(b);
}

/* ---- modes ------------------------------------------------------------------------------------------------------- */

static void prepare_bare_grow(bench *b, long steps) {
  const int64_t one[] = {1, 8};
  raw_open(&b->raw, &b->fixture);
  b->cache = calloc((size_t)steps, 8 * sizeof *b->cache);
  b->pasts = calloc((size_t)steps, sizeof(OrtValue *));
  if (b->cache == NULL || b->pasts == NULL) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  for (long i = 0; i < steps; i++) {
    const int64_t dims[] = {i, 8};
    b->pasts[i] = raw_tensor(&b->raw, b->cache, dims, 2);
  }
  b->values[2] = raw_tensor(&b->raw, b->data[2], one, 2);
}

static void close_bare_grow(bench *b, long steps) {
  for (long i = 0; b->pasts != NULL && i < steps; i++) b->raw.ort->ReleaseValue(b->pasts[i]);
  free(b->pasts);
  free(b->cache);
}

static void prepare_raw_grow(bench *b, long steps) {
  (void)steps;
  const int64_t none[] = {0, 8}, one[] = {1, 8};
  const raw *r = &b->raw;
  raw_open(&b->raw, &b->fixture);
  for (size_t i = 0; i < 3; i++) b->values[i] = raw_tensor(r, b->data[i], i == 2 ? one : none, 2);
  for (size_t i = 0; i < 2; i++) raw_check(r, r->ort->BindInput(r->binding, past_names[i], b->values[i]));
  raw_check(r, r->ort->BindInput(r->binding, "row", b->values[2]));
  bind_outputs(r);
  run_raw(r, r->binding);
}

static void open_buffers(bench *b, long steps) {
  (void)steps;
  const int64_t one[] = {1};
  raw_open(&b->raw, &b->fixture);
  for (size_t i = 0; i < 3; i++) b->values[i] = raw_tensor(&b->raw, b->data[i], one, 1);
  raw_check(&b->raw, b->raw.ort->BindInput(b->raw.binding, "b", b->values[2]));
}

static void prepare_raw_turns(bench *b, long steps) {
  open_buffers(b, steps);
  const raw *r = &b->raw;
  raw_check(r, r->ort->CreateIoBinding(r->session, &b->other));
  raw_check(r, r->ort->BindInput(b->other, "b", b->values[2]));
  raw_check(r, r->ort->BindInput(r->binding, "a", b->values[1]));
  raw_check(r, r->ort->BindOutput(r->binding, "y", b->values[0]));
  raw_check(r, r->ort->BindInput(b->other, "a", b->values[0]));
  raw_check(r, r->ort->BindOutput(b->other, "y", b->values[1]));
}

static void bind_input(bench *b, size_t index, const int64_t *dims, size_t rank) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *tensor = NULL;
  fixture_check(iobind_tensor_create(b->fixture.cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, rank, &tensor, &error),
                &error);
  size_t bytes = sizeof(float) * (size_t)(rank == 1 ? dims[0] : dims[0] * dims[1]);
  fixture_check(iobind_tensor_write(tensor, 0, b->data, bytes, NULL, &error), &error);
  fixture_check(iobind_binding_set_input(b->bound, index, IOBIND_INPUT_RESIDENT, tensor, NULL, &error), &error);
  iobind_tensor_release(tensor);
}

static void prepare_iobind_grow(bench *b, long steps) {
  (void)steps;
  const int64_t none[] = {0, 8}, one[] = {1, 8};
  iobind_error error = IOBIND_ERROR_INIT;
  fixture_check(iobind_binding_create(b->fixture.session, &b->bound, &error), &error);
  for (size_t i = 0; i < 2; i++) {
    fixture_check(iobind_binding_carry(b->bound, i, i, IOBIND_CARRY_MOVE, &error), &error);
    bind_input(b, i, none, 2);
  }
  bind_input(b, 2, one, 2);
  step_iobind(b);
}

static void prepare_iobind_swap(bench *b, long steps) {
  (void)steps;
  const int64_t one[] = {1};
  iobind_error error = IOBIND_ERROR_INIT;
  fixture_check(iobind_binding_create(b->fixture.session, &b->bound, &error), &error);
  fixture_check(iobind_binding_carry(b->bound, 0, 0, IOBIND_CARRY_SWAP, &error), &error);
  for (size_t i = 0; i < 2; i++) bind_input(b, i, one, 1);
}

/* Two runs first, so that both buffers of SWAP are in use. */
static void prepare_check(bench *b, iobind_carry_mode mode) {
  const int64_t four[] = {4};
  iobind_error error = IOBIND_ERROR_INIT;
  fixture_check(iobind_binding_create(b->fixture.session, &b->bound, &error), &error);
  for (size_t i = 0; i < MODEL_STATES; i++) fixture_check(iobind_binding_carry(b->bound, i, i, mode, &error), &error);
  for (size_t i = 0; i <= MODEL_STATES; i++) bind_input(b, i, four, 1);
  step_iobind(b);
  step_iobind(b);
}

static void prepare_check_move(bench *b, long steps) {
  (void)steps;
  prepare_check(b, IOBIND_CARRY_MOVE);
}

static void prepare_check_swap(bench *b, long steps) {
  (void)steps;
  prepare_check(b, IOBIND_CARRY_SWAP);
}

static void prepare_check_in_place(bench *b, long steps) {
  (void)steps;
  prepare_check(b, IOBIND_CARRY_IN_PLACE);
}

typedef struct mode {
  const char *name;
  void *(*model)(size_t *bytes);
  void (*prepare)(bench *b, long steps);
  void (*step)(bench *b);
} mode;

static const mode modes[] = {
    {"raw-grow", model_attention, prepare_raw_grow, step_raw_grow},
    {"iobind-grow", model_attention, prepare_iobind_grow, step_iobind},
    {"bare-grow", model_attention, prepare_bare_grow, step_bare_grow},
    {"raw-rebind", model_add, open_buffers, step_raw_rebind},
    {"raw-turns", model_add, prepare_raw_turns, step_raw_turns},
    {"iobind-swap", model_add, prepare_iobind_swap, step_iobind},
    {"check-move", model_states, prepare_check_move, step_check},
    {"check-swap", model_states, prepare_check_swap, step_check},
    {"check-in-place", model_states, prepare_check_in_place, step_check},
};

static const mode *find_mode(const char *name) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(name, modes[i].name) == 0) return &modes[i];
  }
  return NULL;
}

static void measure(const mode *m, long runs) {
  bench b = {0};
  fixture_open_model(&b.fixture, m->model);
  m->prepare(&b, WARM_UP + runs);
  for (int i = 0; i < WARM_UP; i++) m->step(&b);
  raw_tell_counter("allocations_begin");
  steady(&b, m->step, runs);
  raw_tell_counter("allocations_end");
  iobind_binding_destroy(b.bound);
  close_bare_grow(&b, WARM_UP + runs);
  for (size_t i = 0; b.raw.ort != NULL && i < 3; i++) {
    if (b.values[i] != NULL) b.raw.ort->ReleaseValue(b.values[i]);
  }
  if (b.other != NULL) b.raw.ort->ReleaseIoBinding(b.other);
  raw_close(&b.raw);
  fixture_close(&b.fixture);
}

int main(int argc, char **argv) {
  long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
  int known = runs > 0;
  for (int i = 2; i < argc; i++) known = known && find_mode(argv[i]) != NULL;
  if (!known) {
    fputs(
        "usage: carry RUNS MODE...; modes: raw-grow iobind-grow bare-grow raw-rebind raw-turns iobind-swap check-move check-swap "
        "check-in-place\n",
        stderr);
    return 2;
  }
  for (int i = 2; i < argc; i++) measure(find_mode(argv[i]), runs);
  return 0;
}
