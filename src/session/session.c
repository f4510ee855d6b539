/* Sessions: creating, describing, destroying. */
#include "session/create.h"

#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "support/options.h"

/* The device whose EP submits the return of pinned memory to its arena as work; NULL: none. CUDA's EP does so up to ORT 1.30, and in later
 * releases if a run with such memory has failed. */
static iobind_device *find_late_device(const iobind_session *session) {
  if (session->compute.way == IOBIND__COMPUTE_BY_OPTION) {
    return session->compute.stream->device;
  }
  size_t i = 0;
  while (i < session->device_count && iobind__driver_of(session->devices[i])->settle == NULL) {
    i++;
  }
  return i < session->device_count ? session->devices[i] : NULL;
}

/* The arena could be destroyed in that work, by calls that CUDA forbids there, which would end the process. An allocator retains the arena
 * until the device has completed the work. */
static OrtAllocator *keep_pinned_arena(const iobind_session *session, const iobind_device *device) {
  const OrtApi *api = IOBIND__API(session->runtime);
  const iobind__place *pinned = device == NULL ? NULL : &device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
  OrtAllocator *kept = NULL;
  if (pinned != NULL && pinned->info != NULL) {
    iobind__ort_ignore(api, api->CreateAllocator(session->session, pinned->info, &kept));
  }
  return kept;
}

static void release_ort(iobind_session *session) {
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind_device *device = find_late_device(session);
  iobind__scope scope;
  if (!iobind__guard_enter_to_free(session->inside, &scope)) {
    return;
  }
  OrtAllocator *kept = keep_pinned_arena(session, device);
  api->ReleaseSession(session->session);
  iobind__guard_leave(&scope);
  if (kept == NULL) {
    return;
  }
  if (session->compute.stream != NULL) {
    iobind__stream_pass(session->compute.stream);
  } else {
    iobind__driver_of(device)->settle(device);
  }
  if (iobind__guard_enter_to_free(session->inside, &scope)) {
    api->ReleaseAllocator(kept);
    iobind__guard_leave(&scope);
  }
}

static void release_companions(iobind_session *session) {
  while (session->companions != NULL) {
    iobind__companion *first = session->companions;
    session->companions = first->next;
    iobind__ref_release(&first->session->ref);
    free(first);
  }
}

static void session_destroy(iobind__ref *ref) {
  iobind_session *session = (iobind_session *)ref;
  iobind_runtime *runtime = session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  release_companions(session);
  iobind__shadow_close(session->shadow);
  iobind__session_free_places(session); /* lent allocators must be released before their session */
  if (session->attachment != NULL) {
    iobind__driver_of(session->attachment->device)->detach(session->attachment);
  }
  iobind__session_free_signature(session);
  iobind__session_free_metadata(session);
  iobind__model_forget(session->model);
  free(session->nodes);
  if (session->profile != NULL) {
    OrtStatus *freed = api->AllocatorFree(runtime->cpu_allocator, session->profile);
    iobind__ort_ignore(api, freed);
  }
  if (session->run_options != NULL) {
    api->ReleaseRunOptions(session->run_options);
  }
  if (session->lender.is_other) {
    if (session->lender.deleter != NULL) {
      session->lender.deleter(session->lender.context, session->session);
    }
  } else if (session->session != NULL) {
    release_ort(session);
  }
  free(session->devices);
  iobind_stream_destroy(session->compute.stream);
  iobind__registry_close(&session->graphs);
  pthread_mutex_destroy(&session->places_mutex);
  iobind__turn_destroy(&session->turn);
  free(session);
  iobind__ref_release(&runtime->ref);
}

void iobind_session_destroy(iobind_session *session) {
  if (session != NULL) {
    iobind__ref_release(&session->ref);
  }
}

static iobind_status describe(iobind_session *session, const iobind_session_options *options, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  IOBIND__ORT_TRY(api, api->SessionGetInputCount(session->session, &session->input_count), error, "session_create");
  IOBIND__ORT_TRY(api, api->SessionGetOutputCount(session->session, &session->output_count), error, "session_create");
  IOBIND__TRY(iobind__session_collect_devices(session, options, error));
  IOBIND__TRY(iobind__session_read_signature(session, error));
  IOBIND__TRY(session->graphs.limit > 0 ? iobind__session_check_graph_outputs(session, error) : IOBIND_OK);
  iobind__session_add_devices(session);
  IOBIND__TRY(iobind__session_attach(session, options, error));
  iobind__compute_choose(session);
  IOBIND__ORT_TRY(api, api->CreateRunOptions(&session->run_options), error, "session_create");
  if (iobind__session_may_capture(session)) {
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(session->run_options, IOBIND__GRAPH_ID, IOBIND__NO_GRAPH), error,
                    "session_create");
  }
  IOBIND__TRY(iobind__session_read_metadata(session, error));
  IOBIND__TRY(iobind__session_lists_nodes(options) ? iobind__session_read_nodes(session, error) : IOBIND_OK);
  iobind__session_warn_of_idle_device(session, options);
  return IOBIND_OK;
}

iobind_session *iobind__session_allocate(iobind_runtime *runtime) {
  iobind_session *session = calloc(1, sizeof *session);
  if (session != NULL) {
    iobind__ref_init(&session->ref, session_destroy);
    pthread_mutex_init(&session->places_mutex, NULL);
    iobind__turn_init(&session->turn);
    atomic_init(&session->graphs.list, NULL);
    session->runtime = runtime;
    iobind__ref_retain(&runtime->ref);
  }
  return session;
}

/* The caller may free a model in memory after the call; with this entry ORT reads an ORT model there while the session exists. */
static iobind_status check_bytes_are_copied(const iobind_session_options *options, iobind_error *error) {
  static const char key[] = "session.use_ort_model_bytes_directly";
  for (size_t i = 0; i < options->config_count; i++) {
    if (strcmp(options->config_keys[i], key) == 0 && strcmp(options->config_values[i], "1") == 0) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "session_create: config entry '%s': a model in memory may be freed after the call, but ORT would read it later: "
          "leave the entry out, or load the model from a file",
          key);
    }
  }
  return IOBIND_OK;
}

/* A failure may mean that the device is lost. */
static iobind_status heed(const iobind_session *session, iobind_status status, iobind_error *error) {
  iobind__scope scope;
  iobind__guard_enter_anyway(session->inside, &scope);
  return iobind__guard_end(&scope, status, error);
}

static iobind_status check(iobind_runtime *runtime, const iobind__source *from, const iobind_session_options *options,
                           iobind_device **graph_device, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags,
                                  IOBIND_SESSION_STRICT | IOBIND_SESSION_PLACEMENT | IOBIND_SESSION_NO_MEMORY_REUSE |
                                      IOBIND_SESSION_IDENTIFY,
                                  "session_create", error));
  IOBIND__TRY(iobind__session_check_dims(options, from, error));
  IOBIND__TRY(iobind__session_options_check(runtime, options, error));
  IOBIND__TRY(from->path == NULL ? check_bytes_are_copied(options, error) : IOBIND_OK);
  return iobind__session_check_graph(runtime, options, from, graph_device, error);
}

/* `options` has the session's stream. */
static iobind_status load(iobind_session *session, const iobind__source *from, const iobind_session_options *options,
                          iobind_error *error) {
  OrtSessionOptions *ort_options = NULL;
  OrtStatus *failed = NULL;
  IOBIND__TRY(iobind__session_options_build(session->runtime, options, &ort_options, error));
  iobind__session_set_guard(session, options);
  iobind_status status = iobind__source_load(from, session, ort_options, &failed, error);
  if (status == IOBIND_OK) {
    status = failed == NULL ? describe(session, options, error)
                            : iobind__source_refused(from, session->runtime, options, failed, error);
    status = heed(session, status, error);
  }
  IOBIND__API(session->runtime)->ReleaseSessionOptions(ort_options);
  return status;
}

static iobind_status fill(iobind_session *session, const iobind__source *from, iobind_session_options *options,
                          iobind_error *error) {
  iobind_stream *stream;
  IOBIND__TRY(iobind__session_open_stream(options, &stream, error));
  iobind__compute_open(&session->compute, stream);
  options->stream = stream;
  session->profiling = options->profile != NULL;
  session->graphs.limit = options->graph_limit;
  if (from->path != NULL || (options->flags & IOBIND_SESSION_IDENTIFY) != 0) {
    IOBIND__TRY(iobind__model_note(from, &session->model, error));
  }
  if (from->path != NULL && options->verify.runs > 0 && (options->device_count > 0 || options->policy != IOBIND_POLICY_NONE)) {
    IOBIND__TRY(iobind__named(iobind__model_watch(session->model, error), error, "session_create"));
  }
  IOBIND__TRY(load(session, from, options, error));
  IOBIND__TRY(iobind__shadow_open(session, from, options, error));
  bool is_read = from->path == NULL && session->model != NULL;
  return is_read ? iobind__named(iobind__model_note_kinds(session->model, from, session, error), error, "session_create")
                 : IOBIND_OK;
}

iobind_status iobind__session_load(iobind_runtime *runtime, const iobind__source *from, const iobind_session_options *given,
                                   iobind_session **out, iobind_error *error) {
  iobind_session_options options = *given;
  iobind_device *graph_device = NULL;
  IOBIND__TRY(check(runtime, from, &options, &graph_device, error));
  iobind_session *session = iobind__session_allocate(runtime);
  if (session == NULL) {
    return iobind__out_of_memory(error, "session_create");
  }
  session->graphs.device = graph_device;
  iobind_status status = fill(session, from, &options, error);
  if (status != IOBIND_OK) {
    iobind__ref_release(&session->ref);
    return status;
  }
  *out = session;
  return IOBIND_OK;
}

static iobind_status create(iobind_runtime *runtime, const iobind__source *from, const iobind_session_options *given,
                            iobind_session **out, iobind_error *error) {
  iobind_session_options options;
  IOBIND__TRY(iobind__process_check("session_create", error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&options, given, "session_create", error));
  IOBIND__TRY(iobind__verify_by_environment(&options.verify, error));
  return iobind__session_load(runtime, from, &options, out, error);
}

iobind_status iobind_session_create(iobind_runtime *runtime, const char *path, const iobind_session_options *options,
                                    iobind_session **session, iobind_error *error) {
  if (session != NULL) {
    *session = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "session_create", error));
  IOBIND__TRY(iobind__null_check(path, "path", "session_create", error));
  IOBIND__TRY(iobind__null_check(session, "session", "session_create", error));
  if (!iobind__file_exists(path)) {
    return iobind__path_exists(path)
               ? iobind__fail(error, IOBIND_ERROR_IO, "session_create: '%s': expected a model file, got %s", path,
                              iobind__directory_exists(path) ? "a directory" : "something that is not a regular file")
               : iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "session_create: '%s': no such file", path);
  }
  const iobind__source from = {path, iobind__path_native(path), NULL, 0};
  iobind_status status =
      from.native == NULL ? iobind__out_of_memory(error, "session_create") : create(runtime, &from, options, session, error);
  free(from.native);
  return status;
}

iobind_status iobind_session_create_from_memory(iobind_runtime *runtime, const void *model, size_t bytes,
                                                const iobind_session_options *options, iobind_session **session,
                                                iobind_error *error) {
  if (session != NULL) {
    *session = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "session_create", error));
  IOBIND__TRY(iobind__null_check(model, "model", "session_create", error));
  IOBIND__TRY(iobind__null_check(session, "session", "session_create", error));
  const iobind__source from = {NULL, NULL, model, bytes};
  return create(runtime, &from, options, session, error);
}

/* Was a session created by the ORT of this runtime? Like any C++ object with virtual functions an OrtSession begins with the
 * address of their table, which is in the library that created it. */
static iobind_status check_same_ort(const iobind_runtime *runtime, const void *ort_session, iobind_error *error) {
  const OrtAllocator *allocator = runtime->cpu_allocator;
  char *ours = iobind__library_of((const void *)(uintptr_t)allocator->Alloc);
  char *theirs = iobind__library_of(*(const void *const *)ort_session);
  bool same = ours != NULL && theirs != NULL && strcmp(ours, theirs) == 0;
  iobind_status status =
      same ? IOBIND_OK
           : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "session_wrap: expected a session of the runtime's ORT '%s', got one of '%s': attach the runtime to "
                          "that copy",
                          ours == NULL ? "?" : ours, theirs == NULL ? "no library: is it an OrtSession?" : theirs);
  free(ours);
  free(theirs);
  return status;
}

iobind_status iobind_session_wrap(iobind_runtime *runtime, void *ort_session, iobind_deleter deleter, void *context,
                                  iobind_session **out, iobind_error *error) {
  if (out != NULL) {
    *out = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "session_wrap", error));
  IOBIND__TRY(iobind__null_check(ort_session, "ort_session", "session_wrap", error));
  IOBIND__TRY(iobind__null_check(out, "session", "session_wrap", error));
  IOBIND__TRY(iobind__process_check("session_wrap", error));
  IOBIND__TRY(check_same_ort(runtime, ort_session, error));
  iobind_session *session = iobind__session_allocate(runtime);
  if (session == NULL) {
    return iobind__out_of_memory(error, "session_wrap");
  }
  session->session = ort_session;
  session->lender.is_other = true;
  static const iobind_session_options none = IOBIND_SESSION_OPTIONS_INIT;
  iobind__session_set_guard(session, &none);
  iobind_status status = describe(session, &none, error);
  if (status != IOBIND_OK) {
    iobind__ref_release(&session->ref);
    return status;
  }
  session->lender.deleter = deleter;
  session->lender.context = context;
  *out = session;
  return IOBIND_OK;
}

void *iobind_session_get_ort(const iobind_session *session) {
  return session == NULL ? NULL : session->session;
}

iobind_status iobind_session_end_profile(iobind_session *session, const char **path, iobind_error *error) {
  if (path != NULL) {
    *path = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", "session_end_profile", error));
  IOBIND__TRY(iobind__null_check(path, "path", "session_end_profile", error));
  IOBIND__TRY(iobind__process_check("session_end_profile", error));
  if (!session->profiling) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "session_end_profile: %s",
                        session->profile == NULL ? "the session was created without a profile"
                                                 : "the profile has ended already");
  }
  const OrtApi *api = IOBIND__API(session->runtime);
  OrtAllocator *allocator = session->runtime->cpu_allocator;
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(session->inside, &scope, error), error, "session_end_profile"));
  OrtStatus *failed = api->SessionEndProfiling(session->session, allocator, &session->profile);
  iobind__guard_leave(&scope);
  IOBIND__ORT_TRY(api, failed, error, "session_end_profile");
  session->profiling = false;
  *path = session->profile;
  return IOBIND_OK;
}
