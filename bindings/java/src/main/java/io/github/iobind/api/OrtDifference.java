package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * How a value differs from the right one. An element of a floating-point type may differ by {@code absolute + relative * |right|}, one of
 * another type not at all. Without limits they go by the type: for float32 1e-4 and 1e-3. NaN equals NaN.
 *
 * @param beyond elements that differ by more than they may
 * @param first the index of the first of them, counted through all dims
 * @param absolute the largest difference; infinite where only one of two elements is finite
 * @param relative the same as a part of the right one
 */
public record OrtDifference(long beyond, long first, double absolute, double relative) {
  /**
   * The difference of a value by limits; {@link OrtValueRef#compare} has those of its type.
   *
   * @param value on the host
   * @param right what counts as right: of the same type and shape, on the host
   * @param absolute 0 or more
   * @param relative 0 or more
   * @return the difference
   * @throws OrtFFMException SHAPE, DTYPE: they have others; WRONG_DEVICE: one is not on the host, where {@link OrtValueRef#copyTo} brings it;
   *     INVALID_ARGUMENT: a limit that is negative or NaN; what the work that writes one of them failed with
   */
  public static OrtDifference between(OrtValueRef value, OrtValueRef right, double absolute, double relative) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment tolerance = arena.allocate(Layouts.TOLERANCE);
      Layouts.setDouble(tolerance, Layouts.TOLERANCE, "absolute", absolute);
      Layouts.setDouble(tolerance, Layouts.TOLERANCE, "relative", relative);
      return between(value, right, tolerance);
    }
  }

  static OrtDifference between(OrtValueRef value, OrtValueRef right, MemorySegment tolerance) {
    MemorySegment[] memory = Hold.arenas(new MemorySegment[] {value.backing(), right.backing()});
    try (Scratch scratch = Scratch.take()) {
      long address = value.enter();
      try {
        long rightAddress = right.enter();
        try {
          MemorySegment found = scratch.struct(Layouts.DIFFERENCE);
          OrtStreamFFM.copy(null, memory,
              () -> scratch.check(Iobind.tensorCompare(address, rightAddress, tolerance, found, scratch.error())));
          return of(found);
        } finally {
          right.exit();
        }
      } finally {
        value.exit();
      }
    }
  }

  private static OrtDifference of(MemorySegment found) {
    return new OrtDifference(Layouts.getLong(found, Layouts.DIFFERENCE, "beyond"), Layouts.getLong(found, Layouts.DIFFERENCE, "first"),
        Layouts.getDouble(found, Layouts.DIFFERENCE, "absolute"), Layouts.getDouble(found, Layouts.DIFFERENCE, "relative"));
  }
}
