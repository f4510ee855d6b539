/* The race detector: an access that no event or wait orders behind an earlier, conflicting one is reported every time, whatever
 * the timing. What it keeps also tells which pinned memory the host has to stay off. All with the lock held. */
#ifndef VDEV_RACE_H
#define VDEV_RACE_H

#include "device.h"

/* An access of the host (`stream` NULL) or of the operation that is being submitted to a stream. False where it races and the
 * device's mode is "fail"; `reason` (VDEV_TEXT bytes) then says why. */
bool vdev_race_access(vdev_device *device, const vdev_stream *stream, const void *start, size_t bytes, bool write,
                      const char *what, char *reason);

/* Memory goes: its accesses are of no interest any more. */
void vdev_race_forget(const void *start, size_t bytes);

/* The host has waited: drop the accesses that everything later is behind. */
void vdev_race_prune(void);

/* Each of the two becomes the later one; `other` has so many agents. */
void vdev_clocks_join(uint64_t *clocks, const uint64_t *other, int agent_limit);

#endif
