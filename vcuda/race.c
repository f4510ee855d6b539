#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "vcuda.h"
#include "work.h"

/* An access carries the vector clock of its work: for each agent, how much of that agent's work is ordered before it. The clock is
 * taken when the work is queued, and the access is checked when the work runs. Work that runs later in real time cannot be ordered
 * before work that ran earlier. So one check is enough: is the earlier access within the clock of the later one? */

void vcuda_clocks_join(uint64_t *clocks, const uint64_t *other) {
  for (int i = 0; i < vcuda_global.agent_limit; i++) clocks[i] = other[i] > clocks[i] ? other[i] : clocks[i];
}

static void name_agent(int agent, char *out, size_t size) {
  if (agent == 0) {
    snprintf(out, size, "the host");
    return;
  }
  for (const vcuda_stream *stream = vcuda_global.streams; stream != NULL; stream = stream->next) {
    if (stream->agent == agent && vcuda_stream_is_null(stream)) {
      snprintf(out, size, "the NULL stream");
      return;
    }
  }
  snprintf(out, size, "stream %d", agent);
}

static void report(vcuda_device *device, const vcuda_access *earlier, const vcuda_access *later) {
  char earlier_agent[24];
  char later_agent[24];
  name_agent(earlier->agent, earlier_agent, sizeof earlier_agent);
  name_agent(later->agent, later_agent, sizeof later_agent);
  vcuda_count(device, VCUDA_COUNT_races, 1);
  snprintf(vcuda_global.last_race, sizeof vcuda_global.last_race,
           "race: %.100s on %s %s %zu bytes at %p that %.100s on %s %s; no event, wait or stream orders the two", later->what,
           later_agent, later->write ? "writes" : "reads", (size_t)(later->end - later->start), (void *)later->start,
           earlier->what, earlier_agent, earlier->write ? "writes" : "reads");
}

/* If the list cannot grow, the access is dropped. This may hide a race, but cannot report a false one. */
static void remember(const vcuda_access *access) {
  vcuda_state *state = &vcuda_global;
  for (size_t i = 0; i < state->access_count; i++) {
    vcuda_access *old = &state->accesses[i];
    /* a repeated access replaces the earlier one of the same agent, which is ordered before it anyway */
    if (old->agent == access->agent && old->write == access->write && old->start == access->start && old->end == access->end &&
        (old->launch != access->launch || old->node == access->node)) {
      *old = *access;
      return;
    }
  }
  if (state->access_count == state->access_capacity) {
    size_t capacity = state->access_capacity == 0 ? 256 : 2 * state->access_capacity;
    vcuda_access *list = realloc(state->accesses, capacity * sizeof *list);
    if (list == NULL) return;
    state->accesses = list;
    state->access_capacity = capacity;
  }
  state->accesses[state->access_count++] = *access;
}

static bool is_ordered(const vcuda_access *old, const vcuda_access *access, const uint64_t *clocks, const vcuda_exec *exec) {
  if (old->agent == 0 && access->agent == 0) return true;
  /* nodes of one launch of a graph are ordered by its edges, not by the stream */
  if (access->launch != 0 && old->launch == access->launch) {
    return old->node == access->node || vcuda_exec_is_before(exec, old->node, access->node);
  }
  return clocks[old->agent] >= old->clock;
}

bool vcuda_race_access(vcuda_device *device, const vcuda_access *access, const uint64_t *clocks, const vcuda_exec *exec) {
  const vcuda_access *conflict = NULL;
  for (size_t i = 0; i < vcuda_global.access_count && conflict == NULL; i++) {
    const vcuda_access *old = &vcuda_global.accesses[i];
    bool meets = old->start < access->end && access->start < old->end && (old->write || access->write);
    if (meets && !is_ordered(old, access, clocks, exec)) conflict = old;
  }
  if (conflict != NULL) report(device, conflict, access);
  remember(access);
  return conflict == NULL || device->settings.race < 2;
}

void vcuda_race_forget(const void *start, size_t bytes) {
  vcuda_state *state = &vcuda_global;
  uintptr_t from = (uintptr_t)start;
  for (size_t i = state->access_count; i-- > 0;) {
    if (state->accesses[i].start < from + bytes && from < state->accesses[i].end) {
      state->accesses[i] = state->accesses[--state->access_count];
    }
  }
}

/* Remove accesses of work for which the host has waited: they are ordered before all work that is queued later. While any work is
 * queued, no access is removed, because that work was queued earlier. */
void vcuda_race_prune(void) {
  vcuda_state *state = &vcuda_global;
  for (const vcuda_stream *stream = state->streams; stream != NULL; stream = stream->next) {
    if (stream->queued > 0) return;
  }
  for (size_t i = state->access_count; i-- > 0;) {
    const vcuda_access *access = &state->accesses[i];
    if (state->host_clocks[access->agent] >= access->clock) state->accesses[i] = state->accesses[--state->access_count];
  }
}

const char *vcuda_last_race(void) {
  static _Thread_local char text[VCUDA_TEXT]; /* a copy, because another thread may find another race at any time */
  vcuda_lock();
  memcpy(text, vcuda_global.last_race, sizeof text);
  vcuda_unlock();
  return text;
}
