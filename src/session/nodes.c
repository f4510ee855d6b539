/* Which EP runs each node of a session. */
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "session/create.h"
#include "support/options.h"

bool iobind__node_is_on_cpu(const iobind_node_info *node) {
  return strcmp(node->ep_name, "CPUExecutionProvider") == 0;
}

iobind_status iobind__session_read_nodes(iobind_session *session, iobind_error *error) {
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
      session->device_node_count += !iobind__node_is_on_cpu(node);
    }
  }
  return IOBIND_OK;
}

void iobind__session_warn_of_idle_device(const iobind_session *session, const iobind_session_options *options) {
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

iobind_status iobind_session_get_node(const iobind_session *session, size_t index, iobind_node_info *info,
                                      iobind_error *error) {
  IOBIND__TRY(iobind__null_check(session, "session", "session_get_node", error));
  if (index >= session->node_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "session_get_node: expected an index below %zu, got %zu%s",
                        session->node_count, index,
                        session->node_count == 0 ? ": create the session with IOBIND_SESSION_PLACEMENT" : "");
  }
  return IOBIND__INFO_WRITE(info, &session->nodes[index], "session_get_node", error);
}
