#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script.h"
#include "../rig/calls.h"

/* Steps on saved states. What a state must hold is copied when it is saved, and never changes. */

static named_state *find_state(world *w, const char *name) {
  for (size_t i = 0; i < w->state_count; i++) {
    if (w->states[i].handle != NULL && strcmp(w->states[i].name, name) == 0) return &w->states[i];
  }
  world_fail(w, "script: no state '%s'", name);
  return NULL;
}

static named_state *add_state(world *w, const char *name, iobind_state *handle) {
  for (size_t i = 0; i < w->state_count; i++) {
    if (strcmp(w->states[i].name, name) == 0) world_drop_state(&w->states[i]);
  }
  if (w->state_count == WORLD_NAMES) {
    world_fail(w, "script: too many states");
    iobind_state_release(handle);
    return NULL;
  }
  named_state *named = &w->states[w->state_count++];
  memset(named, 0, sizeof *named);
  named->handle = handle;
  snprintf(named->name, sizeof named->name, "%s", name);
  return named;
}

static void copy_value(world *w, value *to, const value *from) {
  if (!value_copy(to, from)) world_fail(w, "no memory for a mirror");
}

/* save S: of the current binding. */
static void save(world *w, const step *s) {
  binding *b = w->current;
  iobind_state *handle = (iobind_state *)w;
  if (b == NULL || w->failure[0] != '\0') return;
  iobind_status status = iobind_binding_save_state(b->handle, &handle, world_error(w));
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  if (!world_settle(w, status, handle)) return;
  named_state *named = add_state(w, world_word(w, s, 1), handle);
  if (named == NULL) return;
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    const slot *from = &b->outputs[i];
    if (!from->carried) continue;
    named->holds[from->to] = 1;
    named->from[from->to] = i;
    copy_value(w, &named->values[from->to], from->due ? &from->value : &b->inputs[from->to].value);
    named->values[from->to].device = from->device;
    named->values[from->to].memory = from->memory;
  }
}

static int same_type(const value *a, const value *b) {
  return a->mirror != NULL && a->dtype == b->dtype && a->rank == b->rank &&
         memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* restore S: the current binding continues from it. */
static void restore(world *w, const step *s) {
  binding *b = w->current;
  named_state *named = find_state(w, world_word(w, s, 1));
  if (b == NULL || named == NULL || w->failure[0] != '\0') return;
  if (!world_settle(w, iobind_binding_restore_state(b->handle, named->handle, world_error(w)), w)) return;
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    if (!named->holds[i]) continue;
    slot *input = &b->inputs[i];
    slot *output = &b->outputs[named->from[i]];
    output->due = 0;
    if (output->mode == OUTPUT_IN_PLACE && same_type(&input->value, &named->values[i])) {
      memcpy(value_data(&input->value), value_data(&named->values[i]), value_bytes(&input->value));
    } else {
      value_release(&input->value);
      copy_value(w, &input->value, &named->values[i]);
    }
    input->is_set = 1;
  }
}

/* Rows of an axis: whole bytes for each element. */
static int permute(value *of, size_t axis, const int64_t *rows, size_t count) {
  value made = *of;
  made.mirror = NULL;
  made.offset = 0;
  made.dims[axis] = (int64_t)count;
  if (!value_allocate(&made)) return 0;
  size_t inner = value_count(of) == 0 ? 0 : value_bytes(of) / value_count(of);
  size_t outer = 1;
  for (size_t i = 0; i < axis; i++) outer *= (size_t)of->dims[i];
  for (size_t i = axis + 1; i < of->rank; i++) inner *= (size_t)of->dims[i];
  for (size_t o = 0; o < outer; o++) {
    for (size_t r = 0; r < count; r++) {
      const unsigned char *from = value_data(of) + (o * (size_t)of->dims[axis] + (size_t)rows[r]) * inner;
      memcpy(value_data(&made) + (o * count + r) * inner, from, inner);
    }
  }
  value_release(of);
  *of = made;
  return 1;
}

static void reorder_slot(world *w, binding *b, slot *from, size_t axis, const int64_t *rows, size_t count) {
  slot *input = &b->inputs[from->to];
  value next = {0};
  copy_value(w, &next, from->due ? &from->value : &input->value);
  if (!permute(&next, axis, rows, count)) world_fail(w, "no memory for a mirror");
  if (from->mode == OUTPUT_IN_PLACE && same_type(&input->value, &next)) {
    memcpy(value_data(&input->value), value_data(&next), value_bytes(&next));
    value_release(&next);
  } else {
    value_release(&input->value);
    input->value = next;
  }
  from->due = 0;
}

/* reorder AXIS R,R,...: rows of all states of the current binding. */
static void reorder(world *w, const step *s) {
  binding *b = w->current;
  int64_t rows[16];
  size_t count = 0;
  size_t axis = (size_t)world_number(w, s, 1);
  const char *text = world_word(w, s, 2);
  for (char *end; *text != '\0' && *text != '-' && count < 16; text = *end == ',' ? end + 1 : end) {
    rows[count++] = strtoll(text, &end, 10);
  }
  if (b == NULL || w->failure[0] != '\0') return;
  if (!world_settle(w, iobind_binding_reorder_state(b->handle, axis, rows, count, world_error(w)), w)) return;
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    if (b->outputs[i].carried) reorder_slot(w, b, &b->outputs[i], axis, rows, count);
  }
}

/* rewind N A,A,...: so many rows of the states of the current binding stay, each on its axis in the order of the outputs; the last axis is that
 * of all others. */
static void rewind_states(world *w, const step *s) {
  binding *b = w->current;
  int64_t rows[64];
  int64_t length = world_number(w, s, 1);
  const char *axes = world_word(w, s, 2);
  int changes = 0;
  if (length > 64) world_fail(w, "script: too many rows");
  if (b == NULL || w->failure[0] != '\0') return;
  if (!world_settle(w, iobind_binding_rewind_state(b->handle, (size_t)length, world_error(w)), w)) return;
  for (int64_t i = 0; i < 64; i++) rows[i] = i;
  for (size_t i = 0; i < WORLD_SLOTS; i++) {
    slot *from = &b->outputs[i];
    if (!from->carried) continue;
    size_t axis = (size_t)(*axes - '0');
    const value *state = from->due ? &from->value : &b->inputs[from->to].value;
    changes = changes || state->dims[axis] != length;
    if (changes) reorder_slot(w, b, from, axis, rows, (size_t)length);
    if (axes[1] == ',') axes += 2;
  }
}

/* kind O I KIND [AXIS]: of the state that output O leaves for input I. */
static void kind(world *w, const step *s) {
  static const char *const words[] = {"unknown", "recurrent", "growing", "window", "capacity"};
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  size_t axis = s->count > 4 ? (size_t)world_number(w, s, 4) : SIZE_MAX;
  if (w->current == NULL || w->failure[0] != '\0') return;
  iobind_status status = iobind_session_get_state_kind(w->current->session->handle, (size_t)world_number(w, s, 1),
                                                       (size_t)world_number(w, s, 2), &info, world_error(w));
  if (!world_settle(w, status, w)) return;
  if (strcmp(words[info.kind], world_word(w, s, 3)) != 0 || info.axis != axis) {
    world_fail(w, "expected the kind '%s', got '%s' of axis %zu", world_word(w, s, 3), words[info.kind], info.axis);
  }
}

/* state T S I: the tensor of a state that is for input I. */
static void state(world *w, const step *s) {
  named_state *named = find_state(w, world_word(w, s, 2));
  size_t input = (size_t)world_number(w, s, 3);
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  if (named == NULL || !world_must(w, iobind_state_get_info(named->handle, &info, world_error(w)))) return;
  iobind_status status = IOBIND_ERROR_NOT_FOUND;
  for (size_t i = 0; i < info.pair_count; i++) {
    status = iobind_state_get_pair(named->handle, i, &pair, world_error(w));
    if (status != IOBIND_OK || pair.input == input) break;
  }
  if (!world_settle(w, status, w)) return;
  tensor *t = world_add_tensor(w, world_word(w, s, 1));
  if (t == NULL) return;
  t->handle = iobind_tensor_retain(pair.tensor);
  value_share(&t->value, &named->values[input]);
  if (pair.output != named->from[input]) world_fail(w, "input %zu is from output %zu", input, pair.output);
}

static void drop_state(world *w, const step *s) {
  named_state *named = find_state(w, world_word(w, s, 1));
  if (named != NULL) world_drop_state(named);
}

/* A file of the row's own. */
static void state_path(const char *name, char path[128]) {
  const char *directory = getenv("TMPDIR");
  snprintf(path, 128, "%.64s/iobind-state-%ld-%.31s", directory == NULL ? "/tmp" : directory, (long)getpid(), name);
}

/* write-state S F, read-state S F: into a file and from it, for the current session. */
static void write_state(world *w, const step *s) {
  named_state *named = find_state(w, world_word(w, s, 1));
  char path[128];
  state_path(world_word(w, s, 2), path);
  if (named != NULL) world_settle(w, iobind_state_save(named->handle, path, world_error(w)), w);
}

/* read-state S F OF: what it holds is what the state OF does. */
static void read_state(world *w, const step *s) {
  named_state *like = find_state(w, world_word(w, s, 3));
  iobind_state *handle = (iobind_state *)w;
  char path[128];
  if (w->current == NULL || like == NULL) return;
  state_path(world_word(w, s, 2), path);
  iobind_status status = iobind_state_load(w->current->session->handle, path, &handle, world_error(w));
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  if (!world_settle(w, status, handle)) return;
  named_state *named = add_state(w, world_word(w, s, 1), handle);
  for (size_t i = 0; named != NULL && i < WORLD_SLOTS; i++) {
    if (!like->holds[i]) continue;
    named->holds[i] = 1;
    named->from[i] = like->from[i];
    copy_value(w, &named->values[i], &like->values[i]);
    named->values[i].device = w->current->session->inputs[i].device;
    named->values[i].memory = w->current->session->inputs[i].memory;
  }
}

static void drop_file(world *w, const step *s) {
  char path[128];
  state_path(world_word(w, s, 1), path);
  if (remove(path) != 0) world_fail(w, "there is no file '%s'", path);
}

const keyword state_keywords[] = {
    {"save", save},
    {"restore", restore},
    {"reorder", reorder},
    {"rewind", rewind_states},
    {"kind", kind},
    {"state", state},
    {"drop-state", drop_state},
    {"write-state", write_state},
    {"read-state", read_state},
    {"drop-file", drop_file},
    {NULL, NULL},
};
