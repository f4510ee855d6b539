/* The audit: the bytes that it reports are those that the virtual accelerator counts. */
#include "stage.h"

#include <string.h>

#include "vdev.h"

static int start(void **state) {
  (void)stage_open(state);
  device = fixture_device(runtime, "vdev");
  return 0;
}

static const float ones[4] = {1, 1, 1, 1};

/* Run a few times and compare the audit's sum with what crossed the device's link on each of them. */
static uint64_t agree(iobind_binding *binding) {
  enum { RUNS = 5 };
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  int64_t before = vdev_get(0, "h2d_bytes") + vdev_get(0, "d2h_bytes");
  for (int i = 0; i < RUNS; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
  int64_t crossed = vdev_get(0, "h2d_bytes") + vdev_get(0, "d2h_bytes") - before;
  iobind_audit *audit;
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  expect_ok(iobind_audit_create(binding, &audit, &fault));
  expect_ok(iobind_audit_get_info(audit, &info, &fault));
  iobind_audit_destroy(audit);
  assert_int_equal(info.unknown_count, 0);
  assert_int_equal((int64_t)info.crossing_bytes * RUNS, crossed);
  return info.crossing_bytes;
}

static void expect_entry(iobind_binding *binding, size_t index, const char *name, uint32_t flags, uint64_t bytes) {
  iobind_audit *audit;
  iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
  expect_ok(iobind_audit_create(binding, &audit, &fault));
  expect_ok(iobind_audit_get_entry(audit, index, &entry, &fault));
  assert_string_equal(entry.name, name);
  assert_int_equal(entry.flags, flags);
  assert_int_equal(entry.bytes, bytes);
  assert_true(entry.reason[0] != '\0');
  assert_int_equal(entry.advice[0] != '\0', flags != 0);
  iobind_audit_destroy(audit);
}

static void sums_agree_with_the_device(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *binding;
  iobind_tensor *near = fixture_floats(cpu, ones, 4);
  iobind_tensor *far = fixture_floats(device, ones, 4);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, far, NULL, &fault));
  assert_int_equal(agree(binding), 0);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, near, NULL, &fault));
  assert_int_equal(agree(binding), 0);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, near, NULL, &fault));
  assert_int_equal(agree(binding), sizeof ones);
  expect_entry(binding, 0, "x", IOBIND_AUDIT_CROSSES, sizeof ones);
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, cpu, IOBIND_MEMORY_DEFAULT, &fault));
  expect_entry(binding, 1, "y", IOBIND_AUDIT_CROSSES | IOBIND_AUDIT_UNKNOWN, 0);
  assert_int_equal(agree(binding), 2 * sizeof ones);
  expect_entry(binding, 1, "y", IOBIND_AUDIT_CROSSES, sizeof ones);
  iobind_tensor *fixed = fixture_floats(cpu, ones, 4);
  expect_ok(iobind_binding_set_output(binding, 0, fixed, 0, &fault));
  iobind_tensor_release(fixed);
  expect_entry(binding, 1, "y", IOBIND_AUDIT_CROSSES, sizeof ones); /* before any run: the tensor has a size */
  assert_int_equal(agree(binding), 2 * sizeof ones);
  iobind_tensor_release(near);
  iobind_tensor_release(far);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void carried_states_cost_nothing(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *binding;
  iobind_tensor *first = fixture_floats(device, ones, 4);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  assert_int_equal(agree(binding), 0);
  iobind_audit *audit;
  iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
  expect_ok(iobind_audit_create(binding, &audit, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_audit_get_entry(audit, 2, &entry, &fault));
  iobind_audit_destroy(audit);
  iobind_tensor_release(first);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A model's names can be of any length and hold anything; a reason is one line, and says where it was cut. */
static void names_of_all_kinds(void **state) {
  (void)state;
  static const struct {
    const char *begin;
    size_t length;
  } names[] = {{"a\nb\x1B[2J\tc", 11}, {"long", 300}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char name[304] = "";
    strcpy(name, names[i].begin);
    memset(name + strlen(name), 'z', names[i].length - strlen(name));
    iobind_session *session = stage_named_session("x", name);
    iobind_binding *binding;
    iobind_tensor *first = fixture_floats(cpu, ones, 4);
    iobind_audit *audit;
    iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
    expect_ok(iobind_audit_create(binding, &audit, &fault));
    expect_ok(iobind_audit_get_entry(audit, 0, &entry, &fault));
    assert_non_null(strstr(entry.reason, i == 0 ? "'a b [2J czz'" : "'longzzz"));
    assert_int_equal(strcmp(entry.reason + strlen(entry.reason) - 3, "...") == 0, i == 1);
    expect_ok(iobind_audit_get_entry(audit, 1, &entry, &fault));
    assert_string_equal(entry.name, name); /* it is the output's name, to be looked up by */
    iobind_audit_destroy(audit);
    iobind_tensor_release(first);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_agree_with_the_device),
    cmocka_unit_test(carried_states_cost_nothing),
    cmocka_unit_test(names_of_all_kinds),
};

FIXTURE_MAIN(tests, start, stage_close);
