/* workloads [--plot FILE.svg [--below OTHER.svg]]: four typical programs on the virtual accelerator, direct and bound.
 *
 * All times are virtual and follow from the modelled link, so they are exact and equal on every machine. Direct: host tensors in
 * and out of iobind_session_run. With --below, OTHER.svg follows in the picture. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo/stack.h"
#include "fixture.h"
#include "pictures/plot.h"
#include "model.h"
#include "vdev.h"

enum { STATE = 6270000, RUNS = 100 };              /* 25.08 MB: 2.1 ms a copy */
enum { WIDTH = 2048, PROMPT = 512, TOKENS = 100 }; /* a token adds 8 KiB of keys and as much of values */
enum { PIXELS = 3 * 1080 * 1080, TILES = 32, SLOTS = 3, PICTURES = 30 };

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

typedef struct stage {
  const fixture *host;
  iobind_device *device;
} stage;

static iobind_session *open_session(const stage *s, void *model, size_t bytes) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.devices = (iobind_device *const *)&s->device;
  options.device_count = 1;
  must(iobind_session_create_from_memory(s->host->runtime, model, bytes, &options, &session, &error));
  free(model);
  return session;
}

static iobind_tensor *make_tensor(iobind_device *device, const int64_t *dims, size_t rank) {
  iobind_tensor *tensor;
  must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, rank, &tensor, &error));
  return tensor;
}

static iobind_tensor *make_rows(const stage *s, int64_t rows, float first) {
  iobind_tensor *tensor = make_tensor(s->host->cpu, (const int64_t[]){rows, WIDTH}, 2);
  void *data;
  must(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &error));
  for (int64_t i = 0; i < rows * WIDTH; i++) ((float *)data)[i] = first + (float)(i % 7) / 8;
  return tensor;
}

static iobind_tensor *upload(const stage *s, const iobind_tensor *source, const int64_t *dims, size_t rank) {
  iobind_tensor *target = make_tensor(s->device, dims, rank);
  must(iobind_tensor_copy(&source, &target, 1, NULL, &error));
  return target;
}

static iobind_status run_once(iobind_session *session, iobind_tensor *const *inputs, iobind_tensor **outputs, size_t count) {
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = count;
  return iobind_session_run(session, &request, outputs, count, &error);
}

static float first_element(const iobind_tensor *tensor) {
  float value;
  must(iobind_tensor_read(tensor, 0, &value, sizeof value, NULL, &error));
  return value;
}

static void set(const char *name, const char *value) {
  if (vdev_set(0, name, value) == 0) return;
  fprintf(stderr, "workloads: %s\n", vdev_last_error());
  exit(1);
}

/* ---- runs that each need the result of the one before ---- */

static float iterate_direct(const stage *s, iobind_session *session) {
  iobind_tensor *state = fixture_tensor(s->host, STATE, 1);
  for (int i = 0; i < RUNS; i++) {
    iobind_tensor *next = NULL;
    must(run_once(session, &state, &next, 1));
    iobind_tensor_release(state);
    state = next;
  }
  float result = first_element(state);
  iobind_tensor_release(state);
  return result;
}

static float iterate_bound(const stage *s, iobind_session *session) {
  const int64_t dims[] = {STATE};
  iobind_tensor *host = fixture_tensor(s->host, STATE, 1), *first = upload(s, host, dims, 1), *last;
  iobind_binding *binding;
  must(iobind_binding_create(session, &binding, &error));
  must(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, first, NULL, &error));
  must(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &error));
  for (int i = 0; i < RUNS; i++) must(iobind_binding_run(binding, NULL, &error));
  must(iobind_binding_get_output(binding, 0, NULL, &last, &error));
  must(iobind_tensor_copy((const iobind_tensor *const *)&last, &host, 1, NULL, &error));
  float result = first_element(host);
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_tensor_release(host);
  return result;
}

static float iterate(const stage *s, bool bound) {
  size_t bytes;
  void *model = model_double(&bytes);
  iobind_session *session = open_session(s, model, bytes);
  float result = bound ? iterate_bound(s, session) : iterate_direct(s, session);
  iobind_session_destroy(session);
  return result;
}

/* ---- a decoder whose cache grows ---- */

enum { KEY, VALUE, ROW };

static float decode_direct(const stage *s, iobind_session *session) {
  iobind_tensor *inputs[] = {make_rows(s, PROMPT, 0), make_rows(s, PROMPT, 1), make_rows(s, 1, 2)};
  float result = 0;
  for (int i = 0; i < TOKENS; i++) {
    iobind_tensor *outputs[3] = {NULL, NULL, NULL};
    must(run_once(session, inputs, outputs, 3));
    for (int k = 0; k < 3; k++) iobind_tensor_release(inputs[k]);
    memcpy(inputs, outputs, sizeof inputs); /* the row that comes out is the next one to go in */
    result += first_element(inputs[ROW]);
  }
  for (int k = 0; k < 3; k++) iobind_tensor_release(inputs[k]);
  return result;
}

static float decode_bound(const stage *s, iobind_session *session) {
  float row[WIDTH], result = 0;
  iobind_binding *binding;
  iobind_tensor *output, *host[] = {make_rows(s, PROMPT, 0), make_rows(s, PROMPT, 1), make_rows(s, 1, 2)};
  must(iobind_tensor_read(host[ROW], 0, row, sizeof row, NULL, &error));
  must(iobind_binding_create(session, &binding, &error));
  for (size_t k = 0; k < 3; k++) {
    const int64_t dims[] = {k == ROW ? 1 : PROMPT, WIDTH};
    iobind_tensor *tensor = k == ROW ? make_tensor(s->device, dims, 2) : upload(s, host[k], dims, 2);
    must(iobind_binding_set_input(binding, k, IOBIND_INPUT_RESIDENT, tensor, NULL, &error));
    iobind_tensor_release(tensor);
    iobind_tensor_release(host[k]);
  }
  must(iobind_binding_carry(binding, KEY, KEY, IOBIND_CARRY_MOVE, &error));
  must(iobind_binding_carry(binding, VALUE, VALUE, IOBIND_CARRY_MOVE, &error));
  for (int i = 0; i < TOKENS; i++) {
    must(iobind_binding_write_input(binding, ROW, row, sizeof row, NULL, &error));
    must(iobind_binding_run(binding, NULL, &error));
    must(iobind_binding_get_output(binding, ROW, NULL, &output, &error));
    must(iobind_tensor_read(output, 0, row, sizeof row, NULL, &error));
    result += row[0];
  }
  iobind_binding_destroy(binding);
  return result;
}

static float decode(const stage *s, bool bound) {
  size_t bytes;
  void *model = model_cache(WIDTH, &bytes);
  iobind_session *session = open_session(s, model, bytes);
  float result = bound ? decode_bound(s, session) : decode_direct(s, session);
  iobind_session_destroy(session);
  return result;
}

/* ---- a stream of tiles ---- */

static float tiles_direct(iobind_session *session, iobind_tensor *tile) {
  float result = 0;
  for (int i = 0; i < TILES; i++) {
    iobind_tensor *output = NULL;
    must(run_once(session, &tile, &output, 1));
    result += first_element(output);
    iobind_tensor_release(output);
  }
  return result;
}

static float tiles_bound(iobind_session *session, iobind_tensor *tile) {
  float result = 0;
  iobind_pipeline *pipeline;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline_request item = IOBIND_PIPELINE_REQUEST_INIT;
  options.slots = SLOTS;
  item.inputs = &tile;
  item.input_count = 1;
  must(iobind_pipeline_create(session, &options, &pipeline, &error));
  for (int i = 0; i < TILES + SLOTS; i++) {
    iobind_tensor *output;
    if (i >= SLOTS) {
      must(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &error));
      result += first_element(output);
    }
    if (i < TILES) must(iobind_pipeline_submit(pipeline, &item, &error));
  }
  iobind_pipeline_destroy(pipeline);
  return result;
}

static float tiles(const stage *s, bool bound) {
  size_t bytes;
  void *model = model_double(&bytes);
  iobind_session *session = open_session(s, model, bytes);
  iobind_tensor *tile = fixture_tensor(s->host, PIXELS, 3);
  set("compute_us", "1240");
  float result = bound ? tiles_bound(session, tile) : tiles_direct(session, tile);
  set("compute_us", "0");
  iobind_tensor_release(tile);
  iobind_session_destroy(session);
  return result;
}

/* ---- two models in sequence ---- */

static float sequence_direct(iobind_session *first, iobind_session *second, iobind_tensor *picture) {
  float result = 0;
  for (int i = 0; i < PICTURES; i++) {
    iobind_tensor *features = NULL, *score = NULL;
    must(run_once(first, &picture, &features, 1));
    must(run_once(second, &features, &score, 1));
    result += first_element(score);
    iobind_tensor_release(features);
    iobind_tensor_release(score);
  }
  return result;
}

static float sequence_bound(const stage *s, iobind_session *first, iobind_session *second, iobind_tensor *picture) {
  const int64_t dims[] = {PIXELS};
  float result = 0;
  void *pixels;
  iobind_binding *bindings[2];
  iobind_tensor *input = make_tensor(s->device, dims, 1), *features = make_tensor(s->device, dims, 1), *score;
  must(iobind_tensor_map(picture, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &pixels, &error));
  must(iobind_binding_create(first, &bindings[0], &error));
  must(iobind_binding_create(second, &bindings[1], &error));
  must(iobind_binding_set_input(bindings[0], 0, IOBIND_INPUT_RESIDENT, input, NULL, &error));
  must(iobind_binding_set_output(bindings[0], 0, features, 0, &error));
  must(iobind_binding_set_input(bindings[1], 0, IOBIND_INPUT_RESIDENT, features, NULL, &error));
  for (int i = 0; i < PICTURES; i++) {
    must(iobind_tensor_write(input, 0, pixels, PIXELS * sizeof(float), NULL, &error));
    must(iobind_binding_run(bindings[0], NULL, &error));
    must(iobind_binding_run(bindings[1], NULL, &error));
    must(iobind_binding_get_output(bindings[1], 0, NULL, &score, &error));
    result += first_element(score);
  }
  iobind_binding_destroy(bindings[0]);
  iobind_binding_destroy(bindings[1]);
  iobind_tensor_release(input);
  iobind_tensor_release(features);
  return result;
}

static float sequence(const stage *s, bool bound) {
  size_t bytes;
  void *model = model_double(&bytes);
  iobind_session *first = open_session(s, model, bytes);
  model = model_largest(&bytes);
  iobind_session *second = open_session(s, model, bytes);
  iobind_tensor *picture = fixture_tensor(s->host, PIXELS, 3);
  float result = bound ? sequence_bound(s, first, second, picture) : sequence_direct(first, second, picture);
  iobind_tensor_release(picture);
  iobind_session_destroy(first);
  iobind_session_destroy(second);
  return result;
}

/* ---- the table and the picture ---- */

typedef struct workload {
  const char *name, *title, *sentence;
  float (*run)(const stage *s, bool bound);
} workload;

static const workload workloads[] = {
    {"iterate", "100 runs, each on the result of the one before",
     "Direct, the state of 25 MB crosses the link twice in each run; bound, it goes up once and comes down once.", iterate},
    {"decode", "A decoder with a growing cache: 100 tokens after a prompt of 512",
     "Direct, each token moves the whole cache up and down; bound, the cache stays on the device.", decode},
    {"tiles", "A stream of 32 tiles of 14 MB, each computed in 1.24 ms",
     "Direct, upload, run and download take turns; in a pipeline they overlap.", tiles},
    {"sequence", "Two models in sequence, 30 pictures of 14 MB",
     "Direct, the first model's output comes down and goes up again; bound, the second model reads it on the device.",
     sequence}};

enum { COUNT = sizeof workloads / sizeof *workloads, WAYS = 2 };

typedef struct figures {
  double ms;
  long long copies;
  double megabytes;
} figures;

static figures measure(const stage *s, const workload *w, bool bound, float *result) {
  int64_t begin = vdev_get(0, "time_ns");
  vdev_reset(0);
  *result = w->run(s, bound);
  return (figures){(double)(vdev_get(0, "time_ns") - begin) / 1e6,
                   (long long)(vdev_get(0, "h2d_count") + vdev_get(0, "d2h_count")),
                   (double)(vdev_get(0, "h2d_bytes") + vdev_get(0, "d2h_bytes")) / 1e6};
}

static void measure_all(const stage *s, figures all[COUNT][WAYS]) {
  printf("%-10s %-8s %10s %8s %12s\n", "WORKLOAD", "WAY", "TIME", "COPIES", "MOVED");
  for (size_t i = 0; i < COUNT; i++) {
    float results[WAYS];
    for (int way = 0; way < WAYS; way++) {
      all[i][way] = measure(s, &workloads[i], way == 1, &results[way]);
      printf("%-10s %-8s %7.1f ms %8lld %9.1f MB\n", workloads[i].name, way == 0 ? "direct" : "bound", all[i][way].ms,
             all[i][way].copies, all[i][way].megabytes);
    }
    if (results[0] == results[1]) continue;
    fprintf(stderr, "workloads: %s: bound gives %g, direct %g\n", workloads[i].name, (double)results[1], (double)results[0]);
    exit(1);
  }
}

static bool draw(FILE *file, figures all[COUNT][WAYS]) {
  plot_group groups[COUNT];
  plot_bar bars[COUNT][WAYS];
  char labels[COUNT][WAYS][32], notes[COUNT][WAYS][64];
  for (size_t i = 0; i < COUNT; i++) {
    for (int way = 0; way < WAYS; way++) {
      const figures *f = &all[i][way];
      snprintf(labels[i][way], sizeof labels[i][way], "%.1f ms", f->ms);
      snprintf(notes[i][way], sizeof notes[i][way], "%lld copies, %.0f MB", f->copies, f->megabytes);
      bars[i][way] = (plot_bar){f->ms, way == 0 ? "direct" : "bound", labels[i][way], notes[i][way]};
    }
    groups[i] = (plot_group){workloads[i].title, workloads[i].sentence, bars[i], WAYS};
  }
  static const char *const footnotes[] = {
      "Virtual time of the virtual accelerator: exact, and equal on every machine. Link: 12 GB/s each way and 10 us a copy, as PCIe 3.0 x16.",
      "Only copies take time, and the tiles' runs. Linear bars; each group has its own scale. Direct: host tensors in and out of each run."};
  const plot p = {.title = "What binding saves in four typical programs",
                  .subtitle = "Modelled: a device in software behind a link with the figures of PCIe",
                  .groups = groups,
                  .group_count = COUNT,
                  .footnotes = footnotes,
                  .footnote_count = 2};
  return plot_write(&p, file) == 0;
}

static int save(const char *path, const char *below, figures all[COUNT][WAYS]) {
  char *svg = NULL;
  size_t bytes = 0;
  FILE *memory = open_memstream(&svg, &bytes);
  bool good = memory != NULL && draw(memory, all);
  if (memory != NULL) good = fclose(memory) == 0 && good;
  good = good && (below == NULL ? stack_save(path, svg) : stack_pictures(path, svg, below));
  free(svg);
  if (!good) fprintf(stderr, "workloads: %s: the picture cannot be written\n", path);
  return good ? 0 : 1;
}

int main(int argc, char **argv) {
  bool draws = argc >= 3 && strcmp(argv[1], "--plot") == 0;
  bool stacks = draws && argc == 5 && strcmp(argv[3], "--below") == 0;
  if (argc != 1 && !(draws && argc == 3) && !stacks) {
    fputs("usage: workloads [--plot FILE.svg [--below OTHER.svg]]\n", stderr);
    return 2;
  }
  char *below = stacks ? stack_load(argv[4]) : NULL;
  if (stacks && below == NULL) return fprintf(stderr, "workloads: %s: expected an SVG picture\n", argv[4]), 1;
  fixture host;
  stage s = {.host = &host};
  figures all[COUNT][WAYS];
  fixture_open(&host);
  must(iobind_runtime_find_device(host.runtime, "vdev", &s.device, NULL, &error));
  set("clock", "virtual");
  set("h2d_gbps", "12");
  set("d2h_gbps", "12");
  set("latency_us", "10");
  set("poison", "0"); /* filling memory takes real time */
  measure_all(&s, all);
  fixture_close(&host);
  int code = draws ? save(argv[2], below, all) : 0;
  free(below);
  return code;
}
