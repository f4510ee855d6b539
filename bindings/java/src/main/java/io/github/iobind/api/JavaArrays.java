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
import org.jspecify.annotations.Nullable;

/** Java arrays as memory, their type and length compared with a descriptor's. */
final class JavaArrays {
  /** The longest array that every JVM makes. */
  private static final int MAX_LENGTH = Integer.MAX_VALUE - 8;

  private JavaArrays() {}

  /** The method that was given an array; its messages say which other one takes strings. */
  enum Use {
    BIND("bindInput", false, "bind a String[]"),
    SET("setInput", false, "a batch has none"),
    UPDATE("update", false, "bind them again, by bindInput(name, strings, dims)"),
    WRITE("write", false, "writeStrings writes them"),
    READ("read", true, "readStrings reads them"),
    READ_OUTPUT("readOutput", true, "getOutput(name).readStrings() reads them");

    private final String method;
    private final boolean isTarget;
    private final String strings;

    Use(String method, boolean isTarget, String strings) {
      this.method = method;
      this.isTarget = isTarget;
      this.strings = strings;
    }

    /** @param name of the input or output; null: a value has none */
    private OrtFFMException failure(OrtStatus status, @Nullable String name, String text) {
      return new OrtFFMException(status, method + (name == null ? ": " : ": '" + name + "': ") + text);
    }
  }

  /** The memory of an array of primitives or a buffer, which must fit the descriptor. */
  static MemorySegment segment(Object array, MemoryDescriptor descriptor, Use use, @Nullable String name) {
    MemorySegment segment = segment(array, descriptor.type(), use, name);
    if (segment.byteSize() != descriptor.byteSize()) {
      String hint = use != Use.BIND && use != Use.SET || descriptor.rank() > 0 ? ""
          : ": no dims were given, which is a scalar: they come behind the array, as in " + use.method + "(name, array, 1, 3)";
      throw use.failure(OrtStatus.SHAPE, name,
          "expected " + descriptor.byteSize() + " bytes for " + descriptor + ", got " + segment.byteSize() + hint);
    }
    return segment;
  }

  /** The memory of an array of primitives or a buffer, whose elements must be the type's. */
  static MemorySegment segment(Object array, OnnxTensorElementType type, Use use, @Nullable String name) {
    if (array instanceof boolean[] booleans && type == OnnxTensorElementType.BOOL) return bytes(booleans);
    Class<?> component = switch (array) {
      case FloatBuffer b -> order(float.class, b.order(), use, name);
      case DoubleBuffer b -> order(double.class, b.order(), use, name);
      case LongBuffer b -> order(long.class, b.order(), use, name);
      case IntBuffer b -> order(int.class, b.order(), use, name);
      case ShortBuffer b -> order(short.class, b.order(), use, name);
      case ByteBuffer b -> type.bits() > 8 ? order(type.component(), b.order(), use, name) : type.component(); // bytes of whatever type
      case null -> throw use.failure(OrtStatus.INVALID_ARGUMENT, name, "the array is null");
      case MemorySegment s -> throw use.failure(OrtStatus.INVALID_ARGUMENT, name,
          "a MemorySegment is not an array: bindInput(name, segment, MemoryDescriptor.of(type, dims)), bindOutput, "
              + "write(offset, segment, null) and read(offset, segment, null) take one");
      case OrtValueRef v -> throw use.failure(OrtStatus.INVALID_ARGUMENT, name,
          "an OrtValueRef has its own shape: bindInput(name, value)");
      default -> array.getClass().componentType();
    };
    if (component == null || component != type.component()) {
      throw use.failure(OrtStatus.DTYPE, name, mismatch(array.getClass(), type, use));
    }
    MemorySegment segment = switch (array) {
      case float[] a -> MemorySegment.ofArray(a);
      case double[] a -> MemorySegment.ofArray(a);
      case long[] a -> MemorySegment.ofArray(a);
      case int[] a -> MemorySegment.ofArray(a);
      case short[] a -> MemorySegment.ofArray(a);
      case byte[] a -> MemorySegment.ofArray(a);
      default -> MemorySegment.ofBuffer((Buffer) array);
    };
    if (use.isTarget && segment.isReadOnly()) throw use.failure(OrtStatus.INVALID_ARGUMENT, name, "the target is read-only memory");
    return segment;
  }

  private static String mismatch(Class<?> array, OnnxTensorElementType type, Use use) {
    if (type == OnnxTensorElementType.STRING) return "its elements are strings: " + use.strings;
    if (type.component() == null) return "no Java array has elements of " + type + ", got " + array.getTypeName();
    boolean isNested = array.isArray() && array.componentType().isArray();
    return "expected " + (type == OnnxTensorElementType.BOOL ? "boolean[] or " : "") + type.component() + "[] for " + type + ", got "
        + array.getTypeName() + (isNested ? ": one array has all elements, row by row" : "");
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

  private static Class<?> order(Class<?> component, ByteOrder order, Use use, @Nullable String name) {
    if (order == ByteOrder.nativeOrder()) return component;
    throw use.failure(OrtStatus.INVALID_ARGUMENT, name, "expected a buffer in the machine's byte order, got " + order
        + ": a ByteBuffer is made with BIG_ENDIAN, call order(ByteOrder.nativeOrder())");
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
