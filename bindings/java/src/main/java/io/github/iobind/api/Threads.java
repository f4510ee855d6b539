package io.github.iobind.api;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.BooleanSupplier;

/** Threads that wait in libiobind for others: a virtual thread would keep its carrier busy there. */
final class Threads {
  private static final ExecutorService POOL = Executors.newCachedThreadPool(task -> {
    Thread thread = Thread.ofPlatform().daemon().name("iobind").inheritInheritableThreadLocals(false).unstarted(task);
    thread.setContextClassLoader(ClassLoader.getSystemClassLoader()); // as the JDK's own pools, for stages of runAsync
    return thread;
  });
  /** Never started: memory that it may not touch is one thread's alone. */
  private static final Thread OTHER = Thread.ofPlatform().unstarted(() -> {});
  private static final ThreadLocal<Integer> CALLBACKS = ThreadLocal.withInitial(() -> 0);
  private static final ThreadLocal<Integer> LISTENERS = ThreadLocal.withInitial(() -> 0);

  private Threads() {}

  static void execute(Runnable task) {
    POOL.execute(task);
  }

  /** As {@link #execute}, for what must be done: here, if the system gives no thread. */
  static void executeSurely(Runnable task) {
    try {
      POOL.execute(task);
    } catch (OutOfMemoryError | RejectedExecutionException noThread) {
      task.run();
    }
  }

  /** Waits in libiobind, whatever interrupts; a virtual thread lets its carrier go meanwhile. */
  static boolean await(BooleanSupplier wait) {
    if (!Thread.currentThread().isVirtual()) return wait.getAsBoolean();
    try {
      return CompletableFuture.supplyAsync(wait::getAsBoolean, POOL).join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof RuntimeException cause) throw cause;
      if (e.getCause() instanceof Error cause) throw cause;
      throw e;
    }
  }

  static Thread other() {
    return OTHER;
  }

  /** Does what native code called back for; what it throws would end the process, and is dropped. */
  static void callback(Runnable action) {
    within(CALLBACKS, action);
  }

  /** Tells a listener of the program's, in the middle of a call of Java's, but of none of native code; what it throws is dropped. */
  static void tell(Runnable action) {
    within(LISTENERS, action);
  }

  private static void within(ThreadLocal<Integer> count, Runnable action) {
    int depth = count.get();
    count.set(depth + 1);
    try {
      action.run();
    } catch (Throwable t) {
      return;
    } finally {
      count.set(depth);
    }
  }

  /** Whether native code waits for what this thread does: it may be the work that a close would wait for. */
  static boolean isInNativeCallback() {
    return CALLBACKS.get() != 0;
  }

  /** Whether a call in an object, one of native code or not, waits for what this thread does. */
  static boolean isInCallback() {
    return isInNativeCallback() || LISTENERS.get() != 0;
  }
}
