/* Inputs of rows. Each row's part is stored until its step, and then copied together in the order of the step's rows. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "memory/allocator.h"

void iobind__brought_free(iobind__brought *brought) {
  iobind_tensor_release(brought->held);
  free(brought->data);
  *brought = (iobind__brought){0};
}

/* ---- set an input ---- */

static iobind__feed *find_feed(iobind_batch *batch, size_t input) {
  for (size_t i = 0; i < batch->feed_count; i++) {
    if (batch->feeds[i].input == input) {
      return &batch->feeds[i];
    }
  }
  return NULL;
}

static iobind_status check_kind(iobind_batch *batch, bool is_for_all, size_t index, const char *what, iobind_error *error) {
  const char *label = batch->session->inputs[index].label;
  if (iobind__batch_carries(batch, index)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: '%s' is a state, which each step carries to the next one: iobind_batch_join takes the first one",
                        what, label);
  }
  const bool is_feed = find_feed(batch, index) != NULL;
  if (is_feed && is_for_all) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s' has a batch axis: set it for each row", what, label);
  }
  if (!is_feed && !is_for_all) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: '%s' has no batch axis: set it once, for all rows (IOBIND_BATCH_ALL)", what, label);
  }
  return IOBIND_OK;
}

/* Copy a row's data into its own memory. */
static iobind_status keep_row(iobind__brought *brought, const iobind_tensor *row, const void *data, const char *what,
                              iobind_error *error) {
  if (row->bytes > brought->bytes || brought->data == NULL) {
    void *room = realloc(brought->data, row->bytes + 1);
    if (room == NULL) {
      return iobind__out_of_memory(error, what);
    }
    brought->data = room;
  }
  if (row->bytes > 0) {
    memcpy(brought->data, data, row->bytes);
  }
  brought->bytes = row->bytes;
  return IOBIND_OK;
}

/* Takes ownership of *held, and returns in it what was held before. */
static void note_row(iobind__brought *brought, const iobind_tensor *row, iobind_tensor **held) {
  iobind_tensor *before = brought->held;
  brought->held = *held;
  *held = before;
  memcpy(brought->dims, row->dims, row->rank * sizeof row->dims[0]);
  brought->rank = row->rank;
  brought->is_set = true;
}

static iobind_status set_row(iobind_batch *batch, uint64_t slot, size_t index, iobind_tensor *row, const char *what,
                             iobind_error *error) {
  const iobind__value *value = &batch->session->inputs[index];
  iobind__feed *feed = find_feed(batch, index);
  if (row->dims[feed->axis] != 1) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: '%s': expected 1 row on axis %d, got %lld", what, value->label,
                        (int)feed->axis, (long long)row->dims[feed->axis]);
  }
  void *data = NULL;
  iobind_tensor *held = NULL;
  iobind_status status = row->place->host ? iobind_tensor_map(row, row->dtype, IOBIND_ACCESS_READ, &data, error)
                                          : iobind__input_copy(batch->session, index, row, NULL, &held, error);
  IOBIND__TRY(iobind__renamed(status, error, what));
  IOBIND__TRY(data == NULL ? IOBIND_OK : iobind__feed_check_lengths(batch, feed, row, data, error));
  pthread_mutex_lock(&batch->mutex);
  iobind__seat *seat;
  status = iobind__batch_find(batch, slot, what, &seat, error);
  iobind__brought *brought = status == IOBIND_OK ? &seat->brought[feed - batch->feeds] : NULL;
  if (status == IOBIND_OK && data != NULL) { /* NULL: 0 bytes */
    status = keep_row(brought, row, data, what, error);
  }
  if (status == IOBIND_OK) {
    note_row(brought, row, &held);
  }
  pthread_mutex_unlock(&batch->mutex);
  iobind_tensor_release(held);
  return status;
}

/* A row must be in host memory, or in memory that the session reads and that has addresses. From any other its copy would go
 * through the host. */
static iobind_status check_location(const iobind_batch *batch, size_t index, const iobind_tensor *row, const char *what,
                                    iobind_error *error) {
  const iobind__value *input = &batch->session->inputs[index];
  if (row->place->host) {
    return IOBIND_OK;
  }
  if (!iobind__session_reads(batch->session, input, row)) {
    return iobind__refuse_elsewhere(batch->session, index, row, what, error);
  }
  return row->place->addressable
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                            "%s: '%s': expected a tensor in host memory, got one on '%s', whose memory has no addresses", what,
                            input->label, row->place->device->spec);
}

static iobind_status set_shared(iobind_batch *batch, size_t index, iobind_tensor *all, const char *what, iobind_error *error) {
  iobind_tensor *copy;
  IOBIND__TRY(iobind__renamed(iobind__input_copy(batch->session, index, all, NULL, &copy, error), error, what));
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  iobind_status status = iobind__batch_settle(batch, error);
  iobind_tensor *unused = copy;
  if (status == IOBIND_OK) {
    unused = batch->shared[index];
    batch->shared[index] = copy;
    iobind__batch_rebind(batch);
  }
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  iobind_tensor_release(unused);
  return status;
}

iobind_status iobind_batch_set_input(iobind_batch *batch, uint64_t slot, size_t index, iobind_tensor *row,
                                     iobind_error *error) {
  static const char what[] = "batch_set_input";
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__null_check(row, "row", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  if (index >= batch->session->input_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an input below %zu, got %zu", what,
                        batch->session->input_count, index);
  }
  const bool is_for_all = slot == IOBIND_BATCH_ALL;
  IOBIND__TRY(check_kind(batch, is_for_all, index, what, error));
  IOBIND__TRY(iobind__value_accepts(&batch->session->inputs[index], row, what, error));
  IOBIND__TRY(check_location(batch, index, row, what, error));
  iobind_status status =
      is_for_all ? set_shared(batch, index, row, what, error) : set_row(batch, slot, index, row, what, error);
  return iobind__named(status, error, what);
}

/* ---- the inputs of a step ---- */

static iobind_status check_feed(const iobind_batch *batch, size_t index, const char *what, iobind_error *error) {
  const char *label = batch->session->inputs[batch->feeds[index].input].label;
  const iobind__brought *first = &batch->seats[batch->asked[0]].brought[index];
  for (size_t i = 0; i < batch->asked_count; i++) {
    const iobind__brought *brought = &batch->seats[batch->asked[i]].brought[index];
    if (!brought->is_set) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                          "%s: row %zu: '%s' is not set for this step: iobind_batch_set_input", what, i, label);
    }
    if (!iobind__brought_alike(first, brought)) {
      char expected[IOBIND__SHAPE_TEXT];
      char got[IOBIND__SHAPE_TEXT];
      const iobind_dtype dtype = batch->session->inputs[batch->feeds[index].input].dtype;
      iobind__shape_text((iobind__form){dtype, first->dims, first->rank}, NULL, expected, sizeof expected);
      iobind__shape_text((iobind__form){dtype, brought->dims, brought->rank}, NULL, got, sizeof got);
      return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: row %zu: '%s': expected %s as in row 0, got %s: make two steps", what,
                          i, label, expected, got);
    }
  }
  return IOBIND_OK;
}

static iobind_status check(const iobind_batch *batch, const char *what, iobind_error *error) {
  for (size_t i = 0; i < batch->feed_count; i++) {
    IOBIND__TRY(check_feed(batch, i, what, error));
  }
  for (size_t i = 0; i < batch->session->input_count; i++) {
    if (batch->input_axes[i] == IOBIND_BATCH_NO_AXIS && batch->shared[i] == NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                          "%s: '%s', which all rows share, is not set: set it for all rows (IOBIND_BATCH_ALL)", what,
                          batch->session->inputs[i].label);
    }
  }
  return IOBIND_OK;
}

static void exchange(iobind__seat *seat, size_t index) {
  const iobind__brought brought = seat->brought[index];
  seat->brought[index] = seat->taken[index];
  seat->taken[index] = brought;
}

iobind_status iobind__feed_take(iobind_batch *batch, const char *what, iobind_error *error) {
  IOBIND__TRY(check(batch, what, error));
  for (size_t i = 0; i < batch->asked_count; i++) {
    for (size_t f = 0; f < batch->feed_count; f++) {
      exchange(&batch->seats[batch->asked[i]], f);
    }
  }
  return IOBIND_OK;
}

/* The step's event has returned the failure. This wait consumes it, so that the next copy into the memory does not return it
 * again. */
void iobind__feed_settle(iobind_batch *batch) {
  for (size_t i = 0; i < batch->feed_count; i++) {
    if (batch->feeds[i].target != NULL) {
      (void)iobind__tensor_settle(batch->feeds[i].target, IOBIND__READ, NULL);
    }
  }
}

/* If the row's next input was not set meanwhile, the memory of the last one is reused for it, so that most rows allocate it
 * once. */
void iobind__feed_end(iobind_batch *batch, bool has_failed) {
  for (size_t i = 0; i < batch->asked_count; i++) {
    iobind__seat *seat = &batch->seats[batch->asked[i]];
    for (size_t f = 0; f < batch->feed_count; f++) {
      if (seat->taken[f].is_set && !seat->brought[f].is_set) {
        exchange(seat, f);
        seat->brought[f].is_set = has_failed;
      }
      seat->taken[f].is_set = false;
    }
  }
}

/* ---- copied together ---- */

static void dims_for(const iobind__feed *feed, size_t width, int64_t dims[IOBIND_MAX_RANK]) {
  memcpy(dims, feed->dims, feed->rank * sizeof dims[0]);
  dims[feed->axis] = (int64_t)width;
}

/* `input` and `axis` are not written, because other threads read them. */
static void keep_shape(iobind__feed *feed, const iobind__feed *made) {
  feed->staging = made->staging;
  feed->target = made->target;
  feed->layout = made->layout;
  feed->rank = made->rank;
  memcpy(feed->dims, made->dims, made->rank * sizeof made->dims[0]);
}

/* Allocate memory for `room` rows of these dims, unless there is. */
static iobind_status shape(iobind_batch *batch, iobind__feed *feed, const iobind__brought *like, iobind_error *error) {
  bool fits = feed->staging != NULL && feed->rank == like->rank;
  if (fits && memcmp(feed->dims, like->dims, like->rank * sizeof like->dims[0]) == 0) {
    return IOBIND_OK;
  }
  const iobind__value *input = &batch->session->inputs[feed->input];
  iobind__feed made = *feed;
  made.rank = like->rank;
  memcpy(made.dims, like->dims, like->rank * sizeof like->dims[0]);
  made.layout = iobind__layout_of(input->dtype, made.dims, made.rank, feed->axis);
  made.target = NULL;
  int64_t dims[IOBIND_MAX_RANK];
  dims_for(&made, batch->room, dims);
  const iobind__form form = {input->dtype, dims, made.rank};
  /* one buffer is enough, because a step begins after the previous one is complete; it is pinned, so that an upload does not
   * block */
  iobind__place *host = input->place->host ? input->place : iobind__place_for_staging(input->place);
  IOBIND__TRY(iobind__tensor_create_at(host, form, &made.staging, error));
  iobind_status status = input->place->host ? IOBIND_OK : iobind__tensor_create_at(input->place, form, &made.target, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(made.staging);
    return status;
  }
  iobind_tensor_release(feed->staging);
  iobind_tensor_release(feed->target);
  keep_shape(feed, &made);
  iobind__batch_rebind(batch);
  return IOBIND_OK;
}

iobind_status iobind__feed_view(const iobind__feed *feed, iobind_tensor *of, const iobind__block *block, iobind_tensor **view,
                                iobind_error *error) {
  int64_t dims[IOBIND_MAX_RANK];
  dims_for(feed, block->width, dims);
  return iobind_tensor_view(of, block->offset * feed->layout.lead * feed->layout.piece, of->dtype, dims, feed->rank, view,
                            error);
}

static void copy_row(const iobind__layout *layout, char *to, size_t width, size_t row, const char *from) {
  for (size_t lead = 0; layout->piece > 0 && lead < layout->lead; lead++) {
    memcpy(to + (lead * width + row) * layout->piece, from + lead * layout->piece, layout->piece);
  }
}

/* The inputs of a row of the side. A row that runs along gets those of the leader, which are valid for the model. */
static const iobind__brought *taken_of(const iobind_batch *batch, size_t row, size_t index) {
  const int64_t who = batch->dense[row];
  return &batch->seats[iobind__batch_asks(batch, who) ? (size_t)who : batch->leader].taken[index];
}

static iobind_status upload(const iobind__feed *feed, const iobind__block *block, iobind_stream *stream, iobind_error *error) {
  iobind_tensor *source = NULL;
  iobind_tensor *target = NULL;
  iobind_status status = iobind__feed_view(feed, feed->staging, block, &source, error);
  if (status == IOBIND_OK) {
    status = iobind__feed_view(feed, feed->target, block, &target, error);
  }
  if (status == IOBIND_OK) {
    status = iobind_tensor_copy((const iobind_tensor *const *)&source, &target, 1, stream, error);
  }
  iobind_tensor_release(source);
  iobind_tensor_release(target);
  return status;
}

/* Copy a row that is already on the device into the block. */
static iobind_status copy_held(const iobind__feed *feed, const iobind__block *block, size_t row, iobind_tensor *held,
                               iobind_stream *stream, iobind_error *error) {
  const iobind__layout *layout = &feed->layout;
  const size_t first = (block->offset * layout->lead + row) * layout->piece;
  const iobind_rows from = {.struct_size = sizeof from, .tensor = held, .pitch = layout->piece};
  const iobind_rows to = {
      .struct_size = sizeof to, .tensor = feed->target, .offset = first, .pitch = block->width * layout->piece};
  return iobind_tensor_copy_rows(&from, &to, layout->piece, layout->lead, stream, error);
}

/* Upload the rows that are on the host with one copy of the whole block, then copy those on the device into it. */
static iobind_status bring_block(const iobind_batch *batch, size_t index, const iobind__block *block, iobind_stream *stream,
                                 iobind_error *error) {
  const iobind__feed *feed = &batch->feeds[index];
  char *first = (char *)feed->staging->data + block->offset * feed->layout.lead * feed->layout.piece;
  size_t on_host = 0;
  for (size_t row = 0; row < block->width; row++) {
    const iobind__brought *taken = taken_of(batch, block->offset + row, index);
    if (taken->held == NULL) {
      copy_row(&feed->layout, first, block->width, row, taken->data);
      on_host++;
    }
  }
  if (feed->target != NULL && on_host > 0) {
    IOBIND__TRY(upload(feed, block, stream, error));
  }
  for (size_t row = 0; row < block->width; row++) {
    iobind_tensor *held = taken_of(batch, block->offset + row, index)->held;
    if (held != NULL && held->bytes > 0) {
      IOBIND__TRY(copy_held(feed, block, row, held, stream, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status bring(iobind_batch *batch, size_t index, iobind_stream *stream, iobind_error *error) {
  iobind__feed *feed = &batch->feeds[index];
  IOBIND__TRY(shape(batch, feed, &batch->seats[batch->asked[0]].taken[index], error));
  IOBIND__TRY(iobind__tensor_settle(feed->staging, IOBIND__WRITE, error));
  for (size_t i = 0; i < batch->blocks.count; i++) {
    IOBIND__TRY(bring_block(batch, index, &batch->blocks.of[i], stream, error));
  }
  return IOBIND_OK;
}

iobind_status iobind__feed_bring(iobind_batch *batch, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < batch->feed_count; i++) {
    IOBIND__TRY(bring(batch, i, stream, error));
  }
  return IOBIND_OK;
}
