/* Traps of shared memory: outputs that lie in an input, in the model, in each other, or in what an earlier run gave. */
#include "trap.h"

#include <string.h>

#include "session/session.h"
#include "../rig/calls.h"

static const float six[] = {1, 2, 3, 4, 5, 6};
static const float turned[] = {1, 4, 2, 5, 3, 6}; /* two rows of three, by columns */

static iobind_tensor *make(iobind_device *device, int64_t rows, int64_t columns, const float *values) {
  const int64_t dims[] = {rows, columns};
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &tensor, &fault));
  if (values != NULL) {
    expect_ok(iobind_tensor_write(tensor, 0, values, (size_t)(rows * columns) * sizeof *values, NULL, &fault));
  }
  return tensor;
}

/* ORT keeps the memory of an output that was bound to a device, and the next run writes over what the first one gave. */
static void stale_fresh_outputs(void **state) {
  (void)state;
  static const float values[3][2] = {{1, 2}, {3, 4}, {5, 6}};
  static const float doubled[3][2] = {{2, 4}, {6, 8}, {10, 12}};
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_tensor *x = fixture_floats(vdev, values[0], 2);

  OrtIoBinding *raw = NULL;
  void *addresses[2] = {NULL, NULL};
  assert_null(real->CreateIoBinding(session->session, &raw));
  assert_null(real->BindInput(raw, "x", x->value));
  assert_null(real->BindOutputToDevice(raw, "y", vdev->places[IOBIND_MEMORY_DEFAULT].info));
  for (int i = 0; i < 2; i++) {
    OrtValue **fetched = NULL;
    size_t count = 0;
    assert_null(real->RunWithBinding(session->session, NULL, raw));
    assert_null(real->GetBoundOutputValues(raw, runtime->cpu_allocator, &fetched, &count));
    assert_null(real->GetTensorMutableData(fetched[0], &addresses[i]));
    real->ReleaseValue(fetched[0]);
    assert_null(real->AllocatorFree(runtime->cpu_allocator, fetched));
  }
  assert_ptr_equal(addresses[0], addresses[1]);
  real->ReleaseIoBinding(raw);

  iobind_binding *binding = trap_bind(session);
  iobind_tensor *results[3];
  trap_set_input(binding, 0, x);
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_tensor_write(x, 0, values[i], sizeof values[i], NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &results[i], &fault));
    iobind_tensor_retain(results[i]); /* borrowed and kept, which is not the same as taken */
  }
  for (int i = 0; i < 3; i++) {
    fixture_expect_floats(results[i], doubled[i], 2);
    iobind_tensor_release(results[i]);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ORT reads an input and writes an output in the same memory silently, and a transposition comes out wrong. */
static void silent_aliasing(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "transpose dims=2,3");
  iobind_tensor *x = make(cpu, 2, 3, six);
  iobind_tensor *same = NULL;
  static const int64_t dims[] = {3, 2};
  expect_ok(iobind_tensor_view(x, 0, IOBIND_DTYPE_FLOAT32, dims, 2, &same, &fault));

  OrtIoBinding *raw = NULL;
  float got[6];
  assert_null(real->CreateIoBinding(session->session, &raw));
  assert_null(real->BindInput(raw, "x", x->value));
  assert_null(real->BindOutput(raw, "y", same->value));
  assert_null(real->RunWithBinding(session->session, NULL, raw));
  expect_ok(iobind_tensor_read(same, 0, got, sizeof got, NULL, &fault));
  assert_memory_not_equal(got, turned, sizeof got);
  real->ReleaseIoBinding(raw);

  expect_ok(iobind_tensor_write(x, 0, six, sizeof six, NULL, &fault));
  iobind_binding *binding = trap_bind(session);
  trap_set_input(binding, 0, x);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_output(binding, 0, same, 0, &fault));
  expect_words("overlaps the memory of input 'x'");
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *y = trap_take(binding, 0);
  fixture_expect_floats(y, turned, 6);
  fixture_expect_floats(x, six, 6);
  trap_set_output(binding, 0, OUTPUT_IN_PLACE, NULL, same); /* the caller's word is taken */
  iobind_tensor_release(y);
  iobind_binding_destroy(binding);
  iobind_tensor_release(same);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* One byte in common is an overlap, and none is not, wherever the two begin. */
static void overlap_by_byte_range(void **state) {
  (void)state;
  enum { BYTES = 16, PART = 4 };
  static const int64_t whole = BYTES;
  static const int64_t part = PART;
  iobind_session *session = fixture_session(runtime, vdev, "identity dtype=uint8");
  iobind_tensor *memory = NULL;
  expect_ok(iobind_tensor_create(vdev, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, &whole, 1, &memory, &fault));
  iobind_tensor *input = NULL;
  expect_ok(iobind_tensor_slice(memory, 6, PART, &input, &fault));
  for (int64_t start = 0; start + PART <= BYTES; start++) {
    bool overlaps = start > 6 - PART && start < 6 + PART;
    iobind_status expected = overlaps ? IOBIND_ERROR_INVALID_ARGUMENT : IOBIND_OK;
    iobind_tensor *output = NULL;
    expect_ok(iobind_tensor_view(memory, (size_t)start, IOBIND_DTYPE_UINT8, &part, 1, &output, &fault));
    for (int input_first = 0; input_first < 2; input_first++) {
      iobind_binding *binding = trap_bind(session);
      if (input_first == 1) {
        trap_set_input(binding, 0, input);
        expect(expected, iobind_binding_set_output(binding, 0, output, 0, &fault));
      } else {
        trap_set_output(binding, 0, OUTPUT_FIXED, NULL, output);
        expect(expected, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, input, NULL, &fault));
        expect(expected, iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, input, NULL, &fault));
      }
      iobind_binding_destroy(binding);
    }
    iobind_tensor_release(output);
  }
  iobind_tensor_release(input);
  iobind_tensor_release(memory);
  iobind_session_destroy(session);
}

/* An output that ORT passes through from an input has the input's size, whatever was bound for it. */
static void larger_source_than_target(void **state) {
  (void)state;
  iobind_device *const devices[] = {cpu, vdev};
  for (size_t d = 0; d < 2; d++) {
    iobind_session *session = fixture_session(runtime, devices[d], "passthrough dims=?");
    for (int64_t columns = 1; columns <= 8; columns++) {
      iobind_binding *binding = trap_bind(session);
      iobind_tensor *x = fixture_floats(devices[d], six, 4);
      iobind_tensor *target = fixture_floats(devices[d], NULL, (size_t)columns);
      trap_set_input(binding, 0, x);
      trap_set_output(binding, 0, OUTPUT_FIXED, NULL, target);
      if (columns == 4) {
        expect_ok(iobind_binding_run(binding, NULL, &fault));
        fixture_expect_floats(target, six, 4);
      } else {
        expect(IOBIND_ERROR_SHAPE, iobind_binding_run(binding, NULL, &fault));
        expect_words("'x'");
      }
      iobind_tensor_release(target);
      iobind_tensor_release(x);
      iobind_binding_destroy(binding);
    }
    iobind_session_destroy(session);
  }
}

/* ---- outputs that no node of their own makes ---- */

static void write_shared_outputs(onnx_writer *writer) {
  static const int64_t open = -1;
  static const int64_t two = 2;
  static const float constant[] = {7, 8};
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = &open, .rank = 1};
  const onnx_type fixed = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = &two, .rank = 1};
  const onnx_tensor weights = {
      .name = "weights", .dtype = ONNX_FLOAT32, .dims = &two, .rank = 1, .data = constant, .bytes = sizeof constant};
  onnx_initializer(writer, &weights);
  onnx_input(writer, "x", &type);
  static const char *const outputs[] = {"sum", "again", "weights"};
  for (int i = 0; i < 3; i++) {
    onnx_output(writer, outputs[i], i == 2 ? &fixed : &type);
  }
  static const char *const nodes[][3] = {{"Add", "weights", "sum"}, {"Identity", NULL, "again"}};
  for (int i = 0; i < 2; i++) {
    onnx_node_begin(writer, nodes[i][0], "", "");
    onnx_node_input(writer, i == 0 ? "x" : "sum");
    if (nodes[i][1] != NULL) {
      onnx_node_input(writer, nodes[i][1]);
    }
    onnx_node_output(writer, nodes[i][2]);
    onnx_node_end(writer);
  }
}

/* What is written into a result must not change the model, or another result. */
static void results_share_nothing(void **state) {
  (void)state;
  static const float x_values[] = {1, 2};
  static const float sum[] = {8, 10};
  static const float weights[] = {7, 8};
  static const float zeros[] = {0, 0};
  iobind_session *session = trap_written_session(write_shared_outputs);
  iobind_tensor *x = fixture_floats(cpu, x_values, 2);
  iobind_binding *binding = trap_bind(session);
  trap_set_input(binding, 0, x);
  for (int round = 0; round < 3; round++) {
    const float *const expected[] = {sum, sum, weights};
    iobind_tensor *results[3];
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    for (size_t i = 0; i < 3; i++) {
      results[i] = trap_take(binding, i);
    }
    for (size_t i = 0; i < 3; i++) {
      fixture_expect_floats(results[i], expected[i], 2);
      expect_ok(iobind_tensor_write(results[i], 0, zeros, sizeof zeros, NULL, &fault));
      iobind_tensor_release(results[i]);
    }
  }
  iobind_binding_destroy(binding);
  iobind_tensor *unbound[3];
  expect_ok(call_session_run(session, &x, unbound, &fault));
  fixture_expect_floats(unbound[2], weights, 2);
  for (size_t i = 0; i < 3; i++) {
    expect_ok(iobind_tensor_write(unbound[i], 0, zeros, sizeof zeros, NULL, &fault));
    iobind_tensor_release(unbound[i]);
  }
  expect_ok(call_session_run(session, &x, unbound, &fault));
  fixture_expect_floats(unbound[0], sum, 2);
  fixture_expect_floats(unbound[1], sum, 2);
  fixture_expect_floats(unbound[2], weights, 2);
  for (size_t i = 0; i < 3; i++) {
    iobind_tensor_release(unbound[i]);
  }
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A binding that lets go of a tensor reads and writes memory that is another's by then. */
static void binding_keeps_what_ort_reads(void **state) {
  (void)state;
  static const float values[] = {1, 2};
  static const float doubled[] = {2, 4};
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  for (int round = 0; round < 3; round++) {
    iobind_tensor *x = fixture_floats(vdev, values, 2);
    iobind_tensor *y = fixture_floats(vdev, NULL, 2);
    trap_set_input(binding, 0, x);
    trap_set_output(binding, 0, OUTPUT_FIXED, NULL, y);
    iobind_tensor_release(x);
    iobind_tensor_release(y);
    /* what was freed would be given out again, and overwritten */
    iobind_tensor *others[4];
    for (size_t i = 0; i < 4; i++) {
      others[i] = fixture_floats(vdev, six, 2);
    }
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_tensor *result = trap_take(binding, 0);
    fixture_expect_floats(result, doubled, 2);
    iobind_tensor_release(result);
    for (size_t i = 0; i < 4; i++) {
      iobind_tensor_release(others[i]);
    }
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(stale_fresh_outputs),   cmocka_unit_test(silent_aliasing),
    cmocka_unit_test(overlap_by_byte_range), cmocka_unit_test(larger_source_than_target),
    cmocka_unit_test(results_share_nothing), cmocka_unit_test(binding_keeps_what_ort_reads),
};

TRAP_MAIN(tests);
