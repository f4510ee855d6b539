#include "shared/launches.h"

#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

/* A function of a library that the process has loaded; NULL: it has not. Neither library exists for Windows. */
static void find(tool_launches *launches, const char *library_name, const char *name) {
#ifndef _WIN32
  void *library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return;
  void *symbol = dlsym(library, name);
  memcpy(&launches->read, &symbol, sizeof launches->read); /* ISO C converts no object pointer to a function pointer */
  dlclose(library);                                        /* ONNX Runtime keeps it loaded */
#else
  (void)launches, (void)library_name, (void)name;
#endif
}

tool_launches launches_of(const iobind_device *device) {
  tool_launches launches = {0};
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (device == NULL || iobind_device_get_info(device, &info, NULL) != IOBIND_OK) return launches;
  launches.device = (int)info.ordinal;
  launches.is_cuda = strcmp(info.ep_name, "CUDAExecutionProvider") == 0;
  if (launches.is_cuda) {
    find(&launches, "libcudart.so.13", "vcuda_get");
  } else if (strcmp(info.ep_name, "VirtualDeviceExecutionProvider") == 0) {
    find(&launches, "libiobind_vdev.so", "vdev_get");
  }
  return launches;
}

int64_t launches_now(const tool_launches *launches) {
  int64_t (*read)(int, const char *) = launches->read;
  int device = launches->device;
  if (read == NULL) return -1;
  if (launches->is_cuda) return read(device, "launches") - read(device, "graph_kernels") + read(device, "graph_launches");
  return read(device, "kernels") - read(device, "graph_launches") + read(device, "graph_replays");
}
