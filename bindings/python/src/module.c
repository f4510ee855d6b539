/* The module: its types, its exceptions, and the conversion of arguments. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyTypeObject *runtime_type, *device_type, *stream_type, *event_type, *tensor_type, *session_type, *binding_type, *outputs_type,
    *pipeline_type, *state_type, *batch_type;
PyObject *tensor_class;
PyObject *outputs_class;
static PyObject *exceptions; /* status -> class */

PyObject *raise_status(iobind_status status, const char *message) {
  iobind_error error = IOBIND_ERROR_INIT;
  error.status = (int32_t)status;
  strncpy(error.message, message, sizeof error.message - 1);
  return raise_error(&error);
}

PyObject *raise_error(const iobind_error *error) {
  if (PyErr_Occurred()) {
    return NULL;
  }
  PyObject *number = PyLong_FromLong(error->status);
  PyObject *class = number == NULL || exceptions == NULL ? NULL : PyDict_GetItemWithError(exceptions, number);
  Py_XDECREF(number);
  if (class == NULL) {
    if (!PyErr_Occurred()) {
      PyErr_SetString(PyExc_RuntimeError, error->message);
    }
    return NULL;
  }
  PyObject *text = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
  PyObject *made = text == NULL ? NULL : PyObject_CallFunction(class, "Oi", text, (int)error->ort_code);
  Py_XDECREF(text);
  if (made != NULL) {
    PyErr_SetObject(class, made);
    Py_DECREF(made);
  }
  return NULL;
}

PyObject *raise_format(iobind_status status, const char *format, ...) {
  PyErr_Clear();
  va_list arguments;
  va_start(arguments, format);
  PyObject *text = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  const char *message = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
  if (message != NULL) {
    raise_status(status, message);
  }
  Py_XDECREF(text);
  return NULL;
}

/* ---- arguments ---- */

int strings_of(PyObject *list, const char ***out, size_t *count) {
  *out = NULL;
  *count = 0;
  if (list == NULL || list == Py_None) {
    return 0;
  }
  if (!PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "expected a list of str");
    return -1;
  }
  Py_ssize_t size = PyList_Size(list);
  const char **made = PyMem_Calloc((size_t)size + 1, sizeof *made);
  if (made == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < size; i++) {
    PyObject *item = PyList_GetItem(list, i);
    Py_ssize_t length;
    made[i] = item == NULL ? NULL : PyUnicode_AsUTF8AndSize(item, &length);
    if (made[i] != NULL && strlen(made[i]) != (size_t)length) {
      PyErr_SetString(PyExc_ValueError, "a string with a NUL character");
      made[i] = NULL;
    }
    if (made[i] == NULL) {
      PyMem_Free(made);
      return -1;
    }
  }
  *out = made;
  *count = (size_t)size;
  return 0;
}

int run_options_of(PyObject *tuple, iobind_run_options *out) {
  PyObject *keys;
  PyObject *values;
  const char **key_list;
  const char **value_list;
  size_t value_count;
  *out = (iobind_run_options)IOBIND_RUN_OPTIONS_INIT;
  if (!PyArg_ParseTuple(tuple, "izOO", &out->log_level, &out->tag, &keys, &values) ||
      strings_of(keys, &key_list, &out->config_count) != 0) {
    return -1;
  }
  out->config_keys = key_list;
  if (strings_of(values, &value_list, &value_count) != 0) {
    free_run_options(out);
    return -1;
  }
  out->config_values = value_list;
  if (value_count != out->config_count) {
    free_run_options(out);
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "run options: expected as many values as keys");
    return -1;
  }
  return 0;
}

void free_run_options(const iobind_run_options *options) {
  PyMem_Free((void *)(uintptr_t)options->config_keys);
  PyMem_Free((void *)(uintptr_t)options->config_values);
}

int dims_of(PyObject *sequence, int64_t dims[IOBIND_MAX_RANK], size_t *rank) {
  PyObject *tuple = PySequence_Tuple(sequence);
  if (tuple == NULL) {
    return -1;
  }
  Py_ssize_t size = PyTuple_Size(tuple);
  if (size > IOBIND_MAX_RANK) {
    char message[64];
    Py_DECREF(tuple);
    snprintf(message, sizeof message, "expected at most %d dims, got %lld", IOBIND_MAX_RANK, (long long)size);
    raise_status(IOBIND_ERROR_SHAPE, message);
    return -1;
  }
  for (Py_ssize_t i = 0; i < size; i++) {
    PyObject *number = PyNumber_Index(PyTuple_GetItem(tuple, i));
    dims[i] = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
      Py_DECREF(tuple);
      return -1;
    }
  }
  Py_DECREF(tuple);
  *rank = (size_t)size;
  return 0;
}

PyObject *dims_to_tuple(const int64_t *dims, size_t rank) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)rank);
  for (size_t i = 0; tuple != NULL && i < rank; i++) {
    PyObject *number = PyLong_FromLongLong(dims[i]);
    if (number == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, number) != 0) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

static int object_or_none(PyObject *object, PyTypeObject *type, const char *what, void **out) {
  *out = NULL;
  if (object == NULL || object == Py_None) {
    return 0;
  }
  if (!PyObject_TypeCheck(object, type)) { /* not isinstance(), which accepts proxies such as weakref.proxy */
    PyErr_Format(PyExc_TypeError, "expected %s or None, got %R", what, object);
    return -1;
  }
  *out = object;
  return 0;
}

int stream_or_none(PyObject *object, Stream **out) {
  return object_or_none(object, stream_type, "an iobind.Stream", (void **)out);
}

int event_or_none(PyObject *object, Event **out) {
  return object_or_none(object, event_type, "an iobind.Event", (void **)out);
}

int device_or_none(PyObject *object, Device **out) {
  return object_or_none(object, device_type, "an iobind.Device", (void **)out);
}

int tensor_or_none(PyObject *object, Tensor **out) {
  return object_or_none(object, tensor_type, "an iobind.Tensor", (void **)out);
}

int ready_tensor_or_none(PyObject *object, Tensor **out) {
  int status = tensor_or_none(object, out);
  return status == 0 && *out != NULL ? tensor_order(*out, NULL) : status;
}

int set_text(PyObject *dict, const char *key, const char *value) {
  PyObject *text = PyUnicode_FromString(value);
  int status = text == NULL ? -1 : PyDict_SetItemString(dict, key, text);
  Py_XDECREF(text);
  return status;
}

/* ---- the module ---- */

/* There is one set of types, classes and log for the process, so only the main interpreter may use the module. If it has
 * imported the module before, another interpreter gets a copy of the dict without a call of PyInit__core. So functions that set
 * something make this check, too. */
static int check_interpreter(void) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) {
    return 0;
  }
  PyErr_SetString(PyExc_ImportError, "iobind works in the main interpreter only, not in a sub-interpreter");
  return -1;
}

static int check_class(PyObject *class, PyTypeObject *base) {
  if (PyType_Check(class) && PyType_IsSubtype((PyTypeObject *)class, base)) {
    return 0;
  }
  PyErr_Format(PyExc_TypeError, "use_classes: expected a class that derives from %R, got %R", base, class);
  return -1;
}

static PyObject *use_classes(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *tensors;
  PyObject *outputs;
  PyObject *bindings;
  PyObject *errors;
  if (check_interpreter() != 0 || !PyArg_ParseTuple(arguments, "OOOO!", &tensors, &outputs, &bindings, &PyDict_Type, &errors) ||
      check_class(tensors, tensor_type) != 0 || check_class(outputs, outputs_type) != 0 ||
      check_class(bindings, binding_type) != 0 || give_run((PyTypeObject *)bindings) != 0) {
    return NULL;
  }
  Py_INCREF(tensors);
  Py_INCREF(outputs);
  Py_INCREF(errors);
  SET_REFERENCE(tensor_class, tensors);
  SET_REFERENCE(outputs_class, outputs);
  SET_REFERENCE(exceptions, errors);
  Py_RETURN_NONE;
}

static PyObject *version(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  return PyUnicode_FromString(iobind_get_version_string());
}

static PyObject *status_name(PyObject *module, PyObject *number) {
  (void)module;
  long status = PyLong_AsLong(number);
  return PyErr_Occurred() ? NULL : PyUnicode_FromString(iobind_status_get_name((int32_t)status));
}

static PyObject *dtype_name(PyObject *module, PyObject *number) {
  (void)module;
  long dtype = PyLong_AsLong(number);
  return PyErr_Occurred() ? NULL : PyUnicode_FromString(iobind_dtype_get_name((int32_t)dtype));
}

static PyObject *dtype_bits(PyObject *module, PyObject *number) {
  (void)module;
  long dtype = PyLong_AsLong(number);
  return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(iobind_dtype_get_bits((int32_t)dtype));
}

static PyObject *dtype_bytes(PyObject *module, PyObject *arguments) {
  (void)module;
  int dtype;
  PyObject *shape;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  size_t bytes;
  if (!PyArg_ParseTuple(arguments, "iO", &dtype, &shape) || dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_dtype_get_bytes((iobind_dtype)dtype, dims, rank, &bytes, &error) == IOBIND_OK ? PyLong_FromSize_t(bytes)
                                                                                              : raise_error(&error);
}

static PyObject *host_api_base(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  return PyLong_FromVoidPtr((void *)(uintptr_t)iobind_get_host_api_base());
}

/* preload(directory or None, flags, CUDA's version) */
static PyObject *preload(PyObject *module, PyObject *arguments) {
  (void)module;
  iobind_preload_options options = IOBIND_PRELOAD_OPTIONS_INIT;
  unsigned int flags;
  unsigned int cuda;
  if (!PyArg_ParseTuple(arguments, "zII", &options.directory, &flags, &cuda)) {
    return NULL;
  }
  options.flags = flags;
  options.cuda = cuda;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_preload(&options, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *use_logger(PyObject *module, PyObject *logger) {
  (void)module;
  if (check_interpreter() != 0) {
    return NULL;
  }
  set_logger(logger);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"use_classes", use_classes, METH_VARARGS, NULL},
    {"use_logger", use_logger, METH_O, NULL},
    {"preload", preload, METH_VARARGS, NULL},
    {"version", version, METH_NOARGS, NULL},
    {"status_name", status_name, METH_O, NULL},
    {"dtype_name", dtype_name, METH_O, NULL},
    {"dtype_bits", dtype_bits, METH_O, NULL},
    {"dtype_bytes", dtype_bytes, METH_VARARGS, NULL},
    {"host_api_base", host_api_base, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "iobind._core", .m_size = -1, .m_methods = functions};

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromSpec(spec);
  if (type == NULL || PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type) != 0) {
    Py_XDECREF(type);
    return NULL;
  }
  return (PyTypeObject *)type; /* never released */
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  if (check_interpreter() != 0) {
    return NULL;
  }
  watch_forks();
  PyObject *module = PyModule_Create(&definition);
  bool made =
      module != NULL && (runtime_type = add_type(module, &runtime_spec)) != NULL &&
      (device_type = add_type(module, &device_spec)) != NULL && (stream_type = add_type(module, &stream_spec)) != NULL &&
      (event_type = add_type(module, &event_spec)) != NULL && (tensor_type = add_type(module, &tensor_spec)) != NULL &&
      (session_type = add_type(module, &session_spec)) != NULL && (binding_type = add_type(module, &binding_spec)) != NULL &&
      (outputs_type = add_type(module, &outputs_spec)) != NULL && (pipeline_type = add_type(module, &pipeline_spec)) != NULL &&
      (state_type = add_type(module, &state_spec)) != NULL && (batch_type = add_type(module, &batch_spec)) != NULL &&
      add_type(module, &external_memory_spec) != NULL && add_type(module, &semaphore_spec) != NULL &&
      PyModule_AddFunctions(module, tensor_functions) == 0 && PyModule_AddFunctions(module, external_functions) == 0;
  if (!made) {
    Py_XDECREF(module);
    return NULL;
  }
  return module;
}
