/* DirectML's EP, inside of ORT's library. Each of iobind's devices is one adapter, and has no options. */
#include "ep/ep.h"
#include "iobind/interop.h"

static const iobind__option options[] = {
    {.key = "device_id", .kind = IOBIND__OPTION_WHOLE, .highest = 127, .preset = "0", .text = "which adapter, in DXGI's order"},
    {.key = "performance_preference",
     .kind = IOBIND__OPTION_WORD,
     .words = "default|high_performance|minimum_power",
     .preset = "default",
     .text = "which adapter, where no device_id is given"},
    {.key = "device_filter",
     .kind = IOBIND__OPTION_WORD,
     .words = "gpu|npu|any",
     .preset = "gpu",
     .text = "which kinds of devices"},
    {.key = "disable_metacommands",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .text = "no metacommands of the driver"},
    {.key = "enable_graph_capture",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .captures = true,
     .unused = iobind__graphs_unguarded,
     .text = "capture a run, and replay it"},
    {.key = "enable_graph_serialization",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .text = "write the compiled graph"},
    {.key = "enable_cpu_sync_spinning",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .text = "wait for the device by asking, not by sleeping"},
    {.key = "disable_memory_arena",
     .kind = IOBIND__OPTION_WORD,
     .words = IOBIND__SPELLED_FLAG,
     .preset = "false",
     .text = "no arena"},
};

static const iobind__option_table table = {
    .options = options,
    .count = sizeof options / sizeof options[0],
    .releases = "ONNX Runtime",
    .source = "ONNX Runtime's documentation and source; a device of iobind's is one adapter already, and takes none of them",
};

static const iobind__quirk quirks[] = {
    {.bit = IOBIND__QUIRK_QUEUES},
    {0},
};

const iobind__ep iobind__ep_dml = {
    .name = "dml",
    .ep_name = "DmlExecutionProvider",
    .driver = IOBIND__DRIVER_DIRECT3D,
    .native = {IOBIND_NATIVE_D3D12, "D3D12", NULL},
    .streams = true,
    .quirks = quirks,
    .options = &table,
};
