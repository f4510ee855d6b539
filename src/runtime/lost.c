/* The loss of a device. After some failures, such as a kernel's access to invalid memory, nothing works on a device until the
 * process ends. Then all work in flight has failed, no thread may wait for it, and new work is refused. */
#include "runtime/runtime.h"

void iobind__loss_init(iobind__loss *loss) {
  pthread_mutex_init(&loss->mutex, NULL);
  atomic_init(&loss->is_lost, false);
  loss->hooks = NULL;
}

void iobind__loss_destroy(iobind__loss *loss) {
  pthread_mutex_destroy(&loss->mutex);
}

void iobind__loss_watch(iobind_device *device, iobind__loss_hook *hook) {
  pthread_mutex_lock(&device->loss.mutex);
  hook->next = device->loss.hooks;
  device->loss.hooks = hook;
  pthread_mutex_unlock(&device->loss.mutex);
}

void iobind__loss_unwatch(iobind_device *device, iobind__loss_hook *hook) {
  pthread_mutex_lock(&device->loss.mutex);
  iobind__loss_hook **link = &device->loss.hooks;
  while (*link != hook) {
    link = &(*link)->next;
  }
  *link = hook->next;
  pthread_mutex_unlock(&device->loss.mutex);
}

iobind_status iobind__loss_refuse(const iobind_device *device, iobind_error *error) {
  return iobind__error_copy(error, &device->loss.reason);
}

/* Fail all work in flight, and refuse new work. `why` is the first failure. The caller holds no stream's mutex. */
static void lose(iobind_device *device, const char *why) {
  iobind__loss *loss = &device->loss;
  pthread_mutex_lock(&loss->mutex);
  if (!atomic_load(&loss->is_lost)) {
    loss->reason = (iobind_error)IOBIND_ERROR_INIT;
    iobind__error_set(
        &loss->reason, IOBIND_ERROR_DEVICE_LOST, 0,
        "'%s' is lost: nothing works on it in this process any more: continue with another device, or in a new process. The "
        "first failure was: %s",
        device->spec, why);
    atomic_store(&loss->is_lost, true);
    for (iobind__loss_hook *hook = loss->hooks; hook != NULL; hook = hook->next) {
      hook->lose(hook, &loss->reason);
    }
  }
  pthread_mutex_unlock(&loss->mutex);
}

iobind_status iobind__device_heed(iobind_device *device, iobind_status status, iobind_error *error) {
  iobind_error told = IOBIND_ERROR_INIT;
  int stays = iobind__context_ask(device->context);
  iobind__context_forget_error(device->context);
  if (stays == 0) {
    return status;
  }
  if (error != NULL) {
    (void)iobind__error_copy(&told, error);
  }
  if (told.message[0] == '\0') {
    iobind__error_set(&told, status, 0, "'%s': every call on the device returns error %d", device->spec, stays);
  }
  lose(device, iobind__error_text(&told));
  iobind__error_set(error, IOBIND_ERROR_DEVICE_LOST, told.ort_code, "%s", told.message);
  return IOBIND_ERROR_DEVICE_LOST;
}
