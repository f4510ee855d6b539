package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.github.iobind.api.OrtRuntimeFFM.LogLevel;
import io.github.iobind.api.OrtRuntimeFFM.LogSink;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Where runtimes log to, by one stub for all. What a runtime has taken is kept for ever: it may log until the process ends. */
final class LogSinks {
  private static final MemorySegment STUB;
  /** By the addresses of their callbacks. */
  private static final Map<Long, Kept> KEPT = new ConcurrentHashMap<>();

  private record Kept(LogSink sink, MemorySegment callback) {}

  static {
    try {
      MethodHandle target = MethodHandles.lookup().findStatic(LogSinks.class, "forward",
          MethodType.methodType(void.class, MemorySegment.class, int.class, MemorySegment.class));
      STUB = Linker.nativeLinker().upcallStub(target, FunctionDescriptor.ofVoid(ADDRESS, JAVA_INT, ADDRESS), Arena.global());
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private LogSinks() {}

  /** The context of {@code iobind_java_log} for a sink. */
  static long keep(LogSink sink) {
    MemorySegment callback = Callbacks.log(Arena.ofAuto(), STUB);
    KEPT.put(callback.address(), new Kept(sink, callback));
    return callback.address();
  }

  /** No runtime has taken it. */
  static void forget(long context) {
    KEPT.remove(context);
  }

  @SuppressWarnings("unused") // called through the stub
  private static void forward(MemorySegment context, int level, MemorySegment message) {
    Callbacks.arrived();
    Threads.callback(() -> KEPT.get(context.address()).sink().log(LogLevel.values()[level], Layouts.string(message.address())));
  }
}
