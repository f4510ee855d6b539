/* Calls on two devices alternately, and copies between them. */
#include "current.h"
#include "operations.h"

#define W the_world

void do_visit(const step *from) {
  if (world_other_works()) {
    world_change();
    if (from->x[6] % 2 == 0) reached_if(FEATURE_CURRENT, current_choose(from->x[6] / 2 % 2));
    do_fill(from);
  }
  do_run(from);
  if (world_other_works() && from->x[5] % 2 == 0) world_change();
}

/* A tensor of the other device with `count` elements. */
static slot *take_away(uint8_t chosen, size_t count) {
  slot *found = NULL;
  world_change();
  for (size_t i = 0; i < TENSORS && found == NULL; i++) {
    slot *at = world_tensor((chosen + i) % TENSORS);
    if (at != NULL && at->is_plain && at->where == PLACE_HOME && at->at.count == count) found = at;
  }
  world_change();
  return found;
}

static void used_away(const slot *of, bool writes) {
  world_change();
  world_host_used(of->at.block, writes);
  world_change();
}

/* Copy from the other device. With a stream of this device, the host first waits for the other device's streams, and then for the copy. */
static void copy_here(slot *source, slot *to, int stream) {
  const iobind_tensor *sources[1] = {source->tensor};
  if (stream >= 0) {
    world_change();
    world_host_uses(source->at.block, false, NULL);
    world_change();
    world_stream_uses((size_t)stream, to->at.block, true, NULL, false);
  }
  begin_call("copy(t%d, t%d%s)", world_index(source), world_index(to), on_stream(stream));
  bool well = require_ok(
      end_call(iobind_tensor_copy(sources, &to->tensor, 1, stream < 0 ? NULL : W->lanes[stream].handle, &the_error)));
  elements values = view_read(source->at);
  view_write(to->at, values.at);
  if (!well || !view_is_known(source->at, 0)) view_forget(to->at);
  if (!well) return;
  if (stream >= 0) {
    world_submit((size_t)stream);
    world_stamp((size_t)stream, to->at.block, true);
    (void)world_synchronize((size_t)stream);
  } else {
    used_away(source, false);
    world_host_used(to->at.block, true);
  }
  reached(FEATURE_CROSS_COPY);
}

static void bind_away(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  const size_t index = from->x[2] % one->shadow.model->input_count;
  const port *to = &one->shadow.model->inputs[index];
  slot *tensor = take_away(from->x[3], to->dim == NULL ? to->count : 3);
  if (tensor == NULL) return;
  const iobind_input_mode mode = from->x[4] % 4 == 0 ? IOBIND_INPUT_RESIDENT : IOBIND_INPUT_SNAPSHOT; /* RESIDENT is refused */
  set_input(one, index, mode, tensor, -1);
  reached_if(FEATURE_CROSS_SNAPSHOT, mode == IOBIND_INPUT_SNAPSHOT);
  reached_if(FEATURE_CROSS_REFUSED, mode == IOBIND_INPUT_RESIDENT);
}

void do_cross(const step *from) {
  if (!world_other_works() || fault_is_set()) return;
  if (from->x[1] < 128) {
    bind_away(from);
    return;
  }
  slot *to = take_writable(from->x[0]);
  slot *source = to != NULL ? take_away(from->x[3], to->at.count) : NULL;
  const int stream = from->x[2] >= 128 && to != NULL && to->where == PLACE_HOME ? from->x[2] % STREAMS : -1;
  if (source != NULL && (stream < 0 || world_stream((size_t)stream) != NULL)) copy_here(source, to, stream);
}
