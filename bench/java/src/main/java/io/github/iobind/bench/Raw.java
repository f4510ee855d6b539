package io.github.iobind.bench;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import ai.onnxruntime.OrtEnvironment;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.reflect.Field;
import java.nio.file.Path;

/** The C side, raw.c: raw calls of the same ONNX Runtime. */
final class Raw implements AutoCloseable {
  private static final SymbolLookup LIBRARY =
      SymbolLookup.libraryLookup(Path.of(System.getProperty("bench.raw")), Arena.global());
  private static final MethodHandle OPEN = find("raw_open", FunctionDescriptor.of(ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG));
  private static final MethodHandle CLOSE = find("raw_close", FunctionDescriptor.ofVoid(ADDRESS));
  private static final MethodHandle VALUE =
      find("raw_value", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_INT));
  private static final MethodHandle BIND_INPUT = find("raw_bind_input", FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, ADDRESS));
  private static final MethodHandle BIND_OUTPUT = find("raw_bind_output", FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, ADDRESS));
  private static final MethodHandle BOUND = find("raw_bound", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG));
  private static final MethodHandle CACHED = find("raw_cached", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
  private static final MethodHandle STATE =
      find("raw_state", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG));
  private static final MethodHandle NAIVE = find("raw_naive", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
  private static final MethodHandle GROW = find("raw_grow", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, ADDRESS));
  private static final MethodHandle DATA = find("raw_data_dependent", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG));

  private final Arena arena = Arena.ofShared();
  private final MemorySegment raw;
  private final MemorySegment in = arena.allocate(4096, 16);
  private final MemorySegment out = arena.allocate(4096, 16);

  private static MethodHandle find(String name, FunctionDescriptor descriptor) {
    return Linker.nativeLinker().downcallHandle(LIBRARY.find(name).orElseThrow(), descriptor);
  }

  Raw(byte[] model) throws Throwable {
    OrtEnvironment.getEnvironment();
    Field api = Class.forName("ai.onnxruntime.OnnxRuntime").getDeclaredField("ortApiHandle");
    api.setAccessible(true);
    raw = (MemorySegment) OPEN.invokeExact(api.getLong(null), arena.allocateFrom(ValueLayout.JAVA_BYTE, model),
        (long) model.length);
    for (int i = 0; i < 16; i++) in.setAtIndex(ValueLayout.JAVA_FLOAT, i, i % 2);
  }

  /** A value over memory; 1 is ONNX Runtime's number of floats, 7 of 64-bit integers. */
  MemorySegment value(MemorySegment memory, int type, long... dims) throws Throwable {
    long bytes = type == 1 ? 4 : 8;
    for (long dim : dims) bytes *= dim;
    return (MemorySegment) VALUE.invokeExact(raw, memory, bytes, arena.allocateFrom(JAVA_LONG, dims), (long) dims.length, type);
  }

  /** A value of zeros. */
  MemorySegment zeros(long... dims) throws Throwable {
    long count = 1;
    for (long dim : dims) count *= dim;
    return value(arena.allocate(Math.max(4, 4 * count), 16), 1, dims);
  }

  /** Binds an input, or an output, of floats to memory. */
  void bind(String name, boolean isInput, long... dims) throws Throwable {
    MemorySegment value = value(isInput ? in : out, 1, dims), text = arena.allocateFrom(name);
    if (isInput) {
      BIND_INPUT.invokeExact(raw, text, value);
    } else {
      BIND_OUTPUT.invokeExact(raw, text, value);
    }
  }

  /** Binds an input to a number. */
  void bind(String name, long number, long... dims) throws Throwable {
    MemorySegment value = value(arena.allocateFrom(JAVA_LONG, number), 7, dims), text = arena.allocateFrom(name);
    BIND_INPUT.invokeExact(raw, text, value);
  }

  void cached(long times, MemorySegment one, MemorySegment other) throws Throwable {
    CACHED.invokeExact(raw, times, one, other);
  }

  void state(long steps, MemorySegment from, MemorySegment to, MemorySegment start, long room) throws Throwable {
    STATE.invokeExact(raw, steps, from, to, start, room);
  }

  MemorySegment text(String text) {
    return arena.allocateFrom(text);
  }

  void bound(long times) throws Throwable {
    BOUND.invokeExact(raw, times);
  }

  void naive(long times) throws Throwable {
    NAIVE.invokeExact(raw, times, in, out);
  }

  void grow(long steps) throws Throwable {
    GROW.invokeExact(raw, steps, in);
  }

  long dataDependent(long times) throws Throwable {
    return (long) DATA.invokeExact(raw, times);
  }

  @Override
  public void close() {
    try {
      CLOSE.invokeExact(raw);
    } catch (Throwable t) {
      throw new IllegalStateException(t);
    }
    arena.close();
  }
}
