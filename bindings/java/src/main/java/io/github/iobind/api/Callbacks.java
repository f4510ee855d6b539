package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.IobindJava;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Calls from native code into Java, which end before the JVM does. A native thread that calls into a JVM that is gone ends the
 * process with a crash report, and the threads of libiobind and ONNX Runtime work until the process is gone. So they call
 * through libiobind_java, which lets nothing through any more once the JVM has begun to shut down.
 */
final class Callbacks {
  /** Twice the calls that libiobind_java has let through, and the bit that ends them. */
  private static final MemorySegment CALLS = Arena.global().allocate(JAVA_LONG);
  private static final VarHandle COUNT = JAVA_LONG.varHandle();
  private static final AtomicLong ARRIVED = new AtomicLong();

  static {
    Thread hook = Thread.ofPlatform().name("iobind-callbacks").inheritInheritableThreadLocals(false).unstarted(Callbacks::end);
    hook.setContextClassLoader(null);
    try {
      Runtime.getRuntime().addShutdownHook(hook);
    } catch (IllegalStateException e) { // the JVM shuts down already
      end();
    }
  }

  private Callbacks() {}

  /** The context of {@code iobind_java_log} for a stub, whose own context is the address of this one. */
  static MemorySegment log(SegmentAllocator allocator, MemorySegment stub) {
    MemorySegment callback = create(allocator);
    Layouts.setLong(callback, IobindJava.CALLBACK, "log", stub.address());
    return callback;
  }

  /** The context of {@code iobind_java_delete} for a stub, whose own context is the address of this one. */
  static MemorySegment deleter(SegmentAllocator allocator, MemorySegment stub) {
    MemorySegment callback = create(allocator);
    Layouts.setLong(callback, IobindJava.CALLBACK, "deleter", stub.address());
    return callback;
  }

  private static MemorySegment create(SegmentAllocator allocator) {
    MemorySegment callback = allocator.allocate(IobindJava.CALLBACK).fill((byte) 0);
    Layouts.setLong(callback, IobindJava.CALLBACK, "calls", CALLS.address());
    Layouts.setLong(callback, IobindJava.CALLBACK, "context", callback.address());
    return callback;
  }

  /** First of all in each call: from now on its thread is one of the JVM's, which the JVM stops when it ends. */
  static void arrived() {
    ARRIVED.incrementAndGet();
  }

  /**
   * Ends the calls. Waits for those that are on their way into Java, and not for what they do, which may be System.exit. Not for
   * ever: one that Java could not take, because a stack was full, never arrives.
   */
  private static void end() {
    long letThrough = (long) COUNT.getAndBitwiseOr(CALLS, 0L, (long) IobindJava.ENDED) / 2;
    Deadline deadline = Deadline.in(Duration.ofSeconds(5));
    while (ARRIVED.get() != letThrough && !deadline.isOver()) LockSupport.parkNanos(100_000);
  }
}
