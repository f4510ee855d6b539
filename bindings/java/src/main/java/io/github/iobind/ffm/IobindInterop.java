package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.ENUM;
import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of interop.h. As {@link Iobind}. */
public final class IobindInterop {
  private IobindInterop() {}

  /** Has the functions found. */
  static void load() {}

  // ---- streams and events of other libraries

  private static final MethodHandle STREAM_WRAP = status("iobind_stream_wrap", OBJECT, MEMORY, MEMORY, OBJECT, OBJECT, OBJECT);

  /** {@code iobind_stream_wrap}. */
  public static int streamWrap(long device, MemorySegment handle, MemorySegment deleter, long context, long stream, long error) {
    try {
      return (int) STREAM_WRAP.invokeExact(device, handle, deleter, context, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_WAIT_NATIVE = status("iobind_stream_wait_native", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_stream_wait_native}. */
  public static int streamWaitNative(long stream, MemorySegment event, long error) {
    try {
      return (int) STREAM_WAIT_NATIVE.invokeExact(stream, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_SIGNAL_NATIVE = status("iobind_stream_signal_native", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_stream_signal_native}. */
  public static int streamSignalNative(long stream, MemorySegment event, long error) {
    try {
      return (int) STREAM_SIGNAL_NATIVE.invokeExact(stream, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_GET_NATIVE = status("iobind_stream_get_native", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_stream_get_native}. */
  public static int streamGetNative(long stream, MemorySegment handle, long error) {
    try {
      return (int) STREAM_GET_NATIVE.invokeExact(stream, handle, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- tensors

  private static final MethodHandle TENSOR_TO_DLPACK = status("iobind_tensor_to_dlpack", OBJECT, ENUM, OBJECT, OBJECT);

  /** {@code iobind_tensor_to_dlpack}. */
  public static int tensorToDlpack(long tensor, int flags, long managed, long error) {
    try {
      return (int) TENSOR_TO_DLPACK.invokeExact(tensor, flags, managed, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_FROM_DLPACK = status("iobind_tensor_from_dlpack", OBJECT, MEMORY, ENUM, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_from_dlpack}. */
  public static int tensorFromDlpack(long runtime, MemorySegment managed, int flags, long tensor, long error) {
    try {
      return (int) TENSOR_FROM_DLPACK.invokeExact(runtime, managed, flags, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_WRAP_ORT = status("iobind_tensor_wrap_ort", OBJECT, MEMORY, MEMORY, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_wrap_ort}. */
  public static int tensorWrapOrt(long runtime, MemorySegment value, MemorySegment deleter, long context, long tensor, long error) {
    try {
      return (int) TENSOR_WRAP_ORT.invokeExact(runtime, value, deleter, context, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_TO_ORT = status("iobind_tensor_to_ort", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_tensor_to_ort}. */
  public static int tensorToOrt(long tensor, long value, long error) {
    try {
      return (int) TENSOR_TO_ORT.invokeExact(tensor, value, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- ONNX Runtime's own objects

  private static final MethodHandle RUNTIME_GET_ORT = status("iobind_runtime_get_ort", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_runtime_get_ort}. */
  public static int runtimeGetOrt(long runtime, MemorySegment ort, long error) {
    try {
      return (int) RUNTIME_GET_ORT.invokeExact(runtime, ort, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_ORT = Iobind.find("iobind_session_get_ort", FunctionDescriptor.of(OBJECT, OBJECT));

  /** {@code iobind_session_get_ort}. */
  public static long sessionGetOrt(long session) {
    try {
      return (long) SESSION_GET_ORT.invokeExact(session);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_WRAP = status("iobind_session_wrap", OBJECT, OBJECT, MEMORY, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_session_wrap}. */
  public static int sessionWrap(long runtime, long ortSession, MemorySegment deleter, long context, long session, long error) {
    try {
      return (int) SESSION_WRAP.invokeExact(runtime, ortSession, deleter, context, session, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- NVIDIA's libraries

  private static final MethodHandle PRELOAD = status("iobind_preload", MEMORY, OBJECT);

  /** {@code iobind_preload}. */
  public static int preload(MemorySegment options, long error) {
    try {
      return (int) PRELOAD.invokeExact(options, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
