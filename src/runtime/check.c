/* Whether a device works: a session of a one-node model on it, run once. */
#include "runtime/driver.h"
#include "runtime/runtime.h"

/* ONNX bytes of "y = Identity(x)" over a float32 scalar, IR version 8, opset 13. As bytes, because the library has no
 * writer. */
static const unsigned char identity_model[] = {
    0x08, 0x08,                                                                        /* ir_version 8 */
    0x3a, 0x2f,                                                                        /* graph */
    0x0a, 0x10, 0x0a, 0x01, 'x',  0x12, 0x01, 'y',  0x22, 0x08, 'I',  'd',  'e',  'n', /* node: input, output, op_type */
    't',  'i',  't',  'y',  0x12, 0x01, 'g',                                           /* name */
    0x5a, 0x0b, 0x0a, 0x01, 'x',  0x12, 0x06, 0x0a, 0x04, 0x08, 0x01, 0x12, 0x00,      /* input x: float32, scalar */
    0x62, 0x0b, 0x0a, 0x01, 'y',  0x12, 0x06, 0x0a, 0x04, 0x08, 0x01, 0x12, 0x00,      /* output y: float32, scalar */
    0x42, 0x02, 0x10, 0x0d,                                                            /* opset 13 */
};

static iobind_status run_once(const iobind_device *device, OrtSession *session, iobind_error *error) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  float x = 1.5f;
  OrtValue *input = NULL;
  OrtValue *output = NULL;
  IOBIND__ORT_TRY(api,
                  api->CreateTensorWithDataAsOrtValue(runtime->cpu_info, &x, sizeof x, NULL, 0,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input),
                  error, "input");
  static const char *const input_name = "x";
  static const char *const output_name = "y";
  OrtStatus *ran = api->Run(session, NULL, &input_name, (const OrtValue *const *)&input, 1, &output_name, 1, &output);
  iobind_status status = IOBIND_OK;
  float *y = NULL;
  if (ran == NULL) {
    ran = api->GetTensorMutableData(output, (void **)&y);
  }
  if (ran != NULL) {
    status = iobind__ort_fail(api, ran, error, "run");
  } else if (y == NULL || *y != x) {
    status = iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "it computed a wrong value");
  }
  if (output != NULL) {
    api->ReleaseValue(output);
  }
  api->ReleaseValue(input);
  return status;
}

static iobind_status try_device(iobind_device *device, const iobind__device_options *given, iobind_error *error) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  OrtSessionOptions *options = NULL;
  OrtSession *session = NULL;
  IOBIND__ORT_TRY(api, api->CreateSessionOptions(&options), error, "session");
  const iobind__appended what = {&device->ep_device, 1, given->keys, given->values, given->count};
  OrtStatus *made = api->SetIntraOpNumThreads(options, 1);
  iobind_status status = made == NULL ? iobind__device_driver_of(device)->append(device, &what, options, error) : IOBIND_OK;
  if (status != IOBIND_OK) {
    api->ReleaseSessionOptions(options);
    return status;
  }
  if (made == NULL) {
    made = api->CreateSessionFromArray(runtime->env, identity_model, sizeof identity_model, options, &session);
  }
  status = made == NULL ? run_once(device, session, error) : iobind__ort_fail(api, made, error, "session");
  if (session != NULL) {
    api->ReleaseSession(session);
  }
  api->ReleaseSessionOptions(options);
  return status;
}

iobind_status iobind__device_works_with(iobind_device *device, const iobind__device_options *given, iobind_error *reason) {
  iobind__scope scope;
  *reason = (iobind_error)IOBIND_ERROR_INIT;
  iobind_status status = iobind__guard_enter(device->guard, &scope, reason);
  if (status == IOBIND_OK) {
    status = try_device(device, given, reason);
  }
  iobind__guard_leave(&scope);
  if (status != IOBIND_OK) {
    status = IOBIND_ERROR_WRONG_DEVICE;
    iobind__text_leave_out(reason->message, device->spec); /* an EP may have named the device already */
  }
  return status;
}

iobind_status iobind__device_works(iobind_device *device, iobind_error *reason) {
  static const iobind__device_options none = {0};
  pthread_mutex_lock(&device->check_mutex);
  if (!device->checked) {
    device->check_status = iobind__device_works_with(device, &none, &device->check_error);
    device->checked = true;
  }
  iobind_status status = device->check_status;
  *reason = device->check_error;
  pthread_mutex_unlock(&device->check_mutex);
  return status;
}

iobind_status iobind_device_check(iobind_device *device, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_check", error));
  IOBIND__TRY(iobind__process_check("device_check", error));
  iobind_error reason;
  iobind_status status = iobind__device_works(device, &reason);
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, reason.ort_code, "device_check: %s: %s", device->spec, reason.message);
  }
  return status;
}
