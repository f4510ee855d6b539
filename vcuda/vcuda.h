/** @file vcuda.h
 *  vcuda's own interface: what a test wants to know and to change, which CUDA's has no call for. The functions are in vcuda's
 *  libcudart.so.13; a program that must run on real hardware too looks for them with dlsym, as vcuda/README.md shows.
 *
 *  All functions may be called from any thread. `device` is CUDA's number of a device. */
#ifndef VCUDA_H
#define VCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VCUDA_API __attribute__((visibility("default")))

/** Change a setting of a device while it runs: "race", "fail_copy", "delay_compute" ... (docs/vcuda.md has the list).
 *  @return 0; -1 no such device, setting or value @since 0.2 */
VCUDA_API int vcuda_set(int device, const char *name, const char *value);

/** Read a counter: "h2d_bytes", "launches", "syncs" ... (docs/vcuda.md has the list).
 *  @return the value; -1 no such device or counter @since 0.2 */
VCUDA_API int64_t vcuda_get(int device, const char *name);

/** Set the counters of a device to 0, except those of what is live. @return 0; -1 no such device @since 0.2 */
VCUDA_API int vcuda_reset(int device);

/** Wait for all work of a device and take back its sticky error, which on hardware only the end of the process does.
 *  @return the error that it had, as cudaError; -1 no such device @since 0.2 */
VCUDA_API int vcuda_recover(int device);

/** The text of the last race that the detector found, both accesses named; "" if none. The text belongs to the calling thread, until
 *  its next call. @since 0.2 */
VCUDA_API const char *vcuda_last_race(void);

/** The last line of the log, such as why a launch was refused; "" if none. The text belongs to the calling thread, until its next
 *  call. @since 0.2 */
VCUDA_API const char *vcuda_last_message(void);

/** Tell the race detector that the host touches pinned memory now: it sees every access but this one.
 *  @param write  1 if the host writes
 *  @return 0; -1 a race was found (it is counted, too) @since 0.2 */
VCUDA_API int vcuda_host_access(const void *data, size_t bytes, int write);

/** Make a semaphore that stands for another library's: a file descriptor that CUDA imports as a timeline semaphore (type 9), and owns then: give
 *  it a duplicate. @return the file descriptor; -1 it cannot be made @since 1.0 */
VCUDA_API int vcuda_semaphore_create(uint64_t value);

/** Raise such a semaphore, as that library would. @return 0; -1 it is none, or has that value already @since 1.0 */
VCUDA_API int vcuda_semaphore_signal(int file, uint64_t value);

/** The value of such a semaphore. @return it; -1 it is none @since 1.0 */
VCUDA_API int64_t vcuda_semaphore_get(int file);

/** Write what was traced so far as a Chrome trace (Perfetto opens it). @return 0; -1 the file cannot be written @since 0.2 */
VCUDA_API int vcuda_trace_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
