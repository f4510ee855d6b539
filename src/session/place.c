/* The memory locations of a session's values. */
#include <stdlib.h>

#include "memory/driver.h"
#include "session/session.h"

bool iobind__session_has_device(const iobind_session *session, const iobind_device *device) {
  for (size_t i = 0; i < session->device_count; i++) {
    if (session->devices[i] == device) {
      return true;
    }
  }
  return false;
}

bool iobind__session_reads(const iobind_session *session, const iobind__value *input, const iobind_tensor *tensor) {
  const iobind__place *wanted = input->place;
  const iobind__place *host = &session->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  if (tensor->place == wanted || (tensor->place->host && iobind__same_memory(session->runtime, wanted->info, host->info))) {
    return true;
  }
  return iobind__same_memory(session->runtime, tensor->place->info, wanted->info);
}

iobind_status iobind__refuse_elsewhere(const iobind_session *session, size_t input, const iobind_tensor *tensor,
                                       const char *what, iobind_error *error) {
  const iobind__value *value = &session->inputs[input];
  return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                      "%s: '%s': expected a host tensor of the session's runtime, or one on '%s', got one on '%s'", what,
                      value->label, value->place->device->spec, tensor->place->device->spec);
}

/* Describe the memory: its device, and how it can be accessed. */
static void describe(const iobind_session *session, const OrtMemoryInfo *info, iobind__place *lent) {
  const iobind__place *known = iobind__runtime_find_place(session->runtime, info);
  if (known != NULL) {
    lent->device = known->device;
    lent->memory = known->memory;
    lent->host = known->host;
    lent->addressable = known->addressable;
  } else {
    /* memory that no device declares: it is most likely of the EP of the first device */
    lent->device = session->devices[session->device_count > 1 ? 1 : 0];
  }
}

static iobind_status lend_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                iobind_error *error) {
  for (size_t i = 0; i < session->place_count; i++) {
    if (iobind__same_memory(session->runtime, session->places[i].info, info)) {
      *place = &session->places[i];
      return IOBIND_OK;
    }
  }
  /* values point to elements, so the array must not move: at most one for each input and output, and each memory of the devices */
  size_t most = session->input_count + session->output_count + 2 * session->device_count + 1;
  if (session->places == NULL) {
    session->places = calloc(most, sizeof *session->places);
  }
  if (session->places == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  if (session->place_count == most) {
    return iobind__fail(error, IOBIND_ERROR_INTERNAL,
                        "session_create: expected at most %zu memory locations of the session's own, got one more", most);
  }
  const OrtApi *api = IOBIND__API(session->runtime);
  OrtAllocator *allocator = NULL;
  OrtStatus *made = api->CreateAllocator(session->session, info, &allocator);
  if (made != NULL) {
    return iobind__ort_fail(api, made, error, "session_create: allocator");
  }
  iobind__place *lent = &session->places[session->place_count++];
  describe(session, info, lent);
  lent->info = allocator->Info(allocator); /* copied, because `info` may be freed with a value */
  lent->owner = &session->ref;
  atomic_init(&lent->allocator, allocator);
  *place = lent;
  return IOBIND_OK;
}

iobind_status iobind__session_lend_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                         iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(
      iobind__guard_enter(session->inside, &scope, error)); /* before the mutex: a thread that is inside may wait for it */
  pthread_mutex_lock(&session->places_mutex);
  iobind_status status = lend_place(session, info, place, error);
  pthread_mutex_unlock(&session->places_mutex);
  iobind__guard_leave(&scope);
  return status;
}

static iobind_status create_tensor(iobind_session *session, iobind_device *device, iobind_memory memory, iobind__form form,
                                   iobind_tensor **tensor, iobind_error *error) {
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", "session_create_tensor", error));
  IOBIND__TRY(iobind__null_check(device, "device", "session_create_tensor", error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "session_create_tensor", error));
  IOBIND__TRY(iobind__process_check("session_create_tensor", error));
  if (device->runtime != session->runtime || !iobind__session_has_device(session, device)) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "session_create_tensor: expected a device of the session, got '%s'",
                        device->spec);
  }
  if (form.dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "session_create_tensor: a session has no memory for strings: use iobind_tensor_create");
  }
  if (iobind__driver_of(device)->wrap != NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "session_create_tensor: iobind allocates the memory of '%s', not the session: use iobind_tensor_create",
                        device->spec);
  }
  iobind__place *place;
  iobind__place *lent;
  IOBIND__TRY(iobind__tensor_find_place(device, memory, &place, "session_create_tensor", error));
  if (place->info == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "session_create_tensor: device '%s' has no host-accessible memory",
                        device->spec);
  }
  IOBIND__TRY(iobind__session_lend_place(session, place->info, &lent, error));
  return iobind__tensor_create_from(lent, place, form, tensor, error);
}

iobind_status iobind_session_create_tensor(iobind_session *session, iobind_device *device, iobind_memory memory,
                                           iobind_dtype dtype, const int64_t *dims, size_t rank, iobind_tensor **tensor,
                                           iobind_error *error) {
  const iobind__form form = {dtype, dims, rank};
  return iobind__named(create_tensor(session, device, memory, form, tensor, error), error, "session_create_tensor");
}

/* The memory of several devices may have the same name: the session's own come first. */
static iobind__place *find_own_place(const iobind_session *session, const OrtMemoryInfo *info) {
  for (size_t i = 0; i < session->device_count; i++) {
    for (size_t memory = 0; memory < 2; memory++) {
      iobind__place *place = &session->devices[i]->places[memory];
      if (place->info != NULL && iobind__same_memory(session->runtime, place->info, info)) {
        return place;
      }
    }
  }
  return NULL;
}

iobind_status iobind__session_find_place(iobind_session *session, const OrtMemoryInfo *info, iobind__place **place,
                                         iobind_error *error) {
  *place = find_own_place(session, info);
  *place = *place != NULL ? *place : iobind__runtime_find_place(session->runtime, info);
  return *place != NULL ? IOBIND_OK : iobind__session_lend_place(session, info, place, error);
}

/* The last reference to a session may be released where no thread should wait for another one's run: enter only if it is necessary. */
void iobind__session_free_places(iobind_session *session) {
  if (session->place_count > 0) {
    iobind__scope scope;
    if (iobind__guard_enter_to_free(session->inside, &scope)) {
      for (size_t i = 0; i < session->place_count; i++) {
        IOBIND__API(session->runtime)->ReleaseAllocator(atomic_load(&session->places[i].allocator));
      }
      iobind__guard_leave(&scope);
    }
  }
  free(session->places);
}

iobind_status iobind__placements_check(const iobind_session *session, const int32_t *placements, const char *what,
                                       iobind_error *error) {
  for (size_t i = 0; placements != NULL && i < session->output_count; i++) {
    if (placements[i] < IOBIND_PLACE_HOST || placements[i] > IOBIND_PLACE_NONE) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: placements: '%s': expected 0 .. %d, got %d", what,
                          session->outputs[i].label, IOBIND_PLACE_NONE, placements[i]);
    }
  }
  return IOBIND_OK;
}
