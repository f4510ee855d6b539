package io.github.iobind.api;

import java.util.Map;
import java.util.Set;

/**
 * What a device is.
 *
 * @param spec finds this device again, such as "webgpu:0"
 * @param epName ONNX Runtime's name of its execution provider, such as "WebGpuExecutionProvider"
 * @param epVendor who made the execution provider
 * @param vendor who made the hardware; may be ""
 * @param memoryName ONNX Runtime's name of its memory, such as "WebGPU_Buf"
 * @param vendorId PCI vendor id of the hardware, 0 where it has none
 * @param deviceId PCI device id of the hardware
 * @param hardware what the hardware says it is
 * @param ordinal N of "name:N"
 * @param capabilities what it can do
 * @param metadata what the execution provider and the hardware say of themselves
 */
public record DeviceInfo(DeviceSpec spec, String epName, String epVendor, String vendor, String memoryName, int vendorId,
    int deviceId, Hardware hardware, int ordinal, Set<Capability> capabilities, Map<String, String> metadata) {
  /** What the hardware says it is. */
  public enum Hardware {
    /** A CPU, also where a software driver offers it as a GPU. */
    CPU,
    /** A GPU. */
    GPU,
    /** A neural processing unit. */
    NPU
  }

  /** What a device can do; in the order of libiobind's flags. */
  public enum Capability {
    /** Its default memory is plain host memory: nothing crosses a link. */
    HOST_MEMORY,
    /** It has host-accessible ("pinned") memory. */
    HOST_ACCESSIBLE,
    /** Its default memory is GPU memory. */
    GPU_MEMORY,
    /** Its default memory is NPU memory. */
    NPU_MEMORY,
    /** Views at an offset work. */
    ADDRESSABLE,
    /** It has streams of its own; elsewhere a stream is a queue with a thread of iobind's. */
    STREAMS
  }
}
