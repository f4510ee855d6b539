/* What does not depend on whose Direct3D it is. */
#include "native.h"

#include <stddef.h>

static const d3d_guid queue_id = {0x0ec870a6, 0x5d7e, 0x4c22, {0x8c, 0xfc, 0x5b, 0xaa, 0xe0, 0x76, 0x16, 0xed}};
static const d3d_guid fence_id = {0x0a753dcf, 0xc4d8, 0x4b91, {0xad, 0xf6, 0xbe, 0x5a, 0x60, 0xd9, 0x5a, 0x76}};
static const d3d_guid resource_id = {0x696442be, 0xa72e, 0x4059, {0xbc, 0x79, 0x5b, 0x5c, 0x98, 0x04, 0x0f, 0xad}};

d3d12_queue *native_queue(d3d12_device *device, int32_t type) {
  const d3d12_queue_desc desc = {.type = type};
  void *queue = NULL;
  return device->table->CreateCommandQueue(device, &desc, &queue_id, &queue) >= 0 ? queue : NULL;
}

d3d12_fence *native_fence(d3d12_device *device) {
  void *fence = NULL;
  return device->table->CreateFence(device, 0, 0, &fence_id, &fence) >= 0 ? fence : NULL;
}

void native_signal(d3d12_fence *fence, uint64_t value) {
  d3d_result (*signal)(d3d12_fence *, uint64_t) = (d3d_result(*)(d3d12_fence *, uint64_t))fence->table->slots_10[0];
  (void)signal(fence, value);
}

static d3d12_resource *make(d3d12_device *device, int32_t heap_type, const d3d12_resource_desc *desc) {
  const d3d12_heap heap = {.type = heap_type};
  void *resource = NULL;
  /* an upload heap's resources can only be read, a readback heap's only be copied to */
  int32_t state = heap_type == D3D12_HEAP_UPLOAD ? 0xac3 : heap_type == D3D12_HEAP_READBACK ? 0x400 : 0;
  return device->table->CreateCommittedResource(device, &heap, 0, desc, state, NULL, &resource_id, &resource) >= 0 ? resource
                                                                                                                   : NULL;
}

d3d12_resource *native_buffer(d3d12_device *device, int32_t heap, int32_t flags, uint64_t bytes) {
  const d3d12_resource_desc desc = {.dimension = D3D12_BUFFER,
                                    .width = bytes,
                                    .height = 1,
                                    .depth = 1,
                                    .mip_levels = 1,
                                    .sample_count = 1,
                                    .layout = D3D12_ROW_MAJOR,
                                    .flags = flags};
  return make(device, heap, &desc);
}

d3d12_resource *native_texture(d3d12_device *device) {
  enum { TEXTURE_2D = 3, RGBA8 = 28 };
  const d3d12_resource_desc desc = {
      .dimension = TEXTURE_2D, .width = 64, .height = 64, .depth = 1, .mip_levels = 1, .format = RGBA8, .sample_count = 1};
  return make(device, D3D12_HEAP_DEFAULT, &desc);
}

unsigned native_references(void *object) {
  d3d_object *com = object;
  com->table->AddRef(com);
  return com->table->Release(com);
}

void native_release(void *object) {
  d3d_object *com = object;
  if (com != NULL) {
    com->table->Release(com);
  }
}
