/* iobind._core: the objects of iobind.h as Python's, on the limited API of 3.11. What is convenient is written in Python above it. */
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

/* What the limited API leaves out. */
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
  PyObject *runtime; /* the device is its */
} Device;

typedef struct Stream {
  PyObject_HEAD
  iobind_stream *handle;
  Device *device;
  void *native;          /* the execution provider's own stream; NULL: it has none */
  pthread_mutex_t mutex; /* see stream_enter */
  Py_ssize_t notes;      /* tensors that hold it as a writer */
  struct held *held;     /* host memory that its work still reads, the oldest first */
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
  struct Tensor *base; /* whose memory a view shows; NULL if this is not a view */
  PyObject *session;   /* which made the memory; goes after the handle, because the GIL is given up to free it; NULL: none */
  Stream **writers;    /* the streams that were told to write it, each once */
  size_t writer_count;
  Event *ready;   /* recorded behind the run that writes it; NULL: its content is there, as far as it is known here */
  bool is_idle;   /* no work in flight uses the memory, so that a map does not block */
  bool is_shared; /* the library, or another one, may hold or read the memory longer than this object lives */
} Tensor;

/* What is known of an input or output of a session also when that is closed. */
typedef struct session_value {
  PyObject *name;
  int32_t dtype; /* of a tensor that is not of strings; 0: none */
  bool is_tensor;
  bool on_cpu;  /* the session wants it, or leaves it, in the CPU's own memory */
  bool on_host; /* or in memory of another device that the host reads */
} session_value;

typedef struct Session {
  PyObject_HEAD
  iobind_session *handle; /* NULL: it is closed, and no binding is left */
  PyObject *runtime;
  PyObject *input_index; /* name -> int */
  PyObject *output_index;
  session_value *inputs;
  session_value *outputs;
  size_t input_count;
  size_t output_count;
  size_t calls;    /* of other threads that use the handle without the GIL */
  size_t bindings; /* that may need it, also when it is closed */
  bool is_closed;
  bool runs_by_binding; /* a single run can be cancelled */
  bool captures_graphs; /* outputs are REUSE unless something else is set */
} Session;

/* module.c */
extern PyTypeObject *runtime_type, *device_type, *stream_type, *event_type, *session_type, *binding_type, *outputs_type,
    *pipeline_type, *state_type, *batch_type;
extern PyObject *tensor_class;  /* iobind.Tensor, which tensors that come out are */
extern PyObject *outputs_class; /* iobind.Outputs */
extern PyTypeObject *tensor_type;

/* Raise the exception of a status; gives NULL. */
PyObject *raise_error(const iobind_error *error);
PyObject *raise_status(iobind_status status, const char *message);
/* The same instead of what was raised; the format is PyUnicode_FromFormat's. */
PyObject *raise_format(iobind_status status, const char *format, ...);

/* Make a type of this module. */
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);

/* Call with the GIL released; `status` gets the result. */
#define WITHOUT_GIL(status, call)                \
  do {                                           \
    PyThreadState *holder = PyEval_SaveThread(); \
    (status) = (call);                           \
    PyEval_RestoreThread(holder);                \
  } while (0)

/* A list of str as an array of UTF-8 strings that live as long as the list; to be freed by PyMem_Free. None: NULL and 0. */
int strings_of(PyObject *list, const char ***out, size_t *count);

/* (log level, tag, keys, values) as options, whose key and value arrays live as long as the tuple and are to be freed by free_run_options;
 * -1 with an exception. */
int run_options_of(PyObject *tuple, iobind_run_options *out);
void free_run_options(const iobind_run_options *options);

/* For PyArg_Parse's "O&": an int as a void *, an address or a handle. */
int to_address(PyObject *number, void *out);

/* A sequence of int as dims; -1 with an exception. */
int dims_of(PyObject *sequence, int64_t dims[IOBIND_MAX_RANK], size_t *rank);
PyObject *dims_to_tuple(const int64_t *dims, size_t rank);

/* An entry of a dict of texts; -1 with an exception. */
int set_text(PyObject *dict, const char *key, const char *value);

/* The object's handle, or NULL for None; -1 with a TypeError for anything else. */
int stream_or_none(PyObject *object, Stream **out);
int event_or_none(PyObject *object, Event **out);
int device_or_none(PyObject *object, Device **out);
int tensor_or_none(PyObject *object, Tensor **out);
int ready_tensor_or_none(PyObject *object, Tensor **out); /* and the content is there: waits for the run that writes it */

/* device.c */

/* The library takes one call at a time for a stream: another thread's waits here, until stream_leave. No thread waits for it with the GIL held,
 * so that its holder may take the GIL. What is freed within a call may come back to the stream. NULL: nothing. */
void stream_enter(Stream *stream);
void stream_leave(Stream *stream);

/* The buffer that the call before has given to the stream is released when the stream has read it, or one of many later ones. Takes it over. */
void stream_hold(Stream *stream, Py_buffer *view);
PyObject *device_object(iobind_device *handle, PyObject *runtime);
iobind_status wait_event(void *event, uint64_t timeout_ns, iobind_error *error); /* for wait_in_parts */
/* Record the event, of whatever device, at a point that has passed. */
iobind_status event_pass(const Event *event, iobind_error *error);
/* Borrowed: the Runtime that was made last. */
extern PyObject *the_runtime;

/* binding.c: run() for a class as its own method. The interpreter calls an inherited one slower, and this one is called in a loop. */
int give_run(PyTypeObject *class);

/* release.c: what other threads leave to be done with the GIL held. */
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
bool is_forked(void); /* a child of fork: other threads are gone, with what they had locked */
bool is_main_thread(void);

/* session.c */

/* Is it open? Otherwise an exception is set. */
bool session_is_open(const Session *self);
/* A binding is gone. */
void session_leave(Session *self);

/* Call with the GIL released; the session is not closed meanwhile. */
#define WITH_SESSION(session, status, call) \
  do {                                      \
    (session)->calls++;                     \
    WITHOUT_GIL(status, call);              \
    (session)->calls--;                     \
  } while (0)

/* run.c */
PyObject *session_run_tensors(Session *self, PyObject *inputs);
PyObject *session_run_arrays(Session *self, PyObject *given);
/* An array as a tensor on its own memory, which `view` holds; false where Python sees to it: it has another type, gaps, no elements, or is no
 * array. Either way both are to be released. */
bool array_to_tensor(const Session *session, size_t index, PyObject *value, Py_buffer *view, iobind_tensor **tensor);

/* saved_state.c */

/* Takes the handle over, also where it fails. `made`: recorded on the stream behind what makes the state; NULL: it is there. */
PyObject *state_object(PyTypeObject *type, iobind_state *handle, Session *session, Stream *stream, Event *made);
/* A reference to what a State holds, or NULL for None; -1 with an exception. */
int state_or_none(PyObject *object, iobind_state **out);
/* Freeing memory may wait for a device, or for a run of another thread. */
void state_release(iobind_state *handle);

/* tensor.c; takes the reference over, also where it fails */
PyObject *tensor_object(iobind_tensor *handle);
/* The same for what a session made, which the tensor holds. */
PyObject *output_object(iobind_tensor *handle, Session *session);
/* A stream has been told to write the tensor: whoever it is handed to by DLPack comes behind that. The call may give the GIL up to wait
 * for streams that only tensors hold any more; without memory for the note it waits for this one. */
void note_writer(Tensor *tensor, Stream *stream);
/* What is_shared says, of the memory. */
void tensor_share(Tensor *tensor);
bool tensor_is_shared(Tensor *tensor);
/* An output of a run on a stream: its content is there when the event has passed. */
void tensor_comes_with(Tensor *tensor, Stream *stream, Event *ready);
/* Work that uses the tensor comes behind the run that writes it: the host's (NULL), or a stream's. -1 with an exception. */
int tensor_order(Tensor *tensor, Stream *stream);
/* What a run must wait for before it reads the tensor, borrowed; NULL: nothing. */
Event *tensor_ready(Tensor *tensor);
/* The same for a tensor that streams were told to write, such as a bound output: a new reference. NULL: nothing, or an exception. */
Event *tensor_written(Tensor *tensor);
PyObject *tensor_to_numpy(Tensor *self, PyObject *none);
/* The element type of a buffer's format; 0: none. */
int32_t dtype_of_format(const char *format, Py_ssize_t itemsize);

/* dlpack.c */
PyObject *to_dlpack(Tensor *self, PyObject *arguments); /* (legacy, whether the tensor is a copy that only the capsule has) */
PyObject *from_dlpack(PyObject *module, PyObject *arguments); /* (runtime, capsule, copy strided) */
PyObject *dlpack_device(Tensor *self,
                        PyObject *none); /* (device type, device id) by DLPack's numbers, which only the struct says */

extern PyType_Spec runtime_spec, device_spec, stream_spec, event_spec, tensor_spec, session_spec, binding_spec, outputs_spec,
    pipeline_spec, state_spec, batch_spec, external_memory_spec, semaphore_spec;
extern PyMethodDef tensor_functions[], external_functions[];

#endif
