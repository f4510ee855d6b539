#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { NUMBER, RATE, TIME_US, CHOICE, TEXT_256, TEXT_64, FAULT, FAULT_ABOVE } kind;

static const char *const race_words[] = {"off", "count", "fail", NULL};
static const char *const clock_words[] = {"real", "virtual", NULL};
static const char *const hardware_words[] = {"gpu", "npu", NULL};

#define AT(field) offsetof(vdev_settings, field)
static const struct setting {
  const char *name;
  kind kind;
  size_t offset;
  const char *const *words;
} settings_list[] = {
    {"devices", NUMBER, AT(devices), NULL},
    {"vendor_id", NUMBER, AT(vendor_id), NULL},
    {"device_id", NUMBER, AT(device_id), NULL},
    {"hardware", CHOICE, AT(npu), hardware_words},
    {"mem_limit", NUMBER, AT(mem_limit), NULL},
    {"reserve", NUMBER, AT(reserve), NULL},
    {"clock", CHOICE, AT(virtual_clock), clock_words},
    {"h2d_gbps", RATE, AT(upload_rate), NULL},
    {"d2h_gbps", RATE, AT(download_rate), NULL},
    {"d2d_gbps", RATE, AT(local_rate), NULL},
    {"latency_us", TIME_US, AT(latency_ns), NULL},
    {"compute_us", TIME_US, AT(compute_ns), NULL},
    {"race", CHOICE, AT(race), race_words},
    {"poison", NUMBER, AT(poison), NULL},
    {"drop_weights", NUMBER, AT(drop_weights), NULL},
    {"trace", NUMBER, AT(trace), NULL},
    {"deny", TEXT_256, AT(deny), NULL},
    {"trace_file", TEXT_256, AT(trace_file), NULL},
    {"dump", TEXT_256, AT(dump), NULL},
    {"fail_name", TEXT_64, AT(fail_name), NULL},
    {"fail_alloc", FAULT, AT(faults[VDEV_FAIL_ALLOC]), NULL},
    {"fail_copy", FAULT, AT(faults[VDEV_FAIL_COPY]), NULL},
    {"fail_compute", FAULT, AT(faults[VDEV_FAIL_COMPUTE]), NULL},
    {"fail_stream", FAULT, AT(faults[VDEV_FAIL_STREAM]), NULL},
    {"fail_session", FAULT, AT(faults[VDEV_FAIL_SESSION]), NULL},
    {"fail_alloc_above", FAULT_ABOVE, AT(faults[VDEV_FAIL_ALLOC]), NULL},
    {"fail_copy_above", FAULT_ABOVE, AT(faults[VDEV_FAIL_COPY]), NULL},
};
enum { SETTING_COUNT = sizeof settings_list / sizeof settings_list[0] };

void vdev_settings_default(vdev_settings *settings) {
  memset(settings, 0, sizeof *settings);
  settings->devices = 1;
  settings->vendor_id = 0x1DEF;
  settings->device_id = 1;
  settings->reserve = (int64_t)8 << 30;
  settings->poison = 1;
}

const char *vdev_settings_name(size_t index) {
  return index < SETTING_COUNT ? settings_list[index].name : NULL;
}

static bool parse_number(const char *text, int64_t *number) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 0);
  if (errno != 0 || end == text || *end != '\0' || value < 0) {
    return false;
  }
  *number = value;
  return true;
}

/* A decimal number times `unit`. */
static bool parse_scaled(const char *text, double unit, int64_t *number) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (errno != 0 || end == text || *end != '\0' || !(value >= 0) || value * unit > 9e18) {
    return false;
  }
  *number = (int64_t)(value * unit + 0.5);
  return true;
}

static bool parse_choice(const char *text, const char *const *words, int64_t *number) {
  for (int64_t i = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], text) == 0) {
      *number = i;
      return true;
    }
  }
  return false;
}

/* "N": the n-th from now; "every:N"; "0": off. */
static bool parse_fault(const char *text, vdev_fault *fault) {
  bool every = strncmp(text, "every:", 6) == 0;
  int64_t n;
  if (!parse_number(every ? text + 6 : text, &n)) {
    return false;
  }
  fault->countdown = n;
  fault->every = every ? n : 0;
  return true;
}

bool vdev_settings_set(vdev_settings *settings, const char *name, const char *value) {
  for (size_t i = 0; i < SETTING_COUNT; i++) {
    const struct setting *setting = &settings_list[i];
    if (strcmp(setting->name, name) != 0) {
      continue;
    }
    void *field = (char *)settings + setting->offset;
    switch (setting->kind) {
      case NUMBER: return parse_number(value, field);
      case RATE: return parse_scaled(value, 1e9, field);
      case TIME_US: return parse_scaled(value, 1e3, field);
      case CHOICE: return parse_choice(value, setting->words, field);
      case FAULT: return parse_fault(value, field);
      case FAULT_ABOVE: return parse_number(value, &((vdev_fault *)field)->above);
      case TEXT_256:
      case TEXT_64: {
        size_t size = setting->kind == TEXT_256 ? 256 : 64;
        if (strlen(value) >= size) {
          return false;
        }
        memcpy(field, value, strlen(value) + 1);
        return true;
      }
    }
  }
  return false;
}

bool vdev_settings_change(vdev_settings *settings, const char *name, const char *value) {
  static const char *const fixed[] = {"devices", "vendor_id", "device_id", "hardware", "reserve"};
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
    if (strcmp(fixed[i], name) == 0) {
      return false;
    }
  }
  return vdev_settings_set(settings, name, value);
}

void vdev_settings_environment(vdev_settings *settings, void (*complain)(const char *name, const char *value)) {
  for (size_t i = 0; i < SETTING_COUNT; i++) {
    char name[64] = "VDEV_";
    size_t length = strlen(name);
    for (const char *c = settings_list[i].name; *c != '\0' && length + 1 < sizeof name; c++) {
      name[length++] = (char)toupper((unsigned char)*c);
    }
    name[length] = '\0';
    const char *value = getenv(name);
    if (value != NULL && !vdev_settings_set(settings, settings_list[i].name, value)) {
      complain(name, value);
    }
  }
}

bool vdev_fault_hits(vdev_settings *settings, vdev_site site, int64_t bytes) {
  vdev_fault *fault = &settings->faults[site];
  if (fault->countdown == 0 || bytes < fault->above) {
    return false;
  }
  if (--fault->countdown > 0) {
    return false;
  }
  fault->countdown = fault->every;
  return true;
}
