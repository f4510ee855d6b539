/* The tables of src/d3d12/com.h beside mingw-w64's headers, when it is compiled. mingw-w64 has none of DirectML's. */
#define COBJMACROS
#include <d3d12.h>
#include <dxgi1_4.h>
#include <stddef.h>

#include "d3d12/com.h"

#define SLOT(ours, theirs, name) _Static_assert(offsetof(ours, name) == offsetof(theirs##Vtbl, name), #theirs "::" #name)

SLOT(d3d_object_table, IUnknown, AddRef);
SLOT(d3d_object_table, IUnknown, Release);
SLOT(d3d12_device_table, ID3D12Device, CreateCommandQueue);
SLOT(d3d12_device_table, ID3D12Device, CreateCommandAllocator);
SLOT(d3d12_device_table, ID3D12Device, CreateCommandList);
SLOT(d3d12_device_table, ID3D12Device, CreateCommittedResource);
SLOT(d3d12_device_table, ID3D12Device, CreateFence);
SLOT(d3d12_device_table, ID3D12Device, GetDeviceRemovedReason);
SLOT(d3d12_device_table, ID3D12Device, GetAdapterLuid);
SLOT(d3d12_resource_table, ID3D12Resource, GetDevice);
SLOT(d3d12_resource_table, ID3D12Resource, Map);
SLOT(d3d12_resource_table, ID3D12Resource, GetDesc);
SLOT(d3d12_resource_table, ID3D12Resource, GetHeapProperties);
SLOT(d3d12_queue_table, ID3D12CommandQueue, GetDevice);
SLOT(d3d12_queue_table, ID3D12CommandQueue, ExecuteCommandLists);
SLOT(d3d12_queue_table, ID3D12CommandQueue, Signal);
SLOT(d3d12_queue_table, ID3D12CommandQueue, Wait);
SLOT(d3d12_queue_table, ID3D12CommandQueue, GetDesc);
SLOT(d3d12_fence_table, ID3D12Fence, GetDevice);
SLOT(d3d12_fence_table, ID3D12Fence, GetCompletedValue);
SLOT(d3d12_fence_table, ID3D12Fence, SetEventOnCompletion);
SLOT(d3d12_allocator_table, ID3D12CommandAllocator, Reset);
SLOT(d3d12_list_table, ID3D12GraphicsCommandList, Close);
SLOT(d3d12_list_table, ID3D12GraphicsCommandList, Reset);
SLOT(d3d12_list_table, ID3D12GraphicsCommandList, CopyBufferRegion);
SLOT(dxgi_factory_table, IDXGIFactory4, EnumAdapterByLuid);
_Static_assert(sizeof(d3d12_heap) == sizeof(D3D12_HEAP_PROPERTIES), "a heap");
_Static_assert(sizeof(d3d12_resource_desc) == sizeof(D3D12_RESOURCE_DESC), "a resource");
_Static_assert(offsetof(d3d12_resource_desc, flags) == offsetof(D3D12_RESOURCE_DESC, Flags), "a resource");
_Static_assert(offsetof(d3d12_resource_desc, format) == offsetof(D3D12_RESOURCE_DESC, Format), "a resource");
_Static_assert(sizeof(d3d12_queue_desc) == sizeof(D3D12_COMMAND_QUEUE_DESC), "a queue");
