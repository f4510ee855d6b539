#define _GNU_SOURCE /* RTLD_NOLOAD */

#include "world.h"

#ifdef __linux__
#include <dlfcn.h>
#endif
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "objects.h"
#if CONFORMANCE_FAULTS
#include "vdev.h"
#include "../rig/calls.h"
#endif

void world_fail(world *w, const char *format, ...) {
  va_list arguments;
  if (w->failure[0] != '\0') return;
  va_start(arguments, format);
  vsnprintf(w->failure, sizeof w->failure, format, arguments);
  va_end(arguments);
}

iobind_error *world_error(world *w) {
  test_error_arm(&w->error);
  return &w->error;
}

int world_settle(world *w, iobind_status status, const void *out) {
  w->settled = 1;
  const char *wrong = test_error_wrong(&w->error, status);
  if (wrong == NULL && status != IOBIND_OK && !test_is_named(w->error.message)) {
    wrong = "the message does not begin with a function's name, or has it twice";
  }
  if (wrong != NULL) world_fail(w, "%s, but %s: %s", iobind_status_get_name(status), wrong, w->error.message);
  if (status == IOBIND_OK) {
    if (w->expected != IOBIND_OK) {
      world_fail(w, "expected %s, got OK", iobind_status_get_name(w->expected));
    } else if (out == NULL) {
      world_fail(w, "the call succeeded and gave nothing");
    }
    return w->failure[0] == '\0';
  }
  if (status == IOBIND_ERROR_RUNTIME && w->error.ort_code == 0)
    world_fail(w, "RUNTIME without ORT's code: %s", w->error.message);
  if (status != w->expected) {
    world_fail(w, "expected %s, got %s: %s", iobind_status_get_name(w->expected), iobind_status_get_name(status),
               w->error.message);
  } else if (strstr(w->error.message, w->expected_text) == NULL) {
    world_fail(w, "the message does not say '%s': %s", w->expected_text, w->error.message);
  }
  return 0;
}

int world_must(world *w, iobind_status status) {
  if (status != IOBIND_OK) world_fail(w, "%s: %s", iobind_status_get_name(status), w->error.message);
  return status == IOBIND_OK;
}

const char *world_word(world *w, const step *s, size_t index) {
  if (index < s->count) return s->words[index];
  world_fail(w, "script: '%s' lacks its word %zu", s->words[0], index);
  return "";
}

int64_t world_number(world *w, const step *s, size_t index) {
  char *end;
  const char *word = world_word(w, s, index);
  int64_t number = word[0] == '-' ? strtoll(word, &end, 10) : (int64_t)strtoull(word, &end, 10);
  if (end == word || *end != '\0') world_fail(w, "script: '%s' is not a number", word);
  return number;
}

int world_place(world *w, const char *text, iobind_device **device, int32_t *memory) {
  const iobind_value_info *wanted = NULL;
  *memory = strcmp(text, "pinned") == 0 ? IOBIND_MEMORY_HOST_ACCESSIBLE : IOBIND_MEMORY_DEFAULT;
  *device = strcmp(text, "host") == 0 ? w->host : w->device;
  if (strcmp(text, "host") == 0 || strcmp(text, "device") == 0 || strcmp(text, "pinned") == 0) return 1;
  const char *number = strchr(text, ':');
  size_t index = number == NULL ? WORLD_SLOTS : (size_t)strtoul(number + 1, NULL, 10);
  if (w->current != NULL && strncmp(text, "input:", 6) == 0 && index < w->current->session->input_count) {
    wanted = &w->current->session->inputs[index];
  } else if (w->current != NULL && strncmp(text, "output:", 7) == 0 && index < w->current->session->output_count) {
    wanted = &w->current->session->outputs[index];
  }
  if (wanted == NULL) {
    world_fail(w, "script: '%s' is not a place", text);
    return 0;
  }
  *device = wanted->device;
  *memory = wanted->memory;
  return 1;
}

/* ---- objects by name ---- */

tensor *world_tensor(world *w, const char *name) {
  for (size_t i = 0; i < w->tensor_count; i++) {
    if (w->tensors[i].handle != NULL && strcmp(w->tensors[i].name, name) == 0) return &w->tensors[i];
  }
  world_fail(w, "script: no tensor '%s'", name);
  return NULL;
}

iobind_stream *world_stream(world *w, const char *name) {
  for (size_t i = 0; i < w->stream_count; i++) {
    if (strcmp(w->streams[i].name, name) == 0) return w->streams[i].handle;
  }
  world_fail(w, "script: no stream '%s'", name);
  return NULL;
}

iobind_event *world_event(world *w, const char *name) {
  for (size_t i = 0; i < w->event_count; i++) {
    if (strcmp(w->events[i].name, name) == 0) return w->events[i].handle;
  }
  world_fail(w, "script: no event '%s'", name);
  return NULL;
}

tensor *world_add_tensor(world *w, const char *name) {
  tensor *t = NULL;
  for (size_t i = 0; i < w->tensor_count && t == NULL; i++) {
    if (strcmp(w->tensors[i].name, name) == 0) t = &w->tensors[i];
  }
  if (t != NULL) {
    world_drop_tensor(t);
  } else if (w->tensor_count == WORLD_NAMES) {
    world_fail(w, "script: too many tensors");
    return NULL;
  } else {
    t = &w->tensors[w->tensor_count++];
  }
  memset(t, 0, sizeof *t);
  snprintf(t->name, sizeof t->name, "%s", name);
  return t;
}

void world_drop_tensor(tensor *t) {
  if (!t->borrowed) iobind_tensor_release(t->handle);
  value_release(&t->value);
  t->handle = NULL;
}

void *world_keep(world *w, size_t bytes) {
  void *memory = w->kept_count < WORLD_KEPT ? calloc(1, bytes + 1) : NULL;
  if (memory == NULL) {
    world_fail(w, "no memory to keep");
  } else {
    w->kept[w->kept_count++] = memory;
  }
  return memory;
}

binding *world_add_binding(world *w, const char *name, session *s) {
  if (w->binding_count == WORLD_NAMES) {
    world_fail(w, "script: too many bindings");
    return NULL;
  }
  binding *b = &w->bindings[w->binding_count++];
  memset(b, 0, sizeof *b);
  snprintf(b->name, sizeof b->name, "%s", name);
  b->session = s;
  s->users++;
  return b;
}

void world_drop_session(session *s) {
  if (--s->users != 0) return;
  iobind_session_destroy(s->handle);
  free(s);
}

void world_drop_binding(binding *b) {
  iobind_binding_destroy(b->handle);
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    value_release(&b->inputs[i].value);
    value_release(&b->outputs[i].value);
  }
  if (b->session != NULL) world_drop_session(b->session);
  memset(b, 0, sizeof *b);
}

void world_drop_state(named_state *s) {
  iobind_state_release(s->handle);
  s->handle = NULL;
  s->name[0] = '\0';
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    if (s->holds[i]) value_release(&s->values[i]);
    s->holds[i] = 0;
  }
}

void world_drop_pipeline(named_pipeline *p) {
  iobind_pipeline_destroy(p->handle);
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    value_release(&p->constants[i]);
    for (size_t item = 0; item < WORLD_ITEMS; item++) value_release(&p->items[item][i]);
  }
  if (p->session != NULL) world_drop_session(p->session);
  memset(p, 0, sizeof *p);
}

/* ---- models without binary elementwise operators, for a device that runs none ---- */

/* The model of a list whose name stands first in the text; NULL: none does. */
static const char *find_model(const char *const *list, const char *text) {
  size_t length = strcspn(text, " ;");
  while (*list != NULL && (strlen(*list) != length || strncmp(*list, text, length) != 0)) list++;
  return *list;
}

int world_runs(const world *w, const char *model, const char *steps, char missing[64]) {
  static const char *const binary[] = {"outer", "multi", "pair",    "unused",  "passthrough", "if",
                                       "loop",  "mixed", "decoder", "denoise", NULL};
  const char *found = w->no_binary ? find_model(binary, model) : NULL;
  for (const char *at = steps; w->no_binary && found == NULL && *at != '\0';) {
    found = find_model(binary, at);
    at += strcspn(at, " ;");
    at += strspn(at, " ;");
  }
  if (found != NULL) snprintf(missing, 64, "binary operators, for '%s'", found);
  return found == NULL;
}

static void adapt_model(const world *w, const char *spec, char adapted[TEST_MODEL_TEXT]) {
  static const char *const unary[] = {"scale", "add", NULL};
  int replace = w->no_binary && find_model(unary, spec) != NULL;
  snprintf(adapted, TEST_MODEL_TEXT, "%s%s", spec, replace ? " binary=0" : "");
}

/* ---- sessions ---- */

/* Reads the words before the model's name into the options. */
static const char *read_options(world *w, const char *spec, iobind_session_options *options, char dim[64], int64_t *dim_value) {
  while (*spec == '+') {
    size_t length = strcspn(spec, " ");
    if (strncmp(spec, "+unknown", length) == 0) {
      options->flags &= ~(uint32_t)IOBIND_SESSION_IDENTIFY;
    } else if (strncmp(spec, "+strict", length) == 0) {
      options->flags |= IOBIND_SESSION_STRICT;
    } else if (strncmp(spec, "+placement", length) == 0) {
      options->flags |= IOBIND_SESSION_PLACEMENT;
    } else if (strncmp(spec, "+cpu", length) == 0) {
      options->device_count = 0;
    } else if (strncmp(spec, "+dim:", 5) == 0) {
      snprintf(dim, 64, "%.*s", (int)(strcspn(spec, "=") - 5), spec + 5);
      *dim_value = strtoll(spec + strcspn(spec, "=") + 1, NULL, 10);
      options->dim_count = 1;
    } else {
      world_fail(w, "script: '%.*s' is not an option", (int)length, spec);
    }
    spec += length;
    spec += strspn(spec, " ");
  }
  return spec;
}

static int read_signature(world *w, session *s) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_value_info empty = IOBIND_VALUE_INFO_INIT;
  if (!world_must(w, iobind_session_get_info(s->handle, &info, world_error(w)))) return 0;
  s->input_count = info.input_count;
  s->output_count = info.output_count;
  if (info.input_count > WORLD_SLOTS || info.output_count > WORLD_SLOTS) {
    world_fail(w, "script: the model has too many inputs or outputs");
    return 0;
  }
  for (size_t i = 0; i < info.input_count; i++) {
    s->inputs[i] = empty;
    if (!world_must(w, iobind_session_get_input(s->handle, i, &s->inputs[i], world_error(w)))) return 0;
  }
  for (size_t i = 0; i < info.output_count; i++) {
    s->outputs[i] = empty;
    if (!world_must(w, iobind_session_get_output(s->handle, i, &s->outputs[i], world_error(w)))) return 0;
  }
  return 1;
}

session *world_load(world *w, const char *spec, int settle) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  char dim[64] = "";
  const char *dim_names[] = {dim};
  int64_t dim_value = 0;
  options.devices = &w->device;
  options.device_count = 1;
  options.flags = IOBIND_SESSION_IDENTIFY;
  const char *model_spec = read_options(w, spec, &options, dim, &dim_value);
  if (options.dim_count != 0) {
    options.dim_names = dim_names;
    options.dim_values = &dim_value;
  }
  size_t bytes;
  char why[TEST_MODEL_TEXT], adapted[TEST_MODEL_TEXT];
  adapt_model(w, model_spec, adapted);
  if (test_model(adapted, &bytes, why) == NULL) {
    world_fail(w, "script: %s", why);
    return NULL;
  }
  session *s = calloc(1, sizeof *s);
  if (s == NULL) {
    world_fail(w, "no memory");
  } else {
    iobind_status status = test_session_with(w->runtime, adapted, &options, &s->handle, world_error(w));
    int loaded = settle ? world_settle(w, status, s->handle) : world_must(w, status);
    snprintf(s->spec, sizeof s->spec, "%s", model_spec);
    s->users = 1;
    if (!loaded || !read_signature(w, s)) {
      if (status != IOBIND_OK && s->handle != NULL) world_fail(w, "a session was given although the call failed");
      world_drop_session(s);
      s = NULL;
    }
  }
  return s;
}

session *world_cached_session(world *w, const char *spec) {
  if (spec[0] == '+') {
    world_fail(w, "script: a session with options is not for all rows; open it");
    return NULL;
  }
  for (size_t i = 0; i < w->cached; i++) {
    if (strcmp(w->cache[i]->spec, spec) == 0) return w->cache[i];
  }
  if (w->cached == WORLD_CACHE) {
    world_fail(w, "more models than the runner keeps");
    return NULL;
  }
  session *s = world_load(w, spec, 0);
  if (s != NULL) w->cache[w->cached++] = s;
  return s;
}

void world_bind(world *w, const char *name, session *s, int settle) {
  binding *b = world_add_binding(w, name, s);
  if (b == NULL) return;
  iobind_status status = iobind_binding_create(s->handle, &b->handle, world_error(w));
  if (settle ? world_settle(w, status, b->handle) : world_must(w, status)) w->current = b;
}

/* ---- what the device has ---- */

static int all_on_device(const world *w, const session *s) {
  for (size_t i = 0; i < s->input_count; i++) {
    if (s->inputs[i].device != w->device || s->inputs[i].memory != IOBIND_MEMORY_DEFAULT) return 0;
  }
  for (size_t i = 0; i < s->output_count; i++) {
    if (s->outputs[i].device != w->device || s->outputs[i].memory != IOBIND_MEMORY_DEFAULT) return 0;
  }
  return 1;
}

/* Whether a float16 multiplication, say, runs on the device: some take a session and say in its first run that they cannot. */
static int computes(world *w, const char *dtype) {
  char spec[64], type[32];
  value v;
  iobind_tensor *x = NULL, *y = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  snprintf(spec, sizeof spec, "scale dtype=%s", dtype);
  snprintf(type, sizeof type, "%s[1]", dtype);
  int is_type = value_parse_type(type, &v);
  if (is_type && w->no_binary && strncmp(dtype, "float", 5) != 0) return 0; /* Selu is only for these */
  session *s = is_type ? world_cached_session(w, spec) : NULL;
  if (s == NULL) {
    world_fail(w, "script: nothing computes with '%s'", dtype);
    return 0;
  }
  iobind_status status =
      iobind_tensor_create(w->host, IOBIND_MEMORY_DEFAULT, (iobind_dtype)v.dtype, v.dims, v.rank, &x, &error);
  if (status == IOBIND_OK) status = call_session_run(s->handle, &x, &y, &error);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  return status == IOBIND_OK;
}

world_setter *world_faults(const world *w) {
#if CONFORMANCE_FAULTS
  if (strncmp(w->info.spec, "vdev", 4) == 0) return vdev_set;
#endif
#ifdef __linux__
  if (strncmp(w->info.spec, "cuda", 4) == 0) { /* vcuda's library has it, NVIDIA's has not */
    void *library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *found = library == NULL ? NULL : dlsym(library, "vcuda_set");
    world_setter *set;
    memcpy(&set, &found, sizeof set);
    return set;
  }
#endif
  return NULL;
}

static int has(world *w, const char *word, const session *s) {
  static const struct {
    const char *word;
    uint32_t flag;
    int wanted;
  } flags[] = {
      {"link", IOBIND_DEVICE_HOST_MEMORY, 0},        {"host-memory", IOBIND_DEVICE_HOST_MEMORY, 1},
      {"pinned", IOBIND_DEVICE_HOST_ACCESSIBLE, 1},  {"no-pinned", IOBIND_DEVICE_HOST_ACCESSIBLE, 0},
      {"addressable", IOBIND_DEVICE_ADDRESSABLE, 1}, {"no-addressable", IOBIND_DEVICE_ADDRESSABLE, 0},
      {"streams", IOBIND_DEVICE_STREAMS, 1},         {"no-streams", IOBIND_DEVICE_STREAMS, 0},
  };
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    if (strcmp(flags[i].word, word) == 0) return ((w->info.flags & flags[i].flag) != 0) == flags[i].wanted;
  }
  if (strcmp(word, "faults") == 0) return world_faults(w) != NULL;
  if (strcmp(word, "in-c") == 0) return 1;
  if (strcmp(word, "on-device") == 0) return s == NULL || all_on_device(w, s);
  if (strncmp(word, "computes:", 9) == 0) return computes(w, word + 9);
  if (strncmp(word, "ort:1.", 6) == 0) return w->ort_minor >= strtoul(word + 6, NULL, 10);
  world_fail(w, "script: a row cannot need '%s'", word);
  return 0;
}

int world_has(world *w, const char *needs, const session *s, char missing[64]) {
  char word[64];
  while (*needs != '\0') {
    size_t length = strcspn(needs, " ");
    snprintf(word, sizeof word, "%.*s", (int)length, needs);
    if (!has(w, word, s)) {
      snprintf(missing, 64, "%s", word);
      return 0;
    }
    needs += length;
    needs += strspn(needs, " ");
  }
  return 1;
}

/* ---- the end of a row, and of all ---- */

static void stop_run(world *w) {
  if (!w->running) return;
  for (size_t i = 0; i < w->binding_count; i++) {
    if (w->bindings[i].handle != NULL && iobind_binding_cancel(w->bindings[i].handle, NULL) != IOBIND_OK) break;
  }
  pthread_join(w->runner, NULL);
  w->running = 0;
}

void world_clear(world *w) {
  stop_run(w);
  for (size_t i = 0; i < w->pipeline_count; i++) world_drop_pipeline(&w->pipelines[i]);
  for (size_t i = 0; i < w->binding_count; i++) world_drop_binding(&w->bindings[i]);
  for (size_t i = 0; i < w->tensor_count; i++) world_drop_tensor(&w->tensors[i]);
  for (size_t i = 0; i < w->event_count; i++) iobind_event_destroy(w->events[i].handle);
  for (size_t i = 0; i < w->state_count; i++) world_drop_state(&w->states[i]);
  for (size_t i = 0; i < w->stream_count; i++) iobind_stream_destroy(w->streams[i].handle);
  for (size_t i = 0; i < w->kept_count; i++) free(w->kept[i]);
  w->binding_count = w->tensor_count = w->event_count = w->stream_count = w->kept_count = w->state_count = 0;
  w->pipeline_count = 0;
  w->current = NULL;
  w->failure[0] = '\0';
}

void world_drop_cache(world *w) {
  for (size_t i = 0; i < w->cached; i++) world_drop_session(w->cache[i]);
  w->cached = 0;
}

void world_end(world *w) {
  world_clear(w);
  world_drop_cache(w);
}
