/* A graph is captured and released with the session entered. A binding that is destroyed on any thread leaves its graphs to the next thread that
 * enters, because its own thread may already have the session's turn, or be inside the EP. */
#include "session/registry.h"

#include <stdlib.h>

#include "session/session.h"

/* The maximum number of graphs that ORT or the EP keeps after their release; see iobind__registry_has_room. */
enum { MOST_KEPT = 32 };

iobind_status iobind__registry_add(iobind_session *session, iobind__captured **out, iobind_error *error) {
  iobind__captured *captured = calloc(1, sizeof *captured);
  if (captured == NULL) {
    return iobind__out_of_memory(error, "binding_run");
  }
  captured->id = ++session->graphs.last_id;
  *out = captured;
  return IOBIND_OK;
}

void iobind__registry_note_whole(iobind_session *session, iobind__captured *captured) {
  captured->is_whole = true;
  atomic_fetch_add(&session->graphs.live, 1);
}

/* ---- release ---- */

static void note_kept(iobind_session *session) {
  const iobind_runtime *runtime = session->runtime;
  size_t kept = atomic_fetch_add(&session->graphs.kept, 1) + 1;
  iobind__log_line(runtime->log, IOBIND_LOG_INFO,
                   "iobind: a captured graph was released, but ORT %s keeps it until its session is destroyed: %zu so far",
                   runtime->ort.version, kept);
  if (kept == MOST_KEPT) {
    iobind__log_line(
        runtime->log, IOBIND_LOG_WARNING,
        "iobind: ORT %s keeps %zu released graphs of one session, which captures no more: runs that would capture run without "
        "a graph; keep bindings, or recreate the session",
        runtime->ort.version, kept);
  }
}

/* Also one whose capture failed: a later run of its number would return OK and write nothing. */
static void release(iobind_session *session, const iobind__captured *captured) {
  iobind_runtime *runtime = session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  if (iobind__ort_releases_graphs(&runtime->ort)) {
    iobind__scope scope;
    iobind__guard_enter_anyway(session->inside, &scope);
    OrtStatus *status = api->SessionReleaseCapturedGraph(session->session, captured->id);
    iobind__guard_leave(&scope);
    if (status != NULL) {
      api->ReleaseStatus(status);
    } else if (!iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_STAYS)) {
      return;
    }
  }
  if (captured->is_whole) {
    note_kept(session);
  }
}

void iobind__registry_give_up(iobind_session *session, iobind__captured *captured) {
  if (captured == NULL) {
    return;
  }
  captured->next = atomic_load(&session->graphs.dead);
  while (!atomic_compare_exchange_weak(&session->graphs.dead, &captured->next, captured)) {
  }
}

void iobind__registry_release_dead(iobind_session *session) {
  iobind__captured *captured = atomic_exchange(&session->graphs.dead, NULL);
  while (captured != NULL) {
    iobind__captured *next = captured->next;
    if (!iobind__process_is_forked() && iobind__guard_may_free(session->inside)) {
      release(session, captured);
    }
    atomic_fetch_sub(&session->graphs.live, captured->is_whole);
    free(captured);
    captured = next;
  }
}

void iobind__registry_try_release_dead(iobind_session *session) {
  if (atomic_load(&session->graphs.dead) != NULL && iobind__session_try_enter(session)) {
    iobind__registry_release_dead(session);
    iobind__session_leave(session);
  }
}

void iobind__registry_close(iobind__registry *self) {
  iobind__captured *captured = atomic_exchange(&self->dead, NULL);
  while (captured != NULL) {
    iobind__captured *next = captured->next;
    free(captured);
    captured = next;
  }
}

/* ---- bounds ---- */

bool iobind__registry_has_room(const iobind__registry *self) {
  return atomic_load(&self->kept) < MOST_KEPT;
}

/* Concat, Split, batched MatMul and others pass addresses to their kernels by a copy from pinned memory. ORT's change #32121 retains that memory
 * for the graph; before it, the next run wrote its own addresses there, and a replay read them. */
iobind_status iobind__registry_check_recycling(iobind_session *session, const char *what, iobind_error *error) {
  iobind__registry_release_dead(session);
  if (!iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES) || atomic_load(&session->graphs.live) == 0) {
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_ERROR_INVALID_STATE,
      "%s: a graph of this session has been captured, and with ORT %s another run would change memory that it reads: "
      "expected ORT 1.%u, or a session for each graph, or no captured graph (iobind_binding_reset_graphs)",
      what, session->runtime->ort.version, iobind__quirk_ends(session->graphs.device->ep, IOBIND__QUIRK_GRAPH_RECYCLES));
}
