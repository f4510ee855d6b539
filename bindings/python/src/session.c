/* Sessions, and pipelines over them. */
#include "core.h"

#include <string.h>

/* A dict's list fields: (keys, values) of str. */
static int pairs_of(PyObject *options, const char *keys, const char *values, const char ***key_list, const char ***value_list,
                    size_t *count) {
  size_t value_count = 0;
  if (strings_of(PyDict_GetItemString(options, keys), key_list, count) != 0 ||
      strings_of(PyDict_GetItemString(options, values), value_list, &value_count) != 0) {
    return -1;
  }
  if (*count != value_count) {
    raise_status(IOBIND_INVALID_ARGUMENT, "session: as many values as keys");
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
  raise_format(IOBIND_INVALID_ARGUMENT, "session: %s: expected a number of 32 bits, got %R", name, given);
  return -1;
}

/* A path's bytes, which the system need not take for UTF-8. None: NULL. */
static int path_of(PyObject *bytes, const char **out) {
  *out = NULL;
  return bytes == NULL || bytes == Py_None ? 0 : PyBytes_AsStringAndSize(bytes, (char **)(uintptr_t)out, NULL);
}

/* What the options point to while the session is made. */
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
    raise_status(IOBIND_INVALID_ARGUMENT, "session: graphs: expected 0 or more");
    return -1;
  }
  options->graph_limit = (size_t)graphs;
  options->ep_keys = made->lists[0];
  options->ep_values = made->lists[1];
  options->config_keys = made->lists[2];
  options->config_values = made->lists[3];
  options->dim_names = made->lists[4];
  PyObject *values = PyDict_GetItemString(dict, "dim_values");
  made->dim_values = PyMem_Calloc(options->dim_count + 1, sizeof *made->dim_values);
  if (made->dim_values == NULL ||
      (options->dim_count > 0 && (values == NULL || PyList_Size(values) != (Py_ssize_t)options->dim_count))) {
    raise_status(IOBIND_INVALID_ARGUMENT, "session: as many dim values as names");
    return -1;
  }
  for (size_t i = 0; i < options->dim_count; i++) {
    made->dim_values[i] = PyLong_AsLongLong(PyList_GetItem(values, (Py_ssize_t)i));
  }
  options->dim_values = made->dim_values;
  PyObject *profile = PyDict_GetItemString(dict, "profile");
  return PyErr_Occurred() || path_of(profile, &options->profile) != 0 ? -1 : 0;
}

static PyObject *names_of(const iobind_session *session, size_t count,
                          iobind_status (*get)(const iobind_session *, size_t, iobind_value_info *, iobind_error *)) {
  PyObject *index = PyDict_New();
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  for (size_t i = 0; index != NULL && i < count; i++) {
    PyObject *number = PyLong_FromSize_t(i);
    if (number == NULL || get(session, i, &info, NULL) != IOBIND_OK || PyDict_SetItemString(index, info.name, number) != 0) {
      Py_CLEAR(index);
    }
    Py_XDECREF(number);
  }
  return index;
}

/* What a binding takes. */
static bool has_only_tensors(const Session *self) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  for (size_t i = 0; i < self->input_count + self->output_count; i++) {
    bool is_input = i < self->input_count;
    (void)!(is_input ? iobind_session_get_input(self->handle, i, &info, NULL)
                     : iobind_session_get_output(self->handle, i - self->input_count, &info, NULL));
    if (info.kind != IOBIND_VALUE_TENSOR) {
      return false;
    }
  }
  return true;
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
  self->runs_by_binding = !captures_graphs && has_only_tensors(self);
  self->input_index = names_of(handle, info.input_count, iobind_session_get_input);
  self->output_index = names_of(handle, info.output_count, iobind_session_get_output);
  if (self->input_index == NULL || self->output_index == NULL) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
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

static void session_dealloc(Session *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  Py_BEGIN_ALLOW_THREADS
  iobind_session_destroy(self->handle);
  Py_END_ALLOW_THREADS
  release_now();
  Py_XDECREF(self->input_index);
  Py_XDECREF(self->output_index);
  Py_XDECREF(self->runtime);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
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
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_session_get_info(self->handle, &info, &error) != IOBIND_OK
             ? raise_error(&error)
             : Py_BuildValue("{s:L,s:L,s:s,s:s,s:s,s:s,s:n,s:n}", "opset", (long long)info.opset, "model_version",
                             (long long)info.model_version, "producer", info.producer, "graph_name", info.graph_name, "domain",
                             info.domain, "description", info.description, "graph_count", (Py_ssize_t)info.graph_count,
                             "kept_graph_count", (Py_ssize_t)info.kept_graph_count);
}

static PyObject *session_nodes(Session *self, PyObject *none) {
  (void)none;
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

/* All inputs and outputs. An input on a device must be where the session reads it, one on the host is copied there unless the session reads
 * the host; outputs come to the host. */
static iobind_status bind_all(const Session *self, iobind_binding *binding, iobind_tensor *const *inputs) {
  iobind_device *cpu = iobind_runtime_get_device(((Runtime *)self->runtime)->handle, 0);
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < self->input_count && status == IOBIND_OK; i++) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    (void)!iobind_tensor_get_info(inputs[i], &info, NULL); /* NULL is refused below */
    bool on_host = info.host_readable != 0 || info.dtype == IOBIND_STRING;
    status = iobind_binding_set_input(binding, i, on_host ? IOBIND_INPUT_LIVE : IOBIND_INPUT_RESIDENT, inputs[i], NULL, NULL);
  }
  for (size_t i = 0; i < self->output_count && status == IOBIND_OK; i++) {
    status = iobind_binding_set_output(binding, i, IOBIND_OUTPUT_FRESH, cpu, IOBIND_MEMORY_DEFAULT, NULL, NULL);
  }
  return status;
}

/* A binding for one run, which is ready for it; NULL if a binding does not take such inputs. */
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

/* The caller knows nothing of a binding: "session_run" is not longer than any name that it replaces. */
static void name_session_run(iobind_error *error) {
  static const char name[] = "session_run";
  const char *rest = strncmp(error->message, "binding_", 8) == 0 ? strchr(error->message, ':') : NULL;
  if (rest != NULL) {
    memmove(error->message + sizeof name - 1, rest, strlen(rest) + 1);
    memcpy(error->message, name, sizeof name - 1);
  }
}

/* With the binding of bind_once, on the main thread. */
static iobind_status run_by_binding(const Session *self, iobind_binding *binding, iobind_tensor **outputs,
                                    iobind_error *error) {
  iobind_status status;
  (void)run_begins(binding); /* false only on another thread, where run_once does not come here */
  Py_BEGIN_ALLOW_THREADS
  status = iobind_binding_run(binding, NULL, NULL, error);
  if (status == IOBIND_OK) {
    status = take_all(self, binding, outputs, error);
  }
  run_ends();
  iobind_binding_destroy(binding);
  Py_END_ALLOW_THREADS
  name_session_run(error);
  return status;
}

/* iobind_session_run cannot be cancelled, a run of a binding can: the main thread, the one that hears of Ctrl-C, has one for this run. But
 * ORT takes inputs that a binding refuses, such as one of 1 element beside one of N where the model has one name for both dims:
 * whatever is refused before the run is left to iobind_session_run, and so are its words for what is wrong. */
static iobind_status run_once(const Session *self, iobind_tensor *const *inputs, iobind_tensor **outputs, iobind_error *error) {
  iobind_binding *binding = NULL;
  if (self->runs_by_binding && is_main_thread()) {
    WITHOUT_GIL(binding, bind_once(self, inputs));
  }
  if (binding != NULL) {
    return run_by_binding(self, binding, outputs, error);
  }
  iobind_status status;
  WITHOUT_GIL(status, iobind_session_run(self->handle, inputs, outputs, error));
  return status;
}

/* run(list of tensors): a list of tensors, None for outputs that are not tensors */
static PyObject *session_run(Session *self, PyObject *inputs) {
  if (!PyList_Check(inputs) || (size_t)PyList_Size(inputs) != self->input_count) {
    return raise_status(IOBIND_INVALID_ARGUMENT, "session_run: a tensor for each input");
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
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = run_once(self, handles, outputs, &error);
  bool interrupted = status == IOBIND_CANCELLED && PyErr_CheckSignals() != 0; /* KeyboardInterrupt */
  PyObject *list = status == IOBIND_OK ? PyList_New(0) : interrupted ? NULL : raise_error(&error);
  for (size_t i = 0; status == IOBIND_OK && i < self->output_count; i++) {
    PyObject *tensor = output_object(outputs[i], self);
    if (tensor == NULL || list == NULL || PyList_Append(list, tensor) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(tensor);
  }
  PyMem_Free(handles);
  release_now();
  return list;
}

static PyObject *session_end_profile(Session *self, PyObject *none) {
  (void)none;
  const char *path;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_session_end_profile(self->handle, &path, &error));
  return status == IOBIND_OK ? PyUnicode_DecodeFSDefault(path) : raise_error(&error);
}

static PyMethodDef session_methods[] = {
    {"_make", (PyCFunction)session_make, METH_VARARGS | METH_CLASS, NULL},
    {"_adopt", (PyCFunction)session_adopt, METH_VARARGS | METH_CLASS, NULL},
    {"_values", (PyCFunction)session_values, METH_O, NULL},
    {"_info", (PyCFunction)session_info, METH_NOARGS, NULL},
    {"_metadata", (PyCFunction)session_metadata, METH_NOARGS, NULL},
    {"_nodes", (PyCFunction)session_nodes, METH_NOARGS, NULL},
    {"_run", (PyCFunction)session_run, METH_O, NULL},
    {"end_profile", (PyCFunction)session_end_profile, METH_NOARGS,
     "end_profile()\n--\n\nEnd the profile of a session made with `profile=`; gives the file's path. Raises InvalidState if no\n"
     "profile is being recorded."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot session_slots[] = {{Py_tp_dealloc, session_dealloc}, {Py_tp_methods, session_methods}, {0, NULL}};
PyType_Spec session_spec = {"iobind._core.Session", sizeof(Session), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, session_slots};

/* ---- pipelines ---- */

typedef struct Pipeline {
  PyObject_HEAD
  iobind_pipeline *handle;
  Session *session;
  int busy;
} Pipeline;

/* `events`: NULL, and what still writes a tensor is waited for; or the items' own, to which those of outputs of runs that may be under way are
 * added, and held in `held`. */
static int tensors_of(PyObject *list, size_t count, iobind_tensor **out, iobind_event **events, PyObject **held) {
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != count) {
    raise_status(IOBIND_INVALID_ARGUMENT, "pipeline: expected an entry for each input");
    return -1;
  }
  for (size_t i = 0; i < count; i++) {
    Tensor *tensor;
    if (tensor_or_none(PyList_GetItem(list, (Py_ssize_t)i), &tensor) != 0) {
      return -1;
    }
    Event *ready = tensor == NULL || events == NULL || events[i] != NULL ? NULL : tensor_ready(tensor);
    if (ready != NULL) {
      Py_INCREF((PyObject *)ready); /* another thread may wait for the tensor, which forgets it then */
      held[i] = (PyObject *)ready;
      events[i] = ready->handle;
    } else if (tensor != NULL && tensor_order(tensor, NULL) != 0) {
      return -1;
    }
    out[i] = tensor == NULL ? NULL : tensor->handle;
  }
  return 0;
}

/* A list of iobind_placement, one for each output, to be freed by PyMem_Free. */
static int32_t *placements_of(PyObject *list, size_t count) {
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != count) {
    raise_status(IOBIND_INVALID_ARGUMENT, "pipeline: expected a placement for each output");
    return NULL;
  }
  int32_t *placements = PyMem_Calloc(count + 1, sizeof *placements);
  for (size_t i = 0; placements != NULL && i < count; i++) {
    placements[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, (Py_ssize_t)i));
  }
  if (placements == NULL) {
    PyErr_NoMemory();
  } else if (PyErr_Occurred()) {
    PyMem_Free(placements);
    return NULL;
  }
  return placements;
}

/* None, or a list of events or None, one for each input. */
static int events_of(PyObject *list, size_t count, iobind_event **out) {
  if (list == Py_None) {
    return 0;
  }
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != count) {
    raise_status(IOBIND_INVALID_ARGUMENT, "pipeline: expected an event, or None, for each input");
    return -1;
  }
  for (size_t i = 0; i < count; i++) {
    Event *event;
    if (event_or_none(PyList_GetItem(list, (Py_ssize_t)i), &event) != 0) {
      return -1;
    }
    out[i] = event == NULL ? NULL : event->handle;
  }
  return 0;
}

/* What the options of a pipeline point to while it is made. */
typedef struct pipeline_lists {
  iobind_tensor **constants;
  int32_t *placements;
  iobind_run_options run;
} pipeline_lists;

/* Each of the three is None or as pipeline_new has it. */
static int fill_pipeline(const Session *session, PyObject *constants, PyObject *outputs, PyObject *run,
                         iobind_pipeline_options *options, pipeline_lists *made) {
  if (constants != Py_None) {
    made->constants = PyMem_Calloc(session->input_count + 1, sizeof(iobind_tensor *));
    if (made->constants == NULL) {
      PyErr_NoMemory();
      return -1;
    }
    if (tensors_of(constants, session->input_count, made->constants, NULL, NULL) != 0) {
      return -1;
    }
    options->constants = made->constants;
  }
  if (outputs != Py_None) {
    made->placements = placements_of(outputs, session->output_count);
    if (made->placements == NULL) {
      return -1;
    }
    options->outputs = made->placements;
  }
  if (run != Py_None) {
    if (!PyTuple_Check(run)) {
      PyErr_SetString(PyExc_TypeError, "pipeline: run options: expected a tuple");
      return -1;
    }
    if (run_options_of(run, &made->run) != 0) {
      return -1;
    }
    options->run_options = &made->run;
  }
  return 0;
}

/* Pipeline(session, slots, flags, a constant or None for each input, placements=None, run options=None) */
static PyObject *pipeline_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"session", "slots", "flags", "constants", "outputs", "run_options", NULL};
  PyObject *object;
  Py_ssize_t slots;
  unsigned int flags;
  PyObject *constants;
  PyObject *outputs = Py_None;
  PyObject *run = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!nIO|OO", names, session_type, &object, &slots, &flags, &constants,
                                   &outputs, &run)) {
    return NULL;
  }
  Session *session = (Session *)object;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.flags = flags;
  options.slots = (size_t)slots;
  pipeline_lists made = {NULL, NULL, IOBIND_RUN_OPTIONS_INIT};
  iobind_pipeline *handle = NULL;
  if (fill_pipeline(session, constants, outputs, run, &options, &made) == 0) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status;
    WITHOUT_GIL(status, iobind_pipeline_create(session->handle, &options, &handle, &error));
    if (status != IOBIND_OK) {
      handle = NULL;
      raise_error(&error);
    }
  }
  PyMem_Free(made.constants);
  PyMem_Free(made.placements);
  if (options.run_options != NULL) {
    free_run_options(&made.run);
  }
  if (handle == NULL) {
    return NULL;
  }
  Pipeline *self = (Pipeline *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) {
    iobind_pipeline_destroy(handle);
    return NULL;
  }
  Py_INCREF(object);
  self->handle = handle;
  self->session = session;
  return (PyObject *)self;
}

static int pipeline_traverse(Pipeline *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE((PyObject *)self));
  Py_VISIT((PyObject *)self->session);
  return 0;
}

static void pipeline_dealloc(Pipeline *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack(self);
  Py_BEGIN_ALLOW_THREADS
  iobind_pipeline_destroy(self->handle);
  Py_END_ALLOW_THREADS
  release_now();
  Py_XDECREF((PyObject *)self->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static int enter(Pipeline *self) {
  if (self->busy) {
    raise_status(IOBIND_INVALID_STATE, "pipeline: another thread is in a call of it");
    return -1;
  }
  self->busy = 1;
  return 0;
}

/* submit(tensors, events=None): an entry for each input */
static PyObject *pipeline_submit(Pipeline *self, PyObject *arguments) {
  PyObject *inputs;
  PyObject *behind = Py_None;
  if (!PyArg_ParseTuple(arguments, "O|O", &inputs, &behind)) {
    return NULL;
  }
  size_t count = self->session->input_count;
  iobind_tensor **tensors = PyMem_Calloc(count + 1, sizeof *tensors);
  iobind_event **events = PyMem_Calloc(count + 1, sizeof *events);
  PyObject **held = PyMem_Calloc(count + 1, sizeof *held);
  PyObject *result = NULL;
  if (tensors == NULL || events == NULL || held == NULL) {
    PyErr_NoMemory();
  } else if (events_of(behind, count, events) == 0 && tensors_of(inputs, count, tensors, events, held) == 0 &&
             enter(self) == 0) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status;
    iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
    request.inputs = tensors; /* the pipeline keeps those that it reads in place */
    request.events = events;
    WITHOUT_GIL(status, iobind_pipeline_submit_request(self->handle, &request, &error));
    self->busy = 0;
    result = status == IOBIND_OK ? (Py_INCREF(Py_None), Py_None) : raise_error(&error);
  }
  for (size_t i = 0; held != NULL && i < count; i++) {
    Py_XDECREF(held[i]);
  }
  PyMem_Free(held);
  PyMem_Free(tensors);
  PyMem_Free(events);
  return result;
}

typedef struct pull {
  iobind_pipeline *pipeline;
  iobind_tensor **outputs;
  iobind_pipeline_item *item;
} pull;

static iobind_status pull_item(void *what, uint64_t timeout_ns, iobind_error *error) {
  pull *next = what;
  return timeout_ns == UINT64_MAX ? iobind_pipeline_next(next->pipeline, next->outputs, next->item, error)
                                  : iobind_pipeline_next_for(next->pipeline, timeout_ns, next->outputs, next->item, error);
}

/* (index, times, list of tensors) of the oldest item */
static PyObject *pipeline_next(Pipeline *self, PyObject *none) {
  (void)none;
  size_t count = self->session->output_count;
  iobind_tensor **outputs = PyMem_Calloc(count + 1, sizeof *outputs);
  if (outputs == NULL) {
    return PyErr_NoMemory();
  }
  if (enter(self) != 0) {
    PyMem_Free(outputs);
    return NULL;
  }
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  pull next = {self->handle, outputs, &item};
  if (!wait_in_parts(pull_item, &next, UINT64_MAX, &status, &error)) {
    self->busy = 0;
    PyMem_Free(outputs);
    return NULL;
  }
  PyObject *list = status == IOBIND_OK ? PyList_New(0) : raise_error(&error);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *tensor =
        output_object(iobind_tensor_retain(outputs[i]), self->session); /* no later item overwrites what is held */
    if (tensor == NULL || PyList_Append(list, tensor) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(tensor);
  }
  self->busy = 0;
  PyMem_Free(outputs);
  typedef unsigned long long number;
  return list == NULL ? NULL
                      : Py_BuildValue("(K(KKKK)N)", (number)item.index, (number)item.submit_ns, (number)item.upload_ns,
                                      (number)item.run_ns, (number)item.download_ns, list);
}

static PyMethodDef pipeline_methods[] = {
    {"submit", (PyCFunction)pipeline_submit, METH_VARARGS, NULL},
    {"next", (PyCFunction)pipeline_next, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pipeline_slots[] = {{Py_tp_new, pipeline_new},
                                       {Py_tp_dealloc, pipeline_dealloc},
                                       {Py_tp_traverse, pipeline_traverse},
                                       {Py_tp_methods, pipeline_methods},
                                       {0, NULL}};
PyType_Spec pipeline_spec = {"iobind._core.Pipeline", sizeof(Pipeline), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                             pipeline_slots};
