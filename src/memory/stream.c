#include "memory/stream.h"

#include <stdlib.h>
#include <string.h>

#include "memory/allocator.h"
#include "support/options.h"

/* ---- devices that queue by themselves ---- */

/* Four bytes on the device: copying them back comes after everything that was queued before. */
static iobind_status get_fence(iobind_device *device, OrtValue **fence, iobind_error *error) {
  *fence = atomic_load_explicit(&device->fence, memory_order_acquire);
  if (*fence != NULL) {
    return IOBIND_OK;
  }
  static const int64_t one = 1;
  void *data;
  IOBIND__TRY(iobind__place_allocate(&device->places[IOBIND_MEMORY_DEFAULT], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &one, 1,
                                     sizeof(float), fence, &data, error));
  OrtValue *expected = NULL;
  if (!atomic_compare_exchange_strong(&device->fence, &expected, *fence)) {
    iobind__device_enter(device);
    IOBIND__API(device->runtime)->ReleaseValue(*fence); /* another thread was first */
    iobind__device_leave(device);
    *fence = expected;
  }
  return IOBIND_OK;
}

iobind_status iobind__device_wait(iobind_device *device, iobind_error *error) {
  if (!device->queued) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(device->runtime);
  OrtValue *fence;
  IOBIND__TRY(get_fence(device, &fence, error));
  static const int64_t one = 1;
  float sink = 0;
  OrtValue *target = NULL;
  IOBIND__ORT_TRY(api,
                  api->CreateTensorWithDataAsOrtValue(device->runtime->cpu_info, &sink, sizeof sink, &one, 1,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &target),
                  error, "wait for '%s'", device->spec);
  const OrtValue *source = fence;
  iobind__device_enter(device);
  OrtStatus *status = api->CopyTensors(device->runtime->env, &source, &target, NULL, 1);
  iobind__device_leave(device);
  api->ReleaseValue(target);
  return status == NULL ? IOBIND_OK : iobind__ort_fail(api, status, error, "wait for '%s'", device->spec);
}

/* ---- tickets ---- */

iobind__ticket iobind__stream_take_ticket(iobind_stream *stream) {
  return atomic_fetch_add(&stream->submitted, 1) + 1;
}

bool iobind__stream_passed(const iobind_stream *stream, iobind__ticket ticket) {
  return atomic_load_explicit(&stream->passed, memory_order_acquire) >= ticket;
}

bool iobind__stream_seen(const iobind_stream *stream, iobind__ticket ticket) {
  return atomic_load_explicit(&stream->seen, memory_order_acquire) >= ticket;
}

static bool raise_to(atomic_uint_least64_t *mark, iobind__ticket ticket) {
  uint_least64_t old = atomic_load(mark);
  while (old < ticket && !atomic_compare_exchange_weak(mark, &old, ticket)) {
  }
  return old < ticket;
}

bool iobind__stream_is_busy(const iobind_stream *stream) {
  return stream->by_worker &&
         (atomic_load(&stream->failed) != 0 || !iobind__stream_passed(stream, atomic_load(&stream->submitted)));
}

static const iobind__lost *find_lost(const iobind_stream *stream, iobind__ticket ticket) {
  for (size_t i = 0; i < stream->lost_count; i++) {
    if (stream->lost[i].from <= ticket && ticket <= stream->lost[i].to) {
      return &stream->lost[i];
    }
  }
  return NULL;
}

static void add_lost(iobind_stream *stream, iobind__ticket from, iobind__ticket to, const iobind_error *failure) {
  if (stream->lost_count == IOBIND__LOST) {
    /* the two oldest become one: who asks so late about what lay between them is told a failure, rather than none */
    stream->lost[0].to = stream->lost[1].to;
    memmove(&stream->lost[1], &stream->lost[2], (IOBIND__LOST - 2) * sizeof stream->lost[0]);
    stream->lost_count--;
  }
  stream->lost[stream->lost_count++] = (iobind__lost){from, to, *failure};
  atomic_store(&stream->last_lost, to);
}

void iobind__stream_fail(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket, const iobind_error *failure) {
  iobind__ticket last = atomic_load(&stream->submitted); /* a failed stream may have left out what was behind, too */
  pthread_mutex_lock(&stream->mutex);
  if (find_lost(stream, ticket) == NULL) { /* otherwise another has waited for the same */
    stream->failure = *failure;
    add_lost(stream, after < ticket ? after + 1 : ticket, last, failure);
    atomic_store(&stream->failed, ticket);
  }
  pthread_mutex_unlock(&stream->mutex);
}

iobind_status iobind__stream_outcome(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  if (atomic_load(&stream->last_lost) < ticket) {
    return status;
  }
  pthread_mutex_lock(&stream->mutex);
  const iobind__lost *lost = find_lost(stream, ticket);
  if (lost != NULL) {
    status = iobind__error_copy(error, &lost->failure);
  }
  pthread_mutex_unlock(&stream->mutex);
  return status;
}

/* Destroy what was retired and has passed. */
static void collect(iobind_stream *stream) {
  for (;;) {
    iobind__ref *ref = NULL;
    pthread_mutex_lock(&stream->mutex);
    for (size_t i = 0; i < stream->retired_count && ref == NULL; i++) {
      if (iobind__stream_passed(stream, stream->retired[i].ticket)) {
        ref = stream->retired[i].ref;
        stream->retired[i] = stream->retired[--stream->retired_count];
      }
    }
    pthread_mutex_unlock(&stream->mutex);
    if (ref == NULL) {
      return;
    }
    ref->destroy(ref);
  }
}

/* ---- deliveries ---- */

void iobind__stream_deliver(iobind_stream *stream, const void *from, void *to, size_t bytes) {
  pthread_mutex_lock(&stream->mutex);
  size_t count = atomic_load_explicit(&stream->delivery_count, memory_order_relaxed);
  atomic_store(&stream->delivery_count, count + 1); /* first: who takes a later ticket, and waits for that, sees it */
  stream->deliveries[count] = (iobind__delivery){iobind__stream_take_ticket(stream), from, to, bytes};
  pthread_mutex_unlock(&stream->mutex);
}

bool iobind__stream_delivers(iobind_stream *stream, iobind__ticket ticket) {
  if (atomic_load_explicit(&stream->delivery_count, memory_order_acquire) == 0) {
    return false;
  }
  pthread_mutex_lock(&stream->mutex);
  bool any = atomic_load_explicit(&stream->delivery_count, memory_order_relaxed) > 0 && stream->deliveries[0].ticket <= ticket;
  pthread_mutex_unlock(&stream->mutex);
  return any;
}

iobind_status iobind__stream_use_host(iobind_stream *stream, const void *data, size_t bytes, iobind_error *error) {
  if (stream == NULL || atomic_load_explicit(&stream->delivery_count, memory_order_acquire) == 0) {
    return IOBIND_OK;
  }
  bool shared = false;
  uintptr_t start = (uintptr_t)data;
  pthread_mutex_lock(&stream->mutex);
  for (size_t i = 0; i < atomic_load_explicit(&stream->delivery_count, memory_order_relaxed); i++) {
    uintptr_t to = (uintptr_t)stream->deliveries[i].to;
    shared = shared || (start < to + stream->deliveries[i].bytes && to < start + bytes);
  }
  pthread_mutex_unlock(&stream->mutex);
  return shared ? iobind__stream_drain(stream, error) : IOBIND_OK;
}

/* Copy what has arrived to where it belongs. With the mutex held meanwhile: another one who learns that the stream has passed waits for
 * the copy, too. */
static void deliver(iobind_stream *stream, iobind__ticket ticket) {
  if (atomic_load(&stream->delivery_count) == 0) {
    return;
  }
  pthread_mutex_lock(&stream->mutex);
  size_t count = atomic_load_explicit(&stream->delivery_count, memory_order_relaxed);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    const iobind__delivery one = stream->deliveries[i];
    if (one.ticket > ticket) {
      stream->deliveries[kept++] = one;
    } else if (find_lost(stream, one.ticket) == NULL) {
      memcpy(one.to, one.from, one.bytes);
    }
  }
  atomic_store_explicit(&stream->delivery_count, kept, memory_order_release);
  pthread_mutex_unlock(&stream->mutex);
}

/* ---- what the host has seen ---- */

void iobind__stream_advance(iobind_stream *stream, iobind__ticket ticket) {
  deliver(stream, ticket);
  if (raise_to(&stream->passed, ticket)) {
    collect(stream);
  }
  raise_to(&stream->seen, ticket);
}

void iobind__stream_retire(iobind_stream *stream, iobind__ticket ticket, iobind__ref *ref) {
  enum { MOST = 1024 }; /* a caller who never waits is made to */
  pthread_mutex_lock(&stream->mutex);
  bool drained = stream->stopping;
  bool kept = !drained && stream->retired_count < stream->retired_capacity;
  if (!kept && !drained && stream->retired_capacity < MOST) {
    size_t capacity = stream->retired_capacity * 2 + 8;
    iobind__retired *larger = realloc(stream->retired, capacity * sizeof *larger);
    if (larger != NULL) {
      stream->retired = larger;
      stream->retired_capacity = capacity;
      kept = true;
    }
  }
  if (kept) {
    stream->retired[stream->retired_count++] = (iobind__retired){ticket, ref};
  }
  pthread_mutex_unlock(&stream->mutex);
  if (!kept) {
    if (!drained) {
      (void)iobind__stream_drain(stream, NULL);
    }
    ref->destroy(ref);
  }
}

/* ---- workers ---- */

static void finish(iobind_stream *stream, iobind__task *task, iobind_status status, const iobind_error *error) {
  iobind__ticket ticket = task->ticket;
  if (task->destroy != NULL) {
    task->destroy(task);
  }
  pthread_mutex_lock(&stream->mutex);
  if (status != IOBIND_OK && stream->by_worker && atomic_load(&stream->failed) == 0) {
    stream->failure = *error;
    atomic_store(&stream->failed, ticket);
  }
  if (stream->by_worker) {
    atomic_store(&stream->passed, ticket);
  }
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
}

static void *work(void *context) {
  iobind_stream *stream = context;
  pthread_mutex_lock(&stream->mutex);
  for (;;) {
    iobind__task *task = stream->tasks;
    if (task == NULL && stream->stopping) {
      break;
    }
    if (task == NULL) {
      pthread_cond_wait(&stream->changed, &stream->mutex);
      continue;
    }
    stream->tasks = task->next;
    if (stream->tasks == NULL) {
      stream->tasks_end = &stream->tasks;
    }
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_error failure = stream->failure;
    bool failed = stream->by_worker && atomic_load(&stream->failed) != 0;
    pthread_mutex_unlock(&stream->mutex);
    iobind_status status = task->run(task, failed ? &failure : NULL, &error);
    finish(stream, task, status, &error);
    pthread_mutex_lock(&stream->mutex);
  }
  pthread_mutex_unlock(&stream->mutex);
  return NULL;
}

iobind_status iobind__stream_submit(iobind_stream *stream, iobind__task *task, iobind_error *error) {
  pthread_mutex_lock(&stream->mutex);
  if (stream->stopping) {
    /* asked for an event, by another thread or later: the worker may be gone */
    pthread_mutex_unlock(&stream->mutex);
    iobind_status status = task->run(task, NULL, error);
    if (status == IOBIND_OK) {
      task->destroy(task);
    }
    return status;
  }
  if (!stream->started && pthread_create(&stream->worker, NULL, work, stream) != 0) {
    pthread_mutex_unlock(&stream->mutex);
    return iobind__fail(error, IOBIND_OUT_OF_MEMORY, "stream of '%s': no thread can be started for it", stream->device->spec);
  }
  stream->started = true;
  task->next = NULL;
  task->ticket = stream->by_worker ? iobind__stream_take_ticket(stream) : 0;
  *stream->tasks_end = task;
  stream->tasks_end = &task->next;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
  return IOBIND_OK;
}

/* ---- waiting on the host ---- */

iobind_status iobind__stream_wait_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  if (!stream->by_worker) {
    if (!iobind__stream_passed(stream, ticket)) {
      IOBIND__TRY(iobind__stream_drain(stream, error));
    }
    raise_to(&stream->seen, ticket); /* another thread may have raised the other mark alone so far */
    return iobind__stream_outcome(stream, ticket, error);
  }
  pthread_mutex_lock(&stream->mutex);
  while (!iobind__stream_passed(stream, ticket)) {
    pthread_cond_wait(&stream->changed, &stream->mutex);
  }
  raise_to(&stream->seen, ticket);
  iobind__ticket failed = atomic_load(&stream->failed);
  bool lost = failed != 0 && failed <= ticket;
  iobind_status status = lost ? iobind__error_copy(error, &stream->failure) : IOBIND_OK;
  pthread_mutex_unlock(&stream->mutex);
  return lost ? status : iobind__stream_outcome(stream, ticket, error);
}

iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error) {
  if (stream == NULL) {
    return IOBIND_OK;
  }
  if (stream->by_worker) {
    iobind_status status = iobind__stream_wait_ticket(stream, atomic_load(&stream->submitted), error);
    return status == IOBIND_OK ? iobind__device_wait(stream->device, error) : status;
  }
  return iobind__stream_wait_end(stream, error);
}

/* ---- streams ---- */

static void free_stream(iobind__ref *ref) {
  iobind_stream *stream = (iobind_stream *)ref;
  iobind_runtime *runtime = stream->device->runtime;
  free(stream->retired);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->mutex);
  free(stream);
  iobind__ref_release(&runtime->ref);
}

static iobind_status make_sync(iobind_device *device, const iobind_stream_options *options, OrtSyncStream **sync,
                               iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  OrtKeyValuePairs *pairs = NULL;
  if (options->option_count > 0) {
    api->CreateKeyValuePairs(&pairs);
    for (size_t i = 0; i < options->option_count; i++) {
      api->AddKeyValuePair(pairs, options->option_keys[i], options->option_values[i]);
    }
  }
  OrtStatus *status = api->CreateSyncStreamForEpDevice(device->ep_device, pairs, sync);
  if (pairs != NULL) {
    api->ReleaseKeyValuePairs(pairs);
  }
  return status == NULL ? IOBIND_OK : iobind__ort_fail(api, status, error, "stream_create: '%s'", device->spec);
}

static iobind_status check_options(const iobind_device *device, const iobind_stream_options *options, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags, 0, "stream_create", error));
  if (options->option_count > 0 && (device->flags & IOBIND_DEVICE_STREAMS) == 0) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED,
                        "stream_create: '%s': options are for the streams of an execution provider, and it has none",
                        device->spec);
  }
  bool lists = options->option_keys != NULL && options->option_values != NULL;
  for (size_t i = 0; i < options->option_count; i++) {
    if (!lists || options->option_keys[i] == NULL || options->option_values[i] == NULL) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_create: option key or value %zu is NULL", i);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *given, iobind_stream **stream,
                                   iobind_error *error) {
  if (stream != NULL) {
    *stream = NULL;
  }
  if (device == NULL || stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_create: %s is NULL", device == NULL ? "device" : "stream");
  }
  iobind_stream_options options;
  IOBIND__TRY(iobind__options_read(&options, sizeof options, sizeof options, given, "stream_create", error));
  IOBIND__TRY(check_options(device, &options, error));
  iobind_stream *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__out_of_memory(error, "stream_create");
  }
  made->device = device;
  made->by_worker = (device->flags & IOBIND_DEVICE_STREAMS) == 0;
  iobind_status status = made->by_worker ? IOBIND_OK : make_sync(device, &options, &made->sync, error);
  if (status != IOBIND_OK) {
    free(made);
    return status;
  }
  iobind__ref_init(&made->ref, free_stream);
  pthread_mutex_init(&made->mutex, NULL);
  pthread_cond_init(&made->changed, NULL);
  made->tasks_end = &made->tasks;
  iobind__ref_retain(&device->runtime->ref);
  *stream = made;
  return IOBIND_OK;
}

void iobind_stream_destroy(iobind_stream *stream) {
  if (stream == NULL) {
    return;
  }
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__ticket last = atomic_load(&stream->submitted);
  if (iobind__stream_drain(stream, &reason) != IOBIND_OK && !stream->by_worker && !iobind__stream_passed(stream, last)) {
    iobind__stream_fail(stream, atomic_load(&stream->passed), last,
                        &reason); /* it could not be waited for: nothing is known of it */
  }
  pthread_mutex_lock(&stream->mutex);
  OrtSyncStream *sync = stream->sync;
  stream->sync = NULL;
  stream->stopping = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
  if (stream->started) {
    pthread_join(stream->worker, NULL);
  }
  iobind__stream_advance(stream, atomic_load(&stream->submitted));
  collect(stream);
  for (size_t i = 0; i < IOBIND__STAGING; i++) {
    iobind_tensor_release(stream->staging[i]);
    stream->staging[i] = NULL;
  }
  if (sync != NULL) {
    IOBIND__API(stream->device->runtime)->ReleaseSyncStream(sync);
  }
  iobind__ref_release(&stream->ref);
}

static iobind_status do_nothing(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  (void)task, (void)failure, (void)error;
  return IOBIND_OK;
}

/* A worker's stream has failed and its caller is told: it works again. What was before is remembered for who asks later, and what
 * comes next has tickets behind it. */
static void forgive(iobind_stream *stream) {
  pthread_mutex_lock(&stream->mutex);
  iobind__ticket failed = atomic_load(&stream->failed);
  if (failed != 0) {
    add_lost(stream, failed, atomic_load(&stream->submitted), &stream->failure);
  }
  atomic_store(&stream->failed, 0);
  pthread_mutex_unlock(&stream->mutex);
  if (failed != 0) {
    stream->mark = (iobind__task){.run = do_nothing};
    if (iobind__stream_submit(stream, &stream->mark, NULL) == IOBIND_OK) {
      (void)iobind__stream_wait_ticket(stream, stream->mark.ticket, NULL);
    }
  }
}

iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error) {
  if (stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_synchronize: stream is NULL");
  }
  iobind_status status = iobind__stream_drain(stream, error);
  if (stream->by_worker) {
    forgive(stream);
    return status;
  }
  pthread_mutex_lock(&stream->mutex);
  if (status == IOBIND_OK && atomic_load(&stream->failed) != 0) {
    status = iobind__error_copy(error, &stream->failure); /* the EP has told it to another who waited */
  }
  atomic_store(&stream->failed, 0); /* it has been told: the stream works again */
  pthread_mutex_unlock(&stream->mutex);
  return status;
}

void *iobind_stream_native(const iobind_stream *stream) {
  return stream == NULL || stream->sync == NULL ? NULL
                                                : IOBIND__API(stream->device->runtime)->SyncStream_GetHandle(stream->sync);
}
