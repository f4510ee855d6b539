package io.github.iobind.api;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;

/** Threads that wait in libiobind for others: a virtual thread would keep its carrier busy there. */
final class Threads {
  private static final ExecutorService POOL = Executors.newCachedThreadPool(task -> {
    Thread thread = Thread.ofPlatform().daemon().name("iobind").inheritInheritableThreadLocals(false).unstarted(task);
    thread.setContextClassLoader(null); // an application that is reloaded is not kept by them
    return thread;
  });
  /** Never started: memory that it may not touch is one thread's alone. */
  private static final Thread OTHER = Thread.ofPlatform().unstarted(() -> {});
  private static final ThreadLocal<Integer> CALLBACKS = ThreadLocal.withInitial(() -> 0);

  private Threads() {}

  static void execute(Runnable task) {
    POOL.execute(task);
  }

  /** Waits in libiobind, whatever interrupts; a virtual thread lets its carrier go meanwhile. */
  static boolean await(BooleanSupplier wait) {
    if (!Thread.currentThread().isVirtual()) return wait.getAsBoolean();
    return CompletableFuture.supplyAsync(wait::getAsBoolean, POOL).join();
  }

  static Thread other() {
    return OTHER;
  }

  /** Does what native code called back for; what it throws would end the process, and is dropped. */
  static void callback(Runnable action) {
    int depth = CALLBACKS.get();
    CALLBACKS.set(depth + 1);
    try {
      action.run();
    } catch (Throwable t) {
      return;
    } finally {
      CALLBACKS.set(depth);
    }
  }

  static boolean isInCallback() {
    return CALLBACKS.get() != 0;
  }
}
