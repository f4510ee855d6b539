package io.github.iobind.api;

/**
 * Memory of a device that iobind has allocated. What ONNX Runtime allocates is not in it: weights, its arenas, the results of runs.
 *
 * @param bytes now
 * @param count tensors and buffers now
 * @param mostBytes the most at one time since the runtime was made
 */
public record MemoryUsage(long bytes, long count, long mostBytes) {}
