package io.github.iobind.api;

import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;

/**
 * Memory of another library or process, such as a renderer's: a device's memory from now on, without a copy. Nothing here sees what others
 * do with it: they and the work on streams here are ordered by an {@link OrtSemaphoreFFM}, or by waiting. It is thread-safe.
 */
public final class OrtExternalMemoryFFM implements AutoCloseable {
  private final Handle handle;

  private OrtExternalMemoryFFM(long address) {
    handle = Handle.of(this, address, IobindInterop::externalMemoryDestroy);
  }

  /**
   * Whether a device can import handles of a kind.
   *
   * @param runtime the runtime
   * @param spec the device
   * @param kind of the handle
   * @throws OrtFFMException NOT_SUPPORTED: it cannot, and the message says why; NOT_FOUND: no such device; RUNTIME
   */
  public static void check(OrtRuntimeFFM runtime, DeviceSpec spec, ExternalKind kind) {
    Place place = runtime.resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        scratch.check(IobindInterop.deviceCheckImport(place.device(), kind.number(), scratch.error()));
      } finally {
        runtime.exit();
      }
    }
  }

  /**
   * Imports memory by its handle. Who closes the handle is up to the execution provider: CUDA owns a file descriptor that it has imported;
   * the virtual accelerator does not own what it imports.
   *
   * @param runtime the runtime
   * @param spec the device whose memory it becomes
   * @param kind of the handle: FD_MEMORY, WIN32_MEMORY, D3D12_RESOURCE or D3D12_HEAP
   * @param external a file descriptor, or a {@code HANDLE}
   * @param byteSize of the memory: all of it, as it was allocated
   * @return the memory
   * @throws OrtFFMException NOT_SUPPORTED: as {@link #check}; INVALID_ARGUMENT; RUNTIME: the execution provider refuses the handle;
   *     OUT_OF_MEMORY
   */
  public static OrtExternalMemoryFFM create(OrtRuntimeFFM runtime, DeviceSpec spec, ExternalKind kind, long external, long byteSize) {
    Place place = runtime.resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        scratch.check(IobindInterop.externalMemoryImport(place.device(), struct(scratch, kind, external, byteSize), scratch.out(0),
            scratch.error()));
        return new OrtExternalMemoryFFM(scratch.getLong(0));
      } finally {
        runtime.exit();
      }
    }
  }

  /** A handle as C takes it. */
  static MemorySegment struct(Scratch scratch, ExternalKind kind, long external, long byteSize) {
    MemorySegment struct = scratch.struct(Layouts.EXTERNAL);
    Layouts.setInt(struct, Layouts.EXTERNAL, "kind", kind.number());
    Layouts.setLong(struct, Layouts.EXTERNAL, "handle", external);
    Layouts.setLong(struct, Layouts.EXTERNAL, "bytes", byteSize);
    return struct;
  }

  /**
   * A value over a part of the memory, which it retains.
   *
   * @param offset bytes from the start
   * @param descriptor element type and shape
   * @return the value
   * @throws OrtFFMException INVALID_ARGUMENT: the part does not lie inside; DTYPE: strings; RUNTIME; OUT_OF_MEMORY
   */
  public OrtValueRef value(long offset, MemoryDescriptor descriptor) {
    long[] dims = descriptor.shape();
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        scratch.check(IobindInterop.externalMemoryView(address, offset, descriptor.type().number(), scratch.dims(dims), dims.length,
            scratch.out(0), scratch.error()));
        return new OrtValueRef(scratch.getLong(0), null);
      } finally {
        handle.exit();
      }
    }
  }

  /** Gives the memory up; values over it keep it. */
  @Override
  public void close() {
    handle.close();
  }
}
