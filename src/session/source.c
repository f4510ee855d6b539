/* The model that a session is loaded from, and why ORT refuses it. */
#include "session/create.h"

iobind_status iobind__source_load(const iobind__source *from, iobind_session *session, const OrtSessionOptions *ort_options,
                                  OrtStatus **refused, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  const OrtEnv *env = session->runtime->env;
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(session->inside, &scope, error), error, "session_create"));
  *refused = from->path != NULL ? api->CreateSession(env, from->native, ort_options, &session->session)
                                : api->CreateSessionFromArray(env, from->model, from->bytes, ort_options, &session->session);
  iobind__guard_leave(&scope);
  return IOBIND_OK;
}

/* ORT does not report which nodes prevent a STRICT session, or one that captures graphs. So the model is loaded again as neither, which
 * shows where each node runs. False if that cannot be found out; no names if all nodes run on the device. */
static bool name_nodes_on_cpu(const iobind__source *from, iobind_runtime *runtime, const iobind_session_options *strict,
                              iobind__text *names) {
  enum { NAMED = 4 };
  iobind_session_options options = *strict;
  options.flags = (options.flags & ~(uint32_t)IOBIND_SESSION_STRICT) | IOBIND_SESSION_PLACEMENT;
  options.graph_limit = 0;
  options.profile = NULL;
  OrtSessionOptions *ort_options = NULL;
  iobind_session *session = iobind__session_allocate(runtime);
  OrtStatus *refused = NULL;
  bool told = session != NULL && iobind__session_options_build(runtime, &options, &ort_options, NULL) == IOBIND_OK;
  if (told) {
    iobind__session_set_guard(session, &options);
    told = iobind__source_load(from, session, ort_options, &refused, NULL) == IOBIND_OK && refused == NULL &&
           iobind__session_read_nodes(session, NULL) == IOBIND_OK;
    IOBIND__API(runtime)->ReleaseSessionOptions(ort_options);
  }
  size_t count = 0;
  for (size_t i = 0; told && i < session->node_count; i++) {
    const iobind_node_info *node = &session->nodes[i];
    if (iobind__node_is_on_cpu(node) && count++ < NAMED) {
      iobind__text_add(names, "%s'%.40s' (%.40s)", count == 1 ? "" : ", ", node->name, node->op_type);
    }
  }
  if (count > NAMED) {
    iobind__text_add(names, " and %zu more", count - NAMED);
  }
  iobind__ort_ignore(IOBIND__API(runtime), refused);
  if (session != NULL) {
    iobind__ref_release(&session->ref);
  }
  return told && !names->failed;
}

iobind_status iobind__source_refused(const iobind__source *from, iobind_runtime *runtime, const iobind_session_options *options,
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
              name_nodes_on_cpu(from, runtime, options, &names);
  bool named = told && names.length > 0;
  if (reason == IOBIND__ORT_NO_CAPTURE && named) {
    status =
        iobind__ort_fail_as(api, failed, IOBIND_ERROR_NOT_SUPPORTED, error,
                            "session_create: graph_limit: %s%s%s: on the CPU, where only nodes that compute shapes may be: %s",
                            quote, what, quote, iobind__text_get(&names));
  } else if (reason == IOBIND__ORT_NO_CAPTURE) {
    status = iobind__ort_fail_as(
        api, failed, IOBIND_ERROR_NOT_SUPPORTED, error, "session_create: graph_limit: %s%s%s%s", quote, what, quote,
        told
            ? ": a node reads on the host a value that another node computes on the device, such as a size that depends on the "
              "data"
            : "");
  } else if (named) {
    status = iobind__ort_fail(api, failed, error, "session_create: no device of the session takes %s of %s%s%s (STRICT)",
                              iobind__text_get(&names), quote, what, quote);
  } else {
    const char *damage = api->GetErrorCode(failed) == ORT_INVALID_PROTOBUF ? ": it is not an ONNX model, or is damaged" : "";
    status = iobind__ort_fail(api, failed, error, "session_create: %s%s%s%s", quote, what, quote, damage);
  }
  iobind__text_free(&names);
  return status;
}
