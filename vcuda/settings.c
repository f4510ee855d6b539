#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

static const char *const sites[] = {"alloc", "pinned", "copy", "compute", "graph", "stream", "event", "capture", "call"};
static const char wrong_setting[] = "wrong_compute";
static const char *const races[] = {"off", "count", "fail"};

/* A setting whose value is a number, or a word of a list. */
typedef struct number_setting {
  const char *name;
  size_t offset;
  int64_t least, most, initial;
  bool starting; /* takes effect only when the library starts */
  const char *const *words;
} number_setting;

#define AT(field) offsetof(vcuda_settings, field)
static const number_setting numbers[] = {
    {"devices", AT(devices), 0, VCUDA_MAX_DEVICES, 1, true, NULL},
    {"memory", AT(memory), 1 << 20, INT64_C(1) << 40, INT64_C(8) << 30, true, NULL},
    {"reserve", AT(reserve), 0, INT64_C(1) << 42, 0, true, NULL},
    {"capability", AT(capability), 75, 120, 80, true, NULL},
    {"cudnn", AT(cudnn), 90000, 91499, 90200, true, NULL}, /* later versions have operations that vcuda lacks */
    {"race", AT(race), 0, 2, 0, false, races},
    {"poison", AT(poison), 0, 1, 1, false, NULL},
    {"late_copies", AT(late_copies), 0, 1, 0, false, NULL},
    {"trace", AT(trace), 0, 1, 0, false, NULL},
    {"seed", AT(seed), 0, INT64_MAX, 0, false, NULL},
};
#undef AT

static const char *read_number(const char *text, int64_t most, int64_t *number) {
  char *end;
  errno = 0;
  long long value = isdigit((unsigned char)text[0]) ? strtoll(text, &end, 10) : -1;
  if (value < 0 || value > most || errno != 0) return NULL;
  *number = value;
  return end;
}

static const char *skip(const char *text, const char *word) {
  size_t length = strlen(word);
  return strncmp(text, word, length) == 0 ? text + length : NULL;
}

static bool set_number(vcuda_settings *settings, const number_setting *setting, const char *value) {
  int64_t number = 0;
  const char *rest = read_number(value, setting->most, &number);
  for (int i = 0; setting->words != NULL && i <= setting->most; i++) {
    if (strcmp(setting->words[i], value) == 0) {
      number = i;
      rest = "";
    }
  }
  if (rest == NULL || rest[0] != '\0' || number < setting->least) return false;
  memcpy((char *)settings + setting->offset, &number, sizeof number);
  return true;
}

static const char *read_condition(const char *text, bool is_delay, vcuda_trigger *trigger) {
  const char *value = skip(text, "min:");
  if (value != NULL) return read_number(value, INT64_MAX, &trigger->smallest);
  if ((value = skip(text, "max:")) != NULL) return read_number(value, INT64_MAX, &trigger->largest);
  if (is_delay && (value = skip(text, "us:")) != NULL) {
    const char *rest = read_number(value, INT64_C(1000000000), &trigger->delay_ns);
    trigger->delay_ns *= 1000;
    return rest;
  }
  if (is_delay && (value = skip(text, "random")) != NULL) {
    trigger->random = true;
    return value;
  }
  if (!is_delay && (value = skip(text, "late")) != NULL) {
    trigger->late = true;
    return value;
  }
  if ((value = skip(text, "name:")) != NULL && value[0] != '\0' && strlen(value) < sizeof trigger->name) {
    snprintf(trigger->name, sizeof trigger->name, "%s", value);
    return value + strlen(value);
  }
  return NULL;
}

/* Only work of a stream can be delayed, or fail while it runs. */
static bool is_work(vcuda_site site) {
  return site == VCUDA_SITE_COPY || site == VCUDA_SITE_COMPUTE || site == VCUDA_SITE_GRAPH;
}

/* Parse "0"; or "N", "every:N" or "from:N" (the N-th and all later operations), then conditions, separated by commas. */
static bool read_trigger(const char *text, vcuda_site site, bool is_delay, vcuda_trigger *trigger) {
  vcuda_trigger read = {.largest = INT64_MAX};
  const char *every = skip(text, "every:");
  const char *from = skip(text, "from:");
  const char *rest = read_number(every != NULL ? every : from != NULL ? from : text, INT64_MAX, &read.countdown);
  read.every = every != NULL ? read.countdown : from != NULL;
  while (rest != NULL && rest[0] == ',') rest = read_condition(rest + 1, is_delay, &read);
  if (rest == NULL || rest[0] != '\0' || (is_delay && read.countdown > 0 && read.delay_ns == 0)) return false;
  if (read.late && !is_work(site)) return false;
  *trigger = read;
  return true;
}

bool vcuda_settings_set(vcuda_settings *settings, const char *name, const char *value, bool starting) {
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (strcmp(numbers[i].name, name) == 0) {
      return (starting || !numbers[i].starting) && set_number(settings, &numbers[i], value);
    }
  }
  if (strcmp(name, wrong_setting) == 0) {
    vcuda_trigger read;
    bool is_read = read_trigger(value, VCUDA_SITE_COMPUTE, false, &read) && !read.late;
    if (is_read) settings->wrong = read;
    return is_read;
  }
  const char *failing = skip(name, "fail_");
  const char *delayed = skip(name, "delay_");
  const char *site = failing != NULL ? failing : delayed;
  for (size_t i = 0; site != NULL && i < VCUDA_SITES; i++) {
    if (strcmp(sites[i], site) == 0 && (delayed == NULL || is_work((vcuda_site)i))) {
      return read_trigger(value, (vcuda_site)i, delayed != NULL, delayed != NULL ? &settings->delay[i] : &settings->fail[i]);
    }
  }
  return false;
}

static void read_variable(vcuda_settings *settings, const char *setting) {
  char variable[64] = "VCUDA_";
  for (size_t i = 0; setting[i] != '\0'; i++) {
    variable[6 + i] = (char)toupper((unsigned char)setting[i]);
    variable[7 + i] = '\0';
  }
  const char *value = getenv(variable);
  if (value != NULL && !vcuda_settings_set(settings, setting, value, true)) {
    vcuda_log("%s='%s' cannot be: the default holds", variable, value);
  }
}

void vcuda_settings_default(vcuda_settings *settings) {
  memset(settings, 0, sizeof *settings);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    memcpy((char *)settings + numbers[i].offset, &numbers[i].initial, sizeof numbers[i].initial);
  }
}

void vcuda_settings_read_environment(vcuda_settings *settings) {
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) read_variable(settings, numbers[i].name);
  for (size_t i = 0; i < VCUDA_SITES; i++) {
    char name[32];
    snprintf(name, sizeof name, "fail_%s", sites[i]);
    read_variable(settings, name);
    snprintf(name, sizeof name, "delay_%s", sites[i]);
    read_variable(settings, name); /* for sites that cannot be delayed this logs an error */
  }
  read_variable(settings, wrong_setting);
}

static bool strikes(vcuda_trigger *trigger, int64_t bytes, const char *name) {
  bool meant = trigger->countdown > 0 && bytes >= trigger->smallest && bytes <= trigger->largest &&
               (trigger->name[0] == '\0' || strcmp(trigger->name, name) == 0);
  if (!meant || --trigger->countdown > 0) return false;
  trigger->countdown = trigger->every;
  return true;
}

bool vcuda_trigger_fails(vcuda_settings *settings, vcuda_site site, int64_t bytes, const char *name, bool late) {
  return settings->fail[site].late == late && strikes(&settings->fail[site], bytes, name);
}

bool vcuda_trigger_names(vcuda_settings *settings, vcuda_site site, const char *name) {
  return settings->fail[site].name[0] != '\0' && vcuda_trigger_fails(settings, site, 0, name, false);
}

bool vcuda_trigger_falsifies(vcuda_settings *settings, int64_t bytes, const char *name) {
  return strikes(&settings->wrong, bytes, name);
}

int64_t vcuda_trigger_delay(vcuda_settings *settings, vcuda_site site, int64_t bytes, const char *name) {
  vcuda_trigger *trigger = &settings->delay[site];
  if (!strikes(trigger, bytes, name)) return 0;
  if (!trigger->random) return trigger->delay_ns;
  uint64_t mixed = (uint64_t)(settings->seed += 1) * UINT64_C(0x9e3779b97f4a7c15);
  mixed ^= mixed >> 31;
  mixed *= UINT64_C(0xbf58476d1ce4e5b9);
  mixed ^= mixed >> 29;
  return (int64_t)(mixed % (uint64_t)(trigger->delay_ns + 1));
}
