/* Software adapters on a machine without a GPU, for IOBIND_RUNTIME_SOFTWARE_DEVICES. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "support/library.h"

static bool machine_has_gpu(void) {
  DIR *directory = opendir("/sys/class/drm");
  bool found = false;
  if (directory != NULL) {
    for (struct dirent *entry; !found && (entry = readdir(directory)) != NULL;) {
      found = strncmp(entry->d_name, "card", 4) == 0 && isdigit((unsigned char)entry->d_name[4]);
    }
    closedir(directory);
  }
  return found;
}

/* The driver that scripts/get-vulkan-driver puts into the runtime folder. */
static bool use_vulkan_driver(const char *own_folder, const char *below) {
  iobind__text path = {0};
  iobind__text_add(&path, "%s%s/vulkan/vk_swiftshader_icd.json", own_folder, below);
  bool there = !path.failed && iobind__file_exists(path.data);
  if (there) {
    setenv("VK_DRIVER_FILES", path.data, 0);
  }
  iobind__text_free(&path);
  return there;
}

void iobind__software_devices_enable(iobind_runtime *runtime) {
  if (machine_has_gpu()) {
    return;
  }
  setenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1", 0);
  setenv("XDG_RUNTIME_DIR", "/tmp", 0); /* without it the driver complains on stderr, though it needs none */
  if (getenv("VK_DRIVER_FILES") != NULL || getenv("VK_ICD_FILENAMES") != NULL) {
    return;
  }
  char *own = iobind__library_own_folder();
  if (own != NULL && !use_vulkan_driver(own, "/iobind") && !use_vulkan_driver(own, "/../lib/iobind")) {
    iobind__log_line(runtime->log, IOBIND_LOG_INFO, "iobind: no software Vulkan driver in the runtime folder");
  }
  free(own);
}
