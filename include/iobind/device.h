/** @file device.h
 *  Devices: how to find them, their properties and counters, and the options of their EPs. */
#ifndef IOBIND_DEVICE_H
#define IOBIND_DEVICE_H

/* clang-format off: laid out by hand, as a page to read */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A memory type of a device. A device and a memory type are a memory location. */
typedef enum iobind_memory {
  IOBIND_MEMORY_DEFAULT = 0,         /**< the memory that the device computes in */
  IOBIND_MEMORY_HOST_ACCESSIBLE = 1, /**< host memory that the device reads and writes directly: pinned memory on CUDA */
  IOBIND_MEMORY_FORCE32 = 0x7FFFFFFF
} iobind_memory;

typedef enum iobind_hardware {
  IOBIND_HARDWARE_CPU = 0,
  IOBIND_HARDWARE_GPU = 1,
  IOBIND_HARDWARE_NPU = 2,
  IOBIND_HARDWARE_FORCE32 = 0x7FFFFFFF
} iobind_hardware;

enum {
  IOBIND_DEVICE_HOST_MEMORY = 1u << 0,     /**< its default memory is plain host memory: no data cross a link */
  IOBIND_DEVICE_HOST_ACCESSIBLE = 1u << 1, /**< it has host-accessible memory */
  IOBIND_DEVICE_GPU_MEMORY = 1u << 2,      /**< its default memory is GPU memory, even if its hardware type is not GPU */
  IOBIND_DEVICE_NPU_MEMORY = 1u << 3,      /**< its default memory is NPU memory */
  IOBIND_DEVICE_ADDRESSABLE = 1u << 4,     /**< tensors have real addresses, so a view may begin at any offset */
  IOBIND_DEVICE_STREAMS = 1u << 5          /**< it has native streams; on other devices a stream is a thread of iobind */
};

typedef struct iobind_device_info {
  uint32_t struct_size;
  uint32_t flags;          /**< IOBIND_DEVICE_* */
  const char *spec;        /**< a spec that finds this device, such as "webgpu:0" */
  const char *ep_name;     /**< such as "WebGpuExecutionProvider" */
  const char *ep_vendor;   /**< the vendor of the EP, such as "Microsoft" */
  const char *vendor;      /**< the vendor of the hardware; may be "" */
  const char *memory_name; /**< ORT's name of the default memory, such as "WebGPU_Buf" */
  uint32_t vendor_id;      /**< PCI vendor id of the hardware; 0 if it has none */
  uint32_t device_id;      /**< PCI device id of the hardware */
  int32_t hardware;        /**< iobind_hardware, as the hardware reports it */
  uint32_t ordinal;        /**< N of "name:N" */
  size_t metadata_count;   /**< entries of iobind_device_get_metadata */
} iobind_device_info;
#define IOBIND_DEVICE_INFO_INIT {sizeof(iobind_device_info), 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0}

/** Get a device by index, 0 .. device_count - 1. Index 0 is always the CPU. The pointer remains valid as long as the runtime.
 *  @return the device; NULL if the index is out of range
 *  @threads any   @since 1.0 */
IOBIND_API iobind_device *iobind_runtime_get_device(const iobind_runtime *runtime, size_t index);

/** Find the first working device of a spec. A device works if a tiny session runs on it; iobind tries this once per device.
 *
 *  In a list of several entries a device with wrong results (iobind_device_check) is skipped, and a warning is logged. It is returned
 *  only if no other device of the list works. The results of a single entry, or of one with `?`, are not checked.
 *
 *  A spec is a list in order of preference, such as "cuda,webgpu,cpu". N counts matching devices from 0. The entries are:
 *  - `cpu`, `cuda[:N]`, `webgpu[:N]`, `dml[:N]`, `openvino[:N]`, `vdev[:N]` and the other names of the EP catalogue
 *  - `gpu[:N]`, `npu[:N]`: a device whose memory or hardware is a GPU or an NPU
 *  - `ep=NAME[:N]`: by ORT's EP name
 *  - `vendor=0xHHHH[:N]`: by PCI vendor id; never the CPU
 *  - any of these with the suffix `/pinned`: the device's host-accessible memory (`cuda_pinned` is an alias of `cuda/pinned`)
 *  - any of these followed by `?KEY=VALUE&KEY=VALUE`: the device is tried with these EP options, which some EPs need (`qnn`). They
 *    apply to this check only: set them in the session's options, too. Not for CUDA
 *  @param memory  receives the memory type; NULL: a spec with `/pinned` is an error
 *  @return OK; NOT_FOUND no device matches; WRONG_DEVICE no matching device works (the message has each reason); INVALID_ARGUMENT
 *  @threads any   @blocks yes: the first use of a device starts its driver   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_runtime_find_device(iobind_runtime *runtime, const char *spec,
                                                                 iobind_device **device, iobind_memory *memory,
                                                                 iobind_error *error);

/** Describe a device. The strings remain valid as long as the runtime.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_info(const iobind_device *device, iobind_device_info *info,
                                                             iobind_error *error);

/** Get a metadata entry of a device, as ORT provides it. The order is: the EP's entries, the hardware's, the EP's default options.
 *  The strings remain valid as long as the runtime.
 *  @param index  0 .. metadata_count - 1
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_metadata(const iobind_device *device, size_t index, const char **key,
                                                                 const char **value, iobind_error *error);

/** Check that a device works: run a tiny session on it, then a Conv, a MatMul and a ReduceSum whose results are known. This is done
 *  once; later calls return the same result.
 *  @return OK, also if the device refuses one of the three operators; WRONG_DEVICE the device does not work (the message has the
 *          reason); RESULT one of the three operators has a wrong result (the message names it); OUT_OF_MEMORY
 *  @threads any   @blocks yes, up to seconds the first time   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_check(iobind_device *device, iobind_error *error);

/** The bytes that iobind has moved and allocated on a device since the runtime was created. Copies made by ORT are not counted:
 *  - copies of a run without a binding, and copies between nodes
 *  - copies to an output that is bound elsewhere than the session leaves it; iobind_audit_create finds them */
typedef struct iobind_device_counters {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t upload_bytes;     /**< host to device */
  uint64_t upload_count;
  uint64_t download_bytes;   /**< device to host */
  uint64_t download_count;
  uint64_t local_bytes;      /**< within the device's memory */
  uint64_t local_count;
  uint64_t allocated_bytes;  /**< device and host-accessible memory that tensors of this device currently hold */
  uint64_t allocation_count; /**< total number of allocations */
} iobind_device_counters;
#define IOBIND_DEVICE_COUNTERS_INIT {sizeof(iobind_device_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Read the counters of a device.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_counters(const iobind_device *device, iobind_device_counters *counters,
                                                                 iobind_error *error);

/** The holder of device memory that iobind has allocated. */
typedef enum iobind_holder {
  IOBIND_HOLDER_ANY = 0,      /**< any of these */
  IOBIND_HOLDER_CALLER = 1,   /**< the caller: tensors that it created, or that a call returned */
  IOBIND_HOLDER_BINDING = 2,  /**< a binding: copies of LIVE and SNAPSHOT inputs, and buffers of carried states */
  IOBIND_HOLDER_GRAPH = 3,    /**< a captured graph: its outputs */
  IOBIND_HOLDER_PIPELINE = 4, /**< a pipeline: the inputs and outputs of its slots */
  IOBIND_HOLDER_STREAM = 5,   /**< a stream: its staging buffers, in host-accessible memory */
  IOBIND_HOLDER_FORCE32 = 0x7FFFFFFF
} iobind_holder;

typedef struct iobind_memory_usage {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t bytes;      /**< now */
  uint64_t count;      /**< tensors and buffers now */
  uint64_t most_bytes; /**< the maximum since the runtime was created */
} iobind_memory_usage;
#define IOBIND_MEMORY_USAGE_INIT {sizeof(iobind_memory_usage), 0, 0, 0, 0}

/** Get the amount of device memory that iobind has allocated, by holder: the sum of default and host-accessible memory. Memory that
 *  ORT allocates is not included: weights, its arenas, and the results of runs.
 *  @return OK; INVALID_ARGUMENT   @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_get_memory(const iobind_device *device, iobind_holder holder,
                                                               iobind_memory_usage *usage, iobind_error *error);

/** Return to the driver the memory that iobind's allocators of a device keep for later tensors. Then sessions and other processes
 *  can use it. Only pools (IOBIND_RUNTIME_POOLS, on CUDA) keep memory; on other devices the call has no effect. Memory of tensors, and
 *  memory that submitted work still uses, is not returned. An arena of a session is not affected: the run config entry
 *  "memory.enable_memory_arena_shrinkage" shrinks it after a run.
 *  @return OK, also if there is none; DEVICE_LOST; RUNTIME the driver refuses; INVALID_ARGUMENT
 *  @threads any   @blocks if another thread captures a graph, until that has ended; it does not wait for work of the device   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_device_trim(iobind_device *device, iobind_error *error);

/* ---- the catalogue of EPs: facts that are known without loading an EP -------------------------------------------------------- */

/** An EP of the catalogue. */
typedef struct iobind_catalogue_info {
  uint32_t struct_size;
  uint32_t on_demand;    /**< 1: its library is registered only if a spec names it */
  const char *name;      /**< in device specs, such as "webgpu" */
  const char *ep_name;   /**< ORT's name, such as "WebGpuExecutionProvider" */
  const char *source;    /**< how iobind knows its options; "" if it knows none */
  const char *releases;  /**< the product whose releases `since` of its options counts: "ONNX Runtime", "plugin" */
  size_t option_count;   /**< entries of iobind_catalogue_get_option */
  size_t conflict_count; /**< entries of iobind_catalogue_get_conflict */
} iobind_catalogue_info;
#define IOBIND_CATALOGUE_INFO_INIT {sizeof(iobind_catalogue_info), 0, NULL, NULL, NULL, NULL, 0, 0}

/** Get an EP of the catalogue. All strings of the catalogue have static lifetime.
 *  @param index  from 0 on
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_catalogue_get_ep(size_t index, iobind_catalogue_info *info, iobind_error *error);

typedef enum iobind_option_kind {
  IOBIND_OPTION_FLAG = 0,    /**< 0 or 1 */
  IOBIND_OPTION_INTEGER = 1,
  IOBIND_OPTION_NUMBER = 2,  /**< 0 or more, with a decimal point */
  IOBIND_OPTION_WORD = 3,    /**< one of a few words */
  IOBIND_OPTION_ADDRESS = 4, /**< as %p prints it, or decimal digits */
  IOBIND_OPTION_TEXT = 5,
  IOBIND_OPTION_KIND_FORCE32 = 0x7FFFFFFF
} iobind_option_kind;

/** An option of an EP. A string that does not apply is "". Only `preset` may be NULL. */
typedef struct iobind_option_info {
  uint32_t struct_size;
  int32_t kind;        /**< iobind_option_kind */
  const char *key;
  const char *preset;  /**< the value if the key is not set; NULL: unknown */
  const char *since;   /**< the first release that has it; "": all releases that iobind knows have it */
  const char *text;    /**< what it does */
  const char *refused; /**< the reason why only the preset is accepted */
  const char *needs;   /**< another key, without which this one has no effect */
  char range[160];     /**< the valid values, for a message or a table */
} iobind_option_info;
#define IOBIND_OPTION_INFO_INIT {sizeof(iobind_option_info), 0, NULL, NULL, NULL, NULL, NULL, NULL, {0}}

/** Get an option of an EP.
 *  @param ep     the catalogue's name, such as "cuda"
 *  @param index  0 .. option_count - 1
 *  @return OK; NOT_FOUND no such EP, or index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_catalogue_get_option(const char *ep, size_t index, iobind_option_info *info,
                                                                  iobind_error *error);

/** Two options that exclude each other. An option that is not set has its preset. A NULL value here means any value except the
 *  preset. */
typedef struct iobind_conflict_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char *key;
  const char *value;
  const char *other;
  const char *other_value;
  const char *reason;
} iobind_conflict_info;
#define IOBIND_CONFLICT_INFO_INIT {sizeof(iobind_conflict_info), 0, NULL, NULL, NULL, NULL, NULL}

/** Get a conflict: a pair of options that exclude each other.
 *  @param ep     the catalogue's name, such as "cuda"
 *  @param index  0 .. conflict_count - 1
 *  @return OK; NOT_FOUND no such EP, or index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_catalogue_get_conflict(const char *ep, size_t index, iobind_conflict_info *info,
                                                                    iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
