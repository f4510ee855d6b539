/* Software adapters on a machine without a GPU, for IOBIND_RUNTIME_SOFTWARE_DEVICES. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "support/system.h"

/* Known only on Linux. On other systems the answer is true, so that nothing is enabled. */
static bool machine_has_gpu(void) {
  char **names = NULL;
  bool found = !iobind__directory_exists("/sys/class") || !iobind__directory_list("/sys/class/drm", &names);
  for (size_t i = 0; names != NULL && names[i] != NULL && !found; i++) {
    found = strncmp(names[i], "card", 4) == 0 && isdigit((unsigned char)names[i][4]);
  }
  iobind__directory_free(names);
  return found;
}

static bool use_driver(const iobind__software *software, const char *own_directory, const char *below) {
  iobind__text path = {0};
  iobind__text_add(&path, "%s%s/%s", own_directory, below, software->driver);
  bool there = !path.failed && iobind__file_exists(path.data);
  if (there) {
    iobind__environment_default(software->driver_variables[0], path.data);
  }
  iobind__text_free(&path);
  return there;
}

/* Use the software driver of the runtime directory, unless the environment names one. */
static void find_driver(const iobind_runtime *runtime, const iobind__ep *ep) {
  const iobind__software *software = &ep->software;
  if (iobind__environment_has(software->driver_variables[0]) || iobind__environment_has(software->driver_variables[1])) {
    return;
  }
  char *own = iobind__library_own_directory();
  if (own != NULL && !use_driver(software, own, "/iobind") && !use_driver(software, own, "/../lib/iobind")) {
    iobind__log_line(runtime->log, IOBIND_LOG_INFO, "iobind: no software driver for '%s' in the runtime directory", ep->name);
  }
  free(own);
}

void iobind__software_devices_enable(iobind_runtime *runtime) {
  if (machine_has_gpu()) {
    return;
  }
  iobind__environment_default("XDG_RUNTIME_DIR", "/tmp"); /* without it drivers print a warning */
  const iobind__ep *ep;
  for (size_t i = 0; (ep = iobind__ep_at(i)) != NULL; i++) {
    if (ep->software.variable != NULL) {
      iobind__environment_default(ep->software.variable, "1");
      find_driver(runtime, ep);
    }
  }
}
