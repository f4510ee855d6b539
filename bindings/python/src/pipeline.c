/* Pipelines over sessions. */
#include "core.h"

typedef struct Pipeline {
  PyObject_HEAD
  iobind_pipeline *handle;
  Session *session;
  int busy;
} Pipeline;

/* `events`: NULL: wait for the work that writes the tensors. Otherwise the item's events, to which this adds the events of runs
 * in flight that write a tensor; `held` retains them. */
static int tensors_of(PyObject *list, size_t count, iobind_tensor **out, iobind_event **events, PyObject **held) {
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != count) {
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "pipeline: expected an entry for each input");
    return -1;
  }
  for (size_t i = 0; i < count; i++) {
    Tensor *tensor;
    if (tensor_or_none(PyList_GetItem(list, (Py_ssize_t)i), &tensor) != 0) {
      return -1;
    }
    Event *ready = tensor == NULL || events == NULL || events[i] != NULL ? NULL : tensor_ready(tensor);
    if (ready != NULL) {
      Py_INCREF((PyObject *)ready); /* another thread's wait for the tensor may release it */
      held[i] = (PyObject *)ready;
      events[i] = ready->handle;
    } else if (tensor != NULL && tensor_order(tensor, NULL) != 0) {
      return -1;
    }
    out[i] = tensor == NULL ? NULL : tensor->handle;
    if (tensor != NULL) {
      tensor_share(tensor);
    }
  }
  return 0;
}

/* A list of iobind_placement, one for each output. Free it by PyMem_Free. */
static int32_t *placements_of(PyObject *list, size_t count) {
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != count) {
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "pipeline: expected a placement for each output");
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
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "pipeline: expected an event, or None, for each input");
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

/* The arrays of a pipeline's options. */
typedef struct pipeline_lists {
  iobind_tensor **constants;
  int32_t *placements;
  iobind_run_options run;
} pipeline_lists;

/* Each of the three arguments is None, or as in pipeline_new. */
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
    options->constant_count = session->input_count;
  }
  if (outputs != Py_None) {
    made->placements = placements_of(outputs, session->output_count);
    if (made->placements == NULL) {
      return -1;
    }
    options->placements = made->placements;
    options->placement_count = session->output_count;
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
  if (session_is_open(session) && fill_pipeline(session, constants, outputs, run, &options, &made) == 0) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status;
    WITH_SESSION(session, status, iobind_pipeline_create(session->handle, &options, &handle, &error));
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
    raise_status(IOBIND_ERROR_INVALID_STATE, "pipeline: a call of another thread is in flight: use one pipeline in one thread");
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
    request.inputs = tensors; /* the pipeline retains those that it reads in place */
    request.input_count = count;
    request.events = events;
    request.event_count = count;
    WITHOUT_GIL(status, iobind_pipeline_submit(self->handle, &request, &error));
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
  size_t output_count;
  iobind_pipeline_item *item;
} pull;

static iobind_status pull_item(void *what, uint64_t timeout_ns, iobind_error *error) {
  pull *next = what;
  return iobind_pipeline_next(next->pipeline, timeout_ns, next->outputs, next->output_count, next->item, error);
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
  pull next = {self->handle, outputs, count, &item};
  if (!wait_in_parts(pull_item, &next, IOBIND_NO_TIMEOUT, &status, &error)) {
    self->busy = 0;
    PyMem_Free(outputs);
    return NULL;
  }
  PyObject *list = status == IOBIND_OK ? PyList_New(0) : raise_error(&error);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *tensor = output_object(iobind_tensor_retain(outputs[i]),
                                     self->session); /* later items do not overwrite a tensor that is retained */
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
