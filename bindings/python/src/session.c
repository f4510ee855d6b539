/* Sessions. */
#include "core.h"

#include <string.h>

/* Two lists of str in a dict: keys and values. */
static int pairs_of(PyObject *options, const char *keys, const char *values, const char ***key_list, const char ***value_list,
                    size_t *count) {
  size_t value_count = 0;
  if (strings_of(PyDict_GetItemString(options, keys), key_list, count) != 0 ||
      strings_of(PyDict_GetItemString(options, values), value_list, &value_count) != 0) {
    return -1;
  }
  if (*count != value_count) {
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "session: expected as many values as keys");
    return -1;
  }
  return 0;
}

static int number_of(PyObject *options, const char *name, int32_t *out) {
  PyObject *given = PyDict_GetItemString(options, name);
  if (given == NULL) {
    return PyErr_Occurred() ? -1 : 0;
  }
  int overflow;
  long number = PyLong_AsLongAndOverflow(given, &overflow);
  if (!PyErr_Occurred() && overflow == 0 && number >= INT32_MIN && number <= INT32_MAX) {
    *out = (int32_t)number;
    return 0;
  }
  raise_format(IOBIND_ERROR_INVALID_ARGUMENT, "session: %s: expected a number of 32 bits, got %R", name, given);
  return -1;
}

/* A path's bytes, which need not be UTF-8. None: NULL. */
static int path_of(PyObject *bytes, const char **out) {
  *out = NULL;
  return bytes == NULL || bytes == Py_None ? 0 : PyBytes_AsStringAndSize(bytes, (char **)(uintptr_t)out, NULL);
}

/* (runs, absolute, relative); NULL: no verified runs. */
static int verify_of(PyObject *given, iobind_verify *out) {
  unsigned int runs = 0;
  if (given == NULL) {
    return PyErr_Occurred() ? -1 : 0;
  }
  if (!PyArg_ParseTuple(given, "Idd", &runs, &out->absolute, &out->relative)) {
    return -1;
  }
  out->runs = runs;
  return 0;
}

/* The arrays of a session's options. */
typedef struct lists {
  iobind_device **devices;
  const char **lists[5];
  int64_t *dim_values;
} lists;

static int fill(PyObject *dict, iobind_session_options *options, lists *made) {
  int32_t flags = 0;
  PyObject *devices = PyDict_GetItemString(dict, "devices");
  Py_ssize_t count = devices == NULL ? 0 : PyList_Size(devices);
  made->devices = PyMem_Calloc((size_t)count + 1, sizeof(iobind_device *));
  if (made->devices == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    Device *device;
    if (device_or_none(PyList_GetItem(devices, i), &device) != 0 || device == NULL) {
      return -1;
    }
    made->devices[i] = device->handle;
  }
  options->devices = made->devices;
  options->device_count = (size_t)count;
  if (number_of(dict, "flags", &flags) != 0 || number_of(dict, "policy", &options->policy) != 0 ||
      number_of(dict, "optimization", &options->optimization) != 0 ||
      number_of(dict, "threads", &options->intra_op_threads) != 0 ||
      number_of(dict, "inter_threads", &options->inter_op_threads) != 0 ||
      pairs_of(dict, "ep_keys", "ep_values", &made->lists[0], &made->lists[1], &options->ep_option_count) != 0 ||
      pairs_of(dict, "config_keys", "config_values", &made->lists[2], &made->lists[3], &options->config_count) != 0 ||
      strings_of(PyDict_GetItemString(dict, "dim_names"), &made->lists[4], &options->dim_count) != 0) {
    return -1;
  }
  options->flags = (uint32_t)flags;
  int32_t graphs = 0;
  if (number_of(dict, "graphs", &graphs) != 0 || graphs < 0) {
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "session: graphs: expected 0 or more");
    return -1;
  }
  options->graph_limit = (size_t)graphs;
  if (verify_of(PyDict_GetItemString(dict, "verify"), &options->verify) != 0) {
    return -1;
  }
  Stream *stream;
  if (stream_or_none(PyDict_GetItemString(dict, "stream"), &stream) != 0) {
    return -1;
  }
  options->stream = stream == NULL ? NULL : stream->handle;
  options->ep_keys = made->lists[0];
  options->ep_values = made->lists[1];
  options->config_keys = made->lists[2];
  options->config_values = made->lists[3];
  options->dim_names = made->lists[4];
  PyObject *values = PyDict_GetItemString(dict, "dim_values");
  made->dim_values = PyMem_Calloc(options->dim_count + 1, sizeof *made->dim_values);
  if (made->dim_values == NULL ||
      (options->dim_count > 0 && (values == NULL || PyList_Size(values) != (Py_ssize_t)options->dim_count))) {
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "session: expected as many dim values as names");
    return -1;
  }
  for (size_t i = 0; i < options->dim_count; i++) {
    made->dim_values[i] = PyLong_AsLongLong(PyList_GetItem(values, (Py_ssize_t)i));
  }
  options->dim_values = made->dim_values;
  PyObject *profile = PyDict_GetItemString(dict, "profile");
  return PyErr_Occurred() || path_of(profile, &options->profile) != 0 ? -1 : 0;
}

typedef iobind_status (*describe_value)(const iobind_session *, size_t, iobind_value_info *, iobind_error *);

/* A dict from names to indices. */
static PyObject *index_of(const session_value *values, size_t count) {
  PyObject *index = PyDict_New();
  for (size_t i = 0; index != NULL && i < count; i++) {
    PyObject *number = PyLong_FromSize_t(i);
    if (number == NULL || PyDict_SetItem(index, values[i].name, number) != 0) {
      Py_CLEAR(index);
    }
    Py_XDECREF(number);
  }
  return index;
}

static void free_values(session_value *values, size_t count) {
  for (size_t i = 0; values != NULL && i < count; i++) {
    Py_XDECREF(values[i].name);
  }
  PyMem_Free(values);
}

static session_value *values_of(const Session *self, size_t count, describe_value get) {
  const iobind_device *cpu = iobind_runtime_get_device(((Runtime *)self->runtime)->handle, 0);
  session_value *values = PyMem_Calloc(count + 1, sizeof *values);
  if (values == NULL) {
    return (session_value *)PyErr_NoMemory();
  }
  for (size_t i = 0; i < count; i++) {
    iobind_value_info info = IOBIND_VALUE_INFO_INIT;
    (void)!get(self->handle, i, &info, NULL); /* it cannot fail: the index is right */
    bool is_tensor = info.kind == IOBIND_VALUE_TENSOR;
    values[i] =
        (session_value){PyUnicode_FromString(info.name), is_tensor && info.dtype != IOBIND_DTYPE_STRING ? info.dtype : 0,
                        is_tensor, info.device == cpu, info.device == cpu || info.memory != IOBIND_MEMORY_DEFAULT};
    if (values[i].name == NULL) {
      free_values(values, count);
      return NULL;
    }
  }
  return values;
}

/* Are all inputs and outputs tensors, as a binding needs? */
static bool has_only_tensors(const Session *self) {
  bool only = true;
  for (size_t i = 0; i < self->input_count; i++) {
    only = only && self->inputs[i].is_tensor;
  }
  for (size_t i = 0; i < self->output_count; i++) {
    only = only && self->outputs[i].is_tensor;
  }
  return only;
}

static PyObject *session_of(PyTypeObject *type, iobind_session *handle, PyObject *runtime, bool captures_graphs) {
  Session *self = (Session *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) {
    iobind_session_destroy(handle);
    return NULL;
  }
  self->handle = handle;
  Py_INCREF(runtime);
  self->runtime = runtime;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_get_info(handle, &info, &error) != IOBIND_OK) {
    raise_error(&error);
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  self->input_count = info.input_count;
  self->output_count = info.output_count;
  self->captures_graphs = captures_graphs;
  self->inputs = values_of(self, info.input_count, iobind_session_get_input);
  self->outputs = self->inputs == NULL ? NULL : values_of(self, info.output_count, iobind_session_get_output);
  self->input_index = self->outputs == NULL ? NULL : index_of(self->inputs, info.input_count);
  self->output_index = self->input_index == NULL ? NULL : index_of(self->outputs, info.output_count);
  if (self->output_index == NULL) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  self->runs_by_binding = !captures_graphs && has_only_tensors(self);
  return (PyObject *)self;
}

/* Session._make(runtime, the path's bytes or None, the model's or None, options) */
static PyObject *session_make(PyObject *type, PyObject *arguments) {
  PyObject *runtime;
  PyObject *file;
  const char *path;
  PyObject *bytes;
  PyObject *dict;
  if (!PyArg_ParseTuple(arguments, "O!OOO!", runtime_type, &runtime, &file, &bytes, &PyDict_Type, &dict) ||
      path_of(file, &path) != 0) {
    return NULL;
  }
  Py_buffer model = {0};
  if (path == NULL && PyObject_GetBuffer(bytes, &model, PyBUF_C_CONTIGUOUS) != 0) {
    return NULL;
  }
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  lists made = {0};
  iobind_session *handle = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  if (fill(dict, &options, &made) == 0) {
    iobind_runtime *on = ((Runtime *)runtime)->handle;
    iobind_status status;
    if (path != NULL) {
      WITHOUT_GIL(status, iobind_session_create(on, path, &options, &handle, &error));
    } else {
      WITHOUT_GIL(status, iobind_session_create_from_memory(on, model.buf, (size_t)model.len, &options, &handle, &error));
    }
    if (status != IOBIND_OK) {
      raise_error(&error);
    }
  }
  if (path == NULL) {
    PyBuffer_Release(&model);
  }
  PyMem_Free(made.devices);
  PyMem_Free(made.dim_values);
  for (size_t i = 0; i < 5; i++) {
    PyMem_Free(made.lists[i]);
  }
  release_now();
  return handle == NULL ? NULL : session_of((PyTypeObject *)type, handle, runtime, options.graph_limit > 0);
}

/* Session._adopt(runtime, address, owner) */
static PyObject *session_adopt(PyObject *type, PyObject *arguments) {
  PyObject *runtime;
  void *address;
  PyObject *owner;
  if (!PyArg_ParseTuple(arguments, "O!O&O", runtime_type, &runtime, to_address, &address, &owner)) {
    return NULL;
  }
  iobind_session *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_session_wrap(((Runtime *)runtime)->handle, address, release_object, owner, &handle, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_INCREF(owner);
  return session_of((PyTypeObject *)type, handle, runtime, false);
}

static void give_up(Session *self) {
  iobind_session *handle = self->handle;
  self->handle = NULL; /* before the GIL is released */
  Py_BEGIN_ALLOW_THREADS
  iobind_session_destroy(handle);
  Py_END_ALLOW_THREADS
  release_now();
}

static void session_dealloc(Session *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  give_up(self);
  free_values(self->inputs, self->input_count);
  free_values(self->outputs, self->output_count);
  Py_XDECREF(self->input_index);
  Py_XDECREF(self->output_index);
  Py_XDECREF(self->runtime);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

bool session_is_open(const Session *self) {
  if (self->is_closed) {
    raise_status(IOBIND_ERROR_INVALID_STATE, "session: it is closed");
  }
  return !self->is_closed;
}

void session_leave(Session *self) {
  self->bindings--;
  if (self->is_closed && self->bindings == 0) {
    give_up(self);
  }
}

/* The library's session is freed with its last binding, tensor or pipeline. */
static PyObject *session_close(Session *self, PyObject *none) {
  (void)none;
  if (self->calls > 0) {
    return raise_status(IOBIND_ERROR_INVALID_STATE, "close: a call of another thread is in flight on the session");
  }
  self->is_closed = true;
  if (self->bindings == 0) {
    give_up(self);
  }
  Py_RETURN_NONE;
}

static PyObject *session_get_closed(Session *self, void *none) {
  (void)none;
  return PyBool_FromLong(self->is_closed);
}

static PyObject *describe(Session *self, const iobind_value_info *info) {
  PyObject *dims = PyTuple_New((Py_ssize_t)(info->has_shape ? info->rank : 0));
  for (size_t i = 0; dims != NULL && info->has_shape && i < info->rank; i++) {
    bool named = info->symbols != NULL && info->symbols[i][0] != '\0';
    PyObject *dim = info->dims[i] >= 0 ? PyLong_FromLongLong(info->dims[i])
                    : named            ? PyUnicode_FromString(info->symbols[i])
                                       : (Py_INCREF(Py_None), Py_None);
    if (dim == NULL || PyTuple_SetItem(dims, (Py_ssize_t)i, dim) != 0) {
      Py_CLEAR(dims);
    }
  }
  if (dims != NULL && !info->has_shape) {
    Py_DECREF(dims);
    Py_INCREF(Py_None);
    dims = Py_None;
  }
  return dims == NULL
             ? NULL
             : Py_BuildValue("(siiNNis)", info->name, info->kind, info->dtype, dims, device_object(info->device, self->runtime),
                             info->memory, info->memory_name == NULL ? "" : info->memory_name);
}

/* (name, kind, dtype, dims or None, device, memory, memory's name) of all inputs, or outputs */
static PyObject *session_values(Session *self, PyObject *which) {
  if (!session_is_open(self)) {
    return NULL;
  }
  int outputs = PyObject_IsTrue(which);
  if (outputs < 0) {
    return NULL;
  }
  size_t count = outputs ? self->output_count : self->input_count;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < count; i++) {
    iobind_value_info info = IOBIND_VALUE_INFO_INIT;
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status = outputs ? iobind_session_get_output(self->handle, i, &info, &error)
                                   : iobind_session_get_input(self->handle, i, &info, &error);
    PyObject *value = status == IOBIND_OK ? describe(self, &info) : raise_error(&error);
    if (value == NULL || PyList_Append(list, value) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(value);
  }
  return list;
}

static PyObject *session_metadata(Session *self, PyObject *none) {
  (void)none;
  if (!session_is_open(self)) {
    return NULL;
  }
  PyObject *entries = PyDict_New();
  const char *key;
  const char *value;
  for (size_t i = 0; entries != NULL && iobind_session_get_metadata(self->handle, i, &key, &value, NULL) == IOBIND_OK; i++) {
    if (set_text(entries, key, value) != 0) {
      Py_CLEAR(entries);
    }
  }
  return entries;
}

static PyObject *session_info(Session *self, PyObject *none) {
  (void)none;
  if (!session_is_open(self)) {
    return NULL;
  }
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_session_get_info(self->handle, &info, &error) != IOBIND_OK
             ? raise_error(&error)
             : Py_BuildValue("{s:L,s:L,s:s,s:s,s:s,s:s,s:n,s:n,s:n,s:n}", "opset", (long long)info.opset, "model_version",
                             (long long)info.model_version, "producer", info.producer, "graph_name", info.graph_name, "domain",
                             info.domain, "description", info.description, "graph_count", (Py_ssize_t)info.graph_count,
                             "kept_graph_count", (Py_ssize_t)info.kept_graph_count, "node_count", (Py_ssize_t)info.node_count,
                             "device_node_count", (Py_ssize_t)info.device_node_count);
}

static PyObject *session_nodes(Session *self, PyObject *none) {
  (void)none;
  if (!session_is_open(self)) {
    return NULL;
  }
  PyObject *list = PyList_New(0);
  iobind_node_info info = IOBIND_NODE_INFO_INIT;
  for (size_t i = 0; list != NULL && iobind_session_get_node(self->handle, i, &info, NULL) == IOBIND_OK; i++) {
    PyObject *node = Py_BuildValue("{s:s,s:s,s:s,s:s}", "name", info.name, "domain", info.domain, "op_type", info.op_type,
                                   "ep_name", info.ep_name);
    if (node == NULL || PyList_Append(list, node) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(node);
  }
  return list;
}

/* _state_kind(output, input): the number of the kind, the axis of the length or None, and how it is carried by default */
static PyObject *session_state_kind(Session *self, PyObject *arguments) {
  Py_ssize_t output;
  Py_ssize_t input;
  if (!session_is_open(self) || !PyArg_ParseTuple(arguments, "nn", &output, &input)) {
    return NULL;
  }
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITH_SESSION(self, status, iobind_session_get_state_kind(self->handle, (size_t)output, (size_t)input, &info, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  return info.axis == SIZE_MAX ? Py_BuildValue("(iOi)", (int)info.kind, Py_None, (int)info.mode)
                               : Py_BuildValue("(ini)", (int)info.kind, (Py_ssize_t)info.axis, (int)info.mode);
}

/* _create(device, memory, dtype, shape) */
static PyObject *session_create_tensor(Session *self, PyObject *arguments) {
  PyObject *device;
  PyObject *shape;
  int memory;
  int dtype;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  if (!session_is_open(self) || !PyArg_ParseTuple(arguments, "O!iiO", device_type, &device, &memory, &dtype, &shape) ||
      dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITH_SESSION(self, status,
               iobind_session_create_tensor(self->handle, ((Device *)device)->handle, (iobind_memory)memory,
                                            (iobind_dtype)dtype, dims, rank, &handle, &error));
  return status == IOBIND_OK ? tensor_object(handle) : raise_error(&error);
}

static PyObject *session_end_profile(Session *self, PyObject *none) {
  (void)none;
  if (!session_is_open(self)) {
    return NULL;
  }
  const char *path;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITH_SESSION(self, status, iobind_session_end_profile(self->handle, &path, &error));
  return status == IOBIND_OK ? PyUnicode_DecodeFSDefault(path) : raise_error(&error);
}

static PyMethodDef session_methods[] = {
    {"_make", (PyCFunction)session_make, METH_VARARGS | METH_CLASS, NULL},
    {"_adopt", (PyCFunction)session_adopt, METH_VARARGS | METH_CLASS, NULL},
    {"_values", (PyCFunction)session_values, METH_O, NULL},
    {"_info", (PyCFunction)session_info, METH_NOARGS, NULL},
    {"_metadata", (PyCFunction)session_metadata, METH_NOARGS, NULL},
    {"_nodes", (PyCFunction)session_nodes, METH_NOARGS, NULL},
    {"_state_kind", (PyCFunction)session_state_kind, METH_VARARGS, NULL},
    {"_create", (PyCFunction)session_create_tensor, METH_VARARGS, NULL},
    {"_run_tensors", (PyCFunction)session_run_tensors, METH_O, NULL},
    {"_run_arrays", (PyCFunction)session_run_arrays, METH_O, NULL},
    {"close", (PyCFunction)session_close, METH_NOARGS,
     "close()\n--\n\nClose the session, as does the end of a block `with session:`. Its bindings, tensors and maps "
     "remain valid; its memory is freed with the last of them. Later calls of the session raise InvalidState, and so "
     "does this call during another thread's call."},
    {"end_profile", (PyCFunction)session_end_profile, METH_NOARGS,
     "end_profile()\n--\n\nEnd the profile of a session created with `profile=`, and return the file's path. Raises "
     "InvalidState if no profile is being recorded."},
    {NULL, NULL, 0, NULL},
};

static PyObject *session_output_index(Session *self, void *none) {
  (void)none;
  Py_INCREF(self->output_index);
  return self->output_index;
}

static PyGetSetDef session_fields[] = {
    {"_output_index", (getter)session_output_index, NULL, NULL, NULL},
    {"_is_closed", (getter)session_get_closed, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot session_slots[] = {
    {Py_tp_dealloc, session_dealloc}, {Py_tp_methods, session_methods}, {Py_tp_getset, session_fields}, {0, NULL}};
PyType_Spec session_spec = {"iobind._core.Session", sizeof(Session), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, session_slots};
