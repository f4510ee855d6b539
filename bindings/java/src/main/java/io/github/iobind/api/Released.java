package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory and sessions of the caller's that libiobind uses: what is to be done, once, when it does no more. Until then what the
 * action refers to is kept from the collector.
 */
final class Released {
  /** The {@code iobind_deleter} of all of them; its context is the ticket. */
  static final MemorySegment DELETER;
  private static final Map<Long, Runnable> KEPT = new ConcurrentHashMap<>();
  private static final AtomicLong TICKETS = new AtomicLong();

  static {
    try {
      MethodHandle target = MethodHandles.lookup().findStatic(Released.class, "released",
          MethodType.methodType(void.class, long.class, MemorySegment.class));
      DELETER = Linker.nativeLinker().upcallStub(target, FunctionDescriptor.ofVoid(JAVA_LONG, ADDRESS), Arena.global());
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private Released() {}

  static long keep(Runnable action) {
    long ticket = TICKETS.incrementAndGet();
    KEPT.put(ticket, action);
    return ticket;
  }

  /** Libiobind did not take it: the action is not done. */
  static void forget(long ticket) {
    KEPT.remove(ticket);
  }

  @SuppressWarnings("unused") // called by libiobind
  private static void released(long ticket, MemorySegment object) {
    Threads.callback(() -> KEPT.remove(ticket).run());
  }
}
