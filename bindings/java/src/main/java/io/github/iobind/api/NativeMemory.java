package io.github.iobind.api;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Untyped memory of a device, or pinned host memory; values use parts of it. The memory is freed when this object and all its
 * values are closed. Sizes are in bytes.
 */
public final class NativeMemory implements AutoCloseable {
  private final OrtValueRef bytes;

  private NativeMemory(OrtValueRef bytes) {
    this.bytes = bytes;
  }

  /**
   * Memory of a device.
   *
   * @param runtime the runtime
   * @param spec the device; "/pinned", as {@link DeviceSpec#pinned}, for its host-accessible memory
   * @param byteSize bytes
   * @return the memory
   * @throws OrtFFMException OUT_OF_MEMORY; NOT_SUPPORTED: the device has no such memory
   */
  public static NativeMemory allocate(OrtRuntimeFFM runtime, DeviceSpec spec, long byteSize) {
    MemoryDescriptor descriptor = MemoryDescriptor.of(OnnxTensorElementType.UINT8, byteSize);
    return new NativeMemory(OrtValueRef.allocate(NativeMemory.class, runtime, spec, descriptor));
  }

  /**
   * A value over a part of the memory, which it retains.
   *
   * @param offset bytes from the start; anything but 0 needs a device that is ADDRESSABLE
   * @param descriptor element type and shape
   * @return the value
   * @throws OrtFFMException INVALID_ARGUMENT: the part is not inside; NOT_SUPPORTED: the device cannot address it
   */
  public OrtValueRef value(long offset, MemoryDescriptor descriptor) {
    return bytes.view(offset, descriptor);
  }

  /**
   * The size.
   *
   * @return bytes
   */
  public long byteSize() {
    return bytes.descriptor().byteSize();
  }

  /**
   * Where the memory is.
   *
   * @return the device, with "/pinned" for its host-accessible memory
   */
  public DeviceSpec device() {
    return bytes.device();
  }

  /**
   * The memory itself, if the host can read it, until an arena is closed.
   *
   * @param arena the scope of the segment; it retains the memory
   * @return a segment of all bytes
   * @throws OrtFFMException WRONG_DEVICE: the host cannot read it
   */
  public MemorySegment asMemorySegment(Arena arena) {
    return bytes.asMemorySegment(arena);
  }

  /**
   * The memory as a value of bytes.
   *
   * @return another reference, which is closed separately
   */
  public OrtValueRef asValue() {
    return bytes.retain();
  }

  /** Closes this object; values over the memory retain it. */
  @Override
  public void close() {
    bytes.close();
  }
}
