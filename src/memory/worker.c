/* A stream's thread and its queue of tasks. On a worker's stream the tasks are the stream's work, and have tickets. On an EP's
 * stream they are waits for points on behalf of other threads. */
#include "memory/kind.h"

/* The last complete ticket: the one before the next task's, or, without a next task, the last submitted one. With the mutex
 * held. */
static iobind__ticket passed_by_now(const iobind_stream *stream) {
  return stream->worker.tasks == NULL ? atomic_load(&stream->timeline.submitted) : stream->worker.tasks->ticket - 1;
}

/* With the mutex held. */
static bool has_retired(const iobind_stream *stream, iobind__ticket ticket) {
  for (size_t i = 0; i < stream->retired.count; i++) {
    if (stream->retired.items[i].ticket <= ticket) {
      return true;
    }
  }
  return false;
}

/* References are released before `passed` shows that their tickets are complete. */
static void finish(iobind_stream *stream, iobind__task *task, iobind_status status, const iobind_error *error) {
  iobind__ticket ticket = task->ticket;
  task->destroy(task);
  if (ticket == 0) {
    return;
  }
  pthread_mutex_lock(&stream->timeline.mutex);
  if (status != IOBIND_OK && !atomic_load(&stream->timeline.untold)) {
    iobind__stream_add_failure(stream, ticket, UINT64_MAX, error);
  }
  while (has_retired(stream, passed_by_now(stream))) {
    iobind__ticket passed = passed_by_now(stream);
    pthread_mutex_unlock(&stream->timeline.mutex);
    iobind__stream_collect(stream, passed);
    pthread_mutex_lock(&stream->timeline.mutex);
  }
  atomic_store(&stream->timeline.passed, passed_by_now(stream));
  iobind__stream_wake(stream, passed_by_now(stream));
  pthread_mutex_unlock(&stream->timeline.mutex);
}

/* Block until there is a task. NULL: the stream is being destroyed, and its queue is empty. *failed: the task must do no work,
 * because of *failure. With the mutex held. */
static iobind__task *take_task(iobind_stream *stream, bool *failed, iobind_error *failure) {
  while (stream->worker.tasks == NULL && !stream->worker.is_stopping) {
    pthread_cond_wait(&stream->worker.given, &stream->timeline.mutex);
  }
  iobind__task *task = stream->worker.tasks;
  if (task != NULL) {
    stream->worker.tasks = task->next;
    if (stream->worker.tasks == NULL) {
      stream->worker.end = &stream->worker.tasks;
    }
    *failed = task->ticket != 0 && atomic_load(&stream->timeline.untold);
    if (*failed) {
      *failure = stream->timeline.failures[stream->timeline.failure_count - 1].error;
    }
  }
  return task;
}

static void *work(void *context) {
  iobind_stream *stream = context;
  for (;;) {
    bool failed = false;
    iobind_error failure;
    iobind_error error = IOBIND_ERROR_INIT;
    pthread_mutex_lock(&stream->timeline.mutex);
    iobind__task *task = take_task(stream, &failed, &failure);
    pthread_mutex_unlock(&stream->timeline.mutex);
    if (task == NULL) {
      iobind__ref_release(&stream->ref);
      return NULL;
    }
    iobind_status status = task->run(task, failed ? &failure : NULL, &error);
    finish(stream, task, status, &error);
  }
}

/* *own: the stream's thread, which is started if necessary, will run the task; otherwise the caller must. With the mutex held. */
static iobind_status find_thread(iobind_stream *stream, bool *own, iobind_error *error) {
  *own = !stream->worker.is_stopping;
  if (stream->worker.is_stopping || stream->worker.is_started) {
    return IOBIND_OK;
  }
  iobind__ref_retain(&stream->ref); /* the thread's */
  if (pthread_create(&stream->worker.thread, NULL, work, stream) != 0) {
    iobind__ref_release(&stream->ref); /* not the last one: the caller uses the stream */
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "stream of '%s': its thread cannot be started",
                        stream->device->spec);
  }
  stream->worker.is_started = true;
  return IOBIND_OK;
}

iobind_status iobind__worker_give(iobind_stream *stream, iobind__task *task, bool ticketed, iobind__ticket *ticket,
                                  iobind_error *error) {
  bool own;
  pthread_mutex_lock(&stream->timeline.mutex);
  iobind_status status = find_thread(stream, &own, error);
  if (status == IOBIND_OK) {
    task->next = NULL;
    task->ticket = ticketed && own ? atomic_fetch_add(&stream->timeline.submitted, 1) + 1 : 0;
    if (ticket != NULL) {
      *ticket = task->ticket;
    }
    if (own) {
      *stream->worker.end = task;
      stream->worker.end = &task->next;
      pthread_cond_signal(&stream->worker.given);
    }
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  if (status == IOBIND_OK && !own) {
    /* Another thread queries an event of a stream that is being destroyed, or was destroyed: all earlier work is complete. */
    iobind_error reason = IOBIND_ERROR_INIT;
    iobind_status ran = task->run(task, NULL, &reason);
    finish(stream, task, ran, &reason);
  }
  return status;
}

void iobind__worker_stop(iobind_stream *stream) {
  pthread_mutex_lock(&stream->timeline.mutex);
  stream->worker.is_stopping = true;
  pthread_cond_signal(&stream->worker.given);
  pthread_mutex_unlock(&stream->timeline.mutex);
  if (stream->worker.is_started && pthread_equal(stream->worker.thread, pthread_self())) {
    /* This is the stream's own thread. Its task released a binding, and with it the last session that computes on the stream. */
    pthread_detach(stream->worker.thread);
  } else if (stream->worker.is_started) {
    pthread_join(stream->worker.thread, NULL);
  }
}

/* ---- the stream of a device without native streams: the caller does the work at once, unless earlier work is in flight. So the first task that
 * has to wait starts the thread ---- */

/* If all earlier work is complete, the thread finishes no task that would raise `passed`, so it is raised here. */
static iobind__ticket take_ticket(iobind_stream *stream) {
  pthread_mutex_lock(&stream->timeline.mutex);
  iobind__ticket last = atomic_load(&stream->timeline.submitted);
  atomic_store(&stream->timeline.submitted, last + 1);
  if (atomic_load(&stream->timeline.passed) == last) {
    atomic_store(&stream->timeline.passed, last + 1);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return last + 1;
}

static bool is_busy(const iobind_stream *stream) {
  return atomic_load(&stream->timeline.untold) || !iobind__stream_passed(stream, atomic_load(&stream->timeline.submitted));
}

static iobind_status wait_for(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  (void)error;
  pthread_mutex_lock(&stream->timeline.mutex);
  while (!iobind__stream_passed(stream, ticket)) {
    (void)iobind__stream_sleep(stream, ticket, UINT64_MAX);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return IOBIND_OK;
}

static iobind_status drain(iobind_stream *stream, iobind__ticket *ticket, iobind_error *error) {
  *ticket = take_ticket(stream);
  IOBIND__TRY(iobind__stream_pass_ticket(stream, *ticket, error));
  return iobind__device_wait(stream->device, error);
}

static iobind_status mark(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  (void)error;
  point->ticket = take_ticket(stream);
  atomic_init(&point->queued, iobind__device_has(stream->device, IOBIND__QUIRK_QUEUES));
  return IOBIND_OK;
}

static iobind_status wait_point(iobind__point *point, iobind_error *error) {
  IOBIND__TRY(iobind__stream_pass_ticket(point->stream, point->ticket, error));
  if (atomic_load(&point->queued)) {
    IOBIND__TRY(iobind__device_wait(point->stream->device, error));
    atomic_store(&point->queued, false);
  }
  return IOBIND_OK;
}

static iobind_status order(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  if (point->stream->device == stream->device && iobind__stream_passed(point->stream, point->ticket)) {
    /* the device has one queue: the order of the calls is the order of the work */
    return iobind__stream_pass_ticket(point->stream, point->ticket, error);
  }
  return iobind__point_submit_wait(stream, point, error);
}

const iobind__stream_kind iobind__worker_stream = {
    .orders_calls = false,
    .take_ticket = take_ticket,
    .is_busy = is_busy,
    .wait = wait_for,
    .drain = drain,
    .mark = mark,
    .wait_point = wait_point,
    .order = order,
    .staging_min_bytes = IOBIND__STAGING_MIN_BYTES,
};
