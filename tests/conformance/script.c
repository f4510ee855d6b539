#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cuts a step into words at blanks; 'quotes' hold a word with blanks together. */
static void cut(world *w, const char *text, size_t length, step *s) {
  memset(s, 0, sizeof *s);
  if (length >= sizeof s->text) {
    world_fail(w, "script: a step is too long");
    return;
  }
  memcpy(s->text, text, length);
  for (char *at = s->text + strspn(s->text, " "); *at != '\0'; at += strspn(at, " ")) {
    int quoted = *at == '\'';
    at += quoted;
    char *end = at + strcspn(at, quoted ? "'" : " ");
    if (s->count == WORLD_WORDS) {
      world_fail(w, "script: a step has too many words");
      return;
    }
    s->words[s->count++] = at;
    if (*end == '\0') return;
    *end = '\0';
    at = end + 1;
  }
}

/* The step without its first `count` words and the colon behind them. */
static step rest_of(world *w, const step *s, size_t count) {
  step rest = *s;
  if (strcmp(world_word(w, s, count), ":") != 0) world_fail(w, "script: '%s' lacks its colon", s->words[0]);
  rest.count = s->count > count + 1 ? s->count - count - 1 : 0;
  for (size_t i = 0; i < rest.count; i++) rest.words[i] = s->words[i + count + 1];
  return rest;
}

static void run_step(world *w, const step *s);

static iobind_status find_status(world *w, const char *name) {
  for (int32_t status = IOBIND_OK; status <= IOBIND_ERROR_RESULT; status++) {
    if (strcmp(iobind_status_get_name(status), name) == 0) return (iobind_status)status;
  }
  world_fail(w, "script: '%s' is no status", name);
  return IOBIND_OK;
}

static void run_failing(world *w, const step *s) {
  step rest = rest_of(w, s, 3);
  w->expected = find_status(w, world_word(w, s, 1));
  snprintf(w->expected_text, sizeof w->expected_text, "%s", world_word(w, s, 2));
  run_step(w, &rest);
  if (!w->settled) world_fail(w, "script: '%s' makes no call that can fail", rest.words[0]);
  w->expected = IOBIND_OK;
}

static void run_times(world *w, const step *s) {
  step rest = rest_of(w, s, 2);
  int64_t times = world_number(w, s, 1);
  for (int64_t i = 0; i < times && w->failure[0] == '\0'; i++) run_step(w, &rest);
}

/* Nothing crosses a link that is not there: the numbers are those of devices with memory of their own. */
static void run_moving(world *w, const step *s) {
  step rest = rest_of(w, s, 3);
  int linked = (w->info.flags & IOBIND_DEVICE_HOST_MEMORY) == 0;
  long long up = linked ? (long long)world_number(w, s, 1) : 0, down = linked ? (long long)world_number(w, s, 2) : 0;
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT, after = IOBIND_DEVICE_COUNTERS_INIT;
  if (!world_must(w, iobind_device_get_counters(w->device, &before, world_error(w)))) return;
  run_step(w, &rest);
  if (!world_must(w, iobind_device_get_counters(w->device, &after, world_error(w)))) return;
  long long was_up = (long long)(after.upload_bytes - before.upload_bytes);
  long long was_down = (long long)(after.download_bytes - before.download_bytes);
  if (was_up != up || was_down != down) {
    world_fail(w, "expected %lld bytes up and %lld down, got %lld and %lld", up, down, was_up, was_down);
  }
}

static const keyword prefixes[] = {{"fail", run_failing}, {"times", run_times}, {"moves", run_moving}, {NULL, NULL}};

static void run_step(world *w, const step *s) {
  static const keyword *const lists[] = {prefixes,        tensor_keywords,   binding_keywords,
                                         stream_keywords, pipeline_keywords, state_keywords};
  if (s->count == 0 || w->failure[0] != '\0') return;
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    for (const keyword *k = lists[i]; k->word != NULL; k++) {
      if (strcmp(k->word, s->words[0]) == 0) {
        k->run(w, s);
        return;
      }
    }
  }
  world_fail(w, "script: no step '%s'", s->words[0]);
}

void script_run(world *w, const char *steps, char *progress) {
  step s;
  for (const char *at = steps; *at != '\0' && w->failure[0] == '\0';) {
    size_t length = strcspn(at, ";");
    const char *trimmed = at + strspn(at, " ");
    snprintf(progress, WORLD_TEXT, "%.*s", (int)(at + length - trimmed), trimmed);
    cut(w, at, length, &s);
    w->settled = 0;
    run_step(w, &s);
    at += length;
    at += *at == ';';
  }
}
