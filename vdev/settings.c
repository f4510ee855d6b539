#define _GNU_SOURCE /* environ */

#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include "system.h"

typedef enum kind { NUMBER, RATE, TIME_US, CHOICE, TEXT, PATH, METADATA, FAIL, DELAY, WRONG } kind;
enum { TEXT_SIZE = sizeof((vdev_settings *)0)->deny }; /* all texts have the same size */

static const char *const flag_words[] = {"0", "1", NULL};
static const char *const race_words[] = {"off", "count", "fail", NULL};
static const char *const clock_words[] = {"real", "virtual", NULL};
static const char *const hardware_words[] = {"gpu", "npu", NULL};

#define AT(field) .offset = offsetof(vdev_settings, field)
static const struct setting {
  const char *name;
  kind kind;
  size_t offset;
  const char *const *words;
  int64_t lowest, highest;
  vdev_site site;
  bool fixed; /* cannot change once ORT knows the devices */
} settings_list[] = {
    {"devices", .kind = NUMBER, AT(devices), .lowest = 1, .highest = VDEV_MAX_DEVICES, .fixed = true},
    {"vendor_id", .kind = NUMBER, AT(vendor_id), .lowest = 1, .highest = UINT32_MAX, .fixed = true},
    {"device_id", .kind = NUMBER, AT(device_id), .highest = UINT32_MAX, .fixed = true},
    {"hardware", .kind = CHOICE, AT(npu), .words = hardware_words, .fixed = true},
    {"metadata", .kind = METADATA, AT(metadata), .fixed = true},
    {"reserve", .kind = NUMBER, AT(reserve), .lowest = 1 << 16, .highest = (int64_t)1 << 46, .fixed = true},
    {"mem_limit", .kind = NUMBER, AT(mem_limit), .highest = INT64_MAX},
    {"clock", .kind = CHOICE, AT(virtual_clock), .words = clock_words},
    {"h2d_gbps", .kind = RATE, AT(upload_rate)},
    {"d2h_gbps", .kind = RATE, AT(download_rate)},
    {"d2d_gbps", .kind = RATE, AT(local_rate)},
    {"latency_us", .kind = TIME_US, AT(latency_ns)},
    {"compute_us", .kind = TIME_US, AT(compute_ns)},
    {"race", .kind = CHOICE, AT(race), .words = race_words},
    {"poison", .kind = CHOICE, AT(poison), .words = flag_words},
    {"protect_pinned", .kind = CHOICE, AT(protect_pinned), .words = flag_words},
    {"drop_weights", .kind = CHOICE, AT(drop_weights), .words = flag_words},
    {"enable_graph_capture", .kind = CHOICE, AT(graph_capture), .words = flag_words},
    {"trace", .kind = CHOICE, AT(trace), .words = flag_words},
    {"trace_file", .kind = PATH, AT(trace_file)},
    {"deny", .kind = TEXT, AT(deny)},
    {"dump", .kind = TEXT, AT(dump)},
    {"fail_alloc", .kind = FAIL, AT(faults.fail[VDEV_SITE_ALLOC]), .site = VDEV_SITE_ALLOC},
    {"fail_pinned", .kind = FAIL, AT(faults.fail[VDEV_SITE_PINNED]), .site = VDEV_SITE_PINNED},
    {"fail_copy", .kind = FAIL, AT(faults.fail[VDEV_SITE_COPY]), .site = VDEV_SITE_COPY},
    {"fail_compute", .kind = FAIL, AT(faults.fail[VDEV_SITE_COMPUTE]), .site = VDEV_SITE_COMPUTE},
    {"fail_stream", .kind = FAIL, AT(faults.fail[VDEV_SITE_STREAM]), .site = VDEV_SITE_STREAM},
    {"fail_session", .kind = FAIL, AT(faults.fail[VDEV_SITE_SESSION]), .site = VDEV_SITE_SESSION},
    {"fail_capture", .kind = FAIL, AT(faults.fail[VDEV_SITE_CAPTURE]), .site = VDEV_SITE_CAPTURE},
    {"wrong_compute", .kind = WRONG, AT(faults.wrong), .site = VDEV_SITE_COMPUTE},
    {"fatal_compute", .kind = WRONG, AT(faults.fatal), .site = VDEV_SITE_COMPUTE},
    {"delay_alloc", .kind = DELAY, AT(faults.delay[VDEV_SITE_ALLOC]), .site = VDEV_SITE_ALLOC},
    {"delay_pinned", .kind = DELAY, AT(faults.delay[VDEV_SITE_PINNED]), .site = VDEV_SITE_PINNED},
    {"delay_copy", .kind = DELAY, AT(faults.delay[VDEV_SITE_COPY]), .site = VDEV_SITE_COPY},
    {"delay_compute", .kind = DELAY, AT(faults.delay[VDEV_SITE_COMPUTE]), .site = VDEV_SITE_COMPUTE},
    {"delay_stream", .kind = DELAY, AT(faults.delay[VDEV_SITE_STREAM]), .site = VDEV_SITE_STREAM},
    {"delay_session", .kind = DELAY, AT(faults.delay[VDEV_SITE_SESSION]), .site = VDEV_SITE_SESSION},
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

static bool parse_number(const char *text, int64_t lowest, int64_t highest, int64_t *number) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 0);
  if (errno != 0 || end == text || *end != '\0' || value < lowest || value > highest) {
    return false;
  }
  *number = value;
  return true;
}

/* A decimal number times `unit`. */
static bool parse_scaled(const char *text, double unit, double highest, int64_t *number) {
  char *end;
  errno = 0;
  double value = vdev_decimal(text, &end);
  if (errno != 0 || end == text || *end != '\0' || !(value >= 0) || value * unit > highest) {
    return false;
  }
  int64_t whole = (int64_t)(value * unit + 0.5);
  if (whole == 0 && value > 0) {
    return false; /* 0 has a special meaning */
  }
  *number = whole;
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

static bool keep_text(const char *text, char *field) {
  size_t length = strlen(text);
  if (length >= TEXT_SIZE) {
    return false;
  }
  memcpy(field, text, length + 1);
  return true;
}

bool vdev_metadata_next(const char **at, char *key, char *value, size_t size) {
  size_t length = strcspn(*at, ",");
  size_t key_length = strcspn(*at, "=");
  if (key_length == 0 || key_length >= length || key_length >= size || length - key_length > size) {
    return false;
  }
  snprintf(key, size, "%.*s", (int)key_length, *at);
  snprintf(value, size, "%.*s", (int)(length - key_length - 1), *at + key_length + 1);
  *at += length + ((*at)[length] == ',');
  return true;
}

/* A file that can be written, perhaps much later. If there is none, an empty one is created. */
static bool parse_path(const char *text, char *field) {
  return (text[0] == '\0' || vdev_file_is_writable(text)) && keep_text(text, field);
}

/* What the library itself says about its devices cannot be contradicted. */
static bool parse_metadata(const char *text, char *field) {
  const char *at = text;
  char key[TEXT_SIZE];
  char value[TEXT_SIZE];
  while (*at != '\0') {
    if (!vdev_metadata_next(&at, key, value, sizeof key) || strcmp(key, "vdev.index") == 0 || strcmp(key, "is_virtual") == 0) {
      return false;
    }
  }
  return keep_text(text, field);
}

/* A result is wrong when it is made; what ends the process does so at once. */
static bool parse_wrong(const char *text, vdev_site site, vdev_fault *fault) {
  vdev_fault read;
  bool is_read = vdev_fault_parse(text, site, false, &read) && !read.late;
  if (is_read) {
    *fault = read;
  }
  return is_read;
}

static bool parse(const struct setting *setting, const char *value, void *field) {
  switch (setting->kind) {
    case NUMBER: return parse_number(value, setting->lowest, setting->highest, field);
    case RATE: return parse_scaled(value, 1e9, 9e18, field);
    case TIME_US: return parse_scaled(value, 1e3, (double)VDEV_LONGEST_NS, field);
    case CHOICE: return parse_choice(value, setting->words, field);
    case TEXT: return keep_text(value, field);
    case PATH: return parse_path(value, field);
    case METADATA: return parse_metadata(value, field);
    case FAIL: return vdev_fault_parse(value, setting->site, false, field);
    case WRONG: return parse_wrong(value, setting->site, field);
    case DELAY: return vdev_fault_parse(value, setting->site, true, field);
  }
  return false;
}

static void explain(const struct setting *setting, char *text, size_t size) {
  switch (setting->kind) {
    case NUMBER:
      snprintf(text, size, "a number from %lld to %lld", (long long)setting->lowest, (long long)setting->highest);
      break;
    case RATE: snprintf(text, size, "GB/s, no less than a byte a second, or 0"); break;
    case TIME_US: snprintf(text, size, "microseconds, no more than 11 days"); break;
    case CHOICE:
      snprintf(text, size, "one of %s, %s%s%s", setting->words[0], setting->words[1], setting->words[2] == NULL ? "" : ", ",
               setting->words[2] == NULL ? "" : setting->words[2]);
      break;
    case TEXT: snprintf(text, size, "less than %d bytes", (int)TEXT_SIZE); break;
    case PATH: snprintf(text, size, "a file that can be written, with a path of less than %d bytes", (int)TEXT_SIZE); break;
    case METADATA: snprintf(text, size, "key=value, by comma, but for is_virtual and vdev.index"); break;
    case FAIL:
    case DELAY:
    case WRONG:
      snprintf(text, size, "N, every:N, from:N or 0%s%s%s",
               setting->kind == DELAY                                        ? ", then us:MICROSECONDS"
               : setting->kind == FAIL && vdev_site_has_names(setting->site) ? ", then late"
                                                                             : "",
               vdev_site_has_bytes(setting->site) ? ", then min:BYTES, max:BYTES" : "",
               vdev_site_has_names(setting->site) ? ", last name:NAME" : "");
      break;
  }
}

/* As in English: our names have no other letters. */
static char lower(char c) {
  return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static const struct setting *find(const char *name) {
  for (size_t i = 0; i < SETTING_COUNT; i++) {
    if (strcmp(settings_list[i].name, name) == 0) {
      return &settings_list[i];
    }
  }
  return NULL;
}

bool vdev_settings_set(vdev_settings *settings, const char *name, const char *value, char *reason) {
  const struct setting *setting = find(name);
  if (setting == NULL) {
    snprintf(reason, VDEV_TEXT, "'%.80s' is not a setting", name);
    return false;
  }
  if (!parse(setting, value, (char *)settings + setting->offset)) {
    char expected[128];
    explain(setting, expected, sizeof expected);
    snprintf(reason, VDEV_TEXT, "'%s' cannot be '%.80s': expected %s", name, value, expected);
    return false;
  }
  return true;
}

bool vdev_settings_change(vdev_settings *settings, const char *name, const char *value, char *reason) {
  const struct setting *setting = find(name);
  if (setting != NULL && setting->fixed) {
    snprintf(reason, VDEV_TEXT, "'%s' cannot be changed any more: ONNX Runtime read it when the library was registered", name);
    return false;
  }
  return vdev_settings_set(settings, name, value, reason);
}

/* Does the process have rights that its caller does not? Then it writes no files that the caller's environment names. */
static bool is_privileged(void) {
#if defined(__linux__)
  return getauxval(AT_SECURE) != 0;
#else
  return false;
#endif
}

bool vdev_settings_environment(vdev_settings *settings, char *reason) {
  static const char prefix[] = "VDEV_";
  for (char **variable = is_privileged() ? NULL : environ; variable != NULL && *variable != NULL; variable++) {
    const char *equals = strchr(*variable, '=');
    if (strncmp(*variable, prefix, sizeof prefix - 1) != 0 || equals == NULL) {
      continue;
    }
    char name[64] = "";
    for (size_t i = 0; i + 1 < sizeof name && *variable + sizeof prefix - 1 + i < equals; i++) {
      name[i] = lower((*variable)[sizeof prefix - 1 + i]);
    }
    char why[VDEV_TEXT];
    if (!vdev_settings_set(settings, name, equals + 1, why)) {
      int length = equals - *variable < 64 ? (int)(equals - *variable) : 64;
      snprintf(reason, VDEV_TEXT, "vdev: environment variable %.*s: %.200s", length, *variable, why);
      return false;
    }
  }
  return true;
}
