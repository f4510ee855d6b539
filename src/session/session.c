/* Sessions: creating, describing, destroying. */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "runtime/log.h"
#include "support/options.h"
#include "support/system.h"

/* As CUDA's EP goes, up to ORT 1.30, it queues on the session's stream that pinned memory goes back to its arena. The arena may end
 * there, with calls that CUDA allows on no stream, and the process with it: an allocator keeps it until the stream has passed. */
static OrtAllocator *keep_pinned_arena(const iobind_session *session) {
  const OrtApi *api = IOBIND__API(session->runtime);
  OrtAllocator *kept = NULL;
  if (iobind__session_stream_is_option(session)) {
    const iobind__place *pinned = &session->stream->device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
    OrtStatus *failed = pinned->info == NULL ? NULL : api->CreateAllocator(session->session, pinned->info, &kept);
    if (failed != NULL) {
      api->ReleaseStatus(failed);
    }
  }
  return kept;
}

static void release_ort(iobind_session *session) {
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind__scope scope;
  if (!iobind__guard_enter_to_free(session->inside, &scope)) {
    return;
  }
  OrtAllocator *kept = keep_pinned_arena(session);
  api->ReleaseSession(session->session);
  iobind__guard_leave(&scope);
  if (kept != NULL) {
    (void)iobind__stream_drain(session->stream, NULL);
    if (iobind__guard_enter_to_free(session->inside, &scope)) {
      api->ReleaseAllocator(kept);
      iobind__guard_leave(&scope);
    }
  }
}

static void session_destroy(iobind__ref *ref) {
  iobind_session *session = (iobind_session *)ref;
  iobind_runtime *runtime = session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  iobind__session_free_places(session); /* lent allocators must go before their session */
  if (session->attachment != NULL) {
    iobind__driver_of(session->attachment->device)->detach(session->attachment);
  }
  iobind__session_free_signature(session);
  iobind__session_free_metadata(session);
  free(session->nodes);
  free(session->devices);
  if (session->profile != NULL) {
    OrtStatus *freed = api->AllocatorFree(runtime->cpu_allocator, session->profile);
    if (freed != NULL) {
      api->ReleaseStatus(freed);
    }
  }
  if (session->run_options != NULL) {
    api->ReleaseRunOptions(session->run_options);
  }
  if (session->wrapped) {
    if (session->deleter != NULL) {
      session->deleter(session->deleter_context, session->session);
    }
  } else if (session->session != NULL) {
    release_ort(session);
  }
  iobind_stream_destroy(session->stream);
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

/* Which devices may hold the session's tensors: those that it was given, or that ORT chose. */
static iobind_status collect_devices(iobind_session *session, const iobind_session_options *options, iobind_error *error) {
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

static bool gives_run_streams(const iobind_device *device) {
  return (device->flags & IOBIND_DEVICE_STREAMS) != 0 && !iobind__device_has(device, IOBIND__QUIRK_REFUSES_RUN_STREAM);
}

/* ORT takes one stream for a run: that of the only device that has streams. It crashes if no node runs on that device. From
 * outside, only an input that is read there proves that one does: an output there may be a constant. A stream that the EP knows by an
 * option is not given to runs. A replay is launched on the stream of its capture, so that no run can give a stream to it. */
static bool takes_stream(const iobind_session *session) {
  size_t devices = 0;
  bool reads = session->attachment != NULL; /* ORT gets no stream for it */
  for (size_t i = 0; i < session->device_count; i++) {
    devices += (session->devices[i]->flags & IOBIND_DEVICE_STREAMS) != 0;
  }
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind__place *place = session->inputs[i].place;
    reads = reads || (!place->host && gives_run_streams(place->device));
  }
  bool may_be_given = reads && session->graphs.limit == 0;
  return devices == 1 && (may_be_given || iobind__session_stream_is_option(session));
}

static iobind__guard guard_of(iobind_device *const *devices, size_t count) {
  iobind__guard found = {0};
  for (size_t i = 0; i < count; i++) {
    iobind__guard_add(&found, devices[i]->guard);
  }
  return found;
}

/* For a session whose EPs others choose: a policy, or the program that has made a wrapped one. */
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

/* Its inputs and outputs may tell which of all the devices a session is on. If they are on the host, its nodes may still be on any. */
static void narrow_guard(iobind_session *session) {
  const iobind__guard found = guard_of(session->devices, session->device_count);
  if (iobind__guard_is_needed(&found)) {
    set_guard(session, &found);
  }
}

static void add_chosen_devices(iobind_session *session) {
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
    if (iobind__device_has(session->devices[i], IOBIND__QUIRK_QUEUES)) {
      session->queued = session->devices[i];
      session->queued_count++;
    }
  }
  narrow_guard(session);
}

static const char CPU_EP[] = "CPUExecutionProvider";

static iobind_status read_nodes(iobind_session *session, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  const OrtEpAssignedSubgraph *const *subgraphs = NULL;
  size_t subgraph_count = 0;
  IOBIND__ORT_TRY(api, api->Session_GetEpGraphAssignmentInfo(session->session, &subgraphs, &subgraph_count), error,
                  "session_create: node placement");
  for (size_t s = 0; s < subgraph_count; s++) {
    const OrtEpAssignedNode *const *nodes = NULL;
    size_t count = 0;
    const char *ep_name = NULL;
    IOBIND__ORT_TRY(api, api->EpAssignedSubgraph_GetNodes(subgraphs[s], &nodes, &count), error,
                    "session_create: node placement");
    IOBIND__ORT_TRY(api, api->EpAssignedSubgraph_GetEpName(subgraphs[s], &ep_name), error, "session_create: node placement");
    iobind_node_info *list = realloc(session->nodes, (session->node_count + count + 1) * sizeof *list);
    if (list == NULL) {
      return iobind__out_of_memory(error, "session_create");
    }
    session->nodes = list;
    for (size_t n = 0; n < count; n++) {
      iobind_node_info *node = &list[session->node_count];
      *node = (iobind_node_info)IOBIND_NODE_INFO_INIT;
      node->ep_name = ep_name;
      IOBIND__ORT_TRY(api, api->EpAssignedNode_GetName(nodes[n], &node->name), error, "session_create: node placement");
      IOBIND__ORT_TRY(api, api->EpAssignedNode_GetDomain(nodes[n], &node->domain), error, "session_create: node placement");
      IOBIND__ORT_TRY(api, api->EpAssignedNode_GetOperatorType(nodes[n], &node->op_type), error,
                      "session_create: node placement");
      session->node_count++;
      session->device_node_count += strcmp(ep_name, CPU_EP) != 0;
    }
  }
  return IOBIND_OK;
}

static void warn_of_idle_device(const iobind_session *session, const iobind_session_options *options) {
  size_t i = 0;
  while (i < options->device_count && options->devices[i] == session->runtime->cpu) {
    i++;
  }
  if (i < options->device_count && session->node_count > 0 && session->device_node_count == 0) {
    iobind__log_line(session->runtime->log, IOBIND_LOG_WARNING,
                     "iobind: session_create: 0 of %zu nodes on '%s': ONNX Runtime's CPU EP runs all of them",
                     session->node_count, options->devices[i]->spec);
  }
}

/* Only a session that iobind has made computes on the queue of a device whose driver must know it: another one's work would not be in the order
 * of its streams. */
static iobind_status attach(iobind_session *session, const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < session->device_count && session->attachment == NULL; i++) {
    iobind_device *device = session->devices[i];
    const iobind__driver *driver = iobind__driver_of(device);
    if (driver->attach == NULL) {
      continue;
    }
    if (session->wrapped || options->policy != IOBIND_POLICY_NONE) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "%s: it computes on a queue of the execution provider's own: name the device '%s' in "
                          "iobind_session_create",
                          session->wrapped ? "session_wrap" : "session_create", device->spec);
    }
    IOBIND__TRY(iobind__named(driver->attach(device, session->session, &session->attachment, error), error, "session_create"));
  }
  return IOBIND_OK;
}

static iobind_status describe(iobind_session *session, const iobind_session_options *options, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  IOBIND__ORT_TRY(api, api->SessionGetInputCount(session->session, &session->input_count), error, "session_create");
  IOBIND__ORT_TRY(api, api->SessionGetOutputCount(session->session, &session->output_count), error, "session_create");
  IOBIND__TRY(collect_devices(session, options, error));
  IOBIND__TRY(iobind__session_read_signature(session, error));
  IOBIND__TRY(session->graphs.limit > 0 ? iobind__session_check_graph_outputs(session, error) : IOBIND_OK);
  add_chosen_devices(session);
  IOBIND__TRY(attach(session, options, error));
  session->takes_stream = takes_stream(session);
  IOBIND__ORT_TRY(api, api->CreateRunOptions(&session->run_options), error, "session_create");
  if (iobind__session_may_capture(session)) {
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(session->run_options, IOBIND__GRAPH_ID, IOBIND__NO_GRAPH), error,
                    "session_create");
  }
  IOBIND__TRY(iobind__session_read_metadata(session, error));
  IOBIND__TRY(iobind__session_lists_nodes(options) ? read_nodes(session, error) : IOBIND_OK);
  warn_of_idle_device(session, options);
  return IOBIND_OK;
}

static iobind_session *allocate(iobind_runtime *runtime) {
  iobind_session *session = calloc(1, sizeof *session);
  if (session != NULL) {
    iobind__ref_init(&session->ref, session_destroy);
    pthread_mutex_init(&session->places_mutex, NULL);
    iobind__turn_init(&session->turn);
    atomic_init(&session->graphs.live, 0);
    atomic_init(&session->graphs.kept, 0);
    atomic_init(&session->graphs.dead, NULL);
    session->runtime = runtime;
    iobind__ref_retain(&runtime->ref);
  }
  return session;
}

/* What a session is created from. */
typedef struct source {
  const char *path; /* NULL: in memory */
  iobind__path_char *native;
  const void *model;
  size_t bytes;
} source;

/* *refused is ORT's failure, which has no message yet. */
static iobind_status load(iobind_session *session, const source *from, const iobind_session_options *options,
                          const OrtSessionOptions *ort_options, OrtStatus **refused, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  const OrtEnv *env = session->runtime->env;
  const iobind__guard guard = options->policy == IOBIND_POLICY_NONE ? guard_of(options->devices, options->device_count)
                                                                    : guard_of_all(session->runtime);
  iobind__scope scope;
  set_guard(session, &guard);
  IOBIND__TRY(iobind__named(iobind__guard_enter(session->inside, &scope, error), error, "session_create"));
  *refused = from->path != NULL ? api->CreateSession(env, from->native, ort_options, &session->session)
                                : api->CreateSessionFromArray(env, from->model, from->bytes, ort_options, &session->session);
  iobind__guard_leave(&scope);
  return IOBIND_OK;
}

/* ORT does not say which nodes prevent a STRICT session, or one that captures graphs. So the model is loaded again as neither, which
 * shows where each node runs. False if that cannot be found out; no names if all nodes run on the device. */
static bool name_nodes_on_cpu(iobind_runtime *runtime, const source *from, const iobind_session_options *strict,
                              iobind__text *names) {
  enum { NAMED = 4 };
  iobind_session_options options = *strict;
  options.flags = (options.flags & ~(uint32_t)IOBIND_SESSION_STRICT) | IOBIND_SESSION_PLACEMENT;
  options.graph_limit = 0;
  options.profile = NULL;
  OrtSessionOptions *ort_options = NULL;
  iobind_session *session = allocate(runtime);
  OrtStatus *refused = NULL;
  bool told = session != NULL && iobind__session_options_build(runtime, &options, &ort_options, NULL) == IOBIND_OK;
  if (told) {
    told = load(session, from, &options, ort_options, &refused, NULL) == IOBIND_OK && refused == NULL &&
           read_nodes(session, NULL) == IOBIND_OK;
    IOBIND__API(runtime)->ReleaseSessionOptions(ort_options);
  }
  size_t count = 0;
  for (size_t i = 0; told && i < session->node_count; i++) {
    const iobind_node_info *node = &session->nodes[i];
    if (strcmp(node->ep_name, CPU_EP) == 0 && count++ < NAMED) {
      iobind__text_add(names, "%s'%.40s' (%.40s)", count == 1 ? "" : ", ", node->name, node->op_type);
    }
  }
  if (count > NAMED) {
    iobind__text_add(names, " and %zu more", count - NAMED);
  }
  if (refused != NULL) {
    IOBIND__API(runtime)->ReleaseStatus(refused);
  }
  if (session != NULL) {
    iobind__ref_release(&session->ref);
  }
  return told && !names->failed;
}

static iobind_status load_failed(iobind_runtime *runtime, const source *from, const iobind_session_options *options,
                                 OrtStatus *failed, iobind_error *error) {
  const OrtApi *api = IOBIND__API(runtime);
  char model[IOBIND__NAME_TEXT];
  iobind__text_shorten(from->path != NULL ? from->path : "", model);
  const char *quote = from->path != NULL ? "'" : "";
  const char *what = from->path != NULL ? model : "model in memory";
  iobind__text names = {0};
  iobind_status status;
  iobind__ort_reason reason = iobind__ort_reason_of(api, failed);
  bool told = (reason == IOBIND__ORT_NO_CAPTURE || reason == IOBIND__ORT_NODES_ON_CPU) &&
              name_nodes_on_cpu(runtime, from, options, &names);
  bool named = told && names.length > 0;
  if (reason == IOBIND__ORT_NO_CAPTURE && named) {
    status =
        iobind__ort_fail_as(api, failed, IOBIND_ERROR_NOT_SUPPORTED, error,
                            "session_create: graph_limit: %s%s%s: on the CPU, where only nodes that compute shapes may be: %s",
                            quote, what, quote, iobind__text_get(&names));
  } else if (reason == IOBIND__ORT_NO_CAPTURE) {
    status = iobind__ort_fail_as(
        api, failed, IOBIND_ERROR_NOT_SUPPORTED, error, "session_create: graph_limit: %s%s%s%s", quote, what, quote,
        told ? ": a node reads on the host what another one computes on the device, such as a size that "
               "the data decide"
             : "");
  } else if (named) {
    status = iobind__ort_fail(api, failed, error, "session_create: no device of the session takes %s of %s%s%s (STRICT)",
                              iobind__text_get(&names), quote, what, quote);
  } else {
    status = iobind__ort_fail(api, failed, error, "session_create: %s%s%s", quote, what, quote);
  }
  iobind__text_free(&names);
  return status;
}

/* A model in memory is the caller's to free after the call; with this entry ORT reads an ORT model there as long as the session lives. */
static iobind_status check_bytes_are_copied(const iobind_session_options *options, iobind_error *error) {
  static const char key[] = "session.use_ort_model_bytes_directly";
  for (size_t i = 0; i < options->config_count; i++) {
    if (strcmp(options->config_keys[i], key) == 0 && strcmp(options->config_values[i], "1") == 0) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "session_create: config entry '%s': a model in memory may be freed after the call, and ORT would go on "
          "reading it: leave the entry out, or load the model from a file",
          key);
    }
  }
  return IOBIND_OK;
}

/* A failure may be the device's. */
static iobind_status heed(const iobind_session *session, iobind_status status, iobind_error *error) {
  iobind__scope scope;
  iobind__guard_enter_anyway(session->inside, &scope);
  return iobind__guard_end(&scope, status, error);
}

static iobind_status create(iobind_runtime *runtime, const char *path, const void *model, size_t bytes,
                            const iobind_session_options *given, iobind_session **out, iobind_error *error) {
  IOBIND__TRY(iobind__process_check("session_create", error));
  iobind_session_options options;
  IOBIND__TRY(iobind__options_read(&options, sizeof options, sizeof options, given, "session_create", error));
  IOBIND__TRY(iobind__flags_check(options.flags,
                                  IOBIND_SESSION_STRICT | IOBIND_SESSION_PLACEMENT | IOBIND_SESSION_NO_MEMORY_REUSE,
                                  "session_create", error));
  OrtSessionOptions *ort_options = NULL;
  iobind_stream *stream = NULL;
  IOBIND__TRY(iobind__session_check_dims(&options, path, model, bytes, error));
  IOBIND__TRY(iobind__session_options_check(runtime, &options, error));
  IOBIND__TRY(path == NULL ? check_bytes_are_copied(&options, error) : IOBIND_OK);
  iobind_device *graph_device = NULL;
  IOBIND__TRY(iobind__session_check_graph(runtime, &options, path, model, bytes, &graph_device, error));
  IOBIND__TRY(iobind__session_open_stream(&options, &stream, error));
  options.stream = stream;
  iobind_status status = iobind__session_options_build(runtime, &options, &ort_options, error);
  if (status != IOBIND_OK) {
    iobind_stream_destroy(stream);
    return status;
  }
  source from = {path, path == NULL ? NULL : iobind__path_native(path), model, bytes};
  iobind_session *session = path != NULL && from.native == NULL ? NULL : allocate(runtime);
  if (session == NULL) {
    iobind_stream_destroy(stream);
    status = iobind__out_of_memory(error, "session_create");
  } else {
    session->stream = stream;
    session->profiling = options.profile != NULL;
    session->graphs.limit = options.graph_limit;
    session->graphs.device = graph_device;
    OrtStatus *failed = NULL;
    status = load(session, &from, &options, ort_options, &failed, error);
    if (status == IOBIND_OK) {
      status = failed == NULL ? describe(session, &options, error) : load_failed(runtime, &from, &options, failed, error);
      status = heed(session, status, error);
    }
  }
  free(from.native);
  IOBIND__API(runtime)->ReleaseSessionOptions(ort_options);
  if (status == IOBIND_OK) {
    *out = session;
  } else if (session != NULL) {
    iobind__ref_release(&session->ref);
  }
  return status;
}

iobind_status iobind_session_create(iobind_runtime *runtime, const char *path, const iobind_session_options *options,
                                    iobind_session **session, iobind_error *error) {
  if (session != NULL) {
    *session = NULL;
  }
  if (runtime == NULL || path == NULL || session == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: %s is NULL",
                        runtime == NULL ? "runtime"
                        : path == NULL  ? "path"
                                        : "session");
  }
  if (!iobind__file_exists(path)) {
    return iobind__path_exists(path)
               ? iobind__fail(error, IOBIND_ERROR_IO, "session_create: '%s': expected a model file, got %s", path,
                              iobind__folder_exists(path) ? "a directory" : "something that is not a regular file")
               : iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "session_create: '%s': no such file", path);
  }
  return create(runtime, path, NULL, 0, options, session, error);
}

iobind_status iobind_session_create_from_memory(iobind_runtime *runtime, const void *model, size_t bytes,
                                                const iobind_session_options *options, iobind_session **session,
                                                iobind_error *error) {
  if (session != NULL) {
    *session = NULL;
  }
  if (runtime == NULL || model == NULL || session == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: %s is NULL",
                        runtime == NULL ? "runtime"
                        : model == NULL ? "model"
                                        : "session");
  }
  return create(runtime, NULL, model, bytes, options, session, error);
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
  if (runtime == NULL || ort_session == NULL || out == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_wrap: %s is NULL",
                        runtime == NULL       ? "runtime"
                        : ort_session == NULL ? "ort_session"
                                              : "session");
  }
  IOBIND__TRY(iobind__process_check("session_wrap", error));
  IOBIND__TRY(check_same_ort(runtime, ort_session, error));
  iobind_session *session = allocate(runtime);
  if (session == NULL) {
    return iobind__out_of_memory(error, "session_wrap");
  }
  session->session = ort_session;
  session->wrapped = true;
  const iobind__guard guard = guard_of_all(runtime);
  set_guard(session, &guard);
  static const iobind_session_options none = IOBIND_SESSION_OPTIONS_INIT;
  iobind_status status = describe(session, &none, error);
  if (status != IOBIND_OK) {
    iobind__ref_release(&session->ref);
    return status;
  }
  session->deleter = deleter;
  session->deleter_context = context;
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
  if (session == NULL || path == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_end_profile: %s is NULL",
                        session == NULL ? "session" : "path");
  }
  IOBIND__TRY(iobind__process_check("session_end_profile", error));
  if (!session->profiling) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "session_end_profile: %s",
                        session->profile == NULL ? "the session was made without a profile" : "the profile has ended already");
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

iobind_status iobind_session_get_node(const iobind_session *session, size_t index, iobind_node_info *info,
                                      iobind_error *error) {
  if (session == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_get_node: session is NULL");
  }
  if (index >= session->node_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "session_get_node: expected an index below %zu, got %zu%s",
                        session->node_count, index,
                        session->node_count == 0 ? ": was the session made with IOBIND_SESSION_PLACEMENT?" : "");
  }
  return iobind__info_write(info, "info", &session->nodes[index], sizeof session->nodes[index], sizeof session->nodes[index],
                            "session_get_node", error);
}
