package io.github.iobind.api;

import io.github.iobind.ffm.IobindInterop;

/**
 * A semaphore of another library or process: a value that grows. {@link OrtStreamFFM#await(OrtSemaphoreFFM, long)} orders a stream behind it,
 * {@link OrtStreamFFM#signal(OrtSemaphoreFFM, long)} raises it. It is thread-safe.
 */
public final class OrtSemaphoreFFM implements AutoCloseable {
  private final Handle handle;

  private OrtSemaphoreFFM(long address) {
    handle = Handle.of(this, address, IobindInterop::semaphoreDestroy);
  }

  /**
   * Imports a semaphore by its handle; who closes that: as {@link OrtExternalMemoryFFM#create}.
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

  /** Gives the semaphore up; streams that use it keep it. */
  @Override
  public void close() {
    handle.close();
  }
}
