/* What a scenario stands on. Each call under test gets a rig of its own: a runtime over the fake ORT, and what the scenario makes. */
#ifndef TESTS_FAKE_ORT_RIG_H
#define TESTS_FAKE_ORT_RIG_H

#include <setjmp.h>
#include <stdbool.h>

#include "iobind/interop.h"

/* ON_STRANGE: the virtual accelerator under a name that iobind's catalogue does not have. So its memory is taken to have no addresses,
 * its runs to be queued, and its streams are iobind's threads. */
typedef enum rig_place { ON_CPU = 1, ON_VDEV = 2, ON_STRANGE = 4, ON_ALL = 7 } rig_place;

enum { RIG_TENSORS = 20, RIG_VALUES = 4 };

/* Every object is destroyed by rig_close, whichever the scenario made. */
struct rig {
  rig_place place;
  iobind_runtime *runtime;
  iobind_runtime *other; /* a second reference */
  iobind_device *cpu;
  iobind_device *device; /* of the place */
  iobind_session *session;
  iobind_binding *binding;
  iobind_binding *second_binding;
  iobind_stream *stream;
  iobind_stream *second_stream;
  iobind_event *event;
  iobind_pipeline *pipeline;
  iobind_audit *audit;
  iobind_state *state;
  iobind_batch *batch;
  uint64_t slots[2];
  iobind_external_memory *external;
  iobind_semaphore *semaphore;
  int file;         /* of what is imported; 0: none is open */
  iobind_tensor *x; /* `ones`, unless a scenario says otherwise */
  iobind_tensor *y;
  iobind_tensor *result; /* what the call under test returns */
  iobind_tensor *many[RIG_TENSORS];
  iobind_device *found;
  iobind_tensor *found_tensor; /* borrowed */
  const char *text;
  const char *text_value;
  void *data;
  size_t number;
  int32_t done;
  float values[RIG_VALUES];
  void (*end)(struct rig *rig); /* what a scenario must do before its objects go; NULL: nothing */
  iobind_error error;           /* of the call under test */
};

extern const float rig_ones[RIG_VALUES]; /* 1 2 3 4 */
extern const float rig_twos[RIG_VALUES]; /* their doubles */
extern const int64_t rig_dims[1];        /* RIG_VALUES */
extern const int64_t rig_three_dims[1];  /* 3 */

extern char rig_case[256]; /* what is being tried, for the messages */

/* A scenario cannot go on: something that is to work does not. Says so and leaves it. */
_Noreturn void rig_stop(const char *what, const char *why);
extern jmp_buf rig_left; /* where to: the driver sets it */

/* Something that must work, such as what a scenario stands on. */
#define NEED(rig, call) rig_need((call), &(rig)->error, #call)
void rig_need(iobind_status status, const iobind_error *error, const char *call);
#define NEED_TRUE(condition) ((condition) ? (void)0 : rig_stop(#condition, "is false"))

const char *rig_build_path(const char *below, char *path, size_t capacity); /* a file of the build tree */

void rig_open(struct rig *rig, rig_place place); /* a runtime and its devices */
void rig_close(struct rig *rig);

iobind_status rig_runtime(struct rig *rig); /* only the runtime, as rig_open makes it */
const char *rig_vdev_path(void);            /* the file of the virtual accelerator */

/* A session of a test model, and a binding of it. */
void rig_session(struct rig *rig, const char *model);
void rig_binding(struct rig *rig, const char *model);
const void *rig_model(const char *model, size_t *bytes); /* lives until the program ends */

/* The model "strings": its input x, of strings, is itself an output; the other output y is a copy. */

iobind_tensor *rig_floats(struct rig *rig, iobind_device *device, const float *values, size_t count);
iobind_tensor *rig_strings(struct rig *rig, const char *first, const char *second);

/* The tensor holds these values. */
void rig_expect(struct rig *rig, iobind_tensor *tensor, const float *values, size_t count);
void rig_expect_strings(struct rig *rig, iobind_tensor *tensor, const char *first, const char *second);

#endif
