/* Calls while a run is in flight: within ORT's call, on a thread of the test or of the library, until the test ends it. */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "fake_ort.h"
#include "scenario.h"

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool is_inside, may_go;
  pthread_t thread;
  iobind_status status; /* of the thread's run */
} held = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void stand_within_run(void *context) {
  (void)context;
  pthread_mutex_lock(&held.mutex);
  held.is_inside = true;
  pthread_cond_broadcast(&held.changed);
  while (!held.may_go) {
    pthread_cond_wait(&held.changed, &held.mutex);
  }
  pthread_mutex_unlock(&held.mutex);
}

static void hold_next_run(void) {
  held.is_inside = false;
  held.may_go = false;
  fake_ort_hook("RunWithBinding", stand_within_run, NULL);
}

static void wait_until_inside(void) {
  pthread_mutex_lock(&held.mutex);
  while (!held.is_inside) {
    pthread_cond_wait(&held.changed, &held.mutex);
  }
  pthread_mutex_unlock(&held.mutex);
  fake_ort_hook("RunWithBinding", NULL, NULL);
}

static void let_go(struct rig *rig) {
  pthread_mutex_lock(&held.mutex);
  held.may_go = true;
  pthread_cond_broadcast(&held.changed);
  pthread_mutex_unlock(&held.mutex);
  rig->end = NULL;
}

static void make_bound(struct rig *rig) {
  rig_binding(rig, "scale");
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
}

static void expect_output(struct rig *rig, iobind_binding *binding, const float *values) {
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_get_output(binding, 0, NULL, &output, &rig->error));
  rig_expect(rig, output, values, RIG_VALUES);
}

/* ---- cancelled from another thread ---- */

static void *run_in_thread(void *context) {
  const struct rig *rig = context;
  iobind_error error = IOBIND_ERROR_INIT;
  held.status = iobind_binding_run(rig->binding, rig->stream, &error);
  return NULL;
}

static void end_thread(struct rig *rig) {
  let_go(rig);
  pthread_join(held.thread, NULL);
}

void busy_begin(struct rig *rig) {
  hold_next_run();
  NEED_TRUE(pthread_create(&held.thread, NULL, run_in_thread, rig) == 0);
  rig->end = end_thread;
  wait_until_inside();
}

static void make_running(struct rig *rig) {
  make_bound(rig);
  busy_begin(rig);
}

/* ORT can leave the nodes of a run that is cancelled out, and say OK. */
static void make_running_for_nothing(struct rig *rig) {
  make_bound(rig);
  NEED_TRUE(fake_ort_leave_out("RunWithBinding", fake_ort_count("RunWithBinding") + 1));
  busy_begin(rig);
}

static void make_running_for_nothing_on_stream(struct rig *rig) {
  make_bound(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED_TRUE(fake_ort_leave_out("RunWithBinding", fake_ort_count("RunWithBinding") + 1));
  busy_begin(rig);
}

static iobind_status cancel(struct rig *rig) {
  return iobind_binding_cancel(rig->binding, &rig->error);
}

iobind_status busy_end(struct rig *rig) {
  end_thread(rig);
  return held.status;
}

/* The run ends, and the next one is not cancelled. A device that queues by itself has been waited for, by a copy from it: ORT may have
 * submitted some of the run. */
static void is_cancelled(struct rig *rig) {
  size_t copies = fake_ort_count("CopyTensors");
  NEED_TRUE(busy_end(rig) == IOBIND_ERROR_CANCELLED);
  NEED_TRUE(rig->place != ON_STRANGE || fake_ort_count("CopyTensors") > copies);
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  expect_output(rig, rig->binding, rig_twos);
}

/* ---- behind a run of the thread of a stream ---- */

static void make_busy(struct rig *rig) {
  make_bound(rig);
  rig->y = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  rig->many[0] = rig_floats(rig, rig->device, rig_twos, RIG_VALUES);
  NEED(rig, iobind_binding_create(rig->session, &rig->second_binding, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->second_binding, 0, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->second_stream, &rig->error));
  NEED(rig, iobind_event_create(rig->device, &rig->event, &rig->error));
  hold_next_run();
  NEED(rig, iobind_binding_run(rig->binding, rig->stream, &rig->error));
  rig->end = let_go;
  wait_until_inside();
}

static void make_busy_for_nothing(struct rig *rig) {
  NEED_TRUE(fake_ort_leave_out("RunWithBinding", fake_ort_count("RunWithBinding") + 1));
  make_busy(rig);
}

static void make_busy_and_recorded(struct rig *rig) {
  make_busy(rig);
  NEED(rig, iobind_event_record(rig->event, rig->stream, &rig->error));
}

/* The input of the second binding is ready when the run in flight is complete. */
static void make_busy_and_announced(struct rig *rig) {
  make_busy_and_recorded(rig);
  NEED(rig, iobind_binding_set_input(rig->second_binding, 0, IOBIND_INPUT_RESIDENT, rig->y, rig->event, &rig->error));
}

/* Everything that was submitted is done. */
static void settle(struct rig *rig) {
  let_go(rig);
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
  NEED(rig, iobind_stream_synchronize(rig->second_stream, &rig->error));
  expect_output(rig, rig->binding, rig_twos);
}

static iobind_status write_behind(struct rig *rig) {
  return iobind_tensor_write(rig->y, 0, rig_twos, sizeof rig_twos, rig->stream, &rig->error);
}

static iobind_status copy_behind(struct rig *rig) {
  const iobind_tensor *const sources[1] = {rig->many[0]};
  return iobind_tensor_copy(sources, &rig->y, 1, rig->stream, &rig->error);
}

/* Two rows of one value: the first and third of many[0] become the beginning of y. */
static iobind_status copy_rows_behind(struct rig *rig) {
  iobind_rows source = IOBIND_ROWS_INIT;
  source.tensor = rig->many[0];
  source.pitch = 2 * sizeof(float);
  iobind_rows target = IOBIND_ROWS_INIT;
  target.tensor = rig->y;
  target.pitch = sizeof(float);
  return iobind_tensor_copy_rows(&source, &target, sizeof(float), 2, rig->stream, &rig->error);
}

/* By its address: any other access would come after what is in flight. */
static void y_is_not_yet_twos(struct rig *rig) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  NEED(rig, iobind_tensor_get_info(rig->y, &info, &rig->error));
  if (info.host_readable != 0) {
    NEED_TRUE(((const float *)iobind_tensor_get_address(rig->y))[1] == rig_ones[1]);
  }
}

static void y_is_twos(struct rig *rig) {
  y_is_not_yet_twos(rig);
  settle(rig);
  rig_expect(rig, rig->y, rig_twos, RIG_VALUES);
}

static void y_has_rows(struct rig *rig) {
  const float expected[RIG_VALUES] = {rig_twos[0], rig_twos[2], rig_ones[2], rig_ones[3]};
  settle(rig);
  rig_expect(rig, rig->y, expected, RIG_VALUES);
}

static iobind_status read_behind(struct rig *rig) {
  return iobind_tensor_read(rig->y, 0, rig->values, sizeof rig->values, rig->stream, &rig->error);
}

static void was_read(struct rig *rig) {
  NEED_TRUE(rig->values[1] == 0); /* not yet */
  settle(rig);
  NEED_TRUE(rig->values[1] == rig_ones[1]);
}

static iobind_status record_behind(struct rig *rig) {
  return iobind_event_record(rig->event, rig->stream, &rig->error);
}

static iobind_status query_behind(struct rig *rig) {
  iobind_status status = iobind_event_query(rig->event, &rig->done, &rig->error);
  NEED_TRUE(rig->done == 0);
  return status;
}

static iobind_status wait_behind(struct rig *rig) {
  return iobind_stream_wait(rig->second_stream, rig->event, &rig->error);
}

static iobind_status run_behind(struct rig *rig) {
  return iobind_binding_run(rig->second_binding, rig->stream, &rig->error);
}

static iobind_status run_beside(struct rig *rig) {
  return iobind_binding_run(rig->second_binding, rig->second_stream, &rig->error);
}

static void both_have_run(struct rig *rig) {
  settle(rig);
  expect_output(rig, rig->second_binding, rig_twos);
}

static iobind_status cancel_on_stream(struct rig *rig) {
  return iobind_binding_cancel(rig->binding, &rig->error);
}

static void stream_is_cancelled(struct rig *rig) {
  let_go(rig);
  NEED_TRUE(iobind_stream_synchronize(rig->stream, &rig->error) == IOBIND_ERROR_CANCELLED);
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  expect_output(rig, rig->binding, rig_twos);
}

/* ---- given up while an EP's stream still works on it ---- */

static void make_submitted(struct rig *rig) {
  make_bound(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, rig->stream, &rig->error));
}

static iobind_status destroy_binding(struct rig *rig) {
  iobind_binding_destroy(rig->binding);
  rig->binding = NULL;
  return IOBIND_OK;
}

static void make_written(struct rig *rig) {
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, rig->stream, &rig->error));
}

static iobind_status release_tensor(struct rig *rig) {
  iobind_tensor_release(rig->x);
  rig->x = NULL;
  return IOBIND_OK;
}

#define BEHIND(name, of, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = ON_CPU, .prepare = (prepares), .call = (calls), .right = (checks) }

const struct scenario busy_scenarios[] = {
    {.function = "iobind_binding_cancel",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_running,
     .call = cancel,
     .right = is_cancelled},
    {.function = "iobind_binding_cancel",
     .variant = "left out",
     .places = ON_ALL,
     .prepare = make_running_for_nothing,
     .call = cancel,
     .right = is_cancelled},
    {.function = "iobind_binding_cancel",
     .variant = "left out on an EP's stream",
     .places = ON_VDEV,
     .prepare = make_running_for_nothing_on_stream,
     .call = cancel,
     .right = is_cancelled},
    BEHIND("iobind_binding_cancel", "on a stream", make_busy, cancel_on_stream, stream_is_cancelled),
    BEHIND("iobind_binding_cancel", "left out on a stream", make_busy_for_nothing, cancel_on_stream, stream_is_cancelled),
    BEHIND("iobind_tensor_write", "behind a run", make_busy, write_behind, y_is_twos),
    BEHIND("iobind_tensor_copy", "behind a run", make_busy, copy_behind, y_is_twos),
    {.function = "iobind_tensor_copy_rows",
     .variant = "behind a run",
     .places = ON_CPU | ON_STRANGE,
     .prepare = make_busy,
     .call = copy_rows_behind,
     .right = y_has_rows},
    BEHIND("iobind_tensor_read", "behind a run", make_busy, read_behind, was_read),
    BEHIND("iobind_event_record", "behind a run", make_busy, record_behind, settle),
    BEHIND("iobind_event_query", "behind a run", make_busy_and_recorded, query_behind, settle),
    BEHIND("iobind_stream_wait", "behind a run", make_busy_and_recorded, wait_behind, settle),
    BEHIND("iobind_binding_run", "behind a run", make_busy, run_behind, both_have_run),
    BEHIND("iobind_binding_run", "behind a run of another stream", make_busy_and_announced, run_beside, both_have_run),
    {.function = "iobind_binding_destroy",
     .variant = "in flight",
     .places = ON_VDEV,
     .prepare = make_submitted,
     .call = destroy_binding,
     .last = true},
    {.function = "iobind_tensor_release",
     .variant = "in flight",
     .places = ON_VDEV,
     .prepare = make_written,
     .call = release_tensor,
     .last = true},
    {.function = NULL},
};
