package io.github.iobind.api;

/**
 * Bytes that iobind has moved, and memory that it has allocated, on a device since the runtime was created. Data that ONNX
 * Runtime moves in a run are not included.
 *
 * @param uploadBytes host to device
 * @param uploadCount how often
 * @param downloadBytes device to host
 * @param downloadCount how often
 * @param localBytes within the device's memory
 * @param localCount how often
 * @param allocatedBytes device and host-accessible memory that tensors of this device currently occupy
 * @param allocationCount all allocations
 */
public record DeviceCounters(long uploadBytes, long uploadCount, long downloadBytes, long downloadCount, long localBytes,
    long localCount, long allocatedBytes, long allocationCount) {}
