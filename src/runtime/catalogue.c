#include "runtime/catalogue.h"

#include <stdint.h>
#include <string.h>

#include "support/text.h"

static const iobind__ep catalogue[] = {
    {.name = "cpu", .ep_name = "CPUExecutionProvider", .addressable = true},
    {.name = "cuda",
     .ep_name = "CUDAExecutionProvider",
     .library = "onnxruntime_providers_cuda",
     .addressable = true,
     .streams = true,
     .refuses_run_stream = true,
     .gated = true,
     .current_device = true,
     .graph_option = "enable_cuda_graph",
     .graph_recycled_before = 31,
     .graphs_stay = true,
     .bridged = true,
     .options = &iobind__cuda_options},
    {.name = "tensorrt",
     .ep_name = "TensorrtExecutionProvider",
     .addressable = true,
     .current_device = true,
     .bridged = true,
     .options = &iobind__tensorrt_options},
    {.name = "nvtensorrtrtx",
     .ep_name = "NvTensorRTRTXExecutionProvider",
     .library = "onnxruntime_providers_nv_tensorrt_rtx",
     .addressable = true,
     .current_device = true,
     .options = &iobind__nvtensorrtrtx_options},
    {.name = "webgpu",
     .ep_name = "WebGpuExecutionProvider",
     .library = "onnxruntime_providers_webgpu",
     .queued = true,
     .serial = true,
     .graph_option = "enableGraphCapture",
     .graph_loses_copies = true,
     .options = &iobind__webgpu_options},
    {.name = "openvino",
     .ep_name = "OpenVINOExecutionProvider",
     .library = "onnxruntime_providers_openvino_plugin",
     .addressable = true,
     .options = &iobind__openvino_options},
    {.name = "dml",
     .ep_name = "DmlExecutionProvider",
     .queued = true,
     .streams = true,
     .direct3d = true,
     .options = &iobind__dml_options},
    {.name = "qnn", .ep_name = "QNNExecutionProvider", .library = "onnxruntime_providers_qnn", .addressable = true},
    {.name = "migraphx",
     .ep_name = "MIGraphXExecutionProvider",
     .library = "onnxruntime_providers_migraphx",
     .addressable = true},
    {.name = "vitisai", .ep_name = "VitisAIExecutionProvider", .library = "onnxruntime_providers_vitisai", .addressable = true},
    {.name = "coreml", .ep_name = "CoreMLExecutionProvider", .addressable = true},
    {.name = "vdev",
     .ep_name = "VirtualDeviceExecutionProvider",
     .library = "iobind_vdev",
     .addressable = true,
     .streams = true,
     .gated = true,
     .graph_option = "enable_graph_capture",
     .graph_since = 26,
     .on_demand = true,
     .options = &iobind__vdev_options},
};
enum { CATALOGUE_SIZE = sizeof catalogue / sizeof catalogue[0] };

const iobind__ep *iobind__ep_at(size_t index) {
  return index < CATALOGUE_SIZE ? &catalogue[index] : NULL;
}

const iobind__ep *iobind__ep_by_name(const char *name, size_t length) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (strlen(catalogue[i].name) == length && memcmp(catalogue[i].name, name, length) == 0) {
      return &catalogue[i];
    }
  }
  return NULL;
}

const iobind__ep *iobind__ep_by_ep_name(const char *ep_name) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (strcmp(catalogue[i].ep_name, ep_name) == 0) {
      return &catalogue[i];
    }
  }
  return NULL;
}

bool iobind__ep_is_graph_option(const char *key) {
  const char *dot = strrchr(key, '.');
  bool is = iobind__text_same_letters("trt_cuda_graph_enable", key);
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    const char *option = catalogue[i].graph_option;
    is = is || (option != NULL && iobind__text_same_letters(option, dot == NULL ? key : dot + 1));
  }
  return is;
}

/* "libSTEM.so", "libSTEM.dylib" or "STEM.dll" */
static bool is_file_of(const char *file_name, const char *stem) {
  const char *name = strncmp(file_name, "lib", 3) == 0 ? file_name + 3 : file_name;
  size_t length = strlen(stem);
  if (strncmp(name, stem, length) != 0) {
    return false;
  }
  const char *ending = name + length;
  return strcmp(ending, ".so") == 0 || strcmp(ending, ".dylib") == 0 || strcmp(ending, ".dll") == 0;
}

const iobind__ep *iobind__ep_by_file(const char *file_name) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (catalogue[i].library != NULL && is_file_of(file_name, catalogue[i].library)) {
      return &catalogue[i];
    }
  }
  return NULL;
}

/* Edits (insert, delete, replace) that turn a key into a known one; FAR if there are more than a typing error makes. */
enum { LONGEST_KEY = 64, SLIP = 2, FAR = SLIP + 1 };

static size_t distance(const char *key, const char *known) {
  size_t row[LONGEST_KEY + 1];
  size_t columns = strlen(known);
  size_t length = strlen(key);
  if (columns > LONGEST_KEY || length > columns + SLIP || columns > length + SLIP) {
    return FAR;
  }
  for (size_t j = 0; j <= columns; j++) {
    row[j] = j;
  }
  for (size_t i = 1; i <= length; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= columns; j++) {
      size_t replace = diagonal + (key[i - 1] != known[j - 1]);
      diagonal = row[j];
      size_t insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = replace < insert ? replace : insert;
    }
  }
  return row[columns] < FAR ? row[columns] : FAR;
}

iobind_status iobind__ep_option_check(const iobind__ep *ep, const char *key, bool *known, const char **near,
                                      iobind_error *error) {
  const iobind__option_table *table = ep == NULL ? NULL : ep->options;
  *known = table == NULL || iobind__option_find(table, key) != NULL;
  *near = NULL;
  size_t best = FAR;
  for (size_t i = 0; !*known && i < table->count; i++) {
    const char *other = table->options[i].key;
    size_t edits = iobind__text_same_letters(other, key) ? 0 : distance(key, other);
    if (edits < best) {
      best = edits;
      *near = other;
    }
  }
  if (best > 0) {
    return IOBIND_OK;
  }
  return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "session_create: EP option '%.*s' of %s is not known: is '%s' meant?",
                      LONGEST_KEY, key, ep->name, *near);
}
