#include "shared/clock.h"

#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

#include "shared/number.h"

/* vdev_get of the virtual accelerator's library; NULL: the process has not loaded it. The library does not exist for
 * Windows. */
static void find_statistics(tool_clock *clock) {
#ifndef _WIN32
  void *library = dlopen("libiobind_vdev.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return;
  void *symbol = dlsym(library, "vdev_get");
  memcpy(&clock->read, &symbol, sizeof clock->read); /* ISO C converts no object pointer to a function pointer */
  dlclose(library);                                  /* ONNX Runtime keeps it loaded */
#else
  (void)clock;
#endif
}

tool_clock clock_of(const iobind_device *device) {
  tool_clock clock = {0};
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (iobind_device_get_info(device, &info, NULL) != IOBIND_OK) return clock;
  if (strcmp(info.ep_name, "VirtualDeviceExecutionProvider") != 0) return clock;
  clock.device = (int)info.ordinal;
  find_statistics(&clock);
  if (clock.read != NULL && clock.read(clock.device, "clock_is_virtual") != 1) clock.read = NULL;
  return clock;
}

uint64_t clock_now(const tool_clock *clock) {
  return clock->read == NULL ? number_now() : (uint64_t)clock->read(clock->device, "time_ns");
}

clock_work clock_read_work(const tool_clock *clock) {
  if (clock->read == NULL) return (clock_work){0};
  return (clock_work){(uint64_t)clock->read(clock->device, "h2d_ns"), (uint64_t)clock->read(clock->device, "kernels_ns"),
                      (uint64_t)clock->read(clock->device, "d2h_ns")};
}
