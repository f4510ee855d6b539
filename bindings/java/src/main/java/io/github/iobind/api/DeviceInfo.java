package io.github.iobind.api;

import java.util.Map;
import java.util.Set;

/**
 * The description of a device.
 *
 * @param spec identifies this device, such as "webgpu:0"
 * @param epName ONNX Runtime's name of its execution provider, such as "WebGpuExecutionProvider"
 * @param epVendor the vendor of the execution provider
 * @param vendor the vendor of the hardware; may be ""
 * @param memoryName ONNX Runtime's name of its memory, such as "WebGPU_Buf"
 * @param vendorId PCI vendor id of the hardware; 0: none
 * @param deviceId PCI device id of the hardware
 * @param hardware the type that the hardware reports
 * @param ordinal N of "name:N"
 * @param capabilities its capabilities
 * @param metadata metadata of the execution provider and the hardware
 */
public record DeviceInfo(DeviceSpec spec, String epName, String epVendor, String vendor, String memoryName, int vendorId,
    int deviceId, Hardware hardware, int ordinal, Set<Capability> capabilities, Map<String, String> metadata) {
  /** The type that the hardware reports. */
  public enum Hardware {
    /** A CPU, also if a software driver offers it as a GPU. */
    CPU,
    /** A GPU. */
    GPU,
    /** A neural processing unit. */
    NPU
  }

  /** A capability of a device; in the order of libiobind's flags. */
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
    /** It has native streams; on other devices a stream is a queue with a thread of iobind. */
    STREAMS
  }
}
