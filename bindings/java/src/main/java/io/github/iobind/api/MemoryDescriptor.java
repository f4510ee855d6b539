package io.github.iobind.api;

import java.util.Arrays;
import java.util.Objects;

/**
 * The element type and shape of a dense, row-major tensor. Immutable.
 *
 * @param type the element type
 * @param shape the dims, in elements, each 0 or more; none for a scalar, which has one element
 */
public record MemoryDescriptor(OnnxTensorElementType type, long... shape) {
  /** The maximum number of dims of a tensor. */
  public static final int MAX_RANK = 16;

  /**
   * A descriptor; the shape is copied.
   *
   * @throws OrtFFMException SHAPE: a negative dim, more than {@link #MAX_RANK} dims, or too many bytes
   */
  public MemoryDescriptor {
    Objects.requireNonNull(type, "type");
    shape = Objects.requireNonNull(shape, "shape").clone();
    if (shape.length > MAX_RANK) {
      throw new OrtFFMException(OrtStatus.SHAPE, "expected at most " + MAX_RANK + " dims, got " + shape.length);
    }
    for (long dim : shape) {
      if (dim < 0) throw new OrtFFMException(OrtStatus.SHAPE, "expected dims of 0 or more, got " + text(type, shape));
    }
    bytes(type, shape);
  }

  /**
   * A descriptor.
   *
   * @param type the element type
   * @param shape the dims; none for a scalar
   * @return the descriptor
   * @throws OrtFFMException SHAPE, as the constructor
   */
  public static MemoryDescriptor of(OnnxTensorElementType type, long... shape) {
    return new MemoryDescriptor(type, shape);
  }

  /**
   * The dims.
   *
   * @return a copy
   */
  @Override
  public long[] shape() {
    return shape.clone();
  }

  /** The dims themselves, which nobody may change. */
  long[] dims() {
    return shape;
  }

  /**
   * The number of dims.
   *
   * @return 0 for a scalar
   */
  public int rank() {
    return shape.length;
  }

  /**
   * The number of elements.
   *
   * @return the product of the dims; 1 for a scalar
   */
  public long elementCount() {
    return count(type, shape);
  }

  /**
   * The size of such a tensor in bytes; packed types are rounded up to a whole byte.
   *
   * @return bytes; 0 for strings
   */
  public long byteSize() {
    return bytes(type, shape);
  }

  private static long count(OnnxTensorElementType type, long[] shape) {
    for (long dim : shape) {
      if (dim == 0) return 0;
    }
    try {
      long count = 1;
      for (long dim : shape) count = Math.multiplyExact(count, dim);
      return count;
    } catch (ArithmeticException e) {
      throw new OrtFFMException(OrtStatus.SHAPE, text(type, shape) + ": the product of the dims exceeds 64 bits");
    }
  }

  private static long bytes(OnnxTensorElementType type, long[] shape) {
    long bits = type.bits(), count = count(type, shape);
    try {
      if (bits >= 8) return Math.multiplyExact(count, bits / 8);
    } catch (ArithmeticException e) {
      throw new OrtFFMException(OrtStatus.SHAPE, text(type, shape) + ": more elements than can be addressed");
    }
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
  }

  static String text(OnnxTensorElementType type, long[] shape) {
    return type + Arrays.toString(shape).replace(" ", "");
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof MemoryDescriptor that && type == that.type && Arrays.equals(shape, that.shape);
  }

  @Override
  public int hashCode() {
    return 31 * type.hashCode() + Arrays.hashCode(shape);
  }

  /** The form in messages, such as "float32[1,3,224,224]". */
  @Override
  public String toString() {
    return text(type, shape);
  }
}
