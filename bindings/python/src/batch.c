/* Live batches: rows of one run, each with its own state. Any thread may call a batch, and steps are made without the GIL. */
#include "core.h"

#include <stdatomic.h>

typedef struct Batch {
  PyObject_HEAD
  iobind_batch *handle; /* NULL: it is closed, and no call is in progress */
  Session *session;
  Stream *stream; /* the stream of the last step that was submitted to one; NULL: none was */
  size_t most;    /* rows */
  size_t calls;   /* threads that use the handle without the GIL */
  atomic_bool is_closed;
} Batch;

static PyObject *raise_closed(void) {
  return raise_status(IOBIND_ERROR_INVALID_STATE, "batch: it is closed");
}

static bool is_open(const Batch *self) {
  if (self->is_closed) {
    raise_closed();
  }
  return !self->is_closed;
}

static void give_up(Batch *self) {
  iobind_batch *handle = self->handle;
  self->handle = NULL; /* before the GIL is released */
  Py_BEGIN_ALLOW_THREADS
  iobind_batch_destroy(handle);
  Py_END_ALLOW_THREADS
  SET_REFERENCE(self->stream, NULL);
  release_now();
}

static void call_ends(Batch *self) {
  self->calls--;
  if (self->is_closed && self->calls == 0) {
    give_up(self);
  }
}

/* Call with the GIL released; the batch is not destroyed meanwhile. */
#define WITH_BATCH(batch, status, call) \
  do {                                  \
    (batch)->calls++;                   \
    WITHOUT_GIL(status, call);          \
    call_ends(batch);                   \
  } while (0)

/* Raise the failure of a call, during which the batch may have been closed. Returns NULL. */
static PyObject *raise_failure(const Batch *self, const iobind_error *error) {
  return self->is_closed ? raise_closed() : raise_error(error);
}

static PyObject *none_or_failure(const Batch *self, iobind_status status, const iobind_error *error) {
  if (status != IOBIND_OK) {
    return raise_failure(self, error);
  }
  Py_RETURN_NONE;
}

/* ---- creation ---- */

/* The arrays of a batch's options. */
typedef struct batch_lists {
  iobind_batch_pair *pairs;
  int32_t *input_axes;
  int32_t *output_axes;
  iobind_state *first; /* a reference is held */
} batch_lists;

static iobind_batch_pair *pairs_of(PyObject *list, size_t *count) {
  *count = (size_t)PyList_Size(list);
  iobind_batch_pair *pairs = PyMem_Calloc(*count + 1, sizeof *pairs);
  if (pairs == NULL) {
    PyErr_NoMemory();
  }
  for (size_t i = 0; pairs != NULL && i < *count; i++) {
    Py_ssize_t output;
    Py_ssize_t input;
    if (!PyArg_ParseTuple(PyList_GetItem(list, (Py_ssize_t)i), "nn", &output, &input)) {
      PyMem_Free(pairs);
      return NULL;
    }
    pairs[i] = (iobind_batch_pair){(size_t)output, (size_t)input};
  }
  return pairs;
}

/* None: NULL and 0. -1 with an exception. */
static int axes_of(PyObject *list, int32_t **out, size_t *count) {
  *out = NULL;
  *count = 0;
  if (list == Py_None) {
    return 0;
  }
  if (!PyList_Check(list)) {
    PyErr_Format(PyExc_TypeError, "batch: axes: expected a list, got %R", list);
    return -1;
  }
  *count = (size_t)PyList_Size(list);
  *out = PyMem_Calloc(*count + 1, sizeof **out);
  if (*out == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < *count; i++) {
    (*out)[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, (Py_ssize_t)i));
  }
  return PyErr_Occurred() ? -1 : 0;
}

static iobind_batch *create(Session *session, const iobind_batch_options *options) {
  iobind_batch *handle = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITH_SESSION(session, status, iobind_batch_create(session->handle, options, &handle, &error));
  if (status != IOBIND_OK) {
    raise_error(&error);
    return NULL;
  }
  return handle;
}

/* Batch(session, most rows, [(output, input)], input axes or None, output axes or None, State or None, tolerance, flags) */
static PyObject *batch_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  (void)keywords;
  Session *session;
  Py_ssize_t most;
  PyObject *pairs;
  PyObject *input_axes;
  PyObject *output_axes;
  PyObject *first;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  unsigned int flags;
  if (!PyArg_ParseTuple(arguments, "O!nO!OOOdI", session_type, &session, &most, &PyList_Type, &pairs, &input_axes, &output_axes,
                        &first, &options.tolerance, &flags) ||
      !session_is_open(session)) {
    return NULL;
  }
  batch_lists made = {0};
  iobind_batch *handle = NULL;
  options.flags = flags;
  options.most_rows = (size_t)most;
  made.pairs = pairs_of(pairs, &options.pair_count);
  if (made.pairs != NULL && axes_of(input_axes, &made.input_axes, &options.input_axis_count) == 0 &&
      axes_of(output_axes, &made.output_axes, &options.output_axis_count) == 0 && state_or_none(first, &made.first) == 0) {
    options.pairs = options.pair_count == 0 ? NULL : made.pairs;
    options.input_axes = made.input_axes;
    options.output_axes = made.output_axes;
    options.first = made.first;
    handle = create(session, &options);
  }
  PyMem_Free(made.pairs);
  PyMem_Free(made.input_axes);
  PyMem_Free(made.output_axes);
  state_release(made.first);
  Batch *self = handle == NULL ? NULL : (Batch *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) {
    iobind_batch_destroy(handle);
    return NULL;
  }
  Py_INCREF((PyObject *)session);
  self->session = session;
  self->handle = handle;
  self->most = options.most_rows;
  return (PyObject *)self;
}

static int batch_traverse(Batch *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE((PyObject *)self));
  Py_VISIT((PyObject *)self->session);
  Py_VISIT((PyObject *)self->stream);
  return 0;
}

static void batch_dealloc(Batch *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack(self);
  give_up(self);
  Py_XDECREF((PyObject *)self->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* ---- rows ---- */

/* _join(State or None): the slot */
static PyObject *batch_join(Batch *self, PyObject *given) {
  iobind_state *state;
  uint64_t slot;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!is_open(self) || state_or_none(given, &state) != 0) {
    return NULL;
  }
  WITH_BATCH(self, status, iobind_batch_join(self->handle, state, &slot, &error));
  state_release(state);
  return status == IOBIND_OK ? PyLong_FromUnsignedLongLong(slot) : raise_failure(self, &error);
}

/* _leave(slot, the class of states or None): the row's state, or None */
static PyObject *batch_leave(Batch *self, PyObject *arguments) {
  unsigned long long slot;
  PyObject *class;
  iobind_state *state = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!PyArg_ParseTuple(arguments, "KO", &slot, &class) || !is_open(self)) {
    return NULL;
  }
  WITH_BATCH(self, status, iobind_batch_leave(self->handle, slot, class == Py_None ? NULL : &state, &error));
  return state != NULL ? state_object((PyTypeObject *)class, state, self->session, NULL, NULL)
                       : none_or_failure(self, status, &error);
}

/* _save(slot, the class of states) */
static PyObject *batch_save(Batch *self, PyObject *arguments) {
  unsigned long long slot;
  PyObject *class;
  iobind_state *state = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!PyArg_ParseTuple(arguments, "KO", &slot, &class) || !is_open(self)) {
    return NULL;
  }
  WITH_BATCH(self, status, iobind_batch_save_state(self->handle, slot, &state, &error));
  return status == IOBIND_OK ? state_object((PyTypeObject *)class, state, self->session, NULL, NULL)
                             : raise_failure(self, &error);
}

/* _set_input(slot, index, array or tensor); NotImplemented: Python must convert the array to a tensor */
static PyObject *batch_set_input(Batch *self, PyObject *arguments) {
  unsigned long long slot;
  Py_ssize_t index;
  PyObject *value;
  Tensor *given = NULL;
  Py_buffer view = {0};
  iobind_tensor *tensor = NULL;
  if (!PyArg_ParseTuple(arguments, "KnO", &slot, &index, &value) || !is_open(self)) {
    return NULL;
  }
  if (PyObject_TypeCheck(value, tensor_type)) {
    if (ready_tensor_or_none(value, &given) != 0) {
      return NULL;
    }
  } else if (!array_to_tensor(self->session, (size_t)index, value, &view, &tensor)) {
    PyBuffer_Release(&view);
    Py_RETURN_NOTIMPLEMENTED;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITH_BATCH(self, status,
             iobind_batch_set_input(self->handle, slot, (size_t)index, given != NULL ? given->handle : tensor, &error));
  iobind_tensor_release(tensor);
  PyBuffer_Release(&view);
  return none_or_failure(self, status, &error);
}

/* _get_output(slot, index) */
static PyObject *batch_take_output(Batch *self, PyObject *arguments) {
  unsigned long long slot;
  Py_ssize_t index;
  iobind_tensor *tensor = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!PyArg_ParseTuple(arguments, "Kn", &slot, &index) || !is_open(self)) {
    return NULL;
  }
  WITH_BATCH(self, status, iobind_batch_take_output(self->handle, slot, (size_t)index, &tensor, &error));
  return status == IOBIND_OK ? output_object(tensor, self->session) : raise_failure(self, &error);
}

/* ---- steps ---- */

/* A list of int as slots, to be freed by PyMem_Free; NULL with an exception. */
static uint64_t *slots_of(PyObject *list, size_t *count) {
  *count = (size_t)PyList_Size(list);
  uint64_t *slots = PyMem_Calloc(*count + 1, sizeof *slots);
  if (slots == NULL) {
    PyErr_NoMemory();
  }
  for (size_t i = 0; slots != NULL && i < *count; i++) {
    slots[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(list, (Py_ssize_t)i));
  }
  if (slots != NULL && PyErr_Occurred()) {
    PyMem_Free(slots);
    return NULL;
  }
  return slots;
}

/* _run([slot], stream or None) */
static PyObject *batch_run(Batch *self, PyObject *arguments) {
  PyObject *list;
  PyObject *on;
  Stream *stream;
  size_t count;
  if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &list, &on) || stream_or_none(on, &stream) != 0 || !is_open(self)) {
    return NULL;
  }
  uint64_t *slots = slots_of(list, &count);
  if (slots == NULL) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  self->calls++; /* freeing a stream releases the GIL */
  if (stream != NULL) {
    Py_INCREF((PyObject *)stream);
    SET_REFERENCE(self->stream, stream);
  }
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_batch_run(self->handle, slots, count, stream == NULL ? NULL : stream->handle, &error));
  stream_leave(stream);
  call_ends(self);
  PyMem_Free(slots);
  return none_or_failure(self, status, &error);
}

/* _submit(slot) */
static PyObject *batch_submit(Batch *self, PyObject *number) {
  unsigned long long slot = PyLong_AsUnsignedLongLong(number);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (PyErr_Occurred() || !is_open(self)) {
    return NULL;
  }
  WITH_BATCH(self, status, iobind_batch_submit(self->handle, slot, &error));
  return none_or_failure(self, status, &error);
}

typedef struct stepping {
  Batch *batch;
  iobind_batch_wait wait;
  uint64_t *slots;
  size_t count;
} stepping;

static iobind_status step_part(void *what, uint64_t timeout_ns, iobind_error *error) {
  stepping *step = what;
  step->wait.timeout_ns = timeout_ns > 0 ? timeout_ns : 1; /* 0 would mean no limit */
  return iobind_batch_step(step->batch->handle, &step->wait, step->slots, step->batch->most, &step->count, error);
}

static PyObject *slots_to_list(const uint64_t *slots, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *number = PyLong_FromUnsignedLongLong(slots[i]);
    if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) != 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

/* _step(rows, longest in ns, timeout in ns): the slots of the rows */
static PyObject *batch_step(Batch *self, PyObject *arguments) {
  Py_ssize_t rows;
  unsigned long long longest;
  unsigned long long timeout;
  if (!PyArg_ParseTuple(arguments, "nKK", &rows, &longest, &timeout) || !is_open(self)) {
    return NULL;
  }
  stepping step = {self, IOBIND_BATCH_WAIT_INIT, PyMem_Calloc(self->most, sizeof(uint64_t)), 0};
  if (step.slots == NULL) {
    return PyErr_NoMemory();
  }
  step.wait.rows = (size_t)rows;
  step.wait.longest_ns = longest;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = IOBIND_OK;
  self->calls++;
  bool goes_on = wait_in_parts(step_part, &step, timeout, &status, &error);
  call_ends(self);
  PyObject *made = !goes_on ? NULL : status == IOBIND_OK ? slots_to_list(step.slots, step.count) : raise_failure(self, &error);
  PyMem_Free(step.slots);
  return made;
}

typedef struct awaited {
  iobind_batch *batch;
  uint64_t slot;
} awaited;

static iobind_status await_part(void *what, uint64_t timeout_ns, iobind_error *error) {
  const awaited *row = what;
  return iobind_batch_await(row->batch, row->slot, timeout_ns, error);
}

/* _await(slot, timeout in ns) */
static PyObject *batch_await(Batch *self, PyObject *arguments) {
  unsigned long long slot;
  unsigned long long timeout;
  if (!PyArg_ParseTuple(arguments, "KK", &slot, &timeout) || !is_open(self)) {
    return NULL;
  }
  awaited row = {self->handle, slot};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = IOBIND_OK;
  self->calls++;
  bool goes_on = wait_in_parts(await_part, &row, timeout, &status, &error);
  call_ends(self);
  return goes_on ? none_or_failure(self, status, &error) : NULL;
}

/* ---- info and close ---- */

static PyObject *batch_info(Batch *self, PyObject *none) {
  (void)none;
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!is_open(self)) {
    return NULL;
  }
  WITH_BATCH(self, status, iobind_batch_get_info(self->handle, &info, &error));
  if (status != IOBIND_OK) {
    return raise_failure(self, &error);
  }
  return Py_BuildValue("{s:n,s:n,s:K,s:K,s:n}", "row_count", (Py_ssize_t)info.row_count, "width", (Py_ssize_t)info.width,
                       "steps", (unsigned long long)info.steps, "moved_rows", (unsigned long long)info.moved_rows, "nbytes",
                       (Py_ssize_t)info.bytes);
}

/* _close(): ends waits of other threads; the last call in progress destroys the batch */
static PyObject *batch_close(Batch *self, PyObject *none) {
  (void)none;
  if (!self->is_closed) {
    self->is_closed = true;
    iobind_batch_stop(self->handle);
    self->calls++;
    call_ends(self);
  }
  Py_RETURN_NONE;
}

static PyObject *get_closed(Batch *self, void *none) {
  (void)none;
  return PyBool_FromLong(self->is_closed);
}

static PyMethodDef batch_methods[] = {
    {"_join", (PyCFunction)batch_join, METH_O, NULL},
    {"_leave", (PyCFunction)batch_leave, METH_VARARGS, NULL},
    {"_save", (PyCFunction)batch_save, METH_VARARGS, NULL},
    {"_set_input", (PyCFunction)batch_set_input, METH_VARARGS, NULL},
    {"_get_output", (PyCFunction)batch_take_output, METH_VARARGS, NULL},
    {"_run", (PyCFunction)batch_run, METH_VARARGS, NULL},
    {"_submit", (PyCFunction)batch_submit, METH_O, NULL},
    {"_step", (PyCFunction)batch_step, METH_VARARGS, NULL},
    {"_await", (PyCFunction)batch_await, METH_VARARGS, NULL},
    {"_info", (PyCFunction)batch_info, METH_NOARGS, NULL},
    {"_close", (PyCFunction)batch_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_fields[] = {
    {"_is_closed", (getter)get_closed, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {{Py_tp_new, batch_new},           {Py_tp_dealloc, batch_dealloc},
                                    {Py_tp_traverse, batch_traverse}, {Py_tp_methods, batch_methods},
                                    {Py_tp_getset, batch_fields},     {0, NULL}};
PyType_Spec batch_spec = {"iobind._core.Batch", sizeof(Batch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                          batch_slots};
