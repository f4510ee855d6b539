package io.github.iobind.api;

/**
 * What iobind itself moved and allocated on a device since the runtime was made. What ONNX Runtime moves inside a run is not in
 * it.
 *
 * @param uploadBytes host to device
 * @param uploadCount how often
 * @param downloadBytes device to host
 * @param downloadCount how often
 * @param localBytes within the device's memory
 * @param localCount how often
 * @param allocatedBytes device and host-accessible memory that tensors of this device hold now
 * @param allocationCount allocations ever made
 */
public record DeviceCounters(long uploadBytes, long uploadCount, long downloadBytes, long downloadCount, long localBytes,
    long localCount, long allocatedBytes, long allocationCount) {}
