/* The outputs of a run, by name. On a stream, outputs on the device can be fetched before the run is complete. */
#include "binding.h"

PyObject *outputs_new(Binding *binding) {
  PyTypeObject *type = (PyTypeObject *)outputs_class;
  Outputs *self = (Outputs *)PyType_GenericAlloc(type, 0);
  if (self != NULL) {
    self->binding =
        binding; /* borrowed while only the binding references this; a reference if a caller does, see binding_run */
    Py_INCREF((PyObject *)binding->session);
    self->session = binding->session;
    self->fetched = PyDict_New();
    if (self->fetched == NULL) {
      Py_DECREF((PyObject *)self);
      return NULL;
    }
  }
  return (PyObject *)self;
}

/* The binding is visited only if a reference to it is held. */
static int outputs_traverse(Outputs *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE((PyObject *)self));
  Py_VISIT((PyObject *)self->session);
  Py_VISIT(self->fetched);
  return 0;
}

static void outputs_dealloc(Outputs *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack(self);
  Py_XDECREF((PyObject *)self->session);
  Py_XDECREF(self->names);
  Py_XDECREF(self->fetched);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* Can the output be fetched before the run is complete? Only in device memory, and with an event after the run. */
static bool can_lend(const Binding *self, size_t index) {
  const Tensor *fixed = self->fixed[index];
  bool on_host = fixed != NULL ? fixed->info.host_readable != 0 : self->on_host[index];
  return self->on_stream && self->is_behind && !on_host && self->stream->native != NULL;
}

/* Get an output of a run that may be in flight from the library; borrowed. `lends`: without a wait. */
static iobind_tensor *borrow(Binding *binding, size_t index, bool lends) {
  iobind_tensor *handle = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!lends && binding_await_run(binding) != 0) {
    return NULL;
  }
  if (lends) {
    stream_enter(binding->stream);
    WITHOUT_GIL(status, iobind_binding_get_output(binding->handle, index, binding->stream->handle, &handle, &error));
    stream_leave(binding->stream);
  } else if (binding->on_stream) {
    WITHOUT_GIL(status, iobind_binding_get_output(binding->handle, index, NULL, &handle, &error));
  } else {
    status = iobind_binding_get_output(binding->handle, index, NULL, &handle, &error);
  }
  if (status != IOBIND_OK) {
    raise_error(&error);
    return NULL;
  }
  return handle;
}

/* The tensor of an output; a new reference. The caller has entered the binding. */
static PyObject *tensor_of(Binding *binding, size_t index) {
  bool lends = index < binding->session->output_count && can_lend(binding, index);
  iobind_tensor *handle = borrow(binding, index, lends);
  if (handle == NULL) {
    return NULL;
  }
  PyObject *tensor = (PyObject *)binding->fixed[index];
  if (tensor != NULL) {
    Py_INCREF(tensor);
  } else {
    tensor = output_object(iobind_tensor_retain(handle), binding->session);
  }
  if (tensor != NULL && lends) {
    tensor_comes_with((Tensor *)tensor, binding->stream, binding->behind);
  }
  return tensor;
}

/* The names of the run's outputs; borrowed. */
static PyObject *names_of(const Outputs *self) {
  return self->binding != NULL ? self->binding->names : self->names;
}

/* Raise why an output that was not fetched in time is not available. Returns NULL. */
static PyObject *raise_ended(const Outputs *self, size_t index) {
  PyObject *name = self->session->outputs[index].name;
  int was_bound = PySequence_Contains(self->names, name);
  if (was_bound < 0) {
    return NULL;
  }
  return raise_format(IOBIND_ERROR_INVALID_STATE, "outputs: '%U' %s", name,
                      was_bound == 0 ? "is not bound, so the run has not returned it"
                      : self->is_orphan
                          ? "was lost with its binding, and could not be fetched then: fetch it earlier, or keep the binding"
                          : "was replaced by a later run or a change of the outputs: fetch it before that");
}

/* The output with the index `number`; a new reference. */
static PyObject *fetch(Outputs *self, PyObject *number) {
  PyObject *had = PyDict_GetItemWithError(self->fetched, number);
  if (had != NULL) {
    Py_INCREF(had);
    return had;
  }
  if (PyErr_Occurred()) {
    return NULL;
  }
  Binding *binding = self->binding;
  size_t index = PyLong_AsSize_t(number);
  if (binding == NULL) {
    return raise_ended(self, index);
  }
  if (index < binding->session->output_count && binding->fixed[index] != NULL && !binding->on_stream) {
    Py_INCREF((PyObject *)binding->fixed[index]);
    return (PyObject *)binding->fixed[index];
  }
  if (binding_enter(binding) != 0) {
    return NULL;
  }
  PyObject *tensor = tensor_of(binding, index);
  binding->busy = 0;
  if (tensor == NULL || tensor == (PyObject *)binding->fixed[index]) {
    return tensor;
  }
  self->has_fetched = true;
  state_fetched(binding, index, (Tensor *)tensor);
  if (PyDict_SetItem(self->fetched, number, tensor) != 0) {
    Py_CLEAR(tensor);
  }
  return tensor;
}

static PyObject *outputs_get(Outputs *self, PyObject *key) {
  PyObject *number = PyDict_GetItemWithError(self->session->output_index, key);
  if (number == NULL) {
    if (PyErr_Occurred()) {
      return NULL;
    }
    return PyObject_CallMethod((PyObject *)self, "__missing__", "O", key);
  }
  PyObject *held = (PyObject *)self->binding; /* another thread, or a signal's handler, may release it during the wait */
  Py_XINCREF(held);
  PyObject *tensor = fetch(self, number);
  Py_XDECREF(held);
  return tensor;
}

static Py_ssize_t outputs_length(Outputs *self) {
  return PyTuple_Size(names_of(self));
}

static PyObject *outputs_names(Outputs *self, PyObject *none) {
  (void)none;
  PyObject *names = names_of(self);
  Py_INCREF(names);
  return names;
}

static PyMethodDef outputs_methods[] = {
    {"_names", (PyCFunction)outputs_names, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot outputs_slots[] = {{Py_tp_methods, outputs_methods},   {Py_tp_dealloc, outputs_dealloc},
                                      {Py_tp_traverse, outputs_traverse}, {Py_mp_subscript, outputs_get},
                                      {Py_mp_length, outputs_length},     {0, NULL}};
PyType_Spec outputs_spec = {"iobind._core.Outputs", sizeof(Outputs), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            outputs_slots};

void outputs_keep(Binding *self) {
  Outputs *outputs = self->outputs;
  PyObject *raised[3];
  PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
  for (size_t i = 0; i < self->session->output_count; i++) {
    bool stays =
        self->is_bound[i] && (self->is_fresh[i] || self->is_going); /* after the binding's end no run overwrites an output */
    PyObject *number = stays ? PyLong_FromSize_t(i) : NULL;
    PyObject *tensor = number == NULL ? NULL : fetch(outputs, number);
    if (tensor != NULL && self->is_going) {
      (void)!PyDict_SetItem(outputs->fetched, number, tensor); /* also a bound tensor */
    }
    PyErr_Clear(); /* it could not be fetched later either */
    Py_XDECREF(tensor);
    Py_XDECREF(number);
  }
  PyErr_Restore(raised[0], raised[1], raised[2]);
}

/* Separate the outputs that a caller references from the binding. */
static void detach(Binding *self) {
  Outputs *outputs = self->outputs;
  Py_XINCREF(self->names);
  outputs->names = self->names;
  outputs->binding = NULL;
  self->outputs = NULL;
  Py_DECREF((PyObject *)outputs);
}

void outputs_leave(Binding *self) {
  if (self->outputs != NULL) {
    self->outputs->is_orphan = true;
    detach(self);
  }
}

void outputs_drop(Binding *self) {
  if (outputs_are_held(self)) {
    detach(self);
  } else {
    PyDict_Clear(self->outputs->fetched);
    self->outputs->has_fetched = false;
  }
}
