#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "race.h"
#include "system.h"
#include "trace.h"

struct vdev_operation {
  vdev_job job;
  uint64_t run; /* whose work it is; 0: no run's */
  int64_t start;
  int64_t end;    /* modelled */
  int wait_agent; /* for an event: until this agent's stream has completed `wait_sequence`; 0: for none */
  uint64_t wait_sequence;
  struct vdev_operation *next;
};

static _Thread_local uint64_t current_run; /* 0: none */

static int64_t transfer_time(const vdev_settings *settings, vdev_engine engine, int64_t bytes) {
  int64_t rate = engine == VDEV_UPLOAD     ? settings->upload_rate
                 : engine == VDEV_DOWNLOAD ? settings->download_rate
                                           : settings->local_rate;
  int64_t latency = engine == VDEV_LOCAL ? 0 : settings->latency_ns;
  double moving = rate > 0 ? (double)bytes * 1e9 / (double)rate : 0;
  return latency + (moving < (double)VDEV_LONGEST_NS ? (int64_t)(moving + 0.5) : VDEV_LONGEST_NS);
}

static int64_t duration_of(const vdev_job *job) {
  const vdev_settings *settings = &job->device->settings;
  int64_t modelled = job->engine == VDEV_COMPUTE ? settings->compute_ns : transfer_time(settings, job->engine, job->bytes);
  return modelled + job->effect.delay_ns;
}

/* When the job begins and ends, by the model: after earlier work of the stream and of the engine. */
static void schedule(vdev_stream *stream, const vdev_job *job, int64_t *start, int64_t *end) {
  int64_t duration = duration_of(job);
  int64_t *free_again = &job->device->engine_free[job->engine];
  *start = vdev_now();
  if (stream != NULL && stream->tail > *start) {
    *start = stream->tail;
  }
  if (duration > 0 && *free_again > *start) {
    *start = *free_again;
  }
  *end = vdev_later(*start, duration);
  if (duration > 0) {
    *free_again = *end;
  }
  if (stream != NULL) {
    stream->tail = *end;
  }
}

static void count(const vdev_job *job) {
  int64_t *busy = &job->device->statistics.busy[job->engine];
  *busy = vdev_later(*busy, duration_of(job));
  job->device->statistics.bytes[job->engine] += job->bytes;
  job->device->statistics.count[job->engine]++;
}

/* When an operation ends, on the system's clock; 0: at once, or in virtual time, in which no thread waits. With the lock
 * held. */
static int64_t real_end(int64_t start, int64_t end) {
  if (end == start || vdev_is_virtual_clock()) {
    return 0;
  }
  int64_t offset = vdev_global.clock_offset;
  return offset < 0 ? vdev_later(end, -offset) : end - offset;
}

/* Let time pass. Without the lock. */
static void sleep_until(int64_t system_time) {
  if (system_time == 0) {
    return;
  }
  for (int64_t left = system_time - vdev_system_time(); left > 0; left = system_time - vdev_system_time()) {
    const struct timespec rest = {.tv_sec = left / 1000000000, .tv_nsec = (long)(left % 1000000000)};
    nanosleep(&rest, NULL);
  }
}

void vdev_host_delay(int64_t nanoseconds) {
  if (nanoseconds == 0) {
    return;
  }
  int64_t start = vdev_now();
  int64_t end = vdev_later(start, nanoseconds);
  int64_t until = real_end(start, end);
  if (until == 0) {
    vdev_global.host_time = end;
    return;
  }
  vdev_unlock();
  sleep_until(until);
  vdev_lock();
}

/* With the words of vdev_admit; without the lock. */
static bool refuse_late(const vdev_job *job, char *reason) {
  bool computes = job->engine == VDEV_COMPUTE;
  snprintf(reason, VDEV_TEXT, "vdev:%d: %s%s of %lld bytes failed late, as asked (%s)", job->device->index,
           computes ? "kernel " : "", job->what, (long long)job->bytes,
           vdev_fault_name(computes ? VDEV_SITE_COMPUTE : VDEV_SITE_COPY));
  return false;
}

/* Do one job. First wait until its end, so that a program that reads too early sees the old data. Without the lock. */
static bool perform(const vdev_job *job, int64_t until, char *reason) {
  sleep_until(until);
  bool good = job->effect.fails_late ? refuse_late(job, reason) : job->work == NULL || job->work(job->context, reason);
  if (good && job->effect.is_wrong) {
    job->falsify(job->context);
  }
  if (job->release != NULL) {
    job->release(job->context);
  }
  return good;
}

/* The stream of an agent that still has work up to `sequence`. The stream may be gone, or another one have its number: the
 * sequence of that one begins where the first one's ended. */
static vdev_stream *pending_stream(int agent, uint64_t sequence) {
  vdev_stream *stream = agent > 0 ? vdev_global.streams[agent - 1] : NULL;
  return stream != NULL && stream->completed < sequence ? stream : NULL;
}

static void fail_stream(vdev_stream *stream, const vdev_operation *operation, const char *reason) {
  stream->device->statistics.errors++;
  if (stream->error[0] == '\0') {
    stream->error_sequence = stream->completed + 1;
    stream->error_owner = operation->job.owner;
    stream->error_run = operation->run;
    snprintf(stream->error, sizeof stream->error, "%s", reason);
  }
}

static void *run_worker(void *argument) {
  vdev_stream *stream = argument;
  vdev_lock();
  for (;;) {
    vdev_operation *operation = stream->first;
    if (operation == NULL && stream->stopping) {
      break;
    }
    if (operation == NULL || stream->running_inline) {
      pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
      continue;
    }
    if (pending_stream(operation->wait_agent, operation->wait_sequence) != NULL) {
      pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
      continue;
    }
    bool failed = stream->error[0] != '\0';
    int64_t until = real_end(operation->start, operation->end);
    vdev_unlock();
    char reason[VDEV_TEXT] = "";
    bool good = true;
    if (!failed) {
      good = perform(&operation->job, until, reason);
    } else if (operation->job.release != NULL) {
      operation->job.release(operation->job.context); /* a failed stream does nothing until the failure is reported */
    }
    vdev_lock();
    if (!good) {
      fail_stream(stream, operation, reason);
    }
    stream->first = operation->next;
    if (stream->first == NULL) {
      stream->last = NULL;
    }
    stream->completed++;
    free(operation);
    pthread_cond_broadcast(&vdev_global.changed);
  }
  vdev_unlock();
  return NULL;
}

static bool enqueue(vdev_stream *stream, const vdev_operation *operation, char *reason) {
  vdev_operation *copy = malloc(sizeof *copy);
  if (copy == NULL) {
    return vdev_refuse(stream->device, reason, "out of host memory");
  }
  *copy = *operation;
  copy->next = NULL;
  if (!stream->started) {
    if (pthread_create(&stream->worker, NULL, run_worker, stream) != 0) {
      free(copy);
      return vdev_refuse(stream->device, reason, "no thread for a stream");
    }
    stream->started = true;
  }
  if (stream->last != NULL) {
    stream->last->next = copy;
  } else {
    stream->first = copy;
  }
  stream->last = copy;
  pthread_cond_broadcast(&vdev_global.changed);
  return true;
}

/* Report a failure before an event, unless a wait has reported it; afterwards the stream works again. */
static bool take_error(vdev_stream *stream, const vdev_event *event, char *reason) {
  if (stream->error[0] == '\0' || stream->error_sequence > event->sequence) {
    return false;
  }
  snprintf(reason, VDEV_TEXT, "%s", stream->error);
  memcpy(stream->reported, stream->error, sizeof stream->reported);
  stream->reported_sequence = stream->error_sequence;
  stream->reported_count++;
  stream->error[0] = '\0';
  return true;
}

/* Another thread may destroy the stream while this one waits: so only its number is used then. */
static void await_sequence(int agent, uint64_t sequence) {
  while (pending_stream(agent, sequence) != NULL) {
    pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
  }
}

static vdev_stream *stream_of(int agent) {
  return agent > 0 ? vdev_global.streams[agent - 1] : NULL;
}

/* The host has waited for everything in `clocks`, until modelled `time`. */
static void host_waited(const uint64_t *clocks, int agent_limit, int64_t time) {
  vdev_clocks_join(vdev_global.host_clocks, clocks, agent_limit);
  if (time > vdev_global.host_time) {
    vdev_global.host_time = time;
  }
  vdev_race_prune();
}

/* The host waits for what an event stands for. */
static void await(const vdev_event *event) {
  int64_t start = vdev_now();
  await_sequence(event->agent, event->sequence);
  host_waited(event->clocks, event->agent_limit, event->time);
  vdev_trace_wait(event->device, event->agent, start, vdev_now());
}

static bool submit_synchronous(const vdev_job *job, char *reason) {
  int64_t start;
  int64_t end;
  schedule(NULL, job, &start, &end);
  count(job);
  vdev_trace_add(job->device, 0, job->what, job->bytes, start, end);
  int64_t until = real_end(start, end);
  vdev_unlock();
  bool good = perform(job, until, reason);
  vdev_lock();
  if (end > vdev_global.host_time) {
    vdev_global.host_time = end;
  }
  if (!good) {
    job->device->statistics.errors++;
  }
  return good;
}

/* The job will not be done. With the lock held, which the release may need. */
static void drop(const vdev_job *job) {
  if (job->release != NULL) {
    vdev_unlock();
    job->release(job->context);
    vdev_lock();
  }
}

bool vdev_submit(vdev_stream *stream, const vdev_job *job, bool wait, char *reason) {
  if (stream == NULL) {
    return submit_synchronous(job, reason);
  }
  if (stream->error[0] != '\0') {
    /* until a wait reports it: later work would use data that is missing */
    snprintf(reason, VDEV_TEXT, "%s", stream->error);
    drop(job);
    return false;
  }
  vdev_operation operation = {.job = *job, .run = current_run};
  stream->last_run = current_run;
  schedule(stream, job, &operation.start, &operation.end);
  count(job);
  vdev_trace_add(job->device, stream->agent, job->what, job->bytes, operation.start, operation.end);
  bool idle = stream->first == NULL && !stream->running_inline && stream->completed == stream->submitted;
  bool at_once = real_end(operation.start, operation.end) == 0 && !job->effect.fails_late;
  bool good = true;
  if (idle && at_once) {
    uint64_t sequence = ++stream->submitted;
    stream->running_inline = true;
    vdev_unlock();
    good = perform(job, 0, reason);
    vdev_lock();
    stream->running_inline = false;
    stream->completed = sequence;
    if (!good) {
      stream->device->statistics.errors++; /* the caller gets it at once */
      host_waited(stream->clocks, vdev_global.agent_limit, operation.end);
    }
    pthread_cond_broadcast(&vdev_global.changed); /* another thread may wait for the stream meanwhile */
  } else if (enqueue(stream, &operation, reason)) {
    stream->submitted++;
  } else {
    drop(job);
    return false;
  }
  return good && (!wait || vdev_stream_drain(stream, reason));
}

bool vdev_stream_queue(vdev_stream *stream, const vdev_job *job, char *reason) {
  vdev_operation operation = {.job = *job};
  if (stream->error[0] != '\0') {
    snprintf(reason, VDEV_TEXT, "%s", stream->error);
  } else if (enqueue(stream, &operation, reason)) {
    stream->submitted++;
    return true;
  }
  drop(job);
  return false;
}

void vdev_stream_advance(vdev_stream *stream) {
  vdev_clocks_join(stream->clocks, vdev_global.host_clocks, vdev_global.agent_limit);
  stream->clocks[stream->agent]++;
}

bool vdev_stream_drain(vdev_stream *stream, char *reason) {
  vdev_event here; /* work that other threads submit meanwhile is not waited for */
  vdev_event_mark(&here, stream);
  return vdev_event_await(&here, reason);
}

void vdev_stream_await(const vdev_stream *stream) {
  vdev_event here;
  vdev_event_mark(&here, stream);
  await(&here);
}

void vdev_run_begin(void) {
  static uint64_t runs;
  current_run = ++runs;
}

/* ORT keeps a session's stream for the next run, which must not meet this one's failure. */
bool vdev_run_end(bool wait, char *reason) {
  uint64_t run = current_run;
  bool good = true;
  current_run = 0;
  for (int agent = 1; agent < vdev_global.agent_limit && run != 0 && wait; agent++) {
    vdev_stream *stream = stream_of(agent);
    if (stream == NULL || stream->last_run != run) {
      continue;
    }
    vdev_event here;
    vdev_event_mark(&here, stream);
    await_sequence(agent, here.sequence);
    stream = stream_of(agent);
    char why[VDEV_TEXT];
    if (stream != NULL && stream->error_run == run && take_error(stream, &here, why)) {
      host_waited(here.clocks, here.agent_limit, here.time);
      if (good) {
        snprintf(reason, VDEV_TEXT, "%s", why);
      }
      good = false;
    }
  }
  return good;
}

bool vdev_device_drain(vdev_device *device, const void *owner, char *reason) {
  bool good = true;
  for (int agent = 1; agent < vdev_global.agent_limit; agent++) {
    vdev_stream *stream = stream_of(agent);
    if (stream == NULL || stream->device != device) {
      continue;
    }
    vdev_event here;
    vdev_event_mark(&here, stream);
    await(&here);
    stream = stream_of(agent);
    if (good && stream != NULL && stream->error_owner == owner) {
      good = !take_error(stream, &here, reason);
    }
  }
  return good;
}

void vdev_streams_wait(void) {
  for (int agent = 1; agent < vdev_global.agent_limit; agent++) {
    const vdev_stream *stream = stream_of(agent);
    if (stream != NULL) {
      await_sequence(agent, stream->submitted);
    }
  }
}

bool vdev_stream_exists(const vdev_stream *stream) {
  for (int agent = 1; agent < vdev_global.agent_limit; agent++) {
    if (stream != NULL && stream_of(agent) == stream) {
      return true;
    }
  }
  return false;
}

vdev_stream *vdev_stream_open(vdev_device *device, char *reason) {
  vdev_state *state = &vdev_global;
  const vdev_subject subject = {.site = VDEV_SITE_STREAM, .what = "stream creation"};
  vdev_effect effect = {0};
  if (!vdev_admit(device, &subject, &effect, reason)) {
    return NULL;
  }
  vdev_host_delay(effect.delay_ns);
  int slot = 0;
  while (slot < VDEV_MAX_STREAMS && state->streams[slot] != NULL) {
    slot++;
  }
  vdev_stream *stream = slot < VDEV_MAX_STREAMS ? calloc(1, sizeof *stream) : NULL;
  if (stream == NULL) {
    (void)vdev_refuse(device, reason, "no more than %d streams at a time", VDEV_MAX_STREAMS);
    return NULL;
  }
  static uint64_t serials;
  stream->device = device;
  stream->serial = ++serials;
  stream->agent = slot + 1;
  state->agent_limit = stream->agent >= state->agent_limit ? stream->agent + 1 : state->agent_limit;
  /* a reused number must not know what its earlier stream did */
  stream->clocks[stream->agent] = state->agent_clocks[stream->agent];
  stream->submitted = state->agent_sequences[stream->agent];
  stream->completed = stream->submitted;
  state->streams[slot] = stream;
  return stream;
}

void vdev_stream_close(vdev_stream *stream) {
  char reason[VDEV_TEXT];
  (void)vdev_stream_drain(stream, reason); /* ORT has waited before if it needs the result */
  stream->stopping = true;
  pthread_cond_broadcast(&vdev_global.changed);
  if (stream->started) {
    vdev_unlock();
    pthread_join(stream->worker, NULL);
    vdev_lock();
  }
  vdev_global.agent_clocks[stream->agent] = stream->clocks[stream->agent];
  vdev_global.agent_sequences[stream->agent] = stream->submitted;
  vdev_global.streams[stream->agent - 1] = NULL;
  free(stream);
}

bool vdev_event_exists(const vdev_event *event) {
  return event != NULL && (const void *)vdev_spans_before(&vdev_global.events, (size_t)event) == event;
}

vdev_event *vdev_event_open(void) {
  vdev_spans *events = &vdev_global.events;
  if (events->root == NULL) {
    vdev_spans_init(events, 0, SIZE_MAX);
  }
  vdev_event *event = calloc(1, sizeof *event);
  if (event != NULL) {
    event->span.start = (size_t)event;
    event->span.room = sizeof *event;
    vdev_spans_insert(events, &event->span);
  }
  return event;
}

void vdev_event_close(vdev_event *event) {
  vdev_spans_remove(&vdev_global.events, &event->span);
  free(event);
}

void vdev_event_mark(vdev_event *event, const vdev_stream *stream) {
  event->device = stream->device;
  event->agent = stream->agent;
  event->sequence = stream->submitted;
  event->reported_count = stream->reported_count;
  event->time = stream->tail;
  event->agent_limit = vdev_global.agent_limit;
  memcpy(event->clocks, stream->clocks, (size_t)event->agent_limit * sizeof event->clocks[0]);
}

bool vdev_event_await(vdev_event *event, char *reason) {
  if (event->agent == 0) {
    return true;
  }
  await(event);
  vdev_stream *stream = stream_of(event->agent);
  return stream == NULL || !take_error(stream, event, reason);
}

bool vdev_event_has_failed(const vdev_event *event, char *reason) {
  const vdev_stream *stream = stream_of(event->agent);
  bool failed =
      stream != NULL && stream->reported_count > event->reported_count && stream->reported_sequence <= event->sequence;
  if (failed) {
    snprintf(reason, VDEV_TEXT, "%s", stream->reported);
  }
  return failed;
}

bool vdev_event_has_passed(const vdev_event *event) {
  bool passed = pending_stream(event->agent, event->sequence) == NULL;
  if (passed && event->agent > 0) {
    host_waited(event->clocks, event->agent_limit, event->time);
  }
  return passed;
}

bool vdev_event_order(vdev_event *event, vdev_stream *stream, char *reason) {
  const vdev_stream *producer = pending_stream(event->agent, event->sequence);
  vdev_clocks_join(stream->clocks, event->clocks, event->agent_limit);
  if (event->time > stream->tail) {
    int64_t now = vdev_now();
    int64_t start = now > stream->tail ? now : stream->tail;
    if (event->time > start) {
      vdev_trace_add(stream->device, stream->agent, "wait for an event", 0, start, event->time);
    }
    stream->tail = event->time;
  }
  if (producer == NULL || producer == stream) {
    return true;
  }
  vdev_operation operation = {.job = {.device = stream->device}, .wait_agent = event->agent, .wait_sequence = event->sequence};
  if (!enqueue(stream, &operation, reason)) {
    return false;
  }
  stream->submitted++;
  return true;
}
