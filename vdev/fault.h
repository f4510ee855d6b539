/* Faults on demand: operations of a kind that fail, or that take longer. */
#ifndef VDEV_FAULT_H
#define VDEV_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a fault can strike. */
typedef enum vdev_site {
  VDEV_SITE_ALLOC,
  VDEV_SITE_PINNED,
  VDEV_SITE_COPY,
  VDEV_SITE_COMPUTE,
  VDEV_SITE_STREAM,
  VDEV_SITE_SESSION,
  VDEV_SITE_CAPTURE,
  VDEV_SITES
} vdev_site;

/* The n-th operation from now, or every n-th; only operations of that size or name count. */
typedef struct vdev_fault {
  int64_t countdown; /* 0: off */
  int64_t every;     /* 0: once */
  int64_t smallest;  /* bytes */
  int64_t largest;
  int64_t delay_ns;
  bool late;
  char name[128]; /* "": any */
} vdev_fault;

/* What faults do to an operation that is submitted. */
typedef struct vdev_effect {
  int64_t delay_ns;
  bool is_wrong;   /* it is done, and one element of what it writes is another one */
  bool fails_late; /* when its stream reaches it, after the call that submitted it has returned */
} vdev_effect;

/* What is known of an operation before it is done. */
typedef struct vdev_subject {
  vdev_site site;
  const char *what; /* for messages: "upload" */
  int64_t bytes;
  const char *const *names;
  size_t name_count;
} vdev_subject;

typedef struct vdev_faults {
  vdev_fault fail[VDEV_SITES];
  vdev_fault delay[VDEV_SITES];
  vdev_fault wrong; /* kernels */
  vdev_fault fatal; /* kernels */
} vdev_faults;

bool vdev_site_has_bytes(vdev_site site);
bool vdev_site_has_names(vdev_site site);

/* Reads "0"; or "N", "every:N" or "from:N" (the N-th and all later ones), then, separated by commas: "min:BYTES", "max:BYTES", "us:MICROSECONDS" (only a delay has it),
 * "late" (only a failure of work on streams), and last "name:NAME". False: it is not one of these, or operations of this kind cannot have it. */
bool vdev_fault_parse(const char *text, vdev_site site, bool is_delay, vdev_fault *fault);

/* Does the operation fail at once? Failures, delays and wrong results count it, so that none shifts another. An operation that fails
 * at once does not take longer. A fatal one ends the process. */
bool vdev_fault_strikes(vdev_faults *faults, const vdev_subject *subject, vdev_effect *effect);

/* The name of the setting that makes operations of this kind fail. */
const char *vdev_fault_name(vdev_site site);

#endif
