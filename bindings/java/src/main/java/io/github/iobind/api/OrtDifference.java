package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * How a value differs from its reference. An element of a floating-point type may differ by
 * {@code absolute + relative * |right|}; elements of other types must be equal. By default the limits depend on the type: for
 * float32 1e-4 and 1e-3. NaN equals NaN.
 *
 * @param beyond the number of elements beyond the limits
 * @param first the flat index of the first of them
 * @param absolute the largest difference; infinite if only one of two elements is finite
 * @param relative the largest difference relative to the reference
 */
public record OrtDifference(long beyond, long first, double absolute, double relative) {
  /**
   * Compares two values by the given limits; {@link OrtValueRef#compare} uses those of the type.
   *
   * @param value on the host
   * @param right the reference, of the same type and shape, on the host
   * @param absolute 0 or more
   * @param relative 0 or more
   * @return the difference
   * @throws OrtFFMException SHAPE, DTYPE: they differ; WRONG_DEVICE: a value is not on the host (use
   *     {@link OrtValueRef#copyTo}); INVALID_ARGUMENT: a limit is negative or NaN; the failure of work that writes one of them
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
