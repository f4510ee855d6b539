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
  /** The longest array that every JVM makes. */
  private static final int MAX_LENGTH = Integer.MAX_VALUE - 8;

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
    if (array instanceof boolean[] booleans && type == OnnxTensorElementType.BOOL) return bytes(booleans);
    Class<?> component = switch (array) {
      case FloatBuffer b -> order(float.class, b.order());
      case DoubleBuffer b -> order(double.class, b.order());
      case LongBuffer b -> order(long.class, b.order());
      case IntBuffer b -> order(int.class, b.order());
      case ShortBuffer b -> order(short.class, b.order());
      case ByteBuffer b -> type.bits() > 8 ? order(type.component(), b.order()) : type.component(); // bytes of whatever type
      case null -> throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "the array is null");
      case MemorySegment s -> throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
          "a MemorySegment is not an array: bindInput(name, segment, MemoryDescriptor.of(type, dims)), bindOutput, "
              + "write(offset, segment, null) and read(offset, segment, null) take one");
      case OrtValueRef v -> throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
          "an OrtValueRef has its own shape: bindInput(name, value)");
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

  /** Of booleans Java shows no memory: a copy, for reading only. */
  private static MemorySegment bytes(boolean[] booleans) {
    byte[] bytes = new byte[booleans.length];
    for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) (booleans[i] ? 1 : 0);
    return MemorySegment.ofArray(bytes).asReadOnly();
  }

  /** The upper half of a float, rounded to the nearest, ties to even; a NaN stays one. */
  static short bfloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (Float.isNaN(value)) return (short) (bits >>> 16 | 0x40);
    return (short) (bits + 0x7FFF + (bits >>> 16 & 1) >>> 16);
  }

  private static Class<?> order(Class<?> component, ByteOrder order) {
    if (order == ByteOrder.nativeOrder()) return component;
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "expected a buffer in the machine's byte order, got " + order
        + ": a ByteBuffer is made with BIG_ENDIAN, call order(ByteOrder.nativeOrder())");
  }

  private static String expected(OnnxTensorElementType type) {
    return type.component() == null ? "strings, by writeStrings and readStrings," : type.component() + "[]";
  }

  /** The number of elements, as an array's length. */
  static int length(MemoryDescriptor descriptor) {
    long count = descriptor.elementCount();
    if (count > MAX_LENGTH) {
      throw new OrtFFMException(OrtStatus.SHAPE, descriptor + " has " + count + " elements, and a Java array at most " + MAX_LENGTH
          + ": read parts of it by slice or read(offset, segment, null)");
    }
    return (int) count;
  }
}
