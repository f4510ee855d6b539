/* Options and info structs of any struct_size, in memory of exactly that size. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "onnx.h"

enum { LISTS = 3, LONGEST = 24 };

/* The members of a caller's list in a struct. */
typedef struct list_field {
  size_t first;  /* offset of the pointer to strings */
  size_t second; /* offset of the pointer to the other array; 0: none */
  size_t count;  /* offset of the number of elements */
  bool numbers;  /* the other array holds int64_t */
} list_field;

typedef struct made {
  unsigned char *data;
  uint32_t size;
  bool tail; /* a byte after the known members is not 0 */
  bool clean;
  char *texts[2 * LISTS * 2];
  size_t text_count;
  const char *strings[LISTS][2];
  const char *others[LISTS][2];
  int64_t numbers[LISTS][2];
} made;

static bool fits(const made *of, size_t offset, size_t bytes) {
  return offset + bytes <= of->size;
}

static void put_pointer(made *of, size_t offset, const void *pointer) {
  if (fits(of, offset, sizeof pointer)) {
    memcpy(of->data + offset, &pointer, sizeof pointer);
  } else if (offset < of->size) {
    memset(of->data + offset, 0, of->size - offset); /* a part of a pointer */
  }
}

/* Mostly zero, like a caller's struct. */
static made make(bytes *source, size_t known) {
  made of = {.clean = true};
  uint8_t kind = take_byte(source);
  of.size = (uint32_t)(kind < 160 ? known : kind < 200 ? take_byte(source) % (known + 1) : known + take_byte(source) % 64);
  of.data = calloc(1, of.size < 4 ? 4 : of.size);
  CHECK(of.data != NULL);
  for (size_t i = 4; i < of.size; i++) {
    uint8_t byte = take_byte(source);
    of.data[i] = byte < 250 && i < known ? 0 : byte;
    of.tail = of.tail || (i >= known && of.data[i] != 0);
  }
  memcpy(of.data, &of.size, sizeof of.size);
  return of;
}

static void put_list(made *of, bytes *source, const list_field *field, size_t index, const char *const *words,
                     size_t word_count) {
  size_t count = take_byte(source) % 3;
  for (size_t i = 0; i < count; i++) {
    for (int half = 0; half < 2; half++) {
      char *text = take_word(source, words, word_count, LONGEST);
      of->clean = of->clean && is_utf8(text);
      of->texts[of->text_count++] = text;
      (half == 0 ? of->strings : of->others)[index][i] = take_byte(source) == 255 ? NULL : text;
    }
    of->numbers[index][i] = take_dim(source);
  }
  bool missing = take_byte(source) == 255;
  put_pointer(of, field->first, missing ? NULL : of->strings[index]);
  if (field->second != 0)
    put_pointer(of, field->second, field->numbers ? (void *)of->numbers[index] : (void *)of->others[index]);
  put_pointer(of, field->count, NULL);
  if (fits(of, field->count, sizeof count)) memcpy(of->data + field->count, &count, sizeof count);
}

static void drop(made *of) {
  for (size_t i = 0; i < of->text_count; i++) free(of->texts[i]);
  free(of->data);
}

/* The contract of options_read, for any content of the struct. */
static void check_size(const made *of, iobind_status status) {
  if (of->size < 4) CHECK(status == IOBIND_ERROR_INVALID_ARGUMENT);
  if (of->tail) CHECK(status == IOBIND_ERROR_NOT_SUPPORTED || status == IOBIND_ERROR_INVALID_ARGUMENT);
}

static const void *the_model(size_t *bytes_written) {
  static onnx_writer writer = ONNX_WRITER_INIT;
  const void *model = NULL;
  if (writer.size == 0) {
    const int64_t open = -1;
    const char *symbol = "n";
    const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = &open, .symbols = &symbol, .rank = 1};
    onnx_model_begin(&writer, NULL);
    onnx_opset(&writer, "", 21);
    onnx_graph_begin(&writer, "graph");
    onnx_input(&writer, "x", &type);
    onnx_output(&writer, "y", &type);
    onnx_node_begin(&writer, "Identity", "", "");
    onnx_node_input(&writer, "x");
    onnx_node_output(&writer, "y");
    onnx_node_end(&writer);
    onnx_graph_end(&writer);
    onnx_model_end(&writer);
  }
  CHECK(onnx_writer_finish(&writer, &model, bytes_written) == ONNX_OK);
  return model;
}

static const char *const words[] = {"x",
                                    "n",
                                    "cuda.device_id",
                                    "webgpu.deviceId",
                                    "session.intra_op.allow_spinning",
                                    "0",
                                    "1",
                                    "cpu",
                                    "",
                                    "session.use_env_allocators"};
enum { WORDS = sizeof words / sizeof words[0] };

#define AT(type, field) offsetof(type, field)

static void session_options(bytes *source) {
  static const list_field lists[LISTS] = {
      {AT(iobind_session_options, ep_keys), AT(iobind_session_options, ep_values), AT(iobind_session_options, ep_option_count),
       false},
      {AT(iobind_session_options, config_keys), AT(iobind_session_options, config_values),
       AT(iobind_session_options, config_count), false},
      {AT(iobind_session_options, dim_names), AT(iobind_session_options, dim_values), AT(iobind_session_options, dim_count),
       true},
  };
  made of = make(source, sizeof(iobind_session_options));
  iobind_device *devices[2] = {the_cpu(), take_bool(source) ? the_cpu() : NULL};
  size_t count = take_byte(source) % 3;
  size_t model_bytes = 0;
  const void *model = the_model(&model_bytes);
  for (size_t i = 0; i < LISTS; i++) put_list(&of, source, &lists[i], i, words, WORDS);
  put_pointer(&of, AT(iobind_session_options, devices), take_byte(source) == 255 ? NULL : devices);
  put_pointer(&of, AT(iobind_session_options, device_count), NULL);
  if (fits(&of, AT(iobind_session_options, device_count), sizeof count)) {
    memcpy(of.data + AT(iobind_session_options, device_count), &count, sizeof count);
  }
  put_pointer(&of, AT(iobind_session_options, profile), NULL); /* it would write files */
  put_pointer(&of, AT(iobind_session_options, stream), NULL);
  for (int i = 0; i < 2; i++) {
    /* ORT starts as many threads as the option says. */
    size_t offset = i == 0 ? AT(iobind_session_options, intra_op_threads) : AT(iobind_session_options, inter_op_threads);
    int32_t threads = (int32_t)(take_byte(source) % 4) - 1;
    if (fits(&of, offset, sizeof threads)) memcpy(of.data + offset, &threads, sizeof threads);
  }
  iobind_session *session = NULL;
  iobind_error error = armed();
  const iobind_session_options *options = (const void *)of.data;
  iobind_status status = iobind_session_create_from_memory(the_runtime(), model, model_bytes, options, &session, &error);
  check_call(status, &error, of.clean);
  check_size(&of, status);
  CHECK((session != NULL) == (status == IOBIND_OK));
  iobind_session_destroy(session);
  drop(&of);
}

static iobind_session *the_session(void) {
  static iobind_session *session;
  size_t bytes_written = 0;
  const void *model = the_model(&bytes_written);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_PLACEMENT;
  options.intra_op_threads = 1;
  if (session == NULL) {
    CHECK(iobind_session_create_from_memory(the_runtime(), model, bytes_written, &options, &session, NULL) == IOBIND_OK);
  }
  return session;
}

static void run_options(bytes *source) {
  static const list_field list = {AT(iobind_run_options, config_keys), AT(iobind_run_options, config_values),
                                  AT(iobind_run_options, config_count), false};
  static iobind_binding *binding;
  if (binding == NULL) CHECK(iobind_binding_create(the_session(), &binding, NULL) == IOBIND_OK);
  made of = make(source, sizeof(iobind_run_options));
  char *tag = take_text(source, LONGEST);
  of.clean = of.clean && is_utf8(tag);
  put_list(&of, source, &list, 0, words, WORDS);
  put_pointer(&of, AT(iobind_run_options, tag), take_bool(source) ? tag : NULL);
  iobind_error error = armed();
  iobind_status status = iobind_binding_set_run_options(binding, (const void *)of.data, &error);
  check_call(status, &error, of.clean);
  check_size(&of, status);
  free(tag);
  drop(&of);
}

static void stream_options(bytes *source) {
  static const list_field list = {AT(iobind_stream_options, option_keys), AT(iobind_stream_options, option_values),
                                  AT(iobind_stream_options, option_count), false};
  made of = make(source, sizeof(iobind_stream_options));
  put_list(&of, source, &list, 0, words, WORDS);
  iobind_stream *stream = NULL;
  iobind_error error = armed();
  iobind_status status = iobind_stream_create(the_cpu(), (const void *)of.data, &stream, &error);
  check_call(status, &error, of.clean);
  check_size(&of, status);
  CHECK((stream != NULL) == (status == IOBIND_OK));
  iobind_stream_destroy(stream);
  drop(&of);
}

static void put_size(made *of, size_t offset, size_t value) {
  put_pointer(of, offset, NULL);
  if (fits(of, offset, sizeof value)) {
    memcpy(of->data + offset, &value, sizeof value);
  }
}

static void pipeline_options(bytes *source) {
  made of = make(source, sizeof(iobind_pipeline_options));
  size_t slots = take_byte(source) % 8;
  iobind_tensor *constants[1] = {NULL};
  put_pointer(&of, AT(iobind_pipeline_options, constants), take_bool(source) ? constants : NULL);
  const int32_t outputs[1] = {take_byte(source) % 4};
  const iobind_run_options run = IOBIND_RUN_OPTIONS_INIT;
  put_pointer(&of, AT(iobind_pipeline_options, placements), take_bool(source) ? outputs : NULL);
  put_pointer(&of, AT(iobind_pipeline_options, run_options), take_bool(source) ? &run : NULL);
  put_size(&of, AT(iobind_pipeline_options, slots), slots);
  put_size(&of, AT(iobind_pipeline_options, constant_count), take_byte(source) % 3);
  put_size(&of, AT(iobind_pipeline_options, placement_count), take_byte(source) % 3);
  iobind_pipeline *pipeline = NULL;
  iobind_error error = armed();
  iobind_status status = iobind_pipeline_create(the_session(), (const void *)of.data, &pipeline, &error);
  check_call(status, &error, true);
  check_size(&of, status);
  CHECK((pipeline != NULL) == (status == IOBIND_OK));
  iobind_pipeline_destroy(pipeline);
  drop(&of);
}

static void log_line(void *context, int32_t level, const char *message) {
  (void)context;
  (void)level;
  CHECK(strchr(message, '\n') == NULL);
}

/* A second runtime of the same ONNX Runtime. Its options are read as well. */
static void runtime_options(bytes *source) {
  static const char *const paths[] = {
      "/nonexistent", "nowhere", "cpu=/nonexistent", "=", "webgpu=", "/dev/null", "", "=/dev/null"};
  static const list_field list = {AT(iobind_runtime_options, ep_libraries), 0, AT(iobind_runtime_options, ep_library_count),
                                  false};
  made of = make(source, sizeof(iobind_runtime_options));
  put_list(&of, source, &list, 0, paths, 8);
  char *library = take_word(source, paths, 8, LONGEST);
  of.clean = of.clean && is_utf8(library);
  put_pointer(&of, AT(iobind_runtime_options, ort_library), take_byte(source) < 64 ? library : NULL);
  put_pointer(&of, AT(iobind_runtime_options, ort_api_base), NULL);
  put_pointer(&of, AT(iobind_runtime_options, ort_api), NULL);
  put_pointer(&of, AT(iobind_runtime_options, log_context), NULL);
  void (*log)(void *, int32_t, const char *) = log_line;
  void *address = NULL;
  memcpy(&address, &log, sizeof address);
  put_pointer(&of, AT(iobind_runtime_options, log), take_bool(source) ? address : NULL);
  CHECK(the_runtime() != NULL);
  iobind_runtime *runtime = NULL;
  iobind_error error = armed();
  iobind_status status = iobind_runtime_create((const void *)of.data, &runtime, &error);
  check_call(status, &error, of.clean);
  check_size(&of, status);
  CHECK((runtime != NULL) == (status == IOBIND_OK));
  CHECK(runtime == NULL || runtime == the_runtime());
  iobind_runtime_destroy(runtime);
  free(library);
  drop(&of);
}

static iobind_tensor *the_tensor(void) {
  static iobind_tensor *tensor;
  const int64_t dims[] = {2, 3};
  if (tensor == NULL)
    CHECK(iobind_tensor_create(the_cpu(), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT8, dims, 2, &tensor, NULL) == IOBIND_OK);
  return tensor;
}

/* Fill an info struct, whatever its struct_size. */
static iobind_status get_info(uint8_t which, void *info, iobind_error *error) {
  switch (which % 8) {
    case 0: return iobind_runtime_get_info(the_runtime(), info, error);
    case 1: return iobind_device_get_info(the_cpu(), info, error);
    case 2: return iobind_device_get_counters(the_cpu(), info, error);
    case 3: return iobind_tensor_get_info(the_tensor(), info, error);
    case 4: return iobind_session_get_info(the_session(), info, error);
    case 5: return iobind_session_get_input(the_session(), 0, info, error);
    case 6: return iobind_session_get_output(the_session(), 0, info, error);
    default: return iobind_session_get_node(the_session(), 0, info, error);
  }
}

/* A shorter struct gets the beginning of the complete one; the rest of a longer one is zero. */
static void info_struct(bytes *source) {
  static const size_t sizes[] = {sizeof(iobind_runtime_info), sizeof(iobind_device_info),  sizeof(iobind_device_counters),
                                 sizeof(iobind_tensor_info),  sizeof(iobind_session_info), sizeof(iobind_value_info),
                                 sizeof(iobind_value_info),   sizeof(iobind_node_info)};
  uint8_t which = take_byte(source);
  size_t known = sizes[which % 8];
  uint32_t size = take_byte(source);
  uint32_t whole_size = (uint32_t)known;
  unsigned char *whole = calloc(1, known);
  unsigned char *info = malloc(size < 4 ? 4 : size);
  CHECK(whole != NULL && info != NULL);
  memcpy(whole, &whole_size, 4);
  CHECK(get_info(which, whole, NULL) == IOBIND_OK);
  memset(info, 0x5A, size < 4 ? 4 : size);
  memcpy(info, &size, 4);
  iobind_error error = armed();
  iobind_status status = get_info(which, info, &error);
  check_call(status, &error, true);
  uint32_t left = 0;
  memcpy(&left, info, 4);
  CHECK(left == size && (status == IOBIND_OK || status == IOBIND_ERROR_INVALID_ARGUMENT));
  CHECK(status == IOBIND_OK || size < known);
  for (size_t i = 4; i < size; i++) CHECK(info[i] == (status != IOBIND_OK ? 0x5A : i < known ? whole[i] : 0));
  free(info);
  free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  switch (take_byte(&source) % 6) {
    case 0: session_options(&source); break;
    case 1: run_options(&source); break;
    case 2: stream_options(&source); break;
    case 3: runtime_options(&source); break;
    case 4: pipeline_options(&source); break;
    default: info_struct(&source); break;
  }
  return 0;
}
