/* Tensors on the CPU: sizes, views, slices, writes, reads and copies, compared with plain arithmetic and with the memory. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "../../tests/rig/calls.h"

enum { TENSORS = 6, DIMS = 20, LARGEST = 1 << 16 };

typedef struct shape {
  int32_t dtype;
  int64_t *dims; /* malloc'ed, exactly `rank` elements */
  size_t rank;
} shape;

static shape take_shape(bytes *source) {
  shape taken = {.dtype = take_byte(source) % 32 - 2, .rank = take_byte(source) % DIMS};
  if (taken.rank > 4 && take_bool(source)) taken.rank %= 4;
  taken.dims = malloc(taken.rank * sizeof *taken.dims + 1);
  CHECK(taken.dims != NULL);
  for (size_t i = 0; i < taken.rank; i++) taken.dims[i] = take_dim(source);
  return taken;
}

/* The bytes of a dense tensor, as the header documents. */
static iobind_status reckon(const shape *of, size_t *total) {
  unsigned __int128 elements = 1;
  bool empty = false;
  bool overflow = false;
  *total = 0;
  if (iobind_dtype_get_bits(of->dtype) == 0) return IOBIND_ERROR_DTYPE;
  if (of->rank > IOBIND_MAX_RANK) return IOBIND_ERROR_SHAPE;
  for (size_t i = 0; i < of->rank; i++) {
    if (of->dims[i] < 0) return IOBIND_ERROR_SHAPE;
    empty = empty || of->dims[i] == 0;
  }
  for (size_t i = 0; !empty && i < of->rank; i++) {
    elements *= (unsigned __int128)of->dims[i];
    overflow = overflow || elements > INT64_MAX;
    if (overflow) elements = INT64_MAX;
  }
  unsigned __int128 bits = empty ? 0 : elements * iobind_dtype_get_bits(of->dtype);
  if (overflow || (bits + 7) / 8 > INT64_MAX) return IOBIND_ERROR_SHAPE;
  *total = (size_t)((bits + 7) / 8);
  return IOBIND_OK;
}

static void check_size(const shape *of) {
  size_t expected = 0;
  size_t got = 77;
  iobind_error error = armed();
  iobind_status wanted = reckon(of, &expected);
  iobind_status status = iobind_dtype_get_bytes((iobind_dtype)of->dtype, of->dims, of->rank, &got, &error);
  check_call(status, &error, true);
  CHECK((status == IOBIND_OK) == (wanted == IOBIND_OK));
  if (status == IOBIND_OK) CHECK(got == expected);
}

static int deleted;

static void delete (void *context, void *data) {
  CHECK(context == &deleted);
  deleted++;
  free(data);
}

static iobind_tensor *make(bytes *source) {
  shape of = take_shape(source);
  iobind_tensor *tensor = NULL;
  iobind_error error = armed();
  size_t total = 0;
  check_size(&of);
  bool wrap = take_bool(source);
  bool strings = of.dtype == IOBIND_DTYPE_STRING; /* they need at least the memory of floats */
  if (strings) of.dtype = IOBIND_DTYPE_FLOAT32;
  bool small = reckon(&of, &total) != IOBIND_OK || total <= LARGEST;
  if (strings) of.dtype = IOBIND_DTYPE_STRING;
  if (strings) total = 0;
  if (small) {
    iobind_memory memory = (iobind_memory)(take_byte(source) % 8 == 7);
    iobind_status status;
    if (wrap) {
      size_t given = total + take_byte(source) % 4 - 1;
      void *data = total == 0 ? NULL : calloc(1, total);
      if (given > total && total > 0) given = total;
      status = call_tensor_wrap(the_cpu(), memory, (iobind_dtype)of.dtype, of.dims, of.rank, data, given, delete, &deleted,
                                &tensor, &error);
      if (status != IOBIND_OK) free(data);
    } else {
      status = iobind_tensor_create(the_cpu(), memory, (iobind_dtype)of.dtype, of.dims, of.rank, &tensor, &error);
    }
    check_call(status, &error, true);
    CHECK((tensor != NULL) == (status == IOBIND_OK));
  }
  free(of.dims);
  return tensor;
}

static iobind_tensor_info info_of(const iobind_tensor *tensor) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(tensor, &info, NULL) == IOBIND_OK);
  return info;
}

static iobind_tensor *cut(bytes *source, iobind_tensor *tensor) {
  iobind_tensor_info info = info_of(tensor);
  iobind_tensor *view = NULL;
  iobind_error error = armed();
  iobind_status status;
  if (take_bool(source)) {
    int64_t start = take_dim(source);
    int64_t count = take_dim(source);
    status = iobind_tensor_slice(tensor, start, count, &view, &error);
    if (status == IOBIND_OK) CHECK(start >= 0 && count >= 0 && info.rank > 0 && start + count <= info.dims[0]);
  } else {
    shape of = take_shape(source);
    size_t offset = (size_t)take_dim(source);
    status = iobind_tensor_view(tensor, offset, (iobind_dtype)of.dtype, of.dims, of.rank, &view, &error);
    size_t total = 0;
    if (status == IOBIND_OK) CHECK(reckon(&of, &total) == IOBIND_OK && offset <= info.bytes && total <= info.bytes - offset);
    free(of.dims);
  }
  check_call(status, &error, true);
  CHECK((view != NULL) == (status == IOBIND_OK));
  if (view != NULL && info_of(view).bytes > 0) {
    const char *whole = iobind_tensor_get_address(tensor);
    const char *part = iobind_tensor_get_address(view);
    CHECK(part >= whole && part + info_of(view).bytes <= whole + info.bytes);
  }
  return view;
}

/* Only the given part is written. */
static void write_part(bytes *source, iobind_tensor *tensor) {
  iobind_tensor_info info = info_of(tensor);
  size_t offset = (size_t)take_dim(source);
  size_t count = (size_t)take_dim(source);
  uint8_t value = take_byte(source);
  bool inside = offset <= info.bytes && count <= info.bytes - offset;
  size_t room = inside ? count : 16;
  uint8_t *data = malloc(room + 1);
  uint8_t *before = malloc(info.bytes + 1);
  uint8_t *after = malloc(info.bytes + 1);
  CHECK(data != NULL && before != NULL && after != NULL);
  memset(data, value, room);
  iobind_error error = armed();
  iobind_status read = iobind_tensor_read(tensor, 0, before, info.bytes, NULL, &error);
  check_call(read, &error, true);
  CHECK((read == IOBIND_OK) == (info.dtype != IOBIND_DTYPE_STRING));
  error = armed();
  iobind_status status = iobind_tensor_write(tensor, offset, data, count, NULL, &error);
  check_call(status, &error, true);
  CHECK((status == IOBIND_OK) == (inside && info.dtype != IOBIND_DTYPE_STRING));
  if (status == IOBIND_OK) {
    memset(before + offset, value, count);
    CHECK(iobind_tensor_read(tensor, 0, after, info.bytes, NULL, NULL) == IOBIND_OK);
    CHECK(info.bytes == 0 || memcmp(before, after, info.bytes) == 0);
  }
  free(after);
  free(before);
  free(data);
}

static void copy(iobind_tensor *from, iobind_tensor *to) {
  const iobind_tensor *source = from;
  iobind_tensor_info one = info_of(from);
  iobind_tensor_info two = info_of(to);
  iobind_error error = armed();
  iobind_status status = iobind_tensor_copy(&source, &to, 1, NULL, &error);
  check_call(status, &error, true);
  if (status != IOBIND_OK || one.bytes == 0) return;
  CHECK(one.dtype == two.dtype && one.bytes == two.bytes);
  CHECK(memcmp(iobind_tensor_get_address(from), iobind_tensor_get_address(to), one.bytes) == 0);
}

static void string(bytes *source, iobind_tensor *tensor) {
  size_t index = (size_t)take_dim(source);
  char *text = take_text(source, 64);
  iobind_error error = armed();
  iobind_status status = iobind_tensor_set_string(tensor, index, text, &error);
  check_call(status, &error, true);
  if (status == IOBIND_OK) {
    size_t capacity = take_byte(source) % 80;
    char *buffer = malloc(capacity + 1);
    size_t needed = 0;
    CHECK(buffer != NULL);
    CHECK(iobind_tensor_get_string(tensor, index, buffer, capacity, &needed, NULL) == IOBIND_OK);
    CHECK(needed == strlen(text) && memcmp(buffer, text, needed < capacity ? needed : capacity) == 0);
    free(buffer);
  }
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  iobind_tensor *tensors[TENSORS] = {NULL};
  while (source.left > 0) {
    iobind_tensor **one = &tensors[take_byte(&source) % TENSORS];
    iobind_tensor **two = &tensors[take_byte(&source) % TENSORS];
    uint8_t action = take_byte(&source) % 8;
    if (action < 2 || *one == NULL) {
      iobind_tensor *made = action == 1 && *one != NULL ? cut(&source, *one) : make(&source);
      if (made == NULL) continue;
      iobind_tensor_release(*two);
      *two = made;
    } else if (action < 5) {
      write_part(&source, *one);
    } else if (action == 5 && *two != NULL) {
      copy(*one, *two);
    } else if (action == 6) {
      string(&source, *one);
    } else if (action == 7) {
      iobind_tensor_release(*one);
      *one = NULL;
    }
  }
  for (size_t i = 0; i < TENSORS; i++) iobind_tensor_release(tensors[i]);
  return 0;
}
