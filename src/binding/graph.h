/* The captured graphs of a binding: which runs capture one, which replay one, and which are refused. */
#ifndef IOBIND_BINDING_GRAPH_H
#define IOBIND_BINDING_GRAPH_H

#include "binding/binding.h"
#include "binding/run_options.h"
#include "binding/side.h"

typedef struct iobind__graphs iobind__graphs;

/* ---- graph.c: a graph ---- */

/* Memory of an input or output. */
typedef struct iobind__memory_key {
  const iobind__place *place; /* NULL: not bound */
  const void *data;
  size_t bytes;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
} iobind__memory_key;

typedef struct iobind__graph {
  struct iobind__graph *next;  /* of the same binding */
  iobind__captured *captured;  /* ORT's graph; NULL: plain runs, with memory as for a graph */
  iobind__ort_options options; /* the caller's, with the number of ORT's graph; created on demand, and not for a plain run */
  iobind_tensor *
      *made; /* outputs in memory that iobind has allocated; references are held; NULL: the caller's memory, or not bound */
  unsigned char *bytes; /* the content of the inputs that the session reads on the host, one after the other */
  size_t byte_count;
  iobind__memory_key keys[]; /* inputs, then outputs */
} iobind__graph;

/* A graph with the key of the bound memory. Nothing is captured: its runs are plain. */
iobind_status iobind__graph_create(const iobind_binding *binding, iobind__graph **out, iobind_error *error);
void iobind__graph_destroy(const iobind_binding *binding, iobind__graph *self); /* NULL is a no-op */

/* Is the bound memory that of the graph? An output without memory matches. */
bool iobind__graph_matches(const iobind_binding *binding, const iobind__graph *self);
bool iobind__graph_has_bytes(const iobind_binding *binding,
                             const iobind__graph *self); /* do inputs on the host have the same content? */

/* Does it read or write memory of the tensor? */
bool iobind__graph_uses(const iobind_binding *binding, const iobind__graph *self, const iobind_tensor *tensor);

/* The run options with the number of this graph, created on demand. */
iobind_status iobind__graph_make_options(const iobind_binding *binding, iobind__graph *self, bool is_queued,
                                         OrtRunOptions **options, iobind_error *error);

/* What would change an address in each run cannot be bound in a session that captures graphs. */
iobind_status iobind__graphs_check_live(const iobind_binding *binding, size_t index, iobind_error *error);
iobind_status iobind__graphs_check_output(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                          const iobind__place *place, iobind_error *error);
iobind_status iobind__graphs_check_carry(const iobind_binding *binding, size_t output, iobind_carry_mode mode,
                                         iobind_error *error);

/* ---- graph_cache.c: the graphs of a binding ---- */

/* Open the graphs of a caller's binding. If the session captures no graphs, this is a no-op. */
iobind_status iobind__graphs_open(iobind_binding *binding, iobind_error *error);
void iobind__graphs_close(iobind_binding *binding);

/* A run has two steps. The first needs only the binding's owner, may block, and comes before the session is entered.
 * 1. Find the graph of what is bound. *found is NULL if there is none: then the session is ready for its capture. `stream` is the session's if
 *    the run is not to wait, ordered after all work submitted to the run's own stream; NULL: it waits.
 * 2. With the session entered, and ORT's binding in line with the table: fill in the options of the run. A graph that was not found is
 *    captured, which leaves the states as they were. */
iobind_status iobind__graphs_find(iobind_binding *binding, iobind_stream *stream, iobind__graph **found, iobind_error *error);
iobind_status iobind__graphs_choose(iobind_binding *binding, iobind__graph *found, iobind__execution *how, iobind_error *error);

/* May the last run be replayed without checks while nothing changes? If so, fill in the thread that may, and the options of its
 * graph. */
bool iobind__graphs_repeat(const iobind_binding *binding, iobind__repeat *repeat);

void iobind__graphs_forget(iobind_binding *binding); /* drop all of them */

/* The caller's run options have changed: those of the graphs are created again on demand. */
void iobind__graphs_drop_options(iobind_binding *binding);

/* The number of graphs that write this tensor as an output, each of which holds a reference. */
size_t iobind__graphs_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor);

/* The tensor of a graph's output with this address, with a reference for the caller. Each such memory has one tensor, so that
 * its references show whether it has other owners. NULL: no graph writes there. */
iobind_tensor *iobind__graphs_find_made(const iobind_binding *binding, size_t index, const void *data);

/* ---- capture.c: capture a graph of what is bound ---- */

/* Bring ORT's binding in line with the table. With the session entered. */
iobind_status iobind__graph_bring_in_line(iobind_binding *binding, iobind_error *error);

/* The steps before a capture that may block. Without the session. */
iobind_status iobind__capture_prepare(iobind_binding *binding, bool is_tried, iobind_error *error);

/* Capture a graph of what is bound, or with `is_plain` only make the plain run, and restore the states. With the session
 * entered. */
iobind_status iobind__capture(iobind_binding *binding, bool is_plain, const iobind__execution *how, iobind__graph **out,
                              iobind_error *error);

/* trial.c: does a replay of what is bound give a run's results? Without the session. */
iobind_status iobind__graphs_try(iobind_binding *model, iobind_error *error);

#endif
