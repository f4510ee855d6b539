/* A server's loop: threads submit rows and await them, one makes the steps. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "support/options.h"
#include "support/system.h"

enum { USUAL_ROWS = 16, USUAL_WAIT_NS = 1000000 };

/* ---- submitted ---- */

static iobind_status submit(iobind_batch *batch, uint64_t slot, const char *what, iobind_error *error) {
  iobind__seat *seat;
  IOBIND__TRY(iobind__batch_find(batch, slot, what, &seat, error));
  if (seat->turnout == IOBIND__STEPPING) { /* a step in flight need not be this call's */
    IOBIND__TRY(iobind__batch_settle(batch, error));
  }
  if (seat->turnout == IOBIND__SUBMITTED || seat->turnout == IOBIND__STEPPING) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: the slot is submitted already: iobind_batch_await", what);
  }
  for (size_t i = 0; i < batch->feed_count; i++) {
    if (seat->brought[i].supply != IOBIND__BROUGHT) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not set for this step: iobind_batch_set_input", what,
                          batch->session->inputs[batch->feeds[i].input].label);
    }
  }
  seat->turnout = IOBIND__SUBMITTED;
  seat->submitted = iobind__clock_ns();
  pthread_cond_broadcast(&batch->changed);
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

/* ---- stepped ---- */

/* The row that has waited longest; NULL: none is submitted. */
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

static uint64_t due_time(uint64_t since, uint64_t longest) {
  return longest > UINT64_MAX - since ? UINT64_MAX : since + longest;
}

/* Until enough rows are submitted, or one has waited long enough. NULL: none was within the time. */
static const iobind__seat *await_rows(iobind_batch *batch, const iobind_batch_wait *wait) {
  const size_t rows = wait->rows == 0 ? USUAL_ROWS : wait->rows;
  const uint64_t longest = wait->longest_ns == 0 ? USUAL_WAIT_NS : wait->longest_ns;
  const uint64_t until = wait->timeout_ns == 0 ? UINT64_MAX : iobind__deadline(wait->timeout_ns);
  for (;;) {
    size_t count;
    const iobind__seat *oldest = find_oldest(batch, &count);
    const uint64_t now = iobind__clock_ns();
    const uint64_t due = oldest == NULL ? until : due_time(oldest->submitted, longest);
    const bool is_full = count >= rows || count == batch->row_count;
    if (!batch->is_stepping && (now >= due || (oldest != NULL && is_full))) {
      return oldest;
    }
    (void)iobind__condition_wait(&batch->changed, &batch->mutex, batch->is_stepping ? UINT64_MAX : due);
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
      seat->turnout = IOBIND__STEPPING;
      batch->asked[batch->asked_count++] = i;
    }
  }
}

static void report(iobind_batch *batch, size_t count, iobind_status status, const iobind_error *failure) {
  for (size_t i = 0; i < count; i++) {
    iobind__seat *seat = &batch->seats[batch->stepped[i]];
    seat->turnout = IOBIND__STEPPED;
    iobind__seat_end(seat, status, failure);
  }
}

static iobind_status make_step(iobind_batch *batch, const iobind__seat *oldest, size_t *count, iobind_error *error) {
  iobind_error failure = IOBIND_ERROR_INIT;
  ask(batch, oldest);
  *count = batch->asked_count;
  memcpy(batch->stepped, batch->asked, *count * sizeof batch->asked[0]);
  batch->is_stepping = true;
  iobind_status status = iobind__batch_make_step(batch, NULL, "batch_step", &failure);
  batch->is_stepping = false;
  report(batch, *count, status, &failure);
  pthread_cond_broadcast(&batch->changed);
  return status == IOBIND_OK ? IOBIND_OK : iobind__error_copy(error, &failure);
}

static iobind_status step(iobind_batch *batch, const iobind_batch_wait *wait, uint64_t *slots, size_t *count,
                          iobind_error *error) {
  const iobind__seat *oldest = await_rows(batch, wait);
  if (oldest == NULL) {
    return iobind__fail(error, IOBIND_ERROR_TIMEOUT, "batch_step: no row was submitted within the time");
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
  IOBIND__TRY(iobind__array_check(slots, room, batch->most, true, "slots", what, error));
  IOBIND__TRY(iobind__options_read(&given, sizeof given, sizeof given, wait, what, error));
  pthread_mutex_lock(&batch->mutex);
  iobind_status status = step(batch, &given, slots, &rows, error);
  pthread_mutex_unlock(&batch->mutex);
  if (count != NULL) {
    *count = rows;
  }
  return iobind__named(status, error, what);
}

/* ---- awaited ---- */

static iobind_status await(iobind_batch *batch, uint64_t slot, uint64_t until, const char *what, iobind_error *error) {
  iobind__seat *seat;
  for (;;) {
    IOBIND__TRY(iobind__batch_find(batch, slot, what, &seat, error));
    bool is_of_run = seat->turnout == IOBIND__STEPPING && batch->flight != NULL; /* iobind_batch_step leaves none in flight */
    if (seat->turnout == IOBIND__UNASKED || is_of_run) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: the row was not submitted: iobind_batch_submit", what);
    }
    if (seat->turnout == IOBIND__STEPPED) {
      break;
    }
    if (!iobind__condition_wait(&batch->changed, &batch->mutex, until)) {
      return iobind__fail(error, IOBIND_ERROR_TIMEOUT, "%s: the row's step has not been made within the time", what);
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
