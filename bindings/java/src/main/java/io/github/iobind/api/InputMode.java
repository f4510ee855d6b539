package io.github.iobind.api;

/** What a bound input does. The meaning is the same on every device. */
public enum InputMode {
  /** The value itself is the input, where the session wants it: nothing is ever copied. The next run sees what is written. */
  RESIDENT,
  /** A copy is taken now, to where the session wants it; the value is free again at once. */
  SNAPSHOT,
  /** Each run sees what the value holds then: copied before every run to where the session wants it, unless it lives there. */
  LIVE
}
