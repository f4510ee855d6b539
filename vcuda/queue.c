#define _POSIX_C_SOURCE 200809L /* sigset_t */

#include "queue.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

bool vcuda_stream_is_null(const vcuda_stream *stream) {
  return stream == stream->device->null_stream;
}

static bool is_blocking(const vcuda_stream *stream) {
  return (stream->flags & CUDA_STREAM_NON_BLOCKING) == 0;
}

/* ---- stream objects ---- */

void vcuda_stream_hold(vcuda_stream *stream) {
  stream->references++;
}

void vcuda_stream_drop(vcuda_stream *stream) {
  if (--stream->references > 0) return;
  vcuda_stream **link = &vcuda_global.streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  vcuda_global.agents[stream->agent] = false;
  vcuda_global.agent_clocks[stream->agent] = stream->clocks[stream->agent];
  pthread_cond_destroy(&stream->wake);
  free(stream->frontier.list);
  free(stream);
}

vcuda_stream *vcuda_stream_make(vcuda_device *device, unsigned flags) {
  int agent = 1;
  while (agent < VCUDA_AGENTS && vcuda_global.agents[agent]) agent++;
  vcuda_stream *stream = agent < VCUDA_AGENTS ? calloc(1, sizeof *stream) : NULL;
  if (stream == NULL) return NULL;
  stream->device = device;
  stream->references = 1;
  stream->flags = flags;
  stream->agent = agent;
  stream->clocks[agent] = vcuda_global.agent_clocks[agent];
  pthread_cond_init(&stream->wake, NULL);
  vcuda_global.agents[agent] = true;
  if (agent >= vcuda_global.agent_limit) vcuda_global.agent_limit = agent + 1;
  stream->next = vcuda_global.streams;
  vcuda_global.streams = stream;
  return stream;
}

/* The calling thread's default stream for this device, created on first use. It exists until the process ends. */
static vcuda_stream *find_per_thread(vcuda_device *device) {
  static _Thread_local vcuda_stream *own[VCUDA_MAX_DEVICES];
  if (own[device->index] == NULL) own[device->index] = vcuda_stream_make(device, 0);
  return own[device->index];
}

vcuda_stream *vcuda_stream_find(const void *handle, int *error) {
  vcuda_device *device = vcuda_device_current();
  *error = device == NULL ? CUDA_NO_DEVICE : CUDA_OK;
  if (device == NULL) return NULL;
  if ((uintptr_t)handle <= 1) return device->null_stream;
  if ((uintptr_t)handle == 2) {
    vcuda_stream *own = find_per_thread(device);
    *error = own == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
    return own;
  }
  vcuda_stream *stream = vcuda_global.streams;
  while (stream != NULL && (stream != handle || stream->closed)) stream = stream->next;
  if (stream == NULL) *error = CUDA_INVALID_HANDLE;
  return stream;
}

/* ---- the worker ---- */

static void free_work(vcuda_work *work) {
  for (size_t i = 0; i < work->dependency_count; i++) vcuda_stream_drop(work->dependencies[i].stream);
  if (work->order.event != NULL) vcuda_event_drop(work->order.event);
  if (work->order.exec != NULL) vcuda_exec_drop(work->order.exec);
  free(work->dependencies);
  free(work);
}

static bool is_due(const vcuda_work *work) {
  for (size_t i = 0; i < work->dependency_count; i++) {
    if (work->dependencies[i].stream->completed < work->dependencies[i].sequence) return false;
  }
  return true;
}

static void note_reached(const vcuda_work *work) {
  vcuda_event *event = work->order.event;
  if (work->order.kind == CUDA_NODE_RECORD && event->sequence == work->sequence) {
    event->time = vcuda_now();
    event->time_sequence = work->sequence;
  }
}

static void *work_on(void *argument) {
  vcuda_stream *stream = argument;
  vcuda_lock();
  while (stream->first != NULL || !stream->closed) {
    vcuda_work *work = stream->first;
    if (work == NULL) {
      pthread_cond_wait(&stream->wake, &vcuda_global.mutex);
      continue;
    }
    while (!is_due(work)) pthread_cond_wait(&vcuda_global.done, &vcuda_global.mutex);
    vcuda_unlock();
    vcuda_run_work(stream, work);
    vcuda_lock();
    note_reached(work);
    stream->first = work->next;
    if (stream->first == NULL) stream->last = NULL;
    stream->queued--;
    stream->completed = work->sequence;
    free_work(work);
    pthread_cond_broadcast(&vcuda_global.done);
  }
  vcuda_stream_drop(stream);
  vcuda_unlock();
  return NULL;
}

/* The worker blocks signals, so that the program's handlers run on its own threads. A crash's signal goes to the thread that crashed. */
static bool start_worker(vcuda_stream *stream) {
  sigset_t blocked;
  sigset_t before;
  pthread_t thread;
  sigfillset(&blocked);
  sigdelset(&blocked, SIGSEGV);
  sigdelset(&blocked, SIGBUS);
  sigdelset(&blocked, SIGFPE);
  sigdelset(&blocked, SIGILL);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  stream->started = pthread_create(&thread, NULL, work_on, stream) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (stream->started) {
    vcuda_stream_hold(stream);
    pthread_detach(thread);
  }
  return stream->started;
}

/* ---- queueing work ---- */

void vcuda_queue_count(vcuda_device *device, const vcuda_order *order) {
  switch (order->kind) {
    case CUDA_NODE_KERNEL: vcuda_count(device, VCUDA_COUNT_launches, order->exec == NULL ? 1 : 0); break;
    case CUDA_NODE_HOST: vcuda_count(device, VCUDA_COUNT_host_functions, 1); break;
    case CUDA_NODE_COPY:
    case CUDA_NODE_SET:
      vcuda_count(device, order->moved, order->moved_bytes);
      vcuda_count(device, (vcuda_counter)(order->moved + 1), 1);
      break;
    case CUDA_NODE_RECORD: vcuda_count(device, VCUDA_COUNT_events_recorded, 1); break;
    default: break;
  }
}

/* Make the work wait for work `sequence` of a stream, whose clocks these are. */
static void depend(vcuda_work *work, vcuda_stream *stream, uint64_t sequence, const uint64_t *clocks) {
  vcuda_clocks_join(work->clocks, clocks);
  if (stream->completed >= sequence) return;
  vcuda_stream_hold(stream);
  work->dependencies[work->dependency_count++] = (vcuda_dependency){stream, sequence};
}

/* Work of the NULL stream waits for all blocking streams of its device; work of a blocking stream waits for the NULL stream. */
static void depend_on_streams(vcuda_stream *stream, vcuda_work *work) {
  if (!is_blocking(stream)) return;
  for (vcuda_stream *other = vcuda_global.streams; other != NULL; other = other->next) {
    bool either_null = vcuda_stream_is_null(stream) || vcuda_stream_is_null(other);
    if (other != stream && other->device == stream->device && is_blocking(other) && either_null) {
      depend(work, other, other->submitted, other->clocks);
    }
  }
}

static void depend_on_order(vcuda_stream *stream, vcuda_work *work) {
  const vcuda_order *order = &work->order;
  vcuda_stream *last;
  uint64_t sequence;
  const uint64_t *clocks;
  if (order->kind == CUDA_NODE_EMPTY && order->event != NULL && order->event->stream != NULL) {
    depend(work, order->event->stream, order->event->sequence, order->event->clocks);
  }
  if (order->exec != NULL && vcuda_exec_last(order->exec, &last, &sequence, &clocks)) depend(work, last, sequence, clocks);
  depend_on_streams(stream, work);
}

static vcuda_work *make_work(const vcuda_order *order) {
  size_t head = (sizeof(vcuda_work) + 15) / 16 * 16;
  vcuda_work *work = malloc(head + order->bytes + order->tail_bytes);
  if (work == NULL) return NULL;
  memset(work, 0, sizeof *work);
  work->order = *order;
  unsigned char *arguments = (unsigned char *)work + head;
  if (order->bytes > 0) memcpy(arguments, order->arguments, order->bytes);
  if (order->tail_bytes > 0) memcpy(arguments + order->bytes, order->tail, order->tail_bytes);
  work->order.arguments = arguments;
  work->order.tail = arguments + order->bytes;
  return work;
}

static size_t count_streams(void) {
  size_t count = 2; /* for an event, and for the graph's last launch */
  for (const vcuda_stream *stream = vcuda_global.streams; stream != NULL; stream = stream->next) count++;
  return count;
}

static void record(vcuda_stream *stream, vcuda_event *event, const vcuda_work *work) {
  vcuda_stream *before = event->stream;
  vcuda_stream_hold(stream);
  event->stream = stream;
  event->sequence = work->sequence;
  memcpy(event->clocks, work->clocks, sizeof event->clocks);
  if (before != NULL) vcuda_stream_drop(before);
}

static void push(vcuda_stream *stream, vcuda_work *work) {
  memcpy(work->clocks, stream->clocks, sizeof work->clocks);
  vcuda_clocks_join(work->clocks, vcuda_global.host_clocks);
  depend_on_order(stream, work);
  work->clocks[stream->agent]++;
  memcpy(stream->clocks, work->clocks, sizeof stream->clocks);
  work->sequence = ++stream->submitted;
  if (work->order.event != NULL) work->order.event->references++;
  if (work->order.kind == CUDA_NODE_RECORD && work->order.event != NULL) record(stream, work->order.event, work);
  if (work->order.exec != NULL) {
    work->launch = ++vcuda_global.last_launch;
    vcuda_exec_hold(work->order.exec);
    vcuda_exec_launched(work->order.exec, stream, work->sequence);
  }
  if (stream->last != NULL) {
    stream->last->next = work;
  } else {
    stream->first = work;
  }
  stream->last = work;
  stream->queued++;
  pthread_cond_signal(&stream->wake);
}

int vcuda_queue_push(vcuda_stream *stream, const vcuda_order *order) {
  vcuda_stream_hold(stream); /* while the lock is released */
  if (stream->queued >= VCUDA_QUEUE) vcuda_count_sync(stream->device, VCUDA_COUNT_sync_queue);
  while (stream->queued >= VCUDA_QUEUE) pthread_cond_wait(&vcuda_global.done, &vcuda_global.mutex);
  int error = stream->device->error;
  vcuda_work *work = error == CUDA_OK ? make_work(order) : NULL;
  if (work != NULL) work->dependencies = calloc(count_streams(), sizeof *work->dependencies);
  if (error == CUDA_OK && (work == NULL || work->dependencies == NULL || (!stream->started && !start_worker(stream)))) {
    error = CUDA_OUT_OF_MEMORY;
  }
  if (error == CUDA_OK) {
    push(stream, work);
    vcuda_queue_count(stream->device, order);
  } else if (work != NULL) {
    free(work->dependencies);
    free(work);
  }
  vcuda_stream_drop(stream);
  return error;
}

/* The fault setting that makes the call itself fail, on the n-th operation. */
static int fail_on_request(vcuda_stream *stream, const vcuda_order *order) {
  vcuda_settings *settings = &stream->device->settings;
  if (order->kind == CUDA_NODE_COPY || order->kind == CUDA_NODE_SET) {
    return vcuda_trigger_fails(settings, VCUDA_SITE_COPY, order->moved_bytes, order->name, false) ? CUDA_UNKNOWN : CUDA_OK;
  }
  if (order->exec != NULL) {
    return vcuda_trigger_fails(settings, VCUDA_SITE_GRAPH, 0, order->name, false) ? CUDA_OUT_OF_RESOURCES : CUDA_OK;
  }
  if (order->kind == CUDA_NODE_KERNEL) {
    return vcuda_trigger_fails(settings, VCUDA_SITE_COMPUTE, 0, order->name, false) ? CUDA_OUT_OF_RESOURCES : CUDA_OK;
  }
  return CUDA_OK;
}

int vcuda_queue_order(vcuda_stream *stream, const vcuda_order *order) {
  if (stream->device->error != CUDA_OK) return stream->device->error;
  int error = vcuda_capture_refuses_legacy(stream);
  if (error == CUDA_OK) error = fail_on_request(stream, order);
  if (error != CUDA_OK) return error;
  return stream->capture != NULL ? vcuda_capture_order(stream, order) : vcuda_queue_push(stream, order);
}

int vcuda_submit(void *handle, const char *name, void (*run)(void *arguments), const void *arguments, size_t bytes) {
  const vcuda_order order = {.kind = CUDA_NODE_KERNEL, .name = name, .run = run, .arguments = arguments, .bytes = bytes};
  vcuda_start();
  vcuda_lock();
  int error;
  vcuda_stream *stream = vcuda_stream_find(handle, &error);
  if (stream != NULL && stream->device != vcuda_device_current()) {
    error = CUDA_INVALID_HANDLE; /* as CUDA: a launch needs a stream of the current device */
  } else if (stream != NULL) {
    error = vcuda_queue_order(stream, &order);
  }
  vcuda_unlock();
  return error;
}

/* ---- host waits ---- */

int vcuda_queue_wait_for(vcuda_stream *stream, uint64_t sequence, const uint64_t *clocks) {
  uint64_t reached[VCUDA_AGENTS]; /* excludes work that other threads queue during the wait */
  memcpy(reached, clocks, sizeof reached);
  vcuda_stream_hold(stream);
  while (stream->completed < sequence) pthread_cond_wait(&vcuda_global.done, &vcuda_global.mutex);
  vcuda_clocks_join(vcuda_global.host_clocks, reached);
  vcuda_race_prune();
  int error = stream->device->error;
  vcuda_stream_drop(stream);
  return error;
}

void vcuda_queue_let_pass(vcuda_stream *stream) {
  uint64_t sequence = stream->submitted;
  vcuda_stream_hold(stream);
  while (stream->completed < sequence) pthread_cond_wait(&vcuda_global.done, &vcuda_global.mutex);
  vcuda_stream_drop(stream);
}

static int wait_for_streams(vcuda_device *device, bool all) {
  vcuda_stream *stream = vcuda_global.streams;
  while (stream != NULL) {
    vcuda_stream_hold(stream); /* keeps it in the list */
    if (stream->device == device && (all || is_blocking(stream))) {
      (void)vcuda_queue_wait_for(stream, stream->submitted, stream->clocks);
    }
    vcuda_stream *next = stream->next; /* NOLINT(clang-analyzer-unix.Malloc): it is held */
    vcuda_stream_drop(stream);
    stream = next;
  }
  return device->error;
}

int vcuda_queue_wait_all(vcuda_device *device) {
  return wait_for_streams(device, true);
}

int vcuda_queue_wait(vcuda_stream *stream) {
  if (vcuda_stream_is_null(stream)) return wait_for_streams(stream->device, false);
  return vcuda_queue_wait_for(stream, stream->submitted, stream->clocks);
}
