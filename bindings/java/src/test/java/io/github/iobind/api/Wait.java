package io.github.iobind.api;

import java.util.function.BooleanSupplier;

/**
 * Waits for what another thread or the collector does, as long as that takes: the limit only ends a test that hangs. Meanwhile other
 * threads have the processor, and an interrupt, such as that of a test's limit, ends the wait.
 */
final class Wait {
  private static final long LIMIT_NANOS = 300_000_000_000L;

  private Wait() {}

  static void until(String what, BooleanSupplier holds) throws InterruptedException {
    long start = System.nanoTime();
    while (!holds.getAsBoolean()) {
      if (System.nanoTime() - start > LIMIT_NANOS) throw new AssertionError("did not come to pass: " + what);
      Thread.sleep(1);
    }
  }

  /** Has the collector run until it holds. */
  static void untilCollected(String what, BooleanSupplier holds) throws InterruptedException {
    until(what, () -> {
      if (holds.getAsBoolean()) return true;
      System.gc();
      return false;
    });
  }
}
