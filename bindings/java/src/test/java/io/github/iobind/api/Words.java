package io.github.iobind.api;

import java.util.Arrays;
import java.util.Locale;

/** The words of a conformance row: what they mean in Java. */
final class Words {
  private Words() {}

  /** A row that says what Java cannot. */
  static final class Inexpressible extends RuntimeException {
    private static final long serialVersionUID = 1;

    Inexpressible(String why) {
      super(why, null, false, false);
    }
  }

  static OnnxTensorElementType type(String name) {
    try {
      return OnnxTensorElementType.valueOf(name.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      throw new Inexpressible("no element type " + name);
    }
  }

  static OnnxTensorElementType typeOf(String text) {
    return type(text.substring(0, text.indexOf('[')));
  }

  static long[] dimsOf(String text) {
    String dims = text.substring(text.indexOf('[') + 1, text.length() - 1);
    return dims.isEmpty() ? new long[0] : Arrays.stream(dims.split(",")).mapToLong(Words::number).toArray();
  }

  static long number(String text) {
    return text.startsWith("-") ? Long.parseLong(text) : Long.parseUnsignedLong(text);
  }

  static int index(String text) {
    long index = number(text);
    if (index != (int) index) throw new Inexpressible("an index is an int");
    return (int) index;
  }

  static long size(String text) {
    long size = number(text);
    if (size < 0) throw new Inexpressible("memory of more than 63 bits");
    return size;
  }

  static <E extends Enum<E>> E mode(Class<E> type, String word) {
    try {
      return Enum.valueOf(type, word.toUpperCase(Locale.ROOT).replace('-', '_'));
    } catch (IllegalArgumentException e) {
      throw new Inexpressible("no mode " + word);
    }
  }
}
