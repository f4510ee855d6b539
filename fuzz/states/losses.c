/* A GPU that is lost at the end of a sequence. Work fails after its call has returned; the loss is permanent, as on hardware. Afterwards:
 * - no wait reports the failed work as complete;
 * - no state in the device's memory can be read;
 * - new work is refused;
 * - a state that was written to a file can be restored on another device.
 * Only on vcuda, where a device can be lost on demand. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "play.h"

static const char *const kernels[] = {"launches", NULL};
static const char *const copies[] = {"h2d_count", "d2h_count", "d2d_count", "set_count", NULL};

typedef struct doom {
  player *of;
  int stream; /* of all submitted work; IDLE: none, each call blocks until its work is complete */
  const char *const *counters;
  int64_t before; /* sum of the counters when the fault was set */
  int64_t nth;    /* the work that fails, counted from then */
  bool is_lost;   /* a call has returned that the device is lost */
  bool is_late;   /* `late` was saved after the failure */
  iobind_state *late;
  char path[64];
  value holds; /* the state in the file */
} doom;

static int64_t sum(const char *const *names) {
  int64_t total = 0;
  for (; *names != NULL; names++) total += count_work(*names);
  return total;
}

/* Has the work that fails been submitted? */
static bool is_hit(const doom *what) {
  return sum(what->counters) - what->before >= what->nth;
}

/* A call that may return a failure of its own work or of earlier work. */
static bool go(const play *self, doom *what, iobind_status status, const char *call) {
  bool well = require(self, status, WELL | STATUS(DEVICE_LOST), call);
  what->is_lost = what->is_lost || !well;
  return well;
}
#define GO(call) (fixture_arm(), go(self, what, (call), #call))

static void refuse(const play *self, iobind_status status, unsigned may, const char *call) {
  (void)require(self, status, STATUS(DEVICE_LOST) | may, call);
}
#define REFUSE(may, call) (fixture_arm(), refuse(self, (call), (may), #call))

/* ---- before ---- */

/* Run the binding once, so that all inputs of a run are bound. */
static void make_ready(play *self, player *of) {
  make_idle(self, of);
  do_bind(self, of);
  of->is_told = false;
  do_run(self, of);
  make_idle(self, of);
  if (of->bound == 0) do_bind(self, of);
}

static void write_file(play *self, doom *what) {
  iobind_state *state;
  snprintf(what->path, sizeof what->path, "/tmp/iobind-fuzz-lost-%ld", (long)getpid());
  CALL(self, WELL, iobind_binding_save_state(what->of->handle, &state, &fault));
  CALL(self, WELL, iobind_state_save(state, what->path, &fault));
  what->holds = player_holds(self, what->of);
  put_saved(self, state, &what->of->now, &what->of->counted, BINDINGS);
}

static void plant(play *self, doom *what) {
  char when[16] = "1,late";
  bool is_copy = self->captures || draw(self, 3) == 0; /* a replay makes no kernel launches that the fault counts */
  what->nth = 1 + (int64_t)draw(self, 3);
  what->counters = is_copy ? copies : kernels;
  when[0] = (char)('0' + what->nth);
  if (draw(self, 2) == 0) set_fault(is_copy ? "delay_copy" : "delay_compute", "every:1,us:2000"); /* the calls return first */
  what->before = sum(what->counters);
  set_fault(is_copy ? "fail_copy" : "fail_compute", when);
}

/* ---- more runs ---- */

static bool run_doomed(play *self, doom *what) {
  static float numbers[ROWS * MOST_NEW * WIDTH];
  static const int64_t none = 0;
  player *of = what->of;
  iobind_stream *stream = what->stream == IDLE ? NULL : self->streams[what->stream];
  size_t bytes = of->now.rows * sizeof *numbers *
                 (self->kind == GROW  ? of->bound
                  : self->kind == SUM ? WIDTH
                                      : of->bound * WIDTH);
  if (!GO(iobind_binding_write_input(of->handle, 1, numbers, bytes, stream, &fault))) return false;
  bool writes = kind_is_cache(self->kind);
  if (writes && !GO(iobind_binding_write_lengths(of->handle, of->bound, &none, 1, stream, &fault))) return false;
  bool well = GO(iobind_binding_run(of->handle, stream, &fault));
  if (well && stream == NULL && is_hit(what)) wrong(self, "a run returned OK, but its work has failed");
  return well;
}

static void save_doomed(play *self, doom *what) {
  bool is_late = is_hit(what);
  if (what->late != NULL || !GO(iobind_binding_save_state(what->of->handle, &what->late, &fault))) return;
  what->is_late = is_late;
}

static void go_on(play *self, doom *what) {
  enum { MOST = 24 };
  for (int i = 0; i < MOST && !what->is_lost; i++) {
    if (run_doomed(self, what) && draw(self, is_hit(what) ? 2 : 4) == 0) save_doomed(self, what);
    if (is_hit(what) && draw(self, 3) == 0) break;
  }
}

/* ---- how the loss is reported ---- */

/* Until the host knows of the failure, a state can be saved, and reading it blocks. */
static void ask_late(const play *self, const doom *what) {
  float numbers[ROWS * CAPACITY * WIDTH];
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  if (what->late == NULL) return;
  fixture_arm();
  iobind_status status = iobind_state_get_pair(what->late, 0, &pair, &fault);
  if (status == IOBIND_OK) {
    CALL(self, WELL, iobind_tensor_get_info(pair.tensor, &info, &fault));
    status = iobind_tensor_read(pair.tensor, 0, numbers, info.bytes, NULL, &fault);
  }
  if (status == IOBIND_OK && what->is_late && info.bytes > 0) wrong(self, "the state of a failed run can be read");
  reached_if(FEATURE_LOST_IN_FLIGHT, what->is_late);
}

static void ask(play *self, doom *what) {
  bool states_first = draw(self, 2) == 0;
  if (states_first) ask_late(self, what);
  for (int i = 0; i < STREAMS; i++) {
    bool is_its = what->stream == i;
    fixture_arm();
    iobind_status status = iobind_stream_synchronize(self->streams[i], &fault);
    bool well = require(self, status, WELL | STATUS(DEVICE_LOST), "iobind_stream_synchronize");
    if (well && is_its && is_hit(what)) wrong(self, "a stream was synchronized, but its work has failed");
    what->is_lost = what->is_lost || !well;
  }
  if (!states_first) ask_late(self, what);
  if (!what->is_lost) wrong(self, "no call has returned that the device is lost");
}

/* ---- calls that are refused from then on ---- */

static void refuse_saved(const play *self, const saved *one) {
  float numbers[ROWS * CAPACITY * WIDTH];
  char path[64];
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  if (one->handle == NULL) return;
  fixture_arm();
  if (iobind_state_get_pair(one->handle, 0, &pair, &fault) == IOBIND_OK) {
    CALL(self, WELL, iobind_tensor_get_info(pair.tensor, &info, &fault));
    if (info.bytes == 0) return; /* an empty tensor needs no device */
    REFUSE(0, iobind_tensor_read(pair.tensor, 0, numbers, info.bytes, NULL, &fault));
  }
  snprintf(path, sizeof path, "/tmp/iobind-fuzz-refused-%ld", (long)getpid());
  REFUSE(0, iobind_state_save(one->handle, path, &fault));
  if (access(path, F_OK) == 0) wrong(self, "a lost state was written to a file");
  reached(FEATURE_LOST_STATE);
}

static void refuse_player(play *self, const player *of) {
  static const int64_t rows[ROWS] = {0};
  iobind_state *state = NULL;
  const saved *from = &self->saved[draw(self, SAVED)];
  const unsigned undefined = STATUS(INVALID_STATE);
  REFUSE(undefined, iobind_binding_run(of->handle, NULL, &fault));
  REFUSE(undefined, iobind_binding_run(of->handle, self->streams[0], &fault));
  fixture_arm();
  if (iobind_binding_save_state(of->handle, &state, &fault) == IOBIND_OK) { /* by reference */
    const saved one = {.handle = state};
    refuse_saved(self, &one);
    iobind_state_release(state);
  }
  (void)!iobind_binding_rewind_state(of->handle, 0, NULL);
  REFUSE(undefined, iobind_binding_reorder_state(of->handle, 0, rows, of->now.rows, &fault));
  if (from->handle != NULL) (void)!iobind_binding_restore_state(of->handle, from->handle, NULL);
  REFUSE(undefined, iobind_binding_run(of->handle, NULL, &fault));
}

static void refuse_batch(const play *self) {
  uint64_t slots[SLOTS];
  size_t count = 0;
  for (size_t i = 0; i < SLOTS; i++) {
    if (self->members[i].is_here) slots[count++] = self->members[i].slot;
  }
  if (count == 0) return;
  fixture_arm();
  if (iobind_batch_run(self->batch, slots, count, NULL, &fault) == IOBIND_OK) wrong(self, "a lost device ran a step");
  reached(FEATURE_LOST_BATCH);
}

static void refuse_all(play *self, const doom *what) {
  iobind_state *loaded = NULL;
  for (size_t i = 0; i < SAVED; i++) refuse_saved(self, &self->saved[i]);
  for (size_t i = 0; i < BINDINGS; i++) refuse_player(self, &self->players[i]);
  REFUSE(0, iobind_state_load(self->session, what->path, &loaded, &fault));
  refuse_batch(self);
}

/* ---- on another device ---- */

/* Restore the file's state on the CPU or on the other GPU. */
static void go_elsewhere(play *self, const doom *what) {
  iobind_device *to = draw(self, 2) == 0 ? cpu : fixture_device(runtime, "cuda:1");
  iobind_session *session = open_session_on(self->kind, to);
  iobind_binding *binding;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_state *states[2];
  CALL(self, WELL, iobind_state_load(session, what->path, &states[0], &fault));
  CALL(self, WELL, iobind_binding_create(session, &binding, &fault));
  CALL(self, WELL, iobind_binding_carry(binding, 0, 0, what->of->mode, &fault));
  if (self->kind == HIDDEN) name_lengths(self, binding, what->of->writes_mask);
  CALL(self, WELL, iobind_binding_restore_state(binding, states[0], &fault));
  CALL(self, WELL, iobind_binding_save_state(binding, &states[1], &fault));
  for (size_t i = 0; i < 2; i++) {
    CALL(self, WELL, iobind_state_get_pair(states[i], 0, &pair, &fault));
    expect_tensor(self, &what->holds, pair.tensor, "a state on another device");
    iobind_state_release(states[i]);
  }
  reached(FEATURE_LOST_ELSEWHERE);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

void do_lose(play *self) {
  doom what = {.of = &self->players[draw(self, BINDINGS)], .stream = (int)draw(self, STREAMS + 1) - 1};
  for (int i = 0; i < STREAMS; i++) synchronize(self, i);
  make_ready(self, what.of);
  bool has_mask = !what.of->writes_mask || what.of->mask_rows == what.of->now.rows;
  if (what.of->bound == 0 || !has_mask) return; /* it could not run: no room, or no length */
  say("  b%zu: the device is lost, on S%d\n", (size_t)(what.of - self->players), what.stream);
  write_file(self, &what);
  plant(self, &what);
  go_on(self, &what);
  ask(self, &what);
  set_fault("fail_copy", "0");
  set_fault("fail_compute", "0");
  if (draw(self, 2) == 0) take_error(); /* from now on only iobind knows that the device is lost */
  refuse_all(self, &what);
  go_elsewhere(self, &what);
  if (remove(what.path) != 0) abort();
  iobind_state_release(what.late);
  self->is_lost = true;
  reached(FEATURE_LOST);
}
