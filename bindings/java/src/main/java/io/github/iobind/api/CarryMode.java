package io.github.iobind.api;

/** How an output becomes the next run's input. */
public enum CarryMode {
  /**
   * IN_PLACE for a cache of fixed capacity whose operator allows it; otherwise MOVE, or SWAP in a session that captures graphs.
   * If it is IN_PLACE, or the model's file cannot be read, the caller's memory that is bound to the input is treated as for
   * IN_PLACE: it must be writable, and is retained until another value is bound.
   */
  DEFAULT,
  /** New memory in each run, of any shape; it becomes the input without a copy. */
  MOVE,
  /** Two buffers of the state's shape that are exchanged: no run allocates. */
  SWAP,
  /** One buffer, which is input and output. Use it only if the model's operators allow that; ONNX Runtime does not check it. */
  IN_PLACE
}
