package io.github.iobind.api;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Exchanges values with other native code of the process, by address and without a copy, and provides ONNX Runtime's own
 * objects. For streams of other libraries see {@link OrtStreamFFM#wrap}, for their sessions {@link OrtSessionFFM#wrap}.
 */
public final class OrtInterop {
  /** How a tensor is exchanged by DLPack. */
  public enum Dlpack {
    /** A {@code DLManagedTensor}, as before DLPack 1.0. */
    LEGACY(Constants.DLPACK_LEGACY),
    /** For an import: host memory that is not dense and row-major is copied instead of refused. */
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
   * Exports a value to another library by DLPack 1.1. Wait for work on streams that writes the value, or order it by an event,
   * before the other library's work.
   *
   * @param value on any device; it may be closed after this
   * @param options LEGACY, or none for a {@code DLManagedTensorVersioned}
   * @return the address of the struct, which retains the memory until its deleter is called, by the other library or by the
   *     caller. The struct states whether the memory is read-only
   * @throws OrtFFMException NOT_SUPPORTED: DLPack cannot represent this memory or type (strings), or a LEGACY struct cannot
   *     represent a read-only value; INVALID_ARGUMENT: the value is in the caller's memory, whose arena could be closed
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
   * Imports a tensor of another library by DLPack. Wait for the work on streams that produces it, or order it by an event,
   * before the first use.
   *
   * @param runtime the runtime
   * @param managed the struct, of DLPack 1.x or, with LEGACY, before; ownership is transferred to the value, which calls its
   *     deleter, on any thread, when the memory is no longer used
   * @param options LEGACY, COPY_STRIDED
   * @return the value; calls that would write read-only memory are refused
   * @throws OrtFFMException VERSION: DLPack 2 or newer; WRONG_DEVICE: no device of the runtime has this memory; DTYPE; SHAPE:
   *     also strides that are not dense; NOT_SUPPORTED: strides on a device; INVALID_ARGUMENT. After an error the caller still
   *     owns the struct
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
   * Creates a value over an {@code OrtValue} of the same ONNX Runtime, in any memory, without a copy.
   *
   * @param runtime that of the OrtValue's ONNX Runtime
   * @param ortValue an {@code OrtValue *} that holds a tensor
   * @param released called once, on any thread, when the OrtValue is no longer used; it must not call this package, and may
   *     release the OrtValue. null: the OrtValue must outlive the value and every run that uses it
   * @return the value
   * @throws OrtFFMException NOT_SUPPORTED: it is not a tensor; WRONG_DEVICE: no device of the runtime has this memory; DTYPE;
   *     INVALID_ARGUMENT. After an error {@code released} is not called
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
   * Creates an {@code OrtValue} over a value's memory, without a copy (strings are copied). Wait for work on streams that
   * writes the value, or order it by an event, before the OrtValue is used.
   *
   * @param value on any device; it may be closed after this
   * @return an {@code OrtValue *}, which retains the memory; the caller releases it by ONNX Runtime's {@code ReleaseValue}
   * @throws OrtFFMException NOT_SUPPORTED: the value is read-only; INVALID_ARGUMENT: it is in the caller's memory, whose arena
   *     could be closed
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
   * ONNX Runtime's function table, for other native code.
   *
   * @param runtime the runtime
   * @return a {@code const OrtApi *}, of the version {@link OrtRuntimeFFM#ortApiVersion}; valid as long as the runtime
   */
  public static MemorySegment ortApi(OrtRuntimeFFM runtime) {
    return ort(runtime, "api");
  }

  /**
   * ONNX Runtime's environment.
   *
   * @param runtime the runtime
   * @return an {@code OrtEnv *}, not to be released; valid as long as the runtime
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
   * A session's {@code OrtSession}. If the session captures graphs or has a stream, its runs by ONNX Runtime itself must not
   * overlap runs of this package.
   *
   * @param session the session
   * @return an {@code OrtSession *}, not to be released; valid as long as the session
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
