/* EPs of which iobind knows little more than the name. */
#include "ep/ep.h"

const iobind__ep iobind__ep_cpu = {.name = "cpu", .ep_name = "CPUExecutionProvider", .addressable = true};

const iobind__ep iobind__ep_qnn = {
    .name = "qnn", .ep_name = "QNNExecutionProvider", .library = "onnxruntime_providers_qnn", .addressable = true};

const iobind__ep iobind__ep_migraphx = {.name = "migraphx",
                                        .ep_name = "MIGraphXExecutionProvider",
                                        .library = "onnxruntime_providers_migraphx",
                                        .addressable = true,
                                        .dlpack = {IOBIND__DL_ROCM, IOBIND__DL_ROCM_HOST, 0}};

const iobind__ep iobind__ep_vitisai = {
    .name = "vitisai", .ep_name = "VitisAIExecutionProvider", .library = "onnxruntime_providers_vitisai", .addressable = true};

const iobind__ep iobind__ep_coreml = {.name = "coreml", .ep_name = "CoreMLExecutionProvider", .addressable = true};
