/* OpenVINO's EP. */
#include "ep/ep.h"

static const iobind__option options[] = {
    {.key = "device_type",
     .kind = IOBIND__OPTION_TEXT,
     .text = "CPU, GPU, GPU.1, NPU, AUTO:GPU,CPU ...; the device of the session sets it"},
    {.key = "precision", .kind = IOBIND__OPTION_TEXT, .text = "FP32, FP16 or ACCURACY"},
    {.key = "num_of_threads",
     .kind = IOBIND__OPTION_WHOLE,
     .highest = INT32_MAX,
     .text = "threads of the CPU device; 0: OpenVINO chooses"},
    {.key = "num_streams", .kind = IOBIND__OPTION_WHOLE, .highest = INT32_MAX, .text = "streams of the device"},
    {.key = "cache_dir", .kind = IOBIND__OPTION_TEXT, .preset = "", .text = "directory of compiled models"},
    {.key = "load_config",
     .kind = IOBIND__OPTION_TEXT,
     .preset = "",
     .text = "JSON file, or JSON, with OpenVINO's own settings"},
    {.key = "model_priority",
     .kind = IOBIND__OPTION_WORD,
     .words = "LOW|MEDIUM|HIGH|DEFAULT",
     .preset = "DEFAULT",
     .text = "which model goes first where several wait"},
    {.key = "enable_qdq_optimizer",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .text = "another order of quantization nodes for the NPU"},
    {.key = "disable_dynamic_shapes",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .text = "compile again for each new shape"},
    {.key = "enable_opencl_throttling",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .text = "less load of the CPU while the GPU works"},
    {.key = "reshape_input", .kind = IOBIND__OPTION_TEXT, .preset = "", .text = "shapes to compile for: name[1,3,60..80]"},
    {.key = "layout", .kind = IOBIND__OPTION_TEXT, .preset = "", .text = "layouts of inputs and outputs: name[NCHW]"},
};

static const iobind__option_table table = {
    .options = options,
    .count = sizeof options / sizeof options[0],
    .releases = "plugin",
    .source = "ONNX Runtime's documentation; not run",
};

const iobind__ep iobind__ep_openvino = {
    .name = "openvino",
    .ep_name = "OpenVINOExecutionProvider",
    .library = "onnxruntime_providers_openvino_plugin",
    .addressable = true,
    .options = &table,
};
