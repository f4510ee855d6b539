/* Windows' own Direct3D, also Wine's. */
#include <stdio.h>
#include <windows.h>

#include "native.h"

static const d3d_guid device_id = {0x189819f1, 0x1db6, 0x4b57, {0xbe, 0x54, 0x18, 0x21, 0x33, 0x9b, 0x85, 0xf7}};
static const d3d_guid device5_id = {0x8b4f173b, 0x2fea, 0x4b80, {0x8f, 0x58, 0x43, 0x07, 0x19, 0x1a, 0xb9, 0x5d}};

void native_options(iobind_runtime_options *options) {
  (void)options; /* ORT lies beside the program */
}

static HRESULT WINAPI no_meta_commands(void *self, UINT *count, void *descs) {
  (void)self, (void)descs;
  *count = 0;
  return 0;
}

/* Wine's device says of this function of ID3D12Device5 that it is not implemented, and DirectML gives up. No meta commands is a true
 * answer. All devices share the table. */
static void answer_for_wine(d3d12_device *device) {
  enum { ENUMERATE_META_COMMANDS = 59 };
  d3d_object *base = (d3d_object *)device;
  void *newer = NULL;
  if (GetProcAddress(GetModuleHandleA("ntdll.dll"), "wine_get_version") == NULL ||
      base->table->QueryInterface(base, &device5_id, &newer) < 0) {
    return;
  }
  void **slot = *(void ***)newer + ENUMERATE_META_COMMANDS;
  DWORD before;
  VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &before);
  *slot = (void *)(uintptr_t)no_meta_commands;
  native_release(newer);
}

d3d12_device *native_device(char why[256]) {
  typedef HRESULT(WINAPI * create_function)(void *, int, const d3d_guid *, void **);
  static d3d12_device *made;
  if (made != NULL) {
    return made;
  }
  LoadLibraryA("vulkan-1.dll"); /* and never let go: Wine's Direct3D would jump into it afterwards */
  HMODULE library = LoadLibraryA("d3d12.dll");
  create_function create = library == NULL ? NULL : (create_function)(void *)GetProcAddress(library, "D3D12CreateDevice");
  HRESULT result = create == NULL ? -1 : create(NULL, 0xb000, &device_id, (void **)&made);
  if (result < 0) {
    snprintf(why, 256, "D3D12CreateDevice: 0x%08lx", (unsigned long)result);
    return NULL;
  }
  answer_for_wine(made);
  return made;
}

d3d12_device *native_other_device(void) {
  return NULL;
}

dml_device *native_dml(d3d12_device *device) {
  (void)device;
  return NULL;
}

bool native_is_queued(void) {
  return true;
}
