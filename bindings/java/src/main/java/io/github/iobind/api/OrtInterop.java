package io.github.iobind.api;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Values that other native code of the process gives and takes, by address and without a copy, and the objects of ONNX Runtime that such
 * code calls it with. Streams of other libraries are
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

  /** The flags of a {@code DLManagedTensorVersioned}: behind its version, context and deleter. */
  private static final long DLPACK_FLAGS = 24;
  private static final long DLPACK_READ_ONLY = 1;

  private OrtInterop() {}

  /** The address of a native object; a Java array's segment has none. */
  static long address(String what, MemorySegment object) {
    if (Objects.requireNonNull(object, what).isNative()) return object.address();
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": expected a native address, got a Java array's segment");
  }

  /**
   * Gives a value to another library by DLPack 1.1. What is on its way to the value on a stream must be waited for, or ordered by
   * an event, before the other library's work.
   *
   * @param value on whatever device; it may be closed after this
   * @param options LEGACY, or none for a {@code DLManagedTensorVersioned}
   * @return the address of the struct, which keeps the memory until its deleter is called: by the library that it is passed to, or
   *     by the caller. It says if the memory is read-only
   * @throws OrtFFMException NOT_SUPPORTED: DLPack has no name for this memory, or (strings) for this type, or cannot say in a LEGACY
   *     struct that the value is read-only; INVALID_ARGUMENT: the value lies in memory of the caller's, whose arena could be closed
   */
  public static MemorySegment toDlpack(OrtValueRef value, Dlpack... options) {
    requireOwn("toDlpack", value);
    int flags = Dlpack.flags(options);
    boolean isReadOnly = value.isReadOnly();
    if ((flags & Constants.DLPACK_LEGACY) != 0) requireWritable("toDlpack: a legacy struct", value);
    try (Scratch scratch = Scratch.take()) {
      long address = value.enter();
      try {
        scratch.check(IobindInterop.tensorToDlpack(address, flags, scratch.out(0), scratch.error()));
        MemorySegment struct = MemorySegment.ofAddress(scratch.getLong(0));
        if (isReadOnly) markReadOnly(struct); // libiobind does not know that a segment is
        return struct;
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
   * @throws OrtFFMException VERSION: DLPack 2 or newer; WRONG_DEVICE: no device of the runtime has this memory; DTYPE; SHAPE: also strides that
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

  /**
   * A value over an {@code OrtValue} of the same ONNX Runtime, in whatever memory it is, without a copy.
   *
   * @param runtime that of the OrtValue's ONNX Runtime
   * @param ortValue an {@code OrtValue *} that holds a tensor
   * @param released called once when nothing uses the OrtValue any more, on any thread; it must not call this package, and may release
   *     the OrtValue. null: the OrtValue must outlive the value and every run that uses it
   * @return the value
   * @throws OrtFFMException NOT_SUPPORTED: it holds no tensor; WRONG_DEVICE: no device of the runtime has this memory; DTYPE; INVALID_ARGUMENT.
   *     After an error {@code released} is not called
   */
  public static OrtValueRef fromOrtValue(OrtRuntimeFFM runtime, MemorySegment ortValue, @Nullable Runnable released) {
    long ticket = released == null ? 0 : Released.keep(released);
    try (Scratch scratch = Scratch.take()) {
      long address = runtime.enter();
      try {
        MemorySegment deleter = released == null ? MemorySegment.NULL : Released.DELETER;
        int status = IobindInterop.tensorWrapOrt(address, ortValue, deleter, ticket, scratch.out(0), scratch.error());
        if (status != 0) Released.forget(ticket);
        scratch.check(status);
        return new OrtValueRef(scratch.getLong(0), null, scratch);
      } finally {
        runtime.exit();
      }
    }
  }

  /**
   * An {@code OrtValue} over a value's memory, without a copy (strings are copied). What is on its way to the value on a stream must be
   * waited for, or ordered by an event, before the OrtValue is used.
   *
   * @param value on whatever device; it may be closed after this
   * @return an {@code OrtValue *}, which keeps the memory; the caller releases it by ONNX Runtime's {@code ReleaseValue}
   * @throws OrtFFMException NOT_SUPPORTED: the value is read-only; INVALID_ARGUMENT: it lies in memory of the caller's, whose arena could
   *     be closed
   */
  public static MemorySegment toOrtValue(OrtValueRef value) {
    requireOwn("toOrtValue", value);
    requireWritable("toOrtValue: an OrtValue", value);
    try (Scratch scratch = Scratch.take()) {
      long address = value.enter();
      try {
        scratch.check(IobindInterop.tensorToOrt(address, scratch.out(0), scratch.error()));
        return MemorySegment.ofAddress(scratch.getLong(0));
      } finally {
        value.exit();
      }
    }
  }

  /**
   * ONNX Runtime's table of functions, for native code that calls it beside this package.
   *
   * @param runtime the runtime
   * @return a {@code const OrtApi *}, of the version that {@link OrtRuntimeFFM#ortApiVersion} tells; it lives as long as the runtime
   */
  public static MemorySegment ortApi(OrtRuntimeFFM runtime) {
    return ort(runtime, "api");
  }

  /**
   * ONNX Runtime's environment.
   *
   * @param runtime the runtime
   * @return an {@code OrtEnv *}, not to be released; it lives as long as the runtime
   */
  public static MemorySegment ortEnv(OrtRuntimeFFM runtime) {
    return ort(runtime, "env");
  }

  private static MemorySegment ort(OrtRuntimeFFM runtime, String field) {
    try (Scratch scratch = Scratch.take()) {
      long address = runtime.enter();
      try {
        MemorySegment struct = scratch.struct(Layouts.ORT);
        scratch.check(IobindInterop.runtimeGetOrt(address, struct, scratch.error()));
        return MemorySegment.ofAddress(Layouts.getLong(struct, Layouts.ORT, field));
      } finally {
        runtime.exit();
      }
    }
  }

  /**
   * A session's {@code OrtSession}. Runs of it by ONNX Runtime itself may not overlap this package's where the session captures graphs or
   * has a stream.
   *
   * @param session the session
   * @return an {@code OrtSession *}, not to be released; it lives as long as the session
   */
  public static MemorySegment ortSession(OrtSessionFFM session) {
    long address = session.enter();
    try {
      return MemorySegment.ofAddress(IobindInterop.sessionGetOrt(address));
    } finally {
      session.exit();
    }
  }

  private static void markReadOnly(MemorySegment struct) {
    MemorySegment flags = struct.reinterpret(DLPACK_FLAGS + Long.BYTES);
    flags.set(ValueLayout.JAVA_LONG, DLPACK_FLAGS, flags.get(ValueLayout.JAVA_LONG, DLPACK_FLAGS) | DLPACK_READ_ONLY);
  }

  /** Other code that is not told that memory is read-only would write it. */
  private static void requireWritable(String what, OrtValueRef value) {
    if (value.isReadOnly()) {
      throw new OrtFFMException(OrtStatus.NOT_SUPPORTED, what + " cannot say that a value is read-only: copyTo makes one to write");
    }
  }

  /** What another library keeps must not be memory that Java takes away. */
  private static void requireOwn(String what, OrtValueRef value) {
    if (Hold.arenas(value.backing()) != null) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": the value lies in memory of an arena that can be closed while "
          + "other code has it: copyTo makes one of its own");
    }
  }
}
