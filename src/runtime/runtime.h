/* One loaded ORT: its environment, EP libraries and devices. */
#ifndef IOBIND_RUNTIME_RUNTIME_H
#define IOBIND_RUNTIME_RUNTIME_H

#include <pthread.h>

#include "ep/ep.h"
#include "ort/api.h"
#include "runtime/guard.h"
#include "runtime/log.h"
#include "support/process.h"
#include "support/ref.h"
#include "support/text.h"

/* A kind of memory of a device, or of a session that lends its allocator because the EP shares none. Every allocation there
 * keeps `owner` alive. */
typedef struct iobind__place {
  struct iobind_device *device;
  iobind_memory memory;
  const OrtMemoryInfo *info; /* belongs to `owner`; NULL: the device has no such memory */
  bool host;                 /* the host can read and write it */
  bool addressable;          /* an address inside an allocation is a real address */
  iobind__ref *owner;
  _Atomic(OrtAllocator *) allocator; /* found on first use */
} iobind__place;

/* Host memory that is not pinned: an EP that copies from or to it makes the host wait. */
static inline bool iobind__place_is_pageable(const iobind__place *place) {
  return place->host && place->memory == IOBIND_MEMORY_DEFAULT;
}

/* Follows the device in a message: "cuda:0/pinned", as in a device spec. */
static inline const char *iobind__place_suffix(const iobind__place *place) {
  return place->memory == IOBIND_MEMORY_HOST_ACCESSIBLE ? "/pinned" : "";
}

enum { IOBIND__HOLDERS = IOBIND_HOLDER_STREAM + 1 };

/* Work in flight on a device, which fails with it. */
typedef struct iobind__loss_hook {
  struct iobind__loss_hook *next;
  void (*lose)(struct iobind__loss_hook *hook, const iobind_error *reason); /* destroys nothing */
} iobind__loss_hook;

typedef struct iobind__loss {
  atomic_bool is_lost;
  iobind_error reason; /* does not change any more when it is */
  pthread_mutex_t mutex;
  iobind__loss_hook *hooks;
} iobind__loss;

/* What a device has answered to a question that it is asked once. */
typedef struct iobind__answer {
  bool known;
  iobind_status status;
  iobind_error error;
} iobind__answer;

struct iobind_device {
  struct iobind_runtime *runtime;
  const OrtEpDevice *ep_device;
  const iobind__ep *ep;       /* the catalogue's entry; NULL: not in it */
  iobind__driver_kind driver; /* the row's; ORT's without one */
  void *own;                  /* what the driver has for the device; NULL: nothing */
  iobind__ref *pool;          /* of the driver's, that its memory is allocated from; NULL: none */
  iobind__place places[2];    /* by iobind_memory */
  bool ours;                  /* iobind registered its EP library, and nobody else may unregister it */
  bool bridged;               /* the rules of iobind__ep's `bridged` hold: its library is not a plugin, whatever its name */
  uint32_t quirks;            /* a sum of iobind__quirk_bit, in this release of ORT */
  const iobind__guard *guard; /* `own_guard`; NULL: a call into its EP need not hold anything */
  iobind__guard own_guard;
  iobind__context *context; /* NULL: its EP does not ask for the current device */
  iobind__loss loss;
  uint32_t ordinal; /* its number among the devices of its EP */
  uint32_t flags;
  char *spec;
  pthread_mutex_t check_mutex; /* of the two answers */
  iobind__answer works;
  iobind__answer computes;
  /* four bytes of device memory: copying them to the host waits for a queued device; made on first use */
  _Atomic(OrtValue *) fence;
  struct {
    atomic_uint_least64_t upload_bytes, upload_count, download_bytes, download_count, local_bytes, local_count;
    atomic_uint_least64_t allocation_count;
  } counters;
  struct {
    atomic_uint_least64_t bytes, count, most_bytes;
  } memory[IOBIND__HOLDERS]; /* that iobind has allocated, by iobind_holder */
};

typedef struct iobind__ep_library {
  char *name;
  char *path;
  char *message;
  iobind_status status;
  bool ours; /* iobind has registered it, and so unregisters it */
} iobind__ep_library;

struct iobind_runtime {
  iobind__ref ref;
  iobind__ort ort;
  OrtEnv *env;
  iobind__log *log;
  OrtMemoryInfo *cpu_info;
  OrtAllocator *cpu_allocator; /* ORT's default one; never released */
  /* guards the lists below while they grow, and allocators while they are looked up; entries never move or disappear */
  pthread_mutex_t mutex;
  iobind_device *cpu; /* devices[0], which never changes */
  iobind_device **devices;
  size_t device_count;
  iobind__ep_library **ep_libraries;
  size_t ep_library_count;
  bool pools;                   /* memory of devices comes from their driver's pools, where it has any */
  bool keeps_ort;               /* a device was lost: ORT's environment cannot be freed, see iobind__guard_may_free */
  pthread_mutex_t serial_mutex; /* held while an EP with the quirk SERIAL works; recursive */
  struct iobind_runtime *next;  /* all runtimes of the process */
};

#define IOBIND__API(runtime) ((runtime)->ort.api)

/* The lock is not part of what const protects. In a forked child another thread of the parent may hold it forever; nothing
 * changes there any more, so it is not taken. */
static inline void iobind__runtime_lock(const iobind_runtime *runtime) {
  if (!iobind__process_is_forked()) {
    pthread_mutex_lock(&((iobind_runtime *)(uintptr_t)runtime)->mutex);
  }
}

static inline void iobind__runtime_unlock(const iobind_runtime *runtime) {
  if (!iobind__process_is_forked()) {
    pthread_mutex_unlock(&((iobind_runtime *)(uintptr_t)runtime)->mutex);
  }
}

static inline bool iobind__device_has(const iobind_device *device, iobind__quirk_bit quirk) {
  return (device->quirks & (uint32_t)quirk) != 0;
}

/* ep.c */
iobind_status iobind__runtime_register_given(iobind_runtime *runtime, const char *const *entries, size_t count,
                                             iobind_error *error);
iobind_status iobind__runtime_search_eps(iobind_runtime *runtime, iobind_error *error);
/* Look for the library of an EP that is registered on demand; it is not an error if there is none. */
iobind_status iobind__runtime_demand_ep(iobind_runtime *runtime, const iobind__ep *ep, iobind_error *error);
void iobind__runtime_free_eps(iobind_runtime *runtime);

/* device.c */
iobind_status iobind__runtime_refresh_devices(iobind_runtime *runtime, iobind_error *reason); /* with the mutex held */
void iobind__runtime_free_devices(iobind_runtime *runtime);
size_t iobind__runtime_device_count(const iobind_runtime *runtime);

/* The place that one of ORT's memory infos describes: a device's, or the CPU's; NULL if it is neither. */
iobind__place *iobind__runtime_find_place(const iobind_runtime *runtime, const OrtMemoryInfo *info);
bool iobind__same_memory(const iobind_runtime *runtime, const OrtMemoryInfo *a, const OrtMemoryInfo *b);
iobind_device *iobind__runtime_find_ep_device(const iobind_runtime *runtime, const OrtEpDevice *ep_device);

/* Whether the device is still ORT's: a host program that shares ORT may unregister an EP library of its own, whose allocators then
 * are gone. What it allocated cannot be freed; this says so in the log. */
bool iobind__device_is_registered(const iobind_device *device);
/* The same before a call that would reach the EP: a failure of status DEVICE. */
iobind_status iobind__device_check_registered(const iobind_device *device, iobind_error *error);

/* The file of the EP library that a device belongs to; NULL if it cannot be told. Lives as long as the runtime. */
const char *iobind__device_library(const iobind_device *device);

/* ---- account.c ---- */

void iobind__device_note_allocated(iobind_device *device, iobind_holder holder, size_t bytes);
void iobind__device_note_freed(iobind_device *device, iobind_holder holder, size_t bytes);
void iobind__device_note_handed(iobind_device *device, iobind_holder from, iobind_holder to, size_t bytes);

/* ---- lost.c: a device on which nothing works any more ---- */

static inline bool iobind__device_is_lost(const iobind_device *device) {
  return atomic_load_explicit(&device->loss.is_lost, memory_order_acquire);
}

/* Does a failure of work in flight stay with the device, and is the device lost with it? Then a call that fails while the device works has
 * failed itself. */
static inline bool iobind__device_keeps_failures(const iobind_device *device) {
  return device->context != NULL;
}

/* Fail all that is in flight, and refuse what comes. `why` is the first failure. The caller holds no lock of a stream. */
void iobind__device_lose(iobind_device *device, const char *why);

/* A call into the EP has failed: with the device? Then it is lost, and the status DEVICE_LOST; otherwise `status`. Inside. */
iobind_status iobind__device_heed(iobind_device *device, iobind_status status, iobind_error *error);

iobind_status iobind__loss_refuse(const iobind_device *device, iobind_error *error);
void iobind__loss_init(iobind__loss *loss);
void iobind__loss_destroy(iobind__loss *loss);
void iobind__loss_watch(iobind_device *device, iobind__loss_hook *hook);
void iobind__loss_unwatch(iobind_device *device, iobind__loss_hook *hook);

/* check.c: does the device work? Tried once. The reason of a failure names neither the device nor a function: the caller
 * does. */
iobind_status iobind__device_works(iobind_device *device, iobind_error *reason);

/* The same, and does it give known answers? RESULT: it works, and computes wrong. Tried once. */
iobind_status iobind__device_computes(iobind_device *device, iobind_error *reason);

/* The first with options of the EP, tried in each call: an EP may need one to work. */
typedef struct iobind__device_options {
  const char **keys;
  const char **values;
  size_t count;
} iobind__device_options;
iobind_status iobind__device_works_with(iobind_device *device, const iobind__device_options *given, iobind_error *reason);

/* software.c */
void iobind__software_devices_enable(iobind_runtime *runtime);

#endif
