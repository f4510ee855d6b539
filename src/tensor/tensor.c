/* Tensors: creation, wrapping, views, references. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "memory/allocator.h"
#include "memory/driver.h"
#include "support/options.h"

static iobind_runtime *runtime_of(const iobind_tensor *tensor) {
  return tensor->place->device->runtime;
}

uint64_t iobind__serial_next(void) {
  static atomic_uint_least64_t last;
  return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void tensor_destroy(iobind__ref *ref);

/* Does work in flight use the tensor? Then its stream retains it, and destroys it by a second call when the work is
 * complete. */
static bool retire(iobind_tensor *tensor) {
  for (size_t i = 0; i < sizeof tensor->uses / sizeof tensor->uses[0]; i++) {
    iobind__use use = tensor->uses[i];
    if (use.stream == NULL) {
      continue;
    }
    tensor->uses[i].stream = NULL;
    /* a worker's task retains the tensor, so none is in flight */
    bool passed = !iobind__stream_orders_calls(use.stream) || iobind__stream_passed(use.stream, use.ticket);
    if (!passed) {
      iobind__ref_init(&tensor->ref, tensor_destroy); /* the stream's reference, now the only one */
      iobind__stream_retire(use.stream, use.ticket, &tensor->ref);
    }
    iobind__ref_release(&use.stream->ref);
    if (!passed) {
      return true;
    }
  }
  return false;
}

/* Other libraries may release memory while their work on it is in flight, because cudaFree waits for the device. A pool would
 * reuse it at once for the next tensor, so the host waits. */
static void await_consumers(const iobind_tensor *tensor) {
  iobind_device *device = tensor->place->device;
  if (device->pool != NULL && tensor->allocated > 0 && atomic_load(&tensor->is_exported)) {
    iobind__driver_of(device)->settle(device);
  }
}

static void tensor_destroy(iobind__ref *ref) {
  iobind_tensor *tensor = (iobind_tensor *)ref;
  if (retire(tensor)) {
    return;
  }
  await_consumers(tensor);
  bool owns_value = tensor->owns != IOBIND__OWNS_NOTHING;
  if (tensor->value != NULL && owns_value && iobind__device_is_registered(tensor->place->device)) {
    iobind__value_release(runtime_of(tensor), tensor->place->device->guard, tensor->value);
  }
  if (tensor->allocated > 0) {
    iobind__device_note_freed(tensor->place->device, tensor->holder, tensor->allocated);
  }
  if (tensor->is_handle) {
    iobind__driver_of(tensor->place->device)->unwrap(tensor->place->device, tensor->data);
  }
  if (tensor->deleter != NULL) {
    tensor->deleter(tensor->deleter_context, owns_value ? tensor->given : (void *)tensor->value);
  }
  iobind_tensor *base = tensor->base;
  iobind__ref *owner = tensor->owner;
  free(tensor);
  iobind_tensor_release(base);
  iobind__ref_release(owner); /* last, because this may free the memory location */
}

/* A tensor without a value. */
static iobind_tensor *tensor_new(iobind__place *place, iobind__ref *owner, iobind__form form) {
  iobind_tensor *tensor =
      malloc(sizeof *tensor + form.rank * sizeof *form.dims); /* glibc's calloc takes 300 instructions more */
  if (tensor == NULL) {
    return NULL;
  }
  memset(tensor, 0, sizeof *tensor);
  iobind__ref_init(&tensor->ref, tensor_destroy);
  tensor->serial = iobind__serial_next();
  tensor->place = place;
  tensor->owner = owner;
  iobind__ref_retain(owner);
  tensor->dtype = form.dtype;
  tensor->rank = form.rank;
  if (form.rank > 0) {
    memcpy(tensor->dims, form.dims, form.rank * sizeof *form.dims);
  }
  return tensor;
}

/* Does ORT know the type? Up to 1.27 it takes the numbers of newer types for other types, whose elements may be smaller. */
static iobind_status check_known(const iobind_runtime *runtime, iobind_dtype dtype, const char *what, iobind_error *error) {
  if (dtype <= IOBIND_DTYPE_FLOAT4E2M1) { /* the last type that every supported ORT knows */
    return IOBIND_OK;
  }
  static char element[16];
  static const int64_t one = 1;
  const OrtApi *api = IOBIND__API(runtime);
  ONNXTensorElementDataType known = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t *dims;
  size_t rank;
  OrtValue *value = NULL;
  OrtStatus *status = api->CreateTensorWithDataAsOrtValue(runtime->cpu_info, element, sizeof element, &one, 1,
                                                          (ONNXTensorElementDataType)dtype, &value);
  if (status == NULL) {
    status = api->GetTensorElementTypeAndShapeDataReference(value, &known, &dims, &rank);
    api->ReleaseValue(value);
  }
  iobind__ort_ignore(api, status);
  return (iobind_dtype)known == dtype
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: ONNX Runtime %s has no tensors of %s", what,
                            runtime->ort.version, iobind_dtype_get_name(dtype));
}

/* Can ORT create such a tensor at this memory location? *bytes: its size. */
static iobind_status check_kind(const iobind__place *place, iobind__form form, size_t *bytes, const char *what,
                                iobind_error *error) {
  *bytes = 0;
  if (form.dtype == IOBIND_DTYPE_COMPLEX64 || form.dtype == IOBIND_DTYPE_COMPLEX128) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: ONNX Runtime has no tensors of %s", what,
                        iobind_dtype_get_name(form.dtype));
  }
  if (place->info == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: device '%s' has no host-accessible memory", what,
                        place->device->spec);
  }
  if (form.dtype == IOBIND_DTYPE_STRING) {
    uint64_t elements;
    IOBIND__TRY(iobind__dims_check(form.dims, form.rank, &elements, what, error));
    if (place != &place->device->runtime->cpu->places[IOBIND_MEMORY_DEFAULT]) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "%s: strings are only in host memory, got device '%s': create the tensor on the CPU device", what,
                          place->device->spec);
    }
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__form_bytes(form, bytes, what, error));
  return check_known(place->device->runtime, form.dtype, what, error);
}

iobind_status iobind__tensor_check_writable(const iobind_tensor *tensor, const char *what, iobind_error *error) {
  return tensor->read_only
             ? iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "%s: the tensor is read-only (a saved state, or a read-only import): use a copy of it", what)
             : IOBIND_OK;
}

iobind_status iobind__tensor_find_place(iobind_device *device, iobind_memory memory, iobind__place **place, const char *what,
                                        iobind_error *error) {
  if (memory != IOBIND_MEMORY_DEFAULT && memory != IOBIND_MEMORY_HOST_ACCESSIBLE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected memory 0 .. %d, got %d", what,
                        IOBIND_MEMORY_HOST_ACCESSIBLE, (int)memory);
  }
  *place = &device->places[memory];
  return IOBIND_OK;
}

iobind_status iobind__tensor_create_from(iobind__place *source, iobind__place *place, iobind__form form, iobind_tensor **out,
                                         iobind_error *error) {
  size_t bytes;
  IOBIND__TRY(check_kind(place, form, &bytes, "tensor_create", error));
  iobind_tensor *tensor = tensor_new(place, source->owner, form);
  if (tensor == NULL) {
    return iobind__out_of_memory(error, "tensor_create");
  }
  iobind_status status = iobind__place_allocate(source, form, bytes, &tensor->value, &tensor->data, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(tensor);
    return status;
  }
  if (bytes == 0) {
    tensor->data = NULL; /* ORT may return an address for 0 bytes */
  }
  tensor->bytes = bytes;
  tensor->allocated = bytes;
  tensor->holder = IOBIND_HOLDER_CALLER;
  if (bytes > 0) {
    iobind__device_note_allocated(place->device, tensor->holder, bytes);
  }
  *out = tensor;
  return IOBIND_OK;
}

iobind_status iobind__tensor_create_at(iobind__place *place, iobind__form form, iobind_tensor **out, iobind_error *error) {
  return iobind__tensor_create_from(place, place, form, out, error);
}

void iobind__tensor_hand_to(iobind_tensor *tensor, iobind_holder holder) {
  if (tensor != NULL && tensor->allocated > 0 && tensor->holder != holder) {
    iobind__device_note_handed(tensor->place->device, tensor->holder, holder, tensor->allocated);
    tensor->holder = holder;
  }
}

static iobind_status create(iobind_device *device, iobind_memory memory, iobind__form form, iobind_tensor **tensor,
                            iobind_error *error) {
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "tensor_create", error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_create", error));
  IOBIND__TRY(iobind__process_check("tensor_create", error));
  iobind__place *place;
  IOBIND__TRY(iobind__tensor_find_place(device, memory, &place, "tensor_create", error));
  return iobind__tensor_create_at(place, form, tensor, error);
}

iobind_status iobind_tensor_create(iobind_device *device, iobind_memory memory, iobind_dtype dtype, const int64_t *dims,
                                   size_t rank, iobind_tensor **tensor, iobind_error *error) {
  const iobind__form form = {dtype, dims, rank};
  return iobind__named(create(device, memory, form, tensor, error), error, "tensor_create");
}

/* Complete a new tensor over existing memory: the caller's, or a part of another tensor's. `tensor` NULL: out of memory. */
static iobind_status tensor_over(iobind_tensor *tensor, void *data, size_t bytes, iobind_tensor **out, const char *what,
                                 iobind_error *error) {
  if (tensor == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind_status registered = iobind__device_check_registered(tensor->place->device, error);
  if (registered != IOBIND_OK) { /* ORT's memory info was freed, too */
    iobind_tensor_release(tensor);
    return iobind__named(registered, error, what);
  }
  const OrtApi *api = IOBIND__API(runtime_of(tensor));
  OrtStatus *status = api->CreateTensorWithDataAsOrtValue(tensor->place->info, data, bytes, tensor->dims, tensor->rank,
                                                          (ONNXTensorElementDataType)tensor->dtype, &tensor->value);
  if (status != NULL) {
    iobind_tensor_release(tensor);
    return iobind__ort_fail(api, status, error, "%s", what);
  }
  tensor->owns = IOBIND__OWNS_VALUE;
  tensor->data = bytes == 0 ? NULL : data;
  tensor->bytes = bytes;
  *out = tensor;
  return IOBIND_OK;
}

static iobind__form form_of_buffer(const iobind_buffer *buffer) {
  return (iobind__form){(iobind_dtype)buffer->dtype, buffer->dims, buffer->rank};
}

/* *needed: the size of a tensor of these dims. */
static iobind_status check_buffer(const iobind_device *device, const iobind_buffer *buffer, const iobind__place *place,
                                  size_t *needed, iobind_error *error) {
  const void *data = buffer->data;
  IOBIND__TRY(check_kind(place, form_of_buffer(buffer), needed, "tensor_wrap", error));
  if (buffer->bytes < *needed || (data == NULL && *needed > 0)) {
    char shape[IOBIND__SHAPE_TEXT];
    iobind__shape_text(form_of_buffer(buffer), NULL, shape, sizeof shape);
    return data == NULL
               ? iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_wrap: data is NULL, %s has %zu bytes", shape,
                              *needed)
               : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_wrap: expected %zu bytes or more for %s, got %zu",
                              *needed, shape, buffer->bytes);
  }
  return device->context == NULL || *needed == 0
             ? IOBIND_OK
             : iobind__context_check_address(device->context, (iobind_memory)buffer->memory, data, error);
}

static iobind_status wrap(iobind_device *device, const iobind_buffer *buffer, iobind_tensor **tensor, iobind_error *error) {
  if (buffer->dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE,
                        "tensor_wrap: strings cannot be wrapped: create a tensor and set its elements");
  }
  iobind__place *place;
  size_t needed;
  IOBIND__TRY(iobind__tensor_find_place(device, (iobind_memory)buffer->memory, &place, "tensor_wrap", error));
  IOBIND__TRY(check_buffer(device, buffer, place, &needed, error));
  const iobind__driver *driver = iobind__driver_of(device);
  bool is_handle = driver->wrap != NULL && !place->host;
  void *handle = buffer->data;
  IOBIND__TRY(is_handle ? driver->wrap(device, buffer->data, needed, &handle, error) : IOBIND_OK);
  iobind_tensor *made = tensor_new(place, place->owner, form_of_buffer(buffer));
  iobind_status status = tensor_over(made, handle, needed, tensor, "tensor_wrap", error);
  if (status != IOBIND_OK) {
    if (is_handle) {
      driver->unwrap(device, handle);
    }
    return status;
  }
  (*tensor)->is_handle = is_handle;
  if (is_handle) {
    (*tensor)->data = handle; /* also for 0 bytes, for unwrap */
  }
  (*tensor)->deleter = buffer->deleter;
  (*tensor)->deleter_context = buffer->context;
  (*tensor)->given = buffer->data;
  return IOBIND_OK;
}

iobind_status iobind_tensor_wrap(iobind_device *device, const iobind_buffer *given, iobind_tensor **tensor,
                                 iobind_error *error) {
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "tensor_wrap", error));
  IOBIND__TRY(iobind__null_check(given, "buffer", "tensor_wrap", error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_wrap", error));
  IOBIND__TRY(iobind__process_check("tensor_wrap", error));
  iobind_buffer buffer;
  IOBIND__TRY(IOBIND__OPTIONS_READ(&buffer, given, "tensor_wrap", error));
  return iobind__named(wrap(device, &buffer, tensor, error), error, "tensor_wrap");
}

iobind_status iobind_tensor_view(iobind_tensor *tensor, size_t offset, iobind_dtype dtype, const int64_t *dims, size_t rank,
                                 iobind_tensor **view, iobind_error *error) {
  if (view != NULL) {
    *view = NULL;
  }
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_view", error));
  IOBIND__TRY(iobind__null_check(view, "view", "tensor_view", error));
  IOBIND__TRY(iobind__process_check("tensor_view", error));
  if (tensor->dtype == IOBIND_DTYPE_STRING || dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "tensor_view: strings have no views");
  }
  const iobind__form form = {dtype, dims, rank};
  size_t bytes;
  IOBIND__TRY(check_kind(tensor->place, form, &bytes, "tensor_view", error));
  if (offset > tensor->bytes || bytes > tensor->bytes - offset) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "tensor_view: expected a part of the tensor's %zu bytes, got %zu bytes at offset %zu", tensor->bytes,
                        bytes, offset);
  }
  bool cuts_unit = bytes % IOBIND__UNIT != 0 && bytes != tensor->bytes;
  if (!tensor->place->addressable && (offset > 0 || cuts_unit)) {
    return iobind__fail(
        error, IOBIND_ERROR_NOT_SUPPORTED,
        "tensor_view: memory of '%s' has no addresses: a view must begin at 0 and end on a unit of %d bytes, got "
        "%zu bytes at offset %zu: iobind_tensor_read and iobind_tensor_write can access the part",
        tensor->place->device->spec, IOBIND__UNIT, bytes, offset);
  }
  void *data = tensor->data == NULL ? NULL : (char *)tensor->data + offset;
  iobind_tensor *made = tensor_new(tensor->place, tensor->owner, form);
  IOBIND__TRY(tensor_over(made, data, bytes, view, "tensor_view", error));
  (*view)->base = iobind_tensor_retain(tensor->base != NULL ? tensor->base : tensor);
  (*view)->read_only = tensor->read_only;
  return IOBIND_OK;
}

iobind_status iobind_tensor_slice(iobind_tensor *tensor, int64_t start, int64_t count, iobind_tensor **view,
                                  iobind_error *error) {
  if (view != NULL) {
    *view = NULL;
  }
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_slice", error));
  IOBIND__TRY(iobind__null_check(view, "view", "tensor_slice", error));
  if (tensor->rank == 0) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "tensor_slice: a scalar has no axis to slice");
  }
  if (start < 0 || count < 0 || start > tensor->dims[0] || count > tensor->dims[0] - start) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "tensor_slice: expected a part of %lld entries, got %lld from %lld on",
                        (long long)tensor->dims[0], (long long)count, (long long)start);
  }
  int64_t dims[IOBIND_MAX_RANK];
  memcpy(dims, tensor->dims, tensor->rank * sizeof dims[0]);
  dims[0] = count;
  /* the offset cannot overflow, because the tensor's size does not */
  uint64_t elements = (uint64_t)start;
  for (size_t i = 1; i < tensor->rank; i++) {
    elements *= (uint64_t)dims[i];
  }
  uint32_t bits = iobind_dtype_get_bits((int32_t)tensor->dtype);
  uint64_t per_byte = bits < 8 && bits > 0 ? 8 / bits : 1;
  if (elements % per_byte != 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "tensor_slice: entry %lld of packed %s does not begin on a byte",
                        (long long)start, iobind_dtype_get_name((int32_t)tensor->dtype));
  }
  size_t offset = (size_t)(bits < 8 ? elements / per_byte : elements * (bits / 8));
  return iobind__renamed(iobind_tensor_view(tensor, offset, tensor->dtype, dims, tensor->rank, view, error), error,
                         "tensor_slice");
}

iobind_status iobind__tensor_from_value(OrtValue *value, iobind__place *place, iobind__ref *owner, iobind_tensor **out,
                                        const char *what, iobind_error *error) {
  const OrtApi *api = IOBIND__API(place->device->runtime);
  ONNXTensorElementDataType type;
  const int64_t *dims = NULL;
  size_t rank = 0;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank), error, "%s", what);
  iobind_dtype dtype = (iobind_dtype)type;
  uint64_t bits = iobind_dtype_get_bits((int32_t)dtype);
  void *data = NULL;
  if (bits == 0 && dtype != IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: elements of type %d have no known size", what, (int)type);
  }
  for (size_t i = 0; i < rank; i++) {
    bits *= (uint64_t)dims[i]; /* cannot overflow: ORT has allocated it */
  }
  size_t bytes = (size_t)((bits + 7) / 8);
  if (bytes > 0) {
    IOBIND__ORT_TRY(api, api->GetTensorMutableData(value, &data), error, "%s", what);
    if (data == NULL) {
      return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "%s: %zu bytes on '%s': out of device memory", what, bytes,
                          place->device->spec);
    }
  }
  iobind_tensor *tensor = tensor_new(place, owner, (iobind__form){dtype, dims, rank});
  if (tensor == NULL) {
    return iobind__out_of_memory(error, what);
  }
  tensor->value = value;
  tensor->data = data;
  tensor->bytes = bytes;
  *out = tensor;
  return IOBIND_OK;
}

/* Is there only one reference, no memory but the value's, and no work in flight that uses it? */
static bool is_plain(const iobind_tensor *tensor) {
  bool used = false;
  if (atomic_load_explicit(&tensor->ref.count, memory_order_acquire) != 1) {
    return false; /* other owners may submit work that uses it */
  }
  for (size_t i = 0; i < sizeof tensor->uses / sizeof tensor->uses[0]; i++) {
    const iobind__use *use = &tensor->uses[i];
    used = used || (use->stream != NULL && !iobind__stream_passed(use->stream, use->ticket));
  }
  return iobind__tensor_owns_memory(tensor) && tensor->allocated == 0 && !used;
}

bool iobind__tensor_replace_value(iobind_tensor *tensor, OrtValue *value, bool *reshaped) {
  const OrtApi *api = IOBIND__API(runtime_of(tensor));
  ONNXTensorElementDataType type;
  const int64_t *dims = NULL;
  size_t rank = 0;
  uint64_t bits = iobind_dtype_get_bits((int32_t)tensor->dtype);
  void *data = NULL;
  if (!is_plain(tensor)) {
    return false;
  }
  OrtStatus *status = api->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank);
  bool fits = status == NULL && (iobind_dtype)type == tensor->dtype && rank == tensor->rank;
  *reshaped = false;
  for (size_t i = 0; fits && i < rank; i++) {
    bits *= (uint64_t)dims[i]; /* cannot overflow: ORT has allocated it */
    *reshaped = *reshaped || dims[i] != tensor->dims[i];
  }
  if (fits && bits > 0) {
    status = api->GetTensorMutableData(value, &data);
  }
  if (status != NULL) {
    api->ReleaseStatus(status); /* the caller creates a new tensor, and reports the same failure */
    return false;
  }
  if (!fits || (bits > 0 && data == NULL)) {
    return false; /* for memory that is not there, too, the caller's new tensor reports the failure */
  }
  iobind__value_release(runtime_of(tensor), tensor->place->device->guard, tensor->value);
  tensor->value = value;
  tensor->serial = iobind__serial_next();
  tensor->read_only = false; /* it was a saved state, which has no other owner any more */
  tensor->data = data;
  tensor->bytes = (size_t)((bits + 7) / 8);
  for (size_t i = 0; *reshaped && i < rank; i++) {
    tensor->dims[i] = dims[i];
  }
  return true;
}

iobind_tensor *iobind_tensor_retain(iobind_tensor *tensor) {
  if (tensor != NULL) {
    iobind__ref_retain(&tensor->ref);
  }
  return tensor;
}

void iobind_tensor_release(iobind_tensor *tensor) {
  if (tensor != NULL) {
    iobind__ref_release(&tensor->ref);
  }
}

void iobind__tensors_release(iobind_tensor **tensors, size_t count) {
  for (size_t i = 0; tensors != NULL && i < count; i++) {
    iobind_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

iobind_status iobind_tensor_get_info(const iobind_tensor *tensor, iobind_tensor_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_get_info", error));
  iobind_tensor_info full = {.dtype = (int32_t)tensor->dtype,
                             .dims = tensor->dims,
                             .rank = tensor->rank,
                             .bytes = tensor->bytes,
                             .device = tensor->place->device,
                             .memory = (int32_t)tensor->place->memory,
                             .host_readable = tensor->place->host && tensor->dtype != IOBIND_DTYPE_STRING,
                             .read_only = tensor->read_only};
  return IOBIND__INFO_WRITE(info, &full, "tensor_get_info", error);
}

static iobind_status get_native(const iobind_tensor *tensor, iobind_native *native, iobind_error *error) {
  iobind_device *device = tensor->place->device;
  const iobind__driver *driver = iobind__driver_of(device);
  if (driver->get_native == NULL || tensor->place->host) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "memory of '%s%s' has no native object: iobind_tensor_get_address returns its address", device->spec,
                        iobind__place_suffix(tensor->place));
  }
  return driver->get_native(device, tensor->data, native, error);
}

iobind_status iobind_tensor_get_native(const iobind_tensor *tensor, iobind_native *native, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_get_native", error));
  IOBIND__TRY(iobind__null_check(native, "native", "tensor_get_native", error));
  IOBIND__TRY(iobind__process_check("tensor_get_native", error));
  return iobind__named(get_native(tensor, native, error), error, "tensor_get_native");
}

void *iobind_tensor_get_address(const iobind_tensor *tensor) {
  if (tensor == NULL || tensor->bytes == 0) {
    return NULL;
  }
  iobind__tensor_export(tensor);
  return tensor->data;
}

bool iobind__memory_overlaps(const iobind__place *place_a, const void *a, size_t bytes_a, const iobind__place *place_b,
                             const void *b, size_t bytes_b) {
  if (bytes_a == 0 || bytes_b == 0 || place_a->host != place_b->host) {
    return false;
  }
  if (!place_a->host && place_a->device != place_b->device) {
    return false;
  }
  if (!place_a->addressable || !place_b->addressable) {
    return a == b; /* handles can only be compared for equality */
  }
  uintptr_t start_a = (uintptr_t)a;
  uintptr_t start_b = (uintptr_t)b;
  return start_a < start_b + bytes_b && start_b < start_a + bytes_a;
}

bool iobind__tensor_overlaps(const iobind_tensor *a, const iobind_tensor *b) {
  return iobind__memory_overlaps(a->place, a->data, a->bytes, b->place, b->data, b->bytes);
}
