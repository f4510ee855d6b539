#include "fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"

bool vdev_site_has_names(vdev_site site) {
  return site == VDEV_SITE_COPY || site == VDEV_SITE_COMPUTE;
}

bool vdev_site_has_bytes(vdev_site site) {
  return vdev_site_has_names(site) || site == VDEV_SITE_ALLOC || site == VDEV_SITE_PINNED;
}

/* Each of these reads from `text` and returns the rest; NULL: it does not begin like that. */

static const char *skip(const char *text, const char *word) {
  size_t length = strlen(word);
  return strncmp(text, word, length) == 0 ? text + length : NULL;
}

static const char *read_number(const char *text, int64_t most, int64_t *number) {
  char *end;
  errno = 0;
  long long value = text[0] >= '0' && text[0] <= '9' ? strtoll(text, &end, 10) : -1;
  if (value < 0 || value > most || errno != 0) {
    return NULL;
  }
  *number = value;
  return end;
}

static const char *read_count(const char *text, vdev_fault *fault) {
  const char *every = skip(text, "every:");
  const char *from = skip(text, "from:");
  const char *number = every != NULL ? every : from != NULL ? from : text;
  const char *rest = read_number(number, INT64_MAX, &fault->countdown);
  fault->every = every != NULL ? fault->countdown : from != NULL;
  return number != text && fault->countdown == 0 ? NULL : rest;
}

static const char *read_condition(const char *text, vdev_site site, bool is_delay, vdev_fault *fault) {
  bool has_bytes = vdev_site_has_bytes(site);
  const char *value;
  if (has_bytes && (value = skip(text, "min:")) != NULL) {
    return read_number(value, INT64_MAX, &fault->smallest);
  }
  if (has_bytes && (value = skip(text, "max:")) != NULL) {
    return read_number(value, INT64_MAX, &fault->largest);
  }
  if (!is_delay && vdev_site_has_names(site) && (value = skip(text, "late")) != NULL) {
    fault->late = true;
    return value;
  }
  if (is_delay && (value = skip(text, "us:")) != NULL) {
    const char *rest = read_number(value, VDEV_LONGEST_NS / 1000, &fault->delay_ns);
    fault->delay_ns *= 1000;
    return rest;
  }
  if (vdev_site_has_names(site) && (value = skip(text, "name:")) != NULL) { /* the last part: a name may contain commas */
    size_t length = strlen(value);
    if (length == 0 || length >= sizeof fault->name) {
      return NULL;
    }
    memcpy(fault->name, value, length + 1);
    return value + length;
  }
  return NULL;
}

bool vdev_fault_parse(const char *text, vdev_site site, bool is_delay, vdev_fault *fault) {
  vdev_fault read = {.largest = INT64_MAX};
  const char *rest = read_count(text, &read);
  while (rest != NULL && rest[0] == ',') {
    rest = read_condition(rest + 1, site, is_delay, &read);
  }
  if (rest == NULL || rest[0] != '\0' || (is_delay && read.countdown > 0 && read.delay_ns == 0)) {
    return false;
  }
  *fault = read;
  return true;
}

static bool is_meant(const vdev_fault *fault, const vdev_subject *subject) {
  if (subject->bytes < fault->smallest || subject->bytes > fault->largest) {
    return false;
  }
  bool named = fault->name[0] == '\0';
  for (size_t i = 0; i < subject->name_count && !named; i++) {
    named = strcmp(subject->names[i], fault->name) == 0;
  }
  return named;
}

static bool strikes(vdev_fault *fault, const vdev_subject *subject) {
  if (fault->countdown == 0 || !is_meant(fault, subject) || --fault->countdown > 0) {
    return false;
  }
  fault->countdown = fault->every;
  return true;
}

bool vdev_fault_strikes(vdev_faults *faults, const vdev_subject *subject, vdev_effect *effect) {
  vdev_fault *fail = &faults->fail[subject->site];
  vdev_fault *delay = &faults->delay[subject->site];
  bool fails = strikes(fail, subject);
  bool delayed = strikes(delay, subject);
  effect->is_wrong = subject->site == VDEV_SITE_COMPUTE && strikes(&faults->wrong, subject);
  if (subject->site == VDEV_SITE_COMPUTE && strikes(&faults->fatal, subject)) {
    abort();
  }
  effect->fails_late = fails && fail->late;
  fails = fails && !fail->late;
  effect->delay_ns = delayed && !fails ? delay->delay_ns : 0;
  return fails;
}

const char *vdev_fault_name(vdev_site site) {
  static const char *const names[VDEV_SITES] = {"fail_alloc",  "fail_pinned",  "fail_copy",   "fail_compute",
                                                "fail_stream", "fail_session", "fail_capture"};
  return names[site];
}
