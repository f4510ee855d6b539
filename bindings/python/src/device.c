/* Runtimes, devices, streams, events. */
#include "core.h"

#include <string.h>

PyObject *the_runtime;

/* ---- runtimes ---- */

static PyObject *runtime_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"library", "api_base", "ep_libraries", "flags", "log_level", NULL};
  const char *library = NULL;
  unsigned long long api_base = 0;
  PyObject *libraries = NULL;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  unsigned int flags = 0;
  int log_level = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "zKOIi", names, &library, &api_base, &libraries, &flags, &log_level)) {
    return NULL;
  }
  const char **paths;
  if (strings_of(libraries, &paths, &options.ep_library_count) != 0) {
    return NULL;
  }
  options.flags = flags;
  options.ort_library = library;
  options.ort_api_base = (const void *)(uintptr_t)api_base;
  options.ep_libraries = paths;
  options.log = log_line;
  options.log_level = log_level;
  iobind_runtime *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_runtime_create(&options, &handle, &error));
  PyMem_Free(paths);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Runtime *self = (Runtime *)allocate(type, 0);
  if (self == NULL) {
    iobind_runtime_destroy(handle);
    return NULL;
  }
  self->handle = handle;
  the_runtime = (PyObject *)self;
  return (PyObject *)self;
}

static void runtime_dealloc(Runtime *self) {
  if (the_runtime == (PyObject *)self) {
    the_runtime = NULL;
  }
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  Py_BEGIN_ALLOW_THREADS
  iobind_runtime_destroy(self->handle);
  Py_END_ALLOW_THREADS
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *runtime_info(Runtime *self, PyObject *none) {
  (void)none;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_runtime_get_info(self->handle, &info, &error) != IOBIND_OK
             ? raise_error(&error)
             : Py_BuildValue("{s:s,s:I,s:s,s:s}", "ort_version", info.ort_version, "ort_api_version", info.ort_api_version,
                             "ort_library", info.ort_library, "found_by", info.found_by);
}

static PyObject *runtime_eps(Runtime *self, PyObject *none) {
  (void)none;
  PyObject *list = PyList_New(0);
  iobind_ep_info info = IOBIND_EP_INFO_INIT;
  for (size_t i = 0; list != NULL && iobind_runtime_get_ep(self->handle, i, &info, NULL) == IOBIND_OK; i++) {
    PyObject *entry = Py_BuildValue("{s:s,s:s,s:s,s:s}", "name", info.name, "path", info.path, "status",
                                    iobind_status_get_name(info.status), "message", info.message);
    if (entry == NULL || PyList_Append(list, entry) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(entry);
  }
  return list;
}

static PyObject *runtime_register(Runtime *self, PyObject *arguments) {
  const char *path;
  const char *name = NULL;
  if (!PyArg_ParseTuple(arguments, "s|z", &path, &name)) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_runtime_register_ep(self->handle, name, path, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *runtime_devices(Runtime *self, PyObject *none) {
  (void)none;
  PyObject *list = PyList_New(0);
  iobind_device *device;
  for (size_t i = 0; list != NULL && (device = iobind_runtime_get_device(self->handle, i)) != NULL; i++) {
    PyObject *made = device_object(device, (PyObject *)self);
    if (made == NULL || PyList_Append(list, made) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(made);
  }
  return list;
}

static PyObject *runtime_find(Runtime *self, PyObject *spec) {
  Py_ssize_t length;
  const char *text = PyUnicode_AsUTF8AndSize(spec, &length);
  if (text == NULL) {
    return NULL;
  }
  if (strlen(text) != (size_t)length) {
    return raise_format(IOBIND_ERROR_INVALID_ARGUMENT, "device: expected a spec without a NUL character, got %R", spec);
  }
  iobind_device *device;
  iobind_memory memory = IOBIND_MEMORY_DEFAULT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_runtime_find_device(self->handle, text, &device, &memory, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  PyObject *made = device_object(device, (PyObject *)self);
  return made == NULL ? NULL : Py_BuildValue("(Ni)", made, (int)memory);
}

static PyMethodDef runtime_methods[] = {
    {"info", (PyCFunction)runtime_info, METH_NOARGS, NULL},
    {"eps", (PyCFunction)runtime_eps, METH_NOARGS, NULL},
    {"register_ep", (PyCFunction)runtime_register, METH_VARARGS, NULL},
    {"devices", (PyCFunction)runtime_devices, METH_NOARGS, NULL},
    {"find", (PyCFunction)runtime_find, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot runtime_slots[] = {
    {Py_tp_new, runtime_new}, {Py_tp_dealloc, runtime_dealloc}, {Py_tp_methods, runtime_methods}, {0, NULL}};
PyType_Spec runtime_spec = {"iobind._core.Runtime", sizeof(Runtime), 0, Py_TPFLAGS_DEFAULT, runtime_slots};

/* ---- devices ---- */

PyObject *device_object(iobind_device *handle, PyObject *runtime) {
  if (handle == NULL) {
    Py_RETURN_NONE;
  }
  Device *self = PyObject_New(Device, device_type);
  if (self != NULL) {
    self->handle = handle;
    self->runtime = runtime;
    Py_XINCREF(runtime);
  }
  return (PyObject *)self;
}

static void device_dealloc(Device *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  Py_XDECREF(self->runtime);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *device_metadata(Device *self, PyObject *none) {
  (void)none;
  PyObject *entries = PyDict_New();
  const char *key;
  const char *value;
  for (size_t i = 0; entries != NULL && iobind_device_get_metadata(self->handle, i, &key, &value, NULL) == IOBIND_OK; i++) {
    if (set_text(entries, key, value) != 0) {
      Py_CLEAR(entries);
    }
  }
  return entries;
}

static PyObject *device_info(Device *self, PyObject *none) {
  (void)none;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_device_get_info(self->handle, &info, &error) != IOBIND_OK
             ? raise_error(&error)
             : Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:i,s:I,s:I}", "spec", info.spec, "ep_name", info.ep_name,
                             "ep_vendor", info.ep_vendor, "vendor", info.vendor, "memory_name", info.memory_name, "vendor_id",
                             info.vendor_id, "device_id", info.device_id, "hardware", info.hardware, "ordinal", info.ordinal,
                             "flags", info.flags);
}

static PyObject *device_counters(Device *self, PyObject *none) {
  (void)none;
  iobind_device_counters got = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  typedef unsigned long long number;
  return iobind_device_get_counters(self->handle, &got, &error) != IOBIND_OK
             ? raise_error(&error)
             : Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "upload_bytes", (number)got.upload_bytes, "upload_count",
                             (number)got.upload_count, "download_bytes", (number)got.download_bytes, "download_count",
                             (number)got.download_count, "local_bytes", (number)got.local_bytes, "local_count",
                             (number)got.local_count, "allocated_bytes", (number)got.allocated_bytes, "allocation_count",
                             (number)got.allocation_count);
}

static PyObject *memory_of(const Device *self, iobind_holder holder) {
  iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  typedef unsigned long long number;
  return iobind_device_get_memory(self->handle, holder, &usage, &error) != IOBIND_OK
             ? raise_error(&error)
             : Py_BuildValue("{s:K,s:K,s:K}", "bytes", (number)usage.bytes, "count", (number)usage.count, "most_bytes",
                             (number)usage.most_bytes);
}

static PyObject *device_memory(Device *self, PyObject *none) {
  static const char *const names[] = {"any", "caller", "binding", "graph", "pipeline", "stream"}; /* as iobind_holder */
  (void)none;
  PyObject *all = PyDict_New();
  for (size_t i = 0; all != NULL && i < sizeof names / sizeof names[0]; i++) {
    PyObject *one = memory_of(self, (iobind_holder)i);
    if (one == NULL || PyDict_SetItemString(all, names[i], one) < 0) {
      Py_CLEAR(all);
    }
    Py_XDECREF(one);
  }
  return all;
}

static PyObject *device_trim(Device *self, PyObject *none) {
  (void)none;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_device_trim(self->handle, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *device_check(Device *self, PyObject *none) {
  (void)none;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_device_check(self->handle, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *device_compare(Device *self, PyObject *other, int operation) {
  if (Py_TYPE(other) != device_type || (operation != Py_EQ && operation != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyBool_FromLong((self->handle == ((Device *)other)->handle) == (operation == Py_EQ));
}

static Py_hash_t device_hash(Device *self) {
  Py_hash_t hash = (Py_hash_t)((uintptr_t)self->handle >> 4);
  return hash == -1 ? -2 : hash;
}

static PyObject *device_string(Device *self) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_device_get_info(self->handle, &info, &error) == IOBIND_OK ? PyUnicode_FromString(info.spec)
                                                                          : raise_error(&error);
}

static PyObject *device_repr(Device *self) {
  PyObject *spec = device_string(self);
  PyObject *text = spec == NULL ? NULL : PyUnicode_FromFormat("<iobind.Device %R>", spec);
  Py_XDECREF(spec);
  return text;
}

static PyObject *device_get(Device *self, void *field) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_device_get_info(self->handle, &info, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  const char *name = field;
  if (strcmp(name, "spec") == 0) {
    return PyUnicode_FromString(info.spec);
  }
  return PyUnicode_FromString(info.ep_name);
}

static PyGetSetDef device_fields[] = {
    {"spec", (getter)device_get, NULL, "finds this device again, such as \"webgpu:0\"", "spec"},
    {"ep_name", (getter)device_get, NULL, "the execution provider, such as \"WebGpuExecutionProvider\"", "ep_name"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef device_methods[] = {
    {"info", (PyCFunction)device_info, METH_NOARGS,
     "info()\n--\n\nThe device's description, as a dict: spec, ep_name, ep_vendor, vendor, memory_name, vendor_id, "
     "device_id, hardware (0 CPU, 1 GPU, 2 NPU), ordinal, flags."},
    {"metadata", (PyCFunction)device_metadata, METH_NOARGS,
     "metadata()\n--\n\nONNX Runtime's metadata of the device, as a dict."},
    {"counters", (PyCFunction)device_counters, METH_NOARGS,
     "counters()\n--\n\nBytes and copies that iobind has moved, and memory that it has allocated, on the device since "
     "it was loaded, as a dict: upload_bytes, upload_count, download_bytes, download_count, local_bytes, local_count, "
     "allocated_bytes (current), allocation_count."},
    {"memory", (PyCFunction)device_memory, METH_NOARGS,
     "memory()\n--\n\nMemory of the device that iobind has allocated, by its use, as a dict: any, caller, binding, "
     "graph, pipeline, stream. Each is a dict: bytes and count (current), most_bytes (the largest amount). Memory that "
     "ONNX Runtime allocates is not included."},
    {"trim", (PyCFunction)device_trim, METH_NOARGS,
     "trim()\n--\n\nReturn the memory that the allocators of the device keep for later tensors to the driver. Only pools "
     "(configure(pools=True), on CUDA) keep memory. Raises DeviceLost, or OrtError if the "
     "driver refuses."},
    {"check", (PyCFunction)device_check, METH_NOARGS,
     "check()\n--\n\nRun small models on the device, once. Raises DeviceError with the reason if it does not work, or "
     "ResultError if it computes wrong results."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot device_slots[] = {
    {Py_tp_dealloc, device_dealloc},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_fields},
    {Py_tp_str, device_string},
    {Py_tp_repr, device_repr},
    {Py_tp_richcompare, device_compare},
    {Py_tp_hash, device_hash},
    {Py_tp_doc, "A device of an execution provider; iobind.device(spec) finds one, as does a pickle, which has only the spec."},
    {0, NULL}};
PyType_Spec device_spec = {"iobind._core.Device", sizeof(Device), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           device_slots};

/* ---- streams ---- */

void stream_enter(Stream *stream) {
  if (stream != NULL && !is_forked() && pthread_mutex_trylock(&stream->mutex) != 0) {
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&stream->mutex);
    Py_END_ALLOW_THREADS
  }
}

void stream_leave(Stream *stream) {
  if (stream != NULL && !is_forked()) {
    pthread_mutex_unlock(&stream->mutex);
  }
}

typedef struct held {
  struct held *next;
  iobind_event *
      event; /* recorded after the work; NULL: it could not be recorded, and only a synchronization shows that the work is complete */
  Py_buffer view;
} held;

static bool held_is_read(const held *self) {
  int32_t over = 0;
  return self->event != NULL && (iobind_event_query(self->event, &over, NULL) != IOBIND_OK || over != 0);
}

/* Release the oldest buffer, after it was removed from the list, because its exporter may call this module. */
static void let_oldest_go(Stream *stream) {
  held *oldest = stream->held;
  stream->held = oldest->next;
  iobind_event_destroy(oldest->event);
  PyBuffer_Release(&oldest->view);
  PyMem_Free(oldest);
}

static void let_read_go(Stream *stream) {
  while (stream->held != NULL && held_is_read(stream->held)) {
    let_oldest_go(stream);
  }
}

static iobind_event *event_behind(Stream *stream) {
  iobind_event *event = NULL;
  if (iobind_event_create(stream->device->handle, &event, NULL) != IOBIND_OK) {
    return NULL;
  }
  iobind_status status;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_event_record(event, stream->handle, NULL));
  stream_leave(stream);
  if (status != IOBIND_OK) {
    iobind_event_destroy(event);
    event = NULL;
  }
  return event;
}

/* Out of memory for a list entry: wait until the buffer has been read. */
static void await_read(Stream *stream, Py_buffer *view) {
  iobind_event *event = event_behind(stream);
  if (event != NULL) {
    Py_BEGIN_ALLOW_THREADS(void)
    !iobind_event_wait(event, IOBIND_NO_TIMEOUT, NULL);
    Py_END_ALLOW_THREADS
    iobind_event_destroy(event);
    PyBuffer_Release(view);
  } /* otherwise it is unknown whether the buffer has been read, and it is never released */
}

/* Only the oldest of many is queried: a query of work after a run also returns that the run is complete, which the caller has
 * not asked for. */
void stream_hold(Stream *stream, Py_buffer *view) {
  enum { MANY = 64 };
  /* An EP's stream has read pageable memory when the call returns; a thread of iobind reads it later. */
  if (stream == NULL || stream->native != NULL) {
    PyBuffer_Release(view);
    return;
  }
  held *made = PyMem_Calloc(1, sizeof *made);
  if (made == NULL) {
    await_read(stream, view);
    return;
  }
  made->view = *view;
  made->event = event_behind(stream);
  held **last = &stream->held;
  size_t count = 0;
  for (; *last != NULL; last = &(*last)->next) {
    count++;
  }
  *last = made;
  if (count >= MANY && held_is_read(stream->held)) {
    let_oldest_go(stream);
  }
}

/* Takes ownership of the handle, also on failure. */
static PyObject *stream_object(PyTypeObject *type, iobind_stream *handle, PyObject *device) {
  Stream *self = (Stream *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) {
    iobind_stream_destroy(handle);
    return NULL;
  }
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&self->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  Py_INCREF(device);
  self->handle = handle;
  self->device = (Device *)device;
  iobind_native native = IOBIND_NATIVE_INIT;
  self->native = iobind_stream_get_native(handle, &native, NULL) == IOBIND_OK ? native.handle : NULL;
  return (PyObject *)self;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"device", "keys", "values", NULL};
  PyObject *device;
  PyObject *keys = NULL;
  PyObject *values = NULL;
  iobind_stream_options options = IOBIND_STREAM_OPTIONS_INIT;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|OO", names, device_type, &device, &keys, &values)) {
    return NULL;
  }
  const char **key_list;
  const char **value_list;
  size_t value_count;
  if (strings_of(keys, &key_list, &options.option_count) != 0) {
    return NULL;
  }
  if (strings_of(values, &value_list, &value_count) != 0 || value_count != options.option_count) {
    PyMem_Free(key_list);
    return PyErr_Occurred() ? NULL : raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "stream: expected as many values as keys");
  }
  options.option_keys = key_list;
  options.option_values = value_list;
  iobind_stream *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_stream_create(((Device *)device)->handle, &options, &handle, &error));
  PyMem_Free(key_list);
  PyMem_Free(value_list);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  return stream_object(type, handle, device);
}

/* Stream._wrap(device, kind, handle, owner) */
static PyObject *stream_wrap(PyObject *type, PyObject *arguments) {
  PyObject *device;
  PyObject *owner;
  iobind_native native = IOBIND_NATIVE_INIT;
  if (!PyArg_ParseTuple(arguments, "O!iO&O", device_type, &device, &native.kind, to_address, &native.handle, &owner)) {
    return NULL;
  }
  iobind_stream *stream;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_stream_wrap(((Device *)device)->handle, &native, release_object, owner, &stream, &error));
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_INCREF(owner);
  return stream_object((PyTypeObject *)type, stream, device);
}

/* _native_event(kind, handle, signal): wait for another library's event, or record it */
static PyObject *stream_native_event(Stream *self, PyObject *arguments) {
  int signal;
  iobind_native native = IOBIND_NATIVE_INIT;
  if (!PyArg_ParseTuple(arguments, "iO&p", &native.kind, to_address, &native.handle, &signal)) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(self);
  if (signal) {
    WITHOUT_GIL(status, iobind_stream_signal_native(self->handle, &native, &error));
  } else {
    WITHOUT_GIL(status, iobind_stream_wait_native(self->handle, &native, &error));
  }
  stream_leave(self);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static void stream_dealloc(Stream *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  Py_BEGIN_ALLOW_THREADS
  iobind_stream_destroy(self->handle);
  Py_END_ALLOW_THREADS
  pthread_mutex_destroy(&self->mutex);
  while (self->held != NULL) {
    let_oldest_go(self);
  }
  release_now();
  Py_XDECREF((PyObject *)self->device);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

iobind_status wait_event(void *event, uint64_t timeout_ns, iobind_error *error) {
  return iobind_event_wait(event, timeout_ns, error);
}

/* First wait for an event after the work: Ctrl-C ends that wait, and other threads may submit to the stream meanwhile. */
static bool stream_waits(Stream *self, iobind_status *status, iobind_error *error) {
  iobind_event *event;
  *status = iobind_event_create(self->device->handle, &event, error);
  if (*status != IOBIND_OK) {
    return true;
  }
  stream_enter(self);
  WITHOUT_GIL(*status, iobind_event_record(event, self->handle, error));
  stream_leave(self);
  bool over = true;
  if (*status == IOBIND_OK) {
    over = wait_in_parts(wait_event, event, IOBIND_NO_TIMEOUT, status, error);
  }
  Py_BEGIN_ALLOW_THREADS
  iobind_event_destroy(event);
  Py_END_ALLOW_THREADS
  return over;
}

static PyObject *stream_synchronize(Stream *self, PyObject *none) {
  (void)none;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!stream_waits(self, &status, &error)) {
    return NULL;
  }
  stream_enter(self);
  WITHOUT_GIL(status, iobind_stream_synchronize(self->handle, &error)); /* also reports failures */
  stream_leave(self);
  let_read_go(self);
  release_now();
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *stream_wait(Stream *self, PyObject *object) {
  Event *event;
  if (event_or_none(object, &event) != 0 || event == NULL) {
    return PyErr_Occurred() ? NULL : raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "stream.wait: event is None");
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(self);
  WITHOUT_GIL(status, iobind_stream_wait(self->handle, event->handle, &error));
  stream_leave(self);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *stream_native(Stream *self, void *none) {
  (void)none;
  return PyLong_FromVoidPtr(self->native);
}

static PyObject *stream_device(Stream *self, void *none) {
  (void)none;
  Py_INCREF((PyObject *)self->device);
  return (PyObject *)self->device;
}

static PyGetSetDef stream_fields[] = {
    {"native", (getter)stream_native, NULL, "the execution provider's own stream (on CUDA a cudaStream_t); 0: it has none",
     NULL},
    {"device", (getter)stream_device, NULL, "the device whose work the stream orders", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef stream_methods[] = {
    {"_wrap", (PyCFunction)stream_wrap, METH_VARARGS | METH_CLASS, NULL},
    {"_native_event", (PyCFunction)stream_native_event, METH_VARARGS, NULL},
    {"synchronize", (PyCFunction)stream_synchronize, METH_NOARGS,
     "synchronize()\n--\n\nBlock until all previously submitted work is complete. Ctrl-C ends the wait. Raises "
     "failures since the last call: OrtError, Cancelled or another iobind.Error of a run or copy."},
    {"wait", (PyCFunction)stream_wait, METH_O,
     "wait(event)\n--\n\nMake all later work of this stream wait for an event of any stream; the host does not "
     "block.\nRaises InvalidArgument, TypeError, OrtError, and the failure of work before the event if it is already "
     "signaled."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stream_slots[] = {{Py_tp_new, stream_new},
                                     {Py_tp_dealloc, stream_dealloc},
                                     {Py_tp_methods, stream_methods},
                                     {Py_tp_getset, stream_fields},
                                     {0, NULL}};
PyType_Spec stream_spec = {"iobind._core.Stream", sizeof(Stream), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, stream_slots};

/* ---- events ---- */

static PyObject *event_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"device", NULL};
  PyObject *device;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!", names, device_type, &device)) {
    return NULL;
  }
  iobind_event *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_event_create(((Device *)device)->handle, &handle, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  Event *self = (Event *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == NULL) {
    iobind_event_destroy(handle);
    return NULL;
  }
  Py_INCREF(device);
  self->handle = handle;
  self->device = (Device *)device;
  return (PyObject *)self;
}

static void event_dealloc(Event *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  Py_BEGIN_ALLOW_THREADS
  iobind_event_destroy(self->handle);
  Py_END_ALLOW_THREADS
  Py_XDECREF((PyObject *)self->device);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject *event_record(Event *self, PyObject *object) {
  Stream *stream;
  if (stream_or_none(object, &stream) != 0 || stream == NULL) {
    return PyErr_Occurred() ? NULL : raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "event.record: stream is None");
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_event_record(self->handle, stream->handle, &error));
  stream_leave(stream);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *event_wait(Event *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"timeout", NULL};
  PyObject *seconds = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O", names, &seconds)) {
    return NULL;
  }
  uint64_t timeout_ns = IOBIND_NO_TIMEOUT;
  if (seconds != Py_None) {
    double given = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred()) {
      return NULL;
    }
    timeout_ns = given > 0 && given < 1e9 ? (uint64_t)(given * 1e9) : given > 0 ? IOBIND_NO_TIMEOUT : 0;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (!wait_in_parts(wait_event, self->handle, timeout_ns, &status, &error)) {
    return NULL;
  }
  if (status == IOBIND_OK && timeout_ns == IOBIND_NO_TIMEOUT) {
    WITHOUT_GIL(status, iobind_event_wait(self->handle, IOBIND_NO_TIMEOUT,
                                          &error)); /* it is signaled: this call delivers the bytes of reads */
  }
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

static PyObject *event_query(Event *self, PyObject *none) {
  (void)none;
  int32_t done = 0;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_event_query(self->handle, &done, &error));
  return status == IOBIND_OK ? PyBool_FromLong(done) : raise_error(&error);
}

iobind_status event_pass(const Event *event, iobind_error *error) {
  iobind_stream *idle;
  iobind_status status = iobind_stream_create(event->device->handle, NULL, &idle, error);
  if (status == IOBIND_OK) {
    status = iobind_event_record(event->handle, idle, error);
    iobind_stream_destroy(idle);
  }
  return status;
}

static PyObject *event_repr(Event *self) {
  return PyUnicode_FromFormat("<iobind.Event on %S>", self->device);
}

static PyMethodDef event_methods[] = {
    {"record", (PyCFunction)event_record, METH_O,
     "record(stream)\n--\n\nRecord the event at the current end of a stream of the same device; this replaces the "
     "previous record. Raises DeviceError for a stream of another device, InvalidArgument, TypeError, OutOfMemory, "
     "OrtError."},
    {"wait", (PyCFunction)(void (*)(void))event_wait, METH_VARARGS | METH_KEYWORDS,
     "wait(timeout=None)\n--\n\nBlock until the event is signaled, at most `timeout` seconds (None: no limit). Ctrl-C "
     "ends the wait. Raises Timeout, TypeError, and the failure of a run or copy before the event: OrtError, Cancelled "
     "or another iobind.Error."},
    {"query", (PyCFunction)event_query, METH_NOARGS,
     "query()\n--\n\nWhether the event is signaled, without blocking. If it is, raises the failure of a run or copy "
     "before it: OrtError, Cancelled or another iobind.Error."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot event_slots[] = {{Py_tp_new, event_new},
                                    {Py_tp_dealloc, event_dealloc},
                                    {Py_tp_methods, event_methods},
                                    {Py_tp_repr, event_repr},
                                    {0, NULL}};
PyType_Spec event_spec = {"iobind._core.Event", sizeof(Event), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, event_slots};
