/* Imports memory and semaphores of other libraries and processes. */
#include "core.h"

typedef struct ExternalMemory {
  PyObject_HEAD
  iobind_external_memory *handle;
  PyObject *device;
} ExternalMemory;

typedef struct Semaphore {
  PyObject_HEAD
  iobind_semaphore *handle;
  PyObject *device;
} Semaphore;

/* (device, kind, handle, bytes) */
static int external_of(PyObject *arguments, PyObject **device, iobind_external *external) {
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(arguments, "O!iO&n", device_type, device, &external->kind, to_address, &external->handle, &bytes)) {
    return -1;
  }
  external->bytes = (size_t)bytes;
  return 0;
}

static void free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject *device_of(PyObject *device) {
  Py_INCREF(device);
  return device;
}

/* ---- memory ---- */

static PyObject *memory_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  (void)keywords;
  PyObject *device;
  iobind_external external = IOBIND_EXTERNAL_INIT;
  if (external_of(arguments, &device, &external) != 0) {
    return NULL;
  }
  iobind_external_memory *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_external_memory_import(((Device *)device)->handle, &external, &handle, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  ExternalMemory *self = (ExternalMemory *)PyType_GenericAlloc(type, 0);
  if (self == NULL) {
    iobind_external_memory_destroy(handle);
    return NULL;
  }
  self->handle = handle;
  self->device = device_of(device);
  return (PyObject *)self;
}

static void memory_dealloc(ExternalMemory *self) {
  Py_BEGIN_ALLOW_THREADS
  iobind_external_memory_destroy(self->handle);
  Py_END_ALLOW_THREADS
  Py_XDECREF(self->device);
  free_object((PyObject *)self);
}

/* _view(offset, dtype, dims) */
static PyObject *memory_view(ExternalMemory *self, PyObject *arguments) {
  Py_ssize_t offset;
  int dtype;
  PyObject *shape;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  if (!PyArg_ParseTuple(arguments, "niO", &offset, &dtype, &shape) || dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  iobind_tensor *tensor;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status,
              iobind_external_memory_view(self->handle, (size_t)offset, (iobind_dtype)dtype, dims, rank, &tensor, &error));
  return status == IOBIND_OK ? tensor_object(tensor) : raise_error(&error);
}

static PyObject *memory_device(ExternalMemory *self, void *none) {
  (void)none;
  return device_of(self->device);
}

static PyMethodDef memory_methods[] = {
    {"_view", (PyCFunction)memory_view, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef memory_fields[] = {
    {"device", (getter)memory_device, NULL, "the device whose memory it is", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot memory_slots[] = {{Py_tp_new, memory_new},
                                     {Py_tp_dealloc, memory_dealloc},
                                     {Py_tp_methods, memory_methods},
                                     {Py_tp_getset, memory_fields},
                                     {0, NULL}};
PyType_Spec external_memory_spec = {"iobind._core.ExternalMemory", sizeof(ExternalMemory), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, memory_slots};

/* ---- semaphores ---- */

static PyObject *semaphore_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  (void)keywords;
  PyObject *device;
  iobind_external external = IOBIND_EXTERNAL_INIT;
  if (external_of(arguments, &device, &external) != 0) {
    return NULL;
  }
  iobind_semaphore *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_semaphore_import(((Device *)device)->handle, &external, &handle, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Semaphore *self = (Semaphore *)PyType_GenericAlloc(type, 0);
  if (self == NULL) {
    iobind_semaphore_destroy(handle);
    return NULL;
  }
  self->handle = handle;
  self->device = device_of(device);
  return (PyObject *)self;
}

static void semaphore_dealloc(Semaphore *self) {
  Py_BEGIN_ALLOW_THREADS
  iobind_semaphore_destroy(self->handle);
  Py_END_ALLOW_THREADS
  Py_XDECREF(self->device);
  free_object((PyObject *)self);
}

/* _order(stream, value, signal): make the stream wait for the value, or signal it after the stream's work */
static PyObject *semaphore_order(Semaphore *self, PyObject *arguments) {
  PyObject *object;
  unsigned long long value;
  int signal;
  if (!PyArg_ParseTuple(arguments, "O!Kp", stream_type, &object, &value, &signal)) {
    return NULL;
  }
  Stream *stream = (Stream *)object;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(stream);
  if (signal) {
    WITHOUT_GIL(status, iobind_stream_signal_semaphore(stream->handle, self->handle, value, &error));
  } else {
    WITHOUT_GIL(status, iobind_stream_wait_semaphore(stream->handle, self->handle, value, &error));
  }
  stream_leave(stream);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *semaphore_device(Semaphore *self, void *none) {
  (void)none;
  return device_of(self->device);
}

static PyMethodDef semaphore_methods[] = {
    {"_order", (PyCFunction)semaphore_order, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef semaphore_fields[] = {
    {"device", (getter)semaphore_device, NULL, "the device whose streams wait for it", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot semaphore_slots[] = {{Py_tp_new, semaphore_new},
                                        {Py_tp_dealloc, semaphore_dealloc},
                                        {Py_tp_methods, semaphore_methods},
                                        {Py_tp_getset, semaphore_fields},
                                        {0, NULL}};
PyType_Spec semaphore_spec = {"iobind._core.Semaphore", sizeof(Semaphore), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                              semaphore_slots};

/* ---- the kinds that a device imports ---- */

/* check_import(device, kind) */
static PyObject *check_import(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *device;
  int kind;
  if (!PyArg_ParseTuple(arguments, "O!i", device_type, &device, &kind)) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_device_check_import(((Device *)device)->handle, kind, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

PyMethodDef external_functions[] = {
    {"check_import", check_import, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
