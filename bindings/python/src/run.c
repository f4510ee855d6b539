/* Session.run: one run, without a binding of the caller. Dense arrays of the right type are passed on here, so that only the
 * results are Python objects; Python converts all others. */
#include "core.h"

#include <string.h>

/* Bind all inputs and outputs. An input on a device must be where the session reads it. One on the host is copied there, unless
 * the session reads host memory. Outputs are placed on the host. */
static iobind_status bind_all(const Session *self, iobind_binding *binding, iobind_tensor *const *inputs) {
  iobind_device *cpu = iobind_runtime_get_device(((Runtime *)self->runtime)->handle, 0);
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < self->input_count && status == IOBIND_OK; i++) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    (void)!iobind_tensor_get_info(inputs[i], &info, NULL); /* a NULL tensor is refused below */
    bool on_host = info.host_readable != 0 || info.dtype == IOBIND_DTYPE_STRING;
    status = iobind_binding_set_input(binding, i, on_host ? IOBIND_INPUT_LIVE : IOBIND_INPUT_RESIDENT, inputs[i], NULL, NULL);
  }
  for (size_t i = 0; i < self->output_count && status == IOBIND_OK; i++) {
    if (self->outputs[i].on_cpu) { /* the default: FRESH, where the session leaves it */
      continue;
    }
    status = iobind_binding_place_output(binding, i, IOBIND_OUTPUT_FRESH, cpu, IOBIND_MEMORY_DEFAULT, NULL);
  }
  return status;
}

/* A binding for one run, with everything bound. NULL: a binding refuses these inputs. */
static iobind_binding *bind_once(const Session *self, iobind_tensor *const *inputs) {
  iobind_binding *binding;
  if (iobind_binding_create(self->handle, &binding, NULL) != IOBIND_OK) {
    return NULL;
  }
  if (bind_all(self, binding, inputs) != IOBIND_OK || iobind_binding_check(binding, NULL) != IOBIND_OK) {
    iobind_binding_destroy(binding);
    return NULL;
  }
  return binding;
}

static iobind_status take_all(const Session *self, iobind_binding *binding, iobind_tensor **outputs, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < self->output_count && status == IOBIND_OK; i++) {
    status = iobind_binding_take_output(binding, i, &outputs[i], error);
  }
  for (size_t i = 0; i < self->output_count && status != IOBIND_OK; i++) {
    iobind_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}

/* Replace "binding_..." in the message, because the caller has no binding. It fits: "session_run" is not longer than any of
 * these names. */
static void name_session_run(iobind_error *error) {
  static const char name[] = "session_run";
  const char *rest = strncmp(error->message, "binding_", 8) == 0 ? strchr(error->message, ':') : NULL;
  if (rest != NULL) {
    memmove(error->message + sizeof name - 1, rest, strlen(rest) + 1);
    memcpy(error->message, name, sizeof name - 1);
  }
}

/* Run the binding of bind_once, on the main thread, without the GIL. */
static iobind_status run_by_binding(const Session *self, iobind_binding *binding, iobind_tensor **outputs,
                                    iobind_error *error) {
  (void)run_begins(binding); /* false only on other threads, which do not call this function */
  iobind_status status = iobind_binding_run(binding, NULL, error);
  if (status == IOBIND_OK) {
    status = take_all(self, binding, outputs, error);
  }
  run_ends();
  iobind_binding_destroy(binding);
  if (status != IOBIND_OK) {
    name_session_run(error);
  }
  return status;
}

/* iobind_session_run cannot be cancelled, but a run of a binding can. So the main thread, which handles Ctrl-C, uses a binding
 * for this run. ORT accepts some inputs that a binding refuses, such as dims of 1 and N that have one name in the model. So
 * what a binding refuses before the run is passed to iobind_session_run, which also has the better messages. */
static iobind_status run_without_gil(const Session *self, bool can_cancel, iobind_tensor *const *inputs,
                                     iobind_tensor **outputs, iobind_error *error) {
  iobind_binding *binding = can_cancel ? bind_once(self, inputs) : NULL;
  if (binding != NULL) {
    return run_by_binding(self, binding, outputs, error);
  }
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = self->input_count;
  return iobind_session_run(self->handle, &request, outputs, self->output_count, error);
}

static iobind_status run_once(Session *self, iobind_tensor *const *inputs, iobind_tensor **outputs, iobind_error *error) {
  const bool can_cancel = self->runs_by_binding && is_main_thread();
  iobind_status status;
  WITH_SESSION(self, status, run_without_gil(self, can_cancel, inputs, outputs, error));
  return status;
}

/* Make the run, and raise the exception of a failure. Returns whether it has succeeded. */
static bool run_or_raise(Session *self, iobind_tensor *const *inputs, iobind_tensor **outputs) {
  if (!session_is_open(self)) {
    return false;
  }
  iobind_error error;
  error.struct_size = sizeof error; /* a failure writes the rest */
  iobind_status status = run_once(self, inputs, outputs, &error);
  bool interrupted = status == IOBIND_ERROR_CANCELLED && PyErr_CheckSignals() != 0; /* KeyboardInterrupt */
  if (status != IOBIND_OK && !interrupted) {
    raise_error(&error);
  }
  return status == IOBIND_OK;
}

/* run_tensors(list of tensors): a list of tensors, None for outputs that are not tensors */
PyObject *session_run_tensors(Session *self, PyObject *inputs) {
  if (!PyList_Check(inputs) || (size_t)PyList_Size(inputs) != self->input_count) {
    return raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "session_run: expected a tensor for each input");
  }
  iobind_tensor **handles = PyMem_Calloc(self->input_count + self->output_count + 1, sizeof *handles);
  if (handles == NULL) {
    return PyErr_NoMemory();
  }
  for (size_t i = 0; i < self->input_count; i++) {
    Tensor *tensor;
    if (ready_tensor_or_none(PyList_GetItem(inputs, (Py_ssize_t)i), &tensor) != 0) {
      PyMem_Free(handles);
      return NULL;
    }
    handles[i] = tensor == NULL ? NULL : tensor->handle;
  }
  iobind_tensor **outputs = handles + self->input_count;
  PyObject *list = run_or_raise(self, handles, outputs) ? PyList_New(0) : NULL;
  for (size_t i = 0; i < self->output_count; i++) {
    PyObject *tensor = outputs[i] == NULL ? (Py_INCREF(Py_None), Py_None) : output_object(outputs[i], self);
    if (tensor == NULL || list == NULL || PyList_Append(list, tensor) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(tensor);
  }
  PyMem_Free(handles);
  release_now();
  return list;
}

/* ---- arrays in, arrays out ---- */

/* The arrays of a run, in one block. */
typedef struct feed {
  iobind_tensor **inputs;
  iobind_tensor **outputs;
  Py_buffer *views; /* of the inputs; obj NULL: none */
} feed;

static bool feed_open(const Session *self, feed *made) {
  size_t tensors = self->input_count + self->output_count;
  made->views = PyMem_Calloc(1, self->input_count * sizeof(Py_buffer) + tensors * sizeof(iobind_tensor *));
  made->inputs = (iobind_tensor **)(void *)(made->views + self->input_count);
  made->outputs = made->inputs + self->input_count;
  return made->views != NULL;
}

static void feed_close(const Session *self, feed *made) {
  for (size_t i = 0; i < self->input_count; i++) {
    iobind_tensor_release(made->inputs[i]);
    PyBuffer_Release(&made->views[i]);
  }
  PyMem_Free(made->views);
}

bool array_to_tensor(const Session *self, size_t index, PyObject *value, Py_buffer *view, iobind_tensor **tensor) {
  const int32_t dtype = self->inputs[index].dtype;
  if (value == NULL || PyObject_TypeCheck(value, tensor_type) || PyObject_GetBuffer(value, view, PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return false;
  }
  bool fits = dtype != 0 && view->len > 0 && (view->ndim == 0 || view->shape != NULL) && view->ndim <= IOBIND_MAX_RANK &&
              dtype_of_format(view->format, view->itemsize) == dtype && PyBuffer_IsContiguous(view, 'C') != 0;
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.dtype = dtype;
  buffer.dims = (const int64_t *)view->shape;
  buffer.rank = (size_t)view->ndim;
  buffer.data = view->buf;
  buffer.bytes = (size_t)view->len;
  iobind_device *cpu = iobind_runtime_get_device(((Runtime *)self->runtime)->handle, 0);
  return fits && iobind_tensor_wrap(cpu, &buffer, tensor, NULL) == IOBIND_OK;
}

/* Does the dict have exactly the session's inputs? Take its arrays. */
static bool take_arrays(const Session *self, PyObject *given, feed *made) {
  bool fits = PyDict_CheckExact(given) && (size_t)PyDict_Size(given) == self->input_count;
  for (size_t i = 0; i < self->input_count && fits; i++) {
    fits = array_to_tensor(self, i, PyDict_GetItemWithError(given, self->inputs[i].name), &made->views[i], &made->inputs[i]);
  }
  PyErr_Clear();
  return fits;
}

/* A tensor's array, or None for an output of another kind. Takes ownership of the handle. */
static PyObject *array_of(iobind_tensor *handle, Session *self) {
  if (handle == NULL) {
    Py_RETURN_NONE;
  }
  Tensor *tensor = (Tensor *)output_object(handle, self);
  if (tensor == NULL) {
    return NULL;
  }
  tensor->is_idle = true; /* the run is complete, and there is no other reference yet */
  PyObject *array = tensor_to_numpy(tensor, NULL);
  tensor->is_idle = false;
  Py_DECREF((PyObject *)tensor);
  return array;
}

/* run_arrays(inputs by name): a list of arrays, one for each output; NotImplemented: Python must convert the inputs */
PyObject *session_run_arrays(Session *self, PyObject *given) {
  feed made;
  if (!feed_open(self, &made)) {
    return PyErr_NoMemory();
  }
  PyObject *list = NULL;
  if (!take_arrays(self, given, &made)) {
    list = Py_NotImplemented;
    Py_INCREF(list);
  } else if (run_or_raise(self, made.inputs, made.outputs)) {
    list = PyList_New((Py_ssize_t)self->output_count);
    for (size_t i = 0; i < self->output_count; i++) {
      PyObject *array = array_of(made.outputs[i], self);
      if (array == NULL || list == NULL || PyList_SetItem(list, (Py_ssize_t)i, array) != 0) {
        Py_CLEAR(list);
      }
    }
  }
  feed_close(self, &made);
  release_now();
  return list;
}
