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
    return new Deadline(System.nanoTime() + nanos(time));
  }

  /** A time in nanoseconds, 0 or more, and few enough to be added to a clock. */
  static long nanos(Duration time) {
    try {
      return Math.clamp(time.toNanos(), 0, Long.MAX_VALUE / 2);
    } catch (ArithmeticException tooLong) { // 292 years; or as long ago
      return time.isNegative() ? 0 : Long.MAX_VALUE / 2;
    }
  }

  /** The nanoseconds that are left, 0 or more. */
  long left() {
    return this == NEVER ? Long.MAX_VALUE : Math.max(0, end - System.nanoTime());
  }

  boolean isOver() {
    return left() == 0;
  }
}
