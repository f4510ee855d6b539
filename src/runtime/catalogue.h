/* What iobind knows about execution providers in advance: the name in a device spec, ORT's name, library files, options. */
#ifndef IOBIND_RUNTIME_CATALOGUE_H
#define IOBIND_RUNTIME_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/option.h"
#include "support/error.h"

typedef struct iobind__ep {
  const char *name;    /* in device specs; its library is registered under the same name */
  const char *ep_name; /* ORT's name */
  const char *library; /* stem of the library's file: "lib" STEM ".so"; NULL: inside ORT's own library */
  bool addressable;    /* an address inside an allocation is a real address */
  bool queued;         /* a run may return before its work is done, and only a copy to the host waits for it */
  bool serial;         /* crashes if two threads use it at the same time: iobind lets one in after the other */
  bool gated;          /* a graph that it captures fails by any call of another thread: iobind keeps the others out meanwhile */
  bool current_device; /* its calls use the GPU that is current in the calling thread, as NVIDIA's do */
  const char *graph_option;   /* the key that makes it capture graphs; NULL: it does not, or nobody has looked */
  long graph_recycled_before; /* ORT 1.N, and older ones reuse pinned memory that a replay reads; 0: none does */
  bool graph_loses_copies;    /* copies that nodes make are not captured: each graph is tried first */
  bool graphs_stay;           /* it says that it has released a graph, and keeps it until the session goes (CUDA up to 1.31) */
  uint32_t graph_since;       /* the version of ORT's interface that this needs; 0: any */
  bool streams;               /* has streams of its own */
  bool refuses_run_stream;    /* crashes if an ORT run is given one of them (CUDA up to 1.31: every node that uses cuBLAS) */
  bool direct3d;              /* memory, copies and streams are iobind's, by Direct3D 12: see dml.h */
  bool on_demand; /* registered by the search only when a device spec names it: a virtual device must not become the "gpu" */
  bool bridged; /* finds its ORT by libonnxruntime_providers_shared: the first one in the process. It ends the process if it is
                   * given an option that it refuses */
  const iobind__option_table *options; /* NULL: none is known */
} iobind__ep;

const iobind__ep *iobind__ep_by_name(const char *name, size_t length); /* NULL: not in the catalogue */
const iobind__ep *iobind__ep_by_ep_name(const char *ep_name);
const iobind__ep *iobind__ep_at(size_t index);               /* NULL behind the last */
bool iobind__ep_is_graph_option(const char *key);            /* or an entry "ep.NAME.KEY" of ORT's that means one */
const iobind__ep *iobind__ep_by_file(const char *file_name); /* the last part of a path */

/* Is `key` an option of the EP? If the catalogue lists no options for the EP, every key counts as known. OK with *known false:
 * it may pass, because an EP can be newer than the catalogue; *near is a known key that is similar, or NULL.
 * INVALID_ARGUMENT: it differs from a known key only in upper and lower case. */
iobind_status iobind__ep_option_check(const iobind__ep *ep, const char *key, bool *known, const char **near,
                                      iobind_error *error);

#endif
