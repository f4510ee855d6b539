/* The rig of the tests of the virtual accelerator: ONNX Runtime (ORT) only through its own table, with the plugin
 * registered. libiobind has no part in it: any program could do the same. */
#ifndef TESTS_VDEV_RIG_H
#define TESTS_VDEV_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ort.h"
#include "vdev.h"

typedef struct rig_state {
  const OrtApiBase *base;
  const OrtApi *api;
  unsigned minor; /* 24 of ORT 1.24.4 */
  OrtEnv *env;
  OrtMemoryInfo *host;
  const OrtEpDevice *devices[8]; /* the virtual ones */
  size_t device_count;
} rig_state;
extern rig_state rig;

/* Register and unregister the plugin: a group's setup and teardown. Settings are VDEV_* until then, vdev_set afterwards. */
int rig_open(void **state);
int rig_close(void **state);

/* The next registration's name, and an entry of the environment's configuration for it (`key` NULL: none). rig_close forgets it. */
void rig_plan(const char *name, const char *key, const char *value);

/* Load ORT and register the plugin under a name; the status is the registration's, and the caller's. */
OrtStatus *rig_register(const char *name);

/* A call succeeded, or was refused by a message that contains `words`. */
#define ok(call) rig_ok((call), #call, __FILE__, __LINE__)
#define refused(words, call) rig_refused((call), words, #call, __FILE__, __LINE__)
void rig_ok(OrtStatus *status, const char *call, const char *file, int line);
void rig_refused(OrtStatus *status, const char *words, const char *call, const char *file, int line);

/* Change settings of device 0: pairs of name and value, then NULL. */
void rig_set(const char *name, const char *value, ...);

/* A statistic of device 0. */
int64_t rig_get(const char *name);

/* Tensors of float32 with one dim. */
OrtAllocator *rig_allocator(size_t device, bool pinned);
OrtValue *rig_device_tensor(size_t device, size_t count);
OrtValue *rig_pinned_tensor(size_t device, size_t count);
OrtValue *rig_host_tensor(float *data, size_t count);           /* over the caller's memory */
OrtValue *rig_view(size_t device, void *address, size_t count); /* over an address of the device, right or wrong */
void *rig_data(OrtValue *value);

/* The signal that touching an address from the host ends a process with; 0 for none. The touch is a child's. */
int rig_signal_of_touch(volatile unsigned char *address, bool write);

OrtStatus *rig_copy(OrtValue *source, OrtValue *target, OrtSyncStream *stream);
OrtSyncStream *rig_stream(size_t device);
vdev_stream *rig_native(OrtSyncStream *stream);

/* A session of a test model on a device; with an EP option, unless `key` is NULL. */
OrtSession *rig_session(const char *model, size_t device);
OrtStatus *rig_try_session(const char *model, size_t device, const char *key, const char *value, OrtSession **session);

/* A binding of the input x and one output. */
OrtIoBinding *rig_binding(OrtSession *session, OrtValue *input, const char *output_name, OrtValue *output);

/* Run what is bound: on a stream, without waiting for it; or (NULL) until it is done. */
OrtStatus *rig_run(OrtSession *session, OrtIoBinding *binding, OrtSyncStream *stream);

/* SynchronizeBoundOutputs. */
OrtStatus *rig_synchronize_outputs(OrtIoBinding *binding);

#define RIG_MAIN(cases)                                          \
  int main(int argc, char **argv) {                              \
    if (argc > 1) {                                              \
      cmocka_set_test_filter(argv[1]);                           \
    }                                                            \
    return cmocka_run_group_tests((cases), rig_open, rig_close); \
  }                                                              \
  _Static_assert(sizeof(cases) / sizeof((cases)[0]) > 0, "no test")

#endif
