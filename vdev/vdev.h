/** @file vdev.h
 *  The native interface of the virtual accelerator: what ONNX Runtime's (ORT) own interface lacks, as a vendor's driver would
 *  offer it. Everything but streams and events can be had without these functions too: settings through EP options and the
 *  environment (VDEV_*), statistics through the allocator's stats.
 *
 *  All functions may be called from any thread. A function that can fail returns 0 for success; otherwise the reason is in
 *  vdev_last_error, which is the calling thread's own. A NULL, a stream or an event that was destroyed, or that of another library
 *  is such a failure. */
#ifndef VDEV_H
#define VDEV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(VDEV_BUILD)
#define VDEV_API __declspec(dllexport)
#elif defined(_WIN32)
#define VDEV_API __declspec(dllimport)
#else
#define VDEV_API __attribute__((visibility("default")))
#endif

typedef struct vdev_stream vdev_stream; /**< SyncStream_GetHandle of a stream of this EP returns a vdev_stream * too */
typedef struct vdev_event vdev_event;

/** Devices that the library offers. @since 0.1 */
VDEV_API int vdev_device_count(void);

/** Change a setting of a device while it runs: "race", "fail_copy", "clock" ... (docs/vdev.md has the list).
 *  @return 0; -1 unknown device or setting, or invalid value @since 0.1 */
VDEV_API int vdev_set(int device, const char *name, const char *value);

/** Read a statistic: "h2d_bytes", "h2d_count", "d2h_bytes", "d2h_count", "d2d_bytes", "d2d_count", "peer_bytes", "peer_count",
 *  "allocations", "live_bytes", "live_blocks", "peak_bytes", "pinned_bytes", "kernels", "races", "errors", "graph_captures",
 *  "graph_replays", "graph_launches", "h2d_ns", "d2h_ns", "d2d_ns", "kernels_ns", "clock_is_virtual", "time_ns".
 *  @return the value; -1 unknown device or statistic @since 0.1 */
VDEV_API int64_t vdev_get(int device, const char *name);

/** Set the statistics of a device to 0, but for what is live. @return 0; -1 the device does not exist @since 0.1 */
VDEV_API int vdev_reset(int device);

/** The text of the last race that the detector reported, both accesses named; "" if none. It is the calling thread's own until
 *  its next call. @since 0.1 */
VDEV_API const char *vdev_last_race(void);

/** Why this thread's last call failed; "" if none did. @since 0.1 */
VDEV_API const char *vdev_last_error(void);

/** Make a stream. @return NULL on failure @since 0.1 */
VDEV_API vdev_stream *vdev_stream_create(int device);
/** Wait for its work and destroy it; nothing happens if it is not a stream. @since 0.1 */
VDEV_API void vdev_stream_destroy(vdev_stream *stream);
/** Wait on the host for all that was submitted to it. @return 0; -1 some of it failed since the last wait; the stream works again @since 0.1 */
VDEV_API int vdev_stream_synchronize(vdev_stream *stream);
/** Let later work of the stream wait for an event. @since 0.1 */
VDEV_API int vdev_stream_wait(vdev_stream *stream, vdev_event *event);

/** Make an event; not recorded, which counts as passed. @return NULL on failure @since 0.1 */
VDEV_API vdev_event *vdev_event_create(int device);
/** Nothing happens if it is not an event. @since 0.1 */
VDEV_API void vdev_event_destroy(vdev_event *event);
/** Record it at the present end of a stream. @since 0.1 */
VDEV_API int vdev_event_record(vdev_event *event, vdev_stream *stream);
/** Wait on the host for it. @return 0; -1 the work before it failed @since 0.1 */
VDEV_API int vdev_event_wait(vdev_event *event);
/** @return 1 passed, which counts as a wait; 0 not yet; -1 not an event @since 0.1 */
VDEV_API int vdev_event_query(vdev_event *event);

/** Make a semaphore that several processes share: a value that only grows, in memory. Its file descriptor is given to another process
 *  (inherited, or sent over a socket), and imported by ORT's interop interface as a timeline semaphore of an opaque descriptor. Memory that
 *  processes share is any file of memory, as memfd_create makes one. Linux only.
 *  @return the descriptor, which is closed on exec and which the caller closes; -1 failed @since 0.2 */
VDEV_API int vdev_semaphore_create(uint64_t value);
/** Raise its value, from the host. @return 0; -1 not a semaphore, or its value is that or higher @since 0.2 */
VDEV_API int vdev_semaphore_signal(int file, uint64_t value);
/** Wait on the host until its value is `value` or higher. @param timeout_ns  -1: forever
 *  @return 1 it is; 0 timed out; -1 not a semaphore @since 0.2 */
VDEV_API int vdev_semaphore_wait(int file, uint64_t value, int64_t timeout_ns);

/** Tell the race detector that the host touches pinned memory now: the one access that the device cannot see.
 *  @param write  1 where the host writes
 *  @return 0; -1 a race was found and race=fail, or `data` is NULL and `bytes` not 0 @since 0.1 */
VDEV_API int vdev_host_access(const void *data, size_t bytes, int write);

/** Write what was traced so far as a Chrome trace (Perfetto opens it). @return 0; -1 the file cannot be written @since 0.1 */
VDEV_API int vdev_trace_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
