/* Settings of the virtual accelerator: names and values from EP options, the environment and vdev_set. */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

static const char *const names[] = {"devices",     "vendor_id",   "device_id",  "hardware",     "metadata",  "reserve",
                                    "mem_limit",   "clock",       "h2d_gbps",   "latency_us",   "race",      "poison",
                                    "trace_file",  "deny",        "fail_alloc", "fail_pinned",  "fail_copy", "fail_compute",
                                    "fail_stream", "delay_alloc", "delay_copy", "delay_compute"};
enum { NAMES = sizeof names / sizeof names[0] };

/* Up to twice the longest text that a setting accepts. */
static char *take_long_text(bytes *source) {
  bool twice = take_bool(source);
  char *half = take_text(source, 255);
  size_t length = strlen(half);
  char *whole = malloc(2 * length + 1);
  CHECK(whole != NULL);
  memcpy(whole, half, length);
  memcpy(whole + length, half, length);
  whole[twice ? 2 * length : length] = 0;
  free(half);
  return whole;
}

static void check_bounds(const vdev_settings *settings) {
  CHECK(settings->devices >= 1 && settings->devices <= VDEV_MAX_DEVICES && settings->mem_limit >= 0);
  CHECK(settings->upload_rate >= 0 && settings->latency_ns >= 0 && settings->latency_ns <= VDEV_LONGEST_NS);
  CHECK(memchr(settings->deny, 0, sizeof settings->deny) != NULL);
  const char *at = settings->metadata;
  char key[sizeof settings->metadata];
  char value[sizeof settings->metadata];
  while (*at != 0) {
    CHECK(vdev_metadata_next(&at, key, value, sizeof key));
    CHECK(key[0] != 0 && strpbrk(key, "=,") == NULL && strchr(value, ',') == NULL);
  }
  for (int site = 0; site < VDEV_SITES; site++) {
    CHECK(settings->faults.fail[site].countdown >= 0 && settings->faults.delay[site].delay_ns >= 0);
    CHECK(memchr(settings->faults.fail[site].name, 0, sizeof settings->faults.fail[site].name) != NULL);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  vdev_settings settings;
  vdev_settings_default(&settings);
  while (source.left > 0) {
    bool change = take_bool(&source);
    char *name = take_word(&source, names, NAMES, 40);
    char *value = take_long_text(&source);
    char reason[VDEV_TEXT] = "";
    vdev_settings before = settings;
    bool set =
        change ? vdev_settings_change(&settings, name, value, reason) : vdev_settings_set(&settings, name, value, reason);
    CHECK(set == (reason[0] == 0) && memchr(reason, 0, sizeof reason) != NULL);
    CHECK(set || memcmp(&before, &settings, sizeof settings) == 0);
    check_bounds(&settings);
    const char *const types[] = {name, value};
    const vdev_subject subject = {.site = (vdev_site)(take_byte(&source) % VDEV_SITES),
                                  .what = name,
                                  .bytes = take_dim(&source),
                                  .names = types,
                                  .name_count = 2};
    vdev_effect effect = {.delay_ns = -1};
    bool fails = vdev_fault_strikes(&settings.faults, &subject, &effect);
    CHECK(fails ? effect.delay_ns == 0 && !effect.fails_late : effect.delay_ns >= 0);
    free(name);
    free(value);
  }
  return 0;
}
