/* Memory of another process on Windows, by the HANDLE of a file mapping, which stands for a D3D12 resource: a second process imports it
 * on the virtual accelerator, and a run there reads one half and writes the other. No byte is copied.
 * usage: shared MODEL             the model is tests/models' "scale", y = 2 x
 *        shared MODEL HANDLE      the second process, which the first one starts */
#include <iobind/interop.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "ort.h"

enum { COUNT = 4, LATER = 256, PAGE = 4096, GRANULARITY = 65536, BYTES = GRANULARITY + PAGE };
static const int64_t dims[] = {COUNT};

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "shared: %s\n", error.message), 1
#define EXPECT(condition, what) \
  if (!(condition)) return fprintf(stderr, "shared: expected %s, got '%s'\n", #condition, what), 1

static iobind_external external_of(int32_t kind, HANDLE handle, size_t bytes) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  external.kind = kind;
  external.handle = handle;
  external.bytes = bytes;
  return external;
}

/* y = 2 x in the imported memory; what crossed the link is counted. */
static int run(iobind_runtime *runtime, iobind_device *device, const char *model, iobind_external_memory *memory) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *y;
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, model, &options, &session, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  TRY(iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, dims, 1, &x, &error));
  TRY(iobind_external_memory_view(memory, LATER, IOBIND_DTYPE_FLOAT32, dims, 1, &y, &error));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  TRY(iobind_binding_set_output(binding, 0, y, 0, &error));
  TRY(iobind_binding_run(binding, NULL, &error));
  TRY(iobind_device_get_counters(device, &counters, &error));
  EXPECT(counters.upload_bytes == 0 && counters.download_bytes == 0, "copies");
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  return 0;
}

static int refuse(iobind_device *device, HANDLE mapping) {
  static const struct {
    int32_t kind;
    size_t bytes;
    iobind_status status;
  } wrong[] = {{IOBIND_EXTERNAL_D3D12_HEAP, BYTES + 1, IOBIND_ERROR_RUNTIME},
               {IOBIND_EXTERNAL_D3D12_HEAP, 0, IOBIND_ERROR_INVALID_ARGUMENT},
               {IOBIND_EXTERNAL_FD_MEMORY, BYTES, IOBIND_ERROR_NOT_SUPPORTED}};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_external_memory *memory;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    iobind_external external = external_of(wrong[i].kind, mapping, wrong[i].bytes);
    EXPECT(iobind_external_memory_import(device, &external, &memory, &error) == wrong[i].status, error.message);
  }
  HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL); /* a HANDLE, but not of memory */
  iobind_external external = external_of(IOBIND_EXTERNAL_D3D12_RESOURCE, event, BYTES);
  EXPECT(iobind_external_memory_import(device, &external, &memory, &error) == IOBIND_ERROR_RUNTIME, error.message);
  EXPECT(strstr(error.message, "cannot be imported") != NULL, error.message);
  CloseHandle(event);
  for (int32_t kind = IOBIND_EXTERNAL_FD_MEMORY; kind <= IOBIND_EXTERNAL_D3D12_FENCE; kind++) {
    bool can =
        kind == IOBIND_EXTERNAL_WIN32_MEMORY || kind == IOBIND_EXTERNAL_D3D12_RESOURCE || kind == IOBIND_EXTERNAL_D3D12_HEAP;
    EXPECT(iobind_device_check_import(device, kind, &error) == (can ? IOBIND_OK : IOBIND_ERROR_NOT_SUPPORTED), error.message);
  }
  return 0;
}

static const OrtEpDevice *find_ep_device(const OrtApi *api, const OrtEnv *env) {
  const OrtEpDevice *const *all;
  size_t count;
  OrtStatus *failed = api->GetEpDevices(env, &all, &count);
  for (size_t i = 0; failed == NULL && i < count; i++) {
    if (strcmp(api->EpDevice_EpName(all[i]), "VirtualDeviceExecutionProvider") == 0) {
      return all[i];
    }
  }
  return NULL;
}

/* Two buffers in one mapping, which only ORT's own interface imports: the second one begins where a view can. */
static int import_parts(iobind_runtime *runtime, HANDLE mapping) {
  static const size_t good[] = {0, GRANULARITY};
  static const size_t wrong[] = {PAGE, GRANULARITY - PAGE, 1};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_ort ort = IOBIND_ORT_INIT;
  TRY(iobind_runtime_get_ort(runtime, &ort, &error));
  const OrtApi *api = ort.api;
  const OrtInteropApi *interop = api->GetInteropApi();
  const OrtEpDevice *ep_device = find_ep_device(api, ort.env);
  OrtExternalResourceImporter *importer;
  OrtExternalMemoryHandle *handles[2];
  EXPECT(ep_device != NULL, "none");
  EXPECT(interop->CreateExternalResourceImporterForDevice(ep_device, &importer) == NULL, "a failure");
  OrtExternalMemoryDescriptor part = {.version = ort.api_version,
                                      .handle_type = ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP,
                                      .native_handle = mapping,
                                      .size_bytes = PAGE};
  for (int i = 0; i < 2; i++) {
    part.offset_bytes = good[i];
    OrtStatus *failed = interop->ImportMemory(importer, &part, &handles[i]);
    EXPECT(failed == NULL, api->GetErrorMessage(failed));
  }
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    OrtExternalMemoryHandle *none;
    part.offset_bytes = wrong[i];
    OrtStatus *failed = interop->ImportMemory(importer, &part, &none);
    EXPECT(failed != NULL, "a part at any page");
    EXPECT(strstr(api->GetErrorMessage(failed), "expected a multiple of 65536") != NULL, api->GetErrorMessage(failed));
    api->ReleaseStatus(failed);
  }
  interop->ReleaseExternalMemoryHandle(handles[0]);
  interop->ReleaseExternalMemoryHandle(handles[1]);
  interop->ReleaseExternalResourceImporter(importer);
  return 0;
}

static int be_the_second(const char *model, HANDLE mapping) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_external_memory *memory;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &error));
  if (refuse(device, mapping) != 0 || import_parts(runtime, mapping) != 0) {
    return 1;
  }
  iobind_external external = external_of(IOBIND_EXTERNAL_D3D12_RESOURCE, mapping, BYTES);
  TRY(iobind_external_memory_import(device, &external, &memory, &error));
  CloseHandle(mapping); /* the memory stays */
  int failed = run(runtime, device, model, memory);
  iobind_external_memory_destroy(memory);
  iobind_runtime_destroy(runtime);
  return failed;
}

static DWORD start_second(const char *program, const char *model, HANDLE mapping) {
  char command[2048];
  STARTUPINFOA start = {.cb = sizeof start};
  PROCESS_INFORMATION second;
  DWORD status = 1;
  snprintf(command, sizeof command, "\"%s\" \"%s\" %lld", program, model, (long long)(intptr_t)mapping);
  if (!CreateProcessA(NULL, command, NULL, NULL, TRUE, 0, NULL, NULL, &start, &second)) {
    fprintf(stderr, "shared: '%s' cannot be started: %lu\n", command, GetLastError());
    return 1;
  }
  WaitForSingleObject(second.hProcess, INFINITE);
  GetExitCodeProcess(second.hProcess, &status);
  CloseHandle(second.hProcess);
  CloseHandle(second.hThread);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: shared MODEL\n"), 2;
  if (argc > 2) return be_the_second(argv[1], (HANDLE)(intptr_t)strtoll(argv[2], NULL, 10));
  SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
  HANDLE mapping = CreateFileMappingW(INVALID_HANDLE_VALUE, &inherited, PAGE_READWRITE, 0, BYTES, NULL);
  float *view = mapping == NULL ? NULL : MapViewOfFile(mapping, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, BYTES);
  EXPECT(view != NULL, "none");
  for (int i = 0; i < COUNT; i++) {
    view[i] = (float)(i + 1);
  }
  if (start_second(argv[0], argv[1], mapping) != 0) {
    return 1;
  }
  for (int i = 0; i < COUNT; i++) {
    EXPECT(view[LATER / sizeof(float) + (size_t)i] == 2 * (float)(i + 1), "another number");
  }
  printf("2 processes, right\n");
  return 0;
}
