/** @file clock.h
 *  The clock that times a device's work: the host's, or the virtual accelerator's. */
#ifndef IOBIND_TOOL_CLOCK_H
#define IOBIND_TOOL_CLOCK_H

#include <iobind/iobind.h>
#include <stdint.h>

typedef struct tool_clock {
  int64_t (*read)(int device, const char *name); /**< the virtual accelerator's statistics; NULL: the host's clock */
  int device;                                    /**< the device's number there */
} tool_clock;

/** The clock that a device has now: EP options may change it when a session is created. */
tool_clock clock_of(const iobind_device *device);

/** Monotonic nanoseconds. On a virtual clock: the time up to which the host has waited. */
uint64_t clock_now(const tool_clock *clock);

/** How long the parts of the virtual accelerator were busy so far, in modelled nanoseconds. */
typedef struct clock_work {
  uint64_t upload, compute, download;
} clock_work;

/** All 0 on the host's clock. */
clock_work clock_read_work(const tool_clock *clock);

#endif
