/* The least that a bound run can cost from Python: a function of a C module that gives up the GIL, makes a raw run and takes the GIL
 * back. It checks nothing, returns nothing and handles no Ctrl-C. */
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>

static void (*raw_bound)(const void *raw, long times);
static const void *raw;

/* use(address of raw_bound, address of the raw side) */
static PyObject *use(PyObject *module, PyObject *arguments) {
  unsigned long long function;
  unsigned long long side;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "KK", &function, &side)) return NULL;
  raw_bound = (void (*)(const void *, long))(uintptr_t)function;
  raw = (const void *)(uintptr_t)side; /* NOLINT(performance-no-int-to-ptr): ctypes knows it as a number */
  Py_RETURN_NONE;
}

static PyObject *run(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  PyThreadState *state = PyEval_SaveThread();
  raw_bound(raw, 1);
  PyEval_RestoreThread(state);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"use", use, METH_VARARGS, NULL}, {"run", run, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_floor(void);

PyMODINIT_FUNC PyInit_floor(void) {
  return PyModule_Create(&definition);
}
