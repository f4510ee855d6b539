package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.IobindJava;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Memory and sessions of the caller's that libiobind uses: what is to be done, once, when it does no more. Until then what the
 * action refers to is kept from the collector.
 */
final class Released {
  /** The {@code iobind_deleter} of all of them; its context is the ticket. */
  static final MemorySegment DELETER = IobindJava.delete();
  private static final MemorySegment STUB;
  /** By their tickets, the addresses of their callbacks. */
  private static final Map<Long, Kept> KEPT = new ConcurrentHashMap<>();

  private record Kept(Runnable action, MemorySegment callback) {}

  static {
    try {
      MethodHandle target = MethodHandles.lookup().findStatic(Released.class, "released",
          MethodType.methodType(void.class, long.class, MemorySegment.class));
      STUB = Linker.nativeLinker().upcallStub(target, FunctionDescriptor.ofVoid(JAVA_LONG, ADDRESS), Arena.global());
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private Released() {}

  static long keep(Runnable action) {
    MemorySegment callback = Callbacks.deleter(Arena.ofAuto(), STUB);
    KEPT.put(callback.address(), new Kept(action, callback));
    return callback.address();
  }

  /** Libiobind did not take it: the action is not done. */
  static void forget(long ticket) {
    KEPT.remove(ticket);
  }

  @SuppressWarnings("unused") // called by libiobind
  private static void released(long ticket, MemorySegment object) {
    Callbacks.arrived();
    Threads.callback(() -> KEPT.remove(ticket).action().run());
  }
}
