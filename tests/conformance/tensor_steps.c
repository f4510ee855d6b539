#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "d3d12/com.h"
#include "element.h"
#include "iobind/interop.h"
#include "script.h"
#include "../rig/calls.h"

enum { PART_BYTES = 65536 };

/* Steps that only use tensors. Each makes its call, and changes the mirror as the call must have changed the tensor. */

static int made(world *w, iobind_status status, iobind_tensor *handle) {
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  int good = world_settle(w, status, handle);
  if (!good && status == IOBIND_OK) iobind_tensor_release(handle);
  return good;
}

static void read_type(world *w, const char *text, value *v) {
  if (!value_parse_type(text, v)) world_fail(w, "script: '%s' is no type", text);
}

/* Keeps what a call has made as the tensor `name`, whose value has no mirror yet or shares one. */
static tensor *keep_tensor(world *w, const char *name, iobind_tensor *handle, value *v) {
  tensor *t = world_add_tensor(w, name);
  if (t == NULL) {
    iobind_tensor_release(handle);
    value_release(v);
    return NULL;
  }
  t->handle = handle;
  t->value = *v;
  if (t->value.mirror == NULL && !value_allocate(&t->value)) world_fail(w, "no memory for a mirror");
  return t;
}

static void create(world *w, const step *s) {
  value v;
  iobind_tensor *handle = (iobind_tensor *)w;
  read_type(w, world_word(w, s, 2), &v);
  if (!world_place(w, world_word(w, s, 3), &v.device, &v.memory)) return;
  iobind_status status =
      iobind_tensor_create(v.device, (iobind_memory)v.memory, (iobind_dtype)v.dtype, v.dims, v.rank, &handle, world_error(w));
  if (made(w, status, handle)) keep_tensor(w, s->words[1], handle, &v);
}

static void count_and_free(void *context, void *data) {
  (*(uint64_t *)context)++;
  free(data);
}

static void wrap(world *w, const step *s) {
  value v;
  iobind_tensor *handle = (iobind_tensor *)w;
  size_t bytes = (size_t)world_number(w, s, 4);
  uint64_t *deletions = world_keep(w, sizeof *deletions);
  read_type(w, world_word(w, s, 2), &v);
  if (!world_place(w, world_word(w, s, 3), &v.device, &v.memory) || deletions == NULL) return;
  void *memory = bytes == 0 ? NULL : malloc(bytes);
  iobind_status status = call_tensor_wrap(v.device, (iobind_memory)v.memory, (iobind_dtype)v.dtype, v.dims, v.rank, memory,
                                          bytes, count_and_free, deletions, &handle, world_error(w));
  if (made(w, status, handle)) {
    tensor *t = keep_tensor(w, s->words[1], handle, &v);
    if (t != NULL) t->deletions = deletions;
  } else if (status != IOBIND_OK) {
    if (*deletions != 0) world_fail(w, "the call failed and ran the deleter");
    free(memory);
  }
}

/* A second tensor over the memory of one, as another library would hand it over. */
/* A tensor's memory: its address, or the object that stands for it. The tensor keeps that alive. */
static void *memory_of(const iobind_tensor *handle) {
  iobind_native native = IOBIND_NATIVE_INIT;
  if (iobind_tensor_get_native(handle, &native, NULL) != IOBIND_OK) return iobind_tensor_get_address(handle);
  d3d_object *object = native.handle;
  object->table->Release(object);
  return object;
}

static void alias(world *w, const step *s) {
  value v;
  iobind_tensor *handle = (iobind_tensor *)w;
  tensor *over = world_tensor(w, world_word(w, s, 3));
  read_type(w, world_word(w, s, 2), &v);
  if (over == NULL) return;
  v.device = over->value.device;
  v.memory = over->value.memory;
  size_t bytes = s->count > 4 ? (size_t)world_number(w, s, 4) : value_bytes(&over->value);
  iobind_status status = call_tensor_wrap(v.device, (iobind_memory)v.memory, (iobind_dtype)v.dtype, v.dims, v.rank,
                                          memory_of(over->handle), bytes, NULL, NULL, &handle, world_error(w));
  if (!made(w, status, handle)) return;
  value shared;
  value_share(&shared, &over->value);
  v.mirror = shared.mirror;
  v.offset = shared.offset;
  keep_tensor(w, s->words[1], handle, &v);
}

static void keep_view(world *w, const char *name, iobind_tensor *handle, const tensor *of, value *v, size_t offset) {
  value shared;
  value_share(&shared, &of->value);
  v->device = shared.device;
  v->memory = shared.memory;
  v->mirror = shared.mirror;
  v->offset = shared.offset + offset;
  keep_tensor(w, name, handle, v);
}

static void view(world *w, const step *s) {
  value v;
  iobind_tensor *handle = (iobind_tensor *)w;
  tensor *of = world_tensor(w, world_word(w, s, 2));
  size_t offset = (size_t)world_number(w, s, 3);
  read_type(w, world_word(w, s, 4), &v);
  if (of == NULL) return;
  iobind_status status = iobind_tensor_view(of->handle, offset, (iobind_dtype)v.dtype, v.dims, v.rank, &handle, world_error(w));
  if (made(w, status, handle)) keep_view(w, s->words[1], handle, of, &v, offset);
}

static void slice(world *w, const step *s) {
  iobind_tensor *handle = (iobind_tensor *)w;
  tensor *of = world_tensor(w, world_word(w, s, 2));
  int64_t start = world_number(w, s, 3), count = world_number(w, s, 4);
  if (of == NULL) return;
  iobind_status status = iobind_tensor_slice(of->handle, start, count, &handle, world_error(w));
  if (!made(w, status, handle)) return;
  value v = of->value, before = of->value;
  v.dims[0] = count;
  before.dims[0] = start;
  keep_view(w, s->words[1], handle, of, &v, value_bytes(&before));
}

static void retain(world *w, const step *s) {
  tensor *of = world_tensor(w, world_word(w, s, 2));
  value shared;
  if (of == NULL) return;
  value_share(&shared, &of->value);
  keep_tensor(w, world_word(w, s, 1), iobind_tensor_retain(of->handle), &shared);
}

static void release(world *w, const step *s) {
  for (size_t i = 1; i < s->count; i++) {
    tensor *t = world_tensor(w, s->words[i]);
    if (t != NULL) world_drop_tensor(t);
  }
}

/* ---- content ---- */

static iobind_stream *optional_stream(world *w, const step *s, size_t index) {
  return s->count > index ? world_stream(w, s->words[index]) : NULL;
}

static int set_string(world *w, tensor *t, size_t index, uint32_t number) {
  char text[128];
  value_string(number, text, sizeof text);
  if (!world_settle(w, iobind_tensor_set_string(t->handle, index, text, world_error(w)), w)) return 0;
  memcpy(value_data(&t->value) + index * sizeof number, &number, sizeof number);
  return 1;
}

/* Writes `bytes` of `data`, which live until the row ends, and expects them from now on. */
static void write_bytes(world *w, tensor *t, size_t offset, const unsigned char *data, size_t bytes, iobind_stream *stream) {
  if (!world_settle(w, iobind_tensor_write(t->handle, offset, data, bytes, stream, world_error(w)), w)) return;
  memcpy(value_data(&t->value) + offset, data, bytes);
}

static void fill(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  int64_t seed = world_number(w, s, 2);
  iobind_stream *stream = optional_stream(w, s, 3);
  if (t == NULL) return;
  size_t bytes = value_bytes(&t->value);
  unsigned char *data = world_keep(w, bytes);
  if (data == NULL) return;
  value_pattern(&t->value, seed, data);
  if (t->value.dtype != IOBIND_DTYPE_STRING) {
    write_bytes(w, t, 0, data, bytes, stream);
    return;
  }
  for (size_t i = 0; i < value_count(&t->value); i++) {
    uint32_t number;
    memcpy(&number, data + i * sizeof number, sizeof number);
    if (!set_string(w, t, i, number)) return;
  }
}

static void set(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  const char *at = world_word(w, s, 2);
  if (t == NULL) return;
  unsigned char *data = world_keep(w, value_bytes(&t->value));
  size_t count = value_count(&t->value);
  for (size_t i = 0; data != NULL && i < count; i++) {
    char *end;
    element_set(value_element(&t->value), data, i, strtod(at, &end));
    if (end == at || (*end == ',') != (i + 1 < count)) {
      world_fail(w, "script: not %zu numbers: %s", count, s->words[2]);
      return;
    }
    at = end + 1;
  }
  if (data != NULL) write_bytes(w, t, 0, data, value_bytes(&t->value), NULL);
}

/* Memory for a part; a part that no tensor has must be refused before the memory is touched. */
static unsigned char *keep_part(world *w, size_t bytes) {
  return world_keep(w, bytes < PART_BYTES ? bytes : PART_BYTES);
}

static void write_part(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  size_t offset = (size_t)world_number(w, s, 2), bytes = (size_t)world_number(w, s, 3);
  int64_t seed = world_number(w, s, 4);
  iobind_stream *stream = optional_stream(w, s, 5);
  unsigned char *data = keep_part(w, bytes);
  if (t == NULL || data == NULL) return;
  for (size_t i = 0; i < bytes && i < PART_BYTES; i++) data[i] = (unsigned char)(((uint64_t)seed * 7 + i) % 100 + 1);
  write_bytes(w, t, offset, data, bytes, stream);
}

/* Writes into host memory behind iobind's back, as a caller does who has wrapped it. */
static void poke(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  int64_t seed = world_number(w, s, 2);
  if (t == NULL || w->failure[0] != '\0') return;
  value_pattern(&t->value, seed, value_data(&t->value));
  memcpy(iobind_tensor_get_address(t->handle), value_data(&t->value), value_bytes(&t->value));
}

static void compare(world *w, const char *what, const unsigned char *expected, const unsigned char *got, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (expected[i] != got[i]) {
      world_fail(w, "%s: byte %zu of %zu: expected %02x, got %02x", what, i, bytes, expected[i], got[i]);
      return;
    }
  }
}

static void read_part(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  size_t offset = (size_t)world_number(w, s, 2), bytes = (size_t)world_number(w, s, 3);
  iobind_stream *stream = optional_stream(w, s, 4);
  unsigned char *data = keep_part(w, bytes);
  if (t == NULL || data == NULL) return;
  if (!world_settle(w, iobind_tensor_read(t->handle, offset, data, bytes, stream, world_error(w)), w)) return;
  if (stream != NULL && !world_must(w, iobind_stream_synchronize(stream, world_error(w)))) return;
  compare(w, t->name, value_data(&t->value) + offset, data, bytes);
}

static void check_strings(world *w, tensor *t) {
  for (size_t i = 0; i < value_count(&t->value); i++) {
    char expected[128], got[128] = "";
    size_t needed = SIZE_MAX;
    uint32_t number;
    memcpy(&number, value_data(&t->value) + i * sizeof number, sizeof number);
    value_string(number, expected, sizeof expected);
    if (!world_must(w, iobind_tensor_get_string(t->handle, i, got, sizeof got - 1, &needed, world_error(w)))) return;
    if (needed != strlen(expected) || memcmp(expected, got, needed) != 0) {
      world_fail(w, "%s: element %zu: expected '%s', got '%s' of %zu bytes", t->name, i, expected, got, needed);
      return;
    }
  }
}

static int check_info(world *w, tensor *t, iobind_tensor_info *info) {
  char expected[160], got[160];
  value actual = {.rank = 0};
  if (!world_must(w, iobind_tensor_get_info(t->handle, info, world_error(w)))) return 0;
  actual.dtype = info->dtype;
  actual.rank = info->rank;
  if (info->rank <= VALUE_MAX_RANK) memcpy(actual.dims, info->dims, info->rank * sizeof *info->dims);
  value_print_type(&t->value, expected, sizeof expected);
  value_print_type(&actual, got, sizeof got);
  if (strcmp(expected, got) != 0) world_fail(w, "%s: expected %s, got %s", t->name, expected, got);
  size_t bytes = t->value.dtype == IOBIND_DTYPE_STRING ? 0 : value_bytes(&t->value);
  if (info->bytes != bytes) world_fail(w, "%s: expected %zu bytes, got %zu", t->name, bytes, info->bytes);
  if (info->device != t->value.device || info->memory != t->value.memory) {
    iobind_device_info is = IOBIND_DEVICE_INFO_INIT, should = IOBIND_DEVICE_INFO_INIT;
    if (iobind_device_get_info(info->device, &is, NULL) == IOBIND_OK &&
        iobind_device_get_info(t->value.device, &should, NULL) == IOBIND_OK) {
      world_fail(w, "%s: expected in memory %d of %s, is in %d of %s", t->name, t->value.memory, should.spec, info->memory,
                 is.spec);
    }
  }
  return w->failure[0] == '\0';
}

/* The host may look where it can read, and must be refused elsewhere. */
static void check_access(world *w, tensor *t, const iobind_tensor_info *info) {
  iobind_device_info device = IOBIND_DEVICE_INFO_INIT;
  if (!world_must(w, iobind_device_get_info(t->value.device, &device, world_error(w)))) return;
  int has_bytes = t->value.dtype != IOBIND_DTYPE_STRING;
  int readable =
      has_bytes && (t->value.memory == IOBIND_MEMORY_HOST_ACCESSIBLE || (device.flags & IOBIND_DEVICE_HOST_MEMORY) != 0);
  if (info->host_readable != readable) world_fail(w, "%s: host_readable is %d", t->name, info->host_readable);
  if (!has_bytes) return;
  void *data = t;
  iobind_status status = iobind_tensor_map(t->handle, (iobind_dtype)t->value.dtype, IOBIND_ACCESS_READ, &data, world_error(w));
  if (!readable) {
    if (status != IOBIND_ERROR_WRONG_DEVICE || data != NULL) world_fail(w, "%s: the host may look into device memory", t->name);
  } else if (world_must(w, status)) {
    if ((data == NULL) != (info->bytes == 0)) world_fail(w, "%s: %zu bytes of data at %p", t->name, info->bytes, data);
    if (data != NULL) compare(w, t->name, value_data(&t->value), data, info->bytes);
  }
}

static void check_content(world *w, tensor *t, size_t bytes) {
  unsigned char *data = malloc(bytes + 1);
  if (data == NULL) {
    world_fail(w, "no memory");
  } else if (world_must(w, iobind_tensor_read(t->handle, 0, data, bytes, NULL, world_error(w)))) {
    compare(w, t->name, value_data(&t->value), data, bytes);
  }
  free(data);
}

static void check(world *w, const step *s) {
  for (size_t i = 1; i < s->count; i++) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    tensor *t = world_tensor(w, s->words[i]);
    if (t == NULL || !check_info(w, t, &info)) return;
    check_access(w, t, &info);
    if (t->value.dtype == IOBIND_DTYPE_STRING) {
      check_strings(w, t);
    } else {
      check_content(w, t, info.bytes);
    }
  }
}

static void data(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  value v;
  void *address = w;
  read_type(w, world_word(w, s, 2), &v);
  if (t == NULL) return;
  iobind_status status = iobind_tensor_map(t->handle, (iobind_dtype)v.dtype, IOBIND_ACCESS_WRITE, &address, world_error(w));
  if (status != IOBIND_OK && address != NULL) world_fail(w, "the call failed and left its out pointer");
  world_settle(w, status, w);
}

static void put_string(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  size_t index = (size_t)world_number(w, s, 2);
  uint32_t number = (uint32_t)world_number(w, s, 3);
  if (t != NULL) set_string(w, t, index, number);
}

static void get_string(world *w, const step *s) {
  tensor *t = world_tensor(w, world_word(w, s, 1));
  size_t index = (size_t)world_number(w, s, 2), needed = 0;
  char byte;
  if (t != NULL) world_settle(w, iobind_tensor_get_string(t->handle, index, &byte, 1, &needed, world_error(w)), w);
}

/* copy A B C D ... [on S]: A into B, C into D. */
static void copy(world *w, const step *s) {
  const iobind_tensor *sources[WORLD_WORDS];
  iobind_tensor *targets[WORLD_WORDS];
  tensor *pairs[WORLD_WORDS][2];
  size_t words = s->count, count = 0;
  iobind_stream *stream = NULL;
  if (words >= 3 && strcmp(s->words[words - 2], "on") == 0) {
    stream = world_stream(w, s->words[words - 1]);
    words -= 2;
  }
  for (size_t i = 1; i + 1 < words; i += 2, count++) {
    pairs[count][0] = world_tensor(w, s->words[i]);
    pairs[count][1] = world_tensor(w, s->words[i + 1]);
    if (pairs[count][0] == NULL || pairs[count][1] == NULL) return;
    sources[count] = pairs[count][0]->handle;
    targets[count] = pairs[count][1]->handle;
  }
  if (!world_settle(w, iobind_tensor_copy(sources, targets, count, stream, world_error(w)), w)) return;
  for (size_t i = 0; i < count; i++) {
    memcpy(value_data(&pairs[i][1]->value), value_data(&pairs[i][0]->value), value_bytes(&pairs[i][0]->value));
  }
}

/* ---- identity and lifetime ---- */

static void compare_addresses(world *w, const step *s, int wanted) {
  tensor *a = world_tensor(w, world_word(w, s, 1)), *b = world_tensor(w, world_word(w, s, 2));
  if (a == NULL || b == NULL) return;
  if ((memory_of(a->handle) == memory_of(b->handle)) != wanted) {
    world_fail(w, "%s and %s %s", a->name, b->name, wanted ? "have different memory" : "share memory");
  }
}

static void same(world *w, const step *s) {
  compare_addresses(w, s, 1);
}

static void differ(world *w, const step *s) {
  compare_addresses(w, s, 0);
}

static void freed(world *w, const step *s) {
  uint64_t wanted = (uint64_t)world_number(w, s, 2);
  for (size_t i = 0; i < w->tensor_count; i++) {
    const tensor *t = &w->tensors[i];
    if (strcmp(t->name, world_word(w, s, 1)) != 0 || t->deletions == NULL) continue;
    if (*t->deletions != wanted) {
      world_fail(w, "%s: the deleter ran %llu times, not %llu", t->name, (unsigned long long)*t->deletions,
                 (unsigned long long)wanted);
    }
    return;
  }
  world_fail(w, "script: '%s' is no wrapped tensor", s->words[1]);
}

static iobind_rows read_rows(world *w, const step *s, size_t index, tensor **t) {
  iobind_rows rows = IOBIND_ROWS_INIT;
  *t = world_tensor(w, world_word(w, s, index));
  rows.tensor = *t == NULL ? NULL : (*t)->handle;
  rows.offset = (size_t)world_number(w, s, index + 1);
  rows.pitch = (size_t)world_number(w, s, index + 2);
  return rows;
}

/* rows T OFFSET PITCH U OFFSET PITCH BYTES ROWS [S]: rows of T into rows of U. */
static void copy_rows(world *w, const step *s) {
  tensor *from, *to;
  const iobind_rows source = read_rows(w, s, 1, &from), target = read_rows(w, s, 4, &to);
  size_t bytes = (size_t)world_number(w, s, 7), rows = (size_t)world_number(w, s, 8);
  iobind_stream *stream = optional_stream(w, s, 9);
  if (w->failure[0] != '\0' || from == NULL || to == NULL) return;
  if (!world_settle(w, iobind_tensor_copy_rows(&source, &target, bytes, rows, stream, world_error(w)), w)) return;
  for (size_t i = 0; i < rows; i++) {
    memcpy(value_data(&to->value) + target.offset + i * target.pitch,
           value_data(&from->value) + source.offset + i * source.pitch, bytes);
  }
}

const keyword tensor_keywords[] = {
    {"create", create},
    {"wrap", wrap},
    {"alias", alias},
    {"view", view},
    {"slice", slice},
    {"retain", retain},
    {"release", release},
    {"fill", fill},
    {"set", set},
    {"write", write_part},
    {"poke", poke},
    {"read", read_part},
    {"check", check},
    {"data", data},
    {"put-string", put_string},
    {"get-string", get_string},
    {"copy", copy},
    {"rows", copy_rows},
    {"same", same},
    {"differ", differ},
    {"freed", freed},
    {NULL, NULL},
};
