package io.github.iobind.api;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.IobindInterop;
import java.lang.foreign.MemorySegment;

/**
 * Values that other native libraries of the process give and take, by address and without a copy. Streams of other libraries are
 * {@link OrtStreamFFM#wrap}'s, and their sessions {@link OrtSessionFFM#wrap}'s.
 */
public final class OrtInterop {
  /** How a tensor is exchanged by DLPack. */
  public enum Dlpack {
    /** A {@code DLManagedTensor}, as before DLPack 1.0. */
    LEGACY(Constants.DLPACK_LEGACY),
    /** When it is taken: host memory that is not dense and row-major is copied, not refused. */
    COPY_STRIDED(Constants.DLPACK_COPY_STRIDED);

    private final int flag;

    Dlpack(int flag) {
      this.flag = flag;
    }

    private static int flags(Dlpack[] options) {
      int flags = 0;
      for (Dlpack option : options) flags |= option.flag;
      return flags;
    }
  }

  private OrtInterop() {}

  /**
   * Gives a value to another library by DLPack 1.1. What is on its way to the value on a stream must be waited for, or ordered by
   * an event, before the other library's work.
   *
   * @param value on whatever device; it may be closed after this
   * @param options LEGACY, or none for a {@code DLManagedTensorVersioned}
   * @return the address of the struct, which keeps the memory until its deleter is called: by the library that it is passed to, or
   *     by the caller
   * @throws OrtFFMException NOT_SUPPORTED: DLPack has no name for this memory, or (strings) for this type, or cannot say in a LEGACY
   *     struct that the value is read-only; INVALID_ARGUMENT: the value lies in memory of the caller's, whose arena could be closed
   */
  public static MemorySegment toDlpack(OrtValueRef value, Dlpack... options) {
    if (Hold.arenas(value.backing()) != null) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "toDlpack: the value lies in memory of an arena that can be closed while "
          + "the other library has it: copyTo makes one of its own");
    }
    try (Scratch scratch = Scratch.take()) {
      long address = value.enter();
      try {
        scratch.check(IobindInterop.tensorToDlpack(address, Dlpack.flags(options), scratch.out(0), scratch.error()));
        return MemorySegment.ofAddress(scratch.getLong(0));
      } finally {
        value.exit();
      }
    }
  }

  /**
   * Takes a tensor of another library over by DLPack. The work on streams that makes it must be waited for, or ordered by an event,
   * before its first use.
   *
   * @param runtime the runtime
   * @param managed the struct, of DLPack 1.x or, with LEGACY, before; from now on the value's, which calls its deleter, on any thread,
   *     when nothing uses the memory any more
   * @param options LEGACY, COPY_STRIDED
   * @return the value; one of read-only memory is refused wherever it would be written
   * @throws OrtFFMException VERSION: DLPack 2 or newer; DEVICE: no device of the runtime has this memory; DTYPE; SHAPE: also strides that
   *     are not dense; NOT_SUPPORTED: strides on a device; INVALID_ARGUMENT. After an error the struct is still the caller's
   */
  public static OrtValueRef fromDlpack(OrtRuntimeFFM runtime, MemorySegment managed, Dlpack... options) {
    try (Scratch scratch = Scratch.take()) {
      long address = runtime.enter();
      try {
        scratch.check(IobindInterop.tensorFromDlpack(address, managed, Dlpack.flags(options), scratch.out(0), scratch.error()));
        return new OrtValueRef(scratch.getLong(0), null, scratch);
      } finally {
        runtime.exit();
      }
    }
  }
}
