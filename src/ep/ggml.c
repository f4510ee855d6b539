/* ggml's EP, a plugin of its own project. Its devices are in host memory. */
#include "ep/ep.h"

static const iobind__option options[] = {
    {.key = "device",
     .kind = IOBIND__OPTION_WORD,
     .words = "auto|gpu|cpu",
     .preset = "auto",
     .text = "which of ggml's backends computes"},
    {.key = "threads", .kind = IOBIND__OPTION_WHOLE, .highest = INT32_MAX, .text = "threads of the CPU backend"},
    {.key = "partial",
     .kind = IOBIND__OPTION_FLAG,
     .text = "1: take the nodes that ggml has, and leave the others to ONNX Runtime's CPU EP; 0: take all nodes or none"},
    {.key = "dump", .kind = IOBIND__OPTION_FLAG, .preset = "0", .text = "write what was made of the model"},
};

static const iobind__option_table table = {
    .options = options,
    .count = sizeof options / sizeof options[0],
    .releases = "plugin",
    .source = "the description of the package 0.2.0; it has more",
};

/* Two runs of a session at a time crash in ggml's allocator of graphs (0.2.0). */
static const iobind__quirk quirks[] = {
    {.bit = IOBIND__QUIRK_SERIAL},
    {0},
};

const iobind__ep iobind__ep_ggml = {
    .name = "ggml",
    .ep_name = "ggml",
    .library = "onnxruntime_ggml",
    .addressable = true,
    .quirks = quirks,
    .options = &table,
};
