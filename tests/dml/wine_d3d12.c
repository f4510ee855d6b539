/* A d3d12.dll that stands before Wine's in the programs of tests/dml/road.sh, which it leaves as they are. It hands everything on, but for
 * one answer: Wine's device says of ID3D12Device5's EnumerateMetaCommands that it is not implemented, and DirectML gives up. No meta
 * commands is a true answer. */
#include <stdint.h>
#include <windows.h>

#include "d3d12/com.h"

typedef HRESULT(WINAPI *function)(void *, void *, void *, void *); /* none takes more; a call may hand on too many */

static function find(const char *name) {
  static HMODULE wine;
  if (wine == NULL) {
    LoadLibraryA("vulkan-1.dll"); /* and never let go: Wine's Direct3D would jump into it afterwards */
    wine = LoadLibraryA("C:\\windows\\system32\\d3d12.dll");
  }
  return wine == NULL ? NULL : (function)(uintptr_t)GetProcAddress(wine, name);
}

static HRESULT WINAPI no_meta_commands(void *self, UINT *count, void *descs) {
  (void)self, (void)descs;
  *count = 0;
  return 0;
}

/* All devices share the table. */
static void answer(d3d_object *device) {
  static const d3d_guid device5_id = {0x8b4f173b, 0x2fea, 0x4b80, {0x8f, 0x58, 0x43, 0x07, 0x19, 0x1a, 0xb9, 0x5d}};
  enum { ENUMERATE_META_COMMANDS = 59 };
  void *newer = NULL;
  DWORD before;
  if (device->table->QueryInterface(device, &device5_id, &newer) < 0) {
    return;
  }
  void **slot = *(void ***)newer + ENUMERATE_META_COMMANDS;
  VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &before);
  *slot = (void *)(uintptr_t)no_meta_commands;
  device->table->Release(newer);
}

#define HAND_ON(name)                                                                    \
  __declspec(dllexport) HRESULT WINAPI name(void *a, void *b, void *c, void *d);         \
  __declspec(dllexport) HRESULT WINAPI name(void *a, void *b, void *c, void *d) {        \
    function wines = find(#name);                                                        \
    return wines == NULL ? HRESULT_FROM_WIN32(ERROR_PROC_NOT_FOUND) : wines(a, b, c, d); \
  }
HAND_ON(D3D12GetDebugInterface)
HAND_ON(D3D12EnableExperimentalFeatures)
HAND_ON(D3D12SerializeRootSignature)
HAND_ON(D3D12SerializeVersionedRootSignature)
HAND_ON(D3D12CreateRootSignatureDeserializer)
HAND_ON(D3D12CreateVersionedRootSignatureDeserializer)

__declspec(dllexport) HRESULT WINAPI D3D12CreateDevice(void *adapter, void *level, const void *id, void **device);
__declspec(dllexport) HRESULT WINAPI D3D12CreateDevice(void *adapter, void *level, const void *id, void **device) {
  function wines = find("D3D12CreateDevice");
  HRESULT result =
      wines == NULL ? HRESULT_FROM_WIN32(ERROR_PROC_NOT_FOUND) : wines(adapter, level, (void *)(uintptr_t)id, (void *)device);
  if (result >= 0 && device != NULL) { /* NULL: only asked whether it could */
    d3d_object *made = *device;
    made->table->AddRef(made); /* and never let go: with its last device gone, Wine's Direct3D jumps into memory that is gone */
    answer(made);
  }
  return result;
}
