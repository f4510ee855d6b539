package io.github.iobind.api;

/**
 * Memory of a device that iobind has allocated. Memory that ONNX Runtime allocates is not included: weights, its arenas, the
 * results of runs.
 *
 * @param bytes now
 * @param count the current number of tensors and buffers
 * @param mostBytes the largest size since the runtime was created
 */
public record MemoryUsage(long bytes, long count, long mostBytes) {}
