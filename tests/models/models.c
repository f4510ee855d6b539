#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "element.h"

const model_kind model_kinds[] = {
    {"identity", "y = x  [dtype=float32 dims=n]", build_identity},
    {"add", "z = x + y, same dims  [dtype=float32 dims=n binary=1]", build_add},
    {"join", "z = texts of x, each with that of y behind it  [dims=n]", build_join},
    {"scale", "y = x * factor  [dtype=float32 dims=n factor=2 binary=1]", build_scale},
    {"outer", "z[rows,columns] = x[rows,1] * y[1,columns]  [dtype=float32 rows=rows columns=columns]", build_outer},
    {"cast", "y = x in another type; length=1: same = length  [from=float32 to=float16 dims=n length=0]", build_cast},
    {"multi", "sum = x + x, product = x * x, same = x  [dtype=float32 dims=n]", build_multi},
    {"pair", "sum = x + y, product = x * y  [dtype=float32 dims=n]", build_pair},
    {"unused", "y = x + x; the input `unused` is read by nothing  [dtype=float32 dims=n]", build_unused},
    {"passthrough", "x itself is an output; y = x + x, x + z or x of strings  [dtype=float32 dims=n z=0]", build_passthrough},
    {"matmul", "z[m,n] = x[m,k] y[k,n]  [dtype=float32 m=m k=k n=n]", build_matmul},
    {"reduce",
     "y = sum of x over an axis; mix=1: y = x + sum; mix=2: y = |x + sum| / relu(x)  [dtype=float32 dims=n,3 axis=0 mix=0]",
     build_reduce},
    {"convolution", "y = x + 1, a convolution with a bias  [dims=1,1,h,w]", build_convolution},
    {"recurrent", "y = x through an LSTM or a GRU of one number  [cell=LSTM steps=steps batch=1]", build_recurrent},
    {"transpose", "y = x with its dims in another order  [dtype=float32 dims=n,m order=1,0]", build_transpose},
    {"concat", "joined = first and second, one after the other  [dtype=float32 dims=past,3 dims2=new,3 axis=0]", build_concat},
    {"lookup", "found[n,columns] = rows `index[n]` of a constant table  [index=int64 rows=16 columns=4 n=n]", build_lookup},
    {"nonzero", "y[rank,count] = where x is not 0  [dtype=float32 dims=n]", build_nonzero},
    {"reshape", "y = x with dims `shape`  [dtype=float32 dims=n rank=2]", build_reshape},
    {"expand", "y = x broadcast to dims `shape`  [dtype=float32 dims=n rank=2]", build_expand},
    {"slice", "y = x[start:end] of the first axis  [dtype=float32 dims=n]", build_slice},
    {"shape", "y = the dims of x  [dtype=float32 dims=n,m]", build_shape},
    {"constant", "y = 1 2 3 ..., without an input  [dtype=float32 dims=2,3]", build_constant},
    {"sequence", "y = a sequence of x and x  [dtype=float32 dims=n]", build_sequence},
    {"mixed", "sum = x + x, list = a sequence of x and x, product = x * x  [dtype=float32 dims=n]", build_mixed},
    {"length", "y = how many tensors the sequence x has  [dtype=float32 dims=n]", build_length},
    {"optional", "y = whether the optional x is there  [dtype=float32 dims=n]", build_optional},
    {"if", "y = condition ? x + x : x * x; x from outside the branches  [dtype=float32 dims=n]", build_if},
    {"decoder",
     "logits, key, value, weights = attention of tokens over past_key and past_value; exact numbers with softmax=0  "
     "[vocab=16 width=8 softmax=1]",
     build_decoder},
    {"grow", "all, all_turned = past and its like on the other axis, with `row` behind them", build_grow},
    {"cache", "next = cache with `row` at row `at`, sum over its rows  [capacity=16 width=8]", build_cache},
    {"masked",
     "next = cache with `row` at the rows `at`; y = the sum of its rows, each times its number in `mask`; dtype is the mask's  "
     "[capacity=16 width=4 dtype=float32]",
     build_masked},
    {"append",
     "next = cache with `row` at `at` of its first axis but one; attention=1: y = row's attention to `valid` of them; "
     "opset=24; capacity=0: it is open; old=1: before = -cache, old=2: inside of a branch; second: the capacity of another cache, which "
     "has the row at `there`, or with joint=1 at `at`  [batch=1 capacity=16 width=4 attention=0 old=0 second=0 joint=0]",
     build_append},
    {"hidden",
     "next = cache with `row` at the first of `positions`, y = row's attention to as many of them as `mask` has ones; the graph does not "
     "show it; opset=24  [batch=1 capacity=16 width=4]",
     build_hidden},
    {"shared",
     "y = attention of x to a key and a value of fixed capacity, by GroupQueryAttention; mask=1: their lengths are "
     "computed from a mask  [batch=1 capacity=16 heads=2 width=16 mask=0 dtype=float32]",
     build_shared},
    {"denoise", "denoised = latents - tanh(latents) * timestep / 4  [dims=1,4,16,16]", build_denoise},
    {"voices",
     "rows with states: next_a = x * [1, 2] - a, next_b = max(b, x), next_count = count + 1, y = next_a + next_b, z = next_b + gain; mix=1: next_b has "
     "other rows in it; limit: a row's run fails if its count, or with by_b=1 a number of b, is not below it; log=1: z = log(next_b)  [rows=rows width=4 mix=0 limit=0 by_b=0 log=0]",
     build_voices},
    {"ragged",
     "logits = attention of each row's token over a cache of its own, which is written at the row's length; exact numbers  [vocab=16 width=8 "
     "capacity=16]",
     build_ragged},
    {"encoder",
     "many states, nearly all with their rows on the second axis: next = x - state, y = x + the last next  [states=98 lead=24 width=194]",
     build_encoder},
    {"transformer",
     "logits, state = tokens behind the state `past`, through layers of attention and networks  [dtype=float32 vocab=32 "
     "width=16 heads=2 layers=2 room=64]",
     build_transformer},
    {"loop", "y = x + trips, one at a time  [dtype=float32 dims=n]", build_loop},
};
const size_t model_kind_count = sizeof model_kinds / sizeof model_kinds[0];

const char *test_model_name(size_t index) {
  return index < model_kind_count ? model_kinds[index].name : NULL;
}

const char *test_model_help(size_t index) {
  return index < model_kind_count ? model_kinds[index].help : NULL;
}

/* ---- the spec ---- */

/* Finds the value of `key`, a word of the spec. *word receives the word's number, 0 being the model's name. */
static const char *find_value(const char *spec, const char *key, size_t *length, unsigned *word) {
  size_t key_length = strlen(key);
  *word = 0;
  for (const char *at = spec; *at != '\0'; (*word)++) {
    size_t end = strcspn(at, " ");
    if (*word != 0 && end > key_length && strncmp(at, key, key_length) == 0 && at[key_length] == '=') {
      *length = end - key_length - 1;
      return at + key_length + 1;
    }
    at += end;
    at += strspn(at, " ");
  }
  return NULL;
}

int test_model_get(const char *spec, const char *key, const char *fallback, char *value) {
  size_t length = strlen(fallback);
  unsigned word;
  const char *found = find_value(spec, key, &length, &word);
  if (found != NULL && length >= TEST_MODEL_TEXT) length = TEST_MODEL_TEXT - 1;
  memcpy(value, found != NULL ? found : fallback, length);
  value[length] = '\0';
  return found != NULL;
}

int test_shape_parse(const char *text, test_shape *shape) {
  memset(shape, 0, sizeof *shape);
  shape->any = strcmp(text, "any") == 0;
  if (shape->any || strcmp(text, "scalar") == 0) return 1;
  while (shape->rank < TEST_MODEL_MAX_RANK) {
    size_t length = strcspn(text, ",");
    if (length == 0 || length >= sizeof shape->names[0]) return 0;
    if (text[0] >= '0' && text[0] <= '9') {
      char *end;
      shape->dims[shape->rank] = strtoll(text, &end, 10);
      if (end != text + length) return 0;
    } else {
      shape->dims[shape->rank] = -1;
      if (text[0] != '?') memcpy(shape->names[shape->rank], text, length);
    }
    shape->rank++;
    if (text[length] == '\0') return 1;
    text += length + 1;
  }
  return 0;
}

/* ---- the builder ---- */

void builder_fail(builder *b, const char *text, const char *what) {
  if (b->error[0] == '\0') snprintf(b->error, sizeof b->error, "%.60s: %.60s '%.60s'", b->spec, text, what);
}

void builder_text(builder *b, const char *key, const char *fallback, char value[TEST_MODEL_TEXT]) {
  size_t length;
  unsigned word;
  if (find_value(b->spec, key, &length, &word) != NULL && word < 64) b->words_read |= UINT64_C(1) << word;
  test_model_get(b->spec, key, fallback, value);
}

int64_t builder_int(builder *b, const char *key, int64_t fallback) {
  char value[TEST_MODEL_TEXT];
  char *end;
  builder_text(b, key, "", value);
  if (value[0] == '\0') return fallback;
  int64_t number = strtoll(value, &end, 10);
  if (*end != '\0') builder_fail(b, "not a whole number", value);
  return number;
}

double builder_number(builder *b, const char *key, double fallback) {
  char value[TEST_MODEL_TEXT];
  char *end;
  builder_text(b, key, "", value);
  if (value[0] == '\0') return fallback;
  double number = strtod(value, &end);
  if (*end != '\0') builder_fail(b, "not a number", value);
  return number;
}

int32_t builder_dtype(builder *b, const char *key, int32_t fallback) {
  char value[TEST_MODEL_TEXT];
  builder_text(b, key, "", value);
  int32_t dtype = value[0] == '\0' ? fallback : element_find(value);
  if (dtype == ONNX_UNDEFINED) builder_fail(b, "no element type", value);
  return dtype;
}

void builder_shape(builder *b, const char *key, const char *fallback, test_shape *shape) {
  char value[TEST_MODEL_TEXT];
  builder_text(b, key, fallback, value);
  if (!test_shape_parse(value, shape)) builder_fail(b, "no dims", value);
}

static void fill_type(onnx_type *type, const char *symbols[TEST_MODEL_MAX_RANK], int32_t dtype, const test_shape *shape) {
  memset(type, 0, sizeof *type);
  for (size_t i = 0; i < shape->rank; i++) symbols[i] = shape->names[i];
  type->dtype = dtype;
  type->no_shape = shape->any;
  type->dims = shape->dims;
  type->symbols = symbols;
  type->rank = shape->rank;
}

void builder_input(builder *b, const char *name, int32_t dtype, const test_shape *shape) {
  const char *symbols[TEST_MODEL_MAX_RANK];
  onnx_type type;
  fill_type(&type, symbols, dtype, shape);
  onnx_input(&b->writer, name, &type);
}

void builder_output(builder *b, const char *name, int32_t dtype, const test_shape *shape) {
  const char *symbols[TEST_MODEL_MAX_RANK];
  onnx_type type;
  fill_type(&type, symbols, dtype, shape);
  onnx_output(&b->writer, name, &type);
}

static void add_names(onnx_writer *writer, const char *names, onnx_status (*add)(onnx_writer *, const char *)) {
  char name[64];
  while (*names != '\0') {
    size_t length = strcspn(names, " ");
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    add(writer, strcmp(name, "_") == 0 ? "" : name);
    names += length;
    names += strspn(names, " ");
  }
}

void builder_node_begin(builder *b, const char *op_type, const char *inputs, const char *outputs) {
  onnx_node_begin(&b->writer, op_type, "", "");
  add_names(&b->writer, inputs, onnx_node_input);
  add_names(&b->writer, outputs, onnx_node_output);
}

void builder_node_end(builder *b) {
  onnx_node_end(&b->writer);
}

void builder_node(builder *b, const char *op_type, const char *inputs, const char *outputs) {
  builder_node_begin(b, op_type, inputs, outputs);
  builder_node_end(b);
}

void builder_int64s(builder *b, const char *name, const int64_t *values, size_t count) {
  int64_t dims[1] = {(int64_t)count};
  onnx_tensor tensor = {.name = name, .dtype = ONNX_INT64, .dims = dims, .rank = 1, .data = values, .bytes = count * 8};
  onnx_initializer(&b->writer, &tensor);
}

void builder_scalar(builder *b, const char *name, int32_t dtype, double value) {
  unsigned char element[16] = {0};
  if (!element_is_number(dtype) || element_bits(dtype) < 8) {
    builder_fail(b, "not an element type that this model can compute with", element_name(dtype));
  }
  element_set(dtype, element, 0, value);
  onnx_tensor tensor = {.name = name, .dtype = dtype, .data = element, .bytes = element_bits(dtype) / 8};
  onnx_initializer(&b->writer, &tensor);
}

/* The operator set and the file version in which an operator or element type was introduced; 21 and 10 cover all older ones. */
static void choose_versions(builder *b, const model_kind *kind) {
  static const char *const keys[] = {"dtype", "from", "to"};
  b->opset = kind->build == build_append || kind->build == build_hidden ? 24 : 21;
  b->ir_version = 10;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    char value[TEST_MODEL_TEXT];
    test_model_get(b->spec, keys[i], "", value);
    int32_t dtype = element_find(value);
    int64_t opset = 21;
    if (dtype == ONNX_FLOAT4E2M1) opset = 23;
    if (dtype == ONNX_FLOAT8E8M0) opset = 24;
    if (dtype == ONNX_UINT2 || dtype == ONNX_INT2) opset = 25;
    if (opset > b->opset) b->opset = opset;
  }
  if (b->opset > 21) b->ir_version = b->opset - 12;
  b->opset = builder_int(b, "opset", b->opset);
  b->ir_version = builder_int(b, "ir", b->ir_version);
}

static void check_words(builder *b) {
  unsigned word = 0;
  for (const char *at = b->spec; *at != '\0'; word++) {
    char text[TEST_MODEL_TEXT];
    size_t length = strcspn(at, " ");
    snprintf(text, sizeof text, "%.*s", (int)length, at);
    if (word != 0 && (word >= 64 || !(b->words_read >> word & 1))) builder_fail(b, "this model has no such parameter", text);
    at += length;
    at += strspn(at, " ");
  }
}

static void build_model(builder *b, const model_kind *kind) {
  char producer[TEST_MODEL_TEXT], domain[TEST_MODEL_TEXT], description[TEST_MODEL_TEXT], labels[TEST_MODEL_TEXT];
  choose_versions(b, kind);
  builder_text(b, "producer", "iobind-tests", producer);
  builder_text(b, "domain", "", domain);
  builder_text(b, "description", "", description);
  builder_text(b, "labels", "", labels);
  onnx_model model = {.ir_version = b->ir_version,
                      .model_version = builder_int(b, "version", 0),
                      .producer = producer,
                      .domain = domain,
                      .description = description};
  onnx_model_begin(&b->writer, &model);
  onnx_opset(&b->writer, "", b->opset);
  onnx_opset(&b->writer, "com.microsoft", 1);
  onnx_graph_begin(&b->writer, kind->name);
  kind->build(b);
  onnx_graph_end(&b->writer);
  if (labels[0] != '\0') {
    onnx_metadata(&b->writer, "labels", labels);
    onnx_metadata(&b->writer, "author", "");
  }
  onnx_model_end(&b->writer);
}

int test_model_create(const char *spec, void **bytes, size_t *size, char *error) {
  builder *b = calloc(1, sizeof *b);
  const model_kind *kind = NULL;
  size_t length = strcspn(spec, " ");
  *bytes = NULL;
  *size = 0;
  if (error != NULL) error[0] = '\0';
  if (b == NULL) return 0;
  b->spec = spec;
  for (size_t i = 0; i < model_kind_count; i++) {
    if (strlen(model_kinds[i].name) == length && strncmp(spec, model_kinds[i].name, length) == 0) kind = &model_kinds[i];
  }
  if (kind != NULL) {
    build_model(b, kind);
    check_words(b);
  } else {
    builder_fail(b, "no such model", spec);
  }
  const void *written = NULL;
  onnx_status status = b->error[0] == '\0' ? onnx_writer_finish(&b->writer, &written, size) : ONNX_OK;
  if (status != ONNX_OK) builder_fail(b, "the model could not be written", onnx_status_text(status));
  if (written != NULL) *bytes = malloc(*size);
  if (*bytes != NULL) memcpy(*bytes, written, *size);
  if (error != NULL) snprintf(error, TEST_MODEL_TEXT, "%s", b->error);
  onnx_writer_release(&b->writer);
  free(b);
  return *bytes != NULL;
}
