/* Runs of a binding: without a stream, on a stream, or announced for another thread. */
#include "binding.h"

/* Before a run without a stream: wait for the producers of its inputs, in a way that Ctrl-C ends. */
static int await_producers(const Binding *self) {
  if (!self->has_producers || !is_main_thread()) {
    return 0;
  }
  bool goes_on = true;
  for (size_t i = 0; i < self->session->input_count && goes_on; i++) {
    Event *event = self->producers[i];
    if (event != NULL) {
      iobind_error error = IOBIND_ERROR_INIT;
      iobind_status status;
      Py_INCREF((PyObject *)event); /* a signal's handler may bind another one */
      goes_on = wait_in_parts(wait_event, event->handle, IOBIND_NO_TIMEOUT, &status, &error);
      Py_DECREF((PyObject *)event);
    }
  }
  return goes_on ? 0 : -1;
}

/* Record an event after the run, so that a wait for it neither waits for later work on the stream nor returns its failures. If
 * that fails, the library's call waits. An event that an output of an earlier run references is not recorded again. */
static void mark_run(Binding *self, Stream *stream) {
  self->is_behind = false;
  if (self->behind == NULL || Py_REFCNT((PyObject *)self->behind) > 1 ||
      self->behind->device->handle != stream->device->handle) {
    SET_REFERENCE(self->behind,
                  (Event *)PyObject_CallFunctionObjArgs((PyObject *)event_type, (PyObject *)stream->device, NULL));
    PyErr_Clear();
  }
  if (self->behind != NULL) {
    iobind_status status;
    WITHOUT_GIL(status, iobind_event_record(self->behind->handle, stream->handle, NULL));
    self->is_behind = status == IOBIND_OK;
  }
}

/* The outputs of a run that was submitted or is complete; a new reference. `ends_later`: a caller still references the previous
 * run's. */
static PyObject *outputs_of_run(Binding *self, Stream *stream, bool ends_later) {
  self->on_stream = stream != NULL;
  if (stream != NULL && self->stream != stream) {
    Py_INCREF((PyObject *)stream);
    SET_REFERENCE(self->stream, stream);
  }
  if (ends_later) {
    outputs_end(self);
  }
  if (self->outputs == NULL && (self->outputs = (Outputs *)outputs_new(self)) == NULL) {
    return NULL;
  }
  Py_INCREF((PyObject *)self->outputs);
  return (PyObject *)self->outputs;
}

/* Check the event's device before the run: a run must not begin if its event cannot be recorded. */
static int check_event(const Stream *stream, const Event *event) {
  if (stream == NULL || event == NULL || event->device->handle == stream->device->handle) {
    return 0;
  }
  raise_format(IOBIND_ERROR_WRONG_DEVICE, "run: event: expected one of '%S', the stream's device, got one of '%S'",
               (PyObject *)stream->device, (PyObject *)event->device);
  return -1;
}

/* Record the event after a run, which is complete if it had no stream. The caller is inside stream_enter. */
static iobind_status record_event(const Stream *stream, const Event *event, iobind_error *error) {
  iobind_status status;
  WITHOUT_GIL(status, stream == NULL ? event_pass(event, error) : iobind_event_record(event->handle, stream->handle, error));
  return status;
}

/* Order the run after the producers of its inputs, before a call of the binding begins. */
static int order_run(const Binding *self, Stream *stream) {
  if (self->order == NULL) {
    return 0;
  }
  PyObject *done = PyObject_CallFunctionObjArgs(self->order, stream == NULL ? Py_None : (PyObject *)stream, NULL);
  Py_XDECREF(done);
  return done == NULL ? -1 : 0;
}

/* Begin a call of the binding. This and the next function are inlined, so that the usual call, without a stream, has its own
 * code. */
__attribute__((always_inline)) static inline int begin_run(Binding *self, bool *ends_later) {
  if (change_begins(self) != 0) {
    return -1;
  }
  /* A run on a stream may be in flight: then this run is refused, and must not end that run's outputs, which a caller
   * references. */
  *ends_later = self->on_stream && outputs_are_held(self);
  if (!*ends_later) {
    outputs_end(self);
  }
  if ((self->has_states && states_spare(self) != 0) ||
      (self->outputs == NULL && (self->outputs = (Outputs *)outputs_new(self)) == NULL)) {
    self->busy = 0;
    return -1;
  }
  return 0;
}

__attribute__((always_inline)) static inline PyObject *make_run(Binding *self, Stream *stream, Event *event, bool ends_later) {
  iobind_error error;
  error.struct_size = sizeof error; /* a failure writes the rest */
  iobind_status status;
  if (stream != NULL) {
    stream_enter(stream);
  }
  bool watched = run_begins(self->handle);
  WITHOUT_GIL(status, iobind_binding_run(self->handle, stream == NULL ? NULL : stream->handle, &error));
  if (watched) {
    run_ends();
  }
  iobind_status recorded = status == IOBIND_OK && event != NULL ? record_event(stream, event, &error) : status;
  if (stream != NULL) {
    if (status == IOBIND_OK) {
      mark_run(self, stream);
    }
    stream_leave(stream);
  }
  for (size_t i = 0; stream != NULL && i < self->session->output_count; i++) {
    if (self->fixed[i] != NULL) {
      note_writer(self->fixed[i], stream);
    }
  }
  if (self->has_states) {
    states_run(self, status == IOBIND_OK);
  }
  PyObject *outputs = status == IOBIND_OK ? outputs_of_run(self, stream, ends_later) : NULL;
  self->busy =
      0; /* last, because freeing objects above may release the GIL, and another thread's call must not see an incomplete run */
  release_now();
  if (recorded == IOBIND_OK) {
    return outputs;
  }
  if (status == IOBIND_OK) {
    Py_XDECREF(outputs); /* the run itself was submitted or is complete */
    return raise_error(&error);
  }
  if (status == IOBIND_ERROR_CANCELLED && PyErr_CheckSignals() != 0) {
    return NULL; /* KeyboardInterrupt */
  }
  return raise_error(&error);
}

/* A run on a stream, or (NULL) one that is complete on return. */
__attribute__((always_inline)) static inline PyObject *run(Binding *self, Stream *stream, Event *event) {
  bool ends_later;
  if (order_run(self, stream) != 0 || (event != NULL && check_event(stream, event) != 0) ||
      (stream == NULL && await_producers(self) != 0) || begin_run(self, &ends_later) != 0) {
    return NULL;
  }
  return make_run(self, stream, event, ends_later);
}

/* ---- a run that another thread will make ---- */

PyObject *binding_announce_run(Binding *self, PyObject *none) {
  (void)none;
  bool ends_later;
  if (begin_run(self, &ends_later) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_binding_announce_run(self->handle, 1, &error) != IOBIND_OK) {
    self->busy = 0;
    return raise_error(&error);
  }
  if (ends_later) {
    outputs_end(self);
  }
  Py_RETURN_NONE;
}

/* The end of an announced run that is not made. */
PyObject *binding_withdraw_run(Binding *self, PyObject *none) {
  (void)none;
  (void)!iobind_binding_announce_run(self->handle, 0, NULL);
  self->busy = 0;
  Py_RETURN_NONE;
}

PyObject *binding_make_announced_run(Binding *self, PyObject *none) {
  if (order_run(self, NULL) != 0) {
    Py_XDECREF(binding_withdraw_run(self, none));
    return NULL;
  }
  return make_run(self, NULL, NULL, false);
}

/* run_on(stream, event) */
PyObject *binding_run_on(Binding *self, PyObject *arguments) {
  PyObject *on;
  PyObject *then;
  Stream *stream;
  Event *event;
  if (!PyArg_ParseTuple(arguments, "OO", &on, &then) || stream_or_none(on, &stream) != 0 || event_or_none(then, &event) != 0) {
    return NULL;
  }
  return run(self, stream, event);
}

/* run(stream=None, event=None) with arguments; the usual call has none */
static PyObject *run_given(Binding *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
  PyObject *given[2] = {Py_None, Py_None};
  if (count > 2) {
    PyErr_Format(PyExc_TypeError, "run() takes a stream and an event, got %zd arguments", count);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    given[i] = arguments[i];
  }
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    bool is_stream = PyUnicode_CompareWithASCIIString(name, "stream") == 0;
    if (!is_stream && PyUnicode_CompareWithASCIIString(name, "event") != 0) {
      PyErr_Format(PyExc_TypeError, "run() has no argument %R: it takes stream and event", name);
      return NULL;
    }
    if (count > (is_stream ? 0 : 1)) {
      PyErr_Format(PyExc_TypeError, "run() takes stream and event once each, got a second %R", name);
      return NULL;
    }
    given[is_stream ? 0 : 1] = arguments[count + i];
  }
  return PyObject_CallMethod((PyObject *)self, "_run_on", "OO", given[0], given[1]);
}

/* The usual call, without arguments, has its own function, so that it needs no stack frame. */
PyObject *binding_run(Binding *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  return count == 0 && names == NULL ? run(self, NULL, NULL) : run_given(self, arguments, count, names);
}

PyObject *binding_cancel(Binding *self, PyObject *none) {
  (void)none;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_binding_cancel(self->handle, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}
