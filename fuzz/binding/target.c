/* The fuzzer's bytes as a sequence of calls on bindings, eight bytes for each step. IOBIND_FUZZ_DEVICE names the device; the default
 * is the CPU. */
#include <stdlib.h>
#include <string.h>

#include "operations.h"

enum { MOST_STEPS = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *device = getenv("IOBIND_FUZZ_DEVICE");
  if (the_world->runtime == NULL && !world_start(device != NULL ? device : "cpu")) exit(77);
  world_begin();
  for (size_t i = 0; i < MOST_STEPS && size >= sizeof(step); i++, data += sizeof(step), size -= sizeof(step)) {
    step one;
    memcpy(&one, data, sizeof one);
    step_do(&one);
  }
  world_end();
  return 0;
}
