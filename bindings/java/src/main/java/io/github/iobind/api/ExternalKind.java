package io.github.iobind.api;

/** The kind of a handle of another library or process. */
public enum ExternalKind {
  /** Memory of a file descriptor: Vulkan's opaque one; on the virtual accelerator a memfd. */
  FD_MEMORY,
  /** Vulkan's memory, by a {@code HANDLE}. */
  WIN32_MEMORY,
  /** The shared {@code HANDLE} of an {@code ID3D12Resource}. */
  D3D12_RESOURCE,
  /** The shared {@code HANDLE} of an {@code ID3D12Heap}. */
  D3D12_HEAP,
  /** Vulkan's timeline semaphore, by an opaque file descriptor. */
  FD_SEMAPHORE,
  /** Vulkan's timeline semaphore, by a {@code HANDLE}. */
  WIN32_SEMAPHORE,
  /** The shared {@code HANDLE} of an {@code ID3D12Fence}. */
  D3D12_FENCE;

  int number() {
    return ordinal() + 1;
  }
}
