/* The settings of a device: from EP options, the environment (VDEV_NAME) and vdev_set. */
#ifndef VDEV_SETTINGS_H
#define VDEV_SETTINGS_H

#include "fault.h"

enum { VDEV_MAX_DEVICES = 8, VDEV_TEXT = 512 };
#define VDEV_LONGEST_NS ((int64_t)1000000000000000) /* of one step of the model: 11 days, so that sums do not overflow */

typedef enum vdev_race_mode { VDEV_RACE_OFF, VDEV_RACE_COUNT, VDEV_RACE_FAIL } vdev_race_mode;

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
  int64_t latency_ns;     /* of each copy over the link */
  int64_t compute_ns;     /* of each kernel */
  int64_t race;           /* vdev_race_mode */
  int64_t poison;         /* 1: fill memory on allocation and free */
  int64_t protect_pinned; /* 1: the host cannot touch pinned memory that streams use */
  int64_t drop_weights;   /* 1: constants are not uploaded to the device */
  int64_t graph_capture;  /* 1: sessions capture graphs */
  int64_t trace;          /* 1: keep what happens for vdev_trace_write */
  char metadata[256];     /* "key=value", separated by commas: further metadata of the devices */
  char deny[256];         /* operators that are not claimed, separated by commas */
  char trace_file[256];   /* written when the library is unregistered */
  char dump[256];         /* directory for copies of the nested models */
  vdev_faults faults;
} vdev_settings;

void vdev_settings_default(vdev_settings *settings);

/* Set one by its name. False: no such name, or a value that it cannot have; `reason` (VDEV_TEXT bytes) says which it can. */
bool vdev_settings_set(vdev_settings *settings, const char *name, const char *value, char *reason);

/* The same for a device that ORT knows already: settings that ORT has read are refused too. */
bool vdev_settings_change(vdev_settings *settings, const char *name, const char *value, char *reason);

/* Read VDEV_* from the environment. False: one of them is not a setting or has a wrong value; `reason` names it. */
bool vdev_settings_environment(vdev_settings *settings, char *reason);

/* The next "key=value" of `metadata`, cut out of `*at`, which moves on; false: no more. */
bool vdev_metadata_next(const char **at, char *key, char *value, size_t size);

#endif
