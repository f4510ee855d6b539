/* Bindings. The steps of a loop, a new input value and the run, need no Python code. */
#include "binding.h"

#include <string.h>

static int check_idle(const Binding *self) {
  if (self->busy) {
    raise_status(IOBIND_ERROR_INVALID_STATE, "binding: a call of another thread is in flight; use a binding for each thread");
    return -1;
  }
  return 0;
}

int binding_enter(Binding *self) {
  if (check_idle(self) != 0) {
    return -1;
  }
  self->busy = 1;
  return 0;
}

/* ---- waits that Ctrl-C ends ---- */

int binding_await_run(const Binding *self) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  bool waits = self->on_stream && self->is_behind && !self->is_going && is_main_thread();
  return !waits || wait_in_parts(wait_event, self->behind->handle, IOBIND_NO_TIMEOUT, &status, &error) ? 0 : -1;
}

int binding_quiesce(const Binding *self) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = IOBIND_OK;
  bool goes_on = true;
  if (self->on_stream && self->is_behind) {
    goes_on = wait_in_parts(wait_event, self->behind->handle, IOBIND_NO_TIMEOUT, &status, &error);
  } else if (self->on_stream) {
    stream_enter(self->stream);
    WITHOUT_GIL(status, iobind_stream_synchronize(self->stream->handle, &error));
    stream_leave(self->stream);
  }
  return goes_on ? 0 : -1;
}

/* Before another call of the binding: keep the outputs that a caller references. Not after a run on a stream: a loop of such
 * runs must not fetch or wait by itself. */
static void keep_outputs_of_call(Binding *self) {
  if (!self->on_stream && outputs_are_held(self)) {
    outputs_keep(self);
  }
}

int change_begins(Binding *self) {
  if (check_idle(self) != 0) {
    return -1;
  }
  keep_outputs_of_call(self);
  return binding_enter(self);
}

PyObject *change_ends(Binding *self, iobind_status status, const iobind_error *error) {
  self->busy = 0;
  release_now();
  if (status != IOBIND_OK) {
    return raise_error(error);
  }
  return PyErr_Occurred() ? NULL : (Py_INCREF(Py_None), Py_None);
}

/* ---- creation and destruction ---- */

/* Is an output placed in host memory? Without a device it stays where the session leaves it. */
static bool is_on_host(const Binding *self, size_t index, const Device *device, int memory) {
  const iobind_device *cpu = iobind_runtime_get_device(((Runtime *)self->session->runtime)->handle, 0);
  return device == NULL ? self->session->outputs[index].on_host : device->handle == cpu || memory != IOBIND_MEMORY_DEFAULT;
}

/* Set the tuple of the names of all outputs that runs return. Out of memory: an exception is set. */
static void name_outputs(Binding *self) {
  PyObject *names = PyList_New(0);
  for (size_t i = 0; names != NULL && i < self->session->output_count; i++) {
    if (self->is_bound[i] && PyList_Append(names, self->session->outputs[i].name) != 0) {
      Py_CLEAR(names);
    }
  }
  PyObject *tuple = names == NULL ? NULL : PyList_AsTuple(names);
  Py_XDECREF(names);
  if (tuple != NULL) {
    SET_REFERENCE(self->names, tuple);
  }
}

/* Set all outputs to their defaults; exceptions as name_outputs. */
static void reset_outputs(Binding *self) {
  for (size_t i = 0; i < self->session->output_count; i++) {
    self->is_fresh[i] = !self->session->captures_graphs;
    self->on_host[i] = is_on_host(self, i, NULL, 0);
    self->is_bound[i] = self->session->outputs[i].is_tensor;
  }
  name_outputs(self);
}

static PyObject *make(PyTypeObject *type, Session *session) {
  iobind_binding *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_binding_create(session->handle, &handle, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  Binding *self = (Binding *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) {
    iobind_binding_destroy(handle);
    return NULL;
  }
  Py_INCREF((PyObject *)session);
  session->bindings++;
  self->handle = handle;
  self->session = session;
  self->inputs = PyMem_Calloc(session->input_count + 1, sizeof *self->inputs);
  self->fixed = PyMem_Calloc(session->output_count + 1, sizeof(Tensor *));
  self->is_fresh = PyMem_Calloc(session->output_count + 1, sizeof *self->is_fresh);
  self->on_host = PyMem_Calloc(session->output_count + 1, sizeof *self->on_host);
  self->is_bound = PyMem_Calloc(session->output_count + 1, sizeof *self->is_bound);
  self->producers = PyMem_Calloc(session->input_count + 1, sizeof(Event *));
  if (self->inputs == NULL || self->fixed == NULL || self->is_fresh == NULL || self->on_host == NULL ||
      self->is_bound == NULL || self->producers == NULL || states_open(self) != 0) {
    Py_DECREF((PyObject *)self);
    return PyErr_NoMemory();
  }
  reset_outputs(self);
  if (self->names == NULL) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  return (PyObject *)self;
}

static PyObject *binding_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"session", NULL};
  PyObject *session;
  bool may = PyArg_ParseTupleAndKeywords(arguments, keywords, "O!", names, session_type, &session) &&
             session_is_open((Session *)session);
  return may ? make(type, (Session *)session) : NULL;
}

/* stage(): a new binding of the same session, even if that is closed */
static PyObject *stage(Binding *self, PyObject *none) {
  (void)none;
  return make(binding_type, self->session);
}

static int binding_traverse(Binding *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE((PyObject *)self));
  Py_VISIT((PyObject *)self->session);
  Py_VISIT((PyObject *)self->outputs);
  Py_VISIT(self->order);
  for (size_t i = 0; self->fixed != NULL && i < self->session->output_count; i++) {
    Py_VISIT((PyObject *)self->fixed[i]);
  }
  for (size_t i = 0; self->producers != NULL && i < self->session->input_count; i++) {
    Py_VISIT((PyObject *)self->producers[i]);
  }
  Py_VISIT((PyObject *)self->behind);
  Py_VISIT((PyObject *)self->stream);
  return states_visit(self, visit, arg);
}

/* The callable references the producers of inputs, which are the program's objects. Other cycles lead through attributes that
 * the program has set, and are broken there. The session is not cleared, because dealloc needs it. */
static int binding_clear_cycle(Binding *self) {
  Py_CLEAR(self->order);
  return 0;
}

/* Fetch the outputs that a caller still references. That may block, and another thread may use the outputs, and so the binding,
 * meanwhile. So it is not done in binding_dealloc, where no reference may be created. Signals are left to the caller, because
 * no exception can be raised here. */
static void binding_finalize(Binding *self) {
  self->is_going = true;
  if (outputs_are_held(self)) {
    outputs_keep(self);
  }
}

static void binding_dealloc(Binding *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack(self);
  outputs_leave(self);
  Py_BEGIN_ALLOW_THREADS
  iobind_binding_destroy(self->handle);
  Py_END_ALLOW_THREADS
  release_now();
  for (size_t i = 0; self->fixed != NULL && i < self->session->output_count; i++) {
    Py_XDECREF((PyObject *)self->fixed[i]);
  }
  for (size_t i = 0; self->producers != NULL && i < self->session->input_count; i++) {
    Py_XDECREF((PyObject *)self->producers[i]);
  }
  states_close(self);
  PyMem_Free(self->fixed);
  PyMem_Free(self->producers);
  PyMem_Free(self->is_fresh);
  PyMem_Free(self->on_host);
  PyMem_Free(self->is_bound);
  PyMem_Free(self->inputs);
  Py_XDECREF(self->names);
  Py_XDECREF(self->order);
  Py_XDECREF((PyObject *)self->behind);
  Py_XDECREF((PyObject *)self->stream);
  session_leave(self->session);
  Py_XDECREF((PyObject *)self->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* ---- inputs and outputs ---- */

static int input_of(Binding *self, Py_ssize_t index) {
  if (index < 0 || (size_t)index >= self->session->input_count) {
    raise_status(IOBIND_ERROR_NOT_FOUND, "binding: no input has this index");
    return -1;
  }
  return 0;
}

/* Record whether C code may copy new data into the input later. */
static void note_input(Binding *self, size_t index, bool is_copy, const iobind_tensor_info *info) {
  struct bound *bound = &self->inputs[index];
  bound->dtype = is_copy && info->dtype != IOBIND_DTYPE_STRING ? info->dtype : 0;
  bound->on_host = self->session->inputs[index].on_cpu;
  bound->rank = info->rank;
  bound->bytes = info->bytes;
  memcpy(bound->dims, info->dims, info->rank * sizeof bound->dims[0]);
}

/* set_input(index, mode, tensor, event): mode COPY is RESIDENT, with a tensor that only this input references */
static PyObject *set_input(Binding *self, PyObject *arguments) {
  enum { COPY = 16 };
  Py_ssize_t index;
  int mode;
  PyObject *given;
  PyObject *behind;
  Tensor *tensor;
  Event *event;
  if (!PyArg_ParseTuple(arguments, "niOO", &index, &mode, &given, &behind) || tensor_or_none(given, &tensor) != 0 ||
      event_or_none(behind, &event) != 0 || input_of(self, index) != 0) {
    return NULL;
  }
  bool is_copy = mode == COPY || mode == IOBIND_INPUT_SNAPSHOT;
  mode = mode == COPY ? IOBIND_INPUT_RESIDENT : mode;
  Event *made = NULL;
  if (event == NULL && tensor != NULL) {
    event = tensor_ready(tensor); /* an output of a run that may be in flight: each run waits for it */
    made = event == NULL ? tensor_written(tensor) : NULL;
    event = made != NULL ? made : event;
    if (event == NULL && PyErr_Occurred()) {
      return NULL;
    }
  } else if (tensor != NULL && tensor_order(tensor, NULL) != 0) {
    return NULL;
  }
  if (binding_enter(self) != 0) {
    Py_XDECREF((PyObject *)made);
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  Py_XINCREF((PyObject *)event); /* another thread's wait for the tensor may release it */
  Py_XDECREF((PyObject *)made);
  WITHOUT_GIL(status,
              iobind_binding_set_input(self->handle, (size_t)index, (iobind_input_mode)mode,
                                       tensor == NULL ? NULL : tensor->handle, event == NULL ? NULL : event->handle, &error));
  if (status != IOBIND_OK || mode == IOBIND_INPUT_SNAPSHOT) { /* the copy has waited for it */
    Py_XDECREF((PyObject *)event);
    event = NULL;
  }
  if (status == IOBIND_OK) {
    note_input(self, (size_t)index, is_copy, &tensor->info);
    state_bound(self, (size_t)index);
    if (mode != IOBIND_INPUT_SNAPSHOT) {
      tensor_share(tensor);
    }
    self->has_producers = self->has_producers || event != NULL;
    SET_REFERENCE(self->producers[index], event);
  }
  return change_ends(self, status, &error);
}

/* Copy new data into a bound input of the same type and dims. 1: done; 0: Python must bind it; -1 with an exception. */
static int update(Binding *self, size_t index, PyObject *value, Stream *stream) {
  struct bound *bound = &self->inputs[index];
  if (bound->dtype == 0 || bound->is_carried) {
    return 0;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_FULL_RO) != 0) {
    PyErr_Clear(); /* no buffer, or a type that the protocol does not have: Python converts it */
    return 0;
  }
  bool same = view.ndim >= 0 && (size_t)view.ndim == bound->rank && view.shape != NULL &&
              dtype_of_format(view.format, view.itemsize) == bound->dtype && PyBuffer_IsContiguous(&view, 'C') != 0;
  for (size_t i = 0; same && i < bound->rank; i++) {
    same = view.shape[i] == bound->dims[i];
  }
  if (bound->rank == 0) {
    same = view.ndim == 0 && dtype_of_format(view.format, view.itemsize) == bound->dtype;
  }
  if (!same) {
    PyBuffer_Release(&view);
    return 0;
  }
  if (binding_enter(self) != 0) {
    PyBuffer_Release(&view);
    return -1;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (bound->on_host && bound->bytes <= 65536 &&
      stream == NULL) { /* no EP is entered, and the copy takes less time than releasing the GIL */
    status = iobind_binding_write_input(self->handle, index, view.buf, bound->bytes, NULL, &error);
  } else {
    stream_enter(stream);
    WITHOUT_GIL(status, iobind_binding_write_input(self->handle, index, view.buf, bound->bytes,
                                                   stream == NULL ? NULL : stream->handle, &error));
    stream_leave(stream);
  }
  self->busy = 0;
  PyBuffer_Release(&view);
  if (status != IOBIND_OK) {
    raise_error(&error);
    return -1;
  }
  return 1;
}

/* binding[name] = value */
static int binding_assign(Binding *self, PyObject *key, PyObject *value) {
  if (value == NULL) {
    PyErr_SetString(PyExc_TypeError, "an input cannot be deleted; clear() unbinds all");
    return -1;
  }
  PyObject *number = PyDict_GetItemWithError(self->session->input_index, key);
  if (number == NULL && PyErr_Occurred()) {
    return -1;
  }
  bool is_bound_itself = PyObject_TypeCheck(value, tensor_type); /* not copied, although a host tensor is a buffer, too */
  int updated = number == NULL || is_bound_itself ? 0 : update(self, PyLong_AsSize_t(number), value, NULL);
  if (updated != 0) {
    return updated < 0 ? -1 : 0;
  }
  PyObject *done = PyObject_CallMethod((PyObject *)self, "_assign", "OO", key, value);
  Py_XDECREF(done);
  return done == NULL ? -1 : 0;
}

/* update_input(index, buffer, stream): new content; the buffer's type is ignored */
static PyObject *update_input(Binding *self, PyObject *arguments) {
  Py_ssize_t index;
  PyObject *source;
  PyObject *on;
  Stream *stream;
  Py_buffer view;
  if (!PyArg_ParseTuple(arguments, "nOO", &index, &source, &on) || stream_or_none(on, &stream) != 0 ||
      input_of(self, index) != 0 || PyObject_GetBuffer(source, &view, PyBUF_C_CONTIGUOUS) != 0) {
    return NULL;
  }
  if (binding_enter(self) != 0) {
    PyBuffer_Release(&view);
    return NULL;
  }
  state_bound(self, (size_t)index);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_binding_write_input(self->handle, (size_t)index, view.buf, (size_t)view.len,
                                                 stream == NULL ? NULL : stream->handle, &error));
  stream_leave(stream);
  self->busy = 0;
  stream_hold(status == IOBIND_OK ? stream : NULL, &view);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static int output_of(Binding *self, Py_ssize_t index) {
  if (index < 0 || (size_t)index >= self->session->output_count) {
    raise_status(IOBIND_ERROR_NOT_FOUND, "binding: no output has this index");
    return -1;
  }
  return 0;
}

/* The output is bound to the tensor; or (NULL) runs allocate it. */
static void note_output(Binding *self, size_t index, Tensor *tensor) {
  outputs_end(self);
  state_end(self, index);
  name_outputs(self);
  Py_XINCREF((PyObject *)tensor);
  SET_REFERENCE(self->fixed[index], tensor);
}

/* set_output(index, tensor, flags) */
static PyObject *set_output(Binding *self, PyObject *arguments) {
  Py_ssize_t index;
  PyObject *given;
  unsigned int flags;
  Tensor *tensor;
  if (!PyArg_ParseTuple(arguments, "nOI", &index, &given, &flags) || ready_tensor_or_none(given, &tensor) != 0 ||
      output_of(self, index) != 0 || change_begins(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status,
              iobind_binding_set_output(self->handle, (size_t)index, tensor == NULL ? NULL : tensor->handle, flags, &error));
  if (status == IOBIND_OK) {
    self->is_fresh[index] = false;
    self->on_host[index] = tensor->info.host_readable != 0;
    self->is_bound[index] = true;
    note_output(self, (size_t)index, tensor);
  }
  return change_ends(self, status, &error);
}

/* place_output(index, mode, device, memory) */
static PyObject *place_output(Binding *self, PyObject *arguments) {
  Py_ssize_t index;
  int mode;
  PyObject *on;
  int memory;
  Device *device;
  if (!PyArg_ParseTuple(arguments, "niOi", &index, &mode, &on, &memory) || device_or_none(on, &device) != 0 ||
      output_of(self, index) != 0 || change_begins(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_place_output(self->handle, (size_t)index, (iobind_output_mode)mode,
                                                  device == NULL ? NULL : device->handle, (iobind_memory)memory, &error));
  if (status == IOBIND_OK) {
    self->is_fresh[index] = mode == IOBIND_OUTPUT_FRESH;
    self->on_host[index] = is_on_host(self, (size_t)index, device, memory);
    self->is_bound[index] = mode != IOBIND_OUTPUT_NONE;
    note_output(self, (size_t)index, NULL);
  }
  return change_ends(self, status, &error);
}

/* carry(output, input, mode, is_kept): is_kept: the default mode. With graphs it has no effect, because a replay writes the
 * captured memory. */
static PyObject *carry(Binding *self, PyObject *arguments) {
  Py_ssize_t output;
  Py_ssize_t input;
  int mode;
  int is_kept;
  if (!PyArg_ParseTuple(arguments, "nnip", &output, &input, &mode, &is_kept) || change_begins(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_carry(self->handle, (size_t)output, (size_t)input, (iobind_carry_mode)mode, &error));
  if (status == IOBIND_OK) {
    outputs_end(self);
    is_kept = is_kept && !self->session->captures_graphs;
    self->is_fresh[output] = mode == IOBIND_CARRY_MOVE || is_kept; /* the call has checked the indices */
    if (is_kept) {
      state_begin(self, (size_t)output, (size_t)input, mode == IOBIND_CARRY_SWAP);
    } else {
      state_end(self, (size_t)output);
    }
    self->inputs[input].is_carried = true;
    self->is_bound[output] = true;
    name_outputs(self);
    SET_REFERENCE(self->fixed[output], NULL);
  }
  return change_ends(self, status, &error);
}

/* set_run_options(log level, tag, keys, values) */
static PyObject *set_run_options(Binding *self, PyObject *arguments) {
  iobind_run_options options;
  if (run_options_of(arguments, &options) != 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (binding_enter(self) == 0) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status = iobind_binding_set_run_options(self->handle, &options, &error);
    self->busy = 0;
    result = status == IOBIND_OK ? (Py_INCREF(Py_None), Py_None) : raise_error(&error);
  }
  free_run_options(&options);
  return result;
}

static PyObject *use_order(Binding *self, PyObject *callable) {
  PyObject *order = callable == Py_None ? NULL : callable;
  Py_XINCREF(order);
  SET_REFERENCE(self->order, order);
  Py_RETURN_NONE;
}

/* ---- run ---- */

static PyObject *check(Binding *self, PyObject *none) {
  (void)none;
  if (binding_enter(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_check(self->handle, &error));
  self->busy = 0;
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *forget_graphs(Binding *self, PyObject *none) {
  (void)none;
  if (binding_enter(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_reset_graphs(self->handle, &error));
  self->busy = 0;
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *take(Binding *self, PyObject *arguments) {
  Py_ssize_t index;
  if (!PyArg_ParseTuple(arguments, "n", &index) || binding_enter(self) != 0) {
    return NULL;
  }
  if (binding_await_run(self) != 0) {
    self->busy = 0;
    return NULL;
  }
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_take_output(self->handle, (size_t)index, &handle, &error));
  self->busy = 0;
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  state_fetched(self, (size_t)index, NULL);
  PyObject *fixed = (PyObject *)self->fixed[index];
  if (fixed != NULL) { /* the same object, which has the list of its writers */
    iobind_tensor_release(handle);
    Py_INCREF(fixed);
    return fixed;
  }
  return output_object(handle, self->session);
}

/* Reset this object after clear(): no inputs, and FRESH outputs. */
static void forget_bound(Binding *self) {
  memset(self->inputs, 0, self->session->input_count * sizeof *self->inputs);
  self->has_producers = false;
  reset_outputs(self);
  for (size_t i = 0; i < self->session->output_count; i++) {
    SET_REFERENCE(self->fixed[i], NULL);
    state_end(self, i);
  }
  for (size_t i = 0; i < self->session->input_count; i++) {
    SET_REFERENCE(self->producers[i], NULL);
  }
}

static PyObject *clear(Binding *self, PyObject *none) {
  (void)none;
  if (change_begins(self) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_clear(self->handle, &error));
  if (status == IOBIND_OK) {
    outputs_end(self);
    forget_bound(self);
  }
  return change_ends(self, status, &error);
}

/* spares(index): is the input's state referenced, in the default mode? Then new data must not be written into it. */
static PyObject *spares(Binding *self, PyObject *number) {
  Py_ssize_t index = PyLong_AsSsize_t(number);
  if (PyErr_Occurred() || input_of(self, index) != 0) {
    return NULL;
  }
  if (!state_is_kept(self, (size_t)index)) {
    Py_RETURN_FALSE;
  }
  if (change_begins(self) != 0) {
    return NULL;
  }
  bool is_referenced = state_is_referenced(self, (size_t)index);
  self->busy = 0;
  return PyBool_FromLong(is_referenced);
}

/* wait(): wait for the runs in flight */
static PyObject *await_runs(Binding *self, PyObject *none) {
  (void)none;
  if (binding_enter(self) != 0) {
    return NULL;
  }
  int status = binding_quiesce(self);
  self->busy = 0;
  return status != 0 ? NULL : (Py_INCREF(Py_None), Py_None);
}

/* (sum, unknown, entries): the copies of each run */
static PyObject *audit(Binding *self, PyObject *none) {
  (void)none;
  if (binding_enter(self) != 0) {
    return NULL;
  }
  iobind_audit *made;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_audit_create(self->handle, &made, &error));
  self->busy = 0;
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  (void)!iobind_audit_get_info(made, &info, NULL);
  PyObject *entries = PyList_New(0);
  for (size_t i = 0; entries != NULL && i < info.entry_count; i++) {
    iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
    (void)!iobind_audit_get_entry(made, i, &entry, NULL);
    PyObject *value = Py_BuildValue(
        "(iIsNNKss)", entry.kind, entry.flags, entry.name, device_object(entry.from, self->session->runtime),
        device_object(entry.to, self->session->runtime), (unsigned long long)entry.bytes, entry.reason, entry.advice);
    if (value == NULL || PyList_Append(entries, value) != 0) {
      Py_CLEAR(entries);
    }
    Py_XDECREF(value);
  }
  iobind_audit_destroy(made);
  return entries == NULL
             ? NULL
             : Py_BuildValue("(KKKN)", (unsigned long long)info.crossing_bytes, (unsigned long long)info.crossing_count,
                             (unsigned long long)info.unknown_count, entries);
}

static PyMethodDef run_method = {
    "run", (PyCFunction)(void (*)(void))binding_run, METH_FASTCALL | METH_KEYWORDS,
    "run($self, /, stream=None, event=None)\n--\n\nRun the model with the bound inputs and outputs, and return the "
    "Outputs, by name.\n\nWithout a stream the run is complete when the call returns. With a stream (an "
    "iobind.Stream, or another library's: see docs/python.md) it is ordered there: an output on the device can be "
    "fetched at once, and its uses are ordered after the run; fetching an output on the host blocks until the run is "
    "complete. `event` is recorded after the run.\nRaises InvalidState (an input is not bound, a run is in flight), "
    "ShapeError, DeviceError, Cancelled, OrtError."};

static PyMethodDef binding_methods[] = {
    {"_run_on", (PyCFunction)binding_run_on, METH_VARARGS, NULL},
    {"_set_input", (PyCFunction)set_input, METH_VARARGS, NULL},
    {"_update_input", (PyCFunction)update_input, METH_VARARGS, NULL},
    {"_set_output", (PyCFunction)set_output, METH_VARARGS, NULL},
    {"_place_output", (PyCFunction)place_output, METH_VARARGS, NULL},
    {"_carry", (PyCFunction)carry, METH_VARARGS, NULL},
    {"_reorder", (PyCFunction)reorder_states, METH_VARARGS, NULL},
    {"_rewind", (PyCFunction)rewind_states, METH_O, NULL},
    {"_name_length", (PyCFunction)name_length, METH_VARARGS, NULL},
    {"_write_lengths", (PyCFunction)write_lengths, METH_VARARGS, NULL},
    {"_stage", (PyCFunction)stage, METH_NOARGS, NULL},
    {"_spares", (PyCFunction)spares, METH_O, NULL},
    {"_await_runs", (PyCFunction)await_runs, METH_NOARGS, NULL},
    {"_set_run_options", (PyCFunction)set_run_options, METH_VARARGS, NULL},
    {"_use_order", (PyCFunction)use_order, METH_O, NULL},
    {"_take", (PyCFunction)take, METH_VARARGS, NULL},
    {"_audit", (PyCFunction)audit, METH_NOARGS, NULL},
    {"_announce_run", (PyCFunction)binding_announce_run, METH_NOARGS, NULL},
    {"_withdraw_run", (PyCFunction)binding_withdraw_run, METH_NOARGS, NULL},
    {"_make_announced_run", (PyCFunction)binding_make_announced_run, METH_NOARGS, NULL},
    {"check", (PyCFunction)check, METH_NOARGS,
     "check()\n--\n\nRaise the error that a run would raise: InvalidState for an input that is not bound, ShapeError "
     "for dims that disagree."},
    {"cancel", (PyCFunction)binding_cancel, METH_NOARGS,
     "cancel()\n--\n\nCancel the run in flight, from any thread: it raises Cancelled. Without a run this is a no-op. "
     "It may miss a run that another thread is just beginning: call it again."},
    {"forget_graphs", (PyCFunction)forget_graphs, METH_NOARGS,
     "forget_graphs()\n--\n\nDrop the captured graphs of a session created with `graphs=`; the next run captures "
     "again.\nRaises InvalidState while a run is in flight."},
    {"clear", (PyCFunction)clear, METH_NOARGS, "clear()\n--\n\nUnbind everything; outputs are FRESH again."},
    {NULL, NULL, 0, NULL},
};

int give_run(PyTypeObject *class) {
  PyObject *method = PyDescr_NewMethod(class, &run_method);
  int status = method == NULL ? -1 : PyObject_SetAttrString((PyObject *)class, run_method.ml_name, method);
  Py_XDECREF(method);
  return status;
}

static PyType_Slot binding_slots[] = {{Py_tp_new, binding_new},
                                      {Py_tp_dealloc, binding_dealloc},
                                      {Py_tp_finalize, binding_finalize},
                                      {Py_tp_traverse, binding_traverse},
                                      {Py_tp_clear, binding_clear_cycle},
                                      {Py_tp_methods, binding_methods},
                                      {Py_mp_ass_subscript, binding_assign},
                                      {0, NULL}};
PyType_Spec binding_spec = {"iobind._core.Binding", sizeof(Binding), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, binding_slots};
