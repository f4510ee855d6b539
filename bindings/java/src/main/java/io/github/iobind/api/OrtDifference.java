package io.github.iobind.api;

/**
 * How a value differs from the right one.
 *
 * @param beyond elements that differ by more than they may
 * @param first the index of the first of them, counted through all dims
 * @param absolute the largest difference; infinite where only one of two elements is finite
 * @param relative the same as a part of the right one
 */
public record OrtDifference(long beyond, long first, double absolute, double relative) {}
