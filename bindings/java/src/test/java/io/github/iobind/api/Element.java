package io.github.iobind.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Single elements of tensors, read and written as numbers, in plain Java. */
final class Element {
  private Element() {}

  static boolean isNumber(OnnxTensorElementType type) {
    return switch (type) {
      case UNDEFINED, STRING, COMPLEX64, COMPLEX128, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT4E2M1,
          FLOAT8E8M0 -> false;
      default -> true;
    };
  }

  private static ByteBuffer buffer(byte[] data) {
    return ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
  }

  static double get(OnnxTensorElementType type, byte[] data, int offset, int index) {
    ByteBuffer b = buffer(data);
    return switch (type) {
      case FLOAT32 -> b.getFloat(offset + 4 * index);
      case FLOAT64 -> b.getDouble(offset + 8 * index);
      case UINT8, BOOL -> data[offset + index] & 0xFF;
      case INT8 -> data[offset + index];
      case UINT16 -> b.getShort(offset + 2 * index) & 0xFFFF;
      case INT16 -> b.getShort(offset + 2 * index);
      case INT32 -> b.getInt(offset + 4 * index);
      case UINT32 -> b.getInt(offset + 4 * index) & 0xFFFFFFFFL;
      case INT64, UINT64 -> b.getLong(offset + 8 * index);
      case FLOAT16 -> Float.float16ToFloat(b.getShort(offset + 2 * index));
      case BFLOAT16 -> Float.intBitsToFloat(b.getShort(offset + 2 * index) << 16);
      case UINT4, INT4, UINT2, INT2 -> packed(data, offset, index, type.bits(), type.name().startsWith("I"));
      default -> throw new IllegalArgumentException(type + " is no number");
    };
  }

  static void set(OnnxTensorElementType type, byte[] data, int offset, int index, double value) {
    ByteBuffer b = buffer(data);
    switch (type) {
      case FLOAT32 -> b.putFloat(offset + 4 * index, (float) value);
      case FLOAT64 -> b.putDouble(offset + 8 * index, value);
      case BOOL -> data[offset + index] = (byte) (value != 0 ? 1 : 0);
      case UINT8, INT8 -> data[offset + index] = (byte) (int) value;
      case UINT16, INT16 -> b.putShort(offset + 2 * index, (short) (int) value);
      case INT32, UINT32 -> b.putInt(offset + 4 * index, (int) (long) value);
      case INT64, UINT64 -> b.putLong(offset + 8 * index, (long) value);
      case FLOAT16 -> b.putShort(offset + 2 * index, Float.floatToFloat16((float) value));
      case BFLOAT16 -> b.putShort(offset + 2 * index, (short) (Float.floatToRawIntBits((float) value) >>> 16));
      case UINT4, INT4, UINT2, INT2 -> setPacked(data, offset, index, type.bits(), (int) value);
      default -> throw new IllegalArgumentException(type + " is no number");
    }
  }

  /** The first element is in the low bits of its byte. */
  private static int packed(byte[] data, int offset, int index, int bits, boolean isSigned) {
    int perByte = 8 / bits, limit = 1 << bits;
    int value = (data[offset + index / perByte] & 0xFF) >> (index % perByte * bits) & (limit - 1);
    return isSigned && value >= limit / 2 ? value - limit : value;
  }

  private static void setPacked(byte[] data, int offset, int index, int bits, int value) {
    int perByte = 8 / bits, shift = index % perByte * bits, mask = ((1 << bits) - 1) << shift, at = offset + index / perByte;
    data[at] = (byte) (data[at] & ~mask | value << shift & mask);
  }
}
