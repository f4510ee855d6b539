#include "play.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vdev.h"

/* ---- output ---- */

enum { TRACE = 1 << 14 };
static char trace[TRACE];
static size_t trace_length;

void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(trace + trace_length, sizeof trace - trace_length, format, arguments);
  va_end(arguments);
  trace_length = trace_length + (size_t)length < sizeof trace ? trace_length + (size_t)length : sizeof trace - 1;
}

void wrong(const play *self, const char *format, ...) {
  va_list arguments;
  fprintf(stderr, "%s\nWRONG: sequence %" PRIu64 ": ", trace, self->number);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  abort();
}

bool require(const play *self, iobind_status status, unsigned expected, const char *call) {
  if ((expected & 1u << status) == 0) {
    wrong(self, "%s: got %s: %s", call, iobind_status_get_name((int32_t)status), status == IOBIND_OK ? "" : fault.message);
  }
  say("    %s\n", status == IOBIND_OK ? "OK" : fault.message);
  return status == IOBIND_OK;
}

size_t draw(play *self, size_t below) {
  self->random = self->random * 6364136223846793005U + 1442695040888963407U;
  return (size_t)(self->random >> 33) % below;
}

float draw_base(play *self) {
  self->base += 1;
  return self->base;
}

/* ---- tensors ---- */

/* The shape of the state: [rows, length, WIDTH] of a cache, [rows, length] of GROW, [rows, WIDTH] of SUM. */
static size_t shape_of(kind of, const value *from, int64_t dims[3]) {
  dims[0] = (int64_t)from->rows;
  dims[1] = of == SUM ? WIDTH : (int64_t)model_length(of, from);
  dims[2] = WIDTH;
  return kind_is_cache(of) ? 3 : 2;
}

size_t count_inputs(kind of) {
  return FIRST_LENGTH + count_lengths(of);
}

static size_t spread(kind of, const value *from, float *numbers) {
  size_t count = 0;
  size_t times = of == GROW ? 1 : WIDTH;
  for (size_t row = 0; row < from->rows; row++) {
    for (size_t i = 0; i < model_length(of, from); i++) {
      for (size_t w = 0; w < times; w++) numbers[count++] = from->numbers[row][i];
    }
  }
  return count;
}

iobind_tensor *make_tensor(const play *self, const value *from, iobind_device *on) {
  float numbers[ROWS * CAPACITY * WIDTH];
  int64_t dims[3];
  iobind_tensor *made;
  size_t rank = shape_of(self->kind, from, dims);
  size_t count = spread(self->kind, from, numbers);
  CALL(self, WELL, iobind_tensor_create(on, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, rank, &made, &fault));
  CALL(self, WELL, iobind_tensor_write(made, 0, numbers, count * sizeof *numbers, NULL, &fault));
  return made;
}

/* Reduce each WIDTH equal numbers to one. */
static void gather(const play *self, const float *from, size_t count, float *numbers) {
  size_t times = self->kind == GROW ? 1 : WIDTH;
  for (size_t i = 0; i < count; i++) {
    numbers[i] = from[i * times];
    for (size_t w = 1; w < times; w++) {
      if (from[i * times] != from[i * times + w]) {
        numbers[i] = -1; /* parts of two positions */
      }
    }
  }
}

void expect_tensor(const play *self, const value *holds, iobind_tensor *tensor, const char *what) {
  float came[ROWS * CAPACITY * WIDTH];
  float numbers[ROWS * CAPACITY];
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CALL(self, WELL, iobind_tensor_get_info(tensor, &info, &fault));
  if (info.bytes > sizeof came || info.dims[0] != (int64_t)holds->rows) {
    wrong(self, "%s: expected %zu rows, got %lld", what, holds->rows, (long long)info.dims[0]);
  }
  CALL(self, WELL, iobind_tensor_read(tensor, 0, came, info.bytes, NULL, &fault));
  size_t length = self->kind == SUM ? 1 : (size_t)info.dims[1];
  gather(self, came, holds->rows * length, numbers);
  const char *differs = model_differs(self->kind, holds, numbers, length);
  if (differs != NULL) {
    wrong(self, "%s: %s", what, differs);
  }
}

void expect_attention(const play *self, const value *holds, float base, size_t count, const used *valid,
                      iobind_tensor *tensor) {
  float came[ROWS * MOST_NEW * WIDTH];
  float numbers[ROWS * MOST_NEW];
  CALL(self, WELL, iobind_tensor_read(tensor, 0, came, holds->rows * count * WIDTH * sizeof *came, NULL, &fault));
  gather(self, came, holds->rows * count, numbers);
  const char *differs = model_attention_differs(holds, base, count, valid, numbers);
  if (differs != NULL) {
    wrong(self, "%s", differs);
  }
  reached(FEATURE_ATTENDED);
}

/* ---- streams ---- */

static void has_ended(play *self, int stream) {
  for (size_t i = 0; i < BINDINGS; i++) {
    player *of = &self->players[i];
    if (of->stream == stream) {
      of->stream = IDLE;
      of->runs = 0;
    }
  }
  for (size_t i = 0; i < SAVED; i++) {
    self->saved[i].stream = self->saved[i].stream == stream ? IDLE : self->saved[i].stream;
  }
}

void synchronize(play *self, int stream) {
  say("  synchronize(S%d)\n", stream);
  CALL(self, WELL, iobind_stream_synchronize(self->streams[stream], &fault));
  has_ended(self, stream);
}

void await_failure(play *self, int stream) {
  (void)!iobind_stream_synchronize(self->streams[stream], NULL);
  has_ended(self, stream);
}

void make_idle(play *self, player *of) {
  if (of->stream != IDLE) {
    synchronize(self, of->stream);
  }
}

/* ---- faults ---- */

/* A symbol of vcuda's libraries; NULL: vcuda is not loaded. */
static void *find_vcuda(const char *name) {
  void *library = is_device("cuda") ? dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD) : NULL;
  return library == NULL ? NULL : dlsym(library, name);
}

bool has_faults(void) {
  return is_device("vdev") || loses_device();
}

bool loses_device(void) {
  return find_vcuda("vcuda_set") != NULL;
}

int64_t count_work(const char *counter) {
  int64_t (*get)(int, const char *);
  *(void **)&get = find_vcuda("vcuda_get");
  return get(0, counter);
}

void take_error(void) {
  int (*recover)(int);
  int (*take_last)(void);
  *(void **)&recover = find_vcuda("vcuda_recover");
  *(void **)&take_last = find_vcuda("cudaGetLastError");
  (void)recover(0);
  (void)take_last();
}

bool fails_late(void) {
  return is_device("vdev") || device == cpu;
}

void set_fault(const char *setting, const char *when) {
  int (*set)(int, const char *, const char *) = vdev_set;
  if (loses_device()) *(void **)&set = find_vcuda("vcuda_set");
  say("  %s=%s\n", setting, when);
  if (set(0, setting, when) != 0) abort();
}

unsigned expect_state(const player *of) {
  unsigned failure = STATUS(INVALID_STATE) | STATUS(RUNTIME) | (of->has_wrong_length ? STATUS(INVALID_ARGUMENT) : 0);
  return of->is_defined == UNDEFINED ? failure : of->is_defined == UNDECIDED || of->is_told ? failure | WELL : WELL;
}

void begin_from(player *of, const value *holds, const used *counted) {
  of->now = *holds;
  of->counted = *counted;
  of->is_defined = DEFINED;
  of->is_surveyed = false;
  of->is_unsure = false;
}

/* ---- a sequence ---- */

static const char *const models[] = {
    "append opset=24 batch=-1 capacity=8 width=2", "append opset=24 batch=-1 capacity=8 width=2 attention=1",
    "hidden opset=24 batch=-1 capacity=8 width=2", "concat axis=1 dims=rows,past dims2=rows,new", "add dims=rows,2"};

static iobind_session *open_as(kind of, iobind_device *on, bool captures, bool verifies) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &on;
  options.device_count = on == cpu ? 0 : 1;
  options.graph_limit = captures ? 4 : 0;
  options.intra_op_threads = 1;
  options.verify.runs = verifies ? UINT32_MAX : 0;
  expect_ok(test_session_with(runtime, models[of], &options, &made, &fault));
  return made;
}

iobind_session *open_session_on(kind of, iobind_device *on) {
  return open_as(of, on, false, false);
}

/* Objects that sequences share. The first sequence that needs them creates them. Each kind has one set for a session that captures
 * graphs, one for a verified session and one for a session that does neither. */
enum { PLAIN, CAPTURES, VERIFIES, SORTS };
typedef struct stock {
  iobind_session *session;
  iobind_batch *batch;
  iobind_pipeline *pipeline;
} stock;
static stock stocks[SUM + 1][SORTS];

static void open_player(play *self, player *of) {
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  *of = (player){.stream = IDLE, .at = used_none(), .counted = used_none()};
  of->mode = self->kind == GROW ? IOBIND_CARRY_MOVE : self->captures ? modes[1 + draw(self, 2)] : modes[draw(self, 3)];
  of->owns_at = draw(self, 3) == 0;
  of->writes_mask = self->kind == HIDDEN && draw(self, 3) == 0;
  CALL(self, WELL, iobind_binding_create(self->session, &of->handle, &fault));
  CALL(self, WELL, iobind_binding_carry(of->handle, 0, 0, of->mode, &fault));
  if (self->kind == HIDDEN) name_lengths(self, of->handle, of->writes_mask);
  if (kind_attends(self->kind) && self->captures) { /* a graph needs outputs in memory of the binding */
    CALL(self, WELL, iobind_binding_place_output(of->handle, 1, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  }
  say("b%zu: mode %d%s%s\n", (size_t)(of - self->players), (int)of->mode, of->owns_at ? ", the length is bound" : "",
      of->writes_mask ? ", the mask is written" : "");
  do_bind(self, of);
}

static void begin(play *self, uint64_t number) {
  trace_length = 0;
  *self = (play){.number = number, .random = (number + 1) * 0x9E3779B97F4A7C15u};
  self->kind = (kind)draw(self, SUM + 1);
  size_t sort = device == cpu ? PLAIN : draw(self, SORTS);
  self->captures = self->kind != GROW && sort == CAPTURES;
  self->verifies = sort == VERIFIES;
  stock *of = &stocks[self->kind][self->captures ? CAPTURES : self->verifies ? VERIFIES : PLAIN];
  of->session = of->session == NULL ? open_as(self->kind, device, self->captures, self->verifies) : of->session;
  self->session = of->session;
  of->batch = of->batch == NULL && self->kind != GROW ? open_batch(self) : of->batch;
  self->batch = of->batch;
  of->pipeline = of->pipeline == NULL ? open_pipeline(self) : of->pipeline;
  self->pipeline = of->pipeline;
  say("kind %d%s%s\n", (int)self->kind, self->captures ? ", captures" : "", self->verifies ? ", verified" : "");
  for (size_t i = 0; i < STREAMS; i++) {
    CALL(self, WELL, iobind_stream_create(device, NULL, &self->streams[i], &fault));
  }
  for (size_t i = 0; i < BINDINGS; i++) {
    open_player(self, &self->players[i]);
  }
}

static void act(play *self) {
  player *of = &self->players[draw(self, BINDINGS)];
  switch (draw(self, 24)) {
    case 0:
    case 1: do_save(self, of); break;
    case 2:
    case 3:
    case 16: do_restore(self, of); break;
    case 4: do_reorder(self, of); break;
    case 5:
    case 6: do_rewind(self, of); break;
    case 7: do_bind(self, of); break;
    case 8: do_file(self); break;
    case 9: do_keep(self, of); break;
    case 10: do_refused_run(self, of); break;
    case 11:
      do_failed_run(self, of);
      (draw(self, 2) == 0 ? do_rewind : do_run)(self, of); /* this checks at once what the failure has left */
      break;
    case 12: make_idle(self, of); break;
    case 13: do_batch(self); break;
    case 14: do_item(self); break;
    case 15: do_wrong_run(self, of); break;
    case 17: do_name(self, of); break;
    case 18: do_wrong_length(self, of); break;
    default: do_run(self, of); break;
  }
}

static void check(play *self) {
  for (size_t i = 0; i < STREAMS; i++) {
    synchronize(self, (int)i);
  }
  for (size_t i = 0; i < BINDINGS; i++) {
    check_player(self, &self->players[i]);
  }
  leave_batch(self);
  check_all_saved(self);
  for (size_t i = 0; i < KEPT; i++) {
    if (self->kept[i].tensor != NULL) expect_tensor(self, &self->kept[i].holds, self->kept[i].tensor, "a kept result");
  }
}

static void end(play *self) {
  for (size_t i = 0; i < SAVED; i++) {
    iobind_state_release(self->saved[i].handle);
  }
  for (size_t i = 0; i < KEPT; i++) {
    iobind_tensor_release(self->kept[i].tensor);
  }
  for (size_t i = 0; i < BINDINGS; i++) {
    iobind_binding_destroy(self->players[i].handle);
    for (size_t n = 0; n < MOST_NEW; n++) iobind_tensor_release(self->players[i].news[n]);
  }
  for (size_t i = 0; i < STREAMS; i++) {
    iobind_stream_destroy(self->streams[i]);
  }
}

/* False: the device is lost. */
static bool run_sequence(uint64_t number) {
  enum { FEWEST = 6, MORE = 22, SELDOM = 20 };
  play self;
  begin(&self, number);
  size_t steps = FEWEST + draw(&self, MORE);
  for (size_t i = 0; i < steps; i++) {
    act(&self);
  }
  if (loses_device() && draw(&self, SELDOM) == 0) do_lose(&self);
  if (!self.is_lost) check(&self);
  end(&self);
  return !self.is_lost;
}

/* ---- all sequences ---- */

static const char *spec = "cpu";
static uint64_t first;
static uint64_t count;

static uint64_t *next; /* number of the next sequence, in memory that all processes share */

/* A sequence that loses the device ends its process: the process cannot use the device again. */
static void of_all_sequences(void **state) {
  bool is_well = true;
  (void)state;
  if (has_faults()) set_fault("race", "fail");
  while (is_well && *next < first + count) {
    is_well = run_sequence((*next)++);
  }
  for (size_t i = 0; i <= SUM; i++) {
    for (size_t sort = 0; sort < SORTS; sort++) {
      iobind_pipeline_destroy(stocks[i][sort].pipeline);
      iobind_batch_destroy(stocks[i][sort].batch);
      iobind_session_destroy(stocks[i][sort].session);
    }
  }
  reach_here((device != cpu ? WITH_GRAPHS : 0U) | (has_faults() ? WITH_FAULTS : 0U) | (fails_late() ? WITH_LATE : 0U) |
             (loses_device() ? WITH_LOSS : 0U) | (device == cpu ? WITH_HOST : 0U));
}

enum { NO_DEVICE = 77 };

static int run_here(void) {
  const struct CMUnitTest tests[] = {{"sequences", of_all_sequences, stage_open, stage_close, (void *)(uintptr_t)spec}};
  return fixture_has(spec) ? cmocka_run_group_tests(tests, NULL, NULL) : NO_DEVICE;
}

static int run_child(void) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) exit(run_here());
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* FIRST is the number of the first sequence. With SEQUENCES 1 it repeats that sequence. */
int main(int argc, char **argv) {
  enum { ENOUGH = 1000 };
  if (argc < 3) {
    fputs("usage: fuzz_states DEVICE SEQUENCES [FIRST]\n", stderr);
    return 2;
  }
  spec = argv[1];
  count = strtoull(argv[2], NULL, 10);
  first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  next = reach_share(sizeof *next);
  *next = first;
  int status = 0;
  while (status == 0 && *next < first + count) {
    status = run_child();
  }
  bool has_all = status == 0 && report();
  return status == 0 && count >= ENOUGH && !has_all ? 1 : status;
}
