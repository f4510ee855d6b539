/* What all kinds of streams share: tickets and their outcomes, references and deliveries that wait for a ticket, creation and
 * destruction. */
#include "memory/stream.h"

#include <stdlib.h>
#include <string.h>

#include "memory/driver.h"
#include "memory/kind.h"
#include "support/options.h"
#include "support/system.h"

bool iobind__stream_orders_calls(const iobind_stream *stream) {
  return stream->kind->orders_calls;
}

OrtSyncStream *iobind__stream_ort(const iobind_stream *stream) {
  return stream == NULL ? NULL : stream->ep.sync;
}

bool iobind__stream_is_busy(const iobind_stream *stream) {
  return stream->kind->is_busy(stream);
}

iobind_status iobind__stream_enter(const iobind_stream *stream, iobind_error *error) {
  return stream == NULL || stream->kind->enter == NULL ? IOBIND_OK : stream->kind->enter(stream, error);
}

iobind_status iobind__stream_leave(iobind_stream *stream, iobind_error *error) {
  return stream == NULL || stream->kind->leave == NULL ? IOBIND_OK : stream->kind->leave(stream, error);
}

/* ---- tickets ---- */

iobind__ticket iobind__stream_take_ticket(iobind_stream *stream) {
  return stream->kind->take_ticket(stream);
}

/* May the EP have skipped a part of the submission? */
static bool may_have_failed(const iobind__submission *self) {
  return atomic_load(&self->stream->timeline.reports) != self->reports;
}

iobind__submission iobind__stream_begin(iobind_stream *stream) {
  if (stream == NULL) {
    return (iobind__submission){0};
  }
  iobind__submission self = {stream, atomic_load(&stream->timeline.reports)};
  self.reports -= atomic_load(&stream->timeline.owed);
  return self;
}

/* `owed` is true until the failure has been returned to a caller, and until the failure's last work has been queried, or can be
 * by a point. With the mutex held. */
static void find_debt(iobind__timeline *timeline) {
  const iobind__failure *latest = &timeline->failures[timeline->failure_count - 1];
  const iobind__ticket given = atomic_load(&timeline->given);
  /* not `to`: waits take tickets, too, but are no work */
  const iobind__ticket end = latest->to < given ? latest->to : given;
  bool ends_untold = end > latest->told && end > timeline->marked;
  atomic_store(&timeline->owed, latest->told == 0 || ends_untold);
}

/* The latest failure covers this ticket, too. With the mutex held. */
static void extend_failure(iobind_stream *stream, iobind__ticket ticket) {
  iobind__timeline *timeline = &stream->timeline;
  iobind__failure *latest = &timeline->failures[timeline->failure_count - 1];
  if (latest->to >= ticket) {
    find_debt(timeline);
    return;
  }
  if (latest->told >= latest->to) {
    const iobind_error again = latest->error;
    iobind__stream_add_failure(stream, ticket, ticket, &again);
    return;
  }
  latest->to = ticket;
  atomic_store(&timeline->last_failed, ticket);
  atomic_store(&timeline->untold, true);
  find_debt(timeline);
}

/* First the ticket, then the check: a failure that is recorded after the check covers the ticket. */
iobind__ticket iobind__submission_ticket_inside(const iobind__submission *self) {
  iobind__ticket ticket = iobind__stream_take_ticket(self->stream);
  (void)iobind__ticket_raise(&self->stream->timeline.given, ticket);
  if (may_have_failed(self)) {
    extend_failure(self->stream, ticket);
  }
  return ticket;
}

iobind__ticket iobind__submission_ticket(const iobind__submission *self) {
  iobind__timeline *timeline = &self->stream->timeline;
  iobind__ticket ticket = iobind__stream_take_ticket(self->stream);
  (void)iobind__ticket_raise(&timeline->given, ticket);
  if (may_have_failed(self)) {
    pthread_mutex_lock(
        &timeline->mutex); /* the thread that records the failure holds it: after that the failure is in the list */
    extend_failure(self->stream, ticket);
    pthread_mutex_unlock(&timeline->mutex);
  }
  return ticket;
}

void iobind__stream_mark(iobind_stream *stream, iobind__ticket ticket) {
  iobind__timeline *timeline = &stream->timeline;
  pthread_mutex_lock(&timeline->mutex);
  if (atomic_load(&timeline->owed)) {
    extend_failure(stream, ticket);
  }
  timeline->marked = ticket > timeline->marked ? ticket : timeline->marked;
  if (timeline->failure_count > 0) {
    find_debt(timeline);
  }
  pthread_mutex_unlock(&timeline->mutex);
}

iobind_status iobind__stream_submit(iobind_stream *stream, iobind__task *task, iobind__ticket *ticket, iobind_error *error) {
  return iobind__worker_give(stream, task, !stream->kind->orders_calls, ticket, error);
}

bool iobind__stream_passed(const iobind_stream *stream, iobind__ticket ticket) {
  return atomic_load_explicit(&stream->timeline.passed, memory_order_acquire) >= ticket;
}

bool iobind__stream_seen(const iobind_stream *stream, iobind__ticket ticket) {
  return atomic_load_explicit(&stream->timeline.seen, memory_order_acquire) >= ticket;
}

bool iobind__ticket_raise(atomic_uint_least64_t *mark, iobind__ticket ticket) {
  uint_least64_t old = atomic_load(mark);
  while (old < ticket && !atomic_compare_exchange_weak(mark, &old, ticket)) {
  }
  return old < ticket;
}

iobind_status iobind__stream_pass_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  if (!iobind__stream_passed(stream, ticket)) {
    iobind_error reason = IOBIND_ERROR_INIT; /* may be of later work */
    iobind_status waited = stream->kind->wait(stream, ticket, &reason);
    if (waited != IOBIND_OK && !iobind__stream_passed(stream, ticket)) {
      return iobind__error_copy(error, &reason);
    }
  }
  return iobind__stream_outcome(stream, ticket, error);
}

iobind_status iobind__stream_wait_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  iobind_status status = iobind__stream_pass_ticket(stream, ticket, error);
  iobind__stream_tell(stream, ticket, status);
  return status;
}

iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error) {
  if (stream == NULL) {
    return IOBIND_OK;
  }
  iobind__ticket ticket;
  iobind_status status = stream->kind->drain(stream, &ticket, error);
  iobind__stream_tell(stream, ticket, status);
  return status;
}

void iobind__stream_pass(iobind_stream *stream) {
  if (stream != NULL) {
    iobind__ticket ticket;
    (void)stream->kind->drain(stream, &ticket, NULL);
  }
}

/* ---- threads that wait for a ticket ---- */

bool iobind__stream_sleep(iobind_stream *stream, iobind__ticket ticket, uint64_t until) {
  iobind__timeline *timeline = &stream->timeline;
  iobind__sleeper self = {.ticket = ticket, .next = timeline->sleepers};
  iobind__condition_init(&self.woken);
  timeline->sleepers = &self;
  bool in_time = iobind__condition_wait(&self.woken, &timeline->mutex, until);
  iobind__sleeper **at = &timeline->sleepers;
  while (*at != &self) {
    at = &(*at)->next;
  }
  *at = self.next;
  pthread_cond_destroy(&self.woken);
  return in_time;
}

void iobind__stream_wake(iobind_stream *stream, iobind__ticket ticket) {
  for (iobind__sleeper *one = stream->timeline.sleepers; one != NULL; one = one->next) {
    if (one->ticket <= ticket) {
      pthread_cond_signal(&one->woken);
    }
  }
}

/* ---- failures ---- */

static iobind__failure *find_failure(iobind_stream *stream, iobind__ticket ticket) {
  for (size_t i = 0; i < stream->timeline.failure_count; i++) {
    if (stream->timeline.failures[i].from <= ticket && ticket <= stream->timeline.failures[i].to) {
      return &stream->timeline.failures[i];
    }
  }
  return NULL;
}

void iobind__stream_add_failure(iobind_stream *stream, iobind__ticket from, iobind__ticket to, const iobind_error *failure) {
  if (stream->timeline.failure_count == IOBIND__FAILURES) {
    /* Merge the two oldest. A late query of work between them then returns a failure that did not happen, which is better than
     * missing one. */
    stream->timeline.failures[0].to = stream->timeline.failures[1].to;
    if (stream->timeline.failures[0].told > 0) {
      stream->timeline.failures[0].told = stream->timeline.failures[1].told;
    }
    memmove(&stream->timeline.failures[1], &stream->timeline.failures[2],
            (IOBIND__FAILURES - 2) * sizeof stream->timeline.failures[0]);
    stream->timeline.failure_count--;
  }
  stream->timeline.failures[stream->timeline.failure_count++] = (iobind__failure){.from = from, .to = to, .error = *failure};
  atomic_store(&stream->timeline.last_failed, to);
  atomic_store(&stream->timeline.untold, true);
  find_debt(&stream->timeline);
}

void iobind__stream_fail(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket, const iobind_error *failure) {
  iobind__timeline *timeline = &stream->timeline;
  pthread_mutex_lock(&timeline->mutex); /* so that failures are recorded in the order of their ends */
  bool is_known = find_failure(stream, ticket) != NULL;
  /* Count first: a submission in progress either sees the count, or its ticket is included here. */
  atomic_fetch_add(&timeline->reports, 1);
  iobind__ticket last = atomic_load(&timeline->submitted); /* the EP may have skipped later work, too */
  if (!is_known) {
    iobind__stream_add_failure(stream, after < ticket ? after + 1 : ticket, last, failure);
  } else {
    /* Another thread has recorded the same failure, or this is a second one, of later work. */
    iobind__ticket known = timeline->failures[timeline->failure_count - 1].to;
    iobind__ticket passed = atomic_load(&timeline->passed);
    iobind__ticket good = known > passed ? known : passed;
    if (good < last) {
      iobind__stream_add_failure(stream, good + 1, last, failure);
    }
  }
  pthread_mutex_unlock(&timeline->mutex);
}

void iobind__stream_suspect(iobind_stream *stream, const iobind_error *failure) {
  if (iobind__device_keeps_failures(stream->device)) {
    return; /* a failure of earlier work would have lost the device */
  }
  iobind__ticket passed = atomic_load(&stream->timeline.passed);
  iobind__ticket last = atomic_load(&stream->timeline.submitted);
  if (stream->kind->orders_calls && passed < last) {
    iobind__stream_fail(stream, passed, last, failure);
  }
}

iobind_status iobind__stream_outcome(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  if (atomic_load(&stream->timeline.last_failed) < ticket) {
    return IOBIND_OK;
  }
  pthread_mutex_lock(&stream->timeline.mutex);
  const iobind__failure *failure = find_failure(stream, ticket);
  iobind_status status = failure == NULL ? IOBIND_OK : iobind__error_copy(error, &failure->error);
  pthread_mutex_unlock(&stream->timeline.mutex);
  return status;
}

bool iobind__stream_owes(iobind_stream *stream, iobind__ticket ticket) {
  if (atomic_load(&stream->timeline.last_failed) < ticket) {
    return false;
  }
  pthread_mutex_lock(&stream->timeline.mutex);
  const iobind__failure *failure = find_failure(stream, ticket);
  bool owes = failure != NULL && failure->told < ticket;
  pthread_mutex_unlock(&stream->timeline.mutex);
  return owes;
}

void iobind__stream_tell(iobind_stream *stream, iobind__ticket ticket, iobind_status outcome) {
  if (!iobind__stream_passed(stream, ticket)) {
    return; /* the wait itself failed */
  }
  if (outcome != IOBIND_OK) {
    pthread_mutex_lock(&stream->timeline.mutex);
    iobind__failure *failure = find_failure(stream, ticket);
    if (failure != NULL && failure->told < ticket) {
      failure->told = ticket;
      find_debt(&stream->timeline);
    }
    pthread_mutex_unlock(&stream->timeline.mutex);
  }
  (void)iobind__ticket_raise(&stream->timeline.seen, ticket);
}

/* The latest failure is returned to the caller: the stream works again. */
static void end_failure(iobind_stream *stream) {
  iobind__timeline *timeline = &stream->timeline;
  iobind__failure *latest = &timeline->failures[timeline->failure_count - 1];
  if (latest->to == UINT64_MAX) {
    latest->to = atomic_load(&timeline->submitted);
    atomic_store(&timeline->last_failed, latest->to);
  }
  for (size_t i = 0; i < timeline->failure_count; i++) {
    timeline->failures[i].told = timeline->failures[i].to;
  }
  atomic_store(&timeline->owed, false);
  atomic_store(&timeline->untold, false);
}

static iobind_status synchronize(iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(stream, "stream", "stream_synchronize", error));
  IOBIND__TRY(iobind__process_check("stream_synchronize", error));
  iobind_status status = iobind__stream_drain(stream, error);
  pthread_mutex_lock(&stream->timeline.mutex);
  if (atomic_load(&stream->timeline.untold)) {
    if (status == IOBIND_OK) { /* the EP has reported it to another wait */
      status = iobind__error_copy(error, &stream->timeline.failures[stream->timeline.failure_count - 1].error);
    }
    end_failure(stream);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return status;
}

iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error) {
  return iobind__named(synchronize(stream, error), error, "stream_synchronize");
}

/* ---- references ---- */

/* Remove at most `most` references up to a ticket from the list. */
static size_t take_retired(iobind_stream *stream, iobind__ticket ticket, iobind__ref **taken, size_t most) {
  size_t count = 0;
  size_t kept = 0;
  pthread_mutex_lock(&stream->timeline.mutex);
  for (size_t i = 0; i < stream->retired.count; i++) {
    if (count < most && stream->retired.items[i].ticket <= ticket) {
      taken[count++] = stream->retired.items[i].ref;
    } else {
      stream->retired.items[kept++] = stream->retired.items[i];
    }
  }
  stream->retired.count = kept;
  pthread_mutex_unlock(&stream->timeline.mutex);
  return count;
}

void iobind__stream_collect(iobind_stream *stream, iobind__ticket ticket) {
  enum { AT_ONCE = 32 };
  iobind__ref *taken[AT_ONCE];
  size_t count;
  do {
    count = take_retired(stream, ticket, taken, AT_ONCE);
    for (size_t i = 0; i < count; i++) {
      iobind__ref_release(taken[i]); /* without the mutex: a destructor may use the stream */
    }
  } while (count == AT_ONCE);
}

/* With the mutex held. */
static bool has_room(iobind_stream *stream) {
  enum { MOST = 1024 }; /* a caller may never wait */
  if (stream->retired.count == stream->retired.capacity && stream->retired.capacity < MOST) {
    size_t capacity = stream->retired.capacity == 0 ? 8 : stream->retired.capacity * 2;
    iobind__retired *larger = realloc(stream->retired.items, capacity * sizeof *larger);
    if (larger != NULL) {
      stream->retired.items = larger;
      stream->retired.capacity = capacity;
    }
  }
  return stream->retired.count < stream->retired.capacity;
}

void iobind__stream_retire(iobind_stream *stream, iobind__ticket ticket, iobind__ref *ref) {
  pthread_mutex_lock(&stream->timeline.mutex);
  bool passed = stream->worker.is_stopping || iobind__stream_passed(stream, ticket);
  bool kept = !passed && has_room(stream);
  if (kept) {
    stream->retired.items[stream->retired.count++] = (iobind__retired){ticket, ref};
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  if (kept) {
    return;
  }
  if (!passed) {
    iobind__stream_pass(stream);
  }
  iobind__ref_release(ref);
}

/* ---- deliveries ---- */

void iobind__stream_deliver(const iobind__submission *submission, const void *from, void *to, size_t bytes) {
  iobind_stream *stream = submission->stream;
  pthread_mutex_lock(&stream->timeline.mutex);
  size_t count = atomic_load_explicit(&stream->deliveries.count, memory_order_relaxed);
  /* before the ticket: a wait for a later ticket must see the delivery */
  atomic_store(&stream->deliveries.count, count + 1);
  stream->deliveries.items[count] = (iobind__delivery){iobind__submission_ticket_inside(submission), from, to, bytes};
  pthread_mutex_unlock(&stream->timeline.mutex);
}

bool iobind__stream_delivers(iobind_stream *stream, iobind__ticket ticket) {
  if (atomic_load_explicit(&stream->deliveries.count, memory_order_acquire) == 0) {
    return false;
  }
  pthread_mutex_lock(&stream->timeline.mutex);
  bool any =
      atomic_load_explicit(&stream->deliveries.count, memory_order_relaxed) > 0 && stream->deliveries.items[0].ticket <= ticket;
  pthread_mutex_unlock(&stream->timeline.mutex);
  return any;
}

iobind_status iobind__stream_use_host(iobind_stream *stream, const void *data, size_t bytes, iobind_error *error) {
  if (stream == NULL || atomic_load_explicit(&stream->deliveries.count, memory_order_acquire) == 0) {
    return IOBIND_OK;
  }
  bool shared = false;
  uintptr_t start = (uintptr_t)data;
  pthread_mutex_lock(&stream->timeline.mutex);
  for (size_t i = 0; i < atomic_load_explicit(&stream->deliveries.count, memory_order_relaxed); i++) {
    uintptr_t to = (uintptr_t)stream->deliveries.items[i].to;
    shared = shared || (start < to + stream->deliveries.items[i].bytes && to < start + bytes);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return shared ? iobind__stream_drain(stream, error) : IOBIND_OK;
}

/* Copy the delivered bytes to their destination. The mutex is held for the copy, so that no other thread finds the ticket
 * complete before the bytes are there. */
static void deliver(iobind_stream *stream, iobind__ticket ticket) {
  if (atomic_load(&stream->deliveries.count) == 0) {
    return;
  }
  pthread_mutex_lock(&stream->timeline.mutex);
  size_t count = atomic_load_explicit(&stream->deliveries.count, memory_order_relaxed);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    const iobind__delivery one = stream->deliveries.items[i];
    if (one.ticket > ticket) {
      stream->deliveries.items[kept++] = one;
    } else if (find_failure(stream, one.ticket) == NULL) {
      memcpy(one.to, one.from, one.bytes);
    }
  }
  atomic_store_explicit(&stream->deliveries.count, kept, memory_order_release);
  pthread_mutex_unlock(&stream->timeline.mutex);
}

void iobind__stream_advance(iobind_stream *stream, iobind__ticket ticket) {
  deliver(stream, ticket);
  if (iobind__ticket_raise(&stream->timeline.passed, ticket) || iobind__device_is_lost(stream->device)) {
    iobind__stream_collect(stream, ticket);
  }
}

/* The device is lost: all work has failed and is complete. References are released by the next wait, because the thread that
 * finds the loss may be using what they retain. */
static void lose(iobind__loss_hook *hook, const iobind_error *reason) {
  iobind_stream *stream = (iobind_stream *)((char *)hook - offsetof(iobind_stream, loss));
  const iobind__ticket passed = atomic_load(&stream->timeline.passed);
  const iobind__ticket last = atomic_load(&stream->timeline.submitted);
  if (passed < last) {
    iobind__stream_fail(stream, passed, last, reason);
    deliver(stream, last);
    iobind__ticket_raise(&stream->timeline.passed, last);
  }
  iobind__ticket_raise(&stream->timeline.seen, last); /* complete work, too, needs no wait any more */
  pthread_mutex_lock(&stream->timeline.mutex);
  iobind__stream_wake(stream, UINT64_MAX);
  pthread_mutex_unlock(&stream->timeline.mutex);
}

/* ---- creation and destruction ---- */

static void free_stream(iobind__ref *ref) {
  iobind_stream *stream = (iobind_stream *)ref;
  iobind_runtime *runtime = stream->device->runtime;
  if (stream->kind->free != NULL) {
    stream->kind->free(stream);
  }
  free(stream->retired.items);
  free(stream->ep.joined.items);
  pthread_cond_destroy(&stream->ep.ended);
  pthread_cond_destroy(&stream->worker.given);
  pthread_mutex_destroy(&stream->timeline.mutex);
  free(stream);
  iobind__ref_release(&runtime->ref);
}

/* EPs ignore all options of a stream: an option that iobind does not know would be ignored silently. */
static iobind_status check_option(const iobind_device *device, const char *key, const char *value, iobind_error *error) {
  const iobind__option_table *table = device->ep == NULL ? NULL : device->ep->stream_options;
  if (table == NULL || (device->flags & IOBIND_DEVICE_STREAMS) == 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "stream_create: '%s': its streams have no options, got '%s'",
                        device->spec, key);
  }
  const iobind__option *option = iobind__option_find(table, key);
  if (option == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "stream_create: '%s': expected the option '%s' of a stream, got '%s'", device->spec,
                        table->options[0].key, key);
  }
  char range[IOBIND__OPTION_RANGE];
  iobind__option_range(table, option, range);
  return iobind__option_takes(table, option, value)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "stream_create: '%s': %s: expected %s, got '%s'",
                            device->spec, key, range, value);
}

static iobind_status check_options(const iobind_device *device, const iobind_stream_options *options, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags, 0, "stream_create", error));
  bool lists = options->option_keys != NULL && options->option_values != NULL;
  for (size_t i = 0; i < options->option_count; i++) {
    if (!lists || options->option_keys[i] == NULL || options->option_values[i] == NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "stream_create: option key or value %zu is NULL", i);
    }
    for (size_t j = 0; j < i; j++) {
      if (strcmp(options->option_keys[j], options->option_keys[i]) == 0) {
        return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "stream_create: the option '%s' is given twice",
                            options->option_keys[i]);
      }
    }
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < options->option_count; i++) {
    status = check_option(device, options->option_keys[i], options->option_values[i], error);
  }
  return status;
}

static void close_kind(iobind_stream *stream) {
  if (stream->kind->close != NULL) {
    stream->kind->close(stream);
  }
}

static iobind_status open_stream(iobind_stream *stream, const iobind_stream_options *options, iobind_error *error) {
  const iobind__driver *driver = iobind__driver_of(stream->device);
  iobind_status status = stream->kind->open == NULL ? IOBIND_OK : stream->kind->open(stream, error);
  bool opened = status == IOBIND_OK;
  status = iobind__named(status, error, "stream_create");
  for (size_t i = 0; status == IOBIND_OK && i < options->option_count; i++) {
    status = driver->set_stream_option(stream, options->option_keys[i], options->option_values[i], error);
  }
  if (opened && status != IOBIND_OK) {
    close_kind(stream);
  }
  return status;
}

iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *given, iobind_stream **stream,
                                   iobind_error *error) {
  if (stream != NULL) {
    *stream = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "stream_create", error));
  IOBIND__TRY(iobind__null_check(stream, "stream", "stream_create", error));
  IOBIND__TRY(iobind__process_check("stream_create", error));
  iobind_stream_options options;
  IOBIND__TRY(IOBIND__OPTIONS_READ(&options, given, "stream_create", error));
  IOBIND__TRY(check_options(device, &options, error));
  iobind_stream *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__out_of_memory(error, "stream_create");
  }
  made->device = device;
  made->kind = (device->flags & IOBIND_DEVICE_STREAMS) != 0 ? iobind__driver_of(device)->streams : &iobind__worker_stream;
  iobind_status status = open_stream(made, &options, error);
  if (status != IOBIND_OK) {
    free(made);
    return status;
  }
  iobind__ref_init(&made->ref, free_stream);
  pthread_mutex_init(&made->timeline.mutex, NULL);
  pthread_cond_init(&made->ep.ended, NULL);
  pthread_cond_init(&made->worker.given, NULL);
  atomic_init(&made->owners, 1);
  made->worker.end = &made->worker.tasks;
  made->loss.lose = lose;
  iobind__loss_watch(device, &made->loss);
  iobind__ref_retain(&device->runtime->ref);
  *stream = made;
  return IOBIND_OK;
}

iobind_stream *iobind__stream_share(iobind_stream *stream) {
  atomic_fetch_add(&stream->owners, 1);
  return stream;
}

void iobind_stream_destroy(iobind_stream *stream) {
  if (stream == NULL || iobind__process_is_forked()) {
    return;
  }
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__ticket last = atomic_load(&stream->timeline.submitted);
  if (iobind__stream_drain(stream, &reason) != IOBIND_OK && !iobind__stream_passed(stream, last)) {
    /* the wait failed: whether the work is complete is unknown */
    iobind__stream_fail(stream, atomic_load(&stream->timeline.passed), last, &reason);
  }
  iobind__stream_advance(stream, last);
  (void)iobind__ticket_raise(&stream->timeline.seen, last);
  if (atomic_fetch_sub(&stream->owners, 1) > 1) {
    return; /* a session that computes on the stream closes it, and may already have done so */
  }
  iobind__worker_stop(stream);
  iobind__loss_unwatch(stream->device, &stream->loss);
  last = atomic_load(&stream->timeline.submitted);
  iobind__stream_advance(stream, last);
  (void)iobind__ticket_raise(&stream->timeline.seen, last);
  iobind__stream_collect(stream, UINT64_MAX);
  iobind__stream_forget_joined(stream);
  iobind__staging_free(stream);
  if (stream->ep.bridge != NULL) {
    iobind__bridge_close(stream);
  }
  close_kind(stream);
  iobind__ref_release(&stream->ref);
}
