/* What is known of EPs in advance: options by key, their tables and values, quirks by release. */
#include "fixture.h"

#include <string.h>

#include "ep/ep.h"

/* A plugin may be newer than the catalogue: a key near a known one is passed on, and the log names the known one. */
static void options_near_known_ones(void **state) {
  (void)state;
  static const struct {
    const char *ep;
    const char *key;
    const char *near;
    iobind_status status;
    bool known;
  } rows[] = {
      {"webgpu", "enableInt64", NULL, IOBIND_OK, true},
      {"webgpu", "enableInt16", "enableInt64", IOBIND_OK, false},
      {"webgpu", "deviceIds", "deviceId", IOBIND_OK, false},
      {"webgpu", "alidationMode", "validationMode", IOBIND_OK, false},
      {"webgpu", "quite another", NULL, IOBIND_OK, false},
      {"webgpu", "enableint64", "enableInt64", IOBIND_ERROR_INVALID_ARGUMENT, false},
      {"qnn", "anything", NULL, IOBIND_OK, true}, /* the catalogue has no list for it */
      {"cuda", "prefer_nhwc", NULL, IOBIND_OK, true},
      {"cuda", "prefer_nchw", "prefer_nhwc", IOBIND_OK, false}, /* it will be asked itself */
      {"cuda", "Prefer_nhwc", "prefer_nhwc", IOBIND_ERROR_INVALID_ARGUMENT, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const iobind__ep *ep = iobind__ep_by_name(rows[i].ep, strlen(rows[i].ep));
    bool known;
    const char *near;
    expect(rows[i].status, iobind__ep_option_check(ep, rows[i].key, &known, &near, &fault));
    assert_int_equal(known, rows[i].known);
    assert_true((near == NULL) == (rows[i].near == NULL));
    if (near != NULL) {
      assert_string_equal(near, rows[i].near);
    }
  }
  char longest[600]; /* the caller's key may have any length */
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  bool known;
  const char *near;
  const iobind__ep *cuda = iobind__ep_by_name("cuda", 4);
  expect_ok(iobind__ep_option_check(cuda, longest, &known, &near, &fault));
  assert_false(known);
  for (size_t i = 0; i < cuda->options->count; i++) {
    assert_true(strlen(cuda->options->options[i].key) <= 64); /* longer ones are compared with nothing */
  }
}

/* Every table: what holds by default is taken, keys that are named are there, and no key stands twice. */
static void option_tables(void **state) {
  (void)state;
  size_t tables = 0;
  const iobind__ep *ep;
  for (size_t e = 0; (ep = iobind__ep_at(e)) != NULL; e++) {
    const iobind__option_table *table = ep->options;
    tables += table != NULL;
    assert_true(ep->stream_option == NULL || iobind__option_find(table, ep->stream_option)->brings != NULL);
    assert_true(ep->graph_option == NULL || iobind__option_find(table, ep->graph_option)->captures);
    assert_true(ep->before == NULL || iobind__ep_by_name(ep->before, strlen(ep->before))->bridged);
    for (size_t i = 0; table != NULL && i < table->count; i++) {
      const iobind__option *option = &table->options[i];
      char range[IOBIND__OPTION_RANGE];
      iobind__option_range(table, option, range);
      assert_true(strlen(range) > 0 && strlen(option->text) > 0);
      assert_ptr_equal(iobind__option_find(table, option->key), option);
      assert_true(option->preset == NULL || iobind__option_takes(table, option, option->preset));
      assert_true(option->unused == NULL || option->preset != NULL);
      assert_true(option->needs == NULL || (option->preset != NULL && iobind__option_find(table, option->needs) != NULL));
      assert_true(option->brings == NULL || iobind__option_find(table, option->brings)->kind == IOBIND__OPTION_FLAG);
    }
    for (size_t i = 0; table != NULL && i < table->pair_count; i++) {
      assert_non_null(iobind__option_find(table, table->pairs[i].key));
      assert_non_null(iobind__option_find(table, table->pairs[i].other));
    }
  }
  assert_int_equal(tables, 8);
}

static void option_values(void **state) {
  (void)state;
  static const struct {
    const char *ep;
    const char *key;
    const char *good;
    const char *bad;
  } rows[] = {
      {"cuda", "use_tf32", "False", "FALSE"},
      {"webgpu", "enableGraphCapture", "1", "true"},
      {"webgpu", "storageBufferCacheMode", "lazyRelease", "lazyRel"},
      {"webgpu", "maxNumPendingDispatches", "4096", "0"},
      {"webgpu", "validationMode", "wgpuOnly", "disabled|wgpuOnly"},
      {"cuda", "sdpa_kernel", "-2147483648", "-2147483649"},
      {"cuda", "gpu_mem_limit", "18446744073709551615", "99999999999999999999"},
      {"cuda", "user_compute_stream", "0xFFffFFffFFffFFff", "0x10000000000000000"},
      {"cuda", "user_compute_stream", "0x0", "0x"},
      {"vdev", "h2d_gbps", "1.5e-3", "1.5e"},
      {"vdev", "latency_us", ".5", "."},
      {"vdev", "compute_us", "20", "1,5"},
      {"vdev", "trace_file", "", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const iobind__option_table *table = iobind__ep_by_name(rows[i].ep, strlen(rows[i].ep))->options;
    const iobind__option *option = iobind__option_find(table, rows[i].key);
    assert_true(iobind__option_takes(table, option, rows[i].good));
    assert_false(rows[i].bad != NULL && iobind__option_takes(table, option, rows[i].bad));
  }
}

static const iobind__ep *find(const char *name) {
  return iobind__ep_by_name(name, strlen(name));
}

/* The release before a quirk ends, the first without it, and a device of a plugin with the name of one of ORT's own EPs. */
static void quirks_by_release(void **state) {
  (void)state;
  static const struct {
    const char *ep;
    iobind__quirk_bit quirk;
    uint32_t ends; /* 0: in every release */
    bool only_bridged;
  } rows[] = {
      {"cuda", IOBIND__QUIRK_GATED, 0, false},
      {"cuda", IOBIND__QUIRK_REFUSES_RUN_STREAM, 0, true},
      {"cuda", IOBIND__QUIRK_REPLAY_WAITS, 27, true},
      {"cuda", IOBIND__QUIRK_GRAPH_RECYCLES, 31, false},
      {"cuda", IOBIND__QUIRK_GRAPH_STAYS, 0, false},
      {"webgpu", IOBIND__QUIRK_QUEUES, 0, false},
      {"webgpu", IOBIND__QUIRK_SERIAL, 0, false},
      {"webgpu", IOBIND__QUIRK_GRAPH_LOSES_COPIES, 0, false},
      {"webgpu", IOBIND__QUIRK_NO_SHARED_CACHE, 0, false},
      {"dml", IOBIND__QUIRK_QUEUES, 0, false},
      {"ggml", IOBIND__QUIRK_SERIAL, 0, false},
      {"vdev", IOBIND__QUIRK_GATED, 0, false},
      {"vdev", IOBIND__QUIRK_CAPTURES_NOTHING, 26, false},
  };
  enum { COUNT = sizeof rows / sizeof rows[0], OLDEST = 24, TOMORROW = 99 };
  const iobind__ep *ep;
  for (size_t e = 0; (ep = iobind__ep_at(e)) != NULL; e++) {
    for (uint32_t release = OLDEST; release <= TOMORROW; release++) {
      uint32_t expected[2] = {0, 0}; /* of a plugin, of a bridged EP */
      for (size_t i = 0; i < COUNT; i++) {
        bool holds = find(rows[i].ep) == ep && (rows[i].ends == 0 || release < rows[i].ends);
        expected[0] |= holds && !rows[i].only_bridged ? (uint32_t)rows[i].quirk : 0;
        expected[1] |= holds ? (uint32_t)rows[i].quirk : 0;
      }
      const uint32_t common =
          (release < 31 ? IOBIND__QUIRK_EARLY_OUTPUT_COPIES : 0) | (release < 25 ? IOBIND__QUIRK_HIDES_NODES : 0);
      assert_int_equal(iobind__quirks_of(ep, release, false), expected[0] | common);
      assert_int_equal(iobind__quirks_of(ep, release, true), expected[1] | common);
    }
  }
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(iobind__quirk_ends(find(rows[i].ep), rows[i].quirk), rows[i].ends);
  }
  assert_int_equal(iobind__quirk_ends(find("cpu"), IOBIND__QUIRK_GATED), 0);
  assert_int_equal(iobind__quirks_of(NULL, TOMORROW, false), IOBIND__QUIRK_QUEUES); /* an unknown EP may queue */
}

/* ORT's old name for pinned memory. */
static void names_of_pinned_memory(void **state) {
  (void)state;
  assert_ptr_equal(iobind__ep_by_pinned("cuda_pinned", strlen("cuda_pinned")), find("cuda"));
  assert_null(iobind__ep_by_pinned("cuda_pinned:1", strlen("cuda_pinned:1")));
  assert_null(iobind__ep_by_pinned("vdev_pinned", strlen("vdev_pinned")));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(options_near_known_ones), cmocka_unit_test(option_tables),          cmocka_unit_test(option_values),
    cmocka_unit_test(quirks_by_release),       cmocka_unit_test(names_of_pinned_memory),
};

FIXTURE_MAIN(tests, NULL, NULL);
