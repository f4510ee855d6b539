/* Allocations, wrapped resources and copies on DirectML devices. ORT identifies a resource by a handle. iobind keeps a list of
 * its own resources and the caller's. Resources that ORT has allocated for outputs are known only to the session's allocator. */
#include "memory/driver_dml.h"

#include <stdlib.h>
#include <string.h>

#include "support/options.h"

/* ---- the list ---- */

/* The link to an entry, so that it can be removed; it points to NULL if there is no entry. With the mutex held. */
static iobind__dml_buffer **find_link(iobind__dml *dml, const void *handle) {
  iobind__dml_buffer **link = &dml->buffers;
  while (*link != NULL && (*link)->handle != handle) {
    link = &(*link)->next;
  }
  return link;
}

/* Takes ownership of the reference to the resource, also on failure. With the mutex held. */
static iobind_status keep_locked(iobind_device *device, d3d12_resource *resource, void *address, size_t bytes, void **handle,
                                 iobind_error *error) {
  iobind__dml *dml = iobind__dml_of(device);
  const OrtApi *api = IOBIND__API(device->runtime);
  iobind__dml_buffer *made = calloc(1, sizeof *made);
  *handle = address;
  if (made == NULL) {
    iobind__com_release(resource);
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  OrtStatus *failed = address != NULL ? NULL : dml->api->CreateGPUAllocationFromD3DResource(resource, handle);
  if (failed != NULL) {
    free(made);
    iobind__com_release(resource);
    return iobind__ort_fail(api, failed, error, "a resource on '%s'", device->spec);
  }
  *made = (iobind__dml_buffer){.handle = *handle, .resource = resource, .bytes = bytes, .users = 1};
  made->next = dml->buffers;
  dml->buffers = made;
  return IOBIND_OK;
}

static iobind_status keep(iobind_device *device, d3d12_resource *resource, void *address, size_t bytes, void **handle,
                          iobind_error *error) {
  iobind__dml *dml = iobind__dml_of(device);
  pthread_mutex_lock(&dml->mutex);
  iobind_status status = keep_locked(device, resource, address, bytes, handle, error);
  pthread_mutex_unlock(&dml->mutex);
  return status;
}

static void unwrap(iobind_device *device, void *handle) {
  iobind__dml *dml = iobind__dml_of(device);
  pthread_mutex_lock(&dml->mutex);
  iobind__dml_buffer **link = find_link(dml, handle);
  iobind__dml_buffer *gone = *link != NULL && --(*link)->users == 0 ? *link : NULL;
  if (gone != NULL) {
    *link = gone->next;
  }
  pthread_mutex_unlock(&dml->mutex);
  if (gone == NULL) {
    return;
  }
  OrtStatus *failed = gone->bytes > 0 ? NULL : dml->api->FreeGPUAllocation(gone->handle);
  iobind__ort_ignore(IOBIND__API(device->runtime), failed);
  iobind__com_release(gone->resource);
  free(gone);
}

/* A reference to the resource is held until it is unwrapped. */
static iobind_status wrap(iobind_device *device, void *resource, size_t bytes, void **handle, iobind_error *error) {
  iobind__dml *dml = iobind__dml_of(device);
  IOBIND__TRY(iobind__dml_open(device, error));
  if (resource == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "data: expected an ID3D12Resource, got NULL");
  }
  IOBIND__TRY(iobind__d3d12_check_buffer(dml->d3d12.device, resource, bytes, error));
  /* one handle for each resource, so that two tensors of it are found to overlap */
  pthread_mutex_lock(&dml->mutex);
  iobind__dml_buffer *known = dml->buffers;
  while (known != NULL && known->resource != resource) {
    known = known->next;
  }
  iobind_status status = IOBIND_OK;
  if (known != NULL) {
    known->users++;
    *handle = known->handle;
  } else {
    iobind__com_retain(resource);
    status = keep_locked(device, resource, NULL, 0, handle, error);
  }
  pthread_mutex_unlock(&dml->mutex);
  return status;
}

static iobind_status attach(iobind_device *device, OrtSession *session, iobind__attachment **attachment, iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  iobind__dml *dml = iobind__dml_of(device);
  iobind__dml_lender *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  OrtStatus *failed = api->CreateAllocator(session, dml->info, &made->allocator);
  if (failed != NULL) {
    free(made);
    return iobind__ort_fail(api, failed, error, "allocator of '%s'", device->spec);
  }
  made->base.device = device;
  pthread_mutex_lock(&dml->mutex);
  made->next = dml->lenders;
  dml->lenders = made;
  pthread_mutex_unlock(&dml->mutex);
  *attachment = &made->base;
  return IOBIND_OK;
}

static void detach(iobind__attachment *attachment) {
  iobind__dml_lender *gone = (iobind__dml_lender *)attachment;
  iobind__dml *dml = iobind__dml_of(attachment->device);
  pthread_mutex_lock(&dml->mutex);
  iobind__dml_lender **link = &dml->lenders;
  while (*link != gone) {
    link = &(*link)->next;
  }
  *link = gone->next;
  pthread_mutex_unlock(&dml->mutex);
  IOBIND__API(attachment->device->runtime)->ReleaseAllocator(gone->allocator);
  free(gone);
}

/* The resource of a handle, with a reference for the caller. */
static iobind_status find(iobind_device *device, void *handle, d3d12_resource **resource, iobind_error *error) {
  iobind__dml *dml = iobind__dml_of(device);
  *resource = NULL;
  pthread_mutex_lock(&dml->mutex);
  const iobind__dml_buffer *known = *find_link(dml, handle);
  if (known != NULL) {
    *resource = known->resource;
    iobind__com_retain(*resource);
  }
  /* an allocator refuses handles of other allocators */
  for (const iobind__dml_lender *one = dml->lenders; one != NULL && *resource == NULL; one = one->next) {
    OrtStatus *refused = dml->api->GetD3D12ResourceFromAllocation(one->allocator, handle, (void **)resource);
    if (refused != NULL) {
      IOBIND__API(device->runtime)->ReleaseStatus(refused);
      *resource = NULL;
    }
  }
  pthread_mutex_unlock(&dml->mutex);
  return *resource != NULL
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INTERNAL, "'%s': the resource of a tensor is unknown", device->spec);
}

/* The host buffer of iobind that contains an address, with a reference for the caller, and the offset in it. NULL: other
 * memory. */
static d3d12_resource *find_host(iobind_device *device, const void *address, uint64_t *offset) {
  iobind__dml *dml = iobind__dml_of(device);
  d3d12_resource *found = NULL;
  uintptr_t wanted = (uintptr_t)address;
  pthread_mutex_lock(&dml->mutex);
  for (const iobind__dml_buffer *one = dml->buffers; one != NULL && found == NULL; one = one->next) {
    uintptr_t start = (uintptr_t)one->handle;
    if (one->bytes > 0 && wanted >= start && wanted - start < one->bytes) {
      found = one->resource;
      iobind__com_retain(found);
      *offset = wanted - start;
    }
  }
  pthread_mutex_unlock(&dml->mutex);
  return found;
}

/* ---- the allocators ---- */

static iobind_status allocate_host(iobind_device *device, size_t bytes, void **data, iobind_error *error) {
  d3d12_resource *resource;
  void *address;
  IOBIND__TRY(iobind__d3d12_make_host_buffer(iobind__dml_of(device)->d3d12.device, bytes, &resource, &address, error));
  return keep(device, resource, address, bytes == 0 ? 1 : bytes, data, error);
}

static void *ORT_CALL allocate(OrtAllocator *self, size_t bytes) {
  const iobind__dml_allocator *own = (const iobind__dml_allocator *)self;
  d3d12_resource *resource;
  void *data = NULL;
  if (own->memory == IOBIND_MEMORY_HOST_ACCESSIBLE) {
    return allocate_host(own->device, bytes, &data, NULL) == IOBIND_OK ? data : NULL;
  }
  if (iobind__d3d12_make_buffer(iobind__dml_of(own->device)->d3d12.device, bytes, &resource, NULL) != IOBIND_OK) {
    return NULL;
  }
  return keep(own->device, resource, NULL, 0, &data, NULL) == IOBIND_OK ? data : NULL;
}

static void ORT_CALL release(OrtAllocator *self, void *data) {
  if (data != NULL) {
    unwrap(((const iobind__dml_allocator *)self)->device, data);
  }
}

static const OrtMemoryInfo *ORT_CALL describe(const OrtAllocator *self) {
  const iobind__dml_allocator *own = (const iobind__dml_allocator *)self;
  return own->device->places[own->memory].info;
}

static iobind_status get_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error) {
  iobind_device *device = place->device;
  IOBIND__TRY(iobind__dml_open(device, error));
  iobind__dml_allocator *own = &iobind__dml_of(device)->allocators[place->memory];
  /* version 1: ORT uses nothing but these three */
  *own = (iobind__dml_allocator){
      .base = {.version = 1, .Alloc = allocate, .Free = release, .Info = describe}, .device = device, .memory = place->memory};
  *allocator = &own->base;
  return IOBIND_OK;
}

/* ---- copies ---- */

/* One side of a copy. */
typedef struct copy_side {
  d3d12_resource *resource; /* a reference is held */
  uint64_t offset;
  void *staging; /* a host buffer for this copy, if the memory is pageable; NULL: none */
} copy_side;

static void free_side(iobind_device *device, copy_side *side) {
  iobind__com_release(side->resource);
  if (side->staging != NULL) {
    unwrap(device, side->staging);
  }
}

static iobind_status find_side(iobind_device *device, const iobind__place *place, void *data, size_t bytes, copy_side *side,
                               iobind_error *error) {
  *side = (copy_side){NULL, 0, NULL};
  if (!place->host) {
    return find(device, data, &side->resource, error);
  }
  side->resource = find_host(device, data, &side->offset);
  if (side->resource != NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(allocate_host(device, bytes, &side->staging, error));
  side->resource = find_host(device, side->staging, &side->offset);
  return IOBIND_OK;
}

/* Submit, and wait for the copies if there is no stream, or if `waits`. */
static iobind_status submit(iobind_device *device, const iobind__buffer_copy *copies, size_t count, iobind_stream *stream,
                            bool waits, iobind_error *error) {
  uint64_t value;
  if (stream != NULL) {
    IOBIND__TRY(iobind__dml_stream_copy(stream, copies, count, error));
    return waits ? iobind__stream_drain(stream, error) : IOBIND_OK;
  }
  IOBIND__TRY(iobind__lane_copy(iobind__dml_of(device)->lane, copies, count, &value, error));
  return iobind__lane_wait(iobind__dml_of(device)->lane, value, error);
}

static iobind_status copy(iobind_device *device, const iobind__transfer *const *transfers, size_t count, iobind_stream *given,
                          bool *unknown, iobind_error *error) {
  iobind_stream *stream =
      given != NULL && given->device == device ? given : NULL; /* the stream of another device cannot order the copies */
  *unknown = false;
  iobind__buffer_copy copies[IOBIND__COPY_BATCH];
  copy_side from[IOBIND__COPY_BATCH] = {{NULL, 0, NULL}};
  copy_side to[IOBIND__COPY_BATCH] = {{NULL, 0, NULL}};
  bool waits = false;
  IOBIND__TRY(iobind__dml_open(device, error));
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < count && status == IOBIND_OK; i++) {
    const iobind__transfer *one = transfers[i];
    void *source = (void *)(uintptr_t)one->source_data; /* only read */
    status = find_side(device, one->from, source, one->bytes, &from[i], error);
    status = status == IOBIND_OK ? find_side(device, one->to, one->target_data, one->bytes, &to[i], error) : status;
    if (status == IOBIND_OK) {
      waits = waits || from[i].staging != NULL || to[i].staging != NULL;
      copies[i] = (iobind__buffer_copy){to[i].resource, from[i].resource, to[i].offset, from[i].offset, one->bytes};
      if (from[i].staging != NULL) {
        memcpy(from[i].staging, source, one->bytes);
      }
    }
  }
  status = status == IOBIND_OK ? submit(device, copies, count, stream, waits, error) : status;
  for (size_t i = 0; i < count; i++) {
    if (status == IOBIND_OK && to[i].staging != NULL) {
      memcpy(transfers[i]->target_data, to[i].staging, transfers[i]->bytes);
    }
    free_side(device, &from[i]);
    free_side(device, &to[i]);
  }
  return status;
}

static iobind_status wait_for_all(iobind_device *device, iobind_error *error) {
  uint64_t value;
  if (!atomic_load(&iobind__dml_of(device)->open)) {
    return IOBIND_OK; /* nothing was submitted */
  }
  IOBIND__TRY(iobind__lane_leave_compute(iobind__dml_of(device)->lane, &value, error));
  return iobind__lane_wait(iobind__dml_of(device)->lane, value, error);
}

static iobind_status get_native(iobind_device *device, void *handle, iobind_native *native, iobind_error *error) {
  d3d12_resource *resource;
  if (handle == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "a tensor of 0 bytes has no resource");
  }
  IOBIND__TRY(find(device, handle, &resource, error));
  const iobind_native full = {.kind = IOBIND_NATIVE_D3D12, .handle = resource};
  iobind_status status = IOBIND__INFO_WRITE(native, &full, "tensor_get_native", error);
  if (status != IOBIND_OK) {
    iobind__com_release(resource);
  }
  return status;
}

const iobind__driver iobind__direct3d_driver = {
    .allocator = get_allocator,
    .allocates_whole = true,
    .copy = copy,
    .wait = wait_for_all,
    .wrap = wrap,
    .unwrap = unwrap,
    .get_native = get_native,
    .attach = attach,
    .detach = detach,
    .streams = &iobind__dml_stream,
    .use_event = iobind__dml_use_fence,
};
