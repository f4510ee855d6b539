/* Lanes: copies and runs in the order of their submission, on two queues. */
#include <stdlib.h>

#include "d3d12/d3d12.h"

/* A command list, which can be recorded again when it is complete. */
typedef struct command {
  struct command *next;
  d3d12_allocator *allocator;
  d3d12_list *list;
  uint64_t value;
} command;

struct iobind__lane {
  pthread_mutex_t mutex;
  d3d12_device *device; /* references to this and the next three are held */
  d3d12_queue *compute;
  d3d12_queue *copy;
  d3d12_fence *fence;
  uint64_t last;   /* the fence's value when all submitted work is complete */
  bool on_compute; /* the last work was submitted to the shared queue */
  command *oldest;
  command *newest;
  size_t count;
};

static const d3d_guid queue_id = {0x0ec870a6, 0x5d7e, 0x4c22, {0x8c, 0xfc, 0x5b, 0xaa, 0xe0, 0x76, 0x16, 0xed}};
static const d3d_guid fence_id = {0x0a753dcf, 0xc4d8, 0x4b91, {0xad, 0xf6, 0xbe, 0x5a, 0x60, 0xd9, 0x5a, 0x76}};
static const d3d_guid allocator_id = {0x6102dee4, 0xaf59, 0x4b09, {0xb9, 0x99, 0xb4, 0x4d, 0x73, 0xf0, 0x9b, 0x24}};
static const d3d_guid list_id = {0x5b160d0f, 0xac1b, 0x4185, {0x8b, 0xa8, 0xb3, 0xae, 0x42, 0xa5, 0xa4, 0x55}};

static void free_command(command *one) {
  iobind__com_release(one->list);
  iobind__com_release(one->allocator);
  free(one);
}

void iobind__lane_close(iobind__lane *lane) {
  if (lane == NULL) {
    return;
  }
  for (command *one = lane->oldest, *next; one != NULL; one = next) {
    next = one->next;
    free_command(one);
  }
  iobind__com_release(lane->fence);
  iobind__com_release(lane->copy);
  iobind__com_release(lane->compute);
  iobind__com_release(lane->device);
  pthread_mutex_destroy(&lane->mutex);
  free(lane);
}

iobind_status iobind__lane_open(const iobind__d3d12 *d3d12, iobind__lane **out, iobind_error *error) {
  *out = NULL;
  iobind__lane *lane = calloc(1, sizeof *lane);
  if (lane == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  pthread_mutex_init(&lane->mutex, NULL);
  lane->device = d3d12->device;
  iobind__com_retain(lane->device);
  lane->compute = d3d12->queue;
  iobind__com_retain(lane->compute);
  const d3d12_queue_desc desc = {.type = D3D12_COPY};
  d3d12_device *device = lane->device;
  iobind_status status = iobind__d3d12_check(device->table->CreateCommandQueue(device, &desc, &queue_id, (void **)&lane->copy),
                                             "a queue for copies", error);
  if (status == IOBIND_OK) {
    status = iobind__d3d12_check(device->table->CreateFence(device, 0, 0, &fence_id, (void **)&lane->fence), "a fence", error);
  }
  if (status != IOBIND_OK) {
    iobind__lane_close(lane);
    return status;
  }
  *out = lane;
  return IOBIND_OK;
}

d3d12_fence *iobind__lane_fence(const iobind__lane *lane) {
  return lane->fence;
}

static uint64_t passed_value(iobind__lane *lane) {
  return lane->fence->table->GetCompletedValue(lane->fence);
}

/* ---- waiting on the host ---- */

/* The removal of a device sets its fences to the highest value. */
static iobind_status check_removed(iobind__lane *lane, iobind_error *error) {
  if (passed_value(lane) != UINT64_MAX) {
    return IOBIND_OK;
  }
  d3d_result reason = lane->device->table->GetDeviceRemovedReason(lane->device);
  return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                      "the D3D12 device was removed (0x%08x): create a new one, and a new runtime", (unsigned)reason);
}

iobind_status iobind__lane_wait(iobind__lane *lane, uint64_t value, iobind_error *error) {
  if (passed_value(lane) < value) {
    IOBIND__TRY(iobind__d3d12_check(lane->fence->table->SetEventOnCompletion(lane->fence, value, NULL), "wait", error));
  }
  return check_removed(lane, error);
}

/* ---- command lists ---- */

static iobind_status make_command(iobind__lane *lane, command **out, iobind_error *error) {
  command *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  d3d12_device *device = lane->device;
  d3d_result result = device->table->CreateCommandAllocator(device, D3D12_COPY, &allocator_id, (void **)&made->allocator);
  if (result >= 0) {
    result = device->table->CreateCommandList(device, 0, D3D12_COPY, made->allocator, NULL, &list_id, (void **)&made->list);
  }
  iobind_status status = iobind__d3d12_check(result, "a command list", error);
  if (status != IOBIND_OK) {
    free_command(made);
    return status;
  }
  lane->count++;
  *out = made;
  return IOBIND_OK;
}

/* A command list to record: the oldest if it is complete, or a new one. With the mutex held. */
static iobind_status take_command(iobind__lane *lane, command **out, iobind_error *error) {
  enum { MOST = 64 }; /* then a caller that never waits has to wait */
  command *oldest = lane->oldest;
  if (oldest == NULL || (oldest->value > passed_value(lane) && lane->count < MOST)) {
    return make_command(lane, out, error);
  }
  IOBIND__TRY(iobind__lane_wait(lane, oldest->value, error));
  lane->oldest = oldest->next;
  if (lane->oldest == NULL) {
    lane->newest = NULL;
  }
  d3d_result result = oldest->allocator->table->Reset(oldest->allocator);
  if (result >= 0) {
    result = oldest->list->table->Reset(oldest->list, oldest->allocator, NULL);
  }
  iobind_status status = iobind__d3d12_check(result, "a command list", error);
  if (status != IOBIND_OK) {
    free_command(oldest);
    lane->count--;
    return status;
  }
  *out = oldest;
  return IOBIND_OK;
}

/* With the mutex held. */
static void keep_command(iobind__lane *lane, command *one, uint64_t value) {
  one->value = value;
  one->next = NULL;
  if (lane->newest == NULL) {
    lane->oldest = one;
  } else {
    lane->newest->next = one;
  }
  lane->newest = one;
}

/* ---- submitting ---- */

/* Make the queue's next work wait for all previously submitted work. With the mutex held. */
static iobind_status go_to(iobind__lane *lane, bool compute, iobind_error *error) {
  d3d12_queue *queue = compute ? lane->compute : lane->copy;
  if (lane->on_compute == compute || lane->last == 0) {
    return IOBIND_OK;
  }
  return iobind__d3d12_check(queue->table->Wait(queue, lane->fence, lane->last), "a queue's wait", error);
}

/* Signal the fence after the submission. With the mutex held. */
static iobind_status count(iobind__lane *lane, bool compute, uint64_t *value, iobind_error *error) {
  d3d12_queue *queue = compute ? lane->compute : lane->copy;
  IOBIND__TRY(iobind__d3d12_check(queue->table->Signal(queue, lane->fence, lane->last + 1), "a queue's signal", error));
  lane->last++;
  lane->on_compute = compute;
  *value = lane->last;
  return IOBIND_OK;
}

static iobind_status copy(iobind__lane *lane, const iobind__buffer_copy *copies, size_t number, uint64_t *value,
                          iobind_error *error) {
  command *one = NULL;
  IOBIND__TRY(take_command(lane, &one, error));
  d3d12_list *list = one->list;
  for (size_t i = 0; i < number; i++) {
    list->table->CopyBufferRegion(list, copies[i].to, copies[i].to_offset, copies[i].from, copies[i].from_offset,
                                  copies[i].bytes);
  }
  iobind_status status = iobind__d3d12_check(list->table->Close(list), "a command list", error);
  if (status == IOBIND_OK) {
    status = go_to(lane, false, error);
  }
  if (status != IOBIND_OK) {
    free_command(one);
    lane->count--;
    return status;
  }
  lane->copy->table->ExecuteCommandLists(lane->copy, 1, &list);
  status = count(lane, false, value, error);
  keep_command(lane, one, lane->last + (status == IOBIND_OK ? 0 : 1));
  return status;
}

iobind_status iobind__lane_copy(iobind__lane *lane, const iobind__buffer_copy *copies, size_t number, uint64_t *value,
                                iobind_error *error) {
  pthread_mutex_lock(&lane->mutex);
  iobind_status status = copy(lane, copies, number, value, error);
  pthread_mutex_unlock(&lane->mutex);
  return status;
}

iobind_status iobind__lane_enter_compute(iobind__lane *lane, iobind_error *error) {
  pthread_mutex_lock(&lane->mutex);
  iobind_status status = go_to(lane, true, error);
  pthread_mutex_unlock(&lane->mutex);
  return status;
}

iobind_status iobind__lane_leave_compute(iobind__lane *lane, uint64_t *value, iobind_error *error) {
  pthread_mutex_lock(&lane->mutex);
  iobind_status status = count(lane, true, value, error);
  pthread_mutex_unlock(&lane->mutex);
  return status;
}

/* The lane's own queue waits, so that other lanes do not. */
iobind_status iobind__lane_order(iobind__lane *lane, d3d12_fence *fence, uint64_t fence_value, uint64_t *value,
                                 iobind_error *error) {
  pthread_mutex_lock(&lane->mutex);
  iobind_status status = go_to(lane, false, error);
  if (status == IOBIND_OK) {
    status = iobind__d3d12_check(lane->copy->table->Wait(lane->copy, fence, fence_value), "a queue's wait", error);
  }
  if (status == IOBIND_OK) {
    status = count(lane, false, value, error);
  }
  pthread_mutex_unlock(&lane->mutex);
  return status;
}

iobind_status iobind__lane_signal(iobind__lane *lane, d3d12_fence *fence, uint64_t fence_value, iobind_error *error) {
  pthread_mutex_lock(&lane->mutex);
  d3d12_queue *queue = lane->on_compute ? lane->compute : lane->copy;
  iobind_status status = iobind__d3d12_check(queue->table->Signal(queue, fence, fence_value), "a queue's signal", error);
  pthread_mutex_unlock(&lane->mutex);
  return status;
}
