package io.github.iobind.api;

import io.github.iobind.ffm.IobindInterop;

/**
 * An imported timeline semaphore of another library or process: a value that only increases.
 * {@link OrtStreamFFM#await(OrtSemaphoreFFM, long)} makes a stream wait for a value,
 * {@link OrtStreamFFM#signal(OrtSemaphoreFFM, long)} sets it. It is thread-safe.
 */
public final class OrtSemaphoreFFM implements AutoCloseable {
  private final Handle handle;

  private OrtSemaphoreFFM(long address) {
    handle = Handle.of(this, address, IobindInterop::semaphoreDestroy);
  }

  /**
   * Imports a semaphore by its handle; for who closes the handle see {@link OrtExternalMemoryFFM#create}.
   *
   * @param runtime the runtime
   * @param spec the device whose streams use it
   * @param kind of the handle: FD_SEMAPHORE, WIN32_SEMAPHORE or D3D12_FENCE
   * @param external a file descriptor, or a {@code HANDLE}
   * @return the semaphore
   * @throws OrtFFMException as {@link OrtExternalMemoryFFM#create}
   */
  public static OrtSemaphoreFFM create(OrtRuntimeFFM runtime, DeviceSpec spec, ExternalKind kind, long external) {
    Place place = runtime.resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        scratch.check(IobindInterop.semaphoreImport(place.device(), OrtExternalMemoryFFM.struct(scratch, kind, external, 0), scratch.out(0),
            scratch.error()));
        return new OrtSemaphoreFFM(scratch.getLong(0));
      } finally {
        runtime.exit();
      }
    }
  }

  long enter() {
    return handle.enter();
  }

  void exit() {
    handle.exit();
  }

  /** Closes the semaphore; streams that use it retain it. */
  @Override
  public void close() {
    handle.close();
  }
}
