/* Knowledge about execution providers that needs no handle of ORT: names, library files, facts, quirks, options. Each EP has a row, in its own
 * file or (if little is known of it) in plain.c, and catalogue.c lists the rows. */
#ifndef IOBIND_EP_EP_H
#define IOBIND_EP_EP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ep/option.h"
#include "ort/api.h"

/* Behaviour of an EP in some releases of ORT, for which other modules check. */
typedef enum iobind__quirk_bit {
  IOBIND__QUIRK_QUEUES = 1 << 0, /* a run may return before its work is complete, and only a copy to the host waits for it */
  IOBIND__QUIRK_SERIAL = 1 << 1, /* crashes if two threads use it concurrently: calls into it are serialized */
  IOBIND__QUIRK_GATED =
      1 << 2, /* any call of another thread breaks a capture: the gate excludes other threads during a capture */
  IOBIND__QUIRK_REFUSES_RUN_STREAM = 1 << 3, /* crashes if a run gets a stream; the session gets one, by an option */
  IOBIND__QUIRK_CAPTURES_NOTHING = 1 << 4,   /* this ORT offers it no graph capture */
  IOBIND__QUIRK_REPLAY_WAITS = 1 << 5,       /* a replay on a given stream waits for it */
  IOBIND__QUIRK_GRAPH_RECYCLES = 1 << 6,     /* another run reuses pinned memory that a replay reads */
  IOBIND__QUIRK_GRAPH_STAYS = 1 << 7,        /* a graph that it reports as released stays until the session is destroyed */
  IOBIND__QUIRK_GRAPH_LOSES_COPIES = 1 << 8, /* copies that nodes make are not captured: a trial precedes each capture */
  IOBIND__QUIRK_EARLY_OUTPUT_COPIES =
      1 << 9,                              /* of several outputs that ORT copies to other memory, some are copied too early */
  IOBIND__QUIRK_HIDES_NODES = 1 << 10,     /* ORT does not list the nodes that a plugin's EP runs */
  IOBIND__QUIRK_NO_SHARED_CACHE = 1 << 11, /* GroupQueryAttention is wrong if past and present share memory (ORT 32716) */
} iobind__quirk_bit;

/* Releases are N of ORT 1.N. */
typedef struct iobind__quirk {
  iobind__quirk_bit bit;
  uint32_t first;    /* 0: the oldest that iobind accepts */
  uint32_t last;     /* 0: no release without it is known */
  bool only_bridged; /* see iobind__ep */
} iobind__quirk;

/* DLPack's device types, by which libraries name the memory of a tensor. */
enum {
  IOBIND__DL_CPU = 1,
  IOBIND__DL_CUDA = 2,
  IOBIND__DL_CUDA_HOST = 3,
  IOBIND__DL_ROCM = 10,
  IOBIND__DL_ROCM_HOST = 11,
  IOBIND__DL_EXT_DEV = 12,
  IOBIND__DL_CUDA_MANAGED = 13,
  IOBIND__DL_WEBGPU = 15,
};

/* Those of an EP's memory; 0: none. A wrong one would let a consumer read the memory as something else. */
typedef struct iobind__dlpack_types {
  int32_t memory;
  int32_t pinned;
  int32_t managed; /* taken for `memory` */
} iobind__dlpack_types;

/* The driver of an EP's devices. Each driver has its own files, driver_*, in the modules whose objects it needs. */
typedef enum iobind__driver_kind {
  IOBIND__DRIVER_ORT = 0, /* ORT's functions are enough */
  IOBIND__DRIVER_CUDA,
  IOBIND__DRIVER_DIRECT3D,
  IOBIND__DRIVER_LIBRARY, /* ORT, and the EP's own library for what iobind__native names */
} iobind__driver_kind;

/* The functions of the EP's own library for native streams and events, for the driver LIBRARY. The calls return 0, or an error whose reason
 * LAST_ERROR returns. */
typedef enum iobind__native_call {
  IOBIND__NATIVE_EVENT_CREATE,  /* (int device): the event, NULL on failure */
  IOBIND__NATIVE_EVENT_DESTROY, /* (event) */
  IOBIND__NATIVE_EVENT_RECORD,  /* (event, stream) */
  IOBIND__NATIVE_STREAM_WAIT,   /* (stream, event) */
  IOBIND__NATIVE_LAST_ERROR,    /* (): the calling thread's */
  IOBIND__NATIVE_CALLS,
} iobind__native_call;

/* The streams, events and memory of other libraries that devices of an EP accept. */
typedef struct iobind__native {
  int32_t kind;             /* an iobind_native_kind; 0: none */
  const char *name;         /* of the kind, in messages */
  const char *const *calls; /* names, by iobind__native_call; NULL: the driver knows them */
} iobind__native;

/* How the EP computes on a machine without a GPU. */
typedef struct iobind__software {
  const char *variable;            /* set to 1 in the environment, it lets the EP use a software adapter; NULL: none */
  const char *driver;              /* the file that describes that adapter's driver, in the runtime directory */
  const char *driver_variables[2]; /* either one names such a file; the first is set */
} iobind__software;

typedef struct iobind__ep {
  const char *name;    /* in device specs; its library is registered under the same name */
  const char *ep_name; /* ORT's name */
  const char *library; /* stem of the library's file: "lib" STEM ".so"; NULL: inside ORT's own library */
  const char *pinned;  /* ORT's old name for its pinned memory, taken as a device spec; NULL: none */
  const char *
      before; /* it has no devices: options with its name place it before the bridged devices of this EP; NULL: it has devices */
  iobind__driver_kind driver;
  iobind__native native;
  bool addressable;    /* an address inside an allocation is a real address */
  bool streams;        /* has streams of its own */
  bool current_device; /* its calls use the GPU that is current in the calling thread */
  bool on_demand; /* registered by the search only when a device spec names it: a virtual device must not become the "gpu" */
  bool bridged;   /* finds its ORT by libonnxruntime_providers_shared: the first one in the process. It ends the process
                   * over an option that it refuses */
  const char *graph_option;  /* the key that makes it capture graphs; NULL: it does not, or it is unknown */
  bool graph_by_settings;    /* without that key, settings outside the session decide: so it is always set */
  const char *stream_option; /* of `options`, the key of the stream on which a session computes; NULL: none */
  iobind__dlpack_types dlpack;
  iobind__software software;
  /* Does the EP accept these options? For an EP that ends the process over an option that it refuses. *answered is false if the check was not
   * possible. NULL: there is no check. */
  OrtStatus *(*ask)(const OrtApi *api, const char *const *keys, const char *const *values, size_t count, bool *answered);
  /* Add the EP to a session before another one (`before`), with these options. */
  OrtStatus *(*append)(const OrtApi *api, OrtSessionOptions *out, const char *const *keys, const char *const *values,
                       size_t count);
  const iobind__quirk *quirks;                /* ends with a bit of 0; NULL: none */
  const iobind__option_table *options;        /* NULL: none is known */
  const iobind__option_table *stream_options; /* of its streams, which the driver sets; NULL: they have none */
} iobind__ep;

extern const iobind__ep iobind__ep_cpu;
extern const iobind__ep iobind__ep_cuda;
extern const iobind__ep iobind__ep_tensorrt;
extern const iobind__ep iobind__ep_nvtensorrtrtx;
extern const iobind__ep iobind__ep_webgpu;
extern const iobind__ep iobind__ep_openvino;
extern const iobind__ep iobind__ep_dml;
extern const iobind__ep iobind__ep_qnn;
extern const iobind__ep iobind__ep_migraphx;
extern const iobind__ep iobind__ep_vitisai;
extern const iobind__ep iobind__ep_coreml;
extern const iobind__ep iobind__ep_ggml;
extern const iobind__ep iobind__ep_vdev;

/* ---- catalogue.c ---- */

const iobind__ep *iobind__ep_by_name(const char *name, size_t length); /* NULL: not in the catalogue */
/* The EP of an option "NAME.KEY"; NULL: "KEY". *rest: KEY. */
const iobind__ep *iobind__ep_of_option(const char *option, const char **rest);
const iobind__ep *iobind__ep_by_ep_name(const char *ep_name);
const iobind__ep *iobind__ep_meant(const char *text, size_t length); /* by either name, in upper or lower case */
const iobind__ep *iobind__ep_at(size_t index);                       /* NULL after the last */
const iobind__ep *iobind__ep_by_file(const char *file_name);         /* the last part of a path */

/* Is the text ORT's old name for an EP's pinned memory? */
const iobind__ep *iobind__ep_by_pinned(const char *text, size_t length);

/* The name of a kind of native handles; NULL: no EP has the kind. */
const char *iobind__ep_native_name(int32_t kind);

/* Is the key an option that captures graphs, or ORT's entry "ep.NAME.KEY" for one? */
bool iobind__ep_is_graph_option(const char *key);

/* The EP whose options place it before the devices of `ep`; NULL: none. */
const iobind__ep *iobind__ep_before(const iobind__ep *ep);

enum { IOBIND__EP_NAMES = 128 };

/* The names of those that capture graphs, for a message. */
void iobind__ep_list_capturing(char out[IOBIND__EP_NAMES]);

/* For a message about a device spec. */
#define IOBIND__SPEC_EXAMPLES "cpu, cuda:1, gpu, ep=NAME:0, vendor=0x10de, cuda/pinned"

/* Is `key` an option of the EP? If the catalogue lists no options for the EP, every key counts as known. OK with *known false:
 * it is accepted, because an EP can be newer than the catalogue; *near is a known key that is similar, or NULL.
 * INVALID_ARGUMENT: it differs from a known key only in upper and lower case. */
iobind_status iobind__ep_option_check(const iobind__ep *ep, const char *key, bool *known, const char **near,
                                      iobind_error *error);

/* ---- quirk.c ---- */

/* The quirks of an EP's devices in ORT 1.`release`, a sum of bits. `ep` is NULL for an EP that is not in the catalogue. */
uint32_t iobind__quirks_of(const iobind__ep *ep, uint32_t release, bool bridged);

/* The first release N of ORT 1.N without a quirk that the EP has in an older one; 0: none is known. */
uint32_t iobind__quirk_ends(const iobind__ep *ep, iobind__quirk_bit bit);

#endif
