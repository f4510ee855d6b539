package io.github.iobind.api;

/** The kind of a native stream or event handle. */
public enum NativeKind {
  /** A {@code cudaStream_t} or {@code CUstream}; a {@code cudaEvent_t} or {@code CUevent}. */
  CUDA,
  /** Not supported yet. */
  D3D12,
  /** The virtual accelerator's: a {@code vdev_stream *}, a {@code vdev_event *}. */
  VDEV;

  int number() {
    return ordinal() + 1;
  }
}
