/* The part of Direct3D 12 that iobind uses, as C structs: each object begins with the address of its table of functions.
 * Windows' headers are not needed, so tests can use mocks of these objects on any system. tests/dml compares each slot with
 * mingw-w64's headers. */
#ifndef IOBIND_D3D12_COM_H
#define IOBIND_D3D12_COM_H

#include <stdint.h>

typedef int32_t d3d_result; /* an HRESULT: negative is a failure */
typedef void (*d3d_slot)(void);

typedef struct d3d_guid {
  uint32_t a;
  uint16_t b, c;
  uint8_t d[8];
} d3d_guid;

typedef struct d3d_luid {
  uint32_t low;
  int32_t high;
} d3d_luid;

/* The base of every object. */
typedef struct d3d_object {
  const struct d3d_object_table *table;
} d3d_object;
typedef struct d3d_object_table {
  d3d_result (*QueryInterface)(d3d_object *self, const d3d_guid *id, void **object);
  uint32_t (*AddRef)(d3d_object *self);
  uint32_t (*Release)(d3d_object *self);
} d3d_object_table;

enum {
  D3D12_BUFFER = 1,    /* a dimension */
  D3D12_ROW_MAJOR = 1, /* a layout */
  D3D12_UNORDERED_ACCESS = 4,
  D3D12_HEAP_DEFAULT = 1,
  D3D12_HEAP_UPLOAD = 2,
  D3D12_HEAP_READBACK = 3,
  D3D12_HEAP_CUSTOM = 4,
  D3D12_WRITE_BACK = 3, /* a CPU page property */
  D3D12_POOL_HOST = 1,
  D3D12_DIRECT = 0, /* this and the next two: types of queues and lists */
  D3D12_COMPUTE = 2,
  D3D12_COPY = 3,
};

typedef struct d3d12_heap {
  int32_t type, pages, pool;
  uint32_t creation_mask, visible_mask;
} d3d12_heap;

typedef struct d3d12_resource_desc {
  int32_t dimension;
  uint64_t alignment;
  uint64_t width;
  uint32_t height;
  uint16_t depth, mip_levels;
  int32_t format;
  uint32_t sample_count, sample_quality;
  int32_t layout;
  int32_t flags;
} d3d12_resource_desc;

typedef struct d3d12_queue_desc {
  int32_t type, priority, flags;
  uint32_t mask;
} d3d12_queue_desc;

typedef struct d3d12_device {
  const struct d3d12_device_table *table;
} d3d12_device;
typedef struct d3d12_resource {
  const struct d3d12_resource_table *table;
} d3d12_resource;
typedef struct d3d12_queue {
  const struct d3d12_queue_table *table;
} d3d12_queue;
typedef struct d3d12_fence {
  const struct d3d12_fence_table *table;
} d3d12_fence;
typedef struct d3d12_allocator {
  const struct d3d12_allocator_table *table;
} d3d12_allocator;
typedef struct d3d12_list {
  const struct d3d12_list_table *table;
} d3d12_list;
typedef struct dml_device {
  const struct dml_device_table *table;
} dml_device;
typedef struct dxgi_factory {
  const struct dxgi_factory_table *table;
} dxgi_factory;

/* In C, a method that returns a struct takes its address as the second argument. */
typedef struct d3d12_device_table {
  d3d_slot slots_0[8];
  d3d_result (*CreateCommandQueue)(d3d12_device *self, const d3d12_queue_desc *desc, const d3d_guid *id, void **queue);
  d3d_result (*CreateCommandAllocator)(d3d12_device *self, int32_t type, const d3d_guid *id, void **allocator);
  d3d_slot slots_10[2];
  d3d_result (*CreateCommandList)(d3d12_device *self, uint32_t mask, int32_t type, d3d12_allocator *allocator, void *pipeline,
                                  const d3d_guid *id, void **list);
  d3d_slot slots_13[14];
  d3d_result (*CreateCommittedResource)(d3d12_device *self, const d3d12_heap *heap, int32_t heap_flags,
                                        const d3d12_resource_desc *desc, int32_t state, const void *clear, const d3d_guid *id,
                                        void **resource);
  d3d_slot slots_28[8];
  d3d_result (*CreateFence)(d3d12_device *self, uint64_t value, int32_t flags, const d3d_guid *id, void **fence);
  d3d_result (*GetDeviceRemovedReason)(d3d12_device *self);
  d3d_slot slots_38[5];
  d3d_luid *(*GetAdapterLuid)(d3d12_device *self, d3d_luid *luid);
} d3d12_device_table;

typedef struct d3d12_resource_table {
  d3d_slot slots_0[7];
  d3d_result (*GetDevice)(d3d12_resource *self, const d3d_guid *id, void **device);
  d3d_result (*Map)(d3d12_resource *self, uint32_t part, const void *range, void **data);
  d3d_slot slots_9[1];
  d3d12_resource_desc *(*GetDesc)(d3d12_resource *self, d3d12_resource_desc *desc);
  d3d_slot slots_11[3];
  d3d_result (*GetHeapProperties)(d3d12_resource *self, d3d12_heap *heap, int32_t *flags);
} d3d12_resource_table;

typedef struct d3d12_queue_table {
  d3d_slot slots_0[7];
  d3d_result (*GetDevice)(d3d12_queue *self, const d3d_guid *id, void **device);
  d3d_slot slots_8[2];
  void (*ExecuteCommandLists)(d3d12_queue *self, uint32_t count, d3d12_list *const *lists);
  d3d_slot slots_11[3];
  d3d_result (*Signal)(d3d12_queue *self, d3d12_fence *fence, uint64_t value);
  d3d_result (*Wait)(d3d12_queue *self, d3d12_fence *fence, uint64_t value);
  d3d_slot slots_16[2];
  d3d12_queue_desc *(*GetDesc)(d3d12_queue *self, d3d12_queue_desc *desc);
} d3d12_queue_table;

typedef struct d3d12_fence_table {
  d3d_slot slots_0[7];
  d3d_result (*GetDevice)(d3d12_fence *self, const d3d_guid *id, void **device);
  uint64_t (*GetCompletedValue)(d3d12_fence *self);
  d3d_result (*SetEventOnCompletion)(d3d12_fence *self, uint64_t value, void *event); /* event NULL: blocks */
  d3d_slot slots_10[1];
} d3d12_fence_table;

typedef struct d3d12_allocator_table {
  d3d_slot slots_0[8];
  d3d_result (*Reset)(d3d12_allocator *self);
} d3d12_allocator_table;

typedef struct d3d12_list_table {
  d3d_slot slots_0[9];
  d3d_result (*Close)(d3d12_list *self);
  d3d_result (*Reset)(d3d12_list *self, d3d12_allocator *allocator, void *pipeline);
  d3d_slot slots_11[4];
  void (*CopyBufferRegion)(d3d12_list *self, d3d12_resource *to, uint64_t to_offset, d3d12_resource *from, uint64_t from_offset,
                           uint64_t bytes);
} d3d12_list_table;

/* IDMLDevice */
typedef struct dml_device_table {
  d3d_slot slots_0[16];
  d3d_result (*GetParentDevice)(dml_device *self, const d3d_guid *id, void **device);
} dml_device_table;

/* IDXGIFactory4 */
typedef struct dxgi_factory_table {
  d3d_slot slots_0[26];
  d3d_result (*EnumAdapterByLuid)(dxgi_factory *self, d3d_luid luid, const d3d_guid *id, void **adapter);
} dxgi_factory_table;

#endif
