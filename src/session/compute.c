/* Where a session computes. An EP that refuses a stream with each run gets one when the session is created, by an option of the EP. Other
 * EPs get it with each run. */
#include <string.h>

#include "iobind/interop.h"
#include "session/create.h"

/* ---- the stream that a session is created with: the caller's, or one for an EP that refuses a stream with each run ---- */

static bool is_first(const iobind_session_options *options, const iobind_device *device) {
  size_t i = 0;
  while (i < options->device_count && options->devices[i] == device->runtime->cpu) {
    i++;
  }
  return i < options->device_count && options->devices[i] == device;
}

/* The caller's i-th option, if it applies to the device; NULL: it is for another EP, or unknown. */
static const iobind__option *own_option(const iobind_session_options *options, size_t i, const iobind_device *device,
                                        bool *other_ep) {
  const char *key;
  const iobind__ep *named = iobind__ep_of_option(options->ep_keys[i], &key);
  *other_ep = named != NULL && named != device->ep;
  bool own = named == NULL ? is_first(options, device) : named == device->ep;
  return own ? iobind__option_find(device->ep->options, key) : NULL;
}

/* Does an option of the caller exclude a stream of iobind: copies on other streams, or another EP before this one? */
static bool has_obstacle(const iobind_session_options *options, const iobind_device *device) {
  bool found = false;
  for (size_t i = 0; i < options->ep_option_count; i++) {
    bool other_ep;
    const iobind__option *option = own_option(options, i, device, &other_ep);
    bool excludes = option != NULL && option->excludes_stream;
    found = found || other_ep || (excludes && !iobind__option_same(option, options->ep_values[i], option->preset));
  }
  return found;
}

/* The caller's stream as an option of the EP. False: none was given, or the value is not an address: that is refused with the other options. */
static bool find_given(const iobind_session_options *options, const iobind_device *device, void **handle) {
  for (size_t i = 0; i < options->ep_option_count; i++) {
    bool other_ep;
    uint64_t address = 0;
    const iobind__option *option = own_option(options, i, device, &other_ep);
    if (option != NULL && device->ep->stream_option != NULL && strcmp(option->key, device->ep->stream_option) == 0) {
      bool is_address = iobind__option_address(options->ep_values[i], &address);
      *handle = (void *)(uintptr_t)address;
      return is_address;
    }
  }
  return false;
}

iobind_status iobind__session_check_user_streams(const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < options->device_count; i++) {
    const iobind_device *device = options->devices[i];
    void *given = NULL;
    if (device->context != NULL && find_given(options, device, &given)) {
      iobind_error reason = IOBIND_ERROR_INIT;
      iobind_status status = iobind__context_check_stream(device->context, given, &reason);
      if (status != IOBIND_OK) {
        return iobind__fail(error, status, "session_create: EP option '%s': %s", device->ep->stream_option, reason.message);
      }
    }
  }
  return IOBIND_OK;
}

/* The only device with streams among those that are named; NULL: there is none, or several. */
static iobind_device *find_device(const iobind_session_options *options) {
  iobind_device *found = NULL;
  size_t count = 0;
  for (size_t i = 0; i < options->device_count; i++) {
    if ((options->devices[i]->flags & IOBIND_DEVICE_STREAMS) != 0) {
      found = options->devices[i];
      count++;
    }
  }
  return count == 1 ? found : NULL;
}

/* Can the device's EP capture graphs on a stream that is given to it? A replay must not wait for that. */
static bool captures_on_stream(const iobind_device *device) {
  return device != NULL && iobind__device_has(device, IOBIND__QUIRK_REFUSES_RUN_STREAM) &&
         !iobind__device_has(device, IOBIND__QUIRK_REPLAY_WAITS);
}

static iobind_status refuse_stream(const iobind_stream *stream, iobind_error *error) {
  const iobind_device *device = stream->device;
  if (iobind__device_has(device, IOBIND__QUIRK_REPLAY_WAITS)) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_ARGUMENT,
        "session_create: graph_limit and a stream: '%s' captures graphs on the caller's stream with ORT 1.%u or newer, got %s: "
        "set one of them",
        device->spec, iobind__quirk_ends(device->ep, IOBIND__QUIRK_REPLAY_WAITS), device->runtime->ort.version);
  }
  return iobind__fail(
      error, IOBIND_ERROR_INVALID_ARGUMENT,
      "session_create: graph_limit and a stream: '%s' does not capture graphs on the caller's stream: set one of them",
      device->spec);
}

/* Can the session compute on the caller's stream? */
static iobind_status check_stream(const iobind_session_options *options, const iobind_device *device, iobind_error *error) {
  const iobind_stream *stream = options->stream;
  bool named = false;
  for (size_t i = 0; i < options->device_count; i++) {
    named = named || options->devices[i] == stream->device;
  }
  if (!named) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "session_create: the stream is of '%s', which is not among the devices", stream->device->spec);
  }
  if (iobind__driver_of(stream->device)->attach != NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "session_create: a stream of '%s': all sessions of the device compute on its one queue, which "
                        "iobind_runtime_adopt_device sets",
                        stream->device->spec);
  }
  if (device != stream->device) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "session_create: a stream of '%s': %s", stream->device->spec,
                        device == NULL && (stream->device->flags & IOBIND_DEVICE_STREAMS) != 0
                            ? "expected one device with streams, got several"
                            : "the device has no native streams, and a session cannot compute on a thread of iobind");
  }
  return IOBIND_OK; /* options that exclude a stream are refused with the others (ep_options.c) */
}

/* A stream for an EP that gets one by an option. If that option has a stream of the caller, both are ordered, as by iobind_stream_wrap. */
static iobind_status open_for_option(const iobind_session_options *options, iobind_device *device, iobind_stream **stream,
                                     iobind_error *error) {
  iobind_native native = IOBIND_NATIVE_INIT;
  native.kind = iobind__native_of(device).kind;
  return find_given(options, device, &native.handle) ? iobind_stream_wrap(device, &native, NULL, NULL, stream, error)
                                                     : iobind_stream_create(device, NULL, stream, error);
}

iobind_status iobind__session_open_stream(const iobind_session_options *options, iobind_stream **stream, iobind_error *error) {
  iobind_device *device = find_device(options);
  const bool by_option = device != NULL && iobind__device_has(device, IOBIND__QUIRK_REFUSES_RUN_STREAM);
  const bool takes_none = options->graph_limit > 0 && !captures_on_stream(device);
  *stream = NULL;
  if (options->stream != NULL && takes_none) {
    return refuse_stream(options->stream, error);
  }
  if (options->stream != NULL) {
    void *given;
    IOBIND__TRY(check_stream(options, device, error));
    if (by_option && find_given(options, device, &given)) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "session_create: a stream and EP option '%s': expected one of them", device->ep->stream_option);
    }
    IOBIND__TRY(iobind__named(iobind__bridge_check(options->stream, error), error, "session_create"));
    *stream = iobind__stream_share(options->stream);
    return IOBIND_OK;
  }
  if (!by_option || takes_none || has_obstacle(options, device)) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__session_check_user_streams(options, error));
  return iobind__renamed(open_for_option(options, device, stream, error), error, "session_create");
}

/* ---- where it computes ---- */

void iobind__compute_open(iobind__compute *self, iobind_stream *stream) {
  bool by_option = stream != NULL && iobind__device_has(stream->device, IOBIND__QUIRK_REFUSES_RUN_STREAM);
  *self = (iobind__compute){by_option ? IOBIND__COMPUTE_BY_OPTION : IOBIND__COMPUTE_IN_CALL, stream};
}

static bool gives_run_streams(const iobind_device *device) {
  return (device->flags & IOBIND_DEVICE_STREAMS) != 0 && !iobind__device_has(device, IOBIND__QUIRK_REFUSES_RUN_STREAM);
}

/* ORT takes one stream for a run: that of the only device that has streams. It crashes if no node runs on that device. From outside, only an
 * input that is read there proves that one does: an output there may be a constant. A replay is launched on the stream of its capture, so that
 * no run can give a stream to it. */
void iobind__compute_choose(iobind_session *session) {
  size_t devices = 0;
  bool reads = false;
  for (size_t i = 0; i < session->device_count; i++) {
    devices += (session->devices[i]->flags & IOBIND_DEVICE_STREAMS) != 0;
  }
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind__place *place = session->inputs[i].place;
    reads = reads || (!place->host && gives_run_streams(place->device));
  }
  bool may_be_given = devices == 1 && session->graphs.limit == 0 && session->compute.way == IOBIND__COMPUTE_IN_CALL;
  if (may_be_given && session->attachment != NULL) {
    session->compute.way = IOBIND__COMPUTE_ON_QUEUE;
  } else if (may_be_given && reads) {
    session->compute.way = IOBIND__COMPUTE_BY_RUN;
  }
}

iobind_status iobind__compute_await(const iobind__compute *self, iobind_error *error) {
  return self->way == IOBIND__COMPUTE_BY_OPTION ? iobind__stream_enter(self->stream, error)
                                                : iobind__stream_drain(self->stream, error);
}
