package io.github.iobind.api;

/** How an output becomes the next run's input. */
public enum CarryMode {
  /** New memory on each run, of whatever shape comes out; it becomes the input as it is. */
  MOVE,
  /** Two buffers of the state's shape that change places: no run allocates. */
  SWAP,
  /** One buffer: the input's value is the output; where the model's operators allow it, which ONNX Runtime does not check. */
  IN_PLACE,
  /**
   * IN_PLACE for a cache of fixed capacity whose operator allows that; otherwise MOVE, or SWAP in a session that captures graphs. Memory of the
   * caller's that is bound to the input is treated as that of IN_PLACE: it must be writable, and is held until another value is bound.
   */
  DEFAULT
}
