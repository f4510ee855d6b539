/* A lost device: work on it fails after its call has returned, and permanently, as on hardware. Then all work in flight has failed, no
 * wrong result is returned, new work is refused, and the other device works. Only on vcuda, where a device can be lost on demand. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include <string.h>
#include <time.h>

#include "faults.h"
#include "operations.h"
#include "../../tests/rig/calls.h"

#define W the_world

static const char *const kernels[] = {"launches", NULL};
static const char *const copies[] = {"h2d_count", "d2h_count", "d2d_count", "peer_count", "h2h_count", "set_count", NULL};

/* What the test knows of the work that fails. */
typedef struct doom {
  const char *setting;
  const char *const *counters;
  int64_t nth;
  int stream;     /* of all work in flight; -1: any stream */
  uint64_t stamp; /* the stream's work from this number on has failed; 0: unknown */
} doom;

static uint64_t mixed;

static uint8_t draw(void) {
  mixed = mixed * 6364136223846793005U + 1442695040888963407U;
  return (uint8_t)(mixed >> 56);
}

static step draw_step(void) {
  step made = {0};
  for (size_t i = 0; i < sizeof made.x; i++) made.x[i] = draw();
  return made;
}

/* ---- work that fails ---- */

/* Create all objects, so that later calls need not create any. */
static void make_all(void) {
  static const unsigned char chosen[BINDINGS] = {0, 3, 4, 7, 2}; /* the argument of take_binding for each binding */
  for (size_t i = 0; i < SESSIONS; i++) (void)world_session(i);
  for (size_t i = 0; i < OWN_TENSORS; i++) (void)world_tensor(i);
  for (size_t i = 0; i < STREAMS; i++) (void)world_stream(i);
  for (size_t i = 0; i < EVENTS; i++) (void)world_point(i);
  for (size_t i = 0; i < BINDINGS; i++) {
    step fill = draw_step();
    fill.x[0] = chosen[i];
    do_fill(&fill);
  }
}

static void plant(doom *what) {
  char value[16] = "1,late";
  bool is_copy = draw() % 4 == 0;
  bool is_alone = draw() % 4 != 0;
  what->setting = is_copy ? "fail_copy" : "fail_compute";
  what->counters = is_copy ? copies : kernels;
  what->nth = 1 + draw() % 3;
  what->stream = is_alone ? draw() % STREAMS : -1;
  value[0] = (char)('0' + what->nth);
  for (size_t i = 0; i < STREAMS && is_alone; i++) (void)world_synchronize(i);
  if (draw() % 2 == 0) { /* calls return before the work fails */
    CHECK(device_set("delay_compute", "every:1,us:300") && device_set("delay_copy", "every:1,us:300"));
  }
  say("  %s = %s from now on\n", what->setting, value);
  CHECK(device_set(what->setting, value));
  W->is_doomed = true;
}

/* The byte by which a call takes this stream, or none. */
static uint8_t stream_byte(int stream) {
  enum { FROM = 252 }; /* a multiple of STREAMS, high enough that each operation uses a stream */
  return stream < 0 ? 0 : (uint8_t)(FROM + stream);
}

/* Wait, so that the next call usually is the first one that finds the failure. */
static void nap(void) {
  static const struct timespec time = {.tv_nsec = 3000000};
  (void)nanosleep(&time, NULL);
}

static bound *act(int stream) {
  step part = draw_step();
  bound *one = NULL;
  switch (draw() % 8) {
    case 0:
      part.x[1] = stream_byte(stream);
      do_write(&part);
      break;
    case 1:
      part.x[1] = stream_byte(stream);
      part.x[3] = 0;
      do_read(&part);
      break;
    case 2:
      part.x[2] = stream_byte(stream);
      do_copy(&part);
      break;
    case 3:
      part.x[1] = UINT8_MAX; /* a copy from the other device */
      if (draw() % 2 == 0) nap();
      part.x[2] = stream_byte(stream);
      do_cross(&part);
      break;
    default:
      one = &W->bindings[draw() % BINDINGS];
      run_on_stream(one, stream, &part);
      break;
  }
  return one;
}

/* Calls that use the device, until one returns that it is lost. */
static void go_on(doom *what) {
  int64_t before = vcuda_sum(what->counters);
  int calls = 2 + draw() % 5;
  for (int i = 0; i < calls && !W->is_lost; i++) {
    bool waits = draw() % 8 == 0;
    int stream = waits ? -1 : what->stream >= 0 ? what->stream : draw() % STREAMS;
    const uint64_t submitted = what->stream >= 0 ? W->lanes[what->stream].submitted : 0;
    const bound *one = act(stream);
    if (what->stream < 0 || what->stamp != 0 || vcuda_sum(what->counters) - before < what->nth) continue;
    if (stream < 0 && one != NULL && !W->is_lost) fail("a run returned OK, but its work has failed");
    what->stamp = submitted + 1;
    step record = {.x = {draw(), (uint8_t)what->stream, 5}};
    if (!W->is_lost) do_event(&record);
  }
}

/* ---- how the loss is reported ---- */

static bool has_failed(const doom *what, uint64_t stamp) {
  return what->stamp != 0 && stamp >= what->stamp;
}

static void ask_stream(const doom *what, size_t index) {
  const lane *of = &W->lanes[index];
  uint64_t last = (int)index == what->stream ? of->submitted : what->stream < 0 ? 0 : of->after[what->stream];
  bool well = world_synchronize(index);
  reached_if(FEATURE_LOST_WAIT, !well);
  if (well && has_failed(what, last)) fail("a stream was synchronized, but its work has failed");
}

static void ask_event(const doom *what, size_t index) {
  point *of = &W->points[index];
  if (of->handle == NULL || of->stream < 0) return;
  begin_call("event_wait(e%zu)", index);
  bool well = require_ok(end_call(iobind_event_wait(of->handle, IOBIND_NO_TIMEOUT, &the_error)));
  reached_if(FEATURE_LOST_WAIT, !well);
  if (!well) return;
  if (what->stream >= 0 && has_failed(what, of->stamps[what->stream])) fail("an event was waited for, but its work has failed");
  point_passed(of);
}

static void ask_binding(const doom *what, size_t index) {
  bound *one = &W->bindings[index];
  if (one->handle == NULL) return;
  bool in_flight = is_in_flight(one);
  bool must_fail = in_flight && one->flight.stream == what->stream && has_failed(what, one->flight.stamp);
  for (size_t i = 0; i < one->shadow.model->output_count; i++) {
    if (one->shadow.outputs[i].mode == IOBIND_OUTPUT_NONE) continue;
    iobind_tensor *tensor = NULL;
    expectation expected = {0};
    expect_result(one, i, &expected);
    expected.may |= in_flight || W->is_lost ? STATUS(INVALID_STATE) : 0;
    begin_call("get(b%zu, %s)", index, one->shadow.model->outputs[i].name);
    bool well = require(expected, end_call(iobind_binding_get_output(one->handle, i, NULL, &tensor, &the_error)));
    reached_if(FEATURE_LOST_RUN, in_flight && !well);
    if (well && must_fail) fail("the result of a failed run was returned");
    if (well && one->flight.stream >= 0) has_passed(one);
    if (well) check_result(one, i, tensor);
  }
}

/* Host memory can be read once the failure of the work that was to write it has been returned. Its content is then not checked. */
static void ask_tensor(const doom *what, size_t index) {
  const slot *of = &W->slots[index];
  if (of->tensor == NULL || !of->is_plain || of->at.count == 0) return;
  float there[MOST_ELEMENTS];
  bool is_written = world_is_busy(of->at.block, false);
  bool must_fail = what->stream >= 0 && has_failed(what, of->at.block->written[what->stream]);
  bool is_told = W->is_lost && of->where != PLACE_HOME;
  begin_call("read(t%d)", world_index(of));
  if (!require_ok(end_call(iobind_tensor_read(of->tensor, 0, there, sizeof(float) * of->at.count, NULL, &the_error)))) {
    reached_if(FEATURE_LOST_MEMORY, is_written);
    return;
  }
  if (is_told && is_written) return;
  if (W->is_lost && !is_told) fail("memory of a lost device was read");
  if (must_fail) fail("memory that failed work was to write was read");
  if (view_is_known(of->at, 0)) compare(there, of->at, "what was read");
}

static void ask_all(const doom *what) {
  enum { ALL = STREAMS + EVENTS + BINDINGS + TENSORS };
  static const size_t strides[4] = {1, 2, 8, 27}; /* none shares a factor with ALL */
  size_t at = draw() % ALL;
  size_t stride = strides[draw() % 4];
  bool skips = draw() % 2 == 0;
  for (size_t i = 0; i < ALL; i++, at = (at + stride) % ALL) {
    if (skips && W->is_lost && draw() % 2 == 0) continue; /* work that no call has queried is complete too */
    if (at < STREAMS) {
      ask_stream(what, at);
    } else if (at < STREAMS + EVENTS) {
      ask_event(what, at - STREAMS);
    } else if (at < STREAMS + EVENTS + BINDINGS) {
      ask_binding(what, at - STREAMS - EVENTS);
    } else {
      ask_tensor(what, at - STREAMS - EVENTS - BINDINGS);
    }
  }
  for (size_t i = 0; i < STREAMS && W->is_lost; i++) {
    world_check_undelivered(i, (int)i == what->stream && what->stamp != 0 ? what->stamp : UINT64_MAX);
  }
}

/* ---- calls that are refused from then on ---- */

static const expectation refused = {.must = STATUS(DEVICE_LOST)};
static const expectation fails = {.must = ~(1U << IOBIND_OK)}; /* an invalid argument may be reported first */

static void refuse_new(void) {
  static const int64_t dim = 3;
  iobind_tensor *tensor = NULL;
  iobind_stream *stream = NULL;
  begin_call("tensor_create(home)");
  (void)require(refused, end_call(iobind_tensor_create(W->home, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &tensor,
                                                       &the_error)));
  begin_call("stream_create(home)");
  (void)require(refused, end_call(iobind_stream_create(W->home, NULL, &stream, &the_error)));
}

static void refuse_streams(void) {
  for (size_t i = 0; i < STREAMS; i++) {
    for (size_t e = 0; e < EVENTS; e++) {
      begin_call("event_record(e%zu, S%zu)", e, i);
      (void)require(refused, end_call(iobind_event_record(W->points[e].handle, W->lanes[i].handle, &the_error)));
    }
  }
}

static void refuse_access(const slot *of, iobind_stream *stream) {
  float values[MOST_ELEMENTS] = {0};
  begin_call("read(t%d, a stream of the lost device or none)", world_index(of));
  (void)require(refused, end_call(iobind_tensor_read(of->tensor, 0, values, sizeof(float) * of->at.count, stream, &the_error)));
  begin_call("write(t%d, a stream of the lost device or none)", world_index(of));
  (void)require(of->at.block->is_frozen ? fails : refused,
                end_call(iobind_tensor_write(of->tensor, 0, values, sizeof(float) * of->at.count, stream, &the_error)));
}

/* Copies to the other device and from it are refused. */
static void refuse_crossing(slot *of) {
  if (!world_other_works() || of->at.count != 3) return;
  world_change();
  slot *away = world_tensor(0);
  world_change();
  iobind_tensor *both[2] = {of->tensor, away->tensor};
  for (size_t i = 0; i < 2; i++) {
    const iobind_tensor *source = both[i];
    begin_call("copy(t%d, t%d)", world_index(i == 0 ? of : away), world_index(i == 0 ? away : of));
    (void)require(i == 1 && of->at.block->is_frozen ? fails : refused,
                  end_call(iobind_tensor_copy(&source, &both[1 - i], 1, NULL, &the_error)));
  }
}

static void refuse_runs(void) {
  iobind_tensor *results[MOST_PORTS] = {NULL};
  for (size_t i = 0; i < BINDINGS; i++) {
    iobind_binding *handle = W->bindings[i].handle;
    for (size_t s = 0; s <= STREAMS && handle != NULL; s++) {
      begin_call("run(b%zu%s)", i, on_stream((int)s - 1));
      (void)require(fails, end_call(iobind_binding_run(handle, s == 0 ? NULL : W->lanes[s - 1].handle, &the_error)));
    }
  }
  iobind_tensor *inputs[2] = {W->slots[0].tensor, W->slots[1].tensor};
  if (inputs[0] == NULL || inputs[1] == NULL) return;
  begin_call("session_run(grow)");
  (void)require(refused, end_call(call_session_run(W->sessions[1], inputs, results, &the_error)));
}

/* No work is in flight any more. */
static void clear_all(void) {
  for (size_t i = 0; i < BINDINGS; i++) {
    if (W->bindings[i].handle == NULL) continue;
    begin_call("clear(b%zu)", i);
    iobind_status status = end_call(iobind_binding_clear(W->bindings[i].handle, &the_error));
    if (status != IOBIND_OK) fail("expected OK, got %s", the_error.message);
    shadow_clear(&W->bindings[i].shadow);
  }
}

static void refuse_all(void) {
  refuse_new();
  refuse_streams();
  for (size_t i = 0; i < TENSORS; i++) {
    slot *of = &W->slots[i];
    if (of->tensor == NULL || !of->is_plain || of->at.count == 0 || of->where != PLACE_HOME) continue;
    refuse_access(of, NULL);
    refuse_access(of, W->lanes[draw() % STREAMS].handle);
    refuse_crossing(of);
  }
  refuse_runs();
}

/* ---- a step ---- */

void do_lose(const step *from) {
  doom what = {.stream = -1};
  if (!W->is_vcuda || !loses_devices || fault_is_set()) return;
  memcpy(&mixed, from, sizeof mixed);
  make_all();
  plant(&what);
  go_on(&what);
  ask_all(&what);
  CHECK(device_set(what.setting, "0"));
  bool recovers = draw() % 2 == 0 || !W->is_lost; /* then only iobind knows that the device is lost */
  int error = recovers ? vcuda_take_error() : 0;
  if (!W->is_lost && error != 0) fail("the device has failed with error %d, and no call has returned it", error);
  reached_if(FEATURE_LOST, W->is_lost);
  W->is_doomed = W->is_lost; /* otherwise no work was submitted that could fail */
  if (!W->is_lost) return;
  bool clears_first = draw() % 2 == 0;
  if (clears_first) clear_all();
  refuse_all();
  if (!clears_first) clear_all();
}
