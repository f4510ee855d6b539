package io.github.iobind.api;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** The element types of tensors. */
public enum OnnxTensorElementType {
  /** No type. */
  UNDEFINED(0, null),
  /** 32 bits, {@code float[]}. */
  FLOAT32(32, float.class),
  /** 8 bits, {@code byte[]}. */
  UINT8(8, byte.class),
  /** 8 bits, {@code byte[]}. */
  INT8(8, byte.class),
  /** 16 bits, {@code short[]}. */
  UINT16(16, short.class),
  /** 16 bits, {@code short[]}. */
  INT16(16, short.class),
  /** 32 bits, {@code int[]}. */
  INT32(32, int.class),
  /** 64 bits, {@code long[]}. */
  INT64(64, long.class),
  /** Text, in host memory only; has no byte size. */
  STRING(0, null),
  /** 8 bits, 0 or 1, {@code byte[]}. */
  BOOL(8, byte.class),
  /** 16 bits, {@code short[]}: {@link Float#float16ToFloat} reads one. */
  FLOAT16(16, short.class),
  /** 64 bits, {@code double[]}. */
  FLOAT64(64, double.class),
  /** 32 bits, {@code int[]}. */
  UINT32(32, int.class),
  /** 64 bits, {@code long[]}. */
  UINT64(64, long.class),
  /** Known by name and size; ONNX Runtime has no tensors of it. */
  COMPLEX64(64, null),
  /** Known by name and size; ONNX Runtime has no tensors of it. */
  COMPLEX128(128, null),
  /** 16 bits, {@code short[]}. */
  BFLOAT16(16, short.class),
  /** 8 bits, {@code byte[]}. */
  FLOAT8E4M3FN(8, byte.class),
  /** 8 bits, {@code byte[]}. */
  FLOAT8E4M3FNUZ(8, byte.class),
  /** 8 bits, {@code byte[]}. */
  FLOAT8E5M2(8, byte.class),
  /** 8 bits, {@code byte[]}. */
  FLOAT8E5M2FNUZ(8, byte.class),
  /** Packed, two to a byte, the first in the low bits; {@code byte[]}. */
  UINT4(4, byte.class),
  /** Packed, two to a byte; {@code byte[]}. */
  INT4(4, byte.class),
  /** Packed, two to a byte; {@code byte[]}. */
  FLOAT4E2M1(4, byte.class),
  /** Packed, four to a byte; {@code byte[]}. ONNX Runtime 1.25 and newer. */
  UINT2(2, byte.class),
  /** Packed, four to a byte; {@code byte[]}. ONNX Runtime 1.25 and newer. */
  INT2(2, byte.class),
  /** 8 bits, {@code byte[]}. */
  FLOAT8E8M0(8, byte.class);

  private static final OnnxTensorElementType[] VALUES = values();

  private final int bits;
  private final Class<?> component;

  OnnxTensorElementType(int bits, Class<?> component) {
    this.bits = bits;
    this.component = component;
  }

  /**
   * Bits of one element.
   *
   * @return 2, 4, 8 .. 128; 0 for {@link #STRING} and {@link #UNDEFINED}
   */
  public int bits() {
    return bits;
  }

  /**
   * The number of this type in ONNX Runtime's C interface.
   *
   * @return 0 for {@link #UNDEFINED}, 1 for {@link #FLOAT32}, ...
   */
  public int number() {
    return ordinal();
  }

  /**
   * The component type of Java arrays for this type.
   *
   * @return such as {@code float.class}; null if there is no primitive array for it
   */
  public @Nullable Class<?> component() {
    return component;
  }

  /** The name in lower case, as in messages, such as "float32". */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }

  static OnnxTensorElementType of(int number) {
    return number > 0 && number < VALUES.length ? VALUES[number] : UNDEFINED;
  }
}
