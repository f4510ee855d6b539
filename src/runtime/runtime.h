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

/* A memory location: a device and a kind of its memory. A session has its own if the EP shares no allocator, and the session
 * lends its. Each allocation there retains `owner`. */
typedef struct iobind__place {
  struct iobind_device *device;
  iobind_memory memory;
  const OrtMemoryInfo *info; /* belongs to `owner`; NULL: the device has no such memory */
  bool host;                 /* the host can read and write it */
  bool addressable;          /* addresses are real: a part of an allocation can be addressed */
  iobind__ref *owner;
  _Atomic(OrtAllocator *) allocator; /* looked up on first use */
} iobind__place;

/* Host memory that is not pinned: an EP's copies from or to it block the host. */
static inline bool iobind__place_is_pageable(const iobind__place *place) {
  return place->host && place->memory == IOBIND_MEMORY_DEFAULT;
}

/* The suffix of a device's name in messages: "cuda:0/pinned", as in a device spec. */
static inline const char *iobind__place_suffix(const iobind__place *place) {
  return place->memory == IOBIND_MEMORY_HOST_ACCESSIBLE ? "/pinned" : "";
}

enum { IOBIND__HOLDERS = IOBIND_HOLDER_STREAM + 1 };

/* Called if the device is lost, to fail its work in flight. */
typedef struct iobind__loss_hook {
  struct iobind__loss_hook *next;
  void (*lose)(struct iobind__loss_hook *hook, const iobind_error *reason); /* must not destroy anything */
} iobind__loss_hook;

typedef struct iobind__loss {
  atomic_bool is_lost;
  iobind_error reason; /* set before `is_lost`, and not changed after it */
  pthread_mutex_t mutex;
  iobind__loss_hook *hooks;
} iobind__loss;

/* The stored answer to a question that a device is asked only once. */
typedef struct iobind__answer {
  bool known;
  iobind_status status;
  iobind_error error;
} iobind__answer;

struct iobind_device {
  struct iobind_runtime *runtime;
  const OrtEpDevice *ep_device;
  const iobind__ep *ep;       /* the catalogue's row; NULL: the EP is not in it */
  iobind__driver_kind driver; /* of the row; ORT's if there is none */
  void *own;                  /* the driver's own data; NULL: none */
  iobind__ref *pool;          /* the driver's memory pool; NULL: none */
  iobind__place places[2];    /* indexed by iobind_memory */
  bool ours;                  /* iobind registered its EP library, and only iobind unregisters it */
  bool bridged;    /* its EP is behind ORT's bridge, see iobind__ep: its library is not a plugin, whatever its name */
  uint32_t quirks; /* bits of iobind__quirk_bit, for this release of ORT */
  const iobind__guard *guard; /* &own_guard; NULL: a call into its EP must hold nothing */
  iobind__guard own_guard;
  iobind__context *context; /* NULL: its EP does not use the current device */
  iobind__loss loss;
  uint32_t ordinal; /* its number among the devices of its EP */
  uint32_t flags;
  char *spec;
  pthread_mutex_t check_mutex; /* protects the two answers */
  iobind__answer works;
  iobind__answer computes;
  /* four bytes of device memory, allocated on first use: see memory/fence.c */
  _Atomic(OrtValue *) fence;
  struct {
    atomic_uint_least64_t upload_bytes, upload_count, download_bytes, download_count, local_bytes, local_count;
    atomic_uint_least64_t allocation_count;
  } counters;
  struct {
    atomic_uint_least64_t bytes, count, most_bytes;
  } memory[IOBIND__HOLDERS]; /* that iobind has allocated, indexed by iobind_holder */
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
  OrtAllocator *cpu_allocator; /* ORT's default allocator; never released */
  /* protects the lists below while they grow, and the lookup of allocators; entries never move or disappear */
  pthread_mutex_t mutex;
  pthread_mutex_t uses_mutex; /* protects the uses of tensors; no call into ORT or an EP is made with it held */
  iobind_device *cpu;         /* devices[0], which never changes */
  iobind_device **devices;
  size_t device_count;
  iobind__ep_library **ep_libraries;
  size_t ep_library_count;
  bool pools;                   /* allocate device memory from the driver's pools, if it has any */
  bool keeps_ort;               /* a device was lost: ORT's environment is not released, see iobind__guard_may_free */
  pthread_mutex_t serial_mutex; /* held in calls into an EP with the quirk SERIAL; recursive */
  struct iobind_runtime *next;  /* all runtimes of the process */
};

#define IOBIND__API(runtime) ((runtime)->ort.api)

/* Release a value inside a guard, if it may be freed there. */
static inline void iobind__value_release(const iobind_runtime *runtime, const iobind__guard *guard, OrtValue *value) {
  iobind__scope scope;
  if (iobind__guard_enter_to_free(guard, &scope)) {
    IOBIND__API(runtime)->ReleaseValue(value);
    iobind__guard_leave(&scope);
  }
}

/* `const` does not cover the mutex. In a forked child it is not locked: a thread of the parent may have held it, and the lists
 * do not change any more. */
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
/* Search for the library of an EP that is registered on demand. The search may find none. */
iobind_status iobind__runtime_demand_ep(iobind_runtime *runtime, const iobind__ep *ep, iobind_error *error);
void iobind__runtime_free_eps(iobind_runtime *runtime);

/* device.c */
iobind_status iobind__runtime_refresh_devices(iobind_runtime *runtime, iobind_error *reason); /* with the mutex held */
void iobind__runtime_free_devices(iobind_runtime *runtime);
size_t iobind__runtime_device_count(const iobind_runtime *runtime);

/* The memory location of a device, including the CPU, that one of ORT's memory infos describes; NULL if there is none. */
iobind__place *iobind__runtime_find_place(const iobind_runtime *runtime, const OrtMemoryInfo *info);
bool iobind__same_memory(const iobind_runtime *runtime, const OrtMemoryInfo *a, const OrtMemoryInfo *b);
iobind_device *iobind__runtime_find_ep_device(const iobind_runtime *runtime, const OrtEpDevice *ep_device);

/* Is the device's EP library still registered? A host program that shares ORT may unregister its own library, and the
 * allocators with it. Then the memory cannot be freed; this call logs that. */
bool iobind__device_is_registered(const iobind_device *device);
/* The same before a call that would reach the EP: WRONG_DEVICE if it is not registered. */
iobind_status iobind__device_check_registered(const iobind_device *device, iobind_error *error);

/* The file of a device's EP library; NULL if it is unknown. Valid as long as the runtime. */
const char *iobind__device_library(const iobind_device *device);

/* ---- account.c ---- */

void iobind__device_note_allocated(iobind_device *device, iobind_holder holder, size_t bytes);
void iobind__device_note_freed(iobind_device *device, iobind_holder holder, size_t bytes);
void iobind__device_note_handed(iobind_device *device, iobind_holder from, iobind_holder to, size_t bytes);

/* ---- lost.c: a device on which nothing works any more ---- */

static inline bool iobind__device_is_lost(const iobind_device *device) {
  return atomic_load_explicit(&device->loss.is_lost, memory_order_acquire);
}

/* Is the device lost with each failure of work in flight? Then a call that fails while the device still works has itself
 * failed. */
static inline bool iobind__device_keeps_failures(const iobind_device *device) {
  return device->context != NULL;
}

/* A call into the EP has failed. If the device does not work any more, it is lost, and this returns DEVICE_LOST; otherwise
 * `status`. Inside the guard. */
iobind_status iobind__device_heed(iobind_device *device, iobind_status status, iobind_error *error);

iobind_status iobind__loss_refuse(const iobind_device *device, iobind_error *error);
void iobind__loss_init(iobind__loss *loss);
void iobind__loss_destroy(iobind__loss *loss);
void iobind__loss_watch(iobind_device *device, iobind__loss_hook *hook);
void iobind__loss_unwatch(iobind_device *device, iobind__loss_hook *hook);

/* check.c: does the device work? Checked once. The reason of a failure names neither the device nor a function. */
iobind_status iobind__device_works(iobind_device *device, iobind_error *reason);

/* The same, and does it compute known answers? RESULT: it works, but computes wrong. Checked once. */
iobind_status iobind__device_computes(iobind_device *device, iobind_error *reason);

/* Options of the EP, for the check of whether a device works: an EP may need one to work. This answer is not stored. */
typedef struct iobind__device_options {
  const char **keys;
  const char **values;
  size_t count;
} iobind__device_options;
iobind_status iobind__device_works_with(iobind_device *device, const iobind__device_options *given, iobind_error *reason);

/* software.c */
void iobind__software_devices_enable(iobind_runtime *runtime);

#endif
