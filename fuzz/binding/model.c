#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "onnx.h"

enum { MIX_A, MIX_S, MIX_T, MIX_C, MIX_K };
enum { MIX_Y, MIX_NEXT_S, MIX_NEXT_T, MIX_D, MIX_SAME_K };
enum { GROW_G, GROW_X };
enum { PLAIN_P, PLAIN_Q, PLAIN_R, PLAIN_W };
enum { PLAIN_SUM, PLAIN_GAP };
enum { GROW_LONG, GROW_TWICE };
#define BIT(index) (1u << (index))

const model models[MODELS] = {
    {.name = "mix",
     .input_count = 5,
     .output_count = 5,
     .inputs = {{"a", "n", 0, false}, {"s", "n", 0, false}, {"t", "n", 0, false}, {"c", "q", 0, false}, {"k", NULL, 3, false}},
     .outputs = {{"y", "n", 0, false},
                 {"next_s", "n", 0, false},
                 {"next_t", "n", 0, false},
                 {"d", NULL, 3, false},
                 {"k", NULL, 3, false}},
     .needs = {BIT(MIX_A) | BIT(MIX_S), BIT(MIX_A) | BIT(MIX_S), BIT(MIX_A) | BIT(MIX_S) | BIT(MIX_T), BIT(MIX_C) | BIT(MIX_K),
               BIT(MIX_K)},
     .may_overwrite = {BIT(MIX_A), BIT(MIX_A) | BIT(MIX_S), BIT(MIX_A) | BIT(MIX_T), BIT(MIX_C), BIT(MIX_K)},
     .is_input = {false, false, false, false, true}},
    {.name = "grow",
     .input_count = 2,
     .output_count = 2,
     .inputs = {{"g", "m", 0, false}, {"x", "l", 0, false}},
     .outputs = {{"long", "total", 0, false}, {"twice", "l", 0, false}},
     .needs = {BIT(GROW_G) | BIT(GROW_X), BIT(GROW_X)}},
    {.name = "plain",
     .input_count = 4,
     .output_count = 2,
     .inputs = {{"p", "n", 0, false}, {"q", "n", 0, false}, {"r", "n", 0, true}, {"w", NULL, 1, false}},
     .outputs = {{"sum", "n", 0, false}, {"gap", "n", 0, false}},
     .needs = {BIT(PLAIN_P) | BIT(PLAIN_Q) | BIT(PLAIN_W), BIT(PLAIN_P) | BIT(PLAIN_R)},
     .may_overwrite = {BIT(PLAIN_Q)}},
};

bool model_counts(const model *of, const size_t *inputs, size_t *outputs) {
  if (of == &models[1]) {
    outputs[GROW_LONG] = inputs[GROW_G] + inputs[GROW_X];
    outputs[GROW_TWICE] = inputs[GROW_X];
    return true;
  }
  if (of == &models[2]) {
    outputs[PLAIN_SUM] = outputs[PLAIN_GAP] = inputs[PLAIN_P];
    return inputs[PLAIN_Q] == inputs[PLAIN_P] && inputs[PLAIN_R] == inputs[PLAIN_P] && inputs[PLAIN_W] == 1;
  }
  outputs[MIX_Y] = outputs[MIX_NEXT_S] = outputs[MIX_NEXT_T] = inputs[MIX_A];
  outputs[MIX_D] = outputs[MIX_SAME_K] = 3;
  return inputs[MIX_S] == inputs[MIX_A] && inputs[MIX_T] == inputs[MIX_A] && inputs[MIX_K] == 3 &&
         (inputs[MIX_C] == 1 || inputs[MIX_C] == 3);
}

int model_judge(const model *of) {
  return of == &models[2] ? PLAIN_W : -1;
}

/* One operation in each statement, as each is a separate node. */
static void compute_mix(const elements *in, elements *out) {
  for (size_t i = 0; i < in[MIX_A].count; i++) {
    float y = in[MIX_A].at[i] + in[MIX_S].at[i];
    float half_s = in[MIX_S].at[i] * 0.5f;
    float half_t = in[MIX_T].at[i] * 0.5f;
    out[MIX_Y].at[i] = y;
    out[MIX_NEXT_S].at[i] = y - half_s;
    out[MIX_NEXT_T].at[i] = half_t + y;
  }
  for (size_t i = 0; i < 3; i++) {
    float half_c = in[MIX_C].at[in[MIX_C].count == 1 ? 0 : i] * 0.5f;
    out[MIX_D].at[i] = in[MIX_K].at[i] + half_c;
    out[MIX_SAME_K].at[i] = in[MIX_K].at[i];
  }
}

static void compute_plain(const elements *in, elements *out) {
  for (size_t i = 0; i < in[PLAIN_P].count; i++) {
    out[PLAIN_SUM].at[i] = in[PLAIN_P].at[i] + in[PLAIN_Q].at[i];
    out[PLAIN_GAP].at[i] = in[PLAIN_P].at[i] - in[PLAIN_R].at[i];
  }
}

void model_compute(const model *of, const elements *inputs, elements *outputs) {
  size_t counts[MOST_PORTS] = {0};
  size_t given[MOST_PORTS] = {0};
  for (size_t i = 0; i < of->input_count; i++) given[i] = inputs[i].count;
  if (!model_counts(of, given, counts)) abort();
  for (size_t i = 0; i < of->output_count; i++) outputs[i].count = counts[i];
  if (of == &models[0]) {
    compute_mix(inputs, outputs);
    return;
  }
  if (of == &models[2]) {
    compute_plain(inputs, outputs);
    return;
  }
  memcpy(outputs[GROW_LONG].at, inputs[GROW_G].at, sizeof(float) * inputs[GROW_G].count);
  memcpy(outputs[GROW_LONG].at + inputs[GROW_G].count, inputs[GROW_X].at, sizeof(float) * inputs[GROW_X].count);
  for (size_t i = 0; i < inputs[GROW_X].count; i++) outputs[GROW_TWICE].at[i] = inputs[GROW_X].at[i] + inputs[GROW_X].at[i];
}

static void write_port(onnx_writer *writer, const port *of, bool is_input) {
  int64_t dim = of->dim == NULL ? (int64_t)of->count : -1;
  const char *symbol = of->dim == NULL ? "" : of->dim;
  onnx_type type = {.dtype = ONNX_FLOAT32, .dims = &dim, .symbols = &symbol, .rank = 1};
  if (is_input) {
    onnx_input(writer, of->name, &type);
  } else {
    onnx_output(writer, of->name, &type);
  }
}

static void write_node(onnx_writer *writer, const char *op_type, const char *one, const char *two, const char *output) {
  onnx_node_begin(writer, op_type, "", "");
  onnx_node_input(writer, one);
  if (two != NULL) onnx_node_input(writer, two);
  onnx_node_output(writer, output);
  if (strcmp(op_type, "Concat") == 0) onnx_attribute_int(writer, "axis", 0);
  onnx_node_end(writer);
}

static void write_mix(onnx_writer *writer) {
  static const float half = 0.5f;
  onnx_tensor constant = {.name = "half", .dtype = ONNX_FLOAT32, .data = &half, .bytes = sizeof half};
  onnx_initializer(writer, &constant);
  write_node(writer, "Add", "a", "s", "y");
  write_node(writer, "Mul", "s", "half", "half_s");
  write_node(writer, "Sub", "y", "half_s", "next_s");
  write_node(writer, "Mul", "t", "half", "half_t");
  write_node(writer, "Add", "half_t", "y", "next_t");
  write_node(writer, "Mul", "c", "half", "half_c");
  write_node(writer, "Add", "k", "half_c", "d");
}

static void write_plain(onnx_writer *writer) {
  static const float scale = 1.0F / (1 << 20);
  static const float zeros[2] = {0, 0};
  static const int64_t two = 2;
  onnx_initializer(writer, &(onnx_tensor){.name = "scale", .dtype = ONNX_FLOAT32, .data = &scale, .bytes = sizeof scale});
  onnx_initializer(
      writer,
      &(onnx_tensor){.name = "zeros", .dtype = ONNX_FLOAT32, .dims = &two, .rank = 1, .data = zeros, .bytes = sizeof zeros});
  write_node(writer, "Mul", "w", "scale", "part");
  onnx_node_begin(writer, "Cast", "", "");
  onnx_node_input(writer, "part");
  onnx_node_output(writer, "place");
  onnx_attribute_int(writer, "to", ONNX_INT64);
  onnx_node_end(writer);
  write_node(writer, "Gather", "zeros", "place", "zero");
  write_node(writer, "Add", "p", "q", "both");
  write_node(writer, "Add", "both", "zero", "sum");
  write_node(writer, "Mean", "r", NULL, "mean");
  write_node(writer, "Sub", "p", "mean", "gap");
}

void *model_write(const model *of, size_t *bytes) {
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 17);
  onnx_graph_begin(&writer, of->name);
  for (size_t i = 0; i < of->input_count; i++) write_port(&writer, &of->inputs[i], true);
  for (size_t i = 0; i < of->output_count; i++) write_port(&writer, &of->outputs[i], false);
  if (of == &models[0]) {
    write_mix(&writer);
  } else if (of == &models[2]) {
    write_plain(&writer);
  } else {
    write_node(&writer, "Concat", "g", "x", "long");
    write_node(&writer, "Add", "x", "x", "twice");
  }
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  const void *written = NULL;
  void *copy = onnx_writer_finish(&writer, &written, bytes) == ONNX_OK ? malloc(*bytes) : NULL;
  if (copy == NULL) abort();
  memcpy(copy, written, *bytes);
  onnx_writer_release(&writer);
  return copy;
}
