/* The stream that a session computes on. An EP that takes no stream with each run (CUDA) is given one when the session is made, by an option
 * of the EP. Other EPs are given it with each run. */
#include <stdlib.h>
#include <string.h>

#include "session/session.h"

/* Does the caller give an option that leaves no room for one of iobind's streams: another stream, its own memory, copies on other streams,
 * or another EP before this one? */
static bool has_obstacle(const iobind_session_options *options, const iobind_device *device) {
  static const char *const obstacles[] = {"user_compute_stream", "has_user_compute_stream",  "gpu_external_alloc",
                                          "gpu_external_free",   "gpu_external_empty_cache", "do_copy_in_default_stream"};
  bool found = false;
  for (size_t i = 0; i < options->ep_option_count; i++) {
    const char *key = options->ep_keys[i];
    const char *dot = strchr(key, '.');
    const iobind__ep *named = dot == NULL ? NULL : iobind__ep_by_name(key, (size_t)(dot - key));
    found = found || (named != NULL && named != device->ep);
    for (size_t o = 0; o < sizeof obstacles / sizeof obstacles[0]; o++) {
      found = found || strcmp(named == NULL ? key : dot + 1, obstacles[o]) == 0;
    }
  }
  return found;
}

/* The address in `user_compute_stream` for the EP of the device; NULL: none. */
static void *find_user_stream(const iobind_session_options *options, const iobind_device *device) {
  void *found = NULL;
  for (size_t i = 0; i < options->ep_option_count; i++) {
    const char *key = options->ep_keys[i];
    const char *dot = strchr(key, '.');
    const iobind__ep *named = dot == NULL ? device->ep : iobind__ep_by_name(key, (size_t)(dot - key));
    if (named == device->ep && strcmp(dot == NULL ? key : dot + 1, "user_compute_stream") == 0) {
      found = (void *)(uintptr_t)strtoull(options->ep_values[i], NULL, 0);
    }
  }
  return found;
}

iobind_status iobind__session_check_user_streams(const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < options->device_count; i++) {
    const iobind_device *device = options->devices[i];
    void *given = device->context == NULL ? NULL : find_user_stream(options, device);
    if (given != NULL) {
      IOBIND__TRY(iobind__named(iobind__context_check_stream(device->context, given, error), error,
                                "session_create: user_compute_stream"));
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

bool iobind__ep_takes_stream_as_option(const iobind_device *device) {
  return device->ep != NULL && device->ep->refuses_run_stream && device->bridged;
}

bool iobind__session_stream_is_option(const iobind_session *session) {
  return session->stream != NULL && iobind__ep_takes_stream_as_option(session->stream->device);
}

/* Can the device's EP capture graphs on a stream that is given to it? CUDA's can, but before ORT 1.27 each replay waits for it. */
static bool captures_on_stream(const iobind_device *device) {
  enum { SINCE = 27 };
  return device != NULL && iobind__ep_takes_stream_as_option(device) && device->runtime->ort.api_version >= SINCE;
}

/* the caller's stream */
static iobind_status check_stream(const iobind_session_options *options, const iobind_device *device, iobind_error *error) {
  const iobind_stream *stream = options->stream;
  bool named = false;
  for (size_t i = 0; i < options->device_count; i++) {
    named = named || options->devices[i] == stream->device;
  }
  if (!named) {
    return iobind__fail(error, IOBIND_DEVICE, "session_create: the stream is of '%s', which is not among the devices",
                        stream->device->spec);
  }
  if (stream->lane != NULL) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED,
                        "session_create: a stream of '%s': all sessions of the device compute on its one queue, "
                        "iobind_runtime_adopt_device gives it yours",
                        stream->device->spec);
  }
  if (device != stream->device) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "session_create: a stream of '%s': %s", stream->device->spec,
                        device == NULL && (stream->device->flags & IOBIND_DEVICE_STREAMS) != 0
                            ? "expected one device with streams, got several"
                            : "the device has no streams of its own, a session cannot compute on one of iobind's");
  }
  return IOBIND_OK; /* options that exclude a stream are refused with the others (ep_options.c) */
}

iobind_status iobind__session_open_stream(const iobind_session_options *options, iobind_stream **stream, iobind_error *error) {

  iobind_device *device = find_device(options);
  const bool takes_none = options->graph_limit > 0 && !captures_on_stream(device);
  *stream = NULL;
  if (options->stream != NULL && takes_none) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                        "session_create: graph_limit and a stream: expected one of them: graphs are captured on the caller's "
                        "stream only on CUDA, with ORT 1.27 or newer");
  }
  if (options->stream != NULL) {
    IOBIND__TRY(check_stream(options, device, error));
    IOBIND__TRY(iobind__named(iobind__bridge_check(options->stream, error), error, "session_create"));
    *stream = iobind__stream_share(options->stream);
    return IOBIND_OK;
  }
  if (device == NULL || !iobind__ep_takes_stream_as_option(device) || has_obstacle(options, device) || takes_none) {
    return IOBIND_OK;
  }
  return iobind__named(iobind_stream_create(device, NULL, stream, error), error, "session_create");
}
