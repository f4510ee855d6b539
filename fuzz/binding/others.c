/* Results that are borrowed while their run is in flight, DLPack, requests, strings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "onnx.h"
#include "operations.h"
#include "../../tests/rig/calls.h"

#define W the_world

/* ---- lent results ---- */

/* Read a lent result on the stream to which it was lent. The stream waits for the binding's run, but not for other runs that write the
 * memory. */
static void read_lent(bound *one, size_t output, iobind_tensor *tensor, size_t stream, bool by_event) {
  const view *at = &one->shadow.results[output].at;
  if (at->count == 0) return;
  world_stream_uses(stream, at->block, false, NULL, by_event);
  float *there = world_memory(at->count);
  world_unread(there, at->count);
  begin_call("read(the lent %s%s)", one->shadow.model->outputs[output].name, on_stream((int)stream));
  bool well = require_ok(
      end_call(iobind_tensor_read(tensor, 0, there, sizeof(float) * at->count, W->lanes[stream].handle, &the_error)));
  if (!well) return;
  world_submit(stream);
  world_stamp(stream, at->block, false);
  world_stamp(stream, &one->lent, false);
  if (view_is_known(*at, one->shadow.number)) world_expect_bytes(stream, there, *at);
}

void do_lend(const step *from) {
  bound *one = take_binding(from);
  size_t stream = from->x[2] % STREAMS;
  if (one == NULL || fault_is_set() || world_stream(stream) == NULL) return;
  size_t output = from->x[1] % one->shadow.model->output_count;
  bool in_flight = is_in_flight(one) && !W->at_host;
  expectation expected = {0};
  expect_result(one, output, &expected);
  iobind_tensor *tensor = NULL;
  begin_call("lend(b%d, %s%s)", binding_index(one), one->shadow.model->outputs[output].name, on_stream((int)stream));
  iobind_status status = end_call(iobind_binding_get_output(one->handle, output, W->lanes[stream].handle, &tensor, &the_error));
  if (!require(expected, status)) return;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(tensor, &info, NULL) == IOBIND_OK);
  if (!in_flight || info.host_readable) {
    if (one->flight.stream >= 0) has_passed(one);
    return;
  }
  reached(FEATURE_LENT);
  size_t run = (size_t)one->flight.stream;
  if (run != stream && W->lanes[stream].after[run] < one->flight.stamp) W->lanes[stream].after[run] = one->flight.stamp;
  find_memory(one, output, iobind_tensor_get_address(tensor));
  read_lent(one, output, tensor, stream, from->x[3] % 2 == 0);
}

/* ---- DLPack ---- */

void do_dlpack(const step *from) {
  slot *of = world_tensor(from->x[0] % TENSORS);
  if (of == NULL || !of->is_plain || of->at.count == 0 || fault_is_set()) return;
  slot *to = world_kept_slot(from->x[1]);
  if (to == of || of->tensor == NULL) return; /* emptying the slot has released the tensor */
  void *managed = NULL;
  expectation expected = {.may = of->where == PLACE_PINNED || of->at.block->is_frozen ? STATUS(NOT_SUPPORTED) : 0};
  begin_call("t%d = from_dlpack(to_dlpack(t%d))", world_index(to), world_index(of));
  if (!require(expected, end_call(iobind_tensor_to_dlpack(of->tensor, 0, &managed, &the_error)))) return;
  the_error = armed();
  CHECK(require_ok(end_call(iobind_tensor_from_dlpack(W->runtime, managed, 0, &to->tensor, &the_error))));
  to->where = of->where;
  to->is_plain = true;
  to->is_lent = of->is_lent;
  view_set(&to->at, of->at);
  reached(FEATURE_DLPACK);
}

/* ---- requests ---- */

typedef struct request {
  shadow shadow;
  expectation expected;
  iobind_tensor *inputs[MOST_PORTS];
  iobind_tensor *targets[MOST_PORTS];
  int32_t outputs[MOST_PORTS];
  bool has_target;
} request;

static bool choose_inputs(request *self, const step *from) {
  const model *of = self->shadow.model;
  for (size_t i = 0; i < of->input_count; i++) {
    const port like = {"", NULL, of->inputs[i].dim == NULL ? of->inputs[i].count : 3, of->inputs[i].is_host};
    const slot *tensor = take_tensor((uint8_t)((from->x[1] + 5 * i) % 240), &like, like.is_host);
    if (tensor == NULL) return false;
    if (fault_is_set()) world_host_uses(tensor->at.block, false, NULL);
    self->inputs[i] = tensor->tensor;
    iobind_input_mode mode = world_is_home(tensor, &of->inputs[i]) ? IOBIND_INPUT_RESIDENT : IOBIND_INPUT_SNAPSHOT;
    if (mode == IOBIND_INPUT_SNAPSHOT && tensor->where == PLACE_HOME) return false; /* the host cannot read it */
    shadow_set_input(&self->shadow, i, mode, tensor->at, false, -1);
  }
  return true;
}

static void choose_outputs(request *self, const step *from) {
  static const int32_t placements[4] = {IOBIND_PLACE_HOST, IOBIND_PLACE_DEVICE, IOBIND_PLACE_NONE, IOBIND_PLACE_HOST};
  const model *of = self->shadow.model;
  for (size_t i = 0; i < of->output_count; i++) {
    const slot *target = (from->x[2] >> i & 1) != 0 ? world_tensor((from->x[3] + 3 * i) % OWN_TENSORS) : NULL;
    size_t wanted = 3 + (of == &models[1] && i == 0 ? 3 : 0);
    if (target != NULL && target->is_plain && !target->is_lent && !target->at.block->is_frozen && target->at.count == wanted) {
      world_host_uses(target->at.block, true, NULL);
      expect_output(&self->shadow, i, OUTPUT_FIXED, target->at, &self->expected);
      shadow_set_output(&self->shadow, i, OUTPUT_FIXED, target->at);
      self->targets[i] = target->tensor;
      self->has_target = true;
      continue;
    }
    self->outputs[i] = placements[from->x[4] >> i % 4 * 2 & 3];
    bool is_wanted = self->outputs[i] != IOBIND_PLACE_NONE;
    shadow_set_output(&self->shadow, i, is_wanted ? IOBIND_OUTPUT_FRESH : IOBIND_OUTPUT_NONE, (view){0});
  }
}

static void check_outputs(const request *self, iobind_tensor *const *outputs) {
  for (size_t i = 0; i < self->shadow.model->output_count; i++) {
    view at = self->shadow.results[i].at;
    CHECK((outputs[i] != NULL) == (self->shadow.outputs[i].mode != IOBIND_OUTPUT_NONE));
    if (outputs[i] == NULL || at.count == 0) continue;
    float read[MOST_ELEMENTS];
    CHECK(iobind_tensor_read(outputs[i], 0, read, sizeof(float) * at.count, NULL, NULL) == IOBIND_OK);
    if (view_is_known(at, 0)) compare(read, at, self->shadow.model->outputs[i].name);
  }
}

static void make_request(request *self, size_t which) {
  iobind_tensor *outputs[MOST_PORTS] = {NULL};
  iobind_run_request asked = IOBIND_RUN_REQUEST_INIT;
  asked.inputs = self->inputs;
  asked.targets = self->targets;
  asked.placements = self->outputs;
  bool late;
  expect_run(&self->shadow, &self->expected, &late);
  begin_call("request(%s%s)", models[which].name, self->has_target ? ", targets" : "");
  iobind_status status = end_call(call_session_request(world_session(which), &asked, outputs, &the_error));
  bool well = require(self->expected, status);
  for (size_t i = 0; i < self->shadow.model->input_count && well; i++) {
    world_host_used(self->shadow.inputs[i].read.block, false);
  }
  if (well) {
    reached(self->has_target ? FEATURE_REQUEST_TARGET : FEATURE_REQUEST);
    shadow_run(&self->shadow);
    check_outputs(self, outputs);
  } else if (self->expected.must == 0 || late) {
    shadow_fail(&self->shadow);
  }
  for (size_t i = 0; i < MOST_PORTS; i++) iobind_tensor_release(outputs[i]);
}

void do_request(const step *from) {
  size_t which = from->x[0] % MODELS;
  (void)world_session(which);
  request self = {.has_target = false};
  shadow_init(&self.shadow, &models[which], ++W->numbers);
  if (choose_inputs(&self, from) && !shadow_is_unforeseeable(&self.shadow)) {
    choose_outputs(&self, from);
    make_request(&self, which);
  }
  shadow_clear(&self.shadow);
}

/* ---- strings ---- */

enum { WORDS = 3, LONGEST = 48 };

/* mixed = p, q, p      other = q, p, q, string by string. (ONNX Runtime's StringConcat appends to what a given output holds.) */
static void write_words(onnx_writer *writer) {
  static const int64_t dim = WORDS;
  static const char *const symbol = "";
  const onnx_type type = {.dtype = ONNX_STRING, .dims = &dim, .symbols = &symbol, .rank = 1};
  static const char *const nodes[2][3] = {{"p", "q", "mixed"}, {"q", "p", "other"}};
  static const unsigned char mask[WORDS] = {1, 0, 1};
  const onnx_tensor constant = {
      .name = "mask", .dtype = ONNX_BOOL, .dims = &dim, .rank = 1, .data = mask, .bytes = sizeof mask};
  onnx_model_begin(writer, NULL);
  onnx_opset(writer, "", 17);
  onnx_graph_begin(writer, "words");
  onnx_input(writer, "p", &type);
  onnx_input(writer, "q", &type);
  onnx_output(writer, "mixed", &type);
  onnx_output(writer, "other", &type);
  onnx_initializer(writer, &constant);
  for (size_t i = 0; i < 2; i++) {
    onnx_node_begin(writer, "Where", "", "");
    onnx_node_input(writer, "mask");
    onnx_node_input(writer, nodes[i][0]);
    onnx_node_input(writer, nodes[i][1]);
    onnx_node_output(writer, nodes[i][2]);
    onnx_node_end(writer);
  }
  onnx_graph_end(writer);
  onnx_model_end(writer);
}

static iobind_binding *make_words(void) {
  onnx_writer writer = ONNX_WRITER_INIT;
  const void *written = NULL;
  size_t size = 0;
  iobind_session *session = NULL;
  iobind_binding *binding = NULL;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &W->home;
  options.device_count = 1;
  write_words(&writer);
  CHECK(onnx_writer_finish(&writer, &written, &size) == ONNX_OK);
  CHECK(iobind_session_create_from_memory(W->runtime, written, size, &options, &session, NULL) == IOBIND_OK);
  CHECK(iobind_binding_create(session, &binding, NULL) == IOBIND_OK);
  iobind_session_destroy(session);
  onnx_writer_release(&writer);
  return binding;
}

static iobind_tensor *make_strings(void) {
  static const int64_t dims[1] = {WORDS};
  iobind_tensor *made = NULL;
  CHECK(iobind_tensor_create(W->host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, dims, 1, &made, NULL) == IOBIND_OK);
  return made;
}

static void check_strings(iobind_tensor *got, char first[WORDS][LONGEST], char second[WORDS][LONGEST]) {
  for (size_t i = 0; i < WORDS; i++) {
    const char *expected = i % 2 == 0 ? first[i] : second[i];
    char read[2 * LONGEST] = "";
    size_t needed = 0;
    CHECK(iobind_tensor_get_string(got, i, read, sizeof read - 1, &needed, NULL) == IOBIND_OK);
    if (strcmp(expected, read) != 0) fail("string %zu: expected '%s', got '%s'", i, expected, read);
  }
}

typedef struct words {
  iobind_binding *binding;
  iobind_tensor *tensors[4]; /* p, q, and two for outputs */
  char texts[2][WORDS][LONGEST];
} words;

static void set_words(words *self) {
  for (size_t t = 0; t < 2; t++) {
    for (size_t i = 0; i < WORDS; i++) {
      snprintf(self->texts[t][i], LONGEST, "%s %g", i == 0 ? "" : "a word that no small string holds", (double)W->next_value);
      W->next_value += 1;
      CHECK(iobind_tensor_set_string(self->tensors[t], i, self->texts[t][i], NULL) == IOBIND_OK);
    }
    begin_call("set_input(words, %zu)", t);
    (void)require_ok(
        end_call(iobind_binding_set_input(self->binding, t, IOBIND_INPUT_RESIDENT, self->tensors[t], NULL, &the_error)));
  }
}

static bool set_words_output(const words *self, size_t output, int tensor, unsigned must) {
  begin_call("set_output(words, %zu, %d)", output, tensor);
  int mode = tensor < 0 ? IOBIND_OUTPUT_FRESH : OUTPUT_FIXED;
  return require((expectation){.must = must},
                 end_call(call_binding_set_output(self->binding, output, mode, NULL, IOBIND_MEMORY_DEFAULT,
                                                  tensor < 0 ? NULL : self->tensors[tensor], &the_error)));
}

/* Outputs without a target, with a target, and with a target in other memory in use. The last one is refused and changes nothing. */
static void run_words(words *self, unsigned way) {
  int given = way % 2 == 0 ? -1 : 2;
  set_words(self);
  set_words_output(self, 1, -1, 0);
  set_words_output(self, 0, given, 0);
  if (way % 4 == 1) {
    set_words_output(self, 1, (int)(way / 4 % 3), STATUS(INVALID_ARGUMENT)); /* an input, or the other output */
    reached(FEATURE_STRINGS_OVERLAP);
  }
  begin_call("run(words)");
  (void)require_ok(end_call(iobind_binding_run(self->binding, NULL, &the_error)));
  for (size_t o = 0; o < 2; o++) {
    iobind_tensor *got = NULL;
    CHECK(iobind_binding_get_output(self->binding, o, NULL, &got, NULL) == IOBIND_OK);
    check_strings(got, self->texts[o], self->texts[1 - o]);
  }
  reached(FEATURE_STRINGS);
}

void do_strings(const step *from) {
  if (fault_is_set()) return;
  words self = {.binding = make_words()};
  for (size_t i = 0; i < 4; i++) self.tensors[i] = make_strings();
  for (unsigned run = 0; run < 2; run++) run_words(&self, from->x[run]);
  iobind_binding_destroy(self.binding);
  for (size_t i = 0; i < 4; i++) iobind_tensor_release(self.tensors[i]);
}
