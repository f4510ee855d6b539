/* The runtime, its EP libraries, devices; and what needs neither ORT nor memory, which the driver sees by counting. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "ort.h"
#include "scenario.h"

const OrtApiBase *OrtGetApiBase(void); /* the fake's */

/* ---- nothing can fail in these ---- */

/* Where to look is all that it does here: loading is tested with libraries made for it (unit.preload). */
static iobind_status preload_nothing(struct rig *rig) {
  iobind_preload_options options = IOBIND_PRELOAD_OPTIONS_INIT;
  options.flags = IOBIND_PRELOAD_NO_CUDA | IOBIND_PRELOAD_NO_CUDNN | IOBIND_PRELOAD_NO_MSVC;
  options.directory = "/";
  options.cuda = 13;
  return iobind_preload(&options, &rig->error);
}

static iobind_status say_version(struct rig *rig) {
  rig->number = iobind_get_version();
  return IOBIND_OK;
}

static iobind_status say_version_string(struct rig *rig) {
  rig->text = iobind_get_version_string();
  return IOBIND_OK;
}

static iobind_status say_status_name(struct rig *rig) {
  rig->text = iobind_status_get_name(IOBIND_ERROR_SHAPE);
  return IOBIND_OK;
}

static iobind_status get_ort(struct rig *rig) {
  iobind_ort ort = IOBIND_ORT_INIT;
  return iobind_runtime_get_ort(rig->runtime, &ort, &rig->error);
}

static iobind_status get_info(struct rig *rig) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  return iobind_runtime_get_info(rig->runtime, &info, &rig->error);
}

static iobind_status get_ep(struct rig *rig) {
  iobind_ep_info info = IOBIND_EP_INFO_INIT;
  return iobind_runtime_get_ep(rig->runtime, 0, &info, &rig->error);
}

static iobind_status get_device(struct rig *rig) {
  rig->found = iobind_runtime_get_device(rig->runtime, 0);
  return IOBIND_OK;
}

static iobind_status get_counters(struct rig *rig) {
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  return iobind_device_get_counters(rig->device, &counters, &rig->error);
}

static iobind_status trim(struct rig *rig) {
  return iobind_device_trim(rig->device, &rig->error);
}

static iobind_status get_memory(struct rig *rig) {
  iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
  return iobind_device_get_memory(rig->device, IOBIND_HOLDER_ANY, &usage, &rig->error);
}

/* ---- the runtime ---- */

static iobind_status create(struct rig *rig) {
  return rig_runtime(rig);
}

/* A tensor on the last of so many devices. */
static void works_with(struct rig *rig, size_t devices) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  NEED(rig, iobind_runtime_get_info(rig->runtime, &info, &rig->error));
  NEED_TRUE(info.device_count == devices);
  iobind_tensor *tensor = rig_floats(rig, iobind_runtime_get_device(rig->runtime, devices - 1), rig_ones, RIG_VALUES);
  rig_expect(rig, tensor, rig_ones, RIG_VALUES);
  iobind_tensor_release(tensor);
}

static void works(struct rig *rig) {
  works_with(rig, rig->place == ON_CPU ? 1 : 2);
}

static void works_with_vdev(struct rig *rig) {
  works_with(rig, 2);
}

static void make_first(struct rig *rig) {
  NEED(rig, rig_runtime(rig));
  rig->other = rig->runtime;
  rig->runtime = NULL;
}

static void is_the_same(struct rig *rig) {
  NEED_TRUE(rig->runtime == rig->other);
  works(rig);
}

static void set_environment(struct rig *rig) {
  (void)rig;
  char folder[600];
  setenv("ORT_NATIVE_LIB_PATH", rig_build_path("lib", folder, sizeof folder), 1);
  setenv("IOBIND_EP_LIBRARIES", rig_vdev_path(), 1);
}

static iobind_status create_by_environment(struct rig *rig) {
  return iobind_runtime_create(NULL, &rig->runtime, &rig->error);
}

static iobind_status create_with_software(struct rig *rig) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES | IOBIND_RUNTIME_NO_EP_SEARCH;
  return iobind_runtime_create(&options, &rig->runtime, &rig->error);
}

static iobind_status create_over_base(struct rig *rig) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  options.ort_api_base = OrtGetApiBase();
  return iobind_runtime_create(&options, &rig->runtime, &rig->error);
}

static void find_table(struct rig *rig) {
  rig->data = (void *)(uintptr_t)OrtGetApiBase()->GetApi(ORT_API_OLDEST);
}

static iobind_status create_over_table(struct rig *rig) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  options.ort_api = rig->data;
  return iobind_runtime_create(&options, &rig->runtime, &rig->error);
}

static iobind_status destroy(struct rig *rig) {
  iobind_runtime_destroy(rig->runtime);
  rig->runtime = NULL;
  return IOBIND_OK;
}

static iobind_status register_ep(struct rig *rig) {
  return iobind_runtime_register_ep(rig->runtime, NULL, rig_vdev_path(), &rig->error);
}

/* ---- devices ---- */

static iobind_status find_device(struct rig *rig) {
  return iobind_runtime_find_device(rig->runtime,
                                    rig->place == ON_VDEV  ? "vdev:0"
                                    : rig->place == ON_CPU ? "cpu"
                                                           : "ep=StrangeExecutionProvider",
                                    &rig->found, NULL, &rig->error);
}

static iobind_status find_on_demand(struct rig *rig) {
  return iobind_runtime_find_device(rig->runtime, "vdev", &rig->found, NULL, &rig->error);
}

static iobind_status find_by_kind(struct rig *rig) {
  return iobind_runtime_find_device(rig->runtime, "npu,vendor=0x1def,cpu", &rig->found, NULL, &rig->error);
}

static iobind_status get_device_info(struct rig *rig) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  iobind_status status = iobind_device_get_info(rig->device, &info, &rig->error);
  rig->text = info.memory_name;
  return status;
}

static void has_memory_name(struct rig *rig) {
  NEED_TRUE(rig->text[0] != '\0');
}

static iobind_status get_metadata(struct rig *rig) {
  return iobind_device_get_metadata(rig->device, 0, &rig->text, &rig->text_value, &rig->error);
}

static iobind_status check_device(struct rig *rig) {
  return iobind_device_check(rig->device, &rig->error);
}

const struct scenario runtime_scenarios[] = {
    {.function = "iobind_get_version", .variant = "", .places = ON_CPU, .call = say_version},
    {.function = "iobind_get_version_string", .variant = "", .places = ON_CPU, .call = say_version_string},
    {.function = "iobind_status_get_name", .variant = "", .places = ON_CPU, .call = say_status_name},
    {.function = "iobind_preload", .variant = "", .places = ON_CPU, .call = preload_nothing},
    {.function = "iobind_runtime_create",
     .variant = "",
     .places = ON_ALL,
     .bare = true,
     .call = create,
     .out = OUT(runtime),
     .right = works},
    {.function = "iobind_runtime_create",
     .variant = "again",
     .places = ON_ALL,
     .bare = true,
     .prepare = make_first,
     .call = create,
     .out = OUT(runtime),
     .right = is_the_same},
    {.function = "iobind_runtime_create",
     .variant = "by the environment",
     .places = ON_CPU,
     .bare = true,
     .prepare = set_environment,
     .call = create_by_environment,
     .out = OUT(runtime),
     .right = works_with_vdev},
    {.function = "iobind_runtime_create",
     .variant = "with software devices",
     .places = ON_CPU,
     .bare = true,
     .prepare = set_environment,
     .call = create_with_software,
     .out = OUT(runtime),
     .right = works},
    {.function = "iobind_runtime_create",
     .variant = "over a base",
     .places = ON_CPU,
     .bare = true,
     .call = create_over_base,
     .out = OUT(runtime),
     .right = works},
    {.function = "iobind_runtime_create",
     .variant = "over a table",
     .places = ON_CPU,
     .bare = true,
     .prepare = find_table,
     .call = create_over_table,
     .out = OUT(runtime),
     .right = works},
    {.function = "iobind_runtime_destroy", .variant = "", .places = ON_ALL, .call = destroy, .last = true},
    {.function = "iobind_runtime_get_info", .variant = "", .places = ON_CPU, .call = get_info},
    {.function = "iobind_runtime_get_ort", .variant = "", .places = ON_CPU, .call = get_ort},
    {.function = "iobind_runtime_register_ep", .variant = "", .places = ON_CPU, .call = register_ep, .right = works_with_vdev},
    {.function = "iobind_runtime_get_ep", .variant = "", .places = ON_VDEV, .call = get_ep},
    {.function = "iobind_runtime_get_device", .variant = "", .places = ON_CPU, .call = get_device},
    {.function = "iobind_runtime_find_device", .variant = "", .places = ON_ALL, .call = find_device, .out = OUT(found)},
    {.function = "iobind_runtime_find_device",
     .variant = "on demand",
     .places = ON_CPU,
     .call = find_on_demand,
     .out = OUT(found),
     .right = works_with_vdev},
    {.function = "iobind_runtime_find_device",
     .variant = "by kind",
     .places = ON_VDEV,
     .call = find_by_kind,
     .out = OUT(found)},
    {.function = "iobind_device_get_info", .variant = "", .places = ON_ALL, .call = get_device_info, .right = has_memory_name},
    {.function = "iobind_device_get_metadata", .variant = "", .places = ON_VDEV, .call = get_metadata},
    {.function = "iobind_device_check", .variant = "", .places = ON_ALL, .call = check_device},
    {.function = "iobind_device_get_counters", .variant = "", .places = ON_CPU, .call = get_counters},
    {.function = "iobind_device_get_memory", .variant = "", .places = ON_CPU, .call = get_memory},
    {.function = "iobind_device_trim", .variant = "", .places = ON_ALL, .call = trim},
    {.function = NULL},
};
