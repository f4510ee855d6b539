#define _POSIX_C_SOURCE 200809L /* readlink */
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#include <unistd.h>
#endif

bool test_requires(const char *spec) {
  size_t length = strcspn(spec, ":/,");
  const char *list = getenv("IOBIND_REQUIRE");
  while (list != NULL && *list != '\0') {
    size_t name = strcspn(list, ",");
    if (name == length && strncmp(list, spec, length) == 0) {
      return true;
    }
    list += name;
    list += *list == ',';
  }
  return false;
}

#ifndef _WIN32 /* where only conformance runs, which finds everything by libiobind */
bool test_path(const char *below, char *path, size_t size) {
  char own[512];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  if (length <= 0) {
    return false;
  }
  own[length] = '\0';
  *strrchr(own, '/') = '\0';
  return snprintf(path, size, "%s/../%s", own, below) < (int)size;
}

const OrtApiBase *test_ort(char text[TEST_WHY]) {
  char path[TEST_WHY];
  const char *folder = getenv("ORT_NATIVE_LIB_PATH");
  bool fits = folder == NULL ? test_path("lib/iobind/onnxruntime/libonnxruntime.so", path, sizeof path)
                             : snprintf(path, sizeof path, "%s/libonnxruntime.so", folder) < (int)sizeof path;
  if (!fits) {
    snprintf(text, TEST_WHY, "the path of ORT is too long");
    return NULL;
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  OrtGetApiBaseFunction get_base = NULL;
  if (library != NULL) {
    *(void **)&get_base = dlsym(library, "OrtGetApiBase");
  }
  if (get_base == NULL) {
    snprintf(text, TEST_WHY, "%s", dlerror());
    return NULL;
  }
  return get_base();
}
#endif
