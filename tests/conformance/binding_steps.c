#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"
#include "script.h"
#include "../rig/calls.h"

/* Steps on sessions and bindings. A run computes what the outputs must be from what the inputs hold at that time. */

static binding *current(world *w) {
  if (w->current == NULL) world_fail(w, "script: there is no session");
  return w->current;
}

static void join_words(const step *s, size_t from, char *text, size_t capacity) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = from; i < s->count && used < capacity; i++) {
    used += (size_t)snprintf(text + used, capacity - used, "%s%s", i == from ? "" : " ", s->words[i]);
  }
}

static void open_session(world *w, const step *s) {
  char spec[256];
  join_words(s, 2, spec, sizeof spec);
  session *loaded = world_load(w, spec, 1);
  if (loaded == NULL) return;
  world_bind(w, world_word(w, s, 1), loaded, 0);
  world_drop_session(loaded); /* the binding has it now */
}

static void bind(world *w, const step *s) {
  binding *b = current(w);
  if (b != NULL) world_bind(w, world_word(w, s, 1), b->session, 1);
}

static binding *find_binding(world *w, const char *name) {
  for (size_t i = 0; i < w->binding_count; i++) {
    if (w->bindings[i].handle != NULL && strcmp(w->bindings[i].name, name) == 0) return &w->bindings[i];
  }
  world_fail(w, "script: no binding '%s'", name);
  return NULL;
}

static void use(world *w, const step *s) {
  binding *b = find_binding(w, world_word(w, s, 1));
  if (b != NULL) w->current = b;
}

static void drop_binding(world *w, const step *s) {
  binding *b = find_binding(w, world_word(w, s, 1));
  if (b == NULL) return;
  if (w->current == b) w->current = NULL;
  world_drop_binding(b);
}

/* Destroys the session before its bindings. */
static void drop_session(world *w, const step *s) {
  binding *b = find_binding(w, world_word(w, s, 1));
  if (b == NULL) return;
  for (size_t i = 0; i < w->cached; i++) {
    if (w->cache[i] == b->session) world_fail(w, "script: the row's session is shared; open one");
  }
  iobind_session_destroy(b->session->handle);
  b->session->handle = NULL;
}

/* ---- signature ---- */

static void print_value(const iobind_value_info *info, char *text, size_t capacity) {
  static const char *const kinds[] = {"unknown", "tensor", "sequence", "map", "opaque", "sparse", "optional"};
  if (info->kind != IOBIND_VALUE_TENSOR) {
    snprintf(text, capacity, "%s %s", info->name, info->kind >= 0 && info->kind <= 6 ? kinds[info->kind] : "?");
    return;
  }
  int used = snprintf(text, capacity, "%s %s[", info->name, iobind_dtype_get_name(info->dtype));
  if (!info->has_shape) used += snprintf(text + used, capacity - (size_t)used, "*");
  for (size_t i = 0; i < info->rank && used > 0 && (size_t)used < capacity; i++) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)info->dims[i]);
    const char *dim = info->dims[i] >= 0 ? number : (info->symbols[i][0] != '\0' ? info->symbols[i] : "?");
    used += snprintf(text + used, capacity - (size_t)used, "%s%s", i == 0 ? "" : ",", dim);
  }
  if (used > 0 && (size_t)used < capacity) snprintf(text + used, capacity - (size_t)used, "]");
}

static int is_output(world *w, const step *s) {
  const char *which = world_word(w, s, 1);
  if (strcmp(which, "input") != 0 && strcmp(which, "output") != 0)
    world_fail(w, "script: '%s' is neither input nor output", which);
  return strcmp(which, "output") == 0;
}

static void signature(world *w, const step *s) {
  binding *b = current(w);
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  char expected[256], got[256];
  size_t index = (size_t)world_number(w, s, 2);
  if (b == NULL) return;
  iobind_status status = is_output(w, s) ? iobind_session_get_output(b->session->handle, index, &info, world_error(w))
                                         : iobind_session_get_input(b->session->handle, index, &info, world_error(w));
  if (!world_settle(w, status, w)) return;
  join_words(s, 3, expected, sizeof expected);
  print_value(&info, got, sizeof got);
  if (strcmp(expected, got) != 0) world_fail(w, "expected '%s', got '%s'", expected, got);
}

static void find(world *w, const step *s) {
  binding *b = current(w);
  size_t index = SIZE_MAX;
  const char *name = world_word(w, s, 2);
  if (b == NULL) return;
  iobind_status status = is_output(w, s) ? iobind_session_find_output(b->session->handle, name, &index, world_error(w))
                                         : iobind_session_find_input(b->session->handle, name, &index, world_error(w));
  if (!world_settle(w, status, w)) return;
  if (index != (size_t)world_number(w, s, 3)) world_fail(w, "expected index %s, got %zu", s->words[3], index);
}

/* ---- inputs and outputs ---- */

/* What the last run left becomes the next one's input. */
static void advance(binding *b) {
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    slot *from = &b->outputs[i];
    if (!from->carried || !from->due) continue;
    value_release(&b->inputs[from->to].value);
    value_share(&b->inputs[from->to].value, &from->value);
    from->due = 0;
  }
}

/* The carried output that becomes this input, or NULL. */
static slot *state_of(binding *b, size_t index) {
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    if (b->outputs[i].carried && b->outputs[i].to == index) return &b->outputs[i];
  }
  return NULL;
}

static int32_t find_mode(world *w, const char *const *modes, const char *word) {
  for (int32_t i = 0; modes[i] != NULL; i++) {
    if (strcmp(modes[i], word) == 0) return i;
  }
  char *end;
  int32_t number = (int32_t)strtol(word, &end, 10);
  if (end == word || *end != '\0') world_fail(w, "script: '%s' is not a mode", word);
  return number;
}

static void no_value(slot *bound) {
  value_release(&bound->value);
  bound->taken = 0;
}

static void input(world *w, const step *s) {
  static const char *const modes[] = {"resident", "snapshot", "live", NULL};
  binding *b = current(w);
  size_t index = (size_t)world_number(w, s, 1);
  int32_t mode = find_mode(w, modes, world_word(w, s, 2));
  const char *name = world_word(w, s, 3);
  tensor *t = strcmp(name, "null") == 0 ? NULL : world_tensor(w, name);
  iobind_event *event = s->count > 4 ? world_event(w, s->words[4]) : NULL;
  if (b == NULL || w->failure[0] != '\0') return;
  iobind_status status =
      iobind_binding_set_input(b->handle, index, (iobind_input_mode)mode, t == NULL ? NULL : t->handle, event, world_error(w));
  if (!world_settle(w, status, w)) return;
  slot *bound = &b->inputs[index];
  slot *state = state_of(b, index);
  if (state != NULL) state->due = 0;
  no_value(bound);
  bound->is_set = 1;
  if (mode != IOBIND_INPUT_SNAPSHOT) {
    value_share(&bound->value, &t->value);
  } else if (!value_copy(&bound->value, &t->value)) {
    world_fail(w, "no memory for a mirror");
  }
}

static void output(world *w, const step *s) {
  static const char *const modes[] = {"fresh", "reuse", "none", "fixed", "in-place", NULL};
  binding *b = current(w);
  size_t index = (size_t)world_number(w, s, 1);
  int32_t mode = find_mode(w, modes, world_word(w, s, 2));
  int takes_tensor = mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE;
  iobind_device *device = NULL;
  int32_t memory = IOBIND_MEMORY_DEFAULT;
  tensor *t = NULL;
  if (takes_tensor && strcmp(world_word(w, s, 3), "null") != 0) t = world_tensor(w, s->words[3]);
  if (!takes_tensor && s->count > 3 && !world_place(w, s->words[3], &device, &memory)) return;
  if (b == NULL || w->failure[0] != '\0') return;
  iobind_status status = call_binding_set_output(b->handle, index, (iobind_output_mode)mode, device, (iobind_memory)memory,
                                                 t == NULL ? NULL : t->handle, world_error(w));
  if (!world_settle(w, status, w)) return;
  slot *bound = &b->outputs[index];
  advance(b);
  no_value(bound);
  bound->carried = 0;
  bound->mode = mode;
  bound->device = device;
  bound->memory = memory;
  if (t != NULL) value_share(&bound->value, &t->value);
}

static void carry(world *w, const step *s) {
  static const char *const modes[] = {"default", "move", "swap", "in-place", NULL};
  binding *b = current(w);
  size_t from = (size_t)world_number(w, s, 1), to = (size_t)world_number(w, s, 2);
  int32_t mode = find_mode(w, modes, world_word(w, s, 3));
  if (b == NULL || w->failure[0] != '\0') return;
  if (!world_settle(w, iobind_binding_carry(b->handle, from, to, (iobind_carry_mode)mode, world_error(w)), w)) return;
  slot *bound = &b->outputs[from];
  advance(b);
  no_value(bound);
  bound->carried = 1;
  bound->to = to;
  bound->mode = mode == IOBIND_CARRY_IN_PLACE ? OUTPUT_IN_PLACE : IOBIND_OUTPUT_FRESH;
  bound->device = b->session->inputs[to].device;
  bound->memory = b->session->inputs[to].memory;
}

/* update I SEED [BYTES|S]: a number of bytes other than the input's own, or a stream. */
static void update(world *w, const step *s) {
  binding *b = current(w);
  size_t index = (size_t)world_number(w, s, 1);
  int64_t seed = world_number(w, s, 2);
  if (b == NULL || w->failure[0] != '\0') return;
  slot *bound = index < WORLD_SLOTS && b->inputs[index].is_set ? &b->inputs[index] : NULL;
  size_t own = bound == NULL ? 4 : value_bytes(&bound->value);
  int number = s->count > 3 && s->words[3][0] >= '0' && s->words[3][0] <= '9';
  size_t bytes = number ? (size_t)world_number(w, s, 3) : own;
  iobind_stream *stream = s->count > 3 && !number ? world_stream(w, s->words[3]) : NULL;
  unsigned char *data = world_keep(w, bytes > own ? bytes : own);
  if (data == NULL) return;
  if (bound != NULL) value_pattern(&bound->value, seed, data);
  if (!world_settle(w, iobind_binding_write_input(b->handle, index, data, bytes, stream, world_error(w)), w)) return;
  advance(b);
  if (bound == NULL) {
    world_fail(w, "an input that is not bound was updated");
  } else {
    memcpy(value_data(&bound->value), data, bytes);
  }
}

static void ready(world *w, const step *s) {
  binding *b = current(w);
  (void)s;
  if (b != NULL) world_settle(w, iobind_binding_check(b->handle, world_error(w)), w);
}

static void clear(world *w, const step *s) {
  binding *b = current(w);
  (void)s;
  if (b == NULL || !world_settle(w, iobind_binding_clear(b->handle, world_error(w)), w)) return;
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    slot empty = {0};
    value_release(&b->inputs[i].value);
    value_release(&b->outputs[i].value);
    b->inputs[i] = b->outputs[i] = empty;
  }
}

static void tag(world *w, const step *s) {
  binding *b = current(w);
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  if (b == NULL) return;
  if (s->count > 1) options.tag = s->words[1];
  iobind_status status = iobind_binding_set_run_options(b->handle, s->count > 1 ? &options : NULL, world_error(w));
  world_settle(w, status, w);
}

/* ---- runs ---- */

static size_t compute(world *w, const binding *b, value outputs[REFERENCE_MAX_VALUES]) {
  value inputs[WORLD_SLOTS];
  for (size_t i = 0; i < WORLD_SLOTS; i++) inputs[i] = b->inputs[i].value;
  for (size_t i = 0; i < b->session->input_count; i++) {
    if (b->inputs[i].is_set) continue;
    world_fail(w, "the run succeeded without input %zu", i);
    return 0;
  }
  size_t count = reference_run(b->session->spec, inputs, outputs);
  if (count != b->session->output_count) world_fail(w, "script: no reference for '%s' with these inputs", b->session->spec);
  return count;
}

/* What the run must have left in an output. */
static void apply(world *w, const binding *b, size_t index, slot *bound, value *computed) {
  int keeps = bound->mode == OUTPUT_FIXED || bound->mode == OUTPUT_IN_PLACE;
  int same_dims = bound->value.mirror != NULL && bound->value.rank == computed->rank &&
                  memcmp(bound->value.dims, computed->dims, computed->rank * sizeof computed->dims[0]) == 0;
  if (bound->mode == IOBIND_OUTPUT_REUSE) keeps = same_dims && !bound->taken;
  if (keeps && !same_dims) {
    world_fail(w, "the run succeeded with a FIXED output of another shape");
  } else if (keeps) {
    memcpy(value_data(&bound->value), value_data(computed), value_bytes(computed));
    value_release(computed);
  } else {
    value_release(&bound->value);
    bound->value = *computed;
    bound->value.device = bound->device != NULL ? bound->device : b->session->outputs[index].device;
    bound->value.memory = bound->device != NULL ? bound->memory : b->session->outputs[index].memory;
    bound->taken = 0;
  }
}

static void run(world *w, const step *s) {
  binding *b = current(w);
  value outputs[REFERENCE_MAX_VALUES];
  iobind_stream *stream = s->count > 1 ? world_stream(w, s->words[1]) : NULL;
  iobind_event *event = s->count > 2 ? world_event(w, s->words[2]) : NULL;
  memset(outputs, 0, sizeof outputs);
  if (b == NULL || w->failure[0] != '\0') return;
  if (!world_settle(w, call_binding_run(b->handle, stream, event, world_error(w)), w)) return;
  advance(b);
  size_t count = compute(w, b, outputs);
  for (size_t i = 0; i < count && w->failure[0] == '\0'; i++) {
    slot *bound = &b->outputs[i];
    if (bound->carried && bound->mode == OUTPUT_IN_PLACE) {
      no_value(bound);
      value_share(&bound->value, &b->inputs[bound->to].value);
      bound->value.device = bound->device; /* a SNAPSHOT's copy is there, whatever it is of */
      bound->value.memory = bound->memory;
    }
    apply(w, b, i, bound, &outputs[i]);
    bound->due = bound->carried;
  }
}

/* get, keep and take: borrowed, borrowed with a reference more, handed over. */
static void fetch(world *w, const step *s, int takes, int retains) {
  binding *b = current(w);
  iobind_tensor *handle = (iobind_tensor *)w;
  size_t index = (size_t)world_number(w, s, 2);
  if (b == NULL || w->failure[0] != '\0') return;
  iobind_status status = takes ? iobind_binding_take_output(b->handle, index, &handle, world_error(w))
                               : iobind_binding_get_output(b->handle, index, NULL, &handle, world_error(w));
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  int good = world_settle(w, status, handle);
  slot *bound = index < WORLD_SLOTS ? &b->outputs[index] : NULL;
  if (good && bound != NULL && bound->value.mirror == NULL) world_fail(w, "an output was given that no run has made");
  tensor *t = w->failure[0] == '\0' && good ? world_add_tensor(w, s->words[1]) : NULL;
  if (t == NULL) {
    if (status == IOBIND_OK && takes) iobind_tensor_release(handle);
    return;
  }
  t->handle = retains ? iobind_tensor_retain(handle) : handle;
  t->borrowed = !takes && !retains;
  if (bound == NULL) {
    world_fail(w, "an output was given beyond the last one");
    return;
  }
  value_share(&t->value, &bound->value);
  bound->taken |= takes;
}

static void get(world *w, const step *s) {
  fetch(w, s, 0, 0);
}

static void keep(world *w, const step *s) {
  fetch(w, s, 0, 1);
}

static void take(world *w, const step *s) {
  fetch(w, s, 1, 0);
}

/* ---- the run without a binding ---- */

static iobind_tensor *host_copy(world *w, const value *v) {
  iobind_tensor *handle = NULL;
  if (!world_must(w, iobind_tensor_create(w->host, IOBIND_MEMORY_DEFAULT, (iobind_dtype)v->dtype, v->dims, v->rank, &handle,
                                          world_error(w)))) {
    return NULL;
  }
  for (size_t i = 0; v->dtype == IOBIND_DTYPE_STRING && i < value_count(v); i++) {
    char text[128];
    uint32_t number;
    memcpy(&number, value_data(v) + i * sizeof number, sizeof number);
    value_string(number, text, sizeof text);
    world_must(w, iobind_tensor_set_string(handle, i, text, world_error(w)));
  }
  if (v->dtype != IOBIND_DTYPE_STRING) {
    world_must(w, iobind_tensor_write(handle, 0, value_data(v), value_bytes(v), NULL, world_error(w)));
  }
  return handle;
}

/* Runs the session on host copies of what is bound; the outputs become the tensors NAME0, NAME1, ... */
static void unbound(world *w, const step *s) {
  binding *b = current(w);
  iobind_tensor *inputs[WORLD_SLOTS] = {NULL}, *handles[WORLD_SLOTS] = {NULL};
  value outputs[REFERENCE_MAX_VALUES];
  const char *name = world_word(w, s, 1);
  memset(outputs, 0, sizeof outputs);
  if (b == NULL || w->failure[0] != '\0') return;
  for (size_t i = 0; i < b->session->input_count; i++) {
    if (b->inputs[i].is_set) inputs[i] = host_copy(w, &b->inputs[i].value);
  }
  int good = world_settle(w, call_session_run(b->session->handle, inputs, handles, world_error(w)), w);
  size_t count = good ? compute(w, b, outputs) : 0;
  for (size_t i = 0; i < count; i++) {
    char numbered[32];
    snprintf(numbered, sizeof numbered, "%.8s%zu", name, i);
    tensor *t = world_add_tensor(w, numbered);
    if (t == NULL) break;
    t->handle = handles[i];
    t->value = outputs[i];
    t->value.device = w->host;
  }
  for (size_t i = 0; i < WORLD_SLOTS; i++) iobind_tensor_release(inputs[i]);
}

const keyword binding_keywords[] = {
    {"open", open_session},
    {"bind", bind},
    {"use", use},
    {"drop-binding", drop_binding},
    {"drop-session", drop_session},
    {"signature", signature},
    {"find", find},
    {"input", input},
    {"output", output},
    {"carry", carry},
    {"update", update},
    {"ready", ready},
    {"clear", clear},
    {"tag", tag},
    {"run", run},
    {"get", get},
    {"keep", keep},
    {"take", take},
    {"unbound", unbound},
    {NULL, NULL},
};
