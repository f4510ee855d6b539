/* bench_pipeline [DEVICE [LEAST [SIDE]]]: what a pipeline takes beside the ideal and beside one stage after the other.
 *
 * Without DEVICE on the virtual accelerator, whose stages are modelled: in its virtual time, and by a real clock. On another device
 * its stages are measured one item at a time; the model is as many products of matrices of SIDE x SIDE (2048) as take longer than
 * each of the copies.
 * With LEAST it ends with 1 where the ideal is less than that share of the time that was taken (0.95: at least 95 %). */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture.h"
#include "model.h"
#include "vdev.h"

enum { CALLER, UPLOAD, RUN, DOWNLOAD, STAGES, ITEMS = 16, SLOTS = 3, MOST_PRODUCTS = 512 };

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

typedef uint64_t clock_reader(void);

static uint64_t real_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t virtual_time(void) {
  return (uint64_t)vdev_get(0, "time_ns");
}

static double milliseconds(uint64_t nanoseconds) {
  return (double)nanoseconds / 1e6;
}

typedef struct subject {
  iobind_session *session;
  size_t input_count;
  iobind_tensor *item[2];     /* the second input is a constant, if there is one */
  iobind_tensor *constant[2]; /* on the device */
} subject;

static int by_size(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return a < b ? -1 : a > b;
}

static void note_times(const iobind_pipeline_item *item, uint64_t times[STAGES]) {
  uint64_t uploaded = item->upload_ns != 0 ? item->upload_ns : item->submit_ns;
  times[UPLOAD] = uploaded - item->submit_ns;
  times[RUN] = item->run_ns - uploaded;
  times[DOWNLOAD] = item->download_ns != 0 ? item->download_ns - item->run_ns : 0;
}

/* Let ITEMS items through. One slot: each is pulled before the next is submitted. Returns nanoseconds of the clock.
 * medians: receives what each stage of an item takes; may be NULL */
static uint64_t let_through(const subject *s, size_t slots, clock_reader *now, uint64_t medians[STAGES]) {
  uint64_t times[ITEMS][STAGES], sorted[ITEMS];
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  iobind_pipeline *pipeline;
  iobind_tensor *output;
  request.inputs = s->item;
  request.input_count = s->input_count;
  options.slots = slots;
  options.flags = medians != NULL ? IOBIND_PIPELINE_TIMES : 0;
  if (s->constant[1] != NULL) {
    options.constants = s->constant;
    options.constant_count = s->input_count;
  }
  must(iobind_pipeline_create(s->session, &options, &pipeline, &error));
  for (size_t i = 0; i < slots; i++) must(iobind_pipeline_submit(pipeline, &request, &error)); /* the memory is made */
  for (size_t i = 0; i < slots; i++) must(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &error));
  uint64_t begin = now();
  for (size_t i = 0; i < ITEMS + slots; i++) {
    iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
    if (i >= slots) {
      must(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &error));
      note_times(&item, times[i - slots]);
    }
    uint64_t before = now();
    if (i < ITEMS) {
      must(iobind_pipeline_submit(pipeline, &request, &error));
      times[i][CALLER] = now() - before;
    }
  }
  uint64_t taken = now() - begin;
  iobind_pipeline_destroy(pipeline);
  for (int stage = 0; medians != NULL && stage < STAGES; stage++) {
    for (size_t i = 0; i < ITEMS; i++) sorted[i] = times[i][stage];
    qsort(sorted, ITEMS, sizeof *sorted, by_size);
    medians[stage] = sorted[ITEMS / 2];
  }
  return taken;
}

static subject open_subject(fixture *f, iobind_device *device, void *model, size_t bytes) {
  subject s = {0};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  must(iobind_session_create_from_memory(f->runtime, model, bytes, &options, &s.session, &error));
  must(iobind_session_get_info(s.session, &info, &error));
  s.input_count = info.input_count;
  free(model);
  return s;
}

static void close_subject(subject *s) {
  iobind_tensor_release(s->item[0]);
  iobind_tensor_release(s->constant[1]);
  iobind_session_destroy(s->session);
}

/* All stages of one item, and the longest one for each further. */
static uint64_t ideal_of(const uint64_t stages[STAGES], uint64_t *sequential) {
  uint64_t sum = 0, longest = 0;
  for (int i = 0; i < STAGES; i++) {
    sum += stages[i];
    if (stages[i] > longest) longest = stages[i];
  }
  *sequential = sum * ITEMS;
  return sum + longest * (ITEMS - 1);
}

static void print_stages(const char *what, const uint64_t stages[STAGES]) {
  printf("%s, %d items; an item: copied by the caller %.3f ms, upload %.3f ms, run %.3f ms, download %.3f ms\n", what, ITEMS,
         milliseconds(stages[CALLER]), milliseconds(stages[UPLOAD]), milliseconds(stages[RUN]), milliseconds(stages[DOWNLOAD]));
}

/* ---- the virtual accelerator ---- */

static void set(const char *name, const char *value) {
  if (vdev_set(0, name, value) == 0) return;
  fprintf(stderr, "bench_pipeline: %s\n", vdev_last_error());
  exit(1);
}

/* 4 MB each way at 0.2 GB/s, and 24 ms for the run. */
static double on_vdev(fixture *f, iobind_device *device) {
  enum { COUNT = 1000000 };
  static const uint64_t millisecond = 1000000;
  const uint64_t stages[STAGES] = {0, 20 * millisecond, 24 * millisecond, 20 * millisecond};
  uint64_t sequential, ideal = ideal_of(stages, &sequential), real = 0;
  size_t bytes;
  void *model = model_double(&bytes);
  subject s = open_subject(f, device, model, bytes);
  s.item[0] = fixture_tensor(f, COUNT, 1);
  set("h2d_gbps", "0.2");
  set("d2h_gbps", "0.2");
  set("compute_us", "24000");
  print_stages("virtual accelerator, modelled", stages);
  printf("one after the other %.1f ms, ideal %.1f ms\n\n%5s %15s %15s %18s\n", milliseconds(sequential), milliseconds(ideal),
         "SLOTS", "VIRTUAL TIME", "REAL TIME", "IDEAL / REAL TIME");
  for (size_t slots = 1; slots <= SLOTS; slots++) {
    set("clock", "virtual");
    uint64_t taken = let_through(&s, slots, virtual_time, NULL);
    set("clock", "real");
    real = let_through(&s, slots, real_time, NULL);
    printf("%5zu %12.1f ms %12.1f ms %16.1f %%\n", slots, milliseconds(taken), milliseconds(real),
           100 * (double)ideal / (double)real);
  }
  close_subject(&s);
  return (double)ideal / (double)real;
}

/* ---- a real link ---- */

/* Make the work longer until it takes longer than what else there is. */
static subject find_work(fixture *f, iobind_device *device, int64_t side, uint64_t stages[STAGES], int *products) {
  for (*products = 1;; *products *= 2) {
    size_t bytes;
    void *model = model_products(side, *products, &bytes);
    subject s = open_subject(f, device, model, bytes);
    const int64_t dims[] = {side, side};
    must(iobind_tensor_create(f->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &s.item[0], &error));
    must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &s.constant[1], &error));
    float *zeros = calloc((size_t)(side * side), sizeof *zeros);
    if (zeros == NULL) exit(1);
    must(iobind_tensor_write(s.item[0], 0, zeros, (size_t)(side * side) * sizeof *zeros, NULL, &error));
    must(iobind_tensor_write(s.constant[1], 0, zeros, (size_t)(side * side) * sizeof *zeros, NULL, &error));
    free(zeros);
    (void)let_through(&s, 1, real_time, stages);
    uint64_t other = stages[CALLER] > stages[UPLOAD] ? stages[CALLER] : stages[UPLOAD];
    if (stages[DOWNLOAD] > other) other = stages[DOWNLOAD];
    if (stages[RUN] > other + other / 4 || *products >= MOST_PRODUCTS) return s;
    close_subject(&s);
  }
}

static double on_link(fixture *f, iobind_device *device, int64_t side) {
  enum { ATTEMPTS = 5 };
  uint64_t stages[STAGES], sequential;
  int products;
  subject s = find_work(f, device, side, stages, &products);
  uint64_t ideal = ideal_of(stages, &sequential), best = UINT64_MAX;
  char what[96];
  snprintf(what, sizeof what, "%d products of matrices of %d x %d", products, (int)side, (int)side);
  print_stages(what, stages);
  for (int i = 0; i < ATTEMPTS; i++) { /* what disturbs the machine makes it slower, never faster */
    uint64_t taken = let_through(&s, SLOTS, real_time, NULL);
    if (taken < best) best = taken;
  }
  printf("one after the other %.2f ms, ideal %.2f ms; %d slots: %.2f ms, the ideal is %.1f %% of it\n",
         milliseconds(sequential), milliseconds(ideal), SLOTS, milliseconds(best), 100 * (double)ideal / (double)best);
  close_subject(&s);
  return (double)ideal / (double)best;
}

int main(int argc, char **argv) {
  const char *spec = argc > 1 ? argv[1] : "vdev";
  double least = argc > 2 ? strtod(argv[2], NULL) : 0;
  int64_t side = argc > 3 ? strtoll(argv[3], NULL, 10) : 2048;
  fixture f = {0};
  iobind_device *device;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  must(iobind_runtime_create(&options, &f.runtime, &error));
  must(iobind_runtime_find_device(f.runtime, spec, &device, NULL, &error));
  f.cpu = iobind_runtime_get_device(f.runtime, 0);
  double share = strcmp(spec, "vdev") == 0 ? on_vdev(&f, device) : on_link(&f, device, side);
  fixture_close(&f);
  if (share >= least) return 0;
  fprintf(stderr, "bench_pipeline: expected at least %.1f %% of the ideal, got %.1f %%\n", 100 * least, 100 * share);
  return 1;
}
