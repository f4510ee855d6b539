/* Buffers, which are the memory of tensors. */
#include <stdlib.h>

#include "d3d12/d3d12.h"
#include "support/system.h"

static const d3d_guid resource_id = {0x696442be, 0xa72e, 0x4059, {0xbc, 0x79, 0x5b, 0x5c, 0x98, 0x04, 0x0f, 0xad}};

/* DirectML reads and writes units of four bytes. */
static uint64_t width_for(size_t bytes) {
  return bytes == 0 ? 4 : ((uint64_t)bytes + 3) / 4 * 4;
}

static iobind_status make(d3d12_device *device, const d3d12_heap *heap, int32_t flags, size_t bytes, d3d12_resource **buffer,
                          iobind_error *error) {
  const d3d12_resource_desc desc = {.dimension = D3D12_BUFFER,
                                    .width = width_for(bytes),
                                    .height = 1,
                                    .depth = 1,
                                    .mip_levels = 1,
                                    .sample_count = 1,
                                    .layout = D3D12_ROW_MAJOR,
                                    .flags = flags};
  *buffer = NULL;
  return iobind__d3d12_check(
      device->table->CreateCommittedResource(device, heap, 0, &desc, 0, NULL, &resource_id, (void **)buffer), "a buffer",
      error);
}

iobind_status iobind__d3d12_make_buffer(d3d12_device *device, size_t bytes, d3d12_resource **buffer, iobind_error *error) {
  static const d3d12_heap heap = {.type = D3D12_HEAP_DEFAULT};
  return make(device, &heap, D3D12_UNORDERED_ACCESS, bytes, buffer, error);
}

/* A custom heap: buffers in an upload heap can only be copied from, and in a readback heap only to. */
iobind_status iobind__d3d12_make_host_buffer(d3d12_device *device, size_t bytes, d3d12_resource **buffer, void **data,
                                             iobind_error *error) {
  static const d3d12_heap heap = {.type = D3D12_HEAP_CUSTOM, .pages = D3D12_WRITE_BACK, .pool = D3D12_POOL_HOST};
  IOBIND__TRY(make(device, &heap, 0, bytes, buffer, error));
  iobind_status status = iobind__d3d12_check((*buffer)->table->Map(*buffer, 0, NULL, data), "a buffer in host memory", error);
  if (status != IOBIND_OK) {
    iobind__com_release(*buffer);
    *buffer = NULL;
  }
  return status;
}

/* Does it begin with the address of a table of functions in a library? A pointer to anything else hardly ever does. */
static bool is_object(const d3d12_resource *given) {
  if ((uintptr_t)given % sizeof(void *) != 0) {
    return false;
  }
  char *table = iobind__library_of(given->table);
  char *function = table == NULL
                       ? NULL
                       : iobind__library_of((const void *)(uintptr_t)((const d3d_object *)(const void *)given)->table->AddRef);
  bool is = function != NULL;
  free(table);
  free(function);
  return is;
}

iobind_status iobind__d3d12_check_buffer(const d3d12_device *device, d3d12_resource *buffer, size_t bytes,
                                         iobind_error *error) {
  static const char *const heaps[] = {"another", "a default", "an upload", "a readback", "a custom"};
  d3d12_resource_desc desc = {0};
  d3d12_heap heap = {0};
  int32_t flags = 0;
  if (!is_object(buffer)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "data: expected an ID3D12Resource, got another pointer: has an offset been added to it?");
  }
  buffer->table->GetDesc(buffer, &desc);
  if (desc.dimension != D3D12_BUFFER) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "the resource: expected a buffer, got a texture: copy it into a buffer");
  }
  if (!iobind__d3d12_owns(device, (d3d_result(*)(void *, const d3d_guid *, void **))(d3d_slot)buffer->table->GetDevice,
                          buffer)) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "the resource is of another ID3D12Device");
  }
  IOBIND__TRY(iobind__d3d12_check(buffer->table->GetHeapProperties(buffer, &heap, &flags), "the resource's heap", error));
  if (heap.type != D3D12_HEAP_DEFAULT) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "the resource: expected one in a default heap, got one in %s heap",
                        heaps[heap.type > 0 && heap.type <= D3D12_HEAP_CUSTOM ? heap.type : 0]);
  }
  if ((desc.flags & D3D12_UNORDERED_ACCESS) == 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "the resource: expected the flag D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS, got flags 0x%x",
                        (unsigned)desc.flags);
  }
  return desc.width >= width_for(bytes)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "the resource: expected %llu bytes or more, got %llu",
                            (unsigned long long)width_for(bytes), (unsigned long long)desc.width);
}
