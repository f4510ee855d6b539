#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinned.h"

void vdev_clocks_join(uint64_t *clocks, const uint64_t *other, int agent_limit) {
  for (int i = 0; i < agent_limit; i++) {
    clocks[i] = other[i] > clocks[i] ? other[i] : clocks[i];
  }
}

static void name_agent(int agent, char *out, size_t size) {
  if (agent == 0) {
    snprintf(out, size, "the host");
  } else {
    snprintf(out, size, "stream %d", agent);
  }
}

static void report(vdev_device *device, const vdev_access *earlier, const vdev_access *later) {
  char who_earlier[24];
  char who_later[24];
  name_agent(earlier->agent, who_earlier, sizeof who_earlier);
  name_agent(later->agent, who_later, sizeof who_later);
  device->statistics.races++;
  snprintf(vdev_global.last_race, sizeof vdev_global.last_race,
           "unordered access: %s on %s %s %zu bytes at %p that %s on %s %s; no event or wait orders the two", later->what,
           who_later, later->write ? "writes" : "reads", (size_t)(later->end - later->start), (void *)later->start,
           earlier->what, who_earlier, earlier->write ? "writes" : "reads");
}

static bool remember(const vdev_access *access) {
  vdev_state *state = &vdev_global;
  /* a repeated access replaces the earlier one of the same agent, which is ordered before it anyway */
  for (size_t i = 0; i < state->access_count; i++) {
    vdev_access *old = &state->accesses[i];
    if (old->agent == access->agent && old->write == access->write && old->start == access->start && old->end == access->end) {
      *old = *access;
      return true;
    }
  }
  if (state->access_count == state->access_capacity) {
    size_t capacity = state->access_capacity == 0 ? 256 : 2 * state->access_capacity;
    vdev_access *list = realloc(state->accesses, capacity * sizeof *list);
    if (list == NULL) {
      return false;
    }
    state->accesses = list;
    state->access_capacity = capacity;
  }
  state->accesses[state->access_count++] = *access;
  return true;
}

/* The first earlier access that is not ordered before this one. */
static const vdev_access *find_conflict(const vdev_access *access, const uint64_t *clocks) {
  for (size_t i = 0; i < vdev_global.access_count; i++) {
    const vdev_access *old = &vdev_global.accesses[i];
    bool conflict = old->start < access->end && access->start < old->end && (old->write || access->write);
    if (conflict && old->agent != access->agent && clocks[old->agent] < old->clock) {
      return old;
    }
  }
  return NULL;
}

bool vdev_race_access(vdev_device *device, const vdev_stream *stream, vdev_touched span, const char *what, char *reason) {
  const vdev_state *state = &vdev_global;
  bool detect = device->settings.race != VDEV_RACE_OFF;
  if (span.bytes == 0 || (!detect && state->protected_count == 0)) {
    return true;
  }
  int agent = stream == NULL ? 0 : stream->agent;
  const uint64_t *clocks = stream == NULL ? state->host_clocks : stream->clocks;
  const uintptr_t start = (uintptr_t)span.start;
  vdev_access access = {start, start + span.bytes, clocks[agent], agent, span.write, ""};
  snprintf(access.what, sizeof access.what, "%s", what);
  const vdev_access *conflict = detect ? find_conflict(&access, clocks) : NULL;
  if (conflict != NULL) {
    report(device, conflict, &access);
  }
  if (conflict != NULL && device->settings.race == VDEV_RACE_FAIL) {
    memcpy(reason, state->last_race, sizeof state->last_race);
    return false;
  }
  const vdev_pinned *pinned = state->protected_count == 0 ? NULL : vdev_pinned_find(span.start, span.bytes);
  bool protect = pinned != NULL && pinned->alias != NULL;
  /* what the host did itself is ordered before everything that it submits later */
  if (stream == NULL || (!detect && !protect)) {
    return true;
  }
  if (!remember(&access)) {
    return vdev_refuse(device, reason, "out of host memory");
  }
  if (protect) {
    vdev_pinned_protect();
  }
  return true;
}

void vdev_race_forget(const void *start, size_t bytes) {
  vdev_state *state = &vdev_global;
  uintptr_t from = (uintptr_t)start;
  for (size_t i = state->access_count; i-- > 0;) {
    if (state->accesses[i].start < from + bytes && from < state->accesses[i].end) {
      state->accesses[i] = state->accesses[--state->access_count];
    }
  }
}

void vdev_race_prune(void) {
  vdev_state *state = &vdev_global;
  size_t before = state->access_count;
  for (size_t i = state->access_count; i-- > 0;) {
    if (state->host_clocks[state->accesses[i].agent] >= state->accesses[i].clock) {
      state->accesses[i] = state->accesses[--state->access_count];
    }
  }
  if (state->access_count < before) {
    vdev_pinned_protect();
  }
}

const char *vdev_last_race(void) {
  static _Thread_local char text[VDEV_TEXT]; /* another thread may run into the next one at any time */
  vdev_lock();
  memcpy(text, vdev_global.last_race, sizeof text);
  vdev_unlock();
  return text;
}
