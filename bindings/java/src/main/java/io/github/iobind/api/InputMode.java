package io.github.iobind.api;

/** How an input is bound. The meaning is the same on every device. */
public enum InputMode {
  /**
   * The value itself is the input, in the memory from which the session reads it; it is never copied. Later runs see what is
   * written into it.
   */
  RESIDENT,
  /** The value is copied now, to the memory from which the session reads the input; it may then be changed. */
  SNAPSHOT,
  /**
   * Each run reads the value's current content: in place if the session can read its memory, otherwise by a copy before each
   * run.
   */
  LIVE
}
