/* The devices of a session, and the guard of calls into their EPs. */
#include <stdlib.h>

#include "session/create.h"

iobind_status iobind__session_collect_devices(iobind_session *session, const iobind_session_options *options,
                                              iobind_error *error) {
  size_t most = 1 + options->device_count + session->input_count + session->output_count;
  session->devices = calloc(most, sizeof(iobind_device *));
  if (session->devices == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  session->devices[session->device_count++] = iobind_runtime_get_device(session->runtime, 0);
  for (size_t i = 0; i < options->device_count; i++) {
    if (!iobind__session_has_device(session, options->devices[i])) {
      session->devices[session->device_count++] = options->devices[i];
    }
  }
  return IOBIND_OK;
}

static iobind__guard guard_of(iobind_device *const *devices, size_t count) {
  iobind__guard found = {0};
  for (size_t i = 0; i < count; i++) {
    iobind__guard_add(&found, devices[i]->guard);
  }
  return found;
}

static iobind__guard guard_of_all(const iobind_runtime *runtime) {
  iobind__guard found = {0};
  iobind_device *device;
  for (size_t i = 0; (device = iobind_runtime_get_device(runtime, i)) != NULL; i++) {
    iobind__guard_add(&found, device->guard);
  }
  return found;
}

static void set_guard(iobind_session *session, const iobind__guard *found) {
  session->guards[0] = *found;
  session->guards[1] = *found;
  session->guards[0].turn = iobind__session_runs_alone(session) ? &session->turn : NULL;
  session->guard = iobind__guard_is_needed(&session->guards[0]) ? &session->guards[0] : NULL;
  session->inside = iobind__guard_is_needed(found) ? &session->guards[1] : NULL;
}

void iobind__session_set_guard(iobind_session *session, const iobind_session_options *options) {
  bool is_given = !session->lender.is_other && options->policy == IOBIND_POLICY_NONE;
  const iobind__guard found = is_given ? guard_of(options->devices, options->device_count) : guard_of_all(session->runtime);
  set_guard(session, &found);
}

/* Inputs and outputs may show which of all the devices a session uses. If they are on the host, its nodes may still be on any device. */
static void narrow_guard(iobind_session *session) {
  const iobind__guard found = guard_of(session->devices, session->device_count);
  if (iobind__guard_is_needed(&found)) {
    set_guard(session, &found);
  }
}

static bool is_plain(const iobind_session *session) {
  const iobind__place *memory = &session->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  bool plain = session->device_count == 1; /* the CPU is always one of the devices */
  for (size_t i = 0; plain && i < session->input_count; i++) {
    plain = session->inputs[i].place == memory;
  }
  for (size_t i = 0; plain && i < session->output_count; i++) {
    plain = session->outputs[i].place == memory || session->outputs[i].kind != IOBIND_VALUE_TENSOR;
  }
  return plain;
}

void iobind__session_add_devices(iobind_session *session) {
  const iobind__value *groups[2] = {session->inputs, session->outputs};
  const size_t counts[2] = {session->input_count, session->output_count};
  for (int g = 0; g < 2; g++) {
    for (size_t i = 0; i < counts[g]; i++) {
      iobind_device *device = groups[g][i].place->device;
      if (!iobind__session_has_device(session, device)) {
        session->devices[session->device_count++] = device;
      }
    }
  }
  for (size_t i = 0; i < session->device_count; i++) {
    session->has_queue = session->has_queue || iobind__device_has(session->devices[i], IOBIND__QUIRK_QUEUES);
  }
  session->is_plain = is_plain(session);
  narrow_guard(session);
}

iobind_status iobind__session_attach(iobind_session *session, const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < session->device_count && session->attachment == NULL; i++) {
    iobind_device *device = session->devices[i];
    const iobind__driver *driver = iobind__driver_of(device);
    if (driver->attach == NULL) {
      continue;
    }
    if (session->lender.is_other || options->policy != IOBIND_POLICY_NONE) {
      return iobind__fail(
          error, IOBIND_ERROR_NOT_SUPPORTED,
          "%s: the session would compute on a queue of the execution provider: pass the device '%s' to iobind_session_create",
          session->lender.is_other ? "session_wrap" : "session_create", device->spec);
    }
    IOBIND__TRY(iobind__named(driver->attach(device, session->session, &session->attachment, error), error, "session_create"));
  }
  return IOBIND_OK;
}
