/* Exports tensors to other libraries, and imports theirs, by DLPack. */
#include "tensor/dlpack.h"

#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "support/options.h"
#include "tensor/tensor.h"

/* ---- DLPack's names for element types and memory ---- */

static const struct {
  iobind_dtype dtype;
  uint8_t code;
  bool is_new; /* since DLPack 1.1: a consumer of legacy structs may not know it */
} types[] = {
    {IOBIND_DTYPE_INT8, 0, false},           {IOBIND_DTYPE_INT16, 0, false},      {IOBIND_DTYPE_INT32, 0, false},
    {IOBIND_DTYPE_INT64, 0, false},          {IOBIND_DTYPE_INT4, 0, true},        {IOBIND_DTYPE_INT2, 0, true},
    {IOBIND_DTYPE_UINT8, 1, false},          {IOBIND_DTYPE_UINT16, 1, false},     {IOBIND_DTYPE_UINT32, 1, false},
    {IOBIND_DTYPE_UINT64, 1, false},         {IOBIND_DTYPE_UINT4, 1, true},       {IOBIND_DTYPE_UINT2, 1, true},
    {IOBIND_DTYPE_FLOAT16, 2, false},        {IOBIND_DTYPE_FLOAT32, 2, false},    {IOBIND_DTYPE_FLOAT64, 2, false},
    {IOBIND_DTYPE_BFLOAT16, 4, false},       {IOBIND_DTYPE_BOOL, 6, false},       {IOBIND_DTYPE_FLOAT8E4M3FN, 10, true},
    {IOBIND_DTYPE_FLOAT8E4M3FNUZ, 11, true}, {IOBIND_DTYPE_FLOAT8E5M2, 12, true}, {IOBIND_DTYPE_FLOAT8E5M2FNUZ, 13, true},
    {IOBIND_DTYPE_FLOAT8E8M0, 14, true},     {IOBIND_DTYPE_FLOAT4E2M1, 17, true},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

/* DLPack's device type of a memory location; 0: none. */
static int32_t device_type_of(const iobind__place *place) {
  const iobind__ep *ep = place->device->ep;
  if (ep == NULL || ep->dlpack.memory == 0) {
    return place->host ? IOBIND__DL_CPU : 0;
  }
  return place->memory == IOBIND_MEMORY_DEFAULT ? ep->dlpack.memory : ep->dlpack.pinned;
}

/* Can a memory location have memory of this device type? */
static bool takes_type(const iobind__place *place, int32_t device_type) {
  const iobind__ep *ep = place->device->ep;
  bool managed = ep != NULL && device_type != 0 && ep->dlpack.managed == device_type;
  return managed ? place->memory == IOBIND_MEMORY_DEFAULT : device_type != 0 && device_type_of(place) == device_type;
}

/* The device's number in the memory's own library, such as CUDA; 0 for the host. */
static iobind_status find_device_id(const iobind__place *place, int32_t device_type, int32_t *out, const char *what,
                                    iobind_error *error) {
  int id = 0;
  const OrtApi *api = IOBIND__API(place->device->runtime);
  if (device_type != IOBIND__DL_CPU) {
    IOBIND__ORT_TRY(api, api->MemoryInfoGetId(place->info, &id), error, "%s: '%s'", what, place->device->spec);
  }
  *out = id;
  return IOBIND_OK;
}

/* ---- exporting ---- */

/* The struct, and the memory that it points to. */
typedef struct handed {
  union {
    iobind__dl_legacy legacy;
    iobind__dl_versioned versioned;
  } managed;
  iobind_tensor *tensor;
  int64_t dims[]; /* followed by the strides */
} handed;

static void hand_back(handed *self) {
  iobind_tensor *tensor = self->tensor;
  free(self);
  iobind_tensor_release(tensor);
}

static void delete_legacy(iobind__dl_legacy *self) {
  hand_back(self->context);
}

static void delete_versioned(iobind__dl_versioned *self) {
  hand_back(self->context);
}

static void describe(handed *out, iobind__dl_tensor *to, const iobind_tensor *tensor, int32_t device_type, int32_t device_id,
                     uint8_t code) {
  to->data = iobind_tensor_get_address(tensor);
  to->device_type = device_type;
  to->device_id = device_id;
  to->rank = (int32_t)tensor->rank;
  to->code = code;
  to->bits = (uint8_t)iobind_dtype_get_bits((int32_t)tensor->dtype);
  to->lanes = 1;
  to->dims = out->dims;
  to->strides = out->dims + tensor->rank;
  int64_t stride = 1;
  for (size_t i = tensor->rank; i-- > 0;) {
    to->dims[i] = tensor->dims[i];
    to->strides[i] = stride;
    stride *= tensor->dims[i] > 0 ? tensor->dims[i] : 1;
  }
}

/* Can a struct of DLPack describe the tensor? *code: DLPack's type code. */
static iobind_status check_exported(const iobind_tensor *tensor, bool legacy, uint8_t *code, iobind_error *error) {
  size_t type = 0;
  while (type < TYPE_COUNT && types[type].dtype != tensor->dtype) {
    type++;
  }
  const char *name = iobind_dtype_get_name((int32_t)tensor->dtype);
  if (type == TYPE_COUNT || (legacy && types[type].is_new)) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "tensor_to_dlpack: %s has no tensors of %s",
                        legacy ? "a legacy struct" : "DLPack", name);
  }
  if (legacy && tensor->read_only) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "tensor_to_dlpack: a legacy struct cannot express that a tensor is read-only");
  }
  *code = types[type].code;
  return IOBIND_OK;
}

static iobind_status to_dlpack(iobind_tensor *tensor, uint32_t flags, void **managed, iobind_error *error) {
  bool legacy = (flags & IOBIND_DLPACK_LEGACY) != 0;
  uint8_t code;
  IOBIND__TRY(check_exported(tensor, legacy, &code, error));
  int32_t device_type = device_type_of(tensor->place);
  if (device_type == 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "tensor_to_dlpack: DLPack has no device type for memory of '%s': copy the tensor to the host",
                        tensor->place->device->spec);
  }
  int32_t device_id;
  IOBIND__TRY(find_device_id(tensor->place, device_type, &device_id, "tensor_to_dlpack", error));
  handed *out = calloc(1, sizeof *out + 2 * tensor->rank * sizeof(int64_t));
  if (out == NULL) {
    return iobind__out_of_memory(error, "tensor_to_dlpack");
  }
  out->tensor = iobind_tensor_retain(tensor);
  iobind__tensor_export(tensor);
  if (legacy) {
    out->managed.legacy.context = out;
    out->managed.legacy.deleter = delete_legacy;
    describe(out, &out->managed.legacy.tensor, tensor, device_type, device_id, code);
  } else {
    iobind__dl_versioned *versioned = &out->managed.versioned;
    versioned->major = IOBIND__DL_MAJOR;
    versioned->minor = IOBIND__DL_MINOR;
    versioned->context = out;
    versioned->deleter = delete_versioned;
    versioned->flags = tensor->read_only ? IOBIND__DL_READ_ONLY : 0;
    describe(out, &versioned->tensor, tensor, device_type, device_id, code);
  }
  *managed = &out->managed;
  return IOBIND_OK;
}

iobind_status iobind_tensor_to_dlpack(iobind_tensor *tensor, uint32_t flags, void **managed, iobind_error *error) {
  if (managed != NULL) {
    *managed = NULL;
  }
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_to_dlpack", error));
  IOBIND__TRY(iobind__null_check(managed, "managed", "tensor_to_dlpack", error));
  IOBIND__TRY(iobind__process_check("tensor_to_dlpack", error));
  IOBIND__TRY(iobind__flags_check(flags, IOBIND_DLPACK_LEGACY, "tensor_to_dlpack", error));
  return to_dlpack(tensor, flags, managed, error);
}

/* ---- importing ---- */

static void delete_managed(void *managed, bool legacy) {
  iobind__dl_legacy *old = managed;
  iobind__dl_versioned *versioned = managed;
  if (legacy && old->deleter != NULL) {
    old->deleter(old);
  } else if (!legacy && versioned->deleter != NULL) {
    versioned->deleter(versioned);
  }
}

static void release_legacy(void *context, void *data) {
  (void)data;
  delete_managed(context, true);
}

static void release_versioned(void *context, void *data) {
  (void)data;
  delete_managed(context, false);
}

static iobind_dtype dtype_of(const iobind__dl_tensor *from) {
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (types[i].code == from->code && iobind_dtype_get_bits((int32_t)types[i].dtype) == from->bits) {
      return types[i].dtype;
    }
  }
  return IOBIND_DTYPE_UNDEFINED;
}

/* The memory location of an imported tensor. */
static iobind_status find_place(iobind_runtime *runtime, const iobind__dl_tensor *from, iobind__place **found,
                                iobind_error *error) {
  *found = from->device_type == IOBIND__DL_CPU ? &runtime->cpu->places[IOBIND_MEMORY_DEFAULT] : NULL;
  iobind_device *device;
  for (size_t i = 0; *found == NULL && (device = iobind_runtime_get_device(runtime, i)) != NULL; i++) {
    for (size_t memory = 0; memory < 2; memory++) {
      iobind__place *place = &device->places[memory];
      if (place->info == NULL || !takes_type(place, from->device_type)) {
        continue;
      }
      int32_t id;
      IOBIND__TRY(find_device_id(place, from->device_type, &id, "tensor_from_dlpack", error));
      if (place->host || id == from->device_id) { /* pinned memory belongs to every device */
        *found = place;
      }
    }
  }
  return *found != NULL
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                            "tensor_from_dlpack: no device of this runtime has memory of DLPack's device type %d, number %d",
                            from->device_type, from->device_id);
}

/* Are the elements dense, in row-major order? The dims have been checked, so their product does not overflow. */
static bool is_dense(const iobind__dl_tensor *from) {
  bool is_empty = false;
  for (int32_t i = 0; i < from->rank; i++) {
    is_empty = is_empty || from->dims[i] == 0;
  }
  bool dense = true;
  int64_t expected = 1;
  for (int32_t i = from->rank; from->strides != NULL && !is_empty && dense && i-- > 0;) {
    dense = from->dims[i] == 1 || from->strides[i] == expected;
    expected *= from->dims[i];
  }
  return is_empty || dense;
}

/* Can every element be addressed without an overflow? */
static bool strides_fit(const iobind__dl_tensor *from) {
  const int64_t element = from->bits / 8;
  int64_t reach = 0;
  bool fit = true;
  for (int32_t i = 0; fit && i < from->rank; i++) {
    int64_t step = from->strides[i];
    int64_t span;
    fit = step != INT64_MIN && !__builtin_mul_overflow(step < 0 ? -step : step, from->dims[i], &span) &&
          !__builtin_mul_overflow(span, element, &span) && !__builtin_add_overflow(reach, span, &reach);
  }
  return fit;
}

/* Copy strided elements into dense memory. */
static void gather(const iobind__dl_tensor *from, const char *data, char *to) {
  size_t element = from->bits / 8;
  int64_t at[IOBIND_MAX_RANK] = {0};
  int32_t last = from->rank - 1;
  for (int32_t axis = last; axis >= 0;) {
    const char *row = data;
    for (int32_t i = 0; i < last; i++) {
      row += at[i] * from->strides[i] * (int64_t)element;
    }
    for (int64_t i = 0; i < from->dims[last]; i++, to += element) {
      memcpy(to, row + i * from->strides[last] * (int64_t)element, element);
    }
    for (axis = last - 1; axis >= 0 && ++at[axis] == from->dims[axis]; axis--) {
      at[axis] = 0;
    }
  }
}

static iobind_status copy_strided(const iobind__dl_tensor *from, const iobind__place *place, uint32_t flags,
                                  iobind_tensor **out, iobind_error *error) {
  iobind_dtype dtype = dtype_of(from);
  if ((flags & IOBIND_DLPACK_COPY_STRIDED) == 0) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "tensor_from_dlpack: expected dense, row-major memory, got strides: make the array dense, or set "
                        "IOBIND_DLPACK_COPY_STRIDED to copy it");
  }
  if (!place->host || from->bits < 8) {
    return iobind__fail(
        error, IOBIND_ERROR_NOT_SUPPORTED,
        "tensor_from_dlpack: only host memory of whole bytes is copied, got %s on '%s': make the array dense in its own "
        "library",
        iobind_dtype_get_name((int32_t)dtype), place->device->spec);
  }
  if (from->data == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_from_dlpack: expected an address, got data of NULL");
  }
  if (!strides_fit(from)) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "tensor_from_dlpack: expected strides within the address space, got larger ones");
  }
  iobind_device *cpu = place->device->runtime->cpu;
  IOBIND__TRY(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, from->dims, (size_t)from->rank, out, error));
  gather(from, (const char *)from->data + from->offset, (*out)->data);
  return IOBIND_OK;
}

/* The tensor of a struct that iobind has exported; NULL: another library exported it. A view of it is returned, so that the
 * memory has one list of holders. */
static iobind_tensor *own_tensor(void *managed, bool legacy) {
  const iobind__dl_legacy *old = managed;
  const iobind__dl_versioned *versioned = managed;
  bool is_ours = legacy ? old->deleter == delete_legacy : versioned->deleter == delete_versioned;
  return !is_ours ? NULL : ((handed *)(legacy ? old->context : versioned->context))->tensor;
}

static bool is_read_only(const void *managed, bool legacy) {
  return !legacy && (((const iobind__dl_versioned *)managed)->flags & IOBIND__DL_READ_ONLY) != 0;
}

static iobind_status take_back(iobind_tensor *own, void *managed, bool legacy, iobind_tensor **tensor, iobind_error *error) {
  IOBIND__TRY(iobind_tensor_view(own, 0, own->dtype, own->dims, own->rank, tensor, error));
  (*tensor)->read_only = own->read_only || is_read_only(managed, legacy);
  delete_managed(managed, legacy);
  return IOBIND_OK;
}

static iobind_status check_described(const iobind__dl_tensor *from, iobind_error *error) {
  if (from->rank < 0 || from->rank > IOBIND_MAX_RANK || (from->rank > 0 && from->dims == NULL)) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "tensor_from_dlpack: expected 0 to %d dims, got %d", IOBIND_MAX_RANK,
                        from->rank);
  }
  if (from->lanes != 1) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "tensor_from_dlpack: expected single elements, got vectors of %d",
                        from->lanes);
  }
  if (dtype_of(from) == IOBIND_DTYPE_UNDEFINED) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "tensor_from_dlpack: no element type for DLPack's code %d with %d bits",
                        from->code, from->bits);
  }
  return IOBIND_OK;
}

static iobind_status take_over(iobind_runtime *runtime, void *managed, const iobind__dl_tensor *from, uint32_t flags,
                               iobind_tensor **tensor, iobind_error *error) {
  bool legacy = (flags & IOBIND_DLPACK_LEGACY) != 0;
  iobind_tensor *own = own_tensor(managed, legacy);
  if (own != NULL && own->place->device->runtime == runtime) {
    return take_back(own, managed, legacy, tensor, error);
  }
  IOBIND__TRY(check_described(from, error));
  iobind__place *place;
  IOBIND__TRY(find_place(runtime, from, &place, error));
  iobind_dtype dtype = dtype_of(from);
  size_t bytes;
  IOBIND__TRY(iobind__form_bytes((iobind__form){dtype, from->dims, (size_t)from->rank}, &bytes, "tensor_from_dlpack", error));
  if (!is_dense(from)) {
    IOBIND__TRY(copy_strided(from, place, flags, tensor, error));
    delete_managed(managed, legacy);
    return IOBIND_OK;
  }
  if (!place->addressable && from->offset > 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "tensor_from_dlpack: memory of '%s' has no addresses, got offset %llu", place->device->spec,
                        (unsigned long long)from->offset);
  }
  void *data = from->data == NULL ? NULL : (char *)from->data + from->offset;
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.memory = (int32_t)place->memory;
  buffer.dtype = (int32_t)dtype;
  buffer.dims = from->dims;
  buffer.rank = (size_t)from->rank;
  buffer.data = data;
  buffer.bytes = bytes;
  buffer.deleter = legacy ? release_legacy : release_versioned;
  buffer.context = managed;
  IOBIND__TRY(iobind_tensor_wrap(place->device, &buffer, tensor, error));
  (*tensor)->read_only = is_read_only(managed, legacy);
  return IOBIND_OK;
}

iobind_status iobind_tensor_from_dlpack(iobind_runtime *runtime, void *managed, uint32_t flags, iobind_tensor **tensor,
                                        iobind_error *error) {
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "tensor_from_dlpack", error));
  IOBIND__TRY(iobind__null_check(managed, "managed", "tensor_from_dlpack", error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_from_dlpack", error));
  IOBIND__TRY(iobind__process_check("tensor_from_dlpack", error));
  IOBIND__TRY(iobind__flags_check(flags, IOBIND_DLPACK_LEGACY | IOBIND_DLPACK_COPY_STRIDED, "tensor_from_dlpack", error));
  const iobind__dl_tensor *from = &((iobind__dl_legacy *)managed)->tensor;
  if ((flags & IOBIND_DLPACK_LEGACY) == 0) {
    const iobind__dl_versioned *versioned = managed;
    if (versioned->major != IOBIND__DL_MAJOR) {
      return iobind__fail(error, IOBIND_ERROR_VERSION, "tensor_from_dlpack: expected a struct of DLPack %d, got %u.%u",
                          IOBIND__DL_MAJOR, versioned->major, versioned->minor);
    }
    if ((versioned->flags & IOBIND__DL_SUBBYTE_PADDED) != 0 && versioned->tensor.bits < 8) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "tensor_from_dlpack: expected packed elements of %d bits, got one in each byte",
                          versioned->tensor.bits);
    }
    from = &versioned->tensor;
  }
  return iobind__renamed(take_over(runtime, managed, from, flags, tensor, error), error, "tensor_from_dlpack");
}
