/* A server's queue: threads submit rows and await their steps, and one thread makes the steps. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "support/options.h"
#include "support/system.h"

enum { USUAL_ROWS = 16, USUAL_WAIT_NS = 1000000 };

/* ---- submitted rows ---- */

void iobind__batch_wake(iobind_batch *batch) {
  batch->enough = SIZE_MAX;
  pthread_cond_broadcast(&batch->submitted);
}

/* The submitted row that has waited longest; NULL: none is submitted. *count: the number of submitted rows. */
static const iobind__seat *find_oldest(const iobind_batch *batch, size_t *count) {
  const iobind__seat *oldest = NULL;
  *count = 0;
  for (size_t i = 0; i < batch->most; i++) {
    const iobind__seat *seat = &batch->seats[i];
    if (seat->turnout == IOBIND__SUBMITTED) {
      oldest = oldest == NULL || seat->submitted < oldest->submitted ? seat : oldest;
      ++*count;
    }
  }
  return oldest;
}

/* ---- submit ---- */

static iobind_status submit(iobind_batch *batch, uint64_t slot, const char *what, iobind_error *error) {
  iobind__seat *seat;
  IOBIND__TRY(iobind__batch_find(batch, slot, what, &seat, error));
  if (seat->turnout != IOBIND__SUBMITTED) { /* it may be in a step of iobind_batch_run: wait for that */
    IOBIND__TRY(iobind__batch_find_idle(batch, slot, what, &seat, error));
  }
  if (batch->is_stopped) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: the batch was stopped: no row can be submitted any more", what);
  }
  if (seat->turnout == IOBIND__SUBMITTED) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "%s: the row is already submitted: await it by iobind_batch_await first", what);
  }
  for (size_t i = 0; i < batch->feed_count; i++) {
    if (!seat->brought[i].is_set) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not set for this step: iobind_batch_set_input", what,
                          batch->session->inputs[batch->feeds[i].input].label);
    }
  }
  seat->turnout = IOBIND__SUBMITTED;
  seat->submitted = iobind__clock_ns();
  size_t count;
  (void)find_oldest(batch, &count);
  if (count == 1 || count >= batch->enough || count == batch->row_count) {
    iobind__batch_wake(batch);
  }
  return IOBIND_OK;
}

iobind_status iobind_batch_submit(iobind_batch *batch, uint64_t slot, iobind_error *error) {
  static const char what[] = "batch_submit";
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  pthread_mutex_lock(&batch->mutex);
  iobind_status status = submit(batch, slot, what, error);
  pthread_mutex_unlock(&batch->mutex);
  return status;
}

/* ---- step ---- */

static uint64_t due_time(uint64_t since, uint64_t longest) {
  return longest > UINT64_MAX - since ? UINT64_MAX : since + longest;
}

/* The conditions for a step. */
typedef struct wanted {
  size_t rows;
  uint64_t longest;
  uint64_t until;
} wanted;

static wanted read_wait(const iobind_batch_wait *wait) {
  return (wanted){
      .rows = wait->rows == 0 ? USUAL_ROWS : wait->rows,
      .longest = wait->longest_ns == 0 ? USUAL_WAIT_NS : wait->longest_ns,
      .until = wait->timeout_ns == 0 ? UINT64_MAX : iobind__deadline(wait->timeout_ns),
  };
}

/* Must await_rows end? If not, *due is the time of the next check, unless something changes before. *oldest NULL: timed out, or
 * the batch was stopped. */
static bool is_due(const iobind_batch *batch, const wanted *self, const iobind__seat **oldest, uint64_t *due) {
  size_t count;
  *oldest = find_oldest(batch, &count);
  *due = *oldest == NULL ? self->until : due_time((*oldest)->submitted, self->longest);
  const bool is_full = count >= self->rows || count == batch->row_count;
  return batch->is_stopped || iobind__clock_ns() >= *due || (*oldest != NULL && is_full);
}

/* Block until enough rows are submitted, or one has waited long enough, or the wait has timed out. On return the thread holds
 * the turn. NULL: no row is submitted. */
static const iobind__seat *await_rows(iobind_batch *batch, const wanted *self) {
  const iobind__seat *oldest;
  uint64_t due;
  for (;;) {
    while (!is_due(batch, self, &oldest, &due)) {
      batch->enough = self->rows < batch->enough ? self->rows : batch->enough;
      (void)iobind__condition_wait(&batch->submitted, &batch->mutex, due);
    }
    iobind__batch_take_turn(batch);
    if (is_due(batch, self, &oldest, &due)) {
      return oldest;
    }
    iobind__batch_give_turn(batch);
  }
}

static bool are_alike(const iobind_batch *batch, const iobind__seat *a, const iobind__seat *b) {
  bool alike = true;
  for (size_t i = 0; alike && i < batch->feed_count; i++) {
    alike = iobind__brought_alike(&a->brought[i], &b->brought[i]);
  }
  return alike;
}

static void ask(iobind_batch *batch, const iobind__seat *oldest) {
  for (size_t i = 0; i < batch->most; i++) {
    iobind__seat *seat = &batch->seats[i];
    if (seat->turnout == IOBIND__SUBMITTED && are_alike(batch, seat, oldest)) {
      seat->in_step = true;
      batch->asked[batch->asked_count++] = i;
    }
  }
}

static void report(iobind_batch *batch, size_t count, iobind_status status, const iobind_error *failure) {
  for (size_t i = 0; i < count; i++) {
    iobind__seat *seat = &batch->seats[batch->stepped[i]];
    seat->turnout = IOBIND__STEPPED;
    iobind__seat_end(seat, status, failure);
    pthread_cond_broadcast(&seat->changed);
  }
}

static iobind_status make_step(iobind_batch *batch, const iobind__seat *oldest, size_t *count, iobind_error *error) {
  iobind_error failure = IOBIND_ERROR_INIT;
  ask(batch, oldest);
  *count = batch->asked_count;
  memcpy(batch->stepped, batch->asked, *count * sizeof batch->asked[0]);
  iobind_status status = iobind__batch_make_step(batch, NULL, "batch_step", &failure);
  report(batch, *count, status, &failure);
  return status == IOBIND_OK ? IOBIND_OK : iobind__error_copy(error, &failure);
}

static iobind_status step(iobind_batch *batch, const iobind__seat *oldest, uint64_t *slots, size_t *count,
                          iobind_error *error) {
  if (batch->is_stopped) {
    return iobind__fail(error, IOBIND_ERROR_CANCELLED, "batch_step: the batch was stopped");
  }
  if (oldest == NULL) {
    return iobind__fail(error, IOBIND_ERROR_TIMEOUT, "batch_step: timed out: no row was submitted");
  }
  IOBIND__TRY(iobind__batch_settle(batch, error));
  iobind_status status = make_step(batch, oldest, count, error);
  for (size_t i = 0; slots != NULL && i < *count; i++) {
    slots[i] = iobind__seat_slot(batch, &batch->seats[batch->stepped[i]]);
  }
  return status;
}

iobind_status iobind_batch_step(iobind_batch *batch, const iobind_batch_wait *wait, uint64_t *slots, size_t room, size_t *count,
                                iobind_error *error) {
  static const char what[] = "batch_step";
  iobind_batch_wait given;
  size_t rows = 0;
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(iobind__array_check_optional(slots, room, batch->most, "slots", what, error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&given, wait, what, error));
  const wanted rows_wanted = read_wait(&given);
  pthread_mutex_lock(&batch->mutex);
  const iobind__seat *oldest = await_rows(batch, &rows_wanted);
  iobind_status status = step(batch, oldest, slots, &rows, error);
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  if (count != NULL) {
    *count = rows;
  }
  return iobind__named(status, error, what);
}

/* ---- await ---- */

static iobind_status await(iobind_batch *batch, uint64_t slot, uint64_t until, const char *what, iobind_error *error) {
  iobind__seat *seat;
  for (;;) {
    IOBIND__TRY(iobind__batch_find(batch, slot, what, &seat, error));
    if (seat->turnout == IOBIND__UNASKED) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                          "%s: the row was not submitted: submit it by iobind_batch_submit first", what);
    }
    if (seat->turnout == IOBIND__STEPPED) {
      break;
    }
    if (batch->is_stopped && !seat->in_step) {
      return iobind__fail(error, IOBIND_ERROR_CANCELLED, "%s: the batch was stopped before the row's step", what);
    }
    if (!iobind__condition_wait(&seat->changed, &batch->mutex, until)) {
      return iobind__fail(error, IOBIND_ERROR_TIMEOUT, "%s: timed out: the row's step has not ended, await it again", what);
    }
  }
  seat->turnout = IOBIND__UNASKED;
  return iobind__seat_get_end(seat, what, error);
}

iobind_status iobind_batch_await(iobind_batch *batch, uint64_t slot, uint64_t timeout_ns, iobind_error *error) {
  static const char what[] = "batch_await";
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  const uint64_t until = iobind__deadline(timeout_ns);
  pthread_mutex_lock(&batch->mutex);
  iobind_status status = await(batch, slot, until, what, error);
  pthread_mutex_unlock(&batch->mutex);
  return status;
}
