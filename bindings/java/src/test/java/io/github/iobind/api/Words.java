package io.github.iobind.api;

import java.util.Arrays;
import java.util.List;
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

  /** How a session is made, on the device unless something else is said: its model is hashed, so that its states can be kept in files. */
  static OrtSessionFFM.Options options(List<String> words, DeviceSpec device) {
    OrtSessionFFM.Options options = new OrtSessionFFM.Options();
    for (String word : words) {
      switch (word.split(":")[0]) {
        case "+strict" -> options.strict();
        case "+placement" -> options.placement();
        case "+cpu", "+unknown" -> {}
        case "+dim" -> options.freeDimension(word.substring(5, word.indexOf('=')),
            Long.parseLong(word.substring(word.indexOf('=') + 1)));
        default -> throw new IllegalArgumentException(word + " is no option");
      }
    }
    if (!words.contains("+cpu")) options.devices(device);
    return words.contains("+unknown") ? options : options.identify();
  }
}
