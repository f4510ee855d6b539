/* Tensors: made, looked at, moved. */
#include <stddef.h>
#include <string.h>

#include "fake_ort.h"
#include "iobind/interop.h"
#include "ort.h"
#include "scenario.h"
#include "../rig/calls.h"

static iobind_status say_dtype_name(struct rig *rig) {
  rig->text = iobind_dtype_get_name(IOBIND_DTYPE_INT4);
  return IOBIND_OK;
}

static iobind_status say_dtype_bits(struct rig *rig) {
  rig->number = iobind_dtype_get_bits(IOBIND_DTYPE_INT4);
  return IOBIND_OK;
}

static iobind_status get_dtype_bytes(struct rig *rig) {
  return iobind_dtype_get_bytes(IOBIND_DTYPE_INT4, rig_dims, 1, &rig->number, &rig->error);
}

/* ---- made ---- */

static iobind_status create(struct rig *rig) {
  return iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, rig_dims, 1, &rig->result, &rig->error);
}

static iobind_status create_pinned(struct rig *rig) {
  return iobind_tensor_create(rig->device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, rig_dims, 1, &rig->result,
                              &rig->error);
}

/* The EP has no allocator to share yet: one is made. Where that fails a session may lend one, and there is none here. */
static iobind_status create_shared(struct rig *rig) {
  NEED_TRUE(fake_ort_fail("GetSharedAllocator", 1, 0, ""));
  return create(rig);
}

/* So large that the library looks whether the device can hold it, where its memory has no addresses. */
static iobind_status create_large(struct rig *rig) {
  static const int64_t dims[1] = {128 << 20};
  return iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &rig->result, &rig->error);
}

static iobind_status create_strings(struct rig *rig) {
  return iobind_tensor_create(rig->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, rig_dims, 1, &rig->result, &rig->error);
}

static void result_works(struct rig *rig) {
  NEED(rig, iobind_tensor_write(rig->result, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  rig_expect(rig, rig->result, rig_twos, RIG_VALUES);
}

static void count_deletion(void *context, void *data) {
  (void)data;
  ++*(size_t *)context;
}

/* The deleter is not called where wrapping fails, and once where it succeeds. */
static iobind_status wrap(struct rig *rig) {
  size_t deleted = rig->number;
  memcpy(rig->values, rig_ones, sizeof rig->values);
  iobind_status status = call_tensor_wrap(rig->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, rig_dims, 1, rig->values,
                                          sizeof rig->values, count_deletion, &rig->number, &rig->result, &rig->error);
  NEED_TRUE(rig->number == deleted);
  return status;
}

static void wrapped_works(struct rig *rig) {
  rig_expect(rig, rig->result, rig_ones, RIG_VALUES);
  iobind_tensor_release(rig->result);
  rig->result = NULL;
  NEED_TRUE(rig->number == 1);
}

static void make_x(struct rig *rig) {
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
}

static iobind_status view(struct rig *rig) {
  return iobind_tensor_view(rig->x, 0, IOBIND_DTYPE_FLOAT32, rig_dims, 1, &rig->result, &rig->error);
}

static iobind_status slice(struct rig *rig) {
  return iobind_tensor_slice(rig->x, 1, 2, &rig->result, &rig->error);
}

static void is_whole(struct rig *rig) {
  rig_expect(rig, rig->result, rig_ones, RIG_VALUES);
}

static void is_middle(struct rig *rig) {
  rig_expect(rig, rig->result, rig_ones + 1, 2);
}

static iobind_status retain(struct rig *rig) {
  rig->y = iobind_tensor_retain(rig->x);
  return IOBIND_OK;
}

static iobind_status release(struct rig *rig) {
  iobind_tensor_release(rig->x);
  rig->x = NULL;
  return IOBIND_OK;
}

/* ---- looked at ---- */

static iobind_status get_info(struct rig *rig) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  return iobind_tensor_get_info(rig->x, &info, &rig->error);
}

static iobind_status get_address(struct rig *rig) {
  rig->data = iobind_tensor_get_address(rig->x);
  return IOBIND_OK;
}

static iobind_status map(struct rig *rig) {
  return iobind_tensor_map(rig->x, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &rig->data, &rig->error);
}

/* ---- moved ---- */

static iobind_status write_all(struct rig *rig) {
  return iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, NULL, &rig->error);
}

static iobind_status write_part(struct rig *rig) {
  return iobind_tensor_write(rig->x, 2 * sizeof(float), rig_twos + 2, 2 * sizeof(float), NULL, &rig->error);
}

static void has_twos(struct rig *rig) {
  rig_expect(rig, rig->x, rig_twos, RIG_VALUES);
}

static void has_part(struct rig *rig) {
  static const float expected[RIG_VALUES] = {1, 2, 6, 8};
  rig_expect(rig, rig->x, expected, RIG_VALUES);
}

static void make_x_and_stream(struct rig *rig) {
  make_x(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
}

static iobind_status write_on_stream(struct rig *rig) {
  return iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, rig->stream, &rig->error);
}

static void has_twos_behind(struct rig *rig) {
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
  has_twos(rig);
}

static iobind_status read_all(struct rig *rig) {
  return iobind_tensor_read(rig->x, 0, rig->values, sizeof rig->values, NULL, &rig->error);
}

static iobind_status read_part(struct rig *rig) {
  return iobind_tensor_read(rig->x, sizeof(float), rig->values + 1, 2 * sizeof(float), NULL, &rig->error);
}

static void was_read(struct rig *rig) {
  NEED_TRUE(rig->values[1] == rig_ones[1] && rig->values[2] == rig_ones[2]);
}

static void make_pair(struct rig *rig) {
  make_x_and_stream(rig);
  rig->y = rig_floats(rig, rig->device, rig_twos, RIG_VALUES);
}

static iobind_status copy_pair(struct rig *rig, iobind_stream *stream) {
  const iobind_tensor *const sources[1] = {rig->y};
  iobind_tensor *const targets[1] = {rig->x};
  return iobind_tensor_copy(sources, targets, 1, stream, &rig->error);
}

static iobind_status copy(struct rig *rig) {
  return copy_pair(rig, NULL);
}

static iobind_status copy_on_stream(struct rig *rig) {
  return copy_pair(rig, rig->stream);
}

/* The EP says that it cannot: the data pass through the host. */
static iobind_status copy_through_host(struct rig *rig) {
  NEED_TRUE(fake_ort_fail("CopyTensors", 1, 9 /* ORT_NOT_IMPLEMENTED */, "not between these"));
  return copy_pair(rig, NULL);
}

/* Some on the device, some on the host. */
static void make_many(struct rig *rig) {
  for (size_t i = 0; i < RIG_TENSORS; i++) {
    bool is_source = i % 2 == 0;
    rig->many[i] = rig_floats(rig, i % 4 < 2 ? rig->cpu : rig->device, is_source ? rig_twos : rig_ones, RIG_VALUES);
  }
}

static iobind_status copy_many(struct rig *rig) {
  const iobind_tensor *sources[RIG_TENSORS / 2];
  iobind_tensor *targets[RIG_TENSORS / 2];
  for (size_t i = 0; i < RIG_TENSORS / 2; i++) {
    sources[i] = rig->many[2 * i];
    targets[i] = rig->many[(2 * i + 3) % RIG_TENSORS]; /* from the host to the device, and back */
  }
  return iobind_tensor_copy(sources, targets, RIG_TENSORS / 2, NULL, &rig->error);
}

static void many_are_twos(struct rig *rig) {
  for (size_t i = 0; i < RIG_TENSORS; i++) {
    rig_expect(rig, rig->many[i], rig_twos, RIG_VALUES);
  }
}

/* Two rows of one value: every other one of y becomes the beginning of x. */
static iobind_status copy_rows_between(struct rig *rig, iobind_tensor *from, iobind_tensor *to, iobind_stream *stream) {
  iobind_rows source = IOBIND_ROWS_INIT;
  source.tensor = from;
  source.pitch = 2 * sizeof(float);
  iobind_rows target = IOBIND_ROWS_INIT;
  target.tensor = to;
  target.pitch = sizeof(float);
  return iobind_tensor_copy_rows(&source, &target, sizeof(float), 2, stream, &rig->error);
}

static iobind_status copy_rows(struct rig *rig) {
  return copy_rows_between(rig, rig->y, rig->x, NULL);
}

static iobind_status copy_rows_on_stream(struct rig *rig) {
  return copy_rows_between(rig, rig->y, rig->x, rig->stream);
}

static void x_has_rows(struct rig *rig) {
  const float expected[RIG_VALUES] = {rig_twos[0], rig_twos[2], rig_ones[2], rig_ones[3]};
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
  rig_expect(rig, rig->x, expected, RIG_VALUES);
}

/* Many[0] is on the host. */
static void make_host_pair(struct rig *rig) {
  make_pair(rig);
  rig->many[0] = rig_floats(rig, rig->cpu, rig_twos, RIG_VALUES);
}

static iobind_status copy_rows_up(struct rig *rig) {
  return copy_rows_between(rig, rig->many[0], rig->x, NULL);
}

static iobind_status copy_rows_up_on_stream(struct rig *rig) {
  return copy_rows_between(rig, rig->many[0], rig->x, rig->stream);
}

/* The same rows every time: what is on the host is the target now. */
static iobind_status copy_rows_down(struct rig *rig) {
  return copy_rows_between(rig, rig->y, rig->many[0], NULL);
}

static iobind_status copy_rows_down_on_stream(struct rig *rig) {
  return copy_rows_between(rig, rig->y, rig->many[0], rig->stream);
}

static void host_has_rows(struct rig *rig) {
  const float expected[RIG_VALUES] = {rig_twos[0], rig_twos[2], rig_twos[2], rig_twos[3]};
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
  rig_expect(rig, rig->many[0], expected, RIG_VALUES);
}

/* ---- strings ---- */

static void make_strings(struct rig *rig) {
  rig->x = rig_strings(rig, "first", "second");
}

static iobind_status get_string(struct rig *rig) {
  return iobind_tensor_get_string(rig->x, 0, (char *)rig->values, sizeof rig->values, &rig->number, &rig->error);
}

static iobind_status get_short_string(struct rig *rig) {
  return iobind_tensor_get_string(rig->x, 0, (char *)rig->values, 3, &rig->number, &rig->error);
}

static void got_string(struct rig *rig) {
  NEED_TRUE(rig->number == 5 && memcmp(rig->values, "fir", 3) == 0);
}

static iobind_status set_string(struct rig *rig) {
  return iobind_tensor_set_string(rig->x, 1, "other", &rig->error);
}

static void string_is_set(struct rig *rig) {
  rig_expect_strings(rig, rig->x, "first", "other");
}

static void make_two_strings(struct rig *rig) {
  rig->x = rig_strings(rig, "first", "second");
  rig->y = rig_strings(rig, "first", "other");
}

static iobind_status compare(struct rig *rig) {
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  iobind_status status = iobind_tensor_compare(rig->x, rig->y, NULL, &found, &rig->error);
  rig->number = (size_t)found.beyond;
  return status;
}

static void differs_once(struct rig *rig) {
  NEED_TRUE(rig->number == 1);
}

/* ---- by DLPack ---- */

static void hand_back(void *managed) {
  /* what begins a versioned struct: its version, its context, its deleter */
  struct {
    uint32_t version[2];
    void *context;
    void (*deleter)(void *self);
  } *begin = managed;
  begin->deleter(managed);
}

static iobind_status to_dlpack(struct rig *rig) {
  iobind_status status = iobind_tensor_to_dlpack(rig->x, 0, &rig->data, &rig->error);
  if (status == IOBIND_OK) {
    hand_back(rig->data);
  }
  return status;
}

static void make_managed(struct rig *rig) {
  make_x(rig);
  NEED(rig, iobind_tensor_to_dlpack(rig->x, 0, &rig->data, &rig->error));
}

/* A call that fails leaves the struct to the caller, who tries again with it. */
static iobind_status from_dlpack(struct rig *rig) {
  return iobind_tensor_from_dlpack(rig->runtime, rig->data, 0, &rig->result, &rig->error);
}

/* ---- OrtValues ---- */

static const OrtApi *api_of(struct rig *rig) {
  iobind_ort ort = IOBIND_ORT_INIT;
  NEED(rig, iobind_runtime_get_ort(rig->runtime, &ort, &rig->error));
  return ort.api;
}

static iobind_status to_ort(struct rig *rig) {
  return iobind_tensor_to_ort(rig->x, &rig->data, &rig->error);
}

/* It outlives the tensor's own reference. */
static void value_works(struct rig *rig) {
  iobind_tensor_release(rig->x);
  rig->x = NULL;
  void *value = rig->data;
  size_t rank = 0;
  const int64_t *dims;
  ONNXTensorElementDataType type;
  const OrtApi *api = api_of(rig);
  NEED_TRUE(api->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank) == NULL && rank == 1);
  api->ReleaseValue(value);
}

static void make_value(struct rig *rig) {
  make_x(rig);
  NEED(rig, iobind_tensor_to_ort(rig->x, &rig->data, &rig->error));
}

static void release_value(void *context, void *value) {
  ((const OrtApi *)context)->ReleaseValue(value);
}

/* A call that fails leaves the value to the caller, who tries again with it. */
static iobind_status wrap_ort(struct rig *rig) {
  return iobind_tensor_wrap_ort(rig->runtime, rig->data, release_value, (void *)(uintptr_t)api_of(rig), &rig->result,
                                &rig->error);
}

static iobind_status host_api_base(struct rig *rig) {
  rig->data = (void *)(uintptr_t)iobind_get_host_api_base();
  return rig->data == NULL ? IOBIND_OK : IOBIND_ERROR_INTERNAL; /* this library is not registered */
}

#define PLAIN(name, prepares, calls) \
  { .function = (name), .variant = "", .places = ON_CPU, .prepare = (prepares), .call = (calls) }
#define MAKES(name, of, where, prepares, calls, checks)                                                                 \
  {                                                                                                                     \
    .function = (name), .variant = (of), .places = (where), .prepare = (prepares), .call = (calls), .out = OUT(result), \
    .right = (checks)                                                                                                   \
  }
#define MOVES(name, of, where, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = (where), .prepare = (prepares), .call = (calls), .right = (checks) }

const struct scenario tensor_scenarios[] = {
    PLAIN("iobind_dtype_get_name", NULL, say_dtype_name),
    PLAIN("iobind_dtype_get_bits", NULL, say_dtype_bits),
    PLAIN("iobind_dtype_get_bytes", NULL, get_dtype_bytes),
    MAKES("iobind_tensor_create", "", ON_ALL, NULL, create, result_works),
    MAKES("iobind_tensor_create", "pinned", ON_VDEV, NULL, create_pinned, result_works),
    MAKES("iobind_tensor_create", "with the first allocator", ON_VDEV, NULL, create_shared, result_works),
    MAKES("iobind_tensor_create", "of 128 MiB", ON_STRANGE, NULL, create_large, NULL),
    MAKES("iobind_tensor_create", "of strings", ON_CPU, NULL, create_strings, NULL),
    MAKES("iobind_tensor_wrap", "", ON_CPU, NULL, wrap, wrapped_works),
    MAKES("iobind_tensor_view", "", ON_ALL, make_x, view, is_whole),
    MAKES("iobind_tensor_slice", "", ON_CPU | ON_VDEV, make_x, slice, is_middle),
    PLAIN("iobind_tensor_retain", make_x, retain),
    {.function = "iobind_tensor_release", .variant = "", .places = ON_ALL, .prepare = make_x, .call = release, .last = true},
    PLAIN("iobind_tensor_get_info", make_x, get_info),
    PLAIN("iobind_tensor_get_address", make_x, get_address),
    PLAIN("iobind_tensor_map", make_x, map),
    MOVES("iobind_tensor_write", "", ON_ALL, make_x, write_all, has_twos),
    MOVES("iobind_tensor_write", "of a part", ON_ALL, make_x, write_part, has_part),
    MOVES("iobind_tensor_write", "on a stream", ON_ALL, make_x_and_stream, write_on_stream, has_twos_behind),
    MOVES("iobind_tensor_read", "", ON_ALL, make_x, read_all, was_read),
    MOVES("iobind_tensor_read", "of a part", ON_ALL, make_x, read_part, was_read),
    MOVES("iobind_tensor_copy", "", ON_ALL, make_pair, copy, has_twos),
    MOVES("iobind_tensor_copy", "on a stream", ON_ALL, make_pair, copy_on_stream, has_twos_behind),
    MOVES("iobind_tensor_copy", "through the host", ON_VDEV, make_pair, copy_through_host, has_twos),
    MOVES("iobind_tensor_copy", "of many", ON_ALL, make_many, copy_many, many_are_twos),
    MOVES("iobind_tensor_copy_rows", "", ON_ALL, make_pair, copy_rows, x_has_rows),
    MOVES("iobind_tensor_copy_rows", "on a stream", ON_ALL, make_pair, copy_rows_on_stream, x_has_rows),
    MOVES("iobind_tensor_copy_rows", "from the host", ON_VDEV | ON_STRANGE, make_host_pair, copy_rows_up, x_has_rows),
    MOVES("iobind_tensor_copy_rows", "from the host, on a stream", ON_VDEV | ON_STRANGE, make_host_pair, copy_rows_up_on_stream,
          x_has_rows),
    MOVES("iobind_tensor_copy_rows", "to the host", ON_VDEV | ON_STRANGE, make_host_pair, copy_rows_down, host_has_rows),
    MOVES("iobind_tensor_copy_rows", "to the host, on a stream", ON_VDEV | ON_STRANGE, make_host_pair, copy_rows_down_on_stream,
          host_has_rows),
    MOVES("iobind_tensor_get_string", "", ON_CPU, make_strings, get_string, got_string),
    MOVES("iobind_tensor_get_string", "in part", ON_CPU, make_strings, get_short_string, got_string),
    MOVES("iobind_tensor_compare", "of strings", ON_CPU, make_two_strings, compare, differs_once),
    MOVES("iobind_tensor_set_string", "", ON_CPU, make_strings, set_string, string_is_set),
    PLAIN("iobind_get_host_api_base", NULL, host_api_base),
    MOVES("iobind_tensor_to_dlpack", "", ON_CPU | ON_VDEV, make_x, to_dlpack, NULL),
    MAKES("iobind_tensor_from_dlpack", "", ON_CPU | ON_VDEV, make_managed, from_dlpack, result_works),
    {.function = "iobind_tensor_to_ort",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_x,
     .call = to_ort,
     .out = OUT(data),
     .right = value_works,
     .last = true},
    {.function = "iobind_tensor_to_ort",
     .variant = "of strings",
     .places = ON_CPU,
     .prepare = make_strings,
     .call = to_ort,
     .out = OUT(data),
     .right = value_works,
     .last = true},
    MAKES("iobind_tensor_wrap_ort", "", ON_ALL, make_value, wrap_ort, result_works),
    {.function = NULL},
};
