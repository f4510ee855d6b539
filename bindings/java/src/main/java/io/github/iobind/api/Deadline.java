package io.github.iobind.api;

import java.time.Duration;

/** Until when a close waits: made once, at its beginning, for all that it waits for. */
final class Deadline {
  static final Deadline NEVER = new Deadline(0);

  private final long end;

  private Deadline(long end) {
    this.end = end;
  }

  static Deadline in(Duration time) {
    long nanos;
    try {
      nanos = Math.max(0, time.toNanos());
    } catch (ArithmeticException tooLong) { // 292 years; or as long ago
      nanos = time.isNegative() ? 0 : Long.MAX_VALUE / 2;
    }
    return new Deadline(System.nanoTime() + Math.min(nanos, Long.MAX_VALUE / 2));
  }

  /** The nanoseconds that are left, 0 or more. */
  long left() {
    return this == NEVER ? Long.MAX_VALUE : Math.max(0, end - System.nanoTime());
  }

  boolean isOver() {
    return left() == 0;
  }
}
