/* Saved states. y = 2 x: the state is 2 4 6 8 after the run that comes before each call. */
#define _POSIX_C_SOURCE 200809L

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "scenario.h"

static const float eights[RIG_VALUES] = {4, 8, 12, 16};
static const float turned[RIG_VALUES] = {8, 6, 4, 2}; /* twos, the last one first */

/* ---- what the calls stand on ---- */

static void load(struct rig *rig, const char *spec) {
  size_t bytes;
  const void *model = rig_model(spec, &bytes);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &rig->device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  NEED(rig, iobind_session_create_from_memory(rig->runtime, model, bytes, &options, &rig->session, &rig->error));
  NEED(rig, iobind_binding_create(rig->session, &rig->binding, &rig->error));
}

static void make_carried(struct rig *rig, iobind_carry_mode mode) {
  load(rig, "scale");
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, mode, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_SNAPSHOT, rig->x, NULL, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

static void make_moved(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_MOVE);
}

/* Each run appends the twos; one has appended them to the ones. */
static void make_grown(struct rig *rig) {
  load(rig, "concat dims=past dims2=new");
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  rig->y = rig_floats(rig, rig->device, rig_twos, RIG_VALUES);
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, IOBIND_CARRY_MOVE, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 1, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

/* A cache of 8 rows of four numbers, and a row. Its length is an input that iobind binds. */
static void make_cache(struct rig *rig) {
  static const int64_t dims[] = {1, 8, 4};
  static const int64_t row[] = {1, 1, 4};
  static const float zeros[32] = {0};
  load(rig, "append opset=24 capacity=8");
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &rig->x, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, zeros, sizeof zeros, NULL, &rig->error));
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row, 3, &rig->y, &rig->error));
  NEED(rig, iobind_tensor_write(rig->y, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 1, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, IOBIND_CARRY_IN_PLACE, &rig->error));
}

/* Two rows of a batch, of which row 0 has no rows in use, row 1 two. */
static void make_uneven(struct rig *rig) {
  static const int64_t dims[] = {2, 4, 4};
  static const int64_t row[] = {2, 1, 4};
  static const float zeros[32] = {0};
  load(rig, "append opset=24 capacity=4 batch=2");
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &rig->x, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, zeros, sizeof zeros, NULL, &rig->error));
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row, 3, &rig->y, &rig->error));
  NEED(rig, iobind_tensor_write(rig->y, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  NEED(rig, iobind_tensor_write(rig->y, sizeof rig_twos, rig_twos, sizeof rig_twos, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 1, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, IOBIND_CARRY_IN_PLACE, &rig->error));
}

/* A state of eight numbers is kept, behind which another run has come. */
static void make_grown_further(struct rig *rig) {
  make_grown(rig);
  NEED(rig, iobind_binding_save_state(rig->binding, &rig->state, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

static void make_swapped(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_SWAP);
}

static void make_in_place(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_IN_PLACE);
}

/* The run is in flight. */
static void submit(struct rig *rig, iobind_carry_mode mode) {
  make_carried(rig, mode);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_SNAPSHOT, rig->x, NULL, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, rig->stream, &rig->error));
}

static void submit_moved(struct rig *rig) {
  submit(rig, IOBIND_CARRY_MOVE);
}

static void submit_in_place(struct rig *rig) {
  submit(rig, IOBIND_CARRY_IN_PLACE);
}

static void make_saved(struct rig *rig, iobind_carry_mode mode) {
  make_carried(rig, mode);
  NEED(rig, iobind_binding_save_state(rig->binding, &rig->state, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

static void save_moved(struct rig *rig) {
  make_saved(rig, IOBIND_CARRY_MOVE);
}

static void save_swapped(struct rig *rig) {
  make_saved(rig, IOBIND_CARRY_SWAP);
}

static void save_in_place(struct rig *rig) {
  make_saved(rig, IOBIND_CARRY_IN_PLACE);
}

/* A file of this process. */
static const char *path(void) {
  static char text[64];
  snprintf(text, sizeof text, "/tmp/iobind-fail-each-%ld", (long)getpid());
  return text;
}

static void remove_file(struct rig *rig) {
  (void)rig;
  (void)remove(path());
}

static void make_for_file(struct rig *rig) {
  save_moved(rig);
  rig->end = remove_file;
}

static void make_file(struct rig *rig) {
  make_for_file(rig);
  NEED(rig, iobind_state_save(rig->state, path(), &rig->error));
  iobind_state_release(rig->state);
  rig->state = NULL;
}

/* ---- calls ---- */

static iobind_status save(struct rig *rig) {
  return iobind_binding_save_state(rig->binding, &rig->state, &rig->error);
}

static iobind_status restore(struct rig *rig) {
  return iobind_binding_restore_state(rig->binding, rig->state, &rig->error);
}

static iobind_status reorder(struct rig *rig) {
  static const int64_t rows[RIG_VALUES] = {3, 2, 1, 0};
  return iobind_binding_reorder_state(rig->binding, 0, rows, RIG_VALUES, &rig->error);
}

static iobind_status go_back(struct rig *rig) {
  return iobind_binding_rewind_state(rig->binding, 3, &rig->error);
}

static iobind_status go_back_to_kept(struct rig *rig) {
  return iobind_binding_rewind_state(rig->binding, 8, &rig->error);
}

/* A cache of 8 rows that the graph does not show, and a row. Its position and the mask are inputs that iobind binds. */
static void make_named(struct rig *rig) {
  static const int64_t dims[] = {8, 4};
  static const int64_t row[] = {1, 4};
  static const float zeros[32] = {0};
  load(rig, "masked capacity=8");
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &rig->x, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, zeros, sizeof zeros, NULL, &rig->error));
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row, 2, &rig->y, &rig->error));
  NEED(rig, iobind_tensor_write(rig->y, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
  NEED(rig, iobind_binding_set_input(rig->binding, 1, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, IOBIND_CARRY_IN_PLACE, &rig->error));
  NEED(rig, iobind_binding_name_length(rig->binding, 2, IOBIND_LENGTH_POSITIONS, 0, &rig->error));
  NEED(rig, iobind_binding_name_length(rig->binding, 3, IOBIND_LENGTH_MASK, 0, &rig->error));
}

static void make_named_whole(struct rig *rig) {
  make_named(rig);
  NEED(rig, iobind_binding_name_length(rig->binding, 0, IOBIND_LENGTH_CACHE, 0, &rig->error));
}

static iobind_status name_cache(struct rig *rig) {
  return iobind_binding_name_length(rig->binding, 0, IOBIND_LENGTH_CACHE, 0, &rig->error);
}

static iobind_status write_lengths_by_row(struct rig *rig) {
  static const int64_t lengths[] = {0, 2};
  return iobind_binding_write_lengths(rig->binding, 1, lengths, 2, NULL, &rig->error);
}

static iobind_status write_lengths(struct rig *rig) {
  return iobind_binding_write_lengths(rig->binding, 1, &(int64_t){3}, 1, NULL, &rig->error);
}

/* Each row of the batch is where its length says. */
static void is_at_two_places(struct rig *rig) {
  static const float expected[32] = {[0] = 2, [1] = 4, [2] = 6, [3] = 8, [24] = 2, [25] = 4, [26] = 6, [27] = 8};
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  rig_expect(rig, rig->x, expected, 32);
}

/* A name alone writes nothing. */
static void is_named(struct rig *rig) {
  NEED(rig, iobind_binding_write_lengths(rig->binding, 1, &(int64_t){3}, 1, NULL, &rig->error));
}

/* The row is where the length says. */
static void is_at_its_place(struct rig *rig) {
  static const float expected[32] = {[12] = 2, [13] = 4, [14] = 6, [15] = 8};
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  rig_expect(rig, rig->x, expected, 32);
}

static iobind_status get_info(struct rig *rig) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  iobind_status status = iobind_state_get_info(rig->state, &info, &rig->error);
  rig->number = info.bytes;
  return status;
}

static iobind_status get_pair(struct rig *rig) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_status status = iobind_state_get_pair(rig->state, 0, &pair, &rig->error);
  rig->found_tensor = pair.tensor;
  return status;
}

static iobind_status retain(struct rig *rig) {
  iobind_state_release(iobind_state_retain(rig->state));
  return IOBIND_OK;
}

static iobind_status release(struct rig *rig) {
  iobind_state_release(rig->state);
  rig->state = NULL;
  return IOBIND_OK;
}

static iobind_status write_file(struct rig *rig) {
  return iobind_state_save(rig->state, path(), &rig->error);
}

static iobind_status read_file(struct rig *rig) {
  return iobind_state_load(rig->session, path(), &rig->state, &rig->error);
}

/* ---- what must be right afterwards ---- */

static void state_is_twos(struct rig *rig) {
  NEED(rig, get_pair(rig));
  rig_expect(rig, rig->found_tensor, rig_twos, RIG_VALUES);
}

static void run_leaves_all(struct rig *rig, const float *expected, size_t count) {
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &output, &rig->error));
  rig_expect(rig, output, expected, count);
}

static void run_leaves(struct rig *rig, const float *expected) {
  run_leaves_all(rig, expected, RIG_VALUES);
}

static void is_saved(struct rig *rig) {
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
  run_leaves(rig, eights);
  state_is_twos(rig);
}

static void is_saved_now(struct rig *rig) {
  run_leaves(rig, eights);
  state_is_twos(rig);
}

static void is_restored(struct rig *rig) {
  run_leaves(rig, eights);
  state_is_twos(rig);
}

static void is_turned(struct rig *rig) {
  float expected[RIG_VALUES];
  for (size_t i = 0; i < RIG_VALUES; i++) {
    expected[i] = 2 * turned[i];
  }
  run_leaves(rig, expected);
}

static void is_shorter(struct rig *rig) {
  static const float expected[] = {1, 2, 3, 2, 4, 6, 8};
  run_leaves_all(rig, expected, sizeof expected / sizeof expected[0]);
}

static void is_as_kept(struct rig *rig) {
  static const float expected[] = {1, 2, 3, 4, 2, 4, 6, 8, 2, 4, 6, 8};
  run_leaves_all(rig, expected, sizeof expected / sizeof expected[0]);
}

static void has_bytes(struct rig *rig) {
  NEED_TRUE(rig->number == sizeof rig_twos);
}

static void found_is_twos(struct rig *rig) {
  rig_expect(rig, rig->found_tensor, rig_twos, RIG_VALUES);
}

static void is_written(struct rig *rig) {
  iobind_state *read = NULL;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  NEED(rig, iobind_state_load(rig->session, path(), &read, &rig->error));
  NEED(rig, iobind_state_get_pair(read, 0, &pair, &rig->error));
  rig_expect(rig, pair.tensor, rig_twos, RIG_VALUES);
  iobind_state_release(read);
}

#define SAVES(of, in, prepares, checks)                                                                            \
  {                                                                                                                \
    .function = "iobind_binding_save_state", .variant = (of), .places = (in), .prepare = (prepares), .call = save, \
    .out = OUT(state), .right = (checks)                                                                           \
  }
#define GOES_ON(name, of, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = (calls), .right = (checks) }

const struct scenario state_scenarios[] = {
    SAVES("moved", ON_ALL, make_moved, is_saved_now),
    SAVES("swapped", ON_ALL, make_swapped, is_saved_now),
    SAVES("in place", ON_ALL, make_in_place, is_saved_now),
    SAVES("moved in flight", ON_VDEV, submit_moved, is_saved),
    SAVES("in place in flight", ON_VDEV, submit_in_place, is_saved),
    GOES_ON("iobind_binding_restore_state", "moved", save_moved, restore, is_restored),
    GOES_ON("iobind_binding_restore_state", "swapped", save_swapped, restore, is_restored),
    GOES_ON("iobind_binding_restore_state", "in place", save_in_place, restore, is_restored),
    {.function = "iobind_binding_reorder_state",
     .variant = "moved",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_moved,
     .call = reorder,
     .right = is_turned},
    {.function = "iobind_binding_reorder_state",
     .variant = "swapped",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_swapped,
     .call = reorder,
     .right = is_turned},
    {.function = "iobind_binding_rewind_state",
     .variant = "",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_grown,
     .call = go_back,
     .right = is_shorter},
    {.function = "iobind_binding_name_length",
     .variant = "",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_named,
     .call = name_cache,
     .right = is_named},
    {.function = "iobind_binding_write_lengths",
     .variant = "named",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_named_whole,
     .call = write_lengths,
     .right = is_at_its_place},
    {.function = "iobind_binding_write_lengths",
     .variant = "",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_cache,
     .call = write_lengths,
     .right = is_at_its_place},
    {.function = "iobind_binding_write_lengths",
     .variant = "by row",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_uneven,
     .call = write_lengths_by_row,
     .right = is_at_two_places},
    {.function = "iobind_binding_rewind_state",
     .variant = "to a kept state",
     .places = ON_CPU | ON_VDEV,
     .prepare = make_grown_further,
     .call = go_back_to_kept,
     .right = is_as_kept},
    GOES_ON("iobind_state_get_info", "", save_moved, get_info, has_bytes),
    GOES_ON("iobind_state_get_pair", "", save_moved, get_pair, found_is_twos),
    GOES_ON("iobind_state_retain", "", save_moved, retain, NULL),
    {.function = "iobind_state_release", .variant = "", .places = ON_ALL, .prepare = save_moved, .call = release, .last = true},
    GOES_ON("iobind_state_save", "", make_for_file, write_file, is_written),
    {.function = "iobind_state_load",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_file,
     .call = read_file,
     .out = OUT(state),
     .right = state_is_twos},
    {.function = NULL},
};
