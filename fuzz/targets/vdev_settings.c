/* Settings of the virtual accelerator: names and values, as EP options, the environment and vdev_set give them. */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  vdev_settings settings;
  vdev_settings_default(&settings);
  while (source.left > 0) {
    size_t choice = take_byte(&source);
    const char *known = vdev_settings_name(choice % 32);
    char *name = known != NULL ? strdup(known) : take_text(&source, 40);
    char *value = take_text(&source, 255);
    vdev_settings before = settings;
    bool set = choice < 128 ? vdev_settings_set(&settings, name, value) : vdev_settings_change(&settings, name, value);
    CHECK(set || memcmp(&before, &settings, sizeof settings) == 0);
    CHECK(memchr(settings.deny, 0, sizeof settings.deny) != NULL &&
          memchr(settings.fail_name, 0, sizeof settings.fail_name) != NULL);
    CHECK(settings.upload_rate >= 0 && settings.latency_ns >= 0 && settings.mem_limit >= 0 && settings.devices >= 0);
    for (int site = 0; site < VDEV_SITES; site++) vdev_fault_hits(&settings, (vdev_site)site, take_dim(&source));
    free(name);
    free(value);
  }
  return 0;
}
