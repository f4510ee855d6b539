/* tool/formats/npy.c: arbitrary bytes as a file. An array that is read, written and read again is unchanged. */
#include "formats/npy.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

static bool read_bytes(void *context, const char *name, void *data, size_t size, tool_fault *fault) {
  bytes *source = context;
  if (size > source->left) return fault_set(fault, "%s: too short", name);
  if (size > 0) memcpy(data, source->at, size);
  source->at += size;
  source->left -= size;
  return true;
}

static bool read_array(const uint8_t *data, size_t size, npy_array *array, tool_fault *fault) {
  bytes content = {data, size};
  const npy_source source = {.name = "input", .size = size, .read = read_bytes, .context = &content};
  return npy_read_from(&source, array, fault);
}

/* The number of elements is the product of the dims, without an overflow. */
static void check_count(const npy_array *array) {
  unsigned __int128 count = 1;
  bool empty = false;
  for (size_t i = 0; i < array->rank; i++) {
    CHECK(array->dims[i] >= 0);
    empty = empty || array->dims[i] == 0;
    if (count <= SIZE_MAX) count *= (unsigned __int128)array->dims[i];
  }
  CHECK(array->count == (empty ? 0 : count));
}

static void check_round_trip(const npy_array *array) {
  char header[NPY_HEADER_SIZE];
  size_t length = npy_make_header(array, header);
  CHECK(length % 64 == 0 && length <= sizeof header);
  uint8_t *file = malloc(length + array->bytes);
  CHECK(file != NULL);
  memcpy(file, header, length);
  if (array->bytes > 0) memcpy(file + length, array->data, array->bytes);
  npy_array again;
  tool_fault fault;
  CHECK(read_array(file, length + array->bytes, &again, &fault));
  CHECK(again.kind == array->kind && again.item_bytes == array->item_bytes && again.rank == array->rank);
  CHECK(again.rank == 0 || memcmp(again.dims, array->dims, again.rank * sizeof again.dims[0]) == 0);
  CHECK(again.bytes == array->bytes && (again.bytes == 0 || memcmp(again.data, array->data, again.bytes) == 0));
  npy_free(&again);
  free(file);
}

/* Texts that can be read are unchanged after they were written into a new array. */
static void check_texts(const npy_array *array) {
  enum { MOST = 8 };
  char *texts[MOST];
  size_t lengths[MOST];
  size_t count = array->count < MOST ? array->count : MOST;
  size_t good = 0;
  for (size_t i = 0; i < count; i++) {
    texts[good] = npy_get_text(array, i);
    if (texts[good] == NULL) continue;
    CHECK(is_utf8(texts[good]));
    lengths[good] = strlen(texts[good]);
    good++;
  }
  const int64_t dim = (int64_t)good;
  npy_array again = {.kind = 'U', .item_bytes = 4};
  CHECK(npy_set_dims(&again, &dim, 1));
  CHECK(npy_set_texts(&again, (const char *const *)texts, lengths));
  for (size_t i = 0; i < good; i++) {
    char *text = npy_get_text(&again, i);
    CHECK(text != NULL && strcmp(text, texts[i]) == 0);
    free(text);
    free(texts[i]);
  }
  npy_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  npy_array array;
  tool_fault fault = {""};
  if (!read_array(data, size, &array, &fault)) {
    CHECK(array.data == NULL && fault.text[0] != 0 && strchr(fault.text, '\n') == NULL);
    return 0;
  }
  CHECK(array.rank <= NPY_MAX_RANK && array.bytes == array.count * array.item_bytes && array.bytes <= size);
  CHECK((array.data == NULL) == (array.bytes == 0));
  check_count(&array);
  check_round_trip(&array);
  if (array.kind == 'U' || array.kind == 'S') check_texts(&array);
  npy_free(&array);
  return 0;
}
