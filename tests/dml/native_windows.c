/* Windows' own Direct3D, also Wine's. */
#include <stdio.h>
#include <windows.h>

#include "native.h"

static const d3d_guid device_id = {0x189819f1, 0x1db6, 0x4b57, {0xbe, 0x54, 0x18, 0x21, 0x33, 0x9b, 0x85, 0xf7}};

void native_options(iobind_runtime_options *options) {
  (void)options; /* ORT lies beside the program */
}

d3d12_device *native_device(char why[256]) {
  typedef HRESULT(WINAPI * create_function)(void *, int, const d3d_guid *, void **);
  static d3d12_device *made;
  if (made != NULL) {
    return made;
  }
  HMODULE library = LoadLibraryA("d3d12.dll");
  create_function create = library == NULL ? NULL : (create_function)(void *)GetProcAddress(library, "D3D12CreateDevice");
  HRESULT result = create == NULL ? -1 : create(NULL, 0xb000, &device_id, (void **)&made);
  if (result < 0) {
    snprintf(why, 256, "D3D12CreateDevice: 0x%08lx", (unsigned long)result);
    return NULL;
  }
  return made;
}

d3d12_device *native_other_device(void) {
  return NULL;
}

static struct {
  d3d12_fence *fence;
  uint64_t value;
} later;

static DWORD WINAPI signal_later(void *unused) {
  (void)unused;
  Sleep(100); /* a call that does not wait has returned by then */
  native_signal(later.fence, later.value);
  return 0;
}

void native_signal_later(d3d12_fence *fence, uint64_t value) {
  later.fence = fence;
  later.value = value;
  CloseHandle(CreateThread(NULL, 0, signal_later, NULL, 0, NULL));
}

dml_device *native_dml(d3d12_device *device) {
  (void)device;
  return NULL;
}

bool native_is_queued(void) {
  return true;
}
