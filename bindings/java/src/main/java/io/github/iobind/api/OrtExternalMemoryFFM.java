package io.github.iobind.api;

import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;

/**
 * Imported memory of another library or process, such as a renderer's, which a device uses without a copy. Accesses by others
 * are not ordered: order them and the work on streams by an {@link OrtSemaphoreFFM}, or wait. It is thread-safe.
 */
public final class OrtExternalMemoryFFM implements AutoCloseable {
  private final Handle handle;

  private OrtExternalMemoryFFM(long address) {
    handle = Handle.of(this, address, IobindInterop::externalMemoryDestroy);
  }

  /**
   * Checks that a device can import handles of a kind.
   *
   * @param runtime the runtime
   * @param spec the device
   * @param kind of the handle
   * @throws OrtFFMException NOT_SUPPORTED: it cannot, and the message has the reason; NOT_FOUND: no such device; RUNTIME
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
   * Imports memory by its handle. The execution provider determines who closes the handle: CUDA takes ownership of an imported
   * file descriptor; the virtual accelerator does not.
   *
   * @param runtime the runtime
   * @param spec the device that imports the memory
   * @param kind of the handle: FD_MEMORY, WIN32_MEMORY, D3D12_RESOURCE or D3D12_HEAP
   * @param external a file descriptor, or a {@code HANDLE}
   * @param byteSize the size of the whole allocation
   * @return the memory
   * @throws OrtFFMException NOT_SUPPORTED: as {@link #check}; INVALID_ARGUMENT; RUNTIME: the execution provider refuses the
   *     handle; OUT_OF_MEMORY
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
   * @throws OrtFFMException INVALID_ARGUMENT: the part is not inside; DTYPE: strings; RUNTIME; OUT_OF_MEMORY
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

  /** Closes this object; values over the memory retain it. */
  @Override
  public void close() {
    handle.close();
  }
}
