/* Streams and events of other libraries. A wrapped stream is a stream of the EP that is bridged with the other library's by two
 * events. Before iobind's work the EP's stream waits for the other one (in); after it the other one waits for the EP's (out).
 * foreign.h describes the calls. */
#include <stdlib.h>
#include <string.h>

#include "memory/driver.h"
#include "memory/foreign.h"
#include "memory/kind.h"
#include "support/options.h"
#include "support/system.h"

struct iobind__bridge {
  iobind__foreign foreign;
  void *given;  /* the caller's handle */
  void *stream; /* the handle for the calls */
  void *in;     /* the two events */
  void *out;
  iobind_deleter deleter;
  void *deleter_context;
};

/* ---- the calls ---- */

bool iobind__foreign_find(iobind__foreign *self, void *library, const char *const *names, size_t from, size_t to) {
  bool all = library != NULL;
  for (size_t i = from; i < to && all; i++) {
    void *symbol = iobind__library_symbol(library, names[i]);
    memcpy(&self->found[i], &symbol, sizeof symbol); /* POSIX: a function's address has the form of an object's */
    all = symbol != NULL;
  }
  return all;
}

iobind_status iobind__foreign_lacks(const iobind_stream *stream, const char *library, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                      "stream of '%s': %s is not loaded, or lacks calls for streams and events", stream->device->spec, library);
}

static iobind_status find_calls(const iobind_stream *stream, iobind__foreign *foreign, iobind_error *error) {
  *foreign = (iobind__foreign){.calls = iobind__driver_of(stream->device)->foreign};
  return foreign->calls->find(foreign, stream, error);
}

static iobind_status outcome(const iobind__foreign *foreign, int failed, const char *what, iobind_error *error) {
  return failed == 0 ? IOBIND_OK : foreign->calls->fail(foreign, failed, what, error);
}

static iobind_status refuse_captured(const iobind__foreign *foreign, void *stream, const char *why, iobind_error *error) {
  int capturing = 0;
  if (foreign->calls->is_capturing == NULL) {
    return IOBIND_OK;
  }
  int failed = foreign->calls->is_capturing(foreign, stream, &capturing);
  IOBIND__TRY(outcome(foreign, failed, "asking whether a stream is captured", error));
  return capturing == 0 ? IOBIND_OK : iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s", why);
}

/* Captured work must not be ordered with work that is not captured. */
static iobind_status check_capture(const iobind__foreign *foreign, void *stream, iobind_error *error) {
  return refuse_captured(foreign, stream, "the stream of another library is being captured: end its capture first", error);
}

/* A wait for an event that was recorded in a capture makes the EP's stream part of that capture. To query the event would break
 * the capture, so the stream is queried: before the wait, which would break a capture that the stream already belongs to, and
 * after it. */
static iobind_status check_joined(const iobind__foreign *foreign, void *stream, iobind_error *error) {
  return refuse_captured(foreign, stream,
                         "the stream is part of a capture: it has waited for an event that was recorded in one; end that "
                         "capture before the stream is used or destroyed, and give an event recorded outside of it",
                         error);
}

/* `later` waits for all work submitted to `earlier`. */
static iobind_status put_behind(const iobind__foreign *foreign, void *later, void *earlier, void *event, iobind_error *error) {
  static const char what[] = "event between two libraries' streams";
  IOBIND__TRY(outcome(foreign, foreign->calls->record(foreign, event, earlier), what, error));
  return outcome(foreign, foreign->calls->wait(foreign, later, event), what, error);
}

bool iobind__stream_is_foreign(const iobind_stream *stream) {
  return stream != NULL && stream->ep.bridge != NULL;
}

iobind_status iobind__bridge_check(const iobind_stream *stream, iobind_error *error) {
  const iobind__bridge *bridge = stream == NULL ? NULL : stream->ep.bridge;
  return bridge == NULL ? IOBIND_OK : check_capture(&bridge->foreign, bridge->stream, error);
}

iobind_status iobind__bridge_in(const iobind_stream *stream, iobind_error *error) {
  const iobind__bridge *bridge = stream->ep.bridge;
  if (bridge == NULL) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(
      iobind__guard_enter(stream->device->guard, &scope, error)); /* a session may compute on the stream, and capture it */
  iobind_status status = check_capture(&bridge->foreign, bridge->stream, error);
  if (status == IOBIND_OK) {
    status = put_behind(&bridge->foreign, iobind__stream_handle(stream), bridge->stream, bridge->in, error);
  }
  return iobind__guard_end(&scope, status, error);
}

iobind_status iobind__bridge_out(iobind_stream *stream, iobind_error *error) {
  const iobind__bridge *bridge = stream->ep.bridge;
  if (bridge == NULL) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(stream->device->guard, &scope, error));
  iobind_status status = put_behind(&bridge->foreign, bridge->stream, iobind__stream_handle(stream), bridge->out, error);
  return iobind__guard_end(&scope, status, error);
}

void *iobind__bridge_native(const iobind__bridge *bridge) {
  return bridge->given;
}

static void free_bridge(const iobind_stream *stream, iobind__bridge *bridge) {
  const iobind__foreign *foreign = &bridge->foreign;
  void *const events[2] = {bridge->in, bridge->out};
  iobind__scope scope;
  iobind__guard_enter_anyway(stream->device->guard, &scope);
  for (int i = 0; i < 2; i++) {
    if (events[i] != NULL) {
      (void)foreign->calls->destroy(foreign, events[i]);
    }
  }
  iobind__guard_leave(&scope);
  if (bridge->deleter != NULL) {
    bridge->deleter(bridge->deleter_context, bridge->given);
  }
  free(bridge);
}

void iobind__bridge_close(iobind_stream *stream) {
  free_bridge(stream, stream->ep.bridge);
}

/* ---- the public calls ---- */

static iobind_status read_native(iobind_native *out, const iobind_native *given, const iobind_device *device, bool is_stream,
                                 const char *what, iobind_error *error) {
  const iobind__driver *driver = iobind__driver_of(device);
  const iobind__native taken = iobind__native_of(device);
  IOBIND__TRY(iobind__null_check(given, "native", what, error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(out, given, what, error));
  const char *name = iobind__ep_native_name(out->kind);
  if (name == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: native.kind: expected one of the kinds of native handles, got %d", what, out->kind);
  }
  if (is_stream && taken.kind != 0 && driver->foreign == NULL) {
    return iobind__fail(
        error, IOBIND_ERROR_NOT_SUPPORTED,
        "%s: '%s' computes on one queue and takes no other streams; iobind_runtime_adopt_device makes it use your queue", what,
        device->spec);
  }
  if (taken.kind != out->kind) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s' takes %s, got a native handle of kind %s", what,
                        device->spec, taken.kind == 0 ? "no native handles" : taken.name, name);
  }
  if (out->value != 0 && driver->foreign != NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: native.value: expected 0, because only a fence has values",
                        what);
  }
  return IOBIND_OK;
}

static iobind_status find_stream(iobind__bridge *bridge, const iobind_stream *stream, iobind_error *error) {
  const iobind__foreign *foreign = &bridge->foreign;
  bridge->stream = bridge->given;
  return foreign->calls->find_stream == NULL
             ? IOBIND_OK
             : foreign->calls->find_stream(foreign, stream->device, bridge->given, &bridge->stream, error);
}

static iobind_status fill_bridge(const iobind_stream *stream, iobind__bridge *bridge, iobind_error *error) {
  iobind_status status = find_calls(stream, &bridge->foreign, error);
  status = status == IOBIND_OK ? find_stream(bridge, stream, error) : status;
  status = status == IOBIND_OK ? check_capture(&bridge->foreign, bridge->stream, error) : status;
  static const char what[] = "event for the stream of another library";
  if (status == IOBIND_OK) {
    status = outcome(&bridge->foreign, bridge->foreign.calls->create(&bridge->foreign, &bridge->in), what, error);
  }
  if (status == IOBIND_OK) {
    status = outcome(&bridge->foreign, bridge->foreign.calls->create(&bridge->foreign, &bridge->out), what, error);
  }
  if (status == IOBIND_OK) {
    status = put_behind(&bridge->foreign, iobind__stream_handle(stream), bridge->stream, bridge->in, error);
  }
  return status;
}

static iobind_status open_bridge(iobind_stream *stream, void *given, iobind_error *error) {
  iobind__scope scope;
  iobind__bridge *bridge = calloc(1, sizeof *bridge);
  if (bridge == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  bridge->given = given;
  iobind_status status = iobind__guard_enter(stream->device->guard, &scope, error);
  if (status == IOBIND_OK) {
    status = iobind__guard_end(&scope, fill_bridge(stream, bridge, error), error);
  }
  if (status == IOBIND_OK) {
    stream->ep.bridge = bridge;
  } else {
    free_bridge(stream, bridge); /* its deleter is not yet set, and must not be called */
  }
  return status;
}

iobind_status iobind_stream_wrap(iobind_device *device, const iobind_native *given, iobind_deleter deleter, void *context,
                                 iobind_stream **stream, iobind_error *error) {
  if (stream != NULL) {
    *stream = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "stream_wrap", error));
  IOBIND__TRY(iobind__null_check(stream, "stream", "stream_wrap", error));
  iobind_native native;
  iobind_stream *made = NULL;
  IOBIND__TRY(iobind__process_check("stream_wrap", error));
  IOBIND__TRY(read_native(&native, given, device, true, "stream_wrap", error));
  IOBIND__TRY(iobind__renamed(iobind_stream_create(device, NULL, &made, error), error, "stream_wrap"));
  iobind_status status = open_bridge(made, native.handle, error);
  if (status != IOBIND_OK) {
    iobind_stream_destroy(made);
    return iobind__named(status, error, "stream_wrap");
  }
  made->ep.bridge->deleter = deleter;
  made->ep.bridge->deleter_context = context;
  *stream = made;
  return IOBIND_OK;
}

static iobind_status use_event_inside(iobind_stream *stream, const iobind__foreign *foreign, void *event, bool waits,
                                      iobind_error *error) {
  IOBIND__TRY(waits ? iobind__bridge_check(stream, error) : iobind__bridge_in(stream, error));
  void *handle = iobind__stream_handle(stream);
  if (!waits) {
    return outcome(foreign, foreign->calls->record(foreign, event, handle), "the event", error);
  }
  IOBIND__TRY(check_joined(foreign, handle, error));
  IOBIND__TRY(outcome(foreign, foreign->calls->wait(foreign, handle, event), "the event", error));
  IOBIND__TRY(check_joined(foreign, handle, error));
  return iobind__bridge_out(stream, error);
}

iobind_status iobind__foreign_use_event(iobind_stream *stream, const iobind_native *event, bool waits, iobind_error *error) {
  iobind__foreign foreign;
  IOBIND__TRY(find_calls(stream, &foreign, error));
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(stream->device->guard, &scope, error)); /* as in iobind__bridge_in */
  return iobind__guard_end(&scope, use_event_inside(stream, &foreign, event->handle, waits, error), error);
}

static iobind_status use_event(iobind_stream *stream, const iobind_native *given, bool waits, const char *what,
                               iobind_error *error) {
  iobind_native native;
  IOBIND__TRY(iobind__null_check(stream, "stream", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(read_native(&native, given, stream->device, false, what, error));
  if (native.handle == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: native.handle: expected an event, got NULL", what);
  }
  return iobind__driver_of(stream->device)->use_event(stream, &native, waits, error);
}

iobind_status iobind_stream_wait_native(iobind_stream *stream, const iobind_native *native, iobind_error *error) {
  return iobind__named(use_event(stream, native, true, "stream_wait_native", error), error, "stream_wait_native");
}

iobind_status iobind_stream_signal_native(iobind_stream *stream, const iobind_native *native, iobind_error *error) {
  return iobind__named(use_event(stream, native, false, "stream_signal_native", error), error, "stream_signal_native");
}

iobind_status iobind_stream_get_native(const iobind_stream *stream, iobind_native *native, iobind_error *error) {
  static const char what[] = "stream_get_native";
  iobind_native full = IOBIND_NATIVE_INIT;
  IOBIND__TRY(iobind__null_check(stream, "stream", what, error));
  IOBIND__TRY(IOBIND__INFO_WRITE(native, &full, what, error));
  if (stream->kind->native == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: the stream of '%s' is a thread of iobind, and has no native handle", what, stream->device->spec);
  }
  full.kind = iobind__native_of(stream->device).kind;
  full.handle = stream->kind->native(stream);
  return IOBIND__INFO_WRITE(native, &full, what, error);
}
