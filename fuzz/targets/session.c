/* Models with any signature and tensors of any kind: the info of a session, the checks of a binding, and outputs that equal the inputs. */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "onnx.h"
#include "../../tests/rig/calls.h"

enum { VALUES = 3, RANK = 4 };

static const int32_t dtypes[] = {ONNX_FLOAT32, ONNX_INT64, ONNX_UINT8, ONNX_BOOL, ONNX_FLOAT16, ONNX_STRING, ONNX_INT4};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* A value of the model: an input, and the output that equals it. */
typedef struct value {
  char *name;
  char *output;
  int64_t dims[RANK];
  char *symbols[RANK];
  onnx_type type;
} value;

static value take_value(bytes *source) {
  value taken = {.name = take_text(source, 12), .output = take_text(source, 12)};
  taken.type = (onnx_type){.dtype = dtypes[take_byte(source) % DTYPES], .rank = take_byte(source) % (RANK + 1)};
  taken.type.no_shape = take_byte(source) % 16 == 15;
  for (size_t i = 0; i < RANK; i++) {
    uint8_t kind = take_byte(source);
    taken.dims[i] = kind < 128 ? kind % 5 : -1;
    taken.symbols[i] = kind < 128 ? strdup("") : kind < 200 ? strdup(kind % 2 == 0 ? "n" : "?") : take_text(source, 8);
  }
  return taken;
}

static void write_model(onnx_writer *writer, value *values, size_t count) {
  onnx_model_begin(writer, NULL);
  onnx_opset(writer, "", 21);
  onnx_graph_begin(writer, "graph");
  for (size_t i = 0; i < count; i++) {
    values[i].type.dims = values[i].dims;
    values[i].type.symbols = (const char *const *)values[i].symbols;
    onnx_input(writer, values[i].name, &values[i].type);
    onnx_output(writer, values[i].output, &values[i].type);
    onnx_node_begin(writer, "Identity", "", "");
    onnx_node_input(writer, values[i].name);
    onnx_node_output(writer, values[i].output);
    onnx_node_end(writer);
  }
  onnx_graph_end(writer);
  onnx_model_end(writer);
}

/* "?" is not a name. */
static const char *symbol_of(const value *of, size_t axis) {
  return of->dims[axis] >= 0 || strcmp(of->symbols[axis], "?") == 0 ? "" : of->symbols[axis];
}

static void check_signature(const iobind_session *session, const value *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    iobind_value_info info = IOBIND_VALUE_INFO_INIT;
    size_t index = count;
    CHECK(iobind_session_get_input(session, i, &info, NULL) == IOBIND_OK);
    CHECK(strcmp(info.name, values[i].name) == 0 && info.kind == IOBIND_VALUE_TENSOR);
    CHECK(info.dtype == values[i].type.dtype && info.has_shape == !values[i].type.no_shape);
    CHECK(iobind_session_find_input(session, info.name, &index, NULL) == IOBIND_OK && index == i);
    CHECK(info.rank == (info.has_shape ? values[i].type.rank : 0));
    for (size_t axis = 0; axis < info.rank; axis++) {
      CHECK(info.dims[axis] == values[i].dims[axis]);
      CHECK(strcmp(info.symbols[axis], symbol_of(&values[i], axis)) == 0);
    }
    CHECK(iobind_session_get_output(session, i, &info, NULL) == IOBIND_OK && strcmp(info.name, values[i].output) == 0);
  }
}

/* Usually a tensor that the input accepts. */
static iobind_tensor *take_tensor(bytes *source, const value *of) {
  int64_t dims[RANK + 1];
  size_t rank = of->type.rank;
  int32_t dtype = of->type.dtype;
  uint8_t wrong = take_byte(source);
  if (wrong == 255) rank = (rank + 1) % (RANK + 1);
  if (wrong == 254) dtype = dtypes[take_byte(source) % DTYPES];
  for (size_t i = 0; i < rank; i++) {
    uint8_t dim = take_byte(source);
    dims[i] = of->dims[i % RANK] >= 0 && dim < 240 ? of->dims[i % RANK] : dim % 4;
  }
  iobind_tensor *tensor = NULL;
  CHECK(iobind_tensor_create(the_cpu(), IOBIND_MEMORY_DEFAULT, (iobind_dtype)dtype, dims, rank, &tensor, NULL) == IOBIND_OK);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(tensor, &info, NULL) == IOBIND_OK);
  unsigned char *data = iobind_tensor_get_address(tensor);
  for (size_t i = 0; i < info.bytes; i++) data[i] = dtype == IOBIND_DTYPE_BOOL ? take_bool(source) : take_byte(source);
  return tensor;
}

static void check_same(iobind_tensor *in, iobind_tensor *out) {
  iobind_tensor_info one = IOBIND_TENSOR_INFO_INIT;
  iobind_tensor_info two = IOBIND_TENSOR_INFO_INIT;
  CHECK(iobind_tensor_get_info(in, &one, NULL) == IOBIND_OK && iobind_tensor_get_info(out, &two, NULL) == IOBIND_OK);
  CHECK(one.dtype == two.dtype && one.rank == two.rank && one.bytes == two.bytes);
  for (size_t i = 0; i < one.rank; i++) CHECK(one.dims[i] == two.dims[i]);
  if (one.bytes == 0) return;
  CHECK(iobind_tensor_get_address(in) != iobind_tensor_get_address(out));
  CHECK(memcmp(iobind_tensor_get_address(in), iobind_tensor_get_address(out), one.bytes) == 0);
}

static void run(bytes *source, iobind_session *session, const value *values, size_t count) {
  iobind_binding *binding = NULL;
  iobind_tensor *tensors[VALUES] = {NULL};
  CHECK(iobind_binding_create(session, &binding, NULL) == IOBIND_OK);
  while (source->left > 0) {
    size_t index = take_byte(source) % VALUES;
    uint8_t action = take_byte(source) % 8;
    iobind_error error = armed();
    iobind_status status = IOBIND_OK;
    if (action < 4) {
      iobind_input_mode mode = (iobind_input_mode)(action % 3);
      iobind_tensor *tensor = take_tensor(source, &values[index % count]);
      status = iobind_binding_set_input(binding, index, mode, tensor, NULL, &error);
      CHECK(index < count || status != IOBIND_OK);
      if (status == IOBIND_OK) {
        iobind_tensor_release(tensors[index]);
        tensors[index] = tensor;
      } else {
        iobind_tensor_release(tensor);
      }
    } else if (action == 4) {
      static const int modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, OUTPUT_FIXED,
                                  OUTPUT_IN_PLACE,     IOBIND_OUTPUT_NONE,  5};
      int mode = modes[take_byte(source) % 6];
      iobind_tensor *target = mode == OUTPUT_FIXED ? take_tensor(source, &values[index % count]) : NULL;
      status = call_binding_set_output(binding, index, mode, NULL, IOBIND_MEMORY_DEFAULT, target, &error);
      iobind_tensor_release(target);
    } else {
      status = iobind_binding_run(binding, NULL, &error);
      for (size_t i = 0; status == IOBIND_OK && i < count; i++) {
        iobind_tensor *out = NULL;
        iobind_error missing = armed();
        CHECK(tensors[i] != NULL);
        iobind_status got = iobind_binding_get_output(binding, i, NULL, &out, &missing);
        check_call(got, &missing, false);
        if (got == IOBIND_OK) check_same(tensors[i], out);
      }
    }
    check_call(status, &error, false);
  }
  iobind_binding_destroy(binding);
  for (size_t i = 0; i < VALUES; i++) iobind_tensor_release(tensors[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  value values[VALUES];
  size_t count = take_byte(&source) % VALUES + 1;
  for (size_t i = 0; i < count; i++) values[i] = take_value(&source);
  onnx_writer writer = ONNX_WRITER_INIT;
  write_model(&writer, values, count);
  const void *model = NULL;
  size_t bytes_written = 0;
  CHECK(onnx_writer_finish(&writer, &model, &bytes_written) == ONNX_OK);
  iobind_session *session = NULL;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.intra_op_threads = 1;
  iobind_error error = armed();
  iobind_status status = iobind_session_create_from_memory(the_runtime(), model, bytes_written, &options, &session, &error);
  check_call(status, &error, false);
  if (status == IOBIND_OK) {
    check_signature(session, values, count);
    run(&source, session, values, count);
  }
  iobind_session_destroy(session);
  onnx_writer_release(&writer);
  for (size_t i = 0; i < count; i++) {
    free(values[i].name);
    free(values[i].output);
    for (size_t axis = 0; axis < RANK; axis++) free(values[i].symbols[axis]);
  }
  return 0;
}
