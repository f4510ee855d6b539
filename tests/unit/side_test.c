/* States that end while others go on, that share memory or that do not fit: each of ORT's two bindings must follow the table. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "binding/table.h"
#include "vdev.h"
#include "../rig/calls.h"
#include "stage.h"

/* sum = x + y, product = x * y */
static iobind_session *pair(void) {
  device = fixture_device(runtime, device_spec);
  return fixture_session(runtime, device, "pair");
}

static iobind_tensor *twos(float value) {
  const float values[2] = {value, value};
  return fixture_floats(device, values, 2);
}

static iobind_binding *bind(iobind_session *session, iobind_tensor *x, iobind_tensor *y) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  return binding;
}

static void run(iobind_binding *binding) {
  expect_ok(iobind_binding_run(binding, NULL, &fault));
}

static void expect_output(iobind_binding *binding, size_t index, float value) {
  const float values[2] = {value, value};
  iobind_tensor *output;
  expect_ok(iobind_binding_get_output(binding, index, NULL, &output, &fault));
  fixture_expect_floats(output, values, 2);
}

static void expect_twos(iobind_tensor *tensor, float value) {
  const float values[2] = {value, value};
  fixture_expect_floats(tensor, values, 2);
}

static void end_first(iobind_binding *binding, bool by_another_carry) {
  if (!by_another_carry) {
    expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  } else {
    expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  }
}

/* Two states by SWAP; the first one ends while the other one continues. Each side must read what is bound then: another tensor, or the state
 * that was left. */
static void swap_ends_beside_another(void **state) {
  (void)state;
  iobind_session *session = pair();
  for (int way = 0; way < 3; way++) {
    for (int before = 1; before < 4; before++) {
      iobind_tensor *x = twos(1);
      iobind_tensor *y = twos(1);
      iobind_tensor *again = twos(2);
      iobind_binding *binding = bind(session, x, y);
      float first = 1;
      float second = 1;
      expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
      expect_ok(iobind_binding_carry(binding, 1, 1, IOBIND_CARRY_SWAP, &fault));
      for (int i = 0; i < before; i++) {
        run(binding);
        float sum = first + second;
        second = first * second;
        first = sum;
      }
      end_first(binding, way == 2);
      if (way != 1) {
        expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, again, NULL, &fault));
        first = 2;
      }
      for (int i = 0; i < 4; i++) {
        run(binding);
        float sum = first + second;
        second = first * second;
        first = way == 2 ? sum : first;
        expect_output(binding, 0, sum);
        expect_output(binding, 1, second);
      }
      iobind_binding_destroy(binding);
      iobind_tensor_release(x);
      iobind_tensor_release(y);
      iobind_tensor_release(again);
    }
  }
  iobind_session_destroy(session);
}

/* ORT has two bindings once a state was carried by SWAP, also when nothing is carried any more. The one in use must follow the table. */
static void input_replaced_after_a_swap(void **state) {
  (void)state;
  iobind_session *session = pair();
  for (int before = 1; before < 4; before++) {
    iobind_tensor *x = twos(1);
    iobind_tensor *y = twos(1);
    iobind_binding *binding = bind(session, x, y);
    expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
    for (int i = 0; i < before; i++) {
      run(binding);
    }
    expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    for (int i = 2; i < 6; i++) {
      iobind_tensor *next = twos((float)i);
      expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, next, NULL, &fault));
      run(binding);
      expect_output(binding, 0, (float)i + 1);
      expect_output(binding, 1, (float)i);
      iobind_tensor_release(next);
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_tensor_release(y);
  }
  iobind_session_destroy(session);
}

/* The state that is moved becomes an input with the next change: what meets it is refused before that, and the results stay. */
static void refused_carry_keeps_the_results(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_tensor *x = twos(2);
  iobind_tensor *y = twos(3);
  iobind_tensor *product = NULL;
  iobind_binding *binding = bind(session, x, y);
  expect_ok(iobind_binding_carry(binding, 1, 0, IOBIND_CARRY_MOVE, &fault));
  run(binding);
  expect_ok(iobind_binding_take_output(binding, 1, &product, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, product, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_carry(binding, 0, 1, IOBIND_CARRY_IN_PLACE, &fault));
  expect_words("its tensor overlaps the memory of input 'x'");
  expect_output(binding, 0, 5);
  run(binding);
  expect_output(binding, 0, 12);
  iobind_binding_destroy(binding);
  iobind_tensor_release(product);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

static void unmap(void *context, void *data) {
  munmap(data, *(size_t *)context);
}

/* The same with wrapped memory that is freed as soon as iobind calls its deleter. */
static void swap_over_memory_that_goes(void **state) {
  (void)state;
  static size_t size = 4096;
  static const int64_t dims[] = {2};
  iobind_session *session = pair();
  iobind_tensor *y = twos(1);
  for (int before = 1; before < 4; before++) {
    float *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    page[0] = page[1] = 3;
    iobind_tensor *x;
    expect_ok(
        call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, page, size, unmap, &size, &x, &fault));
    iobind_binding *binding = bind(session, x, y);
    iobind_tensor_release(x);
    expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
    expect_ok(iobind_binding_carry(binding, 1, 1, IOBIND_CARRY_SWAP, &fault));
    float first = 3;
    float second = 1;
    for (int i = 0; i < before; i++) {
      run(binding);
      float sum = first + second;
      second = first * second;
      first = sum;
    }
    expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    for (int i = 0; i < 4; i++) {
      run(binding);
      float sum = first + second;
      second = first * second;
      expect_output(binding, 0, sum);
      expect_output(binding, 1, second);
    }
    iobind_binding_destroy(binding);
  }
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* A state that was retained becomes the other input: the run that would write its buffer takes another one. */
static void retained_state_as_another_input(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(1);
  for (int before = 1; before < 4; before++) {
    iobind_binding *binding = bind(session, x, y);
    iobind_tensor *left;
    float sum = 1;
    expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
    for (int i = 0; i < before; i++) {
      run(binding);
      sum += 1;
    }
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &left, &fault));
    iobind_tensor_retain(left);
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, left, NULL, &fault));
    const float added = sum;
    for (int i = 0; i < 5; i++) {
      run(binding);
      sum += added;
      expect_output(binding, 0, sum);
      expect_twos(left, added);
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(left);
  }
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* A FIXED output over a buffer of a state: of the two the state gives way. */
static void fixed_output_over_a_buffer(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(2);
  iobind_binding *binding = bind(session, x, y);
  iobind_tensor *older;
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  run(binding);
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &older, &fault));
  iobind_tensor_retain(older);
  run(binding);
  expect_ok(iobind_binding_set_output(binding, 1, older, 0, &fault));
  float sum = 5;
  for (int i = 0; i < 4; i++) {
    run(binding);
    expect_twos(older, sum * 2);
    sum += 2;
    expect_output(binding, 0, sum);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(older);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* Two states in one tensor, or a state in the memory that another input reads. */
static void state_in_place_needs_its_own_tensor(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(2);
  iobind_binding *binding = bind(session, x, x);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_words("overlaps the memory of input 'y'");
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_ok(iobind_binding_carry(binding, 1, 1, IOBIND_CARRY_IN_PLACE, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_words("'y'");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_output(binding, 1, x, IOBIND_OUTPUT_IN_PLACE, &fault));
  expect_words("overlaps the memory of output 'sum'");
  expect_ok(iobind_binding_check(binding, &fault));
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* The output has one element, whatever the input has. */
static void first_state_of_another_shape(void **state) {
  (void)state;
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  static const int64_t three[] = {3};
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, "shape dims=n dtype=int64");
  iobind_tensor *x;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, three, 1, &x, &fault));
  for (size_t i = 0; i < 2; i++) {
    iobind_binding *binding;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_carry(binding, 0, 0, modes[i], &fault));
    expect(IOBIND_ERROR_SHAPE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
    expect_words("int64[3]");
    iobind_binding_destroy(binding);
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
    run(binding);
    expect(IOBIND_ERROR_SHAPE, iobind_binding_carry(binding, 0, 0, modes[i], &fault));
    expect_words("int64[3]");
    iobind_tensor *shape;
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &shape, &fault)); /* what was refused has changed nothing */
    run(binding);
    iobind_binding_destroy(binding);
  }
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* What was wrapped is free again when the call that binds something else returns, on whichever side it was. */
static void wrapped_memory_is_free_at_once(void **state) {
  (void)state;
  static const int64_t dims[] = {2};
  static float data[2] = {1, 1};
  iobind_session *session = pair();
  iobind_tensor *other = twos(2);
  for (int output = 0; output < 2; output++) {
    fixture_deleted deleted = {0};
    iobind_tensor *wrapped;
    expect_ok(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, data, sizeof data, fixture_deleter,
                               &deleted, &wrapped, &fault));
    iobind_binding *binding = bind(session, other, output == 1 ? other : wrapped);
    expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
    if (output == 1) {
      expect_ok(iobind_binding_set_output(binding, 1, wrapped, 0, &fault));
    }
    iobind_tensor_release(wrapped);
    run(binding);
    run(binding);
    assert_int_equal(deleted.count, 0);
    if (output == 1) {
      expect_ok(iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    } else {
      expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
    }
    assert_int_equal(deleted.count, 1);
    run(binding);
    iobind_binding_destroy(binding);
  }
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

/* A decoder that never waits: the runs queue on one stream, and each reads the state that the one before leaves. */
static void queued_runs(void **state) {
  (void)state;
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  iobind_session *session = pair();
  iobind_stream *stream;
  iobind_stream *other;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_stream_create(device, NULL, &other, &fault));
  for (size_t mode = 0; mode < 3; mode++) {
    iobind_tensor *x = twos(1);
    iobind_tensor *y = twos(1);
    iobind_binding *binding = bind(session, x, y);
    float added[8][2];
    float sum = 1;
    expect_ok(iobind_binding_carry(binding, 0, 0, modes[mode], &fault));
    for (int i = 0; i < 8; i++) {
      added[i][0] = added[i][1] = (float)i;
      expect_ok(iobind_binding_write_input(binding, 1, added[i], sizeof added[i], stream, &fault));
      expect_ok(iobind_binding_run(binding, stream, &fault));
      sum += (float)i;
    }
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, other, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_write_input(binding, 1, added[0], sizeof added[0], other, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_write_input(binding, 0, added[0], sizeof added[0], stream, &fault));
    expect_words("'x' is a carried state");
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_output(binding, 0, sum);
    run(binding);
    expect_output(binding, 0, sum + 7);
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_tensor_release(y);
  }
  iobind_stream_destroy(stream);
  iobind_stream_destroy(other);
  iobind_session_destroy(session);
}

/* All objects are released while runs are queued: the runs end, and nothing is freed before. */
static void queued_runs_outlive_their_binding(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(1);
  iobind_tensor *z = twos(0);
  iobind_binding *binding = bind(session, x, y);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_output(binding, 1, z, 0, &fault));
  for (int i = 0; i < 6; i++) {
    expect_ok(iobind_binding_run(binding, stream, &fault));
  }
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_twos(z, 6);
  iobind_tensor_release(z);
  iobind_stream_destroy(stream);
}

/* An input that the model hands on as an output, which is bound over it, and then another input: the output must hold that one's values. */
static void handed_on_in_place(void **state) {
  (void)state;
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, "passthrough");
  iobind_tensor *x = twos(1);
  iobind_tensor *other = twos(7);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, x, IOBIND_OUTPUT_IN_PLACE, &fault));
  run(binding);
  expect_twos(x, 1);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
  run(binding);
  expect_twos(x, 7);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  run(binding);
  expect_twos(x, 7);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

static iobind_binding *bind_handed_on(iobind_session *session, iobind_tensor *x) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return binding;
}

/* However such an output is bound, and whatever it was bound to before, it holds what the input held in the run. */
static void handed_on_after_another_way(void **state) {
  (void)state;
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, "passthrough");
  iobind_tensor *x = twos(1);
  iobind_tensor *other = twos(7);
  iobind_binding *binding = bind_handed_on(session, x);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  run(binding);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  run(binding);
  expect_output(binding, 0, 1);
  expect_ok(iobind_binding_set_output(binding, 0, other, IOBIND_OUTPUT_IN_PLACE, &fault));
  run(binding);
  expect_twos(other, 1);
  iobind_binding_destroy(binding);

  static const float threes[2] = {3, 3};
  binding = bind_handed_on(session, x);
  expect_ok(iobind_binding_carry(binding, 1, 0, IOBIND_CARRY_MOVE, &fault)); /* y = x + x */
  expect_ok(iobind_binding_set_output(binding, 0, x, IOBIND_OUTPUT_IN_PLACE, &fault));
  run(binding);
  expect_twos(x, 1);
  run(binding);
  expect_twos(x, 2);
  run(binding);
  expect_twos(x, 4);
  iobind_binding_destroy(binding);

  binding = bind_handed_on(session, other);
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  run(binding);
  expect_output(binding, 0, 1);
  expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  run(binding);
  expect_output(binding, 0, 3);
  expect_twos(other, 1); /* what was handed on before is not written */
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

/* IN_PLACE over a part of the input: the copy would read what it has written. */
static void handed_on_over_a_part(void **state) {
  (void)state;
  static const float values[3] = {1, 2, 3};
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, "passthrough");
  iobind_tensor *all = fixture_floats(device, values, 3);
  iobind_tensor *first;
  iobind_tensor *last;
  expect_ok(iobind_tensor_slice(all, 0, 2, &first, &fault));
  expect_ok(iobind_tensor_slice(all, 1, 2, &last, &fault));
  iobind_binding *binding = bind_handed_on(session, first);
  expect_ok(iobind_binding_set_output(binding, 0, last, IOBIND_OUTPUT_IN_PLACE, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_check(binding, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(binding, NULL, &fault));
  expect_words("overlaps a part of the input's");
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, last, NULL, &fault));
  run(binding);
  fixture_expect_floats(all, values, 3);
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_tensor_release(last);
  iobind_tensor_release(all);
  iobind_session_destroy(session);
}

/* SWAP never writes the first state, so that may overlap a part of what is handed on. */
static void handed_on_beside_a_first_state(void **state) {
  (void)state;
  static const float values[3] = {1, 2, 3};
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, "passthrough z=1");
  iobind_tensor *all = fixture_floats(device, values, 3);
  iobind_tensor *first;
  iobind_tensor *last;
  iobind_tensor *sum;
  expect_ok(iobind_tensor_slice(all, 0, 2, &first, &fault));
  expect_ok(iobind_tensor_slice(all, 1, 2, &last, &fault));
  iobind_binding *binding = bind_handed_on(session, first);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, last, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 1, IOBIND_CARRY_SWAP, &fault));
  run(binding);
  expect_ok(iobind_binding_get_output(binding, 1, NULL, &sum, &fault));
  fixture_expect_floats(sum, (const float[]){1 + 2, 2 + 3}, 2);
  run(binding); /* z is x now */
  expect_ok(iobind_binding_get_output(binding, 1, NULL, &sum, &fault));
  fixture_expect_floats(sum, (const float[]){1 + 1, 2 + 2}, 2);
  fixture_expect_floats(all, values, 3);
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_tensor_release(last);
  iobind_tensor_release(all);
  iobind_session_destroy(session);
}

/* An upload on the stream to an input that is passed through is downloaded after it, also to its source. */
static void handed_on_to_the_host(void **state) {
  (void)state;
  enum { TO_ITSELF, TO_PINNED, TO_HOST, WAYS };
  static const float values[2] = {5, 6};
  static const int64_t two = 2;
  device = fixture_device(runtime, device_spec);
  iobind_device *host = iobind_runtime_get_device(runtime, 0);
  iobind_session *session = fixture_session(runtime, device, "passthrough");
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  for (int way = TO_ITSELF; way < WAYS; way++) {
    iobind_tensor *source;
    iobind_stream *stream;
    iobind_tensor *result;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, &two, 1, &source, &fault));
    expect_ok(iobind_tensor_write(source, 0, values, sizeof values, NULL, &fault));
    iobind_binding *binding;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, source, NULL, &fault));
    if (way == TO_ITSELF) {
      expect_ok(iobind_binding_set_output(binding, 0, source, 0, &fault));
    } else {
      expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, way == TO_HOST ? host : device,
                                            way == TO_HOST ? IOBIND_MEMORY_DEFAULT : IOBIND_MEMORY_HOST_ACCESSIBLE, &fault));
    }
    for (int i = 0; i < 3; i++) {
      expect_ok(iobind_binding_run(binding, stream, &fault));
    }
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
    fixture_expect_floats(result, values, 2);
    iobind_binding_destroy(binding);
    iobind_tensor_release(source);
    iobind_stream_destroy(stream);
  }
  assert_int_equal(vdev_set(0, "race", "off"), 0);
  iobind_session_destroy(session);
}

/* A failed run is also complete when it returns: the work that it had submitted does not overlap later work. */
static void failed_run_has_finished(void **state) {
  (void)state;
  static const float threes[2] = {3, 3};
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &info, &fault));
  if (info.ort_api_version < 25) {
    skip(); /* it has no way to wait for an EP plugin */
  }
  iobind_session *session = pair();
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(2);
  iobind_binding *binding = bind(session, x, y);
  run(binding);
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  for (int n = 1; n < 4; n++) {
    const char which[2] = {(char)('0' + n), '\0'};
    assert_int_equal(vdev_set(0, "compute_us", "2000"), 0);
    assert_int_equal(vdev_set(0, "fail_alloc", which), 0);
    iobind_status ran = iobind_binding_run(binding, NULL, NULL);
    assert_true(ran != IOBIND_OK || n > 1);
    assert_int_equal(vdev_set(0, "fail_alloc", "0"), 0);
    expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, NULL, &fault));
  }
  assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  assert_int_equal(vdev_set(0, "race", "off"), 0);
  run(binding);
  expect_output(binding, 0, 5);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* As a slot of a pipeline lets go of what an item has read. */
static void input_let_go_is_missed(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(2);
  iobind_binding *binding = bind(session, x, y);
  run(binding);
  iobind__input_let_go(binding, 0);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  run(binding);
  expect_output(binding, 0, 3);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* A run has spoiled a state, and its carry ends: another tensor, of the same kind, is whole. */
static void input_after_a_spoiled_state(void **state) {
  (void)state;
  iobind_session *session = pair();
  iobind_tensor *x = twos(1);
  iobind_tensor *y = twos(2);
  iobind_tensor *other = twos(5);
  iobind_binding *binding = bind(session, x, y);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("the state 'x' is undefined");
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
  run(binding);
  expect_output(binding, 0, 7);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

/* Several outputs that go elsewhere are copied by iobind, one alone by ORT, in memory of ORT's: what iobind copied it to before is the caller's,
 * who binds it as another output. */
static void memory_of_a_copy_that_ended(void **state) {
  (void)state;
  iobind_session *session = pair();
  const uint32_t quirks = device->quirks;
  device->quirks |= IOBIND__QUIRK_EARLY_OUTPUT_COPIES; /* in every release of ORT */
  iobind_tensor *x = twos(3);
  iobind_tensor *y = twos(4);
  iobind_binding *binding = bind(session, x, y);
  iobind_tensor *kept;
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, cpu, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_FRESH, cpu, IOBIND_MEMORY_DEFAULT, &fault));
  run(binding);
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &kept, &fault));
  iobind_tensor_retain(kept);
  expect_ok(iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  run(binding);
  expect_ok(iobind_binding_set_output(binding, 1, kept, 0, &fault));
  run(binding);
  expect_output(binding, 0, 7);
  expect_output(binding, 1, 12);
  expect_twos(kept, 12);
  iobind_binding_destroy(binding);
  iobind_tensor_release(kept);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  device->quirks = quirks;
  iobind_session_destroy(session);
}

/* What is bound for one run only goes to ORT in arrays of values; if the run is repeated, through ORT's binding. */
static void all_is_unbound_before_each_run(void **state) {
  (void)state;
  iobind_session *session = pair();
  const bool takes_arrays = strcmp(device_spec, "cpu") == 0;
  iobind_tensor *x = twos(2);
  iobind_tensor *fixed = twos(0);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (int turn = 0; turn < 4; turn++) {
    iobind_tensor *y = twos((float)turn);
    expect_ok(iobind_binding_clear(binding, &fault));
    assert_true(binding->sides[0].is_empty);
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
    expect_ok(iobind_binding_set_output(binding, 0, fixed, 0, &fault));
    for (int repeat = 0; repeat < 1 + turn; repeat++) {
      run(binding);
      assert_int_equal(binding->arrays.in_use,
                       takes_arrays && turn > 0 && repeat == 0); /* the first run shows where outputs land */
      assert_int_equal(binding->sides[0].is_empty, binding->arrays.in_use);
      expect_twos(fixed, 2 + (float)turn);
      expect_output(binding, 1, 2 * (float)turn);
    }
    iobind_tensor_release(y);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(fixed);
  iobind_session_destroy(session);
}

static iobind_tensor *places(int64_t count) {
  const int64_t dims[] = {1, count};
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 2, &tensor, &fault));
  return tensor;
}

/* A run by arrays fails as one of ORT's binding does. The run of an input with two elements that are not 0 gives two places. */
static void wrong_shape_after_all_was_unbound(void **state) {
  (void)state;
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, "nonzero");
  iobind_tensor *x = fixture_floats(device, (const float[]){1, 0, 3}, 3);
  iobind_tensor *two = places(2);
  iobind_tensor *three = places(3);
  iobind_binding *binding;
  int64_t found[2];
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (int turn = 0; turn < 3; turn++) {
    expect_ok(iobind_binding_clear(binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_set_output(binding, 0, turn == 0 ? two : three, 0, &fault));
    for (int repeat = 0; repeat < turn; repeat++) {
      expect(IOBIND_ERROR_SHAPE, iobind_binding_run(binding, NULL, &fault));
      expect_words("output 'y': expected the bound shape");
    }
    expect_ok(iobind_binding_set_output(binding, 0, two, 0, &fault));
    run(binding);
    expect_ok(iobind_tensor_read(two, 0, found, sizeof found, NULL, &fault));
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 2);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(two);
  iobind_tensor_release(three);
  iobind_session_destroy(session);
}

#define CASES(spec)                                                                                                         \
  {#spec ": swap ends beside another", swap_ends_beside_another, stage_open, stage_close, #spec},                           \
      {#spec ": input replaced after a swap", input_replaced_after_a_swap, stage_open, stage_close, #spec},                 \
      {#spec ": refused carry keeps the results", refused_carry_keeps_the_results, stage_open, stage_close, #spec},         \
      {#spec ": retained state as another input", retained_state_as_another_input, stage_open, stage_close, #spec},         \
      {#spec ": fixed output over a buffer", fixed_output_over_a_buffer, stage_open, stage_close, #spec},                   \
      {#spec ": state in place needs its own tensor", state_in_place_needs_its_own_tensor, stage_open, stage_close, #spec}, \
      {#spec ": handed on in place", handed_on_in_place, stage_open, stage_close, #spec},                                   \
      {#spec ": all is unbound before each run", all_is_unbound_before_each_run, stage_open, stage_close, #spec},           \
      {#spec ": input let go is missed", input_let_go_is_missed, stage_open, stage_close, #spec},                           \
      {#spec ": handed on after another way", handed_on_after_another_way, stage_open, stage_close, #spec},                 \
      {#spec ": queued runs", queued_runs, stage_open, stage_close, #spec}, {                                               \
#spec ": queued runs outlive their binding", queued_runs_outlive_their_binding, stage_open, stage_close, #spec          \
  }

static const struct CMUnitTest tests[] = {
    CASES(cpu),
    CASES(webgpu),
    CASES(cuda),
    CASES(vdev),
    {"cpu: handed on over a part", handed_on_over_a_part, stage_open, stage_close, "cpu"},
    {"vdev: handed on over a part", handed_on_over_a_part, stage_open, stage_close, "vdev"},
    {"cpu: handed on beside a first state", handed_on_beside_a_first_state, stage_open, stage_close, "cpu"},
    {"vdev: handed on beside a first state", handed_on_beside_a_first_state, stage_open, stage_close, "vdev"},
    {"vdev: handed on to the host", handed_on_to_the_host, stage_open, stage_close, "vdev"},
    {"vdev: input after a spoiled state", input_after_a_spoiled_state, stage_open, stage_close, "vdev"},
    {"webgpu: memory of a copy that ended", memory_of_a_copy_that_ended, stage_open, stage_close, "webgpu"},
    {"vdev: failed run has finished", failed_run_has_finished, stage_open, stage_close, "vdev"},
    {"cpu: swap over memory that goes", swap_over_memory_that_goes, stage_open, stage_close, "cpu"},
    {"cpu: wrapped memory is free at once", wrapped_memory_is_free_at_once, stage_open, stage_close, "cpu"},
    {"cpu: wrong shape after all was unbound", wrong_shape_after_all_was_unbound, stage_open, stage_close, "cpu"},
    {"cpu: first state of another shape", first_state_of_another_shape, stage_open, stage_close, "cpu"}};

FIXTURE_MAIN_OF_DEVICES(tests);
