/* Exports tensors as DLPack capsules, and imports such capsules. */
#include "core.h"

/* Call the deleter, which both kinds of struct have. */
static void delete_managed(void *managed, bool legacy) {
  typedef struct versioned {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct versioned *self);
  } versioned;
  typedef struct unversioned {
    void *tensor[6]; /* data, device, dims and type, shape, strides, offset */
    void *context;
    void (*deleter)(struct unversioned *self);
  } unversioned;
  if (legacy) {
    unversioned *old = managed;
    if (old->deleter != NULL) {
      old->deleter(old);
    }
  } else if (((versioned *)managed)->deleter != NULL) {
    ((versioned *)managed)->deleter(managed);
  }
}

/* The destructor of a capsule: if no consumer has taken the struct, delete it. */
static void capsule_dies(PyObject *capsule) {
  PyObject *raised[3];
  PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    delete_managed(PyCapsule_GetPointer(capsule, "dltensor_versioned"), false);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    delete_managed(PyCapsule_GetPointer(capsule, "dltensor"), true);
  }
  PyErr_Restore(raised[0], raised[1], raised[2]);
}

/* The begin of the struct of DLPack 1.x. */
typedef struct versioned_head {
  uint32_t version[2];
  void *context;
  void *deleter;
  uint64_t flags;
  void *data;
  int32_t device_type;
  int32_t device_id;
} versioned_head;

static void *managed_of(const Tensor *tensor, bool legacy) {
  void *managed;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status = iobind_tensor_to_dlpack(tensor->handle, legacy ? IOBIND_DLPACK_LEGACY : 0, &managed, &error);
  if (status == IOBIND_ERROR_NOT_SUPPORTED) {
    PyErr_SetString(PyExc_BufferError, error.message); /* as the array API specifies */
    return NULL;
  }
  return status == IOBIND_OK ? managed : raise_error(&error);
}

PyObject *to_dlpack(Tensor *self, PyObject *arguments) {
  enum { IS_COPIED = 2 };
  int legacy;
  int copied;
  if (!PyArg_ParseTuple(arguments, "pp", &legacy, &copied)) {
    return NULL;
  }
  void *managed = managed_of(self, legacy);
  if (managed == NULL) {
    return NULL;
  }
  if (copied && !legacy) {
    ((versioned_head *)managed)->flags |= IS_COPIED;
  }
  tensor_share(self);
  PyObject *capsule = PyCapsule_New(managed, legacy ? "dltensor" : "dltensor_versioned", capsule_dies);
  if (capsule == NULL) {
    delete_managed(managed, legacy);
  }
  return capsule;
}

PyObject *from_dlpack(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *runtime;
  PyObject *capsule;
  int copy;
  if (!PyArg_ParseTuple(arguments, "O!O!p", runtime_type, &runtime, &PyCapsule_Type, &capsule, &copy)) {
    return NULL;
  }
  bool legacy = PyCapsule_IsValid(capsule, "dltensor") != 0;
  const char *name = legacy ? "dltensor" : "dltensor_versioned";
  if (!PyCapsule_IsValid(capsule, name)) {
    return raise_status(IOBIND_ERROR_INVALID_ARGUMENT,
                        "from_dlpack: expected a DLPack capsule that was not used yet, got another one");
  }
  void *managed = PyCapsule_GetPointer(capsule, name);
  if (PyCapsule_SetName(capsule, legacy ? "used_dltensor" : "used_dltensor_versioned") != 0) {
    return NULL; /* renamed before the GIL is released, so that no other thread takes it, too */
  }
  uint32_t flags = (legacy ? IOBIND_DLPACK_LEGACY : 0U) | (copy ? IOBIND_DLPACK_COPY_STRIDED : 0U);
  iobind_tensor *handle;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status; /* for the call without the GIL, which may copy */
  WITHOUT_GIL(status, iobind_tensor_from_dlpack(((Runtime *)runtime)->handle, managed, flags, &handle, &error));
  if (status != IOBIND_OK) {
    (void)PyCapsule_SetName(capsule, name); /* the capsule still owns the struct, and can be taken again */
    return raise_error(&error);
  }
  return tensor_object(handle);
}

PyObject *dlpack_device(Tensor *self, PyObject *none) {
  (void)none;
  versioned_head *managed = managed_of(self, false);
  if (managed == NULL) {
    return NULL;
  }
  PyObject *pair = Py_BuildValue("(ii)", managed->device_type, managed->device_id);
  delete_managed(managed, false);
  return pair;
}
