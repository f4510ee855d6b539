#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"
#include "script.h"
#include "../rig/calls.h"

/* Steps on pipelines, and on faults that a virtual device is asked for. What an item must become is computed when it is pulled, from
 * copies of what it was when it was submitted. */

static named_pipeline *find_pipeline(world *w, const char *name) {
  for (size_t i = 0; i < w->pipeline_count; i++) {
    if (w->pipelines[i].handle != NULL && strcmp(w->pipelines[i].name, name) == 0) return &w->pipelines[i];
  }
  world_fail(w, "script: no pipeline '%s'", name);
  return NULL;
}

/* A word such as "1=T": the constant of an input. */
static void read_constant(world *w, const char *word, named_pipeline *made, iobind_tensor *constants[WORLD_SLOTS]) {
  char *end;
  size_t index = (size_t)strtoul(word, &end, 10);
  if (end == word || *end != '=' || index >= WORLD_SLOTS) {
    world_fail(w, "script: '%s' is not an option of a pipeline", word);
    return;
  }
  const tensor *t = world_tensor(w, end + 1);
  if (t == NULL) return;
  constants[index] = t->handle;
  made->is_constant[index] = 1;
  value_share(&made->constants[index], &t->value);
}

/* A word such as "0:device" or "1:none": where an output goes. */
static void read_place(world *w, const char *word, named_pipeline *made) {
  char *end;
  size_t index = (size_t)strtoul(word, &end, 10);
  int is_device = strcmp(end, ":device") == 0;
  if (index >= WORLD_SLOTS || (!is_device && strcmp(end, ":none") != 0)) {
    world_fail(w, "script: '%s' is not an option of a pipeline", word);
    return;
  }
  made->places[index] = is_device ? IOBIND_PLACE_DEVICE : IOBIND_PLACE_NONE;
}

static void pipeline(world *w, const step *s) {
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_tensor *constants[WORLD_SLOTS] = {NULL};
  if (w->current == NULL || w->pipeline_count == WORLD_PIPELINES) {
    world_fail(w, w->current == NULL ? "script: there is no session" : "script: too many pipelines");
    return;
  }
  named_pipeline *made = &w->pipelines[w->pipeline_count++];
  memset(made, 0, sizeof *made);
  snprintf(made->name, sizeof made->name, "%s", world_word(w, s, 1));
  for (size_t i = 2; i < s->count; i++) {
    if (strcmp(s->words[i], "stop") == 0) {
      options.flags |= IOBIND_PIPELINE_STOP;
    } else if (strcmp(s->words[i], "times") == 0) {
      options.flags |= IOBIND_PIPELINE_TIMES;
    } else if (strncmp(s->words[i], "slots=", 6) == 0) {
      options.slots = (size_t)strtoul(s->words[i] + 6, NULL, 10);
    } else if (strchr(s->words[i], ':') != NULL) {
      read_place(w, s->words[i], made);
      options.placements = made->places;
    } else {
      read_constant(w, s->words[i], made, constants);
      options.constants = constants;
    }
  }
  if (w->failure[0] != '\0') return;
  iobind_pipeline *handle = (iobind_pipeline *)w;
  iobind_status status = call_pipeline_create(w->current->session->handle, &options, &handle, world_error(w));
  if (status != IOBIND_OK && handle != NULL) world_fail(w, "the call failed and left its out pointer");
  if (!world_settle(w, status, handle)) return;
  made->handle = handle;
  made->times = (options.flags & IOBIND_PIPELINE_TIMES) != 0;
  made->session = w->current->session;
  made->session->users++;
}

/* What an item brings. */
typedef struct item_inputs {
  const tensor *tensors[WORLD_SLOTS];
  iobind_tensor *handles[WORLD_SLOTS];
  iobind_event *events[WORLD_SLOTS];
} item_inputs;

/* Words from `first` on, one for each input: T, T:E with the event of its producer, or `null` for a constant one. */
static item_inputs read_inputs(world *w, const step *s, size_t first, const named_pipeline *p) {
  item_inputs read = {.tensors = {NULL}};
  for (size_t i = 0; p != NULL && i < p->session->input_count; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s", world_word(w, s, i + first));
    char *colon = strchr(name, ':');
    if (colon != NULL) {
      *colon = '\0';
      read.events[i] = world_event(w, colon + 1);
    }
    read.tensors[i] = strcmp(name, "null") == 0 ? NULL : world_tensor(w, name);
    read.handles[i] = read.tensors[i] == NULL ? NULL : read.tensors[i]->handle;
  }
  return read;
}

/* An item was submitted: remember what it was. */
static void keep_item(world *w, named_pipeline *p, const item_inputs *inputs, uintptr_t tag) {
  if (p->submitted - p->pulled == WORLD_ITEMS) {
    world_fail(w, "script: more items in flight than the runner keeps");
    return;
  }
  p->tags[p->submitted % WORLD_ITEMS] = tag;
  value *kept = p->items[p->submitted++ % WORLD_ITEMS];
  for (size_t i = 0; i < p->session->input_count; i++) {
    value_release(&kept[i]);
    if (p->is_constant[i]) {
      value_share(&kept[i], &p->constants[i]);
    } else if (!value_copy(&kept[i], &inputs->tensors[i]->value)) {
      world_fail(w, "no memory for a mirror");
    }
  }
}

/* submit P T ... */
static void submit(world *w, const step *s) {
  named_pipeline *p = find_pipeline(w, world_word(w, s, 1));
  const item_inputs inputs = read_inputs(w, s, 2, p);
  if (w->failure[0] != '\0' || p == NULL) return;
  if (world_settle(w, call_pipeline_submit(p->handle, inputs.handles, p->session->input_count, world_error(w)), w))
    keep_item(w, p, &inputs, 0);
}

/* request P TAG T[:E] ... */
static void submit_request(world *w, const step *s) {
  named_pipeline *p = find_pipeline(w, world_word(w, s, 1));
  uintptr_t tag = (uintptr_t)world_number(w, s, 2);
  const item_inputs inputs = read_inputs(w, s, 3, p);
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = inputs.handles;
  request.events = inputs.events;
  request.tag = (void *)tag;
  if (w->failure[0] != '\0' || p == NULL) return;
  request.input_count = p->session->input_count;
  request.event_count = p->session->input_count;
  if (world_settle(w, iobind_pipeline_submit(p->handle, &request, world_error(w)), w)) keep_item(w, p, &inputs, tag);
}

/* Where an output of an item is: where the session leaves it if that is the host's or was asked for, otherwise in pinned memory if there
 * is some. */
static void place_output(const world *w, const iobind_value_info *info, int32_t place, value *v) {
  int stays = place == IOBIND_PLACE_DEVICE || info->memory == IOBIND_MEMORY_HOST_ACCESSIBLE || info->device == w->host ||
              (w->info.flags & IOBIND_DEVICE_HOST_MEMORY) != 0;
  int has_pinned = (w->info.flags & IOBIND_DEVICE_HOST_ACCESSIBLE) != 0;
  v->device = stays ? info->device : has_pinned ? w->device : w->host;
  v->memory = stays ? info->memory : has_pinned ? IOBIND_MEMORY_HOST_ACCESSIBLE : IOBIND_MEMORY_DEFAULT;
}

/* The stages follow one another, and have times where they were asked for. */
static void check_times(world *w, const named_pipeline *p, const iobind_pipeline_item *item) {
  uint64_t before = item->submit_ns;
  const uint64_t ends[3] = {item->upload_ns, item->run_ns, item->download_ns};
  if (before == 0 || (p->times && item->run_ns == 0)) world_fail(w, "an item without its times");
  for (size_t i = 0; i < 3; i++) {
    if (!p->times && ends[i] != 0) world_fail(w, "a time that was not asked for");
    if (ends[i] != 0 && ends[i] < before) world_fail(w, "stage %zu ended before the one in front of it", i);
    before = ends[i] != 0 ? ends[i] : before;
  }
}

/* next P N [T ...]: the item must be number N; its outputs become tensors, `-` leaves one out. */
static void next(world *w, const step *s) {
  named_pipeline *p = find_pipeline(w, world_word(w, s, 1));
  uint64_t number = (uint64_t)world_number(w, s, 2);
  iobind_tensor *outputs[WORLD_SLOTS];
  value computed[REFERENCE_MAX_VALUES];
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  memset(computed, 0, sizeof computed);
  if (p == NULL || w->failure[0] != '\0') return;
  for (size_t i = 0; i < WORLD_SLOTS; i++) outputs[i] = (iobind_tensor *)w;
  iobind_status status =
      iobind_pipeline_next(p->handle, IOBIND_NO_TIMEOUT, outputs, p->session->output_count, &item, world_error(w));
  int was_under_way = p->pulled < p->submitted;
  const value *inputs = p->items[p->pulled % WORLD_ITEMS];
  p->pulled += (uint64_t)was_under_way;
  for (size_t i = 0; status != IOBIND_OK && i < p->session->output_count; i++) {
    if (outputs[i] != NULL) world_fail(w, "the call failed and left output %zu", i);
  }
  if (was_under_way && item.index != number)
    world_fail(w, "expected item %s, got %llu", s->words[2], (unsigned long long)item.index);
  if (!world_settle(w, status, w)) return;
  check_times(w, p, &item);
  uintptr_t tag = p->tags[number % WORLD_ITEMS];
  if ((uintptr_t)item.tag != tag) world_fail(w, "expected the tag %ju, got %p", (uintmax_t)tag, item.tag);
  if (reference_run(p->session->spec, inputs, computed) != p->session->output_count)
    world_fail(w, "script: no reference for '%s' with these inputs", p->session->spec);
  for (size_t i = 0; i < p->session->output_count; i++) {
    place_output(w, &p->session->outputs[i], p->places[i], &computed[i]);
    if ((outputs[i] == NULL) != (p->places[i] == IOBIND_PLACE_NONE)) world_fail(w, "output %zu: %p", i, (void *)outputs[i]);
    tensor *t = i + 3 < s->count && strcmp(s->words[i + 3], "-") != 0 ? world_add_tensor(w, s->words[i + 3]) : NULL;
    if (t == NULL) {
      value_release(&computed[i]);
      continue;
    }
    t->handle = outputs[i];
    t->borrowed = 1;
    t->value = computed[i];
  }
}

static void drop_pipeline(world *w, const step *s) {
  named_pipeline *p = find_pipeline(w, world_word(w, s, 1));
  if (p != NULL) world_drop_pipeline(p);
}

/* fault SETTING VALUE: of a virtual device; the row's end takes it back. */
static void fault(world *w, const step *s) {
  const char *setting = world_word(w, s, 1), *to = world_word(w, s, 2);
  world_setter *set = world_faults(w);
  if (set == NULL || set(0, setting, to) != 0) world_fail(w, "script: '%s %s' is no fault", setting, to);
}

void script_forget_faults(const world *w) {
  static const char *const settings[] = {"fail_copy", "fail_compute", "fail_alloc", "fail_pinned"};
  world_setter *set = world_faults(w);
  for (size_t i = 0; set != NULL && i < sizeof settings / sizeof settings[0]; i++) (void)set(0, settings[i], "0");
}

const keyword pipeline_keywords[] = {
    {"pipeline", pipeline}, {"submit", submit}, {"request", submit_request}, {"next", next}, {"drop-pipeline", drop_pipeline},
    {"fault", fault},       {NULL, NULL},
};
