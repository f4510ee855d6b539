/* The kinds of states, found in graphs: one small model for each pattern, and for what looks like one. */
#define _POSIX_C_SOURCE 200809L
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iobind/interop.h"
#include "model.h"
#include "onnx.h"
#include "stage.h"

/* ---- models by lines of text ---- */

/* A line is `in NAME TYPE DIMS`, `out NAME TYPE DIMS`, `ints NAME N,N` (an initializer), `chain FROM TO N` (so many nodes), or a node: `OP INPUTS OUTPUTS [ATTRIBUTE=VALUE]`, with
 * `_` for an omitted one; a VALUE is a number, [N,N] or a word. `if CONDITION OUTPUT TYPE DIMS OP INPUTS` has the node in both branches. */
enum { LINES = 14, WORDS = 8, FEW = 8 };

typedef struct line {
  char text[160];
  char *words[WORDS];
  size_t count;
} line;

static line split(const char *text) {
  line made = {.count = 0};
  snprintf(made.text, sizeof made.text, "%s", text);
  return made;
}

static void cut(line *of) {
  char *rest = of->text;
  for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
    assert_true(of->count < WORDS);
    of->words[of->count++] = word;
  }
}

static size_t numbers(const char *text, int64_t out[FEW]) {
  size_t count = 0;
  for (char *end; *text != '\0' && *text != ']'; text = *end == ',' ? end + 1 : end) {
    assert_true(count < FEW);
    out[count++] = strtoll(text, &end, 10);
  }
  return count;
}

static int32_t dtype_of(const char *name) {
  return strcmp(name, "float16") == 0 ? ONNX_FLOAT16
         : strcmp(name, "int64") == 0 ? ONNX_INT64
         : strcmp(name, "int32") == 0 ? ONNX_INT32
         : strcmp(name, "bool") == 0  ? ONNX_BOOL
                                      : ONNX_FLOAT32;
}

static void write_value(onnx_writer *writer, const line *of) {
  test_shape shape;
  const char *symbols[TEST_MODEL_MAX_RANK];
  assert_int_equal(of->count, 4);
  assert_true(test_shape_parse(of->words[3], &shape));
  for (size_t i = 0; i < shape.rank; i++) symbols[i] = shape.names[i];
  const onnx_type type = {
      .dtype = dtype_of(of->words[2]), .no_shape = shape.any, .dims = shape.dims, .symbols = symbols, .rank = shape.rank};
  if (strcmp(of->words[0], "in") == 0) {
    onnx_input(writer, of->words[1], &type);
  } else {
    onnx_output(writer, of->words[1], &type);
  }
}

static void write_attribute(onnx_writer *writer, char *word) {
  int64_t values[FEW];
  char *value = strchr(word, '=');
  *value++ = '\0';
  if (strcmp(word, "value") == 0) { /* a Constant's */
    int64_t dim = (int64_t)numbers(value + 1, values);
    const onnx_tensor tensor = {.dtype = ONNX_INT64, .dims = &dim, .rank = 1, .data = values, .bytes = (size_t)dim * 8};
    onnx_attribute_tensor(writer, word, &tensor);
  } else if (*value == '[') {
    size_t count = numbers(value + 1, values);
    onnx_attribute_ints(writer, word, values, count);
  } else if (*value == '-' || (*value >= '0' && *value <= '9')) {
    onnx_attribute_int(writer, word, strtoll(value, NULL, 10));
  } else {
    onnx_attribute_string(writer, word, value, strlen(value));
  }
}

static void write_names(onnx_writer *writer, char *list, onnx_status (*add)(onnx_writer *, const char *)) {
  for (char *name; (name = strtok_r(list, ",", &list)) != NULL;) add(writer, strcmp(name, "_") == 0 ? "" : name);
}

static void write_chain(onnx_writer *writer, const char *from, const char *to, long count) {
  char name[2][64];
  snprintf(name[1], sizeof name[1], "%s", from); /* what the first node reads */
  for (long i = 0; i < count; i++) {
    if (i + 1 == count) {
      snprintf(name[i % 2], sizeof name[0], "%s", to);
    } else {
      snprintf(name[i % 2], sizeof name[0], "%.16s_%ld", to, i);
    }
    onnx_node_begin(writer, "Tanh", "", "");
    onnx_node_input(writer, name[1 - i % 2]);
    onnx_node_output(writer, name[i % 2]);
    onnx_node_end(writer);
  }
}

static void write_node(onnx_writer *writer, line *of, size_t first) {
  bool is_contrib = strcmp(of->words[first], "GroupQueryAttention") == 0 || strcmp(of->words[first], "QuickGelu") == 0;
  onnx_node_begin(writer, of->words[first], is_contrib ? "com.microsoft" : "", "");
  write_names(writer, of->words[first + 1], onnx_node_input);
  write_names(writer, of->words[first + 2], onnx_node_output);
  for (size_t i = first + 3; i < of->count; i++) write_attribute(writer, of->words[i]);
  onnx_node_end(writer);
}

static void write_branch(onnx_writer *writer, const line *of, const char *branch) {
  char text[160];
  snprintf(text, sizeof text, "%s %s %s_%s", of->words[5], of->words[6], of->words[2], branch);
  line node = split(text);
  cut(&node);
  snprintf(text, sizeof text, "out %s_%s %s %s", of->words[2], branch, of->words[3], of->words[4]);
  line value = split(text);
  cut(&value);
  onnx_attribute_graph_begin(writer, branch);
  onnx_graph_begin(writer, branch);
  write_node(writer, &node, 0);
  write_value(writer, &value);
  onnx_graph_end(writer);
  onnx_attribute_end(writer);
}

static void write_if(onnx_writer *writer, const line *of) {
  assert_int_equal(of->count, 7);
  onnx_node_begin(writer, "If", "", "");
  onnx_node_input(writer, of->words[1]);
  onnx_node_output(writer, of->words[2]);
  write_branch(writer, of, "then_branch");
  write_branch(writer, of, "else_branch");
  onnx_node_end(writer);
}

static void write_line(onnx_writer *writer, const char *text) {
  line of = split(text);
  cut(&of);
  if (strcmp(of.words[0], "in") == 0 || strcmp(of.words[0], "out") == 0) {
    write_value(writer, &of);
  } else if (strcmp(of.words[0], "ints") == 0) {
    int64_t values[FEW];
    int64_t dim = (int64_t)numbers(of.words[2], values);
    const onnx_tensor tensor = {
        .name = of.words[1], .dtype = ONNX_INT64, .dims = &dim, .rank = 1, .data = values, .bytes = (size_t)dim * 8};
    onnx_initializer(writer, &tensor);
  } else if (strcmp(of.words[0], "chain") == 0) {
    write_chain(writer, of.words[1], of.words[2], strtol(of.words[3], NULL, 10));
  } else if (strcmp(of.words[0], "if") == 0) {
    write_if(writer, &of);
  } else {
    write_node(writer, &of, 0);
  }
}

static iobind_session *load(const char *const lines[LINES], int64_t opset, uint32_t flags, const char *path) {
  onnx_writer writer = ONNX_WRITER_INIT;
  const onnx_model model = {.ir_version = opset > 21 ? opset - 12 : 8};
  const void *bytes;
  size_t size;
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = flags;
  options.intra_op_threads = 1;
  onnx_model_begin(&writer, &model);
  onnx_opset(&writer, "", opset);
  onnx_opset(&writer, "com.microsoft", 1);
  onnx_graph_begin(&writer, "states");
  for (size_t i = 0; i < LINES && lines[i] != NULL; i++) write_line(&writer, lines[i]);
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  if (path != NULL) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    expect_ok(iobind_session_create(runtime, path, &options, &session, &fault));
  } else {
    expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &session, &fault));
  }
  onnx_writer_release(&writer);
  return session;
}

/* ---- each pattern ---- */

typedef struct example {
  const char *name;
  const char *lines[LINES];
  int64_t opset;  /* 0: 21 */
  const char *to; /* the input; NULL: `past` */
  iobind_state_kind kind;
  size_t axis;
  const char *words; /* of the message of a rewind */
} example;

#define NONE SIZE_MAX
#define GROWS "in past float 2,p,3", "in new float 2,n,3", "out present float 2,t,3"

static const example examples[] = {
    {"appended", {GROWS, "Concat past,new present axis=1"}, 0, NULL, IOBIND_STATE_GROWING, 1, "not bound"},
    {"counted from the end", {GROWS, "Concat past,new present axis=-2"}, 0, NULL, IOBIND_STATE_GROWING, 1, "not bound"},
    {"several things", {GROWS, "Concat past,new,new present axis=1"}, 0, NULL, IOBIND_STATE_GROWING, 1, "not bound"},
    {"of another input", {GROWS, "Concat past,new present axis=1"}, 0, "new", IOBIND_STATE_UNKNOWN, NONE, "does not show"},
    {"in a large graph",
     {GROWS, "out bent float 2,n,3", "Concat past,new present axis=1", "chain new bent 900"},
     0,
     NULL,
     IOBIND_STATE_GROWING,
     1,
     "not bound"},
    {"nothing else",
     {GROWS, "Add new,new sum", "Concat past present axis=1"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"passed on",
     {GROWS, "Identity past same", "Cast same half to=10", "Cast new less to=10", "Concat half,less all axis=1",
      "Cast all present to=1"},
     0,
     NULL,
     IOBIND_STATE_GROWING,
     1,
     "not bound"},
    {"squeezed",
     {"in past float 1,2,p,3", "in new float 2,n,3", "out present float 1,2,t,3", "ints first 0", "Squeeze past,first inner",
      "Concat inner,new outer axis=1", "Unsqueeze outer,first present"},
     0,
     NULL,
     IOBIND_STATE_GROWING,
     2,
     "not bound"},
    {"squeezed from the end",
     {"in past float p,3,1", "in new float n,3", "out present float t,3,1", "ints last -1", "Squeeze past,last inner",
      "Concat inner,new outer axis=0", "Unsqueeze outer,last present"},
     0,
     NULL,
     IOBIND_STATE_GROWING,
     0,
     "not bound"},
    {"squeezed by an attribute",
     {"in past float 1,2,p,3", "in new float 2,n,3", "out present float 1,2,t,3", "Squeeze past inner axes=[0]",
      "Concat inner,new outer axis=1", "Unsqueeze outer present axes=[0]"},
     11,
     NULL,
     IOBIND_STATE_GROWING,
     2,
     "not bound"},
    {"squeezed by a constant node",
     {"in past float 1,2,p,3", "in new float 2,n,3", "out present float 1,2,t,3", "Constant _ first value=[0]",
      "Squeeze past,first inner", "Concat inner,new outer axis=1", "Unsqueeze outer,first present"},
     0,
     NULL,
     IOBIND_STATE_GROWING,
     2,
     "not bound"},
    {"squeezed by an input",
     {"in past float 1,2,p,3", "in new float 2,n,3", "in axes int64 1", "out present float 1,2,t,3", "Squeeze past,axes inner",
      "Concat inner,new outer axis=1", "Unsqueeze outer,axes present"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"with its axes exchanged",
     {"in past float 1,p,3", "in new float n,3", "out present float ?,?,3", "ints first 0", "ints second 1",
      "Squeeze past,first inner", "Concat inner,new outer axis=0", "Unsqueeze outer,second present"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"appended with other dims",
     {"in past float 2,p,3", "in new float n,3", "out present float ?,?,3", "ints flat -1,3", "ints deep 2,-1,3",
      "Reshape past,flat inner", "Concat inner,new outer axis=0", "Reshape outer,deep present"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"of any rank",
     {"in past float any", "in new float 2,n,3", "out present float any", "Concat past,new present axis=1"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"put before", {GROWS, "Concat new,past present axis=1"}, 0, NULL, IOBIND_STATE_UNKNOWN, NONE, "does not show"},
    {"doubled",
     {GROWS, "Identity past same", "Add new,new sum", "Concat past,same present axis=1"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"changed",
     {GROWS, "Tanh past bent", "Concat bent,new present axis=1"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"added",
     {"in past float 3", "in new float 3", "out present float 3", "Add past,new present"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"the latest rows",
     {GROWS, "ints from -4", "ints to 9", "ints on 1", "Concat past,new all axis=1", "Slice all,from,to,on present"},
     0,
     NULL,
     IOBIND_STATE_WINDOW,
     1,
     "has dropped earlier rows"},
    {"but the first row",
     {GROWS, "ints from 1", "ints to 9", "ints on -2", "Slice past,from,to,on rest", "Concat rest,new present axis=1"},
     0,
     NULL,
     IOBIND_STATE_WINDOW,
     1,
     "has dropped earlier rows"},
    {"sliced on another axis",
     {GROWS, "ints from 0", "ints to 1", "ints on 2", "Concat past,new all axis=1", "Slice all,from,to,on present"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"attention of ONNX",
     {"in q float 1,2,n,4", "in past float 1,2,p,4", "in past_value float 1,2,p,4", "out y float 1,2,n,4",
      "out present float 1,2,t,4", "out present_value float 1,2,t,4",
      "Attention q,q,q,_,past,past_value y,present,present_value"},
     24,
     NULL,
     IOBIND_STATE_GROWING,
     2,
     "not bound"},
    {"attention of groups",
     {"in q float 1,n,8", "in past float 1,2,p,4", "in past_value float 1,2,p,4", "in seqlens_k int32 1", "in total int32 1",
      "out y float 1,n,8", "out present float 1,2,?,4", "out present_value float 1,2,?,4",
      "GroupQueryAttention q,q,q,past,past_value,seqlens_k,total y,present,present_value num_heads=2 kv_num_heads=2"},
     0,
     NULL,
     IOBIND_STATE_CAPACITY,
     2,
     "its inputs: 'seqlens_k', 'total'"},
    {"lengths from a mask",
     {"in q float 1,n,8", "in past float 1,2,p,4", "in past_value float 1,2,p,4", "in mask int64 1", "in total int32 1",
      "out y float 1,n,8", "out present float 1,2,?,4", "out present_value float 1,2,?,4", "Cast mask seqlens to=6",
      "GroupQueryAttention q,q,q,past,past_value,seqlens,total y,present,present_value num_heads=2 kv_num_heads=2"},
     0,
     NULL,
     IOBIND_STATE_CAPACITY,
     2,
     "its inputs: 'mask', 'total'"},
    {"scattered",
     {"in past float 1,2,8,4", "in new float 1,2,n,4", "in write_indices int64 1", "out present float 1,2,8,4",
      "TensorScatter past,new,write_indices present"},
     24,
     NULL,
     IOBIND_STATE_CAPACITY,
     2,
     "its inputs: 'write_indices'"},
    {"scattered and attended",
     {"in past float 1,2,8,4", "in new float 1,2,n,4", "in at int64 1", "in valid int64 1", "out present float 1,2,8,4",
      "out y float 1,2,n,4", "TensorScatter past,new,at present", "Attention new,present,present,_,_,_,valid y"},
     24,
     NULL,
     IOBIND_STATE_CAPACITY,
     2,
     "its inputs: 'at', 'valid'"},
    {"scattered in a ring",
     {"in past float 1,2,8,4", "in new float 1,2,n,4", "in at int64 1", "out present float 1,2,8,4",
      "TensorScatter past,new,at present mode=circular axis=2"},
     24,
     NULL,
     IOBIND_STATE_WINDOW,
     2,
     "has dropped earlier rows"},
    {"gru",
     {"in x float s,1,2", "in w float 1,9,2", "in r float 1,9,3", "in past float 1,1,3", "out present float 1,1,3",
      "GRU x,w,r,_,_,past _,present hidden_size=3"},
     0,
     NULL,
     IOBIND_STATE_RECURRENT,
     NONE,
     "is recurrent"},
    {"lstm, hidden",
     {"in x float s,1,2", "in w float 1,12,2", "in r float 1,12,3", "in past float 1,1,3", "in cell float 1,1,3",
      "out present float 1,1,3", "out next_cell float 1,1,3", "LSTM x,w,r,_,_,past,cell _,present,next_cell hidden_size=3"},
     0,
     NULL,
     IOBIND_STATE_RECURRENT,
     NONE,
     "is recurrent"},
    {"lstm, cell, by other dims",
     {"in x float s,1,2", "in w float 1,12,2", "in r float 1,12,3", "in hidden float 1,1,3", "in past float 1,3",
      "out present float 1,3", "ints deep 1,1,3", "ints flat 1,3", "Reshape past,deep cell",
      "LSTM x,w,r,_,_,hidden,cell _,_,made hidden_size=3", "Reshape made,flat present"},
     0,
     NULL,
     IOBIND_STATE_RECURRENT,
     NONE,
     "is recurrent"},
    {"lstm, exchanged",
     {"in x float s,1,2", "in w float 1,12,2", "in r float 1,12,3", "in past float 1,1,3", "in hidden float 1,1,3",
      "out present float 1,1,3", "LSTM x,w,r,_,_,hidden,past _,present hidden_size=3"},
     0,
     NULL,
     IOBIND_STATE_UNKNOWN,
     NONE,
     "does not show"},
    {"rnn",
     {"in x float s,1,2", "in w float 1,3,2", "in r float 1,3,3", "in past float 1,1,3", "out present float 1,1,3",
      "RNN x,w,r,_,_,past _,present hidden_size=3"},
     0,
     NULL,
     IOBIND_STATE_RECURRENT,
     NONE,
     "is recurrent"},
};

static iobind_state_kind_info kind_of(iobind_session *session, size_t output, size_t input) {
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  info.axis = 77;
  expect_ok(iobind_session_get_state_kind(session, output, input, &info, &fault));
  return info;
}

static void expect_refused(iobind_session *session, size_t output, size_t input, iobind_status status, const char *words) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, output, input, IOBIND_CARRY_MOVE, &fault));
  expect(status, iobind_binding_rewind_state(binding, 0, &fault));
  expect_words(words);
  iobind_binding_destroy(binding);
}

static void check_example(const example *of) {
  size_t output;
  size_t input;
  iobind_session *session = load(of->lines, of->opset == 0 ? 21 : of->opset, IOBIND_SESSION_IDENTIFY, NULL);
  expect_ok(iobind_session_find_output(session, "present", &output, &fault));
  expect_ok(iobind_session_find_input(session, of->to == NULL ? "past" : of->to, &input, &fault));
  const iobind_state_kind_info info = kind_of(session, output, input);
  if (info.kind != (int32_t)of->kind || info.axis != of->axis) {
    fail_msg("%s: kind %d, axis %zu", of->name, (int)info.kind, info.axis);
  }
  bool is_growing = of->kind == IOBIND_STATE_GROWING;
  expect_refused(session, output, input, is_growing ? IOBIND_ERROR_INVALID_STATE : IOBIND_ERROR_NOT_SUPPORTED, of->words);
  iobind_session_destroy(session);
}

static void of_examples(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) check_example(&examples[i]);
}

/* What it is by the models that other tests use. */
static void of_test_models(void **state) {
  (void)state;
  static const struct {
    const char *model;
    size_t output, input;
    iobind_state_kind kind;
  } rows[] = {{"concat axis=1 dims=2,past dims2=2,new", 0, 0, IOBIND_STATE_GROWING},
              {"decoder", 1, 1, IOBIND_STATE_GROWING},
              {"decoder", 2, 2, IOBIND_STATE_GROWING},
              {"decoder", 1, 2, IOBIND_STATE_UNKNOWN},
              {"cache", 0, 0, IOBIND_STATE_UNKNOWN},
              {"if", 0, 1, IOBIND_STATE_UNKNOWN},
              {"loop", 0, 1, IOBIND_STATE_UNKNOWN},
              {"scale", 0, 0, IOBIND_STATE_UNKNOWN}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    iobind_session *session;
    options.flags = IOBIND_SESSION_IDENTIFY;
    expect_ok(test_session_with(runtime, rows[i].model, &options, &session, &fault));
    assert_int_equal(kind_of(session, rows[i].output, rows[i].input).kind, rows[i].kind);
    iobind_session_destroy(session);
  }
}

/* ---- what else takes a length of the cache ---- */

/* Of a cache of 3 rows, to which 2 are added. */
enum { UNTOUCHED = 77, BEFORE = 3, LAST = 4, AFTER = 5, NEW = 2 };

typedef struct reader {
  const char *name;
  const char *lines[LINES];
  int64_t valid;     /* what is written into the input `valid`; 0: the lengths are refused, */
  const char *words; /* with these */
} reader;

#define SCATTERS                                                                                           \
  "in past float 1,2,8,4", "in new float 1,2,n,4", "in at int64 1", "in valid int64 1", "out y float any", \
      "out present float 1,2,8,4", "TensorScatter past,new,at present"
#define GROUPED                                                                                                      \
  "in new float 1,n,8", "in past float 1,2,8,4", "in past_value float 1,2,8,4", "in at int32 1", "in total int32 1", \
      "in valid int32 1", "out y float 1,n,8", "out z float 1,n,8", "out present float 1,2,8,4",                     \
      "GroupQueryAttention new,new,new,past,past_value,at,total y,present,present_value num_heads=2 kv_num_heads=2"

static const reader readers[] = {
    {"as it is", {SCATTERS, "Attention new,present,present,_,_,_,valid y"}, AFTER, NULL},
    {"cast",
     {SCATTERS, "Cast present half to=10", "Cast half full to=1", "Attention new,full,full,_,_,_,valid y"},
     AFTER,
     NULL},
    {"the values alone",
     {SCATTERS, "in keys float 1,2,8,4", "Identity present same", "Attention new,keys,same,_,_,_,valid y"},
     AFTER,
     NULL},
    {"turned",
     {SCATTERS, "Transpose present turned perm=[0,2,1,3]", "Transpose turned back perm=[0,2,1,3]",
      "Attention new,back,back,_,_,_,valid y"},
     AFTER,
     NULL},
    {"with other dims",
     {SCATTERS, "ints flat 1,2,32", "ints deep 1,2,8,4", "Reshape present,flat less", "Reshape less,deep same",
      "Attention new,same,same,_,_,_,valid y"},
     AFTER,
     NULL},
    {"for more heads",
     {SCATTERS, "ints third 2", "ints wide 1,2,1,8,4", "ints deep 1,2,8,4", "Unsqueeze present,third one",
      "Expand one,wide two", "Reshape two,deep same", "Attention new,same,same,_,_,_,valid y"},
     AFTER,
     NULL},
    {"the first rows",
     {SCATTERS, "ints from 0", "ints to 6", "ints on 2", "ints by 1", "Slice present,from,to,on,by same",
      "Attention new,same,same,_,_,_,valid y"},
     AFTER,
     NULL},
    {"the last rows",
     {SCATTERS, "ints from 2", "ints to 8", "ints on 2", "Slice present,from,to,on same",
      "Attention new,same,same,_,_,_,valid y"},
     0,
     "reads the cache through other nodes"},
    {"each second row",
     {SCATTERS, "ints from 0", "ints to 8", "ints on 2", "ints by 2", "Slice present,from,to,on,by same",
      "Attention new,same,same,_,_,_,valid y"},
     0,
     "reads the cache through other nodes"},
    {"changed",
     {SCATTERS, "Neg present bent", "Attention new,bent,bent,_,_,_,valid y"},
     0,
     "reads the cache through other nodes"},
    {"before the rows are written",
     {SCATTERS, "Attention new,past,past,_,_,_,valid y"},
     0,
     "reads the cache through other nodes"},
    {"what only has its dims",
     {SCATTERS, "Shape present dims", "ConstantOfShape dims zeros", "Attention new,zeros,zeros,_,_,_,valid y"},
     UNTOUCHED,
     NULL},
    {"another cache",
     {SCATTERS, "in other float 1,2,8,4", "ints rows 2", "ReduceMean present,rows mean", "TensorScatter other,mean,at others",
      "Attention new,others,others,_,_,_,valid y"},
     UNTOUCHED,
     NULL},
    {"without a length", {SCATTERS, "Neg present bent", "Attention new,bent,bent y"}, UNTOUCHED, NULL},
    {"inside of a branch",
     {SCATTERS, "in is bool _", "if is y float any Attention new,present,present,_,_,_,valid"},
     0,
     "graphs of control flow read the cache"},
    {"inside of a branch, but nothing attends", {SCATTERS, "in is bool _", "if is y float any Neg present"}, UNTOUCHED, NULL},
    {"an operator that is not ONNX's", {SCATTERS, "QuickGelu present y"}, 0, "an operator of another domain than ONNX's"},
    {"the same, before the rows are written", {SCATTERS, "QuickGelu past y"}, 0, "an operator of another domain than ONNX's"},
    {"shared by two layers",
     {GROUPED, "GroupQueryAttention new,new,new,present,present_value,valid,total z num_heads=2 kv_num_heads=2"},
     LAST,
     NULL},
};

static iobind_tensor *bind_number(iobind_session *session, iobind_binding *binding, const char *name) {
  static const int64_t one = 1;
  static const int64_t number[] = {UNTOUCHED};
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  iobind_tensor *made;
  size_t index;
  expect_ok(iobind_session_find_input(session, name, &index, &fault));
  expect_ok(iobind_session_get_input(session, index, &info, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)info.dtype, &one, 1, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, number, info.dtype == IOBIND_DTYPE_INT32 ? 4 : 8, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, index, IOBIND_INPUT_RESIDENT, made, NULL, &fault));
  return made;
}

static int64_t number_in(iobind_tensor *tensor) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  int64_t whole;
  int32_t half;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  bool is_whole = info.dtype == IOBIND_DTYPE_INT64;
  void *to = is_whole ? (void *)&whole : &half;
  expect_ok(iobind_tensor_read(tensor, 0, to, is_whole ? sizeof whole : sizeof half, NULL, &fault));
  iobind_tensor_release(tensor);
  return is_whole ? whole : half;
}

static void carry_first(iobind_session *session, iobind_binding *binding) {
  static const int64_t dims[] = {1, 2, 8, 4};
  size_t output;
  size_t input;
  iobind_tensor *past;
  expect_ok(iobind_session_find_output(session, "present", &output, &fault));
  expect_ok(iobind_session_find_input(session, "past", &input, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &past, &fault));
  expect_ok(iobind_binding_set_input(binding, input, IOBIND_INPUT_SNAPSHOT, past, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, output, input, IOBIND_CARRY_MOVE, &fault));
  iobind_tensor_release(past);
}

static void check_reader(const reader *of) {
  iobind_session *session = load(of->lines, 24, IOBIND_SESSION_IDENTIFY, NULL);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  carry_first(session, binding);
  iobind_tensor *at = bind_number(session, binding, "at");
  iobind_tensor *valid = bind_number(session, binding, "valid");
  if (of->words == NULL) {
    expect_ok(iobind_binding_write_lengths(binding, NEW, &(int64_t){BEFORE}, 1, NULL, &fault));
  } else {
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_write_lengths(binding, NEW, &(int64_t){BEFORE}, 1, NULL, &fault));
    expect_words(of->words);
    expect_words("write the lengths yourself");
  }
  int64_t found = number_in(valid);
  if (found != (of->valid == 0 ? UNTOUCHED : of->valid)) fail_msg("%s: valid: %d", of->name, (int)found);
  int64_t begins = strncmp(of->lines[2], "in at", 5) == 0 ? BEFORE : LAST;
  assert_int_equal(number_in(at), of->words == NULL ? begins : UNTOUCHED);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void that_take_its_length(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) check_reader(&readers[i]);
}

/* ---- what the graph comes from ---- */

static const char *const grows[LINES] = {GROWS, "Concat past,new present axis=1"};

static void of_a_model_in_memory(void **state) {
  (void)state;
  iobind_session *session = load(grows, 21, 0, NULL);
  const iobind_state_kind_info info = kind_of(session, 0, 0);
  assert_int_equal(info.kind, IOBIND_STATE_UNKNOWN);
  assert_int_equal(info.axis, NONE);
  expect_refused(session, 0, 0, IOBIND_ERROR_NOT_SUPPORTED, "IOBIND_SESSION_IDENTIFY");
  iobind_session_destroy(session);
}

static void of_a_wrapped_session(void **state) {
  (void)state;
  iobind_session *lent = load(grows, 21, IOBIND_SESSION_IDENTIFY, NULL);
  iobind_session *session;
  expect_ok(iobind_session_wrap(runtime, iobind_session_get_ort(lent), NULL, NULL, &session, &fault));
  assert_int_equal(kind_of(session, 0, 0).kind, IOBIND_STATE_UNKNOWN);
  iobind_session_destroy(session);
  iobind_session_destroy(lent);
}

/* A file of this process. */
static const char *path(void) {
  static char text[64];
  snprintf(text, sizeof text, "/tmp/iobind-kind-%ld.onnx", (long)getpid());
  return text;
}

/* It is read with the first question, and not again. */
static void of_a_file(void **state) {
  (void)state;
  iobind_session *session = load(grows, 21, 0, path());
  assert_int_equal(kind_of(session, 0, 0).kind, IOBIND_STATE_GROWING);
  assert_int_equal(remove(path()), 0);
  assert_int_equal(kind_of(session, 0, 0).kind, IOBIND_STATE_GROWING);
  iobind_session_destroy(session);
}

static void of_a_file_that_is_gone(void **state) {
  (void)state;
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_session *session = load(grows, 21, 0, path());
  assert_int_equal(remove(path()), 0);
  expect(IOBIND_ERROR_IO, iobind_session_get_state_kind(session, 0, 0, &info, &fault));
  expect_words("session_get_state_kind");
  expect_refused(session, 0, 0, IOBIND_ERROR_IO, "cannot be read");
  iobind_session_destroy(session);
}

static void of_a_file_that_has_changed(void **state) {
  (void)state;
  static const char *const others[LINES] = {GROWS, "Concat new,past present axis=1"};
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_session *session = load(grows, 21, 0, path());
  assert_int_equal(remove(path()), 0);
  iobind_session *other = load(others, 21, 0, path());
  expect(IOBIND_ERROR_IO, iobind_session_get_state_kind(session, 0, 0, &info, &fault));
  expect_words("has changed");
  assert_int_equal(kind_of(other, 0, 0).kind, IOBIND_STATE_UNKNOWN);
  assert_int_equal(remove(path()), 0);
  iobind_session_destroy(other);
  iobind_session_destroy(session);
}

static void with_wrong_arguments(void **state) {
  (void)state;
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_session *session = load(grows, 21, IOBIND_SESSION_IDENTIFY, NULL);
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_state_kind(session, 1, 0, &info, &fault));
  expect_words("output: expected an index below 1, got 1");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_state_kind(session, 0, 2, &info, &fault));
  expect_words("input: expected an index below 2, got 2");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_get_state_kind(session, 0, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_get_state_kind(NULL, 0, 0, &info, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_rewind_state(NULL, 0, &fault));
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    {"of examples", of_examples, stage_open, stage_close, "cpu"},
    {"that take its length", that_take_its_length, stage_open, stage_close, "cpu"},
    {"of test models", of_test_models, stage_open, stage_close, "cpu"},
    {"of a model in memory", of_a_model_in_memory, stage_open, stage_close, "cpu"},
    {"of a wrapped session", of_a_wrapped_session, stage_open, stage_close, "cpu"},
    {"of a file", of_a_file, stage_open, stage_close, "cpu"},
    {"of a file that is gone", of_a_file_that_is_gone, stage_open, stage_close, "cpu"},
    {"of a file that has changed", of_a_file_that_has_changed, stage_open, stage_close, "cpu"},
    {"with wrong arguments", with_wrong_arguments, stage_open, stage_close, "cpu"},
};

FIXTURE_MAIN(tests, NULL, NULL);
