package io.github.iobind.api;

import java.lang.foreign.MemorySegment;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;

/** Java arrays as memory, their type and length compared with a descriptor's. */
final class JavaArrays {
  private JavaArrays() {}

  /** The memory of an array of primitives or a buffer, which must fit the descriptor. */
  static MemorySegment segment(Object array, MemoryDescriptor descriptor) {
    MemorySegment segment = segment(array, descriptor.type());
    if (segment.byteSize() != descriptor.byteSize()) {
      throw new OrtFFMException(OrtStatus.SHAPE, "expected " + descriptor.byteSize() + " bytes for " + descriptor + ", got "
          + segment.byteSize());
    }
    return segment;
  }

  /** The memory of an array of primitives or a buffer, whose elements must be the type's. */
  static MemorySegment segment(Object array, OnnxTensorElementType type) {
    Class<?> component = switch (array) {
      case FloatBuffer b -> order(float.class, b.order());
      case DoubleBuffer b -> order(double.class, b.order());
      case LongBuffer b -> order(long.class, b.order());
      case IntBuffer b -> order(int.class, b.order());
      case ShortBuffer b -> order(short.class, b.order());
      case ByteBuffer b -> type.component(); // bytes of whatever type
      default -> array.getClass().componentType();
    };
    if (component == null || component != type.component()) {
      throw new OrtFFMException(OrtStatus.DTYPE, "expected " + expected(type) + " for " + type + ", got "
          + array.getClass().getTypeName());
    }
    return switch (array) {
      case float[] a -> MemorySegment.ofArray(a);
      case double[] a -> MemorySegment.ofArray(a);
      case long[] a -> MemorySegment.ofArray(a);
      case int[] a -> MemorySegment.ofArray(a);
      case short[] a -> MemorySegment.ofArray(a);
      case byte[] a -> MemorySegment.ofArray(a);
      default -> MemorySegment.ofBuffer((Buffer) array);
    };
  }

  private static Class<?> order(Class<?> component, ByteOrder order) {
    if (order == ByteOrder.nativeOrder()) return component;
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "expected a buffer in the machine's byte order, got " + order);
  }

  private static String expected(OnnxTensorElementType type) {
    return type.component() == null ? "strings, by writeStrings and readStrings," : type.component() + "[]";
  }

  /** The number of elements, as an array's length. */
  static int length(MemoryDescriptor descriptor) {
    return Math.toIntExact(descriptor.elementCount());
  }
}
