/* Settings of the environment (VCUDA_*) and of vcuda_set, faults and delays included. */
#ifndef VCUDA_SETTINGS_H
#define VCUDA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VCUDA_MAX_DEVICES = 8 };

/* The kinds of operations that can fail or be delayed. */
typedef enum vcuda_site {
  VCUDA_SITE_ALLOC,
  VCUDA_SITE_PINNED,
  VCUDA_SITE_COPY,
  VCUDA_SITE_COMPUTE,
  VCUDA_SITE_GRAPH,
  VCUDA_SITE_STREAM,
  VCUDA_SITE_EVENT,
  VCUDA_SITE_CAPTURE,
  VCUDA_SITE_CALL,
  VCUDA_SITES
} vcuda_site;

/* Fires at the n-th operation from now on, or at every n-th. Only operations of the given sizes and name count. */
typedef struct vcuda_trigger {
  int64_t countdown; /* 0: off */
  int64_t every;     /* 0: once */
  int64_t smallest;  /* bytes */
  int64_t largest;
  int64_t delay_ns;
  bool random; /* a delay of up to delay_ns */
  bool late;   /* the work fails after its call has returned, with a sticky error */
  char name[64];
} vcuda_trigger;

typedef struct vcuda_settings {
  /* read when the library starts */
  int64_t devices;
  int64_t memory;     /* bytes of a device */
  int64_t reserve;    /* bytes of address space of a device; 0: twice its memory */
  int64_t capability; /* 80: 8.0 */
  int64_t cudnn;      /* 90200: 9.2.0 */
  /* can be changed at any time */
  int64_t race; /* 0 off, 1 count, 2 fail */
  int64_t poison;
  int64_t late_copies;
  int64_t trace;
  int64_t seed; /* of random delays */
  vcuda_trigger fail[VCUDA_SITES];
  vcuda_trigger delay[VCUDA_SITES];
  vcuda_trigger wrong; /* kernels whose results are made wrong */
} vcuda_settings;

void vcuda_settings_default(vcuda_settings *settings);
bool vcuda_settings_set(vcuda_settings *settings, const char *name, const char *value, bool starting);
void vcuda_settings_read_environment(vcuda_settings *settings); /* an invalid value is logged and ignored */

/* Both count down. vcuda_trigger_names is for calls that a setting does not count by default: they fail only if the setting names them. */
bool vcuda_trigger_fails(vcuda_settings *settings, vcuda_site site, int64_t bytes, const char *name, bool late);
bool vcuda_trigger_names(vcuda_settings *settings, vcuda_site site, const char *name);
bool vcuda_trigger_falsifies(vcuda_settings *settings, int64_t bytes, const char *name);
int64_t vcuda_trigger_delay(vcuda_settings *settings, vcuda_site site, int64_t bytes, const char *name);

#endif
