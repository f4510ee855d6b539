/** @file vcuda.h
 *  vcuda's own interface: settings and counters for tests, for which CUDA has no calls. The functions are in vcuda's libcudart.so.13. A
 *  program that must also run on real hardware looks them up with dlsym, as vcuda/README.md shows.
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

/** Change a setting of a device at run time: "race", "fail_copy", "delay_compute" ... (docs/vcuda.md has the list).
 *  @return 0; -1 unknown device or setting, or invalid value @since 0.2 */
VCUDA_API int vcuda_set(int device, const char *name, const char *value);

/** Read a counter: "h2d_bytes", "launches", "syncs" ... (docs/vcuda.md has the list).
 *  @return the value; -1 unknown device or counter @since 0.2 */
VCUDA_API int64_t vcuda_get(int device, const char *name);

/** Set the counters of a device to 0, except those of live objects. @return 0; -1 the device does not exist @since 0.2 */
VCUDA_API int vcuda_reset(int device);

/** Wait for all work of a device and clear its sticky error. On hardware only the end of the process clears it.
 *  @return the error that it had, as cudaError; -1 the device does not exist @since 0.2 */
VCUDA_API int vcuda_recover(int device);

/** The text of the last race that the detector found, which names both accesses; "" if none. The text remains valid until the calling
 *  thread's next call of this function. @since 0.2 */
VCUDA_API const char *vcuda_last_race(void);

/** The last line of the log, such as why a launch was refused; "" if none. The text remains valid until the calling thread's next
 *  call of this function. @since 0.2 */
VCUDA_API const char *vcuda_last_message(void);

/** Tell the race detector that the host accesses pinned memory now. It sees all other accesses by itself.
 *  @param write  1 if the host writes
 *  @return 0; -1 a race was found, and counted @since 0.2 */
VCUDA_API int vcuda_host_access(const void *data, size_t bytes, int write);

/** Make a semaphore in place of another library's. CUDA imports the file descriptor as a timeline semaphore (type 9) and then owns it, so
 *  import a duplicate. @return the file descriptor; -1 it cannot be made @since 1.0 */
VCUDA_API int vcuda_semaphore_create(uint64_t value);

/** Signal such a semaphore, as that library would. @return 0; -1 `file` is not one, or has this value or a higher one @since 1.0 */
VCUDA_API int vcuda_semaphore_signal(int file, uint64_t value);

/** @return the value of such a semaphore; -1 `file` is not one @since 1.0 */
VCUDA_API int64_t vcuda_semaphore_get(int file);

/** Write the trace so far as a Chrome trace, which Perfetto opens. @return 0; -1 the file cannot be written @since 0.2 */
VCUDA_API int vcuda_trace_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
