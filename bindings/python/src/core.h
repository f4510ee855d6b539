/* iobind._core: the objects of iobind.h as Python objects, with the limited API of 3.11. The convenient interface above it is
 * written in Python. */
#ifndef IOBIND_PYTHON_CORE_H
#define IOBIND_PYTHON_CORE_H

#ifndef Py_GIL_DISABLED /* free-threaded interpreters have no limited API */
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>

#include "iobind/interop.h"
#include "iobind/iobind.h"

/* Macros that the limited API lacks. */
#define SET_REFERENCE(field, value)          \
  do {                                       \
    PyObject *dropped = (PyObject *)(field); \
    (field) = (value);                       \
    Py_XDECREF(dropped);                     \
  } while (0)

typedef struct Runtime {
  PyObject_HEAD
  iobind_runtime *handle;
} Runtime;

typedef struct Device {
  PyObject_HEAD
  iobind_device *handle;
  PyObject *runtime; /* the device belongs to it */
} Device;

typedef struct Stream {
  PyObject_HEAD
  iobind_stream *handle;
  Device *device;
  void *native;          /* the execution provider's native stream; NULL: it has none */
  pthread_mutex_t mutex; /* see stream_enter */
  Py_ssize_t notes;      /* the number of tensors that reference it as a writer */
  struct held *held;     /* buffers that its work still reads, the oldest first */
} Stream;

typedef struct Event {
  PyObject_HEAD
  iobind_event *handle;
  Device *device;
} Event;

typedef struct Tensor {
  PyObject_HEAD
  iobind_tensor *handle;
  iobind_tensor_info info;
  Py_ssize_t *strides;
  struct Tensor *base; /* the tensor of which this is a view; NULL: it is not a view */
  PyObject *
      session; /* the session that allocated the memory; released after the handle, whose release releases the GIL; NULL: none */
  Stream **writers; /* the streams with work that writes it, each once */
  size_t writer_count;
  Event *ready;   /* recorded after the run that writes it; NULL: no such run is known to be in flight */
  bool is_idle;   /* no work in flight uses the memory, so mapping does not block */
  bool is_shared; /* the library, or another one, may use the memory after this object is freed */
} Tensor;

/* Facts of an input or output that remain known after the session is closed. */
typedef struct session_value {
  PyObject *name;
  int32_t dtype; /* the element type; 0: no tensor, or strings */
  bool is_tensor;
  bool on_cpu;  /* the session reads or writes it in the CPU's memory */
  bool on_host; /* or in memory of another device that the host can access */
} session_value;

typedef struct Session {
  PyObject_HEAD
  iobind_session *handle; /* NULL: it is closed, and no binding exists */
  PyObject *runtime;
  PyObject *input_index; /* name -> int */
  PyObject *output_index;
  session_value *inputs;
  session_value *outputs;
  size_t input_count;
  size_t output_count;
  size_t calls;    /* threads that use the handle without the GIL */
  size_t bindings; /* bindings that may need the handle, even if the session is closed */
  bool is_closed;
  bool runs_by_binding; /* Session.run can use a binding, so that the run can be cancelled */
  bool captures_graphs; /* outputs are REUSE by default */
} Session;

/* module.c */
extern PyTypeObject *runtime_type, *device_type, *stream_type, *event_type, *session_type, *binding_type, *outputs_type,
    *pipeline_type, *state_type, *batch_type;
extern PyObject *tensor_class;  /* iobind.Tensor: the class of returned tensors */
extern PyObject *outputs_class; /* iobind.Outputs */
extern PyTypeObject *tensor_type;

/* Raise the exception of a status. Returns NULL. */
PyObject *raise_error(const iobind_error *error);
PyObject *raise_status(iobind_status status, const char *message);
/* The same, with a format of PyUnicode_FromFormat; replaces an exception that is set. */
PyObject *raise_format(iobind_status status, const char *format, ...);

/* Create a type of this module. */
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);

/* Call with the GIL released; `status` gets the result. */
#define WITHOUT_GIL(status, call)                \
  do {                                           \
    PyThreadState *holder = PyEval_SaveThread(); \
    (status) = (call);                           \
    PyEval_RestoreThread(holder);                \
  } while (0)

/* A list of str as an array of UTF-8 strings, which are valid as long as the list. Free the array by PyMem_Free. None: NULL and
 * 0. */
int strings_of(PyObject *list, const char ***out, size_t *count);

/* (log level, tag, keys, values) as options. Free them by free_run_options, while the tuple exists. -1 with an exception. */
int run_options_of(PyObject *tuple, iobind_run_options *out);
void free_run_options(const iobind_run_options *options);

/* For PyArg_Parse's "O&": an int as a void *, an address or a handle. */
int to_address(PyObject *number, void *out);

/* A sequence of int as dims; -1 with an exception. */
int dims_of(PyObject *sequence, int64_t dims[IOBIND_MAX_RANK], size_t *rank);
PyObject *dims_to_tuple(const int64_t *dims, size_t rank);

/* Set an entry of a dict of texts; -1 with an exception. */
int set_text(PyObject *dict, const char *key, const char *value);

/* The object's handle, or NULL for None; -1 with a TypeError for anything else. */
int stream_or_none(PyObject *object, Stream **out);
int event_or_none(PyObject *object, Event **out);
int device_or_none(PyObject *object, Device **out);
int tensor_or_none(PyObject *object, Tensor **out);
int ready_tensor_or_none(PyObject *object, Tensor **out); /* the same, after a wait for the run that writes it */

/* device.c */

/* A stream is externally synchronized: another thread's call waits here until stream_leave. No thread waits with the GIL held,
 * so that the thread inside may acquire it. Recursive, because freeing an object inside may use the stream. NULL is a no-op. */
void stream_enter(Stream *stream);
void stream_leave(Stream *stream);

/* Keep a buffer that was passed to the stream until the stream has read it. Takes ownership. */
void stream_hold(Stream *stream, Py_buffer *view);
PyObject *device_object(iobind_device *handle, PyObject *runtime);
iobind_status wait_event(void *event, uint64_t timeout_ns, iobind_error *error); /* for wait_in_parts */
/* Set the event, of any device, to a complete point. */
iobind_status event_pass(const Event *event, iobind_error *error);
/* The Runtime that was created last; borrowed. */
extern PyObject *the_runtime;

/* binding.c: set run() as a method of the class itself. It is called in loops, and the interpreter calls an inherited method
 * slower. */
int give_run(PyTypeObject *class);

/* release.c: work that threads without the GIL leave to one that holds it. */
void release_later(Py_buffer *view, PyObject *object);
void release_object(void *object, void *data); /* an iobind_deleter, whose context is a reference */
void release_now(void);
void log_line(void *context, int32_t level, const char *message);
void set_logger(PyObject *new_logger);

/* interrupt.c */
bool wait_in_parts(iobind_status (*wait)(void *what, uint64_t timeout_ns, iobind_error *error), void *what, uint64_t timeout_ns,
                   iobind_status *status, iobind_error *error);
bool run_begins(iobind_binding *binding);
void run_ends(void);
void watch_forks(void);
bool is_forked(void); /* in a child of fork, where other threads do not exist, and their locks are never released */
bool is_main_thread(void);

/* session.c */

/* False with an exception: the session is closed. */
bool session_is_open(const Session *self);
/* A binding of the session was freed. */
void session_leave(Session *self);

/* Call with the GIL released; the session's handle remains valid meanwhile. */
#define WITH_SESSION(session, status, call) \
  do {                                      \
    (session)->calls++;                     \
    WITHOUT_GIL(status, call);              \
    (session)->calls--;                     \
  } while (0)

/* run.c */
PyObject *session_run_tensors(Session *self, PyObject *inputs);
PyObject *session_run_arrays(Session *self, PyObject *given);
/* Wrap an array in a tensor; `view` retains its memory. False: Python must convert it, because it has another type, gaps, no
 * elements, or is no array. In both cases release both. */
bool array_to_tensor(const Session *session, size_t index, PyObject *value, Py_buffer *view, iobind_tensor **tensor);

/* saved_state.c */

/* Takes ownership of the handle, also on failure. `made`: recorded on the stream after the work that writes the state; NULL: it
 * is complete. */
PyObject *state_object(PyTypeObject *type, iobind_state *handle, Session *session, Stream *stream, Event *made);
/* A State's handle, with a reference for the caller, or NULL for None; -1 with an exception. */
int state_or_none(PyObject *object, iobind_state **out);
/* Release a handle without the GIL: freeing memory may block. */
void state_release(iobind_state *handle);

/* tensor.c: takes ownership of the reference, also on failure */
PyObject *tensor_object(iobind_tensor *handle);
/* The same for memory of a session, which the tensor retains. */
PyObject *output_object(iobind_tensor *handle, Session *session);
/* Record a stream with work that writes the tensor, so that consumers of its DLPack capsules are ordered after that work. May
 * release the GIL to wait for streams that only tensors reference any more. If it is out of memory, it waits for this stream
 * instead. */
void note_writer(Tensor *tensor, Stream *stream);
/* Set `is_shared` of the tensor that owns the memory. */
void tensor_share(Tensor *tensor);
bool tensor_is_shared(Tensor *tensor);
/* The tensor is an output of a run on a stream; its content is complete when the event is signaled. */
void tensor_comes_with(Tensor *tensor, Stream *stream, Event *ready);
/* Order the host's (NULL) or a stream's work with the tensor after the run that writes it. -1 with an exception. */
int tensor_order(Tensor *tensor, Stream *stream);
/* The event for which a run must wait before it reads the tensor; borrowed. NULL: none. */
Event *tensor_ready(Tensor *tensor);
/* The same for a tensor with writers, such as a bound output; a new reference. NULL: none, or an exception. */
Event *tensor_written(Tensor *tensor);
PyObject *tensor_to_numpy(Tensor *self, PyObject *none);
/* The element type of a buffer's format; 0: none. */
int32_t dtype_of_format(const char *format, Py_ssize_t itemsize);

/* dlpack.c */
PyObject *to_dlpack(Tensor *self, PyObject *arguments); /* (legacy, is the tensor a copy that only the capsule references) */
PyObject *from_dlpack(PyObject *module, PyObject *arguments); /* (runtime, capsule, copy strided) */
PyObject *dlpack_device(Tensor *self, PyObject *none);        /* (device type, device id) in DLPack's numbers */

extern PyType_Spec runtime_spec, device_spec, stream_spec, event_spec, tensor_spec, session_spec, binding_spec, outputs_spec,
    pipeline_spec, state_spec, batch_spec, external_memory_spec, semaphore_spec;
extern PyMethodDef tensor_functions[], external_functions[];

#endif
