/* Traps of binding and of the run: what ORT accepts, remembers or does silently. */
#include "trap.h"

#include <string.h>

#include "session/session.h"
#include "../rig/calls.h"

static const float two[] = {1, 2};
static const float doubled[] = {2, 4};

/* ---- what is wrong must not reach ORT: after one failed BindInput it refuses the next good one as well ---- */

static int bind_calls;

static OrtStatus *ORT_CALL count_bind_input(OrtIoBinding *binding, const char *name, const OrtValue *value) {
  bind_calls++;
  return real->BindInput(binding, name, value);
}

static OrtStatus *ORT_CALL count_bind_output(OrtIoBinding *binding, const char *name, const OrtValue *value) {
  bind_calls++;
  return real->BindOutput(binding, name, value);
}

static OrtStatus *ORT_CALL count_bind_device(OrtIoBinding *binding, const char *name, const OrtMemoryInfo *info) {
  bind_calls++;
  return real->BindOutputToDevice(binding, name, info);
}

static void count_binds(void) {
  table.BindInput = count_bind_input;
  table.BindOutput = count_bind_output;
  table.BindOutputToDevice = count_bind_device;
  bind_calls = 0;
}

static void poisoned_binding(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  iobind_tensor *x = fixture_floats(cpu, two, 2);

  /* ORT: one unknown name, and the good one is refused */
  OrtIoBinding *raw = NULL;
  assert_null(real->CreateIoBinding(session->session, &raw));
  OrtStatus *unknown = real->BindInput(raw, "nope", x->value);
  OrtStatus *good = real->BindInput(raw, "x", x->value);
  assert_non_null(unknown);
  assert_non_null(good);
  real->ReleaseStatus(unknown);
  real->ReleaseStatus(good);
  real->ReleaseIoBinding(raw);

  count_binds();
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *wrong = NULL;
  static const int64_t dims[] = {1, 2};
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 2, &wrong, &fault));
  size_t index = 7;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_find_input(session, "nope", &index, &fault));
  expect_words("'x'");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, wrong, NULL, &fault));
  assert_int_equal(bind_calls, 0);
  trap_set_input(binding, 0, x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *y = trap_take(binding, 0);
  fixture_expect_floats(y, doubled, 2);
  iobind_tensor_release(y);
  iobind_tensor_release(wrong);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ORT takes any name, type and shape for an output, and only the run fails. */
static void unknown_outputs(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "add dims=n,3");
  iobind_tensor *flat = fixture_floats(cpu, NULL, 6);

  OrtIoBinding *raw = NULL;
  assert_null(real->CreateIoBinding(session->session, &raw));
  assert_null(real->BindOutput(raw, "nope", flat->value));
  assert_null(real->BindOutputToDevice(raw, "neither", runtime->cpu_info));
  assert_null(real->BindOutput(raw, "z", flat->value)); /* of another rank */
  real->ReleaseIoBinding(raw);

  count_binds();
  iobind_binding *binding = trap_bind(session);
  size_t index = 7;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_find_output(session, "nope", &index, &fault));
  expect_words("'z'");
  expect(IOBIND_ERROR_NOT_FOUND,
         iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_binding_set_output(binding, 0, flat, 0, &fault));
  expect_words("float32[n,3]");
  expect_words("float32[6]");
  assert_int_equal(bind_calls, 0);
  iobind_tensor_release(flat);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ORT runs with what is missing and says where in its source it noticed; on some EPs it crashes. */
static int runs;

static OrtStatus *ORT_CALL count_run(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  runs++;
  return real->RunWithBinding(session, options, binding);
}

static void missing_input(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "add");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(vdev, two, 2);
  table.RunWithBinding = count_run;
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("'x' is not bound");
  trap_set_input(binding, 0, x);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("'y' is not bound");
  assert_int_equal(runs, 0);
  trap_set_input(binding, 1, x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(runs, 1);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ---- whose binding is run on whose session ---- */

static const OrtSession *made_for[2];
static const OrtIoBinding *made[2];
static size_t made_count;
static int foreign_runs;

static OrtStatus *ORT_CALL note_binding(OrtSession *session, OrtIoBinding **binding) {
  OrtStatus *status = real->CreateIoBinding(session, binding);
  made_for[made_count] = session;
  made[made_count++] = *binding;
  return status;
}

static OrtStatus *ORT_CALL match_run(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  for (size_t i = 0; i < made_count; i++) {
    foreign_runs += made[i] == binding && made_for[i] != session;
  }
  runs++;
  return real->RunWithBinding(session, options, binding);
}

/* ORT runs any session with any binding, on addresses that were chosen for another one. Here a binding runs its own session. */
static void cross_session_binding(void **state) {
  (void)state;
  iobind_session *sessions[2] = {fixture_session(runtime, cpu, "scale"), fixture_session(runtime, vdev, "scale factor=3")};
  static const float tripled[] = {3, 6};

  OrtIoBinding *raw = NULL;
  iobind_tensor *x = fixture_floats(cpu, two, 2);
  assert_null(real->CreateIoBinding(sessions[0]->session, &raw));
  assert_null(real->BindInput(raw, "x", x->value));
  assert_null(real->BindOutputToDevice(raw, "y", runtime->cpu_info));
  OrtStatus *other = real->RunWithBinding(sessions[1]->session, NULL, raw);
  assert_null(other); /* not a word */
  real->ReleaseIoBinding(raw);

  table.CreateIoBinding = note_binding;
  table.RunWithBinding = match_run;
  iobind_binding *bindings[2] = {trap_bind(sessions[0]), trap_bind(sessions[1])};
  iobind_tensor *of_vdev = fixture_floats(vdev, two, 2);
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(bindings[0], 0, IOBIND_INPUT_RESIDENT, of_vdev, NULL, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(bindings[1], 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  trap_set_input(bindings[0], 0, x);
  trap_set_input(bindings[1], 0, of_vdev);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 2; i++) {
      expect_ok(iobind_binding_run(bindings[i], NULL, &fault));
      iobind_tensor *y = trap_take(bindings[i], 0);
      fixture_expect_floats(y, i == 0 ? doubled : tripled, 2);
      iobind_tensor_release(y);
    }
  }
  assert_int_equal(runs, 4);
  assert_int_equal(foreign_runs, 0);
  iobind_tensor_release(x);
  iobind_tensor_release(of_vdev);
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_session_destroy(sessions[i]);
  }
}

/* ---- places ---- */

/* ORT binds an output of a CPU session to a device silently, and the CPU's kernels write through the device's address. On the
 * virtual accelerator that ends the process. */
static void device_pointer_given_to_a_cpu_session(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(cpu, two, 2);
  iobind_tensor *far = fixture_floats(vdev, two, 2);
  static const int given[] = {OUTPUT_FIXED, OUTPUT_IN_PLACE};
  static const int made_there[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE};
  trap_set_input(binding, 0, x);
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, far, NULL, &fault));
  expect_words("vdev:0");
  for (int i = 0; i < 2; i++) {
    expect(IOBIND_ERROR_WRONG_DEVICE, call_binding_set_output(binding, 0, given[i], NULL, IOBIND_MEMORY_DEFAULT, far, &fault));
    expect(IOBIND_ERROR_WRONG_DEVICE,
           call_binding_set_output(binding, 0, made_there[i], vdev, IOBIND_MEMORY_DEFAULT, NULL, &fault));
  }
  iobind_tensor *output = NULL;
  expect(IOBIND_ERROR_WRONG_DEVICE, call_session_run(session, &far, &output, &fault));
  assert_null(output);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *y = trap_take(binding, 0);
  fixture_expect_floats(y, doubled, 2);
  iobind_tensor_release(y);
  iobind_tensor_release(far);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Another device of the same EP is another device. */
static void tensor_of_the_device_beside(void **state) {
  (void)state;
  iobind_device *beside = NULL;
  expect_ok(iobind_runtime_find_device(runtime, "vdev:1", &beside, NULL, &fault));
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(beside, two, 2);
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_output(binding, 0, x, 0, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE,
         iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, beside, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *y = trap_take(binding, 0);
  fixture_expect_floats(y, doubled, 2);
  iobind_tensor_release(y);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* An EP that answers a request for its memory with the CPU's: OpenVINO has done it. */
static OrtStatus *ORT_CALL bind_to_the_cpu(OrtIoBinding *binding, const char *name, const OrtMemoryInfo *info) {
  (void)info;
  return real->BindOutputToDevice(binding, name, runtime->cpu_info);
}

static void silent_cpu_fallback(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(vdev, two, 2);
  iobind_tensor *y = x;
  trap_set_input(binding, 0, x);
  trap_set_output(binding, 0, IOBIND_OUTPUT_FRESH, vdev, NULL);
  table.BindOutputToDevice = bind_to_the_cpu;
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_run(binding, NULL, &fault));
  expect_words("'y': expected memory of 'vdev:0', as bound, got 'Cpu'");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  assert_null(y);
  table.BindOutputToDevice = real->BindOutputToDevice;
  trap_set_output(binding, 0, IOBIND_OUTPUT_FRESH, vdev, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  y = trap_take(binding, 0);
  fixture_expect_floats(y, doubled, 2);
  iobind_tensor_release(y);

  /* later on, when a run looks no more, the fetch does */
  table.BindOutputToDevice = bind_to_the_cpu;
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  assert_null(y);
  table.BindOutputToDevice = real->BindOutputToDevice;
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Nodes that the device does not take run on the CPU, and still the output is where it was asked for. */
static void nodes_left_to_the_cpu(void **state) {
  (void)state;
  assert_int_equal(vdev_set(0, "deny", "Mul"), 0);
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(vdev, two, 2);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, x, NULL, &fault));
  trap_set_output(binding, 0, IOBIND_OUTPUT_FRESH, vdev, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *y = trap_take(binding, 0);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(y, &info, &fault));
  assert_ptr_equal(info.device, vdev);
  fixture_expect_floats(y, doubled, 2);
  iobind_tensor_release(y);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ORT copies a bound host tensor to the device when it is bound, on a stream of its choice that the run does not wait for. It gets
 * nothing to copy: what moves is what iobind counts. */
static void ort_copies_nothing_at_bind(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "add");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *host = fixture_floats(cpu, two, 2);
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_device_counters after = IOBIND_DEVICE_COUNTERS_INIT;
  assert_int_equal(vdev_reset(0), 0);
  expect_ok(iobind_device_get_counters(vdev, &before, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, host, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, host, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_LIVE, host, NULL, &fault));
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
  expect_ok(iobind_device_get_counters(vdev, &after, &fault));
  assert_int_equal(after.upload_count - before.upload_count, 4); /* the snapshot, and the live one three times */
  assert_int_equal(vdev_get(0, "h2d_count"), 4);
  assert_int_equal(vdev_get(0, "h2d_bytes"), 4 * sizeof two);
  assert_int_equal(vdev_get(0, "d2h_count"), 0);
  iobind_tensor_release(host);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ---- waiting ---- */

static void expect_computed(iobind_binding *binding) {
  static const int64_t compute = 1000000;
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + compute);
}

/* ORT's own waiting can be switched off by an entry of the run's options: a run without a stream would return too early. */
static void synchronous_run_has_finished(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(vdev, two, 2);
  trap_set_input(binding, 0, x);
  trap_set_output(binding, 0, IOBIND_OUTPUT_REUSE, vdev, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(vdev_set(0, "clock", "virtual"), 0);
  assert_int_equal(vdev_set(0, "compute_us", "1000"), 0);
  expect_computed(binding);
  static const char *const keys[] = {"disable_synchronize_execution_providers"};
  static const char *const values[] = {"1"};
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.config_keys = keys;
  options.config_values = values;
  options.config_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_run_options(binding, &options, &fault));
  expect_words(keys[0]);
  expect_computed(binding);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* The stream of a run may go as soon as the run was submitted. */
static void stream_goes_behind_its_run(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(vdev, NULL, 2);
  trap_set_input(binding, 0, x);
  for (int i = 0; i < 3; i++) {
    iobind_stream *stream = NULL;
    iobind_event *event = NULL;
    expect_ok(iobind_stream_create(vdev, NULL, &stream, &fault));
    expect_ok(iobind_event_create(vdev, &event, &fault));
    expect_ok(iobind_tensor_write(x, 0, two, sizeof two, stream, &fault));
    expect_ok(call_binding_run(binding, stream, event, &fault));
    iobind_stream_destroy(stream);
    expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
    iobind_tensor *y = trap_take(binding, 0);
    fixture_expect_floats(y, doubled, 2);
    iobind_tensor_release(y);
    iobind_event_destroy(event);
  }
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ---- what is fetched is given back ---- */

enum { MOST = 64 };
static void *arrays[MOST];
static OrtAllocator *lenders[MOST];
static size_t array_count;
static size_t arrays_back;
static size_t values_out;
static size_t values_back;

static OrtStatus *ORT_CALL note_values(const OrtIoBinding *binding, OrtAllocator *allocator, OrtValue ***values,
                                       size_t *count) {
  OrtStatus *status = real->GetBoundOutputValues(binding, allocator, values, count);
  arrays[array_count] = *values;
  lenders[array_count++] = allocator;
  values_out += *count;
  return status;
}

static OrtStatus *ORT_CALL note_free(OrtAllocator *allocator, void *memory) {
  for (size_t i = 0; i < array_count; i++) {
    if (arrays[i] == memory && lenders[i] == allocator) {
      arrays[i] = NULL;
      arrays_back++;
    }
  }
  return real->AllocatorFree(allocator, memory);
}

static void ORT_CALL note_release(OrtValue *value) {
  values_back++;
  real->ReleaseValue(value);
}

/* ORT returns an array, to be freed by the allocator that was passed in, of values that are each to be released. */
static void fetched_arrays_go_back(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "multi");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(cpu, two, 2);
  trap_set_input(binding, 0, x);
  table.GetBoundOutputValues = note_values;
  table.AllocatorFree = note_free;
  table.ReleaseValue = note_release;
  for (size_t i = 0; i < 20; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_tensor *borrowed = NULL;
    expect_ok(iobind_binding_get_output(binding, i % 3, NULL, &borrowed, &fault));
    iobind_tensor_release(trap_take(binding, (i + 1) % 3));
  }
  iobind_binding_destroy(binding);
  assert_true(array_count >= 20);
  assert_int_equal(arrays_back, array_count);
  assert_int_equal(values_out, 3 * array_count);
  assert_int_equal(values_back, values_out);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(poisoned_binding),
    cmocka_unit_test(unknown_outputs),
    cmocka_unit_test(missing_input),
    cmocka_unit_test(cross_session_binding),
    cmocka_unit_test(device_pointer_given_to_a_cpu_session),
    cmocka_unit_test(tensor_of_the_device_beside),
    cmocka_unit_test(silent_cpu_fallback),
    cmocka_unit_test(nodes_left_to_the_cpu),
    cmocka_unit_test(ort_copies_nothing_at_bind),
    cmocka_unit_test(synchronous_run_has_finished),
    cmocka_unit_test(stream_goes_behind_its_run),
    cmocka_unit_test(fetched_arrays_go_back),
};

TRAP_MAIN(tests);
