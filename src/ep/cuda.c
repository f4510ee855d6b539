/* CUDA's EP: one of ORT's own, which ORT reaches by its bridge. A plugin of the same name has other rules. */
#include "ep/ep.h"
#include "ep/nvidia.h"
#include "iobind/interop.h"

static const char never_called[] =
    "the EP's library is registered, and ONNX Runtime then allocates by that library, which never calls it";

static const iobind__option options[] = {
    IOBIND__NVIDIA_DEVICE,
    {.key = "gpu_mem_limit",
     .kind = IOBIND__OPTION_WHOLE,
     .highest = UINT64_MAX,
     .preset = "18446744073709551615",
     .text = "bytes that the session's arena may hold; tensors of iobind are not in it"},
    {.key = "arena_extend_strategy",
     .kind = IOBIND__OPTION_WORD,
     .words = "kNextPowerOfTwo|kSameAsRequested",
     .preset = "kNextPowerOfTwo",
     .text = "by how much the arena grows: doubling, or what is asked for"},
    {.key = "do_copy_in_default_stream",
     .kind = IOBIND__OPTION_FLAG,
     .excludes_stream = true,
     .preset = "1",
     .text = "copy on the stream that computes; 0: on streams of their own, which loses order in some models"},
    IOBIND__NVIDIA_STREAM,
    {.key = "use_ep_level_unified_stream",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "0",
     .text = "one stream for all of the session instead of one for each thread that runs"},
    {.key = "enable_cuda_graph",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "0",
     .captures = true,
     .unused = iobind__graph_limit_instead,
     .text = "the first run runs twice, is then captured as a graph, and later runs replay it"},
    {.key = "cudnn_conv_algo_search",
     .kind = IOBIND__OPTION_WORD,
     .words = "EXHAUSTIVE|HEURISTIC|DEFAULT",
     .preset = "EXHAUSTIVE",
     .text = "how a convolution's plan is found: cuDNN's heuristics of mode B, of mode A, or its fallback"},
    {.key = "cudnn_conv_use_max_workspace",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "1",
     .text = "the search may use all memory that algorithms want; 0: at most 32 MB"},
    {.key = "cudnn_conv1d_pad_to_nc1d",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "0",
     .text = "pad a 1-D convolution to [N,C,1,D] instead of [N,C,D,1]"},
    {.key = "fuse_conv_bias",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "0",
     .text = "convolution, bias and activation in one call of cuDNN's frontend"},
    {.key = "prefer_nhwc", .kind = IOBIND__OPTION_FLAG, .preset = "0", .text = "run what can be with channels last"},
    {.key = "enable_cudnn",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "1",
     .since = "1.28",
     .text = "use cuDNN; 0: nodes that need it fail when they run"},
    {.key = "use_tf32",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "1",
     .text = "TF32 for products and convolutions of float32 on GPUs that have it"},
    {.key = "sdpa_kernel",
     .kind = IOBIND__OPTION_WHOLE,
     .lowest = INT32_MIN,
     .highest = INT32_MAX,
     .preset = "0",
     .text = "which attention kernels may be used, a sum of ONNX Runtime's bits; 0: as its variables say"},
    {.key = "enable_skip_layer_norm_strict_mode",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "0",
     .text = "SkipLayerNormalization more exact and slower; ONNX Runtime 1.28 and newer ignore it"},
    {.key = "tunable_op_enable", .kind = IOBIND__OPTION_FLAG, .preset = "0", .text = "use what tuning has found for products"},
    {.key = "tunable_op_tuning_enable",
     .kind = IOBIND__OPTION_FLAG,
     .preset = "0",
     .needs = "tunable_op_enable",
     .text = "tune products while running"},
    {.key = "tunable_op_max_tuning_duration_ms",
     .kind = IOBIND__OPTION_WHOLE,
     .highest = INT32_MAX,
     .preset = "0",
     .text = "most time to tune one product for; 0: no limit"},
    {.key = "external_data_loader_reading_threads",
     .kind = IOBIND__OPTION_WHOLE,
     .highest = 64,
     .preset = "4",
     .since = "1.31",
     .text = "threads that read weights from external files"},
    {.key = "gpu_external_alloc",
     .kind = IOBIND__OPTION_ADDRESS,
     .preset = "0",
     .unused = never_called,
     .text = "a function that allocates device memory"},
    {.key = "gpu_external_free",
     .kind = IOBIND__OPTION_ADDRESS,
     .preset = "0",
     .unused = never_called,
     .text = "a function that frees it"},
    {.key = "gpu_external_empty_cache",
     .kind = IOBIND__OPTION_ADDRESS,
     .preset = "0",
     .unused = never_called,
     .text = "a function that gives its cache back"},
};

static const iobind__option_pair pairs[] = {
    IOBIND__NVIDIA_PAIR,
    {"user_compute_stream", NULL, "do_copy_in_default_stream", "0", "copies would not be ordered with the stream"},
    {"fuse_conv_bias", "1", "prefer_nhwc", "0",
     "with channels first ONNX Runtime adds each result to the one before, so that all results but the first are wrong"},
};

static const iobind__option_table table = {
    .options = options,
    .count = sizeof options / sizeof options[0],
    .pairs = pairs,
    .pair_count = sizeof pairs / sizeof pairs[0],
    .releases = "ONNX Runtime",
    .source = "each was tried with ONNX Runtime 1.31.1, with good and bad values",
    .spelled = true,
};

static const iobind__option stream_options[] = {
    {.key = "priority",
     .kind = IOBIND__OPTION_WHOLE,
     .lowest = INT32_MIN,
     .highest = INT32_MAX,
     .preset = "0",
     .text = "of work on the stream; a lower number is a higher priority, and the device has the range"},
};

static const iobind__option_table stream_table = {
    .options = stream_options,
    .count = sizeof stream_options / sizeof stream_options[0],
    .source = "CUDA's documentation; not tried on a GPU",
};

static const iobind__quirk quirks[] = {
    {.bit = IOBIND__QUIRK_GATED},
    {.bit = IOBIND__QUIRK_REFUSES_RUN_STREAM, .only_bridged = true}, /* every node that uses cuBLAS */
    {.bit = IOBIND__QUIRK_REPLAY_WAITS, .last = 26, .only_bridged = true},
    {.bit = IOBIND__QUIRK_GRAPH_RECYCLES, .last = 30},
    {.bit = IOBIND__QUIRK_GRAPH_STAYS},
    {0},
};

/* ORT's older call returns an error where its call with a device ends the process. */
static OrtStatus *ask(const OrtApi *api, const char *const *keys, const char *const *values, size_t count, bool *answered) {
  OrtCUDAProviderOptionsV2 *asked = NULL;
  OrtStatus *refused = api->CreateCUDAProviderOptions(&asked);
  *answered = asked != NULL;
  if (asked != NULL) {
    refused = api->UpdateCUDAProviderOptions(asked, keys, values, count);
    api->ReleaseCUDAProviderOptions(asked);
  }
  return refused;
}

const iobind__ep iobind__ep_cuda = {
    .name = "cuda",
    .ep_name = "CUDAExecutionProvider",
    .library = "onnxruntime_providers_cuda",
    .pinned = "cuda_pinned",
    .driver = IOBIND__DRIVER_CUDA,
    .native = {IOBIND_NATIVE_CUDA, "CUDA", NULL},
    .addressable = true,
    .current_device = true,
    .streams = true,
    .bridged = true,
    .graph_option = "enable_cuda_graph",
    .stream_option = "user_compute_stream",
    .dlpack = {IOBIND__DL_CUDA, IOBIND__DL_CUDA_HOST, IOBIND__DL_CUDA_MANAGED},
    .ask = ask,
    .quirks = quirks,
    .options = &table,
    .stream_options = &stream_table,
};
