package io.github.iobind.api;

/** How an output becomes the next run's input. */
public enum CarryMode {
  /** New memory on each run, of whatever shape comes out; it becomes the input as it is. */
  MOVE,
  /** Two buffers of the state's shape that change places: no run allocates. */
  SWAP,
  /** One buffer: the input's value is the output; where the model's operators allow it, which ONNX Runtime does not check. */
  IN_PLACE
}
