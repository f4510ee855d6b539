/* A graph is captured and released with the session entered. A binding that is destroyed on any thread leaves its graphs to the next thread that
 * enters, because its own thread may already have the session's turn, or be inside the EP. */
#include "session/registry.h"

#include <stdlib.h>

#include "session/session.h"

/* The maximum number of graphs that ORT or the EP keeps after their release; see iobind__registry_has_room. */
enum { MOST_KEPT = 32 };

/* ---- the list ---- */

size_t iobind__registry_count(const iobind__registry *self, iobind__graph_life life) {
  size_t count = 0;
  for (const iobind__captured *one = atomic_load(&self->list); one != NULL; one = one->next) {
    count += atomic_load(&one->life) == life;
  }
  return count;
}

/* An entry that no graph has; NULL: out of memory. */
static iobind__captured *find_entry(iobind__registry *self) {
  iobind__captured *one = atomic_load(&self->list);
  while (one != NULL && atomic_load(&one->life) != IOBIND__GRAPH_GONE) {
    one = one->next;
  }
  iobind__captured *made = one == NULL ? calloc(1, sizeof *made) : NULL;
  if (made != NULL) {
    made->next = atomic_load(&self->list);
    atomic_store(&self->list, made);
  }
  return one != NULL ? one : made;
}

iobind_status iobind__registry_add(iobind_session *session, iobind__captured **out, iobind_error *error) {
  iobind__registry *self = &session->graphs;
  iobind__captured *captured = find_entry(self);
  if (captured == NULL) {
    return iobind__out_of_memory(error, "binding_run");
  }
  captured->id = ++self->last_id;
  atomic_store(&captured->life, IOBIND__GRAPH_BEGUN);
  *out = captured;
  return IOBIND_OK;
}

void iobind__registry_note_whole(iobind__captured *captured) {
  atomic_store(&captured->life, IOBIND__GRAPH_WHOLE);
}

void iobind__registry_give_up(iobind__captured *captured) {
  if (captured != NULL) {
    bool is_whole = atomic_load(&captured->life) == IOBIND__GRAPH_WHOLE;
    atomic_store(&captured->life, is_whole ? IOBIND__GRAPH_DEAD : IOBIND__GRAPH_FAILED);
  }
}

void iobind__registry_close(iobind__registry *self) {
  iobind__captured *captured = atomic_load(&self->list);
  while (captured != NULL) {
    iobind__captured *next = captured->next;
    free(captured);
    captured = next;
  }
}

/* ---- release ---- */

static void tell_kept(const iobind_session *session) {
  const iobind_runtime *runtime = session->runtime;
  size_t kept = iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT);
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

/* Has ORT released the graph, and the EP its memory? */
static bool has_released(iobind_session *session, const iobind__captured *captured) {
  iobind_runtime *runtime = session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  if (!iobind__ort_releases_graphs(&runtime->ort)) {
    return false;
  }
  iobind__scope scope;
  iobind__guard_enter_anyway(session->inside, &scope);
  OrtStatus *status = api->SessionReleaseCapturedGraph(session->session, captured->id);
  iobind__guard_leave(&scope);
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
  return status == NULL && !iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_STAYS);
}

/* Also one whose capture failed: a later run of its number would return OK and write nothing. */
void iobind__registry_release_dead(iobind_session *session) {
  for (iobind__captured *one = atomic_load(&session->graphs.list); one != NULL; one = one->next) {
    iobind__graph_life life = atomic_load(&one->life);
    if (life == IOBIND__GRAPH_DEAD || life == IOBIND__GRAPH_FAILED) {
      bool may_release = !iobind__process_is_forked() && iobind__guard_may_free(session->inside);
      bool is_kept = may_release && !has_released(session, one) && life == IOBIND__GRAPH_DEAD;
      atomic_store(&one->life, is_kept ? IOBIND__GRAPH_KEPT : IOBIND__GRAPH_GONE);
      if (is_kept) {
        tell_kept(session);
      }
    }
  }
}

void iobind__registry_try_release_dead(iobind_session *session) {
  const iobind__registry *self = &session->graphs;
  bool any = iobind__registry_count(self, IOBIND__GRAPH_DEAD) + iobind__registry_count(self, IOBIND__GRAPH_FAILED) > 0;
  if (any && iobind__session_try_enter(session)) {
    iobind__registry_release_dead(session);
    iobind__session_leave(session);
  }
}

/* ---- bounds ---- */

bool iobind__registry_has_room(const iobind__registry *self) {
  return iobind__registry_count(self, IOBIND__GRAPH_KEPT) < MOST_KEPT;
}

/* Concat, Split, batched MatMul and others pass addresses to their kernels by a copy from pinned memory. ORT's change #32121 retains that memory
 * for the graph; before it, the next run wrote its own addresses there, and a replay read them. */
iobind_status iobind__registry_check_recycling(iobind_session *session, const char *what, iobind_error *error) {
  iobind__registry_release_dead(session);
  if (!iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES) ||
      iobind__registry_count(&session->graphs, IOBIND__GRAPH_WHOLE) == 0) {
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_ERROR_INVALID_STATE,
      "%s: a graph of this session has been captured, and with ORT %s another run would change memory that it reads: "
      "expected ORT 1.%u, or a session for each graph, or no captured graph (iobind_binding_reset_graphs)",
      what, session->runtime->ort.version, iobind__quirk_ends(session->graphs.device->ep, IOBIND__QUIRK_GRAPH_RECYCLES));
}
