package io.github.iobind.api;

/** What a bound output does. */
public enum OutputMode {
  /** New memory every run: no run overwrites what an earlier one gave. */
  FRESH,
  /** Memory of the first run, overwritten by the next ones as long as no input's shape changes and the output was not taken. */
  REUSE,
  /** The given value, overwritten by every run; the shape must come out as the value's. */
  FIXED,
  /**
   * FIXED, and the value may overlap an input: only where the model's operators allow it, which ONNX Runtime does not check.
   */
  IN_PLACE,
  /** Not fetched at all. */
  NONE
}
