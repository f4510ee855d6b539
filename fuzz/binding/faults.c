#include "faults.h"

#include <dlfcn.h>
#include <stddef.h>

#include "vdev.h"
#include "world.h"

static int (*set)(int device, const char *name, const char *value);
static int64_t (*get)(int device, const char *name);
static int (*recover)(int device);
static int (*take_last_error)(void);

bool vcuda_is_here(void) {
  void *library = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return false;
  *(void **)&set = dlsym(library, "vcuda_set");
  *(void **)&get = dlsym(library, "vcuda_get");
  *(void **)&recover = dlsym(library, "vcuda_recover");
  *(void **)&take_last_error = dlsym(library, "cudaGetLastError");
  return set != NULL && get != NULL && recover != NULL && take_last_error != NULL;
}

bool device_set(const char *name, const char *value) {
  const int number = the_world->number;
  return (the_world->is_vcuda ? set(number, name, value) : vdev_set(number, name, value)) == 0;
}

int64_t vcuda_sum(const char *const *names) {
  int64_t sum = 0;
  for (; *names != NULL; names++) sum += get(the_world->number, *names);
  return sum;
}

int vcuda_take_error(void) {
  int error = recover(the_world->number);
  (void)take_last_error();
  return error;
}
