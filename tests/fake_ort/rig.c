#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_ort.h"
#include "model.h"
#include "objects.h"

char rig_case[256];
jmp_buf rig_left;
const float rig_ones[RIG_VALUES] = {1, 2, 3, 4};
const float rig_twos[RIG_VALUES] = {2, 4, 6, 8};
const int64_t rig_dims[1] = {RIG_VALUES};
const int64_t rig_three_dims[1] = {3};

_Noreturn void rig_stop(const char *what, const char *why) {
  printf("%s\n  %s: %s\n", rig_case, what, why);
  longjmp(rig_left, 1);
}

void rig_need(iobind_status status, const iobind_error *error, const char *call) {
  if (status != IOBIND_OK) {
    rig_stop(call, error->message);
  }
}

const char *rig_build_path(const char *below, char *path, size_t capacity) {
  NEED_TRUE(test_path(below, path, capacity));
  return path;
}

const char *rig_vdev_path(void) {
  static char path[600];
  return path[0] != '\0' ? path : rig_build_path("lib/libiobind_vdev.so", path, sizeof path);
}

/* ORT closes libraries with each runtime. Valgrind reads the symbols of a library each time that it is loaded, keeps the old ones, and gets
 * slower by it: these stay. */
static void keep_libraries(void) {
  static const char *const names[] = {"libiobind_vdev.so", "libonnxruntime_providers_shared.so"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    (void)dlopen(names[i], RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

iobind_status rig_runtime(struct rig *rig) {
  static char ort[600];
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  const char *const libraries[1] = {rig_vdev_path()};
  options.ort_library = rig_build_path("lib/libonnxruntime.so", ort, sizeof ort);
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  options.ep_libraries = libraries;
  options.ep_library_count = rig->place != ON_CPU;
  fake_ort_name_eps(rig->place == ON_STRANGE ? "StrangeExecutionProvider" : NULL);
  iobind_status status = iobind_runtime_create(&options, &rig->runtime, &rig->error);
  keep_libraries();
  return status;
}

void rig_open(struct rig *rig, rig_place place) {
  memset(rig, 0, sizeof *rig);
  rig->place = place;
  rig->error = (iobind_error)IOBIND_ERROR_INIT;
  NEED(rig, rig_runtime(rig));
  rig->cpu = iobind_runtime_get_device(rig->runtime, 0);
  rig->device = iobind_runtime_get_device(rig->runtime, place == ON_CPU ? 0 : 1);
  NEED_TRUE(rig->device != NULL);
}

void rig_close(struct rig *rig) {
  if (rig->end != NULL) {
    rig->end(rig);
  }
  iobind_pipeline_destroy(rig->pipeline);
  iobind_audit_destroy(rig->audit);
  iobind_batch_destroy(rig->batch);
  iobind_state_release(rig->state);
  iobind_binding_destroy(rig->binding);
  iobind_binding_destroy(rig->second_binding);
  for (size_t i = 0; i < RIG_TENSORS; i++) {
    iobind_tensor_release(rig->many[i]);
  }
  iobind_tensor_release(rig->x);
  iobind_tensor_release(rig->y);
  iobind_tensor_release(rig->result);
  iobind_event_destroy(rig->event);
  iobind_stream_destroy(rig->stream);
  iobind_stream_destroy(rig->second_stream);
  iobind_session_destroy(rig->session);
  iobind_semaphore_destroy(rig->semaphore);
  iobind_external_memory_destroy(rig->external);
  if (rig->file > 0) {
    close(rig->file);
  }
  iobind_runtime_destroy(rig->runtime);
  iobind_runtime_destroy(rig->other);
}

const void *rig_model(const char *model, size_t *bytes) {
  char text[TEST_MODEL_TEXT] = "";
  const void *made = test_model(model, bytes, text);
  if (made == NULL) {
    rig_stop(model, text);
  }
  return made;
}

void rig_session(struct rig *rig, const char *model) {
  NEED(rig, test_session(rig->runtime, rig->device, model, &rig->session, &rig->error));
}

void rig_binding(struct rig *rig, const char *model) {
  rig_session(rig, model);
  NEED(rig, iobind_binding_create(rig->session, &rig->binding, &rig->error));
}

iobind_tensor *rig_floats(struct rig *rig, iobind_device *device, const float *values, size_t count) {
  iobind_tensor *tensor = NULL;
  NEED(rig, test_floats(device, values, count, &tensor, &rig->error));
  return tensor;
}

iobind_tensor *rig_strings(struct rig *rig, const char *first, const char *second) {
  static const int64_t two = 2;
  iobind_tensor *tensor = NULL;
  NEED(rig, iobind_tensor_create(rig->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &two, 1, &tensor, &rig->error));
  NEED(rig, iobind_tensor_set_string(tensor, 0, first, &rig->error));
  NEED(rig, iobind_tensor_set_string(tensor, 1, second, &rig->error));
  return tensor;
}

void rig_expect(struct rig *rig, iobind_tensor *tensor, const float *values, size_t count) {
  char text[TEST_WHY];
  (void)rig;
  NEED_TRUE(tensor != NULL);
  if (test_floats_wrong(tensor, values, count, text) != NULL) {
    rig_stop("a tensor", text);
  }
}

void rig_expect_strings(struct rig *rig, iobind_tensor *tensor, const char *first, const char *second) {
  const char *const expected[2] = {first, second};
  for (size_t i = 0; i < 2; i++) {
    char got[64];
    size_t needed;
    NEED(rig, iobind_tensor_get_string(tensor, i, got, sizeof got, &needed, &rig->error));
    NEED_TRUE(needed == strlen(expected[i]) && memcmp(got, expected[i], needed) == 0);
  }
}
