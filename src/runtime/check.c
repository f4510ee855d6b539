/* Checks whether a device works, by one run of a one-node model; and whether it computes correctly, by nodes with known
 * answers. */
#include <stdlib.h>
#include <string.h>

#include "runtime/driver.h"
#include "runtime/runtime.h"
#include "support/onnx.h"

/* "y = Identity(x)" with a float32 scalar as an ONNX model, IR version 8, opset 13. */
static const unsigned char identity_model[] = {
    0x08, 0x08,                                                                        /* ir_version 8 */
    0x3a, 0x2f,                                                                        /* graph */
    0x0a, 0x10, 0x0a, 0x01, 'x',  0x12, 0x01, 'y',  0x22, 0x08, 'I',  'd',  'e',  'n', /* node: input, output, op_type */
    't',  'i',  't',  'y',  0x12, 0x01, 'g',                                           /* name */
    0x5a, 0x0b, 0x0a, 0x01, 'x',  0x12, 0x06, 0x0a, 0x04, 0x08, 0x01, 0x12, 0x00,      /* input x: float32, scalar */
    0x62, 0x0b, 0x0a, 0x01, 'y',  0x12, 0x06, 0x0a, 0x04, 0x08, 0x01, 0x12, 0x00,      /* output y: float32, scalar */
    0x42, 0x02, 0x10, 0x0d,                                                            /* opset 13 */
};

/* A model of one node with float32 inputs x and, unless `w_rank` is 0, w, and its output y. */
typedef struct trial {
  const void *model;
  size_t bytes;
  float *x;
  const int64_t *x_dims;
  size_t x_rank;
  float *w;
  const int64_t *w_dims;
  size_t w_rank;
  float *y; /* receives y_count elements */
  size_t y_count;
} trial;

static OrtStatus *wrap(const iobind_device *device, float *data, const int64_t *dims, size_t rank, OrtValue **value) {
  size_t count = 1;
  for (size_t i = 0; i < rank; i++) {
    count *= (size_t)dims[i];
  }
  return IOBIND__API(device->runtime)
      ->CreateTensorWithDataAsOrtValue(device->runtime->cpu_info, data, count * sizeof *data, dims, rank,
                                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, value);
}

static bool has_elements(const int64_t *dims, size_t rank, size_t expected) {
  size_t count = 1;
  for (size_t i = 0; i < rank && count <= expected; i++) { /* each factor is small, so that nothing overflows */
    count = dims[i] >= 0 && (size_t)dims[i] <= expected ? count * (size_t)dims[i] : expected + 1;
  }
  return count == expected;
}

/* The output of a faulty device may have any type and size. */
static iobind_status read_output(const OrtApi *api, OrtValue *output, const trial *of, iobind_error *error) {
  ONNXTensorElementDataType dtype = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t *dims = NULL;
  size_t rank = 0;
  float *y = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(output, &dtype, &dims, &rank), error, "run");
  if (dtype != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || !has_elements(dims, rank, of->y_count)) {
    return iobind__fail(error, IOBIND_ERROR_RESULT, "output: expected float32 with %zu elements, got another type or size",
                        of->y_count);
  }
  IOBIND__ORT_TRY(api, api->GetTensorMutableData(output, (void **)&y), error, "run");
  if (y == NULL) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "it computed a wrong value");
  }
  memcpy(of->y, y, of->y_count * sizeof *y);
  return IOBIND_OK;
}

static iobind_status run_once(const iobind_device *device, OrtSession *session, const trial *of, iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  static const char *const input_names[] = {"x", "w"};
  static const char *const output_name = "y";
  const size_t count = of->w_rank == 0 ? 1 : 2;
  OrtValue *inputs[2] = {NULL, NULL};
  OrtValue *output = NULL;
  OrtStatus *failed = wrap(device, of->x, of->x_dims, of->x_rank, &inputs[0]);
  if (failed == NULL && count == 2) {
    failed = wrap(device, of->w, of->w_dims, of->w_rank, &inputs[1]);
  }
  const char *what = failed == NULL ? "run" : "input";
  if (failed == NULL) {
    failed = api->Run(session, NULL, input_names, (const OrtValue *const *)inputs, count, &output_name, 1, &output);
  }
  iobind_status status =
      failed == NULL ? read_output(api, output, of, error) : iobind__ort_fail(api, failed, error, "%s", what);
  OrtValue *const values[] = {inputs[0], inputs[1], output};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    if (values[i] != NULL) {
      api->ReleaseValue(values[i]);
    }
  }
  return status;
}

/* Clear an error that the program's own calls have left in this thread: the EP would take it for one of the device, and the
 * answer is stored. */
static void forget_errors_of_program(const iobind_device *device) {
  if (device->context != NULL) {
    iobind__context_forget_error(device->context);
  }
}

static iobind_status try_device(iobind_device *device, const iobind__device_options *given, const trial *of,
                                iobind_error *error) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  OrtSessionOptions *options = NULL;
  OrtSession *session = NULL;
  forget_errors_of_program(device);
  IOBIND__ORT_TRY(api, api->CreateSessionOptions(&options), error, "session");
  const iobind__appended what = {&device->ep_device, 1, given->keys, given->values, given->count};
  OrtStatus *made = api->SetIntraOpNumThreads(options, 1);
  iobind_status status = made == NULL ? iobind__device_driver_of(device)->append(device, &what, options, error) : IOBIND_OK;
  if (status != IOBIND_OK) {
    api->ReleaseSessionOptions(options);
    return status;
  }
  if (made == NULL) {
    made = api->CreateSessionFromArray(runtime->env, of->model, of->bytes, options, &session);
  }
  status = made == NULL ? run_once(device, session, of, error) : iobind__ort_fail(api, made, error, "session");
  if (session != NULL) {
    api->ReleaseSession(session);
  }
  api->ReleaseSessionOptions(options);
  return status;
}

static iobind_status try_identity(iobind_device *device, const iobind__device_options *given, iobind_error *error) {
  float x = 1.5f;
  float y = 0;
  const trial of = {.model = identity_model, .bytes = sizeof identity_model, .x = &x, .y = &y, .y_count = 1};
  IOBIND__TRY(try_device(device, given, &of, error));
  return y == x ? IOBIND_OK : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "it computed a wrong value");
}

/* ---- known answers: sums of whole numbers, exact in every type and order in which a device may add ------------------- */

enum {
  CHANNELS = 33,
  CONV_OUT = 4,
  CONV_IN = 8,
  CONV_KERNEL = 3,
  CONV_WIDTH = CONV_IN - CONV_KERNEL + 1,
  CONV_COUNT = CONV_OUT * CONV_WIDTH,
  ROWS = 5,
  COLUMNS = 7,
  PRODUCT_COUNT = ROWS * COLUMNS,
  MOST = CHANNELS * CONV_OUT * CONV_KERNEL /* elements of an input */
};

/* A node whose answer is known. */
typedef struct known {
  const char *name; /* for a message */
  const char *op_type;
  int64_t x_dims[3];
  int64_t w_dims[3];
  size_t x_rank;
  size_t w_rank;
  size_t y_rank;
  size_t y_count;
  float (*answer)(const float *x, const float *w, size_t index);
} known;

static float conv_answer(const float *x, const float *w, size_t index) {
  float sum = 0;
  for (size_t c = 0; c < CHANNELS; c++) {
    for (size_t k = 0; k < CONV_KERNEL; k++) {
      sum += x[c * CONV_IN + index % CONV_WIDTH + k] * w[(index / CONV_WIDTH * CHANNELS + c) * CONV_KERNEL + k];
    }
  }
  return sum;
}

static float product_answer(const float *x, const float *w, size_t index) {
  float sum = 0;
  for (size_t k = 0; k < CHANNELS; k++) {
    sum += x[index / COLUMNS * CHANNELS + k] * w[k * COLUMNS + index % COLUMNS];
  }
  return sum;
}

static float sum_answer(const float *x, const float *w, size_t index) {
  float sum = 0;
  (void)w;
  (void)index;
  for (size_t i = 0; i < (size_t)ROWS * CHANNELS; i++) {
    sum += x[i];
  }
  return sum;
}

static const known known_answers[] = {
    {.name = "Conv with 33 channels",
     .op_type = "Conv",
     .x_dims = {1, CHANNELS, CONV_IN},
     .w_dims = {CONV_OUT, CHANNELS, CONV_KERNEL},
     .x_rank = 3,
     .w_rank = 3,
     .y_rank = 3,
     .y_count = CONV_COUNT,
     .answer = conv_answer},
    {.name = "MatMul over 33 elements",
     .op_type = "MatMul",
     .x_dims = {ROWS, CHANNELS},
     .w_dims = {CHANNELS, COLUMNS},
     .x_rank = 2,
     .w_rank = 2,
     .y_rank = 2,
     .y_count = PRODUCT_COUNT,
     .answer = product_answer},
    {.name = "ReduceSum of 5x33 elements",
     .op_type = "ReduceSum",
     .x_dims = {ROWS, CHANNELS},
     .x_rank = 2,
     .y_rank = 2,
     .y_count = 1,
     .answer = sum_answer},
};

static void write_model(const known *of, iobind__bytes *model) {
  iobind__bytes graph = {0};
  iobind__onnx_input(&graph, &(iobind__onnx_value){"x", IOBIND_DTYPE_FLOAT32, of->x_rank});
  if (of->w_rank > 0) {
    iobind__onnx_input(&graph, &(iobind__onnx_value){"w", IOBIND_DTYPE_FLOAT32, of->w_rank});
  }
  iobind__onnx_node(&graph, &(iobind__onnx_op){of->op_type, {"x", of->w_rank > 0 ? "w" : NULL}, "y", IOBIND__NO_AXIS});
  iobind__onnx_output(&graph, &(iobind__onnx_value){"y", IOBIND_DTYPE_FLOAT32, of->y_rank});
  iobind__onnx_write(&graph, "known", model);
}

/* Whole numbers from -2 to 2. */
static void fill(float *values, unsigned seed) {
  for (unsigned i = 0; i < MOST; i++) {
    values[i] = (float)((i * i * 7 + i * 3 + seed) % 11 % 5) - 2;
  }
}

/* A run that fails leaves *wrong false. */
static iobind_status try_known(iobind_device *device, const known *of, bool *wrong, iobind_error *error) {
  static const iobind__device_options none = {0};
  float x[MOST];
  float w[MOST];
  float y[PRODUCT_COUNT];
  iobind__bytes model = {0};
  write_model(of, &model);
  fill(x, 0);
  fill(w, 1);
  const trial tried = {model.data, model.length, x, of->x_dims, of->x_rank, w, of->w_dims, of->w_rank, y, of->y_count};
  iobind_status status = model.failed ? iobind__out_of_memory(error, "model") : try_device(device, &none, &tried, error);
  free(model.data);
  for (size_t i = 0; status == IOBIND_OK && i < of->y_count; i++) {
    const float off = y[i] - of->answer(x, w, i);
    *wrong = *wrong || !(off > -0.5f && off < 0.5f);
  }
  *wrong = *wrong || status == IOBIND_ERROR_RESULT; /* an output of a wrong type or size */
  return status == IOBIND_ERROR_RESULT ? IOBIND_OK : status;
}

/* Adds the names of the nodes that are computed wrong. A node that the device refuses is only logged: a session that uses it
 * gets the error. */
static iobind_status try_all_known(iobind_device *device, iobind__text *wrong, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < sizeof known_answers / sizeof known_answers[0]; i++) {
    bool is_wrong = false;
    status = try_known(device, &known_answers[i], &is_wrong, error);
    if (status != IOBIND_OK && status != IOBIND_ERROR_OUT_OF_MEMORY) {
      iobind__log_line(device->runtime->log, IOBIND_LOG_INFO, "iobind: device_check: %s: %s is not checked: %s", device->spec,
                       known_answers[i].name, error->message);
      status = IOBIND_OK;
    } else if (is_wrong) {
      iobind__text_add(wrong, "%s%s", wrong->length == 0 ? "computes wrong: " : ", ", known_answers[i].name);
      status = wrong->failed ? iobind__out_of_memory(error, "reason") : status;
    }
  }
  return status;
}

static iobind_status compute_known(iobind_device *device, iobind_error *reason) {
  iobind__scope scope;
  iobind__text wrong = {0};
  iobind_status status = iobind__guard_enter(device->guard, &scope, reason);
  if (status == IOBIND_OK) {
    status = try_all_known(device, &wrong, reason);
  }
  iobind__guard_leave(&scope);
  if (status == IOBIND_OK && wrong.length > 0) {
    status = iobind__fail(reason, IOBIND_ERROR_RESULT, "%s", iobind__text_get(&wrong));
  }
  iobind__text_free(&wrong);
  return status;
}

iobind_status iobind__device_works_with(iobind_device *device, const iobind__device_options *given, iobind_error *reason) {
  iobind__scope scope;
  *reason = (iobind_error)IOBIND_ERROR_INIT;
  iobind_status status = iobind__guard_enter(device->guard, &scope, reason);
  if (status == IOBIND_OK) {
    status = try_identity(device, given, reason);
  }
  iobind__guard_leave(&scope);
  if (status != IOBIND_OK) {
    status = IOBIND_ERROR_WRONG_DEVICE;
    iobind__text_leave_out(reason->message, device->spec); /* the EP's message may name the device, too */
  }
  return status;
}

static iobind_status ask_whether_it_works(iobind_device *device, iobind_error *reason) {
  static const iobind__device_options none = {0};
  return iobind__device_works_with(device, &none, reason);
}

static iobind_status ask_once(iobind_device *device, iobind__answer *answer,
                              iobind_status (*ask)(iobind_device *device, iobind_error *reason), iobind_error *reason) {
  pthread_mutex_lock(&device->check_mutex);
  if (!answer->known) {
    answer->error = (iobind_error)IOBIND_ERROR_INIT;
    answer->status = ask(device, &answer->error);
    answer->known =
        answer->status != IOBIND_ERROR_OUT_OF_MEMORY; /* this does not depend on the device: check again next time */
  }
  iobind_status status = answer->status;
  *reason = answer->error;
  pthread_mutex_unlock(&device->check_mutex);
  return status;
}

iobind_status iobind__device_works(iobind_device *device, iobind_error *reason) {
  return ask_once(device, &device->works, ask_whether_it_works, reason);
}

iobind_status iobind__device_computes(iobind_device *device, iobind_error *reason) {
  IOBIND__TRY(iobind__device_works(device, reason));
  return device == device->runtime->cpu /* the reference */
             ? IOBIND_OK
             : ask_once(device, &device->computes, compute_known, reason);
}

iobind_status iobind_device_check(iobind_device *device, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_check", error));
  IOBIND__TRY(iobind__process_check("device_check", error));
  iobind_error reason;
  iobind_status status = iobind__device_computes(device, &reason);
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, reason.ort_code, "device_check: %s%s%s", device->spec,
                      status == IOBIND_ERROR_RESULT ? " " : ": ", reason.message);
  }
  return status;
}
