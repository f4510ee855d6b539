/* Tensors that were imported by DLPack, wherever iobind takes a tensor, and outputs and states that were exported by it. */
#define _GNU_SOURCE /* gettid, nanosleep */
#include "filled.h"
#include "gate.h"

#include <stdlib.h>

#include "tensor/dlpack.h"
#include "../rig/calls.h"

enum { TURNS = 3 };

static iobind_session *session; /* y = 2 x */
static iobind_stream *stream;
static iobind_binding *binding;
static int deleted; /* how many structs */
static gate held;   /* static: still valid after a test that fails with its gate closed */

static int start(void **state) {
  deleted = 0;
  (void)stage_open(state);
  assert_true(!is_device("vdev") || vdev_set(0, "race", "fail") == 0);
  session = fixture_session(runtime, device, "scale");
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  return stage_close(state);
}

/* ---- another library's tensor: iobind's struct in one that counts ---- */

typedef struct counted {
  iobind__dl_versioned managed;
  iobind__dl_versioned *inner;
} counted;

static void delete_counted(iobind__dl_versioned *self) {
  counted *owner = self->context;
  deleted++;
  owner->inner->deleter(owner->inner);
  free(owner);
}

/* Gives the reference to `tensor` away. */
static iobind_tensor *pass_through(iobind_tensor *tensor) {
  iobind_tensor *made = NULL;
  void *managed = NULL;
  counted *owner = calloc(1, sizeof *owner);
  assert_non_null(owner);
  expect_ok(iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
  iobind_tensor_release(tensor);
  owner->inner = managed;
  owner->managed = *owner->inner;
  owner->managed.context = owner;
  owner->managed.deleter = delete_counted;
  expect_ok(iobind_tensor_from_dlpack(runtime, &owner->managed, 0, &made, &fault));
  return made;
}

static iobind_tensor *make_foreign(iobind_device *where, float value) {
  return pass_through(make_filled(where, IOBIND_MEMORY_DEFAULT, value));
}

static void expect_output(float value) {
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  expect_all(y, value);
}

/* ---- bound ---- */

static void inputs_of_each_mode(void **state) {
  (void)state;
  for (int mode = IOBIND_INPUT_RESIDENT; mode <= IOBIND_INPUT_LIVE; mode++) {
    iobind_tensor *x = make_foreign(device, 1);
    deleted = 0;
    expect_ok(iobind_binding_set_input(binding, 0, (iobind_input_mode)mode, x, NULL, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      fill(x, (float)(turn + 2));
      expect_ok(iobind_binding_run(binding, turn % 2 == 0 ? NULL : stream, &fault));
      expect_output(mode == IOBIND_INPUT_SNAPSHOT ? 2 : 2 * (float)(turn + 2));
    }
    iobind_tensor_release(x);
    assert_int_equal(deleted, mode == IOBIND_INPUT_SNAPSHOT ? 1 : 0);
    expect_ok(iobind_binding_clear(binding, &fault));
    assert_int_equal(deleted, 1);
  }
}

/* The host's memory, which each run brings to the device. */
static void a_live_input_of_the_host(void **state) {
  (void)state;
  iobind_tensor *x = make_foreign(cpu, 1);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, x, NULL, &fault));
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, turn < TURNS ? NULL : stream, &fault));
    expect_output(2 * (float)turn);
  }
  iobind_tensor_release(x);
  assert_int_equal(deleted, 0);
  expect_ok(iobind_binding_clear(binding, &fault));
  assert_int_equal(deleted, 1);
}

static void a_fixed_output(void **state) {
  (void)state;
  iobind_tensor *x = make_filled(device, IOBIND_MEMORY_DEFAULT, 0);
  iobind_tensor *y = make_foreign(device, -1);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, turn % 2 == 0 ? stream : NULL, &fault));
    expect_all(y, 2 * (float)turn);
  }
  iobind_tensor_release(y);
  expect_output(2 * (float)(TURNS - 1));
  iobind_tensor_release(x);
  expect_ok(iobind_binding_clear(binding, &fault));
  assert_int_equal(deleted, 1);
}

/* Only the run retains the two tensors when it begins. */
static void given_up_before_the_run(void **state) {
  (void)state;
  iobind_tensor *x = make_foreign(device, 3);
  iobind_tensor *target = make_filled(device, IOBIND_MEMORY_DEFAULT, -1);
  iobind_tensor *y = pass_through(iobind_tensor_retain(target));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  gate_close(&held, stream);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_binding_destroy(binding);
  binding = NULL;
  assert_int_equal(deleted, 0);
  BEHIND_GATE(&held, IOBIND_OK, iobind_stream_synchronize(stream, &fault));
  assert_int_equal(deleted, 2);
  expect_all(target, 6);
  iobind_tensor_release(target);
}

/* A run that fails uses its inputs no more than one that does not. */
static void of_a_run_that_fails(void **state) {
  (void)state;
  static const int64_t dims[2] = {3, 5}; /* x of 8 elements does not become that */
  static const int64_t two = 2;
  iobind_session *expands = fixture_session(runtime, device, "expand");
  iobind_binding *bad = NULL;
  iobind_tensor *shape = NULL;
  iobind_tensor *x = make_foreign(device, 1);
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  expect_ok(iobind_session_get_input(expands, 1, &info, &fault));
  expect_ok(iobind_tensor_create(info.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &two, 1, &shape, &fault));
  expect_ok(iobind_tensor_write(shape, 0, dims, sizeof dims, NULL, &fault));
  shape = pass_through(shape);
  expect_ok(iobind_binding_create(expands, &bad, &fault));
  expect_ok(iobind_binding_set_input(bad, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(bad, 1, IOBIND_INPUT_RESIDENT, shape, NULL, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(bad, NULL, &fault));
  }
  assert_int_equal(deleted, 0);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(x);
  iobind_tensor_release(shape);
  iobind_binding_destroy(bad);
  assert_int_equal(deleted, 1);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(2);
  iobind_session_destroy(expands);
}

/* A length, which the session reads on the host: CUDA's EP always, that of the virtual accelerator if it does not take the node. */
static void read_on_the_host(void **state) {
  (void)state;
  static const int64_t one = 1;
  static const float fives[TURNS] = {5, 5, 5};
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  iobind_binding *reads = NULL;
  iobind_tensor *length = NULL;
  bool is_vdev = is_device("vdev");
  assert_true(!is_vdev || vdev_set(0, "deny", "Expand") == 0);
  iobind_session *expands = fixture_session(runtime, device, "expand dims=1 rank=1");
  assert_true(!is_vdev || vdev_set(0, "deny", "") == 0);
  expect_ok(iobind_session_get_input(expands, 0, &info, &fault));
  iobind_tensor *x = pass_through(fixture_floats(info.device, fives, 1));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &length, &fault));
  length = pass_through(length);
  expect_ok(iobind_binding_create(expands, &reads, &fault));
  expect_ok(iobind_binding_set_input(reads, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(reads, 1, IOBIND_INPUT_RESIDENT, length, NULL, &fault));
  for (int64_t turn = 1; turn <= TURNS; turn++) {
    iobind_tensor *y = NULL;
    expect_ok(iobind_tensor_write(length, 0, &turn, sizeof turn, NULL, &fault));
    expect_ok(iobind_binding_run(reads, turn % 2 == 0 ? NULL : stream, &fault));
    expect_ok(iobind_binding_get_output(reads, 0, NULL, &y, &fault));
    fixture_expect_floats(y, fives, (size_t)turn);
  }
  iobind_binding_destroy(reads);
  iobind_tensor_release(x);
  iobind_tensor_release(length);
  iobind_session_destroy(expands);
  assert_int_equal(deleted, 2);
}

/* ---- exported ---- */

/* A taken and exported output outlives its tensor, and no later run writes it. */
static void taken_outputs(void **state) {
  (void)state;
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    iobind_tensor *x = make_filled(device, IOBIND_MEMORY_DEFAULT, 0);
    iobind_tensor *kept[TURNS];
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(call_binding_set_output(binding, 0, (iobind_output_mode)mode, NULL, IOBIND_MEMORY_DEFAULT, NULL, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      iobind_tensor *y = NULL;
      fill(x, (float)turn);
      expect_ok(iobind_binding_run(binding, turn % 2 == 0 ? NULL : stream, &fault));
      expect_ok(iobind_binding_take_output(binding, 0, &y, &fault));
      kept[turn] = pass_through(y);
    }
    for (int turn = 0; turn < TURNS; turn++) {
      expect_all(kept[turn], 2 * (float)turn);
      iobind_tensor_release(kept[turn]);
    }
    iobind_tensor_release(x);
  }
  assert_int_equal(deleted, 2 * TURNS);
}

/* An exported state of MOVE is retained; one of SWAP is taken first. */
static void states(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_SWAP; mode++) {
    iobind_tensor *x = make_foreign(device, 1);
    iobind_tensor *kept[TURNS];
    float expected = 1;
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)mode, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      iobind_tensor *y = NULL;
      expect_ok(iobind_binding_run(binding, turn % 2 == 0 ? stream : NULL, &fault));
      if (mode == IOBIND_CARRY_MOVE) {
        expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
        iobind_tensor_retain(y);
      } else {
        expect_ok(iobind_binding_take_output(binding, 0, &y, &fault));
      }
      kept[turn] = pass_through(y);
      for (int run = 0; run < TURNS; run++) {
        expect_ok(iobind_binding_run(binding, stream, &fault));
      }
      expect_ok(iobind_stream_synchronize(stream, &fault));
    }
    expect_all(x, 1); /* the first state is not written */
    for (int turn = 0; turn < TURNS; turn++) {
      expect_all(kept[turn], 2 * expected);
      expected *= 1 << (1 + TURNS);
      iobind_tensor_release(kept[turn]);
    }
    expect_output(expected);
    iobind_tensor_release(x);
    expect_ok(iobind_binding_clear(binding, &fault));
  }
  assert_int_equal(deleted, 2 * (1 + TURNS));
}

/* ---- requests and pipelines ---- */

static void inputs_and_targets_of_a_request(void **state) {
  (void)state;
  iobind_tensor *inputs[] = {make_foreign(device, 0), make_foreign(cpu, 0)};
  iobind_tensor *target = make_foreign(device, -1);
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
    iobind_tensor *y = NULL;
    fill(inputs[turn % 2], (float)turn);
    request.inputs = &inputs[turn % 2];
    request.targets = &target;
    expect_ok(call_session_request(session, &request, &y, &fault));
    assert_ptr_equal(y, target);
    iobind_tensor_release(y);
    expect_all(target, 2 * (float)turn);
  }
  iobind_tensor_release(inputs[0]);
  iobind_tensor_release(inputs[1]);
  iobind_tensor_release(target);
  assert_int_equal(deleted, 3);
}

/* An item of the host's is copied, one of the device's is kept until it was pulled; the constant as long as the pipeline lives. */
static void items_and_constants_of_a_pipeline(void **state) {
  (void)state;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *adds = fixture_session(runtime, device, "add");
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *constants[2] = {NULL, make_foreign(device, 100)};
  options.slots = 2;
  options.constants = constants;
  expect_ok(call_pipeline_create(adds, &options, &pipeline, &fault));
  iobind_tensor_release(constants[1]);
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
    iobind_tensor *inputs[2] = {make_foreign(turn % 2 == 0 ? device : cpu, (float)turn), NULL};
    iobind_tensor *z = NULL;
    request.inputs = inputs;
    request.input_count = 2;
    expect_ok(iobind_pipeline_submit(pipeline, &request, &fault));
    iobind_tensor_release(inputs[0]);
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &z, 1, NULL, &fault));
    assert_int_equal(deleted, turn + 1);
    expect_all(z, 100 + (float)turn);
  }
  iobind_pipeline_destroy(pipeline);
  assert_int_equal(deleted, 2 * TURNS + 1);
  iobind_session_destroy(adds);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(inputs_of_each_mode),
    ON_EACH(a_live_input_of_the_host),
    ON_EACH(a_fixed_output),
    ON_EACH(given_up_before_the_run),
    ON_EACH(of_a_run_that_fails),
    ON_EACH(read_on_the_host),
    ON_EACH(taken_outputs),
    ON_EACH(states),
    ON_EACH(inputs_and_targets_of_a_request),
    ON_EACH(items_and_constants_of_a_pipeline),
};

FIXTURE_MAIN(tests, NULL, NULL);
