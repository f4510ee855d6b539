/* The settings of a device: from EP options, the environment (VDEV_NAME) and vdev_set. */
#ifndef VDEV_SETTINGS_H
#define VDEV_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum vdev_race_mode { VDEV_RACE_OFF, VDEV_RACE_COUNT, VDEV_RACE_FAIL } vdev_race_mode;
typedef enum vdev_site {
  VDEV_FAIL_ALLOC,
  VDEV_FAIL_COPY,
  VDEV_FAIL_COMPUTE,
  VDEV_FAIL_STREAM,
  VDEV_FAIL_SESSION,
  VDEV_SITES
} vdev_site;

/* Fail one operation of a kind: the n-th from now, or every n-th; only those of `above` bytes or more. */
typedef struct vdev_fault {
  int64_t countdown; /* 0: off */
  int64_t every;     /* 0: once */
  int64_t above;
} vdev_fault;

typedef struct vdev_settings {
  int64_t devices;
  int64_t vendor_id;
  int64_t device_id;
  int64_t npu;       /* 1: the hardware type is NPU */
  int64_t mem_limit; /* bytes; 0: what is reserved */
  int64_t reserve;   /* bytes of address space */
  int64_t virtual_clock;
  int64_t upload_rate; /* bytes a second; 0: at once */
  int64_t download_rate;
  int64_t local_rate;
  int64_t latency_ns;   /* of each copy over the link */
  int64_t compute_ns;   /* of each kernel */
  int64_t race;         /* vdev_race_mode */
  int64_t poison;       /* 1: fill memory on allocation and free */
  int64_t drop_weights; /* 1: constants are not uploaded to the device */
  int64_t trace;        /* 1: keep what happens for vdev_trace_write */
  char deny[256];       /* operators that are not claimed, by comma */
  char trace_file[256]; /* written when the library is unregistered */
  char dump[256];       /* folder for the nested models */
  char fail_name[64];   /* fault only kernels whose first node has a type that begins so */
  vdev_fault faults[VDEV_SITES];
} vdev_settings;

void vdev_settings_default(vdev_settings *settings);

/* Set one by its name; false: no such name, or a value that it cannot take. */
bool vdev_settings_set(vdev_settings *settings, const char *name, const char *value);

/* The same for a device that ORT knows already: what it was told of it is refused too. */
bool vdev_settings_change(vdev_settings *settings, const char *name, const char *value);

/* Read VDEV_* from the environment. A variable that is wrong is reported through `complain`. */
void vdev_settings_environment(vdev_settings *settings, void (*complain)(const char *name, const char *value));

/* The name of a setting by its number; NULL after the last. */
const char *vdev_settings_name(size_t index);

/* Is this operation to fail? Counts down. */
bool vdev_fault_hits(vdev_settings *settings, vdev_site site, int64_t bytes);

#endif
