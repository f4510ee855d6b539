/* Copies of rows with a pitch: each byte of source and target beside what memcpy makes of them, between all the memory of a device and the
 * host. */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "models.h"
#include "vdev.h"

enum { SIZE = 2048, LARGE = 1 << 18, KINDS = 3 };

static iobind_stream *stream;

static bool is_vdev(void) {
  return is_device("vdev");
}

static void set_speeds(const char *gbps) {
  assert_int_equal(vdev_set(0, "h2d_gbps", gbps), 0);
  assert_int_equal(vdev_set(0, "d2h_gbps", gbps), 0);
  assert_int_equal(vdev_set(0, "d2d_gbps", gbps), 0);
}

static int start(void **state) {
  (void)stage_open(state);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  if (is_vdev()) {
    assert_int_equal(vdev_set(0, "race", "fail"), 0);
  }
  return 0;
}

static int stop(void **state) {
  if (is_vdev()) {
    assert_int_equal(vdev_set(0, "race", "off"), 0);
    assert_int_equal(vdev_set(0, "clock", "real"), 0);
    set_speeds("0");
  }
  iobind_stream_destroy(stream);
  return stage_close(state);
}

static iobind_device_info info(void) {
  iobind_device_info now = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(device, &now, &fault));
  return now;
}

static iobind_device_counters counters(void) {
  iobind_device_counters now = IOBIND_DEVICE_COUNTERS_INIT;
  expect_ok(iobind_device_get_counters(device, &now, &fault));
  return now;
}

static unsigned char *made(size_t bytes, unsigned seed) {
  unsigned char *data = malloc(bytes);
  assert_non_null(data);
  for (size_t i = 0; i < bytes; i++) {
    data[i] = (unsigned char)(i * 7 + i / 251 + seed);
  }
  return data;
}

/* Of a kind of memory: the device's, pinned, pageable. NULL: the device has none. */
static iobind_tensor *make(int kind, const unsigned char *data, size_t bytes) {
  const int64_t dims[1] = {(int64_t)bytes};
  iobind_tensor *tensor = NULL;
  fixture_arm();
  iobind_status status =
      iobind_tensor_create(kind == 2 ? cpu : device, kind == 1 ? IOBIND_MEMORY_HOST_ACCESSIBLE : IOBIND_MEMORY_DEFAULT,
                           IOBIND_DTYPE_UINT8, dims, 1, &tensor, &fault);
  if (kind == 1 && status == IOBIND_ERROR_NOT_SUPPORTED) {
    return NULL;
  }
  fixture_expect(IOBIND_OK, status, "create", __FILE__, __LINE__);
  expect_ok(iobind_tensor_write(tensor, 0, data, bytes, NULL, &fault));
  return tensor;
}

static void expect_data(iobind_tensor *tensor, const unsigned char *data, size_t bytes, const char *what) {
  unsigned char *got = malloc(bytes);
  assert_non_null(got);
  expect_ok(iobind_tensor_read(tensor, 0, got, bytes, NULL, &fault));
  for (size_t i = 0; i < bytes; i++) {
    if (got[i] != data[i]) {
      fail_msg("%s: byte %zu of %zu is %d, expected %d", what, i, bytes, got[i], data[i]);
    }
  }
  free(got);
}

static iobind_rows rows_of(iobind_tensor *tensor, size_t offset, size_t pitch) {
  iobind_rows rows = IOBIND_ROWS_INIT;
  rows.tensor = tensor;
  rows.offset = offset;
  rows.pitch = pitch;
  return rows;
}

typedef struct shape {
  size_t from_offset, from_pitch, to_offset, to_pitch, bytes, rows;
} shape;

static void copy_by_hand(const shape *self, const unsigned char *from, unsigned char *to) {
  for (size_t row = 0; row < self->rows; row++) {
    memcpy(to + self->to_offset + row * self->to_pitch, from + self->from_offset + row * self->from_pitch, self->bytes);
  }
}

static iobind_status copy(const shape *self, iobind_tensor *from, iobind_tensor *to, iobind_stream *on) {
  const iobind_rows source = rows_of(from, self->from_offset, self->from_pitch);
  const iobind_rows target = rows_of(to, self->to_offset, self->to_pitch);
  fixture_arm();
  return iobind_tensor_copy_rows(&source, &target, self->bytes, self->rows, on, &fault);
}

static const shape shapes[] = {
    {0, 100, 0, 80, 80, 20},     /* a frame to dense */
    {0, 80, 0, 100, 80, 20},     /* dense to a frame */
    {13, 64, 27, 51, 9, 30},     /* a rectangle to another one, at odd bytes */
    {8, 40, 16, 40, 40, 33},     /* dense on both sides: one part */
    {5, 7, 1, 6, 1, 40},         /* single bytes; more than go into one call */
    {SIZE - 30, 0, 3, 0, 30, 1}, /* one row, to the end of the tensor: no pitch is needed */
    {0, 32, SIZE - 30, 0, 30, 1},
    {0, 64, 0, 64, 64, SIZE / 64}, /* the whole tensor */
    {48, 100, 0, 128, 128 - 28, 16},
    {SIZE, 0, SIZE, 0, 0, 1}, /* nothing, at the end */
    {0, 0, 0, 0, 5, 0},
    {0, 0, 0, 0, 0, 5},
};

static void each_route(void **state) {
  (void)state;
  unsigned char *data = made(SIZE, 1);
  for (int route = 0; route < 2 * KINDS * KINDS; route++) {
    iobind_stream *on = route < KINDS * KINDS ? NULL : stream;
    unsigned char *expected = made(SIZE, 99);
    iobind_tensor *from = make(route % KINDS, data, SIZE);
    iobind_tensor *to = make(route / KINDS % KINDS, expected, SIZE);
    bool takes_part = device == cpu || on == NULL || route % (KINDS * KINDS) != KINDS * KINDS - 1;
    for (size_t i = 0; takes_part && from != NULL && to != NULL && i < sizeof shapes / sizeof shapes[0]; i++) {
      char what[64];
      (void)snprintf(what, sizeof what, "route %d, shape %zu", route, i);
      fixture_expect(IOBIND_OK, copy(&shapes[i], from, to, on), what, __FILE__, __LINE__);
      if (on != NULL) {
        expect_ok(iobind_stream_synchronize(on, &fault));
      }
      copy_by_hand(&shapes[i], data, expected);
      expect_data(to, expected, SIZE, what);
    }
    if (from != NULL) {
      expect_data(from, data, SIZE, "the source");
    }
    iobind_tensor_release(from);
    iobind_tensor_release(to);
    free(expected);
  }
  free(data);
}

/* Large enough for the stream's own pinned memory; the tensors are released before the stream is complete. */
static void behind_what_is_on_the_stream(void **state) {
  (void)state;
  static const shape down = {64, 1024, 0, 1000, 1000, LARGE / 1024};
  static const shape up = {0, 1000, 24, 1024, 1000, LARGE / 1024};
  unsigned char *data = made(LARGE, 3);
  unsigned char *other = made(LARGE, 55);
  unsigned char *expected = made(LARGE, 77);
  iobind_tensor *host = make(2, data, LARGE);
  iobind_tensor *frame = make(0, other, LARGE);
  iobind_tensor *dense = make(0, expected, LARGE);
  iobind_tensor *back = make(2, expected, LARGE);
  const iobind_tensor *from[1] = {host};
  shape part = down;
  part.rows--;
  expect_ok(iobind_tensor_copy(from, &frame, 1, stream, &fault));
  fixture_expect(IOBIND_OK, copy(&part, frame, dense, stream), "on the device", __FILE__, __LINE__);
  fixture_expect(IOBIND_OK, copy(&part, frame, back, stream), "to the host", __FILE__, __LINE__);
  iobind_tensor_release(frame);
  iobind_tensor_release(host);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  copy_by_hand(&part, data, expected);
  expect_data(dense, expected, LARGE, "on the device");
  expect_data(back, expected, LARGE, "to the host");
  part = up;
  part.rows--;
  fixture_expect(IOBIND_OK, copy(&part, back, dense, stream), "to the device", __FILE__, __LINE__);
  iobind_tensor_release(back);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  copy_by_hand(&part, expected, other); /* only the rows */
  unsigned char *got = malloc(LARGE);
  assert_non_null(got);
  expect_ok(iobind_tensor_read(dense, 0, got, LARGE, NULL, &fault));
  for (size_t row = 0; row < part.rows; row++) {
    assert_memory_equal(got + part.to_offset + row * part.to_pitch, other + part.to_offset + row * part.to_pitch, part.bytes);
    assert_memory_equal(got + part.to_offset + row * part.to_pitch + 1000,
                        expected + part.to_offset + row * part.to_pitch + 1000, 24);
  }
  iobind_tensor_release(dense);
  free(got);
  free(expected);
  free(other);
  free(data);
}

/* On a stream of the virtual accelerator the host waits for none of these, by its clock. */
static void nothing_waits(void **state) {
  (void)state;
  static const shape pitched = {64, 1024, 0, 1000, 1000, LARGE / 1024 - 1};
  static const shape dense = {0, 1000, 0, 1000, 1000, LARGE / 1024 - 1};
  if (!is_vdev()) {
    skip(); /* which has a clock */
  }
  unsigned char *data = made(LARGE, 3);
  iobind_tensor *host = make(2, data, LARGE);
  iobind_tensor *back = make(2, data, LARGE);
  iobind_tensor *frame = make(0, data, LARGE);
  iobind_tensor *to = make(0, data, LARGE);
  iobind_tensor *pinned = make(1, data, LARGE);
  assert_non_null(pinned);
  assert_int_equal(vdev_set(0, "clock", "virtual"), 0);
  set_speeds("1");
  int64_t before = vdev_get(0, "time_ns");
  fixture_expect(IOBIND_OK, copy(&pitched, host, to, stream), "to dense", __FILE__, __LINE__);
  fixture_expect(IOBIND_OK, copy(&dense, host, frame, stream), "to dense", __FILE__, __LINE__);
  fixture_expect(IOBIND_OK, copy(&pitched, frame, back, stream), "to the host", __FILE__, __LINE__);
  fixture_expect(IOBIND_OK, copy(&pitched, frame, pinned, stream), "to pinned memory", __FILE__, __LINE__);
  fixture_expect(IOBIND_OK, copy(&pitched, pinned, frame, stream), "from pinned memory", __FILE__, __LINE__);
  fixture_expect(IOBIND_OK, copy(&pitched, frame, to, stream), "on the device", __FILE__, __LINE__);
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_true(vdev_get(0, "time_ns") > before);
  iobind_tensor_release(pinned);
  iobind_tensor_release(to);
  iobind_tensor_release(frame);
  iobind_tensor_release(back);
  iobind_tensor_release(host);
  free(data);
}

/* The rows, and not a byte more, where memory has addresses; without them the whole is staged. */
static void counters_tell_the_rows(void **state) {
  (void)state;
  static const shape pitched = {10, 100, 4, 60, 50, 16};
  enum { ROWS = 16 * 50, LAST = 10 + 15 * 100 + 50 };
  const bool far = (info().flags & IOBIND_DEVICE_HOST_MEMORY) == 0;
  const bool addressable = (info().flags & IOBIND_DEVICE_ADDRESSABLE) != 0;
  unsigned char *data = made(SIZE, 3);
  iobind_tensor *host = make(2, data, SIZE);
  iobind_tensor *first = make(0, data, SIZE);
  iobind_tensor *second = make(0, data, SIZE);
  iobind_device_counters before = counters();
  fixture_expect(IOBIND_OK, copy(&pitched, first, second, NULL), "local", __FILE__, __LINE__);
  iobind_device_counters after = counters();
  assert_int_equal(after.local_bytes - before.local_bytes, far && addressable ? ROWS : 0);
  assert_int_equal(after.download_bytes - before.download_bytes, addressable ? 0 : LAST + SIZE);
  assert_int_equal(after.upload_bytes - before.upload_bytes, addressable ? 0 : SIZE);
  before = after;
  fixture_expect(IOBIND_OK, copy(&pitched, host, second, NULL), "up", __FILE__, __LINE__);
  after = counters();
  assert_int_equal(after.upload_bytes - before.upload_bytes, !far ? 0 : addressable ? ROWS : SIZE);
  assert_int_equal(after.download_bytes - before.download_bytes, addressable ? 0 : SIZE);
  before = after;
  fixture_expect(IOBIND_OK, copy(&pitched, first, host, NULL), "down", __FILE__, __LINE__);
  after = counters();
  assert_int_equal(after.upload_bytes - before.upload_bytes, 0);
  assert_int_equal(after.download_bytes - before.download_bytes, !far ? 0 : addressable ? ROWS : LAST);
  assert_int_equal(after.local_bytes - before.local_bytes, 0);
  assert_int_equal(after.allocation_count - before.allocation_count, 0);
  iobind_tensor_release(second);
  iobind_tensor_release(first);
  iobind_tensor_release(host);
  free(data);
}

static bool shares_a_byte(const shape *self) {
  bool read[64] = {false};
  bool shares = false;
  for (size_t row = 0; row < self->rows; row++) {
    for (size_t i = 0; i < self->bytes; i++) {
      read[self->from_offset + row * self->from_pitch + i] = true;
    }
  }
  for (size_t row = 0; row < self->rows; row++) {
    for (size_t i = 0; i < self->bytes; i++) {
      shares = shares || read[self->to_offset + row * self->to_pitch + i];
    }
  }
  return shares;
}

/* Rows of one tensor, of the same pitch: refused exactly if they have a byte in common. */
static void within_one_tensor(void **state) {
  (void)state;
  unsigned char *data = made(64, 3);
  size_t refused = 0;
  size_t copied = 0;
  iobind_tensor *tensor = make(0, data, 64);
  size_t step = (info().flags & IOBIND_DEVICE_ADDRESSABLE) != 0 ? 1 : 5; /* without addresses a copy is slow */
  for (size_t from = 0; from < 20; from += step) {
    for (size_t to = 0; to < 20; to += step) {
      for (size_t pitch = 6; pitch < 9; pitch += 2) {
        for (size_t bytes = 1; bytes < 6; bytes += 2) {
          const shape rows = {from, pitch, to, pitch, bytes, 3};
          bool shares = shares_a_byte(&rows);
          fixture_expect(shares ? IOBIND_ERROR_INVALID_ARGUMENT : IOBIND_OK, copy(&rows, tensor, tensor, NULL), "within",
                         __FILE__, __LINE__);
          if (shares) {
            expect_words("overlap");
            refused++;
          } else {
            copy_by_hand(&rows, data, data);
            copied++;
            expect_data(tensor, data, 64, "within");
          }
        }
      }
    }
  }
  assert_true(refused > 20 && copied > 20);
  static const shape differ = {0, 10, 4, 9, 2, 3};
  fixture_expect(IOBIND_ERROR_INVALID_ARGUMENT, copy(&differ, tensor, tensor, NULL), "pitches", __FILE__, __LINE__);
  iobind_tensor_release(tensor);
  free(data);
}

static void what_is_refused(void **state) {
  (void)state;
  static const shape outside[] = {
      {0, 40, 0, 40, 40, 3},
      {0, 32, 0, 40, 32, 3},
      {65, 0, 0, 0, 0, 1},
      {0, 0, 0, 0, 65, 1},
      {64, 0, 0, 0, 1, 1},
      {0, SIZE_MAX, 0, 32, 32, 2},
      {0, 32, SIZE_MAX, 32, 32, 2},
      {0, 32, 0, 32, SIZE_MAX, 1},
      {0, 1, 0, 1, 1, SIZE_MAX},
      {1, 1, 1, 1, 1, 64},
      {0, SIZE_MAX / 2 + 1, 0, 8, 8, 3},
      {8, SIZE_MAX - 7, 8, 8, 8, 2},
  };
  unsigned char *data = made(64, 3);
  iobind_tensor *from = make(0, data, 64);
  iobind_tensor *to = make(0, data, 64);
  for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
    fixture_expect(IOBIND_ERROR_INVALID_ARGUMENT, copy(&outside[i], from, to, NULL), "outside", __FILE__, __LINE__);
    expect_words("within the tensor's 64 bytes");
  }
  static const shape narrow = {0, 8, 0, 7, 8, 2};
  fixture_expect(IOBIND_ERROR_INVALID_ARGUMENT, copy(&narrow, from, to, NULL), "narrow", __FILE__, __LINE__);
  expect_words("tensor_copy_rows: target: expected a pitch of 8 bytes or more");
  static const shape right = {0, 16, 0, 8, 8, 4};
  fixture_expect(IOBIND_ERROR_INVALID_ARGUMENT, copy(&right, NULL, to, NULL), "no tensor", __FILE__, __LINE__);
  expect_words("tensor_copy_rows: source: tensor is NULL");
  iobind_rows source = rows_of(from, 0, 16);
  iobind_rows target = rows_of(to, 0, 8);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy_rows(NULL, &target, 8, 4, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy_rows(&source, NULL, 8, 4, NULL, &fault));
  expect_words("tensor_copy_rows: target is NULL");
  target.reserved = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy_rows(&source, &target, 8, 4, NULL, &fault));
  target.reserved = 0;
  source.struct_size = 8;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy_rows(&source, &target, 8, 4, NULL, &fault));
  expect_words("struct_size");

  static const int64_t two = 2;
  iobind_tensor *text = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &two, 1, &text, &fault));
  fixture_expect(IOBIND_ERROR_DTYPE, copy(&right, text, to, NULL), "strings", __FILE__, __LINE__);
  fixture_expect(IOBIND_ERROR_DTYPE, copy(&right, from, text, NULL), "strings", __FILE__, __LINE__);
  iobind_tensor_release(text);

  if (device != cpu) {
    iobind_stream *wrong = NULL;
    iobind_tensor *host = make(2, data, 64);
    expect_ok(iobind_stream_create(cpu, NULL, &wrong, &fault));
    fixture_expect(IOBIND_ERROR_WRONG_DEVICE, copy(&right, from, to, wrong), "stream", __FILE__, __LINE__);
    fixture_expect(IOBIND_OK, copy(&right, from, host, wrong), "stream", __FILE__, __LINE__);
    expect_ok(iobind_stream_synchronize(wrong, &fault));
    iobind_stream_destroy(wrong);
    iobind_tensor_release(host);
  }
  expect_data(to, data, 64, "what was refused");
  iobind_tensor_release(to);
  iobind_tensor_release(from);
  free(data);
}

/* Any types: bytes are copied. Four of eight elements of 4 bits are a row here. */
static void packed_types(void **state) {
  (void)state;
  static const int64_t packed_dims[2] = {3, 8};
  static const shape halves = {1, 4, 0, 2, 2, 3};
  unsigned char *data = made(12, 3);
  unsigned char expected[6];
  iobind_tensor *packed = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT4, packed_dims, 2, &packed, &fault));
  expect_ok(iobind_tensor_write(packed, 0, data, 12, NULL, &fault));
  iobind_tensor *bytes = make(0, data, 6);
  fixture_expect(IOBIND_OK, copy(&halves, packed, bytes, NULL), "packed", __FILE__, __LINE__);
  copy_by_hand(&halves, data, expected);
  expect_data(bytes, expected, 6, "packed");
  iobind_tensor_release(bytes);
  iobind_tensor_release(packed);
  free(data);
}

/* Memory that may not be written may be read. */
static void read_only(void **state) {
  (void)state;
  static const shape rows = {0, 16, 0, 8, 8, 4};
  struct versioned { /* what begins DLPack's struct */
    uint32_t version[2];
    void *context;
    void (*deleter)(struct versioned *self);
    uint64_t flags;
  } * managed;
  unsigned char *data = made(64, 3);
  unsigned char *expected = made(64, 9);
  void *handed = NULL;
  iobind_tensor *from = make(2, data, 64);
  iobind_tensor *to = make(0, expected, 64);
  iobind_tensor *fixed = NULL;
  expect_ok(iobind_tensor_to_dlpack(from, 0, &handed, &fault));
  managed = handed;
  managed->flags |= 1;
  expect_ok(iobind_tensor_from_dlpack(runtime, handed, 0, &fixed, &fault));
  fixture_expect(IOBIND_ERROR_INVALID_ARGUMENT, copy(&rows, to, fixed, NULL), "read-only", __FILE__, __LINE__);
  expect_words("tensor_copy_rows: the tensor is read-only");
  fixture_expect(IOBIND_OK, copy(&rows, fixed, to, NULL), "read-only", __FILE__, __LINE__);
  copy_by_hand(&rows, data, expected);
  expect_data(to, expected, 64, "read-only");
  iobind_tensor_release(fixed);
  iobind_tensor_release(to);
  iobind_tensor_release(from);
  free(expected);
  free(data);
}

/* Rows of the device's own memory on another device: through the host. */
static void to_another_device(void **state) {
  (void)state;
  static const shape rows = {13, 64, 27, 51, 9, 30};
  const char *other_spec = is_vdev() ? "webgpu" : "vdev";
  if (is_device("cpu") || !fixture_has(other_spec)) {
    skip();
  }
  unsigned char *data = made(SIZE, 3);
  unsigned char *expected = made(SIZE, 9);
  iobind_tensor *from = make(0, data, SIZE);
  iobind_device *mine = device;
  device = fixture_device(runtime, other_spec);
  iobind_tensor *to = make(0, expected, SIZE);
  device = mine;
  fixture_expect(IOBIND_OK, copy(&rows, from, to, stream), "there", __FILE__, __LINE__);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  copy_by_hand(&rows, data, expected);
  expect_data(to, expected, SIZE, "there");
  fixture_expect(IOBIND_OK, copy(&shapes[0], to, from, NULL), "back", __FILE__, __LINE__);
  copy_by_hand(&shapes[0], expected, data);
  expect_data(from, data, SIZE, "back");
  iobind_tensor_release(to);
  iobind_tensor_release(from);
  free(expected);
  free(data);
}

/* After a run on the same stream, which writes the source: the rows are the run's, by each way of ordering the work. */
static void behind_a_run(void **state) {
  (void)state;
  enum { COUNT = 64 };
  static const shape rows = {32, 64, 0, 16, 16, 4};
  float values[COUNT];
  float got[COUNT] = {0};
  for (size_t i = 0; i < COUNT; i++) {
    values[i] = (float)i;
  }
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *binding = NULL;
  iobind_tensor *x = fixture_floats(device, values, COUNT);
  iobind_tensor *y = fixture_floats(device, values, COUNT);
  iobind_tensor *to = fixture_floats(cpu, got, COUNT);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  fixture_expect(IOBIND_OK, copy(&rows, y, to, stream), "behind", __FILE__, __LINE__);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_tensor_read(to, 0, got, sizeof got, NULL, &fault));
  for (size_t i = 0; i < 16; i++) {
    assert_true(got[i] == 2 * values[8 + i / 4 * 16 + i % 4]);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(to);
  iobind_tensor_release(y);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

#define CASES(spec)                                                                                                       \
  {#spec ": each route", each_route, start, stop, #spec},                                                                 \
      {#spec ": behind what is on the stream", behind_what_is_on_the_stream, start, stop, #spec},                         \
      {#spec ": behind a run", behind_a_run, start, stop, #spec},                                                         \
      {#spec ": nothing waits", nothing_waits, start, stop, #spec},                                                       \
      {#spec ": counters tell the rows", counters_tell_the_rows, start, stop, #spec},                                     \
      {#spec ": within one tensor", within_one_tensor, start, stop, #spec},                                               \
      {#spec ": what is refused", what_is_refused, start, stop, #spec},                                                   \
      {#spec ": packed types", packed_types, start, stop, #spec}, {#spec ": read only", read_only, start, stop, #spec}, { \
#spec ": to another device", to_another_device, start, stop, #spec                                                    \
  }

static const struct CMUnitTest tests[] = {CASES(cpu), CASES(webgpu), CASES(vdev), CASES(cuda)};

FIXTURE_MAIN_OF_DEVICES(tests);
