#define _POSIX_C_SOURCE 200809L /* setenv */

#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "current.h"
#include "faults.h"
#include "pages.h"
#include "vdev.h"
#include "../../tests/rig/calls.h"

static world worlds[WORLDS] = {{.number = 0}, {.number = 1}};
world *the_world = &worlds[0];
bool without_swap, without_in_place;
bool verbose;
bool loses_devices;
iobind_error the_error;

#define W the_world

/* ---- calls ---- */

static char the_call[256];
static bool fault_stood;
uint64_t call_count;

void say(const char *format, ...) {
  if (!verbose) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
}

void begin_call(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(the_call, sizeof the_call, format, arguments);
  va_end(arguments);
  call_count++;
  fault_stood = fault_is_set();
  if (fault_stood) {
    char *count = strchr(W->fault, '=');
    *count = '\0';
    CHECK(device_set(W->fault, count + 1));
    *count = '=';
  }
  say("%s%s%s%s", the_call, fault_stood ? " [" : "", W->fault, fault_stood ? "]" : "");
  the_error = armed();
}

iobind_status end_call(iobind_status status) {
  if (fault_stood) {
    *strchr(W->fault, '=') = '\0';
    CHECK(device_set(W->fault, "0"));
    W->fault[0] = '\0';
  }
  say(" -> %s%s%s\n", iobind_status_get_name((int32_t)status), status == IOBIND_OK ? "" : ": ",
      status == IOBIND_OK ? "" : the_error.message);
  check_call(status, &the_error, true);
  if (!current_is_kept()) fail("the caller's current device has changed");
  return status;
}

bool fault_is_set(void) {
  return W->fault[0] != '\0';
}

bool fault_was_set(void) {
  return fault_stood;
}

void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "\nWRONG: %s: ", the_call);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  abort();
}

static void name_statuses(unsigned set, char *text, size_t room) {
  text[0] = '\0';
  for (int32_t i = 0; i < 32; i++) {
    if ((set & 1u << i) == 0) continue;
    size_t length = strlen(text);
    snprintf(text + length, room - length, "%s%s", length == 0 ? "" : " or ", iobind_status_get_name(i));
  }
}

bool require(expectation expected, iobind_status status) {
  unsigned allowed = expected.may | (expected.must != 0 ? expected.must : 1u << IOBIND_OK);
  if (fault_stood) allowed |= STATUS(RUNTIME) | STATUS(OUT_OF_MEMORY);
  if (W->is_doomed) allowed |= STATUS(DEVICE_LOST);
  if ((allowed & 1u << status) == 0) {
    char names[256];
    name_statuses(allowed, names, sizeof names);
    fail("expected %s, got %s%s%s", names, iobind_status_get_name((int32_t)status), status == IOBIND_OK ? "" : ": ",
         status == IOBIND_OK ? "" : the_error.message);
  }
  W->is_lost = W->is_lost || status == IOBIND_ERROR_DEVICE_LOST;
  return status == IOBIND_OK;
}

bool require_ok(iobind_status status) {
  return require((expectation){0}, status);
}

/* ---- the caller's memory ---- */

enum { FLOATS = 16384 };
static float floats[FLOATS];
static size_t floats_used;

float *world_memory(size_t count) {
  if (floats_used + count > FLOATS) floats_used = 0; /* reused so late that all streams have been waited for */
  float *memory = floats + floats_used;
  floats_used += count;
  return memory;
}

void world_new_values(float *values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = W->next_value + (float)i / 8;
  W->next_value += 1;
}

/* ---- a sequence ---- */

static void *model_files[MODELS];
static size_t model_bytes[MODELS];

static iobind_runtime *make_runtime(void) {
  iobind_runtime *made = NULL;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  iobind_error error = IOBIND_ERROR_INIT;
  if (setenv("VDEV_DEVICES", "2", 0) != 0) abort();
  if (iobind_runtime_create(&options, &made, &error) != IOBIND_OK) {
    fprintf(stderr, "no ONNX Runtime: %s\n", error.message);
    exit(1);
  }
  return made;
}

static bool find_home(world *self, iobind_runtime *runtime, const char *spec, iobind_error *error) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (iobind_runtime_find_device(runtime, spec, &self->home, NULL, error) != IOBIND_OK) return false;
  CHECK(iobind_device_get_info(self->home, &info, NULL) == IOBIND_OK);
  self->runtime = runtime;
  self->host = iobind_runtime_get_device(runtime, 0);
  self->at_host = self->home == self->host;
  self->is_virtual = strcmp(info.ep_name, "VirtualDeviceExecutionProvider") == 0;
  self->is_vcuda = strcmp(info.ep_name, "CUDAExecutionProvider") == 0 && vcuda_is_here();
  self->judges = self->at_host || self->is_virtual;
  self->has_pinned = (info.flags & IOBIND_DEVICE_HOST_ACCESSIBLE) != 0;
  self->addressable = (info.flags & IOBIND_DEVICE_ADDRESSABLE) != 0;
  if (self->is_virtual) CHECK(vdev_set(self->number, "deny", "Mean") == 0);
  return true;
}

bool world_start(const char *spec) {
  char second[64];
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime *runtime = make_runtime();
  snprintf(second, sizeof second, "%s:1", spec);
  if (!find_home(&worlds[0], runtime, spec, &error)) {
    fprintf(stderr, "%s\n", error.message);
    iobind_runtime_destroy(runtime);
    return false;
  }
  (void)find_home(&worlds[1], runtime, second, NULL);
  current_start();
  for (size_t i = 0; i < MODELS; i++) model_files[i] = model_write(&models[i], &model_bytes[i]);
  return true;
}

void world_stop(void) {
  iobind_runtime *runtime = worlds[0].runtime;
  for (size_t w = 0; w < WORLDS; w++) {
    for (size_t i = 0; i < SESSIONS; i++) iobind_session_destroy(worlds[w].sessions[i]);
    worlds[w] = (world){.number = (int)w};
  }
  for (size_t i = 0; i < MODELS; i++) free(model_files[i]);
  iobind_runtime_destroy(runtime);
}

bool world_has_other(void) {
  return worlds[1].runtime != NULL;
}

bool world_has_lost(void) {
  return worlds[0].is_lost || worlds[1].is_lost;
}

bool world_other_works(void) {
  return world_has_other() && !worlds[1 - the_world->number].is_lost;
}

void world_change(void) {
  the_world->blocks = all_blocks;
  the_world = &worlds[1 - the_world->number];
  all_blocks = the_world->blocks;
  say("  on device %d from now on\n", the_world->number);
}

bool world_is_working(void) {
  bool any = false;
  for (size_t i = 0; i < STREAMS; i++) any = any || W->lanes[i].submitted > W->lanes[i].seen;
  return any;
}

static void begin(void) {
  enum { NUMBERS = 1 << 20 }; /* the worlds' bindings have different numbers */
  W->next_value = 1;
  W->numbers = (unsigned)W->number * NUMBERS;
  if (W->is_virtual)
    CHECK(vdev_set(W->number, "race", "fail") == 0 && vdev_set(W->number, "compute_us", "0") == 0 &&
          vdev_set(W->number, "latency_us", "0") == 0);
  for (size_t i = 0; i < BINDINGS; i++) W->bindings[i].flight.stream = -1;
}

static void for_each_world(void (*act)(void)) {
  const size_t count = world_has_other() ? 2 : 1;
  for (size_t i = 0; i < count; i++) {
    act();
    if (count == 2) world_change();
  }
}

void world_begin(void) {
  if (W->number == 1) world_change();
  for_each_world(begin);
}

const model *world_model(size_t session) {
  return &models[session % MODELS];
}

iobind_session *world_session(size_t which) {
  if (W->sessions[which] != NULL) return W->sessions[which];
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &W->home;
  options.device_count = 1;
  options.intra_op_threads = 1;
  const size_t file = which % MODELS;
  CHECK(iobind_session_create_from_memory(W->runtime, model_files[file], model_bytes[file], &options, &W->sessions[which],
                                          NULL) == IOBIND_OK);
  return W->sessions[which];
}

void world_destroy_session(size_t which) {
  if (W->sessions[which] != NULL) say("session_destroy(%s)\n", world_model(which)->name);
  iobind_session_destroy(W->sessions[which]);
  W->sessions[which] = NULL;
}

bound *world_binding(size_t index) {
  bound *one = &W->bindings[index];
  static const unsigned char sessions[BINDINGS] = {0, 0, 2, 1, MODELS};
  size_t which = sessions[index];
  if (one->handle != NULL) return one;
  iobind_session *session = world_session(which);
  begin_call("binding_create(%s%s, &b%zu)", world_model(which)->name, which < MODELS ? "" : " of another session", index);
  if (!require_ok(end_call(iobind_binding_create(session, &one->handle, &the_error)))) return NULL;
  one->session = session;
  shadow_init(&one->shadow, world_model(which), ++W->numbers);
  shadow_init(&one->before, world_model(which), W->numbers);
  one->flight = (flight){.stream = -1};
  one->failures = 0;
  one->ran_at = 0;
  one->reshaped = false;
  one->lent = (block){0};
  for (size_t i = 0; i < MOST_PORTS; i++) one->where[i] = PLACE_HOME;
  return one;
}

void world_destroy_binding(size_t index) {
  bound *one = &W->bindings[index];
  if (one->handle == NULL) return;
  say("binding_destroy(b%zu)\n", index);
  reached_if(FEATURE_DESTROYED, one->flight.stream >= 0 && one->flight.stamp > W->lanes[one->flight.stream].seen);
  iobind_binding_destroy(one->handle);
  one->handle = NULL;
  shadow_clear(&one->shadow);
  shadow_clear(&one->before);
  one->flight.stream = -1;
}

/* Destroy all objects in random order, while streams may still work. */
static void end(void) {
  W->fault[0] = '\0';
  world_check_all();
  for (size_t i = 0; i < BINDINGS; i++) world_destroy_binding(i);
  for (size_t i = 0; i < STREAMS; i++) {
    if (W->lanes[i].handle != NULL) (void)world_synchronize(i);
  }
  world_check_all();
  if (!W->is_lost) states_check();
  for (size_t i = 0; i < STATES; i++) state_drop(&W->states[i]);
  for (size_t i = 0; i < TENSORS; i++) world_release_tensor(i);
  for (size_t i = 0; i < EVENTS; i++) {
    iobind_event_destroy(W->points[i].handle);
    W->points[i] = (point){0};
  }
  for (size_t i = 0; i < STREAMS; i++) {
    iobind_stream_destroy(W->lanes[i].handle);
    W->lanes[i] = (lane){0};
  }
  CHECK(all_blocks == NULL);
}

void world_end(void) {
  for_each_world(end);
  pages_check();
}

/* ---- tensors ---- */

typedef struct recipe {
  place where;
  size_t count;
  int base; /* the slot of which this is a view; -1: none */
  size_t offset;
  bool wrapped; /* if it is host memory */
} recipe;

enum { INTEGERS = 13, MATRIX = 14 };
static const recipe recipes[OWN_TENSORS] = {
    {PLACE_HOME, 3, -1, 0, true},   {PLACE_HOME, 3, -1, 0, false}, {PLACE_HOME, 3, -1, 0, true},
    {PLACE_HOME, 3, -1, 0, false},  {PLACE_HOME, 2, -1, 0, true},  {PLACE_HOME, 1, -1, 0, true},
    {PLACE_HOME, 6, -1, 0, true},   {PLACE_HOME, 3, 6, 0, false},  {PLACE_HOME, 3, 6, 3, false},
    {PLACE_HOME, 3, 6, 1, false},   {PLACE_HOST, 3, -1, 0, true},  {PLACE_HOST, 2, -1, 0, true},
    {PLACE_PINNED, 3, -1, 0, true}, {PLACE_HOME, 3, -1, 0, false}, {PLACE_HOME, 3, -1, 0, false},
    {PLACE_HOME, 0, -1, 0, false}};

int world_index(const slot *of) {
  enum { APART = 100 };
  const bool is_second = of >= worlds[1].slots && of < worlds[1].slots + TENSORS;
  return is_second ? APART + (int)(of - worlds[1].slots) : (int)(of - worlds[0].slots);
}

static iobind_status make_memory(const recipe *from, iobind_dtype dtype, const int64_t *dims, size_t rank, slot *to) {
  iobind_device *device = to->where == PLACE_HOST || W->at_host ? W->host : W->home;
  bool pinned = from->where == PLACE_PINNED && W->has_pinned;
  char *page = from->wrapped && device == W->host && !pinned ? page_open() : NULL;
  size_t size = sizeof(float) * from->count;
  if (page == NULL) {
    begin_call("t%d = tensor_create(%s, %zu)", world_index(to),
               pinned              ? "pinned"
               : device == W->home ? "home"
                                   : "host",
               from->count);
    return end_call(iobind_tensor_create(device, pinned ? IOBIND_MEMORY_HOST_ACCESSIBLE : IOBIND_MEMORY_DEFAULT, dtype, dims,
                                         rank, &to->tensor, &the_error));
  }
  begin_call("t%d = tensor_wrap(host, %zu)", world_index(to), from->count);
  iobind_status status = end_call(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, dtype, dims, rank, page + page_bytes() - size,
                                                   size, page_close, page, &to->tensor, &the_error));
  if (status != IOBIND_OK) page_give_back();
  return status;
}

static void write_first_values(slot *to) {
  float values[MOST_ELEMENTS];
  world_new_values(values, to->at.count);
  say("  t%d = {%g ...}\n", world_index(to), to->at.count > 0 ? (double)values[0] : 0);
  view_write(to->at, values);
  if (to->at.count == 0 || !to->is_plain) return;
  CHECK(iobind_tensor_write(to->tensor, 0, values, sizeof(float) * to->at.count, NULL, NULL) == IOBIND_OK);
}

static void make_tensor(size_t index) {
  const recipe *from = &recipes[index];
  slot *to = &W->slots[index];
  if (from->offset > 0 && !W->addressable) return;
  const int64_t dims[2] = {index == MATRIX ? 1 : (int64_t)from->count, (int64_t)from->count};
  if (from->base >= 0) {
    slot *base = world_tensor((size_t)from->base);
    if (base == NULL) return;
    begin_call("t%zu = tensor_view(t%d, %zu, %zu)", index, from->base, from->offset, from->count);
    if (!require_ok(end_call(iobind_tensor_view(base->tensor, sizeof(float) * from->offset, IOBIND_DTYPE_FLOAT32, dims, 1,
                                                &to->tensor, &the_error)))) {
      return;
    }
    view_set(&to->at, (view){base->at.block, from->offset, from->count});
    to->is_plain = true;
    return;
  }
  to->where = from->where == PLACE_PINNED && !W->has_pinned ? PLACE_HOST : from->where;
  if (!require_ok(
          make_memory(from, index == INTEGERS ? IOBIND_DTYPE_INT32 : IOBIND_DTYPE_FLOAT32, dims, index == MATRIX ? 2 : 1, to)))
    return;
  to->is_plain = index != INTEGERS && index != MATRIX;
  view_set(&to->at, (view){block_make(from->count), 0, from->count});
  to->at.block->address = iobind_tensor_get_address(to->tensor);
  to->at.block->where = (int)to->where;
  write_first_values(to);
}

slot *world_tensor(size_t index) {
  slot *one = &W->slots[index];
  if (one->tensor == NULL && index < OWN_TENSORS) make_tensor(index);
  return one->tensor != NULL ? one : NULL;
}

slot *world_kept_slot(size_t hint) {
  for (size_t i = OWN_TENSORS; i < TENSORS; i++) {
    if (W->slots[i].tensor == NULL) return &W->slots[i];
  }
  world_release_tensor(OWN_TENSORS + hint % KEPT_TENSORS);
  return &W->slots[OWN_TENSORS + hint % KEPT_TENSORS];
}

void world_release_tensor(size_t index) {
  slot *one = &W->slots[index];
  if (one->tensor == NULL) return;
  say("tensor_release(t%zu)\n", index);
  iobind_tensor_release(one->tensor);
  view_drop(&one->at);
  *one = (slot){0};
}

bool world_fits(const slot *of, const port *to) {
  return of->is_plain && (to->dim != NULL ? of->at.count > 0 || strcmp(to->dim, "n") != 0 : of->at.count == to->count);
}

/* Would a tensor that is not created yet fit? */
bool world_may_fit(size_t index, const port *to, bool at_home) {
  const slot *one = &W->slots[index];
  if (one->tensor != NULL) return world_fits(one, to) && (!at_home || world_is_home(one, to));
  if (index >= OWN_TENSORS || index == INTEGERS || index == MATRIX) return false;
  const recipe *from = &recipes[index];
  if (from->offset > 0 && !W->addressable) return false;
  if (at_home && !W->at_host && (to->is_host ? from->where == PLACE_HOME : from->where != PLACE_HOME)) return false;
  return to->dim != NULL ? from->count > 0 || strcmp(to->dim, "n") != 0 : from->count == to->count;
}

bool world_is_home(const slot *of, const port *to) {
  bool is_host = to != NULL && to->is_host;
  bool is_here = of >= W->slots && of < W->slots + TENSORS;
  bool fits = W->at_host || (is_host ? of->where != PLACE_HOME : of->where == PLACE_HOME);
  return is_here && fits;
}

void compare(const float *got, view expected, const char *what) {
  elements values = view_read(expected);
  for (size_t i = 0; i < values.count; i++) {
    if (got[i] != values.at[i]) {
      fail("%s: element %zu: expected %.9g, got %.9g", what, i, (double)values.at[i], (double)got[i]);
    }
  }
}

void world_check_tensor(const slot *of) {
  if (of->tensor == NULL || !of->is_plain || of->at.count == 0) return;
  if (!view_is_known(of->at, 0) || world_is_busy(of->at.block, false)) return;
  if (W->is_lost && of->where == PLACE_HOME) return;
  float read[MOST_ELEMENTS];
  if (of->where != PLACE_HOME || W->at_host) {
    /* by its address, because iobind_tensor_get_data blocks until runs that read it are complete */
    const void *data = iobind_tensor_get_address(of->tensor);
    memcpy(read, data, sizeof(float) * of->at.count);
  } else {
    CHECK(iobind_tensor_read(of->tensor, 0, read, sizeof(float) * of->at.count, NULL, NULL) == IOBIND_OK);
  }
  char what[32];
  snprintf(what, sizeof what, "t%d is spoilt", world_index(of));
  compare(read, of->at, what);
}

void world_check_all(void) {
  for (size_t i = 0; i < TENSORS; i++) world_check_tensor(&W->slots[i]);
}

/* ---- streams ---- */

typedef struct arrival {
  const float *there;
  view expected;
  float values[MOST_ELEMENTS];
  bool known;
  uint64_t stamp;
} arrival;

enum { ARRIVALS = 16 };
typedef struct arrivals {
  arrival all[ARRIVALS];
  size_t count;
} arrivals;
static arrivals awaited[WORLDS][STREAMS];

void world_expect_bytes(size_t stream, const float *there, view expected) {
  arrivals *on = &awaited[W->number][stream];
  if (on->count == ARRIVALS) return;
  arrival *one = &on->all[on->count++];
  one->there = there;
  one->expected.count = expected.count;
  one->known = view_is_known(expected, 0);
  one->stamp = W->lanes[stream].submitted;
  elements values = view_read(expected);
  memcpy(one->values, values.at, sizeof values.at);
}

void world_forget_bytes(size_t stream) {
  awaited[W->number][stream].count = 0;
}

static const float unread = -1e30F;

void world_unread(float *there, size_t count) {
  for (size_t i = 0; i < count; i++) there[i] = unread;
}

static void check_undelivered(size_t stream, const arrival *one, bool has_failed) {
  size_t left = 0;
  size_t right = 0;
  for (size_t e = 0; e < one->expected.count; e++) {
    left += one->there[e] == unread;
    right += one->there[e] == one->values[e];
  }
  bool is_right = right == one->expected.count && !has_failed;
  if (one->known && left != one->expected.count && !is_right) {
    fail("a read on S%zu that the lost device has not made wrote %.9g", stream, (double)one->there[0]);
  }
}

void world_check_undelivered(size_t stream, uint64_t failed) {
  const arrivals *on = &awaited[W->number][stream];
  for (size_t i = 0; i < on->count; i++) check_undelivered(stream, &on->all[i], on->all[i].stamp >= failed);
  world_forget_bytes(stream);
}

static void look_at_arrivals(size_t stream) {
  size_t left = 0;
  arrivals *on = &awaited[W->number][stream];
  for (size_t i = 0; i < on->count; i++) {
    arrival *one = &on->all[i];
    if (one->stamp > W->lanes[stream].seen) {
      on->all[left++] = *one;
      continue;
    }
    for (size_t e = 0; one->known && e < one->expected.count; e++) {
      if (one->there[e] != one->values[e]) {
        fail("what was read on S%zu: element %zu: expected %.9g, got %.9g", stream, e, (double)one->values[e],
             (double)one->there[e]);
      }
    }
  }
  on->count = left;
}

iobind_stream *world_stream(size_t index) {
  lane *one = &W->lanes[index];
  if (one->handle == NULL) {
    begin_call("stream_create(home, &S%zu)", index);
    (void)require_ok(end_call(iobind_stream_create(W->home, NULL, &one->handle, &the_error)));
  }
  return one->handle;
}

point *world_point(size_t index) {
  point *one = &W->points[index];
  if (one->handle == NULL) {
    begin_call("event_create(home, &e%zu)", index);
    if (!require_ok(end_call(iobind_event_create(W->home, &one->handle, &the_error)))) return NULL;
    one->stream = -1;
  }
  return one;
}

void world_seen(size_t stream, uint64_t stamp) {
  lane *one = &W->lanes[stream];
  if (W->is_lost) return;
  if (stamp > one->seen) one->seen = stamp;
  look_at_arrivals(stream);
}

void world_waited(size_t stream, uint64_t stamp) {
  lane *one = &W->lanes[stream];
  if (W->is_lost) return;
  if (stamp > one->waited) one->waited = stamp;
  world_seen(stream, stamp);
}

bool world_synchronize(size_t stream) {
  char later[sizeof W->fault];
  memcpy(later, W->fault, sizeof later);
  W->fault[0] = '\0'; /* the fault is intended for the next call */
  begin_call("stream_synchronize(S%zu)", stream);
  bool well = require_ok(end_call(iobind_stream_synchronize(world_stream(stream), &the_error)));
  world_waited(stream, W->lanes[stream].submitted);
  for (size_t i = 0; i < STREAMS; i++) world_seen(i, W->lanes[stream].after[i]);
  memcpy(W->fault, later, sizeof later);
  return well;
}

bool world_is_busy(const block *memory, bool writes) {
  for (size_t i = 0; i < STREAMS; i++) {
    if ((writes ? memory->touched[i] : memory->written[i]) > W->lanes[i].seen) return true;
  }
  return false;
}

void world_host_uses(const block *memory, bool writes, const uint64_t *granted) {
  for (size_t i = 0; i < STREAMS && memory != NULL; i++) {
    uint64_t last = writes ? memory->touched[i] : memory->written[i];
    if (last > W->lanes[i].seen && (granted == NULL || last > granted[i])) (void)world_synchronize(i);
  }
}

void world_host_used(const block *memory, bool writes) {
  if (world_is_busy(memory, writes)) reached(writes ? FEATURE_HOST_WRITES : FEATURE_HOST_READS);
}

static void order_by_event(size_t stream, size_t other) {
  iobind_event *event = NULL;
  char later[sizeof W->fault];
  memcpy(later, W->fault, sizeof later);
  W->fault[0] = '\0';
  begin_call("event_create(home, &new)");
  if (!require_ok(end_call(iobind_event_create(W->home, &event, &the_error)))) return;
  begin_call("event_record(new, S%zu)", other);
  (void)require_ok(end_call(iobind_event_record(event, W->lanes[other].handle, &the_error)));
  begin_call("stream_wait(S%zu, new)", stream);
  (void)require_ok(end_call(iobind_stream_wait(world_stream(stream), event, &the_error)));
  iobind_event_destroy(event);
  memcpy(W->fault, later, sizeof later);
  lane *one = &W->lanes[stream];
  for (size_t i = 0; i < STREAMS; i++) {
    uint64_t there = i == other ? W->lanes[other].submitted : W->lanes[other].after[i];
    if (i != stream && there > one->after[i]) one->after[i] = there;
  }
}

void world_stream_uses(size_t stream, block *memory, bool writes, const uint64_t *granted, bool by_event) {
  for (size_t i = 0; i < STREAMS && memory != NULL; i++) {
    uint64_t last = writes ? memory->touched[i] : memory->written[i];
    if (i == stream || last <= W->lanes[i].seen || last <= W->lanes[stream].after[i]) continue;
    if (granted != NULL && last <= granted[i]) continue; /* an event of the run must order them */
    if (by_event) {
      order_by_event(stream, i);
    } else {
      (void)world_synchronize(i);
    }
  }
}

uint64_t world_submit(size_t stream) {
  return ++W->lanes[stream].submitted;
}

void world_stamp(size_t stream, block *memory, bool writes) {
  if (memory == NULL) return;
  memory->touched[stream] = W->lanes[stream].submitted;
  if (writes) memory->written[stream] = W->lanes[stream].submitted;
}
