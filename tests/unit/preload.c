/* preload DIRECTORY|- CUDA FLAGS: preload, and print which of NVIDIA's libraries are loaded, a path a line. With CUDA "ep", DIRECTORY is the
 * file of an EP library, and a runtime is created that registers it; here it need not load. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "iobind/iobind.h"

static int print_name(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  (void)context;
  const char *name = strrchr(info->dlpi_name, '/');
  name = name == NULL ? info->dlpi_name : name + 1;
  static const char *const stems[] = {"libcu", "libnvrtc"};
  for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
    if (strncmp(name, stems[i], strlen(stems[i])) == 0 && strstr(name, ".so.") != NULL) puts(info->dlpi_name);
  }
  return 0;
}

int main(int argc, char **argv) {
  iobind_error error = IOBIND_ERROR_INIT;
  if (argc != 4) return 2;
  if (strcmp(argv[2], "ep") == 0) {
    iobind_runtime *runtime;
    iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
    options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
    if (iobind_runtime_create(&options, &runtime, &error) != IOBIND_OK) return puts(error.message), 2;
    if (iobind_runtime_register_ep(runtime, NULL, argv[1], &error) == IOBIND_OK) return 3; /* it is none */
  } else {
    iobind_preload_options options = IOBIND_PRELOAD_OPTIONS_INIT;
    options.directory = strcmp(argv[1], "-") == 0 ? NULL : argv[1];
    options.cuda = (uint32_t)atoi(argv[2]);
    options.flags = (uint32_t)atoi(argv[3]);
    if (iobind_preload(&options, &error) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1;
  }
  dl_iterate_phdr(print_name, NULL);
  return 0;
}
