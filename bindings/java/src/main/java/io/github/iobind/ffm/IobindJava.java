package io.github.iobind.ffm;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;

/** libiobind_java, by its callback.h: the functions that libiobind is given to call, and what they are told by. */
public final class IobindJava {
  /** {@code IOBIND_JAVA_ENDED}. */
  public static final int ENDED = 1;

  /** {@code iobind_java_callback}. */
  public static final StructLayout CALLBACK = MemoryLayout.structLayout(ADDRESS.withName("calls"), ADDRESS.withName("log"),
      ADDRESS.withName("deleter"), ADDRESS.withName("context")).withName("iobind_java_callback");

  private IobindJava() {}

  /** {@code iobind_java_log}. */
  public static MemorySegment log() {
    return symbol("iobind_java_log");
  }

  /** {@code iobind_java_delete}. */
  public static MemorySegment delete() {
    return symbol("iobind_java_delete");
  }

  private static MemorySegment symbol(String name) {
    return NativeLibrary.callbackSymbols().find(name).orElseThrow(() -> new UnsatisfiedLinkError(
        "libiobind_java has no " + name + ": it is of another version than this package"));
  }
}
