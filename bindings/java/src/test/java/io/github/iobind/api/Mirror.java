package io.github.iobind.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** What a tensor must hold: kept beside it in plain Java. Tensors that share memory share the bytes. A string is its number. */
record Mirror(OnnxTensorElementType type, long[] dims, byte[] bytes, int offset) {
  private static final String[] STEMS = {"s", "dr\u00E9i", "a text that is longer than what strings keep in themselves"};

  static Mirror of(OnnxTensorElementType type, long... dims) {
    byte[] bytes = new byte[Math.toIntExact(bytes(type, dims))];
    if (type != OnnxTensorElementType.STRING) Arrays.fill(bytes, (byte) 0xA5);
    return new Mirror(type, dims.clone(), bytes, 0);
  }

  static Mirror like(Mirror other) {
    return of(other.type, other.dims);
  }

  Mirror copy() {
    Mirror copy = like(this);
    copy.put(0, content());
    return copy;
  }

  Mirror part(int from, OnnxTensorElementType partType, long... partDims) {
    return new Mirror(partType, partDims.clone(), bytes, offset + from);
  }

  static int count(long... dims) {
    long count = 1;
    for (long dim : dims) count *= dim;
    return Math.toIntExact(count);
  }

  int count() {
    return count(dims);
  }

  private static long bytes(OnnxTensorElementType type, long... dims) {
    return type == OnnxTensorElementType.STRING ? count(dims) * 4L : (count(dims) * (long) type.bits() + 7) / 8;
  }

  int byteCount() {
    return (int) bytes(type, dims);
  }

  byte[] content() {
    return Arrays.copyOfRange(bytes, offset, offset + byteCount());
  }

  void put(int at, byte[] content) {
    System.arraycopy(content, 0, bytes, offset + at, content.length);
  }

  double get(int index) {
    return Element.get(type, bytes, offset, index);
  }

  void set(int index, double number) {
    Element.set(type, bytes, offset, index, number);
  }

  /** A seed's pattern, without writing it here. */
  byte[] pattern(long seed) {
    Mirror to = like(this);
    Arrays.fill(to.bytes, (byte) 0);
    if (type == OnnxTensorElementType.STRING) {
      for (int i = 0; i < count(); i++) to.setNumber(i, (int) seed + i);
    } else if (Element.isNumber(type)) {
      for (int i = 0; i < count(); i++) to.set(i, patternNumber(seed + i));
    } else {
      for (int i = 0; i < to.bytes.length; i++) to.bytes[i] = (byte) (seed * 37 + i * 11 + 1);
      int unused = (int) (to.bytes.length * 8L - (long) count() * type.bits());
      if (to.bytes.length != 0) to.bytes[to.bytes.length - 1] &= (byte) (0xFF >> unused);
    }
    return to.bytes;
  }

  private double patternNumber(long i) {
    return switch (type) {
      case BOOL -> i % 2;
      case UINT2 -> i % 4;
      case INT2 -> i % 4 - 2;
      case INT4 -> i % 16 - 8;
      default -> i % 11;
    };
  }

  int number(int index) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt(offset + 4 * index);
  }

  void setNumber(int index, int number) {
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(offset + 4 * index, number);
  }

  static String text(int number) {
    return number == 0 ? "" : STEMS[Integer.remainderUnsigned(number, 3)] + " " + Integer.toUnsignedString(number);
  }

  String typeText() {
    return MemoryDescriptor.text(type, dims);
  }
}
