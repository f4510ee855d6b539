/* The race detector: an access that no event or wait orders after an earlier, conflicting one is reported every time, whatever
 * the timing. Its records also tell which pinned memory the host must not touch. All with the lock held. */
#ifndef VDEV_RACE_H
#define VDEV_RACE_H

#include "device.h"

/* Memory that is read or written. */
typedef struct vdev_touched {
  const void *start;
  size_t bytes;
  bool write;
} vdev_touched;

/* An access of the host (`stream` NULL), or of the operation `what` that is being submitted to a stream. False if it races and the
 * device's mode is "fail"; then `reason` (VDEV_TEXT bytes) says why. */
bool vdev_race_access(vdev_device *device, const vdev_stream *stream, vdev_touched span, const char *what, char *reason);

/* Memory is freed: forget its accesses. */
void vdev_race_forget(const void *start, size_t bytes);

/* The host has waited: drop the accesses that are ordered before everything later. */
void vdev_race_prune(void);

/* Set each of `clocks` to the later one; `other` has this many agents. */
void vdev_clocks_join(uint64_t *clocks, const uint64_t *other, int agent_limit);

#endif
