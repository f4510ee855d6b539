/* Work that threads without the GIL leave to one that holds it: releasing Python's objects, and lines of the log. A deleter or
 * a logger that waited for the GIL could deadlock. */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 1000 }; /* lines of the log that are pending; more are dropped */

typedef struct task {
  struct task *next;
  Py_buffer view; /* view.obj NULL: none */
  PyObject *object;
  int32_t level;
  char message[];
} task;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static task *first;
static task **last = &first;
static atomic_bool waiting;
static atomic_int lines;
static PyObject *logger; /* logging.getLogger("iobind") */

static void carry_out(task *done) {
  if (done->view.obj != NULL) {
    PyBuffer_Release(&done->view);
  }
  Py_XDECREF(done->object);
  if (done->level != 0) {
    atomic_fetch_sub(&lines, 1);
  }
  if (done->level != 0 && logger != NULL) {
    static const int levels[] = {30, 10, 20, 30, 40}; /* Python's levels, by iobind_log_level */
    PyObject *raised[3];
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    PyObject *text = PyUnicode_DecodeUTF8(done->message, (Py_ssize_t)strlen(done->message), "replace");
    PyObject *answer =
        text == NULL ? NULL : PyObject_CallMethod(logger, "log", "isO", levels[done->level <= 4 ? done->level : 4], "%s", text);
    if (answer == NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
      PyErr_Clear();
      PyErr_SetInterrupt(); /* the signal is for the caller, not for the logger */
    } else if (answer == NULL) {
      PyErr_WriteUnraisable(logger);
    }
    Py_XDECREF(answer);
    Py_XDECREF(text);
    PyErr_Restore(raised[0], raised[1], raised[2]);
  }
  free(done);
}

void release_now(void) {
  if (!atomic_load_explicit(&waiting, memory_order_acquire)) {
    return;
  }
  pthread_mutex_lock(&mutex);
  task *tasks = first;
  first = NULL;
  last = &first;
  atomic_store(&waiting, false);
  pthread_mutex_unlock(&mutex);
  while (tasks != NULL) {
    task *next = tasks->next;
    carry_out(tasks);
    tasks = next;
  }
}

static int release_pending(void *context) {
  (void)context;
  release_now();
  return 0;
}

static void add(task *made) {
  pthread_mutex_lock(&mutex);
  *last = made;
  last = &made->next;
  atomic_store_explicit(&waiting, true, memory_order_release);
  pthread_mutex_unlock(&mutex);
  if (Py_IsInitialized()) {
    (void)Py_AddPendingCall(release_pending, NULL); /* if too many calls are pending, the next call of this module does it */
  }
}

/* Called without the GIL, on any thread. If it is out of memory, the object is never released. */
void release_later(Py_buffer *view, PyObject *object) {
  task *made = calloc(1, sizeof *made + 1);
  if (made != NULL) {
    made->view = *view;
    made->object = object;
    add(made);
  }
}

void release_object(void *object, void *data) {
  (void)data;
  Py_buffer none;
  memset(&none, 0, sizeof none);
  release_later(&none, object);
}

void log_line(void *context, int32_t level, const char *message) {
  (void)context;
  if (atomic_fetch_add(&lines, 1) >= LINES_MAX) {
    atomic_fetch_sub(&lines, 1);
    return;
  }
  size_t length = strlen(message);
  task *made = calloc(1, sizeof *made + length + 1);
  if (made != NULL) {
    made->level = level == 0 ? IOBIND_LOG_WARNING : level;
    memcpy(made->message, message, length + 1);
    add(made);
  }
}

void set_logger(PyObject *new_logger) {
  Py_INCREF(new_logger);
  SET_REFERENCE(logger, new_logger);
}
