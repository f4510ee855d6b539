/* Tensors: creation, wrapping, attributes, copies. */
#include "core.h"

#include <stdlib.h>

/* ---- types ---- */

int32_t dtype_of_format(const char *format, Py_ssize_t itemsize) {
  if (format == NULL) {
    return IOBIND_DTYPE_UINT8;
  }
  if (format[0] == '@' || format[0] == '=' || format[0] == '<') { /* the machine's byte order; '>' is not */
    format++;
  }
  if (format[0] == '\0' || format[1] != '\0') {
    return 0;
  }
  switch (format[0]) {
    case 'f': return IOBIND_DTYPE_FLOAT32;
    case 'd': return IOBIND_DTYPE_FLOAT64;
    case 'e': return IOBIND_DTYPE_FLOAT16;
    case '?': return IOBIND_DTYPE_BOOL;
    case 'b': return IOBIND_DTYPE_INT8;
    case 'B':
    case 'c': return IOBIND_DTYPE_UINT8;
    case 'h': return IOBIND_DTYPE_INT16;
    case 'H': return IOBIND_DTYPE_UINT16;
    case 'i':
    case 'l':
    case 'q': return itemsize == 4 ? IOBIND_DTYPE_INT32 : itemsize == 8 ? IOBIND_DTYPE_INT64 : 0;
    case 'I':
    case 'L':
    case 'Q': return itemsize == 4 ? IOBIND_DTYPE_UINT32 : itemsize == 8 ? IOBIND_DTYPE_UINT64 : 0;
    default: return 0;
  }
}

static const char *format_of(int32_t dtype) {
  static const char *const formats[] = {
      [IOBIND_DTYPE_FLOAT32] = "f", [IOBIND_DTYPE_UINT8] = "B",   [IOBIND_DTYPE_INT8] = "b",   [IOBIND_DTYPE_UINT16] = "H",
      [IOBIND_DTYPE_INT16] = "h",   [IOBIND_DTYPE_INT32] = "i",   [IOBIND_DTYPE_INT64] = "q",  [IOBIND_DTYPE_BOOL] = "?",
      [IOBIND_DTYPE_FLOAT16] = "e", [IOBIND_DTYPE_FLOAT64] = "d", [IOBIND_DTYPE_UINT32] = "I", [IOBIND_DTYPE_UINT64] = "Q",
  };
  return dtype >= 0 && (size_t)dtype < sizeof formats / sizeof formats[0] ? formats[dtype] : NULL;
}

/* ---- lifetime ---- */

PyObject *tensor_object(iobind_tensor *handle) {
  if (handle == NULL) {
    Py_RETURN_NONE;
  }
  PyTypeObject *type = tensor_class != NULL ? (PyTypeObject *)tensor_class : tensor_type;
  Tensor *self = (Tensor *)PyType_GenericAlloc(type, 0);
  if (self == NULL) {
    iobind_tensor_release(handle);
    return NULL;
  }
  self->handle = handle;
  self->info = (iobind_tensor_info)IOBIND_TENSOR_INFO_INIT;
  (void)!iobind_tensor_get_info(handle, &self->info, NULL); /* it cannot fail: both are given */
  return (PyObject *)self;
}

PyObject *output_object(iobind_tensor *handle, Session *session) {
  PyObject *tensor = tensor_object(handle);
  if (tensor != NULL && tensor != Py_None) {
    Py_INCREF((PyObject *)session);
    ((Tensor *)tensor)->session = (PyObject *)session;
  }
  return tensor;
}

static Tensor *root_of(Tensor *tensor) {
  return tensor->base != NULL ? tensor->base : tensor;
}

/* ---- writers ---- */

/* Failures are ignored: failed work, too, is complete. */
static void wait_for(Stream *stream) {
  iobind_status ignored;
  stream_enter(stream);
  WITHOUT_GIL(ignored, iobind_stream_synchronize(stream->handle, NULL));
  stream_leave(stream);
  (void)ignored;
}

static void let_go(Stream *stream) {
  stream->notes--;
  Py_DECREF((PyObject *)stream);
}

/* Detach the whole list first: freeing may release the GIL, and writers that are recorded meanwhile must remain. */
static void forget_writers(Tensor *root) {
  Stream **writers = root->writers;
  size_t count = root->writer_count;
  root->writers = NULL;
  root->writer_count = 0;
  for (size_t i = 0; i < count; i++) {
    let_go(writers[i]);
  }
  PyMem_Free(writers);
}

static void forget_writer(Tensor *root, Stream *stream) {
  for (size_t i = 0; i < root->writer_count; i++) {
    if (root->writers[i] == stream) {
      root->writers[i] = root->writers[--root->writer_count];
      let_go(stream);
      return;
    }
  }
}

/* A writer that only tensors reference, so that no thread can submit more work to it; borrowed. */
static Stream *abandoned_writer(const Tensor *root) {
  for (size_t i = 0; i < root->writer_count; i++) {
    if (Py_REFCNT((PyObject *)root->writers[i]) == root->writers[i]->notes) {
      return root->writers[i];
    }
  }
  return NULL;
}

/* Without this a long-lived tensor would retain each stream that a program creates for one copy. A stream remains recorded
 * during the wait, because another thread may export the tensor meanwhile. */
static void drop_abandoned(Tensor *root) {
  Stream *stream;
  Py_INCREF((PyObject *)root);
  while ((stream = abandoned_writer(root)) != NULL) {
    Py_INCREF((PyObject *)stream);
    wait_for(stream);
    forget_writer(root, stream);
    Py_DECREF((PyObject *)stream);
  }
  Py_DECREF((PyObject *)root);
}

void note_writer(Tensor *tensor, Stream *stream) {
  enum { KEPT = 4 }; /* so that a copy returns at once, even if the program then releases its stream */
  Tensor *root = root_of(tensor);
  for (size_t i = 0; i < root->writer_count; i++) {
    if (root->writers[i] == stream) {
      return;
    }
  }
  Stream **grown = PyMem_Realloc(root->writers, (root->writer_count + 1) * sizeof(Stream *));
  if (grown == NULL) {
    wait_for(stream);
    return;
  }
  root->writers = grown;
  root->writers[root->writer_count++] = stream;
  stream->notes++;
  Py_INCREF((PyObject *)stream);
  if (root->writer_count > KEPT) {
    drop_abandoned(root);
  }
}

void tensor_share(Tensor *tensor) {
  root_of(tensor)->is_shared = true;
}

bool tensor_is_shared(Tensor *tensor) {
  return root_of(tensor)->is_shared;
}

void tensor_comes_with(Tensor *tensor, Stream *stream, Event *ready) {
  Tensor *root = root_of(tensor);
  note_writer(root, stream);
  Py_INCREF((PyObject *)ready);
  SET_REFERENCE(root->ready, ready);
}

Event *tensor_ready(Tensor *tensor) {
  return root_of(tensor)->ready;
}

int tensor_order(Tensor *tensor, Stream *stream) {
  Tensor *root = root_of(tensor);
  Event *ready = root->ready;
  if (ready == NULL) {
    return 0;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  bool goes_on = true;
  Py_INCREF((PyObject *)ready); /* another thread's wait may release it */
  if (stream != NULL) {
    stream_enter(stream);
    WITHOUT_GIL(status, iobind_stream_wait(stream->handle, ready->handle, &error));
    stream_leave(stream);
  } else {
    goes_on = wait_in_parts(wait_event, ready->handle, IOBIND_NO_TIMEOUT, &status, &error);
    if (goes_on && status == IOBIND_OK && root->ready == ready) {
      SET_REFERENCE(root->ready, NULL);
    }
  }
  Py_DECREF((PyObject *)ready);
  if (goes_on && status != IOBIND_OK) {
    raise_error(&error);
  }
  return goes_on && status == IOBIND_OK ? 0 : -1;
}

/* The address of host memory, after the work in flight that uses it. Mapped for writing unless it is read-only, because NumPy
 * may write. -1 with an exception. */
static int map_tensor(const Tensor *self, void **data) {
  iobind_access access = self->info.read_only != 0 ? IOBIND_ACCESS_READ : IOBIND_ACCESS_WRITE;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  if (self->is_idle) {
    status = iobind_tensor_map(self->handle, (iobind_dtype)self->info.dtype, access, data, &error);
  } else {
    WITHOUT_GIL(status, iobind_tensor_map(self->handle, (iobind_dtype)self->info.dtype, access, data, &error));
  }
  if (status != IOBIND_OK) {
    raise_error(&error);
  }
  return status == IOBIND_OK ? 0 : -1;
}

/* await(stream): order the stream's, or (None) the host's, later work with the tensor after the run that writes it */
static PyObject *await_content(Tensor *self, PyObject *on) {
  Stream *stream;
  if (stream_or_none(on, &stream) != 0 || tensor_order(self, stream) != 0) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/* synchronize(): wait for the work in flight that uses host memory */
static PyObject *synchronize(Tensor *self, PyObject *none) {
  (void)none;
  void *unused;
  if (self->info.host_readable != 0 && map_tensor(self, &unused) != 0) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/* A list of the writers of the memory. */
static PyObject *get_writers(Tensor *self, PyObject *none) {
  (void)none;
  const Tensor *root = root_of(self);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < root->writer_count; i++) {
    if (PyList_Append(list, (PyObject *)root->writers[i]) != 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

/* the stream's record(); NULL with an exception */
static PyObject *recorded_on(PyObject *stream) {
  return PyObject_CallMethod(stream, "record", NULL);
}

static bool wait_behind(PyObject *stream) {
  PyObject *event = recorded_on(stream);
  PyObject *over = event == NULL ? NULL : PyObject_CallMethod(event, "wait", NULL);
  Py_XDECREF(event);
  Py_XDECREF(over);
  return over != NULL;
}

Event *tensor_written(Tensor *tensor) {
  if (root_of(tensor)->writer_count == 0) {
    return NULL;
  }
  PyObject *writers = get_writers(tensor, NULL);
  bool waited = writers != NULL;
  for (Py_ssize_t i = 1; waited && i < PyList_Size(writers);
       i++) { /* an input can have one event, so wait for the others here */
    waited = wait_behind(PyList_GetItem(writers, i));
  }
  PyObject *event = waited ? recorded_on(PyList_GetItem(writers, 0)) : NULL;
  Py_XDECREF(writers);
  return (Event *)event;
}

static PyObject *forget_all_writers(Tensor *self, PyObject *none) {
  (void)none;
  forget_writers(root_of(self));
  Py_RETURN_NONE;
}

static PyObject *add_writer(Tensor *self, PyObject *object) {
  Stream *stream;
  if (stream_or_none(object, &stream) != 0) {
    return NULL;
  }
  if (stream != NULL) {
    note_writer(self, stream);
  }
  Py_RETURN_NONE;
}

/* A stream may have attributes of the program. */
static int tensor_traverse(Tensor *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE((PyObject *)self));
  Py_VISIT((PyObject *)self->base);
  Py_VISIT(self->session);
  for (size_t i = 0; i < self->writer_count; i++) {
    Py_VISIT((PyObject *)self->writers[i]);
  }
  Py_VISIT((PyObject *)self->ready);
  return 0;
}

static int tensor_clear_cycle(Tensor *self) {
  forget_writers(self);
  return 0;
}

static void tensor_dealloc(Tensor *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack(self);
  PyMem_Free(self->strides);
  if (self->info.host_readable != 0 && self->info.memory == IOBIND_MEMORY_DEFAULT) {
    iobind_tensor_release(self->handle);
  } else {
    Py_BEGIN_ALLOW_THREADS
    iobind_tensor_release(
        self->handle); /* without the GIL: an EP's allocator may block for the device, or for a run of another thread */
    Py_END_ALLOW_THREADS
  }
  release_now();
  forget_writers(self);
  Py_XDECREF((PyObject *)self->ready);
  Py_XDECREF((PyObject *)self->base);
  Py_XDECREF(self->session);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject *tensor_create(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *device;
  PyObject *shape;
  int memory;
  int dtype;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  if (!PyArg_ParseTuple(arguments, "O!iiO", device_type, &device, &memory, &dtype, &shape) ||
      dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_tensor_create(((Device *)device)->handle, (iobind_memory)memory, (iobind_dtype)dtype, dims, rank,
                                           &handle, &error));
  return status == IOBIND_OK ? tensor_object(handle) : raise_error(&error);
}

static void give_view_back(void *context, void *data) {
  (void)data;
  Py_buffer *view = context;
  release_later(view, NULL);
  free(view);
}

/* wrap(device, memory, dtype, shape, buffer, writable) or, by address: (..., address, keep, bytes) */
static PyObject *tensor_wrap(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *device;
  PyObject *shape;
  PyObject *source;
  int memory;
  int dtype;
  int writable;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  if (!PyArg_ParseTuple(arguments, "O!iiOOp", device_type, &device, &memory, &dtype, &shape, &source, &writable) ||
      dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  Py_buffer *view = calloc(1, sizeof *view);
  if (view == NULL) {
    return PyErr_NoMemory();
  }
  if (PyObject_GetBuffer(source, view, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    free(view);
    return NULL;
  }
  iobind_buffer buffer = {sizeof buffer, memory, dtype, 0, dims, rank, view->buf, (size_t)view->len, give_view_back, view};
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_wrap(((Device *)device)->handle, &buffer, &handle, &error) != IOBIND_OK) {
    PyBuffer_Release(view);
    free(view);
    return raise_error(&error);
  }
  return tensor_object(handle);
}

/* A struct of DLPack 1.1 for read-only bytes: only an import by DLPack creates a read-only tensor. */
typedef struct read_only {
  struct {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct read_only *self);
    uint64_t flags;
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t rank;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *dims;
    int64_t *strides;
    uint64_t offset;
  } managed;
  int64_t bytes;
  Py_buffer view;
} read_only;

static void give_bytes_back(read_only *self) {
  release_later(&self->view, NULL);
  free(self);
}

/* wrap_read_only(runtime, buffer): its bytes, as a tensor of uint8 in host memory */
static PyObject *tensor_wrap_read_only(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *runtime;
  PyObject *source;
  if (!PyArg_ParseTuple(arguments, "O!O", runtime_type, &runtime, &source)) {
    return NULL;
  }
  enum { MAJOR = 1, MINOR = 1, READ_ONLY = 1, CPU = 1, UNSIGNED = 1 };
  read_only *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return PyErr_NoMemory();
  }
  if (PyObject_GetBuffer(source, &made->view, PyBUF_C_CONTIGUOUS) != 0) {
    free(made);
    return NULL;
  }
  made->bytes = made->view.len;
  made->managed.version[0] = MAJOR;
  made->managed.version[1] = MINOR;
  made->managed.deleter = give_bytes_back;
  made->managed.flags = READ_ONLY;
  made->managed.data = made->view.buf;
  made->managed.device_type = CPU;
  made->managed.rank = 1;
  made->managed.code = UNSIGNED;
  made->managed.bits = 8;
  made->managed.lanes = 1;
  made->managed.dims = &made->bytes;
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_from_dlpack(((Runtime *)runtime)->handle, made, 0, &handle, &error) != IOBIND_OK) {
    PyBuffer_Release(&made->view);
    free(made);
    return raise_error(&error);
  }
  return tensor_object(handle);
}

int to_address(PyObject *number, void *out) {
  PyObject *index = PyNumber_Index(number);
  unsigned long long address = index == NULL ? 0 : PyLong_AsUnsignedLongLong(index);
  Py_XDECREF(index);
  if (PyErr_Occurred()) {
    raise_format(IOBIND_ERROR_INVALID_ARGUMENT, "address or handle: expected a number of 64 bits that is not negative, got %R",
                 number);
    return 0;
  }
  *(void **)out = (void *)(uintptr_t)address;
  return 1;
}

static PyObject *tensor_wrap_address(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *device;
  PyObject *shape;
  PyObject *owner;
  void *address;
  Py_ssize_t bytes;
  int memory;
  int dtype;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  if (!PyArg_ParseTuple(arguments, "O!iiOO&nO", device_type, &device, &memory, &dtype, &shape, to_address, &address, &bytes,
                        &owner) ||
      dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  if (bytes < 0) {
    return raise_format(IOBIND_ERROR_INVALID_ARGUMENT, "wrap_address: nbytes: expected 0 or more, got %zd", bytes);
  }
  iobind_buffer buffer = {sizeof buffer, memory, dtype, 0, dims, rank, address, (size_t)bytes, release_object, owner};
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_wrap(((Device *)device)->handle, &buffer, &handle, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_INCREF(owner);
  return tensor_object(handle);
}

/* ---- attributes ---- */

static PyObject *get_shape(Tensor *self, void *none) {
  (void)none;
  return dims_to_tuple(self->info.dims, self->info.rank);
}

static PyObject *get_device(Tensor *self, void *none) {
  (void)none;
  return device_object(self->info.device, the_runtime);
}

static PyObject *get_address(Tensor *self, void *none) {
  (void)none;
  return PyLong_FromVoidPtr(iobind_tensor_get_address(self->handle));
}

static PyObject *get_number(Tensor *self, void *field) {
  switch ((int)(intptr_t)field) {
    case 0: return PyLong_FromLong(self->info.dtype);
    case 1: return PyLong_FromSize_t(self->info.bytes);
    case 2: return PyLong_FromLong(self->info.memory);
    case 3: return PyBool_FromLong(self->info.host_readable);
    case 4: return PyBool_FromLong(self->info.read_only);
    default: return PyLong_FromSize_t(self->info.rank);
  }
}

static PyGetSetDef tensor_fields[] = {
    {"shape", (getter)get_shape, NULL, "the dims, in elements", NULL},
    {"device", (getter)get_device, NULL, "whose memory it is", NULL},
    {"address", (getter)get_address, NULL, "of the data, on whatever device; 0: 0 bytes, or strings", NULL},
    {"dtype_code", (getter)get_number, NULL, "the element type's number in ONNX Runtime's C interface", (void *)0},
    {"nbytes", (getter)get_number, NULL, "bytes of the data; 0 for strings", (void *)1},
    {"memory", (getter)get_number, NULL, "0: the device's own memory; 1: host memory that the device reads directly",
     (void *)2},
    {"host_readable", (getter)get_number, NULL, "whether numpy() needs no copy", (void *)3},
    {"read_only", (getter)get_number, NULL, "whether it is refused wherever it would be written", (void *)4},
    {"ndim", (getter)get_number, NULL, "the number of dims", (void *)5},
    {NULL, NULL, NULL, NULL, NULL},
};

/* The buffer protocol, by which NumPy, memoryview and others access host memory without a copy. */
static int tensor_buffer(Tensor *self, Py_buffer *view, int flags) {
  const iobind_tensor_info *info = &self->info;
  const char *format = format_of(info->dtype);
  view->obj = NULL;
  if (info->host_readable == 0 || format == NULL) {
    PyErr_SetString(PyExc_BufferError, info->host_readable == 0
                                           ? "the tensor is in device memory, or holds strings: numpy() copies it"
                                           : "the buffer protocol has no name for the element type: use numpy()");
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) != 0 && info->read_only != 0) {
    PyErr_SetString(PyExc_BufferError, "the tensor is read-only");
    return -1;
  }
  Py_ssize_t item = (Py_ssize_t)iobind_dtype_get_bits(info->dtype) / 8;
  if (self->strides == NULL) {
    Py_ssize_t *strides = PyMem_Calloc(info->rank + 1, sizeof *strides);
    if (strides == NULL) {
      PyErr_NoMemory();
      return -1;
    }
    size_t stride = (size_t)item; /* for a dim of 0 the others may have any size */
    for (size_t i = info->rank; i-- > 0; stride *= info->dims[i] > 0 ? (size_t)info->dims[i] : 1) {
      strides[i] = (Py_ssize_t)stride;
    }
    self->strides = strides;
  }
  static char nothing[16];
  void *data;
  if (map_tensor(self, &data) != 0) {
    return -1;
  }
  view->buf = data == NULL ? nothing : data;
  view->len = (Py_ssize_t)info->bytes;
  view->itemsize = item;
  view->readonly = info->read_only;
  view->ndim = (int)info->rank;
  view->format = (flags & PyBUF_FORMAT) != 0 ? (char *)(uintptr_t)format : NULL;
  _Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "dims are Python's sizes");
  view->shape = (flags & PyBUF_ND) == PyBUF_ND ? (Py_ssize_t *)(uintptr_t)info->dims : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
  view->suboffsets = NULL;
  view->internal = NULL;
  Py_INCREF((PyObject *)self);
  view->obj = (PyObject *)self;
  return 0;
}

/* A view of host memory, or a copy of other memory. Types that the buffer protocol lacks are left to Python code. */
PyObject *tensor_to_numpy(Tensor *self, PyObject *none) {
  (void)none;
  static PyObject *asarray;
  if (self->info.host_readable == 0 || format_of(self->info.dtype) == NULL) {
    return PyObject_CallMethod((PyObject *)self, self->info.host_readable == 0 ? "_copy_to_host" : "_view_on_host", NULL);
  }
  if (asarray == NULL) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    asarray = numpy == NULL ? NULL : PyObject_GetAttrString(numpy, "asarray");
    Py_XDECREF(numpy);
    if (asarray == NULL) {
      return NULL;
    }
  }
  return PyObject_CallFunctionObjArgs(asarray, (PyObject *)self, NULL);
}

static PyObject *get_string(Tensor *self, PyObject *arguments) {
  Py_ssize_t index;
  if (!PyArg_ParseTuple(arguments, "n", &index)) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  size_t needed;
  if (iobind_tensor_get_string(self->handle, (size_t)index, NULL, 0, &needed, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  char *text = PyMem_Malloc(needed + 1);
  if (text == NULL) {
    return PyErr_NoMemory();
  }
  PyObject *result = iobind_tensor_get_string(self->handle, (size_t)index, text, needed, &needed, &error) == IOBIND_OK
                         ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)needed, "surrogateescape")
                         : raise_error(&error);
  PyMem_Free(text);
  return result;
}

static PyObject *set_string(Tensor *self, PyObject *arguments) {
  Py_ssize_t index;
  const char *text;
  if (!PyArg_ParseTuple(arguments, "ns", &index, &text)) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_set_string(self->handle, (size_t)index, text, &error) != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

/* ---- copies ---- */

/* write_bytes(buffer, offset, stream) */
static PyObject *write_bytes(Tensor *self, PyObject *arguments) {
  PyObject *source;
  Py_ssize_t offset;
  PyObject *on;
  Stream *stream;
  if (!PyArg_ParseTuple(arguments, "OnO", &source, &offset, &on) || stream_or_none(on, &stream) != 0 ||
      tensor_order(self, stream) != 0) {
    return NULL;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(source, &view, PyBUF_C_CONTIGUOUS) != 0) {
    return NULL;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_tensor_write(self->handle, (size_t)offset, view.buf, (size_t)view.len,
                                          stream == NULL ? NULL : stream->handle, &error));
  stream_leave(stream);
  stream_hold(status == IOBIND_OK ? stream : NULL, &view);
  if (stream != NULL) {
    note_writer(self, stream);
  }
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

/* read_bytes(writable buffer, offset, stream) */
static PyObject *read_bytes(Tensor *self, PyObject *arguments) {
  PyObject *target;
  Py_ssize_t offset;
  PyObject *on;
  Stream *stream;
  if (!PyArg_ParseTuple(arguments, "OnO", &target, &offset, &on) || stream_or_none(on, &stream) != 0 ||
      tensor_order(self, stream) != 0) {
    return NULL;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(target, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) {
    return NULL;
  }
  if (stream != NULL) {
    tensor_share(self);
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  stream_enter(stream);
  WITHOUT_GIL(status, iobind_tensor_read(self->handle, (size_t)offset, view.buf, (size_t)view.len,
                                         stream == NULL ? NULL : stream->handle, &error));
  stream_leave(stream);
  PyBuffer_Release(&view);
  if (status != IOBIND_OK) {
    return raise_error(&error);
  }
  Py_RETURN_NONE;
}

/* A list of tensors as handles. Free it by PyMem_Free. Orders the stream, or the host, after the work that writes them. */
static iobind_tensor **handles_of(PyObject *list, Stream *stream, Py_ssize_t *count) {
  *count = PyList_Size(list);
  iobind_tensor **handles = PyMem_Calloc((size_t)*count + 1, sizeof(iobind_tensor *));
  if (handles == NULL) {
    PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; handles != NULL && i < *count; i++) {
    Tensor *tensor;
    if (tensor_or_none(PyList_GetItem(list, i), &tensor) != 0 || (tensor != NULL && tensor_order(tensor, stream) != 0)) {
      PyMem_Free(handles);
      return NULL;
    }
    handles[i] = tensor == NULL ? NULL : tensor->handle;
    if (tensor != NULL && stream != NULL) {
      tensor_share(tensor);
    }
  }
  return handles;
}

/* copy(sources, targets, stream) */
static PyObject *copy_tensors(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *sources;
  PyObject *targets;
  PyObject *on;
  Stream *stream;
  if (!PyArg_ParseTuple(arguments, "O!O!O", &PyList_Type, &sources, &PyList_Type, &targets, &on) ||
      stream_or_none(on, &stream) != 0) {
    return NULL;
  }
  Py_ssize_t count;
  Py_ssize_t target_count;
  iobind_tensor **from = handles_of(sources, stream, &count);
  iobind_tensor **to = from == NULL ? NULL : handles_of(targets, stream, &target_count);
  PyObject *result = NULL;
  if (to != NULL && count != target_count) {
    raise_status(IOBIND_ERROR_INVALID_ARGUMENT, "copy: expected as many targets as sources");
  } else if (to != NULL) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status;
    stream_enter(stream);
    WITHOUT_GIL(status, iobind_tensor_copy((const iobind_tensor *const *)from, to, (size_t)count,
                                           stream == NULL ? NULL : stream->handle, &error));
    stream_leave(stream);
    for (Py_ssize_t i = 0; stream != NULL && i < count; i++) {
      Tensor *target; /* NULL for None */
      if (tensor_or_none(PyList_GetItem(targets, i), &target) == 0 && target != NULL) {
        note_writer(target, stream);
      }
    }
    if (status == IOBIND_OK) {
      result = Py_None;
      Py_INCREF(result);
    } else {
      raise_error(&error);
    }
  }
  PyMem_Free(from);
  PyMem_Free(to);
  return result;
}

/* A view of another tensor. Takes ownership of the handle's reference. */
static PyObject *part_object(Tensor *whole, iobind_tensor *handle) {
  PyObject *object = tensor_object(handle);
  if (object != NULL) {
    Tensor *part = (Tensor *)object;
    part->base = root_of(whole);
    Py_INCREF((PyObject *)part->base);
  }
  return object;
}

static PyObject *view_of(Tensor *self, PyObject *arguments) {
  Py_ssize_t offset;
  int dtype;
  PyObject *shape;
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
  if (!PyArg_ParseTuple(arguments, "niO", &offset, &dtype, &shape) || dims_of(shape, dims, &rank) != 0) {
    return NULL;
  }
  iobind_tensor *view;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_tensor_view(self->handle, (size_t)offset, (iobind_dtype)dtype, dims, rank, &view, &error) == IOBIND_OK
             ? part_object(self, view)
             : raise_error(&error);
}

static PyObject *slice_of(Tensor *self, PyObject *arguments) {
  long long start;
  long long count;
  if (!PyArg_ParseTuple(arguments, "LL", &start, &count)) {
    return NULL;
  }
  iobind_tensor *view;
  iobind_error error = IOBIND_ERROR_INIT;
  return iobind_tensor_slice(self->handle, start, count, &view, &error) == IOBIND_OK ? part_object(self, view)
                                                                                     : raise_error(&error);
}

/* (right, limits or None) -> (beyond, first, absolute, relative) */
static PyObject *compare(Tensor *self, PyObject *arguments) {
  PyObject *given;
  PyObject *limits;
  Tensor *right;
  iobind_tolerance tolerance = {0, 0};
  if (!PyArg_ParseTuple(arguments, "OO", &given, &limits) || tensor_or_none(given, &right) != 0 ||
      (limits != Py_None && !PyArg_ParseTuple(limits, "dd", &tolerance.absolute, &tolerance.relative))) {
    return NULL;
  }
  iobind_difference found = IOBIND_DIFFERENCE_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_tensor_compare(self->handle, right == NULL ? NULL : right->handle,
                                            limits == Py_None ? NULL : &tolerance, &found, &error));
  return status == IOBIND_OK ? Py_BuildValue("KKdd", (unsigned long long)found.beyond, (unsigned long long)found.first,
                                             found.absolute, found.relative)
                             : raise_error(&error);
}

static PyMethodDef tensor_methods[] = {
    {"numpy", (PyCFunction)tensor_to_numpy, METH_NOARGS,
     "numpy()\n--\n\nThe tensor as a NumPy array of its shape. If the host can read the memory, the array is a view, "
     "which retains it; otherwise it is a copy (one download). Packed elements of less than a byte are a row of bytes. "
     "bfloat16 and 8-bit floats need the package ml_dtypes. Raises ImportError without it, OrtError for a failed "
     "download."},
    {"_get_string", (PyCFunction)get_string, METH_VARARGS, NULL},
    {"_set_string", (PyCFunction)set_string, METH_VARARGS, NULL},
    {"_write_bytes", (PyCFunction)write_bytes, METH_VARARGS, NULL},
    {"_read_bytes", (PyCFunction)read_bytes, METH_VARARGS, NULL},
    {"_view", (PyCFunction)view_of, METH_VARARGS, NULL},
    {"_slice", (PyCFunction)slice_of, METH_VARARGS, NULL},
    {"_compare", (PyCFunction)compare, METH_VARARGS, NULL},
    {"_to_dlpack", (PyCFunction)to_dlpack, METH_VARARGS, NULL},
    {"_await", (PyCFunction)await_content, METH_O, NULL},
    {"_synchronize", (PyCFunction)synchronize, METH_NOARGS, NULL},
    {"_writers", (PyCFunction)get_writers, METH_NOARGS, NULL},
    {"_add_writer", (PyCFunction)add_writer, METH_O, NULL},
    {"_forget_writers", (PyCFunction)forget_all_writers, METH_NOARGS, NULL},
    {"__dlpack_device__", (PyCFunction)dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\nDLPack's device type and device number. Raises BufferError for a tensor that DLPack "
     "cannot represent, such as strings."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, tensor_dealloc},
                                     {Py_tp_traverse, tensor_traverse},
                                     {Py_tp_clear, tensor_clear_cycle},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_getset, tensor_fields},
                                     {Py_bf_getbuffer, tensor_buffer},
                                     {0, NULL}};
PyType_Spec tensor_spec = {"iobind._core.Tensor", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           tensor_slots};

PyMethodDef tensor_functions[] = {
    {"create", tensor_create, METH_VARARGS, NULL},
    {"wrap", tensor_wrap, METH_VARARGS, NULL},
    {"wrap_address", tensor_wrap_address, METH_VARARGS, NULL},
    {"copy", copy_tensors, METH_VARARGS, NULL},
    {"from_dlpack", from_dlpack, METH_VARARGS, NULL},
    {"wrap_read_only", tensor_wrap_read_only, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
