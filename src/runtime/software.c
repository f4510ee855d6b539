/* Software adapters on a machine without a GPU, for IOBIND_RUNTIME_SOFTWARE_DEVICES. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "support/system.h"

/* Only Linux tells; on other systems, and without memory, nothing is switched on. */
static bool machine_has_gpu(void) {
  char **names = NULL;
  bool found = !iobind__directory_exists("/sys/class") || !iobind__directory_list("/sys/class/drm", &names);
  for (size_t i = 0; names != NULL && names[i] != NULL && !found; i++) {
    found = strncmp(names[i], "card", 4) == 0 && isdigit((unsigned char)names[i][4]);
  }
  iobind__directory_free(names);
  return found;
}

/* The driver that scripts/get-vulkan-driver puts into the runtime directory. */
static bool use_vulkan_driver(const char *own_directory, const char *below) {
  iobind__text path = {0};
  iobind__text_add(&path, "%s%s/vulkan/vk_swiftshader_icd.json", own_directory, below);
  bool there = !path.failed && iobind__file_exists(path.data);
  if (there) {
    iobind__environment_default("VK_DRIVER_FILES", path.data);
  }
  iobind__text_free(&path);
  return there;
}

void iobind__software_devices_enable(iobind_runtime *runtime) {
  if (machine_has_gpu()) {
    return;
  }
  const iobind__ep *ep;
  for (size_t i = 0; (ep = iobind__ep_at(i)) != NULL; i++) {
    if (ep->software_variable != NULL) {
      iobind__environment_default(ep->software_variable, "1");
    }
  }
  iobind__environment_default("XDG_RUNTIME_DIR", "/tmp"); /* the driver complains on stderr without it */
  if (iobind__environment_has("VK_DRIVER_FILES") || iobind__environment_has("VK_ICD_FILENAMES")) {
    return;
  }
  char *own = iobind__library_own_directory();
  if (own != NULL && !use_vulkan_driver(own, "/iobind") && !use_vulkan_driver(own, "/../lib/iobind")) {
    iobind__log_line(runtime->log, IOBIND_LOG_INFO, "iobind: no software Vulkan driver in the runtime directory");
  }
  free(own);
}
