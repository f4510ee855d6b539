/* Items of a pipeline of the same session. Each item has its own state and length, independent of the bindings. */
#include "calls.h"
#include "play.h"

iobind_pipeline *open_pipeline(const play *self) {
  iobind_pipeline *made;
  CALL(self, WELL, call_pipeline_create(self->session, NULL, &made, &fault));
  return made;
}

/* The new rows of a run, with the model's numbers. */
static iobind_tensor *make_added(const play *self, size_t rows, size_t count, float base) {
  const int64_t dims[] = {(int64_t)rows, self->kind == SUM ? WIDTH : (int64_t)count, WIDTH};
  float numbers[ROWS * MOST_NEW * WIDTH];
  size_t times = self->kind == GROW ? 1 : WIDTH;
  size_t total = 0;
  iobind_tensor *made;
  for (size_t i = 0; i < rows * count; i++) {
    for (size_t w = 0; w < times; w++) numbers[total++] = model_number(base, i / count, i % count);
  }
  CALL(self, WELL,
       iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, kind_is_cache(self->kind) ? 3 : 2, &made,
                            &fault));
  CALL(self, WELL, iobind_tensor_write(made, 0, numbers, total * sizeof *numbers, NULL, &fault));
  return made;
}

void do_item(play *self) {
  size_t rows = 1 + draw(self, ROWS);
  size_t count = self->kind == SUM ? 1 : 1 + draw(self, MOST_NEW);
  const used at = used_all((int64_t)draw(self, CAPACITY - MOST_NEW + 1));
  value holds = model_first(self->kind, rows, 1 + draw(self, 3), draw_base(self));
  float base = draw_base(self);
  const used valid = used_all(at.longest + (int64_t)count);
  const growth by = {.from = &at, .rows = rows, .added = count};
  iobind_tensor *outputs[2];
  iobind_tensor *inputs[4] = {make_tensor(self, &holds, cpu), make_added(self, rows, count, base), NULL, NULL};
  for (size_t i = 0; i < count_lengths(self->kind); i++) inputs[FIRST_LENGTH + i] = make_lengths(self, i, &by, cpu);
  say("  an item of %zu rows\n", rows);
  CALL(self, WELL, call_pipeline_submit(self->pipeline, inputs, count_inputs(self->kind), &fault));
  CALL(self, WELL,
       iobind_pipeline_next(self->pipeline, IOBIND_NO_TIMEOUT, outputs, kind_attends(self->kind) ? 2 : 1, NULL, &fault));
  model_run(self->kind, &holds, base, count, &at);
  expect_tensor(self, &holds, outputs[0], "an item");
  if (kind_attends(self->kind)) expect_attention(self, &holds, base, count, &valid, outputs[1]);
  for (size_t i = 0; i < 4; i++) iobind_tensor_release(inputs[i]);
  reached(FEATURE_ITEM);
}
