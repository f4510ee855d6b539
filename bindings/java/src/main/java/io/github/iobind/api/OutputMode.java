package io.github.iobind.api;

/** How an output is bound. */
public enum OutputMode {
  /** New memory in each run: no run overwrites the output of an earlier one. */
  FRESH,
  /**
   * The first run allocates memory, and later runs overwrite it, as long as no input's shape changes and the output was not
   * taken.
   */
  REUSE,
  /** The bound value, which every run overwrites; the output must have its shape. */
  FIXED,
  /**
   * FIXED, and the value may overlap an input. Use it only if the model's operators allow that; ONNX Runtime does not check it.
   */
  IN_PLACE,
  /** Not fetched. */
  NONE
}
