/* Saved states: the content of a binding's carried inputs at one time. After runs in flight on a stream, a state is returned
 * before it is complete: its tensors have an event of that stream, like outputs. */
#include "binding.h"

typedef struct State {
  PyObject_HEAD
  iobind_state *handle; /* NULL: it is closed */
  Session *session;
  PyObject *names; /* a tuple: of the inputs */
  size_t bytes;
  Stream *stream; /* the stream of the runs that write it, and the event after them; NULL: it is complete */
  Event *made;
} State;

static bool is_open(const State *self) {
  if (self->handle == NULL) {
    raise_status(IOBIND_ERROR_INVALID_STATE, "state: it is closed");
  }
  return self->handle != NULL;
}

void state_release(iobind_state *handle) {
  Py_BEGIN_ALLOW_THREADS
  iobind_state_release(handle);
  Py_END_ALLOW_THREADS
  release_now();
}

static int check_is(PyObject *object, PyTypeObject *type, const char *what) {
  if (PyObject_TypeCheck(object, type)) {
    return 0;
  }
  PyObject *name = PyType_GetName(Py_TYPE(object)); /* not the object: an array may have any length */
  if (name != NULL) {
    PyErr_Format(PyExc_TypeError, "expected %s, got %U", what, name);
  }
  Py_XDECREF(name);
  return -1;
}

int state_or_none(PyObject *object, iobind_state **out) {
  *out = NULL;
  if (object == Py_None) {
    return 0;
  }
  if (check_is(object, state_type, "an iobind.State or None") != 0 || !is_open((State *)object)) {
    return -1;
  }
  *out = iobind_state_retain(((State *)object)->handle);
  return 0;
}

/* ---- creation ---- */

static PyObject *names_of(const State *self, size_t count) {
  PyObject *names = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; names != NULL && i < count; i++) {
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    (void)!iobind_state_get_pair(self->handle, i, &pair, NULL); /* it cannot fail: the index is right */
    PyObject *name = self->session->inputs[pair.input].name;
    Py_INCREF(name);
    (void)PyTuple_SetItem(names, (Py_ssize_t)i, name);
  }
  return names;
}

PyObject *state_object(PyTypeObject *type, iobind_state *handle, Session *session, Stream *stream, Event *made) {
  State *self = (State *)PyType_GenericAlloc(type, 0);
  if (self == NULL) {
    state_release(handle);
    return NULL;
  }
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  (void)!iobind_state_get_info(handle, &info, NULL); /* it cannot fail: both are given */
  Py_INCREF((PyObject *)session);
  Py_XINCREF((PyObject *)stream);
  Py_XINCREF((PyObject *)made);
  self->handle = handle;
  self->session = session;
  self->bytes = info.bytes;
  self->stream = stream;
  self->made = made;
  self->names = names_of(self, info.pair_count);
  if (self->names == NULL) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  return (PyObject *)self;
}

/* May the last run be in flight? */
static bool is_in_flight(const Binding *binding) {
  if (!binding->on_stream || !binding->is_behind) {
    return binding->on_stream;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  int32_t is_complete = 0;
  WITHOUT_GIL(status, iobind_event_query(binding->behind->handle, &is_complete, &error));
  return status == IOBIND_OK && is_complete == 0;
}

/* Save the state of a binding that the caller has entered. `made` is recorded after the work that writes it; NULL: the call
 * waits for that work. */
static iobind_status save_on(Binding *binding, const Event *made, iobind_state **handle, iobind_error *error) {
  iobind_status status;
  Stream *stream = made == NULL ? NULL : binding->stream;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_binding_save_state(binding->handle, handle, error));
  if (status == IOBIND_OK && made != NULL) {
    WITHOUT_GIL(status, iobind_event_record(made->handle, stream->handle, error));
  }
  stream_leave(stream);
  return status;
}

static PyObject *save_entered(PyTypeObject *type, Binding *binding) {
  states_drop_unreferenced(binding);
  bool is_lent = is_in_flight(binding) && binding->stream->native != NULL;
  Event *made = NULL;
  if (is_lent) {
    made = (Event *)PyObject_CallFunctionObjArgs((PyObject *)event_type, (PyObject *)binding->stream->device, NULL);
  }
  if ((is_lent && made == NULL) || (!is_lent && binding_await_run(binding) != 0)) {
    return NULL;
  }
  iobind_state *handle = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  PyObject *state = NULL;
  if (save_on(binding, made, &handle, &error) == IOBIND_OK) {
    state = state_object(type, handle, binding->session, is_lent ? binding->stream : NULL, made);
  } else {
    state_release(handle);
    raise_error(&error);
  }
  Py_XDECREF((PyObject *)made);
  return state;
}

/* State._save(binding) */
static PyObject *state_of_binding(PyObject *type, PyObject *given) {
  Binding *binding = (Binding *)given;
  if (check_is(given, binding_type, "an iobind.Binding") != 0 || binding_enter(binding) != 0) {
    return NULL;
  }
  PyObject *state = save_entered((PyTypeObject *)type, binding);
  binding->busy = 0;
  release_now();
  return state;
}

/* State._load(session, the path's bytes) */
static PyObject *state_of_file(PyObject *type, PyObject *arguments) {
  Session *session;
  const char *path;
  if (!PyArg_ParseTuple(arguments, "O!y", session_type, &session, &path) || !session_is_open(session)) {
    return NULL;
  }
  iobind_state *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITH_SESSION(session, status, iobind_state_load(session->handle, path, &handle, &error));
  return status == IOBIND_OK ? state_object((PyTypeObject *)type, handle, session, NULL, NULL) : raise_error(&error);
}

/* A stream may have attributes of the program, whose dict breaks a cycle. */
static int state_traverse(State *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE((PyObject *)self));
  Py_VISIT((PyObject *)self->session);
  Py_VISIT((PyObject *)self->stream);
  Py_VISIT((PyObject *)self->made);
  return 0;
}

static PyObject *state_close(State *self, PyObject *none) {
  (void)none;
  iobind_state *handle = self->handle;
  self->handle = NULL; /* before the GIL is released */
  SET_REFERENCE(self->stream, NULL);
  SET_REFERENCE(self->made, NULL);
  state_release(handle);
  Py_RETURN_NONE;
}

static void state_dealloc(State *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack(self);
  Py_XDECREF(state_close(self, NULL));
  Py_XDECREF(self->names);
  Py_XDECREF((PyObject *)self->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* ---- restore ---- */

/* Record that the binding has a restored state, for later calls. */
static void note_restored(Binding *binding, iobind_state *handle, Event *made) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  outputs_end(binding);
  for (size_t i = 0; iobind_state_get_pair(handle, i, &pair, NULL) == IOBIND_OK; i++) {
    state_bound(binding, pair.input);
    Py_XINCREF((PyObject *)made);
    SET_REFERENCE(binding->producers[pair.input], made);
    binding->has_producers = binding->has_producers || made != NULL;
  }
}

/* _restore_to(binding) */
static PyObject *restore_to(State *self, PyObject *given) {
  Binding *binding = (Binding *)given;
  if (check_is(given, binding_type, "an iobind.Binding") != 0 || !is_open(self) || change_begins(binding) != 0) {
    return NULL;
  }
  iobind_state *handle = iobind_state_retain(self->handle); /* another thread may close it meanwhile */
  Event *made = self->made;
  Py_XINCREF((PyObject *)made);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_restore_state(binding->handle, handle, &error));
  if (status == IOBIND_OK) {
    note_restored(binding, handle, made);
  }
  Py_XDECREF((PyObject *)made);
  state_release(handle);
  return change_ends(binding, status, &error);
}

/* A sequence of int as rows. Free it by PyMem_Free. NULL with an exception. */
static int64_t *rows_of(PyObject *sequence, size_t *count) {
  PyObject *tuple = PySequence_Tuple(sequence);
  if (tuple == NULL) {
    return NULL;
  }
  Py_ssize_t size = PyTuple_Size(tuple);
  int64_t *rows = PyMem_Calloc((size_t)size + 1, sizeof *rows);
  if (rows == NULL) {
    PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; rows != NULL && i < size; i++) {
    PyObject *number = PyNumber_Index(PyTuple_GetItem(tuple, i));
    rows[i] = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
      PyMem_Free(rows);
      rows = NULL;
    }
  }
  Py_DECREF(tuple);
  *count = (size_t)size;
  return rows;
}

/* After a call of the library that has replaced the states. */
static PyObject *states_replaced(Binding *self, iobind_status status, iobind_error *error) {
  if (status == IOBIND_OK) {
    outputs_end(self);
    for (size_t i = 0; i < self->session->input_count; i++) {
      state_bound(self, i);
    }
  }
  return change_ends(self, status, error);
}

/* _rewind(length) */
PyObject *rewind_states(Binding *self, PyObject *number) {
  size_t length = PyLong_AsSize_t(number);
  if ((length == (size_t)-1 && PyErr_Occurred() != NULL) || change_begins(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_rewind_state(self->handle, length, &error));
  return states_replaced(self, status, &error);
}

/* _name_length(input, role, axis) */
PyObject *name_length(Binding *self, PyObject *arguments) {
  Py_ssize_t input;
  int role;
  Py_ssize_t axis;
  if (!PyArg_ParseTuple(arguments, "nin", &input, &role, &axis) || binding_enter(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_name_length(self->handle, (size_t)input, (iobind_length_role)role, (size_t)axis, &error));
  self->busy = 0;
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

/* _write_lengths(added, lengths or None, stream) */
PyObject *write_lengths(Binding *self, PyObject *arguments) {
  Py_ssize_t added;
  PyObject *sequence;
  size_t count = 0;
  PyObject *on;
  Stream *stream;
  if (!PyArg_ParseTuple(arguments, "nOO", &added, &sequence, &on) || stream_or_none(on, &stream) != 0) {
    return NULL;
  }
  int64_t *lengths = sequence == Py_None ? NULL : rows_of(sequence, &count);
  if ((lengths == NULL && sequence != Py_None) || binding_enter(self) != 0) {
    PyMem_Free(lengths);
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_binding_write_lengths(self->handle, (size_t)added, lengths, count,
                                                   stream == NULL ? NULL : stream->handle, &error));
  PyMem_Free(lengths);
  stream_leave(stream);
  self->busy = 0;
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

/* _reorder(axis, rows) */
PyObject *reorder_states(Binding *self, PyObject *arguments) {
  Py_ssize_t axis;
  PyObject *sequence;
  size_t count;
  if (!PyArg_ParseTuple(arguments, "nO", &axis, &sequence)) {
    return NULL;
  }
  int64_t *rows = rows_of(sequence, &count);
  if (rows == NULL || change_begins(self) != 0) {
    PyMem_Free(rows);
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_reorder_state(self->handle, (size_t)axis, rows, count, &error));
  PyMem_Free(rows);
  return states_replaced(self, status, &error);
}

/* ---- info and files ---- */

/* The tensor of one input, by its index in the state; borrowed. NULL with an exception. */
static iobind_tensor *find_tensor(const State *self, PyObject *number) {
  size_t index = PyLong_AsSize_t(number);
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (PyErr_Occurred() || !is_open(self)) {
    return NULL;
  }
  if (iobind_state_get_pair(self->handle, index, &pair, &error) != IOBIND_OK) {
    raise_error(&error);
  }
  return pair.tensor;
}

/* _shape(index) */
static PyObject *get_shape(State *self, PyObject *number) {
  iobind_tensor *handle = find_tensor(self, number);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  if (handle == NULL) {
    return NULL;
  }
  (void)!iobind_tensor_get_info(handle, &info, NULL); /* it cannot fail: both are given */
  return dims_to_tuple(info.dims, info.rank);
}

/* _tensor(index) */
static PyObject *get_tensor(State *self, PyObject *number) {
  iobind_tensor *handle = find_tensor(self, number);
  Tensor *tensor = handle == NULL ? NULL : (Tensor *)output_object(iobind_tensor_retain(handle), self->session);
  if (tensor != NULL && self->made != NULL) {
    tensor_comes_with(tensor, self->stream, self->made);
  }
  if (tensor != NULL && tensor->info.host_readable != 0 && tensor_order(tensor, NULL) != 0) {
    Py_CLEAR(tensor);
  }
  return (PyObject *)tensor;
}

/* _save_to(the path's bytes) */
static PyObject *save_to(State *self, PyObject *arguments) {
  const char *path;
  if (!PyArg_ParseTuple(arguments, "y", &path) || !is_open(self)) {
    return NULL;
  }
  iobind_state *handle = iobind_state_retain(self->handle);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_state_save(handle, path, &error));
  state_release(handle);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *get_names(State *self, PyObject *none) {
  (void)none;
  Py_INCREF(self->names);
  return self->names;
}

static Py_ssize_t state_length(State *self) {
  return PyTuple_Size(self->names);
}

/* Raises for a closed state. */
static PyObject *get_text(State *self, size_t field) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  if (!is_open(self)) {
    return NULL;
  }
  (void)!iobind_state_get_info(self->handle, &info, NULL); /* it cannot fail: both are given */
  return PyUnicode_FromString(*(const char *const *)((const char *)&info + field));
}

static PyObject *get_device_spec(State *self, void *none) {
  (void)none;
  return get_text(self, offsetof(iobind_state_info, device_spec));
}

static PyObject *get_ort_version(State *self, void *none) {
  (void)none;
  return get_text(self, offsetof(iobind_state_info, ort_version));
}

static PyObject *get_bytes(State *self, void *none) {
  (void)none;
  return PyLong_FromSize_t(self->bytes);
}

static PyObject *get_closed(State *self, void *none) {
  (void)none;
  return PyBool_FromLong(self->handle == NULL);
}

static PyMethodDef state_methods[] = {
    {"_save", (PyCFunction)state_of_binding, METH_O | METH_CLASS, NULL},
    {"_load", (PyCFunction)state_of_file, METH_VARARGS | METH_CLASS, NULL},
    {"_restore_to", (PyCFunction)restore_to, METH_O, NULL},
    {"_save_to", (PyCFunction)save_to, METH_VARARGS, NULL},
    {"_shape", (PyCFunction)get_shape, METH_O, NULL},
    {"_tensor", (PyCFunction)get_tensor, METH_O, NULL},
    {"_names", (PyCFunction)get_names, METH_NOARGS, NULL},
    {"close", (PyCFunction)state_close, METH_NOARGS,
     "close()\n--\n\nClose the state, as does the end of a block `with state:`. Its memory is freed when none of its "
     "tensors remains and no binding reads it. Later calls of the state raise InvalidState."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef state_fields[] = {
    {"nbytes", (getter)get_bytes, NULL, "bytes of all its tensors", NULL},
    {"device_spec", (getter)get_device_spec, NULL,
     "where its session ran, such as \"cuda:0\"; of a state from a file: as in the file", NULL},
    {"ort_version", (getter)get_ort_version, NULL,
     "the version of ONNX Runtime that its session had; of a state from a file: as in the file", NULL},
    {"_is_closed", (getter)get_closed, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot state_slots[] = {{Py_tp_dealloc, state_dealloc}, {Py_tp_traverse, state_traverse},
                                    {Py_tp_methods, state_methods}, {Py_tp_getset, state_fields},
                                    {Py_mp_length, state_length},   {0, NULL}};
PyType_Spec state_spec = {"iobind._core.State", sizeof(State), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          state_slots};
