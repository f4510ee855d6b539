/* Records the work on streams that uses a tensor's memory, and orders host access after it. */
#include <stddef.h>

#include "tensor/tensor.h"

/* Is the use complete, and has a call returned the failure of its write, if it failed? */
static bool is_over(const iobind__use *use) {
  return iobind__stream_passed(use->stream, use->ticket) && !iobind__stream_owes(use->stream, use->written);
}

/* An entry for the stream: its own, an empty one, or one whose use is complete. NULL: none is free. */
static iobind__use *find_use(iobind_tensor *tensor, const iobind_stream *stream) {
  iobind__use *found = NULL;
  for (size_t i = 0; i < sizeof tensor->uses / sizeof tensor->uses[0]; i++) {
    iobind__use *use = &tensor->uses[i];
    if (use->stream == stream) {
      return use;
    }
    if (use->stream == NULL || is_over(use)) {
      found = use;
    }
  }
  return found;
}

static void note_use(iobind__use *use, iobind__ticket ticket, iobind__access access) {
  if (use->ticket < ticket) { /* otherwise another thread has recorded a later use */
    use->ticket = ticket;
  }
  if (access == IOBIND__WRITE && use->written < ticket) {
    use->written = ticket;
  }
}

/* If no entry is free, the use to wait for: one that is not yet complete. A complete one that is still there has failed, and
 * must stay until a call has returned its failure. */
static iobind__use *find_waitable(iobind_tensor *tensor) {
  iobind__use *first = &tensor->uses[0];
  return iobind__stream_passed(first->stream, first->ticket) ? &tensor->uses[1] : first;
}

static void add_use(iobind_tensor *tensor, iobind_stream *stream, iobind__ticket ticket, iobind__access access) {
  pthread_mutex_t *mutex = &tensor->place->device->runtime->uses_mutex;
  pthread_mutex_lock(mutex);
  iobind__use *use = find_use(tensor, stream);
  while (use == NULL) {
    /* a third stream: wait for one of the two uses; other threads may do the same */
    iobind__use *waited = find_waitable(tensor);
    const iobind__use old = *waited;
    iobind__ref_retain(&old.stream->ref);
    pthread_mutex_unlock(mutex);
    iobind__stream_pass(old.stream);
    pthread_mutex_lock(mutex);
    use = find_use(tensor, stream);
    if (use == NULL && waited == find_waitable(tensor) && waited->stream == old.stream) {
      use = waited; /* the wait itself failed, or both uses have failed */
    }
    iobind__ref_release(&old.stream->ref);
  }
  iobind_stream *old = use->stream;
  if (old != stream) {
    iobind__ref_retain(&stream->ref);
    *use = (iobind__use){.stream = stream};
  }
  note_use(use, ticket, access);
  atomic_store(&tensor->holders.is_used, true); /* before the list is read: a holder that is added later sees this */
  pthread_mutex_unlock(mutex);
  iobind__holders_meet(&tensor->holders, access == IOBIND__WRITE, NULL);
  if (old != NULL && old != stream) {
    iobind__ref_release(&old->ref);
  }
}

void iobind__tensor_use(iobind_tensor *tensor, const iobind__submission *submission, iobind__access access) {
  iobind_stream *stream = submission->stream;
  if (stream != NULL && iobind__stream_orders_calls(stream) && tensor->data != NULL) {
    add_use(iobind__tensor_memory(tensor), stream, iobind__submission_ticket(submission), access);
  }
}

void iobind__tensor_use_at(iobind_tensor *tensor, iobind_stream *stream, iobind__ticket ticket, iobind__access access) {
  add_use(iobind__tensor_memory(tensor), stream, ticket, access);
}

/* ---- host access in order ---- */

/* A use for which an access must wait, or whose failure a read must return, with a reference to its stream. Its stream is NULL
 * if there is none. */
static iobind__use find_pending(const iobind_tensor *memory, iobind__access access) {
  pthread_mutex_t *mutex = &memory->place->device->runtime->uses_mutex;
  iobind__use pending = {0};
  pthread_mutex_lock(mutex);
  for (size_t i = 0; i < sizeof memory->uses / sizeof memory->uses[0] && pending.stream == NULL; i++) {
    iobind__use use = memory->uses[i];
    bool writes = access == IOBIND__WRITE;
    use.ticket = writes ? use.ticket : use.written;
    bool is_done = use.stream == NULL ||
                   (iobind__stream_passed(use.stream, use.ticket) && (writes || !iobind__stream_owes(use.stream, use.ticket)));
    if (!is_done) {
      iobind__ref_retain(&use.stream->ref);
      pending = use;
    }
  }
  pthread_mutex_unlock(mutex);
  return pending;
}

static iobind_status settle(iobind_tensor *memory, iobind__access access, const iobind__flight *own, iobind_error *error) {
  iobind_status status = iobind__holders_await(&memory->holders, access == IOBIND__WRITE, own, error);
  while (status == IOBIND_OK && atomic_load_explicit(&memory->holders.is_used, memory_order_acquire)) {
    iobind_error reason = IOBIND_ERROR_INIT;
    iobind__use pending = find_pending(memory, access);
    if (pending.stream == NULL) {
      break;
    }
    status = iobind__stream_pass_ticket(pending.stream, pending.ticket, &reason);
    if (status != IOBIND_OK && access == IOBIND__WRITE && iobind__stream_passed(pending.stream, pending.ticket)) {
      status =
          IOBIND_OK; /* the failed data are overwritten now; the failure is not recorded as returned, because other data may be missing */
    } else {
      iobind__stream_tell(pending.stream, pending.ticket, status);
    }
    iobind__ref_release(&pending.stream->ref);
    if (status != IOBIND_OK) {
      (void)iobind__error_copy(error, &reason);
    }
  }
  return status;
}

iobind_status iobind__tensor_settle_for(const iobind_tensor *tensor, iobind__access access, const iobind__flight *own,
                                        iobind_error *error) {
  iobind_tensor *memory =
      iobind__tensor_memory((iobind_tensor *)(uintptr_t)tensor); /* only its list of holders changes, which has its own lock */
  return settle(memory, access, own, error);
}

iobind_status iobind__tensor_settle_held(const iobind__holder *holder, iobind_error *error) {
  if (holder->holders == NULL) {
    return IOBIND_OK;
  }
  iobind_tensor *memory = (iobind_tensor *)((char *)holder->holders - offsetof(iobind_tensor, holders));
  return settle(memory, holder->writes ? IOBIND__WRITE : IOBIND__READ, holder->flight, error);
}

iobind_status iobind__tensor_settle(const iobind_tensor *tensor, iobind__access access, iobind_error *error) {
  return iobind__tensor_settle_for(tensor, access, NULL, error);
}
