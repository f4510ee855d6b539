/* The captured graphs of all bindings of a session: their numbers, and the release of those that no binding has. */
#ifndef IOBIND_SESSION_REGISTRY_H
#define IOBIND_SESSION_REGISTRY_H

#include "runtime/runtime.h"

typedef enum iobind__graph_life {
  IOBIND__GRAPH_GONE,   /* ORT has released it: its entry can be used again */
  IOBIND__GRAPH_BEGUN,  /* its capture has not succeeded */
  IOBIND__GRAPH_WHOLE,  /* a binding has it */
  IOBIND__GRAPH_FAILED, /* no binding has it, and its capture had not succeeded */
  IOBIND__GRAPH_DEAD,   /* no binding has it: the next thread with the turn lets ORT release it */
  IOBIND__GRAPH_KEPT    /* released, but ORT or the EP keeps it until the session is destroyed */
} iobind__graph_life;

/* A graph of ORT: an entry of the session's list. */
typedef struct iobind__captured {
  struct iobind__captured *next;
  int id; /* the number under which ORT keeps it */
  _Atomic(iobind__graph_life) life;
} iobind__captured;

typedef struct iobind__registry {
  size_t limit;                     /* captured graphs of a binding; 0: the session captures none */
  iobind_device *device;            /* whose EP captures them */
  int last_id;                      /* numbers are not reused; only the thread that has the turn changes it */
  _Atomic(iobind__captured *) list; /* only the thread that has the turn adds an entry, and none is removed */
} iobind__registry;

/* The next graph's number. With the session entered. */
iobind_status iobind__registry_add(iobind_session *session, iobind__captured **out, iobind_error *error);

/* ORT has captured the graph. With the session entered. */
void iobind__registry_note_whole(iobind__captured *captured);

/* No binding has the graph any more. From any thread: this one may have the turn, or be inside the EP. NULL is a no-op. */
void iobind__registry_give_up(iobind__captured *captured);

/* Release the graphs that no binding has. With the session entered, or if no other thread has the turn. */
void iobind__registry_release_dead(iobind_session *session);
void iobind__registry_try_release_dead(iobind_session *session);

void iobind__registry_close(iobind__registry *self); /* after ORT's session, which has released its graphs */

/* The number of graphs of this life. From any thread. */
size_t iobind__registry_count(const iobind__registry *self, iobind__graph_life life);

/* May another graph be captured? If graphs remain after their release, their number must be bounded. */
bool iobind__registry_has_room(const iobind__registry *self);

/* INVALID_STATE if this ORT forbids a plain run because a graph of the session is captured. `what` names the call. With the session
 * entered. */
iobind_status iobind__registry_check_recycling(iobind_session *session, const char *what, iobind_error *error);

#endif
